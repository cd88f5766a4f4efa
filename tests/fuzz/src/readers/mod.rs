//! What reads files and lines that are not ours, as functions of bytes: for the tests below, which change
//! valid samples at random but always alike, and for libFuzzer (`make fuzz`, tests/fuzz), which looks at
//! what is covered. Nothing of this is in a binary.

#![allow(clippy::unwrap_used, missing_docs)]

mod samples;

use std::cell::OnceCell;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use ask_tell::{Session, serve};
use config::Overrides;
use messages::{python_json, to_python_json};
use store::is_damaged;
use supervisor::spool;
use text::checkpoint::{EncoderConfig, Weights, needed};
use text::data::{Columns, Dataset};
use text::tokenizer::TokenizerFiles;

/// A reader, and what it reads without complaint.
pub struct Target {
    pub name: &'static str,
    pub samples: fn() -> Vec<Vec<u8>>,
    pub run: fn(&[u8]),
}

pub const TARGETS: [Target; 11] = [
    Target {
        name: "pickle",
        samples: samples::pickles,
        run: pickle,
    },
    Target {
        name: "archive",
        samples: samples::archives,
        run: archive,
    },
    Target {
        name: "safetensors",
        samples: samples::headers,
        run: safetensors,
    },
    Target {
        name: "model-config",
        samples: samples::model_configs,
        run: model_config,
    },
    Target {
        name: "tokenizer",
        samples: samples::tokenizers,
        run: tokenizer,
    },
    Target {
        name: "vocabulary",
        samples: samples::vocabularies,
        run: vocabulary,
    },
    Target {
        name: "rows",
        samples: samples::rows,
        run: rows,
    },
    Target {
        name: "log",
        samples: samples::logs,
        run: |bytes| {
            is_damaged(bytes);
        },
    },
    Target {
        name: "spool",
        samples: samples::spools,
        run: spooled,
    },
    Target {
        name: "config",
        samples: samples::configs,
        run: configuration,
    },
    Target {
        name: "ask-tell",
        samples: samples::sessions,
        run: ask_tell,
    },
];

/// Reads files of these names and contents, in a directory of this thread's own.
fn with_files<T>(files: &[(&str, &[u8])], read: impl FnOnce(&Path) -> T) -> T {
    thread_local! {
        static DIR: OnceCell<tempfile::TempDir> = const { OnceCell::new() };
    }
    DIR.with(|dir| {
        // In memory, where there is such a place.
        let shm = Path::new("/dev/shm");
        let within = match shm.is_dir() {
            true => shm.to_owned(),
            false => std::env::temp_dir(),
        };
        let dir = dir
            .get_or_init(|| tempfile::tempdir_in(within).unwrap())
            .path();
        let paths: Vec<PathBuf> = files.iter().map(|(name, _)| dir.join(name)).collect();
        for (path, (_, bytes)) in paths.iter().zip(files) {
            fs::write(path, bytes).unwrap();
        }
        let found = read(dir);
        paths.iter().for_each(|path| fs::remove_file(path).unwrap());
        found
    })
}

/// Finds the weights, checks them against a model, and reads what is whole.
fn weights(name: &str, bytes: &[u8]) {
    let config: EncoderConfig = serde_json::from_value(samples::bert()).unwrap();
    with_files(&[(name, bytes)], |dir| {
        let Ok(weights) = Weights::find(dir, "m") else {
            return;
        };
        let _ = (weights.verify("m"), weights.check(&config, "m"));
        let mut reader = weights.reader();
        for tensor in needed(&config) {
            if let Ok(raw) = reader.read(&tensor.name) {
                assert!(raw.bytes.len() <= bytes.len(), "more than the file has");
            }
        }
    });
}

/// The pickle of tensors, within a file of the old format.
fn pickle(bytes: &[u8]) {
    weights("pytorch_model.bin", &[samples::LEGACY, bytes].concat());
}

fn archive(bytes: &[u8]) {
    weights("pytorch_model.bin", bytes);
}

/// A header, and 4096 bytes of values behind it.
fn safetensors(bytes: &[u8]) {
    let length = (bytes.len() as u64).to_le_bytes();
    weights(
        "model.safetensors",
        &[&length, bytes, &[0; samples::VALUES]].concat(),
    );
}

