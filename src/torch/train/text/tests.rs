//! Training: determinism, the prefix cache, how trainings end.

mod export;
mod knobs;
mod resume;
mod updates;

mod documents;

use std::path::Path;

use safetensors::SafeTensors;
use tch::Tensor;

use super::*;
use crate::train::layers::Parameter;
use crate::train::testing::{Recorder, alone, reference, trained_weights};
use ::text::data::Row;
use ::text::testing::TinyProject;
use search::space::Value;
use search::study::Purpose;
use task::Decision;
use task::{Ended, Metrics, Task};

/// A trial of the site's study with these keys changed.
fn trial(site: &TinyProject, seed: u64, changed: &[(&str, Value)]) -> TrialSpec {
    let mut config = site.spec.fixed.clone();
    config.insert("tok.max_length".into(), 16.into());
    config.insert("optim.lr".into(), 1e-3.into());
    for (key, value) in changed {
        config.insert((*key).to_owned(), value.clone());
    }
    TrialSpec {
        number: 0,
        purpose: Purpose::Search,
        attempt: 0,
        seed,
        params: Default::default(),
        config,
        halvings: 0,
        rehearse: None,
        rows: None,
    }
}

fn open(site: &TinyProject) -> TextTask {
    TextTask::open(&site.spec, Device::Cpu).unwrap()
}

fn site() -> TinyProject {
    let mut site = TinyProject::new();
    site.set("tok.max_length", 16);
    site.set("train.epochs", 2);
    site
}

/// The fingerprint of the weights after a trial.
fn weights(task: &mut TextTask, site: &TinyProject, changed: &[(&str, Value)]) -> String {
    trained_weights(task, &trial(site, 5, changed))
}

#[test]
fn equal_trials_end_with_equal_weights() {
    let _alone = alone();
    let site = site();
    let mut task = open(&site);
    let base = weights(&mut task, &site, &[]);
    assert_eq!(base, weights(&mut task, &site, &[]));
    assert_eq!(base, weights(&mut open(&site), &site, &[]));
}

#[test]
fn batches_in_parts_compute_the_same_updates() {
    let _alone = alone();
    let site = site();
    let mut task = open(&site);
    let changed = [
        ("model.dropout", Value::Float(0.0)),
        ("train.batch_size", 8.into()),
    ];
    let mut trained = |halvings: u32| {
        let mut recorder = Recorder::default();
        let mut trial = trial(&site, 5, &changed);
        trial.halvings = halvings;
        task.train(&trial, &mut recorder).unwrap();
        recorder.epochs
    };
    let whole = trained(0);
    for halvings in [1, 2, 40] {
        for (parts, whole) in trained(halvings).iter().zip(&whole) {
            let difference = (parts["train_loss"] - whole["train_loss"]).abs();
            assert!(difference < 1e-4, "{halvings}: {difference}");
        }
    }
}

#[test]
fn a_worker_that_has_warmed_up_trains_as_any_other() {
    let _alone = alone();
    let mut site = site();
    site.set("train.freeze_encoder_layers", 1);
    site.set("model.dropout", 0.2);
    let base = weights(&mut open(&site), &site, &[]);
    let mut warm = open(&site);
    warm.rehearse_defaults().unwrap();
    assert_eq!(base, weights(&mut warm, &site, &[]));
}

#[test]
fn a_rehearsal_ends_after_its_steps_without_a_report() {
    let _alone = alone();
    let site = site();
    let mut recorder = Recorder::default();
    let mut trial = trial(&site, 5, &[]);
    trial.rehearse = Some(3);
    let ended = open(&site).run(&trial, &mut recorder).unwrap();
    assert_eq!(ended, Ended::Completed);
    assert!(recorder.epochs.is_empty());
    assert_eq!(recorder.steps, 3);
    assert!(recorder.planned.unwrap() > 3);
}

#[test]
fn patience_and_min_delta_end_a_training() {
    let _alone = alone();
    let site = site();
    let mut task = open(&site);
    let mut epochs = |patience: i64, min_delta: f64| {
        let changed = [
            ("train.epochs", Value::Int(12)),
            ("train.patience", patience.into()),
            ("train.min_delta", min_delta.into()),
        ];
        let mut recorder = Recorder::default();
        let trial = trial(&site, 5, &changed);
        task.run(&trial, &mut recorder).unwrap();
        recorder.epochs.len()
    };
    assert_eq!(epochs(3, 10.0), 4);
    assert_eq!(epochs(1, 10.0), 2);
    assert_eq!(epochs(0, 10.0), 12);
}

