//! Tokens beside the vocabulary: the special ones and those that were added later, from
//! `tokenizer_config.json`, `special_tokens_map.json` and `added_tokens.json`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value as Json;
use tokenizers::{AddedToken, Tokenizer};

use super::{Kind, failed};
use files::bounded;

/// The special tokens' keys, in the order in which transformers adds them.
const SPECIAL: [&str; 7] = [
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
];

/// A special token: as a bare word it only matters where the tokeniser does not know it yet, with
/// properties it always does.
#[derive(Debug, Clone)]
enum Special {
    Word(String),
    Token(AddedToken),
}

impl Special {
    fn content(&self) -> &str {
        match self {
            Special::Word(word) => word,
            Special::Token(token) => &token.content,
        }
    }
}

/// What the files say beside the vocabulary.
pub struct Added {
    /// `tokenizer_config.json`.
    config: Json,
    /// Tokens that were added, by id.
    tokens: BTreeMap<u64, AddedToken>,
    special: BTreeMap<&'static str, Special>,
    /// Further special tokens.
    further: Vec<Special>,
}

impl Added {
    /// Reads the files that are there.
    ///
    /// # Errors
    /// One is there and cannot be read or is no JSON.
    pub fn read(dir: &Path, kind: Kind) -> Result<Added> {
        let read = |name: &str| -> Result<Json> {
            let file = dir.join(name);
            let shown = || file.display().to_string();
            match bounded::read(&file, bounded::DESCRIPTION) {
                Ok(bytes) => serde_json::from_slice(&bytes).with_context(shown),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(Json::Null),
                Err(error) => Err(error).with_context(shown),
            }
        };
        let config = read("tokenizer_config.json")?;
        // With this table the older files say nothing more.
        let table = config["added_tokens_decoder"].as_object();
        let map = match table {
            Some(_) => Json::Null,
            None => read("special_tokens_map.json")?,
        };
        let said = |key: &str| -> Json {
            let all = [&config[key], &map[key]];
            let found = all.into_iter().find(|value| !value.is_null());
            found.cloned().unwrap_or(Json::Null)
        };
        let mut tokens = BTreeMap::new();
        for (id, token) in table.into_iter().flatten() {
            tokens.insert(
                id.parse().context("an id in added_tokens_decoder")?,
                described(token),
            );
        }
        let mut special = BTreeMap::new();
        for key in SPECIAL {
            special.extend(special_token(kind, key, &said(key)).map(|token| (key, token)));
        }
        let further = match said("additional_special_tokens").as_array() {
            Some(all) => all.iter().filter_map(token).collect(),
            None if kind == Kind::Camembert => ["<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED"]
                .map(|word| Special::Word(word.to_owned()))
                .to_vec(),
            None => Vec::new(),
        };
        // An added token is special where a file says so; what only the class presets does not count.
        let mut words: HashSet<String> = SPECIAL
            .iter()
            .filter_map(|key| Some(token(&said(key))?.content().to_owned()))
            .collect();
        words.extend(further.iter().map(|token| token.content().to_owned()));
        if table.is_none() {
            let added = read("added_tokens.json")?;
            for (word, id) in added.as_object().into_iter().flatten() {
                let token = AddedToken::from(word.clone(), words.contains(word));
                tokens.insert(id.as_u64().context("an id in added_tokens.json")?, token);
            }
        }
        let mut added = Added {
            config,
            tokens,
            special,
            further,
        };
        added.refer();
        Ok(added)
    }

    /// A special token that the table of added tokens has, too, has the properties said there.
    fn refer(&mut self) {
        // The first of a name counts.
        let tokens = self.tokens.values().rev();
        let by_name: HashMap<&str, &AddedToken> = tokens.map(|t| (t.content.as_str(), t)).collect();
        for special in self.special.values_mut().chain(&mut self.further) {
            let token = by_name.get(special.content()).copied();
            if let (Special::Word(_), Some(token)) = (&special, token) {
                *special = Special::Token(token.clone());
            }
        }
    }

    /// A special token's text.
    pub fn word(&self, key: &str) -> &str {
        self.special.get(key).map_or("", Special::content)
    }

    /// A switch of `tokenizer_config.json`; nothing where it is not said.
    pub fn switch(&self, key: &str) -> Option<bool> {
        self.config[key].as_bool()
    }

    /// Adds them all.
    ///
    /// # Errors
    /// The library refuses one.
    pub fn add_to(&self, tokenizer: &mut Tokenizer) -> Result<()> {
        let mut all: Vec<AddedToken> = self.tokens.values().cloned().collect();
        let mut known: HashSet<String> = tokenizer
            .get_added_vocabulary()
            .get_vocab()
            .keys()
            .cloned()
            .collect();
        known.extend(all.iter().map(|token| token.content.clone()));
        let in_order = SPECIAL.iter().filter_map(|key| self.special.get(key));
        for special in in_order.chain(&self.further) {
            match special {
                Special::Token(token) => all.push(token.clone().special(true)),
                Special::Word(word) if known.contains(word) => continue,
                Special::Word(word) => all.push(AddedToken::from(word.clone(), true)),
            }
            known.insert(special.content().to_owned());
        }
        tokenizer.add_tokens(all).map_err(failed)?;
        Ok(())
    }
}

/// What is said of a special token, else what its class says.
fn special_token(kind: Kind, key: &str, said: &Json) -> Option<Special> {
    let angled = match key {
        "bos_token" | "cls_token" => "<s>",
        "eos_token" | "sep_token" => "</s>",
        "unk_token" => "<unk>",
        "pad_token" => "<pad>",
        _ => "<mask>",
    };
    let square = match key {
        "bos_token" | "cls_token" => "[CLS]",
        "eos_token" | "sep_token" => "[SEP]",
        "unk_token" => "[UNK]",
        "pad_token" => "[PAD]",
        _ => "[MASK]",
    };
    let preset = match kind {
        Kind::WordPiece if matches!(key, "bos_token" | "eos_token") => None,
        Kind::WordPiece | Kind::DebertaV2 => Some(square),
        Kind::ByteLevel | Kind::XlmRoberta | Kind::Camembert => Some(angled),
    };
    let found = token(said).or_else(|| Some(Special::Word(preset?.to_owned())))?;
    let Special::Word(word) = &found else {
        return Some(found);
    };
    // The classes give some bare words properties.
    let angled = matches!(kind, Kind::ByteLevel | Kind::XlmRoberta | Kind::Camembert);
    Some(match key {
        "mask_token" if angled => Special::Token(AddedToken::from(word.clone(), true).lstrip(true)),
        "unk_token" if kind == Kind::DebertaV2 => {
            Special::Token(AddedToken::from(word.clone(), true).normalized(true))
        }
        _ => found,
    })
}

/// A token as JSON has it: a word, or its properties.
fn token(json: &Json) -> Option<Special> {
    match json {
        Json::String(word) => Some(Special::Word(word.clone())),
        Json::Object(_) => Some(Special::Token(described(json).special(true))),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) => None,
    }
}

fn described(json: &Json) -> AddedToken {
    let is = |key: &str| json[key].as_bool();
    let special = is("special").unwrap_or(false);
    AddedToken {
        content: json["content"].as_str().unwrap_or_default().to_owned(),
        single_word: is("single_word").unwrap_or(false),
        lstrip: is("lstrip").unwrap_or(false),
        rstrip: is("rstrip").unwrap_or(false),
        normalized: is("normalized").unwrap_or(!special),
        special,
    }
}
