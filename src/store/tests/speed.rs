//! Speed, with limits wide enough for a busy machine; run with `--nocapture` for the figures.

use std::time::Instant;

use super::*;

fn batch(number: u64) -> Vec<Write> {
    let mut writes: Vec<Write> = (1..=9)
        .map(|step| reported(number, step, step as f64))
        .collect();
    writes.push(ended(number, 0, "completed", false));
    writes.push(Write::TrialFinished {
        number,
        state: TrialState::Complete,
        values: vec![number as f64],
        user_attrs: attrs(json!({
            "attempts": 1, "runtime_s": 3.5, "worker": 3, "device": "cuda:0",
            "peak_memory_mb": 1000.5, "last_value": 0.5, "best_epoch": 3,
        })),
        system_attrs: Map::new(),
    });
    let names = [
        "lr",
        "dropout",
        "warmup",
        "decay",
        "clip",
        "smoothing",
        "beta",
    ];
    writes.push(Write::TrialCreated {
        number: number + 1,
        last: u64::MAX,
        params: names.map(|n| (n.to_owned(), Value::Float(0.01))).into(),
        distributions: names.map(|n| (n.to_owned(), lr())).into(),
        user_attrs: attrs(json!({"seed": 1234})),
        system_attrs: serde_json::Map::new(),
    });
    writes.push(started(number + 1, 0));
    writes
}

#[test]
fn a_batch_is_fast_and_five_thousand_trials_are_read_at_once() {
    let mut bench = Bench::new();
    bench.store.conn.batch("PRAGMA synchronous = OFF").unwrap();
    bench.start(0);
    let trials = 5_000;
    let start = Instant::now();
    for number in 0..trials {
        assert_eq!(bench.apply(&batch(number)), Written::Done);
    }
    let each = start.elapsed() / trials as u32;
    let start = Instant::now();
    let read = bench.store.trials(bench.study).unwrap();
    let whole = start.elapsed();
    let start = Instant::now();
    let reclaimable = bench.store.reclaimable(bench.study, bench.run).unwrap();
    let few = start.elapsed();
    let start = Instant::now();
    let summary = bench.store.find_study("s").unwrap().unwrap();
    let counted = start.elapsed();
    let start = Instant::now();
    Store::open(bench.path()).unwrap();
    let opened = start.elapsed();
    println!(
        "batch of 13 writes {each:?} without sync; 5,000 trials read in {whole:?}, \
         reclaimable {few:?}, summary {counted:?}, open with check {opened:?}"
    );
    assert_eq!((read.len(), reclaimable.len()), (5_001, 1));
    assert_eq!(summary.counts.complete, 5_000);
    assert_eq!(read[7].intermediate.len(), 9);
    assert!(each.as_micros() < 5_000 && whole.as_millis() < 2_000);
}
