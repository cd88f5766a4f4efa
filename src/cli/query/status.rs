//! `tune status` and `tune best`.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::format::{self, rfc3339};
use super::front::{self, brief};
use super::gpus;
use super::{baseline, best_trial, choose, made_from, winner};
use adopt::fit::adopted_params;
use config::Baseline;
use device::GpuMinute;
use messages::exit::{Exit, Failure};
use messages::json_number;
use report::format::plural;
use report::format::value as number;
use search::study::{FrozenTrial, TrialState, pareto};
use store::{Counts, RunEntry, Store, StudySummary};
use supervisor::MADE_FROM;

/// What the database does not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// Now.
    pub now: jiff::Timestamp,
    /// Who holds the study: `pid 4711 on host`. `None` where nobody does.
    pub holder: Option<String>,
    /// Results that wait in the spool and are not in the database yet.
    pub spooled: u64,
    /// Trials asked for, where the configuration says so; else the last run's.
    pub goal: Option<u64>,
}

/// Everything that a status shows.
struct Status {
    study: StudySummary,
    best: Option<FrozenTrial>,
    /// With several objectives, in place of the best.
    front: Option<Vec<FrozenTrial>>,
    baseline: Option<Baseline>,
    counted: u64,
    goal: Option<u64>,
    faults: BTreeMap<String, u64>,
    runs: Vec<RunEntry>,
    /// What the GPUs of a run that lives are at.
    gpus: Vec<(String, GpuMinute)>,
}

impl Status {
    fn read(store: &Store, name: Option<&str>, context: &Context) -> Result<Status, Failure> {
        let study = choose(store, name)?;
        let single = study.directions.len() == 1;
        // The front shows the parameters of many trials.
        let trials = match single {
            true => store.outlines(study.study_id)?,
            false => store.trials(study.study_id)?,
        };
        let best = best_trial(&study, &trials).filter(|_| single);
        let best = best.map(|t| whole(store, &study, t)).transpose()?;
        let runs = store.runs(study.study_id)?;
        let asked = runs
            .last()
            .and_then(|r| r.record.operation.get("trials")?.as_u64());
        let front = (!single).then(|| pareto::front(&study.directions, &trials));
        let live = runs.last().filter(|_| context.holder.is_some());
        let gpus = live.map(|run| store.last_gpu_minutes(run.run_id));
        Ok(Status {
            gpus: gpus.transpose()?.unwrap_or_default(),
            front: front.map(|f| f.into_iter().cloned().collect()),
            best,
            baseline: baseline(&study),
            counted: trials.iter().filter(|t| t.counts()).count() as u64,
            goal: context.goal.or(asked),
            faults: store.faults(study.study_id)?,
            runs,
            study,
        })
    }
}

/// How a study stands, as text.
///
/// # Errors
/// No such study (2); reading failed (7).
pub fn status(store: &Store, name: Option<&str>, context: &Context) -> Result<String, Failure> {
    let status = Status::read(store, name, context)?;
    let study = &status.study;
    let directions = match status.front {
        Some(_) => front::objectives(study),
        None => vec![study.direction().to_string()],
    };
    let mut facts = vec![(
        "study",
        format!(
            "{} ({})",
            format::printable(&study.name),
            directions.join(", ")
        ),
    )];
    facts.extend(made_from(study).map(|text| ("made from", text)));
    facts.push(("trials", counts_text(&study.counts)));
    let goal = status
        .goal
        .map_or_else(String::new, |goal| format!(" of {goal}"));
    facts.push(("counted", format!("{}{goal}", status.counted)));
    facts.push(match &status.front {
        Some(front) => ("front", plural(front.len() as u64, "trial")),
        None => ("best", best_text(status.best.as_ref())),
    });
    if let Some(number) = winner::number(study) {
        facts.push(("winner", format!("trial {number}, by repeats")));
    }
    if let Some(baseline) = &status.baseline {
        facts.push(("baseline", baseline_text(baseline)));
    }
    if !status.faults.is_empty() {
        let faults: Vec<String> = status
            .faults
            .iter()
            .map(|(kind, n)| format!("{} {n}", format::printable(kind)))
            .collect();
        facts.push(("faults", faults.join(", ")));
    }
    for (time, gpu) in &status.gpus {
        facts.push(("gpu", gpus::text(gpu, time, context.now)));
    }
    if context.spooled > 0 {
        facts.push(("spool", supervisor::spool::waiting_text(context.spooled)));
    }
    facts.push((
        "held by",
        context
            .holder
            .clone()
            .unwrap_or_else(|| "nobody".to_owned()),
    ));
    if let Some(run) = status.runs.last() {
        facts.push(("runs", runs_text(status.runs.len(), run)));
    }
    if let Some(last) = &study.last_activity {
        let ago = format::seconds(last, &format::stored(context.now));
        let ago = ago.map_or_else(String::new, |s| format!(" ({} ago)", format::duration(s)));
        facts.push(("last activity", format!("{}{ago}", format::time(last))));
    }
    let mut text = format::facts(&facts);
    text.push_str(&warning(
        study,
        status.best.as_ref(),
        status.baseline.as_ref(),
    ));
    Ok(text)
}

