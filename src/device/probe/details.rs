//! All that NVML tells of the GPUs, for `tune doctor`: `tune probe --details`, one line of JSON.

use std::process::ExitCode;
use std::time::Duration;

use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::{Clock, ComputeMode, TemperatureThreshold};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::sys_exports::field_id::{
    NVML_FI_DEV_REMAPPED_FAILURE, NVML_FI_DEV_REMAPPED_PENDING,
};
use serde::{Deserialize, Serialize};

use super::{nvml, stream};
use crate::GpuSample;

/// The time between two looks at what is counted.
const BETWEEN: Duration = Duration::from_millis(300);

/// What NVML tells. What it does not have is left out.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Details {
    /// Version of the driver in the kernel, as NVML has it: `580.65.06`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Version of NVML's library: `13.580.65.06`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nvml: Option<String>,
    /// The newest CUDA that the driver knows, as it counts: 13000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cuda: Option<u32>,
    /// The GPUs that CUDA counts, in its order.
    pub gpus: Vec<GpuDetails>,
    /// Why GPUs cannot be read although there are signs of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A GPU.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuDetails {
    /// Product name.
    pub name: String,
    /// What a run watches: memory, processes, temperature and so on.
    pub sample: GpuSample,
    /// Compute capability, major and minor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capability: Option<(u32, u32)>,
    /// Whether the driver stays loaded while nobody uses the GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistence: Option<bool>,
    /// The cap of its power, and the default one, in watts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_caps: Option<(f64, f64)>,
    /// The clock that applications get, and the default one, in MHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application_clocks: Option<(u32, u32)>,
    /// How far the clocks of the multiprocessors and of the memory were shifted, in MHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_offsets: Option<(i32, i32)>,
    /// Where it slows down for heat, in degrees Celsius.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slowdown_at: Option<u32>,
    /// Whether its memory has error correction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecc: Option<bool>,
    /// Whether rows of memory, or pages of an older card, wait for a reset to be replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remap_pending: Option<bool>,
    /// Whether a row could not be replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remap_failed: Option<bool>,
    /// `default`, `exclusive_process` or `prohibited`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute_mode: Option<String>,
    /// Whether it is divided (MIG).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mig: Option<bool>,
    /// The way to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pcie: Option<Link>,
    /// Packets that had to be sent again since the driver was loaded, and 0.3 s later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replays: Option<(u32, u32)>,
}

/// A PCIe link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Link {
    /// Its generation now; an idle GPU lowers it.
    pub generation: u32,
    /// Lanes now.
    pub width: u32,
    /// The highest generation that card and slot have.
    pub max_generation: u32,
    /// The most lanes that card and slot have.
    pub max_width: u32,
}

/// The hidden subcommand: prints the [`Details`].
pub fn main() -> ExitCode {
    super::print_line(&look())
}

fn look() -> Details {
    let nvml = match nvml::open() {
        Ok(nvml) => nvml,
        Err(NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound) => {
            return Details::default();
        }
        Err(error) => return failed(Details::default(), &error),
    };
    let details = Details {
        driver: nvml.sys_driver_version().ok(),
        nvml: nvml.sys_nvml_version().ok(),
        cuda: nvml
            .sys_cuda_driver_version()
            .ok()
            .and_then(|v| u32::try_from(v).ok()),
        ..Details::default()
    };
    match gpus(&nvml) {
        Ok(gpus) => Details { gpus, ..details },
        Err(error) => failed(details, &error),
    }
}

fn failed(details: Details, error: &NvmlError) -> Details {
    let error = Some(nvml::explain(error));
    Details { error, ..details }
}

fn gpus(nvml: &Nvml) -> Result<Vec<GpuDetails>, NvmlError> {
    let gpus = nvml::gpus(nvml)?;
    let mut found: Vec<GpuDetails> = gpus.iter().map(gpu).collect();
    if found.iter().any(|gpu| gpu.replays.is_some()) {
        std::thread::sleep(BETWEEN);
    }
    for (gpu, details) in gpus.iter().zip(&mut found) {
        if let (Some((_, later)), Ok(now)) =
            (&mut details.replays, gpu.handle.pcie_replay_counter())
        {
            *later = now;
        }
    }
    Ok(found)
}

fn gpu(gpu: &nvml::Gpu<'_>) -> GpuDetails {
    let handle = &gpu.handle;
    let sample = nvml::read(gpu).unwrap_or_else(|error| stream::gone(gpu.index, 0, &error));
    let watts = |milliwatts: u32| f64::from(milliwatts) / 1e3;
    let remaps = nvml::fields(
        handle,
        &[NVML_FI_DEV_REMAPPED_PENDING, NVML_FI_DEV_REMAPPED_FAILURE],
    );
    let [pending, remap_failed] = remaps.unwrap_or_default().map(|v| v.map(|v| v != 0));
    let replays = handle.pcie_replay_counter().ok();
    GpuDetails {
        name: handle.name().unwrap_or_default(),
        sample,
        capability: handle
            .cuda_compute_capability()
            .ok()
            .and_then(|c| Some((u32::try_from(c.major).ok()?, u32::try_from(c.minor).ok()?))),
        persistence: handle.is_in_persistent_mode().ok(),
        power_caps: both(
            handle.power_management_limit(),
            handle.power_management_limit_default(),
        )
        .map(|(now, default)| (watts(now), watts(default))),
        application_clocks: both(
            handle.applications_clock(Clock::SM),
            handle.default_applications_clock(Clock::SM),
        ),
        clock_offsets: both(handle.gpc_clock_vf_offset(), handle.mem_clock_vf_offset()),
        slowdown_at: handle
            .temperature_threshold(TemperatureThreshold::Slowdown)
            .ok(),
        ecc: handle.is_ecc_enabled().ok().map(|e| e.currently_enabled),
        remap_pending: pending.or_else(|| handle.are_pages_pending_retired().ok()),
        remap_failed,
        compute_mode: handle.compute_mode().ok().map(|mode| {
            match mode {
                ComputeMode::Default => "default",
                ComputeMode::ExclusiveThread | ComputeMode::ExclusiveProcess => "exclusive_process",
                ComputeMode::Prohibited => "prohibited",
            }
            .to_owned()
        }),
        mig: handle.mig_mode().ok().map(|mode| mode.current == 1),
        pcie: link(gpu),
        replays: replays.map(|count| (count, count)),
    }
}

fn both<T>(one: Result<T, NvmlError>, other: Result<T, NvmlError>) -> Option<(T, T)> {
    Some((one.ok()?, other.ok()?))
}

fn link(gpu: &nvml::Gpu<'_>) -> Option<Link> {
    Some(Link {
        generation: gpu.handle.current_pcie_link_gen().ok()?,
        width: gpu.handle.current_pcie_link_width().ok()?,
        max_generation: gpu.handle.max_pcie_link_gen().ok()?,
        max_width: gpu.handle.max_pcie_link_width().ok()?,
    })
}
