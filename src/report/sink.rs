//! Where events go.
/// A consumer of events.
pub trait Sink: Send {
    /// Takes an event.
    fn handle(&mut self, event: &super::Event, time: jiff::Timestamp);
}
