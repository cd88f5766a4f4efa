//! What a drill found, for people and for scripts.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value as Json, json};

use drill::{Report, Row, Scenario, Times};
use inject::Form;
use report::format::{duration, plural, table_of};

/// A table of the faults, one of the scenarios, and what did not hold.
pub fn drill_report(report: &Report) -> String {
    let mut out = String::new();
    if !report.rows.is_empty() {
        out += &faults_table(&report.rows);
        out.push('\n');
    }
    if !report.scenarios.is_empty() {
        out += &scenarios_table(&report.scenarios);
        out.push('\n');
    }
    for (name, why) in &report.impossible {
        out += &format!("not possible here: {name}: {why}\n");
    }
    for scenario in &report.scenarios {
        if let Some(why) = &scenario.skipped {
            out += &format!("not possible here: {}: {why}\n", scenario.name);
        }
    }
    for problem in problems(report) {
        out += &format!("did not hold: {problem}\n");
    }
    if let Some(dir) = &report.kept {
        out += &format!("kept: {}\n", dir.display());
    }
    out += &summary(report);
    out
}

/// The same as one object.
pub fn drill_json(report: &Report) -> Json {
    json!({
        "held": report.held(),
        "plan": report.plan,
        "trials": report.trials,
        "injected": injected(report),
        "lost": total(report, |r| r.lost),
        "repeated": total(report, |r| r.repeated),
        "context_reused": total(report, |r| r.reused),
        "faults": report.rows.iter().map(row_json).collect::<Vec<_>>(),
        "scenarios": report.scenarios.iter().map(scenario_json).collect::<Vec<_>>(),
        "impossible": report.impossible.iter()
            .map(|(name, why)| json!({ "name": name, "why": why }))
            .collect::<Vec<_>>(),
        "problems": problems(report),
        "kept": report.kept.as_ref().map(|dir| dir.to_string_lossy()),
    })
}

fn faults_table(rows: &[Row]) -> String {
    let heading = [
        "fault",
        "injected",
        "detected as",
        "detected after",
        "p95",
        "trial, process",
        "next step",
        "p95",
        "lost",
        "repeated",
        "context reused",
        "",
    ];
    let rows = rows.iter().map(|row| {
        let form = match row.form {
            Form::Real => "",
            Form::TextOnly => " (text only)",
        };
        [
            format!("{}{form}", row.kind),
            row.injected.to_string(),
            counted(&row.detected),
            seconds(row.detection.median()),
            seconds(row.detection.p95()),
            counted(&row.action),
            seconds(row.next_step.median()),
            seconds(row.next_step.p95()),
            row.lost.to_string(),
            row.repeated.to_string(),
            row.reused.to_string(),
            held(row.held),
        ]
    });
    table_of(heading, rows)
}

fn scenarios_table(scenarios: &[Scenario]) -> String {
    let heading = [
        "scenario",
        "times",
        "all gone after",
        "next step",
        "outcome",
        "",
    ];
    let made = scenarios.iter().filter(|s| s.skipped.is_none());
    let rows = made.map(|scenario| {
        let held_so = scenario.problems.is_empty();
        [
            format!("{}: {}", scenario.name, scenario.what),
            scenario.times.to_string(),
            seconds(scenario.gone.p95()),
            seconds(scenario.next_step.p95()),
            if held_so {
                scenario.outcome.clone()
            } else {
                String::new()
            },
            held(held_so),
        ]
    });
    table_of(heading, rows)
}

/// `crash`, or `crash 2, hang 1` where it was not always the same.
fn counted(counts: &BTreeMap<String, u32>) -> String {
    let words = counts.iter().map(|(word, n)| match counts.len() {
        1 => word.clone(),
        _ => format!("{word} ({n})"),
    });
    words.collect::<Vec<_>>().join(", ")
}

fn seconds(seconds: Option<f64>) -> String {
    let duration_of = |s| {
        Duration::try_from_secs_f64(s)
            .map(duration)
            .unwrap_or_default()
    };
    seconds.map_or_else(|| "-".to_owned(), duration_of)
}

