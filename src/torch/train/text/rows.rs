//! Rows on the device: token ids behind each other without padding, gathered into batches there.

use std::rc::Rc;

use anyhow::Result;
use tch::{Device, Kind, Tensor};

use super::encoder::Encoder;
use crate::train::tensors::upload;
use ::text::tokens::Tokens;

/// The rows that training reads: the windows of documents, one behind the other; most documents
/// have one.
///
/// Shapes: n rows, T tokens of all rows together.
#[derive(Debug)]
pub struct Rows {
    /// Tokens of each row.
    pub lengths: Vec<u32>,
    /// The document of each row; ascending, without gaps.
    pub documents: Vec<usize>,
    /// The class of each document.
    pub truth: Vec<usize>,
    /// `[n]`: the classes of the rows.
    pub labels: Tensor,
    /// `[T]`: token ids, 32-bit.
    ids: Tensor,
    /// `[T]`: token types, 32-bit; `None` where all are 0.
    types: Option<Tensor>,
    /// `[n]`: where a row begins.
    starts: Tensor,
    /// `[n]`: the lengths on the device.
    counts: Tensor,
}

/// Which rows a batch holds, on the device.
pub struct Batch {
    /// `[B]`: row numbers.
    pub rows: Tensor,
    /// `[B, L]`: places in the flat tensors; behind a row's end those of other tokens.
    places: Tensor,
    /// `[B, L]`: true where there is a token; `None` where no row is padded.
    mask: Option<Tensor>,
    /// `[B, 1, L]`: one over the row's length where there is a token, else 0.
    mean: Tensor,
}

impl Rows {
    /// Moves documents of one row each to the device. `classes` are those of the same documents.
    ///
    /// # Errors
    /// libtorch throws.
    #[cfg(test)]
    pub fn new(tokens: &[&Tokens], classes: &[usize], device: Device) -> Result<Rows> {
        let documents: Vec<&[Tokens]> = (tokens.iter()).map(|t| std::slice::from_ref(*t)).collect();
        Rows::of_windows(&documents, classes, device)
    }

    /// Moves the windows of documents to the device. `classes` are those of the same documents; each
    /// has a window.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn of_windows(windows: &[&[Tokens]], classes: &[usize], device: Device) -> Result<Rows> {
        let tokens: Vec<&Tokens> = windows.iter().copied().flatten().collect();
        let documents: Vec<usize> = (windows.iter().enumerate())
            .flat_map(|(document, windows)| std::iter::repeat_n(document, windows.len()))
            .collect();
        let labels: Vec<i64> = (documents.iter())
            .map(|document| classes[*document] as i64)
            .collect();
        let lengths: Vec<u32> = tokens.iter().map(|t| t.ids.len() as u32).collect();
        let counts: Vec<i64> = lengths.iter().map(|l| i64::from(*l)).collect();
        let mut starts = Vec::with_capacity(counts.len());
        let mut start = 0i64;
        for count in &counts {
            starts.push(start);
            start += count;
        }
        let flat = |of: fn(&Tokens) -> &[u32]| -> Vec<i32> {
            tokens
                .iter()
                .flat_map(|t| of(t).iter().map(|id| *id as i32))
                .collect()
        };
        let ids = flat(|t| &t.ids);
        let types = flat(|t| &t.types);
        let moved = |t: Tensor| t.f_to_device(device);
        Ok(Rows {
            labels: moved(Tensor::f_from_slice(&labels)?)?,
            ids: moved(Tensor::f_from_slice(&ids)?)?,
            types: match types.iter().any(|t| *t != 0) {
                true => Some(moved(Tensor::f_from_slice(&types)?)?),
                false => None,
            },
            starts: moved(Tensor::f_from_slice(&starts)?)?,
            counts: moved(Tensor::f_from_slice(&counts)?)?,
            lengths,
            documents,
            truth: classes.to_vec(),
        })
    }

    /// The rows of these documents, in their order.
    pub fn of_documents(&self, documents: &[usize]) -> Vec<usize> {
        let first = |document: usize| self.documents.partition_point(|d| *d < document);
        documents
            .iter()
            .flat_map(|document| first(*document)..first(document + 1))
            .collect()
    }

    /// `[n]`: what each row counts in a training on `train`, so that documents count the same
    /// however many windows they have: a window counts one over those of its document. The mean over
    /// `train` is 1. `None` where each document has one.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn shares(&self, train: &[usize]) -> Result<Option<Tensor>> {
        if self.documents.len() == self.truth.len() {
            return Ok(None);
        }
        let mut windows = vec![0u32; self.truth.len()];
        for document in &self.documents {
            windows[*document] += 1;
        }
        let share = |row: usize| 1.0 / f64::from(windows[self.documents[row]]);
        let sum: f64 = train.iter().map(|row| share(*row)).sum();
        let scale = train.len() as f64 / sum;
        let shares: Vec<f32> = (0..self.documents.len())
            .map(|row| (scale * share(row)) as f32)
            .collect();
        let shares = Tensor::f_from_slice(&shares)?;
        Ok(Some(shares.f_to_device(self.labels.device())?))
    }

    /// The class of a row.
    pub fn class(&self, row: usize) -> usize {
        self.truth[self.documents[row]]
    }

    /// Tokens of all rows.
    pub fn tokens(&self) -> usize {
        self.lengths.iter().map(|l| *l as usize).sum()
    }

    /// Batches of these rows, uploaded at once.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn upload(&self, batches: &[Vec<usize>]) -> Result<Vec<Tensor>> {
        upload(batches, self.labels.device())
    }

    /// The batch of `rows`, which are `on_device` too.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn batch(&self, rows: &[usize], on_device: &Tensor) -> Result<Batch> {
        let lengths = || rows.iter().map(|r| self.lengths[*r]);
        let longest = lengths().max().unwrap_or(0);
        let padded = lengths().any(|l| l != longest);
        let range = Tensor::f_arange(i64::from(longest), (Kind::Int64, self.labels.device()))?;
        let starts = self.starts.f_index_select(0, on_device)?;
        let counts = self.counts.f_index_select(0, on_device)?.f_unsqueeze(1)?;
        let places = starts
            .f_unsqueeze(1)?
            .f_add(&range)?
            .f_clamp_max(self.tokens_on_device() - 1)?;
        let inside = range.f_unsqueeze(0)?.f_lt_tensor(&counts)?;
        let mean = inside.f_to_kind(Kind::Float)?.f_div(&counts)?;
        Ok(Batch {
            rows: on_device.shallow_clone(),
            places,
            mask: padded.then_some(inside),
            mean: mean.f_unsqueeze(1)?,
        })
    }

    fn tokens_on_device(&self) -> i64 {
        self.ids.size()[0]
    }

    /// A batch's hidden states behind the first `blocks` blocks, from its token ids: `[B, L, H]`,
    /// without gradients.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn encode(&self, encoder: &Encoder, batch: &Batch, blocks: usize) -> Result<Tensor> {
        let (ids, types) = self.ids(batch, encoder.config.pad_token_id as i64)?;
        encoder.prefix(&ids, types.as_ref(), batch.attention()?.as_ref(), blocks)
    }

    /// A batch's token ids and types, each `[B, L]`.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn ids(&self, batch: &Batch, pad: i64) -> Result<(Tensor, Option<Tensor>)> {
        let outside = match &batch.mask {
            Some(mask) => Some(mask.f_logical_not()?),
            None => None,
        };
        let gather = |flat: &Tensor, fill: i64| -> Result<Tensor> {
            let taken = flat.f_take(&batch.places)?;
            Ok(match &outside {
                Some(outside) => taken.f_masked_fill(outside, fill)?,
                None => taken,
            })
        };
        let ids = gather(&self.ids, pad)?;
        let types = match &self.types {
            Some(types) => Some(gather(types, 0)?),
            None => None,
        };
        Ok((ids, types))
    }
}

