//! A first task file, the place of its studies, and a script that changes.

use std::path::Path;
use std::process::{Command, Output};

use crate::common::Project;
use serde_json::Value as Json;

const SCRIPT: &str = "import sys\nlr = float(sys.argv[2])\nfor epoch in range(3):\n    \
                      print(f'epoch {epoch}: train_loss=0.5 val_f1={1 - lr - 0.1 / (epoch + 1):.4f}')\n";

/// `tune` in a directory, with a home of its own and no project named.
fn tune(home: &Path, dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(crate::common::program());
    for name in ["TUNE_HOME", "HPO_OUTDIR", "HPO_EPOCHS", "HPO_PATIENCE"] {
        command.env_remove(name);
    }
    command.env("HOME", home).current_dir(dir).args(args);
    command.output().unwrap()
}

/// Runs it, and requires this exit code; both outputs.
fn expect(code: i32, home: &Path, dir: &Path, args: &[&str]) -> String {
    let output = tune(home, dir, args);
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "tune {args:?}\n{text}");
    text
}

#[test]
fn a_script_becomes_a_study_in_two_commands() {
    let home = tempfile::tempdir().unwrap();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("train.py"), SCRIPT).unwrap();
    let init = ["init", "--script", "python3 train.py --lr {lr}"];
    let made = expect(0, home.path(), dir.path(), &init);
    assert!(made.contains("passes tune check"), "{made}");
    let file = std::fs::read_to_string(dir.path().join("configs/train.toml")).unwrap();
    assert!(file.contains("metric = 'val_f1'"), "{file}");
    let text = expect(0, home.path(), dir.path(), &["train", "--trials", "3"]);
    let database = dir.path().canonicalize().unwrap().join("tune.db");
    let told = format!("database: {}", database.display());
    assert_eq!(
        text.matches(&told).count(),
        2,
        "at the start and at the end: {text}"
    );
    let best: Json =
        serde_json::from_str(&expect(0, home.path(), dir.path(), &["best", "--json"])).unwrap();
    assert!(best["best"]["value"].as_f64().unwrap() > 0.8, "{best}");
    // A second one of that name is refused, and leaves the first as it is.
    let again = expect(2, home.path(), dir.path(), &init);
    assert!(again.contains("there already"), "{again}");
}

#[test]
fn what_cannot_become_a_task_writes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let dir = tempfile::tempdir().unwrap();
    for (script, part) in [
        (
            "python3 -c 'print(3); raise SystemExit(2)' --lr {lr}",
            "status 2",
        ),
        ("echo nothing to see --lr {lr}", "no value"),
        ("echo val=0.5", "{lr}"),
        ("no-such-program --lr {lr}", "no-such-program"),
        ("echo val_f1=nan {lr}", "no finite value (val_f1=nan"),
    ] {
        let text = expect(2, home.path(), dir.path(), &["init", "--script", script]);
        assert!(text.contains(part), "{text}");
    }
    let text = expect(2, home.path(), dir.path(), &["init"]);
    assert!(text.contains("--csv"), "{text}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_table_without_texts_becomes_a_task_that_passes_check() {
    let home = tempfile::tempdir().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, head: &str, row: &dyn Fn(usize) -> String| {
        let rows: String = (0..120).map(row).collect();
        std::fs::write(dir.path().join(name), format!("{head}\n{rows}")).unwrap();
    };
    let town = |i: usize| ["Graz", "Linz", "Wien"][i % 3];
    write("flats.csv", "row_id,town,rooms,price", &|i| {
        format!("{i},{},{},{}.5\n", town(i), i % 6, i * 7 % 101)
    });
    write("numbers.csv", "a,b,label\n", &|i| {
        format!("{},{}.5,{}\n", i * 7 % 13, i % 5, i % 2)
    });
    for (file, problem, embedding) in [
        ("flats.csv", "regression", true),
        ("numbers.csv", "classification", false),
    ] {
        expect(0, home.path(), dir.path(), &["init", "--csv", file]);
        let name = file.trim_end_matches(".csv");
        let task = std::fs::read_to_string(dir.path().join(format!("configs/{name}.toml")));
        let task = task.unwrap();
        assert!(task.contains(&format!("problem = \"{problem}\"")), "{task}");
        assert_eq!(task.contains("model.embedding"), embedding, "{task}");
        assert_eq!(task.contains("ignore = [\"row_id\"]"), embedding, "{task}");
    }
    // Numbers that no model reads as such are no names of rows: what to do is told, and checked.
    write("commas.csv", "price,label", &|i| {
        format!("\"{i},5\",{}\n", i % 2)
    });
    let text = expect(0, home.path(), dir.path(), &["init", "--csv", "commas.csv"]);
    assert!(
        text.contains("look at this first: the numbers of price"),
        "{text}"
    );
    let task = std::fs::read_to_string(dir.path().join("configs/commas.toml")).unwrap();
    assert!(!task.contains("ignore = [\"price"), "{task}");
    let text = expect(0, home.path(), dir.path(), &["check", "commas"]);
    assert!(text.contains("the column price holds numbers"), "{text}");
    let text = expect(
        2,
        home.path(),
        dir.path(),
        &["init", "x", "--csv", "flats.csv", "--hf", "m"],
    );
    assert!(
        text.contains("no column of flats.csv looks like texts"),
        "{text}"
    );
}

