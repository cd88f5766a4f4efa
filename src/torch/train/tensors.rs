//! Named tensors as a safetensors file, written as a stream: a checkpoint is as large as the model and
//! its moments together, and is never held in memory as a whole.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, Metadata, TensorInfo};
use tch::{Device, Kind, Tensor};

use ::training::tensors::{FloatType, TensorValues};

/// Bytes of a value.
const SIZE: usize = 4;

/// Writes tensors of 32-bit floats under their names, in this order.
///
/// # Errors
/// What cannot be written, a tensor of another type, or libtorch throws.
pub fn write(tensors: &[(String, Tensor)], to: &mut dyn Write) -> Result<()> {
    let mut infos = Vec::with_capacity(tensors.len());
    let mut end = 0;
    for (name, tensor) in tensors {
        ensure!(
            tensor.kind() == Kind::Float,
            "{name} has the type {:?}",
            tensor.kind()
        );
        let start = end;
        end += tensor.numel() * SIZE;
        let info = TensorInfo {
            dtype: Dtype::F32,
            shape: tensor.size().iter().map(|d| *d as usize).collect(),
            data_offsets: (start, end),
        };
        infos.push((name.clone(), info));
    }
    // What transformers looks for before it reads a file.
    let format = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    let mut header = serde_json::to_vec(&Metadata::new(Some(format), infos)?)?;
    header.resize(header.len().next_multiple_of(8), b' ');
    to.write_all(&(header.len() as u64).to_le_bytes())?;
    to.write_all(&header)?;
    let mut bytes = Vec::new();
    for (_, tensor) in tensors {
        let tensor = tensor
            .f_detach()?
            .f_to_device(Device::Cpu)?
            .f_contiguous()?;
        bytes.resize(tensor.numel() * SIZE, 0);
        tensor.f_copy_data_u8(&mut bytes, tensor.numel())?;
        to.write_all(&bytes)?;
    }
    Ok(())
}

/// Copies what [`write`] wrote of these tensors, from where `from` is to its end, back into them.
///
/// # Errors
/// It is damaged, lacks one of them or has others.
pub fn read(tensors: &[(String, Tensor)], mut from: &File) -> Result<()> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes)?;
    let stored = SafeTensors::deserialize(&bytes).context("the state is damaged")?;
    ensure!(
        stored.len() == tensors.len(),
        "{} tensors in the state, not {}",
        stored.len(),
        tensors.len()
    );
    let _no_grad = tch::no_grad_guard();
    for (name, tensor) in tensors {
        let view = stored.tensor(name)?;
        let shape: Vec<i64> = view.shape().iter().map(|d| *d as i64).collect();
        ensure!(
            shape == tensor.size() && view.dtype() == Dtype::F32,
            "{name} is {:?} {shape:?} in the state, not {:?}",
            view.dtype(),
            tensor.size()
        );
        let values = Tensor::f_from_data_size(view.data(), &shape, Kind::Float)?;
        tensor.shallow_clone().f_copy_(&values)?;
    }
    Ok(())
}

/// Copies what a file has of these tensors, and of no others, into them.
///
/// # Errors
/// See [`read`]; or a value is not finite.
pub fn load(tensors: &[(String, Tensor)], path: &Path) -> Result<()> {
    let told = || path.display().to_string();
    read(tensors, &File::open(path).with_context(told)?).with_context(told)?;
    for (name, tensor) in tensors {
        let finite = tensor.f_isfinite()?.f_all()?.f_int64_value(&[])? == 1;
        ensure!(
            finite,
            "{}: {name} has values that are NaN or infinite",
            path.display()
        );
    }
    Ok(())
}

