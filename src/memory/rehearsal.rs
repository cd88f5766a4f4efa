//! A rehearsal: a few steps at the ends of a space and in its middle, and what they tell of a whole
//! search before it begins.

use serde::{Deserialize, Serialize};

use super::{Estimate, Floor, Observation, Predictor};
use search::space::{Domain, Params, Space, Value};
use search::study;

/// Random points that shares and means over the space are estimated by.
const SAMPLE: usize = 300;

/// Random points that are looked at for the ends of the space, where a floor tells them apart.
const CANDIDATES: usize = 200;

/// What a few steps at one point have shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rehearsed {
    /// The point.
    pub params: Params,
    /// Everything that a training reads there.
    pub config: Params,
    /// Peak of the process on its device, in bytes.
    #[serde(default)]
    pub peak: Option<u64>,
    /// Seconds a training step.
    #[serde(default)]
    pub step_s: Option<f64>,
    /// Training steps of a whole training, as far as the task knows.
    #[serde(default)]
    pub steps: Option<u64>,
    /// It ran out of memory.
    #[serde(default)]
    pub out_of_memory: bool,
    /// Another error, in words.
    #[serde(default)]
    pub error: Option<String>,
}

impl Rehearsed {
    /// What it tells of the peak of a training.
    pub fn observation(&self) -> Option<Observation> {
        Some(Observation {
            config: self.config.clone(),
            peak: self.peak?,
            censored: self.out_of_memory,
        })
    }

    /// Seconds of a whole training without early stopping.
    fn trial_s(&self) -> Option<f64> {
        Some(self.step_s? * self.steps? as f64)
    }
}

/// What is expected of a search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Forecast {
    /// Share of the space's points that cannot fit alone.
    pub cannot_fit: f64,
    /// Peaks over the points that fit: the median trial, in bytes.
    pub typical: Option<Estimate>,
    /// So many median trials fit at a time.
    pub at_a_time: Option<u64>,
    /// Seconds a trial without early stopping, over the points that fit: low, mean, high.
    pub trial_s: Option<[f64; 3]>,
}

/// The points to rehearse, `count` of them at most: the middle first, then the ends. Where a floor
/// tells points apart they spread over its range; else they are the space's low and high corner and
/// one for each choice.
pub fn points(space: &Space, floor: Option<&Floor>, count: usize, seed: u64) -> Vec<Params> {
    let mut points = vec![space.point(&Params::new())];
    let low = space.build(|_, _, domain| end(domain, false));
    let high = space.build(|_, _, domain| end(domain, true));
    let mut corners = vec![high, low];
    for parameter in &space.parameters {
        let Domain::Categorical { choices } = &parameter.domain else {
            continue;
        };
        for choice in choices {
            corners.push(space.build(|_, other, domain| {
                match other.name == parameter.name && domain.contains(choice) {
                    true => choice.clone(),
                    false => end(domain, true),
                }
            }));
        }
    }
    // A floor that says the same everywhere tells nothing apart.
    let whole = |params: &Params| {
        let mut config = space.fixed.clone();
        config.extend(params.clone());
        config
    };
    let apart = |f: &&Floor| {
        let sizes: Vec<_> = corners.iter().map(|p| f(&whole(p))).collect();
        sizes.iter().any(|s| *s != sizes[0])
    };
    if let Some(floor) = floor.filter(apart) {
        let mut rng = study::rng(seed, 0, "rehearsal");
        corners
            .extend((0..CANDIDATES).map(|_| space.build(|_, _, domain| domain.sample(&mut rng))));
        let size = |p: &Params| {
            let bytes = floor(&whole(p));
            bytes.map_or(0.0, |b| (b.max(1) as f64).ln())
        };
        corners.retain(|p| space.violated(p).is_none());
        spread(&mut points, corners, count, size);
    } else {
        for corner in corners {
            if space.violated(&corner).is_none() && !points.contains(&corner) {
                points.push(corner);
            }
        }
    }
    points.truncate(count.max(1));
    points
}

