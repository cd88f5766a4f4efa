//! From a configuration's options to a pruner.

use super::{
    AshaPruner, AutoPruner, Horizon, HyperbandPruner, NoPruner, PatientPruner, PercentilePruner,
    Pruner, ThresholdPruner, WilcoxonPruner,
};
use crate::options::Options;
use crate::pruner::PrunerSpec;
use crate::space::Params;

/// The pruner that a configuration asks for; `None` for an unknown kind. Missing options take
/// their defaults. The pruner inside `patient` has its kind and options under `wrapped.`; with `none`,
/// patience alone decides.
pub fn pruner(spec: &PrunerSpec, horizon: &Horizon) -> Option<Box<dyn Pruner>> {
    let options = Options(&spec.options);
    let horizon = horizon.clone();
    Some(match spec.kind.as_str() {
        "none" => Box::new(NoPruner),
        "auto" => Box::new(auto(options, horizon)),
        "median" => Box::new(percentile(options, 50.0)),
        "percentile" => Box::new(percentile(options, options.float("percentile", 25.0))),
        "asha" => Box::new(asha(options, horizon)),
        "hyperband" => Box::new(hyperband(options, horizon)),
        "patient" => Box::new(patient(options, &horizon)?),
        "threshold" => Box::new(threshold(options)),
        "wilcoxon" => Box::new(wilcoxon(options)),
        _ => return None,
    })
}

fn auto(options: Options, horizon: Horizon) -> AutoPruner {
    let mut auto = AutoPruner::new(horizon);
    auto.n_startup_trials = options.count("n_startup_trials", auto.n_startup_trials);
    auto.n_warmup_steps = options.given("n_warmup_steps");
    auto.chance = options.float("chance", auto.chance);
    auto
}

fn percentile(options: Options, percentile: f64) -> PercentilePruner {
    let default = PercentilePruner::default();
    PercentilePruner {
        percentile,
        n_startup_trials: options.count("n_startup_trials", default.n_startup_trials),
        n_warmup_steps: options.int("n_warmup_steps", default.n_warmup_steps),
        interval_steps: options.int("interval_steps", default.interval_steps),
        n_min_trials: options.count("n_min_trials", default.n_min_trials),
    }
}

fn asha(options: Options, horizon: Horizon) -> AshaPruner {
    let default = AshaPruner::default();
    let rate = options.int("min_early_stopping_rate", 0);
    AshaPruner {
        min_resource: options.given("min_resource"),
        reduction_factor: options.int("reduction_factor", default.reduction_factor),
        min_early_stopping_rate: u32::try_from(rate).unwrap_or(u32::MAX),
        bootstrap_count: options.count("bootstrap_count", default.bootstrap_count),
        horizon,
    }
}

fn hyperband(options: Options, horizon: Horizon) -> HyperbandPruner {
    let default = HyperbandPruner::default();
    HyperbandPruner {
        min_resource: options.int("min_resource", default.min_resource),
        max_resource: options.given("max_resource"),
        reduction_factor: options.int("reduction_factor", default.reduction_factor),
        bootstrap_count: options.count("bootstrap_count", default.bootstrap_count),
        horizon,
    }
}

fn patient(options: Options, horizon: &Horizon) -> Option<PatientPruner> {
    let inner = options.0.iter().filter_map(|(name, value)| {
        let name = name.strip_prefix("wrapped.")?;
        Some((name.to_owned(), value.clone()))
    });
    let mut inner: Params = inner.collect();
    let kind = inner.remove("kind");
    let wrapped = match kind
        .as_ref()
        .and_then(|kind| kind.as_str())
        .unwrap_or("auto")
    {
        "none" => None,
        kind => Some(pruner(
            &PrunerSpec {
                kind: kind.to_owned(),
                options: inner,
            },
            horizon,
        )?),
    };
    Some(PatientPruner {
        patience: options.count("patience", 4),
        min_delta: options.float("min_delta", 0.0),
        wrapped,
    })
}

fn threshold(options: Options) -> ThresholdPruner {
    let default = ThresholdPruner::default();
    ThresholdPruner {
        lower: options.float("lower", default.lower),
        upper: options.float("upper", default.upper),
        n_warmup_steps: options.int("n_warmup_steps", default.n_warmup_steps),
        interval_steps: options.int("interval_steps", default.interval_steps),
    }
}

fn wilcoxon(options: Options) -> WilcoxonPruner {
    let default = WilcoxonPruner::default();
    WilcoxonPruner {
        p_threshold: options.float("p_threshold", default.p_threshold),
        n_startup_steps: options.count("n_startup_steps", default.n_startup_steps),
    }
}
