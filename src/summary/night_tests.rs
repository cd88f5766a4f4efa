//! The faults of a made night: steps of time, culprits, what to do next.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::tests::{attempt, study, trial, usual};
use search::study::{FrozenTrial, Job};

#[test]
fn every_fault_is_in_one_period_and_the_periods_are_few() {
    for (last, period_s) in [(1000, 60), (40_000, 3600), (86_399, 10_800)] {
        let attempts = [(0, 10), (500, 900), (last - 5, last)];
        let attempts = attempts.map(|span| (Job::trial(0), attempt(0, 0, span, "oom")));
        let night = Night::new(&study(vec![trial(0)], attempts.to_vec()));
        let over = night.over_time.unwrap();
        assert_eq!(over.period_s, period_s);
        assert!(over.periods.len() <= PERIODS as usize);
        assert_eq!(
            over.periods
                .iter()
                .map(|p| p.kinds.get("oom").copied().unwrap_or(0))
                .sum::<u64>(),
            3
        );
    }
}

#[test]
fn nothing_is_told_over_time_where_nothing_went_wrong() {
    let attempts = vec![(Job::trial(0), attempt(0, 0, (0, 10), "completed"))];
    let night = Night::new(&study(vec![trial(0)], attempts));
    assert!(night.over_time.is_none() && night.culprits.is_empty() && night.next.is_empty());
    assert_eq!((night.attempts, night.faulty), (1, 0));
}

#[test]
fn who_ended_by_a_fault_stands_before_who_came_through() {
    let ended = |number, state| FrozenTrial {
        state,
        ..trial(number)
    };
    let trials = vec![
        ended(0, TrialState::Complete),
        ended(1, TrialState::Pruned),
        ended(2, TrialState::Complete),
        ended(3, TrialState::Complete),
    ];
    let mut again = attempt(0, 0, (0, 100), "crash");
    again.again = true;
    let attempts = vec![
        (Job::trial(0), again.clone()),
        (Job::trial(0), attempt(1, 1, (100, 110), "completed")),
        (
            Job::trial(1),
            AttemptRecord {
                worker: 2,
                ..again.clone()
            },
        ),
        (Job::trial(1), attempt(1, 3, (120, 130), "cuda_sticky")),
        // A victim of trial 1, and what came from outside.
        (Job::trial(2), attempt(0, 3, (131, 132), "poisoned")),
        (Job::trial(3), attempt(0, 4, (131, 132), "killed")),
    ];
    let night = Night::new(&study(trials, attempts));
    let told: Vec<_> = night
        .culprits
        .iter()
        .map(|c| (c.number, c.ended_by_it, c.victims))
        .collect();
    assert_eq!(told, [(1, true, 1), (0, false, 0)]);
    assert_eq!(night.next[0].command, "tune bisect s 1");
}

#[test]
fn the_hours_are_those_of_the_report() {
    let night = Night::new(&usual());
    let facts = crate::Facts::new(&usual());
    assert_eq!((night.hours, night.kinds), (facts.hours, facts.faults));
    assert_eq!(
        night.devices,
        [OfDevice {
            device: "cpu".to_owned(),
            attempts: 140,
            faulty: 20
        }]
    );
}
