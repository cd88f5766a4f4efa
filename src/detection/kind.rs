//! Task kind `text-detection` before training: pages are read, checked and divided.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Arc;

use rayon::ThreadPoolBuilder;
use rayon::prelude::*;
use serde_json::{Map, Value as Json};

use crate::description::{Backbone, Description, Network};
use crate::example::{Example, Showing, augmentation};
use crate::made_up;
use crate::page::Pages;
use crate::read::{Placement, read};
use crate::start;
use config::kinds::detection::KIND;
use config::kinds::shared::FREEZE;
use config::{Baseline, Prepared, Problems, StudySpec, TaskKind};
use device::Device;
use memory::Floor;
use search::space::{Params, Value};
use search::study::rng;
use task::{
    ExportedModel, ModelParts, Preparation, ReadRows, TrainedModel, TrainingRows, TrialSpec,
};
use training::division::{self, data_path, differs, read_from, rows_differ};
use training::exported::export;
use training::leakage::groups_apart;
use training::split::Split;

/// The kind.
pub struct TextDetection;

/// The parts of a network, in the order of a pass: the first convolution, the stages of the encoder, the feature pyramid,
/// and the head with its two maps.
pub const PARTS: [&str; 7] = [
    "stem", "layer.1", "layer.2", "layer.3", "layer.4", "pyramid", "head",
];

/// Pages that are read at most to see whether reading works.
const READ: usize = 256;

/// Reads the pages and divides them; no picture is opened.
///
/// # Errors
/// See [`division::load`].
pub fn load(spec: &StudySpec) -> Result<(Pages, Split), Problems> {
    let read = |path: &Path| read(path, Placement::of(&spec.fixed));
    division::load(spec, &read, |pages: &Pages| &pages.samples, &|_| None)
}

/// The trivial answer, by every metric but the loss.
pub fn finds_nothing() -> Baseline {
    Baseline {
        value: 0.0,
        what: "finding no text".to_owned(),
    }
}

impl Preparation for TextDetection {
    fn kind(&self) -> &'static TaskKind {
        &KIND
    }

    fn prepare(&self, spec: &StudySpec) -> Result<Prepared, Problems> {
        let ((pages, split), start) = match (load(spec), start::fingerprint(spec)) {
            (Ok(loaded), Ok(start)) => (loaded, start),
            (loaded, start) => {
                let of = |problems: Option<Problems>| problems.into_iter().flat_map(|p| p.0);
                return Err(Problems(of(loaded.err()).chain(of(start.err())).collect()));
            }
        };
        let (fingerprint, mut problems) = match pages.examine() {
            Ok(fingerprint) => (fingerprint, Vec::new()),
            Err(found) => (String::new(), found.0),
        };
        let sets = split.sets();
        problems.extend(groups_apart(data_path(spec), &pages.samples, &sets));
        Problems(problems).or(())?;
        let metric = spec.objective.metric.as_str();
        // Who finds nothing has none of them; nothing is known of the loss.
        let trivial = |_| (metric != "loss").then(finds_nothing);
        let columns = ("pages", &split);
        let mut prepared = division::prepared(spec, &pages.samples, columns, fingerprint, &trivial);
        let truths = || pages.pages.iter().flat_map(|page| &page.truths);
        let ignored = truths().filter(|truth| truth.ignored).count();
        let fact = format!("{} texts, {ignored} of them ignored", truths().count());
        prepared.facts.push(("data".into(), fact));
        prepared.fingerprints.extend(start);
        Ok(prepared)
    }

    fn unchanged(
        &self,
        spec: &StudySpec,
        identity: &Map<String, Json>,
        _config: &Params,
    ) -> Result<(), Problems> {
        let (pages, split) = load(spec)?;
        let rows = rows_differ(spec, identity, (&pages.examine()?, &split));
        let weights = start::fingerprint(spec)?.and_then(|(key, now)| {
            let file = spec.fixed.get(&key)?.as_str()?;
            differs(identity, (Path::new(file), &key), "the weights have", &now)
        });
        Problems(rows.into_iter().chain(weights).collect()).or(())
    }

    fn training_rows(&self, spec: &StudySpec) -> Result<Option<TrainingRows>, Problems> {
        let (pages, split) = load(spec)?;
        Ok(Some(division::training_rows(spec, &pages.samples, &split)))
    }

    fn parts(&self, spec: &StudySpec) -> ModelParts {
        let losses = spec.possible("loss.prob.type");
        let losses = losses.iter().filter_map(Value::as_str);
        ModelParts {
            parts: PARTS.iter().rev().map(|part| (*part).to_owned()).collect(),
            losses: losses
                .chain(["threshold", "binary"])
                .map(str::to_owned)
                .collect(),
        }
    }

    fn read_all(
        &self,
        spec: &StudySpec,
        threads: usize,
        at: &dyn Fn(&str),
    ) -> anyhow::Result<ReadRows> {
        at("what is told of the pages");
        let (pages, split) = load(spec)?;
        let trial = TrialSpec::of_defaults(spec, spec.seed);
        let (showing, augment) = (Showing::of(&trial)?, augmentation(&trial)?);
        let train = split.rounds().into_iter().next().map(|round| round.train);
        let train = train.unwrap_or_default();
        let train = &train[..train.len().min(READ)];
        at("their pictures and labels");
        let read = |k: usize| {
            let mut rng = rng(trial.seed, k as u64, "page");
            let augment = Some((&augment, &mut rng));
            let example = Example::of(&pages.pages[train[k]], &showing, augment)?;
            let mut hasher = DefaultHasher::new();
            example.pixels.hash(&mut hasher);
            let labels = example.labels.planes.iter();
            labels.for_each(|value| value.to_bits().hash(&mut hasher));
            Ok(hasher.finish())
        };
        let checksums: anyhow::Result<Vec<u64>> = match threads {
            0 => (0..train.len()).map(read).collect(),
            threads => {
                let pool = ThreadPoolBuilder::new().num_threads(threads).build()?;
                pool.install(|| (0..train.len()).into_par_iter().map(read).collect())
            }
        };
        let mut all = DefaultHasher::new();
        checksums?.hash(&mut all);
        Ok(ReadRows {
            checksum: all.finish(),
            what: format!("{} pages with their labels", train.len()),
        })
    }

    fn make_up(&self, spec: &mut StudySpec, dir: &Path) -> anyhow::Result<()> {
        let trial = TrialSpec::of_defaults(spec, 0);
        let side = Showing::of(&trial)?.size as u32;
        read_from(spec, &made_up::write(dir, side)?);
        Ok(())
    }

    fn export(
        &self,
        _spec: &StudySpec,
        model: &TrainedModel<'_>,
        to: (&Path, bool),
        told: &mut dyn FnMut(u64),
    ) -> anyhow::Result<ExportedModel> {
        export::<Description>(model, to, told)
    }

    fn floor(&self, _spec: &StudySpec, _device: Device) -> Option<Arc<Floor>> {
        Some(Arc::new(floor))
    }
}

