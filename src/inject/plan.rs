//! Which faults a run injects and which trials they hit. Pure.

use std::fmt;

use rand::RngExt;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

use super::{Form, Here, Kind};
use search::study::rng;

/// A fault happens at a step in `1..=STEPS` of its attempt.
const STEPS: u64 = 8;

/// How often a fault happens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Amount {
    /// This many trials.
    Count(u32),
    /// This part of all trials.
    Rate(f64),
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Item {
    kind: Kind,
    amount: Amount,
    /// The fault comes again in every attempt of the trial: it is the culprit.
    culprit: bool,
}

/// Faults by name and amount: `kill:0.02,assert!:3`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    items: Vec<Item>,
}

/// What an attempt is hit by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Injection {
    /// The fault.
    pub kind: Kind,
    /// At which training step of the attempt, from 1; at its end, if it has fewer.
    pub at_step: u64,
    /// Whether every attempt of the trial is hit, not only the first.
    pub culprit: bool,
}

/// Why a plan could not be read.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// Not `name`, `name:count` or `name:rate`.
    #[error(
        "{0:?}: expected NAME, NAME:COUNT or NAME:RATE, such as kill:3 or kill:0.02; NAME! hits \
         every attempt of a trial instead of its first"
    )]
    Form(String),
    /// No such fault.
    #[error("there is no fault {name:?}; there are: all, {known}")]
    Unknown {
        /// The word.
        name: String,
        /// Every word there is.
        known: String,
    },
    /// Not on this machine.
    #[error("{kind} ({}) is not possible here: {why}", .kind.what())]
    Impossible {
        /// The fault.
        kind: Kind,
        /// What is missing.
        why: &'static str,
    },
    /// More than every trial.
    #[error("the rates add up to {0:.3}, expected at most 1")]
    TooMuch(f64),
}

impl Plan {
    /// Reads `name[!][:amount][,...]`. An amount without a decimal point is a number of trials (1
    /// where it is left out), one with it a part of all trials, above 0 and up to 1. `all` means
    /// every kind that is real here: each so many times, or at this rate together.
    ///
    /// # Errors
    /// What is wrong, with what is known and possible.
    pub fn parse(text: &str, here: Here) -> Result<Plan, PlanError> {
        let mut items = Vec::new();
        for part in text.split(',').map(str::trim) {
            items.extend(read_item(part, here)?);
        }
        let plan = Plan { items };
        let total: f64 = plan.rates().map(|(_, rate)| rate).sum();
        if total > 1.0 + 1e-9 {
            return Err(PlanError::TooMuch(total));
        }
        Ok(plan)
    }

    /// Every one of `kinds`, each in `count` trials.
    pub fn each(kinds: &[Kind], count: u32) -> Plan {
        let item = |&kind| Item {
            kind,
            amount: Amount::Count(count),
            culprit: false,
        };
        Plan {
            items: kinds.iter().map(item).collect(),
        }
    }

    /// How many trials are chosen by number rather than by rate.
    pub fn counted(&self) -> u64 {
        let count = |item: &Item| match item.amount {
            Amount::Count(n) => u64::from(n),
            Amount::Rate(_) => 0,
        };
        self.items.iter().map(count).sum()
    }

    /// The kinds it names, in the order of the table.
    pub fn kinds(&self) -> Vec<Kind> {
        let mut kinds: Vec<Kind> = self.items.iter().map(|i| i.kind).collect();
        kinds.sort();
        kinds.dedup();
        kinds
    }

    /// Whether, how and when an attempt is hit: a function of the arguments alone. Faults that are
    /// counted fall on that many of the first trials, twice as many as there are faults; the
    /// others are left to those with a rate.
    pub fn decide(&self, seed: u64, number: u64, attempt: u32) -> Option<Injection> {
        let item = self
            .counted_item(seed, number)
            .or_else(|| self.rated_item(seed, number))?;
        if attempt > 0 && !item.culprit {
            return None;
        }
        Some(Injection {
            kind: item.kind,
            at_step: rng(seed, number, "inject step").random_range(1..=STEPS),
            culprit: item.culprit,
        })
    }

