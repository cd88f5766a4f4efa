//! Scores a model on a part of the rows.

use anyhow::Result;
use tch::Tensor;

use super::model::Model;
use super::prefix::{Input, fixed_batches};
use super::rows::Rows;
use ::training::scores::Answers;

/// The rows of a part that is scored, in fixed batches.
pub struct Scored {
    batches: Vec<Vec<usize>>,
    on_device: Vec<Tensor>,
    /// The document of each row, in the order of the batches; numbered within the part.
    documents: Vec<usize>,
    /// The class of each of these documents.
    truth: Vec<usize>,
}

impl Scored {
    /// The rows `part` of all; of a document either all rows or none.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn new(model: &Model, rows: &Rows, part: &[usize]) -> Result<Scored> {
        let lengths: Vec<u32> = part.iter().map(|row| rows.lengths[*row]).collect();
        let batches = fixed_batches(&lengths, rows.labels.device(), model.config());
        let batches: Vec<Vec<usize>> = batches
            .into_iter()
            .map(|batch| batch.into_iter().map(|r| part[r]).collect())
            .collect();
        let mut all: Vec<usize> = part.iter().map(|row| rows.documents[*row]).collect();
        all.sort_unstable();
        all.dedup();
        let place = |row: &usize| all.partition_point(|d| *d < rows.documents[*row]);
        Ok(Scored {
            documents: batches.iter().flatten().map(place).collect(),
            truth: all.iter().map(|document| rows.truth[*document]).collect(),
            on_device: rows.upload(&batches)?,
            batches,
        })
    }

    /// The answers to the documents; the logits are collected on the device and fetched once.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn answers(
        &self,
        model: &Model,
        (rows, input): (&Rows, &Input),
        classes: usize,
        step: &mut dyn FnMut(),
    ) -> Result<Answers> {
        let batches = (self.batches.as_slice(), self.on_device.as_slice());
        let logits = model.all_logits(rows, batches, input, &mut |_| step())?;
        Ok(Answers::new(
            classes,
            &logits,
            &self.documents,
            self.truth.clone(),
        ))
    }
}
