//! Charts of values: over time, by repeats, step by step, and as a distribution.

use super::{Built, Kind, Panel, beyond_text, chart, one, spread, values_axis, values_scale};
use crate::{Facts, Material, scored, shown};
use ::chart::{Axis, Ink, Layer, Mark, Scale, Stroke};
use report::format::{plural, value};
use search::study::{Direction, FrozenTrial, TrialState};

pub(super) fn history(m: &Material, facts: &Facts) -> Built {
    let scored = m.scored();
    if scored.is_empty() {
        return Err("No trial is complete yet.".to_owned());
    }
    let direction = m.study.direction();
    let values: Vec<f64> = scored.iter().map(|s| s.value).collect();
    let trivial = m.baseline.as_ref().map(|b| b.value);
    let also: Vec<f64> = trivial.into_iter().collect();
    let (scale, beyond) = values_scale(m, &values, &also);
    let numbers = m.trials.iter().map(|t| t.number as f64);
    let x = Scale::whole(numbers.chain([0.0]));
    let last = m.trials.last().map_or(0.0, |t| t.number as f64);
    let points = scored.iter().map(|s| (s.trial.number as f64, s.value));
    let best = best_so_far(direction, points.clone());
    let pruned = m.trials.iter().filter(|t| t.state == TrialState::Pruned);
    let pruned = pruned.filter_map(|t| Some((t.number as f64, t.only_value()?)));
    let mut layers = Vec::new();
    let top = best.last().map(|b| b.1);
    if let Some((noise, top)) = facts.noise.zip(top) {
        let worse = direction.loss(direction.loss(top) + noise.difference);
        layers.push(noise_band(noise.difference, (top, worse), last));
    }
    let pruned: Vec<(f64, f64)> = pruned.collect();
    if !pruned.is_empty() {
        let name = format!("pruned ({})", pruned.len());
        layers.push(Layer::new(name, Ink::Faint, Mark::Dots(pruned, 1.5)));
    }
    let name = format!("complete ({})", scored.len());
    layers.push(Layer::new(
        name,
        Ink::Main,
        Mark::Dots(points.collect(), 1.8),
    ));
    if let Some(trivial) = trivial {
        let lines = vec![vec![(0.0, trivial), (last, trivial)]];
        let mark = Mark::Lines {
            lines,
            stroke: Stroke::Dashed,
        };
        let name = format!("trivial answer ({})", value(trivial));
        layers.push(Layer::new(name, Ink::Text, mark));
    }
    let latest = best.last().copied();
    layers.push(Layer::new(
        "best so far",
        Ink::Second,
        Mark::Steps(best.clone()),
    ));
    let see = latest.map_or_else(String::new, |(number, top)| {
        let times = match best.len() - 1 {
            0 => "not once after the first".to_owned(),
            1 => "once".to_owned(),
            n => format!("{n} times"),
        };
        format!(
            "The best value became better {times} and has stood at {} since trial {number}, of {}. {}{}",
            value(top),
            m.trials.len(),
            trend(m, &scored),
            beyond_text(beyond)
        )
    });
    let axes = (Axis::new("trial", x), values_axis(m, scale));
    one(Kind::History, see.trim_end(), axes, layers)
}

/// Those of the points that are better than all before them.
fn best_so_far(direction: Direction, points: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut best: Vec<(f64, f64)> = Vec::new();
    for (number, value) in points {
        if best.last().is_none_or(|b| direction.better(value, b.1)) {
            best.push((number, value));
        }
    }
    best
}

/// Everything that one training cannot tell from the best.
fn noise_band(difference: f64, (top, worse): (f64, f64), last: f64) -> Layer {
    let (low, high) = (top.min(worse), top.max(worse));
    let band = Mark::Band(vec![(0.0, low, high), (last, low, high)]);
    let name = format!(
        "as good as the best, for one training (± {})",
        value(difference)
    );
    Layer::new(name, Ink::Third, band)
}

