//! What a tokeniser's description may ask for. The library that carries it out believes it: it recurses
//! along its longest piece, tries every prefix of a word, and replaces a character by whatever it is told.

use std::fmt;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value as Json;

/// Longest file of a tokeniser that is read, in bytes. That of XLM-RoBERTa has 17 MB.
pub const MAX_FILE: u64 = 64 << 20;

/// Longest piece of a vocabulary, in bytes.
const MAX_PIECE: usize = 512;

/// Bytes of all pieces of a unigram model; each may take 250 bytes in the library's tree.
const MAX_PIECES: usize = 4 << 20;

/// Most added tokens.
const MAX_ADDED: usize = 500_000;

/// Longest string in a step: a regular expression, what is put in the place of a match.
const MAX_STRING: usize = 4096;

/// Longest table of characters in a step, in bytes.
const MAX_TABLE: usize = 4 << 20;

/// Most strings, numbers and steps of normaliser, pre-tokeniser and post-processor together.
const MAX_VALUES: usize = 10_000;

/// How many times longer a text may become.
const MAX_GROWTH: usize = 64;

/// Longest mark of a piece inside a word or at its end, in bytes.
const MAX_MARK: usize = 64;

/// Longest word that WordPiece tries every end of, in characters; 100 is usual.
const MAX_WORD: u64 = 1000;

/// What matters of `tokenizer.json`.
#[derive(Debug, Deserialize)]
struct Sketch {
    #[serde(default)]
    added_tokens: Vec<IgnoredAny>,
    #[serde(default)]
    normalizer: Json,
    #[serde(default)]
    pre_tokenizer: Json,
    #[serde(default)]
    post_processor: Json,
    model: Model,
}

#[derive(Debug, Deserialize)]
struct Model {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    vocab: Pieces,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    max_input_chars_per_word: Option<u64>,
}

/// A vocabulary's size.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Pieces {
    /// Bytes of the longest piece.
    longest: usize,
    /// Bytes of all.
    total: usize,
}

impl Pieces {
    /// Of these pieces.
    pub fn of<'a>(pieces: impl IntoIterator<Item = &'a str>) -> Pieces {
        let mut all = Pieces::default();
        pieces.into_iter().for_each(|piece| all.add(piece));
        all
    }

    fn add(&mut self, piece: &str) {
        self.longest = self.longest.max(piece.len());
        self.total = self.total.saturating_add(piece.len());
    }

    /// What is too long for a unigram model, if anything.
    pub fn trouble(self) -> Option<String> {
        if self.longest > MAX_PIECE {
            return Some(at_most("a piece", self.longest, MAX_PIECE, "bytes"));
        }
        (self.total > MAX_PIECES)
            .then(|| at_most("a vocabulary", self.total, MAX_PIECES, "bytes of pieces"))
    }
}

/// What is beyond the bounds in `tokenizer.json`, if anything.
///
/// # Errors
/// It is no JSON of such a file.
pub fn trouble(text: &[u8]) -> serde_json::Result<Option<String>> {
    let sketch: Sketch = serde_json::from_slice(text)?;
    let added = sketch.added_tokens.len();
    if added > MAX_ADDED {
        return Ok(Some(at_most("added_tokens", added, MAX_ADDED, "tokens")));
    }
    let model = &sketch.model;
    let pieces = match model.kind.as_deref() {
        Some("Unigram") => model.vocab.trouble(),
        _ => None,
    };
    let marks = [&model.continuing_subword_prefix, &model.end_of_word_suffix];
    let mark = marks.into_iter().flatten().map(String::len).max();
    let mark = mark.filter(|length| *length > MAX_MARK);
    let word = model.max_input_chars_per_word.filter(|n| *n > MAX_WORD);
    let steps = [
        &sketch.normalizer,
        &sketch.pre_tokenizer,
        &sketch.post_processor,
    ];
    let mut seen = Steps::default();
    Ok(pieces
        .or_else(|| Some(at_most("a mark of pieces", mark?, MAX_MARK, "bytes")))
        .or_else(|| {
            Some(format!(
                "max_input_chars_per_word {}, expected at most {MAX_WORD}",
                word?
            ))
        })
        .or_else(|| steps.into_iter().find_map(|step| seen.trouble("", step))))
}

