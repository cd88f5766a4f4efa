//! The first words of the page: what won, what it is worth, what went wrong, what to do.

use crate::facts::{About, Facts, Sentence};
use crate::{Material, shown};
use report::Best;
use report::format::{plural, value};
use search::outlook::FEWEST;
use search::study::{FrozenTrial, TrialState};

/// So many names stand in a sentence.
const NAMED: usize = 4;

pub(crate) fn verdict(material: &Material, facts: &Facts) -> Vec<Sentence> {
    let told = [
        (About::Won, won(material, facts)),
        (About::Margin, margin(material, facts)),
        (About::Luck, luck(material, facts)),
        (About::Test, test(material, facts)),
        (About::Wrong, Some(wrong(material, facts))),
        (About::Pruning, pruning(facts)),
        (About::Next, Some(next(material, facts))),
        (About::More, more(material, facts)),
    ];
    let told = told.into_iter();
    told.filter_map(|(about, text)| Some(Sentence { about, text: text? }))
        .collect()
}

fn won(m: &Material, facts: &Facts) -> Option<String> {
    if m.several() {
        let names = m.metrics.iter().map(|name| shown(name));
        let names = names.collect::<Vec<_>>().join(" and ");
        return Some(match facts.front.len() {
            0 => format!(
                "No trial is complete yet, of {}.",
                plural(m.trials.len() as u64, "trial")
            ),
            n => format!(
                "{} of {} cannot be improved in one of {names} without getting worse in another.",
                plural(n as u64, "trial"),
                m.in_state(TrialState::Complete)
            ),
        });
    }
    let Some(best) = &facts.best else {
        return Some(format!(
            "No trial is complete yet, of {}.",
            plural(m.trials.len() as u64, "trial")
        ));
    };
    let metric = shown(m.metric());
    let what = match m.repeated() {
        Some((winner, estimate)) => format!(
            "{metric} {}, {} to {} (mean of {}, 95 % interval)",
            value(estimate.mean),
            value(estimate.low),
            value(estimate.high),
            plural(winner.values.len() as u64, "repeat")
        ),
        None => format!("{metric} {}", best.value.map_or_else(String::new, value)),
    };
    Some(format!(
        "Trial {} won, of {} that finished: {what}.{}",
        best.number,
        facts.finished,
        settings(best, facts)
    ))
}

/// ` Its optim.lr is 1e-4, head.layers 2.`
fn settings(best: &Best, facts: &Facts) -> String {
    let dead = facts.dead();
    let told = facts.leading_parameters(best.params.len());
    let told = told.iter().filter(|name| !dead.contains(*name));
    let told = told.filter_map(|name| {
        let value = best.params.get(*name)?;
        let value = shown(&report::format::param(value));
        Some(format!("{} {value}", shown(name)))
    });
    let told: Vec<String> = told.take(NAMED).collect();
    match told.is_empty() {
        true => String::new(),
        false => format!(" What matters most there: {}.", told.join(", ")),
    }
}

fn margin(m: &Material, facts: &Facts) -> Option<String> {
    let (margin, baseline) = (facts.margin?, m.baseline.as_ref()?);
    let what = match baseline.what.as_str() {
        "" => String::new(),
        what => format!(" ({})", shown(what)),
    };
    let trivial = format!("the trivial answer's {}{what}", value(baseline.value));
    let interval = m.repeated().map(|(_, e)| {
        let loss = |v: f64| m.study.direction().loss(v);
        let of = |v: f64| loss(baseline.value) - loss(v);
        let (a, b) = (of(e.low), of(e.high));
        format!(", {} to {}", value(a.min(b)), value(a.max(b)))
    });
    let interval = interval.unwrap_or_default();
    Some(match margin > 0.0 {
        true => format!("That is {} better than {trivial}{interval}.", value(margin)),
        false => format!(
            "No trial beats {trivial}. The search has learned nothing from the data so far: \
             look at the labels, the metric and the split before more trials."
        ),
    })
}

