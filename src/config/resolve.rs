//! TOML and overrides to a [`StudySpec`], all problems at once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::StudySpec;
use super::document::Document;
use super::overrides::Overrides;
use super::problem::{Problem, Problems, Source, hint};
use super::satisfiable::refuse_unsatisfiable;
use super::server_url::{has_password, of_postgresql};
use super::settings::Settings;
use super::show::{Shown, show};
use super::spec::Operation;
use super::tree::{Node, find};
use super::unknown::refuse_unknown;
use super::values::{Base, Values};
use super::{halving, objectives};
use crate::active_when::refuse_dead;
use crate::kind::with_passed_on;
use crate::{Key, TaskKind};
use files::bounded;
use files::name::LONGEST_TEXT;
use search::space::Value;

/// Reads and checks a configuration.
///
/// # Errors
/// All problems found.
pub fn resolve(file: &Path, overrides: &Overrides) -> Result<StudySpec, Problems> {
    whole(resolve_partly(file, overrides))
}

/// The same, with as much of the study as can be read beside the problems: for who looks for what is
/// wrong elsewhere. `None` where the kind of task is not known.
pub fn resolve_partly(file: &Path, overrides: &Overrides) -> (Option<StudySpec>, Problems) {
    let (_, spec, problems) = of_file(file, overrides);
    (spec, problems)
}

/// Reads and checks a configuration, and tells of each value where it comes from.
///
/// # Errors
/// All problems found.
pub fn resolve_and_show(
    file: &Path,
    overrides: &Overrides,
) -> Result<(StudySpec, Vec<Shown>), Problems> {
    let (document, spec, problems) = of_file(file, overrides);
    let spec = whole((spec, problems))?;
    let shown = show(&document, &spec);
    Ok((spec, shown))
}

fn of_file(file: &Path, overrides: &Overrides) -> (Document, Option<StudySpec>, Problems) {
    let text = match read(file) {
        Ok(text) => text,
        Err(problems) => return (Document::default(), None, problems),
    };
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let input = Input {
        text: &text.0,
        shown: file,
        absolute: &text.1,
        home: home.as_deref(),
    };
    partly(&input, overrides, &crate::kinds::KINDS)
}

/// All of it, or its problems.
fn whole((spec, problems): (Option<StudySpec>, Problems)) -> Result<StudySpec, Problems> {
    match spec {
        Some(spec) if problems.0.is_empty() => Ok(spec),
        Some(_) | None => Err(problems),
    }
}

/// The file's text and its absolute path.
fn read(file: &Path) -> Result<(String, PathBuf), Problems> {
    let unreadable = |error: std::io::Error| {
        let source = Source::File(file.to_owned(), None);
        let said = error.to_string();
        // Of some files it says itself what they should be.
        let told = said.split_once(", expected ");
        let (found, expected) = told.unwrap_or((said.as_str(), "a readable configuration file"));
        Problems(vec![Problem::without_key(source, found, expected)])
    };
    let text = bounded::read_to_string(file, bounded::CONFIGURATION).map_err(unreadable)?;
    let absolute = std::path::absolute(file).map_err(unreadable)?;
    Ok((text, absolute))
}

/// A configuration file as [`resolve_text`] takes it.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// The file's text.
    pub text: &'a str,
    /// The file's path as messages show it.
    pub shown: &'a Path,
    /// The file's absolute path; relative paths in it start at its directory.
    pub absolute: &'a Path,
    /// What `~` means.
    pub home: Option<&'a Path>,
}

