//! Directories written and read again; what is refused.

use std::fs;
use std::path::PathBuf;

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::json;

use super::super::checkpoint::needed;
use super::super::testing::TinyProject;
use super::*;
use search::space::Params;
use task::TrainedModel;

/// Trained weights of the second block and of a head of one layer on `pooling`.
struct Kept {
    site: TinyProject,
    about: serde_json::Map<String, serde_json::Value>,
    config: Params,
}

impl Kept {
    fn new(pooling: &str) -> Kept {
        let site = TinyProject::new();
        let about = json!({
            "model": "tiny", "model_fingerprint": "x", "labels": ["0", "1"], "train_rows": [60, 36],
            "head": {"input": 16, "classes": 2, "pooling": pooling, "layers": 1, "hidden": 256,
                "activation": "gelu", "dropout": 0.0},
        });
        let kept = Kept {
            about: about.as_object().unwrap().clone(),
            config: site.spec.fixed.clone(),
            site,
        };
        let mut tensors: Vec<(String, Vec<usize>, Vec<u8>)> = needed(&kept.checkpoint().config)
            .into_iter()
            .filter(|t| t.name.starts_with("encoder.layer.1."))
            .map(|t| {
                let count: usize = t.shape.iter().product();
                (t.name, t.shape, 0.5f32.to_le_bytes().repeat(count))
            })
            .collect();
        let values: Vec<u8> = (0..32).flat_map(|i| (i as f32).to_le_bytes()).collect();
        tensors.push(("classifier.weight".into(), vec![2, 16], values));
        tensors.push(("classifier.bias".into(), vec![2], vec![0; 8]));
        kept.write(&tensors);
        kept
    }

    fn write(&self, tensors: &[(String, Vec<usize>, Vec<u8>)]) {
        let views: Vec<(&str, TensorView)> = tensors
            .iter()
            .map(|(name, shape, bytes)| {
                let view = TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap();
                (name.as_str(), view)
            })
            .collect();
        safetensors::serialize_to_file(views, None, &self.weights()).unwrap();
    }

    /// Whether something of an export is left beside its directory.
    fn left_beside(&self) -> bool {
        let entries = fs::read_dir(self.site.dir.path()).unwrap().flatten();
        let names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
        names
            .iter()
            .any(|name| name.to_string_lossy().starts_with(".out"))
    }

    fn weights(&self) -> PathBuf {
        self.site.dir.path().join("weights.safetensors")
    }

    fn checkpoint(&self) -> Checkpoint {
        Checkpoint::open("tiny", &self.site.tiny()).unwrap()
    }

    fn out(&self) -> PathBuf {
        self.site.dir.path().join("out")
    }

    fn export(&self, force: bool) -> anyhow::Result<Description> {
        let checkpoint = self.checkpoint();
        let model = TrainedModel {
            trial: 0,
            weights: &self.weights(),
            about: &self.about,
            config: &self.config,
            origin: &json!({"study": "s"}),
        };
        write(&checkpoint, &model, (&self.out(), force), &mut |_| {})
    }
}

#[test]
fn a_directory_holds_what_was_trained_what_was_frozen_and_the_head() {
    let kept = Kept::new("mean");
    let written = kept.export(false).unwrap();
    let exported = Exported::open(&kept.out()).unwrap();
    assert_eq!(exported.description, written);
    assert_eq!((written.max_length, written.transformers), (64, None));
    assert_eq!(written.columns.label, "status");
    let bytes = fs::read(kept.out().join("model.safetensors")).unwrap();
    let stored = SafeTensors::deserialize(&bytes).unwrap();
    let base = fs::read(kept.site.tiny().join("model.safetensors")).unwrap();
    let base = SafeTensors::deserialize(&base).unwrap();
    for tensor in needed(&exported.checkpoint.config) {
        let found = stored.tensor(&format!("bert.{}", tensor.name)).unwrap();
        let expected = match tensor.name.starts_with("encoder.layer.1.") {
            true => 0.5f32.to_le_bytes().repeat(found.data().len() / 4),
            false => base.tensor(&tensor.name).unwrap().data().to_vec(),
        };
        assert!(found.data() == expected, "{}", tensor.name);
    }
    assert!(stored.tensor("head.layers.0.weight").is_ok());
    // Names that transformers' classifiers have would be loaded with another pooling.
    assert!(stored.tensor("classifier.weight").is_err());
    let tokenizer = fs::read_to_string(kept.out().join("tokenizer_config.json")).unwrap();
    let tokenizer: serde_json::Value = serde_json::from_str(&tokenizer).unwrap();
    assert_eq!(tokenizer["model_max_length"], 64);
    assert!(!kept.left_beside());
}