fn held(held: bool) -> String {
    if held { "held" } else { "DID NOT HOLD" }.to_owned()
}

fn problems(report: &Report) -> Vec<String> {
    let mut all = report.problems.clone();
    for scenario in &report.scenarios {
        all.extend(
            scenario
                .problems
                .iter()
                .map(|p| format!("{}: {p}", scenario.name)),
        );
    }
    all
}

fn injected(report: &Report) -> u32 {
    total(report, |r| r.injected)
}

fn total(report: &Report, of: impl Fn(&Row) -> u32) -> u32 {
    report.rows.iter().map(of).sum()
}

fn summary(report: &Report) -> String {
    let verdict = if report.held() {
        "everything held"
    } else {
        "NOT EVERYTHING HELD"
    };
    let scenarios = report.scenarios.iter().filter(|s| s.skipped.is_none());
    format!(
        "{verdict}: {} of {} in {}, {}; {} lost, {} repeated, {} in a lost context\n",
        plural(u64::from(injected(report)), "fault"),
        plural(report.rows.len() as u64, "kind"),
        plural(report.trials, "trial"),
        plural(scenarios.count() as u64, "scenario"),
        total(report, |r| r.lost),
        total(report, |r| r.repeated),
        total(report, |r| r.reused),
    )
}

fn row_json(row: &Row) -> Json {
    json!({
        "fault": row.kind, "what": row.kind.what(), "form": row.form, "injected": row.injected,
        "detected_as": row.detected, "detection_s": times_json(&row.detection),
        "action": row.action, "next_step_s": times_json(&row.next_step), "lost": row.lost,
        "repeated": row.repeated, "context_reused": row.reused, "held": row.held,
    })
}

fn scenario_json(scenario: &Scenario) -> Json {
    json!({
        "scenario": scenario.name, "what": scenario.what, "times": scenario.times,
        "gone_s": times_json(&scenario.gone), "next_step_s": times_json(&scenario.next_step),
        "held": scenario.problems.is_empty(), "problems": scenario.problems,
        "skipped": scenario.skipped, "outcome": scenario.outcome,
    })
}

fn times_json(times: &Times) -> Json {
    json!({ "count": times.count(), "median": times.median(), "p95": times.p95() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use inject::Kind;

    fn report() -> Report {
        let mut row = Row::new(Kind::Assert, Form::TextOnly);
        row.injected = 2;
        row.detected = BTreeMap::from([("cuda_sticky".into(), 2)]);
        row.detection.push(0.02);
        row.action = BTreeMap::from([("suspect, restart".into(), 2)]);
        let skipped = Scenario {
            name: "full-disk",
            skipped: Some("no namespaces".into()),
            ..Scenario::default()
        };
        Report {
            trials: 9,
            rows: vec![row],
            scenarios: vec![skipped],
            impossible: vec![("spin-kernel".into(), "there is no GPU".into())],
            ..Report::default()
        }
    }

    #[test]
    fn the_report_says_what_is_only_a_text_and_what_was_not_possible() {
        let text = drill_report(&report());
        assert!(text.contains("assert (text only)"), "{text}");
        assert!(text.contains("not possible here: spin-kernel: there is no GPU"));
        assert!(text.contains("not possible here: full-disk: no namespaces"));
        assert!(text.ends_with(
            "everything held: 2 faults of 1 kind in 9 trials, 0 scenarios; 0 lost, 0 repeated, 0 \
             in a lost context\n"
        ));
    }

    #[test]
    fn what_did_not_hold_is_named_in_both_forms() {
        let mut report = report();
        report.problems.push("trial 3 is lost".into());
        assert!(drill_report(&report).contains("did not hold: trial 3 is lost\n"));
        let json = drill_json(&report);
        assert_eq!(json["held"], false);
        assert_eq!(json["problems"][0], "trial 3 is lost");
        assert_eq!(json["faults"][0]["fault"], "assert");
        assert_eq!(json["faults"][0]["form"], "text_only");
    }
}
