//! Weights that the encoder begins with (`model.weights`): those of a residual network under torchvision's names, in a file of
//! safetensors or of `torch.save`. Its classifier is not read.

use std::path::Path;

use config::{Problem, Problems, StudySpec};
use search::space::Value;
use training::tensors::{Tensor, TensorFiles};

use crate::description::{Backbone, Network};

/// The key that names the file.
pub const WEIGHTS: &str = "model.weights";

/// Also as a module that was wrapped for several GPUs saves them.
fn spellings(name: &str) -> Vec<String> {
    vec![name.to_owned(), format!("module.{name}")]
}

/// Opens the file that a study names, and checks that it has what the study's encoder needs; `None`: it names none.
///
/// # Errors
/// The file cannot be read or lacks something; or the study has several encoders, of which it can fit one.
pub fn weights(spec: &StudySpec) -> Result<Option<TensorFiles>, Problems> {
    let Some(file) = spec.fixed.get(WEIGHTS).and_then(Value::as_str) else {
        return Ok(None);
    };
    let searched = ["model.backbone", "model.width"].map(|key| (key, spec.possible(key)));
    let several = searched.iter().filter(|(_, values)| values.len() > 1);
    let several = several.map(|(key, _)| {
        let found = format!("{file}, and a space with {key}");
        spec.problem(WEIGHTS, found, "one encoder: no search over it")
    });
    Problems(several.collect()).or(())?;
    let file = Path::new(file);
    let wrong = |found: String, expected: &str| Problem::in_file(file, WEIGHTS, found, expected);
    let tensors = TensorFiles::open(file, spellings).map_err(|found| {
        let expected = "weights of a residual network, in safetensors or as torch.save writes them";
        wrong(found, expected)
    })?;
    let [(_, backbone), (_, width)] = &searched;
    let backbone = backbone.first().and_then(Value::as_str);
    // A backbone that is none has been told.
    let Some(backbone) = backbone.and_then(Backbone::of) else {
        return Ok(Some(tensors));
    };
    let network = Network {
        backbone,
        width: width.first().and_then(Value::as_f64).unwrap_or(1.0),
        fpn_width: 4,
    };
    let whose = format!("the encoder {}", backbone.word());
    let misfits = tensors.misfits(&needed(&network), &whose, "model.backbone with model.width");
    let told = misfits.into_iter().map(|m| wrong(m.found, &m.expected));
    Problems(told.collect()).or(Some(tensors))
}

/// What the file is, for a study's identity: its key and SHA-256 where there is one. Its values are compared with the checksums
/// that it has of them.
///
/// # Errors
/// See [`weights`]; a checksum is wrong.
pub fn fingerprint(spec: &StudySpec) -> Result<Option<(String, String)>, Problems> {
    let Some(tensors) = weights(spec)? else {
        return Ok(None);
    };
    let hash = tensors
        .fingerprint()
        .map_err(|(file, found)| Problem::in_file(file, WEIGHTS, found, "a whole file"))?;
    Ok(Some((WEIGHTS.to_owned(), hash)))
}

/// The tensors of an encoder, under torchvision's names.
fn needed(network: &Network) -> Vec<Tensor> {
    let mut all = Vec::new();
    for conv in network.convolutions() {
        let mut tensor = |name: String, shape: &[usize]| {
            all.push(Tensor {
                name,
                shape: shape.to_vec(),
            });
        };
        let [input, out, kernel] = conv.sizes;
        tensor(
            format!("{}.weight", conv.name),
            &[out, input, kernel, kernel],
        );
        for part in ["weight", "bias", "running_mean", "running_var"] {
            tensor(format!("{}.{part}", conv.norm), &[out]);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tensors_are_those_of_torchvision() {
        // Without the classifier (fc), as `len(resnet18().state_dict())` and so on count them, less a counter for each norm.
        for (backbone, tensors, values) in [
            (Backbone::ResNet18, 100, 11_176_512 + 9_600),
            (Backbone::ResNet34, 180, 21_284_672 + 17_024),
            (Backbone::ResNet50, 265, 23_508_032 + 53_120),
        ] {
            let network = Network {
                backbone,
                width: 1.0,
                fpn_width: 4,
            };
            let all = needed(&network);
            assert_eq!(all.len(), tensors, "{}", backbone.word());
            let sum: usize = all.iter().map(|t| t.shape.iter().product::<usize>()).sum();
            assert_eq!(sum, values, "{}", backbone.word());
        }
        let network = Network {
            backbone: Backbone::ResNet50,
            width: 1.0,
            fpn_width: 4,
        };
        let shape = |name: &str| {
            let all = needed(&network);
            let found = all.iter().find(|t| t.name == name);
            found.map(|t| t.shape.clone())
        };
        assert_eq!(shape("layer2.0.conv2.weight"), Some(vec![128, 128, 3, 3]));
        assert_eq!(
            shape("layer2.0.downsample.0.weight"),
            Some(vec![512, 256, 1, 1])
        );
        assert_eq!(shape("layer4.2.bn3.running_var"), Some(vec![2048]));
        assert_eq!(shape("layer1.1.downsample.0.weight"), None);
    }
}