/// The tensor in 32-bit floats.
///
/// # Errors
/// libtorch throws, or a value is NaN or infinite.
pub fn convert(raw: &TensorValues, name: &str) -> Result<Tensor> {
    let kind = match raw.precision {
        FloatType::F32 => Kind::Float,
        FloatType::F16 => Kind::Half,
        FloatType::Bf16 => Kind::BFloat16,
        FloatType::F64 => Kind::Double,
    };
    let shape: Vec<i64> = raw.shape.iter().map(|d| *d as i64).collect();
    let tensor = Tensor::f_from_data_size(&raw.bytes, &shape, kind)?.f_to_kind(Kind::Float)?;
    // The sum is finite only where all values are: NaN and infinity stay in it.
    let sum = tensor.f_sum(Kind::Double)?.f_double_value(&[])?;
    ensure!(sum.is_finite(), "{name} holds NaN or infinite weights");
    Ok(tensor)
}

/// All values of a tensor, on the host.
///
/// # Errors
/// libtorch throws.
pub fn flat(tensor: &Tensor) -> Result<Vec<f32>> {
    let tensor = tensor.f_to_device(Device::Cpu)?.f_to_kind(Kind::Float)?;
    Ok(Vec::try_from(tensor.f_contiguous()?.f_flatten(0, -1)?)?)
}

/// All values of tensors that stand one behind the other, fetched at once.
///
/// # Errors
/// libtorch throws.
pub fn fetched(all: &[Tensor]) -> Result<Vec<f32>> {
    match all {
        [] => Ok(Vec::new()),
        [_, ..] => flat(&Tensor::f_cat(all, 0)?),
    }
}

/// Numbers of rows, batch by batch, moved to a device at once.
///
/// # Errors
/// libtorch throws.
pub fn upload(batches: &[Vec<usize>], device: Device) -> Result<Vec<Tensor>> {
    let order: Vec<i64> = batches.iter().flatten().map(|r| *r as i64).collect();
    let order = Tensor::f_from_slice(&order)?.f_to_device(device)?;
    let mut start = 0;
    batches
        .iter()
        .map(|batch| {
            let part = order.f_narrow(0, start, batch.len() as i64)?;
            start += batch.len() as i64;
            Ok(part)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom};

    use super::*;

    fn named(values: &[f32]) -> (String, Tensor) {
        ("a.weight".into(), Tensor::from_slice(values).view([2, -1]))
    }

    fn file(tensors: &[(String, Tensor)]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"before").unwrap();
        write(tensors, &mut file).unwrap();
        file.seek(SeekFrom::Start(6)).unwrap();
        file
    }

    #[test]
    fn every_bit_comes_back() {
        let subnormal = f32::from_bits(1);
        let values = [0.1, -0.0, f32::MAX, subnormal];
        let scalar = || Tensor::zeros([0i64; 0], (Kind::Float, Device::Cpu)) + 7.0;
        // A view that is not contiguous.
        let turned = (
            "b".to_owned(),
            Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0]).view([2, 2]).tr(),
        );
        let written = [named(&values), turned, ("step".to_owned(), scalar())];
        let file = file(&written);
        let found = [
            named(&[9.0; 4]),
            (
                "b".to_owned(),
                Tensor::zeros([2, 2], (Kind::Float, Device::Cpu)),
            ),
            ("step".to_owned(), scalar() * 0.0),
        ];
        // A parameter needs gradients and is written to all the same.
        let _ = found[0].1.shallow_clone().requires_grad_(true);
        read(&found, &file).unwrap();
        for ((name, a), (_, b)) in written.iter().zip(&found) {
            let bits = |t: &Tensor| -> Vec<u32> {
                let flat = t.detach().contiguous().flatten(0, -1);
                let values: Vec<f32> = Vec::try_from(flat).unwrap();
                values.iter().map(|v| v.to_bits()).collect()
            };
            assert_eq!(bits(a), bits(b), "{name}");
        }
    }

    #[test]
    fn a_state_of_another_model_is_refused() {
        let stored = || file(&[named(&[1.0, 2.0])]);
        let missing = [("b.weight".to_owned(), Tensor::from_slice(&[1f32]))];
        assert!(read(&missing, &stored()).is_err());
        let larger = [named(&[1.0; 4])];
        let error = read(&larger, &stored()).unwrap_err().to_string();
        assert!(error.contains("a.weight"), "{error}");
        let [missing] = missing;
        assert!(read(&[named(&[1.0; 2]), missing], &stored()).is_err());
    }
}
