//! Every key changes the weights where it acts, and nothing where it is said to be dead.

use super::*;
use config::kinds::text_classification::KEYS;
use config::{ActiveWhen, Is, Key, KeyType, Role};

type Setting = Vec<(&'static str, Value)>;

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
        "train.epochs" => (vec![], 3.into()),
        "train.patience" => (long(2, 10.0), 1.into()),
        "train.min_delta" => (long(5, 0.0), 10.0.into()),
        "train.batch_size" => (vec![], 8.into()),
        "train.clip_grad" => (vec![], 0.01.into()),
        "train.freeze_encoder_layers" => (vec![], 1.into()),
        "train.grad_accum" => (vec![], 2.into()),
        "train.grad_checkpointing" => (vec![], true.into()),
        "train.precision" => (vec![], "bf16".into()),
        "tok.max_length" => (vec![], 8.into()),
        "tok.doc_stride" => (vec![("tok.max_length", 8.into())], 2.into()),
        "optim.lr" => (vec![], 2e-3.into()),
        "optim.weight_decay" => (vec![], 0.1.into()),
        "optim.beta1" => (vec![], 0.8.into()),
        "optim.beta2" => (vec![], 0.95.into()),
        "optim.eps" => (vec![], 1e-4.into()),
        "optim.layerwise_lr_decay" => (vec![], 0.8.into()),
        "sched.name" => (vec![], "cosine".into()),
        "sched.warmup_ratio" => (vec![], 0.5.into()),
        "sched.cosine_cycles" => (vec![("sched.name", "cosine_restart".into())], 2.into()),
        "sched.poly_power" => (vec![("sched.name", "polynomial".into())], 2.0.into()),
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

fn training_keys() -> impl Iterator<Item = &'static Key<'static>> {
    KEYS.iter().filter(|key| key.role == Role::Training)
}

#[test]
fn every_key_changes_the_weights_where_it_acts() {
    let _alone = alone();
    let site = site();
    let mut task = open(&site);
    for key in training_keys() {
        let name = key.name;
        let Some((setting, value)) = tried(name) else {
            panic!("{name}: say here with which value it is tried");
        };
        let base = weights(&mut task, &site, &setting);
        let changed = [&setting[..], &[(name, value)]].concat();
        assert_ne!(base, weights(&mut task, &site, &changed), "{name}");
    }
}

/// Each value of a choice makes something of its own.
#[test]
fn every_word_changes_the_weights() {
    let _alone = alone();
    let site = site();
    let mut task = open(&site);
    for key in training_keys() {
        let KeyType::Choice(words) = key.ty else {
            continue;
        };
        let (setting, _) = tried(key.name).unwrap();
        let mut seen = Vec::new();
        for word in words {
            // One cycle of a cosine is a cosine, and of power 1 a polynomial is linear.
            let special: Setting = match *word {
                "cosine_restart" => vec![("sched.cosine_cycles", 2.into())],
                "polynomial" => vec![("sched.poly_power", 2.0.into())],
                _ => vec![],
            };
            let changed = [&setting[..], &special, &[(key.name, (*word).into())]].concat();
            let found = weights(&mut task, &site, &changed);
            assert!(!seen.contains(&found), "{} = {word}", key.name);
            seen.push(found);
        }
    }
}

/// Values for which a condition does not hold.
fn against(condition: ActiveWhen) -> Vec<Value> {
    match condition.is {
        Is::OneOf(words) => {
            let all = KEYS.iter().find(|k| k.name == condition.key).map(|k| k.ty);
            let Some(KeyType::Choice(all)) = all else {
                panic!("{} has no words", condition.key);
            };
            let others = all.iter().filter(|w| !words.contains(w));
            others.map(|w| (*w).into()).collect()
        }
        Is::AtLeast(least) => vec![(least - 1).into()],
        // The model has two layers.
        Is::Below(_) => vec![2.into()],
        // Both values of the key are above 0.
        Is::Beyond(by) => vec![by.into()],
        Is::LeftOut => panic!("{} is of the data", condition.key),
    }
}

#[test]
fn every_key_changes_nothing_where_it_is_said_to_be_dead() {
    let _alone = alone();
    let site = site();
    let mut task = open(&site);
    let mut seen = 0;
    for key in training_keys() {
        let Some(condition) = key.active_when else {
            continue;
        };
        for value in against(condition) {
            let dead = vec![(condition.key, value)];
            let base = weights(&mut task, &site, &dead);
            let changed = [&dead[..], &[(key.name, tried(key.name).unwrap().1)]].concat();
            let found = weights(&mut task, &site, &changed);
            assert_eq!(base, found, "{} where {dead:?}", key.name);
            seen += 1;
        }
    }
    assert!(seen >= 10, "{seen}");
}