#[test]
fn a_script_is_seen_whatever_it_does() {
    let home = tempfile::tempdir().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    let init = |code: i32, args: &[&str]| {
        expect(code, home.path(), dir.path(), &[&["init"], args].concat())
    };
    // Coloured, with an end in a child that lives on, and more lines than are kept.
    write(
        "t.sh",
        "i=0; while [ $i -lt 11000 ]; do echo line; i=$((i+1)); done\n\
         printf '\\033[32mF1: 0.77\\033[0m\\n'; sleep 300.25 &\n",
    );
    let started = std::time::Instant::now();
    init(0, &["--script", "sh t.sh --lr {lr}"]);
    assert!(
        started.elapsed().as_secs() < 60,
        "waited for what holds its output"
    );
    let file = std::fs::read_to_string(dir.path().join("configs/t.toml")).unwrap();
    assert!(
        file.contains("metric = 'F1'") && !file.contains('\u{1b}'),
        "{file}"
    );
    // On standard error, and with a name that does not tell which way is better.
    let text = init(
        2,
        &["e", "--script", "sh -c 'echo val_f1=0.7 >&2' --lr {lr}"],
    );
    assert!(text.contains("standard error (val_f1=0.7)"), "{text}");
    let text = init(0, &["q", "--script", "echo dev_quux=0.7 --lr {lr} | cat"]);
    assert!(
        text.contains("whether a larger dev_quux is better"),
        "{text}"
    );
    let file = std::fs::read_to_string(dir.path().join("configs/q.toml")).unwrap();
    assert!(
        file.contains("\"sh\", \"-c\""),
        "a pipe wants a shell: {file}"
    );
    // From elsewhere, the commands say which project.
    let other = tempfile::tempdir().unwrap();
    let there = dir.path().display().to_string();
    let args = [
        "-C",
        &there,
        "init",
        "far",
        "--no-run",
        "--script",
        "echo --lr {lr}",
    ];
    let text = expect(0, home.path(), other.path(), &args);
    assert!(
        text.contains(&format!("tune -C {there} check far")),
        "{text}"
    );
    // What is refused is refused before the program runs.
    let text = init(2, &["q", "--script", "touch ran --lr {lr}"]);
    assert!(
        text.contains("there already") && !dir.path().join("ran").exists(),
        "{text}"
    );
}

#[test]
fn a_line_for_a_shell_is_watched_and_its_values_are_no_part_of_it() {
    let home = tempfile::tempdir().unwrap();
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("pkg")).unwrap();
    std::fs::write(dir.path().join("pkg/m.py"), SCRIPT).unwrap();
    let script = "import sys\nprint('acc=0.5, f1=0.25', len(sys.argv[2]))\n";
    std::fs::write(dir.path().join("tr.py"), script).unwrap();
    let init = |name: &str, script: &str| {
        expect(
            0,
            home.path(),
            dir.path(),
            &["init", name, "--script", script],
        )
    };
    let text = init("shell", "A=1 python3 tr.py --opt {opt} && true");
    assert!(text.contains("wrote configs/shell.toml"), "{text}");
    assert!(
        text.contains("the value is acc; the program also prints f1"),
        "{text}"
    );
    init("module", "python3 -m pkg.m --lr {lr}");
    for (name, file) in [("shell", "tr.py"), ("module", "pkg/m.py")] {
        let text = expect(0, home.path(), dir.path(), &["check", name]);
        assert!(text.contains(&format!("watched        {file}\n")), "{text}");
    }
    let file = dir.path().join("configs/shell.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("# The program also prints f1"), "{text}");
    std::fs::write(&file, text.replace("adam", "ad am; touch ran")).unwrap();
    expect(0, home.path(), dir.path(), &["shell", "--trials", "1"]);
    assert!(
        !dir.path().join("ran").exists(),
        "a value was run as a command"
    );
}

