//! Programs as trials: the examples of the documentation, and what becomes of programs that fail.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Project, python, results, signal, wait_for};
use nix::sys::signal::Signal;
use serde_json::{Value as Json, json};

fn examples() -> PathBuf {
    Path::new(crate::ROOT).join("docs/examples")
}

/// The directory of a Python with Optuna and scikit-learn.
fn scikit_learn() -> PathBuf {
    let packages = ["optuna==5.0.0", "sqlalchemy>=2,<2.1", "scikit-learn==1.7.2"];
    let name = "optuna-5.0.0-scikit-learn-1.7.2";
    let python = python::venv(name, "optuna,sklearn", &packages);
    python.parent().unwrap().to_owned()
}

/// A project, and the command line of an example in it.
fn example(name: &str, more: &[&str]) -> (Project, Vec<String>) {
    let project = Project::empty();
    let file = examples().join(format!("{name}.toml"));
    let mut args = vec![file.to_string_lossy().into_owned()];
    args.extend(more.iter().map(|a| (*a).to_owned()));
    (project, args)
}

/// `tune` with an environment in which Python leaves no files beside the scripts.
fn tune(project: &Project, args: &[String]) -> Command {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut command = project.tune(&args);
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// Runs an example to its end; gives its trials and what was printed.
fn run_example(name: &str, more: &[&str]) -> (Project, Vec<Json>, String) {
    let (project, args) = example(name, more);
    let output = tune(&project, &args).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{printed}\n{errors}");
    let trials = project.trials(name);
    (project, trials, printed)
}

/// A project with one task `t` that runs a shell script; `more` is appended to its configuration.
pub(crate) fn shell(script: &str, more: &str) -> Project {
    let project = Project::empty();
    std::fs::write(project.path().join("t.sh"), script).unwrap();
    let config = format!(
        "[task]\nkind = \"command\"\nrun = [\"sh\", \"t.sh\", \"{{x}}\"]\n\
         [objective]\ndirection = \"minimize\"\n\
         [space]\nx = {{ low = 1, high = 8, int = true }}\n{more}"
    );
    project.config("t", &config);
    project
}

/// What is trained after a change would be another program's values.
#[test]
fn a_script_that_changes_while_its_run_is_on_ends_it_before_another_trial() {
    let script = ": > started; while [ ! -e go ]; do sleep 0.02; done; echo 1";
    let project = shell(script, "");
    let write = |name: &str, text: &str| std::fs::write(project.path().join(name), text).unwrap();
    let mut run = project.start(&["t", "--trials", "5"]);
    wait_for("a trial", || project.path().join("started").exists());
    // A shell reads its script while it runs it: what runs keeps the old file.
    write("new.sh", &script.replace("echo 1", "echo 2"));
    std::fs::rename(project.path().join("new.sh"), project.path().join("t.sh")).unwrap();
    wait_for("the run to hear of it", || {
        let logs = std::fs::read_dir(project.path().join("tune.db.d/logs/t")).unwrap();
        let texts = logs.filter_map(|log| std::fs::read_to_string(log.ok()?.path()).ok());
        texts
            .into_iter()
            .any(|text| text.contains("t.sh has changed while the run was on"))
    });
    write("go", "");
    assert_eq!(run.wait().unwrap().code(), Some(8));
    let trials = project.trials("t");
    assert_eq!((trials.len(), &trials[0]["value"]), (1, &json!(1.0)));
    project.expect(8, &["t", "--trials", "5"]);
    write("t.sh", script);
    project.expect(0, &["t", "--trials", "5"]);
}

/// The only trial of a run of one trial, and its attempts.
fn one_trial(project: &Project, args: &[&str]) -> Json {
    let all = [&["t", "--trials", "1", "--timeout", "60s"], args].concat();
    project.expect(0, &all);
    let trials = project.trials("t");
    assert_eq!(trials.len(), 1);
    trials[0].clone()
}

pub(crate) fn outcomes(trial: &Json) -> Vec<&str> {
    let attempts = trial["attempts"].as_array().unwrap();
    attempts
        .iter()
        .map(|a| a["outcome"].as_str().unwrap())
        .collect()
}

/// Processes whose command line is this.
fn processes(line: &[&str]) -> usize {
    let wanted = line.join("\0") + "\0";
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|e| std::fs::read(e.path().join("cmdline")).is_ok_and(|l| l == wanted.as_bytes()))
        .count()
}

