//! The view as people use it: keys in, screens out, at several sizes.

use std::sync::Arc;

use jiff::Timestamp;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use crate::{
    Arranged, Column, Detail, Effect, FaultLine, Input, Key, Looks, Meter, Mood, Running, Section,
    Snapshot, Sorting, State, Trials, draw,
};
use messages::testing::{HOSTILE, harmful_in};

const FINE: Looks = Looks {
    unicode: true,
    colour: true,
};

const PLAIN: Looks = Looks {
    unicode: false,
    colour: false,
};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

/// Trials whose value falls with their number, of which the filter's words stand in the state.
struct Table {
    count: u64,
    states: Vec<String>,
}

impl Table {
    fn state(&self, number: u64) -> &str {
        &self.states[number as usize % self.states.len()]
    }
}

impl Trials for Table {
    fn count(&self) -> usize {
        self.count as usize
    }

    fn columns(&self) -> Vec<Column> {
        let column = |heading: &str, right, kept| Column {
            heading: heading.to_owned(),
            right,
            kept,
        };
        vec![
            column("trial", true, true),
            column("state", false, true),
            column("loss", true, true),
            column("lr", true, false),
        ]
    }

    fn cells(&self, number: u64) -> Vec<String> {
        let value = format!("0.{:03}", 999 - number);
        vec![
            number.to_string(),
            self.state(number).to_owned(),
            value,
            "1e-4".to_owned(),
        ]
    }

    fn arranged(&self, filter: &str, sorting: Sorting) -> Arranged {
        if filter.contains('<') {
            return Arranged {
                numbers: (0..self.count).collect(),
                wrong: Some(format!("no trial has {filter}")),
            };
        }
        let passes = |n: &u64| self.state(*n).contains(filter);
        let mut numbers: Vec<u64> = (0..self.count).filter(passes).collect();
        // The best, with the lowest loss, is the last one.
        let falls = sorting.column.is_none() || sorting.column == Some(2);
        if falls != sorting.reverse {
            numbers.reverse();
        }
        Arranged {
            numbers,
            wrong: None,
        }
    }
}

fn snapshot(count: u64) -> Snapshot {
    let running = |number: u64| Running {
        number,
        attempt: (number % 2) as u32,
        device: "cuda:0".to_owned(),
        step: Some(3),
        curve: vec![0.9, 0.7, 0.4],
        memory: "1.50 GiB".to_owned(),
        started: Some(at(-75)),
    };
    let fault = |number, text: &str| FaultLine {
        number,
        text: text.to_owned(),
        at: Some(at(-190)),
    };
    Snapshot {
        study: "criteria".to_owned(),
        objective: "minimize loss".to_owned(),
        metric: "loss".to_owned(),
        step: "epoch",
        state: "running".to_owned(),
        advice: Vec::new(),
        mood: Mood::Running,
        since: Some(at(-7200)),
        finished: 12,
        goal: Some(48),
        progress: [
            "12 of 48 finished (10 complete, 2 pruned); 1 failed",
            "6.0/h",
            "6 h 00 min left",
        ]
        .map(str::to_owned)
        .to_vec(),
        best: "loss 0.2 (trial 7)".to_owned(),
        trivial: "trivial answer 0.6: the mean".to_owned(),
        warnings: Vec::new(),
        history: vec![(0.0, 0.5), (1800.0, 0.3), (3600.0, 0.2), (7200.0, 0.2)],
        history_ends: ("2 h ago".to_owned(), "now".to_owned()),
        level: Some(0.6),
        running: vec![running(12), running(13)],
        slots: Some(4),
        machine: vec![Meter {
            label: "gpu 0".to_owned(),
            share: Some(0.6),
            mark: Some(0.8),
            text: "14.4 of 24.0 GiB, 97 % busy, 71 °C".to_owned(),
            trouble: "slowed down by sw_power_cap".to_owned(),
        }],
        faults: vec![
            fault(4, "out of GPU memory, runs again"),
            fault(3, "crash: SIGSEGV, runs again"),
        ],
        trials: Arc::new(Table {
            count,
            states: ["COMPLETE", "PRUNED", "COMPLETE", "FAIL"]
                .map(str::to_owned)
                .to_vec(),
        }),
    }
}

fn state(of_run: bool) -> State {
    let mut state = State::new(at(0), of_run);
    state.update(Input::Snapshot(Arc::new(snapshot(14))));
    state
}

fn press(state: &mut State, keys: &str) -> Effect {
    let mut effect = Effect::Nothing;
    for c in keys.chars() {
        effect = state.update(Input::Key(match c {
            '\n' => Key::Enter,
            '\u{1b}' => Key::Esc,
            '\t' => Key::Tab,
            '\u{8}' => Key::Backspace,
            c => Key::Char(c),
        }));
    }
    effect
}

