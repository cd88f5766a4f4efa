//! `--bundle FILE`: all that was found, to send to somebody.

use std::fmt::Write as _;
use std::path::Path;

use super::super::versioned;
use super::Found;
use crate::query::Answer;
use doctor::bundle::{allowed, redacted, secrets};
use files::replace;
use messages::exit::Failure;

/// Writes the report: the answer for people, variables that bear on a crash, and the answer for scripts.
///
/// # Errors
/// The file cannot be written (2).
pub(super) fn write(file: &Path, found: &Found) -> Result<(), Failure> {
    let variables = doctor::change::variables();
    let home = variables.get("HOME").cloned().unwrap_or_default();
    let mut text = format!("# tune doctor\n\ntune {}\n\n", env!("CARGO_PKG_VERSION"));
    text += "## What was found\n\n";
    text += &found.text();
    text += "\n## Variables\n\nOnly those that bear on a crash; no secrets.\n\n";
    for (name, value) in allowed(&variables) {
        let _ = writeln!(text, "    {name}={value}");
    }
    if let Some(output) = found.run.as_ref().map(super::matrix::RunAnswer::output) {
        let _ = write!(text, "\n## The end of what it printed\n\n");
        for line in output.lines() {
            let _ = writeln!(text, "    {line}");
        }
    }
    let _ = write!(
        text,
        "\n## The same for scripts\n\n{:#}\n",
        versioned(found)?
    );
    let words: Vec<String> = std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let told = redacted(&text, &secrets(&words, &variables), &home);
    replace::write(file, told.as_bytes())
        .map_err(|e| Failure::input(format!("{}: cannot be written: {e}", file.display())))
}
