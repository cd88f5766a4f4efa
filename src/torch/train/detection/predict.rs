//! A trained detector that looks at pictures.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use image::RgbImage;
use rand_chacha::ChaCha8Rng;
use tch::{Kind, Tensor};

use super::layers::Fresh;
use super::network::DbNet;
use crate::gpu;
use crate::train::module::kept;
use crate::train::tensors;
use ::detection::Page;
use ::detection::description::{Description, ExportedDetector};
use ::detection::found::{FOUND, FOUND_FILE, draw, found_json};
use ::detection::metric::Counts;
use ::detection::picture;
use ::detection::post::{Detection, Map, PageScorer, detections};
use ::detection::view::View;
use ::training::exported::WEIGHTS_FILE;
use device::Device;
use search::study::rng;

/// A network on its device.
pub struct Detector {
    network: DbNet,
    about: Description,
    device: tch::Device,
}

impl Detector {
    /// Loads the network of a directory.
    ///
    /// # Errors
    /// The weights cannot be read, are misshapen, or not finite.
    pub fn open(exported: &ExportedDetector, device: Device) -> Result<Detector> {
        let (about, device) = (exported.description.clone(), gpu::tch_device(device));
        // Everything that is drawn is overwritten.
        let generator: &mut ChaCha8Rng = &mut rng(0, 0, "model");
        let mut fresh = Fresh {
            device,
            rng: generator,
        };
        let network = DbNet::new(&about.network, &mut fresh)?;
        let listed = network.listed();
        let named = kept(listed.parameters, listed.buffers)?;
        tensors::load(&named, &exported.dir.join(WEIGHTS_FILE))?;
        Ok(Detector {
            network,
            about,
            device,
        })
    }

    /// The probabilities of a picture, and how it was brought into their square.
    fn map(&self, picture: &RgbImage) -> Result<(Map, View)> {
        let side = self.about.size;
        let view = View::whole(picture.dimensions(), (side as u32, side as u32));
        let shape = [1, side as i64, side as i64, 3];
        let seen = Tensor::f_from_data_size(&view.picture(picture), &shape, Kind::Uint8)?;
        let logits = self.network.logits(&seen.f_to_device(self.device)?)?;
        let values = tensors::flat(&logits.f_sigmoid()?)?;
        ensure!(
            values.iter().all(|value| value.is_finite()),
            "an output is not finite"
        );
        let map = Map::new((side, side), values);
        Ok((map.within(view.filled(picture.dimensions())), view))
    }

    /// The texts in a picture, in its pixels.
    ///
    /// # Errors
    /// libtorch throws, or an output is not finite.
    pub fn find(&self, picture: &RgbImage) -> Result<Vec<Detection>> {
        let (map, view) = self.map(picture)?;
        let found = detections(&map, &self.about.post());
        let back = found.into_iter().map(|text| Detection {
            polygon: view.outline_back(&text.polygon),
            score: text.score,
        });
        Ok(back.collect())
    }

    /// What is found of a page's texts, counted as in the search.
    ///
    /// # Errors
    /// The picture cannot be decoded; or see [`Detector::find`].
    pub fn score(&self, page: &Page) -> Result<Counts> {
        let picture = picture::open(&page.image)?;
        let (map, view) = self
            .map(&picture)
            .with_context(|| page.image.display().to_string())?;
        let scorer = PageScorer::new(map, view.truths(&page.truths));
        Ok(scorer.counts(&self.about.post()))
    }

    /// Finds the texts of a picture in a file, gives what was found as a line of JSON, and draws it into a copy in `to`.
    ///
    /// # Errors
    /// The picture cannot be decoded, or the copy not written; or see [`Detector::find`].
    pub fn look_at(&self, path: &Path, to: Option<&Path>) -> Result<String> {
        let mut picture = picture::open(path)?;
        let found = self
            .find(&picture)
            .with_context(|| path.display().to_string())?;
        let name = path.file_name().unwrap_or_default();
        let line = found_json(&name.to_string_lossy(), picture.dimensions(), &found);
        if let Some(to) = to {
            (found.iter()).for_each(|text| draw(&mut picture, &text.polygon, FOUND));
            (picture.save(to.join(name))).map_err(std::io::Error::other)?;
        }
        Ok(format!("{line}\n"))
    }

    /// The same of many pictures, into a directory that has the copies and `found.jsonl`; `step` is called with each.
    ///
    /// # Errors
    /// See [`Detector::look_at`].
    pub fn look_at_all(
        &self,
        pictures: &[impl AsRef<Path>],
        to: &Path,
        step: &mut dyn FnMut(),
    ) -> Result<()> {
        let mut lines = String::new();
        for path in pictures {
            lines += &self.look_at(path.as_ref(), Some(to))?;
            step();
        }
        Ok(fs::write(to.join(FOUND_FILE), lines)?)
    }
}
