//! `tune explain` on texts of many programs and versions, and the command around it.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use fault::explain;
use serde_json::{Value as Json, json};

const CORPUS: &str = include_str!("../data/explain-corpus.txt");

/// A text, and what must be said of it: the words of its heading.
fn corpus() -> Vec<(Vec<&'static str>, String)> {
    CORPUS
        .split("\n### ")
        .skip(1)
        .map(|block| {
            let (heading, text) = block.split_once('\n').unwrap();
            let text = text.replace("<ESC>", "\x1b").replace("<CR>", "\r");
            (heading.split_whitespace().collect(), text)
        })
        .collect()
}

fn heading(e: &Json) -> Vec<String> {
    let word = |key: &str| match &e[key] {
        Json::String(s) => s.clone(),
        Json::Null => "-".into(),
        other => other.to_string(),
    };
    let mut words: Vec<String> = ["fault", "name", "code", "context", "process", "trial"]
        .iter()
        .map(|k| word(k))
        .collect();
    words.push(match &e["place"] {
        Json::Null => "-".into(),
        place => format!("{}:{}", place["file"].as_str().unwrap(), place["line"]),
    });
    words
}

/// Every text of the corpus, changed by `change`, is explained as its heading says.
fn hold(change: impl Fn(&str) -> String) {
    let mut wrong = Vec::new();
    for (expected, text) in corpus() {
        let found = heading(&json!(&explain(&change(&text))));
        if found != expected {
            wrong.push(format!(
                "{text}\nexpected {expected:?}\nfound    {found:?}\n"
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn the_corpus_is_broad() {
    assert!(corpus().len() >= 120, "{}", corpus().len());
}

#[test]
fn every_text_is_explained_as_it_should_be() {
    hold(str::to_owned);
}

#[test]
fn ends_of_lines_colours_and_garbage_around_change_nothing() {
    hold(|t| t.replace('\n', "\r\n"));
    hold(|t| format!("\x1b[33m{}\x1b[0m\n", t.replace('\n', "\x1b[0m\n\x1b[33m")));
    hold(|t| format!("\u{fffd}\u{0}\u{1}\n\n{t}\n\u{fffd}\u{7f}"));
}

#[test]
fn what_stands_around_an_error_changes_nothing() {
    // A last traceback must stand near the end to count as the last.
    let before = "loading data\nepoch 1 loss 0.7 device cuda:0\n".repeat(50);
    hold(|t| format!("{before}{t}"));
}

fn tune(args: &[&str], input: &[u8]) -> Output {
    let empty = tempfile::tempdir().unwrap();
    let mut child = Command::new(crate::common::program())
        .args(args)
        .current_dir(empty.path())
        .env_remove("TUNE_HOME")
        .env("HOME", empty.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that reads a file closes its input unread.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    assert!(
        std::fs::read_dir(empty.path()).unwrap().next().is_none(),
        "nothing is written"
    );
    output
}

const ASSERT: &str = "/p/Loss.cu:245: nll_loss: block: [1,0,0], thread: [3,0,0] Assertion `t >= 0 && t < n_classes` failed.\nRuntimeError: CUDA error: device-side assert triggered\n";

#[test]
fn the_command_gives_one_object_without_a_project() {
    let output = tune(&["explain", "--json"], ASSERT.as_bytes());
    assert_eq!(output.status.code(), Some(0));
    let e: Json = serde_json::from_slice(&output.stdout).unwrap();
    crate::common::valid("explain", &e);
    assert_eq!(
        e["place"],
        json!({
            "file": "/p/Loss.cu", "line": 245, "function": "nll_loss",
            "condition": "t >= 0 && t < n_classes", "block": [1, 0, 0], "thread": [3, 0, 0],
        })
    );
    assert_eq!(heading(&e)[..3], ["cuda_sticky", "cudaErrorAssert", "710"]);
    assert_eq!(
        (&e["second"], &e["scope"]),
        (&json!("pruned"), &json!("worker"))
    );
    assert!(e["advice"].as_str().unwrap().contains("number of classes"));
}

#[test]
fn a_file_or_a_dash_is_read_and_the_answer_is_for_people() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(ASSERT.as_bytes()).unwrap();
    let path = file.path().to_str().unwrap();
    let of_file = tune(&["explain", path], b"");
    let of_dash = tune(&["explain", "-"], ASSERT.as_bytes());
    assert_eq!(of_file.stdout, of_dash.stdout);
    let text = String::from_utf8(of_file.stdout).unwrap();
    for part in [
        "cuda_sticky",
        "cudaErrorAssert, 710",
        "/p/Loss.cu:245",
        "lost",
        "suspect",
        "label",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
}

#[test]
fn nothing_to_read_is_bad_input() {
    for (args, input) in [
        (["explain", "-"], &b" \r\n\0"[..]),
        (["explain", "no-such-file"], b""),
        (["explain", "/"], b""),
    ] {
        let output = tune(&args, input);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty());
        assert!(String::from_utf8_lossy(&output.stderr).starts_with("error: "));
    }
}

#[test]
fn bytes_that_are_no_text_do_no_harm() {
    let mut bytes: Vec<u8> = (0..1u32 << 16)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let output = tune(&["explain", "--json"], &bytes);
    assert_eq!(output.status.code(), Some(0));
    bytes.extend_from_slice(b"\n\xff\xfe RuntimeError: CUDA error: misaligned address \xc3\n\x00");
    let output = tune(&["explain", "--json"], &bytes);
    let e: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(e["code"], 716);
}

#[test]
fn the_figures_of_a_full_gpu_are_kept() {
    let text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 24.00 GiB of which 1.00 GiB is free. Of the allocated memory 12.00 GiB is allocated by PyTorch, and 4.00 GiB is reserved by PyTorch but unallocated.";
    let e = json!(&explain(text));
    let gib = |n: u64| n << 30;
    assert_eq!(
        e["memory"],
        json!({
            "tried": gib(2), "total": gib(24), "free": gib(1), "allocated": gib(12),
            "reserved_unallocated": gib(4),
        })
    );
    let advice = e["advice"].as_str().unwrap();
    assert!(
        advice.contains("expandable_segments:True") && advice.contains("7.00 GiB belong to other")
    );
}

#[test]
fn other_faults_of_a_log_are_told_too() {
    let text =
        "CUDA out of memory. Tried to allocate 1.00 GiB\nCUDA error: misaligned address\nKilled\n";
    let e = json!(&explain(text));
    assert_eq!(e["fault"], "cuda_sticky");
    let also: Vec<&str> = e["also"]
        .as_array()
        .unwrap()
        .iter()
        .map(|o| o["fault"].as_str().unwrap())
        .collect();
    assert_eq!(also, ["oom", "killed"]);
}
