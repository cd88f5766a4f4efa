//! Checkpoints: found, checked, refused.

use super::super::testing::{tiny_config, write_tiny_bert, write_weights};
use super::*;
use strum::VariantArray;

fn open(dir: &Path) -> Result<Checkpoint, String> {
    Checkpoint::open("tiny", dir).map_err(|problems| {
        let lines: Vec<String> = problems
            .0
            .into_iter()
            .map(|p| format!("{:?}: {}; expected {}", p.source, p.found, p.expected))
            .collect();
        lines.join("\n")
    })
}

fn tiny() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    write_tiny_bert(dir.path(), 1);
    dir
}

fn with_config(key: &str, value: serde_json::Value) -> Result<Checkpoint, String> {
    let dir = tiny();
    let mut config = tiny_config();
    config[key] = value;
    std::fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
    open(dir.path())
}

#[test]
fn a_whole_checkpoint_opens() {
    let checkpoint = open(tiny().path()).unwrap();
    assert_eq!(checkpoint.config.num_hidden_layers, 2);
    assert_eq!(
        checkpoint.config.parameters(),
        20 * 16 + 64 * 16 + 2 * 16 + 32 + 2 * (4 * (16 * 16 + 16) + 2 * 32 * 16 + 32 + 16 + 64)
    );
}

#[test]
fn a_weights_file_cut_anywhere_is_one_problem_that_names_it() {
    let dir = tiny();
    let file = dir.path().join("model.safetensors");
    let whole = std::fs::read(&file).unwrap();
    for size in [0, 5, 100, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&file, &whole[..size]).unwrap();
        let error = open(dir.path()).unwrap_err();
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(error.contains("model.safetensors"), "{error}");
        assert!(error.contains("cut short"), "{error}");
    }
    std::fs::write(&file, vec![b'x'; 1000]).unwrap();
    assert!(open(dir.path()).unwrap_err().contains("no safetensors"));
    let mut broken = whole.clone();
    broken[8] = b'?';
    std::fs::write(&file, broken).unwrap();
    assert!(open(dir.path()).unwrap_err().contains("broken header"));
}

#[test]
fn old_names_prefixes_and_halves_are_accepted() {
    let dir = tiny();
    write_weights(dir.path(), 1, safetensors::Dtype::BF16, |name| {
        let name = name.replace("LayerNorm.weight", "LayerNorm.gamma");
        format!("bert.{}", name.replace("LayerNorm.bias", "LayerNorm.beta"))
    });
    let checkpoint = open(dir.path()).unwrap();
    assert_eq!(
        checkpoint.weights.name_in_file("embeddings.LayerNorm.bias"),
        Some("bert.embeddings.LayerNorm.beta")
    );
}

#[test]
fn missing_and_misshapen_tensors_are_counted_and_named() {
    let error = with_config("num_hidden_layers", 3.into()).unwrap_err();
    assert!(error.contains("16 tensors missing"), "{error}");
    assert!(error.contains("encoder.layer.2"), "{error}");
    let error = with_config("vocab_size", 21.into()).unwrap_err();
    assert!(
        error.contains("word_embeddings.weight is F32 [20, 16]"),
        "{error}"
    );
}

#[test]
fn sizes_that_no_weights_have_are_refused_before_anything_is_made_by_them() {
    for layers in [1_000_000_000u64, 1 << 62, u64::MAX] {
        let error = with_config("num_hidden_layers", layers.into()).unwrap_err();
        assert!(
            error.contains(&format!("num_hidden_layers {layers}")),
            "{error}"
        );
    }
    for key in [
        "vocab_size",
        "hidden_size",
        "intermediate_size",
        "max_position_embeddings",
        "type_vocab_size",
        "num_attention_heads",
        "pad_token_id",
    ] {
        for size in [i32::MAX as u64 - 1, i32::MAX as u64 + 1, 1 << 62, u64::MAX] {
            let error = with_config(key, size.into()).unwrap_err();
            assert!(error.contains(&size.to_string()), "{key}: {error}");
        }
    }
    for key in [
        "max_relative_positions",
        "position_buckets",
        "conv_kernel_size",
    ] {
        let dir = tiny();
        let mut config = tiny_config();
        config["model_type"] = "deberta-v2".into();
        config["relative_attention"] = true.into();
        config["pos_att_type"] = "c2p".into();
        config[key] = i64::MAX.into();
        std::fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
        let error = open(dir.path()).unwrap_err();
        assert!(error.contains(key), "{error}");
    }
}

