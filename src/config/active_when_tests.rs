//! Spaces that search a parameter where it changes nothing.

use super::*;
use crate::Preset;
use crate::key::{float as float_type, int as int_type, training};

const LAYERS: ActiveWhen = when("head.layers", Is::AtLeast(2));
const FOCAL: ActiveWhen = when("loss", Is::OneOf(&["focal"]));
const DEPTH: ActiveWhen = when("frozen", Is::Below("the model's number of layers"));

fn keys() -> Vec<Key<'static>> {
    let words = KeyType::Choice(&["ce", "smooth", "focal"]);
    let many = int_type(0, 100_000);
    let key = training;
    vec![
        key("head.layers", many, Preset::Int(1)),
        key("head.hidden", many, Preset::Int(8)).only_where(LAYERS),
        key("loss", words, Preset::Text("ce")),
        key("gamma", float_type(0.0, 9.0), Preset::Float(2.0)).only_where(FOCAL),
        key("frozen", many, Preset::Int(0)),
        key("decay", float_type(0.0, 9.0), Preset::Float(1.0)).only_where(DEPTH),
        key("other", KeyType::Bool, Preset::Bool(false)),
        key("model", KeyType::Text, Preset::Required),
    ]
}

fn searched(name: &str, domain: Domain, when: &[(&str, &[Value])]) -> Parameter {
    let conditions = when.iter().map(|(parent, values)| Condition {
        parent: (*parent).to_owned(),
        values: values.to_vec(),
    });
    Parameter {
        when: conditions.collect(),
        ..Parameter::new(name, domain)
    }
}

fn float() -> Domain {
    Domain::Float {
        low: 0.0,
        high: 1.0,
        log: false,
        step: None,
    }
}

fn int(low: i64, high: i64) -> Domain {
    Domain::Int {
        low,
        high,
        log: false,
        step: 1,
    }
}

fn words(choices: &[&str]) -> Domain {
    Domain::Categorical {
        choices: choices.iter().map(|c| (*c).into()).collect(),
    }
}

/// The condition of the last parameter of a space, and what is told of it.
fn look(fixed: &[(&str, Value)], parameters: Vec<Parameter>) -> (ConditionValues, String, String) {
    let space = Space {
        parameters,
        constraints: vec![],
        fixed: fixed
            .iter()
            .map(|(k, v)| ((*k).into(), v.clone()))
            .collect(),
    };
    let parameter = space.parameters.last().unwrap();
    let condition = condition_of(&keys(), &parameter.name).unwrap();
    let depth = |params: &Params| match params.get("model").and_then(Value::as_str) {
        Some("large") => Some(4),
        Some(_) | None => Some(2),
    };
    let beside = condition_values(&space, &keys(), parameter, condition, &["model"], &depth);
    let (found, expected) = explain_dead(&space, parameter, condition, &beside);
    (beside, found, expected)
}

#[test]
fn a_parameter_without_a_condition_is_dead_beside_some_values_of_a_searched_key() {
    let loss = searched("loss", words(&["ce", "focal"]), &[]);
    let (beside, found, expected) = look(&[], vec![loss, searched("gamma", float(), &[])]);
    assert_eq!(beside.dead, ["ce".into()]);
    assert_eq!(found, "it searched where it changes nothing: loss = ce");
    assert_eq!(
        expected,
        "it only where loss is focal: when = { \"loss\" = [\"focal\"] }"
    );
}

#[test]
fn the_condition_to_write_keeps_those_that_stand_there() {
    let (yes, no) = (Value::Bool(true), Value::Bool(false));
    let choices = vec![no, yes.clone()];
    let other = searched("other", Domain::Categorical { choices }, &[]);
    let layers = searched("head.layers", int(1, 3), &[]);
    let hidden = searched("head.hidden", int(8, 16), &[("other", &[yes])]);
    let (beside, found, expected) = look(&[], vec![other, layers, hidden]);
    assert_eq!(beside.dead, [Value::Int(1)]);
    assert!(found.ends_with("head.layers = 1"), "{found}");
    let line = "when = { \"other\" = [true], \"head.layers\" = [2, 3] }";
    assert!(expected.ends_with(line), "{expected}");
}

