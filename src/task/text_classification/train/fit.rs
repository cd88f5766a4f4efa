//! The training loop of one trial.

use anyhow::{Result, ensure};
use tch::{Kind, Reduction, Tensor};

use super::model::Model;
use super::optimizer::{self, Optimizer};
use super::prefix::Input;
use super::rows::Rows;
use super::score::{Scored, cross_entropy};
use crate::study::{Direction, rng};
use crate::task::text_classification::batches::bucketed;
use crate::task::text_classification::schedule::factor;
use crate::task::{Decision, Ended, Reporter, TrialSpec, test_metric};

/// What the loop reads of a trial's configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    seed: u64,
    epochs: u32,
    patience: u32,
    min_delta: f64,
    batch_size: usize,
    /// Rows that are computed at a time: a batch, or a part of one.
    micro_batch: usize,
    /// Steps of a rehearsal.
    rehearse: Option<usize>,
    lr: f64,
    warmup_ratio: f64,
    optimizer: optimizer::Settings,
}

impl Settings {
    /// Of a trial.
    ///
    /// # Errors
    /// A key is absent or of the wrong type.
    pub fn of(trial: &TrialSpec) -> Result<Settings> {
        let batch_size = usize::try_from(trial.int("train.batch_size")?)?;
        let parts = 1usize.checked_shl(trial.halvings).unwrap_or(usize::MAX);
        Ok(Settings {
            batch_size,
            micro_batch: batch_size.div_ceil(parts).max(1),
            rehearse: trial.rehearse.map(|steps| steps as usize),
            seed: trial.seed,
            epochs: u32::try_from(trial.int("train.epochs")?)?,
            patience: u32::try_from(trial.int("train.patience")?)?,
            min_delta: trial.float("train.min_delta")?,
            lr: trial.float("optim.lr")?,
            warmup_ratio: trial.float("sched.warmup_ratio")?,
            optimizer: optimizer::Settings {
                weight_decay: trial.float("optim.weight_decay")?,
                clip_grad: trial.float("train.clip_grad")?,
            },
        })
    }
}

/// What is trained on: rows, which of them train, validate and test, and what the model reads.
pub struct Material<'a> {
    /// All rows.
    pub rows: &'a Rows,
    /// Numbers of the training rows.
    pub train: &'a [usize],
    /// Numbers of the rows that validate.
    pub validation: &'a [usize],
    /// Numbers of the rows that test; none but in a test.
    pub test: &'a [usize],
    /// `[n]`: what each row counts in training, in the mean 1; `None`: all the same.
    pub shares: Option<Tensor>,
    /// Classes.
    pub classes: usize,
    /// What the first trainable layer reads.
    pub input: &'a Input,
}

/// What early stopping watches.
pub struct Objective<'a> {
    /// The metric's name.
    pub metric: &'a str,
    /// The direction.
    pub direction: Direction,
}

/// Trains `model` to its end.
///
/// # Errors
/// The supervisor is gone, libtorch throws, or the logits are misshapen.
pub fn fit(
    model: &Model,
    material: &Material<'_>,
    settings: &Settings,
    objective: &Objective<'_>,
    reporter: &mut dyn Reporter,
) -> Result<Ended> {
    let mut optimizer = Optimizer::new(&model.parameters(), settings.optimizer)?;
    let validation = Scored::new(material, material.validation)?;
    let test = match material.test {
        [] => None,
        rows => Some(Scored::new(material, rows)?),
    };
    let mut best = None;
    let mut patience = Patience::new(settings, objective.direction);
    for epoch in 1..=settings.epochs {
        let trained = train_epoch(model, material, settings, epoch, &mut optimizer, reporter)?;
        let train_loss = match trained {
            Trained::Mean(loss) => loss,
            Trained::NotFinite(at) => return Ok(Ended::Diverged { at }),
            Trained::Rehearsed => return Ok(Ended::Completed),
        };
        let mut metrics = validation.score(model, material, reporter)?;
        if let Some((name, value)) = metrics.iter().find(|(_, v)| !v.is_finite()) {
            let at = format!("epoch {epoch}, validation: {name} {value}");
            return Ok(Ended::Diverged { at });
        }
        metrics.insert("train_loss".to_owned(), train_loss);
        let Some(value) = metrics.get(objective.metric).copied() else {
            anyhow::bail!("the task has no metric {}", objective.metric);
        };
        let improves = best.is_none_or(|best| objective.direction.better(value, best));
        if let Some(test) = test.as_ref().filter(|_| improves) {
            best = Some(value);
            let scored = test.score(model, material, reporter)?;
            let named = |(name, value): (String, f64)| (test_metric(&name), value);
            metrics.extend(scored.into_iter().map(named));
        }
        match reporter.epoch(epoch, &metrics)? {
            Decision::Continue => {}
            Decision::Prune => return Ok(Ended::Pruned),
        }
        if patience.exhausted(value) {
            break;
        }
    }
    Ok(Ended::Completed)
}

/// How an epoch's steps went.
enum Trained {
    /// The mean loss.
    Mean(f64),
    /// Where the loss was NaN or infinite first.
    NotFinite(String),
    /// It was a rehearsal.
    Rehearsed,
}

