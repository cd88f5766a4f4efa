//! Residual networks (He et al., "Deep Residual Learning for Image Recognition", 2016) under torchvision's names, of any
//! width.

use anyhow::Result;
use tch::Tensor;

use super::layers::{BatchNorm, Conv, Fresh, Listed};
use ::detection::description::{Backbone, Network};

/// Convolutions with a batch norm each, and a way around them.
#[derive(Debug)]
struct Block {
    convs: Vec<(Conv, BatchNorm)>,
    downsample: Option<(Conv, BatchNorm)>,
}

impl Block {
    /// From `input` channels to `width`, four times as many of a bottleneck.
    fn new(
        backbone: Backbone,
        [input, width]: [usize; 2],
        stride: i64,
        fresh: &mut Fresh<'_>,
    ) -> Result<Block> {
        let out = width * backbone.expansion();
        // Input, output, kernel, stride. torchvision's bottlenecks have the stride at the second convolution.
        let plan = match backbone.expansion() {
            1 => vec![(input, width, 3, stride), (width, width, 3, 1)],
            _ => vec![
                (input, width, 1, 1),
                (width, width, 3, stride),
                (width, out, 1, 1),
            ],
        };
        let mut pair = |(input, out, kernel, stride): (usize, usize, usize, i64)| {
            let conv = Conv::new([input, out], kernel, stride, fresh)?;
            Ok((conv, BatchNorm::new(out, fresh)?))
        };
        let convs = plan.into_iter().map(&mut pair).collect::<Result<_>>()?;
        let around = stride != 1 || input != out;
        Ok(Block {
            convs,
            downsample: around.then(|| pair((input, out, 1, stride))).transpose()?,
        })
    }

    fn forward(&self, x: &Tensor, training: bool) -> Result<Tensor> {
        let around = match &self.downsample {
            None => x.shallow_clone(),
            Some((conv, norm)) => norm.forward(&conv.forward(x)?, training)?,
        };
        let mut x = x.shallow_clone();
        for (at, (conv, norm)) in self.convs.iter().enumerate() {
            if at > 0 {
                x = x.f_relu()?;
            }
            x = norm.forward(&conv.forward(&x)?, training)?;
        }
        Ok(x.f_add(&around)?.f_relu()?)
    }

    fn list(&self, name: &str, all: &mut Listed) {
        for (at, (conv, norm)) in (1..).zip(&self.convs) {
            conv.list(&format!("{name}.conv{at}"), all);
            norm.list(&format!("{name}.bn{at}"), all);
        }
        if let Some((conv, norm)) = &self.downsample {
            conv.list(&format!("{name}.downsample.0"), all);
            norm.list(&format!("{name}.downsample.1"), all);
        }
    }
}

/// A residual network without its classifier.
#[derive(Debug)]
pub struct ResNet {
    conv1: Conv,
    bn1: BatchNorm,
    stages: Vec<Vec<Block>>,
    /// So many stages, and what is before them, are used as they are; with 0, nothing is.
    frozen: usize,
}

impl ResNet {
    /// A fresh one.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn new(network: &Network, fresh: &mut Fresh<'_>) -> Result<ResNet> {
        let backbone = network.backbone;
        let widths = network.widths();
        let conv1 = Conv::new([3, widths[0]], 7, 2, fresh)?;
        let bn1 = BatchNorm::new(widths[0], fresh)?;
        let mut input = widths[0];
        let mut stages = Vec::new();
        for (at, (width, blocks)) in widths.into_iter().zip(backbone.blocks()).enumerate() {
            let mut stage = Vec::new();
            for block in 0..blocks {
                let stride = if at > 0 && block == 0 { 2 } else { 1 };
                stage.push(Block::new(backbone, [input, width], stride, fresh)?);
                input = width * backbone.expansion();
            }
            stages.push(stage);
        }
        Ok(ResNet {
            conv1,
            bn1,
            stages,
            frozen: 0,
        })
    }

    /// Trains the first `stages` no more, nor what is before them; none where it is 0.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn freeze(&mut self, stages: usize) -> Result<()> {
        self.frozen = stages.min(self.stages.len());
        let mut frozen = Listed::default();
        if self.frozen > 0 {
            self.list_stem("", &mut frozen);
            (0..self.frozen).for_each(|stage| self.list_stage(stage, "", &mut frozen));
        }
        for parameter in frozen.parameters {
            let _frozen = parameter.tensor.f_set_requires_grad(false)?;
        }
        Ok(())
    }

    /// The states behind the four stages, of `x [B, 3, H, W]`: `[B, C, H / 4, W / 4]`, to `[B, 8 C, H / 32, W / 32]`.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn forward(&self, x: &Tensor, training: bool) -> Result<Vec<Tensor>> {
        let mut x = self.stem(x, training && self.frozen == 0)?;
        let mut taps = Vec::new();
        for stage in 0..self.stages.len() {
            x = self.stage(stage, &x, training && stage >= self.frozen)?;
            taps.push(x.shallow_clone());
        }
        Ok(taps)
    }

    /// What is before the stages: `[B, C, H / 4, W / 4]`.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn stem(&self, x: &Tensor, training: bool) -> Result<Tensor> {
        let x = self.bn1.forward(&self.conv1.forward(x)?, training)?;
        Ok(x.f_relu()?.f_max_pool2d(3, 2, 1, 1, false)?)
    }

    /// A stage, from 0, of the states before it.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn stage(&self, stage: usize, x: &Tensor, training: bool) -> Result<Tensor> {
        let mut blocks = self.stages[stage].iter();
        blocks.try_fold(x.shallow_clone(), |x, block| block.forward(&x, training))
    }

    /// Under torchvision's names behind `name`.
    pub fn list(&self, name: &str, all: &mut Listed) {
        self.list_stem(name, all);
        (0..self.stages.len()).for_each(|stage| self.list_stage(stage, name, all));
    }

    /// What is before the stages alone.
    pub fn list_stem(&self, name: &str, all: &mut Listed) {
        self.conv1.list(&format!("{name}.conv1"), all);
        self.bn1.list(&format!("{name}.bn1"), all);
    }

    /// A stage alone, from 0.
    pub fn list_stage(&self, stage: usize, name: &str, all: &mut Listed) {
        for (at, block) in self.stages[stage].iter().enumerate() {
            block.list(&format!("{name}.layer{}.{at}", stage + 1), all);
        }
    }
}
