//! `model.safetensors` of an exported directory: what was trained, what was frozen, and the head.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensors, serialize_to_file};

use super::{HeadForm, prefix};
use crate::checkpoint::{Checkpoint, needed, optional};
use crate::head::{HeadConfig, Pooling, QUERY};
use training::tensors::{FloatType, TensorValues};

/// A tensor to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredTensor {
    /// Its name in the file.
    pub name: String,
    /// Its type.
    pub dtype: Dtype,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its values, little-endian.
    pub bytes: Vec<u8>,
}

/// The tensors of the whole model: of the encoder those that were trained (`kept`, under the names of
/// training), the others as the checkpoint has them, in its own types; and the head's. The pooler of a
/// checkpoint, which training does not read, is among them unless the head has its place.
///
/// # Errors
/// A file cannot be read, or the trained tensors do not fit the checkpoint or the head.
pub fn gather(
    checkpoint: &Checkpoint,
    kept: &[u8],
    form: &HeadForm,
    head: &HeadConfig,
) -> Result<Vec<StoredTensor>> {
    let trained = SafeTensors::deserialize(kept).context("the trained weights")?;
    let before = prefix(checkpoint.config.architecture);
    let mut reader = checkpoint.weights.reader();
    let mut all = Vec::new();
    let mut used = Vec::new();
    for tensor in needed(&checkpoint.config) {
        let name = format!("{before}{}", tensor.name);
        all.push(match trained.tensor(&tensor.name) {
            Ok(view) => {
                ensure!(
                    view.dtype() == Dtype::F32 && view.shape() == tensor.shape,
                    "the trained {} is {:?} {:?}, the checkpoint asks for {:?}",
                    tensor.name,
                    view.dtype(),
                    view.shape(),
                    tensor.shape
                );
                used.push(tensor.name);
                stored(name, &view)
            }
            Err(_) => frozen(name, reader.read(&tensor.name)?),
        });
    }
    if form.class.is_none() {
        for tensor in optional(&checkpoint.config) {
            if checkpoint.weights.name_in_file(&tensor.name).is_some() {
                let name = format!("{before}{}", tensor.name);
                all.push(frozen(name, reader.read(&tensor.name)?));
            }
        }
    }
    head_tensors(&trained, form, head, &mut all, &mut used)?;
    let extra: Vec<&str> = trained
        .names()
        .into_iter()
        .filter(|name| !used.iter().any(|u| u == name))
        .collect();
    ensure!(
        extra.is_empty(),
        "trained tensors without a place: {extra:?}"
    );
    Ok(all)
}

/// The head's tensors, under the names of `form`.
fn head_tensors(
    trained: &SafeTensors<'_>,
    form: &HeadForm,
    head: &HeadConfig,
    all: &mut Vec<StoredTensor>,
    used: &mut Vec<String>,
) -> Result<()> {
    let mut take =
        |own: String, name: String, shape: &[usize], scale: f64| -> Result<StoredTensor> {
            let view = trained
                .tensor(&own)
                .with_context(|| format!("the trained weights have no {own}"))?;
            ensure!(
                view.dtype() == Dtype::F32 && view.shape() == shape,
                "the trained {own} is {:?} {:?}, the head asks for {shape:?}",
                view.dtype(),
                view.shape()
            );
            used.push(own);
            let mut tensor = stored(name, &view);
            for value in tensor.bytes.chunks_exact_mut(4) {
                let bytes: [u8; 4] = [value[0], value[1], value[2], value[3]];
                let scaled = f32::from_le_bytes(bytes) / scale as f32;
                value.copy_from_slice(&scaled.to_le_bytes());
            }
            Ok(tensor)
        };
    if let Some((name, factor)) = &form.passing {
        let size = head.input;
        let diagonal = |at: usize| match at % (size + 1) {
            0 => *factor as f32,
            _ => 0.0,
        };
        let values = |count: usize, of: &dyn Fn(usize) -> f32| {
            (0..count).flat_map(|at| of(at).to_le_bytes()).collect()
        };
        let tensor = |part: &str, shape: Vec<usize>, bytes| StoredTensor {
            name: format!("{name}.{part}"),
            dtype: Dtype::F32,
            shape,
            bytes,
        };
        let weight = values(size * size, &diagonal);
        all.push(tensor("weight", vec![size, size], weight));
        all.push(tensor("bias", vec![size], values(size, &|_| 0.0)));
    }
    let sizes = head.sizes().into_iter().zip(&form.layers);
    for (own, ((input, out), layer)) in head.layer_names().into_iter().zip(sizes) {
        let (weight, bias) = (format!("{own}.weight"), format!("{own}.bias"));
        let name = format!("{}.weight", layer.name);
        all.push(take(weight, name, &[out, input], layer.scale)?);
        all.push(take(bias, format!("{}.bias", layer.name), &[out], 1.0)?);
    }
    if head.pooling == Pooling::Attn {
        all.push(take(
            QUERY.to_owned(),
            QUERY.to_owned(),
            &[head.input],
            1.0,
        )?);
    }
    Ok(())
}

fn stored(name: String, view: &TensorView<'_>) -> StoredTensor {
    StoredTensor {
        name,
        dtype: view.dtype(),
        shape: view.shape().to_vec(),
        bytes: view.data().to_vec(),
    }
}

fn frozen(name: String, raw: TensorValues) -> StoredTensor {
    StoredTensor {
        name,
        dtype: match raw.precision {
            FloatType::F32 => Dtype::F32,
            FloatType::F16 => Dtype::F16,
            FloatType::Bf16 => Dtype::BF16,
            FloatType::F64 => Dtype::F64,
        },
        shape: raw.shape,
        bytes: raw.bytes,
    }
}

/// Writes tensors to a file.
///
/// # Errors
/// Writing failed.
pub fn save(tensors: &[StoredTensor], file: &Path) -> Result<()> {
    let views = tensors
        .iter()
        .map(|t| {
            let view = TensorView::new(t.dtype, t.shape.clone(), &t.bytes)?;
            Ok((t.name.as_str(), view))
        })
        .collect::<Result<Vec<_>>>()?;
    // transformers asks for this word.
    let about = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    Ok(serialize_to_file(views, Some(about), file)?)
}