fn luck(m: &Material, facts: &Facts) -> Option<String> {
    facts.best.as_ref()?;
    let Some(noise) = facts.noise else {
        return Some(
            "How much of the best value is luck is not known: no trial has been trained again with another seed."
                .to_owned(),
        );
    };
    let mut text = format!(
        "Trainings of one point with other seeds differ by {} (standard deviation, {} of {}).",
        value(noise.deviation),
        plural(noise.trainings as u64, "training"),
        plural(noise.points as u64, "point"),
    );
    if let Some(near) = facts.within_noise {
        text += &format!(
            " {} within {} of the best: one training cannot tell them from it.",
            match near {
                0 => "No other trial is".to_owned(),
                1 => "1 other trial is".to_owned(),
                n => format!("{n} other trials are"),
            },
            value(noise.difference)
        );
    }
    // Where the winner by repeats was struck, theirs is no news of who leads now.
    let naive = (m.repeated()).and_then(|_| m.selection.as_ref()?.naive.as_ref());
    if let Some((naive, optimism)) = naive.and_then(|n| Some((n, n.optimism_text()?))) {
        text += &format!(
            " The best single value ({}, trial {}) was {optimism}.",
            value(naive.value),
            naive.number,
        );
    }
    Some(text)
}

fn test(m: &Material, facts: &Facts) -> Option<String> {
    let test = m.test.as_ref()?;
    let lines = test.lines(facts.best.as_ref().map(|best| best.number));
    let lines = lines.iter().map(|line| sentence(line));
    Some(lines.collect::<Vec<_>>().join(" "))
}

/// A line with a capital at its beginning and a full stop at its end.
fn sentence(line: &str) -> String {
    let mut letters = shown(line).chars().collect::<Vec<_>>();
    if let Some(first) = letters.first_mut() {
        first.make_ascii_uppercase();
    }
    letters.into_iter().collect::<String>() + "."
}

fn wrong(m: &Material, facts: &Facts) -> String {
    let hours = facts.hours;
    let attempts: u64 = facts.faults.iter().map(|f| f.attempts).sum();
    let failed = m.in_state(TrialState::Fail);
    let refused = m.trials.iter();
    let refused = refused.filter(|t| t.state == TrialState::Pruned && !t.counts());
    let refused = refused.count() as u64;
    let mut text = match attempts {
        0 if failed == 0 && refused == 0 => {
            format!("Nothing, in {} of training.", told_hours(hours.trained))
        }
        0 => format!("In {} of training:", told_hours(hours.trained)),
        n => {
            let kinds = facts.faults.iter().take(NAMED);
            let kinds: Vec<String> = kinds
                .map(|f| format!("{} {}", f.kind, f.attempts))
                .collect();
            let more = match facts.faults.len().saturating_sub(kinds.len()) {
                0 => String::new(),
                n => format!(" and {}", plural(n as u64, "other kind")),
            };
            format!(
                "{} ended by a fault or from outside and cost {} of {} of training: {}{more}.",
                plural(n, "attempt"),
                told_hours(hours.lost),
                told_hours(hours.trained),
                kinds.join(", ")
            )
        }
    };
    if failed > 0 {
        text += &format!(" {} failed for good.", plural(failed as u64, "trial"));
    }
    if refused > 0 {
        text += &format!(
            " {} could not be started: too large for the memory, or against a constraint.",
            plural(refused, "trial")
        );
    }
    if let Some(group) = m.failures.first() {
        let line = group.message.lines().next().unwrap_or_default();
        text += &format!(
            " The most frequent message, of {}: “{}”.",
            plural(group.count as u64, "trial"),
            chart::shortened(&shown(line), 160)
        );
    }
    if let Some(lift) = facts.lifts.first() {
        text += &format!(
            " With {} {}, faults are {} times as frequent as elsewhere ({} to {}).",
            shown(&lift.name),
            shown(&lift.values),
            short(lift.ratio),
            short(lift.low),
            short(lift.high)
        );
    }
    text
}

fn pruning(facts: &Facts) -> Option<String> {
    let audit = facts.audit?;
    let [low, high] = [audit.low, audit.high].map(|share| 100.0 * share);
    Some(format!(
        "{} that the pruner would have ended went on: {} of them would have won, {} would have been one of the best tenth. \
         Of the {} that it ended, {low:.0} to {high:.0} % would have won (95 % interval).",
        plural(audit.audited, "trial"),
        audit.won,
        audit.best_tenth,
        audit.pruned
    ))
}

/// A ratio: one decimal is more than enough.
fn short(x: f64) -> String {
    match x < 10.0 {
        true => format!("{x:.1}"),
        false => format!("{x:.0}"),
    }
}

