//! What is trained, and what for: a trial of the search, a repeat of one, or the evaluation of the
//! winner on the test split.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::derive_seed;

/// What a training is for.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// The trial itself: the search learns from it.
    #[default]
    Search,
    /// The trial's point once more, with another seed; from 1.
    Repeat(u32),
    /// The trial's point with a seed of its own, scored on the test split at its best epoch.
    Test,
}

impl Purpose {
    /// The seed of a training of trial `number`: a function of the arguments alone.
    pub fn seed(self, study_seed: u64, number: u64) -> u64 {
        match self {
            Purpose::Search => derive_seed(study_seed, number, "trial"),
            Purpose::Repeat(repeat) => derive_seed(study_seed, number, &format!("repeat {repeat}")),
            Purpose::Test => derive_seed(study_seed, number, "test"),
        }
    }

    /// Its word, and which repeat it is, from 1; 0 for what is none.
    pub fn columns(self) -> (&'static str, u32) {
        match self {
            Purpose::Search => ("search", 0),
            Purpose::Repeat(repeat) => ("repeat", repeat),
            Purpose::Test => ("test", 0),
        }
    }
}

/// One training that ends once, whatever number of attempts it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Job {
    /// The trial's number.
    pub number: u64,
    /// What for.
    pub purpose: Purpose,
}

impl Job {
    /// The trial itself.
    pub fn trial(number: u64) -> Job {
        Job {
            number,
            purpose: Purpose::Search,
        }
    }

    /// A repeat of the trial, from 1.
    pub fn repeat(number: u64, repeat: u32) -> Job {
        Job {
            number,
            purpose: Purpose::Repeat(repeat),
        }
    }

    /// The trial's point on the test split.
    pub fn test(number: u64) -> Job {
        Job {
            number,
            purpose: Purpose::Test,
        }
    }

    /// One attempt at it, from 0.
    pub fn attempt(self, attempt: u32) -> AttemptId {
        AttemptId {
            number: self.number,
            purpose: self.purpose,
            attempt,
        }
    }

    /// Whether the search counts it and learns from it.
    pub fn searches(self) -> bool {
        self.purpose == Purpose::Search
    }

    /// The beginning of names of files: `trial-000003`, `trial-000003-repeat-2`.
    pub fn file_stem(self) -> String {
        let number = self.number;
        match self.purpose {
            Purpose::Search => format!("trial-{number:06}"),
            Purpose::Repeat(repeat) => format!("trial-{number:06}-repeat-{repeat}"),
            Purpose::Test => format!("trial-{number:06}-test"),
        }
    }
}

/// `trial 3`, `trial 3, repeat 2`, `trial 3, test`.
impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.purpose {
            Purpose::Search => write!(f, "trial {}", self.number),
            Purpose::Repeat(repeat) => write!(f, "trial {}, repeat {repeat}", self.number),
            Purpose::Test => write!(f, "trial {}, test", self.number),
        }
    }
}

/// Names one attempt at one training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AttemptId {
    /// Trial number.
    pub number: u64,
    /// What the training is for.
    #[serde(default)]
    pub purpose: Purpose,
    /// Attempt, from 0.
    pub attempt: u32,
}

impl AttemptId {
    /// What it is an attempt at.
    pub fn job(self) -> Job {
        Job {
            number: self.number,
            purpose: self.purpose,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_training_of_a_trial_has_a_seed_of_its_own() {
        let purposes = [
            Purpose::Search,
            Purpose::Repeat(1),
            Purpose::Repeat(2),
            Purpose::Repeat(11),
            Purpose::Test,
        ];
        let mut seeds: Vec<u64> = purposes.iter().map(|p| p.seed(7, 3)).collect();
        assert_eq!(seeds[0], derive_seed(7, 3, "trial"));
        seeds.extend(purposes.iter().map(|p| p.seed(7, 4)));
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 2 * purposes.len());
    }
}
