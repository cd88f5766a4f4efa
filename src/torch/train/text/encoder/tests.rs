//! Parity with transformers, on random checkpoints that it wrote (`tests/reference/make_encoders.py`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use tch::{Device, Kind};

use super::*;
use crate::train::text::TextTask;
use ::text::checkpoint::{Architecture, Checkpoint, needed};
use ::text::testing::{TinyProject, tiny_config, write_tiny};
use search::space::Value;
use search::study::Purpose;
use task::{Decision, Metrics, Reporter, TrialSpec};

/// The checkpoints that are kept.
fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/reference/encoders")
}

/// Loads the checkpoint of a folder, which has no tokeniser.
fn load(folder: &Path) -> Encoder {
    let dir = tempfile::tempdir().unwrap();
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(folder.join(file), dir.path().join(file)).unwrap();
    }
    std::fs::write(dir.path().join("tokenizer.json"), "{}").unwrap();
    let checkpoint = Checkpoint::open("random", dir.path()).unwrap();
    Encoder::load(&checkpoint, Device::Cpu).unwrap()
}

/// What transformers answered for it.
fn reference(folder: &Path) -> BTreeMap<String, Tensor> {
    let bytes = std::fs::read(folder.join("reference.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let tensor = |view: safetensors::tensor::TensorView| {
        let shape: Vec<i64> = view.shape().iter().map(|d| *d as i64).collect();
        let kind = if view.dtype() == safetensors::Dtype::F32 {
            Kind::Float
        } else {
            Kind::Int
        };
        Tensor::f_from_data_size(view.data(), &shape, kind).unwrap()
    };
    file.tensors()
        .into_iter()
        .map(|(name, view)| (name, tensor(view)))
        .collect()
}

/// A model that shares nothing with the encoder and records gradients.
fn trainable(encoder: &Encoder) -> Encoder {
    let mut own = |_: String, t: &Tensor, _: bool| Ok(t.copy().set_requires_grad(true));
    Encoder {
        config: encoder.config.clone(),
        embeddings: encoder.embeddings.map(&mut own).unwrap(),
        blocks: encoder
            .blocks
            .iter()
            .enumerate()
            .map(|(at, b)| b.map(at, &mut own).unwrap())
            .collect(),
        first_token: encoder
            .first_token
            .as_ref()
            .map(|l| l.map("pooler.dense", &mut own).unwrap()),
    }
}

/// `last_hidden_state` with gradients, from one of the reference's inputs.
fn answer(encoder: &Encoder, reference: &BTreeMap<String, Tensor>, case: &str) -> Tensor {
    let (config, none) = (&encoder.config, Dropouts::default());
    let ids = &reference[&format!("{case}.ids")];
    let types = reference.get(&format!("{case}.types"));
    let mask = reference[&format!("{case}.mask")].to_kind(Kind::Bool);
    let padded = mask.logical_not().any().int64_value(&[]) == 1;
    let mask = padded.then(|| mask.unsqueeze(1).unsqueeze(1));
    let length = ids.size()[1];
    let embeddings = &encoder.embeddings;
    let context = embeddings.context(length, mask.as_ref(), config).unwrap();
    let mut x = embeddings
        .forward(ids, types, &context, config, none)
        .unwrap();
    for block in &encoder.blocks {
        x = block.forward(&x, &context, config, none).unwrap();
    }
    x
}

fn off(found: &Tensor, expected: &Tensor) -> f64 {
    assert_eq!(found.size(), expected.size());
    let off = (found - expected).abs().max().double_value(&[]);
    assert!(off.is_finite());
    off
}

/// The largest deviations of a checkpoint: of hidden states, of what is pooled, and of gradients, each
/// of those in relation to the largest one of its tensor; and the name of the tensor where that is.
fn deviations(folder: &Path) -> ([f64; 3], String) {
    let (encoder, reference) = (trainable(&load(folder)), reference(folder));
    let [mut hidden, mut pooled, mut gradient] = [0.0f64; 3];
    for case in ["short", "long"] {
        let last = answer(&encoder, &reference, case);
        hidden = hidden.max(off(&last, &reference[&format!("{case}.last")]));
        let found = encoder.pooler(&last).unwrap();
        let expected = reference.get(&format!("{case}.pooled"));
        assert_eq!(found.is_some(), expected.is_some());
        if let (Some(found), Some(expected)) = (found, expected) {
            pooled = pooled.max(off(&found, expected));
        }
    }
    let last = answer(&encoder, &reference, "long");
    let inside = reference["long.mask"].to_kind(Kind::Bool).unsqueeze(2);
    let mut loss = last
        .masked_select(&inside)
        .pow_tensor_scalar(3)
        .mean(Kind::Float);
    if let Some(pooled) = encoder.pooler(&last).unwrap() {
        loss += pooled.pow_tensor_scalar(3).mean(Kind::Float);
    }
    loss.backward();
    let gradients: Vec<Parameter> = encoder
        .parameters()
        .into_iter()
        .map(|p| Parameter {
            tensor: p.tensor.grad(),
            ..p
        })
        .collect();
    let named = hugging_face_tensors(&gradients, &encoder.config).unwrap();
    let found: BTreeMap<String, Tensor> = named.into_iter().collect();
    let largest = |t: &Tensor| t.abs().max().double_value(&[]);
    let expected = reference
        .iter()
        .filter_map(|(name, t)| Some((name.strip_prefix("grad.")?, t)));
    let expected: Vec<(&str, &Tensor)> = expected.collect();
    let scale = expected.iter().map(|(_, t)| largest(t)).fold(0.0, f64::max);
    let mut place = String::new();
    for (name, expected) in expected {
        // A key's bias moves nothing: what its gradient holds is rounding.
        if name.starts_with("pooler.") || name.ends_with("self.key.bias") {
            continue;
        }
        let of = largest(expected).max(1e-3 * scale);
        let by = off(&found[name], expected) / of;
        if by > gradient {
            (gradient, place) = (by, name.to_owned());
        }
    }
    ([hidden, pooled, gradient], place)
}

#[test]
fn every_encoder_answers_and_learns_as_in_transformers() {
    tch::set_num_threads(1);
    let mut folders: Vec<PathBuf> = std::fs::read_dir(kept())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    folders.sort();
    let mut seen = Vec::new();
    for folder in &folders {
        let ([hidden, pooled, gradient], place) = deviations(folder);
        assert!(hidden < 1e-4, "{}: hidden {hidden}", folder.display());
        assert!(pooled < 1e-4, "{}: pooled {pooled}", folder.display());
        assert!(
            gradient < 1e-3,
            "{}: gradient of {place} {gradient}",
            folder.display()
        );
        seen.push(load(folder).config.architecture);
    }
    for architecture in Architecture::ALL {
        assert!(seen.contains(architecture), "{architecture:?}");
    }
}

/// Beside the folders it leaves `deviations.txt`, the largest ones by architecture.
#[test]
#[ignore = "compares folders that make_encoders.py --random wrote, named by TUNE_ENCODERS"]
fn random_shapes_answer_and_learn_as_in_transformers() {
    tch::set_num_threads(1);
    let all = PathBuf::from(std::env::var_os("TUNE_ENCODERS").unwrap());
    let (mut bad, mut worst) = (Vec::new(), BTreeMap::new());
    for entry in std::fs::read_dir(&all).unwrap() {
        let folder = entry.unwrap().path();
        if !folder.is_dir() {
            continue;
        }
        let (found, place) = deviations(&folder);
        let architecture = load(&folder).config.architecture.name();
        let (count, worst) = worst.entry(architecture).or_insert((0, [0.0f64; 3]));
        *count += 1;
        for (worst, found) in worst.iter_mut().zip(found) {
            *worst = worst.max(found);
        }
        if !(found[0] < 1e-4 && found[1] < 1e-4 && found[2] < 1e-3) {
            bad.push((folder, found, place));
        }
    }
    let text = format!("{worst:#?}\n{bad:#?}\n");
    std::fs::write(all.join("deviations.txt"), text).unwrap();
    assert!(bad.is_empty() && !worst.is_empty(), "{bad:#?}");
}

#[test]
fn names_and_shapes_are_those_that_a_checkpoint_must_hold() {
    for entry in std::fs::read_dir(kept()).unwrap() {
        let encoder = load(&entry.unwrap().path());
        let config = &encoder.config;
        let named = hugging_face_tensors(&encoder.parameters(), config).unwrap();
        let mut found: Vec<(String, Vec<usize>)> = named
            .into_iter()
            .map(|(name, t)| (name, t.size().iter().map(|d| *d as usize).collect()))
            .collect();
        let mut expected: Vec<(String, Vec<usize>)> = needed(config)
            .into_iter()
            .map(|t| (t.name, t.shape))
            .collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{:?}", config.architecture);
    }
}

#[test]
fn dropout_of_attention_and_of_hidden_states_changes_answers_of_both_kinds_of_attention() {
    tch::set_num_threads(1);
    let _alone = crate::gpu::GENERATOR
        .lock()
        .unwrap_or_else(|e| e.into_inner());
    for name in ["bert", "deberta-v3"] {
        let folder = kept().join(name);
        let (encoder, reference) = (load(&folder), reference(&folder));
        let config = &encoder.config;
        let ids = &reference["short.ids"];
        let embeddings = &encoder.embeddings;
        let context = embeddings.context(ids.size()[1], None, config).unwrap();
        let none = Dropouts::default();
        let x = embeddings
            .forward(ids, None, &context, config, none)
            .unwrap();
        let with = |hidden, attention| {
            let dropouts = Dropouts { hidden, attention };
            encoder.blocks[0]
                .forward(&x, &context, config, dropouts)
                .unwrap()
        };
        let plain = with(0.0, 0.0);
        assert!(off(&plain, &with(0.0, 0.0)) == 0.0);
        assert!(off(&plain, &with(0.0, 0.5)) > 1e-3, "{name}");
        assert!(off(&plain, &with(0.5, 0.0)) > 1e-3, "{name}");
    }
}

#[test]
fn a_row_answers_the_same_alone_and_beside_longer_ones() {
    tch::set_num_threads(1);
    for name in ["roberta", "deberta-v3", "deberta-convolution"] {
        let folder = kept().join(name);
        let (encoder, reference) = (load(&folder), reference(&folder));
        let together = answer(&encoder, &reference, "long").detach();
        let blocks = encoder.blocks.len();
        for (row, length) in [(1, reference["long.ids"].size()[1] / 2), (2, 1)] {
            let ids = reference["long.ids"].narrow(0, row, 1).narrow(1, 0, length);
            let alone = encoder.prefix(&ids, None, None, blocks).unwrap();
            let found = together.narrow(0, row, 1).narrow(1, 0, length);
            assert!(off(&found, &alone) < 1e-4, "{name}, row {row}");
        }
    }
}

/// Does not look at what is reported.
struct Silent;

impl Reporter for Silent {
    fn step(&mut self) {}

    fn epoch(&mut self, _: u32, _: &Metrics) -> Result<Decision> {
        Ok(Decision::Continue)
    }
}

/// Configurations of one tiny encoder of each architecture.
fn tiny_encoders() -> Vec<serde_json::Value> {
    let with = |changes: serde_json::Value| {
        let mut config = tiny_config();
        for (key, value) in changes.as_object().unwrap() {
            config[key] = value.clone();
        }
        config
    };
    let deberta = serde_json::json!({
        "model_type": "deberta-v2", "relative_attention": true, "position_biased_input": false,
        "pos_att_type": "p2c|c2p", "norm_rel_ebd": "layer_norm", "share_att_key": true,
        "position_buckets": 4, "max_position_embeddings": 6, "type_vocab_size": 0,
    });
    let mut own = deberta.clone();
    for (key, value) in [
        ("share_att_key", false.into()),
        ("conv_kernel_size", 3.into()),
        ("embedding_size", 8.into()),
    ] {
        own[key] = value;
    }
    vec![
        with(serde_json::json!({"model_type": "roberta", "type_vocab_size": 1})),
        with(serde_json::json!({"model_type": "xlm-roberta", "hidden_act": "silu"})),
        with(serde_json::json!({"model_type": "electra", "embedding_size": 8})),
        with(deberta),
        with(own),
    ]
}

#[test]
fn every_parameter_of_every_encoder_is_trained_and_what_blocks_share_is_frozen_with_the_tables() {
    tch::set_num_threads(1);
    let _alone = crate::gpu::GENERATOR
        .lock()
        .unwrap_or_else(|e| e.into_inner());
    for config in tiny_encoders() {
        let mut site = TinyProject::new();
        site.set("tok.max_length", 16);
        write_tiny(&site.tiny(), 1, config.clone());
        let start: BTreeMap<String, Tensor> = load(&site.tiny())
            .parameters()
            .into_iter()
            .map(|p| (p.name, p.tensor))
            .collect();
        let mut task = TextTask::open(&site.spec, device::Device::Cpu).unwrap();
        let mut trained = |frozen: i64| {
            let mut keys = site.spec.fixed.clone();
            let changes = [
                ("train.epochs", Value::Int(1)),
                ("train.freeze_encoder_layers", frozen.into()),
                ("optim.lr", 1e-3.into()),
            ];
            keys.extend(changes.map(|(key, value)| (key.to_owned(), value)));
            let trial = TrialSpec {
                number: 0,
                purpose: Purpose::Search,
                attempt: 0,
                seed: 5,
                params: Default::default(),
                config: keys,
                halvings: 0,
                rehearse: None,
                rows: None,
            };
            task.train(&trial, &mut Silent).unwrap().parameters
        };
        let all = trained(0);
        let of_encoder = |p: &&Parameter| start.contains_key(&p.name);
        assert_eq!(all.iter().filter(of_encoder).count(), start.len());
        for parameter in all.iter().filter(of_encoder) {
            let before = &start[&parameter.name];
            assert!(
                !parameter.tensor.equal(before),
                "{config}: {} is as it was",
                parameter.name
            );
        }
        for parameter in trained(1).iter().filter(of_encoder) {
            let name = &parameter.name;
            assert!(name.starts_with("encoder.layer.1."), "{config}: {name}");
        }
    }
}
