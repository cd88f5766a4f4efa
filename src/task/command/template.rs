//! The arguments of a program, with the names of parameters where their values go.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use search::space::{Params, Value};

/// `{name}`, and `{{name}}` for the text `{name}` itself. `${name}` is the shell's.
#[expect(
    clippy::expect_used,
    reason = "the pattern is a constant, and tests compile it"
)]
static PLACEHOLDER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\{\{([\p{L}_][\w.-]*)\}\}|\$\{[^}]*\}|\{([\p{L}_][\w.-]*)\}")
        .expect("a constant pattern")
});

/// The names that stand in braces, in order, each once.
pub fn names(arguments: &[String]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let found = arguments.iter().flat_map(|a| PLACEHOLDER.captures_iter(a));
    for name in found.filter_map(|c| Some(c.get(2)?.as_str().to_owned())) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Whether a placeholder can have this name: other braces are the program's.
pub fn is_name(name: &str) -> bool {
    names(&[format!("{{{name}}}")]) == [name]
}

/// Whether a text has this name in braces that are neither the shell's nor doubled.
pub fn has_braces(text: &str, name: &str) -> bool {
    let braces = format!("{{{name}}}");
    let mut found = text.match_indices(&braces);
    found.any(|(at, _)| !text[..at].ends_with(['$', '{']))
}

/// Whether a text has a brace before this name that nobody closes.
pub fn is_unclosed(text: &str, name: &str) -> bool {
    let open = format!("{{{name}");
    let goes_on = |c: char| c.is_alphanumeric() || "_.-".contains(c);
    let mut found = text.match_indices(&open);
    found.any(|(at, _)| {
        let rest = &text[at + open.len()..];
        !text[..at].ends_with('$') && !rest.starts_with(goes_on) && !rest.contains('}')
    })
}

/// A text with something else in the place of each name in braces: what `put` makes of the name, and of the byte at
/// which it stands.
pub fn replace(text: &str, put: impl Fn(&str, usize) -> String) -> String {
    let replaced = PLACEHOLDER.replace_all(text, |c: &Captures| match c.get(2) {
        Some(name) => put(name.as_str(), name.start()),
        None => c[0].to_owned(),
    });
    replaced.into_owned()
}

/// The arguments with the values in the place of their names. Where a parameter is not active in a
/// trial, the argument that names it is left out, and so is the option before it (`--x {x}`, `--x a,{x}`), unless the
/// argument is an option itself (`--x={x}`) or says of what it is the value (`x={x}`). A minus right before a name is that of a value (`--x -{x}`).
pub fn fill(arguments: &[String], values: &Params) -> Vec<String> {
    let mut filled: Vec<String> = Vec::new();
    // Whether the argument before is the last one that was filled in.
    let mut kept = false;
    for (index, argument) in arguments.iter().enumerate() {
        let mut absent = false;
        let text = PLACEHOLDER.replace_all(argument, |c: &Captures| match (c.get(1), c.get(2)) {
            (Some(literal), _) => format!("{{{}}}", literal.as_str()),
            (None, Some(name)) => match values.get(name.as_str()) {
                Some(value) => text(value),
                None => {
                    absent = true;
                    String::new()
                }
            },
            (None, None) => c[0].to_owned(),
        });
        if !absent {
            filled.push(text.into_owned());
            kept = true;
            continue;
        }
        // `name={x}` stands by itself, as Hydra's overrides do: what is before it may be an option without a value.
        let assigns = argument
            .split('{')
            .next()
            .is_some_and(|before| before.contains('='));
        let is_value = !assigns && (!argument.starts_with('-') || argument.starts_with("-{"));
        if is_value && kept && index > 1 && takes_value(&arguments[index - 1]) {
            filled.pop();
        }
        kept = false;
    }
    filled
}

/// Whether an argument may be an option whose value is the next one: `--` ends the options, `-` is a file, `-1` a number.
fn takes_value(argument: &str) -> bool {
    let name = argument.trim_start_matches('-');
    let number = name.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    argument.starts_with('-') && !name.is_empty() && !number && !name.contains('=')
}

/// A value as programs read it: `0.0001`, `3`, `true`, a string as it is.
pub fn text(value: &Value) -> String {
    match value {
        Value::Str(text) => text.to_string(),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => {
            value.to_json().to_string()
        }
    }
}

/// The name of the environment variable that holds a parameter: `optim.lr` is in
/// `TUNE_PARAM_OPTIM_LR`.
pub fn variable(name: &str) -> String {
    let letter = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_uppercase()
        } else {
            '_'
        }
    };
    let mut variable = PREFIX.to_owned();
    variable.extend(name.chars().map(letter));
    variable
}

