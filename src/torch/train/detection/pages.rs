//! Pages as the network reads them: pictures and labels, made on the host.

use anyhow::{Result, anyhow};
use tch::{Device, Kind, Tensor};

use super::loss::{Pixels, Targets};
use ::detection::labels::{LabelSettings, Labels, Plane, labels};
use ::detection::view::{AugmentSettings, View, augmented};
use ::detection::{Page, Truth, picture};
use rand_chacha::ChaCha8Rng;

/// How pages are shown.
#[derive(Debug, Clone, Copy)]
pub struct Showing {
    /// The side of the square, in pixels.
    pub size: usize,
    /// What is learned of them.
    pub labels: LabelSettings,
}

/// A page as it is computed with.
pub struct Example {
    /// Red, green and blue, row by row: `size` x `size` x 3.
    pixels: Vec<u8>,
    labels: Labels,
    /// The texts, in pixels of the square.
    pub truths: Vec<Truth>,
}

impl Example {
    /// Decodes a page's picture, changes it at random where that is asked for, and makes its labels.
    ///
    /// # Errors
    /// The picture cannot be decoded any more; it could when the task was prepared.
    pub fn of(
        page: &Page,
        showing: &Showing,
        augment: Option<(&AugmentSettings, &mut ChaCha8Rng)>,
    ) -> Result<Example> {
        let failed = |found: String| anyhow!("{}: {found}", page.image.display());
        let bytes = picture::read(&page.image).map_err(failed)?;
        let picture = picture::decode(&bytes).map_err(failed)?;
        let size = (showing.size as u32, showing.size as u32);
        let (pixels, truths) = match augment {
            Some((settings, rng)) => augmented(&picture, &page.truths, size, settings, rng),
            None => {
                let view = View::whole(picture.dimensions(), size);
                (view.picture(&picture), view.truths(&page.truths))
            }
        };
        Ok(Example {
            labels: labels((showing.size, showing.size), &truths, &showing.labels),
            pixels: pixels.into_raw(),
            truths,
        })
    }

    /// Pixels that matter, inside of shrunk texts and outside.
    fn counts(&self) -> Pixels {
        let shrunk = self.labels.plane(Plane::Shrunk).iter();
        let mut counts = Pixels::default();
        for (value, mask) in shrunk.zip(self.labels.plane(Plane::ShrunkMask)) {
            match (*mask > 0.0, *value > 0.0) {
                (true, true) => counts.inside += 1,
                (true, false) => counts.outside += 1,
                (false, _) => {}
            }
        }
        counts
    }
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
    let counts = examples.iter().map(Example::counts);
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
