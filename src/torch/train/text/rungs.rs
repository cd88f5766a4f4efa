//! One part of the default point's model by itself, and one pass over chosen rows, part by part.

use std::rc::Rc;

use anyhow::{Result, anyhow, bail, ensure};
use rand::RngExt;
use tch::{Device, Kind, Tensor};

use super::TextTask;
use super::encoder::{Block, Context, Embeddings, Encoder};
use super::head::{Head, HeadConfig};
use super::model::{Model, Options};
use super::prefix::Input;
use super::rows::{Batch, Rows};
use crate::gpu::tch_device;
use crate::rungs::at;
use crate::rungs::compare::{
    Named, back, finite, leaf, looked_at, numbers, on_both, there_and_back,
};
use crate::train::layers::Dropouts;
use crate::train::loss::{Loss, LossSettings};
use crate::train::told;
use ::request::torch_request::{Rung, TaskPart};
use ::text::checkpoint::Checkpoint;
use ::text::parts::{PartOf, part_of};
use ::text::tokens::Tokens;
use ::training::baseline::counts_of;
use config::StudySpec;
use search::space::Value;
use search::study::rng;
use task::TrialSpec;

/// Rows that are made up, at most.
const ROWS: usize = 8;

/// Their classes.
const CLASSES: usize = 2;

/// Rows of labels that a loss is computed of, at most.
const LABELS: usize = 4096;

/// Tries a part of the task's default point.
///
/// # Errors
/// It fails, or something in it is not finite or not as on the CPU.
pub fn task_part(spec: &StudySpec, part: &TaskPart, wanted: &Rung) -> Result<String> {
    let (trial, device) = (
        TrialSpec::of_defaults(spec, wanted.seed),
        tch_device(wanted.device),
    );
    match part {
        TaskPart::Loss { form, real } => loss(spec, trial, (form, *real), device),
        TaskPart::Trace(rows) => trace(spec, &trial, rows, wanted.device),
        TaskPart::Model => model(&MadeUp::new(spec, trial)?, device),
        TaskPart::Backward(name) => {
            let made_up = MadeUp::new(spec, trial)?;
            let layers = made_up.checkpoint.config.num_hidden_layers;
            match part_of(name, layers) {
                Some(PartOf::Head) => made_up.on_both(device, &head),
                Some(PartOf::Embeddings) => made_up.on_both(device, &embeddings),
                Some(PartOf::Layer(number)) => made_up.on_both(device, &|on| layer(on, number)),
                None => bail!("the model has {layers} layers, and no part {name}"),
            }
        }
    }
}

/// Rows that nobody wrote, for the default point's model.
struct MadeUp {
    trial: TrialSpec,
    checkpoint: Checkpoint,
    tokens: Vec<Tokens>,
}

/// The same on a device.
struct There<'a> {
    trial: &'a TrialSpec,
    encoder: Rc<Encoder>,
    rows: Rows,
    batch: Batch,
}

impl MadeUp {
    /// Rows of any tokens of the vocabulary, the first one as long as rows may be.
    fn new(spec: &StudySpec, trial: TrialSpec) -> Result<MadeUp> {
        let name = trial.text("model.name")?;
        let checkpoint = Checkpoint::named(name, &spec.models).map_err(|p| told(&p.0))?;
        let config = &checkpoint.config;
        let most = config.max_tokens().unwrap_or(usize::MAX);
        let longest = trial.int::<usize>("tok.max_length")?.min(most).max(1);
        let count = trial.int::<usize>("train.batch_size")?.clamp(1, ROWS);
        let mut rng = rng(trial.seed, 0, "made-up rows");
        let mut id = || loop {
            let id = rng.random_range(0..config.vocab_size);
            if id != config.pad_token_id || config.vocab_size == 1 {
                return id as u32;
            }
        };
        let lengths = (0..count).map(|row| (longest / (row + 1)).max(1));
        let tokens = lengths
            .map(|length| Tokens {
                ids: (0..length).map(|_| id()).collect(),
                types: vec![0; length],
            })
            .collect();
        Ok(MadeUp {
            trial,
            checkpoint,
            tokens,
        })
    }

    fn there(&self, device: Device) -> Result<There<'_>> {
        at("the model's weights");
        let encoder = Rc::new(Encoder::load(&self.checkpoint, device)?);
        let windows: Vec<&[Tokens]> = self.tokens.iter().map(std::slice::from_ref).collect();
        let classes: Vec<usize> = (0..windows.len()).map(|row| row % CLASSES).collect();
        let rows = Rows::of_windows(&windows, &classes, device)?;
        let batch = whole_batch(&rows, &(0..windows.len()).collect::<Vec<_>>())?;
        Ok(There {
            trial: &self.trial,
            encoder,
            rows,
            batch,
        })
    }

    fn on_both(
        &self,
        device: Device,
        part: &dyn Fn(&There<'_>) -> Result<Named>,
    ) -> Result<String> {
        on_both(device, &|device| part(&self.there(device)?))
    }
}

