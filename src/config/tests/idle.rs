//! Fixed values that somebody wrote where they change nothing.

use super::problems::{classification, resolve_kinds, resolve_kinds_with};
use super::*;
use crate::active_when::inactive_values;

/// What is told of a study with this space, with `set` by flags.
fn told(space: &str, set: &[(&str, &str)]) -> Vec<String> {
    let mut overrides = Overrides::default();
    for (key, value) in set {
        overrides.push(key, value, Source::Flag(format!("--set {key}={value}")));
    }
    let spec = resolve_kinds_with(&classification(space), &overrides);
    let spec = spec.unwrap_or_else(|problems| panic!("{problems}"));
    inactive_values(&spec, crate::kinds::text_classification::KEYS, &[], None)
}

#[test]
fn a_written_value_that_changes_nothing_is_told_with_the_condition_under_which_it_would() {
    assert_eq!(
        told(
            "",
            &[
                ("head.hidden", "512"),
                ("loss.cls.gamma", "3"),
                ("loss.cls.type", "ce_label_smooth"),
                ("loss.cls.label_smoothing", "0.2"),
                ("sched.poly_power", "2"),
            ]
        ),
        [
            "head.hidden = 512 changes nothing, for head.layers is 1: it acts only where head.layers \
             is at least 2",
            "loss.cls.gamma = 3.0 changes nothing, for loss.cls.type is ce_label_smooth: it acts only \
             where loss.cls.type is focal",
            "sched.poly_power = 2.0 changes nothing, for sched.name is linear: it acts only where \
             sched.name is polynomial",
        ]
    );
}

#[test]
fn nothing_is_told_of_defaults_nor_of_a_value_that_acts_at_some_points() {
    assert_eq!(told("", &[]), [""; 0]);
    let layers = "\"head.layers\" = { low = 1, high = 2, int = true }\n";
    assert_eq!(told(layers, &[("head.hidden", "512")]), [""; 0]);
}

#[test]
fn patience_that_no_training_is_long_enough_for_is_told() {
    let patience = |patience, epochs| {
        told(
            "",
            &[("train.patience", patience), ("train.epochs", epochs)],
        )
    };
    let line = |patience, epochs| {
        format!(
            "train.patience = {patience} changes nothing, for train.epochs is {epochs}: it acts only \
             where train.epochs is at least 2 more"
        )
    };
    assert_eq!(patience("20", "20"), [line(20, 20)]);
    // To stop after the last epoch is to stop nowhere.
    assert_eq!(patience("19", "20"), [line(19, 20)]);
    assert_eq!(patience("18", "20"), [""; 0]);
    let searched = "\"train.epochs\" = { low = 2, high = 500, int = true }\n";
    assert_eq!(told(searched, &[("train.patience", "20")]), [""; 0]);
}

#[test]
fn shares_beside_a_column_of_parts_are_told() {
    let shares = [
        ("data.split.train", "0.9"),
        ("data.split.column", "part"),
        ("data.split.seed", "1"),
    ];
    assert_eq!(
        told("", &shares),
        [
            "data.split.train = 0.9 changes nothing, for data.split.column is part: it acts only \
             where data.split.column is left out"
        ]
    );
    assert_eq!(told("", &[shares[0]]), [""; 0]);
}

#[test]
fn the_shipped_configurations_search_nothing_where_it_changes_nothing() {
    for text in [
        include_str!("../../../configs/criteria.toml"),
        include_str!("../../../configs/synthetic.toml"),
    ] {
        resolve_kinds(text).unwrap_or_else(|problems| panic!("{problems}"));
    }
}

#[test]
fn a_parameter_searched_where_it_changes_nothing_is_refused_with_the_condition_to_write() {
    let text = classification(
        "\"loss.cls.type\" = { choices = [\"ce\", \"ce_label_smooth\", \"focal\"] }\n\
         \"loss.cls.label_smoothing\" = { low = 0, high = 0.2, when = { \"loss.cls.type\" = [\"ce\", \"ce_label_smooth\"] } }\n\
         \"loss.cls.alpha\" = { low = 0.1, high = 0.9, when = { \"loss.cls.type\" = [\"focal\"] } }\n\
         \"head.hidden\" = { choices = [256, 512] }\n",
    );
    let text = match resolve_kinds(&text) {
        Ok(_) => panic!("two parameters are dead"),
        Err(problems) => problems.to_string(),
    };
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "2 problems:",
            "t.toml:9: loss.cls.label_smoothing: found it searched where it changes nothing: \
             loss.cls.type = ce, expected it only where loss.cls.type is ce_label_smooth: when = \
             { \"loss.cls.type\" = [\"ce_label_smooth\"] }",
            "t.toml:11: head.hidden: found a parameter that changes nothing: head.layers is 1, \
             expected no such parameter, or another head.layers: it acts only where head.layers is \
             at least 2",
        ]
    );
    let fixed = classification(
        "\"head.layers\" = { low = 2, high = 4 }\n\"head.hidden\" = { choices = [256, 512] }\n\
         \"optim.layerwise_lr_decay\" = { low = 0.8, high = 1.0 }\n",
    );
    assert!(resolve_kinds(&fixed).is_ok(), "the depth is not known yet");
}
