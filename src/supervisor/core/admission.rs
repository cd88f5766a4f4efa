//! Whether a trial's memory fits beside what runs on a device already.
//!
//! Pure arithmetic on predictions: a trial starts when the predicted peaks of what runs, its own
//! upper prediction, the idle workers and other people's processes stay below what `tune` may use.

use memory::Estimate;

/// A device's memory and what of it is spoken for, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeviceMemory {
    /// Memory in all.
    pub total: u64,
    /// What trials that run together may use, with everybody else; at most `alone`.
    pub cap: u64,
    /// What a trial may use that has the device to itself, with everybody else; at most `total`.
    pub alone: u64,
    /// Used by processes that are not ours.
    pub foreign: u64,
    /// Spoken for by attempts that run, each with its process.
    pub running: u64,
    /// Used by workers of ours that are in no attempt, but for the one that asks.
    pub idle: u64,
    /// Attempts that run.
    pub attempts: usize,
    /// Other people's memory yields to pressure (the host's does, by swap and caches): a trial that
    /// would be alone does not wait for it.
    pub yields: bool,
}

/// What a trial wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryRequest {
    /// What is predicted for it; `None`: nothing is known.
    pub estimate: Option<Estimate>,
    /// The prediction rests on many measurements.
    pub sure: bool,
    /// The prediction's interval is known to hold: a trial may be refused by its lower end.
    pub holds: bool,
    /// Somebody has said how many may run at a time: where little or nothing is known, it may run
    /// beside others all the same.
    pub trusting: bool,
    /// It ran out of memory before, and has to be alone.
    pub alone: bool,
}

/// What is done about a wish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It may start.
    Start(Reservation),
    /// It may start once the idle workers of the device are gone.
    Clear,
    /// It has to wait for what runs to end, or for other people's processes.
    Wait,
    /// It does not fit even alone.
    Refuse {
        /// What it needs.
        needs: u64,
        /// What there is.
        has: u64,
    },
}

/// What a trial gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reservation {
    /// What it counts for while it runs.
    pub reserved: u64,
    /// What its process may take: more than it counts for, so that an upper prediction that is
    /// exceeded by little costs nothing; `None`: no limit.
    pub grant: Option<u64>,
}

/// A trial may take so many times what was predicted at most, before it is stopped: one upper
/// prediction in fifty is exceeded, and blocks are torn.
const MARGIN: f64 = 1.15;

/// And so much more, in bytes, however small it is, because libtorch's allocator takes more at a time
/// than is asked of it, and is refused all of it when that passes the limit: 20 MiB for a tensor of 1
/// to 10 MiB and as the page of an expandable segment, of which two may be begun, 2 MiB for small
/// ones, and 32 MiB for the workspace of each of the two handles that a thread of cuBLAS's makes at its
/// first product on a large GPU.
pub const SLACK: u64 = (2 * 20 + 2 + 2 * 32) << 20;

/// Decides on a wish. With no total (nothing is known of the device) everything starts that is not
/// to be alone.
pub fn admit(memory: &DeviceMemory, request: MemoryRequest) -> Admission {
    let empty = memory.attempts == 0;
    let Some(estimate) = request.estimate.filter(|_| memory.total > 0) else {
        return match (empty, request.alone || !request.trusting) {
            (true, _) | (false, false) => Admission::Start(Reservation::default()),
            (false, true) => Admission::Wait,
        };
    };
    if request.holds && estimate.lower > memory.alone {
        return Admission::Refuse {
            needs: estimate.lower,
            has: memory.alone,
        };
    }
    // Few measurements make upper bounds many times the peak; somebody's word on how many fit is worth
    // more than those.
    let upper = match request.trusting && !request.sure {
        true => estimate.expected,
        false => estimate.upper,
    };
    if !request.alone && upper <= memory.left() {
        return Admission::Start(Reservation {
            reserved: upper,
            grant: Some(memory.part(estimate.upper as f64 * MARGIN + SLACK as f64)),
        });
    }
    // It gets the device to itself: it may fit, or not even that is known. What is there besides what
    // others use is enough then, even above the cap; and the CPU's memory is waited for by the kernel.
    let left = memory.cap.saturating_sub(memory.foreign);
    let there = memory.part(f64::INFINITY);
    // A first guess is not worth waiting for other people's memory, unless memory has run out already.
    let needed = match request.sure || request.alone {
        true => estimate.expected,
        false => estimate.lower,
    };
    match (empty, memory.yields || needed.min(memory.cap) <= there) {
        (true, true) if memory.idle == 0 => Admission::Start(Reservation {
            reserved: left,
            grant: Some(memory.part(f64::INFINITY)),
        }),
        (true, true) => Admission::Clear,
        (false, _) | (_, false) => Admission::Wait,
    }
}

impl DeviceMemory {
    /// A grant of so many bytes, as far as the device has them.
    fn part(&self, bytes: f64) -> u64 {
        let most = self.alone as f64 - self.foreign as f64;
        bytes.min(most).max(0.0) as u64
    }

