//! What a report says of made studies.

#![allow(clippy::unwrap_used)]

use serde_json::{Map, json};

use super::*;
use chart::Theme;
use search::space::{Domain, Params, Value};
use search::study::{Direction, Purpose};
use store::{Counts, RunRecord};

fn time(seconds: u64) -> String {
    format!(
        "2026-11-21 {:02}:{:02}:{:02}.000000",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// Trial `n` of a study in which the loss is `x`, and which is faulty where `batch` is 64.
pub(crate) fn trial(n: u64) -> FrozenTrial {
    let x = (n * 37 % 100) as f64 / 100.0;
    let params = Params::from([
        ("x".to_owned(), Value::Float(x)),
        ("batch".to_owned(), Value::Int([8, 16, 64][n as usize % 3])),
    ]);
    let mut trial = FrozenTrial::new(n, TrialState::Complete, params);
    trial.distributions = [
        ("x".to_owned(), Domain::float(0.0, 1.0)),
        ("batch".to_owned(), Domain::choices([8i64, 16, 64])),
    ]
    .into();
    trial.values = vec![x];
    trial.intermediate = [(1, x + 1.0), (2, x)].into();
    trial
}

pub(crate) fn attempt(
    attempt: u32,
    worker: u64,
    (from, to): (u64, u64),
    outcome: &str,
) -> AttemptRecord {
    AttemptRecord {
        attempt,
        run_id: 1,
        worker,
        pid: 1,
        device: "cpu".to_owned(),
        log: String::new(),
        started: time(from),
        ended: Some(time(to)),
        outcome: Some(outcome.to_owned()),
        detail: String::new(),
        again: false,
    }
}

fn run() -> RunEntry {
    RunEntry {
        run_id: 1,
        record: RunRecord {
            pid: 1,
            host: "h".to_owned(),
            version: "0.1.0".to_owned(),
            command: Vec::new(),
            operation: json!({}),
        },
        started: time(0),
        ended: Some(time(4000)),
        exit: Some(0),
    }
}

pub(crate) fn study(trials: Vec<FrozenTrial>, attempts: Vec<(Job, AttemptRecord)>) -> Material {
    let complete = trials.iter().filter(|t| t.state == TrialState::Complete);
    let best = complete.filter_map(|t| Some((t.number, t.only_value()?)));
    Material {
        winner: Direction::Minimize.best(best).map(|(number, _)| number),
        study: StudySummary {
            study_id: 1,
            name: "s".to_owned(),
            directions: vec![Direction::Minimize],
            counts: Counts {
                complete: trials.len() as u64,
                ..Counts::default()
            },
            user_attrs: Map::new(),
            last_activity: None,
        },
        metrics: vec!["loss".to_owned()],
        baseline: Some(Baseline {
            value: 0.8,
            what: "the mean".to_owned(),
        }),
        state: "finished".to_owned(),
        trials,
        selection: None,
        test: None,
        attempts,
        repeats: Vec::new(),
        memory: Vec::new(),
        runs: vec![run()],
        failures: Vec::new(),
        identity: Map::new(),
        others: Vec::new(),
        about: About::new("s", "tune"),
        command: Some("tune s --trials 120".to_owned()),
        database: "tune.db".to_owned(),
        made: "today".to_owned(),
    }
}

/// A hundred and twenty trials on two workers; of those with a batch of 64, half crash once.
pub(crate) fn usual() -> Material {
    let trials: Vec<FrozenTrial> = (0..120).map(trial).collect();
    let mut attempts = Vec::new();
    for n in 0..120u64 {
        let start = 60 * (n / 2);
        let worker = n % 2;
        let job = Job::trial(n);
        if n % 3 == 2 && n % 4 < 2 {
            attempts.push((job, attempt(0, worker, (start, start + 18), "crash")));
            attempts.push((
                job,
                attempt(1, 100 + n, (start + 20, start + 50), "completed"),
            ));
        } else {
            attempts.push((job, attempt(0, worker, (start, start + 50), "completed")));
        }
    }
    study(trials, attempts)
}

fn told(facts: &Facts, about: facts::About) -> &str {
    let found = facts.verdict.iter().find(|s| s.about == about);
    found.map_or("", |s| &s.text)
}

#[test]
fn faults_are_counted_and_cost_what_their_attempts_took() {
    let facts = Facts::new(&usual());
    let crash = &facts.faults[0];
    assert_eq!(
        (crash.kind.as_str(), crash.attempts, crash.trials),
        ("crash", 20, 20)
    );
    assert!((crash.hours - 20.0 * 18.0 / 3600.0).abs() < 1e-9);
    assert!((facts.hours.lost - crash.hours).abs() < 1e-9);
    let whole = (100.0 * 50.0 + 20.0 * 48.0) / 3600.0;
    assert!(
        (facts.hours.trained - whole).abs() < 1e-9,
        "{}",
        facts.hours.trained
    );
}

#[test]
fn the_value_that_goes_with_faults_is_named_and_no_other() {
    let facts = Facts::new(&usual());
    let named: Vec<(&str, &str)> = (facts.lifts.iter())
        .map(|l| (l.name.as_str(), l.values.as_str()))
        .collect();
    assert_eq!(named, [("batch", "64")], "{:?}", facts.lifts);
    let lift = &facts.lifts[0];
    assert_eq!((lift.trials, lift.faulty), (40, 20));
    assert!(lift.low > 1.0 && lift.low < lift.ratio && lift.ratio < lift.high);
    // Without faults, nothing is said of them.
    let none = Facts::new(&study((0..120).map(trial).collect(), Vec::new()));
    assert!(none.lifts.is_empty() && none.faults.is_empty());
}

#[test]
fn the_verdict_says_what_won_by_how_much_and_what_next() {
    let facts = Facts::new(&usual());
    assert!(
        told(&facts, facts::About::Won).starts_with("Trial 0 won, of 120 that finished: loss 0.")
    );
    assert_eq!(
        told(&facts, facts::About::Margin),
        "That is 0.8 better than the trivial answer's 0.8 (the mean)."
    );
    assert!(told(&facts, facts::About::Luck).contains("not known"));
    assert!(told(&facts, facts::About::Wrong).contains("crash 20"));
    let next = told(&facts, facts::About::Next);
    assert!(next.contains("tune s --trials 120 --repeats 5"), "{next}");
    assert!(next.contains("widen x (0, the lower end)"), "{next}");
    // Where nothing beats the trivial answer, no repeat is worth its time.
    let mut poor = usual();
    poor.baseline = Some(Baseline {
        value: -1.0,
        what: String::new(),
    });
    let facts = Facts::new(&poor);
    assert!(
        told(&facts, facts::About::Margin).starts_with("No trial beats the trivial answer's -1.")
    );
    assert!(!told(&facts, facts::About::Next).contains("--repeats"));
    // Nor are more trials where none has given a value.
    let mut diverged = trial(0);
    diverged.state = TrialState::Pruned;
    diverged.values.clear();
    diverged.intermediate.clear();
    let facts = Facts::new(&study(vec![diverged], Vec::new()));
    let next = told(&facts, facts::About::Next);
    assert!(next.contains("before more trials (tune status s says") && !next.contains("Go on"));
}

#[test]
fn the_noise_is_that_within_points_not_between_them() {
    let mut material = usual();
    let repeat = |number, repeat, value| RepeatRecord {
        job: Job {
            number,
            purpose: Purpose::Repeat(repeat),
        },
        seed: 1,
        state: TrialState::Complete,
        value: Some(value),
        attrs: Map::new(),
        started: time(0),
        ended: None,
        attempts: Vec::new(),
    };
    material.repeats = vec![
        repeat(0, 1, 0.0),
        repeat(0, 2, 0.02),
        repeat(1, 1, 5.0),
        repeat(1, 2, 5.02),
        repeat(2, 1, 9.0),
    ];
    let noise = Facts::new(&material).noise.unwrap();
    assert_eq!((noise.trainings, noise.points), (4, 2));
    assert!((noise.deviation - 0.02 / 2f64.sqrt()).abs() < 1e-12);
    assert!((noise.difference - 1.96 * 0.02).abs() < 1e-4);
}

#[test]
fn attempts_stand_in_rows_in_which_one_follows_the_other() {
    let line = timeline::timeline(&usual());
    assert_eq!((line.rows, line.runs.len(), line.length), (2, 1, 4000.0));
    for row in 0..2 {
        let mut of: Vec<_> = line.spans.iter().filter(|s| s.row == row).collect();
        of.sort_by(|a, b| a.from.total_cmp(&b.from));
        assert!(of.windows(2).all(|w| w[0].to <= w[1].from + 0.1));
    }
    let faults = line.spans.iter().filter(|s| s.end == timeline::End::Fault);
    assert_eq!(faults.count(), 20);
    assert!((line.busy() - (100.0 * 50.0 + 20.0 * 48.0) / 8000.0).abs() < 1e-9);
    // A day without a run is no waiting.
    let mut later = usual();
    let mut second = run();
    second.run_id = 2;
    second.started = time(80_000);
    second.ended = Some(time(80_100));
    later.runs.push(second);
    let mut of_second = attempt(0, 0, (80_000, 80_100), "completed");
    of_second.run_id = 2;
    later.attempts.push((Job::trial(119), of_second));
    let line = timeline::timeline(&later);
    assert_eq!(
        (line.length, line.runs.as_slice()),
        (4100.0, &[0.0, 4000.0][..])
    );
}

#[test]
fn every_chart_is_well_formed_or_says_why_it_is_not_there() {
    let mut none = study(Vec::new(), Vec::new());
    none.runs.clear();
    let mut one = study(vec![trial(3)], Vec::new());
    one.trials[0].values = vec![f64::INFINITY];
    for material in [usual(), none, one] {
        let facts = Facts::new(&material);
        for kind in Kind::ALL {
            match figure(*kind, &material, &facts, &[]) {
                Ok(figure) => {
                    assert!(figure.see.ends_with('.'), "{kind}: {}", figure.see);
                    for panel in &figure.panels {
                        let size = chart::Size {
                            width: 600.0,
                            height: panel.height,
                        };
                        let svg = panel.chart.svg(size, Some(Theme::Light));
                        let parsed = roxmltree::Document::parse(&svg);
                        assert!(parsed.is_ok(), "{kind}: {parsed:?}");
                        assert!(
                            !svg.contains("NaN") && !svg.contains("inf"),
                            "{kind}: {svg}"
                        );
                    }
                }
                Err(why) => assert!(why.ends_with(['.', ')']), "{kind}: {why}"),
            }
        }
        let told = facts.left_out.len();
        let page = Page::new(&material, &facts, Scripts::Alone).html();
        assert_eq!(
            page.matches("<section id=").count(),
            Kind::ALL.len() - told
                + 2
                + usize::from(page.contains("id=\"trials\""))
                + usize::from(page.contains("id=\"missing\""))
        );
    }
}

fn page_of(trials: Vec<FrozenTrial>) -> String {
    let material = study(trials, Vec::new());
    Page::new(&material, &Facts::new(&material), Scripts::Alone).html()
}

#[test]
fn a_trial_took_what_its_trainings_took_not_the_days_between_them() {
    let mut one = trial(3);
    one.datetime_start = Some(time(0));
    one.datetime_complete = Some(time(80_000));
    assert!(page_of(vec![one.clone()]).contains("<td data-v=\"80000\">"));
    let job = Job {
        number: 3,
        purpose: Purpose::Search,
    };
    let attempts = [
        attempt(0, 0, (0, 90), "interrupted"),
        attempt(1, 0, (79_990, 80_000), "complete"),
    ];
    let material = study(vec![one], attempts.map(|a| (job, a)).into());
    let page = Page::new(&material, &Facts::new(&material), Scripts::Alone).html();
    assert!(page.contains("<td data-v=\"100\">"));
}

#[test]
fn of_parameters_that_are_all_constant_each_has_one_column() {
    let params = trial(0).params;
    let same = |n| FrozenTrial {
        params: params.clone(),
        ..trial(n)
    };
    let page = page_of((0..30).map(same).collect());
    for name in ["batch", "x"] {
        let heading = format!("<th scope=\"col\">{name}</th>");
        assert_eq!(page.matches(&heading).count(), 1, "{name}");
    }
}
