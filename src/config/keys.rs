//! The keys that `tune` itself reads, as data: the reference in `docs/configuration.md` and the
//! checks both come from these tables.

/// The type of one of `tune`'s own keys. Bounds are inclusive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SettingType {
    /// An integer.
    Int {
        /// Least value.
        low: i64,
        /// Greatest value.
        high: i64,
    },
    /// A float.
    Float {
        /// Least value.
        low: f64,
        /// Greatest value.
        high: f64,
    },
    /// `true` or `false`.
    Bool,
    /// Any string.
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A time, such as `10m` or `7h30m`.
    Duration {
        /// Whether `off` is a value.
        off: bool,
    },
    /// A time, `auto` or `off`.
    Deadline,
    /// A size in bytes, such as `64MiB`.
    Size,
    /// A part of the whole, such as `80%` or 0.8.
    Fraction,
    /// `auto`, `cpu`, `cuda` or `cuda:0,1`.
    Device,
}

/// One of `tune`'s own keys.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting {
    /// Dotted name; for options of samplers and pruners the part after `sampler.` or `pruner.`.
    pub name: &'static str,
    /// Type and bounds.
    pub ty: SettingType,
    /// Value when left out, as in a file; empty: none.
    pub preset: &'static str,
    /// One line for people.
    pub help: &'static str,
}

/// A kind of sampler or pruner, with its options.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Algorithm {
    /// The word in `sampler.kind` or `pruner.kind`.
    pub name: &'static str,
    /// Its options.
    pub options: &'static [Setting],
    /// One line for people.
    pub help: &'static str,
}

const fn setting(
    name: &'static str,
    ty: SettingType,
    preset: &'static str,
    help: &'static str,
) -> Setting {
    Setting {
        name,
        ty,
        preset,
        help,
    }
}

const fn int(low: i64, high: i64) -> SettingType {
    SettingType::Int { low, high }
}

const DURATION: SettingType = SettingType::Duration { off: false };
const DURATION_OR_OFF: SettingType = SettingType::Duration { off: true };
const MANY: i64 = 1_000_000_000;

/// Every key of `tune` itself, but for the options of samplers and pruners.
#[rustfmt::skip]
pub const SETTINGS: [Setting; 33] = [
    setting("task.kind", SettingType::Text, "", "what is trained: the task kind"),
    setting("study.name", SettingType::Text, "", "the study's name; default: the file's name without .toml"),
    setting("study.seed", int(0, i64::MAX), "0", "seed of everything random in the study"),
    setting("objective.metric", SettingType::Text, "", "what is optimised; default: the task kind's first metric"),
    setting("objective.direction", SettingType::Word(&["minimize", "maximize"]), "", "default: the metric's own direction"),
    setting("run.trials", int(1, MANY), "100", "goal: this many finished trials in the study, those of earlier runs included"),
    setting("run.repeats", int(1, 1000), "1", "once the goal is reached, the leading points are trained again with other seeds, the last of them this often, and the best mean wins; 1: off"),
    setting("run.test", SettingType::Word(&["auto", "on", "off", "again"]), "auto", "score the winner on the test split, once; auto: with repeats, where the task has a test split; again: another winner, too"),
    setting("run.parallel", int(1, 1024), "1", "upper limit of workers at the same time"),
    setting("run.timeout", DURATION_OR_OFF, "off", "the run ends after this time (exit code 3), resumable"),
    setting("run.device", SettingType::Device, "auto", "auto (every GPU, else the CPU), cpu, cuda, or GPUs by index: cuda:0,1"),
    setting("run.threads", int(1, 4096), "", "CPU threads of a worker; default: the cores divided among the workers"),
    setting("gpu.memory", SettingType::Fraction, "80%", "part of a GPU's memory that all workers together may use"),
    setting("supervisor.recycle_after", int(0, MANY), "50", "a worker is replaced after this many successful trials; 0: never"),
    setting("supervisor.deadline", SettingType::Deadline, "auto", "longest time without a training step before a trial counts as hung; auto: learned from the steps seen"),
    setting("supervisor.deadline_factor", SettingType::Float { low: 1.0, high: 1e6 }, "20.0", "a learned deadline is this many times the longest recent silence"),
    setting("supervisor.deadline_floor", DURATION, "1m", "a learned deadline is at least this"),
    setting("supervisor.deadline_ceiling", DURATION, "10m", "a learned deadline is at most this, and is this until three attempts have been seen"),
    setting("supervisor.start_deadline", DURATION, "10m", "longest time from a worker's start until it is ready"),
    setting("supervisor.grace", DURATION, "5s", "time between SIGTERM and SIGKILL"),
    setting("supervisor.abandon_after", DURATION, "30s", "a worker that lives on for this long after SIGKILL is given up, and its GPU with it"),
    setting("supervisor.max_deaths", int(1, 1_000_000), "5", "more deaths of one slot than this within death_window, without a finished epoch, trip the breaker"),
    setting("supervisor.death_window", DURATION, "60s", "see max_deaths"),
    setting("supervisor.backoff", DURATION, "1s", "first pause before a dead worker is replaced; doubled at each death without progress"),
    setting("supervisor.max_backoff", DURATION, "60s", "longest such pause"),
    setting("supervisor.max_failures", int(1, MANY), "20", "this many FAIL trials in a row trip the breaker"),
    setting("supervisor.max_refused", int(1, MANY), "200", "this many refused trials in a row trip the breaker"),
    setting("supervisor.checkpoint", SettingType::Bool, "false", "keep checkpoints, so that an interrupted trial goes on from its last epoch"),
    setting("supervisor.storage_patience", DURATION, "60s", "how long to wait for a database that cannot be written, before the run ends (exit code 7)"),
    setting("logging.max_log", SettingType::Size, "4MiB", "a worker's log of one attempt is cut at this size"),
    setting("logging.max_logs", SettingType::Size, "512MiB", "all logs of a study together; the oldest are deleted"),
    setting("sampler.kind", SettingType::Word(&["auto", "random", "tpe"]), "auto", "how parameters are chosen"),
    setting("pruner.kind", SettingType::Word(&["auto", "none", "median"]), "auto", "how unpromising trials are ended early"),
];

