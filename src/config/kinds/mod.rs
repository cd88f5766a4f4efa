//! The kinds of task there are: each a table of what it reads and reports. What they do is elsewhere.

pub mod command;
pub mod synthetic;
pub mod text_classification;

use crate::TaskKind;

/// Every task kind.
pub static KINDS: [&TaskKind; 3] = [&synthetic::KIND, &command::KIND, &text_classification::KIND];

/// The task kind of this name.
pub fn kind(name: &str) -> Option<&'static TaskKind> {
    KINDS.into_iter().find(|k| k.name == name)
}
