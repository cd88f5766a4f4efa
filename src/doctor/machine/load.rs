//! What cards are at before and after something has computed on them: their heat, and packets that were sent again.

use std::fmt;

use super::{SHORT, details, graded, sorted, table};
use crate::{Check, Outcome};
use device::GpuSample;
use device::probe::{Details, GpuDetails};

/// Below where a card slows down by at most so many degrees Celsius it is hot.
const NEAR: u32 = 5;

/// A card that was hotter by less than this had not been heated.
const HEATED: u32 = 10;

/// One look at all cards.
#[derive(Debug, Clone)]
pub struct Cards(Vec<GpuDetails>);

impl Cards {
    /// Asks NVML, in a child; takes a third of a second, and 10 s where the driver hangs. `None`: no answer, or no card.
    pub fn look() -> Option<Cards> {
        let Details { gpus, .. } = details(SHORT).ok()?;
        (!gpus.is_empty()).then_some(Cards(gpus))
    }

    /// Each card with what was known of it before.
    fn beside<'a>(
        &'a self,
        before: &'a Cards,
    ) -> impl Iterator<Item = (&'a GpuDetails, &'a GpuDetails)> {
        self.0.iter().filter_map(|now| {
            let was = before
                .0
                .iter()
                .find(|w| w.sample.index == now.sample.index)?;
            Some((was, now))
        })
    }

    /// The hottest card.
    pub fn heat_since(&self, before: &Cards) -> Option<Heat> {
        let heats = self.beside(before).filter_map(|(was, now)| {
            let GpuSample {
                index,
                temperature,
                throttle,
                ..
            } = &now.sample;
            Some(Heat {
                gpu: *index,
                before: was.sample.temperature?,
                after: (*temperature)?,
                slows_down_at: now.slowdown_at,
                slowed_down: throttle.iter().any(|reason| reason.contains("thermal")),
            })
        });
        heats.max_by_key(|heat| heat.after)
    }

    /// Cards with the number of packets that were sent again meanwhile; empty where NVML does not count them.
    fn sent_again_since(&self, before: &Cards) -> Vec<(usize, u32)> {
        let counts = self.beside(before).filter_map(|(was, now)| {
            let (_, until) = was.replays?;
            let (_, by_now) = now.replays?;
            Some((now.sample.index, by_now.saturating_sub(until)))
        });
        counts.collect()
    }
}

/// How hot a card became.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heat {
    /// Its index.
    pub gpu: usize,
    /// Degrees Celsius before anything ran.
    pub before: u32,
    /// And after it.
    pub after: u32,
    /// Where it slows down.
    pub slows_down_at: Option<u32>,
    /// It was slowed down for heat.
    pub slowed_down: bool,
}

impl Heat {
    /// Whether it was cooler before, and is now near where it slows down or slowed down already.
    pub fn is_hot(&self) -> bool {
        let near = self.slows_down_at.is_some_and(|at| self.after + NEAR >= at);
        self.after >= self.before + HEATED && (near || self.slowed_down)
    }
}

impl fmt::Display for Heat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Heat {
            gpu, before, after, ..
        } = self;
        write!(
            f,
            "GPU {gpu}: {after} °C when it failed, {before} °C before"
        )?;
        if let Some(at) = self.slows_down_at {
            write!(f, ", slows down at {at} °C")?;
        }
        match self.slowed_down {
            true => f.write_str(", slowed down for heat"),
            false => Ok(()),
        }
    }
}

/// The checks with what something that ran between two looks has shown of the way to the cards.
pub fn under_load(mut checks: Vec<Check>, before: &Cards, after: &Cards) -> Vec<Check> {
    let counts = after.sent_again_since(before);
    let row = table::ROWS.iter().find(|row| row.name == "pcie");
    let check = checks.iter_mut().find(|check| check.name == "pcie");
    if let (Some(check), Some(row), false) = (check, row, counts.is_empty()) {
        let seen = counts
            .iter()
            .map(|(gpu, count)| format!("GPU {gpu}: {count} replays while it computed"));
        let seen: Vec<String> = [check.evidence.clone()].into_iter().chain(seen).collect();
        let seen = seen.join("; ");
        let worse = check.outcome == Outcome::Warning || counts.iter().any(|(_, n)| *n > 0);
        *check = row.check(graded(false, worse, seen));
    }
    sorted(checks)
}

#[cfg(test)]
mod tests {
    use super::super::passed;
    use super::*;

    fn cards(temperature: u32, replays: u32) -> Cards {
        Cards(vec![GpuDetails {
            sample: GpuSample {
                temperature: Some(temperature),
                ..GpuSample::default()
            },
            slowdown_at: Some(90),
            replays: Some((replays, replays)),
            ..GpuDetails::default()
        }])
    }

    #[test]
    fn a_card_is_hot_where_it_was_cooler_before_and_is_near_its_limit() {
        let hot = |before, after| {
            cards(after, 0)
                .heat_since(&cards(before, 0))
                .unwrap()
                .is_hot()
        };
        assert!(hot(45, 86));
        assert!(!hot(45, 70), "far from where it slows down");
        assert!(!hot(84, 88), "as hot as before");
        let heat = cards(86, 0).heat_since(&cards(45, 0)).unwrap();
        let told = "GPU 0: 86 °C when it failed, 45 °C before, slows down at 90 °C";
        assert_eq!(heat.to_string(), told);
    }

    #[test]
    fn packets_that_are_sent_again_under_load_are_a_warning_with_their_number() {
        let row = table::ROWS.iter().find(|row| row.name == "pcie").unwrap();
        let checks = || vec![row.check(passed("generation 4 x16 now"))];
        let pcie = |after| under_load(checks(), &cards(40, 3), &cards(40, after)).remove(0);
        assert_eq!(pcie(3).outcome, Outcome::Passed);
        assert_eq!(pcie(15).outcome, Outcome::Warning);
        assert!(
            pcie(15)
                .evidence
                .ends_with("GPU 0: 12 replays while it computed")
        );
    }
}
