//! Writes pages as a network learns of them, as they are, without anything left to chance, for programs beside which `tune`
//! is measured:
//!
//!     maps PAGES OUT SIZE
//!
//! PAGES is what `data.path` may be. OUT becomes a directory with the pages in their order, without headers: `pictures`, bytes
//! [N, SIZE, SIZE, 3], and `labels`, 32-bit floats [N, 4, SIZE, SIZE], in the order of `labels::Plane`.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, bail};
use tune_detection::example::{Example, Showing};
use tune_detection::labels::LabelSettings;
use tune_detection::read::{Placement, read};

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [pages, out, size] = &arguments[..] else {
        bail!("usage: maps PAGES OUT SIZE");
    };
    let showing = Showing {
        size: size.parse().context("SIZE")?,
        labels: LabelSettings::default(),
    };
    let pages = read(Path::new(pages), Placement::default())?;
    let out = Path::new(out);
    fs::create_dir_all(out).with_context(|| out.display().to_string())?;
    let mut pictures = BufWriter::new(File::create(out.join("pictures"))?);
    let mut labels = BufWriter::new(File::create(out.join("labels"))?);
    for page in &pages.pages {
        let example = Example::of(page, &showing, None)?;
        pictures.write_all(&example.pixels)?;
        for value in &example.labels.planes {
            labels.write_all(&value.to_ne_bytes())?;
        }
    }
    pictures.flush()?;
    Ok(labels.flush()?)
}
