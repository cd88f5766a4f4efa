//! The trivial answers: one class for every document, or the classes' shares.

use super::scores::{Answers, Confusion};
use super::split::{Part, Round, Samples, Split};
use config::kinds::shared::THRESHOLD;
use config::{Baseline, Metric, Objective, Problem, StudySpec};
use search::study::Direction;

/// Metrics of probabilities: no predicted class changes them.
pub const OF_SHARES: [&str; 4] = ["loss", "log_loss", "auroc", "auprc"];

/// The best that an answer without reading scores on a part, by `metric`: one class for all (the one
/// that is best on the training rows, the most frequent among equals), for metrics of probabilities
/// the shares of the classes in the training rows. `None` for a metric that the kind does not have.
///
/// With folds a trial's value is the mean over them, and so is this; on the test part it is learned
/// from all rows of the folds.
pub fn baseline(
    data: &Samples,
    split: &Split,
    part: Part,
    label: &str,
    metric: &str,
) -> Option<Baseline> {
    over_rounds(split, part, &|train, scored| {
        let (train, scored) = (counts_of(data, train), counts_of(data, scored));
        let (value, class) = trivial(&train, &scored, metric)?;
        let what = match class {
            None => {
                format!(
                    "always predicting the shares of the classes of {label} in the training rows"
                )
            }
            Some(class) => format!("always predicting class {} of {label}", data.classes[class]),
        };
        Some((value, what))
    })
}

/// What an answer without reading scores on rows (the second ones), having seen others, and what it is.
pub type Trivial<'a> = dyn Fn(&[usize], &[usize]) -> Option<(f64, String)> + 'a;

/// The mean over the models of a trial of what `trivial` scores on rows, having seen the rows to train on: value, and
/// what scores it.
pub fn over_rounds(split: &Split, part: Part, trivial: &Trivial<'_>) -> Option<Baseline> {
    let rounds: Vec<[Vec<usize>; 2]> = match (part, split.folds()) {
        (Part::Validation, [_, ..]) => {
            let both = |round: Round| [round.train, round.validation];
            split.rounds().into_iter().map(both).collect()
        }
        (Part::Test, [_, ..]) => vec![[split.folds().concat(), split.rows(part)]],
        (_, []) | (Part::Train, _) => vec![[Part::Train, part].map(|part| split.rows(part))],
    };
    let scores = rounds.iter().map(|[train, scored]| trivial(train, scored));
    let scores: Vec<(f64, String)> = scores.collect::<Option<_>>()?;
    let value = scores.iter().map(|(value, _)| value).sum::<f64>() / scores.len() as f64;
    let mut what = scores.first()?.1.clone();
    if scores.len() > 1 {
        what.push_str(&format!(", the mean over {} folds", scores.len()));
    }
    Some(Baseline { value, what })
}

/// The trivial answer's score on rows of which there are `scored[class]`, learned from rows of which
/// there are `train[class]`; and the class that it answers, `None` for the shares.
pub fn trivial(train: &[usize], scored: &[usize], metric: &str) -> Option<(f64, Option<usize>)> {
    if OF_SHARES.contains(&metric) {
        let total = train.iter().sum::<usize>().max(1) as f64;
        let shares: Vec<f64> = train.iter().map(|n| *n as f64 / total).collect();
        let truth = scored.iter().enumerate();
        let truth = truth.flat_map(|(class, n)| std::iter::repeat_n(class, *n));
        let value = *Answers::constant(&shares, truth.collect())
            .metrics()
            .get(metric)?;
        return Some((value, None));
    }
    let known: &Metric = config::kinds::text_classification::METRICS
        .iter()
        .find(|m| m.name == metric)?;
    let mut order: Vec<usize> = (0..train.len()).collect();
    order.sort_by_key(|class| std::cmp::Reverse(train[*class]));
    let best = order.into_iter().reduce(|best, class| {
        let value = |class| always(class, train).get(metric).copied().unwrap_or(0.0);
        match known.direction {
            Direction::Maximize if value(class) > value(best) => class,
            Direction::Minimize if value(class) < value(best) => class,
            Direction::Maximize | Direction::Minimize => best,
        }
    })?;
    Some((*always(best, scored).get(metric)?, Some(best)))
}

/// Metrics of predicting one class for rows of which there are `counts[class]`.
fn always(class: usize, counts: &[usize]) -> task::Metrics {
    let mut confusion = vec![0.0; counts.len().pow(2)];
    for (truth, n) in counts.iter().enumerate() {
        confusion[truth * counts.len() + class] = *n as f64;
    }
    Confusion::new(counts.len(), confusion).metrics()
}

/// Rows of each class in one part.
pub fn counts(data: &Samples, split: &Split, part: Part) -> Vec<usize> {
    counts_of(data, &split.rows(part))
}

/// Of these rows, how many there are of each class.
pub fn counts_of(data: &Samples, rows: &[usize]) -> Vec<usize> {
    let mut counts = vec![0; data.classes.len()];
    for row in rows {
        counts[data.class[*row]] += 1;
    }
    counts
}

/// A threshold that decides nothing.
pub fn idle_threshold(spec: &StudySpec, classes: usize) -> Option<Problem> {
    spec.lists.get(THRESHOLD)?;
    let decided = |o: &Objective| !OF_SHARES.contains(&o.metric.as_str());
    let found = match (classes, spec.objectives().into_iter().any(decided)) {
        (2, true) => return None,
        (2, false) => format!(
            "a threshold, but {} is of probabilities",
            spec.objective.metric
        ),
        // Numbers are all of one.
        (1, _) => "a threshold for a number".to_owned(),
        _ => format!("a threshold for {classes} classes"),
    };
    let expected = "no such key, or two classes and a metric of predicted classes such as macro_f1";
    Some(spec.problem(THRESHOLD, found, expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_a_trivial_answer() {
        for metric in config::kinds::text_classification::METRICS {
            let (value, _) = trivial(&[30, 10], &[3, 1], metric.name).unwrap();
            let (low, high) = metric.range.unwrap();
            assert!((low..=high).contains(&value), "{}: {value}", metric.name);
        }
        assert_eq!(trivial(&[30, 10], &[3, 1], "train_loss"), None);
    }

    #[test]
    fn the_answer_is_the_one_that_the_metric_likes_best() {
        assert_eq!(
            trivial(&[30, 10], &[3, 1], "accuracy"),
            Some((0.75, Some(0)))
        );
        // The positive class is the rare one: predicting it scores, predicting the other does not.
        assert_eq!(trivial(&[30, 10], &[3, 1], "f1"), Some((0.4, Some(1))));
        assert_eq!(
            trivial(&[30, 10], &[3, 1], "balanced_accuracy"),
            Some((0.5, Some(0)))
        );
        assert_eq!(trivial(&[30, 10], &[3, 1], "mcc"), Some((0.0, Some(0))));
        assert_eq!(trivial(&[30, 10], &[3, 1], "auroc"), Some((0.5, None)));
        assert_eq!(trivial(&[30, 10], &[3, 1], "auprc"), Some((0.25, None)));
    }
}
