//! The arguments as clap structs. Values that end up in the configuration stay strings: they are
//! checked there, together with everything else, so that all problems are shown at once.

use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args, Parser};
use strum::VariantArray;

use super::commands::Command;
use config::{Algorithm, Overrides, PRUNERS, SAMPLERS, Source, objectives};
use messages::exit::Failure;
use supervisor::Origin;

const AFTER_HELP: &str = "\
Commands:
  tune list               Tasks and studies
  tune tasks              The tasks, with their files
  tune status [STUDY]     How far studies are, and what runs now
  tune watch [STUDY]      A study on the whole terminal, as it goes on
  tune best [STUDY]       The best trial
  tune trials [STUDY]     The trials: all, the best, those that failed
  tune show STUDY N       Everything about one trial
  tune logs STUDY [N]     What trial N, or the last run, has printed
  tune failures [STUDY]   Why trials failed
  tune faults [STUDY]     Faults at a glance: when, which trials, what they cost
  tune importance [STUDY] What each parameter matters
  tune compare A B        Two studies: which is better, how fast, where they differ
  tune report [STUDY]     A page for the morning: what won, what went wrong, charts
  tune plot KIND [STUDY]  One chart as SVG or PNG
  tune memory [STUDY]     What trials use of memory, and why
  tune enqueue STUDY K=V  Points to be tried next
  tune strike STUDY N     Declare a trial's result invalid
  tune nodes [STUDY]      Which nodes work on a study that is on a server
  tune stop STUDY         Ask the run of a study to stop
  tune delete STUDY       Delete a study with all its trials and files
  tune rename OLD NEW     Give a study another name
  tune replay STUDY N     Train one trial again; records nothing
  tune init               A first task file
  tune install-service    A systemd unit for a run
  tune submit TASK        One run on each of several nodes, by a cluster's engine
  tune completions SHELL  What a shell completes of the command line
  tune man DIR            The manual pages
  tune check TASK         Check configuration and data; writes nothing
  tune config show TASK   Every value of a task, and where it comes from
  tune config schema      What a task file may hold, for editors
  tune rehearse TASK      A few steps: what fits, how long the search will take
  tune adopt FILE         Take in a study that Optuna, Ray Tune, Hyperopt or W&B made
  tune export STUDY       The winner's model, as a directory
  tune simplify STUDY     The plainest point that is no worse than the winner
  tune export-trials      The trials as CSV, Parquet, for MLflow, TensorBoard or W&B
  tune predict DIR FILE   Classes of rows, or the texts in pictures, by an exported model
  tune evaluate DIR FILE  Scores of an exported model on labelled rows
  tune fetch MODEL        Fetch a model from the hub
  tune embed MODEL FILE   What a model makes of texts
  tune drill [TASK]       Fire drill: faults on purpose
  tune doctor [TASK]      Why the machine, a task or any program fails
  tune bisect STUDY N     The smallest cause of a trial's failure
  tune explain [FILE]     What an error or a log means, and what to do
  tune ask-tell           Search for another program: JSON lines on stdin and stdout
  tune help COMMAND       A command's options

Examples:
  tune criteria --trials 5000 --parallel 2
  tune criteria --timeout 7h30m --json
  tune -C ~/search check criteria

The same command again continues the study until it holds that many finished trials.";

/// A command line, read.
#[derive(Debug)]
pub enum Invocation {
    /// `tune TASK`.
    Run(Box<RunArgs>),
    /// Any other command.
    Command(Common, Command),
}

/// Options that every command has.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Every command")]
pub struct Common {
    /// Project directory [default: $TUNE_HOME, else that of the task file, else the nearest one upward with
    /// a task in configs/]
    #[arg(short = 'C', value_name = "DIR", global = true)]
    pub dir: Option<PathBuf>,
    /// Database: a path, sqlite:///PATH or postgresql://USER@HOST/DATABASE [default: $TUNE_STORAGE, else
    /// tune.db in the project directory]
    // Not read here: an error of the command line would repeat a password that is in a URL.
    #[arg(long, value_name = "PATH", global = true)]
    pub storage: Option<String>,
    /// Machine-readable output on stdout
    #[arg(long, global = true)]
    pub json: bool,
    /// Errors only
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// More on stderr; repeat for even more
    #[arg(short, long, action = ArgAction::Count, global = true)]
    pub verbose: u8,
}

