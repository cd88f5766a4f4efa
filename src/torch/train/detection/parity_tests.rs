//! That maps, losses and gradients are PyTorch's: `tests/reference/make_detection.py` has the network once more.

use std::path::Path;

use safetensors::SafeTensors;
use tch::{Device, Kind, Tensor};

use super::layers::Fresh;
use super::loss::{LossSettings, Pixels, ProbabilityLoss, Targets};
use super::network::DbNet;
use crate::train::testing::{alone, reference};
use ::detection::description::{Backbone, Network};
use search::study::rng;

const SIZE: i64 = 64;

/// `sin(0.3 + pace k)`, of each `k` below `count`.
fn wave(count: i64, pace: f64) -> Tensor {
    let places = Tensor::arange(count, (Kind::Double, Device::Cpu));
    (places * pace + 0.3).sin()
}

/// The network whose weights are waves.
fn network(backbone: Backbone) -> DbNet {
    let shape = Network {
        backbone,
        width: 1.0 / 16.0,
        fpn_width: 8,
    };
    let mut fresh = Fresh {
        device: Device::Cpu,
        rng: &mut rng(0, 0, "model"),
    };
    let network = DbNet::new(&shape, &mut fresh).unwrap();
    let _no_grad = tch::no_grad_guard();
    for (at, parameter) in network.listed().parameters.into_iter().enumerate() {
        let size = parameter.tensor.size();
        let values = wave(parameter.tensor.numel() as i64, 1.1 + 0.0137 * at as f64);
        let fan: i64 = size[1..].iter().product();
        let values = match size.len() {
            1 => values * 0.2 + if at % 3 > 0 { 1.0 } else { 0.0 },
            _ => values * (2.0 / fan as f64).sqrt(),
        };
        let mut tensor = parameter.tensor;
        tensor.copy_(&values.view(size.as_slice()).to_kind(Kind::Float));
    }
    network
}

/// Two pages: one with texts, where there are any, and one with an ignored region.
fn targets(texts: bool) -> Targets {
    let full = |value: f64| Tensor::full([2, SIZE, SIZE], value, (Kind::Float, Device::Cpu));
    let fill =
        |map: &Tensor, page: i64, [top, bottom]: [i64; 2], [left, right]: [i64; 2], to: f64| {
            let _ = (map.select(0, page).narrow(0, top, bottom - top))
                .narrow(1, left, right - left)
                .fill_(to);
        };
    let (shrunk, shrunk_mask, threshold, threshold_mask) =
        (full(0.0), full(1.0), full(0.3), full(0.0));
    fill(&shrunk_mask, 1, [4, 20], [8, 50], 0.0);
    let mut inside = 0;
    if texts {
        fill(&shrunk, 0, [10, 20], [5, 40], 1.0);
        fill(&threshold, 0, [6, 24], [2, 44], 0.6);
        fill(&threshold_mask, 0, [6, 24], [2, 44], 1.0);
        inside = 10 * 35;
    }
    let outside = (2 * SIZE * SIZE) as usize - 16 * 42 - inside;
    Targets {
        shrunk,
        shrunk_mask,
        threshold,
        threshold_mask,
        counts: Pixels { inside, outside },
    }
}

fn assert_close(what: &str, found: &Tensor, expected: &Tensor, most: f64) {
    let off = (found - expected).abs().max().double_value(&[]);
    let scale = expected.abs().max().double_value(&[]).max(1e-3);
    assert!(off <= most * scale, "{what} differs by {off} of {scale}");
}

#[test]
fn the_network_and_its_losses_are_those_of_pytorch() {
    let _alone = alone();
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/reference/detection.safetensors");
    let bytes = std::fs::read(path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let pictures = ((wave(2 * SIZE * SIZE * 3, 0.7371) + 1.0) * 127.0).round();
    let pictures = pictures.view([2, SIZE, SIZE, 3]).to_kind(Kind::Uint8);
    let thinned = |map: &Tensor| map.slice(2, 0, SIZE, 4).slice(3, 0, SIZE, 4);
    for (name, backbone) in [
        ("resnet18", Backbone::ResNet18),
        ("resnet50", Backbone::ResNet50),
    ] {
        let network = network(backbone);
        let expected = |word: &str| reference(&file, &format!("{name}.{word}"));
        let maps = network.forward(&pictures, true).unwrap();
        assert_close(
            "the probability",
            &thinned(&maps.probability),
            &expected("probability"),
            1e-4,
        );
        assert_close(
            "the threshold",
            &thinned(&maps.threshold),
            &expected("threshold"),
            1e-4,
        );
        let parameters = network.listed().parameters;
        for (case, texts) in [("texts", true), ("none", false)] {
            let settings = |probability| LossSettings {
                probability,
                probability_weight: 5.0,
                threshold_weight: 10.0,
                binary_weight: 1.0,
                steepness: 50.0,
            };
            let balanced = settings(ProbabilityLoss::Balanced { negatives: 3.0 });
            let focal = settings(ProbabilityLoss::Focal {
                gamma: 2.0,
                alpha: 0.25,
            });
            let targets = targets(texts);
            let losses = balanced.losses(&maps, &targets).unwrap();
            let total = balanced.total(&losses).unwrap().double_value(&[]);
            let value = |loss: &Tensor| loss.double_value(&[]);
            let sum = 5.0 * value(&losses.probability)
                + 10.0 * value(&losses.threshold)
                + value(&losses.binary);
            assert!((total - sum).abs() < 1e-4 * sum, "{total} {sum}");
            let all = [
                ("balanced", losses.probability),
                ("focal", focal.losses(&maps, &targets).unwrap().probability),
                ("threshold", losses.threshold),
                ("binary", losses.binary),
            ];
            for (loss, found) in all {
                let word = format!("{case}.{loss}");
                assert_close(&word, &found.view([1]), &expected(&word), 1e-5);
                let products = expected(&format!("{word}.products"));
                let norms = expected(&format!("{word}.norms"));
                let largest = norms.max().double_value(&[]);
                for (at, parameter) in parameters.iter().enumerate() {
                    let norm = norms.double_value(&[at as i64]);
                    if norm == 0.0 {
                        // The map does not depend on the other one's head.
                        continue;
                    }
                    // Below, 32-bit floats of the largest one are noise.
                    let norm_or_noise = norm.max(1e-4 * largest);
                    let gradient =
                        Tensor::run_backward(&[&found], &[&parameter.tensor], true, false);
                    let gradient = gradient[0].to_kind(Kind::Double).flatten(0, -1);
                    let product = (&gradient * wave(gradient.numel() as i64, 0.917))
                        .sum(Kind::Double)
                        .double_value(&[]);
                    let off = (product - products.double_value(&[at as i64])).abs();
                    assert!(
                        off < 1e-3 * norm_or_noise,
                        "{word} {}: {off} of {norm}",
                        parameter.name
                    );
                    let off = (gradient.norm().double_value(&[]) - norm).abs();
                    assert!(
                        off < 1e-3 * norm_or_noise,
                        "{word} {}: {off} of {norm}",
                        parameter.name
                    );
                }
            }
        }
        let evaluated = network.logits(&pictures).unwrap().unsqueeze(1);
        assert_close(
            "evaluated",
            &thinned(&evaluated),
            &expected("evaluated"),
            1e-4,
        );
    }
}
