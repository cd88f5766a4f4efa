//! Numbers, durations and parameters as people read them. Pure.

use std::borrow::Cow;
use std::time::Duration;

use messages::printable;
use search::space::{Params, Value};

/// A duration with two units at most: `350 ms`, `4.2 s`, `3 min 12 s`, `2 h 05 min`, `3 d 04 h`.
pub fn duration(d: Duration) -> String {
    let ms = d.as_millis();
    if ms < 1000 {
        return format!("{ms} ms");
    }
    if ms < 59_950 {
        return format!("{:.1} s", d.as_secs_f64());
    }
    let s = (d.as_secs_f64() + 0.5) as u64;
    if s < 3600 {
        format!("{} min {:02} s", s / 60, s % 60)
    } else if s < 86_400 {
        format!("{} h {:02} min", s / 3600, s % 3600 / 60)
    } else {
        format!("{} d {:02} h", s / 86_400, s % 86_400 / 3600)
    }
}

/// A number with at most five significant digits, without trailing zeros: `0.71234`, `12`, `3e-5`.
/// Whole numbers below a billion keep all their digits.
pub fn value(x: f64) -> String {
    significant(x, 5)
}

fn significant(x: f64, digits: usize) -> String {
    if x.is_nan() {
        return "NaN".to_owned();
    }
    if x.is_infinite() {
        return if x > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    if x == 0.0 {
        return "0".to_owned();
    }
    if x.fract() == 0.0 && x.abs() < 1e9 {
        return format!("{x:.0}");
    }
    // The exponent after rounding: 0.99999996 has that of 1.
    let scientific = format!("{x:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let power: i32 = exponent.parse().unwrap_or(0);
    if (-3..9).contains(&power) {
        let decimals = usize::try_from(digits as i32 - 1 - power).unwrap_or(0);
        trimmed(&format!("{x:.decimals$}")).to_owned()
    } else {
        format!("{}e{exponent}", trimmed(mantissa))
    }
}

fn trimmed(number: &str) -> &str {
    if number.contains('.') {
        number.trim_end_matches('0').trim_end_matches('.')
    } else {
        number
    }
}

/// A parameter's value, floats with four significant digits.
pub fn param(value: &Value) -> String {
    match value {
        Value::Float(x) => significant(*x, 4),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Str(_) => value.to_string(),
    }
}

/// Parameters on one line of at most `width` characters: `lr=3.1e-5 batch_size=16 +3 more`. Those that differ from
/// `usual` come first. A name loses its section where what is left is unambiguous.
pub fn params_short(params: &Params, usual: &Params, width: usize) -> String {
    let mut told: Vec<_> = params.iter().collect();
    told.sort_by_key(|(name, v)| usual.get(*name) == Some(*v));
    let mut line = String::new();
    for (done, (name, v)) in told.iter().enumerate() {
        let item = format!("{}={}", short_name(name, params.keys()), param(v));
        let left = told.len() - done - 1;
        let rest = match left {
            0 => 0,
            _ => format!(" +{left} more").len(),
        };
        let space = if line.is_empty() { "" } else { " " };
        let length = line.chars().count() + space.len() + item.chars().count();
        if length + rest > width {
            return line + space + &format!("+{} more", left + 1);
        }
        line.push_str(space);
        line.push_str(&item);
    }
    line
}

/// One line a parameter, names aligned, values in full.
pub fn param_lines(params: &Params, indent: &str) -> Vec<String> {
    let width = params.keys().map(|k| k.chars().count()).max().unwrap_or(0);
    params
        .iter()
        .map(|(name, v)| format!("{indent}{name:width$} = {v}"))
        .collect()
}

/// A parameter's name without its section, where none of `all` ends in the same word.
pub fn short_name<'a, 'b>(name: &'a str, all: impl Iterator<Item = &'b String>) -> &'a str {
    let short = name.rsplit_once('.').map_or(name, |(_, last)| last);
    let same = all.filter(|k| k.rsplit('.').next() == Some(short));
    if same.count() == 1 { short } else { name }
}

/// `1 trial`, `2 trials`.
pub fn plural(n: u64, noun: &str) -> String {
    if n == 1 {
        format!("1 {noun}")
    } else {
        format!("{n} {noun}s")
    }
}

/// `3 of 9 trials finished`; where more have ended than were asked for, `10 trials finished, goal 9`.
pub fn finished_of(finished: u64, goal: u64) -> String {
    match finished <= goal {
        true => format!("{finished} of {} finished", plural(goal, "trial")),
        false => format!("{} finished, goal {goal}", plural(finished, "trial")),
    }
}

/// Rows in columns, the first row as heading; numbers to the right.
pub fn table<S: AsRef<str>>(rows: &[Vec<S>]) -> String {
    let clean = rows
        .iter()
        .map(|row| row.iter().map(|cell| printable(cell.as_ref())).collect());
    let rows: Vec<Vec<Cow<'_, str>>> = clean.collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| {
        rows.iter()
            .filter_map(|r| r.get(c))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let numeric = |c: usize| {
        let mut cells = rows
            .iter()
            .skip(1)
            .filter_map(|r| r.get(c))
            .filter(|t| !t.is_empty());
        cells.all(|t| t.parse::<f64>().is_ok())
    };
    let widths: Vec<(usize, bool)> = (0..columns).map(|c| (width(c), numeric(c))).collect();
    let mut out = String::new();
    for row in &rows {
        let start = out.len();
        for (cell, (width, right)) in row.iter().zip(&widths) {
            let blanks = std::iter::repeat_n(' ', width - cell.chars().count());
            if *right {
                out.extend(blanks);
                out.push_str(cell);
            } else {
                out.push_str(cell);
                out.extend(blanks);
            }
            out.push_str("  ");
        }
        out.truncate(start + out[start..].trim_end().len());
        out.push('\n');
    }
    out
}

/// The same with a heading, and as many cells in each row.
pub fn table_of<const N: usize>(
    heading: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let rows = rows.into_iter().map(Vec::from);
    let heading = Vec::from(heading.map(str::to_owned));
    table(&std::iter::once(heading).chain(rows).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_units_at_most() {
        let cases = [
            (350, "350 ms"),
            (4_200, "4.2 s"),
            (59_990, "1 min 00 s"),
            (192_000, "3 min 12 s"),
            (7_500_000, "2 h 05 min"),
            (273_600_000, "3 d 04 h"),
        ];
        for (ms, expected) in cases {
            assert_eq!(duration(Duration::from_millis(ms)), expected);
        }
    }

    #[test]
    fn values_have_the_digits_that_tell_them_apart() {
        let cases = [
            (0.712_344, "0.71234"),
            (0.5, "0.5"),
            (0.0, "0"),
            (-12.0, "-12"),
            (0.999_999_96, "1"),
            (123_456.7, "123457"),
            (3e-5, "3e-5"),
            (1.234_56e12, "1.2346e12"),
            (0.001_234_567, "0.0012346"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ];
        for (x, expected) in cases {
            assert_eq!(value(x), expected);
        }
    }

    #[test]
    fn short_names_stay_unambiguous_and_the_line_within_its_width() {
        let params = Params::from([
            ("head.dropout".to_owned(), Value::Float(0.1)),
            ("model.dropout".to_owned(), Value::Float(0.2)),
            ("optim.lr".to_owned(), Value::Float(3.123_456e-5)),
        ]);
        assert_eq!(
            params_short(&params, &Params::new(), 80),
            "head.dropout=0.1 model.dropout=0.2 lr=3.123e-5"
        );
        assert_eq!(
            params_short(&params, &Params::new(), 30),
            "head.dropout=0.1 +2 more"
        );
        assert_eq!(params_short(&params, &Params::new(), 5), "+3 more");
        assert_eq!(params_short(&Params::new(), &Params::new(), 5), "");
    }

    #[test]
    fn more_trials_than_were_asked_for_are_no_part_of_them() {
        assert_eq!(finished_of(1, 1), "1 of 1 trial finished");
        assert_eq!(finished_of(3, 9), "3 of 9 trials finished");
        assert_eq!(finished_of(10, 9), "10 trials finished, goal 9");
    }

    #[test]
    fn what_differs_from_the_usual_is_named_first() {
        let params = Params::from([
            ("a".to_owned(), Value::Int(1)),
            ("b".to_owned(), Value::Int(2)),
            ("c".to_owned(), Value::Int(3)),
        ]);
        let usual = Params::from([
            ("a".to_owned(), Value::Int(1)),
            ("b".to_owned(), Value::Int(7)),
        ]);
        assert_eq!(params_short(&params, &usual, 80), "b=2 c=3 a=1");
        assert_eq!(params_short(&params, &usual, 11), "b=2 +2 more");
    }
}
