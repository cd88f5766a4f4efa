//! `--notify`: the commands of docs/overnight.md, with programs in the place of `mail` and `curl` that note what they got.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value as Json;

use crate::common::Project;

/// The commands that the page shows behind `--notify`.
fn examples() -> Vec<String> {
    let page = fs::read_to_string(format!("{}/docs/overnight.md", crate::ROOT)).unwrap();
    let lines = page
        .lines()
        .filter_map(|line| line.strip_prefix("$ tune criteria --notify "));
    let words = lines.map(|line| shlex::split(line).unwrap().remove(0));
    words.collect()
}

#[test]
fn the_examples_of_the_documentation_tell_the_end() {
    let examples = examples();
    assert_eq!(examples.len(), 3, "{examples:?}");
    for (example, program) in examples.iter().zip(["mail", "curl", "curl"]) {
        let project = Project::synthetic();
        let bin = project.path().join("bin");
        fs::create_dir(&bin).unwrap();
        let got = project.path().join("got");
        let script = format!(
            "#!/bin/sh\n{{ printf '%s\\n' \"$@\"; echo ---; cat; echo; }} >> {}\n",
            got.display()
        );
        let path = bin.join(program);
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let run = ["synthetic", "--trials", "3", "--notify", example];
        let mut command = project.tune(&run);
        let usual = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{usual}", bin.display()));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let got = fs::read_to_string(&got).unwrap();
        assert!(
            got.contains("synthetic ended: the goal is reached; 3 trials finished, best loss "),
            "{example}: {got}"
        );
    }
}

#[test]
fn the_command_gets_events_as_the_json_output_has_them_and_a_failing_one_is_told() {
    let project = Project::synthetic();
    let got = project.path().join("got");
    let note = format!("cat >> {}; exit 3", got.display());
    let (_, error) = project.expect(0, &["synthetic", "--trials", "3", "--notify", &note]);
    assert!(error.contains("it failed (exit status: 3)"), "{error}");
    let got = fs::read_to_string(&got).unwrap();
    let events: Vec<Json> = got
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let schema =
        fs::read_to_string(format!("{}/docs/schemas/event.schema.json", crate::ROOT)).unwrap();
    let schema = jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap();
    events
        .iter()
        .for_each(|event| assert!(schema.is_valid(event), "{event:#}"));
    let last = events.last().unwrap();
    assert_eq!(
        (&last["event"], &last["exit"]),
        (&"run_finished".into(), &0.into())
    );
}
