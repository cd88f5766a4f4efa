//! Fetching a checkpoint from a hub into the cache where [`super::checkpoint::locate`] finds it.
//! The only part of the program that touches the network.
//!
//! All files are of one commit. A file is seen in the cache under its own name only when it is
//! whole; the reference that names the commit is written last, when every file has been compared
//! with its checksum.

mod choose;
mod verify;
mod watch;

use std::path::{Path, PathBuf};
use std::time::Duration;

use hf_hub::api::sync::{Api, ApiBuilder, ApiError, ApiRepo, Metadata};
use hf_hub::{Cache, Repo, RepoType};

use super::checkpoint::cache_folder;
use crate::exit::Failure;
pub use verify::Checksum;
use watch::{Sign, Signs, Unanswered};

/// The hub, unless `HF_ENDPOINT` names another.
const HUB: &str = "https://huggingface.co";

/// What is fetched, from where and to where.
#[derive(Debug, Clone)]
pub struct Request {
    /// `ORG/NAME`, or a name alone.
    pub model: String,
    /// Branch, tag or commit.
    pub revision: String,
    /// The cache.
    pub cache: PathBuf,
    /// The hub's address.
    pub endpoint: Option<String>,
    /// Of a user of the hub.
    pub token: Option<String>,
    /// How often a broken download is taken up again.
    pub retries: u32,
    /// The pause before it is, in steps of this length.
    pub pause: Duration,
    /// Nothing is waited for longer than this without a byte.
    pub patience: Duration,
}

/// What happens while files are fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step<'a> {
    /// A download begins, of so many bytes.
    Started(&'a str, u64),
    /// So many bytes more are there.
    Advanced(u64),
    /// It broke off and is taken up again.
    Broken(&'a str, &'a str),
    /// A file is there and right.
    Done(&'a File),
}

/// A file that is there now.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct File {
    /// Its name in the repository.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// What it was compared with.
    pub checksum: Checksum,
    /// Whether it was downloaded; otherwise it was there already.
    pub downloaded: bool,
}

/// A checkpoint that is there now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// Its directory.
    pub dir: PathBuf,
    /// The commit.
    pub commit: String,
    /// Its files.
    pub files: Vec<File>,
}

