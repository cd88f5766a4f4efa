//! The kinds of pruners and their options, as data.

use super::keys::Algorithm;
use crate::key::{FRACTION, Key, KeyType, Preset, float, int, int_or_auto, operational};
use search::space::{Params, Value};

/// Where the pruner inside `patient` has its kind and options.
pub(super) const WRAPPED: &str = "wrapped";

/// The option that names the pruner inside another.
pub(super) const WRAPPED_KIND: &str = "wrapped.kind";

/// Whether a pruner with these options has another one inside.
pub(super) fn wraps(options: &[Key]) -> bool {
    options.iter().any(|option| option.name == WRAPPED_KIND)
}

const COUNT: KeyType = int(0, 1_000_000);
const STEPS: KeyType = int(1, 1_000_000);
const ANY: KeyType = float(-1e300, 1e300);

const STARTUP: Key = operational("n_startup_trials", COUNT, Preset::Int(5))
    .help("no pruning before this many trials are complete");
const WARMUP: Key = operational("n_warmup_steps", COUNT, Preset::Int(0))
    .help("no pruning in a trial's epochs before this one, which is checked");
const INTERVAL: Key =
    operational("interval_steps", STEPS, Preset::Int(1)).help("epochs from one check to the next");
const LEAST: Key = operational("n_min_trials", STEPS, Preset::Int(1))
    .help("trials that must have reported the epoch");
const BOOTSTRAP: Key = operational("bootstrap_count", COUNT, Preset::Int(0))
    .help("at each rung, the first so many trials end");

const AUTO: [Key; 3] = [
    operational("n_startup_trials", COUNT, Preset::Int(8))
        .help("no pruning before this many trials are complete; fewer than 6 count as 6"),
    operational("n_warmup_steps", int_or_auto(0, 1_000_000), Preset::Text("auto"))
        .help("no pruning in a trial's epochs before this one; auto: a tenth of the longest trial. A first report is never judged"),
    operational("chance", FRACTION, Preset::Float(0.05))
        .help("a trial ends if its chance of a new best value, for each epoch that is left, is below this part of a new trial's"),
];

const MEDIAN: [Key; 4] = [STARTUP, WARMUP, INTERVAL, LEAST];

const PERCENTILE: [Key; 5] = [
    operational("percentile", float(0.0, 100.0), Preset::Float(25.0))
        .help("the part that goes on, in percent"),
    STARTUP,
    WARMUP,
    INTERVAL,
    LEAST,
];

const ASHA: [Key; 4] = [
    operational(
        "min_resource",
        int_or_auto(1, 1_000_000),
        Preset::Text("auto"),
    )
    .help("epochs until the first rung; auto: a hundredth of the longest trial, at least 1"),
    operational("reduction_factor", int(2, 1_000_000), Preset::Int(4))
        .help("one trial of so many goes on at a rung; the next rung lies so many times higher"),
    operational("min_early_stopping_rate", int(0, 62), Preset::Int(0))
        .help("so many of the lowest rungs are left out"),
    BOOTSTRAP,
];

const HYPERBAND: [Key; 4] = [
    operational("min_resource", STEPS, Preset::Int(1))
        .help("epochs until the first rung of the first bracket"),
    operational(
        "max_resource",
        int_or_auto(1, 1_000_000),
        Preset::Text("auto"),
    )
    .help("epochs of a whole trial; auto: those of the task, else of the longest complete trial"),
    operational("reduction_factor", int(2, 1_000_000), Preset::Int(3))
        .help("one trial of so many goes on at a rung; the next rung lies so many times higher"),
    BOOTSTRAP,
];

const PATIENT: [Key; 3] = [
    operational("patience", COUNT, Preset::Int(4))
        .help("so many reports without an improvement are borne"),
    operational("min_delta", float(0.0, 1e300), Preset::Float(0.0))
        .help("reports are worse than the best before if they are so by more than this"),
    operational(WRAPPED_KIND, KeyType::Choice(&["auto", "none", "median", "percentile", "asha", "hyperband", "threshold", "wilcoxon"]), Preset::Text("auto"))
        .help("who decides once patience is exhausted; none: patience alone, so that every trial that gets worse for long ends without a value. Its options stand beside, as wrapped.NAME"),
];

const THRESHOLD: [Key; 4] = [
    operational("lower", ANY, Preset::Optional)
        .help("a report below this ends the trial; default: no limit"),
    operational("upper", ANY, Preset::Optional)
        .help("a report above this ends the trial; default: no limit"),
    WARMUP,
    INTERVAL,
];

const WILCOXON: [Key; 2] = [
    operational("p_threshold", FRACTION, Preset::Float(0.1))
        .help("a trial ends if the chance that it is no worse than the best one is below this"),
    operational("n_startup_steps", COUNT, Preset::Int(2))
        .help("no pruning before this many folds that the best trial has as well; at least 2"),
];

/// The words of `pruner.kind`.
pub(super) const KINDS: KeyType = KeyType::Choice(&[
    "auto",
    "none",
    "median",
    "percentile",
    "asha",
    "hyperband",
    "patient",
    "threshold",
    "wilcoxon",
]);

/// Every pruner.
pub const PRUNERS: [Algorithm; 9] = [
    Algorithm::new("auto", &AUTO).help("ends a trial that, by what the complete trials teach, is far less likely to bring a new best value than a new one"),
    Algorithm::new("none", &[]).help("no trial is ended early"),
    Algorithm::new("median", &MEDIAN).help("ends a trial whose best value so far is worse than the median of the others' at the same epoch"),
    Algorithm::new("percentile", &PERCENTILE).help("like median, with another part that goes on"),
    Algorithm::new("asha", &ASHA).help("asynchronous successive halving: at rungs of few epochs only the best go on"),
    Algorithm::new("hyperband", &HYPERBAND).help("successive halving with several first rungs, among which the trials are dealt"),
    Algorithm::new("patient", &PATIENT).help("asks another pruner only about trials that have stopped improving"),
    Algorithm::new("threshold", &THRESHOLD).help("ends a trial whose value leaves fixed limits"),
    Algorithm::new("wilcoxon", &WILCOXON).help("ends a trial that is worse than the best one fold by fold; each step is a fold"),
];

/// Options that do not go together.
#[derive(Debug, PartialEq)]
pub(super) struct Contradiction {
    /// The option, without the section.
    pub option: &'static str,
    /// What was found.
    pub found: String,
    /// What was expected.
    pub expected: &'static str,
}

/// What is wrong with checked options as a whole.
pub(super) fn contradiction(kind: &str, options: &Params) -> Option<Contradiction> {
    let number = |name: &str| options.get(name).and_then(Value::as_f64);
    let wrong = |option, found: String, expected| {
        Some(Contradiction {
            option,
            found,
            expected,
        })
    };
    match (kind, number("lower"), number("upper")) {
        ("threshold", None, None) => {
            return wrong(
                "lower",
                "neither lower nor upper".into(),
                "at least one of them",
            );
        }
        ("threshold", Some(lower), Some(upper)) if lower > upper => {
            let found = format!("{lower}, above upper, which is {upper}");
            return wrong("lower", found, "a limit that is at most upper");
        }
        _ => {}
    }
    match (kind, number("min_resource"), number("max_resource")) {
        ("hyperband", Some(min), Some(max)) if max < min => {
            let found = format!("{max}, below min_resource, which is {min}");
            wrong("max_resource", found, "at least min_resource")
        }
        _ => None,
    }
}
