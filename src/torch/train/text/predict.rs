//! A trained model that answers rows: the encoder and the head of an exported directory.

use std::rc::Rc;

use anyhow::{Context, Result, ensure};
use tch::Tensor;

use super::encoder::Encoder;
use super::head::Head;
use super::model::Model;
use super::prefix::{Input, fixed_batches};
use super::rows::Rows;
use crate::gpu;
use crate::train::answer::{self, NoAnswer};
use crate::train::layers::Linear;
use crate::train::precision::Precision;
use ::request::evaluation::Answered;
use ::request::predict::Record;
use ::text::data::Row;
use ::text::export::{Description, Exported, HEAD_FILE, Layer};
use ::text::tokens::{Tokenised, Tokens};
use ::training::batches::by_length;
use ::training::scores::Answers;
use device::Device;

/// A model on its device.
pub struct Predictor {
    model: Model,
    tokenised: Tokenised,
    about: Description,
    /// The column of the texts that it is given.
    column: String,
    /// Token ids are below this.
    vocabulary: usize,
    /// Token types are below this, where they are read.
    types: Option<usize>,
    device: tch::Device,
    batch_size: Option<usize>,
}

impl Predictor {
    /// Loads the model of a directory. `batch_size`: rows that are computed at a time; `None`: as many
    /// as in the scoring of trials.
    ///
    /// # Errors
    /// The files have changed since they were checked, rows have no room beside their special tokens, or weights are misshapen, NaN or infinite.
    pub fn open(
        exported: &Exported,
        device: Device,
        batch_size: Option<usize>,
    ) -> Result<Predictor> {
        let (checkpoint, about) = (&exported.checkpoint, &exported.description);
        let torch = gpu::tch_device(device);
        let encoder = Encoder::load(checkpoint, torch)?;
        let head = read_head(exported, torch)?;
        let precision: Precision = serde_json::from_value(about.precision.as_str().into())?;
        let tokenised = Tokenised::new(&checkpoint.dir, &[])?;
        let special = tokenised.special_tokens(about.columns.text_pair.is_some());
        ensure!(
            about.max_length > special,
            "{}: max_length: {}; expected more than {special}, the special tokens of a row",
            checkpoint.dir.join(HEAD_FILE).display(),
            about.max_length
        );
        Ok(Predictor {
            vocabulary: checkpoint.config.vocab_size,
            types: checkpoint.config.token_types(),
            model: Model::fixed(Rc::new(encoder), precision, head),
            tokenised,
            about: about.clone(),
            column: about.columns.text.clone(),
            device: torch,
            batch_size,
        })
    }

    /// The same for rows whose texts are in this column; `None`: in that of the training.
    pub fn of_column(mut self, column: Option<&str>) -> Predictor {
        if let Some(column) = column {
            column.clone_into(&mut self.column);
        }
        self
    }

    /// The answers to these rows, with their classes; `step` is called with the rows that each batch begins.
    ///
    /// # Errors
    /// A row cannot be encoded, libtorch throws; or [`NoAnswer`]: a logit is not finite, a token beyond the vocabulary.
    pub fn answer(&mut self, records: &[Record], step: &mut dyn FnMut(usize)) -> Result<Answers> {
        let rows: Vec<Row> = records.iter().map(|record| record.row.clone()).collect();
        self.tokenised.replace(&rows)?;
        let (length, stride) = (self.about.max_length, self.about.doc_stride);
        let windows = self.tokenised.windows(&rows, length, stride)?;
        for (row, windows) in records.iter().zip(&windows) {
            windows.iter().try_for_each(|w| self.check(row, w))?;
        }
        let windows: Vec<&[Tokens]> = windows.iter().map(Vec::as_slice).collect();
        let on_device = Rows::of_windows(&windows, &vec![0; rows.len()], self.device)?;
        let lengths = &on_device.lengths;
        let batches = match self.batch_size {
            None => fixed_batches(lengths, self.device, self.model.config()),
            Some(size) => {
                let all: Vec<usize> = by_length(lengths, 0).concat();
                all.chunks(size.max(1)).map(<[usize]>::to_vec).collect()
            }
        };
        let uploaded = on_device.upload(&batches)?;
        let first =
            |row: &usize| *row == 0 || on_device.documents[row - 1] != on_device.documents[*row];
        let logits = self.model.all_logits(
            &on_device,
            (&batches, &uploaded),
            &Input::Tokens,
            &mut |numbers| step(numbers.iter().filter(|row| first(row)).count()),
        )?;
        let documents: Vec<usize> = (batches.iter().flatten())
            .map(|row| on_device.documents[*row])
            .collect();
        let classes = self.about.labels.len();
        if let Some(at) = logits.iter().position(|l| !l.is_finite()) {
            let expected = "a text such as those that it was trained on";
            return Err(self.no_answer(
                &records[documents[at / classes]],
                "a text of which the model makes no finite number".to_owned(),
                expected.to_owned(),
            ));
        }
        let truth = records.iter().map(|record| record.class).collect();
        let answers = Answers::new(classes, &logits, &documents, truth);
        Ok(answers.from_threshold(self.about.threshold))
    }

    /// Ids must be rows of the embedding tables.
    fn check(&self, row: &Record, tokens: &Tokens) -> Result<()> {
        let top = |ids: &[u32]| ids.iter().max().copied().unwrap_or(0) as usize;
        let (id, kind) = (top(&tokens.ids), top(&tokens.types));
        if id < self.vocabulary && self.types.is_none_or(|types| kind < types) {
            return Ok(());
        }
        let types = self.types.map(|types| format!(" and types below {types}"));
        let (below, types) = (self.vocabulary, types.unwrap_or_default());
        let expected = format!("ids below {below}{types}, as the model has them");
        Err(self.no_answer(row, format!("token id {id}, type {kind}"), expected))
    }

    /// A text that the model cannot answer.
    fn no_answer(&self, row: &Record, found: String, expected: String) -> anyhow::Error {
        let row = NoAnswer {
            line: row.line,
            column: self.column.clone(),
            found,
            expected,
        };
        row.into()
    }
}

impl answer::Predictor for Predictor {
    fn answer(&mut self, rows: &[Record], step: &mut dyn FnMut(usize)) -> Result<Answered> {
        Ok(Answered::Classes(self.answer(rows, step)?))
    }
}

/// Reads the head's weights.
fn read_head(exported: &Exported, device: tch::Device) -> Result<Head> {
    let (about, file) = (&exported.description, &exported.checkpoint.weights.file);
    let reader = std::cell::RefCell::new(exported.checkpoint.weights.reader());
    let read = |name: &str, shape: &[usize]| -> Result<Tensor> {
        let raw = (reader.borrow_mut().read(name))
            .with_context(|| format!("{}: the head's {name}", file.display()))?;
        ensure!(
            raw.shape == shape,
            "{}: {name} has the shape {:?}, head.json asks for {shape:?}",
            file.display(),
            raw.shape
        );
        Ok(crate::train::tensors::convert(&raw, name)?.f_to_device(device)?)
    };
    let sizes = about.head.sizes();
    let layer = |at: usize| -> Result<Linear> {
        let Layer { name, scale } = &about.weights.layers[at];
        let (input, out) = sizes[at];
        Ok(Linear {
            weight: read(&format!("{name}.weight"), &[out, input])?.f_mul_scalar(*scale)?,
            bias: read(&format!("{name}.bias"), &[out])?,
        })
    };
    let query = || {
        let name = about.weights.query.as_deref().context("weights.query")?;
        read(name, &[about.head.input])
    };
    Head::of(about.head.clone(), &layer, &query)
}
