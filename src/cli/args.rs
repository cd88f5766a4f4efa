//! The arguments as clap structs. Values that end up in the configuration stay strings: they are
//! checked there, together with everything else, so that all problems are shown at once.

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand};

use super::{AdoptArgs, DrillArgs, EmbedArgs, FetchArgs, RehearseArgs};
use super::{EvaluateArgs, ExportArgs, InitArgs, InstallServiceArgs, PredictArgs};
use crate::query::Selection;
use config::{Algorithm, Overrides, PRUNERS, SAMPLERS, Source, objectives};
use device::DevicePolicy;
use search::study::TrialState;
use supervisor::Origin;

const AFTER_HELP: &str = "\
Commands:
  tune list              Tasks and studies
  tune tasks             The tasks, with their files
  tune status [STUDY]    How far studies are, and what runs now
  tune best [STUDY]      The best trial
  tune trials [STUDY]    The trials: all, the best, those that failed
  tune show STUDY N      Everything about one trial
  tune logs STUDY [N]    What trial N, or the last run, has printed
  tune failures [STUDY]  Why trials failed
  tune memory [STUDY]    What trials use of memory, and why
  tune enqueue STUDY K=V Points to be tried next
  tune stop STUDY        Ask the run of a study to stop
  tune delete STUDY      Delete a study with all its trials and files
  tune rename OLD NEW    Give a study another name
  tune replay STUDY N    Train one trial again; records nothing
  tune init              A first task file
  tune install-service   A systemd unit for a run
  tune check TASK        Check configuration and data; writes nothing
  tune rehearse TASK     A few steps: what fits, how long the search will take
  tune adopt FILE        Take in a study that Optuna made
  tune export STUDY      The winner's model, as a directory
  tune predict DIR FILE  Classes and probabilities of rows, by an exported model
  tune evaluate DIR FILE Scores of an exported model on labelled rows
  tune fetch MODEL       Fetch a model from the hub
  tune embed MODEL FILE  What a model makes of texts
  tune drill [TASK]      Fire drill: faults on purpose
  tune explain [FILE]    What an error or a log means, and what to do
  tune ask-tell          Search for another program: JSON lines on stdin and stdout
  tune help COMMAND      A command's options

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
    /// Database: a path or sqlite:///PATH [default: tune.db in the project directory]
    #[arg(long, value_name = "PATH", global = true, value_parser = storage)]
    pub storage: Option<PathBuf>,
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

/// `tune TASK`: search until the study holds so many finished trials.
#[derive(Debug, Parser)]
#[command(
    name = "tune", version, about = "Hyperparameter search for libtorch",
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
    /// Stop after this time with exit code 3 (7h30m)
    #[arg(help_heading = "Time", long, value_name = "TIME")]
    pub timeout: Option<String>,
    /// Then, or once a signal asks it to stop, give running trials so long to end; 0: put them back at
    /// once [default: as long as trials take, at most 10m or a tenth of --timeout]
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
                let source = Source::Flag(format!("--{flag} {value}"));
                set.push((key.to_owned(), value.clone(), source));
            }
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

/// The commands beside a run.
#[derive(Debug, Parser)]
#[command(name = "tune", version, about = "Hyperparameter search for libtorch")]
pub(super) struct CommandArgs {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub command: Command,
}

/// A command that only reads the database.
#[derive(Debug, Subcommand)]
pub enum ReadCommand {
    /// Tasks and studies
    #[command(after_help = "Examples:\n  tune list\n  tune list --json")]
    List(ListArgs),
    /// How far studies are, and what runs now
    #[command(
        after_help = "Examples:\n  tune status\n  tune status criteria --watch\n  tune -C ~/sweeps status --json"
    )]
    Status(StatusArgs),
    /// The best trial
    #[command(after_help = "Examples:\n  tune best criteria\n  tune best criteria --json")]
    Best(StudyArgs),
    /// The trials: all, the best, those that failed
    #[command(
        after_help = "Examples:\n  tune trials criteria --top 10\n  tune trials criteria --failed\n  tune trials criteria --where 'optim.lr<1e-4' --sort value\n  tune trials criteria --csv > trials.csv"
    )]
    Trials(TrialsArgs),
    /// Everything about one trial
    #[command(after_help = "Examples:\n  tune show criteria 17\n  tune show criteria 17 --json")]
    Show(ShowArgs),
    /// What a trial's attempts, or the last run, have printed
    #[command(
        after_help = "Examples:\n  tune logs criteria\n  tune logs criteria 17 --follow\n  tune logs criteria 17 --attempt 0 --tail 50"
    )]
    Logs(LogsArgs),
    /// The tasks, with their files
    #[command(after_help = "Examples:\n  tune tasks")]
    Tasks(ListArgs),
    /// Why trials failed: the messages, the most frequent first
    #[command(after_help = "Examples:\n  tune failures\n  tune failures criteria --json")]
    Failures(StudyArgs),
    /// What trials use of memory, what explains it, and how many fit at a time
    #[command(after_help = "Examples:\n  tune memory criteria")]
    Memory(StudyArgs),
}

