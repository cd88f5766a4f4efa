//! Metrics from a confusion matrix.

use crate::task::Metrics;

/// Counts of rows by true class and predicted class.
#[derive(Debug, Clone, PartialEq)]
pub struct Confusion {
    classes: usize,
    /// `counts[truth * classes + predicted]`.
    counts: Vec<f64>,
}

impl Confusion {
    /// From row-major counts, truth first; `counts.len()` is `classes` squared.
    pub fn new(classes: usize, counts: Vec<f64>) -> Confusion {
        debug_assert_eq!(counts.len(), classes * classes);
        Confusion { classes, counts }
    }

    /// The share of rows on the diagonal.
    pub fn accuracy(&self) -> f64 {
        let right: f64 = (0..self.classes).map(|c| self.at(c, c)).sum();
        right / self.counts.iter().sum::<f64>().max(1.0)
    }

    /// The mean over all classes of F1 = 2 TP / (2 TP + FP + FN); a class that neither occurs nor
    /// is predicted counts 0.
    pub fn macro_f1(&self) -> f64 {
        let f1 = |c: usize| {
            let hit = self.at(c, c);
            let truth: f64 = (0..self.classes).map(|p| self.at(c, p)).sum();
            let predicted: f64 = (0..self.classes).map(|t| self.at(t, c)).sum();
            match truth + predicted {
                0.0 => 0.0,
                sum => 2.0 * hit / sum,
            }
        };
        (0..self.classes).map(f1).sum::<f64>() / self.classes.max(1) as f64
    }

    /// All metrics of the kind; `loss` is the mean cross entropy, in nats.
    pub fn metrics(&self, loss: f64) -> Metrics {
        Metrics::from([
            ("macro_f1".to_owned(), self.macro_f1()),
            ("accuracy".to_owned(), self.accuracy()),
            ("loss".to_owned(), loss),
        ])
    }

    fn at(&self, truth: usize, predicted: usize) -> f64 {
        self.counts[truth * self.classes + predicted]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_agree_with_a_count_by_hand() {
        // Truth 0: 6 right, 2 taken for 1. Truth 1: 1 taken for 0, 1 right.
        let c = Confusion::new(2, vec![6.0, 2.0, 1.0, 1.0]);
        assert!((c.accuracy() - 0.7).abs() < 1e-12);
        let (f0, f1) = (12.0 / 15.0, 2.0 / 5.0);
        assert!((c.macro_f1() - (f0 + f1) / 2.0).abs() < 1e-12);
    }

    #[test]
    fn the_majority_answer_scores_half_its_f1() {
        let c = Confusion::new(2, vec![1631.0, 0.0, 427.0, 0.0]);
        assert!((c.macro_f1() - 0.442).abs() < 1e-3);
    }
}
