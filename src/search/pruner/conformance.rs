//! What every pruner must do, whatever its algorithm: one suite, run for each kind.

use proptest::prelude::*;

use super::testing::{entry, epochs, history, put, steps};
use super::{Horizon, Pruner, pruner};
use crate::pruner::PrunerSpec;
use crate::space::{Params, Value};
use crate::study::{Direction, Entry, History, TrialState};

/// A kind with options.
#[derive(Debug, Clone, Copy)]
struct Make {
    kind: &'static str,
    options: fn() -> Vec<(&'static str, Value)>,
    /// Whether it compares trials.
    compares: bool,
}

const fn make(
    kind: &'static str,
    compares: bool,
    options: fn() -> Vec<(&'static str, Value)>,
) -> Make {
    Make {
        kind,
        options,
        compares,
    }
}

/// Every kind; those that compare with options that let them decide early.
const PRUNERS: [Make; 11] = [
    make("none", false, Vec::new),
    make("auto", true, || vec![("n_startup_trials", 6.into())]),
    make("median", true, || vec![("n_startup_trials", 1.into())]),
    make("percentile", true, || {
        vec![("n_startup_trials", 1.into()), ("percentile", 10.0.into())]
    }),
    make("asha", true, Vec::new),
    make("asha", true, || {
        vec![("min_resource", 2.into()), ("reduction_factor", 2.into())]
    }),
    make("hyperband", true, || vec![("reduction_factor", 2.into())]),
    make("patient", false, || {
        vec![("patience", 2.into()), ("wrapped.kind", "none".into())]
    }),
    make("patient", true, || {
        vec![
            ("patience", 0.into()),
            ("wrapped.kind", "median".into()),
            ("wrapped.n_startup_trials", 1.into()),
        ]
    }),
    make("threshold", false, || {
        vec![("lower", (-50.0).into()), ("upper", 50.0.into())]
    }),
    make("wilcoxon", true, Vec::new),
];

const MAX_STEP: u64 = 16;

impl Make {
    fn with(self, max_step: Option<u64>) -> Box<dyn Pruner> {
        let options = (self.options)().into_iter();
        let spec = PrunerSpec {
            kind: self.kind.into(),
            options: options.map(|(k, v)| (k.to_owned(), v)).collect(),
        };
        let study = "study".to_owned();
        pruner(&spec, &Horizon { max_step, study }).unwrap()
    }

    fn planned(self) -> Box<dyn Pruner> {
        self.with(Some(MAX_STEP))
    }
}

/// The first step at which a trial with these reports, one an epoch, is pruned.
fn end(pruner: &mut dyn Pruner, history: &History, own: &[f64]) -> Option<usize> {
    (1..=own.len()).find(|n| {
        let trial = epochs(500, TrialState::Running, &own[..*n]);
        pruner.should_prune(history, &trial)
    })
}

/// A falling curve.
fn curve(end: f64, length: usize) -> Vec<f64> {
    let at = |t: usize| end + 3.0 * (-0.4 * t as f64).exp();
    (1..=length).map(at).collect()
}

fn complete(n: u64, make: impl Fn(u64) -> Vec<f64>) -> Vec<Entry> {
    let trial = |number| epochs(number, TrialState::Complete, &make(number));
    (0..n).map(trial).collect()
}

/// Falling curves that end evenly between 1 and 2.
fn ordinary(n: u64, length: usize) -> Vec<Entry> {
    complete(n, |i| curve(1.0 + i as f64 / n as f64, length))
}

#[test]
fn every_kind_passes_this_suite() {
    for make in PRUNERS {
        let spec = PrunerSpec {
            kind: make.kind.into(),
            options: Params::new(),
        };
        let made = pruner(&spec, &Horizon::default()).unwrap();
        assert_eq!(made.name(), make.kind);
    }
    let spec = PrunerSpec {
        kind: "other".into(),
        options: Params::new(),
    };
    assert!(pruner(&spec, &Horizon::default()).is_none());
}

#[test]
fn the_best_trial_so_far_goes_on_and_so_does_one_alone() {
    let others = ordinary(40, 16);
    for direction in [Direction::Minimize, Direction::Maximize] {
        let sign = direction.loss(1.0);
        for make in PRUNERS {
            for max_step in [None, Some(MAX_STEP)] {
                let mut pruner = make.with(max_step);
                let told: Vec<Entry> = others.iter().map(|e| times(e, sign)).collect();
                let best: Vec<f64> = curve(0.9, 16).iter().map(|v| v * sign).collect();
                let told = history(direction, &told);
                assert_eq!(end(&mut *pruner, &told, &best), None, "{make:?}");
                let alone = history(direction, &[]);
                assert_eq!(end(&mut *pruner, &alone, &best), None, "{make:?}");
                let nothing = epochs(500, TrialState::Running, &[]);
                assert!(!pruner.should_prune(&told, &nothing), "{make:?}");
            }
        }
    }
}

fn times(entry: &Entry, sign: f64) -> Entry {
    let mut entry = entry.clone();
    entry.intermediate.values_mut().for_each(|v| *v *= sign);
    entry
}

#[test]
fn a_hopeless_trial_ends_in_every_pruner_that_compares() {
    let told = history(Direction::Minimize, &ordinary(40, 16));
    // Each report is worse than the one before, so that patience ends as well.
    let own: Vec<f64> = (1..=16).map(|t| 20.0 + f64::from(t)).collect();
    for make in PRUNERS.iter().filter(|m| m.compares) {
        assert!(end(&mut *make.planned(), &told, &own).is_some(), "{make:?}");
        assert!(
            end(&mut *make.with(None), &told, &own).is_some(),
            "{make:?}"
        );
    }
}

#[test]
fn nan_is_worst() {
    let told = history(Direction::Minimize, &ordinary(40, 16));
    for make in PRUNERS.iter().filter(|m| m.kind != "none") {
        let found = end(&mut *make.planned(), &told, &[f64::NAN; 16]);
        assert!(found.is_some(), "{make:?}");
    }
}

#[test]
fn trials_that_ended_by_their_own_patience_count_at_later_steps() {
    // Good trials stop at epoch 3, bad ones train to the end.
    let mut told = ordinary(30, 3);
    told.extend((30..34).map(|n| epochs(n, TrialState::Complete, &[30.0; 16])));
    let told = history(Direction::Minimize, &told);
    let reports = (4..=16).map(|t| (t, 20.0 + t as f64));
    let late = steps(500, TrialState::Running, reports);
    for make in PRUNERS
        .iter()
        .filter(|m| m.compares && m.kind != "wilcoxon")
    {
        let mut pruner = make.planned();
        let ends = (1..=late.intermediate.len()).any(|n| {
            let mut now = late.clone();
            now.intermediate = late.intermediate.clone().into_iter().take(n).collect();
            pruner.should_prune(&told, &now)
        });
        assert!(ends, "{make:?}");
    }
}

#[test]
fn points_chosen_from_another_study_are_not_compared_with() {
    let mut told = ordinary(40, 16);
    told.iter_mut().for_each(|e| e.chosen = true);
    let told = history(Direction::Minimize, &told);
    for make in PRUNERS.iter().filter(|m| m.compares) {
        // Without patience running out, and alone at its rung.
        let found = end(&mut *make.planned(), &told, &curve(20.0, 16));
        assert_eq!(found, None, "{make:?}");
    }
}

fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        12 => -3.0..3.0,
        3 => prop::sample::select(vec![0.0, 1.0, 1e9, -1e9, 1e308, -1e308]),
        1 => Just(f64::NAN),
        1 => Just(f64::INFINITY),
        1 => Just(f64::NEG_INFINITY),
    ]
}

