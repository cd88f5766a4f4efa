//! Is a write-ahead log whole? SQLite ends its reading at the first frame that is damaged, and
//! what was committed after it is gone without a word. Here that is noticed before it happens.
//!
//! Our own transactions are synchronised before the next one begins, and all that was written to the
//! log before with them: a crash leaves at most one of them half-written, at the end. Another
//! program may write with `synchronous=NORMAL`. A power failure then loses any blocks of the log
//! that were not yet on the disk, and later ones may be there: SQLite's promise is kept where it
//! ends at the first gap. Of a block that was never written the frame that begins in it has neither
//! of the log's two salts: it holds zeros, or what an earlier use of the file has left. Bits that
//! change afterwards leave at least one. So the two are told apart, but for a disk that loses whole
//! blocks of what it had reported as written, and for one block in 170, in which no frame begins:
//! the former counts as a power failure, the latter as damage.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::descriptor::Descriptor;

use super::file::FileId;
use super::open::keep_log_on_close;
use super::{Store, StoreError, StoreErrorKind as Kind};
use files::bounded;

const HEADER: usize = 32;
const FRAME: usize = 24;

/// The page size that SQLite gives to new files; used where the header cannot be believed.
const PAGE: usize = 4096;

/// So many frames behind a damaged one are looked at.
const MOST_BEHIND: u64 = 16_384;

/// Another process may be writing at this moment; what is still so after this is so.
const PAUSE: Duration = Duration::from_millis(50);

/// Checks the log of a database that is about to be opened; that there is none is fine. Gives the
/// gap that a power failure has left in it, where SQLite will drop what is behind.
///
/// Reading it drops no locks: SQLite keeps those on other files.
///
/// # Errors
/// Something within the log is damaged.
pub(super) fn check(path: &Path) -> Result<Option<Damage>, Kind> {
    let Some(found) = damage(path) else {
        return Ok(None);
    };
    // A run that writes at this moment may be starting its log over.
    std::thread::sleep(PAUSE);
    if damage(path) != Some(found) {
        return Ok(None);
    }
    if found.unwritten {
        return Ok(Some(found));
    }
    Err(Kind::Corrupt(format!(
        "its write-ahead log {} is damaged in frame {}, with {} transactions behind it",
        path.display(),
        found.frame,
        found.commits
    )))
}

/// A damaged frame, and what would be lost with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Damage {
    /// The frame, from 1; 0 is the header.
    pub(super) frame: u64,
    /// Commits behind it.
    pub(super) commits: u64,
    /// It, or the frame behind it, was never written: a power failure, and no damage.
    unwritten: bool,
}

impl Damage {
    fn at(frame: u64, unwritten: bool) -> Damage {
        Damage {
            frame,
            commits: 0,
            unwritten,
        }
    }
}

fn damage(path: &Path) -> Option<Damage> {
    scan(BufReader::new(bounded::open(path).ok()?))
}

/// Whether these are the bytes of a damaged log.
pub fn is_damaged(log: &[u8]) -> bool {
    scan(log).is_some()
}

/// Reads a log from its beginning. A log that cannot be read is left to SQLite.
fn scan(mut log: impl Read) -> Option<Damage> {
    let mut header = [0; HEADER];
    log.read_exact(&mut header).ok()?;
    let big_endian = header[3] & 1 == 1;
    let mut sum = checksum((0, 0), &header[..24], big_endian);
    let mut whole = sum == (word(&header, 24), word(&header, 28));
    // A page of another size than SQLite's is none, whatever its checksum says.
    let page = word(&header, 8);
    whole &= page.is_power_of_two() && (512..=65_536).contains(&page);
    let page = if whole { page as usize } else { PAGE };
    // Frames of an earlier use of the file carry other salts.
    let mut salts = whole.then(|| (word(&header, 16), word(&header, 20)));
    let mut found = (!whole).then_some(Damage::at(0, false));
    let mut frame = vec![0; FRAME + page];
    for number in 1.. {
        // What is lost follows at once; a sparse file may go on for a day.
        let far = |damage: &Damage| number > damage.frame + MOST_BEHIND;
        if found.as_ref().is_some_and(far) || log.read_exact(&mut frame).is_err() {
            break;
        }
        let here = (word(&frame, 8), word(&frame, 12));
        let of_this_use = *salts.get_or_insert(here);
        if of_this_use != here {
            whole = false;
            let unwritten = of_this_use.0 != here.0 && of_this_use.1 != here.1;
            let damage = found.get_or_insert(Damage::at(number, unwritten));
            // The end of one frame and the beginning of the next are in the same block.
            damage.unwritten |= unwritten && damage.frame + 1 == number;
            continue;
        }
        if whole {
            sum = frame_sum(sum, &frame, big_endian);
            whole = sum == (word(&frame, 16), word(&frame, 20));
        }
        if !whole {
            let damage = found.get_or_insert(Damage::at(number, false));
            // The size of the database after the commit; 0 within a transaction.
            let commit = word(&frame, 4) != 0;
            damage.commits += u64::from(commit && damage.frame != number);
        }
    }
    found.filter(|damage| damage.commits >= 2)
}

