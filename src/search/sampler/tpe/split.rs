//! Which trials are good and which are not, and what each of them weighs.

use crate::study::{Direction, Entry, TrialState, pareto};

/// Trials of the recent past that keep their full weight.
const FULL_WEIGHT: usize = 25;

/// Most trials that ever count as good.
const MOST_BELOW: usize = 25;

/// How many of `n` finished trials count as good: a tenth, at most 25 (Optuna's default gamma).
pub(super) fn gamma(n: usize) -> usize {
    n.div_ceil(10).min(MOST_BELOW)
}

/// The weights of `n` trials in order of number and, last, of the prior, with sum 1: the latest 25
/// count fully, older ones the less the older they are (Bergstra's linear forgetting).
pub(super) fn weights(n: usize) -> Vec<f64> {
    let ramp = n.saturating_sub(FULL_WEIGHT);
    let first = 1.0 / n.max(1) as f64;
    let mut weights: Vec<f64> = (0..n)
        .map(|i| {
            if i >= ramp {
                1.0
            } else if ramp == 1 {
                first
            } else {
                first + (1.0 - first) * i as f64 / (ramp - 1) as f64
            }
        })
        .collect();
    weights.push(1.0);
    let sum: f64 = weights.iter().sum();
    for w in &mut weights {
        *w /= sum;
    }
    weights
}

/// The rows of good trials and of the others, both ascending.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Split {
    pub below: Vec<usize>,
    pub above: Vec<usize>,
}

/// A finished trial's rank; smaller is better. Feasible COMPLETE trials by value, then PRUNED ones
/// by how far they came and by their last value there, then infeasible ones by violation.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
struct Rank(u8, f64, f64);

/// Splits the trials in `rows`; with several objectives the good ones are whole fronts and, of the
/// last one, those that add most to the volume (Ozaki et al., 2022). FAIL trials, and PRUNED ones
/// that a fault ended or that have no value at all, are bad, so that what cannot be run is proposed less, but do
/// not make the number of good ones larger, which they do not resemble; RUNNING
/// ones are bad where `constant_liar`, and else left out as WAITING ones are.
pub(super) fn split(
    entries: &[Entry],
    rows: impl Iterator<Item = usize>,
    directions: &[Direction],
    constant_liar: bool,
) -> Split {
    let direction = directions.first().copied().unwrap_or(Direction::Minimize);
    let mut finished: Vec<(Rank, usize)> = Vec::new();
    let mut above = Vec::new();
    for row in rows {
        match rank(&entries[row], direction) {
            Some(rank) => finished.push((rank, row)),
            None => match entries[row].state {
                TrialState::Fail | TrialState::Pruned => above.push(row),
                TrialState::Running if constant_liar => above.push(row),
                TrialState::Running | TrialState::Waiting | TrialState::Complete => {}
            },
        }
    }
    let good = gamma(finished.len());
    if directions.len() > 1 {
        rank_by_fronts(&mut finished, entries, directions, good);
    }
    let order = |a: &(Rank, usize), b: &(Rank, usize)| {
        let (x, y) = (a.0, b.0);
        x.0.cmp(&y.0)
            .then(x.1.total_cmp(&y.1))
            .then(x.2.total_cmp(&y.2))
            .then(a.1.cmp(&b.1))
    };
    if good < finished.len() {
        finished.select_nth_unstable_by(good, order);
    }
    let mut below: Vec<usize> = finished[..good].iter().map(|f| f.1).collect();
    above.extend(finished[good..].iter().map(|f| f.1));
    below.sort_unstable();
    above.sort_unstable();
    Split { below, above }
}

/// Ranks COMPLETE trials with all their values by what of them belongs to the best `good`.
fn rank_by_fronts(
    finished: &mut [(Rank, usize)],
    entries: &[Entry],
    directions: &[Direction],
    good: usize,
) {
    let mut whole = Vec::new();
    for (at, (rank, row)) in finished.iter_mut().enumerate() {
        if rank.0 == 0 {
            rank.1 = f64::INFINITY;
            let values = &entries[*row].values;
            if values.len() == directions.len() && values.iter().all(|v| !v.is_nan()) {
                whole.push(at);
            }
        }
    }
    let losses: Vec<Vec<f64>> = (whole.iter())
        .map(|&at| pareto::losses(directions, &entries[finished[at].1].values))
        .collect();
    for &at in &whole {
        finished[at].0.1 = losses.len() as f64;
    }
    for (place, k) in pareto::best_first(&losses, good).into_iter().enumerate() {
        finished[whole[k]].0.1 = place as f64;
    }
}

