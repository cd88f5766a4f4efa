//! What `tune --version` says behind the version: what a report of a defect needs.

use std::sync::LazyLock;

use store::{OPTUNA_LIBRARY, SCHEMA_VERSION};

/// The version with the commit that a release was built from, and what it works with.
pub(super) static LONG: LazyLock<String> = LazyLock::new(|| {
    let commit = option_env!("TUNE_COMMIT")
        .unwrap_or("not known: no release build, or not built from a checkout");
    format!(
        "{}\ncommit    {commit}\nlibtorch  {}\ndatabase  schema {SCHEMA_VERSION}, beside the tables of Optuna {OPTUNA_LIBRARY}\nJSON      version {}",
        env!("CARGO_PKG_VERSION"),
        super::libtorch::WANTED,
        messages::JSON_VERSION,
    )
});