#[test]
fn a_frozen_prefix_answers_the_same_from_a_cold_and_a_warm_cache_after_any_trial() {
    let _alone = alone();
    let site = site();
    for frozen in [1i64, 2] {
        let changed = [("train.freeze_encoder_layers", Value::Int(frozen))];
        let mut task = open(&site);
        let cold = weights(&mut task, &site, &changed);
        assert_eq!(cold, weights(&mut task, &site, &changed), "warm");
        let mut task = open(&site);
        weights(
            &mut task,
            &site,
            &[("train.freeze_encoder_layers", 1.into())],
        );
        weights(&mut task, &site, &[("model.name", "other".into())]);
        weights(
            &mut task,
            &site,
            &[("train.freeze_encoder_layers", 2.into())],
        );
        weights(&mut task, &site, &[("tok.max_length", 8.into())]);
        assert_eq!(cold, weights(&mut task, &site, &changed), "after others");
    }
}

#[test]
fn a_prefix_too_large_for_the_cache_is_run_in_each_step() {
    let _alone = alone();
    let site = site();
    let changed = [("train.freeze_encoder_layers", Value::Int(1))];
    let mut metrics = Vec::new();
    for limit in [0, 1 << 20] {
        let mut task = open(&site);
        task.kind.limit_cache(limit);
        let mut recorder = Recorder::default();
        task.run(&trial(&site, 5, &changed), &mut recorder).unwrap();
        metrics.push(recorder.epochs[1]["loss"]);
    }
    assert!((metrics[0] - metrics[1]).abs() < 1e-4, "{metrics:?}");
}

#[test]
fn the_cache_forgets_the_least_recently_used_first() {
    let _alone = alone();
    let site = site();
    let mut task = open(&site);
    let (_, rows) = task.kind.rows("tiny", 16, 0, false).unwrap();
    let one = rows.tokens() * 16 * 4;
    // Room for one deep prefix only: each trial evicts the other's.
    task.kind.limit_cache(one + 100);
    let changed = [("train.freeze_encoder_layers", Value::Int(1))];
    let first = weights(&mut task, &site, &changed);
    let short = [changed[0].clone(), ("tok.max_length", 8.into())];
    weights(&mut task, &site, &short);
    assert_eq!(first, weights(&mut task, &site, &changed));
}

#[test]
fn a_tiny_model_learns_rows_whose_class_is_one_word() {
    let _alone = alone();
    let site = site();
    let changed = [
        ("train.epochs", Value::Int(15)),
        ("train.patience", 0.into()),
        ("optim.lr", 5e-3.into()),
    ];
    let mut recorder = Recorder::default();
    let trial = trial(&site, 1, &changed);
    assert_eq!(
        open(&site).run(&trial, &mut recorder).unwrap(),
        Ended::Completed
    );
    let last = recorder.epochs.last().unwrap();
    assert!(last["macro_f1"] > 0.9, "{last:?}");
    assert!(last["loss"] < recorder.epochs[0]["loss"]);
    assert!(recorder.steps >= 15 * 6);
    assert!(last.contains_key("accuracy") && last.contains_key("train_loss"));
}

#[test]
fn the_test_split_is_scored_in_a_test_alone_and_changes_nothing_else() {
    let _alone = alone();
    let site = site();
    let mut task = open(&site);
    let changed = [("train.epochs", Value::Int(6))];
    let run = |task: &mut TextTask, purpose| {
        let mut recorder = Recorder::default();
        let mut trial = trial(&site, 5, &changed);
        trial.purpose = purpose;
        let trained = task.train(&trial, &mut recorder).unwrap();
        (trained.weights_fingerprint().unwrap(), recorder.epochs)
    };
    let (weights, plain) = run(&mut task, Purpose::Search);
    assert!(plain.iter().all(|m| !m.contains_key("test.macro_f1")));
    let (tested_weights, tested) = run(&mut task, Purpose::Test);
    assert_eq!(weights, tested_weights);
    let mut best = f64::NEG_INFINITY;
    for (plain, tested) in plain.iter().zip(&tested) {
        let value = tested["macro_f1"];
        assert_eq!(value, plain["macro_f1"]);
        assert_eq!(tested.contains_key("test.macro_f1"), value > best);
        best = best.max(value);
    }
    assert!(tested[0]["test.loss"].is_finite());
    assert_ne!(tested[0]["test.loss"], tested[0]["loss"]);
    assert_eq!(run(&mut task, Purpose::Search).1, plain);
}

