//! How often the 80 % interval of what 100 more trials would gain held: searches come in by the line,
//! `{"losses": [...]}`, where null is a trial that was pruned; the forecast is made after each 50 trials, and what then
//! came is looked up.
//!
//! ```console
//! $ cargo run --release -p tune-search --example outlook < searches.jsonl
//! ```

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, Write};

use serde::Deserialize;
use tune_search::outlook::outlook;

#[derive(Deserialize)]
struct Search {
    losses: Vec<Option<f64>>,
}

/// What came of the forecasts that were made after so many trials.
#[derive(Default)]
struct Tally {
    forecasts: usize,
    held: usize,
    /// Nothing was gained: any interval from 0 on holds then.
    nothing: usize,
    /// Sums of what was promised (the median) and of what came, as parts of what had been gained.
    promised: f64,
    came: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut by_trials: BTreeMap<usize, Tally> = BTreeMap::new();
    for line in io::stdin().lines() {
        let search: Search = serde_json::from_str(&line?)?;
        for now in (50..search.losses.len().saturating_sub(99)).step_by(50) {
            judge(&search.losses, now, by_trials.entry(now).or_default());
        }
    }
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "after  forecasts  held  more  no gain  promised    came"
    )?;
    for (now, t) in &by_trials {
        let share = |n: usize| 100.0 * n as f64 / t.forecasts as f64;
        let more = t.forecasts - t.held;
        let mean = |sum: f64| 100.0 * sum / t.forecasts as f64;
        writeln!(
            out,
            "{now:5}  {:9}  {:3.0}%  {:3.0}%  {:6.0}%  {:7.2}%  {:6.2}%",
            t.forecasts,
            share(t.held),
            share(more),
            share(t.nothing),
            mean(t.promised),
            mean(t.came)
        )?;
    }
    Ok(())
}

fn judge(losses: &[Option<f64>], now: usize, tally: &mut Tally) {
    let Some(outlook) = outlook(&losses[..now]) else {
        return;
    };
    let least = |all: &[Option<f64>]| {
        let known = all.iter().flatten().copied();
        known.fold(f64::INFINITY, f64::min)
    };
    let best = least(&losses[..now]);
    let gain = (best - least(&losses[now..now + outlook.trials])).max(0.0);
    let gained = losses
        .iter()
        .flatten()
        .next()
        .map_or(0.0, |first| first - best);
    tally.forecasts += 1;
    tally.held += usize::from((outlook.low..=outlook.high).contains(&gain));
    tally.nothing += usize::from(gain == 0.0);
    if gained > 0.0 {
        tally.promised += outlook.median / gained;
        tally.came += gain / gained;
    }
}
