//! `tune memory`: what trials use, what explains it, and how many fit at a time.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value as Json;

use super::format::{self, facts, printable};
use super::{Answer, choose};
use device::Device;
use fault::size_text;
use memory::review::{
    Accuracy, Carries, Drift, Factor, HighPeak, MeasuredTraining, Review, ReviewContext, Spread,
    ValueGroup, review,
};
use messages::exit::Failure;
use report::format::table_of;
use report::format::{params_short, plural};
use search::space::Params;
use search::study::{Job, Purpose};
use store::{MemoryRecord, Store};

/// Parameters on a line take so many characters.
const WIDTH: usize = 70;

/// Part of the memory that trials may use where no run has recorded `gpu.memory`.
const PART: f64 = 0.8;

/// The same on the CPU, of `host.memory`.
const HOST_PART: f64 = 0.9;

/// What the trainings of a study used, as docs/schemas/memory.schema.json has it.
#[derive(Serialize, Default)]
pub struct MemoryReview {
    study: String,
    /// `cpu` or `cuda`; none where nothing was measured.
    device: Option<&'static str>,
    measured: usize,
    peaks: Option<Spread>,
    factors: Vec<Factor>,
    highest: Vec<HighPeak>,
    prediction: Option<Accuracy>,
    drift: Option<Drift>,
    out_of_memory: BTreeSet<u64>,
    carries: Option<Carries>,
    part: f64,
    parallel: Option<u64>,
    advice: Option<String>,
}

/// What the trainings of a study used; `host`: this machine's memory in bytes.
///
/// # Errors
/// No such study (2); reading failed (7).
pub fn memory(
    store: &Store,
    name: Option<&str>,
    host: Option<u64>,
) -> Result<MemoryReview, Failure> {
    let study = choose(store, name)?;
    let run = store.last_run(study.study_id)?;
    let operation = run.as_ref().map(|r| &r.record.operation);
    let asked = |key: &str| operation.and_then(|o| o.get(key));
    let records = store.memory(study.study_id)?;
    // What is looked at is the device of the last record.
    let on_cpu = |record: &MemoryRecord| record.entry.device == Device::Cpu;
    let (key, usual) = match records.last().is_some_and(on_cpu) {
        true => ("host_memory", HOST_PART),
        false => ("gpu_memory", PART),
    };
    let around = ReviewContext {
        part: asked(key).and_then(Json::as_f64).unwrap_or(usual),
        parallel: asked("parallel").and_then(Json::as_u64),
        host,
    };
    let unmeasured = MemoryReview {
        part: around.part,
        parallel: around.parallel,
        ..MemoryReview::default()
    };
    Ok(match reviewed(store, study.study_id, &records, around)? {
        None => MemoryReview {
            study: study.name,
            ..unmeasured
        },
        Some(found) => MemoryReview {
            study: study.name,
            device: Some(match found.device {
                Device::Cpu => "cpu",
                Device::Cuda(_) => "cuda",
            }),
            measured: found.measured,
            peaks: found.peaks,
            factors: found.factors,
            highest: found.highest,
            prediction: found.accuracy,
            drift: Some(found.drift),
            out_of_memory: found.ran_out,
            carries: found.carries,
            advice: Some(found.advice),
            ..unmeasured
        },
    })
}

/// The review of what the study's trainings have left in the ledger.
fn reviewed(
    store: &Store,
    study_id: i64,
    records: &[MemoryRecord],
    around: ReviewContext,
) -> Result<Option<Review>, Failure> {
    if records.is_empty() {
        return Ok(None);
    }
    let points = store.points(study_id)?;
    let attempts = store.all_attempts(study_id)?;
    let mut workers: BTreeMap<(u64, u32), (i64, u64)> = BTreeMap::new();
    for (number, of_trial) in &attempts {
        for a in of_trial {
            workers.insert((*number, a.attempt), (a.run_id, a.worker));
        }
    }
    let none = Params::new();
    let lines: Vec<MeasuredTraining> = (records.iter())
        .map(|record| MeasuredTraining {
            job: record.job,
            params: points.get(&record.job.number).unwrap_or(&none),
            worker: (workers.get(&(record.job.number, record.attempt)).copied())
                .filter(|_| record.job.searches()),
            entry: &record.entry,
        })
        .collect();
    Ok(review(&lines, around, 0))
}

