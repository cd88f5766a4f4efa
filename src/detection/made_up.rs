//! Pages that nobody wrote: dark, with a bright bar or two where texts would be.

use std::path::Path;

use anyhow::{Context, Result};
use image::{Rgb, RgbImage};
use rand::RngExt;
use serde_json::json;

use crate::page::Truth;
use crate::polygon::Polygon;
use search::study::rng;

/// Pages in a made-up data set.
const PAGES: u64 = 24;

/// A page of this number and of so many pixels a side, at least 32.
pub fn page(number: u64, side: u32) -> (RgbImage, Vec<Truth>) {
    let rng = &mut rng(0, number, "made-up page");
    let mut picture = RgbImage::from_fn(side, side, |_, _| {
        Rgb([0; 3].map(|_: u8| rng.random_range(0..80)))
    });
    let bars = rng.random_range(1..=2u32);
    let truths = (0..bars).map(|bar| {
        // Each has a part of the height for itself.
        let (width, height) = (rng.random_range(side / 4..side / 2), side / 8);
        let (x, y) = (
            rng.random_range(2..side / 2 - 2),
            bar * side / 2 + rng.random_range(2..side / 4),
        );
        for column in x..x + width {
            for row in y..y + height {
                picture.put_pixel(column, row, Rgb([220, 210, 230]));
            }
        }
        let [low, high] = [[x, y], [x + width, y + height]].map(|point| point.map(f64::from));
        Truth {
            polygon: Polygon::rectangle(low, high),
            text: String::new(),
            ignored: false,
        }
    });
    let truths = truths.collect();
    (picture, truths)
}

/// Writes a data set of such pages, and gives the file that tells of them.
pub(crate) fn write(dir: &Path, side: u32) -> Result<String> {
    let mut lines = String::new();
    for number in 0..PAGES {
        let (picture, truths) = page(number, side);
        let name = format!("{number}.png");
        let path = dir.join(&name);
        (picture.save(&path)).with_context(|| path.display().to_string())?;
        let texts = truths
            .iter()
            .map(|truth| json!({"polygon": truth.polygon.points()}));
        let line = json!({"image": name, "texts": texts.collect::<Vec<_>>()});
        lines += &format!("{line}\n");
    }
    let path = dir.join("pages.jsonl");
    std::fs::write(&path, lines).with_context(|| path.display().to_string())?;
    Ok(path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::{Placement, read};

    #[test]
    fn pages_of_any_size_can_be_read_back() {
        for side in [32, 64, 640] {
            let dir = tempfile::tempdir().unwrap();
            let file = write(dir.path(), side).unwrap();
            let pages = read(Path::new(&file), Placement::default()).unwrap();
            pages.examine().unwrap();
            assert_eq!(pages.pages.len() as u64, PAGES);
            let (picture, truths) = page(3, side);
            assert_eq!(pages.pages[3].truths, truths);
            assert_eq!(
                image::open(&pages.pages[3].image).unwrap().to_rgb8(),
                picture
            );
        }
    }
}
