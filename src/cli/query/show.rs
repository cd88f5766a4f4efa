//! `tune show STUDY TRIAL`: all about one trial.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value as Json, json};

use super::format;
use super::nodes::is_elsewhere;
use super::trials::{TrialJson, runtime};
use super::{Answer, choose};
use adopt::fit::adopted_params;
use messages::exit::Failure;
use report::format::value;
use search::space::{Domain, Params, Value};
use search::study::carry::{COPIED_FROM, POINT_FROM, origin};
use search::study::{FrozenTrial, Purpose};
use store::{AttemptRecord, RepeatRecord, RunNode, Store, StudySummary};
use view::{Detail, Section};

/// All about one trial: that of `tune trials --json`, with its distributions, system attributes and the
/// full paths of its logs.
pub struct Shown {
    study: StudySummary,
    trial: FrozenTrial,
    attempts: Vec<AttemptRecord>,
    repeats: Vec<RepeatRecord>,
    /// Where logs lie: beside the database, in `tune.db.d/`.
    logs: PathBuf,
    /// The nodes of the runs, where several share the database.
    nodes: BTreeMap<i64, RunNode>,
    /// Those of them whose logs are elsewhere.
    elsewhere: BTreeSet<i64>,
}

/// All about one trial.
///
/// # Errors
/// No such study or trial (2); reading failed (7).
pub fn show(store: &Store, name: Option<&str>, number: u64) -> Result<Shown, Failure> {
    let (study, trial, attempts) = read(store, name, number)?;
    let nodes = store.run_nodes(study.study_id)?;
    let here = store.place().nodes_here();
    let elsewhere = nodes.iter().filter(|(_, node)| is_elsewhere(node, &here));
    let elsewhere = elsewhere.map(|(run, _)| *run);
    Ok(Shown {
        elsewhere: elsewhere.collect(),
        nodes,
        repeats: store.repeats(study.study_id, Some(number))?,
        logs: store.place().files(),
        study,
        trial,
        attempts,
    })
}

impl Serialize for Shown {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Fields<'a> {
            #[serde(flatten)]
            trial: TrialJson<'a>,
            study: &'a str,
            distributions: BTreeMap<&'a str, String>,
            system_attrs: &'a Map<String, Json>,
            repeats: Vec<Json>,
            logs: Vec<String>,
        }
        let trial = &self.trial;
        let domains = trial.distributions.iter();
        let fields = Fields {
            trial: TrialJson::new(trial, &self.attempts, &self.nodes),
            study: &self.study.name,
            distributions: domains
                .map(|(name, domain)| (name.as_str(), domain_text(domain)))
                .collect(),
            system_attrs: &trial.system_attrs,
            repeats: self.repeats.iter().map(|r| self.repeat_json(r)).collect(),
            logs: self.attempts.iter().map(|a| self.log_path(a)).collect(),
        };
        fields.serialize(serializer)
    }
}

impl Answer for Shown {
    fn text(&self) -> String {
        let trial = &self.trial;
        let mut out = format::facts(&head(&self.study, trial));
        section(&mut out, "parameters", parameters(trial));
        if let Some(adopted) = adopted_params(trial) {
            let facts: Vec<_> = adopted
                .iter()
                .map(|(name, v)| (name, format::value(v)))
                .collect();
            let heading = "parameters that its study cannot hold (adopted)";
            section(&mut out, heading, format::facts(&facts));
        }
        section(&mut out, "reports", reports(trial));
        section(&mut out, "attributes", attributes(&trial.user_attrs));
        let system = attributes(&trial.system_attrs);
        section(&mut out, "system attributes", system);
        for attempt in &self.attempts {
            let heading = format!("attempt {}", attempt.attempt);
            section(&mut out, &heading, self.attempt_text(attempt));
        }
        for repeat in &self.repeats {
            section(&mut out, &what(repeat), self.repeat_text(repeat));
        }
        out
    }
}

