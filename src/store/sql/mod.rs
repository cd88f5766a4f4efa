//! The one seam between what the store asks and the program that keeps the rows: SQLite in this
//! process, or a PostgreSQL server.
//!
//! Queries are written once, in what both understand, with `?1` for a parameter. What must be said
//! differently is a method of [`Connection`] here. Values are SQLite's (`rusqlite::types`): integers,
//! floats, text and NULL; times are text, as Optuna's SQLite file has them.

// What only a server has to be told is not used without one.
#![cfg_attr(not(feature = "postgres"), allow(dead_code, unused_variables))]

#[cfg(feature = "postgres")]
pub(super) mod address;
#[cfg(feature = "postgres")]
mod cells;
#[cfg(feature = "postgres")]
mod failures;
#[cfg(feature = "postgres")]
mod server;
#[cfg(feature = "postgres")]
mod session;
#[cfg(feature = "postgres")]
mod tables;
#[cfg(feature = "postgres")]
mod tls;

use std::borrow::Cow;
use std::time::Duration;

use rusqlite::types::{FromSql, ToSql, Value, ValueRef};
use rusqlite::{Transaction, TransactionBehavior};

use super::StoreErrorKind as Kind;

#[cfg(feature = "postgres")]
pub(super) use server::Server;

/// The parameters of a statement.
pub(super) type Args<'a> = &'a [&'a dyn ToSql];

/// An open connection.
pub(super) enum Connection {
    /// To a file.
    Sqlite(rusqlite::Connection),
    /// To a server.
    #[cfg(feature = "postgres")]
    Postgres(Box<Server>),
}

/// A row of an answer.
pub(super) enum Row<'a> {
    /// As SQLite steps through it.
    Sqlite(&'a rusqlite::Row<'a>),
    /// Of an answer that has been read.
    Read(&'a [Value]),
}

impl Row<'_> {
    /// The value of a column.
    ///
    /// # Errors
    /// It is of another type: the row is none of ours.
    pub(super) fn get<T: FromSql>(&self, column: usize) -> Result<T, Kind> {
        match self {
            Row::Sqlite(row) => Ok(row.get(column)?),
            Row::Read(row) => {
                let value = ValueRef::from(&row[column]);
                T::column_result(value).map_err(|error| {
                    Kind::Content(format!(
                        "column {column} holds {}: {error}",
                        value.data_type()
                    ))
                })
            }
        }
    }

    /// The text of a column.
    ///
    /// # Errors
    /// See [`Row::get`].
    pub(super) fn text(&self, column: usize) -> Result<&str, Kind> {
        self.value(column)?
            .as_str()
            .map_err(|e| rusqlite::Error::from(e).into())
    }

    /// The text of a column that may be NULL.
    ///
    /// # Errors
    /// See [`Row::get`].
    pub(super) fn text_or_null(&self, column: usize) -> Result<Option<&str>, Kind> {
        self.value(column)?
            .as_str_or_null()
            .map_err(|e| rusqlite::Error::from(e).into())
    }

    fn value(&self, column: usize) -> Result<ValueRef<'_>, Kind> {
        match self {
            Row::Sqlite(row) => Ok(row.get_ref(column)?),
            Row::Read(row) => Ok(ValueRef::from(&row[column])),
        }
    }
}

/// What is done where the connection is to a file (`sqlite`), and what where it is to a server.
macro_rules! either {
    ($connection:expr, $sqlite:pat => $of_file:expr, $server:pat => $of_server:expr) => {
        match $connection {
            Connection::Sqlite($sqlite) => $of_file,
            #[cfg(feature = "postgres")]
            Connection::Postgres($server) => $of_server,
        }
    };
}

/// What a transaction is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Intent {
    /// Reading as of one moment.
    Read,
    /// Writing: all of it, or nothing.
    Write,
}

impl Connection {
    /// Carries out a statement that gives no rows; how many rows it has changed.
    pub(super) fn execute(&self, sql: &str, args: Args<'_>) -> Result<usize, Kind> {
        either!(self,
            conn => Ok(conn.prepare_cached(sql)?.execute(args)?),
            server => server.execute(sql, args))
    }