impl Batch {
    /// The mask as attention takes it: `[B, 1, 1, L]`.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn attention(&self) -> Result<Option<Tensor>> {
        Ok(match &self.mask {
            Some(mask) => Some(mask.f_unsqueeze(1)?.f_unsqueeze(1)?),
            None => None,
        })
    }

    /// Where there is no token: `[B, L]`; `None` where no row is padded.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn padding(&self) -> Result<Option<Tensor>> {
        Ok(match &self.mask {
            Some(mask) => Some(mask.f_logical_not()?),
            None => None,
        })
    }

    /// Tokens of the longest row.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn length(&self) -> Result<i64> {
        Ok(self.places.size2()?.1)
    }

    /// The mean over each row's tokens: `[B, L, H]` to `[B, H]`.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn pool(&self, x: &Tensor) -> Result<Tensor> {
        Ok(self.mean.f_bmm(x)?.f_squeeze_dim(1)?)
    }

    /// The batch's rows of a flat `[T, H]`: `[B, L, H]`; behind a row's end stand other tokens'
    /// values, which the masks leave out.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn gather(&self, flat: &Tensor) -> Result<Tensor> {
        let (rows, length) = self.places.size2()?;
        Ok(flat
            .f_index_select(0, &self.places.f_flatten(0, 1)?)?
            .f_view([rows, length, -1])?)
    }

    /// Writes `x [B, L, H]` to the batch's places of a flat `[T, H]`.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn scatter(&self, x: &Tensor, flat: &mut Tensor) -> Result<()> {
        let (mut places, mut values) = (self.places.f_flatten(0, 1)?, x.f_flatten(0, 1)?);
        if let Some(mask) = &self.mask {
            let inside = mask.f_flatten(0, 1)?.f_nonzero()?.f_squeeze_dim(1)?;
            places = places.f_index_select(0, &inside)?;
            values = values.f_index_select(0, &inside)?;
        }
        let _ = flat.f_index_copy_(0, &places, &values)?;
        Ok(())
    }
}

/// Rows that trials share.
pub type SharedRows = Rc<Rows>;
