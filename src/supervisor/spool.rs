//! The spool: where results wait while the database cannot be written.
//!
//! `tune.db.d/spool/STUDY.jsonl` holds one line a batch, each with a checksum. Its space is taken
//! from the disk when the run starts and written in place, so that a disk that is full, or a limit
//! to the size of files, does not reach it. Unused space is zeros. A file
//! without entries is removed when the run ends.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize, Serializer};
use sha2::{Digest, Sha256};

use files::bounded;
use files::paths::{rejected_of, spool_of};
use files::plain;
use store::{Place, Write};

/// Space taken at the start, tried in this order; bytes. An entry takes a few KiB.
const RESERVES: [u64; 3] = [1 << 20, 256 << 10, 64 << 10];

/// Longest spool that is read, in bytes: of some 100,000 results.
const MOST: u64 = 1 << 30;

/// One batch of facts about a study, as it waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The study.
    pub study: String,
    /// The run that it belongs to.
    pub run: i64,
    /// When the run was recorded, as the database has it: tells it from a run of another database
    /// with the same number.
    pub started: String,
    /// The batch's number within the run; `None` for what needs no answer.
    pub batch: Option<u64>,
    /// When it came up.
    pub time: jiff::Timestamp,
    /// What is to be written; never a start.
    pub writes: Vec<Write>,
}

/// A spool that is ready to be written.
#[derive(Debug)]
pub struct Spool {
    path: PathBuf,
    file: File,
    used: u64,
    reserved: u64,
}

impl Spool {
    /// Makes a study's spool, empty, and takes its space from the disk; `dir` is the database's
    /// directory. What waited in an earlier one must have been taken in.
    ///
    /// # Errors
    /// The file cannot be made, or there is not even a little space.
    pub fn reserve(dir: &Path, study: &str) -> io::Result<Spool> {
        let path = spool_of(dir, study);
        let file = plain::open(&path, plain::For::Replacing)?;
        let mut spool = Spool {
            path,
            file,
            used: 0,
            reserved: 0,
        };
        let mut result = Ok(());
        for size in RESERVES {
            result = spool.grow(size);
            if result.is_ok() {
                break;
            }
        }
        if let Err(error) = result {
            let _ = fs::remove_file(&spool.path);
            return Err(error);
        }
        spool.sync_with_name()?;
        Ok(spool)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds an entry; it is durable when this returns.
    ///
    /// # Errors
    /// The reserve is used up and there is no more space, or the disk fails. The entries before it
    /// are unharmed, and the next one takes its place.
    pub fn append(&mut self, entry: &Entry) -> io::Result<()> {
        self.make_again()?;
        let line = line(entry)?;
        let end = self.used + line.len() as u64;
        if end > self.reserved {
            // Where there is no reserve to be had, writing shows whether there is room.
            let _ = self.grow(end.next_multiple_of(RESERVES[0]));
        }
        self.file.write_all_at(line.as_bytes(), self.used)?;
        self.file.sync_data()?;
        self.used = end;
        Ok(())
    }

    /// Forgets all entries; the space stays reserved.
    ///
    /// # Errors
    /// The disk fails; entries may then still be there.
    pub fn empty(&mut self) -> io::Result<()> {
        let zeros = [0; 4096];
        let mut at = 0;
        while at < self.used {
            let length = (self.used - at).min(zeros.len() as u64);
            self.file.write_all_at(&zeros[..length as usize], at)?;
            at += length;
        }
        if self.used > 0 {
            self.file.sync_data()?;
        }
        self.used = 0;
        Ok(())
    }

    /// Gives the space back: the file is removed, or cut to its entries if there are any.
    pub fn close(self) {
        let result = if self.used == 0 {
            fs::remove_file(&self.path)
        } else {
            self.file.set_len(self.used)
        };
        if let Err(error) = result {
            tracing::warn!(path = %self.path.display(), %error, "a spool could not be tidied up");
        }
    }

    /// Makes the file again where somebody has removed it, or its directory, with what is in it.
    fn make_again(&mut self) -> io::Result<()> {
        let ours = self.file.metadata()?;
        match fs::symlink_metadata(&self.path) {
            Ok(there) if (there.dev(), there.ino()) == (ours.dev(), ours.ino()) => return Ok(()),
            Ok(_) => return Err(io::Error::other("another file stands in its place")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let mut entries = vec![0; self.used as usize];
        self.file.read_exact_at(&mut entries, 0)?;
        let file = plain::open(&self.path, plain::For::Updating)?;
        file.write_all_at(&entries, 0)?;
        self.file = file;
        self.reserved = self.used;
        self.sync_with_name()
    }

    /// The name must survive a power failure as well.
    fn sync_with_name(&self) -> io::Result<()> {
        self.file.sync_all()?;
        match self.path.parent() {
            Some(parent) => File::open(parent)?.sync_all(),
            None => Ok(()),
        }
    }

    fn grow(&mut self, size: u64) -> io::Result<()> {
        let (from, length) = (self.reserved as i64, (size - self.reserved) as i64);
        nix::fcntl::posix_fallocate(&self.file, from, length)?;
        self.reserved = size;
        Ok(())
    }
}

/// How many trials and repeats end with these writes.
pub fn results(writes: &[Write]) -> u64 {
    writes.iter().filter_map(Write::job_ended).count() as u64
}

/// `1 result`, `3 results`.
pub fn count_text(n: u64) -> String {
    format!("{n} result{}", if n == 1 { "" } else { "s" })
}

/// Results of a study that are not in its database yet; of JSON their number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Waiting {
    /// So many.
    pub results: u64,
    /// The nodes in whose spools they are, where several share the database.
    pub nodes: Vec<String>,
}

impl Serialize for Waiting {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.results.serialize(serializer)
    }
}

impl Waiting {
    /// Those that wait beside a database: in the spools of all nodes that share its directory.
    pub fn of(place: &Place, study: &str) -> Waiting {
        if !place.is_shared() {
            return Waiting {
                results: waiting(&place.own_files(), study),
                nodes: Vec::new(),
            };
        }
        let mut all = Waiting::default();
        for node in place.nodes_here() {
            let results = waiting(&place.of_node(&node).own_files(), study);
            if results > 0 {
                all.results += results;
                all.nodes.push(node);
            }
        }
        all
    }

