//! What a study's identity is made of, and how two of them differ.

use super::*;
use crate::identity::identity_of;
use crate::testing::WHOLE;

fn map(
    text: &str,
    sets: &[&str],
    prepared: &Prepared,
) -> serde_json::Map<String, serde_json::Value> {
    identity_of(&good(text, sets), WHOLE.keys, prepared)
}

#[test]
fn operational_keys_and_fingerprinted_paths_are_no_part_of_the_identity() {
    let prepared = Prepared {
        data_fingerprint: Some("abc".into()),
        split_fingerprint: Some("def".into()),
        fingerprints: vec![("models.minilm.fingerprint".into(), "123".into())],
        ..Prepared::default()
    };
    let was = map(HEAD, &["data.path=a.csv"], &prepared);
    let sets = [
        "data.path=b.csv",
        "run.trials=7",
        "data.loaders=3",
        "sampler.kind=random",
        "study.name=x",
    ];
    let asked = map(HEAD, &sets, &prepared);
    assert_eq!(was, asked);
    assert_eq!(was["models.minilm.fingerprint"], "123");
    let text = serde_json::to_string(&was).unwrap();
    assert_eq!(
        differences(&serde_json::from_str(&text).unwrap(), &asked),
        []
    );
    let unknown = Prepared::default();
    assert_eq!(
        differences(
            &map(HEAD, &["data.path=a"], &unknown),
            &map(HEAD, &["data.path=b"], &unknown)
        )
        .len(),
        1
    );
}

#[test]
fn a_study_older_than_a_key_differs_from_what_sets_or_searches_it_alone() {
    let of = |folds: Option<i64>, searched: bool| {
        let mut map = serde_json::Map::new();
        map.insert("task.kind".into(), "text-classification".into());
        map.extend(folds.map(|k| ("data.folds".to_owned(), k.into())));
        if searched {
            map.insert("space.tok.doc_stride".into(), serde_json::json!({}));
        } else {
            map.insert("tok.doc_stride".into(), 0.into());
        }
        map
    };
    let old = of(None, false);
    assert_eq!(differences(&old, &of(Some(0), false)), []);
    assert_eq!(differences(&of(Some(0), false), &old), []);
    let lines = |asked| -> Vec<String> {
        differences(&old, &asked)
            .iter()
            .map(Difference::to_string)
            .collect()
    };
    assert_eq!(
        lines(of(Some(5), false)),
        ["data.folds was not set; now it is 5"]
    );
    let searched = lines(of(None, true));
    assert_eq!(
        searched.len(),
        1,
        "a range and the value that was fixed are one thing"
    );
    assert!(searched[0].starts_with("tok.doc_stride was fixed at 0; now it is searched in"));
}

#[test]
fn one_fold_is_as_good_as_none() {
    let of = |folds: u64| {
        let identity = serde_json::json!({"task.kind": "tabular", "data.folds": folds});
        identity.as_object().cloned().unwrap()
    };
    for (was, asked) in [(0, 1), (1, 0), (1, 1)] {
        assert!(differences(&of(was), &of(asked)).is_empty());
        assert!(comparable(&of(was), &of(asked)));
    }
    assert_eq!(differences(&of(1), &of(2))[0].key, "data.folds");
    // A study from before the key is one without folds.
    let mut older = of(0);
    older.shift_remove("data.folds");
    assert!(differences(&older, &of(1)).is_empty());
}

