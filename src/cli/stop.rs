//! `tune stop`: asks the runs of a study to stop, and waits until they have.

use std::thread;
use std::time::Duration;

use serde::Serialize;

use super::commands::StopArgs;
use super::{Common, answer, run};
use crate::query::{self, Answer, printable};
use config::places::Wanted;
use messages::exit::{Exit, Failure};
use report::format::plural;
use store::{Node, Place, StopAsked, Store, StudySummary};
use supervisor::{LockOwner, ask_to_stop, lock_owner};

/// How often it is looked whether a run has ended.
const LOOK: Duration = Duration::from_millis(100);

/// The same of runs on other nodes, by the server.
const LOOK_AT_NODES: Duration = Duration::from_millis(500);

/// How a study was stopped.
#[derive(Debug, Serialize)]
struct Stopped {
    study: String,
    /// The process of this machine that worked on it; null where none did.
    pid: Option<u32>,
    /// What its run ended with; null where that is not known.
    exit: Option<u8>,
    /// The nodes that were asked (`--all`).
    nodes: Vec<StoppedNode>,
}

/// A node that was asked to stop.
#[derive(Debug, Serialize)]
struct StoppedNode {
    name: String,
    host: String,
    pid: u32,
    /// What its run ended with; null where it was not heard of until its lease had ended.
    exit: Option<u8>,
}

impl Answer for Stopped {
    fn text(&self) -> String {
        let study = printable(&self.study);
        let mut out = String::new();
        for node in &self.nodes {
            let what = process_of(&node.name, &node.host, node.pid);
            out += &match node.exit {
                Some(code) => format!("{study}: {what} {}\n", ended_with(code)),
                None => format!(
                    "{study}: {what} was not heard of, and has lost its trials: the next run takes them over\n"
                ),
            };
        }
        out += &match (self.pid, self.exit) {
            (None, _) if self.nodes.is_empty() => {
                format!("nothing to stop: no process works on {study}\n")
            }
            (None, _) => String::new(),
            (Some(pid), Some(code)) => format!("{study}: process {pid} {}\n", ended_with(code)),
            (Some(pid), None) => format!("{study}: process {pid} has ended\n"),
        };
        out
    }
}

fn ended_with(code: u8) -> String {
    format!(
        "has ended with exit code {code} ({})",
        Exit::meaning_of(code)
    )
}

/// `node b (process 123 on gpu2)`
fn process_of(name: &str, host: &str, pid: u32) -> String {
    let (name, host) = (printable(name), printable(host));
    format!("node {name} (process {pid} on {host})")
}

pub(super) fn stop(common: &Common, args: &StopArgs) -> Result<Exit, Failure> {
    let storage = run::storage(&run::existing_project(common, Wanted::Studies)?, common)?;
    let store = Store::open_read_only(&storage)?;
    let study = store::choose(&store, Some(&args.study))?;
    let tell = |text: String| {
        if common.loud() {
            report::err(&format!("{}: {text}", printable(&study.name)));
        }
    };
    let mut stopped = Stopped {
        study: study.name.clone(),
        pid: None,
        exit: None,
        nodes: Vec::new(),
    };
    if args.all {
        stopped.nodes = stop_nodes(&store, &study, args.now, &tell)?;
    }
    let owner = lock_owner(&storage, &study);
    if owner.is_none() && !args.all {
        let others = working(&store, &study, store.place().node())?;
        if !others.is_empty() {
            return Err(Failure::new(
                Exit::Held,
                format!(
                    "at work on {}: {}; stop it there, or all nodes with --all",
                    printable(&study.name),
                    listed(&others)
                ),
            ));
        }
    }
    if let Some(owner) = owner {
        stop_here(&storage, &study, &owner, args.now, &tell)?;
        let runs = store.runs(study.study_id)?;
        let its = runs.iter().rev().find(|run| run.record.pid == owner.pid);
        stopped.exit = its.and_then(|run| run.exit);
        stopped.pid = Some(owner.pid);
        let others = working(&store, &study, store.place().node())?;
        if !others.is_empty() {
            tell(format!("still at work: {}", listed(&others)));
        }
    }
    answer(common, &stopped)
}

/// Asks the process that works on a study in this project, and waits until it has ended.
fn stop_here(
    storage: &Place,
    study: &StudySummary,
    owner: &LockOwner,
    at_once: bool,
    tell: &dyn Fn(String),
) -> Result<(), Failure> {
    let pid = owner.pid;
    if ask_to_stop(storage, study, owner, at_once)? {
        tell(format!("process {pid} was suspended, and goes on to stop"));
    }
    tell(format!(
        "process {pid} was asked to stop. {}",
        follows(at_once)
    ));
    let mut waits = at_once;
    while let Some(now) = lock_owner(storage, study).filter(|now| now.pid == pid) {
        if let (false, Some(stopping)) = (waits, &now.stopping) {
            waits = true;
            let text = query::waits_text(stopping, messages::clock::now());
            tell(format!("{text}. --now puts running trials back at once"));
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

/// What a run does that is asked to stop.
fn follows(at_once: bool) -> &'static str {
    match at_once {
        true => "Running trials are put back at once",
        false => "It starts nothing new",
    }
}

/// Asks all nodes that work on a study, this one among them, and waits until they have ended or lost their trials.
fn stop_nodes(
    store: &Store,
    study: &StudySummary,
    at_once: bool,
    tell: &dyn Fn(String),
) -> Result<Vec<StoppedNode>, Failure> {
    let asked = working(store, study, None)?;
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let how = match at_once {
        true => StopAsked::Now,
        false => StopAsked::Soon,
    };
    Store::open_existing(store.place())?.ask_nodes_to_stop(study.study_id, how)?;
    for node in &asked {
        let runs = match plural(node.trials.len() as u64, "trial") {
            _ if node.trials.is_empty() => String::new(),
            trials => format!(", which runs {trials},"),
        };
        let (what, follows) = (
            process_of(&node.name, &node.host, node.pid),
            follows(at_once),
        );
        tell(format!("{what}{runs} was asked to stop. {follows}"));
    }
    let mut left: Vec<i64> = asked.iter().map(|node| node.run_id).collect();
    let mut ended = Vec::new();
    loop {
        let nodes = store.nodes(study.study_id)?;
        for node in nodes.iter().filter(|node| !node.is_live()) {
            if let Some(at) = left.iter().position(|run| *run == node.run_id) {
                left.remove(at);
                ended.push(StoppedNode {
                    name: node.name.clone(),
                    host: node.host.clone(),
                    pid: node.pid,
                    exit: node.exit,
                });
            }
        }
        // A node that has begun another run meanwhile has ended the one that was asked.
        left.retain(|run| nodes.iter().any(|node| node.run_id == *run));
        if left.is_empty() {
            return Ok(ended);
        }
        thread::sleep(LOOK_AT_NODES);
    }
}

/// The nodes that work on a study which several share, but the one of this name.
fn working(store: &Store, study: &StudySummary, but: Option<&str>) -> Result<Vec<Node>, Failure> {
    let mut nodes = store.nodes(study.study_id)?;
    nodes.retain(|node| node.is_live() && but != Some(&*node.name));
    Ok(nodes)
}

fn listed(nodes: &[Node]) -> String {
    let each = nodes
        .iter()
        .map(|node| process_of(&node.name, &node.host, node.pid));
    each.collect::<Vec<_>>().join(", ")
}
