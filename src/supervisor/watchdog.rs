//! Tells a service manager (systemd) that the run has begun, and from then on that its loop turns: one that
//! stands still is started anew by it (`WatchdogSec=`).

use std::time::Duration;

use sd_notify::NotifyState;

/// Signs of life for the service manager; nothing where there is none.
pub(super) struct Watchdog {
    /// Between two signs of life; none: nobody waits for them.
    interval: Option<Duration>,
    next: Duration,
}

impl Watchdog {
    /// Says that the run has begun.
    pub(super) fn begin() -> Watchdog {
        notify(NotifyState::Ready);
        Watchdog {
            // The manager acts when it has heard nothing for the whole time.
            interval: sd_notify::watchdog_enabled().map(|longest| longest / 3),
            next: Duration::ZERO,
        }
    }

    /// A sign of life, where one is due; `now` is the run's clock.
    pub(super) fn alive(&mut self, now: Duration) {
        if let Some(interval) = self.interval
            && now >= self.next
        {
            self.next = now + interval;
            notify(NotifyState::Watchdog);
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        notify(NotifyState::Stopping);
    }
}

fn notify(state: NotifyState) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::debug!(%error, "the service manager cannot be told");
    }
}
