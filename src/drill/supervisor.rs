//! Deaths of the supervisor, and of its terminal: on the synthetic task, two slots.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use serde_json::Value as Json;

use super::directory::{DrillDirectory, Project, end, spawn};
use super::judge::compare;
use super::measure::between;
use super::{Drill, Report, Scenario};
use messages::exit::Failure;
use search::study::rng;

/// A dead supervisor's processes have to be gone within this time.
pub(super) const GONE: Duration = Duration::from_secs(2);

/// How long processes that should be gone are waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// No run of a scenario takes longer, unless it hangs.
pub(super) const LONGEST: Duration = Duration::from_secs(120);

/// Trials of a study that is killed.
const TRIALS: u64 = 12;

/// A study of trials of about 0.3 s.
pub(super) fn slow(trials: u64) -> Vec<String> {
    let mut args = quick(trials);
    let pace = ["--set", "task.step_ms=8", "--set", "task.steps=4"];
    args.extend(pace.map(str::to_owned));
    args
}

/// A study of trials that take no time; what values depend on is as in [`slow`].
pub(super) fn quick(trials: u64) -> Vec<String> {
    let words = "synthetic --device cpu --parallel 2 --sampler random --pruner none --trials";
    let mut args: Vec<String> = words.split(' ').map(str::to_owned).collect();
    args.push(trials.to_string());
    args
}

pub(super) fn run(
    drill: &Drill,
    site: &DrillDirectory,
    report: &mut Report,
    progress: &dyn Fn(&str),
) -> Result<(), Failure> {
    let project = site.project("supervisor-peace")?;
    let start = Instant::now();
    let reference = undisturbed(&project, &slow(TRIALS))?;
    let peace = Peace {
        reference: &reference,
        took: start.elapsed(),
        count: drill.count,
    };
    let mut rng = rng(drill.seed, 0, "drill supervisor");
    let kill = Scenario::new(
        "supervisor-kill",
        "kill -9 of the supervisor, then the same command",
    );
    let both = Scenario::new("both-kill", "kill -9 of supervisor and workers at once");
    for (scenario, workers_too) in [(kill, false), (both, true)] {
        progress(scenario.what);
        let project = site.project(scenario.name)?;
        report
            .scenarios
            .push(killed(scenario, &project, &peace, workers_too, &mut rng)?);
    }
    progress("a terminal that goes away");
    let project = site.project("terminal")?;
    report.scenarios.push(terminal(&project, &peace)?);
    Ok(())
}

/// The trials of a run that nothing disturbs.
pub(super) fn undisturbed(project: &Project, args: &[String]) -> Result<Vec<Json>, Failure> {
    let ended = project.run(args, "run", Some(LONGEST))?;
    if ended.code() != Some(0) {
        let text = format!("the synthetic task does not run: {}", ended.describe());
        return Err(Failure::internal(text));
    }
    project.trials("synthetic")
}

/// The study without faults.
struct Peace<'a> {
    reference: &'a [Json],
    took: Duration,
    count: u32,
}

fn killed(
    mut scenario: Scenario,
    project: &Project,
    peace: &Peace<'_>,
    workers_too: bool,
    rng: &mut ChaCha8Rng,
) -> Result<Scenario, Failure> {
    let args = slow(TRIALS);
    let mut killed_at: Option<String> = None;
    for round in 0..peace.count {
        let name = format!("run-{round}");
        let mut child = project.start(&args, &name)?;
        // So early that the study cannot be done before the last of them.
        let share = peace.took.as_secs_f64() / f64::from(peace.count + 1);
        thread::sleep(Duration::from_secs_f64(share * rng.random_range(0.3..1.0)));
        if workers_too {
            project.processes().into_iter().for_each(end);
        }
        let _ = child.kill();
        let now = messages::clock::now().to_string();
        let _ = child.wait();
        scenario.times += 1;
        match project.wait_gone(PATIENCE) {
            Some(seconds) => {
                scenario.gone.push(seconds);
                scenario.check(seconds <= GONE.as_secs_f64(), || {
                    format!("what it had started was gone only after {seconds:.1} s")
                });
            }
            None => scenario.check(false, || "what it had started did not end".into()),
        }
        note_step(&mut scenario, &project.events(&name), killed_at.as_deref());
        killed_at = Some(now);
    }
    let ended = project.run(&args, "last", Some(LONGEST))?;
    note_step(&mut scenario, &ended.events, killed_at.as_deref());
    scenario.check_exit("the last run", &ended, 0);
    let trials = project.trials("synthetic")?;
    verify(&mut scenario, peace.reference, &trials);
    scenario.outcome = format!("{} trials, none lost or repeated", trials.len());
    Ok(scenario)
}

/// A run's first finished epoch ends the wait since the kill before it.
fn note_step(scenario: &mut Scenario, events: &[Json], killed_at: Option<&str>) {
    let step = events.iter().find(|e| e["event"] == "epoch_finished");
    if let (Some(step), Some(from)) = (step, killed_at)
        && let Some(seconds) = between(from, step["time"].as_str().unwrap_or_default())
    {
        scenario.next_step.push(seconds);
    }
}

/// A study that was disturbed has to hold what it holds without faults.
pub(super) fn verify(scenario: &mut Scenario, reference: &[Json], trials: &[Json]) {
    scenario.check(trials.len() >= reference.len(), || {
        format!("{} trials instead of {}", trials.len(), reference.len())
    });
    let problems = compare(reference, trials, &BTreeSet::new());
    scenario.problems.extend(problems);
}

fn terminal(project: &Project, peace: &Peace<'_>) -> Result<Scenario, Failure> {
    let what = "stdout closed and SIGHUP in the middle of a run";
    let mut scenario = Scenario::new("terminal", what);
    let mut child = spawn(project.tune(&slow(TRIALS)).stdout(Stdio::piped()))?;
    drop(child.stdout.take());
    thread::sleep(peace.took / 3);
    let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGHUP);
    scenario.times = 1;
    let ended = project.finish(child, "run", Some(LONGEST));
    scenario.check_exit("the run", &ended, 0);
    let trials = project.trials("synthetic")?;
    verify(&mut scenario, peace.reference, &trials);
    scenario.outcome = "the run went on to its goal".into();
    Ok(scenario)
}
