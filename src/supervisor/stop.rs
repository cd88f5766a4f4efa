//! Asking the process that works on a study to stop, from another one.

use std::time::Duration;

use jiff::Timestamp;
use nix::sys::signal::Signal;

use super::study_lock::{LockOwner, StopNote, Stopping, StudyLock, lock_owner};
use messages::exit::{Exit, Failure};
use messages::printable;
use process::other;
use report::{Event, Sink};
use store::{Place, StudySummary};

/// By so much the times that are compared may differ.
const SLACK: Duration = Duration::from_secs(2);

/// Whether the owner of a lock does nothing until it is told to go on: Ctrl-Z on its terminal, or SIGSTOP.
pub fn suspended(owner: &LockOwner) -> bool {
    owner.is_here() && is_old_enough(owner) && other::suspended(owner.pid)
}

/// Asks the owner of a study's lock to stop, as the first Ctrl-C on its terminal does; `now`: as the second one does.
/// Whoever has got its process id meanwhile is not hit. One that is suspended goes on: it could not stop else. Whether
/// it was is told.
///
/// # Errors
/// The process is not to be reached from here: of another user, or on another host or in another container (6).
pub fn ask_to_stop(
    storage: &Place,
    study: &StudySummary,
    owner: &LockOwner,
    now: bool,
) -> Result<bool, Failure> {
    if !owner.is_here() {
        let why = "the process id is another host's; give the same command there";
        return Err(out_of_reach(study, owner, why));
    }
    let signal = if now { Signal::SIGQUIT } else { Signal::SIGINT };
    let was_suspended = suspended(owner);
    let is_owner = || {
        let still = lock_owner(storage, study).is_some_and(|now| now.is_same(owner));
        still && is_old_enough(owner)
    };
    let sent = other::send(owner.pid, signal, is_owner);
    let sent = match (sent, was_suspended) {
        (Ok(true), true) => other::send(owner.pid, Signal::SIGCONT, is_owner),
        (sent, _) => sent,
    };
    let why = match sent {
        Ok(true) => return Ok(was_suspended),
        // It has ended by itself.
        Ok(false) if lock_owner(storage, study).is_none() => return Ok(was_suspended),
        Ok(false) => "no process with this id has lived that long here".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(out_of_reach(study, owner, &why))
}

fn out_of_reach(study: &StudySummary, owner: &LockOwner, why: &str) -> Failure {
    let LockOwner {
        pid, host, since, ..
    } = owner;
    Failure::new(
        Exit::Held,
        format!(
            "{} is run by process {pid} on {host} since {since}, which cannot be stopped from here: {why}",
            printable(&study.name)
        ),
    )
}

/// Whether the process with the owner's id can be the owner.
fn is_old_enough(owner: &LockOwner) -> bool {
    let since = owner.since.parse::<Timestamp>();
    let held = since.map(|since| messages::clock::now().duration_since(since));
    let held = held.ok().and_then(|held| Duration::try_from(held).ok());
    other::age(owner.pid).is_some_and(|age| long_enough(age, held))
}

/// Notes for others that the run stops, where they look who holds the study, and shows events as another sink does.
pub(super) struct Noted {
    note: StopNote,
    shown: Box<dyn Sink>,
}

impl Noted {
    /// # Errors
    /// There is no descriptor left (1).
    pub(super) fn around(
        lock: &StudyLock,
        owner: &LockOwner,
        shown: Box<dyn Sink>,
    ) -> Result<Box<dyn Sink>, Failure> {
        let note = lock.note(owner).map_err(|e| {
            Failure::internal(format!("the study's lock file cannot be opened again: {e}"))
        })?;
        Ok(Box::new(Noted { note, shown }))
    }
}

impl Sink for Noted {
    fn handle(&mut self, event: &Event, time: Timestamp) {
        if let Event::StopRequested(stop) = event {
            let most = Duration::try_from_secs_f64(stop.most_s).unwrap_or(Duration::MAX);
            let until = time.saturating_add(most).unwrap_or(Timestamp::MAX);
            let stopping = Stopping {
                waits_for: stop.waits_for.len(),
                until: until.to_string(),
            };
            if let Err(error) = self.note.write(stopping) {
                tracing::warn!(%error, "that the run stops could not be noted for others");
            }
        }
        self.shown.handle(event, time);
    }
}

/// Whether a process that has lived so long can have held a lock for so long. Another container has other process ids.
fn long_enough(age: Duration, held: Option<Duration>) -> bool {
    held.is_none_or(|held| age + SLACK >= held)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process id means something on its own host only: this test's own process would be hit.
    #[test]
    fn a_process_of_another_host_is_not_asked() {
        let mut owner = LockOwner::this_process();
        assert!(owner.is_here());
        owner.host += "-2";
        let study = StudySummary {
            study_id: 1,
            name: "s".into(),
            directions: vec![],
            counts: store::Counts::default(),
            user_attrs: serde_json::Map::new(),
            last_activity: None,
        };
        let refused = ask_to_stop(&"none.db".into(), &study, &owner, false).unwrap_err();
        assert_eq!(refused.exit, Exit::Held);
        assert!(refused.message.contains("another host's"), "{refused}");
    }

    #[test]
    fn a_process_that_is_younger_than_the_lock_is_another_one() {
        let seconds = Duration::from_secs;
        assert!(long_enough(seconds(100), Some(seconds(90))));
        assert!(
            long_enough(seconds(89), Some(seconds(90))),
            "clocks differ a little"
        );
        assert!(!long_enough(seconds(50), Some(seconds(90))));
        assert!(long_enough(seconds(0), None));
    }
}
