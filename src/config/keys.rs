//! The keys that `tune` itself reads, and those of samplers, as data: the reference in
//! `docs/configuration.md` and the checks both come from these tables.

use std::time::Duration;

pub use super::pruners::PRUNERS;
use super::pruners::{WRAPPED, wraps};
use crate::key::{FRACTION, Key, KeyType, Preset, data, float, int, int_or_auto, operational};

/// A kind of sampler or pruner, with its options.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Algorithm {
    /// The word in `sampler.kind` or `pruner.kind`.
    pub name: &'static str,
    /// Its options.
    pub options: &'static [Key<'static>],
    /// One line for people.
    pub help: &'static str,
}

impl Algorithm {
    pub(super) const fn new(name: &'static str, options: &'static [Key<'static>]) -> Algorithm {
        let help = "";
        Algorithm {
            name,
            options,
            help,
        }
    }

    pub(super) const fn help(self, help: &'static str) -> Algorithm {
        Algorithm { help, ..self }
    }

    /// Whether one of its options has this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.options.iter().any(|option| option.name == name)
    }
}

/// A time of at least so many milliseconds, or one of these words.
const fn time(least: u64, words: &'static [&'static str]) -> KeyType {
    let least = Duration::from_millis(least);
    KeyType::Duration { least, words }
}

const DURATION: KeyType = time(0, &[]);
const DURATION_OR_OFF: KeyType = time(0, &["off"]);
/// Workers give signs of life ten times a second at most.
const DEADLINE: KeyType = time(200, &["auto", "off"]);
/// It is renewed five times in that time.
const LEASE: KeyType = time(1000, &[]);
const MANY: i64 = 1_000_000_000;

