//! The cost of a report: `cargo bench --bench pruner`.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use search::pruner::PrunerSpec;
use search::pruner::{Horizon, pruner};
use search::space::{Params, Space};
use search::study::{Direction, FrozenTrial, History, TrialState};

const EPOCHS: i64 = 100;

/// A falling curve of `length` epochs; no two trials have the same.
fn trial(number: u64, length: i64, state: TrialState) -> FrozenTrial {
    let level = (number as f64).sin();
    let intermediate = (1..=length).map(|t| (t, level + (-0.05 * t as f64).exp()));
    let complete = state == TrialState::Complete;
    FrozenTrial {
        trial_id: number as i64,
        values: complete.then_some(level).into_iter().collect(),
        intermediate: intermediate.collect(),
        ..FrozenTrial::new(number, state, Params::new())
    }
}

fn reports(c: &mut Criterion) {
    let space = Space::default();
    let mut group = c.benchmark_group("report");
    for n in [100, 1000, 5000] {
        let mut history = History::new(vec![Direction::Minimize]);
        for number in 0..n {
            let told = match number % 3 {
                0 => trial(number, EPOCHS, TrialState::Complete),
                _ => trial(number, 20, TrialState::Pruned),
            };
            history.put(&space, &told);
        }
        // The middle of a trial that is good enough to be looked at closely.
        history.put(&space, &trial(n, 27, TrialState::Running));
        for kind in ["auto", "median", "asha", "hyperband", "wilcoxon"] {
            let spec = PrunerSpec {
                kind: kind.into(),
                options: Params::new(),
            };
            let horizon = Horizon {
                max_step: Some(EPOCHS as u64),
                study: "bench".into(),
            };
            let (Some(mut pruner), Some(own)) = (pruner(&spec, &horizon), history.get(n)) else {
                continue;
            };
            group.bench_function(BenchmarkId::new(kind, n), |b| {
                b.iter(|| black_box(pruner.should_prune(&history, own)));
            });
        }
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = reports
}
criterion_main!(benches);
