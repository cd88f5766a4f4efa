//! Hyperband (Li et al., 2018) as Optuna's `HyperbandPruner` has it: every trial belongs to a bracket
//! of asynchronous successive halving, and brackets differ in their lowest rung.

use super::reports;
use super::{AshaPruner, Horizon, PruneContext, Pruner};
use crate::study::History;

/// Deals trials to brackets by a hash of study and number, and judges each among its bracket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HyperbandPruner {
    /// The lowest rung of the first bracket, at least 1.
    pub min_resource: i64,
    /// The steps of a whole trial. `None`: what the horizon says, else those of the longest COMPLETE
    /// trial; nothing is pruned before there is one.
    pub max_resource: Option<i64>,
    /// One trial of so many goes on at a rung, at least 2.
    pub reduction_factor: i64,
    /// At each rung of each bracket, the first so many trials end.
    pub bootstrap_count: usize,
    /// What is known of the study.
    pub horizon: Horizon,
}

impl Default for HyperbandPruner {
    fn default() -> HyperbandPruner {
        HyperbandPruner {
            min_resource: 1,
            max_resource: None,
            reduction_factor: 3,
            bootstrap_count: 0,
            horizon: Horizon::default(),
        }
    }
}

impl Pruner for HyperbandPruner {
    fn name(&self) -> &'static str {
        "hyperband"
    }

    fn judge(&mut self, judged: &PruneContext) -> bool {
        let Some(brackets) = self.brackets(judged.history) else {
            return false;
        };
        let bracket = self.bracket(judged.trial.number, brackets);
        let halving = AshaPruner {
            min_resource: Some(self.min_resource.max(1)),
            reduction_factor: self.factor(),
            min_early_stopping_rate: bracket,
            bootstrap_count: self.bootstrap_count,
            horizon: self.horizon.clone(),
        };
        halving.judge_among(judged, |e| self.bracket(e.number, brackets) == bracket)
    }
}

impl HyperbandPruner {
    fn factor(&self) -> i64 {
        self.reduction_factor.max(2)
    }

    /// How many brackets there are: one for each power of the factor from `min_resource` to
    /// `max_resource`.
    fn brackets(&self, history: &History) -> Option<u32> {
        let planned = self.horizon.max_step.and_then(|m| i64::try_from(m).ok());
        let learned = || {
            let (last, from_zero) = reports::longest(history)?;
            Some(last + i64::from(from_zero))
        };
        let most = self.max_resource.or(planned).or_else(learned)?;
        // In integers: a logarithm of floats loses a bracket at exact powers.
        let whole = (most / self.min_resource.max(1)).max(1);
        Some(whole.ilog(self.factor()) + 1)
    }

    /// The bracket of a trial, from 0; the lower ones hold more trials, as each is to get the same
    /// number of steps.
    fn bracket(&self, number: u64, brackets: u32) -> u32 {
        let shares = (0..brackets).map(|bracket| {
            let rungs = brackets - 1 - bracket;
            let trials = u128::from(brackets) * (self.factor() as u128).pow(rungs);
            trials.div_ceil(u128::from(rungs + 1))
        });
        let name = format!("{}_{number}", self.horizon.study);
        let mut place =
            u128::from(crc32fast::hash(name.as_bytes())) % shares.clone().sum::<u128>().max(1);
        for (bracket, share) in (0..).zip(shares) {
            if place < share {
                return bracket;
            }
            place -= share;
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{entry, epochs, history};
    use super::*;
    use crate::study::{Direction, TrialState};

    fn hyperband(max_step: Option<u64>) -> HyperbandPruner {
        HyperbandPruner {
            horizon: Horizon {
                max_step,
                study: "study".into(),
            },
            ..HyperbandPruner::default()
        }
    }

    #[test]
    fn there_is_a_bracket_for_each_power_of_the_factor() {
        let empty = history(Direction::Minimize, &[]);
        let brackets = |max_step| hyperband(Some(max_step)).brackets(&empty);
        let found = [1, 2, 3, 9, 26, 27, 243].map(brackets);
        assert_eq!(found, [1, 1, 2, 3, 3, 4, 6].map(Some));
        let field = HyperbandPruner {
            min_resource: 3,
            max_resource: Some(100),
            ..hyperband(None)
        };
        assert_eq!(field.brackets(&empty), Some(4));
    }

    #[test]
    fn an_unknown_length_is_that_of_the_longest_complete_trial() {
        let brackets = |e| hyperband(None).brackets(&history(Direction::Minimize, &[e]));
        assert_eq!(brackets(entry(0, TrialState::Pruned, &[1.0; 9])), None);
        assert_eq!(brackets(entry(0, TrialState::Complete, &[1.0; 9])), Some(3));
        assert_eq!(
            brackets(epochs(0, TrialState::Complete, &[1.0; 9])),
            Some(3)
        );
        assert_eq!(
            brackets(epochs(0, TrialState::Complete, &[1.0; 8])),
            Some(2)
        );
    }

    #[test]
    fn every_bracket_gets_its_share_and_other_studies_deal_otherwise() {
        let pruner = hyperband(Some(81));
        let mut counts = [0; 5];
        for number in 0..1000 {
            counts[pruner.bracket(number, 5) as usize] += 1;
        }
        // 81, 34, 15, 8 and 5 of 143.
        for (count, share) in counts.into_iter().zip([81.0, 34.0, 15.0, 8.0, 5.0]) {
            let expected: f64 = share / 143.0 * 1000.0;
            assert!(
                (f64::from(count) - expected).abs() < 4.0 * expected.sqrt(),
                "{counts:?}"
            );
        }
        let mut other = pruner.clone();
        other.horizon.study = "another".into();
        assert!((0..50).any(|n| pruner.bracket(n, 5) != other.bracket(n, 5)));
    }

    #[test]
    fn a_trial_is_judged_among_its_bracket_alone() {
        let mut pruner = hyperband(Some(9));
        let same = |n: &u64| pruner.bracket(*n, 3) == pruner.bracket(0, 3);
        assert!(pruner.bracket(0, 3) < 2, "bracket 2 has no rung to end at");
        let mates: Vec<u64> = (1..60).filter(same).take(3).collect();
        let others: Vec<u64> = (1..60).filter(|n| !same(n)).collect();
        let good = |numbers: &[u64]| {
            let entries = numbers
                .iter()
                .map(|n| epochs(*n, TrialState::Complete, &[1.0; 9]));
            history(Direction::Minimize, &entries.collect::<Vec<_>>())
        };
        let own = |n: usize| epochs(0, TrialState::Running, &[5.0; 9][..n]);
        let mut ends = |numbers: &[u64]| {
            let history = good(numbers);
            (1..=9).any(|n| pruner.should_prune(&history, &own(n)))
        };
        assert!(!ends(&others));
        assert!(ends(&mates));
    }
}
