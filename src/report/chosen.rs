//! Who won by its repeats, and what the test split said: as a run tells it, and as it is noted in the study.

use serde::{Deserialize, Serialize};

use super::format::{param_lines, plural, value};

use config::Baseline;
use messages::any_float;
use search::study::selection::{Candidate, Selection};

/// What a run knows of its winner.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Chosen {
    /// The selection by repeats, once it is complete.
    pub selection: Option<Selected>,
    /// The look at the test split; where the winner has changed since, that of another trial.
    pub test: Option<Tested>,
}

/// A selection as in `winner_selected` and in the study's attribute `selection`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Selected {
    /// Repeats of each finalist.
    pub repeats: u32,
    /// Trials that had finished then.
    pub trials: u64,
    /// The winner, if any candidate has enough repeats.
    pub winner: Option<Candidate>,
    /// The trial with the best single value.
    pub naive: Option<Naive>,
    /// Repeats that failed for good.
    pub missing: u32,
    /// Every leader, the best of the search first.
    pub candidates: Vec<Candidate>,
}

/// The trial with the best single value of the search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Naive {
    /// Its number.
    pub number: u64,
    /// That value.
    #[serde(with = "any_float")]
    pub value: f64,
    /// The mean of its own repeats.
    #[serde(with = "any_float")]
    pub mean: Option<f64>,
    /// By how much the value is better than the mean.
    #[serde(with = "any_float")]
    pub optimism: Option<f64>,
}

/// What the test split says, as in the study's attribute `test`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Tested {
    /// The trial whose point was trained for it.
    pub number: u64,
    /// The objective's metric.
    pub metric: String,
    /// Its value on the test split; `None`: the training failed for good.
    #[serde(with = "any_float")]
    pub value: Option<f64>,
    /// Its value on the validation split at the same epoch.
    #[serde(with = "any_float")]
    pub validation: Option<f64>,
    /// The trivial answer's value on the test split.
    pub baseline: Option<Baseline>,
    /// Trials that the test split has been used for.
    pub looks: u64,
    /// Why there is no value.
    pub error: Option<String>,
}

impl Selected {
    /// A selection among the best of so many finished trials.
    pub fn new(selection: Selection, trials: u64) -> Selected {
        let naive = selection.naive().map(|naive| Naive {
            number: naive.number,
            value: naive.value,
            mean: naive.estimate.map(|e| e.mean),
            optimism: selection.optimism,
        });
        Selected {
            repeats: selection.repeats,
            trials,
            winner: selection.winner().cloned(),
            naive,
            missing: selection.missing(),
            candidates: selection.candidates,
        }
    }

    /// As lines; `trivial` is the value of the trivial answer on the validation split, where there is one.
    pub fn lines(&self, metric: &str, trivial: Option<f64>) -> Vec<String> {
        let mut lines = vec![self.winner_line(metric)];
        lines.extend(self.seed_line(trivial));
        lines.extend(self.naive.as_ref().map(|naive| naive.line(metric)));
        if self.missing > 0 {
            lines.push(format!(
                "{} failed for good and count{} as missing",
                plural(u64::from(self.missing), "repeat"),
                if self.missing == 1 { "s" } else { "" }
            ));
        }
        lines
    }

    /// That more trials have finished since it was chosen, where there are `finished` now.
    pub fn stale_line(&self, finished: u64) -> Option<String> {
        let then = self.trials;
        (finished > then).then(|| {
            format!(
                "note: chosen among {then} finished trials; there are {finished} now, and a run with \
                 --repeats chooses anew"
            )
        })
    }

    fn winner_line(&self, metric: &str) -> String {
        match self.winner.as_ref().and_then(|w| Some((w, w.estimate?))) {
            Some((winner, estimate)) => format!(
                "winner by repeats: trial {}, {metric} {}, {} to {} (mean of {}, 95 % interval)",
                winner.number,
                value(estimate.mean),
                value(estimate.low),
                value(estimate.high),
                plural(winner.values.len() as u64, "repeat")
            ),
            None => format!(
                "no winner by repeats: none of {} has enough of {} with a value",
                plural(self.candidates.len() as u64, "candidate"),
                self.repeats
            ),
        }
    }

    /// That repeats with other seeds came to the very same value; not where it is the trivial answer's,
    /// which a training can come to from any seed.
    fn seed_line(&self, trivial: Option<f64>) -> Option<String> {
        let winner = self.winner.as_ref()?;
        let first = *winner.values.first()?;
        let same = winner.values.len() > 1 && winner.values.iter().all(|v| *v == first);
        let collapsed = trivial.is_some_and(|t| (first - t).abs() <= COLLAPSED * t.abs());
        (same && !collapsed).then(|| {
            format!(
                "warning: all {} of trial {} have exactly the same value, so that the interval says nothing: the training \
                 ignores its seed, or the metric has few values",
                plural(winner.values.len() as u64, "repeat"),
                winner.number
            )
        })
    }
}

/// How near a value is to another one that is the same but for rounding, as a share of it.
const COLLAPSED: f64 = 1e-6;

