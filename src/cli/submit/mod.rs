//! `tune submit TASK`: one `tune` on each of several nodes, placed by the engine that people have.
//!
//! Nothing here schedules anything: what is submitted is a script or a manifest that a person could have written, and
//! `--dry-run` shows it.

mod hyperqueue;
mod kubernetes;
mod slurm;
mod submitted;
mod with_postgres;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::{Args, CommandFactory, Parser, ValueEnum};

use self::submitted::Submitted;
use super::args::usage;
use super::{Common, RunArgs, acknowledge, answer, run};
use config::places::{Wanted, find_task, is_path};
use files::name::{checksum, part};
use messages::exit::{Exit, Failure};
use report::{shell_line, shell_word};

/// Where nodes come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// An array of Slurm's
    Slurm,
    /// An Indexed Job of Kubernetes'
    Kubernetes,
    /// Tasks of HyperQueue's, on any cluster that it runs on
    Hyperqueue,
}

/// What `tune submit` itself reads, before or behind the task.
#[derive(Debug, Clone, Args)]
pub struct SubmitFlags {
    /// Engine: slurm, kubernetes or hyperqueue [default: the one whose command is here: sbatch, hq or kubectl]
    #[arg(long, value_name = "ENGINE", hide_possible_values = true)]
    on: Option<Engine>,
    /// Nodes, each with a `tune` of its own
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..=10_000)
    )]
    nodes: u32,
    /// GPUs of each node
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(0..=1_000)
    )]
    gpus: u32,
    /// How long a node may be kept (4h): before that, trials are put back, and the engine runs the node again
    #[arg(long, value_name = "TIME")]
    time: Option<String>,
    /// The first node runs PostgreSQL for all, with its data in this directory, which all nodes reach (Slurm, HyperQueue)
    #[arg(long, value_name = "DIR")]
    with_postgres: Option<PathBuf>,
    /// The image that has tune and the task's data (Kubernetes)
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// Print what would be submitted
    #[arg(long)]
    dry_run: bool,
}

/// `tune submit`
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  tune submit criteria --trials 5000 --nodes 4 --on slurm --time 4h --storage postgresql://me@db/studies
  tune submit criteria --trials 5000 --nodes 4 --time 4h --with-postgres ~/studies -- --partition=gpu --gpus=2
  tune submit criteria --nodes 8 --on kubernetes --image registry/tune:1 --dry-run > job.yaml")]
pub struct SubmitArgs {
    /// Its own flags.
    #[command(flatten)]
    pub flags: SubmitFlags,
    /// A run, as it would be typed behind `tune`: the task and its options; behind --, options of the engine
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "TASK OPTIONS [-- ENGINE OPTIONS]"
    )]
    pub run: Vec<String>,
}

/// The same flags where they stand behind the task.
#[derive(Debug, Parser)]
#[command(name = "tune submit", no_binary_name = true)]
struct Flags {
    #[command(flatten)]
    flags: SubmitFlags,
}

/// What is submitted.
struct Job {
    /// The study.
    study: String,
    nodes: u32,
    gpus: u32,
    /// How long a node may be kept.
    time: Option<Duration>,
    /// The command line of each node's run.
    command: Vec<String>,
    /// The project's directory.
    dir: PathBuf,
    /// The directory in which the command was given: paths in it are meant from there.
    here: PathBuf,
    /// The database, unless the first node runs one.
    storage: String,
    /// The directory of the one that the first node runs.
    postgres: Option<PathBuf>,
    image: Option<String>,
    /// The task's file, as text, and its name.
    task: (String, String),
    /// Options of the engine.
    options: Vec<String>,
}

/// A node is told so long before its end that it comes.
const LEAD: Duration = Duration::from_secs(180);

/// Of that, what running trials get to end.
const GRACE: &str = "120s";

/// Characters of a study's name in its job's: beside a pod's index and suffix, a host's name has 63.
const LONGEST_NAME: usize = 31;

