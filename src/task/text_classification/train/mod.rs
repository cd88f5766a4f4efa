//! Training on libtorch: one opened task per worker, many trials.

mod bert;
mod dropout;
mod encoder;
mod fit;
mod model;
mod optimizer;
mod prefix;
mod rows;
mod score;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

use anyhow::{Result, anyhow, ensure};
use sha2::{Digest, Sha256};

use super::checkpoint::{Checkpoint, cache_directories, locate};
use super::data::Dataset;
use super::split::{Part, Split};
use super::tokens::{Tokenised, Tokens};
use crate::config::{Objective, Problem, StudySpec};
use crate::gpu::{self, Device};
use crate::study::{derive_seed, rng};
use crate::task::{Ended, Reporter, Task, TrialSpec};
use encoder::Encoder;
use model::Model;
use prefix::PrefixCache;
use rows::{Rows, SharedRows};

pub use bert::Parameter;

/// An opened text classification.
pub struct TextTask {
    device: Device,
    objective: Objective,
    models: BTreeMap<String, PathBuf>,
    data: Rc<Dataset>,
    /// Rows of the data in the order of training: those to train on, to validate on, to test on.
    order: Vec<usize>,
    /// How many of `order` are trained on.
    train: usize,
    /// How many of `order` are not tested on: only the winner's test reads the others.
    searched: usize,
    checkpoints: BTreeMap<String, (Checkpoint, Tokenised)>,
    /// The one encoder that is kept on the device.
    encoder: Option<(String, Rc<Encoder>)>,
    /// By model, longest row and whether test rows are among them; the most recent last.
    rows: Vec<((String, usize, bool), SharedRows)>,
    cache: PrefixCache,
}

/// Token tables that are kept.
const KEPT_ROWS: usize = 4;

/// How a training ended, and what it trained.
pub struct Trained {
    /// The end.
    pub ended: Ended,
    /// Everything that was trained.
    pub parameters: Vec<Parameter>,
}

impl Trained {
    /// SHA-256 over names and values of all trained parameters.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn weights_fingerprint(&self) -> Result<String> {
        let mut hash = Sha256::new();
        for parameter in &self.parameters {
            hash.update(parameter.name.as_bytes());
            let flat = parameter.tensor.f_detach()?.f_flatten(0, -1)?;
            let values: Vec<f32> = Vec::try_from(flat.f_to_device(tch::Device::Cpu)?)?;
            for value in values {
                hash.update(value.to_le_bytes());
            }
        }
        Ok(super::hex(&hash.finalize()))
    }
}

impl TextTask {
    /// Reads data and split, and loads the model of the point of the defaults.
    ///
    /// # Errors
    /// The data or that checkpoint cannot be used.
    pub fn open(spec: &StudySpec, device: Device) -> Result<TextTask> {
        let (data, split) = super::prepare::load(spec)?;
        let (order, train, searched) = training_order(&split);
        let mut task = TextTask {
            device,
            objective: spec.objective.clone(),
            models: spec.models.clone(),
            data: Rc::new(data),
            order,
            train,
            searched,
            checkpoints: BTreeMap::new(),
            encoder: None,
            rows: Vec::new(),
            cache: PrefixCache::new(prefix::default_limit(device)),
        };
        let point = spec.effective(&spec.space.point(&Default::default()));
        let value = |key: &str| point.get(key).cloned();
        if let Some(name) = value("model.name").as_ref().and_then(|v| v.as_str()) {
            task.encoder(name)?;
            if let Some(length) = value("tok.max_length").and_then(|v| v.as_i64()) {
                task.rows(name, usize::try_from(length)?, false)?;
            }
        }
        Ok(task)
    }

    /// Limits the cache of frozen prefixes to so many bytes and empties it.
    pub fn limit_cache(&mut self, bytes: usize) {
        self.cache = PrefixCache::new(bytes);
    }

    /// Trains one trial and hands over what it trained.
    ///
    /// # Errors
    /// See [`Task::run`].
    pub fn train(&mut self, trial: &TrialSpec, reporter: &mut dyn Reporter) -> Result<Trained> {
        let settings = fit::Settings::of(trial)?;
        let name = trial.text("model.name")?;
        let encoder = self.encoder(name)?;
        let tests = trial.tests();
        let max_length = usize::try_from(trial.int("tok.max_length")?)?;
        let (rows, longest) = self.rows(name, max_length, tests)?;
        let frozen = usize::try_from(trial.int("train.freeze_encoder_layers")?)?;
        let layers = encoder.blocks.len();
        ensure!(
            frozen <= layers,
            "train.freeze_encoder_layers = {frozen}: the model {name} has {layers} layers"
        );
        let key = (name.to_owned(), longest, frozen, tests);
        let input = self.cache.get(&key, &encoder, &rows, reporter)?;
        let classes = self.data.classes.len();
        let mut generator = rng(trial.seed, 0, "classifier");
        let dropout = trial.float("model.dropout")?;
        let model = Model::new(encoder, frozen, classes, dropout, &mut generator)?;
        gpu::seed(derive_seed(trial.seed, 0, "dropout"))?;
        let material = fit::Material {
            rows: &rows,
            train: self.train,
            searched: self.searched,
            classes,
            input: &input,
        };
        let objective = fit::Objective {
            metric: &self.objective.metric,
            direction: self.objective.direction,
        };
        let ended = fit::fit(&model, &material, &settings, &objective, reporter)?;
        // Before the model goes: what activations left behind is then not kept together by it.
        gpu::empty_cache()?;
        Ok(Trained {
            ended,
            parameters: model.parameters(),
        })
    }