impl Naive {
    fn line(&self, metric: &str) -> String {
        let single = format!(
            "best single value: trial {}, {metric} {}",
            self.number,
            value(self.value)
        );
        match (self.mean, self.optimism_text()) {
            (Some(mean), Some(optimism)) => {
                format!("{single}; its repeats have {}: {optimism}", value(mean))
            }
            (None, _) | (_, None) => single,
        }
    }

    /// `optimistic by 0.02`, `pessimistic by 0.01`; equal but for rounding: `neither optimistic nor pessimistic`.
    pub fn optimism_text(&self) -> Option<String> {
        let optimism = self.optimism?;
        let rounding = COLLAPSED * self.value.abs().max(self.mean?.abs());
        Some(match optimism {
            off if off.abs() <= rounding => "neither optimistic nor pessimistic".to_owned(),
            off if off > 0.0 => format!("optimistic by {}", value(off)),
            off => format!("pessimistic by {}", value(-off)),
        })
    }
}

impl Tested {
    /// As lines; `winner` is the trial that wins now.
    pub fn lines(&self, winner: Option<u64>) -> Vec<String> {
        let number = self.number;
        let mut lines = vec![match self.value {
            Some(test) => {
                let baseline = self.baseline.as_ref();
                let baseline = baseline.map_or_else(String::new, |b| {
                    format!(", trivial answer {}", value(b.value))
                });
                let metric = &self.metric;
                format!(
                    "test split: trial {number}, {metric} {}{baseline}",
                    value(test)
                )
            }
            None => {
                let error = self.error.as_deref().unwrap_or_default();
                let first = error.lines().next().unwrap_or_default();
                format!("test split: trial {number}, no value: {first}")
            }
        }];
        if self.looks > 1 {
            lines.push(format!(
                "warning: the test split has been used for {} trials; a value chosen among them \
                 is optimistic",
                self.looks
            ));
        }
        if let Some(winner) = winner.filter(|winner| *winner != number) {
            lines.push(format!(
                "warning: the test split was used for trial {number}; trial {winner} wins now and has \
                 no test value"
            ));
        }
        lines
    }
}

impl Chosen {
    /// The lines at the end of a run whose best trial is `best`.
    pub(super) fn lines(
        &self,
        metric: &str,
        best: Option<u64>,
        trivial: Option<f64>,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        let mut wins = best;
        if let Some(selection) = &self.selection {
            let winner = selection.winner.as_ref();
            wins = winner.map(|w| w.number);
            let mut told = selection.lines(metric, trivial).into_iter();
            lines.extend(told.next());
            lines.extend(winner.map_or_else(Vec::new, |w| param_lines(&w.params, "  ")));
            lines.extend(told);
        }
        if let Some(test) = &self.test {
            lines.extend(test.lines(wins));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use search::space::Params;
    use search::study::selection::Estimate;

    #[test]
    fn rounding_is_neither_optimism_nor_pessimism() {
        let naive = |value, mean, optimism| Naive {
            number: 3,
            value,
            mean: Some(mean),
            optimism: Some(optimism),
        };
        let text = |n: Naive| n.optimism_text().unwrap();
        assert_eq!(text(naive(0.9, 0.8, 0.1)), "optimistic by 0.1");
        assert_eq!(text(naive(0.9, 0.95, -0.05)), "pessimistic by 0.05");
        for optimism in [0.0, -5.4e-20, 5.4e-20] {
            assert_eq!(
                text(naive(1e-3, 1e-3, optimism)),
                "neither optimistic nor pessimistic"
            );
        }
    }

    #[test]
    fn a_winner_whose_repeats_are_all_the_same_is_told_to_ignore_its_seed() {
        let beside = |values: &[f64], number: u64, trivial: Option<f64>| {
            let winner = Candidate {
                number,
                value: 0.5,
                estimate: Some(Estimate {
                    mean: 0.5,
                    low: 0.5,
                    high: 0.5,
                }),
                values: values.to_vec(),
                missing: 0,
                finalist: true,
                params: Params::new(),
            };
            let selected = Selected {
                repeats: 3,
                winner: Some(winner),
                ..Selected::default()
            };
            let mut lines = selected.lines("loss", trivial).into_iter();
            lines.find(|line| line.contains("ignores its seed"))
        };
        let told = |values: &[f64], number| beside(values, number, Some(0.4));
        assert!(beside(&[0.5, 0.5], 7, None).is_some());
        // Any seed may come to the trivial answer.
        assert_eq!(beside(&[0.5, 0.5], 7, Some(0.5 + 1e-9)), None);
        assert_eq!(
            told(&[0.5, 0.5, 0.5], 7).unwrap(),
            "warning: all 3 repeats of trial 7 have exactly the same value, so that the interval says nothing: the training \
             ignores its seed, or the metric has few values"
        );
        for other in [&[0.5, 0.5, 0.500_000_1][..], &[0.5], &[]] {
            assert_eq!(told(other, 7), None, "{other:?}");
        }
    }
}
