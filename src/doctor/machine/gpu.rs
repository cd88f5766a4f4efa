//! Checks of GPUs, of what NVML and the driver's files say.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::kernel_log::xid;
use super::{Facts, Finding, failed, gb, graded, not_run, passed, some_of, warning};
use crate::Outcome;
use device::probe::{Details, GpuDetails};

/// Codes of the driver that mean broken hardware, a lost card, or a program's memory that is lost with it; what programs
/// cause by themselves (13, 31, 43, 45) is left to `tune explain` (NVIDIA, "XID Errors").
const BROKEN: [u32; 16] = [
    32, 38, 48, 62, 63, 64, 74, 79, 92, 94, 95, 109, 119, 120, 140, 154,
];

/// The driver's files, outside NVML.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Devices {
    /// `/dev/nvidia0` and so on, and whether this user may open each.
    pub files: Vec<(PathBuf, bool)>,
    /// `/dev/nvidia-uvm`, without which CUDA cannot start.
    pub uvm: bool,
    /// `/dev/dxg`: WSL's way to the GPU.
    pub dxg: bool,
    /// The version of the kernel's module, of `/proc/driver/nvidia/version`.
    pub kernel_driver: Option<String>,
    /// Version in the name of the file that `libcuda.so.1` leads to, where one is in a usual place.
    pub libcuda: Option<(PathBuf, Option<String>)>,
    /// The control program of MPS runs.
    pub mps: bool,
}

impl Devices {
    pub(super) fn look() -> Devices {
        let entries = fs::read_dir("/dev").into_iter().flatten().flatten();
        let numbered = |name: &str| {
            let digits = name.strip_prefix("nvidia").filter(|d| !d.is_empty());
            digits.is_some_and(|d| d.bytes().all(|b| b.is_ascii_digit()))
        };
        let mut files: Vec<(PathBuf, bool)> = entries
            .filter(|e| e.file_name().to_str().is_some_and(numbered))
            .map(|e| e.path())
            .map(|path| {
                let flags = nix::unistd::AccessFlags::R_OK | nix::unistd::AccessFlags::W_OK;
                let open = nix::unistd::access(&path, flags).is_ok();
                (path, open)
            })
            .collect();
        files.sort();
        let version = fs::read_to_string("/proc/driver/nvidia/version").ok();
        Devices {
            files,
            uvm: Path::new("/dev/nvidia-uvm").exists(),
            dxg: Path::new("/dev/dxg").exists(),
            kernel_driver: version.as_deref().and_then(kernel_version),
            libcuda: libcuda(),
            mps: mps_runs(),
        }
    }

    /// Whether there are signs of a GPU.
    pub(super) fn any(&self) -> bool {
        !self.files.is_empty() || self.dxg || self.kernel_driver.is_some()
    }
}

/// `580.65.06` of `NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 ...`.
fn kernel_version(text: &str) -> Option<String> {
    let line = text.lines().find(|l| l.contains("NVRM version"))?;
    line.split_whitespace()
        .find(|w| version_like(w))
        .map(str::to_owned)
}

fn version_like(word: &str) -> bool {
    let mut parts = word.split('.');
    word.contains('.') && parts.all(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()))
}

fn libcuda() -> Option<(PathBuf, Option<String>)> {
    const PLACES: [&str; 6] = [
        "/usr/lib/wsl/lib",
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/local/nvidia/lib64",
        "/usr/lib",
    ];
    let places = PLACES.iter().map(|dir| Path::new(dir).join("libcuda.so.1"));
    let found = places.into_iter().find(|path| path.exists())?;
    Some((found.clone(), file_version(&found.canonicalize().ok()?)))
}

/// The version at the end of a library's name.
fn file_version(path: &Path) -> Option<String> {
    let (_, version) = path.file_name()?.to_str()?.split_once(".so.")?;
    version_like(version).then(|| version.to_owned())
}

fn mps_runs() -> bool {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut names = entries.filter_map(|e| fs::read_to_string(e.path().join("comm")).ok());
    names.any(|name| name.starts_with("nvidia-cuda-mps"))
}