/// Fetches what a checkpoint needs.
///
/// # Errors
/// There is no such model, no access, no network; the hub falls silent; a file differs from its checksum; the cache
/// cannot be written.
pub fn fetch(request: &Request, told: &mut dyn FnMut(Step<'_>)) -> Result<Fetched, Failure> {
    let hub = Hub::new(request)?;
    let repo = hub.repo(&request.revision);
    let info = hub.ask(&format!("the model {}", request.model), move || repo.info())?;
    if !plain(&info.sha) {
        return Err(hub.odd(&format!("the commit {:?}", info.sha)));
    }
    let all: Vec<String> = info.siblings.into_iter().map(|s| s.rfilename).collect();
    let choice = choose::choose(&all).map_err(|missing| {
        Failure::input(format!(
            "{} cannot be used: its repository has {missing}; expected an encoder's checkpoint as \
             `save_pretrained` writes it",
            request.model
        ))
    })?;
    let mut fetched = Fetched {
        dir: hub.folder().join("snapshots").join(&info.sha),
        commit: info.sha,
        files: Vec::new(),
    };
    for name in &choice.files {
        hub.file(name, &mut fetched, told)?;
    }
    if let Some(index) = &choice.index {
        let file = fetched.dir.join(index);
        let bytes = std::fs::read(&file).map_err(|e| unwritable(&file, &e))?;
        let shards = choose::shards(&bytes, &all)
            .map_err(|e| Failure::input(format!("{}: {e}", file.display())))?;
        for name in &shards {
            hub.file(name, &mut fetched, told)?;
        }
    }
    hub.refer(&fetched.commit)?;
    Ok(fetched)
}

/// Of a hub's answer: what may be part of a path.
fn plain(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 128
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

/// A model's name: one or two words that may be part of a path and of an address.
fn named(model: &str) -> bool {
    let word = |w: &str| {
        !w.is_empty()
            && !w.starts_with('.')
            && w.bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    };
    model.split('/').count() <= 2 && model.split('/').all(word)
}

struct Hub<'a> {
    request: &'a Request,
    endpoint: String,
    api: Api,
}

impl Hub<'_> {
    fn new(request: &Request) -> Result<Hub<'_>, Failure> {
        if !named(&request.model) {
            return Err(Failure::input(format!(
                "{:?} is no model of a hub; expected ORG/NAME, such as google/electra-small-discriminator",
                request.model
            )));
        }
        if request
            .revision
            .split('/')
            .any(|part| !plain(&part.replace('.', "-")) || part.starts_with('.'))
        {
            return Err(Failure::input(format!(
                "{:?} is no revision; expected a branch, a tag or a commit",
                request.revision
            )));
        }
        let endpoint = request
            .endpoint
            .as_deref()
            .unwrap_or(HUB)
            .trim_end_matches('/');
        let mut builder = ApiBuilder::from_cache(Cache::new(request.cache.clone()))
            .with_endpoint(endpoint.to_owned())
            .with_progress(false)
            .with_user_agent("tune", env!("CARGO_PKG_VERSION"));
        if let Some(token) = &request.token {
            builder = builder.with_token(Some(token.clone()));
        }
        let api = builder
            .build()
            .map_err(|e| Failure::internal(format!("no client for {endpoint}: {e}")))?;
        Ok(Hub {
            request,
            endpoint: endpoint.to_owned(),
            api,
        })
    }

    fn repo(&self, revision: &str) -> ApiRepo {
        let (model, revision) = (self.request.model.clone(), revision.to_owned());
        self.api
            .repo(Repo::with_revision(model, RepoType::Model, revision))
    }

    fn folder(&self) -> PathBuf {
        self.request.cache.join(cache_folder(&self.request.model))
    }

    /// What the hub answers to a call of which nothing is heard before its end.
    fn ask<T: Send + 'static>(
        &self,
        what: &str,
        call: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, Failure> {
        watch::within(self.request.patience, &mut |_| {}, |_| call())
            .map_err(|unanswered| self.unanswered(what, &unanswered))
    }

    /// Makes a file of the commit be there.
    fn file(
        &self,
        name: &str,
        fetched: &mut Fetched,
        told: &mut dyn FnMut(Step<'_>),
    ) -> Result<(), Failure> {
        let repo = self.repo(&fetched.commit);
        let (api, url) = (self.api.clone(), repo.url(name));
        let meta = self.ask(name, move || api.metadata(&url))?;
        if !plain(meta.etag()) || meta.commit_hash() != fetched.commit {
            return Err(self.odd(&format!(
                "ETag {:?} and commit {:?}",
                meta.etag(),
                meta.commit_hash()
            )));
        }
        let path = fetched.dir.join(name);
        let right = |path: &Path| verify::matches(path, meta.size() as u64, meta.etag());
        let downloaded = !(path.is_file() && right(&path).map_err(|e| unwritable(&path, &e))?);
        if downloaded {
            self.download(fetched, name, &meta, told)?;
        }
        let file = File {
            name: name.to_owned(),
            bytes: meta.size() as u64,
            checksum: verify::kind(meta.etag()),
            downloaded,
        };
        told(Step::Done(&file));
        fetched.files.push(file);
        Ok(())
    }

    /// Downloads a file, from where an earlier download broke off, and compares it.
    fn download(
        &self,
        fetched: &Fetched,
        name: &str,
        meta: &Metadata,
        told: &mut dyn FnMut(Step<'_>),
    ) -> Result<(), Failure> {
        let path = &fetched.dir.join(name);
        let blob = self.folder().join("blobs").join(meta.etag());
        let part = blob.with_extension("part");
        let mut attempt = 0;
        loop {
            // What is in the way is neither whole nor right.
            remove(path)?;
            let resumed = shorten(&part, meta.size() as u64)?;
            let (repo, file) = (self.repo(&fetched.commit), name.to_owned());
            let download = move |signs: Signs| repo.download_with_progress(&file, signs);
            let heard = &mut |sign| match sign {
                Sign::Started(bytes) => told(Step::Started(name, bytes)),
                Sign::Advanced(bytes) => told(Step::Advanced(bytes)),
            };
            match watch::within(self.request.patience, heard, download) {
                Ok(_) => {
                    let right = verify::matches(&blob, meta.size() as u64, meta.etag());
                    if right.map_err(|e| unwritable(&blob, &e))? {
                        return Ok(());
                    }
                    remove(path)?;
                    remove(&blob)?;
                    // What was there from before may have been wrong: once more, from the start.
                    if !resumed {
                        return Err(Failure::input(format!(
                            "{name} of {} from {} differs from its checksum {}: it was damaged on \
                             its way and has been deleted; fetch it again",
                            self.request.model,
                            self.endpoint,
                            meta.etag()
                        )));
                    }
                    told(Step::Broken(name, "the checksum is wrong"));
                }
                Err(Unanswered::Failed(error))
                    if attempt < self.request.retries && passing(&error) =>
                {
                    attempt += 1;
                    told(Step::Broken(name, &error.to_string()));
                    std::thread::sleep(self.request.pause * attempt);
                }
                Err(unanswered) => return Err(self.unanswered(name, &unanswered)),
            }
        }
    }

    /// Writes the reference that names the commit, whole or not at all.
    fn refer(&self, commit: &str) -> Result<(), Failure> {
        let refs = self.folder().join("refs");
        // The client has noted the commit under its own name, which nobody looks up.
        remove(&refs.join(commit))?;
        if self.request.revision == commit {
            return Ok(());
        }
        let file = refs.join(&self.request.revision);
        let dir = file.parent().unwrap_or(&refs);
        let write = || -> std::io::Result<()> {
            use std::io::Write;
            std::fs::create_dir_all(dir)?;
            let mut temporary = tempfile::NamedTempFile::new_in(dir)?;
            temporary.write_all(commit.as_bytes())?;
            temporary.persist(&file)?;
            Ok(())
        };
        write().map_err(|e| unwritable(&file, &e))
    }

    fn odd(&self, what: &str) -> Failure {
        Failure::input(format!(
            "{} answers with {what}: is it a hub?",
            self.endpoint
        ))
    }

    /// Why there is no answer, in one line.
    fn unanswered(&self, what: &str, why: &Unanswered) -> Failure {
        let endpoint = &self.endpoint;
        match why {
            Unanswered::Failed(error) => self.failure(what, error),
            Unanswered::Silent(patience) => Failure::input(format!(
                "{what} from {endpoint}: not a byte for {}; look at the network and its proxy \
                 (HTTPS_PROXY), or name another hub (HF_ENDPOINT), and fetch it again: what is there \
                 is kept",
                humantime::format_duration(*patience)
            )),
            Unanswered::Lost => {
                Failure::internal(format!("{what} from {endpoint}: the client is gone"))
            }
        }
    }

    /// What a request came to, in one line.
    fn failure(&self, what: &str, error: &ApiError) -> Failure {
        let endpoint = &self.endpoint;
        let text = match status(error) {
            Some(404) => {
                format!(
                    "{endpoint} has no {what} at the revision {}",
                    self.request.revision
                )
            }
            Some(code @ (401 | 403)) => format!(
                "{endpoint} gives no access to {what} (status {code}): there is no such model, or \
                 HF_TOKEN has to name a user whom its owners let in"
            ),
            Some(code) => format!("{endpoint} answers status {code} for {what}; try again later"),
            None => {
                if let ApiError::RequestError(request) = error {
                    format!("{endpoint} cannot be reached for {what}: {request}")
                } else if let ApiError::LockAcquisition(path) = error {
                    let lock = path.display();
                    format!("{what} is being fetched by another process, which holds {lock}")
                } else {
                    format!("{what} from {endpoint}: {error}; fetch it again to go on")
                }
            }
        };
        Failure::input(text)
    }
}

/// The status that a hub answered, where it is no success.
fn status(error: &ApiError) -> Option<u16> {
    let ApiError::RequestError(request) = error else {
        return None;
    };
    let ureq::Error::StatusCode(code) = **request else {
        return None;
    };
    Some(code)
}

/// Whether another try may help: the connection broke, or the hub is busy.
fn passing(error: &ApiError) -> bool {
    match status(error) {
        Some(code) => code == 429 || code >= 500,
        None => matches!(error, ApiError::RequestError(_) | ApiError::IoError(_)),
    }
}

/// Makes the rest of an earlier download one that can go on: never longer than the file, and never
/// as long, since there is no range behind the end. Whether anything is left of it.
fn shorten(part: &Path, size: u64) -> Result<bool, Failure> {
    let Ok(meta) = std::fs::metadata(part) else {
        return Ok(false);
    };
    let kept = meta.len().min(size.saturating_sub(1));
    if kept < meta.len() {
        let file = std::fs::OpenOptions::new().write(true).open(part);
        file.and_then(|f| f.set_len(kept))
            .map_err(|e| unwritable(part, &e))?;
    }
    Ok(kept > 0)
}

fn remove(path: &Path) -> Result<(), Failure> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(unwritable(path, &e)),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::input(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests;
