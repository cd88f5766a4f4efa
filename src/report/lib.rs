//! What people and scripts see: the only module that writes to the terminal.

mod chosen;
mod event;
pub mod format;
mod gauge;
#[cfg(test)]
mod hostile_tests;
mod json_lines;
mod lines;
mod outlet;
mod output;
mod progress;
mod rehearsal;
mod sink;

pub use chosen::{Chosen, Tested, selection_json, selection_lines, tested_json, tested_lines};
pub use event::{Best, Counts, Event, Fork};
pub use format::param_lines;
pub use gauge::{Gauge, size};
pub use json_lines::{baseline_json, event_json, left_out_json, params_json};
pub use outlet::Records;
pub use output::{Output, data, err, out};
pub use rehearsal::{Rehearsal, point_line, rehearsal_json, rehearsal_text};
pub use sink::{Mode, Sink, sink, sink_to};
