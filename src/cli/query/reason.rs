//! Why a trial did not end with a value, or with one that does not count.

use search::study::{FrozenTrial, TrialState, violation};
use store::STRUCK_WHY;

/// The attribute with the word of the fault.
pub(super) const FAULT: &str = "fault";

/// The attributes that [`reason`] reads.
pub(super) const KEYS: [&str; 4] = [FAULT, "error_msg", "cuda_error_msg", STRUCK_WHY];

/// Why a trial was struck, pruned or failed, or may not win, in one line; empty where it was nothing of these.
pub(super) fn reason(trial: &FrozenTrial) -> String {
    let (state, violated) = (trial.state, violation(trial).is_some_and(|v| v > 0.0));
    let line = |key: &str| {
        let text = trial.user_attrs.get(key)?.as_str()?;
        text.lines().map(str::trim).find(|line| !line.is_empty())
    };
    if let Some(why) = line(STRUCK_WHY) {
        return format!("struck: {why}");
    }
    match state {
        TrialState::Complete if violated => "against a constraint".to_owned(),
        TrialState::Waiting | TrialState::Running | TrialState::Complete => String::new(),
        TrialState::Pruned | TrialState::Fail => {
            let message = line("error_msg").or_else(|| line("cuda_error_msg"));
            match (line(FAULT), message) {
                (Some("task_error") | None, Some(message)) => message.to_owned(),
                (Some(fault), Some(message)) => format!("{fault}: {message}"),
                (Some(fault), None) => fault.to_owned(),
                (None, None) if state == TrialState::Pruned => "by the pruner".to_owned(),
                (None, None) => String::new(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value as Json, json};

    #[test]
    fn a_reason_is_the_message_with_its_fault() {
        let trial = |state| FrozenTrial::new(0, state, [].into());
        let told = |state, attrs: Json| {
            let user_attrs = attrs.as_object().unwrap().clone();
            reason(&FrozenTrial {
                user_attrs,
                ..trial(state)
            })
        };
        let error = json!({"fault": "task_error", "error_msg": "\nexit status 1: no data\nmore"});
        assert_eq!(
            told(TrialState::Fail, error.clone()),
            "exit status 1: no data"
        );
        assert_eq!(told(TrialState::Complete, error), "");
        let oom = json!({"fault": "oom", "cuda_error_msg": "out of memory"});
        assert_eq!(told(TrialState::Pruned, oom), "oom: out of memory");
        assert_eq!(told(TrialState::Pruned, json!({"fault": "hang"})), "hang");
        assert_eq!(told(TrialState::Pruned, json!({})), "by the pruner");
        assert_eq!(told(TrialState::Fail, json!({})), "");
        let mut infeasible = trial(TrialState::Complete);
        let constraints = json!([-1.0, 0.5]);
        infeasible
            .system_attrs
            .insert("constraints".to_owned(), constraints);
        assert_eq!(reason(&infeasible), "against a constraint");
    }
}
