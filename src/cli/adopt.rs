//! `tune adopt FILE --task TASK`: a study of Optuna's or of another program, taken into the project.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value as Json, json};

use super::args::{key_value, set_overrides};
use super::{Common, run};
use crate::query::{self, Adoption};
use adopt::fit::{self, Arrival};
use adopt::foreign::{Origin, WantedValue};
use adopt::{DatabaseCopy, TaskRequirements};
use config::Prepared;
use config::places::Wanted;
use config::{Overrides, Problem, StudySpec, check_name};
use messages::exit::{Exit, Failure};
use search::study::{Direction, FrozenTrial};
use store::{NewStudy, Place, Store, StoreErrorKind, StudySummary};
use supervisor::{LockOwner, StudyLock, spool, task_attributes};
use text::data::guess::likely_columns;

/// `tune adopt`
#[derive(Debug, Args)]
pub struct AdoptArgs {
    /// Optuna's SQLite database (a path or sqlite:///PATH), Ray Tune's directory of an experiment, Hyperopt's pickled trials, or a table of
    /// trials (CSV) such as W&B's; it is only read
    #[arg(value_parser = source)]
    pub file: PathBuf,
    /// The task that goes on with it: a name in configs/ without .toml, or a path that ends in .toml
    #[arg(long, value_name = "TASK", required_unless_present = "sketch")]
    pub task: Option<String>,
    /// Of a study that is not Optuna's: the number that is a trial's value [default: the task's metric]
    #[arg(long, value_name = "NAME[:DIR]", value_parser = metric)]
    pub metric: Option<AskedMetric>,
    /// Study in FILE [default: the only one]
    #[arg(long, value_name = "NAME")]
    pub study: Option<String>,
    /// Its name in this project [default: the name it has]
    #[arg(long = "as", value_name = "NEW")]
    pub name: Option<String>,
    /// Override any key of the configuration; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub set: Vec<(String, String)>,
    /// Call a parameter of the study as the task calls it (lr=optim.lr); repeatable
    #[arg(long, value_name = "OLD=NEW", value_parser = old_new)]
    pub rename: Vec<(String, String)>,
    /// Only tell what it is worth; write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Only print a task file of kind command with the study's space, to begin with
    #[arg(long, conflicts_with_all = ["task", "name", "set", "rename", "dry_run"])]
    pub sketch: bool,
}

pub(super) fn adopt(common: &Common, args: &AdoptArgs) -> Result<Exit, Failure> {
    let wanted = args.task.as_deref().map_or(Wanted::Studies, Wanted::Task);
    let project = run::project(common, wanted)?;
    let storage = run::storage(&project, common)?;
    let Some(task) = &args.task else {
        return sketch(common, args, &storage);
    };
    let overrides = Overrides {
        set: set_overrides(&args.set),
    };
    let mut spec = run::read(&project, task, overrides)?;
    let objective = &spec.objective;
    let of_task = (objective.metric.as_str(), objective.direction);
    let value = wanted_value(args.metric.as_ref(), of_task);
    let copy = copy_of(&args.file, &storage, Some(&value))?;
    must_be_asked_for(&copy, args.metric.as_ref())?;
    let study = choose(&copy, &args.file, args.study.as_deref())?;
    spec.study = name(args, &study)?;
    must_be_comparable(&study, &spec)?;
    let prepared = run::prepare(&spec)?;
    let asked = TaskRequirements::new(&spec, &prepared)
        .ok_or_else(|| Failure::internal(format!("task kind {} has no code", spec.kind)))?;
    let trials = read_trials(&copy, &study, &args.rename, &asked)?;
    let mut assessment = adopt::assess(&trials, &asked);
    if copy.origin != Origin::Optuna {
        assessment.running = adopt::foreign::still_running(&trials);
    }
    let told = told(args, &copy, &study, &spec, &assessment)?;
    let loud = common.loud();
    if loud {
        super::print(&told.text())?;
    }
    must_be_free(&storage, &spec.study)?;
    if args.dry_run {
        if loud {
            super::print("dry run: nothing was written\n")?;
        } else if common.json {
            super::print_json(&told.json(false, None))?;
        }
        return Ok(Exit::Done);
    }
    let now = query::stored_time(messages::clock::now());
    let arrival = Arrival {
        now: &now,
        alive: told.alive.is_some(),
        victims: &assessment.faults.victims,
    };
    let trials: Vec<FrozenTrial> = trials
        .iter()
        .map(|t| fit::adopted(t, &asked, &arrival))
        .collect();
    let new = NewStudy {
        name: &spec.study,
        directions: &[spec.objective.direction],
        user_attrs: &attributes(&study, &copy, &told, &spec, &prepared),
        identity: &config::identity(&spec, &prepared),
    };
    write(&storage, &new, &spec.metric_names(), &trials)?;
    let command = command(common, args, &spec, assessment.counted);
    if loud {
        let adopted = query::adopted(&spec.study, trials.len(), &assessment, &command);
        super::print(&adopted)?;
    } else if common.json {
        super::print_json(&told.json(true, Some(&command)))?;
    }
    Ok(Exit::Done)
}