fn model_config(bytes: &[u8]) {
    with_files(&[("config.json", bytes)], |dir| {
        if let Ok(config) = EncoderConfig::read(&dir.join("config.json"), "m") {
            // None of them may overflow.
            let _ = (config.max_tokens(), config.token_types());
            let (heads, layers) = (config.num_attention_heads, config.num_hidden_layers);
            assert!(config.hidden_size.is_multiple_of(heads) && layers > 0);
            if layers < 100 {
                let _ = needed(&config);
            }
        }
    });
}

/// Texts that a tokeniser is tried with.
const TEXTS: [&str; 4] = [
    "",
    "the phone is good",
    "\u{e4}\u{0}\u{1f600} \u{2581}a",
    "aaaaaaaa",
];

fn tokenise(dir: &Path) {
    let Ok(files) = TokenizerFiles::find(dir) else {
        return;
    };
    if let Ok(tokenizer) = files.load() {
        for text in TEXTS {
            let _ = tokenizer.encode_fast(text, true);
            let _ = tokenizer.encode_fast((text, TEXTS[1]), true);
        }
    }
}

fn tokenizer(bytes: &[u8]) {
    with_files(&[("tokenizer.json", bytes)], tokenise);
}

/// The older files: the first byte says of which kind.
fn vocabulary(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else {
        return;
    };
    let model: &[u8] = match kind % 5 {
        0 => br#"{"model_type": "bert"}"#,
        1 => br#"{"model_type": "roberta"}"#,
        2 => br#"{"model_type": "xlm-roberta"}"#,
        3 => br#"{"model_type": "camembert"}"#,
        _ => br#"{"model_type": "deberta-v2"}"#,
    };
    let config = ("config.json", model);
    // Two files in one, with a zero between them.
    let at = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    let (first, second) = (&bytes[..at], bytes.get(at + 1..).unwrap_or_default());
    match kind % 5 {
        0 => with_files(
            &[
                config,
                ("vocab.txt", first),
                ("tokenizer_config.json", second),
            ],
            tokenise,
        ),
        1 => with_files(
            &[config, ("vocab.json", first), ("merges.txt", second)],
            tokenise,
        ),
        _ => with_files(&[config, ("spiece.model", bytes)], tokenise),
    }
}

/// CSV or JSON lines: the first byte says which.
fn rows(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else {
        return;
    };
    let name = ["rows.csv", "rows.jsonl"][usize::from(kind % 2)];
    let columns = Columns {
        text: "text".into(),
        pair: None,
        label: "label".into(),
        group: Some("group".into()),
        part: None,
    };
    with_files(&[(name, bytes)], |dir| {
        match Dataset::read(&dir.join(name), &columns) {
            Ok(data) => {
                assert!(data.samples.classes.len() > 1);
                assert!(data.samples.lines.iter().all(|line| *line > 0));
            }
            Err(problems) => assert!(!problems.to_string().is_empty()),
        }
    });
}

fn spooled(bytes: &[u8]) {
    with_files(&[("study.jsonl", bytes)], |dir| {
        let contents = spool::read(&dir.join("study.jsonl")).unwrap();
        assert!(contents.entries.len() + contents.damaged.len() <= bytes.len());
    });
    // The same bytes as a text of Python's.
    let text = String::from_utf8_lossy(bytes);
    if let Some(json) = python_json(&text) {
        let again = python_json(&to_python_json(&json));
        assert_eq!(again, Some(json), "what was written is read again");
    }
}

fn configuration(bytes: &[u8]) {
    let input = config::Input {
        text: &String::from_utf8_lossy(bytes),
        shown: Path::new("f.toml"),
        absolute: Path::new("/nowhere/f.toml"),
        home: None,
    };
    let resolved = config::resolve_text(&input, &Overrides::default(), &config::kinds::KINDS);
    if let Err(problems) = resolved {
        assert!(!problems.0.is_empty());
    }
}

/// Each reply is one line of plain JSON.
fn ask_tell(bytes: &[u8]) {
    let mut session = Session::new(Box::new(|_, _| Err("no database".to_owned())));
    let mut replies = Vec::new();
    serve(&mut &bytes[..], &mut replies, &mut session).unwrap();
    for line in String::from_utf8(replies).unwrap().lines() {
        serde_json::from_str::<Json>(line).unwrap();
    }
}

#[cfg(test)]
mod tests {
    use rand::Rng;

    use super::*;
    use search::study::rng;

