//! Tables: a multi-layer perceptron on standardised numbers and embedded categories.

mod model;
pub mod predict;

use anyhow::Result;
use serde_json::Value as Json;
use tch::{Kind as Type, Reduction, Tensor};

use super::layers::Parameter;
use super::loss::{Loss, LossSettings};
use super::precision::Precision;
use super::{Kind, Module, Outputs, Parts, Step, TorchTask, classes};
use crate::gpu;
use ::tabular::{Description, Scale, TableRows, load};
use ::training::numbers;
use ::training::scores::Answers;
use ::training::split::Split;
use config::StudySpec;
use device::Device;
use model::{Inputs, Model};
use search::study::rng;
use task::{Reporter, TrialSpec};

/// An opened task of a table.
pub type TabularTask = TorchTask<TabularKind>;

/// Its rows.
pub struct TabularKind {
    data: TableRows,
    device: tch::Device,
}

impl Kind for TabularKind {
    fn open(spec: &StudySpec, device: Device) -> Result<(TabularKind, Split)> {
        let (data, split) = load(spec)?;
        let device = gpu::tch_device(device);
        Ok((TabularKind { data, device }, split))
    }

    fn module(
        &mut self,
        trial: &TrialSpec,
        parts: &Parts,
        _reporter: &mut dyn Reporter,
    ) -> Result<Box<dyn Module>> {
        let about = Description::of(trial, &self.data, &parts.train)?;
        let dropout = trial.float("model.dropout")?;
        let mut generator = rng(trial.seed, 0, "model");
        let model = Model::new(&about, dropout, self.device, &mut generator)?;
        let rows = |rows: &[usize]| -> Result<Rows> {
            let encoded = about.encoding.encode(&self.data.columns, rows);
            let class = |row: &usize| self.data.samples.class[*row];
            let target = |row: &usize| self.data.numbers.get(*row).copied();
            Ok(Rows {
                inputs: Inputs::new(&about.encoding, &encoded, rows.len(), self.device)?,
                classes: rows.iter().map(class).collect(),
                numbers: rows.iter().filter_map(target).collect(),
            })
        };
        let train = rows(&parts.train)?;
        let targets = match about.scale {
            None => {
                let classes: Vec<i64> = train.classes.iter().map(|class| *class as i64).collect();
                Tensor::f_from_slice(&classes)?
            }
            Some(scale) => {
                let standard = |x: &f64| ((x - scale.mean) / scale.deviation) as f32;
                Tensor::f_from_slice(&train.numbers.iter().map(standard).collect::<Vec<f32>>())?
            }
        };
        let loss = match about.scale {
            None => {
                let settings = LossSettings::of(trial)?;
                TargetLoss::Classes(Loss::new(settings, &about.train_rows, self.device)?)
            }
            Some(_) => TargetLoss::Numbers(match trial.text("loss.reg.type")? {
                "huber" => Some(trial.float("loss.reg.delta")?),
                _ => None,
            }),
        };
        Ok(Box::new(TabularModule {
            scored: [rows(&parts.validation)?, rows(&parts.test)?],
            targets: targets.f_to_device(self.device)?,
            batches: Vec::new(),
            precision: trial.word("train.precision")?,
            train,
            model,
            loss,
            about,
        }))
    }
}

/// Rows of a part.
struct Rows {
    inputs: Inputs,
    classes: Vec<usize>,
    /// The target where it is a number.
    numbers: Vec<f64>,
}

/// The loss of a row.
enum TargetLoss {
    /// Of its class.
    Classes(Loss),
    /// Of its number: Huber's with this delta, else the squared error.
    Numbers(Option<f64>),
}

impl TargetLoss {
    /// Of each row `[B]`, of outputs `[B, n]` and targets `[B]`.
    fn of_rows(&self, outputs: &Tensor, targets: &Tensor) -> Result<Tensor> {
        Ok(match self {
            TargetLoss::Classes(loss) => loss.of_rows(outputs, targets)?,
            TargetLoss::Numbers(delta) => {
                let outputs = outputs.f_squeeze_dim(1)?;
                match delta {
                    Some(delta) => outputs.f_huber_loss(targets, Reduction::None, *delta)?,
                    None => outputs.f_mse_loss(targets, Reduction::None)?,
                }
            }
        })
    }
}

/// A model with the rows that it reads.
struct TabularModule {
    model: Model,
    loss: TargetLoss,
    train: Rows,
    /// Those that validate, and those of the test.
    scored: [Rows; 2],
    /// `[n]`: of the rows to train on, classes or standardised numbers.
    targets: Tensor,
    /// The rows of this epoch's batches, on the device.
    batches: Vec<Tensor>,
    /// Of training steps. Rows are scored as the trained weights will be used, in 32 bits.
    precision: Precision,
    about: Description,
}

impl Module for TabularModule {
    fn parameters(&self) -> Result<Vec<Parameter>> {
        self.model.parameters()
    }

    fn costs(&self) -> Vec<u32> {
        vec![1; self.train.classes.len()]
    }

    fn weight(&self, rows: &mut dyn Iterator<Item = usize>) -> f64 {
        match &self.loss {
            TargetLoss::Classes(loss) => loss.weight(rows.map(|row| self.train.classes[row])),
            TargetLoss::Numbers(_) => rows.count() as f64,
        }
    }

    fn begin(&mut self, batches: &[Vec<usize>], _seed: u64) -> Result<()> {
        self.batches = super::tensors::upload(batches, self.targets.device())?;
        Ok(())
    }

    fn backward(&self, step: &Step<'_>) -> Result<Tensor> {
        let rows = &self.batches[step.batch];
        let rows = rows.f_narrow(0, step.from as i64, step.rows.len() as i64)?;
        let inputs = self.train.inputs.rows(&rows)?;
        let outputs = {
            let _precision = self.precision.guard(self.targets.device())?;
            self.model.forward(&inputs, true)?.f_to_kind(Type::Float)?
        };
        let targets = self.targets.f_index_select(0, &rows)?;
        let losses = self.loss.of_rows(&outputs, &targets)?;
        let loss = losses.f_sum(Type::Float)?.f_div_scalar(step.weight)?;
        loss.f_backward()?;
        Ok(loss.f_detach()?)
    }

    fn outputs(&self, test: bool, step: &mut dyn FnMut()) -> Result<Outputs> {
        let rows = &self.scored[usize::from(test)];
        let outputs = self.model.outputs(&rows.inputs, step)?;
        Ok(match self.about.scale {
            None => {
                let (truth, all) = (rows.classes.clone(), 0..rows.classes.len());
                let all: Vec<usize> = all.collect();
                classes::outputs(Answers::new(self.about.outputs(), &outputs, &all, truth))
            }
            Some(scale) => {
                let metrics = numbers::metrics(&unscaled(&outputs, scale), &rows.numbers);
                Box::new(move |_| metrics.clone())
            }
        })
    }

    fn about(&self) -> Result<Json> {
        Ok(serde_json::to_value(&self.about)?)
    }
}

/// Outputs as numbers of the target.
fn unscaled(outputs: &[f32], scale: Scale) -> Vec<f64> {
    let number = |x: &f32| f64::from(*x) * scale.deviation + scale.mean;
    outputs.iter().map(number).collect()
}

#[cfg(test)]
mod tests;