#[test]
fn init_says_what_every_trial_would_say() {
    let home = tempfile::tempdir().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let init = |code: i32, args: &[&str]| {
        expect(code, home.path(), dir.path(), &[&["init"], args].concat())
    };
    let text = init(2, &["a", "--script", "echo perplexity: 1,234.5 --lr {lr}"]);
    assert!(text.contains("every trial would fail"), "{text}");
    assert!(!dir.path().join("configs").exists());
    init(0, &["b", "--script", "echo loss: 0.3s --lr {lr}"]);
    expect(0, home.path(), dir.path(), &["b", "--trials", "1"]);
    let text = init(0, &["c", "--no-run", "--script", "echo --lr {lr}"]);
    assert!(
        text.contains("look at this first: value in [task]"),
        "{text}"
    );
    // Whoever gives the file's name means that file.
    let args = ["init", "e.toml", "--script", "echo f1=0.5 --lr {lr}"];
    let text = expect(0, home.path(), dir.path(), &args);
    assert!(text.contains("wrote configs/e.toml, which"), "{text}");
    assert!(text.contains("\n  tune check e\n"), "{text}");
    // A directory of a project is not one of its own.
    let below = dir.path().join("below");
    std::fs::create_dir(&below).unwrap();
    let args = ["init", "d", "--script", "echo f1=0.5 --lr {lr}"];
    let text = expect(0, home.path(), &below, &args);
    let told = format!(
        "this is in the project {}",
        dir.path().canonicalize().unwrap().display()
    );
    assert!(text.contains(&told), "{text}");
}

#[test]
fn a_script_that_is_the_users_is_not_replaced() {
    let home = tempfile::tempdir().unwrap();
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "4"]);
    let dir = tempfile::tempdir().unwrap();
    let database = project.database().display().to_string();
    let init = ["init", "old", "--optuna", &database, "--force"];
    expect(0, home.path(), dir.path(), &init);
    std::fs::write(dir.path().join("old_trial.py"), "mine").unwrap();
    expect(0, home.path(), dir.path(), &init);
    let kept = std::fs::read_to_string(dir.path().join("old_trial.py")).unwrap();
    assert_eq!(kept, "mine");
}

#[test]
fn an_optuna_study_becomes_a_task_that_passes_check() {
    let home = tempfile::tempdir().unwrap();
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "4"]);
    let dir = tempfile::tempdir().unwrap();
    let database = project.database().display().to_string();
    let init = ["init", "old", "--optuna", &database];
    let text = expect(0, home.path(), dir.path(), &init);
    assert!(text.contains("wrote also old_trial.py"), "{text}");
    let next = "next:\n  put what your objective does into old_trial.py\n";
    assert!(text.contains(next), "{text}");
    let text = expect(0, home.path(), dir.path(), &["check", "old"]);
    assert!(text.contains("optim.momentum"), "{text}");
    assert!(dir.path().join("old_trial.py").is_file());
    let url = format!("sqlite:///{database}");
    let init = ["init", "other", "--optuna", &url];
    let text = expect(0, home.path(), dir.path(), &init);
    assert!(text.contains("wrote configs/other.toml"), "{text}");
    let init = ["init", "third", "--optuna", "mysql://host/db"];
    let text = expect(2, home.path(), dir.path(), &init);
    assert!(text.contains("mysql cannot be read"), "{text}");
}

#[test]
fn a_task_given_as_a_path_keeps_its_studies_beside_it() {
    let home = tempfile::tempdir().unwrap();
    let shipped = Path::new(crate::ROOT).join("configs/synthetic.toml");
    let [one, two] = ["one", "two"].map(|name| home.path().join(name));
    for dir in [&one, &two] {
        std::fs::create_dir(dir).unwrap();
        std::fs::copy(&shipped, dir.join("mlp.toml")).unwrap();
    }
    // Another program's.
    std::fs::create_dir(home.path().join("configs")).unwrap();
    std::fs::write(home.path().join("configs/config.yaml"), "a: 1\n").unwrap();
    for dir in [&one, &two] {
        expect(
            0,
            home.path(),
            dir,
            &["./mlp.toml", "--trials", "2", "--quiet"],
        );
        assert!(dir.join("tune.db").is_file());
    }
    let far = one.join("mlp.toml").display().to_string();
    expect(0, home.path(), &two, &[&far, "--trials", "3", "--quiet"]);
    let trials = |dir: &Path| -> Vec<Json> {
        let text = expect(0, home.path(), dir, &["trials", "mlp", "--json"]);
        serde_json::from_str(&text).unwrap()
    };
    assert_eq!((trials(&one).len(), trials(&two).len()), (3, 2));
}

