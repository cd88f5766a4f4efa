//! What a study's ledger comes to: which parameters explain the peaks, how good predictions were,
//! what workers hold on to, how many trials fit at a time, and what to do about it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Serialize, Serializer};

use super::Entry;
use device::Device;
use search::importance::{Effect, effects};
use search::space::{Params, Value};
use search::study::Job;

/// So many trials are shown.
const HIGHEST: usize = 5;

/// So many parameters are shown.
const FACTORS: usize = 4;

/// Values of a number that are shown each by itself; more are put together.
const VALUES: usize = 6;

/// Ranges that many values are put together in.
const RANGES: usize = 4;

/// Fewer predictions say nothing about how good they are.
const PREDICTIONS: usize = 20;

/// One in fifty peaks may lie above its upper prediction; more than twice as many are too many.
const TOO_MANY_ABOVE: f64 = 0.04;

/// Growth of a worker between trials that is worth a word, in bytes.
const GROWTH: u64 = 256 << 20;

/// A line of the ledger with what it is looked at beside.
#[derive(Debug, Clone, Copy)]
pub struct MeasuredTraining<'a> {
    /// What was trained.
    pub job: Job,
    /// The trial's parameters.
    pub params: &'a Params,
    /// Run and worker.
    pub worker: Option<(i64, u64)>,
    /// The line.
    pub entry: &'a Entry,
}

/// What is known beside the ledger.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReviewContext {
    /// Part of the memory that all trials together may use, above 0 and up to 1.
    pub part: f64,
    /// Slots of the last run.
    pub parallel: Option<u64>,
    /// The host's memory, in bytes, where nobody has noted it.
    pub host: Option<u64>,
}

/// Peaks in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// The least.
    pub least: u64,
    /// Half of them are smaller.
    pub median: u64,
    /// One in twenty is larger.
    pub high: u64,
    /// The largest.
    pub most: u64,
}

/// Trainings with similar values of a parameter.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ValueGroup {
    /// The least of the values.
    pub low: Value,
    /// The largest of them; for what is no number the same.
    pub high: Value,
    /// Trainings.
    pub count: usize,
    /// Their peaks.
    pub peaks: Spread,
}

/// A parameter that explains peaks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Factor {
    /// Its name.
    pub name: String,
    /// What part of the peaks' differences it explains, 0 to 1.
    pub share: f64,
    /// By its values, in ascending order of these; others by their peaks.
    pub groups: Vec<ValueGroup>,
}

/// A training with a high peak.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HighPeak {
    /// What was trained.
    #[serde(flatten, serialize_with = "job_fields")]
    pub job: Job,
    /// Its peak in bytes; where memory ran out, what it had until then.
    pub peak: u64,
    /// Memory ran out.
    #[serde(rename = "out_of_memory")]
    pub ran_out: bool,
    /// The trial's parameters.
    pub params: Params,
}

fn job_fields<S: Serializer>(job: &Job, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Fields {
        number: u64,
        purpose: &'static str,
        repeat: u32,
    }
    let (purpose, repeat) = job.purpose.columns();
    let number = job.number;
    let fields = Fields {
        number,
        purpose,
        repeat,
    };
    fields.serialize(serializer)
}

/// How good predictions were.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Accuracy {
    /// Trainings that were predicted and measured.
    pub count: usize,
    /// Part of them that stayed within the upper prediction; 0.98 is what it promises.
    pub covered: f64,
    /// Median distance of the peak from what was expected, as a part of the peak.
    pub median_error: f64,
}

/// What workers hold on to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Drift {
    /// Most that an allocator kept without a tensor in it after a trial, in bytes.
    pub unallocated: Option<u64>,
    /// The worker whose resident memory between trials grew most.
    pub growth: Option<Growth>,
}

/// A worker's resident memory between trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Growth {
    /// In bytes.
    pub from: u64,
    /// In bytes.
    pub to: u64,
    /// Over how many trials.
    pub trials: usize,
}

impl Growth {
    fn bytes(&self) -> u64 {
        self.to.saturating_sub(self.from)
    }
}

/// How many trainings a device carries at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Carries {
    /// Its memory, in bytes.
    pub capacity: u64,
    /// What trials may use of it together, in bytes.
    pub limit: u64,
    /// Of median size.
    pub typical: u64,
    /// Of the largest size.
    pub largest: u64,
}

/// What a ledger comes to.
#[derive(Debug, Clone, PartialEq)]
pub struct Review {
    /// The kind of device that it is about: that of the last line. Any index stands for all.
    pub device: Device,
    /// Trainings whose peak is known.
    pub measured: usize,
    /// Their peaks.
    pub peaks: Option<Spread>,
    /// Parameters that explain them, the first most.
    pub factors: Vec<Factor>,
    /// The trainings with the highest peaks.
    pub highest: Vec<HighPeak>,
    /// Predictions, where there were any.
    pub accuracy: Option<Accuracy>,
    /// See there.
    pub drift: Drift,
    /// Trials that ran out of memory.
    pub ran_out: BTreeSet<u64>,
    /// Where the device's memory is known.
    pub carries: Option<Carries>,
    /// One line.
    pub advice: String,
}