/// Weights, gradients and AdamW's two moments; a batch's pictures and labels; and the states that its first convolution and
/// the batch norm behind it keep for the backward pass: 4 bytes each, of states in bf16 2. Of a network that is frozen in part,
/// all weights and nothing else of the first layers.
fn floor(config: &Params) -> Option<u64> {
    let size = |key: &str| usize::try_from(config.get(key)?.as_i64()?).ok();
    let network = Network {
        backbone: Backbone::of(config.get("model.backbone")?.as_str()?)?,
        width: config.get("model.width")?.as_f64()?,
        fpn_width: size("model.fpn_width")?.next_multiple_of(4),
    };
    let side = size("input.size")?.next_multiple_of(32);
    let pixels = size("train.batch_size")? * side * side;
    let first = 2 * network.widths()[0] / 4;
    let half = config.get("train.precision")?.as_str()? == "bf16";
    let (copies, kept) = match (size(FREEZE)?, half) {
        (0, false) => (4, first),
        (0, true) => (4, first / 2),
        (_, _) => (1, 0),
    };
    Some(4 * (copies * network.parameters() + pixels * (3 + 4 + kept)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use training::testing::study_of;

    #[test]
    fn pages_of_one_group_in_two_parts_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = made_up::write(dir.path(), 64).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        let placed = |(k, line): (usize, &str)| {
            let part = ["train", "train", "val", "test"][k % 4];
            let place = format!("{{\"book\": \"b{}\", \"part\": \"{part}\", ", k / 2);
            line.replacen('{', &place, 1) + "\n"
        };
        let lines: String = text.lines().enumerate().map(placed).collect();
        std::fs::write(&file, lines).unwrap();
        let mut spec = study_of(&KIND, "hmean");
        let keys = [
            ("data.path", file.as_str()),
            ("data.split.column", "part"),
            ("data.group", "book"),
        ];
        for (key, value) in keys {
            spec.fixed.insert(key.to_owned(), value.into());
        }
        let text = TextDetection.prepare(&spec).unwrap_err().to_string();
        assert!(
            text.contains("pages.jsonl:3: data.group: found 6 groups in two parts"),
            "{text}"
        );
        spec.fixed.remove("data.group");
        TextDetection.prepare(&spec).unwrap();
    }
}
