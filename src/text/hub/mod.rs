//! Fetching a checkpoint from a hub into the cache where [`super::checkpoint::locate`] finds it.
//! The only part of the program that touches the network.
//!
//! A hub is not believed. Names in its answers become paths only below the cache ([`files::name`]), and its
//! answers have bounds (`client`). All files are of one commit; they are downloaded beside the cache's blobs, and
//! only when each has been compared with its checksum, and the checkpoint has been opened, take their places. The
//! reference that names the commit is written last.

mod cache;
mod choose;
mod client;
mod verify;

use std::io::Seek;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::checkpoint::{Checkpoint, MAX_INDEX};
use cache::{CachedFile, Folder, PartialFile};
use client::{Client, HubError, Meta};
use config::{Problem, Problems, Source};
use messages::exit::Failure;
pub use verify::Checksum;

/// The hub, unless `HF_ENDPOINT` names another.
const HUB: &str = "https://huggingface.co";

/// Largest file other than weights, in bytes: the largest tokenisers have some dozen millions.
const MAX_SMALL: u64 = 1 << 30;

/// What is fetched, from where and to where.
#[derive(Debug, Clone)]
pub struct FetchRequest {
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
pub enum FetchStep<'a> {
    /// A download begins, of so many bytes.
    Started(&'a str, u64),
    /// So many bytes more are there.
    Advanced(u64),
    /// It broke off and is taken up again.
    Broken(&'a str, &'a str),
    /// A file is there and right.
    Done(&'a FetchedFile),
}

/// A file that is there now.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct FetchedFile {
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
    pub files: Vec<FetchedFile>,
}

/// Fetches what a checkpoint needs.
///
/// # Errors
/// There is no such model, no access, no network; the hub falls silent, sends more than it announces, or names what is
/// no file of a model; a file differs from its checksum; the checkpoint cannot be used; the cache cannot be written.
/// What the cache had before is as it was.
pub fn fetch(
    request: &FetchRequest,
    told: &mut dyn FnMut(FetchStep<'_>),
) -> Result<Fetched, Failure> {
    let hub = Hub::new(request)?;
    let asked = format!("the model {}", request.model);
    let listing = hub
        .client
        .list(&request.revision)
        .map_err(|why| hub.failure(&asked, &why))?;
    let commit = listing.sha;
    if !plain(&commit) {
        return Err(hub.odd(&format!("the commit {:?}", short(&commit))));
    }
    let all: Vec<String> = listing.siblings.into_iter().map(|s| s.rfilename).collect();
    let choice = choose::choose(&all).map_err(|missing| {
        Failure::input(format!(
            "{} cannot be used: its repository has {missing}; expected an encoder's checkpoint as \
             `save_pretrained` writes it",
            request.model
        ))
    })?;
    let mut work = Work {
        hub: &hub,
        commit: &commit,
        files: Vec::new(),
        held: Vec::new(),
    };
    for name in &choice.files {
        let small = choice.weights != *name;
        work.file(name, if small { MAX_SMALL } else { u64::MAX }, told)?;
    }
    if choice.weights.ends_with(choose::INDEX) {
        for name in work.shards(&choice.weights, &all)? {
            work.file(&name, u64::MAX, told)?;
        }
    }
    let Work { files, held, .. } = work;
    let dir = hub.folder.snapshot(&commit);
    if let Err(problems) = hub.usable(&dir, &held) {
        Folder::discard(held);
        return Err(Failure::input(format!(
            "{} was fetched, but it cannot be used and was not kept:\n{problems}",
            request.model
        )));
    }
    (hub.folder.complete(&commit, &request.revision, held)).map_err(|e| unwritable(&dir, e))?;
    Ok(Fetched { dir, commit, files })
}

/// Of a hub's answer: what may be part of a path.
fn plain(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 128
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

/// The beginning of what a hub says, for messages.
fn short(text: &str) -> String {
    text.chars().take(100).collect()
}

/// A model's name: one or two words that may be part of a path and of an address.
fn named(model: &str) -> bool {
    let word = |w: &str| {
        !w.is_empty()
            && !w.starts_with('.')
            && w.bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    };
    model.len() <= 200 && model.split('/').count() <= 2 && model.split('/').all(word)
}

struct Hub<'a> {
    request: &'a FetchRequest,
    endpoint: String,
    client: Client,
    folder: Folder,
}

impl Hub<'_> {
    fn new(request: &FetchRequest) -> Result<Hub<'_>, Failure> {
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
        let token = request.token.clone();
        Ok(Hub {
            request,
            endpoint: endpoint.to_owned(),
            client: Client::new(endpoint, &request.model, token, request.patience),
            folder: Folder::new(&request.cache, &request.model),
        })
    }

