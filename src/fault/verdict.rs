//! What a fault means for the trial and for the process: the contract's table.

use super::FaultKind;

/// Earlier faulty attempts of one trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
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
    /// Counts one more faulty attempt.
    pub fn add(&mut self, kind: FaultKind) {
        match kind {
            FaultKind::Killed => self.killed += 1,
            FaultKind::CudaSticky
            | FaultKind::CudaUnclear
            | FaultKind::Crash
            | FaultKind::Hang
            | FaultKind::Descriptors
            | FaultKind::Protocol => self.suspected += 1,
            FaultKind::Oom => self.oom += 1,
            FaultKind::HostOom => self.host_oom += 1,
            FaultKind::Interrupted
            | FaultKind::Poisoned
            | FaultKind::CudaTransient
            | FaultKind::Diverged
            | FaultKind::TaskError
            | FaultKind::DeviceLost
            | FaultKind::OpenFailed => {}
        }
    }

    /// Takes back an attempt that was counted: another cause of its end came out.
    pub fn forgive(&mut self, kind: FaultKind) {
        let mut counted = Tally::default();
        counted.add(kind);
        self.killed = self.killed.saturating_sub(counted.killed);
        self.suspected = self.suspected.saturating_sub(counted.suspected);
        self.oom = self.oom.saturating_sub(counted.oom);
        self.host_oom = self.host_oom.saturating_sub(counted.host_oom);
    }

    /// Counts an attempt by the word that was stored for it; words of results count nothing.
    pub fn add_word(&mut self, word: &str) {
        if let Some(kind) = FaultKind::ALL.into_iter().find(|k| k.word() == word) {
            self.add(kind);
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

/// The contract's table. `tally` counts the trial's earlier attempts, this one not included.
pub fn judge(kind: FaultKind, tally: &Tally) -> Outcome {
    let again = Verdict::Again { suspect: false };
    let suspect_then = |pruned| match tally.suspected {
        0 => Verdict::Again { suspect: true },
        1.. => Verdict::Pruned(pruned),
    };
    let (verdict, replace) = match kind {
        FaultKind::Interrupted | FaultKind::Poisoned | FaultKind::DeviceLost => (again, true),
        FaultKind::OpenFailed => (again, true),
        FaultKind::Killed if tally.killed >= 2 => (Verdict::Pruned("killed three times"), true),
        FaultKind::Killed => (again, true),
        FaultKind::CudaTransient => (Verdict::Pruned("cuda_error"), false),
        FaultKind::CudaSticky | FaultKind::CudaUnclear | FaultKind::Crash | FaultKind::Protocol => {
            (suspect_then("cuda_error"), true)
        }
        // A leak may be the worker's own; a second fresh process that runs out as well clears it.
        FaultKind::Descriptors if tally.suspected > 0 => (Verdict::Fail, true),
        FaultKind::Descriptors => (Verdict::Again { suspect: true }, true),
        FaultKind::Hang => (suspect_then("hang"), true),
        FaultKind::Oom if tally.oom > 0 => (Verdict::Pruned("oom"), false),
        FaultKind::Oom => (again, false),
        FaultKind::HostOom if tally.host_oom > 0 => (Verdict::Pruned("oom"), true),
        FaultKind::HostOom => (again, true),
        FaultKind::Diverged => (Verdict::Pruned("diverged"), false),
        FaultKind::TaskError => (Verdict::Fail, false),
    };
    Outcome { verdict, replace }
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
        for kind in FaultKind::ALL {
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
        for kind in FaultKind::ALL {
            by_kind.add(kind);
            by_word.add_word(kind.word());
        }
        by_word.add_word("completed");
        assert_eq!(by_kind, by_word);
    }
}
