//! The task files that `tune init` writes. Pure.

use std::collections::BTreeSet;

use super::output::{self, ValueGuess};
use super::program::{ParameterGuess, ProgramGuess, is_shell};
use messages::printable;
use task::command::template;
use text::data::guess::LikelyColumns;
use training::rows::PLAIN_NUMBER;

/// What people do with the file next.
fn head(what: &str, name: &str) -> String {
    format!(
        "# {what} Made by `tune init`: look through it, above all through the ranges.\n#\n\
         #   tune check {name}                what it comes to; starts nothing\n\
         #   tune {name} --trials 50          the search; the same line goes on where it stopped\n\
         #   tune status, tune best {name}    how far it is, and the best trial\n\n"
    )
}

/// A string of TOML: a pattern stays as it is.
pub(super) fn quoted(text: &str) -> String {
    // What stands in single quotes cannot be escaped.
    let special = |c: char| c == '\'' || c != '\t' && c.is_ascii_control();
    match text.contains(special) {
        true => basic(text),
        false => format!("'{text}'"),
    }
}

/// A string of TOML, whatever is in it: JSON's, but for the control character that JSON takes as it is.
fn basic(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    json.replace('\u{7f}', "\\u007F")
}

/// A sentence, which begins with a capital letter.
fn capital(text: &str) -> String {
    let first = text.chars().next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(text.chars().skip(1)).collect()
}

/// A list of TOML.
fn list(texts: &[String]) -> String {
    let all: Vec<String> = texts.iter().map(|text| basic(text)).collect();
    format!("[{}]", all.join(", "))
}

/// A key of TOML, in quotes where it needs them.
fn key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    match name.chars().all(bare) {
        true => name.to_owned(),
        false => basic(name),
    }
}

/// `[task]` and `[objective]` of a program's task.
pub(super) fn program_head(
    guess: &ProgramGuess,
    value: Option<&ValueGuess>,
    dir: Option<&str>,
) -> String {
    let mut text = format!(
        "[task]\nkind = \"command\"\n# {}\nrun = {}\n",
        match (template::names(&guess.run).is_empty(), guess.run.first()) {
            (false, _) => "A trial's values go where the names in braces are.",
            (true, Some(program)) if is_shell(program) =>
                "A trial's values are in variables (docs/command.md): a shell takes them as they are, spaces included.",
            (true, _) =>
                "A trial's values are in the JSON file that $TUNE_PARAMS_FILE names (docs/command.md).",
        },
        list(&guess.run)
    );
    if !guess.files.is_empty() {
        text += "# A change of these files begins another study; add what they import.\n";
        text += &format!("files = {}\n", list(&guess.files));
    }
    if let Some(dir) = dir {
        text += &format!("dir = {}\n", quoted(dir));
    }
    match value {
        Some(ValueGuess {
            pattern: Some(pattern),
            found,
            ..
        }) => {
            text += "# Where the value stands in what the program prints; the last line that matches counts.\n";
            text += &found
                .as_ref()
                .map_or_else(String::new, |line| format!("#   {}\n", printable(line)));
            text += &format!("value = {}\n", quoted(pattern));
        }
        Some(ValueGuess { found, .. }) => {
            let found = found
                .as_deref()
                .map_or_else(String::new, |found| printable(found).into_owned());
            text += &format!("# The value is in {found}\n");
        }
        None => {
            text += "# Where the value stands in what the program prints:\n# value = 'val_f1=([0-9.]+)'\n";
        }
    }
    if let Some(others) = value.and_then(output::others) {
        text += &format!("# {}.\n", printable(&capital(&others)));
    }
    let metric = value.map_or("value", |value| value.metric.as_str());
    let direction = match value.and_then(|value| value.direction) {
        Some(direction) => format!("direction = \"{direction}\"         # or the other one\n"),
        None => "direction = \"maximize\"         # CHECK: or minimize; the metric's name does not tell\n".into(),
    };
    text + &format!("\n[objective]\nmetric = {}\n{direction}", quoted(metric))
}

