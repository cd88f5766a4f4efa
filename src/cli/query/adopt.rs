//! `tune adopt`: what a history from elsewhere is worth, and what became of it.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::format::{self, printable};
use adopt::compare::{ParameterComparison, Relation};
use adopt::faults::{Faults, Streak};
use adopt::fit::Obstacle;
use adopt::foreign::Origin;
use adopt::{Assessment, SignsOfUse, Verdict};
use fault::FaultKind;
use report::format::{plural, value};
use search::importance::{Effect, FEWEST};
use search::study::Direction;

/// A file that was written so recently may still be written.
const RECENTLY: Duration = Duration::from_secs(120);

/// A heartbeat this old, in seconds, is one of a program that is gone. Optuna's own limit is twice
/// the interval that the program has chosen, which the file does not tell.
const STALE: f64 = 300.0;

/// Everything that is told.
#[derive(Debug)]
pub struct Adoption<'a> {
    /// The file, as it was named.
    pub file: String,
    /// The study's name there.
    pub study: String,
    /// Its name in the project.
    pub name: String,
    /// The task.
    pub task: String,
    /// The objective's metric.
    pub metric: &'a str,
    /// Its direction.
    pub direction: Direction,
    /// Optuna's version, as the file has it.
    pub optuna: Option<String>,
    /// Where the study comes from.
    pub origin: Origin,
    /// What was found.
    pub assessment: &'a Assessment,
    /// The conclusion.
    pub verdict: Verdict,
    /// What was seen of the program that writes the file.
    pub alive: Option<String>,
}

/// Why the program that left trials RUNNING may still be at work; `None`: nothing speaks for it.
/// `last` is the latest heartbeat (naive UTC) of a trial that is RUNNING.
pub fn alive(signs: &SignsOfUse, last: Option<&str>, now: jiff::Timestamp) -> Option<String> {
    if let Some((pid, name)) = signs.open_in.first() {
        return Some(format!(
            "process {pid} ({}) has the file open",
            printable(name)
        ));
    }
    let now = format::stored(now);
    let beat = last.and_then(|last| format::seconds(last, &now));
    if let Some(ago) = beat.filter(|ago| *ago < STALE) {
        return Some(format!(
            "a trial gave a sign of life {} ago",
            format::duration(ago.max(0.0))
        ));
    }
    let ago = signs.written.filter(|ago| *ago < RECENTLY)?;
    Some(format!(
        "the file was written {} ago",
        format::duration(ago.as_secs_f64())
    ))
}

