//! A connection to a PostgreSQL server that is made again where it is lost.

use std::cell::{Cell as Shared, RefCell};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::types::Value;
use tokio_postgres::Statement;
use tokio_postgres::config::SslMode;

use super::address::{self, Address};
use super::cells::{Cell, Parameter};
use super::session::{Failed, Session};
use super::{Args, Intent, Kind};

/// How long a connection may take to be made.
const CONNECTING: Duration = Duration::from_secs(10);

/// After so long without an answer from the other side a connection is lost.
const SILENCE: Duration = Duration::from_secs(30);

/// No part of an answer takes longer: a server whose disk or machine stands still, or what stands between, keeps a
/// connection open and says nothing.
const ANSWER: Duration = Duration::from_secs(60);

/// The same of what may take long and says nothing meanwhile: a study of many trials that is deleted.
const LONG_ANSWER: Duration = Duration::from_secs(3600);

/// How long it is asked what has become of a transaction whose end nobody has told.
const DOUBT: Duration = Duration::from_secs(2);

/// The oldest server that is used.
const OLDEST: i64 = 13;

/// What a session is set to: times by the server's clock are UTC, what is told as written is on the disk, a node that
/// is cut off in the middle of a transaction holds nobody up for longer than this, and of one whose machine is gone the server
/// finds that out within half a minute (by itself, after two hours) and gives its name free.
const SETTINGS: &str = "SET TIME ZONE 'UTC'; SET synchronous_commit = on;
    SET idle_in_transaction_session_timeout = '20s'; SET client_min_messages = warning;
    SET tcp_keepalives_idle = 15; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3;
    SET tcp_user_timeout = '30s'";

/// Takes the id of the next trial.
pub(super) const NEXT_TRIAL_ID: &str =
    "SELECT nextval(pg_get_serial_sequence('trials', 'trial_id'))";

/// A connection to a server.
pub(crate) struct Server {
    address: Address,
    session: RefCell<Option<Session>>,
    prepared: RefCell<HashMap<String, Prepared>>,
    /// How long a statement waits for another's lock.
    patience: Shared<Duration>,
    /// How long each part of an answer may take besides.
    answers: Shared<Duration>,
    /// The study that this connection keeps other nodes from.
    held: RefCell<Option<(i64, Option<String>)>>,
    /// The server's process behind the connection that holds it, and when that began.
    holder: RefCell<Option<(i32, String)>>,
    /// A transaction is under way: what comes next belongs to it, or fails with it.
    inside: Shared<bool>,
    /// Of the transaction that is under way, once it has written.
    number: Shared<Option<i64>>,
}

/// A statement as the server knows it.
#[derive(Clone)]
struct Prepared {
    statement: Statement,
    /// Which of our parameters its own are, in order.
    parameters: Vec<usize>,
}

impl Server {
    /// Connects to a server.
    ///
    /// # Errors
    /// It cannot be reached, refuses this user, or is too old.
    pub(crate) fn connect(address: &Address) -> Result<Server, Kind> {
        let server = Server {
            address: address.clone(),
            session: RefCell::new(None),
            prepared: RefCell::default(),
            patience: Shared::new(Duration::from_millis(500)),
            answers: Shared::new(ANSWER),
            held: RefCell::new(None),
            holder: RefCell::new(None),
            inside: Shared::new(false),
            number: Shared::new(None),
        };
        server.with(|_| Ok(()))?;
        Ok(server)
    }

    /// Does something with the connection, which is made again where it was lost, but not within a transaction: that
    /// is lost with it.
    fn with<T>(&self, act: impl FnOnce(&mut Session) -> Result<T, Failed>) -> Result<T, Kind> {
        let mut session = self.session.borrow_mut();
        if session.as_ref().is_none_or(Session::is_closed) {
            if self.inside.get() {
                let what = "the connection was lost in the middle of a transaction";
                return Err(Kind::Unreachable(what.to_owned()));
            }
            self.prepared.borrow_mut().clear();
            *session = None;
            *session = Some(self.open()?);
        }
        match session.as_mut() {
            Some(session) => act(session).map_err(Kind::from),
            None => Err(Kind::Unreachable("no connection".to_owned())),
        }
    }

