//! Ids compared with those of transformers, which `tests/reference/make_tokenizers.py` wrote.

use std::collections::BTreeMap;

use super::*;

fn reference() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/reference/tokenizers")
}

fn read<T: serde::de::DeserializeOwned>(file: &Path) -> T {
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

/// A checkpoint's directory with the tokeniser of a case.
fn directory(case: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let from = reference().join(case);
    for name in [
        "config.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
    ] {
        if from.join(name).exists() {
            std::fs::copy(from.join(name), dir.path().join(name)).unwrap();
        }
    }
    let files: BTreeMap<String, String> = read(&from.join("files.json"));
    for (target, source) in files {
        std::fs::copy(reference().join(source), dir.path().join(target)).unwrap();
    }
    dir
}

#[derive(serde::Deserialize)]
struct Texts {
    texts: Vec<String>,
    pairs: Vec<(String, String)>,
}

#[test]
fn ids_and_types_are_those_of_transformers_for_every_kind_of_files() {
    let all: Texts = read(&reference().join("texts.json"));
    let mut wrong = Vec::new();
    for case in [
        "xlmr",
        "camembert",
        "deberta",
        "deberta_lower",
        "deberta_bpe",
        "bert",
        "bert_cased",
        "roberta",
        "roberta_prefix",
    ] {
        let dir = directory(case);
        let tokenizer = TokenizerFiles::find(dir.path()).unwrap().load().unwrap();
        let expected: Vec<(Vec<u32>, Vec<u32>)> =
            read(&reference().join(case).join("expected.json"));
        let texts = all
            .texts
            .iter()
            .map(|t| tokenizer.encode_fast(t.as_str(), true));
        let pairs =
            (all.pairs.iter()).map(|(a, b)| tokenizer.encode_fast((a.as_str(), b.as_str()), true));
        let found: Vec<_> = texts.chain(pairs).map(Result::unwrap).collect();
        assert_eq!(found.len(), expected.len());
        for (number, (found, expected)) in found.iter().zip(&expected).enumerate() {
            if (found.get_ids(), found.get_type_ids()) != (&expected.0[..], &expected.1[..]) {
                wrong.push(format!(
                    "{case} {number}:\n  {:?}\n  {:?}",
                    found.get_ids(),
                    expected.0
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn tokenizer_json_wins_over_older_files() {
    let dir = directory("bert");
    std::fs::write(dir.path().join("tokenizer.json"), "{}").unwrap();
    let files = TokenizerFiles::find(dir.path()).unwrap();
    assert_eq!(files.files, [dir.path().join("tokenizer.json")]);
    assert!(files.load().is_err());
}

#[test]
fn files_that_are_missing_are_named_by_architecture() {
    for (case, file, expected) in [
        ("bert", "vocab.txt", "tokenizer.json (or vocab.txt)"),
        ("roberta", "merges.txt", "tokenizer.json (or merges.txt)"),
        (
            "deberta",
            "spm.model",
            "tokenizer.json (or spm.model or spiece.model or sentencepiece.bpe.model)",
        ),
    ] {
        let dir = directory(case);
        std::fs::remove_file(dir.path().join(file)).unwrap();
        assert_eq!(TokenizerFiles::find(dir.path()).unwrap_err(), [expected]);
    }
    let dir = directory("bert");
    std::fs::write(dir.path().join("config.json"), r#"{"model_type": "gpt2"}"#).unwrap();
    assert_eq!(
        TokenizerFiles::find(dir.path()).unwrap_err(),
        ["tokenizer.json"]
    );
}

#[test]
fn damaged_models_are_errors_and_no_panics() {
    for case in ["xlmr", "deberta", "deberta_bpe", "roberta", "bert"] {
        let dir = directory(case);
        let files = TokenizerFiles::find(dir.path()).unwrap();
        std::fs::write(&files.files[0], [0xff; 64]).unwrap();
        assert!(files.load().is_err(), "{case}");
        std::fs::write(&files.files[0], "").unwrap();
        assert!(files.load().is_err(), "{case}");
    }
    // Cut anywhere, a model is refused or has fewer pieces.
    let dir = directory("deberta");
    let files = TokenizerFiles::find(dir.path()).unwrap();
    let whole = std::fs::read(&files.files[0]).unwrap();
    for size in (0..whole.len()).step_by(503) {
        std::fs::write(&files.files[0], &whole[..size]).unwrap();
        let _ = files.load();
    }
}
