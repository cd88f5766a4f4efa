//! The selection against simulated noise.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::study::TrialState;
use crate::study::rng;

fn entry(number: u64, x: f64, value: f64) -> Entry {
    Entry {
        number,
        state: TrialState::Complete,
        params: Params::from([("x".to_owned(), x.into())]),
        code: vec![x],
        values: vec![value],
        intermediate: BTreeMap::new(),
        violation: None,
        faulted: false,
        chosen: false,
    }
}

fn leader(number: u64, value: f64) -> Leader {
    Leader {
        number,
        value,
        params: Params::from([("x".to_owned(), (number as f64).into())]),
    }
}

fn normal(rng: &mut ChaCha8Rng) -> f64 {
    let radius: f64 = 1.0 - rng.random::<f64>();
    let angle: f64 = rng.random();
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}

/// Runs a selection to its end; `value` gives each repeat's value.
fn select(
    leaders: &[Leader],
    repeats: u32,
    direction: Direction,
    mut value: impl FnMut(u64, u32) -> Option<f64>,
) -> (Selection, Vec<(u64, u32)>) {
    let (mut outcomes, mut order) = (Outcomes::new(), Vec::new());
    loop {
        match next(leaders, &outcomes, repeats, direction) {
            Next::Done(selection) => return (selection, order),
            Next::Run(jobs) => {
                for job in jobs {
                    assert!(outcomes.insert(job, value(job.0, job.1)).is_none(), "once");
                    order.push(job);
                }
            }
        }
    }
}

#[test]
fn leaders_are_the_best_distinct_points_that_can_be_trained() {
    let mut entries: Vec<Entry> = (0..20)
        .map(|n| entry(n, n as f64, 10.0 - n as f64))
        .collect();
    entries[19].state = TrialState::Pruned;
    entries[18].violation = Some(1.0);
    entries[17].values = vec![f64::NEG_INFINITY];
    entries[16].params.clear();
    entries.push(entry(20, 15.0, -5.5));
    entries.push(entry(21, 14.0, -4.0));
    let found = leaders(&entries, Direction::Minimize, |p| !p.is_empty());
    let numbers: Vec<u64> = found.iter().map(|l| l.number).collect();
    assert_eq!(numbers, [20, 14, 13, 12, 11, 10, 9, 8]);
    let other = leaders(&entries, Direction::Maximize, |p| !p.is_empty());
    assert_eq!(other[0].number, 0);
}

#[test]
fn everybody_gets_two_repeats_the_better_half_four_and_the_last_ones_all() {
    let all: Vec<Leader> = (0..8).map(|n| leader(n, n as f64)).collect();
    let (selection, order) = select(&all, 5, Direction::Minimize, |n, _| Some(-(n as f64)));
    let count = |n: u64| order.iter().filter(|j| j.0 == n).count();
    let counts: Vec<usize> = (0..8).map(count).collect();
    assert_eq!(counts, [2, 2, 2, 2, 4, 4, 5, 5]);
    assert_eq!(selection.winner().unwrap().number, 7);
    assert_eq!(selection.winner().unwrap().values.len(), 5);
    assert_eq!(order[..3], [(0, 1), (1, 1), (2, 1)], "one of each first");
    let (_, order) = select(&all, 2, Direction::Minimize, |_, _| Some(0.0));
    assert_eq!(order.len(), 16);
}

#[test]
fn the_mean_and_the_optimism_leave_the_searchs_own_value_out() {
    let all = [leader(0, 0.9), leader(1, 0.8)];
    let value = |n: u64, r: u32| Some(if n == 0 { 0.5 } else { 0.6 } + 0.01 * f64::from(r));
    let (selection, _) = select(&all, 2, Direction::Maximize, value);
    let winner = selection.winner().unwrap();
    assert_eq!(winner.number, 1);
    assert!((winner.estimate.unwrap().mean - 0.615).abs() < 1e-12);
    assert_eq!(selection.naive().unwrap().number, 0);
    assert!((selection.optimism.unwrap() - (0.9 - 0.515)).abs() < 1e-12);
    let flipped = [leader(0, -0.9), leader(1, -0.8)];
    let (selection, _) = select(&flipped, 2, Direction::Minimize, |n, r| {
        value(n, r).map(|v| -v)
    });
    assert!((selection.optimism.unwrap() - (0.9 - 0.515)).abs() < 1e-12);
}

#[test]
fn a_candidate_with_too_few_repeats_cannot_win() {
    let all = [leader(0, 3.0), leader(1, 2.0), leader(2, 1.0)];
    let fails = |n: u64, r: u32| match (n, r) {
        (0, _) | (1, 2..) => None,
        (1, _) => Some(9.0),
        _ => Some(0.5),
    };
    let (selection, _) = select(&all, 3, Direction::Maximize, fails);
    assert_eq!(selection.winner().unwrap().number, 2);
    assert_eq!(selection.missing(), 3);
    assert_eq!(selection.optimism, None, "its own repeats all failed");
    let (selection, order) = select(&all, 9, Direction::Maximize, |_, _| None);
    assert_eq!((selection.winner, order.len()), (None, 6));
}