/// What NVML tells, where it tells what is asked for, or why a check of it could not be run.
fn details_where(facts: &Facts, tells: impl Fn(&Details) -> bool) -> Result<&Details, Finding> {
    match &facts.gpus {
        Ok(details) if tells(details) => Ok(details),
        Ok(details) if details.error.is_some() => Err(not_run("NVML cannot be used")),
        Ok(_) => Err(not_run("no NVIDIA GPU")),
        Err(_) => Err(not_run("NVML gave no answer")),
    }
}

/// The worst of what a check finds of each GPU; could not be run where there is none.
pub(super) fn each(facts: &Facts, judge: impl Fn(&GpuDetails) -> Finding) -> Finding {
    let gpus = match details_where(facts, |details| !details.gpus.is_empty()) {
        Ok(details) => &details.gpus,
        Err(not_run) => return not_run,
    };
    let found: Vec<(usize, Finding)> = gpus.iter().map(|g| (g.sample.index, judge(g))).collect();
    let rank = |outcome| match outcome {
        Outcome::Failed => 3,
        Outcome::Warning => 2,
        Outcome::Passed => 1,
        Outcome::NotRun => 0,
    };
    let worst = found
        .iter()
        .map(|(_, (outcome, _))| *outcome)
        .max_by_key(|o| rank(*o));
    let worst = worst.unwrap_or(Outcome::NotRun);
    let those = found.iter().filter(|(_, (outcome, _))| *outcome == worst);
    let seen: Vec<String> = those
        .map(|(index, (_, text))| match (worst, gpus.len()) {
            (Outcome::NotRun, _) => text.clone(),
            _ => format!("GPU {index}: {text}"),
        })
        .collect();
    let mut seen = seen;
    seen.dedup();
    (worst, seen.join("; "))
}

pub(super) fn gpus(facts: &Facts) -> Finding {
    let devices = &facts.devices;
    let closed: Vec<String> = devices
        .files
        .iter()
        .filter(|f| !f.1)
        .map(|f| f.0.display().to_string())
        .collect();
    let details = match &facts.gpus {
        Err(why) => return failed(format!("NVML: {why}")),
        Ok(details) => details,
    };
    if !closed.is_empty() {
        return failed(format!("this user may not open {}", some_of(&closed)));
    }
    if let Some(why) = &details.error {
        return failed(format!("NVML: {why}"));
    }
    if !devices.files.is_empty() && !devices.uvm {
        return failed("/dev/nvidia-uvm is missing: CUDA cannot start");
    }
    let hidden = facts.variables.get("CUDA_VISIBLE_DEVICES");
    let names: Vec<String> = (details.gpus.iter())
        .map(|gpu| {
            format!(
                "GPU {}: {}, {}",
                gpu.sample.index,
                gpu.name,
                gb(gpu.sample.memory_total)
            )
        })
        .collect();
    match (names.is_empty(), hidden) {
        (false, _) => passed(names.join("; ")),
        (true, Some(list)) if devices.any() => {
            warning(format!("CUDA_VISIBLE_DEVICES={list} hides every GPU"))
        }
        (true, _) if devices.any() => {
            failed("the driver is there, but NVML is not or knows no GPU")
        }
        (true, _) => passed("no NVIDIA GPU; trials train on the CPU"),
    }
}

/// The major version of CUDA in the name of a runtime library: 13 of `libcudart.so.13` or `libcudart.so.13.0.96`.
fn runtime(facts: &Facts) -> Option<u32> {
    let loaded = facts.loaded.as_ref().ok()?;
    let found = loaded.named("libcudart");
    let (_, version) = found.first()?.to_str()?.split_once(".so.")?;
    version.split('.').next()?.parse().ok()
}

