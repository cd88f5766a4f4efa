//! The cost of an ask: `cargo bench --bench sampler`.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use search::sampler::{
    Ask, AutoSampler, GpOptions, GpSampler, RandomSampler, Sampler, TpeOptions, TpeSampler,
};
use search::space::{Condition, Domain, Parameter, Params, Space, Value};
use search::study::{Direction, FrozenTrial, History, TrialState};

fn float(low: f64, high: f64, log: bool, step: Option<f64>) -> Domain {
    Domain::Float {
        low,
        high,
        log,
        step,
    }
}

fn int(low: i64, high: i64, log: bool, step: i64) -> Domain {
    Domain::Int {
        low,
        high,
        log,
        step,
    }
}

fn choices(choices: &[&str]) -> Domain {
    Domain::Categorical {
        choices: choices.iter().map(|&c| Value::from(c)).collect(),
    }
}

/// The space of `tests/data/tpe-oracle.json`; in the conditional one, most depends on `opt`.
fn space(conditional: bool) -> Space {
    let parameters = [
        ("opt", choices(&["adam", "adamw", "sgd", "rmsprop"])),
        ("act", choices(&["relu", "gelu", "silu"])),
        ("lr", float(1e-5, 0.1, true, None)),
        ("wd", float(1e-6, 0.1, true, None)),
        ("dropout", float(0.0, 0.6, false, None)),
        ("label_smooth", float(0.0, 0.3, false, None)),
        ("mom", float(0.5, 0.99, false, Some(0.01))),
        ("layers", int(1, 8, false, 1)),
        ("width", int(64, 1024, false, 64)),
        ("batch", int(16, 512, true, 1)),
    ];
    let mut parameters = parameters.map(|(name, domain)| Parameter {
        name: name.into(),
        domain,
        when: vec![],
        high_when: vec![],
        default: None,
    });
    if conditional {
        for (index, values) in [
            (4, ["adam", "adamw"]),
            (5, ["adam", "adamw"]),
            (6, ["sgd", "rmsprop"]),
        ] {
            parameters[index].when = vec![Condition {
                parent: "opt".into(),
                values: values.map(Value::from).to_vec(),
            }];
        }
    }
    Space {
        parameters: parameters.to_vec(),
        ..Space::default()
    }
}

fn put(space: &Space, history: &mut History, number: u64, state: TrialState, params: Params) {
    let code = space.encode(&params);
    let value = code.iter().filter(|c| !c.is_nan()).map(|c| c.sin()).sum();
    let trial = FrozenTrial {
        values: vec![value],
        ..FrozenTrial::new(number, state, params)
    };
    history.put(space, &trial);
}

fn ask(sampler: &mut dyn Sampler, space: &Space, history: &History, number: u64) -> Params {
    let ask = Ask {
        space,
        history,
        number,
        seed: 1,
    };
    sampler.suggest(&ask).unwrap_or_default()
}

/// A study as it goes: each trial told before the next ask.
fn study(space: &Space, n: u64) -> History {
    let mut history = History::new(vec![Direction::Minimize]);
    let mut sampler = TpeSampler::new(TpeOptions::default());
    for number in 0..n {
        // Every fourth point is a random one, so that both crowded and wide histories are seen.
        let params = if number % 4 == 0 {
            ask(&mut RandomSampler, space, &history, number)
        } else {
            ask(&mut sampler, space, &history, number)
        };
        put(space, &mut history, number, TrialState::Complete, params);
    }
    history
}

fn sampler(kind: &str) -> Box<dyn Sampler> {
    match kind {
        "gp" => Box::new(GpSampler::new(GpOptions::default())),
        "auto" => Box::new(AutoSampler::new(TpeOptions::default())),
        _ => Box::new(TpeSampler::new(TpeOptions::default())),
    }
}

/// The first `n` trials of a study.
fn beginning(space: &Space, full: &History, n: u64) -> History {
    let mut history = History::new(vec![Direction::Minimize]);
    for entry in full.entries().iter().take(n as usize) {
        let params = entry.params.clone();
        put(
            space,
            &mut history,
            entry.number,
            TrialState::Complete,
            params,
        );
    }
    history
}

fn asks(c: &mut Criterion) {
    for (name, conditional) in [("mixed", false), ("conditional", true)] {
        let space = space(conditional);
        let full = study(&space, 5000);
        for (kind, counts) in [
            ("tpe", [0, 1000, 5000]),
            ("gp", [0, 100, 1000]),
            ("auto", [0, 100, 1000]),
        ] {
            let mut group = c.benchmark_group(format!("ask/{name}/{kind}"));
            for n in counts {
                let mut history = beginning(&space, &full, n);
                // Ask, then tell, then ask: each ask meets a trial that it has not seen before.
                group.bench_function(BenchmarkId::from_parameter(n), |b| {
                    let mut sampler = sampler(kind);
                    let mut number = n;
                    b.iter(|| {
                        number += 1;
                        let params = ask(&mut *sampler, &space, &history, number);
                        if n > 0 {
                            let other = params.clone();
                            put(&space, &mut history, n, TrialState::Running, other);
                        }
                        black_box(params)
                    });
                });
            }
            group.finish();
        }
    }
}

/// What it costs to keep away from pruned points: asks for random points, which cost next to nothing, in studies of which
/// none or half of the trials were pruned.
fn avoiding(c: &mut Criterion) {
    for (name, conditional) in [("mixed", false), ("conditional", true)] {
        let space = space(conditional);
        let mut group = c.benchmark_group(format!("avoid/{name}"));
        for n in [1000, 5000] {
            for (what, half) in [("none", false), ("half", true)] {
                let mut history = History::new(vec![Direction::Minimize]);
                for number in 0..n {
                    let params = ask(&mut RandomSampler, &space, &history, number);
                    let state = match half && number % 2 == 1 {
                        true => TrialState::Pruned,
                        false => TrialState::Complete,
                    };
                    put(&space, &mut history, number, state, params);
                }
                group.bench_function(BenchmarkId::new(what, n), |b| {
                    let mut number = n;
                    b.iter(|| {
                        number += 1;
                        black_box(ask(&mut RandomSampler, &space, &history, number))
                    });
                });
            }
        }
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(30);
    targets = asks, avoiding
}
criterion_main!(benches);
