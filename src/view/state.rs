//! What the view remembers, and what keys and new figures make of it.

use std::cell::Cell;
use std::sync::Arc;

use jiff::Timestamp;

use crate::draw::detail_length;
use crate::{Arranged, Detail, Key, Snapshot, Sorting};

/// Lines that a page key moves.
const PAGE: isize = 10;

/// The longest filter, in characters.
const LONGEST: usize = 200;

/// Something that the view is told.
#[derive(Clone)]
pub enum Input {
    /// A key.
    Key(Key),
    /// New figures.
    Snapshot(Arc<Snapshot>),
    /// All about the trial that [`State::wanted`] asks for.
    Detail(Arc<Detail>),
    /// Figures could not be read, and why; the last ones stay.
    Unread(String),
    /// It is later.
    Time(Timestamp),
}

/// What the view asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing but to be drawn.
    Nothing,
    /// To be closed.
    Leave,
    /// The run to be asked to stop, as Ctrl-C does.
    Stop,
    /// The process to be suspended.
    Suspend,
}

/// The list that keys move in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Focus {
    #[default]
    Trials,
    Running,
    Faults,
}

/// What lies over the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Over {
    #[default]
    Nothing,
    Help,
    /// Whether to leave the view of a run, or to stop the run.
    Leaving,
    /// The filter is edited.
    Filter,
}

/// What the view remembers.
#[derive(Clone)]
pub struct State {
    pub(crate) snapshot: Option<Arc<Snapshot>>,
    pub(crate) detail: Option<Arc<Detail>>,
    /// The trial whose page is shown.
    pub(crate) opened: Option<u64>,
    pub(crate) scroll: usize,
    /// From where on the end of that page is shown, as it was last drawn: what fits, only the drawing knows.
    pub(crate) scroll_ends: Cell<usize>,
    pub(crate) focus: Focus,
    pub(crate) over: Over,
    /// Whether the table has the whole page.
    pub(crate) table_only: bool,
    pub(crate) filter: String,
    pub(crate) sorting: Sorting,
    pub(crate) arranged: Arranged,
    /// The trial that is chosen in the table; `None`: the first one, whichever it is.
    chosen: Option<u64>,
    /// The row that is chosen in another list.
    pub(crate) row: usize,
    /// What went wrong with the last look.
    pub(crate) unread: Option<String>,
    pub(crate) now: Timestamp,
    /// Whether it is the view of a run of this process.
    pub(crate) of_run: bool,
    /// Whether that run was asked to stop.
    pub(crate) asked_to_stop: bool,
}

impl State {
    /// Before anything is known. `of_run`: this process runs the study, and leaving is asked about.
    pub fn new(now: Timestamp, of_run: bool) -> State {
        State {
            snapshot: None,
            detail: None,
            opened: None,
            scroll: 0,
            scroll_ends: Cell::new(usize::MAX),
            focus: Focus::default(),
            over: Over::default(),
            table_only: false,
            filter: String::new(),
            sorting: Sorting::default(),
            arranged: Arranged::default(),
            chosen: None,
            row: 0,
            unread: None,
            now,
            of_run,
            asked_to_stop: false,
        }
    }

    /// The trial of which all is to be read.
    pub fn wanted(&self) -> Option<u64> {
        self.opened
    }

    /// Takes an input.
    pub fn update(&mut self, input: Input) -> Effect {
        match input {
            Input::Key(key) => return self.press(key),
            Input::Snapshot(snapshot) => {
                self.snapshot = Some(snapshot);
                self.unread = None;
                self.arrange();
                // Of a list that got shorter, the last row is chosen.
                self.row = self.row.min(self.rows().saturating_sub(1));
            }
            Input::Detail(detail) => {
                if self.opened == Some(detail.number) {
                    self.detail = Some(detail);
                    self.unread = None;
                }
            }
            Input::Unread(why) => self.unread = Some(why),
            Input::Time(now) => self.now = now,
        }
        Effect::Nothing
    }