#[test]
fn each_epoch_takes_the_best_threshold_without_training_again() {
    let _alone = alone();
    let mut site = site();
    site.set("train.epochs", 10);
    let run = |site: &TinyProject| {
        let mut recorder = Recorder::default();
        let mut trial = trial(
            site,
            5,
            &[("train.patience", 0.into()), ("optim.lr", 3e-3.into())],
        );
        trial.purpose = Purpose::Test;
        let trained = open(site).train(&trial, &mut recorder).unwrap();
        (trained.weights_fingerprint().unwrap(), recorder.epochs)
    };
    let (weights, plain) = run(&site);
    let mut each = |grid: &[&str]| {
        let grid = grid.iter().map(|t| (*t).to_owned()).collect();
        site.spec.lists.insert("post.threshold".to_owned(), grid);
        let (same, epochs) = run(&site);
        assert_eq!(same, weights);
        epochs
    };
    let grid = ["0.2", "0.3", "0.4", "0.45"];
    let (chosen, single) = (each(&grid), grid.map(|threshold| each(&[threshold])));
    assert!(
        single
            .iter()
            .flatten()
            .all(|m| !m.contains_key("post.threshold")),
        "no choice"
    );
    for (epoch, metrics) in chosen.iter().enumerate() {
        let values = single.each_ref().map(|epochs| epochs[epoch]["macro_f1"]);
        let best = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let first = values.iter().position(|value| *value == best).unwrap();
        assert_eq!(metrics["macro_f1"], best);
        assert_eq!(metrics["post.threshold"].to_string(), grid[first]);
        // What is no matter of the predicted class stays.
        assert_eq!(metrics["log_loss"], plain[epoch]["log_loss"]);
        // The test part has no say, and is scored at the point that was chosen.
        if let Some(test) = metrics.get("test.macro_f1") {
            assert_eq!(Some(test), single[first][epoch].get("test.macro_f1"));
        }
    }
    assert!(
        chosen
            .iter()
            .zip(&plain)
            .any(|(c, p)| c["macro_f1"] > p["macro_f1"])
    );
}

#[test]
fn a_pruned_trial_ends_at_once() {
    let _alone = alone();
    let site = site();
    let mut recorder = Recorder {
        prune_at: Some(1),
        ..Recorder::default()
    };
    let ended = open(&site).run(&trial(&site, 1, &[]), &mut recorder);
    assert_eq!(ended.unwrap(), Ended::Pruned);
    assert_eq!(recorder.epochs.len(), 1);
}

#[test]
fn a_loss_that_explodes_is_told_with_its_step() {
    let _alone = alone();
    let site = site();
    let changed = [
        ("optim.lr", Value::Float(1e38)),
        ("train.clip_grad", 0.0.into()),
        ("sched.warmup_ratio", 0.0.into()),
    ];
    let mut recorder = Recorder::default();
    let ended = open(&site).run(&trial(&site, 1, &changed), &mut recorder);
    match ended.unwrap() {
        Ended::Diverged { at } => assert!(at.starts_with("epoch 1, step "), "{at}"),
        other @ (Ended::Completed | Ended::Returned { .. } | Ended::Pruned) => panic!("{other:?}"),
    }
    // The next trial of the same worker is sound.
    weights(&mut open(&site), &site, &[]);
}

#[test]
fn freezing_more_layers_than_there_are_names_their_number() {
    let _alone = alone();
    let site = site();
    let changed = [("train.freeze_encoder_layers", Value::Int(3))];
    let error = open(&site).run(&trial(&site, 1, &changed), &mut Recorder::default());
    let text = error.unwrap_err().to_string();
    assert!(text.contains("the model tiny has 2 layers"), "{text}");
}