    /// Carries out a statement that gives no rows, and of which nobody needs to know how many it has changed. In a transaction a
    /// server gets it together with the next statement that gives something back, or with the end, which fails with it.
    pub(super) fn send(&self, sql: &str, args: Args<'_>) -> Result<(), Kind> {
        either!(self,
            _ => self.execute(sql, args).map(|_| ()),
            server => server.send(sql, args))
    }

    /// Asks a server ahead what this transaction is going to ask in the same words, and before it writes anything that alters
    /// the answer: that comes together with the next one.
    pub(super) fn ask_ahead(&self, sql: &str, args: Args<'_>) -> Result<(), Kind> {
        either!(self, _ => Ok(()), server => server.ask_ahead(sql, args))
    }

    /// Takes the rows of an answer one by one.
    pub(super) fn each(
        &self,
        sql: &str,
        args: Args<'_>,
        mut take: impl FnMut(&Row<'_>) -> Result<(), Kind>,
    ) -> Result<(), Kind> {
        either!(self,
            conn => {
                let mut statement = conn.prepare_cached(sql)?;
                let mut rows = statement.query(args)?;
                while let Some(row) = rows.next()? {
                    take(&Row::Sqlite(row))?;
                }
                Ok(())
            },
            server => server.each(sql, args, |row| take(&Row::Read(row))))
    }

    /// What is made of the rows of an answer, in their order.
    pub(super) fn rows<T, C: FromIterator<T>>(
        &self,
        sql: &str,
        args: Args<'_>,
        mut make: impl FnMut(&Row<'_>) -> Result<T, Kind>,
    ) -> Result<C, Kind> {
        let mut all = Vec::new();
        self.each(sql, args, |row| {
            all.push(make(row)?);
            Ok(())
        })?;
        Ok(all.into_iter().collect())
    }

    /// What is made of the first row of an answer.
    pub(super) fn first<T>(
        &self,
        sql: &str,
        args: Args<'_>,
        make: impl FnOnce(&Row<'_>) -> Result<T, Kind>,
    ) -> Result<Option<T>, Kind> {
        either!(self,
            conn => {
                let mut statement = conn.prepare_cached(sql)?;
                let mut rows = statement.query(args)?;
                let row = rows.next()?;
                row.map(|row| make(&Row::Sqlite(row))).transpose()
            },
            server => server.first(sql, args, |row| make(&Row::Read(row))))
    }

    /// The first column of the only row of an answer.
    pub(super) fn value<T: FromSql>(&self, sql: &str, args: Args<'_>) -> Result<T, Kind> {
        self.first(sql, args, |row| row.get(0))?
            .ok_or_else(|| Kind::Sql(format!("no row answers {sql}")))
    }

    /// Whether an answer has rows.
    pub(super) fn exists(&self, sql: &str, args: Args<'_>) -> Result<bool, Kind> {
        Ok(self.first(sql, args, |_| Ok(()))?.is_some())
    }

    /// Writes rows; of those that have the same key, what is there is replaced. No two rows have the same key.
    pub(super) fn put<const N: usize>(
        &self,
        table: &str,
        key: &str,
        columns: &str,
        rows: &[[&dyn ToSql; N]],
    ) -> Result<(), Kind> {
        // Of no more sizes than can stay prepared.
        for rows in rows.chunks(16) {
            let statement = upsert(table, key, columns, rows.len());
            self.send(&statement, rows.as_flattened())?;
        }
        Ok(())
    }

    /// Carries out statements without parameters.
    pub(super) fn batch(&self, sql: &str) -> Result<(), Kind> {
        either!(self, conn => Ok(conn.execute_batch(sql)?), server => server.batch(sql))
    }

    /// Does something in one transaction: all of it, or nothing.
    pub(super) fn transaction<T>(
        &self,
        intent: Intent,
        act: impl FnOnce(&Connection) -> Result<T, Kind>,
    ) -> Result<T, Kind> {
        either!(self,
            conn => {
                let behavior = match intent {
                    Intent::Read => TransactionBehavior::Deferred,
                    Intent::Write => TransactionBehavior::Immediate,
                };
                let transaction = Transaction::new_unchecked(conn, behavior)?;
                let done = act(self)?;
                match intent {
                    Intent::Read => drop(transaction),
                    Intent::Write => transaction.commit()?,
                }
                Ok(done)
            },
            server => server.transaction(intent, || act(self)))
    }

    /// The connection to a file, for what only SQLite has.
    pub(super) fn sqlite(&self) -> Option<&rusqlite::Connection> {
        either!(self, conn => Some(conn), _ => None)
    }

    /// How long a statement waits for another program's lock.
    pub(super) fn set_lock_patience(&self, patience: Duration) -> Result<(), Kind> {
        either!(self,
            conn => Ok(conn.busy_timeout(patience)?),
            server => server.set_lock_patience(patience))
    }

    /// A number that is another one after somebody else has committed something, and may be another one after this
    /// connection has.
    pub(super) fn version(&self) -> Result<i64, Kind> {
        either!(self, _ => self.value("PRAGMA data_version", &[]), server => server.version())
    }

    /// Keeps others from a study as long as this connection lives, or one that is made in its place: those that call
    /// themselves by the same name as this node, or all where it has none.
    pub(super) fn hold(&self, study_id: i64, node: Option<&str>) -> Result<(), Kind> {
        either!(self, _ => Ok(()), server => server.hold(study_id, node))
    }

    /// What stands for the last sign of life of who else has a node's name, where that can be told.
    pub(super) fn sign_of_life(&self, study_id: i64, node: &str) -> Result<Option<String>, Kind> {
        either!(self, _ => Ok(None), server => server.sign_of_life(study_id, node))
    }

    /// Whether somebody else has a node's name.
    pub(super) fn has_name(&self, study_id: i64, node: &str) -> Result<bool, Kind> {
        either!(self, _ => Ok(false), server => server.has_name(study_id, node))
    }

    /// Does what may take long, and of which a server says nothing meanwhile.
    pub(super) fn at_length<T>(&self, act: impl FnOnce() -> Result<T, Kind>) -> Result<T, Kind> {
        either!(self, _ => act(), server => server.at_length(act))
    }

    /// Whether the transaction of this number was committed. SQLite says so itself.
    pub(super) fn committed(&self, number: i64) -> Result<bool, Kind> {
        either!(self, _ => Ok(false), server => server.committed(number))
    }

    /// Keeps other programs from adding trials to a study until the transaction ends. How many objectives the study has. A server
    /// answers what `ahead` asks ([`Connection::ask_ahead`]) as of when others are kept from it.
    ///
    /// # Errors
    /// The study was deleted.
    pub(super) fn lock_study(
        &self,
        study_id: i64,
        ahead: impl FnOnce() -> Result<(), Kind>,
    ) -> Result<usize, Kind> {
        either!(self,
            // The transaction has locked the file.
            _ => {
                let objectives =
                    "SELECT (SELECT COUNT(*) FROM study_directions WHERE study_id = ?1)
                     FROM studies WHERE study_id = ?1";
                self.first(objectives, &[&study_id], |row| row.get(0))?
                    .ok_or(Kind::UnknownStudy(study_id))
            },
            server => server.lock_study(study_id, ahead))
    }

    /// Asks ahead for the id of a trial that is going to be made.
    pub(super) fn ask_trial_id_ahead(&self) -> Result<(), Kind> {
        either!(self, _ => Ok(()), server => server.ask_ahead(server::NEXT_TRIAL_ID, &[]))
    }

    /// The id of a trial that is going to be made, where it can be told before.
    pub(super) fn next_trial_id(&self) -> Result<Option<i64>, Kind> {
        either!(self, _ => Ok(None), server => server.next_trial_id())
    }

    /// What makes Optuna's tables, from what does in SQLite.
    pub(super) fn optuna_tables<'a>(&self, sqlite: &'a str) -> Cow<'a, str> {
        either!(self, _ => sqlite.into(), _ => tables::optuna(sqlite).into())
    }

    /// What makes tables of our own, from what does in SQLite.
    pub(super) fn own_tables<'a>(&self, sqlite: &'a str) -> Cow<'a, str> {
        either!(self, _ => sqlite.into(), _ => tables::ours(sqlite).into())
    }

    /// Keeps others from making tables until the transaction ends.
    pub(super) fn lock_tables(&self) -> Result<(), Kind> {
        either!(self,
            _ => Ok(()),
            // Any number will do that no other program is likely to take.
            server => server.batch("SELECT pg_advisory_xact_lock(1953852005, 0)"))
    }

    /// The names of all tables; of a server's, which may be others' as well, those that studies are in.
    pub(super) fn tables(&self) -> Result<Vec<String>, Kind> {
        let query = either!(self,
            _ => "SELECT name FROM sqlite_master WHERE type = 'table'",
            _ => "SELECT CAST(tablename AS text) FROM pg_tables WHERE schemaname = current_schema()
                 AND (tablename ~ '^(stud(y|ies)|trial|tune)(s|_|$)'
                     OR tablename IN ('version_info', 'alembic_version'))");
        self.rows(query, &[], |row| row.get(0))
    }

    /// Whether there is such a table.
    pub(super) fn has_table(&self, name: &str) -> Result<bool, Kind> {
        either!(self,
        conn => Ok(conn.table_exists(None, name)?),
        _ => self.exists(
            "SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = ?1",
            &[&name],
        ))
    }

    /// Whether a table has such a column.
    pub(super) fn has_column(&self, table: &str, column: &str) -> Result<bool, Kind> {
        either!(self,
        conn => Ok(conn.column_exists(None, table, column)?),
        _ => self.exists(
            "SELECT 1 FROM information_schema.columns WHERE table_schema = current_schema()
             AND table_name = ?1 AND column_name = ?2",
            &[&table, &column],
        ))
    }

    /// The condition that a column of whole numbers is one of those in the JSON array that is this parameter.
    pub(super) fn among_numbers(&self, column: &str, parameter: &str) -> String {
        either!(self,
        _ => format!("{column} IN (SELECT value FROM json_each({parameter}))"),
        _ => format!(
            "{column} IN (SELECT value::bigint
                 FROM json_array_elements_text(CAST({parameter} AS text)::json))"
        ))
    }

    /// The condition that a column of text is one of those in the JSON array that is this parameter. SQLite is told by the
    /// `+` to walk through an owner's rows once: that is less work than one search in the index for each.
    pub(super) fn among_texts(&self, column: &str, parameter: &str) -> String {
        either!(self,
        _ => format!("+{column} IN (SELECT value FROM json_each({parameter}))"),
        _ => format!(
            "{column} IN (SELECT json_array_elements_text(CAST({parameter} AS text)::json))"
        ))
    }

    /// What a query ends with whose rows, of this table, nobody else may change before the transaction ends. Who writes to
    /// SQLite is alone anyway.
    pub(super) fn locking(&self, table: &str) -> String {
        either!(self, _ => String::new(), _ => format!(" FOR UPDATE OF {table}"))
    }

    /// The database's own time, in whole seconds since 1970. It goes on within a transaction.
    pub(super) fn clock(&self) -> &'static str {
        either!(self,
            _ => "CAST(strftime('%s', 'now') AS INTEGER)",
            _ => "CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS BIGINT)")
    }

    /// Whether the id of a row that was deleted may be given to another one.
    pub(super) fn gives_ids_again(&self) -> bool {
        either!(self, _ => true, _ => false)
    }
}

/// A statement that writes so many rows; those with the same key are replaced.
fn upsert(table: &str, key: &str, columns: &str, rows: usize) -> String {
    let names: Vec<&str> = key
        .split(',')
        .chain(columns.split(','))
        .map(str::trim)
        .collect();
    let row = |at: usize| {
        let first = at * names.len() + 1;
        let parameters = (first..first + names.len()).map(|i| format!("?{i}"));
        format!("({})", parameters.collect::<Vec<_>>().join(", "))
    };
    let set: Vec<String> = columns
        .split(',')
        .map(|c| format!("{0} = excluded.{0}", c.trim()))
        .collect();
    format!(
        "INSERT INTO {table} ({}) VALUES {} ON CONFLICT ({key}) DO UPDATE SET {}",
        names.join(", "),
        (0..rows).map(row).collect::<Vec<_>>().join(", "),
        set.join(", ")
    )
}
