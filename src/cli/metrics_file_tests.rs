//! A file of metrics: its form, hostile labels, and who may replace it.

#![allow(clippy::unwrap_used)]

use super::*;
use messages::testing::HOSTILE;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

/// A run that has begun.
fn begun(study: &str) -> Metrics {
    let mut metrics = Metrics {
        study: printable(study).into_owned(),
        started: Some(at(0)),
        ..Metrics::default()
    };
    metrics.rate = TrialRate::new(10, 0, at(0));
    metrics
}

fn has(text: &str, line: &str) {
    assert!(text.lines().any(|l| l == line), "{line}:\n{text}");
}

#[test]
fn what_is_not_known_is_left_out_and_what_never_began_is_no_file() {
    assert_eq!(Metrics::default().text(None, at(9)), None);
    let text = begun("s").text(None, at(9)).unwrap();
    has(
        &text,
        "tune_metrics_written_time_seconds{study=\"s\"} 1700000009",
    );
    has(&text, "tune_run_active{study=\"s\"} 1");
    for unknown in [
        "tune_best_value",
        "tune_gpu_",
        "tune_host_",
        "tune_trials_per_hour",
        "tune_run_exit_code",
    ] {
        assert!(!text.contains(unknown), "{unknown}");
    }
}

#[test]
fn every_sample_stands_below_the_help_and_type_of_its_name_and_names_are_there_once() {
    let mut metrics = begun("s");
    metrics.best = Some(f64::NEG_INFINITY);
    metrics.baseline = Some(0.5);
    let gpu = GpuMinute {
        gpu: 1,
        memory_total: 8 << 30,
        memory_peak: 1 << 30,
        utilization: Some(50.0),
        ..GpuMinute::default()
    };
    metrics.take(&Event::GpuSampled(Box::new(gpu)), at(1));
    let host = HostSample {
        total: 16,
        available: 8,
        processes: [(1, 3), (2, 4)].into(),
    };
    let text = metrics.text(Some(&host), at(9)).unwrap();
    let mut families = BTreeSet::new();
    let mut name = "";
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            name = help.split(' ').next().unwrap();
            assert!(families.insert(name), "{name} twice");
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let kind = kind.strip_prefix(name).unwrap().trim();
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
        } else {
            assert!(line.starts_with(&format!("{name}{{study=\"s\"")), "{line}");
        }
    }
    has(&text, "tune_best_value{study=\"s\",metric=\"\"} -Inf");
    has(
        &text,
        "tune_gpu_utilization_ratio{study=\"s\",gpu=\"1\"} 0.5",
    );
    has(&text, "tune_workers_memory_bytes{study=\"s\"} 7");
    assert!(!text.contains("celsius"), "NVML did not tell it");
}

#[test]
fn text_of_others_stays_in_its_label() {
    let study = format!("a\"}} 1\nb\\{HOSTILE}");
    let text = begun(&study).text(None, at(0)).unwrap();
    assert_eq!(messages::testing::harmful_in(&text), Vec::<char>::new());
    for line in text.lines() {
        assert!(
            line.starts_with("# ") || line.starts_with("tune_"),
            "{line}"
        );
    }
    assert_eq!(escaped("a\\\"\nb"), r#"a\\\"\nb"#);
}
