//! A run's log has what people are told, too: its terminal may be gone.

use jiff::Timestamp;

use super::lines::WIDTH;
use super::narrator::Narrator;
use super::{About, Event, Sink};

/// Notes the narrator's lines, and shows events as another sink does.
pub struct Logged {
    narrator: Narrator,
    note: fn(&str),
    shown: Box<dyn Sink>,
}

impl Logged {
    /// `note` gets each line, without a time.
    pub fn new(about: &About, note: fn(&str), shown: Box<dyn Sink>) -> Logged {
        Logged {
            narrator: Narrator::new(about, || WIDTH),
            note,
            shown,
        }
    }
}

impl Sink for Logged {
    fn handle(&mut self, event: &Event, time: Timestamp) {
        for line in self.narrator.untimed(event, time) {
            (self.note)(&line);
        }
        self.shown.handle(event, time);
    }
}
