//! Configurations as numbers: what varied among those that were learned, a group of columns a key.

use std::collections::BTreeMap;

use search::space::{Domain, Params, Space, Value};

/// Most values of a key that is no number which get a column each; rarer ones share the mean.
const LEVELS: usize = 24;
/// Positive numbers whose greatest is so many times the least are taken by their logarithm.
const WIDE: f64 = 3.0;
/// The name under which the floor's logarithm stands beside the keys.
const FLOOR: &str = "";

/// How a key's values become columns.
#[derive(Debug, Clone)]
enum Scale {
    /// One value in all: no column.
    Constant(Value),
    /// A number's place, and where it had more than two values the square of it.
    Number {
        log: bool,
        centre: f64,
        width: f64,
        low: f64,
        high: f64,
        /// Mean of the squares; `None`: no square.
        square: Option<f64>,
    },
    /// Whether it is this value, less the share of those that were.
    Levels(Vec<(Value, f64)>),
}

/// A key's columns.
#[derive(Debug, Clone)]
pub struct KeyColumns {
    key: String,
    scale: Scale,
    /// The share of configurations that have the key, where not all do.
    present: Option<f64>,
}

/// The columns of a sample of configurations.
#[derive(Debug, Clone)]
pub struct Columns {
    /// A group a key that varied, the floor's first where there is one.
    pub groups: Vec<KeyColumns>,
    constants: Vec<KeyColumns>,
}

impl KeyColumns {
    /// How many columns.
    pub fn width(&self) -> usize {
        let own = match &self.scale {
            Scale::Constant(_) => 0,
            Scale::Number { square, .. } => 1 + usize::from(square.is_some()),
            Scale::Levels(levels) => levels.len(),
        };
        own + usize::from(self.present.is_some())
    }

    /// The columns of one configuration; 0 is the sample's mean.
    pub fn push(&self, config: &Params, log_floor: Option<f64>, into: &mut Vec<f64>) {
        let floor = log_floor.map(Value::Float);
        let value = match self.key.as_str() {
            FLOOR => floor.as_ref(),
            key => config.get(key),
        };
        match &self.scale {
            Scale::Constant(_) => {}
            Scale::Number {
                log,
                centre,
                width,
                low,
                high,
                square,
            } => {
                let place = value.and_then(|v| number(v, *log));
                into.push(place.map_or(0.0, |x| (x - centre) / width));
                if let Some(mean) = square {
                    let inside = place.map(|x| (x.clamp(*low, *high) - centre) / width);
                    into.push(inside.map_or(0.0, |t| t * t - mean));
                }
            }
            Scale::Levels(levels) => {
                let column = |(level, share): &(Value, f64)| {
                    value.map_or(0.0, |v| f64::from(u8::from(v == level)) - share)
                };
                into.extend(levels.iter().map(column));
            }
        }
        if let Some(share) = self.present {
            into.push(f64::from(u8::from(value.is_some())) - share);
        }
    }
}

impl Columns {
    /// Of the sample: configurations with the logarithms of their floors, all or none.
    pub fn new(space: &Space, sample: &[(&Params, Option<f64>)]) -> Columns {
        let mut values: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for (config, _) in sample {
            for (key, value) in *config {
                values.entry(key).or_default().push(value);
            }
        }
        let floors: Vec<Value> = sample
            .iter()
            .filter_map(|s| s.1.map(Value::Float))
            .collect();
        if !floors.is_empty() {
            values.insert(FLOOR, floors.iter().collect());
        }
        let group = |(key, values): (&str, Vec<&Value>)| {
            let share = values.len() as f64 / sample.len() as f64;
            KeyColumns {
                scale: scale(log_in(space, key), &values),
                key: key.to_owned(),
                present: (values.len() < sample.len()).then_some(share),
            }
        };
        let (constants, groups) = values.into_iter().map(group).partition(|g| g.width() == 0);
        Columns { groups, constants }
    }

    /// How many things of a configuration were never seen: values of keys that are no numbers, and
    /// numbers of keys that had one value only. Keys that no configuration had count together once.
    pub fn novelties(&self, config: &Params) -> usize {
        let unseen = |group: &&KeyColumns| {
            let value = config.get(&group.key);
            match (&group.scale, value) {
                (Scale::Constant(seen), Some(value)) => value != seen,
                (Scale::Levels(seen), Some(value)) => {
                    seen.len() < LEVELS && !seen.iter().any(|(level, _)| level == value)
                }
                (Scale::Number { .. }, Some(value)) => value.as_f64().is_none(),
                (_, None) => group.key != FLOOR && group.present.is_none(),
            }
        };
        let all = || self.groups.iter().chain(&self.constants);
        let strange = config.keys().any(|key| !all().any(|g| g.key == *key));
        all().filter(unseen).count() + usize::from(strange)
    }
}

/// Whether the space says that the key's scale is logarithmic.
fn log_in(space: &Space, key: &str) -> Option<bool> {
    let (_, parameter) = space.find(key)?;
    match parameter.domain {
        Domain::Float { log, .. } | Domain::Int { log, .. } => log.then_some(true),
        Domain::Categorical { .. } => None,
    }
}

fn scale(log: Option<bool>, values: &[&Value]) -> Scale {
    if values.iter().all(|v| *v == values[0]) {
        return Scale::Constant(values[0].clone());
    }
    let numbers: Vec<f64> = values.iter().filter_map(|v| v.as_f64()).collect();
    let finite = numbers.iter().all(|x| x.is_finite());
    if numbers.len() < values.len() || !finite {
        return levels(values);
    }
    let range = |xs: &[f64]| {
        let low = xs.iter().copied().fold(f64::INFINITY, f64::min);
        let high = xs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (low, high)
    };
    let (low, high) = range(&numbers);
    let log = low > 0.0 && log.unwrap_or(high / low >= WIDE);
    let places: Vec<f64> = match log {
        true => numbers.iter().map(|x| x.ln()).collect(),
        false => numbers,
    };
    let n = places.len() as f64;
    let centre = places.iter().sum::<f64>() / n;
    let variance = places.iter().map(|x| (x - centre).powi(2)).sum::<f64>() / n;
    let width = variance.sqrt().max(1e-12);
    let (low, high) = range(&places);
    let between = |x: &f64| *x != low && *x != high;
    let square = places.iter().any(between).then_some(1.0);
    Scale::Number {
        log,
        centre,
        width,
        low,
        high,
        square,
    }
}

fn levels(values: &[&Value]) -> Scale {
    let mut counts: Vec<(&Value, usize)> = Vec::new();
    for value in values {
        match counts.iter_mut().find(|(level, _)| level == value) {
            Some((_, count)) => *count += 1,
            None => counts.push((value, 1)),
        }
    }
    // Stable: among equally frequent ones those seen first.
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts.truncate(LEVELS);
    let share = |count: usize| count as f64 / values.len() as f64;
    let level = |(level, count): (&Value, usize)| (level.clone(), share(count));
    Scale::Levels(counts.into_iter().map(level).collect())
}

fn number(value: &Value, log: bool) -> Option<f64> {
    let x = value.as_f64().filter(|x| x.is_finite())?;
    match log {
        true => (x > 0.0).then(|| x.ln()),
        false => Some(x),
    }
}
