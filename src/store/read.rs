//! Reading trials: a handful of bulk queries in one read transaction, whatever their number.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rusqlite::types::ToSql;
use serde_json::{Map, Value as Json};

use super::listing::{self, Members};
use super::sql::{Connection, Row};
use super::studies::named;
use super::{Store, StoreError, StoreErrorKind as Kind};
use messages::python_json;
use search::space::{Domain, Params, Value, distribution_from_json};
use search::study::{FrozenTrial, TrialState};

impl Store {
    /// All trials of a study, ascending by number.
    ///
    /// # Errors
    /// Reading failed, or a row makes no sense.
    pub fn trials(&self, study_id: i64) -> Result<Vec<FrozenTrial>, StoreError> {
        self.read(|conn| read_trials(conn, study_id, Which::All))
    }

    /// All trials of a study, ascending by number, with what decides which is the best and which
    /// count, and nothing else: states, values, of COMPLETE trials the constraints (all that
    /// [`search::study::violation`] reads), of PRUNED ones the attributes `infeasible` and `fault`. What else a
    /// trial holds is most of a database.
    ///
    /// # Errors
    /// See [`Store::trials`].
    pub fn outlines(&self, study_id: i64) -> Result<Vec<FrozenTrial>, StoreError> {
        self.read(|conn| {
            let mut reader = Reader::of(conn, study_id, Which::All)?;
            reader.read_values()?;
            reader.read_attributes(
                "trial_user_attributes",
                "AND t.state = 'PRUNED' AND r.\"key\" IN ('infeasible', 'fault')",
                |t| &mut t.user_attrs,
            )?;
            reader.read_constraints()?;
            Ok(reader.trials)
        })
    }

    /// All trials of a study, ascending by number, for who only shows them: parameters, user
    /// attributes and reports are JSON already, and the trials have none of their own. Several
    /// times cheaper than [`Store::trials`].
    ///
    /// # Errors
    /// See [`Store::trials`].
    pub fn listing(&self, study_id: i64) -> Result<Vec<(FrozenTrial, Members)>, StoreError> {
        self.read(|conn| {
            let mut reader = Reader::of(conn, study_id, Which::All)?;
            reader.read_values()?;
            let members = listing::members(&mut reader)?;
            Ok(reader.trials.into_iter().zip(members).collect())
        })
    }

    /// All trials of a study, or those in this state, ascending by number, with what a table of them
    /// shows: states, times, values, parameters, constraints, and the user attributes with these keys.
    /// Several times cheaper than [`Store::trials`].
    ///
    /// # Errors
    /// See [`Store::trials`].
    pub fn overviews(
        &self,
        study_id: i64,
        state: Option<TrialState>,
        keys: &[&str],
    ) -> Result<Vec<FrozenTrial>, StoreError> {
        let which = state.map_or(Which::All, Which::In);
        self.read(|conn| {
            let mut reader = Reader::of(conn, study_id, which)?;
            reader.read_params()?;
            reader.read_values()?;
            reader.read_user_attributes(keys)?;
            reader.read_constraints()?;
            Ok(reader.trials)
        })
    }

    /// One trial.
    ///
    /// # Errors
    /// See [`Store::trials`].
    pub fn trial(&self, study_id: i64, number: u64) -> Result<Option<FrozenTrial>, StoreError> {
        let one = Which::These(&[number]);
        let found = self.read(|conn| read_trials(conn, study_id, one))?;
        Ok(found.into_iter().next())
    }

    /// The trials with these numbers, as far as they are there, ascending by number.
    ///
    /// # Errors
    /// See [`Store::trials`].
    pub fn these(&self, study_id: i64, numbers: &[u64]) -> Result<Vec<FrozenTrial>, StoreError> {
        self.read(|conn| read_trials(conn, study_id, Which::These(numbers)))
    }

    /// These user attributes of the trials with these numbers that have one of them, by number.
    ///
    /// # Errors
    /// See [`Store::trials`].
    pub fn attributes(
        &self,
        study_id: i64,
        numbers: &[u64],
        keys: &[&str],
    ) -> Result<BTreeMap<u64, Map<String, Json>>, StoreError> {
        self.read(|conn| {
            let mut reader = Reader::of(conn, study_id, Which::These(numbers))?;
            reader.read_user_attributes(keys)?;
            let with = reader
                .trials
                .into_iter()
                .filter(|t| !t.user_attrs.is_empty());
            Ok(with.map(|t| (t.number, t.user_attrs)).collect())
        })
    }

