//! What the start-up module has noted of a Python program.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::leftovers::Leftover;
use crate::silent::SilentError;

/// The start-up module, which Python imports by the name of the first file, with the parts that this one imports.
#[rustfmt::skip] // A table: a line a file.
pub const MODULE: [(&str, &str); 11] = [
    ("sitecustomize.py", include_str!("startup/sitecustomize.py")),
    ("_tune_doctor/gradients.py", include_str!("startup/_tune_doctor/gradients.py")),
    ("_tune_doctor/mistakes.py", include_str!("startup/_tune_doctor/mistakes.py")),
    ("_tune_doctor/modules.py", include_str!("startup/_tune_doctor/modules.py")),
    ("_tune_doctor/notes.py", include_str!("startup/_tune_doctor/notes.py")),
    ("_tune_doctor/python.py", include_str!("startup/_tune_doctor/python.py")),
    ("_tune_doctor/silent.py", include_str!("startup/_tune_doctor/silent.py")),
    ("_tune_doctor/states.py", include_str!("startup/_tune_doctor/states.py")),
    ("_tune_doctor/tracing.py", include_str!("startup/_tune_doctor/tracing.py")),
    ("_tune_doctor/training.py", include_str!("startup/_tune_doctor/training.py")),
    ("_tune_doctor/watching.py", include_str!("startup/_tune_doctor/watching.py")),
];

/// The file that says that a process prints its stacks when it is sent SIGUSR2.
pub const STACKS: &str = "stacks";

/// The file of notes, a line of JSON each.
pub const NOTES: &str = "notes";

/// Where a training of ours notes its operation, among those of other processes.
pub const OPERATION_OF_A_TASK: &str = "operation-task";

/// The file of the batch that was taken last.
pub const BATCH: &str = "batch";

/// The file that says where a timer was set that ends the program; empty where it was taken back.
const TIMER: &str = "timer";

/// The file that is there once the program trains, with or without a loader.
pub const STEP: &str = "step";

/// Most lines of notes that are read.
const LINES: usize = 2000;

/// Writes the start-up module to a directory that is then to stand first in `PYTHONPATH`.
///
/// # Errors
/// What the system says.
pub fn write_module(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir.join("_tune_doctor"))?;
    let mut files = MODULE.into_iter();
    files.try_for_each(|(name, text)| fs::write(dir.join(name), text))
}

/// A loader of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Loader {
    /// In the order in which they are made, from 0.
    pub number: u64,
    /// Its processes.
    pub workers: u64,
    /// These are forked: they have the same hash seed as the program.
    pub forks: bool,
    /// Rows of a batch; `None`: batches come from a sampler.
    pub batch_size: Option<u64>,
    /// Rows in all; `None`: it does not say.
    pub rows: Option<u64>,
}

/// The batch that the program had taken last.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct Batch {
    /// How many it had taken, of all loaders.
    pub taken: u64,
    /// Of which loader.
    pub loader: u64,
    /// Its number in this pass, from 0.
    pub batch: u64,
    /// Its rows, as the sampler names them.
    pub rows: Option<Vec<u64>>,
    /// The same rows as the dataset numbers them of which the loader has a part; empty where it has all.
    #[serde(default, skip_serializing)]
    pub dataset_rows: Vec<u64>,
    /// What is in it.
    pub tensors: Vec<Tensor>,
}

/// An exception that the program's own code raised, or was given by what it called.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Raised {
    /// Its class.
    pub kind: String,
    /// Its words.
    pub message: String,
    /// Its traceback, as Python prints it, without those of other exceptions.
    pub text: String,
    /// It ends the program: `SystemExit`.
    pub exits: bool,
    /// Batches that the program had taken by then.
    pub taken: u64,
    /// The traceback of the exception that was being handled when it was raised.
    pub handled: Option<String>,
}

/// A module's result that is not finite.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct WrongResult {
    /// The module's class.
    pub module: String,
    /// What it was given is finite.
    pub inputs_finite: bool,
    /// Its weights are.
    pub weights_finite: bool,
    /// The batch that the program had taken last.
    pub batch: Option<Batch>,
    /// The operation that had made such values of finite ones last.
    #[serde(default)]
    pub made: Option<WrongOperation>,
}

/// An operation that made values that are not finite of finite ones.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct WrongOperation {
    /// PyTorch's name: `aten.log.default`.
    pub function: String,
    /// The program's own line that called it.
    pub line: Option<String>,
    /// Of which value it made the first of them, where each is made of one.
    pub value: Option<String>,
}