/// Refuses `--metric` where there is one value that it could mean.
fn must_be_asked_for(copy: &DatabaseCopy, metric: Option<&AskedMetric>) -> Result<(), Failure> {
    match metric.filter(|_| copy.origin == Origin::Optuna) {
        Some((name, _)) => Err(Failure::input(format!(
            "--metric {name}: {} is a database of Optuna's, whose values have no names to choose by; expected no \
             --metric: the task's objective.metric and objective.direction say what the value is",
            copy.path.display()
        ))),
        None => Ok(()),
    }
}

/// What the study is called in this project.
fn name(args: &AdoptArgs, study: &StudySummary) -> Result<String, Failure> {
    let name = args.name.as_ref().unwrap_or(&study.name);
    check_name(name).map_err(|expected| {
        Failure::input(format!(
            "study name {}: expected {expected}; give another one with --as",
            config::shown_name(name)
        ))
    })?;
    Ok(name.clone())
}

/// A copy of the source; the project's own database is none.
fn copy_of(
    file: &Path,
    own: &Place,
    wanted: Option<&WantedValue>,
) -> Result<DatabaseCopy, Failure> {
    let is_table = |path: PathBuf| Origin::of(&path) == Origin::Table;
    if std::fs::canonicalize(file).is_ok_and(is_table) {
        must_be_separated_by_commas(file)?;
    }
    adopt::copy(file, own.file(), wanted)
}

/// Refuses a table whose columns something else than commas separates, with the command that `tune init --csv` has for it.
fn must_be_separated_by_commas(table: &Path) -> Result<(), Failure> {
    // No column that is named makes that the one question.
    let Err(problems) = likely_columns(table, None, Some("")) else {
        return Ok(());
    };
    let of_commas = |problem: &&Problem| problem.expected.contains("separated by commas");
    match problems.0.iter().find(of_commas) {
        Some(problem) => Err(Failure::input(format!(
            "{}: found a header of one column, expected {}",
            table.display(),
            problem.expected
        ))),
        None => Ok(()),
    }
}

/// The study's trials, with the names that the task has for parameters.
fn read_trials(
    copy: &DatabaseCopy,
    study: &StudySummary,
    names: &[(String, String)],
    asked: &TaskRequirements,
) -> Result<Vec<FrozenTrial>, Failure> {
    let trials = copy.store.trials(study.study_id);
    let mut trials = trials.map_err(|e| copy.failure(e))?;
    adopt::name_nulls(&mut trials);
    adopt::check_names(names, asked)
        .and_then(|()| adopt::rename(&mut trials, names))
        .map_err(|e| Failure::input(format!("--rename {e}")))?;
    if copy.origin == Origin::Hyperopt {
        adopt::foreign::choose_by_place(&mut trials, asked.space);
    }
    Ok(trials)
}

/// A study of another database, from which a task file is made.
pub(super) struct SketchedStudy {
    pub(super) name: String,
    pub(super) direction: Direction,
    /// What the value of a trial is called there, where it has a name.
    pub(super) metric: Option<String>,
    pub(super) trials: Vec<FrozenTrial>,
}

