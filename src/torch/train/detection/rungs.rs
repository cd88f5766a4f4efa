//! One part of the default point's network by itself, and one pass over chosen pages, part by part.

use anyhow::{Result, bail, ensure};
use tch::{Device, Kind, Tensor};

use super::fresh;
use super::loss::{LossSettings, Targets};
use super::network::{DbNet, Maps, stage_of};
use super::pages::batch;
use crate::gpu::tch_device;
use crate::rungs::at;
use crate::rungs::compare::{
    Named, back, finite, leaf, looked_at, numbers, on_both, there_and_back,
};
use ::detection::description::Network;
use ::detection::example::{Example, Showing};
use ::detection::{PARTS, load, made_up, start};
use ::request::torch_request::{Rung, TaskPart};
use config::StudySpec;
use search::space::Value;
use search::study::rng;
use task::TrialSpec;

/// Pages that are computed at once, at most.
const PAGES: usize = 4;

/// Tries a part of the task's default point.
///
/// # Errors
/// It fails, or something in it is not finite or not as on the CPU.
pub fn task_part(spec: &StudySpec, part: &TaskPart, wanted: &Rung) -> Result<String> {
    let trial = TrialSpec::of_defaults(spec, wanted.seed);
    let device = tch_device(wanted.device);
    let showing = Showing::of(&trial)?;
    let tried = Tried {
        spec,
        trial,
        showing,
    };
    match part {
        TaskPart::Model => tried.model(device),
        TaskPart::Backward(name) => on_both(device, &|device| tried.backward(name, device)),
        TaskPart::Loss { form, real } => tried.loss(form, *real, device),
        TaskPart::Trace(rows) => tried.trace(rows, device),
    }
}

/// What is tried: the point of the defaults.
struct Tried<'a> {
    spec: &'a StudySpec,
    trial: TrialSpec,
    showing: Showing,
}

