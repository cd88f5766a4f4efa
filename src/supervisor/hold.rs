//! Who works on a study: a lock on a file that the kernel gives back when its holder dies.
//!
//! The lock belongs to the open file, not to the process. Every fork (that of the guardian, those
//! that become workers) has the open file as well until it closes it or becomes another program,
//! so closing the descriptor is not enough to give the lock back at once: that is said to the
//! kernel. Who only looks takes no lock, because that would turn away who comes to take hold.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
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
    file: File,
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
        match fcntl(&file, FcntlArg::F_OFD_SETLK(&whole(libc::F_WRLCK))) {
            Ok(_) => {}
            Err(Errno::EAGAIN | Errno::EACCES) => {
                return Err(held(study, read(&mut file).as_ref()));
            }
            Err(e) => return Err(storage(e.into())),
        }
        let text = serde_json::to_string(me).unwrap_or_default();
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(text.as_bytes()))
            .map_err(storage)?;
        let meta = file.metadata().map_err(storage)?;
        Ok(Hold {
            id: (meta.dev(), meta.ino()),
            file,
        })
    }

    /// Device and inode of the lock file, which no other study of this machine has.
    pub fn id(&self) -> (u64, u64) {
        self.id
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // It cannot fail on an open file; if it did, the end of the process would do.
        let _ = fcntl(&self.file, FcntlArg::F_OFD_SETLK(&whole(libc::F_UNLCK)));
    }
}

/// Who holds the study now, if anybody does.
pub fn holder(dir: &Path, study: &str) -> Option<Holder> {
    let mut file = File::open(path(dir, study)).ok()?;
    let mut lock = whole(libc::F_WRLCK);
    fcntl(&file, FcntlArg::F_OFD_GETLK(&mut lock)).ok()?;
    // What would be in the way of this lock, if anything.
    let free = lock.l_type == libc::F_UNLCK as libc::c_short;
    if free { None } else { read(&mut file) }
}

/// A lock of a whole file, of this type.
fn whole(kind: libc::c_int) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
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

    fn somebody() -> Holder {
        Holder {
            pid: 42,
            host: "lab".into(),
            since: "2026-01-02T03:04:05Z".into(),
        }
    }

    #[test]
    fn a_study_is_free_at_once_although_a_fork_has_the_file_open_still() {
        let dir = tempfile::tempdir().unwrap();
        let hold = Hold::take(dir.path(), "s", &somebody()).unwrap();
        // What a fork gets: another descriptor of the same open file.
        let of_a_fork = hold.file.try_clone().unwrap();
        drop(hold);
        assert_eq!(holder(dir.path(), "s"), None);
        Hold::take(dir.path(), "s", &somebody()).unwrap();
        drop(of_a_fork);
    }

    #[test]
    fn who_looks_is_in_nobodys_way() {
        let dir = tempfile::tempdir().unwrap();
        let taken = std::sync::atomic::AtomicBool::new(false);
        let done = || taken.load(std::sync::atomic::Ordering::Relaxed);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done() {
                        holder(dir.path(), "s");
                    }
                });
            }
            let all =
                (0..2000).try_for_each(|_| Hold::take(dir.path(), "s", &somebody()).map(drop));
            taken.store(true, std::sync::atomic::Ordering::Relaxed);
            all.unwrap();
        });
    }

    #[test]
    fn a_held_study_says_who_holds_it_and_is_free_again_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        let me = somebody();
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