fn rank(entry: &Entry, direction: Direction) -> Option<Rank> {
    let loss = |value: Option<f64>| match value {
        // `+ 0.0` makes -0 and 0 equal under the total order.
        Some(v) if !v.is_nan() => direction.loss(v) + 0.0,
        Some(_) | None => f64::INFINITY,
    };
    match entry.state {
        TrialState::Running | TrialState::Waiting | TrialState::Fail => None,
        TrialState::Complete | TrialState::Pruned if !entry.feasible() => {
            Some(Rank(2, entry.violation.unwrap_or(0.0), 0.0))
        }
        TrialState::Complete => Some(Rank(0, loss(entry.value()), 0.0)),
        TrialState::Pruned if entry.faulted => None,
        TrialState::Pruned => match (entry.last_report(), entry.value()) {
            (Some((step, value)), _) => Some(Rank(1, -(step as f64), loss(Some(value)))),
            (None, Some(value)) => Some(Rank(1, f64::INFINITY, loss(Some(value)))),
            (None, None) => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u64, state: TrialState, value: Option<f64>) -> Entry {
        Entry {
            number,
            state,
            params: Default::default(),
            code: vec![],
            values: value.into_iter().collect(),
            intermediate: Default::default(),
            violation: None,
            faulted: false,
            chosen: false,
        }
    }

    #[test]
    fn complete_then_pruned_by_depth_then_infeasible_by_violation() {
        use TrialState::{Complete, Fail, Pruned, Running, Waiting};
        let mut entries = vec![
            entry(0, Pruned, None),
            entry(1, Pruned, None),
            entry(2, Complete, Some(f64::NAN)),
            entry(3, Complete, Some(5.0)),
            entry(4, Complete, Some(-1.0)),
            entry(5, Running, None),
            entry(6, Fail, None),
            entry(7, Waiting, None),
            entry(8, Pruned, None),
            entry(9, Pruned, Some(0.1)),
            entry(10, Pruned, Some(0.0)),
        ];
        entries[10].faulted = true;
        entries[1].intermediate = [(3, 0.5)].into();
        entries[8].intermediate = [(3, f64::NAN), (1, 0.0)].into();
        entries[4].violation = Some(2.0);
        let mut ranked: Vec<(Rank, u64)> = entries
            .iter()
            .filter_map(|e| Some((rank(e, Direction::Minimize)?, e.number)))
            .collect();
        ranked.sort_by(|a, b| a.partial_cmp(b).unwrap());
        let numbers: Vec<u64> = ranked.iter().map(|r| r.1).collect();
        assert_eq!(numbers, [3, 2, 1, 8, 9, 4], "a bare value comes last");
        let lied = split(&entries, 0..11, &[Direction::Minimize], true);
        assert_eq!(lied.below, [3]);
        assert_eq!(lied.above, [0, 1, 2, 4, 5, 6, 8, 9, 10]);
        let honest = split(&entries, 0..11, &[Direction::Minimize], false);
        assert_eq!(honest.above, [0, 1, 2, 4, 6, 8, 9, 10]);
    }

    #[test]
    fn with_several_objectives_the_front_is_good_whatever_its_first_value() {
        let mut entries: Vec<Entry> = (0..20)
            .map(|n| entry(n, TrialState::Complete, None))
            .collect();
        for (n, e) in entries.iter_mut().enumerate() {
            e.values = vec![n as f64, 1.0];
        }
        entries[13].values = vec![99.0, 5.0];
        entries[4].values = vec![-1.0];
        let directions = [Direction::Minimize, Direction::Maximize];
        assert_eq!(split(&entries, 0..20, &directions, true).below, [0, 13]);
    }

    #[test]
    fn no_trial_leaves_the_prior_alone() {
        assert_eq!(weights(0), [1.0]);
        assert_eq!(gamma(0), 0);
        assert_eq!(weights(26).len(), 27);
    }
}
