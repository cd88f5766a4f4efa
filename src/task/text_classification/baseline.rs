//! The trivial answer: always the majority class of the training rows.

use super::data::Dataset;
use super::scores::Confusion;
use super::split::{Part, Split};
use crate::task::Baseline;

/// Scores the majority class of the training rows on a part by `metric`. For `loss` the answer is the
/// training rows' class shares. `None` for a metric that the kind does not have.
pub fn baseline(
    data: &Dataset,
    split: &Split,
    part: Part,
    label: &str,
    metric: &str,
) -> Option<Baseline> {
    let classes = data.classes.len();
    let train = counts(data, split, Part::Train);
    let scored = counts(data, split, part);
    // The first of equally frequent classes.
    let majority = (0..classes).rev().max_by_key(|c| train[*c])?;
    let mut confusion = vec![0.0; classes * classes];
    for (class, n) in scored.iter().enumerate() {
        confusion[class * classes + majority] = *n as f64;
    }
    let total: usize = train.iter().sum();
    let rows: usize = scored.iter().sum();
    let loss = scored
        .iter()
        .zip(&train)
        .map(|(n, t)| -(*n as f64) * (*t as f64 / total.max(1) as f64).ln())
        .sum::<f64>()
        / rows.max(1) as f64;
    let value = *Confusion::new(classes, confusion)
        .metrics(loss)
        .get(metric)?;
    let what = if metric == "loss" {
        format!("always predicting the shares of the classes of {label} in the training rows")
    } else {
        format!(
            "always predicting class {} of {label}",
            data.classes[majority]
        )
    };
    Some(Baseline { value, what })
}

/// Rows of each class in one part.
pub fn counts(data: &Dataset, split: &Split, part: Part) -> Vec<usize> {
    let mut counts = vec![0; data.classes.len()];
    for row in split.rows(part) {
        counts[data.rows[row].class] += 1;
    }
    counts
}
