//! How long rows are in tokens, and what becomes of those that are longer than `tok.max_length`.

use super::bounds;
use crate::data::Dataset;
use crate::tokens::Tokenised;
use config::Prepared;
use config::{Problem, StudySpec};

const STRIDE: &str = "tok.doc_stride";
const LENGTH: &str = "tok.max_length";

/// Classes whose lengths are told.
const CLASSES_TOLD: usize = 8;

/// Tells the lengths of the rows under a model's tokeniser, and checks `tok.doc_stride` against them.
pub fn review(
    spec: &StudySpec,
    name: &str,
    data: &Dataset,
    tokenised: &Tokenised,
    prepared: &mut Prepared,
) -> Vec<Problem> {
    let mut lengths: Vec<usize> = tokenised.full.iter().map(|t| t.ids.len()).collect();
    let by_class = by_class(data, &lengths);
    lengths.sort_unstable();
    let Some(longest) = lengths.last().copied() else {
        return Vec::new();
    };
    let mut tell = |fact: String| {
        prepared
            .facts
            .push(("model".into(), format!("{name}: {fact}")))
    };
    tell(format!(
        "tokens a row: median {}, 99 % at most {}, longest {longest}{by_class}",
        at(&lengths, 0.5),
        at(&lengths, 0.99),
    ));
    let Some((low, high)) = bounds(spec, LENGTH, name) else {
        return Vec::new();
    };
    let strides = bounds(spec, STRIDE, name).unwrap_or((0, 0));
    let mut limits = vec![low, high];
    limits.dedup();
    for limit in limits {
        let cut = lengths.iter().filter(|l| **l as i64 > limit).count();
        let share = 100.0 * cut as f64 / lengths.len() as f64;
        let all = lengths.len();
        tell(match strides.1 {
            0 => format!("tok.max_length {limit} cuts {cut} of {all} rows ({share:.1} %)"),
            _ => format!(
                "tok.max_length {limit}: {cut} of {all} rows ({share:.1} %) have more than one window"
            ),
        });
    }
    if low < high && longest as i64 <= low {
        prepared.warnings.push(format!(
            "{LENGTH}: no row is longer than {longest} tokens with the model {name}: from {low} to {high} it changes nothing"
        ));
    }
    let pair = data.rows.iter().any(|row| row.pair.is_some());
    let reach = Reach {
        name,
        longest: longest as i64,
        lengths: (low, high),
        strides,
        special: tokenised.special_tokens(pair) as i64,
    };
    reach.review(spec, &mut prepared.warnings)
}

/// How far rows, their limit and the windows' stride reach with one model, in tokens.
struct Reach<'a> {
    /// The model.
    name: &'a str,
    /// The longest row.
    longest: i64,
    /// The least and the greatest `tok.max_length`.
    lengths: (i64, i64),
    /// The least and the greatest `tok.doc_stride`.
    strides: (i64, i64),
    /// Special tokens of a row.
    special: i64,
}

impl Reach<'_> {
    /// Limits and strides that leave no room, and strides that nothing is long enough for.
    fn review(&self, spec: &StudySpec, warnings: &mut Vec<String>) -> Vec<Problem> {
        let Reach {
            name,
            longest,
            lengths: (low, high),
            strides: (least, greatest),
            special,
        } = *self;
        let room = |length: i64| length - special;
        let mut problems = Vec::new();
        if room(low) < 1 {
            let least = low - room(low) + 1;
            problems.push(spec.problem(
                LENGTH,
                format!("{low} with the model {name}"),
                format!("at least {least}: one token beside the special ones"),
            ));
        }
        if least > 0 && least >= room(high) {
            problems.push(problem(
                spec,
                format!("{least} with tok.max_length {high} and the model {name}"),
                format!(
                    "fewer than {}: windows have room for so many tokens beside the special ones",
                    room(high)
                ),
            ));
        } else if greatest > 0 && greatest >= room(low) {
            warnings.push(format!(
            "{STRIDE} up to {greatest} with tok.max_length down to {low}: windows with no more room \
             than that share half of it"
        ));
        }
        if greatest > 0 && longest <= low {
            let found = format!(
                "no row is longer than tok.max_length with the model {name} (the longest has {longest} \
             tokens, the least tok.max_length is {low}): {STRIDE} changes nothing"
            );
            let searched = spec.space.find(STRIDE).is_some();
            match searched && spec.possible("model.name").len() == 1 {
                true => {
                    let expected = "not to be searched: there are no windows".to_owned();
                    problems.push(problem(spec, found, expected));
                }
                false => warnings.push(found),
            }
        }
        problems
    }
}

fn problem(spec: &StudySpec, found: String, expected: String) -> Problem {
    spec.problem(STRIDE, found, expected)
}

/// `; by class, median: 0: 20, 1: 31`; nothing for many classes.
fn by_class(data: &Dataset, lengths: &[usize]) -> String {
    let samples = &data.samples;
    if samples.classes.len() > CLASSES_TOLD {
        return String::new();
    }
    let median = |class: usize| {
        let rows = samples.class.iter().zip(lengths);
        let mut own: Vec<usize> = rows
            .filter(|(of, _)| **of == class)
            .map(|(_, length)| *length)
            .collect();
        own.sort_unstable();
        at(&own, 0.5)
    };
    let each = samples.classes.iter().enumerate();
    let each: Vec<String> = each
        .map(|(class, name)| format!("{name}: {}", median(class)))
        .collect();
    format!("; median by class: {}", each.join(", "))
}

/// The value at this share of the way through sorted values; 0 of none.
fn at(sorted: &[usize], share: f64) -> usize {
    let last = sorted.len().saturating_sub(1);
    let place = (share * last as f64).round() as usize;
    sorted.get(place).copied().unwrap_or(0)
}
