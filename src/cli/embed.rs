//! `tune embed MODEL FILE -o OUT`: what an encoder makes of texts.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use strum::EnumMessage;

use super::args::word;
use super::predict::{has_directory, may_write};
use super::{Common, libtorch, run};
use config::Overrides;
use config::places::Wanted;
use device::{Device, DevicePolicy, probe};
use messages::exit::{Exit, Failure};
use request::predict::{Input, TextColumns};
use request::torch_request::{Embed, TorchRequest};
use text::checkpoint::Checkpoint;
use text::embedding::EmbeddingPooling;

/// `tune embed`
#[derive(Debug, Args)]
pub struct EmbedArgs {
    /// A name of --task's models, a model in the local cache, or a directory
    pub model: String,
    /// .txt (a text a line), .csv or .jsonl
    pub file: PathBuf,
    /// Where to: a safetensors file
    #[arg(short, long, value_name = "FILE")]
    pub out: PathBuf,
    /// The task whose models are meant
    #[arg(long, value_name = "TASK")]
    pub task: Option<String>,
    /// Column of the text, of .csv and .jsonl [default: text]
    #[arg(long, value_name = "COLUMN")]
    pub text: Option<String>,
    /// Column of the second text
    #[arg(long, value_name = "COLUMN")]
    pub text_pair: Option<String>,
    /// Longer texts are cut to so many tokens [default: the model's limit, at most 512]
    #[arg(long, value_name = "N")]
    pub max_length: Option<usize>,
    /// Rows that are computed at once
    #[arg(long, value_name = "N", default_value_t = 32,
          value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub batch_size: u32,
    /// What `pooled` is: pooler (the model's own), mean (over the tokens) or cls (the first token) [default: pooler
    /// where the model has one, else mean]
    #[arg(long, value_name = "KIND", hide_possible_values = true,
          value_parser = word(EmbeddingPooling::get_documentation))]
    pub pooling: Option<EmbeddingPooling>,
    /// auto, cpu or cuda
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub device: DevicePolicy,
}

/// Longest row, unless said otherwise.
const MAX_LENGTH: usize = 512;

pub(super) fn embed(common: &Common, args: &EmbedArgs) -> Result<Exit, Failure> {
    let (models, task) = match &args.task {
        Some(task) => {
            let spec = run::read(
                &run::project(common, Wanted::Task(task))?,
                task,
                Overrides::default(),
            )?;
            (spec.models, Some(spec.file))
        }
        None => (BTreeMap::new(), None),
    };
    let checkpoint = Checkpoint::named(&args.model, &models).map_err(|problems| {
        let mut failure = Failure::from(problems);
        if args.task.is_none() {
            let hint = "\nA name that a task gives a model in [models] is known with --task TASK.";
            failure.message.push_str(hint);
        }
        failure
    })?;
    let mut read = vec![("the file of the texts", args.file.as_path())];
    read.extend(
        task.as_deref()
            .map(|file| ("the task's configuration", file)),
    );
    may_write(&args.out, &read, (&checkpoint.dir, &checkpoint.files()))?;
    has_directory(&args.out)?;
    let columns = TextColumns {
        text: args.text.clone(),
        pair: args.text_pair.clone(),
    };
    let file = Input::texts(&args.file, &columns)?;
    file.survey()?;
    let max_length = max_length(args, checkpoint.config.max_tokens())?;
    let devices = probe::resolve(&args.device, true)?;
    libtorch::run(&TorchRequest::Embed(Embed {
        model: args.model.clone(),
        models,
        file: args.file.clone(),
        columns,
        out: args.out.clone(),
        max_length,
        batch_size: args.batch_size as usize,
        pooling: args.pooling,
        device: devices.first().copied().unwrap_or(Device::Cpu),
        json: common.json,
        loud: common.loud(),
    }))
}

/// The longest row that is asked for; without that, as long as the model can read and as is usual.
fn max_length(args: &EmbedArgs, limit: Option<usize>) -> Result<usize, Failure> {
    let usual = limit.map_or(MAX_LENGTH, |limit| limit.min(MAX_LENGTH));
    let asked = args.max_length.unwrap_or(usual);
    match limit {
        Some(limit) if asked > limit => Err(Failure::input(format!(
            "--max-length {asked}: the model {} reads at most {limit} tokens",
            args.model
        ))),
        Some(_) | None => Ok(asked),
    }
}