impl Common {
    /// Whether a person is told how the work goes on.
    pub(crate) fn loud(&self) -> bool {
        !self.json && !self.quiet
    }
}

/// `tune TASK`: search until the study holds so many finished trials.
#[derive(Debug, Parser)]
#[command(
    name = "tune", version, long_version = super::version::LONG.as_str(), about = "Hyperparameter search for libtorch",
    arg_required_else_help = true,
    override_usage = "tune <TASK> [OPTIONS]\n       tune <COMMAND> [OPTIONS]",
    after_help = AFTER_HELP
)]
pub struct RunArgs {
    /// A task: the name of a file in configs/ without .toml, or a path that ends in .toml
    pub task: String,
    /// What a run asks of its configuration.
    #[command(flatten)]
    pub asked: ConfigFlags,
    /// Where the study differs from what is asked, search in a fork of it: NAME@2, with the trials
    /// that still fit
    #[arg(help_heading = "Changed study", long)]
    pub fork: bool,
    /// Begin a new study with the trials of this one that fit
    #[arg(
        help_heading = "Changed study",
        long,
        value_name = "STUDY",
        conflicts_with = "fork"
    )]
    pub from: Option<String>,
    /// Go on although the program's files have changed: the change does not alter what a value means
    #[arg(help_heading = "Changed study", long, conflicts_with_all = ["fork", "from"])]
    pub same_program: bool,
    /// Begin a new study on a GPU without a rehearsal of what fits
    #[arg(long)]
    pub no_rehearsal: bool,
    /// Lines as they come, without the view that a run opens on a terminal
    #[arg(long)]
    pub plain: bool,
    /// Have all of it done by this time (08:00): the search ends early enough for repeats and the test
    #[arg(help_heading = "Time", long, value_name = "TIME")]
    pub by: Option<String>,
    /// Have this shell command told of the end, a new best (at most once a minute) and a lost GPU: $TUNE_TEXT says it in a
    /// sentence, standard input as JSON
    #[arg(long, value_name = "COMMAND")]
    pub notify: Option<String>,
    /// Keep this file up to date with what the run is at, for Prometheus (node_exporter's textfile collector: a name that
    /// ends in .prom)
    #[arg(long, value_name = "FILE")]
    pub metrics_file: Option<PathBuf>,
    /// Make faults on purpose: NAME, NAME:COUNT or NAME:RATE, comma-separated (kill:3,segv:0.02)
    #[arg(long, value_name = "FAULTS")]
    pub inject: Option<String>,
    /// Decides which trials they hit [default: the study's seed]
    #[arg(long, value_name = "N", requires = "inject")]
    pub inject_seed: Option<u64>,
    /// What every command has.
    #[command(flatten)]
    pub common: Common,
}

impl RunArgs {
    /// What a study that does not exist yet is made from.
    pub fn origin(&self) -> Origin {
        match &self.from {
            Some(study) => Origin::From(study.clone()),
            None if self.fork => Origin::Fork,
            None => Origin::New,
        }
    }

    /// Reads a run, as it would be typed behind `tune`, of another command; and where it is, which that command may say, too.
    pub(super) fn of_words(
        before: &Common,
        words: &[String],
    ) -> Result<(RunArgs, Common), Failure> {
        let line = std::iter::once("tune".to_owned()).chain(words.iter().cloned());
        let asked = RunArgs::try_parse_from(line).map_err(|e| usage(&e))?;
        let both = Common {
            dir: before.dir.clone().or(asked.common.dir.clone()),
            storage: before.storage.clone().or(asked.common.storage.clone()),
            ..Common::default()
        };
        Ok((asked, both))
    }
}

/// What clap finds wrong with a part of a command line.
pub(super) fn usage(error: &clap::Error) -> Failure {
    let text = error.render().to_string();
    Failure::input(text.trim_end().trim_start_matches("error: "))
}

