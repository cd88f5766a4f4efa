//! Tests of [`super`].

use super::*;
use crate::notes::Loader;
use crate::signs::Sign;

fn failure() -> Signature {
    Signature {
        fault: "task_error",
        end: "the program exited with status 1".into(),
        message: "ValueError: no".into(),
        line: None,
        kernel: None,
    }
}

/// Plays a command that fails with this rate and that these changes cure; gives the runs, in order.
fn play(matrix: &mut Matrix, cured: &[Change], mut fails: impl FnMut(u32) -> bool) -> Vec<Step> {
    let mut steps = Vec::new();
    while let Some(step) = matrix.next() {
        let n = steps.len() as u32;
        match &step {
            Step::Base => {
                let failed = fails(n);
                matrix.base.runs.add(failed);
                if failed && matrix.failures.is_empty() {
                    matrix.failures.push(failure());
                }
            }
            Step::Trace => matrix.traced = true,
            Step::Watch => matrix.watched = true,
            Step::Under(settings) => {
                let cure = cured
                    .iter()
                    .any(|c| settings.contains(&Setting::Change(*c)));
                let failed = !cure && fails(n);
                let at = matrix.series.iter().position(|(s, _)| s == settings);
                let at = at.unwrap_or_else(|| {
                    matrix.series.push((settings.clone(), Series::default()));
                    matrix.series.len() - 1
                });
                let series = &mut matrix.series[at].1;
                series.applied = true;
                series.runs.add(failed);
            }
        }
        matrix.weigh();
        steps.push(step);
        assert!(steps.len() < 400, "it comes to an end");
    }
    steps
}

fn loader() -> Matrix {
    let mut matrix = Matrix::default();
    matrix.notes.python = true;
    let workers = Loader {
        number: 0,
        workers: 2,
        forks: true,
        batch_size: Some(8),
        rows: None,
    };
    matrix.notes.loaders.insert(workers);
    matrix.evidence.signs = [Sign::LoaderWorkers, Sign::LoaderWorkerDied, Sign::Exception].into();
    matrix
}

#[test]
fn a_failure_that_comes_each_time_needs_few_runs() {
    let mut matrix = loader();
    let steps = play(&mut matrix, &[Change::Workers0], |_| true);
    assert_eq!(steps[..2], [Step::Base, Step::Base]);
    let alone = BTreeSet::from([Setting::Change(Change::Workers0)]);
    assert_eq!(steps[2], Step::Under(alone), "{steps:?}");
    assert!(steps.len() <= 8, "{steps:?}");
    assert_eq!(
        matrix.evidence.ranking()[0].cause.to_string(),
        "loader_worker"
    );
    assert_eq!(matrix.workarounds(), [Setting::Change(Change::Workers0)]);
}

#[test]
fn files_of_earlier_runs_are_left_out_however_sure_the_words_seem() {
    let mut matrix = Matrix::default();
    matrix.notes.python = true;
    matrix.notes.leftovers = [crate::leftovers::Leftover {
        root: "cache".into(),
        file: "cache/rows.npy".into(),
    }]
    .into();
    matrix.evidence.signs = [
        Sign::IndexText,
        Sign::EmbeddingFrames,
        Sign::Exception,
        Sign::ReadsLeftovers,
    ]
    .into();
    let cause = |matrix: &Matrix| matrix.evidence.ranking()[0].cause;
    assert_eq!(cause(&matrix), Cause::IndexOutOfRange);
    play(&mut matrix, &[Change::NoLeftovers], |_| true);
    assert_eq!(cause(&matrix), Cause::LeftBehind);
    // Of what cannot be done without, the parts tell as much.
    matrix.series.clear();
    let part = BTreeSet::from([Setting::WithoutFile("cache".into())]);
    let clean = Series {
        runs: Rate { failed: 0, all: 4 },
        ..Series::default()
    };
    matrix.series.push((part.clone(), clean));
    matrix.weigh();
    assert_eq!(cause(&matrix), Cause::LeftBehind);
    assert_eq!(matrix.workarounds(), part.into_iter().collect::<Vec<_>>());
}

#[test]
fn the_order_of_sets_is_tried_where_processes_draw_their_own() {
    let hash = Step::Under(BTreeSet::from([Setting::Change(Change::HashSeed)]));
    let rare = |cured: &[Change]| {
        let mut matrix = loader();
        let loaders = std::mem::take(&mut matrix.notes.loaders);
        matrix.notes.loaders = loaders
            .into_iter()
            .map(|l| Loader { forks: false, ..l })
            .collect();
        matrix.evidence.signs.remove(&Sign::LoaderWorkerDied);
        let steps = play(&mut matrix, cured, |n| n % 2 == 0);
        (steps.contains(&hash), matrix.evidence.ranking()[0].cause)
    };
    let spawned = rare(&[Change::Workers0, Change::HashSeed]);
    assert_eq!(spawned, (true, Cause::HashOrder));
    let workers = rare(&[Change::Workers0]);
    assert_eq!(workers, (true, Cause::LoaderWorker));
}