/// A command beside a run.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// One that only reads the database.
    #[command(flatten)]
    Read(ReadCommand),
    /// Points to be tried next, also while the study is run
    #[command(
        after_help = "Examples:\n  tune enqueue criteria optim.lr=1e-4 optim.name=sgd\n  tune enqueue criteria --file points.jsonl --skip-existing"
    )]
    Enqueue(EnqueueArgs),
    /// Ask the run of a study to stop, and wait until it has
    #[command(after_help = "Examples:\n  tune stop criteria\n  tune stop criteria --now")]
    Stop(StopArgs),
    /// Delete a study with all its trials and files
    #[command(after_help = "Examples:\n  tune delete criteria\n  tune delete criteria --yes")]
    Delete(DeleteArgs),
    /// Give a study another name
    #[command(after_help = "Examples:\n  tune rename criteria criteria-old")]
    Rename(RenameArgs),
    /// A first task file: from a program, labelled rows, or a study of Optuna's
    Init(Box<InitArgs>),
    /// Print a systemd unit for a run
    #[command(name = "install-service")]
    InstallService(InstallServiceArgs),
    /// Check configuration and data; writes nothing
    #[command(
        after_help = "Examples:\n  tune check criteria\n  tune check ./mine.toml --set train.epochs=5"
    )]
    Check(Box<Check>),
    /// Take in a study that Optuna made elsewhere, and say what it is worth
    #[command(
        after_help = "Examples:\n  tune adopt old.db --task mine --dry-run\n  tune adopt old.db --task mine --rename lr=optim.lr\n  tune adopt old.db --sketch > mine.toml"
    )]
    Adopt(AdoptArgs),
    /// Fetch a model from the hub into the local cache
    #[command(
        after_help = "Examples:\n  tune fetch roberta-base\n  tune fetch microsoft/deberta-v3-base --to /data/models"
    )]
    Fetch(FetchArgs),
    /// What a model makes of the texts of a file: hidden states, and a vector a text
    #[command(
        after_help = "Examples:\n  tune embed minilm texts.csv --task criteria -o vectors.safetensors"
    )]
    Embed(Box<EmbedArgs>),
    /// Fire drill: make faults on purpose and see what becomes of them
    #[command(after_help = "Examples:\n  tune drill\n  tune drill criteria --inject kill:5,segv:2")]
    Drill(DrillArgs),
    /// A few steps at the ends of the space: what fits, and how long the search will take
    #[command(after_help = "Examples:\n  tune rehearse criteria")]
    Rehearse(Box<RehearseArgs>),
    /// Train one trial again, outside its study; records nothing
    #[command(after_help = "Examples:\n  tune replay criteria 17 --blocking")]
    Replay(ReplayArgs),
    /// A trial's model as a directory in Hugging Face's layout
    #[command(
        after_help = "Examples:\n  tune export criteria -o winner\n  tune export criteria 17 -o second"
    )]
    Export(Box<ExportArgs>),
    /// Classes and probabilities of rows, by an exported model
    #[command(
        after_help = "Examples:\n  tune predict winner new-rows.csv\n  tune predict winner new-rows.csv -o classes.csv"
    )]
    Predict(Box<PredictArgs>),
    /// Scores of an exported model on labelled rows
    #[command(after_help = "Examples:\n  tune evaluate winner labelled.csv")]
    Evaluate(Box<EvaluateArgs>),
    /// What an error or a log means, and what to do
    #[command(
        after_help = "Examples:\n  tune explain train.log\n  tune explain --json < train.log"
    )]
    Explain(ExplainArgs),
    /// Search for another program: a JSON request a line on stdin, a reply a line on stdout
    #[command(name = "ask-tell")]
    AskTell,
    /// A worker process; started by a run
    #[command(hide = true)]
    Worker,
    /// The process that watches the GPUs; started by a run
    #[command(hide = true)]
    Probe(ProbeArgs),
}

/// `tune probe`
#[derive(Debug, Args)]
pub struct ProbeArgs {
    /// A JSON line a second with what the GPUs are at, until standard input closes
    #[arg(long)]
    pub stream: bool,
    /// Only load libtorch, and say why it cannot be
    #[arg(long)]
    pub libtorch: bool,
}

/// `tune list`
#[derive(Debug, Args)]
pub struct ListArgs {}

/// A command about one study.
#[derive(Debug, Args)]
pub struct StudyArgs {
    /// Study [default: the one with the latest activity]
    pub study: Option<String>,
}

/// `tune status`
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Study [default: all of the database]
    pub study: Option<String>,
    /// Show it again every so many seconds, until its run ends [default: 2]
    #[arg(long, value_name = "SECONDS", num_args = 0..=1)]
    pub watch: Option<Option<String>>,
}