impl Shown {
    /// The page of it: parameters that differ from what is usual come first.
    pub(super) fn page(&self, metric: &str, usual: &Params, log: Section) -> Detail {
        let trial = &self.trial;
        let section = |heading: &str, text: String| Section {
            heading: heading.to_owned(),
            lines: text.lines().map(str::to_owned).collect(),
        };
        let mut title = vec![trial.state.to_string()];
        title.extend(trial.only_value().map(|v| format!("{metric} {}", value(v))));
        title.extend(runtime(trial).map(format::duration));
        let (differing, others): (Vec<_>, Vec<_>) = (trial.params.iter())
            .partition(|(name, v)| usual.get(*name).is_some_and(|usual| usual != *v));
        let rows = |params: &[(&String, &Value)]| {
            let row = |(name, v): &(&String, &Value)| {
                let default = usual.get(*name).filter(|usual| usual != v);
                vec![
                    (*name).clone(),
                    format::value(v),
                    default.map_or_else(String::new, |d| format!("default {}", format::value(d))),
                ]
            };
            report::format::table(&params.iter().map(row).collect::<Vec<_>>())
        };
        let heading = if differing.is_empty() {
            "parameters"
        } else {
            "other parameters"
        };
        let mut sections = vec![
            section("differs from the defaults", rows(&differing)),
            section(heading, rows(&others)),
        ];
        for attempt in self.attempts.iter().rev() {
            let heading = format!("attempt {}", attempt.attempt);
            sections.push(section(&heading, self.attempt_text(attempt)));
        }
        for repeat in &self.repeats {
            sections.push(section(&what(repeat), self.repeat_text(repeat)));
        }
        sections.push(section("attributes", attributes(&trial.user_attrs)));
        Detail {
            number: trial.number,
            title: title.join(", "),
            curve: trial
                .intermediate
                .iter()
                .map(|(s, v)| (*s as f64, *v))
                .collect(),
            sections,
            log,
        }
    }

    /// Whether it has come to its end.
    pub(super) fn is_finished(&self) -> bool {
        self.trial.state.finished()
    }

    /// The log of its last attempt, relative to where logs lie.
    pub(super) fn last_log(&self) -> Option<&str> {
        self.attempts.last().map(|attempt| attempt.log.as_str())
    }
}

/// A trial with its attempts.
///
/// # Errors
/// See [`show`].
pub fn read(
    store: &Store,
    name: Option<&str>,
    number: u64,
) -> Result<(StudySummary, FrozenTrial, Vec<AttemptRecord>), Failure> {
    let study = choose(store, name)?;
    let trial = store.trial(study.study_id, number)?.ok_or_else(|| {
        let total = study.counts.total();
        let has = match total.checked_sub(1) {
            Some(last) => format!("its trials are 0 to {last}"),
            None => "it has none yet".to_owned(),
        };
        Failure::input(format!(
            "study {:?} has no trial {number}; {has}",
            study.name
        ))
    })?;
    let attempts = store.attempts(study.study_id, number)?;
    Ok((study, trial, attempts))
}

fn head(study: &StudySummary, trial: &FrozenTrial) -> Vec<(&'static str, String)> {
    let values: Vec<String> = trial.values.iter().map(|v| value(*v)).collect();
    let mut facts = vec![
        ("study", study.name.clone()),
        ("trial", trial.number.to_string()),
        ("state", trial.state.to_string()),
        (
            "value",
            if values.is_empty() {
                "none".to_owned()
            } else {
                values.join(", ")
            },
        ),
    ];
    for (word, key) in [("copied from", COPIED_FROM), ("point from", POINT_FROM)] {
        let origin = trial.user_attrs.get(key).and_then(origin);
        facts.extend(origin.map(|(study, number)| (word, format!("trial {number} of {study}"))));
    }
    let times = [
        ("started", &trial.datetime_start),
        ("ended", &trial.datetime_complete),
    ];
    for (word, stored) in times {
        facts.extend(stored.as_deref().map(|s| (word, format::time(s))));
    }
    facts.extend(runtime(trial).map(|s| ("took", format::duration(s))));
    facts
}

fn section(out: &mut String, heading: &str, body: String) {
    if body.is_empty() {
        return;
    }
    out.push_str(&format!("\n{heading}\n"));
    for line in body.lines() {
        out.push_str(&format!("  {line}\n"));
    }
}

