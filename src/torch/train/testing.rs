//! What the tests of all kinds share: reporters, and suites that each kind passes.

use std::fs::File;
use std::io::{Seek, Write};

use anyhow::{Result, ensure};
use serde_json::{Map, Value as Json};
use sha2::{Digest, Sha256};

use super::{Kind, TorchTask};
use safetensors::SafeTensors;
use tch::Tensor;

use crate::gpu::GENERATOR;
use config::{ActiveWhen, Is, Key, KeyType, Role};
use search::space::Value;
use task::{Checkpoint, Decision, Ended, Epoch, Metrics, Reporter, TrialSpec};

/// Records what is reported and prunes at an epoch.
#[derive(Default)]
pub struct Recorder {
    pub steps: usize,
    pub planned: Option<u64>,
    pub epochs: Vec<Metrics>,
    pub prune_at: Option<u32>,
    /// What an earlier attempt had reported.
    pub earlier: Vec<Metrics>,
    pub kept: usize,
}

impl Reporter for Recorder {
    fn step(&mut self) {
        self.steps += 1;
    }

    fn plan(&mut self, steps: u64) {
        self.planned = Some(steps);
    }

    fn resume(&mut self) -> Result<Option<task::Checkpoint>> {
        let numbered = self.earlier.iter().zip(1..);
        let epochs: Vec<Epoch> = numbered
            .map(|(metrics, epoch)| Epoch {
                epoch,
                metrics: metrics.clone(),
            })
            .collect();
        let state = tempfile::tempfile()?;
        Ok((!epochs.is_empty()).then_some(task::Checkpoint { epochs, state }))
    }

    fn keep(&mut self, write: &mut dyn FnMut(&mut dyn std::io::Write) -> Result<()>) {
        write(&mut std::io::sink()).unwrap();
        self.kept += 1;
    }

    fn epoch(&mut self, epoch: u32, metrics: &Metrics) -> Result<Decision> {
        self.epochs.push(metrics.clone());
        Ok(match self.prune_at {
            Some(at) if at == epoch => Decision::Prune,
            Some(_) | None => Decision::Continue,
        })
    }
}

/// Keeps libtorch's generator to one test, on one thread: on a busy machine several threads wait for
/// one another far longer than they compute.
pub fn alone() -> impl Drop {
    tch::set_num_threads(1);
    GENERATOR.lock().unwrap_or_else(|e| e.into_inner())
}

impl super::Trained {
    /// SHA-256 over names and values of all trained parameters.
    pub fn weights_fingerprint(&self) -> Result<String> {
        let mut hash = Sha256::new();
        for parameter in &self.parameters {
            hash.update(parameter.name.as_bytes());
            for value in super::tensors::flat(&parameter.tensor.f_detach()?)? {
                hash.update(value.to_le_bytes());
            }
        }
        Ok(::training::hex(&hash.finalize()))
    }
}

/// The fingerprint of the weights after a trial.
pub fn trained_weights<K: Kind>(task: &mut TorchTask<K>, trial: &TrialSpec) -> String {
    let trained = task.train(trial, &mut Recorder::default()).unwrap();
    assert_eq!(trained.ended, Ended::Completed);
    trained.weights_fingerprint().unwrap()
}

/// Keeps checkpoints, and breaks off at a report.
pub struct Cut {
    /// The report that fails.
    pub at: Option<u32>,
    pub epochs: Vec<Epoch>,
    pub kept: Option<(Vec<Epoch>, File)>,
    /// Weights of the best epochs so far: value, what was said of them, and what was written.
    pub best: Vec<(f64, Map<String, Json>, Vec<u8>)>,
    pub resumed: Option<u32>,
    pub steps: usize,
}

impl Cut {
    pub fn new(at: Option<u32>, kept: Option<(Vec<Epoch>, File)>) -> Cut {
        Cut {
            at,
            epochs: Vec::new(),
            kept,
            best: Vec::new(),
            resumed: None,
            steps: 0,
        }
    }
}

impl Reporter for Cut {
    fn step(&mut self) {
        self.steps += 1;
    }