#[test]
fn a_rare_failure_is_repeated_until_its_rate_is_excluded() {
    let mut matrix = loader();
    let steps = play(&mut matrix, &[Change::Workers0], |n| n % 3 == 0);
    let alone = Step::Under(BTreeSet::from([Setting::Change(Change::Workers0)]));
    let repeats = steps.iter().filter(|s| **s == alone).count() as u32;
    assert_eq!(Some(repeats), matrix.needed());
    assert!(repeats >= 8, "{repeats}");
}

#[test]
fn a_command_that_never_fails_is_given_up() {
    let mut matrix = Matrix::default();
    let steps = play(&mut matrix, &[], |_| false);
    assert_eq!(steps.len() as u32, MOST_BASE_RUNS);
}

#[test]
fn where_nothing_helps_alone_the_two_best_are_tried_together() {
    let mut matrix = loader();
    matrix.all = true;
    play(&mut matrix, &[], |_| true);
    let pair = matrix.best_pair().unwrap();
    assert!(
        pair.contains(&Setting::Change(Change::Workers0)),
        "{pair:?}"
    );
    let mut cured = loader();
    play(&mut cured, &[Change::Workers0], |_| true);
    assert_eq!(cured.best_pair(), None);
}

#[test]
fn compute_sanitizer_runs_once_and_is_no_way_round() {
    let mut matrix = loader();
    (matrix.host.gpu, matrix.host.sanitizer) = (true, true);
    matrix.evidence.signs = [Sign::Cuda, Sign::CudaAddress].into();
    let steps = play(&mut matrix, &[Change::Sanitizer], |_| true);
    let alone = BTreeSet::from([Setting::Change(Change::Sanitizer)]);
    let runs = steps.iter().filter(|s| **s == Step::Under(alone.clone()));
    assert_eq!(runs.count(), 1, "{steps:?}");
    assert!(!matrix.workarounds().iter().any(Setting::only_tells));
}

#[test]
fn an_effect_of_an_import_is_taken_back_once_however_sure_the_cause_seems() {
    let mut matrix = Matrix::default();
    matrix.notes.python = true;
    let effect = ["helpers", "warnings that are errors", "[]", "['error']"].map(str::to_owned);
    matrix.notes.import_effects.insert(effect.into());
    matrix.evidence.signs = [
        Sign::ShapeText,
        Sign::LossFrames,
        Sign::Exception,
        Sign::ImportEffect,
    ]
    .into();
    let steps = play(&mut matrix, &[Change::ImportEffects], |_| true);
    let alone = BTreeSet::from([Setting::Change(Change::ImportEffects)]);
    assert!(steps.contains(&Step::Under(alone)), "{steps:?}");
    let first = matrix.evidence.ranking()[0].cause;
    assert_eq!(first, Cause::ImportSideEffect);
}

#[test]
fn a_loader_without_processes_is_tried_however_sure_the_words_seem() {
    let mut matrix = loader();
    matrix.evidence.signs = [
        Sign::LabelText,
        Sign::LossFrames,
        Sign::Exception,
        Sign::LoaderWorkers,
    ]
    .into();
    let mut bad_label = matrix.clone();
    play(&mut matrix, &[Change::Workers0], |_| true);
    let first = |matrix: &Matrix| matrix.evidence.ranking()[0].cause;
    assert_eq!(first(&matrix), Cause::LoaderWorker);
    play(&mut bad_label, &[], |_| true);
    let tried = bad_label.alone(&Setting::Change(Change::Workers0));
    assert_eq!(tried.unwrap().runs, Rate { failed: 1, all: 1 });
    assert_eq!(first(&bad_label), Cause::LabelOutOfRange);
}

#[test]
fn a_seed_and_a_date_that_end_it_outweigh_the_words_of_an_error() {
    let words = [Sign::ShapeText, Sign::LossFrames, Sign::Exception];
    for (signs, change, cause) in [
        (words, Change::Seed, Cause::SeedDependent),
        (
            [Sign::IndexText, Sign::EmbeddingFrames, Sign::Exception],
            Change::Clock,
            Cause::ClockDependent,
        ),
    ] {
        let mut matrix = Matrix::default();
        (matrix.notes.python, matrix.notes.reads_clock) = (true, true);
        matrix.evidence.signs = signs.into();
        play(&mut matrix, &[change], |_| true);
        assert_eq!(matrix.evidence.ranking()[0].cause, cause);
    }
    let mut matrix = Matrix::default();
    matrix.notes.python = true;
    matrix.evidence.signs = words.into();
    play(&mut matrix, &[], |_| true);
    assert!(matrix.alone(&Setting::Change(Change::Seed)).is_some());
    let clock = matrix.alone(&Setting::Change(Change::Clock));
    assert!(clock.is_none(), "it does not read the clock");
    assert_eq!(matrix.evidence.ranking()[0].cause, Cause::ShapeMismatch);
}

