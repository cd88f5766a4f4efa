//! The highest point of an acquisition function over a mixed and conditional space: many random and
//! neighbouring candidates, then from the best of them gradients for numbers and neighbours for
//! choices and grids, in turn.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::lbfgs::{self, Limits};
use crate::sampler::encoding::{Axis, Encoding, Point};
use crate::sampler::pruned::beside;
use crate::sampler::tpe::quantile;

/// Grids with more cells than this are searched like an interval first.
const FINE: usize = 12;

/// An acquisition function; larger is better.
pub(super) trait Acquisition {
    /// Values at many refit_size points.
    fn many(&self, points: &[Point]) -> Vec<f64>;

    /// The value at a refit_size point, and its derivative by each parameter's coordinate (0 for
    /// choices).
    fn one(&self, point: &[f64]) -> (f64, Vec<f64>);
}

/// Points that are not proposed while there are others.
#[derive(Debug, Clone, Default)]
pub(super) struct Taken {
    /// Points that have been tried, or are being tried.
    pub tried: Vec<Point>,
    /// Those of them that were pruned, but for what lies beside the best one.
    pub pruned: Vec<Point>,
}

impl Taken {
    pub fn contains(&self, point: &[f64]) -> bool {
        self.tried.iter().any(|t| same(t, point)) || self.pruned.iter().any(|p| beside(p, point))
    }
}

/// How much work a search may do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Effort {
    /// Points drawn anew.
    pub draws: usize,
    /// Neighbours of the best observed points.
    pub neighbours: usize,
    /// Points that are climbed from.
    pub starts: usize,
    /// Evaluations with gradient a climb.
    pub evaluations: usize,
}

/// What a search starts from.
pub(super) struct Search<'a, A> {
    pub encoding: &'a Encoding<'a>,
    pub acquisition: &'a A,
    /// Observed points, the best first: their neighbours are candidates.
    pub leaders: &'a [Point],
    /// Points that are not proposed again while there are others.
    pub taken: &'a Taken,
    pub effort: Effort,
    /// A parameter that keeps its coordinate.
    pub pinned: Option<(usize, f64)>,
}

