//! `tune init`: a first task file, from a program, rows, or a study of Optuna's.

mod ask;
mod files;
mod output;
mod program;
mod trial_run;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use nix::unistd::{AccessFlags, access};
use serde::Serialize;

use super::{Common, RESERVED, acknowledge, run, task_file};
use crate::query::{Answer, printable, shell_word};
use config::places::{Project, Wanted, find_project, holds};
use config::{Input, Overrides, StudySpec, check_name, duration, resolve_text};
use files::Model;
use messages::exit::{Exit, Failure};
use program::{ParameterGuess, ProgramGuess};
use text::data::guess::likely_columns;

/// `tune init`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tune init --script \"python train.py --lr {lr} --dropout {dropout}\"
  tune init --script \"python train.py --lr 0.01 --batch-size 32\"
  tune init --csv reviews.csv
  tune init --csv posts.csv --text body --label topic --hf roberta-base
  tune init --optuna study.db

Writes configs/NAME.toml in the project, or in the current directory, which is a project then.
Without an option it asks, on a terminal.")]
pub struct InitArgs {
    /// The task's name [default: that of the script, of the file or of the study]
    pub name: Option<String>,
    /// A program: names in braces are searched; without any, options with a number are
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["csv", "hf"])]
    pub script: Option<String>,
    /// Write the file without running the program once to see what it prints
    #[arg(long, requires = "script")]
    pub no_run: bool,
    /// How long the program may run to be seen
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = limit)]
    pub limit: Duration,
    /// Rows to learn from, texts or a table of numbers and categories: CSV with a header, or JSON lines
    #[arg(long, value_name = "FILE", conflicts_with = "optuna")]
    pub csv: Option<PathBuf>,
    /// The column with the text
    #[arg(long, value_name = "COLUMN", requires = "csv")]
    pub text: Option<String>,
    /// The column with the label, or what a table is to predict
    #[arg(long, value_name = "COLUMN", requires = "csv")]
    pub label: Option<String>,
    /// The model to fine-tune: a name on the Hugging Face hub, or a directory [default: MiniLM]
    #[arg(long, value_name = "MODEL", conflicts_with = "optuna")]
    pub hf: Option<String>,
    /// A database of Optuna's (a path or sqlite:///PATH): the space that its trials were drawn from
    #[arg(long, value_name = "FILE", value_parser = super::adopt::source)]
    pub optuna: Option<PathBuf>,
    /// The study, where the database holds several
    #[arg(long, value_name = "NAME", requires = "optuna")]
    pub study: Option<String>,
    /// Replace a task file that is there
    #[arg(long)]
    pub force: bool,
}

fn limit(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a time such as 10m or 1h30m, at most 100 years".to_owned();
    duration(text).ok_or_else(wrong)
}

/// A file to be written.
struct NewFile {
    path: PathBuf,
    text: String,
}

/// What was made.
#[derive(Debug, Serialize)]
struct Made {
    /// The task's name.
    task: String,
    /// Its file.
    file: PathBuf,
    /// A script that was written beside it.
    script: Option<PathBuf>,
    /// The metric that was taken for the value; none where no program was looked at.
    metric: Option<String>,
    /// Others that the program prints.
    other_metrics: Vec<String>,
    /// What a person has to look at.
    check: Option<String>,
    /// Commands to go on with; before them a sentence where something has to be done by hand.
    next: Vec<String>,
    /// For people alone.
    #[serde(skip)]
    told: Told,
}

/// What people are told in other words than programs.
#[derive(Debug, Default)]
struct Told {
    /// The working directory, from which paths are shown.
    cwd: PathBuf,
    /// Which other metrics there are.
    others: Option<String>,
}

/// A path as it is shown: from the working directory, where it is below that.
fn shown(path: &Path, cwd: &Path) -> String {
    path.strip_prefix(cwd).unwrap_or(path).display().to_string()
}

impl Answer for Made {
    fn text(&self) -> String {
        let file = shown(&self.file, &self.told.cwd);
        let mut text = format!("wrote {file}, which passes tune check\n");
        if let Some(script) = &self.script {
            let script = shown(script, &self.told.cwd);
            text += &format!("wrote also {script}\n");
        }
        if let (Some(metric), Some(others)) = (&self.metric, &self.told.others) {
            text += &format!("the value is {metric}; {others}\n");
        }
        if let Some(check) = &self.check {
            text += &format!("look at this first: {check}\n");
        }
        text += "next:\n";
        for command in &self.next {
            text += &format!("  {command}\n");
        }
        text
    }
}

