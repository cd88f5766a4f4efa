//! What people and scripts see: the only module that writes to the terminal.

mod check;
mod chosen;
mod drill;
mod evaluation;
mod event;
pub mod format;
mod gauge;
#[cfg(test)]
mod hostile_tests;
mod json;
mod json_lines;
mod lines;
mod outlet;
mod output;
mod printable;
mod progress;
pub mod query;
mod rehearsal;
mod sink;

pub use check::{check_json, check_report};
pub use chosen::{Chosen, Tested, selection_json, tested_json};
pub use drill::{drill_json, drill_report};
pub use evaluation::{Evaluation, Score, evaluation_json, evaluation_text};
pub use event::{Best, Counts, Event, Fork};
pub use gauge::{Gauge, size};
pub use json::{json_number, number_from_json};
pub use json_lines::{event_json, left_out_json, params_json};
pub use outlet::Records;
pub use output::{Output, data, err, out};
pub use printable::{printable, printable_lines};
pub use rehearsal::{Rehearsal, point_line, rehearsal_json, rehearsal_text};
pub use sink::{Mode, Sink, sink, sink_to};