    fn open(&self) -> Result<Session, Kind> {
        let mut config = self
            .address
            .config(address::environment)
            .map_err(Kind::Settings)?;
        config
            .application_name("tune")
            .connect_timeout(CONNECTING)
            .tcp_user_timeout(SILENCE)
            .keepalives_idle(SILENCE / 2);
        let tls = match config.get_ssl_mode() == SslMode::Disable {
            true => None,
            false => Some(super::tls::connector(self.address.roots())?),
        };
        let mut session = Session::open(&config, tls, ANSWER)?;
        session.batch(SETTINGS)?;
        let wait = self.patience.get().as_millis().max(1);
        session.batch(&format!("SET lock_timeout = '{wait}ms'"))?;
        check(&mut session)?;
        if let Some((study_id, node)) = &*self.held.borrow() {
            self.hold_again(&mut session, *study_id, node.as_deref())?;
        }
        session.set_patience(self.answers.get() + self.patience.get());
        Ok(session)
    }

    /// Takes the lock of the study for a connection that is made in the place of one that was lost, which the server may
    /// believe in still.
    fn hold_again(
        &self,
        session: &mut Session,
        study_id: i64,
        node: Option<&str>,
    ) -> Result<(), Kind> {
        if let Some((pid, began)) = &*self.holder.borrow() {
            let end = "SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity
                WHERE pid = $1 AND CAST(backend_start AS text) = $2";
            session.row(end, &[pid, began])?;
        }
        let start = Instant::now();
        loop {
            match hold(session, study_id, node) {
                Ok(holder) => {
                    self.holder.replace(Some(holder));
                    return Ok(());
                }
                Err(Kind::Held(..)) if start.elapsed() < DOUBT => thread::sleep(DOUBT / 20),
                // Tried again for as long as for a server that is not there.
                Err(Kind::Held(..)) => {
                    let what = "another connection has the lock of the study";
                    return Err(Kind::Unreachable(what.to_owned()));
                }
                Err(kind) => return Err(kind),
            }
        }
    }

    pub(super) fn hold(&self, study_id: i64, node: Option<&str>) -> Result<(), Kind> {
        // The first use finds out whether the connection is there.
        self.batch("")?;
        if let Some(session) = self.session.borrow_mut().as_mut() {
            self.holder.replace(Some(hold(session, study_id, node)?));
        }
        self.held.replace(Some((study_id, node.map(str::to_owned))));
        Ok(())
    }

    /// What stands for the last sign of life of the connection that has a node's name; `None`: there is none, or it is not
    /// for this user to see.
    pub(super) fn sign_of_life(&self, study_id: i64, node: &str) -> Result<Option<String>, Kind> {
        let query = "SELECT CAST(a.pid AS text) || ' ' || CAST(a.state_change AS text)
            FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
            WHERE l.locktype = 'advisory' AND l.granted AND a.datname = current_database()
              AND CAST(l.classid AS bigint) = CAST(hashtext(?2) AS bigint) & 4294967295
              AND CAST(l.objid AS bigint) = ?1";
        let sign = self.first(query, &[&study_id, &node_word(node)], |row| {
            Ok(text(&row[0]).map(str::to_owned))
        })?;
        Ok(sign.flatten())
    }

    /// Whether a connection has a node's name.
    pub(super) fn has_name(&self, study_id: i64, node: &str) -> Result<bool, Kind> {
        let query = "SELECT 1 FROM pg_locks l JOIN pg_database d ON d.oid = l.database
            WHERE l.locktype = 'advisory' AND l.granted AND d.datname = current_database()
              AND CAST(l.classid AS bigint) = CAST(hashtext(?2) AS bigint) & 4294967295
              AND CAST(l.objid AS bigint) = ?1";
        let found = self.first(query, &[&study_id, &node_word(node)], |_| Ok(()))?;
        Ok(found.is_some())
    }

    pub(super) fn set_lock_patience(&self, patience: Duration) -> Result<(), Kind> {
        self.patience.set(patience);
        let wait = patience.as_millis().max(1);
        self.with(|session| {
            session.set_patience(self.answers.get() + patience);
            session.batch(&format!("SET lock_timeout = '{wait}ms'"))
        })
    }

