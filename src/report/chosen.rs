//! Who won by its repeats, and what the test split said: as JSON and as text.

use serde_json::{Value as Json, json};

use super::format::{param_lines, plural, value};
use super::json_lines::{baseline_json, params_json};

use config::Baseline;
use messages::json_number;
use messages::number_from_json;
use search::study::selection::{Candidate, Selection};

/// What a run knows of its winner.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Chosen {
    /// The selection by repeats, once it is complete.
    pub selection: Option<Selection>,
    /// The look at the test split; where the winner has changed since, that of another trial.
    pub test: Option<Tested>,
}

/// What the test split says.
#[derive(Debug, Clone, PartialEq)]
pub struct Tested {
    /// The trial whose point was trained for it.
    pub number: u64,
    /// The objective's metric.
    pub metric: String,
    /// Its value on the test split; `None`: the training failed for good.
    pub value: Option<f64>,
    /// Its value on the validation split at the same epoch.
    pub validation: Option<f64>,
    /// The trivial answer's value on the test split.
    pub baseline: Option<Baseline>,
    /// Trials that the test split has been used for.
    pub looks: u64,
    /// Why there is no value.
    pub error: Option<String>,
}

/// A selection as in `winner_selected` and in the study's attribute `selection`; `trials` had
/// finished.
pub fn selection_json(selection: &Selection, trials: u64) -> Json {
    let candidates: Vec<Json> = selection.candidates.iter().map(candidate_json).collect();
    let naive = selection.naive().map(|naive| {
        json!({
            "number": naive.number, "value": json_number(naive.value),
            "mean": naive.estimate.map(|e| json_number(e.mean)),
            "optimism": selection.optimism.map(json_number),
        })
    });
    json!({
        "repeats": selection.repeats, "trials": trials,
        "winner": selection.winner().map(candidate_json), "naive": naive,
        "missing": selection.missing(), "candidates": candidates,
    })
}

fn candidate_json(candidate: &Candidate) -> Json {
    let estimate = candidate.estimate;
    let values: Vec<Json> = candidate.values.iter().map(|v| json_number(*v)).collect();
    json!({
        "number": candidate.number, "value": json_number(candidate.value),
        "mean": estimate.map(|e| json_number(e.mean)),
        "low": estimate.map(|e| json_number(e.low)),
        "high": estimate.map(|e| json_number(e.high)),
        "values": values, "missing": candidate.missing, "finalist": candidate.finalist,
        "params": params_json(&candidate.params),
    })
}

/// The look at the test split, as in the study's attribute `test`.
pub fn tested_json(tested: &Tested) -> Json {
    json!({
        "number": tested.number, "metric": tested.metric,
        "value": tested.value.map(json_number),
        "validation": tested.validation.map(json_number),
        "baseline": tested.baseline.as_ref().map(baseline_json),
        "looks": tested.looks, "error": tested.error,
    })
}

/// The lines about a selection, from its JSON: so that a run and `tune best` say the same.
///
/// `trivial` is the value of the trivial answer on the validation split, where there is one.
pub fn selection_lines(selection: &Json, metric: &str, trivial: Option<f64>) -> Vec<String> {
    let repeats = selection["repeats"].as_u64().unwrap_or(0);
    let mut lines = Vec::new();
    let winner = &selection["winner"];
    match (winner["number"].as_u64(), mean_text(winner)) {
        (Some(number), Some(mean)) => {
            let values = winner["values"].as_array().map_or(0, Vec::len) as u64;
            lines.push(format!(
                "winner by repeats: trial {number}, {metric} {mean} (mean of {}, 95 % interval)",
                plural(values, "repeat")
            ));
        }
        (Some(_) | None, _) => {
            let candidates = selection["candidates"].as_array().map_or(0, Vec::len) as u64;
            lines.push(format!(
                "no winner by repeats: none of {} has enough of {repeats} with a value",
                plural(candidates, "candidate")
            ));
        }
    }
    lines.extend(seed_line(winner, trivial));
    lines.extend(naive_line(selection, metric));
    let missing = selection["missing"].as_u64().unwrap_or(0);
    if missing > 0 {
        lines.push(format!(
            "{} failed for good and count{} as missing",
            plural(missing, "repeat"),
            if missing == 1 { "s" } else { "" }
        ));
    }
    lines
}

/// That repeats with other seeds came to the very same value; not where it is the trivial answer's,
/// which a training can come to from any seed.
fn seed_line(winner: &Json, trivial: Option<f64>) -> Option<String> {
    let values = winner.get("values")?.as_array()?;
    let first = values.first()?;
    let same = values.len() > 1 && values.iter().all(|value| value == first);
    let collapsed = match (number_from_json(first), trivial) {
        (Some(value), Some(trivial)) => (value - trivial).abs() <= COLLAPSED * trivial.abs(),
        (None, _) | (_, None) => false,
    };
    (same && !collapsed).then(|| {
        format!(
            "warning: all {} of trial {} have exactly the same value: the training seems to ignore \
             its seed, and the interval says nothing",
            plural(values.len() as u64, "repeat"),
            winner["number"]
        )
    })
}

