//! What ran when: the attempts in rows, so that in each row one follows the other.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{Material, faults, seconds};
use search::study::Purpose;
use store::RunEntry;

/// How an attempt ended, as far as a picture tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum End {
    Completed,
    Pruned,
    /// A repeat or a test.
    Repeated,
    Interrupted,
    Fault,
}

/// An attempt in its row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Span {
    pub row: usize,
    /// Seconds in which a run worked, from the first one on.
    pub from: f64,
    pub to: f64,
    pub end: End,
    /// Whether another process begins here.
    pub fresh: bool,
}

/// The rows of all runs, one after the other.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Timeline {
    pub spans: Vec<Span>,
    pub rows: usize,
    /// Where a run begins.
    pub runs: Vec<f64>,
    /// All seconds in which a run worked.
    pub length: f64,
}

impl Timeline {
    /// The share of the rows' time in which a training ran.
    pub fn busy(&self) -> f64 {
        let trained: f64 = self.spans.iter().map(|s| s.to - s.from).sum();
        match self.length > 0.0 {
            true => (trained / (self.length * self.rows as f64)).min(1.0),
            false => 0.0,
        }
    }
}

pub(crate) fn timeline(material: &Material) -> Timeline {
    let mut timeline = Timeline::default();
    for run in &material.runs {
        add_run(&mut timeline, material, run);
    }
    timeline
}

/// The attempts of one run, behind those of the runs before.
fn add_run(timeline: &mut Timeline, material: &Material, run: &RunEntry) {
    let Some(start) = seconds(&run.started) else {
        return;
    };
    let of_run = material
        .attempts
        .iter()
        .filter(|(_, a)| a.run_id == run.run_id);
    let mut attempts: Vec<_> = of_run
        .filter_map(|(job, a)| {
            let from = seconds(&a.started)? - start;
            let to = a.ended.as_deref().and_then(seconds).map(|end| end - start);
            Some((from.max(0.0), to, job, a))
        })
        .collect();
    if attempts.is_empty() {
        return;
    }
    attempts.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.3.worker.cmp(&b.3.worker)));
    let last = attempts.iter().filter_map(|(_, to, _, _)| *to);
    let last = last.fold(attempts[attempts.len() - 1].0, f64::max);
    let ended = run.ended.as_deref().and_then(seconds);
    // A run that waited for somebody's clock to be set is as long as its attempts.
    let length = ended.map_or(last, |end| (end - start).max(last));
    let offset = timeline.length;
    let mut rows: Vec<(f64, u64)> = Vec::new();
    let mut at: BTreeMap<u64, usize> = BTreeMap::new();
    for (from, to, job, attempt) in attempts {
        let to = to.unwrap_or(length).max(from);
        let own = at.get(&attempt.worker).copied();
        let free = |row: &usize| rows[*row].0 <= from + 0.05;
        let row = own.filter(free).or_else(|| (0..rows.len()).find(free));
        let row = row.unwrap_or_else(|| {
            rows.push((0.0, u64::MAX));
            rows.len() - 1
        });
        let fresh = rows[row].1 != attempt.worker;
        rows[row] = (to, attempt.worker);
        at.insert(attempt.worker, row);
        let end = match attempt.outcome.as_deref() {
            Some("interrupted") => End::Interrupted,
            Some(outcome) if !faults::came_through(outcome) => End::Fault,
            Some(_) | None if job.purpose != Purpose::Search => End::Repeated,
            Some("pruned") => End::Pruned,
            Some(_) | None => End::Completed,
        };
        timeline.spans.push(Span {
            row,
            from: offset + from,
            to: offset + to,
            end,
            fresh,
        });
    }
    timeline.runs.push(offset);
    timeline.rows = timeline.rows.max(rows.len());
    timeline.length += length;
}
