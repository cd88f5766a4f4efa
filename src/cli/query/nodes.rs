//! The nodes that work on a study, and have worked on it.

use serde::Serialize;

use super::Answer;
use super::format::{self, printable, rfc3339};
use files::name::part;
use messages::exit::Failure;
use report::format::{duration, plural, table_of};
use store::{Node, RunNode, Store, StudySummary};
use supervisor::lock_owner;

/// So many trials of a node are named.
const NAMED: usize = 8;

/// How a node stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum NodeState {
    /// It holds its trials.
    Working,
    /// It was not heard of for so long that its trials are anybody's.
    Lost,
    /// Its run has ended.
    Ended,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct NodeLine {
    node: String,
    state: NodeState,
    host: String,
    pid: u32,
    /// When its run began, RFC 3339.
    since: String,
    /// Seconds since it was last heard of.
    heard_s: i64,
    /// Seconds until others may take its trials, if it is not heard of again; null: they may now, or it holds none.
    lease_left_s: Option<i64>,
    /// The trials that it runs.
    trials: Vec<u64>,
    /// With what its run ended; null: it has not.
    exit: Option<u8>,
}

impl NodeLine {
    fn of(node: Node) -> NodeLine {
        let live = node.is_live();
        NodeLine {
            state: match (live, node.exit) {
                (true, _) => NodeState::Working,
                (false, None) => NodeState::Lost,
                (false, Some(_)) => NodeState::Ended,
            },
            since: rfc3339(&node.started),
            heard_s: node.heard,
            lease_left_s: live.then_some(node.left),
            trials: node.trials,
            exit: node.exit,
            node: node.name,
            host: node.host,
            pid: node.pid,
        }
    }

    /// Whether it holds its trials.
    pub(super) fn is_live(&self) -> bool {
        self.state == NodeState::Working
    }

    /// Whether its run has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.state == NodeState::Ended
    }

    /// Whether it runs this trial.
    pub(super) fn runs(&self, number: u64) -> bool {
        self.is_live() && self.trials.contains(&number)
    }

    /// Its name.
    pub(super) fn name(&self) -> String {
        printable(&self.node)
    }

    fn heard(&self) -> String {
        format!("{} ago", format::duration(self.heard_s as f64))
    }

    fn state(&self) -> String {
        match (self.state, self.exit) {
            (NodeState::Working, _) => "working".to_owned(),
            (NodeState::Lost, _) => "lost".to_owned(),
            (NodeState::Ended, exit) => format!("ended ({})", exit.unwrap_or_default()),
        }
    }

    fn trials(&self) -> String {
        let named = self.trials.iter().take(NAMED).map(u64::to_string);
        let more = if self.trials.len() > NAMED {
            ", ..."
        } else {
            ""
        };
        named.collect::<Vec<_>>().join(", ") + more
    }

    /// `a: trials 7, 12; heard of 3 s ago`; `others`: whether any node works.
    pub(super) fn text(&self, others: bool) -> String {
        let trials = match self.trials.len() {
            0 => "no trial".to_owned(),
            1 => format!("trial {}", self.trials()),
            _ => format!("trials {}", self.trials()),
        };
        let state = match (self.state, others) {
            (NodeState::Lost, _) if self.trials.is_empty() => "; lost",
            (NodeState::Lost, true) => "; lost, others take them over",
            (NodeState::Lost, false) => "; not at work, the next run takes them over",
            (NodeState::Working | NodeState::Ended, _) => "",
        };
        format!(
            "{}: {trials}; heard of {}{state}",
            self.name(),
            self.heard()
        )
    }
}

/// The nodes of a study; none for one that is in a file.
///
/// # Errors
/// Reading failed (7).
pub(super) fn nodes_of(store: &Store, study: &StudySummary) -> Result<Vec<NodeLine>, Failure> {
    if !store.place().is_shared() {
        return Ok(Vec::new());
    }
    let nodes = store.nodes(study.study_id)?;
    Ok(nodes.into_iter().map(NodeLine::of).collect())
}

/// Whether a node's logs are in another directory than that of the nodes that are `here` ([`store::Place::nodes_here`]).
pub fn is_elsewhere(node: &RunNode, here: &[String]) -> bool {
    let its = part(&node.name);
    !here.iter().any(|name| *name == its)
}

/// Whether anybody works on a study: a process of this node, by its lock, or another node, by its lease.
///
/// # Errors
/// Reading failed (7).
pub fn is_live(store: &Store, study: &StudySummary) -> Result<bool, Failure> {
    let elsewhere = nodes_of(store, study)?.iter().any(NodeLine::is_live);
    Ok(elsewhere || lock_owner(store.place(), study).is_some())
}

/// `tune nodes`.
#[derive(Debug, Serialize)]
pub struct Nodes {
    study: String,
    nodes: Vec<NodeLine>,
    /// The node whose trials were given up with this call; null: none.
    forgotten: Option<String>,
}

/// The nodes of a study, `forgotten` the one whose lease was just ended.
///
/// # Errors
/// Reading failed (7).
pub fn nodes(
    store: &Store,
    study: &StudySummary,
    forgotten: Option<String>,
) -> Result<Nodes, Failure> {
    Ok(Nodes {
        study: study.name.clone(),
        nodes: nodes_of(store, study)?,
        forgotten,
    })
}

impl Answer for Nodes {
    fn text(&self) -> String {
        let study = printable(&self.study);
        let mut text = String::new();
        if let Some(node) = &self.forgotten {
            text += &format!(
                "node {} holds nothing of {study} any more: others take its trials over\n",
                printable(node)
            );
        }
        if self.nodes.is_empty() {
            return text + &format!("no node has worked on {study} yet\n");
        }
        text += &format!("study {study}\n");
        let heading = ["node", "state", "host", "heard of", "holds for", "trials"];
        let rows = self.nodes.iter().map(|node| {
            let left = node.lease_left_s.unwrap_or_default().max(0).unsigned_abs();
            let left = node
                .is_live()
                .then(|| duration(std::time::Duration::from_secs(left)));
            [
                node.name(),
                node.state(),
                printable(&node.host),
                node.heard(),
                left.unwrap_or_default(),
                node.trials(),
            ]
        });
        let live = self.nodes.iter().filter(|node| node.is_live()).count();
        text + &table_of(heading, rows)
            + &format!(
                "\n{} on it\n",
                match live {
                    0 => "no node works".to_owned(),
                    1 => "1 node works".to_owned(),
                    _ => format!("{} work", plural(live as u64, "node")),
                }
            )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_node_s_trials_are_taken_over_by_others_only_where_others_work() {
        let mut node = NodeLine {
            node: "a".to_owned(),
            state: NodeState::Lost,
            host: "gpu1".to_owned(),
            pid: 1,
            since: String::new(),
            heard_s: 3,
            lease_left_s: None,
            trials: vec![7],
            exit: None,
        };
        assert!(node.text(true).ends_with("; lost, others take them over"));
        assert!(
            node.text(false)
                .ends_with("; not at work, the next run takes them over")
        );
        node.trials.clear();
        assert!(node.text(true).ends_with("; lost"));
    }
}
