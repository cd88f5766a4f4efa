//! One line for each event worth one, and a summary. Times are UTC.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value as Json};

use super::format::{duration, finished_of, param_lines, params_short, plural, value};
use super::{About, SlotGivenUp, StopRequested, TOLD, failure_lines, no_value};
use super::{Best, Counts, Event, Fault, RepeatFinished, RunFinished, RunStarted, TrialFinished};
use config::{Baseline, Objective};
use fault::FaultKind;
use messages::exit::Exit;
use messages::number_from_json;
use search::space::Params;
use search::study::pareto::Front;
use search::study::{Direction, Purpose, TrialState};

/// So many trials of a front are told at the end.
const FRONT: usize = 10;

/// Characters of the time in front of a line.
const TIME: usize = 10;

/// The parameters of a finished trial have so much room, however long the rest of its line is.
const LEAST: usize = 24;

/// Turns events into lines; remembers what a line needs of earlier events.
pub(super) struct Narrator {
    about: About,
    metric: String,
    direction: Direction,
    goal: u64,
    database: String,
    baseline: Option<Baseline>,
    best: Option<(u64, f64)>,
    /// With several objectives: all of them, and the trials that none dominates.
    several: Option<(Vec<Objective>, Front<u64>)>,
    started: BTreeMap<u64, Timestamp>,
    /// Trials of this run that were pruned, those of them that diverged, and the latest of these.
    pruned: (u64, u64, u64),
    /// The first lines of a run that may have nothing to do, until something happens.
    held: Vec<String>,
    /// The point of the defaults.
    defaults: Params,
    /// Characters of a line.
    width: fn() -> usize,
}

impl Narrator {
    pub(super) fn new(about: &About, width: fn() -> usize) -> Narrator {
        Narrator {
            width,
            defaults: Params::new(),
            about: about.clone(),
            metric: "value".to_owned(),
            direction: Direction::Maximize,
            goal: 0,
            database: String::new(),
            baseline: None,
            best: None,
            several: None,
            started: BTreeMap::new(),
            pruned: (0, 0, 0),
            held: Vec::new(),
        }
    }

    /// `best 0.712 (trial 3)`; empty before the first value.
    pub(super) fn best_so_far(&self) -> String {
        let front = self.several.as_ref().map(|(_, front)| front.len() as u64);
        match (self.best, front) {
            (Some((number, v)), _) => format!("best {} (trial {number})", value(v)),
            (None, Some(trials)) => format!("front {}", plural(trials, "trial")),
            (None, None) => String::new(),
        }
    }

    /// `trivial answer 0.427`; empty where there is none.
    pub(super) fn trivial_so_far(&self) -> String {
        let baseline = self.baseline.as_ref();
        baseline.map_or_else(String::new, |b| {
            format!("trivial answer {}", value(b.value))
        })
    }

    /// The lines of an event as the run's log has them: the log has its own times.
    pub(super) fn untimed(&mut self, event: &Event, time: Timestamp) -> Vec<String> {
        self.text(event, time)
    }

    /// The lines of an event, the first with the time of day.
    pub(super) fn lines(&mut self, event: &Event, time: Timestamp) -> Vec<String> {
        let mut lines = self.text(event, time);
        if let Some(first) = lines.first_mut() {
            *first = format!("{} {first}", time.strftime("%H:%M:%SZ"));
        }
        // Cron asks every night: a search that has ended already is one line.
        if let Event::RunStarted(run) = event
            && may_have_nothing_to_do(run)
        {
            self.held = lines;
            return Vec::new();
        }
        if let Event::RunFinished(run) = event
            && run.exit == Exit::Done.code()
            && !self.held.is_empty()
        {
            self.held.clear();
            return vec![self.nothing_to_do(run)];
        }
        if !matches!(event, Event::Warned { .. }) {
            lines.splice(0..0, self.held.drain(..));
        }
        lines
    }

