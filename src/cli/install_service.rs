//! `tune install-service`: a unit of systemd for a run.

use std::path::Path;

use clap::{Args, Parser};

use super::{Common, RunArgs, run};
use config::Overrides;
use config::places::Wanted;
use messages::exit::{Exit, Failure};

/// `tune install-service`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tune install-service criteria --trials 5000 --parallel 2 > ~/.config/systemd/user/tune-criteria.service
  systemctl --user daemon-reload && systemctl --user enable --now tune-criteria
  loginctl enable-linger $USER          # goes on when nobody is logged in")]
pub struct InstallServiceArgs {
    /// A run, as it would be typed behind `tune`: the task and its options
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "TASK OPTIONS"
    )]
    pub run: Vec<String>,
}

pub(super) fn install_service(common: &Common, args: &InstallServiceArgs) -> Result<Exit, Failure> {
    let line = std::iter::once("tune".to_owned()).chain(args.run.iter().cloned());
    let asked = RunArgs::try_parse_from(line).map_err(|e| {
        Failure::input(
            e.render()
                .to_string()
                .trim_end()
                .trim_start_matches("error: ")
                .to_owned(),
        )
    })?;
    let dir = common.dir.as_ref().or(asked.common.dir.as_ref());
    let both = Common {
        dir: dir.cloned(),
        ..Common::default()
    };
    let project = run::project(&both, Wanted::Task(&asked.task))?;
    // A unit whose task is not there would fail each night.
    run::read(&project, &asked.task, Overrides::default())?;
    let program = std::env::current_exe()
        .map_err(|e| Failure::internal(format!("the place of tune is not known: {e}")))?;
    let here = run::working_directory()?;
    let path = std::env::var("PATH").unwrap_or_default();
    let unit = Unit {
        program: &program,
        project: &project.dir,
        here: &here,
        path: &path,
        task: &asked.task,
        run: &args.run,
    };
    super::print(&unit.text())
}

/// What a unit is made from.
struct Unit<'a> {
    program: &'a Path,
    project: &'a Path,
    /// The working directory.
    here: &'a Path,
    /// The search path, on which programs of trials are found.
    path: &'a str,
    task: &'a str,
    /// The task and the options.
    run: &'a [String],
}

impl Unit<'_> {
    /// Its text. Types and exit codes: systemd.service(5), sd_notify(3), docs/exit-codes.md.
    fn text(&self) -> String {
        let Unit {
            program,
            project,
            here,
            path,
            task,
            run,
        } = self;
        let mut words = vec![program.display().to_string()];
        if !run.iter().any(|word| word == "-C") {
            words.extend(["-C".to_owned(), project.display().to_string()]);
        }
        words.extend(run.iter().cloned());
        let line: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        format!(
            "[Unit]\n\
         Description=tune {task}\n\n\
         [Service]\n\
         Type=notify\n\
         ExecStart={}\n\
         WorkingDirectory={}\n\
         Environment={}\n\
         # A run that stands still or dies goes on where it was; one that has said why it ended does not.\n\
         WatchdogSec=5min\n\
         Restart=on-failure\n\
         RestartSec=30\n\
         SuccessExitStatus=3 4\n\
         RestartPreventExitStatus=2 3 4 5 6 8 9\n\
         # The first SIGTERM lets running trials end (--grace); workers end with the run.\n\
         KillMode=mixed\n\
         TimeoutStopSec=15min\n\n\
         [Install]\n\
         WantedBy=default.target\n",
            line.join(" "),
            quoted(&here.display().to_string()),
            quoted(&format!("PATH={path}")),
        )
    }
}

/// A word of `ExecStart=`: `%` and `$` stand for themselves.
fn quoted(word: &str) -> String {
    let word = word.replace('%', "%%").replace('$', "$$");
    match word.contains(|c: char| c.is_whitespace() || c == '"' || c == '\\' || c == '\'') {
        true => format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"")),
        false => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_starts_the_run_in_its_project() {
        let run = ["my task", "--trials", "50", "--set", "a=100%"].map(str::to_owned);
        let unit = Unit {
            program: Path::new("/usr/bin/tune"),
            project: Path::new("/home/me/s"),
            here: Path::new("/home/me"),
            path: "/opt/venv/bin:/bin",
            task: "my task",
            run: &run,
        };
        let text = unit.text();
        assert!(
            text.contains("Environment=PATH=/opt/venv/bin:/bin\n"),
            "{text}"
        );
        let line = "ExecStart=/usr/bin/tune -C /home/me/s \"my task\" --trials 50 --set a=100%%\n";
        assert!(text.contains(line), "{text}");
        assert!(
            text.contains("Type=notify") && text.contains("WatchdogSec="),
            "{text}"
        );
    }
}
