//! Parameters that act on trained parts of the encoder alone, beside the depths of the models: where
//! all of an encoder is frozen they change nothing.

use std::collections::BTreeMap;

use config::active_when::{
    ConditionValues, condition_of, condition_values, explain_dead, inactive_values,
};
use config::kinds::text_classification::KEYS;
use config::{ActiveWhen, Is};
use config::{Problem, StudySpec};
use search::space::{Parameter, Params, Value};

/// Parameters that change nothing wherever they are searched. `layers` are those of the models, by
/// name.
pub fn refuse_dead(spec: &StudySpec, layers: &BTreeMap<String, i64>) -> Vec<Problem> {
    let dead = bound(spec, layers).into_iter();
    let dead = dead.filter(|(_, _, values)| values.alive.is_empty());
    dead.map(|(parameter, condition, values)| {
        let (found, expected) = explain_dead(&spec.space, parameter, condition, &values);
        spec.problem(&parameter.name, found, expected)
    })
    .collect()
}

/// What to tell of parameters that change nothing at some of the points where they are searched, and
/// of written values that change nothing at all.
pub fn warnings(spec: &StudySpec, layers: &BTreeMap<String, i64>) -> Vec<String> {
    let partly = bound(spec, layers).into_iter();
    let partly = partly.filter(|(_, _, values)| !values.alive.is_empty());
    partly
        .map(|(parameter, condition, values)| {
            let (found, expected) = explain_dead(&spec.space, parameter, condition, &values);
            format!("{}: found {found}, better {expected}", parameter.name)
        })
        .chain(inactive_values(
            spec,
            KEYS,
            &["model.name"],
            Some(&depth(spec, layers)),
        ))
        .collect()
}

/// The number of layers of the model at a point, where it is known.
fn depth<'a>(
    spec: &'a StudySpec,
    layers: &'a BTreeMap<String, i64>,
) -> impl Fn(&Params) -> Option<i64> + 'a {
    |params| {
        let name = params
            .get("model.name")
            .or_else(|| spec.fixed.get("model.name"));
        layers.get(name.and_then(Value::as_str)?).copied()
    }
}

/// The searched parameters that are dead beside some depths.
fn bound<'a>(
    spec: &'a StudySpec,
    layers: &BTreeMap<String, i64>,
) -> Vec<(&'a Parameter, ActiveWhen, ConditionValues)> {
    let depth = depth(spec, layers);
    let look = |parameter: &'a Parameter| {
        let condition = condition_of(KEYS, &parameter.name)?;
        let below = matches!(condition.is, Is::Below(_));
        let further = ["model.name"];
        let values = below
            .then(|| condition_values(&spec.space, KEYS, parameter, condition, &further, &depth))?;
        (!values.dead.is_empty()).then_some((parameter, condition, values))
    };
    spec.space.parameters.iter().filter_map(look).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TinyProject;
    use config::kinds::shared::FREEZE;
    use search::space::{Condition, Domain};

    /// A study that searches the layer-wise decay, and frozen layers from `low` to 2, which are all.
    fn spec(low: i64) -> StudySpec {
        let mut spec = TinyProject::new().spec;
        let domain = Domain::Int {
            low,
            high: 2,
            log: false,
            step: 1,
        };
        let decay = Domain::Float {
            low: 0.8,
            high: 1.0,
            log: false,
            step: None,
        };
        let parameters = &mut spec.space.parameters;
        parameters.push(Parameter::new(FREEZE, domain));
        parameters.push(Parameter::new("optim.layerwise_lr_decay", decay));
        spec
    }

    fn layers() -> BTreeMap<String, i64> {
        [("tiny".to_owned(), 2)].into()
    }

    #[test]
    fn what_acts_on_trained_layers_is_warned_of_where_none_may_be_left() {
        let mut spec = spec(0);
        assert!(refuse_dead(&spec, &layers()).is_empty());
        let warnings = warnings(&spec, &layers());
        assert_eq!(
            warnings,
            [
                "optim.layerwise_lr_decay: found it searched where it changes nothing: \
              train.freeze_encoder_layers = 2, better it only where train.freeze_encoder_layers is \
              below the model's number of layers: when = { \"train.freeze_encoder_layers\" = [0, 1] }"
            ]
        );
        spec.space.parameters[1].when = vec![Condition {
            parent: FREEZE.into(),
            values: vec![0.into(), 1.into()],
        }];
        assert!(super::warnings(&spec, &layers()).is_empty());
    }

    #[test]
    fn a_written_value_that_acts_on_trained_layers_is_warned_of_where_none_is_left() {
        let mut spec = spec(2);
        spec.space.parameters.truncate(1);
        spec.fixed
            .insert("optim.layerwise_lr_decay".into(), 0.9.into());
        assert!(super::warnings(&spec, &layers()).is_empty(), "a default");
        let line = config::Source::File("t.toml".into(), Some(3));
        spec.sources = [("optim.layerwise_lr_decay".into(), line)].into();
        assert_eq!(
            super::warnings(&spec, &layers()),
            [
                "optim.layerwise_lr_decay = 0.9 changes nothing, for train.freeze_encoder_layers is 2: it \
              acts only where train.freeze_encoder_layers is below the model's number of layers"
            ]
        );
        assert!(super::warnings(&spec, &[("tiny".to_owned(), 3)].into()).is_empty());
    }

    #[test]
    fn what_acts_on_trained_layers_is_refused_where_none_is_left() {
        let spec = spec(2);
        let problems = refuse_dead(&spec, &layers());
        assert_eq!(problems.len(), 1, "{problems:?}");
        let key = problems[0].key.as_deref();
        assert_eq!(key, Some("optim.layerwise_lr_decay"));
        assert!(warnings(&spec, &layers()).is_empty());
        // A deeper model leaves some.
        assert!(refuse_dead(&spec, &[("tiny".to_owned(), 3)].into()).is_empty());
    }
}
