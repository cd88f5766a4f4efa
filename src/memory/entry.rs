//! The ledger's lines: what each attempt used of memory, beside what was expected of it.

use serde::{Deserialize, Serialize};

use super::{Estimate, Observation, Usage};
use device::Device;
use fault::FaultKind;
use search::space::Params;

/// One attempt's line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Where it trained.
    pub device: Device,
    /// The device's memory in all, in bytes; `None`: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u64>,
    /// What was measured.
    pub usage: Usage,
    /// What it was allowed to take of its GPU, in bytes; `None`: everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<u64>,
    /// What was expected before it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<Estimate>,
    /// How often its batches were halved.
    #[serde(default)]
    pub halvings: u32,
    /// How it ended, by the words of attempts.
    pub outcome: String,
}

/// What an attempt's end says about its peak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Says {
    /// It was reached.
    Peak,
    /// More would have been used.
    AtLeast,
    /// Nothing: the attempt was cut short.
    Nothing,
}

impl Entry {
    /// Its peak, where it was measured; see [`Usage::peak`].
    pub fn peak(&self) -> Option<u64> {
        self.usage.peak(self.device)
    }

    /// Whether it ran out of the memory that it trains in.
    pub fn ran_out(&self) -> bool {
        self.says() == Says::AtLeast
    }

    /// Whether it came far enough to have reached its peak.
    pub fn tells_peak(&self) -> bool {
        self.says() == Says::Peak
    }

    /// What can be learned from it about a training of this configuration, if anything.
    pub fn observation(&self, config: Params) -> Option<Observation> {
        let censored = match self.says() {
            Says::Peak => false,
            Says::AtLeast => true,
            Says::Nothing => return None,
        };
        Some(Observation {
            config,
            peak: self.peak()?,
            censored,
        })
    }

    fn says(&self) -> Says {
        let ended = ["completed", "pruned", FaultKind::Diverged.word()];
        let out = match self.device {
            Device::Cpu => FaultKind::HostOom.word(),
            Device::Cuda(_) => FaultKind::Oom.word(),
        };
        if ended.contains(&self.outcome.as_str()) {
            Says::Peak
        } else if self.outcome == out {
            Says::AtLeast
        } else {
            Says::Nothing
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(device: Device, outcome: &str) -> Entry {
        Entry {
            device,
            capacity: None,
            usage: Usage {
                reserved: Some(700),
                context: Some(300),
                resident: Some(5_000),
                ..Usage::default()
            },
            grant: None,
            predicted: None,
            halvings: 0,
            outcome: outcome.into(),
        }
    }

    #[test]
    fn a_peak_is_that_of_the_memory_that_is_trained_in() {
        assert_eq!(entry(Device::Cpu, "completed").peak(), Some(5_000));
        assert_eq!(entry(Device::Cuda(0), "completed").peak(), Some(1_000));
    }

    #[test]
    fn an_attempt_teaches_what_its_end_lets_it_say() {
        let taught = |device, outcome| {
            let observation = entry(device, outcome).observation(Params::new());
            observation.map(|o| (o.peak, o.censored))
        };
        let gpu = Device::Cuda(1);
        assert_eq!(taught(gpu, "pruned"), Some((1_000, false)));
        assert_eq!(taught(gpu, "diverged"), Some((1_000, false)));
        assert_eq!(taught(gpu, "oom"), Some((1_000, true)));
        assert_eq!(taught(gpu, "host_oom"), None, "the GPU's was not reached");
        assert_eq!(taught(Device::Cpu, "host_oom"), Some((5_000, true)));
        assert_eq!(taught(Device::Cpu, "killed"), None);
    }
}