#[test]
fn a_study_that_was_kept_elsewhere_is_told_of() {
    let home = tempfile::tempdir().unwrap();
    let former = home.path().join(".local/share/tune");
    std::fs::create_dir_all(&former).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let shipped = Path::new(crate::ROOT).join("configs/synthetic.toml");
    std::fs::copy(&shipped, dir.path().join("mlp.toml")).unwrap();
    let there = former.display().to_string();
    expect(
        0,
        home.path(),
        dir.path(),
        &["-C", &there, "./mlp.toml", "--trials", "2"],
    );
    let text = expect(0, home.path(), dir.path(), &["./mlp.toml", "--trials", "2"]);
    let told = format!("tune -C {there} ./mlp.toml");
    assert!(
        text.contains(&told) && text.contains("with 2 trials"),
        "{text}"
    );
    // Once the new place has the study, there is nothing to choose any more.
    let text = expect(0, home.path(), dir.path(), &["./mlp.toml", "--trials", "3"]);
    assert!(!text.contains(&told), "{text}");
}

#[test]
fn a_program_of_which_no_trial_has_a_value_may_be_mended() {
    let project = Project::empty();
    let script = project.path().join("train.sh");
    std::fs::write(&script, "kill -SEGV $$").unwrap();
    project.config(
        "mine",
        "[task]\nkind = \"command\"\nrun = [\"sh\", \"train.sh\"]\nvalue = '([0-9.]+)'\n\
         [objective]\ndirection = \"maximize\"\n[space]\nlr = { low = 0.01, high = 0.1 }\n",
    );
    let run = ["mine", "--trials", "5"];
    project.expect(5, &run);
    let trials = project.trials("mine");
    assert_eq!(trials.len(), 3);
    assert!(trials.iter().all(|t| t["state"] == "PRUNED"));
    std::fs::write(&script, "echo 1").unwrap();
    project.expect(0, &run);
}

#[test]
fn a_changed_script_is_another_study_unless_the_change_does_not_matter() {
    let project = Project::empty();
    let script = project.path().join("train.py");
    std::fs::write(&script, SCRIPT).unwrap();
    project.config(
        "mine",
        "[task]\nkind = \"command\"\nrun = [\"python3\", \"train.py\", \"--lr\", \"{lr}\"]\n\
         value = 'val_f1=([0-9.]+)'\n[objective]\ndirection = \"maximize\"\n\
         [space]\nlr = { low = 0.01, high = 0.1 }\n",
    );
    project.expect(0, &["mine", "--trials", "2"]);
    std::fs::write(&script, format!("# a comment\n{SCRIPT}")).unwrap();
    let (_, stderr) = project.expect(8, &["mine", "--trials", "3"]);
    assert!(stderr.contains("train.py has changed"), "{stderr}");
    assert!(stderr.contains("--same-program"), "{stderr}");
    let (stdout, _) = project.expect(0, &["mine", "--trials", "3", "--same-program"]);
    assert!(
        stdout.contains("train.py has changed (task.run.train.py) since the study began"),
        "{stdout}"
    );
    // From now on the changed script is the study's.
    project.expect(0, &["mine", "--trials", "4"]);
    assert_eq!(project.trials("mine").len(), 4);
    // It does not hide other differences.
    std::fs::write(&script, SCRIPT).unwrap();
    let other = ["mine", "--trials", "5", "--same-program", "--seed", "9"];
    let (_, stderr) = project.expect(8, &other);
    assert!(stderr.contains("study.seed was 0; now it is 9"), "{stderr}");
}

