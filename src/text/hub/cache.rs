//! A model's folder in the cache: `blobs/ETAG` have the contents, `snapshots/COMMIT` are links to them, `refs/REVISION`
//! name commits. Whatever its names come from, nothing outside of the cache is written, and what is in it is replaced
//! only by [`Folder::complete`], when everything new has been checked.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::verify;
use crate::checkpoint::cache_folder;
use files::{name, replace};

/// The folder of a model.
pub struct Folder {
    cache: PathBuf,
    name: String,
}

/// A file of the snapshot, whole and right.
#[derive(Debug)]
pub struct CachedFile {
    /// Its name in the repository.
    pub name: String,
    /// The file that has its content now.
    pub path: PathBuf,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// The snapshot has it.
    Snapshot,
    /// This blob has it.
    Blob(String),
    /// It was downloaded, for this blob; nobody else downloads it as long as the lock is held.
    Part(String, File),
}

/// The rest of an earlier download, or the beginning of one.
#[derive(Debug)]
pub struct PartialFile {
    /// The file, locked.
    pub file: File,
    path: PathBuf,
    lock: File,
}

impl Folder {
    /// Of `model`, in a cache that need not be there.
    pub fn new(cache: &Path, model: &str) -> Folder {
        Folder {
            cache: cache.to_owned(),
            name: cache_folder(model),
        }
    }

    /// A path in the folder, to write to.
    fn place(&self, name: &str) -> io::Result<PathBuf> {
        name::placed(&self.cache, &format!("{}/{name}", self.name))
    }

    /// The same, below a directory that is there.
    fn made(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.place(name)?;
        if let Some(dir) = path.parent() {
            replace::make_directories(dir)?;
        }
        Ok(path)
    }

    /// The directory of a commit.
    pub fn snapshot(&self, commit: &str) -> PathBuf {
        self.cache.join(&self.name).join("snapshots").join(commit)
    }

    /// The file `name` of a commit, if it is there and right: in the snapshot, or as a blob.
    ///
    /// # Errors
    /// Its name leads out of the cache; or what is there cannot be read.
    pub fn held(
        &self,
        commit: &str,
        name: &str,
        size: u64,
        etag: &str,
    ) -> io::Result<Option<CachedFile>> {
        let snapshot = self.place(&format!("snapshots/{commit}/{name}"))?;
        let blob = self.place(&format!("blobs/{etag}"))?;
        for (path, place) in [
            (snapshot, Place::Snapshot),
            (blob, Place::Blob(etag.to_owned())),
        ] {
            if path.is_file() && verify::matches(&path, size, etag)? {
                let name = name.to_owned();
                return Ok(Some(CachedFile { name, path, place }));
            }
        }
        Ok(None)
    }

    /// What is there of a blob. It is never longer than `size`.
    ///
    /// # Errors
    /// Another process is downloading it; or it cannot be made.
    pub fn part(&self, etag: &str, size: u64) -> io::Result<PartialFile> {
        let path = self.made(&format!("blobs/{etag}.part"))?;
        let lock = self.place(&format!("blobs/{etag}.lock"))?;
        let locked = own(&lock)?;
        if locked.try_lock().is_err() {
            return Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                format!(
                    "another process is fetching it and holds {}",
                    lock.display()
                ),
            ));
        }
        let mut file = own(&path)?;
        // Under a second name it is something else, too.
        if file.metadata()?.nlink() > 1 {
            fs::remove_file(&path)?;
            file = own(&path)?;
        }
        if file.metadata()?.len() > size {
            file.set_len(0)?;
        }
        let lock = locked;
        Ok(PartialFile { file, path, lock })
    }

    /// Puts files in their places and makes `revision` name the commit.
    ///
    /// # Errors
    /// What the system says. The revision names the commit only if all went well.
    pub fn complete(&self, commit: &str, revision: &str, files: Vec<CachedFile>) -> io::Result<()> {
        for held in files {
            let (etag, lock) = match held.place {
                Place::Snapshot => continue,
                Place::Blob(etag) => (etag, None),
                Place::Part(etag, lock) => (etag, Some(lock)),
            };
            if lock.is_some() {
                let blob = self.place(&format!("blobs/{etag}"))?;
                replace::file_by(&held.path, &blob)?;
            }
            let path = self.made(&format!("snapshots/{commit}/{}", held.name))?;
            let up = "../".repeat(2 + held.name.matches('/').count());
            replace::link(Path::new(&format!("{up}blobs/{etag}")), &path)?;
        }
        if revision == commit {
            return Ok(());
        }
        let reference = self.made(&format!("refs/{revision}"))?;
        replace::write(&reference, commit.as_bytes())
    }

    /// Deletes what was downloaded of a snapshot that turned out to be of no use.
    pub fn discard(files: Vec<CachedFile>) {
        for held in files {
            if let Place::Part(..) = held.place {
                // Where it cannot be deleted it only takes room.
                let _ = replace::delete(&held.path);
            }
        }
    }
}

impl CachedFile {
    /// Another file with this content, if it is the one that was downloaded here.
    pub fn again(&self, name: &str, etag: &str) -> Option<CachedFile> {
        match &self.place {
            Place::Part(own, _) if own == etag => Some(CachedFile {
                name: name.to_owned(),
                path: self.path.clone(),
                place: Place::Blob(etag.to_owned()),
            }),
            Place::Part(..) | Place::Blob(_) | Place::Snapshot => None,
        }
    }
}

impl PartialFile {
    /// Compares it with size and checksum.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn matches(&self, size: u64, etag: &str) -> io::Result<bool> {
        verify::matches(&self.path, size, etag)
    }

    /// Deletes it.
    ///
    /// # Errors
    /// What the system says.
    pub fn delete(self) -> io::Result<()> {
        replace::delete(&self.path)
    }

    /// It is whole and right: the content of this file.
    pub fn whole(self, name: &str, etag: &str) -> CachedFile {
        CachedFile {
            name: name.to_owned(),
            path: self.path,
            place: Place::Part(etag.to_owned(), self.lock),
        }
    }
}

/// A file of our own, made if it is not there; no link is followed to it, and no pipe is waited for.
fn own(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
        .map_err(|error| match error.raw_os_error() {
            Some(libc::ELOOP) => odd(path, "a link"),
            Some(_) | None => error,
        })?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(odd(path, "no file")),
    }
}

fn odd(path: &Path, what: &str) -> io::Error {
    let path = path.display();
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("{path} is {what}; expected a file of a cache, or nothing"),
    )
}
