//! What each reader reads without complaint: the changes begin here.

use std::io::Write;

use serde_json::{Value as Json, json};
use zip::write::SimpleFileOptions;

/// Bytes of values behind a header of safetensors.
pub const VALUES: usize = 4096;

/// The sizes of a small BERT.
pub fn bert() -> Json {
    json!({
        "model_type": "bert", "vocab_size": 8, "hidden_size": 4, "num_hidden_layers": 1,
        "num_attention_heads": 2, "intermediate_size": 8, "hidden_act": "gelu",
        "max_position_embeddings": 8, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "pad_token_id": 0,
    })
}

pub fn model_configs() -> Vec<Vec<u8>> {
    let mut roberta = bert();
    roberta["model_type"] = "roberta".into();
    roberta["pad_token_id"] = 1.into();
    let mut deberta = bert();
    let keys = json!({
        "model_type": "deberta-v2", "relative_attention": true, "pos_att_type": "c2p|p2c",
        "position_buckets": 4, "max_relative_positions": -1, "norm_rel_ebd": "layer_norm",
        "share_att_key": true, "position_biased_input": false, "conv_kernel_size": 3,
        "conv_act": "gelu", "embedding_size": 4,
    });
    for (key, value) in keys.as_object().into_iter().flatten() {
        deberta[key] = value.clone();
    }
    let mut electra = bert();
    electra["model_type"] = "electra".into();
    electra["embedding_size"] = 2.into();
    texts([bert(), roberta, deberta, electra])
}

fn texts<const N: usize>(all: [Json; N]) -> Vec<Vec<u8>> {
    all.map(|json| json.to_string().into_bytes()).into()
}

/// What stands before the pickle of tensors in a file of the old format: the magic number, the version,
/// and the machine.
pub const LEGACY: &[u8] = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.M\xe9\x03.}X\r\0\0\0little_endian\x88s.";

/// A dictionary of two tensors that share the storage `0` of 8 values.
fn tensors(parameters: bool) -> Vec<u8> {
    let text = |words: &str| {
        let mut all = vec![b'X'];
        all.extend((words.len() as u32).to_le_bytes());
        all.extend(words.as_bytes());
        all
    };
    let mut all = b"\x80\x02ccollections\nOrderedDict\n)Rq\x00(".to_vec();
    let names = ["embeddings.LayerNorm.weight", "embeddings.LayerNorm.bias"];
    for (name, offset) in names.into_iter().zip(0u8..) {
        all.extend(text(name));
        if parameters {
            all.extend(b"ctorch._utils\n_rebuild_parameter\n(");
        }
        all.extend(b"ctorch._utils\n_rebuild_tensor_v2\n((");
        all.extend(text("storage"));
        all.extend(b"ctorch\nFloatStorage\n");
        all.extend([text("0"), text("cpu")].concat());
        all.extend(b"K\x08tQK");
        all.push(4 * offset);
        all.extend(b"K\x04\x85K\x01\x85\x89ccollections\nOrderedDict\n)RtR");
        if parameters {
            all.extend(b"\x88ccollections\nOrderedDict\n)RtR");
        }
    }
    all.extend(b"u.");
    all
}

/// The tensors, the order of the storages, and the storage itself.
pub fn pickles() -> Vec<Vec<u8>> {
    let behind = [
        b"]X\x01\0\0\x000a.".as_slice(),
        &8u64.to_le_bytes(),
        &[1; 32],
    ]
    .concat();
    [false, true]
        .map(|parameters| [tensors(parameters), behind.clone()].concat())
        .into()
}

pub fn archives() -> Vec<Vec<u8>> {
    let stored = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    let made = |parameters| {
        let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        for (name, bytes) in [
            ("archive/data.pkl", tensors(parameters)),
            ("archive/byteorder", b"little".to_vec()),
            ("archive/data/0", vec![1; 32]),
            ("archive/version", b"3\n".to_vec()),
        ] {
            archive.start_file(name, stored).unwrap();
            archive.write_all(&bytes).unwrap();
        }
        archive.finish().unwrap().into_inner()
    };
    vec![made(false), made(true)]
}

/// Headers for [`VALUES`] bytes.
pub fn headers() -> Vec<Vec<u8>> {
    let tensor = |dtype: &str, shape: Json, from: usize, to: usize| json!({"dtype": dtype, "shape": shape, "data_offsets": [from, to]});
    let norm = "embeddings.LayerNorm.weight";
    texts([
        json!({
            "__metadata__": {"format": "pt"},
            norm: tensor("F32", json!([4]), 0, 16),
            "embeddings.LayerNorm.bias": tensor("F16", json!([2, 2]), 16, 24),
            "rest": tensor("U8", json!([VALUES - 24]), 24, VALUES),
        }),
        json!({
            "all": tensor("BF16", json!([2, VALUES / 8, 2]), 0, VALUES),
            "none": tensor("F64", json!([0, 3]), VALUES, VALUES),
        }),
    ])
}

