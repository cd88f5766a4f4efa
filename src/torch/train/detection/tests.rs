//! Training a detector: what it learns, that it is the same each time, and that every key acts.

use std::collections::BTreeMap;
use std::path::Path;

use image::{Rgb, RgbImage};
use rand::RngExt;

use super::*;
use crate::train::fit::{FitSettings, Judgement, fit};
use crate::train::testing::{
    Recorder, Setting, Suite, alone, assert_diverges, assert_goes_on, trained_weights,
};
use crate::train::{Trained, Unheard};
use ::training::testing::study_of;
use config::kinds::detection::{KEYS, KIND, POST};
use search::space::Value;
use search::study::Purpose;
use task::{Ended, Metrics, Task};

/// The side of the pages, in pixels.
const SIDE: u32 = 64;

/// Pages by hand, and a study of them.
struct Site {
    _dir: tempfile::TempDir,
    spec: StudySpec,
}

/// Pages with bars on noise, one or two each, but for every eighth, which has none.
fn site(pages: usize) -> Site {
    let dir = tempfile::tempdir().unwrap();
    let mut generator = rng(3, 0, "pages");
    let mut lines = String::new();
    for page in 0..pages {
        let name = format!("{page}.png");
        lines += &drawn(page, &dir.path().join(&name), &name, &mut generator);
    }
    let path = dir.path().join("pages.jsonl");
    std::fs::write(&path, lines).unwrap();
    let mut spec = study_of(&KIND, "hmean");
    let set: [(&str, Value); 11] = [
        ("data.path", path.to_str().unwrap().into()),
        ("data.split.train", 0.6.into()),
        ("data.split.validation", 0.2.into()),
        ("data.split.test", 0.2.into()),
        ("input.size", i64::from(SIDE).into()),
        ("model.width", 0.0625.into()),
        ("model.fpn_width", 8.into()),
        ("train.epochs", 2.into()),
        ("train.batch_size", 4.into()),
        ("train.patience", 0.into()),
        ("optim.lr", 5e-3.into()),
    ];
    for (key, value) in set {
        spec.fixed.insert(key.to_owned(), value);
    }
    Site { _dir: dir, spec }
}

/// Draws a page; what the file says of it.
fn drawn(page: usize, to: &Path, name: &str, generator: &mut impl RngExt) -> String {
    let mut picture = RgbImage::from_fn(SIDE, SIDE, |x, y| {
        Rgb([(x * 37 + y * 91) as u8 % 64, 40, (y * 53) as u8 % 64])
    });
    let mut texts = Vec::new();
    let count = if page % 8 == 7 { 0 } else { 1 + page % 2 };
    for text in 0..count as u32 {
        let (x, y) = (
            generator.random_range(2..14),
            4 + 30 * text + generator.random_range(0..8),
        );
        let (width, height) = (
            generator.random_range(30..46),
            generator.random_range(12..18),
        );
        for (column, row) in (x..x + width).flat_map(|x| (y..y + height).map(move |y| (x, y))) {
            picture.put_pixel(column, row, Rgb([220, 200, 230]));
        }
        let corners = [
            [x, y],
            [x + width, y],
            [x + width, y + height],
            [x, y + height],
        ];
        texts.push(serde_json::json!({ "polygon": corners }));
    }
    picture.save(to).unwrap();
    serde_json::json!({ "image": name, "texts": texts }).to_string() + "\n"
}

fn trial(site: &Site, changed: &[(&str, Value)]) -> TrialSpec {
    let mut trial = TrialSpec::of_defaults(&site.spec, 5);
    trial
        .config
        .extend(changed.iter().map(|(k, v)| ((*k).to_owned(), v.clone())));
    trial
}

fn open(site: &Site) -> DetectionTask {
    DetectionTask::open(&site.spec, Device::Cpu).unwrap()
}

fn train(site: &Site, trial: &TrialSpec) -> (Trained, Vec<Metrics>) {
    let mut recorder = Recorder::default();
    let trained = open(site).train(trial, &mut recorder).unwrap();
    (trained, recorder.epochs)
}

