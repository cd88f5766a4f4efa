//! `tune bisect STUDY N`: the smallest cause of a trial's failure.

mod program_rows;
mod rows;
mod runs;
mod told;

use std::time::Duration;

use clap::Args;

use super::{Common, replay, run};
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
    let project = run::project(common, Wanted::Studies)?;
    let storage = run::storage(&project, common)?;
    let (spec, trial) = replay::find(&storage, &args.study, args.number, args.device.as_ref())?;
    let recorded = Recorded::of(&trial)?;
    replay::same_inputs(&storage, &args.study, &spec, &trial)?;
    let known = Survivors::of(&storage, &args.study, &spec.space, &trial)?;
    let plan = replay::plan(&storage, spec.clone(), &trial, false)?;
    let tune = run::command_in(common, &project)?;
    let mut found = Found::new(&plan, &tune);
    let mut runs = Runs::new(plan, recorded, args.budget, common.loud())?;
    let outcome = Search {
        runs: &mut runs,
        space: &spec.space,
        trial: &trial,
        found: &mut found,
    }
    .run(&known);
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

/// Points that the failing one may be compared with.
struct Survivors {
    /// Trials that ended by their own result, the nearest first.
    trials: Vec<(Against, Params)>,
    /// The point of the defaults, where it is another one.
    defaults: Option<Params>,
}

impl Survivors {
    fn of(
        storage: &Place,
        study: &str,
        space: &Space,
        failing: &FrozenTrial,
    ) -> Result<Survivors, Failure> {
        let store = Store::open_read_only(storage)?;
        let study = store::choose(&store, Some(study))?;
        let mut trials = store.trials(study.study_id)?;
        trials.retain(|t| {
            t.state == TrialState::Complete && t.params != failing.params && space.holds(&t.params)
        });
        let far = |t: &FrozenTrial| distance(space, &t.params, &failing.params);
        trials.sort_by(|a, b| far(a).total_cmp(&far(b)).then(a.number.cmp(&b.number)));
        let of = |t: FrozenTrial| (Against::Trial(t.number), t.params);
        let defaults = space.point(&Params::new());
        let another = defaults != failing.params && space.holds(&defaults);
        Ok(Survivors {
            trials: trials.into_iter().map(of).collect(),
            defaults: another.then_some(defaults),
        })
    }

    /// What is compared first: the nearest trials, and last the defaults.
    fn nearest(&self) -> Vec<(Against, &Params)> {
        let near = self.trials.iter().take(SURVIVORS);
        let mut nearest: Vec<_> = near.map(|(which, point)| (*which, point)).collect();
        if let Some(defaults) = &self.defaults
            && nearest.iter().all(|(_, point)| *point != defaults)
        {
            nearest.push((Against::Defaults, defaults));
        }
        nearest
    }
}

/// Runs the failing point until its rate is known, then points between it and others.
struct Search<'a> {
    runs: &'a mut Runs,
    space: &'a Space,
    trial: &'a FrozenTrial,
    found: &'a mut Found,
}

impl Search<'_> {
    fn run(&mut self, known: &Survivors) -> Result<Outcome, Stop> {
        let Search { runs, trial, .. } = self;
        let rate = &mut self.found.rate;
        while rate.measured() == Measured::More && !runs.fails_otherwise(*rate) {
            let failed = runs.fails(&format!("trial {}", trial.number), &trial.params, None)?;
            rate.add(failed);
        }
        if rate.failed == 0 {
            return Ok(match runs.others.is_empty() {
                true => Outcome::Gone,
                false => Outcome::Otherwise,
            });
        }
        for (which, survivor) in known.nearest() {
            if self.compare(which, survivor)? {
                self.complete(known)?;
                return Ok(Outcome::Found);
            }
        }
        Ok(Outcome::NoParameter)
    }

    /// What a trial shares with its nearest survivor may belong to the cause, too. Then another trial has all of what
    /// was found, and survived: in what the failing one differs from that is the rest.
    fn complete(&mut self, known: &Survivors) -> Result<(), Stop> {
        let mut tried: Vec<Against> = self.found.against.into_iter().collect();
        tried.extend(&self.found.fail_too);
        for _ in 0..SURVIVORS {
            let contradicts = |(which, point): &&(Against, Params)| {
                !tried.contains(which) && self.found.cause.iter().all(|member| member.holds(point))
            };
            let Some((which, survivor)) = known.trials.iter().find(contradicts) else {
                return Ok(());
            };
            tried.push(*which);
            self.compare(*which, survivor)?;
        }
        Ok(())
    }

    /// Looks for what makes a survivor fail, and adds it to the cause; whether it is a survivor.
    fn compare(&mut self, which: Against, survivor: &Params) -> Result<bool, Stop> {
        let Search { space, trial, .. } = *self;
        let between = Between::new(space, survivor, &trial.params);
        let count = between.names().len();
        let apart = report::format::plural(count as u64, "value");
        self.runs
            .say(&format!("compared with {which}, {apart} apart"));
        let mut points = Points {
            between,
            number: trial.number,
            failing: &trial.params,
            runs: self.runs,
        };
        let answer = smallest(&mut points, count, self.found.rate);
        if matches!(answer.end, End::BaseFails) {
            self.found.fail_too.push(which);
            return Ok(false);
        }
        let named = |parts: &Parts| -> Vec<String> {
            let names = points.between.names();
            let named = parts.iter().filter_map(|part| names.get(*part));
            named.map(|name| (*name).to_owned()).collect()
        };
        let member = |name: String| Member::new(&name, &trial.params, survivor);
        let mut members: Vec<Member> = named(&answer.parts).into_iter().map(member).collect();
        self.found.among = named(&answer.among);
        // One that came to no end contradicts nothing that is known.
        if self.found.against.is_none() || !matches!(answer.end, End::Stopped(_)) {
            self.found.compared(which, count);
        }
        let ended = match answer.end {
            End::Stopped(stop) => Err(stop),
            End::Found | End::BaseFails => narrow(
                &mut points,
                space,
                &answer.parts,
                &mut members,
                self.found.rate,
            ),
        };
        self.found.add(members);
        ended.map(|()| true)
    }
}

/// Finds from which values on the numbers of the cause fail; what is found counts although the budget ends.
fn narrow(
    points: &mut Points<'_>,
    space: &Space,
    cause: &Parts,
    members: &mut [Member],
    rate: Rate,
) -> Result<(), Stop> {
    let Some(point) = points.between.point(cause) else {
        return Ok(());
    };
    for member in members {
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
                true => points.survives(&member.name, value, &point, rate).map(Some),
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
