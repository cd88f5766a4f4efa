//! `tune completions SHELL` and `tune man DIR`: what shells and `man` know of the command line.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Command, CommandFactory};
use clap_complete::{Shell, generate};

use super::commands::CommandArgs;
use super::{RunArgs, done, print};
use config::{PRUNERS, SAMPLERS};
use messages::exit::{Exit, Failure};

/// `tune completions`
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// `tune man`
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Where to: a directory of `man`'s, such as ~/.local/share/man/man1
    pub dir: PathBuf,
}

/// The whole command line: that of a run, with the commands beside it.
fn whole() -> Command {
    let commands = CommandArgs::command();
    let commands = commands.get_subcommands().filter(|c| !c.is_hide_set());
    RunArgs::command()
        .subcommands(commands.cloned())
        .subcommand_negates_reqs(true)
}

/// The command with the kinds of samplers and pruners, of which parsing knows nothing: the configuration checks them.
fn with_kinds(mut command: Command) -> Command {
    for (flag, algorithms) in [("sampler", &SAMPLERS[..]), ("pruner", &PRUNERS[..])] {
        if command.get_arguments().any(|arg| arg.get_id() == flag) {
            let names: Vec<&'static str> = algorithms.iter().map(|a| a.name).collect();
            let names = PossibleValuesParser::new(names);
            command = command.mut_arg(flag, |arg| arg.value_parser(names));
        }
    }
    command.mut_subcommands(with_kinds)
}

pub(super) fn completions(args: &CompletionsArgs) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    generate(args.shell, &mut with_kinds(whole()), "tune", &mut script);
    print(&String::from_utf8_lossy(&script))
}

pub(super) fn man(args: &ManArgs) -> Result<Exit, Failure> {
    let dir = &args.dir;
    std::fs::create_dir_all(dir)
        .and_then(|()| clap_mangen::generate_to(whole(), dir))
        .map_err(|e| Failure::input(format!("{}: {e}", dir.display())))?;
    done(report::out(&format!(
        "wrote the manual pages to {}\n",
        dir.display()
    )))
}
