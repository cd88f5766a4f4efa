//! `tune predict DIR PICTURES`, where the model finds texts in pictures.

use std::path::Path;

use super::predict::{PredictArgs, input, may_write};
use super::{Common, libtorch};
use detection::description::ExportedDetector;
use detection::picture;
use device::{Device, probe};
use messages::exit::{Exit, Failure};
use request::torch_request::{Detect, TorchRequest};
use training::exported::{DETECTION_FILE, WEIGHTS_FILE};

/// Whether a directory has a text detector.
pub(super) fn is_detector(dir: &Path) -> bool {
    dir.join(DETECTION_FILE).is_file()
}

pub(super) fn detect(common: &Common, args: &PredictArgs) -> Result<Exit, Failure> {
    let rows = &args.rows;
    let exported = ExportedDetector::open(&rows.dir).map_err(input)?;
    let of_rows = [
        ("--format", rows.format.is_some()),
        ("--text", rows.text.is_some()),
        ("--text-pair", rows.text_pair.is_some()),
        ("--batch-size", rows.batch_size.is_some()),
    ];
    if let Some((flag, _)) = of_rows.iter().find(|(_, asked)| *asked) {
        return Err(Failure::input(format!(
            "{flag} is for rows: {} finds texts in pictures, one at a time; leave it out",
            rows.dir.display()
        )));
    }
    let pictures = picture::listed(&rows.file)
        .map_err(|found| Failure::input(format!("{}: {found}", rows.file.display())))?;
    if let Some(out) = &args.out {
        let files = [DETECTION_FILE, WEIGHTS_FILE].map(|name| exported.dir.join(name));
        may_write(out, &[("the picture", &rows.file)], (&rows.dir, &files))?;
        let empty = std::fs::read_dir(out).map(|mut entries| entries.next().is_none());
        if out.exists() && !empty.unwrap_or(false) {
            return Err(Failure::input(format!(
                "--out {}: expected a directory that is new or empty",
                out.display()
            )));
        }
    }
    let devices = probe::resolve(&rows.device, true)?;
    libtorch::run(&TorchRequest::Detect(Detect {
        model: rows.dir.clone(),
        pictures,
        // Lines on standard output are enough to see.
        bar: !common.quiet && args.out.is_some(),
        out: args.out.clone(),
        device: devices.first().copied().unwrap_or(Device::Cpu),
    }))
}
