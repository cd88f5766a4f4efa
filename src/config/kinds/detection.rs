//! `text-detection`: what it reads and reports.

use search::study::Direction;

use super::shared::{BY_LIBTORCH, FREEZE, LoopPresets, SPLIT, joined, training_loop};
use crate::active_when::{ActiveWhen, Is, when};
use crate::key::{FRACTION, Key, KeyType, Preset, data, float, int, training};
use crate::{Metric, TaskKind};

const BALANCED: ActiveWhen = when("loss.prob.type", Is::OneOf(&["bce"]));
const FOCAL: ActiveWhen = when("loss.prob.type", Is::OneOf(&["focal"]));

/// What texts are given as.
pub const SHAPE: &str = "task.shape";

/// The parameters after training, in the order of their settings: threshold, box threshold, unclip ratio, shortest side.
pub const POST: [&str; 4] = [
    "post.threshold",
    "post.box_threshold",
    "post.unclip",
    "post.min_side",
];

/// Every key of the kind.
pub const KEYS: &[Key] = &joined::<_, 49>(&[&OWN, &SPLIT, &LOOP]);

const LOOP: [Key; 16] = training_loop(LoopPresets {
    epochs: 40,
    patience: 10,
    batch_size: 8,
    lr: 1e-3,
});

const SHARE: KeyType = KeyType::Grid {
    low: 0.0,
    high: 1.0,
};

/// Those that no other kind has.
const OWN: [Key; 26] = [
    data("data.path", KeyType::Path, Preset::Required)
        .help("the pages: a .jsonl file, a directory in the manner of ICDAR 2015, or a .json file in the manner of COCO-Text or MMOCR"),
    data(SHAPE, KeyType::Choice(&["quad", "polygon"]), Preset::Text("quad"))
        .help("whether a text is given as its smallest rectangle, in any direction, or as its outline"),
    training("input.size", int(32, 4096), Preset::Int(320))
        .help("pages are scaled into a square of so many pixels a side, rounded up to a multiple of 32"),
    training("model.backbone", KeyType::Choice(&["resnet18", "resnet34", "resnet50"]), Preset::Text("resnet18"))
        .help("the residual network that encodes the picture"),
    training("model.width", float(0.03, 4.0), Preset::Float(1.0))
        .help("how wide it is; 1: 64 channels in the first stage, 512 in the last (2048 with resnet50)"),
    data("model.weights", KeyType::Path, Preset::Optional)
        .help("weights that the residual network begins with: a file under torchvision's names, .safetensors or what torch.save writes"),
    training(FREEZE, int(0, 4), Preset::Int(0))
        .help("k >= 1 freezes what is before the residual network's four layers and the first k of them, with their batch norms"),
    training("model.fpn_width", int(4, 2048), Preset::Int(256))
        .help("channels of the feature pyramid, rounded up to a multiple of 4"),
    training("labels.shrink_ratio", float(0.05, 0.95), Preset::Float(0.4))
        .help("texts are learned shrunk by area (1 - r^2) / perimeter"),
    training("augment.rotate", float(0.0, 180.0), Preset::Float(5.0))
        .help("a page is turned by up to so many degrees, to either side"),
    training("augment.scale", float(1.0, 4.0), Preset::Float(1.25))
        .help("a page is made larger or smaller by up to this factor"),
    training("augment.flip", FRACTION, Preset::Float(0.0))
        .help("how probable it is that a page is mirrored, left to right"),
    training("augment.crop", FRACTION, Preset::Float(0.25))
        .help("how probable it is that a page that is larger than the square is cut anywhere, with one of its texts within, and not in the middle"),
    training("augment.colour", FRACTION, Preset::Float(0.25))
        .help("by how much brightness, contrast and saturation vary, as a share of themselves"),
    training("loss.prob.type", KeyType::Choice(&["bce", "focal"]), Preset::Text("bce"))
        .help("loss of the probabilities: cross entropy of all pixels in texts and the worst outside, or focal loss of all"),
    training("loss.prob.negatives", float(0.1, 1000.0), Preset::Float(3.0))
        .help("pixels outside of texts that count, for each inside; of a batch")
        .only_where(BALANCED),
    training("loss.prob.gamma", float(0.0, 20.0), Preset::Float(2.0))
        .help("how much pixels that are told well count less: their loss is multiplied by (1 - p)^gamma")
        .only_where(FOCAL),
    training("loss.prob.alpha", FRACTION, Preset::Float(0.75))
        .help("weight of pixels in texts; those outside have 1 - alpha")
        .only_where(FOCAL),
    training("loss.prob.weight", float(1e-3, 1e3), Preset::Float(5.0))
        .help("how much the loss of the probabilities counts"),
    training("loss.threshold.weight", float(0.0, 1e3), Preset::Float(10.0))
        .help("how much the absolute error of the thresholds counts"),
    training("loss.binary.weight", float(1e-3, 1e3), Preset::Float(1.0))
        .help("how much the overlap (Dice) of the binary map counts"),
    training("loss.binary.k", float(1.0, 1000.0), Preset::Float(50.0))
        .help("steepness of the binary map: sigmoid(k (probability - threshold))"),
    data(POST[0], SHARE, Preset::Optional)
        .help("a pixel with a larger probability is in a text, by default 0.3; of a list each epoch takes the best on the validation part, without training again, and so with the other parameters after training"),
    data(POST[1], SHARE, Preset::Optional)
        .help("the mean probability that a text has inside, at least; by default 0.6"),
    data(POST[2], KeyType::Grid { low: 0.0, high: 10.0 }, Preset::Optional)
        .help("texts are grown by their area times this, over their perimeter; by default 1.5"),
    data(POST[3], KeyType::Grid { low: 0.0, high: 1000.0 }, Preset::Optional)
        .help("the shortest side that a text has before it is grown, at least, in pixels of the scaled page; by default 3"),
];

/// Of texts, by the protocol of ICDAR 2015; the loss is the mean cross entropy of the pixels that matter.
pub const METRICS: [Metric; 4] = [
    Metric::within("hmean", Direction::Maximize, 0.0, 1.0),
    Metric::within("precision", Direction::Maximize, 0.0, 1.0),
    Metric::within("recall", Direction::Maximize, 0.0, 1.0),
    Metric::within("loss", Direction::Minimize, 0.0, f64::INFINITY),
];

/// Task kind `text-detection`: a DB head on a feature pyramid on a residual network.
pub static KIND: TaskKind = TaskKind {
    name: "text-detection",
    keys: KEYS,
    metrics: &METRICS,
    // Batch norms would see other statistics.
    halves_batches: false,
    ..BY_LIBTORCH
};