    /// The checkpoint and all rows' tokens of a model.
    fn checkpoint(&mut self, name: &str) -> Result<&(Checkpoint, Tokenised)> {
        if !self.checkpoints.contains_key(name) {
            let dir = locate(name, &self.models, &cache_directories()).map_err(|p| told(&[p]))?;
            let checkpoint = Checkpoint::open(name, &dir).map_err(|p| told(&p))?;
            let tokenised = Tokenised::new(&dir, &self.data.rows)?;
            let entry = (checkpoint, tokenised);
            self.checkpoints.insert(name.to_owned(), entry);
        }
        self.checkpoints
            .get(name)
            .ok_or_else(|| anyhow!("the model {name} was not loaded"))
    }

    fn encoder(&mut self, name: &str) -> Result<Rc<Encoder>> {
        if let Some((loaded, encoder)) = &self.encoder
            && loaded == name
        {
            return Ok(Rc::clone(encoder));
        }
        // Make room first.
        self.encoder = None;
        let device = self.device.into();
        let encoder = Rc::new(Encoder::load(&self.checkpoint(name)?.0, device)?);
        self.encoder = Some((name.to_owned(), Rc::clone(&encoder)));
        Ok(encoder)
    }

    /// The rows on the device, cut at `max_length`, and their longest length. Those of the test
    /// split are among them only where a test is made.
    fn rows(&mut self, name: &str, max_length: usize, tests: bool) -> Result<(SharedRows, usize)> {
        let device = self.device;
        let order = match tests {
            true => self.order.clone(),
            false => self.order[..self.searched].to_vec(),
        };
        let data = Rc::clone(&self.data);
        let longest = max_length.min(self.checkpoint(name)?.1.longest());
        let key = (name.to_owned(), longest, tests);
        if let Some(at) = self.rows.iter().position(|(k, _)| *k == key) {
            let entry = self.rows.remove(at);
            let rows = Rc::clone(&entry.1);
            self.rows.push(entry);
            return Ok((rows, longest));
        }
        let (checkpoint, tokenised) = self.checkpoint(name)?;
        let positions = checkpoint.config.max_position_embeddings;
        ensure!(
            longest <= positions,
            "tok.max_length = {max_length}: the model {name} has {positions} positions"
        );
        let vocabulary = checkpoint.config.vocab_size;
        let cut = tokenised.cut(&data.rows, longest)?;
        let tokens: Vec<&Tokens> = order.iter().map(|row| &cut[*row]).collect();
        let ids = tokens.iter().flat_map(|t| &t.ids);
        let top = ids.max().copied().unwrap_or(0);
        ensure!(
            (top as usize) < vocabulary,
            "token id {top}: the model {name} has a vocabulary of {vocabulary}"
        );
        let labels: Vec<i64> = order
            .iter()
            .map(|row| data.rows[*row].class as i64)
            .collect();
        let rows = Rc::new(Rows::new(&tokens, &labels, device.into())?);
        if self.rows.len() == KEPT_ROWS {
            self.rows.remove(0);
        }
        self.rows.push((key, Rc::clone(&rows)));
        Ok((rows, longest))
    }
}

impl Task for TextTask {
    fn run(&mut self, trial: &TrialSpec, reporter: &mut dyn Reporter) -> Result<Ended> {
        Ok(self.train(trial, reporter)?.ended)
    }
}

/// The rows by part; how many are trained on; how many are trained or validated on.
fn training_order(split: &Split) -> (Vec<usize>, usize, usize) {
    let mut order = split.rows(Part::Train);
    let train = order.len();
    order.extend(split.rows(Part::Validation));
    let searched = order.len();
    order.extend(split.rows(Part::Test));
    (order, train, searched)
}

/// Problems as one error.
fn told(problems: &[Problem]) -> anyhow::Error {
    let lines: Vec<String> = problems
        .iter()
        .map(|p| format!("{}; expected {}", p.found, p.expected))
        .collect();
    anyhow!(lines.join("\n"))
}

#[cfg(test)]
mod tests;
