//! Tables as PostgreSQL has them, from what makes them in SQLite.

/// The types that Optuna's tables have for a few words.
const TYPES: &str = "
CREATE TYPE studydirection AS ENUM ('NOT_SET', 'MINIMIZE', 'MAXIMIZE');
CREATE TYPE trialstate AS ENUM ('RUNNING', 'COMPLETE', 'PRUNED', 'FAIL', 'WAITING');
CREATE TYPE trialvaluetype AS ENUM ('FINITE', 'INF_POS', 'INF_NEG');
CREATE TYPE trialintermediatevaluetype AS ENUM ('FINITE', 'INF_POS', 'INF_NEG', 'NAN');
";

/// Optuna's tables as SQLAlchemy makes them on a server: ids from sequences, words as enumerations.
pub(super) fn optuna(sqlite: &str) -> String {
    let mut tables = sqlite.to_owned();
    for (was, is) in [
        ("direction VARCHAR(8)", "direction studydirection"),
        ("state VARCHAR(8)", "state trialstate"),
        (
            "intermediate_value_type VARCHAR(7)",
            "intermediate_value_type trialintermediatevaluetype",
        ),
        ("value_type VARCHAR(7)", "value_type trialvaluetype"),
        ("FLOAT", "FLOAT(53)"),
        ("DATETIME", "TIMESTAMP WITHOUT TIME ZONE"),
    ] {
        tables = tables.replace(was, is);
    }
    // The first column of each table but one is its id.
    let mut first = false;
    let lines = tables.lines().map(|line| {
        let id = std::mem::replace(&mut first, line.starts_with("CREATE TABLE"));
        match id && !line.contains("version_") {
            true => line.replace("INTEGER", "SERIAL"),
            false => line.to_owned(),
        }
    });
    format!("{TYPES}{}", lines.collect::<Vec<_>>().join("\n"))
}

/// Our own tables: what a trigger deletes in SQLite, where Optuna enforces no foreign keys, a foreign key deletes here.
pub(super) fn ours(sqlite: &str) -> String {
    let mut tables = String::new();
    let mut rest = sqlite;
    while let Some((before, trigger)) = rest.split_once("CREATE TRIGGER") {
        tables.push_str(before);
        rest = trigger.split_once("END;").map_or("", |(_, after)| after);
    }
    tables.push_str(rest);
    for (was, is) in [
        ("INTEGER PRIMARY KEY AUTOINCREMENT", "BIGSERIAL PRIMARY KEY"),
        (") WITHOUT ROWID", ")"),
        ("again INTEGER", "again BOOLEAN"),
        (" INTEGER", " BIGINT"),
        (" REAL", " DOUBLE PRECISION"),
    ] {
        tables = tables.replace(was, is);
    }
    tables
}
