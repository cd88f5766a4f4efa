//! Samples of GPUs.

use super::{Bench, run_record};
use crate::{Replayed, Write};
use device::GpuMinute;
use std::collections::BTreeMap;

fn sampled(gpu: usize, memory_used: u64) -> Write {
    Write::GpuSampled {
        minute: Box::new(minute(gpu, memory_used)),
    }
}

fn minute(gpu: usize, memory_used: u64) -> GpuMinute {
    GpuMinute {
        gpu,
        samples: 60,
        memory_total: 8 << 30,
        memory_used,
        memory_peak: memory_used + 1,
        processes: BTreeMap::from([(99, memory_used)]),
        utilization: Some(96.5),
        utilization_peak: Some(100),
        temperature: Some(60.5),
        temperature_peak: Some(64),
        power: Some(300.1),
        power_peak: None,
        clock: Some(1980.0),
        throttle: vec!["hw_slowdown".into(), "sw_power_cap".into()],
        ecc_uncorrected: Some(0),
        remapped_rows: None,
        recovery_action: Some("reset".into()),
    }
}

#[test]
fn the_last_row_of_each_gpu_is_read_back_whole() {
    let mut bench = Bench::new();
    bench.apply(&[sampled(0, 10), sampled(1, 20)]);
    bench.apply(&[sampled(0, 30)]);
    let last = bench.store.last_gpu_minutes(bench.run).unwrap();
    let rows: Vec<GpuMinute> = last.into_iter().map(|(_, row)| row).collect();
    assert_eq!(rows, [minute(0, 30), minute(1, 20)]);
    let next = bench.store.begin_run(bench.study, &run_record()).unwrap();
    assert!(bench.store.last_gpu_minutes(next).unwrap().is_empty());
}

#[test]
fn taking_a_sample_in_twice_keeps_one_row() {
    let mut bench = Bench::new();
    let time = messages::clock::now();
    for _ in 0..2 {
        let taken = (bench.store)
            .replay(bench.study, bench.run, time, &[sampled(0, 10)])
            .unwrap();
        assert_eq!(taken, Replayed::Written);
    }
    assert_eq!(rows(&bench), 1);
}

#[test]
fn samples_go_with_their_study_whoever_deletes_it() {
    let mut bench = Bench::new();
    bench.apply(&[sampled(0, 10)]);
    let delete = "DELETE FROM study_directions; DELETE FROM studies";
    bench.other().batch(delete).unwrap();
    assert_eq!(rows(&bench), 0);
}

fn rows(bench: &Bench) -> u64 {
    let count = "SELECT COUNT(*) FROM tune_gpu_samples";
    bench.other().value(count, &[]).unwrap()
}
