//! What a kind of task says to be trained: its data, its models, its losses. The loop, the optimiser, the
//! schedule, checkpoints, early stopping, folds and the parameters after training are the same for all kinds.

use anyhow::Result;
use serde_json::Value as Json;
use tch::Tensor;

use super::layers::Parameter;
use ::training::split::Split;
use config::StudySpec;
use device::Device;
use search::space::Params;
use task::{Metrics, Reporter, TrialSpec};

/// The data of an opened task, and what its trials share.
pub trait Kind: Sized {
    /// Reads the data of a study, and how they are split.
    ///
    /// # Errors
    /// They, or what the point of the defaults begins with, cannot be used.
    fn open(spec: &StudySpec, device: Device) -> Result<(Self, Split)>;

    /// What one model of a trial is trained of, on these rows. It asks `reporter` for nothing but signs of life.
    ///
    /// # Errors
    /// The trial's configuration does not fit the data, a model cannot be loaded, or libtorch throws.
    fn module(
        &mut self,
        trial: &TrialSpec,
        rows: &Parts,
        reporter: &mut dyn Reporter,
    ) -> Result<Box<dyn Module>>;
}

/// Rows of the data by their numbers, for one model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    /// To train on.
    pub train: Vec<usize>,
    /// To validate on.
    pub validation: Vec<usize>,
    /// To test on; none but in a test.
    pub test: Vec<usize>,
}

/// A model with its rows and its loss, on their device. Rows to train on are numbered from 0, whatever they are: rows
/// of a table, windows of a text, pictures.
pub trait Module {
    /// Everything that is trained, in an order that the configuration alone decides.
    ///
    /// # Errors
    /// libtorch throws.
    fn parameters(&self) -> Result<Vec<Parameter>>;

    /// How far below the head a parameter of this name stands: 0 in the head, 1 in the layer below it, and so on.
    fn below_the_head(&self, _name: &str) -> usize {
        0
    }

    /// What each row to train on costs to compute beside others: tokens, pixels. Rows of like cost are batched
    /// together, and a rehearsal begins with the dearest batches.
    fn costs(&self) -> Vec<u32>;

    /// What these rows weigh together in the loss of an update. Known on the host: nothing waits for the device.
    fn weight(&self, rows: &mut dyn Iterator<Item = usize>) -> f64 {
        rows.count() as f64
    }

    /// What training changes without being trained, such as running statistics: a checkpoint holds it beside the
    /// parameters.
    ///
    /// # Errors
    /// libtorch throws.
    fn buffers(&self) -> Result<Vec<(String, Tensor)>> {
        Ok(Vec::new())
    }

    /// An epoch of these batches begins: what can be is moved to the device, or begun to be read ahead. `seed` decides
    /// all that is left to chance in how rows are shown.
    ///
    /// # Errors
    /// libtorch throws.
    fn begin(&mut self, batches: &[Vec<usize>], seed: u64) -> Result<()>;

    /// Adds the gradients of what a step's rows are of an update's loss to those of the parameters, and gives it: a
    /// scalar on the device, without a graph.
    ///
    /// # Errors
    /// The outputs are misshapen, or libtorch throws.
    fn backward(&self, step: &Step<'_>) -> Result<Tensor>;

    /// Computes the outputs of the rows that validate, or of those of the `test`, without dropout and gradients, in an
    /// order that no trial changes; `step` is called with each batch.
    ///
    /// # Errors
    /// libtorch throws.
    fn outputs(&self, test: bool, step: &mut dyn FnMut()) -> Result<Outputs>;

    /// Everything that whoever uses the model needs, by the names under which it is kept: what is trained, and buffers.
    ///
    /// # Errors
    /// libtorch throws.
    fn weights(&self) -> Result<Vec<(String, Tensor)>> {
        kept(self.parameters()?, self.buffers()?)
    }

    /// What stands beside the weights, for those who read them later: an object.
    ///
    /// # Errors
    /// It cannot be written as JSON.
    fn about(&self) -> Result<Json>;
}

/// Parameters and buffers by the names under which they are kept, without their graphs.
pub(super) fn kept(
    parameters: Vec<Parameter>,
    buffers: Vec<(String, Tensor)>,
) -> Result<Vec<(String, Tensor)>> {
    let named = |p: Parameter| Ok((p.name, p.tensor.f_detach()?));
    let named: Result<Vec<_>> = parameters.into_iter().map(named).collect();
    Ok(named?.into_iter().chain(buffers).collect())
}

/// Rows that are computed at once.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// Which batch of the epoch, from 0.
    pub batch: usize,
    /// Which of the batch's rows is the first one here: a batch may be computed in parts.
    pub from: usize,
    /// The rows.
    pub rows: &'a [usize],
    /// What all rows of the update weigh together ([`Module::weight`]).
    pub weight: f64,
    /// Decides all that is left to chance.
    pub seed: u64,
}

/// Outputs of a part's rows, which give its metrics at each point of the parameters after training. Where an output is
/// not finite, at least one metric is not.
pub type Outputs = Box<dyn Fn(&Params) -> Metrics>;
