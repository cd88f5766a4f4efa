//! `tune bisect STUDY N`: the smallest cause of a trial's failure.

mod program_rows;
mod rows;
mod runs;
mod told;

use std::time::Duration;

use clap::Args;

use super::{Common, init_logging, replay, run};
use config::places::Wanted;
use device::DevicePolicy;
use doctor::bisect::{Between, End, Oracle, Parts, Threshold};
use doctor::bisect::{distance, smallest, threshold};
use doctor::statistics::{Measured, Rate};
use messages::exit::{Exit, Failure};
use runs::{Recorded, Runs, Stop};
use search::space::{Params, Space, Value};
use search::study::{FrozenTrial, TrialState};
use store::{Place, Store};
use told::{Against, Found, Member, Outcome};

/// `tune bisect`
#[derive(Debug, Args)]
pub struct BisectArgs {
    /// Study
    pub study: String,
    /// Trial number
    #[arg(value_parser = crate::commands::whole::<u64>)]
    pub number: u64,
    /// How long the runs may take together
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = super::doctor::duration)]
    pub budget: Duration,
    /// auto, cpu, cuda or cuda:0 [default: as the study's last run]
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<DevicePolicy>,
}

/// Trials that survived in the study, and fail when they are run again, before it is no matter of parameters.
const SURVIVORS: usize = 3;

pub(super) fn bisect(common: &Common, args: &BisectArgs) -> Result<Exit, Failure> {
    init_logging(common, None)?;
    let project = run::project(common, Wanted::Studies)?;
    let storage = run::storage(&project, common)?;
    let (spec, trial) = replay::find(&storage, &args.study, args.number, args.device.as_ref())?;
    let recorded = Recorded::of(&trial)?;
    replay::same_inputs(&storage, &args.study, &spec, &trial)?;
    let against = survivors(&storage, &args.study, &spec.space, &trial)?;
    let plan = replay::plan(&storage, spec.clone(), &trial, false)?;
    let tune = run::command_in(common, &project)?;
    let mut found = Found::new(&plan, &tune);
    let mut runs = Runs::new(plan, recorded, args.budget, !common.json && !common.quiet)?;
    let outcome = search(&mut runs, &spec.space, &trial, against, &mut found);
    let outcome = outcome.and_then(|outcome| match outcome {
        Outcome::Found | Outcome::NoParameter => {
            found.rows = rows::rows(&mut runs, &spec, &trial.params, found.rate)?;
            Ok(found.with_rows(outcome))
        }
        Outcome::Gone | Outcome::Otherwise | Outcome::Budget | Outcome::Stopped => Ok(outcome),
    });
    found.outcome = match outcome {
        Ok(outcome) => outcome,
        Err(Stop::Budget) => Outcome::Budget,
        Err(Stop::Signal) => Outcome::Stopped,
        Err(Stop::Failure(failure)) => return Err(failure),
    };
    runs.tell(&mut found);
    super::answer(common, &found)?;
    Ok(found.outcome.exit())
}

/// Points that the failing one is compared with: the nearest trials that ended by their own result, and last the point
/// of the defaults, which is another one.
fn survivors(
    storage: &Place,
    study: &str,
    space: &Space,
    failing: &FrozenTrial,
) -> Result<Vec<(Against, Params)>, Failure> {
    let store = Store::open_read_only(storage)?;
    let study = store::choose(&store, Some(study))?;
    let mut trials = store.trials(study.study_id)?;
    trials.retain(|t| {
        t.state == TrialState::Complete && t.params != failing.params && space.holds(&t.params)
    });
    let far = |t: &FrozenTrial| distance(space, &t.params, &failing.params);
    trials.sort_by(|a, b| far(a).total_cmp(&far(b)).then(a.number.cmp(&b.number)));
    trials.truncate(SURVIVORS);
    let of = |t: FrozenTrial| (Against::Trial(t.number), t.params);
    let mut points: Vec<(Against, Params)> = trials.into_iter().map(of).collect();
    let defaults = space.point(&Params::new());
    let another = defaults != failing.params && points.iter().all(|(_, p)| *p != defaults);
    if another && space.holds(&defaults) {
        points.push((Against::Defaults, defaults));
    }
    Ok(points)
}

