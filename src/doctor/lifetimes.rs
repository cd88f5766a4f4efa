//! How long runs of the command took, and so when another counts as having outlived the failure. Pure.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::change::{Change, Setting};
use crate::notes::Notes;
use crate::run::Limits;

/// A command that neither prints nor computes for so long stands still, unless a deadline says less.
const IDLE: Duration = Duration::from_secs(30);

/// With a deadline it stands still after this part of it, as a divisor.
const STILL_SHARE: u32 = 3;

/// A command that computes, but neither prints nor takes a batch, for this part of the budget is in an endless loop, as a
/// divisor; unless a deadline says otherwise.
const LOOP_SHARE: u32 = 4;

/// And at least for so long.
const LEAST_LOOP: Duration = Duration::from_secs(40);

/// The longest run of a command that was not yet seen to fail, unless a deadline says otherwise.
const LONGEST: Duration = Duration::from_secs(600);

/// What has not failed is traced for so many times as long as it took: its operations take some times longer then.
const TRACED_FOR: u32 = 8;

/// And for this share of the budget at least.
const LOOKED_SHARE: u32 = 6;

/// Who has run for so many times as long as a failing run took has survived.
const OUTLIVES: u32 = 3;

/// A whole pass is waited for up to so many times that many batches.
const PASS_SHARE: u64 = 4;

/// And at least for so long beyond it.
const AT_LEAST: Duration = Duration::from_secs(5);

/// So many runs of the command as it is that outlive the failing ones are let run on: a failure that comes now and then may
/// come at any time.
const FOLLOWED: u32 = 3;

/// For this part of the budget at most, as a divisor.
const FOLLOW_SHARE: u32 = 12;

/// Of the runs of the command as it is.
#[derive(Debug, Default)]
pub struct Lifetimes {
    /// The longest failing one.
    slowest: Option<Duration>,
    /// The least processor time of a failing one, in ticks.
    work: Option<u64>,
    /// Batches that the failing one took which took the fewest; none where nothing counts them.
    taken: Option<u64>,
    /// Bytes that the failing one had printed which had printed the fewest.
    printed: Option<u64>,
    /// Most batches that a failing one had taken.
    batches: Option<u64>,
    /// How long the failing ones stood still at their end.
    stood: Duration,
    /// The longest one that ended well.
    whole: Option<Duration>,
    /// Those that outlived the failing ones, and were let run on.
    followed: u32,
}

/// What holds for all runs of an examination.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// How long all runs may take together.
    pub budget: Duration,
    /// When that is used up.
    pub until: Instant,
    /// A run that takes longer hangs.
    pub deadline: Option<Duration>,
    /// The failure is a standstill.
    pub hangs: bool,
}

impl Lifetimes {
    /// Takes in a failing run: its wall time without a standstill at its end, its ticks, the batches that it had taken, the
    /// bytes that it had printed.
    pub fn failed(&mut self, time: Duration, ticks: u64, batches: Option<u64>, printed: u64) {
        let least = |before: Option<u64>, now: u64| Some(before.map_or(now, |b| b.min(now)));
        self.slowest = self.slowest.max(Some(time));
        self.work = least(self.work, ticks);
        self.taken = least(self.taken, batches.unwrap_or(0));
        self.printed = least(self.printed, printed);
        self.batches = batches.max(self.batches);
    }

    /// Takes in how long a failing run stood still at its end.
    pub fn stood(&mut self, time: Duration) {
        self.stood = self.stood.max(time);
    }

    /// Takes in a run that did not fail, and whether it came to its own end.
    pub fn survived(&mut self, time: Duration, ended: bool) {
        if ended {
            self.whole = self.whole.max(Some(time));
        }
        if self.slowest.is_some() {
            // What goes on for longer yet is not waited for again.
            self.followed = if ended { self.followed + 1 } else { FOLLOWED };
        }
    }

