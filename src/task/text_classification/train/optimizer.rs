//! AdamW over a model's parameters.

use anyhow::Result;
use tch::{Kind, Tensor};

use super::encoder::Parameter;
use crate::gpu;

/// What stays the same over a training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Decoupled weight decay, on weights and tables alone.
    pub weight_decay: f64,
    /// Greatest global L2 norm of the gradients; 0 = no limit.
    pub clip_grad: f64,
}

/// Parameters with their moments.
#[derive(Debug)]
pub struct Optimizer {
    settings: Settings,
    /// Decayed ones first.
    parameters: Vec<Tensor>,
    means: Vec<Tensor>,
    squares: Vec<Tensor>,
    decayed: usize,
    step: Tensor,
}

impl Optimizer {
    /// For these parameters; all require gradients.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn new(parameters: &[Parameter], settings: Settings) -> Result<Optimizer> {
        let of = |decayed: bool| parameters.iter().filter(move |p| p.decayed == decayed);
        let parameters: Vec<Tensor> = of(true)
            .chain(of(false))
            .map(|p| p.tensor.shallow_clone())
            .collect();
        let zeros = || -> Result<Vec<Tensor>> {
            let zero = |t: &Tensor| Ok(t.f_zeros_like()?);
            parameters.iter().map(zero).collect()
        };
        let device = parameters.first().map_or(tch::Device::Cpu, Tensor::device);
        Ok(Optimizer {
            settings,
            means: zeros()?,
            squares: zeros()?,
            decayed: of(true).count(),
            step: Tensor::f_zeros([0i64; 0], (Kind::Float, device))?,
            parameters,
        })
    }

    /// Moves the parameters by their gradients, which are then released.
    ///
    /// # Errors
    /// A parameter has no gradient, or libtorch throws.
    pub fn step(&mut self, lr: f64) -> Result<()> {
        gpu::adamw_step(
            &self.parameters,
            &self.means,
            &self.squares,
            self.decayed,
            &self.step,
            gpu::AdamW {
                lr,
                beta1: 0.9,
                beta2: 0.999,
                weight_decay: self.settings.weight_decay,
                eps: 1e-8,
                max_norm: self.settings.clip_grad,
            },
        )
    }
}
