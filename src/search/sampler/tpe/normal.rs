//! The normal distribution: masses of intervals in logarithm, and draws from a truncated normal.

use std::f64::consts::{FRAC_1_SQRT_2, PI, SQRT_2};
use std::sync::LazyLock;

/// Beyond this many standard deviations a tail is 0 in double precision.
const TAIL: f64 = 38.0;

/// Beyond this many standard deviations on both sides an interval holds all mass but an ulp.
const WHOLE: f64 = 8.5;

/// Interval widths (in standard deviations, times the distance from the mean where that is above
/// 1) below which the series of [`ln_narrow`] is exact to 1e-10.
const NARROW: f64 = 0.5;

/// The exponential of less than this is taken for that of this, which is no part of any sum.
const LEAST: f64 = -700.0;

/// ln of the square root of two pi.
pub(super) const LN_SQRT_TAU: f64 = 0.918_938_533_204_672_8;

/// The logarithm of the standard normal mass of `a..b`; negative infinity where it underflows.
pub(super) fn ln_mass(a: f64, b: f64) -> f64 {
    ln_mass_of_width(a, b, || (b - a).ln())
}

/// The same where the logarithm of the interval's width may be known already.
#[inline]
pub(super) fn ln_mass_of_width(a: f64, b: f64, ln_width: impl FnOnce() -> f64) -> f64 {
    // The mass is symmetric; the left tail keeps its precision.
    let (a, b) = if a > 0.0 { (-b, -a) } else { (a, b) };
    if b < -TAIL {
        return f64::NEG_INFINITY;
    }
    if a < -WHOLE && b > WHOLE {
        return 0.0;
    }
    let (width, middle) = (b - a, 0.5 * (a + b));
    if width * middle.abs().max(1.0) < NARROW {
        return ln_width() + ln_narrow(middle, width);
    }
    if b <= 0.0 {
        let whole = ln_tail(b);
        if a < -TAIL {
            return whole;
        }
        // What is cut off is at most two thirds: the interval is not narrow.
        whole + (1.0 - exp_of_negative((ln_tail(a) - whole).max(LEAST))).ln()
    } else {
        let tail = |z: f64| {
            if z < -TAIL {
                0.0
            } else {
                exp_of_negative(ln_tail(z).max(LEAST))
            }
        };
        (-tail(a) - tail(-b)).ln_1p()
    }
}

/// The logarithm of a narrow interval's mean density: the density at its middle times the Taylor
/// series of the rest, whose terms are Hermite polynomials. Several times cheaper than two values of
/// the distribution function, and without their cancellation.
fn ln_narrow(middle: f64, width: f64) -> f64 {
    let (z, w) = (middle * middle, width * width);
    let he2 = z - 1.0;
    let he4 = (z - 6.0) * z + 3.0;
    let he6 = ((z - 15.0) * z + 45.0) * z - 15.0;
    let he8 = (((z - 28.0) * z + 210.0) * z - 420.0) * z + 105.0;
    let rest =
        w * (he2 / 24.0 + w * (he4 / 1920.0 + w * (he6 / 322_560.0 + w * he8 / 92_897_280.0)));
    // The series of ln(1 + rest): the rest is at most 0.011.
    let mut series = 0.0;
    for inverse in INVERSE[1..8].iter().rev() {
        series = inverse - rest * series;
    }
    rest * series - 0.5 * z - LN_SQRT_TAU
}

/// Terms of the series of [`ln_tail`].
const TERMS: usize = 8;

/// Series a standard deviation; a power of two, so that the places of the series are exact.
const SERIES: f64 = 16.0;

/// The logarithm of the standard normal distribution function in `-TAIL..=0`, to a few ulps: its
/// Taylor series around the nearest of many places.
fn ln_tail(z: f64) -> f64 {
    let place = ((z + TAIL) * SERIES).round();
    let apart = z - (place / SERIES - TAIL);
    let terms = TAILS.get(place as usize).unwrap_or(&[0.0; TERMS]);
    terms.iter().rev().fold(0.0, |sum, term| sum * apart + term)
}

