//! What a server says, by what a person can do about it.

use tokio_postgres::error::SqlState;

use super::Kind;
use super::session::Failed;

impl From<Failed> for Kind {
    fn from(failed: Failed) -> Kind {
        match failed {
            Failed::Postgres(error) => error.into(),
            Failed::NoAnswer(patience) => {
                Kind::Unreachable(format!("no answer within {} s", patience.as_secs()))
            }
        }
    }
}

/// What a server says, by what a person can do about it.
impl From<tokio_postgres::Error> for Kind {
    fn from(error: tokio_postgres::Error) -> Kind {
        let Some(db) = error.as_db_error() else {
            let source = std::error::Error::source(&error).map(ToString::to_string);
            let what = match source {
                Some(source) => format!("{error}: {source}"),
                None => error.to_string(),
            };
            return without_code(what);
        };
        let what = db.message().to_owned();
        let code = db.code();
        let class = &code.code()[..2];
        if [SqlState::INSUFFICIENT_PRIVILEGE].contains(code) || class == "28" {
            Kind::Denied(what)
        } else if *code == SqlState::INVALID_CATALOG_NAME {
            Kind::Missing(what)
        } else if *code == SqlState::DISK_FULL {
            Kind::Full
        } else if *code == SqlState::READ_ONLY_SQL_TRANSACTION {
            Kind::ReadOnly
        } else if *code == SqlState::LOCK_NOT_AVAILABLE || class == "40" {
            Kind::Locked
        } else if ["08", "53", "57", "58", "25"].contains(&class) {
            // Connection, resources, an operator, the system; a transaction that was idle for too long.
            Kind::Unreachable(what)
        } else if ["XX", "F0"].contains(&class) {
            Kind::Corrupt(what)
        } else {
            Kind::Sql(what)
        }
    }
}

/// What an error says that no server has a code for, which the crate has no types for either.
fn without_code(what: String) -> Kind {
    if what.contains("password missing") {
        Kind::Denied("it asks for a password, and there is none".to_owned())
    } else if what.contains("TLS handshake") {
        Kind::Untrusted(what)
    } else if UNFIT_VALUES.iter().any(|begin| what.starts_with(begin)) {
        // However often it is asked again, it stays as it is.
        Kind::Content(what)
    } else {
        Kind::Unreachable(what)
    }
}

/// How the errors begin of a value that is none of its column's type.
const UNFIT_VALUES: [&str; 2] = ["error serializing parameter", "error deserializing column"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_none_of_its_column_s_type_is_not_tried_again() {
        for what in [
            "error serializing parameter 3: out of range integral type conversion attempted",
            "error deserializing column 0: parameter 'second' is not in the required range",
        ] {
            let kind = without_code(what.to_owned());
            assert!(
                matches!(&kind, Kind::Content(why) if why == what),
                "{kind:?}"
            );
        }
        let lost = without_code("error communicating with the server: broken pipe".to_owned());
        assert!(matches!(lost, Kind::Unreachable(_)), "{lost:?}");
    }
}
