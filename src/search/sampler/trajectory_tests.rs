//! The proposals of each sampler for one seed, compared with recorded ones to the last bit: a change that
//! is not meant to change the search proves it here. After a change that is meant to,
//! `TUNE_RECORD=1 cargo test -p tune-search recorded` writes the record again.

use std::collections::VecDeque;
use std::fmt::Write;
use std::path::Path;

use super::testing::{self, trial};
use super::{Ask, SamplerSpec, sampler};
use crate::space::{Params, Space};
use crate::study::{Direction, FrozenTrial, History, TrialState};

const KINDS: [&str; 7] = ["random", "sobol", "grid", "tpe", "gp", "auto", "nsga2"];
const TRIALS: u64 = 40;
const RUNNING: usize = 4;

/// So many proposals of a study are spelled out; of the others there is a checksum.
const SPELLED: u64 = 3;

/// The conditional space and every kind of domain beside it.
fn space() -> Space {
    let mut space = testing::conditional_space();
    for parameter in testing::mixed_space().parameters {
        if space.find(&parameter.name).is_none() {
            space.parameters.push(parameter);
        }
    }
    space
}

/// How far a point is from another one, over the parameters whose indices leave that rest.
fn distance(space: &Space, params: &Params, target: f64, rest: usize) -> f64 {
    let places = space.parameters.iter().enumerate();
    let own = places.filter(|(index, _)| index % 2 == rest);
    own.filter_map(|(_, parameter)| {
        let internal = parameter.domain.to_internal(params.get(&parameter.name)?)?;
        Some((parameter.domain.to_unit(internal) - target).powi(2))
    })
    .sum()
}

/// How a trial ends: most by themselves, others by an error, by the pruner, or by a constraint.
fn ended(space: &Space, mut trial: FrozenTrial, objectives: usize) -> FrozenTrial {
    let loss = distance(space, &trial.params, 0.3, 0);
    let gain = 5.0 - distance(space, &trial.params, 0.8, 1);
    trial.state = TrialState::Complete;
    trial.values = [loss, gain][..objectives].to_vec();
    let over = trial.params["length"].as_f64().unwrap_or(0.0) - 400.0;
    trial
        .system_attrs
        .insert("constraints".into(), vec![over].into());
    match trial.number % 10 {
        4 => trial.state = TrialState::Fail,
        6 | 7 if objectives == 1 => trial.state = TrialState::Pruned,
        _ => {}
    }
    if trial.state != TrialState::Complete {
        trial.values.clear();
    }
    if objectives == 1 && trial.state != TrialState::Fail {
        let reports = (1..=5).map(|step| (step, loss + 1.0 / step as f64));
        trial.intermediate = reports.collect();
    }
    trial
}

/// A study's proposals, a line each.
fn proposals(kind: &str, objectives: usize) -> String {
    let space = space();
    let directions = [Direction::Minimize, Direction::Maximize][..objectives].to_vec();
    let mut history = History::new(directions);
    let mut sampler = sampler(&SamplerSpec {
        kind: kind.into(),
        options: Params::new(),
    })
    .unwrap();
    let mut running: VecDeque<FrozenTrial> = VecDeque::new();
    let mut lines = format!("{kind}, {objectives} objectives\n");
    for number in 0..TRIALS {
        if running.len() == RUNNING {
            let oldest = running.pop_front().unwrap();
            history.put(&space, &ended(&space, oldest, objectives));
        }
        let proposal = sampler
            .propose(&Ask {
                space: &space,
                history: &history,
                number,
                seed: 7,
            })
            .unwrap();
        let values = proposal
            .params
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        let point = values.collect::<Vec<String>>().join(" ");
        let shown = match number < SPELLED {
            true => point,
            false => format!("{:08x}", crc32fast::hash(point.as_bytes())),
        };
        writeln!(lines, "{number:2} {:13} {shown}", proposal.by).unwrap();
        let started = trial(number, TrialState::Running, proposal.params, None);
        history.put(&space, &started);
        running.push_back(started);
    }
    lines
}

/// What the last bit of a sum depends on beside the program.
fn processor() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512f") {
        return "x86_64 with AVX-512";
    }
    std::env::consts::ARCH
}

#[test]
fn proposals_are_the_recorded_ones() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("sampler/trajectory.txt");
    let mut now = format!("Recorded on {}.\n", processor());
    for kind in KINDS {
        for objectives in [1, 2] {
            write!(now, "\n{}", proposals(kind, objectives)).unwrap();
        }
    }
    if std::env::var_os("TUNE_RECORD").is_some() {
        std::fs::write(&file, &now).unwrap();
    }
    let recorded = std::fs::read_to_string(&file).unwrap();
    if recorded.lines().next() != now.lines().next() {
        println!("not compared: the record is of another kind of processor");
        return;
    }
    for (recorded, now) in recorded.split("\n\n").zip(now.split("\n\n")) {
        assert_eq!(recorded, now);
    }
    assert_eq!(recorded, now);
}
