//! `tune logs STUDY [N]`: what attempts and runs have printed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use super::commands::LogsArgs;
use super::{Common, answer, print_data};
use crate::query::{Answer, is_elsewhere, printable, read_trial};
use files::paths::logs_dir;
use files::{bounded, plain};
use messages::exit::{Exit, Failure};
use store::{AttemptRecord, Place, RunEntry, RunNode, Store, StudySummary};
use supervisor::{lock_owner, this_host};

/// How often it is looked whether a log has grown.
const LOOK: Duration = Duration::from_millis(200);

/// The longest log that is shown, in bytes; logs are kept below a size (`logs.attempt`).
const MOST: u64 = 1 << 30;

/// So much of the end of a log is read where only its last lines are shown, in bytes.
const END: u64 = 1 << 20;

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
    /// The text; null where the file is gone, or on another host.
    text: Option<String>,
    /// The host on which it was written, where it is there, or with another node, and not here.
    host: Option<String>,
    /// The node that has it, where that is another one, whose directory is not this one.
    node: Option<String>,
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
                None => out += &missing(&log.path, log.host.as_deref(), log.node.as_deref()),
            }
            if !out.is_empty() && !out.ends_with('\n') {
                out.push('\n');
            }
        }
        out
    }
}

/// What is said of a log that is not here.
fn missing(path: &Path, host: Option<&str>, node: Option<&str>) -> String {
    let path = printable(&path.display().to_string());
    let node = node.map(|node| format!("with node {} ", printable(node)));
    match host {
        Some(host) => format!(
            "{path} is {}on {}: ask there\n",
            node.unwrap_or_default(),
            printable(host)
        ),
        None => format!("{path} is gone\n"),
    }
}

