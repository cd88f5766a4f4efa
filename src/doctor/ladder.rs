//! The parts of a task, one above the other: which there are, what each needs, and what the end of one means. Each is
//! tried in a process of its own, so that its crash is a result.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::Outcome;
use fault::Death;

mod step;

pub use step::{Step, judge};

/// What is known of a task before its parts are tried.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskFacts {
    /// It reads labelled rows and trains a model on them.
    pub learns: bool,
    /// The parts of its model that can be tried alone, in the order of the way back.
    pub parts: Vec<String>,
    /// The losses that a trial may have.
    pub losses: Vec<String>,
    /// Whether libtorch computes in its workers.
    pub computes: bool,
    /// Threads of the loader in the second try; at least 1.
    pub threads: usize,
}

/// A rung.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rung {
    /// The device is found, the libraries load, and the device answers.
    Environment,
    /// Constants and sequences are written and read back.
    Fill,
    /// A product of matrices and its gradients against the CPU's.
    MatrixProduct,
    /// A convolution, there and back, and a transposed one, against the CPU's.
    Convolution,
    /// Patterns in the memory, and its bandwidth.
    Memory,
    /// The first memory where the allocator maps pages into segments that grow.
    ExpandableSegments,
    /// The basic operations where each tensor is an allocation of the driver's.
    Uncached,
    /// All rows and checkpoints, as `tune check` reads them.
    Data,
    /// The default point's model on made-up rows, forward.
    Model,
    /// A loss alone.
    Loss {
        /// Its name.
        form: String,
        /// With the labels of the rows; else with made-up ones.
        real: bool,
    },
    /// Forward and backward through a part of the model alone.
    Backward(String),
    /// All rows read as a training reads them.
    Loader {
        /// 0: in the thread that asks.
        threads: usize,
    },
    /// A training of the default point.
    Pipeline {
        /// On the task's rows; else on made-up ones.
        real: bool,
    },
    /// Steps with every operation timed: Windows bounds how long a kernel may take.
    LongestKernel,
    /// A small study whose worker is killed.
    Supervision,
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words().0)
    }
}

impl Rung {
    /// The rung of this name, as [`Rung`] is displayed.
    pub fn named(name: &str) -> Option<Rung> {
        // Some task's: what its losses, parts and threads are, the name says.
        let some = TaskFacts {
            learns: true,
            parts: vec!["some".to_owned()],
            losses: Vec::new(),
            computes: true,
            threads: 1,
        };
        let mut fixed = rungs(&some).into_iter();
        if let Some(found) = fixed.find(|rung| rung.to_string() == name) {
            return Some(found);
        }
        let (first, rest) = name.split_once('.')?;
        match (first, rest.split_once('.')) {
            ("loader", None) => Some(Rung::Loader {
                threads: rest.parse().ok()?,
            }),
            ("backward", _) => Some(Rung::Backward(rest.to_owned())),
            ("loss", Some((labels @ ("real" | "synthetic"), form))) => Some(Rung::Loss {
                form: form.to_owned(),
                real: labels == "real",
            }),
            (_, _) => None,
        }
    }

    /// Its name, for scripts, and what it is, for people.
    #[rustfmt::skip] // A table: a line a rung.
    fn words(&self) -> (String, String) {
        let fixed = |name: &str, title: &str| (name.to_owned(), title.to_owned());
        match self {
            Rung::Environment => fixed("environment", "environment"),
            Rung::Fill => fixed("fill", "fill"),
            Rung::MatrixProduct => fixed("matrix_product", "matrix product, forward and backward"),
            Rung::Convolution => fixed("convolution", "convolution, forward and backward"),
            Rung::Memory => fixed("memory", "memory"),
            Rung::ExpandableSegments => fixed("expandable_segments", "memory in expandable segments"),
            Rung::Uncached => fixed("uncached", "operations without the caching allocator"),
            Rung::Data => fixed("data", "data, row by row"),
            Rung::Model => fixed("model", "model on made-up rows"),
            Rung::Loss { form, real: true } => (format!("loss.real.{form}"), format!("loss {form}, the rows' labels")),
            Rung::Loss { form, real: false } => (format!("loss.synthetic.{form}"), format!("loss {form}, made-up labels")),
            Rung::Backward(part) => (format!("backward.{part}"), match part.split_once('.') {
                Some((what, number)) => format!("backward through {what} {number}"),
                None => format!("backward through the {part}"),
            }),
            Rung::Loader { threads: 1 } => fixed("loader.1", "loader, 1 thread"),
            Rung::Loader { threads } => (format!("loader.{threads}"), format!("loader, {threads} threads")),
            Rung::Pipeline { real: true } => fixed("pipeline", "whole pipeline"),
            Rung::Pipeline { real: false } => fixed("pipeline.synthetic", "whole pipeline on made-up rows"),
            Rung::LongestKernel => fixed("longest_kernel", "longest kernel"),
            Rung::Supervision => fixed("supervision", "supervision: a worker killed and replaced"),
        }
    }

