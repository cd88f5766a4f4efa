//! The core beside a program that asks, tells, enqueues, claims, fails, ends, strikes and deletes trials of the
//! same study at random, between any two of our writes. It could rename the study as well: the core knows its row
//! alone, so that tests of the real binary do that.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::*;
use search::study::{self, STRUCK};

/// The other program.
pub struct Foreign {
    rng: ChaCha8Rng,
    /// How often it does something, between two events of ours.
    busy: f64,
    /// What it has left to do: a run beside one that deletes for ever has no end.
    left: u32,
}

impl Foreign {
    pub fn new(seed: u64, busy: f64, left: u32) -> Foreign {
        Foreign {
            rng: study::rng(seed, 0, "foreign"),
            busy,
            left,
        }
    }

    /// One that does nothing by itself.
    pub fn idle() -> Foreign {
        Foreign::new(0, 0.0, 0)
    }

    pub fn act(&mut self, disk: &mut Disk) {
        while self.left > 0 && self.rng.random_bool(self.busy) {
            self.left -= 1;
            self.once(disk);
        }
    }

    fn once(&mut self, disk: &mut Disk) {
        let ends = [TrialState::Complete, TrialState::Pruned, TrialState::Fail];
        let end = ends[self.rng.random_range(0..3)];
        match self.rng.random_range(0..11) {
            0..3 => self.add(disk, TrialState::Running),
            3 => self.add(disk, TrialState::Waiting),
            4..7 => self.end(disk, end, |disk, t| !disk.is_ours(t.number)),
            7 => self.end(disk, end, |disk, t| disk.is_ours(t.number)),
            8 => {
                let waiting: Vec<u64> = (disk.trials.values())
                    .filter(|t| t.state == TrialState::Waiting)
                    .map(|t| t.number)
                    .collect();
                if let Some(number) = self.one(&waiting) {
                    disk.trials.get_mut(&number).unwrap().state = TrialState::Running;
                }
            }
            9 => {
                let ended = disk.trials.values().filter(|t| t.state.finished());
                let ended: Vec<u64> = ended.map(|t| t.number).collect();
                if let Some(number) = self.one(&ended) {
                    let attrs = &mut disk.trials.get_mut(&number).unwrap().system_attrs;
                    attrs.insert(STRUCK.to_owned(), 1.0.into());
                }
            }
            _ => {
                // The last one most often: its number is given again.
                let all: Vec<u64> = disk.trials.keys().rev().take(3).copied().collect();
                if let Some(number) = self.one(&all) {
                    disk.delete(number);
                }
            }
        }
    }

    fn add(&mut self, disk: &mut Disk, state: TrialState) {
        let x: f64 = self.rng.random_range(0.0..1.0);
        let mut trial = trial(disk.next(), state);
        if state == TrialState::Running {
            trial.params.insert("x".into(), Value::Float(x));
            trial.distributions = spec(1, 1).space.distributions(&trial.params);
        }
        disk.trials.insert(trial.number, trial);
    }

    fn end(&mut self, disk: &mut Disk, state: TrialState, whose: fn(&Disk, &FrozenTrial) -> bool) {
        let running: Vec<u64> = (disk.trials.values())
            .filter(|t| t.state == TrialState::Running && whose(disk, t))
            .map(|t| t.number)
            .collect();
        if let Some(number) = self.one(&running) {
            let trial = disk.trials.get_mut(&number).unwrap();
            trial.state = state;
            if state == TrialState::Complete {
                trial.values = vec![0.25];
            }
        }
    }

    fn one(&mut self, of: &[u64]) -> Option<u64> {
        (!of.is_empty()).then(|| of[self.rng.random_range(0..of.len())])
    }
}

/// A trial without anything.
pub fn trial(number: u64, state: TrialState) -> FrozenTrial {
    FrozenTrial::new(number, state, Params::new())
}

/// What has to hold of a study whose run ended with 0.
fn check_end(world: &World, goal: u64) -> Result<(), TestCaseError> {
    let counted = world.disk.trials.values().filter(|t| t.counts()).count() as u64;
    prop_assert!(counted >= goal, "{counted} of {goal}");
    prop_assert_eq!(world.core.counts().finished(), counted);
    for number in world.disk.holders.keys() {
        let state = world.disk.trials[number].state;
        prop_assert!(state.finished(), "trial {} is {}", number, state);
        let open = world.disk.attempts.get(number).into_iter().flatten();
        prop_assert_eq!(
            open.filter(|a| a.is_none()).count(),
            0,
            "attempts of {}",
            number
        );
    }
    let best = (world.disk.trials.values())
        .filter(|t| t.state == TrialState::Complete && !t.struck())
        .filter_map(FrozenTrial::value)
        .min_by(f64::total_cmp);
    prop_assert_eq!(world.core.best().and_then(|b| b.value), best);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn beside_another_program_no_trial_is_forgotten_or_run_twice_and_the_goal_is_met(
        seed in 0u64..u64::MAX, slots in 1usize..9, busy in 0.02..0.6, acts in 0u32..120,
        faults in prop_oneof![Just(0.0), 0.0..0.05], checkpoint: bool,
    ) {
        let mut spec = spec(20, slots);
        spec.operation.supervisor.checkpoint = checkpoint;
        let mut world = World::new(spec, Disk::default(), seed, faults);
        world.late = seed % 2 == 0;
        world.foreign = Some(Foreign::new(seed, busy, acts));
        world.run(20_000);
        prop_assert!(matches!(world.finished, Some(Exit::Done | Exit::Breaker)));
        if world.finished == Some(Exit::Done) {
            check_end(&world, 20)?;
        }
    }

    #[test]
    fn a_run_cut_beside_another_program_goes_on_where_it_was(
        seed in 0u64..u64::MAX, slots in 1usize..9, busy in 0.02..0.6,
        cuts in proptest::collection::vec(1u32..80, 1..6),
    ) {
        let mut disk = Disk::default();
        let mut foreign = Foreign::new(seed, busy, 100);
        for cut in cuts.into_iter().chain([20_000]) {
            let mut world = World::new(spec(15, slots), disk, seed, 0.0);
            world.late = seed % 2 == 0;
            world.foreign = Some(foreign);
            world.run(cut);
            if cut == 20_000 {
                prop_assert_eq!(world.finished, Some(Exit::Done));
                check_end(&world, 15)?;
            }
            (disk, foreign) = (world.disk, world.foreign.unwrap());
        }
    }
}

/// Each of several starts on their way has a number that follows a wrong one.
#[test]
fn numbers_are_found_again_after_the_last_trials_were_deleted_under_many_slots() {
    let mut world = World::new(spec(40, 5), Disk::default(), 1, 0.0);
    world.foreign = Some(Foreign::idle());
    let mut deletions = 0;
    while world.finished.is_none() {
        assert!(world.events < 20_000, "{:?}", world.core.counts());
        world.run(world.events + 2);
        let last = world.disk.trials.keys().next_back().copied();
        if let Some(last) = last.filter(|_| deletions < 20 && !world.unwritten.is_empty()) {
            world.disk.delete(last);
            deletions += 1;
        }
    }
    assert_eq!(world.finished, Some(Exit::Done));
    assert!(deletions > 10, "{deletions}");
    assert!(world.disk.next() < 80, "{}", world.disk.next());
}
