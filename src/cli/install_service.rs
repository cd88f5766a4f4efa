//! `tune install-service`: a unit of systemd for a run.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use clap::Args;

use super::{Common, RunArgs, run};
use config::places::Wanted;
use messages::exit::{Exit, Failure};

/// `tune install-service`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tune install-service criteria --trials 5000 > ~/.config/systemd/user/tune-criteria.service
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
    let (asked, both) = RunArgs::of_words(common, &args.run)?;
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
        words.extend(["--storage".to_owned(), storage.clone()]);
    }
    words.extend(common.quiet.then(|| "--quiet".to_owned()));
    words.extend(args.run.iter().cloned());
    let (environment, left_out) = passed_on(std::env::vars_os());
    let unit = Unit {
        environment: &environment,
        left_out: &left_out,
        here: &run::working_directory()?,
        path: &std::env::var("PATH").unwrap_or_default(),
        task: &asked.task,
        words: &words,
    };
    super::print(&unit.text())
}

/// The variables of this environment that a run reads, and the names of those that are not for a file which others may
/// read; both in the order of their names. A trial's own are of a run that is going on.
fn passed_on(
    all: impl Iterator<Item = (OsString, OsString)>,
) -> (Vec<(String, String)>, Vec<String>) {
    const NAMES: [&str; 5] = [
        "LIBTORCH",
        "HF_HOME",
        "HF_HUB_CACHE",
        "HF_TOKEN",
        "CUDA_VISIBLE_DEVICES",
    ];
    const PREFIXES: [&str; 2] = ["TUNE_", "HPO_"];
    let read = |name: &str| {
        let ours = PREFIXES.iter().any(|p| name.starts_with(p)) && !name.starts_with("TUNE_PARAM_");
        ours || NAMES.contains(&name)
    };
    let secret = |name: &str| {
        ["TOKEN", "SECRET", "PASSWORD", "KEY"]
            .iter()
            .any(|word| name.contains(word))
    };
    let texts =
        all.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let ours: BTreeMap<String, String> = texts.filter(|(name, _)| read(name)).collect();
    let (left_out, passed): (Vec<_>, Vec<_>) = ours
        .into_iter()
        .partition(|(name, value)| secret(name) || value.contains(char::is_control));
    (passed, left_out.into_iter().map(|(name, _)| name).collect())
}

/// What a unit is made from.
struct Unit<'a> {
    /// Variables that the run reads.
    environment: &'a [(String, String)],
    /// Variables that are set here and that the unit does not hold.
    left_out: &'a [String],
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
        let variables = self
            .environment
            .iter()
            .map(|(name, value)| format!("Environment={}\n", quoted(&format!("{name}={value}"))));
        let left_out = self.left_out.iter().map(|name| {
            format!("# {name} is set here and was left out: put it into a file that you alone can read, and add EnvironmentFile=FILE.\n")
        });
        format!(
            "[Unit]\n\
             Description=tune {}\n\n\
             [Service]\n\
             Type=notify\n\
             ExecStart={}\n\
             WorkingDirectory={}\n\
             Environment={}\n\
             {}\
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
            variables.chain(left_out).collect::<String>(),
        )
    }
}

/// A word of a line of several; `%` stands for itself.
fn quoted(word: &str) -> String {
    let word = word.replace('%', "%%");
    let special = |c: char| c.is_whitespace() || c == '"' || c == '\\' || c == '\'';
    // A semicolon by itself would begin another command.
    match word.is_empty() || word == ";" || word.contains(special) {
        true => format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"")),
        false => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_stays_one_word() {
        for (word, told) in [
            ("a", "a"),
            ("a;b", "a;b"),
            ("", "\"\""),
            (";", "\";\""),
            ("a b", "\"a b\""),
        ] {
            assert_eq!(quoted(word), told);
        }
    }

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
        let set = [
            ("TUNE_CACHE", "/data/my cache"),
            ("LIBTORCH", "/opt/torch"),
            ("HF_TOKEN", "hf_abc"),
            ("HPO_EPOCHS", "3"),
            ("TUNE_PARAM_LR", "1"),
            ("EDITOR", "vi"),
        ];
        let set = set.map(|(name, value)| (name.into(), value.into()));
        let (environment, left_out) = passed_on(set.into_iter());
        let unit = Unit {
            environment: &environment,
            left_out: &left_out,
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
        let variables = "Environment=PATH=/opt/venv/bin:/bin\nEnvironment=HPO_EPOCHS=3\nEnvironment=LIBTORCH=/opt/torch\n\
                         Environment=\"TUNE_CACHE=/data/my cache\"\n# HF_TOKEN is set here";
        assert!(text.contains(variables), "{text}");
        assert!(
            !text.contains("hf_abc") && !text.contains("EDITOR"),
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
