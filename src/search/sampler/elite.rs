//! The best points of several objectives, kept from ask to ask: a new point moves few others, and
//! none of those that are far from the front. Pure memoisation of [`pareto::best_first`].
//!
//! A point's rank is the length of the longest chain of points that dominate each other above it.
//! All of a chain that is too long for a depth but its end lies within the depth, so that who has
//! all points of that depth can rank new ones as if it had all there are; and ranks only grow as
//! points come. What is kept is a depth with some more points than are asked for. Where the ranks
//! of too many of them have outgrown it, all points are sorted again.

use crate::study::{Direction, Entry, pareto};

/// So many times the points that are asked for are kept.
const MORE: usize = 4;

/// The points that were seen, and the best of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Elite {
    directions: Vec<Direction>,
    /// Numbers and values of all points, ascending by number.
    seen: Vec<(u64, Vec<f64>)>,
    /// Numbers of all points whose rank is at most the depth, ascending.
    kept: Vec<u64>,
    depth: usize,
}

impl Elite {
    /// The best `n` of the entries, best first, as positions. They ascend by number and have a
    /// value for each direction, none NaN.
    pub fn best(&mut self, directions: &[Direction], entries: &[&Entry], n: usize) -> Vec<usize> {
        let losses = |at: &usize| -> Vec<f64> { pareto::losses(directions, &entries[*at].values) };
        if let Some(fresh) = self.fresh(directions, entries) {
            let candidates = self.candidates(entries, &fresh);
            let points: Vec<Vec<f64>> = candidates.iter().map(losses).collect();
            let ranks = pareto::ranks(&points);
            let within: Vec<usize> = (0..ranks.len())
                .filter(|&k| ranks[k] <= self.depth)
                .collect();
            if within.len() >= n.min(entries.len()) {
                self.insert(entries, &fresh);
                let ranked = within.iter().map(|&k| (candidates[k], ranks[k])).collect();
                return self.keep(entries, ranked, losses, n);
            }
        }
        let all: Vec<usize> = (0..entries.len()).collect();
        let points: Vec<Vec<f64>> = all.iter().map(losses).collect();
        let ranked = all.into_iter().zip(pareto::ranks(&points)).collect();
        self.directions = directions.to_vec();
        self.seen = (entries.iter().map(|e| (e.number, e.values.clone()))).collect();
        self.depth = usize::MAX;
        self.keep(entries, ranked, losses, n)
    }

    /// Positions of the entries that have not been seen; `None` where one that was seen is gone or
    /// has changed.
    fn fresh(&self, directions: &[Direction], entries: &[&Entry]) -> Option<Vec<usize>> {
        if self.directions != directions {
            return None;
        }
        let same = |a: &[f64], b: &[f64]| {
            let bits = |(x, y): (&f64, &f64)| x.to_bits() == y.to_bits();
            a.len() == b.len() && a.iter().zip(b).all(bits)
        };
        let mut fresh = Vec::new();
        let mut seen = self.seen.iter().peekable();
        for (at, entry) in entries.iter().enumerate() {
            match seen.peek() {
                Some((number, values)) if *number == entry.number => {
                    if !same(values, &entry.values) {
                        return None;
                    }
                    seen.next();
                }
                Some((number, _)) if *number < entry.number => return None,
                Some(_) | None => fresh.push(at),
            }
        }
        seen.next().is_none().then_some(fresh)
    }

    /// Positions of what is kept and of what is fresh, ascending.
    fn candidates(&self, entries: &[&Entry], fresh: &[usize]) -> Vec<usize> {
        let place = |number: &u64| entries.binary_search_by_key(number, |e| e.number).ok();
        let mut candidates: Vec<usize> = self.kept.iter().filter_map(place).collect();
        candidates.extend(fresh);
        candidates.sort_unstable();
        candidates
    }

    fn insert(&mut self, entries: &[&Entry], fresh: &[usize]) {
        for &at in fresh {
            let entry = entries[at];
            let place = self
                .seen
                .partition_point(|(number, _)| *number < entry.number);
            self.seen
                .insert(place, (entry.number, entry.values.clone()));
        }
    }