#[test]
fn differences_are_spelled_out_in_the_order_of_the_keys() {
    let prepared = Prepared::default();
    let was = map(
        &with("optim.lr = { low = 1e-5, high = 1, log = true, default = 0.1 }\n"),
        &[],
        &prepared,
    );
    let text = with(
        "optim.lr = { low = 1e-5, high = 0.5, log = true }\nmodel.layers = { low = 1, high = 3 }\n\
         [[constraints]]\nexpr = \"model.layers <= 3\"\n",
    );
    let asked = map(&text, &["train.epochs=5", "study.seed=1"], &prepared);
    let lines: Vec<String> = differences(&was, &asked)
        .iter()
        .map(Difference::to_string)
        .collect();
    let expected = [
        "constraints was not set; now it is model.layers <= 3",
        "model.layers was fixed at 1; now it is searched in 1..3",
        "optim.lr was searched in 1e-5..1.0 log, default 0.1; now it is searched in 1e-5..0.5 log",
        "study.seed was 0; now it is 1",
        "train.epochs was 4; now it is 5",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn a_changed_program_is_a_difference_that_names_the_file() {
    let of = |files: &[(&str, &str)]| {
        let entry = |(key, hash): &(&str, &str)| ((*key).to_owned(), (*hash).to_owned());
        let prepared = Prepared {
            fingerprints: files.iter().map(entry).collect(),
            ..Prepared::default()
        };
        map(
            &with("optim.lr = { low = 1e-5, high = 1 }\n"),
            &[],
            &prepared,
        )
    };
    let was = of(&[("task.run.train.py", "a"), ("task.files.net.py", "b")]);
    let asked = of(&[("task.run.train.py", "c"), ("task.files.more.py", "d")]);
    let found = differences(&was, &asked);
    let lines: Vec<String> = found.iter().map(Difference::to_string).collect();
    let expected = [
        "more.py is new (task.files.more.py)",
        "net.py is gone (task.files.net.py)",
        "train.py has changed (task.run.train.py)",
    ];
    assert_eq!(lines, expected);
    assert!(found.iter().all(Difference::is_of_program));
    assert!(!comparable(&was, &asked));
    // A study from before there were such fingerprints.
    let before = of(&[("task.files.more.py", "d")]);
    assert_eq!(differences(&before, &asked), []);
    assert!(lacks_program(&before, &asked) && !lacks_program(&was, &asked));
    let other = of(&[("task.files.more.py", "e")]);
    assert_eq!(differences(&other, &asked).len(), 1);
}

/// A map as [`identity`] makes it of the file with these sets.
fn of(space: &str, sets: &[&str], models: &[&str]) -> serde_json::Map<String, serde_json::Value> {
    let hash = |name: &&str| (format!("model.{name}"), format!("hash of {name}"));
    let prepared = Prepared {
        fingerprints: models.iter().map(hash).collect(),
        ..Prepared::default()
    };
    map(&with(space), sets, &prepared)
}

#[test]
fn values_are_comparable_where_only_the_search_differs() {
    let lr = "optim.lr = { low = 1e-5, high = 1 }\n";
    let model = |names: &str| format!("{lr}\"model.name\" = {{ choices = [{names}] }}\n");
    let was = of(&model("\"a\", \"b\""), &[], &["a", "b"]);
    let same = |asked| comparable(&was, &asked);
    // The list of models changed; a narrower range, a constraint, another seed, a fixed parameter.
    assert!(same(of(&model("\"a\", \"c\""), &[], &["a", "c"])));
    let sets = ["space.optim.lr.high=0.1", "study.seed=7"];
    assert!(same(of(&model("\"a\", \"b\""), &sets, &["a", "b"])));
    let constraint = "[[constraints]]\nexpr = \"optim.lr <= 0.5\"\n";
    assert!(same(of(
        &(model("\"a\", \"b\"") + constraint),
        &[],
        &["a", "b"]
    )));
    assert!(same(of(lr, &["model.name=a"], &["a"])));
    let both = of(&model("\"a\", \"b\""), &["optim.lr=0.1"], &["a", "b"]);
    assert!(same(both.clone()));
    assert!(comparable(&both, &was), "and the other way round");
    // More epochs, another fixed model, a checkpoint that changed.
    assert!(!same(of(
        &model("\"a\", \"b\""),
        &["train.epochs=9"],
        &["a", "b"]
    )));
    let (a, b) = (["model.name=a"], ["model.name=b"]);
    assert!(!comparable(&of(lr, &a, &["a"]), &of(lr, &b, &["b"])));
    let mut changed = was.clone();
    changed.insert("model.a".into(), "another hash".into());
    assert!(!same(changed));
    let mut data = was.clone();
    data.insert("data.fingerprint".into(), "abc".into());
    assert!(!same(data));
}

#[test]
fn an_identity_gives_its_space_back() {
    let text = with(
        "optim.lr = { low = 1e-5, high = 1, log = true, default = 0.1 }\n\
         \"model.name\" = { choices = [\"a\", \"large\"] }\n\
         \"tok.max_length\" = { low = 64, high = 512, high_when = [{ if = { \"model.name\" = \"large\" }, high = 384 }] }\n\
         [[constraints]]\nexpr = \"optim.lr <= 0.5\"\n",
    );
    let spec = good(&text, &[]);
    let identity = map(&text, &[], &Prepared::default());
    let stored = serde_json::to_string(&identity).unwrap();
    let space = space_of(&serde_json::from_str(&stored).unwrap());
    assert_eq!(space.parameters, spec.space.parameters);
    assert_eq!(space.constraints, spec.space.constraints);
    assert_eq!(space.fixed["train.epochs"], Value::Int(4));
}