    /// Opens the checkpoint before it takes its place, where `dir` will be.
    fn usable(&self, dir: &Path, files: &[CachedFile]) -> Result<(), Problems> {
        let stage = || -> std::io::Result<tempfile::TempDir> {
            let stage = tempfile::tempdir()?;
            for held in files {
                let link = stage.path().join(&held.name);
                if let Some(parent) = link.parent() {
                    std::fs::create_dir_all(parent)?;
                }
                std::os::unix::fs::symlink(&held.path, link)?;
            }
            Ok(stage)
        };
        let unstaged = |error: std::io::Error| {
            let expected = "a directory to write to";
            Problem::of_file(&std::env::temp_dir(), error.to_string(), expected)
        };
        let stage = stage().map_err(unstaged)?;
        let opened = Checkpoint::open(&self.request.model, stage.path());
        opened.map(|_| ()).map_err(|mut problems| {
            for problem in &mut problems.0 {
                if let Source::File(file, _) = &mut problem.source
                    && let Ok(name) = file.strip_prefix(stage.path())
                {
                    *file = dir.join(name);
                }
            }
            problems
        })
    }

    /// A file of a commit, downloaded from where an earlier download broke off.
    fn download(
        &self,
        commit: &str,
        name: &str,
        meta: &Meta,
        told: &mut dyn FnMut(FetchStep<'_>),
    ) -> Result<CachedFile, Failure> {
        let mut attempt = 0;
        loop {
            let unusable = |e| unwritable(Path::new(name), e);
            let mut part = self.folder.part(&meta.etag, meta.size).map_err(unusable)?;
            let resumed = part.file.metadata().map_err(unusable)?.len();
            // An earlier fetch may have come to its end, and a later file of it not.
            if resumed == meta.size && part.matches(meta.size, &meta.etag).map_err(unusable)? {
                return Ok(part.whole(name, &meta.etag));
            }
            match self.go_on(commit, name, meta, &mut part, told) {
                Ok(()) => {
                    if part.matches(meta.size, &meta.etag).map_err(unusable)? {
                        return Ok(part.whole(name, &meta.etag));
                    }
                    part.delete().map_err(unusable)?;
                    // What was there from before may have been wrong: once more, from the start.
                    if resumed == 0 {
                        return Err(Failure::input(format!(
                            "{name} of {} from {} differs from its checksum {}: it was damaged on \
                             its way and has been deleted; fetch it again",
                            self.request.model, self.endpoint, meta.etag
                        )));
                    }
                    told(FetchStep::Broken(name, "the checksum is wrong"));
                }
                Err(trouble) => {
                    let again = attempt < self.request.retries;
                    if let Some(why) = trouble.passing().filter(|_| again) {
                        attempt += 1;
                        told(FetchStep::Broken(name, &why));
                        std::thread::sleep(self.request.pause * attempt);
                        continue;
                    }
                    if let HubError::Long(_) = trouble {
                        // None of it can be trusted.
                        part.delete().map_err(unusable)?;
                    }
                    return Err(self.failure(name, &trouble));
                }
            }
        }
    }

    /// Adds to what is there of a file.
    fn go_on(
        &self,
        commit: &str,
        name: &str,
        meta: &Meta,
        part: &mut PartialFile,
        told: &mut dyn FnMut(FetchStep<'_>),
    ) -> Result<(), HubError> {
        let file = &mut part.file;
        let there = file
            .seek(std::io::SeekFrom::End(0))
            .map_err(HubError::Unwritable)?;
        // There is no range behind the end.
        let from = there.min(meta.size.saturating_sub(1));
        room(file, meta.size - from).map_err(HubError::Unwritable)?;
        self.client
            .download((commit, name), from, meta.size, &mut |at, bytes| {
                if bytes.is_empty() {
                    file.set_len(at)?;
                    told(FetchStep::Started(name, meta.size));
                    told(FetchStep::Advanced(at));
                    return Ok(());
                }
                file.write_all_at(bytes, at)?;
                told(FetchStep::Advanced(bytes.len() as u64));
                Ok(())
            })
    }

    fn odd(&self, what: &str) -> Failure {
        Failure::input(format!(
            "{} answers with {what}: is it a hub?",
            self.endpoint
        ))
    }

    /// What a request came to, in one line.
    fn failure(&self, what: &str, trouble: &HubError) -> Failure {
        let endpoint = &self.endpoint;
        let slow = |what: &str, of: &str, time: Duration| {
            format!(
                "{what} from {endpoint}: {of} {}; look at the network and its proxy (HTTPS_PROXY), or name \
                 another hub (HF_ENDPOINT), and fetch it again: what is there is kept",
                humantime::format_duration(time)
            )
        };
        Failure::input(match trouble {
            HubError::Status(404) => {
                let revision = &self.request.revision;
                format!("{endpoint} has no {what} at the revision {revision}")
            }
            HubError::Status(code @ (401 | 403)) => format!(
                "{endpoint} gives no access to {what} (status {code}): there is no such model, or \
                 HF_TOKEN has to name a user whom its owners let in"
            ),
            HubError::Status(code) => {
                format!("{endpoint} answers status {code} for {what}; try again later")
            }
            HubError::Silent(time) => slow(what, "not a byte for", *time),
            HubError::Late(time) => slow(what, "no whole answer within", *time),
            HubError::Slow(time) => slow(
                what,
                &format!("fewer than {} bytes in", client::FEWEST),
                *time,
            ),
            HubError::Broken(why) => {
                format!(
                    "{endpoint} cannot be reached for {what}, or broke off: {why}; fetch it again to go on"
                )
            }
            HubError::Long(size) => format!(
                "{what} from {endpoint} is longer than the {size} bytes that were announced: it has been \
                 deleted; is it a hub?"
            ),
            HubError::Odd(found) => {
                format!("{endpoint} answers with {found} for {what}: is it a hub?")
            }
            HubError::Unwritable(error) => format!("{what} cannot be written: {error}"),
        })
    }
}

/// A fetch on its way.
struct Work<'a> {
    hub: &'a Hub<'a>,
    commit: &'a str,
    files: Vec<FetchedFile>,
    held: Vec<CachedFile>,
}

impl Work<'_> {
    /// Makes a file of the commit be there, of at most `most` bytes.
    fn file(
        &mut self,
        name: &str,
        most: u64,
        told: &mut dyn FnMut(FetchStep<'_>),
    ) -> Result<(), Failure> {
        let (hub, commit) = (self.hub, self.commit);
        let meta = hub
            .client
            .meta(commit, name)
            .map_err(|why| hub.failure(name, &why))?;
        if !plain(&meta.etag) || meta.commit != commit {
            return Err(hub.odd(&format!(
                "ETag {:?} and commit {:?} for {name}",
                short(&meta.etag),
                short(&meta.commit)
            )));
        }
        if meta.size > most {
            return Err(hub.odd(&format!("a {name} of {} bytes", meta.size)));
        }
        // Small files often have the same content.
        let again = self
            .held
            .iter()
            .find_map(|held| held.again(name, &meta.etag));
        let there = match again {
            Some(again) => Ok(Some(again)),
            None => hub.folder.held(commit, name, meta.size, &meta.etag),
        };
        let there = there.map_err(|e| unwritable(Path::new(name), e))?;
        let downloaded = there.is_none();
        let held = match there {
            Some(held) => held,
            None => hub.download(commit, name, &meta, told)?,
        };
        let file = FetchedFile {
            name: name.to_owned(),
            bytes: meta.size,
            checksum: verify::kind(&meta.etag),
            downloaded,
        };
        told(FetchStep::Done(&file));
        self.files.push(file);
        self.held.push(held);
        Ok(())
    }

    /// The shards that the index names, which was fetched.
    fn shards(&self, index: &str, all: &[String]) -> Result<Vec<String>, Failure> {
        let held = self.held.iter().find(|held| held.name == index);
        let path = held.map_or(Path::new(index), |held| held.path.as_path());
        let bytes = match std::fs::metadata(path).map(|meta| meta.len()) {
            Ok(length) if length > MAX_INDEX => {
                return Err(self.hub.odd(&format!("an {index} of {length} bytes")));
            }
            Ok(_) | Err(_) => std::fs::read(path).map_err(|e| unwritable(path, e))?,
        };
        choose::shards(&bytes, all, index).map_err(|e| {
            let model = &self.hub.request.model;
            Failure::input(format!(
                "{index} of {model} from {}: {e}",
                self.hub.endpoint
            ))
        })
    }
}

/// Whether so many bytes more have room where a file is.
fn room(file: &std::fs::File, bytes: u64) -> std::io::Result<()> {
    let disk = nix::sys::statvfs::fstatvfs(file)?;
    let free = disk.blocks_available().saturating_mul(disk.fragment_size());
    match bytes > free {
        true => Err(std::io::Error::new(
            std::io::ErrorKind::StorageFull,
            format!("{bytes} bytes more are needed, {free} are free"),
        )),
        false => Ok(()),
    }
}

fn unwritable(path: &Path, error: std::io::Error) -> Failure {
    Failure::input(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests;
