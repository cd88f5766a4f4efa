//! Embeddings of texts compared with transformers' (`tests/reference/make_embeddings.py`).

use std::collections::BTreeMap;
use std::path::Path;

use safetensors::SafeTensors;

use super::*;

fn reference() -> &'static Path {
    Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/reference"
    ))
}

/// The checkpoint with the tokeniser's files in place.
fn checkpoint(case: &str) -> (tempfile::TempDir, Checkpoint) {
    let dir = tempfile::tempdir().unwrap();
    let copy = |from: &Path, to: &str| {
        if from.exists() {
            std::fs::copy(from, dir.path().join(to)).unwrap();
        }
    };
    let tokenizers = reference().join("tokenizers");
    for file in ["config.json", "pytorch_model.bin"] {
        copy(&reference().join("embeddings").join(case).join(file), file);
    }
    for file in ["tokenizer_config.json", "added_tokens.json"] {
        copy(&tokenizers.join(case).join(file), file);
    }
    let files = std::fs::read(tokenizers.join(case).join("files.json")).unwrap();
    let files: BTreeMap<String, String> = serde_json::from_slice(&files).unwrap();
    for (target, source) in files {
        copy(&tokenizers.join(source), &target);
    }
    let checkpoint = Checkpoint::open(case, dir.path()).unwrap();
    (dir, checkpoint)
}

fn row(text: &str, pair: Option<&str>) -> Row {
    Row {
        text: text.to_owned(),
        pair: pair.map(str::to_owned),
    }
}

fn texts() -> Vec<Row> {
    let json = std::fs::read(reference().join("tokenizers/texts.json")).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let all = json["texts"].as_array().unwrap().iter();
    all.map(|text| row(text.as_str().unwrap(), None)).collect()
}

fn floats(file: &SafeTensors<'_>, name: &str) -> Vec<f32> {
    let view = file.tensor(name).unwrap();
    view.data()
        .as_chunks()
        .0
        .iter()
        .map(|b| f32::from_le_bytes(*b))
        .collect()
}

/// A request for this file, with rows of at most so many tokens, so many at once.
fn wanted(
    out: &Path,
    (max_length, batch_size): (usize, usize),
    pooling: Option<EmbeddingPooling>,
) -> Embed {
    Embed {
        model: String::new(),
        models: BTreeMap::new(),
        file: Default::default(),
        columns: Default::default(),
        out: out.to_owned(),
        max_length,
        batch_size,
        pooling,
        device: device::Device::Cpu,
        json: false,
        loud: false,
    }
}

/// Embeds the texts and hands over the file.
fn embedded(
    case: &str,
    batch_size: usize,
    pooling: Option<EmbeddingPooling>,
) -> Result<(Vec<u8>, Embedded), Failure> {
    let (dir, checkpoint) = checkpoint(case);
    let out = dir.path().join("out.safetensors");
    let rows = texts();
    let wanted = wanted(&out, (40, batch_size), pooling);
    let mut computed = 0;
    let done = embed(&checkpoint, &rows, &wanted, &mut |step| match step {
        EmbeddingStep::Began { rows, .. } => assert_eq!(rows, texts().len()),
        EmbeddingStep::Computed(rows) => computed += rows,
    })?;
    assert_eq!(computed, texts().len());
    Ok((std::fs::read(out).unwrap(), done))
}

/// Compares where there are tokens; returns the largest difference.
fn assert_states(case: &str, found: &SafeTensors<'_>, expected: &SafeTensors<'_>) {
    let mask = expected.tensor("attention_mask").unwrap();
    assert_eq!(
        found.tensor("attention_mask").unwrap().data(),
        mask.data(),
        "{case}"
    );
    let shape = expected
        .tensor("last_hidden_state")
        .unwrap()
        .shape()
        .to_vec();
    assert_eq!(found.tensor("last_hidden_state").unwrap().shape(), shape);
    let (ours, theirs) = (
        floats(found, "last_hidden_state"),
        floats(expected, "last_hidden_state"),
    );
    let there: Vec<bool> = mask.data().chunks(8).map(|b| b[0] == 1).collect();
    for (at, there) in there.iter().enumerate() {
        let states = at * shape[2]..(at + 1) * shape[2];
        for (a, b) in ours[states.clone()].iter().zip(&theirs[states]) {
            match there {
                true => assert!((a - b).abs() < 1e-4, "{case}, token {at}: {a} {b}"),
                false => assert_eq!(*a, 0.0, "{case}, token {at}"),
            }
        }
    }
}