impl Tried<'_> {
    fn network(&self, device: Device) -> Result<DbNet> {
        at("the network's weights");
        fresh(&self.trial, start::weights(self.spec)?.as_ref(), device)
    }

    /// Pages of a batch.
    fn count(&self) -> Result<usize> {
        Ok(self.trial.int::<usize>("train.batch_size")?.clamp(1, PAGES))
    }

    /// Pages that nobody wrote.
    fn made_up(&self) -> Result<Vec<Example>> {
        let pages = (0..self.count()? as u64).map(|number| {
            let (picture, truths) = made_up::page(number, self.showing.size as u32);
            Example::seen((&picture, &truths), &self.showing, None)
        });
        Ok(pages.collect())
    }

    /// The first pages to train on, or those of these numbers.
    fn real(&self, rows: Option<&[usize]>) -> Result<Vec<Example>> {
        at("the pages");
        let (pages, split) = load(self.spec)?;
        let train = split.rounds().into_iter().next().map(|round| round.train);
        let train = train.unwrap_or_default();
        let first = &train[..train.len().min(self.count()?)];
        let examples = rows.unwrap_or(first).iter().map(|row| {
            ensure!(train.contains(row), "page {} is not trained on", row + 1);
            Example::of(&pages.pages[*row], &self.showing, None)
        });
        let examples: Vec<Example> = examples.collect::<Result<_>>()?;
        ensure!(!examples.is_empty(), "there are no pages to train on");
        Ok(examples)
    }

    /// All of the network, forward.
    fn model(&self, device: Device) -> Result<String> {
        let (pages, size) = (self.made_up()?, self.showing.size);
        let found = on_both(device, &|device| {
            let network = self.network(device)?;
            let (pictures, _) = batch(&pages, size, device)?;
            at("the network, forward");
            let maps = network.forward(&pictures, true)?;
            let all = [
                ("probabilities", maps.probability),
                ("thresholds", maps.threshold),
            ];
            let read = all.map(|(name, map)| -> Result<_> {
                Ok((name.to_owned(), map.f_detach()?.f_to_device(Device::Cpu)?))
            });
            let all: Named = read.into_iter().collect::<Result<_>>()?;
            finite(&all)?;
            Ok(all)
        })?;
        let count = pages.len();
        Ok(format!("{count} pages of {size} x {size} pixels, {found}"))
    }

    /// What goes into a part, which nothing has computed.
    fn inputs(&self, part: &str, device: Device) -> Result<Vec<Tensor>> {
        let network = Network::of(&self.trial)?;
        let (count, side) = (self.count()? as i64, self.showing.size as i64);
        let expansion = network.backbone.expansion();
        let widths = network.widths();
        // Behind a stage, from 0.
        let behind = |stage: usize| {
            let side = (side / 4) >> stage;
            [count, (widths[stage] * expansion) as i64, side, side]
        };
        let shapes = match (part, stage_of(part)) {
            ("stem", _) => vec![[count, 3, side, side]],
            (_, Some(0)) => vec![[count, widths[0] as i64, side / 4, side / 4]],
            (_, Some(stage)) => vec![behind(stage - 1)],
            ("pyramid", _) => (0..4).map(behind).collect(),
            ("head", _) => vec![[count, network.fpn_width as i64, side / 4, side / 4]],
            _ => bail!(
                "the network has no part {part}; it has {}",
                PARTS.join(", ")
            ),
        };
        let rng = &mut rng(self.trial.seed, 0, "states");
        let values = shapes
            .iter()
            .map(|shape| leaf(&numbers(shape, rng)?, device));
        values.collect()
    }

    fn backward(&self, part: &str, device: Device) -> Result<Named> {
        let inputs = self.inputs(part, device)?;
        let network = self.network(device)?;
        at(&format!("{part}, forward"));
        let out = network.part(part, &inputs)?;
        let out = Tensor::f_cat(&out, 1)?;
        let mut leaves: Named = (0..)
            .zip(inputs)
            .map(|(number, input)| (format!("its input {number}"), input))
            .collect();
        let parameters = network.listed_of(part).parameters.into_iter();
        leaves.extend(parameters.map(|p| (p.name, p.tensor)));
        there_and_back(part, &out, &leaves)
    }

    /// A loss of maps that nothing has computed.
    fn loss(mut self, form: &str, real: bool, device: Device) -> Result<String> {
        let pages = match real {
            true => self.real(None)?,
            false => self.made_up()?,
        };
        if !["threshold", "binary"].contains(&form) {
            let kind = Value::from(form);
            self.trial.config.insert("loss.prob.type".to_owned(), kind);
        }
        let settings = LossSettings::of(&self.trial)?;
        let (count, side) = (pages.len() as i64, self.showing.size as i64);
        let rng = &mut rng(self.trial.seed, 0, "maps");
        let mut map = || numbers(&[count, 1, side, side], rng);
        let maps = [map()?, map()?];
        let found = on_both(device, &|device| {
            let (_, targets) = batch(&pages, self.showing.size, device)?;
            at(&format!("loss {form}, forward"));
            let [probability, threshold] = [leaf(&maps[0], device)?, leaf(&maps[1], device)?];
            let leaves = vec![
                ("the probabilities".to_owned(), probability.shallow_clone()),
                ("the thresholds".to_owned(), threshold.shallow_clone()),
            ];
            let maps = Maps {
                probability,
                threshold,
            };
            let losses = settings.losses(&maps, &targets)?;
            let loss = match form {
                "threshold" => losses.threshold,
                "binary" => losses.binary,
                _ => losses.probability,
            };
            there_and_back(&format!("loss {form}"), &loss, &leaves)
        })?;
        let texts: usize = pages.iter().map(|page| page.truths.len()).sum();
        Ok(format!("{count} pages with {texts} texts, {found}"))
    }

    /// One pass over these pages, there and back, unchanged: each part's result is looked at before the next is begun.
    fn trace(&self, rows: &[usize], device: Device) -> Result<String> {
        let pages = self.real((!rows.is_empty()).then_some(rows))?;
        let network = self.network(device)?;
        let (pictures, targets) = batch(&pages, self.showing.size, device)?;
        let mut states = vec![network.coloured(&pictures)?];
        let mut behind_stages = Vec::new();
        for part in PARTS {
            let what = format!("{part}, forward");
            at(&what);
            if part == "pyramid" {
                states = std::mem::take(&mut behind_stages);
            }
            states = network.part(part, &states)?;
            states
                .iter()
                .try_for_each(|state| looked_at(&what, state))?;
            if stage_of(part).is_some() {
                behind_stages.push(states[0].shallow_clone());
            }
        }
        let [probability, threshold] = <[Tensor; 2]>::try_from(states)
            .map_err(|states| anyhow::anyhow!("{} maps", states.len()))?;
        at("the losses, forward");
        let maps = Maps {
            probability,
            threshold,
        };
        let loss = self.looked_at_losses(&maps, &targets)?;
        let parameters = network.listed().parameters.into_iter();
        let leaves: Named = parameters.map(|p| (p.name, p.tensor)).collect();
        back(&loss, &leaves)
    }

    fn looked_at_losses(&self, maps: &Maps, targets: &Targets) -> Result<Tensor> {
        let settings = LossSettings::of(&self.trial)?;
        let losses = settings.losses(maps, targets)?;
        for (name, loss) in [
            ("probability", &losses.probability),
            ("threshold", &losses.threshold),
            ("binary", &losses.binary),
        ] {
            looked_at(&format!("the loss of the {name}, forward"), loss)?;
        }
        Ok(settings.total(&losses)?.f_to_kind(Kind::Float)?)
    }
}
