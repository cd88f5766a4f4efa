//! Mistakes of a training that raise no error, as the start-up module notes them (`startup/_tune_doctor/silent.py`).

use std::fmt;

use serde::Deserialize;
use strum::Display;

/// A mistake of a training that raises no error.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct SilentError {
    /// What it is.
    pub kind: SilentKind,
    /// The program's own line: the operation, or the optimiser's step.
    pub line: Option<String>,
    /// What it is about, in words: numbers, or a name.
    #[serde(default)]
    pub told: Option<String>,
}

/// What goes wrong without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Display)]
#[serde(rename_all = "snake_case")]
pub enum SilentKind {
    /// Broadcasting makes the shapes fit.
    #[strum(
        to_string = "results of shape [n, 1] meet targets of shape [n], so that each is compared with each"
    )]
    Crossed,
    /// Softmax or sigmoid twice.
    #[strum(to_string = "a loss of logits is given the result of a softmax or a sigmoid")]
    ProbabilitiesAsLogits,
    /// No `zero_grad`.
    #[strum(to_string = "gradients of earlier steps are never cleared")]
    GradientsKept,
    /// No `backward`, or parameters of another network.
    #[strum(to_string = "no parameter of the optimizer has a gradient")]
    NoGradients,
    /// Steps that change nothing.
    #[strum(to_string = "the learning rate is 0")]
    RateOfZero,
    /// Steps that are rounded away.
    #[strum(
        to_string = "steps of the optimizer change no weight: they are less than 16-bit floats can tell apart"
    )]
    UpdatesLost,
    /// Rows that have lost their targets, or rows beyond them.
    #[strum(
        to_string = "zip leaves out what is longer in one than in the other, and pairs may not belong together"
    )]
    LengthsDiffer,
    /// Points in time, for one.
    #[strum(to_string = "32-bit floats round large numbers that differ little from each other")]
    Rounded,
    /// Each has a copy of the dataset as it was.
    #[strum(
        to_string = "what is set on the dataset does not reach the loader's persistent workers"
    )]
    WorkersStale,
    /// By who has put it there, for the next one.
    #[strum(to_string = "a tensor in a queue is written over before it is taken out")]
    Overwritten,
    /// Averages of its weights that nothing is written to.
    #[strum(
        to_string = "a copy of the trained network is evaluated that never changes, though the network is trained on"
    )]
    CopyStale,
    /// Each changes the result, again and again.
    #[strum(
        to_string = "forward hooks of a module are registered again and again, and never removed"
    )]
    HooksKept,
    /// Beyond 255.
    #[strum(to_string = "a sum of 8-bit integers (uint8) is beyond 255 and begins at 0 again")]
    Wrapped,
    /// As `type=bool` does.
    #[strum(to_string = "an option of the type bool is given a text that means no, and is true")]
    NoIsTrue,
    /// Names of classes, for one.
    #[strum(
        to_string = "the items of a set are numbered, whose order is another one in each process and run"
    )]
    NumberedSet,
    /// With what it does.
    #[strum(to_string = "PYTHONOPTIMIZE or -O leaves out an assert that calls a function")]
    AssertSkipped,
    /// A sign, a factor; or a gradient that is reversed or passed through on purpose.
    #[strum(
        to_string = "backward() of a function of one's own does not give the slope of its forward()"
    )]
    WrongGradient,
    /// No `eval`.
    #[strum(
        to_string = "a network computes without gradients in training mode, with dropout or batch normalisation on"
    )]
    TrainingMode,
}

