//! The training loop of one trial.

use anyhow::{Result, ensure};
use serde_json::{Map, Value as Json};
use tch::{Kind, Tensor};

use super::loss::{Loss, LossSettings};
use super::model::Model;
use super::optimizer::{Optimizer, OptimizerSettings};
use super::prefix::Input;
use super::rows::Rows;
use super::score::Scored;
use super::tensors;
use crate::gpu::{self, AdamW};
use config::{Objective, test_metric};
use search::study::{derive_seed, rng};
use task::{Checkpoint, Decision, EarlyStopping, Ended, Epoch, Patience, Reporter, TrialSpec};
use text::batches::bucketed;
use text::schedule::Schedule;

/// What the loop reads of a trial's configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct FitSettings {
    seed: u64,
    epochs: u32,
    patience: Patience,
    batch_size: usize,
    /// Rows that are computed at a time: a batch, or a part of one.
    micro_batch: usize,
    /// Batches whose gradients make one step of the optimiser.
    grad_accum: usize,
    /// Steps of a rehearsal.
    rehearse: Option<usize>,
    lr: f64,
    schedule: Schedule,
    optimizer: OptimizerSettings,
    loss: LossSettings,
}

impl FitSettings {
    /// Of a trial.
    ///
    /// # Errors
    /// A key is absent or of the wrong type.
    pub fn of(trial: &TrialSpec) -> Result<FitSettings> {
        let batch_size: usize = trial.int("train.batch_size")?;
        let parts = 1usize.checked_shl(trial.halvings).unwrap_or(usize::MAX);
        Ok(FitSettings {
            batch_size,
            micro_batch: batch_size.div_ceil(parts).max(1),
            grad_accum: trial.int::<usize>("train.grad_accum")?.max(1),
            rehearse: trial.rehearse.map(|steps| steps as usize),
            seed: trial.seed,
            epochs: trial.int("train.epochs")?,
            patience: Patience::of(trial)?,
            lr: trial.float("optim.lr")?,
            schedule: Schedule {
                shape: trial.word("sched.name")?,
                warmup_ratio: trial.float("sched.warmup_ratio")?,
                cycles: trial.int("sched.cosine_cycles")?,
                power: trial.float("sched.poly_power")?,
            },
            optimizer: OptimizerSettings {
                adamw: AdamW {
                    beta1: trial.float("optim.beta1")?,
                    beta2: trial.float("optim.beta2")?,
                    eps: trial.float("optim.eps")?,
                    max_norm: trial.float("train.clip_grad")?,
                },
                weight_decay: trial.float("optim.weight_decay")?,
                layerwise_lr_decay: trial.float("optim.layerwise_lr_decay")?,
            },
            loss: LossSettings::of(trial)?,
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

impl Material<'_> {
    /// Rows to train on, by class.
    fn counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.classes];
        for row in self.train {
            counts[self.class(*row)] += 1;
        }
        counts
    }

    /// The class of a row.
    fn class(&self, row: usize) -> usize {
        self.rows.truth[self.rows.documents[row]]
    }
}

/// Says what weights are, for those who read them later.
pub type About<'a> = dyn Fn() -> Result<Map<String, Json>> + 'a;

/// Trains `model` to its end, from where `from` was made on.
///
/// # Errors
/// The supervisor is gone, libtorch throws, the logits are misshapen, or `from` is another training's.
pub fn fit(
    model: &Model,
    material: &Material<'_>,
    settings: &FitSettings,
    objective: &Objective,
    (from, about): (Option<Checkpoint>, &About<'_>),
    reporter: &mut dyn Reporter,
) -> Result<Ended> {
    let mut training = Training {
        model,
        material,
        settings,
        optimizer: Optimizer::new(&model.parameters()?, model.layers(), settings.optimizer)?,
        loss: Loss::new(
            settings.loss,
            &material.counts(),
            material.rows.labels.device(),
        )?,
    };
    let validation = Scored::new(model, material, material.validation)?;
    let test = match material.test {
        [] => None,
        rows => Some(Scored::new(model, material, rows)?),
    };
    let mut progress = Progress::new(settings, objective);
    if let Some(checkpoint) = from {
        progress.replay(&checkpoint.epochs);
        tensors::read(&training.optimizer.state(), &checkpoint.state)?;
    }
    while !progress.ended {
        let epoch = progress.epoch + 1;
        let train_loss = match training.epoch(epoch, reporter)? {
            EpochEnd::MeanLoss(loss) => loss,
            EpochEnd::NotFinite(at) => return Ok(Ended::Diverged { at }),
            EpochEnd::Rehearsed => return Ok(Ended::Completed),
        };
        let mut metrics = validation.score(model, material, reporter)?;
        if let Some((name, value)) = metrics.iter().find(|(_, v)| !v.is_finite()) {
            let at = format!("epoch {epoch}, validation: {name} {value}");
            return Ok(Ended::Diverged { at });
        }
        metrics.insert("train_loss".to_owned(), train_loss);
        let Some(value) = metrics.get(&objective.metric).copied() else {
            anyhow::bail!("the task has no metric {}", objective.metric);
        };
        let improves = progress.record(epoch, value);
        if let Some(test) = test.as_ref().filter(|_| improves) {
            let scored = test.score(model, material, reporter)?;
            let named = |(name, value): (String, f64)| (test_metric(&name), value);
            metrics.extend(scored.into_iter().map(named));
        }
        match reporter.epoch(epoch, &metrics)? {
            Decision::Continue => {}
            Decision::Prune => return Ok(Ended::Pruned),
        }
        if improves && reporter.wants_weights(value) {
            reporter.keep_best(value, &about()?, &mut |to| model.write(to));
        }
        if !progress.ended {
            let state = training.optimizer.state();
            reporter.keep(&mut |to| tensors::write(&state, to));
        }
    }
    Ok(Ended::Completed)
}

/// How far a training is. It follows from what was reported alone, so that a checkpoint need not hold
/// it.
struct Progress<'a> {
    epochs: u32,
    objective: &'a Objective,
    stopping: EarlyStopping,
    /// The last epoch that is done.
    epoch: u32,
    best: Option<f64>,
    ended: bool,
}

impl<'a> Progress<'a> {
    fn new(settings: &FitSettings, objective: &'a Objective) -> Progress<'a> {
        Progress {
            epochs: settings.epochs,
            objective,
            stopping: EarlyStopping::new(settings.patience, objective.direction),
            epoch: 0,
            best: None,
            ended: settings.epochs == 0,
        }
    }

    /// Takes in epochs that an earlier attempt has done.
    fn replay(&mut self, epochs: &[Epoch]) {
        for done in epochs {
            let value = done.metrics.get(&self.objective.metric);
            self.record(done.epoch, value.copied().unwrap_or(f64::NAN));
        }
    }

    /// Takes in an epoch that is done; whether it is the best so far.
    fn record(&mut self, epoch: u32, value: f64) -> bool {
        let better = |best| self.objective.direction.better(value, best);
        let improves = self.best.is_none_or(better);
        if improves {
            self.best = Some(value);
        }
        self.epoch = epoch;
        self.ended = self.stopping.update(value) || epoch >= self.epochs;
        improves
    }
}

/// How an epoch's steps went.
enum EpochEnd {
    /// The mean loss of its updates.
    MeanLoss(f64),
    /// Where the loss was NaN or infinite first.
    NotFinite(String),
    /// It was a rehearsal.
    Rehearsed,
}

/// Steps between two looks at the losses: one synchronisation for as many.
const LOOK_EVERY: usize = 64;

/// A training in its progress.
struct Training<'a> {
    model: &'a Model,
    material: &'a Material<'a>,
    settings: &'a FitSettings,
    optimizer: Optimizer,
    loss: Loss,
}

impl Training<'_> {
    /// Trains on each row once. A step is a batch; `grad_accum` of them move the weights.
    fn epoch(&mut self, epoch: u32, reporter: &mut dyn Reporter) -> Result<EpochEnd> {
        let (rows, settings, train) = (self.material.rows, self.settings, self.material.train);
        // Every epoch draws anew, so that one that goes on from a checkpoint draws the same.
        gpu::seed(derive_seed(settings.seed, u64::from(epoch), "dropout"))?;
        let mut generator = rng(settings.seed, u64::from(epoch), "batches");
        let lengths: Vec<u32> = train.iter().map(|row| rows.lengths[*row]).collect();
        let mut batches = bucketed(&lengths, settings.batch_size, &mut generator);
        let updates = batches.len().div_ceil(settings.grad_accum) as u64;
        let total = updates * u64::from(settings.epochs);
        if let Some(steps) = settings.rehearse {
            reporter.plan(batches.len() as u64 * u64::from(settings.epochs));
            largest(&mut batches, &lengths, steps);
        }
        for row in batches.iter_mut().flatten() {
            *row = train[*row];
        }
        let steps = batches.len();
        let done = updates * u64::from(epoch - 1);
        let masks = derive_seed(settings.seed, u64::from(epoch), "masks");
        let (mut pending, mut sum, mut weight) = (Vec::with_capacity(LOOK_EVERY), 0.0, 0.0);
        for (step, (numbers, on_device)) in batches.iter().zip(rows.upload(&batches)?).enumerate() {
            let (update, within) = (step / settings.grad_accum, step % settings.grad_accum);
            if within == 0 {
                let end = steps.min(step + settings.grad_accum);
                weight = self.weight(&batches[step..end]);
            }
            let seed = derive_seed(masks, step as u64, "batch");
            pending.push(self.backward(numbers, &on_device, weight, seed)?);
            if within + 1 == settings.grad_accum || step + 1 == steps {
                let factor = settings.schedule.factor(done + update as u64, total);
                self.optimizer.step(settings.lr * factor)?;
            }
            reporter.step();
            if pending.len() == LOOK_EVERY || step + 1 == steps {
                let losses: Vec<f32> = Vec::try_from(Tensor::f_stack(&pending, 0)?)?;
                if let Some(at) = losses.iter().position(|l| !l.is_finite()) {
                    let first = step + 2 - losses.len() + at;
                    return Ok(EpochEnd::NotFinite(format!(
                        "epoch {epoch}, step {first} of {steps}: training loss {}",
                        losses[at]
                    )));
                }
                sum += losses.iter().map(|l| f64::from(*l)).sum::<f64>();
                pending.clear();
            }
        }
        match settings.rehearse {
            None => Ok(EpochEnd::MeanLoss(sum / updates.max(1) as f64)),
            Some(_) => Ok(EpochEnd::Rehearsed),
        }
    }