    /// The place of the chosen trial in the table.
    pub(crate) fn place(&self) -> usize {
        let number = self.chosen;
        let at = number.and_then(|n| self.arranged.numbers.iter().position(|m| *m == n));
        at.unwrap_or(0)
    }

    fn arrange(&mut self) {
        if let Some(snapshot) = &self.snapshot {
            self.arranged = snapshot.trials.arranged(&self.filter, self.sorting);
        }
    }

    fn press(&mut self, key: Key) -> Effect {
        if key == Key::Suspend {
            return Effect::Suspend;
        }
        if key == Key::Interrupt {
            return match self.of_run {
                true => self.stop(),
                false => Effect::Leave,
            };
        }
        match self.over {
            Over::Nothing => self.press_page(key),
            Over::Help => {
                self.over = Over::Nothing;
                Effect::Nothing
            }
            Over::Leaving => self.answer(key),
            Over::Filter => {
                self.edit(key);
                Effect::Nothing
            }
        }
    }

    fn stop(&mut self) -> Effect {
        self.over = Over::Nothing;
        self.asked_to_stop = true;
        Effect::Stop
    }

    /// The answer to whether to leave.
    fn answer(&mut self, key: Key) -> Effect {
        if matches!(key, Key::Char('q' | 'y') | Key::Enter) {
            return Effect::Leave;
        }
        if key == Key::Char('s') {
            return self.stop();
        }
        if matches!(key, Key::Char('n') | Key::Esc) {
            self.over = Over::Nothing;
        }
        Effect::Nothing
    }

    /// A key while the filter is edited, which holds at once.
    fn edit(&mut self, key: Key) {
        let room = self.filter.chars().count() < LONGEST;
        match (key, room) {
            (Key::Enter, _) => self.over = Over::Nothing,
            (Key::Esc, _) => {
                self.over = Over::Nothing;
                self.filter.clear();
            }
            (Key::Backspace, _) => drop(self.filter.pop()),
            (Key::Clear, _) => self.filter.clear(),
            (Key::Char(c), true) => self.filter.push(c),
            (Key::Up, _) => return self.go(-1),
            (Key::Down, _) => return self.go(1),
            (_, _) => return,
        }
        self.arrange();
    }

    fn press_page(&mut self, key: Key) -> Effect {
        match (key, self.opened.is_some()) {
            (Key::Char('q'), _) if self.of_run => self.over = Over::Leaving,
            (Key::Char('q'), _) => return Effect::Leave,
            (Key::Char('?'), _) => self.over = Over::Help,
            (Key::Char('j') | Key::Down, _) => self.go(1),
            (Key::Char('k') | Key::Up, _) => self.go(-1),
            (Key::PageDown | Key::Char(' '), _) => self.go(PAGE),
            (Key::PageUp, _) => self.go(-PAGE),
            (Key::Home | Key::Char('g'), _) => self.go(isize::MIN),
            (Key::End | Key::Char('G'), _) => self.go(isize::MAX),
            (Key::Esc | Key::Left | Key::Backspace, true) => self.open(None),
            (Key::Char('n'), true) => self.neighbour(1),
            (Key::Char('p'), true) => self.neighbour(-1),
            (_, true) => {}
            (_, false) => self.press_overview(key),
        }
        Effect::Nothing
    }

    fn press_overview(&mut self, key: Key) {
        match (key, self.table_only) {
            (Key::Enter | Key::Right, _) => self.open(self.pointed()),
            (Key::Tab, false) => self.turn(1),
            (Key::BackTab, false) => self.turn(2),
            (Key::Char('/'), _) => {
                self.focus = Focus::Trials;
                self.over = Over::Filter;
            }
            (Key::Char('t'), only) => {
                self.table_only = !only;
                self.focus = Focus::Trials;
            }
            (Key::Char('s'), _) => self.sort_by_next(1),
            (Key::Char('S'), _) => self.sort_by_next(-1),
            (Key::Char('r'), _) => {
                self.sorting.reverse = !self.sorting.reverse;
                self.arrange();
            }
            // Back to the whole table, then to the whole page.
            (Key::Esc, _) if self.filter.is_empty() => self.table_only = false,
            (Key::Esc, _) => {
                self.filter.clear();
                self.arrange();
            }
            (_, _) => {}
        }
    }

