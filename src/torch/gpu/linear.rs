//! The Rust side of `linear.cpp`.

use std::ffi::{c_char, c_int};

use tch::Tensor;

use super::shim::{call, torch_tensor};

unsafe extern "C" {
    fn tune_linear(
        input: *mut torch_tensor,
        weight: *mut torch_tensor,
        bias: *mut torch_tensor,
        out: *mut *mut torch_tensor,
        message: *mut c_char,
        capacity: usize,
    ) -> c_int;
}

/// A linear layer: `x [.., in]`, `weight [out, in]`, `bias [out]` to `[.., out]`. The function of
/// `Tensor::linear` and its gradients, on a CPU computed by oneDNN.
///
/// # Errors
/// libtorch throws.
pub fn linear(x: &Tensor, weight: &Tensor, bias: &Tensor) -> anyhow::Result<Tensor> {
    let pointer = |t: &Tensor| t.as_ptr() as *mut torch_tensor;
    let mut out = std::ptr::null_mut();
    // SAFETY: the pointers are those of live tensors; the message buffer is as long as it is said
    // to be.
    call(|message, capacity| unsafe {
        let (x, weight, bias) = (pointer(x), pointer(weight), pointer(bias));
        tune_linear(x, weight, bias, &mut out, message, capacity)
    })?;
    // SAFETY: the shim made a tensor, which nobody else owns.
    Ok(unsafe { Tensor::from_ptr(out.cast()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::{Device, Kind};

    fn uniform(size: &[i64]) -> Tensor {
        let drawn = Tensor::rand(size, (Kind::Float, Device::Cpu)) - 0.5;
        drawn.set_requires_grad(true)
    }

    /// Output and gradients of a layer under a loss that weighs each output differently.
    fn traced(
        layer: impl Fn(&Tensor, &Tensor, &Tensor) -> Tensor,
        of: &[Tensor; 3],
    ) -> Vec<Tensor> {
        let own: Vec<Tensor> = of
            .iter()
            .map(|t| t.detach().copy().set_requires_grad(true))
            .collect();
        let y = layer(&own[0], &own[1], &own[2]);
        let weights = Tensor::arange(y.numel() as i64, (Kind::Float, Device::Cpu)).sin();
        (&y * weights.view_as(&y)).sum(Kind::Float).backward();
        let mut all = vec![y.detach()];
        all.extend(own.iter().map(Tensor::grad));
        all
    }

    #[test]
    fn output_and_gradients_are_those_of_libtorchs_own_layer() {
        let _alone = crate::gpu::GENERATOR.lock();
        for (rows, length, input, output) in [(3, 5, 128, 192), (1, 1, 256, 64), (2, 7, 16, 3)] {
            let size = [rows, length, input];
            let of = [
                uniform(&size),
                uniform(&[output, input]),
                uniform(&[output]),
            ];
            let ours = traced(|x, w, b| linear(x, w, b).unwrap(), &of);
            let theirs = traced(|x, w, b| x.linear(w, Some(b)), &of);
            for (a, b) in ours.iter().zip(&theirs) {
                assert_eq!(a.size(), b.size());
                assert!(a.allclose(b, 1e-4, 1e-5, false), "{size:?} to {output}");
            }
        }
    }

    #[test]
    fn what_is_frozen_gets_no_gradient() {
        let _alone = crate::gpu::GENERATOR.lock();
        let (x, weight, bias) = (uniform(&[4, 128]), uniform(&[256, 128]), uniform(&[256]));
        let weight = weight.detach();
        let y = linear(&x, &weight, &bias).unwrap();
        y.sum(Kind::Float).backward();
        assert!(x.grad().defined() && bias.grad().defined() && !weight.grad().defined());
        let y = tch::no_grad(|| linear(&x, &weight, &bias).unwrap());
        assert!(!y.requires_grad());
    }

    #[test]
    fn what_does_not_fit_together_is_an_error() {
        let error = linear(&uniform(&[4, 100]), &uniform(&[256, 128]), &uniform(&[256]));
        assert!(error.is_err());
    }
}