/// Looks at the ledger; `None` where nothing was measured. Lines in the order of the ledger.
pub fn review(lines: &[MeasuredTraining], around: ReviewContext, seed: u64) -> Option<Review> {
    let same = |a: Device, b: Device| (a == Device::Cpu) == (b == Device::Cpu);
    let device = lines.last()?.entry.device;
    let lines: Vec<MeasuredTraining> = (lines.iter().copied())
        .filter(|l| same(l.entry.device, device) && l.entry.peak().is_some())
        .collect();
    let told: Vec<(&Params, u64)> = lines
        .iter()
        .filter(|l| l.entry.tells_peak())
        .filter_map(|l| Some((l.params, l.entry.peak()?)))
        .collect();
    let peaks = spread(told.iter().map(|t| t.1));
    let capacity = lines.iter().rev().find_map(|l| l.entry.capacity);
    let host = around.host.filter(|_| device == Device::Cpu);
    let mut review = Review {
        device,
        measured: told.len(),
        factors: factors(&told, seed),
        highest: highest(&lines),
        accuracy: accuracy(&lines),
        drift: drift(&lines),
        ran_out: lines
            .iter()
            .filter(|l| l.entry.ran_out())
            .map(|l| l.job.number)
            .collect(),
        carries: capacity
            .or(host)
            .zip(peaks)
            .map(|(c, p)| carries(c, p, around.part)),
        peaks,
        advice: String::new(),
    };
    if review.highest.is_empty() {
        return None;
    }
    review.advice = advice(&review, around);
    Some(review)
}

/// Peaks by rank; `None` without any.
fn spread(peaks: impl Iterator<Item = u64>) -> Option<Spread> {
    let mut peaks: Vec<u64> = peaks.collect();
    peaks.sort_unstable();
    let last = peaks.len().checked_sub(1)?;
    Some(Spread {
        least: peaks[0],
        median: peaks[last / 2],
        high: peaks[last * 19 / 20],
        most: peaks[last],
    })
}

fn factors(told: &[(&Params, u64)], seed: u64) -> Vec<Factor> {
    let trials: Vec<(&Params, f64)> = told.iter().map(|(p, peak)| (*p, *peak as f64)).collect();
    let mut factors: Vec<Factor> = effects(&trials, seed)
        .into_iter()
        .filter_map(|(name, effect)| match effect {
            Effect::Shows { share, .. } => Some(Factor {
                groups: groups(told, &name),
                name,
                share,
            }),
            Effect::Constant | Effect::TooFew | Effect::Nothing { .. } => None,
        })
        .collect();
    factors.sort_by(|a, b| b.share.total_cmp(&a.share));
    factors.truncate(FACTORS);
    factors
}

/// Trainings by their values of a parameter.
fn groups(told: &[(&Params, u64)], name: &str) -> Vec<ValueGroup> {
    let with: Vec<(&Value, u64)> = told
        .iter()
        .filter_map(|(params, peak)| Some((params.get(name)?, *peak)))
        .collect();
    let numbers: Option<Vec<(f64, u64)>> = (with.iter())
        .map(|(value, peak)| Some((value.as_f64()?, *peak)))
        .collect();
    let Some(mut numbers) = numbers else {
        return by_choice(&with);
    };
    numbers.sort_by(|a, b| a.0.total_cmp(&b.0));
    let whole = with.iter().all(|(v, _)| v.as_i64().is_some());
    let value = |x: f64| match whole {
        true => Value::Int(x as i64),
        false => Value::Float(x),
    };
    let group = |part: &[(f64, u64)]| {
        Some(ValueGroup {
            low: value(part.first()?.0),
            high: value(part.last()?.0),
            count: part.len(),
            peaks: spread(part.iter().map(|p| p.1))?,
        })
    };
    let each: Vec<&[(f64, u64)]> = numbers.chunk_by(|a, b| a.0 == b.0).collect();
    if each.len() <= VALUES {
        return each.into_iter().filter_map(group).collect();
    }
    // Equal values stay together: a range ends where its share of the trainings is full.
    let mut ranges = Vec::new();
    let (mut start, mut end) = (0, 0);
    for part in each {
        end += part.len();
        if end * RANGES >= numbers.len() * (ranges.len() + 1) {
            ranges.extend(group(&numbers[start..end]));
            start = end;
        }
    }
    ranges
}

/// The largest peaks first.
fn by_choice(with: &[(&Value, u64)]) -> Vec<ValueGroup> {
    let mut by: BTreeMap<String, (&Value, Vec<u64>)> = BTreeMap::new();
    for (value, peak) in with {
        let entry = by.entry(value.to_json().to_string());
        entry.or_insert((value, Vec::new())).1.push(*peak);
    }
    let mut groups: Vec<ValueGroup> = by
        .into_values()
        .filter_map(|(value, peaks)| {
            Some(ValueGroup {
                low: value.clone(),
                high: value.clone(),
                count: peaks.len(),
                peaks: spread(peaks.into_iter())?,
            })
        })
        .collect();
    groups.sort_by_key(|g| std::cmp::Reverse(g.peaks.median));
    groups.truncate(VALUES);
    groups
}

