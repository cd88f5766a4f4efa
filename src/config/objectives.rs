//! What is optimised: one objective by `objective.metric` and `objective.direction`, or several by
//! `objective.metrics`.

use super::document::Document;
use super::keys::{Algorithm, PRUNERS, SAMPLERS};
use super::overrides::toml_list;
use super::problem::{Problem, hint};
use super::settings::Settings;
use super::spec::{Objective, Operation, TestPolicy};
use crate::TaskKind;
use search::pruner::PrunerSpec;
use search::sampler::SamplerSpec;
use search::space::Params;
use search::study::Direction;

const METRIC: &str = "objective.metric";
const DIRECTION: &str = "objective.direction";
const METRICS: &str = "objective.metrics";

/// What the supervisor measures of every trial, whatever the task: seconds from the attempt's start
/// to its end, and peak resident memory in MiB. Both are made small where nothing else is said, and
/// neither can stand alone or first: no epoch has them.
pub const MEASURED: [&str; 2] = ["runtime_s", "peak_memory_mb"];

/// The objectives, the first one first; none where there are problems.
pub(super) fn read(
    document: &Document,
    settings: &Settings,
    kind: &'static TaskKind,
    problems: &mut Vec<Problem>,
) -> Vec<Objective> {
    let outside = |key: &str| document.overridden(key);
    let mut single = [METRIC, DIRECTION].into_iter();
    let given = single.find(|key| document.key(key).is_some());
    let read = match (settings.texts(METRICS), given) {
        (Some(_), Some(key)) if outside(key) == outside(METRICS) => {
            let expected = "either objective.metrics, or objective.metric and objective.direction";
            Err(vec![document.problem(
                METRICS,
                format!("{key} beside it"),
                expected,
            )])
        }
        // It has the wrong form, which has been told.
        (None, None) if document.key(METRICS).is_some() => Ok(Vec::new()),
        // A flag is about this run, the file about all of them.
        (Some(texts), given) if !given.is_some_and(outside) => several(document, texts, kind),
        (Some(_) | None, _) => match one(document, settings, kind) {
            Ok(objective) => Ok(objective.into_iter().collect()),
            Err(problem) => Err(vec![problem]),
        },
    };
    read.unwrap_or_else(|found| {
        problems.extend(found);
        Vec::new()
    })
}

/// What stands for an objective with problems where the rest of the study is looked at. Such a study never
/// starts.
pub(super) fn stand_in(kind: &TaskKind) -> Objective {
    let first = kind.metrics.first();
    Objective {
        metric: first.map_or("value", |metric| metric.name).to_owned(),
        direction: first.map_or(Direction::Minimize, |metric| metric.direction),
    }
}

/// Whether several objectives are asked for, valid or not.
pub(super) fn several_asked(document: &Document, settings: &Settings) -> bool {
    let outside = |key: &str| document.overridden(key);
    let overruled = !outside(METRICS) && [METRIC, DIRECTION].iter().any(|key| outside(key));
    !overruled && settings.texts(METRICS).is_some_and(|m| m.len() > 1)
}

/// What goes with several objectives: no trial is pruned, as in Optuna, there is no single winner to
/// repeat or to test, and `auto` is the sampler that was measured to be the better one
/// (docs/several-objectives.md).
pub(super) fn fit_to_several(
    document: &Document,
    operation: &mut Operation,
    problems: &mut Vec<Problem>,
) {
    let mut problem = |key: &str, found: &str, expected: &str| {
        let found = format!("{found} beside several objectives in {METRICS}");
        problems.push(document.problem(key, found, expected));
    };
    let kind = operation.pruner.kind.as_str();
    if !["auto", "none"].contains(&kind) {
        let expected = "none or auto: a trial's epochs are judged by one objective alone";
        problem("pruner.kind", kind, expected);
    }
    if operation.sampler.kind == "gp" {
        let expected =
            "nsga2, tpe, auto, random, sobol or grid: a Gaussian process models one objective";
        problem("sampler.kind", "gp", expected);
    }
    if operation.repeats > 1 {
        let expected = "1: repeats find one winner, and of several objectives there is a front";
        problem("run.repeats", &operation.repeats.to_string(), expected);
    }
    if let Some(share) = operation.until_flat {
        let expected = "no such key: what more trials would gain is told of one objective";
        problem("run.until_flat", &share.to_string(), expected);
    }
    let tests = match operation.test {
        TestPolicy::On => Some("on"),
        TestPolicy::Again => Some("again"),
        TestPolicy::Auto | TestPolicy::Off => None,
    };
    if let Some(word) = tests {
        let expected = "auto or off: there is no single winner to test";
        problem("run.test", word, expected);
    }
    for key in idle_options(document, operation) {
        let expected = "no such option: auto is nsga2 here, and no trial is pruned";
        problem(&key, "an option of auto", expected);
    }
    if operation.sampler.kind == "auto" {
        operation.sampler = SamplerSpec {
            kind: "nsga2".into(),
            options: Params::new(),
        };
    }
    operation.pruner = PrunerSpec {
        kind: "none".into(),
        options: Params::new(),
    };
}

/// Options given to an `auto` that stands for something else.
fn idle_options(document: &Document, operation: &Operation) -> Vec<String> {
    let of = |part: &'static str, kind: &str, kinds: &'static [Algorithm]| {
        let auto = kinds.iter().find(|k| k.name == "auto" && kind == "auto");
        let options = auto.map_or(&[][..], |auto| auto.options).iter();
        options.map(move |option| format!("{part}.{}", option.name))
    };
    of("sampler", &operation.sampler.kind, &SAMPLERS)
        .chain(of("pruner", &operation.pruner.kind, &PRUNERS))
        .filter(|key| document.key(key).is_some())
        .collect()
}

