//! `tune logs STUDY [N]`: what attempts and runs have printed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde::Serialize;

use super::commands::LogsArgs;
use super::{Common, answer, print_data};
use crate::query::{Answer, printable, read_trial};
use files::paths::{directory_of, logs_dir};
use files::{bounded, plain};
use messages::exit::{Exit, Failure};
use store::{AttemptRecord, Store, StudySummary};
use supervisor::lock_owner;

/// How often it is looked whether a log has grown.
const LOOK: Duration = Duration::from_millis(200);

/// The longest log that is shown, in bytes; logs are kept below a size (`logs.attempt`).
const MOST: u64 = 1 << 30;

/// Logs, in the order in which they were begun.
#[derive(Serialize)]
struct Logs {
    study: String,
    /// Null for the log of a run.
    number: Option<u64>,
    logs: Vec<Log>,
}

#[derive(Serialize)]
struct Log {
    /// Null for the log of a run.
    attempt: Option<u32>,
    path: PathBuf,
    /// The text; null where the file is gone.
    text: Option<String>,
}

impl Answer for Logs {
    fn text(&self) -> String {
        let several = self.logs.len() > 1;
        let mut out = String::new();
        for log in &self.logs {
            if several {
                out += &headed(log.attempt.unwrap_or_default(), &log.path);
            }
            match &log.text {
                Some(text) => out += text,
                None => out += &format!("{} is gone\n", printable(&log.path.display().to_string())),
            }
            if !out.ends_with('\n') {
                out.push('\n');
            }
        }
        out
    }
}