/// What the names of these variables begin with.
pub const PREFIX: &str = "TUNE_PARAM_";

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(list: &[&str]) -> Vec<String> {
        list.iter().map(|a| (*a).to_owned()).collect()
    }

    fn values() -> Params {
        Params::from([
            ("lr".into(), 1e-4.into()),
            ("optim.name".into(), "sgd".into()),
            ("layers".into(), 3.into()),
            ("flag".into(), true.into()),
        ])
    }

    fn filled(list: &[&str]) -> Vec<String> {
        fill(&arguments(list), &values())
    }

    #[test]
    fn values_take_the_place_of_names() {
        assert_eq!(
            filled(&["p", "--lr={lr}", "{optim.name}", "x{layers}y{flag}"]),
            ["p", "--lr=0.0001", "sgd", "x3ytrue"]
        );
    }

    #[test]
    fn other_braces_stay_as_they_are() {
        let awk = "BEGIN {print $1} ${HOME} {} {1} {\"a\": {\"b\": 2}}";
        assert_eq!(filled(&["sh", awk]), ["sh", awk]);
        assert_eq!(filled(&["sh", "{{lr}} ${lr}"]), ["sh", "{lr} ${lr}"]);
        assert!(names(&arguments(&["sh", awk, "{{lr}} ${lr}"])).is_empty());
    }

    #[test]
    fn an_inactive_parameter_takes_its_option_along() {
        assert_eq!(filled(&["p", "--momentum", "{momentum}", "z"]), ["p", "z"]);
        assert_eq!(filled(&["p", "--momentum={momentum}", "z"]), ["p", "z"]);
        assert_eq!(filled(&["p", "a", "{momentum}", "z"]), ["p", "a", "z"]);
        assert_eq!(filled(&["--p", "{momentum}"]), ["--p"]);
        let both = ["p", "--fast", "--{kind}", "{momentum}"];
        assert_eq!(filled(&both), ["p", "--fast"]);
        assert_eq!(filled(&["p", "--a=1", "{momentum}"]), ["p", "--a=1"]);
        for value in ["a,{momentum}", "{momentum}%", "-{momentum}"] {
            assert_eq!(filled(&["p", "--betas", value, "z"]), ["p", "z"], "{value}");
        }
        assert_eq!(filled(&["p", "--", "{momentum}", "z"]), ["p", "--", "z"]);
        assert_eq!(filled(&["p", "-", "{momentum}"]), ["p", "-"]);
        assert_eq!(
            filled(&["p", "--multirun", "m={momentum}"]),
            ["p", "--multirun"]
        );
        assert_eq!(filled(&["p", "-1", "{momentum}"]), ["p", "-1"]);
    }

    #[test]
    fn names_are_found_once_and_in_order() {
        let list = arguments(&["{b}", "{a.x} {b}"]);
        assert_eq!(names(&list), ["b", "a.x"]);
    }

    #[test]
    fn a_name_begins_with_a_letter_of_any_script_and_has_no_space() {
        assert_eq!(
            names(&arguments(&["{日本} {größe} {2nd} {a b}"])),
            ["日本", "größe"]
        );
        assert!(has_braces("--x={a b}", "a b") && has_braces("${1} {1}", "1"));
        assert!(!has_braces("${1} {{1}} {2}", "1"));
        assert!(is_unclosed("--lr={lr", "lr") && is_unclosed("{lr}{lr --x", "lr"));
        assert!(!is_unclosed("{lr}", "lr") && !is_unclosed("{lrs", "lr"));
        assert!(is_name("optim.lr") && !is_name("a b") && !is_name("2nd") && !is_name("f=b"));
    }

    #[test]
    fn a_variables_name_has_letters_that_shells_allow() {
        assert_eq!(variable("optim.lr"), "TUNE_PARAM_OPTIM_LR");
        assert_eq!(variable("a-b c"), "TUNE_PARAM_A_B_C");
    }
}
