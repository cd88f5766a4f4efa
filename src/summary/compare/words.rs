//! What a comparison says in words.

use super::{About, AtEqual, Basis, Comparison, Difference, Sentence, Side, Which};
use crate::verdict::{again, told_hours};
use crate::{Material, shown};
use report::format::{plural, value};

pub(super) fn verdict(comparison: &Comparison, materials: [&Material; 2]) -> Vec<Sentence> {
    let told = [
        (About::Better, Some(better(comparison))),
        (About::Basis, basis(comparison, materials)),
        (About::Speed, speed(comparison)),
        (About::Cost, Some(cost(comparison))),
    ];
    let told = told.into_iter();
    told.filter_map(|(about, text)| Some(Sentence { about, text: text? }))
        .collect()
}

/// The study of a side.
fn named(comparison: &Comparison, which: Which) -> String {
    shown(match which {
        Which::A => &comparison.a.study,
        Which::B => &comparison.b.study,
    })
}

fn better(c: &Comparison) -> String {
    let without = [&c.a, &c.b]
        .into_iter()
        .find(|side| side.counts.complete == 0);
    if let Some(side) = without {
        return format!(
            "Nothing can be said: no trial of {} is complete yet.",
            shown(&side.study)
        );
    }
    if !c.incomparable.is_empty() {
        return format!(
            "Nothing can be said: {}. Values of the one say nothing beside values of the other.",
            c.incomparable.join(", and ")
        );
    }
    if let Some(volumes) = c.hypervolume {
        let ahead = match volumes.a >= volumes.b {
            true => Which::A,
            false => Which::B,
        };
        return match volumes.a == volumes.b {
            true => "Both fronts dominate the same volume.".to_owned(),
            false => format!(
                "The front of {} dominates the larger volume above the worst values of both: {} for {}, {} for {}.",
                named(c, ahead),
                value(volumes.a),
                named(c, Which::A),
                value(volumes.b),
                named(c, Which::B),
            ),
        };
    }
    match c.difference {
        Some(difference) => of_difference(c, difference),
        None => "Nothing can be said: no trial of one of them has a finite value.".to_owned(),
    }
}

fn of_difference(c: &Comparison, d: Difference) -> String {
    let metric = shown(c.metrics.first().map_or("value", String::as_str));
    let ahead = match d.gain >= 0.0 {
        true => Which::B,
        false => Which::A,
    };
    let name = named(c, ahead);
    let what = format!(
        "{metric} {} (trial {} of {}) against {} (trial {} of {})",
        value(d.a.value),
        d.a.number,
        named(c, Which::A),
        value(d.b.value),
        d.b.number,
        named(c, Which::B)
    );
    let what = match (d.basis, c.at_equal_trials) {
        (Basis::Repeats, _) | (_, None) => what,
        (Basis::Noise | Basis::Single, Some(AtEqual { budget, .. })) => {
            format!(
                "{what}, of {} each",
                plural(budget as u64, "finished trial")
            )
        }
    };
    // The interval as the better one has it.
    let ends = d.low.zip(d.high).map(|(low, high)| match ahead {
        Which::B => (low, high),
        Which::A => (-high, -low),
    });
    let gain = value(d.gain.abs());
    match (ends, d.better()) {
        (Some((low, high)), Some(_)) => format!(
            "{name} is better by {gain}, {} to {} (95 % interval): {what}.",
            value(low),
            value(high)
        ),
        (Some(_), None) if d.gain == 0.0 => format!("Both are as good: {what}."),
        (Some((low, high)), None) => format!(
            "It cannot be said: {name} is ahead by {gain}, {} to {} (95 % interval), so the other one may be as good: {what}.",
            value(low),
            value(high)
        ),
        (None, _) if d.gain == 0.0 => format!("Neither is ahead: {what}."),
        (None, _) => format!("{name} is ahead by {gain}, which may be luck: {what}."),
    }
}

fn basis(c: &Comparison, materials: [&Material; 2]) -> Option<String> {
    let d = c.difference?;
    let mut text = match d.basis {
        Basis::Repeats => format!(
            "The means of {} and {} of the two winners, with other seeds. In 19 of 20 such cases the interval has the difference \
             of these two points in it (Welch). It says nothing of whether either search would find so good a point a second time.",
            plural(d.a.trainings as u64, "repeat"),
            plural(d.b.trainings as u64, "repeat"),
        ),
        Basis::Noise => "One training of each point, beside the noise of seeds that repeats of other points show. \
             In 19 of 20 such cases the interval has the difference of these two points in it, where the luck of being the best \
             of equally many is the same in both studies."
            .to_owned(),
        Basis::Single => "One training of each point, the best of equally many. What other seeds would make of them is not known, \
             and so there is no interval."
            .to_owned(),
    };
    if d.low == d.high && d.low.is_some() {
        text +=
            " All repeats of a point have the same value: its training seems to ignore the seed.";
    }
    let lacks = |m: &&Material| m.selection.is_none();
    let commands: Vec<String> = materials
        .iter()
        .copied()
        .filter(lacks)
        .filter_map(again)
        .collect();
    if d.better().is_none() && !commands.is_empty() {
        text += &format!(
            " Repeats of the leaders would tell more: {}.",
            commands.join("; ")
        );
    }
    Some(text)
}

fn speed(c: &Comparison) -> Option<String> {
    if !c.incomparable.is_empty() || c.at_equal_trials.is_none() {
        return None;
    }
    let of = |side: &Side, other: &Side| {
        let (name, other_name) = (shown(&side.study), shown(&other.study));
        match side.reached {
            Some(reached) => format!(
                "{name} was as good as the best of {other_name} after {} and {} of training.",
                plural(reached.trials as u64, "trial"),
                told_hours(reached.hours)
            ),
            None => format!(
                "{name} was never as good as the best of {other_name}, in {} and {} of training.",
                plural(side.finished, "trial"),
                told_hours(side.searched)
            ),
        }
    };
    let mut text = format!("{} {}", of(&c.a, &c.b), of(&c.b, &c.a));
    if let Some(equal) = c.at_equal_hours {
        let metric = shown(c.metrics.first().map_or("value", String::as_str));
        text += &format!(
            " After {} of training each, {metric} was {} and {}.",
            told_hours(equal.budget),
            value(equal.a),
            value(equal.b)
        );
    }
    for side in [&c.a, &c.b].into_iter().filter(|side| side.copied > 0) {
        text += &format!(
            " {} of {} were copied from an earlier study and cost it nothing.",
            plural(side.copied, "trial"),
            shown(&side.study)
        );
    }
    Some(text)
}

fn cost(c: &Comparison) -> String {
    let of = |side: &Side| {
        let attempts: u64 = side.faults.iter().map(|f| f.attempts).sum();
        let trained = told_hours(side.hours.trained);
        let name = shown(&side.study);
        match attempts {
            0 => format!("{name} trained for {trained} without a fault."),
            n => format!(
                "{name} trained for {trained}, of which {} ended by a fault or from outside and cost {}.",
                plural(n, "attempt"),
                told_hours(side.hours.lost)
            ),
        }
    };
    format!("{} {}", of(&c.a), of(&c.b))
}