impl Adoption<'_> {
    /// The report for people.
    pub fn text(&self) -> String {
        let a = self.assessment;
        let optuna = match &self.optuna {
            Some(version) => format!(", made with Optuna {}", printable(version)),
            None if self.origin == Origin::Optuna => String::new(),
            None => format!(", {}", self.origin.text()),
        };
        let mut facts: Vec<(&str, String)> = vec![(
            "study",
            format!(
                "{} of {} ({}{optuna})",
                printable(&self.study),
                printable(&self.file),
                self.direction
            ),
        )];
        facts.push(("trials", states(a)));
        lines(&mut facts, "zombies", self.zombies());
        lines(&mut facts, "enqueued", rejected(a));
        lines(&mut facts, "faults", faults(&a.faults));
        lines(&mut facts, "values", self.values());
        facts.push(("fit", fit(a)));
        lines(
            &mut facts,
            "",
            a.fit.obstacles.iter().take(8).map(obstacle).collect(),
        );
        let mut out = format::facts(&facts);
        if !a.parameters.is_empty() {
            out.push('\n');
            out.push_str(&self.parameters());
        }
        out.push_str(&format!("\nverdict  {}\n", self.verdict.text));
        out
    }

    /// The same for programs; `adopted` says whether it was done, `command` what goes on with it.
    pub fn json(&self, adopted: bool, command: Option<&str>) -> Json {
        let a = self.assessment;
        let parameter = |parameter: &ParameterComparison| {
            let mut json = json!(parameter);
            json["importance"] = json!(a.effects.get(&parameter.name));
            json
        };
        json!({
            "file": self.file, "study": self.study, "name": self.name, "task": self.task,
            "direction": self.direction, "metric": self.metric, "origin": self.origin.word(), "optuna": self.optuna,
            "trials": a.states, "counted": a.counted,
            "running": {"trials": a.running, "alive": self.alive},
            "enqueued": a.enqueued, "rejected": a.rejected,
            "faults": a.faults, "values": a.values,
            "fit": {
                "finished": a.fit.finished,
                "history": a.fit.history,
                "obstacles": a.fit.obstacles.iter().map(obstacle_json).collect::<Vec<_>>(),
            },
            "parameters": a.parameters.iter().map(parameter).collect::<Vec<_>>(),
            "verdict": self.verdict,
            "adopted": adopted,
            "command": command,
        })
    }

    fn zombies(&self) -> Vec<String> {
        let running = &self.assessment.running;
        let (they, end) = match running.len() {
            0 => return Vec::new(),
            1 => (
                format!("trial {} is RUNNING", running[0]),
                "it becomes FAIL",
            ),
            n => (format!("{n} trials are RUNNING"), "they become FAIL"),
        };
        match &self.alive {
            Some(sign) => vec![
                format!("{they}, and the script may still be at work: {sign}"),
                format!(
                    "{end} here; what the script still finds is left behind. Better stop it first"
                ),
            ],
            None if self.origin == Origin::Optuna => {
                vec![format!("{they}, left so by a script that ended: {end}")]
            }
            None => vec![format!("{they} by what is written there: {end}")],
        }
    }

    fn values(&self) -> Vec<String> {
        let v = &self.assessment.values;
        let mut out = Vec::new();
        if v.scored == 0 {
            return vec!["no trial is complete".to_owned()];
        }
        if let (Some(least), Some(greatest)) = (v.least, v.greatest) {
            let best = v.best.map_or_else(String::new, |b| {
                format!(", best {} (trial {})", value(b.value), b.number)
            });
            // The others are infeasible, or have values that there cannot be.
            let of = match v.believed == v.scored {
                true => String::new(),
                false => format!("{} of ", v.believed),
            };
            out.push(format!(
                "{} of {of}{}: {} to {}{best}",
                self.metric,
                plural(v.scored as u64, "complete trial"),
                value(least),
                value(greatest)
            ));
        }
        out.extend(self.against());
        if let Some(repeats) = v.repeats {
            out.push(format!(
                "noise: {} tried {} times together; values of the same point differ by {} \
                 (standard deviation)",
                plural(repeats.points as u64, "point"),
                repeats.trials,
                value(repeats.deviation)
            ));
        }
        if v.constant {
            out.push("all values are the same: nothing that was searched had an effect".to_owned());
        } else if let Some(frequent) = v.frequent {
            let same = value(frequent.value);
            out.push(format!("{} trials have exactly {same}", frequent.trials));
        }
        if !v.impossible.is_empty() {
            out.push(format!(
                "{} cannot be {} ({}): kept, but marked as infeasible",
                plural(v.impossible.len() as u64, "value"),
                self.metric,
                numbers(&v.impossible)
            ));
        }
        if !v.reported_nan.is_empty() {
            out.push(format!("NaN was reported by {}", numbers(&v.reported_nan)));
        }
        out
    }

    fn against(&self) -> Option<String> {
        let v = &self.assessment.values;
        let against = v.against.as_ref()?;
        let trivial = format!(
            "{} ({})",
            value(against.baseline.value),
            printable(&against.baseline.what)
        );
        let best = v.best?;
        Some(if against.beaten_by == 0 {
            format!(
                "the best, {} of trial {}, is not better than the trivial answer {trivial}",
                value(best.value),
                best.number
            )
        } else {
            format!(
                "{} of {} beat the trivial answer {trivial}",
                against.beaten_by, v.scored
            )
        })
    }

    fn parameters(&self) -> String {
        let a = self.assessment;
        let heading = ["parameter", "there", "in the task", "inside", "effect", ""];
        let rows = a.parameters.iter().map(|line| {
            let inside = match line.relation {
                Relation::NotRead | Relation::Missing => String::new(),
                Relation::Same
                | Relation::Bounds
                | Relation::Choices
                | Relation::Kind
                | Relation::Fixed(_) => format!("{} of {}", line.inside, line.trials),
            };
            [
                printable(&line.name),
                shortened(&there(line)),
                shortened(&here(line)),
                inside,
                a.effects.get(&line.name).map_or_else(String::new, effect),
                remark(line),
            ]
        });
        let about = if a.looked_at < FEWEST {
            format!(
                "effects need at least {FEWEST} complete trials; there are {}\n",
                a.looked_at
            )
        } else {
            format!(
                "effect: share of the differences within {} complete trials that one parameter \
                 explains by itself, beyond chance\n",
                a.looked_at
            )
        };
        report::format::table_of(heading, rows) + &about
    }
}

