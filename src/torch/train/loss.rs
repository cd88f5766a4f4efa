//! What is minimised in training. Scores have a cross entropy of their own, the same for all trials.

use anyhow::Result;
use serde::Deserialize;
use tch::{Kind, Reduction, Tensor};

use task::TrialSpec;

/// The loss of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RowLoss {
    /// Cross entropy, with this part of each label spread evenly over all classes (Szegedy et al.,
    /// "Rethinking the Inception Architecture", 2016, as PyTorch has it).
    CrossEntropy {
        /// 0: plain.
        smoothing: f64,
    },
    /// `-alpha_y (1 - p)^gamma ln p` of the probability `p` of the row's class (Lin et al., "Focal
    /// Loss for Dense Object Detection", 2017).
    Focal {
        /// At least 0.
        gamma: f64,
        /// Of class 1 and all further ones; class 0 has `1 - alpha`.
        alpha: f64,
    },
}

/// How classes are weighted by their rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClassWeights {
    /// Equally.
    None,
    /// By `n / (classes n_c)`: all classes count the same.
    Weighted,
    /// By `(1 - beta) / (1 - beta^n_c)`, of mean 1 (Cui et al., "Class-Balanced Loss Based on
    /// Effective Number of Samples", 2019).
    #[serde(rename = "effective_num")]
    EffectiveNumber,
}

/// Cui et al.'s beta.
const BETA: f64 = 0.999;

/// What the loss is made of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LossSettings {
    /// Of a row.
    pub form: RowLoss,
    /// Of the classes.
    pub balance: ClassWeights,
}

impl LossSettings {
    /// Of a trial.
    ///
    /// # Errors
    /// A key is absent or of the wrong type.
    pub fn of(trial: &TrialSpec) -> Result<LossSettings> {
        let form = match trial.text("loss.cls.type")? {
            "ce" => RowLoss::CrossEntropy { smoothing: 0.0 },
            "ce_label_smooth" => RowLoss::CrossEntropy {
                smoothing: trial.float("loss.cls.label_smoothing")?,
            },
            "focal" => RowLoss::Focal {
                gamma: trial.float("loss.cls.gamma")?,
                alpha: trial.float("loss.cls.alpha")?,
            },
            other => anyhow::bail!("loss.cls.type = {other}"),
        };
        let balance = trial.word("loss.cls.balance")?;
        Ok(LossSettings { form, balance })
    }
}

/// The weights of classes with these numbers of rows; a class without rows counts as one with one.
pub fn weights(balance: ClassWeights, counts: &[usize]) -> Vec<f64> {
    let classes = counts.len() as f64;
    let rows = |n: &usize| (*n).max(1) as f64;
    match balance {
        ClassWeights::None => vec![1.0; counts.len()],
        ClassWeights::Weighted => {
            let all: f64 = counts.iter().map(rows).sum();
            counts.iter().map(|n| all / (classes * rows(n))).collect()
        }
        ClassWeights::EffectiveNumber => {
            let raw = |n: &usize| (1.0 - BETA) / (1.0 - BETA.powf(rows(n)));
            let sum: f64 = counts.iter().map(raw).sum();
            counts.iter().map(|n| raw(n) * classes / sum).collect()
        }
    }
}

/// A training's loss.
pub struct Loss {
    form: RowLoss,
    /// By class.
    weights: Vec<f64>,
    /// The same on the device; `None` where all are 1.
    on_device: Option<Tensor>,
}