    /// After how long without a sign of life a run stands still.
    pub fn idle(bounds: Bounds) -> Duration {
        let deadline = bounds.deadline;
        deadline.map_or(IDLE, |deadline| IDLE.min(deadline / STILL_SHARE))
    }

    /// When a run under these settings ends that does not end by itself. `as_it_is`: nothing is changed, not its rows either.
    pub fn limits(
        &self,
        settings: &BTreeSet<Setting>,
        as_it_is: bool,
        notes: &Notes,
        bounds: Bounds,
    ) -> Limits {
        let slower = settings.iter().map(Setting::slowdown).fold(1.0, f64::max);
        let smaller = smaller(settings, notes);
        // Another order of the rows may come to the same row at the end of a pass.
        let pass = notes.pass() + 1;
        let enough = |taken: u64| {
            let longer = taken * u64::from(OUTLIVES) + 2;
            longer.max(pass.min(longer * PASS_SHARE)) * smaller
        };
        let loops = (bounds.budget / LOOP_SHARE).max(LEAST_LOOP);
        let loops = bounds.deadline.unwrap_or(loops).mul_f64(slower);
        let survived = self.outlived(slower, bounds);
        let least = self.least(as_it_is, bounds).map(|l| l.mul_f64(slower));
        Limits {
            idle: Lifetimes::idle(bounds),
            // A program that fails late may be silent for longer.
            loops: (survived.is_none() || bounds.hangs).then_some(loops),
            deadline: match survived {
                Some(_) => None,
                None => Some(bounds.deadline.unwrap_or(LONGEST).mul_f64(slower)),
            },
            survived: survived
                .map(|time| time.max(least.unwrap_or_default()))
                .or_else(|| self.looked_through(settings, bounds)),
            work: self.work.unwrap_or(0),
            taken: self.taken.unwrap_or(0) * smaller,
            smaller: smaller > 1,
            printed: self.printed.unwrap_or(0),
            batches: self.batches.map(enough).filter(|_| least.is_none()),
            until: bounds.until,
        }
    }

    /// After how long a run has outlived the failing ones; `None`: there are none.
    fn outlived(&self, slower: f64, bounds: Bounds) -> Option<Duration> {
        let slowest = self.slowest?;
        let time = (slowest * OUTLIVES).max(slowest + AT_LEAST).mul_f64(slower);
        // A standstill has to be seen before it counts as going on.
        Some(match bounds.hangs {
            true => time + Lifetimes::idle(bounds).max(self.stood) * 2,
            false => time,
        })
    }

    /// How long a command that has not failed is traced: to its end, where that is not too long. Some mistakes show early,
    /// others where the best state is loaded.
    fn looked_through(&self, settings: &BTreeSet<Setting>, bounds: Bounds) -> Option<Duration> {
        let looked = settings.contains(&Setting::Trace) && self.slowest.is_none();
        let whole = self.whole.filter(|_| looked)?;
        Some((whole * TRACED_FOR).max(bounds.budget / LOOKED_SHARE))
    }

    /// How long a run is let run on at least, however many batches it takes: to its own end where little is saved by not
    /// waiting for it, and where it may yet show that the failure comes later, too.
    fn least(&self, as_it_is: bool, bounds: Bounds) -> Option<Duration> {
        let follow = as_it_is && self.followed < FOLLOWED;
        let follow = follow.then_some(bounds.budget / FOLLOW_SHARE);
        let near = |(whole, slowest): &(Duration, Duration)| *whole <= *slowest * OUTLIVES;
        let to_the_end = self.whole.zip(self.slowest).filter(near);
        follow.max(to_the_end.map(|(whole, _)| whole * 2))
    }
}

