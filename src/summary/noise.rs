//! How far values of one and the same point lie apart, by the repeats.

use std::collections::BTreeMap;

use serde::Serialize;

use search::study::{Purpose, TrialState};
use store::RepeatRecord;

/// The seeds' noise.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Noise {
    /// Standard deviation of trainings of one point, pooled over the points.
    pub deviation: f64,
    /// Two trainings of one point differ by less than this in 19 of 20 pairs.
    pub difference: f64,
    /// Trainings that it rests on.
    pub trainings: usize,
    /// Points that they are of.
    pub points: usize,
}

/// Half of the width of a 95 % interval, in standard deviations.
const Z95: f64 = 1.959_963_984_540_054;

/// The noise that the repeats show; `None` where no point has two values.
pub(crate) fn noise(repeats: &[RepeatRecord]) -> Option<Noise> {
    let mut of: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for repeat in repeats {
        let counts = matches!(repeat.job.purpose, Purpose::Repeat(_));
        let value = repeat.value.filter(|value| value.is_finite());
        if counts && repeat.state == TrialState::Complete {
            of.entry(repeat.job.number).or_default().extend(value);
        }
    }
    of.retain(|_, values| values.len() > 1);
    let squares = |values: &Vec<f64>| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        values.iter().map(|x| (x - mean).powi(2)).sum::<f64>()
    };
    let trainings = of.values().map(Vec::len).sum::<usize>();
    let free = trainings.checked_sub(of.len()).filter(|free| *free > 0)?;
    let deviation = (of.values().map(squares).sum::<f64>() / free as f64).sqrt();
    Some(Noise {
        deviation,
        difference: Z95 * 2f64.sqrt() * deviation,
        trainings,
        points: of.len(),
    })
}
