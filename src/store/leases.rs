//! Nodes that work on the same study: each run holds the trials that it is running by a lease, which it renews. What a run
//! holds whose lease has ended may be taken over by any other; what it writes about that later is refused, because
//! the trial names another run as its holder.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::apply::Batch;
use super::sql::Connection;
use super::studies::must_be_there;
use super::{Store, StoreError, StoreErrorKind as Kind};

/// Who may end a trial that `tune` has made or claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldBy {
    /// The run that asks; where no run does, any.
    Run,
    /// A run on another node, whose lease goes on.
    Node,
    /// Nobody: the run that held it has ended, or its lease has.
    Nobody,
    /// Another program, which has made it.
    Foreign,
}

impl HeldBy {
    /// Of a trial that names `run` as its holder, for the run `asks`; `live`: the lease of `run` goes on.
    pub fn of(run: Option<i64>, live: bool, asks: Option<i64>) -> HeldBy {
        match (run, asks) {
            (None, _) => HeldBy::Foreign,
            (Some(_), None) => HeldBy::Run,
            (Some(run), Some(asks)) if run == asks => HeldBy::Run,
            (Some(_), Some(_)) if live => HeldBy::Node,
            (Some(_), Some(_)) => HeldBy::Nobody,
        }
    }
}

/// What a node is asked for from elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopAsked {
    /// To start nothing new.
    Soon,
    /// To put back at once what runs.
    Now,
}

/// The condition that the lease `l` of a run goes on.
fn live(conn: &Connection) -> String {
    format!("l.expires > {}", conn.clock())
}

/// A node, by its last run on a study.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its last run.
    pub run_id: i64,
    /// The host that it runs on, and its process there.
    pub host: String,
    /// See `host`.
    pub pid: u32,
    /// The version of the program that it runs.
    pub version: String,
    /// When the run began, in naive UTC.
    pub started: String,
    /// With what it ended; `None`: it has not.
    pub exit: Option<u8>,
    /// When it was last heard of, in seconds before now, by the database's clock.
    pub heard: i64,
    /// For how many seconds it holds its trials, if it is not heard of again; below 1: it has lost them.
    pub left: i64,
    /// The trials that it is running, ascending.
    pub trials: Vec<u64>,
}

impl Node {
    /// Whether it is working, as far as is known.
    pub fn is_live(&self) -> bool {
        self.exit.is_none() && self.left > 0
    }
}

/// The node of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunNode {
    /// Its name.
    pub name: String,
    /// The host that it was on.
    pub host: String,
}

impl Store {
    /// Renews the lease of a run for so long, in whole seconds.
    ///
    /// # Errors
    /// Writing failed.
    pub fn renew(&mut self, run_id: i64, lease: Duration) -> Result<(), StoreError> {
        self.write(|conn| {
            let renew = format!(
                "UPDATE tune_leases SET expires = {} + ?2, seconds = ?2 WHERE run_id = ?1",
                conn.clock()
            );
            conn.send(&renew, &[&run_id, &seconds(lease)])?;
            Ok(())
        })
    }