#[test]
fn bars_are_found_and_the_best_point_of_the_grid_is_told() {
    let _alone = alone();
    let mut site = site(48);
    for (key, list) in POST
        .iter()
        .zip([["0.2", "0.5"], ["0.4", "0.6"], ["1.0", "1.8"], ["2", "3"]])
    {
        let list = list.map(str::to_owned).into();
        site.spec.lists.insert((*key).to_owned(), list);
    }
    let long = trial(
        &site,
        &[("train.epochs", 25.into()), ("optim.lr", 1e-2.into())],
    );
    let (_, epochs) = train(&site, &long);
    let best = epochs.iter().map(|m| m["hmean"]).fold(0.0, f64::max);
    assert!(best > 0.8, "{best} of {epochs:?}");
    let (first, last) = (&epochs[0], epochs.last().unwrap());
    assert!(last["loss"] < 0.5 * first["loss"], "{first:?} {last:?}");
    assert!(POST.iter().all(|key| last.contains_key(*key)), "{last:?}");
}

#[test]
fn equal_trials_end_alike_and_go_on_bit_for_bit() {
    let _alone = alone();
    let mut site = site(24);
    site.spec.fixed.insert("train.epochs".to_owned(), 4.into());
    let everything = [
        ("train.grad_accum", Value::from(2)),
        ("loss.prob.type", "focal".into()),
        ("sched.name", "one_cycle".into()),
        ("augment.flip", 0.5.into()),
        ("augment.crop", 0.5.into()),
    ];
    for changed in [&[][..], &everything] {
        let trial = trial(&site, changed);
        let whole = assert_goes_on(&|| open(&site), &trial, 3);
        assert!(!whole.best.is_empty());
        let mut task = open(&site);
        let base = trained_weights(&mut task, &trial);
        assert_eq!(
            base,
            trained_weights(&mut task, &trial),
            "after another trial"
        );
    }
    site.spec.fixed.insert("data.folds".to_owned(), 3.into());
    assert_goes_on(&|| open(&site), &trial(&site, &everything), 2);
}

#[test]
fn the_test_part_is_scored_in_a_test_alone_and_a_rehearsal_reports_nothing() {
    let _alone = alone();
    let site = site(24);
    let mut tested = trial(&site, &[]);
    let (plain, epochs) = train(&site, &tested);
    tested.purpose = Purpose::Test;
    let (same, with) = train(&site, &tested);
    assert_eq!(
        plain.weights_fingerprint().unwrap(),
        same.weights_fingerprint().unwrap()
    );
    assert!(!epochs[0].contains_key("test.loss") && with[0]["test.loss"].is_finite());
    let mut rehearsal = trial(&site, &[]);
    rehearsal.rehearse = Some(2);
    let mut recorder = Recorder::default();
    let ended = open(&site).run(&rehearsal, &mut recorder).unwrap();
    assert_eq!(ended, Ended::Completed);
    assert_eq!((recorder.epochs.len(), recorder.steps), (0, 2));
}

#[test]
fn pages_without_any_text_teach_that_there_is_none() {
    let _alone = alone();
    let site = site(24);
    let mut trial = trial(&site, &[("train.batch_size", 1.into())]);
    trial.rows = Some(vec![7, 15, 23]);
    let (trained, epochs) = train(&site, &trial);
    assert_eq!(trained.ended, Ended::Completed);
    assert!(
        epochs[1]["train_loss"] < epochs[0]["train_loss"],
        "{epochs:?}"
    );
}

#[test]
fn a_loss_that_explodes_is_told_with_its_place() {
    let _alone = alone();
    let site = site(24);
    let trial = trial(
        &site,
        &[
            ("optim.lr", 1.0.into()),
            ("optim.weight_decay", 1e30.into()),
            ("train.clip_grad", 0.0.into()),
            ("train.epochs", 6.into()),
        ],
    );
    assert_diverges(&train(&site, &trial).0.ended);
}