pub(super) fn driver_versions(facts: &Facts) -> Finding {
    let kernel = facts.devices.kernel_driver.as_deref();
    let details = match details_where(facts, |d| d.driver.is_some() || kernel.is_some()) {
        Ok(details) => details,
        Err(not_run) => return not_run,
    };
    // NVML's own version begins with that of its interface: 13.580.65.06.
    let nvml = details
        .nvml
        .as_deref()
        .and_then(|v| v.split_once('.'))
        .map(|(_, v)| v);
    let libcuda = facts
        .devices
        .libcuda
        .as_ref()
        .and_then(|(_, version)| version.as_deref());
    let kernel = kernel.or(details.driver.as_deref());
    let known = |version: Option<&str>| version.unwrap_or("unknown").to_owned();
    let mut seen = format!(
        "kernel {}, libcuda {}, NVML {}",
        known(kernel),
        known(libcuda),
        known(nvml)
    );
    let newest = details.cuda.map(|v| (v / 1000, v % 1000 / 10));
    if let Some((major, minor)) = newest {
        seen.push_str(&format!(", for CUDA up to {major}.{minor}"));
    }
    let runtime = runtime(facts);
    if let Some(runtime) = runtime {
        seen.push_str(&format!("; libtorch needs CUDA {runtime}"));
    }
    // Under WSL the kernel's side is Windows' driver, which counts otherwise.
    let differ = !facts.host.wsl
        && [libcuda, nvml]
            .into_iter()
            .flatten()
            .any(|v| Some(v) != kernel);
    let too_old = matches!((newest, runtime), (Some((major, _)), Some(needed)) if major < needed);
    graded(differ || too_old, false, seen)
}

/// A process on a GPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// Its name; empty where it is not to be seen from here.
    pub name: String,
    /// It was started by a run of `tune` whose supervisor is gone.
    pub orphan: bool,
}

/// The processes that NVML names, as `/proc` has them.
pub(super) fn users(details: &Details) -> BTreeMap<u32, User> {
    let pids = details
        .gpus
        .iter()
        .flat_map(|gpu| gpu.sample.processes.keys());
    let user = |pid: &u32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let name = name.trim().to_owned();
        let orphan = process::orphans::outlives_its_supervisor(*pid);
        (*pid, User { name, orphan })
    };
    pids.map(user).collect()
}

pub(super) fn gpu_processes(facts: &Facts) -> Finding {
    each(facts, |gpu| {
        let sample = &gpu.sample;
        let user = |pid: &u32| facts.users.get(pid).cloned().unwrap_or_default();
        let shown = |(pid, bytes): (&u32, &u64)| {
            let user = user(pid);
            let name = match user.name.as_str() {
                "" => "not to be seen from here",
                name => name,
            };
            let orphan = if user.orphan {
                ", left by a run of tune that is gone"
            } else {
                ""
            };
            format!("process {pid} ({name}{orphan}) uses {}", gb(*bytes))
        };
        let list: Vec<String> = sample.processes.iter().map(shown).collect();
        let orphans = sample.processes.keys().any(|pid| user(pid).orphan);
        let free = sample.memory_total.saturating_sub(sample.memory_used);
        let seen = format!("{} of {} free", gb(free), gb(sample.memory_total));
        let used = sample.memory_used as f64 / sample.memory_total.max(1) as f64;
        match list.is_empty() {
            false if orphans || used > 0.5 => failed(format!("{seen}; {}", some_of(&list))),
            false => warning(format!("{seen}; {}", some_of(&list))),
            true if used > 0.1 => warning(format!(
                "{seen}, used by processes that are not listed: of another container, or gone"
            )),
            true => passed(seen),
        }
    })
}

pub(super) fn xids(facts: &Facts) -> Finding {
    let lines = match &facts.log {
        _ if !facts.has_gpu() => return not_run("no NVIDIA GPU"),
        Ok(lines) => lines,
        Err(why) => return not_run(why.clone()),
    };
    let of = |holds: &dyn Fn(u32) -> bool| -> Vec<String> {
        let found = lines.iter().rev().filter(|l| xid(l).is_some_and(holds));
        found.cloned().collect()
    };
    let (broken, other) = (of(&|x| BROKEN.contains(&x)), of(&|x| !BROKEN.contains(&x)));
    match (broken.is_empty(), other.is_empty()) {
        (false, _) => failed(some_of(&broken)),
        (true, false) => warning(some_of(&other)),
        (true, true) => passed("none since boot"),
    }
}