/// What is told at the end of an adoption.
pub fn adopted(name: &str, trials: usize, a: &Assessment, command: &str) -> String {
    let enqueued = match a.enqueued {
        0 => String::new(),
        1 => "; 1 enqueued point runs first".to_owned(),
        n => format!("; {n} enqueued points run first"),
    };
    format!(
        "\nadopted as study {}: {}, {} of them count towards the goal{enqueued}\ncontinue it with\n  {command}\n",
        printable(name),
        plural(trials as u64, "trial"),
        a.counted
    )
}

/// Several lines under one heading.
fn lines<'a>(facts: &mut Vec<(&'a str, String)>, heading: &'a str, lines: Vec<String>) {
    for (at, line) in lines.into_iter().enumerate() {
        facts.push((if at == 0 { heading } else { "" }, line));
    }
}

fn states(a: &Assessment) -> String {
    let order = ["COMPLETE", "PRUNED", "FAIL", "RUNNING", "WAITING"];
    let words = ["complete", "pruned", "failed", "running", "waiting"];
    let parts: Vec<String> = order
        .iter()
        .zip(words)
        .filter_map(|(state, word)| Some(format!("{} {word}", a.states.get(state)?)))
        .collect();
    match parts.is_empty() {
        true => "none".to_owned(),
        false => format!(
            "{} ({})",
            a.states.values().sum::<usize>(),
            parts.join(", ")
        ),
    }
}

/// So many enqueued points that the task cannot take are told one by one.
const REJECTED: usize = 5;

fn rejected(a: &Assessment) -> Vec<String> {
    let count = a.rejected.len();
    let mut out = match count {
        0 => return Vec::new(),
        1 => vec![
            "1 trial is WAITING with a point that the task cannot take: it becomes FAIL".to_owned(),
        ],
        n => vec![format!(
            "{n} trials are WAITING with points that the task cannot take: they become FAIL"
        )],
    };
    let told = a.rejected.iter().take(REJECTED);
    out.extend(told.map(|r| format!("trial {}: {}", r.number, printable(&r.why))));
    if count > REJECTED {
        out.push(format!("and {} more", count - REJECTED));
    }
    out
}

fn faults(found: &Faults) -> Vec<String> {
    let mut out = Vec::new();
    for group in found.groups.iter().take(6) {
        let text: String = printable(&group.text).chars().take(100).collect();
        out.push(format!(
            "{} of {}, first in trial {}: {text}",
            kind(group.kind, group.name.as_deref()),
            plural(group.trials.len() as u64, "trial"),
            group.trials[0],
        ));
    }
    let more = found.groups.len().saturating_sub(6);
    if more > 0 {
        out.push(format!("and {more} other kinds"));
    }
    out.extend(found.streaks.iter().map(streak));
    out
}

fn kind(kind: FaultKind, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("{} ({})", kind.word(), printable(name)),
        None => kind.word().to_owned(),
    }
}

