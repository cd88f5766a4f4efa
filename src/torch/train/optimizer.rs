//! AdamW over a model's parameters.

use anyhow::Result;
use tch::{Kind, Tensor};

use super::layers::Parameter;
use crate::gpu::{self, AdamW};

/// What stays the same over a training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OptimizerSettings {
    /// What all parameters have in common.
    pub adamw: AdamW,
    /// Decoupled weight decay, on weights and tables alone.
    pub weight_decay: f64,
    /// The learning rate falls by this factor from each layer to the one below; 1 = it does not.
    pub layerwise_lr_decay: f64,
}

/// Parameters with their moments.
#[derive(Debug)]
pub struct Optimizer {
    settings: OptimizerSettings,
    /// The names of `parameters`.
    names: Vec<String>,
    /// Group by group, within a group as the model lists them.
    pub parameters: Vec<Tensor>,
    /// First moments of `parameters`.
    pub means: Vec<Tensor>,
    /// Second moments of `parameters`.
    pub squares: Vec<Tensor>,
    /// Float scalar on the device: steps done.
    pub step: Tensor,
    groups: Vec<ParamGroup>,
}

/// Parameters that follow one another and are moved alike.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ParamGroup {
    count: usize,
    /// Factor on the learning rate.
    lr_factor: f64,
    decayed: bool,
}

/// What parameters of a group have in common: how far below the head they stand, and whether they
/// are decayed.
type Alike = (usize, bool);

impl Optimizer {
    /// For these parameters, which all require gradients; `depth` says by the name how far below the head one stands.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn new(
        parameters: &[Parameter],
        depth: &dyn Fn(&str) -> usize,
        settings: OptimizerSettings,
    ) -> Result<Optimizer> {
        let keys: Vec<Alike> = parameters
            .iter()
            .map(|p| match settings.layerwise_lr_decay {
                1.0 => (0, p.decayed),
                _ => (depth(&p.name), p.decayed),
            })
            .collect();
        let (order, sizes) = grouped(&keys);
        let groups = sizes
            .into_iter()
            .map(|((below, decayed), count)| ParamGroup {
                count,
                lr_factor: settings.layerwise_lr_decay.powi(below as i32),
                decayed,
            })
            .collect();
        let names = order.iter().map(|&i| parameters[i].name.clone()).collect();
        let parameters: Vec<Tensor> = order
            .into_iter()
            .map(|i| parameters[i].tensor.shallow_clone())
            .collect();
        let zeros = || -> Result<Vec<Tensor>> {
            let zero = |t: &Tensor| Ok(t.f_zeros_like()?);
            parameters.iter().map(zero).collect()
        };
        let device = parameters.first().map_or(tch::Device::Cpu, Tensor::device);
        Ok(Optimizer {
            settings,
            names,
            means: zeros()?,
            squares: zeros()?,
            step: Tensor::f_zeros([0i64; 0], (Kind::Float, device))?,
            groups,
            parameters,
        })
    }

    /// Everything that steps change, each under a name of its own: the parameters themselves, their
    /// moments and the number of steps.
    pub fn state(&self) -> Vec<(String, Tensor)> {
        let kinds = [
            ("weight", &self.parameters),
            ("mean", &self.means),
            ("square", &self.squares),
        ];
        let mut all: Vec<(String, Tensor)> = kinds
            .into_iter()
            .flat_map(|(kind, tensors)| {
                let named = self.names.iter().zip(tensors);
                named.map(move |(name, t)| (format!("{kind} {name}"), t.shallow_clone()))
            })
            .collect();
        all.push(("step".to_owned(), self.step.shallow_clone()));
        all
    }

    /// Moves the parameters by their gradients, which are then released.
    ///
    /// # Errors
    /// A parameter has no gradient, or libtorch throws.
    pub fn step(&mut self, lr: f64) -> Result<()> {
        let groups: Vec<gpu::ParameterGroup> = self
            .groups
            .iter()
            .map(|group| gpu::ParameterGroup {
                count: group.count,
                lr: lr * group.lr_factor,
                weight_decay: match group.decayed {
                    true => self.settings.weight_decay,
                    false => 0.0,
                },
            })
            .collect();
        gpu::adamw_step(
            &self.parameters,
            &self.means,
            &self.squares,
            &self.step,
            &groups,
            self.settings.adamw,
        )
    }
}

