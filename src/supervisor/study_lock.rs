//! Who works on a study: locks that the kernel gives back when their owner dies.
//!
//! There are three of them. One is on the database itself, whatever its name, on a range far behind
//! its end that stands for the study: whoever opens this file finds it, through any link, and
//! although somebody has removed the directory beside it. One is on a file in that directory,
//! where spool, logs and checkpoints lie: it keeps others out although somebody has put another
//! database in the place of the first. The last is on the database again, on a range that stands
//! for the study's row: it keeps others out although somebody has given the study another name.
//!
//! A lock belongs to the open file, not to the process. Every fork (that of the guardian, those
//! that become workers) has the open file as well until it closes it or becomes another program,
//! so closing the descriptor is not enough to give the lock back at once: that is said to the
//! kernel. Who only looks takes no lock, because that would turn away who comes to lock it.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use files::paths::lock_of;
use files::plain;
use messages::exit::{Exit, Failure};
use process::other;
use store::{Descriptor, Place, StudySummary, is_empty_database, lockable, looked_at};

/// The longest that a killed owner's children may have its files open, before they become what they shall be.
const LEFT_BEHIND: Duration = Duration::from_secs(2);

/// The longest that another node takes in what this one has left.
const TAKEN_IN: Duration = Duration::from_secs(600);

/// The process that has locked a study.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockOwner {
    /// Process id.
    pub pid: u32,
    /// Host name.
    pub host: String,
    /// RFC 3339.
    pub since: String,
    /// Set while it starts nothing new and waits for what runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopping: Option<Stopping>,
    /// Set while it only takes in what the node has left in its spool.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub taking_in: bool,
}

/// What a run that is to stop waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopping {
    /// So many trials, repeats and tests.
    pub waits_for: usize,
    /// What runs still is put back then. RFC 3339.
    pub until: String,
}

impl LockOwner {
    /// This process, from now on.
    pub fn this_process() -> LockOwner {
        LockOwner {
            pid: std::process::id(),
            host: this_host(),
            since: messages::clock::now().to_string(),
            stopping: None,
            taking_in: false,
        }
    }

    /// The same, to take in what a node has left.
    pub(super) fn taking_in(&self) -> LockOwner {
        LockOwner {
            taking_in: true,
            ..self.clone()
        }
    }

    /// One of whom nothing but the process id is known.
    fn unknown(pid: u32) -> LockOwner {
        LockOwner {
            pid,
            host: THIS_MACHINE.to_owned(),
            since: "an unknown time".to_owned(),
            stopping: None,
            taking_in: false,
        }
    }

    /// Whether both are the same process's hold on the study, whatever it does.
    pub(super) fn is_same(&self, other: &LockOwner) -> bool {
        (self.pid, &self.host, &self.since) == (other.pid, &other.host, &other.since)
    }

    /// Whether it is known that its process has ended.
    fn is_gone(&self) -> bool {
        self.is_here() && other::age(self.pid).is_none()
    }

    /// Whether its process id is one of this host, as far as is known.
    pub fn is_here(&self) -> bool {
        self.host == THIS_MACHINE || self.host == this_host()
    }
}

/// The host of who holds a lock that only this machine's kernel knows.
const THIS_MACHINE: &str = "this machine";

/// What this machine is called.
pub fn this_host() -> String {
    let name = nix::unistd::gethostname();
    name.map_or_else(
        |_| "unknown".to_owned(),
        |name| name.to_string_lossy().into_owned(),
    )
}

/// The study is held by this process until this value is dropped or the process ends.
#[derive(Debug)]
pub struct StudyLock {
    /// Device and inode of the lock file.
    id: (u64, u64),
    /// Where an empty file was made to be held.
    made: Option<PathBuf>,
    place: Lock<File>,
    database: Lock<Descriptor>,
    /// The owner's process id.
    pid: u32,
}

impl Drop for StudyLock {
    /// A start that came to nothing leaves no database. Others cannot be in it: it is held still.
    fn drop(&mut self) {
        let unused = |path: &&PathBuf| is_empty_database(path);
        if let Some(path) = self.made.as_ref().filter(unused)
            && let Err(error) = std::fs::remove_file(path)
        {
            tracing::warn!(?path, %error, "an empty database could not be removed");
        }
    }
}