fn highest(lines: &[MeasuredTraining]) -> Vec<HighPeak> {
    let mut by_job: BTreeMap<Job, HighPeak> = BTreeMap::new();
    for line in lines {
        let high = HighPeak {
            job: line.job,
            peak: line.entry.peak().unwrap_or(0),
            ran_out: line.entry.ran_out(),
            params: line.params.clone(),
        };
        let known = by_job.entry(line.job).or_insert_with(|| high.clone());
        let ran_out = known.ran_out || high.ran_out;
        if high.peak > known.peak {
            *known = high;
        }
        known.ran_out = ran_out;
    }
    let mut all: Vec<HighPeak> = by_job.into_values().collect();
    all.sort_by_key(|h| std::cmp::Reverse((h.ran_out, h.peak)));
    all.truncate(HIGHEST);
    all.sort_by_key(|h| std::cmp::Reverse(h.peak));
    all
}

fn accuracy(lines: &[MeasuredTraining]) -> Option<Accuracy> {
    let (mut covered, mut errors) = (0, Vec::new());
    for line in lines.iter().filter(|l| l.entry.tells_peak()) {
        if let (Some(predicted), Some(peak)) = (line.entry.predicted, line.entry.peak()) {
            covered += usize::from(peak <= predicted.upper);
            errors.push(predicted.expected.abs_diff(peak) as f64 / peak.max(1) as f64);
        }
    }
    errors.sort_by(f64::total_cmp);
    let median_error = *errors.get(errors.len().checked_sub(1)? / 2)?;
    Some(Accuracy {
        count: errors.len(),
        covered: covered as f64 / errors.len() as f64,
        median_error,
    })
}

fn drift(lines: &[MeasuredTraining]) -> Drift {
    let mut between: BTreeMap<(i64, u64), Vec<u64>> = BTreeMap::new();
    for line in lines {
        if let (Some(worker), Some(resident)) = (line.worker, line.entry.usage.resident_before) {
            between.entry(worker).or_default().push(resident);
        }
    }
    // What a worker holds before its first trial is not what trials have left.
    let grown = between.into_values().filter_map(|held| {
        let after_first = held.get(1..)?;
        let (first, last) = (*after_first.first()?, *after_first.last()?);
        Some(Growth {
            from: first,
            to: last,
            trials: after_first.len(),
        })
    });
    Drift {
        unallocated: lines.iter().filter_map(|l| l.entry.usage.unallocated).max(),
        growth: grown.filter(|g| g.trials > 1).max_by_key(Growth::bytes),
    }
}

fn carries(capacity: u64, peaks: Spread, part: f64) -> Carries {
    let limit = (capacity as f64 * part) as u64;
    Carries {
        capacity,
        limit,
        typical: limit / peaks.median.max(1),
        largest: limit / peaks.most.max(1),
    }
}

/// The first thing that is worth doing.
fn advice(review: &Review, around: ReviewContext) -> String {
    let strongest = review.factors.first().map(|f| f.name.as_str());
    if !review.ran_out.is_empty() {
        return match strongest {
            Some(name) => format!(
                "trials ran out of memory: lower the upper end of {name}, which explains most of \
                 the peaks"
            ),
            None => "trials ran out of memory: narrow what makes them large (batch size, length, \
                     model)"
                .into(),
        };
    }
    let grown = |g: Growth| g.bytes() > GROWTH.max(g.from / 4);
    if review.drift.growth.is_some_and(grown) {
        return "workers hold more from trial to trial: lower supervisor.recycle_after".into();
    }
    let short = |a: &Accuracy| a.count >= PREDICTIONS && 1.0 - a.covered > TOO_MANY_ABOVE;
    if review.accuracy.as_ref().is_some_and(short) {
        return "too many peaks lie above their upper predictions: lower gpu.memory, to leave room \
                for them"
            .into();
    }
    let (Some(carries), Some(parallel)) = (review.carries, around.parallel) else {
        return "nothing to do".into();
    };
    if carries.largest == 0 {
        "the largest trial passes the limit by itself, and so waits until it can run alone: narrow the \
         space, or raise gpu.memory"
            .into()
    } else if carries.largest < parallel {
        format!(
            "{parallel} of the largest trials do not fit together: --parallel {} always does",
            carries.largest
        )
    } else if carries.largest > parallel && review.device != Device::Cpu {
        // On the CPU it is the cores that are few.
        format!(
            "nothing to do; memory would carry --parallel {}",
            carries.largest
        )
    } else {
        "nothing to do".into()
    }
}

#[cfg(test)]
mod tests;
