//! The core while the database cannot be written.

#![allow(clippy::wildcard_enum_match_arm)]

use std::time::Duration;

use super::super::tests::{
    Disk, Driven, STOP, completed, core, epoch, exited, hello, received, spec, written,
};
use super::*;
use crate::{Action, Event};
use crate::{WorkerAction, WorkerEvent};
use fault::Death;
use protocol::{AttemptId, FromWorker, ToWorker};
use search::study::Purpose;
use store::Write;

/// A core, the time, and every action so far.
struct Run {
    core: Driven,
    now: Now,
    actions: Vec<Action>,
}

impl Run {
    /// A run of one slot whose trial 0 is in training.
    fn training() -> Run {
        let mut run = Run {
            core: core(spec(5, 1), &Disk::default()),
            now: Now::ZERO,
            actions: vec![],
        };
        run.on(Event::Ticked);
        run.on(Event::Worker(0, WorkerEvent::Spawned(7)));
        run.receive(hello());
        run.receive(FromWorker::Ready);
        run.on(written(0));
        assert_eq!(run.sent(), 1);
        run.actions.clear();
        run
    }

    fn on(&mut self, event: Event) {
        self.actions.extend(self.core.handle(event, self.now));
    }

    fn receive(&mut self, message: FromWorker) {
        self.on(received(0, message));
    }

    fn fail(&mut self, heals: bool) {
        self.on(Event::StorageFailed {
            error: "tune.db: the disk is full".into(),
            heals,
            spool: "s.jsonl".into(),
        });
    }

    /// Trial 0 ends with a value.
    fn end_trial(&mut self) {
        let attempt = AttemptId {
            number: 0,
            purpose: Purpose::Search,
            attempt: 0,
        };
        self.receive(epoch(attempt, 1, 0.5));
        self.receive(completed(attempt));
    }

    fn batches(&self) -> Vec<(u64, Vec<Write>)> {
        let batch = |a: &'_ Action| match a {
            Action::Write { batch, writes } => Some((*batch, writes.clone())),
            _ => None,
        };
        self.actions.iter().filter_map(batch).collect()
    }

    /// Attempts that were sent to the worker.
    fn sent(&self) -> usize {
        let run = |a: &&Action| matches!(a, Action::Worker(_, WorkerAction::Send(message)) if matches!(message, ToWorker::Run { .. }));
        self.actions.iter().filter(run).count()
    }

    fn warnings(&self) -> Vec<String> {
        let warned = |a: &'_ Action| match a {
            Action::Report(report::Event::Warned { message }) => Some(message.clone()),
            _ => None,
        };
        self.actions.iter().filter_map(warned).collect()
    }

    fn finish(&self) -> Option<(Exit, &str)> {
        self.actions.iter().find_map(|a| match a {
            Action::Finish { exit, reason } => Some((*exit, reason.as_str())),
            _ => None,
        })
    }

    /// The worker leaves after SIGTERM, and the last batches are kept in the spool.
    fn wind_down(&mut self) {
        assert!(
            self.actions
                .contains(&Action::Worker(0, WorkerAction::Terminate))
        );
        self.on(exited(0, Death::Signaled(15)));
        for _ in 0..3 {
            let waiting: Vec<u64> = self.batches().iter().map(|(batch, _)| *batch).collect();
            for batch in waiting {
                self.on(Event::Batch(batch, BatchEvent::Spooled));
            }
        }
    }
}

#[test]
fn a_running_trial_goes_on_and_nothing_is_started_until_the_database_is_back() {
    let mut run = Run::training();
    run.fail(true);
    run.end_trial();
    let batches = run.batches();
    assert_eq!(batches.len(), 1);
    assert!(matches!(
        batches[0].1[..],
        [Write::AttemptEnded { .. }, Write::TrialFinished { .. }]
    ));
    run.on(Event::Batch(1, BatchEvent::Spooled));
    run.now = Duration::from_secs(59);
    run.on(Event::Ticked);
    assert_eq!(run.batches().len(), 1);
    run.on(written(1));
    run.on(Event::StorageRecovered);
    let starts = run.batches().remove(1).1;
    assert!(matches!(starts[0], Write::TrialCreated { number: 1, .. }));
    run.on(written(2));
    assert_eq!(run.sent(), 1);
    let warnings = run.warnings();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].contains("the disk is full") && warnings[0].contains("s.jsonl"));
    assert!(warnings[1].contains("after 59 s") && warnings[1].contains("1 result"));
}

#[test]
fn when_patience_ends_the_run_ends_and_says_where_its_results_wait() {
    let mut run = Run::training();
    run.fail(true);
    run.end_trial();
    run.on(Event::Batch(1, BatchEvent::Spooled));
    assert_eq!(run.core.next_deadline(), Some(Duration::from_secs(60)));
    run.now = Duration::from_secs(60);
    run.on(Event::Ticked);
    run.wind_down();
    let (exit, reason) = run.finish().unwrap();
    assert_eq!(exit, Exit::Storage);
    for part in ["the disk is full", "s.jsonl", "1 result"] {
        assert!(reason.contains(part), "{reason}");
    }
    assert!(matches!(
        run.batches().last().unwrap().1[..],
        [Write::RunEnded { exit: 7 }]
    ));
}

#[test]
fn patience_never_ends_before_the_last_running_trial() {
    for heals in [true, false] {
        let mut run = Run::training();
        run.fail(heals);
        run.now = Duration::from_secs(90);
        run.on(Event::Ticked);
        assert!(
            !run.actions
                .contains(&Action::Worker(0, WorkerAction::Terminate))
        );
        let deadline = run.core.next_deadline().unwrap();
        assert!(deadline > run.now, "no hot loop: {deadline:?}");
        run.end_trial();
        run.wind_down();
        assert_eq!(run.finish().unwrap().0, Exit::Storage);
    }
}

#[test]
fn an_outage_that_does_not_pass_ends_an_idle_run_at_once() {
    let mut run = Run::training();
    run.end_trial();
    // The start of trial 1 is in the same batch, and was not made durable.
    run.fail(false);
    run.on(Event::Batch(1, BatchEvent::Spooled));
    run.wind_down();
    assert_eq!(run.sent(), 0);
    assert_eq!(run.finish().unwrap().0, Exit::Storage);
}

#[test]
fn a_signal_during_an_outage_ends_the_run_at_once_and_says_what_waits() {
    let mut run = Run::training();
    run.fail(true);
    run.end_trial();
    run.on(Event::Batch(1, BatchEvent::Spooled));
    run.on(STOP);
    run.wind_down();
    let (exit, reason) = run.finish().unwrap();
    assert_eq!(exit, Exit::Storage);
    assert!(reason.contains("signal") && reason.contains("1 result"));
}

#[test]
fn a_signal_during_an_outage_without_results_is_only_a_signal() {
    let mut run = Run::training();
    run.fail(true);
    run.on(STOP);
    run.on(STOP);
    run.wind_down();
    assert_eq!(run.finish().unwrap().0, Exit::Stopped);
}

#[test]
fn results_that_could_not_be_kept_anywhere_are_said_to_be_lost() {
    let mut run = Run::training();
    run.fail(false);
    run.end_trial();
    run.on(Event::Batch(
        1,
        BatchEvent::SpoolFailed("no space left".into()),
    ));
    run.on(exited(0, Death::Signaled(15)));
    run.on(Event::Batch(2, BatchEvent::Spooled));
    let (exit, reason) = run.finish().unwrap();
    assert_eq!(exit, Exit::Storage);
    assert!(reason.contains("no space left") && reason.contains("lost"));
    assert!(!reason.contains("waiting"), "{reason}");
}