impl fmt::Display for WrongOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.function)?;
        if let Some(value) = &self.value {
            write!(f, " of {value}")?;
        }
        match &self.line {
            Some(line) => write!(f, ", at {line}"),
            None => Ok(()),
        }
    }
}

/// A gradient that is not finite, of finite values.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct WrongGradient {
    /// Autograd's function that has made it: `PowBackward0`.
    pub function: String,
    /// The program's own line that had called its operation.
    pub line: Option<String>,
    /// The batch that the program had taken last.
    pub batch: Option<Batch>,
}

/// A tensor of a batch.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct Tensor {
    /// Its shape.
    pub shape: Vec<u64>,
    /// Its type, as PyTorch calls it.
    pub dtype: String,
    /// Which entries of the first dimension have values that are not finite.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_finite: Vec<usize>,
    /// The smallest finite value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The greatest finite value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
}

/// What is known of a program from inside.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Notes {
    /// It is a Python program that has imported the start-up module.
    pub python: bool,
    /// It draws random numbers by a seed that doctor may change.
    pub seeded: bool,
    /// Its own files read the date or the time of day.
    pub reads_clock: bool,
    /// The version of torch, where it was imported.
    pub torch: Option<String>,
    /// Changes that were really made to something.
    pub changed: BTreeSet<String>,
    /// Its loaders.
    pub loaders: BTreeSet<Loader>,
    /// It computes with 16-bit floats; how.
    pub half: BTreeSet<String>,
    /// Modules of the standard library that other files hide, with those files.
    pub hides_stdlib: BTreeSet<(String, String)>,
    /// Modules whose import changes what is not theirs: module, what, from, to.
    pub import_effects: BTreeSet<(String, String, String, String)>,
    /// The module in whose import the error was raised.
    pub raised_in_import: Option<String>,
    /// Modules that start threads.
    pub threads: BTreeSet<String>,
    /// Threads at a fork.
    pub forked_with_threads: Option<u64>,
    /// The first result of a module of the network that was not finite, where operations were traced.
    pub not_finite: Option<WrongResult>,
    /// An optimiser with a learning rate that is no finite number, and that rate.
    pub learning_rate: Option<(String, String)>,
    /// The first gradient that a step was made with and that was not finite, where operations were traced.
    pub gradient_not_finite: Option<WrongGradient>,
    /// Mistakes that raise no error, the first of each kind, where operations were traced.
    pub silent: Vec<SilentError>,
    /// The last operation, where they were traced.
    pub operation: Option<String>,
    /// The one that took longest, where they were traced.
    pub longest: Option<Longest>,
    /// Files that it reads and that earlier runs may have left.
    pub leftovers: BTreeSet<Leftover>,
    /// A timer that has called a function of the program's.
    pub rang: Option<Rang>,
    /// Where a timer was set that has not been taken back.
    pub timer: Option<String>,
    /// The file that was opened for reading last, before the exception that ended it.
    pub opened: Option<String>,
    /// A file that it writes may not become larger than a limit (RLIMIT_FSIZE).
    pub file_limit: bool,
    /// An optimiser has made a step.
    pub stepped: bool,
    /// The last batch.
    pub batch: Option<Batch>,
    /// The first batch whose values were not all finite.
    pub batch_not_finite: Option<Batch>,
    /// Exceptions that its own lines raised or were given, in their order, where they were watched.
    pub raised: Vec<Raised>,
    /// Files that it has mapped into memory by Python's `mmap`, to the byte up to which.
    pub mapped: BTreeMap<PathBuf, u64>,
    /// Those that have ended what a thread was to do.
    pub swallowed: Vec<Raised>,
}

/// An operation with the time that it took, its kernels included.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Longest {
    /// Its name, as PyTorch or libtorch has it.
    pub operation: String,
    /// Of the longest call, without operations that it called.
    pub seconds: f64,
}

impl Longest {
    /// Of the file in which a process notes its operations: the last one, then a line `MICROSECONDS NAME`.
    pub fn read(text: &str) -> Option<Longest> {
        let (micros, operation) = text.lines().nth(1)?.trim().split_once(' ')?;
        Some(Longest {
            operation: operation.to_owned(),
            seconds: micros.parse::<f64>().ok()? / 1e6,
        })
    }
}

impl fmt::Display for Longest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {:.3} s", self.operation, self.seconds)
    }
}

/// How many batches the program has taken.
pub fn batches(dir: &Path) -> u64 {
    batch(dir).map_or(0, |b| b.taken)
}

fn batch(dir: &Path) -> Option<Batch> {
    let text = fs::read_to_string(dir.join(BATCH)).ok()?;
    serde_json::from_str(text.lines().next()?.trim_end()).ok()
}

