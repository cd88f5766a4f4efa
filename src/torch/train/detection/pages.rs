//! Pages as the network reads them: pictures and labels, made on the host.

use anyhow::Result;
use tch::{Device, Kind, Tensor};

use super::loss::{Pixels, Targets};
use ::detection::example::Example;
use ::detection::labels::Plane;

/// Pixels that matter, inside of shrunk texts and outside.
fn counts(example: &Example) -> Pixels {
    let shrunk = example.labels.plane(Plane::Shrunk).iter();
    let mut counts = Pixels::default();
    for (value, mask) in shrunk.zip(example.labels.plane(Plane::ShrunkMask)) {
        match (*mask > 0.0, *value > 0.0) {
            (true, true) => counts.inside += 1,
            (true, false) => counts.outside += 1,
            (false, _) => {}
        }
    }
    counts
}

/// Pictures `[B, size, size, 3]`, bytes, and their labels, on a device.
///
/// # Errors
/// libtorch throws.
pub fn batch(examples: &[Example], size: usize, device: Device) -> Result<(Tensor, Targets)> {
    let (count, side) = (examples.len() as i64, size as i64);
    let pixels: Vec<u8> = examples.iter().flat_map(|e| &e.pixels).copied().collect();
    let pictures = Tensor::f_from_data_size(&pixels, &[count, side, side, 3], Kind::Uint8)?;
    let planes: Vec<f32> = (examples.iter())
        .flat_map(|e| &e.labels.planes)
        .copied()
        .collect();
    let planes = Tensor::f_from_slice(&planes)?.f_view([count, 4, side, side])?;
    let planes = planes.f_to_device(device)?;
    let of = |plane: Plane| planes.f_select(1, plane as i64);
    let counts = examples.iter().map(counts);
    let targets = Targets {
        shrunk: of(Plane::Shrunk)?,
        shrunk_mask: of(Plane::ShrunkMask)?,
        threshold: of(Plane::Threshold)?,
        threshold_mask: of(Plane::ThresholdMask)?,
        counts: counts.fold(Pixels::default(), |all, page| Pixels {
            inside: all.inside + page.inside,
            outside: all.outside + page.outside,
        }),
    };
    Ok((pictures.f_to_device(device)?, targets))
}
