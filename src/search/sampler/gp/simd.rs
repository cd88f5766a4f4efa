//! Arithmetic on many numbers at a time: plain loops that the compiler turns into the widest vector
//! instructions of the processor they run on. No product is fused with a sum, and sums have a fixed
//! order, so that what they find does not depend on that width.

use std::f64::consts::LOG2_E;

use pulp::{Arch, Simd, WithSimd};

/// Numbers that a sum takes at a time.
const LANES: usize = 8;

/// Loops to be [`vectorised`]. Only what is inlined is: `run` and what it calls have to be marked.
/// (A closure cannot be, hence this trait.)
pub(super) trait Loops {
    type Output;

    fn run(self) -> Self::Output;
}

/// Runs loops with the vector instructions that this processor has.
pub(super) fn vectorised<L: Loops>(loops: L) -> L::Output {
    Arch::new().dispatch(Dispatched(loops))
}

struct Dispatched<L>(L);

impl<L: Loops> WithSimd for Dispatched<L> {
    type Output = L::Output;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) -> L::Output {
        self.0.run()
    }
}

/// The sum of the products of two slices of one length.
#[inline(always)]
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut sums = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let mut rest = 0.0;
    for (a, b) in a_rest.iter().zip(b_rest) {
        rest += a * b;
    }
    total(sums) + rest
}

/// The sum of a slice.
#[inline(always)]
pub(super) fn sum(a: &[f64]) -> f64 {
    let (a, a_rest) = a.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for a in a {
        for lane in 0..LANES {
            sums[lane] += a[lane];
        }
    }
    let mut rest = 0.0;
    for a in a_rest {
        rest += a;
    }
    total(sums) + rest
}

/// Adds a multiple of `b` to `a`.
#[inline(always)]
pub(super) fn add(a: &mut [f64], factor: f64, b: &[f64]) {
    for (a, b) in a.iter_mut().zip(b) {
        *a += factor * b;
    }
}

/// The sum of all lanes.
#[inline(always)]
fn total(s: [f64; LANES]) -> f64 {
    ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}

/// Below it the exponential is taken to stay as it is, still above 0.
const LEAST: f64 = -708.0;

/// 1.5 times 2 to the power of 52: added to a small number, it leaves the nearest integer in the
/// last bits.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// The logarithm of 2 in two parts, the first of which has bits enough to be multiplied exactly.
const LN_2: (f64, f64) = (0.693_145_751_953_125, 1.428_606_820_309_417_2e-6);

/// The exponential of a number that is not above 0, to about the last bit: a power of 2 times
/// Taylor's series for what is left (Cody and Waite, "Software Manual for the Elementary Functions",
/// 1980). The library's has tables, which no loop can be vectorised around.
#[inline(always)]
pub(super) fn exp(x: f64) -> f64 {
    let x = if x < LEAST { LEAST } else { x };
    let shifted = x * LOG2_E + ROUND;
    let power = shifted - ROUND;
    let rest = (x - power * LN_2.0) - power * LN_2.1;
    let mut series = 1.0 / 6_227_020_800.0;
    for term in SERIES {
        series = series * rest + term;
    }
    // The power's own bits become those of an exponent.
    series * f64::from_bits((shifted.to_bits() << 52).wrapping_add(1f64.to_bits()))
}

/// The inverses of the factorials of 12 to 0.
const SERIES: [f64; 13] = [
    1.0 / 479_001_600.0,
    1.0 / 39_916_800.0,
    1.0 / 3_628_800.0,
    1.0 / 362_880.0,
    1.0 / 40_320.0,
    1.0 / 5_040.0,
    1.0 / 720.0,
    1.0 / 120.0,
    1.0 / 24.0,
    1.0 / 6.0,
    0.5,
    1.0,
    1.0,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_is_that_of_the_library() {
        for step in 0..=100_000 {
            let x = -700.0 * (f64::from(step) / 100_000.0).powi(3);
            let found = exp(x);
            assert!((found / x.exp() - 1.0).abs() < 1e-15, "{x}: {found}");
        }
        assert_eq!(exp(0.0), 1.0);
        assert!(exp(f64::NAN).is_nan());
        assert!((0.0..1e-300).contains(&exp(f64::NEG_INFINITY)));
    }

    #[test]
    fn a_sum_of_products_has_all_of_them() {
        for n in [0, 1, 7, 8, 9, 31] {
            let a: Vec<f64> = (0..n).map(f64::from).collect();
            let whole: f64 = a.iter().map(|a| a * a).sum();
            assert_eq!(dot(&a, &a), whole, "{n}");
            assert_eq!(sum(&a), a.iter().sum::<f64>(), "{n}");
        }
    }
}
