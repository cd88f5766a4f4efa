//! What a study optimises, by the names that a run has noted.

use serde::Serialize;
use serde_json::Value as Json;

use search::study::Direction;
use store::StudySummary;

/// The names of a study's objectives; `value` where nobody has noted one.
pub fn metric_names(study: &StudySummary) -> Vec<String> {
    Objectives::of(study).metrics
}

/// What is optimised. With several objectives `direction` and `metric` are null.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Objectives {
    direction: Option<Direction>,
    directions: Vec<Direction>,
    metric: Option<String>,
    metrics: Vec<String>,
}

impl Objectives {
    pub(super) fn of(study: &StudySummary) -> Objectives {
        let several = study.directions.len() > 1;
        let attribute = |name: &str| study.user_attrs.get(name);
        let noted = attribute("metrics").and_then(Json::as_array);
        let name = |i: usize| match several {
            true => noted?.get(i)?.as_str(),
            false => attribute("metric")?.as_str(),
        };
        let unnamed = |i: usize| match several {
            true => format!("value {i}"),
            false => "value".to_owned(),
        };
        let names =
            (0..study.directions.len()).map(|i| name(i).map_or_else(|| unnamed(i), str::to_owned));
        let metrics: Vec<String> = names.collect();
        Objectives {
            direction: study.directions.first().copied().filter(|_| !several),
            directions: study.directions.clone(),
            metric: metrics.first().cloned().filter(|_| !several),
            metrics,
        }
    }

    /// One objective of this name.
    #[cfg(test)]
    pub(super) fn named(metric: &str, direction: Direction) -> Objectives {
        Objectives {
            direction: Some(direction),
            directions: vec![direction],
            metric: Some(metric.to_owned()),
            metrics: vec![metric.to_owned()],
        }
    }

    /// The names, one an objective; `value` where nobody has noted one.
    pub(super) fn names(&self) -> &[String] {
        &self.metrics
    }

    /// The name of the only objective.
    pub(super) fn metric(&self) -> &str {
        self.metric.as_deref().unwrap_or("value")
    }

    /// `minimize loss, minimize cost`.
    pub(super) fn text(&self) -> String {
        let named = self.directions.iter().zip(&self.metrics);
        let named = named.map(|(direction, name)| format!("{direction} {name}"));
        named.collect::<Vec<_>>().join(", ")
    }
}
