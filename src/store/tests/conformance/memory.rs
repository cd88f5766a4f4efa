//! The memory ledger.

use super::*;
use ::memory::{Entry, Estimate, Usage};
use config::{Objective, Operation, StudySpec};
use device::Device;
use search::space::Space;
use search::study::Purpose;

fn entry(peak: u64, outcome: &str) -> Entry {
    Entry {
        device: Device::Cuda(1),
        capacity: Some(24 << 30),
        usage: Usage {
            allocated: Some(peak - 6),
            reserved: Some(peak - 5),
            unallocated: Some(3),
            inactive_split: Some(4),
            retries: Some(5),
            ooms: Some(6),
            process: Some(peak),
            context: Some(2),
            resident: Some(9),
            resident_before: Some(10),
        },
        grant: Some(11),
        predicted: Some(Estimate {
            lower: 12,
            expected: 13,
            upper: 14,
        }),
        halvings: 2,
        outcome: outcome.into(),
    }
}

fn used(number: u64, purpose: Purpose, attempt: u32, entry: &Entry) -> Write {
    Write::MemoryUsed {
        id: Job { number, purpose }.attempt(attempt),
        entry: Box::new(entry.clone()),
    }
}

#[test]
fn every_figure_of_an_attempt_comes_back() {
    let mut bench = Bench::new();
    bench.start(0);
    let full = entry(1_000, "oom");
    let bare = Entry {
        capacity: None,
        usage: Usage::default(),
        grant: None,
        predicted: None,
        halvings: 0,
        ..entry(1_000, "crash")
    };
    bench.apply(&[
        used(0, Purpose::Search, 1, &bare),
        used(0, Purpose::Search, 0, &full),
        used(0, Purpose::Repeat(2), 0, &full),
        used(0, Purpose::Test, 0, &bare),
    ]);
    let read = bench.store.memory(bench.study).unwrap();
    let lines: Vec<(Job, u32)> = read.iter().map(|r| (r.job, r.attempt)).collect();
    let trial = Job::trial(0);
    let expected = [
        (trial, 0),
        (trial, 1),
        (Job::repeat(0, 2), 0),
        (Job::test(0), 0),
    ];
    assert_eq!(lines, expected);
    assert_eq!((&read[0].entry, &read[1].entry), (&full, &bare));
}

#[test]
fn a_line_that_is_written_again_stands_once_and_goes_with_its_trial() {
    let mut bench = Bench::new();
    bench.start(0);
    bench.apply(&[used(0, Purpose::Search, 0, &entry(1_000, "oom"))]);
    bench.apply(&[used(0, Purpose::Search, 0, &entry(2_000, "oom"))]);
    let read = bench.store.memory(bench.study).unwrap();
    assert_eq!(read.len(), 1);
    assert_eq!(read[0].entry.peak(), Some(2_000));
    let other = bench.other();
    other.batch(DELETE_TRIALS).unwrap();
    assert!(bench.store.memory(bench.study).unwrap().is_empty());
    let left: u64 = other
        .value("SELECT COUNT(*) FROM tune_memory", &[])
        .unwrap();
    assert_eq!(left, 0);
}

/// A recorded run of a study of this task.
fn recorded(task: &str) -> RunRecord {
    let spec = StudySpec {
        task: task.into(),
        kind: "synthetic".into(),
        file: "t.toml".into(),
        study: task.into(),
        objective: Objective {
            metric: "loss".into(),
            direction: Direction::Minimize,
        },
        further: vec![],
        seed: 0,
        space: Space::default(),
        fixed: [("model.width".to_owned(), Value::Int(77))].into(),
        sources: Default::default(),
        lists: [].into(),
        models: [].into(),
        points: vec![],
        operation: Operation::sample(3),
    };
    RunRecord {
        operation: spec.to_record(),
        ..run_record()
    }
}

#[test]
fn observations_come_from_all_studies_of_the_task_with_the_whole_configuration() {
    let mut bench = Bench::new();
    for (name, task) in [("a", "mine"), ("b", "other"), ("c", "mine")] {
        let study = bench
            .store
            .create_study(
                &NewStudy {
                    name,
                    directions: &[Direction::Minimize],
                    user_attrs: &Map::new(),
                    identity: &Map::new(),
                },
                &[],
            )
            .unwrap();
        let run = bench.store.begin_run(study, &recorded(task)).unwrap();
        let ends = [(1_000, "oom"), (2_000, "completed"), (3_000, "killed")];
        let mut writes = vec![created(0), started(0, 0)];
        let lines = ends.iter().enumerate();
        writes.extend(
            lines.map(|(i, (peak, end))| used(0, Purpose::Search, i as u32, &entry(*peak, end))),
        );
        bench.store.apply(study, run, &writes).unwrap();
    }
    let found = bench
        .store
        .memory_observations("synthetic", "mine")
        .unwrap();
    let peaks: Vec<_> = found
        .iter()
        .map(|f| (f.observation.peak, f.observation.censored))
        .collect();
    assert_eq!(peaks, [(1_000, true), (2_000, false)].repeat(2));
    let config = &found[0].observation.config;
    assert_eq!(config["model.width"], Value::Int(77), "fixed");
    assert_eq!(config["lr"], Value::Float(0.01), "searched");
    assert_eq!(config["model.layers"], Value::Int(2), "the preset");
    assert_eq!((found[0].device, found[0].halvings), (Device::Cuda(1), 2));
    let none = bench.store.memory_observations("command", "mine").unwrap();
    assert!(none.is_empty());
}