    /// Runs what is made of a target's samples by a few random changes, the same at each call.
    fn attack(name: &str, rounds: u64) {
        let target = TARGETS.iter().find(|target| target.name == name).unwrap();
        let samples = (target.samples)();
        for sample in &samples {
            (target.run)(sample);
        }
        for round in 0..rounds {
            let mut random = rng(round, 0, name);
            let mut below = |n: usize| (random.next_u64() % n.max(1) as u64) as usize;
            let mut bytes = samples[below(samples.len())].clone();
            for _ in 0..1 + below(4) {
                let other = &samples[below(samples.len())];
                change(&mut bytes, other, &mut below);
            }
            (target.run)(&bytes);
        }
    }

    /// Values at which readers go wrong, as bytes and as text.
    const ODD: [&[u8]; 14] = [
        b"\0",
        b"\xff\xff\xff\xff",
        b"\xff\xff\xff\x7f",
        b"\x80",
        b"\"",
        b"\n",
        b"{",
        b"[[[[",
        b"-1",
        b"9223372036854775807",
        b"18446744073709551616",
        b"1e999",
        b"NaN",
        b"\\ud800",
    ];

    fn change(bytes: &mut Vec<u8>, other: &[u8], below: &mut impl FnMut(usize) -> usize) {
        let at = below(bytes.len() + 1);
        let end = (at + below(20)).min(bytes.len());
        match below(6) {
            0 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << below(8);
                }
            }
            1 => drop(bytes.drain(at..end)),
            2 => drop(bytes.splice(at..end, ODD[below(ODD.len())].iter().copied())),
            3 => drop(bytes.splice(at..at, ODD[below(ODD.len())].iter().copied())),
            4 => {
                let part = bytes[at..end].repeat(1 + below(40));
                drop(bytes.splice(at..at, part));
            }
            _ => {
                let from = below(other.len() + 1);
                let part = &other[from..(from + below(60)).min(other.len())];
                drop(bytes.splice(at..end, part.iter().copied()));
            }
        }
    }

    macro_rules! attacked {
        ($($test:ident: $name:literal, $rounds:literal;)*) => {
            $(#[test]
            fn $test() {
                attack($name, $rounds);
            })*

            #[test]
            fn every_target_is_attacked() {
                let tested = [$($name),*];
                assert_eq!(tested, TARGETS.map(|target| target.name));
            }
        };
    }

    attacked! {
        a_changed_pickle_is_refused_or_read: "pickle", 4_000;
        a_changed_archive_is_refused_or_read: "archive", 3_000;
        a_changed_header_of_safetensors_is_refused_or_read: "safetensors", 4_000;
        a_changed_config_json_is_refused_or_read: "model-config", 4_000;
        a_changed_tokenizer_json_is_refused_or_encodes: "tokenizer", 1_500;
        changed_vocabularies_are_refused_or_encode: "vocabulary", 1_500;
        changed_rows_are_refused_or_read: "rows", 3_000;
        a_changed_log_is_whole_or_damaged: "log", 300;
        a_changed_spool_is_read_as_far_as_it_is_whole: "spool", 4_000;
        a_changed_configuration_is_refused_or_resolved: "config", 400;
        changed_requests_are_answered_or_refused_line_by_line: "ask-tell", 400;
    }

    #[test]
    fn samples_are_valid_as_far_as_a_reader_tells() {
        for header in samples::headers() {
            let file = [
                &(header.len() as u64).to_le_bytes()[..],
                &header,
                &[0; samples::VALUES],
            ];
            with_files(&[("model.safetensors", &file.concat())], |dir| {
                Weights::find(dir, "m").unwrap();
            });
        }
        for pickle in samples::pickles() {
            let file = [samples::LEGACY, &pickle].concat();
            with_files(&[("pytorch_model.bin", &file)], |dir| {
                Weights::find(dir, "m").unwrap();
            });
        }
        for archive in samples::archives() {
            with_files(&[("pytorch_model.bin", &archive)], |dir| {
                Weights::find(dir, "m").unwrap();
            });
        }
        for tokenizer in samples::tokenizers() {
            with_files(&[("tokenizer.json", &tokenizer)], |dir| {
                let tokenizer = TokenizerFiles::find(dir).unwrap().load().unwrap();
                assert!(!tokenizer.encode_fast(TEXTS[1], true).unwrap().is_empty());
            });
        }
        for spool in samples::spools() {
            with_files(&[("s.jsonl", &spool)], |dir| {
                let contents = spool::read(&dir.join("s.jsonl")).unwrap();
                assert!(contents.damaged.is_empty() && !contents.torn);
            });
        }
    }
}
