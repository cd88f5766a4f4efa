//! `tune memory`: what trials use, what explains it, and how many fit at a time.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::choose;
use super::format::printable;
use super::format::{self, facts};
use device::Device;
use fault::size_text;
use memory::review::{
    Accuracy, Around, Carries, Factor, Group, High, Line, Review, Spread, review,
};
use messages::exit::Failure;
use messages::json_number;
use report::format::table;
use report::format::{params_short, plural};
use report::params_json;
use search::space::Params;
use search::study::{Job, Purpose};
use store::{Store, StudySummary};

/// Parameters on a line take so many characters.
const WIDTH: usize = 70;

/// Part of the memory that trials may use where no run has recorded `gpu.memory`.
const PART: f64 = 0.8;

/// The ledger's review as text; `host`: this machine's memory in bytes.
///
/// # Errors
/// No such study (2); reading failed (7).
pub fn memory(store: &Store, name: Option<&str>, host: Option<u64>) -> Result<String, Failure> {
    let (study, around, found) = read(store, name, host)?;
    let Some(found) = found else {
        return Ok(format!(
            "nothing was measured in the study {} yet: each trial that ends is\n",
            printable(&study.name)
        ));
    };
    let mut text = facts(&overview(&study, around, &found));
    for factor in &found.factors {
        text.push('\n');
        text.push_str(&factor_text(factor));
    }
    if found.factors.is_empty() {
        text.push_str("\nno parameter is known to explain the peaks");
        text.push_str(match found.measured < search::importance::FEWEST {
            true => ": too few trials\n",
            false => "\n",
        });
    }
    text.push_str("\nhighest\n");
    text.push_str(&highest_text(&found.highest));
    text.push_str(&format!("\nadvice: {}\n", found.advice));
    Ok(text)
}

/// The ledger's review as JSON. Changing it means changing docs/schemas/memory.schema.json.
///
/// # Errors
/// See [`fn@memory`].
pub fn memory_json(store: &Store, name: Option<&str>, host: Option<u64>) -> Result<Json, Failure> {
    let (study, around, found) = read(store, name, host)?;
    let review = found.as_ref();
    Ok(json!({
        "study": study.name,
        "device": review.map(|r| kind(r.device)),
        "measured": review.map_or(0, |r| r.measured),
        "peaks": review.and_then(|r| r.peaks).map(spread_json),
        "factors": review.map_or(vec![], |r| r.factors.iter().map(factor_json).collect()),
        "highest": review.map_or(vec![], |r| r.highest.iter().map(high_json).collect()),
        "prediction": review.and_then(|r| r.accuracy).map(accuracy_json),
        "drift": review.map(|r| json!({
            "unallocated": r.drift.unallocated,
            "growth": r.drift.growth.map(|(from, to, trials)| {
                json!({ "from": from, "to": to, "trials": trials })
            }),
        })),
        "out_of_memory": review.map_or(vec![], |r| r.ran_out.iter().collect()),
        "carries": review.and_then(|r| r.carries).map(carries_json),
        "part": json_number(around.part),
        "parallel": around.parallel,
        "advice": review.map(|r| r.advice.clone()),
    }))
}

type Found = (StudySummary, Around, Option<Review>);

fn read(store: &Store, name: Option<&str>, host: Option<u64>) -> Result<Found, Failure> {
    let study = choose(store, name)?;
    let runs = store.runs(study.study_id)?;
    let operation = runs.last().map(|r| &r.record.operation);
    let asked = |key: &str| operation.and_then(|o| o.get(key));
    let around = Around {
        part: asked("gpu_memory").and_then(Json::as_f64).unwrap_or(PART),
        parallel: asked("parallel").and_then(Json::as_u64),
        host,
    };
    let records = store.memory(study.study_id)?;
    if records.is_empty() {
        return Ok((study, around, None));
    }
    let points = store.points(study.study_id)?;
    let attempts = store.all_attempts(study.study_id)?;
    let mut workers: BTreeMap<(u64, u32), (i64, u64)> = BTreeMap::new();
    for (number, of_trial) in &attempts {
        for a in of_trial {
            workers.insert((*number, a.attempt), (a.run_id, a.worker));
        }
    }
    let none = Params::new();
    let lines: Vec<Line> = (records.iter())
        .map(|record| Line {
            job: record.job,
            params: points.get(&record.job.number).unwrap_or(&none),
            worker: (workers.get(&(record.job.number, record.attempt)).copied())
                .filter(|_| record.job.searches()),
            entry: &record.entry,
        })
        .collect();
    let found = review(&lines, around, 0);
    Ok((study, around, found))
}

fn kind(device: Device) -> &'static str {
    match device {
        Device::Cpu => "cpu",
        Device::Cuda(_) => "cuda",
    }
}

