//! The differential matrix: which run is next, and when enough is known. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::causes::Cause;
use crate::change::{Change, Host, Setting};
use crate::notes::{Batch, Notes, WrongResult};
use crate::rank::{Evidence, Ranked};
pub use crate::series::{Series, Verdict};
use crate::signature::Signature;
use crate::signs::Sign;
use crate::statistics::Rate;

/// Most runs of the command as it is before a failure that was not seen counts as too rare.
pub const MOST_BASE_RUNS: u32 = 60;

/// Clean runs of the command as it is after which it is looked for mistakes that raise no error.
const LOOKED_THROUGH: u32 = 3;

/// Clean runs after which such a mistake is told: it fails in less than a quarter of the runs, if at all.
const CLEAN_BUT_MISTAKEN: u32 = 10;

/// Most clean runs under one change.
const MOST_CLEAN_RUNS: u32 = 40;

/// Failures of a command that does not fail every time, after which its rate is known well enough.
const FAILURES: u32 = 3;

/// Changes that seem to help, for each of which the command runs once more as it is.
const MOST_WEIGHED: u32 = 4;

/// So often a command is watched that does not fail every time, until it does.
const MOST_WATCHES: u32 = 4;

/// A cause that is more likely than this needs no further run.
const CERTAIN: f64 = 0.96;

/// A cause that is less likely than this is in doubt.
const SURE: f64 = 0.9;

/// Clean runs beyond those that clear a change, where the cause is in doubt.
const CONFIRMING_RUNS: u32 = 2;

/// The same where the most likely cause has nothing to do with the change.
const CONTRADICTING_RUNS: u32 = 5;

/// A run that is expected to tell less than this many bits is not worth its time.
const LEAST_INFORMATION: f64 = 0.03;

/// A cause that is less likely than this is not worth many runs.
const UNLIKELY: f64 = 0.1;

/// Causes whose words come as well of a split or a sample that lacks something: of a class, of any row.
const MAY_BE_DRAWN: [Cause; 4] = [
    Cause::LabelOutOfRange,
    Cause::IndexOutOfRange,
    Cause::ShapeMismatch,
    Cause::EmptyData,
];

/// Everything that has been run.
#[derive(Debug, Clone, Default)]
pub struct Matrix {
    /// The command as it is.
    pub base: Series,
    /// What fails: what the command as it is ended with, once for each kind.
    pub failures: Vec<Signature>,
    /// Under settings, in the order in which they were run first.
    pub series: Vec<(BTreeSet<Setting>, Series)>,
    /// What the program has noted in its failing runs.
    pub notes: Notes,
    /// What speaks for and against causes.
    pub evidence: Evidence,
    /// The machine.
    pub host: Host,
    /// Settings that people asked for.
    pub own: Vec<Setting>,
    /// Run every change.
    pub all: bool,
    /// The failure was looked at with its operations traced.
    pub traced: bool,
    /// It was looked at with its exceptions watched, or that need not be tried again.
    pub watched: bool,
    /// Runs in which exceptions were watched.
    pub watches: u32,
    /// The failure behind the program's own words: the exception that it had caught.
    pub hidden: Option<Signature>,
    /// Exceptions that the program has gone on from although they may be why it failed in the end, with their signs.
    pub caught_earlier: Vec<(String, Vec<Sign>)>,
}

/// What to run next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The command as it is.
    Base,
    /// With its operations traced.
    Trace,
    /// With its exceptions watched.
    Watch,
    /// Under these settings.
    Under(BTreeSet<Setting>),
}

impl Matrix {
    /// Whether a failure is the one that is looked for.
    pub fn matches(&self, failure: &Signature) -> bool {
        self.failures.iter().any(|known| known.same(failure))
    }

    /// Whether a failure is of that kind and at that line, whatever its words: a loader's process words an error otherwise
    /// than the program itself.
    pub fn matches_place(&self, failure: &Signature) -> bool {
        let mut known = self.failures.iter();
        known.any(|known| {
            known.line.is_some() && (known.fault, &known.line) == (failure.fault, &failure.line)
        })
    }

    /// Whether a failure is an exception of that class: of one row alone a library may say otherwise what is wrong with it.
    pub fn matches_class(&self, failure: &Signature) -> bool {
        let class = |s: &Signature| Some(s.message.split_once(':')?.0.to_owned());
        let mut known = self.failures.iter();
        class(failure).is_some_and(|of| known.any(|known| class(known).as_ref() == Some(&of)))
    }

