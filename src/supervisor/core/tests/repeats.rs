//! Repeats, the winner and its test, in the simulated world.

use proptest::prelude::*;

use super::super::*;
use super::disk::Disk;
use super::setup::spec;
use super::world::{World, results};
use config::TestPolicy;
use search::study::Purpose;

fn repeated(trials: u64, slots: usize, repeats: u32) -> StudySpec {
    let mut spec = spec(trials, slots);
    spec.operation.repeats = repeats;
    spec
}

fn finished(spec: StudySpec, disk: Disk, seed: u64) -> World {
    let mut world = World::new(spec, disk, seed, 0.0);
    world.run(50_000);
    assert_eq!(world.finished, Some(Exit::Done));
    world
}

/// Repeats of each trial, and the trials that were tested.
fn counts(disk: &Disk) -> (Vec<usize>, Vec<u64>) {
    let mut each: BTreeMap<u64, usize> = BTreeMap::new();
    let mut tested = Vec::new();
    for (job, repeat) in &disk.repeats {
        assert!(repeat.ended.is_some(), "{job}");
        match job.purpose {
            Purpose::Repeat(_) => *each.entry(job.number).or_default() += 1,
            Purpose::Test => tested.push(job.number),
            Purpose::Search => panic!("{job} is no repeat"),
        }
    }
    let mut each: Vec<usize> = each.into_values().collect();
    each.sort_unstable();
    (each, tested)
}

fn winner(disk: &Disk) -> u64 {
    disk.attributes["selection"]["winner"]["number"]
        .as_u64()
        .unwrap()
}

#[test]
fn after_the_goal_the_leaders_are_repeated_and_the_winner_is_tested_once() {
    let world = finished(repeated(20, 2, 5), Disk::default(), 1);
    let plain = finished(spec(20, 2), Disk::default(), 1);
    let (each, tested) = counts(&world.disk);
    assert_eq!(each, [2, 2, 2, 2, 4, 4, 5, 5]);
    assert_eq!(tested, [winner(&world.disk)]);
    assert_eq!(
        results(&world.disk).len(),
        20,
        "repeats are no trials: {:?}",
        counts(&world.disk)
    );
    assert!(plain.disk.repeats.is_empty());
    assert!(plain.disk.attributes.is_empty());
    let test = &world.disk.attributes["test"];
    let gap = test["value"].as_f64().unwrap() - test["validation"].as_f64().unwrap();
    assert!((gap - 1.0).abs() < 1e-9, "{test}");
    let noted = &world.disk.trials[&winner(&world.disk)].user_attrs;
    assert_eq!(noted["repeats.values"].as_array().unwrap().len(), 5);
    assert!(noted.contains_key("repeats.mean"));
}

#[test]
fn one_slot_makes_the_same_trials_with_and_without_repeats() {
    let plain = finished(spec(12, 1), Disk::default(), 1);
    let world = finished(repeated(12, 1, 3), Disk::default(), 1);
    assert_eq!(results(&plain.disk), results(&world.disk));
    let more = finished(repeated(16, 1, 3), world.disk, 2);
    let plain = finished(spec(16, 1), plain.disk, 2);
    assert_eq!(
        results(&plain.disk),
        results(&more.disk),
        "the search saw no repeat"
    );
}

#[test]
fn the_same_line_again_starts_nothing() {
    let first = finished(repeated(10, 2, 3), Disk::default(), 1);
    let again = finished(repeated(10, 2, 3), first.disk.clone(), 2);
    assert_eq!(again.core.next_worker, 0);
    assert_eq!(again.disk, first.disk);
}

#[test]
fn a_new_winner_is_not_tested_unless_that_is_asked_for() {
    let mut disk = finished(repeated(6, 1, 2), Disk::default(), 1).disk;
    let before = winner(&disk);
    for goal in 7.. {
        disk = finished(repeated(goal, 1, 2), disk, 1).disk;
        if winner(&disk) != before {
            break;
        }
        assert!(goal < 60, "a better trial is found");
    }
    assert_eq!(
        counts(&disk).1,
        [before],
        "the split was used for the first"
    );
    let goal = disk.trials.len() as u64;
    let mut again = repeated(goal, 1, 2);
    again.operation.test = TestPolicy::Again;
    let disk = finished(again, disk, 1).disk;
    let mut both = vec![before, winner(&disk)];
    both.sort_unstable();
    assert_eq!(counts(&disk).1, both);
    assert_eq!(disk.attributes["test"]["looks"], 2);
    assert_eq!(disk.attributes["test"]["number"], winner(&disk));
}

#[test]
fn without_repeats_the_best_trial_is_tested_where_that_is_asked_for() {
    let mut asked = spec(8, 2);
    asked.operation.test = TestPolicy::On;
    let world = finished(asked, Disk::default(), 3);
    let (each, tested) = counts(&world.disk);
    assert!(each.is_empty());
    assert_eq!(tested, [world.core.best().unwrap().number]);
    let mut off = repeated(8, 2, 2);
    off.operation.test = TestPolicy::Off;
    let off = finished(off, Disk::default(), 3);
    assert!(counts(&off.disk).1.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_workers_do_every_repeat_ends_once(
        seed in 0u64..u64::MAX, slots in 1usize..4, faults in 0.01..0.1, checkpoint: bool,
    ) {
        let mut spec = repeated(12, slots, 4);
        spec.operation.supervisor.checkpoint = checkpoint;
        let mut world = World::new(spec, Disk::default(), seed, faults);
        world.run(50_000);
        prop_assert!(matches!(world.finished, Some(Exit::Done | Exit::Breaker)));
        if world.finished == Some(Exit::Done) {
            counts(&world.disk);
            prop_assert!(world.disk.attributes.contains_key("selection")
                || world.disk.trials.values().all(|t| t.state != TrialState::Complete));
        }
    }

    #[test]
    fn repeats_cut_at_any_event_and_resumed_come_to_the_same_winner(
        seed in 0u64..u64::MAX, cut in 1u32..400, slots in 1usize..3,
    ) {
        let whole = finished(repeated(6, 1, 4), Disk::default(), seed);
        let searched = finished(spec(6, 1), Disk::default(), seed);
        let mut broken = World::new(repeated(6, slots, 4), searched.disk, seed, 0.0);
        broken.run(cut);
        let resumed = finished(repeated(6, slots, 4), broken.disk, seed ^ 1);
        prop_assert_eq!(winner(&whole.disk), winner(&resumed.disk));
        prop_assert_eq!(
            &whole.disk.attributes["selection"]["candidates"],
            &resumed.disk.attributes["selection"]["candidates"]
        );
        prop_assert_eq!(counts(&whole.disk), counts(&resumed.disk));
    }
}