fn screen(state: &State, looks: Looks, (columns, rows): (u16, u16)) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal
        .draw(|frame| draw(state, looks, frame.buffer_mut()))
        .unwrap();
    let buffer = terminal.backend().buffer();
    let row = |y: u16| {
        let cells = (0..columns).map(|x| buffer[(x, y)].symbol());
        cells.collect::<String>().trim_end().to_owned()
    };
    (0..rows).map(row).collect()
}

fn line<'a>(screen: &'a [String], with: &str) -> &'a str {
    let found = screen.iter().find(|line| line.contains(with));
    found.unwrap_or_else(|| panic!("no {with} in\n{}", screen.join("\n")))
}

#[test]
fn a_narrow_screen_has_the_important_things_in_order() {
    let seen = screen(&state(false), PLAIN, (60, 24));
    assert!(
        seen[0].starts_with("criteria  minimize loss") && seen[0].ends_with("running 2 h 00 min")
    );
    assert!(
        seen[1].starts_with("###.........  12 of 48 finished"),
        "{}",
        seen[1]
    );
    assert!(seen[2].starts_with("best loss 0.2 (trial 7)  trivial answer 0.6"));
    line(&seen, "running 2 of 4 ---");
    assert_eq!(
        line(&seen, "   12      3   0.4  "),
        "   12      3   0.4  #=_      1 min 15 s           1.50 GiB"
    );
    line(&seen, "gpu 0  #########...|..");
    line(&seen, "3 min 10 s  trial 4: out of GPU memory, runs again");
    line(&seen, "trials 14, the best first ---");
    assert!(seen[23].starts_with("q quit   ? keys   Enter the trial   / filter"));
    assert!(seen.iter().all(|line| line.is_ascii()), "{seen:?}");
}

#[test]
fn every_size_can_be_drawn_and_small_ones_keep_best_and_keys() {
    let mut state = state(false);
    for open in [false, true] {
        for columns in [1, 20, 40, 59, 60, 80, 100, 139, 140, 200, 250] {
            for rows in [1, 7, 8, 10, 15, 24, 40, 80] {
                let seen = screen(&state, FINE, (columns, rows));
                if columns >= 60 && rows >= 8 && !open {
                    line(&seen, "best loss 0.2 (trial 7)");
                    assert!(seen.last().unwrap().starts_with("q quit"));
                }
            }
        }
        press(&mut state, "\n");
        assert_eq!(state.wanted(), Some(13));
        state.update(Input::Detail(Arc::new(detail())));
    }
}

#[test]
fn on_a_wide_screen_the_table_stands_beside_the_rest() {
    let seen = screen(&state(false), FINE, (200, 40));
    let both = line(&seen, "running 2 of 4 ─");
    assert!(both.contains("trials 14, the best first ─"), "{both}");
    line(&seen, "╌╌ trivial answer ╌╌");
}

#[test]
fn the_filter_holds_as_it_is_typed_and_says_what_is_wrong_with_it() {
    let mut state = state(false);
    press(&mut state, "/FA");
    let seen = screen(&state, PLAIN, (100, 30));
    line(&seen, "trials 3 of 14, the best first, /FA ---");
    assert!(seen[29].starts_with("/FA_ "), "{}", seen[29]);
    press(&mut state, "\u{8}\u{8}q<1");
    line(&screen(&state, PLAIN, (100, 30)), "no trial has q<1");
    // Enter keeps a filter, Esc drops it; q is a letter as long as it is edited.
    press(&mut state, "\u{1b}/PR\n");
    line(
        &screen(&state, PLAIN, (100, 30)),
        "trials 4 of 14, the best first, /PR",
    );
    press(&mut state, "\u{1b}");
    line(
        &screen(&state, PLAIN, (100, 30)),
        "trials 14, the best first",
    );
    press(&mut state, "/nothing like it\n");
    line(
        &screen(&state, PLAIN, (100, 30)),
        "no trial passes the filter",
    );
}

#[test]
fn the_table_is_sorted_by_one_column_after_the_other() {
    let mut state = state(false);
    let title = |state: &State| line(&screen(state, PLAIN, (100, 30)), "trials 14").to_owned();
    press(&mut state, "s");
    assert!(title(&state).starts_with("trials 14, by trial ---"));
    press(&mut state, "r");
    assert!(title(&state).starts_with("trials 14, by trial, reversed ---"));
    press(&mut state, "rSS");
    assert!(title(&state).starts_with("trials 14, by lr ---"));
    press(&mut state, "s");
    assert!(title(&state).starts_with("trials 14, the best first ---"));
}

