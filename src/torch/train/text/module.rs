//! What one training of a text classification is made of: rows of tokens, a model, a loss of the classes.

use anyhow::{Result, ensure};
use serde_json::{Value as Json, json};
use std::rc::Rc;
use tch::{Kind, Tensor};

use super::Origin;
use super::model::Model;
use super::prefix::Input;
use super::rows::SharedRows;
use super::score::Scored;
use crate::train::layers::Parameter;
use crate::train::loss::{Loss, LossSettings};
use crate::train::{Module, Outputs, Parts, Step, classes};
use task::TrialSpec;

/// A model with the rows that it reads.
pub struct TextModule {
    model: Model,
    rows: SharedRows,
    /// What the first trainable layer reads.
    input: Input,
    loss: Loss,
    /// Numbers of the rows to train on.
    train: Vec<usize>,
    /// `[n]`: what each row counts in training, in the mean 1; `None`: all the same.
    shares: Option<Tensor>,
    /// The rows of this epoch's batches, on the device.
    batches: Vec<Tensor>,
    /// The rows that validate, and those of the test.
    scored: [Scored; 2],
    about: About,
}

/// What is kept beside a trial's weights.
pub struct About {
    /// The model's name.
    pub name: String,
    /// What was fine-tuned.
    pub origin: Rc<Origin>,
    /// The labels.
    pub classes: Vec<String>,
    /// Documents to train on, by class.
    pub train_rows: Vec<usize>,
}

impl TextModule {
    /// `numbers` are those of the rows of each part.
    ///
    /// # Errors
    /// A key is absent or of the wrong type, or libtorch throws.
    pub fn new(
        trial: &TrialSpec,
        model: Model,
        rows: SharedRows,
        input: Input,
        numbers: Parts,
        about: About,
    ) -> Result<TextModule> {
        let mut counts = vec![0; about.classes.len()];
        for row in &numbers.train {
            counts[rows.class(*row)] += 1;
        }
        Ok(TextModule {
            loss: Loss::new(LossSettings::of(trial)?, &counts, rows.labels.device())?,
            shares: rows.shares(&numbers.train)?,
            scored: [
                Scored::new(&model, &rows, &numbers.validation)?,
                Scored::new(&model, &rows, &numbers.test)?,
            ],
            train: numbers.train,
            batches: Vec::new(),
            model,
            rows,
            input,
            about,
        })
    }
}

impl Module for TextModule {
    fn parameters(&self) -> Result<Vec<Parameter>> {
        self.model.parameters()
    }

    fn below_the_head(&self, name: &str) -> usize {
        below_the_head(name, self.model.layers())
    }

    fn costs(&self) -> Vec<u32> {
        self.train
            .iter()
            .map(|row| self.rows.lengths[*row])
            .collect()
    }

    fn weight(&self, rows: &mut dyn Iterator<Item = usize>) -> f64 {
        self.loss
            .weight(rows.map(|row| self.rows.class(self.train[row])))
    }

    fn begin(&mut self, batches: &[Vec<usize>], _seed: u64) -> Result<()> {
        let number = |batch: &Vec<usize>| batch.iter().map(|row| self.train[*row]).collect();
        let batches: Vec<Vec<usize>> = batches.iter().map(number).collect();
        self.batches = self.rows.upload(&batches)?;
        Ok(())
    }

    fn backward(&self, step: &Step<'_>) -> Result<Tensor> {
        let size = step.rows.len() as i64;
        let on_device = self.batches[step.batch].f_narrow(0, step.from as i64, size)?;
        let numbers: Vec<usize> = step.rows.iter().map(|row| self.train[*row]).collect();
        let batch = self.rows.batch(&numbers, &on_device)?;
        let pass = self
            .model
            .pass(&self.rows, &batch, &self.input, step.seed)?;
        let (expected, shape) = ([size, self.about.classes.len() as i64], pass.logits.size());
        ensure!(
            shape == expected,
            "logits of shape {shape:?}, not {expected:?}"
        );
        let labels = self.rows.labels.f_index_select(0, &on_device)?;
        let mut losses = self.loss.of_rows(&pass.logits, &labels)?;
        if let Some(shares) = &self.shares {
            losses = losses.f_mul(&shares.f_index_select(0, &on_device)?)?;
        }
        let loss = losses.f_sum(Kind::Float)?.f_div_scalar(step.weight)?;
        self.model.backward(&batch, pass, &loss)?;
        Ok(loss.f_detach()?)
    }

    fn outputs(&self, test: bool, step: &mut dyn FnMut()) -> Result<Outputs> {
        let scored = &self.scored[usize::from(test)];
        let count = self.about.classes.len();
        let answers = scored.answers(&self.model, (&self.rows, &self.input), count, step)?;
        Ok(classes::outputs(answers))
    }

    fn weights(&self) -> Result<Vec<(String, Tensor)>> {
        self.model.weights()
    }

    fn about(&self) -> Result<Json> {
        let about = &self.about;
        Ok(json!({
            "labels": about.classes,
            "train_rows": about.train_rows,
            "model": about.name,
            "model_fingerprint": about.origin.fingerprint(),
            "head": serde_json::to_value(self.model.head())?,
        }))
    }
}

/// How far below the head a parameter stands, by its name: 0 in the head, 1 in the last of `layers`
/// layers, one more than all layers in the embeddings and in what else the layers share.
fn below_the_head(name: &str, layers: usize) -> usize {
    if name.starts_with("classifier.") || name.starts_with("head.") {
        return 0;
    }
    let layer = name
        .strip_prefix("encoder.layer.")
        .and_then(|rest| rest.split('.').next())
        .and_then(|number| number.parse::<usize>().ok());
    match layer {
        Some(layer) => layers.saturating_sub(layer).max(1),
        None => layers + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_told_by_the_name() {
        for (name, below) in [
            ("classifier.weight", 0),
            ("head.layers.0.bias", 0),
            ("head.query", 0),
            ("encoder.layer.11.output.dense.weight", 1),
            ("encoder.layer.0.attention.self.qkv.bias", 12),
            ("embeddings.word_embeddings.weight", 13),
            ("encoder.rel_embeddings.weight", 13),
        ] {
            assert_eq!(below_the_head(name, 12), below, "{name}");
        }
    }
}
