//! `tune install-service`: a unit of systemd for a run.

use std::path::Path;

use clap::{Args, Parser};

use super::{Common, RunArgs, run};
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
    let both = Common {
        dir: common.dir.clone().or(asked.common.dir.clone()),
        ..Common::default()
    };
    let project = run::project(&both, Wanted::Task(&asked.task))?;
    // A unit whose task is not there would fail each night.
    run::read(&project, &asked.task, asked.asked.overrides())?;
    let program = std::env::current_exe()
        .map_err(|e| Failure::internal(format!("the place of tune is not known: {e}")))?;
    let mut words = vec![program.display().to_string()];
    if asked.common.dir.is_none() {
        words.extend(["-C".to_owned(), project.dir.display().to_string()]);
    }
    if let Some(storage) = &common.storage {
        words.extend(["--storage".to_owned(), storage.display().to_string()]);
    }
    words.extend(common.quiet.then(|| "--quiet".to_owned()));
    words.extend(args.run.iter().cloned());
    let unit = Unit {
        here: &run::working_directory()?,
        path: &std::env::var("PATH").unwrap_or_default(),
        task: &asked.task,
        words: &words,
    };
    super::print(&unit.text())
}

/// What a unit is made from.
struct Unit<'a> {
    /// The working directory.
    here: &'a Path,
    /// The search path, on which programs of trials are found.
    path: &'a str,
    task: &'a str,
    /// The program with its arguments.
    words: &'a [String],
}

impl Unit<'_> {
    /// Its text. Types and exit codes: systemd.service(5), sd_notify(3), docs/exit-codes.md.
    fn text(&self) -> String {
        // In a word of a command line, `$` would be a variable's.
        let words = self
            .words
            .iter()
            .map(|word| quoted(&word.replace('$', "$$")));
        format!(
            "[Unit]\n\
             Description=tune {}\n\n\
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
             # Data are prepared, and on a GPU what fits is tried out, before it is ready.\n\
             TimeoutStartSec=infinity\n\
             # The first SIGTERM lets running trials end, which --grace bounds; workers end with the run.\n\
             KillMode=mixed\n\
             TimeoutStopSec=infinity\n\n\
             [Install]\n\
             WantedBy=default.target\n",
            self.task.replace('%', "%%"),
            words.collect::<Vec<_>>().join(" "),
            // The whole line is the path.
            self.here.display().to_string().replace('%', "%%"),
            quoted(&format!("PATH={}", self.path)),
        )
    }
}

/// A word of a line of several; `%` stands for itself.
fn quoted(word: &str) -> String {
    let word = word.replace('%', "%%");
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
        let words = [
            "/usr/bin/tune",
            "-C",
            "/home/me/s",
            "my task",
            "--set",
            "a=100%$x",
        ];
        let unit = Unit {
            here: Path::new("/home/me/my 100%"),
            path: "/opt/venv/bin:/bin",
            task: "my task",
            words: &words.map(str::to_owned),
        };
        let text = unit.text();
        assert!(
            text.contains("Environment=PATH=/opt/venv/bin:/bin\n"),
            "{text}"
        );
        let line = "ExecStart=/usr/bin/tune -C /home/me/s \"my task\" --set a=100%%$$x\n";
        assert!(
            text.contains("WorkingDirectory=/home/me/my 100%%\n"),
            "{text}"
        );
        assert!(text.contains(line), "{text}");
        assert!(
            text.contains("Type=notify") && text.contains("WatchdogSec="),
            "{text}"
        );
    }
}