#[test]
fn the_encoder_begins_with_the_weights_of_a_file() {
    let _alone = alone();
    let mut site = site(20);
    let plain = train(&site, &trial(&site, &[]));
    let about = Description::of(&trial(&site, &[])).unwrap().network;
    let network = |seed: u64| {
        let mut fresh = Fresh {
            device: tch::Device::Cpu,
            rng: &mut rng(seed, 0, "model"),
        };
        DbNet::new(&about, &mut fresh).unwrap()
    };
    // The encoder of another network, with statistics that no fresh one has, as a wrapped module saves it.
    let listed = network(7).listed();
    let parameters = listed.parameters.into_iter().map(|p| (p.name, p.tensor));
    let buffers = listed
        .buffers
        .into_iter()
        .map(|(name, tensor)| (name, tensor + 0.25));
    let all: Vec<(String, Tensor)> = parameters.chain(buffers).collect();
    let encoder = all.iter().filter_map(|(name, tensor)| {
        let name = name.strip_prefix("encoder.")?;
        Some((format!("module.{name}"), tensor.shallow_clone()))
    });
    let encoder: Vec<(String, Tensor)> = encoder.collect();
    let file = site._dir.path().join("encoder.safetensors");
    let mut to = std::fs::File::create(&file).unwrap();
    crate::train::tensors::write(&encoder, &mut to).unwrap();
    let set = |site: &mut Site, key: &str, value: Value| {
        site.spec.fixed.insert(key.to_owned(), value);
    };
    set(&mut site, start::WEIGHTS, file.to_str().unwrap().into());
    let weights = start::weights(&site.spec).unwrap().unwrap();
    let (fresh, begun) = (network(1), network(1));
    begun.start_from(&weights).unwrap();
    let (fresh, begun) = (fresh.listed(), begun.listed());
    let tensors = |listed: layers::Listed| -> Vec<(String, Tensor)> {
        let parameters = listed.parameters.into_iter().map(|p| (p.name, p.tensor));
        parameters.chain(listed.buffers).collect()
    };
    for ((name, begun), ((_, fresh), (_, other))) in
        tensors(begun).iter().zip(tensors(fresh).iter().zip(&all))
    {
        let expected = if name.starts_with("encoder.") {
            other
        } else {
            fresh
        };
        assert!(begun.equal(expected), "{name}");
    }
    // A trial begins with them, too.
    let with_weights = train(&site, &trial(&site, &[]));
    assert_ne!(plain.1, with_weights.1);
    set(&mut site, "model.width", 0.125.into());
    let problems = start::weights(&site.spec).unwrap_err().to_string();
    assert!(
        problems.contains("tensors that do not fit, first "),
        "{problems}"
    );
    std::fs::write(&file, "no tensors").unwrap();
    let problems = start::weights(&site.spec).unwrap_err().to_string();
    assert!(problems.contains("model.weights"), "{problems}");
}

#[test]
fn frozen_layers_keep_their_values_and_their_statistics() {
    let site = site(12);
    let trial = trial(&site, &[("train.freeze_encoder_layers", 2.into())]);
    let mut task = open(&site);
    let begun = fresh(&trial, None, tch::Device::Cpu).unwrap().listed();
    let parts = task.parts(&trial, 0).unwrap();
    let mut module = task.kind.module(&trial, &parts, &mut Unheard).unwrap();
    let settings = FitSettings::of(&trial).unwrap();
    let judgement = Judgement {
        objective: &site.spec.objective,
        post: &site.spec.post(),
        tests: false,
    };
    fit(module.as_mut(), &settings, &judgement, None, &mut Unheard).unwrap();
    let ended: BTreeMap<String, tch::Tensor> = module.weights().unwrap().into_iter().collect();
    let begun = begun
        .parameters
        .into_iter()
        .map(|p| (p.name, p.tensor))
        .chain(begun.buffers);
    let begun: BTreeMap<String, tch::Tensor> = begun.collect();
    assert_eq!(ended.len(), begun.len());
    for (name, tensor) in &ended {
        let frozen = [
            "encoder.conv1",
            "encoder.bn1",
            "encoder.layer1",
            "encoder.layer2",
        ];
        let frozen = frozen.iter().any(|part| name.starts_with(part));
        assert_eq!(tensor.equal(&begun[name]), frozen, "{name}");
    }
    // They are no parameters of the optimiser.
    let trained = module.parameters().unwrap();
    assert!(trained.iter().any(|p| p.name.starts_with("encoder.layer3")));
    assert!(!trained.iter().any(|p| p.name.starts_with("encoder.layer2")));
}