    /// What they mean to people; `None`: there are none.
    pub fn text(&self) -> Option<String> {
        let (results, are) = match self.results {
            0 => return None,
            1 => ("1 result".to_owned(), ("waits", "is")),
            n => (format!("{n} results"), ("wait", "are")),
        };
        let (wait, are) = are;
        let (of, here) = match self.nodes.as_slice() {
            [] => (String::new(), ""),
            [node] => (format!(" of the node {node}"), " in this directory"),
            several => (
                format!(" of the nodes {}", several.join(", ")),
                " in this directory",
            ),
        };
        Some(format!(
            "{results}{of} {wait} outside the database and {are} taken in when the study is run{here}"
        ))
    }
}

/// What a spool holds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Contents {
    /// In the order in which they came up.
    pub entries: Vec<Entry>,
    /// Lines that their checksum shows to be damaged, though others follow.
    pub damaged: Vec<String>,
    /// Whether the last line is incomplete: it was being written when the process was killed.
    pub torn: bool,
}

/// Reads a study's spool; where there is none it holds nothing.
///
/// # Errors
/// The file cannot be read.
pub fn read(path: &Path) -> io::Result<Contents> {
    let open = || {
        let mut file = plain::open(path, plain::For::Reading)?;
        // What is reserved for a run that works is all 0: others look often.
        let mut first = [0];
        if file.read(&mut first)? == 0 || first == [0] {
            return Ok(Vec::new());
        }
        file.rewind()?;
        bounded::all(file, MOST)
    };
    match open() {
        Ok(bytes) => Ok(parse(&bytes)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Contents::default()),
        Err(e) => Err(e),
    }
}

/// How many results wait in a study's spool; one that cannot be read counts as empty.
pub fn waiting(dir: &Path, study: &str) -> u64 {
    let contents = read(&spool_of(dir, study)).unwrap_or_default();
    contents.entries.iter().map(|e| results(&e.writes)).sum()
}

