//! Pruners: whether a running trial is worth going on with. One file an algorithm. Pure.

mod median;

pub use median::MedianPruner;

use crate::config::PrunerSpec;
use crate::space::Params;
use crate::study::{Entry, History};

/// A rule that ends trials early.
pub trait Pruner: Send {
    /// The name in configurations (`pruner.kind`).
    fn name(&self) -> &'static str;

    /// Whether `trial`, which has just reported its latest intermediate value, should end.
    /// `history` holds the other trials (and this one). NaN reports count as worst.
    fn should_prune(&self, history: &History, trial: &Entry) -> bool;
}

/// Never prunes.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoPruner;

impl Pruner for NoPruner {
    fn name(&self) -> &'static str {
        "none"
    }

    fn should_prune(&self, _history: &History, _trial: &Entry) -> bool {
        false
    }
}

/// The pruner that a configuration asks for; `None` for an unknown kind. Missing options take
/// their defaults.
///
/// `auto` is `median` that waits for 10 COMPLETE trials at least and never judges the first report
/// (steps begin at 0 or 1), whatever the options say: the ranks of first steps mean little, and a
/// median of few trials too.
pub fn pruner(spec: &PrunerSpec) -> Option<Box<dyn Pruner>> {
    match spec.kind.as_str() {
        "none" => Some(Box::new(NoPruner)),
        "median" => Some(Box::new(median(&spec.options, MedianPruner::default()))),
        "auto" => {
            let asked = median(&spec.options, MedianPruner::default());
            Some(Box::new(MedianPruner {
                n_startup_trials: asked.n_startup_trials.max(10),
                n_warmup_steps: asked.n_warmup_steps.max(2),
                ..asked
            }))
        }
        _ => None,
    }
}

fn median(options: &Params, default: MedianPruner) -> MedianPruner {
    let number = |name: &str, otherwise: i64| {
        let given = options.get(name).and_then(|v| v.as_i64());
        given.filter(|n| *n >= 0).unwrap_or(otherwise)
    };
    let count = |name: &str, otherwise: usize| number(name, otherwise as i64) as usize;
    MedianPruner {
        n_startup_trials: count("n_startup_trials", default.n_startup_trials),
        n_warmup_steps: number("n_warmup_steps", default.n_warmup_steps),
        interval_steps: number("interval_steps", default.interval_steps),
        n_min_trials: count("n_min_trials", default.n_min_trials),
    }
}
