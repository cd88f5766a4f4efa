//! Values that win over the file: flags and environment variables.

use std::ffi::OsString;

use super::problem::{Problem, Problems, Source, hint};

/// Key and value of `KEY=VALUE`, as `--set` takes it: split at the first `=` outside quotes. `None`: there is none, or no key.
pub fn assignment(text: &str) -> Option<(&str, &str)> {
    let mut quote = None;
    let at = text.char_indices().find_map(|(at, c)| {
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(q), c) if q == c => quote = None,
            (None, '=') => return Some(at),
            (Some(_) | None, _) => {}
        }
        None
    });
    // A quote that nobody closes is a letter like others.
    let (key, value) = text.split_at(at.or_else(|| text.find('='))?);
    let key = key.trim();
    (!key.is_empty()).then_some((key, value[1..].trim()))
}

/// Values that win over the file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overrides {
    /// `(key, TOML text of the value or a bare word, source)`, applied in order.
    pub set: Vec<(String, String, Source)>,
}

impl Overrides {
    /// Adds one value; later ones win.
    pub fn push(&mut self, key: &str, value: &str, source: Source) {
        self.set.push((key.to_owned(), value.to_owned(), source));
    }

    /// Appends `other`, which wins.
    pub fn extend(&mut self, other: Overrides) {
        self.set.extend(other.set);
    }
}

/// The environment variables of people's scripts and what each sets. `HPO_OUTDIR` is no override:
/// it names the project directory (see [`super::places`]).
const ENVIRONMENT: [(&str, &str); 4] = [
    ("HPO_EPOCHS", "train.epochs"),
    ("HPO_PATIENCE", "train.patience"),
    ("HPO_MIN_DELTA", "train.min_delta"),
    ("HPO_MODEL_CHOICES", "space.\"model.name\".choices"),
];

/// The variable that names the project directory.
pub(super) const OUTDIR: &str = "HPO_OUTDIR";

/// The text of an environment variable, if it is set and not empty.
///
/// # Errors
/// It is no text: a variable that was set must not count as if it were not.
pub fn text_of(
    variable: &str,
    lookup: impl Fn(&str) -> Option<OsString>,
) -> Result<Option<String>, Problem> {
    let Some(value) = lookup(variable) else {
        return Ok(None);
    };
    match value.into_string() {
        Ok(text) => Ok(Some(text).filter(|t| !t.trim().is_empty())),
        Err(bytes) => {
            let source = Source::Environment(variable.to_owned());
            let found = format!("{bytes:?}, which is not UTF-8");
            let expected = "a text in UTF-8, or no such variable";
            Err(Problem::without_key(source, found, expected))
        }
    }
}

/// The overrides that the environment asks for. Empty variables count as unset. Put them before
/// those of flags: a flag wins over the environment.
///
/// # Errors
/// Every variable that is no text.
pub fn overrides_from_environment(
    lookup: impl Fn(&str) -> Option<OsString>,
) -> Result<Overrides, Problems> {
    let mut overrides = Overrides::default();
    let mut problems = Vec::new();
    for (variable, key) in ENVIRONMENT {
        let text = match text_of(variable, &lookup) {
            Ok(Some(text)) => text,
            Ok(None) => continue,
            Err(problem) => {
                problems.push(problem);
                continue;
            }
        };
        let value = if key.ends_with("choices") {
            let names = text.split(',').map(str::trim).filter(|n| !n.is_empty());
            toml_list(names)
        } else {
            text
        };
        overrides.push(key, &value, Source::Environment(variable.to_owned()));
    }
    Problems(problems).or(overrides)
}

/// The variables that set keys here, as a person may read them: `HPO_EPOCHS=3 (train.epochs)`.
pub fn variables_set(lookup: impl Fn(&str) -> Option<OsString>) -> Vec<String> {
    let set = ENVIRONMENT.iter().filter_map(|(variable, key)| {
        let text = text_of(variable, &lookup).ok()??;
        Some(format!("{variable}={} ({key})", messages::printable(&text)))
    });
    set.collect()
}

/// What to say of variables in the environment that look like ours and are none: nobody reads them.
pub fn unknown_variables(names: impl Iterator<Item = OsString>) -> Vec<String> {
    let known = ENVIRONMENT.map(|(variable, _)| variable);
    let known: Vec<&str> = known.into_iter().chain([OUTDIR]).collect();
    let names = names.map(|name| name.to_string_lossy().into_owned());
    let mut unknown: Vec<String> = names
        .filter(|name| name.starts_with("HPO_") && !known.contains(&name.as_str()))
        .collect();
    unknown.sort();
    let warning = |name: String| {
        let near = hint(&name, known.iter().copied());
        format!(
            "the environment has {name}, which tune does not read; it reads {}{near}",
            known.join(", ")
        )
    };
    unknown.into_iter().map(warning).collect()
}

/// A string as TOML writes it, for what is to be taken as it is.
pub fn toml_text(text: &str) -> String {
    toml_edit::Value::from(text).to_string()
}

/// Strings as a list of TOML.
pub(super) fn toml_list<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let quoted = texts.map(toml_text);
    format!("[{}]", quoted.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn the_environment_of_old_scripts_sets_keys() {
        let overrides = overrides_from_environment(|name| match name {
            "HPO_EPOCHS" => Some("100".into()),
            "HPO_MODEL_CHOICES" => Some("minilm, microsoft/deberta-v3-base,".into()),
            "HPO_PATIENCE" => Some(" ".into()),
            _ => None,
        })
        .unwrap();
        let expected = [
            ("train.epochs", "100", "HPO_EPOCHS"),
            (
                "space.\"model.name\".choices",
                "[\"minilm\", \"microsoft/deberta-v3-base\"]",
                "HPO_MODEL_CHOICES",
            ),
        ];
        let expected = expected.map(|(k, v, s)| {
            let source = Source::Environment(s.to_owned());
            (k.to_owned(), v.to_owned(), source)
        });
        assert_eq!(overrides.set, expected);
    }

    #[test]
    fn a_variable_that_is_no_text_is_named_and_not_passed_over() {
        let broken = || Some(OsString::from_vec(b"1\xff0".to_vec()));
        let problems = overrides_from_environment(|name| match name {
            "HPO_EPOCHS" | "HPO_MODEL_CHOICES" => broken(),
            _ => None,
        });
        let text = problems.unwrap_err().to_string();
        for variable in ["HPO_EPOCHS", "HPO_MODEL_CHOICES"] {
            let line = format!("{variable}: found \"1\\xFF0\", which is not UTF-8");
            assert!(text.contains(&line), "{text}");
        }
    }

    #[test]
    fn a_variable_that_nobody_reads_is_told_with_the_nearest_one() {
        let names = ["PATH", "HPO_EPOCHS", "HPO_EPOCH", "HPO_OUTDIR", "HPO_"];
        let warnings = unknown_variables(names.into_iter().map(OsString::from));
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings[0].starts_with("the environment has HPO_, which"));
        assert!(warnings[1].contains("HPO_EPOCH, which tune does not read"));
        assert!(
            warnings[1].ends_with("did you mean HPO_EPOCHS?)"),
            "{warnings:?}"
        );
    }

    #[test]
    fn an_assignment_is_split_at_the_first_equals_sign_outside_quotes() {
        let split = assignment("space.\"a=b\".choices = [\"x=y\"]");
        assert_eq!(split, Some(("space.\"a=b\".choices", "[\"x=y\"]")));
        assert_eq!(assignment("user's=1"), Some(("user's", "1")));
        assert_eq!(assignment("train.epochs"), None);
        assert_eq!(assignment(" =5"), None);
    }
}