/// Keeps something that could not be taken in, with the reason.
///
/// # Errors
/// The disk fails.
pub fn reject(dir: &Path, study: &str, reason: &str, what: &serde_json::Value) -> io::Result<()> {
    let path = rejected_of(dir, study);
    let mut file = plain::open(&path, plain::For::Appending)?;
    let line = serde_json::json!({ "reason": reason, "entry": what });
    file.write_all(format!("{line}\n").as_bytes())?;
    file.sync_all()
}

const HEAD: &str = "{\"sum\":\"";
const MIDDLE: &str = "\",\"entry\":";
const TAIL: &str = "}";

/// `{"sum":"...","entry":{...}}`: the checksum is that of the entry's very bytes.
fn line(entry: &Entry) -> io::Result<String> {
    let text = serde_json::to_string(entry)?;
    let sum = sum(&text);
    Ok(format!("{HEAD}{sum}{MIDDLE}{text}{TAIL}\n"))
}

fn sum(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest[..8].iter().map(|b| format!("{b:02x}")).collect()
}

fn parse(bytes: &[u8]) -> Contents {
    let mut contents = Contents::default();
    // Emptying begins at the beginning.
    if bytes.first() == Some(&0) {
        return contents;
    }
    let end = bytes.iter().rposition(|&b| b != 0).map_or(0, |at| at + 1);
    let mut bad: Vec<String> = Vec::new();
    for line in bytes[..end].split_inclusive(|&b| b == b'\n') {
        match entry(line) {
            Some(entry) => {
                contents.damaged.append(&mut bad);
                contents.entries.push(entry);
            }
            None => bad.push(String::from_utf8_lossy(line).trim_end().to_owned()),
        }
    }
    contents.torn = !bad.is_empty();
    contents
}

