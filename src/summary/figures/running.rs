//! Charts of how it ran: what when, with how much memory, and what went wrong.

use super::{Built, Kind, Panel, chart, one, spread};
use crate::timeline::{End, Span};
use crate::verdict::told_hours;
use crate::{Facts, Material, shown, timeline};
use ::chart::{Axis, Ink, Layer, Mark, Scale, Stroke};
use report::format::plural;

pub(super) fn timeline(m: &Material, facts: &Facts) -> Built {
    let line = timeline::timeline(m);
    if line.spans.is_empty() {
        return Err("No run of tune has trained in it.".to_owned());
    }
    let boxes = |end: End| {
        let spans = line.spans.iter().filter(|s| s.end == end);
        let of = |s: &Span| {
            let row = s.row as f64;
            // What went wrong stands out above the others, however short it was.
            let above = if end == End::Fault { 0.5 } else { 0.36 };
            [s.from, row - above, s.to, row + 0.36]
        };
        let mut boxes: Vec<[f64; 4]> = spans.map(of).collect();
        boxes.sort_by(|a, b| a[1].total_cmp(&b[1]).then(a[0].total_cmp(&b[0])));
        boxes
    };
    let named = [
        (End::Completed, "completed", Ink::Main),
        (End::Pruned, "pruned", Ink::Level(2)),
        (End::Repeated, "repeat or test", Ink::Third),
        (End::Interrupted, "interrupted", Ink::Second),
        (End::Fault, "fault", Ink::Fault),
    ];
    let mut layers: Vec<Layer> = Vec::new();
    for (end, name, ink) in named {
        let boxes = boxes(end);
        if !boxes.is_empty() {
            let name = format!("{name} ({})", boxes.len());
            layers.push(Layer::new(name, ink, Mark::Boxes(boxes)));
        }
    }
    let fresh = line.spans.iter().filter(|s| s.fresh && s.from > 0.0);
    let fresh: Vec<[f64; 4]> = fresh
        .map(|s| [s.from, s.row as f64 + 0.36, s.from, s.row as f64 + 0.5])
        .collect();
    let restarts = fresh.len();
    if !fresh.is_empty() {
        let name = format!("another process ({restarts})");
        layers.push(Layer::new(name, Ink::Text, Mark::Segments(fresh)));
    }
    let runs = line.runs.iter().skip(1);
    let runs: Vec<[f64; 4]> = runs
        .map(|at| [*at, -0.5, *at, line.rows as f64 - 0.5])
        .collect();
    if !runs.is_empty() {
        let name = format!("another run ({})", runs.len());
        layers.push(Layer::new(name, Ink::Faint, Mark::Segments(runs)));
    }
    let see = format!(
        "{} worked for {} and trained {:.0} % of that time; what is empty is waiting. {} of training were lost to faults and interruptions. Time without a run is left out.",
        plural(line.rows as u64, "slot"),
        told_hours(line.length / 3600.0),
        100.0 * line.busy(),
        told_hours(facts.hours.lost)
    );
    let names = (0..line.rows).map(|row| format!("slot {row}"));
    let x = Scale::seconds(line.length.max(1.0));
    let axes = (
        Axis::new("time in runs", x),
        Axis::new("", Scale::names(names)),
    );
    let panel = Panel::new(chart(Kind::Timeline, &see, axes, layers)).rows(line.rows);
    Ok((see, vec![panel]))
}

/// Of more trainings, so many are drawn.
const TRAININGS: usize = 1500;

pub(super) fn memory(m: &Material) -> Built {
    let both = (m.memory.iter()).filter(|r| r.entry.tells_peak() || r.entry.ran_out());
    let both = both.filter_map(|r| Some((r, r.entry.predicted?, r.entry.peak()?)));
    let all: Vec<_> = both.collect();
    let Some(most) = all.iter().map(|(_, p, peak)| p.expected.max(*peak)).max() else {
        return Err(
            "No training has both a prediction of its memory and a measurement.".to_owned(),
        );
    };
    let both = spread(&all, TRAININGS);
    let (unit, size) = match most < 1 << 30 {
        true => ("MiB", f64::from(1 << 20)),
        false => ("GiB", f64::from(1 << 30)),
    };
    let sized = |bytes: u64| bytes as f64 / size;
    let dots = |ran_out: bool| -> Vec<(f64, f64)> {
        let of = both.iter().filter(|(r, _, _)| r.entry.ran_out() == ran_out);
        of.map(|(_, p, peak)| (sized(p.expected), sized(*peak)))
            .collect()
    };
    let intervals = both.iter().map(|(_, p, peak)| {
        let y = sized(*peak);
        [sized(p.lower), y, sized(p.upper), y]
    });
    let used = both.iter().map(|(_, _, peak)| sized(*peak));
    let ends = || {
        both.iter()
            .flat_map(|(_, p, peak)| [sized(p.expected), sized(*peak)])
    };
    let (low, high) = ends().fold((f64::INFINITY, 0.0), |(a, b): (f64, f64), x| {
        (a.min(x), b.max(x))
    });
    let diagonal = Mark::Lines {
        lines: vec![vec![(low, low), (high, high)]],
        stroke: Stroke::Dashed,
    };
    let out = dots(true);
    let mut layers = vec![
        Layer::new(
            "predicted interval",
            Ink::Level(2),
            Mark::Segments(intervals.collect()),
        ),
        Layer::new("as predicted", Ink::Text, diagonal),
        Layer::new("a training", Ink::Main, Mark::Dots(dots(false), 2.2)),
    ];
    if !out.is_empty() {
        layers.push(Layer::new(
            "ran out of memory",
            Ink::Fault,
            Mark::Dots(out, 3.0),
        ));
    }
    let ran_out = all.iter().filter(|(r, _, _)| r.entry.ran_out()).count();
    let held = all.iter().filter(|(_, p, peak)| *peak <= p.upper).count();
    let see = format!(
        "{} of {} stayed within the upper end of what was predicted for them; {} ran out of memory. Dots above the dashed line used more than expected.",
        held,
        plural(all.len() as u64, "training"),
        ran_out
    );
    let axes = (
        Axis::new(format!("predicted, {unit}"), Scale::linear(ends())),
        Axis::new(
            format!("used, {unit}"),
            Scale::linear(used.chain([low, high])),
        ),
    );
    one(Kind::Memory, &see, axes, layers)
}