static TAILS: LazyLock<Vec<[f64; TERMS]>> = LazyLock::new(|| {
    let places = (TAIL * SERIES) as usize;
    let places = (0..=places).map(|k| k as f64 / SERIES - TAIL);
    places.map(tail_series).collect()
});

/// The Taylor series of the logarithm of the distribution function. Its derivative r, the density by
/// the mass, has the derivative -r (z + r).
fn tail_series(z: f64) -> [f64; TERMS] {
    let ln_density = -0.5 * z * z - LN_SQRT_TAU;
    let ln_mass = if z > -36.0 {
        (0.5 * libm::erfc(-z * FRAC_1_SQRT_2)).ln()
    } else {
        // Where the mass is hardly a number any more, its asymptotic series.
        let u = 1.0 / (z * z);
        ln_density - (-z).ln() + (-u * (1.0 - u * (3.0 - u * (15.0 - u * 105.0)))).ln_1p()
    };
    let mut slopes = [0.0; TERMS];
    slopes[0] = (ln_density - ln_mass).exp();
    for k in 0..TERMS - 1 {
        let squared: f64 = (0..=k).map(|i| slopes[i] * slopes[k - i]).sum();
        let before = if k > 0 { slopes[k - 1] } else { 0.0 };
        slopes[k + 1] = -(z * slopes[k] + before + squared) / (k + 1) as f64;
    }
    let mut terms = [ln_mass; TERMS];
    for k in 1..TERMS {
        terms[k] = slopes[k - 1] / k as f64;
    }
    terms
}

/// The `unit`-quantile of the normal distribution truncated to `low..=high`. A range of neighbouring
/// floats can have a `sigma` that has underflowed to 0: then all mass is at the mean.
pub(super) fn truncated(mu: f64, sigma: f64, low: f64, high: f64, unit: f64) -> f64 {
    if sigma == 0.0 {
        return mu.clamp(low, high);
    }
    let (a, b) = ((low - mu) / sigma, (high - mu) / sigma);
    if a > 0.0 {
        // Mirrored into the left tail, where the distribution function keeps its precision.
        return (mu - sigma * left_truncated(-b, -a, 1.0 - unit)).clamp(low, high);
    }
    (mu + sigma * left_truncated(a, b, unit)).clamp(low, high)
}

fn left_truncated(a: f64, b: f64, unit: f64) -> f64 {
    let cdf = |z: f64| 0.5 * libm::erfc(-z * FRAC_1_SQRT_2);
    let (from, to) = (cdf(a), cdf(b));
    if to <= 0.0 {
        return b;
    }
    quantile(from + unit * (to - from)).clamp(a, b)
}

/// The standard normal quantile: bisection-safe Newton steps on the distribution function from
/// the tail's asymptote, so that it inverts exactly the function the densities use.
pub(in crate::sampler) fn quantile(p: f64) -> f64 {
    if p <= 0.0 {
        return -TAIL;
    }
    if p >= 1.0 {
        return WHOLE;
    }
    if p > 0.5 {
        return -quantile(1.0 - p);
    }
    // A start from Abramowitz and Stegun 26.2.23, good to 5e-4.
    let t = (-2.0 * p.ln()).sqrt();
    let mut z = (2.515517 + t * (0.802853 + t * 0.010328))
        / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308)))
        - t;
    for _ in 0..2 {
        let density = (-0.5 * z * z).exp() / (SQRT_2 * PI.sqrt());
        let error = (0.5 * libm::erfc(-z * FRAC_1_SQRT_2) - p) / density;
        // Halley's step.
        z -= error / (1.0 + 0.5 * z * error);
    }
    z
}

/// The exponential function of a number in -700..=0, within a few ulps: Taylor's polynomial
/// around the nearest multiple of ln 2, without a branch or a call.
pub(super) fn exp_of_negative(x: f64) -> f64 {
    // Adding this leaves the nearest integer in the lowest bits of the mantissa.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
    const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    let shifted = x * std::f64::consts::LOG2_E + ROUND;
    let multiple = shifted - ROUND;
    let r = x - multiple * LN_2_HIGH - multiple * LN_2_LOW;
    let mut sum = 1.0;
    for n in (1..=13).rev() {
        sum = 1.0 + sum * r * INVERSE[n];
    }
    sum * f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52)
}