#[rustfmt::skip]
const TPE: [Setting; 4] = [
    setting("n_startup_trials", int(0, 1_000_000), "10", "trials chosen at random before the model is used"),
    setting("n_ei_candidates", int(1, 1_000_000), "24", "candidates drawn a proposal, of which the best is taken"),
    setting("multivariate", SettingType::Bool, "true", "model parameters together instead of one by one"),
    setting("constant_liar", SettingType::Bool, "true", "count trials in progress as bad, so that workers spread out"),
];

#[rustfmt::skip]
const MEDIAN: [Setting; 4] = [
    setting("n_startup_trials", int(0, 1_000_000), "5", "no pruning before this many trials are complete"),
    setting("n_warmup_steps", int(0, 1_000_000), "0", "no pruning in a trial's epochs before this one, which is checked"),
    setting("interval_steps", int(1, 1_000_000), "1", "epochs from one check to the next"),
    setting("n_min_trials", int(1, 1_000_000), "1", "trials that must have reported the epoch"),
];

/// Every sampler. `auto` takes the options of the one that it chooses.
pub const SAMPLERS: [Algorithm; 3] = [
    Algorithm {
        name: "auto",
        options: &TPE,
        help: "what suits the space: at present tpe",
    },
    Algorithm {
        name: "random",
        options: &[],
        help: "independent uniform draws",
    },
    Algorithm {
        name: "tpe",
        options: &TPE,
        help: "tree-structured Parzen estimator",
    },
];

/// Every pruner. `auto` takes the options of the one that it chooses.
pub const PRUNERS: [Algorithm; 3] = [
    Algorithm {
        name: "auto",
        options: &MEDIAN,
        help: "what suits the task: at present median",
    },
    Algorithm {
        name: "none",
        options: &[],
        help: "no trial is ended early",
    },
    Algorithm {
        name: "median",
        options: &MEDIAN,
        help: "ends a trial whose best value so far is worse than the median of the others' at the same epoch",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    const DOC: &str = include_str!("../../docs/configuration.md");

    fn assert_row(name: &str, setting: &Setting) {
        let preset = match setting.preset {
            "" => String::new(),
            text => format!("`{text}`"),
        };
        let row = format!("| `{name}` | {preset} | {} |", setting.help);
        assert!(DOC.contains(&row), "docs/configuration.md lacks\n{row}");
    }

    #[test]
    fn the_documentation_lists_every_key_with_its_default() {
        for setting in &SETTINGS {
            assert_row(setting.name, setting);
        }
        for (section, algorithms) in [("sampler", SAMPLERS), ("pruner", PRUNERS)] {
            for algorithm in algorithms {
                let row = format!("`{}`: {}", algorithm.name, algorithm.help);
                assert!(DOC.contains(&row), "docs/configuration.md lacks\n{row}");
                for option in algorithm.options {
                    assert_row(&format!("{section}.{}", option.name), option);
                }
            }
        }
    }

    #[test]
    fn the_words_of_the_kinds_are_those_of_the_tables() {
        for (key, algorithms) in [("sampler.kind", SAMPLERS), ("pruner.kind", PRUNERS)] {
            let setting = SETTINGS.iter().find(|s| s.name == key).unwrap();
            let names = algorithms.map(|a| a.name);
            assert!(matches!(setting.ty, SettingType::Word(words) if words == names));
        }
    }
}
