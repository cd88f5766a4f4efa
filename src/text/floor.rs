//! What a training cannot do without of memory, from the shapes of its tensors.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::checkpoint::{Checkpoint, EncoderConfig, needed};
use super::prepare;
use super::tokens::Tokenised;
use config::StudySpec;
use device::Device;
use memory::Floor;
use search::space::{Params, Value};
use training::split::Round;

/// Bytes of a number: everything is computed in 32-bit floats.
const FLOAT: u64 = 4;

/// What a training's tensors depend on beside the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Rows that are computed at once.
    pub batch: u64,
    /// Tokens of the longest of them: all are padded to it.
    pub length: u64,
    /// Frozen blocks; from 1 on the embeddings are frozen too.
    pub frozen: u64,
    /// Whether hidden states are dropped out.
    pub dropout: bool,
    /// Whether a block keeps its input alone and computes the rest again in the backward pass.
    pub checkpointing: bool,
    /// Bytes that a block holds in the passes without gradients: validation, and what frozen blocks make of all rows.
    pub passing: u64,
}

/// Bytes that a batch of a pass without gradients may hold in a block on a GPU, so that it is not these
/// passes that decide what fits.
const PASS: u64 = 512 << 20;

/// Tokens of a batch, padding included, in the passes that no trial changes; `length` is that of the longest
/// row. On a CPU a batch's intermediate values should fit into the caches; a GPU wants to be filled.
pub fn pass_tokens(on_gpu: bool, model: &EncoderConfig, length: u64) -> u64 {
    match on_gpu {
        true => (PASS / transient(model, length)).clamp(1024, 32_768),
        false => 1024,
    }
}

/// Bytes a token that a block holds at once without gradients: its input and the wide layer's values before
/// and behind the nonlinearity; or its input, query, key, value and result, and DeBERTa's scores of contents, of
/// positions, and their sum.
fn transient(model: &EncoderConfig, length: u64) -> u64 {
    let (hidden, wide) = (model.hidden_size as u64, model.intermediate_size as u64);
    let scores = match model.disentangled {
        Some(_) => 3 * model.num_attention_heads as u64 * length,
        None => 0,
    };
    FLOAT * (hidden + 2 * wide).max(5 * hidden + scores)
}

/// The sum of three parts:
///
/// * the encoder as its checkpoint has it: 4 bytes a parameter;
/// * the trial's copy of what it trains and AdamW's two moments: 12 bytes a parameter (Rajbhandari et
///   al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", 2020, section 3.1,
///   without the half-precision copies);
/// * the largest of the gradients (4 bytes), of what is kept for the backward pass, which makes
///   the ones while it frees the other, and of what a pass without gradients holds.
///
/// Of each token a trained block keeps its input, query, key and value, what attention gives, the
/// inputs of both norms and of the wide layer (8 times the hidden size), the wide layer's values
/// before and behind the nonlinearity (twice the intermediate size), and a byte for each value that
/// dropout looked at (Korthikanti et al., "Reducing Activation Recomputation in Large Transformer
/// Models", 2022, section 4.1). Attention's scores are computed again by libtorch's kernels, but for
/// one number a head and token; DeBERTa keeps them, one a head and pair of tokens. With checkpointing a
/// block keeps its input, and one of them all.
pub fn bytes(model: &EncoderConfig, sizes: Sizes) -> u64 {
    let (hidden, wide) = (model.hidden_size as u64, model.intermediate_size as u64);
    let layers = model.num_hidden_layers as u64;
    let trained_layers = layers.saturating_sub(sizes.frozen);
    let (mut tables, mut blocks) = (0, 0);
    for tensor in needed(model) {
        let count: u64 = tensor.shape.iter().map(|d| *d as u64).product();
        // What blocks share is trained with the tables, and frozen with them.
        match tensor.name.starts_with("encoder.layer.") {
            true => blocks += count,
            false => tables += count,
        }
    }
    let trained = match sizes.frozen {
        0 => tables + blocks,
        _ => blocks / layers.max(1) * trained_layers,
    };
    let heads = model.num_attention_heads as u64;
    let scores = match model.disentangled {
        Some(_) => heads * sizes.length,
        None => heads,
    };
    let dropped = if sizes.dropout { 2 * hidden } else { 0 };
    let block = FLOAT * (8 * hidden + 2 * wide + scores) + dropped;
    let kept = match sizes.checkpointing {
        true => FLOAT * hidden * trained_layers + block * trained_layers.min(1),
        false => block * trained_layers,
    };
    let backward = (FLOAT * trained).max(sizes.batch * sizes.length * kept);
    FLOAT * (tables + blocks) + 3 * FLOAT * trained + backward.max(sizes.passing)
}