/// So many times as many batches are taken under these settings, as they are smaller.
fn smaller(settings: &BTreeSet<Setting>, notes: &Notes) -> u64 {
    let has = |change: Change| settings.contains(&Setting::Change(change));
    match (has(Change::OneRow), has(Change::HalfBatch)) {
        (true, _) => notes.batch_size().max(1),
        (false, true) => 2,
        (false, false) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notes::Loader;

    const SECOND: Duration = Duration::from_secs(1);

    fn limits(runs: &Lifetimes, as_it_is: bool) -> Limits {
        let bounds = Bounds {
            budget: SECOND * 600,
            until: Instant::now(),
            deadline: None,
            hangs: false,
        };
        runs.limits(&BTreeSet::new(), as_it_is, &Notes::default(), bounds)
    }

    #[test]
    fn three_times_as_long_as_a_failing_run_is_survived() {
        let mut runs = Lifetimes::default();
        assert_eq!(limits(&runs, true).survived, None);
        runs.failed(SECOND * 10, 900, Some(4), 80);
        runs.failed(SECOND * 8, 700, Some(6), 80);
        let limits = limits(&runs, false);
        assert_eq!((limits.survived, limits.work), (Some(SECOND * 30), 700));
        assert_eq!((limits.taken, limits.batches), (4, Some(20)));
        assert_eq!(limits.printed, 80);
        assert_eq!(limits.loops, None);
    }

    #[test]
    fn smaller_batches_have_to_come_as_far_as_the_failing_runs() {
        let mut runs = Lifetimes::default();
        runs.failed(SECOND * 5, 400, Some(30), 80);
        let notes = Notes {
            loaders: BTreeSet::from([Loader {
                number: 0,
                workers: 0,
                forks: false,
                batch_size: Some(64),
                rows: None,
            }]),
            ..Notes::default()
        };
        let bounds = Bounds {
            budget: SECOND * 600,
            until: Instant::now(),
            deadline: None,
            hangs: false,
        };
        let far = |change: Option<Change>| {
            let settings = change.into_iter().map(Setting::Change).collect();
            let limits = runs.limits(&settings, change.is_none(), &notes, bounds);
            (limits.taken, limits.smaller)
        };
        assert_eq!(far(None), (30, false));
        assert_eq!(far(Some(Change::HalfBatch)), (60, true));
        assert_eq!(far(Some(Change::OneRow)), (30 * 64, true));
    }

    #[test]
    fn who_computes_without_a_word_for_a_quarter_of_the_budget_is_in_a_loop_and_so_long_a_hang_has_to_be_seen()
     {
        let mut runs = Lifetimes::default();
        let bounds = Bounds {
            budget: SECOND * 600,
            until: Instant::now(),
            deadline: None,
            hangs: true,
        };
        let limits =
            |runs: &Lifetimes| runs.limits(&BTreeSet::new(), false, &Notes::default(), bounds);
        assert_eq!(limits(&runs).loops, Some(SECOND * 150));
        runs.failed(SECOND * 10, 900, None, 80);
        runs.stood(SECOND * 150);
        assert_eq!(limits(&runs).survived, Some(SECOND * 330));
    }

    #[test]
    fn a_few_runs_as_it_is_are_followed_and_none_that_goes_on_for_long() {
        let mut runs = Lifetimes::default();
        runs.failed(SECOND, 90, Some(4), 80);
        let followed = limits(&runs, true);
        assert_eq!(
            (followed.survived, followed.batches),
            (Some(SECOND * 50), None)
        );
        for _ in 0..3 {
            assert_eq!(limits(&runs, true).survived, Some(SECOND * 50));
            runs.survived(SECOND * 40, true);
        }
        assert_eq!(limits(&runs, true).survived, Some(SECOND * 6));
        let mut runs = Lifetimes::default();
        runs.failed(SECOND, 90, Some(4), 80);
        runs.survived(SECOND * 50, false);
        assert_eq!(limits(&runs, true).batches, Some(14));
    }

    #[test]
    fn a_run_that_is_not_much_longer_than_a_failing_one_is_let_run_to_its_end() {
        let mut runs = Lifetimes::default();
        runs.survived(SECOND * 12, true);
        runs.failed(SECOND * 5, 400, Some(4), 80);
        let limits = limits(&runs, false);
        assert_eq!((limits.survived, limits.batches), (Some(SECOND * 24), None));
    }
}
