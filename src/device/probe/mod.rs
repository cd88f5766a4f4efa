//! Which devices there are. NVML and CUDA's libraries are touched only by a child process, the
//! hidden subcommand `probe`: where they hang or crash, nothing else does.

mod details;
mod line;
pub(super) mod nvml;
mod stream;

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use nvml_wrapper::error::NvmlError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use details::{Details, GpuDetails, Link, main as details};
pub use line::ProbeLine;
pub use nvml::LIBRARY;
pub use stream::{INTERVAL, main as stream};

use crate::{Device, DevicePolicy, search_path};
use messages::exit::{Exit, Failure};

/// How long the probe may take: it loads gigabytes of libraries, perhaps from a cold disk or over a
/// network.
pub const LIMIT: Duration = Duration::from_secs(60);

/// How long the end of its output is waited for, at least, once the probe has ended.
const CLOSED: Duration = Duration::from_secs(1);

/// A GPU, as NVML describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// Its index as CUDA counts, see [`Device`].
    pub index: usize,
    /// Product name.
    pub name: String,
    /// Memory, in bytes; 0: NVML does not tell (memory that is shared with the CPU).
    pub memory_total: u64,
}

/// What the probe found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProbeReport {
    /// All GPUs.
    #[serde(default)]
    pub gpus: Vec<Gpu>,
    /// Why libtorch cannot use them; of no concern to programs that bring their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub libtorch: Option<String>,
    /// Why GPUs cannot be used although there are signs of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl ProbeReport {
    fn error(text: impl Into<String>) -> ProbeReport {
        ProbeReport {
            gpus: vec![],
            libtorch: None,
            error: Some(text.into()),
        }
    }
}

/// The devices that a policy means on this machine, for libtorch or for programs. Asks the probe,
/// unless the policy is the CPU.
///
/// # Errors
/// Exit 9: what the policy wants is not there or cannot be used.
pub fn resolve(policy: &DevicePolicy, libtorch: bool) -> Result<Vec<Device>, Failure> {
    match policy {
        DevicePolicy::Cpu => Ok(vec![Device::Cpu]),
        DevicePolicy::Auto | DevicePolicy::Cuda(_) => {
            let mut report = ask();
            report.libtorch = report.libtorch.filter(|_| libtorch);
            decide(policy, &report)
        }
    }
}

/// The devices that a policy means where the probe found this. Pure.
///
/// # Errors
/// See [`resolve`].
pub fn decide(policy: &DevicePolicy, report: &ProbeReport) -> Result<Vec<Device>, Failure> {
    let wanted = match policy {
        DevicePolicy::Cpu => return Ok(vec![Device::Cpu]),
        DevicePolicy::Auto => None,
        DevicePolicy::Cuda(indices) => Some(indices),
    };
    if let Some(error) = report.error.as_ref().or(report.libtorch.as_ref()) {
        return Err(unusable(error, &report.gpus));
    }
    let mut indices: Vec<usize> = match wanted {
        None if report.gpus.is_empty() => return Ok(vec![Device::Cpu]),
        Some(_) if report.gpus.is_empty() => {
            return Err(no_device(
                "no NVIDIA GPU was found, but the device `cuda` was asked for; \
                 `--device cpu` computes on the CPU",
            ));
        }
        Some(list) if !list.is_empty() => list.clone(),
        None | Some(_) => report.gpus.iter().map(|g| g.index).collect(),
    };
    if let Some(index) = indices
        .iter()
        .find(|i| !report.gpus.iter().any(|g| g.index == **i))
    {
        return Err(no_device(format!(
            "there is no GPU {index}; there is {}",
            list(&report.gpus)
        )));
    }
    indices.sort_unstable();
    indices.dedup();
    Ok(indices.into_iter().map(Device::Cuda).collect())
}

fn unusable(error: &str, gpus: &[Gpu]) -> Failure {
    let found = if gpus.is_empty() {
        "GPUs cannot be used".to_owned()
    } else {
        format!("{} cannot be used", list(gpus))
    };
    let install = if gpus.is_empty() {
        ""
    } else {
        "`make libtorch-cuda` installs CUDA's libraries for libtorch; "
    };
    no_device(format!(
        "{found}: {error}\n{install}`--device cpu` computes on the CPU"
    ))
}

fn no_device(message: impl Into<String>) -> Failure {
    Failure::new(Exit::Device, message)
}

