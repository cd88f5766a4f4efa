//! Several objectives: the front, and what it dominates.

use super::{Built, Kind, Panel, chart};
use crate::{Facts, Material, facts, shown};
use ::chart::{Axis, Ink, Layer, Mark, Scale, Stroke};
use report::format::plural;
use search::study::pareto;

/// The volume is told at so many places.
const PLACES: usize = 100;

/// Of a larger front, so many points make its volume in three objectives and more.
const POINTS: usize = 60;

pub(super) fn pareto(m: &Material, facts: &Facts) -> Built {
    if !m.several() {
        return Err("The study has one objective.".to_owned());
    }
    if facts.front.is_empty() {
        return Err("No trial is complete yet.".to_owned());
    }
    let objectives = m.study.directions.len();
    let all = m.trials.iter().filter_map(|t| t.result(objectives));
    let all: Vec<(f64, f64)> = all.map(|v| (v[0], v[1])).collect();
    let mut front: Vec<(f64, f64)> = facts
        .front
        .iter()
        .map(|b| (b.values[0], b.values[1]))
        .collect();
    front.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut layers = vec![Layer::new(
        format!("complete ({})", all.len()),
        Ink::Faint,
        Mark::Dots(all.clone(), 1.8),
    )];
    // With more objectives the front is no line of the first two.
    if objectives == 2 {
        let mark = Mark::Lines {
            lines: vec![front.clone()],
            stroke: Stroke::Thin,
        };
        layers.push(Layer::new("", Ink::Main, mark));
    }
    let name = format!("the front ({})", front.len());
    layers.push(Layer::new(name, Ink::Main, Mark::Dots(front, 3.2)));
    let more = match objectives {
        2 => String::new(),
        n => format!(" Of {n} objectives the first two are shown."),
    };
    let see = format!(
        "{} cannot be improved in one objective without getting worse in another.{more}",
        plural(facts.front.len() as u64, "trial")
    );
    let axis = |i: usize, values: Vec<f64>| {
        let name = m.metrics.get(i).map_or("", String::as_str);
        let label = format!("{} ({})", shown(name), m.study.directions[i]);
        Axis::new(label, Scale::linear(values))
    };
    let axes = (
        axis(0, all.iter().map(|p| p.0).collect()),
        axis(1, all.iter().map(|p| p.1).collect()),
    );
    let mut panel = Panel::new(chart(Kind::Pareto, &see, axes, layers));
    panel.height = 400.0;
    let mut panels = vec![panel];
    panels.extend(volume(m));
    Ok((see, panels))
}

/// The volume that the front so far dominates, over the trials.
fn volume(m: &Material) -> Option<Panel> {
    let nadir = facts::nadir(m)?;
    let directions = &m.study.directions;
    let mut front = pareto::Front::new(directions.clone());
    let (mut steps, mut changed) = (Vec::new(), false);
    let every = m.trials.len().div_ceil(PLACES).max(1);
    for (i, trial) in m.trials.iter().enumerate() {
        if let Some(values) = trial.result(directions.len()) {
            changed |= front.offer(values, pareto::losses(directions, values));
        }
        let due = i % every == every - 1 || i + 1 == m.trials.len();
        if due && changed {
            let mut points: Vec<Vec<f64>> = front.items().cloned().collect();
            if directions.len() > 2 && points.len() > POINTS {
                let chosen = pareto::best_first(&points, POINTS);
                points = chosen.into_iter().map(|i| points[i].clone()).collect();
            }
            steps.push((trial.number as f64, pareto::hypervolume(&points, &nadir)));
            changed = false;
        }
    }
    let last = steps.last()?.1;
    let see = format!(
        "The volume that the front dominates, from the worst value of each objective: {} at the end. It stands still where the search finds no better compromise.",
        report::format::value(last)
    );
    let numbers = m.trials.iter().map(|t| t.number as f64);
    let axes = (
        Axis::new("trial", Scale::whole(numbers)),
        Axis::new(
            "volume",
            Scale::linear(steps.iter().map(|s| s.1).chain([0.0])),
        ),
    );
    let layers = vec![Layer::new("", Ink::Second, Mark::Steps(steps))];
    let mut chart = chart(Kind::Pareto, &see, axes, layers);
    chart.id = "hypervolume".to_owned();
    chart.title = "Hypervolume".to_owned();
    let mut panel = Panel::new(chart);
    panel.height = 240.0;
    Some(panel)
}