/// `tune trials`
#[derive(Debug, Default, Args)]
pub struct TrialsArgs {
    /// Study [default: the one with the latest activity]
    pub study: Option<String>,
    /// Only the N best, the best first
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    /// Only those in this state: complete, pruned, fail, running, waiting; repeatable
    #[arg(long, value_name = "STATE", value_parser = trial_state)]
    pub state: Vec<TrialState>,
    /// Only those that failed
    #[arg(long)]
    pub failed: bool,
    /// Only those that run
    #[arg(long)]
    pub running: bool,
    /// Only those of which this is true: optim.lr<1e-4, state=pruned, reason!=oom; repeatable, all must be true
    #[arg(long = "where", value_name = "CONDITION")]
    pub conditions: Vec<String>,
    /// Sort by a parameter, an attribute, number, state, value, duration, attempts or reason; -KEY: descending
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub sort: Option<String>,
    /// The other way round
    #[arg(long)]
    pub reverse: bool,
    /// These columns, separated by commas, or all [default: as many as the line holds]
    #[arg(
        long,
        value_name = "KEYS",
        conflicts_with = "json",
        value_delimiter = ','
    )]
    pub columns: Vec<String>,
    /// Comma-separated values, one row a trial
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}

impl TrialsArgs {
    /// What is asked for.
    pub fn selection(&self) -> Selection {
        let mut states = self.state.clone();
        states.extend(self.failed.then_some(TrialState::Fail));
        states.extend(self.running.then_some(TrialState::Running));
        let all = self.columns.is_empty() || self.all_columns();
        Selection {
            top: self.top,
            states,
            conditions: self.conditions.clone(),
            sort: self.sort.clone(),
            reverse: self.reverse,
            columns: (!all).then(|| self.columns.clone()),
        }
    }

    /// Whether no column is to be left out.
    pub fn all_columns(&self) -> bool {
        self.columns == ["all"]
    }
}

fn trial_state(word: &str) -> Result<TrialState, String> {
    word.to_uppercase()
        .parse()
        .map_err(|()| "expected complete, pruned, fail, running or waiting".to_owned())
}

/// `tune show`
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Study
    pub study: String,
    /// Trial number
    pub number: u64,
}

/// `tune logs`
#[derive(Debug, Args)]
pub struct LogsArgs {
    /// Study
    pub study: String,
    /// Trial number [default: the log of the last run]
    pub number: Option<u64>,
    /// Only this attempt, from 0
    #[arg(long, value_name = "K", requires = "number")]
    pub attempt: Option<u32>,
    /// Go on with what comes, until the trial or the run ends
    #[arg(long, short, conflicts_with = "json")]
    pub follow: bool,
    /// Only the last lines of each log
    #[arg(long, value_name = "LINES")]
    pub tail: Option<usize>,
}

/// `tune stop`
#[derive(Debug, Args)]
pub struct StopArgs {
    /// Study
    pub study: String,
    /// Do not wait for running trials: they are put back and run again later
    #[arg(long)]
    pub now: bool,
}

/// `tune delete`
#[derive(Debug, Args)]
pub struct DeleteArgs {
    /// Study
    pub study: String,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
}

/// `tune rename`
#[derive(Debug, Args)]
pub struct RenameArgs {
    /// Study
    pub study: String,
    /// Its new name
    pub name: String,
}

/// `tune enqueue`
#[derive(Debug, Args)]
pub struct EnqueueArgs {
    /// Study
    pub study: String,
    /// One point, or a part of one: optim.lr=1e-3 optim.name=sgd; the search chooses the rest
    #[arg(value_name = "KEY=VALUE", value_parser = key_value)]
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    pub point: Vec<(String, String)>,
    /// Points, one JSON object a line; - is standard input
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Leave out points that a trial has already
    #[arg(long)]
    pub skip_existing: bool,
}

/// `tune replay`
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Study
    pub study: String,
    /// Trial number
    pub number: u64,
    /// With blocking launches and full stacks, to find the place of a CUDA error
    #[arg(long)]
    pub blocking: bool,
    /// auto, cpu, cuda or cuda:0 [default: as the study's last run]
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<DevicePolicy>,
}

/// `tune check`
#[derive(Debug, Args)]
pub struct Check {
    /// A task: the name of a file in configs/ without .toml, or a path that ends in .toml
    pub task: String,
    /// What a run would ask.
    #[command(flatten)]
    pub asked: ConfigFlags,
}

/// `tune explain`
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// A file with an error's text or a log; - or nothing: standard input
    pub file: Option<PathBuf>,
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
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        }
        Some(_) | None => Err("expected KEY=VALUE, for example train.epochs=5".to_owned()),
    }
}

/// A path, or a URL of SQLAlchemy: `sqlite:///relative`, `sqlite:////absolute`.
pub(super) fn storage(text: &str) -> Result<PathBuf, String> {
    let path = match text.split_once("://") {
        None => text,
        Some(("sqlite", rest)) => rest.strip_prefix('/').unwrap_or_default(),
        Some((scheme, _)) => {
            return Err(format!(
                "{scheme} is not supported; expected sqlite:///PATH"
            ));
        }
    };
    if path.is_empty() {
        return Err("expected a path or sqlite:///PATH".to_owned());
    }
    // What SQLite means by these ends with the process, or is no path of a file's.
    if path == ":memory:" || path.starts_with("file:") {
        return Err("a study has to outlive its run; expected the path of a file".to_owned());
    }
    Ok(PathBuf::from(path))
}