#[test]
fn hidden_states_and_pooled_output_are_those_of_transformers_at_any_batch_size() {
    for case in ["xlmr", "deberta"] {
        let bytes = std::fs::read(
            reference()
                .join("embeddings")
                .join(case)
                .join("reference.safetensors"),
        )
        .unwrap();
        let expected = SafeTensors::deserialize(&bytes).unwrap();
        for batch_size in [1, 3, 64] {
            let (bytes, done) = embedded(case, batch_size, None).unwrap();
            let found = SafeTensors::deserialize(&bytes).unwrap();
            assert_states(case, &found, &expected);
            assert!(done.cut > 0, "the longest text is longer than 40 tokens");
            if expected.tensor("pooled").is_ok() {
                assert_eq!(done.pooling, EmbeddingPooling::Pooler);
                let (ours, theirs) = (floats(&found, "pooled"), floats(&expected, "pooled"));
                let pairs = ours.iter().zip(&theirs);
                assert!(pairs.clone().all(|(a, b)| (a - b).abs() < 1e-4), "{case}");
            } else {
                assert_eq!(done.pooling, EmbeddingPooling::Mean);
            }
        }
    }
}

#[test]
fn the_mean_is_that_of_a_rows_own_tokens_and_cls_its_first() {
    let (bytes, done) = embedded("xlmr", 8, Some(EmbeddingPooling::Mean)).unwrap();
    let found = SafeTensors::deserialize(&bytes).unwrap();
    let (states, mean) = (
        floats(&found, "last_hidden_state"),
        floats(&found, "pooled"),
    );
    let mask = found.tensor("attention_mask").unwrap().data().to_vec();
    let (bytes, _) = embedded("xlmr", 8, Some(EmbeddingPooling::Cls)).unwrap();
    let first = floats(&SafeTensors::deserialize(&bytes).unwrap(), "pooled");
    let row = done.length * done.hidden;
    for number in 0..done.rows {
        let tokens = mask[number * done.length * 8..(number + 1) * done.length * 8]
            .chunks(8)
            .filter(|b| b[0] == 1)
            .count();
        for h in 0..done.hidden {
            let sum: f32 = (0..tokens)
                .map(|t| states[number * row + t * done.hidden + h])
                .sum();
            let at = number * done.hidden + h;
            assert!((sum / tokens as f32 - mean[at]).abs() < 1e-5);
            assert!((states[number * row + h] - first[at]).abs() < 1e-6);
        }
    }
}

#[test]
fn a_pooler_that_the_checkpoint_lacks_is_refused() {
    let failure = embedded("deberta", 8, Some(EmbeddingPooling::Pooler)).unwrap_err();
    assert_eq!(failure.exit, Exit::BadInput);
    assert!(failure.message.contains("has no pooler"), "{failure}");
}

#[test]
fn a_length_without_room_beside_the_special_tokens_is_refused_with_the_least_one() {
    let (dir, checkpoint) = checkpoint("xlmr");
    let out = dir.path().join("out.safetensors");
    for (pair, least) in [(None, 3), (Some("b"), 5)] {
        let rows = [row("a text", pair)];
        let of = |max_length| {
            let wanted = wanted(&out, (max_length, 1), None);
            embed(&checkpoint, &rows, &wanted, &mut |_| {})
        };
        for length in 0..least {
            let failure = of(length).unwrap_err();
            assert_eq!(failure.exit, Exit::BadInput);
            let expected = format!("--max-length: found {length}, expected at least {least}");
            assert!(failure.message.contains(&expected), "{failure}");
        }
        assert_eq!(of(least).unwrap().length, least);
    }
}
