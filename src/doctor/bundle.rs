//! What is sent to somebody who is asked for help: one file, without secrets.

use std::collections::BTreeMap;
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
const SECRET: &str = r"(?i)key|token|secret|passw|credential|auth|cookie|license";

/// The same in any text, where `KeyError` and `tokens` are harmless.
const SECRET_IN_TEXT: &str =
    r"api[_-]?key|[a-z]_key\b|token\b|secret|passw|credential|authorization|cookie";

/// Variables that may be told, by name.
pub fn allowed(variables: &BTreeMap<String, String>) -> BTreeMap<&str, &str> {
    let tells = |name: &str| {
        ALLOWED.iter().any(|begin| name.starts_with(begin)) && !secret().is_match(name)
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

#[expect(
    clippy::expect_used,
    reason = "patterns are constants, and tests use every one"
)]
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a constant pattern")
}

/// A text without what follows the name of a secret, without what looks like one, and with `~` for the home directory.
pub fn redacted(text: &str, home: &str) -> String {
    static NAMED: LazyLock<Regex> = LazyLock::new(|| {
        pattern(&format!(
            r#"(?i)([\w-]*(?:{SECRET_IN_TEXT})[\w-]*["']?\s*[=:]\s*["']?(?:bearer\s+)?|--[\w-]*(?:{SECRET_IN_TEXT})[\w-]*\s+)[^\s"',;]+"#
        ))
    });
    static SHAPED: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r"\b(?:hf_|sk-|ghp_|gho_|github_pat_|xox[abp]-|AKIA)[A-Za-z0-9_-]{8,}|\b[A-Fa-f0-9]{40,}\b|://[^/\s:@]+:[^/\s@]+@",
        )
    });
    let text = NAMED.replace_all(text, "${1}<removed>");
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
            "HOME",
        ];
        let variables = names.map(|name| (name.to_owned(), "x".to_owned()));
        let variables = BTreeMap::from(variables);
        let told = allowed(&variables);
        assert_eq!(
            told.keys().copied().collect::<Vec<_>>(),
            ["CUDA_HOME", "LD_PRELOAD"]
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
            "hf_12abcdefgh",
        ] {
            let told = redacted(text, "/home/me");
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
            assert_eq!(redacted(plain, "/root"), plain);
        }
        assert_eq!(redacted("/home/me/t.py", "/home/me"), "~/t.py");
    }
}