fn whole_batch(rows: &Rows, numbers: &[usize]) -> Result<Batch> {
    let on_device = rows.upload(&[numbers.to_vec()])?;
    rows.batch(numbers, &on_device[0])
}

impl There<'_> {
    fn device(&self) -> Device {
        self.rows.labels.device()
    }

    fn context(&self) -> Result<Context> {
        let mask = self.batch.attention()?;
        let length = self.batch.length()?;
        let encoder = &self.encoder;
        encoder
            .embeddings
            .context(length, mask.as_ref(), &encoder.config)
    }

    /// Hidden states that nothing has computed: `[B, L, H]`.
    fn states(&self) -> Result<Tensor> {
        let shape = [
            self.rows.truth.len() as i64,
            self.batch.length()?,
            self.encoder.config.hidden_size as i64,
        ];
        let values = numbers(&shape, &mut rng(self.trial.seed, 0, "states"))?;
        leaf(&values, self.device())
    }
}

/// All of the model, forward: in 32 bits as on the CPU, then in the precision of the trial.
fn model(made_up: &MadeUp, device: Device) -> Result<String> {
    let forward = |on: &There<'_>, options: Options| -> Result<Named> {
        let config = HeadConfig::of(on.trial, on.encoder.config.hidden_size, CLASSES)?;
        let mut rng = rng(on.trial.seed, 0, "head");
        let model = Model::new(Rc::clone(&on.encoder), options, config, &mut rng)?;
        at("the model, forward");
        let pass = model.pass(&on.rows, &on.batch, &Input::Tokens, 0)?;
        let all = vec![(
            "logits".to_owned(),
            pass.logits.f_detach()?.f_to_device(Device::Cpu)?,
        )];
        finite(&all)?;
        Ok(all)
    };
    let options = Options {
        frozen: 0,
        dropouts: Dropouts::default(),
        checkpointing: false,
        ..Options::of(&made_up.trial)?
    };
    let single = Options {
        precision: crate::train::precision::Precision::Fp32,
        ..options
    };
    let found = made_up.on_both(device, &|on| forward(on, single))?;
    if options.precision != single.precision {
        at("the same in 16 bits");
        forward(&made_up.there(device)?, options)?;
    }
    Ok(format!(
        "{} rows of up to {} tokens, {found}",
        made_up.tokens.len(),
        made_up.tokens[0].ids.len()
    ))
}

fn head(on: &There<'_>) -> Result<Named> {
    let config = HeadConfig::of(on.trial, on.encoder.config.hidden_size, CLASSES)?;
    let head = Head::new(config, on.device(), &mut rng(on.trial.seed, 0, "head"))?;
    at("the head, forward");
    let states = on.states()?;
    let logits = head.logits(head.pool(&on.batch, &states)?, false)?;
    let mut leaves = vec![("its input".to_owned(), states)];
    head.each(&mut |name, tensor, _| {
        leaves.push((name, tensor.shallow_clone()));
        Ok(tensor.shallow_clone())
    })?;
    there_and_back("the head", &logits, &leaves)
}

/// Copies of tensors that collect gradients, which are noted by their names.
fn noted<'a>(leaves: &'a mut Named) -> impl FnMut(String, &Tensor, bool) -> Result<Tensor> + 'a {
    |name, tensor, _| {
        let copy = leaf(tensor, tensor.device())?;
        leaves.push((name, copy.shallow_clone()));
        Ok(copy)
    }
}

fn layer(on: &There<'_>, number: usize) -> Result<Named> {
    let mut leaves = Named::new();
    let block: Block = on.encoder.blocks[number].map(number, &mut noted(&mut leaves))?;
    let states = on.states()?;
    leaves.push(("its input".to_owned(), states.shallow_clone()));
    at(&format!("layer {number}, forward"));
    let out = block.forward(
        &states,
        &on.context()?,
        &on.encoder.config,
        Dropouts::default(),
    )?;
    there_and_back(&format!("layer {number}"), &out, &leaves)
}

fn embeddings(on: &There<'_>) -> Result<Named> {
    let mut leaves = Named::new();
    let tables: Embeddings = on.encoder.embeddings.map(&mut noted(&mut leaves))?;
    let config = &on.encoder.config;
    let (ids, types) = on.rows.ids(&on.batch, config.pad_token_id as i64)?;
    at("the embeddings, forward");
    let out = tables.forward(
        &ids,
        types.as_ref(),
        &on.context()?,
        config,
        Dropouts::default(),
    )?;
    there_and_back("the embeddings", &out, &leaves)
}