pub(super) fn gpu_memory_errors(facts: &Facts) -> Finding {
    each(facts, |gpu| {
        let (errors, rows) = (gpu.sample.ecc_uncorrected, gpu.sample.remapped_rows);
        let mut seen = vec![match (gpu.ecc, errors) {
            (Some(false), _) => "no error correction".to_owned(),
            (_, Some(count)) => format!("{count} uncorrected errors since the driver was loaded"),
            (Some(true), None) => "error correction is on".to_owned(),
            (None, None) => return not_run("the card has no error correction"),
        }];
        seen.extend(rows.map(|n| format!("{n} rows replaced")));
        let flags = [
            (gpu.remap_pending, "a row waits for a reset to be replaced"),
            (gpu.remap_failed, "a row could not be replaced"),
        ];
        seen.extend(
            flags
                .iter()
                .filter(|f| f.0 == Some(true))
                .map(|f| f.1.to_owned()),
        );
        let bad = flags.iter().any(|f| f.0 == Some(true)) || errors.is_some_and(|n| n > 0);
        graded(bad, rows.is_some_and(|n| n > 0), seen.join(", "))
    })
}

pub(super) fn recovery_action(facts: &Facts) -> Finding {
    each(facts, |gpu| match &gpu.sample.recovery_action {
        Some(action) => failed(format!("the driver asks for: {action}")),
        None => passed("none asked for"),
    })
}

pub(super) fn gpu_clocks(facts: &Facts) -> Finding {
    each(facts, |gpu| {
        let offsets = gpu.clock_offsets;
        let clocks = gpu.application_clocks;
        let mut seen = Vec::new();
        seen.extend(
            offsets.map(|(core, memory)| {
                format!("offsets {core:+} MHz (core), {memory:+} MHz (memory)")
            }),
        );
        seen.extend(
            clocks
                .map(|(now, usual)| format!("applications get {now} MHz, by default {usual} MHz")),
        );
        let seen = seen.join("; ");
        let over = offsets.is_some_and(|(core, memory)| core > 0 || memory > 0);
        let changed =
            clocks.is_some_and(|(now, usual)| now != usual) || offsets.is_some_and(|o| o != (0, 0));
        match () {
            () if seen.is_empty() => not_run("NVML does not tell the clocks' settings"),
            () if over => failed(format!("overclocked: {seen}")),
            () => graded(false, changed, seen),
        }
    })
}

pub(super) fn gpu_heat_and_power(facts: &Facts) -> Finding {
    each(facts, |gpu| {
        let sample = &gpu.sample;
        let mut seen = Vec::new();
        seen.extend(sample.temperature.map(|now| match gpu.slowdown_at {
            Some(limit) => format!("{now} °C, slows down at {limit} °C"),
            None => format!("{now} °C"),
        }));
        seen.extend(
            gpu.power_caps
                .map(|(now, usual)| format!("power cap {now:.0} W, by default {usual:.0} W")),
        );
        if !sample.throttle.is_empty() {
            seen.push(format!("slowed down by {}", sample.throttle.join(", ")));
        }
        let hot = matches!((sample.temperature, gpu.slowdown_at), (Some(now), Some(limit)) if now + 3 >= limit);
        let capped = gpu
            .power_caps
            .is_some_and(|(now, usual)| now < usual * 0.95);
        let braked = sample.throttle.iter().any(|r| r.contains("slowdown"));
        if seen.is_empty() {
            return not_run("NVML tells neither");
        }
        graded(false, hot || capped || braked, seen.join("; "))
    })
}

