//! Where log records go: stderr by `-q` and `-v`, the run's log always.

use std::fs::OpenOptions;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::Mutex;

use tracing_subscriber::filter::{EnvFilter, LevelFilter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

use super::Common;
use crate::exit::Failure;

/// Starts logging. `TUNE_LOG` (`debug`, `tune::store=trace`) replaces the level of `-q` and `-v`
/// on stderr; the run's log has level info. Later calls of the same process change nothing.
///
/// # Errors
/// `TUNE_LOG` cannot be read (2), or the run's log cannot be opened (7).
pub fn init_logging(common: &Common, run_log: Option<PathBuf>) -> Result<(), Failure> {
    let color =
        io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let stderr = fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(color)
        // Reporting a closed stderr on stderr would panic.
        .log_internal_errors(false)
        .with_filter(stderr_filter(common)?);
    let file = match run_log {
        None => None,
        Some(path) => {
            let file = OpenOptions::new()
                .create(true)
                .append(true)
                .open(&path)
                .map_err(|e| Failure::storage(format!("{}: {e}", path.display())))?;
            let layer = fmt::layer()
                .with_writer(Mutex::new(file))
                .with_ansi(false)
                .log_internal_errors(false)
                .with_filter(LevelFilter::INFO);
            Some(layer)
        }
    };
    tracing_subscriber::registry()
        .with(stderr)
        .with(file)
        .try_init()
        .ok();
    Ok(())
}

fn stderr_filter(common: &Common) -> Result<EnvFilter, Failure> {
    match std::env::var("TUNE_LOG") {
        Ok(text) if !text.is_empty() => {
            EnvFilter::try_new(&text).map_err(|e| Failure::input(format!("TUNE_LOG = {text}: {e}")))
        }
        Ok(_) | Err(_) => Ok(EnvFilter::default().add_directive(level(common).into())),
    }
}

fn level(common: &Common) -> LevelFilter {
    match (common.quiet, common.verbose) {
        (true, _) => LevelFilter::ERROR,
        (false, 0) => LevelFilter::WARN,
        (false, 1) => LevelFilter::INFO,
        (false, 2) => LevelFilter::DEBUG,
        (false, 3..) => LevelFilter::TRACE,
    }
}
