//! What a training reports of an epoch.

use serde::{Deserialize, Serialize};

use crate::Metrics;

/// A finished epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Epoch {
    /// From 1.
    pub epoch: u32,
    /// By name.
    #[serde(with = "any_float")]
    pub metrics: Metrics,
}

/// Metric values may be NaN or infinite, which JSON numbers cannot.
pub mod any_float {
    use std::collections::BTreeMap;

    use messages::{json_number, number_from_json};
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::Metrics;

    /// As the contract has numbers in JSON.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(metrics: &Metrics, serializer: S) -> Result<S::Ok, S::Error> {
        let map: BTreeMap<&String, serde_json::Value> =
            metrics.iter().map(|(k, v)| (k, json_number(*v))).collect();
        map.serialize(serializer)
    }

    /// The inverse of [`serialize`].
    ///
    /// # Errors
    /// What is no number.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Metrics, D::Error> {
        let map = BTreeMap::<String, serde_json::Value>::deserialize(deserializer)?;
        map.into_iter()
            .map(|(k, v)| match number_from_json(&v) {
                Some(x) => Ok((k, x)),
                None => Err(D::Error::custom(format!("metric {k}: {v} is no number"))),
            })
            .collect()
    }
}
