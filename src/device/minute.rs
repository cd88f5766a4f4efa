//! What is kept of a GPU's samples for good.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::GpuSample;

/// A GPU over about a minute: averages and peaks of its samples.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuMinute {
    /// Its index as [`crate::Device`] has it.
    pub gpu: usize,
    /// How many samples.
    pub samples: usize,
    /// Memory in all, in bytes.
    pub memory_total: u64,
    /// Memory that was not free, in bytes, on average.
    pub memory_used: u64,
    /// At most.
    pub memory_peak: u64,
    /// What each process that computed on it used of its memory, in bytes, at most, by process id.
    pub processes: BTreeMap<u32, u64>,
    /// Share of the time in which a kernel ran, in percent, on average.
    pub utilization: Option<f64>,
    /// At most.
    pub utilization_peak: Option<u32>,
    /// Degrees Celsius, on average.
    pub temperature: Option<f64>,
    /// At most.
    pub temperature_peak: Option<u32>,
    /// Watts, on average.
    pub power: Option<f64>,
    /// At most.
    pub power_peak: Option<f64>,
    /// Clock of the multiprocessors, in MHz, on average.
    pub clock: Option<f64>,
    /// Why it ran slower than it could at any time, in NVML's words.
    pub throttle: Vec<String>,
    /// Memory errors that could not be corrected, by the last sample.
    pub ecc_uncorrected: Option<u64>,
    /// Rows of memory that were replaced, by the last sample.
    pub remapped_rows: Option<u32>,
    /// What had to be done to the GPU by the last sample.
    pub recovery_action: Option<String>,
}

impl GpuMinute {
    /// Of samples of one GPU, in order; `None` without any.
    pub fn of(samples: &[GpuSample]) -> Option<GpuMinute> {
        let last = samples.last()?;
        let used = samples.iter().map(|s| s.memory_used);
        let peak = |of: fn(&GpuSample) -> Option<u32>| samples.iter().filter_map(of).max();
        let mut processes = BTreeMap::new();
        for (pid, memory) in samples.iter().flat_map(|s| &s.processes) {
            let most = processes.entry(*pid).or_default();
            *most = u64::max(*most, *memory);
        }
        let mut throttle: Vec<String> = (samples.iter().flat_map(|s| s.throttle.clone())).collect();
        throttle.sort();
        throttle.dedup();
        Some(GpuMinute {
            gpu: last.index,
            samples: samples.len(),
            memory_total: last.memory_total,
            memory_used: used.clone().sum::<u64>() / samples.len() as u64,
            memory_peak: used.max().unwrap_or_default(),
            processes,
            utilization: mean(samples, |s| s.utilization.map(f64::from)),
            utilization_peak: peak(|s| s.utilization),
            temperature: mean(samples, |s| s.temperature.map(f64::from)),
            temperature_peak: peak(|s| s.temperature),
            power: mean(samples, |s| s.power),
            power_peak: samples.iter().filter_map(|s| s.power).reduce(f64::max),
            clock: mean(samples, |s| s.clock.map(f64::from)),
            throttle,
            ecc_uncorrected: last.ecc_uncorrected,
            remapped_rows: last.remapped_rows,
            recovery_action: last.recovery_action.clone(),
        })
    }
}

/// The mean of what was told, to a tenth.
fn mean(samples: &[GpuSample], of: fn(&GpuSample) -> Option<f64>) -> Option<f64> {
    let told: Vec<f64> = samples.iter().filter_map(of).collect();
    let mean = told.iter().sum::<f64>() / told.len() as f64;
    (!told.is_empty()).then(|| (mean * 10.0).round() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(memory_used: u64, utilization: Option<u32>, throttle: &[&str]) -> GpuSample {
        GpuSample {
            index: 1,
            memory_total: 100,
            memory_used,
            processes: BTreeMap::from([(7, memory_used)]),
            utilization,
            throttle: throttle.iter().map(|t| (*t).to_owned()).collect(),
            ..GpuSample::default()
        }
    }

    #[test]
    fn a_minute_has_averages_peaks_and_all_reasons_of_throttling() {
        let samples = [
            sample(10, Some(50), &["sw_power_cap"]),
            sample(60, Some(75), &["hw_slowdown", "sw_power_cap"]),
            sample(20, None, &[]),
        ];
        let minute = GpuMinute::of(&samples).unwrap();
        assert_eq!((minute.gpu, minute.samples), (1, 3));
        assert_eq!((minute.memory_used, minute.memory_peak), (30, 60));
        assert_eq!(minute.processes, BTreeMap::from([(7, 60)]));
        assert_eq!(minute.utilization, Some(62.5));
        assert_eq!(minute.utilization_peak, Some(75));
        assert_eq!(minute.temperature, None, "never told");
        assert_eq!(minute.throttle, ["hw_slowdown", "sw_power_cap"]);
        assert_eq!(GpuMinute::of(&[]), None);
    }
}