    /// What the rows of these batches weigh in the loss.
    fn weight(&self, batches: &[Vec<usize>]) -> f64 {
        let rows = batches.iter().flatten();
        self.loss.weight(rows.map(|row| self.material.class(*row)))
    }

    /// The gradients of a batch's part of the mean loss of an update whose rows have this weight
    /// together, computed in parts of `micro_batch` rows; and that part of the loss.
    fn backward(
        &self,
        numbers: &[usize],
        on_device: &Tensor,
        weight: f64,
        seed: u64,
    ) -> Result<Tensor> {
        let (rows, material) = (self.material.rows, self.material);
        let mut total: Option<Tensor> = None;
        let mut from = 0;
        for part in numbers.chunks(self.settings.micro_batch.max(1)) {
            let size = part.len();
            let on_device = on_device.f_narrow(0, from as i64, size as i64)?;
            let seed = derive_seed(seed, from as u64, "part");
            from += size;
            let batch = rows.batch(part, &on_device)?;
            let pass = self.model.pass(rows, &batch, material.input, seed)?;
            let expected = [size as i64, material.classes as i64];
            let shape = pass.logits.size();
            ensure!(
                shape == expected,
                "logits of shape {shape:?}, not {expected:?}"
            );
            let labels = rows.labels.f_index_select(0, &on_device)?;
            let mut losses = self.loss.of_rows(&pass.logits, &labels)?;
            if let Some(shares) = &material.shares {
                losses = losses.f_mul(&shares.f_index_select(0, &on_device)?)?;
            }
            let loss = losses.f_sum(Kind::Float)?.f_div_scalar(weight)?;
            self.model.backward(&batch, pass, &loss)?;
            let loss = loss.f_detach()?;
            total = Some(match total {
                Some(sum) => sum.f_add(&loss)?,
                None => loss,
            });
        }
        total.ok_or_else(|| anyhow::anyhow!("a batch without rows"))
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