pub(super) fn logs(common: &Common, storage: &Place, args: &LogsArgs) -> Result<Exit, Failure> {
    let store = Store::open_read_only(storage)?;
    let study = store::choose(&store, Some(&args.study))?;
    if args.follow {
        return follow(&store, &study, args);
    }
    let (logs, _) = meant(&store, &study, args)?;
    let read = |(of, path): (Option<Attempt>, PathBuf)| {
        let text = match read(&path) {
            Ok(text) => Some(last_lines(&text, args.tail).to_owned()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(Failure::storage(format!("{}: {e}", path.display()))),
        };
        let there = match (&of, &text) {
            (Some(of), None) => elsewhere(&store, &study, of)?,
            (None, _) | (_, Some(_)) => None,
        };
        let (host, node) = there.unzip();
        Ok(Log {
            attempt: of.map(|of| of.attempt),
            path,
            text,
            host,
            node: node.flatten(),
        })
    };
    let logs = Logs {
        study: study.name.clone(),
        number: args.number,
        logs: logs.into_iter().map(read).collect::<Result<_, _>>()?,
    };
    let none = logs.logs.iter().all(|log| log.text.is_none());
    match (common.json, none) {
        (true, false) => answer(common, &logs),
        (true, true) => answer(common, &logs).map(|_| Exit::BadInput),
        (false, true) => Err(Failure::input(logs.text().trim_end())),
        (false, false) => {
            let empty = |log: &&Log| log.text.as_deref() == Some("") && args.tail != Some(0);
            for log in logs.logs.iter().filter(empty) {
                report::err(&format!("{} is empty", log.path.display()));
            }
            print_data(&logs.text())
        }
    }
}

/// The attempt that a log is of.
#[derive(Clone, Copy)]
struct Attempt {
    attempt: u32,
    run_id: i64,
}

type Paths = Vec<(Option<Attempt>, PathBuf)>;

/// The host of an attempt's run, and its node, where that is another host than this, or a node of another directory.
fn elsewhere(
    store: &Store,
    study: &StudySummary,
    of: &Attempt,
) -> Result<Option<(String, Option<String>)>, Failure> {
    if let Some(node) = store.run_nodes(study.study_id)?.remove(&of.run_id) {
        let there = is_elsewhere(&node, &store.place().nodes_here());
        return Ok(there.then_some((node.host, Some(node.name))));
    }
    let runs = store.runs(study.study_id)?;
    let run = runs.into_iter().find(|run| run.run_id == of.run_id);
    let host = run.map(|run| run.record.host);
    let host = host.filter(|host| *host != this_host());
    Ok(host.map(|host| (host, None)))
}

/// The run whose log is meant by the study alone: of several nodes the last one of this node.
fn run_here(store: &Store, study: &StudySummary) -> Result<Option<RunEntry>, Failure> {
    let nodes = store.run_nodes(study.study_id)?;
    let own = |node: &RunNode| store.place().node() == Some(&*node.name);
    let last = nodes.iter().rev().find(|(_, node)| own(node));
    let Some((last, _)) = last else {
        return Ok(store.last_run(study.study_id)?);
    };
    let runs = store.runs(study.study_id)?;
    Ok(runs.into_iter().find(|run| run.run_id == *last))
}

/// The logs that are meant, and whether more may still be written to them.
fn meant(store: &Store, study: &StudySummary, args: &LogsArgs) -> Result<(Paths, bool), Failure> {
    let owner = lock_owner(store.place(), study);
    let live = owner.is_some();
    let dir = store.place().files();
    let Some(number) = args.number else {
        let run = run_here(store, study)?;
        // A run that has only just come has not recorded itself yet.
        let of = match (owner, &run) {
            (Some(owner), _) => Some((owner.pid, None)),
            (None, Some(run)) => Some((run.record.pid, Some(run.started.as_str()))),
            (None, None) => None,
        };
        let last = log_of_run(&logs_dir(&dir, &study.name), of);
        let last = last.ok_or_else(|| {
            Failure::input(format!("no run of {:?} has left a log here", study.name))
        })?;
        return Ok((vec![(None, last)], live));
    };
    let (_, trial, attempts) = read_trial(store, Some(&study.name), number)?;
    let of = |a: &AttemptRecord| {
        let of = Attempt {
            attempt: a.attempt,
            run_id: a.run_id,
        };
        Some((Some(of), inside(&dir, &a.log)?))
    };
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

/// The log of a run, of which its process and the time when it was recorded are known; where it is gone, that of the
/// last run.
fn log_of_run(dir: &Path, run: Option<(u32, Option<&str>)>) -> Option<PathBuf> {
    let entries = std::fs::read_dir(dir).ok()?.flatten();
    let mut names: Vec<String> = entries
        .filter_map(|e| e.file_name().into_string().ok())
        .filter(|name| name.starts_with("run-"))
        .collect();
    names.sort();
    let its = run.and_then(|(pid, recorded)| log_name(&names, pid, recorded));
    its.or(names.last()).map(|name| dir.join(name))
}

/// The name of the log of the process `pid`: of several the last one that was begun before the run was recorded, in
/// naive UTC. A log's name has the time and the process, `run-20261121T030000Z-7.log`.
fn log_name<'a>(names: &'a [String], pid: u32, recorded: Option<&str>) -> Option<&'a String> {
    let end = format!("Z-{pid}.log");
    let time = |text: &str| text.replace(['-', ':'], "").replace(' ', "T");
    let recorded = recorded.and_then(|text| Some(time(text.split('.').next()?)));
    let its = names.iter().filter_map(|name| {
        let begun = name.strip_prefix("run-")?.strip_suffix(&end)?;
        Some((begun, name))
    });
    let mut its = its.filter(|(begun, _)| recorded.as_deref().is_none_or(|time| *begun <= time));
    its.next_back().map(|(_, name)| name)
}

fn read(path: &Path) -> io::Result<String> {
    let file = plain::open(path, plain::For::Reading)?;
    Ok(String::from_utf8_lossy(&bounded::all(file, MOST)?).into_owned())
}

