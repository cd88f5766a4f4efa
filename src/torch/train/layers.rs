//! The layers that all encoders are made of.

use anyhow::Result;
use tch::Tensor;

use crate::gpu;
use ::text::checkpoint::Activation;

/// A linear layer: `weight` `[out, in]`, `bias` `[out]`.
#[derive(Debug)]
pub struct Linear {
    /// `[out, in]`.
    pub weight: Tensor,
    /// `[out]`.
    pub bias: Tensor,
}

/// A layer norm over the last dimension: both `[H]`.
#[derive(Debug)]
pub struct Norm {
    /// `[H]`.
    pub weight: Tensor,
    /// `[H]`.
    pub bias: Tensor,
}

/// A tensor of a model with its name and whether weight decay applies to it.
#[derive(Debug)]
pub struct Parameter {
    /// Dotted name.
    pub name: String,
    /// The values.
    pub tensor: Tensor,
    /// Biases and layer norms are not decayed.
    pub decayed: bool,
}

/// What is done with each tensor of a model to make another model of the results: it is given the
/// tensor's name, the tensor, and whether weight decay applies to it.
pub type Map<'a> = dyn FnMut(String, &Tensor, bool) -> Result<Tensor> + 'a;

impl Linear {
    /// `x [.., in]` to `[.., out]`.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        gpu::linear(x, &self.weight, &self.bias)
    }

    /// The same with each tensor passed through `f`.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn map(&self, name: &str, f: &mut Map) -> Result<Linear> {
        Ok(Linear {
            weight: f(format!("{name}.weight"), &self.weight, true)?,
            bias: f(format!("{name}.bias"), &self.bias, false)?,
        })
    }

    /// `rows` of the outputs from `first` on, as a layer of its own that shares the tensors.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn rows(&self, first: i64, rows: i64) -> Result<Linear> {
        Ok(Linear {
            weight: self.weight.f_narrow(0, first, rows)?,
            bias: self.bias.f_narrow(0, first, rows)?,
        })
    }
}

impl Norm {
    /// `x [.., H]`, normed.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn forward(&self, x: &Tensor, eps: f64) -> Result<Tensor> {
        let (weight, bias) = (Some(&self.weight), Some(&self.bias));
        Ok(x.f_layer_norm(self.weight.size(), weight, bias, eps, true)?)
    }

    /// The same with each tensor passed through `f`.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn map(&self, name: &str, f: &mut Map) -> Result<Norm> {
        Ok(Norm {
            weight: f(format!("{name}.weight"), &self.weight, false)?,
            bias: f(format!("{name}.bias"), &self.bias, false)?,
        })
    }
}

/// All tensors that `visit` passes through a map, with their names, in its order.
///
/// # Errors
/// Those of `visit`.
pub fn listed(visit: impl FnOnce(&mut Map) -> Result<()>) -> Result<Vec<Parameter>> {
    let mut all = Vec::new();
    visit(&mut |name, tensor, decayed| {
        all.push(Parameter {
            name,
            tensor: tensor.shallow_clone(),
            decayed,
        });
        Ok(tensor.shallow_clone())
    })?;
    Ok(all)
}

/// The shares that a pass drops; all 0 where nothing is trained.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Dropouts {
    /// Of hidden states.
    pub hidden: f64,
    /// Of attention weights.
    pub attention: f64,
}

/// The nonlinearity of each value.
///
/// # Errors
/// libtorch throws.
pub fn activate(activation: Activation, x: &Tensor) -> Result<Tensor> {
    Ok(match activation {
        Activation::Gelu => x.f_gelu("none")?,
        Activation::GeluTanh => x.f_gelu("tanh")?,
        Activation::GeluClipped => x.f_gelu("none")?.f_clamp(-10.0, 10.0)?,
        Activation::QuickGelu => x.f_mul_scalar(1.702)?.f_sigmoid()?.f_mul(x)?,
        Activation::Relu => x.f_relu()?,
        Activation::Relu2 => x.f_relu()?.f_square()?,
        Activation::Relu6 => x.f_clamp(0.0, 6.0)?,
        Activation::LeakyRelu => x.f_leaky_relu()?,
        Activation::Silu => x.f_silu()?,
        Activation::Mish => x.f_mish()?,
        Activation::Sigmoid => x.f_sigmoid()?,
        Activation::Tanh => x.f_tanh()?,
        // Ma et al., "Mega", 2022, section 3.1: mean and deviation that fit squared ReLU.
        Activation::Laplace => x
            .f_sub_scalar(std::f64::consts::FRAC_1_SQRT_2)?
            .f_mul_scalar(1.0 / (0.282095 * std::f64::consts::SQRT_2))?
            .f_erf()?
            .f_add_scalar(1.0)?
            .f_mul_scalar(0.5)?,
        Activation::Linear => x.shallow_clone(),
    })
}