impl SketchedStudy {
    /// The names of all parameters that trials had, in order.
    pub(super) fn parameters(&self) -> BTreeSet<&str> {
        let names = self.trials.iter().flat_map(|t| t.distributions.keys());
        names.map(String::as_str).collect()
    }
}

/// Reads the study that a task file is to be made from.
pub(super) fn study_to_sketch(
    file: &Path,
    study: Option<&str>,
    metric: Option<&WantedValue>,
    storage: &Place,
) -> Result<SketchedStudy, Failure> {
    let copy = copy_of(file, storage, metric)?;
    let study = choose(&copy, file, study)?;
    if study.directions.len() > 1 {
        return Err(Failure::input(format!(
            "study {} has {} objectives; a task is written from a study of one",
            study.name,
            study.directions.len()
        )));
    }
    let trials = copy.store.trials(study.study_id);
    let mut trials = trials.map_err(|e| copy.failure(e))?;
    adopt::name_nulls(&mut trials);
    if trials.iter().all(|t| t.distributions.is_empty()) {
        return Err(Failure::input(format!(
            "study {}: no trial has a parameter, so that there is no space to write down",
            study.name
        )));
    }
    Ok(SketchedStudy {
        direction: study.direction(),
        name: study.name,
        metric: metric
            .cloned()
            .or(copy.origin.value())
            .map(|value| value.metric),
        trials,
    })
}

/// Prints a task file for the study.
fn sketch(common: &Common, args: &AdoptArgs, storage: &Place) -> Result<Exit, Failure> {
    if common.json {
        return Err(Failure::input(
            "--json: found beside --sketch, which prints a task file: TOML; expected one of the two",
        ));
    }
    let asked = args.metric.as_ref();
    let asked = asked.map(|asked| wanted_value(Some(asked), ("", Direction::Minimize)));
    let study = study_to_sketch(&args.file, args.study.as_deref(), asked.as_ref(), storage)?;
    let metric = study.metric.as_deref().unwrap_or("value");
    let program = adopt::sketched_program(metric, study.direction);
    super::print_data(&adopt::sketch(&study.name, &program, &study.trials))
}

/// The study of the source that is meant.
fn choose(copy: &DatabaseCopy, file: &Path, study: Option<&str>) -> Result<StudySummary, Failure> {
    let mut studies = copy.store.studies().map_err(|e| copy.failure(e))?;
    let place = file.display();
    let list: Vec<String> = studies
        .iter()
        .map(|s| {
            format!(
                "\n  {} ({})",
                s.name.escape_debug(),
                report::format::plural(s.counts.total(), "trial")
            )
        })
        .collect();
    let list = list.concat();
    let at = match study {
        _ if studies.is_empty() => {
            return Err(Failure::input(format!("{place}: it holds no study")));
        }
        None if studies.len() == 1 => 0,
        None => {
            return Err(Failure::input(format!(
                "which study? {place} holds several; choose one with --study NAME:{list}"
            )));
        }
        Some(name) => studies.iter().position(|s| s.name == name).ok_or_else(|| {
            Failure::input(format!(
                "{place} holds no study called {name:?}; it holds:{list}"
            ))
        })?,
    };
    Ok(studies.swap_remove(at))
}

/// Whether the values of the study mean what the task's values mean.
fn must_be_comparable(study: &StudySummary, spec: &StudySpec) -> Result<(), Failure> {
    let n = study.directions.len();
    if n != 1 {
        return Err(Failure::input(format!(
            "study {:?} has {n} objectives; only studies with one can be adopted",
            study.name
        )));
    }
    if !spec.further.is_empty() {
        return Err(Failure::input(format!(
            "the task {} has {} objectives; adopt the study with the one it has, by --set \
             objective.metric=NAME, and take its best points over into a study with several by --from",
            spec.task,
            spec.objectives().len()
        )));
    }
    let (was, asked) = (study.direction(), spec.objective.direction);
    if was == asked {
        return Ok(());
    }
    Err(Failure::new(
        Exit::Differs,
        format!(
            "objective.direction: the study {:?} has {was}, the task {} has {asked} {}; adopt it with \
             a task whose objective.metric and objective.direction are those of the study",
            study.name, spec.task, spec.objective.metric
        ),
    ))
}

