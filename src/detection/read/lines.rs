//! JSON lines: a page a line, `{"image": "a.png", "texts": [{"polygon": [[x, y], ...], "text": "...", "ignored": false}]}`. The
//! picture's path is relative to the file; `text` and `ignored` may be left out.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value as Json;

use super::{Placement, outline, with_pictures};
use crate::page::{Page, Pages, Truth};
use crate::polygon::Point;
use config::Problems;
use training::table::{Cells, FileProblems, Format, MAX_FILE, Place, Table};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    polygon: Vec<Point>,
    #[serde(default)]
    text: String,
    #[serde(default)]
    ignored: bool,
}

pub(super) fn read(path: &Path, placement: Placement<'_>) -> Result<Pages, Problems> {
    let mut problems = FileProblems::new(path);
    let mut pages = Pages::new();
    let table = Table::open(path, Format::Jsonl, MAX_FILE, "data.path", &mut problems);
    let Some(mut table) = table else {
        return Err(problems.into_problems());
    };
    while table.advance(&mut problems) {
        let place = table.place();
        let image = table.text("image", &mut problems);
        let known = image.is_ok();
        let image = image.ok().flatten().unwrap_or_default();
        // What cannot be read has been told.
        if known && image.is_empty() {
            problems.row(
                place.line,
                place.cell("image"),
                "no path",
                "the path of a picture in every row",
            );
        }
        pages.samples.take(&table, placement, &mut problems);
        let truths = match table.take_cells(&mut problems) {
            Ok(Cells::Object(mut object, _)) => texts(object.remove("texts"), place, &mut problems),
            Ok(Cells::List(_)) | Err(_) => Vec::new(),
        };
        if !image.is_empty() {
            pages.pages.push(Page {
                image: path.with_file_name(image),
                truths,
            });
        }
    }
    match problems.is_empty() {
        true => Ok(pages),
        false => {
            let Problems(found) = problems.into_problems();
            Err(Problems(with_pictures(found, &pages)))
        }
    }
}

fn texts(found: Option<Json>, place: Place, problems: &mut FileProblems) -> Vec<Truth> {
    let mut wrong = |cell: String, found: String, expected: &str| {
        problems.row(place.line, cell, found, expected)
    };
    let Some(Json::Array(texts)) = found else {
        wrong(
            place.cell("texts"),
            "no list".to_owned(),
            "a list of the page's texts in every row; [] where it has none",
        );
        return Vec::new();
    };
    let mut truths = Vec::new();
    for (k, text) in texts.into_iter().enumerate() {
        let cell = format!("{}, text {}", place.cell("texts"), k + 1);
        let text: Text = match serde_json::from_value(text) {
            Ok(text) => text,
            Err(error) => {
                wrong(
                    cell,
                    error.to_string(),
                    "an object with a polygon, a list of [x, y], and perhaps text and ignored",
                );
                continue;
            }
        };
        match outline(text.polygon) {
            Ok(polygon) => truths.push(Truth {
                polygon,
                text: text.text,
                ignored: text.ignored,
            }),
            Err((found, expected)) => wrong(cell, found, expected),
        }
    }
    truths
}
