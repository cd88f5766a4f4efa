//! A matrix product that every sound processor computes alike, bit for bit: IEEE 754 defines the results of additions and
//! multiplications, and Rust neither reorders nor fuses them.

use std::time::{Duration, Instant};

/// Rows and columns.
const SIZE: usize = 64;

/// The fingerprint of the product.
const RIGHT: u64 = 0x174b_cb88_d167_47e6;

/// For how long each core computes.
const LONG: Duration = Duration::from_millis(250);

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sums {
    /// Cores that computed.
    pub cores: usize,
    /// Products in all.
    pub products: usize,
    /// Those that were not as they must be.
    pub wrong: usize,
}

/// Computes on so many threads at once, for a quarter of a second.
pub fn look(threads: usize) -> Sums {
    let (left, right) = (matrix(1), matrix(2));
    let start = Instant::now();
    let compute = || {
        let (mut products, mut wrong) = (0, 0);
        while products == 0 || start.elapsed() < LONG {
            products += 1;
            let product = product(std::hint::black_box(&left), std::hint::black_box(&right));
            wrong += usize::from(fingerprint(&product) != RIGHT);
        }
        (products, wrong)
    };
    let parts: Vec<(usize, usize)> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads.max(1))
            .filter_map(|_| {
                std::thread::Builder::new()
                    .spawn_scoped(scope, compute)
                    .ok()
            })
            .collect();
        started.into_iter().filter_map(|t| t.join().ok()).collect()
    });
    Sums {
        cores: parts.len(),
        products: parts.iter().map(|p| p.0).sum(),
        wrong: parts.iter().map(|p| p.1).sum(),
    }
}

/// Numbers from -1 to 1 of all mantissas, by a linear congruential generator (Knuth's MMIX).
fn matrix(seed: u64) -> Vec<f32> {
    let mut state = seed;
    let next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1_u32 << 23) as f32 - 1.0
    };
    std::iter::repeat_with(next).take(SIZE * SIZE).collect()
}

fn product(left: &[f32], right: &[f32]) -> Vec<f32> {
    let mut out = vec![0.0; SIZE * SIZE];
    for (row, left) in out.chunks_exact_mut(SIZE).zip(left.chunks_exact(SIZE)) {
        for (factor, right) in left.iter().zip(right.chunks_exact(SIZE)) {
            for (sum, value) in row.iter_mut().zip(right) {
                *sum += factor * value;
            }
        }
    }
    out
}

/// FNV-1a over the bits.
fn fingerprint(values: &[f32]) -> u64 {
    let step = |hash: u64, value: &f32| {
        (hash ^ u64::from(value.to_bits())).wrapping_mul(0x0000_0100_0000_01b3)
    };
    values.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_product_has_the_fingerprint_that_it_must_have() {
        let product = product(&matrix(1), &matrix(2));
        assert_eq!(fingerprint(&product), RIGHT, "{:#x}", fingerprint(&product));
        let exact: f64 = (0..SIZE)
            .map(|k| f64::from(matrix(1)[k]) * f64::from(matrix(2)[k * SIZE]))
            .sum();
        assert!((f64::from(product[0]) - exact).abs() < 1e-5);
    }

    #[test]
    fn one_flipped_bit_is_seen() {
        let mut product = product(&matrix(1), &matrix(2));
        product[77] = f32::from_bits(product[77].to_bits() ^ 1);
        assert_ne!(fingerprint(&product), RIGHT);
    }

    #[test]
    fn every_core_computes() {
        let sums = look(2);
        assert!(
            sums.cores == 2 && sums.products >= 2 && sums.wrong == 0,
            "{sums:?}"
        );
    }
}