/// Runs the failing point until its rate is known, then points between it and each of the others, until one of these
/// survives.
fn search(
    runs: &mut Runs,
    space: &Space,
    trial: &FrozenTrial,
    against: Vec<(Against, Params)>,
    found: &mut Found,
) -> Result<Outcome, Stop> {
    while found.rate.measured() == Measured::More && !runs.fails_otherwise(found.rate) {
        let failed = runs.fails(&format!("trial {}", trial.number), &trial.params, None)?;
        found.rate.add(failed);
    }
    if found.rate.failed == 0 {
        return Ok(match runs.others.is_empty() {
            true => Outcome::Gone,
            false => Outcome::Otherwise,
        });
    }
    for (which, survivor) in against {
        let between = Between::new(space, &survivor, &trial.params);
        let count = between.names().len();
        runs.say(&format!("compared with {which}, {count} values apart"));
        let mut points = Points {
            between,
            number: trial.number,
            failing: &trial.params,
            runs,
        };
        let answer = smallest(&mut points, count, found.rate);
        if matches!(answer.end, End::BaseFails) {
            found.fail_too.push(which);
            continue;
        }
        let named = |parts: &Parts| -> Vec<String> {
            let names = points.between.names();
            let named = parts.iter().filter_map(|part| names.get(*part));
            named.map(|name| (*name).to_owned()).collect()
        };
        let member = |name: String| Member::new(&name, &trial.params, &survivor);
        found.cause = named(&answer.parts).into_iter().map(member).collect();
        found.among = named(&answer.among);
        found.differ = count;
        found.against = Some(which);
        if let End::Stopped(stop) = answer.end {
            return Err(stop);
        }
        narrow(&mut points, space, &answer.parts, found)?;
        return Ok(Outcome::Found);
    }
    Ok(Outcome::NoParameter)
}

/// Finds from which values on the numbers of the cause fail; what is found counts although the budget ends.
fn narrow(
    points: &mut Points<'_>,
    space: &Space,
    cause: &Parts,
    found: &mut Found,
) -> Result<(), Stop> {
    let Some(point) = points.between.point(cause) else {
        return Ok(());
    };
    for member in &mut found.cause {
        let (Some((_, parameter)), Some(survives)) = (space.find(&member.name), &member.survives)
        else {
            continue;
        };
        let Some(domain) = space.active_domain(parameter, &point) else {
            continue;
        };
        let known = Threshold {
            fails: member.fails.clone(),
            survives: survives.clone(),
        };
        let mut with = |value: &Value| {
            let mut point = point.clone();
            point.insert(parameter.name.clone(), value.clone());
            match space.holds(&point) {
                true => points
                    .survives(&member.name, value, &point, found.rate)
                    .map(Some),
                false => Ok(None),
            }
        };
        let (known, stop) = match threshold(&domain, known, &mut with) {
            Ok(known) => (known, None),
            Err((known, stop)) => (known, Some(stop)),
        };
        member.fails = known.fails;
        member.survives = Some(known.survives);
        match stop {
            None => {}
            // The cause is known: only its threshold is less sharp.
            Some(Stop::Budget) => return Ok(()),
            Some(stop) => return Err(stop),
        }
    }
    Ok(())
}

/// Points between the survivor and the failing one, run in fresh processes.
struct Points<'a> {
    between: Between<'a>,
    number: u64,
    failing: &'a Params,
    runs: &'a mut Runs,
}

impl Oracle for Points<'_> {
    type Input = Params;
    type Stop = Stop;

    fn input(&self, parts: &Parts) -> Option<Params> {
        self.between.point(parts)
    }

    fn fails(&mut self, point: &Params) -> Result<bool, Stop> {
        let names = self.between.names();
        let alike = names
            .iter()
            .filter(|n| point.get(**n) == self.failing.get(**n));
        let alike: Vec<&str> = alike.copied().collect();
        let what = match alike.as_slice() {
            [] => "the survivor's values".to_owned(),
            few @ ([_] | [_, _]) => format!("with {} of trial {}", few.join(", "), self.number),
            many => format!(
                "with {} of {} values of trial {}",
                many.len(),
                names.len(),
                self.number
            ),
        };
        self.runs.fails(&what, point, None)
    }
}

impl Points<'_> {
    /// Whether a point with another value survives as many runs as exclude the fault.
    fn survives(
        &mut self,
        name: &str,
        value: &Value,
        point: &Params,
        rate: Rate,
    ) -> Result<bool, Stop> {
        let what = format!("{name} = {}", report::format::param(value));
        let failed = self.runs.ever_fails(&what, point, None, rate)?;
        Ok(!failed)
    }
}