    /// The keys of all user attributes that trials of a study have.
    ///
    /// # Errors
    /// Reading failed.
    pub fn attribute_names(&self, study_id: i64) -> Result<BTreeSet<String>, StoreError> {
        self.read(|conn| {
            let query = "SELECT DISTINCT a.\"key\" FROM trials t
                 JOIN trial_user_attributes a ON a.trial_id = t.trial_id WHERE t.study_id = ?1";
            conn.rows(query, &[&study_id], |row| row.get(0))
        })
    }

    /// The parameters of all trials of a study, by number, and nothing else of them.
    ///
    /// # Errors
    /// See [`Store::trials`].
    pub fn points(&self, study_id: i64) -> Result<BTreeMap<u64, Params>, StoreError> {
        self.read(|conn| points(conn, study_id))
    }
}

/// The parameters of all trials of a study, by number.
pub(super) fn points(conn: &Connection, study_id: i64) -> Result<BTreeMap<u64, Params>, Kind> {
    let mut reader = Reader::of(conn, study_id, Which::All)?;
    reader.read_points()?;
    let trials = reader.trials.into_iter();
    Ok(trials.map(|t| (t.number, t.params)).collect())
}

/// Reads trials as a transaction sees them.
pub(super) fn read_trials(
    conn: &Connection,
    study_id: i64,
    which: Which<'_>,
) -> Result<Vec<FrozenTrial>, Kind> {
    let mut reader = Reader::of(conn, study_id, which)?;
    reader.read_params()?;
    reader.read_values()?;
    reader.read_intermediate()?;
    reader.read_attributes(
        "trial_user_attributes",
        "ORDER BY t.trial_id, r.trial_user_attribute_id",
        |t| &mut t.user_attrs,
    )?;
    reader.read_attributes(
        "trial_system_attributes",
        "ORDER BY t.trial_id, r.trial_system_attribute_id",
        |t| &mut t.system_attrs,
    )?;
    Ok(reader.trials)
}

/// Which trials of a study.
#[derive(Debug, Clone, Copy)]
pub(super) enum Which<'a> {
    All,
    /// Those in this state.
    In(TrialState),
    /// Those with these numbers.
    These(&'a [u64]),
}

/// The condition on the trials `t`: only those with such a value of this column, or in this state. Its parameter comes
/// after those that are there.
fn condition<'a>(
    conn: &Connection,
    (only, state): (Option<&'a String>, Option<TrialState>),
    column: &str,
    args: &mut Vec<&'a dyn ToSql>,
) -> String {
    match (only, state) {
        (Some(only), _) => {
            args.push(only);
            conn.among_numbers(&format!("t.{column}"), &format!("?{}", args.len()))
        }
        (None, Some(state)) => format!("t.state = '{state}'"),
        (None, None) => "TRUE".to_owned(),
    }
}

/// Collects the rows of several tables into trials.
pub(super) struct Reader<'a> {
    conn: &'a Connection,
    study_id: i64,
    /// The numbers, and once the trials are read their row ids, as a JSON array; `None`: all trials.
    only: Option<String>,
    state: Option<TrialState>,
    /// The second parameter of a query that has one: keys, as a JSON array.
    keys: Option<String>,
    pub(super) trials: Vec<FrozenTrial>,
    /// Position in `trials` by row id.
    index: HashMap<i64, usize>,
    /// Distributions by text: a study has few different ones.
    domains: HashMap<String, Domain>,
}

