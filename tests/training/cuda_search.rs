//! A search for faults that cost more than they may: one to three, and kills of the whole run, drawn at random, in short
//! studies on random cards of the stand-in. Whatever happened, no trial is lost, none that did nothing is blamed, none that
//! fits is pruned, no slot is given up, and every run ends. `TUNE_RULES=N` tries N of them, `TUNE_RULES_SEED=S` begins at
//! another seed; what fails is shrunk.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::card::{Cards, Run};
use crate::common::{Project, results, tiny};
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
#[derive(Debug, Clone)]
struct Case {
    /// MiB of the card, and of them those that each process takes.
    memory: u32,
    context: u32,
    /// Calls that still succeed after a launch that faults.
    lag: u32,
    rules: Vec<Rule>,
    slots: u32,
    standby: &'static str,
    /// After so many milliseconds each the run is killed, and begun again.
    kills: Vec<u64>,
}

/// A fault at the `nth` match of each process, `times` in all processes together.
#[derive(Debug, Clone)]
struct Rule {
    place: &'static str,
    nth: u32,
    times: u32,
    action: Action,
}

#[derive(Debug, Clone, Copy)]
enum Action {
    Sticky(u32),
    Passing(u32),
    Spin,
    Hang,
    Slow(u32),
    Kill(i32),
    /// Another program takes memory that the trials can do without.
    Take(u32),
}

impl Rule {
    fn draw(rng: &mut ChaCha8Rng) -> Rule {
        let codes = [
            1, 2, 9, 98, 400, 600, 700, 701, 702, 709, 710, 714, 715, 716, 717, 718, 719, 720, 999,
        ];
        let code = *codes.choose(rng).unwrap();
        Rule {
            place: PLACES.choose(rng).unwrap(),
            nth: match rng.random_bool(0.5) {
                true => rng.random_range(1..12),
                false => rng.random_range(1..600),
            },
            times: if rng.random_bool(0.8) { 1 } else { 2 },
            action: match rng.random_range(0..11) {
                0..4 => Action::Sticky(code),
                4..6 => Action::Passing(code),
                6 => Action::Spin,
                7 => Action::Hang,
                8 => Action::Slow(rng.random_range(1..300)),
                9 => Action::Take(rng.random_range(1..100)),
                _ => Action::Kill(*[4, 6, 7, 9, 11, 15].choose(rng).unwrap()),
            },
        }
    }

    /// In the language of the stand-in.
    fn text(&self) -> String {
        let action = match self.action {
            Action::Sticky(code) => format!("sticky:{code}"),
            Action::Passing(code) => code.to_string(),
            Action::Spin => "spin".into(),
            Action::Hang => "hang".into(),
            Action::Slow(ms) => format!("slow:{ms}"),
            Action::Kill(signal) => format!("kill:{signal}"),
            Action::Take(mib) => format!("take:{mib}"),
        };
        format!("{}@{}x{}={action}", self.place, self.nth, self.times)
    }
}

impl Case {
    /// The case of a seed: one fault, or up to three of them.
    fn of(seed: u64) -> Case {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let faults = [1, 1, 2, 3].choose(&mut rng).copied().unwrap_or(1);
        let rules: Vec<Rule> = (0..faults).map(|_| Rule::draw(&mut rng)).collect();
        let context = rng.random_range(16..100);
        let taken = |rule: &Rule| match rule.action {
            Action::Take(mib) => mib * rule.times,
            _ => 0,
        };
        Case {
            // From one trial at a time with little to spare to room for all.
            memory: rules.iter().map(taken).sum::<u32>()
                + context
                + 40
                + rng.random_range(0..4 * (context + 40)),
            context,
            lag: rng.random_range(0..20),
            slots: rng.random_range(1..4),
            standby: ["auto", "off"].choose(&mut rng).copied().unwrap_or("off"),
            kills: match rng.random_bool(0.3) {
                true => (0..rng.random_range(1..3))
                    .map(|_| rng.random_range(300..4000))
                    .collect(),
                false => vec![],
            },
            rules,
        }
    }

    fn settings(&self) -> String {
        let Case {
            memory,
            context,
            lag,
            ..
        } = self;
        format!("memory {memory}M\ncontext {context}M\nlag {lag}")
    }

    /// Trials that may be pruned: what an error that passes has hit, and who was hit in both of its attempts.
    fn pruned(&self) -> usize {
        let times = |of: fn(&Action) -> bool| -> usize {
            let these = self.rules.iter().filter(|rule| of(&rule.action));
            these.map(|rule| rule.times as usize).sum()
        };
        let passing = times(|action| matches!(action, Action::Passing(_)));
        let harmless = times(|action| matches!(action, Action::Slow(_) | Action::Take(_)));
        passing + (times(|_| true) - passing - harmless) / 2
    }

