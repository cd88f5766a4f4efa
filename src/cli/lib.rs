//! The command line: which command is meant, its arguments, and its short body.

mod adopt;
mod args;
mod ask_tell;
mod bisect;
mod by;
mod check_notes;
mod check_report;
mod commands;
mod detect;
mod doctor;
mod drill;
mod drill_report;
mod embed;
mod enqueue;
mod evaluate;
mod explain;
mod export;
mod export_trials;
mod fetch;
mod init;
mod install_service;
mod libtorch;
mod logging;
mod logs;
mod manage;
mod metrics_file;
mod nodes;
mod notify;
mod png;
mod predict;
mod query;
mod read_command;
mod rehearse;
mod replay;
mod report_page;
mod report_server;
mod run;
mod rung;
mod shell;
mod simplify;
mod status;
mod stop;
mod strike;
mod submit;
mod task_file;
mod track;
mod version;
mod watch;

use std::ffi::OsString;
use std::process::{ExitCode, Termination};
use std::sync::LazyLock;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};
use serde::Serialize;
use serde_json::Value as Json;

pub use args::Invocation;

use adopt::AdoptArgs;
use args::{Common, RunArgs};
use bisect::BisectArgs;
use commands::{
    Check, Command, CompareArgs, EnqueueArgs, ExplainArgs, ReadCommand, ReplayArgs, TrialsArgs,
};
use doctor::DoctorArgs;
use drill::DrillArgs;
use embed::EmbedArgs;
use evaluate::EvaluateArgs;
use export::ExportArgs;
use export_trials::ExportTrialsArgs;
use fetch::FetchArgs;
use init::InitArgs;
use install_service::InstallServiceArgs;
use logging::init_logging;
use predict::PredictArgs;
use rehearse::RehearseArgs;
use rung::RungArgs;
use simplify::SimplifyArgs;
use submit::SubmitArgs;

use device::Device;
use messages::exit::{Exit, Failure};
use query::Answer;
use request::torch_request::TorchRequest;

/// The commands beside a run.
static COMMANDS: LazyLock<clap::Command> = LazyLock::new(commands::CommandArgs::command);

/// Words that are commands, and so never a task's name.
static RESERVED: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let names = COMMANDS.get_subcommands().map(clap::Command::get_name);
    names.chain(["help", "version"]).collect()
});

/// The whole program: parses, runs, reports an error, and says what to exit with.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let invocation = match parse(args) {
        Ok(invocation) => invocation,
        Err(e) => {
            tell(&e);
            return if e.use_stderr() {
                Exit::BadInput
            } else {
                Exit::Done
            }
            .report();
        }
    };
    match &invocation {
        Invocation::Run(args) => told(run::run(args)),
        Invocation::Command(common, command) => carry_out(common, command),
    }
}

/// What a command exits with; a failure is printed.
fn told(result: Result<Exit, Failure>) -> ExitCode {
    let exit = match result {
        Ok(exit) => exit,
        Err(failure) => {
            logging::flush();
            report::err(&format!("error: {failure}"));
            failure.exit
        }
    };
    logging::flush();
    exit.report()
}

/// A command beside a run.
fn carry_out(common: &Common, command: &Command) -> ExitCode {
    let logs = !matches!(
        command,
        Command::Worker
            | Command::Probe(_)
            | Command::InstallService(_)
            | Command::Completions(_)
            | Command::Man(_)
            | Command::Explain(_)
    );
    if logs && let Err(failure) = init_logging(common, None) {
        return told(Err(failure));
    }
    let result = match command {
        Command::Worker => return work(),
        Command::Probe(args) => return probe(args),
        Command::AskTell => ask_tell::ask_tell(common),
        Command::Adopt(args) => adopt::adopt(common, args),
        Command::Drill(args) => drill::drill(common, args),
        Command::Doctor(args) => doctor::doctor(common, args),
        Command::Bisect(args) => bisect::bisect(common, args),
        Command::Simplify(args) => simplify::simplify(common, args),
        Command::Rung(args) => rung::rung(common, args),
        Command::Embed(args) => embed::embed(common, args),
        Command::Init(args) => init::init(common, args),
        Command::Submit(args) => submit::submit(common, args.clone()),
        Command::InstallService(args) => install_service::install_service(common, args),
        Command::Completions(args) => shell::completions(args),
        Command::Man(args) => shell::man(args),
        Command::Fetch(args) => fetch::fetch(common, args),
        Command::Enqueue(args) => enqueue::enqueue(common, args),
        Command::Stop(args) => stop::stop(common, args),
        Command::Nodes(args) => nodes::nodes(common, args),
        Command::Strike(args) => strike::strike(common, args),
        Command::Delete(args) => manage::delete(common, args),
        Command::Rename(args) => manage::rename(common, args),
        Command::Export(args) => export::export(common, args),
        Command::Predict(args) => predict::predict(common, args),
        Command::Evaluate(args) => evaluate::evaluate(common, args),
        Command::Rehearse(args) => rehearse::rehearse_task(common, args),
        Command::Replay(args) => replay::replay_trial(common, args),
        Command::Check(args) => run::check(common, args),
        Command::Config(args) => task_file::config(common, args),
        Command::Explain(args) => explain::explain(common, args),
        Command::Read(command) => read_command::read_command(common, command),
    };
    told(result)
}