impl Loss {
    /// For classes that have so many rows to train on.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn new(settings: LossSettings, counts: &[usize], device: tch::Device) -> Result<Loss> {
        let weights = weights(settings.balance, counts);
        let single: Vec<f32> = weights.iter().map(|w| *w as f32).collect();
        let on_device = match settings.balance {
            ClassWeights::None => None,
            ClassWeights::Weighted | ClassWeights::EffectiveNumber => {
                Some(Tensor::f_from_slice(&single)?.f_to_device(device)?)
            }
        };
        Ok(Loss {
            form: settings.form,
            weights,
            on_device,
        })
    }

    /// What rows of these classes weigh together; the mean loss of an update is the sum of its rows'
    /// losses divided by this. On the host: nothing waits for the device.
    pub fn weight(&self, classes: impl IntoIterator<Item = usize>) -> f64 {
        classes.into_iter().map(|class| self.weights[class]).sum()
    }

    /// The weighted loss of each row `[B]`, in 32-bit floats, of logits `[B, classes]` and classes
    /// `[B]`.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn of_rows(&self, logits: &Tensor, labels: &Tensor) -> Result<Tensor> {
        let logits = logits.f_to_kind(Kind::Float)?;
        let weights = self.on_device.as_ref();
        match self.form {
            RowLoss::CrossEntropy { smoothing } => Ok(logits.f_cross_entropy_loss(
                labels,
                weights,
                Reduction::None,
                -100,
                smoothing,
            )?),
            RowLoss::Focal { gamma, alpha } => {
                let minus = logits.f_log_softmax(-1, Kind::Float)?;
                let log_p = minus.f_gather(1, &labels.f_unsqueeze(1)?, false)?;
                let log_p = log_p.f_squeeze_dim(1)?;
                // 1 - p without cancellation. At 0 a power below 1 has no derivative.
                let missing = log_p.f_expm1()?.f_neg()?.f_clamp_min(1e-12)?;
                let rows = missing.f_pow_tensor_scalar(gamma)?.f_mul(&log_p)?.f_neg()?;
                // alpha for the classes from 1 on, 1 - alpha for class 0.
                let first = labels.f_eq(0)?.f_to_kind(Kind::Float)?;
                let scale = first.f_mul_scalar(1.0 - 2.0 * alpha)?.f_add_scalar(alpha)?;
                let rows = rows.f_mul(&scale)?;
                Ok(match weights {
                    Some(weights) => rows.f_mul(&weights.f_index_select(0, labels)?)?,
                    None => rows,
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGITS: [[f32; 3]; 2] = [[1.0, 0.0, -1.0], [0.5, 2.0, 0.0]];
    const LABELS: [i64; 2] = [0, 2];

    /// ln p of each class.
    fn logs(row: &[f32; 3]) -> Vec<f64> {
        let sum: f64 = row.iter().map(|x| f64::from(*x).exp()).sum();
        row.iter().map(|x| f64::from(*x) - sum.ln()).collect()
    }

    fn found(form: RowLoss, balance: ClassWeights, counts: [usize; 3]) -> (Vec<f32>, f64) {
        let loss = Loss::new(LossSettings { form, balance }, &counts, tch::Device::Cpu).unwrap();
        let logits = Tensor::from_slice(LOGITS.as_flattened()).view([2, 3]);
        let rows = loss.of_rows(&logits, &Tensor::from_slice(&LABELS)).unwrap();
        (
            Vec::try_from(rows).unwrap(),
            loss.weight(LABELS.map(|l| l as usize)),
        )
    }

    fn close(found: &[f32], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        for (f, e) in found.iter().zip(expected) {
            assert!((f64::from(*f) - e).abs() < 1e-6, "{found:?} {expected:?}");
        }
    }

    #[test]
    fn cross_entropy_is_weighted_and_smoothed_as_by_hand() {
        let plain = RowLoss::CrossEntropy { smoothing: 0.0 };
        let (a, b) = (logs(&LOGITS[0]), logs(&LOGITS[1]));
        let (rows, weight) = found(plain, ClassWeights::None, [10, 20, 70]);
        close(&rows, &[-a[0], -b[2]]);
        assert_eq!(weight, 2.0);
        let (rows, weight) = found(plain, ClassWeights::Weighted, [10, 20, 70]);
        let (first, last) = (100.0 / 30.0, 100.0 / 210.0);
        close(&rows, &[-a[0] * first, -b[2] * last]);
        assert!((weight - first - last).abs() < 1e-12);
        let smooth = RowLoss::CrossEntropy { smoothing: 0.3 };
        let (rows, _) = found(smooth, ClassWeights::None, [1, 1, 1]);
        let by_hand =
            |logs: &[f64], class: usize| -0.7 * logs[class] - 0.3 * logs.iter().sum::<f64>() / 3.0;
        close(&rows, &[by_hand(&a, 0), by_hand(&b, 2)]);
    }

    #[test]
    fn focal_loss_is_that_of_the_paper_with_alpha_for_all_classes_but_the_first() {
        let focal = RowLoss::Focal {
            gamma: 2.0,
            alpha: 0.8,
        };
        let (a, b) = (logs(&LOGITS[0])[0], logs(&LOGITS[1])[2]);
        let by_hand = |log: f64, alpha: f64| -alpha * (1.0 - log.exp()).powi(2) * log;
        let (rows, weight) = found(focal, ClassWeights::None, [1, 1, 1]);
        close(&rows, &[by_hand(a, 0.2), by_hand(b, 0.8)]);
        assert_eq!(weight, 2.0);
        let (rows, weight) = found(focal, ClassWeights::Weighted, [10, 20, 70]);
        let (first, last) = (100.0 / 30.0, 100.0 / 210.0);
        close(&rows, &[first * by_hand(a, 0.2), last * by_hand(b, 0.8)]);
        assert!((weight - first - last).abs() < 1e-12);
        let flat = RowLoss::Focal {
            gamma: 0.0,
            alpha: 0.5,
        };
        close(
            &found(flat, ClassWeights::None, [1, 1, 1]).0,
            &[-a / 2.0, -b / 2.0],
        );
    }

    #[test]
    fn the_gradient_of_focal_loss_is_finite_where_a_row_is_certain() {
        for gamma in [0.0, 0.5, 1.0, 5.0] {
            let form = RowLoss::Focal { gamma, alpha: 0.5 };
            let balance = ClassWeights::None;
            let loss =
                Loss::new(LossSettings { form, balance }, &[1, 1], tch::Device::Cpu).unwrap();
            let logits = Tensor::from_slice(&[200f32, -200.0, -200.0, 200.0]);
            let logits = logits.view([2, 2]).set_requires_grad(true);
            let rows = loss
                .of_rows(&logits, &Tensor::from_slice(&[0i64, 0]))
                .unwrap();
            rows.sum(Kind::Float).backward();
            let gradient: Vec<f32> = Vec::try_from(logits.grad().flatten(0, -1)).unwrap();
            assert!(
                gradient.iter().all(|g| g.is_finite()),
                "{gamma}: {gradient:?}"
            );
        }
    }

    #[test]
    fn effective_numbers_have_mean_one_and_lie_between_none_and_weighted() {
        let counts = [427, 1631];
        let effective = weights(ClassWeights::EffectiveNumber, &counts);
        // (1 - 0.999) / (1 - 0.999^n): 0.0028784 and 0.0012432.
        let raw = [
            0.001 / (1.0 - 0.999f64.powi(427)),
            0.001 / (1.0 - 0.999f64.powi(1631)),
        ];
        let ratio = raw[0] / raw[1];
        assert!((effective[0] / effective[1] - ratio).abs() < 1e-9);
        assert!((effective.iter().sum::<f64>() - 2.0).abs() < 1e-12);
        let weighted = weights(ClassWeights::Weighted, &counts);
        assert!((weighted[0] / weighted[1] - 1631.0 / 427.0).abs() < 1e-12);
        assert!(1.0 < ratio && ratio < 1631.0 / 427.0);
        assert_eq!(weights(ClassWeights::None, &counts), [1.0, 1.0]);
    }
}
