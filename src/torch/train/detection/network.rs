//! The network: a residual encoder, a feature pyramid, and a head with two maps (Liao et al., "Real-time Scene Text
//! Detection with Differentiable Binarization", 2020, arXiv 1911.08947).

use anyhow::{Result, bail, ensure};
use tch::{Kind, Tensor};

use super::layers::{BatchNorm, Conv, Doubling, Fresh, Listed};
use super::resnet::ResNet;
use crate::train::tensors::convert;
use ::detection::description::Network;
use ::training::tensors::TensorFiles;

/// The means of the red, green and blue values of ImageNet's pictures, and their standard deviations, of 0 to 255: what
/// torchvision's weights expect.
const COLOURS: [[f32; 3]; 2] = [[123.675, 116.28, 103.53], [58.395, 57.12, 57.375]];

/// From the states of four resolutions to one, a quarter of the picture's.
#[derive(Debug)]
struct Pyramid {
    /// 1x1, one for each resolution.
    lateral: Vec<Conv>,
    /// 3x3, to a quarter of the width each.
    smooth: Vec<Conv>,
}

impl Pyramid {
    /// `taps` of falling resolutions; `[B, width, H / 4, W / 4]`.
    fn forward(&self, taps: &[Tensor]) -> Result<Tensor> {
        let mut above: Option<Tensor> = None;
        let mut maps = Vec::new();
        let size = taps[0].size();
        for ((tap, lateral), smooth) in taps.iter().zip(&self.lateral).zip(&self.smooth).rev() {
            let mut x = lateral.forward(tap)?;
            if let Some(above) = above {
                let to = x.size();
                x = x.f_add(&above.f_upsample_nearest2d([to[2], to[3]], None, None)?)?;
            }
            let map = smooth.forward(&x)?;
            maps.push(map.f_upsample_nearest2d([size[2], size[3]], None, None)?);
            above = Some(x);
        }
        Ok(Tensor::f_cat(&maps, 1)?)
    }

    fn list(&self, name: &str, all: &mut Listed) {
        for (word, convs) in [("lateral", &self.lateral), ("smooth", &self.smooth)] {
            for (at, conv) in convs.iter().enumerate() {
                conv.list(&format!("{name}.{word}.{at}"), all);
            }
        }
    }
}

/// One map of the head: from a quarter of the picture's resolution to its own.
#[derive(Debug)]
struct MapHead {
    conv: Conv,
    norm1: BatchNorm,
    double1: Doubling,
    norm2: BatchNorm,
    double2: Doubling,
}

impl MapHead {
    fn new(width: usize, fresh: &mut Fresh<'_>) -> Result<MapHead> {
        let inner = (width / 4).max(1);
        Ok(MapHead {
            conv: Conv::new([width, inner], 3, 1, fresh)?,
            norm1: BatchNorm::new(inner, fresh)?,
            double1: Doubling::new([inner, inner], false, fresh)?,
            norm2: BatchNorm::new(inner, fresh)?,
            double2: Doubling::new([inner, 1], true, fresh)?,
        })
    }

    /// `[B, width, H / 4, W / 4]` to logits `[B, 1, H, W]`.
    fn forward(&self, x: &Tensor, training: bool) -> Result<Tensor> {
        let x = self.norm1.forward(&self.conv.forward(x)?, training)?;
        let x = self.double1.forward(&x.f_relu()?)?;
        let x = self.norm2.forward(&x, training)?;
        self.double2.forward(&x.f_relu()?)
    }

    fn list(&self, name: &str, all: &mut Listed) {
        self.conv.list(&format!("{name}.conv"), all);
        self.norm1.list(&format!("{name}.norm1"), all);
        self.double1.list(&format!("{name}.double1"), all);
        self.norm2.list(&format!("{name}.norm2"), all);
        self.double2.list(&format!("{name}.double2"), all);
    }
}

/// The stage, from 0, that a part is: `layer.1` to `layer.4`.
pub fn stage_of(part: &str) -> Option<usize> {
    let number: usize = part.strip_prefix("layer.")?.parse().ok()?;
    (1..=4).contains(&number).then(|| number - 1)
}

/// The whole network.
#[derive(Debug)]
pub struct DbNet {
    encoder: ResNet,
    neck: Pyramid,
    probability: MapHead,
    threshold: MapHead,
    /// Means and deviations of the colours, `[1, 3, 1, 1]` each.
    colours: [Tensor; 2],
}

/// What the head says: logits `[B, 1, H, W]`.
pub struct Maps {
    /// Of the probability that a pixel is in a shrunk text.
    pub probability: Tensor,
    /// Of the threshold.
    pub threshold: Tensor,
}

