//! What supervisor and worker say to each other: JSON messages over a socket that keeps packet
//! boundaries, versioned by a hello. Never stdout: CUDA and libraries print there.

mod codec;
mod environment;

pub use codec::{Assembler, CodecError, MAX_PACKET, packets};
pub use environment::{ALONE, EXPANDABLE, NEEDS_LIBTORCH};

use serde::{Deserialize, Serialize};

use config::StudySpec;
use device::Device;
use fault::ErrorReport;
use memory::Usage;
use task::{Ended, Epoch, TrialSpec};

pub use search::study::AttemptId;

/// Version of this protocol; supervisor and worker are of one build, so a difference means that files
/// were replaced under a running study.
pub const VERSION: u32 = 10;

/// From the supervisor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToWorker {
    /// The answer to a hello: open the task.
    Open {
        /// The study.
        spec: Box<StudySpec>,
        /// The device to train on.
        device: Device,
        /// The worker is a spare one: it rehearses before it is ready, and may take so many bytes of
        /// its GPU for that, its context included.
        #[serde(default)]
        rehearse: Option<u64>,
    },
    /// Run an attempt.
    Run {
        /// What to train.
        trial: Box<TrialSpec>,
        /// Absolute path of the attempt's log; stdout and stderr go there.
        log: String,
        /// The log is cut at this size, in bytes.
        max_log_bytes: u64,
        /// Absolute path of the trial's checkpoint directory; `None`: none is kept.
        checkpoint: Option<String>,
        /// Where the weights of its best epoch go; `None`: they are not kept.
        #[serde(default)]
        keep_best: Option<KeepBest>,
        /// What the process may take of its GPU's memory, in bytes, its context included; `None`:
        /// everything.
        #[serde(default)]
        grant: Option<u64>,
    },
    /// The answer to [`AttemptEvent::EpochFinished`].
    Decided {
        /// Whether the pruner ends the trial.
        prune: bool,
    },
    /// Leave in peace.
    Exit,
}

/// Which weights of an attempt are kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeepBest {
    /// Absolute path of the directory in which they get one of their own.
    pub directory: String,
    /// Those of an epoch whose value of the objective is better than this; `None`: of any.
    pub better_than: Option<f64>,
}

/// From a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromWorker {
    /// First message.
    Hello {
        /// [`VERSION`].
        protocol: u32,
        /// `tune`'s version.
        version: String,
    },
    /// The device is open; before [`FromWorker::Ready`], from workers that compute on a GPU.
    DeviceOpened {
        /// Its memory in all, in bytes.
        capacity: u64,
        /// What this process takes of it before any tensor is made, in bytes.
        context: Option<u64>,
    },
    /// The device's first allocation failed in a way that speaks against expandable segments, which
    /// nobody but the supervisor has asked for. The worker waits to be told to leave.
    NotExpandable {
        /// The error.
        error: String,
    },
    /// The task is open; waiting for attempts.
    Ready,
    /// What becomes of an attempt.
    Attempt(AttemptId, AttemptEvent),
    /// Why the process leaves by itself: its last message.
    Fatal(ErrorReport),
}

/// What becomes of an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptEvent {
    /// A sign of life: so many training steps have been done in this attempt.
    Stepped(u64),
    /// So many training steps the whole training takes, unless something ends it early.
    Planned(u64),
    /// An epoch was finished; the worker waits for the decision.
    EpochFinished(Epoch),
    /// The attempt goes on from a checkpoint that an earlier attempt kept: what that one had
    /// reported until then, in order.
    Resumed(Vec<Epoch>),
    /// The program that is run keeps something in its directory for checkpoints: another attempt may go on from it.
    KeepsState,
    /// Something that whoever looks at the run should know of the attempt, though its training goes on: weights or a
    /// checkpoint that could not be written, and why; values that do not count. An attempt says each once.
    Warned(String),
    /// What the attempt used of memory; sent before `Ended` and `Failed`, and before
    /// [`FromWorker::Fatal`] where the process can still tell.
    Measured(Usage),
    /// The training came to its end by itself; the worker is ready for the next attempt.
    Ended(Ended),
    /// The attempt failed; the worker passed its health check and is ready for the next one.
    Failed(ErrorReport),
}

#[cfg(test)]
mod tests {
    use super::*;
    use search::study::Purpose;
    use task::Metrics;

    #[test]
    fn non_finite_metrics_survive_the_wire() {
        let message = FromWorker::Attempt(
            AttemptId {
                number: 3,
                purpose: Purpose::Repeat(2),
                attempt: 1,
            },
            AttemptEvent::EpochFinished(Epoch {
                epoch: 2,
                metrics: Metrics::from([
                    ("a".into(), f64::NEG_INFINITY),
                    ("b".into(), 0.1),
                    ("c".into(), f64::INFINITY),
                ]),
            }),
        );
        let text = serde_json::to_string(&message).unwrap();
        assert_eq!(serde_json::from_str::<FromWorker>(&text).unwrap(), message);
    }
}
