//! Items that threads make ahead of who needs them, handed out in their order: which thread is the faster one changes
//! nothing.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use anyhow::{Context, Result};

/// Items that each thread has ready at most, beside the one that it makes.
const READY: usize = 4;

/// Most threads: so many make more than any device that we know consumes.
const MOST_THREADS: usize = 8;

/// Items in the making.
pub struct Ahead<T> {
    /// Of each thread: the `k`th makes the items `k`, `k + n`, and so on, of `n` threads.
    lanes: Vec<Receiver<T>>,
    threads: Vec<JoinHandle<()>>,
    next: Cell<usize>,
}

impl<T: Send + 'static> Ahead<T> {
    /// Begins to make `count` items, each by its number from 0.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn new(
        count: usize,
        make: impl Fn(usize) -> T + Send + Sync + 'static,
    ) -> Result<Ahead<T>> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = threads.min(MOST_THREADS).min(count.max(1));
        let make = Arc::new(make);
        let mut ahead = Ahead {
            lanes: Vec::new(),
            threads: Vec::new(),
            next: Cell::new(0),
        };
        for first in 0..threads {
            let (lane, items) = sync_channel(READY);
            let make = make.clone();
            let work = move || {
                for number in (first..count).step_by(threads) {
                    // Nobody wants more.
                    if lane.send(make(number)).is_err() {
                        return;
                    }
                }
            };
            let name = format!("ahead {first}");
            let thread = std::thread::Builder::new().name(name).spawn(work);
            ahead.lanes.push(items);
            ahead
                .threads
                .push(thread.context("a thread that reads ahead")?);
        }
        Ok(ahead)
    }

    /// The next item.
    ///
    /// # Errors
    /// There is none, or a thread has panicked.
    pub fn next(&self) -> Result<T> {
        let number = self.next.get();
        self.next.set(number + 1);
        let lane = &self.lanes[number % self.lanes.len()];
        lane.recv().with_context(|| {
            format!("item {number} is not there: a thread that reads ahead has ended")
        })
    }
}

impl<T> Drop for Ahead<T> {
    fn drop(&mut self) {
        // Who sends is told that nobody receives.
        self.lanes.clear();
        for thread in self.threads.drain(..) {
            // A panic has been told where it happened.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_in_their_order_however_long_each_takes() {
        let ahead = Ahead::new(200, |number| {
            (0..number * 7919 % 1000).for_each(|_| std::hint::spin_loop());
            number
        });
        let ahead = ahead.unwrap();
        let found: Vec<usize> = (0..200).map(|_| ahead.next().unwrap()).collect();
        assert_eq!(found, (0..200).collect::<Vec<_>>());
        assert!(ahead.next().is_err());
    }

    #[test]
    fn who_stops_early_waits_for_nobody() {
        let made = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counted = made.clone();
        let ahead = Ahead::new(100_000, move |_| {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
        });
        drop(ahead);
        assert!(made.load(std::sync::atomic::Ordering::Relaxed) <= MOST_THREADS * (READY + 2));
    }
}
