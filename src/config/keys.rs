//! The keys that `tune` itself reads, as data: the reference in `docs/configuration.md` and the
//! checks both come from these tables.

use super::pruners::KINDS;
pub use super::pruners::PRUNERS;

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
    /// An integer, or `auto`.
    IntOrAuto {
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
    /// A list of strings.
    Texts,
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

pub(super) const fn setting(
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

pub(super) const fn int(low: i64, high: i64) -> SettingType {
    SettingType::Int { low, high }
}

const DURATION: SettingType = SettingType::Duration { off: false };
const DURATION_OR_OFF: SettingType = SettingType::Duration { off: true };
const PROBABILITY: SettingType = SettingType::Float {
    low: 0.0,
    high: 1.0,
};
const MANY: i64 = 1_000_000_000;

/// Every key of `tune` itself, but for the options of samplers and pruners.
#[rustfmt::skip]
pub const SETTINGS: [Setting; 40] = [
    setting("task.kind", SettingType::Text, "", "what is trained: the task kind"),
    setting("study.name", SettingType::Text, "", "the study's name; default: the file's name without .toml"),
    setting("study.seed", int(0, i64::MAX), "0", "seed of everything random in the study"),
    setting("objective.metric", SettingType::Text, "", "what is optimised; default: the task kind's first metric"),
    setting("objective.direction", SettingType::Word(&["minimize", "maximize"]), "", "default: the metric's own direction"),
    setting("objective.metrics", SettingType::Texts, "", "several objectives, each METRIC or METRIC:min or METRIC:max, in place of metric and direction"),
    setting("run.trials", int(1, MANY), "100", "goal: this many finished trials in the study, those of earlier runs included"),
    setting("run.repeats", int(1, 1000), "1", "once the goal is reached, the leading points are trained again with other seeds, the last of them this often, and the best mean wins; 1: off"),
    setting("run.test", SettingType::Word(&["auto", "on", "off", "again"]), "auto", "score the winner on the test split, once; auto: with repeats, where the task has a test split; again: another winner, too"),
    setting("run.parallel", SettingType::IntOrAuto { low: 1, high: 1024 }, "", "most trials at a time; auto: as many as memory and cores allow; default: auto on a GPU, 1 on the CPU"),
    setting("run.standby", SettingType::Word(&["auto", "on", "off"]), "auto", "a spare worker waits, ready, to take over from one that dies or is replaced; auto: on GPUs; always only while memory permits"),
    setting("run.keep_best", int(0, 1_000_000), "1", "the weights of this many best trials are kept, where the task has weights; 0: none"),
    setting("run.max_kept", SettingType::Size, "64GiB", "all kept weights of a study together; those of the best trials come first"),
    setting("run.timeout", DURATION_OR_OFF, "off", "the run ends after this time (exit code 3), resumable"),
    setting("run.device", SettingType::Device, "auto", "auto (every GPU, else the CPU), cpu, cuda, or GPUs by index: cuda:0,1"),
    setting("run.threads", int(1, 4096), "", "CPU threads of a worker; default: the cores divided among the workers"),
    setting("gpu.memory", SettingType::Fraction, "80%", "part of a GPU's memory that trials which run together may use"),
    setting("gpu.alone", SettingType::Fraction, "95%", "part of a GPU's memory that a trial may use which has the GPU to itself; at least gpu.memory"),
    setting("gpu.oom", SettingType::Word(&["alone", "halve"]), "alone", "a trial that ran out of memory runs again alone; halve: with its batches in halves, which gives the same updates"),
    setting("host.memory", SettingType::Fraction, "90%", "part of the host's memory that all workers together may use"),
    setting("supervisor.recycle_after", int(0, MANY), "50", "a worker is replaced after this many successful trials; 0: never"),
    setting("supervisor.deadline", SettingType::Deadline, "auto", "longest time without a training step before a trial counts as hung; auto: learned from the steps seen"),
    setting("supervisor.deadline_factor", SettingType::Float { low: 1.0, high: 1e6 }, "20.0", "a learned deadline is this many times the longest recent silence"),
    setting("supervisor.deadline_floor", DURATION, "1m", "a learned deadline is at least this"),
    setting("supervisor.deadline_ceiling", DURATION, "10m", "a learned deadline is at most this, and is this until three attempts have been seen"),
    setting("supervisor.start_deadline", DURATION, "10m", "longest time from a worker's start until it is ready; on a GPU less, once one has been ready"),
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
    setting("sampler.kind", SettingType::Word(&["auto", "random", "sobol", "grid", "tpe", "gp", "nsga2"]), "auto", "how parameters are chosen"),
    setting("pruner.kind", KINDS, "auto", "how unpromising trials are ended early"),
];

#[rustfmt::skip]
const TPE: [Setting; 4] = [
    setting("n_startup_trials", int(0, 1_000_000), "10", "trials chosen at random before the model is used"),
    setting("n_ei_candidates", int(1, 1_000_000), "24", "candidates drawn a proposal, of which the best is taken"),
    setting("multivariate", SettingType::Bool, "true", "model parameters together instead of one by one"),
    setting("constant_liar", SettingType::Bool, "true", "count trials in progress as bad, so that workers spread out"),
];

#[rustfmt::skip]
const NSGA2: [Setting; 4] = [
    setting("population_size", int(2, 1_000_000), "16", "trials that have children; as many are spread evenly before the first child"),
    setting("mutation_prob", PROBABILITY, "", "probability that a parameter mutates; default: 1 divided by their number"),
    setting("crossover_prob", PROBABILITY, "0.9", "probability that a child has two parents"),
    setting("swapping_prob", PROBABILITY, "0.5", "probability that a parameter is the second parent's"),
];

#[rustfmt::skip]
const GRID: [Setting; 1] = [
    setting("n_points", int(1, 1_000_000), "5", "values of a range that has no steps: a float without `step`, any `log` range"),
];

#[rustfmt::skip]
const GP: [Setting; 2] = [
    setting("n_startup_trials", int(2, 1_000_000), "8", "trials spread over the space before the model is used"),
    setting("n_exact", int(10, 10_000), "1000", "most trials that the model holds: of more the best, the latest and some of the others"),
];

#[rustfmt::skip]
const AUTO: [Setting; 4] = [
    setting("n_startup_trials", int(2, 1_000_000), "8", "trials spread over the space before a model is used"),
    setting("n_ei_candidates", int(1, 1_000_000), "24", "of TPE: candidates drawn a proposal, of which the best is taken"),
    setting("multivariate", SettingType::Bool, "true", "of TPE: model parameters together instead of one by one"),
    setting("constant_liar", SettingType::Bool, "true", "of TPE: count trials in progress as bad, so that workers spread out"),
];

/// Every sampler.
pub const SAMPLERS: [Algorithm; 7] = [
    Algorithm {
        name: "auto",
        options: &AUTO,
        help: "a Gaussian process and TPE by turns, by space and number of trials",
    },
    Algorithm {
        name: "random",
        options: &[],
        help: "independent uniform draws",
    },
    Algorithm {
        name: "sobol",
        options: &[],
        help: "a scrambled Sobol sequence: spread more evenly than random draws",
    },
    Algorithm {
        name: "grid",
        options: &GRID,
        help: "every point of a grid once, in random order; the run ends when all have been tried",
    },
    Algorithm {
        name: "tpe",
        options: &TPE,
        help: "tree-structured Parzen estimator",
    },
    Algorithm {
        name: "gp",
        options: &GP,
        help: "Gaussian process with expected improvement: the best values of few trials",
    },
    Algorithm {
        name: "nsga2",
        options: &NSGA2,
        help: "a genetic algorithm for several objectives",
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
    fn every_pruner_that_can_be_configured_has_code() {
        for algorithm in PRUNERS {
            let spec = search::pruner::PrunerSpec {
                kind: algorithm.name.into(),
                options: Default::default(),
            };
            let made = search::pruner::pruner(&spec, &Default::default()).unwrap();
            assert_eq!(made.name(), algorithm.name);
        }
    }

    #[test]
    fn the_documentation_lists_every_key_with_its_default() {
        for setting in &SETTINGS {
            assert_row(setting.name, setting);
        }
        for (section, algorithms) in [("sampler", &SAMPLERS[..]), ("pruner", &PRUNERS)] {
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
        let kinds = [("sampler.kind", &SAMPLERS[..]), ("pruner.kind", &PRUNERS)];
        for (key, algorithms) in kinds {
            let setting = SETTINGS.iter().find(|s| s.name == key).unwrap();
            let names: Vec<&str> = algorithms.iter().map(|a| a.name).collect();
            assert!(matches!(setting.ty, SettingType::Word(words) if words == names));
        }
    }
}