/// So many values are shown.
const LIFTS: usize = 10;

pub(super) fn faults(_m: &Material, facts: &Facts) -> Built {
    let kinds = &facts.faults;
    if kinds.is_empty() {
        return Err("No attempt ended by a fault.".to_owned());
    }
    let rows = || kinds.iter().enumerate().map(|(i, kind)| (i as f64, kind));
    let bars = rows().map(|(row, kind)| [0.0, row - 0.32, kind.hours, row + 0.32]);
    let words = rows().map(|(row, kind)| {
        let what = format!(
            "{}, {}",
            plural(kind.attempts, "attempt"),
            told_hours(kind.hours)
        );
        (kind.hours, row, what)
    });
    let most = kinds.iter().map(|kind| kind.hours).fold(1e-9, f64::max);
    let x = Scale::seconds(3600.0 * most * 1.7);
    let seconds = |b: [f64; 4]| [b[0], b[1], 3600.0 * b[2], b[3]];
    let layers = vec![
        Layer::new("", Ink::Fault, Mark::Boxes(bars.map(seconds).collect())),
        Layer::new(
            "",
            Ink::Text,
            Mark::Words(words.map(|(x, y, t)| (3600.0 * x, y, t)).collect()),
        ),
    ];
    let names = kinds.iter().map(|kind| shown(&kind.kind));
    let axes = (
        Axis::new("time of training lost", x),
        Axis::new("", Scale::names(names)),
    );
    let first = kinds.first().map_or_else(String::new, |kind| {
        format!("Most time went to {} ({}).", shown(&kind.kind), kind.what)
    });
    let over = match facts.lifts.len() {
        0 => " No value of a parameter has more faults than the others beyond chance.".to_owned(),
        n => format!(
            " With {} faults are more frequent than elsewhere, beyond chance.",
            plural(n as u64, "value")
        ),
    };
    let see = first + &over;
    let mut panels = vec![Panel::new(chart(Kind::Faults, &see, axes, layers)).rows(kinds.len())];
    panels.extend(lifts(facts));
    Ok((see, panels))
}

/// The values under which faults are more frequent.
fn lifts(facts: &Facts) -> Option<Panel> {
    let lifts = &facts.lifts[..facts.lifts.len().min(LIFTS)];
    if lifts.is_empty() {
        return None;
    }
    let rows = || lifts.iter().enumerate().map(|(i, lift)| (i as f64, lift));
    let intervals = rows().map(|(row, lift)| [lift.low, row, lift.high, row]);
    let dots = rows().map(|(row, lift)| (lift.ratio, row));
    let names = lifts
        .iter()
        .map(|lift| format!("{} {}", shown(&lift.name), shown(&lift.values)));
    let told = lifts.iter().map(|lift| {
        format!(
            "{} {}: {} of {}, {:.1} times as frequent",
            shown(&lift.name),
            shown(&lift.values),
            lift.faulty,
            lift.trials,
            lift.ratio
        )
    });
    let see = format!(
        "Faults by value, with intervals that hold for all together. {}.",
        told.collect::<Vec<_>>().join("; ")
    );
    let rest = rows().map(|(row, _)| row);
    let edge = rest.fold(0.0, f64::max) + 0.5;
    let one = Mark::Lines {
        lines: vec![vec![(1.0, -0.5), (1.0, edge)]],
        stroke: Stroke::Dashed,
    };
    let layers = vec![
        Layer::new("as frequent as elsewhere", Ink::Text, one),
        Layer::new("interval", Ink::Fault, Mark::Segments(intervals.collect())),
        Layer::new(
            "times as frequent",
            Ink::Fault,
            Mark::Dots(dots.collect(), 4.0),
        ),
    ];
    let ends = lifts.iter().flat_map(|lift| [lift.low, lift.high]);
    let axes = (
        Axis::new(
            "times as frequent as with other values (log)",
            Scale::log(ends.chain([1.0])),
        ),
        Axis::new("", Scale::names(names)),
    );
    let mut chart = chart(Kind::Faults, &see, axes, layers);
    chart.id = "fault-values".to_owned();
    chart.title = "Faults by value".to_owned();
    Some(Panel::new(chart).rows(lifts.len()))
}
