//! `tune submit --dry-run`: what would be submitted.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::common::{Project, program};

/// What would be submitted, with the names of places that differ.
fn submitted(project: &Project, more: &[&str]) -> String {
    let asked = [
        "submit",
        "synthetic",
        "--trials",
        "500",
        "--nodes",
        "4",
        "--dry-run",
    ];
    let (text, told) = project.expect(0, &[&asked[..], more].concat());
    assert!(told.is_empty(), "{told}");
    let dir = project.path().canonicalize().unwrap();
    let text = text.replace(&*program().to_string_lossy(), "/bin/tune");
    let here = std::env::current_dir().unwrap();
    text.replace(&*dir.to_string_lossy(), "/project")
        .replace(&*project.path().to_string_lossy(), "/project")
        .replace(&format!("cd {}", here.display()), "cd /here")
}

/// Whether a shell can read it.
fn must_be_bash(script: &str) {
    let mut bash = Command::new("bash")
        .arg("-n")
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = bash.stdin.take().unwrap();
    input.write_all(script.as_bytes()).unwrap();
    drop(input);
    let output = bash.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && told.is_empty(),
        "{told}\n{script}"
    );
}

fn assert_as_before(name: &str, text: &str) {
    insta::with_settings!({
        snapshot_path => concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program/snapshots"),
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, { insta::assert_snapshot!(name, text) });
}

const URL: &str = "postgresql://me@db/studies";

#[test]
fn a_job_is_what_a_person_would_write() {
    let project = Project::synthetic();
    let slurm = [
        "--on",
        "slurm",
        "--time",
        "4h",
        "--gpus",
        "2",
        "--storage",
        URL,
    ];
    let slurm = submitted(&project, &[&slurm[..], &["--", "--partition=gpu"]].concat());
    must_be_bash(&slurm);
    assert_as_before("submit_slurm", &slurm);
    let own = [
        "--on",
        "hyperqueue",
        "--time=90m",
        "--with-postgres",
        "/data/pg",
    ];
    let hyperqueue = submitted(&project, &own);
    must_be_bash(&hyperqueue);
    assert_as_before("submit_hyperqueue", &hyperqueue);
    let pods = [
        "--on",
        "kubernetes",
        "--image",
        "registry/tune:1",
        "--gpus",
        "1",
    ];
    let pods = submitted(&project, &[&pods[..], &["--storage", URL]].concat());
    assert_as_before("submit_kubernetes", &pods);
}

#[test]
fn what_could_not_work_is_refused_before_anything_is_submitted() {
    let project = Project::synthetic();
    for (words, why) in [
        ("synthetic --nodes 2 --on slurm", "--with-postgres DIR"),
        ("synthetic --on slurm --time 1m", "at least 6m"),
        ("synthetic --on kubernetes", "--image"),
        (
            "synthetic --on kubernetes --with-postgres /x",
            "found kubernetes",
        ),
        ("synthetic --on slurm --trials none", "--trials none"),
        ("nothing --on slurm", "no task \"nothing\""),
        ("synthetic --on slurm --nodes many", "--nodes"),
    ] {
        let words: Vec<&str> = std::iter::once("submit").chain(words.split(' ')).collect();
        let (out, told) = project.expect(2, &words);
        assert!(told.contains(why) && out.is_empty(), "{words:?}: {told}");
    }
    assert!(
        !project.path().join("tune.db.d").exists(),
        "nothing was made"
    );
}
