//! Databases that somebody has edited, or that a program wrote which nobody knows: whatever stands in
//! a row, what reads it gives a right answer or a clear error, and never panics.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::OnceLock;

use crate::common::Project;
use adopt::{TaskRequirements, fit};
use config::points::{check_points, points_of_lines, space_of_trials};
use config::{Overrides, StudySpec, identity, resolve, space_of};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rusqlite::types::{ToSqlOutput, Value as Sql};
use rusqlite::{Connection, ToSql};
use search::pruner::PrunerSpec;
use search::pruner::{Horizon, pruner};
use search::sampler::SamplerSpec;
use search::sampler::{Ask, sampler};
use search::space::Params;
use search::study::carry::{Source, Target, carry};
use search::study::{FrozenTrial, History, TrialState, pareto, violation};
use serde_json::{Value as Json, json};
use store::Store;
use weights::Leader;

/// A study of the synthetic task with every state that a trial can be in, as the bytes of its file.
fn template() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let project = Project::synthetic();
        project.expect(0, &["synthetic", "--trials", "8"]);
        project.expect(0, &["enqueue", "synthetic", "optim.lr=0.01"]);
        {
            let conn = project.connect();
            let more = "UPDATE trials SET state = 'FAIL' WHERE number = 6;
                        DELETE FROM trial_values WHERE trial_id = 7;
                        PRAGMA wal_checkpoint(TRUNCATE);";
            conn.execute_batch(more).unwrap();
        }
        std::fs::read(project.database()).unwrap()
    })
}

/// The template in a directory, with these edits; those that the schema refuses are left out.
fn edited(dir: &Path, edits: &[Edit]) -> std::path::PathBuf {
    let path = dir.join("tune.db");
    std::fs::write(&path, template()).unwrap();
    let conn = Connection::open(&path).unwrap();
    let loose = "PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON;";
    conn.execute_batch(loose).unwrap();
    for edit in edits {
        let _ = conn.execute(edit.sql, (&edit.value, edit.row));
    }
    path
}

/// A statement; `?1` is the odd value, `?2` a row.
#[derive(Debug, Clone)]
struct Edit {
    sql: &'static str,
    value: Odd,
    row: i64,
}

#[derive(Debug, Clone)]
struct Odd(Sql);

impl ToSql for Odd {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        self.0.to_sql()
    }
}

macro_rules! attribute {
    ($table:literal, $key:literal) => {
        concat!(
            "INSERT OR REPLACE INTO trial_",
            $table,
            "_attributes (trial_id, \"key\", value_json) \
             VALUES (?2, '",
            $key,
            "', ?1)"
        )
    };
}

macro_rules! of_study {
    ($key:literal) => {
        concat!(
            "INSERT OR REPLACE INTO study_user_attributes (study_id, \"key\", value_json) \
             SELECT 1, '",
            $key,
            "', ?1 WHERE ?2 = ?2"
        )
    };
}

const JSON_COLUMNS: &[&str] = &[
    attribute!("system", "constraints"),
    attribute!("system", "constraints:0"),
    attribute!("system", "constraints:gpu_memory"),
    attribute!("system", "fixed_params"),
    attribute!("user", "infeasible"),
    attribute!("user", "adopted_params"),
    attribute!("user", "best_epoch"),
    attribute!("user", "seed"),
    attribute!("user", "runtime_s"),
    attribute!("user", "fault"),
    attribute!("user", "error_msg"),
    attribute!("user", "oom_config"),
    attribute!("user", "attempts"),
    attribute!("user", "point_from"),
    attribute!("user", "copied_from"),
    attribute!("user", "peak_memory_mb"),
    attribute!("user", "metric.loss"),
    of_study!("baseline"),
    of_study!("trials_goal"),
    of_study!("made_from"),
    of_study!("claimed"),
    of_study!("selection"),
    of_study!("metric"),
    of_study!("sampler_plan"),
    "UPDATE trial_params SET distribution_json = ?1 WHERE param_id % 7 = ?2",
    "UPDATE tune_studies SET identity_json = ?1 WHERE ?2 = ?2",
    "UPDATE tune_runs SET operation_json = ?1 WHERE ?2 = ?2",
    "UPDATE tune_runs SET command_json = ?1 WHERE ?2 = ?2",
];

