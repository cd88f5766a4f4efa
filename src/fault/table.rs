//! What each kind of fault means, in one table: for the trial, for the process, and for people.

use serde::{Deserialize, Serialize};
use strum::{Display, IntoStaticStr};

use Process::{Continue, Drain, Probe, Restart};
use Scope::{Gpu, Machine, Study, Trial as OfTrial, Worker};
use Survival::{Alive, Lost, Unknown};
use Trial::{Again, Fail, Pruned, Suspect};

/// Whom a fault concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Scope {
    /// This trial only.
    Trial,
    /// The worker process and the context in it.
    Worker,
    /// The GPU, and every process on it.
    Gpu,
    /// The machine.
    Machine,
    /// The study: every trial would meet it.
    Study,
}

/// Whether the process's CUDA context can be used afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Survival {
    /// No: it is broken for good, or gone with its process.
    Lost,
    /// Yes.
    Alive,
    /// The text does not tell.
    Unknown,
}

/// What `tune` does with the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Process {
    /// It ends, if it has not; a fresh worker takes its slot.
    Restart,
    /// It is cleaned up, passes its health check and goes on.
    Continue,
    /// The health check decides.
    Probe,
    /// The slot gets no worker until the device is back.
    Drain,
}

/// What becomes of the trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Trial {
    /// It runs again; nothing is held against it.
    Again,
    /// It runs again in forensic mode, which decides whether it caused the fault.
    Suspect,
    /// It ends as PRUNED.
    Pruned,
    /// It ends as FAIL.
    Fail,
}

