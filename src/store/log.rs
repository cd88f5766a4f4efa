//! Is a write-ahead log whole? SQLite ends its reading at the first frame that is damaged, and
//! what was committed after it is gone without a word. Here that is noticed before it happens.
//!
//! A crash leaves at most one transaction half-written, because each is synchronised before the
//! next one begins. Two commits behind a damaged frame are therefore no crash, but damage.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::time::Duration;

use super::error::Cause;

const HEADER: usize = 32;
const FRAME: usize = 24;

/// The page size that SQLite gives to new files; used where the header cannot be believed.
const PAGE: usize = 4096;

/// Checks the log of a database that is about to be opened; that there is none is fine.
///
/// Reading it drops no locks: SQLite keeps those on other files.
///
/// # Errors
/// Something within the log is damaged.
pub(super) fn check(path: &Path) -> Result<(), Cause> {
    let Some(found) = damage(path) else {
        return Ok(());
    };
    // A run that writes at this moment may be starting its log over.
    std::thread::sleep(Duration::from_millis(50));
    if damage(path) != Some(found) {
        return Ok(());
    }
    Err(Cause::Corrupt(format!(
        "its write-ahead log {} is damaged in frame {}, with {} transactions behind it",
        path.display(),
        found.frame,
        found.commits
    )))
}

/// A damaged frame, and what would be lost with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Damage {
    /// The frame, from 1; 0 is the header.
    frame: u64,
    /// Commits behind it.
    commits: u64,
}

fn damage(path: &Path) -> Option<Damage> {
    scan(BufReader::new(File::open(path).ok()?))
}

/// Reads a log from its beginning. A log that cannot be read is left to SQLite.
fn scan(mut log: impl Read) -> Option<Damage> {
    let mut header = [0; HEADER];
    log.read_exact(&mut header).ok()?;
    let big_endian = header[3] & 1 == 1;
    let mut sum = checksum((0, 0), &header[..24], big_endian);
    let mut whole = sum == (word(&header, 24), word(&header, 28));
    let page = if whole {
        word(&header, 8) as usize
    } else {
        PAGE
    };
    // Frames of an earlier use of the file carry other salts.
    let mut salts = whole.then(|| (word(&header, 16), word(&header, 20)));
    let mut found = (!whole).then_some(Damage {
        frame: 0,
        commits: 0,
    });
    let mut frame = vec![0; FRAME + page];
    for number in 1.. {
        if log.read_exact(&mut frame).is_err() {
            break;
        }
        let here = (word(&frame, 8), word(&frame, 12));
        if *salts.get_or_insert(here) != here {
            whole = false;
            found.get_or_insert(Damage {
                frame: number,
                commits: 0,
            });
            continue;
        }
        if whole {
            sum = checksum(sum, &frame[..8], big_endian);
            sum = checksum(sum, &frame[FRAME..], big_endian);
            whole = sum == (word(&frame, 16), word(&frame, 20));
        }
        if !whole {
            let damage = found.get_or_insert(Damage {
                frame: number,
                commits: 0,
            });
            // The size of the database after the commit; 0 within a transaction.
            let commit = word(&frame, 4) != 0;
            damage.commits += u64::from(commit && damage.frame != number);
        }
    }
    found.filter(|damage| damage.commits >= 2)
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
