//! Why trials failed, for people.

use fault::{Failure, FailureGroup, FaultKind};

use crate::About;
use crate::format::plural;
use messages::printable;
use search::study::{FrozenTrial, TrialState};

/// So many kinds of failures are told where there is more to tell.
pub const TOLD: usize = 3;

/// So many of a group's trials are named.
const NAMED: usize = 5;

/// The user attributes that [`failure`] reads.
pub const FAILURE_ATTRS: [&str; 6] = [
    "fault",
    "infeasible",
    "error_msg",
    "error_place",
    "cuda_error_msg",
    "cuda_error_place",
];

/// What is known of a failed trial; `None` of any other. One that a fault has pruned has failed, too,
/// unless the point was bad (a loss that is no number is a result of the search) or nothing was: a trial
/// that took longer than it may.
pub fn failure(trial: &FrozenTrial, log: Option<String>) -> Option<Failure> {
    let text = |name: &str| Some(trial.user_attrs.get(name)?.as_str()?.to_owned());
    let fault = text("fault");
    let failed = match trial.state {
        TrialState::Fail => true,
        TrialState::Pruned => {
            let no_failures = [FaultKind::Diverged, FaultKind::TimeLimit].map(FaultKind::word);
            let of = fault.as_deref().filter(|word| !no_failures.contains(word));
            of.is_some() && trial.counts()
        }
        TrialState::Complete | TrialState::Running | TrialState::Waiting => false,
    };
    failed.then(|| Failure {
        trial: trial.number,
        fault: fault.unwrap_or_else(|| "unknown".into()),
        message: text("error_msg")
            .or_else(|| text("cuda_error_msg"))
            .unwrap_or_else(|| "no message was recorded".into()),
        place: text("error_place").or_else(|| text("cuda_error_place")),
        log,
    })
}

/// Why trials of a study failed: of each group how many and which, what they said, and what to do
/// next. At most `most` groups.
pub fn failure_lines(about: &About, groups: &[FailureGroup], most: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for group in groups.iter().take(most) {
        let (whom, trials) = match group.trials.as_slice() {
            [one] => (format!("trial {one}"), None),
            several => {
                let count = plural(several.len() as u64, "trial");
                (count, Some(format!("  {}", named(several))))
            }
        };
        let message = printable(group.message.lines().next().unwrap_or_default());
        lines.push(format!("{whom} ({}): {message}", group.fault));
        lines.extend(trials);
        if let Some(place) = &group.place {
            lines.push(format!("  at {}", printable(place)));
        }
        let latest = group.latest();
        lines.push(format!("  {} {latest}", about.command("show")));
        if let Some(log) = &group.log {
            lines.push(format!("  tune explain {log}"));
        }
    }
    if let Some(others) = groups.len().checked_sub(most).filter(|n| *n > 0) {
        let failures = plural(others as u64, "other failure");
        lines.push(format!("and {failures}: {}", about.command("failures")));
    }
    lines
}

/// What to say where trials have been pruned and none has come to a value: so many of them, by a loss or value that was
/// NaN or infinite; `latest` is one to look at.
pub fn no_value(about: &About, pruned: u64, diverged: u64, latest: u64) -> String {
    match diverged {
        0 => format!(
            "no trial has come to a value, all {pruned} were pruned; the reason of each: {} --columns number,state,reason",
            about.command("trials")
        ),
        _ => format!(
            "no trial came to its end with a finite value: {diverged} of {pruned} diverged, which means that the loss or \
             the value was NaN or infinite. Look for a learning rate that is too large, a division by 0, a logarithm of 0, or NaN in the \
             data: {} {latest}",
            about.command("logs")
        ),
    }
}