impl Answer for MemoryReview {
    fn text(&self) -> String {
        let Some(advice) = &self.advice else {
            return format!(
                "nothing was measured in the study {} yet: each trial that ends is\n",
                printable(&self.study)
            );
        };
        let mut text = facts(&self.overview());
        for factor in &self.factors {
            text.push('\n');
            text.push_str(&factor_text(factor));
        }
        if self.factors.is_empty() {
            text.push_str("\nno parameter is known to explain the peaks");
            text.push_str(match self.measured < search::importance::FEWEST {
                true => ": too few trials\n",
                false => "\n",
            });
        }
        text.push_str("\nhighest\n");
        text.push_str(&highest_text(&self.highest));
        text.push_str(&format!("\nadvice: {advice}\n"));
        text
    }
}

impl MemoryReview {
    fn on_gpu(&self) -> bool {
        self.device == Some("cuda")
    }

    fn overview(&self) -> Vec<(&'static str, String)> {
        let what = match self.on_gpu() {
            false => "resident memory of the process that trains",
            true => "memory of the GPU, context included",
        };
        let trainings = plural(self.measured as u64, "training");
        let mut out = vec![
            ("study", self.study.clone()),
            ("measured", format!("{trainings}: {what}")),
        ];
        out.extend(self.peaks.map(|p| ("peaks", peaks_text(p))));
        let predictions = self.prediction.map(accuracy_text);
        out.extend(predictions.map(|text| ("predictions", text)));
        let held = self.drift.map(drift_text);
        out.extend(
            held.filter(|text| !text.is_empty())
                .map(|text| ("workers hold", text)),
        );
        if !self.out_of_memory.is_empty() {
            let numbers = self.out_of_memory.iter();
            let numbers: Vec<String> = numbers.take(10).map(u64::to_string).collect();
            let more = match self.out_of_memory.len().saturating_sub(numbers.len()) {
                0 => String::new(),
                n => format!(" and {n} more"),
            };
            let count = plural(self.out_of_memory.len() as u64, "trial");
            out.push(("ran out", format!("{count}: {}{more}", numbers.join(", "))));
        }
        out.extend(
            self.carries
                .map(|c| ("fit at a time", self.carries_text(c))),
        );
        out
    }

    fn carries_text(&self, c: Carries) -> String {
        let whose = if self.on_gpu() {
            "of each GPU"
        } else {
            "of the host"
        };
        let asked = (self.parallel).map_or_else(String::new, |n| format!("; the last run had {n}"));
        format!(
            "{} of median size, {} of the largest, in {:.0} % of {} {whose}{asked}",
            c.typical,
            c.largest,
            100.0 * self.part,
            size_text(c.capacity)
        )
    }
}

fn drift_text(drift: Drift) -> String {
    let unallocated = drift.unallocated;
    let unallocated = unallocated.map(|b| format!("at most {} without a tensor", size_text(b)));
    let growth = drift.growth.map(|growth| {
        format!(
            "between trials {} to {} over {}, in the worker that grew most",
            size_text(growth.from),
            size_text(growth.to),
            plural(growth.trials as u64, "trial")
        )
    });
    let parts: Vec<String> = unallocated.into_iter().chain(growth).collect();
    parts.join("; ")
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

fn factor_text(factor: &Factor) -> String {
    let rows = factor.groups.iter().map(|g| {
        [
            values_text(g),
            g.count.to_string(),
            size_text(g.peaks.median),
            size_text(g.peaks.most),
        ]
    });
    let (name, share) = (printable(&factor.name), 100.0 * factor.share);
    let table = table_of([name.as_str(), "trainings", "median", "most"], rows);
    format!("{name} explains {share:.0} %\n{table}")
}

fn values_text(g: &ValueGroup) -> String {
    match g.low == g.high {
        true => format::value(&g.low),
        false => format!("{} to {}", format::value(&g.low), format::value(&g.high)),
    }
}

fn highest_text(highest: &[HighPeak]) -> String {
    let rows = highest.iter().map(|h| {
        let note = if h.ran_out { "ran out of memory" } else { "" };
        let params = printable(&params_short(&h.params, &Params::new(), WIDTH));
        [job_text(h.job), size_text(h.peak), note.to_owned(), params]
    });
    table_of(["trial", "peak", "", "parameters"], rows)
}

fn job_text(job: Job) -> String {
    match job.purpose {
        Purpose::Search => job.number.to_string(),
        Purpose::Repeat(repeat) => format!("{} repeat {repeat}", job.number),
        Purpose::Test => format!("{} test", job.number),
    }
}
