//! The kinds of task there are: each a table of what it reads and reports. What they do is elsewhere.

pub mod command;
pub mod detection;
pub mod shared;
pub mod synthetic;
pub mod tabular;
pub mod text_classification;

use crate::{Key, TaskKind};

/// Every task kind.
pub static KINDS: [&TaskKind; 5] = [
    &synthetic::KIND,
    &command::KIND,
    &text_classification::KIND,
    &tabular::KIND,
    &detection::KIND,
];

/// The task kind of this name.
pub fn kind(name: &str) -> Option<&'static TaskKind> {
    KINDS.into_iter().find(|k| k.name == name)
}

/// The keys that the task kind of this name declares.
pub fn keys_of(name: &str) -> &'static [Key<'static>] {
    kind(name).map_or(&[], |kind| kind.keys)
}
