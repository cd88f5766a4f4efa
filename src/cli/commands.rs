//! The commands beside a run, and the arguments of those that have no file of their own.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand};

use super::RungArgs;
use super::args::{Common, ConfigFlags, key_value};
use super::report_page::{PlotArgs, ReportArgs};
use super::shell::{CompletionsArgs, ManArgs};
use super::task_file::ConfigArgs;
use super::{AdoptArgs, BisectArgs, DoctorArgs, DrillArgs, EmbedArgs, FetchArgs, RehearseArgs};
use super::{
    EvaluateArgs, ExportArgs, ExportTrialsArgs, InitArgs, InstallServiceArgs, PredictArgs,
    SimplifyArgs, SubmitArgs,
};
use crate::query::Selection;
use device::DevicePolicy;

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
    /// A study on the whole terminal, as it goes on; changes nothing
    #[command(after_help = "Examples:\n  tune watch\n  tune watch criteria")]
    Watch(WatchArgs),
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
    /// The night at a glance: which faults there were and when, which trials, what they cost, what to do
    #[command(after_help = "Examples:\n  tune faults\n  tune faults criteria --json")]
    Faults(StudyArgs),
    /// Two studies, or the latest ones of two tasks: which is better, how fast, where they differ
    #[command(
        after_help = "Examples:\n  tune compare criteria criteria-max\n  tune compare criteria criteria@2 --json"
    )]
    Compare(CompareArgs),
    /// What each parameter matters
    #[command(after_help = "Examples:\n  tune importance\n  tune importance criteria --json")]
    Importance(StudyArgs),
    /// A page for the morning: what won, what went wrong, what next, with charts; one HTML file
    #[command(
        after_help = "Examples:\n  tune report\n  tune report criteria -o report.html\n  tune report criteria --with criteria-max --json"
    )]
    Report(ReportArgs),
    /// One chart as SVG, for papers and slides
    #[command(
        after_help = "Examples:\n  tune plot history criteria -o history.svg\n  tune plot slice criteria --param optim.lr --width 85 -o lr.svg"
    )]
    Plot(PlotArgs),
    /// The trials for other programs: CSV, Parquet, MLflow's file store or TensorBoard's event files
    #[command(
        name = "export-trials",
        after_help = "Examples:\n  tune export-trials criteria --to parquet -o trials.parquet\n  tune export-trials criteria --to mlflow -o mlruns\n  tune export-trials criteria --to tensorboard -o runs\n  tune export-trials criteria --to wandb -o offline"
    )]
    ExportTrials(ExportTrialsArgs),
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
    /// Declare a trial's result invalid: it no longer leads, and the search no longer learns from it
    #[command(
        after_help = "Examples:\n  tune strike criteria 17 --why 'trained on the test split'\n  tune strike criteria 17 --undo"
    )]
    Strike(StrikeArgs),
    /// The nodes that work on a study which is on a server
    #[command(
        after_help = "Examples:\n  tune nodes criteria\n  tune nodes criteria --forget gpu7      # its trials are taken over at once"
    )]
    Nodes(NodesArgs),
    /// Ask the run of a study to stop, and wait until it has
    #[command(
        after_help = "Examples:\n  tune stop criteria\n  tune stop criteria --now\n  tune stop criteria --all               # on all nodes"
    )]
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
    /// One run on each of several nodes, by Slurm, Kubernetes or HyperQueue
    Submit(SubmitArgs),
    /// Print what a shell completes of the command line
    #[command(
        after_help = "Examples:\n  tune completions bash > ~/.local/share/bash-completion/completions/tune\n  tune completions fish > ~/.config/fish/completions/tune.fish"
    )]
    Completions(CompletionsArgs),
    /// Write the manual pages
    #[command(after_help = "Examples:\n  tune man ~/.local/share/man/man1\n  man tune-trials")]
    Man(ManArgs),
    /// Check configuration and data; writes nothing
    #[command(
        after_help = "Examples:\n  tune check criteria\n  tune check ./mine.toml --set train.epochs=5"
    )]
    Check(Box<Check>),
    /// A task file: every value and where it comes from, or what such a file may hold
    #[command(
        after_help = "Examples:\n  tune config show criteria\n  tune config show criteria --set train.epochs=5 --json\n  tune config schema -o configs/tune.schema.json      # where `#:schema ./tune.schema.json` looks for it"
    )]
    Config(ConfigArgs),
    /// Take in a study that Optuna, Ray Tune, Hyperopt or W&B made elsewhere, and say what it is worth
    #[command(
        after_help = "Examples:\n  tune adopt old.db --task mine --dry-run\n  tune adopt old.db --task mine --rename lr=optim.lr\n  tune adopt old.db --sketch > mine.toml\n  tune adopt ray_results/exp --task mine --metric loss:min"
    )]
    Adopt(Box<AdoptArgs>),
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
    /// Why the machine, a task or any program fails
    #[command(
        after_help = "Examples:\n  tune doctor\n  tune doctor criteria\n  tune doctor --budget 30m --run python train.py --epochs 1"
    )]
    Doctor(Box<DoctorArgs>),
    /// The smallest cause of one trial's failure: which parameters, which batch, which row
    #[command(after_help = "Examples:\n  tune bisect criteria 17")]
    Bisect(BisectArgs),
    /// The plainest point that is no worse than the winner: which of its values matter
    #[command(
        after_help = "Examples:\n  tune simplify criteria\n  tune simplify criteria --trainings 60 --budget 2h"
    )]
    Simplify(SimplifyArgs),
    /// A trial's model as a directory in Hugging Face's layout
    #[command(
        after_help = "Examples:\n  tune export criteria -o winner\n  tune export criteria 17 -o second"
    )]
    Export(Box<ExportArgs>),
    /// Classes of rows, or the texts in pictures, by an exported model
    #[command(
        after_help = "Examples:\n  tune predict winner new-rows.csv\n  tune predict winner new-rows.csv -o classes.csv\n  tune predict detector pictures -o found"
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
    #[command(
        name = "ask-tell",
        after_help = "Examples:\n  tune ask-tell < requests.jsonl\n\ndocs/ask-tell.md has the requests and the replies."
    )]
    AskTell,
    /// A worker process; started by a run
    #[command(hide = true)]
    Worker,
    /// The process that watches the GPUs; started by a run
    #[command(hide = true)]
    Probe(ProbeArgs),
    /// One part of a task, tried by itself; started by doctor
    #[command(hide = true)]
    Rung(Box<RungArgs>),
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
    /// With --libtorch: say whether it has this operation, too
    #[arg(long, value_name = "OPERATION")]
    pub fallback_op: Vec<String>,
    /// Load libtorch, and say which libraries are mapped then
    #[arg(long)]
    pub maps: bool,
    /// All that NVML tells of the GPUs
    #[arg(long)]
    pub details: bool,
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

