//! Bayesian optimisation with a Gaussian process over mixed and conditional spaces.
//!
//! The losses of the trials (see `targets`) are modelled by a process with a Matérn 5/2 kernel
//! and additive kernel (`kernel`), its parameters fitted (`fit`) to the history alone; the next
//! point has the highest logarithm of the expected improvement (`improvement`), times the
//! probability that it can be run (`feasibility`), over all of the space (`search`). Trials that
//! run count as having the value that is expected of them, trials that were stopped early as
//! having the value they were heading for, with a doubt of their own (`observations`).

mod acquisition;
mod feasibility;
mod feasible_points;
mod fit;
mod improvement;
mod kernel;
mod lbfgs;
mod model;
mod observations;
mod posterior;
mod propose;
mod search;
mod simd;
mod targets;

use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use super::encoding::{Encoding, Point};
use super::sobol::SPREAD;
use super::{Ask, Proposal, Sampler, random};
use crate::study;

use self::feasibility::FeasibilityModel;
pub(super) use self::feasible_points::FeasiblePoints;
use self::model::Fits;
use self::observations::Observations;
use self::propose::{ConditionalBranches, Proposer};

/// What points of a choice that is not the best one are said to be proposed by.
const CHALLENGER: &str = "gp-challenger";

/// What points beside one that could be run are said to be proposed by, after several that could not.
const RECOVERY: &str = "gp-recovery";

/// Where there are choices, one trial in so many is that of a choice which is not the best one.
const CHALLENGE: u32 = 6;

/// The same while nothing better is found.
const CHALLENGE_IF_STAGNANT: u32 = 3;

/// The share of points with choices that have not been tried together, while nothing better is
/// found and some points could not be run.
const PAIRS: f64 = 1.0 / 6.0;

/// Points in a row that could not be run, after which the model is doubted.
const STREAK: usize = 3;

/// The same while there is no model.
const STREAK_AT_START: usize = 2;

/// Points in a row that could not be run, after which those beside a point that could be are no
/// help either: what can be run may have changed, or lie elsewhere.
const HOPELESS: usize = 5;

/// The share of spread points while nothing better is found.
const SPREAD_IF_STAGNANT: f64 = 0.1;

/// Options of [`GpSampler`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpOptions {
    /// Trials spread over the space before the model is used.
    pub n_startup_trials: usize,
    /// Most trials that the model holds; of more the best, the latest and some of the others.
    pub n_exact: usize,
}

impl Default for GpOptions {
    fn default() -> GpOptions {
        GpOptions {
            n_startup_trials: 8,
            n_exact: 1000,
        }
    }
}

/// What need not be computed again.
#[derive(Debug, Clone, Default)]
struct Cache {
    fits: Fits,
    feasible: FeasibilityModel,
}

/// A Gaussian process and the logarithm of the expected improvement.
#[derive(Debug, Clone, Default)]
pub struct GpSampler {
    options: GpOptions,
    memory: Cache,
}

impl GpSampler {
    /// A sampler with these options.
    pub fn new(options: GpOptions) -> GpSampler {
        GpSampler {
            options,
            memory: Cache::default(),
        }
    }
}

impl Sampler for GpSampler {
    fn name(&self) -> &'static str {
        "gp"
    }

    fn candidate(&mut self, ask: &Ask) -> Option<Proposal> {
        let encoding = Encoding::new(ask.space);
        let seen = Observations::new(ask, &encoding, usize::MAX);
        let mut rng = ask.rng();
        let trials = seen.points.len();
        let starts = trials < self.options.n_startup_trials.max(2);
        let safe = recovery(
            &encoding,
            &seen,
            starts,
            &mut self.memory.feasible,
            &mut rng,
        );
        let (point, by) = if safe.is_some() {
            (safe, RECOVERY)
        } else if spreads(&seen, &mut study::rng(ask.seed, ask.number, "spread")) {
            (propose::spread(ask, &encoding, ask.number), SPREAD)
        } else if starts {
            let feasible = &mut self.memory.feasible;
            let point = propose::start(ask, &encoding, &seen, feasible, &mut rng);
            (point, SPREAD)
        } else {
            let known = Proposer {
                encoding: &encoding,
                earlier: Observations::new(ask, &encoding, model::refit_size(trials)),
                seen,
                most: self.options.n_exact,
            };
            let mut own = study::rng(ask.seed, ask.number, "challenge");
            let challenged = match turn(&known, &mut own) {
                Some(Turn::Choice(branches)) => {
                    known.challenge(&branches, &mut self.memory, &mut rng)
                }
                Some(Turn::Pair) => known.untried_pair(&mut self.memory, &mut rng),
                None => None,
            };
            match challenged {
                Some(point) => (Some(point), CHALLENGER),
                None => (known.improve(&mut self.memory, &mut rng), self.name()),
            }
        };
        point
            .map(|point| encoding.params(&point))
            .filter(|params| ask.space.violated(params).is_none())
            .map(Proposal::by(by))
            .or_else(|| random::draw_or_walk(ask, &mut rng).map(Proposal::by(random::BY)))
    }
}