/// Whether the trials become better, by the medians of their halves.
fn trend(m: &Material, scored: &[crate::Scored<'_>]) -> String {
    if scored.len() < 20 {
        return String::new();
    }
    let (first, second) = scored.split_at(scored.len() / 2);
    let median = |half: &[crate::Scored<'_>]| {
        let mut values: Vec<f64> = half.iter().map(|s| s.value).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let (before, after) = (median(first), median(second));
    let how = match m.study.direction().better(after, before) {
        true => {
            "learns: the median of the second half of the complete trials is better than that of the first"
        }
        false => {
            "does not learn much: the median of the second half of the complete trials is no better than that of the first"
        }
    };
    format!(
        "The search {how} ({} after {}).",
        value(after),
        value(before)
    )
}

pub(super) fn repeats(m: &Material, facts: &Facts) -> Built {
    let selection = m.selection.as_ref();
    let candidates = selection.map_or(&[][..], |s| &s.candidates);
    let mut shown: Vec<_> = candidates.iter().filter(|c| !c.values.is_empty()).collect();
    if shown.is_empty() {
        return Err("No trial has been trained again with other seeds (--repeats).".to_owned());
    }
    let direction = m.study.direction();
    shown.sort_by(|a, b| {
        let mean = |c: &search::study::selection::Candidate| {
            c.estimate.map_or(f64::INFINITY, |e| direction.loss(e.mean))
        };
        mean(a).total_cmp(&mean(b))
    });
    let rows = || shown.iter().enumerate().map(|(i, c)| (i as f64, *c));
    let names = shown.iter().map(|c| format!("trial {}", c.number));
    let dots = rows().flat_map(|(i, c)| c.values.iter().map(move |v| (*v, i)));
    let intervals = rows().filter_map(|(i, c)| Some([c.estimate?.low, i, c.estimate?.high, i]));
    let means = rows().filter_map(|(i, c)| Some((c.estimate?.mean, i)));
    let chosen = rows().map(|(i, c)| (c.value, i));
    let all = shown.iter().flat_map(|c| c.values.iter().chain([&c.value]));
    let ends = shown.iter().filter_map(|c| c.estimate);
    let ends = ends.flat_map(|e| [e.low, e.high]);
    let (scale, _) = values_scale(
        m,
        &all.copied().collect::<Vec<_>>(),
        &ends.collect::<Vec<_>>(),
    );
    let layers = vec![
        Layer::new(
            "95 % interval of the mean",
            Ink::Main,
            Mark::Segments(intervals.collect()),
        ),
        Layer::new("a repeat", Ink::Faint, Mark::Dots(dots.collect(), 3.0)),
        Layer::new(
            "mean of the repeats",
            Ink::Main,
            Mark::Dots(means.collect(), 4.5),
        ),
        Layer::new(
            "value in the search",
            Ink::Second,
            Mark::Dots(chosen.collect(), 3.0),
        ),
    ];
    let noise = facts.noise.map_or_else(String::new, |n| {
        format!(
            " One seed or another makes {} (standard deviation).",
            value(n.deviation)
        )
    });
    let see = format!(
        "The value with which a trial came into the choice is a lucky one: look whether it lies at the good end of its own repeats. {} were trained again.{noise}",
        plural(shown.len() as u64, "trial"),
    );
    let axes = (values_axis(m, scale), Axis::new("", Scale::names(names)));
    let panel = Panel::new(chart(Kind::Repeats, &see, axes, layers)).rows(shown.len());
    Ok((see, vec![panel]))
}

/// So many curves are drawn, and of each so many points.
const CURVES: usize = 120;
const POINTS: usize = 60;

pub(super) fn curves(m: &Material) -> Built {
    let with = |t: &&FrozenTrial| t.intermediate.len() > 1;
    let all: Vec<&FrozenTrial> = m.trials.iter().filter(with).collect();
    if all.is_empty() {
        return Err("No trial has told more than one step.".to_owned());
    }
    let of = |state: TrialState| -> Vec<&FrozenTrial> {
        all.iter().filter(|t| t.state == state).copied().collect()
    };
    let (complete, pruned) = (of(TrialState::Complete), of(TrialState::Pruned));
    let valued = complete.iter().filter_map(|t| Some((*t, t.value()?)));
    let best = m.study.direction().best(valued).map(|(trial, _)| trial);
    let cut = spread(&pruned, CURVES);
    let ends = cut.iter().filter_map(|t| line(t).last().copied());
    let mut layers = Vec::new();
    if !pruned.is_empty() {
        layers.push(Layer::new(
            format!("pruned ({})", pruned.len()),
            Ink::Faint,
            lines(&cut, Stroke::Thin),
        ));
        layers.push(Layer::new(
            "where it was pruned",
            Ink::Fault,
            Mark::Dots(ends.collect(), 1.6),
        ));
    }
    let through = spread(&complete, CURVES);
    layers.push(Layer::new(
        format!("complete ({})", complete.len()),
        Ink::Main,
        lines(&through, Stroke::Thin),
    ));
    if let Some(first) = best {
        let name = format!("the best, trial {}", first.number);
        layers.push(Layer::new(name, Ink::Second, lines(&[first], Stroke::Full)));
    }
    let drawn = || {
        cut.iter()
            .chain(&through)
            .chain(&best)
            .flat_map(|t| line(t))
    };
    let (scale, beyond) = values_scale(m, &drawn().map(|p| p.1).collect::<Vec<_>>(), &[]);
    let saved = saved(&pruned, &complete).map_or_else(String::new, |share| {
        format!(
            " The pruned ones ended after {:.0} % of the steps that a complete one takes at the median.",
            100.0 * share
        )
    });
    let thinned = match all.len() > CURVES {
        true => format!(" At most {CURVES} of each sort are drawn."),
        false => String::new(),
    };
    let see = format!(
        "Look whether the curves that were cut would have crossed the best one.{saved}{thinned}{}",
        beyond_text(beyond)
    );
    let axes = (
        Axis::new("step", Scale::whole(drawn().map(|p| p.0))),
        values_axis(m, scale),
    );
    one(Kind::Curves, &see, axes, layers)
}

fn lines(trials: &[&FrozenTrial], stroke: Stroke) -> Mark {
    Mark::Lines {
        lines: trials.iter().map(|t| line(t)).collect(),
        stroke,
    }
}

/// A trial's curve, of at most so many points and its last one.
fn line(t: &FrozenTrial) -> Vec<(f64, f64)> {
    let finite = t.intermediate.iter().filter(|(_, v)| v.is_finite());
    let points: Vec<(f64, f64)> = finite.map(|(s, v)| (*s as f64, *v)).collect();
    let mut kept = spread(&points, POINTS);
    if let (Some(last), true) = (points.last(), kept.last() != points.last()) {
        kept.push(*last);
    }
    kept
}

/// The steps of the median pruned trial as a share of the median complete one's.
fn saved(pruned: &[&FrozenTrial], complete: &[&FrozenTrial]) -> Option<f64> {
    let median = |trials: &[&FrozenTrial]| {
        let steps = trials.iter().filter_map(|t| t.intermediate.keys().last());
        let mut steps: Vec<i64> = steps.copied().collect();
        steps.sort_unstable();
        steps.get(steps.len() / 2).copied()
    };
    let (cut, whole) = (median(pruned)?, median(complete)?);
    (whole > 0).then(|| cut as f64 / whole as f64)
}

pub(super) fn edf(m: &Material) -> Built {
    let own = (m.study.name.clone(), m.scored());
    if own.1.is_empty() {
        return Err("No trial is complete yet.".to_owned());
    }
    if m.others.is_empty() {
        return Err("No other study was named beside it (--with STUDY).".to_owned());
    }
    let others = m.others.iter();
    let others = others.map(|(name, trials)| {
        let objectives = trials.iter().map(|t| t.values.len()).max().unwrap_or(1);
        (name.clone(), scored(trials, objectives))
    });
    let studies: Vec<_> = std::iter::once(own).chain(others).collect();
    let inks = [Ink::Main, Ink::Second, Ink::Third, Ink::Fault, Ink::Text];
    let mut layers = Vec::new();
    let mut told = Vec::new();
    let all: Vec<f64> = studies
        .iter()
        .flat_map(|(_, s)| s.iter().map(|s| s.value))
        .collect();
    for ((name, scored), ink) in studies.iter().zip(inks.into_iter().cycle()) {
        let mut values: Vec<f64> = scored.iter().map(|s| s.value).collect();
        values.sort_by(f64::total_cmp);
        let n = values.len() as f64;
        let steps = values
            .iter()
            .enumerate()
            .map(|(i, v)| (*v, (i + 1) as f64 / n));
        let start = values.first().map(|v| (*v, 0.0));
        let label = format!("{} ({})", shown(name), values.len());
        layers.push(Layer::new(
            label,
            ink,
            Mark::Steps(start.into_iter().chain(steps).collect()),
        ));
        if let Some(median) = values.get(values.len() / 2) {
            told.push(format!("{} {}", shown(name), value(*median)));
        }
    }
    let side = match m.study.direction() {
        search::study::Direction::Minimize => "further up",
        search::study::Direction::Maximize => "further down",
    };
    let see = format!(
        "The share of trials at or below each value: the better study lies {side}. Medians: {}.",
        told.join(", ")
    );
    let (scale, _) = values_scale(m, &all, &[]);
    let share = Axis::new("share of the trials", Scale::between(0.0, 1.0));
    let axes = (values_axis(m, scale), share);
    one(Kind::Edf, &see, axes, layers)
}