    /// Does what may take long.
    pub(super) fn at_length<T>(&self, act: impl FnOnce() -> Result<T, Kind>) -> Result<T, Kind> {
        self.wait_for_answers(LONG_ANSWER);
        let done = act();
        self.wait_for_answers(ANSWER);
        done
    }

    /// Of this connection, and of one that is made in its place.
    fn wait_for_answers(&self, patience: Duration) {
        self.answers.set(patience);
        if let Some(session) = self.session.borrow_mut().as_mut() {
            session.set_patience(patience + self.patience.get());
        }
    }

    pub(super) fn batch(&self, sql: &str) -> Result<(), Kind> {
        self.with(|session| session.batch(sql))
    }

    pub(super) fn execute(&self, sql: &str, args: Args<'_>) -> Result<usize, Kind> {
        let (prepared, parameters) = self.ready(sql, args)?;
        let changed = self.with(|session| session.execute(&prepared.statement, &parameters))?;
        usize::try_from(changed).map_err(|error| Kind::Sql(error.to_string()))
    }

    pub(super) fn send(&self, sql: &str, args: Args<'_>) -> Result<(), Kind> {
        if !self.inside.get() {
            return self.execute(sql, args).map(|_| ());
        }
        let (prepared, parameters) = self.ready(sql, args)?;
        self.with(|session| {
            session.keep(prepared.statement, parameters);
            Ok(())
        })
    }

    pub(super) fn ask_ahead(&self, sql: &str, args: Args<'_>) -> Result<(), Kind> {
        let (prepared, parameters) = self.ready(sql, args)?;
        self.with(|session| {
            session.keep_question(prepared.statement, (sql.to_owned(), parameters));
            Ok(())
        })
    }

    pub(super) fn each(
        &self,
        sql: &str,
        args: Args<'_>,
        mut take: impl FnMut(&[Value]) -> Result<(), Kind>,
    ) -> Result<(), Kind> {
        let (prepared, parameters) = self.ready(sql, args)?;
        let inside = self.inside.get();
        let rows = self.with(|session| {
            let ahead = match inside {
                true => session.answer(sql, &parameters)?,
                false => None,
            };
            match ahead {
                Some(rows) => Ok(rows),
                None => session.query(&prepared.statement, &parameters),
            }
        })?;
        let mut values = Vec::new();
        for row in rows {
            values.clear();
            for column in 0..row.len() {
                let Cell(value) = row.try_get(column)?;
                values.push(value);
            }
            take(&values)?;
        }
        Ok(())
    }

    pub(super) fn first<T>(
        &self,
        sql: &str,
        args: Args<'_>,
        make: impl FnOnce(&[Value]) -> Result<T, Kind>,
    ) -> Result<Option<T>, Kind> {
        let mut make = Some(make);
        let mut made = None;
        self.each(sql, args, |row| {
            if let Some(make) = make.take() {
                made = Some(make(row)?);
            }
            Ok(())
        })?;
        Ok(made)
    }

    /// The statement as the server has it, and its parameters.
    fn ready(&self, sql: &str, args: Args<'_>) -> Result<(Prepared, Vec<Parameter>), Kind> {
        let known = self.prepared.borrow().get(sql).cloned();
        let closed = || {
            self.session
                .borrow()
                .as_ref()
                .is_none_or(Session::is_closed)
        };
        let prepared = match known.filter(|_| !closed()) {
            Some(prepared) => prepared,
            None => {
                let (text, parameters) = in_its_words(sql);
                let statement = self.with(|session| session.prepare(&text))?;
                let prepared = Prepared {
                    statement,
                    parameters,
                };
                let mut all = self.prepared.borrow_mut();
                all.insert(sql.to_owned(), prepared.clone());
                prepared
            }
        };
        let value = |i: &usize| {
            use rusqlite::types::ToSqlOutput;
            let output = args[*i].to_sql()?;
            Ok(Parameter(match output {
                ToSqlOutput::Borrowed(value) => {
                    Value::try_from(value).map_err(rusqlite::Error::from)?
                }
                ToSqlOutput::Owned(value) => value,
                _ => return Err(Kind::Sql("a parameter of an unknown kind".to_owned())),
            }))
        };
        let parameters = prepared.parameters.iter().map(value);
        let parameters = parameters.collect::<Result<_, Kind>>()?;
        Ok((prepared, parameters))
    }

