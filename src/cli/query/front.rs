//! The front of a study with several objectives: what `tune best` shows of it.

use serde_json::{Value as Json, json};

use super::format;
use adopt::fit::adopted_params;
use messages::exit::Failure;
use report::format::{plural, value as number};
use report::params_json;
use search::study::{FrozenTrial, pareto};
use store::{Store, StudySummary};

/// The trials of a study that none dominates, the best by the first objective first.
///
/// # Errors
/// There is none yet (2); reading failed (7).
pub(super) fn read(store: &Store, study: &StudySummary) -> Result<Vec<FrozenTrial>, Failure> {
    let trials = store.trials(study.study_id)?;
    let front = pareto::front(&study.directions, &trials);
    if front.is_empty() {
        let counts = super::status::counts_text(&study.counts);
        return Err(Failure::input(format!(
            "study {:?} has no complete trial yet: {counts}",
            study.name
        )));
    }
    Ok(front.into_iter().cloned().collect())
}

/// What is optimised, one entry an objective: `minimize loss`.
pub(super) fn objectives(study: &StudySummary) -> Vec<String> {
    let named = study.directions.iter().zip(names(study));
    named
        .map(|(direction, name)| format!("{direction} {name}"))
        .collect()
}

/// The objectives' names as a run has noted them.
fn names(study: &StudySummary) -> Vec<String> {
    let noted = study.user_attrs.get("metrics").and_then(Json::as_array);
    let name = |i: usize| Some(format::printable(noted?.get(i)?.as_str()?));
    (0..study.directions.len())
        .map(|i| name(i).unwrap_or_else(|| format!("value {i}")))
        .collect()
}

/// As a table: a row a trial, a column an objective and a parameter.
pub(super) fn table(study: &StudySummary, front: &[FrozenTrial]) -> String {
    let params: Vec<_> = (front.iter())
        .map(|t| adopted_params(t).unwrap_or_else(|| t.params.clone()))
        .collect();
    let mut columns: Vec<&String> = params.iter().flat_map(|p| p.keys()).collect();
    columns.sort();
    columns.dedup();
    let mut heading = vec!["trial".to_owned()];
    heading.extend(names(study));
    heading.extend(columns.iter().map(|name| format::printable(name)));
    let mut rows = vec![heading];
    for (trial, params) in front.iter().zip(&params) {
        let mut row = vec![trial.number.to_string()];
        row.extend(trial.values.iter().map(|v| number(*v)));
        let cell = |name: &&String| params.get(*name).map_or_else(String::new, format::value);
        row.extend(columns.iter().map(cell));
        rows.push(row);
    }
    let facts = format::facts(&[
        ("study", format::printable(&study.name)),
        ("objectives", objectives(study).join(", ")),
        (
            "front",
            format!(
                "{} that none beats in every objective",
                plural(front.len() as u64, "trial")
            ),
        ),
    ]);
    format!("{facts}\n{}", report::format::table(&rows))
}

/// As an array.
pub(super) fn json(front: &[FrozenTrial]) -> Json {
    front.iter().map(brief).collect()
}

/// Number, values and parameters.
pub(super) fn brief(trial: &FrozenTrial) -> Json {
    let mut json = json!({
        "number": trial.number, "value": format::single_value(&trial.values),
        "params": params_json(&trial.params),
    });
    if let Some(values) = format::values(&trial.values) {
        json["values"] = values;
    }
    if let Some(adopted) = adopted_params(trial) {
        json["adopted_params"] = params_json(&adopted);
    }
    json
}
