//! Points of a Sobol sequence, scrambled by the study's seed (Owen, "Randomly permuted
//! (t,m,s)-nets", 1995; Burley, "Practical hash-based Owen scrambling", 2020): more even than
//! random draws, and just as blind to what was told.
//!
//! Each parameter has a dimension of its own, whether it is active or not, so that the points of
//! every branch of a conditional space are spread evenly, too.

use super::{Ask, Proposal, Sampler, random};
use crate::space::{Params, Space};
use crate::study;

/// Trial n takes the n-th point of the sequence.
#[derive(Debug, Clone, Copy, Default)]
pub struct SobolSampler;

/// What points that a sampler spreads before it knows anything are said to be proposed by.
pub(super) const SPREAD: &str = "spread";

/// Sequences that are tried for a point that satisfies the constraints, before it is drawn.
const SEQUENCES: u64 = 64;

/// Points of a sequence; the next ones are another scramble's.
const LENGTH: u64 = 1 << 16;

impl Sampler for SobolSampler {
    fn name(&self) -> &'static str {
        "sobol"
    }

    fn candidate(&mut self, ask: &Ask) -> Option<Proposal> {
        spread(ask).map(Proposal::by(self.name()))
    }
}

/// The point of an ask's number; where none was found one not far from that of an earlier trial.
pub(super) fn spread(ask: &Ask) -> Option<Params> {
    sobol_point(ask.space, ask.seed, ask.number)
        .or_else(|| random::draw_or_walk(ask, &mut ask.rng()))
}

/// The point with this index, counted from 0, of the sequence that belongs to `seed`. Where it
/// violates a constraint, the points with the same index of other scrambles are tried, and at last
/// random ones. `None` where no point that satisfies the constraints was found.
pub fn sobol_point(space: &Space, seed: u64, index: u64) -> Option<Params> {
    (0..SEQUENCES)
        .map(|sequence| point(space, seed, index, sequence))
        .find(|params| space.violated(params).is_none())
        .or_else(|| random::draw(space, &mut study::rng(seed, index, "sobol")))
}

fn point(space: &Space, seed: u64, index: u64, sequence: u64) -> Params {
    let dimensions = sobol_burley::NUM_DIMENSIONS as usize;
    let (block, within) = (index / LENGTH, (index % LENGTH) as u32);
    // One scramble for each stretch of the index, try and group of dimensions that the tables hold.
    let mut scramble = (usize::MAX, 0);
    space.build(|position, _, domain| {
        let group = position / dimensions;
        if scramble.0 != group {
            let purpose = format!("sobol {sequence} {group}");
            scramble = (group, study::derive_seed(seed, block, &purpose) as u32);
        }
        let dimension = (position % dimensions) as u32;
        domain.from_unit(sobol_burley::sample(within, dimension, scramble.1).into())
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{conditional_space, float, int, parameter};
    use super::*;
    use crate::space::Constraint;

    fn cube(dimensions: usize) -> Space {
        let names = (0..dimensions).map(|i| format!("x{i}"));
        Space {
            parameters: names.map(|n| parameter(&n, float(0.0, 1.0))).collect(),
            ..Space::default()
        }
    }

    fn coordinate(point: &Params, dimension: usize) -> f64 {
        point[&format!("x{dimension}")].as_f64().unwrap()
    }

    /// How many of the first `n` points lie in each of `n` equal strips.
    fn strips(space: &Space, dimension: usize, range: std::ops::Range<u64>) -> Vec<usize> {
        let n = (range.end - range.start) as usize;
        let mut counts = vec![0; n];
        for index in range {
            let point = sobol_point(space, 7, index).unwrap();
            counts[(coordinate(&point, dimension) * n as f64) as usize] += 1;
        }
        counts
    }

    #[test]
    fn each_strip_of_each_dimension_gets_one_of_the_first_points() {
        let space = cube(300);
        for dimension in [0, 1, 17, 255, 256, 299] {
            assert_eq!(strips(&space, dimension, 0..64), vec![1; 64], "{dimension}");
        }
        let block = LENGTH..LENGTH + 64;
        assert_eq!(strips(&space, 3, block), vec![1; 64], "beyond the tables");
    }

    #[test]
    fn each_square_of_the_first_two_dimensions_gets_one_of_the_first_points() {
        let mut counts = [0; 64];
        for index in 0..64 {
            let point = sobol_point(&cube(2), 3, index).unwrap();
            let cell = |d| (coordinate(&point, d) * 8.0) as usize;
            counts[8 * cell(0) + cell(1)] += 1;
        }
        assert_eq!(counts, [1; 64]);
    }

    #[test]
    fn dimensions_beyond_the_tables_are_not_copies_of_earlier_ones() {
        let space = cube(258);
        let point = sobol_point(&space, 1, 5).unwrap();
        for (a, b) in [(0, 256), (1, 257), (0, 1)] {
            assert_ne!(coordinate(&point, a), coordinate(&point, b));
        }
    }

    #[test]
    fn points_that_are_cut_off_are_replaced_and_the_others_stay() {
        let free = cube(2);
        let mut cut = free.clone();
        cut.constraints = vec![Constraint {
            expr: "x0 + x1 <= 0.5".parse().unwrap(),
            when: vec![],
        }];
        let mut kept = 0;
        for index in 0..64 {
            let (a, b) = (sobol_point(&free, 2, index), sobol_point(&cut, 2, index));
            let fits = cut.violated(a.as_ref().unwrap()).is_none();
            assert!(cut.violated(b.as_ref().unwrap()).is_none());
            assert_eq!(a == b, fits);
            kept += usize::from(fits);
        }
        assert!((4..=12).contains(&kept), "{kept} of 64 lie in an eighth");
    }

    #[test]
    fn every_branch_of_a_conditional_space_is_spread_evenly() {
        let mut space = conditional_space();
        space.constraints.clear();
        let points: Vec<Params> = (0..48)
            .map(|i| sobol_point(&space, 0, i).unwrap())
            .collect();
        for model in ["small", "large", "tree"] {
            let of_branch = points.iter().filter(|p| p["model"] == model.into());
            assert!((15..=17).contains(&of_branch.count()), "{model}");
        }
        let rates = points.iter().filter_map(|p| p.get("rate"));
        let low = rates.clone().filter(|r| r.as_f64().unwrap() < 0.5).count();
        let all = rates.count();
        assert!(low.abs_diff(all - low) <= 2, "{low} of {all}");
    }

    #[test]
    fn whole_numbers_come_equally_often() {
        let space = Space {
            parameters: vec![parameter("n", int(1, 8, false, 1))],
            ..Space::default()
        };
        let mut counts = [0; 8];
        for index in 0..64 {
            let n = sobol_point(&space, 9, index).unwrap()["n"].as_i64();
            counts[n.unwrap() as usize - 1] += 1;
        }
        assert_eq!(counts, [8; 8]);
    }
}