/// Adds candidates until there are `count` points: each time the one whose size is farthest from
/// those that are there.
fn spread(
    points: &mut Vec<Params>,
    candidates: Vec<Params>,
    count: usize,
    size: impl Fn(&Params) -> f64,
) {
    let mut sizes: Vec<f64> = points.iter().map(&size).collect();
    let candidates: Vec<(f64, Params)> = candidates.into_iter().map(|p| (size(&p), p)).collect();
    while points.len() < count {
        let distance = |s: f64| {
            sizes
                .iter()
                .map(|o| (o - s).abs())
                .fold(f64::INFINITY, f64::min)
        };
        let farthest = candidates
            .iter()
            .filter(|(_, p)| !points.contains(p))
            .max_by(|(a, _), (b, _)| distance(*a).total_cmp(&distance(*b)));
        let Some((at, point)) = farthest else { return };
        sizes.push(*at);
        points.push(point.clone());
    }
}

/// The end of a domain: of choices that are numbers the least or greatest, else the first or last.
fn end(domain: &Domain, high: bool) -> Value {
    match domain {
        Domain::Float { .. } | Domain::Int { .. } => domain.from_unit(if high { 1.0 } else { 0.0 }),
        Domain::Categorical { choices } => {
            let number = |v: &&Value| v.as_f64().unwrap_or(0.0);
            let ordered = |a: &&Value, b: &&Value| number(a).total_cmp(&number(b));
            let found = match high {
                true => choices.iter().max_by(ordered),
                false => choices.iter().min_by(ordered),
            };
            found.cloned().unwrap_or_else(|| domain.middle())
        }
    }
}

/// What may be used of a device's memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caps {
    /// By trials that run together.
    pub together: u64,
    /// By one that runs alone.
    pub alone: u64,
}

/// What the rehearsed points say of a search of the space where so much of a device may be used.
/// `effective` makes everything that a training reads from a point; `predictor` knows what was
/// measured, these points included.
pub fn forecast(
    space: &Space,
    rehearsed: &[Rehearsed],
    predictor: &Predictor,
    effective: impl Fn(&Params) -> Params,
    caps: Option<Caps>,
    seed: u64,
) -> Forecast {
    let mut rng = study::rng(seed, 0, "forecast");
    let points: Vec<Params> = (0..SAMPLE)
        .map(|_| space.build(|_, _, domain| domain.sample(&mut rng)))
        .filter(|p| space.violated(p).is_none())
        .map(|p| effective(&p))
        .collect();
    let fits = |e: &Estimate| caps.is_none_or(|caps| e.expected <= caps.alone);
    let estimates: Vec<Option<Estimate>> = points.iter().map(|p| predictor.estimate(p)).collect();
    let feasible = |at: usize| estimates[at].as_ref().is_none_or(fits);
    let kept: Vec<usize> = (0..points.len()).filter(|at| feasible(*at)).collect();
    let mut peaks: Vec<Estimate> = kept.iter().filter_map(|at| estimates[*at]).collect();
    peaks.sort_by_key(|e| e.upper);
    let typical = peaks.get(peaks.len() / 2).copied();
    let times = durations(space, rehearsed);
    let trial_s = times.and_then(|times| {
        let found: Vec<Estimate> = (kept.iter())
            .filter_map(|at| times.estimate(&points[*at]))
            .collect();
        let mean = |of: fn(&Estimate) -> u64| {
            found.iter().map(|e| of(e) as f64 / 1e3).sum::<f64>() / found.len() as f64
        };
        (!found.is_empty()).then(|| [mean(|e| e.lower), mean(|e| e.expected), mean(|e| e.upper)])
    });
    Forecast {
        cannot_fit: 1.0 - kept.len() as f64 / points.len().max(1) as f64,
        typical,
        at_a_time: caps.and_then(|caps| Some((caps.together / typical?.upper.max(1)).max(1))),
        trial_s,
    }
}

