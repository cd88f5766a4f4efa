//! `tune fetch MODEL`: a checkpoint from a hub into the local cache.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::{Common, init_logging, print};
use crate::exit::{Exit, Failure};
use crate::report::{self, Gauge};
use crate::task::text_classification::checkpoint::{Checkpoint, cache_directories};
use crate::task::text_classification::hub::{self, Checksum, File, Step};

/// `tune fetch`
#[derive(Debug, Args)]
pub struct FetchArgs {
    /// A model of the hub: ORG/NAME
    pub model: String,
    /// Branch, tag or commit
    #[arg(long, value_name = "REVISION", default_value = "main")]
    pub revision: String,
    /// Cache to fetch into [default: $HF_HUB_CACHE, $HF_HOME/hub, ~/.cache/huggingface/hub]
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,
}

/// How often a broken download is taken up again, and the pause before the first time.
const RETRIES: u32 = 4;
const PAUSE: Duration = Duration::from_secs(1);

/// A hub that sends nothing for so long is given up.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn fetch(common: &Common, args: &FetchArgs) -> Result<Exit, Failure> {
    init_logging(common, None)?;
    let variable = |name: &str| std::env::var(name).ok().filter(|v| !v.trim().is_empty());
    let cache = args
        .to
        .clone()
        .or_else(|| cache_directories().caches.into_iter().next());
    let cache = cache.ok_or_else(|| {
        Failure::input("there is no place to fetch to: HOME is not set; say --to DIR")
    })?;
    let cache = std::path::absolute(&cache)
        .map_err(|e| Failure::input(format!("{}: {e}", cache.display())))?;
    // As Hugging Face's own programs leave it.
    let token = std::fs::read_to_string(cache.with_file_name("token")).ok();
    let token = token.map(|t| t.trim().to_owned()).filter(|t| !t.is_empty());
    let request = hub::Request {
        model: args.model.clone(),
        revision: args.revision.clone(),
        cache,
        endpoint: variable("HF_ENDPOINT"),
        token: variable("HF_TOKEN").or(token),
        retries: RETRIES,
        pause: PAUSE,
        patience: PATIENCE,
    };
    let loud = !common.json && !common.quiet;
    let mut gauge = None;
    let fetched = hub::fetch(&request, &mut |step| match step {
        Step::Started(name, bytes) => gauge = Some(Gauge::bytes(name, bytes, loud)),
        Step::Advanced(bytes) => {
            if let Some(gauge) = &gauge {
                gauge.advance(bytes);
            }
        }
        Step::Broken(name, why) => {
            gauge = None;
            if !common.quiet {
                report::err(&format!("{name}: {why}; trying again"));
            }
        }
        Step::Done(file) => {
            gauge = None;
            if loud {
                // A reader that has gone away does not end the download.
                let _ = report::out(&line(file));
            }
        }
    })?;
    let checkpoint = Checkpoint::open(&args.model, &fetched.dir).map_err(|problems| {
        let problems = crate::config::Problems(problems);
        Failure::input(format!(
            "{} was fetched to {}, but it cannot be used:\n{problems}",
            args.model,
            fetched.dir.display()
        ))
    })?;
    let config = &checkpoint.config;
    print(&if common.json {
        let all = json!({
            "model": args.model,
            "revision": args.revision,
            "commit": fetched.commit,
            "directory": fetched.dir,
            "files": fetched.files,
            "architecture": config.architecture.name(),
            "parameters": config.parameters(),
        });
        format!("{all:#}\n")
    } else {
        format!(
            "{}: {}, {} layers, hidden {}, {:.1} M parameters\n{}\n",
            args.model,
            config.architecture.name(),
            config.num_hidden_layers,
            config.hidden_size,
            config.parameters() as f64 / 1e6,
            fetched.dir.display()
        )
    })
}

fn line(file: &File) -> String {
    let how = match (file.downloaded, file.checksum) {
        (true, Checksum::SizeAlone) => "fetched; the hub gives no checksum of it",
        (true, Checksum::Sha256 | Checksum::GitSha1) => "fetched, checksum right",
        (false, _) => "was there already",
    };
    format!("{}  {}  {how}\n", file.name, report::size(file.bytes))
}
