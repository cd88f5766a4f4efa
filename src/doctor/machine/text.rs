//! The checks, for people.

use std::collections::BTreeMap;

use crate::{Check, Outcome};

/// What failed with its mend, what warns, what could not be run, and one line that names what passed; `verbose`: what
/// was seen there, too.
pub fn text(checks: &[Check], verbose: bool) -> String {
    let of = |outcome| checks.iter().filter(move |c| c.outcome == outcome);
    let count = |outcome| of(outcome).count();
    let mut text = format!(
        "The machine: {} failed, {} to be looked at, {} passed, {} could not be run\n",
        count(Outcome::Failed),
        count(Outcome::Warning),
        count(Outcome::Passed),
        count(Outcome::NotRun),
    );
    text.push_str(&problems(checks));
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for check in of(Outcome::NotRun) {
        reasons.entry(&check.evidence).or_default().push(check.name);
    }
    for (why, names) in reasons {
        text.push_str(&format!("could not be run ({why}): {}\n", names.join(", ")));
    }
    if verbose {
        for check in of(Outcome::Passed) {
            text.push_str(&format!("passed: {}: {}\n", check.name, check.evidence));
        }
    } else if count(Outcome::Passed) > 0 {
        let names: Vec<&str> = of(Outcome::Passed).map(|c| c.name).collect();
        text.push_str(&format!("passed: {}\n", names.join(", ")));
    }
    text
}

/// Two lines for each check that failed, and for each that warns: what was seen, and what to do.
pub fn problems(checks: &[Check]) -> String {
    let of = |outcome| checks.iter().filter(move |c| c.outcome == outcome);
    let problems = of(Outcome::Failed).chain(of(Outcome::Warning));
    let lines = problems.map(|check| {
        let remedy = check.remedy.as_deref().map(|r| format!("    {r}\n"));
        let remedy = remedy.unwrap_or_default();
        format!(
            "{}: {}: {}\n{remedy}",
            check.outcome, check.name, check.evidence
        )
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_come_first_and_what_passed_takes_one_line() {
        let check = |name, outcome, evidence: &str, remedy: Option<&str>| Check {
            name,
            outcome,
            evidence: evidence.to_owned(),
            remedy: remedy.map(str::to_owned),
        };
        let checks = [
            check("swap", Outcome::Passed, "none", None),
            check("ecc", Outcome::NotRun, "no GPU", None),
            check("pressure", Outcome::Warning, "io 80 %", Some("Wait.")),
            check("clock_source", Outcome::Passed, "tsc", None),
            check("mig", Outcome::NotRun, "no GPU", None),
            check("open_files", Outcome::Failed, "64", Some("Raise it.")),
        ];
        let expected = "The machine: 1 failed, 1 to be looked at, 2 passed, 2 could not be run\n\
                        failed: open_files: 64\n    Raise it.\n\
                        warning: pressure: io 80 %\n    Wait.\n\
                        could not be run (no GPU): ecc, mig\n\
                        passed: swap, clock_source\n";
        assert_eq!(text(&checks, false), expected);
        assert!(text(&checks, true).ends_with("passed: swap: none\npassed: clock_source: tsc\n"));
    }
}
