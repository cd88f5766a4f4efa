//! What is sent to somebody who is asked for help: one file, without secrets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;

/// Beginnings of the names of variables that bear on a crash. Everything else stays at home.
const ALLOWED: [&str; 22] = [
    "CUDA_",
    "CUDNN_",
    "CUBLAS_",
    "NVIDIA_",
    "NCCL_",
    "PYTORCH_",
    "TORCH_",
    "OMP_",
    "MKL_",
    "KMP_",
    "OPENBLAS_",
    "MALLOC_",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "LIBTORCH",
    "PYTHON",
    "LC_",
    "LANG",
    "TUNE_",
    "HPO_",
    "TOKENIZERS_PARALLELISM",
    "WANDB_MODE",
];

/// A variable's name that has one of these may name a secret.
const SECRET: &str = r"(?i)key|token|secret|passw|passphrase|credential|auth|cookie|license";

/// The same in any text, where `KeyError` and `tokens` are harmless.
const SECRET_IN_TEXT: &str = r"api[_-]?key|[a-z]_key\b|-key\b|token\b|secret|passw|passphrase|\bpwd\b|credential|auth\b|authorization|cookie";

/// Variables that are named like one and are none: the working directory, and how many tokenisers work at once.
const NO_SECRETS: [&str; 3] = ["PWD", "OLDPWD", "TOKENIZERS_PARALLELISM"];

/// Variables that may be told, by name.
pub fn allowed(variables: &BTreeMap<String, String>) -> BTreeMap<&str, &str> {
    let tells = |name: &str| {
        let harmless = NO_SECRETS.contains(&name) || !secret().is_match(name);
        ALLOWED.iter().any(|begin| name.starts_with(begin)) && harmless
    };
    variables
        .iter()
        .filter(|(name, _)| tells(name))
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect()
}

fn secret() -> &'static Regex {
    static NAME: LazyLock<Regex> = LazyLock::new(|| pattern(SECRET));
    &NAME
}

fn named_in_text() -> &'static Regex {
    static NAME: LazyLock<Regex> = LazyLock::new(|| pattern(&format!("(?i){SECRET_IN_TEXT}")));
    &NAME
}

#[expect(
    clippy::expect_used,
    reason = "patterns are constants, and tests use every one"
)]
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a constant pattern")
}

/// Shorter values are no secrets, and stand in other words; so do numbers (`--max-token 4096`) and these.
const SHORTEST: usize = 4;
const PLAIN: [&str; 4] = ["true", "false", "none", "null"];

/// The values that a command's arguments and the environment give to what is named like a secret: `--api-key VALUE`,
/// `--api-key=VALUE`, `API_KEY=VALUE`.
pub fn secrets(words: &[String], variables: &BTreeMap<String, String>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut take = |value: &str| {
        let plain = PLAIN.contains(&value.to_lowercase().as_str()) || value.parse::<f64>().is_ok();
        if value.len() >= SHORTEST && !plain {
            found.insert(value.to_owned());
        }
    };
    let secret = |name: &str| named_in_text().is_match(name);
    for (at, word) in words.iter().enumerate() {
        match word.split_once('=') {
            Some((name, value)) if secret(name) => take(value),
            None if word.starts_with('-') && secret(word) => {
                let next = words.get(at + 1).filter(|next| !next.starts_with('-'));
                next.into_iter().for_each(|next| take(next));
            }
            Some(_) | None => {}
        }
    }
    for (name, value) in variables {
        if secret(name) && !NO_SECRETS.contains(&name.as_str()) {
            take(value);
        }
    }
    found
}