/// Steps between two looks at the losses: one synchronisation for as many.
const LOOK_EVERY: usize = 64;

fn train_epoch(
    model: &Model,
    material: &Material<'_>,
    settings: &Settings,
    epoch: u32,
    optimizer: &mut Optimizer,
    reporter: &mut dyn Reporter,
) -> Result<Trained> {
    let rows = material.rows;
    let mut generator = rng(settings.seed, u64::from(epoch), "batches");
    let lengths: Vec<u32> = (material.train.iter())
        .map(|row| rows.lengths[*row])
        .collect();
    let mut batches = bucketed(&lengths, settings.batch_size, &mut generator);
    let total = batches.len() as u64 * u64::from(settings.epochs);
    if let Some(steps) = settings.rehearse {
        reporter.plan(total);
        largest(&mut batches, &lengths, steps);
    }
    for row in batches.iter_mut().flatten() {
        *row = material.train[*row];
    }
    let steps = batches.len();
    let done = steps as u64 * u64::from(epoch - 1);
    let (mut pending, mut sum) = (Vec::with_capacity(LOOK_EVERY), 0.0);
    for (step, (numbers, on_device)) in batches.iter().zip(rows.upload(&batches)?).enumerate() {
        let loss = backward(model, material, numbers, &on_device, settings.micro_batch)?;
        let factor = factor(done + step as u64, total, settings.warmup_ratio);
        optimizer.step(settings.lr * factor)?;
        pending.push(loss);
        reporter.step();
        if pending.len() == LOOK_EVERY || step + 1 == steps {
            let losses: Vec<f32> = Vec::try_from(Tensor::f_stack(&pending, 0)?)?;
            if let Some(at) = losses.iter().position(|l| !l.is_finite()) {
                let first = step + 2 - losses.len() + at;
                return Ok(Trained::NotFinite(format!(
                    "epoch {epoch}, step {first} of {steps}: training loss {}",
                    losses[at]
                )));
            }
            sum += losses.iter().map(|l| f64::from(*l)).sum::<f64>();
            pending.clear();
        }
    }
    match settings.rehearse {
        None => Ok(Trained::Mean(sum / steps.max(1) as f64)),
        Some(_) => Ok(Trained::Rehearsed),
    }
}

/// Keeps the `count` batches that need the most memory: those with the most tokens, padding
/// included, largest first.
fn largest(batches: &mut Vec<Vec<usize>>, lengths: &[u32], count: usize) {
    let tokens = |batch: &Vec<usize>| {
        let longest = batch.iter().map(|row| lengths[*row]).max();
        u64::from(longest.unwrap_or(0)) * batch.len() as u64
    };
    batches.sort_by_key(|batch| std::cmp::Reverse(tokens(batch)));
    batches.truncate(count.max(1));
}

/// The gradients of a batch's mean loss, computed in parts of `micro_batch` rows, and that loss.
fn backward(
    model: &Model,
    material: &Material<'_>,
    numbers: &[usize],
    on_device: &Tensor,
    micro_batch: usize,
) -> Result<Tensor> {
    let rows = material.rows;
    let mut total: Option<Tensor> = None;
    let mut from = 0;
    for part in numbers.chunks(micro_batch.max(1)) {
        let size = part.len();
        let on_device = on_device.f_narrow(0, from as i64, size as i64)?;
        from += size;
        let batch = rows.batch(part, &on_device)?;
        let logits = model.logits(rows, &batch, material.input, true)?;
        let expected = [size as i64, material.classes as i64];
        let shape = logits.size();
        ensure!(
            shape == expected,
            "logits of shape {shape:?}, not {expected:?}"
        );
        let labels = rows.labels.f_index_select(0, &on_device)?;
        let mut loss = match &material.shares {
            None => cross_entropy(&logits, &labels, Reduction::Mean)?,
            Some(shares) => cross_entropy(&logits, &labels, Reduction::None)?
                .f_mul(&shares.f_index_select(0, &on_device)?)?
                .f_mean(None::<Kind>)?,
        };
        if size < numbers.len() {
            loss = loss.f_mul_scalar(size as f64 / numbers.len() as f64)?;
        }
        loss.f_backward()?;
        let loss = loss.f_detach()?;
        total = Some(match total {
            Some(sum) => sum.f_add(&loss)?,
            None => loss,
        });
    }
    total.ok_or_else(|| anyhow::anyhow!("a batch without rows"))
}

/// Early stopping by the objective.
struct Patience {
    limit: u32,
    min_delta: f64,
    direction: Direction,
    best: Option<f64>,
    waited: u32,
}

impl Patience {
    fn new(settings: &Settings, direction: Direction) -> Patience {
        Patience {
            limit: settings.patience,
            min_delta: settings.min_delta,
            direction,
            best: None,
            waited: 0,
        }
    }

    /// Whether the value ends the training.
    fn exhausted(&mut self, value: f64) -> bool {
        let better = self.best.is_none_or(|best| match self.direction {
            Direction::Maximize => value > best + self.min_delta,
            Direction::Minimize => value < best - self.min_delta,
        });
        if better {
            self.best = Some(value);
            self.waited = 0;
        } else {
            self.waited += 1;
        }
        self.limit > 0 && self.waited >= self.limit
    }
}
