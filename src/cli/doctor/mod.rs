//! `tune doctor`: why a machine, a task or a program fails.

mod bundle;
mod ladder;
mod machine;
mod matrix;

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::Common;
use super::args::key_value;
use super::query::Answer;
use doctor::ladder::Ladder;
use doctor::machine::Cards;
use doctor::{Check, Outcome};
pub(super) use machine::maps;
use messages::exit::{Exit, Failure};

/// `tune doctor`
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// A task, whose parts are then tried one by one [default: only the machine]
    #[arg(conflicts_with = "run")]
    pub task: Option<String>,
    /// Run a failing command again under one change at a time; it takes the rest of the line
    #[arg(long, value_name = "COMMAND", num_args = 1.., allow_hyphen_values = true)]
    pub run: Vec<String>,
    /// Do the same with the training of TASK
    #[arg(long, requires = "task")]
    pub differential: bool,
    /// How long the runs may take together
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = duration)]
    pub budget: Duration,
    /// A run that takes longer hangs, and so does one that for a third of it, at most 30 s, neither prints nor computes [default: 10m]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub deadline: Option<Duration>,
    /// One more change: an option of the command, or a key of the task, with another value; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = key_value)]
    pub vary: Vec<(String, String)>,
    /// One more change: a variable of the environment; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = key_value)]
    pub vary_env: Vec<(String, String)>,
    /// A change that holds in every run: the name of one of doctor's, or NAME=VALUE as with --vary; repeatable
    #[arg(long, value_name = "CHANGE")]
    pub fix: Vec<String>,
    /// Run every change, also those that no longer tell anything
    #[arg(long)]
    pub all: bool,
    /// Write all that was found to one file, to send to somebody
    #[arg(long, value_name = "FILE")]
    pub bundle: Option<PathBuf>,
    /// auto, cpu, cuda or cuda:0,1
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
    /// Override any key of the task's configuration; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub set: Vec<(String, String)>,
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a time such as 90s, 30m or 2h, at most 100 years".to_owned();
    config::duration(text).ok_or_else(wrong)
}

/// What doctor has found.
#[derive(Debug, Serialize)]
struct Found {
    /// Checks of the machine, those that failed first.
    machine: Vec<Check>,
    /// A command run again under one change at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<matrix::RunAnswer>,
    /// Whether the checks that passed say what they have seen.
    #[serde(skip)]
    verbose: bool,
    /// The parts of a task, where one is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    ladder: Option<Ladder>,
}

impl Answer for Found {
    fn text(&self) -> String {
        let machine = doctor::machine::text(&self.machine, self.verbose);
        let ladder = self.ladder.as_ref().map(Ladder::summary);
        let ladder = ladder.unwrap_or_default();
        match &self.run {
            Some(run) => format!("{machine}{ladder}\n{}", matrix::text(run)),
            None => machine + &ladder,
        }
    }
}

pub(super) fn doctor(common: &Common, args: &DoctorArgs) -> Result<Exit, Failure> {
    if let Some((variables, command)) = behind_env(&args.run)
        && let Some(failure) = start_anew(&args.run, command, variables)
    {
        return Err(failure);
    }
    let mut machine = machine::checks(common)?;
    let runs = args.task.is_some() || !args.run.is_empty();
    let before = runs.then(Cards::look).flatten();
    // A task that cannot be read is told at once: no command of it is worth being run.
    let task = args.task.as_deref();
    let climbed = task.map(|task| ladder::climb(common, args, task));
    let ladder = climbed.transpose()?;
    let words = match task.filter(|_| args.differential) {
        Some(task) => matrix::training(common, args, task),
        None => args.run.clone(),
    };
    let run = match words.is_empty() {
        true => None,
        false => Some(matrix::examined(common, args, words)?),
    };
    if let Some((before, after)) = before.and_then(|before| Some((before, Cards::look()?))) {
        machine = doctor::machine::under_load(machine, &before, &after);
    }
    let found = Found {
        machine,
        run,
        verbose: common.verbose > 0,
        ladder,
    };
    super::answer(common, &found)?;
    if let Some(file) = &args.bundle {
        bundle::write(file, &found)?;
        if !common.quiet {
            report::err(&format!(
                "{}: the report, to send to somebody; read it first",
                file.display()
            ));
        }
    }
    let failed = found.machine.iter().any(|c| c.outcome == Outcome::Failed);
    let failed = failed || found.ladder.as_ref().is_some_and(Ladder::failed);
    Ok(match &found.run {
        Some(run) => run.answer.exit(),
        None if failed => Exit::Breaker,
        None => Exit::Done,
    })
}

/// The words by which a leading `env` sets variables, and the command behind them; `None` where it does more than that.
fn behind_env(words: &[String]) -> Option<(&[String], &[String])> {
    let (first, rest) = words.split_first()?;
    if Path::new(first).file_name()? != "env" {
        return None;
    }
    let sets = |word: &&String| word.find('=').is_some_and(|at| at > 0) && !word.starts_with('-');
    let (set, command) = rest.split_at(rest.iter().take_while(sets).count());
    let plain = command.first().is_some_and(|word| !word.starts_with('-'));
    (plain && !set.is_empty()).then_some((set, command))
}

/// Starts this program anew as if the variables stood before its own name: then they are tried like all others. Returns
/// where that is not possible.
fn start_anew(run: &[String], command: &[String], variables: &[String]) -> Option<Failure> {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let run: Vec<OsString> = run.iter().map(OsString::from).collect();
    let own = words.strip_suffix(&run[..])?;
    let program = std::env::current_exe().unwrap_or_else(|_| "tune".into());
    let error = Command::new(program)
        .args(own)
        .args(command)
        .envs(variables.iter().filter_map(|word| word.split_once('=')))
        .exec();
    Some(Failure::internal(format!(
        "doctor cannot start anew: {error}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_can_tell_the_end_of_any_time() {
        assert!(duration("400000000000y").is_err());
        let time = duration("100y").unwrap();
        assert!(std::time::Instant::now().checked_add(time).is_some());
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
    }

    #[test]
    fn variables_that_env_sets_are_told_from_the_command() {
        let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        let line = words("/usr/bin/env A=1 B=x=y python train.py --lr=1");
        let (variables, command) = behind_env(&line).unwrap();
        assert_eq!(variables, ["A=1", "B=x=y"]);
        assert_eq!(command, words("python train.py --lr=1"));
        for other in [
            "python A=1",
            "env",
            "env python train.py",
            "env A=1",
            "env -i A=1 python",
            "env A=1 -u B python",
            "env --chdir=/ python",
        ] {
            assert_eq!(behind_env(&words(other)), None, "{other}");
        }
    }
}
