//! A directory in the manner of ICDAR 2015: beside each picture `gt_NAME.txt` with a text a line, `x1,y1,...,x4,y4,TEXT`. The
//! text may contain commas; `###` is one that does not matter.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::{limited, outline, with_pictures};
use crate::page::{Page, Pages, Truth};
use crate::picture::is_picture;
use config::{Problem, Problems};
use files::bounded;
use training::split::Part;
use training::table::FileProblems;

/// Longest file of a page's texts, in bytes.
const MAX_TEXTS: u64 = 16 << 20;

/// How deep pictures may lie in directories.
const DEPTH: usize = 4;

/// The text of one that does not matter.
const IGNORED: &str = "###";

const LINE: &str = "eight numbers, x and y of four points, and the text, separated by commas";

pub(super) fn read(dir: &Path) -> Result<Pages, Problems> {
    let (mut files, mut problems) = (BTreeSet::new(), Vec::new());
    find(dir, DEPTH, &mut files, &mut problems);
    let mut pages = Pages::new();
    for image in files.iter().filter(|path| is_picture(path)) {
        let texts = texts_of(image);
        if !files.contains(&texts) {
            let found = format!("no {} beside it", texts.display());
            let expected = "a file with the texts of each picture";
            problems.push(Problem::in_file(image, "data.path", found, expected));
            continue;
        }
        match read_texts(&texts) {
            Ok(truths) => pages.pages.push(Page {
                image: image.clone(),
                truths,
            }),
            Err(found) => problems.extend(found.0),
        }
    }
    if !problems.is_empty() {
        return Err(limited(with_pictures(problems, &pages), dir));
    }
    let parts = pages.pages.iter().map(|page| part(dir, &page.image));
    let parts = parts.collect::<Option<Vec<Part>>>();
    pages.samples.parts = parts.unwrap_or_default();
    Ok(pages)
}

/// The file with the texts of a picture.
fn texts_of(image: &Path) -> PathBuf {
    let name = image.file_stem().unwrap_or_default().to_string_lossy();
    image.with_file_name(format!("gt_{name}.txt"))
}

/// The part that the first directory below `dir` is named after.
fn part(dir: &Path, image: &Path) -> Option<Part> {
    let below = image.strip_prefix(dir).ok()?;
    let first = below.components().next()?;
    Part::of_word(&first.as_os_str().to_string_lossy())
}

fn find(dir: &Path, depth: usize, files: &mut BTreeSet<PathBuf>, problems: &mut Vec<Problem>) {
    let entries = fs::read_dir(dir).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let entries = match entries {
        Ok(entries) => entries,
        Err(error) => {
            let expected = "a directory that can be read";
            let found = error.to_string();
            return problems.push(Problem::in_file(dir, "data.path", found, expected));
        }
    };
    for path in entries.into_iter().map(|entry| entry.path()) {
        if !path.is_dir() {
            files.insert(path);
        } else if depth > 0 {
            find(&path, depth - 1, files, problems);
        }
    }
}

/// The texts of a page.
fn read_texts(path: &Path) -> Result<Vec<Truth>, Problems> {
    let content = bounded::read_to_string(path, MAX_TEXTS).map_err(|error| {
        let expected = "a file of texts that can be read";
        Problem::in_file(path, "data.path", error.to_string(), expected)
    })?;
    let mut problems = FileProblems::new(path);
    let mut truths = Vec::new();
    let content = content.strip_prefix('\u{feff}').unwrap_or(&content);
    for (k, line) in content.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        match text(line) {
            Ok(truth) => truths.push(truth),
            Err((found, expected)) => problems.row(k + 1, "text".to_owned(), found, expected),
        }
    }
    problems.finish(truths)
}

fn text(line: &str) -> Result<Truth, (String, &'static str)> {
    let cells: Vec<&str> = line.splitn(9, ',').collect();
    let number = |cell: &&str| {
        cell.trim()
            .parse::<f64>()
            .map_err(|_| (format!("\"{}\" for a number", cell.trim()), LINE))
    };
    let Some((numbers, text)) = cells.split_at_checked(8) else {
        return Err((format!("{} values", cells.len()), LINE));
    };
    let numbers = numbers
        .iter()
        .map(number)
        .collect::<Result<Vec<f64>, _>>()?;
    let points = numbers.chunks_exact(2).map(|pair| [pair[0], pair[1]]);
    let text = text.first().map_or("", |text| text.trim());
    Ok(Truth {
        polygon: outline(points.collect())?,
        text: text.to_owned(),
        ignored: text == IGNORED,
    })
}
