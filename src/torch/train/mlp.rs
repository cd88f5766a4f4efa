//! Linear layers with a nonlinearity between them.

use anyhow::Result;
use rand::Rng;
use tch::{Device, Kind, Tensor};

use super::dropout::dropout;
use super::layers::Linear;
use ::training::nonlinearity::Nonlinearity;

/// Linear layers, one behind the other.
#[derive(Debug)]
pub struct Mlp {
    /// At least one.
    pub layers: Vec<Linear>,
    /// Between two of them.
    pub activation: Nonlinearity,
    /// Dropped of what each is given, in training.
    pub dropout: f64,
}

impl Mlp {
    /// Fresh layers of these inputs and outputs: weights from normal distributions, drawn layer by layer, whose
    /// `deviation` follows from the inputs; biases 0.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn drawn(
        sizes: &[(usize, usize)],
        (activation, dropout): (Nonlinearity, f64),
        deviation: &dyn Fn(usize) -> f64,
        device: Device,
        rng: &mut impl Rng,
    ) -> Result<Mlp> {
        let mut layers = Vec::new();
        for (input, out) in sizes.iter().copied() {
            let bias = Tensor::f_zeros([out as i64], (Kind::Float, device))?;
            layers.push(Linear {
                weight: normal(&[out, input], deviation(input), device, rng)?,
                bias: bias.f_set_requires_grad(true)?,
            });
        }
        Ok(Mlp {
            layers,
            activation,
            dropout,
        })
    }

    /// `x [.., in]` to `[.., out]`; with dropout where `training`.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn forward(&self, x: Tensor, training: bool) -> Result<Tensor> {
        let p = if training { self.dropout } else { 0.0 };
        let mut x = x;
        for (at, layer) in self.layers.iter().enumerate() {
            if at > 0 {
                x = match self.activation {
                    Nonlinearity::Gelu => x.f_gelu("none")?,
                    Nonlinearity::Relu => x.f_relu()?,
                    Nonlinearity::Silu => x.f_silu()?,
                    Nonlinearity::Tanh => x.f_tanh()?,
                };
            }
            x = layer.forward(&dropout(x, p)?)?;
        }
        Ok(x)
    }
}

/// A trainable tensor of normal numbers of this deviation, drawn from `rng`.
///
/// # Errors
/// libtorch throws.
pub fn normal(
    shape: &[usize],
    deviation: f64,
    device: Device,
    rng: &mut impl Rng,
) -> Result<Tensor> {
    let count: usize = shape.iter().product();
    let mut values = Vec::with_capacity(count + 1);
    while values.len() < count {
        let (a, b) = normal_pair(rng);
        values.push((deviation * a) as f32);
        values.push((deviation * b) as f32);
    }
    values.truncate(count);
    let shape: Vec<i64> = shape.iter().map(|d| *d as i64).collect();
    let tensor = Tensor::f_from_slice(&values)?.f_view(shape.as_slice())?;
    Ok(tensor.f_to_device(device)?.f_set_requires_grad(true)?)
}

/// Two independent normal numbers (Box and Muller), a function of the generator's bits alone.
fn normal_pair(rng: &mut impl Rng) -> (f64, f64) {
    // 53 random bits in (0, 1].
    let mut uniform = || ((rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
    let (radius, angle) = (
        (-2.0 * uniform().ln()).sqrt(),
        std::f64::consts::TAU * uniform(),
    );
    (radius * angle.cos(), radius * angle.sin())
}
