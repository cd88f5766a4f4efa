//! The report of a small study.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::*;
use config::Baseline;
use config::{Objective, Operation};
use search::space::{Constraint, HighWhen, Params, Space};
use search::study::Direction;

fn operation() -> Operation {
    let mut operation = Operation::sample(40);
    operation.sampler.kind = "tpe".into();
    operation
}

fn space() -> Space {
    let large = || {
        vec![Condition {
            parent: "model.name".to_owned(),
            values: vec!["large".into()],
        }]
    };
    Space {
        parameters: vec![
            Parameter {
                name: "model.name".to_owned(),
                domain: Domain::Categorical {
                    choices: vec!["small".into(), "large".into()],
                },
                when: Vec::new(),
                high_when: Vec::new(),
                default: Some("small".into()),
            },
            Parameter {
                name: "optim.lr".to_owned(),
                domain: Domain::Float {
                    low: 5e-6,
                    high: 3e-4,
                    log: true,
                    step: None,
                },
                when: Vec::new(),
                high_when: vec![HighWhen {
                    when: large(),
                    high: 1.5e-4,
                }],
                default: None,
            },
        ],
        constraints: vec![Constraint {
            expr: "optim.lr <= 1".parse().unwrap(),
            when: large(),
        }],
        fixed: Params::new(),
    }
}

fn spec() -> StudySpec {
    StudySpec {
        task: "criteria".to_owned(),
        kind: "synthetic".to_owned(),
        file: PathBuf::from("configs/criteria.toml"),
        study: "criteria".to_owned(),
        objective: Objective {
            metric: "macro_f1".to_owned(),
            direction: Direction::Maximize,
        },
        further: vec![],
        seed: 0,
        space: space(),
        fixed: Params::from([("train.epochs".to_owned(), Value::Int(4))]),
        sources: Default::default(),
        lists: BTreeMap::new(),
        models: BTreeMap::new(),
        points: vec![Params::from([("optim.lr".to_owned(), Value::Float(1e-4))])],
        operation: operation(),
    }
}

fn prepared() -> Prepared {
    Prepared {
        baseline: Some(Baseline {
            value: 0.427,
            what: "always predicting class 1 of status".to_owned(),
        }),
        facts: vec![("data".to_owned(), "2058 rows".to_owned())],
        ..Prepared::default()
    }
}

#[test]
fn the_report_shows_space_data_and_trivial_answer() {
    let expected = "\
configuration  configs/criteria.toml
task           criteria (synthetic)
study          criteria, seed 0
objective      maximize macro_f1
goal           40 trials
sampler        tpe
pruner         none
data           2058 rows
trivial answer macro_f1 0.427: always predicting class 1 of status

space: 2 parameters
  model.name  {small, large}     default small
  optim.lr    5e-6 .. 3e-4, log                 at most 1.5e-4 if model.name is large
  constraint: optim.lr <= 1 if model.name is large
point 1
  optim.lr = 0.0001

fixed
  train.epochs = 4
";
    assert_eq!(check_report(&spec(), &prepared()), expected);
}

#[test]
fn the_report_for_scripts_says_the_same() {
    let json = check_json(&spec(), &prepared());
    assert_eq!(json["space"][1]["domain"], "5e-6 .. 3e-4, log");
    assert_eq!(json["baseline"]["value"], 0.427);
    assert_eq!(
        json["constraints"][0],
        "optim.lr <= 1 if model.name is large"
    );
    assert_eq!(json["fixed"]["train.epochs"], 4);
}

#[test]
fn the_report_shows_the_pruner_with_its_options_and_the_longest_trial() {
    let mut spec = spec();
    spec.operation.pruner.kind = "threshold".into();
    spec.operation.pruner.options = [("upper".to_owned(), 2.5.into())].into();
    let report = check_report(&spec, &Prepared::default());
    let line = "\npruner         threshold: upper = 2.5, at most 4 epochs\n";
    assert!(report.contains(line), "{report}");
    let json = check_json(&spec, &Prepared::default());
    assert_eq!(json["pruner_options"]["upper"], 2.5);
    assert_eq!(json["last_epoch"], 4);
}

#[test]
fn the_report_says_where_parameters_act_and_what_makes_them_dead() {
    let mut spec = spec();
    spec.kind = "text-classification".to_owned();
    spec.space.parameters[1].name = "loss.cls.gamma".to_owned();
    let report = check_report(&spec, &prepared());
    let lines = "\nwhere parameters act
  loss.cls.gamma  where loss.cls.type is focal; dead where it is ce or ce_label_smooth
  the others      everywhere\n";
    assert!(report.contains(lines), "{report}");
    let json = check_json(&spec, &prepared());
    assert_eq!(json["space"][0]["acts_where"], json!([]));
    let acts = "where loss.cls.type is focal; dead where it is ce or ce_label_smooth";
    assert_eq!(json["space"][1]["acts_where"], json!([acts]));
}

#[test]
fn what_may_not_be_meant_is_noted() {
    let mut spec = spec();
    assert!(!check_report(&spec, &prepared()).contains("note: "));
    spec.kind = "command".to_owned();
    let layers = &mut spec.space.parameters[1];
    layers.name = "value".to_owned();
    layers.domain = Domain::float(1.0, 6.0);
    let report = check_report(&spec, &prepared());
    assert!(report.contains("\nnote: value is searched with decimals; `int = true`"));
    assert!(report.contains("\nnote: the parameter value is called as the objective is"));
    spec.space.parameters[1].domain = Domain::int(1, 6);
    let json = check_json(&spec, &prepared());
    let used_up = "the space has at most 12 points, and the goal is 40 trials: points come again";
    assert_eq!(json["notes"][1], used_up);
}

#[test]
fn warnings_stand_in_the_report() {
    let mut prepared = prepared();
    prepared.warnings = vec!["row 3 is odd".to_owned()];
    assert!(check_report(&spec(), &prepared).contains("\nwarning: row 3 is odd\n"));
    assert_eq!(
        check_json(&spec(), &prepared)["warnings"][0],
        "row 3 is odd"
    );
}
