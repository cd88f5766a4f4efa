//! The metric lines of a program: one JSON object a line. Pure.

use serde_json::Value as Json;

use crate::Metrics;
use messages::number_from_json;
use messages::python_json;

/// The longest metric line, in bytes.
pub const LONGEST: usize = 1 << 20;

/// The longest name of a metric, in characters: a database holds 512, with what stands before it there.
pub const LONGEST_NAME: usize = 480;

/// Whether a metric's name is too long for a database.
pub fn is_too_long(name: &str) -> bool {
    name.chars().nth(LONGEST_NAME).is_some()
}

/// The beginning of a line, whose end has not come yet.
#[derive(Debug, Default)]
pub struct PartialLine(Vec<u8>);

impl PartialLine {
    /// The lines that `bytes` complete. A line that grows longer than [`LONGEST`] is given up: a line
    /// that says so stands in its place, which is no metric line.
    pub fn take(&mut self, bytes: &[u8]) -> Vec<String> {
        self.0.extend_from_slice(bytes);
        let end = self.0.iter().rposition(|b| *b == b'\n');
        let rest = self.0.split_off(end.map_or(0, |end| end + 1));
        let whole = std::mem::replace(&mut self.0, rest);
        let text = String::from_utf8_lossy(&whole);
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        if self.0.len() > LONGEST {
            self.0.clear();
            lines.push(format!("(more than {LONGEST} bytes without a line's end)"));
        }
        lines
    }

    /// What there is of it.
    pub fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }
}

/// One line, read.
#[derive(Debug, Clone, PartialEq)]
struct MetricLine {
    step: Option<u32>,
    pruned: bool,
    /// Every number but the step; the objective under its own name.
    metrics: Metrics,
}

/// What a line means for the trial.
#[derive(Debug, Clone, PartialEq)]
pub enum Meaning {
    /// A sign of life, or metrics that belong to a value still to come.
    Alive,
    /// A step with its value.
    Step(u32, Metrics),
    /// The result, which no step has.
    Result(Metrics),
    /// The program ends the trial itself, as not worth going on with.
    Pruned,
    /// Nothing, because of this.
    Ignored(String),
}

/// What a program has reported so far.
#[derive(Debug, Clone, Default)]
pub struct MetricLines {
    /// The objective's name.
    objective: String,
    /// Metrics without the objective, of the step that is going on.
    pending: Metrics,
    last: Option<u32>,
}

impl MetricLines {
    /// Nothing reported yet.
    pub fn new(objective: &str) -> MetricLines {
        MetricLines {
            objective: objective.to_owned(),
            ..MetricLines::default()
        }
    }

    /// Takes a line.
    ///
    /// # Errors
    /// It is none of those in the documentation: what was found and what was expected.
    pub fn take(&mut self, text: &str) -> Result<Meaning, String> {
        let MetricLine {
            step,
            pruned,
            metrics,
        } = read(text, &self.objective)?;
        if pruned {
            return Ok(Meaning::Pruned);
        }
        let valued = metrics.contains_key(&self.objective);
        if let (Some(step), Some(last), true) = (step, self.last, valued)
            && step <= last
        {
            return Ok(Meaning::Ignored(format!(
                "a value for step {step} came after that of step {last}"
            )));
        }
        let mut all = std::mem::take(&mut self.pending);
        all.extend(metrics);
        match (step, valued) {
            (_, false) => {
                self.pending = all;
                Ok(Meaning::Alive)
            }
            (Some(step), true) => {
                self.last = Some(step);
                Ok(Meaning::Step(step, all))
            }
            (None, true) => Ok(Meaning::Result(all)),
        }
    }
}

