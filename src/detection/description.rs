//! What a detector is, beside its weights: `detection.json` of an exported directory.

use anyhow::Result;
use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};

use crate::example::Showing;
use crate::post::{PostSettings, Shape};
use config::kinds::detection::{POST, SHAPE};
use search::space::{Params, Value};
use task::TrialSpec;
use training::exported::{DETECTION_FILE, Described, Describes};

/// Which residual network encodes the picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, EnumString, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Backbone {
    /// 8 blocks of two convolutions.
    ResNet18,
    /// 16 blocks of two.
    ResNet34,
    /// 16 bottlenecks of three.
    ResNet50,
}

impl Backbone {
    /// By its name in configurations.
    pub fn of(word: &str) -> Option<Backbone> {
        word.parse().ok()
    }

    /// Its name in configurations.
    pub fn word(self) -> &'static str {
        self.into()
    }

    /// Blocks of each stage.
    pub fn blocks(self) -> [usize; 4] {
        match self {
            Backbone::ResNet18 => [2, 2, 2, 2],
            Backbone::ResNet34 | Backbone::ResNet50 => [3, 4, 6, 3],
        }
    }

    /// Channels behind a block, over those within.
    pub fn expansion(self) -> usize {
        match self {
            Backbone::ResNet18 | Backbone::ResNet34 => 1,
            Backbone::ResNet50 => 4,
        }
    }
}

/// The network's shape.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Network {
    /// The encoder.
    pub backbone: Backbone,
    /// How wide it is: 1 is torchvision's 64 channels in the first stage.
    pub width: f64,
    /// Channels of the feature pyramid, a multiple of 4.
    pub fpn_width: usize,
}

impl Network {
    /// Of a configuration.
    ///
    /// # Errors
    /// A key is absent or of the wrong type.
    pub fn of(trial: &TrialSpec) -> Result<Network> {
        Ok(Network {
            backbone: trial.word("model.backbone")?,
            width: trial.float("model.width")?,
            fpn_width: trial.int::<usize>("model.fpn_width")?.next_multiple_of(4),
        })
    }

    /// Channels within the blocks of each stage: even numbers, at least 4.
    pub fn widths(&self) -> [usize; 4] {
        let first = (32.0 * self.width).round().max(2.0) as usize * 2;
        [1, 2, 4, 8].map(|factor| factor * first)
    }

    /// The encoder's convolutions, each with its batch norm, under torchvision's names.
    pub fn convolutions(&self) -> Vec<Convolution> {
        let (expansion, widths) = (self.backbone.expansion(), self.widths());
        let conv = |name: String, norm: String, sizes| Convolution { name, norm, sizes };
        let mut input = widths[0];
        let mut all = vec![conv("conv1".into(), "bn1".into(), [3, input, 7])];
        for (stage, (width, blocks)) in widths.into_iter().zip(self.backbone.blocks()).enumerate() {
            let out = width * expansion;
            for block in 0..blocks {
                let within = match expansion {
                    1 => vec![[input, width, 3], [width, width, 3]],
                    _ => vec![[input, width, 1], [width, width, 3], [width, out, 1]],
                };
                let name = format!("layer{}.{block}", stage + 1);
                for (at, sizes) in (1..).zip(within) {
                    all.push(conv(
                        format!("{name}.conv{at}"),
                        format!("{name}.bn{at}"),
                        sizes,
                    ));
                }
                if input != out || (stage > 0 && block == 0) {
                    let [name, norm] = [0, 1].map(|part| format!("{name}.downsample.{part}"));
                    all.push(conv(name, norm, [input, out, 1]));
                }
                input = out;
            }
        }
        all
    }

    /// Numbers that are trained: of convolutions, and two for each channel of a batch norm.
    pub fn parameters(&self) -> usize {
        let conv = |[input, out, kernel]: [usize; 3]| out * (input * kernel * kernel + 2);
        let encoder: usize = self.convolutions().iter().map(|c| conv(c.sizes)).sum();
        let (expansion, widths) = (self.backbone.expansion(), self.widths());
        let (fpn, inner) = (self.fpn_width, self.fpn_width / 4);
        let lateral: usize = widths.iter().map(|width| width * expansion * fpn).sum();
        let head = conv([fpn, inner, 3]) + conv([inner, inner, 2]) + 4 * inner + 1;
        encoder + lateral + 4 * 9 * fpn * inner + 2 * head
    }
}

