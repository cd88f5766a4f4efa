//! Convolutions and batch norms, and where their tensors come from.

use anyhow::Result;
use rand_chacha::ChaCha8Rng;
use tch::{Device, Kind, Tensor};

use crate::train::layers::Parameter;
use crate::train::mlp::normal;

/// What all networks of torchvision add to a batch norm's variance.
const EPS: f64 = 1e-5;

/// The part of a batch's statistics that enters the running ones.
const MOMENTUM: f64 = 0.1;

/// Where fresh tensors come from.
pub struct Fresh<'a> {
    /// Where they lie.
    pub device: Device,
    /// Draws the weights.
    pub rng: &'a mut ChaCha8Rng,
}

/// The tensors of a network, with their names, in its order.
#[derive(Debug, Default)]
pub struct Listed {
    /// What is trained.
    pub parameters: Vec<Parameter>,
    /// Running statistics of batch norms.
    pub buffers: Vec<(String, Tensor)>,
}

impl Listed {
    fn parameter(&mut self, name: String, tensor: &Tensor, decayed: bool) {
        self.parameters.push(Parameter {
            name,
            tensor: tensor.shallow_clone(),
            decayed,
        });
    }
}

/// A convolution without a bias, padded so that at stride 1 it keeps the size.
#[derive(Debug)]
pub struct Conv {
    /// `[out, in, k, k]`.
    weight: Tensor,
    stride: i64,
}

impl Conv {
    /// Of normal weights that keep the variance of the gradients behind a ReLU (He et al., "Delving Deep into
    /// Rectifiers", 2015), as torchvision draws them.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn new(
        [input, out]: [usize; 2],
        kernel: usize,
        stride: i64,
        fresh: &mut Fresh<'_>,
    ) -> Result<Conv> {
        let deviation = (2.0 / (out * kernel * kernel) as f64).sqrt();
        let shape = [out, input, kernel, kernel];
        Ok(Conv {
            weight: normal(&shape, deviation, fresh.device, fresh.rng)?,
            stride,
        })
    }

    /// `x [B, in, H, W]` to `[B, out, H / stride, W / stride]`, rounded up.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let [out, input, _, kernel] = self.weight.size()[..] else {
            anyhow::bail!("a convolution of the shape {:?}", self.weight.size());
        };
        // oneDNN's way back of a convolution of one pixel writes where it must not, or never ends: with AVX2 alone, whose
        // blocks are of eight, with four channels; with AVX-512, whose blocks are of sixteen, with a stride and fewer inputs.
        let (strided, blocks) = (self.stride > 1, input % 8 == 0 && out % 8 == 0);
        if kernel == 1 && (!blocks || strided && input < 16) {
            return self.as_product(x, [out, input]);
        }
        let padding = (kernel - 1) / 2;
        let none: Option<Tensor> = None;
        Ok(x.f_conv2d(&self.weight, none, self.stride, padding, 1, 1)?)
    }

    /// The same of a kernel of one pixel, as a product of matrices.
    fn as_product(&self, x: &Tensor, shape: [i64; 2]) -> Result<Tensor> {
        let x = x.f_slice(2, None, None, self.stride)?;
        let x = x.f_slice(3, None, None, self.stride)?;
        let weight = self.weight.f_view(shape)?.f_transpose(0, 1)?;
        let x = x.f_permute([0, 2, 3, 1])?.f_matmul(&weight)?;
        Ok(x.f_permute([0, 3, 1, 2])?)
    }

    pub fn list(&self, name: &str, all: &mut Listed) {
        all.parameter(format!("{name}.weight"), &self.weight, true);
    }
}

/// A convolution that doubles height and width (PyTorch's `ConvTranspose2d` of kernel and stride 2).
#[derive(Debug)]
pub struct Doubling {
    /// `[in, out, 2, 2]`.
    weight: Tensor,
    /// `[out]`; none before a batch norm, which would take it away again.
    bias: Option<Tensor>,
}

impl Doubling {
    /// Of normal weights that keep the variance behind a ReLU: each output is made of one place of the input.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn new([input, out]: [usize; 2], bias: bool, fresh: &mut Fresh<'_>) -> Result<Doubling> {
        let deviation = (2.0 / input as f64).sqrt();
        Ok(Doubling {
            weight: normal(&[input, out, 2, 2], deviation, fresh.device, fresh.rng)?,
            bias: match bias {
                true => Some(filled(out, 0.0, fresh.device)?.f_set_requires_grad(true)?),
                false => None,
            },
        })
    }

    /// `x [B, in, H, W]` to `[B, out, 2 H, 2 W]`.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.f_conv_transpose2d(&self.weight, self.bias.as_ref(), 2, 0, 0, 1, 1)?)
    }

    pub fn list(&self, name: &str, all: &mut Listed) {
        all.parameter(format!("{name}.weight"), &self.weight, true);
        if let Some(bias) = &self.bias {
            all.parameter(format!("{name}.bias"), bias, false);
        }
    }
}

/// A batch norm: all tensors `[C]`.
#[derive(Debug)]
pub struct BatchNorm {
    weight: Tensor,
    bias: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
}

impl BatchNorm {
    /// Of weights 1, biases 0, and the running statistics of standard normal numbers.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn new(channels: usize, fresh: &Fresh<'_>) -> Result<BatchNorm> {
        let of = |value: f64| filled(channels, value, fresh.device);
        Ok(BatchNorm {
            weight: of(1.0)?.f_set_requires_grad(true)?,
            bias: of(0.0)?.f_set_requires_grad(true)?,
            running_mean: of(0.0)?,
            running_var: of(1.0)?,
        })
    }

    /// `x [B, C, H, W]`, normed: by the batch's statistics where `training`, which then enter the running ones; else by
    /// those.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn forward(&self, x: &Tensor, training: bool) -> Result<Tensor> {
        let of = |tensor| Some(tensor);
        Ok(x.f_batch_norm(
            of(&self.weight),
            of(&self.bias),
            of(&self.running_mean),
            of(&self.running_var),
            training,
            MOMENTUM,
            EPS,
            true,
        )?)
    }

    pub fn list(&self, name: &str, all: &mut Listed) {
        all.parameter(format!("{name}.weight"), &self.weight, false);
        all.parameter(format!("{name}.bias"), &self.bias, false);
        let mut buffer = |word: &str, tensor: &Tensor| {
            (all.buffers).push((format!("{name}.{word}"), tensor.shallow_clone()));
        };
        buffer("running_mean", &self.running_mean);
        buffer("running_var", &self.running_var);
    }
}

fn filled(size: usize, value: f64, device: Device) -> Result<Tensor> {
    Ok(Tensor::f_full([size as i64], value, (Kind::Float, device))?)
}
