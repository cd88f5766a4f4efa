//! `tune bisect` down to the row, with libtorch: a word whose embedding overflows makes the loss no number.

use std::fs;

use crate::common::{tiny, valid};
use serde_json::{Value as Json, json};

/// A word that one row alone has.
const WORD: &str = "four";

/// Rows without the word, and one, in the training part, with it.
fn rows(poisoned: usize) -> String {
    let text = tiny::csv(120).replace(WORD, "three");
    let mut seen = std::collections::BTreeSet::new();
    let mut rows = String::from("text,status,set\n");
    for (at, line) in text.lines().skip(1).enumerate() {
        let mut cells = line.split(',');
        let (text, class) = (cells.next().unwrap(), cells.next().unwrap());
        let word = if at == poisoned { WORD } else { "" };
        let text = format!("{text} {word}").trim().to_owned();
        let part = if at < 90 { "train" } else { "validation" };
        if at == poisoned || seen.insert(text.clone()) {
            rows.push_str(&format!("{text},{class},{part}\n"));
        }
    }
    rows
}

/// Makes the embedding of the word so large that sums of it overflow.
fn poison(model: &std::path::Path) {
    let file = model.join("model.safetensors");
    let bytes = fs::read(&file).unwrap();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let tensors: Json = serde_json::from_slice(&bytes[8..8 + header]).unwrap();
    let words = &tensors["embeddings.word_embeddings.weight"];
    let start = 8 + header + words["data_offsets"][0].as_u64().unwrap() as usize;
    let width = words["shape"][1].as_u64().unwrap() as usize;
    let last = words["shape"][0].as_u64().unwrap() as usize - 1;
    let mut bytes = bytes;
    for at in 0..width {
        let at = start + (last * width + at) * 4;
        bytes[at..at + 4].copy_from_slice(&3e38f32.to_le_bytes());
    }
    fs::write(&file, bytes).unwrap();
}

#[test]
fn a_row_that_makes_the_loss_no_number_is_named_with_its_line() {
    let project = tiny::project(120);
    poison(&project.path().join("model"));
    let text = rows(57);
    let line = 1 + text.lines().position(|line| line.contains(WORD)).unwrap();
    fs::write(project.path().join("configs/rows.csv"), text).unwrap();
    let config = tiny::CONFIG
        .replace(
            "group = \"post\"\n",
            "split = { column = \"set\" }\nduplicates = \"allow\"\n",
        )
        .replace("max_length = 16", "max_length = 32");
    project.config("tiny", &config);
    project.expect(0, &["tiny", "--device", "cpu", "--trials", "1"]);
    assert_eq!(project.trials("tiny")[0]["attrs"]["fault"], "diverged");
    let (stdout, _) = project.expect(0, &["bisect", "tiny", "0", "--json"]);
    let found: Json = serde_json::from_str(&stdout).unwrap();
    valid("bisect", &found);
    let rows = &found["rows"];
    assert_eq!(
        rows["rows"],
        json!([{"row": line - 1, "line": line}]),
        "{found:#}"
    );
    assert_eq!(found["cause"], json!([]));
    let sentence = format!("row {} (line {line} of rows.csv)", line - 1);
    assert_eq!(found["sentence"], sentence);
}
