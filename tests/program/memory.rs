//! What trials use of memory, through the real binary: measured, kept apart from trial to trial,
//! explained by `tune memory`.

use crate::common::Project;
use serde_json::{Value as Json, json};

const MIB: u64 = 1 << 20;

/// A project with one task `t` of the synthetic kind that searches these values of the memory that a
/// trial holds, in MiB, beside a parameter that has nothing to do with it.
fn holding(values: &str) -> Project {
    let project = Project::empty();
    let config = format!(
        "[task]\nkind = \"synthetic\"\n[objective]\nmetric = \"loss\"\n[train]\nepochs = 1\n\
         [space]\n\"task.memory_mb\" = {{ choices = {values} }}\n\
         \"optim.momentum\" = {{ low = 0.1, high = 0.9 }}\n"
    );
    project.config("t", &config);
    project
}

fn memory(project: &Project, args: &[&str]) -> Json {
    let (printed, _) = project.expect(0, &[&["memory"], args, &["--json"]].concat());
    let json: Json = serde_json::from_str(&printed).unwrap();
    let schema: Json =
        serde_json::from_str(include_str!("../../docs/schemas/memory.schema.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(&json)
        .map(|e| e.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
    json
}

/// Of each trial's attempts, in order: what it held by its parameters, its peak, and what its process
/// held before; in bytes.
fn ledger(project: &Project, parameter: &str) -> Vec<(u64, u64, Option<u64>)> {
    let trials = project.trials("t");
    let conn = project.connect();
    let mut rows = conn
        .prepare(
            "SELECT t.number, m.resident, m.resident_before FROM tune_memory m
             JOIN trials t ON t.trial_id = m.trial_id ORDER BY t.number, m.attempt",
        )
        .unwrap();
    let rows = rows
        .query_map([], |row| {
            let number: usize = row.get(0)?;
            let held = trials[number]["params"][parameter].as_u64().unwrap();
            Ok((held * MIB, row.get(1)?, row.get(2)?))
        })
        .unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

#[test]
fn each_trial_is_charged_with_its_own_memory_and_not_with_an_earlier_ones() {
    let project = holding("[0, 24, 96, 200]");
    project.expect(0, &["t", "--trials", "40", "--sampler", "random"]);
    let ledger = ledger(&project, "task.memory_mb");
    assert_eq!(ledger.len(), 40, "a line an attempt");
    for (i, (held, peak, before)) in ledger.iter().enumerate() {
        let used = peak - before.unwrap();
        let off = used.abs_diff(*held);
        assert!(off < 6 * MIB, "trial {i} held {held}, was charged {used}");
    }
    let after_first = ledger[1].2.unwrap();
    let last = ledger[39].2.unwrap();
    assert!(last < after_first + 16 * MIB, "{after_first}, then {last}");

    let attrs = project.trials("t")[7]["attrs"]["peak_memory_mb"].clone();
    let peak = ledger[7].1 as f64 / MIB as f64;
    assert!((attrs.as_f64().unwrap() - peak).abs() < 0.01, "{attrs}");

    let json = memory(&project, &["t"]);
    assert_eq!(
        (&json["device"], &json["measured"]),
        (&json!("cpu"), &json!(40))
    );
    let factors = json["factors"].as_array().unwrap();
    assert_eq!(factors.len(), 1, "the other one explains nothing");
    assert_eq!(factors[0]["name"], "task.memory_mb");
    let groups: Vec<&Json> = factors[0]["groups"].as_array().unwrap().iter().collect();
    let values: Vec<&Json> = groups.iter().map(|g| &g["low"]).collect();
    assert_eq!(values, [&json!(0), &json!(24), &json!(96), &json!(200)]);
    let highest = &json["highest"][0];
    assert_eq!(highest["params"]["task.memory_mb"], 200);
    assert!(json["carries"]["largest"].as_u64().unwrap() >= 1);

    let (text, _) = project.expect(0, &["memory"]);
    for part in [
        "task.memory_mb explains",
        "fit at a time",
        "highest",
        "advice: ",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn of_a_program_its_own_peak_is_entered() {
    let project = Project::empty();
    let script = "dd if=/dev/zero of=/dev/null bs=\"$1\"M count=1 2> /dev/null; echo \"$1\"";
    std::fs::write(project.path().join("t.sh"), script).unwrap();
    project.config(
        "t",
        "task = { kind = \"command\", run = [\"sh\", \"t.sh\", \"{x}\"] }\n\
         objective = { direction = \"minimize\" }\n\
         space = { x = { choices = [300, 350] } }\n",
    );
    project.expect(0, &["t", "--trials", "6", "--sampler", "random"]);
    let ledger = ledger(&project, "x");
    assert_eq!(ledger.len(), 6);
    for (held, peak, _) in ledger {
        assert!(peak.abs_diff(held) < 8 * MIB, "{held} held, {peak} entered");
    }
    assert_eq!(memory(&project, &[])["measured"], 6);
}

#[test]
fn a_study_without_measurements_gets_one_clear_line() {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "2"]);
    let conn = project.connect();
    conn.execute("DELETE FROM tune_memory", []).unwrap();
    drop(conn);
    let (text, _) = project.expect(0, &["memory"]);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains("nothing was measured"), "{text}");
    let json = memory(&project, &["synthetic"]);
    assert_eq!(
        (&json["measured"], &json["advice"]),
        (&json!(0), &Json::Null)
    );
    let (_, error) = project.expect(2, &["memory", "nosuch"]);
    assert!(error.contains("nosuch"), "{error}");
}
