//! What answers are worth: probabilities of documents, and every metric of them. Pure, in 64 bits.
//!
//! Every metric has a value for every input: what scikit-learn leaves undefined (an area under a curve
//! where only one class occurs) is said at the function, and is never NaN.

use task::Metrics;

/// Counts of documents by true class and predicted class.
#[derive(Debug, Clone, PartialEq)]
pub struct Confusion {
    classes: usize,
    /// `counts[truth * classes + predicted]`.
    counts: Vec<f64>,
}

/// What a model makes of one class.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassScores {
    /// The share of the documents predicted as this class that are of it; 0 where there is none.
    pub precision: f64,
    /// The share of the class's documents that are predicted as it; 0 where there is none.
    pub recall: f64,
    /// 2 TP / (2 TP + FP + FN); 0 for a class that neither occurs nor is predicted.
    pub f1: f64,
    /// Documents of the class.
    pub support: usize,
}

impl Confusion {
    /// From row-major counts, truth first; `counts.len()` is `classes` squared.
    pub fn new(classes: usize, counts: Vec<f64>) -> Confusion {
        debug_assert_eq!(counts.len(), classes * classes);
        Confusion { classes, counts }
    }

    /// Documents of class `truth` that are predicted as class `predicted`.
    pub fn at(&self, truth: usize, predicted: usize) -> f64 {
        self.counts[truth * self.classes + predicted]
    }

    /// The report by class.
    pub fn by_class(&self) -> Vec<ClassScores> {
        let share = |hit: f64, of: f64| if of == 0.0 { 0.0 } else { hit / of };
        let of = |c: usize| {
            let (hit, truth, predicted) = (self.at(c, c), self.truth(c), self.predicted(c));
            ClassScores {
                precision: share(hit, predicted),
                recall: share(hit, truth),
                f1: share(2.0 * hit, truth + predicted),
                support: truth as usize,
            }
        };
        (0..self.classes).map(of).collect()
    }

    /// The share of documents on the diagonal.
    pub fn accuracy(&self) -> f64 {
        self.right() / self.documents().max(1.0)
    }

    /// The mean recall of the classes that occur.
    pub fn balanced_accuracy(&self) -> f64 {
        let classes = self.by_class();
        let occur = classes.iter().filter(|c| c.support > 0);
        mean(occur.map(|c| c.recall)).unwrap_or(0.0)
    }

    /// The mean F1 of all classes; a class that neither occurs nor is predicted counts 0.
    pub fn macro_f1(&self) -> f64 {
        mean(self.by_class().iter().map(|c| c.f1)).unwrap_or(0.0)
    }

    /// Of two classes the F1 of the second one, which is the one that sorts last (`1` of `0` and
    /// `1`); of several the mean F1 weighted by the classes' documents.
    pub fn f1(&self) -> f64 {
        let classes = self.by_class();
        match classes.as_slice() {
            [_, positive] => positive.f1,
            several => {
                let sum: f64 = several.iter().map(|c| c.f1 * c.support as f64).sum();
                sum / self.documents().max(1.0)
            }
        }
    }

    /// Matthews' correlation coefficient, in Gorodkin's form for several classes; 0 where all
    /// documents are of one class, or are predicted as one.
    pub fn mcc(&self) -> f64 {
        let sum = |f: &dyn Fn(usize) -> f64| (0..self.classes).map(f).sum::<f64>();
        let squared = self.documents().powi(2);
        let covariance =
            self.right() * self.documents() - sum(&|c| self.truth(c) * self.predicted(c));
        let spread = (squared - sum(&|c| self.truth(c).powi(2)))
            * (squared - sum(&|c| self.predicted(c).powi(2)));
        if spread == 0.0 {
            0.0
        } else {
            covariance / spread.sqrt()
        }
    }

    /// The metrics that ask for the predicted class alone.
    pub fn metrics(&self) -> Metrics {
        Metrics::from([
            ("macro_f1".to_owned(), self.macro_f1()),
            ("f1".to_owned(), self.f1()),
            ("accuracy".to_owned(), self.accuracy()),
            ("balanced_accuracy".to_owned(), self.balanced_accuracy()),
            ("mcc".to_owned(), self.mcc()),
        ])
    }

    fn documents(&self) -> f64 {
        self.counts.iter().sum()
    }

    fn right(&self) -> f64 {
        (0..self.classes).map(|c| self.at(c, c)).sum()
    }

    fn truth(&self, class: usize) -> f64 {
        (0..self.classes).map(|p| self.at(class, p)).sum()
    }