/// The reciprocals of 0 (unused) to 13.
const INVERSE: [f64; 14] = {
    let mut table = [0.0; 14];
    let mut n = 1;
    while n < table.len() {
        table[n] = 1.0 / n as f64;
        n += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masses_agree_with_known_values() {
        assert!((ln_mass(-1.0, 1.0) - 0.682_689_492_137_085_9_f64.ln()).abs() < 1e-14);
        assert!((ln_mass(1.0, 2.0) - 0.135_905_121_983_277_87_f64.ln()).abs() < 1e-13);
        assert_eq!(ln_mass(1.0, 2.0), ln_mass(-2.0, -1.0));
        assert_eq!(ln_mass(40.0, 41.0), f64::NEG_INFINITY);
    }

    #[test]
    fn the_series_for_narrow_intervals_agrees_with_the_error_function() {
        for z in [0.0, 0.3, 0.7, 1.5, 2.5, 5.0, 9.0, 20.0, 37.0] {
            let w = 0.999 * NARROW / f64::max(z, 1.0);
            let (a, b) = (-z - w / 2.0, -z + w / 2.0);
            let mass = 0.5 * (libm::erfc(-b * FRAC_1_SQRT_2) - libm::erfc(-a * FRAC_1_SQRT_2));
            assert!((ln_mass(a, b) - mass.ln()).abs() < 1e-10, "{z}");
        }
    }

    #[test]
    fn the_table_of_tails_agrees_with_the_error_function() {
        for i in 0..=35_990 {
            let z = -f64::from(i) / 1000.0;
            let exact = (0.5 * libm::erfc(-z * FRAC_1_SQRT_2)).ln();
            let found = ln_tail(z);
            assert!(
                (found - exact).abs() < 1e-14 * exact.abs().max(1.0),
                "{z}: {found} {exact}"
            );
        }
        // ln of 2.885428e-316, and no seam at the asymptotic series.
        assert!(
            (ln_tail(-38.0) + 726.557_216_137).abs() < 1e-6,
            "{}",
            ln_tail(-38.0)
        );
        let seam = ln_tail(-36.0 + 1e-9) - ln_tail(-36.0 - 1e-9);
        assert!((seam - 2e-9 * 36.03).abs() < 1e-10, "{seam}");
    }

    #[test]
    fn wide_intervals_agree_with_the_error_function() {
        for (a, b) in [
            (-30.0, -29.0),
            (-3.0, -1.0),
            (-2.0, 0.0),
            (-37.0, 0.3),
            (-0.9, 8.0),
        ] {
            let below = |z: f64| 0.5 * libm::erfc(-z * FRAC_1_SQRT_2);
            let exact = (below(b) - below(a)).ln();
            assert!(
                (ln_mass(a, b) - exact).abs() < 1e-13 * exact.abs().max(1.0),
                "{a} {b}"
            );
        }
    }

    #[test]
    fn the_exponential_is_that_of_the_library() {
        for i in 0..7000 {
            let x = -f64::from(i) * 0.099_7;
            let (ours, theirs) = (exp_of_negative(x), x.exp());
            assert!((ours / theirs - 1.0).abs() < 1e-14, "{x}: {ours} {theirs}");
        }
    }

    #[test]
    fn quantiles_invert_the_distribution_function() {
        for p in [1e-300, 1e-20, 1e-5, 0.02, 0.3, 0.5, 0.9, 0.999_999] {
            let z = quantile(p);
            let back = 0.5 * libm::erfc(-z * FRAC_1_SQRT_2);
            assert!((back / p - 1.0).abs() < 1e-9, "{p} {z} {back}");
        }
    }

    #[test]
    fn truncated_draws_stay_in_their_interval_even_far_from_the_mean() {
        for (mu, low, high) in [(0.0, -1.0, 1.0), (0.0, 50.0, 51.0), (100.0, -1.0, 1.0)] {
            for unit in [0.0, 1e-9, 0.5, 0.999_999_999] {
                let x = truncated(mu, 0.5, low, high, unit);
                assert!(x >= low && x <= high, "{mu} {x}");
            }
        }
        assert_eq!(truncated(0.0, 0.0, 0.0, 5e-324, 0.5), 0.0);
    }
}
