//! Text detection: a DB head on a feature pyramid on a residual network.

mod layers;
mod loss;
mod network;
mod pages;
pub mod predict;
mod resnet;
pub mod rungs;

#[cfg(test)]
mod parity_tests;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use anyhow::Result;
use serde_json::Value as Json;
use tch::{Kind as Type, Tensor};

use super::ahead::Ahead;
use super::layers::Parameter;
use super::module::kept;
use super::precision::Precision;
use super::tensors::flat;
use super::{Kind, Module, Outputs, Parts, Step, TorchTask};
use crate::gpu;
use ::detection::description::{Description, Network};
use ::detection::example::{Example, Showing, augmentation};
use ::detection::metric::Counts;
use ::detection::post::{Map as PageMap, PageScorer};
use ::detection::view::AugmentSettings;
use ::detection::{Pages, load, start};
use ::training::exported::Describes;
use ::training::split::Split;
use ::training::tensors::TensorFiles;
use config::StudySpec;
use device::Device;
use layers::Fresh;
use loss::{LossSettings, cross_entropy};
use network::DbNet;
use pages::batch;
use search::study::rng;
use task::{Reporter, TrialSpec};

/// An opened task of pages.
pub type DetectionTask = TorchTask<DetectionKind>;

/// Its pages.
pub struct DetectionKind {
    pages: Arc<Pages>,
    /// What the encoder begins with.
    start: Option<TensorFiles>,
    device: tch::Device,
}

impl Kind for DetectionKind {
    fn open(spec: &StudySpec, device: Device) -> Result<(DetectionKind, Split)> {
        let (pages, split) = load(spec)?;
        let kind = DetectionKind {
            pages: Arc::new(pages),
            start: start::weights(spec)?,
            device: gpu::tch_device(device),
        };
        Ok((kind, split))
    }

    fn module(
        &mut self,
        trial: &TrialSpec,
        parts: &Parts,
        _reporter: &mut dyn Reporter,
    ) -> Result<Box<dyn Module>> {
        let about = Description::of(trial)?;
        let mut network = fresh(trial, self.start.as_ref(), self.device)?;
        network.freeze(trial.int("train.freeze_encoder_layers")?)?;
        Ok(Box::new(DetectionModule {
            network,
            loss: LossSettings::of(trial)?,
            precision: trial.word("train.precision")?,
            showing: Showing::of(trial)?,
            augment: augmentation(trial)?,
            pages: self.pages.clone(),
            rows: parts.clone(),
            ahead: None,
            device: self.device,
            about,
        }))
    }
}

/// The network that a trial begins with.
fn fresh(trial: &TrialSpec, start: Option<&TensorFiles>, device: tch::Device) -> Result<DbNet> {
    let mut fresh = Fresh {
        device,
        rng: &mut rng(trial.seed, 0, "model"),
    };
    let network = DbNet::new(&Network::of(trial)?, &mut fresh)?;
    if let Some(weights) = start {
        network.start_from(weights)?;
    }
    Ok(network)
}

/// A network with the pages that it reads.
struct DetectionModule {
    network: DbNet,
    loss: LossSettings,
    /// Of training steps. Pages are scored as the trained weights will be used, in 32 bits.
    precision: Precision,
    showing: Showing,
    augment: AugmentSettings,
    pages: Arc<Pages>,
    rows: Parts,
    /// The pages of this epoch, in the order of its batches.
    ahead: Option<Ahead<Result<Example>>>,
    device: tch::Device,
    about: Description,
}

/// Pages that are computed at once where nothing is learned.
const PASS: usize = 8;

impl Module for DetectionModule {
    fn parameters(&self) -> Result<Vec<Parameter>> {
        let trained = |p: &Parameter| p.tensor.requires_grad();
        let all = self.network.listed().parameters.into_iter();
        Ok(all.filter(trained).collect())
    }

    fn buffers(&self) -> Result<Vec<(String, Tensor)>> {
        Ok(self.network.listed().buffers)
    }

    fn costs(&self) -> Vec<u32> {
        vec![1; self.rows.train.len()]
    }

    fn begin(&mut self, batches: &[Vec<usize>], seed: u64) -> Result<()> {
        let order: Vec<usize> = (batches.iter().flatten())
            .map(|row| self.rows.train[*row])
            .collect();
        // The threads of the epoch before end first.
        self.ahead = None;
        let (pages, showing, augment) = (self.pages.clone(), self.showing, self.augment);
        self.ahead = Some(Ahead::new(order.len(), move |at| {
            let mut generator = rng(seed, at as u64, "page");
            let augment = Some((&augment, &mut generator));
            Example::of(&pages.pages[order[at]], &showing, augment)
        })?);
        Ok(())
    }

    fn backward(&self, step: &Step<'_>) -> Result<Tensor> {
        let ahead = self.ahead.as_ref();
        let ahead = ahead.ok_or_else(|| anyhow::anyhow!("no epoch has begun"))?;
        let examples = step.rows.iter().map(|_| ahead.next()?);
        let examples: Vec<Example> = examples.collect::<Result<_>>()?;
        let (pictures, targets) = batch(&examples, self.showing.size, self.device)?;
        let maps = {
            let _precision = self.precision.guard(self.device)?;
            self.network.forward(&pictures, true)?
        };
        let loss = self.loss.total(&self.loss.losses(&maps, &targets)?)?;
        let loss = loss.f_mul_scalar(step.rows.len() as f64 / step.weight)?;
        loss.f_backward()?;
        Ok(loss.f_detach()?)
    }

    fn outputs(&self, test: bool, step: &mut dyn FnMut()) -> Result<Outputs> {
        let rows = match test {
            false => self.rows.validation.clone(),
            true => self.rows.test.clone(),
        };
        let (count, size) = (rows.len(), self.showing.size);
        let (pages, showing) = (self.pages.clone(), self.showing);
        let ahead = Ahead::new(count, move |at| {
            Example::of(&pages.pages[rows[at]], &showing, None)
        })?;
        let (mut scorers, mut loss, mut pixels) = (Vec::with_capacity(count), 0.0, 0);
        for from in (0..count).step_by(PASS) {
            let examples = (from..count.min(from + PASS)).map(|_| ahead.next()?);
            let examples: Vec<Example> = examples.collect::<Result<_>>()?;
            let (pictures, targets) = batch(&examples, size, self.device)?;
            let logits = self.network.logits(&pictures)?;
            let each = cross_entropy(&logits, &targets.shrunk)?.f_mul(&targets.shrunk_mask)?;
            loss += each.f_sum(Type::Double)?.f_double_value(&[])?;
            pixels += targets.counts.inside + targets.counts.outside;
            let values = flat(&logits.f_sigmoid()?)?;
            for (values, example) in values.chunks(size * size).zip(examples) {
                let map = PageMap::new((size, size), values.to_vec()).within(example.filled);
                scorers.push(PageScorer::new(map, example.truths));
            }
            step();
        }
        let loss = loss / pixels.max(1) as f64;
        let about = self.about.clone();
        Ok(Box::new(move |post| {
            let settings = about.clone().with(post).post();
            let counts: Counts = scorers.iter().map(|page| page.counts(&settings)).sum();
            let all = counts.metrics().into_iter().chain([("loss", loss)]);
            all.map(|(name, value)| (name.to_owned(), value)).collect()
        }))
    }

    fn weights(&self) -> Result<Vec<(String, Tensor)>> {
        // What is frozen, too.
        let listed = self.network.listed();
        kept(listed.parameters, listed.buffers)
    }

    fn about(&self) -> Result<Json> {
        Ok(serde_json::to_value(&self.about)?)
    }
}
