//! The documentation's tables have a row for every key, as its entry says.

use crate::key::{Key, KeyType};
use crate::keys::{PRUNERS, SAMPLERS, SETTINGS};
use crate::kinds::{command, detection, tabular, text_classification};

const CONFIGURATION: &str = include_str!("../../../docs/configuration.md");
const TABULAR: &str = include_str!("../../../docs/tabular.md");
const DETECTION: &str = include_str!("../../../docs/detection.md");
const COMMAND: &str = include_str!("../../../docs/command.md");

#[track_caller]
fn assert_rows(document: &str, rows: impl IntoIterator<Item = String>) {
    let missing: Vec<String> = rows.into_iter().filter(|r| !document.contains(r)).collect();
    assert!(missing.is_empty(), "docs lack\n{}", missing.join("\n"));
}

fn preset(key: &Key) -> String {
    let value = key.preset.value();
    value.map_or(String::new(), |value| format!("`{value}`"))
}

fn row(name: &str, key: &Key) -> String {
    format!("| `{name}` | {} | {} |", preset(key), key.help)
}

/// A row that also tells the values and where the key acts.
fn whole_row(key: &Key) -> String {
    let values = match key.ty {
        KeyType::Float { low, high } => format!("{low:?}..{high:?}"),
        KeyType::Int { low, high } if high == i64::MAX => format!("integer from {low}"),
        KeyType::Int { low, high } => format!("{low}..{high}, integer"),
        KeyType::Bool => "true, false".into(),
        KeyType::Text => "text".into(),
        KeyType::Choice(words) => words.join(", "),
        KeyType::Path => "path".into(),
        KeyType::List => "list of texts".into(),
        KeyType::Grid { low, high } => format!("{low:?}..{high:?}, or a list of such"),
        KeyType::IntOrAuto { .. }
        | KeyType::Any
        | KeyType::Metrics
        | KeyType::Duration { .. }
        | KeyType::DurationOrAuto
        | KeyType::Size
        | KeyType::Share
        | KeyType::Device => panic!("no values are told of {}", key.name),
    };
    let condition = key.active_when.map(|c| format!(". Where {c}"));
    let condition = condition.unwrap_or_default();
    let (name, preset, help) = (key.name, preset(key), key.help);
    format!("| `{name}` | {preset} | {values} | {help}{condition} |")
}

#[test]
fn tunes_own_keys_are_listed_with_their_defaults() {
    assert_rows(CONFIGURATION, SETTINGS.iter().map(|key| row(key.name, key)));
    for (section, algorithms) in [("sampler", &SAMPLERS[..]), ("pruner", &PRUNERS)] {
        for algorithm in algorithms {
            let line = format!("`{}`: {}", algorithm.name, algorithm.help);
            let name = |option: &Key| format!("{section}.{}", option.name);
            let rows = algorithm.options.iter().map(|o| row(&name(o), o));
            assert_rows(CONFIGURATION, rows.chain([line]));
        }
    }
}

#[test]
fn the_keys_of_task_kinds_are_listed_with_their_values_and_where_they_act() {
    assert_rows(
        CONFIGURATION,
        text_classification::KEYS.iter().map(whole_row),
    );
    assert_rows(DETECTION, detection::KEYS.iter().map(whole_row));
    assert_rows(TABULAR, tabular::KEYS.iter().map(whole_row));
    assert_rows(COMMAND, command::KEYS.iter().map(|key| row(key.name, key)));
}
