//! What `tune bisect` tells.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::json;

use super::rows::{RowsFound, RowsOutcome};
use crate::query::Answer;
use doctor::statistics::{Rate, excluded_rate};
use fault::{Fault, FaultKind, masked};
use messages::exit::Exit;
use messages::printable;
use report::About;
use report::format::{duration, param, plural};
use search::space::{Params, Value};
use supervisor::Replay;

/// How it came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    /// The cause was found.
    Found,
    /// The trial does not fail any more.
    Gone,
    /// It fails, but in another way.
    Otherwise,
    /// Every other point fails, too.
    NoParameter,
    /// The budget was used up before.
    Budget,
    /// A signal came before.
    Stopped,
}

impl Outcome {
    /// What the command exits with.
    pub(super) fn exit(self) -> Exit {
        match self {
            Outcome::Found => Exit::Done,
            Outcome::Gone | Outcome::Otherwise | Outcome::NoParameter => Exit::Breaker,
            Outcome::Budget => Exit::Budget,
            Outcome::Stopped => Exit::Stopped,
        }
    }
}

/// What the failing point is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Against {
    /// A trial that ended by its own result.
    Trial(u64),
    /// The point of the defaults.
    Defaults,
}

impl fmt::Display for Against {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Against::Trial(number) => write!(f, "trial {number}"),
            Against::Defaults => f.write_str("the point of the defaults"),
        }
    }
}

/// The number of the trial, or `"defaults"`.
impl Serialize for Against {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Against::Trial(number) => serializer.serialize_u64(*number),
            Against::Defaults => serializer.serialize_str("defaults"),
        }
    }
}

/// A parameter of the cause.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Member {
    pub(super) name: String,
    /// In the failing trial.
    value: Value,
    /// In the survivor.
    survivor: Option<Value>,
    /// The nearest value to the survivor's with which it fails.
    pub(super) fails: Value,
    /// The nearest value to that with which it survives; nothing where the survivor has none.
    pub(super) survives: Option<Value>,
}

impl Member {
    pub(super) fn new(name: &str, failing: &Params, survivor: &Params) -> Member {
        let value = failing.get(name).cloned().unwrap_or(Value::Null);
        let survives = survivor.get(name).cloned();
        Member {
            name: name.to_owned(),
            fails: value.clone(),
            value,
            survivor: survives.clone(),
            survives,
        }
    }

    /// Of a number whether it fails with less than it survives with.
    fn fails_below(&self) -> Option<bool> {
        let survives = self.survives.as_ref().and_then(Value::as_f64)?;
        Some(self.fails.as_f64()? < survives)
    }

    /// Whether a point fails as far as this parameter goes.
    pub(super) fn holds(&self, point: &Params) -> bool {
        let Some(value) = point.get(&self.name) else {
            return false;
        };
        match (self.fails_below(), self.fails.as_f64(), value.as_f64()) {
            (Some(true), Some(fails), Some(value)) => value <= fails,
            (Some(false), Some(fails), Some(value)) => value >= fails,
            _ => *value == self.value,
        }
    }

    /// `optim.lr > 0.01`, `model.name = "large"`.
    fn condition(&self) -> String {
        let name = printable(&self.name);
        let numbers = self
            .survives
            .as_ref()
            .map(|s| (self.fails.as_f64(), s.as_f64()));
        if let (Some((Some(fails), Some(survives))), Some(bound)) = (numbers, &self.survives) {
            let (below, whole) = (fails < survives, matches!(self.fails, Value::Int(_)));
            let sign = match (below, whole) {
                (true, true) => "<=",
                (false, true) => ">=",
                (true, false) => "<",
                (false, false) => ">",
            };
            let bound = if whole { &self.fails } else { bound };
            return format!("{name} {sign} {}", param(bound));
        }
        format!("{name} = {}", printable(&param(&self.value)))
    }

    /// What is known of its values.
    fn line(&self) -> String {
        let told = |value: &Value| printable(&param(value)).into_owned();
        let known = match (&self.survivor, &self.survives) {
            (Some(_), Some(survives)) if self.fails.as_f64().is_some() => {
                let (fails, survives) = (told(&self.fails), told(survives));
                format!("fails with {fails}, survives with {survives}")
            }
            (Some(survivor), _) => format!("survives with {}", told(survivor)),
            (None, _) => "does not exist in the survivor".to_owned(),
        };
        format!(
            "  {} = {}: {known}\n",
            printable(&self.name),
            told(&self.value)
        )
    }
}

