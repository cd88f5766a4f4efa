//! What the GPUs of a run are at, of its last samples.

use serde_json::{Value as Json, json};

use super::format::printable;
use super::format::{self, rfc3339};
use device::GpuMinute;
use fault::size_text;

/// A row that is older than this, in seconds, is shown with its age: rows come each minute.
const FRESH: f64 = 90.0;

/// A GPU in one line.
pub(super) fn text(gpu: &GpuMinute, time: &str, now: jiff::Timestamp) -> String {
    let mut parts = Vec::new();
    if gpu.memory_total > 0 {
        parts.push(format!(
            "{} of {} in use",
            size_text(gpu.memory_peak),
            size_text(gpu.memory_total)
        ));
    }
    parts.extend(gpu.utilization.map(|u| format!("{u:.0} % busy")));
    parts.extend(gpu.temperature_peak.map(|t| format!("{t} °C")));
    if !gpu.throttle.is_empty() {
        parts.push(format!(
            "slowed down by {}",
            printable(&gpu.throttle.join(", "))
        ));
    }
    let action = gpu.recovery_action.as_deref();
    parts.extend(action.map(|a| format!("recovery action: {}", printable(a))));
    let age = format::seconds(time, &format::stored(now)).filter(|s| *s > FRESH);
    parts.extend(age.map(|s| format!("{} ago", format::duration(s))));
    format!("{}: {}", gpu.gpu, parts.join(", "))
}

/// All GPUs; what NVML does not tell is null.
pub(super) fn json(gpus: &[(String, GpuMinute)]) -> Json {
    let one = |(time, gpu): &(String, GpuMinute)| {
        let mut json = json!(gpu);
        json["time"] = rfc3339(time).into();
        json
    };
    gpus.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u32) -> jiff::Timestamp {
        format!("2026-11-21T12:03:{second:02}Z").parse().unwrap()
    }

    #[test]
    fn a_gpu_is_one_line_and_old_figures_say_so() {
        let gpu = GpuMinute {
            gpu: 1,
            memory_total: 8 << 30,
            memory_peak: 3 << 29,
            utilization: Some(96.6),
            temperature_peak: Some(71),
            throttle: vec!["sw_power_cap".into()],
            ..GpuMinute::default()
        };
        assert_eq!(
            text(&gpu, "2026-11-21 12:03:00.000000", at(9)),
            "1: 1.50 GiB of 8.00 GiB in use, 97 % busy, 71 °C, slowed down by sw_power_cap"
        );
        let old = text(&gpu, "2026-11-21 12:00:00.000000", at(0));
        assert!(old.ends_with(" ago"), "{old}");
    }
}