fn overview(study: &StudySummary, around: Around, r: &Review) -> Vec<(&'static str, String)> {
    let what = match r.device {
        Device::Cpu => "resident memory of the process that trains",
        Device::Cuda(_) => "memory of the GPU, context included",
    };
    let mut out = vec![
        ("study", printable(&study.name)),
        (
            "measured",
            format!("{}: {what}", plural(r.measured as u64, "training")),
        ),
    ];
    out.extend(r.peaks.map(|p| ("peaks", peaks_text(p))));
    out.extend(r.accuracy.map(|a| ("predictions", accuracy_text(a))));
    let mut held = Vec::new();
    if let Some(bytes) = r.drift.unallocated {
        held.push(format!("at most {} without a tensor", size_text(bytes)));
    }
    if let Some((from, to, trials)) = r.drift.growth {
        held.push(format!(
            "between trials {} to {} over {}, in the worker that grew most",
            size_text(from),
            size_text(to),
            plural(trials as u64, "trial")
        ));
    }
    if !held.is_empty() {
        out.push(("workers hold", held.join("; ")));
    }
    if !r.ran_out.is_empty() {
        let numbers: Vec<String> = r.ran_out.iter().take(10).map(u64::to_string).collect();
        let more = r.ran_out.len().saturating_sub(numbers.len());
        let more = match more {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        let count = plural(r.ran_out.len() as u64, "trial");
        out.push(("ran out", format!("{count}: {}{more}", numbers.join(", "))));
    }
    out.extend(
        r.carries
            .map(|c| ("fit at a time", carries_text(c, around, r.device))),
    );
    out
}

fn peaks_text(p: Spread) -> String {
    format!(
        "{} to {}, median {}, one in twenty above {}",
        size_text(p.least),
        size_text(p.most),
        size_text(p.median),
        size_text(p.high)
    )
}

fn accuracy_text(a: Accuracy) -> String {
    format!(
        "{}; {:.1} % of the peaks within the upper one, median error {:.0} %",
        a.count,
        100.0 * a.covered,
        100.0 * a.median_error
    )
}

fn carries_text(c: Carries, around: Around, device: Device) -> String {
    let whose = match device {
        Device::Cpu => "of the host",
        Device::Cuda(_) => "of each GPU",
    };
    let asked = around
        .parallel
        .map_or_else(String::new, |n| format!("; the last run had {n}"));
    format!(
        "{} of median size, {} of the largest, in {:.0} % of {} {whose}{asked}",
        c.typical,
        c.largest,
        100.0 * around.part,
        size_text(c.capacity)
    )
}

fn factor_text(factor: &Factor) -> String {
    let row = |cells: [String; 4]| cells.to_vec();
    let mut rows = vec![row([
        printable(&factor.name),
        "trainings".into(),
        "median".into(),
        "most".into(),
    ])];
    rows.extend(factor.groups.iter().map(|g| {
        row([
            values_text(g),
            g.count.to_string(),
            size_text(g.peaks.median),
            size_text(g.peaks.most),
        ])
    }));
    let share = 100.0 * factor.share;
    let heading = format!("{} explains {share:.0} %\n", printable(&factor.name));
    heading + &table(&rows)
}

fn values_text(g: &Group) -> String {
    match g.low == g.high {
        true => format::value(&g.low),
        false => format!("{} to {}", format::value(&g.low), format::value(&g.high)),
    }
}

fn highest_text(highest: &[High]) -> String {
    let heading = ["trial", "peak", "", "parameters"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.extend(highest.iter().map(|h| {
        let note = if h.ran_out { "ran out of memory" } else { "" };
        let params = printable(&params_short(&h.params, &Params::new(), WIDTH));
        vec![job_text(h.job), size_text(h.peak), note.to_owned(), params]
    }));
    table(&rows)
}

fn job_text(job: Job) -> String {
    match job.purpose {
        Purpose::Search => job.number.to_string(),
        Purpose::Repeat(repeat) => format!("{} repeat {repeat}", job.number),
        Purpose::Test => format!("{} test", job.number),
    }
}

fn spread_json(p: Spread) -> Json {
    json!({ "least": p.least, "median": p.median, "high": p.high, "most": p.most })
}

fn factor_json(factor: &Factor) -> Json {
    let group = |g: &Group| {
        json!({
            "low": g.low.to_json(),
            "high": g.high.to_json(),
            "count": g.count,
            "peaks": spread_json(g.peaks),
        })
    };
    json!({
        "name": factor.name,
        "share": json_number(factor.share),
        "groups": factor.groups.iter().map(group).collect::<Vec<_>>(),
    })
}

fn high_json(high: &High) -> Json {
    let (purpose, repeat) = match high.job.purpose {
        Purpose::Search => ("search", 0),
        Purpose::Repeat(repeat) => ("repeat", repeat),
        Purpose::Test => ("test", 0),
    };
    json!({
        "number": high.job.number,
        "purpose": purpose,
        "repeat": repeat,
        "peak": high.peak,
        "out_of_memory": high.ran_out,
        "params": params_json(&high.params),
    })
}

fn accuracy_json(a: Accuracy) -> Json {
    json!({
        "count": a.count,
        "covered": json_number(a.covered),
        "median_error": json_number(a.median_error),
    })
}

fn carries_json(c: Carries) -> Json {
    json!({
        "capacity": c.capacity,
        "limit": c.limit,
        "typical": c.typical,
        "largest": c.largest,
    })
}