/// Every key of `tune` itself, but for the options of samplers and pruners.
pub const SETTINGS: [Key; 51] = [
    data("task.kind", KeyType::Text, Preset::Optional)
        .help("what is trained: the task kind"),
    data("study.name", KeyType::Text, Preset::Optional)
        .help("the study's name; default: the file's name without .toml"),
    data("study.seed", int(0, i64::MAX), Preset::Int(0))
        .help("seed of everything random in the study"),
    data("objective.metric", KeyType::Text, Preset::Optional)
        .help("what is optimised; default: the task kind's first metric"),
    data("objective.direction", KeyType::Choice(&["minimize", "maximize"]), Preset::Optional)
        .help("default: the metric's own direction"),
    data("objective.metrics", KeyType::Metrics, Preset::Optional)
        .help("several objectives, each METRIC or METRIC:min or METRIC:max, in place of metric and direction"),
    operational("run.trials", int(1, MANY), Preset::Int(100))
        .help("goal: this many finished trials in the study, those of earlier runs included"),
    operational("run.repeats", int(1, 1000), Preset::Int(1))
        .help("once the goal is reached, the leading points are trained again with other seeds, the last of them this often, and the best mean wins; 1: off"),
    operational("run.test", KeyType::Choice(&["auto", "on", "off", "again"]), Preset::Text("auto"))
        .help("score the winner on the test split, once; auto: with repeats, where the task has a test split; again: another winner, too"),
    operational("run.parallel", int_or_auto(1, 1024), Preset::Optional)
        .help("most trials at a time; auto: as many as memory and cores allow; default: auto on a GPU, 1 on the CPU"),
    operational("run.standby", KeyType::Choice(&["auto", "on", "off"]), Preset::Text("auto"))
        .help("a spare worker waits, ready, to take over from one that dies or is replaced; auto: on GPUs; always only while memory permits"),
    operational("run.keep_best", int(0, 1_000_000), Preset::Int(1))
        .help("the weights of this many best trials are kept, where the task has weights; 0: none"),
    operational("run.max_kept", KeyType::Size, Preset::Text("64GiB"))
        .help("all kept weights of a study together; those of the best trials come first"),
    operational("run.timeout", DURATION_OR_OFF, Preset::Text("off"))
        .help("the run ends after this time (exit code 3), resumable"),
    operational("run.leave_in", DURATION_OR_OFF, Preset::Text("off"))
        .help("the machine is taken away after this time, as by a job's limit: nothing starts that could neither end nor leave a checkpoint by then, and the run leaves before it (exit code 4)"),
    operational("run.until_flat", KeyType::Share, Preset::Optional)
        .help("the search ends once 100 more trials would most likely gain less than another seed does (where repeats have shown that), or than this part of what the search has gained; default: only at run.trials"),
    operational("run.grace", KeyType::DurationOrAuto, Preset::Text("auto"))
        .help("once the run is to stop (run.timeout, or a signal), running trials have so long to end; auto: as long as trials of the study take, at most 10m or a tenth of run.timeout, whichever is more; 0: they are put back at once"),
    operational("run.trial_limit", DURATION_OR_OFF, Preset::Text("off"))
        .help("an attempt that runs for longer is ended, and its trial is PRUNED with the last value that it reported"),
    operational("run.device", KeyType::Device, Preset::Text("auto"))
        .help("auto (every GPU, else the CPU), cpu, cuda, or GPUs by index: cuda:0,1"),
    operational("run.threads", int(1, 4096), Preset::Optional)
        .help("CPU threads of a worker; default: the cores divided among the workers"),
    operational("gpu.memory", KeyType::Share, Preset::Text("80%"))
        .help("part of a GPU's memory that trials which run together may use"),
    operational("gpu.alone", KeyType::Share, Preset::Text("95%"))
        .help("part of a GPU's memory that a trial may use which has the GPU to itself; at least gpu.memory"),
    operational("gpu.oom", KeyType::Choice(&["alone", "halve"]), Preset::Text("alone"))
        .help("a trial that ran out of memory runs again alone; halve: with its batches in halves, which gives the same updates"),
    operational("device.fallback_ops", KeyType::List, Preset::Optional)
        .help("operations, such as aten::convolution_backward, that are computed on the CPU where trials train on a GPU; their gradients stay right"),
    operational("host.memory", KeyType::Share, Preset::Text("90%"))
        .help("part of the host's memory that all workers together may use"),
    operational("supervisor.recycle_after", int(0, MANY), Preset::Int(50))
        .help("a worker is replaced after this many successful trials; 0: never"),
    operational("supervisor.deadline", DEADLINE, Preset::Text("auto"))
        .help("longest time without a training step before a trial counts as hung; auto: learned from the steps seen"),
    operational("supervisor.deadline_factor", float(1.0, 1e6), Preset::Float(20.0))
        .help("a learned deadline is this many times the longest recent silence"),
    operational("supervisor.deadline_floor", DURATION, Preset::Text("1m"))
        .help("a learned deadline is at least this"),
    operational("supervisor.deadline_ceiling", DURATION, Preset::Text("10m"))
        .help("a learned deadline is at most this, and is this until three attempts have been seen"),
    operational("supervisor.start_deadline", DURATION, Preset::Text("10m"))
        .help("longest time from a worker's start until it is ready; on a GPU less, once one has been ready"),
    operational("supervisor.grace", DURATION, Preset::Text("5s"))
        .help("time between SIGTERM and SIGKILL"),
    operational("supervisor.abandon_after", DURATION, Preset::Text("30s"))
        .help("a worker that lives on for this long after SIGKILL is given up, and its GPU with it"),
    operational("supervisor.max_deaths", int(1, 1_000_000), Preset::Int(5))
        .help("more deaths of one slot than this within death_window, without a finished epoch, trip the breaker"),
    operational("supervisor.death_window", DURATION, Preset::Text("60s"))
        .help("see max_deaths"),
    operational("supervisor.backoff", DURATION, Preset::Text("1s"))
        .help("first pause before a dead worker is replaced; doubled at each death without progress"),
    operational("supervisor.max_backoff", DURATION, Preset::Text("60s"))
        .help("longest such pause"),
    operational("supervisor.max_failures", int(1, MANY), Preset::Int(20))
        .help("this many FAIL trials in a row trip the breaker"),
    operational("supervisor.max_refused", int(1, MANY), Preset::Int(200))
        .help("this many refused trials in a row trip the breaker"),
    operational("supervisor.checkpoint", KeyType::Bool, Preset::Bool(false))
        .help("keep checkpoints, so that an interrupted trial goes on from its last epoch"),
    operational("supervisor.storage_patience", DURATION, Preset::Text("60s"))
        .help("how long to wait for a database that cannot be written, before the run ends (exit code 7); on a server at least twice storage.lease"),
    operational("storage.url", KeyType::Text, Preset::Optional)
        .help("the database of a run, as --storage names it, which wins, as does TUNE_STORAGE; other commands about the study need one of these"),
    operational("storage.lease", LEASE, Preset::Text("5m"))
        .help("on a server: a node that is not heard of for so long loses its trials to others; it is heard of five times as often"),
    operational("logging.max_log", KeyType::Size, Preset::Text("4MiB"))
        .help("a worker's log of one attempt is cut at this size"),
    operational("logging.max_logs", KeyType::Size, Preset::Text("512MiB"))
        .help("all logs of a study together; the oldest are deleted"),
    operational("track.mlflow", KeyType::Path, Preset::Optional)
        .help("a file store of MLflow that is told of the trials as they go on"),
    operational("track.tensorboard", KeyType::Path, Preset::Optional)
        .help("a directory of TensorBoard's logs that is told of them; in it the study has one of its own"),
    operational("track.wandb", KeyType::Path, Preset::Optional)
        .help("a directory of runs for `wandb sync` that is told of them"),
    operational("sampler.kind", KeyType::Choice(&["auto", "random", "sobol", "grid", "tpe", "gp", "nsga2"]), Preset::Text("auto"))
        .help("how parameters are chosen"),
    operational("pruner.audit", KeyType::Share, Preset::Optional)
        .help("for this share of all epochs, trials that the pruner would end go on, chosen at random: `tune report` then says how many of the pruned ones would have won; default: none"),
    operational("pruner.kind", super::pruners::KINDS, Preset::Text("auto"))
        .help("how unpromising trials are ended early"),
];

