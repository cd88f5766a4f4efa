//! The search that ends before its goal, in the simulated world.

use super::super::*;
use super::disk::Disk;
use super::setup::spec;
use super::world::{World, results};
use rand::RngExt;
use search::study;

fn run(spec: StudySpec, disk: Disk, seed: u64) -> World {
    let mut world = World::new(spec, disk, seed, 0.0);
    world.run(50_000);
    world
}

#[test]
fn a_search_that_gains_nothing_more_ends_repeats_its_leaders_and_does_not_begin_again() {
    let mut spec = spec(1000, 2);
    spec.operation.until_flat = Some(0.2);
    spec.operation.repeats = 2;
    let world = run(spec.clone(), Disk::default(), 1);
    assert_eq!(world.finished, Some(Exit::Done));
    let trials = results(&world.disk).len();
    // Two trials run at a time: the second one of those comes to its end as well.
    assert!(trials < 600 && trials % 10 <= 1, "{trials}");
    assert!(world.disk.attributes["selection"]["winner"].is_object());
    let again = run(spec, world.disk.clone(), 2);
    assert_eq!(again.finished, Some(Exit::Done));
    assert_eq!(results(&again.disk), results(&world.disk));
}

#[test]
fn where_it_ends_does_not_depend_on_where_it_was_cut_off() {
    let spec = |goal: u64| {
        let mut spec = spec(goal, 1);
        spec.operation.until_flat = Some(0.2);
        spec
    };
    let whole = run(spec(1000), Disk::default(), 1);
    let cut = run(spec(57), Disk::default(), 1);
    let resumed = run(spec(1000), cut.disk, 5);
    assert_eq!(results(&resumed.disk), results(&whole.disk));
}

#[test]
fn all_is_done_in_time_in_nearly_all_nights() {
    let nights = 200;
    let met = (0..nights).filter(|night| {
        let mut rng = study::rng(*night, 0, "night");
        let slots = rng.random_range(1..=4);
        let mut spec = spec(100_000, slots);
        let by = Now::from_secs(rng.random_range(500..900));
        spec.operation.by = Some(by);
        spec.operation.repeats = 5;
        let world = run(spec, Disk::default(), *night);
        assert_eq!(world.finished, Some(Exit::Budget), "night {night}");
        let finished = world.core.counts().finished();
        assert!(finished >= 8, "night {night}: {finished}");
        let chosen = world.disk.attributes.contains_key("selection");
        chosen && world.now <= by
    });
    let met = met.count();
    assert!(met >= 190, "{met} of {nights}");
}

#[test]
fn a_run_without_repeats_starts_no_trial_that_would_not_end_in_time_and_one_that_knows_nothing_stops_in_time()
 {
    let mut spec = spec(100_000, 2);
    spec.operation.by = Some(Now::from_secs(600));
    let world = run(spec.clone(), Disk::default(), 3);
    assert_eq!(world.finished, Some(Exit::Budget));
    let cut = world.disk.attempts.values().flatten().flatten();
    assert_eq!(cut.filter(|word| *word == "interrupted").count(), 0);
    spec.operation.by = Some(Now::from_secs(1));
    let world = run(spec, Disk::default(), 3);
    assert_eq!(world.finished, Some(Exit::Budget));
    assert!(world.now < Now::from_secs(30));
}