#[test]
fn tensors_that_share_their_values_do_not_make_a_huge_model_of_a_small_file() {
    let dir = tiny();
    let weights = Checkpoint::open("tiny", dir.path()).unwrap().weights;
    let config = EncoderConfig::read(&dir.path().join("config.json"), "tiny").unwrap();
    assert_eq!(weights.check(&config, "tiny"), []);
    // The same tensors, in a file that lacks most of their bytes.
    let file = std::fs::File::options()
        .write(true)
        .open(dir.path().join("model.safetensors"))
        .unwrap();
    let size = file.metadata().unwrap().len();
    file.set_len(size / 3).unwrap();
    let problems = weights.check(&config, "tiny");
    assert!(
        problems[0].found.contains("bytes of weights"),
        "{problems:?}"
    );
}

#[test]
fn an_epsilon_that_no_norm_can_have_is_refused() {
    for epsilon in [-1.0, 0.0, 1.5, 1e308] {
        let error = with_config("layer_norm_eps", epsilon.into()).unwrap_err();
        assert!(
            error.contains("layer_norm_eps") && error.contains("above 0"),
            "{error}"
        );
    }
    assert!(with_config("layer_norm_eps", 1e-5.into()).is_ok());
}

#[test]
fn files_that_are_no_regular_files_are_refused_and_not_waited_for() {
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        let dir = tiny();
        let file = dir.path().join(name);
        std::fs::remove_file(&file).unwrap();
        nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(open(dir.path()).unwrap_err().contains(name), "{name}");
        std::fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &file).unwrap();
        assert!(open(dir.path()).unwrap_err().contains(name), "{name}");
    }
}

#[test]
fn other_architectures_are_refused_with_the_supported_ones() {
    let error = with_config("model_type", "gpt2".into()).unwrap_err();
    assert!(error.contains("model_type gpt2"), "{error}");
    assert!(error.contains("one of: bert, roberta"), "{error}");
    assert!(with_config("num_attention_heads", 3.into()).is_err());
    assert!(with_config("hidden_act", "prelu".into()).is_err());
    assert!(with_config("position_embedding_type", "relative_key".into()).is_err());
}

#[test]
fn absent_files_are_told_together() {
    let dir = tiny();
    std::fs::remove_file(dir.path().join("tokenizer.json")).unwrap();
    std::fs::remove_file(dir.path().join("model.safetensors")).unwrap();
    let error = open(dir.path()).unwrap_err();
    assert!(error.contains("no tokenizer.json"), "{error}");
    assert!(error.contains("no model.safetensors"), "{error}");
    assert!(error.contains("pytorch_model.bin.index.json"), "{error}");
}

#[test]
fn models_are_found_in_the_table_then_in_the_caches() {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("hub/models--org--name");
    for commit in ["aaa", "bbb"] {
        std::fs::create_dir_all(model.join("snapshots").join(commit)).unwrap();
    }
    std::fs::create_dir_all(model.join("refs")).unwrap();
    std::fs::write(model.join("refs/main"), "aaa\n").unwrap();
    let caches = ModelPlaces {
        models: None,
        caches: vec![dir.path().join("none"), dir.path().join("hub")],
    };
    let table = std::collections::BTreeMap::from([("mine".to_owned(), PathBuf::from("/m"))]);
    let of = |name: &str| locate(name, &table, &caches);
    assert_eq!(of("mine").unwrap(), PathBuf::from("/m"));
    assert_eq!(of("org/name").unwrap(), model.join("snapshots/aaa"));
    std::fs::write(model.join("refs/main"), "ccc").unwrap();
    assert!(of("org/name").unwrap().starts_with(model.join("snapshots")));
    let problem = of("org/name@nope").unwrap_err();
    assert!(
        problem
            .found
            .contains("the revision nope of the model org/name"),
        "{problem:?}"
    );
    assert!(problem.expected.contains("(aaa, bbb)"), "{problem:?}");
    let problem = of("org/other").unwrap_err();
    assert!(problem.expected.contains("mine"), "{problem:?}");
    assert!(
        problem.expected.contains("models--org--other"),
        "{problem:?}"
    );
}

