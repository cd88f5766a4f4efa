//! The commands beside a run.

use super::{Common, Query, init_logging, run};
use crate::exit::{Exit, Failure};

pub(super) fn query(common: &Common, query: &Query) -> Result<Exit, Failure> {
    if let Query::Check(args) = query {
        return run::check(common, args);
    }
    init_logging(common, None)?;
    Err(Failure::internal("not yet"))
}
