//! `tune adopt`: what a history from elsewhere is worth, and what became of it.

use std::time::Duration;

use serde_json::{Map, Value as Json, json};

use super::format::printable;
use super::format::{self};
use adopt::compare::{Line, Relation};
use adopt::faults::{Faults, Streak};
use adopt::fit::Obstacle;
use adopt::worth::Values;
use adopt::{Assessment, Signs, Verdict};
use fault::FaultKind;
use messages::json_number;
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
    /// What was found.
    pub assessment: &'a Assessment,
    /// The conclusion.
    pub verdict: Verdict,
    /// What was seen of the program that writes the file.
    pub alive: Option<String>,
}

/// Why the program that left trials RUNNING may still be at work; `None`: nothing speaks for it.
/// `last` is the latest heartbeat (naive UTC) of a trial that is RUNNING.
pub fn alive(signs: &Signs, last: Option<&str>, now: jiff::Timestamp) -> Option<String> {
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
            None => String::new(),
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
        if !a.lines.is_empty() {
            out.push('\n');
            out.push_str(&self.parameters());
        }
        out.push_str(&format!("\nverdict  {}\n", self.verdict.text));
        out
    }

    /// The same for programs; `adopted` says whether it was done, `command` what goes on with it.
    pub fn json(&self, adopted: bool, command: Option<&str>) -> Json {
        let a = self.assessment;
        let effects = |line: &Line| a.effects.get(&line.name).map(effect_json);
        json!({
            "file": self.file, "study": self.study, "name": self.name, "task": self.task,
            "direction": self.direction, "metric": self.metric, "optuna": self.optuna,
            "trials": a.states, "counted": a.counted,
            "running": {"trials": a.running, "alive": self.alive},
            "enqueued": a.enqueued,
            "rejected": a.rejected.iter()
                .map(|(number, why)| json!({"number": number, "why": why}))
                .collect::<Vec<_>>(),
            "faults": faults_json(&a.faults),
            "values": values_json(&a.values),
            "fit": {
                "finished": a.fit.finished,
                "history": a.fit.history,
                "obstacles": a.fit.obstacles.iter().map(obstacle_json).collect::<Vec<_>>(),
            },
            "parameters": a.lines.iter().map(|l| line_json(l, effects(l))).collect::<Vec<_>>(),
            "verdict": {"worth": self.verdict.worth, "text": self.verdict.text},
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
            None => vec![format!("{they}, left so by a script that ended: {end}")],
        }
    }

    fn values(&self) -> Vec<String> {
        let v = &self.assessment.values;
        let mut out = Vec::new();
        if v.scored == 0 {
            return vec!["no trial is complete".to_owned()];
        }
        if let Some((least, most)) = v.between {
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
                value(most)
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
        if v.constant() {
            out.push("all values are the same: nothing that was searched had an effect".to_owned());
        } else if let Some((same, count)) = v.frequent {
            out.push(format!("{count} trials have exactly {}", value(same)));
        }
        if !v.impossible.is_empty() {
            out.push(format!(
                "{} cannot be {} ({}): kept, but marked as infeasible",
                plural(v.impossible.len() as u64, "value"),
                self.metric,
                numbers(&v.impossible)
            ));
        }
        if !v.nan.is_empty() {
            out.push(format!("NaN was reported by {}", numbers(&v.nan)));
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
        let mut rows = vec![heading.map(str::to_owned).to_vec()];
        for line in &a.lines {
            let inside = match line.relation {
                Relation::NotRead | Relation::Missing => String::new(),
                Relation::Same
                | Relation::Bounds
                | Relation::Choices
                | Relation::Kind
                | Relation::Fixed(_) => format!("{} of {}", line.inside, line.trials),
            };
            rows.push(vec![
                printable(&line.name),
                shortened(&there(line)),
                shortened(&here(line)),
                inside,
                a.effects.get(&line.name).map_or_else(String::new, effect),
                remark(line),
            ]);
        }
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
        report::format::table(&rows) + &about
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
    out.extend(told.map(|(number, why)| format!("trial {number}: {}", printable(why))));
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
        "{} of {} were trained as the task would train them",
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

fn there(line: &Line) -> String {
    let all: Vec<String> = line.there.iter().map(ToString::to_string).collect();
    match all.len() {
        0..=1 => all.concat(),
        n => format!("{} and {} others", all[0], n - 1),
    }
}

fn here(line: &Line) -> String {
    match &line.relation {
        Relation::Same => "the same".to_owned(),
        Relation::Bounds | Relation::Choices | Relation::Kind | Relation::Missing => line
            .here
            .as_ref()
            .map_or_else(String::new, ToString::to_string),
        Relation::Fixed(value) => format!("fixed: {value}"),
        Relation::NotRead => "not read".to_owned(),
    }
}

fn remark(line: &Line) -> String {
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
        Effect::Constant => "never varied".to_owned(),
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

fn faults_json(found: &Faults) -> Json {
    let groups: Vec<Json> = found
        .groups
        .iter()
        .map(
            |g| json!({"fault": g.kind.word(), "name": g.name, "text": g.text, "trials": g.trials}),
        )
        .collect();
    let streaks: Vec<Json> = found
        .streaks
        .iter()
        .map(|s| {
            json!({
                "first": s.first, "last": s.last, "trials": s.trials,
                "to_the_end": s.to_the_end, "fault": s.kind.word(), "name": s.name,
            })
        })
        .collect();
    json!({"trials": found.trials, "kinds": groups, "streaks": streaks})
}

fn values_json(v: &Values) -> Json {
    let number = |x: f64| json_number(x);
    json!({
        "scored": v.scored,
        "least": v.between.map(|b| number(b.0)),
        "greatest": v.between.map(|b| number(b.1)),
        "best": v.best.map(|b| json!({"number": b.number, "value": number(b.value)})),
        "baseline": v.against.as_ref().map(|a| json!({
            "value": number(a.baseline.value), "what": a.baseline.what, "beaten_by": a.beaten_by,
        })),
        "impossible": v.impossible,
        "reported_nan": v.nan,
        "constant": v.constant(),
        "frequent": v.frequent.map(|(x, n)| json!({"value": number(x), "trials": n})),
        "repeats": v.repeats.map(|r| json!({
            "points": r.points, "trials": r.trials, "deviation": number(r.deviation),
        })),
    })
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

fn effect_json(effect: &Effect) -> Json {
    match effect {
        Effect::Constant => json!({"effect": "constant"}),
        Effect::TooFew => json!({"effect": "too_few_trials"}),
        Effect::Nothing { p } => json!({"effect": "none_seen", "p": p}),
        Effect::Shows { share, p } => json!({"effect": "shows", "share": share, "p": p}),
    }
}

fn line_json(line: &Line, effect: Option<Json>) -> Json {
    let relation = match &line.relation {
        Relation::Same => "same",
        Relation::Bounds => "other_bounds",
        Relation::Choices => "other_choices",
        Relation::Kind => "other_kind",
        Relation::Fixed(_) => "fixed_in_task",
        Relation::NotRead => "not_read",
        Relation::Missing => "only_in_task",
    };
    let mut map = Map::new();
    map.insert("name".into(), line.name.as_str().into());
    map.insert("relation".into(), relation.into());
    map.insert(
        "there".into(),
        json!(
            line.there
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        ),
    );
    map.insert(
        "task".into(),
        json!(line.here.as_ref().map(ToString::to_string)),
    );
    map.insert("trials".into(), line.trials.into());
    map.insert("inside".into(), line.inside.into());
    map.insert("seed".into(), line.seed.into());
    map.insert("alike".into(), json!(line.alike));
    map.insert("importance".into(), json!(effect));
    Json::Object(map)
}
