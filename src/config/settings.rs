//! Values of `tune`'s own keys, and how a run is operated by them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::value::Error;
use serde::de::{DeserializeOwned, IntoDeserializer};

use super::algorithm::read_options;
use super::document::Document;
use super::keys::{PRUNERS, SAMPLERS, SETTINGS};
use super::problem::Problem;
use super::spec::{Deadline, Operation, Parallel, SupervisorPolicy};
use super::values::{Base, Values, defaults, duration, share, size};
use device::DevicePolicy;
use search::pruner::PrunerSpec;
use search::sampler::SamplerSpec;
use search::space::{Params, Value};

/// Every setting that has a value.
#[derive(Debug)]
pub(super) struct Settings {
    values: Values,
    sampler: (String, Params),
    pruner: (String, Params),
}

impl Settings {
    /// Reads all settings; those with problems have their defaults.
    pub fn read(document: &Document, base: Base, problems: &mut Vec<Problem>) -> Settings {
        let mut values = Values::read(&SETTINGS, document, base, problems);
        for (name, value) in defaults(&SETTINGS) {
            values.single.entry(name).or_insert(value);
        }
        let kind = |key: &str| match values.single.get(key).and_then(Value::as_str) {
            Some(kind) => kind.to_owned(),
            None => "auto".to_owned(),
        };
        let (sampler, pruner) = (kind("sampler.kind"), kind("pruner.kind"));
        refuse_less_alone(&values, document, problems);
        Settings {
            sampler: read_options("sampler", sampler, &SAMPLERS, document, problems),
            pruner: read_options("pruner", pruner, &PRUNERS, document, problems),
            values,
        }
    }

    fn value(&self, name: &str) -> Option<&Value> {
        self.values.single.get(name)
    }

