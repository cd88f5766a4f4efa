//! Dropout, on a CPU with a mask that is cheap to draw.

use anyhow::Result;
use tch::{Device, Kind, Tensor};

/// As many values as 16 random bits have.
const VALUES: f64 = 65536.0;

/// Dropout by `p`; nothing where `p` is 0. On a CPU `p` is taken to the next 65536th.
///
/// # Errors
/// libtorch throws.
pub fn dropout(x: Tensor, p: f64) -> Result<Tensor> {
    if p <= 0.0 {
        return Ok(x);
    }
    let dropped = (p * VALUES).round();
    if x.device() != Device::Cpu || x.kind() != Kind::Float || dropped >= VALUES {
        return Ok(x.f_dropout(p, true)?);
    }
    Ok(x.f_mul(&mask(&x, dropped)?)?)
}

/// 0 with a probability of `dropped` in 65536, else what keeps the mean: of the shape of `x`.
///
/// libtorch draws 64 bits for each number; four numbers share them here, which takes a fifth of the
/// time.
fn mask(x: &Tensor, dropped: f64) -> Result<Tensor> {
    let count = x.numel() as i64;
    let mut bits = Tensor::f_empty([(count + 3) / 4], (Kind::Int64, Device::Cpu))?;
    let numbers = bits
        .f_random_from_(i64::MIN, None)?
        .f_view_dtype(Kind::Int16)?
        .f_narrow(0, 0, count)?
        .f_view(x.size().as_slice())?;
    let mut kept = numbers.f_to_kind(Kind::Float)?;
    let mut kept = kept.f_ge_(dropped + f64::from(i16::MIN))?;
    Ok(kept.f_mul_scalar_(VALUES / (VALUES - dropped))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_dropped_as_asked_and_the_others_keep_the_mean() {
        let _alone = crate::gpu::GENERATOR.lock();
        crate::gpu::seed(0).unwrap();
        let x = Tensor::ones([3, 5, 1001], (Kind::Float, Device::Cpu)).set_requires_grad(true);
        for p in [0.1, 0.25, 0.5] {
            let y = dropout(x.shallow_clone(), p).unwrap();
            let zeros = y.eq(0.0).to_kind(Kind::Double).mean(Kind::Double);
            assert!((zeros.double_value(&[]) - p).abs() < 0.02, "{p}");
            let kept = y.max().double_value(&[]);
            assert!((kept - 1.0 / (1.0 - p)).abs() < 1e-4, "{p}: {kept}");
            assert!(y.eq(0.0).logical_or(&y.eq(kept)).all().int64_value(&[]) == 1);
            // What is dropped gets no gradient, the rest the mask's.
            let grad = Tensor::run_backward(&[y.sum(Kind::Float)], &[&x], false, false);
            assert!(grad[0].equal(&y.detach()));
        }
    }

    #[test]
    fn a_mask_is_a_function_of_the_seed() {
        let _alone = crate::gpu::GENERATOR.lock();
        let draw = |seed| {
            crate::gpu::seed(seed).unwrap();
            let x = Tensor::ones([7, 9], (Kind::Float, Device::Cpu));
            dropout(x, 0.5).unwrap()
        };
        assert!(draw(3).equal(&draw(3)));
        assert!(!draw(3).equal(&draw(4)));
    }
}
