//! What predicted numbers are worth. Pure, in 64 bits.

use task::Metrics;

/// Root mean squared error, mean absolute error, and the coefficient of determination: 1 less the squared errors over
/// those of the mean of `truth`; where all numbers are equal, 1 if they are hit, else 0.
pub fn metrics(predicted: &[f64], truth: &[f64]) -> Metrics {
    let mean = |values: &mut dyn Iterator<Item = f64>| {
        let (sum, count) = values.fold((0.0, 0.0f64), |(sum, n), value| (sum + value, n + 1.0));
        sum / count.max(1.0)
    };
    let errors = || predicted.iter().zip(truth).map(|(p, t)| p - t);
    let squared = mean(&mut errors().map(|e| e * e));
    let middle = mean(&mut truth.iter().copied());
    let spread = mean(&mut truth.iter().map(|t| (t - middle).powi(2)));
    let explained = match (squared == 0.0, spread == 0.0) {
        (true, true) => 1.0,
        (false, true) => 0.0,
        (_, false) => 1.0 - squared / spread,
    };
    Metrics::from([
        ("rmse".to_owned(), squared.sqrt()),
        ("mae".to_owned(), mean(&mut errors().map(f64::abs))),
        ("r2".to_owned(), explained),
    ])
}

/// The middle one of numbers in ascending order, or the mean of the two in the middle; 0 of none.
pub fn median(sorted: &[f64]) -> f64 {
    let at = |twice: usize| sorted.get(twice / 2).copied().unwrap_or(0.0);
    (at(sorted.len().saturating_sub(1)) + at(sorted.len())) / 2.0
}

/// The best constant answer by the numbers to train on: their median for the mean absolute error, else their mean. Its
/// score on others, and what it is; `None` for a metric that there is not.
pub fn trivial(train: &[f64], scored: &[f64], metric: &str) -> Option<(f64, &'static str)> {
    let (answer, what) = match metric {
        "mae" => {
            let mut sorted = train.to_vec();
            sorted.sort_by(f64::total_cmp);
            (median(&sorted), "median")
        }
        _ => (
            train.iter().sum::<f64>() / train.len().max(1) as f64,
            "mean",
        ),
    };
    let value = *metrics(&vec![answer; scored.len()], scored).get(metric)?;
    Some((value, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_as_by_hand() {
        let found = metrics(&[1.0, 2.0, 6.0], &[1.0, 4.0, 4.0]);
        assert!((found["rmse"] - (8.0f64 / 3.0).sqrt()).abs() < 1e-12);
        assert!((found["mae"] - 4.0 / 3.0).abs() < 1e-12);
        // Around the mean of 3 the squares are 4, 1 and 1.
        assert!((found["r2"] - (1.0 - 8.0 / 6.0)).abs() < 1e-12);
        assert_eq!(metrics(&[2.0, 2.0], &[2.0, 2.0])["r2"], 1.0);
        assert_eq!(metrics(&[2.0, 3.0], &[2.0, 2.0])["r2"], 0.0);
    }

    #[test]
    fn of_an_even_number_the_median_is_between_the_two_in_the_middle() {
        assert_eq!(median(&[1.0, 2.0, 9.0]), 2.0);
        assert_eq!(median(&[1.0, 3.0]), 2.0);
        assert_eq!(median(&[]), 0.0);
    }

    #[test]
    fn the_trivial_answer_is_the_mean_or_for_absolute_errors_the_median() {
        assert_eq!(
            trivial(&[1.0, 2.0, 9.0], &[2.0, 4.0], "mae"),
            Some((1.0, "median"))
        );
        assert_eq!(
            trivial(&[1.0, 2.0, 3.0, 9.0], &[2.5], "mae"),
            Some((0.0, "median"))
        );
        assert_eq!(
            trivial(&[1.0, 3.0], &[2.0, 4.0], "r2"),
            Some((-1.0, "mean"))
        );
        assert_eq!(
            trivial(&[1.0, 3.0], &[2.0, 2.0], "rmse"),
            Some((0.0, "mean"))
        );
        assert_eq!(trivial(&[1.0], &[1.0], "macro_f1"), None);
    }
}
