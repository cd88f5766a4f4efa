//! Reading NVML: opening it, which GPUs count, and one GPU's figures.

use std::collections::BTreeMap;

use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, EccCounter, MemoryError, TemperatureSensor};
use nvml_wrapper::enums::device::{SampleValue, UsedGpuMemory};
use nvml_wrapper::error::{NvmlError, nvml_sym, nvml_try};
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::sys_exports::field_id::{
    NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, NVML_FI_DEV_REMAPPED_UNC,
};
use nvml_wrapper::{Device as Handle, Nvml};

use crate::GpuSample;

/// Names another NVML library than the system's; with it, a run watches GPUs whatever its devices.
pub const LIBRARY: &str = "TUNE_NVML";

/// Opens NVML.
///
/// # Errors
/// There is no library, it lacks what every version has, or it cannot talk to the driver.
pub fn open() -> Result<Nvml, NvmlError> {
    match std::env::var_os(LIBRARY) {
        Some(library) => Nvml::builder().lib_path(&library).init(),
        None => Nvml::init(),
    }
}

/// A GPU that CUDA counts.
pub struct Gpu<'a> {
    /// Its index as CUDA counts, which is that of [`crate::Device`].
    pub index: usize,
    /// NVML's name for it.
    pub handle: Handle<'a>,
}

/// The GPUs that CUDA counts, in its order, but for those that are lost already.
///
/// # Errors
/// NVML cannot list them, or all are lost.
pub fn gpus(nvml: &Nvml) -> Result<Vec<Gpu<'_>>, NvmlError> {
    let list = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    let count = nvml.device_count()? as usize;
    let order = match &list {
        None => (0..count).collect(),
        Some(list) => {
            let uuids = (0..count).map(|index| {
                let handle = nvml.device_by_index(index as u32);
                handle.and_then(|h| h.uuid()).unwrap_or_default()
            });
            let uuids: Vec<String> = uuids.collect();
            visible(list, &uuids, |uuid| parent(nvml, uuid))
        }
    };
    let mut found = Vec::new();
    let mut lost = None;
    for (index, nvml_index) in order.into_iter().enumerate() {
        match nvml.device_by_index(nvml_index as u32) {
            Ok(handle) => found.push(Gpu { index, handle }),
            Err(error @ NvmlError::GpuLost) => lost = Some(error),
            Err(error) => return Err(error),
        }
    }
    match lost {
        Some(error) if found.is_empty() => Err(error),
        Some(_) | None => Ok(found),
    }
}

/// NVML's index of the GPU that a part of a GPU (MIG) belongs to.
fn parent(nvml: &Nvml, uuid: &str) -> Option<usize> {
    let part = nvml.device_by_uuid(uuid).ok()?;
    let index = part.mig_parent_device().ok()?.index().ok()?;
    usize::try_from(index).ok()
}

/// NVML's indices of the GPUs that CUDA counts, where `CUDA_VISIBLE_DEVICES` is this list: indices,
/// or beginnings of UUIDs. As in CUDA, the first entry that names no GPU, or one that stands before
/// it already, ends the list.
fn visible(list: &str, uuids: &[String], parent: impl Fn(&str) -> Option<usize>) -> Vec<usize> {
    let mut found = Vec::new();
    for entry in list.split(',').map(str::trim) {
        let index = match entry.parse::<usize>() {
            Ok(index) => Some(index).filter(|i| *i < uuids.len()),
            Err(_) if entry.starts_with("MIG-") => parent(entry),
            Err(_) if entry.starts_with("GPU-") => {
                let mut named = (0..uuids.len()).filter(|i| uuids[*i].starts_with(entry));
                named.next().filter(|_| named.next().is_none())
            }
            Err(_) => None,
        };
        match index {
            Some(index) if !found.contains(&index) => found.push(index),
            Some(_) | None => break,
        }
    }
    found
}

