//! The machine: what it has that makes trainings crash, compute wrongly, or slow. Facts are read into [`Facts`]; what they
//! mean is a pure function of them, a check each, in one table.

mod arithmetic;
mod disk;
mod gpu;
mod host;
mod kernel_log;
mod libraries;
mod limits;
mod load;
mod process_checks;
mod software;
pub mod table;
#[cfg(test)]
mod tests;
mod text;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{Check, Outcome};
use device::probe::{self, Details};

pub use libraries::Loaded;
pub use load::{Cards, Heat, under_load};
pub use text::{problems, text};

/// How long NVML may take where somebody waits for a short answer.
const SHORT: Duration = Duration::from_secs(10);

/// All that is known of the machine.
#[derive(Debug, Clone)]
pub struct Facts {
    host: host::Host,
    disk: disk::Disk,
    /// The environment, as far as it is UTF-8.
    variables: BTreeMap<String, String>,
    /// What a process maps that has loaded libtorch.
    loaded: Result<Loaded, libraries::Unloaded>,
    /// Libraries on `LD_LIBRARY_PATH` that stand before libtorch's.
    shadows: Vec<PathBuf>,
    gpus: Result<Details, String>,
    /// The processes on the GPUs.
    users: BTreeMap<u32, gpu::User>,
    /// Signs of a GPU without NVML: device files of the driver, or of WSL.
    devices: gpu::Devices,
    /// Architectures that libtorch's CUDA library has code for.
    architectures: Option<Vec<String>>,
    /// The kernel's log, or why it cannot be read.
    log: Result<Vec<String>, String>,
    sums: Option<arithmetic::Sums>,
}

impl Facts {
    /// Reads them; the project need not be there. Takes about a second, and longer where libtorch is loaded from a cold
    /// disk or the driver hangs: each child has its limit.
    pub fn read(project: &Path) -> Facts {
        let (host, loaded, gpus) = std::thread::scope(|scope| {
            let loaded = scope.spawn(libraries::look);
            let gpus = scope.spawn(|| details(probe::LIMIT));
            let host = host::look();
            let lost = || libraries::Unloaded::Other("the thread is lost".to_owned());
            let loaded = loaded.join().unwrap_or_else(|_| Err(lost()));
            let gpus = gpus
                .join()
                .unwrap_or_else(|_| Err("the thread is lost".to_owned()));
            (host, loaded, gpus)
        });
        // Each alone: loading gigabytes of libraries would slow the writes, and computing the rest.
        let disk = disk::look(project, true);
        let sums = arithmetic::look(host.usable.unwrap_or(1));
        let mut facts = Facts::of(host, disk, gpus, None);
        if facts
            .gpus
            .as_ref()
            .is_ok_and(|found| !found.gpus.is_empty())
        {
            let library = loaded.as_ref().ok().and_then(|loaded| {
                let library = loaded
                    .named("libtorch_cuda.so")
                    .first()
                    .map(|p| p.to_path_buf());
                library.or_else(|| Some(device::libtorch()?.join("lib/libtorch_cuda.so")))
            });
            facts.architectures = library.as_deref().and_then(libraries::architectures);
        }
        Facts {
            loaded,
            sums: Some(sums),
            ..facts
        }
    }

    /// Reads those that take less than a second and burden nothing; of processes that came to harm, those of the `last`
    /// so long.
    fn read_quickly(project: &Path, last: Duration) -> Facts {
        let disk = disk::look(project, false);
        Facts::of(host::look(), disk, details(SHORT), Some(last))
    }

    fn of(
        host: host::Host,
        disk: disk::Disk,
        gpus: Result<Details, String>,
        last: Option<Duration>,
    ) -> Facts {
        let variables = crate::change::variables();
        let search = variables.get("LD_LIBRARY_PATH").map_or("", String::as_str);
        Facts {
            shadows: libraries::shadows(search, device::libtorch().as_deref()),
            devices: gpu::Devices::look(),
            users: gpus.as_ref().map(gpu::users).unwrap_or_default(),
            host,
            disk,
            variables,
            loaded: Err(libraries::Unloaded::Other(
                "it takes too long here".to_owned(),
            )),
            gpus,
            architectures: None,
            log: kernel_log::look(last),
            sums: None,
        }
    }

    /// The value of a variable that is set and not empty.
    fn variable(&self, name: &str) -> Option<&str> {
        let value = self.variables.get(name).map(String::as_str);
        value.filter(|value| !value.is_empty())
    }

    /// Whether there is a GPU, or was meant to be one.
    fn has_gpu(&self) -> bool {
        self.devices.any() || !matches!(&self.gpus, Ok(d) if d.gpus.is_empty() && d.error.is_none())
    }
}

/// Whether this is WSL.
pub fn wsl() -> bool {
    host::wsl()
}

/// Bytes of `/dev/shm`; `None`: there is none.
pub fn shared_memory() -> Option<u64> {
    host::space(Path::new("/dev/shm")).map(|(total, _)| total)
}

fn details(limit: Duration) -> Result<Details, String> {
    probe::ask_for(&["--details"], limit).map_err(|silence| silence.to_string())
}

/// How a check came out, and what was seen.
type Finding = (Outcome, String);

fn passed(evidence: impl Into<String>) -> Finding {
    (Outcome::Passed, evidence.into())
}

fn warning(evidence: impl Into<String>) -> Finding {
    (Outcome::Warning, evidence.into())
}

fn failed(evidence: impl Into<String>) -> Finding {
    (Outcome::Failed, evidence.into())
}

/// What was seen as a failure, else as a warning, else as a check that passed.
fn graded(fails: bool, warns: bool, seen: String) -> Finding {
    match (fails, warns) {
        (true, _) => failed(seen),
        (false, true) => warning(seen),
        (false, false) => passed(seen),
    }
}

fn not_run(why: impl Into<String>) -> Finding {
    (Outcome::NotRun, why.into())
}

/// Every check, in the table's order. Pure.
pub fn judge(facts: &Facts) -> Vec<Check> {
    let check = |row: &table::Row| row.check((row.judge)(facts));
    table::ROWS.iter().map(check).collect()
}

/// All checks of the machine, for a project that need not be there: those that failed first, then those that warn, then
/// those that could not be run; of one kind, the most frequent true cause first.
pub fn checks(project: &Path) -> Vec<Check> {
    sorted(judge(&Facts::read(project)))
}

/// What failed or warns, of the checks that take less than a second: for the end of a run that
/// took so long. The driver may take 10 s.
pub fn quick(project: &Path, took: Duration) -> Vec<Check> {
    let mut checks = sorted(judge(&Facts::read_quickly(project, took)));
    checks.retain(|check| matches!(check.outcome, Outcome::Failed | Outcome::Warning));
    checks
}

fn sorted(mut checks: Vec<Check>) -> Vec<Check> {
    checks.sort_by_key(|check| match check.outcome {
        Outcome::Failed => 0,
        Outcome::Warning => 1,
        Outcome::NotRun => 2,
        Outcome::Passed => 3,
    });
    checks
}

/// A size in GB, for people; whole MB below one.
fn gb(bytes: u64) -> String {
    match bytes {
        b if b < 1 << 30 => format!("{} MB", b >> 20),
        b => format!("{:.1} GB", b as f64 / f64::from(1 << 30)),
    }
}

/// The first few of a list, and how many more there are.
fn some_of(list: &[String]) -> String {
    const SHOWN: usize = 3;
    let shown = list[..list.len().min(SHOWN)].join(", ");
    match list.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