    /// What is not spoken for, in bytes.
    pub fn left(&self) -> u64 {
        (self.cap).saturating_sub(self.foreign + self.running + self.idle)
    }

    /// Whether a worker for a trial of this size could start a trial now.
    pub fn has(&self, bytes: u64) -> bool {
        bytes <= self.left()
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;

    const GIB: u64 = 1 << 30;

    fn memory(running: &[u64], idle: u64, foreign: u64) -> DeviceMemory {
        DeviceMemory {
            total: 24 * GIB,
            cap: 20 * GIB,
            alone: 23 * GIB,
            foreign: foreign * GIB,
            running: running.iter().sum::<u64>() * GIB,
            idle: idle * GIB,
            attempts: running.len(),
            yields: false,
        }
    }

    fn request(lower: u64, expected: u64, upper: u64) -> MemoryRequest {
        MemoryRequest {
            estimate: Some(Estimate {
                lower: lower * GIB,
                expected: expected * GIB,
                upper: upper * GIB,
            }),
            sure: true,
            holds: true,
            ..MemoryRequest::default()
        }
    }

    #[test]
    fn what_fits_beside_the_others_starts_with_a_little_more_than_was_predicted() {
        let admission = admit(&memory(&[6, 6], 0, 1), request(5, 6, 7));
        let Admission::Start(reservation) = admission else {
            panic!("{admission:?}");
        };
        assert_eq!(reservation.reserved, 7 * GIB);
        let grant = reservation.grant.unwrap();
        assert!(grant > 7 * GIB && grant < 9 * GIB, "{grant}");
        for full in [
            memory(&[7, 7], 0, 1),
            memory(&[6, 6], 2, 1),
            memory(&[6, 6], 0, 2),
        ] {
            assert_eq!(admit(&full, request(5, 6, 7)), Admission::Wait);
        }
    }

    #[test]
    fn an_uncertain_trial_gets_the_device_to_itself_and_all_of_it() {
        let uncertain = request(10, 15, 25);
        assert_eq!(admit(&memory(&[2], 0, 0), uncertain), Admission::Wait);
        assert_eq!(admit(&memory(&[], 1, 0), uncertain), Admission::Clear);
        let Admission::Start(reservation) = admit(&memory(&[], 0, 1), uncertain) else {
            panic!("it fits alone");
        };
        assert_eq!(reservation.reserved, 19 * GIB);
        assert_eq!(reservation.grant, Some(22 * GIB));
    }

    #[test]
    fn what_fits_alone_but_not_beside_others_waits_until_it_is_alone() {
        // Above what runs together, below what one may have: 483 MiB of 560, as it were.
        let large = request(19, 21, 22);
        assert_eq!(admit(&memory(&[2], 0, 0), large), Admission::Wait);
        assert_eq!(admit(&memory(&[], 2, 0), large), Admission::Clear);
        let Admission::Start(reservation) = admit(&memory(&[], 0, 0), large) else {
            panic!("it fits alone");
        };
        assert_eq!(reservation.grant, Some(23 * GIB), "all that one may have");
        assert_eq!(
            reservation.reserved,
            20 * GIB,
            "nothing else starts beside it"
        );
    }

    #[test]
    fn only_the_lower_end_of_an_interval_that_is_known_to_hold_refuses() {
        // 805 MiB (534 to 1,335) where 720 are allowed, as it were.
        let wide = request(17, 26, 43);
        assert!(matches!(
            admit(&memory(&[], 0, 0), wide),
            Admission::Start(_)
        ));
        assert_eq!(admit(&memory(&[5], 0, 0), wide), Admission::Wait);
        let hopeless = request(24, 30, 50);
        let refused = Admission::Refuse {
            needs: 24 * GIB,
            has: 23 * GIB,
        };
        assert_eq!(admit(&memory(&[5], 0, 0), hopeless), refused);
        let unknown = MemoryRequest {
            holds: false,
            ..hopeless
        };
        let Admission::Start(reservation) = admit(&memory(&[], 0, 0), unknown) else {
            panic!("it teaches");
        };
        assert_eq!(reservation.grant, Some(23 * GIB), "and is protected");
        assert_eq!(admit(&memory(&[5], 0, 0), unknown), Admission::Wait);
    }

    #[test]
    fn a_grant_carries_what_the_allocator_takes_beside_the_tensors() {
        let mib = |n: u64| n << 20;
        for predicted in [100, 200, 434, 805, 2_000, 8_000] {
            let estimate = Estimate {
                lower: mib(predicted / 2),
                expected: mib(predicted * 9 / 10),
                upper: mib(predicted),
            };
            let exact = MemoryRequest {
                estimate: Some(estimate),
                ..request(1, 1, 1)
            };
            let Admission::Start(reservation) = admit(&memory(&[2], 0, 0), exact) else {
                panic!("{predicted} fits");
            };
            // It takes what was predicted; then a block for a tensor of 2 MiB, one more on another
            // stream, a small one, and the workspaces of a new thread; and a twentieth is torn.
            let taken = mib(predicted) * 21 / 20 + mib(20 + 20 + 2 + 32 + 32);
            assert!(
                reservation.grant.unwrap() >= taken,
                "{predicted}: {reservation:?}"
            );
            assert_eq!(
                reservation.reserved,
                mib(predicted),
                "neighbours feel what is expected"
            );
        }
    }

    #[test]
    fn other_peoples_processes_are_waited_for_and_never_a_reason_to_refuse() {
        let alone = |foreign| admit(&memory(&[], 0, foreign), request(5, 6, 7));
        assert_eq!(alone(20), Admission::Wait);
        // More than the cap is used then, but there is room.
        assert!(matches!(alone(15), Admission::Start(_)));
        assert_eq!(
            admit(&memory(&[1], 0, 15), request(5, 6, 7)),
            Admission::Wait
        );
        let host = DeviceMemory {
            yields: true,
            ..memory(&[], 0, 23)
        };
        assert!(matches!(
            admit(&host, request(5, 6, 7)),
            Admission::Start(_)
        ));
    }

    #[test]
    fn other_peoples_processes_are_not_waited_for_because_of_a_guess() {
        let guess = MemoryRequest {
            sure: false,
            holds: false,
            ..request(6, 19, 40)
        };
        assert_eq!(admit(&memory(&[1], 0, 5), guess), Admission::Wait);
        let Admission::Start(reservation) = admit(&memory(&[], 0, 5), guess) else {
            panic!("it may do with what there is");
        };
        assert_eq!(reservation.grant, Some(18 * GIB));
        assert_eq!(
            admit(&memory(&[], 0, 18), guess),
            Admission::Wait,
            "it needs 6"
        );
        let again = MemoryRequest {
            alone: true,
            ..guess
        };
        assert_eq!(admit(&memory(&[], 0, 5), again), Admission::Wait);
    }

    #[test]
    fn where_nothing_is_known_the_first_runs_alone_unless_somebody_said_how_many() {
        let unknown = MemoryRequest::default();
        let start = Admission::Start(Reservation::default());
        assert_eq!(admit(&memory(&[], 0, 0), unknown), start);
        assert_eq!(admit(&memory(&[3], 0, 0), unknown), Admission::Wait);
        let trusting = MemoryRequest {
            trusting: true,
            ..unknown
        };
        assert_eq!(admit(&memory(&[3], 0, 0), trusting), start);
        assert_eq!(
            admit(
                &DeviceMemory {
                    attempts: 1,
                    ..DeviceMemory::default()
                },
                trusting
            ),
            start
        );
    }

    #[test]
    fn a_wide_first_guess_does_not_overrule_who_said_how_many() {
        let guess = MemoryRequest {
            sure: false,
            trusting: true,
            ..request(1, 2, 30)
        };
        let Admission::Start(reservation) = admit(&memory(&[2, 2], 0, 0), guess) else {
            panic!("it is expected to fit");
        };
        assert_eq!(reservation.reserved, 2 * GIB);
        assert!(
            reservation.grant.unwrap() > 30 * GIB / 2,
            "it may turn out larger"
        );
        let unasked = MemoryRequest {
            trusting: false,
            ..guess
        };
        assert_eq!(admit(&memory(&[2, 2], 0, 0), unasked), Admission::Wait);
    }

    #[test]
    fn what_ran_out_of_memory_waits_until_it_is_alone() {
        let again = MemoryRequest {
            alone: true,
            ..request(1, 1, 1)
        };
        assert_eq!(admit(&memory(&[1], 0, 0), again), Admission::Wait);
        assert_eq!(admit(&memory(&[], 1, 0), again), Admission::Clear);
        assert!(matches!(
            admit(&memory(&[], 0, 0), again),
            Admission::Start(_)
        ));
        let unknown = MemoryRequest {
            alone: true,
            trusting: true,
            ..MemoryRequest::default()
        };
        assert_eq!(admit(&memory(&[1], 0, 0), unknown), Admission::Wait);
    }

    #[test]
    fn predictions_never_add_up_to_more_than_the_cap() {
        let mut rng = search::study::rng(1, 0, "admission");
        for _ in 0..2_000 {
            let mut memory = memory(&[], 0, rng.random_range(0..6));
            for _ in 0..20 {
                let expected = rng.random_range(1..24);
                let request = request(expected / 2, expected, expected + rng.random_range(0..8));
                if let Admission::Start(reservation) = admit(&memory, request) {
                    memory.running += reservation.reserved;
                    memory.attempts += 1;
                    assert!(memory.running + memory.idle + memory.foreign <= memory.cap);
                    assert!(reservation.grant.unwrap() <= memory.total - memory.foreign);
                }
            }
        }
    }
}
