//! Reviews of ledgers made by hand.

use super::*;
use crate::{Estimate, Usage};

const GIB: u64 = 1 << 30;

fn entry(peak: u64, outcome: &str) -> Entry {
    Entry {
        device: Device::Cuda(0),
        capacity: Some(24 * GIB),
        usage: Usage {
            reserved: Some(peak),
            ..Usage::default()
        },
        grant: None,
        predicted: None,
        halvings: 0,
        outcome: outcome.into(),
    }
}

/// Trials whose peak is a GiB for each 16 of the batch size, whatever the learning rate.
fn ledger() -> Vec<(Params, Entry)> {
    let trial = |i: u64| {
        let batch = [16, 32, 64][(i % 3) as usize];
        let params = Params::from([
            ("batch".to_owned(), Value::Int(batch)),
            ("lr".to_owned(), Value::Float((i * 7 % 40) as f64)),
        ]);
        (params, entry(batch as u64 * GIB / 16, "completed"))
    };
    (0..60).map(trial).collect()
}

fn lines(ledger: &[(Params, Entry)]) -> Vec<MeasuredTraining<'_>> {
    let line = |i: usize| MeasuredTraining {
        job: Job::trial(i as u64),
        params: &ledger[i].0,
        worker: Some((1, 0)),
        entry: &ledger[i].1,
    };
    (0..ledger.len()).map(line).collect()
}

fn around(parallel: u64) -> ReviewContext {
    ReviewContext {
        part: 0.8,
        parallel: Some(parallel),
        host: None,
    }
}

fn reviewed(ledger: &[(Params, Entry)], parallel: u64) -> Review {
    review(&lines(ledger), around(parallel), 0).unwrap()
}

#[test]
fn the_parameter_that_explains_the_peaks_is_shown_by_its_values() {
    let review = reviewed(&ledger(), 2);
    let names: Vec<&str> = review.factors.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["batch"]);
    assert!(review.factors[0].share > 0.9);
    let groups = &review.factors[0].groups;
    let shown: Vec<_> = groups.iter().map(|g| (&g.low, g.peaks.median)).collect();
    let expected = [(16, 1), (32, 2), (64, 4)];
    for ((low, median), (batch, gib)) in shown.into_iter().zip(expected) {
        assert_eq!((low, median), (&Value::Int(batch), gib * GIB));
    }
    let carries = review.carries.unwrap();
    assert_eq!((carries.typical, carries.largest), (9, 4), "of 19.2 GiB");
    assert!(review.advice.contains("--parallel 4"), "{}", review.advice);
    assert!(reviewed(&ledger(), 6).advice.contains("do not fit"));
}

#[test]
fn many_values_are_put_together_in_ranges_of_equal_size() {
    let told: Vec<(Params, u64)> = (0..40u64)
        .map(|i| {
            let params = Params::from([("n".to_owned(), Value::Int(i as i64))]);
            (params, i * GIB)
        })
        .collect();
    let told: Vec<(&Params, u64)> = told.iter().map(|(p, x)| (p, *x)).collect();
    let groups = groups(&told, "n");
    let shown: Vec<_> = groups
        .iter()
        .map(|g| (g.low.clone(), g.high.clone(), g.count))
        .collect();
    let range = |a, b| (Value::Int(a), Value::Int(b), 10);
    assert_eq!(
        shown,
        [range(0, 9), range(10, 19), range(20, 29), range(30, 39)]
    );
}

#[test]
fn what_ran_out_of_memory_is_named_and_comes_first_in_the_advice() {
    let mut ledger = ledger();
    ledger.push((ledger[2].0.clone(), entry(3 * GIB, "oom")));
    let review = reviewed(&ledger, 2);
    assert_eq!(review.ran_out, [60].into());
    assert!(review.highest.iter().any(|h| h.job.number == 60));
    assert_eq!(review.measured, 60, "its peak is not known");
    assert!(
        review.advice.contains("upper end of batch"),
        "{}",
        review.advice
    );
}

#[test]
fn predictions_are_compared_with_what_was_measured() {
    let mut ledger = ledger();
    for (i, (_, entry)) in ledger.iter_mut().enumerate() {
        let peak = entry.peak().unwrap();
        entry.predicted = Some(Estimate {
            lower: 0,
            expected: peak * 9 / 10,
            upper: if i < 6 { peak - 1 } else { peak },
        });
    }
    let review = reviewed(&ledger, 2);
    let accuracy = review.accuracy.unwrap();
    assert_eq!(accuracy.count, 60);
    assert!((accuracy.covered - 0.9).abs() < 1e-9);
    assert!((accuracy.median_error - 0.1).abs() < 1e-6);
    assert!(
        review.advice.contains("upper predictions"),
        "{}",
        review.advice
    );
}

#[test]
fn a_worker_that_holds_more_from_trial_to_trial_is_told_of() {
    let mut ledger = ledger();
    for (i, (_, entry)) in ledger.iter_mut().enumerate() {
        // Before its first trial it held little: that is no growth.
        entry.usage.resident_before = Some(if i == 0 { 1 } else { GIB + i as u64 * GIB / 8 });
    }
    let review = reviewed(&ledger, 2);
    let Growth { from, to, trials } = review.drift.growth.unwrap();
    assert_eq!((from, trials), (GIB + GIB / 8, 59));
    assert_eq!(to, GIB + 59 * GIB / 8);
    assert!(review.advice.contains("recycle_after"), "{}", review.advice);
}

#[test]
fn without_a_measurement_there_is_nothing_to_say() {
    assert_eq!(review(&[], around(1), 0), None);
    let mut ledger = ledger();
    ledger
        .iter_mut()
        .for_each(|(_, e)| e.usage = Usage::default());
    assert_eq!(review(&lines(&ledger), around(1), 0), None);
}
