//! Trials that wait for memory of a card, and who goes on meanwhile.

use super::super::*;
use super::card::{Card, seconds};
use super::foreign;
use config::Standby;
use memory::Observation;
use search::space::{Domain, Value};

/// A training that needs nearly all of the card where `x` is large, and little where it is small.
fn needed(x: f64) -> u64 {
    if x > 0.5 { 900 << 20 } else { 60 << 20 }
}

/// A study of so many trials on the card, new ones small, whose memory is known.
fn known(trials: u64) -> Start {
    let mut start = Card::start(2, Standby::Off);
    start.spec.operation.trials = trials;
    start.spec.space.parameters[0].domain = Domain::Float {
        low: 0.05,
        high: 0.15,
        log: false,
        step: None,
    };
    let peak = |i: u32| {
        let x = if i.is_multiple_of(2) { 0.1 } else { 0.9 };
        Observation {
            config: at(x),
            peak: needed(x) + u64::from(i % 5),
            censored: false,
        }
    };
    start.peaks = (0..2 * crate::core::estimates::SURE as u32)
        .map(peak)
        .collect();
    start
}

fn at(x: f64) -> Params {
    Params::from([("x".to_owned(), Value::Float(x))])
}

fn numbers(card: &Card) -> Vec<u64> {
    card.training().iter().map(|t| t.1).collect()
}

/// A trial of an earlier run that needs the card to itself waits for a fresh worker; the workers of this run that are
/// there make room for it, though none of them has anything to do.
#[test]
fn an_unfinished_trial_that_fits_alone_only_gets_its_worker_when_the_others_are_done() {
    let mut start = known(3);
    for (number, x) in [(0, 0.1), (1, 0.9)] {
        let mut trial = foreign::trial(number, TrialState::Running);
        trial.params = at(x);
        start.trials.push(trial);
        start.reclaimed.push(Reclaimable {
            number,
            attempts: Vec::new(),
        });
    }
    let mut card = Card::of(start);
    card.look(0, &[]);
    card.opens(0);
    card.opens(1);
    assert_eq!(
        numbers(&card),
        [0, 2],
        "the new one goes before the large one"
    );
    card.completes(0);
    card.all_leave();
    card.completes(1);
    for _ in 0..10 {
        card.all_leave();
        card.pass(seconds(1));
        let opening = |s: &&Slot| s.is_starting();
        let slot = card.core.slots.iter().find(opening);
        if let Some(worker) = slot.and_then(Slot::worker).map(|w| w.id) {
            card.opens(worker);
        }
    }
    assert_eq!(numbers(&card), [1]);
}

/// A large trial that many others were started before gets the card as soon as those that run have ended; while one of them
/// hangs, the other slot goes on.
#[test]
fn nobody_waits_for_the_end_of_an_attempt_that_may_hang() {
    let mut start = known(100);
    start.spec.operation.supervisor.recycle_after = 1000;
    let mut card = Card::of(start);
    // The first trial hangs, the second one is large.
    card.core.points = vec![at(0.1), at(0.9)];
    card.look(0, &[]);
    card.opens(0);
    card.opens(1);
    assert_eq!(numbers(&card), [0, 2]);
    for _ in 0..dispatch::PASSED - 1 {
        card.completes(1);
    }
    assert_eq!(numbers(&card).len(), 2);
    card.completes(1);
    assert_eq!(
        numbers(&card),
        [0],
        "the card is kept free for the large one"
    );
    card.pass(seconds(24));
    assert_eq!(numbers(&card), [0]);
    card.pass(seconds(1));
    assert_eq!(numbers(&card).len(), 2, "meanwhile another one runs");
    card.completes(0);
    card.completes(1);
    card.all_leave();
    assert_eq!(
        numbers(&card),
        [1],
        "the large one is next as soon as it can be"
    );
}