impl<A: Acquisition> Search<'_, A> {
    /// The best point found, with its value; `None` where no candidate satisfies the constraints.
    pub fn run(&self, rng: &mut ChaCha8Rng) -> Option<(Point, f64)> {
        let candidates = self.candidates(rng);
        let values = self.acquisition.many(&candidates);
        let mut ranked: Vec<(f64, Point)> = values.into_iter().zip(candidates).collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut best: Option<(f64, Point)> = None;
        let mut started: Vec<Point> = Vec::new();
        for (value, point) in &ranked {
            if started.len() == self.effort.starts {
                break;
            }
            if started.iter().any(|s| close(s, point)) {
                continue;
            }
            started.push(point.clone());
            let climbed = self.climb(*value, point.clone(), rng);
            for found in [climbed, (*value, point.clone())] {
                let better = best.as_ref().is_none_or(|b| found.0 > b.0);
                if better && !self.taken(&found.1) {
                    best = Some(found);
                }
            }
        }
        // All that was climbed to is taken already: the best other candidate.
        // Where nothing is left that is new, the best of what is not.
        let new = || ranked.iter().find(|(_, p)| !self.taken(p));
        let best = best.or_else(|| new().or(ranked.first()).cloned());
        best.map(|(value, point)| (point, value))
    }

    fn taken(&self, point: &[f64]) -> bool {
        self.taken.contains(point)
    }

    fn candidates(&self, rng: &mut ChaCha8Rng) -> Vec<Point> {
        let mut candidates = Vec::new();
        for _ in 0..self.effort.draws {
            let mut point = self.encoding.draw(rng);
            if let Some((index, place)) = self.pinned
                && !point[index].is_nan()
            {
                point[index] = place;
                self.encoding.complete(&mut point, |_| rng.random());
            }
            candidates.push(point);
        }
        for k in 0..self.effort.neighbours {
            if let Some(leader) = self.leaders.get(k % self.leaders.len().max(1)) {
                candidates.push(self.neighbour(leader, rng));
            }
        }
        candidates.retain(|c| {
            let stays = self.pinned.is_none_or(|(index, place)| c[index] == place);
            stays && self.encoding.allowed(c)
        });
        candidates
    }

    /// A point that shares most coordinates with another; the rest moves a little or a lot.
    fn neighbour(&self, leader: &[f64], rng: &mut ChaCha8Rng) -> Point {
        let mut point = leader.to_vec();
        let active: Vec<usize> = (0..point.len())
            .filter(|&i| !point[i].is_nan() && self.moves(i))
            .collect();
        if active.is_empty() {
            return point;
        }
        let share = [1.0f64, 0.5, 0.2][rng.random_range(0..3usize)].max(1.0 / active.len() as f64);
        let width = 0.3 * 10f64.powf(-2.0 * rng.random::<f64>());
        let forced = active[rng.random_range(0..active.len())];
        for &i in &active {
            if i != forced && rng.random::<f64>() >= share {
                continue;
            }
            match self.encoding.axis(i) {
                Axis::Fixed => {}
                Axis::Choice(n) => {
                    if i == forced || rng.random::<f64>() < 0.3 {
                        point[i] = rng.random_range(0..n) as f64;
                    }
                }
                Axis::Continuous => point[i] += width * quantile(rng.random()),
                Axis::Grid(n) => point[i] += width.max(0.7 / n as f64) * quantile(rng.random()),
            }
        }
        self.encoding.complete(&mut point, |_| rng.random());
        point
    }

    /// Whether a parameter has other places to go to.
    fn moves(&self, index: usize) -> bool {
        let pinned = self.pinned.is_some_and(|(pinned, _)| pinned == index);
        !pinned && self.encoding.axis(index) != Axis::Fixed
    }

    /// Uphill from a point.
    fn climb(&self, value: f64, point: Point, rng: &mut ChaCha8Rng) -> (f64, Point) {
        let mut best = (value, point);
        for _ in 0..2 {
            let before = best.0;
            best = self.ascend(best);
            best = self.step(best, rng);
            if best.0 <= before + 1e-9 {
                break;
            }
        }
        best
    }

    /// Gradient steps along continuous coordinates and fine grids.
    fn ascend(&self, from: (f64, Point)) -> (f64, Point) {
        let (value, point) = from;
        let moves = |&i: &usize| match self.encoding.axis(i) {
            _ if !self.moves(i) => false,
            Axis::Continuous => true,
            Axis::Grid(n) => n > FINE,
            Axis::Fixed | Axis::Choice(_) => false,
        };
        let moving: Vec<usize> = (0..point.len())
            .filter(|i| !point[*i].is_nan())
            .filter(moves)
            .collect();
        if moving.is_empty() {
            return (value, point);
        }
        let bounds: Vec<(f64, f64)> = moving
            .iter()
            .map(|&i| (0.0, self.encoding.upper(i, &point)))
            .collect();
        let mut x: Vec<f64> = moving.iter().map(|&i| point[i]).collect();
        let mut moved = point.clone();
        let limits = Limits {
            evaluations: self.effort.evaluations,
            tolerance: 1e-6,
        };
        lbfgs::minimise(&mut x, &bounds, limits, |x, gradient| {
            for (&i, v) in moving.iter().zip(x) {
                moved[i] = *v;
            }
            let (value, slopes) = self.acquisition.one(&moved);
            for (g, &i) in gradient.iter_mut().zip(&moving) {
                *g = -slopes[i];
            }
            -value
        });
        for (&i, v) in moving.iter().zip(&x) {
            moved[i] = *v;
        }
        // On its grid, and where a moved number decides what else is active.
        self.encoding.complete(&mut moved, |_| 0.5);
        if !self.encoding.allowed(&moved) {
            return (value, point);
        }
        let reached = self.acquisition.many(std::slice::from_ref(&moved))[0];
        if reached > value && !self.taken(&moved) {
            (reached, moved)
        } else {
            (value, point)
        }
    }

    /// The best neighbour along each choice and grid, one after another.
    fn step(&self, from: (f64, Point), rng: &mut ChaCha8Rng) -> (f64, Point) {
        let mut best = from;
        for index in 0..self.encoding.len() {
            if best.1[index].is_nan() || !self.moves(index) {
                continue;
            }
            let mut around: Vec<Point> = places(self.encoding, index, best.1[index])
                .into_iter()
                .map(|place| {
                    let mut point = best.1.clone();
                    point[index] = place;
                    self.encoding.complete(&mut point, |_| rng.random());
                    point
                })
                .filter(|p| !same(p, &best.1) && self.encoding.allowed(p) && !self.taken(p))
                .collect();
            let values = self.acquisition.many(&around);
            let top = (0..values.len()).reduce(|a, b| if values[b] > values[a] { b } else { a });
            if let Some(top) = top.filter(|&t| values[t] > best.0) {
                best = (values[top], around.swap_remove(top));
            }
        }
        best
    }
}

