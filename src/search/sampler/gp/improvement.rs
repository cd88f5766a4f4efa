//! The logarithm of the expected improvement, exact where the improvement itself underflows (Ament
//! et al., "Unexpected Improvements to Expected Improvement for Bayesian Optimization", 2023, arXiv
//! 2310.20708).

use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// Where the tail's asymptotic series takes over.
const FAR: f64 = 25.0;

/// ln(phi(z) + z Phi(z)) and its derivative by z.
fn ln_h(z: f64) -> (f64, f64) {
    let ln_density = -0.5 * z * z - 0.5 * (2.0 * PI).ln();
    if z > -1.0 {
        let mass = 0.5 * libm::erfc(-z * FRAC_1_SQRT_2);
        let h = ln_density.exp() + z * mass;
        return (h.ln(), mass / h);
    }
    let t = -z;
    // Mill's ratio of the tail, and 1 minus t times it.
    let (ratio, rest) = if t < FAR {
        let ratio = (PI / 2.0).sqrt() * (0.5 * t * t).exp() * libm::erfc(t * FRAC_1_SQRT_2);
        (ratio, 1.0 - t * ratio)
    } else {
        let u = 1.0 / (t * t);
        let rest = u * (1.0 - u * (3.0 - u * (15.0 - u * 105.0)));
        ((1.0 - rest) / t, rest)
    };
    (ln_density + rest.ln(), ratio / rest)
}

/// ln of the expected improvement below `best` of a normal distribution.
pub(super) fn ln_improvement(mean: f64, variance: f64, best: f64) -> f64 {
    let deviation = variance.sqrt();
    ln_h((best - mean) / deviation).0 + deviation.ln()
}

/// The same, with its derivatives by mean and variance.
pub(super) fn with_slopes(mean: f64, variance: f64, best: f64) -> (f64, f64, f64) {
    let deviation = variance.sqrt();
    let z = (best - mean) / deviation;
    let (value, slope) = ln_h(z);
    let by_deviation = (1.0 - z * slope) / deviation;
    (
        value + deviation.ln(),
        -slope / deviation,
        by_deviation / (2.0 * deviation),
    )
}

/// ln of what a noisy observation is worth beside an exact one (Huang et al., "Global Optimization of
/// Stochastic Black-Box Systems via Sequential Kriging Meta-Models", 2006), and its derivative by the
/// variance: a place whose value is known as well as the noise lets it be known is not worth
/// another look, however good it is.
pub(super) fn augmented(variance: f64, noise: f64) -> (f64, f64) {
    let sum = variance + noise;
    // 1 - sqrt(noise / sum), without the cancellation of a large noise.
    let root = (noise / sum).sqrt();
    let factor = (variance / sum) / (1.0 + root);
    (factor.ln(), 0.5 * root / sum / factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_agrees_with_the_plain_formula_where_that_is_exact() {
        for (mean, variance, best) in [(0.0, 1.0, 0.0), (1.0, 0.25, 0.5), (-2.0, 4.0, 1.0)] {
            let deviation: f64 = f64::sqrt(variance);
            let z: f64 = (best - mean) / deviation;
            let density = (-0.5 * z * z).exp() / (2.0 * PI).sqrt();
            let mass = 0.5 * libm::erfc(-z * FRAC_1_SQRT_2);
            let plain = deviation * (density + z * mass);
            assert!((ln_improvement(mean, variance, best) - plain.ln()).abs() < 1e-12);
        }
    }

    #[test]
    fn it_is_smooth_and_rising_over_the_seams_and_far_out() {
        let (mut before, mut steps) = (f64::NEG_INFINITY, 0);
        let mut z = -60.0;
        while z < 5.0 {
            let (value, slope) = ln_h(z);
            let h = 1e-6;
            let numeric = (ln_h(z + h).0 - ln_h(z - h).0) / (2.0 * h);
            assert!(value > before, "{z}");
            assert!(
                (numeric - slope).abs() < 1e-3 * slope.abs(),
                "{z}: {numeric} {slope}"
            );
            (before, z, steps) = (value, z + 0.25, steps + 1);
        }
        assert_eq!(steps, 260);
        // phi(z) / z^2 is the leading term.
        let far = ln_h(-1000.0).0;
        let leading = -500_000.0 - 0.5 * (2.0 * PI).ln() - 2.0 * 1000f64.ln();
        assert!((far - leading).abs() < 1e-5);
    }

    #[test]
    fn the_derivatives_are_those_of_the_value() {
        let (mean, variance, best) = (0.7, 0.3, -0.4);
        let (_, by_mean, by_variance) = with_slopes(mean, variance, best);
        let h = 1e-6;
        let f = |m, v| ln_improvement(m, v, best);
        let numeric = (f(mean + h, variance) - f(mean - h, variance)) / (2.0 * h);
        assert!((numeric - by_mean).abs() < 1e-6);
        let numeric = (f(mean, variance + h) - f(mean, variance - h)) / (2.0 * h);
        assert!((numeric - by_variance).abs() < 1e-6);
    }
}
