//! Studies: finding, making and describing them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use serde_json::{Map, Value as Json};

use super::read::attribute;
use super::rows::{OF_STUDIES, add_trials, delete_rows, new_study, put_attributes, put_if_absent};
use super::runs::telling;
use super::sql::{Connection, Intent, Row};
use super::{Store, StoreError, StoreErrorKind as Kind};
use files::paths::logs_dir;
use messages::python_json;
use search::study::{Direction, FrozenTrial, TrialState};

/// Trials by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Counts {
    /// Ended with a value.
    pub complete: u64,
    /// Ended early.
    pub pruned: u64,
    /// Ended by an error.
    pub fail: u64,
    /// Started.
    pub running: u64,
    /// Enqueued, not started.
    pub waiting: u64,
}

impl Counts {
    /// All trials.
    pub fn total(&self) -> u64 {
        self.waiting + self.running + self.complete + self.pruned + self.fail
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
    /// When a trial or run last started or ended; naive UTC. `None` before the first. Runs that found nothing to do
    /// do not count.
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

/// A study that is made at once with its first trials.
#[derive(Debug, Clone, PartialEq)]
pub struct NewStudy<'a> {
    /// Name; nothing in the database has it yet.
    pub name: &'a str,
    /// One direction an objective.
    pub directions: &'a [Direction],
    /// User attributes of the study.
    pub user_attrs: &'a Map<String, Json>,
    /// What the study's values depend on.
    pub identity: &'a Map<String, Json>,
}

impl Store {
    /// All studies, in the order in which they were made.
    ///
    /// # Errors
    /// Reading failed, or a row makes no sense.
    pub fn studies(&self) -> Result<Vec<StudySummary>, StoreError> {
        self.read(|conn| summaries(conn, None, self.own_tables))
    }

    /// The study with this name.
    ///
    /// # Errors
    /// See [`Store::studies`].
    pub fn find_study(&self, name: &str) -> Result<Option<StudySummary>, StoreError> {
        self.read(|conn| {
            let of = "SELECT study_id FROM studies WHERE study_name = ?1";
            let id = conn.first(of, &[&name], |row| row.get(0))?;
            let Some(id) = id else { return Ok(None) };
            Ok(summaries(conn, Some(id), self.own_tables)?.pop())
        })
    }

    /// Makes a study that holds these trials, and returns its id: all of it, or nothing. The
    /// trials keep what they have, but for their row ids and their numbers, which count from 0 in
    /// the given order.
    ///
    /// # Errors
    /// There is a study with this name; a trial is RUNNING, which is no state to arrive in, or
    /// breaks one of Optuna's rules; writing failed.
    pub fn create_study(
        &mut self,
        study: &NewStudy,
        trials: &[FrozenTrial],
    ) -> Result<i64, StoreError> {
        let now = self.now();
        self.write(|conn| {
            // One of several that find no study of this name makes it.
            conn.lock_tables()?;
            let study_id = insert_study(conn, study, &now)?;
            add_trials(conn, study_id, study.directions.len(), trials)?;
            Ok(study_id)
        })
    }

    /// Adds trials to a study, as [`Store::create_study`] does, and returns their numbers: all of
    /// them, or none. May be called while a run of another process writes.
    ///
    /// # Errors
    /// No such study; what [`Store::create_study`] refuses of trials; writing failed.
    pub fn add_trials(
        &mut self,
        study_id: i64,
        trials: &[FrozenTrial],
    ) -> Result<Range<u64>, StoreError> {
        self.write(|conn| {
            let objectives = conn.lock_study(study_id, || Ok(()))?;
            add_trials(conn, study_id, objectives, trials)
        })
    }

    /// What a study's values depend on; `None` for a study that another program made.
    ///
    /// # Errors
    /// See [`Store::studies`].
    pub fn identity(&self, study_id: i64) -> Result<Option<Map<String, Json>>, StoreError> {
        if !self.own_tables {
            return Ok(None);
        }
        self.read(|conn| {
            let query = "SELECT identity_json FROM tune_studies WHERE study_id = ?1";
            let identity = |row: &Row<'_>| Ok(python_json(row.text(0)?));
            match conn.first(query, &[&study_id], identity)? {
                None => Ok(None),
                Some(Some(Json::Object(map))) => Ok(Some(map)),
                Some(_) => Err(Kind::Content(format!(
                    "the identity of study {study_id} is no JSON object"
                ))),
            }
        })
    }