impl<'a> Reader<'a> {
    /// With these trials, of which nothing else is read yet.
    fn of(conn: &'a Connection, study_id: i64, which: Which<'_>) -> Result<Reader<'a>, Kind> {
        let mut reader = Reader {
            conn,
            study_id,
            only: match which {
                Which::These(numbers) => Some(Json::from(numbers).to_string()),
                Which::All | Which::In(_) => None,
            },
            state: match which {
                Which::In(state) => Some(state),
                Which::All | Which::These(_) => None,
            },
            keys: None,
            trials: Vec::new(),
            index: HashMap::new(),
            domains: HashMap::new(),
        };
        reader.read_trials()?;
        Ok(reader)
    }

    fn read_trials(&mut self) -> Result<(), Kind> {
        let (conn, study_id) = (self.conn, self.study_id);
        let mut args: Vec<&dyn ToSql> = vec![&study_id];
        let only = (self.only.as_ref(), self.state);
        let condition = condition(conn, only, "number", &mut args);
        let query = format!(
            "SELECT t.trial_id, t.number, t.state, t.datetime_start, t.datetime_complete
             FROM trials t WHERE t.study_id = ?1 AND {condition} ORDER BY t.number, t.trial_id"
        );
        conn.each(&query, &args, |row| {
            let trial_id: i64 = row.get(0)?;
            let number: Option<u64> = row.get(1)?;
            let number = number.ok_or_else(|| {
                Kind::Content(format!("the trial with id {trial_id} has no number"))
            })?;
            if self.trials.last().is_some_and(|last| last.number == number) {
                return Err(Kind::Content(format!(
                    "{} has two trials with the number {number}",
                    named(conn, study_id)
                )));
            }
            self.index.insert(trial_id, self.trials.len());
            let state = state(row.text(2)?, || format!("trial {number}"))?;
            self.trials.push(FrozenTrial {
                trial_id,
                datetime_start: row.get(3)?,
                datetime_complete: row.get(4)?,
                ..FrozenTrial::new(number, state, Params::new())
            });
            Ok(())
        })?;
        // By row id the other tables' rows are found without a look at all trials of the study.
        if self.only.is_some() {
            let ids: Vec<i64> = self.trials.iter().map(|t| t.trial_id).collect();
            self.only = Some(Json::from(ids).to_string());
        }
        Ok(())
    }

    /// Runs `SELECT trial_id, {columns} FROM {table}` for the trials read; `rest` is what follows
    /// the condition for these. Rows of one trial come one after another.
    pub(super) fn each(
        &mut self,
        table: &str,
        columns: &str,
        rest: &str,
        mut take: impl FnMut(
            usize,
            &mut FrozenTrial,
            &Row<'_>,
            &mut HashMap<String, Domain>,
        ) -> Result<(), Kind>,
    ) -> Result<(), Kind> {
        let (conn, study_id) = (self.conn, self.study_id);
        let mut args: Vec<&dyn ToSql> = vec![&study_id];
        args.extend(self.keys.iter().map(|keys| keys as &dyn ToSql));
        let only = (self.only.as_ref(), self.state);
        let condition = condition(conn, only, "trial_id", &mut args);
        let query = format!(
            "SELECT r.trial_id, {columns} FROM trials t JOIN {table} r ON r.trial_id = t.trial_id
             WHERE t.study_id = ?1 AND {condition} {rest}"
        );
        let mut whose: Option<(i64, Option<usize>)> = None;
        conn.each(&query, &args, |row| {
            let trial_id = row.get(0)?;
            if whose.is_none_or(|(last, _)| last != trial_id) {
                whose = Some((trial_id, self.index.get(&trial_id).copied()));
            }
            if let Some((_, Some(i))) = whose {
                take(i, &mut self.trials[i], row, &mut self.domains)?;
            }
            Ok(())
        })
    }

    fn read_params(&mut self) -> Result<(), Kind> {
        self.each_param(|trial, name, value, domain| {
            trial.params.insert(name.clone(), value);
            trial.distributions.insert(name, domain.clone());
        })
    }

    /// The parameters without their distributions.
    fn read_points(&mut self) -> Result<(), Kind> {
        self.each_param(|trial, name, value, _| {
            trial.params.insert(name, value);
        })
    }

    fn each_param(
        &mut self,
        mut take: impl FnMut(&mut FrozenTrial, String, Value, &Domain),
    ) -> Result<(), Kind> {
        let columns = "r.param_name, r.param_value, r.distribution_json";
        let order = "ORDER BY t.trial_id";
        self.each("trial_params", columns, order, |_, trial, row, domains| {
            let name: String = row.get(1)?;
            let (value, domain) = parameter(row, &name, trial.number, domains)?;
            take(trial, name, value, domain);
            Ok(())
        })
    }

    fn read_values(&mut self) -> Result<(), Kind> {
        let columns = "r.value, r.value_type";
        self.each(
            "trial_values",
            columns,
            "ORDER BY t.trial_id, r.objective",
            |_, trial, row, _| {
                let value = number(row, 1, || format!("the value of trial {}", trial.number))?;
                if value.is_nan() {
                    return Err(Kind::Content(format!(
                        "the value of trial {} is NaN",
                        trial.number
                    )));
                }
                trial.values.push(value);
                Ok(())
            },
        )
    }

    fn read_intermediate(&mut self) -> Result<(), Kind> {
        let columns = "r.step, r.intermediate_value, r.intermediate_value_type";
        self.each(
            "trial_intermediate_values",
            columns,
            "ORDER BY t.trial_id",
            |_, trial, row, _| {
                let step: i64 = row.get(1)?;
                let value = number(row, 2, || {
                    format!("the value of trial {} at step {step}", trial.number)
                })?;
                trial.intermediate.insert(step, value);
                Ok(())
            },
        )
    }

    /// The constraints of complete trials: by those of others nothing is chosen.
    fn read_constraints(&mut self) -> Result<(), Kind> {
        self.read_attributes(
            "trial_system_attributes",
            "AND t.state = 'COMPLETE'
             AND (r.\"key\" = 'constraints' OR substr(r.\"key\", 1, 12) = 'constraints:')",
            |t| &mut t.system_attrs,
        )
    }

    /// The user attributes with these keys. They are what people type: no text of a query is made of them.
    fn read_user_attributes(&mut self, keys: &[&str]) -> Result<(), Kind> {
        let among = format!("AND {}", self.conn.among_texts("r.\"key\"", "?2"));
        self.keys = Some(Json::from(keys).to_string());
        let read = self.read_attributes("trial_user_attributes", &among, |t| &mut t.user_attrs);
        self.keys = None;
        read
    }

    fn read_attributes(
        &mut self,
        table: &str,
        rest: &str,
        map: impl Fn(&mut FrozenTrial) -> &mut Map<String, Json>,
    ) -> Result<(), Kind> {
        self.each(table, "r.key, r.value_json", rest, |_, trial, row, _| {
            let (key, value) = attribute(row, || format!("trial {}", trial.number))?;
            map(trial).insert(key, value);
            Ok(())
        })
    }
}

