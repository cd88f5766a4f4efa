//! The memory of GPUs, in the real binary with libtorch's CUDA build on cards of the stand-in: out of memory of every
//! kind, grants, predictions, and what shares a card.

use crate::common::card::{Cards, Run, STEADY};
use crate::common::{Project, results, tiny};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};

const SHORT: [&str; 3] = ["--set", "train.epochs=1", "--json"];

/// A model whose training takes some 150 MiB with all 60 rows at once.
fn large() -> Project {
    tiny::project_of(90, 256, 1024)
}

fn run(cards: &Cards, project: &Project, more: &[&str]) -> Run {
    cards.run(project, &[&["tiny"], &STEADY[..], &SHORT, more].concat())
}

/// How many trials ended how.
fn states(project: &Project) -> Vec<String> {
    let trials = project.trials("tiny");
    trials
        .iter()
        .map(|t| t["state"].as_str().unwrap().to_owned())
        .collect()
}

/// The largest peak of a trial, in MiB.
fn peak(project: &Project) -> f64 {
    let trials = project.trials("tiny");
    let peaks = trials
        .iter()
        .filter_map(|t| t["attrs"]["peak_memory_mb"].as_f64());
    peaks.fold(0.0, f64::max)
}

/// The process ids of the workers that trials ran in.
fn pids(project: &Project) -> BTreeSet<u32> {
    let conn = project.connect();
    let mut pids = conn
        .prepare("SELECT DISTINCT pid FROM tune_attempts")
        .unwrap();
    let pids = pids.query_map([], |row| row.get(0)).unwrap();
    pids.map(Result::unwrap).collect()
}

/// What processes used of a card in a minute, at most, in MiB, by process id.
fn used_by_processes(project: &Project) -> Vec<(u32, u64)> {
    let conn = project.connect();
    let mut minutes = conn
        .prepare("SELECT processes FROM tune_gpu_samples")
        .unwrap();
    let minutes = minutes
        .query_map([], |row| row.get::<_, String>(0))
        .unwrap();
    let read = |text: Result<String, _>| serde_json::from_str(&text.unwrap()).unwrap();
    let used = minutes.flat_map(|text| -> BTreeMap<u32, u64> { read(text) });
    used.map(|(pid, bytes)| (pid, bytes >> 20)).collect()
}

/// All rows in one batch: a trial takes 180 MiB of a card, 64 of them its context.
const ALL_ROWS: [&str; 4] = ["--set", "train.batch_size=64", "--set", "tok.max_length=48"];

/// So many trials with all rows in one batch.
fn full(cards: &Cards, project: &Project, trials: &str, slots: &str, more: &[&str]) -> Run {
    let counts = ["--trials", trials, "--parallel", slots];
    run(cards, project, &[&ALL_ROWS[..], &counts, more].concat())
}

fn attrs(project: &Project, number: usize) -> Json {
    project.trials("tiny")[number]["attrs"].clone()
}

#[track_caller]
fn all_complete(project: &Project, trials: usize) {
    assert_eq!(states(project), vec!["COMPLETE"; trials]);
}

#[test]
fn a_trial_that_runs_out_beside_a_neighbour_runs_again_alone_and_completes() {
    // Another program takes memory in the trial's first step and has given it back when it runs again.
    let cards = Cards::with(
        "memory 300M\ncontext 64M",
        "launch/cublasSgemm*@6#1x1=take:200; context#2=give:200",
    );
    let project = large();
    let run = full(&cards, &project, "3", "1", &["--set", "run.standby=off"]).ends(0);
    assert_eq!(run.faults(), ["oom 0.0"], "{run:#?}");
    all_complete(&project, 3);
    assert_eq!(attrs(&project, 0)["attempts"], 2);
}

#[test]
fn a_trial_that_fits_no_card_is_pruned_at_its_second_try_and_the_others_go_on() {
    let cards = Cards::new("memory 150M\ncontext 64M");
    let project = large();
    let run = full(&cards, &project, "1", "1", &[]).ends(0);
    assert_eq!(run.faults(), ["oom 0.0", "oom 0.1"], "{run:#?}");
    let attrs = attrs(&project, 0);
    assert_eq!(attrs["oom"], true, "{attrs}");
    assert_eq!(attrs["oom_config"]["batch_size"], 64, "{attrs}");
    assert_eq!(attrs["cuda_error_type"], "OutOfMemoryError", "{attrs}");
    // Smaller ones fit.
    let small = [
        "--set",
        "train.batch_size=8",
        "--trials",
        "3",
        "--parallel",
        "1",
        "--study",
        "small",
    ];
    self::run(&cards, &project, &small).ends(0);
    let trials = project.trials("small");
    assert!(
        trials.iter().all(|t| t["state"] == "COMPLETE"),
        "{trials:#?}"
    );
}

