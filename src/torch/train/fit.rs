//! The training loop of one trial.

use anyhow::Result;
use serde_json::Value as Json;
use tch::Tensor;

use super::module::{Module, Outputs, Step};
use super::optimizer::{Optimizer, OptimizerSettings};
use super::tensors;
use crate::gpu::{self, AdamW};
use ::training::batches::bucketed;
use ::training::schedule::Schedule;
use config::{Objective, test_metric};
use search::space::{Params, Value};
use search::study::{derive_seed, rng};
use task::{
    Checkpoint, Decision, EarlyStopping, Ended, Epoch, Metrics, Patience, Reporter, TrialSpec,
};

/// Under this the chosen parameters after training stand beside kept weights.
pub const POST: &str = "post";

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
}

impl FitSettings {
    /// Of a trial.
    ///
    /// # Errors
    /// A key is absent or of the wrong type.
    pub fn of(trial: &TrialSpec) -> Result<FitSettings> {
        let batch_size: usize = trial.int("train.batch_size")?;
        // Of kinds that have one layer below the other.
        let decay = trial.config.get("optim.layerwise_lr_decay");
        let decay = decay.and_then(Value::as_f64);
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
                layerwise_lr_decay: decay.unwrap_or(1.0),
            },
        })
    }
}

/// What a training is judged by.
pub struct Judgement<'a> {
    /// Of the study.
    pub objective: &'a Objective,
    /// Points of the parameters after training, at least one; those of the configuration are among each.
    pub post: &'a [Params],
    /// Whether the test part is scored at each epoch that is the best so far.
    pub tests: bool,
}

impl Judgement<'_> {
    /// The metrics at the best point for the objective, the first among equals, and that point. Where there are
    /// several it is among the metrics.
    fn best(&self, outputs: &Outputs) -> (Metrics, &Params) {
        let value = |metrics: &Metrics| metrics.get(&self.objective.metric).copied();
        let mut best = (outputs(&self.post[0]), &self.post[0]);
        for point in &self.post[1..] {
            let metrics = outputs(point);
            let better = match (value(&best.0), value(&metrics)) {
                (Some(best), Some(new)) => self.objective.direction.better(new, best),
                (Some(_) | None, None) | (None, Some(_)) => false,
            };
            if better {
                best = (metrics, point);
            }
        }
        if self.post.len() > 1 {
            let numbers = best
                .1
                .iter()
                .filter_map(|(k, v)| Some((k.clone(), v.as_f64()?)));
            best.0.extend(numbers);
        }
        best
    }
}

