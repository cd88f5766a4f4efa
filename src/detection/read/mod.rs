//! Data sets: a directory in the manner of ICDAR 2015, our JSON lines, or a JSON file in the manner of COCO-Text or MMOCR. All
//! that is wrong is told together.

mod directory;
mod json;
mod lines;

use std::path::Path;

use rayon::prelude::*;
use sha2::{Digest, Sha256};

use crate::page::{Page, Pages, Truth};
use crate::picture;
use crate::polygon::{Point, Polygon};
use config::{Problem, Problems};
pub use training::rows::Placement;

/// What `data.path` is expected to be.
const EXPECTED: &str = "a directory with pictures and gt_NAME.txt files, a .jsonl file, or a .json file in the manner of COCO-Text or MMOCR";

/// Problems that are spelled out, of all files together.
const SPELLED_OUT: usize = 50;

/// Largest coordinate, in pixels.
const FARTHEST: f64 = 1e6;

/// Reads what is told of the pages, and their parts where the data say them; no picture is opened. JSON lines alone have
/// columns that say where a page belongs.
///
/// # Errors
/// Every problem of the data, with file and line; of many the first.
pub fn read(path: &Path, placement: Placement<'_>) -> Result<Pages, Problems> {
    let suffix = path
        .extension()
        .map(|suffix| suffix.to_string_lossy().to_lowercase());
    let mut pages = match suffix.as_deref() {
        _ if path.is_dir() => directory::read(path)?,
        Some("jsonl" | "ndjson") => lines::read(path, placement)?,
        Some("json") => json::read(path)?,
        Some(_) | None => {
            let found = match path.exists() {
                true => path.display().to_string(),
                false => format!("{}, which is not there", path.display()),
            };
            return Err(Problem::in_file(path, "data.path", found, EXPECTED).into());
        }
    };
    if pages.pages.is_empty() {
        return Err(Problem::in_file(path, "data.path", "no page", EXPECTED).into());
    }
    let (count, samples) = (pages.pages.len(), &mut pages.samples);
    samples.class = vec![0; count];
    if samples.lines.is_empty() {
        samples.lines = (1..=count).collect();
    }
    Ok(pages)
}

/// An outline that encloses something.
fn outline(points: Vec<Point>) -> Result<Polygon, (String, &'static str)> {
    let count = points.len();
    if count < 3 {
        return Err((
            format!("{count} points"),
            "at least three points of an outline",
        ));
    }
    if let Some([x, y]) = points
        .iter()
        .find(|p| p.iter().any(|at| !at.is_finite() || at.abs() > FARTHEST))
    {
        return Err((
            format!("the point {x}, {y}"),
            "finite coordinates in pixels",
        ));
    }
    let polygon = Polygon::new(points);
    match polygon.area() > 0.0 {
        true => Ok(polygon),
        false => Err((
            "an outline without an inside".to_owned(),
            "an outline that encloses a text",
        )),
    }
}

/// What is wrong with the data, and with the pictures of the pages that could be read.
fn with_pictures(mut problems: Vec<Problem>, pages: &Pages) -> Vec<Problem> {
    let of_pictures = pages.examine().err();
    problems.extend(of_pictures.into_iter().flat_map(|found| found.0));
    // Several rows may have one picture.
    problems.dedup();
    problems
}

/// The first of many problems, and how many more there are.
fn limited(mut problems: Vec<Problem>, path: &Path) -> Problems {
    let more = problems.len().saturating_sub(SPELLED_OUT);
    if more > 0 {
        problems.truncate(SPELLED_OUT);
        let found = format!("{more} more problems like these");
        problems.push(Problem::in_file(path, "data.path", found, "none"));
    }
    Problems(problems)
}

impl Pages {
    /// Decodes every picture and gives the fingerprint of all that trials can see of the data: the files of the pictures, the
    /// outlines, and which of them are ignored.
    ///
    /// # Errors
    /// Every picture that cannot be read, and every text that lies outside of its picture; of many the first.
    pub fn examine(&self) -> Result<String, Problems> {
        let results: Vec<_> = self.pages.par_iter().map(examined).collect();
        let mut hash = Sha256::new();
        hash.update(b"text detection pages 1\0");
        let (mut problems, mut file) = (Vec::new(), Path::new(""));
        for (page, result) in self.pages.iter().zip(results) {
            file = &page.image;
            match result {
                Ok(of_picture) => hash.update(of_picture),
                Err(found) => problems.extend(found),
            }
            hash.update((page.truths.len() as u64).to_le_bytes());
            for truth in &page.truths {
                hash.update([u8::from(truth.ignored)]);
                hash.update((truth.polygon.points().len() as u64).to_le_bytes());
                let numbers = truth.polygon.points().iter().flatten();
                numbers.for_each(|number| hash.update(number.to_le_bytes()));
            }
        }
        match problems.is_empty() {
            true => Ok(training::hex(&hash.finalize())),
            false => Err(limited(problems, file)),
        }
    }
}

/// The checksum of a page's picture, which can be decoded and has all texts of the page in it.
fn examined(page: &Page) -> Result<[u8; 32], Vec<Problem>> {
    let problem = |key: &str, found, expected| Problem::in_file(&page.image, key, found, expected);
    let one = |found| vec![problem("picture", found, picture::EXPECTED)];
    let bytes = picture::read(&page.image).map_err(one)?;
    let (width, height) = picture::decode(&bytes).map_err(one)?.dimensions();
    let size = [f64::from(width), f64::from(height)];
    let outside = |truth: &Truth| {
        let [low, high] = truth.polygon.bounds();
        (0..2).any(|k| high[k] <= 0.0 || low[k] >= size[k])
    };
    let texts = page
        .truths
        .iter()
        .enumerate()
        .filter(|(_, truth)| outside(truth));
    let problems: Vec<Problem> = texts
        .map(|(k, truth)| {
            let [[x, y], _] = truth.polygon.bounds();
            let found = format!(
                "text {} at {x}, {y}, outside of its {width} x {height} pixels",
                k + 1
            );
            problem("picture", found, "texts that are in the upright picture")
        })
        .collect();
    match problems.is_empty() {
        true => Ok(Sha256::digest(&bytes).into()),
        false => Err(problems),
    }
}

#[cfg(test)]
mod tests;
