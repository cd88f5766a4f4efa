//! The GPU path of the real binary, with libtorch's CUDA build and real CUDA faults, on cards of the stand-in:
//! every row of the table of verdicts that speaks of CUDA. Out of memory is in `cuda_memory.rs`.

use std::sync::OnceLock;

use crate::common::card::{Cards, Run, STEADY};
use crate::common::{Project, results, tiny};
use serde_json::Value as Json;

/// Short waits, and a value in which every digit shows.
const VALUES: [&str; 4] = [
    "--set",
    "supervisor.grace=200ms",
    "--set",
    "objective={metric=\"log_loss\",direction=\"minimize\"}",
];

/// Any step of the optimiser.
const STEP: &str = "launch/*adam*";

fn tiny() -> Project {
    tiny::project(60)
}

/// So many trials of `tiny`, one at a time, and what more is said.
fn run(cards: &Cards, project: &Project, trials: u32, more: &[&str]) -> Run {
    let trials = trials.to_string();
    let args = ["tiny", "--trials", &trials, "--parallel", "1", "--json"];
    cards.run(project, &[&args[..], &STEADY, &VALUES, more].concat())
}

/// The results of so many trials, at most 6, that nothing disturbs.
fn undisturbed(trials: usize) -> &'static [Json] {
    static ALL: OnceLock<Vec<Json>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let (cards, project) = (Cards::one(), tiny());
        run(&cards, &project, 6, &[]).ends(0);
        results(&project.trials("tiny"))
    });
    &all[..trials]
}

/// The attributes of a trial.
fn attrs(project: &Project, number: usize) -> Json {
    project.trials("tiny")[number]["attrs"].clone()
}

/// One run under these rules, after which all trials are COMPLETE and as without a fault.
#[track_caller]
fn heals(rules: &str, more: &[&str], faults: &[&str]) -> (Cards, Project, Run) {
    let (cards, project) = (Cards::with("", rules), tiny());
    let run = run(&cards, &project, 3, more).ends(0);
    assert!(cards.fired() > 0, "{rules} did nothing: {run:#?}");
    assert_eq!(run.faults(), faults, "{rules}: {run:#?}");
    assert_eq!(results(&project.trials("tiny")), undisturbed(3), "{rules}");
    (cards, project, run)
}

#[test]
fn a_trial_on_the_card_has_the_value_that_it_has_on_the_cpu() {
    let on_card = undisturbed(3);
    let project = tiny();
    let cpu = STEADY.map(|word| if word == "cuda:0" { "cpu" } else { word });
    let args = ["tiny", "--trials", "3", "--parallel", "1"];
    // Dropout draws other numbers on a card.
    let none = ["--set", "model.dropout=0", "--set", "model.attn_dropout=0"];
    project.expect(0, &[&args[..], &cpu, &VALUES, &none].concat());
    let cards = Cards::one();
    let same = tiny();
    run(&cards, &same, 3, &none).ends(0);
    let values = |p: &Project| -> Vec<f64> {
        let trials = p.trials("tiny");
        trials
            .iter()
            .map(|t| t["value"].as_f64().unwrap())
            .collect()
    };
    for (here, there) in values(&same).into_iter().zip(values(&project)) {
        assert!(
            (here - there).abs() < 5e-4,
            "{here} on the card, {there} on the CPU"
        );
    }
    assert_ne!(
        on_card,
        results(&same.trials("tiny")),
        "dropout plays a part"
    );
    assert!(cards.log().lines().all(|l| !l.contains("out of memory")));
}

#[test]
fn after_a_sticky_error_a_fresh_worker_runs_the_trial_again_with_blocking_launches() {
    for code in [700, 710, 716, 719] {
        let rules = format!("{STEP}@3x1=sticky:{code}");
        let (_, project, run) = heals(&rules, &[], &["cuda_sticky 0.0"]);
        assert_eq!(attrs(&project, 0)["attempts"], 2);
        let started = run.events.iter().filter(|e| e["event"] == "worker_started");
        assert!(started.count() >= 2, "nobody goes on in a lost context");
    }
}

#[test]
fn a_trial_that_breaks_its_context_twice_is_pruned_as_the_culprit_with_the_place() {
    let cards = Cards::with("", &format!("{STEP}@3#1=sticky:710; {STEP}@3#2=sticky:710"));
    let project = tiny();
    let run = run(&cards, &project, 3, &["--set", "run.standby=off"]).ends(0);
    assert_eq!(run.faults(), ["cuda_sticky 0.0", "cuda_sticky 0.1"]);
    assert!(cards.log().contains("launches block"), "{}", cards.log());
    let trial = &project.trials("tiny")[0];
    assert_eq!(trial["state"], "PRUNED");
    let attrs = &trial["attrs"];
    assert_eq!(attrs["cuda_error"], true, "{attrs}");
    assert_eq!(attrs["fault"], "cuda_sticky");
    assert!(
        attrs["cuda_error_msg"]
            .as_str()
            .unwrap()
            .contains("device-side assert"),
        "{attrs}"
    );
}