/// What has become of the log of a database that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is there.
    Whole,
    /// It, or its index, was moved, replaced or deleted. What is in it can still be saved by who
    /// has it open.
    Moved,
    /// It is shorter than its index says, or was overwritten: what it held is lost.
    Cut,
}

/// Looks after the log of an open database. SQLite keeps in an index, which all that have the
/// database open share in memory, what the log holds, and believes it: where somebody cuts the log
/// short it writes behind the gap, and copies zeros into the database in the end.
#[derive(Debug)]
pub(super) struct Watch {
    log: PathBuf,
    index: PathBuf,
    log_id: FileId,
    shared: Descriptor,
    /// Its frames were found overwritten.
    overwritten: Cell<bool>,
    /// How long it was when it was last copied into the database, or was tried to, in frames.
    copied_at: Cell<u32>,
}

/// What the index says of the log.
struct Indexed {
    frames: u32,
    /// In bytes.
    page: u64,
    salts: [u8; 8],
}

/// A log of so many frames is copied into the database, as SQLite would do by itself.
const LONG: u32 = 1000;

impl Watch {
    /// Of a database that SQLite has open; `None` where there is nothing to look at.
    pub(super) fn of(log: PathBuf, index: PathBuf) -> Option<Watch> {
        Some(Watch {
            log_id: FileId::of(&log)?,
            shared: Descriptor::of(&index, false).ok()?,
            overwritten: Cell::new(false),
            copied_at: Cell::new(0),
            log,
            index,
        })
    }

    /// The log.
    pub(super) fn log(&self) -> &Path {
        &self.log
    }

    /// What has become of it.
    pub(super) fn fate(&self) -> Fate {
        if FileId::of(&self.log) != Some(self.log_id) || !self.shared.is_at(&self.index) {
            return Fate::Moved;
        }
        match self.overwritten.get() || !self.surely(Watch::holds_what_is_indexed) {
            true => Fate::Cut,
            false => Fate::Whole,
        }
    }

    /// Whether all that the index knows of is in the log as it was written, by its checksums. What is not
    /// is remembered.
    pub(super) fn is_intact(&self) -> bool {
        if !self.surely(Watch::holds_whole_frames) {
            self.overwritten.set(true);
        }
        !self.overwritten.get()
    }

    /// Whether it is time to copy the log into the database; the next time is so many frames later.
    pub(super) fn is_long(&self) -> bool {
        let frames = self.indexed().ok().flatten().map_or(0, |i| i.frames);
        if frames < self.copied_at.get() {
            self.copied_at.set(0);
        }
        let long = frames >= self.copied_at.get() + LONG;
        if long {
            self.copied_at.set(frames);
        }
        long
    }

    /// Whether it holds, or cannot be told; another process may be writing at the first look.
    fn surely(&self, holds: fn(&Watch) -> io::Result<bool>) -> bool {
        if holds(self).unwrap_or(true) {
            return true;
        }
        std::thread::sleep(PAUSE);
        holds(self).unwrap_or(true)
    }

    /// What the index's header says (`WalIndexHdr` in SQLite's `wal.c`), which is there twice, so that one
    /// that is just being written can be told. `None`: it is one, or the log is empty.
    fn indexed(&self) -> io::Result<Option<Indexed>> {
        let mut twice = [0; 96];
        self.shared.read_at(&mut twice, 0)?;
        let (index, again) = twice.split_at(48);
        let frames = u32::from_ne_bytes([index[16], index[17], index[18], index[19]]);
        if index != again || frames == 0 {
            return Ok(None);
        }
        // 65,536 is stored as 1.
        let page = u16::from_ne_bytes([index[14], index[15]]);
        let page = u64::from(page & 0xfe00) + (u64::from(page & 1) << 16);
        let mut salts = [0; 8];
        salts.copy_from_slice(&index[32..40]);
        Ok(Some(Indexed {
            frames,
            page,
            salts,
        }))
    }

