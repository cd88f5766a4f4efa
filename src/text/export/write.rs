//! An exported directory, written whole or not at all.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Map, Value as Json};

use super::{
    Description, FORMAT, HEAD_FILE, HeadForm, HeadWeights, ORIGIN_FILE, ReadColumns, form,
    settings, weights,
};
use crate::checkpoint::Checkpoint;
use crate::head::{HeadConfig, QUERY};
use crate::tokenizer::TOKENIZER_FILES;
use config::kinds::shared::THRESHOLD;
use files::bounded;
use search::space::Value;
use task::TrainedModel;
use training::exported::directory;

/// Writes the directory of a model that was fine-tuned from this checkpoint.
///
/// # Errors
/// See [`directory`]; or the weights do not fit.
pub fn write(
    checkpoint: &Checkpoint,
    model: &TrainedModel<'_>,
    (dir, force): (&Path, bool),
    told: &mut dyn FnMut(u64),
) -> Result<Description> {
    directory(dir, force, &mut |partial| {
        fill(checkpoint, model, partial, told)
    })
}

fn fill(
    checkpoint: &Checkpoint,
    model: &TrainedModel<'_>,
    dir: &Path,
    told: &mut dyn FnMut(u64),
) -> Result<Description> {
    let (description, form) = describe(checkpoint, model)?;
    let kept = fs::read(model.weights).with_context(|| model.weights.display().to_string())?;
    let tensors = weights::gather(checkpoint, &kept, &form, &description.head)?;
    drop(kept);
    told(tensors.iter().map(|t| t.bytes.len() as u64).sum());
    let json = |name: &str, content: &Json| {
        fs::write(dir.join(name), format!("{content:#}\n")).with_context(|| name.to_owned())
    };
    let base = object(&checkpoint.dir.join("config.json"))?;
    let config = settings::model_config(&base, &form, &description.labels);
    json("config.json", &config.into())?;
    let file = dir.join("model.safetensors");
    weights::save(&tensors, &file)?;
    // It was written for nobody else to read.
    let usual = fs::metadata(dir.join("config.json"))?.permissions();
    fs::set_permissions(&file, usual)?;
    for name in TOKENIZER_FILES {
        let from = checkpoint.dir.join(name);
        if from.is_file() {
            fs::copy(&from, dir.join(name)).with_context(|| from.display().to_string())?;
        }
    }
    let tokenizer = checkpoint.dir.join("tokenizer_config.json");
    let base = match tokenizer.is_file() {
        true => object(&tokenizer)?,
        false => Map::new(),
    };
    let tokenizer = settings::tokenizer_config(&base, description.max_length);
    json("tokenizer_config.json", &tokenizer.into())?;
    json(HEAD_FILE, &serde_json::to_value(&description)?)?;
    json(ORIGIN_FILE, model.origin)?;
    fs::write(dir.join("README.md"), readme(&description))?;
    Ok(description)
}

/// A file that is a JSON object.
fn object(file: &Path) -> Result<Map<String, Json>> {
    let text =
        bounded::read(file, bounded::DESCRIPTION).with_context(|| file.display().to_string())?;
    serde_json::from_slice(&text).with_context(|| file.display().to_string())
}

/// What `head.json` says, and how the head is written.
fn describe(checkpoint: &Checkpoint, model: &TrainedModel<'_>) -> Result<(Description, HeadForm)> {
    let known = |word: &str| {
        let value = model.about.get(word);
        value.with_context(|| format!("the trained weights say nothing of {word}"))
    };
    let read = |word: &str| model.config.get(word);
    let text = |word: &str| read(word).and_then(Value::as_str).map(str::to_owned);
    let number = |word: &str| read(word).and_then(Value::as_i64).unwrap_or(0);
    let head: HeadConfig = serde_json::from_value(known("head")?.clone()).context("head")?;
    let form = form(checkpoint.config.architecture, &head);
    let query = (!head.pooling.is_fixed()).then(|| QUERY.to_owned());
    let max_length = usize::try_from(number("tok.max_length"))?;
    let description = Description {
        format: FORMAT,
        weights: HeadWeights {
            layers: form.layers.clone(),
            query,
        },
        labels: serde_json::from_value(known("labels")?.clone()).context("labels")?,
        columns: ReadColumns {
            text: text("data.text").unwrap_or_else(|| "text".to_owned()),
            text_pair: text("data.text_pair"),
            label: text("data.label").unwrap_or_else(|| "label".to_owned()),
        },
        max_length,
        // No window has room for more: half of it is shared then, as with the greater number.
        doc_stride: usize::try_from(number("tok.doc_stride"))?.min(max_length),
        precision: text("train.precision").unwrap_or_else(|| "fp32".to_owned()),
        train_rows: serde_json::from_value(known("train_rows")?.clone()).context("train_rows")?,
        threshold: (model.about.get("post")).and_then(|post| post.get(THRESHOLD)?.as_f64()),
        transformers: form.class.map(str::to_owned),
        head,
    };
    Ok((description, form))
}

/// How to load it, for whoever finds the directory.
fn readme(about: &Description) -> String {
    let load = match &about.transformers {
        Some(class) => format!(
            "transformers loads it with its head, as `{class}`:\n\n\
             ```python\n\
             from transformers import AutoModelForSequenceClassification, AutoTokenizer\n\n\
             tokenizer = AutoTokenizer.from_pretrained(\"DIR\")\n\
             model = AutoModelForSequenceClassification.from_pretrained(\"DIR\").eval()\n\
             ```\n"
        ),
        None => "transformers has no head like this one (see `head.json`). `AutoModel` loads the \
                 encoder; `AutoModelForSequenceClassification` would put a new, untrained head on it.\n"
            .to_owned(),
    };
    let windows = match about.doc_stride {
        0 => format!("Texts are cut at {} tokens.", about.max_length),
        n => format!(
            "Long texts are windows of {} tokens that share {n}; a text's probabilities are the mean \
             of its windows'.",
            about.max_length
        ),
    };
    let threshold = match (about.threshold, about.labels.as_slice()) {
        (Some(threshold), [_, second]) => format!(
            " {second} is predicted where its probability is at least {threshold}: transformers does not know of \
             that, `tune predict` does."
        ),
        _ => String::new(),
    };
    format!(
        "# A text classifier\n\n\
         Classes: {}. {windows}{threshold}\n\n\
         ```console\n\
         $ tune predict DIR rows.csv -o answers.csv\n\
         $ tune evaluate DIR labelled.csv\n\
         ```\n\n\
         {load}\n\
         `tune.json` says where it comes from: study, trial, parameters, data, scores.\n",
        about.labels.join(", ")
    )
}
