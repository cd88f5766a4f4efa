//! What every sampler must do, whatever its algorithm: one suite, run for each kind.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::testing::{self, categorical, float, int, parameter, trial};
use super::{Ask, GpOptions, GpSampler, Sampler, TpeOptions, TpeSampler, sampler};
use crate::sampler::SamplerSpec;
use crate::space::{Constraint, Domain, Params, Space, Value};
use crate::study::{Direction, History, TrialState};

type Make = fn() -> Box<dyn Sampler>;

/// Every kind, and the variants of TPE.
const SAMPLERS: [Make; 8] = [
    || by_kind("random"),
    || by_kind("sobol"),
    || by_kind("grid"),
    || by_kind("nsga2"),
    || by_kind("auto"),
    || {
        Box::new(GpSampler::new(GpOptions {
            n_startup_trials: 2,
            n_exact: 40,
        }))
    },
    || {
        Box::new(TpeSampler::new(TpeOptions {
            n_startup_trials: 0,
            multivariate: false,
            constant_liar: false,
            ..TpeOptions::default()
        }))
    },
    || {
        Box::new(TpeSampler::new(TpeOptions {
            n_startup_trials: 1,
            n_ei_candidates: 0,
            ..TpeOptions::default()
        }))
    },
];

pub(super) fn by_kind(kind: &str) -> Box<dyn Sampler> {
    let spec = SamplerSpec {
        kind: kind.into(),
        options: Params::new(),
    };
    sampler(&spec).unwrap()
}

fn suggest(sampler: &mut dyn Sampler, space: &Space, history: &History, number: u64) -> Params {
    let ask = Ask {
        space,
        history,
        number,
        seed: 3,
    };
    sampler.suggest(&ask).unwrap()
}

/// Exactly the active parameters, each in its active domain, no constraint violated.
fn assert_legal(space: &Space, point: &Params) {
    let mut seen = Params::new();
    for p in &space.parameters {
        let value = point.get(&p.name);
        match space.active_domain(p, &seen) {
            Some(domain) => {
                let value = value.unwrap_or_else(|| panic!("{} is missing", p.name));
                assert!(domain.contains(value), "{}: {value}", p.name);
                seen.insert(p.name.clone(), value.clone());
            }
            None => assert!(value.is_none(), "{} is not active", p.name),
        }
    }
    assert_eq!(&seen, point, "unknown parameters");
    assert!(space.violated(point).is_none());
}

fn assert_all_legal(make: Make, space: &Space, history: &History) {
    let mut sampler = make();
    for number in 1000..1030 {
        assert_legal(space, &suggest(&mut *sampler, space, history, number));
    }
}

fn spaces() -> [Space; 3] {
    [
        testing::mixed_space(),
        testing::conditional_space(),
        Space::default(),
    ]
}

#[test]
fn proposals_are_legal_at_every_length_of_history() {
    for make in SAMPLERS {
        for space in spaces() {
            for n in [0, 1, 9, 10, 11, 60, 200] {
                assert_all_legal(make, &space, &testing::random_history(&space, n, 5));
            }
        }
    }
}

#[test]
fn the_same_ask_gives_the_same_answer_whatever_was_asked_before() {
    for make in SAMPLERS {
        let mut used = make();
        for space in spaces() {
            for n in [40, 3, 41, 40, 90] {
                let history = testing::random_history(&space, n, n % 2);
                for number in [n, n + 1, n] {
                    let first = suggest(&mut *used, &space, &history, number);
                    assert_eq!(first, suggest(&mut *make(), &space, &history, number));
                }
            }
        }
    }
}

#[test]
fn a_proposal_names_the_part_that_made_it() {
    let space = testing::mixed_space();
    let named = |kind: &str, n: u64| -> BTreeSet<&str> {
        let history = testing::random_history(&space, n, 1);
        let asks = (n..n + 60).map(|number| Ask {
            space: &space,
            history: &history,
            number,
            seed: 3,
        });
        let mut sampler = by_kind(kind);
        asks.map(|ask| sampler.propose(&ask).unwrap().by).collect()
    };
    for kind in ["random", "sobol", "grid"] {
        assert_eq!(named(kind, 40), BTreeSet::from([kind]));
    }
    for (kind, first) in [("tpe", "random"), ("nsga2", "spread"), ("auto", "spread")] {
        assert_eq!(named(kind, 2), BTreeSet::from([first]), "{kind}");
    }
    assert_eq!(named("tpe", 40), BTreeSet::from(["tpe"]));
    assert_eq!(named("nsga2", 40), BTreeSet::from(["nsga2"]));
    assert_eq!(
        named("auto", 40),
        BTreeSet::from(["gp", "gp-challenger", "tpe"])
    );
}