    /// Whether a failure is what a loader's process has died of, of which the program itself only hears by a connection that
    /// breaks: it crashes where it has no such processes.
    pub fn unmasks(&self, settings: &BTreeSet<Setting>, failure: &Signature) -> bool {
        let without = *settings == BTreeSet::from([Setting::Change(Change::Workers0)]);
        let died = (self.evidence.signs).contains(&Sign::LoaderWorkerDied);
        without && died && failure.is_crash() && !self.matches(failure)
    }

    /// The runs of a setting alone.
    fn alone(&self, setting: &Setting) -> Option<&Series> {
        let is = |settings: &BTreeSet<Setting>| settings.len() == 1 && settings.contains(setting);
        self.series
            .iter()
            .find(|(settings, _)| is(settings))
            .map(|(_, series)| series)
    }

    /// How many clean runs clear a change; `None`: more than can be made.
    pub fn needed(&self) -> Option<u32> {
        self.base.runs.clean_runs_needed(MOST_CLEAN_RUNS)
    }

    /// How a series has come out.
    pub fn verdict(&self, settings: &BTreeSet<Setting>, series: &Series) -> Verdict {
        let noted = |s: &Setting| matches!(s, Setting::Change(change) if change.row().noted);
        let base = self.base.runs;
        if !series.applied && settings.iter().all(noted) {
            Verdict::NotApplied
        } else if series.runs.failed > 0 {
            let rare = base.clean() > 0 && series.runs.clean() == 0;
            let often = series.runs.likelihood_unchanged(base) <= crate::statistics::DOUBT;
            if rare && often {
                Verdict::Always
            } else {
                Verdict::Fails
            }
        } else if series.behind {
            Verdict::TooSlow
        } else if series.runs.all > 0 && self.needed().is_some_and(|n| series.runs.all >= n) {
            Verdict::Cleared
        } else if series.other.is_some() {
            Verdict::Other
        } else {
            Verdict::TooRare
        }
    }

    /// Whether it no longer fails under settings that somebody could keep.
    fn is_workaround(&self, settings: &BTreeSet<Setting>, series: &Series) -> bool {
        let kept = !settings.iter().any(Setting::only_tells);
        kept && self.verdict(settings, series) == Verdict::Cleared
    }

    /// The verdict on settings that were run often enough; `None`: another run is needed.
    pub fn settled(&self, settings: &BTreeSet<Setting>) -> Option<Verdict> {
        let (_, series) = self.series.iter().find(|(s, _)| s == settings)?;
        let clean = series.runs.failed == 0 && series.other.is_none() && !series.behind;
        let more = clean && self.needed().is_none_or(|needed| series.runs.all < needed);
        (!more).then(|| self.verdict(settings, series))
    }

    /// The rows that may be what it fails by, where something points to the data: their loader, the rows of
    /// one of its batches, and the suspects among these. `always_there`: rows that were in each batch at which it failed.
    pub fn suspected_rows(
        &self,
        always_there: &BTreeSet<u64>,
    ) -> Option<(u64, Vec<u64>, Vec<u64>)> {
        use Sign::{IndexText, LabelText, NotFiniteRows, NotFiniteText, RowFrames};
        let signs = [NotFiniteRows, RowFrames, LabelText, IndexText];
        let seen = signs.iter().any(|sign| self.evidence.signs.contains(sign));
        let synthetic = Setting::Change(Change::Synthetic);
        let gradient = self.notes.gradient_not_finite.as_ref();
        let points = seen || gradient.is_some() || self.workarounds().contains(&synthetic);
        let named = self.evidence.signs.contains(&NotFiniteText);
        let spoiled = self.notes.spoiled(named);
        let of_gradient = gradient.and_then(|gradient| gradient.batch.as_ref());
        let result = self.notes.not_finite.as_ref();
        let of_result = result.and_then(WrongResult::of_batch);
        let noted = spoiled.or(of_gradient).or(of_result);
        let batch = noted.or(self.notes.batch.as_ref())?;
        let all = batch.rows.clone().filter(|rows| !rows.is_empty())?;
        let mut suspects = spoiled.map_or_else(Vec::new, Batch::rows_not_finite);
        if suspects.is_empty() {
            suspects.extend(
                all.iter()
                    .filter(|row| points || always_there.contains(row)),
            );
        }
        (points || !suspects.is_empty()).then_some((batch.loader, all, suspects))
    }

