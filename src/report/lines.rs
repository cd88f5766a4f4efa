//! Plain text: one line for each event worth one, and a summary. Times are UTC.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value as Json};

use super::chosen::{chosen_lines, selection_lines};
use super::format::{duration, param_lines, params_short, plural, value};
use super::outlet::{Outlet, Worth};
use super::output::Output;
use super::sink::Sink;
use super::{Best, Counts, Event, Fork, selection_json};
use config::Baseline;
use config::Objective;
use messages::exit::Exit;
use messages::number_from_json;
use protocol::AttemptId;
use search::space::Params;
use search::study::carry::LeftOut;
use search::study::pareto::Front;
use search::study::{Direction, Purpose, TrialState};

/// So many trials of a front are told at the end.
const FRONT: usize = 10;

/// Characters of the time in front of a line.
const TIME: usize = 10;

/// Characters of a finished trial's line where it is not for a terminal.
const WIDTH: usize = 160;

/// The parameters of a finished trial have so much room, however long the rest of its line is.
const LEAST: usize = 24;

/// Writes the narrator's lines as they come.
pub(super) struct Lines {
    narrator: Narrator,
    outlet: Outlet,
}

impl Lines {
    pub(super) fn new(study: &str, output: Output) -> io::Result<Lines> {
        Ok(Lines {
            narrator: Narrator::new(study, || WIDTH),
            outlet: Outlet::new(output, None, left_out(study))?,
        })
    }
}

/// The line that says how many lines are missing.
pub(super) fn left_out(study: &str) -> impl Fn(u64) -> String + Send + use<> {
    let study = study.to_owned();
    move |n| {
        format!(
            "{} warning: {} left out: nobody read them in time (`tune trials {study}` has every result)",
            messages::clock::now().strftime("%H:%M:%SZ"),
            match n {
                1 => "1 line was".to_owned(),
                n => format!("{n} lines were"),
            }
        )
    }
}

impl Sink for Lines {
    fn handle(&mut self, event: &Event, time: Timestamp) {
        let lines = self.narrator.lines(event, time);
        self.outlet.lines(&lines, Worth::Lasting);
    }
}

/// Turns events into lines; remembers what a line needs of earlier events.
pub(super) struct Narrator {
    study: String,
    metric: String,
    direction: Direction,
    goal: u64,
    baseline: Option<Baseline>,
    best: Option<(u64, f64)>,
    /// With several objectives: all of them, and the trials that none dominates.
    several: Option<(Vec<Objective>, Front<u64>)>,
    started: BTreeMap<u64, Timestamp>,
    /// The point of the defaults.
    defaults: Params,
    /// Characters of a line.
    width: fn() -> usize,
}

impl Narrator {
    pub(super) fn new(study: &str, width: fn() -> usize) -> Narrator {
        Narrator {
            width,
            defaults: Params::new(),
            study: study.to_owned(),
            metric: "value".to_owned(),
            direction: Direction::Maximize,
            goal: 0,
            baseline: None,
            best: None,
            several: None,
            started: BTreeMap::new(),
        }
    }