pub fn tokenizers() -> Vec<Vec<u8>> {
    let special = |word: &str, id: u32| {
        json!({"id": id, "content": word, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true})
    };
    let around = json!({
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [1], "tokens": ["[CLS]"]}},
    });
    let whole = |normalizer: Json, pre: Json, post: Json, model: Json| {
        json!({
            "version": "1.0", "truncation": null, "padding": null, "decoder": null,
            "added_tokens": [special("[UNK]", 0), special("[CLS]", 1)],
            "normalizer": normalizer, "pre_tokenizer": pre, "post_processor": post, "model": model,
        })
    };
    let bert = json!({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
        "strip_accents": null, "lowercase": true});
    let replace = json!({"type": "Sequence", "normalizers": [{"type": "NFKC"},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
        {"type": "Prepend", "prepend": "\u{2581}"}]});
    let split = json!({"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": "\\s+(?!\\S)|\\w+"}, "behavior": "Isolated", "invert": false},
        {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}]});
    let spaces = json!({"type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": "always", "split": true});
    texts([
        whole(
            bert,
            json!({"type": "BertPreTokenizer"}),
            around,
            json!({"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                "max_input_chars_per_word": 100,
                "vocab": {"[UNK]": 0, "[CLS]": 1, "the": 2, "phone": 3, "go": 4, "##od": 5}}),
        ),
        whole(
            replace,
            spaces,
            Json::Null,
            json!({"type": "Unigram", "unk_id": 0, "byte_fallback": false,
                "vocab": [["[UNK]", 0.0], ["[CLS]", 0.0], ["\u{2581}the", -1.5], ["a", -2.0], ["aa", -2.5]]}),
        ),
        whole(
            Json::Null,
            split,
            json!({"type": "RobertaProcessing", "sep": ["[UNK]", 0], "cls": ["[CLS]", 1],
                "trim_offsets": true, "add_prefix_space": false}),
            json!({"type": "BPE", "dropout": null, "unk_token": "[UNK]", "fuse_unk": false,
                "continuing_subword_prefix": null, "end_of_word_suffix": null, "byte_fallback": false,
                "ignore_merges": false,
                "vocab": {"[UNK]": 0, "[CLS]": 1, "t": 2, "h": 3, "e": 4, "th": 5, "the": 6},
                "merges": [["t", "h"], ["th", "e"]]}),
        ),
    ])
}

/// A field of a protocol buffer that holds bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
}

/// The first byte says of which kind; see `vocabulary`.
pub fn vocabularies() -> Vec<Vec<u8>> {
    let wordpiece =
        b"\0[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nphone\n##s\n\0{\"do_lower_case\": false}";
    let bpe = b"\x01{\"<s>\": 0, \"</s>\": 1, \"<unk>\": 2, \"<pad>\": 3, \"<mask>\": 4, \"t\": 5, \"h\": 6, \"th\": 7}\0#version: 0.2\nt h\n";
    let piece = |word: &str, kind: u8| {
        let score = (-1.5f32).to_le_bytes();
        let inner = [
            &field(1, word.as_bytes())[..],
            &[0x15],
            &score,
            &[0x18, kind],
        ]
        .concat();
        field(1, &inner)
    };
    let pieces = [
        piece("<unk>", 2),
        piece("<s>", 3),
        piece("</s>", 3),
        piece("\u{2581}the", 1),
        piece("a", 1),
        piece("aa", 1),
        piece("[CLS]", 3),
        piece("[SEP]", 3),
    ];
    let mut all = vec![wordpiece.to_vec(), bpe.to_vec()];
    for kind in 2..5 {
        // Unigram, and byte pairs.
        for trainer in [1, 2] {
            let trainer = field(2, &[0x18, trainer]);
            all.push([&[kind][..], &pieces.concat(), &trainer].concat());
        }
    }
    all
}

/// The first byte says whether CSV or JSON lines.
pub fn rows() -> Vec<Vec<u8>> {
    let csv = "\u{feff}text,label,group\na,0,1\r\n\"b, \"\"c\"\"\nd\",1,2\n\n\u{e4},0,3\n";
    let lines = "{\"text\": \"a\", \"label\": 1, \"group\": \"x\"}\n\n{\"text\": \"\\u00e4\", \"label\": true, \"group\": 2, \"more\": [1]}\r\n";
    vec![
        [b"\0", csv.as_bytes()].concat(),
        [b"\x01", lines.as_bytes()].concat(),
    ]
}