impl Job {
    /// The job's name: what every engine takes for one, at most 45 characters. Two studies never share one, also where
    /// their names have to be written otherwise.
    fn name(&self) -> String {
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '-'
            }
        };
        let name: String = self.study.chars().map(plain).take(LONGEST_NAME).collect();
        let name = name.trim_matches('-');
        match name == self.study {
            true => format!("tune-{name}"),
            false => {
                let name = format!("tune-{name}");
                format!(
                    "{}-{}",
                    name.trim_end_matches('-'),
                    checksum::<4>(&self.study)
                )
            }
        }
    }

    /// Where a script and what nodes print go.
    fn files(&self) -> PathBuf {
        self.dir.join("tune.db.d/submitted")
    }

    /// A file there.
    fn file(&self, ending: &str) -> PathBuf {
        self.files().join(format!("{}{ending}", part(&self.study)))
    }

    /// How a script finds the database; `task`: the variables that tell the job and which of its tasks this is.
    fn database(&self, task: [&str; 2]) -> String {
        match &self.postgres {
            Some(dir) => with_postgres::start(dir, task),
            None => format!("export TUNE_STORAGE={}\n", shell_word(&self.storage)),
        }
    }

    /// What a script does with the run: it passes on SIGTERM, or SIGINT, which HyperQueue sends in its place, and leaves the
    /// run's exit code in `code`. `more` is added to the command.
    fn run(&self, more: &str, task: [&str; 2]) -> String {
        let stop = match self.postgres {
            Some(_) => with_postgres::stop(task),
            None => String::new(),
        };
        format!(
            "{}{more} &
run=$!
trap 'told=1; kill -TERM $run 2> /dev/null' TERM INT
wait $run
code=$?
while [ -n \"$told\" ]; do told=; wait $run; code=$?; done
{stop}",
            shell_line(&self.command)
        )
    }

    /// The condition under which a node is run again. The first node's server may be on another host by then.
    fn again(&self) -> &'static str {
        match self.postgres {
            Some(_) => "[[ $code = [47] ]]",
            None => "[ $code = 4 ]",
        }
    }
}

pub(super) fn submit(common: &Common, args: SubmitArgs) -> Result<Exit, Failure> {
    let (flags, mut words, options) = meant(args)?;
    // It is asked of this command, not of the runs.
    let asked = words.len();
    words.retain(|word| word != "--json");
    let common = &Common {
        json: common.json || words.len() < asked,
        ..common.clone()
    };
    let engine = flags.on.or_else(here).ok_or_else(|| {
        Failure::input("--on: found none of sbatch, hq and kubectl here; expected slurm, hyperqueue or kubernetes")
    })?;
    let dry_run = flags.dry_run;
    let job = job(common, engine, flags, &words, options)?;
    let (text, command, file) = match engine {
        Engine::Slurm => (slurm::script(&job), slurm::command(), job.file(".sbatch")),
        Engine::Kubernetes => (
            kubernetes::manifest(&job)?,
            kubernetes::command(),
            job.file(".yaml"),
        ),
        Engine::Hyperqueue => (
            hyperqueue::script(&job),
            hyperqueue::command(&job),
            job.file(".sh"),
        ),
    };
    let line = shell_line(command.iter().chain([&file.display().to_string()]));
    if dry_run && common.json {
        let would = Submitted::new(&job, engine, command, file, text, None);
        return answer(common, &would);
    }
    if dry_run {
        // A script's first line says what reads it.
        let (first, rest) = match text.split_once('\n') {
            Some((first, rest)) if first.starts_with("#!") => (format!("{first}\n"), rest),
            Some(_) | None => (String::new(), text.as_str()),
        };
        return super::print(&format!("{first}# {line}\n{rest}"));
    }
    write(&file, &text)?;
    let told = give(&command, &file, &line, common.json)?;
    let submitted = Submitted::new(&job, engine, command, file, text, Some(&told));
    acknowledge(common, &submitted)
}

