//! One part of a device or of a task, tried by itself: what `tune doctor TASK` builds its ladder of. What is about to be
//! done is printed before it is, so that a crash has a place.

pub mod compare;
mod memory;
mod operations;

use std::io::Write;

use anyhow::{Context, Result, bail};
use config::kinds::{detection, text_classification};
use request::torch_request::{Rung, RungPart};

use crate::entry::{fall_back, load};
use crate::train;
use crate::{gpu, gpu::tch_device};
use messages::{Exit, Failure};

/// Tries a part and prints what was found.
pub fn rung(wanted: &Rung) -> Result<Exit, Failure> {
    at(&format!("libtorch's libraries, for {}", wanted.device));
    load(wanted.device)?;
    fall_back(&wanted.fallback_ops, wanted.device)?;
    // A reader that has gone away wants to hear nothing.
    // Some of libtorch's errors come as panics.
    let found = worker::catch(|| tried(wanted));
    let found = found.map_err(|captured| Failure::new(Exit::Breaker, captured.text))?;
    let _ = writeln!(std::io::stdout(), "{found}");
    Ok(Exit::Done)
}

fn tried(wanted: &Rung) -> Result<String> {
    let device = tch_device(wanted.device);
    gpu::seed(wanted.seed)?;
    match &wanted.part {
        RungPart::Environment => {
            at("the first memory of the device");
            gpu::memory::first_allocation(wanted.device)
                .context("the first memory of the device")?;
            gpu::health(wanted.device)?;
            Ok(format!("libtorch loads, {} answers", wanted.device))
        }
        RungPart::Fill => operations::fill(device),
        RungPart::MatrixProduct => operations::matrix_product(device, wanted.seed),
        RungPart::Convolution => operations::convolution(device, wanted.seed),
        RungPart::Memory { share } => memory::patterns(wanted.device, *share),
        RungPart::Task(spec, part) => match spec.kind.as_str() {
            kind if kind == text_classification::KIND.name => {
                train::text::rungs::task_part(spec, part, wanted)
            }
            kind if kind == detection::KIND.name => {
                train::detection::rungs::task_part(spec, part, wanted)
            }
            kind => bail!("no part of the task kind {kind} can be tried alone"),
        },
    }
}

/// Says what is about to be done.
pub fn at(what: &str) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "at: {what}");
    let _ = out.flush();
}