/// One of the probe's ways to look at the GPUs.
fn probe(args: &commands::ProbeArgs) -> ExitCode {
    if args.stream {
        device::probe::stream()
    } else if args.libtorch {
        let device = Device::Cpu;
        let fallback_ops = args.fallback_op.clone();
        told(libtorch::run(&TorchRequest::Load {
            device,
            fallback_ops,
        }))
    } else if args.maps {
        doctor::maps()
    } else if args.details {
        device::probe::details()
    } else {
        device::probe::main(libtorch::load_for)
    }
}

/// Serves the supervisor at the other end of standard input, with libtorch where that is needed.
fn work() -> ExitCode {
    if std::env::var_os(protocol::NEEDS_LIBTORCH).is_none() {
        return worker::main(&worker::NO_LIBTORCH);
    }
    told(libtorch::run(&TorchRequest::Worker))
}

/// Prints what clap says: help and version to stdout, which are no errors, the others to stderr. Its
/// colours are kept where it repeats no argument that could drive a terminal.
fn tell(error: &clap::Error) {
    let text = error.render().to_string();
    if messages::printable_lines(&text) == text {
        error.print().ok();
    } else {
        report::err(text.trim_end());
    }
}

/// Prints to stdout; a reader that has gone away (`tune trials | head`) is no error.
fn print(text: &str) -> Result<Exit, Failure> {
    done(report::out(text))
}

/// Prints an answer: as JSON with `--json`, else as text.
fn answer(common: &Common, answer: &impl Answer) -> Result<Exit, Failure> {
    match common.json {
        false => print(&report::for_terminal(&answer.text())),
        true => print_json(answer),
    }
}

/// Says what a command has done: to people, not where only errors are asked for.
fn acknowledge(common: &Common, done: &impl Answer) -> Result<Exit, Failure> {
    match common.quiet && !common.json {
        true => Ok(Exit::Done),
        false => answer(common, done),
    }
}

/// Prints an answer for scripts.
fn print_json(answer: &impl Serialize) -> Result<Exit, Failure> {
    print(&format!("{:#}\n", versioned(answer)?))
}

/// An answer as JSON: an object says first which version of its form it has.
fn versioned(answer: &impl Serialize) -> Result<Json, Failure> {
    let json = serde_json::to_value(answer)
        .map_err(|e| Failure::internal(format!("cannot write JSON: {e}")))?;
    let Json::Object(members) = json else {
        return Ok(json);
    };
    let version = ("version".to_owned(), messages::JSON_VERSION.into());
    Ok(Json::Object(
        std::iter::once(version).chain(members).collect(),
    ))
}

/// The same for data that other programs read.
fn print_data(text: &str) -> Result<Exit, Failure> {
    done(report::data(text))
}

fn done(printed: std::io::Result<()>) -> Result<Exit, Failure> {
    printed.map_err(|e| Failure::internal(format!("stdout cannot be written: {e}")))?;
    Ok(Exit::Done)
}

/// Reads a command line. If its first positional argument is a command's name, that command is
/// meant; otherwise it is a task's name or file, and a run is meant.
///
/// # Errors
/// Usage errors, and requests for help or the version.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Invocation, clap::Error> {
    let args: Vec<OsString> = args.into_iter().collect();
    let word = first_positional(&args);
    match word.and_then(|at| args[at].to_str()) {
        Some("help") if word == Some(args.len() - 1) => run_flag("--help"),
        Some("version") => run_flag("--version"),
        Some(name) if RESERVED.contains(&name) => commands::CommandArgs::try_parse_from(&args)
            .map(|q| Invocation::Command(q.common, q.command))
            .map_err(|error| {
                let better = flagged_study(name, &args, &error).or_else(|| no_help(&error));
                better.unwrap_or(error)
            }),
        name => RunArgs::try_parse_from(&args)
            .map(|run| Invocation::Run(Box::new(run)))
            .map_err(|error| mistyped(name, &error).unwrap_or(error)),
    }
}

