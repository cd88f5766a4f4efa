//! One JSON file for all pages: COCO-Text's (`imgs` and `anns`, version 1 or 2) or MMOCR's (`data_list`). Paths are relative to the
//! file; where nothing is there, a picture of the same name beside the file is meant.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{limited, outline, with_pictures};
use crate::page::{Page, Pages, Truth};
use config::{Problem, Problems};
use files::bounded;
use training::split::Part;

/// Longest file, in bytes: it is in memory as a whole.
const MAX_FILE: u64 = 1 << 30;

/// The first form that fits is taken: a whole number keeps all its digits.
#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Whole(u64),
    Real(f64),
    Text(String),
}

#[derive(Deserialize)]
struct CocoText {
    imgs: BTreeMap<String, CocoImage>,
    anns: BTreeMap<String, CocoAnnotation>,
}

#[derive(Deserialize)]
struct CocoImage {
    file_name: String,
    #[serde(default)]
    set: String,
}

#[derive(Deserialize)]
struct CocoAnnotation {
    image_id: Number,
    /// Version 2.
    mask: Option<Vec<f64>>,
    /// Version 1.
    polygon: Option<Vec<f64>>,
    #[serde(default)]
    utf8_string: String,
    #[serde(default)]
    legibility: String,
}

#[derive(Deserialize)]
struct Mmocr {
    data_list: Vec<MmocrPage>,
}

#[derive(Deserialize)]
struct MmocrPage {
    img_path: String,
    instances: Vec<MmocrInstance>,
}

#[derive(Deserialize)]
struct MmocrInstance {
    polygon: Vec<f64>,
    #[serde(default)]
    ignore: bool,
    #[serde(default)]
    text: String,
}

/// The keys that tell the two apart.
#[derive(Deserialize)]
struct Kind {
    data_list: Option<serde::de::IgnoredAny>,
}

pub(super) fn read(path: &Path) -> Result<Pages, Problems> {
    let one = |found: String, expected: &str| Problem::in_file(path, "data.path", found, expected);
    let content = bounded::read_to_string(path, MAX_FILE)
        .map_err(|error| one(error.to_string(), "a JSON file that can be read"))?;
    let content = content.strip_prefix('\u{feff}').unwrap_or(&content);
    let kind: Kind = parsed(content).map_err(|found| one(found, super::EXPECTED))?;
    let mut data = Reading {
        path,
        pages: Pages::new(),
        problems: Vec::new(),
    };
    match kind.data_list {
        Some(_) => data.mmocr(parsed(content).map_err(|found| one(found, "MMOCR's data_list"))?),
        None => {
            let expected = "COCO-Text's imgs and anns, or MMOCR's data_list";
            data.coco_text(parsed(content).map_err(|found| one(found, expected))?);
        }
    }
    match data.problems.is_empty() {
        true => Ok(data.pages),
        false => Err(limited(with_pictures(data.problems, &data.pages), path)),
    }
}

fn parsed<T: DeserializeOwned>(content: &str) -> Result<T, String> {
    serde_json::from_str(content).map_err(|error| error.to_string())
}

struct Reading<'a> {
    path: &'a Path,
    pages: Pages,
    problems: Vec<Problem>,
}

impl Reading<'_> {
    fn mmocr(&mut self, data: Mmocr) {
        for (k, page) in data.data_list.into_iter().enumerate() {
            self.page(&page.img_path);
            for (at, text) in page.instances.into_iter().enumerate() {
                let place = format!("data_list[{k}].instances[{at}]");
                self.truth((k, place), text.polygon, (text.text, text.ignore));
            }
        }
    }

    fn coco_text(&mut self, data: CocoText) {
        // Identifiers are numbers, kept as texts: in the order of the numbers.
        let mut images: Vec<(String, CocoImage)> = data.imgs.into_iter().collect();
        images.sort_by_key(|(id, _)| (id.parse::<u64>().unwrap_or(u64::MAX), id.clone()));
        let parts = images.iter().map(|(_, image)| Part::of_word(&image.set));
        let parts = parts.collect::<Option<Vec<Part>>>();
        self.pages.samples.parts = parts.unwrap_or_default();
        let places: HashMap<&str, usize> = images
            .iter()
            .enumerate()
            .map(|(k, (id, _))| (id.as_str(), k))
            .collect();
        for (_, image) in &images {
            self.page(&image.file_name);
        }
        let mut annotations: Vec<(String, CocoAnnotation)> = data.anns.into_iter().collect();
        annotations.sort_by_key(|(id, _)| (id.parse::<u64>().unwrap_or(u64::MAX), id.clone()));
        for (id, text) in annotations {
            let image = match text.image_id {
                Number::Whole(number) => number.to_string(),
                Number::Real(number) => number.to_string(),
                Number::Text(text) => text,
            };
            let place = format!("anns.{id}");
            match places.get(image.as_str()) {
                Some(page) => {
                    let points = text.mask.or(text.polygon).unwrap_or_default();
                    let ignored = text.legibility == "illegible";
                    self.truth((*page, place), points, (text.utf8_string, ignored));
                }
                None => self.problem(
                    place,
                    format!("image_id {image}"),
                    "the number of one of imgs",
                ),
            }
        }
    }

    fn problem(&mut self, place: String, found: String, expected: &str) {
        self.problems
            .push(Problem::in_file(self.path, place, found, expected));
    }

    fn page(&mut self, name: &str) {
        let image = self.picture(name);
        self.pages.pages.push(Page {
            image,
            truths: Vec::new(),
        });
    }

    fn picture(&self, name: &str) -> PathBuf {
        let own = self.path.with_file_name(name);
        match Path::new(name).file_name() {
            Some(last) if !own.exists() => self.path.with_file_name(last),
            Some(_) | None => own,
        }
    }

    fn truth(
        &mut self,
        (page, place): (usize, String),
        numbers: Vec<f64>,
        (text, ignored): (String, bool),
    ) {
        if numbers.len() % 2 == 1 {
            let found = format!("{} numbers", numbers.len());
            return self.problem(place, found, "x and y of each point");
        }
        let points = numbers.chunks_exact(2).map(|pair| [pair[0], pair[1]]);
        match outline(points.collect()) {
            Ok(polygon) => self.pages.pages[page].truths.push(Truth {
                polygon,
                text,
                ignored,
            }),
            Err((found, expected)) => self.problem(place, found, expected),
        }
    }
}