#[test]
fn two_task_files_that_share_a_study_are_told_of_each_other() {
    let project = Project::synthetic();
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("synthetic.toml");
    let text = std::fs::read_to_string(project.path().join("configs/synthetic.toml")).unwrap();
    std::fs::write(&copy, &text).unwrap();
    project.expect(0, &["synthetic", "--trials", "2"]);
    let path = copy.display().to_string();
    // A copy, as nodes have one each, is the same task.
    let (stdout, _) = project.expect(0, &[&path, "--trials", "3"]);
    assert!(
        !stdout.contains("give this one a name of its own"),
        "{stdout}"
    );
    std::fs::write(&copy, format!("{text}\n# another one\n")).unwrap();
    project.expect(0, &["synthetic", "--trials", "4"]);
    let (stdout, _) = project.expect(0, &[&path, "--trials", "5"]);
    assert!(
        stdout.contains("give this one a name of its own"),
        "{stdout}"
    );
    let (stdout, _) = project.expect(0, &[&path, "--trials", "4"]);
    assert!(!stdout.contains("give this one a name"), "{stdout}");
}

/// Its own words are those of the run, whatever they hold; systemd finds nothing to complain about.
#[test]
fn systemd_takes_a_printed_unit_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("my sweeps, 100% $é");
    std::fs::create_dir_all(dir.join("configs")).unwrap();
    let shipped = Path::new(crate::ROOT).join("configs/synthetic.toml");
    std::fs::copy(&shipped, dir.join("configs/synthetic.toml")).unwrap();
    let lr = "space.optim.lr={low=1e-5, high=0.1, log=true}";
    let words = [
        "install-service",
        "synthetic",
        "--trials",
        "10",
        "--set",
        lr,
    ];
    let text = expect(0, home.path(), &dir, &words);
    let unit = home.path().join("tune-synthetic.service");
    std::fs::write(&unit, &text).unwrap();
    let verified = Command::new("systemd-analyze")
        .arg("verify")
        .arg(&unit)
        .output();
    let Ok(verified) = verified else {
        println!(
            "skipped: systemd_takes_a_printed_unit_as_it_is: there is no systemd-analyze here"
        );
        return;
    };
    let told = String::from_utf8_lossy(&verified.stderr).into_owned();
    let of_unit: Vec<&str> = told
        .lines()
        .filter(|line| line.contains("tune-synthetic"))
        .collect();
    assert!(
        verified.status.success() && of_unit.is_empty(),
        "{text}\n{told}"
    );
    // It would complain.
    std::fs::write(&unit, text.replace("WatchdogSec=5min", "WatchdogSec=soon")).unwrap();
    let verified = Command::new("systemd-analyze")
        .arg("verify")
        .arg(&unit)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&verified.stderr).into_owned();
    assert!(told.contains("tune-synthetic.service"), "{told}");
}

#[test]
fn a_script_in_a_directory_that_the_line_goes_to_is_watched() {
    let home = tempfile::tempdir().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("sub/t.py");
    std::fs::create_dir(dir.path().join("sub")).unwrap();
    std::fs::write(&script, SCRIPT).unwrap();
    let init = ["init", "--script", "cd sub && python3 t.py --lr {lr}"];
    expect(0, home.path(), dir.path(), &init);
    expect(0, home.path(), dir.path(), &["t", "--trials", "1"]);
    std::fs::write(&script, format!("# another\n{SCRIPT}")).unwrap();
    let text = expect(8, home.path(), dir.path(), &["t", "--trials", "2"]);
    assert!(text.contains("sub/t.py has changed"), "{text}");
}

#[test]
fn a_shell_completes_commands_and_options_and_man_has_a_page_of_each() {
    let project = Project::empty();
    let (script, _) = project.expect(0, &["completions", "bash"]);
    let file = project.path().join("completions");
    std::fs::write(&file, script).unwrap();
    let completed = |words: &str, word: &str, before: &str| {
        let at = words.split(' ').count() - 1;
        let line = format!(
            "source {}; COMP_WORDS=({words}); COMP_CWORD={at}; _tune tune '{word}' {before}; \
             echo ${{COMPREPLY[@]}}",
            file.display()
        );
        let output = std::process::Command::new("bash")
            .args(["-c", &line])
            .output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    assert_eq!(completed("tune str", "str", "tune"), "strike\n");
    assert_eq!(completed("tune trials --so", "--so", "trials"), "--sort\n");
    let sampler = completed("tune t --sampler tp", "tp", "--sampler");
    assert_eq!(sampler, "tpe\n");
    let pages = project.path().join("man1");
    project.expect(0, &["man", &pages.display().to_string()]);
    for page in ["tune.1", "tune-trials.1", "tune-doctor.1"] {
        let text = std::fs::read_to_string(pages.join(page)).unwrap();
        assert!(text.contains(".SH NAME"), "{page}");
    }
    assert!(!pages.join("tune-worker.1").exists());
}
