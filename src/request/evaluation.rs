//! What answers to labelled rows are worth, beside the trivial answer.

use super::predict::AnyExported;
use crate::{Evaluation, Score};
use config::Baseline;
use config::kinds::text_classification;
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
    let (predicted, truth, scale) = match answers {
        Answered::Classes(answers) => return of_classes(exported, file, answers),
        Answered::Numbers {
            predicted,
            truth,
            scale,
        } => (predicted, truth, scale),
    };
    let values = numbers::metrics(predicted, truth);
    let score = |(name, value): (String, f64)| {
        let (answer, what) = match name.as_str() {
            "mae" => (scale.median, "median"),
            _ => (scale.mean, "mean"),
        };
        let trivial = numbers::metrics(&vec![answer; truth.len()], truth);
        let what = format!("always the {what} in training");
        let baseline = trivial.get(&name).map(|value| Baseline {
            value: *value,
            what,
        });
        Score {
            name,
            value,
            trivial: baseline,
            interval: None,
        }
    };
    // In the kind's order.
    let metrics = config::kinds::tabular::METRICS.iter();
    let metrics = metrics.filter_map(|m| Some((m.name.to_owned(), *values.get(m.name)?)));
    Evaluation {
        model: exported.dir().display().to_string(),
        file,
        rows: truth.len(),
        things: "rows",
        labels: Vec::new(),
        metrics: metrics.map(score).collect(),
        classes: Vec::new(),
        confusion: Confusion::new(0, Vec::new()),
    }
}

fn of_classes(exported: &AnyExported, file: String, answers: &Answers) -> Evaluation {
    let (labels, train_rows) = (exported.labels(), exported.train_rows());
    let confusion = answers.confusion();
    let classes = confusion.by_class();
    let rows: Vec<usize> = classes.iter().map(|c| c.support).collect();
    let values = answers.metrics();
    let metrics = text_classification::METRICS.iter().filter_map(|metric| {
        let value = *values.get(metric.name)?;
        let found = trivial(train_rows, &rows, metric.name);
        let trivial = found.map(|(value, class)| {
            let what = match class {
                None => "always the shares of the classes in training".to_owned(),
                Some(class) => format!("always {}", labels[class]),
            };
            Baseline { value, what }
        });
        Some(Score {
            name: metric.name.to_owned(),
            value,
            trivial,
            interval: None,
        })
    });
    Evaluation {
        model: exported.dir().display().to_string(),
        file,
        rows: rows.iter().sum(),
        things: "rows",
        labels: labels.to_vec(),
        metrics: metrics.collect(),
        classes,
        confusion,
    }
}