    fn epoch(&mut self, epoch: u32, metrics: &Metrics) -> Result<Decision> {
        ensure!(self.at != Some(epoch), "killed");
        let metrics = metrics.clone();
        self.epochs.push(Epoch { epoch, metrics });
        Ok(Decision::Continue)
    }

    fn resume(&mut self) -> Result<Option<Checkpoint>> {
        let Some((epochs, file)) = &self.kept else {
            return Ok(None);
        };
        let mut state = file.try_clone()?;
        state.rewind()?;
        self.epochs = epochs.clone();
        self.resumed = Some(epochs.last().map_or(0, |e| e.epoch));
        let epochs = epochs.clone();
        Ok(Some(Checkpoint { epochs, state }))
    }

    fn keep(&mut self, write: &mut dyn FnMut(&mut dyn Write) -> Result<()>) {
        let mut file = tempfile::tempfile().unwrap();
        write(&mut file).unwrap();
        self.kept = Some((self.epochs.clone(), file));
    }

    fn wants_weights(&self, _: f64) -> bool {
        true
    }

    fn keep_best(
        &mut self,
        value: f64,
        about: &Map<String, Json>,
        write: &mut dyn FnMut(&mut dyn Write) -> Result<()>,
    ) {
        let mut weights = Vec::new();
        write(&mut weights).unwrap();
        self.best.push((value, about.clone(), weights));
    }
}

/// Trains whole and cut at the report `at`, each part in a process of its own;
/// both must end alike. Gives the whole training's reporter.
pub fn assert_goes_on<K: Kind>(open: &dyn Fn() -> TorchTask<K>, trial: &TrialSpec, at: u32) -> Cut {
    let what = format!("{:?}", trial.config);
    let mut whole = Cut::new(None, None);
    let undisturbed = open().train(trial, &mut whole).unwrap();
    let mut first = Cut::new(Some(at), None);
    let error = open().train(trial, &mut first).err().unwrap();
    assert!(error.to_string().contains("killed"), "{error}");
    let mut second = Cut::new(None, first.kept.take());
    let resumed = open().train(trial, &mut second).unwrap();
    assert!(second.resumed.is_some(), "it went on: {what}");
    assert!(second.steps < whole.steps, "less was trained: {what}");
    assert_eq!(resumed.ended, undisturbed.ended, "{what}");
    assert_eq!(second.epochs, whole.epochs, "{what}");
    assert_eq!(
        resumed.weights_fingerprint().unwrap(),
        undisturbed.weights_fingerprint().unwrap(),
        "{what}"
    );
    let best = second.best.last().or(first.best.last());
    assert!(best == whole.best.last(), "{what}");
    whole
}

/// A tensor of the reference file.
pub fn reference<'a>(file: &'a SafeTensors<'a>, name: &str) -> Tensor {
    let view = file.tensor(name).unwrap();
    let shape: Vec<i64> = view.shape().iter().map(|d| *d as i64).collect();
    let kind = if view.dtype() == safetensors::Dtype::F32 {
        tch::Kind::Float
    } else {
        tch::Kind::Int
    };
    Tensor::f_from_data_size(view.data(), &shape, kind).unwrap()
}

/// Keys with their values.
pub type Setting = Vec<(&'static str, Value)>;

/// That a training of weights that explode says where.
pub fn assert_diverges(ended: &Ended) {
    match ended {
        Ended::Diverged { at } => assert!(at.starts_with("epoch "), "{at}"),
        other @ (Ended::Completed | Ended::Returned { .. } | Ended::Pruned) => panic!("{other:?}"),
    }
}

/// Weights after a training with these keys changed.
pub type Trained<'a> = dyn FnMut(&[(&str, Value)]) -> String + 'a;

/// That every key of a kind acts where it says so, and nowhere else.
pub struct Suite<'a> {
    /// Those of the kind.
    pub keys: &'static [Key<'static>],
    /// Another value of a key, and where it is tried: its conditions hold there. `None`: as all kinds try it.
    pub tried: &'a dyn Fn(&str) -> Option<(Setting, Value)>,
    /// What keys are below that are below something of the model.
    pub limit: i64,
}