fn first_line(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().as_deref().map(first_line_of)
}

fn first_line_of(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.trim_end().to_owned()
}

/// Reads what a run has left in its directory.
pub fn read(dir: &Path) -> Notes {
    let operation = operation(dir);
    let mut notes = Notes {
        python: dir.join("main").exists(),
        timer: first_line(&dir.join(TIMER)).filter(|place| !place.is_empty()),
        stepped: dir.join(STEP).exists(),
        batch: batch(dir),
        operation: operation.as_deref().map(first_line_of),
        longest: operation.as_deref().and_then(Longest::read),
        ..Notes::default()
    };
    let text = fs::read(dir.join(NOTES)).unwrap_or_default();
    for line in String::from_utf8_lossy(&text).lines().take(LINES) {
        if let Ok(note) = serde_json::from_str(line) {
            notes.take(&note);
        }
    }
    notes
}

/// Of the process that was the last to begin one.
fn operation(dir: &Path) -> Option<String> {
    let files = fs::read_dir(dir).ok()?.flatten();
    let named = files.filter(|f| f.file_name().to_string_lossy().starts_with("operation-"));
    let newest = named.max_by_key(|f| f.metadata().and_then(|m| m.modified()).ok())?;
    let text = fs::read(newest.path()).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// A timer that has called a function of the program's.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Rang {
    /// The function, with its first line.
    pub handler: String,
    /// Where the timer was set.
    pub timer: Option<String>,
}

impl Notes {
    fn take(&mut self, note: &Json) {
        let text = |key: &str| note[key].as_str().unwrap_or_default().to_owned();
        let number = |key: &str| note[key].as_u64();
        match note["what"].as_str().unwrap_or_default() {
            "seed" => self.seeded = true,
            "reads_clock" => self.reads_clock = true,
            "torch" => self.torch = Some(text("version")),
            "changed" => {
                self.changed.insert(text("change"));
            }
            "loader" => {
                self.loaders.insert(Loader {
                    number: number("number").unwrap_or_default(),
                    workers: number("workers").unwrap_or_default(),
                    forks: note["forks"].as_bool().unwrap_or(true),
                    batch_size: number("batch_size"),
                    rows: number("rows"),
                });
            }
            "half" => {
                self.half
                    .insert(format!("{} {}", text("how"), text("dtype")));
            }
            "hides_stdlib" => {
                self.hides_stdlib.insert((text("module"), text("file")));
            }
            "import_effect" => {
                let effect = (text("module"), text("of"), text("from"), text("to"));
                self.import_effects.insert(effect);
            }
            "rang" => self.rang = Rang::deserialize(note).ok(),
            "file_limit" => self.file_limit = true,
            "opened" => self.opened = Some(text("file")),
            "raised_in_import" => self.raised_in_import = Some(text("module")),
            "thread" => {
                self.threads.insert(text("module"));
            }
            "fork_with_threads" => self.forked_with_threads = number("threads"),
            "not_finite" if self.not_finite.is_none() => {
                self.not_finite = serde_json::from_value(note.clone()).ok();
            }
            "batch_not_finite" if self.batch_not_finite.is_none() => {
                self.batch_not_finite = serde_json::from_value(note.clone()).ok();
            }
            "gradient_not_finite" if self.gradient_not_finite.is_none() => {
                self.gradient_not_finite = serde_json::from_value(note.clone()).ok();
            }
            "silent" => {
                let noted = SilentError::deserialize(note).ok();
                let new = |noted: &SilentError| self.silent.iter().all(|s| s.kind != noted.kind);
                let noted = noted.filter(new);
                self.silent.extend(noted);
            }
            "leftover" => self.leftovers.extend(Leftover::deserialize(note)),
            "mapped" => {
                let end = self.mapped.entry(text("file").into()).or_default();
                *end = number("end").unwrap_or_default().max(*end);
            }
            "swallowed" => (self.swallowed).extend(serde_json::from_value(note.clone())),
            "raised" => self.raised.extend(serde_json::from_value(note.clone())),
            "learning_rate" => self.learning_rate = Some((text("optimizer"), text("value"))),
            _ => {}
        }
    }

