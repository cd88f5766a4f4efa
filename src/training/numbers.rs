//! What predicted numbers are worth. Pure, in 64 bits.

use task::Metrics;

/// The mean, and the standard deviation; 1 where all are equal.
pub fn mean_and_deviation(numbers: &[f64]) -> (f64, f64) {
    let count = numbers.len().max(1) as f64;
    let mean = numbers.iter().sum::<f64>() / count;
    let from_mean = || numbers.iter().map(move |x| x - mean);
    let variance = from_mean().map(|x| x.powi(2)).sum::<f64>() / count;
    // The mean of equal numbers may be rounded, so that their variance is not 0.
    let equal = numbers.windows(2).all(|pair| pair[0] == pair[1]);
    let deviation = root(variance, from_mean());
    let deviation = match !equal && deviation > 0.0 {
        true => deviation,
        false => 1.0,
    };
    (mean, deviation)
}

/// The root of `square`, the mean of the squares of `numbers`. The squares of numbers below some 1e-154 are rounded to 0, or
/// nearly so: these are scaled first.
fn root(square: f64, numbers: impl Iterator<Item = f64> + Clone) -> f64 {
    if square.is_normal() || !square.is_finite() {
        return square.sqrt();
    }
    let greatest = numbers.clone().map(f64::abs).fold(0.0, f64::max);
    if greatest == 0.0 {
        return 0.0;
    }
    let (sum, count) = numbers.fold((0.0, 0.0f64), |(sum, n), x| {
        (sum + (x / greatest).powi(2), n + 1.0)
    });
    greatest * (sum / count).sqrt()
}

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
    let from_middle = || truth.iter().map(move |t| t - middle);
    let variance = mean(&mut from_middle().map(|x| x.powi(2)));
    let (rmse, spread) = (root(squared, errors()), root(variance, from_middle()));
    let explained = match (rmse == 0.0, spread == 0.0) {
        (true, true) => 1.0,
        (false, true) => 0.0,
        (_, false) if variance.is_normal() => 1.0 - squared / variance,
        (_, false) => 1.0 - (rmse / spread).powi(2),
    };
    Metrics::from([
        ("rmse".to_owned(), rmse),
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
    fn numbers_whose_squares_are_rounded_to_nothing_have_their_deviation_and_errors() {
        for size in [1e-160, 1e-200, 1e-300] {
            let numbers = [1.0, 3.0, 1.0, 3.0].map(|x| x * size);
            let (mean, deviation) = mean_and_deviation(&numbers);
            assert!((mean / size - 2.0).abs() < 1e-12, "{mean:e}");
            assert!((deviation / size - 1.0).abs() < 1e-12, "{deviation:e}");
            let found = metrics(&[2.0 * size; 4], &numbers);
            assert!((found["rmse"] / size - 1.0).abs() < 1e-12, "{found:?}");
            assert!(found["r2"].abs() < 1e-12, "{found:?}");
            assert_eq!(metrics(&numbers, &numbers)["r2"], 1.0);
        }
        for equal in [0.1, 1e-200, 0.0] {
            assert_eq!(mean_and_deviation(&[equal; 3]).1, 1.0);
        }
        assert_eq!(mean_and_deviation(&[]), (0.0, 1.0));
        assert_eq!(mean_and_deviation(&[1.0, 3.0]), (2.0, 1.0));
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
