//! What a study's values depend on.

use serde_json::{Map, Value as Json};

use super::StudySpec;
use crate::task::Prepared;

/// One difference between two identities.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// Dotted key.
    pub key: String,
    /// The study's value, as text; `None` where the study has none.
    pub was: Option<String>,
    /// The value asked for.
    pub asked: Option<String>,
}

/// The identity of a study: what its values depend on, as a flat map from dotted key to JSON.
pub fn identity(_spec: &StudySpec, _prepared: &Prepared) -> Map<String, Json> {
    Map::new()
}

/// Every key in which two identities differ.
pub fn differences(_was: &Map<String, Json>, _asked: &Map<String, Json>) -> Vec<Difference> {
    Vec::new()
}