    /// `best 0.712 (trial 3), baseline 0.427`, as far as known.
    pub(super) fn standing(&self) -> String {
        let best = self
            .best
            .map(|(number, v)| format!("best {} (trial {number})", value(v)))
            .or_else(|| {
                Some(format!(
                    "front {}",
                    plural(self.several.as_ref()?.1.len() as u64, "trial")
                ))
            });
        let baseline = self
            .baseline
            .as_ref()
            .map(|b| format!("baseline {}", value(b.value)));
        best.into_iter()
            .chain(baseline)
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// The lines of an event, the first with the time of day.
    pub(super) fn lines(&mut self, event: &Event, time: Timestamp) -> Vec<String> {
        let mut lines = self.text(event, time);
        if let Some(first) = lines.first_mut() {
            *first = format!("{} {first}", time.strftime("%H:%M:%SZ"));
        }
        lines
    }

    fn text(&mut self, event: &Event, time: Timestamp) -> Vec<String> {
        match event {
            Event::RunStarted { .. } => self.run_started(event),
            Event::StudyForked(fork) => fork_lines(&self.study, fork),
            Event::TrialStarted { number, .. } => {
                self.started.entry(*number).or_insert(time);
                Vec::new()
            }
            Event::TrialFinished { .. } => vec![self.trial_finished(event, time)],
            Event::Fault {
                fault,
                worker,
                attempt,
                detail,
                verdict,
            } => vec![fault_line(fault, *worker, *attempt, detail, verdict)],
            Event::RepeatFinished { .. } => vec![self.repeat_finished(event)],
            Event::WinnerSelected { selection, trials } => {
                let selection = selection_json(selection, *trials);
                let trivial = self.baseline.as_ref().map(|b| b.value);
                let lines = selection_lines(&selection, &self.metric, trivial);
                let mut lines = lines.into_iter();
                let first = lines.next().into_iter();
                first.chain(lines.map(|line| format!("  {line}"))).collect()
            }
            Event::NewBest(best) => self.new_best(best).into_iter().collect(),
            Event::Warned { message } => vec![format!("warning: {message}")],
            Event::RunFinished { .. } => self.summary(event),
            Event::WorkerStarted { .. }
            | Event::TrialStepped { .. }
            | Event::RepeatStarted { .. }
            | Event::EpochFinished { .. }
            | Event::WorkerStopped { .. } => Vec::new(),
        }
    }

    fn run_started(&mut self, event: &Event) -> Vec<String> {
        let Event::RunStarted {
            trials,
            parallel,
            devices,
            metric,
            direction,
            baseline,
            counts,
            reclaimed,
            best,
            sampler,
            pruner,
            injected,
            further,
            front,
            defaults,
        } = event
        else {
            return Vec::new();
        };
        self.metric.clone_from(metric);
        self.defaults.clone_from(defaults);
        self.direction = *direction;
        self.goal = *trials;
        self.baseline.clone_from(baseline);
        self.best = best.as_ref().map(|b| (b.number, b.value));
        let mut asked = format!("{direction} {metric}");
        if !further.is_empty() {
            asked.extend(further.iter().map(|o| format!(", {o}")));
            let first = Objective {
                metric: metric.clone(),
                direction: *direction,
            };
            let objectives: Vec<Objective> = std::iter::once(first)
                .chain(further.iter().cloned())
                .collect();
            let mut standing = Front::new(objectives.iter().map(|o| o.direction).collect());
            for best in front {
                standing.offer(&best.values, best.number);
            }
            self.several = Some((objectives, standing));
        }
        let mut lines = vec![
            format!(
                "study {}: {asked}, {} of {} finished",
                self.study,
                counts.finished(),
                plural(*trials, "trial"),
            ),
            format!(
                "  {} in parallel on {}, sampler {sampler}, pruner {pruner}",
                parallel,
                devices.join(", "),
            ),
        ];
        if let Some(baseline) = baseline {
            lines.push(format!("  trivial answer: {}", self.trivial(baseline)));
        }
        if let Some((number, v)) = self.best {
            lines.push(format!(
                "  best so far: {metric} {} (trial {number})",
                value(v)
            ));
        }
        if !front.is_empty() {
            lines.push(format!(
                "  front so far: {}",
                plural(front.len() as u64, "trial")
            ));
        }
        if let Some(plan) = injected {
            lines.push(format!("  warning: faults are injected on purpose: {plan}"));
        }
        if *reclaimed > 0 {
            lines.push(format!(
                "  {} of an earlier run left unfinished: run again",
                plural(*reclaimed, "trial")
            ));
        }
        lines
    }

    fn trial_finished(&mut self, event: &Event, time: Timestamp) -> String {
        let Event::TrialFinished {
            number,
            state,
            value: result,
            values,
            params,
            attrs,
            counts,
        } = event
        else {
            return String::new();
        };
        let began = self.started.remove(number);
        let took = runtime(attrs).or_else(|| began.map(|t| since(t, time)));
        let mut line = format!(
            "[{}/{}] trial {number} {state}",
            counts.finished(),
            self.goal
        );
        if let Some(v) = result {
            line.push_str(&format!(" {} {}", self.metric, value(*v)));
            if *state == TrialState::Complete && self.improves(*v) {
                self.best = Some((*number, *v));
                line.push_str(" (best)");
            }
        }
        if let (true, Some((objectives, front))) = (values.len() > 1, &mut self.several) {
            line.push_str(&format!(" {}", named(objectives, values)));
            if *state == TrialState::Complete && front.offer(values, *number) {
                line.push_str(" (front)");
            }
        }
        if let Some(fault) = attrs.get("fault").and_then(Json::as_str) {
            line.push_str(&format!(" ({fault})"));
        }
        if let Some(why) = refused(attrs) {
            line.push_str(&format!(" ({why})"));
        }
        if let Some(took) = took {
            line.push_str(&format!(", {}", duration(took)));
        }
        if !params.is_empty() {
            let left = (self.width)().saturating_sub(TIME + line.chars().count() + 2);
            let params = params_short(params, &self.defaults, left.max(LEAST));
            line.push_str(&format!(", {params}"));
        }
        line
    }

    fn repeat_finished(&self, event: &Event) -> String {
        let Event::RepeatFinished {
            job,
            state,
            value: result,
            attrs,
            ..
        } = event
        else {
            return String::new();
        };
        let mut line = format!("{job} {state}");
        if let Some(v) = result {
            line.push_str(&format!(" {} {}", self.metric, value(*v)));
        }
        if let Some(fault) = attrs.get("fault").and_then(Json::as_str) {
            line.push_str(&format!(" ({fault})"));
        }
        if let Some(took) = runtime(attrs) {
            line.push_str(&format!(", {}", duration(took)));
        }
        line
    }

    fn improves(&self, v: f64) -> bool {
        self.best.is_none_or(|(_, b)| self.direction.better(v, b))
    }

    /// A line unless the trial's own has said it.
    fn new_best(&mut self, best: &Best) -> Option<String> {
        if self.best.is_some_and(|(number, _)| number == best.number) {
            return None;
        }
        if let Some((objectives, front)) = &mut self.several {
            if front.items().any(|number| *number == best.number) {
                return None;
            }
            front.offer(&best.values, best.number);
            let values = named(objectives, &best.values);
            return Some(format!(
                "new on the front: {values} (trial {})",
                best.number
            ));
        }
        self.best = Some((best.number, best.value));
        Some(format!(
            "new best: {} {} (trial {})",
            self.metric,
            value(best.value),
            best.number
        ))
    }

    fn trivial(&self, baseline: &Baseline) -> String {
        format!(
            "{} {}: {}",
            self.metric,
            value(baseline.value),
            baseline.what
        )
    }

    fn summary(&self, event: &Event) -> Vec<String> {
        let Event::RunFinished {
            exit,
            reason,
            counts,
            best,
            front,
            baseline,
            chosen,
        } = event
        else {
            return Vec::new();
        };
        let mut lines = vec![
            format!("study {} ended: {reason}", self.study),
            format!("  {}", self.counted(counts)),
        ];
        match best {
            Some(best) => lines.extend(self.best_lines(best)),
            None if !front.is_empty() => lines.extend(self.front_lines(front)),
            None => lines.push("  no trial has a value yet".to_owned()),
        }
        if let Some(baseline) = baseline {
            let mut all = best.iter().chain(front);
            let beaten = all.any(|b| self.direction.better(b.value, baseline.value));
            lines.push(if beaten {
                format!("  trivial answer: {}", self.trivial(baseline))
            } else {
                format!(
                    "  warning: no trial beats the trivial answer ({})",
                    self.trivial(baseline)
                )
            });
        }
        let number = best.as_ref().map(|b| b.number);
        let trivial = baseline.as_ref().map(|b| b.value);
        let chosen = chosen_lines(chosen, &self.metric, number, trivial);
        lines.extend(chosen.into_iter().map(|line| format!("  {line}")));
        lines.extend(resume_hint(*exit).map(|hint| format!("  {hint}")));
        lines
    }

    fn counted(&self, counts: &Counts) -> String {
        let mut text = format!(
            "{} of {} finished ({} complete, {} pruned)",
            counts.finished(),
            plural(self.goal, "trial"),
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
            lines.push(format!("    and {others} more: `tune best {}`", self.study));
        }
        lines
    }

    fn best_lines(&self, best: &Best) -> Vec<String> {
        let mut lines = vec![format!(
            "  best: {} {} (trial {})",
            self.metric,
            value(best.value),
            best.number
        )];
        if best.adopted {
            lines.push("    adopted, with parameters that its study cannot hold:".to_owned());
        }
        lines.extend(param_lines(&best.params, "    "));
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

fn fault_line(
    fault: &str,
    worker: u64,
    attempt: Option<AttemptId>,
    detail: &str,
    verdict: &str,
) -> String {
    let whom = match attempt {
        Some(a) => format!("{}, attempt {}, worker {worker}", a.job(), a.attempt),
        None => format!("worker {worker}"),
    };
    let mut line = format!("fault: {fault} ({whom})");
    // The whole detail stands in the attempt's log and in --json.
    if let Some(first) = detail.lines().next().filter(|l| !l.is_empty()) {
        line.push_str(&format!(": {first}"));
    }
    if let Some(attempt) = attempt {
        let what = match attempt.purpose {
            Purpose::Search => "the trial",
            Purpose::Repeat(_) => "the repeat",
            Purpose::Test => "the test",
        };
        line.push_str(&match verdict {
            "again" => format!(" -> {what} runs again"),
            "suspect" => format!(" -> {what} runs again, as a suspect"),
            "pruned" if !attempt.job().searches() => format!(" -> {what} fails"),
            "pruned" => format!(" -> {what} is pruned"),
            "fail" => format!(" -> {what} fails"),
            _ => String::new(),
        });
    }
    line
}

/// So many reasons are told; `--json` has them all.
const REASONS: usize = 5;

fn fork_lines(study: &str, fork: &Fork) -> Vec<String> {
    let carried = &fork.carried;
    let mut lines = vec![format!(
        "study {study} made from {} ({})",
        fork.from.join(", "),
        fork.by
    )];
    lines.extend(fork.differences.iter().map(|d| format!("  {d}")));
    let fit = match (carried.copied, carried.enqueued) {
        (0, 0) => "no trial fits: the search begins anew".to_owned(),
        (0, 1) => "values are not comparable: the best point that fits is tried again".to_owned(),
        (0, n) => {
            format!("values are not comparable: the best {n} points that fit are tried again")
        }
        (1, _) => "1 trial that fits is copied with its result".to_owned(),
        (n, _) => format!("{n} trials that fit are copied with their results"),
    };
    lines.push(format!("  {fit}"));
    lines.extend(reasons(&carried.left_out, |n| {
        format!("{} left out", plural(n, "trial"))
    }));
    match carried.waiting {
        0 => {}
        1 => lines.push("  1 point that waited waits here".to_owned()),
        n => lines.push(format!("  {n} points that waited wait here")),
    }
    lines.extend(reasons(&carried.waiting_left_out, |n| match n {
        1 => "1 point that waited does not fit".to_owned(),
        n => format!("{n} points that waited do not fit"),
    }));
    if carried.without_result > 0 {
        let without = plural(carried.without_result, "trial");
        lines.push(format!("  left behind, without a usable result: {without}"));
    }
    lines
}

/// A heading with the sum, and the reasons below it.
fn reasons(left_out: &[LeftOut], heading: impl FnOnce(u64) -> String) -> Vec<String> {
    let total: u64 = left_out.iter().map(|l| l.trials).sum();
    if total == 0 {
        return Vec::new();
    }
    let mut lines = vec![format!("  {}:", heading(total))];
    for left in left_out.iter().take(REASONS) {
        lines.push(format!(
            "    {} for {}: {}",
            left.trials, left.key, left.why
        ));
    }
    if left_out.len() > REASONS {
        let others = left_out.len() - REASONS;
        lines.push(format!("    {}", plural(others as u64, "other reason")));
    }
    lines
}

fn resume_hint(exit: u8) -> Option<&'static str> {
    let is = |e: Exit| e.code() == exit;
    if is(Exit::Budget) {
        Some("to continue: run the same command again; it gets a new time budget")
    } else if is(Exit::Stopped) {
        Some("to continue: run the same command again")
    } else if is(Exit::Breaker) {
        Some("to continue: remove the cause named above, then run the same command again")
    } else {
        None
    }
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