    fn predicted(&self, class: usize) -> f64 {
        (0..self.classes).map(|t| self.at(t, class)).sum()
    }
}

/// Probabilities of every class for documents whose class is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Answers {
    classes: usize,
    /// Natural logarithms of the probabilities, one document's classes behind the other's.
    log_p: Vec<f64>,
    /// The class of each document.
    truth: Vec<usize>,
    /// Of two classes, the probability from which on the second is predicted.
    threshold: Option<f64>,
}

impl Answers {
    /// From the logits of windows, `classes` a window. `documents[i]` is the document of window `i`,
    /// an index into `truth`; every document has a window. A document's probabilities are the mean
    /// of its windows'.
    pub fn new(classes: usize, logits: &[f32], documents: &[usize], truth: Vec<usize>) -> Answers {
        debug_assert_eq!(logits.len(), documents.len() * classes);
        let mut log_p = vec![f64::NEG_INFINITY; truth.len() * classes];
        let mut windows = vec![0u32; truth.len()];
        for (window, document) in logits.chunks(classes.max(1)).zip(documents) {
            windows[*document] += 1;
            let sums = &mut log_p[document * classes..(document + 1) * classes];
            for (sum, value) in sums.iter_mut().zip(log_softmax(window)) {
                *sum = log_add(*sum, value);
            }
        }
        for (sums, count) in log_p.chunks_mut(classes.max(1)).zip(&windows) {
            let share = f64::from(*count).ln();
            sums.iter_mut().for_each(|sum| *sum -= share);
        }
        Answers {
            classes,
            log_p,
            truth,
            threshold: None,
        }
    }

    /// The same, with the second of two classes predicted from this probability on; `None`: where it is the more
    /// probable one.
    pub fn from_threshold(mut self, threshold: Option<f64>) -> Answers {
        self.threshold = threshold;
        self
    }

    /// The same probabilities for every document.
    pub fn constant(probabilities: &[f64], truth: Vec<usize>) -> Answers {
        let log_p = probabilities.iter().map(|p| p.ln());
        Answers {
            classes: probabilities.len(),
            log_p: log_p
                .clone()
                .cycle()
                .take(log_p.len() * truth.len())
                .collect(),
            truth,
            threshold: None,
        }
    }

    /// Adds the answers to other documents behind these; the classes are the same.
    pub fn join(&mut self, other: Answers) {
        debug_assert_eq!(self.classes, other.classes);
        self.log_p.extend(other.log_p);
        self.truth.extend(other.truth);
    }

    /// A document's probabilities.
    pub fn probabilities(&self, document: usize) -> Vec<f64> {
        self.of(document).iter().map(|p| p.exp()).collect()
    }

    /// The class that is predicted for a document: the second of two by the threshold, where there is one, else the most
    /// probable class, the first among equals.
    pub fn predicted(&self, document: usize) -> usize {
        self.predicted_from(self.threshold, document)
    }

    fn predicted_from(&self, threshold: Option<f64>, document: usize) -> usize {
        if let (Some(threshold), [_, second]) = (threshold, self.of(document)) {
            return usize::from(second.exp() >= threshold);
        }
        let mut best = 0;
        for (class, p) in self.of(document).iter().enumerate() {
            if *p > self.of(document)[best] {
                best = class;
            }
        }
        best
    }

    /// Documents by true and predicted class.
    pub fn confusion(&self) -> Confusion {
        self.confusion_from(self.threshold)
    }

    /// The same with another threshold.
    pub fn confusion_from(&self, threshold: Option<f64>) -> Confusion {
        let mut counts = vec![0.0; self.classes * self.classes];
        for (document, truth) in self.truth.iter().enumerate() {
            counts[truth * self.classes + self.predicted_from(threshold, document)] += 1.0;
        }
        Confusion::new(self.classes, counts)
    }

    /// All metrics of the kind. Where a logit was not finite, `loss` alone, as NaN.
    pub fn metrics(&self) -> Metrics {
        if self.log_p.iter().any(|p| p.is_nan() || *p == f64::INFINITY) {
            return Metrics::from([("loss".to_owned(), f64::NAN)]);
        }
        let mut metrics = self.confusion().metrics();
        metrics.extend([
            ("auroc".to_owned(), self.auroc()),
            ("auprc".to_owned(), self.auprc()),
            ("log_loss".to_owned(), self.log_loss()),
            ("loss".to_owned(), self.loss()),
        ]);
        metrics
    }