/// A program's task.
pub(super) fn program_task(
    name: &str,
    guess: &ProgramGuess,
    value: Option<&ValueGuess>,
    dir: Option<&str>,
) -> String {
    let mut text = head("Searches the parameters of a program.", name);
    text += &program_head(guess, value, dir);
    if !guess.fixed.is_empty() {
        text += "\n[params]                       # passed on as they are, not searched\n";
        for (name, value) in &guess.fixed {
            text += &format!("{} = {value}\n", key(name));
        }
    }
    text += "\n# low and high are searched, too; log = true where factors matter more than differences.\n[space]\n";
    for ParameterGuess {
        name,
        entry,
        unknown,
    } in &guess.searched
    {
        let look = if *unknown {
            "   # a guess: say which values make sense"
        } else {
            ""
        };
        text += &format!("{} = {{ {entry} }}{look}\n", key(name));
    }
    text + "\n# A program that reports each epoch lets poor trials be stopped early: docs/command.md.\n"
}

/// What a program of an Optuna study begins with: the objective's body goes into it.
pub(super) fn trial_script(study: &str, names: &BTreeSet<&str>) -> String {
    let mut text = format!(
        "\"\"\"One trial of the study {}: put the body of your objective function here.\"\"\"\n\
         import json\nimport os\n\nwith open(os.environ[\"TUNE_PARAMS_FILE\"]) as file:\n    params = json.load(file)\n",
        study.escape_debug()
    );
    text += &format!(
        "# What trial.suggest_...() gave: {}\n\n",
        names.iter().copied().collect::<Vec<_>>().join(", ")
    );
    text + "raise SystemExit(\"put the body of your objective function here, and print its value at the end\")\n\
            # print(f\"value={value}\")\n"
}

/// A table's task.
pub(super) fn table_task(name: &str, data: &str, columns: &LikelyColumns) -> String {
    let (problem, metric) = match columns.classes.is_empty() {
        true => ("regression", "rmse"),
        false => ("classification", "macro_f1"),
    };
    let mut text = head("Trains a small network on the columns of a table.", name);
    text += &format!(
        "[task]\nkind = \"tabular\"\nproblem = \"{problem}\"\n\n[data]\npath = {}   # from this file's directory\n\
         target = {}   # CHECK: the column to predict; {}\n",
        quoted(data),
        quoted(&columns.label),
        match columns.classes.is_empty() {
            true => "a number".to_owned(),
            false => classes(columns),
        }
    );
    text += &match columns.row_names.is_empty() {
        true => {
            "# ignore = [\"...\"]   # columns that are not known when one predicts\n".to_owned()
        }
        false => format!(
            "ignore = {}   # another in each row; add what is not known when one predicts\n",
            list(&columns.row_names)
        ),
    };
    text += &group(columns);
    text += &format!(
        "split = {{ train = 0.6, validation = 0.2, test = 0.2, seed = 0 }}\n\n[objective]\nmetric = \"{metric}\"\n\n\
         [train]\nepochs = 60\npatience = 15             # epochs without a better value until a trial stops early\n\n\
         # Trial 0 has the defaults.\n[space]\n"
    );
    if columns.categorical {
        text += "\"model.embedding\" = { low = 1, high = 16, int = true, default = 4 }\n";
    }
    text + TABLE_SPACE
}

/// What to do about columns of numbers that are not written as such.
pub(super) fn dressed(columns: &LikelyColumns) -> Option<String> {
    let names: Vec<&str> = columns.dressed.iter().map(String::as_str).collect();
    (!names.is_empty()).then(|| {
        let names = printable(&names.join(", ")).into_owned();
        format!(
            "the numbers of {names}, of which each would be a category of its own: write {PLAIN_NUMBER}"
        )
    })
}

/// How many classes there are, and the first of them.
fn classes(columns: &LikelyColumns) -> String {
    let classes = &columns.classes;
    let shown: Vec<&str> = classes.iter().take(6).map(String::as_str).collect();
    let more = if classes.len() > shown.len() {
        ", ..."
    } else {
        ""
    };
    let shown = printable(&shown.join(", ")).into_owned();
    format!("{} classes: {shown}{more}", classes.len())
}

/// The key of the column whose equal values stay in one split.
fn group(columns: &LikelyColumns) -> String {
    match &columns.group {
        Some(group) => format!("group = {}   # its rows stay in one split\n", quoted(group)),
        None => "# group = \"...\"   # the column of what belongs together (a user, a document)\n"
            .to_owned(),
    }
}

