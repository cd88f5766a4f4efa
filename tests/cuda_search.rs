//! A search for faults that cost more than they may: single faults, drawn at random, in short studies on random cards of
//! the stand-in. Whatever happened, no trial is lost, none that did nothing is blamed, none that fits is pruned, no slot
//! is given up, and every run ends. `TUNE_RULES=N` tries N of them, `TUNE_RULES_SEED=S` begins at another seed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::wildcard_enum_match_arm
)]

mod common;

use common::card::{Cards, Run};
use common::{Project, results, tiny};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value as Json;

const TRIALS: &str = "5";

/// Where something may happen. Some of them never come so often: such a rule disturbs nothing.
const PLACES: [&str; 14] = [
    "launch/*",
    "launch/*adam*",
    "launch/cublas*",
    "launch/*softmax*",
    "launch/*reduce*",
    "cudaMemcpyAsync",
    "cudaMemsetAsync",
    "cudaStreamSynchronize",
    "cudaDeviceSynchronize",
    "cudaMemGetInfo",
    "cudaEvent*",
    "cudaFree",
    "cuMem*",
    "context",
];

/// A machine and what happens on it.
#[derive(Debug)]
struct Case {
    settings: String,
    rule: String,
    /// What the fault does passes: the trial that met it may be pruned.
    passes: bool,
    slots: u32,
    standby: &'static str,
}

/// The case of a seed.
fn case(seed: u64) -> Case {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let place = *PLACES.choose(&mut rng).unwrap();
    let nth = match rng.random_bool(0.5) {
        true => rng.random_range(1..12),
        false => rng.random_range(1..600),
    };
    let codes = [
        1, 2, 9, 98, 400, 600, 700, 701, 702, 709, 710, 714, 715, 716, 717, 718, 719, 720, 999,
    ];
    let code = *codes.choose(&mut rng).unwrap();
    let (action, passes) = match rng.random_range(0..10) {
        0..4 => (format!("sticky:{code}"), false),
        4..6 => (format!("{code}"), true),
        6 => ("spin".into(), false),
        7 => ("hang".into(), false),
        8 => (format!("slow:{}", rng.random_range(1..300)), false),
        _ => (
            format!("kill:{}", [4, 6, 7, 9, 11, 15].choose(&mut rng).unwrap()),
            false,
        ),
    };
    let slots = rng.random_range(1..4);
    // From one trial at a time with little to spare to room for all.
    let context = rng.random_range(16..100);
    let memory = context + 40 + rng.random_range(0..4 * (context + 40));
    Case {
        settings: format!(
            "memory {memory}M\ncontext {context}M\nlag {}",
            rng.random_range(0..20)
        ),
        rule: format!("{place}@{nth}x1={action}"),
        passes,
        slots,
        standby: ["auto", "off"].choose(&mut rng).unwrap(),
    }
}

fn run(cards: &Cards, project: &Project, slots: u32, standby: &str) -> Run {
    let (slots, standby) = (slots.to_string(), format!("run.standby={standby}"));
    let steady = [
        "--sampler",
        "random",
        "--pruner",
        "none",
        "--no-rehearsal",
        "--json",
    ];
    let machine = [
        "--device",
        "cuda:0",
        "--parallel",
        &slots,
        "--set",
        &standby,
    ];
    let limits = [
        "--deadline",
        "4s",
        "--set",
        "supervisor.start_deadline=6s",
        "--timeout",
        "3m",
    ];
    let fixed = [
        "--set",
        "run.threads=1",
        "--set",
        "supervisor.grace=200ms",
        "--trials",
        TRIALS,
    ];
    cards.run(
        project,
        &[&["tiny"], &steady[..], &machine, &limits, &fixed].concat(),
    )
}

/// What is wrong with the case's run, if anything.
fn complaint(case: &Case, undisturbed: &[Json]) -> Option<String> {
    let (cards, project) = (Cards::with(&case.settings, &case.rule), tiny::project(60));
    let run = run(&cards, &project, case.slots, case.standby);
    let say = |what: &str| Some(format!("{what}: {:#?}\n{run:#?}\n{}", case, cards.log()));
    if run.code != Some(0) {
        return say("the run did not reach its goal");
    }
    if run.warnings().iter().any(|w| w.contains("given up")) {
        return say("a slot is given up");
    }
    let trials = project.trials("tiny");
    let found = results(&trials);
    let other: Vec<&Json> = trials.iter().filter(|t| t["state"] != "COMPLETE").collect();
    if other.len() > usize::from(case.passes) {
        return say(&format!("not complete: {other:?}"));
    }
    let wrong = found
        .iter()
        .zip(undisturbed)
        .filter(|(a, b)| a["state"] == "COMPLETE" && a != b);
    match wrong.count() {
        0 => None,
        _ => say("a value is not that of an undisturbed trial"),
    }
}

#[test]
fn a_single_fault_costs_no_trial_no_slot_and_no_value() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let (count, first) = (
        number("TUNE_RULES").unwrap_or(12),
        number("TUNE_RULES_SEED").unwrap_or(0),
    );
    let (cards, project) = (Cards::one(), tiny::project(60));
    run(&cards, &project, 1, "off").ends(0);
    let undisturbed = results(&project.trials("tiny"));
    let mut complaints = Vec::new();
    for seed in first..first + count {
        if let Some(complaint) = complaint(&case(seed), &undisturbed) {
            println!("seed {seed}: {complaint}");
            complaints.push(seed);
        }
    }
    assert!(complaints.is_empty(), "seeds {complaints:?}");
}
