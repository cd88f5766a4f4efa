//! `tune best`: the best trial beside the baseline; with several objectives the front.

use serde::Serialize;
use serde_json::Value as Json;

use super::format;
use super::importance::{self, Importances};
use super::objectives::Objectives;
use super::winner::Winner;
use super::{Answer, baseline, baseline_text, beats, choose, leading, told, warning};
use config::Baseline;
use messages::exit::Failure;
use report::Best;
use report::format::{plural, table, value as number};
use search::study::FrozenTrial;
use store::{Store, StudySummary};

/// What is best in a study.
#[derive(Serialize)]
#[serde(untagged)]
pub enum BestTrials {
    /// Of one objective.
    One(Box<BestTrial>),
    /// Of several objectives.
    Front(Box<Front>),
}

/// The winner by repeats or else the best trial, beside the baseline.
#[derive(Serialize)]
pub struct BestTrial {
    study: String,
    #[serde(flatten)]
    objectives: Objectives,
    best: Best,
    baseline: Option<Baseline>,
    beats_baseline: Option<bool>,
    selection: Option<Json>,
    test: Option<Json>,
    /// What each parameter matters, where enough trials are complete.
    importances: Option<Importances>,
    /// Trials that count towards the goal.
    #[serde(skip)]
    counted: u64,
    #[serde(skip)]
    summary: StudySummary,
}

/// The trials that none dominates, the best by the first objective first.
#[derive(Serialize)]
pub struct Front {
    study: String,
    #[serde(flatten)]
    objectives: Objectives,
    #[serde(rename = "front")]
    trials: Vec<Best>,
}

/// What is best in a study.
///
/// # Errors
/// No such study, no complete trial (2); reading failed (7).
pub fn best(store: &Store, name: Option<&str>) -> Result<BestTrials, Failure> {
    let study = choose(store, name)?;
    if study.directions.len() > 1 {
        let front = leading(store, &study, &store.outlines(study.study_id)?)?;
        if front.is_empty() {
            return Err(none_yet(&study));
        }
        return Ok(BestTrials::Front(Box::new(Front {
            study: study.name.clone(),
            objectives: Objectives::of(&study),
            trials: front.iter().map(told).collect(),
        })));
    }
    let (trial, counted) = winning(store, &study)?;
    let best = told(&trial);
    let baseline = baseline(&study);
    let beaten = baseline.as_ref().map(|b| beats(&study, &best, b));
    Ok(BestTrials::One(Box::new(BestTrial {
        study: study.name.clone(),
        objectives: Objectives::of(&study),
        best,
        baseline,
        beats_baseline: beaten,
        selection: study.user_attrs.get("selection").cloned(),
        test: study.user_attrs.get("test").cloned(),
        importances: importance::importances(store, &study)?,
        counted,
        summary: study,
    })))
}

/// The winner by repeats or else the best trial, and how many trials count towards the goal.
pub(super) fn winning(store: &Store, study: &StudySummary) -> Result<(FrozenTrial, u64), Failure> {
    let trials = store.outlines(study.study_id)?;
    let counted = trials.iter().filter(|t| t.counts()).count() as u64;
    if let Some(number) = Winner::of(study).number()
        && let Some(winner) = store.trial(study.study_id, number)?
        && !winner.struck()
    {
        return Ok((winner, counted));
    }
    let best = leading(store, study, &trials)?.into_iter().next();
    Ok((best.ok_or_else(|| none_yet(study))?, counted))
}

fn none_yet(study: &StudySummary) -> Failure {
    let counts = plural(study.counts.total(), "trial");
    Failure::input(format!(
        "study {:?} has no complete trial yet, of {counts}; tune status {} says more",
        study.name,
        report::shell_word(&study.name)
    ))
}

impl Answer for BestTrials {
    fn text(&self) -> String {
        match self {
            BestTrials::One(best) => best.text(),
            BestTrials::Front(front) => front.text(),
        }
    }
}

impl BestTrial {
    fn text(&self) -> String {
        let best = &self.best;
        let value = best.values.first().map_or_else(String::new, |v| number(*v));
        let mut facts = vec![
            (
                "study",
                format!("{}: {}", self.study, self.objectives.text()),
            ),
            ("trial", best.number.to_string()),
            (self.objectives.metric(), value),
        ];
        let baseline = self.baseline.as_ref();
        facts.extend(baseline.map(|b| ("baseline", baseline_text(b))));
        if best.adopted_params.is_some() {
            let what = "with these parameters, which its study cannot hold";
            facts.push(("adopted", what.to_owned()));
        }
        let matter = self.importances.as_ref().and_then(Importances::text);
        facts.extend(matter.map(|text| ("matters most", text)));
        let params = best.trained_with().iter();
        facts.extend(params.map(|(name, value)| (name.as_str(), format::value(value))));
        let winner = Winner::of(&self.summary);
        let lines = match winner.number().filter(|n| *n != best.number) {
            Some(struck) => vec![format!(
                "trial {struck}, which had won by its repeats, is struck; a run with --repeats chooses again"
            )],
            None => winner.lines(&self.summary, best.number, self.counted),
        };
        let lines = lines.iter().map(|line| format::printable(line) + "\n");
        format::facts(&facts)
            + &lines.collect::<String>()
            + &warning(&self.summary, Some(best), baseline)
    }
}

impl Front {
    /// A row a trial, a column an objective and a parameter.
    fn text(&self) -> String {
        let params = self.trials.iter().map(Best::trained_with);
        let mut columns: Vec<&String> = params.flat_map(|p| p.keys()).collect();
        columns.sort();
        columns.dedup();
        let mut heading = vec!["trial".to_owned()];
        heading.extend(self.objectives.names().to_vec());
        heading.extend(columns.iter().map(|name| (*name).clone()));
        let mut rows = vec![heading];
        for best in &self.trials {
            let params = best.trained_with();
            let mut row = vec![best.number.to_string()];
            row.extend(best.values.iter().map(|v| number(*v)));
            let cell = |name: &&String| params.get(*name).map_or_else(String::new, format::value);
            row.extend(columns.iter().map(cell));
            rows.push(row);
        }
        let trials = plural(self.trials.len() as u64, "trial");
        let facts = format::facts(&[
            ("study", self.study.clone()),
            ("objectives", self.objectives.text()),
            (
                "front",
                format!("{trials} that none beats in every objective"),
            ),
        ]);
        format!("{facts}\n{}", table(&rows))
    }
}