/// Flags that stand for keys of the configuration.
#[derive(Debug, Args)]
pub struct ConfigFlags {
    /// Goal: finished trials in the study
    #[arg(
        help_heading = "Goal and study",
        long,
        value_name = "N",
        allow_negative_numbers = true
    )]
    pub trials: Option<String>,
    /// Most trials at a time, or auto: as many as fit [default: auto on a GPU, 1 on the CPU]
    #[arg(
        help_heading = "Training",
        long,
        value_name = "N",
        allow_negative_numbers = true
    )]
    pub parallel: Option<String>,
    /// A spare worker that takes over at once: auto, on or off
    #[arg(help_heading = "Training", long, value_name = "WHEN")]
    pub standby: Option<String>,
    /// Study [default: the task's name]
    #[arg(help_heading = "Goal and study", long, value_name = "NAME")]
    pub study: Option<String>,
    /// Train the leading points again with other seeds, the last ones this often; the best mean wins
    #[arg(
        help_heading = "Search",
        long,
        value_name = "K",
        allow_negative_numbers = true
    )]
    pub repeats: Option<String>,
    /// Score the winner on the test split: auto, on, off; again: another winner, too
    #[arg(help_heading = "Search", long, value_name = "WHEN", num_args = 0..=1, require_equals = true,
          default_missing_value = "on")]
    pub test: Option<String>,
    /// End the search once more trials would hardly gain anything; repeats and the test follow
    #[arg(help_heading = "Goal and study", long, value_name = "SHARE", num_args = 0..=1, require_equals = true,
          default_missing_value = "1%")]
    pub until_flat: Option<String>,
    /// Stop after this time with exit code 3 (7h30m)
    #[arg(help_heading = "Time", long, value_name = "TIME")]
    pub timeout: Option<String>,
    /// Leave, with exit code 4, before the machine is taken away after this time (as by a job's limit)
    #[arg(help_heading = "Time", long, value_name = "TIME")]
    pub leave_in: Option<String>,
    /// Then, or once a signal asks it to stop, give running trials so long to end; 0: put them back at
    /// once [default: as long as trials take, at most 10m, or a tenth of --timeout where that is longer]
    #[arg(help_heading = "Time", long, value_name = "TIME")]
    pub grace: Option<String>,
    /// End a trial that runs for longer (30m): PRUNED with its last value
    #[arg(help_heading = "Time", long, value_name = "TIME")]
    pub trial_limit: Option<String>,
    /// Epochs a trial
    #[arg(
        help_heading = "Training",
        long,
        value_name = "N",
        allow_negative_numbers = true
    )]
    pub epochs: Option<String>,
    /// End a trial after so many epochs without progress
    #[arg(
        help_heading = "Training",
        long,
        value_name = "N",
        allow_negative_numbers = true
    )]
    pub patience: Option<String>,
    /// Models a trial, each validated on another part of the rows; a trial's value is their mean
    #[arg(
        help_heading = "Search",
        long,
        value_name = "K",
        allow_negative_numbers = true
    )]
    pub folds: Option<String>,
    /// The study's seed
    #[arg(
        help_heading = "Goal and study",
        long,
        value_name = "N",
        allow_negative_numbers = true
    )]
    pub seed: Option<String>,
    /// auto, cpu, cuda or cuda:0,1
    #[arg(help_heading = "Training", long, value_name = "DEVICE")]
    pub device: Option<String>,
    // Their kinds stand in the tables of the configuration.
    #[arg(help_heading = "Search", long, value_name = "KIND", help = kinds("Sampler", &SAMPLERS))]
    pub sampler: Option<String>,
    #[arg(help_heading = "Search", long, value_name = "KIND", help = kinds("Pruner", &PRUNERS))]
    pub pruner: Option<String>,
    /// What is optimised: METRIC:min or METRIC:max; repeat it for several objectives
    #[arg(help_heading = "Goal and study", long, value_name = "METRIC[:DIR]")]
    pub objective: Vec<String>,
    /// Longest time without a training step: auto, off or a time such as 10m
    #[arg(help_heading = "Time", long, value_name = "TIME")]
    pub deadline: Option<String>,
    /// Tell a tracker of the trials as they go on: mlflow:DIR, tensorboard:DIR or wandb:DIR; repeatable
    #[arg(long, value_name = "KIND:DIR", value_parser = super::track::kind_and_dir)]
    pub track: Vec<(&'static str, PathBuf)>,
    /// Override any key of the configuration; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub set: Vec<(String, String)>,
}

