//! Training on tables: what it learns, that it is the same each time, and that every key acts.

use rand::RngExt;
use tch::Tensor;

use super::*;
use crate::train::Trained;
use crate::train::testing::{
    Recorder, Setting, Suite, alone, assert_diverges, assert_goes_on, trained_weights,
};
use ::training::testing::study_of;
use config::kinds::tabular::KEYS;
use search::space::Value;
use search::study::Purpose;
use task::{Ended, Metrics, Task};

/// A table by hand, and a study of it.
struct Site {
    _dir: tempfile::TempDir,
    spec: StudySpec,
}

/// 240 rows in groups of two: `a` and `b` make the class by the sign of their product, turned round where `color` is red;
/// `price` is a sum of them with an offset for each color. A few cells of `a` are empty.
fn site(problem: &str) -> Site {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rows.csv");
    let mut generator = rng(3, 0, "rows");
    let mut text = String::from("a,b,color,noise,label,price,pair\n");
    for row in 0..240 {
        let mut draw = || generator.random_range(-100..100);
        let (a, b, noise) = (draw(), draw(), draw());
        let color = ["red", "green", "blue"][row % 3];
        let label = if (a * b > 0) == (row % 3 == 0) {
            "yes"
        } else {
            "no"
        };
        let price = 3 * a - b + 100 * (row as i32 % 3) + noise / 10;
        let a = if row % 29 == 7 {
            String::new()
        } else {
            a.to_string()
        };
        text += &format!("{a},{b},{color},{noise},{label},{price},{}\n", row / 2);
    }
    std::fs::write(&path, text).unwrap();
    let (target, other, metric) = match problem {
        "regression" => ("price", "label", "rmse"),
        _ => ("label", "price", "macro_f1"),
    };
    let mut spec = study_of(&config::kinds::tabular::KIND, metric);
    let set = [
        ("data.path", path.to_str().unwrap()),
        ("data.target", target),
        ("data.group", "pair"),
        ("task.problem", problem),
    ];
    for (key, value) in set {
        spec.fixed.insert(key.to_owned(), value.into());
    }
    spec.lists
        .insert("data.ignore".to_owned(), vec![other.to_owned()]);
    spec.fixed.insert("train.epochs".to_owned(), 2.into());
    spec.fixed.insert("optim.lr".to_owned(), 1e-2.into());
    Site { _dir: dir, spec }
}

fn trial(site: &Site, changed: &[(&str, Value)]) -> TrialSpec {
    let mut trial = TrialSpec::of_defaults(&site.spec, 5);
    trial
        .config
        .extend(changed.iter().map(|(k, v)| ((*k).to_owned(), v.clone())));
    trial
}

fn open(site: &Site) -> TabularTask {
    TabularTask::open(&site.spec, Device::Cpu).unwrap()
}

fn train(site: &Site, trial: &TrialSpec) -> (Trained, Vec<Metrics>) {
    let mut recorder = Recorder::default();
    let trained = open(site).train(trial, &mut recorder).unwrap();
    (trained, recorder.epochs)
}

#[test]
fn classes_and_numbers_are_learned() {
    let _alone = alone();
    for (problem, metric, least) in [
        ("classification", "macro_f1", 0.8),
        ("regression", "r2", 0.95),
    ] {
        let site = site(problem);
        let long = trial(
            &site,
            &[
                ("train.epochs", 60.into()),
                ("train.patience", 0.into()),
                ("train.batch_size", 16.into()),
            ],
        );
        let (_, epochs) = train(&site, &long);
        let best = epochs
            .iter()
            .map(|m| m[metric])
            .fold(f64::NEG_INFINITY, f64::max);
        assert!(best > least, "{problem}: {best}");
        let (first, last) = (&epochs[0], epochs.last().unwrap());
        assert!(
            last["train_loss"] < 0.5 * first["train_loss"],
            "{problem}: {first:?} {last:?}"
        );
        assert_eq!(last.contains_key("rmse"), problem == "regression");
    }
}