fn told<'a>(
    args: &AdoptArgs,
    copy: &DatabaseCopy,
    study: &StudySummary,
    spec: &'a StudySpec,
    assessment: &'a adopt::Assessment,
) -> Result<Adoption<'a>, Failure> {
    let beats = copy.store.heartbeats(study.study_id);
    let beats = beats.map_err(|e| copy.failure(e))?;
    let last = beats.values().max().map(String::as_str);
    let alive = query::alive(&copy.signs, last, messages::clock::now());
    Ok(Adoption {
        file: args.file.display().to_string(),
        study: study.name.clone(),
        name: spec.study.clone(),
        task: spec.task.clone(),
        metric: &spec.objective.metric,
        direction: spec.objective.direction,
        origin: copy.origin,
        optuna: match copy.origin {
            Origin::Optuna => copy.store.optuna_version().map_err(|e| copy.failure(e))?,
            Origin::Ray | Origin::Hyperopt | Origin::Table => None,
        },
        verdict: adopt::verdict::verdict(assessment),
        assessment,
        // A program that runs none of the study's trials does not matter.
        alive: alive.filter(|_| !assessment.running.is_empty()),
    })
}

/// Refuses where the project has a study of this name, before anything is written.
fn must_be_free(storage: &Place, name: &str) -> Result<(), Failure> {
    let waiting = spool::waiting(&storage.own_files(), name);
    if waiting > 0 {
        return Err(Failure::storage(format!(
            "an earlier study {name} has left {} in {} that no database has; put its own back, or choose \
             another name with --as NEW",
            spool::count_text(waiting),
            storage.own_files().display()
        )));
    }
    match Store::open_if_any(storage)? {
        Some(store) if store.find_study(name)?.is_some() => Err(taken(storage, name)),
        Some(_) | None => Ok(()),
    }
}

fn taken(storage: &Place, name: &str) -> Failure {
    Failure::new(
        Exit::Differs,
        format!(
            "{storage} holds a study called {name:?} already; choose another name with --as NEW"
        ),
    )
}

/// Writes the study while nobody else can run one of its name.
fn write(
    storage: &Place,
    study: &NewStudy,
    metrics: &[&str],
    trials: &[FrozenTrial],
) -> Result<(), Failure> {
    let _hold = StudyLock::take(storage, study.name, &LockOwner::this_process())?;
    let mut store = Store::open(storage)?;
    match store.create_study(study, trials) {
        Ok(study_id) => Ok(store.name_metrics(study_id, metrics)?),
        Err(error) if matches!(error.kind, StoreErrorKind::StudyExists(_)) => {
            Err(taken(storage, study.name))
        }
        Err(error) => Err(error.into()),
    }
}

/// The study's attributes: those it had, what a run would note, and where it comes from. Those
/// that it had under a name of ours are kept there.
fn attributes(
    study: &StudySummary,
    copy: &DatabaseCopy,
    told: &Adoption,
    spec: &StudySpec,
    prepared: &Prepared,
) -> Map<String, Json> {
    let mut ours = task_attributes(spec);
    if let Some(baseline) = &prepared.baseline {
        ours.insert("baseline".into(), json!(baseline));
    }
    let mut attrs = study.user_attrs.clone();
    let mut replaced = Map::new();
    for key in ours.keys().map(String::as_str).chain(["adopted_from"]) {
        if let Some(value) = attrs.shift_remove(key) {
            replaced.insert(key.to_owned(), value);
        }
    }
    let mut from = json!({
        "file": copy.path.display().to_string(),
        "study": study.name,
        "time": messages::clock::now().to_string(),
        "origin": copy.origin.word(),
        "optuna": told.optuna,
    });
    if !replaced.is_empty() {
        from["user_attrs"] = Json::Object(replaced);
    }
    attrs.extend(ours);
    attrs.insert("adopted_from".into(), from);
    attrs
}

