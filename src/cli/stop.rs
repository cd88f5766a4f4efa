//! `tune stop`: asks the runs of a study to stop, and waits until they have.

use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::commands::StopArgs;
use super::{Common, answer, run};
use crate::query::{self, Answer, printable, shell_word};
use config::places::Wanted;
use files::name::part;
use messages::exit::{Exit, Failure};
use report::format::plural;
use store::{Node, Place, StopAsked, Store, StudySummary};
use supervisor::{LockOwner, ask_to_stop, lock_owner};

/// How often it is looked whether a run has ended.
const LOOK: Duration = Duration::from_millis(100);

/// The same of runs on other nodes, by the server.
const LOOK_AT_NODES: Duration = Duration::from_millis(500);

/// So many looks in a row have to find that a lease has ended: one that is as short as a second can seem to have, because the
/// server counts whole seconds.
const SILENT: u32 = 2;

/// How often it is told who is still waited for.
const REMIND: Duration = Duration::from_secs(60);

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
    /// Whether it would go on, should it come back: for the line only.
    #[serde(skip)]
    deaf: bool,
}

impl StoppedNode {
    fn of(node: &Node, deaf: bool) -> StoppedNode {
        StoppedNode {
            name: node.name.clone(),
            host: node.host.clone(),
            pid: node.pid,
            exit: node.exit,
            deaf,
        }
    }
}