/// A GPU's memory: in all, and what is not free, in bytes. That is what processes use and what the
/// driver keeps for itself.
///
/// # Errors
/// NVML does not tell.
pub fn memory(gpu: &Handle<'_>) -> Result<(u64, u64), NvmlError> {
    match gpu.memory_info() {
        Ok(info) => Ok((info.total, info.total.saturating_sub(info.free))),
        Err(NvmlError::FailedToLoadSymbol(_) | NvmlError::FunctionNotFound) => old_memory(gpu),
        Err(error) => Err(error),
    }
}

/// The same of a driver before 510.
fn old_memory(gpu: &Handle<'_>) -> Result<(u64, u64), NvmlError> {
    let call = nvml_sym(gpu.nvml().lib().nvmlDeviceGetMemoryInfo.as_ref())?;
    // SAFETY: plain numbers, for which zero is a value.
    let mut info = unsafe { std::mem::zeroed() };
    // SAFETY: NVML gave the handle and is not shut down; `info` is the structure that this function
    // fills, of the type that its signature says.
    nvml_try(unsafe { call(gpu.handle(), &mut info) })?;
    Ok((info.total, info.total.saturating_sub(info.free)))
}

/// What a GPU is at. A figure that NVML does not have is left out.
///
/// # Errors
/// The GPU itself is gone or needs a reset.
pub fn read(gpu: &Gpu<'_>) -> Result<GpuSample, NvmlError> {
    let handle = &gpu.handle;
    let (memory_total, memory_used) = told(memory(handle))?.unwrap_or_default();
    let fields = fields(
        handle,
        &[
            NVML_FI_DEV_REMAPPED_UNC,
            NVML_FI_DEV_GET_GPU_RECOVERY_ACTION,
        ],
    )?;
    let power = told(handle.power_usage())?;
    let reasons = told(handle.current_throttle_reasons())?;
    Ok(GpuSample {
        index: gpu.index,
        memory_total,
        memory_used,
        processes: processes(handle)?,
        utilization: told(handle.utilization_rates())?.map(|u| u.gpu),
        temperature: told(handle.temperature(TemperatureSensor::Gpu))?,
        power: power.map(|milliwatts| f64::from(milliwatts) / 1e3),
        clock: told(handle.clock_info(Clock::SM))?,
        throttle: reasons.map(throttling).unwrap_or_default(),
        ecc_uncorrected: told(
            handle.total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile),
        )?,
        remapped_rows: fields[0].and_then(|rows| u32::try_from(rows).ok()),
        recovery_action: fields[1].and_then(recovery),
    })
}

/// A figure, if NVML has it.
fn told<T>(answer: Result<T, NvmlError>) -> Result<Option<T>, NvmlError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error @ (NvmlError::GpuLost | NvmlError::ResetRequired)) => Err(error),
        Err(_) => Ok(None),
    }
}

/// The memory of each process that computes on a GPU, in bytes, by its id; those whose memory NVML does
/// not tell are left out.
///
/// # Errors
/// The GPU itself is gone or needs a reset.
pub fn processes(handle: &Handle<'_>) -> Result<BTreeMap<u32, u64>, NvmlError> {
    let mut found = BTreeMap::new();
    for process in told(handle.running_compute_processes())?.unwrap_or_default() {
        if let UsedGpuMemory::Used(bytes) = process.used_gpu_memory {
            *found.entry(process.pid).or_default() += bytes;
        }
    }
    Ok(found)
}

/// Fields of a GPU by their numbers; those that NVML does not tell are left out.
///
/// # Errors
/// The GPU itself is gone or needs a reset.
pub(super) fn fields<const N: usize>(
    handle: &Handle<'_>,
    numbers: &[u32; N],
) -> Result<[Option<u64>; N], NvmlError> {
    let ids = numbers.map(FieldId);
    let samples = told(handle.field_values_for(&ids))?.unwrap_or_default();
    let mut found = [None; N];
    for (slot, sample) in found.iter_mut().zip(samples) {
        *slot = match sample.and_then(|s| s.value) {
            Ok(SampleValue::U32(value)) => Some(u64::from(value)),
            Ok(SampleValue::U64(value)) => Some(value),
            Ok(SampleValue::I64(value)) => u64::try_from(value).ok(),
            Ok(SampleValue::F64(_)) | Err(_) => None,
        };
    }
    Ok(found)
}