fn at_most(what: &str, found: usize, most: usize, unit: &str) -> String {
    format!("{what} of {found} {unit}, expected at most {most}")
}

/// What was seen of the steps so far.
struct Steps {
    values: usize,
    growth: usize,
}

impl Default for Steps {
    fn default() -> Steps {
        Steps {
            values: 0,
            growth: 1,
        }
    }
}

impl Steps {
    /// The first value beyond the bounds.
    fn trouble(&mut self, key: &str, value: &Json) -> Option<String> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return Some(format!("steps of more than {MAX_VALUES} values"));
        }
        match value {
            Json::Null | Json::Bool(_) | Json::Number(_) => None,
            Json::String(text) => {
                let most = match key {
                    "precompiled_charsmap" => MAX_TABLE,
                    _ => MAX_STRING,
                };
                (text.len() > most).then(|| at_most(key, text.len(), most, "bytes"))
            }
            Json::Array(all) => all.iter().find_map(|value| self.trouble(key, value)),
            Json::Object(all) => {
                if all.get("type").and_then(Json::as_str) == Some("Replace") {
                    self.growth = self.growth.saturating_mul(growth(value));
                    if self.growth > MAX_GROWTH {
                        let found = "steps of Replace that make a text more than";
                        return Some(format!("{found} {MAX_GROWTH} times as long"));
                    }
                }
                if let Some(trouble) = all.get("single").and_then(|_| template(value)) {
                    return Some(trouble);
                }
                all.iter().find_map(|(key, value)| self.trouble(key, value))
            }
        }
    }
}

/// What a template names that is not there: the library looks for it when the first text comes, and panics.
fn template(step: &Json) -> Option<String> {
    let pieces = |name: &'static str| {
        let pieces = step[name].as_array().into_iter().flatten();
        pieces.map(move |piece| (name, piece))
    };
    pieces("single")
        .chain(pieces("pair"))
        .find_map(|(name, piece)| {
            let token = piece["SpecialToken"]["id"].as_str();
            let lacks = token.filter(|token| step["special_tokens"].get(token).is_none());
            if let Some(token) = lacks {
                return Some(format!(
                    "the template {name:?} with {token:?}, which special_tokens lacks"
                ));
            }
            let second = name == "single" && piece["Sequence"]["id"] == "B";
            second
                .then(|| "the template \"single\" with the sequence B, expected A alone".to_owned())
        })
}

/// How many times longer a step of Replace may make a text.
fn growth(step: &Json) -> usize {
    let length = |value: &Json| value.as_str().map_or(0, str::len);
    let content = length(&step["content"]);
    match length(&step["pattern"]["String"]) {
        // A regular expression may match one character, or none beside each.
        0 => 1 + content,
        pattern => content.div_ceil(pattern).max(1),
    }
}

impl<'de> Deserialize<'de> for Pieces {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Pieces, D::Error> {
        from.deserialize_any(Vocabulary)
    }
}

/// An object of ids, or a list of pieces with their scores.
struct Vocabulary;

