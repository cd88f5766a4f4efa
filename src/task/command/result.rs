//! What a program that has ended by itself comes to. Pure.

use regex::Regex;

use super::lines::diverged;
use super::output::Scanner;
use crate::{Ended, Metrics, ProgramFailed};
use fault::{Death, ProgramEnd, describe_program};

/// Everything that bears on the result.
#[derive(Debug, Clone, Default)]
pub struct ResultInputs {
    /// The objective's name.
    pub objective: String,
    /// Those of further objectives.
    pub further: Vec<String>,
    /// The pattern that finds the value in standard output.
    pub pattern: Option<String>,
    /// Of several steps the last one's value counts, not the best one's.
    pub last_counts: bool,
    /// Metrics of the last step with a value.
    pub last: Option<Metrics>,
    /// The last line without a step.
    pub result: Option<Metrics>,
}

impl ResultInputs {
    /// The first objective whose value is none, in the words of a fault.
    pub fn diverged(&self, metrics: &Metrics) -> Option<String> {
        let mut names = std::iter::once(&self.objective).chain(&self.further);
        names.find_map(|name| diverged(name, metrics))
    }
}

/// The result, if there is one.
///
/// # Errors
/// The program did not end with status 0, or gave no value.
pub fn conclude(
    seen: &ResultInputs,
    scanner: &mut Scanner,
    end: ProgramEnd,
) -> Result<Ended, ProgramFailed> {
    let fail = |end: ProgramEnd, message: String| Err(ProgramFailed { end, message });
    if end.death != Death::Exited(0) {
        let message = describe_program(end.death);
        return fail(end, message);
    }
    if let Some(metrics) = &seen.result {
        return Ok(returned(seen, metrics.clone()));
    }
    if seen.pattern.is_none()
        && let Some(last) = &seen.last
    {
        return Ok(if seen.last_counts {
            returned(seen, last.clone())
        } else {
            Ended::Completed
        });
    }
    match scanner.value(&seen.objective) {
        Ok(Some(value)) => {
            let mut metrics = scanner.others();
            metrics.retain(|name, _| !["value", "step", "epoch"].contains(&name.as_str()));
            metrics.insert(seen.objective.clone(), value);
            Ok(returned(seen, metrics))
        }
        Ok(None) => {
            let message = missing(seen, &end.output);
            fail(end, message)
        }
        Err(problem) => {
            // What was printed says nothing else of why it failed.
            let output = String::new();
            fail(ProgramEnd { output, ..end }, problem)
        }
    }
}

fn returned(seen: &ResultInputs, metrics: Metrics) -> Ended {
    match seen.diverged(&metrics) {
        Some(what) => Ended::Diverged {
            at: format!("the result: {what}"),
        },
        None => Ended::Returned { metrics },
    }
}

/// Why there is no value; `output` is the end of both outputs.
fn missing(seen: &ResultInputs, output: &str) -> String {
    match &seen.pattern {
        Some(pattern) => {
            // The scanner has found none in standard output.
            let is_match = |regex: Regex| output.lines().any(|line| regex.is_match(line));
            let elsewhere = match Regex::new(pattern).is_ok_and(is_match) {
                true => {
                    ", but a line on standard error does: print it to standard output, or put 2>&1 behind the \
                         command line of a shell"
                }
                false => "",
            };
            format!(
                "the program ended without a value: no line of its standard output matched task.value = \
                 '{pattern}'{elsewhere}"
            )
        }
        None => format!(
            "the program ended without a value: there was no metric line with \"{0}\", and \
             the last line of its standard output is no number (task.value is the pattern that \
             finds {0} in it)",
            seen.objective
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regex::Regex;

    fn metrics(value: f64) -> Metrics {
        Metrics::from([("f1".to_owned(), value)])
    }

    fn of(seen: ResultInputs, printed: &str, status: i32) -> Result<Ended, String> {
        let seen = ResultInputs {
            objective: "f1".into(),
            ..seen
        };
        let pattern = seen.pattern.as_deref().map(|p| Regex::new(p).unwrap());
        let mut scanner = Scanner::new(pattern);
        scanner.feed(printed.as_bytes());
        let end = ProgramEnd {
            death: Death::Exited(status),
            stopped: false,
            oom_kills: 0,
            output: printed.into(),
        };
        conclude(&seen, &mut scanner, end).map_err(|e| e.message)
    }

    fn value(ended: Ended) -> Option<f64> {
        match ended {
            Ended::Returned { metrics } => Some(metrics["f1"]),
            Ended::Completed | Ended::Pruned | Ended::Diverged { .. } => None,
        }
    }

    #[test]
    fn a_result_of_its_own_comes_first() {
        let seen = ResultInputs {
            result: Some(metrics(0.5)),
            last: Some(metrics(0.6)),
            pattern: Some("f1=(.*)".into()),
            ..ResultInputs::default()
        };
        assert_eq!(value(of(seen, "f1=0.7", 0).unwrap()), Some(0.5));
    }

    #[test]
    fn then_what_the_pattern_finds() {
        let seen = ResultInputs {
            last: Some(metrics(0.6)),
            pattern: Some("f1=(.*)".into()),
            ..ResultInputs::default()
        };
        assert_eq!(value(of(seen.clone(), "f1=0.7", 0).unwrap()), Some(0.7));
        let error = of(seen, "0.7", 0).unwrap_err();
        assert!(error.contains("matched task.value = 'f1=(.*)'"), "{error}");
    }

    #[test]
    fn then_the_steps_and_then_the_last_line_printed() {
        let steps = ResultInputs {
            last: Some(metrics(0.6)),
            ..ResultInputs::default()
        };
        assert_eq!(of(steps.clone(), "0.7", 0), Ok(Ended::Completed));
        let last = ResultInputs {
            last_counts: true,
            ..steps
        };
        assert_eq!(value(of(last, "0.7", 0).unwrap()), Some(0.6));
        assert_eq!(
            value(of(ResultInputs::default(), "0.7", 0).unwrap()),
            Some(0.7)
        );
        let error = of(ResultInputs::default(), "done", 0).unwrap_err();
        assert!(error.contains("no metric line with \"f1\""), "{error}");
    }

    #[test]
    fn a_value_that_is_no_number_is_a_divergence() {
        let ended = of(ResultInputs::default(), "nan", 0).unwrap();
        assert!(matches!(ended, Ended::Diverged { at } if at == "the result: f1 is NaN"));
    }

    #[test]
    fn so_is_one_of_a_further_objective_and_no_other() {
        let ended = |further: &[&str]| {
            let seen = ResultInputs {
                further: further.iter().map(ToString::to_string).collect(),
                ..ResultInputs::default()
            };
            of(seen, r#"{"f1": 0.5, "size": Infinity}"#, 0).unwrap()
        };
        assert!(
            matches!(ended(&["size"]), Ended::Diverged { at } if at == "the result: size is infinite")
        );
        assert_eq!(value(ended(&[])), Some(0.5));
    }

    #[test]
    fn a_status_other_than_0_is_a_failure_whatever_was_said() {
        let seen = ResultInputs {
            result: Some(metrics(0.5)),
            ..ResultInputs::default()
        };
        assert_eq!(
            of(seen, "", 1).unwrap_err(),
            "the program exited with status 1"
        );
    }
}
