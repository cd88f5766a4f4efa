//! What only matters in a database that another program keeps.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::sql::Connection;
use super::{Store, StoreError, StoreErrorKind as Kind};
use messages::python_json;

impl Store {
    /// The version of Optuna that made the tables, where the file says it.
    ///
    /// # Errors
    /// Reading failed.
    pub fn optuna_version(&self) -> Result<Option<String>, StoreError> {
        self.read(|conn| {
            let query = "SELECT library_version FROM version_info";
            Ok(conn.first(query, &[], |row| row.get(0))?.flatten())
        })
    }

    /// The last heartbeat (naive UTC) of each trial that is RUNNING, by number. Only programs that
    /// were told to keep heartbeats have any.
    ///
    /// # Errors
    /// Reading failed.
    pub fn heartbeats(&self, study_id: i64) -> Result<BTreeMap<u64, String>, StoreError> {
        self.read(|conn| {
            if !conn.has_table("trial_heartbeats")? {
                return Ok(BTreeMap::new());
            }
            let query = "SELECT t.number, h.heartbeat FROM trials t
                 JOIN trial_heartbeats h ON h.trial_id = t.trial_id
                 WHERE t.study_id = ?1 AND t.state = 'RUNNING'";
            conn.rows(query, &[&study_id], |row| Ok((row.get(0)?, row.get(1)?)))
        })
    }
}

/// Choices that are lists or objects, which Optuna warns of but stores, become their text: no
/// configuration can ask for them, but the trials can be read.
pub(super) fn make_readable(conn: &Connection) -> Result<(), Kind> {
    let query = "SELECT DISTINCT distribution_json FROM trial_params
         WHERE distribution_json LIKE '%CategoricalDistribution%'";
    let texts: Vec<String> = conn.rows(query, &[], |row| row.get(0))?;
    for text in texts {
        if let Some(plain) = plain_choices(&text) {
            conn.send(
                "UPDATE trial_params SET distribution_json = ?2 WHERE distribution_json = ?1",
                &[&text, &plain],
            )?;
        }
    }
    Ok(())
}

/// The distribution with texts for choices that are no scalars; `None` where there are none.
fn plain_choices(text: &str) -> Option<String> {
    let mut json = python_json(text)?;
    let choices = json.get_mut("attributes")?.get_mut("choices")?;
    let odd = |c: &Json| c.is_array() || c.is_object();
    let list = choices.as_array()?;
    if !list.iter().any(odd) {
        return None;
    }
    let plain = list.iter().map(|choice| {
        if odd(choice) {
            Json::from(choice.to_string())
        } else {
            choice.clone()
        }
    });
    *choices = json!(plain.collect::<Vec<_>>());
    Some(json.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_that_are_lists_become_texts_and_others_stay() {
        let of = |choices: &str| {
            plain_choices(&format!(
                r#"{{"name": "CategoricalDistribution", "attributes": {{"choices": {choices}}}}}"#
            ))
        };
        assert_eq!(of(r#"["a", null, 0.5, NaN]"#), None);
        let plain = of(r#"[[64, 64], [128], "a"]"#).unwrap();
        let domain = search::space::distribution_from_json(&plain).unwrap();
        let choices = vec!["[64,64]".into(), "[128]".into(), "a".into()];
        assert_eq!(domain, search::space::Domain::Categorical { choices });
        assert_eq!(plain_choices("nonsense"), None);
    }
}
