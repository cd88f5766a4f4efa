//! What answers to labelled rows are worth, beside the trivial answer.

use super::predict::{AnyExported, Known};
use crate::{Evaluation, Score};
use config::Baseline;
use config::kinds::tabular::METRICS;
use tabular::Scale;
use training::baseline::trivial;
use training::numbers;
use training::scores::{Answers, Confusion};

/// Answers to rows.
#[derive(Debug, Clone, PartialEq)]
pub enum Answered {
    /// Their classes.
    Classes(Answers),
    /// Their numbers.
    Numbers {
        /// What was predicted.
        predicted: Vec<f64>,
        /// What is right, where it is known; else 0.
        truth: Vec<f64>,
        /// Where the numbers trained on lie.
        scale: Scale,
    },
}

impl Answered {
    /// Adds the answers to other rows, by the same model, behind these.
    pub fn join(&mut self, other: Answered) {
        match (self, other) {
            (Answered::Classes(all), Answered::Classes(more)) => all.join(more),
            (
                Answered::Numbers {
                    predicted, truth, ..
                },
                Answered::Numbers {
                    predicted: p,
                    truth: t,
                    ..
                },
            ) => {
                predicted.extend(p);
                truth.extend(t);
            }
            (Answered::Classes(_), Answered::Numbers { .. })
            | (Answered::Numbers { .. }, Answered::Classes(_)) => {}
        }
    }
}

/// The scores of answers to the rows of `file`.
pub fn evaluation(exported: &AnyExported, file: String, answers: &Answered) -> Evaluation {
    let Known { dir, labels, .. } = exported.known();
    let (values, confusion) = match answers {
        Answered::Classes(answers) => (answers.metrics(), answers.confusion()),
        Answered::Numbers {
            predicted, truth, ..
        } => (
            numbers::metrics(predicted, truth),
            Confusion::new(0, Vec::new()),
        ),
    };
    let classes = confusion.by_class();
    let of_class: Vec<usize> = classes.iter().map(|c| c.support).collect();
    // In the kind's order; those of classes are the same, in the same order, for all kinds.
    let metrics = METRICS.iter().filter_map(|metric| {
        Some(Score {
            name: metric.name.to_owned(),
            value: *values.get(metric.name)?,
            trivial: without_reading(exported, answers, &of_class, metric.name),
            interval: None,
        })
    });
    Evaluation {
        model: dir.display().to_string(),
        file,
        rows: match answers {
            Answered::Classes(_) => of_class.iter().sum(),
            Answered::Numbers { truth, .. } => truth.len(),
        },
        things: "rows",
        labels: labels.to_vec(),
        metrics: metrics.collect(),
        classes,
        confusion,
    }
}

/// The trivial answer by a metric to these rows, of which there are so many of each class.
fn without_reading(
    exported: &AnyExported,
    answers: &Answered,
    of_class: &[usize],
    metric: &str,
) -> Option<Baseline> {
    let Known {
        labels, train_rows, ..
    } = exported.known();
    let (value, what) = match answers {
        Answered::Classes(_) => match trivial(train_rows, of_class, metric)? {
            (value, None) => (
                value,
                "always the shares of the classes in training".to_owned(),
            ),
            (value, Some(class)) => (value, format!("always {}", labels[class])),
        },
        Answered::Numbers { truth, scale, .. } => {
            let (answer, what) = match metric {
                "mae" => (scale.median, "median"),
                _ => (scale.mean, "mean"),
            };
            let scores = numbers::metrics(&vec![answer; truth.len()], truth);
            (
                *scores.get(metric)?,
                format!("always the {what} in training"),
            )
        }
    };
    Some(Baseline { value, what })
}