/// A log of a few transactions, as SQLite writes it.
pub fn logs() -> Vec<Vec<u8>> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let conn = rusqlite::Connection::open(&path).unwrap();
    conn.execute_batch("PRAGMA page_size = 512; PRAGMA journal_mode = WAL; CREATE TABLE t (x)")
        .unwrap();
    for i in 0..5 {
        conn.execute("INSERT INTO t VALUES (?1)", [i]).unwrap();
    }
    vec![std::fs::read(dir.path().join("a.db-wal")).unwrap()]
}

/// A study's spool of three results; and what Python writes, which is read by the same target.
pub fn spools() -> Vec<Vec<u8>> {
    use store::Write as Fact;
    use supervisor::spool::{Entry, Spool};
    let dir = tempfile::tempdir().unwrap();
    let mut spool = Spool::reserve(dir.path(), "s").unwrap();
    for number in 0..3 {
        let entry = Entry {
            study: "s".into(),
            run: 3,
            started: "2026-01-02 03:04:05.000006".into(),
            batch: Some(number),
            time: "2026-01-02T03:05:00.25Z".parse().unwrap(),
            writes: vec![Fact::Reported {
                number,
                step: 1,
                value: f64::INFINITY,
            }],
        };
        spool.append(&entry).unwrap();
    }
    let bytes = std::fs::read(spool.path()).unwrap();
    let end = bytes.iter().rposition(|b| *b != 0).map_or(0, |at| at + 1);
    vec![bytes[..end].to_vec()]
}

pub fn configs() -> Vec<Vec<u8>> {
    let constrained = r#"
[task]
kind = "synthetic"
[train]
epochs = 3
[space]
"optim.lr" = { low = 1e-5, high = 1.0, log = true, default = 1e-2 }
"optim.name" = { choices = ["adam", "sgd"] }
"optim.momentum" = { low = 0.0, high = 0.99, when = { "optim.name" = ["sgd"] } }
"model.layers" = { low = 1, high = 8, int = true, high_when = [{ if = { "optim.name" = ["sgd"] }, high = 4 }] }
[[constraints]]
expr = "model.layers * 2 + 1 <= 15"
when = { "optim.name" = ["adam"] }
[[points]]
"optim.lr" = 0.1
[sampler]
kind = "tpe"
n_startup_trials = 5
[pruner]
kind = "hyperband"
"#;
    let command = "[task]\nkind = \"command\"\nrun = [\"python\", \"train.py\", \"--lr\", \"{lr}\"]\n[objective]\nmetric = \"loss\"\ndirection = \"minimize\"\n[space]\nlr = { low = 1e-5, high = 1.0, log = true }\n";
    let shipped = include_str!("../../../../configs/synthetic.toml");
    [constrained, command, shipped]
        .map(|text| text.as_bytes().to_vec())
        .into()
}

pub fn sessions() -> Vec<Vec<u8>> {
    let space = r#"[{"name": "lr", "type": "float", "low": 1e-5, "high": 1, "log": true}, {"name": "kind", "type": "cat", "choices": ["a", 1, null]}, {"name": "n", "type": "int", "low": 1, "high": 9, "when": {"param": "kind", "in": ["a"]}}]"#;
    let session = |sampler: &str, pruner: &str| {
        format!(
            "{{\"op\": \"init\", \"protocol\": 1, \"seed\": 3, \"direction\": \"minimize\", \
             \"n_evals\": 20, \"max_step\": 4, \"space\": {space}, \"sampler\": \"{sampler}\", \
             \"pruner\": \"{pruner}\"}}\n\
             {{\"op\": \"ask\"}}\n\
             {{\"op\": \"report\", \"id\": 0, \"step\": 1, \"value\": 0.5}}\n\
             {{\"op\": \"tell\", \"id\": 0, \"state\": \"ok\", \"value\": NaN}}\n\
             {{\"op\": \"tell\", \"id\": 0, \"state\": \"pruned\", \"value\": null}}\n\
             {{\"op\": \"add\", \"params\": {{\"lr\": 0.1, \"kind\": \"a\", \"n\": 3}}}}\n\
             {{\"op\": \"ask\"}}\n{{\"op\": \"close\"}}\n"
        )
    };
    [("random", "none"), ("tpe", "median")]
        .map(|(sampler, pruner)| session(sampler, pruner).into_bytes())
        .into()
}