/// Other coordinates to try along an axis.
fn places(encoding: &Encoding, index: usize, now: f64) -> Vec<f64> {
    match encoding.axis(index) {
        Axis::Fixed | Axis::Continuous => Vec::new(),
        Axis::Choice(n) => (0..n).map(|c| c as f64).collect(),
        Axis::Grid(n) if n <= FINE => encoding.cells(index),
        Axis::Grid(n) => {
            let cell = 1.0 / n as f64;
            let steps = [cell, 2.0 * cell, 3.0 * cell, 0.03, 0.1];
            let both = steps.into_iter().flat_map(|step| [now - step, now + step]);
            both.map(|place| place.clamp(0.0, 1.0)).collect()
        }
    }
}

/// Whether two points are one.
pub(super) fn same(a: &[f64], b: &[f64]) -> bool {
    let equal = |(x, y): (&f64, &f64)| (x.is_nan() && y.is_nan()) || (x - y).abs() < 1e-10;
    a.iter().zip(b).all(equal)
}

/// Whether climbs from two points would end in one place.
fn close(a: &[f64], b: &[f64]) -> bool {
    let near = |(x, y): (&f64, &f64)| (x.is_nan() && y.is_nan()) || (x - y).abs() < 0.02;
    a.iter().zip(b).all(near)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::testing;
    use crate::space::{Params, Space};

    const EFFORT: Effort = Effort {
        draws: 200,
        neighbours: 100,
        starts: 4,
        evaluations: 30,
    };

    /// Highest (0) at a point; choices and presence count one each.
    struct Hill(Point);

    impl Acquisition for Hill {
        fn many(&self, points: &[Point]) -> Vec<f64> {
            points.iter().map(|p| self.one(p).0).collect()
        }

        fn one(&self, point: &[f64]) -> (f64, Vec<f64>) {
            let terms = point.iter().zip(&self.0);
            let terms: Vec<(f64, f64)> = terms
                .map(|(x, top)| match (x.is_nan(), top.is_nan()) {
                    (true, true) => (0.0, 0.0),
                    (false, false) if x.max(*top) < 1.0 => (-(x - top).powi(2), -2.0 * (x - top)),
                    (false, false) => (-f64::from(u8::from(x != top)), 0.0),
                    (true, false) | (false, true) => (-1.0, 0.0),
                })
                .collect();
            (
                terms.iter().map(|t| t.0).sum(),
                terms.iter().map(|t| t.1).collect(),
            )
        }
    }

    fn found(space: &Space, top: &Point, taken: &Taken) -> (Point, f64) {
        let encoding = Encoding::new(space);
        let search = Search {
            encoding: &encoding,
            acquisition: &Hill(top.clone()),
            leaders: &taken.tried,
            taken,
            effort: EFFORT,
            pinned: None,
        };
        search
            .run(&mut crate::study::rng(3, 0, "test"))
            .expect("a point")
    }

    fn tops(space: &Space) -> Vec<Point> {
        let encoding = Encoding::new(space);
        let mut rng = crate::study::rng(5, 0, "test");
        let draws = (0..50).map(|_| encoding.draw(&mut rng));
        draws.filter(|p| encoding.allowed(p)).take(8).collect()
    }

    #[test]
    fn it_finds_the_top_in_mixed_and_conditional_spaces() {
        for space in [testing::mixed_space(), testing::conditional_space()] {
            for top in tops(&space) {
                let (point, value) = found(&space, &top, &Taken::default());
                assert!(value > -0.02, "{value} {point:?} {top:?}");
            }
        }
    }

    #[test]
    fn what_was_tried_is_not_proposed_again_while_there_is_something_else() {
        let space = Space {
            parameters: vec![
                testing::parameter("n", testing::int(1, 3, false, 1)),
                testing::parameter(
                    "c",
                    testing::categorical(&["a".into(), "b".into(), "c".into()]),
                ),
            ],
            ..Space::default()
        };
        let encoding = Encoding::new(&space);
        let top = vec![0.5, 1.0];
        let mut taken = Taken::default();
        for _ in 0..9 {
            let (point, _) = found(&space, &top, &taken);
            assert!(!taken.contains(&point), "{point:?}");
            taken.tried.push(point);
        }
        assert!(same(&taken.tried[0], &top));
        let all: std::collections::BTreeSet<String> = (taken.tried)
            .iter()
            .map(|p| encoding.params(p))
            .map(|p: Params| format!("{p:?}"))
            .collect();
        assert_eq!(all.len(), 9);
    }
}
