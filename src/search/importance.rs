//! Which parameters the values depend on, and which show no effect at all.
//!
//! The measure is the correlation ratio of the values' ranks (the statistic of Kruskal and Wallis,
//! 1952): the share of their variation that lies between groups of trials with similar values of
//! one parameter. It sees effects of any shape, but of one parameter alone: one that matters only
//! together with another shows nothing. By chance, too, the share is above nothing, and the more so
//! the fewer the trials, so it is compared with what permuted values give (Good, "Permutation,
//! Parametric and Bootstrap Tests of Hypotheses", 2005; for importances Altmann et al., 2010); dead
//! parameters cost few permutations (Besag and Clifford, 1991). In one of twenty studies a parameter may be said to
//! matter by mistake (Bonferroni's correction).
//!
//! A sampler that learns makes better and better trials and meanwhile settles on values of dead
//! parameters, too; over the whole study the two go together. So ranks are taken, and permuted,
//! within blocks of consecutive trials only. Within a block, too, trials near the best have what they have of dead parameters in
//! common, beside others that explore. So the strongest parameter is found first, and the others are asked what they
//! explain beside it, and so on (forward selection, with an additive model of those that were found, fitted by backfitting:
//! Hastie and Tibshirani, 1986). [`shares`] is Optuna's PED-ANOVA, which measures how the
//! best trials' values are distributed: an order of the parameters for people to look at. It has no
//! null to compare with, and under a sampler that learns it says much about the sampler.

mod ped_anova;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::space::{Params, Value};
use crate::study::{self, Direction, FrozenTrial, TrialState};

pub use ped_anova::shares;

/// Fewer trials than this say nothing.
pub const FEWEST: usize = 20;

/// Of more trials, so many are taken, evenly spread.
const MOST: usize = 5000;

/// The same where a look has to be quick.
const FEW: usize = 500;

/// Trials in a block, about.
const BLOCK: usize = 30;

/// Most groups that a number's values are put in.
const GROUPS: usize = 6;

/// Fewest groups that a number's values are put in: a best value in the middle of a range is not seen by two.
const FEWEST_GROUPS: usize = 3;

/// About how many values of a number are in a group in which its effect is tested, and the most such groups.
const TESTED: (usize, usize) = (12, GROUPS);

/// The same of one that was found: what it explains is to be told from what others have in common with it.
const EXPLAINING: (usize, usize) = (6, 24);

/// Permutations that beat the real values before a parameter is given up as dead.
const BEATEN: usize = 20;

/// How often a parameter of a study is said to matter by mistake.
const MISTAKES: f64 = 0.05;

/// Rounds in which the parameters that were found share what they explain among them.
const ROUNDS: usize = 20;

/// What the trials say about a parameter.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
#[serde(tag = "effect", rename_all = "snake_case")]
pub enum Effect {
    /// It had one value in all trials.
    Constant,
    /// Fewer than [`FEWEST`] trials with a value.
    #[serde(rename = "too_few_trials")]
    TooFew,
    /// The values show no dependence on it.
    #[serde(rename = "none_seen")]
    Nothing {
        /// How often chance alone does as well, 0 to 1.
        p: f64,
    },
    /// The values depend on it.
    Shows {
        /// The share of the ranks' variation that it explains beyond chance, 0 to 1.
        share: f64,
        /// How often chance alone does as well, 0 to 1.
        p: f64,
    },
}

/// What one parameter matters.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Ranked {
    /// Its name.
    pub name: String,
    /// Its part in what distinguishes the best tenth of the trials, in 0 to 1: PED-ANOVA, as in Optuna 5.
    pub importance: f64,
    /// What the trials say about it by a test.
    #[serde(flatten)]
    pub effect: Effect,
}