/// `trials 3, 4, 9 and 2 more`.
fn named(trials: &[u64]) -> String {
    let shown: Vec<String> = trials.iter().take(NAMED).map(u64::to_string).collect();
    match trials.len().saturating_sub(NAMED) {
        0 => format!("trials {}", shown.join(", ")),
        more => format!("trials {} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use search::space::Params;
    use serde_json::json;

    fn trial(state: TrialState, attrs: serde_json::Value) -> FrozenTrial {
        let mut trial = FrozenTrial::new(3, state, Params::new());
        if let serde_json::Value::Object(attrs) = attrs {
            trial.user_attrs = attrs;
        }
        trial
    }

    fn group(trials: &[u64], message: &str) -> FailureGroup {
        FailureGroup {
            fault: "task_error".into(),
            message: message.into(),
            count: trials.len(),
            trials: trials.to_vec(),
            place: Some("train.py:3".into()),
            log: Some("a.log".into()),
        }
    }

    #[test]
    fn a_trial_that_a_fault_has_pruned_has_failed_but_not_one_that_diverged_or_was_refused() {
        let told = |state, attrs| failure(&trial(state, attrs), None).map(|f| f.message);
        let crash = json!({"fault": "crash", "error_msg": "SIGSEGV"});
        assert_eq!(told(TrialState::Pruned, crash).unwrap(), "SIGSEGV");
        let oom = json!({"fault": "oom", "cuda_error_msg": "out of memory"});
        assert_eq!(told(TrialState::Pruned, oom).unwrap(), "out of memory");
        assert_eq!(
            told(TrialState::Fail, json!({})).unwrap(),
            "no message was recorded"
        );
        for (state, attrs) in [
            (TrialState::Pruned, json!({"fault": "diverged"})),
            (TrialState::Pruned, json!({"fault": "time_limit"})),
            (
                TrialState::Pruned,
                json!({"infeasible": true, "fault": "oom"}),
            ),
            (TrialState::Pruned, json!({})),
            (TrialState::Complete, json!({"fault": "crash"})),
        ] {
            assert_eq!(told(state, attrs.clone()), None, "{attrs}");
        }
    }

    #[test]
    fn a_failure_is_read_from_each_of_its_attributes() {
        let attrs = FAILURE_ATTRS.map(|key| (key.to_owned(), json!(key)));
        let read = |left_out: &str| {
            let some = attrs.iter().filter(|(key, _)| key != left_out).cloned();
            let mut infeasible: serde_json::Map<_, _> = some.collect();
            infeasible.insert("runtime_s".into(), json!(1.0));
            let mut feasible = infeasible.clone();
            let refused = infeasible.get_mut("infeasible");
            refused.into_iter().for_each(|is| *is = json!(true));
            // What stands behind another attribute.
            let mut second = feasible.clone();
            second.retain(|key, _| !key.starts_with("error_"));
            feasible.remove("infeasible");
            [infeasible, feasible, second]
                .map(|attrs| failure(&trial(TrialState::Pruned, json!(attrs)), None))
        };
        for key in FAILURE_ATTRS {
            assert_ne!(read(key), read(""), "{key}");
        }
    }

    #[test]
    fn trials_without_a_value_are_told_with_what_to_look_for() {
        let about = About::new("s", "tune");
        let told = no_value(&about, 4, 3, 7);
        assert!(
            told.contains("3 of 4 diverged") && told.ends_with("tune logs s 7"),
            "{told}"
        );
        let told = no_value(&about, 4, 0, 7);
        assert!(told.contains("all 4 were pruned"), "{told}");
    }

    #[test]
    fn the_most_frequent_failures_are_told_with_what_to_do_next() {
        let groups = [
            group(&[1, 2, 3, 4, 5, 6, 7], "no\u{1b}[31m"),
            group(&[9], "x"),
        ];
        let told = failure_lines(&About::new("s", "tune -C d"), &groups, 1);
        let expected = [
            "7 trials (task_error): no\\u001b[31m",
            "  trials 1, 2, 3, 4, 5 and 2 more",
            "  at train.py:3",
            "  tune -C d show s 7",
            "  tune explain a.log",
            "and 1 other failure: tune -C d failures s",
        ];
        assert_eq!(told, expected);
        assert_eq!(
            failure_lines(&About::new("s", "tune -C d"), &groups, 9)[5],
            "trial 9 (task_error): x"
        );
    }
}