/// A point that probably can be run, after several that could not; `None` before any could.
fn recovery(
    encoding: &Encoding,
    seen: &Observations,
    starts: bool,
    feasible: &mut FeasibilityModel,
    rng: &mut ChaCha8Rng,
) -> Option<Point> {
    match !seen.points.is_empty() && recovers(seen.streak(), starts) {
        true => propose::beside(encoding, seen, feasible, rng),
        false => None,
    }
}

/// Whether the next point is to be one that can be run, whatever else can be said for it.
fn recovers(streak: usize, starts: bool) -> bool {
    let first = if starts { STREAK_AT_START } else { STREAK };
    (first..HOPELESS).contains(&streak)
}

/// Whether a trial is for a point that no model chose: the more often, the less a model can know.
fn spreads(seen: &Observations, rng: &mut ChaCha8Rng) -> bool {
    let share = if seen.flat() {
        1.0
    } else if seen.streak() >= STREAK {
        0.5
    } else if seen.stagnant() {
        SPREAD_IF_STAGNANT
    } else {
        0.0
    };
    rng.random::<f64>() < share
}

/// What other than the best choices is tried.
enum Turn {
    /// Another choice of this parameter.
    Choice(ConditionalBranches),
    /// Two choices that have not been tried together.
    Pair,
}

/// Whether a trial tries something other than the best choices.
fn turn(known: &Proposer, rng: &mut ChaCha8Rng) -> Option<Turn> {
    let stagnant = known.seen.stagnant();
    if stagnant && !known.seen.infeasible.is_empty() && rng.random_bool(PAIRS) {
        return Some(Turn::Pair);
    }
    let every = match stagnant {
        true => CHALLENGE_IF_STAGNANT,
        false => CHALLENGE,
    };
    if rng.random_range(0..every) != 0 {
        return None;
    }
    let best = known.seen.ranked().into_iter().next()?;
    challenged(known.encoding, &known.seen.points[best], rng).map(Turn::Choice)
}

/// A parameter with choices that the best point has: the more often, the more parameters depend on
/// it. Another model is another search, which a few trials in passing do not make; another choice
/// that stands alone is compared in every trial.
fn challenged(
    encoding: &Encoding,
    best: &[f64],
    rng: &mut ChaCha8Rng,
) -> Option<ConditionalBranches> {
    let mut forks = encoding.conditional_branches();
    forks.retain(|(parameter, _)| !best[*parameter].is_nan());
    let weight = |fork: &ConditionalBranches| 1 + encoding.dependents(fork.0);
    forks.choose_weighted(rng, weight).ok().cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::testing;

    #[test]
    fn choices_of_the_best_point_that_much_depends_on_are_challenged_most() {
        let space = testing::conditional_space();
        let encoding = Encoding::new(&space);
        let forks = |best: &[f64]| -> [usize; 2] {
            let mut counts = [0, 0];
            for number in 0..400 {
                let mut rng = study::rng(1, number, "test");
                match challenged(&encoding, best, &mut rng)
                    .expect("a parameter")
                    .0
                {
                    0 => counts[0] += 1,
                    4 => counts[1] += 1,
                    other => panic!("{}", space.parameters[other].name),
                }
            }
            counts
        };
        // The booster exists beside large models only; two parameters hang on each of the two.
        let nan = f64::NAN;
        assert_eq!(forks(&[0.0, 0.5, 0.5, nan, nan, nan, nan]), [400, 0]);
        let [model, booster] = forks(&[1.0, 0.5, 0.5, 0.5, 0.0, nan, nan]);
        assert!(model > 150 && booster > 150, "{model} {booster}");

        let space = testing::mixed_space();
        let encoding = Encoding::new(&space);
        let alone = challenged(&encoding, &[0.5; 12], &mut study::rng(1, 0, "test"));
        assert_eq!(alone.map(|fork| fork.0), Some(8), "choice stands alone");
    }

    #[test]
    fn after_a_streak_of_failures_points_that_can_be_run_have_a_few_turns() {
        let turns = |starts| (0..8).map(|n| recovers(n, starts)).collect::<Vec<_>>();
        let at =
            |range: std::ops::Range<usize>| (0..8).map(|n| range.contains(&n)).collect::<Vec<_>>();
        assert_eq!(turns(true), at(2..5));
        assert_eq!(turns(false), at(3..5));
    }
}