    /// Whether more runs of a series could change its verdict.
    fn is_open(&self, settings: &BTreeSet<Setting>, series: &Series) -> bool {
        if series.other.is_some() || settings.iter().any(Setting::only_tells) {
            return false;
        }
        match self.verdict(settings, series) {
            Verdict::TooRare => self.needed().is_some(),
            // A rare failure that comes at once may come each time now, where that would tell something.
            Verdict::Fails => {
                let causes = [
                    (Change::HashSeed, Cause::HashOrder),
                    (Change::Seed, Cause::SeedDependent),
                ];
                let base = self.base.runs;
                let settled = base.clean() == 0 || series.runs.clean() > 0;
                let likely = |(change, cause): (Change, Cause)| {
                    let under = settings.contains(&Setting::Change(change));
                    under && self.evidence.probability(cause) >= UNLIKELY
                };
                let tells = causes.into_iter().any(likely);
                !settled && tells && series.runs.all < MOST_CLEAN_RUNS
            }
            Verdict::Cleared
            | Verdict::Always
            | Verdict::Other
            | Verdict::TooSlow
            | Verdict::NotApplied => false,
        }
    }

    /// Changes that have something to change and were not run alone.
    fn untried(&self) -> impl Iterator<Item = Change> {
        Change::ALL.iter().copied().filter(|change| {
            change.applies(&self.host, &self.notes)
                && self.alone(&Setting::Change(*change)).is_none()
        })
    }

    /// The change for whose causes these runs speak: the only one, or, of files left out without which it does not fail,
    /// that without all of them.
    fn weighed_as(&self, settings: &BTreeSet<Setting>, series: &Series) -> Option<Change> {
        let file = |setting: &Setting| matches!(setting, Setting::WithoutFile(_));
        let mut all = settings.iter();
        match (all.next(), all.next()) {
            (Some(Setting::Change(change)), None) => Some(*change),
            _ => (settings.iter().all(file) && self.is_workaround(settings, series))
                .then_some(Change::NoLeftovers),
        }
    }

    /// What has come out of the changes so far, as evidence.
    pub fn weigh(&mut self) {
        let mut changed = BTreeMap::new();
        for (settings, series) in &self.series {
            let Some(change) = self.weighed_as(settings, series) else {
                continue;
            };
            // What is not used cannot be the cause: as if the change had made no difference.
            let used = self.verdict(settings, series) != Verdict::NotApplied;
            // A program may fork by itself, which no start-up module can make a spawn of.
            if !used && change == Change::Spawn {
                continue;
            }
            let runs = if used {
                series.runs
            } else {
                Rate { failed: 1, all: 1 }
            };
            if runs.all > 0 {
                changed.insert(change, runs);
            }
        }
        self.evidence.changed = changed;
        self.evidence.base = self.base.runs;
    }

    /// The next run; `None`: nothing is left that would tell anything.
    pub fn next(&self) -> Option<Step> {
        if !self.base_is_known() {
            if self.may_be_mistaken() {
                return Some(Step::Trace);
            }
            let mistaken = self.base.runs.failed == 0 && self.notes.is_mistaken();
            let most = if mistaken {
                CLEAN_BUT_MISTAKEN
            } else {
                MOST_BASE_RUNS
            };
            return (self.base.runs.all < most).then_some(Step::Base);
        }
        if self.base.runs.failed == 0 || self.needed().is_none() {
            return None;
        }
        if !self.traced && self.traceable() {
            return Some(Step::Trace);
        }
        if !self.watched && self.watchable() {
            return Some(Step::Watch);
        }
        if let Some(change) = self.sanitizing() {
            return Some(Step::Under(BTreeSet::from([Setting::Change(change)])));
        }
        if let Some((settings, _)) = self
            .series
            .iter()
            .find(|(settings, s)| self.is_open(settings, s))
        {
            return Some(Step::Under(settings.clone()));
        }
        let own = self
            .own
            .iter()
            .find(|setting| self.alone(setting).is_none());
        if let Some(setting) = own {
            return Some(Step::Under(BTreeSet::from([setting.clone()])));
        }
        let change = self.most_telling().or_else(|| self.unusual());
        let change = change.or_else(|| self.confirming());
        match change {
            Some(change) => Some(Step::Under(BTreeSet::from([Setting::Change(change)]))),
            None => {
                let doubted = self.cleared_but_doubted().map(Step::Under);
                doubted.or_else(|| self.may_have_caught().then_some(Step::Watch))
            }
        }
    }

    /// A change that ended the failure while the cause is still in doubt, or although the most likely cause has nothing to
    /// do with it: 95 % may have been chance, and a few more clean runs tell.
    fn cleared_but_doubted(&self) -> Option<BTreeSet<Setting>> {
        let needed = self.needed()?;
        let more = |settings: &BTreeSet<Setting>| match (
            self.is_contradicted_by(settings),
            self.is_sure(),
        ) {
            (true, _) => CONTRADICTING_RUNS,
            (false, false) => CONFIRMING_RUNS,
            (false, true) => 0,
        };
        let cleared = self.series.iter().find(|(settings, series)| {
            self.is_workaround(settings, series)
                && settings.len() == 1
                && series.runs.all < needed + more(settings)
        });
        cleared.map(|(settings, _)| settings.clone())
    }