    /// `study t: 10 of 10 trials finished, best loss 0.1 (trial 3); database: /p/tune.db`.
    fn nothing_to_do(&self, run: &RunFinished) -> String {
        let finished = run.counts.finished();
        let mut line = format!(
            "study {}: {}",
            self.about.study,
            finished_of(finished, self.goal)
        );
        if let Some((number, v)) = self.best {
            line += &format!(", best {} {} (trial {number})", self.metric, value(v));
        } else if let Some((_, front)) = &self.several {
            line += &format!(", front {}", plural(front.len() as u64, "trial"));
        }
        let winner = run
            .chosen
            .selection
            .as_ref()
            .and_then(|s| s.winner.as_ref());
        if let Some(winner) = winner {
            let mean = winner
                .estimate
                .map_or_else(String::new, |e| format!(", mean {}", value(e.mean)));
            line += &format!(", winner by repeats trial {}{mean}", winner.number);
        }
        if finished < self.goal {
            line += &format!("; {}", run.reason);
        }
        line + &format!("; database: {}", self.database)
    }

    fn text(&mut self, event: &Event, time: Timestamp) -> Vec<String> {
        match event {
            Event::RunStarted(run) => self.run_started(run),
            Event::StudyForked(fork) => fork.lines(&self.about.study),
            Event::TrialStarted { number, .. } => {
                self.started.entry(*number).or_insert(time);
                Vec::new()
            }
            Event::TrialFinished(trial) => vec![self.trial_finished(trial, time)],
            Event::Fault(fault) => vec![fault_line(fault)],
            Event::RepeatFinished(repeat) => vec![self.repeat_finished(repeat)],
            Event::WinnerSelected(selected) => {
                let trivial = self.baseline.as_ref().map(|b| b.value);
                let mut lines = selected.lines(&self.metric, trivial);
                lines.iter_mut().skip(1).for_each(|l| l.insert_str(0, "  "));
                lines
            }
            Event::NewBest(best) => self.new_best(best).into_iter().collect(),
            Event::StopRequested(stop) => vec![stop_line(stop)],
            Event::SearchEnded(end) => vec![format!("the search is over: {}", end.reason)],
            Event::Warned { message } => vec![format!("warning: {message}")],
            Event::RunFinished(run) => self.summary(run),
            Event::WorkerStarted { .. }
            | Event::TrialStepped { .. }
            | Event::GpuSampled(_)
            | Event::RepeatStarted { .. }
            | Event::EpochFinished { .. }
            | Event::WorkerStopped { .. } => Vec::new(),
        }
    }

    fn run_started(&mut self, run: &RunStarted) -> Vec<String> {
        self.remember(run);
        let asked = match run.objectives.as_slice() {
            [] => run.objective.to_string(),
            several => several
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(", "),
        };
        let mut lines = vec![
            format!(
                "study {}: {asked}, {}",
                self.about.study,
                finished_of(run.counts.finished(), run.trials),
            ),
            format!(
                "  {} in parallel on {}, sampler {}, pruner {}",
                run.parallel,
                run.devices.join(", "),
                run.sampler,
                run.pruner,
            ),
            format!("  database: {}", run.database),
        ];
        if let Some(baseline) = &run.baseline {
            lines.push(format!("  trivial answer: {}", self.trivial(baseline)));
        }
        if let Some((number, v)) = self.best {
            let best = value(v);
            lines.push(format!(
                "  best so far: {} {best} (trial {number})",
                self.metric
            ));
        }
        if let Some(front) = run.front.as_ref().filter(|front| !front.is_empty()) {
            let trials = plural(front.len() as u64, "trial");
            lines.push(format!("  front so far: {trials}"));
        }
        if let Some(plan) = &run.injected {
            lines.push(format!("  warning: faults are injected on purpose: {plan}"));
        }
        if run.reclaimed > 0 {
            lines.push(format!(
                "  {} of an earlier run left unfinished: run again",
                plural(run.reclaimed, "trial")
            ));
        }
        lines
    }