pub(super) fn logs(common: &Common, storage: &Path, args: &LogsArgs) -> Result<Exit, Failure> {
    let store = Store::open_read_only(storage)?;
    let study = store::choose(&store, Some(&args.study))?;
    if args.follow {
        return follow(&store, &study, args);
    }
    let (logs, _) = meant(&store, &study, args)?;
    let read = |(attempt, path): (Option<u32>, PathBuf)| {
        let text = match read(&path) {
            Ok(text) => Some(last_lines(&text, args.tail).to_owned()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(Failure::storage(format!("{}: {e}", path.display()))),
        };
        Ok(Log {
            attempt,
            path,
            text,
        })
    };
    let logs = Logs {
        study: study.name.clone(),
        number: args.number,
        logs: logs.into_iter().map(read).collect::<Result<_, _>>()?,
    };
    if common.json {
        answer(common, &logs)
    } else {
        print_data(&logs.text())
    }
}

type Paths = Vec<(Option<u32>, PathBuf)>;

/// The logs that are meant, and whether more may still be written to them.
fn meant(store: &Store, study: &StudySummary, args: &LogsArgs) -> Result<(Paths, bool), Failure> {
    let live = lock_owner(store.path(), study).is_some();
    let dir = directory_of(store.path());
    let Some(number) = args.number else {
        let last = last_run(&logs_dir(&dir, &study.name));
        let last = last
            .ok_or_else(|| Failure::input(format!("no run of {:?} has left a log", study.name)))?;
        return Ok((vec![(None, last)], live));
    };
    let (_, trial, attempts) = read_trial(store, Some(&study.name), number)?;
    let of = |a: &AttemptRecord| Some((Some(a.attempt), inside(&dir, &a.log)?));
    let wanted = |a: &&AttemptRecord| args.attempt.is_none_or(|k| a.attempt == k);
    let logs: Paths = attempts.iter().filter(wanted).filter_map(of).collect();
    let ended = attempts.iter().filter(wanted).all(|a| a.ended.is_some());
    let over = trial.state.finished() || args.attempt.is_some() && ended && !logs.is_empty();
    match (logs.is_empty(), args.attempt) {
        (true, Some(k)) => Err(Failure::input(format!(
            "trial {number} has no attempt {k}; it has had {}",
            report::format::plural(attempts.len() as u64, "attempt")
        ))),
        (true, None) if !args.follow => Err(Failure::input(format!(
            "trial {number} ({}) has no log: it has had no attempt",
            trial.state
        ))),
        (_, _) => Ok((logs, live && !over)),
    }
}

/// A path below `dir`; `None` where it leads out of it.
fn inside(dir: &Path, path: &str) -> Option<PathBuf> {
    let mut parts = Path::new(path).components();
    let plain = parts.all(|part| matches!(part, Component::Normal(_)));
    plain.then(|| dir.join(path))
}

/// The log of the last run; its name begins with its time.
fn last_run(dir: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(dir)
        .ok()?
        .flatten()
        .map(|e| e.file_name());
    let runs = entries.filter(|name| name.to_string_lossy().starts_with("run-"));
    runs.max().map(|name| dir.join(name))
}

fn read(path: &Path) -> io::Result<String> {
    let file = plain::open(path, plain::For::Reading)?;
    Ok(String::from_utf8_lossy(&bounded::all(file, MOST)?).into_owned())
}

/// The last so many lines of a text; without a number all.
fn last_lines(text: &str, lines: Option<usize>) -> &str {
    let Some(lines) = lines else {
        return text;
    };
    let mut ends = text
        .trim_end_matches('\n')
        .rmatch_indices('\n')
        .map(|(at, _)| at + 1);
    match lines {
        0 => "",
        n => ends.nth(n - 1).map_or(text, |at| &text[at..]),
    }
}

fn headed(attempt: u32, path: &Path) -> String {
    format!("==> attempt {attempt}: {} <==\n", path.display())
}

/// Shows what comes, until the trial or the run has ended.
fn follow(store: &Store, study: &StudySummary, args: &LogsArgs) -> Result<Exit, Failure> {
    let mut shown: BTreeMap<PathBuf, u64> = BTreeMap::new();
    loop {
        // Looked at before the logs are read: what was printed before the end is still shown.
        let (logs, goes_on) = meant(store, study, args)?;
        for (attempt, path) in logs {
            let first = !shown.contains_key(&path);
            if let (true, Some(attempt)) = (first && !shown.is_empty(), attempt) {
                print_data(&headed(attempt, &path))?;
            }
            let from = shown.entry(path.clone()).or_insert(0);
            let text = read_from(&path, from)
                .map_err(|e| Failure::storage(format!("{}: {e}", path.display())))?;
            let text = String::from_utf8_lossy(&text);
            let tail = args.tail.filter(|_| first);
            let text = last_lines(&text, tail);
            if !text.is_empty() {
                print_data(text)?;
            }
        }
        if !goes_on {
            return Ok(Exit::Done);
        }
        thread::sleep(LOOK);
    }
}

/// What stands in a file behind `from`, which moves to its end. A file that was cut is read on from its new end.
fn read_from(path: &Path, from: &mut u64) -> io::Result<Vec<u8>> {
    let mut file: File = match plain::open(path, plain::For::Reading) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let length = file.metadata()?.len();
    *from = (*from).min(length);
    file.seek(SeekFrom::Start(*from))?;
    let mut bytes = Vec::new();
    file.take(length - *from).read_to_end(&mut bytes)?;
    *from += bytes.len() as u64;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_whole_ones() {
        let text = "a\nb\nc\n";
        assert_eq!(last_lines(text, None), text);
        assert_eq!(last_lines(text, Some(2)), "b\nc\n");
        assert_eq!(last_lines(text, Some(9)), text);
        assert_eq!(last_lines(text, Some(0)), "");
        assert_eq!(last_lines("a\nb", Some(1)), "b");
        assert_eq!(last_lines("", Some(3)), "");
    }

    #[test]
    fn a_log_is_read_on_from_where_it_was_left() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut from = 0;
        std::fs::write(file.path(), "one").unwrap();
        assert_eq!(read_from(file.path(), &mut from).unwrap(), b"one");
        std::fs::write(file.path(), "onetwo").unwrap();
        assert_eq!(read_from(file.path(), &mut from).unwrap(), b"two");
        std::fs::write(file.path(), "x").unwrap();
        assert_eq!(read_from(file.path(), &mut from).unwrap(), b"");
        assert_eq!(from, 1);
        assert_eq!(
            read_from(Path::new("/none/at/all"), &mut from).unwrap(),
            b""
        );
    }
}
