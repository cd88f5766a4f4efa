//! From an empty file, or one that Optuna or an older `tune` wrote, to the current tables.

use super::StoreErrorKind as Kind;
use super::rows::{OF_STUDY, OF_TRIAL};
use super::schema::{
    MIGRATIONS, OPTUNA, OPTUNA_LIBRARY, OPTUNA_OLDER_REVISIONS, OPTUNA_REVISION, OPTUNA_SCHEMA,
};
use super::sql::{Connection, Intent};

/// What a file holds before anything is done to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Contents {
    /// No table at all.
    Empty,
    /// Optuna's tables, and ours after this many migrations.
    Optuna {
        /// Number of our migrations that were applied.
        migrations: usize,
    },
}

/// Looks at a file without changing it.
///
/// # Errors
/// A file of another program, or of a newer or older version; one that Optuna may be making just now.
pub(super) fn inspect(conn: &Connection) -> Result<Contents, Kind> {
    let tables = conn.tables()?;
    let has = |name: &str| tables.iter().any(|t| t == name);
    if tables.is_empty() {
        return Ok(Contents::Empty);
    }
    if !(has("studies") && has("trials") && has("version_info")) {
        let some: Vec<&str> = tables.iter().take(3).map(String::as_str).collect();
        let foreign = Kind::Foreign(format!("tables {}", some.join(", ")));
        let optunas = |name: &String| OPTUNA.contains(&format!("CREATE TABLE {name} ("));
        return Err(match tables.iter().all(optunas) {
            true => Kind::Unfinished(Box::new(foreign)),
            false => foreign,
        });
    }
    check_optuna(conn, has("alembic_version"))?;
    let migrations = if has("tune_migrations") {
        conn.value("SELECT COALESCE(MAX(version), 0) FROM tune_migrations", &[])?
    } else {
        0
    };
    if migrations > MIGRATIONS.len() {
        return Err(Kind::Newer(format!(
            "its tune_ tables are of version {migrations}, this program knows {}",
            MIGRATIONS.len()
        )));
    }
    Ok(Contents::Optuna { migrations })
}

fn check_optuna(conn: &Connection, has_revision: bool) -> Result<(), Kind> {
    // Optuna notes its versions when it has made all tables.
    let without = |what: &str| Kind::Unfinished(Box::new(Kind::Older(what.to_owned())));
    let version = "SELECT schema_version FROM version_info";
    let version: Option<Option<i64>> = conn.first(version, &[], |row| row.get(0))?;
    let revision = "SELECT version_num FROM alembic_version";
    let revision: Option<String> = match has_revision {
        true => conn.first(revision, &[], |row| row.get(0))?,
        false => None,
    };
    match version.flatten() {
        Some(v) if v > OPTUNA_SCHEMA => {
            return Err(Kind::Newer(format!(
                "Optuna's schema version is {v}, this program knows {OPTUNA_SCHEMA}"
            )));
        }
        Some(v) if v < OPTUNA_SCHEMA => {
            return Err(Kind::Older(format!(
                "schema version {v}, not {OPTUNA_SCHEMA}"
            )));
        }
        Some(_) => {}
        None => return Err(without("no schema version")),
    }
    match revision.as_deref() {
        Some(OPTUNA_REVISION) => Ok(()),
        Some(r) if OPTUNA_OLDER_REVISIONS.contains(&r) => {
            Err(Kind::Older(format!("revision {r}, not {OPTUNA_REVISION}")))
        }
        Some(r) => Err(Kind::Newer(format!(
            "Optuna's revision is {r}, this program knows {OPTUNA_REVISION}"
        ))),
        None => Err(without("no revision")),
    }
}

/// Refuses triggers that neither Optuna, which has none, nor a migration has made: they change what is written.
pub(super) fn check_triggers(conn: &Connection) -> Result<(), Kind> {
    if conn.sqlite().is_none() {
        return check_triggers_of_server(conn);
    }
    let all = "SELECT name, COALESCE(sql, '') FROM sqlite_master WHERE type = 'trigger'";
    conn.each(all, &[], |row| {
        let (name, text): (String, String) = (row.get(0)?, row.get(1)?);
        match MIGRATIONS.iter().any(|(_, sql)| sql.contains(&text)) {
            true => Ok(()),
            false => Err(Kind::Foreign(format!("the trigger {name:?}"))),
        }
    })
}

/// The same on a server, where our tables have none: what triggers of SQLite delete, foreign keys delete there. The schema may
/// have tables of others, whose triggers are none of ours.
fn check_triggers_of_server(conn: &Connection) -> Result<(), Kind> {
    let all = "SELECT t.tgname::text, c.relname::text FROM pg_trigger t
         JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE n.nspname = current_schema() AND NOT t.tgisinternal AND t.tgenabled <> 'D'";
    conn.each(all, &[], |row| {
        let (name, table): (String, String) = (row.get(0)?, row.get(1)?);
        let optunas = OF_TRIAL
            .iter()
            .chain(&OF_STUDY)
            .chain(&["studies", "trials"]);
        let ours = table.starts_with("tune_") || optunas.into_iter().any(|own| *own == table);
        match ours {
            true => Err(Kind::Foreign(format!("the trigger {name:?} on {table}"))),
            false => Ok(()),
        }
    })
}

/// Brings the file to the current tables in one transaction. The state is read again inside of
/// it: another program may have been faster.
pub(super) fn migrate(conn: &Connection, now: &str) -> Result<(), Kind> {
    let done = Contents::Optuna {
        migrations: MIGRATIONS.len(),
    };
    if inspect(conn)? == done {
        return Ok(());
    }
    conn.transaction(Intent::Write, |tx| {
        tx.lock_tables()?;
        let applied = match inspect(tx)? {
            Contents::Empty => {
                create_optuna(tx)?;
                0
            }
            Contents::Optuna { migrations } => migrations,
        };
        tx.batch(
            "CREATE TABLE IF NOT EXISTS tune_migrations (
            version INTEGER PRIMARY KEY,
            name TEXT NOT NULL,
            applied TEXT NOT NULL
        )",
        )?;
        for (i, (name, sql)) in MIGRATIONS.iter().enumerate().skip(applied) {
            tx.batch(&tx.own_tables(sql))?;
            tx.send(
                "INSERT INTO tune_migrations (version, name, applied) VALUES (?1, ?2, ?3)",
                &[&(i + 1), name, &now],
            )?;
        }
        Ok(())
    })
}

fn create_optuna(tx: &Connection) -> Result<(), Kind> {
    tx.batch(&tx.optuna_tables(OPTUNA))?;
    tx.send("INSERT INTO version_info (version_info_id, schema_version, library_version) VALUES (1, ?1, ?2)", &[&OPTUNA_SCHEMA, &OPTUNA_LIBRARY])?;
    tx.send(
        "INSERT INTO alembic_version (version_num) VALUES (?1)",
        &[&OPTUNA_REVISION],
    )?;
    Ok(())
}