/// `tune compare`
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// A study, or a task: its latest study
    pub a: String,
    /// Another one
    pub b: String,
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

/// `tune watch`
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// Study [default: the one with the latest activity]
    pub study: Option<String>,
    /// Show it live in a browser on this machine, as `tune report --open` does
    #[arg(long, conflicts_with = "json")]
    pub web: bool,
    /// With --web: the port on 127.0.0.1 [default: a free one]
    #[arg(
        long,
        value_name = "N",
        requires = "web",
        default_value_t = 0,
        hide_default_value = true
    )]
    pub port: u16,
    /// On the terminal of the run that started it
    #[arg(long, hide = true)]
    pub of_run: bool,
}

/// `tune trials`
#[derive(Debug, Default, Args)]
pub struct TrialsArgs {
    /// Study [default: the one with the latest activity]
    pub study: Option<String>,
    /// Which of them, and what of each
    #[command(flatten)]
    pub selection: Selection,
    /// Comma-separated values, one row a trial
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}

/// A number of something, or of a trial.
pub(super) fn whole<N: FromStr>(text: &str) -> Result<N, String> {
    text.parse()
        .map_err(|_| "expected a whole number, from 0".to_owned())
}

/// `tune show`
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Study
    pub study: String,
    /// Trial number
    #[arg(value_parser = whole::<u64>, allow_negative_numbers = true)]
    pub number: u64,
}

/// `tune logs`
#[derive(Debug, Args)]
pub struct LogsArgs {
    /// Study
    pub study: String,
    /// Trial number [default: the log of the last run]
    #[arg(value_parser = whole::<u64>, allow_negative_numbers = true)]
    pub number: Option<u64>,
    /// Only this attempt, from 0
    #[arg(long, value_name = "K", requires = "number", value_parser = whole::<u32>, allow_negative_numbers = true)]
    pub attempt: Option<u32>,
    /// Go on with what comes, until the trial or the run ends
    #[arg(long, short, conflicts_with = "json")]
    pub follow: bool,
    /// Only the last lines of each log
    #[arg(long, short = 'n', value_name = "LINES", value_parser = whole::<usize>, allow_negative_numbers = true)]
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
    /// All nodes that work on a study which is on a server
    #[arg(long)]
    pub all: bool,
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

/// `tune nodes`
#[derive(Debug, Args)]
pub struct NodesArgs {
    /// Study
    pub study: Option<String>,
    /// A node that will not come back: what it runs is taken over at once
    #[arg(long, value_name = "NODE")]
    pub forget: Option<String>,
}

/// `tune strike`
#[derive(Debug, Args)]
pub struct StrikeArgs {
    /// Study
    pub study: String,
    /// Trial number
    #[arg(value_parser = whole::<u64>, allow_negative_numbers = true)]
    pub number: u64,
    /// What is wrong with the result
    #[arg(long, value_name = "REASON", required_unless_present = "undo")]
    pub why: Option<String>,
    /// The result is valid after all
    #[arg(long, conflicts_with = "why")]
    pub undo: bool,
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
    #[arg(required_unless_present_any = ["file", "failed"], conflicts_with_all = ["file", "failed"])]
    pub point: Vec<(String, String)>,
    /// Points, one JSON object a line; - is standard input
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// The points of the trials that failed, but for those that another trial has
    #[arg(long, conflicts_with = "file")]
    pub failed: bool,
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
    #[arg(value_parser = whole::<u64>, allow_negative_numbers = true)]
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
