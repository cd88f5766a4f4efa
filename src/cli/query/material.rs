//! All that a report tells of, read from the database.

use super::failures::failure_groups;
use super::objectives::Objectives;
use super::state::{Holder, StudyState};
use super::status::Context;
use super::winner::Winner;
use super::{baseline, best, choose, format};
use messages::exit::{Exit, Failure};
use report::About;
use search::study::Job;
use store::{Store, StudySummary};
use summary::Material;

/// What the database knows of a study, with the trials of others beside it.
///
/// # Errors
/// No such study beside it (2); reading failed (7).
pub fn material(
    store: &Store,
    study: StudySummary,
    beside: &[String],
    context: &Context,
) -> Result<Material, Failure> {
    let id = study.study_id;
    let mut trials = store.trials(id)?;
    // A result that was struck stands in no chart.
    let struck = trials.iter_mut().filter(|t| t.struck());
    struck.for_each(|t| t.values.clear());
    let runs = store.runs(id)?;
    let last = store.last_run(id)?;
    let state = StudyState::of(context.owner.as_ref(), context.suspended, last.as_ref());
    let holder = Holder::of(&study.name, context.owner.as_ref(), last.as_ref());
    let repeats = store.repeats(id, None)?;
    let mut attempts = Vec::new();
    for (number, of_trial) in store.all_attempts(id)? {
        attempts.extend(of_trial.into_iter().map(|a| (Job::trial(number), a)));
    }
    for repeat in &repeats {
        attempts.extend(repeat.attempts.iter().map(|a| (repeat.job, a.clone())));
    }
    let objectives = Objectives::of(&study);
    let others = beside.iter().map(|name| {
        let other = choose(store, Some(name))?;
        let its = Objectives::of(&other);
        if other.direction() != study.direction() || its.names().first() != objectives.names().first() {
            return Err(Failure::input(format!(
                "--with {name}: it is to {}, and {} to {}; only values of one kind stand beside each other",
                its.text(),
                study.name,
                objectives.text()
            )));
        }
        Ok((other.name, store.outlines(other.study_id)?))
    });
    let others = others.collect::<Result<Vec<_>, Failure>>()?;
    let winner = match study.directions.len() {
        1 => number_of_winner(store, &study)?,
        _ => None,
    };
    let noted = Winner::of(&study);
    Ok(Material {
        metrics: objectives.names().to_vec(),
        baseline: baseline(&study),
        state: state.text(holder.as_ref(), last.as_ref(), context.now),
        winner,
        selection: noted.selection,
        test: noted.test,
        attempts,
        repeats,
        memory: store.memory(id)?,
        failures: failure_groups(store, &study, &trials, 0)?,
        identity: store.identity(id)?.unwrap_or_default(),
        others,
        about: About::new(&study.name, &context.tune),
        command: holder.as_ref().and_then(Holder::command),
        database: store.path().display().to_string(),
        made: format!(
            "{} by tune {}",
            format::time(&format::stored(context.now)),
            env!("CARGO_PKG_VERSION")
        ),
        trials,
        runs,
        study,
    })
}

/// The winner; none where no trial is complete.
fn number_of_winner(store: &Store, study: &StudySummary) -> Result<Option<u64>, Failure> {
    match best::winning(store, study) {
        Ok((trial, _)) => Ok(Some(trial.number)),
        Err(failure) if failure.exit == Exit::BadInput => Ok(None),
        Err(failure) => Err(failure),
    }
}
