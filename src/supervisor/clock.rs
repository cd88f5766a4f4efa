//! The time of a run: the supervisor's own, which stands still while the supervisor does.
//!
//! A process that is stopped (SIGSTOP, a frozen cgroup, a paused virtual machine) stops with all of
//! its threads. So a thread that does nothing but look at the clock tells that from an event loop
//! that is busy: its looks go on beside it, and they have a gap where nothing of this
//! process ran. A machine that sleeps shows in the kernel's two clocks, of which one goes on meanwhile.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use super::Now;

/// How often the thread looks.
const TICK: Duration = Duration::from_millis(250);

/// A longer gap than this between two looks means that the process did not run.
const STOPPED: Duration = Duration::from_millis(1_500);

/// What such a gap counts for: a little, so that time goes on even where every look comes late.
const CREEP: Duration = Duration::from_millis(100);

/// The kernel's clocks, read together.
#[derive(Debug, Clone, Copy)]
struct Reading {
    /// Stands still while the machine sleeps.
    awake: Duration,
    /// Goes on meanwhile.
    boot: Duration,
}

/// The time since the machine was booted, in which it may have slept.
pub fn since_boot() -> Duration {
    read(ClockId::CLOCK_BOOTTIME)
}

fn read(clock: ClockId) -> Duration {
    // Both clocks are there on every kernel that can start this binary.
    clock_gettime(clock).map_or(Duration::ZERO, Duration::from)
}

impl Reading {
    fn take() -> Reading {
        Reading {
            awake: read(ClockId::CLOCK_MONOTONIC),
            boot: since_boot(),
        }
    }

    /// How long the machine has slept since it was booted.
    fn asleep(self) -> Duration {
        self.boot.saturating_sub(self.awake)
    }
}

/// What the looks at the clocks come to.
#[derive(Debug)]
struct Looks {
    last: Duration,
    asleep: Duration,
    now: Now,
    away: Duration,
}

impl Looks {
    fn new(first: Reading) -> Looks {
        Looks {
            last: first.awake,
            asleep: first.asleep(),
            now: Now::ZERO,
            away: Duration::ZERO,
        }
    }

    /// Takes a reading; gives how long the process did not run, where that is new.
    fn look(&mut self, at: Reading) -> Duration {
        let passed = at.awake.saturating_sub(self.last);
        self.last = self.last.max(at.awake);
        let mut away = Duration::ZERO;
        if passed < STOPPED {
            self.now += passed;
        } else {
            self.now += CREEP;
            away += passed - CREEP;
        }
        // The two clocks are read one after the other: a small difference is no sleep.
        let suspended = at.asleep().saturating_sub(self.asleep);
        if suspended >= STOPPED {
            self.asleep = at.asleep();
            away += suspended;
        }
        self.away += away;
        away
    }
}

/// Time since the run began, without the times in which this process did not run: the workers'
/// messages of these times are still unread, and none of them was silent.
#[derive(Debug, Clone)]
pub struct Clock(Arc<Mutex<Looks>>);

impl Clock {
    /// A clock that begins now, and the thread that looks at it for as long as any copy is there.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start() -> io::Result<Clock> {
        let clock = Clock(Arc::new(Mutex::new(Looks::new(Reading::take()))));
        let watched = Arc::downgrade(&clock.0);
        thread::Builder::new().name("clock".into()).spawn(move || {
            while let Some(looks) = watched.upgrade() {
                Clock(looks).now();
                thread::sleep(TICK);
            }
        })?;
        Ok(clock)
    }

    /// The time now.
    pub fn now(&self) -> Now {
        let mut looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Read under the lock: else a reading of before a stop could be taken after it.
        let away = looks.look(Reading::take());
        let now = looks.now;
        drop(looks);
        if away > Duration::ZERO {
            tracing::warn!(?away, "the supervisor did not run, or the machine slept");
        }
        now
    }

    /// How long this process did not run, or the machine slept, since the clock began.
    pub fn away(&self) -> Duration {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).away
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(awake_ms: u64, asleep_s: u64) -> Reading {
        let awake = Duration::from_millis(awake_ms);
        Reading {
            awake,
            boot: awake + Duration::from_secs(asleep_s),
        }
    }

    #[test]
    fn a_gap_between_looks_is_a_stop_and_hardly_counts() {
        let mut looks = Looks::new(at(5_000, 3));
        assert_eq!(looks.look(at(5_250, 3)), Duration::ZERO);
        assert_eq!(looks.look(at(15_250, 3)), Duration::from_millis(9_900));
        assert_eq!(looks.now, Duration::from_millis(350));
        assert_eq!(looks.away, Duration::from_millis(9_900));
    }

    #[test]
    fn a_busy_event_loop_is_no_stop_because_the_looks_go_on() {
        let mut looks = Looks::new(at(0, 0));
        // Nobody asks for the time for a minute; the thread looks all the same.
        for look in 1..=240 {
            assert_eq!(looks.look(at(look * 250, 0)), Duration::ZERO);
        }
        assert_eq!(looks.now, Duration::from_secs(60));
    }

    #[test]
    fn a_machine_that_slept_is_told_by_the_clock_that_goes_on() {
        let mut looks = Looks::new(at(0, 7));
        assert_eq!(looks.look(at(250, 3607)), Duration::from_secs(3600));
        assert_eq!(looks.look(at(500, 3607)), Duration::ZERO);
        assert_eq!(looks.now, Duration::from_millis(500));
        assert_eq!(looks.away, Duration::from_secs(3600));
    }

    #[test]
    fn time_never_goes_back() {
        let mut looks = Looks::new(at(1_000, 0));
        looks.look(at(2_000, 0));
        looks.look(at(1_500, 0));
        looks.look(at(2_100, 0));
        assert_eq!(looks.now, Duration::from_millis(1_100));
    }
}