pub(crate) fn told_hours(hours: f64) -> String {
    let d = std::time::Duration::try_from_secs_f64(3600.0 * hours.max(0.0));
    report::format::duration(d.unwrap_or_default())
}

/// What one would do next: the first of these that apply.
fn next(m: &Material, facts: &Facts) -> String {
    let mut advice: Vec<String> = Vec::new();
    if m.in_state(TrialState::Fail) * 10 > m.trials.len() {
        let command = m.about.command("failures");
        advice.push(format!(
            "More than a tenth of the trials failed: begin with {command}."
        ));
    }
    // The values of those that were pruned are told to the search, too.
    let valued = |t: &FrozenTrial| t.gave_value() || !t.intermediate.is_empty();
    if m.in_state(TrialState::Pruned) > 0 && !m.trials.iter().any(valued) {
        let command = m.about.command("status");
        advice.push(format!(
            "No trial has given a value: mend a range, the data or the program before more trials ({command} says what \
             to look for)."
        ));
    }
    if facts.best.is_some() && facts.noise.is_none() && facts.margin.is_none_or(|x| x > 0.0) {
        let again = again(m).map_or_else(String::new, |line| format!(" ({line})"));
        advice.push(format!(
            "Let the leading trials run again with other seeds{again}: it tells luck from quality."
        ));
    }
    if !facts.edges.is_empty() {
        let named = facts.edges.iter().take(NAMED).map(|edge| {
            let end = if edge.upper { "upper" } else { "lower" };
            let number = report::format::param(&edge.value.into());
            format!("{} ({number}, the {end} end)", shown(&edge.name))
        });
        let named = named.collect::<Vec<_>>().join(", ");
        advice.push(format!(
            "The best value lies at the end of its range: widen {named}, in a fork of the study."
        ));
    }
    let dead = facts.dead();
    if dead.len() > 2 && facts.counts.complete >= 100 {
        let named = dead.iter().take(NAMED).map(|name| shown(name));
        let named = named.collect::<Vec<_>>().join(", ");
        let more = match dead.len().saturating_sub(NAMED) {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        advice.push(format!(
            "{} show no effect ({named}{more}): leave them at their defaults.",
            plural(dead.len() as u64, "parameter")
        ));
    }
    if let Some(outlook) = facts.outlook.filter(|o| enough(o.high, facts)) {
        advice.push(format!(
            "Stop searching here: {} more trials would hardly be worth it.",
            outlook.trials
        ));
    }
    if advice.is_empty() {
        let go_on = m.command.as_ref();
        let go_on = go_on.map_or_else(String::new, |line| format!(" ({line})"));
        advice.push(format!(
            "Go on with the search: the same command{go_on}, with a larger --trials where that is reached."
        ));
    }
    advice.truncate(3);
    advice.join(" ")
}

/// Whether a gain is no more than what a seed makes, or nothing at all.
fn enough(gain: f64, facts: &Facts) -> bool {
    match facts.noise {
        Some(noise) => gain < noise.deviation,
        None => gain <= 0.0,
    }
}

/// The command of the last run, with repeats.
pub(crate) fn again(m: &Material) -> Option<String> {
    let command = m.command.as_ref()?;
    Some(match command.contains("--repeats") {
        true => command.clone(),
        false => format!("{command} --repeats 5"),
    })
}

/// An estimate: two digits are more than enough.
fn rough(x: f64) -> String {
    value(format!("{x:.1e}").parse().unwrap_or(x))
}

fn more(m: &Material, facts: &Facts) -> Option<String> {
    if m.several() {
        return None;
    }
    let Some(outlook) = facts.outlook else {
        return Some(format!(
            "Fewer than {FEWEST} trials have finished, or too few of their values differ, to say what more would bring."
        ));
    };
    let ahead = outlook.trials;
    let latest = outlook.latest;
    let mut text = match outlook.high > 0.0 {
        false => format!("{ahead} more would most likely not better the best value."),
        true => format!(
            "{ahead} more would better the best value with a chance of {:.0} %, and with one of 80 % by no more than {}.",
            100.0 * outlook.chance,
            rough(outlook.high)
        ),
    };
    if let Some(noise) = facts.noise.filter(|_| outlook.high > 0.0) {
        text += match outlook.high < noise.deviation {
            true => " That is less than a seed makes.",
            false => "",
        };
    }
    Some(text + &format!(" This takes the search to go on as in its latest {latest} trials."))
}