#[test]
fn a_layer_on_the_first_token_is_written_as_transformers_has_it() {
    let kept = Kept::new("cls");
    let written = kept.export(false).unwrap();
    assert_eq!(
        written.transformers.as_deref(),
        Some("BertForSequenceClassification")
    );
    let bytes = fs::read(kept.out().join("model.safetensors")).unwrap();
    let stored = SafeTensors::deserialize(&bytes).unwrap();
    let values = |name: &str| -> Vec<f32> {
        let data = stored.tensor(name).unwrap().data().to_vec();
        let chunks = data.chunks_exact(4);
        chunks
            .map(|c| f32::from_le_bytes(c.try_into().unwrap()))
            .collect()
    };
    let dense = values("bert.pooler.dense.weight");
    assert_eq!(
        (dense[0], dense[1], dense[17]),
        (1.0 / 8192.0, 0.0, 1.0 / 8192.0)
    );
    assert!(values("bert.pooler.dense.bias").iter().all(|b| *b == 0.0));
    let scale = written.weights.layers[0].scale;
    assert_eq!(values("classifier.weight")[3] * scale as f32, 3.0);
    let config = fs::read_to_string(kept.out().join("config.json")).unwrap();
    let config: serde_json::Value = serde_json::from_str(&config).unwrap();
    assert_eq!(config["id2label"], json!({"0": "0", "1": "1"}));
}

#[test]
fn only_a_new_an_empty_or_an_earlier_directory_is_written_to() {
    let kept = Kept::new("mean");
    fs::create_dir(kept.out()).unwrap();
    fs::write(kept.out().join("thesis.txt"), "mine").unwrap();
    for force in [false, true] {
        let error = kept.export(force).unwrap_err().to_string();
        assert!(error.contains("expected a"), "{error}");
    }
    assert!(kept.out().join("thesis.txt").exists());
    fs::remove_file(kept.out().join("thesis.txt")).unwrap();
    kept.export(false).unwrap();
    let error = kept.export(false).unwrap_err().to_string();
    assert!(error.contains("--force"), "{error}");
    kept.export(true).unwrap();
}

#[test]
fn weights_that_do_not_fit_leave_nothing_behind() {
    let mut kept = Kept::new("mean");
    kept.about["head"]["layers"] = 2.into();
    let error = format!("{:#}", kept.export(false).unwrap_err());
    assert!(error.contains("head.layers.0.weight"), "{error}");
    kept.about["head"]["layers"] = 1.into();
    kept.about["head"]["classes"] = 3.into();
    let error = format!("{:#}", kept.export(false).unwrap_err());
    assert!(error.contains("classifier.weight"), "{error}");
    kept.about["head"]["classes"] = 2.into();
    let bias = |name: &str| (name.to_owned(), vec![2], vec![0; 8]);
    kept.write(&[
        ("classifier.weight".into(), vec![2, 16], vec![0; 128]),
        bias("classifier.bias"),
        bias("unheard"),
    ]);
    let error = format!("{:#}", kept.export(false).unwrap_err());
    assert!(error.contains("unheard"), "{error}");
    assert!(!kept.out().exists() && !kept.left_beside());
}

#[test]
fn a_directory_that_does_not_fit_together_is_refused_by_file_and_key() {
    let kept = Kept::new("mean");
    let refused = |dir: &Path| Exported::open(dir).unwrap_err().to_string();
    assert!(refused(&kept.site.tiny()).contains("no head.json"));
    assert!(refused(&kept.out()).contains("no directory"));
    kept.export(false).unwrap();
    let file = kept.out().join(HEAD_FILE);
    let right: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let cases = [
        ("/head/input", json!(8), "head.input"),
        ("/labels", json!(["0", "0"]), "labels"),
        ("/train_rows", json!([1]), "train_rows"),
        ("/precision", json!("fp8"), "precision"),
        ("/max_length", json!(65), "max_length"),
        ("/doc_stride", json!(99_999), "doc_stride"),
        ("/head/layers", json!(1_u64 << 60), "weights.layers"),
        ("/weights/layers", json!([]), "weights.layers"),
        ("/head/pooling", json!("attn"), "weights.query"),
        ("/head/pooling", json!("cube"), "cube"),
        ("/format", json!(2), "format 2"),
    ];
    for (at, value, expected) in cases {
        let mut wrong = right.clone();
        *wrong.pointer_mut(at).unwrap() = value;
        fs::write(&file, wrong.to_string()).unwrap();
        let problems = refused(&kept.out());
        assert!(
            problems.contains(expected) && problems.contains("head.json"),
            "{at}: {problems}"
        );
    }
}

#[test]
fn an_exported_directory_is_a_checkpoint_like_any_other() {
    let kept = Kept::new("cls");
    kept.export(false).unwrap();
    let again = Checkpoint::open("again", &kept.out()).unwrap();
    assert_eq!(again.config, kept.checkpoint().config);
}