/// One objective; none where there is a problem with its direction, of which it has been told.
fn one(
    document: &Document,
    settings: &Settings,
    kind: &'static TaskKind,
) -> Result<Option<Objective>, Problem> {
    let direction: Option<Direction> = settings.text(DIRECTION).and_then(|word| word.parse().ok());
    let name = settings.text(METRIC);
    let (metric, natural) = if kind.accepts_any_parameter {
        if let Some(name) = name.filter(|name| name.trim().is_empty()) {
            return Err(document.problem(METRIC, format!("{name:?}"), "a metric's name"));
        }
        // It does not know its metrics: nobody but the user can say which direction is good.
        if direction.is_none() && document.key(DIRECTION).is_none() {
            let source = document.source_of_section("objective");
            let expected = "minimize or maximize";
            return Err(Problem::new(&source, DIRECTION, "nothing", expected));
        }
        (name.unwrap_or("value"), None)
    } else {
        let known = kind
            .metrics
            .iter()
            .find(|m| name.is_none_or(|name| m.name == name));
        let Some(metric) = known else {
            let (found, expected) = unknown(name.unwrap_or_default(), kind, false);
            return Err(document.problem(METRIC, found, expected));
        };
        (metric.name, Some(metric.direction))
    };
    let metric = metric.to_owned();
    Ok((direction.or(natural)).map(|direction| Objective { metric, direction }))
}

fn several(
    document: &Document,
    texts: &[String],
    kind: &'static TaskKind,
) -> Result<Vec<Objective>, Vec<Problem>> {
    let (mut objectives, mut problems) = (Vec::new(), Vec::new());
    for (index, text) in texts.iter().enumerate() {
        match of_several(text, index == 0, kind, &objectives) {
            Ok(objective) => objectives.push(objective),
            Err((found, expected)) => problems.push(document.problem(METRICS, found, expected)),
        }
    }
    match problems.is_empty() {
        true => Ok(objectives),
        false => Err(problems),
    }
}

/// One of several objectives, beside those `before` it; else what was found and expected.
fn of_several(
    text: &str,
    first: bool,
    kind: &'static TaskKind,
    before: &[Objective],
) -> Result<Objective, (String, String)> {
    let (metric, asked) = split(text);
    let measured = MEASURED.contains(&metric);
    let known = kind.metrics.iter().find(|m| m.name == metric);
    let natural = match measured {
        true => Some(Direction::Minimize),
        false => known.map(|m| m.direction),
    };
    let wrong = |found: String, expected: &str| Err((found, expected.to_owned()));
    if metric.is_empty() {
        let expected = "a metric's name, and :min or :max after it";
        return wrong(format!("{text:?}"), expected);
    }
    if before.iter().any(|o| o.metric == metric) {
        return wrong(format!("{metric} twice"), "different metrics");
    }
    if measured && first {
        let found = format!("{metric} as the first objective, which no epoch reports");
        let expected = "a metric of the task first: its best epoch is the trial's result";
        return wrong(found, expected);
    }
    if natural.is_none() && !kind.accepts_any_parameter {
        return Err(unknown(metric, kind, !first));
    }
    let Some(direction) = asked.or(natural) else {
        return match metric.rsplit_once(':') {
            Some((name, word)) => {
                let expected = format!("{name}:min or {name}:max");
                wrong(
                    format!("{metric}, where {word:?} is no direction"),
                    &expected,
                )
            }
            None => {
                let expected = format!("{metric}:min or {metric}:max");
                wrong(format!("{metric} without a direction"), &expected)
            }
        };
    };
    let metric = metric.to_owned();
    Ok(Objective { metric, direction })
}

/// `macro_f1:max` to metric and direction. What follows the last colon and is no direction belongs
/// to the name.
fn split(text: &str) -> (&str, Option<Direction>) {
    let text = text.trim();
    let parts = text.rsplit_once(':');
    match parts.and_then(|(name, word)| Some((name, word.trim().parse().ok()?))) {
        Some((name, direction)) => (name.trim(), Some(direction)),
        None => (text, None),
    }
}

/// What is wrong with a metric that a task kind does not report.
fn unknown(name: &str, kind: &TaskKind, further: bool) -> (String, String) {
    let mut names: Vec<&str> = kind.metrics.iter().map(|m| m.name).collect();
    if further {
        names.extend(MEASURED);
    }
    let near = hint(name, names.iter().copied());
    let found = format!("{name:?}, which task kind {} does not report", kind.name);
    (found, format!("one of {}{near}", names.join(", ")))
}

/// The override that `--objective` flags are: one list.
pub fn from_flags(flags: &[String]) -> (String, String) {
    let list = toml_list(flags.iter().map(String::as_str));
    (METRICS.to_owned(), list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_direction_is_what_follows_the_last_colon_if_it_is_one() {
        use Direction::{Maximize, Minimize};
        assert_eq!(split("f1:max"), ("f1", Some(Maximize)));
        assert_eq!(split(" val:loss : minimize "), ("val:loss", Some(Minimize)));
        assert_eq!(split("val:loss"), ("val:loss", None));
        assert_eq!(split(":min"), ("", Some(Minimize)));
    }
}