/// Gives the engine a script or a manifest; what it says of that, where it is `kept` from the output.
fn give(command: &[String], file: &Path, line: &str, kept: bool) -> Result<String, Failure> {
    let (program, given) = command
        .split_first()
        .ok_or_else(|| Failure::internal("no command"))?;
    let output = match kept {
        true => Stdio::piped(),
        false => Stdio::inherit(),
    };
    let ended = Command::new(program)
        .args(given)
        .arg(file)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| {
            Failure::input(format!(
                "{program}: {e}; --on names another engine, --dry-run shows what would be submitted"
            ))
        })?;
    match ended.status.success() {
        true => Ok(String::from_utf8_lossy(&ended.stdout).into_owned()),
        false => Err(Failure::input(format!(
            "the engine refuses the job: `{line}` has ended with {}; what it says stands above",
            ended.status
        ))),
    }
}

/// The engine whose command is here.
fn here() -> Option<Engine> {
    let engines = [
        ("sbatch", Engine::Slurm),
        ("hq", Engine::Hyperqueue),
        ("kubectl", Engine::Kubernetes),
    ];
    let found = engines
        .into_iter()
        .find(|(program, _)| run::on_path(program));
    found.map(|(_, engine)| engine)
}

/// Takes apart what stands on the command line: the flags of `tune submit` wherever they stand, the run's words, and the
/// engine's options.
fn meant(args: SubmitArgs) -> Result<(SubmitFlags, Vec<String>, Vec<String>), Failure> {
    let mut words = args.run.into_iter();
    let mut run: Vec<String> = words.by_ref().take_while(|word| word != "--").collect();
    let options = words.collect();
    let own = own_words(&mut run);
    let mut flags = args.flags;
    if !own.is_empty() {
        let behind = Flags::try_parse_from(own.iter().map(String::as_str));
        let behind = behind.map_err(|e| usage(&e))?.flags;
        let given = |name: &str| own.iter().any(|w| w.split('=').next() == Some(name));
        flags = SubmitFlags {
            on: behind.on.or(flags.on),
            nodes: if given("--nodes") {
                behind.nodes
            } else {
                flags.nodes
            },
            gpus: if given("--gpus") {
                behind.gpus
            } else {
                flags.gpus
            },
            time: behind.time.or(flags.time),
            with_postgres: behind.with_postgres.or(flags.with_postgres),
            image: behind.image.or(flags.image),
            dry_run: behind.dry_run || flags.dry_run,
        };
    }
    Ok((flags, run, options))
}

/// Takes out of a run's words those that are flags of `tune submit`, with their values.
fn own_words(run: &mut Vec<String>) -> Vec<String> {
    let command = Flags::command();
    let mut own = Vec::new();
    let mut at = 0;
    while at < run.len() {
        let name = run[at].split('=').next().unwrap_or_default();
        let flag = command.get_arguments().find(|a| {
            a.get_long()
                .is_some_and(|long| name.strip_prefix("--") == Some(long))
        });
        let Some(flag) = flag else {
            at += 1;
            continue;
        };
        let apart = flag.get_action().takes_values() && !run[at].contains('=');
        let end = run.len().min(at + 1 + usize::from(apart));
        own.extend(run.drain(at..end));
    }
    own
}

/// The job that is meant, once all that can be wrong with it has been looked at.
fn job(
    common: &Common,
    engine: Engine,
    flags: SubmitFlags,
    words: &[String],
    options: Vec<String>,
) -> Result<Job, Failure> {
    let (asked, both) = RunArgs::of_words(common, words)?;
    let project = run::project(&both, Wanted::Task(&asked.task))?;
    // A job whose task is not there would fail on every node. No command can be meant by its name.
    find_task(&project, &asked.task, &[])?;
    let spec = run::read(&project, &asked.task, asked.asked.overrides())?;
    let time = flags.time.as_deref().map(time).transpose()?;
    let place = run::storage_of(&project, &both, spec.operation.storage.as_deref())?;
    match &flags.with_postgres {
        Some(dir) if engine == Engine::Kubernetes => {
            return Err(Failure::input(format!(
                "--with-postgres {}: found kubernetes, expected slurm or hyperqueue: there, run a database as a service",
                dir.display()
            )));
        }
        Some(dir) if both.storage.is_some() => {
            return Err(Failure::input(format!(
                "--with-postgres {}: found --storage, too; expected one of them: the first node's server, or one that runs \
                 already",
                dir.display()
            )));
        }
        None if flags.nodes > 1 && !place.is_shared() => {
            return Err(Failure::input(format!(
                "--nodes {}: found {place}, a file, which one node works on; expected --storage postgresql://..., or \
                 --with-postgres DIR",
                flags.nodes
            )));
        }
        Some(_) | None => {}
    }
    let text = std::fs::read_to_string(&spec.file)
        .map_err(|e| Failure::input(format!("{}: {e}", spec.file.display())))?;
    let name = spec.file.file_name().unwrap_or_default().to_string_lossy();
    let program = match engine {
        // The image's.
        Engine::Kubernetes => None,
        Engine::Slurm | Engine::Hyperqueue => Some(
            std::env::current_exe()
                .map_err(|e| Failure::internal(format!("the place of tune is not known: {e}")))?,
        ),
    };
    Ok(Job {
        command: command(program, words, &asked, &project.dir),
        study: spec.study.clone(),
        nodes: flags.nodes,
        gpus: flags.gpus,
        time,
        dir: run::absolute(&project.dir)?,
        here: run::working_directory()?,
        storage: place.word(),
        postgres: flags
            .with_postgres
            .as_deref()
            .map(run::absolute)
            .transpose()?,
        image: flags.image,
        task: (name.into_owned(), text),
        options,
    })
}