    pub(super) fn transaction<T>(
        &self,
        intent: Intent,
        act: impl FnOnce() -> Result<T, Kind>,
    ) -> Result<T, Kind> {
        let begin = match intent {
            Intent::Read => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
            Intent::Write => "BEGIN",
        };
        self.number.set(None);
        // A connection that was lost since it was last used is found out here, where nothing is lost with it.
        if let Some(session) = self.session.borrow_mut().as_mut() {
            session.listen();
        }
        // It goes out with the first question.
        let (begin, parameters) = self.ready(begin, &[])?;
        self.with(|session| {
            session.forget();
            session.keep(begin.statement, parameters);
            Ok(())
        })?;
        self.inside.set(true);
        let done = act();
        self.inside.set(false);
        match done {
            Ok(done) => self.commit().map(|()| done),
            Err(kind) => {
                // A connection that is lost has rolled back.
                if let Some(session) = self.session.borrow_mut().as_mut() {
                    session.forget();
                    let _ = session.batch("ROLLBACK");
                }
                Err(kind)
            }
        }
    }

    /// Commits. Where the connection is lost before the server has answered, it is asked by another one what has become of
    /// the transaction.
    fn commit(&self) -> Result<(), Kind> {
        let mut session = self.session.borrow_mut();
        let Some(open) = session.as_mut() else {
            return Err(Kind::Unreachable("the connection was lost".to_owned()));
        };
        // Behind a statement that fails, COMMIT is a ROLLBACK.
        let Err(error) = open.batch("COMMIT") else {
            return Ok(());
        };
        let lost = open.is_closed();
        if !lost {
            // COMMIT may not have gone out behind what could not be sent.
            open.forget();
            let _ = open.batch("ROLLBACK");
        }
        drop(session);
        match self.number.get() {
            Some(number) if lost => match self.committed(number) {
                Ok(true) => Ok(()),
                Ok(false) => Err(error.into()),
                Err(_) => Err(Kind::Doubtful(number)),
            },
            Some(_) | None => Err(error.into()),
        }
    }

    /// Whether a transaction was committed.
    ///
    /// # Errors
    /// The server cannot be asked.
    pub(crate) fn committed(&self, number: i64) -> Result<bool, Kind> {
        let start = Instant::now();
        loop {
            let status = "SELECT txid_status(?1)";
            let status = self.first(status, &[&number], |row| {
                Ok(text(&row[0]).map(str::to_owned))
            });
            match status.map(Option::flatten) {
                Ok(Some(word)) if word != "in progress" => return Ok(word == "committed"),
                Err(kind) if start.elapsed() >= DOUBT => return Err(kind),
                Ok(_) if start.elapsed() >= DOUBT => {
                    let what = format!("transaction {number} has no end yet");
                    return Err(Kind::Unreachable(what));
                }
                Ok(_) | Err(_) => thread::sleep(DOUBT / 20),
            }
        }
    }

    /// Locks the row of a study, as Optuna does before it adds a trial, so that numbers are given once and ids are committed in
    /// their order; the transaction's number is known from here on. How many objectives the study has, which never changes:
    /// what else the same statement read might be from before it had the lock. What `ahead` asks is answered with it.
    pub(super) fn lock_study(
        &self,
        study_id: i64,
        ahead: impl FnOnce() -> Result<(), Kind>,
    ) -> Result<usize, Kind> {
        let lock = "SELECT txid_current(),
                 (SELECT COUNT(*) FROM study_directions d WHERE d.study_id = s.study_id)
             FROM studies s WHERE s.study_id = ?1 FOR UPDATE OF s";
        self.ask_ahead(lock, &[&study_id])?;
        ahead()?;
        let found = self.first(lock, &[&study_id], |row| match row {
            [Value::Integer(number), Value::Integer(objectives)] => Ok((*number, *objectives)),
            _ => Err(Kind::Sql("a lock that gives no numbers".to_owned())),
        })?;
        self.number.set(found.map(|(number, _)| number));
        let (_, objectives) = found.ok_or(Kind::UnknownStudy(study_id))?;
        usize::try_from(objectives).map_err(|error| Kind::Sql(error.to_string()))
    }