    fn holds_what_is_indexed(&self) -> io::Result<bool> {
        let Some(indexed) = self.indexed()? else {
            return Ok(true);
        };
        let mut log = File::open(&self.log)?;
        let length = HEADER as u64 + u64::from(indexed.frames) * (FRAME as u64 + indexed.page);
        let mut header = [0; HEADER];
        Ok(log.metadata()?.len() >= length
            && log.read_exact(&mut header).is_ok()
            && header[16..24] == indexed.salts)
    }

    fn holds_whole_frames(&self) -> io::Result<bool> {
        let Some(indexed) = self.indexed()? else {
            return Ok(true);
        };
        let mut log = BufReader::new(File::open(&self.log)?);
        let mut header = [0; HEADER];
        log.read_exact(&mut header)?;
        let big_endian = header[3] & 1 == 1;
        let mut sum = checksum((0, 0), &header[..24], big_endian);
        let mut whole = sum == (word(&header, 24), word(&header, 28));
        let mut frame = vec![0; FRAME + indexed.page as usize];
        for _ in 0..indexed.frames {
            if !whole || log.read_exact(&mut frame).is_err() {
                return Ok(false);
            }
            sum = frame_sum(sum, &frame, big_endian);
            whole = frame[8..16] == indexed.salts && sum == (word(&frame, 16), word(&frame, 20));
        }
        Ok(whole)
    }
}

impl Store {
    /// Copies a long log into the database: SQLite, which would do it by itself, copies what somebody has
    /// overwritten, too.
    pub(super) fn copy_long_log(&self) {
        if self.watch.as_ref().is_some_and(Watch::is_long) && self.log_must_be_intact().is_ok() {
            // What cannot be copied now is copied later.
            let _ = self.conn.exists("PRAGMA wal_checkpoint(PASSIVE)", &[]);
        }
    }

    /// The same as [`Store::log_must_be_there`], after a look at every frame.
    pub(super) fn log_must_be_intact(&self) -> Result<(), StoreError> {
        self.log_must_be_there()?;
        match self.watch.as_ref().is_none_or(Watch::is_intact) {
            true => Ok(()),
            false => self.log_must_be_there(),
        }
    }

    /// Nothing is written behind a log that has lost something, nor is the rest of it copied into
    /// the database.
    pub(super) fn log_must_be_there(&self) -> Result<(), StoreError> {
        let Some(watch) = &self.watch else {
            return Ok(());
        };
        match watch.fate() {
            Fate::Whole => Ok(()),
            Fate::Moved => Err(Kind::Moved.at(watch.log())),
            Fate::Cut => {
                keep_log_on_close(&self.conn, true).map_err(|c| self.at(c))?;
                Err(self.at(Kind::Corrupt(
                    "somebody has cut its write-ahead log short, or overwritten it, while it was \
                     in use"
                        .to_owned(),
                )))
            }
        }
    }
}

/// The checksum up to the end of a frame.
fn frame_sum(before: (u32, u32), frame: &[u8], big_endian: bool) -> (u32, u32) {
    let sum = checksum(before, &frame[..8], big_endian);
    checksum(sum, &frame[FRAME..], big_endian)
}

/// SQLite's running checksum of a multiple of 8 bytes.
fn checksum((mut a, mut b): (u32, u32), bytes: &[u8], big_endian: bool) -> (u32, u32) {
    let number = |at: &[u8]| {
        let bytes = [at[0], at[1], at[2], at[3]];
        if big_endian {
            u32::from_be_bytes(bytes)
        } else {
            u32::from_le_bytes(bytes)
        }
    };
    for pair in bytes.chunks_exact(8) {
        a = a.wrapping_add(number(&pair[..4])).wrapping_add(b);
        b = b.wrapping_add(number(&pair[4..])).wrapping_add(a);
    }
    (a, b)
}

