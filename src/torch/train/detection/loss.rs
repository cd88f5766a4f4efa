//! What is minimised: the cross entropy or the focal loss of the probabilities, the distance of the thresholds, and the
//! overlap of the two binarised.

use anyhow::Result;
use tch::{Kind, Reduction, Tensor};

use super::network::Maps;
use task::TrialSpec;

/// Against a division by 0, in pixels.
const EPS: f64 = 1e-6;

/// The loss of the probabilities.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ProbabilityLoss {
    /// Cross entropy of all pixels in texts and of the worst ones outside.
    Balanced {
        /// So many outside for each inside.
        negatives: f64,
    },
    /// `-alpha_y (1 - p)^gamma ln p` of the probability `p` of what the pixel is (Lin et al., "Focal Loss for Dense Object
    /// Detection", 2017), the mean of all that matter.
    Focal {
        /// At least 0.
        gamma: f64,
        /// Of pixels in texts; those outside have `1 - alpha`.
        alpha: f64,
    },
}

/// What the loss is made of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LossSettings {
    /// Of the probabilities.
    pub probability: ProbabilityLoss,
    /// How much it counts.
    pub probability_weight: f64,
    /// How much the mean absolute error of the thresholds counts.
    pub threshold_weight: f64,
    /// How much 1 - Dice of the binary map counts.
    pub binary_weight: f64,
    /// The steepness k of the binary map, sigmoid(k (P - T)).
    pub steepness: f64,
}

impl LossSettings {
    /// Of a trial.
    ///
    /// # Errors
    /// A key is absent or of the wrong type.
    pub fn of(trial: &TrialSpec) -> Result<LossSettings> {
        let probability = match trial.text("loss.prob.type")? {
            "bce" => ProbabilityLoss::Balanced {
                negatives: trial.float("loss.prob.negatives")?,
            },
            "focal" => ProbabilityLoss::Focal {
                gamma: trial.float("loss.prob.gamma")?,
                alpha: trial.float("loss.prob.alpha")?,
            },
            other => anyhow::bail!("loss.prob.type = {other}"),
        };
        Ok(LossSettings {
            probability,
            probability_weight: trial.float("loss.prob.weight")?,
            threshold_weight: trial.float("loss.threshold.weight")?,
            binary_weight: trial.float("loss.binary.weight")?,
            steepness: trial.float("loss.binary.k")?,
        })
    }
}

/// The labels of a batch: `[B, H, W]` each, as [`detection::labels`] says.
pub struct Targets {
    pub shrunk: Tensor,
    pub shrunk_mask: Tensor,
    pub threshold: Tensor,
    pub threshold_mask: Tensor,
    /// Pixels that matter in texts and outside of them: counted where the labels were made, so that nothing waits for the
    /// device.
    pub counts: Pixels,
}

/// Pixels of the shrunk map that matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pixels {
    /// In shrunk texts.
    pub inside: usize,
    /// Outside of them.
    pub outside: usize,
}

impl Pixels {
    /// How many of those outside count, where `ratio` do for each inside. A thousandth do in any case: from pages without
    /// text it is learned, too, that nothing is there.
    fn negatives(self, ratio: f64) -> usize {
        let wanted = (ratio * self.inside as f64) as usize;
        wanted.max(self.outside / 1000).min(self.outside)
    }
}

/// The losses of a batch, each a scalar.
pub struct Losses {
    pub probability: Tensor,
    pub threshold: Tensor,
    pub binary: Tensor,
}