/// A model, and the rows as it reads them.
struct ModelRows {
    config: EncoderConfig,
    train: Lengths,
    validation: Lengths,
    /// Both.
    all: Lengths,
}

/// Rows by their lengths in tokens.
struct Lengths {
    /// The shortest first.
    sorted: Vec<u64>,
    /// Tokens of the first so many of them, from none to all.
    sums: Vec<u64>,
}

impl Lengths {
    fn new(lengths: impl Iterator<Item = u64>) -> Lengths {
        let mut sorted: Vec<u64> = lengths.collect();
        sorted.sort_unstable();
        let mut sums = vec![0];
        sums.extend(sorted.iter().scan(0, |sum, length| {
            *sum += length;
            Some(*sum)
        }));
        Lengths { sorted, sums }
    }

    /// Tokens of the longest row, where rows are cut off at a length.
    fn longest(&self, cut: u64) -> u64 {
        self.sorted.last().map_or(0, |longest| cut.min(*longest))
    }

    /// Tokens of all rows, where they are cut off at a length.
    fn tokens(&self, cut: u64) -> u64 {
        let whole = self.sorted.partition_point(|length| *length < cut);
        self.sums[whole] + (self.sorted.len() - whole) as u64 * cut
    }

    /// Bytes that a block holds in a pass over these rows.
    fn passing(&self, on_gpu: bool, model: &EncoderConfig, cut: u64) -> u64 {
        let length = self.longest(cut);
        let batch = pass_tokens(on_gpu, model, length).min(self.tokens(cut));
        batch * transient(model, length)
    }
}