/// A loss of logits that nothing has computed, with the labels of the training rows or made-up ones.
fn loss(
    spec: &StudySpec,
    mut trial: TrialSpec,
    (form, real): (&str, bool),
    device: Device,
) -> Result<String> {
    trial
        .config
        .insert("loss.cls.type".to_owned(), Value::from(form));
    let settings = LossSettings::of(&trial)?;
    let (labels, counts) = match real {
        true => {
            at("the rows' labels");
            let (data, split) = ::text::prepare::load(spec)?;
            let rounds = split.rounds();
            let train = rounds
                .first()
                .map_or(&[][..], |round| round.train.as_slice());
            let labels = train
                .iter()
                .take(LABELS)
                .map(|row| data.samples.class[*row] as i64);
            (
                labels.collect::<Vec<i64>>(),
                counts_of(&data.samples, train),
            )
        }
        false => {
            let labels = (0..64).map(|row| row % CLASSES as i64);
            (labels.collect(), vec![32; CLASSES])
        }
    };
    let classes = counts.len();
    ensure!(!labels.is_empty(), "there are no rows to train on");
    let outside = labels.iter().find(|label| **label as usize >= classes);
    ensure!(outside.is_none(), "label {outside:?} of {classes} classes");
    let shape = [labels.len() as i64, classes as i64];
    let logits = numbers(&shape, &mut rng(trial.seed, 0, "logits"))?;
    let found = on_both(device, &|device| {
        at(&format!("loss {form}, forward"));
        let loss = Loss::new(settings, &counts, device)?;
        let logits = leaf(&logits, device)?;
        let labels = Tensor::f_from_slice(&labels)?.f_to_device(device)?;
        let rows = loss.of_rows(&logits, &labels)?;
        there_and_back(
            &format!("loss {form}"),
            &rows,
            &[("the logits".to_owned(), logits)],
        )
    })?;
    Ok(format!(
        "{} labels of {classes} classes, {found}",
        labels.len()
    ))
}

/// One pass over these rows, there and back, without dropout: each part's result is looked at before the next is begun.
fn trace(
    spec: &StudySpec,
    trial: &TrialSpec,
    rows: &[usize],
    device: device::Device,
) -> Result<String> {
    at("the data and the model");
    let mut task = TextTask::open(spec, device)?.kind;
    let name = trial.text("model.name")?;
    let encoder = task.encoder(name)?;
    let (length, stride) = (trial.int("tok.max_length")?, trial.int("tok.doc_stride")?);
    let (_, all) = task.rows(name, length, stride, false)?;
    let mut places = Vec::new();
    for row in rows {
        let place = task.order.iter().position(|r| r == row);
        let place = place.filter(|place| *place < task.searched);
        places.push(place.ok_or_else(|| anyhow!("row {} is not trained on", row + 1))?);
    }
    places.sort_unstable();
    let numbers = all.of_documents(&places);
    let batch = whole_batch(&all, &numbers)?;
    let classes = task.data.samples.classes.len();
    let mut leaves = Named::new();
    let config = &encoder.config;
    let tables = encoder.embeddings.map(&mut noted(&mut leaves))?;
    let mask = batch.attention()?;
    let context = tables.context(batch.length()?, mask.as_ref(), config)?;
    let (ids, types) = all.ids(&batch, config.pad_token_id as i64)?;
    at("the embeddings, forward");
    let mut x = tables.forward(&ids, types.as_ref(), &context, config, Dropouts::default())?;
    looked_at("the embeddings, forward", &x)?;
    for (number, block) in encoder.blocks.iter().enumerate() {
        let what = format!("layer {number}, forward");
        at(&what);
        let block = block.map(number, &mut noted(&mut leaves))?;
        x = block.forward(&x, &context, config, Dropouts::default())?;
        looked_at(&what, &x)?;
    }
    let head = HeadConfig::of(trial, config.hidden_size, classes)?;
    let head = Head::new(
        head,
        tch_device(device),
        &mut rng(trial.seed, 0, "classifier"),
    )?;
    at("the head, forward");
    let logits = head.logits(head.pool(&batch, &x)?, false)?;
    looked_at("the head, forward", &logits)?;
    at("the loss, forward");
    let counts = counts_of(&task.data.samples, &task.order[..task.searched]);
    let loss = Loss::new(LossSettings::of(trial)?, &counts, tch_device(device))?;
    let labels = all.labels.f_index_select(0, &batch.rows)?;
    let loss = loss.of_rows(&logits, &labels)?;
    looked_at("the loss, forward", &loss)?;
    back(&loss.f_mean(Kind::Float)?, &leaves)
}
