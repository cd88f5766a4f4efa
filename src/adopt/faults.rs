//! Which trials of a study from elsewhere met CUDA or memory errors: what their attributes say.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Map, Value as Json};

use fault::FaultKind;
use fault::table::Survival;
use search::study::{FrozenTrial, TrialState};

/// Attributes of people's scripts that say in one word what happened, and the fault they mean.
const FLAGS: [(&str, FaultKind); 4] = [
    ("oom", FaultKind::Oom),
    ("cuda_error", FaultKind::CudaUnclear),
    ("hang", FaultKind::Hang),
    ("diverged", FaultKind::Diverged),
];

/// Parts of the names of attributes that hold errors of any kind.
const ERRORS: [&str; 7] = [
    "error",
    "exception",
    "fail",
    "traceback",
    "reason",
    "crash",
    "msg",
];

/// So many failures in a row are no accident.
const IN_A_ROW: usize = 3;

/// All trials with one kind of fault.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FaultGroup {
    /// The kind.
    #[serde(rename = "fault")]
    pub kind: FaultKind,
    /// The CUDA enumerator or status, where one was named.
    pub name: Option<String>,
    /// The first trial's text.
    pub text: String,
    /// Numbers of the trials, ascending.
    pub trials: Vec<u64>,
}

/// Trials that failed one after the other once a CUDA context was lost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Streak {
    /// The trial that lost the context.
    pub first: u64,
    /// The last of those that failed after it.
    pub last: u64,
    /// How many ended so, the first one included.
    pub trials: usize,
    /// Whether nothing better came after it.
    pub to_the_end: bool,
    /// The first one's fault.
    #[serde(rename = "fault")]
    pub kind: FaultKind,
    /// Its name, where it has one.
    pub name: Option<String>,
}

/// The faults of a study.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Faults {
    /// Trials with any fault.
    pub trials: usize,
    /// By kind, the most frequent first.
    #[serde(rename = "kinds")]
    pub groups: Vec<FaultGroup>,
    /// Failures in a row, in order.
    pub streaks: Vec<Streak>,
    /// Trials that ended in a context that was lost before they began, whatever state they were
    /// given: they say nothing about their points.
    #[serde(skip)]
    pub victims: BTreeSet<u64>,
}

/// One trial's fault.
#[derive(Debug, Clone, PartialEq)]
struct Diagnosed {
    kind: FaultKind,
    name: Option<String>,
    text: String,
    lost: bool,
}

/// Reads the attributes of all trials, ascending by number.
pub fn faults(trials: &[FrozenTrial]) -> Faults {
    let mut known = BTreeMap::new();
    let seen: Vec<Option<Diagnosed>> = trials.iter().map(|t| of_trial(t, &mut known)).collect();
    let mut groups: Vec<FaultGroup> = Vec::new();
    for (trial, fault) in trials.iter().zip(&seen) {
        let Some(fault) = fault else { continue };
        let same = |g: &&mut FaultGroup| g.kind == fault.kind && g.name == fault.name;
        match groups.iter_mut().find(same) {
            Some(group) => group.trials.push(trial.number),
            None => groups.push(FaultGroup {
                kind: fault.kind,
                name: fault.name.clone(),
                text: fault.text.clone(),
                trials: vec![trial.number],
            }),
        }
    }
    groups.sort_by_key(|g| std::cmp::Reverse(g.trials.len()));
    let streaks = streaks(trials, &seen);
    let after = |t: &&FrozenTrial| {
        let within = |s: &Streak| (s.first + 1..=s.last).contains(&t.number);
        t.state.finished() && streaks.iter().any(within)
    };
    Faults {
        trials: seen.iter().flatten().count(),
        groups,
        victims: trials.iter().filter(after).map(|t| t.number).collect(),
        streaks,
    }
}

fn of_trial(
    trial: &FrozenTrial,
    known: &mut BTreeMap<String, Option<Diagnosed>>,
) -> Option<Diagnosed> {
    let mut best: Option<Diagnosed> = None;
    for (key, text) in texts(trial) {
        let any = ERRORS.iter().any(|e| key.to_lowercase().contains(e));
        let diagnosed = known.entry(text).or_insert_with_key(|text| diagnose(text));
        let Some(seen) = diagnosed.as_ref().filter(|s| any || of_device(s.kind)) else {
            continue;
        };
        // The errors of devices are what this is about.
        let better = |b: &Diagnosed| of_device(seen.kind) && !of_device(b.kind);
        if best.as_ref().is_none_or(better) {
            best = Some(seen.clone());
        }
    }
    if let Some(seen) = best {
        return Some(seen);
    }
    let set = |(key, _): &&(&str, FaultKind)| {
        let flag = trial.user_attrs.get(*key);
        flag.is_some_and(|v| v == &Json::Bool(true) || v == &Json::from(1))
    };
    FLAGS.iter().find(set).map(|(key, kind)| Diagnosed {
        kind: *kind,
        name: None,
        text: format!("{key} is set, without a text"),
        lost: false,
    })
}

/// Texts in attributes, with the attributes' names; the error's class goes before its message.
fn texts(trial: &FrozenTrial) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let text = |key: &str| trial.user_attrs.get(key).and_then(Json::as_str);
    if let (Some(class), Some(message)) = (text("cuda_error_type"), text("cuda_error_msg")) {
        found.push(("cuda_error_msg".to_owned(), format!("{class}: {message}")));
    }
    collect(&trial.user_attrs, &mut found);
    collect(&trial.system_attrs, &mut found);
    found
}

