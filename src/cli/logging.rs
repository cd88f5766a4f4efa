//! Where log records go: stderr by `-q` and `-v`, the run's log always.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use tracing_subscriber::filter::{EnvFilter, LevelFilter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

use super::Common;
use config::text_of;
use files::plain;
use messages::exit::Failure;
use report::Records;

/// What goes to stderr on its way there: a terminal that is held keeps nobody waiting.
static RECORDS: OnceLock<Arc<Records>> = OnceLock::new();

/// Starts logging. `TUNE_LOG`, else `RUST_LOG` (`debug`, `tune::store=trace`) replaces the level of `-q` and `-v`
/// on stderr; the run's log has level info. Later calls of the same process change nothing.
///
/// # Errors
/// The variable cannot be read (2), or the run's log cannot be opened (7).
pub fn init_logging(common: &Common, run_log: Option<PathBuf>) -> Result<(), Failure> {
    let records =
        Records::stderr().map_err(|e| Failure::internal(format!("cannot start threads: {e}")))?;
    let records = Arc::clone(RECORDS.get_or_init(|| Arc::new(records)));
    let stderr = fmt::layer()
        .with_writer(records)
        .with_ansi(false)
        // Where in the code it comes from is for developers.
        .with_target(filter_variable().is_some())
        // Reporting a closed stderr on stderr would panic.
        .log_internal_errors(false)
        .with_filter(stderr_filter(common)?);
    let file = match run_log {
        None => None,
        Some(path) => {
            let file = plain::open(&path, plain::For::Appending)
                .map_err(|e| Failure::storage(format!("{}: {e}", path.display())))?;
            let layer = fmt::layer()
                .with_writer(Mutex::new(file))
                .with_ansi(false)
                .with_target(false)
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

/// Notes a line that a run tells people on stdout: for the run's log.
pub(super) fn note_told(line: &str) {
    tracing::info!(target: "tune::told", "{line}");
}

/// Waits until all records are on stderr, as long as somebody reads; no more are written.
pub(super) fn flush() {
    if let Some(records) = RECORDS.get() {
        records.flush();
    }
}

/// Variables that say what developers want to see on stderr; the first that is set counts.
const FILTERS: [&str; 2] = ["TUNE_LOG", "RUST_LOG"];

fn filter_variable() -> Option<&'static str> {
    let set = |name: &&str| std::env::var_os(name).is_some_and(|v| !v.is_empty());
    FILTERS.into_iter().find(set)
}

fn stderr_filter(common: &Common) -> Result<EnvFilter, Failure> {
    let variable = filter_variable().unwrap_or(FILTERS[0]);
    let text = text_of(variable, |name| std::env::var_os(name));
    match text? {
        Some(text) => EnvFilter::try_new(&text)
            .map_err(|e| Failure::input(format!("{variable} = {text}: {e}"))),
        None => {
            let filter = EnvFilter::default().add_directive(level(common).into());
            // What a run tells on stdout.
            let told = "tune::told=off".parse();
            Ok(told.map_or_else(|_| EnvFilter::default(), |told| filter.add_directive(told)))
        }
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