#[test]
fn weights_that_are_not_finite_are_refused() {
    let site = site();
    let file = site.tiny().join("model.safetensors");
    let mut bytes = std::fs::read(&file).unwrap();
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    std::fs::write(&file, bytes).unwrap();
    let error = TextTask::open(&site.spec, Device::Cpu).err().unwrap();
    assert!(
        format!("{error:#}").contains("NaN or infinite"),
        "{error:#}"
    );
}

/// Where `make fetch` puts the model.
fn minilm() -> PathBuf {
    let home = std::env::var("HOME").unwrap();
    let dir = Path::new(&home).join(".cache/tune/models/minilm");
    assert!(
        dir.join("model.safetensors").is_file(),
        "{} is absent: run `make fetch`",
        dir.display()
    );
    dir
}

/// The rows of a case, from their JSON.
fn reference_rows(json: &str) -> Vec<Row> {
    let cells: Vec<(String, Option<String>)> = serde_json::from_str(json).unwrap();
    let row = |(text, pair)| Row { text, pair };
    cells.into_iter().map(row).collect()
}

#[test]
fn minilm_answers_as_in_pytorch() {
    let _alone = alone();
    let dir = minilm();
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/reference/minilm.safetensors");
    let bytes = std::fs::read(path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
    let texts = header.metadata().clone().unwrap();
    let checkpoint = Checkpoint::open("minilm", &dir).unwrap();
    let encoder = Encoder::load(&checkpoint, tch::Device::Cpu).unwrap();
    for case in ["sentences", "pairs", "long"] {
        let read = |part: &str| reference(&file, &format!("{case}.{part}"));
        let data = reference_rows(&texts[case]);
        let tokens = Tokenised::new(&dir, &data)
            .unwrap()
            .cut(&data, 512)
            .unwrap();
        let ids = read("ids");
        for (i, row) in tokens.iter().enumerate() {
            let mut expected: Vec<i32> = Vec::try_from(ids.get(i as i64)).unwrap();
            expected.truncate(row.ids.len());
            let found: Vec<i32> = row.ids.iter().map(|id| *id as i32).collect();
            assert_eq!(found, expected, "{case}, row {i}");
        }
        let lengths: Vec<i32> = Vec::try_from(read("lengths")).unwrap();
        let found: Vec<i32> = tokens.iter().map(|t| t.ids.len() as i32).collect();
        assert_eq!(found, lengths, "{case}");

        let tokens: Vec<&Tokens> = tokens.iter().collect();
        let classes = vec![0; tokens.len()];
        let rows = Rows::new(&tokens, &classes, tch::Device::Cpu).unwrap();
        let all: Vec<usize> = (0..tokens.len()).collect();
        let on_device = rows.upload(std::slice::from_ref(&all)).unwrap();
        let batch = rows.batch(&all, &on_device[0]).unwrap();
        let (types, positions) = (read("types"), read("positions"));
        assert_eq!(rows.ids(&batch, 0).unwrap().1.is_some(), case == "pairs");
        if let (_, Some(found)) = rows.ids(&batch, 0).unwrap() {
            assert!(found.equal(&types), "{case}");
        }
        let close = |what: &str, found: &Tensor, expected: &Tensor| {
            assert_eq!(found.size(), expected.size(), "{case}: {what}");
            let off = (found - expected).abs().max().double_value(&[]);
            assert!(off < 1e-4, "{case}: {what} differs by {off}");
        };
        let layer2 = rows.encode(&encoder, &batch, 2).unwrap();
        close(
            "layer 2",
            &layer2.index_select(1, &positions),
            &read("layer2"),
        );
        let last = rows.encode(&encoder, &batch, 6).unwrap();
        // Positions of padding answer differently and are used by nobody.
        let keep = |t: &Tensor| {
            let short = Tensor::from_slice(&lengths).unsqueeze(1);
            let inside = positions.unsqueeze(0).lt_tensor(&short).unsqueeze(2);
            t * inside
        };
        let selected = last.index_select(1, &positions);
        close("last layer", &keep(&selected), &keep(&read("last")));
        close("mean", &batch.pool(&last).unwrap(), &read("pooled"));
    }
}
