//! Which study is meant.

use messages::{Failure, printable};

use crate::{Store, StudySummary};

/// The study called `name`; without a name the only one.
///
/// # Errors
/// No such study, or several to choose from (2, with their names); reading failed (7).
pub fn choose(store: &Store, name: Option<&str>) -> Result<StudySummary, Failure> {
    if let Some(name) = name
        && let Some(study) = store.find_study(name)?
    {
        return Ok(study);
    }
    let mut studies = store.studies()?;
    let names: Vec<_> = studies.iter().map(|s| printable(&s.name)).collect();
    let names = names.join(", ");
    let path = store.path().display();
    match (name, studies.len()) {
        (_, 0) => Err(Failure::input(format!("{path} holds no study yet"))),
        (None, 1) => Ok(studies.remove(0)),
        (None, _) => Err(Failure::input(format!(
            "which study? {path} holds several: {names}"
        ))),
        (Some(name), _) => Err(Failure::input(format!(
            "{path} holds no study called {name:?}; it holds: {names}"
        ))),
    }
}