/// A text without the given secrets, without what follows the name of one or looks like one, and with `~` for the home
/// directory.
pub fn redacted(text: &str, secrets: &BTreeSet<String>, home: &str) -> String {
    static NAMED: LazyLock<Regex> = LazyLock::new(|| {
        pattern(&format!(
            r#"(?i)([\w-]*(?:{SECRET_IN_TEXT})[\w-]*\\?["']?\s*[=:]\s*(?:(?:bearer|basic|token)\s+)?|--[\w-]*(?:{SECRET_IN_TEXT})[\w-]* )(?:\\?"[^"]*"|'[^']*'|[^\s"',;]+)"#
        ))
    });
    static SHAPED: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r"(?s)-----BEGIN [^-]*PRIVATE KEY-----.*?(?:-----END[^-]*-----|\z)|\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*|\b(?:hf_|sk-|ghp_|gho_|github_pat_|xox[abp]-|AKIA)[A-Za-z0-9_-]{8,}|\b[A-Fa-f0-9]{40,}\b|://[^/\s:@]+:[^/\s@]+@",
        )
    });
    let mut text = text.to_owned();
    // The longest first: a secret may lie within another.
    let mut values: Vec<&String> = secrets.iter().collect();
    values.sort_by_key(|value| std::cmp::Reverse(value.len()));
    for value in values {
        text = text.replace(value, "<removed>");
        // As it stands in a string of JSON.
        let escaped = serde_json::Value::from(value.as_str()).to_string();
        text = text.replace(escaped.trim_matches('"'), "<removed>");
    }
    let text = NAMED.replace_all(&text, "${1}<removed>");
    let text = SHAPED.replace_all(&text, "<removed>");
    match home.len() > 1 {
        true => text.replace(home, "~"),
        false => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_variables_that_bear_on_a_crash_are_told() {
        let names = [
            "CUDA_HOME",
            "LD_PRELOAD",
            "AWS_SECRET_ACCESS_KEY",
            "HF_TOKEN",
            "TORCH_AUTH",
            "TOKENIZERS_PARALLELISM",
            "HOME",
        ];
        let variables = names.map(|name| (name.to_owned(), "x".to_owned()));
        let variables = BTreeMap::from(variables);
        let told = allowed(&variables);
        assert_eq!(
            told.keys().copied().collect::<Vec<_>>(),
            ["CUDA_HOME", "LD_PRELOAD", "TOKENIZERS_PARALLELISM"]
        );
    }

    #[test]
    fn secrets_are_removed_from_texts() {
        for text in [
            "train.py --api-key 12ab --lr 0.1",
            "WANDB_API_KEY=12ab",
            "{\"password\": \"12ab\"}",
            "Authorization: Bearer 12ab",
            "https://me:12ab@host/x",
            "Authorization: Basic 12ab",
            "{'pwd': 'one 12ab'}",
            r#"{\"passphrase\": \"one 12ab\"}"#,
            "--auth 'Bearer 12ab'",
            "eyJhbGciOiJI.eyJzdWIi12ab.x12ab",
            "-----BEGIN RSA PRIVATE KEY-----\n12ab\n-----END RSA PRIVATE KEY-----",
            "-----BEGIN PRIVATE KEY-----\n12ab\n",
            "hf_12abcdefgh",
        ] {
            let told = redacted(text, &BTreeSet::new(), "/home/me");
            assert!(
                !told.contains("12ab") && told.contains("<removed>"),
                "{told}"
            );
        }
        for plain in [
            "IndexError: Target 7 is out of bounds.",
            "KeyError: 'lr'",
            "tokens: 128",
        ] {
            assert_eq!(redacted(plain, &BTreeSet::new(), "/root"), plain);
        }
        let told = redacted("/home/me/t.py", &BTreeSet::new(), "/home/me");
        assert_eq!(told, "~/t.py");
    }

    #[test]
    fn a_secret_that_is_known_is_removed_wherever_it_stands() {
        let words = "t.py --api-key 12ab\"34 --token=56cd78 --lr 0.1 --max-token 4096 --epochs 3";
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let variables = [
            ("MY_PASSPHRASE", "open sesame"),
            ("DB_PASSWORD", "9876ef"),
            ("PATH", "/usr/bin"),
            ("PWD", "/home/me/project"),
            ("TOKENIZERS_PARALLELISM", "false"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let found = secrets(&words, &BTreeMap::from(variables));
        assert_eq!(
            found.iter().collect::<Vec<_>>(),
            ["12ab\"34", "56cd78", "9876ef", "open sesame"]
        );
        let text = format!("{words:?}\nlogged in with 9876ef, not 56cd78");
        let told = redacted(&text, &found, "/root");
        assert_eq!(told.matches("<removed>").count(), 4, "{told}");
        assert!(told.contains("\"4096\", \"--epochs\""), "{told}");
        let table = "without --api-key           0 of 3 failed";
        assert_eq!(redacted(table, &found, "/root"), table);
    }
}