/// Trains a module to its end, from where `from` was made on.
///
/// # Errors
/// The supervisor is gone, libtorch throws, outputs are misshapen, or `from` is another training's.
pub fn fit(
    module: &mut dyn Module,
    settings: &FitSettings,
    judgement: &Judgement<'_>,
    from: Option<Checkpoint>,
    reporter: &mut dyn Reporter,
) -> Result<Ended> {
    let objective = judgement.objective;
    let parameters = module.parameters()?;
    let depth = |name: &str| module.below_the_head(name);
    let optimizer = Optimizer::new(&parameters, &depth, settings.optimizer)?;
    let costs = module.costs();
    let mut training = Training {
        module,
        costs,
        settings,
        optimizer,
    };
    let mut progress = Progress::new(settings, objective);
    if let Some(checkpoint) = from {
        progress.replay(&checkpoint.epochs);
        tensors::read(&training.state()?, &checkpoint.state)?;
    }
    while !progress.ended {
        let epoch = progress.epoch + 1;
        let train_loss = match training.epoch(epoch, reporter)? {
            EpochEnd::MeanLoss(loss) => loss,
            EpochEnd::NotFinite(at) => return Ok(Ended::Diverged { at }),
            EpochEnd::Rehearsed => return Ok(Ended::Completed),
        };
        let outputs = training.outputs(false, reporter)?;
        let (mut metrics, post) = judgement.best(&outputs);
        if let Some((name, value)) = metrics.iter().find(|(_, v)| !v.is_finite()) {
            let at = format!("epoch {epoch}, validation: {name} {value}");
            return Ok(Ended::Diverged { at });
        }
        metrics.insert("train_loss".to_owned(), train_loss);
        let Some(value) = metrics.get(&objective.metric).copied() else {
            anyhow::bail!("the task has no metric {}", objective.metric);
        };
        let improves = progress.record(epoch, value);
        if improves && judgement.tests {
            let scored = training.outputs(true, reporter)?(post);
            let named = |(name, value): (String, f64)| (test_metric(&name), value);
            metrics.extend(scored.into_iter().map(named));
        }
        match reporter.epoch(epoch, &metrics)? {
            Decision::Continue => {}
            Decision::Prune => return Ok(Ended::Pruned),
        }
        if improves && reporter.wants_weights(value) {
            let Json::Object(mut about) = training.module.about()? else {
                anyhow::bail!("what stands beside the weights is no object");
            };
            if !post.is_empty() {
                about.insert(POST.to_owned(), serde_json::to_value(post)?);
            }
            let module = &training.module;
            reporter.keep_best(value, &about, &mut |to| {
                tensors::write(&module.weights()?, to)
            });
        }
        if !progress.ended {
            let state = training.state()?;
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
    module: &'a mut dyn Module,
    /// Of each row to train on.
    costs: Vec<u32>,
    settings: &'a FitSettings,
    optimizer: Optimizer,
}

impl Training<'_> {
    /// Everything that the next epoch goes on from.
    fn state(&self) -> Result<Vec<(String, Tensor)>> {
        let mut state = self.optimizer.state();
        state.extend(self.module.buffers()?);
        Ok(state)
    }

    fn outputs(&self, test: bool, reporter: &mut dyn Reporter) -> Result<Outputs> {
        self.module.outputs(test, &mut || reporter.step())
    }

    /// Trains on each row once. A step is a batch; `grad_accum` of them move the weights.
    fn epoch(&mut self, epoch: u32, reporter: &mut dyn Reporter) -> Result<EpochEnd> {
        let settings = self.settings;
        // Every epoch draws anew, so that one that goes on from a checkpoint draws the same.
        gpu::seed(derive_seed(settings.seed, u64::from(epoch), "dropout"))?;
        let mut generator = rng(settings.seed, u64::from(epoch), "batches");
        let mut batches = bucketed(&self.costs, settings.batch_size, &mut generator);
        let updates = batches.len().div_ceil(settings.grad_accum) as u64;
        let total = updates * u64::from(settings.epochs);
        if let Some(steps) = settings.rehearse {
            reporter.plan(batches.len() as u64 * u64::from(settings.epochs));
            largest(&mut batches, &self.costs, steps);
        }
        let steps = batches.len();
        let done = updates * u64::from(epoch - 1);
        let masks = derive_seed(settings.seed, u64::from(epoch), "masks");
        let (mut pending, mut sum, mut weight) = (Vec::with_capacity(LOOK_EVERY), 0.0, 0.0);
        self.module.begin(
            &batches,
            derive_seed(settings.seed, u64::from(epoch), "rows"),
        )?;
        for (step, rows) in batches.iter().enumerate() {
            let (update, within) = (step / settings.grad_accum, step % settings.grad_accum);
            if within == 0 {
                let end = steps.min(step + settings.grad_accum);
                let mut rows = batches[step..end].iter().flatten().copied();
                weight = self.module.weight(&mut rows);
            }
            pending.push(self.backward(Step {
                batch: step,
                from: 0,
                rows,
                weight,
                seed: derive_seed(masks, step as u64, "batch"),
            })?);
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

    /// The gradients of a batch, computed in parts of `micro_batch` rows; and its part of the update's loss.
    fn backward(&self, whole: Step<'_>) -> Result<Tensor> {
        let mut total: Option<Tensor> = None;
        let mut from = 0;
        for rows in whole.rows.chunks(self.settings.micro_batch.max(1)) {
            let loss = self.module.backward(&Step {
                from,
                rows,
                seed: derive_seed(whole.seed, from as u64, "part"),
                ..whole
            })?;
            from += rows.len();
            total = Some(match total {
                Some(sum) => sum.f_add(&loss)?,
                None => loss,
            });
        }
        total.ok_or_else(|| anyhow::anyhow!("a batch without rows"))
    }
}

/// Keeps the `count` batches that need the most memory: those that cost the most, padding included, largest first.
fn largest(batches: &mut Vec<Vec<usize>>, costs: &[u32], count: usize) {
    let cost = |batch: &Vec<usize>| {
        let dearest = batch.iter().map(|row| costs[*row]).max();
        u64::from(dearest.unwrap_or(0)) * batch.len() as u64
    };
    batches.sort_by_key(|batch| std::cmp::Reverse(cost(batch)));
    batches.truncate(count.max(1));
}
