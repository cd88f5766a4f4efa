//! The disturbed study, beside the same study left in peace.

use std::collections::BTreeMap;
use std::time::Duration;

use super::directory::{DrillDirectory, Ended, Project};
use super::expect::expected;
use super::judge::{Observed, Row, judge};
use super::{Drill, Report, possible};
use inject::{Form, Kind, Plan};
use messages::exit::Failure;

/// Trials where faults are asked for by rate alone.
const TRIALS: u64 = 100;

/// A run of the synthetic task that takes longer than this, and [`LONGEST_FAULT`] for each of its
/// trials, has hung.
const LONGEST: Duration = Duration::from_secs(600);

/// The slowest faults are hangs: the deadline, the grace, and a fresh process twice.
const LONGEST_FAULT: Duration = Duration::from_secs(6);

/// Proposals must not depend on the results of trials that faults ended.
const STEADY: [&str; 4] = ["--sampler", "random", "--pruner", "none"];

/// One disturbed study.
struct Round {
    slots: usize,
    plan: Plan,
    seed: u64,
    goal: u64,
}

pub(super) fn run(
    drill: &Drill,
    site: &DrillDirectory,
    report: &mut Report,
    progress: &dyn Fn(&str),
) -> Result<(), Failure> {
    let rounds = rounds(drill);
    let most: u64 = rounds.iter().map(trials_needed).max().unwrap_or(0);
    progress(&format!("a study of {most} trials, left in peace"));
    let project = site.project("peace")?;
    let args = arguments(drill, most, 1);
    let ended = project.run(&args, "run", longest(drill, most))?;
    if ended.code() != Some(0) {
        return Err(Failure::input(format!(
            "the task does not run even without faults: {}",
            ended.describe()
        )));
    }
    let study = study_of(&ended);
    let reference = project.trials(&study)?;
    let mut rows: BTreeMap<Kind, Row> = rounds
        .iter()
        .flat_map(|r| r.plan.kinds())
        .map(|k| {
            (
                k,
                Row::new(k, k.possible(drill.here).unwrap_or(Form::TextOnly)),
            )
        })
        .collect();
    for round in &rounds {
        let slots = round.slots;
        progress(&format!(
            "{} trials with faults, {slots} in parallel",
            round.goal
        ));
        let name = format!("faults-{slots}");
        let project = site.project(&name)?;
        let mut args = arguments(drill, round.goal, slots);
        args.extend(["--inject".into(), round.plan.to_string()]);
        args.extend(["--inject-seed".into(), round.seed.to_string()]);
        let ended = project.run(&args, "run", longest(drill, round.goal))?;
        if ended.code() != Some(0) {
            let text = format!("{name}: the run ended with {}", ended.describe());
            report.problems.push(text);
        }
        let observed = observe(&project, &study, ended, round.goal, drill.max_log_bytes)?;
        report.trials += observed.trials.len() as u64;
        let problems = judge(&reference, &observed, &mut rows);
        let named = problems.into_iter().map(|p| format!("{name}: {p}"));
        report.problems.extend(named);
    }
    report.plan = rounds
        .first()
        .map_or_else(String::new, |r| r.plan.to_string());
    report.rows = rows.into_values().collect();
    Ok(())
}

/// One slot, then several; where the drill chooses the faults, fewer of each in the second.
fn rounds(drill: &Drill) -> Vec<Round> {
    let plan = |count| match &drill.plan {
        Some(plan) => plan.clone(),
        None => Plan::each(&possible(drill.here), count),
    };
    let round = |slots, plan: Plan, seed| Round {
        slots,
        goal: match plan.counted() {
            0 => TRIALS,
            // The faults fall on the first trials, twice as many; two more show that all is well.
            n => n * 2 + 2,
        },
        plan,
        seed,
    };
    let mut rounds = vec![round(1, plan(drill.count), drill.seed)];
    if drill.parallel > 1 {
        let fewer = drill.count.div_ceil(3);
        rounds.push(round(
            drill.parallel,
            plan(fewer),
            drill.seed.wrapping_add(1),
        ));
    }
    rounds
}

