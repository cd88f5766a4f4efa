//! Preparing a task: facts, fingerprints, and every problem at once.

use super::super::testing::{TinyProject, tiny_config};
use super::*;
use search::space::Parameter;

fn problems(site: &TinyProject) -> String {
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
    let site = TinyProject::new();
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
        let site = TinyProject::new();
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
    let mut site = TinyProject::new();
    site.spec.objective.metric = "loss".into();
    let value = prepare(&site.spec).unwrap().baseline.unwrap().value;
    let (p, q) = (2.0f64 / 3.0, 1.0f64 / 3.0);
    assert!((value + p * p.ln() + q * q.ln()).abs() < 1e-9);
}

#[test]
fn another_split_seed_is_another_split_of_the_same_data() {
    let mut site = TinyProject::new();
    let a = prepare(&site.spec).unwrap();
    site.set("data.split.seed", 1);
    let b = prepare(&site.spec).unwrap();
    assert_eq!(a.data_fingerprint, b.data_fingerprint);
    assert_ne!(a.split_fingerprint, b.split_fingerprint);
}

#[test]
fn problems_of_data_split_and_models_come_together() {
    let mut site = TinyProject::new();
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
    let mut site = TinyProject::new();
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
        high_when: vec![search::space::HighWhen {
            when: vec![search::space::Condition {
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
    let site = TinyProject::new();
    let mut config = tiny_config();
    config["vocab_size"] = 5.into();
    std::fs::write(site.tiny().join("config.json"), config.to_string()).unwrap();
    // The table of the file does not fit either, so the ids are checked by themselves.
    let (data, _) = load(&site.spec).unwrap();
    let mut checkpoint = {
        let whole = TinyProject::new();
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
    let site = TinyProject::new();
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
    let site = TinyProject::new();
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

/// The rows of the site, with the text of row 1 once more at the end, in a group of its own.
fn with_a_duplicate(site: &TinyProject) {
    let path = site.dir.path().join("rows.csv");
    let mut text = std::fs::read_to_string(&path).unwrap();
    let again: Vec<&str> = text.lines().nth(1).unwrap().split(',').collect();
    let again: Vec<String> = (100..130)
        .map(|post| format!("x,{},{},{post}\n", again[1], again[2]))
        .collect();
    text.push_str(&again.concat());
    std::fs::write(&path, text).unwrap();
}

#[test]
fn a_text_in_two_parts_is_refused_kept_together_or_told() {
    let mut site = TinyProject::new();
    site.set("data.duplicates", "allow");
    let distinct = prepare(&site.spec).unwrap();
    with_a_duplicate(&site);
    site.set("data.duplicates", "error");
    let all = problems(&site);
    assert!(all.contains("in two parts of the split"), "{all}");
    site.set("data.duplicates", "together");
    let kept = prepare(&site.spec).unwrap();
    assert!(kept.warnings.iter().all(|w| !w.contains("two parts")));
    site.set("data.duplicates", "allow");
    let told = prepare(&site.spec).unwrap();
    assert!(told.warnings.iter().any(|w| w.contains("two parts")));
    assert_ne!(kept.split_fingerprint, told.split_fingerprint);
    assert_ne!(told.data_fingerprint, distinct.data_fingerprint);
}

#[test]
fn with_folds_the_baseline_is_their_mean_and_each_fold_is_asked_for_every_class() {
    let mut site = TinyProject::new();
    site.set("data.folds", 4);
    let prepared = prepare(&site.spec).unwrap();
    let what = prepared.baseline.unwrap().what;
    assert_eq!(
        what,
        "always predicting class 0 of status, the mean over 4 folds"
    );
    assert!(prepared.test.unwrap().baseline.is_some());
    let facts: Vec<&str> = prepared.facts.iter().map(|(_, f)| f.as_str()).collect();
    assert!(
        facts
            .iter()
            .any(|f| f.starts_with("4 folds of 27 to 27 rows"))
    );
    site.set("data.folds", 60);
    let all = problems(&site);
    assert_eq!(
        all.lines().filter(|line| line.contains("fold")).count(),
        1,
        "{all}"
    );
    assert!(
        all.contains("60 folds, and 36 groups of class 0 outside"),
        "{all}"
    );
    assert!(all.contains("at most "), "{all}");
}

#[test]
fn windows_are_told_and_a_stride_without_room_or_without_long_rows_is_refused() {
    let mut site = TinyProject::new();
    let fact = |site: &TinyProject, text: &str| {
        let facts = prepare(&site.spec).unwrap().facts;
        assert!(facts.iter().any(|(_, f)| f.contains(text)), "{facts:?}");
    };
    site.set("tok.max_length", 8);
    fact(&site, "tok.max_length 8 cuts");
    fact(&site, "median by class: 0: ");
    site.set("tok.doc_stride", 5);
    fact(&site, "of 120 rows (");
    fact(&site, "have more than one window");
    // Of 8 tokens 2 are special.
    site.set("tok.doc_stride", 6);
    let all = problems(&site);
    assert!(all.contains("6 with tok.max_length 8"), "{all}");
    assert!(all.contains("fewer than 6"), "{all}");
    site.set("tok.max_length", 64);
    let told = prepare(&site.spec).unwrap().warnings;
    assert!(
        told.iter().any(|w| w.contains("changes nothing")),
        "{told:?}"
    );
    site.spec.fixed.remove("tok.doc_stride");
    site.spec.space.parameters.push(Parameter::new(
        "tok.doc_stride",
        Domain::Int {
            low: 0,
            high: 4,
            log: false,
            step: 1,
        },
    ));
    assert!(problems(&site).contains("not to be searched"));
}

#[test]
fn a_range_of_lengths_beyond_every_row_is_warned_of() {
    let warned = |low: i64| {
        let mut site = TinyProject::new();
        site.spec.fixed.remove("tok.max_length");
        site.spec.space.parameters.push(Parameter::new(
            "tok.max_length",
            Domain::Int {
                low,
                high: 64,
                log: false,
                step: 1,
            },
        ));
        let told = prepare(&site.spec).unwrap().warnings;
        told.iter()
            .any(|w| w.contains("from 32 to 64 it changes nothing"))
    };
    assert!(warned(32));
    assert!(!warned(8));
}

#[test]
fn windows_cover_a_row_and_share_what_they_are_told() {
    let site = TinyProject::new();
    let row = |text: &str, pair: Option<&str>| super::super::data::Row {
        text: text.into(),
        pair: pair.map(str::to_owned),
    };
    let long = "good bad fine poor great awful the phone screen is";
    let rows = [
        row(long, None),
        row("good bad", None),
        row(long, Some("bad fine")),
        row("bad fine", Some(long)),
        row(long, Some(long)),
    ];
    let tokenised = Tokenised::new(&site.tiny(), &rows).unwrap();
    assert_eq!(
        (
            tokenised.special_tokens(false),
            tokenised.special_tokens(true)
        ),
        (2, 3)
    );
    let windows = tokenised.windows(&rows, 8, 2).unwrap();
    let ids =
        |row: usize| -> Vec<&[u32]> { windows[row].iter().map(|w| w.ids.as_slice()).collect() };
    // Tokens 4 to 13 in windows of 6 between 2 and 3, neighbours sharing 2.
    assert_eq!(
        ids(0),
        [
            &[2u32, 4, 5, 6, 7, 8, 9, 3][..],
            &[2, 8, 9, 10, 11, 12, 13, 3]
        ]
    );
    assert_eq!(ids(1), [&[2u32, 4, 5, 3][..]]);
    // Of a pair the longer text is laid out, the other one is in each window.
    assert_eq!(
        ids(2),
        [
            &[2u32, 4, 5, 6, 3, 5, 6, 3][..],
            &[2, 5, 6, 7, 3, 5, 6, 3],
            &[2, 6, 7, 8, 3, 5, 6, 3],
            &[2, 7, 8, 9, 3, 5, 6, 3],
            &[2, 8, 9, 10, 3, 5, 6, 3],
            &[2, 9, 10, 11, 3, 5, 6, 3],
            &[2, 10, 11, 12, 3, 5, 6, 3],
            &[2, 11, 12, 13, 3, 5, 6, 3],
        ]
    );
    assert_eq!(windows[2][0].types, [0, 0, 0, 0, 0, 1, 1, 1]);
    assert_eq!(windows[3][1].ids, [2, 5, 6, 3, 5, 6, 7, 3]);
    assert_eq!(windows[3][1].types, [0, 0, 0, 0, 1, 1, 1, 1]);
    // Both long: the second is cut to half of the room.
    assert_eq!(windows[4][0].ids, [2, 4, 5, 6, 3, 4, 5, 3]);
    assert!(windows.iter().flatten().all(|w| w.ids.len() <= 8));
    let cut = tokenised.windows(&rows, 8, 0).unwrap();
    assert!(cut.iter().all(|w| w.len() == 1));
    assert!(tokenised.windows(&rows, 2, 1).is_err());
}

#[test]
fn the_longer_text_of_a_pair_has_the_odd_token_however_long_both_are() {
    let site = TinyProject::new();
    let long = ["good "; 30].concat();
    let rows = [
        (&long[..], &long[..100]),
        (&long[..100], &long),
        (&long, &long),
    ]
    .map(|(text, pair)| super::super::data::Row {
        text: text.into(),
        pair: Some(pair.into()),
    });
    let tokenised = Tokenised::new(&site.tiny(), &rows).unwrap();
    let kept = |length: usize| -> Vec<(usize, usize)> {
        let cut = tokenised.cut(&rows, length).unwrap();
        let second = |t: &super::super::tokens::Tokens| t.types.iter().filter(|t| **t == 1).count();
        // One special token is the second text's, two are the first's.
        cut.iter()
            .map(|t| (t.ids.len() - second(t) - 2, second(t) - 1))
            .collect()
    };
    assert_eq!(kept(14), [(6, 5), (5, 6), (5, 6)]);
    assert_eq!(kept(15), [(6, 6), (6, 6), (6, 6)]);
    for length in 0..4 {
        assert!(tokenised.cut(&rows, length).is_err(), "{length}");
    }
}