pub(super) fn pcie(facts: &Facts) -> Finding {
    each(facts, |gpu| {
        let Some(link) = gpu.pcie else {
            return not_run("NVML does not tell the link");
        };
        let mut seen = format!(
            "generation {} x{} now, at most {} x{}",
            link.generation, link.width, link.max_generation, link.max_width
        );
        let (before, after) = gpu.replays.unwrap_or_default();
        if gpu.replays.is_some() {
            seen.push_str(&format!(
                "; {after} replays, {} of them in 0.3 s",
                after.saturating_sub(before)
            ));
        }
        // An idle card lowers the generation, and never the width.
        graded(false, link.width < link.max_width || after > before, seen)
    })
}

pub(super) fn persistence(facts: &Facts) -> Finding {
    each(facts, |gpu| match gpu.persistence {
        Some(true) => passed("on"),
        // Windows keeps its driver loaded.
        Some(false) if facts.host.wsl => passed("off, as under WSL"),
        Some(false) => warning("off"),
        None => not_run("NVML does not tell"),
    })
}

pub(super) fn compute_mode(facts: &Facts) -> Finding {
    each(facts, |gpu| {
        let mut seen = Vec::new();
        seen.extend(
            gpu.compute_mode
                .as_ref()
                .map(|mode| format!("compute mode {mode}")),
        );
        seen.extend(
            gpu.mig
                .map(|on| if on { "divided (MIG)" } else { "not divided" }.to_owned()),
        );
        if facts.devices.mps {
            seen.push("MPS runs".to_owned());
        }
        let exclusive = gpu.compute_mode.as_deref() == Some("exclusive_process");
        let seen = seen.join(", ");
        match gpu.compute_mode.as_deref() {
            Some("prohibited") => failed(seen),
            _ if exclusive && !gpu.sample.processes.is_empty() && !facts.devices.mps => {
                failed(seen)
            }
            _ if exclusive || gpu.mig == Some(true) || facts.devices.mps => warning(seen),
            _ if seen.is_empty() => not_run("NVML does not tell"),
            _ => passed(seen),
        }
    })
}

pub(super) fn wsl(facts: &Facts) -> Finding {
    if !facts.host.wsl {
        return passed("this is not WSL");
    }
    let version = facts.gpus.as_ref().ok().and_then(|d| d.driver.as_deref());
    let driver = format!("driver of Windows {}", version.unwrap_or("unknown"));
    let dxg: Vec<String> = facts
        .log
        .iter()
        .flatten()
        .rev()
        .filter(|l| l.contains("dxgkio") && l.contains("-12"))
        .cloned()
        .collect();
    let mapped = facts
        .loaded
        .as_ref()
        .map(|l| l.named("libcuda.so"))
        .unwrap_or_default();
    let installed = facts
        .devices
        .libcuda
        .as_ref()
        .map(|(path, _)| path.as_path());
    let used = mapped.first().copied().or(installed);
    match used {
        _ if !facts.devices.dxg => {
            failed("/dev/dxg is missing: this distribution has no way to the GPU")
        }
        Some(path) if !path.starts_with("/usr/lib/wsl") => failed(format!(
            "{driver}; libcuda is {}, not that of /usr/lib/wsl/lib",
            path.display()
        )),
        _ if !dxg.is_empty() => failed(format!("{driver}; {}", some_of(&dxg))),
        _ => warning(format!(
            "{driver}; Windows resets a GPU whose kernel takes more than 2 s (TDR)"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_where_the_driver_writes_them() {
        let text = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 07:15:18 UTC 2025\n\
                    GCC version:  gcc version 13.3.0\n";
        assert_eq!(kernel_version(text).as_deref(), Some("580.65.06"));
        let open =
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  575.57.08  Release Build\n";
        assert_eq!(kernel_version(open).as_deref(), Some("575.57.08"));
        assert_eq!(
            file_version(Path::new("/x/libcuda.so.580.65.06")).as_deref(),
            Some("580.65.06")
        );
        assert_eq!(
            file_version(Path::new("/usr/lib/wsl/lib/libcuda.so.1")),
            None
        );
    }
}
