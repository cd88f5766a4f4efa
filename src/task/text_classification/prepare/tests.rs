//! Preparing a task: facts, fingerprints, and every problem at once.

use super::super::testing::{Site, tiny_config};
use super::*;
use crate::space::Parameter;

fn problems(site: &Site) -> String {
    let found = prepare(&site.spec).unwrap_err();
    let lines: Vec<String> = found
        .0
        .into_iter()
        .map(|p| {
            let key = p.key.unwrap_or_default();
            format!("{key}: {}; expected {}", p.found, p.expected)
        })
        .collect();
    lines.join("\n")
}

#[test]
fn a_sound_study_is_prepared_with_its_facts_and_baseline() {
    let site = Site::new();
    let prepared = prepare(&site.spec).unwrap();
    let facts: Vec<String> = prepared
        .facts
        .iter()
        .map(|(heading, line)| format!("{heading}: {line}"))
        .collect();
    let facts = facts.join("\n");
    for expected in [
        "data: 120 rows",
        "classes of status: 0: 80 (66.7 %), 1: 40 (33.3 %)",
        "40 groups of post",
        "split: train: 96 rows",
        "split: validation: 12 rows",
        "model: tiny: bert, 2 layers",
        "tok.max_length 64 cuts 0 of 120",
    ] {
        assert!(facts.contains(expected), "{expected} not in\n{facts}");
    }
    let baseline = prepared.baseline.unwrap();
    // Two thirds: 2 * 2/3 / (1 + 2/3) = 0.8 for one class, 0 for the other.
    assert!((baseline.value - 0.4).abs() < 1e-9);
    assert_eq!(baseline.what, "always predicting class 0 of status");
    assert!(prepared.data_fingerprint.is_some() && prepared.split_fingerprint.is_some());
}

#[test]
fn the_model_is_told_by_its_architecture_and_its_own_limit_of_tokens() {
    use super::super::testing;
    let told = |changes: &[(&str, serde_json::Value)]| {
        let site = Site::new();
        let mut config = tiny_config();
        for (key, value) in changes {
            config[*key] = value.clone();
        }
        testing::write_tiny(&site.tiny(), 1, config);
        match prepare(&site.spec) {
            Ok(prepared) => prepared.facts.into_iter().map(|(_, line)| line).collect(),
            Err(_) => problems(&site),
        }
    };
    let roberta = told(&[("model_type", "roberta".into()), ("pad_token_id", 1.into())]);
    let limit = "64 with the model tiny; expected at most 62";
    assert!(roberta.contains(limit), "{roberta}");
    let deberta: String = told(&[
        ("model_type", "deberta-v2".into()),
        ("position_biased_input", false.into()),
        ("max_position_embeddings", 5.into()),
        ("type_vocab_size", 0.into()),
    ]);
    assert!(deberta.contains("tiny: deberta-v2, 2 layers"), "{deberta}");
    assert!(deberta.contains("any number of tokens"), "{deberta}");
}

#[test]
fn the_baseline_of_the_loss_is_the_entropy_of_the_shares() {
    let mut site = Site::new();
    site.spec.objective.metric = "loss".into();
    let value = prepare(&site.spec).unwrap().baseline.unwrap().value;
    let (p, q) = (2.0f64 / 3.0, 1.0f64 / 3.0);
    assert!((value + p * p.ln() + q * q.ln()).abs() < 1e-9);
}

#[test]
fn another_split_seed_is_another_split_of_the_same_data() {
    let mut site = Site::new();
    let a = prepare(&site.spec).unwrap();
    site.set("data.split.seed", 1);
    let b = prepare(&site.spec).unwrap();
    assert_eq!(a.data_fingerprint, b.data_fingerprint);
    assert_ne!(a.split_fingerprint, b.split_fingerprint);
}

#[test]
fn problems_of_data_split_and_models_come_together() {
    let mut site = Site::new();
    site.set("data.split.train", 0.9);
    site.set("data.label", "nope");
    site.set("tok.max_length", 128);
    site.set("model.name", "absent");
    let all = problems(&site);
    for expected in [
        "data.split: train 0.9",
        "data.label: no column nope",
        "the model absent, which is not here",
    ] {
        assert!(all.contains(expected), "{expected} not in\n{all}");
    }
}

#[test]
fn lengths_and_layers_beyond_the_model_are_named_by_its_own_limits() {
    let mut site = Site::new();
    site.set("train.freeze_encoder_layers", 3);
    site.set("tok.max_length", 65);
    let all = problems(&site);
    assert!(all.contains("3 with the model tiny; expected at most 2"));
    assert!(all.contains("65 with the model tiny; expected at most 64"));
    // A searched range is held to the same limits.
    site.set("train.freeze_encoder_layers", 0);
    site.spec.fixed.remove("tok.max_length");
    site.spec.space.parameters.push(Parameter {
        name: "tok.max_length".into(),
        domain: Domain::Int {
            low: 16,
            high: 96,
            log: false,
            step: 16,
        },
        when: Vec::new(),
        high_when: vec![crate::space::HighWhen {
            when: vec![crate::space::Condition {
                parent: "model.name".into(),
                values: vec!["other".into()],
            }],
            high: 64.0,
        }],
        default: None,
    });
    assert!(problems(&site).contains("96 with the model tiny"));
    site.set("model.name", "other");
    site.spec.space.fixed = site.spec.fixed.clone();
    assert!(prepare(&site.spec).is_ok());
}

#[test]
fn a_token_id_beyond_the_vocabulary_names_row_and_value() {
    let site = Site::new();
    let mut config = tiny_config();
    config["vocab_size"] = 5.into();
    std::fs::write(site.tiny().join("config.json"), config.to_string()).unwrap();
    // The table of the file does not fit either, so the ids are checked by themselves.
    let (data, _) = load(&site.spec).unwrap();
    let mut checkpoint = {
        let whole = Site::new();
        Checkpoint::open("tiny", &whole.tiny()).unwrap()
    };
    checkpoint.config.vocab_size = 5;
    let tokenised = Tokenised::new(&site.tiny(), &data.rows).unwrap();
    let found = ids(&site.spec, &checkpoint, &data, &tokenised);
    assert_eq!(found.len(), 10);
    assert!(found[0].found.contains("token id"), "{:?}", found[0]);
    assert!(found[0].key.as_deref().unwrap().starts_with("row 1, token"));
}

#[test]
fn a_class_that_a_part_cannot_have_is_a_problem() {
    let site = Site::new();
    let path = site.dir.path().join("rows.csv");
    let mut text = String::from("text,status,post\n");
    for i in 0..40 {
        text.push_str(&format!("good,{},{}\n", usize::from(i < 8), i / 8));
    }
    std::fs::write(&path, text).unwrap();
    let all = problems(&site);
    assert!(all.contains("no row of class 1 in the"), "{all}");
    assert!(all.contains("(8 rows of it in the file)"), "{all}");
}

#[test]
fn rows_are_cut_with_their_special_tokens_kept() {
    let site = Site::new();
    let (data, _) = load(&site.spec).unwrap();
    let tokenised = Tokenised::new(&site.tiny(), &data.rows).unwrap();
    assert!(
        tokenised.longest() > 5,
        "the file's own limit is overridden"
    );
    for (cut, full) in tokenised
        .cut(&data.rows, 5)
        .unwrap()
        .iter()
        .zip(&tokenised.full)
    {
        assert_eq!(cut.ids.len(), full.ids.len().min(5));
        assert_eq!(cut.ids[0], 2);
        assert_eq!(cut.ids.last(), Some(&3));
    }
}