    fn counted_item(&self, seed: u64, number: u64) -> Option<Item> {
        let window = self.counted() * 2;
        if number >= window {
            return None;
        }
        let mut places: Vec<u64> = (0..window).collect();
        places.shuffle(&mut rng(seed, 0, "inject places"));
        let mut place = places.iter().position(|&p| p == number)? as u64;
        for item in &self.items {
            if let Amount::Count(n) = item.amount {
                if place < u64::from(n) {
                    return Some(*item);
                }
                place -= u64::from(n);
            }
        }
        None
    }

    fn rated_item(&self, seed: u64, number: u64) -> Option<Item> {
        let mut draw: f64 = rng(seed, number, "inject").random();
        for (item, rate) in self.rates() {
            if draw < rate {
                return Some(*item);
            }
            draw -= rate;
        }
        None
    }

    fn rates(&self) -> impl Iterator<Item = (&Item, f64)> {
        self.items.iter().filter_map(|item| match item.amount {
            Amount::Rate(rate) => Some((item, rate)),
            Amount::Count(_) => None,
        })
    }
}

/// As it would be asked for.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, item) in self.items.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            let mark = if item.culprit { "!" } else { "" };
            match item.amount {
                Amount::Count(n) => write!(f, "{comma}{}{mark}:{n}", item.kind)?,
                // With a decimal point, so that 1 stays a rate, and never with an exponent, which is not read.
                Amount::Rate(rate) => {
                    let point = if rate.fract() == 0.0 { ".0" } else { "" };
                    write!(f, "{comma}{}{mark}:{rate}{point}", item.kind)?;
                }
            }
        }
        Ok(())
    }
}

fn read_item(part: &str, here: Here) -> Result<Vec<Item>, PlanError> {
    let wrong = || PlanError::Form(part.to_owned());
    let (name, amount) = match part.split_once(':') {
        Some((name, amount)) => (name.trim(), read_amount(amount.trim()).ok_or_else(wrong)?),
        None => (part, Amount::Count(1)),
    };
    let (name, culprit) = match name.strip_suffix('!') {
        Some(name) => (name, true),
        None => (name, false),
    };
    if name.is_empty() {
        return Err(wrong());
    }
    let item = |kind, amount| Item {
        kind,
        amount,
        culprit,
    };
    if name == "all" {
        let real = |k: &Kind| k.possible(here) == Ok(Form::Real);
        let kinds: Vec<Kind> = Kind::ALL.iter().copied().filter(real).collect();
        let each = match amount {
            Amount::Count(n) => Amount::Count(n),
            Amount::Rate(rate) => Amount::Rate(rate / kinds.len() as f64),
        };
        return Ok(kinds.into_iter().map(|kind| item(kind, each)).collect());
    }
    let kind = Kind::find(name).ok_or_else(|| {
        let words: Vec<&str> = Kind::ALL.iter().map(|kind| kind.word()).collect();
        PlanError::Unknown {
            name: name.to_owned(),
            known: words.join(", "),
        }
    })?;
    kind.possible(here)
        .map_err(|why| PlanError::Impossible { kind, why })?;
    Ok(vec![item(kind, amount)])
}

