//! W&B's directories of runs that were made offline: `wandb/offline-run-TIME-ID/run-ID.wandb`, a log of records that
//! `wandb sync` sends on. The records are messages of `wandb/proto/wandb_internal.proto`, as far as they are used here; the
//! log has LevelDB's format with another checksum and a header of its own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use messages::json_number;
use prost::{Message, Oneof};
use search::study::{FrozenTrial, TrialState};
use serde_json::Value as Json;

use crate::mlflow::{run_id, run_name};
use crate::{NAME, TEXT, Trials, milliseconds, plain, replace};

/// Longer names of projects are refused by W&B, in characters.
const PROJECT: usize = 128;

/// Writes the runs of all trials that have begun into a directory.
///
/// # Errors
/// Writing failed.
pub fn wandb(study: &Trials<'_>, dir: &Path) -> io::Result<()> {
    study
        .trials
        .iter()
        .try_for_each(|trial| run(study, trial, dir))
}

/// Writes a trial's run, unless it is there as it is to be. The file is whole whenever it is read.
pub(crate) fn run(study: &Trials<'_>, trial: &FrozenTrial, dir: &Path) -> io::Result<()> {
    if trial.state == TrialState::Waiting {
        return Ok(());
    }
    let id = run_id(study.study, trial.number);
    let (home, content) = (home(dir, trial, &id), log(&records(study, trial, &id)));
    let file = home.join(format!("run-{id}.wandb"));
    if fs::read(&file).is_ok_and(|there| there == content) {
        return Ok(());
    }
    fs::create_dir_all(home.join("files"))?;
    replace(&home, &file, &content)?;
    // What `wandb sync` marks as sent is another file now.
    match fs::remove_file(home.join(format!("run-{id}.wandb.synced"))) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        Err(_) | Ok(()) => Ok(()),
    }
}

/// The directory of a run, named by when it began, as `wandb` names them.
fn home(dir: &Path, trial: &FrozenTrial, id: &str) -> PathBuf {
    let start = trial.datetime_start.as_deref();
    let start = start.and_then(messages::clock::stored).unwrap_or_default();
    let time = start.strftime("%Y%m%d_%H%M%S");
    dir.join("wandb").join(format!("offline-run-{time}-{id}"))
}

/// All that is told of a trial: its parameters, the first objective step by step, what it came to, and its end.
fn records(study: &Trials<'_>, trial: &FrozenTrial, id: &str) -> Vec<Told> {
    let mut config: Vec<Item> = (trial.params.iter())
        .map(|(name, value)| Item::of(name, &value.to_json()))
        .collect();
    config.push(Item::of("tune.number", &trial.number.into()));
    let header = Told::Header(Header {
        version: Some(Version {
            producer: concat!("tune ", env!("CARGO_PKG_VERSION")).to_owned(),
            min_consumer: OLDEST_READER.to_owned(),
        }),
    });
    let start = milliseconds(trial.datetime_start.as_deref()).unwrap_or(0);
    let run = Told::Run(Run {
        run_id: id.to_owned(),
        project: project(study.study),
        config: Some(Updates { update: config }),
        display_name: run_name(trial),
        start_time: Some(Time {
            seconds: start.div_euclid(1000),
            nanos: (start.rem_euclid(1000) * 1_000_000) as i32,
        }),
    });
    let curve = trial.intermediate.iter().map(|(step, value)| {
        Told::History(History {
            item: vec![
                Item::of(study.curve_name(), &json_number(*value)),
                Item::of("_step", &(*step).into()),
            ],
            step: Some(Step { num: *step }),
        })
    });
    let mut all: Vec<Told> = [header, run].into_iter().chain(curve).collect();
    if trial.state.finished() {
        let scalars = study.scalars(trial).into_iter();
        let last = |(name, steps): (String, Vec<(i64, f64)>)| {
            let (_, value) = steps.last()?;
            Some(Item::of(&name, &json_number(*value)))
        };
        let mut summary: Vec<Item> = scalars.filter_map(last).collect();
        summary.push(Item::of("tune.state", &trial.state.to_string().into()));
        all.push(Told::Summary(Updates { update: summary }));
        let exit_code = i32::from(trial.state == TrialState::Fail);
        all.push(Told::Exit(Exit { exit_code }));
    }
    all
}

