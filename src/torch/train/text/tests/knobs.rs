//! Every key changes the weights where it acts, and nothing where it is said to be dead.

use super::*;
use crate::train::testing::{Setting, Suite, Trained};
use config::kinds::text_classification::KEYS;

/// Another value of a key, and where it is tried: its conditions hold there. `None`: an unknown key.
fn tried(key: &str) -> Option<(Setting, Value)> {
    let focal = || vec![("loss.cls.type", "focal".into())];
    let deep = || vec![("head.layers", 2.into())];
    let long = |patience: i64, min_delta: f64| -> Setting {
        vec![
            ("train.epochs", 12.into()),
            ("optim.lr", 5e-3.into()),
            ("train.patience", patience.into()),
            ("train.min_delta", min_delta.into()),
        ]
    };
    Some(match key {
        "train.patience" => (long(2, 10.0), 1.into()),
        "train.min_delta" => (long(5, 0.0), 10.0.into()),
        "train.freeze_encoder_layers" => (vec![], 1.into()),
        "train.grad_checkpointing" => (vec![], true.into()),
        "tok.max_length" => (vec![], 8.into()),
        "tok.doc_stride" => (vec![("tok.max_length", 8.into())], 2.into()),
        "optim.layerwise_lr_decay" => (vec![], 0.8.into()),
        "model.name" => (vec![], "other".into()),
        "model.dropout" => (vec![], 0.2.into()),
        "model.attn_dropout" => (vec![], 0.2.into()),
        "head.pooling" => (vec![], "cls".into()),
        "head.layers" => (vec![], 2.into()),
        "head.hidden" => (deep(), 32.into()),
        "head.activation" => (deep(), "relu".into()),
        "head.dropout" => (vec![], 0.3.into()),
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

/// What the suite asks of a training with these keys changed.
fn with_suite(check: fn(&Suite<'_>, &mut Trained<'_>)) {
    let _alone = alone();
    let site = site();
    let mut task = open(&site);
    // The model has two layers.
    let suite = Suite {
        keys: KEYS,
        tried: &tried,
        limit: 2,
    };
    check(&suite, &mut |changed| weights(&mut task, &site, changed));
}

#[test]
fn every_key_changes_the_weights_where_it_acts() {
    with_suite(|suite, weights| suite.every_key_changes(weights));
}

#[test]
fn every_word_changes_the_weights() {
    with_suite(|suite, weights| suite.every_word_changes(weights));
}

#[test]
fn every_key_changes_nothing_where_it_is_said_to_be_dead() {
    with_suite(|suite, weights| assert!(suite.dead_keys_change_nothing(weights) >= 10));
}
