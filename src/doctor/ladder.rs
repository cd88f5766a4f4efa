//! The parts of a task, one above the other: which there are, what each needs, and what the end of one means. Each is
//! tried in a process of its own, so that its crash is a result.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::Outcome;
use fault::{Death, ErrorReport, Evidence, FaultKind, Phase, ProgramEnd};

/// What is known of a task before its parts are tried.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskFacts {
    /// It reads labelled rows and trains a model on them.
    pub learns: bool,
    /// The losses that a trial may have.
    pub losses: Vec<String>,
    /// Layers of the default point's encoder.
    pub layers: usize,
    /// Whether libtorch computes in its workers.
    pub computes: bool,
    /// Threads of the loader in the second try; at least 1.
    pub threads: usize,
}

/// A part of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// From hidden states to the classes.
    Head,
    /// A layer of the encoder, from 0.
    Layer(usize),
    /// The tables that a pass begins with.
    Embeddings,
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
    Backward(Part),
    /// All rows read and made tokens of.
    Loader {
        /// 0: in the thread that asks.
        threads: usize,
    },
    /// A training of the default point.
    Pipeline {
        /// On the task's rows; else on made-up ones.
        real: bool,
    },
    /// A small study whose worker is killed.
    Supervision,
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rung::Environment => f.write_str("environment"),
            Rung::Fill => f.write_str("fill"),
            Rung::MatrixProduct => f.write_str("matrix_product"),
            Rung::Convolution => f.write_str("convolution"),
            Rung::Memory => f.write_str("memory"),
            Rung::ExpandableSegments => f.write_str("expandable_segments"),
            Rung::Uncached => f.write_str("uncached"),
            Rung::Data => f.write_str("data"),
            Rung::Model => f.write_str("model"),
            Rung::Loss { form, real } => write!(f, "loss.{}.{form}", labels(*real)),
            Rung::Backward(Part::Head) => f.write_str("backward.head"),
            Rung::Backward(Part::Layer(at)) => write!(f, "backward.layer.{at}"),
            Rung::Backward(Part::Embeddings) => f.write_str("backward.embeddings"),
            Rung::Loader { threads } => write!(f, "loader.{threads}"),
            Rung::Pipeline { real: true } => f.write_str("pipeline"),
            Rung::Pipeline { real: false } => f.write_str("pipeline.synthetic"),
            Rung::Supervision => f.write_str("supervision"),
        }
    }
}

fn labels(real: bool) -> &'static str {
    if real { "real" } else { "synthetic" }
}

impl Rung {
    /// The rung of this name, as [`Rung`] is displayed.
    pub fn named(name: &str) -> Option<Rung> {
        let fixed = [
            Rung::Environment,
            Rung::Fill,
            Rung::MatrixProduct,
            Rung::Convolution,
            Rung::Memory,
            Rung::ExpandableSegments,
            Rung::Uncached,
            Rung::Data,
            Rung::Model,
            Rung::Backward(Part::Head),
            Rung::Backward(Part::Embeddings),
            Rung::Pipeline { real: false },
            Rung::Pipeline { real: true },
            Rung::Supervision,
        ];
        if let Some(found) = fixed.into_iter().find(|rung| rung.to_string() == name) {
            return Some(found);
        }
        let (first, rest) = name.split_once('.')?;
        match (first, rest.split_once('.')) {
            ("loader", None) => Some(Rung::Loader {
                threads: rest.parse().ok()?,
            }),
            ("backward", Some(("layer", at))) => {
                Some(Rung::Backward(Part::Layer(at.parse().ok()?)))
            }
            ("loss", Some((labels @ ("real" | "synthetic"), form))) => Some(Rung::Loss {
                form: form.to_owned(),
                real: labels == "real",
            }),
            (_, _) => None,
        }
    }