#[test]
fn an_error_that_does_not_stick_costs_its_trial_alone() {
    for (rules, text) in [
        (format!("{STEP}@3x1=701"), "too many resources requested"),
        (
            "launch/cublasSgemm*@10x1=719".into(),
            "CUBLAS_STATUS_EXECUTION_FAILED",
        ),
        (
            "launch/cublasSgemm*@10x1=status:14".into(),
            "CUBLAS_STATUS_INTERNAL_ERROR",
        ),
    ] {
        let (cards, project) = (Cards::with("", &rules), tiny());
        let run = run(&cards, &project, 3, &[]).ends(0);
        assert_eq!(run.faults(), ["cuda_transient 0.0"], "{rules}");
        let trials = project.trials("tiny");
        assert_eq!(trials[0]["state"], "PRUNED");
        let attrs = &trials[0]["attrs"];
        assert_eq!(attrs["cuda_error"], true);
        assert!(
            attrs["cuda_error_msg"].as_str().unwrap().contains(text),
            "{attrs}"
        );
        assert_eq!(results(&trials)[1..], undisturbed(3)[1..], "{rules}");
        assert_eq!(
            trials[1]["attrs"]["worker"], attrs["worker"],
            "the worker goes on"
        );
    }
}

#[test]
fn the_third_error_in_a_row_that_does_not_stick_ends_the_process() {
    // Each trial ends with its second step.
    let cards = Cards::with(
        "",
        &[2, 4, 6].map(|n| format!("{STEP}@{n}x1=701")).join(";"),
    );
    let project = tiny();
    run(&cards, &project, 5, &[]).ends(0);
    let trials = project.trials("tiny");
    assert_eq!(cards.fired(), 3);
    let workers: Vec<u64> = (trials.iter())
        .map(|t| t["attrs"]["worker"].as_u64().unwrap())
        .collect();
    assert_eq!(workers[0], workers[2]);
    assert_ne!(workers[2], workers[3], "{workers:?}");
}

#[test]
fn a_library_that_meets_a_lost_context_is_no_error_of_its_own() {
    // A spare worker's look at the card multiplies, too, and could be the one that is hit.
    heals(
        "launch/cublasSgemm*@10x1=sticky:719",
        &["--standby", "off"],
        &["cuda_sticky 0.0"],
    );
    heals("launch/cublasCreate*@1x1=sticky:700", &[], &[]);
}

#[test]
fn an_error_of_the_context_before_the_first_step_blames_no_trial() {
    // A worker that opens the card.
    for rules in ["launch/*@2x1=sticky:700", "context@1x1=999"] {
        let (cards, project) = (Cards::with("", rules), tiny());
        let run = run(&cards, &project, 3, &[]).ends(0);
        assert!(cards.fired() > 0);
        assert_eq!(results(&project.trials("tiny")), undisturbed(3), "{rules}");
        assert!(
            run.faults().iter().all(|f| f.starts_with("poisoned")),
            "{:?}",
            run.faults()
        );
    }
}

#[test]
fn a_card_that_never_ends_is_a_hang_and_the_trial_runs_again() {
    heals(
        "launch/*adam*@2x1=spin",
        &["--deadline", "8s"],
        &["hang 0.0"],
    );
}

#[test]
fn a_worker_that_dies_in_a_kernel_is_replaced() {
    heals(&format!("{STEP}@3x1=kill:9"), &[], &["killed 0.0"]);
    for signal in [4, 6, 7, 11] {
        let rules = format!("{STEP}@3x1=kill:{signal}");
        heals(&rules, &[], &["crash 0.0"]);
    }
}

/// The card is lost in the third step, by when NVML is looked at for sure.
fn lost_later(rule: &str) -> String {
    format!("{STEP}@2#1=slow:1500; {STEP}@3x1#1={rule}")
}

#[test]
fn a_lost_card_blames_no_trial_and_a_reset_heals_it() {
    for (rule, what) in [("lost:79", "lost"), ("ecc", "Xid 48")] {
        let (cards, project) = (Cards::with("", &lost_later(rule)), tiny());
        let lost = run(&cards, &project, 3, &[]).ends(5);
        assert!(lost.stderr.contains(what), "{}", lost.stderr);
        assert!(
            lost.faults().iter().all(|f| f.starts_with("device_lost")),
            "{:?}",
            lost.faults()
        );
        cards.reset();
        run(&cards, &project, 3, &[]).ends(0);
        assert_eq!(results(&project.trials("tiny")), undisturbed(3), "{rule}");
    }
}

#[test]
fn of_two_cards_one_is_lost_and_the_other_finishes_the_study() {
    let cards = Cards::with("cards 2", &lost_later("lost:79"));
    let project = tiny();
    let both = STEADY.map(|word| if word == "cuda:0" { "cuda:0,1" } else { word });
    let args = ["tiny", "--trials", "6", "--parallel", "2", "--json"];
    let run = cards
        .run(&project, &[&args[..], &both, &VALUES].concat())
        .ends(0);
    assert!(
        run.faults().iter().all(|f| f.starts_with("device_lost")),
        "{:?}",
        run.faults()
    );
    assert_eq!(results(&project.trials("tiny")), undisturbed(6));
}

