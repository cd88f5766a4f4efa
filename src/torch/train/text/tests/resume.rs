//! A training that is cut short and goes on ends as if nothing had been.

use super::*;
use crate::train::testing::{self, Cut};

/// Trains whole and cut at the report `at`; both must end alike. Gives the whole training's reporter.
fn assert_goes_on(site: &TinyProject, trial: &TrialSpec, at: u32) -> Cut {
    let whole = testing::assert_goes_on(&|| open(site), trial, at);
    for (_, about, _) in &whole.best {
        assert_eq!(about["model"], "tiny");
        assert_eq!(about["model_fingerprint"].as_str().unwrap().len(), 64);
    }
    whole
}

fn five_epochs() -> TinyProject {
    let mut site = site();
    site.set("train.epochs", 5);
    site.set("train.patience", 0);
    site
}

#[test]
fn a_training_goes_on_bit_for_bit_whatever_it_is_trained_with() {
    let _alone = alone();
    let site = five_epochs();
    let float = Value::Float;
    let everything: Vec<(&str, Value)> = vec![
        ("train.grad_accum", 2.into()),
        ("train.grad_checkpointing", true.into()),
        ("train.precision", "bf16".into()),
        ("train.clip_grad", float(0.5)),
        ("optim.layerwise_lr_decay", float(0.8)),
        ("model.dropout", float(0.2)),
        ("model.attn_dropout", float(0.2)),
        ("head.pooling", "attn".into()),
        ("head.layers", 2.into()),
        ("head.dropout", float(0.3)),
        ("sched.name", "cosine_restart".into()),
        ("sched.warmup_ratio", float(0.2)),
        ("sched.cosine_cycles", 2.into()),
        ("loss.cls.type", "focal".into()),
        ("loss.cls.balance", "weighted".into()),
        ("tok.max_length", 8.into()),
        ("tok.doc_stride", 2.into()),
    ];
    let settings: [&[(&str, Value)]; 6] = [
        &[],
        &everything,
        &[
            ("train.freeze_encoder_layers", 1.into()),
            ("model.dropout", float(0.2)),
        ],
        &[
            ("train.freeze_encoder_layers", 2.into()),
            ("head.dropout", float(0.3)),
        ],
        &[
            ("sched.name", "one_cycle".into()),
            ("train.precision", "bf16".into()),
        ],
        &[
            ("sched.name", "polynomial".into()),
            ("train.patience", 3.into()),
        ],
    ];
    for changed in settings {
        assert_goes_on(&site, &trial(&site, 5, changed), 4);
    }
}

#[test]
fn early_stopping_remembers_what_it_saw_before() {
    let _alone = alone();
    let mut site = site();
    site.set("train.epochs", 12);
    let changed = [
        ("train.patience", Value::from(3)),
        ("train.min_delta", Value::Float(10.0)),
    ];
    // No epoch is better by that much than the first: the training ends after the fourth.
    let whole = assert_goes_on(&site, &trial(&site, 5, &changed), 3);
    assert_eq!(whole.epochs.len(), 4);
}

#[test]
fn frozen_parts_are_in_no_checkpoint_and_not_among_the_weights() {
    let _alone = alone();
    let site = five_epochs();
    let sizes = |frozen: i64| {
        let changed = [("train.freeze_encoder_layers", Value::from(frozen))];
        let mut cut = Cut::new(Some(2), None);
        let ended = open(&site).train(&trial(&site, 5, &changed), &mut cut);
        assert!(ended.is_err());
        let (_, state) = cut.kept.unwrap();
        let (.., weights) = cut.best.pop().unwrap();
        let names = SafeTensors::deserialize(&weights).unwrap().names().len();
        (state.metadata().unwrap().len(), names)
    };
    let ((all, many), (head, two)) = (sizes(0), sizes(2));
    assert!(head * 10 < all, "{head} {all}");
    assert_eq!(two, 2, "the classifier's weight and bias");
    // Queries, keys and values are tensors of their own, as in the checkpoint, less the pooler.
    let file = std::fs::read(site.tiny().join("model.safetensors")).unwrap();
    let pretrained = SafeTensors::deserialize(&file).unwrap();
    let pooler = pretrained
        .names()
        .iter()
        .filter(|n| n.contains("pooler"))
        .count();
    assert_eq!(many, pretrained.names().len() - pooler + 2);
}

#[test]
fn folds_go_on_within_the_fold_they_were_in() {
    let _alone = alone();
    let mut site = site();
    site.set("data.folds", 3);
    let trial = trial(&site, 5, &[("model.dropout", Value::Float(0.2))]);
    let mut whole = Cut::new(None, None);
    let undisturbed = open(&site).train(&trial, &mut whole).unwrap();
    assert!(whole.best.is_empty(), "a model a fold: none is the trial's");
    // The report of the second fold fails: its last epoch but one is the checkpoint.
    let mut first = Cut::new(Some(2), None);
    assert!(open(&site).train(&trial, &mut first).is_err());
    let mut second = Cut::new(None, first.kept);
    let resumed = open(&site).train(&trial, &mut second).unwrap();
    assert_eq!(resumed.ended, undisturbed.ended);
    assert_eq!(second.epochs, whole.epochs);
    assert_eq!(
        resumed.weights_fingerprint().unwrap(),
        undisturbed.weights_fingerprint().unwrap()
    );
    // Half of the second fold, and the third: less than two whole ones.
    assert!(
        second.steps * 3 < whole.steps * 2,
        "{} {}",
        second.steps,
        whole.steps
    );
}
