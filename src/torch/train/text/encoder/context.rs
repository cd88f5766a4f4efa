//! What the layers of one pass share: where tokens are, and how far they are from each other.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use anyhow::Result;
use tch::{Device, Kind, Tensor};

use crate::train::layers::{Map, Norm};
use ::text::checkpoint::{EncoderConfig, Relative};

/// Shared by the embeddings and all blocks of a pass. B rows, L tokens.
#[derive(Debug)]
pub struct Context {
    /// `[B, 1, 1, L]`, true where there is a token; `None` where no row is padded.
    pub mask: Option<Tensor>,
    /// `[R, H]`: the rows of DeBERTa's table of positions that a row of L tokens needs, normed. The
    /// one tensor here that carries gradients.
    pub positions: Option<Tensor>,
    /// `[B, L, L]`, true where query or key is padding; DeBERTa alone.
    pub(super) outside: Option<Tensor>,
    /// Which row of `positions` belongs to a pair of tokens.
    pub(super) distances: Option<Rc<Distances>>,
}

/// For each distance of two tokens the row of the table that stands for it.
#[derive(Debug)]
pub struct Distances {
    /// First row of the table that is needed.
    pub first: i64,
    /// Rows that are needed.
    pub rows: i64,
    /// `[2 L]`, counted from `first`: at e + L - 1 the row for a query that is e tokens before its
    /// key (e from 1 - L on). The last one only makes their number even, which matrix kernels like.
    pub to_key: Tensor,
    /// `[2 L]`: at e + L - 1 the row for a query that is e tokens behind its key.
    pub to_query: Tensor,
}

/// DeBERTa's table of positions, which all blocks share; it is trained with the embeddings.
#[derive(Debug)]
pub struct PositionTable {
    /// `[2 span, H]`.
    pub table: Tensor,
    /// Over the rows of the table.
    pub norm: Option<Norm>,
    /// By L. The table's owner and its copies share it: a length is worked out once.
    known: Rc<RefCell<HashMap<i64, Rc<Distances>>>>,
}

impl Context {
    /// A pass over L tokens whose layers share nothing but the mask.
    pub fn new(mask: Option<&Tensor>) -> Context {
        Context {
            mask: mask.map(Tensor::shallow_clone),
            positions: None,
            outside: None,
            distances: None,
        }
    }

    /// A pass of DeBERTa.
    ///
    /// # Errors
    /// libtorch throws.
    pub(super) fn disentangled(
        mask: Option<&Tensor>,
        length: i64,
        table: Option<&PositionTable>,
        config: &EncoderConfig,
    ) -> Result<Context> {
        let mut context = Context::new(mask);
        if let Some(mask) = mask {
            // A query of padding sees nothing: all its scores become equal.
            let keys = mask.f_squeeze_dim(1)?;
            let both = keys.f_logical_and(&keys.f_transpose(1, 2)?)?;
            context.outside = Some(both.f_logical_not()?);
        }
        if let (Some(table), Some(relative)) = (table, config.relative()) {
            let distances = table.distances(length, relative)?;
            let rows = table.table.f_narrow(0, distances.first, distances.rows)?;
            context.positions = Some(match &table.norm {
                Some(norm) => norm.forward(&rows, config.layer_norm_eps)?,
                None => rows,
            });
            context.distances = Some(distances);
        }
        Ok(context)
    }
}

impl PositionTable {
    /// A table as a checkpoint has it.
    pub fn new(table: Tensor, norm: Option<Norm>) -> PositionTable {
        PositionTable {
            table,
            norm,
            known: Rc::default(),
        }
    }

    /// The same with each tensor passed through `f`.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn map(&self, f: &mut Map) -> Result<PositionTable> {
        let norm = self.norm.as_ref();
        Ok(PositionTable {
            table: f(
                "encoder.rel_embeddings.weight".to_owned(),
                &self.table,
                true,
            )?,
            norm: norm.map(|n| n.map("encoder.LayerNorm", f)).transpose()?,
            known: Rc::clone(&self.known),
        })
    }

    fn distances(&self, length: i64, relative: &Relative) -> Result<Rc<Distances>> {
        if let Some(known) = self.known.borrow().get(&length) {
            return Ok(Rc::clone(known));
        }
        let made = Rc::new(Distances::new(length, relative, self.table.device())?);
        self.known.borrow_mut().insert(length, Rc::clone(&made));
        Ok(made)
    }
}

impl Distances {
    /// For rows of `length` tokens.
    ///
    /// # Errors
    /// libtorch throws.
    fn new(length: i64, relative: &Relative, device: Device) -> Result<Distances> {
        let span = relative.span() as i64;
        let steps = Tensor::f_arange_start(1 - length, length + 1, (Kind::Int64, Device::Cpu))?;
        let buckets = match relative.buckets {
            Some(buckets) => bucket(&steps, buckets as i64, relative.furthest as i64)?,
            None => steps,
        };
        let row = |buckets: &Tensor| -> Result<Tensor> {
            Ok(buckets.f_add_scalar(span)?.f_clamp(0, 2 * span - 1)?)
        };
        // Buckets are odd functions of the distance.
        let (behind, before) = (row(&buckets)?, row(&buckets.f_neg()?)?);
        let all = Tensor::f_cat(&[&behind, &before], 0)?;
        let (first, last) = (
            all.f_min()?.f_int64_value(&[])?,
            all.f_max()?.f_int64_value(&[])?,
        );
        let place =
            |rows: Tensor| -> Result<Tensor> { Ok(rows.f_sub_scalar(first)?.f_to_device(device)?) };
        Ok(Distances {
            first,
            rows: last - first + 1,
            to_key: place(before)?,
            to_query: place(behind)?,
        })
    }
}

/// The bucket of each distance: itself up to half the number of buckets, by its logarithm from there to
/// `furthest`. In libtorch's 32-bit floats, because a rounding decides at the edges of the buckets.
fn bucket(distances: &Tensor, buckets: i64, furthest: i64) -> Result<Tensor> {
    let half = buckets / 2;
    let size = distances.f_abs()?;
    // Zero would have no logarithm.
    let far = size.f_clamp_min((half - 1).max(1))?;
    let reach = Tensor::f_from_slice(&[((furthest - 1) as f64 / half as f64) as f32])?.f_log()?;
    let steps = far
        .f_div_scalar(half)?
        .f_log()?
        .f_div(&reach)?
        .f_mul_scalar(half - 1)?
        .f_ceil()?
        .f_add_scalar(half)?
        .f_mul(&distances.f_sign()?)?;
    let near = distances.f_to_kind(Kind::Float)?;
    Ok(near
        .f_where_self(&size.f_le(half)?, &steps)?
        .f_to_kind(Kind::Int64)?)
}