/// A convolution of the encoder, with the batch norm behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Convolution {
    /// Its name.
    pub name: String,
    /// The batch norm's.
    pub norm: String,
    /// Channels before it and behind it, and the kernel's side.
    pub sizes: [usize; 3],
}

/// A directory that `tune export` wrote.
pub type ExportedDetector = Described<Description>;

/// Everything that predictions need beside the weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// 1.
    pub format: u32,
    /// The network.
    pub network: Network,
    /// Pages are scaled into a square of so many pixels a side, a multiple of 32.
    pub size: usize,
    /// What texts are given as: `quad` or `polygon`.
    pub shape: String,
    /// A pixel with a larger probability is in a text.
    pub threshold: f64,
    /// The mean probability that a text has inside, at least.
    pub box_threshold: f64,
    /// Texts are grown by their area times this, over their perimeter.
    pub unclip: f64,
    /// The shortest side that a text has before it is grown, at least, in pixels of the scaled page.
    pub min_side: f64,
}

impl Description {
    /// Of a trial, with the parameters after training at their defaults.
    ///
    /// # Errors
    /// A key is absent or of the wrong type.
    pub fn of(trial: &TrialSpec) -> Result<Description> {
        let post = PostSettings::default();
        Ok(Description {
            format: 1,
            network: Network::of(trial)?,
            size: Showing::of(trial)?.size,
            shape: trial.text(SHAPE)?.to_owned(),
            threshold: f64::from(post.threshold),
            box_threshold: f64::from(post.box_threshold),
            unclip: post.unclip,
            min_side: post.min_side,
        })
    }

    /// How outlines are made of a map.
    pub fn post(&self) -> PostSettings {
        PostSettings {
            threshold: self.threshold as f32,
            box_threshold: self.box_threshold as f32,
            unclip: self.unclip,
            min_side: self.min_side,
            shape: Shape::named(&self.shape).unwrap_or(Shape::Quad),
        }
    }
}

impl Describes for Description {
    const FILE: &'static str = DETECTION_FILE;
    const EXPECTED: &'static str = "the description of a text detector, as `tune export` writes it";

    fn misfit(&self) -> Option<String> {
        let Network {
            width, fpn_width, ..
        } = self.network;
        let (format, size, shape) = (self.format, self.size, &self.shape);
        let possible = (0.03..=4.0).contains(&width)
            && (4..=2048).contains(&fpn_width)
            && fpn_width.is_multiple_of(4)
            && (32..=4096).contains(&size)
            && size.is_multiple_of(32)
            && Shape::named(shape).is_some();
        (format != 1 || !possible).then(|| {
            format!(
                "format {format}, width {width}, fpn_width {fpn_width}, size {size}, shape {shape}"
            )
        })
    }

    fn with(mut self, post: &Params) -> Description {
        let places = [
            &mut self.threshold,
            &mut self.box_threshold,
            &mut self.unclip,
            &mut self.min_side,
        ];
        for (key, place) in POST.into_iter().zip(places) {
            if let Some(value) = post.get(key).and_then(Value::as_f64) {
                *place = value;
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_as_many_as_those_of_torchvision() {
        // Of torchvision's networks without their classifiers (11,689,512 less 513,000, and so on).
        for (backbone, encoder) in [
            (Backbone::ResNet18, 11_176_512),
            (Backbone::ResNet34, 21_284_672),
            (Backbone::ResNet50, 23_508_032),
        ] {
            let network = Network {
                backbone,
                width: 1.0,
                fpn_width: 256,
            };
            let lateral = 960 * backbone.expansion() * 256;
            let head = 64 * (256 * 9 + 2) + 64 * (64 * 4 + 2) + 64 * 4 + 1;
            let rest = lateral + 4 * 256 * 64 * 9 + 2 * head;
            assert_eq!(network.parameters(), encoder + rest, "{backbone:?}");
        }
    }
}