/// A text classifier's task; `words`: the column of its texts.
pub(super) fn classification_task(
    name: &str,
    data: &str,
    columns: &LikelyColumns,
    words: &str,
    model: &Model,
) -> String {
    let mut text = head("Fine-tunes a text classifier.", name);
    let others: Vec<&str> = (columns.columns.iter().map(String::as_str))
        .filter(|c| *c != words && *c != columns.label)
        .collect();
    text += &format!(
        "[task]\nkind = \"text-classification\"\n\n[data]\npath = {}   # from this file's directory\n\
         text = {}   # the column with the text\n",
        quoted(data),
        quoted(words)
    );
    if !others.is_empty() {
        text += &format!(
            "# text_pair = \"...\"   # a second text; other columns: {}\n",
            printable(&others.join(", "))
        );
    }
    text += &format!(
        "label = {}   # {}\n",
        quoted(&columns.label),
        classes(columns)
    );
    text += &group(columns);
    text += "split = { train = 0.8, validation = 0.1, test = 0.1, seed = 0 }\n\n[objective]\nmetric = \"macro_f1\"\n\n\
             [train]\nepochs = 4\npatience = 2             # epochs without a better value until a trial stops early\n\n";
    if let Some(path) = &model.path {
        text += &format!(
            "[models]                 # a directory with config.json, model.safetensors, tokenizer.json\n{} = {}\n\n",
            key(&model.name),
            quoted(path)
        );
    }
    text += &format!(
        "# Trial 0 has the defaults.\n[space]\n\"model.name\" = {{ choices = {0}, default = {1} }}   # add your own\n",
        list(std::slice::from_ref(&model.name)),
        basic(&model.name)
    );
    text + SPACE
}

/// A checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Model {
    /// Its name.
    pub(super) name: String,
    /// Where it lies; none: the name is a path, or one of the hub's.
    pub(super) path: Option<String>,
}

/// What is searched in a table's network.
const TABLE_SPACE: &str = r#""model.layers" = { low = 0, high = 3, int = true, default = 2 }
"model.hidden" = { choices = [16, 32, 64, 128], default = 64, when = { "model.layers" = [1, 2, 3] } }
"model.dropout" = { low = 0.0, high = 0.5, default = 0.0 }
"train.batch_size" = { choices = [16, 32, 64, 128], default = 32 }
"optim.lr" = { low = 1e-4, high = 3e-2, log = true, default = 3e-3 }
"optim.weight_decay" = { low = 1e-4, high = 1.0, log = true, default = 0.01 }
"sched.name" = { choices = ["linear", "cosine", "one_cycle"], default = "linear" }
"#;

/// What is searched in a text classifier.
const SPACE: &str = r#""model.dropout" = { low = 0.0, high = 0.3, default = 0.1 }
"tok.max_length" = { low = 64, high = 256, step = 64, int = true, default = 128 }   # tokens; longer texts are cut
"train.batch_size" = { choices = [8, 16, 32, 64], default = 16 }
"optim.lr" = { low = 5e-6, high = 1e-3, log = true, default = 5e-5 }
"optim.weight_decay" = { low = 1e-6, high = 0.2, log = true, default = 0.01 }
"sched.name" = { choices = ["linear", "cosine"], default = "linear" }
"sched.warmup_ratio" = { low = 0.0, high = 0.2, default = 0.1 }
"head.pooling" = { choices = ["cls", "mean", "max", "attn"], default = "mean" }
"head.dropout" = { low = 0.0, high = 0.5, default = 0.0 }
"loss.cls.type" = { choices = ["ce", "ce_label_smooth"], default = "ce" }
"loss.cls.label_smoothing" = { low = 0.0, high = 0.2, default = 0.1, when = { "loss.cls.type" = ["ce_label_smooth"] } }
"loss.cls.balance" = { choices = ["none", "weighted"], default = "none" }
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_of_any_characters_can_be_read() {
        for (text, told) in [
            ("a\\b\tc", "'a\\b\tc'"),
            ("it's", "\"it's\""),
            ("a\rb", "\"a\\rb\""),
            ("a\u{1b}b", "\"a\\u001bb\""),
            ("a\u{7f}b", "\"a\\u007Fb\""),
        ] {
            assert_eq!(quoted(text), told);
        }
        assert_eq!(key("a\u{7f}"), "\"a\\u007F\"");
    }
}
