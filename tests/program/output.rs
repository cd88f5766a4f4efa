//! All that people and scripts read, as it was when somebody last looked at it: `snapshots/` has it.
//! Where a change is meant, `INSTA_UPDATE=always cargo test -p tune --test program -- output::` writes it
//! anew, and the diff shows what users will see.

use crate::common::Project;

/// What differs from one run to the next, and what stands for it.
const VARYING: [(&str, &str); 12] = [
    (
        r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| UTC)",
        "[time]",
    ),
    (r"\d\d:\d\d:\d\dZ", "[time]"),
    (r" *\b\d+(\.\d+)? (ms|s|min)\b( {2,})?", " [duration] "),
    (r"\btime {2,}", "time  "),
    (r#"("{1,2}runtime_s"{1,2}: ?)[\d.e-]+"#, "${1}[seconds]"),
    (r#"("{1,2}peak_memory_mb"{1,2}: ?)[\d.]+"#, "${1}[MiB]"),
    (
        r"(runtime_s|peak_memory_mb)( +)[\d.e-]+",
        "${1}${2}[number]",
    ),
    (r#"("pid": ?)\d+"#, "${1}[pid]"),
    (r"\bpid \d+", "pid [pid]"),
    (r#""host": "[^"]*""#, r#""host": "[host]""#),
    (r#""/[^"\n]*/tune""#, r#""[program]""#),
    (r"/[^ \n]*/\.tmp\w+", "[project]"),
];

fn assert_as_before(name: &str, text: &str) {
    insta::with_settings!({
        filters => VARYING,
        snapshot_path => concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program/snapshots"),
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, { insta::assert_snapshot!(name, text) });
}

/// What commands write, with their exit codes, each below the command itself.
fn transcript(project: &Project, commands: &[&str]) -> String {
    let mut all = String::new();
    for command in commands {
        let args: Vec<&str> = command.split(' ').collect();
        let output = project.run(&args);
        let stdout = String::from_utf8(output.stdout).unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        let code = output.status.code().unwrap();
        all.push_str(&format!(
            "$ tune {command}\n{stdout}{stderr}[exit {code}]\n\n"
        ));
    }
    all
}

#[test]
fn the_help_of_every_command() {
    let project = Project::empty();
    let commands = [
        "--help",
        "list --help",
        "tasks --help",
        "status --help",
        "best --help",
        "trials --help",
        "show --help",
        "logs --help",
        "stop --help",
        "delete --help",
        "rename --help",
        "check --help",
        "explain --help",
        "drill --help",
        "replay --help",
        "adopt --help",
        "enqueue --help",
        "init --help",
        "install-service --help",
        "completions --help",
        "man --help",
        "strike --help",
        "ask-tell --help",
        "memory --help",
        "importance --help",
        "faults --help",
        "compare --help",
        "failures --help",
        "rehearse --help",
        "fetch --help",
        "embed --help",
        "export --help",
        "export-trials --help",
        "predict --help",
        "evaluate --help",
    ];
    assert_as_before("help", &transcript(&project, &commands));
}

/// One worker, so that trials end in the order in which they began.
const RUN: &str = "synthetic --trials 8 --parallel 1 --seed 3";

#[test]
fn a_run_and_what_is_asked_about_it() {
    let project = Project::synthetic();
    let events = format!("{RUN} --study events --json");
    assert_as_before("run", &transcript(&project, &[RUN, &events]));
    let text = [
        "list",
        "tasks",
        "status",
        "status synthetic",
        "best synthetic",
        "trials synthetic",
        "trials synthetic --top 3 --where optim.name=adam",
        "trials synthetic --csv",
        "show synthetic 3",
        "check synthetic",
        "enqueue synthetic --dry-run optim.lr=0.1",
    ];
    assert_as_before("text", &transcript(&project, &text));
    let json = text.map(|command| format!("{} --json", command.trim_end_matches(" --csv")));
    let json: Vec<&str> = json.iter().map(String::as_str).collect();
    assert_as_before("json", &transcript(&project, &json));
}

#[test]
fn what_is_wrong_with_a_command() {
    let project = Project::synthetic();
    project.expect(0, &RUN.split(' ').collect::<Vec<_>>());
    project.config("wrong", "[task]\nkind = \"synthetic\"\nsteps = 0\n[train]\nepoch = 3\n[space]\na = { low = 2, high = 1 }\n");
    let commands = [
        "bogus",
        "synthetic --trials 0",
        "synthetic --seed x",
        "wrong",
        "check wrong --json",
        "status nope",
        "best nope --json",
        "show synthetic 99",
        "show synthetic x",
        "synthetic --seed 4",
    ];
    assert_as_before("errors", &transcript(&project, &commands));
}
