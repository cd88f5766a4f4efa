//! A text explained: what it is, what `tune` does about it, what people can do.

use serde::Serialize;

use super::FaultKind;
use super::table::{Process, Scope, Survival, Trial};
use super::text::{self, Diagnosis, Memory, Place};

/// Everything that is known of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The kind's word; `unknown` where nothing in the text looks like an error.
    pub fault: &'static str,
    /// What that kind is. Not part of the JSON.
    #[serde(skip)]
    pub what: &'static str,
    /// The CUDA enumerator or the library's status.
    pub name: Option<String>,
    /// `cudaError_t`.
    pub code: Option<u32>,
    /// Whether the context survives.
    pub context: Survival,
    /// What `tune` does with the process.
    pub process: Process,
    /// What becomes of the trial the first time.
    pub trial: Trial,
    /// What becomes of it the second time.
    pub second: Trial,
    /// Whom it concerns.
    pub scope: Scope,
    /// Where a device-side assertion failed.
    pub place: Option<Place>,
    /// The figures of a message about memory.
    pub memory: Option<Memory>,
    /// What it is in this case, in one line.
    pub detail: String,
    /// What people can do.
    pub advice: String,
    /// The line that decided.
    pub text: String,
    /// How many lines say the same; 0 where none decided.
    pub repeated: usize,
    /// Other faults in the text.
    pub also: Vec<Other>,
}

/// A fault that the text tells of beside the one that decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Other {
    /// The kind's word.
    pub fault: &'static str,
    /// Its first line.
    pub text: String,
    /// How many lines tell of it.
    pub count: usize,
}

/// Explains an error's text or a log.
pub fn explain(text: &str) -> Explanation {
    match text::diagnose(&without_heads(text)) {
        Some(diagnosis) => of(diagnosis),
        None => unknown(text),
    }
}

/// A log without the lines that a worker puts at the beginning of an attempt: they name the configuration, and nothing
/// that has happened.
fn without_heads(text: &str) -> String {
    let begins = |line: &str| {
        line.starts_with("=== ") && line.contains(" attempt ") && line.ends_with(" ===")
    };
    let setting = |line: &str| {
        let key = line.split_once(" = ").map(|(key, _)| key);
        key.is_some_and(|key| !key.is_empty() && !key.contains(char::is_whitespace))
    };
    let mut in_head = false;
    let kept = text.split_inclusive('\n').filter(|line| {
        let line = line.trim_end();
        in_head = begins(line) || in_head && setting(line);
        !in_head
    });
    kept.collect()
}

fn of(d: Diagnosis) -> Explanation {
    let row = d.kind.row();
    Explanation {
        fault: d.kind.word(),
        what: row.what,
        detail: d.detail,
        name: d.name,
        code: d.code,
        scope: d.scope,
        context: d.context,
        process: row.process,
        trial: row.first,
        second: row.second,
        place: d.place,
        memory: d.memory,
        text: d.text,
        repeated: d.repeated,
        advice: d.advice,
        also: d.also,
    }
}

/// Nothing looks like an error. A worker that reported this as one would have its trial FAIL.
fn unknown(text: &str) -> Explanation {
    let own = FaultKind::TaskError.row();
    let xid = text::harmless_xid(text);
    let harmless = xid.is_some();
    Explanation {
        fault: "unknown",
        what: "nothing in the text is known as a fault",
        detail: xid.unwrap_or_else(|| "nothing in the text looks like an error".to_owned()),
        name: None,
        code: None,
        scope: own.scope,
        context: if harmless {
            Survival::Alive
        } else {
            Survival::Unknown
        },
        process: own.process,
        trial: if harmless { Trial::Again } else { own.first },
        second: if harmless { Trial::Again } else { own.second },
        place: None,
        memory: None,
        text: String::new(),
        repeated: 0,
        advice: if harmless {
            "Nothing: this number calls for no action.".to_owned()
        } else {
            "Give more of the log, from before the first error on. An error of the task's own, in words that nothing here knows, ends its trial as FAIL.".to_owned()
        },
        also: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_worker_prints_at_the_beginning_is_no_error() {
        let head = "=== trial 0 attempt 0 · seed 1 · worker pid 7 · device cpu · 2026-11-21T03:00:00Z ===\n\
                    crash = 0.1\ntask.value = error ([0-9.]+)\n";
        assert_eq!(explain(&format!("{head}step 1\n")).fault, "unknown");
        let broken = format!("{head}Segmentation fault (core dumped)\n");
        assert_ne!(explain(&broken).fault, "unknown");
        // Only what directly follows is the head.
        assert_eq!(
            without_heads(&format!("{head}x\ncrash = 1\n")),
            "x\ncrash = 1\n"
        );
    }
}