    /// The mean cross entropy in nats.
    pub fn loss(&self) -> f64 {
        mean(self.of_truth().map(|p| -p)).unwrap_or(0.0)
    }

    /// The mean cross entropy in nats of probabilities that are kept at least 2^-52 away from 0 and 1,
    /// as scikit-learn's `log_loss`: one sure mistake costs 36, not everything.
    pub fn log_loss(&self) -> f64 {
        let clipped = |p: f64| p.exp().clamp(f64::EPSILON, 1.0 - f64::EPSILON);
        mean(self.of_truth().map(|p| -clipped(p).ln())).unwrap_or(0.0)
    }

    /// The area under the ROC curve: of two classes that of the second one, of several the mean of
    /// each against the rest. A class of which there are no documents, or nothing else, does not
    /// count; where none counts, 0.5.
    pub fn auroc(&self) -> f64 {
        self.mean_over_classes(area_under_roc).unwrap_or(0.5)
    }

    /// The average precision: of two classes that of the second one, of several the mean of each
    /// against the rest. A class of which there are no documents does not count; where none counts, 0.
    pub fn auprc(&self) -> f64 {
        self.mean_over_classes(average_precision).unwrap_or(0.0)
    }

    fn mean_over_classes(&self, score: fn(&mut [(f64, bool)]) -> Option<f64>) -> Option<f64> {
        let of_class = |class: usize| {
            let documents = self.truth.iter().enumerate();
            let mut scored: Vec<(f64, bool)> = documents
                .map(|(document, truth)| (self.of(document)[class], *truth == class))
                .collect();
            score(&mut scored)
        };
        match self.classes {
            2 => of_class(1),
            _ => mean((0..self.classes).filter_map(of_class)),
        }
    }

    fn of(&self, document: usize) -> &[f64] {
        &self.log_p[document * self.classes..(document + 1) * self.classes]
    }

    /// The logarithms of the probabilities of the true classes.
    fn of_truth(&self) -> impl Iterator<Item = f64> {
        let documents = self.truth.iter().enumerate();
        documents.map(|(document, truth)| self.of(document)[*truth])
    }
}

/// `None` of nothing.
fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0);
    for value in values {
        sum += value;
        count += 1;
    }
    (count > 0).then(|| sum / f64::from(count))
}

/// Logarithms of the probabilities of logits. NaN where one of them is NaN or infinite.
fn log_softmax(logits: &[f32]) -> Vec<f64> {
    if logits.iter().any(|l| !l.is_finite()) {
        return vec![f64::NAN; logits.len()];
    }
    let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let shifted = |l: &f32| f64::from(*l) - f64::from(top);
    let sum: f64 = logits.iter().map(|l| shifted(l).exp()).sum();
    logits.iter().map(|l| shifted(l) - sum.ln()).collect()
}

/// `ln(exp(a) + exp(b))`.
fn log_add(a: f64, b: f64) -> f64 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if low == f64::NEG_INFINITY {
        return high;
    }
    high + (low - high).exp().ln_1p()
}

/// The share of pairs of a positive and a negative in which the positive scores higher; equal
/// scores count half. `None` where either is missing.
fn area_under_roc(scored: &mut [(f64, bool)]) -> Option<f64> {
    let (mut above, mut pairs, mut negatives) = (0.0, 0.0, 0.0);
    for tied in falling(scored) {
        let hits = tied.iter().filter(|(_, positive)| *positive).count() as f64;
        let misses = tied.len() as f64 - hits;
        pairs += misses * (above + hits / 2.0);
        above += hits;
        negatives += misses;
    }
    let all = above * negatives;
    (all > 0.0).then(|| pairs / all)
}

/// The sum over falling thresholds of the precision times what the recall gains; equal scores are
/// one threshold. `None` without a positive.
fn average_precision(scored: &mut [(f64, bool)]) -> Option<f64> {
    let positives = scored.iter().filter(|(_, positive)| *positive).count() as f64;
    let (mut seen, mut hits, mut sum) = (0.0, 0.0, 0.0);
    for tied in falling(scored) {
        let new = tied.iter().filter(|(_, positive)| *positive).count() as f64;
        seen += tied.len() as f64;
        hits += new;
        sum += hits / seen * new;
    }
    (positives > 0.0).then(|| sum / positives)
}

/// Groups of equal scores, the highest first.
fn falling(scored: &mut [(f64, bool)]) -> impl Iterator<Item = &[(f64, bool)]> {
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored.chunk_by(|a, b| a.0 == b.0)
}

#[cfg(test)]
#[path = "scores_tests.rs"]
mod tests;
