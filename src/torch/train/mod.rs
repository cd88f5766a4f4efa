//! Training on libtorch: one opened task per worker, many trials.

pub mod answer;
mod dropout;
pub mod embed;
mod encoder;
mod fit;
mod folds;
mod head;
mod loss;
mod model;
mod optimizer;
pub mod predict;
mod prefix;
mod rows;
pub mod rungs;
mod score;
mod tensors;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::rc::Rc;

use anyhow::{Result, anyhow, ensure};
use serde_json::{Map, Value as Json};
use sha2::{Digest, Sha256};

use crate::gpu;
use config::{Objective, Problem, StudySpec};
use device::Device;
use encoder::Encoder;
use model::{Model, Options};
use prefix::{PrefixCache, PrefixKey};
use rows::{Rows, SharedRows};
use search::space::Params;
use search::study::{Purpose, rng};
use task::{Decision, Ended, Metrics, Reporter, Task, TrialSpec};
use text::baseline::counts_of;
use text::checkpoint::Checkpoint;
use text::data::Dataset;
use text::split::{Part, Round, Split};
use text::tokens::{Tokenised, Tokens};

pub use embed::embed;
pub use encoder::Parameter;
pub use head::{HeadConfig, Nonlinearity, Pooling};

/// An opened text classification.
pub struct TextTask {
    device: Device,
    objective: Objective,
    models: BTreeMap<String, PathBuf>,
    /// Everything that a trial at the point of the defaults reads.
    defaults: Params,
    data: Rc<Dataset>,
    /// Rows of the data, those to train or validate on first, then those to test on.
    order: Vec<usize>,
    /// How many of `order` are not tested on: only the winner's test reads the others.
    searched: usize,
    /// What a trial trains, model by model; the numbers are places in `order`.
    rounds: Vec<Round>,
    checkpoints: BTreeMap<String, (Checkpoint, Tokenised)>,
    /// SHA-256 of models, once they were needed; `None`: their files cannot be read any more.
    fingerprints: RefCell<BTreeMap<String, Option<String>>>,
    /// The one encoder that is kept on the device.
    encoder: Option<(String, Rc<Encoder>)>,
    /// The most recent last.
    rows: Vec<(RowsKey, SharedRows)>,
    cache: PrefixCache,
}

/// Model, longest row in tokens, tokens that neighbouring windows share, and whether test rows are
/// among the rows.
pub type RowsKey = (String, usize, usize, bool);

/// Token tables that are kept.
const KEPT_ROWS: usize = 4;

/// How a training ended, and what it trained.
pub struct Trained {
    /// The end.
    pub ended: Ended,
    /// Everything that was trained.
    pub parameters: Vec<Parameter>,
    /// What the head among it is; `None` where nothing was trained.
    pub head: Option<HeadConfig>,
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
        Ok(text::hex(&hash.finalize()))
    }
}

impl TextTask {
    /// Reads data and split, and loads the model of the point of the defaults.
    ///
    /// # Errors
    /// The data or that checkpoint cannot be used.
    pub fn open(spec: &StudySpec, device: Device) -> Result<TextTask> {
        let (data, split) = text::prepare::load(spec)?;
        let (order, searched, rounds) = training_order(&split);
        let mut task = TextTask {
            device,
            objective: spec.objective.clone(),
            models: spec.models.clone(),
            defaults: spec.effective(&spec.space.point(&Default::default())),
            data: Rc::new(data),
            order,
            searched,
            rounds,
            checkpoints: BTreeMap::new(),
            fingerprints: RefCell::default(),
            encoder: None,
            rows: Vec::new(),
            cache: PrefixCache::new(prefix::default_limit(device)),
        };
        let trial = task.default_trial();
        if let Ok(name) = trial.text("model.name") {
            task.encoder(name)?;
            if let Ok(length) = trial.int("tok.max_length") {
                let stride = trial.int("tok.doc_stride").unwrap_or(0);
                task.rows(name, length, stride, false)?;
            }
        }
        Ok(task)
    }

    /// One training step at the point of the defaults; what stays is what trials share.
    fn rehearse_defaults(&mut self) -> Result<()> {
        let trial = self.default_trial();
        self.train(&trial, &mut Unheard).map(|_| ())
    }

    /// That step, as a trial.
    fn default_trial(&self) -> TrialSpec {
        TrialSpec {
            number: 0,
            purpose: Purpose::Search,
            attempt: 0,
            seed: 0,
            params: Params::new(),
            config: self.defaults.clone(),
            halvings: 0,
            rehearse: Some(1),
            rows: None,
        }
    }