#[test]
fn the_chosen_trial_stays_chosen_when_others_come() {
    let mut state = state(false);
    press(&mut state, "jj\n");
    assert_eq!(state.wanted(), Some(11));
    press(&mut state, "\u{1b}");
    state.update(Input::Snapshot(Arc::new(snapshot(20))));
    press(&mut state, "\n");
    assert_eq!(state.wanted(), Some(11));
    // At the top it is the best, whichever that is.
    press(&mut state, "\u{1b}g\n");
    assert_eq!(state.wanted(), Some(19));
    press(&mut state, "n");
    assert_eq!(state.wanted(), Some(18));
    press(&mut state, "pp");
    assert_eq!(state.wanted(), Some(19));
    press(&mut state, "\u{1b}G\n");
    assert_eq!(state.wanted(), Some(0));
}

#[test]
fn tab_leads_to_running_trials_and_faults() {
    let mut state = state(false);
    press(&mut state, "\tj\n");
    assert_eq!(state.wanted(), Some(13));
    press(&mut state, "\u{1b}\tjjj\n");
    assert_eq!(state.wanted(), Some(3));
    press(&mut state, "\u{1b}\t\n");
    assert_eq!(state.wanted(), Some(13));
    let mut none = snapshot(3);
    none.running.clear();
    none.faults.clear();
    state.update(Input::Key(Key::Esc));
    state.update(Input::Snapshot(Arc::new(none)));
    press(&mut state, "\t\n");
    assert_eq!(state.wanted(), Some(2));
}

#[test]
fn of_a_list_that_gets_shorter_the_last_row_is_chosen() {
    let mut state = state(false);
    press(&mut state, "\tj");
    let mut fewer = snapshot(14);
    fewer.running.truncate(1);
    state.update(Input::Snapshot(Arc::new(fewer)));
    press(&mut state, "\n");
    assert_eq!(state.wanted(), Some(12));
}

fn detail() -> Detail {
    let section = |heading: &str, lines: usize| Section {
        heading: heading.to_owned(),
        lines: (0..lines).map(|i| format!("{heading} {i}")).collect(),
    };
    Detail {
        number: 13,
        title: "COMPLETE, loss 0.986, 12.0 s".to_owned(),
        curve: vec![(0.0, 0.9), (1.0, 0.5), (2.0, 0.3)],
        sections: vec![section("parameters", 30), section("attempt 0", 3)],
        log: section("log", 9),
    }
}

#[test]
fn the_page_of_a_trial_scrolls_and_leads_back() {
    let mut state = state(false);
    press(&mut state, "\n");
    line(&screen(&state, PLAIN, (80, 30)), "trial 13  reading");
    // What was asked for before is not taken for it.
    let other = Detail {
        number: 5,
        ..detail()
    };
    state.update(Input::Detail(Arc::new(other)));
    line(&screen(&state, PLAIN, (80, 30)), "trial 13  reading");
    state.update(Input::Detail(Arc::new(detail())));
    let seen = screen(&state, PLAIN, (80, 30));
    line(&seen, "trial 13  COMPLETE, loss 0.986, 12.0 s");
    line(&seen, "parameters 0");
    assert!(!seen.concat().contains("log 8"));
    press(&mut state, "G");
    line(&screen(&state, PLAIN, (80, 30)), "log 8");
    press(&mut state, "g");
    line(&screen(&state, PLAIN, (80, 30)), "parameters 0");
    // Beside each other where there is room.
    let wide = screen(&state, PLAIN, (160, 30));
    line(&wide, "log 8");
    line(&wide, "parameters 0");
    press(&mut state, "\u{1b}");
    line(&screen(&state, PLAIN, (80, 30)), "trials 14");
}

#[test]
fn from_the_end_of_a_trials_page_the_first_key_leads_up() {
    let mut state = state(false);
    press(&mut state, "\n");
    state.update(Input::Detail(Arc::new(detail())));
    press(&mut state, "G");
    let end = screen(&state, PLAIN, (80, 30));
    press(&mut state, "k");
    assert_ne!(screen(&state, PLAIN, (80, 30)), end);
    press(&mut state, "j");
    assert_eq!(screen(&state, PLAIN, (80, 30)), end);
}