const TPE: [Key; 4] = [
    operational("n_startup_trials", int(0, 1_000_000), Preset::Int(10))
        .help("trials chosen at random before the model is used"),
    operational("n_ei_candidates", int(1, 1_000_000), Preset::Int(24))
        .help("candidates drawn a proposal, of which the best is taken"),
    operational("multivariate", KeyType::Bool, Preset::Bool(true))
        .help("model parameters together instead of one by one"),
    operational("constant_liar", KeyType::Bool, Preset::Bool(true))
        .help("count trials in progress as bad, so that workers spread out"),
];

const NSGA2: [Key; 4] = [
    operational("population_size", int(2, 1_000_000), Preset::Int(16))
        .help("trials that have children; as many are spread evenly before the first child"),
    operational("mutation_prob", FRACTION, Preset::Optional)
        .help("probability that a parameter mutates; default: 1 divided by their number"),
    operational("crossover_prob", FRACTION, Preset::Float(0.9))
        .help("probability that a child has two parents"),
    operational("swapping_prob", FRACTION, Preset::Float(0.5))
        .help("probability that a parameter is the second parent's"),
];

const GRID: [Key; 1] = [operational("n_points", int(1, 1_000_000), Preset::Int(5))
    .help("values of a range that has no steps: a float without `step`, any `log` range")];

const GP: [Key; 2] = [
    operational("n_startup_trials", int(2, 1_000_000), Preset::Int(8))
        .help("trials spread over the space before the model is used"),
    operational("n_exact", int(10, 10_000), Preset::Int(1000)).help(
        "most trials that the model holds: of more the best, the latest and some of the others",
    ),
];

const AUTO: [Key; 4] = [
    operational("n_startup_trials", int(2, 1_000_000), Preset::Int(8))
        .help("trials spread over the space before a model is used"),
    operational("n_ei_candidates", int(1, 1_000_000), Preset::Int(24))
        .help("of TPE: candidates drawn a proposal, of which the best is taken"),
    operational("multivariate", KeyType::Bool, Preset::Bool(true))
        .help("of TPE: model parameters together instead of one by one"),
    operational("constant_liar", KeyType::Bool, Preset::Bool(true))
        .help("of TPE: count trials in progress as bad, so that workers spread out"),
];

/// Every sampler.
pub const SAMPLERS: [Algorithm; 7] = [
    Algorithm::new("auto", &AUTO)
        .help("a Gaussian process and TPE by turns, by space and number of trials"),
    Algorithm::new("random", &[]).help("independent uniform draws"),
    Algorithm::new("sobol", &[])
        .help("a scrambled Sobol sequence: spread more evenly than random draws"),
    Algorithm::new("grid", &GRID)
        .help("every point of a grid once, in random order; the run ends when all have been tried"),
    Algorithm::new("tpe", &TPE).help("tree-structured Parzen estimator"),
    Algorithm::new("gp", &GP)
        .help("Gaussian process with expected improvement: the best values of few trials"),
    Algorithm::new("nsga2", &NSGA2).help("a genetic algorithm for several objectives"),
];

/// Names of all own keys, options included.
pub(super) fn names() -> Vec<String> {
    let mut names: Vec<String> = SETTINGS.iter().map(|s| s.name.to_owned()).collect();
    let wrapped = format!("pruner.{WRAPPED}");
    for (section, algorithms) in [
        ("sampler", &SAMPLERS[..]),
        ("pruner", &PRUNERS),
        (&wrapped, &PRUNERS),
    ] {
        let once = |a: &&Algorithm| section != wrapped || !wraps(a.options);
        for option in algorithms.iter().filter(once).flat_map(|a| a.options) {
            let name = format!("{section}.{}", option.name);
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn the_words_of_the_kinds_are_those_of_the_tables() {
        let kinds = [("sampler.kind", &SAMPLERS[..]), ("pruner.kind", &PRUNERS)];
        for (key, algorithms) in kinds {
            let setting = SETTINGS.iter().find(|s| s.name == key).unwrap();
            let names: Vec<&str> = algorithms.iter().map(|a| a.name).collect();
            assert!(matches!(setting.ty, KeyType::Choice(words) if words == names));
        }
    }
}