    /// Keeps what later lines need.
    fn remember(&mut self, run: &RunStarted) {
        self.metric.clone_from(&run.objective.metric);
        self.defaults.clone_from(&run.defaults);
        self.direction = run.objective.direction;
        self.goal = run.trials;
        self.database.clone_from(&run.database);
        self.baseline.clone_from(&run.baseline);
        self.best = run.best.as_ref().and_then(|b| Some((b.number, b.value?)));
        if let Some(front) = &run.front {
            let directions = run.objectives.iter().map(|o| o.direction);
            let mut standing = Front::new(directions.collect());
            for best in front {
                standing.offer(&best.values, best.number);
            }
            self.several = Some((run.objectives.clone(), standing));
        }
    }

    fn trial_finished(&mut self, trial: &TrialFinished, time: Timestamp) -> String {
        let began = self.started.remove(&trial.number);
        let took = runtime(&trial.attrs).or_else(|| began.map(|t| since(t, time)));
        if trial.state == TrialState::Pruned {
            let (pruned, diverged, latest) = &mut self.pruned;
            *pruned += 1;
            if trial.attrs.get("fault").and_then(Json::as_str) == Some(FaultKind::Diverged.word()) {
                *diverged += 1;
                *latest = trial.number;
            }
        }
        let why = refused(&trial.attrs);
        // Only a trial that counts towards the goal says how many there are.
        let mut line = match trial.state != TrialState::Fail && why.is_none() {
            true => match trial.counts.finished() {
                finished if finished > self.goal => format!("[{finished}, goal {}] ", self.goal),
                finished => format!("[{finished}/{}] ", self.goal),
            },
            false => String::new(),
        };
        line += &format!("trial {} {}", trial.number, trial.state);
        if let Some(v) = trial.value {
            line += &format!(" {} {}", self.metric, value(v));
            if trial.leads {
                line += " (best)";
            }
        }
        // Other nodes may have had a better one meanwhile.
        self.best = trial.best.or(self.best);
        if let (true, Some((objectives, front))) = (trial.values.len() > 1, &mut self.several) {
            line += &format!(" {}", named(objectives, &trial.values));
            if trial.leads {
                front.offer(&trial.values, trial.number);
                line += " (front)";
            }
        }
        line += &fault_in(&trial.attrs);
        if let Some(why) = why {
            line += &format!(" ({why})");
        }
        if let Some(took) = took {
            line += &format!(", {}", duration(took));
        }
        if !trial.params.is_empty() {
            let left = (self.width)().saturating_sub(TIME + line.chars().count() + 2);
            let params = params_short(&trial.params, &self.defaults, left.max(LEAST));
            line += &format!(", {params}");
        }
        line
    }

    fn repeat_finished(&self, repeat: &RepeatFinished) -> String {
        let mut line = format!("{} {}", repeat.job, repeat.state);
        if let Some(v) = repeat.value {
            line += &format!(" {} {}", self.metric, value(v));
        }
        line += &fault_in(&repeat.attrs);
        if let Some(took) = runtime(&repeat.attrs) {
            line += &format!(", {}", duration(took));
        }
        line
    }

    /// A line unless the trial's own has said it.
    fn new_best(&mut self, best: &Best) -> Option<String> {
        let number = best.number;
        if self.best.is_some_and(|(known, _)| known == number) {
            return None;
        }
        if let Some((objectives, front)) = &mut self.several {
            if front.items().any(|known| *known == number) {
                return None;
            }
            front.offer(&best.values, number);
            let values = named(objectives, &best.values);
            return Some(format!("new on the front: {values} (trial {number})"));
        }
        let v = best.value?;
        self.best = Some((number, v));
        let metric = &self.metric;
        Some(format!("new best: {metric} {} (trial {number})", value(v)))
    }

    fn trivial(&self, baseline: &Baseline) -> String {
        let Baseline { value: v, what } = baseline;
        format!("{} {}: {what}", self.metric, value(*v))
    }

