//! Bad input and broken storage: one clear error, the documented exit code, nothing lost.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::common::{Project, results};

/// Takes from the child the right to write to read-only files, which root has.
fn without_override(command: &mut Command) -> &mut Command {
    const PR_CAPBSET_DROP: libc::c_int = 24;
    const CAP_DAC_OVERRIDE: libc::c_ulong = 1;
    // SAFETY: prctl is async-signal-safe and changes only the child.
    unsafe {
        command.pre_exec(|| {
            // Fails without effect where the user is not root and has no such right anyway.
            libc::prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0);
            Ok(())
        })
    }
}

fn integrity(project: &Project) -> String {
    project
        .connect()
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap()
}

#[test]
fn constraints_that_no_point_satisfies_are_bad_input_and_nothing_is_written() {
    let project = Project::empty();
    project.config(
        "tight",
        "[task]\nkind = \"synthetic\"\n\n[space]\n\
         \"model.layers\" = { low = 1, high = 8, int = true }\n\
         [[constraints]]\nexpr = \"model.layers > 8\"\n",
    );
    for args in [&["check", "tight"][..], &["tight", "--trials", "3"]] {
        let (stdout, stderr) = project.expect(2, args);
        assert_eq!(stdout, "");
        let said = "tight.toml:7: constraints[0]: found model.layers > 8: none of 10000 random";
        assert!(stderr.contains(said), "{stderr}");
    }
    assert!(!project.database().exists(), "nothing is written");
}

#[test]
fn all_problems_of_a_configuration_are_told_at_once_with_their_lines() {
    let project = Project::empty();
    project.config(
        "bad",
        "[task]\nkind = \"synthetic\"\n\n[train]\nepochs = \"many\"\nepochz = 3\n\n[space]\n\
         \"optim.lr\" = { low = 1.0, high = 0.1, log = true }\n\
         \"optim.nonsense\" = { low = 0, high = 1 }\n",
    );
    let (stdout, stderr) = project.expect(2, &["bad", "--trials", "3"]);
    assert_eq!(stdout, "");
    for part in [
        "bad.toml:5",
        "bad.toml:6",
        "bad.toml:9",
        "bad.toml:10",
        "epochs",
        "optim.nonsense",
    ] {
        assert!(stderr.contains(part), "{part} is missing in\n{stderr}");
    }
    assert!(!project.database().exists(), "nothing is written");
    project.expect(2, &["check", "bad"]);
}

#[test]
fn problems_of_the_data_are_told_with_those_of_the_configuration_that_cannot_be_their_reason() {
    let project = Project::empty();
    let rows = project.path().join("configs/rows.csv");
    fs::write(rows, "text,class\na,0\nb,1\n").unwrap();
    let text = |data: &str, more: &str| {
        format!(
            "[task]\nkind = \"text-classification\"\n[data]\n{data}\n[model]\nname = \"no\"\n{more}"
        )
    };
    let problems = |data: &str, more: &str| {
        project.config("t", &text(data, more));
        project.expect(2, &["check", "t"]).1
    };
    let both = problems("path = \"rows.csv\"", "[run]\nparallel = 0\n");
    for part in [
        "t.toml:8: run.parallel",
        "rows.csv",
        "label",
        "the model no",
    ] {
        assert!(both.contains(part), "{part} is missing in\n{both}");
    }
    let reason = problems("path = \"rows.csv\"\nlabl = \"class\"", "");
    assert!(
        reason.contains("data.labl") && !reason.contains("rows.csv"),
        "{reason}"
    );
}

#[test]
fn a_variable_and_a_parameter_that_nobody_reads_are_told_with_the_nearest_one() {
    let project = Project::empty();
    let text = "[task]\nkind = \"command\"\nrun = [\"echo\", \"{lr}\"]\nvalue = \"(.*)\"\n\
                [objective]\ndirection = \"minimize\"\n[params]\nepochs = 3\n\
                [space]\nlr = { low = 0.1, high = 1.0 }\n";
    project.config("t", text);
    let (_, stderr) = project.expect(2, &["t", "--trials", "1", "--set", "params.epoch=4"]);
    assert!(stderr.contains("(did you mean epochs?)"), "{stderr}");
    assert!(!project.database().exists(), "nothing is written");
    let mut check = project.tune(&["check", "t", "--set", "params.epochs=4"]);
    let told = check.env("HPO_EPOCH", "3").output().unwrap();
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    let warning = "the environment has HPO_EPOCH, which tune does not read";
    assert!(
        told.contains(warning) && told.contains("did you mean HPO_EPOCHS?"),
        "{told}"
    );
}

#[test]
fn an_unknown_task_and_an_unknown_study_list_what_there_is() {
    let project = Project::synthetic();
    let (_, stderr) = project.expect(2, &["synthetik", "--trials", "1"]);
    assert!(stderr.contains("synthetic"), "{stderr}");
    project.expect(0, &["synthetic", "--trials", "1"]);
    let (_, stderr) = project.expect(2, &["best", "nothing"]);
    assert!(stderr.contains("synthetic"), "{stderr}");
    project.expect(2, &["synthetic", "--trials", "none"]);
    project.expect(2, &["synthetic", "--no-such-flag"]);
}