#[test]
fn what_a_change_has_not_found_is_hardly_the_cause() {
    let mut matrix = loader();
    matrix.base.runs = Rate { failed: 2, all: 2 };
    let settings = BTreeSet::from([Setting::Change(Change::Workers0)]);
    let series = Series {
        runs: Rate { failed: 0, all: 1 },
        ..Series::default()
    };
    assert_eq!(matrix.verdict(&settings, &series), Verdict::NotApplied);
    matrix.series.push((settings, series));
    let before = matrix.evidence.probability(Cause::LoaderWorker);
    matrix.weigh();
    assert!(matrix.evidence.probability(Cause::LoaderWorker) < before / 2.0);
}

#[test]
fn smaller_batches_that_do_not_come_as_far_clear_nothing() {
    let mut matrix = Matrix::default();
    matrix.base.runs = Rate { all: 3, failed: 3 };
    let one_row = BTreeSet::from([Setting::Change(Change::OneRow)]);
    let behind = Series {
        behind: true,
        applied: true,
        ..Series::default()
    };
    assert_eq!(matrix.verdict(&one_row, &behind), Verdict::TooSlow);
    matrix.series.push((one_row.clone(), behind));
    assert_eq!(matrix.settled(&one_row), Some(Verdict::TooSlow), "once");
}

#[test]
fn a_crash_without_a_loaders_processes_is_what_one_of_them_died_of() {
    let mut matrix = Matrix::default();
    matrix.failures.push(failure());
    let without = BTreeSet::from([Setting::Change(Change::Workers0)]);
    let half = BTreeSet::from([Setting::Change(Change::HalfBatch)]);
    let crash = Signature {
        fault: fault::FaultKind::Crash.word(),
        ..failure()
    };
    assert!(!matrix.unmasks(&without, &crash), "no process has died");
    matrix.evidence.signs.insert(Sign::LoaderWorkerDied);
    assert!(matrix.unmasks(&without, &crash));
    assert!(!matrix.unmasks(&half, &crash));
    let other = Signature {
        message: "KeyError: 3".into(),
        ..failure()
    };
    assert!(!matrix.unmasks(&without, &other), "an exception");
    matrix.failures.push(crash.clone());
    assert!(!matrix.unmasks(&without, &crash), "it is known");
}

#[test]
fn what_a_program_went_on_from_speaks_where_its_failure_names_nothing_better() {
    let of = |signs: &[Sign]| {
        let mut matrix = Matrix::default();
        matrix.evidence.signs = signs.iter().copied().collect();
        matrix.caught_earlier = vec![(String::new(), vec![Sign::BrokenFileText])];
        matrix.weigh_caught_earlier();
        matrix.evidence.signs.contains(&Sign::BrokenFileText)
    };
    assert!(of(&[Sign::Exception, Sign::OwnRaise]));
    assert!(!of(&[Sign::Exception, Sign::LabelText, Sign::LossFrames]));
}

#[test]
fn a_program_that_ends_in_its_own_words_is_watched_first_and_any_other_last() {
    let steps = |sign: Sign| {
        let mut matrix = loader();
        matrix.evidence.signs.insert(sign);
        let steps = play(&mut matrix, &[], |_| true);
        let at = steps.iter().position(|step| *step == Step::Watch);
        (at, steps.len())
    };
    let (own, _) = steps(Sign::OwnExit);
    assert_eq!(own, Some(2), "after the two runs as it is");
    let (other, all) = steps(Sign::Exception);
    assert_eq!(other, Some(all - 1));
}

#[test]
fn a_program_that_has_trained_and_ends_in_its_own_words_is_traced_unless_it_has_caught_something() {
    let traced_at = |change: fn(&mut Matrix)| {
        let mut matrix = loader();
        matrix.notes.torch = Some("2.11.0".to_owned());
        matrix.notes.stepped = true;
        matrix.evidence.signs.insert(Sign::OwnRaise);
        change(&mut matrix);
        let steps = play(&mut matrix, &[], |_| true);
        steps.iter().position(|step| *step == Step::Trace)
    };
    assert_eq!(traced_at(|_| {}), Some(3), "once it was watched");
    assert_eq!(traced_at(|matrix| matrix.notes.stepped = false), None);
    assert_eq!(traced_at(|matrix| matrix.hidden = Some(failure())), None);
    let other = |matrix: &mut Matrix| matrix.evidence.signs = [Sign::Exception].into();
    assert_eq!(traced_at(other), None);
}