    /// The nodes that have worked on a study, by name, each with its last run. Empty in a file.
    ///
    /// # Errors
    /// Reading failed.
    pub fn nodes(&self, study_id: i64) -> Result<Vec<Node>, StoreError> {
        let last = "(SELECT MAX(n.run_id) FROM tune_leases n
             JOIN tune_runs m ON m.run_id = n.run_id AND m.study_id = ?1 GROUP BY n.node)";
        self.nodes_of(study_id, last)
    }

    /// The same by these runs, whichever are the nodes' last ones: one that starts again under its name has another.
    ///
    /// # Errors
    /// Reading failed.
    pub fn nodes_of_runs(&self, study_id: i64, runs: &[i64]) -> Result<Vec<Node>, StoreError> {
        if runs.is_empty() {
            return Ok(Vec::new());
        }
        let runs: Vec<String> = runs.iter().map(i64::to_string).collect();
        self.nodes_of(study_id, &format!("({})", runs.join(", ")))
    }

    fn nodes_of(&self, study_id: i64, runs: &str) -> Result<Vec<Node>, StoreError> {
        self.read(|conn| {
            if !conn.has_table("tune_leases")? {
                return Ok(Vec::new());
            }
            let query = format!(
                "SELECT l.node, r.run_id, r.host, r.pid, r.version, r.started, r.exit_code,
                     {now} - l.expires + CASE WHEN r.exit_code IS NULL THEN l.seconds ELSE 0 END, l.expires - {now}
                 FROM tune_leases l JOIN tune_runs r ON r.run_id = l.run_id
                 WHERE r.study_id = ?1 AND r.run_id IN {runs}
                 ORDER BY l.node",
                now = conn.clock()
            );
            let mut nodes: Vec<Node> = conn.rows(&query, &[&study_id], |row| {
                Ok(Node {
                    name: row.get(0)?,
                    run_id: row.get(1)?,
                    host: row.get(2)?,
                    pid: row.get(3)?,
                    version: row.get(4)?,
                    started: row.get(5)?,
                    exit: row.get(6)?,
                    heard: row.get::<i64>(7)?.max(0),
                    left: row.get(8)?,
                    trials: Vec::new(),
                })
            })?;
            let running = "SELECT o.run_id, t.number FROM trials t
                 JOIN tune_trials o ON o.trial_id = t.trial_id
                 WHERE t.study_id = ?1 AND t.state = 'RUNNING' ORDER BY t.number";
            conn.each(running, &[&study_id], |row| {
                let (run, number): (i64, u64) = (row.get(0)?, row.get(1)?);
                let node = nodes.iter_mut().find(|node| node.run_id == run);
                node.into_iter().for_each(|node| node.trials.push(number));
                Ok(())
            })?;
            Ok(nodes)
        })
    }

    /// Which node each run of a study is or was on, by the runs' ids. Empty in a file.
    ///
    /// # Errors
    /// Reading failed.
    pub fn run_nodes(&self, study_id: i64) -> Result<BTreeMap<i64, RunNode>, StoreError> {
        if !self.place.is_shared() {
            return Ok(BTreeMap::new());
        }
        self.read(|conn| {
            if !conn.has_table("tune_leases")? {
                return Ok(BTreeMap::new());
            }
            let query = "SELECT r.run_id, l.node, r.host FROM tune_leases l
                 JOIN tune_runs r ON r.run_id = l.run_id WHERE r.study_id = ?1";
            conn.rows(query, &[&study_id], |row| {
                let (name, host) = (row.get(1)?, row.get(2)?);
                Ok((row.get(0)?, RunNode { name, host }))
            })
        })
    }

    /// Whether nodes can be asked to stop: whoever opens the database for writing sees to that, but nodes of a program that
    /// had no such request go on without hearing it.
    ///
    /// # Errors
    /// Reading failed.
    pub fn takes_requests(&self) -> Result<bool, StoreError> {
        self.read(|conn| conn.has_column("tune_leases", "stop"))
    }

    /// Asks the runs of nodes that have not ended to stop, and gives their ids. One whose lease has ended may come back: it
    /// is asked as well. What was asked for is not taken back.
    ///
    /// # Errors
    /// Writing failed.
    pub fn ask_nodes_to_stop(
        &mut self,
        study_id: i64,
        asked: StopAsked,
    ) -> Result<Vec<i64>, StoreError> {
        let asked = match asked {
            StopAsked::Soon => 1,
            StopAsked::Now => 2,
        };
        self.write(|conn| {
            must_be_there(conn, study_id)?;
            let ask = "UPDATE tune_leases
                 SET stop = CASE WHEN COALESCE(stop, 0) > ?2 THEN stop ELSE ?2 END
                 WHERE run_id IN
                     (SELECT run_id FROM tune_runs WHERE study_id = ?1 AND exit_code IS NULL)
                 RETURNING run_id";
            conn.rows(ask, &[&study_id, &asked], |row| row.get(0))
        })
    }

    /// What the node of a run is asked for.
    ///
    /// # Errors
    /// Reading failed.
    pub fn stop_asked(&self, run_id: i64) -> Result<Option<StopAsked>, StoreError> {
        let query = "SELECT stop FROM tune_leases WHERE run_id = ?1";
        let asked: Option<Option<i64>> =
            self.read(|conn| conn.first(query, &[&run_id], |row| row.get(0)))?;
        Ok(asked.flatten().map(|asked| match asked {
            ..=1 => StopAsked::Soon,
            _ => StopAsked::Now,
        }))
    }

    /// Ends the lease of a node at once, so that others take its trials over. How many leases that were.
    ///
    /// # Errors
    /// Writing failed.
    pub fn forget_node(&mut self, study_id: i64, node: &str) -> Result<usize, StoreError> {
        self.write(|conn| {
            must_be_there(conn, study_id)?;
            end_leases(conn, study_id, node)
        })
    }
}

/// Ends what a node holds by leases that go on. When it was last heard of, `seconds` before `expires`, stays.
pub(super) fn end_leases(conn: &Connection, study_id: i64, node: &str) -> Result<usize, Kind> {
    let end = format!(
        "UPDATE tune_leases SET seconds = {now} - expires + seconds, expires = {now}
             WHERE node = ?2 AND expires > {now}
             AND run_id IN (SELECT run_id FROM tune_runs WHERE study_id = ?1)",
        now = conn.clock()
    );
    conn.execute(&end, &[&study_id, &node])
}

/// The runs of a study whose leases go on.
pub(super) fn live_runs(conn: &Connection, study_id: i64) -> Result<BTreeSet<i64>, Kind> {
    let query = format!(
        "SELECT l.run_id FROM tune_leases l JOIN tune_runs r ON r.run_id = l.run_id
         WHERE r.study_id = ?1 AND {}",
        live(conn)
    );
    conn.rows(&query, &[&study_id], |row| row.get(0))
}

/// Whether the lease of a run goes on.
pub(super) fn is_live(conn: &Connection, run_id: i64) -> Result<bool, Kind> {
    let query = format!(
        "SELECT 1 FROM tune_leases l WHERE l.run_id = ?1 AND {}",
        live(conn)
    );
    conn.exists(&query, &[&run_id])
}

/// How long a lease is.
fn seconds(lease: Duration) -> u64 {
    lease.as_secs().max(1)
}

/// A run begins to hold trials of its node for so long.
pub(super) fn begin_lease(
    conn: &Connection,
    run_id: i64,
    node: &str,
    lease: Duration,
) -> Result<(), Kind> {
    let begin = format!(
        "INSERT INTO tune_leases (run_id, node, seconds, expires) VALUES (?1, ?2, ?3, {} + ?3)",
        conn.clock()
    );
    conn.send(&begin, &[&run_id, &node, &seconds(lease)])?;
    Ok(())
}

impl Batch<'_> {
    /// The run holds nothing any more.
    pub(super) fn end_lease(&self) -> Result<(), Kind> {
        let end = format!(
            "UPDATE tune_leases SET expires = {} WHERE run_id = ?1",
            self.conn.clock()
        );
        self.conn.send(&end, &[&self.run_id])?;
        Ok(())
    }
}