/// A fault that is not the one that is looked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Other {
    fault: &'static str,
    detail: String,
    pub(super) runs: u32,
}

impl Other {
    /// Counts a fault among others: whether it was there before.
    pub(super) fn count(others: &mut Vec<Other>, fault: &Fault) -> bool {
        let same = |other: &&mut Other| {
            other.fault == fault.kind.word() && masked(&other.detail) == masked(&fault.detail)
        };
        match others.iter_mut().find(same) {
            Some(known) => {
                known.runs += 1;
                true
            }
            None => {
                others.push(Other {
                    fault: fault.kind.word(),
                    detail: fault.detail.clone(),
                    runs: 1,
                });
                false
            }
        }
    }
}

/// What was found.
pub(super) struct Found {
    study: String,
    number: u64,
    about: About,
    pub(super) outcome: Outcome,
    /// The failing point is that of the defaults.
    at_defaults: bool,
    /// Kind, detail and place.
    pub(super) fault: Option<(FaultKind, String, Option<String>)>,
    /// Of the failing point.
    pub(super) rate: Rate,
    pub(super) against: Option<Against>,
    /// In how many parameters the two points differ.
    pub(super) differ: usize,
    /// Further survivors, which had all of what the cause seemed to be.
    pub(super) contradicted: Vec<Against>,
    /// Points that were no survivors.
    pub(super) fail_too: Vec<Against>,
    pub(super) cause: Vec<Member>,
    /// Parameters among which the rest of the cause is.
    pub(super) among: Vec<String>,
    /// What was found of the rows that it trains on, where they were tried.
    pub(super) rows: Option<RowsFound>,
    pub(super) others: Vec<Other>,
    pub(super) runs: u32,
    pub(super) duration: Duration,
    pub(super) log: Option<PathBuf>,
}

impl Found {
    /// Nothing yet.
    pub(super) fn new(plan: &Replay, tune: &str) -> Found {
        Found {
            study: plan.spec.study.clone(),
            number: plan.trial.number,
            about: About::new(&plan.spec.study, tune),
            outcome: Outcome::Budget,
            at_defaults: plan.spec.space.point(&Params::new()) == plan.trial.params,
            fault: None,
            rate: Rate::default(),
            against: None,
            differ: 0,
            contradicted: Vec::new(),
            fail_too: Vec::new(),
            cause: Vec::new(),
            among: Vec::new(),
            rows: None,
            others: Vec::new(),
            runs: 0,
            duration: Duration::ZERO,
            log: None,
        }
    }

    /// A survivor was found: the first one, or one that had all of what the cause seemed to be.
    pub(super) fn compared(&mut self, which: Against, differ: usize) {
        match self.against {
            None => (self.against, self.differ) = (Some(which), differ),
            Some(_) => self.contradicted.push(which),
        }
    }

    /// Adds to the cause; of a bound that it has already, the later one is the narrower.
    pub(super) fn add(&mut self, members: Vec<Member>) {
        let same = |a: &Member, b: &Member| a.name == b.name && a.fails_below() == b.fails_below();
        let again = |known: &Member| members.iter().any(|member| same(member, known));
        self.cause.retain(|known| !again(known));
        self.cause.extend(members);
    }

    /// How it came out, with what was found of the rows.
    pub(super) fn with_rows(&self, outcome: Outcome) -> Outcome {
        let Some(rows) = &self.rows else {
            return outcome;
        };
        match (outcome, rows.outcome) {
            (Outcome::NoParameter, RowsOutcome::Found) => Outcome::Found,
            (Outcome::NoParameter, RowsOutcome::Budget) => Outcome::Budget,
            (outcome, _) => outcome,
        }
    }

    /// The cause, or why none is told, in one sentence.
    fn sentence(&self) -> String {
        let rows = self.rows.as_ref().and_then(RowsFound::sentence);
        let parameters = self.of_parameters();
        match (self.outcome, rows) {
            (Outcome::Found, Some(rows)) if self.cause.is_empty() => rows,
            (_, Some(rows)) => format!("{parameters}; {rows}"),
            (_, None) => parameters,
        }
    }