pub(super) fn init(common: &Common, args: &InitArgs) -> Result<Exit, Failure> {
    let cwd = run::working_directory()?;
    let project = project(common, &cwd)?;
    let asked;
    let loud = common.loud();
    if loud && common.dir.is_none() && project.dir != cwd {
        let dir = project.dir.display();
        report::err(&format!(
            "this is in the project {dir}: the task file goes to its configs/"
        ));
    }
    let args = match (&args.script, &args.csv, &args.optuna) {
        (None, None, None) => {
            asked = ask::ask(args, &cwd)?;
            &asked
        }
        _ => args,
    };
    let planned = match (&args.script, &args.csv, &args.optuna) {
        (_, _, Some(file)) => from_optuna(args, &project, &cwd, file)?,
        (Some(line), _, None) => from_program(args, &project, &cwd, line, loud)?,
        (None, Some(csv), None) => from_rows(args, &project, &cwd, csv)?,
        (None, None, None) => return Err(nothing_said()),
    };
    let script = write(&planned)?;
    check(args, &project, &cwd, &planned.file)?;
    let name = shell_word(&planned.name);
    let tune = run::command_in(common, &project)?;
    let by_hand = script.as_ref().map(|script| {
        let script = shown(script, &cwd);
        format!("put what your objective does into {script}")
    });
    let history = args.optuna.as_ref().map(|file| {
        let file = shell_word(&file.display().to_string());
        let study = args.study.as_ref();
        let study = study.map_or_else(String::new, |s| format!(" --study {}", shell_word(s)));
        format!("{tune} adopt {file}{study} --task {name}     # takes its trials over; --dry-run says what they are worth")
    });
    let commands = [format!("{tune} check {name}")]
        .into_iter()
        .chain(history)
        .chain([format!("{tune} {name} --trials 50")]);
    let others = planned.value.as_ref().and_then(output::others);
    let (metric, other_metrics) = planned.value.map(|v| (v.metric, v.others)).unzip();
    acknowledge(
        common,
        &Made {
            next: by_hand.into_iter().chain(commands).collect(),
            task: planned.name,
            file: planned.file,
            script,
            metric,
            other_metrics: other_metrics.unwrap_or_default(),
            check: planned.check,
            told: Told { cwd, others },
        },
    )
}

/// Whether what was written passes `tune check`.
fn check(args: &InitArgs, project: &Project, cwd: &Path, file: &Path) -> Result<(), Failure> {
    let spec = run::read(project, &file.to_string_lossy(), Overrides::default());
    let Err(problem) = spec.and_then(|spec| run::prepare(&spec)) else {
        return Ok(());
    };
    let ours = args.csv.is_some() && args.hf.is_none() && problem.message.contains("minilm");
    let model = match ours {
        true => {
            "\n`make model` in tune's sources fetches MiniLM; --force --hf NAME takes another model"
        }
        false => "",
    };
    let message = format!(
        "{} was written, and wants one more step:\n{}{model}",
        shown(file, cwd),
        problem.message
    );
    Err(Failure::new(problem.exit, message))
}

/// The project that the task is for: the one that is named, or that the current directory is in; else the
/// current directory becomes one.
fn project(common: &Common, cwd: &Path) -> Result<Project, Failure> {
    let here = |dir: &Path, wanted: Wanted| holds(dir, wanted) || dir == Path::new("/");
    let found = find_project(
        common.dir.as_deref(),
        run::variable,
        cwd,
        Wanted::Task(""),
        here,
    )?;
    Ok(match found.dir == Path::new("/") {
        true => Project {
            dir: cwd.to_owned(),
        },
        false => found,
    })
}

fn nothing_said() -> Failure {
    Failure::input(
        "tune init needs to know what to begin with: --script \"python train.py --lr {lr}\", \
         --csv FILE or --optuna FILE; on a terminal it asks",
    )
}

/// The task's name: the one that is given, as a name or as that of its file, or made of `from`.
fn name(args: &InitArgs, from: &str) -> Result<String, Failure> {
    let bare = |name: &String| name.strip_suffix(".toml").unwrap_or(name).to_owned();
    let given = args.name.as_ref().map(bare);
    let made = || {
        let word = |c: char| {
            if c.is_alphanumeric() || c == '_' {
                c
            } else {
                '-'
            }
        };
        let text: String = from.chars().map(word).collect();
        text.trim_matches('-').to_lowercase()
    };
    let name = given.unwrap_or_else(made);
    check_name(&name).map_err(|expected| {
        Failure::input(format!(
            "the task's name {}: expected {expected}; say tune init NAME",
            config::shown_name(&name)
        ))
    })?;
    if RESERVED.contains(&name.as_str()) {
        return Err(Failure::input(format!(
            "a task cannot be called {name}, which is a command of tune; say tune init NAME"
        )));
    }
    Ok(name)
}

