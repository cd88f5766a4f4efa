//! What is moved and what is deleted.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::Leader;
use search::study::TrialState;

/// Weights that are there, kept or a candidate's.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredWeights {
    /// The trial.
    pub number: u64,
    /// Its seed.
    pub seed: u64,
    /// The epoch.
    pub epoch: u32,
    /// The objective's value in it.
    pub value: f64,
    /// Size in bytes.
    pub bytes: u64,
    /// The directory.
    pub path: PathBuf,
}

impl StoredWeights {
    /// Whether these are the weights that the leader's value comes from.
    fn of(&self, leader: &Leader) -> bool {
        self.number == leader.number
            && Some(self.epoch) == leader.epoch
            && leader.seed.is_none_or(|seed| seed == self.seed)
            && leader.values.first() == Some(&self.value)
    }
}

/// Something to do, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Move a candidate to where the trial's weights are kept, in the place of those that are there.
    Move {
        /// The candidate's directory.
        from: PathBuf,
        /// The trial.
        number: u64,
    },
    /// Delete a directory of kept weights.
    Delete {
        /// The directory.
        path: PathBuf,
    },
}

/// The trials whose ends may not have been heard of, because other nodes make them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unheard {
    /// Known ones, by number.
    open: BTreeSet<u64>,
    /// The first number of which nothing is known; `None`: there are no other nodes.
    from: Option<u64>,
}

impl Unheard {
    /// Those beside the trials that are known.
    pub fn beside(known: impl Iterator<Item = (u64, TrialState)>) -> Unheard {
        let (mut open, mut from) = (BTreeSet::new(), 0);
        for (number, state) in known {
            from = from.max(number + 1);
            if !state.finished() {
                open.insert(number);
            }
        }
        let from = Some(from);
        Unheard { open, from }
    }

    fn holds(&self, number: u64) -> bool {
        self.open.contains(&number) || self.from.is_some_and(|from| number >= from)
    }
}

/// What is to be done so that the weights of `leaders`, the best first, are kept, as far as they are
/// there, and no others; all together take at most `most` bytes, and those of the best come first. What was kept of a
/// trial whose end may not have been heard of stays.
pub fn plan(
    leaders: &[Leader],
    kept: &[StoredWeights],
    candidates: &[StoredWeights],
    most: u64,
    unheard: &Unheard,
) -> Vec<Step> {
    let mut stay: Vec<&StoredWeights> = Vec::new();
    let mut moves: Vec<&StoredWeights> = Vec::new();
    let mut bytes = 0u64;
    for leader in leaders {
        let there = kept.iter().find(|f| f.of(leader));
        let candidate = candidates.iter().find(|f| f.of(leader));
        let Some(found) = there.or(candidate) else {
            continue;
        };
        let sum = bytes.saturating_add(found.bytes);
        if sum > most {
            continue;
        }
        bytes = sum;
        match there {
            Some(found) => stay.push(found),
            None => moves.push(found),
        }
    }
    let stays = |found: &&StoredWeights| stay.iter().any(|s| s.path == found.path);
    let superseded = |found: &&StoredWeights| moves.iter().any(|m| m.number == found.number);
    let delete = |found: &StoredWeights| Step::Delete {
        path: found.path.clone(),
    };
    // Nothing goes before the better ones are in place; what is in the way of a move is replaced by it.
    let gone = kept.iter().filter(|f| !stays(f) && !superseded(f));
    let gone = gone.filter(|f| !unheard.holds(f.number));
    let gone: Vec<Step> = gone.map(delete).collect();
    let moves = moves.into_iter().map(|found| Step::Move {
        from: found.path.clone(),
        number: found.number,
    });
    moves.chain(gone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where there are no other nodes.
    fn plan(
        leaders: &[Leader],
        kept: &[StoredWeights],
        candidates: &[StoredWeights],
        most: u64,
    ) -> Vec<Step> {
        super::plan(leaders, kept, candidates, most, &Unheard::default())
    }

    fn leader(number: u64, value: f64) -> Leader {
        Leader {
            number,
            values: vec![value],
            epoch: Some(3),
            seed: Some(number + 100),
        }
    }

    fn found(number: u64, value: f64, place: &str) -> StoredWeights {
        StoredWeights {
            number,
            seed: number + 100,
            epoch: 3,
            value,
            bytes: 10,
            path: format!("{place}/{number}").into(),
        }
    }

    fn moved(number: u64) -> Step {
        Step::Move {
            from: format!("new/{number}").into(),
            number,
        }
    }

    fn deleted(number: u64) -> Step {
        Step::Delete {
            path: format!("kept/{number}").into(),
        }
    }

    #[test]
    fn a_new_leader_comes_in_before_the_old_one_goes() {
        let steps = plan(
            &[leader(4, 0.9)],
            &[found(1, 0.8, "kept")],
            &[found(4, 0.9, "new"), found(3, 0.7, "new")],
            1000,
        );
        assert_eq!(steps, [moved(4), deleted(1)]);
    }

    #[test]
    fn once_everything_is_in_place_nothing_is_done() {
        let leaders = [leader(4, 0.9), leader(1, 0.8)];
        let kept = [found(1, 0.8, "kept"), found(4, 0.9, "kept")];
        assert_eq!(plan(&leaders, &kept, &[], 1000), []);
        // A candidate that was copied before a kill is not looked at again.
        let again = [found(4, 0.9, "new")];
        assert_eq!(plan(&leaders, &kept, &again, 1000), []);
    }

    #[test]
    fn weights_of_another_epoch_or_value_or_seed_are_not_the_trials() {
        let other = |change: fn(&mut StoredWeights)| {
            let mut other = found(4, 0.9, "new");
            change(&mut other);
            other
        };
        let candidates = [
            other(|f| f.epoch = 2),
            other(|f| f.value = 0.89),
            other(|f| f.seed = 0),
            other(|f| f.number = 5),
        ];
        assert_eq!(plan(&[leader(4, 0.9)], &[], &candidates, 1000), []);
        // They are replaced where they are kept.
        let stale = StoredWeights {
            path: "kept/4".into(),
            ..other(|f| f.value = 0.89)
        };
        let right = [found(4, 0.9, "new")];
        let steps = plan(&[leader(4, 0.9)], &[stale], &right, 1000);
        assert_eq!(steps, [moved(4)]);
    }

    #[test]
    fn the_best_come_first_where_there_is_no_room_for_all() {
        let leaders = [leader(4, 0.9), leader(1, 0.8), leader(2, 0.7)];
        let kept = [found(1, 0.8, "kept"), found(2, 0.7, "kept")];
        let steps = plan(&leaders, &kept, &[found(4, 0.9, "new")], 25);
        assert_eq!(steps, [moved(4), deleted(2)]);
        assert_eq!(plan(&[], &kept, &[], 25), [deleted(1), deleted(2)]);
    }
}