#[test]
fn values_that_are_not_finite_count_as_missing() {
    let all = [leader(0, 1.0), leader(1, 2.0)];
    let value = |n: u64, _| Some(if n == 0 { f64::NEG_INFINITY } else { 3.0 });
    let (selection, _) = select(&all, 2, Direction::Minimize, value);
    assert_eq!(selection.winner().unwrap().number, 1);
    assert_eq!(selection.candidates[0].missing, 2);
}

#[test]
fn a_selection_asked_again_at_any_moment_goes_on_the_same_way() {
    let all: Vec<Leader> = (0..6).map(|n| leader(n, n as f64)).collect();
    let value = |n: u64, r: u32| Some(((n * 7 + u64::from(r) * 5) % 11) as f64);
    let (whole, order) = select(&all, 8, Direction::Minimize, value);
    for cut in 0..order.len() {
        let outcomes: Outcomes = order[..cut].iter().map(|j| (*j, value(j.0, j.1))).collect();
        match next(&all, &outcomes, 8, Direction::Minimize) {
            Next::Run(jobs) => assert_eq!(jobs[0], order[cut], "{cut}"),
            Next::Done(_) => panic!("done after {cut} of {}", order.len()),
        }
    }
    assert!(whole.winner.is_some());
}

#[test]
fn nothing_to_repeat_is_a_selection_without_a_winner() {
    let Next::Done(selection) = next(&[], &Outcomes::new(), 5, Direction::Minimize) else {
        panic!("there is nothing to run");
    };
    assert_eq!((selection.winner, selection.optimism), (None, None));
}

#[test]
fn the_interval_is_students() {
    // Half widths by the table: t(0.975; 1) = 12.706, t(0.975; 4) = 2.776.
    let two = estimate(&[1.0, 3.0]).unwrap();
    assert_eq!(two.mean, 2.0);
    assert!((two.high - 2.0 - 12.7062).abs() < 1e-3, "{two:?}");
    let five = estimate(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
    let half = 2.776_445 * (2.5f64 / 5.0).sqrt();
    assert!((five.high - 3.0 - half).abs() < 1e-4, "{five:?}");
    assert!((3.0 - five.low - half).abs() < 1e-4, "{five:?}");
    assert_eq!(estimate(&[1.0]), None);
}

/// What a simulated study comes to, in true qualities (smaller is better).
struct Simulated {
    naive: f64,
    naive_value: f64,
    chosen: f64,
    optimism: f64,
    covered: bool,
}

/// Sixty trials whose true losses spread as much as their noise.
fn simulate(seed: u64, repeats: u32) -> Simulated {
    let mut random = rng(seed, 0, "simulated study");
    let truth: Vec<f64> = (0..60).map(|_| normal(&mut random)).collect();
    let trials: Vec<Entry> = (0..60)
        .map(|n| entry(n as u64, n as f64, truth[n] + normal(&mut random)))
        .collect();
    let leaders = leaders(&trials, Direction::Minimize, |_| true);
    let noisy = |n: u64, _| Some(truth[n as usize] + normal(&mut random));
    let (selection, _) = select(&leaders, repeats, Direction::Minimize, noisy);
    let (naive, winner) = (selection.naive().unwrap(), selection.winner().unwrap());
    // The naive trial's own repeats: nobody chose them, so its interval is an honest one.
    let honest = naive.estimate.unwrap();
    let is = truth[naive.number as usize];
    Simulated {
        naive: is,
        naive_value: naive.value,
        chosen: truth[winner.number as usize],
        optimism: selection.optimism.unwrap(),
        covered: (honest.low..=honest.high).contains(&is),
    }
}

#[test]
fn under_noise_the_winner_is_better_than_the_best_single_value_and_the_optimism_is_right() {
    for repeats in [2, 5, 10] {
        let studies: Vec<Simulated> = (0..400).map(|seed| simulate(seed, repeats)).collect();
        let mean = |of: fn(&Simulated) -> f64| studies.iter().map(of).sum::<f64>() / 400.0;
        let gain = mean(|s| s.naive - s.chosen);
        assert!(gain > 0.1, "{repeats} repeats gain {gain}");
        // The estimate against the luck that the naive winner really had.
        let luck = mean(|s| s.naive - s.naive_value);
        let estimated = mean(|s| s.optimism);
        assert!(luck > 0.8, "{luck}");
        assert!((estimated - luck).abs() < 0.1, "{estimated} of {luck}");
        let covered = studies.iter().filter(|s| s.covered).count() as f64 / 400.0;
        assert!((0.91..=0.99).contains(&covered), "{covered}");
    }
}
