//! The winner by repeats, as the study's attributes tell of it.

use serde_json::Value as Json;

use messages::number_from_json;
use report::{selection_lines, tested_lines};
use search::study::FrozenTrial;
use store::StudySummary;

/// The selection that the study tells of.
pub(super) fn selection(study: &StudySummary) -> Option<&Json> {
    study.user_attrs.get("selection")
}

/// The look at the test split that the study tells of.
pub(super) fn test(study: &StudySummary) -> Option<&Json> {
    study.user_attrs.get("test")
}

/// The number of the trial that won by its repeats.
pub(super) fn number(study: &StudySummary) -> Option<u64> {
    selection(study)?.get("winner")?.get("number")?.as_u64()
}

/// The trial that won by its repeats.
pub(super) fn trial<'a>(
    study: &StudySummary,
    trials: &'a [FrozenTrial],
) -> Option<&'a FrozenTrial> {
    let number = number(study)?;
    trials.iter().find(|t| t.number == number)
}

/// The mean of the repeats of a trial, if it won by it.
pub(super) fn mean(study: &StudySummary, trial: &FrozenTrial) -> Option<f64> {
    let won = number(study) == Some(trial.number);
    let mean = selection(study)?.get("winner")?.get("mean")?;
    number_from_json(mean).filter(|_| won)
}

/// What is to be said beside the best trial; `counted` trials have finished.
pub(super) fn lines(study: &StudySummary, best: u64, counted: u64) -> Vec<String> {
    let metric = study.user_attrs.get("metric").and_then(Json::as_str);
    let mut lines = Vec::new();
    if let Some(selection) = selection(study) {
        let trivial = super::baseline(study).map(|b| b.value);
        lines.extend(selection_lines(
            selection,
            metric.unwrap_or("value"),
            trivial,
        ));
        let then = selection["trials"].as_u64().unwrap_or(counted);
        if counted > then {
            lines.push(format!(
                "note: chosen among {then} finished trials; there are {counted} now, and the \
                 goal of the next run decides when it is chosen anew"
            ));
        }
    }
    if let Some(test) = test(study) {
        lines.extend(tested_lines(test, Some(best)));
    }
    lines
}