    /// The id of the next trial; `None`: the server has no counter for it.
    pub(super) fn next_trial_id(&self) -> Result<Option<i64>, Kind> {
        let next = self.first(NEXT_TRIAL_ID, &[], |row| match row {
            [Value::Integer(id)] => Ok(Some(*id)),
            _ => Ok(None),
        })?;
        Ok(next.flatten())
    }

    /// Stands for what is committed: which transactions have ended, and which are under way.
    pub(super) fn version(&self) -> Result<i64, Kind> {
        let mut hasher = DefaultHasher::new();
        self.each("SELECT CAST(txid_current_snapshot() AS text)", &[], |row| {
            hasher.write(text(&row[0]).unwrap_or_default().as_bytes());
            Ok(())
        })?;
        Ok(hasher.finish().cast_signed())
    }
}

/// Takes the locks that stand for a study; the server gives them back when the connection ends. A node shares the study's
/// with others, and has that of its name to itself. Which process of the server has them, and when that began.
fn hold(session: &mut Session, study_id: i64, node: Option<&str>) -> Result<(i32, String), Kind> {
    let study = i32::try_from(study_id).map_err(|_| Kind::UnknownStudy(study_id))?;
    let got: bool = match node {
        None => {
            let alone = "SELECT pg_try_advisory_lock(1953852005, $1)";
            session.row(alone, &[&study])?.try_get(0)?
        }
        Some(node) => {
            let node = node_word(node);
            let shared = "SELECT CASE WHEN pg_try_advisory_lock_shared(1953852005, $1)
                THEN pg_try_advisory_lock(hashtext($2), $1) ELSE FALSE END";
            session.row(shared, &[&study, &node])?.try_get(0)?
        }
    };
    if !got {
        return Err(Kind::Held(study_id, node.map(str::to_owned)));
    }
    let own = "SELECT pid, CAST(backend_start AS text)
        FROM pg_stat_activity WHERE pid = pg_backend_pid()";
    let row = session.row(own, &[])?;
    Ok((row.try_get(0)?, row.try_get(1)?))
}

/// What the lock of a node's name is taken on.
fn node_word(node: &str) -> String {
    format!("node {node} of tune")
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::Text(text) => Some(text),
        Value::Null | Value::Integer(_) | Value::Real(_) | Value::Blob(_) => None,
    }
}

/// Refuses a server that lacks what is needed.
fn check(session: &mut Session) -> Result<(), Kind> {
    let row = session.row(
        "SELECT CAST(current_setting('server_version_num') AS bigint) / 10000,
             current_setting('server_encoding')",
        &[],
    )?;
    let (version, encoding): (i64, String) = (row.try_get(0)?, row.try_get(1)?);
    if version < OLDEST {
        let what = format!("PostgreSQL {version}; expected {OLDEST} or newer");
        return Err(Kind::Unfit(what));
    }
    match encoding.as_str() {
        "UTF8" => Ok(()),
        _ => Err(Kind::Unfit(format!(
            "a database in {encoding}; expected UTF8"
        ))),
    }
}

/// A statement with parameters as PostgreSQL counts them, without gaps, and which of ours they are.
fn in_its_words(sql: &str) -> (String, Vec<usize>) {
    let (mut text, mut parameters) = (String::with_capacity(sql.len()), Vec::new());
    let mut parts = sql.split('?');
    text.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let end = part
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(part.len());
        let (digits, rest) = part.split_at(end);
        let Ok(ours) = digits.parse::<usize>() else {
            text.push('?');
            text.push_str(part);
            continue;
        };
        let place = parameters.iter().position(|p| *p + 1 == ours);
        let place = place.unwrap_or_else(|| {
            parameters.push(ours - 1);
            parameters.len() - 1
        });
        text.push_str(&format!("${}{rest}", place + 1));
    }
    (text, parameters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_counted_without_gaps_and_named_again() {
        let (text, ours) =
            in_its_words("UPDATE t SET a = ?4 WHERE (b) = (?1) AND c = ?4 OR d = ?12");
        assert_eq!(
            text,
            "UPDATE t SET a = $1 WHERE (b) = ($2) AND c = $1 OR d = $3"
        );
        assert_eq!(ours, [3, 0, 11]);
        let (text, ours) = in_its_words("SELECT 'why?' FROM t");
        assert_eq!((text.as_str(), ours.len()), ("SELECT 'why?' FROM t", 0));
    }
}