fn read(text: &str, objective: &str) -> Result<MetricLine, String> {
    let shown = || text.chars().take(200).collect::<String>();
    let Some(Json::Object(object)) = python_json(text) else {
        return Err(format!(
            "found the metric line {:?}, expected a JSON object such as {{\"step\": 1, {objective:?}: 0.5}}",
            shown()
        ));
    };
    let mut line = MetricLine {
        step: None,
        pruned: object.get("pruned") == Some(&Json::Bool(true)),
        metrics: Metrics::new(),
    };
    let either = |first, second| match object.contains_key(first) {
        true => first,
        false => second,
    };
    let counter = either("step", "epoch");
    let valued = either(objective, "value");
    for (key, value) in &object {
        let number = number_from_json(value);
        match key.as_str() {
            name if name == counter => {
                // What a database holds, too.
                let step =
                    number.filter(|x| x.fract() == 0.0 && (0.0..=f64::from(i32::MAX)).contains(x));
                let Some(step) = step else {
                    return Err(format!(
                        "found {key} {value} in a metric line, expected an integer from 0 to {}",
                        i32::MAX
                    ));
                };
                line.step = Some(step as u32);
            }
            name if name == valued => {
                let Some(number) = number else {
                    return Err(format!(
                        "found {key} {value} in a metric line, expected a number"
                    ));
                };
                line.metrics.insert(objective.to_owned(), number);
            }
            name => {
                // People add notes; what is no number is none of the metrics.
                let Some(number) = number else {
                    continue;
                };
                if is_too_long(name) {
                    return Err(format!(
                        "found a metric's name of {} characters in a metric line, expected at most {LONGEST_NAME}",
                        name.chars().count()
                    ));
                }
                line.metrics.insert(name.to_owned(), number);
            }
        }
    }
    Ok(line)
}

/// The first metric that is not a number as people want it, in the words of a fault.
pub fn diverged(objective: &str, metrics: &Metrics) -> Option<String> {
    let value = metrics.get(objective)?;
    (!value.is_finite()).then(|| format!("{objective} is {}", infinite(*value)))
}