    /// Whether the most likely cause hardly ever ends by this change.
    fn is_contradicted_by(&self, settings: &BTreeSet<Setting>) -> bool {
        let first = self.evidence.ranking().first().map(|ranked| ranked.cause);
        match (first, settings.first()) {
            (Some(cause), Some(Setting::Change(change))) => cause.ends(*change) < 0.1,
            _ => false,
        }
    }

    /// Whether the most likely cause is hardly in doubt.
    fn is_sure(&self) -> bool {
        let ranking = self.evidence.ranking();
        ranking.first().is_some_and(|r| r.probability >= SURE)
    }

    /// Twice in two runs is known to fail each time, until changes end it: each of them is weighed against one more run.
    /// Else its rate is known after some failures.
    fn base_is_known(&self) -> bool {
        let runs = self.base.runs;
        let ended = |(_, series): &&(BTreeSet<Setting>, Series)| series.runs.clean() > 0;
        let ended = self.series.iter().filter(ended).count() as u32;
        let enough = 2 + ended.min(MOST_WEIGHED);
        (runs.failed == runs.all && runs.all >= enough)
            || (runs.clean() > 0 && runs.failed >= FAILURES)
    }

    /// A training that ends well may learn nothing all the same.
    fn may_be_mistaken(&self) -> bool {
        let clean = self.base.runs.failed == 0 && self.base.runs.all >= LOOKED_THROUGH;
        clean && !self.traced && self.notes.torch.is_some() && self.notes.stepped
    }

    /// compute-sanitizer ends no failure, but names the kernel, in one run.
    fn sanitizing(&self) -> Option<Change> {
        let seen = |sign: Sign| self.evidence.signs.contains(&sign);
        let kernel = [
            Sign::CudaIllegalInstruction,
            Sign::CudaAddress,
            Sign::CudaAssert,
        ];
        let read = seen(Sign::Flaky) && (seen(Sign::Cuda) || seen(Sign::NotFiniteText));
        let wanted = |change: &Change| {
            *change == Change::Sanitizer && kernel.into_iter().any(seen)
                || *change == Change::Initcheck && read
        };
        self.untried().find(wanted)
    }

    /// Tracing tells the operation of a crash, the module that makes NaN, and mistakes that raise no error, where a program
    /// that has trained ends in words of its own each time and has caught nothing.
    fn traceable(&self) -> bool {
        let seen = |sign: Sign| self.evidence.signs.contains(&sign);
        let failed = seen(Sign::NativeCrash) || seen(Sign::NotFiniteText) || seen(Sign::Cuda);
        let caught_nothing = self.watched && self.hidden.is_none();
        let each_time = self.base.runs.failed == self.base.runs.all;
        let own = self.ends_in_own_words() && each_time;
        let learnt_nothing = own && self.notes.stepped && caught_nothing;
        self.notes.torch.is_some() && (failed || learnt_nothing)
    }

    fn ends_in_own_words(&self) -> bool {
        let seen = |sign: Sign| self.evidence.signs.contains(&sign);
        seen(Sign::OwnExit) || seen(Sign::OwnRaise)
    }

    /// Takes in a run in which exceptions were watched: what fails now and then may not have failed this time.
    pub fn was_watched(&mut self, failed: bool) {
        self.watches += 1;
        self.watched = failed || self.watches >= MOST_WATCHES;
    }

    /// Watching tells what the program had caught before it ended in words of its own, and what a thread has died of for
    /// which it waits.
    fn watchable(&self) -> bool {
        let stands = self.evidence.signs.contains(&Sign::Hang);
        self.notes.python && (stands || self.ends_in_own_words())
    }

    /// A failure that seems clear may come of what the program went on without, long before.
    fn may_have_caught(&self) -> bool {
        let exception = self.evidence.signs.contains(&Sign::Exception);
        self.notes.python && exception && !self.watched
    }

    /// What the program had gone on from speaks where the failure itself names nothing better than a line of its code: most
    /// that a program catches is of no harm.
    pub fn weigh_caught_earlier(&mut self) {
        let first = self.evidence.ranking().first().map(|ranked| ranked.cause);
        if first == Some(Cause::OwnCode) {
            let signs = self.caught_earlier.iter().flat_map(|(_, signs)| signs);
            self.evidence.signs.extend(signs);
        }
    }

