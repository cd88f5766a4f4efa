//! How long workers of this run are silent when all is well, and the deadline learned from it.

use std::collections::VecDeque;
use std::time::Duration;

use super::remember;
use config::Deadline;

/// Attempts that the deadline is learned from: the latest ones, because later trials resemble each
/// other more than the first ones.
const RECENT: usize = 50;

/// Fewer attempts teach nothing.
const ENOUGH: usize = 3;

/// The part of an attempt that a silence belongs to. Loading a model and filling caches before the
/// first step may take a thousand times as long as a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// From the start of the attempt to its first sign of life.
    First,
    /// Between signs of life.
    Later,
}

/// The silences of one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LongestSilences {
    /// Before the first sign of life; `None` until there was one.
    first: Option<Duration>,
    /// The longest one after that.
    later: Option<Duration>,
}

impl LongestSilences {
    /// A sign of life after a silence of this length.
    pub fn end(&mut self, silence: Duration) {
        match self.first {
            None => self.first = Some(silence),
            Some(_) => self.later = self.later.max(Some(silence)),
        }
    }

    /// What the attempt is at.
    pub fn stage(&self) -> Stage {
        match self.first {
            None => Stage::First,
            Some(_) => Stage::Later,
        }
    }

    fn longest(&self, stage: Stage) -> Option<Duration> {
        match stage {
            Stage::First => self.first,
            Stage::Later => self.later,
        }
    }
}

/// What a worker that opens its GPU is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// Its process, its context, its first memory.
    Device,
    /// Its task.
    Task,
    /// What a spare worker does before it is ready.
    Rehearsal,
}

/// A worker may take so many times as long to open its GPU as any of this run has taken.
const START_FACTOR: u32 = 20;

/// It may always take as long as this.
const START_FLOOR: Duration = Duration::from_secs(60);

/// The silences of recent attempts, and the starts of recent workers on GPUs.
#[derive(Debug, Default)]
pub struct LivenessDeadlines {
    recent: VecDeque<LongestSilences>,
    /// How long after its start each worker was done with a part of its opening.
    starts: VecDeque<(Opening, Duration)>,
}

impl LivenessDeadlines {
    /// Notes an attempt that did not hang.
    pub fn learn(&mut self, silences: LongestSilences) {
        remember(&mut self.recent, RECENT, silences);
    }

    /// A worker was done with a part of its opening, so long after its start.
    pub fn learn_start(&mut self, at: Opening, after: Duration) {
        remember(&mut self.starts, RECENT, (at, after));
    }

    /// The longest that workers of this run have taken until then; `None`: none has come so far.
    pub fn slowest_start(&self, at: Opening) -> Option<Duration> {
        let so_far = self.starts.iter().filter(|start| start.0 == at);
        so_far.map(|start| start.1).max()
    }

    /// How long after its start a worker must be done with what it is at, at most `ceiling`. One start
    /// is enough to learn from: the first one is the slowest, because nothing is cached yet.
    pub fn start_limit(&self, at: Opening, ceiling: Duration) -> Duration {
        let learned = self.slowest_start(at).map(|slowest| slowest * START_FACTOR);
        learned.map_or(ceiling, |limit| limit.max(START_FLOOR).min(ceiling))
    }

    /// The longest silence allowed now, to an attempt with these silences so far; `None`: any.
    pub fn limit(&self, deadline: Deadline, silences: &LongestSilences) -> Option<Duration> {
        match deadline {
            Deadline::Off => None,
            Deadline::Fixed(limit) => Some(limit),
            Deadline::Learned {
                floor,
                ceiling,
                factor,
            } => {
                let stage = silences.stage();
                let seen: Vec<Duration> = self
                    .recent
                    .iter()
                    .filter_map(|s| s.longest(stage))
                    .collect();
                if seen.len() < ENOUGH {
                    return Some(ceiling);
                }
                let longest = seen.into_iter().chain(silences.longest(stage)).max()?;
                // As floats: a factor of a million must not overflow.
                let learned = (longest.as_secs_f64() * factor).min(ceiling.as_secs_f64());
                Some(Duration::from_secs_f64(learned).max(floor).min(ceiling))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEARNED: Deadline = Deadline::Learned {
        floor: Duration::from_secs(60),
        ceiling: Duration::from_secs(600),
        factor: 20.0,
    };

    fn silences(first: u64, later: u64) -> LongestSilences {
        let mut silences = LongestSilences::default();
        silences.end(Duration::from_secs(first));
        silences.end(Duration::from_secs(later));
        silences
    }

    fn limit(deadlines: &LivenessDeadlines, now: &LongestSilences) -> u64 {
        deadlines.limit(LEARNED, now).unwrap().as_secs()
    }

    #[test]
    fn each_stage_has_its_own_deadline_once_three_attempts_were_seen() {
        let mut deadlines = LivenessDeadlines::default();
        deadlines.learn(silences(25, 1));
        deadlines.learn(silences(20, 4));
        let training = silences(1, 1);
        assert_eq!(limit(&deadlines, &training), 600, "too little was seen");
        deadlines.learn(silences(20, 2));
        assert_eq!(limit(&deadlines, &training), 80);
        assert_eq!(limit(&deadlines, &LongestSilences::default()), 500);
    }

    #[test]
    fn the_deadline_keeps_within_its_bounds() {
        let mut deadlines = LivenessDeadlines::default();
        for _ in 0..3 {
            deadlines.learn(silences(0, 0));
        }
        assert_eq!(limit(&deadlines, &silences(0, 0)), 60);
        assert_eq!(
            limit(&deadlines, &silences(0, 9)),
            180,
            "its own silence counts"
        );
        assert_eq!(limit(&deadlines, &silences(0, 900)), 600);
    }

    #[test]
    fn old_attempts_are_forgotten() {
        let mut deadlines = LivenessDeadlines::default();
        deadlines.learn(silences(1, 25));
        for _ in 0..RECENT {
            deadlines.learn(silences(1, 5));
        }
        assert_eq!(limit(&deadlines, &silences(1, 1)), 100);
    }

    #[test]
    fn the_start_deadline_is_learned_from_one_start_and_each_part_has_its_own() {
        let mut deadlines = LivenessDeadlines::default();
        let seconds = Duration::from_secs;
        let limit =
            |deadlines: &LivenessDeadlines, at| deadlines.start_limit(at, seconds(600)).as_secs();
        assert_eq!(limit(&deadlines, Opening::Device), 600);
        deadlines.learn_start(Opening::Device, seconds(2));
        deadlines.learn_start(Opening::Task, seconds(8));
        assert_eq!(limit(&deadlines, Opening::Device), 60);
        assert_eq!(limit(&deadlines, Opening::Task), 160);
        assert_eq!(limit(&deadlines, Opening::Rehearsal), 600, "none was seen");
        deadlines.learn_start(Opening::Task, seconds(45));
        assert_eq!(
            limit(&deadlines, Opening::Task),
            600,
            "the configured one is the most"
        );
        assert_eq!(
            deadlines.start_limit(Opening::Device, seconds(20)),
            seconds(20)
        );
    }

    #[test]
    fn a_deadline_that_is_set_is_not_learned() {
        let deadlines = LivenessDeadlines::default();
        let none = LongestSilences::default();
        let set = Deadline::Fixed(Duration::from_secs(5));
        assert_eq!(deadlines.limit(set, &none), Some(Duration::from_secs(5)));
        assert_eq!(deadlines.limit(Deadline::Off, &none), None);
    }
}
