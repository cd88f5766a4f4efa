//! Studies: finding, making and describing them.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};
use serde_json::{Map, Value as Json};

use super::error::Cause;
use super::fresh::new_study;
use super::read::attribute;
use super::{NewStudy, Store, StoreError};
use messages::python_json;
use messages::to_python_json;
use search::study::{Direction, TrialState};

/// Trials by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Enqueued, not started.
    pub waiting: u64,
    /// Started.
    pub running: u64,
    /// Ended with a value.
    pub complete: u64,
    /// Ended early.
    pub pruned: u64,
    /// Ended by an error.
    pub fail: u64,
}

impl Counts {
    /// All trials.
    pub fn total(&self) -> u64 {
        self.waiting + self.running + self.complete + self.pruned + self.fail
    }

    /// The number in one state.
    pub fn of(&self, state: TrialState) -> u64 {
        match state {
            TrialState::Waiting => self.waiting,
            TrialState::Running => self.running,
            TrialState::Complete => self.complete,
            TrialState::Pruned => self.pruned,
            TrialState::Fail => self.fail,
        }
    }

    fn add(&mut self, state: TrialState, n: u64) {
        *match state {
            TrialState::Waiting => &mut self.waiting,
            TrialState::Running => &mut self.running,
            TrialState::Complete => &mut self.complete,
            TrialState::Pruned => &mut self.pruned,
            TrialState::Fail => &mut self.fail,
        } += n;
    }
}

/// A study without its trials.
#[derive(Debug, Clone, PartialEq)]
pub struct StudySummary {
    /// Row id.
    pub study_id: i64,
    /// Name, unique in the database.
    pub name: String,
    /// One direction an objective.
    pub directions: Vec<Direction>,
    /// Trials by state.
    pub counts: Counts,
    /// User attributes.
    pub user_attrs: Map<String, Json>,
    /// When a trial or run last started or ended; naive UTC. `None` before the first.
    pub last_activity: Option<String>,
}

impl StudySummary {
    /// The direction of the first objective.
    pub fn direction(&self) -> Direction {
        self.directions
            .first()
            .copied()
            .unwrap_or(Direction::Minimize)
    }
}

impl Store {
    /// All studies, in the order in which they were made.
    ///
    /// # Errors
    /// Reading failed, or a row makes no sense.
    pub fn studies(&self) -> Result<Vec<StudySummary>, StoreError> {
        self.summaries(None).map_err(|c| self.at(c))
    }

    /// The study with this name.
    ///
    /// # Errors
    /// See [`Store::studies`].
    pub fn find_study(&self, name: &str) -> Result<Option<StudySummary>, StoreError> {
        self.find(name).map_err(|c| self.at(c))
    }

    /// Makes a study and returns its id. `identity` is what its values depend on.
    ///
    /// # Errors
    /// There is one with this name; writing failed.
    pub fn create_study(
        &mut self,
        name: &str,
        directions: &[Direction],
        user_attrs: &Map<String, Json>,
        identity: &Map<String, Json>,
    ) -> Result<i64, StoreError> {
        let study = NewStudy {
            name,
            directions,
            user_attrs,
            identity,
        };
        self.create_study_with(&study, &[])
    }

    /// What a study's values depend on; `None` for a study that another program made.
    ///
    /// # Errors
    /// See [`Store::studies`].
    pub fn identity(&self, study_id: i64) -> Result<Option<Map<String, Json>>, StoreError> {
        self.read_identity(study_id).map_err(|c| self.at(c))
    }

    /// Sets what the values of a study that another program made depend on, and user attributes
    /// with it.
    ///
    /// # Errors
    /// No such study; writing failed. Nothing was written then.
    pub fn claim(
        &mut self,
        study_id: i64,
        identity: &Map<String, Json>,
        user_attrs: &Map<String, Json>,
    ) -> Result<(), StoreError> {
        let now = self.now();
        if !self.study_exists(study_id).map_err(|c| self.at(c))? {
            return Err(self.at(Cause::UnknownStudy(study_id)));
        }
        let write = |conn: &mut Connection| -> Result<(), Cause> {
            let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
            put_study_attributes(&tx, study_id, user_attrs)?;
            put_identity(&tx, study_id, identity, &now)?;
            Ok(tx.commit()?)
        };
        write(&mut self.conn).map_err(|c| self.at(c))
    }