fn infinite(value: f64) -> &'static str {
    if value.is_nan() {
        "NaN"
    } else if value > 0.0 {
        "infinite"
    } else {
        "negative infinite"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(lines: &mut MetricLines, text: &str) -> Meaning {
        lines.take(text).unwrap()
    }

    fn metrics(pairs: &[(&str, f64)]) -> Metrics {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect()
    }

    #[test]
    fn lines_are_complete_wherever_the_reads_were_cut() {
        let mut partial = PartialLine::default();
        assert!(partial.take(b"{\"a\"").is_empty());
        assert_eq!(partial.take(b": 1}\n{}\n{"), ["{\"a\": 1}", "{}"]);
        assert_eq!(partial.rest(), b"{");
        assert!(partial.rest().is_empty());
    }

    #[test]
    fn a_line_without_an_end_is_given_up_and_takes_bounded_memory() {
        let mut partial = PartialLine::default();
        let mut lines = Vec::new();
        for _ in 0..100 {
            lines.extend(partial.take(&[b'x'; 64 * 1024]));
            assert!(partial.0.len() <= LONGEST + 64 * 1024);
        }
        assert_eq!(lines.len(), 5, "{lines:?}");
        let error = MetricLines::new("value").take(&lines[0]).unwrap_err();
        assert!(error.contains("without a line's end"), "{error}");
    }

    #[test]
    fn a_step_carries_the_metrics_that_came_before_its_value() {
        let mut lines = MetricLines::new("f1");
        assert_eq!(
            take(&mut lines, r#"{"step": 1, "loss": 0.5}"#),
            Meaning::Alive
        );
        assert_eq!(
            take(&mut lines, r#"{"step": 1, "f1": 0.7, "note": "good"}"#),
            Meaning::Step(1, metrics(&[("f1", 0.7), ("loss", 0.5)]))
        );
        assert_eq!(
            take(&mut lines, r#"{"epoch": 2.0, "value": 0.8}"#),
            Meaning::Step(2, metrics(&[("f1", 0.8)]))
        );
    }

    #[test]
    fn beside_a_step_an_epoch_is_a_metric() {
        let mut lines = MetricLines::new("loss");
        assert_eq!(
            take(&mut lines, r#"{"loss": 2, "epoch": 0.5, "step": 100}"#),
            Meaning::Step(100, metrics(&[("loss", 2.0), ("epoch", 0.5)]))
        );
    }

    #[test]
    fn a_line_without_a_step_is_the_result() {
        let mut lines = MetricLines::new("value");
        assert_eq!(
            take(&mut lines, r#"{"value": 3, "time": 2}"#),
            Meaning::Result(metrics(&[("value", 3.0), ("time", 2.0)]))
        );
    }

    #[test]
    fn beside_the_objective_a_value_is_a_metric() {
        let mut lines = MetricLines::new("f1");
        assert_eq!(
            take(&mut lines, r#"{"step": 1, "f1": 0.5, "value": 3}"#),
            Meaning::Step(1, metrics(&[("f1", 0.5), ("value", 3.0)]))
        );
    }

    #[test]
    fn a_number_that_is_not_whole_is_no_value() {
        let mut lines = MetricLines::new("value");
        for text in [
            r#"{"step": 1, "value": 0,75}"#,
            r#"{"step": 1, "value": "0,75"}"#,
            r#"{"step": 1, "value": 1_000}"#,
            r#"{"step": 1, "value": 0x1F}"#,
            r#"{"step": 1, "value": 0.75s}"#,
            r#"{"step": 1, "value": 0.75} 5"#,
        ] {
            assert!(lines.take(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_program_may_prune_itself() {
        let mut lines = MetricLines::new("value");
        assert_eq!(take(&mut lines, r#"{"pruned": true}"#), Meaning::Pruned);
        assert_eq!(take(&mut lines, r#"{"pruned": false}"#), Meaning::Alive);
    }

    #[test]
    fn steps_only_go_forward() {
        let mut lines = MetricLines::new("value");
        take(&mut lines, r#"{"step": 0, "value": 1}"#);
        assert!(matches!(
            take(&mut lines, r#"{"step": 0, "value": 2}"#),
            Meaning::Ignored(_)
        ));
        assert_eq!(
            take(&mut lines, r#"{"step": 0, "loss": 2}"#),
            Meaning::Alive
        );
    }

    #[test]
    fn a_name_that_no_database_holds_is_told() {
        let mut lines = MetricLines::new("value");
        let line = |name: &str| format!(r#"{{"{name}": 1}}"#);
        let longest = "é".repeat(LONGEST_NAME);
        assert_eq!(take(&mut lines, &line(&longest)), Meaning::Alive);
        let error = lines.take(&line(&(longest + "x"))).unwrap_err();
        assert!(
            error.contains("481 characters") && error.contains("at most 480"),
            "{error}"
        );
        let note = format!(r#"{{"{}": "a note"}}"#, "x".repeat(1000));
        assert_eq!(take(&mut lines, &note), Meaning::Alive);
    }

    #[test]
    fn pythons_nan_is_read_and_known_as_such() {
        let mut lines = MetricLines::new("value");
        let Meaning::Step(_, found) = take(&mut lines, r#"{"step": 1, "value": NaN}"#) else {
            panic!()
        };
        assert_eq!(diverged("value", &found).unwrap(), "value is NaN");
        assert_eq!(diverged("value", &metrics(&[("value", 1.0)])), None);
    }

    #[test]
    fn what_is_no_line_is_told_with_what_was_found() {
        let mut lines = MetricLines::new("value");
        for (text, found) in [
            ("hello", "\"hello\""),
            ("[1]", "\"[1]\""),
            (r#"{"step": -1}"#, "step -1"),
            (r#"{"step": 1.5}"#, "step 1.5"),
            (r#"{"step": 2147483648}"#, "step 2147483648"),
            (r#"{"step": 1, "value": "x"}"#, "value \"x\""),
        ] {
            let error = lines.take(text).unwrap_err();
            assert!(
                error.contains(found) && error.contains("expected"),
                "{error}"
            );
        }
    }
}
