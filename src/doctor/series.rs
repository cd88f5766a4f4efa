//! The runs under one set of settings.

use serde::Serialize;
use strum::Display;

use crate::signature::Signature;
use crate::statistics::Rate;

/// How the runs under one setting came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Display)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It no longer fails, which so many runs show at 95 %.
    #[strum(serialize = "cleared at 95 %")]
    Cleared,
    /// It still fails.
    #[strum(serialize = "still fails")]
    Fails,
    /// It failed now and then, and now fails each time.
    #[strum(serialize = "now fails each time")]
    Always,
    /// It fails otherwise.
    #[strum(serialize = "another fault")]
    Other,
    /// It did not fail, which too few runs show.
    #[strum(serialize = "too rare to say within the budget")]
    TooRare,
    /// It did not come as far as the runs that failed.
    #[strum(serialize = "too slow to say within the budget")]
    TooSlow,
    /// There was nothing that it would have changed.
    #[strum(serialize = "nothing to change")]
    NotApplied,
}

/// The runs under one set of settings.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Series {
    /// How often the failure came.
    pub runs: Rate,
    /// A run did not come as far as those that failed.
    pub behind: bool,
    /// A failure that is another one.
    pub other: Option<Signature>,
    /// The start-up module said that it had changed something.
    pub applied: bool,
}