/// The big-endian word at `at`.
fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log of eight transactions of one frame each, as SQLite wrote it.
    fn log() -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        let conn = rusqlite::Connection::open(&path).unwrap();
        conn.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (x)")
            .unwrap();
        for i in 0..7 {
            conn.execute("INSERT INTO t VALUES (?1)", [i]).unwrap();
        }
        std::fs::read(dir.path().join("a.db-wal")).unwrap()
    }

    fn frame(number: usize) -> usize {
        HEADER + (number - 1) * (FRAME + PAGE)
    }

    #[test]
    fn a_log_that_sqlite_wrote_is_whole_wherever_a_crash_cuts_it() {
        let log = log();
        assert!(log.len() > frame(8));
        for length in (0..=log.len()).step_by(509).chain([log.len()]) {
            assert_eq!(scan(&log[..length]), None, "{length}");
        }
    }

    #[test]
    fn a_transaction_that_reached_the_disk_in_part_is_no_damage() {
        let mut log = log();
        let last = log.len() - 100;
        log[last] ^= 1;
        assert_eq!(scan(&log[..]), None);
    }

    #[test]
    fn a_flipped_bit_before_other_commits_is_damage() {
        for (at, number) in [(frame(2) + 500, 2), (frame(3) + 17, 3), (frame(4) + 9, 4)] {
            let mut log = log();
            log[at] ^= 4;
            let found = scan(&log[..]).unwrap();
            assert_eq!(found.frame, number);
            assert!(found.commits >= 2, "{found:?}");
        }
        let mut log = log();
        log[18] ^= 4;
        assert_eq!(scan(&log[..]).unwrap().frame, 0);
    }

    #[test]
    fn a_block_that_a_power_failure_kept_from_the_disk_is_no_damage() {
        // What the file held before: nothing, or an earlier log.
        for before in [vec![0; log().len()], log()] {
            for block in 0..=4 {
                let mut log = log();
                let lost = (block * 4096).max(HEADER)..(block + 1) * 4096;
                log[lost.clone()].copy_from_slice(&before[lost]);
                let found = scan(&log[..]).unwrap();
                assert!(found.unwritten && found.commits >= 2, "{block}: {found:?}");
                assert!((block as u64..=block as u64 + 1).contains(&found.frame));
            }
        }
    }

    #[test]
    fn what_is_missing_of_the_log_of_an_open_database_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        let (log, index) = (dir.path().join("a.db-wal"), dir.path().join("a.db-shm"));
        let conn = rusqlite::Connection::open(&path).unwrap();
        conn.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (x)")
            .unwrap();
        let watch = Watch::of(log.clone(), index.clone()).unwrap();
        let add = || conn.execute("INSERT INTO t VALUES (1)", []).unwrap();
        for checkpoint in ["PASSIVE", "FULL", "RESTART", "TRUNCATE"] {
            add();
            assert_eq!(watch.fate(), Fate::Whole);
            conn.query_row(&format!("PRAGMA wal_checkpoint({checkpoint})"), [], |_| {
                Ok(())
            })
            .unwrap();
            assert_eq!(watch.fate(), Fate::Whole, "{checkpoint}");
        }
        add();
        add();
        let whole = std::fs::read(&log).unwrap();
        for short in [0, 10, 4000, whole.len() - 1] {
            std::fs::write(&log, &whole[..short]).unwrap();
            assert_eq!(watch.fate(), Fate::Cut, "{short}");
        }
        std::fs::write(&log, vec![0; whole.len()]).unwrap();
        assert_eq!(watch.fate(), Fate::Cut);
        std::fs::write(&log, &whole).unwrap();
        assert_eq!(watch.fate(), Fate::Whole);
        for path in [log, index] {
            let aside = path.with_extension("aside");
            std::fs::rename(&path, &aside).unwrap();
            assert_eq!(watch.fate(), Fate::Moved);
            std::fs::copy(&aside, &path).unwrap();
            assert_eq!(watch.fate(), Fate::Moved);
            std::fs::rename(&aside, &path).unwrap();
            assert_eq!(watch.fate(), Fate::Whole);
        }
    }

    #[test]
    fn a_header_with_a_page_that_sqlite_does_not_know_is_damaged_whatever_its_checksum() {
        for page in [0, 256, 5000, 1 << 31] {
            let mut log = log();
            log[8..12].copy_from_slice(&u32::to_be_bytes(page));
            let sum = checksum((0, 0), &log[..24], log[3] & 1 == 1);
            log[24..28].copy_from_slice(&sum.0.to_be_bytes());
            log[28..32].copy_from_slice(&sum.1.to_be_bytes());
            assert_eq!(scan(&log[..]).unwrap().frame, 0, "{page}");
        }
    }

    #[test]
    fn frames_of_an_earlier_use_of_the_file_are_no_damage() {
        let old = log();
        let mut log = log();
        let cut = frame(3);
        // Both logs have random salts of their own.
        log.truncate(cut);
        log.extend(&old[cut..]);
        assert_eq!(scan(&log[..]), None);
    }
}
