//! The training loop's line to the supervisor.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use serde_json::{Map, Value as Json};

use super::best::BestEpochWeights;
use super::budget::Budget;
use super::checkpoint::Checkpoints;
use super::inject::Injected;
use super::link::Link;
use super::log::Cap;
use protocol::{AttemptEvent, AttemptId, ToWorker};
use task::Epoch;
use task::{Checkpoint, Decision, Metrics, Reporter};

/// Steps are reported at most this often.
const EVERY: Duration = Duration::from_millis(100);

/// Reports one attempt over the link.
pub struct LiveReporter<'a> {
    link: &'a Link,
    inbox: &'a Receiver<ToWorker>,
    attempt: AttemptId,
    cap: Cap,
    checkpoints: Option<Checkpoints>,
    candidates: Option<BestEpochWeights>,
    injected: Option<Injected<'a>>,
    began: Instant,
    budget: Budget,
    /// The last epoch that the training is to go on after.
    last_epoch: u32,
    /// Everything reported that the supervisor wants to go on from.
    epochs: Vec<Epoch>,
    steps: u64,
    reported: Option<Instant>,
    /// When the log's size was last looked at for what was printed.
    capped: Option<Instant>,
    /// What could not be written, as far as the supervisor was told.
    not_written: Vec<&'static str>,
    told_to_leave: bool,
}

impl LiveReporter<'_> {
    /// A reporter for `attempt`, whose log `cap` keeps small; without `checkpoints` none are kept, and
    /// without `candidates` no weights. What is `injected` hits the training from within it.
    pub fn new<'a>(
        link: &'a Link,
        inbox: &'a Receiver<ToWorker>,
        attempt: AttemptId,
        cap: Cap,
        checkpoints: Option<Checkpoints>,
        candidates: Option<BestEpochWeights>,
        injected: Option<Injected<'a>>,
    ) -> LiveReporter<'a> {
        LiveReporter {
            link,
            inbox,
            attempt,
            cap,
            checkpoints,
            candidates,
            injected,
            began: Instant::now(),
            budget: Budget::default(),
            last_epoch: 0,
            epochs: Vec::new(),
            steps: 0,
            reported: None,
            capped: None,
            not_written: Vec::new(),
            told_to_leave: false,
        }
    }

    /// Says in the log, and the first time to the supervisor, what could not be written.
    fn not_written(&mut self, what: &'static str, error: &anyhow::Error) {
        let text = format!("{what} could not be kept: {error:#}");
        note(&text);
        if !self.not_written.contains(&what) {
            self.not_written.push(what);
            // Where the supervisor is gone, the reading thread ends the process.
            let _ = self.link.report(self.attempt, AttemptEvent::Warned(text));
        }
    }

    /// The training has come to its end.
    ///
    /// # Errors
    /// That of a fault that it was to have.
    pub fn trained(&mut self) -> anyhow::Result<()> {
        self.injected.as_mut().map_or(Ok(()), Injected::end)
    }

    /// Caps the log for the last time; says whether the supervisor ended the attempt.
    pub fn finish(mut self) -> bool {
        self.cap.check();
        self.told_to_leave
    }
}