#[test]
fn a_scikit_learn_script_beats_the_trivial_answer_and_goes_on_from_its_checkpoint() {
    let path = format!("{}:/usr/bin:/bin", scikit_learn().display());
    let goal = ["--trials", "4", "--seed", "1"];
    let (reference, args) = example("reviews", &goal);
    let output = tune(&reference, &args).env("PATH", &path).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let trials = reference.trials("reviews");
    let best = trials.iter().filter_map(|t| t["value"].as_f64());
    assert!(best.fold(0.0, f64::max) > 0.6);

    let (project, args) = example("reviews", &goal);
    let mut child = tune(&project, &args).env("PATH", &path).spawn().unwrap();
    let checkpoint = |n| {
        let dir = project.path().join("tune.db.d/checkpoints/reviews");
        dir.join(format!("trial-00000{n}/files/model.pickle"))
    };
    wait_for("a checkpoint", || {
        checkpoint(0).exists() || checkpoint(1).exists()
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let output = tune(&project, &args).env("PATH", &path).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let again = project.trials("reviews");
    assert_eq!(results(&again), results(&trials));
    let attempts: usize = again.iter().map(|t| outcomes(t).len()).sum();
    assert!(attempts > again.len(), "nothing was interrupted");
    assert!(
        !project
            .path()
            .join("tune.db.d/checkpoints/reviews/trial-000000")
            .exists()
    );
}

#[test]
fn a_device_side_assertion_is_tried_once_more_and_then_pruned_with_its_place() {
    let (project, trials, printed) = run_example("assert", &["--trials", "8", "--seed", "1"]);
    let (bad, good): (Vec<&Json>, Vec<&Json>) = trials
        .iter()
        .partition(|t| t["params"]["lr"].as_f64().unwrap() > 0.5);
    assert!(!bad.is_empty() && !good.is_empty());
    assert!(good.iter().all(|t| t["state"] == "COMPLETE"));
    for trial in &bad {
        assert_eq!(trial["state"], "PRUNED");
        assert_eq!(trial["attrs"]["cuda_error"], true);
        assert_eq!(trial["attrs"]["cuda_error_type"], "AcceleratorError");
        let place = trial["attrs"]["cuda_error_place"].as_str().unwrap();
        assert!(place.contains("Loss.cu:245"), "{place}");
        assert_eq!(outcomes(trial), ["cuda_sticky", "cuda_sticky"]);
    }
    assert!(printed.contains("as a suspect"), "{printed}");
    // The second attempt had blocking launches.
    let log = bad[0]["attempts"][1]["log"].as_str().unwrap();
    let log = std::fs::read_to_string(project.path().join("tune.db.d").join(log)).unwrap();
    assert!(log.contains("Assertion `t >= 0"), "{log}");
}

#[test]
fn a_program_that_hangs_is_ended_and_the_others_go_on() {
    let (_project, trials, _) = run_example("hang", &["--trials", "8", "--seed", "1"]);
    let hung: Vec<&Json> = trials
        .iter()
        .filter(|t| t["params"]["layers"] == 8)
        .collect();
    assert!(!hung.is_empty());
    for trial in hung {
        assert_eq!(trial["state"], "PRUNED");
        assert_eq!(trial["attrs"]["hang"], true);
        assert_eq!(outcomes(trial), ["hang", "hang"]);
    }
    assert!(trials.iter().filter(|t| t["state"] == "COMPLETE").count() > 4);
}

#[test]
fn what_programs_start_ends_with_them() {
    run_example("children", &["--trials", "4", "--parallel", "2"]);
    assert_eq!(processes(&["sleep", "100000.5"]), 0);
}

#[test]
fn a_shell_script_reports_steps_and_reads_the_answers() {
    let (_project, trials, _) = run_example("shell", &["--trials", "12"]);
    assert_eq!(trials.len(), 12);
    let complete: Vec<&Json> = trials.iter().filter(|t| t["state"] == "COMPLETE").collect();
    for trial in complete {
        let reports = trial["intermediate"].as_object().unwrap();
        assert_eq!(reports.len(), 5);
        assert_eq!(reports["5"], trial["value"]);
    }
}

#[test]
fn parameters_arrive_as_arguments_as_a_file_and_as_variables() {
    let project = Project::empty();
    project.config(
        "t",
        r#"
        [task]
        kind = "command"
        run = ["sh", "-c", 'cat "$TUNE_PARAMS_FILE"; echo; echo "$0 $TUNE_PARAM_OPTIM_NAME $TUNE_PARAM_EPOCHS"; echo 1', "{optim.lr}"]
        [objective]
        direction = "minimize"
        [params]
        epochs = 7
        [space]
        "optim.lr" = { low = 0.5, high = 0.5 }
        "optim.name" = { choices = ["plain words", "sgd"], default = "plain words" }
        "#,
    );
    let trial = one_trial(&project, &[]);
    assert_eq!(trial["value"], 1.0);
    let log = trial["attempts"][0]["log"].as_str().unwrap();
    let log = std::fs::read_to_string(project.path().join("tune.db.d").join(log)).unwrap();
    let printed = log.split_once("{\n").unwrap().1;
    assert!(printed.contains("\"epochs\": 7,\n"), "{log}");
    assert!(printed.contains("\"optim.lr\": 0.5"), "{log}");
    assert!(printed.contains("\n0.5 plain words 7\n"), "{log}");
}

#[test]
fn how_a_program_fails_decides_what_becomes_of_the_trial() {
    for (script, state, fault, attempts) in [
        ("echo wrong shape >&2; exit 3", "FAIL", "task_error", 1),
        ("kill -SEGV $$", "PRUNED", "crash", 2),
        ("kill -KILL $$", "PRUNED", "killed", 3),
        ("echo nan", "PRUNED", "diverged", 1),
        (
            "echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.'; exit 1",
            "PRUNED",
            "oom",
            2,
        ),
        ("echo no number at the end", "FAIL", "task_error", 1),
    ] {
        let project = shell(script, "");
        // A FAIL does not count: the breaker ends the run.
        let output = project.run(&["t", "--trials", "1", "--set", "supervisor.max_failures=1"]);
        let code = if state == "FAIL" { 5 } else { 0 };
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(code), "{script}: {printed}");
        let trial = &project.trials("t")[0];
        assert_eq!(trial["state"], state, "{script}");
        assert_eq!(trial["attrs"]["fault"], fault, "{script}");
        assert_eq!(outcomes(trial).len(), attempts, "{script}");
    }
}

#[test]
fn a_failure_says_what_the_program_said() {
    let project = shell("echo 'ValueError: shapes do not fit' >&2; exit 1", "");
    project.run(&["t", "--trials", "1", "--set", "supervisor.max_failures=1"]);
    let trial = &project.trials("t")[0];
    assert_eq!(trial["attrs"]["error_msg"], "ValueError: shapes do not fit");
    let detail = trial["attempts"][0]["detail"].as_str().unwrap();
    assert_eq!(
        detail,
        "the program exited with status 1: ValueError: shapes do not fit"
    );
}

#[test]
fn a_pruned_program_that_does_not_listen_is_ended() {
    // Reports to the file, never looks, and gets worse with every trial.
    let script = "for step in 1 2 3 4 5 6 7 8; do \
                  echo \"{\\\"step\\\": $step, \\\"value\\\": $TUNE_TRIAL}\" >>\"$TUNE_METRICS_FILE\"; \
                  sleep 0.3; done";
    let project = shell(
        script,
        "[supervisor]\ngrace = \"200ms\"\n[pruner]\nkind = \"median\"\nn_startup_trials = 1\n",
    );
    project.expect(0, &["t", "--trials", "3"]);
    let trials = project.trials("t");
    assert_eq!(trials[0]["state"], "COMPLETE");
    assert_eq!(trials[2]["state"], "PRUNED");
    assert!(trials[2]["intermediate"].as_object().unwrap().len() < 8);
}

#[test]
fn a_result_without_a_step_is_the_value_and_its_company_are_attributes() {
    let script = "echo '{\"step\": 1, \"value\": 5}' >&$TUNE_METRICS_FD\n\
                  echo '{\"value\": 9, \"seconds\": 2.5}' >&$TUNE_METRICS_FD\n";
    let trial = one_trial(&shell(script, ""), &[]);
    assert_eq!(trial["value"], 9.0);
    assert_eq!(trial["attrs"]["metric.seconds"], 2.5);
    assert_eq!(trial["intermediate"], json!({"1": 5.0}));
    // The last line of a program in a hurry has no end.
    let hurry = "printf '{\"value\": 2}' >>\"$TUNE_METRICS_FILE\"";
    assert_eq!(one_trial(&shell(hurry, ""), &[])["value"], 2.0);
    // Of steps alone the best counts, or the last.
    let steps = "for v in 5 3 4; do i=$((i+1)); \
                 echo \"{\\\"step\\\": $i, \\\"value\\\": $v}\" >&$TUNE_METRICS_FD; done";
    let best = one_trial(&shell(steps, ""), &[]);
    assert_eq!(best["value"], 3.0);
    assert_eq!(best["attrs"]["last_value"], 4.0);
    let last = one_trial(&shell(steps, ""), &["--set", "task.result=last"]);
    assert_eq!(last["value"], 4.0);
}

#[test]
fn a_line_that_is_no_metric_ends_the_trial_with_what_was_found() {
    let project = shell("echo hello >&$TUNE_METRICS_FD; sleep 100000.5", "");
    project.run(&["t", "--trials", "1", "--set", "supervisor.max_failures=1"]);
    let trial = &project.trials("t")[0];
    assert_eq!(trial["state"], "FAIL");
    let message = trial["attrs"]["error_msg"].as_str().unwrap();
    assert!(
        message.contains("\"hello\"") && message.contains("expected a JSON object"),
        "{message}"
    );
}

#[test]
fn a_stop_reaches_the_program_and_the_trial_goes_on_later() {
    let script = "trap 'echo saved >\"$TUNE_CHECKPOINT_DIR/state\"; exit 1' TERM\n\
                  if [ -e \"$TUNE_CHECKPOINT_DIR/state\" ]; then echo 5; exit; fi\n\
                  touch started; while :; do sleep 0.1; done\n";
    let project = shell(script, "");
    let child = project.start(&["t", "--trials", "1", "--grace", "0"]);
    wait_for("the program", || project.path().join("started").exists());
    signal(child.id(), Signal::SIGINT);
    let mut child = child;
    assert_eq!(child.wait().unwrap().code(), Some(4));
    let trial = one_trial(&project, &[]);
    assert_eq!(trial["value"], 5.0, "it went on from its checkpoint");
    assert_eq!(outcomes(&trial), ["interrupted", "completed"]);
}

#[test]
fn a_supervisor_that_is_killed_takes_its_programs_along() {
    let project = shell("setsid sleep 100000.25 & sleep 100000.25", "");
    let mut child = project.start(&["t", "--trials", "1"]);
    wait_for("the program", || processes(&["sleep", "100000.25"]) == 2);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for("its end", || processes(&["sleep", "100000.25"]) == 0);
}

#[test]
fn all_that_is_wrong_with_a_command_is_told_at_once() {
    let project = Project::empty();
    project.config(
        "t",
        r#"
        [task]
        kind = "command"
        run = ["no-such-program", "train.py", "{lrr}"]
        value = "f1=[0-9]+"
        files = ["none.csv"]
        [objective]
        direction = "minimize"
        [space]
        lr = { low = 0.0, high = 1.0 }
        a_b = { choices = [1, 2] }
        "a.b" = { choices = [1, 2] }
        "#,
    );
    let (_, error) = project.expect(2, &["t"]);
    for part in [
        "6 problems",
        "no program no-such-program",
        "no file train.py",
        "{lrr}, which is no parameter",
        "did you mean lr?",
        "without a group",
        "none.csv: No such file",
        "TUNE_PARAM_A_B",
    ] {
        assert!(error.contains(part), "{part} in\n{error}");
    }
    assert!(!project.database().exists());

    let text = "[task]\nkind = \"command\"\nrun = \"python train.py\"\n[tran]\nepochs = 3\n\
                [space]\nlr = { low = 0.0, high = 1.0 }\n";
    project.config("t", text);
    let (_, error) = project.expect(2, &["t"]);
    for part in [
        "task.run: found \"python train.py\", expected a list of strings",
        "objective.direction: found nothing, expected minimize or maximize",
        "tran: found an unknown section",
        "did you mean train?",
    ] {
        assert!(error.contains(part), "{part} in\n{error}");
    }

    // What is wrong with [space] and [objective] hides nothing of the program, and the parameters are known.
    let text = "[task]\nkind = \"command\"\nrun = [\"echo\", \"{lr}\", \"{bach}\"]\nvalue = \"f1=(\"\n\
                dir = \"nowhere\"\n[objective]\ndirection = \"sideways\"\n\
                [space]\nlr = { low = 1.0, high = 0.1 }\nbatch = { choices = [] }\n[run]\ntest = \"on\"\n";
    project.config("t", text);
    let (_, error) = project.expect(2, &["t"]);
    for part in [
        "7 problems",
        "t.toml:3: task.run: found {bach}, which is no parameter, expected one of batch, lr (did you mean batch?)",
        "t.toml:4: task.value: found 'f1=('",
        "t.toml:5: task.dir: found ",
        "t.toml:7: objective.direction: found \"sideways\"",
        "t.toml:9: lr: found low = 1.0 above high = 0.1",
        "t.toml:10: batch: found choices = an empty array",
        "t.toml:12: run.test: found a test of the winner",
    ] {
        assert!(error.contains(part), "{part} in\n{error}");
    }
}

#[test]
fn another_program_or_another_file_is_another_study() {
    let project = shell("echo $1", "");
    let file = project.path().join("data.csv");
    std::fs::write(&file, "1").unwrap();
    let with = ["t", "--trials", "2", "--set", "task.files=[\"data.csv\"]"];
    project.expect(0, &with);
    project.expect(0, &with);
    std::fs::write(&file, "2").unwrap();
    let (_, error) = project.expect(8, &with);
    assert!(error.contains("task.files.data.csv"), "{error}");
    std::fs::write(&file, "1").unwrap();
    let other = [&with[..], &["--set", "task.run=[\"sh\", \"t.sh\", \"3\"]"]].concat();
    let (_, error) = project.expect(8, &other);
    assert!(error.contains("task.run"), "{error}");
    // Where it runs is not what it is.
    let there = [&with[..], &["--set", "task.dir=.."]].concat();
    project.expect(0, &there);
}

#[test]
fn the_environment_of_peoples_scripts_sets_parameters() {
    let project = shell("echo $TUNE_PARAM_TRAIN_EPOCHS", "");
    let output = project
        .tune(&["t", "--trials", "1"])
        .env("HPO_EPOCHS", "5")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(project.trials("t")[0]["value"], 5.0);
    // Where the file has a name of its own for it, that is meant.
    let project = shell("echo $TUNE_PARAM_EPOCHS", "[params]\nepochs = 3\n");
    let output = project
        .tune(&["t", "--trials", "1"])
        .env("HPO_EPOCHS", "5")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(project.trials("t")[0]["value"], 5.0);
}

#[test]
fn a_process_without_environment_and_parents_ends_with_its_program() {
    let script = "env -i setsid sleep 100000.75 >/dev/null 2>&1 & wait_for=$!\n\
                  (env -i setsid sh -c 'sleep 100000.75 & sleep 100000.75' >/dev/null 2>&1 &)\n\
                  sleep 0.3; echo 1";
    let project = shell(script, "");
    one_trial(&project, &[]);
    assert_eq!(processes(&["sleep", "100000.75"]), 0);
}

#[test]
fn a_program_that_ends_itself_by_a_signal_does_not_run_for_ever() {
    let script = "echo '{\"step\": 1, \"value\": 5}' >&$TUNE_METRICS_FD\n\
                  read -r answer <&$TUNE_METRICS_FD; kill -TERM $$";
    let trial = one_trial(&shell(script, ""), &[]);
    assert_eq!(trial["state"], "PRUNED");
    assert_eq!(outcomes(&trial), ["killed", "killed", "killed"]);
}

#[test]
fn a_trial_of_a_program_can_be_replayed() {
    let project = shell("echo \"$1\"", "");
    let trial = one_trial(&project, &[]);
    let (out, _) = project.expect(0, &["replay", "t", "0", "--json"]);
    let replayed: Json = serde_json::from_str(&out).unwrap();
    assert_eq!(replayed["end"], "completed");
    assert_eq!(replayed["value"], trial["value"]);
}

#[test]
fn the_script_of_the_guide_comes_from_optuna_to_tune_and_optuna_reads_what_follows() {
    let path = format!("{}:/usr/bin:/bin", scikit_learn().display());
    let project = Project::empty();
    let there = examples().join("optuna");
    let python = |args: &[&str]| {
        let output = Command::new("python")
            .args(args)
            .current_dir(project.path())
            .env("PATH", &path)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("N_TRIALS_CRITERIA", "12")
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        String::from_utf8(output.stdout).unwrap()
    };
    python(&[there.join("tune_max.py").to_str().unwrap()]);
    let old = project.path().join("tune_max.db");
    let (sketch, _) = project.expect(0, &["adopt", old.to_str().unwrap(), "--sketch"]);
    project.config("sketch", &sketch.replace("train.py", "-V"));
    let (_, error) = project.expect(0, &["check", "sketch"]);
    assert!(sketch.contains("\"optim.alpha\" = {"), "{error}");

    let task = there.join("criteria-max.toml");
    let task = task.to_str().unwrap();
    let adopt = ["adopt", old.to_str().unwrap(), "--task", task];
    let output = project.tune(&adopt).env("PATH", &path).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{told}");
    for part in ["the CUDA context was lost at trial 3", "not read", "a seed"] {
        assert!(told.contains(part), "{told}");
    }
    let args = [task, "--trials", "20", "--parallel", "2"].map(str::to_owned);
    let output = tune(&project, &args).env("PATH", &path).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let trials = project.trials("criteria-max");
    assert_eq!(trials.len(), 20);
    for trial in &trials[12..] {
        let culprit = trial["params"]["loss.type"] == "focal";
        assert_eq!(trial["attrs"]["cuda_error"] == true, culprit, "{trial}");
        assert!(culprit || trial["attrs"]["attempts"] == 1, "{trial}");
    }
    let read = python(&[
        "-c",
        "import optuna; s = optuna.load_study(study_name='criteria-max', storage='sqlite:///tune.db')\n\
         print(len(s.trials), s.best_value)",
    ]);
    let best = trials.iter().filter(|t| t["state"] == "COMPLETE");
    let best = best
        .map(|t| t["value"].as_f64().unwrap())
        .fold(0.0, f64::max);
    assert_eq!(read.trim(), format!("20 {best}"));
}

#[test]
fn a_program_that_was_cut_short_after_its_last_step_has_its_result() {
    let script = "state=\"$TUNE_CHECKPOINT_DIR/state\"; [ -e \"$state\" ] && exit 0\n\
                  echo '{\"step\": 0, \"value\": 7}' >&$TUNE_METRICS_FD\n\
                  read -r answer <&$TUNE_METRICS_FD; touch \"$state\"; kill -KILL $$\n";
    let trial = one_trial(&shell(script, ""), &[]);
    assert_eq!(outcomes(&trial), ["killed", "completed"]);
    assert_eq!(trial["value"], 7.0);
    assert_eq!(trial["intermediate"], json!({"0": 7.0}));
}

#[test]
fn a_program_that_is_killed_within_a_line_was_killed() {
    let script = "printf '{\"step\": 1, \"val' >&$TUNE_METRICS_FD; kill -KILL $$";
    let trial = one_trial(&shell(script, ""), &[]);
    assert_eq!(outcomes(&trial), ["killed", "killed", "killed"]);
}
