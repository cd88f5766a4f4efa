//! What is known of where points can be run, for samplers that have no model of values.

use rand_chacha::ChaCha8Rng;

use super::feasibility::FeasibilityModel;
use super::kernel::Geometry;
use super::observations::Observations;
use super::{propose, recovery};
use crate::sampler::Ask;
use crate::sampler::encoding::{Encoding, Point};
use crate::space::Params;

/// Learns from the points that could not be run.
#[derive(Debug, Clone, Default)]
pub(in crate::sampler) struct FeasiblePoints {
    feasible: FeasibilityModel,
}

impl FeasiblePoints {
    /// A point for a study that has hardly any results: spread over what probably can be run.
    pub fn start(&mut self, ask: &Ask, rng: &mut ChaCha8Rng) -> Option<Params> {
        let encoding = Encoding::new(ask.space);
        let seen = Observations::new(ask, &encoding, usize::MAX);
        let point = recovery(&encoding, &seen, true, &mut self.feasible, rng)
            .or_else(|| propose::start(ask, &encoding, &seen, &mut self.feasible, rng))?;
        let params = encoding.params(&point);
        ask.space.violated(&params).is_none().then_some(params)
    }

    /// The first of these points that probably can be run, or else the likeliest to be; the first
    /// one where nothing is known of that. The less must be left to chance the more of the latest
    /// trials could not be run.
    pub fn likely(&mut self, ask: &Ask, points: Vec<Params>) -> Option<Params> {
        let encoding = Encoding::new(ask.space);
        let seen = Observations::new(ask, &encoding, usize::MAX);
        let geometry = Geometry::new(&encoding);
        let chosen = match self.feasible.of(&geometry, &seen) {
            Some(feasibility) => {
                let encode = |p: &Params| encoding.point(&ask.space.encode(p));
                let encoded: Option<Vec<Point>> = points.iter().map(encode).collect();
                let chances = propose::chances(&encoded?, &geometry, &feasibility);
                let demanded = propose::demanded(&seen.ran).ln();
                let enough = chances.iter().position(|chance| *chance >= demanded);
                enough.or_else(|| propose::highest(&chances))?
            }
            None => 0,
        };
        points.into_iter().nth(chosen)
    }
}