fn streak(s: &Streak) -> String {
    let end = if s.to_the_end {
        "nothing worked any more after it".to_owned()
    } else {
        format!("until trial {}", s.last)
    };
    format!(
        "the CUDA context was lost at trial {}: {} in a row failed, {end}. Under tune that is one \
         fresh worker",
        s.first,
        plural(s.trials as u64, "trial")
    )
}

fn fit(a: &Assessment) -> String {
    format!(
        "{} of {} have parameters that the task could have chosen",
        a.fit.history,
        plural(a.fit.finished as u64, "finished trial")
    )
}

fn obstacle((obstacle, count): &(Obstacle, usize)) -> String {
    match obstacle {
        Obstacle::NeverRan => format!(
            "{count} ended in a CUDA context that was lost before: nothing is held against their points"
        ),
        Obstacle::Missing(name) => {
            format!("{count} have no {}", printable(name))
        }
        Obstacle::Outside(name) => {
            format!("{count} lie outside of the task's {}", printable(name))
        }
        Obstacle::FixedOtherwise(name) => format!(
            "{count} had another {}, which the task fixes: search it to use them",
            printable(name)
        ),
        Obstacle::Violates(what) => format!("{count} violate {}", printable(what)),
    }
}

fn there(line: &ParameterComparison) -> String {
    match line.there.len() {
        0..=1 => line.there.concat(),
        2 => format!("{} and 1 other", line.there[0]),
        n => format!("{} and {} others", line.there[0], n - 1),
    }
}

fn here(line: &ParameterComparison) -> String {
    match &line.relation {
        Relation::Same => "the same".to_owned(),
        Relation::Bounds | Relation::Choices | Relation::Kind | Relation::Missing => {
            line.here.clone().unwrap_or_default()
        }
        Relation::Fixed(value) => format!("fixed: {value}"),
        Relation::NotRead => "not read".to_owned(),
    }
}

fn remark(line: &ParameterComparison) -> String {
    let mut remarks = Vec::new();
    if line.seed {
        remarks.push("a seed: to search it is to pick lucky runs".to_owned());
    }
    if line.relation == Relation::Kind {
        remarks.push("numbers of another kind".to_owned());
    }
    if line.relation == Relation::Missing {
        remarks.push("no trial has it".to_owned());
    }
    if let Some(alike) = &line.alike {
        remarks.push(format!("--rename {}={alike}?", printable(&line.name)));
    }
    remarks.join("; ")
}

fn effect(effect: &Effect) -> String {
    match effect {
        Effect::Constant => "one value tried".to_owned(),
        Effect::TooFew => "too few".to_owned(),
        Effect::Nothing { .. } => "none seen".to_owned(),
        Effect::Shows { share, .. } => format!("{:.0} %", (share * 100.0).max(1.0)),
    }
}

/// At most 40 characters for people, who know their own space.
fn shortened(text: &str) -> String {
    let text = printable(text);
    if text.chars().count() <= 40 {
        return text;
    }
    text.chars().take(37).collect::<String>() + "..."
}

/// Trial numbers in a sentence.
fn numbers(trials: &[u64]) -> String {
    let some: Vec<String> = trials.iter().take(5).map(u64::to_string).collect();
    let more = match trials.len().saturating_sub(5) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    let noun = if trials.len() == 1 { "trial" } else { "trials" };
    format!("{noun} {}{more}", some.join(", "))
}

fn obstacle_json((obstacle, count): &(Obstacle, usize)) -> Json {
    let (word, what) = match obstacle {
        Obstacle::NeverRan => ("never_ran", ""),
        Obstacle::Missing(name) => ("missing", name.as_str()),
        Obstacle::Outside(name) => ("outside", name.as_str()),
        Obstacle::FixedOtherwise(name) => ("fixed_otherwise", name.as_str()),
        Obstacle::Violates(expr) => ("violates", expr.as_str()),
    };
    json!({"obstacle": word, "what": what, "trials": count})
}
