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
}

impl SilentKind {
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
        }
    }
}

impl fmt::Display for SilentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
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
            told(r#"{"what": "silent", "kind": "gradients_kept", "line": null}"#),
            "gradients of earlier steps are never cleared"
        );
    }
}