#[test]
fn q_leaves_and_never_ends_a_run_without_asking() {
    let mut watching = state(false);
    assert_eq!(press(&mut watching, "q"), Effect::Leave);
    assert_eq!(watching.update(Input::Key(Key::Interrupt)), Effect::Leave);

    let mut running = state(true);
    assert_eq!(press(&mut running, "q"), Effect::Nothing);
    line(
        &screen(&running, PLAIN, (80, 24)),
        "Leave the view? The run goes on.  Enter leave   s stop the run   Esc stay",
    );
    assert_eq!(press(&mut running, "x\u{1b}"), Effect::Nothing);
    assert_eq!(press(&mut running, "q\n"), Effect::Leave);
    assert_eq!(press(&mut running, "\u{1b}qs"), Effect::Stop);
    line(&screen(&running, PLAIN, (80, 24)), "asked to stop");
    assert_eq!(running.update(Input::Key(Key::Interrupt)), Effect::Stop);
    assert_eq!(running.update(Input::Key(Key::Suspend)), Effect::Suspend);
}

#[test]
fn the_help_names_the_keys_and_any_key_closes_it() {
    let mut state = state(false);
    press(&mut state, "?");
    let seen = screen(&state, FINE, (80, 30));
    line(&seen, "optim.lr<1e-4");
    line(&seen, "This view only reads");
    assert_eq!(press(&mut state, "q"), Effect::Nothing);
    assert!(
        !screen(&state, FINE, (80, 30))
            .concat()
            .contains("This view only reads")
    );
}

#[test]
fn what_cannot_be_read_is_told_and_the_last_figures_stay() {
    let mut state = state(false);
    state.update(Input::Unread("tune.db: disk I/O error".to_owned()));
    let seen = screen(&state, PLAIN, (80, 24));
    line(&seen, "tune.db: disk I/O error");
    line(&seen, "best loss 0.2");
    state.update(Input::Snapshot(Arc::new(snapshot(15))));
    assert!(
        !screen(&state, PLAIN, (80, 24))
            .concat()
            .contains("disk I/O")
    );
}

#[test]
fn hostile_text_is_text_everywhere() {
    let long = HOSTILE.repeat(1000);
    let mut hostile = snapshot(4);
    for text in [
        &mut hostile.study,
        &mut hostile.objective,
        &mut hostile.metric,
        &mut hostile.state,
        &mut hostile.best,
        &mut hostile.trivial,
        &mut hostile.faults[0].text,
        &mut hostile.progress[1],
    ] {
        text.clone_from(&long);
    }
    hostile.machine[0] = Meter {
        label: long.clone(),
        text: long.clone(),
        trouble: long.clone(),
        ..Meter::default()
    };
    hostile.running[0].device.clone_from(&long);
    hostile.running[1].memory.clone_from(&long);
    hostile.warnings = vec![long.clone()];
    hostile.advice = vec![long.clone()];
    hostile.trials = Arc::new(Table {
        count: 4,
        states: vec![long.clone()],
    });
    let mut state = State::new(at(0), false);
    state.update(Input::Snapshot(Arc::new(hostile)));
    state.update(Input::Unread(long.clone()));
    let mut trial = detail();
    trial.number = 3;
    trial.title.clone_from(&long);
    trial.sections[0].heading.clone_from(&long);
    trial.sections[0].lines = vec![long.clone(); 3];
    trial.log.lines = vec![long; 3];
    for size in [(60, 20), (100, 40), (200, 40)] {
        for looks in [FINE, PLAIN] {
            let overview = screen(&state, looks, size);
            assert_eq!(harmful_in(&overview.concat()), []);
            let mut opened = state.clone();
            press(&mut opened, "\n");
            opened.update(Input::Detail(Arc::new(trial.clone())));
            assert_eq!(harmful_in(&screen(&opened, looks, size).concat()), []);
        }
    }
}

#[test]
fn five_thousand_trials_cost_no_more_to_draw_than_what_is_seen() {
    // A key moves and draws in far less than the 50 ms that people notice; how long is in docs/performance.md.
    let mut state = State::new(at(0), false);
    let mut many = snapshot(0);
    many.trials = Arc::new(Counting::default());
    let counting = Arc::new(Counting::default());
    many.trials = Arc::<Counting>::clone(&counting);
    state.update(Input::Snapshot(Arc::new(many)));
    press(&mut state, "G");
    screen(&state, FINE, (200, 50));
    let asked = counting.0.load(std::sync::atomic::Ordering::Relaxed);
    assert!((40..=50).contains(&asked), "{asked}");
}

/// 5,000 trials that count how often their cells are asked for.
#[derive(Default)]
struct Counting(std::sync::atomic::AtomicUsize);

impl Trials for Counting {
    fn count(&self) -> usize {
        5000
    }

    fn columns(&self) -> Vec<Column> {
        Vec::new()
    }

    fn cells(&self, _: u64) -> Vec<String> {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Vec::new()
    }

    fn arranged(&self, _: &str, _: Sorting) -> Arranged {
        Arranged {
            numbers: (0..5000).collect(),
            wrong: None,
        }
    }
}