/// The words for what the driver wants done to a GPU; nothing for nothing.
fn recovery(action: u64) -> Option<String> {
    let word = match action {
        0 => return None,
        1 => "reset",
        2 => "reboot",
        3 => "drain_p2p",
        4 => "drain_and_reset",
        other => return Some(format!("action_{other}")),
    };
    Some(word.to_owned())
}

/// Why a GPU is slower than it could be. That it has nothing to do is no such reason.
fn throttling(reasons: ThrottleReasons) -> Vec<String> {
    let words = [
        (
            ThrottleReasons::APPLICATIONS_CLOCKS_SETTING,
            "applications_clocks_setting",
        ),
        (ThrottleReasons::SW_POWER_CAP, "sw_power_cap"),
        (ThrottleReasons::HW_SLOWDOWN, "hw_slowdown"),
        (ThrottleReasons::SYNC_BOOST, "sync_boost"),
        (ThrottleReasons::SW_THERMAL_SLOWDOWN, "sw_thermal_slowdown"),
        (ThrottleReasons::HW_THERMAL_SLOWDOWN, "hw_thermal_slowdown"),
        (
            ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN,
            "hw_power_brake_slowdown",
        ),
        (
            ThrottleReasons::DISPLAY_CLOCK_SETTING,
            "display_clock_setting",
        ),
    ];
    let held = words
        .into_iter()
        .filter(|(reason, _)| reasons.contains(*reason));
    held.map(|(_, word)| word.to_owned()).collect()
}

/// What an error of NVML means, for people.
pub fn explain(error: &NvmlError) -> String {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the enum is another crate's, and its own words do for the rest"
    )]
    match error {
        NvmlError::LibloadingError(error) => format!("its library cannot be loaded ({error})"),
        NvmlError::FailedToLoadSymbol(error) => {
            format!("its library lacks a function that every version has ({error})")
        }
        NvmlError::DriverNotLoaded => "the NVIDIA driver is not loaded".to_owned(),
        NvmlError::LibRmVersionMismatch => {
            "its library is of another version than the driver that is loaded: after an update of \
             the driver the machine has to be restarted"
                .to_owned()
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(list: &str) -> Vec<usize> {
        let uuids = ["GPU-11aa", "GPU-22bb", "GPU-22cc"].map(str::to_owned);
        visible(list, &uuids, |uuid| (uuid == "MIG-9").then_some(2))
    }

    #[test]
    fn gpus_are_counted_as_cuda_counts_them() {
        assert_eq!(order("2,0"), [2, 0]);
        assert_eq!(order("GPU-22c, GPU-11aa"), [2, 0]);
        assert_eq!(order("MIG-9"), [2]);
        assert_eq!(order(""), [0; 0], "an empty list hides all");
    }

    #[test]
    fn an_entry_that_names_no_gpu_ends_the_list() {
        assert_eq!(order("1,7,0"), [1]);
        assert_eq!(order("-1"), [0; 0]);
        assert_eq!(order("0,0,1"), [0], "one GPU twice");
        assert_eq!(order("GPU-22,0"), [0; 0], "two GPUs begin so");
    }

    #[test]
    fn an_idle_gpu_is_not_throttled() {
        let idle = ThrottleReasons::GPU_IDLE;
        assert_eq!(throttling(idle), [""; 0]);
        let hot = idle | ThrottleReasons::SW_THERMAL_SLOWDOWN;
        assert_eq!(throttling(hot), ["sw_thermal_slowdown"]);
    }

    #[test]
    fn recovery_actions_have_words() {
        assert_eq!(recovery(0), None);
        assert_eq!(recovery(1).as_deref(), Some("reset"));
        assert_eq!(recovery(9).as_deref(), Some("action_9"));
    }
}