fn read_amount(text: &str) -> Option<Amount> {
    if text.contains('.') {
        let rate: f64 = text.parse().ok()?;
        (rate > 0.0 && rate <= 1.0).then_some(Amount::Rate(rate))
    } else {
        let count: u32 = text.parse().ok()?;
        (1..=1_000_000)
            .contains(&count)
            .then_some(Amount::Count(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CPU: Here = Here {
        gpu: false,
        torch: false,
    };

    fn plan(text: &str) -> Plan {
        Plan::parse(text, CPU).unwrap()
    }

    fn hits(plan: &Plan, seed: u64, trials: u64) -> Vec<(u64, Kind)> {
        let hit = |n| Some((n, plan.decide(seed, n, 0)?.kind));
        (0..trials).filter_map(hit).collect()
    }

    #[test]
    fn a_count_is_that_many_trials_among_the_first() {
        let plan = plan("kill:3, segv ,spin:2");
        let hits = hits(&plan, 7, 1000);
        let of = |kind| hits.iter().filter(|(_, k)| *k == kind).count();
        assert_eq!((of(Kind::Kill), of(Kind::Segv), of(Kind::Spin)), (3, 1, 2));
        assert!(hits.iter().all(|(n, _)| *n < 12), "{hits:?}");
    }

    #[test]
    fn a_rate_is_a_part_of_all_trials() {
        let plan = plan("kill:0.05,term:0.02");
        let hits = hits(&plan, 1, 20_000);
        let part = |kind| hits.iter().filter(|(_, k)| *k == kind).count() as f64 / 20_000.0;
        assert!((part(Kind::Kill) - 0.05).abs() < 0.01);
        assert!((part(Kind::Term) - 0.02).abs() < 0.01);
    }

    #[test]
    fn all_spreads_its_rate_over_what_is_real_here() {
        let plan = plan("all:0.1");
        assert!(plan.kinds().len() >= 20);
        assert!(
            !plan.kinds().contains(&Kind::Assert),
            "only its text would be raised"
        );
        let total = hits(&plan, 3, 20_000).len() as f64 / 20_000.0;
        assert!((total - 0.1).abs() < 0.01, "{total}");
        assert_eq!(self::plan("all:2").counted(), plan.kinds().len() as u64 * 2);
    }

    #[test]
    fn a_rate_is_printed_with_a_point_and_without_an_exponent() {
        for text in ["kill:1.0", "kill:0.02", "kill:0.0000001,term!:3"] {
            assert_eq!(plan(text).to_string(), text);
        }
    }

    #[test]
    fn only_culprits_are_hit_in_later_attempts() {
        let (victim, culprit) = (plan("kill:1.0"), plan("kill!:1.0"));
        for attempt in 1..4 {
            assert_eq!(victim.decide(0, 5, attempt), None);
            assert_eq!(culprit.decide(0, 5, attempt), culprit.decide(0, 5, 0));
        }
        assert!(culprit.decide(0, 5, 0).unwrap().culprit);
    }

    #[test]
    fn errors_say_what_is_known_and_what_is_missing() {
        let error = |text| Plan::parse(text, CPU).unwrap_err().to_string();
        assert!(error("kil:3").contains("there is no fault \"kil\""));
        assert!(error("kil:3").contains("kill, term, segv"));
        assert!(error("spin-kernel").contains("not possible here: there is no GPU"));
        assert!(error("kill:0.7,term:0.6").contains("1.3"));
        for form in [
            "",
            "kill:",
            "kill:0",
            "kill:-1",
            "kill:1.5",
            "!",
            ":3",
            "kill,,term",
        ] {
            assert!(
                matches!(Plan::parse(form, CPU), Err(PlanError::Form(_))),
                "{form:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn a_plan_is_read_again_from_what_it_prints(
            items in proptest::collection::vec((0usize..7, any::<bool>(), 1u32..50, any::<bool>()), 1..5),
        ) {
            let text: Vec<String> = items
                .iter()
                .map(|&(kind, culprit, amount, rate)| {
                    let mark = if culprit { "!" } else { "" };
                    let amount = if rate { format!("0.{amount:03}") } else { amount.to_string() };
                    format!("{}{mark}:{amount}", Kind::ALL[kind])
                })
                .collect();
            let plan = plan(&text.join(","));
            prop_assert_eq!(&self::plan(&plan.to_string()), &plan);
            let json = serde_json::to_string(&plan).unwrap();
            prop_assert_eq!(&serde_json::from_str::<Plan>(&json).unwrap(), &plan);
        }

        #[test]
        fn decisions_depend_on_their_arguments_alone(seed in any::<u64>(), number in 0u64..500) {
            let plan = plan("kill:20,segv!:5,stop:0.2");
            let first = plan.decide(seed, number, 0);
            prop_assert_eq!(first, plan.clone().decide(seed, number, 0));
            if let Some(injection) = first {
                prop_assert!((1..=STEPS).contains(&injection.at_step));
            }
        }
    }
}
