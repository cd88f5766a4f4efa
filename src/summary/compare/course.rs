//! How a search went on: the best so far after each finished trial, and what had been trained by then.

use serde::Serialize;

use crate::faults::trainings;
use crate::{Material, seconds};
use messages::any_float;
use search::study::Direction;

/// How a search went on.
pub(crate) struct Course {
    direction: Direction,
    /// The finished trials that count, in the order in which they ended.
    steps: Vec<Step>,
    /// Hours of training of the search.
    hours: f64,
}

/// A finished trial.
#[derive(Debug, Clone, Copy)]
struct Step {
    number: u64,
    value: Option<f64>,
    /// Hours of training of the search until it ended; what had not ended yet included.
    hours: f64,
}

/// A trial that leads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Leading {
    pub number: u64,
    pub value: f64,
}

/// When something was reached.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Reached {
    /// The trial.
    pub number: u64,
    /// Its value.
    #[serde(with = "any_float")]
    pub value: f64,
    /// Trials that had finished by then, this one included.
    pub trials: usize,
    /// Hours of training by then.
    pub hours: f64,
}

impl Course {
    pub fn of(material: &Material) -> Course {
        let mut values = vec![None; material.trials.len()];
        let place = |number: u64| material.trials.binary_search_by_key(&number, |t| t.number);
        for scored in material.scored() {
            if let Ok(at) = place(scored.trial.number) {
                values[at] = Some(scored.value);
            }
        }
        let trainings = trainings(material);
        let search = trainings.iter().filter(|t| t.job.searches());
        let spans: Vec<(f64, f64)> = search.map(|t| (t.from, t.to)).collect();
        let by = |time: f64| {
            let done = spans
                .iter()
                .map(|(from, to)| (to.min(time) - from).max(0.0));
            done.sum::<f64>() / 3600.0
        };
        let finished = material
            .trials
            .iter()
            .zip(values)
            .filter(|(t, _)| t.counts());
        let mut ended: Vec<(f64, Step)> = finished
            .map(|(trial, value)| {
                let end = trial.datetime_complete.as_deref().and_then(seconds);
                let hours = end.map_or(0.0, by);
                let number = trial.number;
                // A trial without a time was never trained here.
                (
                    end.unwrap_or(f64::NEG_INFINITY),
                    Step {
                        number,
                        value,
                        hours,
                    },
                )
            })
            .collect();
        ended.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.number.cmp(&b.1.number)));
        Course {
            direction: material.study.direction(),
            steps: ended.into_iter().map(|(_, step)| step).collect(),
            hours: by(f64::INFINITY),
        }
    }

    pub fn finished(&self) -> usize {
        self.steps.len()
    }

    pub fn hours(&self) -> f64 {
        self.hours
    }

    /// The best value of all.
    pub fn best(&self) -> Option<f64> {
        Some(self.best_of_first(self.steps.len())?.value)
    }

    /// The best of the first trials that finished.
    pub fn best_of_first(&self, trials: usize) -> Option<Leading> {
        self.best_of(self.steps.iter().take(trials))
    }

    /// The best value within so many hours of training.
    pub fn best_within(&self, hours: f64) -> Option<f64> {
        // What is summed up in another order differs in its last digits.
        let within = self
            .steps
            .iter()
            .filter(|s| s.hours <= hours * (1.0 + 1e-9));
        Some(self.best_of(within)?.value)
    }

    fn best_of<'a>(&self, steps: impl Iterator<Item = &'a Step>) -> Option<Leading> {
        let scored = steps.filter_map(|s| Some((s.number, s.value?)));
        let (number, value) = self.direction.best(scored)?;
        Some(Leading { number, value })
    }

    /// The first trial that is at least as good.
    pub fn reached(&self, target: f64) -> Option<Reached> {
        let good = |value: f64| !self.direction.better(target, value);
        let mut steps = self.steps.iter().enumerate();
        steps.find_map(|(i, step)| {
            let value = step.value.filter(|value| good(*value))?;
            Some(Reached {
                number: step.number,
                value,
                trials: i + 1,
                hours: step.hours,
            })
        })
    }
}
