//! A trained model, exported and loaded again, answers as in training.

use std::path::PathBuf;

use serde_json::{Map, Value as Json, json};

use super::super::predict::Predictor;
use super::*;
use ::request::predict::Record;
use ::text::export::{Exported, write};
use ::text::prepare;
use ::training::scores::Answers;
use ::training::table::Cells;
use task::TrainedModel;

/// Keeps what a training hands over at its best epoch.
#[derive(Default)]
struct Keeper {
    last: Metrics,
    best: Option<(Metrics, Map<String, Json>, Vec<u8>)>,
}

impl Reporter for Keeper {
    fn step(&mut self) {}

    fn epoch(&mut self, _epoch: u32, metrics: &Metrics) -> Result<Decision> {
        self.last = metrics.clone();
        Ok(Decision::Continue)
    }

    fn wants_weights(&self, _value: f64) -> bool {
        true
    }

    fn keep_best(
        &mut self,
        _value: f64,
        about: &Map<String, Json>,
        write: &mut dyn FnMut(&mut dyn std::io::Write) -> Result<()>,
    ) {
        let mut weights = Vec::new();
        write(&mut weights).unwrap();
        self.best = Some((self.last.clone(), about.clone(), weights));
    }
}

/// Trains and exports; gives the best epoch's metrics and the directory.
fn exported(site: &TinyProject, changed: &[(&str, Value)]) -> (Metrics, PathBuf) {
    let mut keeper = Keeper::default();
    let trial = trial(site, 5, changed);
    open(site).train(&trial, &mut keeper).unwrap();
    let (metrics, about, weights) = keeper.best.unwrap();
    let file = site.dir.path().join("weights.safetensors");
    std::fs::write(&file, weights).unwrap();
    let checkpoint = Checkpoint::open("tiny", &site.tiny()).unwrap();
    let model = TrainedModel {
        trial: 0,
        weights: &file,
        about: &about,
        config: &trial.config,
        origin: &json!({}),
    };
    let out = site.dir.path().join("out");
    write(&checkpoint, &model, (&out, true), &mut |_| {}).unwrap();
    (metrics, out)
}

#[test]
fn an_exported_model_decides_by_the_threshold_that_was_chosen() {
    let _alone = alone();
    let mut site = site();
    let grid = ["0.2", "0.25", "0.3", "0.35"].map(str::to_owned).to_vec();
    site.spec.lists.insert("post.threshold".to_owned(), grid);
    let (metrics, out) = exported(&site, &[("optim.lr", 3e-4.into())]);
    let threshold = Exported::open(&out).unwrap().description.threshold.unwrap();
    assert_eq!(threshold, metrics["post.threshold"]);
    let answers = answers(&out, &validation(&site), None);
    let of = |document: usize| (answers.probabilities(document)[1] >= threshold) as usize;
    assert!((0..12).all(|document| answers.predicted(document) == of(document)));
    assert_eq!(answers.metrics()["macro_f1"], metrics["macro_f1"]);
}

/// The rows that validate.
fn validation(site: &TinyProject) -> Vec<Record> {
    let (data, split) = prepare::load(&site.spec).unwrap();
    let record = |row: usize| Record {
        row: data.rows[row].clone(),
        class: data.samples.class[row],
        number: 0.0,
        line: data.samples.lines[row],
        values: Vec::new(),
        cells: Cells::List(Vec::new()),
    };
    let rows = split.rows(Part::Validation).into_iter();
    rows.map(record).collect()
}

fn answers(dir: &Path, rows: &[Record], batch_size: Option<usize>) -> Answers {
    let exported = Exported::open(dir).unwrap();
    let mut predictor = Predictor::open(&exported, Device::Cpu, batch_size).unwrap();
    let mut stepped = 0;
    let answers = predictor.answer(rows, &mut |rows| stepped += rows);
    assert_eq!(stepped, rows.len());
    answers.unwrap()
}

#[test]
fn predictions_on_the_validation_rows_have_the_metrics_of_the_training() {
    let _alone = alone();
    let site = site();
    let rows = validation(&site);
    let word = |key: &'static str, value: &str| (key, Value::from(value));
    let cases: [Vec<(&str, Value)>; 5] = [
        vec![("train.freeze_encoder_layers", 1.into())],
        vec![word("head.pooling", "attn"), ("head.layers", 3.into())],
        vec![word("head.pooling", "cls")],
        vec![
            word("head.pooling", "max"),
            ("tok.max_length", 8.into()),
            ("tok.doc_stride", 2.into()),
        ],
        vec![
            word("head.pooling", "cls"),
            word("head.activation", "tanh"),
            ("head.layers", 2.into()),
            ("head.hidden", 16.into()),
            ("train.freeze_encoder_layers", 2.into()),
        ],
    ];
    for changed in cases {
        let (metrics, dir) = exported(&site, &changed);
        for batch_size in [None, Some(3)] {
            for (name, value) in answers(&dir, &rows, batch_size).metrics() {
                let off = (value - metrics[&name]).abs();
                assert!(
                    off < 1e-5,
                    "{changed:?} {name}: {value}, {}",
                    metrics[&name]
                );
            }
        }
    }
}

/// What transformers computes of the file: tanh of a layer on the first token, and the classifier.
#[test]
fn a_head_that_transformers_has_gives_the_logits_that_transformers_computes() {
    let _alone = alone();
    let site = site();
    let rows = validation(&site);
    let cls = ("head.pooling", Value::from("cls"));
    let deep = [
        cls.clone(),
        ("head.activation", "tanh".into()),
        ("head.layers", 2.into()),
        ("head.hidden", 16.into()),
    ];
    for changed in [&[cls][..], &deep] {
        let (_, dir) = exported(&site, changed);
        let found = answers(&dir, &rows, None);
        let checkpoint = Checkpoint::open("out", &dir).unwrap();
        let encoder = Encoder::load(&checkpoint, tch::Device::Cpu).unwrap();
        let mut reader = checkpoint.weights.reader();
        let mut read =
            |name: &str| crate::train::tensors::convert(&reader.read(name).unwrap(), name).unwrap();
        let (weight, bias) = (read("classifier.weight"), read("classifier.bias"));
        let texts: Vec<Row> = rows.iter().map(|row| row.row.clone()).collect();
        let tokens = Tokenised::new(&dir, &texts).unwrap();
        let tokens = tokens.cut(&texts, 16).unwrap();
        for (at, tokens) in tokens.iter().enumerate() {
            let ids: Vec<i64> = tokens.ids.iter().map(|id| i64::from(*id)).collect();
            let ids = Tensor::from_slice(&ids).unsqueeze(0);
            let hidden = encoder.prefix(&ids, None, None, 2).unwrap();
            let pooled = encoder.pooler(&hidden).unwrap().unwrap();
            let logits = pooled.linear(&weight, Some(&bias));
            let p = logits.softmax(-1, tch::Kind::Double).double_value(&[0, 1]);
            let off = (p - found.probabilities(at)[1]).abs();
            assert!(off < 2e-5, "{changed:?} row {at}: {off}");
        }
    }
}

#[test]
fn an_exported_model_is_trained_on_like_any_other() {
    let _alone = alone();
    let mut site = site();
    let (_, dir) = exported(&site, &[("head.pooling", "cls".into())]);
    site.spec.models.insert("again".to_owned(), dir);
    let changed = [("model.name", Value::from("again"))];
    let trained = weights(&mut open(&site), &site, &changed);
    assert_ne!(trained, weights(&mut open(&site), &site, &[]));
}