#[test]
fn equal_trials_end_alike_and_go_on_bit_for_bit() {
    let _alone = alone();
    for problem in ["classification", "regression"] {
        let mut site = site(problem);
        site.spec.fixed.insert("train.epochs".to_owned(), 5.into());
        site.spec
            .fixed
            .insert("train.patience".to_owned(), 0.into());
        let everything = [
            ("model.dropout", Value::Float(0.3)),
            ("train.grad_accum", 2.into()),
            ("train.batch_size", 16.into()),
            ("loss.cls.balance", "weighted".into()),
            ("loss.reg.type", "huber".into()),
            ("sched.name", "one_cycle".into()),
        ];
        for changed in [&[][..], &everything] {
            let trial = trial(&site, changed);
            let whole = assert_goes_on(&|| open(&site), &trial, 4);
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
        let trial = super::tests::trial(&site, &everything);
        assert_goes_on(&|| open(&site), &trial, 2);
    }
}

#[test]
fn batches_in_parts_and_batches_added_up_make_the_same_update() {
    let _alone = alone();
    for problem in ["classification", "regression"] {
        let site = site(problem);
        let weights = |batch: i64, accum: i64, halvings: u32| -> Vec<f32> {
            let mut trial = trial(
                &site,
                &[
                    ("train.batch_size", batch.into()),
                    ("train.grad_accum", accum.into()),
                    ("optim.eps", 1e-3.into()),
                ],
            );
            trial.halvings = halvings;
            let (trained, _) = train(&site, &trial);
            let flat = |p: &Parameter| -> Vec<f32> {
                Vec::try_from(p.tensor.detach().flatten(0, -1)).unwrap()
            };
            trained.parameters.iter().flat_map(flat).collect()
        };
        let whole = weights(512, 1, 0);
        for (batch, accum, halvings) in [(512, 1, 3), (7, 60, 0), (50, 10, 1)] {
            let parts = weights(batch, accum, halvings);
            let off = whole
                .iter()
                .zip(&parts)
                .map(|(a, b)| (a - b).abs())
                .fold(0.0, f32::max);
            assert!(off < 5e-6, "{problem} {batch} {accum} {halvings}: {off}");
        }
    }
}

#[test]
fn the_test_part_is_scored_in_a_test_alone_and_a_rehearsal_reports_nothing() {
    let _alone = alone();
    let site = site("regression");
    let mut tested = trial(&site, &[]);
    let (plain, epochs) = train(&site, &tested);
    tested.purpose = Purpose::Test;
    let (same, with) = train(&site, &tested);
    assert_eq!(
        plain.weights_fingerprint().unwrap(),
        same.weights_fingerprint().unwrap()
    );
    assert!(!epochs[0].contains_key("test.rmse") && with[0]["test.rmse"].is_finite());
    let mut rehearsal = trial(&site, &[]);
    rehearsal.rehearse = Some(2);
    let mut recorder = Recorder::default();
    assert_eq!(
        open(&site).run(&rehearsal, &mut recorder).unwrap(),
        Ended::Completed
    );
    assert_eq!((recorder.epochs.len(), recorder.steps), (0, 2));
}

#[test]
fn a_loss_that_explodes_is_told_with_its_place() {
    let _alone = alone();
    let site = site("regression");
    let trial = trial(
        &site,
        &[
            ("optim.lr", 1.0.into()),
            ("optim.weight_decay", 1e30.into()),
            ("train.clip_grad", 0.0.into()),
        ],
    );
    assert_diverges(&train(&site, &trial).0.ended);
}

/// See [`Suite::tried`].
fn tried(key: &str) -> Option<(Setting, Value)> {
    let focal = || vec![("loss.cls.type", "focal".into())];
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
        "model.layers" => (vec![], 1.into()),
        "model.hidden" => (vec![], 32.into()),
        "model.activation" => (vec![], "tanh".into()),
        "model.dropout" => (vec![], 0.2.into()),
        "model.embedding" => (vec![], 3.into()),
        "loss.reg.type" => (vec![], "huber".into()),
        "loss.reg.delta" => (vec![("loss.reg.type", "huber".into())], 0.3.into()),
        "loss.cls.type" => (vec![], "focal".into()),
        "loss.cls.label_smoothing" => (
            vec![("loss.cls.type", "ce_label_smooth".into())],
            0.2.into(),
        ),
        "loss.cls.gamma" => (focal(), 4.0.into()),
        "loss.cls.alpha" => (focal(), 0.8.into()),
        "loss.cls.balance" => (vec![], "weighted".into()),
        _ => return None,
    })
}