fn list(gpus: &[Gpu]) -> String {
    gpus.iter()
        .map(|g| format!("GPU {} ({})", g.index, g.name))
        .collect::<Vec<_>>()
        .join(", ")
}

/// The memory of a GPU in all, in bytes, as the probe says; `None`: it does not.
pub fn memory_total(index: usize) -> Option<u64> {
    let gpus = ask().gpus;
    let gpu = gpus.iter().find(|g| g.index == index)?;
    (gpu.memory_total > 0).then_some(gpu.memory_total)
}

/// Runs the probe as a child process.
fn ask() -> ProbeReport {
    ask_for(&[], LIMIT).unwrap_or_else(|silence| ProbeReport::error(silence.to_string()))
}

/// Why a probe has told nothing.
#[derive(Debug)]
pub enum Silence {
    /// It could not be started.
    NotStarted(io::Error),
    /// It said nothing within this time, and was left behind.
    Hangs(Duration),
    /// It ended otherwise than with an answer.
    Ended(ExitStatus),
    /// It cannot be waited for.
    Lost(io::Error),
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Silence::NotStarted(error) => write!(f, "the probe cannot be started: {error}"),
            Silence::Hangs(limit) => write!(
                f,
                "the probe gave no answer within {} s: the NVIDIA driver hangs, or libtorch's CUDA \
                 libraries take longer to load",
                limit.as_secs_f64()
            ),
            Silence::Ended(status) => write!(f, "the probe ended with {status}"),
            Silence::Lost(error) => write!(f, "the probe is lost: {error}"),
        }
    }
}

/// Runs the probe in one of its modes (`--details`) as a child process, for so long, and reads its answer.
///
/// # Errors
/// It gives none.
pub fn ask_for<T: DeserializeOwned>(mode: &[&str], limit: Duration) -> Result<T, Silence> {
    let child = Command::new("/proc/self/exe")
        .arg("probe")
        .args(mode)
        // What workers will find, and not what this process has found.
        .envs(search_path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    answer(child.map_err(Silence::NotStarted)?, limit)
}

/// Waits for the probe's answer; a probe that takes too long is killed and not waited for, since
/// a process that hangs in the driver does not even die.
fn answer<T: DeserializeOwned>(mut child: Child, limit: Duration) -> Result<T, Silence> {
    let start = Instant::now();
    // Read while it runs: libraries may print more than a pipe holds before the answer.
    let text = child.stdout.take().map(last_line);
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if start.elapsed() < limit => std::thread::sleep(Duration::from_millis(5)),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.try_wait();
                return Err(Silence::Hangs(limit));
            }
            Err(error) => return Err(Silence::Lost(error)),
        }
    };
    // Somebody else may hold the pipe open: what the probe itself has said is there by now.
    let left = limit.saturating_sub(start.elapsed()).max(CLOSED);
    let last = text.and_then(|text| text.recv_timeout(left).ok());
    match serde_json::from_slice(&last.unwrap_or_default()) {
        Ok(report) if status.success() => Ok(report),
        Ok(_) | Err(_) => Err(Silence::Ended(status)),
    }
}

/// Reads to the end, on a thread of its own that is left behind where that never comes, and gives the
/// last line: libraries may print before the answer.
fn last_line(output: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let lines = BufReader::new(output).split(b'\n');
        let last = lines.map_while(Result::ok).last();
        let _ = tell.send(last.unwrap_or_default());
    });
    told
}

/// The hidden subcommand `probe`: prints a [`ProbeReport`] as one line of JSON. `load` has libtorch
/// made ready for a device, or says why it cannot be.
pub fn main(load: impl Fn(Device) -> Result<(), String>) -> ExitCode {
    print_line(&inventory(load))
}