#[test]
fn a_trial_alone_may_take_nearly_all_of_the_card() {
    // 180 of 195 MiB are more than the 80 % that trials may take together.
    let cards = Cards::new("memory 195M\ncontext 64M");
    let project = large();
    let run = full(&cards, &project, "6", "1", &[]).ends(0);
    assert_eq!(run.faults(), Vec::<String>::new(), "{run:#?}");
    all_complete(&project, 6);
    // What NVML told of the worker meanwhile is in the run's samples, under its process id.
    let used = used_by_processes(&project);
    let workers = pids(&project);
    let of_workers: Vec<u64> = used
        .iter()
        .filter(|(pid, _)| workers.contains(pid))
        .map(|(_, mib)| *mib)
        .collect();
    assert!(!of_workers.is_empty(), "{used:?} of {workers:?}");
    assert!(
        of_workers.iter().all(|mib| (64..=195).contains(mib)),
        "{used:?}"
    );
}

#[test]
fn slots_that_do_not_fit_beside_a_trial_wait_for_it_and_are_not_given_up() {
    // Two contexts and a trial do not fit; one trial at a time does.
    let cards = Cards::new("memory 215M\ncontext 64M");
    let project = large();
    let run = full(&cards, &project, "6", "3", &[]).ends(0);
    all_complete(&project, 6);
    assert!(
        run.faults().iter().all(|f| f.starts_with("oom")),
        "{:?}",
        run.faults()
    );
    let given_up = run
        .warnings()
        .iter()
        .filter(|w| w.contains("given up"))
        .count();
    assert_eq!(given_up, 0, "{:#?}", run.warnings());
}

#[test]
fn trials_of_many_sizes_share_a_card_without_running_out() {
    let cards = Cards::new("memory 600M\ncontext 64M");
    let project = large();
    let sizes = "[space]\ntrain.batch_size = { choices = [8, 16, 32, 64] }";
    let config = tiny::CONFIG.replace("[space]", sizes);
    project.config(
        "sizes",
        &config.replace("max_length = 16", "max_length = 48"),
    );
    let args = ["sizes", "--trials", "16", "--parallel", "3"];
    let run = cards
        .run(&project, &[&args[..], &STEADY, &SHORT].concat())
        .ends(0);
    let trials = project.trials("sizes");
    let states: Vec<&Json> = trials.iter().map(|t| &t["state"]).collect();
    assert!(states.iter().all(|s| **s == "COMPLETE"), "{states:?}");
    assert_eq!(run.faults(), Vec::<String>::new());
    assert!(!cards.log().contains("out of memory"), "{}", cards.log());
}

#[test]
fn where_batches_may_be_halved_a_trial_that_is_too_large_completes_in_halves() {
    let project = large();
    let cards = Cards::new("memory 165M\ncontext 64M");
    full(&cards, &project, "2", "1", &["--set", "gpu.oom=halve"]).ends(0);
    all_complete(&project, 2);
    let whole = large();
    full(&Cards::new("context 64M"), &whole, "2", "1", &[]).ends(0);
    for (halves, at_once) in project.trials("tiny").iter().zip(whole.trials("tiny")) {
        let (a, b) = (&halves["intermediate"]["1"], &at_once["intermediate"]["1"]);
        let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
        assert!(
            (a - b).abs() < 0.1,
            "the same updates but for dropout: {a} and {b}"
        );
    }
    assert!(
        peak(&project) < peak(&whole),
        "{} {}",
        peak(&project),
        peak(&whole)
    );
}

