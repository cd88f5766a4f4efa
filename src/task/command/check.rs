//! Everything about a program that can be checked before it runs.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use regex::Regex;

use super::{BASELINE, FILES, RUN, VALUE, directory, parameters, place, template, text_key};
use config::{Problem, Problems, StudySpec};
use files::watched::WatchedFile;
use search::space::Value;

use config::Baseline;
use config::Prepared;

/// Checks program, directory, placeholders, pattern and files; `search` is the search path.
///
/// # Errors
/// All problems found.
pub fn prepare(spec: &StudySpec, search: &OsStr) -> Result<Prepared, Problems> {
    let mut check = Check {
        spec,
        problems: Vec::new(),
    };
    let run = spec.lists.get(RUN).map_or(&[][..], Vec::as_slice);
    let dir = directory(spec);
    if !dir.is_dir() {
        let found = format!("{}, which is no directory", dir.display());
        check.problem(super::DIR, found, "a directory");
    } else {
        check.program(run, &dir, search);
    }
    check.names(run);
    check.metric();
    check.pattern();
    let (fingerprints, watched) = check.files(run, &dir);
    Problems(check.problems).or(())?;
    let value = match text_key(spec, VALUE) {
        Some(pattern) => format!("what standard output matches: {pattern}"),
        None => "what the program reports, or the last line that it prints".to_owned(),
    };
    let facts = [
        ("program", shown(run)),
        ("directory", dir.display().to_string()),
        ("watched", names(&watched)),
        ("value", value),
    ];
    Ok(Prepared {
        baseline: spec
            .fixed
            .get(BASELINE)
            .and_then(Value::as_f64)
            .map(|value| Baseline {
                value,
                what: "task.baseline".into(),
            }),
        facts: facts
            .map(|(heading, fact)| (heading.to_owned(), fact))
            .into(),
        fingerprints,
        watched,
        ..Prepared::default()
    })
}

/// The files of which a change is noticed.
fn names(watched: &[WatchedFile]) -> String {
    match watched {
        [] => "no file: list in task.files what values depend on".to_owned(),
        files => {
            let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
            names.join(", ")
        }
    }
}

/// The arguments, in quotes where it is not clear where one ends.
fn shown(run: &[String]) -> String {
    let plain = |a: &str| !a.is_empty() && !a.contains(|c: char| c.is_whitespace() || c == '"');
    let shown = run.iter().map(|a| match plain(a) {
        true => a.clone(),
        false => format!("{a:?}"),
    });
    shown.collect::<Vec<_>>().join(" ")
}

struct Check<'a> {
    spec: &'a StudySpec,
    problems: Vec<Problem>,
}