    /// What it is, for people.
    pub fn title(&self) -> String {
        self.words().1
    }

    /// Whether it says something of a GPU alone.
    pub fn needs_gpu(&self) -> bool {
        matches!(
            self,
            Rung::ExpandableSegments | Rung::Uncached | Rung::LongestKernel
        )
    }

    /// Whether it launches kernels in its own process.
    pub fn computes(&self) -> bool {
        matches!(
            self,
            Rung::Fill
                | Rung::MatrixProduct
                | Rung::Convolution
                | Rung::Uncached
                | Rung::Model
                | Rung::Loss { .. }
                | Rung::Backward(_)
        )
    }

    /// What its process finds in its environment beside what this one has.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        const OF: &[(Rung, &str, &str)] = &[
            (
                Rung::ExpandableSegments,
                "PYTORCH_CUDA_ALLOC_CONF",
                "expandable_segments:True",
            ),
            // Else kernels are not in the time of the operation that launches them.
            (Rung::LongestKernel, "CUDA_LAUNCH_BLOCKING", "1"),
            (Rung::Uncached, "PYTORCH_NO_CUDA_MEMORY_CACHING", "1"),
        ];
        if let Rung::Loader { threads } = self {
            let parallel = *threads > 0;
            // Of the library that makes tokens.
            let mut all = vec![("TOKENIZERS_PARALLELISM", parallel.to_string())];
            all.extend(parallel.then(|| ("RAYON_NUM_THREADS", threads.to_string())));
            return all;
        }
        let own = OF.iter().filter(|(rung, ..)| rung == self);
        own.map(|(_, name, value)| (*name, (*value).to_owned()))
            .collect()
    }

    /// The lower rung without which it can only fail, or say nothing.
    fn needs(&self, facts: &TaskFacts) -> Option<Rung> {
        if matches!(self, Rung::Environment | Rung::Data | Rung::Supervision) {
            return None;
        }
        let reads = matches!(self, Rung::Loader { .. } | Rung::Loss { real: true, .. })
            || *self == (Rung::Pipeline { real: true }) && facts.learns;
        Some(if reads { Rung::Data } else { Rung::Environment })
    }

    /// Why it is not tried, if so, after these: on a GPU or not.
    pub fn skipped(&self, facts: &TaskFacts, gpu: bool, before: &[Step]) -> Option<String> {
        let failed = |rung: &Rung| {
            let name = rung.to_string();
            let step = before.iter().find(|step| step.name == name);
            step.is_some_and(|step| step.outcome == Outcome::Failed)
        };
        if failed(&Rung::Environment)
            && !matches!(self, Rung::Data | Rung::Loader { .. } | Rung::Supervision)
        {
            return Some("the environment failed".to_owned());
        }
        if self.needs_gpu() && !gpu {
            return Some("no GPU".to_owned());
        }
        let lower = self.needs(facts).filter(failed)?;
        Some(format!("{} failed", lower.title()))
    }
}

/// The rungs of a task, the lowest first.
pub fn rungs(facts: &TaskFacts) -> Vec<Rung> {
    let mut all = vec![Rung::Environment];
    if facts.computes {
        all.extend([
            Rung::Fill,
            Rung::MatrixProduct,
            Rung::Convolution,
            Rung::Memory,
            Rung::ExpandableSegments,
            Rung::Uncached,
        ]);
    }
    if facts.learns {
        all.push(Rung::Data);
    }
    if !facts.parts.is_empty() {
        all.push(Rung::Model);
        for form in &facts.losses {
            all.extend([false, true].map(|real| Rung::Loss {
                form: form.clone(),
                real,
            }));
        }
        all.extend(facts.parts.iter().cloned().map(Rung::Backward));
        all.extend([0, facts.threads.max(1)].map(|threads| Rung::Loader { threads }));
    }
    if facts.learns {
        all.extend([Rung::Pipeline { real: false }, Rung::LongestKernel]);
    }
    all.extend([Rung::Pipeline { real: true }, Rung::Supervision]);
    all
}

