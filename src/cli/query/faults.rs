//! `tune faults`: the night at a glance.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Answer;
use super::format::{duration, printable, shortened, time};
use report::format::{params_short, plural, table, table_of, value};
use search::space::Params;
use summary::{Night, OverTime};

/// The faults of a study, with bars where they are for a terminal.
#[derive(Serialize)]
pub struct Faults {
    #[serde(flatten)]
    night: Night,
    #[serde(skip)]
    bars: bool,
}

impl Faults {
    /// What is told of these faults.
    pub fn new(night: Night, bars: bool) -> Faults {
        Faults { night, bars }
    }
}

/// The widest text in a cell, in characters.
const CELL: usize = 60;

/// The widest line below a row, but for where it begins.
const BELOW: usize = 73;

/// Characters of the longest bar.
const BAR: f64 = 24.0;

impl Answer for Faults {
    fn text(&self) -> String {
        let night = &self.night;
        let study = printable(&night.study);
        let hours = |hours: f64| duration(3600.0 * hours);
        let trained = hours(night.hours.trained);
        if night.faulty == 0 {
            return format!(
                "{study}: no fault, in {} and {trained} of training\n",
                attempts(night.attempts)
            );
        }
        let mut text = format!(
            "{study}: {} of {} ended by a fault or from outside and cost {} of {trained} of training\n\n",
            night.faulty,
            attempts(night.attempts),
            hours(night.hours.lost)
        );
        let rows = night.kinds.iter().map(|cost| {
            [
                cost.kind.clone(),
                cost.attempts.to_string(),
                cost.trials.to_string(),
                hours(cost.hours),
                cost.what.clone(),
            ]
        });
        text += &table_of(["kind", "attempts", "trials", "lost", "what"], rows);
        text += &night
            .over_time
            .as_ref()
            .map_or_else(String::new, |over| self.over_time(over));
        text += &self.culprits();
        if night.devices.len() > 1 {
            let rows = night.devices.iter().map(|of| {
                let [attempts, faulty] = [of.attempts, of.faulty].map(|n| n.to_string());
                [of.device.clone(), attempts, faulty]
            });
            let table = table_of(["device", "attempts", "faulty"], rows);
            text += &format!("\n{table}");
        }
        text += &self.lifts();
        for advice in &night.next {
            text += &format!("\n{}\n  {}\n", printable(&advice.why), advice.command);
        }
        text
    }
}

fn attempts(n: u64) -> String {
    plural(n, "attempt")
}

/// `oom 5, hang 2`.
fn kinds(kinds: &BTreeMap<String, u64>) -> String {
    let mut kinds: Vec<(&String, &u64)> = kinds.iter().collect();
    kinds.sort_by(|a, b| b.1.cmp(a.1));
    let told = kinds.into_iter().map(|(kind, n)| format!("{kind} {n}"));
    told.collect::<Vec<_>>().join(", ")
}

impl Faults {
    fn over_time(&self, over: &OverTime) -> String {
        let length = duration(over.period_s as f64);
        let faults = |kinds: &BTreeMap<String, u64>| kinds.values().sum::<u64>();
        let most = over
            .periods
            .iter()
            .map(|p| faults(&p.kinds))
            .max()
            .unwrap_or(0);
        let heading = ["from", "attempts", "faults", "", "kinds"].map(str::to_owned);
        let mut rows = vec![heading.to_vec()];
        rows.extend(over.periods.iter().map(|period| {
            let n = faults(&period.kinds);
            let bar = (BAR * n as f64 / most.max(1) as f64).ceil() as usize;
            let from = period.from.trim_end_matches('Z').replace('T', " ");
            vec![
                time(&from),
                period.attempts.to_string(),
                n.to_string(),
                "#".repeat(bar),
                kinds(&period.kinds),
            ]
        }));
        if !self.bars {
            for row in &mut rows {
                row.remove(3);
            }
        }
        format!("\nover time, in steps of {length}:\n{}", table(&rows))
    }

    fn culprits(&self) -> String {
        if self.night.culprits.is_empty() {
            return String::new();
        }
        let heading = ["trial", "state", "faults", "lost", "victims", "device"];
        let mut rows = vec![heading.map(str::to_owned).to_vec()];
        rows.extend(self.night.culprits.iter().map(|culprit| {
            let state = match (culprit.ended_by_it, culprit.state.finished()) {
                (true, _) => format!("{} by it", culprit.state),
                (false, true) => culprit.state.to_string(),
                (false, false) => "to run again".to_owned(),
            };
            let devices = culprit.devices.iter().map(String::as_str);
            vec![
                culprit.number.to_string(),
                state,
                kinds(&culprit.kinds),
                duration(3600.0 * culprit.hours),
                culprit.victims.to_string(),
                devices.collect::<Vec<_>>().join(", "),
            ]
        }));
        if self.night.culprits.iter().all(|c| c.victims == 0) {
            for row in &mut rows {
                row.remove(4);
            }
        }
        // What is known of each takes lines of its own: beside the figures no terminal is wide enough for it.
        let about = self.night.culprits.iter().map(|culprit| {
            let first = culprit.detail.lines().next().unwrap_or_default();
            let params = params_short(&culprit.params, &Params::new(), BELOW);
            let told = [first, params.as_str()].map(|text| shortened(&printable(text), BELOW));
            let lines = told.iter().filter(|text| !text.is_empty());
            lines.map(|text| format!("       {text}\n")).collect()
        });
        let about = std::iter::once(String::new()).chain(about);
        let lines = table(&rows);
        let lines = lines.lines().zip(about);
        let told: String = lines
            .map(|(line, about)| format!("{line}\n{about}"))
            .collect();
        format!("\ntrials whose own fault it may be:\n{told}")
    }

    fn lifts(&self) -> String {
        if self.night.lifts.is_empty() {
            return String::new();
        }
        let heading = [
            "parameter",
            "values",
            "faulty",
            "times as frequent",
            "95 % interval",
        ];
        let rows = self.night.lifts.iter().map(|lift| {
            [
                shortened(&printable(&lift.name), CELL),
                lift.values.clone(),
                format!("{} of {}", lift.faulty, lift.trials),
                value(rounded(lift.ratio)),
                format!(
                    "{} to {}",
                    value(rounded(lift.low)),
                    value(rounded(lift.high))
                ),
            ]
        });
        format!(
            "\nvalues with which faults are more frequent than with others (the intervals hold for all together):\n{}",
            table_of(heading, rows)
        )
    }
}

/// A ratio: one decimal is enough.
fn rounded(x: f64) -> f64 {
    (10.0 * x).round() / 10.0
}