/// The pure part of [`resolve`].
///
/// # Errors
/// All problems found.
pub fn resolve_text(
    input: &Input,
    overrides: &Overrides,
    kinds: &[&'static TaskKind],
) -> Result<StudySpec, Problems> {
    let (_, spec, problems) = partly(input, overrides, kinds);
    whole((spec, problems))
}

fn partly(
    input: &Input,
    overrides: &Overrides,
    kinds: &[&'static TaskKind],
) -> (Document, Option<StudySpec>, Problems) {
    let root = match super::tree::parse(input.text, input.shown) {
        Ok(root) => root,
        Err(problem) => return (Document::default(), None, Problems(vec![problem])),
    };
    let mut problems = Vec::new();
    let mut document = Document::new(root, input.shown, &mut problems);
    document.apply(overrides, &mut problems);
    if let Some(kind) = named(&document, kinds) {
        document.prepare_for(kind, &mut problems);
    }
    let base = Base {
        dir: input.absolute.parent().unwrap_or(Path::new("/")),
        home: input.home,
    };
    let settings = Settings::read(&document, base, &mut problems);
    let models = models(&document, base, &mut problems);
    let (task, study) = names(&document, &settings, input.absolute, &mut problems);
    refuse_password(&document, &settings, &mut problems);
    let kind = kind(&document, &settings, kinds, &mut problems);
    let declared = document.declared.clone();
    let keys = with_passed_on(kind.map_or(&[][..], |k| k.keys), &declared);
    refuse_unknown(&document, kind, &keys, &mut problems);
    let Some(kind) = kind else {
        return (document, None, Problems(problems).sorted());
    };
    document.drop_overruled(&mut problems);
    let objectives = objectives::read(&document, &settings, kind, &mut problems);
    let searched = |key: &&Key| find(&document.space, key.name).is_some();
    let unsearched = keys.iter().filter(|key| key.ty.is_list() || !searched(key));
    let values = Values::read(unsearched, &document, base, &mut problems);
    let (fixed, lists) = (values.single, values.lists);
    let (space, points) = super::space::read(&document, kind, &keys, &fixed, base, &mut problems);
    refuse_dead(&document, &keys, &space, &mut problems);
    let operation = operation(&document, &settings, kind, &mut problems);
    let seed = settings.number("study.seed");
    if problems.is_empty() {
        let searched = (&operation.sampler, seed);
        refuse_unsatisfiable(&document, &space, &points, searched, &mut problems);
    }
    let mut objectives = objectives.into_iter();
    let objective = objectives.next();
    let spec = StudySpec {
        task,
        kind: kind.name.to_owned(),
        file: input.absolute.to_owned(),
        study,
        objective: objective.unwrap_or_else(|| objectives::stand_in(kind)),
        further: objectives.collect(),
        seed,
        space,
        fixed,
        sources: document.sources(),
        lists,
        models,
        points,
        operation,
    };
    (document, Some(spec), Problems(problems).sorted())
}

/// The kind that the configuration names, if there is one of that name.
fn named(document: &Document, kinds: &[&'static TaskKind]) -> Option<&'static TaskKind> {
    let name = document.key("task.kind")?.scalar()?.as_str()?;
    kinds.iter().copied().find(|k| k.name == name)
}

fn kind(
    document: &Document,
    settings: &Settings,
    kinds: &[&'static TaskKind],
    problems: &mut Vec<Problem>,
) -> Option<&'static TaskKind> {
    let kind = named(document, kinds);
    let names: Vec<&str> = kinds.iter().map(|k| k.name).collect();
    let found = match settings.text("task.kind") {
        Some(name) => format!("unknown task kind {name:?}"),
        None => "nothing".to_owned(),
    };
    // Of a value of another type it has been told.
    let told = settings.text("task.kind").is_none() && document.key("task.kind").is_some();
    if kind.is_none() && !told {
        let near = settings
            .text("task.kind")
            .map(|name| hint(name, names.iter().copied()));
        let expected = format!("one of {}{}", names.join(", "), near.unwrap_or_default());
        problems.push(document.problem("task.kind", found, expected));
    }
    kind
}

/// How the run is operated, where keys bear on each other.
fn operation(
    document: &Document,
    settings: &Settings,
    kind: &'static TaskKind,
    problems: &mut Vec<Problem>,
) -> Operation {
    let mut operation = settings.operation();
    halving::read(document, kind, &mut operation, problems);
    if objectives::several_asked(document, settings) {
        objectives::fit_to_several(document, &mut operation, problems);
    }
    operation
}

fn models(
    document: &Document,
    base: Base,
    problems: &mut Vec<Problem>,
) -> BTreeMap<String, PathBuf> {
    let mut models = BTreeMap::new();
    for (name, node) in &document.models {
        match node.scalar() {
            Some(Value::Str(path)) if !path.is_empty() => {
                models.insert(name.clone(), base.expand(path));
            }
            Some(_) | None => problems.push(node.problem(
                format!("models.{name}"),
                Node::found(node),
                "a checkpoint's directory",
            )),
        }
    }
    models
}

/// The task's and the study's name.
fn names(
    document: &Document,
    settings: &Settings,
    file: &Path,
    problems: &mut Vec<Problem>,
) -> (String, String) {
    let task = file.file_stem().unwrap_or_default().to_string_lossy();
    let study = settings.text("study.name").unwrap_or(&task);
    if let Err(expected) = check_name(study) {
        problems.push(document.problem("study.name", shown_name(study), expected));
    }
    (task.clone().into_owned(), study.to_owned())
}

/// A password in the URL of a server would be shown wherever the configuration is, and is refused by a run.
fn refuse_password(document: &Document, settings: &Settings, problems: &mut Vec<Problem>) {
    const KEY: &str = "storage.url";
    let url = settings.text(KEY).unwrap_or_default();
    if !of_postgresql(url).is_some_and(has_password) {
        return;
    }
    let source = match document.source_of(KEY) {
        Source::Flag(_) => Source::Flag(format!("--set {KEY}")),
        source @ (Source::File(..) | Source::Environment(_)) => source,
    };
    let found = "a URL with a password";
    let expected = "one without: it belongs into PGPASSWORD, ~/.pgpass or a service file";
    problems.push(Problem::new(&source, KEY, found, expected));
}

/// Checks a study's name; the error says what was expected.
///
/// # Errors
/// The name is empty, too long, looks like an option, or holds `/` or a control character.
pub fn check_name(name: &str) -> Result<(), &'static str> {
    if name.trim().is_empty() {
        return Err("a name that is not empty");
    }
    if name.chars().count() > 200 || name.len() > LONGEST_TEXT {
        return Err("a name of at most 200 characters and 240 bytes");
    }
    if name == "." || name == ".." {
        return Err("a name that stands for no directory");
    }
    if name.starts_with('-') {
        return Err("a name that does not begin with '-', as options do");
    }
    if name.contains(|c: char| c == '/' || c.is_control()) {
        return Err("a name without '/' and control characters");
    }
    Ok(())
}

/// A name as messages show it: in quotes, and of a long one the beginning.
pub fn shown_name(name: &str) -> String {
    const SHOWN: usize = 60;
    match name.char_indices().nth(SHOWN) {
        Some((end, _)) => format!(
            "{:?}... ({} characters)",
            &name[..end],
            name.chars().count()
        ),
        None => format!("{name:?}"),
    }
}