/// Prints a probe's answer as one line of JSON.
pub fn print_line(answer: &impl Serialize) -> ExitCode {
    let written = serde_json::to_string(answer)
        .map_err(io::Error::from)
        .and_then(|line| writeln!(io::stdout(), "{line}"));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// The first GPU that CUDA counts, where NVML knows one. For a child: NVML may hang.
pub fn first_gpu() -> Option<Device> {
    let gpus = gpus().ok()?;
    gpus.first().map(|gpu| Device::Cuda(gpu.index))
}

/// Counts the GPUs, and sees whether libtorch could use them.
fn inventory(load: impl Fn(Device) -> Result<(), String>) -> ProbeReport {
    let gpus = match gpus() {
        Ok(gpus) => gpus,
        Err(NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound) => vec![],
        Err(error) => {
            let why = nvml::explain(&error);
            return ProbeReport::error(format!("the NVIDIA driver says: {why}"));
        }
    };
    let libtorch = gpus
        .first()
        .and_then(|gpu| load(Device::Cuda(gpu.index)).err());
    ProbeReport {
        gpus,
        libtorch,
        error: None,
    }
}

fn gpus() -> Result<Vec<Gpu>, NvmlError> {
    let nvml = nvml::open()?;
    nvml::gpus(&nvml)?
        .into_iter()
        .map(|gpu| {
            Ok(Gpu {
                index: gpu.index,
                name: gpu.handle.name()?,
                memory_total: nvml::memory(&gpu.handle).map_or(0, |(total, _)| total),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(count: usize) -> ProbeReport {
        ProbeReport {
            gpus: (0..count)
                .map(|index| Gpu {
                    index,
                    name: "Some GPU".into(),
                    memory_total: 1 << 34,
                })
                .collect(),
            libtorch: None,
            error: None,
        }
    }

    fn refusal(policy: DevicePolicy, report: &ProbeReport) -> String {
        let failure = decide(&policy, report).unwrap_err();
        assert_eq!(failure.exit, Exit::Device);
        failure.message
    }

    #[test]
    fn auto_takes_every_gpu_and_the_cpu_only_where_there_is_none() {
        let gpus = vec![Device::Cuda(0), Device::Cuda(1)];
        assert_eq!(decide(&DevicePolicy::Auto, &with(2)).unwrap(), gpus);
        let cpu = vec![Device::Cpu];
        assert_eq!(decide(&DevicePolicy::Auto, &with(0)).unwrap(), cpu);
    }

    #[test]
    fn auto_never_falls_back_silently_from_a_gpu_that_cannot_be_used() {
        let mut report = with(1);
        report.libtorch = Some("libcudart.so.13: cannot open".into());
        let message = refusal(DevicePolicy::Auto, &report);
        for part in [
            "Some GPU",
            "libcudart.so.13",
            "make libtorch-cuda",
            "--device cpu",
        ] {
            assert!(message.contains(part), "{message}");
        }
        let hung = ProbeReport::error("no answer");
        assert!(refusal(DevicePolicy::Auto, &hung).contains("no answer"));
    }

    #[test]
    fn asked_for_gpus_must_be_there() {
        assert!(refusal(DevicePolicy::Cuda(vec![]), &with(0)).contains("no NVIDIA GPU"));
        let message = refusal(DevicePolicy::Cuda(vec![0, 3]), &with(2));
        assert!(message.contains("no GPU 3") && message.contains("GPU 1 (Some GPU)"));
        assert_eq!(
            decide(&DevicePolicy::Cuda(vec![1, 1]), &with(2)).unwrap(),
            [Device::Cuda(1)]
        );
        assert_eq!(
            decide(&DevicePolicy::Cuda(vec![]), &with(2)).unwrap().len(),
            2
        );
    }

    #[test]
    fn the_cpu_is_never_refused() {
        let broken = ProbeReport::error("x");
        assert_eq!(decide(&DevicePolicy::Cpu, &broken).unwrap(), [Device::Cpu]);
    }

    #[test]
    fn a_hanging_or_dying_probe_is_an_error_in_time() {
        let run = |script: &str| -> Result<ProbeReport, String> {
            let child = Command::new("sh")
                .args(["-c", script])
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            answer(child, Duration::from_millis(300)).map_err(|e| e.to_string())
        };
        assert!(run("exec sleep 60").unwrap_err().contains("no answer"));
        assert!(run("kill -9 $$").unwrap_err().contains("signal: 9"));
        assert_eq!(
            run("echo noise; echo '{\"gpus\":[]}'"),
            Ok(ProbeReport::default())
        );
    }

    #[test]
    fn libraries_may_print_more_than_a_pipe_holds_before_the_answer() {
        let child = Command::new("sh")
            .args([
                "-c",
                "head -c 1000000 /dev/zero | tr '\\0' '\\n'; echo '{}'",
            ])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        assert_eq!(
            answer::<ProbeReport>(child, LIMIT).unwrap(),
            ProbeReport::default()
        );
    }

    #[test]
    fn the_report_is_the_documented_json() {
        let json = serde_json::to_string(&with(1)).unwrap();
        assert_eq!(
            json,
            r#"{"gpus":[{"index":0,"name":"Some GPU","memory_total":17179869184}]}"#
        );
    }
}