#[test]
fn an_ask_does_not_depend_on_its_own_entry() {
    for make in SAMPLERS {
        let space = testing::conditional_space();
        let mut history = testing::random_history(&space, 30, 1);
        let point = suggest(&mut *make(), &space, &history, 30);
        let own = trial(30, TrialState::Running, point.clone(), None);
        history.put(&space, &own);
        assert_eq!(suggest(&mut *make(), &space, &history, 30), point);
    }
}

#[test]
fn other_numbers_and_seeds_give_other_points_and_equal_ranges_other_values() {
    for make in SAMPLERS {
        let space = testing::mixed_space();
        for n in [0, 50] {
            let history = testing::random_history(&space, n, 1);
            let mut sampler = make();
            let mut points: Vec<Params> = Vec::new();
            for number in n..n + 20 {
                for seed in 0..2 {
                    let (space, history) = (&space, &history);
                    let ask = Ask {
                        space,
                        history,
                        number,
                        seed,
                    };
                    points.push(sampler.suggest(&ask).unwrap());
                }
            }
            for (i, a) in points.iter().enumerate() {
                // A grid has few values of a range.
                assert!(a["dropout"] != a["twin"] || sampler.name() == "grid");
                // Without knowing of each other, two may find the same best point of a model.
                let by_model = ["gp", "auto"].contains(&sampler.name());
                assert!(by_model || points[..i].iter().all(|b| a != b));
            }
        }
    }
}

#[test]
fn an_unsatisfiable_constraint_gives_no_point_and_a_tight_one_is_met() {
    let mut space = testing::mixed_space();
    let constraint = |text: &str| Constraint {
        expr: text.parse().unwrap(),
        when: vec![],
    };
    let history = testing::random_history(&space, 30, 1);
    space.constraints = vec![constraint("layers * width == 1024")];
    for make in SAMPLERS {
        assert_all_legal(make, &space, &history);
    }
    space.constraints = vec![constraint("layers > 100")];
    for make in SAMPLERS {
        for history in [&history, &History::new(vec![Direction::Minimize])] {
            let ask = Ask {
                space: &space,
                history,
                number: 30,
                seed: 0,
            };
            assert_eq!(make().suggest(&ask), None);
        }
    }
}

#[test]
fn every_choice_and_both_ends_of_every_range_are_proposed() {
    let space = Space {
        parameters: vec![
            parameter("n", int(1, 4, false, 1)),
            parameter("log", int(1, 4, true, 1)),
            parameter("c", categorical(&[Value::Null, false.into(), "x".into()])),
            parameter("x", float(0.0, 1.0)),
        ],
        ..Space::default()
    };
    for make in SAMPLERS {
        // Without any preference, told before the first or after each ask.
        for grow in [false, true] {
            let mut history = History::new(vec![Direction::Minimize]);
            let mut sampler = make();
            let mut points = Vec::new();
            for number in 0..300 {
                let point = suggest(&mut *sampler, &space, &history, number);
                points.push(point.clone());
                let told = trial(number, TrialState::Complete, point, Some(1.0));
                if grow {
                    history.put(&space, &told);
                }
            }
            points.drain(..20);
            for (name, all) in [("n", "1 4"), ("log", "1 4"), ("c", "null false x")] {
                let seen: BTreeSet<String> = points.iter().map(|p| p[name].to_string()).collect();
                let missed = all.split(' ').find(|value| !seen.contains(*value));
                assert_eq!(missed, None, "{} {name}: {seen:?}", sampler.name());
            }
            let xs = || points.iter().map(|p| p["x"].as_f64().unwrap());
            assert!(xs().any(|x| x < 0.1) && xs().any(|x| x > 0.9));
        }
    }
}

