//! How far values of one and the same point lie apart, by the repeats.

use std::collections::BTreeMap;

use serde::Serialize;

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

/// The noise that trainings of the same points with other seeds show, the finite values of each point; `None` where no
/// point has two values.
pub fn noise(mut values: BTreeMap<u64, Vec<f64>>) -> Option<Noise> {
    values.retain(|_, values| values.len() > 1);
    let squares = |values: &Vec<f64>| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        values.iter().map(|x| (x - mean).powi(2)).sum::<f64>()
    };
    let trainings = values.values().map(Vec::len).sum::<usize>();
    let free = trainings
        .checked_sub(values.len())
        .filter(|free| *free > 0)?;
    let deviation = (values.values().map(squares).sum::<f64>() / free as f64).sqrt();
    Some(Noise {
        deviation,
        difference: Z95 * 2f64.sqrt() * deviation,
        trainings,
        points: values.len(),
    })
}