/// How a study stands, as JSON.
///
/// # Errors
/// See [`status`].
pub fn status_json(store: &Store, name: Option<&str>, context: &Context) -> Result<Json, Failure> {
    let status = Status::read(store, name, context)?;
    let study = &status.study;
    let mut json = json!({
        "study": study.name,
        "directions": study.directions,
        "made_from": study.user_attrs.get(MADE_FROM),
        "counts": counts_json(&study.counts),
        "counted": status.counted,
        "goal": status.goal,
        "best": status.best.as_ref().map(brief),
        "baseline": status.baseline.as_ref().map(baseline_json),
        "faults": status.faults,
        "gpus": gpus::json(&status.gpus),
        "spooled": context.spooled,
        "holder": context.holder,
        "runs": status.runs.len(),
        "last_exit": status.runs.last().and_then(|r| r.exit),
        "last_activity": study.last_activity.as_deref().map(rfc3339),
    });
    if let Some(front) = &status.front {
        json["front"] = front::json(front);
    }
    Ok(json)
}

/// The best trial with its parameters, beside the baseline, as text; with several objectives the
/// trials of the front, as a table.
///
/// # Errors
/// No such study, no complete trial (2); reading failed (7).
pub fn best(store: &Store, name: Option<&str>) -> Result<String, Failure> {
    let study = choose(store, name)?;
    if study.directions.len() > 1 {
        return Ok(front::table(&study, &front::read(store, &study)?));
    }
    let (trial, counted) = read_best(store, &study)?;
    let baseline = baseline(&study);
    let value = trial.value().map_or_else(String::new, number);
    let mut facts = vec![
        (
            "study".to_owned(),
            format!("{} ({})", format::printable(&study.name), study.direction()),
        ),
        ("trial".to_owned(), trial.number.to_string()),
        ("value".to_owned(), value),
    ];
    if let Some(baseline) = &baseline {
        facts.push(("baseline".to_owned(), baseline_text(baseline)));
    }
    let adopted = adopted_params(&trial);
    if adopted.is_some() {
        let what = "with these parameters, which its study cannot hold";
        facts.push(("adopted".to_owned(), what.to_owned()));
    }
    for (name, value) in adopted.as_ref().unwrap_or(&trial.params) {
        facts.push((format::printable(name), format::value(value)));
    }
    let mut text = format::facts(&facts);
    for line in winner::lines(&study, trial.number, counted) {
        text.push_str(&format!("{}\n", format::printable(&line)));
    }
    text.push_str(&warning(&study, Some(&trial), baseline.as_ref()));
    Ok(text)
}

/// The best trial with its parameters, beside the baseline, as JSON; with several objectives the
/// trials of the front, as an array.
///
/// # Errors
/// See [`best`].
pub fn best_json(store: &Store, name: Option<&str>) -> Result<Json, Failure> {
    let study = choose(store, name)?;
    if study.directions.len() > 1 {
        return Ok(front::json(&front::read(store, &study)?));
    }
    let (trial, _) = read_best(store, &study)?;
    let baseline = baseline(&study);
    let beaten = baseline.as_ref().map(|b| beats(&study, &trial, b));
    Ok(json!({
        "study": study.name,
        "direction": study.direction(),
        "best": brief(&trial),
        "baseline": baseline.as_ref().map(baseline_json),
        "beats_baseline": beaten,
        "selection": winner::selection(&study),
        "test": winner::test(&study),
    }))
}