    /// What it is, for people.
    pub fn title(&self) -> String {
        match self {
            Rung::Environment => "environment".to_owned(),
            Rung::Fill => "fill".to_owned(),
            Rung::MatrixProduct => "matrix product, forward and backward".to_owned(),
            Rung::Convolution => "convolution, forward and backward".to_owned(),
            Rung::Memory => "memory".to_owned(),
            Rung::ExpandableSegments => "memory in expandable segments".to_owned(),
            Rung::Uncached => "operations without the caching allocator".to_owned(),
            Rung::Data => "data, row by row".to_owned(),
            Rung::Model => "model on made-up rows".to_owned(),
            Rung::Loss { form, real: true } => format!("loss {form}, the rows' labels"),
            Rung::Loss { form, real: false } => format!("loss {form}, made-up labels"),
            Rung::Backward(Part::Head) => "backward through the head".to_owned(),
            Rung::Backward(Part::Layer(at)) => format!("backward through layer {at}"),
            Rung::Backward(Part::Embeddings) => "backward through the embeddings".to_owned(),
            Rung::Loader { threads } => format!("loader, {threads} threads"),
            Rung::Pipeline { real: true } => "whole pipeline".to_owned(),
            Rung::Pipeline { real: false } => "whole pipeline on made-up rows".to_owned(),
            Rung::Supervision => "supervision: a worker killed and replaced".to_owned(),
        }
    }

    /// Whether it says something of a GPU alone.
    pub fn needs_gpu(&self) -> bool {
        matches!(self, Rung::ExpandableSegments | Rung::Uncached)
    }

    /// Whether it launches kernels in its own process.
    pub fn computes(&self) -> bool {
        match self {
            Rung::Fill
            | Rung::MatrixProduct
            | Rung::Convolution
            | Rung::Uncached
            | Rung::Model
            | Rung::Loss { .. }
            | Rung::Backward(_) => true,
            Rung::Environment
            | Rung::Memory
            | Rung::ExpandableSegments
            | Rung::Data
            | Rung::Loader { .. }
            | Rung::Pipeline { .. }
            | Rung::Supervision => false,
        }
    }

    /// What its process finds in its environment beside what this one has.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        match self {
            Rung::ExpandableSegments => vec![(
                "PYTORCH_CUDA_ALLOC_CONF",
                "expandable_segments:True".to_owned(),
            )],
            Rung::Uncached => vec![("PYTORCH_NO_CUDA_MEMORY_CACHING", "1".to_owned())],
            // Of the library that makes tokens.
            Rung::Loader { threads: 0 } => vec![("TOKENIZERS_PARALLELISM", "false".to_owned())],
            Rung::Loader { threads } => vec![
                ("TOKENIZERS_PARALLELISM", "true".to_owned()),
                ("RAYON_NUM_THREADS", threads.to_string()),
            ],
            Rung::Environment
            | Rung::Fill
            | Rung::MatrixProduct
            | Rung::Convolution
            | Rung::Memory
            | Rung::Data
            | Rung::Model
            | Rung::Loss { .. }
            | Rung::Backward(_)
            | Rung::Pipeline { .. }
            | Rung::Supervision => Vec::new(),
        }
    }

    /// The lower rung without which it can only fail, or say nothing.
    fn needs(&self, facts: &TaskFacts) -> Option<Rung> {
        match self {
            Rung::Environment | Rung::Data | Rung::Supervision => None,
            Rung::Loader { .. } | Rung::Loss { real: true, .. } => Some(Rung::Data),
            Rung::Pipeline { real: true } if facts.learns => Some(Rung::Data),
            Rung::Fill
            | Rung::MatrixProduct
            | Rung::Convolution
            | Rung::Memory
            | Rung::ExpandableSegments
            | Rung::Uncached
            | Rung::Model
            | Rung::Loss { real: false, .. }
            | Rung::Backward(_)
            | Rung::Pipeline { .. } => Some(Rung::Environment),
        }
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
        all.extend([Rung::Data, Rung::Model]);
        for form in &facts.losses {
            all.extend([false, true].map(|real| Rung::Loss {
                form: form.clone(),
                real,
            }));
        }
        all.push(Rung::Backward(Part::Head));
        all.extend(
            (0..facts.layers)
                .rev()
                .map(|at| Rung::Backward(Part::Layer(at))),
        );
        all.push(Rung::Backward(Part::Embeddings));
        all.extend([0, facts.threads.max(1)].map(|threads| Rung::Loader { threads }));
        all.push(Rung::Pipeline { real: false });
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

/// A rung with its result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// Its name, for scripts.
    pub name: String,
    /// What it is, for people.
    pub title: String,
    /// How it came out.
    pub outcome: Outcome,
    /// What was seen; of a rung that was not tried, why.
    pub evidence: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// The word of the fault that it ended by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<&'static str>,
    /// How long it took, in seconds.
    pub seconds: f64,
}