    fn open(&mut self, number: Option<u64>) {
        self.opened = number;
        self.detail = None;
        self.scroll = 0;
        self.scroll_ends.set(usize::MAX);
    }

    /// The trial that is chosen in the list that keys move in.
    fn pointed(&self) -> Option<u64> {
        let snapshot = self.snapshot.as_ref()?;
        match self.focus {
            Focus::Trials => self.arranged.numbers.get(self.place()).copied(),
            Focus::Running => snapshot.running.get(self.row).map(|r| r.number),
            Focus::Faults => snapshot.faults.get(self.row).map(|f| f.number),
        }
    }

    /// The next list that has something in it.
    fn turn(&mut self, by: usize) {
        const ALL: [Focus; 3] = [Focus::Trials, Focus::Running, Focus::Faults];
        let Some(snapshot) = self.snapshot.as_ref() else {
            return;
        };
        let is_empty = |focus| match focus {
            Focus::Trials => false,
            Focus::Running => snapshot.running.is_empty(),
            Focus::Faults => snapshot.faults.is_empty(),
        };
        let mut at = ALL.iter().position(|f| *f == self.focus).unwrap_or(0);
        loop {
            at = (at + by) % ALL.len();
            if !is_empty(ALL[at]) {
                break;
            }
        }
        self.focus = ALL[at];
        self.row = 0;
    }

    /// Moves by so many lines in what is shown.
    fn go(&mut self, by: isize) {
        let moved = |at: usize, count: usize| {
            let last = count.saturating_sub(1);
            at.saturating_add_signed(by).min(last)
        };
        if self.opened.is_some() {
            let lines = self.detail.as_ref().map_or(0, |d| detail_length(d));
            self.scroll = moved(self.scroll.min(self.scroll_ends.get()), lines);
            return;
        }
        match self.focus {
            Focus::Trials => {
                let place = moved(self.place(), self.rows());
                // At the top the best is followed, whichever it is.
                let number = self.arranged.numbers.get(place).copied();
                self.chosen = number.filter(|_| place > 0);
            }
            Focus::Running | Focus::Faults => self.row = moved(self.row, self.rows()),
        }
    }

    /// How many rows the list has that keys move in.
    fn rows(&self) -> usize {
        let of = |snapshot: &Arc<Snapshot>| match self.focus {
            Focus::Trials => self.arranged.numbers.len(),
            Focus::Running => snapshot.running.len(),
            Focus::Faults => snapshot.faults.len(),
        };
        self.snapshot.as_ref().map_or(0, of)
    }

    /// From a trial's page to that of the one before or behind it in the table.
    fn neighbour(&mut self, by: isize) {
        let numbers = &self.arranged.numbers;
        let at = numbers.iter().position(|n| Some(*n) == self.opened);
        let next = at.and_then(|at| at.checked_add_signed(by));
        if let Some(number) = next.and_then(|at| numbers.get(at).copied()) {
            self.focus = Focus::Trials;
            self.chosen = Some(number);
            self.open(Some(number));
        }
    }

    /// The best first, then by one column after the other.
    fn sort_by_next(&mut self, by: isize) {
        let Some(snapshot) = &self.snapshot else {
            return;
        };
        let count = snapshot.trials.columns().len() as isize + 1;
        let now = self.sorting.column.map_or(0, |c| c as isize + 1);
        let next = (now + by).rem_euclid(count);
        self.sorting.column = usize::try_from(next - 1).ok();
        self.arrange();
    }
}
