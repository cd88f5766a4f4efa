//! Waiting for a hub, but not for ever. The client has no time-outs and takes none: where a hub accepts
//! a connection and stays silent, or stops in the middle of a file, its calls do not return. So each of
//! them has a thread of its own, which is left behind with what it waits for when nothing was heard of
//! it for too long; the command is at its end then.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use hf_hub::api::Progress;
use hf_hub::api::sync::ApiError;

/// What comes of a call before its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// A download begins, of so many bytes.
    Started(u64),
    /// So many bytes more are there.
    Advanced(u64),
}

/// Why there is no answer.
#[derive(Debug)]
pub enum Unanswered {
    /// The client says why.
    Failed(ApiError),
    /// Nothing came for this long.
    Silent(Duration),
    /// The client is gone: it panicked.
    Lost,
}

enum Heard<T> {
    Sign(Sign),
    Answer(Result<T, ApiError>),
}

/// What a call tells of its download.
pub struct Signs(Box<dyn Fn(Sign) + Send>, bool);

/// The answer to `call`, or why there is none after a silence of `patience`. `told` hears the signs of
/// a download.
pub fn within<T: Send + 'static>(
    patience: Duration,
    told: &mut dyn FnMut(Sign),
    call: impl FnOnce(Signs) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, Unanswered> {
    let (speak, hear) = mpsc::channel();
    let signs = signs(speak.clone());
    let spawned = thread::Builder::new()
        .name("hub".to_owned())
        .spawn(move || {
            // Nobody hears it any more where it comes too late.
            let _ = speak.send(Heard::Answer(call(signs)));
        });
    spawned.map_err(|e| Unanswered::Failed(ApiError::IoError(e)))?;
    loop {
        match hear.recv_timeout(patience) {
            Ok(Heard::Sign(sign)) => told(sign),
            Ok(Heard::Answer(answer)) => return answer.map_err(Unanswered::Failed),
            Err(RecvTimeoutError::Timeout) => return Err(Unanswered::Silent(patience)),
            Err(RecvTimeoutError::Disconnected) => return Err(Unanswered::Lost),
        }
    }
}

fn signs<T: Send + 'static>(speak: Sender<Heard<T>>) -> Signs {
    let send = move |sign| {
        let _ = speak.send(Heard::Sign(sign));
    };
    Signs(Box::new(send), false)
}

impl Progress for Signs {
    fn init(&mut self, size: usize, _filename: &str) {
        // It says so twice, once before the connection is made.
        if self.1 {
            (self.0)(Sign::Started(size as u64));
        }
        self.1 = true;
    }

    fn update(&mut self, size: usize) {
        (self.0)(Sign::Advanced(size as u64));
    }

    fn finish(&mut self) {}
}