const COLUMNS: &[&str] = &[
    "UPDATE trial_params SET param_value = ?1 WHERE param_id % 7 = ?2",
    "UPDATE trial_params SET param_name = ?1 WHERE param_id = ?2",
    "UPDATE trials SET state = ?1 WHERE trial_id = ?2",
    "UPDATE trials SET number = ?1 WHERE trial_id = ?2",
    "UPDATE trials SET datetime_start = ?1 WHERE trial_id = ?2",
    "UPDATE trials SET datetime_complete = ?1 WHERE trial_id = ?2",
    "UPDATE trial_values SET value = ?1 WHERE trial_id = ?2",
    "UPDATE trial_values SET value_type = ?1 WHERE trial_id = ?2",
    "INSERT INTO trial_values (trial_id, objective, value, value_type) VALUES (?2, 1, ?1, 'FINITE')",
    "UPDATE trial_intermediate_values SET intermediate_value = ?1 WHERE trial_id = ?2",
    "UPDATE trial_intermediate_values SET intermediate_value_type = ?1 WHERE trial_id = ?2",
    "UPDATE trial_intermediate_values SET step = ?1 WHERE trial_intermediate_value_id = ?2",
    "UPDATE study_directions SET direction = ?1 WHERE ?2 = ?2",
    "UPDATE studies SET study_name = ?1 WHERE ?2 = ?2",
    "UPDATE tune_runs SET started = ?1 WHERE ?2 = ?2",
    "UPDATE tune_runs SET exit_code = ?1 WHERE ?2 = ?2",
    "UPDATE tune_attempts SET outcome = ?1 WHERE trial_id = ?2",
    "UPDATE tune_attempts SET started = ?1 WHERE trial_id = ?2",
    "UPDATE tune_attempts SET ended = ?1 WHERE trial_id = ?2",
    "UPDATE tune_attempts SET log = ?1 WHERE trial_id = ?2",
    "UPDATE tune_attempts SET again = ?1 WHERE trial_id = ?2",
];

/// JSON as Python writes it, as a hostile hand does, and what is none.
fn odd_json() -> impl Strategy<Value = String> {
    let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    let fixed = [
        "NaN",
        "Infinity",
        "-Infinity",
        "null",
        "true",
        "[]",
        "{}",
        "0",
        "-1",
        "0.5",
        "1e999",
        "-1e999",
        "18446744073709551616",
        "-9223372036854775809",
        "\"NaN\"",
        "\"\\ud800\"",
        "\"\\u001b[2J\\u0000\"",
        "[NaN, 1, null]",
        "[-1.0, -Infinity]",
        "[[1], {\"a\": 2}]",
        "{\"a\": 1, \"a\": NaN}",
        "{\"optim.lr\": NaN, \"optim.name\": [1], \"x\": {}}",
        "{\"optim.lr\": 1e999, \"optim.name\": null}",
        "{\"value\": \"Infinity\", \"what\": 3}",
        "{\"study\": 3, \"number\": -1}",
        "",
        "nonsense",
        "{\"a\": }",
        "\"",
    ];
    let mut texts: Vec<String> = fixed.iter().map(|s| (*s).to_owned()).collect();
    texts.extend([
        nested(120),
        nested(200),
        nested(10_000),
        "9".repeat(400),
        format!("\"{}\"", "x".repeat(100_000)),
    ]);
    prop_oneof![
        6 => prop::sample::select(texts),
        3 => odd_distribution(),
        1 => "\\PC{0,20}",
    ]
}

