//! Which trials are among the best.

use search::study::pareto::dominates;
use search::study::{Direction, FrozenTrial, pareto};

/// One of the best trials.
#[derive(Debug, Clone, PartialEq)]
pub struct Leader {
    /// The trial's number.
    pub number: u64,
    /// One value an objective.
    pub values: Vec<f64>,
    /// The epoch that the values come from; `None`: no epoch's.
    pub epoch: Option<u32>,
    /// The training's seed, where it is known.
    pub seed: Option<u64>,
}

impl Leader {
    /// The trial, if it can be one of the best: COMPLETE and feasible, with a value for each
    /// objective.
    pub fn of(trial: &FrozenTrial, objectives: usize) -> Option<Leader> {
        trial.result(objectives).map(|values| Leader {
            number: trial.number,
            values: values.to_vec(),
            epoch: attribute(trial, "best_epoch").and_then(|n| u32::try_from(n).ok()),
            seed: attribute(trial, "seed"),
        })
    }
}

fn attribute(trial: &FrozenTrial, name: &str) -> Option<u64> {
    trial.user_attrs.get(name)?.as_u64()
}

/// The best trials, the best first, among equals the earliest. With several objectives those that no
/// other dominates, the best by the first objective first.
#[derive(Debug, Clone, PartialEq)]
pub struct Leaders {
    directions: Vec<Direction>,
    most: usize,
    /// Sorted; of one objective `most`, of several the whole front.
    trials: Vec<Leader>,
}

impl Leaders {
    /// The best `most` of these trials; one direction an objective.
    pub fn new(directions: Vec<Direction>, most: usize, trials: &[FrozenTrial]) -> Leaders {
        let objectives = directions.len();
        let mut leaders = Leaders {
            directions,
            most,
            trials: Vec::new(),
        };
        for leader in trials.iter().filter_map(|t| Leader::of(t, objectives)) {
            leaders.put(leader);
        }
        leaders
    }

    /// Takes in a trial that has ended.
    pub fn put(&mut self, leader: Leader) {
        self.trials.retain(|other| other.number != leader.number);
        let several = self.directions.len() > 1;
        if several {
            let losses = |of: &Leader| pareto::losses(&self.directions, &of.values);
            let new = losses(&leader);
            if self.trials.iter().any(|t| dominates(&losses(t), &new)) {
                return;
            }
            self.trials.retain(|t| !dominates(&new, &losses(t)));
        }
        self.trials.push(leader);
        if let Some(direction) = self.directions.first() {
            let key = |of: &Leader| (of.values.first().copied().unwrap_or(f64::NAN), of.number);
            self.trials.sort_by(|a, b| direction.order(key(a), key(b)));
        }
        if !several {
            self.trials.truncate(self.most);
        }
    }

    /// A trial cannot be one of the best any more.
    pub fn remove(&mut self, number: u64) {
        self.trials.retain(|trial| trial.number != number);
    }

    /// Those whose weights are kept, the best first.
    pub fn best(&self) -> &[Leader] {
        &self.trials[..self.most.min(self.trials.len())]
    }

    /// What the value of trial `number` has to be better than, for its weights to be kept as the trials
    /// stand now. `None`: any value may do, as with several objectives, where any may be on the front.
    pub fn bar(&self, number: u64) -> Option<f64> {
        // Among equals the earlier trial comes first.
        let before = self.trials.iter().all(|t| t.number < number);
        let full = self.directions.len() == 1 && self.trials.len() >= self.most;
        let last = self.trials.last().filter(|_| full && before)?;
        last.values.first().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &[Direction] = &[Direction::Maximize];
    const TWO: &[Direction] = &[Direction::Maximize, Direction::Minimize];

    fn leader(number: u64, values: &[f64]) -> Leader {
        Leader {
            number,
            values: values.to_vec(),
            epoch: Some(1),
            seed: None,
        }
    }

    fn best(directions: &[Direction], most: usize, of: &[(u64, &[f64])]) -> Vec<u64> {
        let mut leaders = Leaders::new(directions.to_vec(), most, &[]);
        of.iter().for_each(|(n, v)| leaders.put(leader(*n, v)));
        leaders.best().iter().map(|l| l.number).collect()
    }

    #[test]
    fn the_best_come_first_and_the_earliest_among_equals() {
        let trials: [(u64, &[f64]); 4] = [(7, &[0.5]), (1, &[0.4]), (2, &[0.5]), (3, &[0.9])];
        assert_eq!(best(ONE, 3, &trials), [3, 2, 7]);
        assert_eq!(best(ONE, 1, &trials), [3]);
        assert!(best(ONE, 0, &trials).is_empty());
    }

    #[test]
    fn with_several_objectives_they_are_the_front_by_the_first() {
        let trials: [(u64, &[f64]); 4] = [
            (0, &[0.9, 5.0]),
            (1, &[0.8, 5.0]),
            (2, &[0.7, 1.0]),
            (3, &[0.95, 9.0]),
        ];
        assert_eq!(best(TWO, 5, &trials), [3, 0, 2]);
        assert_eq!(best(TWO, 2, &trials), [3, 0]);
    }

    #[test]
    fn the_bar_is_the_last_of_the_best_once_there_are_enough() {
        let mut leaders = Leaders::new(ONE.to_vec(), 2, &[]);
        leaders.put(leader(0, &[0.3]));
        assert_eq!(leaders.bar(9), None);
        leaders.put(leader(1, &[0.5]));
        assert_eq!(leaders.bar(9), Some(0.3));
        leaders.put(leader(3, &[0.6]));
        assert_eq!(leaders.bar(9), Some(0.5));
        assert_eq!(
            leaders.bar(2),
            None,
            "an earlier trial wins with an equal value"
        );
        let mut several = Leaders::new(TWO.to_vec(), 1, &[]);
        several.put(leader(0, &[0.3, 1.0]));
        assert_eq!(several.bar(9), None);
    }
}
