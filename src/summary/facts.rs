//! What follows from the material in figures: for the page, and for scripts.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::audit::{Audit, audit};
use crate::faults::{self, FaultCost, Hours, Lift};
use crate::{Kind, Material, figure, timeline, verdict};
use config::Baseline;
use messages::any_float;
use report::{Best, Selected, Tested};
use search::importance::{Effect, FEWEST, Ranked, ranked};
use search::outlook::{Outlook, outlook};
use search::study::noise::{Noise, noise};
use search::study::{Direction, FrozenTrial, Purpose, TrialState, pareto};
use store::{Counts, RepeatRecord};

/// What is known of a study, in figures.
#[derive(Serialize)]
pub struct Facts {
    /// Its name.
    pub study: String,
    /// How it stands, in words.
    pub state: String,
    /// Names of the objectives.
    pub metrics: Vec<String>,
    /// Their directions.
    pub directions: Vec<Direction>,
    /// Trials by state.
    pub counts: Counts,
    /// Trials that count towards a goal.
    pub finished: u64,
    /// The winner, or the best trial; none with several objectives.
    pub best: Option<Best>,
    /// The trivial answer.
    pub baseline: Option<Baseline>,
    /// By how much the best is better than the trivial answer, in the metric's units; negative where it is worse.
    #[serde(with = "any_float")]
    pub margin: Option<f64>,
    /// The seeds' noise.
    pub noise: Option<Noise>,
    /// Other trials that one training cannot tell from the best: their values lie within the noise.
    pub within_noise: Option<u64>,
    /// What came of the repeats.
    pub selection: Option<Selected>,
    /// What the test split says.
    pub test: Option<Tested>,
    /// What more trials would bring.
    pub outlook: Option<Outlook>,
    /// Where the time went.
    pub hours: Hours,
    /// The share of the time of a run in which its slots trained, 0 to 1.
    pub busy: Option<f64>,
    /// Faults by kind.
    pub faults: Vec<FaultCost>,
    /// Values under which faults are more frequent than elsewhere.
    pub lifts: Vec<Lift>,
    /// What each parameter matters for the first objective.
    pub importance: Vec<Ranked>,
    /// Parameters that show an effect and whose best value lies at an end of its range.
    pub edges: Vec<Edge>,
    /// Whether pruning was right, where that was looked at.
    pub audit: Option<Audit>,
    /// With several objectives, the trials that none dominates.
    pub front: Vec<Best>,
    /// The volume that the front dominates, above the worst value of each objective.
    pub hypervolume: Option<f64>,
    /// The page's first words.
    pub verdict: Vec<Sentence>,
    /// Charts that the page does not have, and why.
    pub left_out: Vec<LeftOut>,
}

/// A value at an end of its range.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Edge {
    /// The parameter.
    pub name: String,
    /// Its value in the best trial.
    pub value: f64,
    /// Whether it is the upper end.
    pub upper: bool,
}

/// A sentence of the verdict.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sentence {
    /// What it is about.
    pub about: About,
    /// The sentence, or a few.
    pub text: String,
}

/// What a sentence is about, in the order in which they are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, strum::Display)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// What won.
    #[strum(to_string = "What won")]
    Won,
    /// By how much it is better than the trivial answer.
    #[strum(to_string = "Over the trivial answer")]
    Margin,
    /// How much of that may be luck.
    #[strum(to_string = "Luck")]
    Luck,
    /// What the test split says.
    #[strum(to_string = "Test")]
    Test,
    /// What went wrong, and what it cost.
    #[strum(to_string = "What went wrong")]
    Wrong,
    /// Whether pruning was right.
    #[strum(to_string = "Pruning")]
    Pruning,
    /// What one would do next.
    #[strum(to_string = "What to do next")]
    Next,
    /// What more trials would bring.
    #[strum(to_string = "More trials")]
    More,
}

/// A chart that is not there.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LeftOut {
    /// Which.
    pub figure: Kind,
    /// Why.
    pub why: String,
}

/// The finite values of complete repeats, by trial.
fn repeated(repeats: &[RepeatRecord]) -> BTreeMap<u64, Vec<f64>> {
    let mut of: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for repeat in repeats {
        let counts = matches!(repeat.job.purpose, Purpose::Repeat(_));
        let value = repeat.value.filter(|value| value.is_finite());
        if counts && repeat.state == TrialState::Complete {
            of.entry(repeat.job.number).or_default().extend(value);
        }
    }
    of
}

/// The trials that count towards a goal, in order: the loss of each that may be the best.
fn losses(trials: &[FrozenTrial], direction: Direction) -> Vec<Option<f64>> {
    let counted = trials.iter().filter(|t| t.counts());
    let value = |t: &FrozenTrial| t.result(1)?.first().copied().filter(|v| v.is_finite());
    counted
        .map(|t| value(t).map(|v| direction.loss(v)))
        .collect()
}