impl DbNet {
    /// A fresh network.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn new(network: &Network, fresh: &mut Fresh<'_>) -> Result<DbNet> {
        let encoder = ResNet::new(network, fresh)?;
        let width = network.fpn_width;
        let expansion = network.backbone.expansion();
        let mut lateral = Vec::new();
        for channels in network.widths() {
            lateral.push(Conv::new([channels * expansion, width], 1, 1, fresh)?);
        }
        let mut smooth = Vec::new();
        for _ in &lateral {
            smooth.push(Conv::new([width, width / 4], 3, 1, fresh)?);
        }
        let colour = |values: &[f32; 3]| -> Result<Tensor> {
            let tensor = Tensor::f_from_slice(values)?.f_view([1, 3, 1, 1])?;
            Ok(tensor.f_to_device(fresh.device)?)
        };
        let colours = [colour(&COLOURS[0])?, colour(&COLOURS[1])?];
        let neck = Pyramid { lateral, smooth };
        Ok(DbNet {
            encoder,
            neck,
            probability: MapHead::new(width, fresh)?,
            threshold: MapHead::new(width, fresh)?,
            colours,
        })
    }

    /// Of pictures `[B, H, W, 3]`, bytes of red, green and blue; H and W are multiples of 32.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn forward(&self, pictures: &Tensor, training: bool) -> Result<Maps> {
        let x = self.features(pictures, training)?;
        let map = |head: &MapHead| -> Result<Tensor> {
            Ok(head.forward(&x, training)?.f_to_kind(Kind::Float)?)
        };
        Ok(Maps {
            probability: map(&self.probability)?,
            threshold: map(&self.threshold)?,
        })
    }

    /// The logits `[B, H, W]` of the probabilities alone, by the running statistics.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn logits(&self, pictures: &Tensor) -> Result<Tensor> {
        let _no_grad = tch::no_grad_guard();
        let x = self.features(pictures, false)?;
        let logits = self.probability.forward(&x, false)?;
        Ok(logits.f_to_kind(Kind::Float)?.f_squeeze_dim(1)?)
    }

    fn features(&self, pictures: &Tensor, training: bool) -> Result<Tensor> {
        let x = self.coloured(pictures)?;
        self.neck.forward(&self.encoder.forward(&x, training)?)
    }

    /// Pictures `[B, H, W, 3]`, bytes, as the first part reads them: `[B, 3, H, W]`.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn coloured(&self, pictures: &Tensor) -> Result<Tensor> {
        // Colours stay together in memory (channels_last), which convolutions on CPUs are fastest with.
        let x = pictures.f_permute([0, 3, 1, 2])?.f_to_kind(Kind::Float)?;
        Ok(x.f_sub(&self.colours[0])?.f_div(&self.colours[1])?)
    }

    /// A part by itself, as in training; one of [`detection::PARTS`]. The pyramid reads the states behind all stages, the
    /// head gives the logits of the probabilities and of the thresholds; every other part goes from states to states.
    ///
    /// # Errors
    /// libtorch throws, or there is no such part.
    pub fn part(&self, name: &str, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        Ok(match (name, stage_of(name)) {
            ("stem", _) => vec![self.encoder.stem(&inputs[0], true)?],
            (_, Some(stage)) => vec![self.encoder.stage(stage, &inputs[0], true)?],
            ("pyramid", _) => vec![self.neck.forward(inputs)?],
            ("head", _) => vec![
                self.probability.forward(&inputs[0], true)?,
                self.threshold.forward(&inputs[0], true)?,
            ],
            _ => bail!("the network has no part {name}"),
        })
    }

    /// The tensors of a part.
    pub fn listed_of(&self, name: &str) -> Listed {
        let mut all = Listed::default();
        match (name, stage_of(name)) {
            ("stem", _) => self.encoder.list_stem("encoder", &mut all),
            (_, Some(stage)) => self.encoder.list_stage(stage, "encoder", &mut all),
            ("pyramid", _) => self.neck.list("neck", &mut all),
            _ => self.list_head(&mut all),
        }
        all
    }

    fn list_head(&self, all: &mut Listed) {
        self.probability.list("head.probability", all);
        self.threshold.list("head.threshold", all);
    }

    /// Gives the encoder the values of a file, by torchvision's names.
    ///
    /// # Errors
    /// The file lacks one of them, or has another shape or a value that is not finite; libtorch throws.
    pub fn start_from(&self, weights: &TensorFiles) -> Result<()> {
        let mut all = Listed::default();
        self.encoder.list("", &mut all);
        let trained = all.parameters.into_iter().map(|p| (p.name, p.tensor));
        let mut reader = weights.reader();
        let _no_grad = tch::no_grad_guard();
        for (name, mut tensor) in trained.chain(all.buffers) {
            let name = name.trim_start_matches('.');
            let values = convert(&reader.read(name)?, name)?;
            ensure!(
                values.size() == tensor.size(),
                "{name} has the shape {:?}",
                values.size()
            );
            tensor.f_copy_(&values)?;
        }
        Ok(())
    }

    /// Freezes what is before the encoder's layers and the first `layers` of them; none where it is 0.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn freeze(&mut self, layers: usize) -> Result<()> {
        self.encoder.freeze(layers)
    }

    /// All its tensors: `encoder` with torchvision's names, `neck`, `head`.
    pub fn listed(&self) -> Listed {
        let mut all = Listed::default();
        self.encoder.list("encoder", &mut all);
        self.neck.list("neck", &mut all);
        self.list_head(&mut all);
        all
    }
}
