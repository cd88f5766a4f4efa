//! Which study is meant.

use messages::{Failure, printable};

use crate::{Store, StudySummary};

/// The study called `name`; without a name the only one, or of several the one with the latest activity.
///
/// # Errors
/// There is no such study (2, with the names there are); reading failed (7).
pub fn choose(store: &Store, name: Option<&str>) -> Result<StudySummary, Failure> {
    let latest = || {
        let studies = store.studies()?.into_iter();
        Ok::<_, Failure>(studies.max_by(|a, b| a.last_activity.cmp(&b.last_activity)))
    };
    let found = match name {
        Some(name) => store.find_study(name)?,
        None => latest()?,
    };
    match found {
        Some(study) => Ok(study),
        None => Err(none(store, name)?),
    }
}

fn none(store: &Store, name: Option<&str>) -> Result<Failure, Failure> {
    let studies = store.studies()?;
    let names = studies.iter().map(|s| s.name.as_str());
    let path = store.place();
    let Some(name) = name.filter(|_| !studies.is_empty()) else {
        return Ok(Failure::input(format!("{path} holds no study yet")));
    };
    let hint = config::hint(name, names.clone());
    let names: Vec<_> = names.map(printable).collect();
    let names = names.join(", ");
    Ok(Failure::input(format!(
        "{path} holds no study called {name:?}{}; it holds: {names}",
        printable(&hint)
    )))
}
