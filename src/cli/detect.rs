//! `tune predict DIR PICTURES` and `tune evaluate DIR PAGES`, where the model finds texts in pictures.

use std::path::Path;

use super::evaluate::EvaluateArgs;
use super::predict::{PredictArgs, RowsArgs, may_write};
use super::{Common, libtorch};
use detection::description::ExportedDetector;
use detection::picture;
use detection::read::{Placement, read};
use device::{Device, probe};
use messages::exit::{Exit, Failure};
use request::torch_request::{Detect, EvaluatePages, TorchRequest};
use training::exported::DETECTION_FILE;

/// Whether a directory has a text detector.
pub(super) fn is_detector(dir: &Path) -> bool {
    dir.join(DETECTION_FILE).is_file()
}

/// The model of a text detector, without the flags that are for rows.
fn opened(rows: &RowsArgs, label: Option<&String>) -> Result<ExportedDetector, Failure> {
    let exported = ExportedDetector::open(&rows.dir)?;
    let of_rows = [
        ("--format", rows.format.is_some()),
        ("--text", rows.text.is_some()),
        ("--text-pair", rows.text_pair.is_some()),
        ("--batch-size", rows.batch_size.is_some()),
        ("--label", label.is_some()),
    ];
    match of_rows.iter().find(|(_, asked)| *asked) {
        None => Ok(exported),
        Some((flag, _)) => Err(Failure::input(format!(
            "{flag} is for rows: {} finds texts in pictures, one at a time; leave it out",
            rows.dir.display()
        ))),
    }
}

fn device(rows: &RowsArgs) -> Result<Device, Failure> {
    let devices = probe::resolve(&rows.device, true)?;
    Ok(devices.first().copied().unwrap_or(Device::Cpu))
}

pub(super) fn detect(common: &Common, args: &PredictArgs) -> Result<Exit, Failure> {
    let rows = &args.rows;
    let exported = opened(rows, None)?;
    let pictures = picture::listed(&rows.file)
        .map_err(|found| Failure::input(format!("{}: {found}", rows.file.display())))?;
    if let Some(out) = &args.out {
        may_write(
            out,
            &[("the picture", &rows.file)],
            (&rows.dir, &exported.files()),
        )?;
        let empty = std::fs::read_dir(out).map(|mut entries| entries.next().is_none());
        if out.exists() && !empty.unwrap_or(false) {
            return Err(Failure::input(format!(
                "--out {}: expected a directory that is new or empty",
                out.display()
            )));
        }
    }
    libtorch::run(&TorchRequest::Detect(Detect {
        model: rows.dir.clone(),
        pictures,
        // Lines on standard output are enough to see.
        bar: !common.quiet && args.out.is_some(),
        out: args.out.clone(),
        device: device(rows)?,
    }))
}

/// `tune evaluate DIR PAGES`.
pub(super) fn evaluate(common: &Common, args: &EvaluateArgs) -> Result<Exit, Failure> {
    let rows = &args.rows;
    opened(rows, args.label.as_ref())?;
    // Every problem of the pages is told before anything is computed.
    read(&rows.file, Placement::default()).and_then(|pages| pages.examine())?;
    libtorch::run(&TorchRequest::EvaluatePages(EvaluatePages {
        model: rows.dir.clone(),
        pages: rows.file.clone(),
        device: device(rows)?,
        bar: !common.quiet,
        json: common.json,
    }))
}
