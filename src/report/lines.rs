//! Plain text: the narrator's lines as they come.

use std::io;

use jiff::Timestamp;

use super::narrator::Narrator;
use super::outlet::{Outlet, Worth};
use super::output::Output;
use super::sink::Sink;
use super::{About, Event};

/// Characters of a finished trial's line where it is not for a terminal.
pub(super) const WIDTH: usize = 160;

/// Writes the narrator's lines as they come.
pub(super) struct Lines {
    narrator: Narrator,
    outlet: Outlet,
}

impl Lines {
    pub(super) fn new(about: &About, output: Output) -> io::Result<Lines> {
        Ok(Lines {
            narrator: Narrator::new(about, || WIDTH),
            outlet: Outlet::new(output, None, left_out(about))?,
        })
    }
}

/// The line that says how many lines are missing.
pub(super) fn left_out(about: &About) -> impl Fn(u64) -> String + Send + use<> {
    let trials = about.command("trials");
    move |n| {
        format!(
            "{} warning: {} left out: nobody read them in time (`{trials}` has every result)",
            messages::clock::now().strftime("%H:%M:%SZ"),
            match n {
                1 => "1 line was".to_owned(),
                n => format!("{n} lines were"),
            }
        )
    }
}

impl Sink for Lines {
    fn handle(&mut self, event: &Event, time: Timestamp) {
        let lines = self.narrator.lines(event, time);
        self.outlet.lines(&lines, Worth::Lasting);
    }
}