fn parameters(trial: &FrozenTrial) -> String {
    let rows: Vec<Vec<String>> = trial
        .params
        .iter()
        .map(|(name, value)| {
            let domain = trial
                .distributions
                .get(name)
                .map_or_else(String::new, domain_text);
            vec![name.clone(), format::value(value), domain]
        })
        .collect();
    report::format::table(&rows)
}

fn reports(trial: &FrozenTrial) -> String {
    let facts: Vec<(String, String)> = trial
        .intermediate
        .iter()
        .map(|(step, v)| (step.to_string(), value(*v)))
        .collect();
    format::facts(&facts)
}

fn attributes(attributes: &Map<String, Json>) -> String {
    let facts = attributes.iter();
    let facts: Vec<_> = facts.map(|(k, v)| (k, format::attribute(v))).collect();
    format::facts(&facts)
}

impl Shown {
    fn attempt_text(&self, attempt: &AttemptRecord) -> String {
        let outcome = attempt.outcome.as_deref().unwrap_or("not ended");
        let again = if attempt.again { ", then again" } else { "" };
        let AttemptRecord {
            worker,
            run_id,
            pid,
            ..
        } = attempt;
        let mut facts = vec![
            ("outcome", format!("{outcome}{again}")),
            ("started", format::time(&attempt.started)),
        ];
        facts.extend(attempt.ended.as_deref().map(|s| ("ended", format::time(s))));
        facts.push(("worker", format!("{worker} of run {run_id}, pid {pid}")));
        facts.push(("device", attempt.device.clone()));
        let mut log = self.log_path(attempt);
        if let Some(node) = self.nodes.get(run_id) {
            let RunNode { name, host } = node;
            if self.elsewhere.contains(run_id) {
                log = format!("not here, but with node {name} on {host}: {}", attempt.log);
            }
            facts.push(("node", format!("{name} on {host}")));
        }
        facts.push(("log", log));
        let mut text = format::facts(&facts);
        for line in attempt.detail.lines() {
            text.push_str(&format!("  {}\n", format::printable(line)));
        }
        text
    }

    fn repeat_text(&self, repeat: &RepeatRecord) -> String {
        let mut facts = vec![("state", repeat.state.to_string())];
        facts.extend(repeat.value.map(|v| ("value", value(v))));
        facts.push(("seed", repeat.seed.to_string()));
        let attrs = repeat.attrs.iter();
        facts.extend(attrs.map(|(k, v)| (k.as_str(), format::attribute(v))));
        let mut text = format::facts(&facts);
        for attempt in &repeat.attempts {
            let told = self.attempt_text(attempt);
            text.push_str(&format!("attempt {}\n", attempt.attempt));
            told.lines()
                .for_each(|line| text.push_str(&format!("  {line}\n")));
        }
        text
    }

    fn repeat_json(&self, repeat: &RepeatRecord) -> Json {
        let logs = repeat.attempts.iter().map(|a| self.log_path(a));
        json!({
            "what": what(repeat), "state": repeat.state, "value": repeat.value, "seed": repeat.seed,
            "attrs": repeat.attrs, "attempts": repeat.attempts.len(), "logs": logs.collect::<Vec<_>>(),
        })
    }

    fn log_path(&self, attempt: &AttemptRecord) -> String {
        self.logs.join(&attempt.log).display().to_string()
    }
}

/// `repeat 2`, `test`.
fn what(repeat: &RepeatRecord) -> String {
    match repeat.job.purpose {
        Purpose::Repeat(n) => format!("repeat {n}"),
        Purpose::Search | Purpose::Test => "test".to_owned(),
    }
}

fn domain_text(domain: &Domain) -> String {
    let scale = |log: bool| if log { ", log" } else { "" };
    match domain {
        Domain::Float {
            low,
            high,
            log,
            step,
        } => {
            let step = step.map_or_else(String::new, |s| format!(", step {s}"));
            format!("{low:?} to {high:?}{step}{}", scale(*log))
        }
        Domain::Int {
            low,
            high,
            log,
            step,
        } => {
            let step = if *step == 1 {
                String::new()
            } else {
                format!(", step {step}")
            };
            format!("{low} to {high}{step}{}", scale(*log))
        }
        Domain::Categorical { choices } => {
            let choices: Vec<String> = choices.iter().map(format::value).collect();
            format!("one of {}", choices.join(", "))
        }
    }
}
