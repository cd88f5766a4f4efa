//! `tune simplify`: from the winner back to the defaults, through the real program.

use std::fs;

use crate::common::{Project, valid};
use serde_json::{Value as Json, json};

/// Eight numbers from 0 to 9 whose defaults are 0: `p2` and `p5` matter, and the seed adds a little.
fn study() -> Project {
    let project = Project::empty();
    let script =
        "echo $((100 * (9 - $TUNE_PARAM_P2) + 50 * (9 - $TUNE_PARAM_P5) + $TUNE_SEED % 7))\n";
    fs::write(project.path().join("t.sh"), script).unwrap();
    let numbers: String = (1..9)
        .map(|i| format!("p{i} = {{ low = 0, high = 9, int = true, default = 0 }}\n"))
        .collect();
    let task = "[task]\nkind = \"command\"\nrun = [\"sh\", \"t.sh\"]\n[objective]\ndirection = \"minimize\"\n";
    project.config("t", &format!("{task}[space]\n{numbers}"));
    project.expect(0, &["t", "--trials", "40", "--sampler", "random", "-q"]);
    project.expect(0, &["enqueue", "t", "p2=9", "p5=9", "p3=8", "p4=7"]);
    project.expect(0, &["t", "--trials", "41", "--sampler", "random", "-q"]);
    project
}

fn simplified(project: &Project, code: i32, more: &[&str]) -> Json {
    let line = [&["simplify", "t", "--json"][..], more].concat();
    let found: Json = serde_json::from_str(&project.expect(code, &line).0).unwrap();
    valid("simplify", &found);
    found
}

fn in_state<'a>(found: &'a Json, verdict: &str) -> Vec<&'a str> {
    let changes = found["changes"].as_array().unwrap().iter();
    let of = changes.filter(|c| c["verdict"] == verdict);
    of.map(|c| c["name"].as_str().unwrap()).collect()
}

#[test]
fn what_matters_stays_and_the_rest_goes_back() {
    let project = study();
    let found = simplified(&project, 0, &["--trainings", "100"]);
    assert_eq!(in_state(&found, "matters"), ["p2", "p5"], "{found}");
    assert_eq!(in_state(&found, "unknown"), [""; 0]);
    assert_eq!(found["params"]["p2"], 9);
    assert_eq!(found["params"]["p3"], 0);
    assert_eq!(found["outcome"], "whole");
    let before = project.expect(0, &["trials", "t", "--json"]).0;
    let (told, _) = project.expect(0, &["simplify", "t", "--trainings", "100"]);
    let sentence = format!(
        "2 of {} changes matter",
        found["changes"].as_array().unwrap().len()
    );
    assert!(told.contains(&sentence), "{told}");
    assert!(told.contains("enqueue t p1=0 p2=9 p3=0"), "{told}");
    assert_eq!(project.expect(0, &["trials", "t", "--json"]).0, before);
}

#[test]
fn trainings_that_are_used_up_leave_the_rest_as_it_is() {
    let project = study();
    let found = simplified(&project, 3, &["--trainings", "4"]);
    assert_eq!(found["trainings"], 4);
    assert!(!in_state(&found, "unknown").is_empty());
    for change in found["changes"].as_array().unwrap() {
        if change["verdict"] != "reset" {
            let name = change["name"].as_str().unwrap();
            assert_eq!(found["params"][name], change["value"], "{found}");
        }
    }
    let found = simplified(&project, 3, &["--trainings", "0"]);
    assert_eq!(found["loss"], json!(null));
    let (_, says) = project.expect(2, &["simplify", "none"]);
    assert!(says.contains("none"), "{says}");
}