impl<'de> Visitor<'de> for Vocabulary {
    type Value = Pieces;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a vocabulary: an object or a list")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pieces, A::Error> {
        let mut all = Pieces::default();
        while let Some((piece, IgnoredAny)) = map.next_entry::<String, IgnoredAny>()? {
            all.add(&piece);
        }
        Ok(all)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Pieces, A::Error> {
        let mut all = Pieces::default();
        while let Some((piece, IgnoredAny)) = list.next_element::<(String, IgnoredAny)>()? {
            all.add(&piece);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(key: &str, value: Json) -> Option<String> {
        let mut all = json!({"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}});
        let at = all.pointer_mut(key);
        match at {
            Some(at) => *at = value,
            None => all[&key[1..]] = value,
        }
        trouble(all.to_string().as_bytes()).unwrap()
    }

    fn replace(pattern: Json, content: &str) -> Json {
        json!({"type": "Replace", "pattern": pattern, "content": content})
    }

    #[test]
    fn steps_that_make_a_text_ever_longer_are_refused() {
        let double = replace(json!({"String": "a"}), "aa");
        let sequence = |count| json!({"type": "Sequence", "normalizers": vec![&double; count]});
        assert_eq!(of("/normalizer", sequence(6)), None);
        let found = of("/normalizer", sequence(7)).unwrap();
        assert!(found.contains("64 times as long"), "{found}");
        for usual in [
            replace(json!({"Regex": " {2,}"}), "\u{2581}"),
            replace(json!({"String": "``"}), "\""),
        ] {
            assert_eq!(of("/normalizer", usual), None);
        }
        assert!(
            of(
                "/normalizer",
                replace(json!({"Regex": "x*"}), &"y".repeat(64))
            )
            .is_some()
        );
    }

    #[test]
    fn pieces_and_words_that_cost_their_square_are_refused() {
        let unigram = |piece: &str| json!({"type": "Unigram", "vocab": [["a", 0.5], [piece, -1]]});
        assert_eq!(of("/model", unigram(&"a".repeat(MAX_PIECE))), None);
        let found = of("/model", unigram(&"a".repeat(MAX_PIECE + 1))).unwrap();
        assert!(found.contains("a piece of 513 bytes"), "{found}");
        let wordpiece = |most: u64, prefix: &str| {
            json!({"type": "WordPiece", "vocab": {"a": 0}, "max_input_chars_per_word": most,
                "continuing_subword_prefix": prefix})
        };
        assert_eq!(of("/model", wordpiece(1000, "##")), None);
        assert!(of("/model", wordpiece(1001, "##")).is_some());
        assert!(of("/model", wordpiece(100, &"#".repeat(65))).is_some());
        let pieces = Pieces {
            longest: 8,
            total: MAX_PIECES + 1,
        };
        assert!(pieces.trouble().is_some());
        let few = Pieces {
            longest: 3,
            total: 4,
        };
        assert_eq!(Pieces::of(["a", "bcd"]), few);
    }

    #[test]
    fn huge_steps_and_lists_of_added_tokens_are_refused() {
        let split = |pattern: String| json!({"type": "Split", "pattern": {"Regex": pattern}});
        assert_eq!(
            of("/pre_tokenizer", split(r"\s+(?!\S)|\w+".to_owned())),
            None
        );
        assert!(of("/pre_tokenizer", split("a".repeat(MAX_STRING + 1))).is_some());
        let template = json!({"type": "TemplateProcessing", "single": vec![1; MAX_VALUES]});
        assert!(of("/post_processor", template).is_some());
        assert!(of("/added_tokens", json!(vec![0; MAX_ADDED + 1])).is_some());
        let table = json!({"type": "Precompiled", "precompiled_charsmap": "A".repeat(400_000)});
        assert_eq!(of("/normalizer", table), None);
    }

    #[test]
    fn a_template_names_what_is_there() {
        let template = |single: Json, pair: Json| {
            let cls = json!({"id": "[CLS]", "ids": [1], "tokens": ["[CLS]"]});
            let template = json!({
                "type": "TemplateProcessing", "single": single, "pair": pair,
                "special_tokens": {"[CLS]": cls},
            });
            of(
                "/post_processor",
                json!({"type": "Sequence", "processors": [template]}),
            )
        };
        let token = |id: &str| json!({"SpecialToken": {"id": id, "type_id": 0}});
        let text = |id: &str| json!({"Sequence": {"id": id, "type_id": 0}});
        let both = json!([token("[CLS]"), text("A"), text("B")]);
        let one = json!([token("[CLS]"), text("A")]);
        assert_eq!(template(one.clone(), both.clone()), None);
        for (single, pair) in [
            (json!([token("[SEP]"), text("A")]), both.clone()),
            (one, json!([text("A"), token(""), text("B")])),
            (both.clone(), both),
        ] {
            assert!(template(single, pair).is_some());
        }
    }

    #[test]
    fn what_is_no_description_is_an_error() {
        for text in [
            "",
            "[]",
            "{}",
            "{\"model\": 3}",
            "{\"model\": {\"vocab\": [1]}}",
        ] {
            assert!(trouble(text.as_bytes()).is_err(), "{text}");
        }
    }
}
