//! What is shown: figures of one moment, as the database and the machine have them.

use std::sync::Arc;

use jiff::Timestamp;

/// How a study is doing, for the colour of its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    /// It runs.
    Running,
    /// It stops, or is suspended, or was ended before its goal.
    Waiting,
    /// It reached its goal.
    Done,
    /// It was ended by failures.
    Failing,
}

/// How a study stands at one moment. Texts may be anybody's: they are made harmless where they are drawn.
#[derive(Clone)]
pub struct Snapshot {
    /// Its name.
    pub study: String,
    /// `maximize macro_f1`.
    pub objective: String,
    /// The name of what is optimised; of the first of several.
    pub metric: String,
    /// What a step of a trial is called: epoch or step.
    pub step: &'static str,
    /// In a word.
    pub state: String,
    /// In a sentence, where there is more to say than the word: how to go on with it.
    pub advice: Vec<String>,
    /// For its colour.
    pub mood: Mood,
    /// Since when its run goes on; `None` where none does.
    pub since: Option<Timestamp>,
    /// Trials that count towards the goal.
    pub finished: u64,
    /// Trials that were asked for.
    pub goal: Option<u64>,
    /// What stands beside the bar, the most important first; what does not fit is left out.
    pub progress: Vec<String>,
    /// The best trial and its value, in words.
    pub best: String,
    /// The trivial answer, in words; empty where there is none.
    pub trivial: String,
    /// That no trial beats the trivial answer, and the like.
    pub warnings: Vec<String>,
    /// The best value so far: seconds since the first trial began, and the value from then on. The last point is now,
    /// or the end.
    pub history: Vec<(f64, f64)>,
    /// When the first trial began, and what the end of the history is.
    pub history_ends: (String, String),
    /// The trivial answer's value.
    pub level: Option<f64>,
    /// Trials under way.
    pub running: Vec<Running>,
    /// How many may run at a time; `None`: nobody has said.
    pub slots: Option<u64>,
    /// GPUs, then the host.
    pub machine: Vec<Meter>,
    /// The last faults, the latest first.
    pub faults: Vec<FaultLine>,
    /// All trials.
    pub trials: Arc<dyn Trials>,
}

/// A trial under way.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Running {
    /// Its number.
    pub number: u64,
    /// From 0.
    pub attempt: u32,
    /// `cpu`, `cuda:0`; empty where another program runs it.
    pub device: String,
    /// The last step that was reported.
    pub step: Option<i64>,
    /// What was reported, in order.
    pub curve: Vec<f64>,
    /// Memory in use; empty where that is not known.
    pub memory: String,
    /// When its attempt started.
    pub started: Option<Timestamp>,
}

/// A bar with a text: memory of a GPU or of the host.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Meter {
    /// `gpu 0`, `host`.
    pub label: String,
    /// How full, from 0 to 1; `None`: nobody tells.
    pub share: Option<f64>,
    /// Up to where trials may fill it, from 0 to 1.
    pub mark: Option<f64>,
    /// Figures in words.
    pub text: String,
    /// What is wrong with it; empty: nothing.
    pub trouble: String,
}

/// A fault in words.
#[derive(Debug, Clone, PartialEq)]
pub struct FaultLine {
    /// The trial.
    pub number: u64,
    /// What happened, and what becomes of the trial.
    pub text: String,
    /// When.
    pub at: Option<Timestamp>,
}

/// A column of the table of trials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// What stands above it.
    pub heading: String,
    /// Its cells are numbers, and stand to the right.
    pub right: bool,
    /// It is there however narrow the table is.
    pub kept: bool,
}

/// What the table is sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sorting {
    /// A column, by its place; `None`: the best first.
    pub column: Option<usize>,
    /// The other way round.
    pub reverse: bool,
}

/// The trials that a filter lets pass, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Arranged {
    /// Their numbers.
    pub numbers: Vec<u64>,
    /// What is wrong with the filter; it is not applied then.
    pub wrong: Option<String>,
}

/// The trials of a study, as the table shows them.
pub trait Trials: Send + Sync {
    /// How many there are.
    fn count(&self) -> usize;
    /// The columns, the most telling first.
    fn columns(&self) -> Vec<Column>;
    /// A trial's cell in each column; empty where there is no such trial.
    fn cells(&self, number: u64) -> Vec<String>;
    /// Those that a filter lets pass. Its words must all hold: `optim.lr<1e-4` is a condition, any other word stands
    /// somewhere in the trial's number, state, reason or parameters.
    fn arranged(&self, filter: &str, sorting: Sorting) -> Arranged;
}

/// Everything about one trial.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Detail {
    /// Its number.
    pub number: u64,
    /// In one line.
    pub title: String,
    /// What it reported, by step.
    pub curve: Vec<(f64, f64)>,
    /// Parameters, attributes, attempts, each with its heading.
    pub sections: Vec<Section>,
    /// The end of its last attempt's log.
    pub log: Section,
}

/// Lines below a heading.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Section {
    /// The heading.
    pub heading: String,
    /// The lines.
    pub lines: Vec<String>,
}
