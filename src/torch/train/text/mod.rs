//! Text classification: rows as tokens, pretrained encoders with a head, a loss of the classes.

pub mod embed;
mod encoder;
mod head;
mod model;
mod module;
pub mod predict;
mod prefix;
mod rows;
pub mod rungs;
mod score;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

use anyhow::{Result, anyhow, ensure};

use super::{Kind, Module, Parts, TorchTask, told};
use crate::gpu;
use ::text::checkpoint::Checkpoint;
use ::text::data::Dataset;
use ::text::tokens::{Tokenised, Tokens};
use ::training::baseline::counts_of;
use ::training::split::{Part, Split};
use config::StudySpec;
use device::Device;
use encoder::Encoder;
use head::HeadConfig;
use model::{Model, Options};
use module::TextModule;
use prefix::{PrefixCache, PrefixKey};
use rows::{Rows, SharedRows};
use search::study::rng;
use task::{Reporter, TrialSpec};

pub use embed::embed;

/// An opened text classification.
pub type TextTask = TorchTask<TextKind>;

/// Its rows, and what trials share of its models.
pub struct TextKind {
    device: Device,
    models: BTreeMap<String, PathBuf>,
    data: Rc<Dataset>,
    /// Rows of the data, those to train or validate on first, then those to test on.
    order: Vec<usize>,
    /// The place of each row of the data in `order`.
    places: Vec<usize>,
    /// How many of `order` are not tested on.
    searched: usize,
    checkpoints: BTreeMap<String, (Rc<Origin>, Tokenised)>,
    /// The one encoder that is kept on the device.
    encoder: Option<(String, Rc<Encoder>)>,
    /// The most recent last.
    rows: Vec<(RowsKey, SharedRows)>,
    cache: PrefixCache,
}

/// A checkpoint from which trainings start.
pub struct Origin {
    checkpoint: Checkpoint,
    /// Its SHA-256, once it was needed; `None`: its files cannot be read any more. What was trained is worth keeping
    /// all the same.
    fingerprint: OnceCell<Option<String>>,
}

impl Origin {
    fn fingerprint(&self) -> Option<&str> {
        let found = self
            .fingerprint
            .get_or_init(|| self.checkpoint.fingerprint().ok());
        found.as_deref()
    }
}

/// Model, longest row in tokens, tokens that neighbouring windows share, and whether test rows are
/// among the rows.
pub type RowsKey = (String, usize, usize, bool);

/// Token tables that are kept.
const KEPT_ROWS: usize = 4;

impl Kind for TextKind {
    /// Loads the model of the point of the defaults, too.
    fn open(spec: &StudySpec, device: Device) -> Result<(TextKind, Split)> {
        let (data, split) = ::text::prepare::load(spec)?;
        let (order, searched) = training_order(&split);
        let mut places = vec![0; order.len()];
        for (place, row) in order.iter().enumerate() {
            places[*row] = place;
        }
        let mut kind = TextKind {
            device,
            models: spec.models.clone(),
            data: Rc::new(data),
            order,
            places,
            searched,
            checkpoints: BTreeMap::new(),
            encoder: None,
            rows: Vec::new(),
            cache: PrefixCache::new(prefix::default_limit(device)),
        };
        let trial = TrialSpec::of_defaults(spec, 0);
        if let Ok(name) = trial.text("model.name") {
            kind.encoder(name)?;
            if let Ok(length) = trial.int("tok.max_length") {
                let stride = trial.int("tok.doc_stride").unwrap_or(0);
                kind.rows(name, length, stride, false)?;
            }
        }
        Ok((kind, split))
    }

    fn module(
        &mut self,
        trial: &TrialSpec,
        parts: &Parts,
        reporter: &mut dyn Reporter,
    ) -> Result<Box<dyn Module>> {
        let name = trial.text("model.name")?;
        let encoder = self.encoder(name)?;
        let (max_length, stride) = (trial.int("tok.max_length")?, trial.int("tok.doc_stride")?);
        let (key, rows) = self.rows(name, max_length, stride, trial.tests())?;
        let options = Options::of(trial)?;
        let (frozen, layers) = (options.frozen, encoder.blocks.len());
        ensure!(
            frozen <= layers,
            "train.freeze_encoder_layers = {frozen}: the model {name} has {layers} layers"
        );
        let classes = self.data.samples.classes.clone();
        let head = HeadConfig::of(trial, encoder.config.hidden_size, classes.len())?;
        let key = PrefixKey {
            rows: key,
            blocks: frozen,
            precision: options.precision,
            pooling: (frozen == layers && head.pooling.is_fixed()).then_some(head.pooling),
        };
        let input = self.cache.get(&key, &encoder, &rows, reporter)?;
        let mut generator = rng(trial.seed, 0, "classifier");
        let model = Model::new(encoder, options, head, &mut generator)?;
        let places = |of: &[usize]| -> Vec<usize> {
            let places: Vec<usize> = of.iter().map(|row| self.places[*row]).collect();
            rows.of_documents(&places)
        };
        let numbers = Parts {
            train: places(&parts.train),
            validation: places(&parts.validation),
            test: places(&parts.test),
        };
        let origin = module::About {
            name: name.to_owned(),
            origin: Rc::clone(&self.checkpoint(name)?.0),
            classes,
            train_rows: counts_of(&self.data.samples, &parts.train),
        };
        Ok(Box::new(TextModule::new(
            trial, model, rows, input, numbers, origin,
        )?))
    }
}

impl TextKind {
    /// Limits the cache of frozen prefixes to so many bytes and empties it.
    #[cfg(test)]
    pub fn limit_cache(&mut self, bytes: usize) {
        self.cache = PrefixCache::new(bytes);
    }

    /// The checkpoint and all rows' tokens of a model.
    fn checkpoint(&mut self, name: &str) -> Result<&(Rc<Origin>, Tokenised)> {
        if !self.checkpoints.contains_key(name) {
            let checkpoint = Checkpoint::named(name, &self.models).map_err(|p| told(&p.0))?;
            let tokenised = Tokenised::new(&checkpoint.dir, &self.data.rows)?;
            let origin = Origin {
                checkpoint,
                fingerprint: OnceCell::new(),
            };
            let entry = (Rc::new(origin), tokenised);
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
        let encoder = Rc::new(Encoder::load(&self.checkpoint(name)?.0.checkpoint, device)?);
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
        let (origin, tokenised) = self.checkpoint(name)?;
        let checkpoint = &origin.checkpoint;
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
        let classes: Vec<usize> = order.iter().map(|row| data.samples.class[*row]).collect();
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

/// The rows by part or fold, those for the test last; and how many are before these.
fn training_order(split: &Split) -> (Vec<usize>, usize) {
    let mut order = match split.folds() {
        [] => [split.rows(Part::Train), split.rows(Part::Validation)].concat(),
        folds => folds.concat(),
    };
    let searched = order.len();
    order.extend(split.rows(Part::Test));
    (order, searched)
}

#[cfg(test)]
mod tests;