    /// Limits the cache of frozen prefixes to so many bytes and empties it.
    pub fn limit_cache(&mut self, bytes: usize) {
        self.cache = PrefixCache::new(bytes);
    }

    /// Trains one trial and hands over what it trained; with folds, the last one's model.
    ///
    /// # Errors
    /// See [`Task::run`].
    pub fn train(&mut self, trial: &TrialSpec, reporter: &mut dyn Reporter) -> Result<Trained> {
        match self.rounds.len() {
            1 => self.train_round(trial, 0, reporter),
            _ => folds::train(self, trial, reporter),
        }
    }

    /// Trains one model, on one of the rounds.
    fn train_round(
        &mut self,
        trial: &TrialSpec,
        round: usize,
        reporter: &mut dyn Reporter,
    ) -> Result<Trained> {
        let settings = fit::FitSettings::of(trial)?;
        let from = match trial.rehearse {
            None => reporter.resume()?,
            Some(_) => None,
        };
        let name = trial.text("model.name")?;
        let encoder = self.encoder(name)?;
        let tests = trial.tests();
        let (max_length, stride) = (trial.int("tok.max_length")?, trial.int("tok.doc_stride")?);
        let (key, rows) = self.rows(name, max_length, stride, tests)?;
        let options = Options::of(trial)?;
        let (frozen, layers) = (options.frozen, encoder.blocks.len());
        ensure!(
            frozen <= layers,
            "train.freeze_encoder_layers = {frozen}: the model {name} has {layers} layers"
        );
        let classes = self.data.classes.len();
        let head = HeadConfig::of(trial, encoder.config.hidden_size, classes)?;
        let key = PrefixKey {
            rows: key,
            blocks: frozen,
            precision: options.precision,
            pooling: (frozen == layers && head.pooling.is_fixed()).then_some(head.pooling),
        };
        let input = self.cache.get(&key, &encoder, &rows, reporter)?;
        let mut generator = rng(trial.seed, 0, "classifier");
        let model = Model::new(encoder, options, head, &mut generator)?;
        let Round { train, validation } = &self.rounds[round];
        let test: Vec<usize> = (self.searched..rows.truth.len()).collect();
        let train = rows.of_documents(&self.chosen(train, trial.rows.as_deref())?);
        let material = fit::Material {
            rows: &rows,
            validation: &rows.of_documents(validation),
            test: &rows.of_documents(&test),
            shares: rows.shares(&train)?,
            train: &train,
            classes,
            input: &input,
        };
        let about = || self.about(name, model.head(), round);
        let resumed = (from, &about as &fit::About<'_>);
        let ended = fit::fit(
            &model,
            &material,
            &settings,
            &self.objective,
            resumed,
            reporter,
        )?;
        // Before the model goes: what activations left behind is then not kept together by it.
        gpu::empty_cache()?;
        Ok(Trained {
            ended,
            parameters: model.parameters()?,
            head: Some(model.head().clone()),
        })
    }

    /// Those of the places `train` whose rows are among `only`; all where nothing is said.
    fn chosen(&self, train: &[usize], only: Option<&[usize]>) -> Result<Vec<usize>> {
        let Some(only) = only else {
            return Ok(train.to_vec());
        };
        let only: BTreeSet<usize> = only.iter().copied().collect();
        let among = |place: &usize| only.contains(&self.order[*place]);
        let chosen: Vec<usize> = train.iter().copied().filter(among).collect();
        ensure!(!chosen.is_empty(), "none of these rows is trained on");
        Ok(chosen)
    }

    /// What is kept beside a trial's weights.
    fn about(&self, name: &str, head: &HeadConfig, round: usize) -> Result<Map<String, Json>> {
        let mut known = self.fingerprints.borrow_mut();
        if !known.contains_key(name) {
            // Its files may be gone by now: what was trained is worth keeping all the same.
            let checkpoint = self.checkpoints.get(name).map(|(checkpoint, _)| checkpoint);
            let fingerprint = checkpoint.and_then(|c| c.fingerprint().ok());
            known.insert(name.to_owned(), fingerprint);
        }
        let fingerprint = known.get(name).cloned().flatten();
        let places = self.rounds[round].train.iter();
        let train: Vec<usize> = places.map(|place| self.order[*place]).collect();
        Ok(Map::from_iter([
            ("labels".to_owned(), self.data.classes.clone().into()),
            (
                "train_rows".to_owned(),
                counts_of(&self.data, &train).into(),
            ),
            ("model".to_owned(), name.into()),
            ("model_fingerprint".to_owned(), fingerprint.into()),
            ("head".to_owned(), serde_json::to_value(head)?),
        ]))
    }

    /// The checkpoint and all rows' tokens of a model.
    fn checkpoint(&mut self, name: &str) -> Result<&(Checkpoint, Tokenised)> {
        if !self.checkpoints.contains_key(name) {
            let checkpoint = Checkpoint::named(name, &self.models).map_err(|p| told(&p.0))?;
            let tokenised = Tokenised::new(&checkpoint.dir, &self.data.rows)?;
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
        let device = gpu::tch_device(self.device);
        let encoder = Rc::new(Encoder::load(&self.checkpoint(name)?.0, device)?);
        self.encoder = Some((name.to_owned(), Rc::clone(&encoder)));
        Ok(encoder)
    }

    /// The rows on the device, cut at `max_length` or in windows of so many tokens, and what they
    /// are known by. Those of the test split are among them only where a test is made.
    fn rows(
        &mut self,
        name: &str,
        max_length: usize,
        stride: usize,
        tests: bool,
    ) -> Result<(RowsKey, SharedRows)> {
        let device = self.device;
        let order = match tests {
            true => self.order.clone(),
            false => self.order[..self.searched].to_vec(),
        };
        let data = Rc::clone(&self.data);
        let whole = self.checkpoint(name)?.1.longest();
        let longest = max_length.min(whole);
        // Where nothing is longer, there are no windows.
        let stride = if whole > longest { stride } else { 0 };
        let key = (name.to_owned(), longest, stride, tests);
        if let Some(at) = self.rows.iter().position(|(k, _)| *k == key) {
            let entry = self.rows.remove(at);
            let rows = Rc::clone(&entry.1);
            self.rows.push(entry);
            return Ok((key, rows));
        }
        let (checkpoint, tokenised) = self.checkpoint(name)?;
        if let Some(limit) = checkpoint.config.max_tokens() {
            ensure!(
                longest <= limit,
                "tok.max_length = {max_length}: the model {name} reads {limit} tokens"
            );
        }
        let vocabulary = checkpoint.config.vocab_size;
        let windows = tokenised.windows(&data.rows, longest, stride)?;
        let windows: Vec<&[Tokens]> = order.iter().map(|row| windows[*row].as_slice()).collect();
        let ids = windows.iter().copied().flatten().flat_map(|t| &t.ids);
        let top = ids.max().copied().unwrap_or(0);
        ensure!(
            (top as usize) < vocabulary,
            "token id {top}: the model {name} has a vocabulary of {vocabulary}"
        );
        let classes: Vec<usize> = order.iter().map(|row| data.rows[*row].class).collect();
        let rows = Rc::new(Rows::of_windows(
            &windows,
            &classes,
            gpu::tch_device(device),
        )?);
        if self.rows.len() == KEPT_ROWS {
            self.rows.remove(0);
        }
        self.rows.push((key.clone(), Rc::clone(&rows)));
        Ok((key, rows))
    }
}

impl Task for TextTask {
    fn run(&mut self, trial: &TrialSpec, reporter: &mut dyn Reporter) -> Result<Ended> {
        Ok(self.train(trial, reporter)?.ended)
    }

    fn warm_up(&mut self) -> Result<()> {
        match self.device {
            // Nothing is loaded at first use there, and a step takes cores from the trials that run.
            Device::Cpu => Ok(()),
            Device::Cuda(_) => self.rehearse_defaults(),
        }
    }
}

/// Nobody listens.
struct Unheard;

impl Reporter for Unheard {
    fn step(&mut self) {}

    fn epoch(&mut self, _: u32, _: &Metrics) -> Result<Decision> {
        Ok(Decision::Continue)
    }
}

/// The rows by part or fold, those for the test last; how many are before these; and the rounds by
/// their places.
fn training_order(split: &Split) -> (Vec<usize>, usize, Vec<Round>) {
    let mut order = match split.folds() {
        [] => [split.rows(Part::Train), split.rows(Part::Validation)].concat(),
        folds => folds.concat(),
    };
    let searched = order.len();
    let place: HashMap<usize, usize> = (order.iter().enumerate())
        .map(|(place, row)| (*row, place))
        .collect();
    let places = |rows: Vec<usize>| -> Vec<usize> {
        rows.iter()
            .filter_map(|row| place.get(row).copied())
            .collect()
    };
    let rounds = split.rounds().into_iter().map(|round| Round {
        train: places(round.train),
        validation: places(round.validation),
    });
    let rounds = rounds.collect();
    order.extend(split.rows(Part::Test));
    (order, searched, rounds)
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
