//! The head: from the hidden states of a row's tokens to one number a class.
//!
//! Shapes: B rows of a batch, L tokens of its longest row, H hidden size.

use anyhow::Result;
use rand::Rng;
use tch::{Device, Kind, Tensor};

use super::rows::Batch;
use crate::train::layers::{Linear, Map};
use crate::train::mlp::{Mlp, normal};
pub use ::text::head::{HeadConfig, Pooling, QUERY};

/// Of the normal distribution from which weights are drawn.
const DEVIATION: f64 = 0.02;

/// A trial's head.
#[derive(Debug)]
pub struct Head {
    config: HeadConfig,
    layers: Mlp,
    /// `[H]`, of [`Pooling::Attn`].
    query: Option<Tensor>,
}

impl Head {
    /// A fresh head: weights from a normal distribution of deviation 0.02, drawn from `rng` layer
    /// by layer, biases 0.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn new(config: HeadConfig, device: Device, rng: &mut impl Rng) -> Result<Head> {
        let between = (config.activation, config.dropout);
        let layers = Mlp::drawn(&config.sizes(), between, &|_| DEVIATION, device, rng)?;
        let query = match config.pooling {
            Pooling::Attn => Some(normal(&[config.input], DEVIATION, device, rng)?),
            Pooling::Cls | Pooling::Mean | Pooling::Max => None,
        };
        Ok(Head {
            config,
            layers,
            query,
        })
    }

    /// A head of the layers that `read` gives by their number; `query` is asked where pooling learns.
    ///
    /// # Errors
    /// Those of `read` and `query`.
    pub fn of(
        config: HeadConfig,
        read: &dyn Fn(usize) -> Result<Linear>,
        query: &dyn Fn() -> Result<Tensor>,
    ) -> Result<Head> {
        let layers = (0..config.sizes().len()).map(read);
        Ok(Head {
            layers: Mlp {
                layers: layers.collect::<Result<_>>()?,
                activation: config.activation,
                dropout: config.dropout,
            },
            query: match config.pooling {
                Pooling::Attn => Some(query()?),
                Pooling::Cls | Pooling::Mean | Pooling::Max => None,
            },
            config,
        })
    }

    /// What it is.
    pub fn config(&self) -> &HeadConfig {
        &self.config
    }

    /// Passes each tensor to `f`, under the names of [`HeadConfig::layer_names`] and [`QUERY`].
    ///
    /// # Errors
    /// Those of `f`.
    pub fn each(&self, f: &mut Map) -> Result<()> {
        for (name, layer) in self.config.layer_names().iter().zip(&self.layers.layers) {
            layer.map(name, f)?;
        }
        if let Some(query) = &self.query {
            let _query = f(QUERY.to_owned(), query, true)?;
        }
        Ok(())
    }

    /// Hidden states `[B, L, H]` of a batch to vectors `[B, H]`.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn pool(&self, batch: &Batch, x: &Tensor) -> Result<Tensor> {
        let Some(query) = &self.query else {
            return pool(self.config.pooling, batch, x);
        };
        let mut scores = x.f_matmul(query)?;
        if let Some(padding) = batch.padding()? {
            scores = scores.f_masked_fill(&padding, f64::NEG_INFINITY)?;
        }
        let weights = scores.f_softmax(-1, Kind::Float)?.f_unsqueeze(1)?;
        Ok(weights.f_bmm(x)?.f_squeeze_dim(1)?)
    }

    /// Pooled vectors `[B, H]` to logits `[B, classes]`; with the head's dropout where `training`.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn logits(&self, pooled: Tensor, training: bool) -> Result<Tensor> {
        self.layers.forward(pooled, training)
    }
}