#[test]
fn the_cards_that_are_visible_are_those_that_are_used() {
    let cards = Cards::with("cards 2\nmemory 2G", "");
    let project = tiny();
    let args = ["tiny", "--trials", "2", "--parallel", "1", "--json"];
    let mut command = cards.given_to(project.tune(&[&args[..], &STEADY, &VALUES].concat()));
    command.env("CUDA_VISIBLE_DEVICES", "1");
    Run::of(command).ends(0);
    let mut probe = cards.given_to(project.tune(&["probe"]));
    probe.env("CUDA_VISIBLE_DEVICES", "1");
    let probe = Run::of(probe).ends(0);
    assert_eq!(
        probe.events[0]["gpus"].as_array().unwrap().len(),
        1,
        "{probe:?}"
    );
    let two = [
        "tiny", "--study", "two", "--trials", "1", "--json", "--device", "cuda:1",
    ];
    let mut command = cards.given_to(project.tune(&[&two[..], &STEADY[2..], &VALUES].concat()));
    command.env("CUDA_VISIBLE_DEVICES", "1");
    let run = Run::of(command).ends(9);
    assert!(run.stderr.contains("there is no GPU 1"), "{}", run.stderr);
}

#[test]
fn without_a_card_that_can_be_used_nothing_is_tried_for_long() {
    for (settings, code) in [
        ("cards 0", 9),
        ("driver absent", 9),
        ("driver old", 5),
        ("driver busy", 5),
    ] {
        let (cards, project) = (Cards::new(settings), tiny());
        let run = run(&cards, &project, 3, &[]).ends(code);
        let started = run.events.iter().filter(|e| e["event"] == "worker_started");
        assert!(started.count() <= 2, "{settings}: {run:#?}");
        assert_eq!(run.faults(), Vec::<String>::new(), "{settings}");
    }
}

#[test]
fn the_drill_makes_its_faults_in_a_context() {
    let cards = Cards::with(
        "memory 400M\ncontext 16M",
        "launch/illegal=sticky:700\nlaunch/misaligned=sticky:716\nlaunch/spin=spin",
    );
    let project = Project::empty();
    let args = ["drill", "--device", "cuda:0", "--count", "1", "--json"];
    let output = cards.given_to(project.tune(&args)).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let report: Json = serde_json::from_slice(&output.stdout).expect(&errors);
    assert_eq!(report["held"], true, "{report:#}\n{errors}");
    let rows = report["faults"].as_array().unwrap();
    let texts = rows.iter().filter(|r| r["form"] == "text_only");
    let texts: Vec<&Json> = texts.map(|r| &r["fault"]).collect();
    // A library that fails on a healthy device cannot be had on command, not even here.
    assert_eq!(texts, ["cublas"], "in a context the others are real ones");
    for zero in ["lost", "repeated", "context_reused"] {
        assert_eq!(report[zero], 0);
    }
}

/// `device.fallback_ops` with these operations.
fn fallback_ops(operations: &str) -> [String; 2] {
    [
        "--set".to_owned(),
        format!("device.fallback_ops=[{operations}]"),
    ]
}

#[test]
fn an_operation_that_the_card_cannot_run_is_computed_on_the_cpu_with_its_gradients() {
    let rules = "launch/*Gelu*=sticky:715; launch/*adam*=sticky:715";
    let broken = Cards::with("", rules);
    run(&broken, &tiny(), 1, &["--set", "run.standby=off"]);
    assert!(broken.fired() > 0, "the model has that operation");
    let (cards, project) = (Cards::with("", rules), tiny());
    let [flag, ops] =
        fallback_ops("\"aten::gelu\", \"aten::gelu_backward\", \"aten::_fused_adamw_\"");
    let run = run(&cards, &project, 3, &[&flag, &ops]).ends(0);
    assert_eq!(cards.fired(), 0, "{run:#?}");
    // The stand-in computes as the CPU does.
    assert_eq!(results(&project.trials("tiny")), undisturbed(3));
}

#[test]
fn an_operation_that_cannot_be_computed_elsewhere_is_refused_before_anything_starts() {
    let (cards, project) = (Cards::one(), tiny());
    for (operation, why) in [
        ("aten::gleu", "no such operation"),
        ("aten::linear", "made of other operations"),
        ("aten::view", "view of its argument"),
        ("aten::copy_", "copies tensors"),
    ] {
        let [flag, ops] = fallback_ops(&format!("\"{operation}\""));
        let run = run(&cards, &project, 1, &[&flag, &ops]).ends(2);
        let told = format!("device.fallback_ops: {operation}: ");
        assert!(
            run.stderr.contains(&told) && run.stderr.contains(why),
            "{run:#?}"
        );
    }
    let project = tiny();
    let names = "device.fallback_ops=[\"aten::mm\"]";
    project.expect(
        0,
        &["tiny", "--trials", "1", "--device", "cpu", "--set", names],
    );
}