    fn summary(&self, run: &RunFinished) -> Vec<String> {
        let mut lines = vec![
            format!("study {} ended: {}", self.about.study, run.reason),
            format!("  {}", self.counted(&run.counts)),
        ];
        match (&run.best, &run.front) {
            (Some(best), _) => lines.extend(self.best_lines(best)),
            (None, Some(front)) => lines.extend(self.front_lines(front)),
            (None, None) if self.pruned.0 > 0 => {
                let (pruned, diverged, latest) = self.pruned;
                let why = no_value(&self.about, pruned, diverged, latest);
                lines.push(format!("  warning: {why}"));
            }
            (None, None) => lines.push("  no trial is complete yet".to_owned()),
        }
        if let Some(baseline) = &run.baseline {
            let mut leading = run.best.iter().chain(run.front.iter().flatten()).peekable();
            let beats = |v: &f64| self.direction.better(*v, baseline.value);
            let trivial = self.trivial(baseline);
            let none = leading.peek().is_none();
            lines.push(
                match none || leading.any(|b| b.values.first().is_some_and(beats)) {
                    true => format!("  trivial answer: {trivial}"),
                    false => format!("  warning: no trial beats the trivial answer ({trivial})"),
                },
            );
        }
        if !run.failures.is_empty() {
            lines.push("  why trials failed in this run:".to_owned());
            let why = failure_lines(&self.about, &run.failures, TOLD);
            lines.extend(why.into_iter().map(|line| format!("    {line}")));
        }
        for given_up in &run.slots_given_up {
            let SlotGivenUp {
                slot,
                device,
                reason,
            } = given_up;
            lines.push(format!("  slot {slot} on {device} was given up: {reason}"));
        }
        let number = run.best.as_ref().map(|b| b.number);
        let trivial = run.baseline.as_ref().map(|b| b.value);
        let chosen = run.chosen.lines(&self.metric, number, trivial);
        lines.extend(chosen.into_iter().map(|line| format!("  {line}")));
        let stale = run.chosen.selection.as_ref();
        let stale = stale.and_then(|s| s.stale_line(run.counts.finished()));
        lines.extend(stale.map(|line| format!("  {line}")));
        lines.push(format!("  database: {}", self.database));
        let hint = Exit::of_code(run.exit).and_then(|exit| exit.row().resume);
        lines.extend(hint.map(|hint| format!("  {hint}")));
        lines
    }

    fn counted(&self, counts: &Counts) -> String {
        let mut text = format!(
            "{} ({} complete, {} pruned)",
            finished_of(counts.finished(), self.goal),
            counts.complete,
            counts.pruned
        );
        for (n, what) in [
            (counts.fail, "failed"),
            (counts.infeasible, "refused"),
            (counts.running, "unfinished"),
        ] {
            if n > 0 {
                text.push_str(&format!(", {n} {what}"));
            }
        }
        text
    }

    fn front_lines(&self, front: &[Best]) -> Vec<String> {
        let Some((objectives, _)) = &self.several else {
            return Vec::new();
        };
        let count = plural(front.len() as u64, "trial");
        let mut lines = vec![format!(
            "  front: {count} that none beats in every objective"
        )];
        for best in front.iter().take(FRONT) {
            let values = named(objectives, &best.values);
            lines.push(format!("    trial {}: {values}", best.number));
        }
        if front.len() > FRONT {
            let others = front.len() - FRONT;
            lines.push(format!(
                "    and {others} more: `tune best {}`",
                self.about.study
            ));
        }
        lines
    }

    fn best_lines(&self, best: &Best) -> Vec<String> {
        let value = best.value.map_or_else(String::new, value);
        let mut lines = vec![format!(
            "  best: {} {value} (trial {})",
            self.metric, best.number
        )];
        if best.adopted_params.is_some() {
            lines.push("    adopted, with parameters that its study cannot hold:".to_owned());
        }
        lines.extend(param_lines(best.trained_with(), "    "));
        lines
    }
}

