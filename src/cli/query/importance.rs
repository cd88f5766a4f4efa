//! Which parameters matter in a study: by name beside its best trial, and all of them by `tune importance`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::format::printable;
use super::objectives::Objectives;
use super::{Answer, choose};
use messages::exit::Failure;
use report::format::plural;
use search::importance::{Effect, FEWEST, Ranked, ranked, shares, showing};
use search::study::{Direction, FrozenTrial, TrialState};
use store::{STRUCK_WHY, Store, StudySummary};

/// What each parameter of a study matters.
#[derive(Debug, Serialize)]
pub struct Importance {
    study: String,
    #[serde(flatten)]
    objectives: Objectives,
    /// Complete trials, without those whose results were struck.
    complete: u64,
    /// One for each objective, in their order.
    importance: Vec<OfObjective>,
}

/// What each parameter matters for the only objective, beside the best trial.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct Importances {
    /// By name, of all 1.
    shares: BTreeMap<String, f64>,
    /// Those that show an effect.
    #[serde(skip)]
    showing: BTreeSet<String>,
}

/// What each parameter matters for one objective, the most important first.
#[derive(Debug, Serialize)]
struct OfObjective {
    metric: String,
    direction: Direction,
    parameters: Vec<Ranked>,
}

/// What the parameters of a study matter.
///
/// # Errors
/// No such study, or too few complete trials (2); reading failed (7).
pub fn importance(store: &Store, name: Option<&str>) -> Result<Importance, Failure> {
    let study = choose(store, name)?;
    if study.counts.complete < FEWEST as u64 {
        return Err(Failure::input(format!(
            "study {:?} has {}, and parameters are compared from {FEWEST} on",
            study.name,
            plural(study.counts.complete, "complete trial")
        )));
    }
    let trials = valid_trials(store, &study)?;
    let objectives = Objectives::of(&study);
    let metrics = objectives.names().to_vec().into_iter();
    let of = |(at, (metric, direction)): (usize, (String, &Direction))| OfObjective {
        metric,
        direction: *direction,
        parameters: ranked(&trials, at, *direction),
    };
    let importance = metrics.zip(&study.directions).enumerate().map(of).collect();
    Ok(Importance {
        importance,
        objectives,
        complete: trials.len() as u64,
        study: study.name,
    })
}

impl Answer for Importance {
    fn text(&self) -> String {
        let complete = plural(self.complete, "complete trial");
        let mut text = format!("{}: {complete}\n", printable(&self.study));
        let parameters = || self.importance.iter().flat_map(|of| &of.parameters);
        let wide = |p: &Ranked| printable(&p.name).chars().count();
        let width = parameters().map(wide).max().unwrap_or(0);
        for of in &self.importance {
            text += &format!("\n{} ({}):\n", printable(&of.metric), of.direction);
            for parameter in &of.parameters {
                text += &line(parameter, width);
            }
        }
        text + "\nThe share is the part of each parameter in what distinguishes the best tenth of the trials (PED-ANOVA); \
                an effect is one \
                that chance does not explain, in trials made at about the same time.\n"
    }
}

/// Characters of the longest bar.
const BAR: f64 = 20.0;

fn line(parameter: &Ranked, width: usize) -> String {
    let share = parameter.importance;
    let bar = "#".repeat((BAR * share).round() as usize);
    let effect = match parameter.effect {
        Effect::Constant => "one value in all trials".to_owned(),
        Effect::TooFew => format!("fewer than {FEWEST} trials have it"),
        Effect::Nothing { p } => format!("no effect seen (p = {p:.2})"),
        Effect::Shows { p, .. } if p < 0.001 => "shows an effect (p < 0.001)".to_owned(),
        Effect::Shows { p, .. } => format!("shows an effect (p = {p:.3})"),
    };
    let share = format!("{:.0} %", 100.0 * share);
    let name = printable(&parameter.name);
    format!("  {name:width$}  {share:>5}  {bar:<20}  {effect}\n")
}

/// So many parameters are named to people.
const NAMED: usize = 5;

/// Less than this is not worth a word.
const LEAST: f64 = 0.01;

/// The share of each parameter in what makes a trial one of the best tenth; `None` with several
/// objectives, and where too few trials are complete.
pub(super) fn importances(
    store: &Store,
    study: &StudySummary,
) -> Result<Option<Importances>, Failure> {
    let [direction] = study.directions[..] else {
        return Ok(None);
    };
    if study.counts.complete < FEWEST as u64 {
        return Ok(None);
    }
    let trials = valid_trials(store, study)?;
    Ok(Some(Importances {
        shares: shares(&trials, direction),
        showing: showing(&trials),
    }))
}

/// The complete trials whose results nobody has struck.
fn valid_trials(store: &Store, study: &StudySummary) -> Result<Vec<FrozenTrial>, Failure> {
    let mut trials = store.overviews(study.study_id, Some(TrialState::Complete), &[STRUCK_WHY])?;
    trials.retain(|t| !t.user_attrs.contains_key(STRUCK_WHY));
    Ok(trials)
}

impl Importances {
    /// The most important ones of those that show an effect, for people: `optim.lr 62 %, model.dropout 21 %`.
    pub(super) fn text(&self) -> Option<String> {
        let shown = self
            .shares
            .iter()
            .filter(|(n, _)| self.showing.contains(*n));
        let mut ranked: Vec<(&String, f64)> = shown.map(|(n, s)| (n, *s)).collect();
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
        let named = ranked.into_iter().filter(|(_, share)| *share >= LEAST);
        let named = named.take(NAMED);
        let named: Vec<String> = named
            .map(|(name, share)| format!("{} {:.0} %", printable(name), 100.0 * share))
            .collect();
        (!named.is_empty()).then(|| named.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_five_parameters_that_matter_most_are_named_with_their_shares() {
        let shares = [0.05, 0.4, 0.001, 0.2, 0.25, 0.06, 0.039];
        let named = |(i, share): (usize, &f64)| (format!("p{i}"), *share);
        let all = shares.iter().enumerate().map(named).collect();
        let expected = "p1 40 %, p4 25 %, p3 20 %, p5 6 %, p0 5 %";
        let of = |shares, showing| Importances { shares, showing };
        let names: BTreeSet<String> = (0..6).map(|i| format!("p{i}")).collect();
        assert_eq!(of(all, names.clone()).text().as_deref(), Some(expected));
        assert_eq!(of([("p1".to_owned(), 0.0)].into(), names).text(), None);
        assert_eq!(
            of([("p1".to_owned(), 0.5)].into(), BTreeSet::new()).text(),
            None
        );
    }
}