/// The command that continues the study.
fn command(common: &Common, args: &AdoptArgs, spec: &StudySpec, counted: usize) -> String {
    let mut words = vec!["tune".to_owned()];
    let path = |p: &Path| p.display().to_string();
    if let Some(dir) = &common.dir {
        words.extend(["-C".to_owned(), path(dir)]);
    }
    words.extend(args.task.clone());
    words.extend(["--study".to_owned(), spec.study.clone()]);
    if let Some(storage) = &common.storage {
        words.extend(["--storage".to_owned(), storage.clone()]);
    }
    for (key, value) in &args.set {
        words.extend(["--set".to_owned(), format!("{key}={value}")]);
    }
    // A goal that is reached already would end it at once.
    let goal = spec.operation.trials;
    let counted = counted as u64;
    if goal <= counted {
        words.extend(["--trials".to_owned(), (counted + goal.max(1)).to_string()]);
    }
    report::shell_line(&words)
}

/// A name of the study and one of the task.
fn old_new(text: &str) -> Result<(String, String), String> {
    match text
        .split_once('=')
        .map(|(old, new)| (old.trim(), new.trim()))
    {
        Some((old, new)) if !old.is_empty() && !new.is_empty() => {
            Ok((old.to_owned(), new.to_owned()))
        }
        Some(_) | None => Err("expected OLD=NEW, for example lr=optim.lr".to_owned()),
    }
}

/// A metric's name, and its direction where that is said.
type AskedMetric = (String, Option<Direction>);

/// `NAME`, `NAME:min` or `NAME:max`.
fn metric(text: &str) -> Result<AskedMetric, String> {
    let (name, direction) = match text.rsplit_once(':') {
        Some((name, "min" | "minimize")) => (name, Some(Direction::Minimize)),
        Some((name, "max" | "maximize")) => (name, Some(Direction::Maximize)),
        Some((_, _)) | None => (text, None),
    };
    match name.is_empty() {
        true => Err("expected NAME, NAME:min or NAME:max".to_owned()),
        false => Ok((name.to_owned(), direction)),
    }
}

/// What was asked for, or the task's.
fn wanted_value(asked: Option<&AskedMetric>, otherwise: (&str, Direction)) -> WantedValue {
    let (metric, direction) = match asked {
        Some((name, direction)) => (name.as_str(), direction.unwrap_or(otherwise.1)),
        None => otherwise,
    };
    WantedValue {
        metric: metric.to_owned(),
        direction,
    }
}

/// A path, or a URL of SQLAlchemy for SQLite: `sqlite:///relative`, `sqlite:////absolute`.
pub(super) fn source(text: &str) -> Result<PathBuf, String> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return if text.is_empty() {
            Err("expected a path".to_owned())
        } else {
            Ok(PathBuf::from(text))
        };
    };
    if scheme != "sqlite" && !scheme.starts_with("sqlite+") {
        return Err(format!(
            "{scheme} cannot be read; copy the study into a file once, with optuna.copy_study(\
             from_study_name=..., from_storage=\"{scheme}://...\", to_storage=\"sqlite:///study.db\")"
        ));
    }
    let path = rest
        .strip_prefix('/')
        .map(|p| p.split('?').next().unwrap_or(p));
    match path {
        Some(path) if !path.is_empty() => Ok(PathBuf::from(path)),
        Some(_) | None => Err("expected sqlite:///PATH".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_a_path_or_a_url_of_sqlite() {
        let path = |text: &str| source(text).map(|p| p.display().to_string());
        assert_eq!(path("a/b.db").as_deref(), Ok("a/b.db"));
        assert_eq!(path("sqlite:///b.db").as_deref(), Ok("b.db"));
        assert_eq!(
            path("sqlite+pysqlite:////b.db?timeout=30").as_deref(),
            Ok("/b.db")
        );
        assert!(path("sqlite://").is_err());
        assert!(path("").is_err());
        for other in [
            "mysql://host/db",
            "journal://x",
            "postgresql+psycopg2://h/d",
        ] {
            assert!(path(other).unwrap_err().contains("copy_study"), "{other}");
        }
    }

    #[test]
    fn a_renaming_names_both() {
        let names = old_new("lr = optim.lr").unwrap();
        assert_eq!(names, ("lr".to_owned(), "optim.lr".to_owned()));
        for bad in ["lr", "=optim.lr", "lr=", ""] {
            assert!(old_new(bad).unwrap_err().contains("lr=optim.lr"), "{bad}");
        }
    }
}
