//! Scores a model on a part of the rows.

use std::ops::Range;

use anyhow::Result;
use tch::{Kind, Reduction, Tensor};

use super::fit::Material;
use super::model::Model;
use super::prefix::fixed_batch_tokens;
use crate::task::text_classification::batches::by_length;
use crate::task::text_classification::scores::Confusion;
use crate::task::{Metrics, Reporter};

/// Cross entropy of logits `[B, classes]` and classes `[B]`.
///
/// # Errors
/// libtorch throws.
pub fn cross_entropy(logits: &Tensor, labels: &Tensor, reduction: Reduction) -> Result<Tensor> {
    Ok(logits.f_cross_entropy_loss(labels, None::<Tensor>, reduction, -100, 0.0)?)
}

/// The rows of a part that is scored, in fixed batches.
pub struct Scored {
    /// How many.
    rows: usize,
    batches: Vec<Vec<usize>>,
    on_device: Vec<Tensor>,
}

impl Scored {
    /// The rows `part` of all.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn new(material: &Material<'_>, part: Range<usize>) -> Result<Scored> {
        let lengths = &material.rows.lengths[part.clone()];
        let tokens = fixed_batch_tokens(material.rows.labels.device());
        let batches: Vec<Vec<usize>> = by_length(lengths, tokens)
            .into_iter()
            .map(|batch| batch.into_iter().map(|r| r + part.start).collect())
            .collect();
        let on_device = material.rows.upload(&batches)?;
        Ok(Scored {
            batches,
            on_device,
            rows: part.len(),
        })
    }

    /// All metrics; the counts are taken on the device and fetched once.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn score(
        &self,
        model: &Model,
        material: &Material<'_>,
        reporter: &mut dyn Reporter,
    ) -> Result<Metrics> {
        let _no_grad = tch::no_grad_guard();
        let rows = material.rows;
        let classes = material.classes as i64;
        let on = |kind| (kind, rows.labels.device());
        let mut counts = Tensor::f_zeros([classes, classes], on(Kind::Double))?;
        let mut loss = Tensor::f_zeros([1], on(Kind::Double))?;
        for (numbers, on_device) in self.batches.iter().zip(&self.on_device) {
            let batch = rows.batch(numbers, on_device)?;
            let logits = model.logits(rows, &batch, material.input)?;
            let labels = rows.labels.f_index_select(0, on_device)?;
            let one_hot = |t: &Tensor| -> Result<Tensor> {
                let range = Tensor::f_arange(classes, on(Kind::Int64))?;
                Ok(t.f_unsqueeze(1)?
                    .f_eq_tensor(&range)?
                    .f_to_kind(Kind::Double)?)
            };
            let predicted = one_hot(&logits.f_argmax(1, false)?)?;
            counts = counts.f_add(&one_hot(&labels)?.f_transpose(0, 1)?.f_matmul(&predicted)?)?;
            let sum = cross_entropy(&logits, &labels, Reduction::Sum)?;
            loss = loss.f_add(&sum.f_to_kind(Kind::Double)?)?;
            reporter.step();
        }
        let fetched = Tensor::f_cat(&[counts.f_flatten(0, 1)?, loss], 0)?;
        let mut numbers: Vec<f64> = Vec::try_from(fetched)?;
        let loss = numbers.pop().unwrap_or(f64::NAN);
        let confusion = Confusion::new(material.classes, numbers);
        Ok(confusion.metrics(loss / self.rows.max(1) as f64))
    }
}