fn trials() -> impl Strategy<Value = Vec<Entry>> {
    let state = prop::sample::select(vec![
        TrialState::Complete,
        TrialState::Complete,
        TrialState::Complete,
        TrialState::Pruned,
        TrialState::Running,
        TrialState::Fail,
    ]);
    let one = (state, prop::collection::vec(value(), 0..18), any::<u8>());
    prop::collection::vec(one, 0..30).prop_map(|all| {
        let entries = (0..).zip(all).map(|(number, (state, reports, chosen))| {
            let mut trial = entry(number, state, &reports);
            trial.chosen = chosen < 20;
            trial
        });
        entries.collect()
    })
}

proptest! {
    #[test]
    fn an_answer_depends_on_the_question_alone(
        studies in prop::collection::vec(trials(), 1..4),
        own in prop::collection::vec(value(), 1..18),
        max_step in prop::option::of(1..20_u64),
        order in prop::collection::vec(0..4_usize, 6),
    ) {
        for make in PRUNERS {
            let mut used = make.with(max_step);
            for index in &order {
                let told = history(Direction::Minimize, &studies[index % studies.len()]);
                for n in 1..=own.len() {
                    let trial = entry(500, TrialState::Running, &own[..n]);
                    let found = used.should_prune(&told, &trial);
                    let mut with_own = told.clone();
                    put(&mut with_own, &trial);
                    let fresh = make.with(max_step).should_prune(&with_own, &trial);
                    prop_assert_eq!(found, fresh, "{:?}", make);
                }
            }
        }
    }

    #[test]
    fn both_directions_are_treated_alike(
        others in trials(),
        own in prop::collection::vec(value(), 1..18),
    ) {
        for make in PRUNERS {
            let falling = history(Direction::Minimize, &others);
            let rising: Vec<Entry> = others.iter().map(|e| times(e, -1.0)).collect();
            let rising = history(Direction::Maximize, &rising);
            for n in 1..=own.len() {
                let trial = entry(500, TrialState::Running, &own[..n]);
                let found = make.planned().should_prune(&falling, &trial);
                let mirrored = make.planned().should_prune(&rising, &times(&trial, -1.0));
                prop_assert_eq!(found, mirrored, "{:?}", make);
            }
        }
    }
}