/// Indices with equal keys together, those first that are decayed; and the keys, each with its count.
fn grouped(keys: &[Alike]) -> (Vec<usize>, Vec<(Alike, usize)>) {
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_by_key(|&i| (!keys[i].1, keys[i].0));
    let mut sizes: Vec<(Alike, usize)> = Vec::new();
    for &i in &order {
        match sizes.last_mut() {
            Some((key, count)) if *key == keys[i] => *count += 1,
            Some(_) | None => sizes.push((keys[i], 1)),
        }
    }
    (order, sizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_stand_together_and_the_decayed_first() {
        let keys = [(1, true), (1, false), (0, true), (1, true), (0, false)];
        let (order, sizes) = grouped(&keys);
        assert_eq!(order, [2, 0, 3, 4, 1]);
        let expected = [
            ((0, true), 1),
            ((1, true), 2),
            ((0, false), 1),
            ((1, false), 1),
        ];
        assert_eq!(sizes, expected);
    }

    /// A parameter of value 1 whose gradient is `gradient`.
    fn parameter(name: &str, decayed: bool, gradient: f64) -> Parameter {
        let tensor = Tensor::from_slice(&[1f32]).set_requires_grad(true);
        (&tensor * gradient).sum(Kind::Float).backward();
        Parameter {
            name: name.into(),
            tensor,
            decayed,
        }
    }

    const SETTINGS: OptimizerSettings = OptimizerSettings {
        adamw: AdamW {
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-12,
            max_norm: 0.0,
        },
        weight_decay: 0.5,
        layerwise_lr_decay: 0.5,
    };

    #[test]
    fn each_layer_moves_half_as_far_as_the_one_above_and_biases_are_not_decayed() {
        let parameters = [
            parameter("embeddings.weight", true, 3.0),
            parameter("0.weight", true, 3.0),
            parameter("1.bias", false, 3.0),
            parameter("head.weight", true, 3.0),
            parameter("head.bias", false, 3.0),
        ];
        let names = [
            "embeddings.weight",
            "0.weight",
            "1.bias",
            "head.weight",
            "head.bias",
        ];
        let depth = |name: &str| 3 - names.iter().position(|n| *n == name).unwrap().min(3);
        let mut optimizer = Optimizer::new(&parameters, &depth, SETTINGS).unwrap();
        optimizer.step(0.1).unwrap();
        // The first step of Adam moves by the learning rate; decay takes half of that off a weight
        // of 1.
        let expected = [
            1.0 - 0.1 / 8.0 * 1.5,
            1.0 - 0.1 / 4.0 * 1.5,
            1.0 - 0.1 / 2.0,
            1.0 - 0.1 * 1.5,
            1.0 - 0.1,
        ];
        for (parameter, expected) in parameters.iter().zip(expected) {
            let found = parameter.tensor.double_value(&[0]);
            assert!(
                (found - expected).abs() < 1e-5,
                "{}: {found}",
                parameter.name
            );
        }
    }

    #[test]
    fn the_norm_that_is_clipped_is_that_of_all_groups_together() {
        let parameters = [
            parameter("encoder.layer.0.output.dense.weight", true, 3.0),
            parameter("classifier.bias", false, 4.0),
        ];
        let mut settings = SETTINGS;
        settings.adamw.max_norm = 1.0;
        let mut optimizer = Optimizer::new(&parameters, &|_| 0, settings).unwrap();
        optimizer.step(0.1).unwrap();
        // Gradients 3 and 4 have the norm 5; the first moments are a tenth of the clipped ones.
        let moments: Vec<f64> = optimizer
            .means
            .iter()
            .map(|m| m.double_value(&[0]))
            .collect();
        assert!((moments[0] - 0.06).abs() < 1e-6, "{moments:?}");
        assert!((moments[1] - 0.08).abs() < 1e-6, "{moments:?}");
    }
}