impl LossSettings {
    /// The losses of maps.
    ///
    /// # Errors
    /// The maps are of another size than the labels, or libtorch throws.
    pub fn losses(&self, maps: &Maps, targets: &Targets) -> Result<Losses> {
        let logits = |map: &Tensor| map.f_to_kind(Kind::Float)?.f_squeeze_dim(1);
        let (probability, threshold) = (logits(&maps.probability)?, logits(&maps.threshold)?);
        let p = probability.f_sigmoid()?;
        let t = threshold.f_sigmoid()?;
        Ok(Losses {
            probability: self.of_probability(&probability, targets)?,
            threshold: masked_mean(
                &t.f_sub(&targets.threshold)?.f_abs()?,
                &targets.threshold_mask,
            )?,
            // A logistic function of the difference: with an exponential, half precision would overflow.
            binary: dice(
                &p.f_sub(&t)?.f_mul_scalar(self.steepness)?.f_sigmoid()?,
                &targets.shrunk,
                &targets.shrunk_mask,
            )?,
        })
    }

    /// Their sum, weighted.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn total(&self, losses: &Losses) -> Result<Tensor> {
        let part = |loss: &Tensor, weight: f64| loss.f_mul_scalar(weight);
        Ok(part(&losses.probability, self.probability_weight)?
            .f_add(&part(&losses.threshold, self.threshold_weight)?)?
            .f_add(&part(&losses.binary, self.binary_weight)?)?)
    }

    fn of_probability(&self, logits: &Tensor, targets: &Targets) -> Result<Tensor> {
        let (truth, mask) = (&targets.shrunk, &targets.shrunk_mask);
        let each = cross_entropy(logits, truth)?;
        match self.probability {
            ProbabilityLoss::Balanced { negatives } => {
                let inside = truth.f_mul(mask)?;
                let outside = mask.f_sub(&inside)?;
                let count = targets.counts.negatives(negatives);
                // A selection, not a sort. How many is known on the host.
                let (worst, _) = (each.f_mul(&outside)?.f_flatten(0, -1)?).f_topk(
                    count as i64,
                    0,
                    true,
                    false,
                )?;
                let sum = each.f_mul(&inside)?.f_sum(Kind::Float)?;
                let sum = sum.f_add(&worst.f_sum(Kind::Float)?)?;
                let all = (targets.counts.inside + count) as f64 + EPS;
                Ok(sum.f_div_scalar(all)?)
            }
            ProbabilityLoss::Focal { gamma, alpha } => {
                // The cross entropy is -ln p; at p = 1 a power below 1 has no derivative.
                let missing = each.f_neg()?.f_expm1()?.f_neg()?.f_clamp_min(1e-12)?;
                let scale = truth
                    .f_mul_scalar(2.0 * alpha - 1.0)?
                    .f_add_scalar(1.0 - alpha)?;
                let focal = missing
                    .f_pow_tensor_scalar(gamma)?
                    .f_mul(&each)?
                    .f_mul(&scale)?;
                masked_mean(&focal, mask)
            }
        }
    }
}

/// The cross entropy of each pixel's logit with 0 or 1.
///
/// # Errors
/// libtorch throws.
pub fn cross_entropy(logits: &Tensor, truth: &Tensor) -> Result<Tensor> {
    let none: Option<Tensor> = None;
    let none_either: Option<Tensor> = None;
    Ok(logits.f_binary_cross_entropy_with_logits(truth, none, none_either, Reduction::None)?)
}

/// The mean where a mask is 1; 0 where that is nowhere.
fn masked_mean(values: &Tensor, mask: &Tensor) -> Result<Tensor> {
    let sum = values.f_mul(mask)?.f_sum(Kind::Float)?;
    Ok(sum.f_div(&mask.f_sum(Kind::Float)?.f_add_scalar(EPS)?)?)
}

/// 1 less twice the overlap over the sum of both.
fn dice(binary: &Tensor, truth: &Tensor, mask: &Tensor) -> Result<Tensor> {
    let binary = binary.f_mul(mask)?;
    let truth = truth.f_mul(mask)?;
    let common = binary.f_mul(&truth)?.f_sum(Kind::Float)?;
    let both = binary
        .f_sum(Kind::Float)?
        .f_add(&truth.f_sum(Kind::Float)?)?;
    let overlap = common.f_mul_scalar(2.0)?.f_div(&both.f_add_scalar(EPS)?)?;
    Ok(overlap.f_neg()?.f_add_scalar(1.0)?)
}