/// Another value of a key of the loop that all kinds share.
fn tried_of_loop(key: &str) -> Option<(Setting, Value)> {
    Some(match key {
        "train.epochs" => (vec![], 3.into()),
        "train.batch_size" => (vec![], 8.into()),
        "train.clip_grad" => (vec![], 0.01.into()),
        "train.grad_accum" => (vec![], 2.into()),
        "train.precision" => (vec![], "bf16".into()),
        "optim.lr" => (vec![], 2e-3.into()),
        "optim.weight_decay" => (vec![], 0.1.into()),
        "optim.beta1" => (vec![], 0.8.into()),
        "optim.beta2" => (vec![], 0.95.into()),
        "optim.eps" => (vec![], 1e-4.into()),
        "sched.name" => (vec![], "cosine".into()),
        "sched.warmup_ratio" => (vec![], 0.5.into()),
        "sched.cosine_cycles" => (vec![("sched.name", "cosine_restart".into())], 2.into()),
        "sched.poly_power" => (vec![("sched.name", "polynomial".into())], 2.0.into()),
        _ => return None,
    })
}

impl Suite<'_> {
    fn training_keys(&self) -> impl Iterator<Item = &'static Key<'static>> {
        self.keys.iter().filter(|key| key.role == Role::Training)
    }

    fn of(&self, key: &str) -> (Setting, Value) {
        let found = (self.tried)(key).or_else(|| tried_of_loop(key));
        found.unwrap_or_else(|| panic!("{key}: say in the test with which value it is tried"))
    }

    /// Each key changes the weights where it acts.
    pub fn every_key_changes(&self, weights: &mut Trained<'_>) {
        for key in self.training_keys() {
            let (setting, value) = self.of(key.name);
            let base = weights(&setting);
            let changed = [&setting[..], &[(key.name, value)]].concat();
            assert_ne!(base, weights(&changed), "{}", key.name);
        }
    }

    /// Each value of a choice makes something of its own.
    pub fn every_word_changes(&self, weights: &mut Trained<'_>) {
        for key in self.training_keys() {
            let KeyType::Choice(words) = key.ty else {
                continue;
            };
            let (setting, _) = self.of(key.name);
            let mut seen = Vec::new();
            for word in words {
                // One cycle of a cosine is a cosine, and of power 1 a polynomial is linear.
                let special: Setting = match *word {
                    "cosine_restart" => vec![("sched.cosine_cycles", 2.into())],
                    "polynomial" => vec![("sched.poly_power", 2.0.into())],
                    _ => vec![],
                };
                let changed = [&setting[..], &special, &[(key.name, (*word).into())]].concat();
                let found = weights(&changed);
                assert!(!seen.contains(&found), "{} = {word}", key.name);
                seen.push(found);
            }
        }
    }

    /// Values for which a condition does not hold.
    fn against(&self, condition: ActiveWhen) -> Vec<Value> {
        match condition.is {
            Is::OneOf(words) => {
                let key = self.keys.iter().find(|k| k.name == condition.key);
                let Some(KeyType::Choice(all)) = key.map(|key| key.ty) else {
                    panic!("{} has no words", condition.key);
                };
                let others = all.iter().filter(|w| !words.contains(w));
                others.map(|w| (*w).into()).collect()
            }
            Is::AtLeast(least) => vec![(least - 1).into()],
            Is::Below(_) => vec![self.limit.into()],
            // Both values of the key are above 0.
            Is::Beyond(by) => vec![by.into()],
            Is::LeftOut => panic!("{} is of the data", condition.key),
        }
    }

    /// No key changes anything where it is said to be dead; how many were tried. Those that depend on what is predicted
    /// are left out: a trial cannot change that.
    pub fn dead_keys_change_nothing(&self, weights: &mut Trained<'_>) -> usize {
        let mut tried = 0;
        for key in self.training_keys() {
            let Some(condition) = key.active_when else {
                continue;
            };
            let parent = self.keys.iter().find(|k| k.name == condition.key);
            if parent.is_some_and(|parent| parent.role != Role::Training) {
                continue;
            }
            for value in self.against(condition) {
                let dead = vec![(condition.key, value)];
                let base = weights(&dead);
                let changed = [&dead[..], &[(key.name, self.of(key.name).1)]].concat();
                assert_eq!(base, weights(&changed), "{} where {dead:?}", key.name);
                tried += 1;
            }
        }
        tried
    }
}