impl Facts {
    /// What follows from the material.
    pub fn new(material: &Material) -> Facts {
        let m = material;
        let direction = m.study.direction();
        let scored = m.scored();
        let best = m.trials.iter().find(|t| Some(t.number) == m.winner);
        let value = best.and_then(FrozenTrial::only_value);
        let mean = m.repeated().map(|(_, estimate)| estimate.mean);
        let margin = mean.or(value).zip(m.baseline.as_ref());
        let noise = noise(repeated(&m.repeats));
        let importance = match scored.len() >= FEWEST {
            true => ranked(&m.trials, 0, direction),
            false => Vec::new(),
        };
        let front: Vec<&FrozenTrial> = match m.several() {
            true => pareto::front(&m.study.directions, &m.trials),
            false => Vec::new(),
        };
        let outlook = (!m.several()).then(|| outlook(&losses(&m.trials, direction)));
        let timeline = timeline::timeline(m);
        let mut facts = Facts {
            study: m.study.name.clone(),
            state: m.state.clone(),
            metrics: m.metrics.clone(),
            directions: m.study.directions.clone(),
            counts: m.study.counts,
            finished: m.finished(),
            best: best.map(|t| Best::new(t, None)),
            baseline: m.baseline.clone(),
            margin: margin.map(|(v, b)| direction.loss(b.value) - direction.loss(v)),
            within_noise: noise.zip(value).map(|(noise, value)| {
                let near = |v: f64| direction.loss(v) - direction.loss(value) <= noise.difference;
                let near = scored.iter().filter(|s| near(s.value)).count() as u64;
                near.saturating_sub(1)
            }),
            noise,
            selection: m.selection.clone(),
            test: m.test.clone(),
            outlook: outlook.flatten(),
            audit: audit(m),
            hours: faults::hours(m),
            busy: (!timeline.spans.is_empty()).then(|| timeline.busy()),
            faults: faults::by_kind(m),
            lifts: faults::lifts(m),
            edges: best.map_or_else(Vec::new, |best| edges(best, &importance)),
            importance,
            hypervolume: m.several().then(|| hypervolume(m, &front)).flatten(),
            front: front.into_iter().map(|t| Best::new(t, None)).collect(),
            verdict: Vec::new(),
            left_out: Vec::new(),
        };
        facts.verdict = verdict::verdict(m, &facts);
        facts.left_out = Kind::ALL
            .iter()
            .filter_map(|kind| {
                let why = figure(*kind, m, &facts, &[]).err()?;
                Some(LeftOut { figure: *kind, why })
            })
            .collect();
        facts
    }

    /// The parameters of which a reader wants to see the most, the most important first.
    pub(crate) fn leading_parameters(&self, most: usize) -> Vec<&str> {
        let told = self
            .importance
            .iter()
            .filter(|p| p.effect != Effect::Constant);
        told.take(most).map(|p| p.name.as_str()).collect()
    }

    /// Parameters that the trials say nothing about, though they would if it were much.
    pub(crate) fn dead(&self) -> Vec<&str> {
        let dead = self.importance.iter().filter(|p| match p.effect {
            Effect::Nothing { .. } => true,
            Effect::Constant | Effect::TooFew | Effect::Shows { .. } => false,
        });
        dead.map(|p| p.name.as_str()).collect()
    }
}

/// Part of a range that is its end.
const END: f64 = 0.02;

fn edges(best: &FrozenTrial, importance: &[Ranked]) -> Vec<Edge> {
    let shown = importance.iter().filter(|p| match p.effect {
        Effect::Shows { .. } => true,
        Effect::Constant | Effect::TooFew | Effect::Nothing { .. } => false,
    });
    let edge = |p: &Ranked| {
        let value = best.params.get(&p.name)?;
        let domain = best.distributions.get(&p.name)?;
        let place = domain.to_unit(domain.to_internal(value)?);
        let value = value.as_f64()?;
        (!domain.single() && !(END..=1.0 - END).contains(&place)).then(|| Edge {
            name: p.name.clone(),
            value,
            upper: place > 0.5,
        })
    };
    shown.filter_map(edge).collect()
}

/// The worst losses among complete trials: what a front is measured from.
pub(crate) fn nadir(material: &Material) -> Option<Vec<f64>> {
    let directions = &material.study.directions;
    let complete = material.trials.iter();
    let complete = complete.filter(|t| t.state == TrialState::Complete);
    let losses = complete.filter_map(|t| t.result(directions.len()));
    let losses = losses.map(|values| pareto::losses(directions, values));
    losses
        .filter(|losses| losses.iter().all(|x| x.is_finite()))
        .reduce(|a, b| a.iter().zip(&b).map(|(x, y)| x.max(*y)).collect())
}

fn hypervolume(material: &Material, front: &[&FrozenTrial]) -> Option<f64> {
    let directions = &material.study.directions;
    let points = front.iter().map(|t| pareto::losses(directions, &t.values));
    Some(pareto::hypervolume(
        &points.collect::<Vec<_>>(),
        &nadir(material)?,
    ))
}
