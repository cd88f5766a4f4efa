//! The training loop's line to the supervisor.

use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use super::link::Link;
use super::log::Cap;
use crate::protocol::{AttemptId, FromWorker, ToWorker};
use crate::task::{Decision, Metrics, Reporter};

/// Steps are reported at most this often.
const EVERY: Duration = Duration::from_millis(100);

/// Reports one attempt over the link.
pub struct LiveReporter<'a> {
    link: &'a Link,
    inbox: &'a Receiver<ToWorker>,
    attempt: AttemptId,
    cap: Cap,
    steps: u64,
    reported: Option<Instant>,
    told_to_leave: bool,
}

impl LiveReporter<'_> {
    /// A reporter for `attempt`, whose log `cap` keeps small.
    pub fn new<'a>(
        link: &'a Link,
        inbox: &'a Receiver<ToWorker>,
        attempt: AttemptId,
        cap: Cap,
    ) -> LiveReporter<'a> {
        LiveReporter {
            link,
            inbox,
            attempt,
            cap,
            steps: 0,
            reported: None,
            told_to_leave: false,
        }
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
        if self.reported.is_some_and(|at| at.elapsed() < EVERY) {
            return;
        }
        self.reported = Some(Instant::now());
        // Where the supervisor is gone, the reading thread ends the process.
        let _ = self.link.send(&FromWorker::Stepped {
            attempt: self.attempt,
            steps: self.steps,
        });
        self.cap.check();
    }

    fn epoch(&mut self, epoch: u32, metrics: &Metrics) -> anyhow::Result<Decision> {
        self.link.send(&FromWorker::EpochFinished {
            attempt: self.attempt,
            epoch,
            metrics: metrics.clone(),
        })?;
        match self.inbox.recv()? {
            ToWorker::Decided { prune: true } => Ok(Decision::Prune),
            ToWorker::Decided { prune: false } => Ok(Decision::Continue),
            ToWorker::Exit => {
                self.told_to_leave = true;
                anyhow::bail!("told to leave")
            }
            other @ (ToWorker::Open { .. } | ToWorker::Run { .. }) => {
                anyhow::bail!("expected the answer to epoch {epoch}, was told {other:?}")
            }
        }
    }
}