/// Keys of a kind's table that act on the other problem.
fn keys(problem: &str) -> &'static [config::Key<'static>] {
    let other = if problem == "regression" {
        "loss.cls."
    } else {
        "loss.reg."
    };
    let keys: Vec<_> = KEYS
        .iter()
        .copied()
        .filter(|key| !key.name.starts_with(other))
        .collect();
    assert!(keys.len() < KEYS.len());
    keys.leak()
}

#[test]
fn every_key_acts_where_it_says_so_and_nowhere_else() {
    let _alone = alone();
    for problem in ["classification", "regression"] {
        let site = site(problem);
        let mut task = open(&site);
        let suite = Suite {
            keys: keys(problem),
            tried: &tried,
            limit: 0,
        };
        let mut weights =
            |changed: &[(&str, Value)]| trained_weights(&mut task, &trial(&site, changed));
        suite.every_key_changes(&mut weights);
        suite.every_word_changes(&mut weights);
        assert!(suite.dead_keys_change_nothing(&mut weights) >= 5);
        // What acts on the other problem alone changes nothing.
        let base = weights(&[]);
        for key in KEYS
            .iter()
            .filter(|key| suite.keys.iter().all(|k| k.name != key.name))
        {
            if key.role == config::Role::Training {
                assert_eq!(
                    base,
                    weights(&[(key.name, tried(key.name).unwrap().1)]),
                    "{}",
                    key.name
                );
            }
        }
    }
}

#[test]
fn a_model_is_that_of_pytorch() {
    let _alone = alone();
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/reference/tabular.safetensors");
    let bytes = std::fs::read(path).unwrap();
    let (_, header) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let read = |name: &str| crate::train::testing::reference(&file, name);
    let about: Description =
        serde_json::from_str(&header.metadata().as_ref().unwrap()["classes"]).unwrap();
    let numeric = Description {
        labels: Vec::new(),
        ..about.clone()
    };
    for (case, about) in [("classes", &about), ("number", &numeric)] {
        let leaf = |name: &str| read(&format!("{case}.{name}")).set_requires_grad(true);
        let tables = vec![leaf("embeddings.0.weight"), leaf("embeddings.1.weight")];
        let layer = |at: usize| crate::train::layers::Linear {
            weight: leaf(&format!("layers.{at}.weight")),
            bias: leaf(&format!("layers.{at}.bias")),
        };
        let model = Model::of(about, 0.0, tables, (0..3).map(layer).collect());
        let inputs = Inputs::of(read("numbers"), read("categories").to_kind(Type::Int64));
        let outputs = model.forward(&inputs, true).unwrap();
        let close = |what: &str, found: &Tensor, expected: &Tensor, most: f64| {
            let off = (found - expected).abs().max().double_value(&[]);
            let scale = expected.abs().max().double_value(&[]).max(1e-6);
            assert!(
                off <= most * scale,
                "{case}: {what} differs by {off} of {scale}"
            );
        };
        close(
            "the outputs",
            &outputs,
            &read(&format!("{case}.outputs")),
            1e-5,
        );
        let losses = match case {
            "classes" => {
                let form = crate::train::loss::RowLoss::CrossEntropy { smoothing: 0.1 };
                let balance = crate::train::loss::ClassWeights::Weighted;
                let counts = [10, 30, 20];
                let loss =
                    Loss::new(LossSettings { form, balance }, &counts, tch::Device::Cpu).unwrap();
                vec![(
                    "ce",
                    TargetLoss::Classes(loss),
                    read("classes").to_kind(Type::Int64),
                )]
            }
            _ => vec![
                ("mse", TargetLoss::Numbers(None), read("targets")),
                ("huber", TargetLoss::Numbers(Some(0.7)), read("targets")),
            ],
        };
        for (name, loss, targets) in losses {
            let rows = loss.of_rows(&outputs, &targets).unwrap();
            close(name, &rows, &read(&format!("{case}.{name}")), 1e-5);
            for p in model.parameters().unwrap() {
                let gradient =
                    Tensor::run_backward(&[rows.sum(Type::Float)], &[&p.tensor], true, false);
                close(
                    &p.name,
                    &gradient[0],
                    &read(&format!("{case}.{name}.{}", p.name)),
                    1e-3,
                );
            }
        }
    }
}