#[test]
fn a_condition_that_says_it_is_enough_and_so_is_one_that_follows_from_it() {
    let loss = || searched("loss", words(&["ce", "focal"]), &[]);
    let focal: &[Value] = &["focal".into()];
    let gamma = searched("gamma", float(), &[("loss", focal)]);
    assert!(look(&[], vec![loss(), gamma]).0.dead.is_empty());
    // `other` exists beside the focal loss alone, and gamma beside `other` alone.
    let choices = vec![Value::Bool(false), Value::Bool(true)];
    let other = searched("other", Domain::Categorical { choices }, &[("loss", focal)]);
    let both: &[Value] = &[Value::Bool(false), Value::Bool(true)];
    let gamma = searched("gamma", float(), &[("other", both)]);
    assert!(look(&[], vec![loss(), other, gamma]).0.dead.is_empty());
}

#[test]
fn a_key_that_is_inactive_has_its_preset() {
    let choices = vec![Value::Bool(false), Value::Bool(true)];
    let other = searched("other", Domain::Categorical { choices }, &[]);
    let loss = searched("loss", words(&["focal"]), &[("other", &[true.into()])]);
    let gamma = searched("gamma", float(), &[]);
    let (beside, _, expected) = look(&[], vec![other, loss, gamma]);
    assert_eq!((beside.alive.len(), beside.dead), (1, vec!["ce".into()]));
    assert!(expected.contains("\"loss\" = [\"focal\"]"), "{expected}");
}

#[test]
fn a_fixed_key_makes_a_parameter_dead_everywhere_or_nowhere() {
    let gamma = || searched("gamma", float(), &[]);
    let (beside, found, expected) = look(&[("loss", "ce".into())], vec![gamma()]);
    assert!(beside.alive.is_empty());
    assert_eq!(found, "a parameter that changes nothing: loss is ce");
    assert_eq!(
        expected,
        "no such parameter, or another loss: it acts only where loss is focal"
    );
    assert!(
        look(&[("loss", "focal".into())], vec![gamma()])
            .0
            .dead
            .is_empty()
    );
    // Without any value it is the preset's.
    assert_eq!(look(&[], vec![gamma()]).0.dead, ["ce".into()]);
}

#[test]
fn of_long_ranges_the_ends_are_found() {
    let layers = searched("head.layers", int(1, 50_000), &[]);
    let hidden = searched("head.hidden", int(8, 16), &[]);
    let (beside, _, expected) = look(&[], vec![layers, hidden]);
    assert_eq!(beside.dead, [Value::Int(1)]);
    assert_eq!(expected, "it only where head.layers is at least 2");
}

#[test]
fn constraints_leave_points_out() {
    let layers = searched("head.layers", int(1, 3), &[]);
    let hidden = searched("head.hidden", int(8, 16), &[]);
    let space = Space {
        parameters: vec![layers, hidden],
        constraints: vec![search::space::Constraint {
            expr: "head.layers >= 2".parse().unwrap(),
            when: vec![],
        }],
        fixed: Params::new(),
    };
    let found = condition_values(&space, &keys(), &space.parameters[1], LAYERS, &[], &|_| {
        None
    });
    assert!(found.dead.is_empty());
}

#[test]
fn a_limit_that_depends_on_the_model_is_met_beside_each_model() {
    let model = || searched("model", words(&["small", "large"]), &[]);
    let frozen = |high| searched("frozen", int(0, high), &[]);
    let decay = || searched("decay", float(), &[]);
    let (beside, _, expected) = look(&[], vec![model(), frozen(4), decay()]);
    assert_eq!(beside.dead, [2, 3, 4].map(Value::Int));
    assert!(
        expected.ends_with("when = { \"frozen\" = [0, 1] }"),
        "{expected}"
    );
    assert!(
        look(&[], vec![model(), frozen(1), decay()])
            .0
            .dead
            .is_empty()
    );
    let all = look(&[("frozen", 4.into())], vec![model(), decay()]).0;
    assert!(all.alive.is_empty() && !all.dead.is_empty());
}

#[test]
fn where_a_key_is_dead_is_told_by_the_other_words() {
    let told = |condition| dead_where(&keys(), condition);
    assert_eq!(told(FOCAL), "dead where it is ce or smooth");
    assert_eq!(told(LAYERS), "dead below 2");
    assert_eq!(told(DEPTH), "dead from there on");
}
