//! Which parameters matter in a study: by name beside its best trial, and all of them by `tune importance`.

use std::collections::BTreeMap;

use serde::Serialize;

use super::format::printable;
use super::objectives::Objectives;
use super::{Answer, choose};
use messages::exit::Failure;
use report::format::plural;
use search::importance::{Effect, FEWEST, effects, shares};
use search::study::{Direction, FrozenTrial, TrialState};
use store::{Store, StudySummary};

/// Seed of the permutations that an effect is compared with: the same study gives the same answer.
const SEED: u64 = 0;

/// What each parameter of a study matters.
#[derive(Debug, Serialize)]
pub struct Importance {
    study: String,
    #[serde(flatten)]
    objectives: Objectives,
    /// Complete trials.
    complete: u64,
    /// One for each objective, in their order.
    importance: Vec<OfObjective>,
}

/// What each parameter matters for one objective, the most important first.
#[derive(Debug, Serialize)]
struct OfObjective {
    metric: String,
    direction: Direction,
    parameters: Vec<OfParameter>,
}

/// What one parameter matters.
#[derive(Debug, Serialize)]
struct OfParameter {
    name: String,
    /// Its part in what distinguishes the best tenth of the trials, in 0 to 1: PED-ANOVA, as in Optuna 5.
    importance: f64,
    #[serde(flatten)]
    effect: Effect,
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
    let trials = store.overviews(study.study_id, &[])?;
    let objectives = Objectives::of(&study);
    let metrics = objectives.names().to_vec().into_iter();
    let of = |(at, (metric, direction)): (usize, (String, &Direction))| OfObjective {
        metric,
        direction: *direction,
        parameters: parameters(&of_objective(&trials, at), *direction),
    };
    let importance = metrics.zip(&study.directions).enumerate().map(of).collect();
    Ok(Importance {
        importance,
        objectives,
        complete: study.counts.complete,
        study: study.name,
    })
}

/// The complete trials with their value of one objective alone, in the order in which they were made.
fn of_objective(trials: &[FrozenTrial], at: usize) -> Vec<FrozenTrial> {
    let complete = trials.iter().filter(|t| t.state == TrialState::Complete);
    let of = |trial: &FrozenTrial| {
        let value = *trial.values.get(at)?;
        let values = vec![value];
        (!value.is_nan()).then(|| FrozenTrial {
            values,
            ..trial.clone()
        })
    };
    complete.filter_map(of).collect()
}

fn parameters(trials: &[FrozenTrial], direction: Direction) -> Vec<OfParameter> {
    let scored: Vec<_> = trials.iter().map(|t| (&t.params, t.values[0])).collect();
    let effects = effects(&scored, SEED);
    let of = |(name, importance): (String, f64)| {
        let effect = effects.get(&name).copied().unwrap_or(Effect::TooFew);
        OfParameter {
            name,
            importance,
            effect,
        }
    };
    let mut found: Vec<OfParameter> = shares(trials, direction).into_iter().map(of).collect();
    found.sort_by(|a, b| b.importance.total_cmp(&a.importance));
    found
}

impl Answer for Importance {
    fn text(&self) -> String {
        let complete = plural(self.complete, "complete trial");
        let mut text = format!("{}: {complete}\n", printable(&self.study));
        let parameters = || self.importance.iter().flat_map(|of| &of.parameters);
        let wide = |p: &OfParameter| printable(&p.name).chars().count();
        let width = parameters().map(wide).max().unwrap_or(0);
        for of in &self.importance {
            text += &format!("\n{} ({}):\n", printable(&of.metric), of.direction);
            for parameter in &of.parameters {
                text += &parameter.line(width);
            }
        }
        text + "\nThe share is the part of each parameter in what distinguishes the best tenth of the trials (PED-ANOVA); \
                an effect is one \
                that chance does not explain, in trials made at about the same time.\n"
    }
}

/// Characters of the longest bar.
const BAR: f64 = 20.0;

impl OfParameter {
    fn line(&self, width: usize) -> String {
        let bar = "#".repeat((BAR * self.importance).round() as usize);
        let effect = match self.effect {
            Effect::Constant => "one value in all trials".to_owned(),
            Effect::TooFew => format!("fewer than {FEWEST} trials have it"),
            Effect::Nothing { p } => format!("no effect seen (p = {p:.2})"),
            Effect::Shows { p, .. } if p < 0.001 => "shows an effect (p < 0.001)".to_owned(),
            Effect::Shows { p, .. } => format!("shows an effect (p = {p:.3})"),
        };
        let share = format!("{:.0} %", 100.0 * self.importance);
        format!(
            "  {:width$}  {share:>5}  {bar:<20}  {effect}\n",
            printable(&self.name)
        )
    }
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
) -> Result<Option<BTreeMap<String, f64>>, Failure> {
    let [direction] = study.directions[..] else {
        return Ok(None);
    };
    if study.counts.complete < FEWEST as u64 {
        return Ok(None);
    }
    let trials = store.overviews(study.study_id, &[])?;
    Ok(Some(shares(&trials, direction)))
}

/// The most important ones, for people: `optim.lr 62 %, model.dropout 21 %`.
pub(super) fn text(importances: &BTreeMap<String, f64>) -> Option<String> {
    let mut ranked: Vec<(&String, f64)> = importances.iter().map(|(n, s)| (n, *s)).collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    let named = ranked.into_iter().filter(|(_, share)| *share >= LEAST);
    let named = named.take(NAMED);
    let named: Vec<String> = named
        .map(|(name, share)| format!("{} {:.0} %", printable(name), 100.0 * share))
        .collect();
    (!named.is_empty()).then(|| named.join(", "))
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
        assert_eq!(text(&all).as_deref(), Some(expected));
        assert_eq!(text(&[("a".to_owned(), 0.0)].into()), None);
    }
}