/// What W&B takes for a project's name.
fn project(study: &str) -> String {
    let allowed = |c: char| match c {
        '/' | '\\' | '#' | '?' | '%' | ':' => '_',
        c => c,
    };
    let name = plain(study, usize::MAX);
    name.chars().map(allowed).take(PROJECT).collect()
}

/// The oldest reader of such a file, as `wandb` 0.31 itself names it.
const OLDEST_READER: &str = "0.70.0";

/// The log's records are spread over blocks of this many bytes.
const BLOCK: usize = 1 << 15;

/// Checksum, length and kind of a piece of a record.
const PIECE: usize = 7;

/// A whole log.
fn log(records: &[Told]) -> Vec<u8> {
    let mut log = b":W&B\xe1\xbe\0".to_vec();
    for (num, told) in (1..).zip(records) {
        let told = Some(told.clone());
        append(&mut log, &Record { num, told }.encode_to_vec());
    }
    log
}

/// Appends a record in as many pieces as it takes; no piece is in two blocks.
fn append(log: &mut Vec<u8>, mut record: &[u8]) {
    let mut first = true;
    loop {
        let mut room = BLOCK - log.len() % BLOCK;
        if room < PIECE {
            log.resize(log.len() + room, 0);
            room = BLOCK;
        }
        let (piece, rest) = record.split_at(record.len().min(room - PIECE));
        let kind: u8 = match (first, rest.is_empty()) {
            (true, true) => 1,
            (true, false) => 2,
            (false, false) => 3,
            (false, true) => 4,
        };
        let mut sum = crc32fast::Hasher::new();
        sum.update(&[kind]);
        sum.update(piece);
        log.extend_from_slice(&sum.finalize().to_le_bytes());
        log.extend_from_slice(&(piece.len() as u16).to_le_bytes());
        log.push(kind);
        log.extend_from_slice(piece);
        if rest.is_empty() {
            return;
        }
        (record, first) = (rest, false);
    }
}

#[derive(Clone, PartialEq, Message)]
struct Record {
    #[prost(int64, tag = "1")]
    num: i64,
    #[prost(oneof = "Told", tags = "2, 3, 17, 18, 21")]
    told: Option<Told>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Told {
    #[prost(message, tag = "2")]
    History(History),
    #[prost(message, tag = "3")]
    Summary(Updates),
    #[prost(message, tag = "17")]
    Run(Run),
    #[prost(message, tag = "18")]
    Exit(Exit),
    #[prost(message, tag = "21")]
    Header(Header),
}

#[derive(Clone, PartialEq, Message)]
struct Header {
    #[prost(message, optional, tag = "1")]
    version: Option<Version>,
}

#[derive(Clone, PartialEq, Message)]
struct Version {
    #[prost(string, tag = "1")]
    producer: String,
    #[prost(string, tag = "2")]
    min_consumer: String,
}

#[derive(Clone, PartialEq, Message)]
struct Run {
    #[prost(string, tag = "1")]
    run_id: String,
    #[prost(string, tag = "3")]
    project: String,
    #[prost(message, optional, tag = "4")]
    config: Option<Updates>,
    #[prost(string, tag = "8")]
    display_name: String,
    #[prost(message, optional, tag = "17")]
    start_time: Option<Time>,
}

/// `google.protobuf.Timestamp`.
#[derive(Clone, PartialEq, Message)]
struct Time {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

#[derive(Clone, PartialEq, Message)]
struct Updates {
    #[prost(message, repeated, tag = "1")]
    update: Vec<Item>,
}

#[derive(Clone, PartialEq, Message)]
struct History {
    #[prost(message, repeated, tag = "1")]
    item: Vec<Item>,
    #[prost(message, optional, tag = "2")]
    step: Option<Step>,
}

#[derive(Clone, PartialEq, Message)]
struct Step {
    #[prost(int64, tag = "1")]
    num: i64,
}

/// A name with its value, which is JSON.
#[derive(Clone, PartialEq, Message)]
struct Item {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "16")]
    value_json: String,
}

impl Item {
    fn of(name: &str, value: &Json) -> Item {
        let text = value.as_str().map(|text| Json::from(plain(text, TEXT)));
        Item {
            key: plain(name, NAME),
            value_json: text.as_ref().unwrap_or(value).to_string(),
        }
    }
}

#[derive(Clone, PartialEq, Message)]
struct Exit {
    #[prost(int32, tag = "1")]
    exit_code: i32,
}