impl Check<'_> {
    fn problem(&mut self, key: &str, found: impl Into<String>, expected: impl Into<String>) {
        let problem = self.spec.problem(key, found, expected);
        self.problems.push(problem);
    }

    fn program(&mut self, run: &[String], dir: &Path, search: &OsStr) {
        let Some(name) = run.first().filter(|name| !name.is_empty()) else {
            let expected = "a program and its arguments, such as [\"python\", \"train.py\"]";
            self.problem(RUN, "an empty list", expected);
            return;
        };
        if !template::names(&run[..1]).is_empty() {
            let expected = "a program; placeholders stand in its arguments";
            self.problem(RUN, format!("the program {name}"), expected);
        } else if let Err(problem) = place::program(name, dir, search) {
            self.problem(RUN, problem, "a program that can be run");
        }
        if let Some(script) = place::script(run)
            && !dir.join(script).is_file()
        {
            let found = format!("no file {script} in {}", dir.display());
            self.problem(RUN, found, "a script there, or its directory in task.dir");
        }
    }

    /// Every placeholder names a parameter, and every parameter in braces can be one.
    fn names(&mut self, run: &[String]) {
        let searched = self.spec.space.parameters.iter().map(|p| p.name.clone());
        let fixed = parameters(&self.spec.fixed).into_keys();
        let names: Vec<String> = searched.chain(fixed).collect();
        for name in template::names(run) {
            if !names.contains(&name) {
                let near = config::hint(&name, names.iter().map(String::as_str));
                let found = format!("{{{name}}}, which is no parameter");
                let expected = format!(
                    "{}{near}; {{{{{name}}}}} is the text {{{name}}} itself",
                    match names.as_slice() {
                        [] => "parameters in [space] or [params]".to_owned(),
                        names => format!("one of {}", names.join(", ")),
                    }
                );
                self.problem(RUN, found, expected);
            }
        }
        for name in names.iter().filter(|name| !template::is_name(name)) {
            if run
                .iter()
                .any(|argument| template::has_braces(argument, name))
            {
                let expected = format!(
                    "a name that begins with a letter or _ and has letters, digits, _, . and - alone; of this one the \
                     program gets the value in TUNE_PARAMS_FILE and in {}",
                    template::variable(name)
                );
                self.problem(RUN, format!("{{{name}}}, which stays as it is"), expected);
            }
        }
        for name in &names {
            if run
                .iter()
                .any(|argument| template::is_unclosed(argument, name))
            {
                let found = format!("{{{name} without a closing brace");
                self.problem(RUN, found, format!("{{{name}}}"));
            }
        }
        self.variables(&names);
    }

    /// No two parameters share a variable.
    fn variables(&mut self, names: &[String]) {
        let mut variables: BTreeMap<String, &String> = BTreeMap::new();
        for name in names {
            if let Some(other) = variables.insert(template::variable(name), name) {
                let found = format!("{name} beside {other}");
                let expected = "names that differ in letters or digits: both would be the \
                                variable "
                    .to_owned()
                    + &template::variable(name);
                self.problem("space", found, expected);
            }
        }
    }

    fn metric(&mut self) {
        let metric = &self.spec.objective.metric;
        if ["step", "epoch"].contains(&metric.as_str()) {
            let found = format!("{metric}, which counts the steps in metric lines");
            self.problem("objective.metric", found, "another name");
        }
    }

    fn pattern(&mut self) {
        let Some(pattern) = text_key(self.spec, VALUE) else {
            return;
        };
        match Regex::new(pattern) {
            Ok(regex) if regex.captures_len() > 1 => {}
            Ok(_) => {
                let expected = "a pattern with a group around the value: 'f1=([0-9.]+)'";
                self.problem(VALUE, format!("'{pattern}' without a group"), expected);
            }
            Err(error) => {
                // The last line says what, those before it show where.
                let text = error.to_string();
                let why = text.lines().last().unwrap_or_default();
                let found = format!("'{pattern}' ({})", why.trim_start_matches("error: "));
                self.problem(VALUE, found, "a regular expression");
            }
        }
    }

    /// The files that values depend on, the program's own and those that are listed, and their hashes by key.
    fn files(&mut self, run: &[String], dir: &Path) -> (Vec<(String, String)>, Vec<WatchedFile>) {
        let listed = self.spec.lists.get(FILES).map_or(&[][..], Vec::as_slice);
        let own = place::own_files(run, |name| dir.join(name).is_file());
        let unlisted = own
            .into_iter()
            .filter(|name| !listed.iter().any(|l| l == name));
        let named = (unlisted.map(|name| (RUN, name)))
            .chain(listed.iter().map(|name| (FILES, name.as_str())));
        let mut fingerprints = Vec::new();
        let mut watched = Vec::new();
        for (key, name) in named {
            match WatchedFile::read(name, &dir.join(name)) {
                Ok(file) => {
                    fingerprints.push((format!("{key}.{name}"), file.hash.clone()));
                    watched.push(file);
                }
                Err(error) => {
                    let found = format!("{}: {error}", dir.join(name).display());
                    self.problem(key, found, "files that can be read");
                }
            }
        }
        (fingerprints, watched)
    }
}