/// Of a study that was prepared; `None` where data or checkpoints can no longer be read.
pub fn floor(spec: &StudySpec, device: Device) -> Option<Arc<Floor>> {
    let (data, split) = prepare::load(spec).ok()?;
    // Of several models the one with the most rows; each row is trained on in one of them.
    let rounds = split.rounds();
    let most = rounds.iter().map(|round| round.train.len()).max();
    // With folds, each row validates in one of them: the first stands for all.
    let Round { train, validation } = rounds.into_iter().next()?;
    let mut models = BTreeMap::new();
    for value in spec.possible("model.name") {
        let name = value.as_str()?;
        let checkpoint = Checkpoint::named(name, &spec.models).ok()?;
        let tokens = Tokenised::new(&checkpoint.dir, &data.rows).ok()?;
        let length = |row: &usize| tokens.full[*row].ids.len() as u64;
        let read = ModelRows {
            config: checkpoint.config,
            train: Lengths::new(train.iter().map(length)),
            validation: Lengths::new(validation.iter().map(length)),
            all: Lengths::new(train.iter().chain(&validation).map(length)),
        };
        models.insert(name.to_owned(), read);
    }
    let (rows, on_gpu) = (most.unwrap_or(0) as u64, device != Device::Cpu);
    Some(Arc::new(move |config: &Params| {
        let read = models.get(config.get("model.name")?.as_str()?)?;
        let size = |key: &str| u64::try_from(config.get(key)?.as_i64()?).ok();
        let dropout = config.get("model.dropout").and_then(Value::as_f64);
        let frozen = size("train.freeze_encoder_layers")?;
        let cut = size("tok.max_length")?;
        let passed = match frozen {
            0 => &read.validation,
            1.. => &read.all,
        };
        let sizes = Sizes {
            batch: size("train.batch_size")?.min(rows),
            length: read.train.longest(cut),
            frozen,
            passing: passed.passing(on_gpu, &read.config, cut),
            dropout: dropout.is_some_and(|p| p > 0.0),
            checkpointing: config.get("train.grad_checkpointing") == Some(&Value::Bool(true)),
        };
        Some(bytes(&read.config, sizes))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TextClassification;
    use crate::testing::{TinyProject, tiny_config};
    use task::Preparation;

    const SIZES: Sizes = Sizes {
        batch: 3,
        length: 5,
        frozen: 0,
        dropout: false,
        checkpointing: false,
        passing: 0,
    };

    fn tiny() -> EncoderConfig {
        serde_json::from_value(tiny_config()).unwrap()
    }

    #[test]
    fn each_part_has_the_size_that_its_shapes_say() {
        let (model, floats) = (tiny(), |bytes: u64| bytes / FLOAT);
        let of = |sizes| floats(bytes(&model, sizes));
        let tables = (20 + 64 + 2 + 2) * 16;
        let block = 4 * (16 * 16 + 16) + 2 * 16 * 32 + 32 + 16 + 4 * 16;
        let all = tables + 2 * block;
        assert_eq!(model.parameters() as u64, all);
        let tokens = 15 * (8 * 16 + 2 * 32 + 2);
        assert!(all > 2 * tokens && block < tokens);
        assert_eq!(of(SIZES), 5 * all);
        let longer = Sizes {
            length: 50,
            ..SIZES
        };
        assert_eq!(of(longer), 4 * all + 20 * tokens);
        let half = Sizes { frozen: 1, ..SIZES };
        assert_eq!(of(half), all + 3 * block + tokens);
        let frozen = Sizes { frozen: 2, ..SIZES };
        assert_eq!(of(frozen), all);
        let again = Sizes {
            checkpointing: true,
            ..longer
        };
        assert_eq!(of(again), 4 * all + 10 * tokens + 2 * 150 * 16);
    }

    #[test]
    fn a_pass_without_gradients_counts_where_it_holds_more_than_the_way_back() {
        let model = tiny();
        let with = |passing| bytes(&model, Sizes { passing, ..SIZES });
        let gradients = FLOAT * model.parameters() as u64;
        assert_eq!(with(gradients), bytes(&model, SIZES));
        assert_eq!(with(gradients + 7), bytes(&model, SIZES) + 7);
        // The block's input, query, key, value and result: 80 floats a token of width 16.
        assert_eq!(transient(&model, 5), FLOAT * 80);
    }

    #[test]
    fn passes_on_a_gpu_are_as_wide_as_half_a_gibibyte_lets_them() {
        let config = |changes: &[(&str, serde_json::Value)]| -> EncoderConfig {
            let mut json = tiny_config();
            for (key, value) in changes {
                json[*key] = value.clone();
            }
            serde_json::from_value(json).unwrap()
        };
        let large = [
            ("hidden_size", 1024.into()),
            ("intermediate_size", 4096.into()),
            ("num_attention_heads", 16.into()),
        ];
        let deberta = [
            ("model_type", serde_json::json!("deberta-v2")),
            ("relative_attention", true.into()),
            ("pos_att_type", "c2p|p2c".into()),
            ("share_att_key", true.into()),
            ("position_buckets", 8.into()),
            ("position_biased_input", false.into()),
        ];
        let (bert, deberta) = (config(&large), config(&[&large[..], &deberta].concat()));
        let of = |model, length| pass_tokens(true, model, length);
        assert_eq!(of(&bert, 512), (512 << 20) / (4 * (1024 + 2 * 4096)));
        assert_eq!(of(&deberta, 512) / 512, 8, "rows");
        assert_eq!(of(&tiny(), 64), 32_768);
        assert_eq!(pass_tokens(false, &bert, 512), 1024);
    }

    #[test]
    fn rows_count_up_to_where_they_are_cut_off() {
        let lengths = Lengths::new([2, 5, 5, 1].into_iter());
        let cut = [0, 1, 2, 3, 4, 5, 90].map(|cut| (lengths.longest(cut), lengths.tokens(cut)));
        let expected = [(0, 0), (1, 4), (2, 7), (3, 9), (4, 11), (5, 13), (5, 13)];
        assert_eq!(cut, expected);
        let model = tiny();
        assert_eq!(lengths.passing(true, &model, 3), 9 * transient(&model, 3));
        let none = Lengths::new([].into_iter());
        assert_eq!(none.passing(true, &model, 3), 0);
    }

    #[test]
    fn deberta_keeps_its_scores_and_trains_what_blocks_share_with_the_tables() {
        let mut json = tiny_config();
        for (key, value) in [
            ("model_type", serde_json::json!("deberta-v2")),
            ("relative_attention", true.into()),
            ("position_buckets", 8.into()),
            ("pos_att_type", "c2p|p2c".into()),
            ("share_att_key", true.into()),
            ("position_biased_input", false.into()),
        ] {
            json[key] = value;
        }
        let (bert, deberta) = (tiny(), serde_json::from_value(json).unwrap());
        let extra = |sizes| bytes(&deberta, sizes).abs_diff(bytes(&bert, sizes)) / FLOAT;
        let long = Sizes {
            length: 50,
            ..SIZES
        };
        // 16 rows of relative positions for 64 of absolute ones, four times; two heads' scores in each of
        // two blocks.
        assert_eq!(extra(long), 150 * 2 * (2 * 50 - 2) - 4 * (64 - 16) * 16);
        let frozen = Sizes { frozen: 2, ..long };
        assert_eq!(extra(frozen), (64 - 16) * 16);
    }

    /// By `tests/memory/record.py`: real trainings on a CPU, a process each.
    #[test]
    fn recorded_trainings_used_more_than_their_floor_and_less_than_twice_as_much() {
        let text = include_str!("../../tests/memory/peaks.csv");
        let rows = text
            .lines()
            .skip(1)
            .map(|line| line.split(',').collect::<Vec<&str>>());
        let rows: Vec<Vec<&str>> = rows.collect();
        let peak = |row: &[&str]| row[10].parse::<f64>().unwrap();
        let idle = peak(&rows[0]);
        let mut ratios: Vec<f64> = Vec::new();
        for row in &rows[1..] {
            let number = |i: usize| row[i].parse::<u64>().unwrap();
            let model: EncoderConfig = serde_json::from_value(serde_json::json!({
                "model_type": "bert", "num_hidden_layers": number(1), "hidden_size": number(2),
                "num_attention_heads": number(3), "intermediate_size": number(4),
                "vocab_size": number(5), "max_position_embeddings": number(6), "hidden_act": "gelu",
            }))
            .unwrap();
            let sizes = Sizes {
                batch: number(7),
                length: number(8),
                frozen: number(9),
                dropout: true,
                checkpointing: false,
                // Too few rows at once on a CPU to count.
                passing: 0,
            };
            let floor = bytes(&model, sizes) as f64 / f64::from(1 << 20);
            let ratio = (peak(row) - idle) / floor;
            assert!((1.0..2.1).contains(&ratio), "{row:?}: {floor:.0} MiB");
            ratios.push(ratio);
        }
        ratios.sort_by(f64::total_cmp);
        let median = ratios[ratios.len() / 2];
        assert!((1.0..1.4).contains(&median), "{median}");
    }

    #[test]
    fn rows_are_as_long_and_batches_as_large_as_the_data_lets_them() {
        let site = TinyProject::new();
        let floor = TextClassification.floor(&site.spec, Device::Cpu).unwrap();
        let with = |changes: &[(&str, i64)]| {
            let mut config = site.spec.fixed.clone();
            config.extend(changes.iter().map(|(k, v)| (k.to_string(), (*v).into())));
            floor(&config).unwrap()
        };
        let base = with(&[]);
        // The texts have 11 tokens at most, the training split has 96 of 120 rows.
        assert_eq!(with(&[("tok.max_length", 11)]), base);
        assert!(with(&[("tok.max_length", 10)]) < base);
        assert!(with(&[("train.batch_size", 17)]) > base);
        let all = with(&[("train.batch_size", 96)]);
        assert_eq!(with(&[("train.batch_size", 512)]), all);
        assert!(with(&[("train.freeze_encoder_layers", 1)]) < base);
        let mut again = site.spec.fixed.clone();
        again.insert("train.batch_size".into(), 96.into());
        again.insert("train.grad_checkpointing".into(), true.into());
        assert!(floor(&again).unwrap() < all);
        let mut unknown = site.spec.fixed.clone();
        unknown.insert("model.name".into(), "another".into());
        assert_eq!(floor(&unknown), None);
    }
}