fn collect(attributes: &Map<String, Json>, found: &mut Vec<(String, String)>) {
    for (key, value) in attributes {
        // What Optuna keeps for its samplers.
        if !key.starts_with("tpe:") && !key.starts_with("cma:") {
            strings(key, value, found);
        }
    }
}

fn strings(key: &str, json: &Json, found: &mut Vec<(String, String)>) {
    match json {
        Json::String(text) => found.push((key.to_owned(), text.clone())),
        Json::Array(items) => items.iter().for_each(|item| strings(key, item, found)),
        Json::Object(map) => map.iter().for_each(|(k, item)| strings(k, item, found)),
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

fn diagnose(text: &str) -> Option<Diagnosed> {
    let found = fault::diagnose(text)?;
    Some(Diagnosed {
        kind: found.kind,
        name: found.name,
        text: found.text,
        lost: found.context == Survival::Lost,
    })
}

/// Whether a fault is one of CUDA or of memory.
fn of_device(kind: FaultKind) -> bool {
    kind.of_cuda() || kind == FaultKind::HostOom
}

/// Runs of failures that begin with a lost context.
fn streaks(trials: &[FrozenTrial], seen: &[Option<Diagnosed>]) -> Vec<Streak> {
    let mut streaks: Vec<Streak> = Vec::new();
    let mut open: Option<Streak> = None;
    for (trial, fault) in trials.iter().zip(seen) {
        if !trial.state.finished() {
            continue;
        }
        if fault.is_none() && trial.state != TrialState::Fail {
            streaks.extend(open.take());
            continue;
        }
        match (&mut open, fault) {
            (Some(streak), _) => {
                streak.last = trial.number;
                streak.trials += 1;
            }
            (None, Some(fault)) if fault.lost => {
                open = Some(Streak {
                    first: trial.number,
                    last: trial.number,
                    trials: 1,
                    to_the_end: false,
                    kind: fault.kind,
                    name: fault.name.clone(),
                });
            }
            (None, _) => {}
        }
    }
    if let Some(streak) = &mut open {
        streak.to_the_end = true;
    }
    streaks.extend(open);
    streaks.retain(|s| s.trials >= IN_A_ROW);
    streaks
}

#[cfg(test)]
mod tests {
    use super::super::testing::trial;
    use super::*;
    use serde_json::json;

    const ASSERT: &str = "CUDA error: device-side assert triggered\nSearch for `cudaErrorAssert' in \
        https://docs.nvidia.com/cuda for more information.";
    const OOM: &str = "CUDA out of memory. Tried to allocate 16.00 MiB. GPU 0 has a total capacity \
        of 23.56 GiB of which 33.56 MiB is free.";

    fn with(number: u64, state: TrialState, attributes: Json) -> FrozenTrial {
        let mut trial = trial(number, state, None, &[]);
        trial.user_attrs = attributes.as_object().unwrap().clone();
        trial
    }

    #[test]
    fn errors_are_found_in_attributes_of_any_name_and_counted_by_kind() {
        use TrialState::{Complete, Fail, Pruned};
        let assert = json!({"cuda_error": true, "cuda_error_type": "AcceleratorError", "cuda_error_msg": ASSERT});
        let mut system = with(4, Fail, json!({}));
        system.system_attrs.insert("fail_reason".into(), OOM.into());
        let trials = [
            with(
                0,
                Complete,
                json!({"note": "a fine model", "accuracy": "0.9"}),
            ),
            with(1, Pruned, assert.clone()),
            with(2, Pruned, assert),
            with(
                3,
                Pruned,
                json!({"oom": true, "oom_config": {"batch_size": 64}}),
            ),
            system,
            with(5, Fail, json!({"error": "ValueError: shapes do not match"})),
            with(6, Pruned, json!({"log": {"tail": ["epoch 3", ASSERT]}})),
        ];
        let found = faults(&trials);
        assert_eq!(found.trials, 6);
        let groups: Vec<_> = found
            .groups
            .iter()
            .map(|g| (g.kind, g.name.as_deref(), g.trials.clone()))
            .collect();
        assert_eq!(
            groups[0],
            (
                FaultKind::CudaSticky,
                Some("cudaErrorAssert"),
                vec![1, 2, 6]
            )
        );
        assert_eq!(groups[1], (FaultKind::Oom, None, vec![3, 4]));
        assert_eq!(groups[2], (FaultKind::TaskError, None, vec![5]));
    }

    #[test]
    fn failures_in_a_row_begin_where_the_context_was_lost() {
        use TrialState::{Complete, Fail, Pruned, Running};
        let lost = || json!({"cuda_error_msg": ASSERT});
        let mut trials = vec![
            with(0, Fail, json!({})),
            with(1, Complete, json!({})),
            with(2, Pruned, json!({"oom": true})),
            with(3, Pruned, lost()),
            with(4, Fail, json!({})),
            with(5, Running, json!({})),
            with(6, Fail, lost()),
        ];
        let all = faults(&trials);
        assert_eq!(all.victims, [4, 6].into());
        let found = all.streaks;
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].first, found[0].last, found[0].trials), (3, 6, 3));
        assert!(found[0].to_the_end);
        // A restart of the script helps.
        trials.push(with(7, Complete, json!({})));
        trials.push(with(8, Fail, lost()));
        let found = faults(&trials).streaks;
        assert_eq!(found.len(), 1);
        assert!(!found[0].to_the_end);
    }
}