/// What is wrong with a command whose study was given by the flag that a run has for it.
fn flagged_study(command: &str, args: &[OsString], error: &clap::Error) -> Option<clap::Error> {
    const FLAG: &str = "--study";
    let wrong = error.kind() == ErrorKind::UnknownArgument
        && error.get(ContextKind::InvalidArg) == Some(&ContextValue::String(FLAG.to_owned()));
    let takes = COMMANDS.find_subcommand(command).filter(|_| wrong)?;
    takes
        .get_positionals()
        .find(|arg| arg.get_id() == "study")?;
    let words: Vec<_> = args.iter().map(|arg| arg.to_string_lossy()).collect();
    let at = words.iter().position(|word| word.starts_with(FLAG))?;
    let study = match words[at].strip_prefix("--study=") {
        Some(study) => study,
        None => words.get(at + 1).map_or("STUDY", |word| word),
    };
    let text = format!(
        "a study stands without a flag here: `tune {command} {}`",
        report::shell_word(study)
    );
    Some(RunArgs::command().error(ErrorKind::UnknownArgument, text))
}

/// The command whose name is nearest to a word.
fn nearest_command(word: &str) -> Option<String> {
    let shown = COMMANDS.get_subcommands().filter(|c| !c.is_hide_set());
    config::nearest_command(word, shown.map(clap::Command::get_name)).map(str::to_owned)
}

/// What is wrong with `tune help WORD`, where no command is called so.
fn no_help(error: &clap::Error) -> Option<clap::Error> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let near = nearest_command(word).filter(|_| error.kind() == ErrorKind::InvalidSubcommand)?;
    let text = format!("`tune {word}` is no command. Did you mean `tune help {near}`?");
    Some(RunArgs::command().error(ErrorKind::InvalidSubcommand, text))
}

/// What is wrong with a line whose first word is no command and takes no words behind it.
fn mistyped(name: Option<&str>, error: &clap::Error) -> Option<clap::Error> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let unexpected = error.kind() == ErrorKind::UnknownArgument && !word.starts_with('-');
    let name = name.filter(|_| unexpected)?;
    let text = match nearest_command(name) {
        _ if name == "resume" => config::places::RESUME.to_owned(),
        Some(near) => format!(
            "`tune {name}` is no command. Did you mean `tune {near}`? If {name} is a task: options follow it, and no word \
             such as {word}"
        ),
        None => return None,
    };
    Some(RunArgs::command().error(ErrorKind::InvalidSubcommand, text))
}

/// What `tune --help` and `tune --version` answer: clap reports both as an error.
fn run_flag(flag: &str) -> Result<Invocation, clap::Error> {
    RunArgs::try_parse_from(["tune", flag]).map(|run| Invocation::Run(Box::new(run)))
}

/// The index of the first argument that is neither a flag nor a flag's value.
fn first_positional(args: &[OsString]) -> Option<usize> {
    let command = RunArgs::command();
    let mut at = 1;
    while at < args.len() {
        let text = args[at].to_string_lossy();
        if text == "--" || !text.starts_with('-') || text == "-" {
            return (text != "--").then_some(at);
        }
        at += if takes_next(&command, &text) { 2 } else { 1 };
    }
    None
}

/// Whether a flag's value is the argument after it.
fn takes_next(command: &clap::Command, text: &str) -> bool {
    let takes = |found: Option<&clap::Arg>| found.is_some_and(|a| a.get_action().takes_values());
    if let Some(long) = text.strip_prefix("--") {
        return takes(command.get_arguments().find(|a| a.get_long() == Some(long)));
    }
    // `-vC dir`: the first letter that takes a value takes the rest, or the next argument.
    let letters: Vec<char> = text.chars().skip(1).collect();
    let by_letter = |c: char| {
        command
            .get_arguments()
            .find(move |a| a.get_short() == Some(c))
    };
    letters
        .iter()
        .position(|&c| takes(by_letter(c)))
        .is_some_and(|i| i + 1 == letters.len())
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
