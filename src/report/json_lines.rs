//! `--json` of a run: one event a line, as the contract has it.

use std::io;

use jiff::Timestamp;
use serde_json::{Value as Json, json};

use super::event::event_json;
use super::outlet::{Outlet, Worth};
use super::output::Output;
use super::sink::Sink;
use super::{About, Event};

/// Writes one JSON object a line, flushed.
pub(super) struct JsonLines {
    study: String,
    outlet: Outlet,
}

impl JsonLines {
    pub(super) fn new(about: &About, output: Output) -> io::Result<JsonLines> {
        let study = about.study.clone();
        let name = study.clone();
        let left_out = move |n| left_out_json(n, messages::clock::now(), &name).to_string();
        let outlet = Outlet::new(output, None, left_out)?;
        Ok(JsonLines { study, outlet })
    }
}

/// What stands in the place of lines that nobody read in time.
pub fn left_out_json(lines: u64, time: Timestamp, study: &str) -> Json {
    json!({ "event": "lines_left_out", "time": time.to_string(), "study": study, "lines": lines })
}

impl Sink for JsonLines {
    fn handle(&mut self, event: &Event, time: Timestamp) {
        let worth = match event.is_routine() {
            true => Worth::Routine,
            false => Worth::Lasting,
        };
        if let Some(object) = event_json(event, time, &self.study) {
            self.outlet.lines(&[object.to_string()], worth);
        }
    }
}