impl Reporter for LiveReporter<'_> {
    fn step(&mut self) {
        self.steps += 1;
        if let Some(injected) = &mut self.injected {
            injected.step(self.steps);
        }
        if self.reported.is_some_and(|at| at.elapsed() < EVERY) {
            return;
        }
        self.reported = Some(Instant::now());
        // Where the supervisor is gone, the reading thread ends the process.
        let _ = self
            .link
            .report(self.attempt, AttemptEvent::Stepped(self.steps));
        self.cap.check();
    }

    fn plan(&mut self, steps: u64) {
        let _ = self.link.report(self.attempt, AttemptEvent::Planned(steps));
    }

    fn epoch(&mut self, epoch: u32, metrics: &Metrics) -> anyhow::Result<Decision> {
        self.injected.as_mut().map_or(Ok(()), Injected::raise)?;
        self.link.report(
            self.attempt,
            AttemptEvent::EpochFinished(Epoch {
                epoch,
                metrics: metrics.clone(),
            }),
        )?;
        match self.inbox.recv()? {
            ToWorker::Decided { prune: true } => Ok(Decision::Prune),
            ToWorker::Decided { prune: false } => {
                self.last_epoch = epoch;
                if self.checkpoints.is_some() {
                    let metrics = metrics.clone();
                    self.epochs.push(Epoch { epoch, metrics });
                }
                Ok(Decision::Continue)
            }
            ToWorker::Exit => {
                self.told_to_leave = true;
                anyhow::bail!("told to leave")
            }
            other @ (ToWorker::Open { .. } | ToWorker::Run { .. }) => {
                anyhow::bail!("expected the answer to epoch {epoch}, was told {other:?}")
            }
        }
    }

    fn resume(&mut self) -> anyhow::Result<Option<Checkpoint>> {
        let Some(checkpoints) = &self.checkpoints else {
            return Ok(None);
        };
        let Some((epochs, state)) = load(checkpoints) else {
            return Ok(None);
        };
        self.go_on_after(&epochs)?;
        Ok(Some(Checkpoint { epochs, state }))
    }

    fn warn(&mut self, what: &str) {
        let event = AttemptEvent::Warned(what.to_owned());
        let _ = self.link.report(self.attempt, event);
    }

    fn keeps_state(&mut self) {
        let _ = self.link.report(self.attempt, AttemptEvent::KeepsState);
    }

    fn directory(&self) -> Option<&Path> {
        Some(self.checkpoints.as_ref()?.directory())
    }

    fn go_on_after(&mut self, epochs: &[Epoch]) -> anyhow::Result<()> {
        self.link
            .report(self.attempt, AttemptEvent::Resumed(epochs.to_vec()))?;
        let last = epochs.last().map_or(0, |e| e.epoch);
        note(&format!("goes on after epoch {last}"));
        self.last_epoch = last;
        self.epochs = epochs.to_vec();
        if let Some(candidates) = &mut self.candidates {
            candidates.go_on_after(epochs);
        }
        Ok(())
    }

    fn printed(&mut self) {
        if self.capped.is_none_or(|at| at.elapsed() >= EVERY) {
            self.capped = Some(Instant::now());
            self.cap.check();
        }
    }

    fn keep(&mut self, write: &mut dyn FnMut(&mut dyn io::Write) -> anyhow::Result<()>) {
        let Some(checkpoints) = &self.checkpoints else {
            return;
        };
        if !self.budget.allows(self.began.elapsed()) {
            return;
        }
        let begun = Instant::now();
        let saved = checkpoints.save(&self.epochs, write);
        self.budget.spend(begun.elapsed());
        match (saved, &mut self.candidates) {
            (Ok(()), Some(candidates)) => candidates.checkpointed(self.last_epoch),
            (Ok(()), None) => {}
            (Err(error), _) => self.not_written("its checkpoint", &error),
        }
    }

    fn wants_weights(&self, value: f64) -> bool {
        let candidates = self.candidates.as_ref();
        candidates.is_some_and(|candidates| candidates.wants(value))
    }

    fn keep_best(
        &mut self,
        value: f64,
        about: &Map<String, Json>,
        write: &mut dyn FnMut(&mut dyn io::Write) -> anyhow::Result<()>,
    ) {
        if let Some(candidates) = &mut self.candidates
            && let Err(error) = candidates.offer(self.last_epoch, value, about, write)
        {
            self.not_written("its weights", &error);
        }
    }
}

/// The last checkpoint, if there is one that can be used.
fn load(checkpoints: &Checkpoints) -> Option<(Vec<Epoch>, File)> {
    checkpoints.load().unwrap_or_else(|error| {
        note(&format!("the checkpoint is not used: {error:#}"));
        None
    })
}

/// A line in the attempt's log.
fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
