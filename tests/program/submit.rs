//! `tune submit --dry-run`: what would be submitted.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use serde_json::Value as Json;

use crate::common::{Project, program, valid};

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
fn odd_names_of_places_and_studies_are_written_as_each_engine_reads_them() {
    let project = Project::synthetic();
    let text = fs::read_to_string(project.path().join("configs/synthetic.toml")).unwrap();
    let dir = project.path().join("the \"odd\" #1");
    let task = dir.join("configs/sub/día 1.toml");
    fs::create_dir_all(task.parent().unwrap()).unwrap();
    fs::write(&task, format!("  {text}")).unwrap();
    let asked = |engine: &str, study: &str| {
        let mut submit = Command::new(program());
        submit
            .arg("submit")
            .arg(&task)
            .arg(format!("-qC{}", dir.display()));
        submit.args([
            "--study",
            study,
            "--storage",
            URL,
            "--dry-run",
            "--on",
            engine,
        ]);
        let output = submit
            .args(["--image", "i", "--", "--comment=a b"])
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{told}");
        String::from_utf8(output.stdout).unwrap()
    };
    let slurm = asked("slurm", "50 %a");
    must_be_bash(&slurm);
    assert!(slurm.contains("#SBATCH --job-name=tune-50--a-"), "{slurm}");
    assert!(
        slurm.contains("/the \\\"odd\\\" #1/tune.db.d/submitted/50 %%a-%a.log\"\n"),
        "{slurm}"
    );
    assert!(slurm.contains("#SBATCH \"--comment=a b\"\n"), "{slurm}");
    let run = slurm
        .lines()
        .find(|line| line.contains(" --grace "))
        .unwrap();
    assert_eq!(run.matches(" -C ").count(), 1, "{run}");
    assert!(run.contains(" -q ") && !run.contains("-qC"), "{run}");

    let pods = asked("kubernetes", "é");
    assert!(pods.contains("metadata: {name: tune-"), "{pods}");
    assert!(!pods.contains("name: tune-}"), "{pods}");
    assert!(
        pods.contains("items: [{key: task.toml, path: \"día 1.toml\"}]"),
        "{pods}"
    );
    assert!(
        pods.contains("command: [\"tune\", \"día 1\", \"-q\", "),
        "{pods}"
    );
    assert!(
        pods.contains("task.toml: \"  "),
        "a block would begin too deep: {pods}"
    );
    let long = asked("kubernetes", &"x".repeat(120));
    let name = long
        .lines()
        .find_map(|line| line.strip_prefix("metadata: {name: "))
        .unwrap();
    assert!(name.trim_end_matches('}').len() <= 45, "{name}");
}

/// A stand-in for Slurm's command.
fn sbatch(project: &Project, script: &str) {
    let file = project.path().join("bin/sbatch");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn scripts_are_told_what_was_submitted_and_a_refusal_is_no_defect_of_tune() {
    let project = Project::synthetic();
    let submit = |more: &[&str]| {
        let words = ["submit", "synthetic", "--on", "slurm"];
        let mut submit = project.tune(&[&words[..], more].concat());
        let path = std::env::var("PATH").unwrap();
        let bin = project.path().join("bin");
        submit.env("PATH", format!("{}:{path}", bin.display()));
        let output = submit.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (
            output.status.code(),
            text(output.stdout),
            text(output.stderr),
        )
    };
    sbatch(&project, "echo Submitted batch job 42 on cluster c1");
    let (code, out, told) = submit(&["--trials", "5", "--json"]);
    assert_eq!(code, Some(0), "{told}");
    let answer: Json = serde_json::from_str(&out).unwrap();
    valid("submit", &answer);
    assert_eq!(answer["job"], "42");
    let script = fs::read_to_string(answer["file"].as_str().unwrap()).unwrap();
    assert!(!script.contains("--json"), "{script}");

    let (_, out, _) = submit(&["--json", "--dry-run"]);
    let answer: Json = serde_json::from_str(&out).unwrap();
    valid("submit", &answer);
    assert!(answer["job"].is_null() && answer["text"].is_string());

    let (_, out, _) = submit(&["--with-postgres", "/data/my pg"]);
    assert!(
        out.contains("PGPASSFILE='/data/my pg/pgpass' tune -C "),
        "{out}"
    );

    sbatch(&project, "echo invalid partition specified >&2; exit 1");
    let (code, _, told) = submit(&[]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("the engine refuses the job"), "{told}");
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
        ("nope --on slurm", "there are: synthetic\n"),
        ("synthetic --on slurm --gpus -1", "-1 is not in 0..=1000"),
        (
            "synthetic --on slurm --storage postgresql://me@db/studies --with-postgres /x",
            "expected one of them",
        ),
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
