//! TOML and overrides to a [`StudySpec`], all problems at once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::StudySpec;
use super::document::Document;
use super::overrides::Overrides;
use super::problem::{Problem, Problems, Source, hint};
use super::satisfiable::refuse_unsatisfiable;
use super::settings::Settings;
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
    let unreadable = |error: std::io::Error| {
        Problems(vec![Problem {
            source: Source::File(file.to_owned(), None),
            key: None,
            found: error.to_string(),
            expected: "a readable configuration file".into(),
        }])
    };
    let text = bounded::read_to_string(file, bounded::CONFIGURATION).map_err(unreadable)?;
    let absolute = std::path::absolute(file).map_err(unreadable)?;
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let input = Input {
        text: &text,
        shown: file,
        absolute: &absolute,
        home: home.as_deref(),
    };
    resolve_text(&input, overrides, &crate::kinds::KINDS)
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
    let root = super::tree::parse(input.text, input.shown).map_err(|p| Problems(vec![p]))?;
    let mut problems = Vec::new();
    let mut document = Document::new(root, input.shown, &mut problems);
    document.apply(overrides, &mut problems);
    if let Some(kind) = named(&document, kinds) {
        for (key, text) in kind.presets {
            document.preset(key, text);
        }
        if kind.accepts_any_parameter {
            document.declare(&mut problems);
        }
    }
    let base = Base {
        dir: input.absolute.parent().unwrap_or(Path::new("/")),
        home: input.home,
    };
    let settings = Settings::read(&document, base, &mut problems);
    let models = models(&document, base, &mut problems);
    let (task, study) = names(&document, &settings, input.absolute, &mut problems);
    let kind = kind(&document, &settings, kinds, &mut problems);
    let declared = document.declared.clone();
    let keys = with_passed_on(kind.map_or(&[][..], |k| k.keys), &declared);
    refuse_unknown(&document, kind, &keys, &mut problems);
    let Some(kind) = kind else {
        return Err(Problems(problems).sorted());
    };
    document.drop_overruled(&mut problems);
    let objectives = objectives::read(&document, &settings, kind, &mut problems);
    let searched = |key: &&Key| find(&document.space, key.name).is_some();
    let unsearched = keys.iter().filter(|key| key.ty.is_list() || !searched(key));
    let Values {
        single: fixed,
        lists,
    } = Values::read(unsearched, &document, base, &mut problems);
    let (space, points) = super::space::read(&document, kind, &keys, &fixed, base, &mut problems);
    refuse_dead(&document, &keys, &space, &mut problems);
    let written = |name: &&String| document.key(name).is_some();
    let written = fixed.keys().filter(written).cloned().collect();
    let mut operation = settings.operation();
    halving::read(&document, kind, &mut operation, &mut problems);
    if objectives::several_asked(&document, &settings) {
        objectives::fit_to_several(&document, &mut operation, &mut problems);
    }
    let seed = settings.number("study.seed");
    if problems.is_empty() {
        let searched = (&operation.sampler, seed);
        refuse_unsatisfiable(&document, &space, &points, searched, &mut problems);
    }
    let mut objectives = objectives.into_iter();
    let (Some(objective), true) = (objectives.next(), problems.is_empty()) else {
        return Err(Problems(problems).sorted());
    };
    Ok(StudySpec {
        task,
        kind: kind.name.to_owned(),
        file: input.absolute.to_owned(),
        study,
        objective,
        further: objectives.collect(),
        seed,
        space,
        fixed,
        written,
        lists,
        models,
        points,
        operation,
    })
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
    let names: Vec<&str> = kinds.iter().map(|k| k.name).collect();
    let expected = |near: &str| format!("one of {}{near}", names.join(", "));
    let Some(name) = settings.text("task.kind") else {
        if document.key("task.kind").is_none() {
            let problem = Problem::new(&document.whole(), "task.kind", "nothing", expected(""));
            problems.push(problem);
        }
        return None;
    };
    let kind = kinds.iter().copied().find(|k| k.name == name);
    if kind.is_none() {
        let near = hint(name, names.iter().copied());
        let source = document.source_of("task.kind");
        let found = format!("unknown task kind {name:?}");
        problems.push(Problem::new(&source, "task.kind", found, expected(&near)));
    }
    kind
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
        let source = document.source_of("study.name");
        let found = format!("{study:?}");
        problems.push(Problem::new(&source, "study.name", found, expected));
    }
    (task.clone().into_owned(), study.to_owned())
}

/// Checks a study's name; the error says what was expected.
///
/// # Errors
/// The name is empty, too long, or holds `/` or a control character.
pub fn check_name(name: &str) -> Result<(), &'static str> {
    if name.trim().is_empty() {
        return Err("a name that is not empty");
    }
    if name.chars().count() > 200 || name.len() > LONGEST_TEXT {
        return Err("a name of at most 200 characters and 240 bytes");
    }
    if name == "." || name == ".." || name.contains(|c: char| c == '/' || c.is_control()) {
        return Err("a name without '/' and control characters");
    }
    Ok(())
}