fn entry(line: &[u8]) -> Option<Entry> {
    let line = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
    let (claimed, rest) = line.strip_prefix(HEAD)?.split_once(MIDDLE)?;
    let text = rest.strip_suffix(TAIL)?;
    (claimed == sum(text)).then_some(())?;
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use search::study::{Job, TrialState};
    use store::AttemptEnd;

    fn entry(number: u64) -> Entry {
        let attrs = json!({"metric.loss": "Infinity", "error_msg": "line\nbreak \0 end"});
        Entry {
            study: "s".into(),
            run: 3,
            started: "2026-01-02 03:04:05.000006".into(),
            batch: Some(number),
            time: "2026-01-02T03:05:00.25Z".parse().unwrap(),
            writes: vec![
                Write::Reported {
                    number,
                    step: 1,
                    value: f64::INFINITY,
                },
                Write::AttemptEnded {
                    id: Job::trial(number).attempt(0),
                    end: AttemptEnd {
                        outcome: "completed".into(),
                        detail: String::new(),
                        again: false,
                    },
                },
                Write::TrialFinished {
                    number,
                    state: TrialState::Complete,
                    values: vec![0.1 + 0.2, f64::NEG_INFINITY],
                    user_attrs: attrs.as_object().unwrap().clone(),
                    system_attrs: serde_json::Map::new(),
                },
            ],
        }
    }

    fn spool(dir: &Path, entries: u64) -> Spool {
        let mut spool = Spool::reserve(dir, "s").unwrap();
        for number in 0..entries {
            spool.append(&entry(number)).unwrap();
        }
        spool
    }

    #[test]
    fn entries_come_back_as_they_went_in_with_every_kind_of_number() {
        let dir = tempfile::tempdir().unwrap();
        let spool = spool(dir.path(), 3);
        let contents = read(spool.path()).unwrap();
        assert_eq!(contents.entries, [entry(0), entry(1), entry(2)]);
        assert!(!contents.torn && contents.damaged.is_empty());
        assert_eq!(waiting(dir.path(), "s"), 3);
        assert_eq!(waiting(dir.path(), "other"), 0);
    }

    #[test]
    fn what_waits_is_told_with_the_nodes_that_it_is_of() {
        let text = |results, nodes: &[&str]| {
            let nodes = nodes.iter().map(|node| (*node).to_owned()).collect();
            Waiting { results, nodes }.text()
        };
        assert_eq!(text(0, &[]), None);
        assert_eq!(
            text(1, &[]).unwrap(),
            "1 result waits outside the database and is taken in when the study is run"
        );
        assert_eq!(
            text(3, &["a", "b"]).unwrap(),
            "3 results of the nodes a, b wait outside the database and are taken in when the study is run in this directory"
        );
    }

    #[test]
    fn a_line_cut_at_any_byte_is_dropped_and_those_before_it_stay() {
        let dir = tempfile::tempdir().unwrap();
        let spool = spool(dir.path(), 2);
        let bytes = fs::read(spool.path()).unwrap();
        let first = bytes.iter().position(|&b| b == b'\n').unwrap() + 1;
        for cut in first..spool.used as usize {
            let mut torn = bytes.clone();
            torn[cut..].fill(0);
            let contents = parse(&torn);
            assert_eq!(contents.entries, [entry(0)], "{cut}");
            assert_eq!(contents.torn, cut > first, "{cut}");
        }
    }

    #[test]
    fn a_flipped_bit_is_found_by_the_checksum_and_the_others_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let spool = spool(dir.path(), 3);
        let mut bytes = fs::read(spool.path()).unwrap();
        let first = bytes.iter().position(|&b| b == b'\n').unwrap();
        bytes[first + 100] ^= 1;
        let contents = parse(&bytes);
        assert_eq!(contents.entries, [entry(0), entry(2)]);
        assert_eq!((contents.damaged.len(), contents.torn), (1, false));
    }

    #[test]
    fn an_emptied_spool_keeps_its_reserve_and_is_removed_when_it_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = spool(dir.path(), 20);
        let path = spool.path().to_owned();
        spool.empty().unwrap();
        assert_eq!(read(&path).unwrap(), Contents::default());
        assert_eq!(fs::metadata(&path).unwrap().len(), RESERVES[0]);
        spool.append(&entry(7)).unwrap();
        assert_eq!(read(&path).unwrap().entries, [entry(7)]);
        spool.empty().unwrap();
        spool.close();
        assert!(!path.exists());
    }

    #[test]
    fn a_spool_that_somebody_removed_is_made_again_with_all_its_entries() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = spool(dir.path(), 2);
        fs::remove_dir_all(dir.path().join("spool")).unwrap();
        spool.append(&entry(2)).unwrap();
        let entries = read(spool.path()).unwrap().entries;
        assert_eq!(entries, [entry(0), entry(1), entry(2)]);
        // Another run's, for another database.
        fs::remove_file(spool.path()).unwrap();
        fs::write(spool.path(), "theirs").unwrap();
        spool.append(&entry(3)).unwrap_err();
        assert_eq!(fs::read(spool.path()).unwrap(), b"theirs");
    }

    #[test]
    fn a_pipe_in_the_place_of_a_spool_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = spool_of(dir.path(), "s");
        fs::create_dir(dir.path().join("spool")).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(read(&path).is_err());
        assert!(Spool::reserve(dir.path(), "s").is_err());
        assert_eq!(waiting(dir.path(), "s"), 0);
    }

    #[test]
    fn a_spool_with_entries_stays_when_it_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        let spool = spool(dir.path(), 2);
        let (path, used) = (spool.path().to_owned(), spool.used);
        spool.close();
        assert_eq!(fs::metadata(&path).unwrap().len(), used);
        assert_eq!(read(&path).unwrap().entries.len(), 2);
    }

    #[test]
    fn a_spool_grows_beyond_its_reserve() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = spool(dir.path(), 0);
        let mut large = entry(0);
        large.study = "x".repeat(700_000);
        spool.append(&large).unwrap();
        spool.append(&large).unwrap();
        assert_eq!(read(spool.path()).unwrap().entries.len(), 2);
        let meta = fs::metadata(spool.path()).unwrap();
        assert_eq!(meta.len(), 2 * RESERVES[0]);
        assert!(meta.blocks() * 512 >= meta.len(), "taken from the disk");
    }

    #[test]
    fn what_a_failed_write_left_is_overwritten_by_the_next_entry() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = spool(dir.path(), 1);
        // A write that failed in its middle.
        let garbage = "y".repeat(5_000);
        spool
            .file
            .write_all_at(garbage.as_bytes(), spool.used)
            .unwrap();
        spool.append(&entry(1)).unwrap();
        let contents = read(spool.path()).unwrap();
        assert_eq!(contents.entries, [entry(0), entry(1)]);
        assert!(contents.torn);
    }
}
