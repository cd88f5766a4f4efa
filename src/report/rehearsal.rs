//! What a rehearsal has shown.

use serde_json::{Value as Json, json};

use search::space::Params;

use super::format::{params_short, plural};
use memory::rehearsal::{Forecast, Rehearsed};
use memory::size;
use messages::json_number;

/// A range of times is told whose ends differ by this factor at most.
const WIDEST: f64 = 20.0;

/// What a rehearsal is told with.
pub struct Rehearsal<'a> {
    /// The study.
    pub study: &'a str,
    /// Where.
    pub device: &'a str,
    /// What a trial may use alone of the device's memory, in bytes, where that is known.
    pub cap: Option<u64>,
    /// The goal: finished trials.
    pub trials: u64,
    /// What is expected.
    pub forecast: Forecast,
}

/// One rehearsed point, as a line: `3/8  4.1 GiB  0.31 s a step  train.batch_size 16`.
pub fn point_line(point: &Rehearsed, at: usize, count: usize) -> String {
    let peak = match (point.peak, point.out_of_memory) {
        (_, true) => "out of memory".to_owned(),
        (Some(peak), false) => size(peak),
        (None, false) => "memory unknown".to_owned(),
    };
    let pace = match (point.step_s, &point.error) {
        (_, Some(error)) => format!("  {error}"),
        (Some(step), None) => format!("  {} a step", seconds(step)),
        (None, None) => String::new(),
    };
    format!(
        "  {at}/{count}  {peak}{pace}  {}\n",
        params_short(&point.params, &Params::new(), 100)
    )
}

/// The forecast, as lines.
pub fn rehearsal_text(rehearsal: &Rehearsal<'_>) -> String {
    let forecast = &rehearsal.forecast;
    let mut text = String::new();
    if let Some(cap) = rehearsal.cap {
        text += &format!(
            "  {:.0} % of the space cannot fit in {} of the memory of {}\n",
            forecast.cannot_fit * 100.0,
            size(cap),
            rehearsal.device
        );
    }
    if let Some(typical) = forecast.typical {
        let fit = match forecast.at_a_time {
            // How many cores there are is another question.
            Some(n) if rehearsal.device == "cpu" => format!(": memory for {n} at a time"),
            Some(1) => ": 1 trial at a time fits".to_owned(),
            Some(n) => format!(": {n} trials at a time fit"),
            None => String::new(),
        };
        text += &format!(
            "  a typical trial takes {} ({} to {}){fit}\n",
            size(typical.expected),
            size(typical.lower),
            size(typical.upper)
        );
    }
    if let Some([low, mean, high]) = forecast.trial_s {
        let all = |seconds_each: f64| long(seconds_each * rehearsal.trials as f64);
        // Beyond that it says no more than that nobody knows.
        let range = match high <= low * WIDEST {
            true => format!(" ({} to {})", all(low), all(high)),
            false => " (a rough guess: the points differ too much for a range)".to_owned(),
        };
        text += &format!(
            "  {}: {} on {}, one after another{range}; early stopping, pruning and \
             trials at a time make it less\n",
            plural(rehearsal.trials, "trial"),
            all(mean),
            rehearsal.device,
        );
    }
    text
}

/// Everything, for scripts.
pub fn rehearsal_json(rehearsal: &Rehearsal<'_>, points: &[Rehearsed]) -> Json {
    let mib = |bytes: u64| json_number((bytes as f64 / 1048576.0).round());
    let points: Vec<Json> = (points.iter())
        .map(|p| {
            json!({
                "params": p.params,
                "peak_memory_mb": p.peak.map(mib),
                "step_s": p.step_s.map(json_number),
                "steps": p.steps,
                "out_of_memory": p.out_of_memory,
                "error": p.error,
            })
        })
        .collect();
    let forecast = &rehearsal.forecast;
    let span = |s: [f64; 3]| s.map(|x| json_number(x * rehearsal.trials as f64));
    json!({
        "study": rehearsal.study,
        "device": rehearsal.device,
        "memory_cap_mb": rehearsal.cap.map(mib),
        "points": points,
        "cannot_fit": rehearsal.cap.map(|_| forecast.cannot_fit),
        "typical_memory_mb": forecast.typical.map(|e| [mib(e.lower), mib(e.expected), mib(e.upper)]),
        "trials_at_a_time": forecast.at_a_time,
        "trials": rehearsal.trials,
        "duration_s": forecast.trial_s.map(span),
    })
}

fn seconds(s: f64) -> String {
    if s >= 1.0 {
        format!("{s:.1} s")
    } else {
        format!("{:.1} ms", s * 1e3)
    }
}

/// A long time, by its largest unit: `22 days`, `7.5 hours`.
fn long(s: f64) -> String {
    if s < 1.0 {
        return "less than a second".to_owned();
    }
    let (number, unit) = match s {
        _ if s >= 172_800.0 => (s / 86_400.0, "days"),
        _ if s >= 7_200.0 => (s / 3_600.0, "hours"),
        _ if s >= 120.0 => (s / 60.0, "minutes"),
        _ => (s, "seconds"),
    };
    match number >= 10.0 {
        true => format!("{number:.0} {unit}"),
        false => format!("{number:.1} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_by_their_largest_unit() {
        assert_eq!(long(22.4 * 86_400.0), "22 days");
        assert_eq!(long(3.0 * 3_600.0), "3.0 hours");
        assert_eq!(long(90.0), "90 seconds");
        assert_eq!(long(0.02), "less than a second");
        assert_eq!(seconds(0.0312), "31.2 ms");
    }

    #[test]
    fn a_range_is_told_only_where_it_says_something() {
        let told = |trial_s| {
            let forecast = Forecast {
                cannot_fit: 0.0,
                typical: None,
                at_a_time: None,
                trial_s: Some(trial_s),
            };
            rehearsal_text(&Rehearsal {
                study: "s",
                device: "cpu",
                cap: None,
                trials: 100,
                forecast,
            })
        };
        assert!(
            told([100.0, 500.0, 1500.0])
                .contains("14 hours on cpu, one after another (2.8 hours to 42 hours)")
        );
        let vague = told([0.001, 500.0, 1e7]);
        assert!(
            vague.contains("(a rough guess: the points differ too much for a range)"),
            "{vague}"
        );
    }
}