/// Pooling that learns nothing; the mean in place of [`Pooling::Attn`].
///
/// # Errors
/// libtorch throws.
pub fn pool(pooling: Pooling, batch: &Batch, x: &Tensor) -> Result<Tensor> {
    match pooling {
        Pooling::Cls => Ok(x.f_select(1, 0)?),
        Pooling::Mean | Pooling::Attn => batch.pool(x),
        Pooling::Max => {
            let masked = match batch.padding()? {
                Some(padding) => x.f_masked_fill(&padding.f_unsqueeze(2)?, f64::NEG_INFINITY)?,
                None => x.shallow_clone(),
            };
            Ok(masked.f_amax([1i64].as_slice(), false)?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::Rows;
    use super::*;
    use crate::train::layers::listed;
    use ::text::tokens::Tokens;
    use ::training::nonlinearity::Nonlinearity;
    use search::study::rng;

    fn config(pooling: Pooling, layers: usize) -> HeadConfig {
        HeadConfig {
            input: 2,
            classes: 3,
            pooling,
            layers,
            hidden: 5,
            activation: Nonlinearity::Relu,
            dropout: 0.0,
        }
    }

    /// Two rows, of two tokens and of one.
    fn batch() -> Batch {
        let row = |n: usize| Tokens {
            ids: vec![1; n],
            types: vec![0; n],
        };
        let (a, b) = (row(2), row(1));
        let rows = Rows::new(&[&a, &b], &[0, 1], Device::Cpu).unwrap();
        let on_device = rows.upload(&[vec![0, 1]]).unwrap();
        rows.batch(&[0, 1], &on_device[0]).unwrap()
    }

    fn states() -> Tensor {
        // What stands behind the second row's end must not count.
        let values = [1.0f32, -4.0, 3.0, 2.0, -1.0, -2.0, 99.0, 99.0];
        Tensor::from_slice(&values).view([2, 2, 2])
    }

    fn values(t: &Tensor) -> Vec<f32> {
        Vec::try_from(t.flatten(0, -1)).unwrap()
    }

    fn pooled(pooling: Pooling) -> Vec<f32> {
        let head = Head::new(config(pooling, 1), Device::Cpu, &mut rng(1, 0, "head")).unwrap();
        values(&head.pool(&batch(), &states()).unwrap())
    }

    #[test]
    fn each_pooling_leaves_padding_out() {
        assert_eq!(pooled(Pooling::Cls), [1.0, -4.0, -1.0, -2.0]);
        assert_eq!(pooled(Pooling::Mean), [2.0, -1.0, -1.0, -2.0]);
        assert_eq!(pooled(Pooling::Max), [3.0, 2.0, -1.0, -2.0]);
        assert_eq!(pooled(Pooling::Attn)[2..], [-1.0, -2.0]);
    }

    #[test]
    fn attention_weighs_tokens_by_the_softmax_of_their_products_with_the_query() {
        let mut head = Head::new(
            config(Pooling::Attn, 1),
            Device::Cpu,
            &mut rng(1, 0, "head"),
        )
        .unwrap();
        head.query = Some(Tensor::from_slice(&[0.5f32, 0.25]));
        // Products: 0.5 - 1 = -0.5 and 1.5 + 0.5 = 2.
        let first = (-0.5f32).exp() / ((-0.5f32).exp() + 2f32.exp());
        let expected = [
            first + 3.0 * (1.0 - first),
            -4.0 * first + 2.0 * (1.0 - first),
        ];
        let found = values(&head.pool(&batch(), &states()).unwrap());
        for (f, e) in found.iter().zip(expected) {
            assert!((f - e).abs() < 1e-5, "{found:?} {expected:?}");
        }
    }

    #[test]
    fn layers_follow_one_another_with_the_nonlinearity_between_them() {
        let head = Head::new(
            config(Pooling::Mean, 3),
            Device::Cpu,
            &mut rng(1, 0, "head"),
        )
        .unwrap();
        let parameters = listed(|f| head.each(f)).unwrap();
        let shapes: Vec<(String, Vec<i64>, bool)> = parameters
            .iter()
            .map(|p| (p.name.clone(), p.tensor.size(), p.decayed))
            .collect();
        let of = |name: &str, shape: &[i64], decayed| (name.to_owned(), shape.to_vec(), decayed);
        let expected = [
            of("head.layers.0.weight", &[5, 2], true),
            of("head.layers.0.bias", &[5], false),
            of("head.layers.1.weight", &[5, 5], true),
            of("head.layers.1.bias", &[5], false),
            of("head.layers.2.weight", &[3, 5], true),
            of("head.layers.2.bias", &[3], false),
        ];
        assert_eq!(shapes, expected);
        let x = Tensor::from_slice(&[1f32, 2.0]).view([1, 2]);
        let weight = |at: usize| parameters[2 * at].tensor.tr();
        let by_hand = x.matmul(&weight(0)).relu().matmul(&weight(1)).relu();
        let by_hand = by_hand.matmul(&weight(2));
        let found = head.logits(x, true).unwrap();
        assert!((found - by_hand).abs().max().double_value(&[]) < 1e-7);
    }

    #[test]
    fn a_head_of_one_layer_is_a_classifier_and_is_described_in_json() {
        let head = Head::new(
            config(Pooling::Attn, 1),
            Device::Cpu,
            &mut rng(1, 0, "head"),
        )
        .unwrap();
        let parameters = listed(|f| head.each(f)).unwrap();
        let names: Vec<&str> = parameters.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(
            names,
            ["classifier.weight", "classifier.bias", "head.query"]
        );
        let json = serde_json::to_value(head.config()).unwrap();
        assert_eq!(json["pooling"], "attn");
        assert_eq!(json["activation"], "relu");
        let read: HeadConfig = serde_json::from_value(json).unwrap();
        assert_eq!(&read, head.config());
    }
}