    /// With what only runs note whose operations are traced, of another run where this one has none of it.
    #[must_use]
    pub fn or_traced(self, traced: Notes) -> Notes {
        Notes {
            not_finite: self.not_finite.or(traced.not_finite),
            gradient_not_finite: self.gradient_not_finite.or(traced.gradient_not_finite),
            silent: {
                // Some are noted in every run, and others where operations are traced.
                let new = |error: &SilentError| self.silent.iter().all(|s| s.kind != error.kind);
                let more: Vec<SilentError> = traced.silent.into_iter().filter(new).collect();
                [self.silent, more].concat()
            },
            operation: self.operation.or(traced.operation),
            longest: self.longest.or(traced.longest),
            raised: match self.raised.is_empty() {
                true => traced.raised,
                false => self.raised,
            },
            swallowed: match self.swallowed.is_empty() {
                true => traced.swallowed,
                false => self.swallowed,
            },
            ..self
        }
    }

    /// Whether something is wrong though no error was raised.
    pub fn is_mistaken(&self) -> bool {
        let finite = self.not_finite.is_none() && self.gradient_not_finite.is_none();
        self.silent_error().is_some() || !finite
    }

    /// The first mistake that raises no error and may be why the program fails in the end.
    pub fn silent_error(&self) -> Option<&SilentError> {
        self.silent
            .iter()
            .find(|silent| !silent.kind.row().doubtful)
    }

    /// Most processes of any loader.
    pub fn loader_workers(&self) -> u64 {
        self.loaders.iter().map(|l| l.workers).max().unwrap_or(0)
    }

    /// Most rows of a batch of any loader.
    pub fn batch_size(&self) -> u64 {
        let sizes = self.loaders.iter().filter_map(|l| l.batch_size);
        sizes.max().unwrap_or(0)
    }

    /// The loader of this number.
    pub fn loader(&self, number: u64) -> Option<&Loader> {
        self.loaders.iter().find(|loader| loader.number == number)
    }

    /// Whether the last batch has fewer rows than its loader's batches have, as the last one of a pass may.
    pub fn at_smaller_batch(&self) -> bool {
        let smaller = |batch: &Batch| {
            let size = self.loader(batch.loader)?.batch_size?;
            Some(batch.size()? < size)
        };
        self.batch.as_ref().and_then(smaller).unwrap_or(false)
    }

    /// Most batches of a pass of any loader.
    pub fn pass(&self) -> u64 {
        let batches = |l: &Loader| Some(l.rows?.div_ceil(l.batch_size?.max(1)));
        self.loaders.iter().filter_map(batches).max().unwrap_or(0)
    }

    /// The number of the last batch, and its rows.
    pub fn place(&self) -> Option<(u64, BTreeSet<u64>)> {
        let batch = self.batch.as_ref()?;
        Some((batch.batch, batch.rows.as_ref()?.iter().copied().collect()))
    }

    /// The row of the whole dataset that a loader names so, of those in the batches that are noted, where it has a part.
    pub fn dataset_row(&self, loader: u64, row: u64) -> Option<u64> {
        let of_gradient = self.gradient_not_finite.iter().flat_map(|g| &g.batch);
        let noted = self
            .batch
            .iter()
            .chain(&self.batch_not_finite)
            .chain(of_gradient);
        let mut of = noted.filter(|batch| batch.loader == loader);
        of.find_map(|batch| {
            let at = batch.rows.as_ref()?.iter().position(|r| *r == row)?;
            batch.dataset_rows.get(at).copied()
        })
    }

    /// The batch that has brought values which are not finite: the last one, or, where the failure names such values,
    /// the first one that has any.
    pub fn spoiled(&self, named: bool) -> Option<&Batch> {
        let has_any = |batch: &&Batch| !batch.rows_not_finite().is_empty();
        let earlier = self.batch_not_finite.as_ref().filter(|_| named);
        self.batch.as_ref().filter(has_any).or(earlier)
    }
}

impl WrongResult {
    /// The batch of which it was made: weights that are no numbers make such results of any batch.
    pub fn of_batch(&self) -> Option<&Batch> {
        self.batch.as_ref().filter(|_| self.weights_finite)
    }
}

impl Batch {
    /// How many rows it has; `None`: it does not say.
    pub fn size(&self) -> Option<u64> {
        let of_tensor = || self.tensors.first()?.shape.first().copied();
        let rows = self.rows.as_ref().map(|rows| rows.len() as u64);
        rows.or_else(of_tensor)
    }

    /// The rows whose values are not all finite; where nobody names rows, their places.
    pub fn rows_not_finite(&self) -> Vec<u64> {
        let entries = self.tensors.iter().flat_map(|t| &t.not_finite);
        let entries: BTreeSet<usize> = entries.copied().collect();
        let row = |at: &usize| match &self.rows {
            Some(rows) => rows.get(*at).copied(),
            None => Some(*at as u64),
        };
        entries.iter().filter_map(row).collect()
    }
}

#[cfg(test)]
#[path = "notes_tests.rs"]
mod tests;