    pub(super) fn study_exists(&self, study_id: i64) -> Result<bool, Cause> {
        Ok(self
            .conn
            .prepare_cached("SELECT 1 FROM studies WHERE study_id = ?1")?
            .exists([study_id])?)
    }

    fn find(&self, name: &str) -> Result<Option<StudySummary>, Cause> {
        let id = self
            .conn
            .query_row(
                "SELECT study_id FROM studies WHERE study_name = ?1",
                [name],
                |r| r.get(0),
            )
            .optional()?;
        let Some(id) = id else { return Ok(None) };
        Ok(self.summaries(Some(id))?.into_iter().next())
    }

    fn read_identity(&self, study_id: i64) -> Result<Option<Map<String, Json>>, Cause> {
        if !self.own_tables {
            return Ok(None);
        }
        let text = self
            .conn
            .query_row(
                "SELECT identity_json FROM tune_studies WHERE study_id = ?1",
                [study_id],
                |row| row.get::<_, String>(0),
            )
            .optional()?;
        match text.as_deref().map(python_json) {
            None => Ok(None),
            Some(Some(Json::Object(map))) => Ok(Some(map)),
            Some(_) => Err(Cause::Content(format!(
                "the identity of study {study_id} is no JSON object"
            ))),
        }
    }

    /// Summaries of all studies, or of one.
    fn summaries(&self, only: Option<i64>) -> Result<Vec<StudySummary>, Cause> {
        let tx = self.conn.unchecked_transaction()?;
        let mut studies = BTreeMap::new();
        let mut statement = tx.prepare_cached(
            "SELECT study_id, study_name FROM studies WHERE ?1 IS NULL OR study_id = ?1",
        )?;
        let mut rows = statement.query([only])?;
        while let Some(row) = rows.next()? {
            let study = StudySummary {
                study_id: row.get(0)?,
                name: row.get(1)?,
                directions: Vec::new(),
                counts: Counts::default(),
                user_attrs: Map::new(),
                last_activity: None,
            };
            studies.insert(study.study_id, study);
        }
        add_directions(&tx, &mut studies, only)?;
        add_counts(&tx, &mut studies, only)?;
        add_user_attributes(&tx, &mut studies, only)?;
        if self.own_tables {
            add_runs(&tx, &mut studies, only)?;
        }
        Ok(studies.into_values().collect())
    }
}

type Studies = BTreeMap<i64, StudySummary>;

fn add_directions(
    conn: &Connection,
    studies: &mut Studies,
    only: Option<i64>,
) -> Result<(), Cause> {
    let mut statement = conn.prepare_cached(
        "SELECT study_id, direction FROM study_directions
         WHERE ?1 IS NULL OR study_id = ?1 ORDER BY study_id, objective",
    )?;
    let mut rows = statement.query([only])?;
    while let Some(row) = rows.next()? {
        let (id, word): (i64, String) = (row.get(0)?, row.get(1)?);
        let direction = word.parse().map_err(|()| {
            Cause::Content(format!(
                "study {id} has the direction {word:?}, expected MINIMIZE or MAXIMIZE"
            ))
        })?;
        if let Some(study) = studies.get_mut(&id) {
            study.directions.push(direction);
        }
    }
    Ok(())
}

fn add_counts(conn: &Connection, studies: &mut Studies, only: Option<i64>) -> Result<(), Cause> {
    let mut statement = conn.prepare_cached(
        "SELECT study_id, state, COUNT(*), MAX(datetime_start), MAX(datetime_complete) FROM trials
         WHERE ?1 IS NULL OR study_id = ?1 GROUP BY study_id, state",
    )?;
    let mut rows = statement.query([only])?;
    while let Some(row) = rows.next()? {
        let id: Option<i64> = row.get(0)?;
        let Some(study) = id.and_then(|id| studies.get_mut(&id)) else {
            continue;
        };
        let word: String = row.get(1)?;
        let state = super::read::state(&word, || format!("a trial of study {:?}", study.name))?;
        study.counts.add(state, row.get(2)?);
        let (started, completed): (Option<String>, Option<String>) = (row.get(3)?, row.get(4)?);
        study.last_activity = study.last_activity.take().max(started).max(completed);
    }
    Ok(())
}