/// What each parameter matters for one objective, by the complete trials: those that show an effect first, the most important
/// before the others. The same trials give the same answer.
pub fn ranked(trials: &[FrozenTrial], objective: usize, direction: Direction) -> Vec<Ranked> {
    let trials = of_objective(trials, objective);
    let scored: Vec<_> = trials.iter().map(|t| (&t.params, t.values[0])).collect();
    let effects = effects(&scored, 0);
    let of = |(name, importance): (String, f64)| {
        let effect = effects.get(&name).copied().unwrap_or(Effect::TooFew);
        Ranked {
            name,
            importance,
            effect,
        }
    };
    let mut found: Vec<Ranked> = shares(&trials, direction).into_iter().map(of).collect();
    let key = |r: &Ranked| (matches!(r.effect, Effect::Shows { .. }), r.importance);
    found.sort_by(|a, b| {
        let ((shows_a, a), (shows_b, b)) = (key(a), key(b));
        shows_b.cmp(&shows_a).then(b.total_cmp(&a))
    });
    found
}

/// The complete trials with their value of one objective alone, in the order in which they were made.
fn of_objective(trials: &[FrozenTrial], objective: usize) -> Vec<FrozenTrial> {
    let complete = trials.iter().filter(|t| t.state == TrialState::Complete);
    let of = |trial: &FrozenTrial| {
        let value = *trial.values.get(objective)?;
        (!value.is_nan()).then(|| FrozenTrial {
            values: vec![value],
            distributions: trial.distributions.clone(),
            ..FrozenTrial::new(trial.number, trial.state, trial.params.clone())
        })
    };
    complete.filter_map(of).collect()
}

/// The effect of each parameter on the values; `trials` in the order in which they were made,
/// values without NaN. The permutations are a function of `seed`.
pub fn effects(trials: &[(&Params, f64)], seed: u64) -> BTreeMap<String, Effect> {
    let names: BTreeSet<&String> = trials.iter().flat_map(|(p, _)| p.keys()).collect();
    // The smallest p that counts must lie within reach.
    let permutations = (40 * names.len()).max(2000) - 1;
    selected(&thinned(trials, MOST), names, permutations, seed)
}

/// The parameters with an effect on the complete trials' values of the first objective, by a look at few of the trials.
pub fn showing(trials: &[FrozenTrial]) -> BTreeSet<String> {
    let trials = of_objective(trials, 0);
    let scored: Vec<_> = trials.iter().map(|t| (&t.params, t.values[0])).collect();
    let names: BTreeSet<&String> = trials.iter().flat_map(|t| t.params.keys()).collect();
    let permutations = 20 * names.len();
    let effects = selected(&thinned(&scored, FEW), names, permutations, 0).into_iter();
    let shows = effects.filter(|(_, effect)| matches!(effect, Effect::Shows { .. }));
    shows.map(|(name, _)| name).collect()
}

/// The effect of each parameter, the strongest found first.
fn selected(
    trials: &[(&Params, f64)],
    names: BTreeSet<&String>,
    permutations: usize,
    seed: u64,
) -> BTreeMap<String, Effect> {
    let mut effects = BTreeMap::new();
    let mut left = Vec::new();
    for (index, name) in names.into_iter().enumerate() {
        let column = Column::new(trials, name, TESTED);
        match column.untestable() {
            Some(effect) => {
                effects.insert(name.clone(), effect);
            }
            None => left.push((name, column, study::rng(seed, index as u64, "importance"))),
        }
    }
    let values: Vec<f64> = trials.iter().map(|t| t.1).collect();
    let values = centred(middle_ranks(&values));
    let whole = squares(&values);
    let (mut residuals, mut found) = (values.clone(), Vec::new());
    loop {
        let tests = left.len() as f64;
        let of = |(_, column, _): &(_, Column, _)| column.share(&column.ranks(&residuals));
        let shares: Vec<f64> = left.iter().map(of).collect();
        let mut order: Vec<usize> = (0..left.len()).collect();
        order.sort_by(|&a, &b| shares[b].total_cmp(&shares[a]));
        // What few trials have explains much of theirs by chance, too, so that the next one may be the first that counts.
        let strongest = order.into_iter().find_map(|at| {
            let (name, column, rng) = &mut left[at];
            let p = column.test(&column.ranks(&residuals), permutations, rng);
            effects.insert((*name).clone(), Effect::Nothing { p });
            (p <= MISTAKES / tests).then_some((at, p))
        });
        let Some((at, p)) = strongest else {
            return effects;
        };
        let (name, column, _) = left.swap_remove(at);
        let of_its: f64 = column.rows.iter().map(|&row| residuals[row].powi(2)).sum();
        let share = shares[at] * of_its / whole;
        effects.insert(name.clone(), Effect::Shows { share, p });
        found.push(Column::new(trials, name, EXPLAINING));
        residuals = beside(&values, &found);
    }
}