/// A parameter's value and its distribution, from the third and fourth column.
pub(super) fn parameter<'d>(
    row: &Row<'_>,
    name: &str,
    trial: u64,
    domains: &'d mut HashMap<String, Domain>,
) -> Result<(Value, &'d Domain), Kind> {
    let wrong =
        |what: &str| Kind::Content(format!("parameter {name:?} of trial {trial} has {what}"));
    let internal: Option<f64> = row.get(2)?;
    let text = row.text(3)?;
    if !domains.contains_key(text) {
        let domain = distribution_from_json(text)
            .map_err(|why| wrong(&format!("a stored distribution that is none: {why}")))?;
        domains.insert(text.to_owned(), domain);
    }
    let domain = &domains[text];
    let internal = internal.ok_or_else(|| wrong("no value"))?;
    let value = domain.from_internal(internal).ok_or_else(|| {
        wrong(&format!(
            "the index {internal}, beyond the choices of its distribution"
        ))
    })?;
    Ok((value, domain))
}

/// A state's word.
pub(super) fn state(word: &str, whose: impl Fn() -> String) -> Result<TrialState, Kind> {
    word.parse().map_err(|()| {
        Kind::Content(format!(
            "{} has the state {word:?}, expected WAITING, RUNNING, COMPLETE, PRUNED or FAIL",
            whose()
        ))
    })
}

/// Key and value of an attribute, from the second and third column.
pub(super) fn attribute(row: &Row<'_>, whose: impl Fn() -> String) -> Result<(String, Json), Kind> {
    let key: String = row.get(1)?;
    match row.text_or_null(2)?.and_then(python_json) {
        Some(value) => Ok((key, value)),
        None => Err(Kind::Content(format!(
            "attribute {key:?} of {} is no JSON",
            whose()
        ))),
    }
}

/// A number and, in the next column, its type.
pub(super) fn number(row: &Row<'_>, column: usize, what: impl Fn() -> String) -> Result<f64, Kind> {
    let value: Option<f64> = row.get(column)?;
    let kind = row.text(column + 1)?;
    match (kind, value) {
        ("FINITE", Some(x)) => Ok(x),
        ("INF_POS", _) => Ok(f64::INFINITY),
        ("INF_NEG", _) => Ok(f64::NEG_INFINITY),
        ("NAN", _) => Ok(f64::NAN),
        ("FINITE", None) => Err(Kind::Content(format!(
            "{} is of type FINITE, but missing",
            what()
        ))),
        _ => Err(Kind::Content(format!(
            "{} is of type {kind:?}, expected FINITE, INF_POS, INF_NEG or NAN",
            what()
        ))),
    }
}
