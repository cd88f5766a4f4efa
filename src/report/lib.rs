//! What people and scripts see: the only module that writes to the terminal.

mod about;
mod chosen;
mod event;
mod failures;
mod fork;
pub mod format;
#[cfg(test)]
mod hostile_tests;
mod json_lines;
mod lines;
mod logged;
mod narrator;
mod outlet;
mod output;
mod progress;
mod progress_bar;
mod rehearsal;
mod routine;
mod sink;
mod terminal;
mod trial_rate;

pub use about::{About, shell_line, shell_word};
pub use chosen::{Chosen, Naive, Selected, Tested};
pub use event::{Best, Counts, Event, Fault, event_json};
pub use event::{
    RepeatFinished, RunFinished, RunStarted, SearchEnded, SlotGivenUp, StopRequested, TrialFinished,
};
pub use failures::{FAILURE_ATTRS, TOLD, failure, failure_lines, no_value};
pub use fork::Fork;
pub use format::param_lines;
pub use json_lines::left_out_json;
pub use logged::Logged;
pub use outlet::{KeptBack, Records};
pub use output::{Output, data, err, out, wait_while_read};
pub use progress_bar::{ProgressBar, size};
pub use rehearsal::{Rehearsal, point_line, rehearsal_json, rehearsal_text};
pub use routine::routine_text;
pub use sink::{Mode, Sink, sink, sink_to};
pub use terminal::{Screen, columns, for_terminal};
pub use trial_rate::TrialRate;