fn odd_distribution() -> impl Strategy<Value = String> {
    let number = || {
        prop::sample::select(vec![
            "0",
            "1",
            "-1",
            "8",
            "0.5",
            "1e-320",
            "1e308",
            "-1e308",
            "NaN",
            "Infinity",
            "1e400",
            "null",
            "\"a\"",
            "true",
            "[]",
            "9223372036854775807",
            "-9223372036854775808",
            "9007199254740993",
        ])
    };
    let kind = prop::sample::select(vec![
        "Float",
        "Int",
        "Uniform",
        "LogUniform",
        "DiscreteUniform",
        "IntUniform",
        "IntLogUniform",
        "Other",
    ]);
    let log = prop::sample::select(vec!["true", "false", "null", "1"]);
    let range = (kind, number(), number(), number(), log).prop_map(|(kind, low, high, step, log)| {
        format!(
            r#"{{"name": "{kind}Distribution", "attributes": {{"low": {low}, "high": {high}, "step": {step}, "q": {step}, "log": {log}}}}}"#
        )
    });
    let choices = prop::sample::select(vec![
        "[]",
        "[NaN]",
        "[\"adam\"]",
        "[null, 1, 1.0, true]",
        "[[1]]",
        "{}",
        "[\"\\udc80\"]",
        "3",
    ]);
    let choices = choices.prop_map(|choices| {
        format!(r#"{{"name": "CategoricalDistribution", "attributes": {{"choices": {choices}}}}}"#)
    });
    prop_oneof![4 => range, 1 => choices]
}

fn odd_value() -> impl Strategy<Value = Sql> {
    prop_oneof![
        Just(Sql::Null),
        prop::sample::select(vec![
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::MAX,
            -0.0,
            0.5,
            -1.0,
            5e-324,
            1e19
        ])
        .prop_map(Sql::Real),
        prop::sample::select(vec![i64::MIN, i64::MAX, -1, 0, 1, 3, 1 << 53]).prop_map(Sql::Integer),
        prop::sample::select(vec![
            "COMPLETE",
            "WAITING",
            "RUNNING",
            "OOM",
            "FINITE",
            "INF_POS",
            "NAN",
            "MAXIMIZE",
            "",
            "9999-12-31 23:59:59.999999",
            "10000-01-01 00:00:00",
            "2026-02-30 25:61:00",
            "soon",
            "\u{1b}[2J\u{7f}\u{9b}31m",
            "optim.lr",
            "complete",
        ])
        .prop_map(|text| Sql::Text(text.to_owned())),
        Just(Sql::Blob(b"\xff\xfe\0".to_vec())),
        odd_json().prop_map(Sql::Text),
    ]
}

fn any_edit() -> impl Strategy<Value = Edit> {
    let json = (
        prop::sample::select(JSON_COLUMNS),
        odd_json().prop_map(Sql::Text),
    );
    let other = (prop::sample::select(COLUMNS), odd_value());
    (prop_oneof![3 => json, 1 => other], 0i64..10).prop_map(|((sql, value), row)| Edit {
        sql,
        value: Odd(value),
        row,
    })
}

/// Runs the same cases each time; `TUNE_ATTACKS=50` runs fifty times as many.
fn each_case<S: Strategy>(
    cases: u32,
    strategy: &S,
    test: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    // For a long search by hand.
    let times = std::env::var("TUNE_ATTACKS").map_or(1, |n| n.parse().unwrap());
    let config = Config {
        cases: cases * times,
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    TestRunner::new_with_rng(config, rng)
        .run(strategy, test)
        .unwrap();
}

/// What a search task asks.
struct Task {
    spec: StudySpec,
    prepared: config::Prepared,
}

impl Task {
    fn synthetic() -> Task {
        let shipped = Path::new(crate::ROOT).join("configs/synthetic.toml");
        let spec = resolve(&shipped, &Overrides::default()).unwrap();
        let prepared = task::Preparation::prepare(&task::synthetic::Synthetic, &spec).unwrap();
        Task { spec, prepared }
    }
}

/// Everything that decides something of trials that were read.
fn decide(
    task: &Task,
    study: &store::StudySummary,
    trials: &[FrozenTrial],
    was: Option<&serde_json::Map<String, Json>>,
) {
    let space = &task.spec.space;
    let mut history = History::new(study.directions.clone());
    for trial in trials {
        history.put(space, trial);
        let seen = history.get(trial.number).unwrap();
        assert_eq!(seen.feasible(), trial.feasible());
        assert!(!violation(trial).is_some_and(f64::is_nan));
        let leads = Leader::of(trial, study.directions.len()).is_some();
        assert!(trial.feasible() || !leads);
    }
    for kind in ["random", "tpe", "gp", "auto", "nsga2"] {
        let spec = SamplerSpec {
            kind: kind.to_owned(),
            options: Params::new(),
        };
        let mut sampler = sampler(&spec).unwrap();
        let ask = Ask {
            space,
            history: &history,
            number: 1000,
            seed: 1,
        };
        let point = sampler.suggest(&ask).unwrap();
        assert!(space.holds(&point), "{kind}: {point:?}");
    }
    let horizon = Horizon {
        max_step: Some(9),
        study: study.name.clone(),
    };
    for kind in ["auto", "median", "hyperband", "asha"] {
        let spec = PrunerSpec {
            kind: kind.to_owned(),
            options: Params::new(),
        };
        if let Some(mut pruner) = pruner(&spec, &horizon) {
            for entry in history.entries() {
                pruner.should_prune(&history, entry);
            }
        }
    }
    for best in pareto::front(&study.directions, trials) {
        assert!(best.feasible() && best.state == TrialState::Complete);
    }
    let shown = space_of_trials(trials);
    for parameter in &shown.parameters {
        parameter.domain.check().unwrap();
    }
    let lines = r#"{"optim.lr": 0.01, "model.layers": 3}"#;
    let given = points_of_lines(lines, Path::new("p"), &mut Vec::new());
    let _ = check_points(&shown, &given, Vec::new());
    let old = was.map(space_of);
    let presets = task.spec.effective(&Params::new());
    for comparable in [false, true] {
        let source = Source {
            study: &study.name,
            space: old.as_ref(),
            comparable,
            claimed: 2,
            directions: &study.directions,
            trials,
        };
        let target = Target {
            space,
            presets: &presets,
            first: &[],
        };
        for trial in carry(&[source], &target).0 {
            assert_ne!(trial.state, TrialState::Running);
        }
    }
    adopted(task, study, trials);
}

/// The same trials as a study of another program.
fn adopted(task: &Task, study: &store::StudySummary, trials: &[FrozenTrial]) {
    let mut trials = trials.to_vec();
    adopt::name_nulls(&mut trials);
    let program = adopt::sketched_program("value", study.direction());
    adopt::sketch(&study.name, &program, &trials);
    let asked = TaskRequirements::new(&task.spec, &task.prepared).unwrap();
    let assessment = adopt::assess(&trials, &asked);
    if let Some(best) = &assessment.values.best {
        assert!(
            trials
                .iter()
                .any(|t| t.number == best.number && t.feasible())
        );
    }
    let arrival = fit::Arrival {
        now: "2026-03-01 00:00:00.000000",
        alive: false,
        victims: &BTreeSet::new(),
    };
    for trial in &trials {
        let adopted = fit::adopted(trial, &asked, &arrival);
        assert!(trial.feasible() || !adopted.feasible());
    }
}

#[test]
fn whatever_stands_in_a_row_is_refused_in_words_or_decided_on() {
    let task = Task::synthetic();
    let _ = identity(&task.spec, &task.prepared);
    let decided = std::cell::Cell::new(0);
    let edits = prop::collection::vec(any_edit(), 1..4);
    each_case(160, &edits, |edits| {
        let dir = tempfile::tempdir().unwrap();
        let path = edited(dir.path(), &edits);
        let said = |error: store::StoreError| {
            let failure: messages::exit::Failure = error.into();
            prop_assert_ne!(failure.exit, messages::exit::Exit::Internal, "{}", failure);
            prop_assert!(failure.message.len() < 2_000, "{}", failure);
            prop_assert!(!failure.message.contains('\u{1b}'), "{:?}", failure.message);
            Ok(())
        };
        let store = match Store::open_read_only(&path) {
            Ok(store) => store,
            Err(error) => return said(error),
        };
        let study = match store.studies() {
            Ok(studies) => studies.into_iter().next().unwrap(),
            Err(error) => return said(error),
        };
        let id = study.study_id;
        let was = match store.identity(id) {
            Ok(was) => was,
            Err(error) => return said(error),
        };
        for read in [
            store.outlines(id).map(|_| ()),
            store.listing(id).map(|_| ()),
            store.all_attempts(id).map(|_| ()),
            store.points(id).map(|_| ()),
        ] {
            read.or_else(said)?;
        }
        match store.trials(id) {
            Ok(trials) => decide(&task, &study, &trials, was.as_ref()),
            Err(error) => return said(error),
        }
        decided.set(decided.get() + 1);
        Ok(())
    });
    // The odd rows must not all be such that nothing is read.
    assert!(decided.get() > 30, "{}", decided.get());
}

/// Runs a command on a database; its exit code and both outputs.
fn told(project: &Project, args: &[&str]) -> (i32, String, String) {
    let mut command = project.tune(args);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let init = json!({"op": "init", "protocol": 1, "seed": 1, "direction": "minimize", "n_evals": 9,
        "max_step": 9, "space": [{"name": "optim.lr", "type": "float", "low": 1e-5, "high": 1, "log": true}],
        "storage": project.database(), "study": "synthetic"});
    let lines = format!("{init}\n{{\"op\":\"ask\"}}\n");
    // Nobody else reads its input; one that has ended does not either.
    let _ = child.stdin.take().unwrap().write_all(lines.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = output.status.code().expect("no signal ends a command");
    (code, text(&output.stdout), text(&output.stderr))
}

/// All commands that read a database, the writing ones last.
const COMMANDS: [&[&str]; 11] = [
    &["list"],
    &["status", "--json"],
    &["best"],
    &["trials"],
    &["trials", "--csv"],
    &["show", "synthetic", "3"],
    &["memory"],
    &[
        "adopt",
        "SOURCE",
        "--task",
        "synthetic",
        "--as",
        "other",
        "--dry-run",
    ],
    &["ask-tell"],
    &["enqueue", "synthetic", "optim.lr=0.02"],
    &["synthetic", "--trials", "9", "--fork"],
];

fn survives(project: &Project, what: &dyn std::fmt::Debug) {
    let source = project.path().join("source.db");
    std::fs::copy(project.database(), &source).unwrap();
    for args in COMMANDS {
        let named = |arg: &&'static str| match *arg {
            "SOURCE" => source.to_str().unwrap().to_owned(),
            other => other.to_owned(),
        };
        let args: Vec<String> = args.iter().map(named).collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let (code, _, stderr) = told(project, &args);
        assert!(
            [0, 2, 5, 7, 8].contains(&code),
            "{args:?}: {code}\n{stderr}\n{what:?}"
        );
        for word in ["panicked", "RUST_BACKTRACE", "defect of"] {
            assert!(!stderr.contains(word), "{args:?}: {stderr}\n{what:?}");
        }
        assert_eq!(
            code != 0,
            stderr.contains("error: "),
            "{args:?}: {stderr}\n{what:?}"
        );
    }
}

fn project_with(edits: &[Edit]) -> Project {
    let project = Project::synthetic();
    edited(project.path(), edits);
    project
}

#[test]
fn no_command_panics_on_rows_that_somebody_has_edited() {
    each_case(2, &prop::collection::vec(any_edit(), 1..3), |edits| {
        survives(&project_with(&edits), &edits);
        Ok(())
    });
}

#[test]
fn a_distribution_that_is_none_is_told_with_its_trial_and_parameter() {
    for (attributes, found) in [
        (
            r#"{"low": 1, "high": 8, "log": false, "step": 0}"#,
            "found step = 0, expected at least 1",
        ),
        (
            r#"{"low": 8, "high": 1, "log": false, "step": 1}"#,
            "found low = 8 above high = 1",
        ),
        (
            r#"{"low": 0, "high": 8, "log": true, "step": 1}"#,
            "found low = 0 on a logarithmic scale",
        ),
    ] {
        let project = Project::synthetic();
        let text = format!(r#"{{"name": "IntDistribution", "attributes": {attributes}}}"#);
        edited(project.path(), &[]);
        let conn = project.connect();
        let sql = "UPDATE trial_params SET distribution_json = ?1 WHERE trial_id = 3 AND param_name = 'model.layers'";
        assert_eq!(conn.execute(sql, [&text]).unwrap(), 1);
        drop(conn);
        for args in [&["trials"][..], &["enqueue", "synthetic", "model.layers=4"]] {
            let (_, stderr) = project.expect(7, args);
            let named = format!(
                "parameter \"model.layers\" of trial 2 has a stored distribution that is none: {found}"
            );
            assert!(stderr.contains(&named), "{stderr}");
        }
    }
}

#[test]
fn a_trial_whose_constraints_are_infinite_nan_or_a_list_is_not_the_best() {
    for attrs in [
        ["constraints:memory", "Infinity"],
        ["constraints:memory", "NaN"],
        ["constraints", "[-1.0, 0.5]"],
        ["constraints", "[NaN]"],
        ["constraints", "null"],
    ] {
        let project = Project::synthetic();
        edited(project.path(), &[]);
        let best = |project: &Project| -> Json {
            let (stdout, _) = project.expect(0, &["best", "synthetic", "--json"]);
            serde_json::from_str(&stdout).unwrap()
        };
        let first = best(&project)["best"]["number"].as_i64().unwrap();
        let conn = project.connect();
        let sql = "INSERT INTO trial_system_attributes (trial_id, \"key\", value_json)
                   SELECT trial_id, ?1, ?2 FROM trials WHERE number = ?3";
        conn.execute(sql, (attrs[0], attrs[1], first)).unwrap();
        drop(conn);
        assert_ne!(best(&project)["best"]["number"], first, "{attrs:?}");
        // A run that goes on does not announce it either.
        let (stdout, _) = project.expect(0, &["synthetic", "--trials", "9", "--json"]);
        let last: Json = serde_json::from_str(stdout.lines().last().unwrap()).unwrap();
        assert_eq!(last["event"], "run_finished");
        assert_ne!(last["best"]["number"], first, "{attrs:?}");
    }
}
