//! Pages as a network learns of them: pictures and labels.

use anyhow::{Result, anyhow};
use image::RgbImage;
use rand_chacha::ChaCha8Rng;

use crate::labels::{LabelSettings, Labels, labels};
use crate::page::{Page, Truth};
use crate::picture;
use crate::view::{AugmentSettings, View, augmented};
use task::TrialSpec;

/// How pages are shown.
#[derive(Debug, Clone, Copy)]
pub struct Showing {
    /// The side of the square, in pixels: a multiple of 32.
    pub size: usize,
    /// What is learned of them.
    pub labels: LabelSettings,
}

impl Showing {
    /// Of a trial.
    ///
    /// # Errors
    /// A key is absent or of the wrong type.
    pub fn of(trial: &TrialSpec) -> Result<Showing> {
        Ok(Showing {
            size: trial.int::<usize>("input.size")?.next_multiple_of(32),
            labels: LabelSettings {
                shrink_ratio: trial.float("labels.shrink_ratio")?,
                ..LabelSettings::default()
            },
        })
    }
}

/// What a trial leaves to chance.
///
/// # Errors
/// A key is absent or of the wrong type.
pub fn augmentation(trial: &TrialSpec) -> Result<AugmentSettings> {
    let scale = trial.float("augment.scale")?;
    Ok(AugmentSettings {
        rotate: trial.float("augment.rotate")?,
        flip: trial.float("augment.flip")?,
        scale: [1.0 / scale, scale],
        crop: trial.float("augment.crop")?,
        colour: trial.float("augment.colour")?,
    })
}

/// A page as it is computed with.
pub struct Example {
    /// Red, green and blue, row by row: `size` x `size` x 3.
    pub pixels: Vec<u8>,
    /// What is learned of it.
    pub labels: Labels,
    /// The texts, in pixels of the square.
    pub truths: Vec<Truth>,
    /// So much of the square is of the picture, where it is seen whole ([`View::filled`]).
    pub filled: (usize, usize),
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
        Ok(Example::seen((&picture, &page.truths), showing, augment))
    }

    /// The same of a picture and the texts in it.
    pub fn seen(
        (picture, truths): (&RgbImage, &[Truth]),
        showing: &Showing,
        augment: Option<(&AugmentSettings, &mut ChaCha8Rng)>,
    ) -> Example {
        let size = (showing.size as u32, showing.size as u32);
        let whole = View::whole(picture.dimensions(), size);
        let (pixels, truths) = match augment {
            Some((settings, rng)) => augmented(picture, truths, size, settings, rng),
            None => (whole.picture(picture), whole.truths(truths)),
        };
        Example {
            labels: labels((showing.size, showing.size), &truths, &showing.labels),
            pixels: pixels.into_raw(),
            truths,
            filled: whole.filled(picture.dimensions()),
        }
    }
}