fn stem(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

/// The file of a task of this name, which may be written.
fn new_file(
    args: &InitArgs,
    project: &Project,
    cwd: &Path,
    name: &str,
) -> Result<PathBuf, Failure> {
    let file = project.configs().join(format!("{name}.toml"));
    if file.exists() && !args.force {
        return Err(Failure::input(format!(
            "{} is there already; give another name (tune init NAME), or --force to replace it",
            shown(&file, cwd)
        )));
    }
    // A program may run for minutes before it is known what is to be written.
    let there = file.ancestors().skip(1).find(|dir| dir.exists());
    match there.map(|dir| (dir, access(dir, AccessFlags::W_OK))) {
        Some((dir, Err(error))) => {
            let why = error.desc();
            let dir = dir.display();
            Err(Failure::input(format!(
                "the task file cannot be written to {dir}: {why}; begin in a directory of your own, or name one with -C"
            )))
        }
        Some((_, Ok(()))) | None => Ok(file),
    }
}

/// The way from the project's `configs/` to a file, as the task file has it.
fn from_configs(project: &Project, file: &Path) -> String {
    match file.strip_prefix(&project.dir) {
        Ok(inside) => Path::new("..").join(inside).display().to_string(),
        Err(_) => file.display().to_string(),
    }
}

/// A task that is to be written.
struct Planned {
    name: String,
    /// Its file.
    file: PathBuf,
    /// The file's text.
    text: String,
    /// A file that it needs: one that is there already is the user's, and stays.
    beside: Option<NewFile>,
    /// What was seen of the program.
    value: Option<output::ValueGuess>,
    /// What a person has to look at.
    check: Option<String>,
}

impl Planned {
    fn new(name: String, file: PathBuf, text: String) -> Planned {
        Planned {
            name,
            file,
            text: format!("#:schema ./{}\n{text}", task_file::SCHEMA),
            beside: None,
            value: None,
            check: None,
        }
    }
}

fn from_rows(
    args: &InitArgs,
    project: &Project,
    cwd: &Path,
    csv: &Path,
) -> Result<Planned, Failure> {
    let columns = likely_columns(csv, args.text.as_deref(), args.label.as_deref())?;
    let name = name(args, &stem(csv))?;
    let file = new_file(args, project, cwd, &name)?;
    let data = from_configs(project, &cwd.join(csv));
    let Some(words) = columns.text.as_deref() else {
        if let Some(model) = &args.hf {
            return Err(Failure::input(format!(
                "--hf {model:?}: no column of {} looks like texts: name it with --text COLUMN",
                csv.display()
            )));
        }
        let text = files::table_task(&name, &data, &columns);
        return Ok(Planned {
            check: files::dressed(&columns),
            ..Planned::new(name, file, text)
        });
    };
    let model = match &args.hf {
        Some(model) => Model {
            name: model.clone(),
            path: None,
        },
        None => Model {
            name: "minilm".to_owned(),
            path: Some("~/.cache/tune/models/minilm".to_owned()),
        },
    };
    let text = files::classification_task(&name, &data, &columns, words, &model);
    Ok(Planned::new(name, file, text))
}

/// What a command line says, which is run in `dir`.
fn guess(line: &str, dir: &Path) -> Result<ProgramGuess, Failure> {
    program::program(line, |name| dir.join(name).is_file())
        .map_err(|problem| Failure::input(format!("--script {line:?}: {problem}")))
}

fn from_program(
    args: &InitArgs,
    project: &Project,
    cwd: &Path,
    line: &str,
    loud: bool,
) -> Result<Planned, Failure> {
    let guess = guess(line, cwd)?;
    let name = name(args, &program::name(&guess.run))?;
    let file = new_file(args, project, cwd, &name)?;
    let dir = (cwd != project.dir).then(|| from_configs(project, cwd));
    let text_with = |value: Option<&output::ValueGuess>| {
        files::program_task(&name, &guess, value, dir.as_deref())
    };
    let untried = text_with(None);
    if args.no_run {
        let check = "value in [task], where the value stands in what the program prints; and in [objective] metric and \
                     direction, whether a larger value is better";
        return Ok(Planned {
            check: Some(check.to_owned()),
            ..Planned::new(name.clone(), file, untried)
        });
    }
    let seen = trial_run::run_once(&resolved(&file, &untried)?, cwd, args.limit, loud)?;
    let value = match output::value(&seen.printed, &seen.reported) {
        Ok(Some(value)) => value,
        Ok(None) => return Err(no_value(&seen)),
        Err(problem) => {
            return Err(Failure::input(format!(
                "every trial would fail: {problem}. Have the program print a plain number (1234.5), or write the file \
                 with --no-run and put a pattern of your own into it"
            )));
        }
    };
    let check = value.direction.is_none().then(|| {
        format!(
            "whether a larger {} is better, which its name does not tell (direction in [objective])",
            value.metric
        )
    });
    let text = text_with(Some(&value));
    Ok(Planned {
        check,
        value: Some(value),
        ..Planned::new(name.clone(), file, text)
    })
}

/// What to say where the program printed no value.
fn no_value(seen: &trial_run::Seen) -> Failure {
    Failure::input(match output::value(&seen.errors, &[]) {
        Ok(Some(output::ValueGuess { found: Some(line), .. })) => format!(
            "the value is on standard error ({line}), where it is not looked for: have the program print it, or put \
             2>&1 behind the command line"
        ),
        _ if output::no_number(&seen.printed).is_some() => format!(
            "the program printed no finite value ({}), which no search can compare: mend that first, or --no-run writes \
             the file without it",
            output::no_number(&seen.printed).unwrap_or_default()
        ),
        _ => "the program ran, but printed no value that has a name: have it print one, such as val_f1=0.71, or \
              report it (docs/command.md); --no-run writes the file without it"
            .to_owned(),
    })
}

fn from_optuna(
    args: &InitArgs,
    project: &Project,
    cwd: &Path,
    file: &Path,
) -> Result<Planned, Failure> {
    let study = super::adopt::study_to_sketch(
        file,
        args.study.as_deref(),
        None,
        &run::storage(project, &Common::default())?,
    )?;
    let name = name(args, &study.name)?;
    let task = new_file(args, project, cwd, &name)?;
    let mut beside = None;
    let guess = match &args.script {
        Some(line) => {
            let guess = guess(line, &project.dir)?;
            known_to_the_study(&guess, &study.parameters())?;
            guess
        }
        None => {
            let script = format!("{name}_trial.py");
            beside = Some(NewFile {
                path: project.dir.join(&script),
                text: files::trial_script(&study.name, &study.parameters()),
            });
            ProgramGuess {
                run: vec!["python".to_owned(), script],
                searched: Vec::new(),
                fixed: Vec::new(),
                files: Vec::new(),
            }
        }
    };
    let value = output::ValueGuess {
        metric: study.metric.unwrap_or_else(|| "value".to_owned()),
        direction: Some(study.direction),
        pattern: Some(r"\bvalue=(-?[0-9.]+)".to_owned()),
        found: None,
        others: Vec::new(),
    };
    let head = files::program_head(&guess, Some(&value), None);
    let text = adopt::sketch(&study.name, &head, &study.trials);
    let unclear = adopt::unclear_conditions(&study.trials);
    let check = (!unclear.is_empty()).then(|| {
        let names: Vec<_> = unclear.iter().map(|name| printable(name)).collect();
        format!(
            "when there is {} (`when` in [space]): not all trials had it, and no other parameter says which",
            names.join(", ")
        )
    });
    Ok(Planned {
        beside,
        check,
        ..Planned::new(name, task, text)
    })
}

/// A placeholder that no parameter of the study fills would make the task file one that nobody can run.
fn known_to_the_study(guess: &ProgramGuess, parameters: &BTreeSet<&str>) -> Result<(), Failure> {
    let unknown = |p: &&ParameterGuess| !parameters.contains(p.name.as_str());
    match guess.searched.iter().find(unknown) {
        None => Ok(()),
        Some(ParameterGuess { name, .. }) => Err(Failure::input(format!(
            "--script: the study has no parameter {name}{}; it has {}",
            config::hint(name, parameters.iter().copied()),
            parameters
                .iter()
                .copied()
                .map(printable)
                .collect::<Vec<_>>()
                .join(", ")
        ))),
    }
}

/// The task that a text means.
fn resolved(file: &Path, text: &str) -> Result<StudySpec, Failure> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let input = Input {
        text,
        shown: file,
        absolute: file,
        home: home.as_deref(),
    };
    resolve_text(&input, &Overrides::default(), &config::kinds::KINDS).map_err(Failure::from)
}

/// Writes the file that the task needs, where there is none, and then the task's. Which one it was that was not there.
fn write(planned: &Planned) -> Result<Option<PathBuf>, Failure> {
    let beside = planned.beside.as_ref().filter(|file| !file.path.exists());
    let schema = (
        planned.file.with_file_name(task_file::SCHEMA),
        task_file::schema_text(),
    );
    let ours = std::fs::read_to_string(&schema.0).map_or(true, |text| task_file::is_schema(&text));
    for (path, text) in beside
        .map(|file| (&file.path, &file.text))
        .into_iter()
        .chain(ours.then_some((&schema.0, &schema.1)))
        .chain([(&planned.file, &planned.text)])
    {
        let dir = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(dir)
            .and_then(|()| ::files::replace::write(path, text.as_bytes()))
            .map_err(|e| Failure::input(format!("{}: {e}", path.display())))?;
    }
    Ok(beside.map(|file| file.path.clone()))
}