impl StudyLock {
    /// Locks a study in the database at `storage`. Where there is none, an empty file is
    /// made: what is to be held has to be there. Waits a moment for what a killed owner has left behind.
    ///
    /// # Errors
    /// Another process holds it (exit 6, saying who), or the database or the lock file cannot be
    /// made or is no file (exit 7).
    pub fn take(storage: &Place, study: &str, me: &LockOwner) -> Result<StudyLock, Failure> {
        let begun = Instant::now();
        loop {
            let taken = StudyLock::take_now(storage, study, me);
            let held = matches!(&taken, Err(failure) if failure.exit == Exit::Held);
            if !held {
                return taken;
            }
            // A child that it was about to start has its files open until it is what it shall be.
            let owner = owner_by_name(storage, study).filter(|owner| !owner.is_gone());
            let longest = match owner {
                None => LEFT_BEHIND,
                Some(owner) if owner.taking_in => TAKEN_IN,
                Some(_) => return taken,
            };
            if begun.elapsed() >= longest {
                return taken;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The same without waiting.
    ///
    /// # Errors
    /// See [`StudyLock::take`].
    pub(super) fn take_now(
        storage: &Place,
        study: &str,
        me: &LockOwner,
    ) -> Result<StudyLock, Failure> {
        let path = lock_of(&storage.own_files(), study);
        let failed = |e: io::Error| {
            Failure::storage(format!(
                "{}: cannot be written ({e}); tune needs a writable directory beside its database",
                path.display()
            ))
        };
        let held = || held(study, owner_by_name(storage, study).as_ref());
        let file = plain::real(&storage.held());
        let made = (!file.exists()).then(|| file.clone());
        let database = loop {
            let mut lock = Lock::of(lockable(storage)?);
            if !lock.take(range(study, me.pid)).map_err(failed)? {
                return Err(held());
            }
            // Another file may have taken its place before it was locked.
            if lock.file.is_at(&file) {
                break lock;
            }
        };
        let place = plain::open(&path, plain::For::Updating).map_err(failed)?;
        let mut place = Lock::of(place);
        if !place.take(whole()).map_err(failed)? {
            return Err(held());
        }
        let file = &mut place.file;
        file.set_len(0)
            .and_then(|()| write(file, me))
            .map_err(failed)?;
        let meta = file.metadata().map_err(failed)?;
        Ok(StudyLock {
            id: (meta.dev(), meta.ino()),
            made,
            place,
            database,
            pid: me.pid,
        })
    }

    /// Locks the study's row as well, once it is known: a study that another program renames
    /// while it is worked on would else be free under its new name.
    ///
    /// # Errors
    /// Another process works on it under the name that it had (exit 6, saying who); the database
    /// cannot be locked (exit 7).
    pub fn row(&mut self, study_id: i64, study: &str) -> Result<(), Failure> {
        let row = row_name(study_id);
        let failed = |e: io::Error| Failure::storage(format!("the database cannot be locked: {e}"));
        if self.database.take(range(&row, self.pid)).map_err(failed)? {
            return Ok(());
        }
        let pid = locked_by(&self.database.file, &row);
        Err(held(study, pid.map(LockOwner::unknown).as_ref()))
    }

    /// What notes for others that this process stops.
    ///
    /// # Errors
    /// There is no descriptor left.
    pub(super) fn note(&self, me: &LockOwner) -> io::Result<StopNote> {
        Ok(StopNote {
            file: self.place.file.try_clone()?,
            owner: me.clone(),
        })
    }

    /// Device and inode of the lock file, which no other study of this machine has.
    pub fn id(&self) -> (u64, u64) {
        self.id
    }
}

/// The lock file of a study that this process holds.
pub(super) struct StopNote {
    file: File,
    owner: LockOwner,
}

impl StopNote {
    /// Notes what is waited for. Who holds the study stays the same.
    ///
    /// # Errors
    /// The lock file cannot be written.
    pub(super) fn write(&mut self, stopping: Stopping) -> io::Result<()> {
        self.owner.stopping = Some(stopping);
        // It is longer than what it takes the place of: a reader never finds half of it.
        write(&mut self.file, &self.owner)
    }
}

/// Locks of ranges of a file, given back when this is dropped.
#[derive(Debug)]
struct Lock<F: AsFd> {
    file: F,
    ranges: Vec<libc::flock>,
}

impl<F: AsFd> Lock<F> {
    /// A file without any lock yet.
    fn of(file: F) -> Lock<F> {
        let ranges = Vec::new();
        Lock { file, ranges }
    }

    /// Takes the lock of a range; `false`: somebody else has it.
    fn take(&mut self, range: libc::flock) -> io::Result<bool> {
        match fcntl(&self.file, FcntlArg::F_OFD_SETLK(&range)) {
            Ok(_) => self.ranges.push(range),
            Err(Errno::EAGAIN | Errno::EACCES) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        Ok(true)
    }
}

impl<F: AsFd> Drop for Lock<F> {
    fn drop(&mut self) {
        for range in &self.ranges {
            let free = libc::flock {
                l_type: libc::F_UNLCK as libc::c_short,
                ..*range
            };
            // It cannot fail on an open file; if it did, the end of the process would do.
            let _ = fcntl(&self.file, FcntlArg::F_OFD_SETLK(&free));
        }
    }
}

/// Who works on the study now, if anybody does, also under a name that it had.
pub fn lock_owner(storage: &Place, study: &StudySummary) -> Option<LockOwner> {
    let owner = owner_by_name(storage, &study.name).or_else(|| {
        let database = looked_at(&plain::real(&storage.held()))?;
        locked_by(&database, &row_name(study.study_id)).map(LockOwner::unknown)
    });
    owner.filter(|owner| !owner.taking_in)
}

fn owner_by_name(storage: &Place, study: &str) -> Option<LockOwner> {
    let database = looked_at(&plain::real(&storage.held()));
    let pid = database.and_then(|database| locked_by(&database, study));
    let mut place = plain::open(&lock_of(&storage.own_files(), study), plain::For::Reading).ok();
    let placed = place
        .as_ref()
        .is_some_and(|file| in_the_way(file, whole()).is_some());
    if pid.is_none() && !placed {
        return None;
    }
    let noted = place.as_mut().and_then(read);
    // What the file says is old where its owner is not the database's.
    let noted = noted.filter(|noted| placed || pid == Some(noted.pid));
    Some(noted.unwrap_or_else(|| LockOwner::unknown(pid.unwrap_or_default())))
}

/// Process id of who has the database's lock of a study or of a row.
fn locked_by(database: &Descriptor, name: &str) -> Option<u32> {
    let found = in_the_way(database, range(name, 1))?;
    u32::try_from(found.l_len).ok()
}

/// What stands for a study's row where the name of a study stands; it is no study's name itself.
fn row_name(study_id: i64) -> String {
    format!("\0{study_id}")
}

/// The lock of a study on its database: its first byte stands for the study, its length is the
/// process id of its owner, which the kernel does not tell of such locks. All of it lies where no
/// file has content, and SQLite has its own locks elsewhere.
fn range(study: &str, pid: u32) -> libc::flock {
    const FROM: i64 = 1 << 62;
    // More than any process id; 2^38 studies have room.
    const EACH: u32 = 23;
    let digest = Sha256::digest(study.as_bytes());
    let number = digest[..5]
        .iter()
        .fold(0, |n, &byte| n << 8 | i64::from(byte))
        >> 2;
    libc::flock {
        l_start: FROM + (number << EACH),
        l_len: i64::from(pid.clamp(1, (1 << EACH) - 1)),
        ..whole()
    }
}

/// A lock of a whole file.
fn whole() -> libc::flock {
    libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

/// The lock that keeps this one from being taken, if there is one.
fn in_the_way(file: impl AsFd, mut lock: libc::flock) -> Option<libc::flock> {
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut lock)).ok()?;
    (lock.l_type != libc::F_UNLCK as libc::c_short).then_some(lock)
}

/// Writes who holds the study, at once, over what was there.
fn write(file: &mut File, owner: &LockOwner) -> io::Result<()> {
    let text = serde_json::to_string(owner)?;
    file.rewind()?;
    file.write_all(text.as_bytes())
}

fn read(file: &mut File) -> Option<LockOwner> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

fn held(study: &str, lock_owner: Option<&LockOwner>) -> Failure {
    let who = match lock_owner {
        Some(h) => {
            let since = h.since.parse::<jiff::Timestamp>();
            let since = since.map_or_else(
                |_| h.since.clone(),
                |since| since.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
            );
            format!("process {} on {} since {since}", h.pid, h.host)
        }
        None => "another process".to_owned(),
    };
    Failure::new(
        Exit::Held,
        format!(
            "the study {study} is held by {who}; wait for it, or stop it (tune stop {})",
            report::shell_word(study)
        ),
    )
}

#[cfg(test)]
#[path = "study_lock_tests.rs"]
mod tests;