    /// Cases that are a little simpler.
    fn simpler(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        let mut with = |change: &dyn Fn(&mut Case)| {
            let mut case = self.clone();
            change(&mut case);
            cases.push(case);
        };
        for at in 0..self.rules.len() {
            if self.rules.len() > 1 {
                with(&|case| {
                    case.rules.remove(at);
                });
            }
            if self.rules[at].times > 1 {
                with(&|case| case.rules[at].times = 1);
            }
            if self.rules[at].nth > 1 {
                with(&|case| case.rules[at].nth /= 2);
            }
        }
        if !self.kills.is_empty() {
            with(&|case| {
                case.kills.pop();
            });
        }
        if self.slots > 1 {
            with(&|case| case.slots -= 1);
        }
        if self.standby != "off" {
            with(&|case| case.standby = "off");
        }
        if self.memory < 4096 {
            with(&|case| case.memory = 8192);
        }
        if self.lag > 0 {
            with(&|case| case.lag = 0);
        }
        cases
    }
}

fn command(cards: &Cards, project: &Project, slots: u32, standby: &str) -> Command {
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
    let arguments = [&["tiny"], &steady[..], &machine, &limits, &fixed].concat();
    cards.given_to(project.tune(&arguments))
}

/// Starts the command and kills it after so many milliseconds.
fn killed(mut command: Command, after: u64) {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    std::thread::sleep(Duration::from_millis(after));
    child.kill().unwrap();
    child.wait().unwrap();
}

/// What is wrong with the case's run, if anything.
fn complaint(case: &Case, undisturbed: &[Json]) -> Option<String> {
    let rules: Vec<String> = case.rules.iter().map(Rule::text).collect();
    let cards = Cards::with(&case.settings(), &rules.join("\n"));
    let project = tiny::project(60);
    let command = || command(&cards, &project, case.slots, case.standby);
    for after in &case.kills {
        killed(command(), *after);
    }
    let run = Run::of(command());
    let say = |what: &str| Some(format!("{what}: {case:#?}\n{run:#?}\n{}", cards.log()));
    if run.code != Some(0) {
        return say("the run did not reach its goal");
    }
    if run.warnings().iter().any(|w| w.contains("given up")) {
        return say("a slot is given up");
    }
    let trials = project.trials("tiny");
    let found = results(&trials);
    let ended = |state: &str| trials.iter().filter(|t| t["state"] == state).count();
    if ended("PRUNED") > case.pruned() || ended("COMPLETE") + ended("PRUNED") < trials.len() {
        return say("trials were lost or blamed");
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

/// The simplest case that a complaint leads to, with what is wrong with it.
fn shrunk(
    case: Case,
    complaint_of: &dyn Fn(&Case) -> Option<String>,
    what: String,
) -> (Case, String) {
    let found = case
        .simpler()
        .into_iter()
        .find_map(|case| complaint_of(&case).map(|what| (case, what)));
    match found {
        Some((simpler, what)) => shrunk(simpler, complaint_of, what),
        None => (case, what),
    }
}

#[test]
fn random_faults_cost_no_trial_no_slot_and_no_value() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let (count, first) = (
        number("TUNE_RULES").unwrap_or(12),
        number("TUNE_RULES_SEED").unwrap_or(0),
    );
    let (cards, project) = (Cards::one(), tiny::project(60));
    Run::of(command(&cards, &project, 1, "off")).ends(0);
    let undisturbed = results(&project.trials("tiny"));
    let complaint = |case: &Case| complaint(case, &undisturbed);
    let mut complaints = Vec::new();
    for seed in first..first + count {
        let case = Case::of(seed);
        if let Some(what) = complaint(&case) {
            println!("seed {seed}: {what}");
            let (case, what) = shrunk(case, &complaint, what);
            println!("seed {seed}, at its simplest: {case:#?}: {what}");
            complaints.push(seed);
        }
    }
    assert!(complaints.is_empty(), "seeds {complaints:?}");
}

#[test]
fn a_failing_case_is_shrunk_to_what_it_takes() {
    let complains = |case: &Case| {
        let kills = |rule: &Rule| matches!(rule.action, Action::Kill(_)) && rule.nth >= 4;
        (case.rules.iter().any(kills) && case.slots >= 2).then(|| "killed".to_owned())
    };
    let cases = (0..).map(Case::of).filter(|case| complains(case).is_some());
    for case in cases.take(20) {
        let (least, _) = shrunk(case, &complains, String::new());
        let [rule] = &least.rules[..] else {
            panic!("{least:?}");
        };
        assert!((4..8).contains(&rule.nth) && rule.times == 1, "{least:?}");
        assert_eq!((least.slots, least.standby, least.lag), (2, "off", 0));
        assert!(least.kills.is_empty() && least.memory == 8192, "{least:?}");
    }
}
