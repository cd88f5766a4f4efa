//! What a history is worth, in one line.

use super::Assessment;
use search::importance::{Effect, FEWEST};

/// Whether a history helps the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Worth {
    /// It does.
    Yes,
    /// It may, but there are doubts.
    Doubtful,
    /// There is nothing to learn from it.
    No,
}

/// What a history is worth.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Verdict {
    /// Whether it helps.
    pub worth: Worth,
    /// What becomes history, and what speaks for and against it.
    pub text: String,
}

/// Fewer trials than this teach a sampler nothing that it would use.
const FEW: usize = 10;

/// The verdict over an assessment.
pub fn verdict(a: &Assessment) -> Verdict {
    let (history, finished) = (a.fit.history, a.fit.finished);
    let all = a.states.values().sum::<usize>();
    let becomes = format!("{history} of {all} trials become history for the sampler");
    let useless = useless(a);
    let doubts = doubts(a);
    let (worth, why) = match (useless, doubts) {
        (Some(why), _) => {
            let counts = match finished {
                0 => "",
                _ => " that counts towards the goal",
            };
            (
                Worth::No,
                format!(
                    "there is nothing to learn from it: {why}. Adopted, it is a record{counts}; for results, start a new study"
                ),
            )
        }
        (None, doubts) if !doubts.is_empty() => (
            Worth::Doubtful,
            format!("whether they help is doubtful: {}", doubts.join("; ")),
        ),
        (None, _) => (Worth::Yes, helps(a)),
    };
    let rest = finished.saturating_sub(history);
    let others = match rest {
        0 => String::new(),
        1 => ", 1 finished trial is kept as a record only".to_owned(),
        n => format!(", {n} finished trials are kept as a record only"),
    };
    Verdict {
        worth,
        text: format!("{becomes}{others}; {why}"),
    }
}

fn useless(a: &Assessment) -> Option<String> {
    let values = &a.values;
    if a.fit.finished == 0 {
        Some("no trial ended with a result".to_owned())
    } else if a.fit.history == 0 {
        Some("no trial fits what the task trains".to_owned())
    } else if values.best.is_none() {
        Some("no trial has a value that can be believed".to_owned())
    } else if values.constant {
        Some("all trials have the same value".to_owned())
    } else if values.trivial() {
        Some("no trial beats the trivial answer".to_owned())
    } else {
        None
    }
}

fn doubts(a: &Assessment) -> Vec<String> {
    let mut doubts = Vec::new();
    if a.fit.history < FEW {
        doubts.push(format!("fewer than {FEW} trials say little"));
    }
    let impossible = a.values.impossible.len();
    if impossible * 10 > a.values.scored {
        doubts.push(format!(
            "{impossible} of {} values are none that the metric can have",
            a.values.scored
        ));
    }
    if let Some(frequent) = a.values.frequent
        && frequent.trials * 2 > a.values.scored
    {
        doubts.push("more than half of the values are one and the same".to_owned());
    }
    if a.looked_at >= FEWEST && live(a) == 0 {
        doubts.push("no parameter shows an effect on the values".to_owned());
    }
    doubts
}

fn helps(a: &Assessment) -> String {
    let effect = match (live(a), a.looked_at >= FEWEST) {
        (_, false) => "too few are complete to say which parameters matter".to_owned(),
        (1, true) => "1 parameter shows an effect".to_owned(),
        (n, true) => format!("{n} parameters show an effect"),
    };
    let beats = match (&a.values.against, a.values.best) {
        (Some(against), Some(_)) => format!(
            "{} of {} complete trials beat the trivial answer",
            against.beaten_by, a.values.scored
        ),
        (None, Some(_)) => "the task has no trivial answer to compare with".to_owned(),
        (_, None) => String::new(),
    };
    format!("worth it: {beats}, {effect}")
}

fn live(a: &Assessment) -> usize {
    let shows = |e: &&Effect| matches!(e, Effect::Shows { .. });
    a.effects.values().filter(shows).count()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{asked, space, trial};
    use super::super::{TaskRequirements, assess};
    use super::*;
    use config::Baseline;
    use search::space::{Space, Value};
    use search::study::{FrozenTrial, TrialState};

    fn trials(n: u64, value: impl Fn(f64) -> f64) -> Vec<FrozenTrial> {
        (0..n)
            .map(|i| {
                // Two sequences that have nothing to do with each other.
                let lr = (i as f64 * 0.618_033_988_75).fract();
                let layers = (i as f64 * 0.414_213_562_37).fract() * 8.0;
                let params = [
                    ("lr", Value::Float(lr)),
                    ("layers", Value::Int(layers as i64 + 1)),
                    ("name", "adam".into()),
                ];
                trial(i, TrialState::Complete, Some(value(lr)), &params)
            })
            .collect()
    }

    fn judged(space: &Space, trials: &[FrozenTrial], baseline: f64) -> Verdict {
        let baseline = Baseline {
            value: baseline,
            what: "always 1".to_owned(),
        };
        let asked = TaskRequirements {
            baseline: Some(&baseline),
            ..asked(space)
        };
        verdict(&assess(trials, &asked))
    }

    #[test]
    fn a_history_in_which_something_was_learned_is_worth_it() {
        let found = judged(&space(), &trials(60, |lr| lr), 0.5);
        assert_eq!(found.worth, Worth::Yes, "{}", found.text);
        assert!(
            found.text.starts_with("60 of 60 trials become history"),
            "{}",
            found.text
        );
        assert!(found.text.contains("1 parameter shows an effect"));
    }

    #[test]
    fn nothing_is_to_be_learned_from_what_is_no_better_than_the_trivial_answer() {
        let found = judged(&space(), &trials(60, |lr| lr * 0.4), 0.5);
        assert_eq!(found.worth, Worth::No);
        assert!(found.text.contains("no trial beats the trivial answer"));
        let found = judged(&space(), &trials(60, |_| 0.7), 0.5);
        assert!(found.text.contains("all trials have the same value"));
        let mut space = space();
        space.parameters[0].name = "optim.lr".to_owned();
        let found = judged(&space, &trials(60, |lr| lr), 0.5);
        assert!(found.text.contains("no trial fits what the task trains"));
        assert!(judged(&space, &[], 0.5).text.contains("no trial ended"));
    }

    #[test]
    fn doubts_are_named() {
        let found = judged(&space(), &trials(8, |lr| lr), 0.1);
        assert_eq!(found.worth, Worth::Doubtful);
        assert!(found.text.contains("fewer than 10"), "{}", found.text);
        let noise = |lr: f64| (lr * 1e4).fract();
        let found = judged(&space(), &trials(60, noise), 0.1);
        assert!(
            found.text.contains("no parameter shows an effect"),
            "{}",
            found.text
        );
        let found = judged(&space(), &trials(60, |lr| lr * 1.5), 0.1);
        assert!(
            found.text.contains("of 60 values are none"),
            "{}",
            found.text
        );
    }
}
