//! What a fault means for the trial and for the process, beside the trial's earlier attempts.

use super::FaultKind;
use super::table::{Process, Trial};

/// Earlier faulty attempts of one trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Cut short: the run was stopped, or its machine.
    pub interrupted: u32,
    /// Killed without evidence.
    pub killed: u32,
    /// Times the trial was suspected (sticky or unclear error, crash, hang, garbage, descriptors).
    pub suspected: u32,
    /// Out of GPU memory.
    pub oom: u32,
    /// Out of host memory.
    pub host_oom: u32,
}

impl Tally {
    /// What counts the attempts that are judged together with one of this kind.
    fn counter(&mut self, kind: FaultKind) -> Option<&mut u32> {
        match kind {
            FaultKind::Killed => Some(&mut self.killed),
            FaultKind::CudaSticky
            | FaultKind::CudaUnclear
            | FaultKind::Crash
            | FaultKind::Hang
            | FaultKind::Descriptors
            | FaultKind::Protocol => Some(&mut self.suspected),
            FaultKind::Oom => Some(&mut self.oom),
            FaultKind::HostOom => Some(&mut self.host_oom),
            FaultKind::Interrupted => Some(&mut self.interrupted),
            FaultKind::Poisoned
            | FaultKind::CudaTransient
            | FaultKind::TimeLimit
            | FaultKind::Diverged
            | FaultKind::TaskError
            | FaultKind::DeviceLost
            | FaultKind::OpenFailed => None,
        }
    }

    /// Counts one more faulty attempt.
    pub fn add(&mut self, kind: FaultKind) {
        if let Some(count) = self.counter(kind) {
            *count += 1;
        }
    }

    /// Takes back an attempt that was counted: another cause of its end came out.
    pub fn forgive(&mut self, kind: FaultKind) {
        if let Some(count) = self.counter(kind) {
            *count = count.saturating_sub(1);
        }
    }

    /// How many attempts were counted together with those of this kind.
    fn earlier(mut self, kind: FaultKind) -> u32 {
        self.counter(kind).copied().unwrap_or(0)
    }

    /// Counts an attempt by the word that was stored for it; words of results count nothing.
    pub fn add_word(&mut self, word: &str) {
        if let Some(kind) = FaultKind::ALL.iter().find(|k| k.word() == word) {
            self.add(*kind);
        }
    }
}

/// What becomes of the trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The same trial again, attempt + 1.
    Again {
        /// It may have caused the fault: the next attempt decides.
        suspect: bool,
    },
    /// Ended as PRUNED, for this reason (an attribute of the contract where it has one).
    Pruned(&'static str),
    /// Ended as FAIL.
    Fail,
}

/// What becomes of trial and process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// The trial.
    pub verdict: Verdict,
    /// Whether the process, if it still lives, must be replaced.
    pub replace: bool,
}

/// What follows from a fault, by its row of the table. `tally` counts the trial's earlier attempts, this one
/// not included.
pub fn judge(kind: FaultKind, tally: &Tally) -> Outcome {
    let row = kind.row();
    let trial = match (kind, tally.earlier(kind)) {
        (FaultKind::Killed, 2..) => Trial::Pruned,
        (_, 0) => row.first,
        (_, 1..) => row.second,
    };
    Outcome {
        verdict: match trial {
            Trial::Again => Verdict::Again { suspect: false },
            Trial::Suspect => Verdict::Again { suspect: true },
            Trial::Pruned => Verdict::Pruned(row.mark),
            Trial::Fail => Verdict::Fail,
        },
        replace: row.process != Process::Continue,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Judges `kinds` one after the other, as attempts of one trial.
    fn sequence(kinds: &[FaultKind]) -> Vec<Verdict> {
        let mut tally = Tally::default();
        kinds
            .iter()
            .map(|&kind| {
                let outcome = judge(kind, &tally);
                tally.add(kind);
                outcome.verdict
            })
            .collect()
    }

    const AGAIN: Verdict = Verdict::Again { suspect: false };
    const SUSPECT: Verdict = Verdict::Again { suspect: true };

    #[test]
    fn a_trial_is_never_blamed_for_interruptions() {
        assert_eq!(sequence(&[FaultKind::Interrupted; 50]), [AGAIN; 50]);
        assert_eq!(sequence(&[FaultKind::Poisoned; 50]), [AGAIN; 50]);
    }

    #[test]
    fn the_third_kill_without_evidence_prunes() {
        assert_eq!(
            sequence(&[FaultKind::Killed; 3]),
            [AGAIN, AGAIN, Verdict::Pruned("killed three times")]
        );
    }

    #[test]
    fn a_suspect_gets_one_more_attempt() {
        assert_eq!(
            sequence(&[FaultKind::Crash, FaultKind::Killed, FaultKind::Hang]),
            [SUSPECT, AGAIN, Verdict::Pruned("hang")]
        );
        assert_eq!(
            sequence(&[FaultKind::CudaSticky, FaultKind::CudaSticky]),
            [SUSPECT, Verdict::Pruned("cuda_error")]
        );
        assert_eq!(
            sequence(&[FaultKind::Oom, FaultKind::Oom]),
            [AGAIN, Verdict::Pruned("oom")]
        );
    }

    #[test]
    fn errors_of_the_task_fail_at_once_and_spare_the_process() {
        assert_eq!(
            judge(FaultKind::TaskError, &Tally::default()),
            Outcome {
                verdict: Verdict::Fail,
                replace: false
            }
        );
    }

    #[test]
    fn what_is_forgiven_was_never_counted() {
        for &kind in FaultKind::ALL {
            let mut tally = Tally::default();
            tally.add(FaultKind::Hang);
            let before = tally;
            tally.add(kind);
            tally.forgive(kind);
            assert_eq!(tally, before, "{kind:?}");
        }
    }

    #[test]
    fn stored_words_rebuild_the_tally() {
        let mut by_kind = Tally::default();
        let mut by_word = Tally::default();
        for &kind in FaultKind::ALL {
            by_kind.add(kind);
            by_word.add_word(kind.word());
        }
        by_word.add_word("completed");
        assert_eq!(by_kind, by_word);
    }
}
