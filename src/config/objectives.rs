//! What is optimised: one objective by `objective.metric` and `objective.direction`, or several by
//! `objective.metrics`.

use super::document::Document;
use super::keys::{Algorithm, PRUNERS, SAMPLERS};
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
    match (settings.texts(METRICS), given) {
        (Some(_), Some(key)) if outside(key) == outside(METRICS) => {
            let expected = "either objective.metrics, or objective.metric and objective.direction";
            problems.push(document.problem(METRICS, format!("{key} beside it"), expected));
            Vec::new()
        }
        // A flag is about this run, the file about all of them.
        (Some(texts), given) if !given.is_some_and(outside) => {
            several(document, texts, kind, problems)
        }
        (Some(_) | None, _) => one(document, settings, kind, problems)
            .into_iter()
            .collect(),
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

fn one(
    document: &Document,
    settings: &Settings,
    kind: &'static TaskKind,
    problems: &mut Vec<Problem>,
) -> Option<Objective> {
    let direction = match settings.text(DIRECTION) {
        Some("minimize") => Some(Direction::Minimize),
        Some("maximize") => Some(Direction::Maximize),
        Some(_) | None => None,
    };
    if kind.accepts_any_parameter {
        return free(document, settings, direction, problems);
    }
    let metrics = kind.metrics;
    let metric = match settings.text(METRIC) {
        Some(name) => metrics.iter().find(|m| m.name == name),
        None => metrics.first(),
    };
    let Some(metric) = metric else {
        let name = settings.text(METRIC).unwrap_or_default();
        unknown(document, METRIC, name, kind, false, problems);
        return None;
    };
    Some(Objective {
        metric: metric.name.to_owned(),
        direction: direction.unwrap_or(metric.direction),
    })
}

/// The objective of a kind that does not know its metrics: nobody but the user can say which
/// direction is good.
fn free(
    document: &Document,
    settings: &Settings,
    direction: Option<Direction>,
    problems: &mut Vec<Problem>,
) -> Option<Objective> {
    if direction.is_none() && document.key(DIRECTION).is_none() {
        let source = document.source_of_section("objective");
        let expected = "minimize or maximize";
        problems.push(Problem::new(&source, DIRECTION, "nothing", expected));
    }
    Some(Objective {
        metric: settings.text(METRIC).unwrap_or("value").to_owned(),
        direction: direction?,
    })
}

fn several(
    document: &Document,
    texts: &[String],
    kind: &'static TaskKind,
    problems: &mut Vec<Problem>,
) -> Vec<Objective> {
    let before = problems.len();
    let mut objectives: Vec<Objective> = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        let (metric, asked) = split(text);
        let measured = MEASURED.contains(&metric);
        let known = kind.metrics.iter().find(|m| m.name == metric);
        let natural = match measured {
            true => Some(Direction::Minimize),
            false => known.map(|m| m.direction),
        };
        let mut problem = |found: String, expected: &str| {
            problems.push(document.problem(METRICS, found, expected));
        };
        if metric.is_empty() {
            problem(
                format!("{text:?}"),
                "a metric's name, and :min or :max after it",
            );
        } else if objectives.iter().any(|o| o.metric == metric) {
            problem(format!("{metric} twice"), "different metrics");
        } else if measured && index == 0 {
            let found = format!("{metric} as the first objective, which no epoch reports");
            problem(
                found,
                "a metric of the task first: its best epoch is the trial's result",
            );
        } else if natural.is_none() && !kind.accepts_any_parameter {
            unknown(document, METRICS, metric, kind, index > 0, problems);
        } else if let Some(direction) = asked.or(natural) {
            let metric = metric.to_owned();
            objectives.push(Objective { metric, direction });
        } else {
            let expected = format!("{metric}:min or {metric}:max");
            problem(format!("{metric} without a direction"), &expected);
        }
    }
    if problems.len() > before {
        return Vec::new();
    }
    objectives
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

fn unknown(
    document: &Document,
    key: &str,
    name: &str,
    kind: &'static TaskKind,
    further: bool,
    problems: &mut Vec<Problem>,
) {
    let mut names: Vec<&str> = kind.metrics.iter().map(|m| m.name).collect();
    if further {
        names.extend(MEASURED);
    }
    let near = hint(name, names.iter().copied());
    let found = format!("{name:?}, which task kind {} does not report", kind.name);
    let expected = format!("one of {}{near}", names.join(", "));
    problems.push(document.problem(key, found, expected));
}

/// The override that `--objective` flags are: one list.
pub fn from_flags(flags: &[String]) -> (String, String) {
    let quoted: Vec<String> = (flags.iter())
        .map(|flag| toml_edit::Value::from(flag.as_str()).to_string())
        .collect();
    (METRICS.to_owned(), format!("[{}]", quoted.join(", ")))
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