#[test]
fn no_name_revision_or_reference_leads_out_of_the_places() {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("hub/models--org--name");
    for folder in ["refs", "snapshots/aaa"] {
        std::fs::create_dir_all(model.join(folder)).unwrap();
    }
    let elsewhere = dir.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::write(elsewhere.join("config.json"), "{}").unwrap();
    let absolute = elsewhere.display().to_string();
    let up = "../../../elsewhere";
    let places = ModelPlaces {
        models: Some(dir.path().join("hub")),
        caches: vec![dir.path().join("hub")],
    };
    let of = |name: &str| locate(name, &Default::default(), &places);
    for revision in [up, &absolute, "..", ".", "aaa/../aaa", "aaa/"] {
        of(&format!("org/name@{revision}")).unwrap_err();
    }
    of("x/../../elsewhere").unwrap_err();
    for reference in [up, &absolute, "..", ""] {
        std::fs::write(model.join("refs/main"), reference).unwrap();
        assert_eq!(of("org/name").unwrap(), model.join("snapshots/aaa"));
    }
}

#[test]
fn a_directory_of_models_holds_them_in_either_layout() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let plain = |folder: &str| {
        std::fs::create_dir_all(root.join(folder)).unwrap();
        std::fs::write(root.join(folder).join("config.json"), "{}").unwrap();
        root.join(folder)
    };
    let (own, org, short) = (plain("own"), plain("org/name"), plain("short"));
    let cached = root.join("models--org--cached/snapshots/abc");
    std::fs::create_dir_all(&cached).unwrap();
    let places = ModelPlaces {
        models: Some(root.to_owned()),
        caches: vec![root.join("hub")],
    };
    let table = std::collections::BTreeMap::new();
    let of = |name: &str| locate(name, &table, &places).map_err(|p| p.expected);
    assert_eq!(of("own"), Ok(own.clone()));
    assert_eq!(of("org/name"), Ok(org));
    assert_eq!(of("someone/short"), Ok(short));
    assert_eq!(of("org/cached"), Ok(cached.clone()));
    assert_eq!(of("org/cached@abc"), Ok(cached));
    assert_eq!(of(own.to_str().unwrap()), Ok(own.clone()));
    assert_eq!(of("/no/such/model"), Ok(PathBuf::from("/no/such/model")));
    let error = of("org/other").unwrap_err();
    for place in [
        "org/other",
        "other",
        "models--org--other",
        "hub/models--org--other",
    ] {
        assert!(
            error.contains(root.join(place).to_str().unwrap()),
            "{place}: {error}"
        );
    }
    assert!(error.contains("tune fetch org/other"), "{error}");
    assert!(of("org/cached@main").is_err());
}

#[test]
fn the_environment_names_the_places_and_empty_variables_count_as_unset() {
    let of = |all: &[(&str, &str)]| {
        ModelPlaces::of(|name| {
            let found = all.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).into())
        })
    };
    let places = of(&[
        ("TUNE_MODELS", "/m"),
        ("HF_HUB_CACHE", "/c"),
        ("HF_HOME", "/h"),
        ("HOME", "/u"),
    ]);
    assert_eq!(places.models, Some("/m".into()));
    let caches = ["/c", "/h/hub", "/u/.cache/huggingface/hub"].map(PathBuf::from);
    assert_eq!(places.caches, caches);
    let places = of(&[("TUNE_MODELS", ""), ("HF_HOME", "")]);
    assert_eq!(places, ModelPlaces::default());
}

/// A DeBERTa of the tiny model's sizes with these keys.
fn deberta(changes: serde_json::Value) -> Result<EncoderConfig, String> {
    let mut config = tiny_config();
    config["model_type"] = "deberta-v2".into();
    config["relative_attention"] = true.into();
    for (key, value) in changes.as_object().unwrap() {
        config[key] = value.clone();
    }
    serde_json::from_value(config).map_err(|e| e.to_string())
}