impl Step {
    /// A rung that was not tried.
    pub fn not_run(rung: &Rung, why: impl Into<String>) -> Step {
        Step {
            name: rung.to_string(),
            title: rung.title(),
            outcome: Outcome::NotRun,
            evidence: why.into(),
            remedy: None,
            fault: None,
            seconds: 0.0,
        }
    }

    /// The same after it was tried `again` with launches that block, which fail where the kernel does and not later.
    pub fn placed(self, again: &Step) -> Step {
        let failed = again.outcome == Outcome::Failed;
        let evidence = match failed {
            true => format!("{} (with blocking launches)", again.evidence),
            false => format!("{}; not with blocking launches", self.evidence),
        };
        let told = if failed { again } else { &self };
        Step {
            evidence,
            remedy: told.remedy.clone(),
            fault: told.fault,
            ..self
        }
    }

    /// The same, failed where it is a loader's and the tokens are not those of the loaders before it.
    pub fn same_as_before(mut self, rung: &Rung, checksums: &[String]) -> Step {
        let differ = checksums.windows(2).any(|pair| pair[0] != pair[1]);
        if matches!(rung, Rung::Loader { .. }) && self.outcome == Outcome::Passed && differ {
            self.outcome = Outcome::Failed;
            self.evidence += "; the tokens are not the same with other threads";
        }
        self
    }

    /// `passed   1.2 s  fill: 1,048,576 numbers`, and what to do below it.
    pub fn line(&self) -> String {
        let remedy = self.remedy.as_deref().map_or_else(String::new, |text| {
            text.lines()
                .map(|line| format!("\n{:26}{line}", ""))
                .collect()
        });
        let evidence = self.evidence.replace('\n', &format!("\n{:26}", ""));
        format!(
            "{:16} {:5.1} s  {}: {evidence}{remedy}\n",
            self.outcome.to_string(),
            self.seconds,
            self.title
        )
    }
}

impl RungEnd {
    /// Whether it ended by itself and well.
    pub fn succeeded(&self) -> bool {
        self.late.is_none() && self.death == Death::Exited(0)
    }

    /// What it said last that it was about to do.
    pub fn at(&self) -> Option<&str> {
        self.out
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix(AT))
    }

    /// What it said on a line that begins with this.
    pub fn fact(&self, begins: &str) -> Option<&str> {
        self.out
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix(begins))
    }

    fn found(&self) -> String {
        let hidden =
            |line: &&str| !line.starts_with(AT) && !FACTS.iter().any(|f| line.starts_with(f));
        let lines: Vec<&str> = self.out.lines().filter(hidden).collect();
        lines.join("; ")
    }

    /// The text of its error, as it was told, without the stack that libtorch puts below.
    fn told(&self) -> Option<&str> {
        const BELOW: [&str; 4] = [
            "\nException raised from",
            "\nframe #",
            "\nCUDA kernel errors",
            "\nSearch for `cuda",
        ];
        let at = self.err.find("error: ")?;
        let begins = at == 0 || self.err[..at].ends_with('\n');
        let told = &self.err[at + "error: ".len()..];
        let ends = BELOW.iter().filter_map(|below| told.find(below)).min();
        begins.then(|| told[..ends.unwrap_or(told.len())].trim())
    }
}