messages::table! {
    /// What ended an attempt otherwise than by its own result.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
    #[serde(rename_all = "snake_case")]
    #[strum(serialize_all = "snake_case")]
    pub enum FaultKind;

    /// One row: what follows from a kind.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Row {
        /// What happened.
        pub what: &'static str,
        /// Whom it concerns.
        pub scope: Scope,
        /// Whether the context survives it.
        pub context: Survival,
        /// What `tune` does with the process.
        pub process: Process,
        /// The trial, the first time.
        pub first: Trial,
        /// The trial, the second time.
        pub second: Trial,
        /// What a trial that ends as PRUNED by it is marked with; empty where none does.
        pub mark: &'static str,
        /// What people can do.
        pub advice: &'static str,
    }

    /// Also where the supervisor died, or the worker got SIGSTOP: nobody's fault.
    Interrupted("the run, the worker or the machine was stopped",
        Worker, Lost, Restart, Again, Again, "",
        "Nothing: start the same command again and the study goes on.");
    Killed("ended by a signal from outside, without evidence why; the third time on one trial prunes it",
        Worker, Lost, Restart, Again, Again, "killed three times",
        "Find out who sent the signal: a person, a batch system, or the kernel for want of memory (journalctl -k).");
    Poisoned("a CUDA error before the trial's first step: the context was broken already",
        Worker, Lost, Restart, Again, Again, "",
        "Look at the trial that this worker ran before: it is noted as a suspect.");
    CudaTransient("a CUDA error in training that leaves the context usable",
        OfTrial, Alive, Continue, Pruned, Pruned, "cuda_error",
        "Look at the call that failed. Three in a row replace the process.");
    /// No health check has been asked yet.
    CudaUnclear("a CUDA library failed, and the text does not tell whether the context survives",
        Worker, Unknown, Probe, Suspect, Pruned, "cuda_error",
        "Read upward for an earlier error. If the health check passes, the trial is pruned and the process goes on; if it fails, the trial is a suspect and a fresh worker takes over.");
    CudaSticky("a sticky CUDA error in training, or a failed health check after an error",
        Worker, Lost, Restart, Suspect, Pruned, "cuda_error",
        "Never go on in this process. The second attempt, with blocking launches, tells the kernel: `tune replay STUDY TRIAL --blocking` does the same on demand.");
    Crash("the process crashed (SIGABRT, SIGSEGV, SIGBUS, SIGILL) or exited unasked",
        Worker, Lost, Restart, Suspect, Pruned, "cuda_error",
        "Read the end of the attempt's log. Native code has failed: an extension, a library, or a destructor in a lost context.");
    Oom("out of GPU memory",
        Gpu, Alive, Continue, Again, Pruned, "oom",
        "Lower the batch size (and raise accumulation), the sequence length or --parallel.");
    HostOom("out of host memory, or killed by the kernel for it",
        Machine, Unknown, Restart, Again, Pruned, "oom",
        "Lower --parallel or the number of data-loader workers, or give the machine or container more memory.");
    Hang("no training step before the deadline",
        Worker, Unknown, Restart, Suspect, Pruned, "hang",
        "If steps are really that slow, set --deadline. Otherwise look for a lock, a lost peer, or a file system that does not answer.");
    TimeLimit("the attempt ran for longer than `--trial-limit`",
        OfTrial, Unknown, Restart, Pruned, Pruned, "time_limit",
        "Nothing, if the limit was meant: the trial keeps the last value that it reported. Otherwise raise --trial-limit.");
    Diverged("loss or logits are NaN or infinite",
        OfTrial, Alive, Continue, Pruned, Pruned, "diverged",
        "Lower the learning rate, clip gradients, check the data for non-finite values; with float16 check the loss scale.");
    TaskError("an error of the task's own code or data",
        OfTrial, Alive, Continue, Fail, Fail, "",
        "Mend what the message names; the device has no part in it. FAIL does not count towards the goal, and 20 in a row stop the run.");
    Descriptors("the process has no file descriptor left",
        Worker, Alive, Restart, Suspect, Fail, "",
        "Close what is opened, raise `ulimit -n`, or let data loaders share by file system (`set_sharing_strategy('file_system')`).");
    Protocol("the worker sent what is no message",
        Worker, Unknown, Restart, Suspect, Pruned, "cuda_error",
        "Read the attempt's log: native code has overwritten memory, or another program wrote to the worker's socket.");
    DeviceLost("the GPU, its driver or the way to it is gone",
        Gpu, Lost, Drain, Again, Again, "",
        "Look at nvidia-smi and the kernel's log (journalctl -k, lines with Xid or NVRM). Reset the GPU or restart the machine.");
    OpenFailed("the worker could not open the task; no trial was involved",
        Study, Alive, Restart, Again, Again, "",
        "`tune check TASK` shows what is missing.");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Tally, Verdict, cuda, judge};

    const PAGE: &str = include_str!("../../docs/faults.md");

    fn said(verdict: Verdict) -> Trial {
        match verdict {
            Verdict::Again { suspect: false } => Trial::Again,
            Verdict::Again { suspect: true } => Trial::Suspect,
            Verdict::Pruned(_) => Trial::Pruned,
            Verdict::Fail => Trial::Fail,
        }
    }

    #[test]
    fn the_verdicts_are_those_of_the_table() {
        for &kind in FaultKind::ALL {
            let row = kind.row();
            let mut tally = Tally::default();
            let first = judge(kind, &tally);
            tally.add(kind);
            let second = judge(kind, &tally);
            assert_eq!(said(first.verdict), row.first, "{kind:?}");
            assert_eq!(said(second.verdict), row.second, "{kind:?}");
            // Until a health check has spoken, a process is not given another trial.
            assert_eq!(first.replace, row.process != Process::Continue, "{kind:?}");
        }
    }

    /// Requires these rows of a table whose rows begin with `start`, in this order.
    fn documented(start: impl Fn(&str) -> bool, rows: &[String]) {
        let found: Vec<&str> = PAGE
            .lines()
            .filter(|l| l.starts_with("| ") && start(l))
            .collect();
        for (at, row) in rows.iter().enumerate() {
            let stands = found.get(at).copied().unwrap_or("no row");
            assert_eq!(stands, row, "docs/faults.md should have this row:\n{row}\n");
        }
        assert_eq!(found.len(), rows.len(), "docs/faults.md has a row too many");
    }

    #[test]
    fn the_documentation_has_every_kind_with_its_row() {
        let rows: Vec<String> = FaultKind::ALL
            .iter()
            .map(|&kind| {
                let row = kind.row();
                format!(
                    "| `{}` | {} | {} | {} | {} | {} | {} | {} |",
                    kind.word(),
                    row.what,
                    row.scope,
                    row.context,
                    row.process,
                    row.first,
                    row.second,
                    row.advice,
                )
            })
            .collect();
        documented(
            |l| l.starts_with("| `") && l.matches(" | ").count() == 7,
            &rows,
        );
    }

    #[test]
    fn the_documentation_has_every_cuda_error() {
        let rows: Vec<String> = cuda::ERRORS
            .iter()
            .map(|e| format!("| {} | `{}` | {} | {} |", e.code, e.name, e.text, e.context))
            .collect();
        documented(|l| l[2..].starts_with(|c: char| c.is_ascii_digit()), &rows);
    }
}
