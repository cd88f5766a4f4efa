//! The model of a table, and what it reads.

use anyhow::Result;
use rand::Rng;
use tch::{Device, Kind, Tensor};

use crate::train::layers::{Map, Parameter, listed};
use crate::train::mlp::{Mlp, normal};
use crate::train::tensors::fetched;
use ::tabular::{Description, Encoded, Encoding};

/// Rows that are computed at once where nothing is learned.
const PASS: i64 = 8192;

/// Rows on the device.
pub struct Inputs {
    /// `[n, width]`.
    numbers: Tensor,
    /// `[n, categorical columns]`.
    categories: Tensor,
}

impl Inputs {
    /// Moves so many encoded rows to the device.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn new(
        encoding: &Encoding,
        encoded: &Encoded,
        rows: usize,
        device: Device,
    ) -> Result<Inputs> {
        let shape = |columns: usize| [rows as i64, columns as i64];
        let numbers = Tensor::f_from_slice(&encoded.numbers)?.f_view(shape(encoding.width()))?;
        let categories = Tensor::f_from_slice(&encoded.categories)?;
        let categories = categories.f_view(shape(encoding.categories().count()))?;
        Ok(Inputs {
            numbers: numbers.f_to_device(device)?,
            categories: categories.f_to_device(device)?,
        })
    }

    /// Of these tensors.
    #[cfg(test)]
    pub fn of(numbers: Tensor, categories: Tensor) -> Inputs {
        Inputs {
            numbers,
            categories,
        }
    }

    /// These rows of them; `rows [B]`.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn rows(&self, rows: &Tensor) -> Result<Inputs> {
        Ok(Inputs {
            numbers: self.numbers.f_index_select(0, rows)?,
            categories: self.categories.f_index_select(0, rows)?,
        })
    }
}

/// Embeddings of the categorical columns, and linear layers behind them and the numbers.
pub struct Model {
    /// `[places, embedding]` of each categorical column.
    tables: Vec<Tensor>,
    mlp: Mlp,
}

impl Model {
    /// A fresh model: weights from normal distributions that keep the variance from layer to layer (He et al., "Delving
    /// Deep into Rectifiers", 2015), biases 0.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn new(
        about: &Description,
        dropout: f64,
        device: Device,
        rng: &mut impl Rng,
    ) -> Result<Model> {
        let spread = 1.0 / (about.embedding as f64).sqrt();
        let mut table = |places| normal(&[places, about.embedding], spread, device, rng);
        let tables = about
            .encoding
            .categories()
            .map(&mut table)
            .collect::<Result<_>>()?;
        let between = (about.activation, dropout);
        let deviation = |input: usize| (2.0 / input as f64).sqrt();
        let mlp = Mlp::drawn(&about.sizes(), between, &deviation, device, rng)?;
        Ok(Model { tables, mlp })
    }

    /// A model of these tensors.
    #[cfg(test)]
    pub fn of(
        about: &Description,
        dropout: f64,
        tables: Vec<Tensor>,
        layers: Vec<crate::train::layers::Linear>,
    ) -> Model {
        let activation = about.activation;
        let mlp = Mlp {
            layers,
            activation,
            dropout,
        };
        Model { tables, mlp }
    }

    /// Everything that is trained: `embeddings.0.weight`, `layers.0.weight` and so on.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn parameters(&self) -> Result<Vec<Parameter>> {
        listed(|f: &mut Map| {
            for (at, table) in self.tables.iter().enumerate() {
                let _table = f(format!("embeddings.{at}.weight"), table, true)?;
            }
            for (at, layer) in self.mlp.layers.iter().enumerate() {
                layer.map(&format!("layers.{at}"), f)?;
            }
            Ok(())
        })
    }

    /// Outputs `[B, n]`; with dropout where `training`.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn forward(&self, inputs: &Inputs, training: bool) -> Result<Tensor> {
        let mut all = vec![inputs.numbers.shallow_clone()];
        for (at, table) in self.tables.iter().enumerate() {
            all.push(table.f_index_select(0, &inputs.categories.f_select(1, at as i64)?)?);
        }
        self.mlp.forward(Tensor::f_cat(&all, 1)?, training)
    }

    /// The outputs of all rows, one row's behind the other's, without dropout; `step` is called with each batch.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn outputs(&self, inputs: &Inputs, step: &mut dyn FnMut()) -> Result<Vec<f32>> {
        let _no_grad = tch::no_grad_guard();
        let (rows, mut all) = (inputs.numbers.size()[0], Vec::new());
        for from in (0..rows).step_by(PASS as usize) {
            let count = PASS.min(rows - from);
            let part = Inputs {
                numbers: inputs.numbers.f_narrow(0, from, count)?,
                categories: inputs.categories.f_narrow(0, from, count)?,
            };
            all.push(self.forward(&part, false)?.f_to_kind(Kind::Float)?);
            step();
        }
        fetched(&all)
    }
}
