//! The winner by repeats, as the study's attributes tell of it.

use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use report::{Selected, Tested};
use store::StudySummary;

/// What the study tells of its winner.
pub(super) struct Winner {
    pub(super) selection: Option<Selected>,
    pub(super) test: Option<Tested>,
}

impl Winner {
    pub(super) fn of(study: &StudySummary) -> Winner {
        Winner {
            selection: attribute(study, "selection"),
            test: attribute(study, "test"),
        }
    }

    /// The number of the trial that won by its repeats.
    pub(super) fn number(&self) -> Option<u64> {
        Some(self.selection.as_ref()?.winner.as_ref()?.number)
    }

    /// The mean of the repeats of a trial, if it won by it.
    pub(super) fn mean(&self, number: u64) -> Option<f64> {
        let winner = self.selection.as_ref()?.winner.as_ref()?;
        let estimate = winner.estimate.filter(|_| winner.number == number)?;
        Some(estimate.mean)
    }

    /// What is to be said beside the best trial; `finished` trials have finished.
    pub(super) fn lines(&self, study: &StudySummary, best: u64, finished: u64) -> Vec<String> {
        let metric = study.user_attrs.get("metric").and_then(Json::as_str);
        let mut lines = Vec::new();
        if let Some(selection) = &self.selection {
            let trivial = super::baseline(study).map(|b| b.value);
            lines.extend(selection.lines(metric.unwrap_or("value"), trivial));
            lines.extend(selection.stale_line(finished));
        }
        if let Some(test) = &self.test {
            lines.extend(test.lines(Some(best)));
        }
        lines
    }
}

fn attribute<T: DeserializeOwned>(study: &StudySummary, name: &str) -> Option<T> {
    serde_json::from_value(study.user_attrs.get(name)?.clone()).ok()
}