#[test]
fn the_longest_row_depends_on_how_an_architecture_counts_positions() {
    let tokens = |model_type: &str, pad: i64| {
        let mut config = tiny_config();
        config["model_type"] = model_type.into();
        config["pad_token_id"] = pad.into();
        let config: Result<EncoderConfig, _> = serde_json::from_value(config);
        config.map(|c| c.max_tokens()).map_err(|e| e.to_string())
    };
    assert_eq!(tokens("bert", 0), Ok(Some(64)));
    assert_eq!(tokens("electra", 1), Ok(Some(64)));
    for kind in ["roberta", "xlm-roberta", "camembert"] {
        assert_eq!(tokens(kind, 1), Ok(Some(62)), "{kind}");
    }
    assert!(tokens("roberta", 19).is_ok());
    assert!(
        tokens("roberta", 20)
            .unwrap_err()
            .contains("pad_token_id 20")
    );
    let absolute = deberta(serde_json::json!({})).unwrap();
    assert_eq!(absolute.max_tokens(), Some(64));
    let relative = deberta(serde_json::json!({"position_biased_input": false}));
    assert_eq!(relative.unwrap().max_tokens(), None);
}

#[test]
fn the_ways_to_name_position_terms_mean_the_same() {
    let terms = |value: serde_json::Value| {
        let config = deberta(serde_json::json!({ "pos_att_type": value })).unwrap();
        let found = config
            .relative()
            .map(|r| (r.content_to_position, r.position_to_content));
        (config.disentangled.unwrap().terms, found)
    };
    assert_eq!(terms("P2C|c2p".into()), (3, Some((true, true))));
    assert_eq!(
        terms(serde_json::json!(["c2p", "p2c"])),
        (3, Some((true, true)))
    );
    assert_eq!(terms("p2c".into()), (2, Some((false, true))));
    assert_eq!(terms(serde_json::json!([])), (1, None));
    assert_eq!(terms(serde_json::Value::Null), (1, None));
}

#[test]
fn what_no_encoder_here_can_do_is_refused_by_its_key() {
    for (key, value) in [
        ("attention_head_size", serde_json::json!(4)),
        ("conv_kernel_size", 2.into()),
        ("hidden_act", "prelu".into()),
    ] {
        let mut changes = serde_json::json!({});
        changes[key] = value;
        let error = deberta(changes).unwrap_err();
        assert!(error.contains(key) || error.contains("prelu"), "{error}");
    }
    let one = serde_json::json!({"position_buckets": 1, "pos_att_type": "c2p"});
    assert!(deberta(one).unwrap_err().contains("position_buckets 1"));
    let error = with_config("is_decoder", true.into()).unwrap_err();
    assert!(error.contains("is_decoder true"), "{error}");
}

#[test]
fn a_missing_tensor_of_another_architecture_is_told_with_its_name() {
    let error = with_config("model_type", "electra".into()).unwrap_err();
    assert!(error.contains("embeddings_project.weight"), "{error}");
    assert!(error.contains("of the encoder electra"), "{error}");
}

#[test]
fn a_value_of_the_wrong_kind_is_told_with_its_key_and_what_it_should_be() {
    for (key, value, found, expected) in [
        (
            "num_hidden_layers",
            serde_json::json!(-1),
            "num_hidden_layers -1",
            "a whole number",
        ),
        (
            "hidden_size",
            "big".into(),
            "hidden_size \"big\"",
            "a whole number",
        ),
        (
            "hidden_size",
            serde_json::Value::Null,
            "no hidden_size",
            "a whole number",
        ),
        (
            "hidden_act",
            "prelu".into(),
            "hidden_act \"prelu\"",
            "gelu, gelu_new",
        ),
        ("hidden_act", 3.into(), "hidden_act 3", "gelu, gelu_new"),
        (
            "is_decoder",
            "no".into(),
            "is_decoder \"no\"",
            "true or false",
        ),
        (
            "layer_norm_eps",
            "small".into(),
            "layer_norm_eps",
            "a number above 0",
        ),
    ] {
        let error = with_config(key, value).unwrap_err();
        assert!(error.contains(found) && error.contains(expected), "{error}");
    }
    for activation in Activation::VARIANTS {
        let name: &str = activation.into();
        assert!(with_config("hidden_act", name.into()).is_ok(), "{name}");
    }
}