#[test]
fn segments_are_given_up_for_what_the_driver_says_of_them_alone() {
    for (rules, given_up) in [("cuMemCreate=801", true), ("cuMemCreate@1x1=2", false)] {
        let cards = Cards::with("context 64M", rules);
        let project = large();
        let run = full(&cards, &project, "2", "1", &[]).ends(0);
        assert!(cards.fired() > 0, "{rules}");
        let told = run
            .warnings()
            .iter()
            .any(|w| w.contains("expandable segments do not work"));
        assert_eq!(told, given_up, "{rules}: {:#?}", run.warnings());
        all_complete(&project, 2);
    }
}

#[test]
fn free_memory_in_pieces_is_enough_for_segments_that_expand() {
    let cards = Cards::with("context 64M", "context=pieces:24");
    let project = large();
    let run = full(&cards, &project, "2", "1", &[]).ends(0);
    assert_eq!(run.faults(), Vec::<String>::new(), "{run:#?}");
    all_complete(&project, 2);
}

#[test]
fn a_library_without_memory_for_itself_blames_no_trial() {
    // CUBLAS_STATUS_ALLOC_FAILED, when a worker opens the card.
    let cards = Cards::with("context 64M", "launch/cublasCreate*@1x1=status:3");
    let project = large();
    let run = full(&cards, &project, "2", "1", &[]).ends(0);
    assert_eq!(cards.fired(), 1);
    all_complete(&project, 2);
    assert_eq!(run.faults(), Vec::<String>::new());
}

#[test]
fn spares_and_recycled_workers_change_no_value() {
    let plain = large();
    full(
        &Cards::new("context 64M"),
        &plain,
        "6",
        "1",
        &["--set", "run.standby=off"],
    )
    .ends(0);
    let project = large();
    let more = [
        "--set",
        "run.standby=on",
        "--set",
        "supervisor.recycle_after=2",
    ];
    let run = full(&Cards::new("context 64M"), &project, "6", "1", &more).ends(0);
    let started = run.events.iter().filter(|e| e["event"] == "worker_started");
    assert!(started.count() >= 3);
    assert_eq!(
        results(&project.trials("tiny")),
        results(&plain.trials("tiny"))
    );
}

#[test]
fn a_study_cut_by_sigkill_on_a_card_goes_on_bit_for_bit_and_its_winner_predicts_alike() {
    let cards = Cards::new("context 64M");
    let calm = large();
    full(&cards, &calm, "5", "1", &["--set", "train.epochs=3"]).ends(0);
    let project = large();
    for _ in 0..2 {
        let counts = ["tiny", "--trials", "5", "--parallel", "1"];
        let args = [
            &counts[..],
            &STEADY,
            &ALL_ROWS,
            &["--set", "train.epochs=3"],
        ]
        .concat();
        let mut cut = cards.start(&project, &args);
        std::thread::sleep(std::time::Duration::from_millis(2500));
        let _ = cut.kill();
        cut.wait().unwrap();
    }
    full(&cards, &project, "5", "1", &["--set", "train.epochs=3"]).ends(0);
    assert_eq!(
        results(&project.trials("tiny")),
        results(&calm.trials("tiny"))
    );
    let mut answers = Vec::new();
    for project in [&calm, &project] {
        let out = project.path().join("winner");
        let out = out.to_str().unwrap();
        cards.run(project, &["export", "tiny", "-o", out]).ends(0);
        let rows = project.path().join("configs/rows.csv");
        let mut predict = cards.given_to(project.tune(&["predict", out, rows.to_str().unwrap()]));
        let output = predict.output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        answers.push(output.stdout);
    }
    assert!(
        !answers[0].is_empty() && answers[0] == answers[1],
        "the same model"
    );
}

#[test]
fn bf16_computes_what_fp32_computes_but_for_its_digits() {
    let loss = |precision: &str| {
        let (cards, project) = (Cards::new("context 64M"), large());
        let precision = format!("train.precision={precision}");
        let objective = "objective={metric=\"log_loss\",direction=\"minimize\"}";
        let more = ["--set", &precision, "--set", objective];
        full(&cards, &project, "2", "1", &more).ends(0);
        let trials = project.trials("tiny");
        trials
            .iter()
            .map(|t| t["value"].as_f64().unwrap())
            .collect::<Vec<_>>()
    };
    for (bf16, fp32) in loss("bf16").into_iter().zip(loss("fp32")) {
        assert_ne!(bf16, fp32);
        assert!((bf16 - fp32).abs() < 0.1, "{bf16} and {fp32}");
    }
}
