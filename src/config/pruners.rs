//! The kinds of pruners and their options, as data.

use super::keys::{Algorithm, Setting, SettingType, int, setting};
use search::space::{Params, Value};

/// Where the pruner inside `patient` has its kind and options.
pub const WRAPPED: &str = "wrapped";

const COUNT: SettingType = int(0, 1_000_000);
const STEPS: SettingType = int(1, 1_000_000);
const ANY: SettingType = SettingType::Float {
    low: -1e300,
    high: 1e300,
};
const PART: SettingType = SettingType::Float {
    low: 0.0,
    high: 1.0,
};

const STARTUP: Setting = setting(
    "n_startup_trials",
    COUNT,
    "5",
    "no pruning before this many trials are complete",
);
const WARMUP: Setting = setting(
    "n_warmup_steps",
    COUNT,
    "0",
    "no pruning in a trial's epochs before this one, which is checked",
);
const INTERVAL: Setting = setting(
    "interval_steps",
    STEPS,
    "1",
    "epochs from one check to the next",
);
const LEAST: Setting = setting(
    "n_min_trials",
    STEPS,
    "1",
    "trials that must have reported the epoch",
);
const BOOTSTRAP: Setting = setting(
    "bootstrap_count",
    COUNT,
    "0",
    "at each rung, the first so many trials end",
);

#[rustfmt::skip]
const AUTO: [Setting; 3] = [
    setting("n_startup_trials", COUNT, "8", "no pruning before this many trials are complete; fewer than 6 count as 6"),
    setting("n_warmup_steps", SettingType::IntOrAuto { low: 0, high: 1_000_000 }, "auto", "no pruning in a trial's epochs before this one; auto: a tenth of the longest trial. A first report is never judged"),
    setting("chance", PART, "0.05", "a trial ends if its chance of a new best value, for each epoch that is left, is below this part of a new trial's"),
];

const MEDIAN: [Setting; 4] = [STARTUP, WARMUP, INTERVAL, LEAST];

#[rustfmt::skip]
const PERCENTILE: [Setting; 5] = [
    setting("percentile", SettingType::Float { low: 0.0, high: 100.0 }, "25.0", "the part that goes on, in percent"),
    STARTUP, WARMUP, INTERVAL, LEAST,
];

#[rustfmt::skip]
const ASHA: [Setting; 4] = [
    setting("min_resource", SettingType::IntOrAuto { low: 1, high: 1_000_000 }, "auto", "epochs until the first rung; auto: a hundredth of the longest trial, at least 1"),
    setting("reduction_factor", int(2, 1_000_000), "4", "one trial of so many goes on at a rung; the next rung lies so many times higher"),
    setting("min_early_stopping_rate", int(0, 62), "0", "so many of the lowest rungs are left out"),
    BOOTSTRAP,
];

#[rustfmt::skip]
const HYPERBAND: [Setting; 4] = [
    setting("min_resource", STEPS, "1", "epochs until the first rung of the first bracket"),
    setting("max_resource", SettingType::IntOrAuto { low: 1, high: 1_000_000 }, "auto", "epochs of a whole trial; auto: those of the task, else of the longest complete trial"),
    setting("reduction_factor", int(2, 1_000_000), "3", "one trial of so many goes on at a rung; the next rung lies so many times higher"),
    BOOTSTRAP,
];

#[rustfmt::skip]
const PATIENT: [Setting; 3] = [
    setting("patience", COUNT, "4", "so many reports without an improvement are borne"),
    setting("min_delta", SettingType::Float { low: 0.0, high: 1e300 }, "0.0", "reports are worse than the best before if they are so by more than this"),
    setting("wrapped.kind", SettingType::Word(&["auto", "none", "median", "percentile", "asha", "hyperband", "threshold", "wilcoxon"]), "auto", "who decides once patience is exhausted; none: patience alone, so that every trial that gets worse for long ends without a value. Its options stand beside, as wrapped.NAME"),
];

#[rustfmt::skip]
const THRESHOLD: [Setting; 4] = [
    setting("lower", ANY, "", "a report below this ends the trial; default: no limit"),
    setting("upper", ANY, "", "a report above this ends the trial; default: no limit"),
    WARMUP, INTERVAL,
];

#[rustfmt::skip]
const WILCOXON: [Setting; 2] = [
    setting("p_threshold", PART, "0.1", "a trial ends if the chance that it is no worse than the best one is below this"),
    setting("n_startup_steps", COUNT, "2", "no pruning before this many folds that the best trial has as well; at least 2"),
];

/// The words of `pruner.kind`.
pub(super) const KINDS: SettingType = SettingType::Word(&[
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

const fn kind(name: &'static str, options: &'static [Setting], help: &'static str) -> Algorithm {
    Algorithm {
        name,
        options,
        help,
    }
}

/// Every pruner.
#[rustfmt::skip]
pub const PRUNERS: [Algorithm; 9] = [
    kind("auto", &AUTO, "ends a trial that, by what the complete trials teach, is far less likely to bring a new best value than a new one"),
    kind("none", &[], "no trial is ended early"),
    kind("median", &MEDIAN, "ends a trial whose best value so far is worse than the median of the others' at the same epoch"),
    kind("percentile", &PERCENTILE, "like median, with another part that goes on"),
    kind("asha", &ASHA, "asynchronous successive halving: at rungs of few epochs only the best go on"),
    kind("hyperband", &HYPERBAND, "successive halving with several first rungs, among which the trials are dealt"),
    kind("patient", &PATIENT, "asks another pruner only about trials that have stopped improving"),
    kind("threshold", &THRESHOLD, "ends a trial whose value leaves fixed limits"),
    kind("wilcoxon", &WILCOXON, "ends a trial that is worse than the best one fold by fold; each step is a fold"),
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
