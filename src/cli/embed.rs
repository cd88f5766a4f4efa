//! `tune embed MODEL FILE -o OUT`: what an encoder makes of texts.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::json;

use super::predict::may_write;
use super::{Common, init_logging, print, run};
use crate::config::{DevicePolicy, Overrides, Problems};
use crate::exit::{Exit, Failure};
use crate::gpu;
use crate::report::{self, Gauge};
use crate::task::text_classification::checkpoint::Checkpoint;
use crate::task::text_classification::embedding::{self, Embedded, Plan, Pooling, Step};
use crate::task::text_classification::texts::{self, TextColumns};

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
    /// What `pooled` is [default: pooler where the model has one, else mean]
    #[arg(long, value_name = "KIND")]
    pub pooling: Option<PoolingArg>,
    /// auto, cpu or cuda
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub device: DevicePolicy,
}

/// How a row's hidden states become one vector.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum PoolingArg {
    /// The model's own: tanh of a linear layer on the first token
    Pooler,
    /// The mean over the tokens
    Mean,
    /// The first token
    Cls,
}

impl From<PoolingArg> for Pooling {
    fn from(arg: PoolingArg) -> Pooling {
        match arg {
            PoolingArg::Pooler => Pooling::Pooler,
            PoolingArg::Mean => Pooling::Mean,
            PoolingArg::Cls => Pooling::Cls,
        }
    }
}

/// Longest row, unless said otherwise.
const MAX_LENGTH: usize = 512;

pub(super) fn embed(common: &Common, args: &EmbedArgs) -> Result<Exit, Failure> {
    init_logging(common, None)?;
    let input = |problems| Failure::input(Problems(problems).to_string());
    let (models, task) = match &args.task {
        Some(task) => {
            let spec = run::read(&run::project(common)?, task, Overrides::default())?;
            (spec.models, Some(spec.file))
        }
        None => (BTreeMap::new(), None),
    };
    let checkpoint = Checkpoint::named(&args.model, &models)
        .map_err(|problems| Failure::input(problems.to_string()))?;
    let mut read = vec![("the file of the texts", args.file.as_path())];
    read.extend(
        task.as_deref()
            .map(|file| ("the task's configuration", file)),
    );
    may_write(&args.out, &read, &checkpoint)?;
    let columns = TextColumns {
        text: args.text.clone(),
        pair: args.text_pair.clone(),
    };
    let rows = texts::read(&args.file, &columns).map_err(input)?;
    let max_length = max_length(args, checkpoint.config.max_tokens())?;
    let devices = gpu::probe::resolve(&args.device, true)?;
    let device = devices.first().copied().unwrap_or(gpu::Device::Cpu);
    let plan = Plan {
        checkpoint: &checkpoint,
        rows: &rows,
        max_length,
        batch_size: args.batch_size as usize,
        pooling: args.pooling.map(Pooling::from),
        device,
        out: &args.out,
    };
    let loud = !common.json && !common.quiet;
    let mut gauge = None;
    let done = embedding::embed(&plan, &mut |step| match step {
        Step::Began { rows, bytes } => {
            if loud {
                let told = format!(
                    "{rows} rows, {} to write, on {device}\n",
                    report::size(bytes)
                );
                // A reader that has gone away does not end the work.
                let _ = report::out(&told);
            }
            gauge = Some(Gauge::things("rows", rows as u64, loud));
        }
        Step::Computed(rows) => {
            if let Some(gauge) = &gauge {
                gauge.advance(rows as u64);
            }
        }
    })?;
    drop(gauge);
    print(&if common.json {
        let all = json!({
            "file": args.out,
            "model": args.model,
            "device": device.to_string(),
            "rows": done.rows,
            "length": done.length,
            "hidden": done.hidden,
            "cut": done.cut,
            "pooling": done.pooling.name(),
            "bytes": done.bytes,
        });
        format!("{all:#}\n")
    } else {
        told(args, &done, max_length)
    })
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

/// What was written, for people.
fn told(args: &EmbedArgs, done: &Embedded, max_length: usize) -> String {
    let cut = match done.cut {
        0 => String::new(),
        n => format!(", {n} rows cut at {max_length} tokens"),
    };
    format!(
        "{}: last_hidden_state [{}, {}, {}], pooled by {}{cut}\n",
        args.out.display(),
        done.rows,
        done.length,
        done.hidden,
        done.pooling.name()
    )
}