/// `loss 0.31, cost 1.5`.
fn named(objectives: &[Objective], values: &[f64]) -> String {
    let named = objectives.iter().zip(values);
    let texts: Vec<String> = named
        .map(|(o, v)| format!("{} {}", o.metric, value(*v)))
        .collect();
    texts.join(", ")
}

/// `the time budget is used up: waiting for trials 3 and 4, about 2 min; ...`
fn stop_line(stop: &StopRequested) -> String {
    let time =
        |seconds: f64| duration(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
    let long = match stop.expected_s {
        Some(expected) => format!("about {}, at most {}", time(expected), time(stop.most_s)),
        None => format!("at most {}", time(stop.most_s)),
    };
    let searches = stop.waits_for.iter().all(|job| job.searches());
    let whom = match stop.waits_for.as_slice() {
        several @ [_, _, ..] if searches => {
            format!(
                "trials {}",
                all_of(several.iter().map(|job| job.number.to_string()))
            )
        }
        jobs => all_of(jobs.iter().map(ToString::to_string)),
    };
    let reason = &stop.reason;
    let how = match stop.by_signal {
        true => "Ctrl-C again puts back what still runs",
        false => "Ctrl-C puts back what still runs at once",
    };
    format!("{reason}: waiting for {whom}, {long}; {how}")
}

/// Whether there may be nothing left to search: the goal is reached, or a grid that has been begun may be through.
fn may_have_nothing_to_do(run: &RunStarted) -> bool {
    let finished = run.counts.finished();
    let through = finished >= run.trials || finished > 0 && run.sampler == "grid";
    through && run.reclaimed == 0
}

/// `3, 4 and 9`.
fn all_of(words: impl Iterator<Item = String>) -> String {
    let words: Vec<String> = words.collect();
    match words.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [before @ .., last] => format!("{} and {last}", before.join(", ")),
    }
}

fn fault_line(fault: &Fault) -> String {
    let worker = fault.worker;
    let whom = match fault.attempt {
        Some(a) => format!("{}, attempt {}, worker {worker}", a.job(), a.attempt),
        None => format!("worker {worker}"),
    };
    let mut line = format!("fault: {} ({whom})", fault.fault);
    // The whole detail stands in the attempt's log and in --json.
    if let Some(first) = fault.detail.lines().next().filter(|l| !l.is_empty()) {
        line += &format!(": {first}");
    }
    if let Some(attempt) = fault.attempt {
        let what = match attempt.purpose {
            Purpose::Search => "the trial",
            Purpose::Repeat(_) => "the repeat",
            Purpose::Test => "the test",
        };
        line += &match fault.verdict.as_str() {
            "again" => format!(" -> {what} runs again"),
            "suspect" => format!(" -> {what} runs again, as a suspect"),
            "pruned" if !attempt.job().searches() => format!(" -> {what} fails"),
            "pruned" => format!(" -> {what} is pruned"),
            "fail" => format!(" -> {what} fails"),
            _ => String::new(),
        };
    }
    line
}

/// ` (oom)`; empty without a fault.
fn fault_in(attrs: &Map<String, Json>) -> String {
    let fault = attrs.get("fault").and_then(Json::as_str);
    fault.map_or_else(String::new, |fault| format!(" ({fault})"))
}

/// Why a trial was never started.
fn refused(attrs: &Map<String, Json>) -> Option<String> {
    if attrs.get("infeasible") != Some(&Json::Bool(true)) {
        return None;
    }
    let why = attrs.get("error_msg").and_then(Json::as_str);
    Some(match why.and_then(|w| w.lines().next()) {
        Some(why) => format!("infeasible: {why}"),
        None => "infeasible".to_owned(),
    })
}

fn runtime(attrs: &Map<String, Json>) -> Option<Duration> {
    let seconds = attrs.get("runtime_s").and_then(number_from_json)?;
    Duration::try_from_secs_f64(seconds).ok()
}

pub(super) fn since(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then)).unwrap_or(Duration::ZERO)
}
