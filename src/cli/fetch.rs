//! `tune fetch MODEL`: a checkpoint from a hub into the local cache.

use std::env::VarError;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::{Common, print, print_json, run};
use files::bounded;
use messages::exit::{Exit, Failure};
use report::ProgressBar;
use text::checkpoint::{Checkpoint, cache_directories};
use text::hub::{self, Checksum, FetchStep, FetchedFile};

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

/// Longest token, in bytes.
const LONGEST_TOKEN: u64 = 4096;

/// An environment variable; one that is blank counts as unset.
fn text_of(name: &str) -> Result<Option<String>, Failure> {
    match std::env::var(name) {
        Ok(text) => Ok(Some(text).filter(|text| !text.trim().is_empty())),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(Failure::input(format!(
            "{name}: found what is no UTF-8, expected a text"
        ))),
    }
}

/// The token that Hugging Face's own programs leave beside the cache.
fn kept_token(cache: &Path) -> Result<Option<String>, Failure> {
    let path = cache.with_file_name("token");
    match bounded::read_to_string(&path, LONGEST_TOKEN) {
        Ok(text) if text.trim().is_empty() => Ok(None),
        Ok(text) => checked(text, &path.display().to_string()).map(Some),
        // Another user's, beside a cache that is shared: what is public can be had without.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(Failure::input(format!(
            "{}: {error}; the hub's token is read from there, as HF_TOKEN is not set",
            path.display()
        ))),
    }
}

/// A token that fits the header of a request; `from` says where it comes from.
fn checked(token: String, from: &str) -> Result<String, Failure> {
    let token = token.trim();
    match token.chars().all(|c| c.is_ascii_graphic()) {
        true => Ok(token.to_owned()),
        false => Err(Failure::input(format!(
            "{from}: found a token with characters that no token has, expected visible ASCII alone"
        ))),
    }
}

/// How often a broken download is taken up again, and the pause before the first time.
const RETRIES: u32 = 4;
const PAUSE: Duration = Duration::from_secs(1);

/// A hub that sends nothing for so long is given up.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is to be fetched, by the arguments and by the environment as Hugging Face's own programs read it.
fn request(args: &FetchArgs) -> Result<hub::FetchRequest, Failure> {
    let cache = args
        .to
        .clone()
        .or_else(|| cache_directories().caches.into_iter().next());
    let cache = cache.ok_or_else(|| {
        Failure::input("there is no place to fetch to: HOME is not set; say --to DIR")
    })?;
    let cache = run::absolute(&cache)?;
    let endpoint = text_of("HF_ENDPOINT")?;
    let is_address = |text: &&String| text.starts_with("http://") || text.starts_with("https://");
    if let Some(text) = endpoint.as_ref().filter(|text| !is_address(text)) {
        return Err(Failure::input(format!(
            "HF_ENDPOINT: found {text:?}, expected the address of a hub: https://HOST"
        )));
    }
    let token = match text_of("HF_TOKEN")? {
        Some(token) => Some(checked(token, "HF_TOKEN")?),
        None => kept_token(&cache)?,
    };
    Ok(hub::FetchRequest {
        model: args.model.clone(),
        revision: args.revision.clone(),
        cache,
        endpoint,
        token,
        retries: RETRIES,
        pause: PAUSE,
        patience: PATIENCE,
    })
}

pub(super) fn fetch(common: &Common, args: &FetchArgs) -> Result<Exit, Failure> {
    let request = request(args)?;
    let loud = common.loud();
    let mut bar = None;
    let fetched = hub::fetch(&request, &mut |step| match step {
        FetchStep::Started(name, bytes) => bar = Some(ProgressBar::bytes(name, bytes, loud)),
        FetchStep::Advanced(bytes) => {
            if let Some(bar) = &bar {
                bar.advance(bytes);
            }
        }
        FetchStep::Broken(name, why) => {
            bar = None;
            if !common.quiet {
                report::err(&format!("{name}: {why}; trying again"));
            }
        }
        FetchStep::Done(file) => {
            bar = None;
            if loud {
                // A reader that has gone away does not end the download.
                let _ = report::out(&line(file));
            }
        }
    })?;
    let checkpoint = Checkpoint::open(&args.model, &fetched.dir).map_err(|problems| {
        Failure::input(format!(
            "{} was fetched to {}, but it cannot be used:\n{problems}",
            args.model,
            fetched.dir.display()
        ))
    })?;
    let config = &checkpoint.config;
    if common.json {
        return print_json(&json!({
            "model": args.model,
            "revision": args.revision,
            "commit": fetched.commit,
            "directory": fetched.dir,
            "files": fetched.files,
            "architecture": config.architecture.name(),
            "parameters": config.parameters(),
        }));
    }
    print(&format!(
        "{}: {}, {} layers, hidden {}, {:.1} M parameters\n{}\n",
        args.model,
        config.architecture.name(),
        config.num_hidden_layers,
        config.hidden_size,
        config.parameters() as f64 / 1e6,
        fetched.dir.display()
    ))
}

fn line(file: &FetchedFile) -> String {
    let how = match (file.downloaded, file.checksum) {
        (true, Checksum::SizeAlone) => "fetched; the hub gives no checksum of it",
        (true, Checksum::Sha256 | Checksum::GitSha1) => "fetched, checksum right",
        (false, _) => "was there already",
    };
    format!("{}  {}  {how}\n", file.name, report::size(file.bytes))
}