/// The winner by repeats or else the best trial, and how many trials have finished.
pub(super) fn read_best(
    store: &Store,
    study: &StudySummary,
) -> Result<(FrozenTrial, u64), Failure> {
    let trials = store.outlines(study.study_id)?;
    let counted = trials.iter().filter(|t| t.counts()).count() as u64;
    let best = winner::trial(study, &trials).or(best_trial(study, &trials));
    let best = best.ok_or_else(|| {
        let counts = counts_text(&study.counts);
        Failure::input(format!(
            "study {:?} has no complete trial yet: {counts}",
            study.name
        ))
    })?;
    Ok((whole(store, study, best)?, counted))
}

/// All of a trial of which the outline is known.
fn whole(
    store: &Store,
    study: &StudySummary,
    outline: &FrozenTrial,
) -> Result<FrozenTrial, Failure> {
    store.trial(study.study_id, outline.number)?.ok_or_else(|| {
        Failure::input(format!(
            "trial {} of study {:?} was deleted meanwhile",
            outline.number, study.name
        ))
    })
}

fn beats(study: &StudySummary, trial: &FrozenTrial, baseline: &Baseline) -> bool {
    winner::mean(study, trial)
        .or(trial.value())
        .is_some_and(|value| study.direction().better(value, baseline.value))
}

/// A line that says that the search has found nothing better than the trivial answer.
fn warning(
    study: &StudySummary,
    best: Option<&FrozenTrial>,
    baseline: Option<&Baseline>,
) -> String {
    match (best, baseline) {
        (Some(best), Some(baseline)) if !beats(study, best, baseline) => format!(
            "\nwarning: no trial beats the baseline; {} scores {}\n",
            format::printable(if baseline.what.is_empty() {
                "it"
            } else {
                &baseline.what
            }),
            number(baseline.value)
        ),
        (Some(_) | None, Some(_) | None) => String::new(),
    }
}

fn best_text(best: Option<&FrozenTrial>) -> String {
    match best.and_then(|t| Some((t.number, t.value()?))) {
        Some((trial, value)) => format!("{} (trial {trial})", number(value)),
        None => "none yet".to_owned(),
    }
}

fn baseline_text(baseline: &Baseline) -> String {
    format!(
        "{} ({})",
        number(baseline.value),
        format::printable(&baseline.what)
    )
}

fn baseline_json(baseline: &Baseline) -> Json {
    json!({"value": json_number(baseline.value), "what": baseline.what})
}

fn runs_text(count: usize, last: &RunEntry) -> String {
    let end = match (last.exit, &last.ended) {
        (Some(code), _) => {
            let meaning = Exit::ALL.iter().find(|(exit, _)| exit.code() == code);
            let meaning = meaning.map_or("unknown", |(_, meaning)| meaning);
            format!("the last ended with {code}: {meaning}")
        }
        (None, Some(_) | None) => "the last has not ended, or was killed".to_owned(),
    };
    format!("{count}; {end}")
}

pub(super) fn counts_text(counts: &Counts) -> String {
    let states = [
        (TrialState::Complete, "complete"),
        (TrialState::Pruned, "pruned"),
        (TrialState::Fail, "failed"),
        (TrialState::Running, "running"),
        (TrialState::Waiting, "waiting"),
    ];
    let parts: Vec<String> = states
        .iter()
        .filter(|(state, _)| counts.of(*state) > 0)
        .map(|(state, word)| format!("{} {word}", counts.of(*state)))
        .collect();
    if parts.is_empty() {
        "none".to_owned()
    } else {
        format!("{} ({})", counts.total(), parts.join(", "))
    }
}

/// Counts by state, by the words of a run's events.
pub(super) fn counts_json(counts: &Counts) -> Json {
    json!({
        "complete": counts.complete,
        "pruned": counts.pruned,
        "fail": counts.fail,
        "running": counts.running,
        "waiting": counts.waiting,
    })
}