fn squares(values: &[f64]) -> f64 {
    values.iter().map(|v| v * v).sum()
}

/// Ranks less their mean.
fn centred(mut ranks: Vec<f64>) -> Vec<f64> {
    let mean = ranks.len() as f64 / 2.0 + 0.5;
    ranks.iter_mut().for_each(|rank| *rank -= mean);
    ranks
}

/// What is left of the values of all trials beside what parameters explain together, each by the means of its groups.
fn beside(values: &[f64], found: &[Column]) -> Vec<f64> {
    let mut means: Vec<Vec<f64>> = found.iter().map(|c| vec![0.0; c.sizes.len()]).collect();
    let mut rest = values.to_vec();
    for (at, column) in (0..ROUNDS).flat_map(|_| found.iter().enumerate()) {
        let mut sums = vec![0.0; column.sizes.len()];
        for (&row, &group) in column.rows.iter().zip(&column.groups) {
            rest[row] += means[at][group];
            sums[group] += rest[row];
        }
        means[at] = sums.iter().zip(&column.sizes).map(|(s, n)| s / n).collect();
        for (&row, &group) in column.rows.iter().zip(&column.groups) {
            rest[row] -= means[at][group];
        }
    }
    rest
}

/// At most so many trials.
fn thinned<'a>(trials: &[(&'a Params, f64)], most: usize) -> Vec<(&'a Params, f64)> {
    let n = trials.len();
    let kept = n.min(most);
    (0..kept).map(|i| trials[i * n / kept]).collect()
}

/// One parameter, over the trials that have it.
struct Column {
    /// Which of the trials these are.
    rows: Vec<usize>,
    /// Group of each of them, from 0.
    groups: Vec<usize>,
    /// Trials in each group.
    sizes: Vec<f64>,
    /// Where each block of them ends; one lies after the other.
    ends: Vec<usize>,
}

impl Column {
    /// In groups of about so many values, and so many groups at most.
    fn new(trials: &[(&Params, f64)], name: &str, (size, most): (usize, usize)) -> Column {
        let all = trials.iter().enumerate();
        let (rows, values): (Vec<usize>, Vec<&Value>) = all
            .filter_map(|(row, (params, _))| Some((row, params.get(name)?)))
            .unzip();
        let groups = grouped_by(&values, size, FEWEST_GROUPS..=most);
        let mut sizes = vec![0.0; groups.iter().max().map_or(0, |g| g + 1)];
        for &group in &groups {
            sizes[group] += 1.0;
        }
        let n = rows.len();
        let blocks = (n / BLOCK).clamp(1, 20);
        Column {
            rows,
            groups,
            sizes,
            ends: (1..=blocks).map(|b| b * n / blocks).collect(),
        }
    }

    /// The ranks of its trials' values, with mean 0 in each block.
    fn ranks(&self, values: &[f64]) -> Vec<f64> {
        let values: Vec<f64> = self.rows.iter().map(|&row| values[row]).collect();
        let mut ranks = Vec::with_capacity(values.len());
        for &end in &self.ends {
            let block = middle_ranks(&values[ranks.len()..end]);
            ranks.extend(centred(block));
        }
        ranks
    }

    fn untestable(&self) -> Option<Effect> {
        if self.sizes.len() < 2 {
            Some(Effect::Constant)
        } else if self.rows.len() < FEWEST {
            Some(Effect::TooFew)
        } else {
            None
        }
    }

