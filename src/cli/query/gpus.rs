//! What the GPUs of a run are at, of its last samples.

use serde::Serialize;

use super::format::{self, stored_field};
use device::GpuMinute;
use fault::size_text;

/// A row that is older than this, in seconds, is shown with its age: rows come each minute.
const FRESH: f64 = 90.0;

/// A GPU's last minute; what NVML does not tell is null.
#[derive(Serialize)]
pub(super) struct Gpu {
    #[serde(flatten)]
    pub(super) minute: GpuMinute,
    #[serde(serialize_with = "stored_field")]
    time: Option<String>,
}

impl Gpu {
    pub(super) fn new((time, minute): (String, GpuMinute)) -> Gpu {
        let time = Some(time);
        Gpu { minute, time }
    }

    /// In one line.
    pub(super) fn text(&self, now: jiff::Timestamp) -> String {
        let parts = [self.figures(), self.trouble(now)].concat();
        format!("{}: {}", self.minute.gpu, parts.join(", "))
    }

    /// What it is at.
    pub(super) fn figures(&self) -> Vec<String> {
        let gpu = &self.minute;
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
        parts
    }

    /// Why it is slow or not to be used, and that the figures are old.
    pub(super) fn trouble(&self, now: jiff::Timestamp) -> Vec<String> {
        let gpu = &self.minute;
        let mut parts = Vec::new();
        if !gpu.throttle.is_empty() {
            parts.push(format!("slowed down by {}", gpu.throttle.join(", ")));
        }
        let action = gpu.recovery_action.as_deref();
        parts.extend(action.map(|a| format!("recovery action: {a}")));
        let time = self.time.as_deref().unwrap_or_default();
        let age = format::seconds(time, &format::stored(now)).filter(|s| *s > FRESH);
        parts.extend(age.map(|s| format!("{} ago", format::duration(s))));
        parts
    }
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
        let text = |time: &str, now| Gpu::new((time.to_owned(), gpu.clone())).text(now);
        assert_eq!(
            text("2026-11-21 12:03:00.000000", at(9)),
            "1: 1.50 GiB of 8.00 GiB in use, 97 % busy, 71 °C, slowed down by sw_power_cap"
        );
        let old = text("2026-11-21 12:00:00.000000", at(0));
        assert!(old.ends_with(" ago"), "{old}");
    }
}