#[test]
fn names_that_are_none_are_refused_before_anything_is_asked_of_a_server() {
    let project = Project::synthetic();
    let long = "x".repeat(300);
    for name in [" ", ".", "../x", "-n", &long] {
        let asked = ["status", "--storage", "postgresql://me@localhost:1/studies"];
        let mut status = project.tune(&asked);
        let output = status.env("TUNE_NODE", name).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains("TUNE_NODE: found \""), "{told}");
        assert!(told.len() < 200, "{told}");
        let study = format!("--study={name}");
        let (_, told) = project.expect(2, &["synthetic", &study]);
        assert!(told.contains("study.name: found \""), "{told}");
        assert!(told.len() < 300, "{told}");
    }
}

#[test]
fn a_database_that_only_a_task_names_is_told_of() {
    let project = Project::synthetic();
    let text = fs::read_to_string(project.path().join("configs/synthetic.toml")).unwrap();
    let named = format!("{text}\n[storage]\nurl = \"postgresql://me@db/studies\"\n");
    project.config("cc", &named);
    let says = "configs/cc.toml keeps its studies on postgresql://me@db/studies: give --storage";
    let (_, told) = project.expect(7, &["status", "cc"]);
    assert!(told.contains(says), "{told}");
    let (_, told) = project.expect(0, &["list"]);
    assert!(told.contains(says), "{told}");
}

#[test]
fn a_task_named_like_a_subcommand_is_refused() {
    let project = Project::synthetic();
    let text = fs::read_to_string(project.path().join("configs/synthetic.toml")).unwrap();
    project.config("status", &text);
    let (_, stderr) = project.expect(2, &["./configs/status.toml", "--trials", "1"]);
    assert!(stderr.contains("status"), "{stderr}");
}

#[test]
fn a_full_disk_is_one_error_and_the_database_stays_whole() {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "5"]);
    let before = results(&project.trials("synthetic"));
    // A file-size limit: writes beyond 300 KiB fail, as on a full disk.
    let output = Command::new("sh")
        .arg("-c")
        .arg("ulimit -f 600; exec \"$0\" \"$@\"")
        .arg(crate::common::program())
        .arg("-C")
        .arg(project.path())
        .args(["synthetic", "--trials", "5000"])
        .args(["--set", "supervisor.storage_patience=1s"])
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{stderr}");
    assert!(stderr.contains("tune.db"), "{stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
    assert_eq!(integrity(&project), "ok");
    let after = project.trials("synthetic");
    assert_eq!(results(&after)[..5], before[..]);
    assert!(
        after.len() > 5,
        "what was durable before the disk was full is there"
    );
    assert!(project.workers().is_empty());
    let goal = (after.len() + 3).to_string();
    project.expect(0, &["synthetic", "--trials", &goal]);
}

#[test]
fn a_read_only_database_is_one_error_and_queries_still_work() {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "3"]);
    let database = project.database();
    fs::set_permissions(&database, fs::Permissions::from_mode(0o444)).unwrap();
    let output = without_override(&mut project.tune(&["synthetic", "--trials", "9"]))
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{stderr}");
    assert!(stderr.contains("tune.db"), "{stderr}");
    let output = without_override(&mut project.tune(&["best", "synthetic"]))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    fs::set_permissions(&database, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(project.trials("synthetic").len(), 3);
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_as_it_is() {
    let project = Project::synthetic();
    let text = "dear diary, ".repeat(1000);
    fs::write(project.database(), &text).unwrap();
    let (_, stderr) = project.expect(7, &["synthetic", "--trials", "1"]);
    assert!(stderr.contains("tune.db"), "{stderr}");
    assert_eq!(fs::read_to_string(project.database()).unwrap(), text);
}

#[test]
fn a_missing_device_is_said_before_anything_is_written() {
    let project = Project::synthetic();
    let (_, stderr) = project.expect(9, &["synthetic", "--trials", "1", "--device", "cuda:63"]);
    assert!(stderr.contains("--device"), "{stderr}");
    assert!(!project.database().exists());
}

#[test]
fn trials_of_another_program_are_not_reclaimed() {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "2"]);
    project
        .connect()
        .execute(
            "INSERT INTO trials (number, study_id, state, datetime_start) \
             SELECT 2, study_id, 'RUNNING', '2026-01-01 00:00:00.000000' FROM studies",
            [],
        )
        .unwrap();
    project.expect(0, &["synthetic", "--trials", "4"]);
    let trials = project.trials("synthetic");
    assert_eq!(trials.len(), 5);
    assert_eq!(trials[2]["state"], "RUNNING");
    assert!(
        trials[3..]
            .iter()
            .all(|t| t["state"] == "COMPLETE" || t["state"] == "PRUNED")
    );
}

#[test]
fn a_copy_of_a_task_file_in_another_directory_is_the_same_task() {
    let (first, second) = (Project::synthetic(), Project::synthetic());
    let storage = first.database();
    let storage = storage.to_str().unwrap();
    let told = |project: &Project, trials: &str| {
        let asked = ["synthetic", "--trials", trials, "--storage", storage];
        let (out, told) = project.expect(0, &asked);
        out + &told
    };
    told(&first, "1");
    let text = told(&second, "2");
    assert!(!text.contains("was last run for"), "{text}");
    let file = first.path().join("configs/synthetic.toml");
    let config = fs::read_to_string(&file).unwrap();
    fs::write(&file, config + "# Another one.\n").unwrap();
    let text = told(&first, "3");
    assert!(text.contains("was last run for"), "{text}");
}