/// The command line of a node's run: what was asked for, and time to leave once the node is told to.
fn command(
    program: Option<PathBuf>,
    words: &[String],
    asked: &RunArgs,
    project: &Path,
) -> Vec<String> {
    let mut command = match &program {
        Some(program) => [program.as_path(), Path::new("-C"), project]
            .map(|word| word.display().to_string())
            .to_vec(),
        None => vec!["tune".to_owned()],
    };
    let mut task = program.is_none().then_some(&asked.task);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if let Some((flags, apart)) = directory(word) {
            // Where it is has been found out.
            command.extend(flags);
            apart.then(|| words.next());
        } else if word == "--storage" {
            words.next();
        } else if task.is_some_and(|task| task == word) {
            // An image has it among its own tasks.
            task = None;
            let stem = Path::new(word).file_stem().unwrap_or_default();
            let name = stem.to_string_lossy().into_owned();
            command.push(if is_path(word) { name } else { word.clone() });
        } else if !word.starts_with("--storage=") {
            command.push(word.clone());
        }
    }
    if asked.asked.grace.is_none() {
        command.extend(["--grace", GRACE].map(str::to_owned));
    }
    if !asked.plain {
        command.push("--plain".to_owned());
    }
    command
}

/// Of a word with `-C`, such as `-C`, `-CDIR` or `-qC`: the flags before it, and whether the directory is the next word.
fn directory(word: &str) -> Option<(Option<String>, bool)> {
    let short = word
        .strip_prefix('-')
        .filter(|short| !short.starts_with('-'))?;
    let (flags, dir) = short.split_once('C')?;
    let flags = (!flags.is_empty()).then(|| format!("-{flags}"));
    Some((flags, dir.is_empty()))
}

fn time(text: &str) -> Result<Duration, Failure> {
    let least = LEAD * 2;
    let time = config::duration(text).filter(|time| *time >= least);
    time.ok_or_else(|| {
        let least = humantime::format_duration(least);
        Failure::input(format!(
            "--time {text}: expected a time such as 4h, at least {least} and at most 100 years"
        ))
    })
}

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    let written = (|| {
        std::fs::create_dir_all(file.parent().unwrap_or(Path::new(".")))?;
        std::fs::File::create(file)?.write_all(text.as_bytes())
    })();
    written.map_err(|e| Failure::storage(format!("{}: {e}", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_own_flags_may_stand_behind_the_task() {
        let words = "criteria --trials 50 --nodes 4 --set a=b --time=4h --dry-run";
        let mut run: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let own = own_words(&mut run);
        assert_eq!(own.join(" "), "--nodes 4 --time=4h --dry-run");
        assert_eq!(run.join(" "), "criteria --trials 50 --set a=b");
        run.push("--nodes".to_owned());
        assert_eq!(
            own_words(&mut run),
            ["--nodes"],
            "what is missing is told by clap"
        );
    }
}