    /// Deletes a study with all that the database has of it. Nobody may work on it.
    ///
    /// # Errors
    /// No such study; writing failed. Nothing was deleted then.
    pub fn delete_study(&mut self, study_id: i64) -> Result<(), StoreError> {
        let delete = |conn: &Connection| {
            conn.lock_study(study_id, || Ok(()))?;
            delete_rows(conn, study_id)
        };
        let conn = &self.conn;
        let deleted = conn.at_length(|| conn.transaction(Intent::Write, delete));
        deleted.map_err(|kind| self.at(kind))
    }

    /// Gives a study another name; the paths of its logs name the directory that has it. Nobody may work on it.
    ///
    /// # Errors
    /// No such study; another one has this name; writing failed. Nothing was changed then.
    pub fn rename_study(&mut self, study_id: i64, name: &str) -> Result<(), StoreError> {
        self.write(|conn| {
            must_be_there(conn, study_id)?;
            must_be_free(conn, name)?;
            let of = "SELECT study_name FROM studies WHERE study_id = ?1";
            let old: String = conn.value(of, &[&study_id])?;
            conn.send(
                "UPDATE studies SET study_name = ?2 WHERE study_id = ?1",
                &[&study_id, &name],
            )?;
            let [from, to] =
                [&old, name].map(|study| format!("{}/", logs_dir(Path::new(""), study).display()));
            for table in ["tune_attempts", "tune_repeat_attempts"] {
                conn.send(
                    &format!(
                        "UPDATE {table} SET log = ?3 || substr(log, length(?2) + 1)
                         WHERE substr(log, 1, length(?2)) = ?2
                             AND trial_id IN (SELECT trial_id FROM trials WHERE study_id = ?1)"
                    ),
                    &[&study_id, &from, &to],
                )?;
            }
            Ok(())
        })
    }