    fn of_parameters(&self) -> String {
        let conditions: Vec<String> = self.cause.iter().map(Member::condition).collect();
        let known = conditions.join(" together with ");
        let trial = format!("trial {} of {}", self.number, printable(&self.study));
        match self.outcome {
            Outcome::Found => known,
            Outcome::Gone => format!(
                "{trial} did not fail in {}: a rate above {:.0} % is excluded (95 %)",
                plural(self.rate.all.into(), "run"),
                100.0 * excluded_rate(self.rate.all)
            ),
            Outcome::Otherwise => {
                let first = self.others.first();
                let how = first.map_or_else(String::new, |o| {
                    format!("{}: {}", o.fault, printable(&o.detail))
                });
                format!("{trial} fails in another way now ({how})")
            }
            Outcome::NoParameter if self.fail_too.is_empty() => {
                let why = match self.at_defaults {
                    true => format!("{trial} is at the defaults"),
                    false => "a constraint excludes the defaults".to_owned(),
                };
                format!("no other point is known that could survive: {why}")
            }
            Outcome::NoParameter => {
                let points: Vec<String> = self.fail_too.iter().map(ToString::to_string).collect();
                format!(
                    "no parameter: with the seed and the number of {trial}, it fails with the values of {}, too",
                    points.join(", of ")
                )
            }
            Outcome::Budget | Outcome::Stopped => {
                let rest = match self.among.len() {
                    0 => "not known yet".to_owned(),
                    1..=6 => format!("among {}", printable(&self.among.join(", "))),
                    more => format!("among {more} parameters"),
                };
                match known.as_str() {
                    "" => rest,
                    known => format!("{known}, and maybe more {rest}"),
                }
            }
        }
    }

    /// The next command.
    fn next(&self) -> String {
        let own = |command: &str| format!("{} {}", self.about.command(command), self.number);
        match (self.outcome, &self.log) {
            (Outcome::Found, Some(log)) => format!(
                "tune explain {}",
                report::shell_word(&log.display().to_string())
            ),
            (Outcome::Found | Outcome::Otherwise, _) => own("replay"),
            (Outcome::Gone | Outcome::NoParameter, _) => "tune doctor".to_owned(),
            (Outcome::Budget, _) => format!("{} --budget 2h", own("bisect")),
            (Outcome::Stopped, _) => own("bisect"),
        }
    }
}

impl Serialize for Found {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fault = self.fault.as_ref().map(
            |(kind, detail, place)| json!({"fault": kind.word(), "detail": detail, "place": place}),
        );
        let told = json!({
            "study": self.study, "number": self.number, "outcome": self.outcome, "fault": fault,
            "rate": {"failed": self.rate.failed, "runs": self.rate.all},
            "against": self.against, "differ": self.differ, "contradicted": self.contradicted, "fail_too": self.fail_too,
            "cause": self.cause, "among": self.among, "rows": self.rows, "others": self.others, "runs": self.runs,
            "duration_s": self.duration.as_secs_f64(), "log": self.log, "sentence": self.sentence(),
            "next": self.next(),
        });
        told.serialize(serializer)
    }
}

impl Answer for Found {
    fn text(&self) -> String {
        let mut text = String::from("\n");
        if let Some((kind, detail, place)) = &self.fault {
            let place = place
                .as_ref()
                .map(|place| format!(" (at {})", printable(place)));
            text += &format!(
                "fault: {}: {}{}\n",
                kind.word(),
                printable(detail),
                place.unwrap_or_default()
            );
            let (failed, runs) = (self.rate.failed, u64::from(self.rate.all));
            text += &format!(
                "rate: trial {} failed in {failed} of {}\n",
                self.number,
                plural(runs, "run")
            );
        }
        for other in &self.others {
            let runs = plural(other.runs.into(), "run");
            text += &format!(
                "another fault in {runs}: {}: {}\n",
                other.fault,
                printable(&other.detail)
            );
        }
        if let (Some(against), false) = (&self.against, self.cause.is_empty()) {
            text += &format!(
                "against: {against}, {} apart\n",
                plural(self.differ as u64, "value")
            );
        }
        for trial in &self.contradicted {
            text += &format!("against: {trial} too, which has what was found until then\n");
        }
        self.cause.iter().for_each(|member| text += &member.line());
        let tried = plural(self.runs.into(), "run");
        text += &format!("tried: {tried} in {}\n", duration(self.duration));
        text += &format!("cause: {}\n", self.sentence());
        text += &format!("next: {}\n", self.next());
        text
    }
}