/// The help of a flag that takes a kind: `Sampler: auto, random or sobol`.
fn kinds(what: &str, algorithms: &[Algorithm]) -> String {
    let names: Vec<&str> = algorithms.iter().map(|a| a.name).collect();
    match names.split_last() {
        Some((last, names)) => format!("{what}: {} or {last}", names.join(", ")),
        None => what.to_owned(),
    }
}

/// Bytes of a flag's value up to which messages repeat it.
const LONGEST: usize = 200;

impl ConfigFlags {
    /// The overrides: `--set` first, in order; a flag of its own wins over it.
    pub fn overrides(&self) -> Overrides {
        let mut set = set_overrides(&self.set);
        let flags = [
            ("trials", "run.trials", &self.trials),
            ("parallel", "run.parallel", &self.parallel),
            ("standby", "run.standby", &self.standby),
            ("repeats", "run.repeats", &self.repeats),
            ("test", "run.test", &self.test),
            ("timeout", "run.timeout", &self.timeout),
            ("leave-in", "run.leave_in", &self.leave_in),
            ("until-flat", "run.until_flat", &self.until_flat),
            ("grace", "run.grace", &self.grace),
            ("trial-limit", "run.trial_limit", &self.trial_limit),
            ("device", "run.device", &self.device),
            ("study", "study.name", &self.study),
            ("seed", "study.seed", &self.seed),
            ("epochs", "train.epochs", &self.epochs),
            ("patience", "train.patience", &self.patience),
            ("folds", "data.folds", &self.folds),
            ("sampler", "sampler.kind", &self.sampler),
            ("pruner", "pruner.kind", &self.pruner),
            ("deadline", "supervisor.deadline", &self.deadline),
        ];
        for (flag, key, value) in flags {
            if let Some(value) = value {
                // What is too long to be told is told with what is wrong with it.
                let source = Source::Flag(match value.len() > LONGEST {
                    true => format!("--{flag}"),
                    false => format!("--{flag} {value}"),
                });
                let value = match flag {
                    // A name is what was typed, whatever TOML would make of it.
                    "study" => config::toml_text(value),
                    _ => value.clone(),
                };
                set.push((key.to_owned(), value, source));
            }
        }
        for (kind, dir) in &self.track {
            let dir = dir.to_string_lossy().into_owned();
            let source = Source::Flag(format!("--track {kind}:{dir}"));
            set.push((format!("track.{kind}"), dir, source));
        }
        if !self.objective.is_empty() {
            let shown: Vec<String> = (self.objective.iter())
                .map(|o| format!("--objective {o}"))
                .collect();
            let (key, value) = objectives::from_flags(&self.objective);
            set.push((key, value, Source::Flag(shown.join(" "))));
        }
        Overrides { set }
    }
}

pub(super) fn set_overrides(set: &[(String, String)]) -> Vec<(String, String, Source)> {
    set.iter()
        .map(|(key, value)| {
            let source = Source::Flag(format!("--set {key}={value}"));
            (key.clone(), value.clone(), source)
        })
        .collect()
}

pub(super) fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = config::assignment(text)
        .ok_or_else(|| "expected KEY=VALUE, for example train.epochs=5".to_owned())?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Reads a word of an enum's; `about`: what a shell says of each while it completes them.
pub(super) fn word<T>(about: fn(&T) -> Option<&'static str>) -> impl TypedValueParser<Value = T>
where
    T: VariantArray + FromStr<Err: ToString> + Into<&'static str> + Copy + Send + Sync,
{
    let words = T::VARIANTS.iter().map(|one| {
        let word: &'static str = (*one).into();
        let about = about(one).map(|text| text.trim_end_matches('.'));
        PossibleValue::new(word).help(about)
    });
    PossibleValuesParser::new(words).try_map(|word| word.parse::<T>().map_err(|e| e.to_string()))
}
