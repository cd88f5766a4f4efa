//! The scale on which a parameter's kernels live.

use crate::space::Domain;

/// How a parameter enters a Parzen estimator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scale {
    /// One value only: nothing to learn.
    Fixed,
    /// Choices by index.
    Categorical { choices: usize },
    /// A number.
    Numeric(Range),
}

/// A numeric scale: the logarithm where `log`; a grid's cells reach half a step beyond its ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Range {
    /// Lower end on the scale.
    pub low: f64,
    /// Upper end on the scale.
    pub high: f64,
    /// Width of a cell in the parameter's own unit; 0 where continuous.
    pub step: f64,
    log: bool,
    least: f64,
    most: f64,
}

impl Scale {
    pub fn new(domain: &Domain) -> Scale {
        let domain = domain.clone().on_grid();
        if domain.single() {
            return Scale::Fixed;
        }
        match domain {
            Domain::Float {
                low,
                high,
                log,
                step,
            } => Scale::Numeric(Range::new(low, high, log, step.unwrap_or(0.0))),
            Domain::Int {
                low,
                high,
                log,
                step,
            } => Scale::Numeric(Range::new(low as f64, high as f64, log, step as f64)),
            Domain::Categorical { choices } => Scale::Categorical {
                choices: choices.len(),
            },
        }
    }

    /// A value in internal representation on the scale; NaN where it lies outside.
    pub fn position(&self, internal: f64) -> f64 {
        match self {
            Scale::Fixed => internal,
            Scale::Categorical { choices } if internal >= 0.0 && internal < *choices as f64 => {
                internal
            }
            Scale::Numeric(r) if internal >= r.least && internal <= r.most => r.forth(internal),
            Scale::Categorical { .. } | Scale::Numeric(_) => f64::NAN,
        }
    }
}

impl Range {
    fn new(least: f64, most: f64, log: bool, step: f64) -> Range {
        let mut range = Range {
            low: 0.0,
            high: 0.0,
            step,
            log,
            least,
            most,
        };
        range.low = range.forth(least - step / 2.0);
        range.high = range.forth(most + step / 2.0);
        range
    }

    /// From the parameter's unit to the scale.
    pub fn forth(&self, x: f64) -> f64 {
        if self.log { x.ln() } else { x }
    }

    /// From the scale to the parameter's unit.
    pub fn back(&self, x: f64) -> f64 {
        if self.log { x.exp() } else { x }
    }

    pub fn width(&self) -> f64 {
        self.high - self.low
    }
}