/// How near a value is to the trivial answer's that is the same but for rounding, as a share of it.
const COLLAPSED: f64 = 1e-6;

/// `0.4312 in 0.4100 to 0.4524`.
fn mean_text(candidate: &Json) -> Option<String> {
    let number = |key: &str| number_from_json(candidate.get(key)?).map(value);
    let (mean, low, high) = (number("mean")?, number("low")?, number("high")?);
    Some(format!("{mean}, {low} to {high}"))
}

fn naive_line(selection: &Json, metric: &str) -> Option<String> {
    let naive = selection.get("naive")?;
    let single = number_from_json(naive.get("value")?)?;
    let mut line = format!(
        "best single value: trial {}, {metric} {}",
        naive.get("number")?,
        value(single)
    );
    let mean = naive.get("mean").and_then(number_from_json);
    let optimism = naive.get("optimism").and_then(number_from_json);
    if let (Some(mean), Some(optimism)) = (mean, optimism) {
        line.push_str(&format!(
            "; its repeats have {}: optimistic by {}",
            value(mean),
            value(optimism)
        ));
    }
    Some(line)
}

/// The lines about the test split, from its JSON; `winner` is the trial that wins now.
pub fn tested_lines(tested: &Json, winner: Option<u64>) -> Vec<String> {
    let number = tested["number"].as_u64();
    let metric = tested["metric"].as_str().unwrap_or("value");
    let trial = number.map_or_else(String::new, |n| format!("trial {n}, "));
    let mut lines = Vec::new();
    match tested.get("value").and_then(number_from_json) {
        Some(test) => {
            let baseline = tested["baseline"].get("value").and_then(number_from_json);
            let baseline =
                baseline.map_or_else(String::new, |b| format!(", trivial answer {}", value(b)));
            lines.push(format!(
                "test split: {trial}{metric} {}{baseline}",
                value(test)
            ));
        }
        None => {
            let error = tested["error"].as_str().unwrap_or_default();
            let first = error.lines().next().unwrap_or_default();
            lines.push(format!("test split: {trial}no value: {first}"));
        }
    }
    let looks = tested["looks"].as_u64().unwrap_or(0);
    if looks > 1 {
        lines.push(format!(
            "warning: the test split has been used for {looks} trials; a value chosen among them \
             is optimistic"
        ));
    }
    if let (Some(tested), Some(winner)) = (number, winner.filter(|w| Some(*w) != number)) {
        lines.push(format!(
            "warning: the test split was used for trial {tested}; trial {winner} wins now and has \
             no test value"
        ));
    }
    lines
}

/// The lines at the end of a run.
pub(super) fn chosen_lines(
    chosen: &Chosen,
    metric: &str,
    best: Option<u64>,
    trivial: Option<f64>,
) -> Vec<String> {
    let mut lines = Vec::new();
    let mut winner = best;
    if let Some(selection) = &chosen.selection {
        winner = selection.winner().map(|w| w.number);
        let mut told = selection_lines(&selection_json(selection, 0), metric, trivial).into_iter();
        lines.extend(told.next());
        if let Some(params) = selection.winner().map(|w| &w.params) {
            lines.extend(param_lines(params, "  "));
        }
        lines.extend(told);
    }
    if let Some(test) = &chosen.test {
        lines.extend(tested_lines(&tested_json(test), winner));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_winner_whose_repeats_are_all_the_same_is_told_to_ignore_its_seed() {
        let beside = |values: &[f64], number: u64, trivial: Option<f64>| {
            let winner = json!({
                "number": number, "mean": 0.5, "low": 0.5, "high": 0.5, "values": values,
            });
            let lines = selection_lines(&json!({"repeats": 3, "winner": winner}), "loss", trivial);
            lines
                .into_iter()
                .find(|line| line.contains("ignore its seed"))
        };
        let told = |values: &[f64], number| beside(values, number, Some(0.4));
        assert!(beside(&[0.5, 0.5], 7, None).is_some());
        // Any seed may come to the trivial answer.
        assert_eq!(beside(&[0.5, 0.5], 7, Some(0.5 + 1e-9)), None);
        assert_eq!(
            told(&[0.5, 0.5, 0.5], 7).unwrap(),
            "warning: all 3 repeats of trial 7 have exactly the same value: the training seems to \
             ignore its seed, and the interval says nothing"
        );
        for other in [&[0.5, 0.5, 0.500_000_1][..], &[0.5], &[]] {
            assert_eq!(told(other, 7), None, "{other:?}");
        }
    }
}