/// See [`Suite::tried`].
fn tried(key: &str) -> Option<(Setting, Value)> {
    let focal = || vec![("loss.prob.type", "focal".into())];
    let long = |patience: i64, min_delta: f64| -> Setting {
        vec![
            ("train.epochs", 12.into()),
            ("train.patience", patience.into()),
            ("train.min_delta", min_delta.into()),
        ]
    };
    Some(match key {
        "train.patience" => (long(2, 1e5), 1.into()),
        "train.min_delta" => (long(5, 0.0), 1e5.into()),
        "train.freeze_encoder_layers" => (vec![], 2.into()),
        "input.size" => (vec![], 96.into()),
        "model.backbone" => (vec![], "resnet34".into()),
        "model.width" => (vec![], 0.1.into()),
        "model.fpn_width" => (vec![], 12.into()),
        "labels.shrink_ratio" => (vec![], 0.6.into()),
        "augment.rotate" => (vec![], 30.0.into()),
        "augment.scale" => (vec![], 2.0.into()),
        "augment.flip" => (vec![], 0.5.into()),
        "augment.crop" => (vec![], 1.0.into()),
        "augment.colour" => (vec![], 0.5.into()),
        "loss.prob.type" => (vec![], "focal".into()),
        "loss.prob.negatives" => (vec![], 1.0.into()),
        "loss.prob.gamma" => (focal(), 4.0.into()),
        "loss.prob.alpha" => (focal(), 0.5.into()),
        "loss.prob.weight" => (vec![], 2.0.into()),
        "loss.threshold.weight" => (vec![], 2.0.into()),
        "loss.binary.weight" => (vec![], 3.0.into()),
        "loss.binary.k" => (vec![], 20.0.into()),
        _ => return None,
    })
}

#[test]
fn every_key_acts_where_it_says_so_and_nowhere_else() {
    let _alone = alone();
    let mut site = site(20);
    // It becomes less from the first epoch on.
    site.spec.objective = study_of(&KIND, "loss").objective;
    let mut task = open(&site);
    let suite = Suite {
        keys: KEYS,
        tried: &tried,
        limit: 0,
    };
    let mut weights =
        |changed: &[(&str, Value)]| trained_weights(&mut task, &trial(&site, changed));
    suite.every_key_changes(&mut weights);
    suite.every_word_changes(&mut weights);
    assert!(suite.dead_keys_change_nothing(&mut weights) >= 5);
}

#[test]
fn the_description_knows_how_large_a_network_is() {
    let _alone = alone();
    let site = site(8);
    for (backbone, width, fpn) in [
        ("resnet18", 0.25, 32),
        ("resnet34", 0.1, 9),
        ("resnet50", 0.0625, 16),
    ] {
        let trial = trial(
            &site,
            &[
                ("model.backbone", backbone.into()),
                ("model.width", width.into()),
                ("model.fpn_width", fpn.into()),
            ],
        );
        let about = Description::of(&trial).unwrap();
        let mut fresh = Fresh {
            device: tch::Device::Cpu,
            rng: &mut rng(0, 0, "model"),
        };
        let network = DbNet::new(&about.network, &mut fresh).unwrap();
        let parameters = network.listed().parameters;
        let count: usize = parameters.iter().map(|p| p.tensor.numel()).sum();
        assert_eq!(about.network.parameters(), count, "{backbone}");
    }
}