    /// The share of the variation that it explains beyond what so many groups do by chance.
    fn share(&self, ranks: &[f64]) -> f64 {
        let total = squares(ranks);
        if total == 0.0 {
            return 0.0;
        }
        let expected = (self.sizes.len() - 1) as f64 / (ranks.len() - 1) as f64;
        let share = (self.between(ranks) / total - expected) / (1.0 - expected).max(1e-12);
        share.clamp(0.0, 1.0)
    }

    /// The p-value of what it explains.
    fn test(&self, real: &[f64], permutations: usize, rng: &mut ChaCha8Rng) -> f64 {
        let (total, mut ranks) = (squares(real), real.to_vec());
        if total == 0.0 {
            return 1.0;
        }
        let explained = self.between(real);
        let (mut beaten, mut done) = (0, 0);
        while done < permutations && beaten < BEATEN {
            self.permute(&mut ranks, rng);
            // Equal up to rounding counts as beaten.
            beaten += usize::from(self.between(&ranks) >= explained - 1e-12 * total);
            done += 1;
        }
        if beaten >= BEATEN {
            beaten as f64 / done as f64
        } else {
            (beaten + 1) as f64 / (done + 1) as f64
        }
    }

    /// The variation between groups.
    fn between(&self, ranks: &[f64]) -> f64 {
        let mut sums = vec![0.0; self.sizes.len()];
        for (rank, &group) in ranks.iter().zip(&self.groups) {
            sums[group] += rank;
        }
        sums.iter().zip(&self.sizes).map(|(s, n)| s * s / n).sum()
    }

    fn permute(&self, ranks: &mut [f64], rng: &mut ChaCha8Rng) {
        let mut start = 0;
        for &end in &self.ends {
            let block = &mut ranks[start..end];
            for last in (1..block.len()).rev() {
                block.swap(last, rng.random_range(0..=last));
            }
            start = end;
        }
    }
}

/// Groups of similar values: each value by itself where there are few or where they are no
/// numbers, else groups of about equal size, `fewest` at least.
pub fn grouped(values: &[&Value], fewest: usize) -> Vec<usize> {
    grouped_by(values, TESTED.0, fewest..=TESTED.1)
}

/// Of so many values each where there are enough for as many groups as are allowed.
fn grouped_by(values: &[&Value], size: usize, allowed: RangeInclusive<usize>) -> Vec<usize> {
    let numbers: Option<Vec<f64>> = values.iter().map(|v| v.as_f64()).collect();
    let Some(numbers) = numbers else {
        let mut seen: Vec<&Value> = Vec::new();
        let mut groups = Vec::with_capacity(values.len());
        for &value in values {
            let known = seen.iter().position(|s| *s == value);
            groups.push(known.unwrap_or(seen.len()));
            if known.is_none() {
                seen.push(value);
            }
        }
        return groups;
    };
    let mut distinct = numbers.clone();
    distinct.sort_by(f64::total_cmp);
    distinct.dedup();
    if distinct.len() <= *allowed.end() {
        let find = |x: &f64| distinct.partition_point(|d| d < x);
        return numbers.iter().map(find).collect();
    }
    let n = numbers.len();
    let wanted = (n / size).clamp(*allowed.start(), *allowed.end());
    let raw: Vec<usize> = middle_ranks(&numbers)
        .into_iter()
        .map(|rank| (((rank - 0.5) * wanted as f64 / n as f64) as usize).min(wanted - 1))
        .collect();
    // Ties may leave a group empty.
    let used: BTreeSet<usize> = raw.iter().copied().collect();
    let place: BTreeMap<usize, usize> = used.into_iter().zip(0..).collect();
    raw.iter().map(|group| place[group]).collect()
}

/// Ranks from 1; equal values share the mean of theirs.
fn middle_ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut start = 0;
    while start < order.len() {
        let value = values[order[start]];
        let same = order[start..].iter().take_while(|&&i| values[i] == value);
        let end = start + same.count().max(1);
        for &i in &order[start..end] {
            ranks[i] = (start + 1 + end) as f64 / 2.0;
        }
        start = end;
    }
    ranks
}
