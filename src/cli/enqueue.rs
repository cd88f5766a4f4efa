//! `tune enqueue STUDY`: points to be tried next.

use std::path::Path;

use serde_json::Map;

use super::manage::{PATIENCE, warn};
use super::{Common, EnqueueArgs, run};
use crate::query;
use ask_tell::archive;
use config::places::Wanted;
use config::points::{check_points, point_of_words, points_of_lines, space_of_trials};
use config::{Problem, points::Given};
use files::bounded;
use messages::exit::{Exit, Failure};
use search::space::{Params, Space};
use search::study::carry::waiting;
use search::study::{FrozenTrial, TrialState};
use store::{Store, StudySummary};
use supervisor::patiently;

/// Longest list of points that is read, in bytes: of some 10,000 points.
const MOST: u64 = 4 << 20;

pub(super) fn enqueue(common: &Common, args: &EnqueueArgs) -> Result<Exit, Failure> {
    let project = run::project(common, Wanted::Studies)?;
    let storage = run::storage(&project, common)?;
    let mut problems = Vec::new();
    let given = given(args, &mut problems)?;
    // Nothing is opened for writing before all is found to be in order.
    let store = Store::open_read_only(&storage)?;
    let study = store::choose(&store, Some(&args.study))?;
    must_take_points(&store, &study)?;
    let trials = store.trials(study.study_id)?;
    let plan = match args.failed {
        true => Plan::of_failed(&trials),
        false => {
            let space = space(&store, &study, &trials)?;
            let points = check_points(&space, &given, problems)?;
            Plan::new(points, &trials, args.skip_existing)
        }
    };
    drop(store);
    let numbers = match plan.points.len() {
        0 => 0..0,
        _ => patiently(PATIENCE, &mut warn(common), || {
            let mut store = Store::open_existing(&storage)?;
            store.add_trials(study.study_id, &plan.trials())
        })?,
    };
    let store = Store::open_read_only(&storage)?;
    let enqueued = query::Enqueued {
        study: study.name.clone(),
        numbers,
        same: plan.same,
        skipped: plan.skipped,
        held: query::is_live(&store, &study)?,
    };
    if common.json {
        super::print_json(&enqueued.json())
    } else if common.quiet {
        Ok(Exit::Done)
    } else {
        super::print(&enqueued.text(&store, &run::command_in(common, &project)?)?)
    }
}

/// The points of the command line, or of the file.
fn given(args: &EnqueueArgs, problems: &mut Vec<Problem>) -> Result<Vec<Given>, Failure> {
    if args.failed {
        return Ok(Vec::new());
    }
    let Some(file) = &args.file else {
        return Ok(vec![point_of_words(&args.point, problems)]);
    };
    let (name, text) = if file.as_os_str() == "-" {
        let text = bounded::all(std::io::stdin().lock(), MOST);
        (Path::new("standard input"), text)
    } else {
        let open = bounded::open_stream(file);
        let text = open.and_then(|open| bounded::all(open, MOST));
        (file.as_path(), text)
    };
    let text = text
        .and_then(bounded::utf8)
        .map_err(|e| Failure::input(format!("{}: {e}", name.display())))?;
    let points = points_of_lines(&text, name, problems);
    if points.is_empty() && problems.is_empty() {
        let name = name.display();
        return Err(Failure::input(format!(
            "{name}: found no line, expected a JSON object a line"
        )));
    }
    Ok(points)
}

/// Whether a program asks for the study's points through `tune ask-tell`, and trains them itself.
pub(super) fn trained_elsewhere(store: &Store, study: &StudySummary) -> Result<bool, Failure> {
    let identity = store.identity(study.study_id)?;
    let kind = identity.as_ref().and_then(|i| i.get("task.kind")?.as_str());
    Ok(kind == Some(archive::KIND))
}

/// Nobody takes points from a study whose points a program asks for one by one.
fn must_take_points(store: &Store, study: &StudySummary) -> Result<(), Failure> {
    if !trained_elsewhere(store, study)? {
        return Ok(());
    }
    Err(Failure::input(format!(
        "study {:?}: its points are asked for by a program, through tune ask-tell, which takes \
         none that are enqueued; try the point in that program",
        study.name
    )))
}

/// What the study searches, as far as that is known.
fn space(store: &Store, study: &StudySummary, trials: &[FrozenTrial]) -> Result<Space, Failure> {
    let identity = store.identity(study.study_id)?;
    let mut space = identity.as_ref().map(config::space_of).unwrap_or_default();
    if space.parameters.is_empty() {
        space = space_of_trials(trials);
    }
    if space.parameters.is_empty() {
        return Err(Failure::input(format!(
            "study {:?}: nobody recorded what it searches, and no trial shows it; run its task \
             once, then enqueue",
            study.name
        )));
    }
    Ok(space)
}

/// Which points are added.
struct Plan {
    points: Vec<Params>,
    /// For points that are added: its place among them, and a trial with the same point.
    same: Vec<(u64, u64)>,
    /// For points that are left out: the trial with the same point.
    skipped: Vec<u64>,
}

impl Plan {
    /// The points as trials that wait.
    fn trials(&self) -> Vec<FrozenTrial> {
        let points = self.points.iter();
        points.map(|point| waiting(point, Map::new())).collect()
    }

    /// The points of the trials that failed, each once, but for those at which another trial did not fail, or waits.
    fn of_failed(trials: &[FrozenTrial]) -> Plan {
        let failed = |t: &&FrozenTrial| t.state == TrialState::Fail;
        let others: Vec<FrozenTrial> = trials.iter().filter(|t| !failed(t)).cloned().collect();
        let points = trials.iter().filter(failed).map(|t| t.params.clone());
        let points = points.collect();
        Plan::new(points, &others, true)
    }

    fn new(points: Vec<Params>, trials: &[FrozenTrial], skip: bool) -> Plan {
        let mut plan = Plan {
            points: Vec::new(),
            same: Vec::new(),
            skipped: Vec::new(),
        };
        for point in points {
            let there = trials
                .iter()
                .find(|t| asked(t) == point || t.params == point);
            if skip && plan.points.contains(&point) {
                continue;
            }
            match there {
                Some(trial) if skip => plan.skipped.push(trial.number),
                Some(trial) => plan.same.push((plan.points.len() as u64, trial.number)),
                None => {}
            }
            if !skip || there.is_none() {
                plan.points.push(point);
            }
        }
        plan
    }
}

/// What was asked for in a trial: the values fixed beforehand, else those it was given.
fn asked(trial: &FrozenTrial) -> Params {
    if trial.system_attrs.contains_key("fixed_params") {
        trial.fixed_params()
    } else {
        trial.params.clone()
    }
}