/// Durations are predicted as peaks are: positive numbers over the same space, in milliseconds.
fn durations(space: &Space, rehearsed: &[Rehearsed]) -> Option<Predictor> {
    let mut times = Predictor::new(space.clone(), None);
    for point in rehearsed {
        if let Some(seconds) = point.trial_s().filter(|s| s.is_finite() && *s > 0.0) {
            times.learn(Observation {
                config: point.config.clone(),
                peak: (seconds * 1e3).ceil().max(1.0) as u64,
                censored: false,
            });
        }
    }
    (times.known() > 0).then_some(times)
}

#[cfg(test)]
mod tests {
    use super::*;
    use search::space::Parameter;

    fn space() -> Space {
        let choices = |of: &[i64]| Domain::Categorical {
            choices: of.iter().map(|v| Value::Int(*v)).collect(),
        };
        let length = Domain::Int {
            low: 64,
            high: 512,
            log: false,
            step: 32,
        };
        Space {
            parameters: vec![
                Parameter::new("train.batch_size", choices(&[8, 64, 16])),
                Parameter::new("tok.max_length", length),
            ],
            ..Space::default()
        }
    }

    fn int(params: &Params, name: &str) -> i64 {
        params[name].as_i64().unwrap()
    }

    /// A floor.
    fn product(config: &Params) -> Option<u64> {
        Some((int(config, "train.batch_size") * int(config, "tok.max_length")) as u64)
    }

    #[test]
    fn the_ends_of_the_space_and_every_choice_are_rehearsed() {
        let found = points(&space(), None, 8, 0);
        let corner = |batch, length| {
            let at = |p: &&Params| {
                int(p, "train.batch_size") == batch && int(p, "tok.max_length") == length
            };
            found.iter().any(|p| at(&p))
        };
        assert!(
            corner(64, 512) && corner(8, 64) && corner(16, 512),
            "{found:?}"
        );
        assert_eq!(points(&space(), None, 2, 0).len(), 2);
    }

    #[test]
    fn with_a_floor_the_points_spread_over_sizes() {
        let found = points(&space(), Some(&product), 6, 0);
        let mut sizes: Vec<u64> = found.iter().map(|p| product(p).unwrap()).collect();
        sizes.sort_unstable();
        sizes.dedup();
        assert_eq!(sizes.len(), 6);
        assert_eq!((sizes[0], sizes[5]), (8 * 64, 64 * 512));
    }

    #[test]
    fn the_forecast_counts_what_cannot_fit_and_how_long_a_trial_takes() {
        let space = space();
        let config = Params::from([
            ("train.batch_size".into(), Value::Int(8)),
            ("tok.max_length".into(), Value::Int(64)),
        ]);
        let rehearsed = Rehearsed {
            params: config.clone(),
            config,
            peak: Some(1 << 30),
            step_s: Some(0.5),
            steps: Some(100),
            out_of_memory: false,
            error: None,
        };
        let mut predictor = Predictor::new(space.clone(), None);
        predictor.learn(rehearsed.observation().unwrap());
        let of = |cap: Option<u64>| {
            let caps = cap.map(|alone| Caps {
                together: alone / 2,
                alone,
            });
            forecast(
                &space,
                std::slice::from_ref(&rehearsed),
                &predictor,
                Params::clone,
                caps,
                0,
            )
        };
        let roomy = of(Some(1 << 40));
        assert_eq!(roomy.cannot_fit, 0.0);
        assert!(roomy.at_a_time.unwrap() > 1);
        let [low, mean, high] = roomy.trial_s.unwrap();
        assert!(
            low <= mean && mean <= high && (10.0..250.0).contains(&mean),
            "{low} {mean} {high}"
        );
        assert_eq!(of(Some(1)).cannot_fit, 1.0);
        assert_eq!(of(None).at_a_time, None);
    }
}