    /// The failure that is explained: what the program has caught, or else what it ended with.
    pub fn root(&self) -> Option<&Signature> {
        self.hidden.as_ref().or(self.failures.first())
    }

    /// The change whose run tells most for its time.
    fn most_telling(&self) -> Option<Change> {
        let ranking = self.evidence.ranking();
        let certain = ranking.first().is_some_and(|r| r.probability >= CERTAIN);
        let worth = |change: &Change| self.evidence.information(*change);
        let left = self
            .untried()
            .filter(|change| self.all || !certain && worth(change) >= LEAST_INFORMATION);
        left.max_by(|a, b| (worth(a) / a.row().slowdown).total_cmp(&(worth(b) / b.row().slowdown)))
    }

    /// What an import, a thread of another module or a loader's processes do is tried however sure the words of the error
    /// seem: it may be what they come from. So are files of earlier runs, an environment without variables that change what
    /// Python does, the date, where the program reads it, the order of sets, where processes that are not forked have their
    /// own, and the seed, where the words are of data that a draw may have chosen.
    fn unusual(&self) -> Option<Change> {
        let mut noted = vec![
            Change::ImportEffects,
            Change::OtherThreads,
            Change::Workers0,
            Change::NoLeftovers,
        ];
        if self.notes.reads_clock {
            noted.push(Change::Clock);
        }
        if self.host.has_shaping_variable() {
            noted.push(Change::CleanEnvironment);
        }
        // The order of a set is another one in each process that is not forked.
        let spawned = self.notes.loaders.iter().any(|loader| !loader.forks);
        if spawned && self.base.runs.clean() > 0 {
            noted.push(Change::HashSeed);
        }
        let first = self.evidence.ranking().first().map(|ranked| ranked.cause);
        if first.is_some_and(|cause| MAY_BE_DRAWN.contains(&cause)) {
            noted.push(Change::Seed);
        }
        self.untried().find(|change| noted.contains(change))
    }

    /// The change that most likely ends what is most likely the cause: it is the work-around, and it was to be tried.
    fn confirming(&self) -> Option<Change> {
        let cause = self.evidence.ranking().first()?.cause;
        let ends = cause.row().ends.iter().filter(|(_, p)| *p >= 0.5);
        let tried = ends.clone().any(|(change, _)| {
            self.alone(&Setting::Change(*change))
                .is_some_and(|s| s.runs.all > 0)
        });
        let untried: BTreeSet<Change> = self.untried().collect();
        let best = ends.filter(|(change, _)| untried.contains(change));
        let best = best
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(change, _)| *change);
        best.filter(|_| !tried)
    }

    /// The two settings that most likely end it together, where none does alone and the cause is in doubt.
    pub fn best_pair(&self) -> Option<BTreeSet<Setting>> {
        let cleared =
            |(settings, series): &(BTreeSet<Setting>, Series)| self.is_workaround(settings, series);
        if self.is_sure() || self.series.iter().any(cleared) {
            return None;
        }
        let ranking = self.evidence.ranking();
        let hope = |change: Change| -> f64 {
            let ends = |r: &Ranked| r.cause.ends(change) * r.probability;
            ranking.iter().map(ends).sum()
        };
        let fails = |(settings, series): &&(BTreeSet<Setting>, Series)| {
            settings.len() == 1 && self.verdict(settings, series) == Verdict::Fails
        };
        let mut tried: Vec<(f64, Setting)> = self
            .series
            .iter()
            .filter(fails)
            .filter_map(|(settings, series)| {
                let setting = settings.first()?.clone();
                let own = if let Setting::Change(change) = setting {
                    hope(change)
                } else {
                    0.5
                };
                Some((own + 1.0 - series.runs.expected(), setting))
            })
            .collect();
        tried.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        let pair: BTreeSet<Setting> = tried.into_iter().take(2).map(|(_, s)| s).collect();
        let new = self.series.iter().all(|(settings, _)| *settings != pair);
        (pair.len() == 2 && new).then_some(pair)
    }

    /// Settings that end the failure alone, the gentlest first.
    pub fn workarounds(&self) -> Vec<Setting> {
        let mut found: Vec<Setting> = self
            .series
            .iter()
            .filter(|(settings, series)| {
                settings.len() == 1 && self.is_workaround(settings, series)
            })
            .filter_map(|(settings, _)| settings.first().cloned())
            .collect();
        // Of changes of many things at once, and one of them, the one says more.
        found.sort_by_key(|setting| matches!(setting, Setting::Change(_)));
        found.sort_by(|a, b| a.slowdown().total_cmp(&b.slowdown()));
        found
    }
}

#[cfg(test)]
#[path = "matrix_tests.rs"]
mod tests;