    /// Keeps the least depth that has points enough, of positions with their ranks, and gives the
    /// best `n` of them.
    fn keep(
        &mut self,
        entries: &[&Entry],
        mut ranked: Vec<(usize, usize)>,
        losses: impl Fn(&usize) -> Vec<f64>,
        n: usize,
    ) -> Vec<usize> {
        let mut ranks: Vec<usize> = ranked.iter().map(|(_, rank)| *rank).collect();
        ranks.sort_unstable();
        if let Some(depth) = ranks.get(MORE * n) {
            self.depth = *depth;
            ranked.retain(|(_, rank)| rank <= depth);
        }
        self.kept = ranked.iter().map(|(at, _)| entries[*at].number).collect();
        let points: Vec<Vec<f64>> = ranked.iter().map(|(at, _)| losses(at)).collect();
        let best = pareto::best_first(&points, n).into_iter();
        best.map(|k| ranked[k].0).collect()
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;
    use crate::study::{TrialState, rng};

    fn entry(number: u64, values: Vec<f64>) -> Entry {
        Entry {
            number,
            state: TrialState::Complete,
            params: Default::default(),
            code: vec![],
            values,
            intermediate: Default::default(),
            violation: None,
            faulted: false,
            chosen: false,
        }
    }

    /// What a fresh sort of everything says.
    fn sorted(directions: &[Direction], entries: &[&Entry], n: usize) -> Vec<usize> {
        let losses = |e: &&Entry| pareto::losses(directions, &e.values);
        pareto::best_first(&entries.iter().map(losses).collect::<Vec<_>>(), n)
    }

    #[test]
    fn points_that_come_in_any_order_are_sorted_as_if_all_were_sorted_each_time() {
        for (seed, objectives) in [(1, 2), (2, 2), (3, 3)] {
            let directions = vec![Direction::Minimize; objectives];
            let mut rng = rng(seed, 0, "test");
            let mut elite = Elite::default();
            let mut all: Vec<Entry> = Vec::new();
            for step in 0..300u64 {
                // Numbers with gaps that are filled later; from time to time a point that beats
                // all others, a coarse grid for equal values.
                let number = if step % 7 == 6 {
                    10 * step - 25
                } else {
                    10 * step
                };
                let scale = if step % 50 == 49 { -(step as f64) } else { 0.0 };
                let draw = |_| scale + f64::from(rng.random_range(0..12u8));
                all.push(entry(number, (0..objectives).map(draw).collect()));
                all.sort_by_key(|e| e.number);
                let entries: Vec<&Entry> = all.iter().collect();
                let found = elite.best(&directions, &entries, 8);
                assert_eq!(found, sorted(&directions, &entries, 8), "{seed} {step}");
            }
        }
    }

    #[test]
    fn few_points_are_kept_of_many_and_another_history_is_noticed() {
        let directions = [Direction::Minimize, Direction::Maximize];
        let mut rng = rng(4, 0, "test");
        let all: Vec<Entry> = (0..400)
            .map(|n| entry(n, vec![rng.random(), rng.random()]))
            .collect();
        let entries: Vec<&Entry> = all.iter().collect();
        let mut elite = Elite::default();
        for n in 0..=entries.len() {
            elite.best(&directions, &entries[..n], 8);
        }
        assert!(elite.kept.len() < 100, "{}", elite.kept.len());
        let mut changed = all.clone();
        changed[20].values = vec![-1.0, 2.0];
        let changed: Vec<&Entry> = changed.iter().collect();
        let other = [Direction::Maximize, Direction::Maximize];
        for (directions, entries) in [
            (&directions, &changed[..]),
            (&directions, &entries[..50]),
            (&directions, &entries[10..]),
            (&other, &entries[..]),
            (&directions, &[]),
        ] {
            let found = elite.best(directions, entries, 8);
            assert_eq!(found, sorted(directions, entries, 8));
        }
    }
}