/// What the end of a rung means.
pub fn judge(rung: &Rung, end: &RungEnd) -> Step {
    let step = |outcome, evidence: String, remedy: Option<String>, fault| Step {
        name: rung.to_string(),
        title: rung.title(),
        outcome,
        evidence,
        remedy,
        fault,
        seconds: (end.took.as_secs_f64() * 1e3).round() / 1e3,
    };
    if let Some(limit) = end.late {
        let limit = format!("{} s", limit.as_secs());
        return match rung {
            // Trainings take their time, and one that hangs is ended by its own deadline.
            Rung::Pipeline { .. } => step(
                Outcome::Passed,
                format!("no failure within {limit}, then ended"),
                None,
                None,
            ),
            Rung::Environment
            | Rung::Fill
            | Rung::MatrixProduct
            | Rung::Convolution
            | Rung::Memory
            | Rung::ExpandableSegments
            | Rung::Uncached
            | Rung::Data
            | Rung::Model
            | Rung::Loss { .. }
            | Rung::Backward(_)
            | Rung::Loader { .. }
            | Rung::Supervision => {
                let place = end.at().map_or_else(String::new, |at| format!(": {at}"));
                let found = format!("no end within {limit}{place}");
                step(Outcome::Failed, found, None, Some(FaultKind::Hang.word()))
            }
        };
    }
    if end.death == Death::Exited(0) {
        let warns = end.out.lines().any(|line| line.starts_with(WARNING));
        let outcome = if warns {
            Outcome::Warning
        } else {
            Outcome::Passed
        };
        return step(outcome, end.found(), None, None);
    }
    let (evidence, remedy, fault) = explained(end);
    match rung {
        Rung::ExpandableSegments => {
            let remedy = "Nothing: tune uses plain segments where these fail.".to_owned();
            step(Outcome::Warning, evidence, Some(remedy), fault)
        }
        Rung::Environment
        | Rung::Fill
        | Rung::MatrixProduct
        | Rung::Convolution
        | Rung::Memory
        | Rung::Uncached
        | Rung::Data
        | Rung::Model
        | Rung::Loss { .. }
        | Rung::Backward(_)
        | Rung::Loader { .. }
        | Rung::Pipeline { .. }
        | Rung::Supervision => step(Outcome::Failed, evidence, remedy, fault),
    }
}

/// What was seen of a failure, what to do about it, and the fault's word.
fn explained(end: &RungEnd) -> (String, Option<String>, Option<&'static str>) {
    let known = fault::explain(&end.err);
    // What a task's own error calls for, its text says.
    let own = ["unknown", FaultKind::TaskError.word()];
    let known = (!own.contains(&known.fault)).then_some(known);
    let advice = known.as_ref().map(|known| known.advice.clone());
    if let (Death::Exited(_), Some(told)) = (end.death, end.told()) {
        // A training's fault is told with its word.
        let word = told.split(':').next().unwrap_or_default();
        let named = FaultKind::ALL.iter().map(|kind| kind.word());
        let named = named.into_iter().find(|known| *known == word);
        let known = known.filter(|known| named.is_none_or(|named| named == known.fault));
        let place = end.at().filter(|at| named.is_none() && !told.contains(at));
        let place = place.map_or_else(String::new, |at| format!("{at}: "));
        return (
            format!("{place}{told}"),
            known.as_ref().map(|known| known.advice.clone()),
            named.or(known.map(|known| known.fault)),
        );
    }
    let fault = fault::classify(&Evidence {
        error: Some(ErrorReport {
            phase: Phase::Training,
            panic: false,
            text: fault::describe_program(end.death).replace("the program", "it"),
            healthy: None,
            program: Some(ProgramEnd {
                death: end.death,
                stopped: false,
                oom_kills: 0,
                output: end.err.clone(),
            }),
        }),
        death: Some(end.death),
        ..Evidence::default()
    });
    let place = end.at().map_or_else(String::new, |at| format!("{at}: "));
    (
        format!("{place}{}", fault.detail),
        advice,
        Some(fault.kind.word()),
    )
}

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