    /// Names the objectives of a study in Optuna's way, where nobody has named them yet: one name an
    /// objective, in order.
    ///
    /// # Errors
    /// No such study; writing failed.
    pub fn name_metrics(&mut self, study_id: i64, names: &[&str]) -> Result<(), StoreError> {
        let named = "SELECT 1 FROM study_system_attributes WHERE study_id = ?1 AND key = ?2";
        if self.read(|conn| conn.exists(named, &[&study_id, &METRIC_NAMES]))? {
            return Ok(());
        }
        self.write(|conn| {
            conn.lock_study(study_id, || Ok(()))?;
            put_if_absent(conn, study_id, METRIC_NAMES, &names.into())
        })
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
        self.write(|conn| {
            must_be_there(conn, study_id)?;
            put_attributes(conn, OF_STUDIES, study_id, user_attrs)?;
            put_identity(conn, study_id, identity, &now)
        })
    }
}

/// Optuna's attribute of a study with the names of its objectives (`Study.metric_names`), which
/// dashboards and plots show.
const METRIC_NAMES: &str = "study:metric_names";

/// Summaries of all studies, or of one.
fn summaries(
    conn: &Connection,
    only: Option<i64>,
    own_tables: bool,
) -> Result<Vec<StudySummary>, Kind> {
    let mut studies = BTreeMap::new();
    let query = "SELECT study_id, study_name FROM studies WHERE study_id = ?1 OR ?1 IS NULL";
    conn.each(query, &[&only], |row| {
        let study = StudySummary {
            study_id: row.get(0)?,
            name: row.get(1)?,
            directions: Vec::new(),
            counts: Counts::default(),
            user_attrs: Map::new(),
            last_activity: None,
        };
        studies.insert(study.study_id, study);
        Ok(())
    })?;
    add_directions(conn, &mut studies, only)?;
    add_counts(conn, &mut studies, only)?;
    add_user_attributes(conn, &mut studies, only)?;
    if own_tables {
        add_runs(conn, &mut studies, only)?;
    }
    Ok(studies.into_values().collect())
}

/// Whoever deletes a study ends the run that works on it.
pub(super) fn must_be_there(conn: &Connection, study_id: i64) -> Result<(), Kind> {
    let there = conn.exists("SELECT 1 FROM studies WHERE study_id = ?1", &[&study_id])?;
    match there {
        true => Ok(()),
        false => Err(Kind::UnknownStudy(study_id)),
    }
}

type Studies = BTreeMap<i64, StudySummary>;

fn add_directions(conn: &Connection, studies: &mut Studies, only: Option<i64>) -> Result<(), Kind> {
    let query = "SELECT study_id, direction FROM study_directions
         WHERE study_id = ?1 OR ?1 IS NULL ORDER BY study_id, objective";
    conn.each(query, &[&only], |row| {
        let (id, word): (i64, String) = (row.get(0)?, row.get(1)?);
        let direction = word.parse().map_err(|()| {
            Kind::Content(format!(
                "study {id} has the direction {word:?}, expected MINIMIZE or MAXIMIZE"
            ))
        })?;
        if let Some(study) = studies.get_mut(&id) {
            study.directions.push(direction);
        }
        Ok(())
    })
}

fn add_counts(conn: &Connection, studies: &mut Studies, only: Option<i64>) -> Result<(), Kind> {
    let query = "SELECT study_id, state, COUNT(*), MAX(datetime_start), MAX(datetime_complete)
         FROM trials WHERE study_id = ?1 OR ?1 IS NULL GROUP BY study_id, state";
    conn.each(query, &[&only], |row| {
        let id: Option<i64> = row.get(0)?;
        let Some(study) = id.and_then(|id| studies.get_mut(&id)) else {
            return Ok(());
        };
        let state = super::read::state(row.text(1)?, || {
            format!("a trial of study {:?}", study.name)
        })?;
        study.counts.add(state, row.get(2)?);
        let (started, completed): (Option<String>, Option<String>) = (row.get(3)?, row.get(4)?);
        study.last_activity = study.last_activity.take().max(started).max(completed);
        Ok(())
    })
}

fn add_user_attributes(
    conn: &Connection,
    studies: &mut Studies,
    only: Option<i64>,
) -> Result<(), Kind> {
    let query = "SELECT study_id, key, value_json FROM study_user_attributes
         WHERE study_id = ?1 OR ?1 IS NULL ORDER BY study_user_attribute_id";
    conn.each(query, &[&only], |row| {
        let id: Option<i64> = row.get(0)?;
        if let Some(study) = id.and_then(|id| studies.get_mut(&id)) {
            let (key, value) = attribute(row, || format!("study {:?}", study.name))?;
            study.user_attrs.insert(key, value);
        }
        Ok(())
    })
}

fn add_runs(conn: &Connection, studies: &mut Studies, only: Option<i64>) -> Result<(), Kind> {
    let query = format!(
        "SELECT study_id, MAX(started), MAX(ended) FROM tune_runs
         WHERE (study_id = ?1 OR ?1 IS NULL) AND {} GROUP BY study_id",
        telling(conn)?
    );
    conn.each(&query, &[&only], |row| {
        let (started, ended): (Option<String>, Option<String>) = (row.get(1)?, row.get(2)?);
        if let Some(study) = studies.get_mut(&row.get(0)?) {
            study.last_activity = study.last_activity.take().max(started).max(ended);
        }
        Ok(())
    })
}

/// Makes a study without trials and returns its row id.
fn insert_study(conn: &Connection, study: &NewStudy, now: &str) -> Result<i64, Kind> {
    if study.directions.is_empty() || study.name.is_empty() {
        return Err(Kind::Invalid(
            "a study without a name or without an objective".to_owned(),
        ));
    }
    must_be_free(conn, study.name)?;
    let id = new_study(conn, study.name)?;
    for (objective, direction) in study.directions.iter().enumerate() {
        conn.send(
            "INSERT INTO study_directions (direction, study_id, objective) VALUES (?1, ?2, ?3)",
            &[&direction.optuna(), &id, &objective],
        )?;
    }
    put_attributes(conn, OF_STUDIES, id, study.user_attrs)?;
    put_identity(conn, id, study.identity, now)?;
    Ok(id)
}

fn must_be_free(conn: &Connection, name: &str) -> Result<(), Kind> {
    let taken = conn.exists("SELECT 1 FROM studies WHERE study_name = ?1", &[&name])?;
    match taken {
        true => Err(Kind::StudyExists(name.to_owned())),
        false => Ok(()),
    }
}

fn put_identity(
    conn: &Connection,
    study_id: i64,
    identity: &Map<String, Json>,
    now: &str,
) -> Result<(), Kind> {
    let text = serde_json::Value::Object(identity.clone()).to_string();
    conn.send(
        "INSERT INTO tune_studies (study_id, identity_json, created) VALUES (?1, ?2, ?3)
         ON CONFLICT (study_id) DO UPDATE SET identity_json = excluded.identity_json",
        &[&study_id, &text, &now],
    )?;
    Ok(())
}

/// How a study is called in messages about its rows.
pub(super) fn named(conn: &Connection, study_id: i64) -> String {
    let of = "SELECT study_name FROM studies WHERE study_id = ?1";
    let name: Result<String, Kind> = conn.value(of, &[&study_id]);
    name.map_or_else(
        |_| format!("study {study_id}"),
        |name| format!("the study {name:?}"),
    )
}
