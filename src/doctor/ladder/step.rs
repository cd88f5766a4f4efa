//! A rung that has ended, and what its end means.

use std::time::Duration;

use serde::Serialize;

use super::{AT, FACTS, Rung, RungEnd, WARNING};
use crate::Outcome;
use fault::{Death, Evidence, FaultKind, ProgramEnd};

/// A rung with its result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// Its name, for scripts.
    pub name: String,
    /// What it is, for people.
    pub title: String,
    /// How it came out.
    pub outcome: Outcome,
    /// What was seen; of a rung that was not tried, why.
    pub evidence: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// The word of the fault that it ended by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<&'static str>,
    /// How long it took, in seconds.
    pub seconds: f64,
}

impl Step {
    /// A rung that was not tried.
    pub fn not_run(rung: &Rung, why: impl Into<String>) -> Step {
        Step {
            name: rung.to_string(),
            title: rung.title(),
            outcome: Outcome::NotRun,
            evidence: why.into(),
            remedy: None,
            fault: None,
            seconds: 0.0,
        }
    }

    /// The same after it was tried `again` with launches that block, which fail where the kernel does and not later.
    pub fn placed(self, again: &Step) -> Step {
        let failed = again.outcome == Outcome::Failed;
        let evidence = match failed {
            true => format!("{} (with blocking launches)", again.evidence),
            false => format!("{}; not with blocking launches", self.evidence),
        };
        let told = if failed { again } else { &self };
        Step {
            evidence,
            remedy: told.remedy.clone(),
            fault: told.fault,
            ..self
        }
    }

    /// The same, failed where it is a loader's and the tokens are not those of the loaders before it.
    pub fn same_as_before(mut self, rung: &Rung, checksums: &[String]) -> Step {
        let differ = checksums.windows(2).any(|pair| pair[0] != pair[1]);
        if matches!(rung, Rung::Loader { .. }) && self.outcome == Outcome::Passed && differ {
            self.outcome = Outcome::Failed;
            self.evidence += "; the tokens are not the same with other threads";
        }
        self
    }

    /// `passed   1.2 s  fill: 1,048,576 numbers`, and what to do below it.
    pub fn line(&self) -> String {
        let remedy = self.remedy.as_deref().map_or_else(String::new, |text| {
            text.lines()
                .map(|line| format!("\n{:26}{line}", ""))
                .collect()
        });
        let evidence = self.evidence.replace('\n', &format!("\n{:26}", ""));
        format!(
            "{:16} {:5.1} s  {}: {evidence}{remedy}\n",
            self.outcome.to_string(),
            self.seconds,
            self.title
        )
    }
}

impl RungEnd {
    /// Whether it ended by itself and well.
    pub fn succeeded(&self) -> bool {
        self.late.is_none() && self.death == Death::Exited(0)
    }

    /// What it said last that it was about to do.
    pub fn at(&self) -> Option<&str> {
        self.out
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix(AT))
    }

    /// What it said on a line that begins with this.
    pub fn fact(&self, begins: &str) -> Option<&str> {
        self.out
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix(begins))
    }

    fn found(&self) -> String {
        let hidden =
            |line: &&str| !line.starts_with(AT) && !FACTS.iter().any(|f| line.starts_with(f));
        let lines: Vec<&str> = self.out.lines().filter(hidden).collect();
        lines.join("; ")
    }

    /// The text of its error, as it was told, without the stack that libtorch puts below.
    fn told(&self) -> Option<&str> {
        const BELOW: [&str; 4] = [
            "\nException raised from",
            "\nframe #",
            "\nCUDA kernel errors",
            "\nSearch for `cuda",
        ];
        let at = self.err.find("error: ")?;
        let begins = at == 0 || self.err[..at].ends_with('\n');
        let told = &self.err[at + "error: ".len()..];
        let ends = BELOW.iter().filter_map(|below| told.find(below)).min();
        begins.then(|| told[..ends.unwrap_or(told.len())].trim())
    }
}

/// What the end of a rung means.
pub fn judge(rung: &Rung, end: &RungEnd) -> Step {
    let step = |outcome, evidence: String, remedy: Option<String>, fault| Step {
        name: rung.to_string(),
        title: rung.title(),
        outcome,
        evidence,
        remedy,
        fault,
        seconds: (end.took.as_secs_f64() * 1e3).round() / 1e3,
    };
    if let Some(limit) = end.late {
        let (outcome, found, fault) = cut_off(rung, end, limit);
        return step(outcome, found, None, fault);
    }
    if end.death == Death::Exited(0) {
        let warns = end.out.lines().any(|line| line.starts_with(WARNING));
        let outcome = if warns {
            Outcome::Warning
        } else {
            Outcome::Passed
        };
        return step(outcome, end.found(), None, None);
    }
    let (evidence, remedy, fault) = explained(end);
    if *rung == Rung::ExpandableSegments {
        let remedy = "Nothing: tune uses plain segments where these fail.".to_owned();
        return step(Outcome::Warning, evidence, Some(remedy), fault);
    }
    step(Outcome::Failed, evidence, remedy, fault)
}

/// What it means that a rung was ended because its time was over.
fn cut_off(rung: &Rung, end: &RungEnd, limit: Duration) -> (Outcome, String, Option<&'static str>) {
    let limit = format!("{} s", limit.as_secs());
    // Trainings take their time, and one that hangs is ended by its own deadline.
    if matches!(rung, Rung::Pipeline { .. }) {
        let found = format!("no failure within {limit}, then ended");
        return (Outcome::Passed, found, None);
    }
    let place = end.at().map_or_else(String::new, |at| format!(": {at}"));
    let found = format!("no end within {limit}{place}");
    (Outcome::Failed, found, Some(FaultKind::Hang.word()))
}

/// What was seen of a failure, what to do about it, and the fault's word.
fn explained(end: &RungEnd) -> (String, Option<String>, Option<&'static str>) {
    let known = fault::explain(&end.err);
    // What a task's own error calls for, its text says.
    let own = ["unknown", FaultKind::TaskError.word()];
    let known = (!own.contains(&known.fault)).then_some(known);
    let advice = known.as_ref().map(|known| known.advice.clone());
    if let (Death::Exited(_), Some(told)) = (end.death, end.told()) {
        // A training's fault is told with its word.
        let word = told.split(':').next().unwrap_or_default();
        let named = FaultKind::ALL.iter().map(|kind| kind.word());
        let named = named.into_iter().find(|known| *known == word);
        let known = known.filter(|known| named.is_none_or(|named| named == known.fault));
        let place = end.at().filter(|at| named.is_none() && !told.contains(at));
        let place = place.map_or_else(String::new, |at| format!("{at}: "));
        return (
            format!("{place}{told}"),
            known.as_ref().map(|known| known.advice.clone()),
            named.or(known.map(|known| known.fault)),
        );
    }
    let program = ProgramEnd {
        death: end.death,
        stopped: false,
        oom_kills: 0,
        output: end.err.clone(),
    };
    let text = fault::describe_program(end.death).replace("the program", "it");
    let fault = fault::classify(&Evidence {
        death: Some(end.death),
        ..Evidence::of_program(program, text)
    });
    let place = end.at().map_or_else(String::new, |at| format!("{at}: "));
    (
        format!("{place}{}", fault.detail),
        advice,
        Some(fault.kind.word()),
    )
}