/// The trials of a round: those that fail do not count towards its goal.
fn trials_needed(round: &Round) -> u64 {
    let fails = |n: &u64| {
        let injection = round.plan.decide(round.seed, *n, 0);
        injection.is_some_and(|i| expected(i.kind).ends == Some("FAIL"))
    };
    let finished = (0..).filter(|n| !fails(n)).nth(round.goal as usize - 1);
    finished.map_or(round.goal, |last: u64| last + 1)
}

fn arguments(drill: &Drill, trials: u64, slots: usize) -> Vec<String> {
    let task = drill.task.as_ref().map_or_else(
        || "synthetic".to_owned(),
        |file| file.to_string_lossy().into_owned(),
    );
    let mut args = vec![task];
    args.extend(drill.arguments.iter().cloned());
    args.extend(STEADY.map(str::to_owned));
    args.extend(["--trials".into(), trials.to_string()]);
    args.extend(["--parallel".into(), slots.to_string()]);
    args.extend(["--set".into(), "supervisor.grace=300ms".into()]);
    // Only the search's own trials are compared; what fits is no question here.
    args.extend(["--repeats=1", "--test=off", "--no-rehearsal"].map(str::to_owned));
    args
}

fn longest(drill: &Drill, trials: u64) -> Option<Duration> {
    // Nobody knows how long a real task takes.
    let faults = u32::try_from(trials).unwrap_or(u32::MAX);
    (drill.task.is_none()).then(|| LONGEST + LONGEST_FAULT * faults)
}

fn study_of(ended: &Ended) -> String {
    let first = ended.events.first().and_then(|e| e["study"].as_str());
    first.unwrap_or("synthetic").to_owned()
}

fn observe(
    project: &Project,
    study: &str,
    ended: Ended,
    goal: u64,
    max_log_bytes: u64,
) -> Result<Observed, Failure> {
    let dir = files::paths::directory_of(&project.database());
    let trials = project.trials(study)?;
    let mut logs = BTreeMap::new();
    for trial in &trials {
        for attempt in trial["attempts"].as_array().into_iter().flatten() {
            let log = dir.join(attempt["log"].as_str().unwrap_or_default());
            let name = (trial["number"].as_u64(), attempt["attempt"].as_u64());
            if let (Ok(meta), (Some(number), Some(attempt))) = (std::fs::metadata(log), name) {
                logs.insert((number, attempt as u32), meta.len());
            }
        }
    }
    Ok(Observed {
        events: ended.events,
        ledger: inject::ledger::read(&files::paths::ledger_of(&dir, study)),
        trials,
        logs,
        left_over: project.processes(),
        max_log_bytes,
        goal,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use inject::Here;

    fn drill(plan: Option<&str>) -> Drill {
        let here = Here {
            gpu: false,
            torch: false,
        };
        Drill {
            task: None,
            plan: plan.map(|text| Plan::parse(text, here).unwrap()),
            count: 3,
            seed: 5,
            parallel: 2,
            arguments: vec![],
            max_log_bytes: 1,
            here,
            keep: false,
        }
    }

    #[test]
    fn the_study_in_peace_is_long_enough_for_every_trial_that_fails() {
        let rounds = rounds(&drill(Some("error:4,kill:2")));
        for round in &rounds {
            assert_eq!(round.goal, 14);
            assert_eq!(trials_needed(round), 18);
        }
        assert_eq!((rounds[0].slots, rounds[1].slots), (1, 2));
    }

    #[test]
    fn rates_need_a_number_of_trials_of_their_own() {
        let rounds = rounds(&drill(Some("kill:0.1")));
        assert_eq!(trials_needed(&rounds[0]), TRIALS);
    }

    #[test]
    fn without_a_wish_every_possible_fault_is_made() {
        let rounds = rounds(&drill(None));
        assert_eq!(rounds[0].plan.kinds(), possible(drill(None).here));
        assert_eq!(rounds[0].plan.counted(), rounds[1].plan.counted() * 3);
    }
}