#[test]
fn a_history_of_another_space_is_survived() {
    let old = testing::mixed_space();
    let mut space = old.clone();
    // Narrower, wider, another type, gone and new.
    space.parameters[0].domain = testing::log_float(0.01, 0.011);
    space.parameters[4].domain = int(100, 800, true, 1);
    space.parameters[8].domain = categorical(&["relu".into(), "new".into()]);
    space.parameters.remove(1);
    space.parameters.push(parameter("fresh", float(1.0, 2.0)));
    let mut history = History::new(vec![Direction::Maximize]);
    for entry in testing::random_history(&old, 40, 2).entries() {
        let params = entry.params.clone();
        history.put(
            &space,
            &trial(entry.number, TrialState::Complete, params, Some(1.0)),
        );
    }
    for make in SAMPLERS {
        assert_all_legal(make, &space, &history);
        // Encoded for a space of another width.
        assert_all_legal(make, &space, &testing::random_history(&old, 40, 2));
        assert_all_legal(make, &old, &history);
    }
}

fn any_state() -> impl Strategy<Value = TrialState> {
    prop_oneof![
        Just(TrialState::Complete),
        Just(TrialState::Pruned),
        Just(TrialState::Fail),
        Just(TrialState::Running),
        Just(TrialState::Waiting),
    ]
}

fn any_value() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        Just(0.0),
        Just(-0.0),
        -1e300..1e300,
    ]
}

prop_compose! {
    fn any_trial()(
        state in any_state(),
        value in proptest::option::of(any_value()),
        reports in proptest::collection::btree_map(-2i64..5, any_value(), 0..3),
        violation in proptest::option::of(prop_oneof![-1.0..1.0, any_value()]),
        kept in 0usize..30,
        point in 0usize..100,
    ) -> (TrialState, Option<f64>, std::collections::BTreeMap<i64, f64>, Option<f64>, usize, usize) {
        (state, value, reports, violation, kept, point)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn any_history_is_survived(
        trials in proptest::collection::vec(any_trial(), 0..40),
        which in 0usize..2,
        kind in 0usize..SAMPLERS.len(),
        maximize: bool,
    ) {
        let space = &spaces()[which];
        let direction = if maximize { Direction::Maximize } else { Direction::Minimize };
        let points = testing::random_history(space, 100, 7);
        let mut history = History::new(vec![direction]);
        for (number, (state, value, reports, violation, kept, point)) in (0..).zip(trials) {
            let params = points.entries()[point].params.clone().into_iter().take(kept);
            let mut t = trial(number, state, params.collect(), value);
            t.params.insert("unknown".into(), Value::Null);
            t.intermediate = reports;
            if let Some(v) = violation {
                // As the store reads them: an infinity and NaN arrive as the strings of the contract.
                let v = messages::json_number(v);
                let list = matches!(point % 2, 1);
                let (key, v) = if list { ("constraints", vec![v].into()) } else { ("constraints:gpu_memory", v) };
                t.system_attrs.insert(key.into(), v);
            }
            history.put(space, &t);
        }
        let mut used = SAMPLERS[kind]();
        for number in 500..504 {
            let point = suggest(&mut *used, space, &history, number);
            assert_legal(space, &point);
            prop_assert_eq!(point, suggest(&mut *SAMPLERS[kind](), space, &history, number));
        }
    }

    #[test]
    fn any_numeric_domain_is_served(
        low in 1i64..1000, width in 0i64..100_000, step in 1i64..50, log: bool, bound in 0.0..1e5,
    ) {
        let step = if log { 1 } else { step };
        let float = Domain::Float {
            low: low as f64 / 7.0,
            high: (low + width) as f64 / 7.0,
            log,
            step: (!log).then_some(step as f64 / 13.0),
        };
        let mut space = Space {
            parameters: vec![
                parameter("c", categorical(&["a".into(), "b".into()])),
                parameter("i", int(low, low + width, log, step).on_grid()),
                parameter("f", float.on_grid()),
            ],
            ..Space::default()
        };
        for p in &mut space.parameters[1..] {
            p.high_when = vec![crate::space::HighWhen {
                when: vec![testing::when("c", &["b"])],
                high: bound,
            }];
        }
        let history = testing::random_history(&space, 20, 9);
        for make in SAMPLERS {
            let mut sampler = make();
            for number in 20..26 {
                assert_legal(&space, &suggest(&mut *sampler, &space, &history, number));
            }
        }
    }
}
