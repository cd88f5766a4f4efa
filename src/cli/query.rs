//! The commands beside a run.

use super::{Common, Query, init_logging};
use crate::exit::{Exit, Failure};

pub(super) fn query(common: &Common, query: &Query) -> Result<Exit, Failure> {
    init_logging(common, None)?;
    let name = match query {
        Query::List(_) => "list",
        Query::Status(_) => "status",
        Query::Best(_) => "best",
        Query::Trials(_) => "trials",
        Query::Show(_) => "show",
        Query::Check(_) => "check",
        Query::Worker => "worker",
        Query::Probe => "probe",
    };
    Err(Failure::internal(format!(
        "`{name}` is not wired to the command line yet"
    )))
}