/// How the process of a rung ended.
#[derive(Debug, Clone, PartialEq)]
pub struct RungEnd {
    /// Exit status or signal.
    pub death: Death,
    /// It was ended because it had run for this long.
    pub late: Option<Duration>,
    /// What it printed on standard output: a line that begins with [`AT`] says what it is about to do, any other
    /// what it found.
    pub out: String,
    /// The end of what it printed on standard error.
    pub err: String,
    /// How long it ran.
    pub took: Duration,
}

/// Begins a line that says what a rung is about to do.
pub const AT: &str = "at: ";

/// Begins a line of what is in order, but worth a look.
pub const WARNING: &str = "warning: ";

/// Begins a line that is for the ladder alone: `device: cuda:0`, `checksum: 1f`.
pub const FACTS: [&str; 2] = ["device: ", "checksum: "];

/// The rows that a training fails by, and where in it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Culprit {
    /// The least rows found with which it fails, by their numbers from 1; none where it fails with any.
    pub rows: Vec<usize>,
    /// Where they stand, one each: `rows.csv:18`.
    pub places: Vec<String>,
    /// How many rows are trained on.
    pub of: usize,
    /// Rows of a batch.
    pub batch: usize,
    /// The operation that fails with them, where a single pass over them fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// How many trainings it took.
    pub runs: usize,
}

impl Culprit {
    /// `it fails with row 17 (rows.csv:18), 1 of 96 trained on: layer 0, forward`.
    pub fn text(&self) -> String {
        const SHOWN: usize = 8;
        let named = |(row, place): (&usize, &String)| format!("{row} ({place})");
        let mut rows: Vec<String> = self
            .rows
            .iter()
            .zip(&self.places)
            .take(SHOWN)
            .map(named)
            .collect();
        if self.rows.len() > SHOWN {
            rows.push(format!("and {} more", self.rows.len() - SHOWN));
        }
        let what = match self.rows.len() {
            1 => "row",
            n if n <= self.batch => "the rows of one batch:",
            _ => "rows",
        };
        let operation = self
            .operation
            .as_deref()
            .map(|text| format!("\n  where: {text}"));
        if self.rows.is_empty() {
            return format!(
                "it fails whichever of the {} rows it trains on; {} trainings tried{}\n",
                self.of,
                self.runs,
                operation.unwrap_or_default()
            );
        }
        format!(
            "it fails with {what} {}, {} of the {} trained on; {} trainings tried{}\n",
            rows.join(", "),
            self.rows.len(),
            self.of,
            self.runs,
            operation.unwrap_or_default()
        )
    }
}

/// The rungs of a task with their results.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ladder {
    /// The task.
    pub task: String,
    /// Where it computes; absent where no device could be found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The lowest first.
    pub steps: Vec<Step>,
    /// The name of the lowest that failed.
    pub first_failed: Option<String>,
    /// Of a pipeline that fails: by what.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub culprit: Option<Culprit>,
}

impl Ladder {
    /// Of these steps.
    pub fn new(
        task: String,
        device: Option<String>,
        steps: Vec<Step>,
        culprit: Option<Culprit>,
    ) -> Ladder {
        let failed = steps.iter().find(|step| step.outcome == Outcome::Failed);
        Ladder {
            task,
            device,
            first_failed: failed.map(|step| step.name.clone()),
            steps,
            culprit,
        }
    }

    /// Whether a rung failed.
    pub fn failed(&self) -> bool {
        self.first_failed.is_some()
    }

    /// The last lines: what fails by what, and the first rung that failed.
    pub fn summary(&self) -> String {
        let culprit = self.culprit.as_ref().map(Culprit::text).unwrap_or_default();
        let count = |outcome| {
            self.steps
                .iter()
                .filter(|step| step.outcome == outcome)
                .count()
        };
        let (passed, not_run) = (count(Outcome::Passed), count(Outcome::NotRun));
        let rest = match not_run {
            0 => String::new(),
            n => format!(", {n} not tried"),
        };
        let first = self
            .steps
            .iter()
            .find(|step| step.outcome == Outcome::Failed);
        let last = match first {
            None => format!("no rung failed: {passed} passed{rest}"),
            Some(step) => format!("the first rung that failed: {}", step.title),
        };
        format!("{culprit}{last}\n")
    }
}

#[cfg(test)]
#[path = "ladder_tests.rs"]
mod tests;