    /// A string.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.value(name)?.as_str()
    }

    /// A list of strings.
    pub fn texts(&self, name: &str) -> Option<&[String]> {
        self.values.lists.get(name).map(Vec::as_slice)
    }

    /// An integer that is not negative, as the tables see to; 0 where there is none.
    pub fn number(&self, name: &str) -> u64 {
        self.int(name).unwrap_or_default()
    }

    fn int(&self, name: &str) -> Option<u64> {
        u64::try_from(self.value(name)?.as_i64()?).ok()
    }

    fn share(&self, name: &str) -> f64 {
        self.value(name).and_then(share).unwrap_or(1.0)
    }

    /// `None`: none, or `off`.
    fn duration(&self, name: &str) -> Option<Duration> {
        self.text(name).and_then(duration)
    }

    fn size(&self, name: &str) -> u64 {
        self.value(name).and_then(size).unwrap_or_default()
    }

    /// One of an enumeration's words.
    fn word<T: DeserializeOwned + Default>(&self, name: &str) -> T {
        let text = self.text(name).unwrap_or_default();
        let word: Result<T, Error> = T::deserialize(text.into_deserializer());
        word.unwrap_or_default()
    }

    /// The directories of trackers.
    fn trackers(&self) -> BTreeMap<String, PathBuf> {
        let all = self.values.single.iter();
        let track = all.filter_map(|(name, dir)| {
            let name = name.strip_prefix("track.")?;
            Some((name.to_owned(), PathBuf::from(dir.as_str()?)))
        });
        track.collect()
    }

    /// How the run is operated.
    pub fn operation(&self) -> Operation {
        Operation {
            trials: self.number("run.trials"),
            repeats: self.number("run.repeats") as u32,
            test: self.word("run.test"),
            parallel: match self.value("run.parallel").map(Value::as_i64) {
                Some(Some(limit)) => Parallel::Limit(limit as usize),
                Some(None) => Parallel::Auto,
                None => Parallel::Unsaid,
            },
            keep_best: self.number("run.keep_best") as usize,
            max_kept_bytes: self.size("run.max_kept"),
            timeout: self.duration("run.timeout"),
            by: None,
            leave_in: self.duration("run.leave_in"),
            storage: self.text("storage.url").map(str::to_owned),
            track: self.trackers(),
            lease: self.duration("storage.lease").unwrap_or_default(),
            until_flat: self.value("run.until_flat").and_then(share),
            grace: self.duration("run.grace"),
            trial_limit: self.duration("run.trial_limit"),
            device: (self.text("run.device").and_then(|text| text.parse().ok()))
                .unwrap_or(DevicePolicy::Auto),
            threads: self.int("run.threads").map(|n| n as usize),
            supervisor: self.supervisor(),
            gpu_memory: self.share("gpu.memory"),
            // A larger share for what runs together holds for one alone, too.
            gpu_alone: self.share("gpu.alone").max(self.share("gpu.memory")),
            host_memory: self.share("host.memory"),
            halve: self.text("gpu.oom") == Some("halve"),
            fallback_ops: self
                .texts("device.fallback_ops")
                .unwrap_or_default()
                .to_vec(),
            standby: self.word("run.standby"),
            max_log_bytes: self.size("logging.max_log"),
            max_logs_bytes: self.size("logging.max_logs"),
            sampler: SamplerSpec {
                kind: self.sampler.0.clone(),
                options: self.sampler.1.clone(),
            },
            pruner: PrunerSpec {
                kind: self.pruner.0.clone(),
                options: self.pruner.1.clone(),
            },
            audit: self.value("pruner.audit").and_then(share).unwrap_or(0.0),
            inject: None,
        }
    }

    fn supervisor(&self) -> SupervisorPolicy {
        let duration = |name| self.duration(name).unwrap_or_default();
        SupervisorPolicy {
            recycle_after: self.number("supervisor.recycle_after"),
            deadline: self.deadline(),
            start_deadline: duration("supervisor.start_deadline"),
            grace: duration("supervisor.grace"),
            abandon_after: duration("supervisor.abandon_after"),
            max_deaths: self.number("supervisor.max_deaths") as u32,
            death_window: duration("supervisor.death_window"),
            backoff: duration("supervisor.backoff"),
            max_backoff: duration("supervisor.max_backoff"),
            max_failures: self.number("supervisor.max_failures"),
            max_refused: self.number("supervisor.max_refused"),
            storage_patience: duration("supervisor.storage_patience"),
            checkpoint: self.value("supervisor.checkpoint") == Some(&Value::Bool(true)),
        }
    }

    fn deadline(&self) -> Deadline {
        let duration = |name| self.duration(name).unwrap_or_default();
        let factor = self.value("supervisor.deadline_factor");
        match self.text("supervisor.deadline") {
            Some("off") => Deadline::Off,
            Some(text) if text != "auto" => Deadline::Fixed(duration("supervisor.deadline")),
            Some(_) | None => Deadline::Learned {
                floor: duration("supervisor.deadline_floor"),
                ceiling: duration("supervisor.deadline_ceiling"),
                factor: factor.and_then(Value::as_f64).unwrap_or(1.0),
            },
        }
    }
}

/// Who says what one trial may use of a GPU says no less than what several may together.
fn refuse_less_alone(values: &Values, document: &Document, problems: &mut Vec<Problem>) {
    let part = |key| values.single.get(key).and_then(share);
    if let Some(node) = document.key("gpu.alone")
        && let (Some(alone), Some(together)) = (part("gpu.alone"), part("gpu.memory"))
        && alone < together
    {
        let expected = format!("at least gpu.memory, which is {}%", 100.0 * together);
        problems.push(node.problem("gpu.alone", node.found(), expected));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::KINDS;
    use crate::problem::Source;
    use crate::tree::parse_value;
    use crate::values::value_of;

    #[test]
    fn every_default_is_a_value_of_its_type() {
        let whole = Source::File("f.toml".into(), None);
        let options = SAMPLERS.iter().chain(&PRUNERS).flat_map(|a| a.options);
        let tasks = KINDS.iter().flat_map(|kind| kind.keys);
        for key in SETTINGS.iter().chain(options).chain(tasks) {
            if let Some(preset) = key.preset.value() {
                let node = parse_value(&preset.to_string(), &whole).unwrap();
                let value = value_of(key.ty, &node, Base::nowhere());
                assert!(value.is_ok(), "{}", key.name);
            }
        }
    }
}