fn add_user_attributes(
    conn: &Connection,
    studies: &mut Studies,
    only: Option<i64>,
) -> Result<(), Cause> {
    let mut statement = conn.prepare_cached(
        "SELECT study_id, key, value_json FROM study_user_attributes
         WHERE ?1 IS NULL OR study_id = ?1 ORDER BY study_user_attribute_id",
    )?;
    let mut rows = statement.query([only])?;
    while let Some(row) = rows.next()? {
        let id: Option<i64> = row.get(0)?;
        if let Some(study) = id.and_then(|id| studies.get_mut(&id)) {
            let (key, value) = attribute(row, || format!("study {:?}", study.name))?;
            study.user_attrs.insert(key, value);
        }
    }
    Ok(())
}

fn add_runs(conn: &Connection, studies: &mut Studies, only: Option<i64>) -> Result<(), Cause> {
    let mut statement = conn.prepare_cached(
        "SELECT study_id, MAX(started), MAX(ended) FROM tune_runs
         WHERE ?1 IS NULL OR study_id = ?1 GROUP BY study_id",
    )?;
    let mut rows = statement.query([only])?;
    while let Some(row) = rows.next()? {
        let (started, ended): (Option<String>, Option<String>) = (row.get(1)?, row.get(2)?);
        if let Some(study) = studies.get_mut(&row.get(0)?) {
            study.last_activity = study.last_activity.take().max(started).max(ended);
        }
    }
    Ok(())
}

/// Makes a study without trials and returns its row id.
pub(super) fn insert_study(conn: &Connection, study: &NewStudy, now: &str) -> Result<i64, Cause> {
    if study.directions.is_empty() || study.name.is_empty() {
        return Err(Cause::Invalid(
            "a study without a name or without an objective".to_owned(),
        ));
    }
    let taken = conn
        .prepare_cached("SELECT 1 FROM studies WHERE study_name = ?1")?
        .exists([study.name])?;
    if taken {
        return Err(Cause::StudyExists(study.name.to_owned()));
    }
    let id = new_study(conn, study.name)?;
    for (objective, direction) in study.directions.iter().enumerate() {
        conn.execute(
            "INSERT INTO study_directions (direction, study_id, objective) VALUES (?1, ?2, ?3)",
            (direction.optuna(), id, objective),
        )?;
    }
    put_study_attributes(conn, id, study.user_attrs)?;
    put_identity(conn, id, study.identity, now)?;
    Ok(id)
}

/// Merges user attributes into a study.
pub(super) fn put_study_attributes(
    conn: &Connection,
    study_id: i64,
    attributes: &Map<String, Json>,
) -> Result<(), Cause> {
    let mut statement = conn.prepare_cached(
        "INSERT INTO study_user_attributes (study_id, key, value_json) VALUES (?1, ?2, ?3)
         ON CONFLICT (study_id, key) DO UPDATE SET value_json = excluded.value_json",
    )?;
    for (key, value) in attributes {
        statement.execute((study_id, key, to_python_json(value)))?;
    }
    Ok(())
}

fn put_identity(
    conn: &Connection,
    study_id: i64,
    identity: &Map<String, Json>,
    now: &str,
) -> Result<(), Cause> {
    let text = serde_json::Value::Object(identity.clone()).to_string();
    conn.execute(
        "INSERT INTO tune_studies (study_id, identity_json, created) VALUES (?1, ?2, ?3)
         ON CONFLICT (study_id) DO UPDATE SET identity_json = excluded.identity_json",
        (study_id, text, now),
    )?;
    Ok(())
}