impl SilentKind {
    /// Whether it is often meant so: worth a word where nothing else is wrong, and not the likely cause of a failure.
    pub fn is_doubtful(self) -> bool {
        match self {
            SilentKind::Crossed
            | SilentKind::ProbabilitiesAsLogits
            | SilentKind::GradientsKept
            | SilentKind::NoGradients
            | SilentKind::RateOfZero
            | SilentKind::UpdatesLost
            | SilentKind::LengthsDiffer
            | SilentKind::Rounded
            | SilentKind::WorkersStale
            | SilentKind::Overwritten
            | SilentKind::CopyStale
            | SilentKind::HooksKept
            | SilentKind::Wrapped
            | SilentKind::NoIsTrue => false,
            SilentKind::NumberedSet
            | SilentKind::AssertSkipped
            | SilentKind::WrongGradient
            | SilentKind::TrainingMode => true,
        }
    }

    /// What to do.
    pub fn remedy(self) -> &'static str {
        match self {
            SilentKind::Crossed => {
                "Give results and targets one shape: results.squeeze(1), or targets.unsqueeze(1)."
            }
            SilentKind::ProbabilitiesAsLogits => {
                "Give the loss what the last layer computes, without softmax or sigmoid."
            }
            SilentKind::GradientsKept => "Call optimizer.zero_grad() before each backward().",
            SilentKind::NoGradients => {
                "Give the optimizer the parameters of the network that is trained, and call loss.backward() before its step()."
            }
            SilentKind::RateOfZero => {
                "Give the optimizer a learning rate above 0; a schedule may have set it."
            }
            SilentKind::UpdatesLost => {
                "Keep the weights in 32 bits and compute in 16 (torch.autocast), or raise the learning rate."
            }
            SilentKind::LengthsDiffer => {
                "Find out why they differ, such as rows that a reader merges or skips; zip(..., strict=True) raises an error."
            }
            SilentKind::Rounded => {
                "Compute in float64 what is made of them, or subtract the smallest, and convert the result."
            }
            SilentKind::WorkersStale => {
                "Make the loader without persistent_workers, or share the setting (torch.Tensor.share_memory_, multiprocessing.Value)."
            }
            SilentKind::Overwritten => "Put a copy into the queue (tensor.clone()).",
            SilentKind::CopyStale => {
                "Write to the copy's weights in place (p.mul_(d).add_(w, alpha=1 - d), or copy_): `p = ...` gives a new tensor a name."
            }
            SilentKind::HooksKept => {
                "Keep what register_forward_hook() gives, and call its remove() once the hook has done its work."
            }
            SilentKind::Wrapped => {
                "Convert before adding: frames.float(), or sum(dtype=torch.int64)."
            }
            SilentKind::NoIsTrue => {
                "Any text but the empty one is true: use action=argparse.BooleanOptionalAction (--name, --no-name), or compare the text."
            }
            SilentKind::NumberedSet => "Number sorted(...) of the set.",
            SilentKind::AssertSkipped => {
                "Call the function outside of the assert, or run without PYTHONOPTIMIZE and -O."
            }
            SilentKind::WrongGradient => {
                "Check it with torch.autograd.gradcheck in float64. One that is reversed or passed through on purpose is right as it is."
            }
            SilentKind::TrainingMode => {
                "Call model.eval() before scoring, and model.train() after."
            }
        }
    }
}

impl fmt::Display for SilentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if let Some(told) = &self.told {
            write!(f, " ({told})")?;
        }
        match &self.line {
            Some(line) => write!(f, ", at {line}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_told_with_its_line_where_it_has_one() {
        let told = |note: &str| {
            serde_json::from_str::<SilentError>(note)
                .unwrap()
                .to_string()
        };
        assert_eq!(
            told(r#"{"what": "silent", "kind": "rate_of_zero", "line": "a.py:3 in fit"}"#),
            "the learning rate is 0, at a.py:3 in fit"
        );
        assert_eq!(
            told(r#"{"what": "silent", "kind": "overwritten", "line": "a.py:3", "told": "x"}"#),
            "a tensor in a queue is written over before it is taken out (x), at a.py:3"
        );
        assert_eq!(
            told(r#"{"what": "silent", "kind": "gradients_kept", "line": null}"#),
            "gradients of earlier steps are never cleared"
        );
    }
}