impl Answer for Stopped {
    fn text(&self) -> String {
        let study = printable(&self.study);
        let mut out = String::new();
        for node in &self.nodes {
            let what = process_of(&node.name, &node.host, node.pid);
            out += &match node.exit {
                Some(code) => format!("{study}: {what} {}\n", ended_with(code)),
                None => {
                    let back = match node.deaf {
                        true => "it goes on, by an older version of tune: stop it there",
                        false => "it stops",
                    };
                    format!(
                        "{study}: {what} was not heard of, and has lost its trials: the next run takes them over. \
                         Should it come back, {back}\n"
                    )
                }
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
        let here = store.place().nodes_here();
        // One of this name may work in another directory.
        let own = (store.place().node()).filter(|own| here.contains(&part(own).into_owned()));
        let others = working(&store, &study, own)?;
        if !others.is_empty() {
            let what = which(&storage, &study, &others);
            return Err(at_work(&study, &others, &what));
        }
    }
    if let Some(owner) = owner {
        stop_here(&storage, &study, &owner, args.now, &tell)?;
        let runs = store.runs(study.study_id)?;
        let its = runs.iter().rev().find(|run| run.record.pid == owner.pid);
        stopped.exit = its.and_then(|run| run.exit);
        stopped.pid = Some(owner.pid);
    }
    finish(common, args, &store, &study, &stopped, &tell)
}

/// Tells what has ended, and who works on.
fn finish(
    common: &Common,
    args: &StopArgs,
    store: &Store,
    study: &StudySummary,
    stopped: &Stopped,
    tell: &dyn Fn(String),
) -> Result<Exit, Failure> {
    if !args.all {
        let others = working(store, study, store.place().node())?;
        if !others.is_empty() {
            tell(format!("still at work: {}", listed(&others)));
        }
        return answer(common, stopped);
    }
    let begun = working(store, study, None)?;
    // Nothing was asked, and yet something works: that is all there is to say.
    if begun.is_empty() || !stopped.nodes.is_empty() || stopped.pid.is_some() {
        answer(common, stopped)?;
    }
    if begun.is_empty() {
        return Ok(Exit::Done);
    }
    let what = "begun or come back since; where an engine starts its nodes again, end its job";
    Err(at_work(study, &begun, what))
}

/// How these nodes are stopped: those of this directory by their names.
fn which(storage: &Place, study: &StudySummary, nodes: &[Node]) -> String {
    let here = |node: &&Node| {
        let owner = lock_owner(&storage.of_node(&node.name), study);
        owner.is_some_and(|owner| owner.is_here())
    };
    let names = nodes.iter().filter(here);
    let names: Vec<String> = names
        .map(|node| format!("TUNE_NODE={}", shell_word(&node.name)))
        .collect();
    match names.is_empty() {
        true => "stop it there, or all nodes with --all".to_owned(),
        false => format!(
            "say {} to stop that one here, or stop all nodes with --all",
            names.join(" or ")
        ),
    }
}

/// The study is held by these nodes; `what` is to be done.
fn at_work(study: &StudySummary, nodes: &[Node], what: &str) -> Failure {
    let text = format!(
        "at work on {}: {}; {what}",
        printable(&study.name),
        listed(nodes)
    );
    Failure::new(Exit::Held, text)
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

/// Asks all nodes of a study whose runs have not ended, this one among them, and waits until they have ended or are not
/// heard of.
fn stop_nodes(
    store: &Store,
    study: &StudySummary,
    at_once: bool,
    tell: &dyn Fn(String),
) -> Result<Vec<StoppedNode>, Failure> {
    let mut open = store.nodes(study.study_id)?;
    open.retain(|node| node.exit.is_none());
    if open.is_empty() {
        return Ok(Vec::new());
    }
    let takes_requests = store.takes_requests()?;
    let deaf = |node: &Node| !takes_requests || is_older(&node.version);
    let mut cannot = open.clone();
    cannot.retain(|node| node.is_live() && deaf(node));
    if !cannot.is_empty() {
        let what = "an older version of tune, which hears of no request from elsewhere; stop it there first";
        return Err(at_work(study, &cannot, what));
    }
    // Opening the database to ask brings it to this version, in which those who come back could not start again.
    if open.iter().all(deaf) {
        let silent = open.iter().map(|node| StoppedNode::of(node, true));
        return Ok(silent.collect());
    }
    let how = match at_once {
        true => StopAsked::Now,
        false => StopAsked::Soon,
    };
    let runs = Store::open_existing(store.place())?.ask_nodes_to_stop(study.study_id, how)?;
    let mut asked = store.nodes(study.study_id)?;
    asked.retain(|node| runs.contains(&node.run_id));
    for node in asked.iter().filter(|node| !deaf(node)) {
        tell(was_asked(node, at_once));
    }
    wait_for(store, study, &asked, tell)
}

/// Whether this is a version before this program's. What is no version of `tune` is not.
fn is_older(version: &str) -> bool {
    let numbers = |version: &str| -> Option<Vec<u64>> {
        let release = version.split(['-', '+']).next()?;
        release.split('.').map(|part| part.parse().ok()).collect()
    };
    numbers(version).is_some_and(|its| Some(its) < numbers(env!("CARGO_PKG_VERSION")))
}

/// `node b (process 123 on gpu2), which runs 2 trials, was asked to stop. It starts nothing new`
fn was_asked(node: &Node, at_once: bool) -> String {
    let what = process_of(&node.name, &node.host, node.pid);
    if !node.is_live() {
        return format!("{what} is not heard of; it is asked to stop should it come back");
    }
    let runs = match plural(node.trials.len() as u64, "trial") {
        _ if node.trials.is_empty() => String::new(),
        trials => format!(", which runs {trials},"),
    };
    format!("{what}{runs} was asked to stop. {}", follows(at_once))
}

/// Waits until the runs of these nodes have ended, or their leases have. By the runs: a node may begin another one.
fn wait_for(
    store: &Store,
    study: &StudySummary,
    asked: &[Node],
    tell: &dyn Fn(String),
) -> Result<Vec<StoppedNode>, Failure> {
    // With each run: how many looks in a row have found that its lease has ended.
    let mut left: Vec<(i64, u32)> = asked.iter().map(|node| (node.run_id, 0)).collect();
    let mut ended = Vec::new();
    let mut told = Instant::now();
    while !left.is_empty() {
        let runs: Vec<i64> = left.iter().map(|(run, _)| *run).collect();
        let nodes = store.nodes_of_runs(study.study_id, &runs)?;
        left.retain_mut(|(run, silent)| {
            // None: the study was deleted.
            let Some(node) = nodes.iter().find(|node| node.run_id == *run) else {
                return false;
            };
            *silent = if node.left > 0 { 0 } else { *silent + 1 };
            let over = node.exit.is_some() || *silent >= SILENT;
            if over {
                ended.push(StoppedNode::of(node, is_older(&node.version)));
            }
            !over
        });
        if left.is_empty() {
            break;
        }
        if told.elapsed() >= REMIND {
            told = Instant::now();
            let mut waited = nodes;
            waited.retain(|node| left.iter().any(|(run, _)| *run == node.run_id));
            tell(format!("waiting for {}", listed(&waited)));
        }
        thread::sleep(LOOK_AT_NODES);
    }
    Ok(ended)
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

#[cfg(test)]
mod tests {
    use super::is_older;

    #[test]
    fn a_version_is_older_by_its_numbers() {
        assert!(is_older("0.0.9"));
        assert!(!is_older(env!("CARGO_PKG_VERSION")));
        assert!(!is_older("1000.0.0"));
        assert!(!is_older("of another program"));
    }
}