/// The last so many lines of a log, of which no more than its last megabyte is read; `None`: it is gone. The path is
/// relative to `dir`, and does not lead out of it.
pub(super) fn end(dir: &Path, log: &str, lines: usize) -> io::Result<Option<String>> {
    let Some(path) = inside(dir, log) else {
        return Ok(None);
    };
    let mut file = match plain::open(&path, plain::For::Reading) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(END)))?;
    let mut bytes = Vec::new();
    file.take(END).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(Some(last_lines(&text, Some(lines)).to_owned()))
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

/// Shows what comes, until the trial or the run has ended, or nobody reads it.
fn follow(store: &Store, study: &StudySummary, args: &LogsArgs) -> Result<Exit, Failure> {
    let mut shown: BTreeMap<PathBuf, u64> = BTreeMap::new();
    let mut missed = false;
    loop {
        // Looked at before the logs are read: what was printed before the end is still shown.
        let (logs, goes_on) = meant(store, study, args)?;
        for (of, path) in logs {
            let first = !shown.contains_key(&path);
            if let (true, Some(of)) = (first && !shown.is_empty(), of) {
                print_data(&headed(of.attempt, &path))?;
            }
            if let (true, Some(of)) = (first && !path.exists(), of)
                && let Some((host, node)) = elsewhere(store, study, &of)?
            {
                missed = true;
                report::err(missing(&path, Some(&host), node.as_deref()).trim_end());
            }
            let from = shown.entry(path.clone()).or_insert(0);
            let text = text_from(&path, from, goes_on)
                .map_err(|e| Failure::storage(format!("{}: {e}", path.display())))?;
            let tail = args.tail.filter(|_| first);
            let text = last_lines(&text, tail);
            if !text.is_empty() {
                print_data(text)?;
            }
        }
        if !goes_on || !report::wait_while_read(LOOK) {
            let nothing = missed && shown.values().all(|length| *length == 0);
            return Ok(match nothing {
                true => Exit::BadInput,
                false => Exit::Done,
            });
        }
    }
}

/// The text that stands in a file behind `from`, which moves to its end. Where it goes on, a character that is not whole yet
/// is left for the next time.
fn text_from(path: &Path, from: &mut u64, goes_on: bool) -> io::Result<String> {
    let bytes = read_from(path, from)?;
    let begun = |tail: &usize| {
        let tail = std::str::from_utf8(&bytes[bytes.len() - tail..]);
        tail.is_err_and(|e| e.valid_up_to() == 0 && e.error_len().is_none())
    };
    // A character has four bytes at most.
    let left = (1..=bytes.len().min(3)).find(begun).filter(|_| goes_on);
    let left = left.unwrap_or(0);
    *from -= left as u64;
    Ok(String::from_utf8_lossy(&bytes[..bytes.len() - left]).into_owned())
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
    fn the_log_of_a_run_is_found_by_its_process_and_its_time() {
        let names = [
            "run-20261121T030000Z-1.log",
            "run-20261121T050000Z-17.log",
            "run-20261122T030000Z-1.log",
        ]
        .map(str::to_owned);
        let of = |pid, recorded| log_name(&names, pid, recorded).cloned();
        assert_eq!(of(1, Some("2026-11-21 03:00:00.5")).as_ref(), names.first());
        assert_eq!(of(1, Some("2026-11-22 03:00:01.0")).as_ref(), names.last());
        assert_eq!(of(1, None).as_ref(), names.last());
        assert_eq!(of(7, None), None);
    }

    #[test]
    fn a_character_that_comes_in_two_parts_is_shown_whole() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (mut from, text) = (0, "aé€😀\n");
        let mut shown = String::new();
        for end in 1..=text.len() {
            std::fs::write(file.path(), &text.as_bytes()[..end]).unwrap();
            shown += &text_from(file.path(), &mut from, true).unwrap();
        }
        assert_eq!(shown, text);
        // What is no text is shown all the same, and so is what nothing follows.
        std::fs::write(file.path(), b"a\xff\xe2\x82").unwrap();
        from = 0;
        assert_eq!(
            text_from(file.path(), &mut from, true).unwrap(),
            "a\u{fffd}"
        );
        assert_eq!(
            text_from(file.path(), &mut from, false).unwrap(),
            "\u{fffd}"
        );
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
