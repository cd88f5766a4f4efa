//! Who works on a study: a lock on a file that the kernel gives back when its holder dies.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::exit::{Exit, Failure};

/// Who holds a study.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Process id.
    pub pid: u32,
    /// Host name.
    pub host: String,
    /// RFC 3339.
    pub since: String,
}

impl Holder {
    /// This process, from now on.
    pub fn this_process() -> Holder {
        Holder {
            pid: std::process::id(),
            host: nix::unistd::gethostname().map_or_else(
                |_| "unknown".to_owned(),
                |name| name.to_string_lossy().into_owned(),
            ),
            since: jiff::Timestamp::now().to_string(),
        }
    }
}

/// The study is held by this process until this value is dropped or the process ends.
#[derive(Debug)]
pub struct Hold {
    /// Device and inode of the lock file.
    id: (u64, u64),
    _file: File,
}

impl Hold {
    /// Takes hold of a study; `dir` is the database's directory (`tune.db.d`).
    ///
    /// # Errors
    /// Another process holds it (exit 6, saying who), or the file cannot be made (exit 7).
    pub fn take(dir: &Path, study: &str, me: &Holder) -> Result<Hold, Failure> {
        let path = path(dir, study);
        let storage = |e: std::io::Error| {
            Failure::storage(format!(
                "{}: cannot be written ({e}); tune needs a writable directory beside its database",
                path.display()
            ))
        };
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(storage)?;
        }
        let mut file = open(&path).map_err(storage)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(held(study, read(&mut file).as_ref())),
            Err(TryLockError::Error(e)) => return Err(storage(e)),
        }
        let text = serde_json::to_string(me).unwrap_or_default();
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(text.as_bytes()))
            .map_err(storage)?;
        let meta = file.metadata().map_err(storage)?;
        Ok(Hold {
            id: (meta.dev(), meta.ino()),
            _file: file,
        })
    }

    /// Device and inode of the lock file, which no other study of this machine has.
    pub fn id(&self) -> (u64, u64) {
        self.id
    }
}

/// Who holds the study now, if anybody does.
pub fn holder(dir: &Path, study: &str) -> Option<Holder> {
    let mut file = File::open(path(dir, study)).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => read(&mut file),
        Ok(()) | Err(TryLockError::Error(_)) => None,
    }
}

fn path(dir: &Path, study: &str) -> PathBuf {
    dir.join("locks").join(format!("{study}.lock"))
}

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(path)
}

fn read(file: &mut File) -> Option<Holder> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

fn held(study: &str, holder: Option<&Holder>) -> Failure {
    let who = match holder {
        Some(h) => format!("process {} on {} since {}", h.pid, h.host, h.since),
        None => "another process".to_owned(),
    };
    Failure::new(
        Exit::Held,
        format!("the study {study} is held by {who}; wait for it, or stop it with kill"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_study_says_who_holds_it_and_is_free_again_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        let me = Holder {
            pid: 42,
            host: "lab".into(),
            since: "2026-01-02T03:04:05Z".into(),
        };
        assert_eq!(holder(dir.path(), "s"), None);
        let hold = Hold::take(dir.path(), "s", &me).unwrap();
        assert_eq!(holder(dir.path(), "s"), Some(me.clone()));
        let failure = Hold::take(dir.path(), "s", &me).unwrap_err();
        assert_eq!(failure.exit, Exit::Held);
        assert!(
            failure
                .message
                .contains("process 42 on lab since 2026-01-02")
        );
        Hold::take(dir.path(), "other", &me).unwrap();
        drop(hold);
        assert_eq!(holder(dir.path(), "s"), None);
        Hold::take(dir.path(), "s", &me).unwrap();
    }
}
