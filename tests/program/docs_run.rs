//! The commands of the documentation, run as they are printed: each does what its page says, or fails where the page
//! shows an error.
//!
//! What runs here needs no libtorch: `criteria` is a program that trains nothing. Goals are cut down to what is fast.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::program;

/// Goals of more trials than this are cut down to it.
const TRIALS: u64 = 40;

/// Commands that this test leaves to others, by how they begin, and why.
const ELSEWHERE: [(&str, &str); 13] = [
    (
        "tune criteria --metrics-file",
        "writes where root may: metrics_file.rs",
    ),
    ("tune criteria --notify", "tells people: notify.rs"),
    (
        "tune report criteria --open",
        "goes on until it is ended: tests/program/report.rs",
    ),
    ("tune drill", "takes a minute: the drill's own tests"),
    (
        "tune fetch",
        "needs the network: tests with a hub of their own",
    ),
    (
        "tune export criteria",
        "needs a trained model: tests/training",
    ),
    ("tune tabular", "trains with libtorch: tests/training"),
    ("tune detection", "trains with libtorch: tests/training"),
    (
        "tune export detection",
        "needs a trained model: tests/training",
    ),
    (
        "tune export tabular",
        "needs a trained model: tests/training",
    ),
    ("tune predict", "needs a trained model: tests/training"),
    ("tune evaluate", "needs a trained model: tests/training"),
    ("tune embed", "needs a model: tests/training"),
];

/// Programs beside `tune` that a page's lines may start; lines that start others are left out.
const SHELL: [&str; 6] = ["mkdir", "cp", "ls", "cat", "echo", "export"];

/// A page of which another test runs every line.
const ANOTHER_TEST: &str = "coming-from-optuna.md";

/// A line of a page, and whether the page shows that it fails.
#[derive(Debug)]
struct Line {
    place: String,
    text: String,
    fails: bool,
}

/// The blocks of a page that are typed: consoles, and crontabs with the command of each line.
fn blocks(page: &Path) -> Vec<Vec<Line>> {
    let text = std::fs::read_to_string(page).unwrap();
    let name = page.file_name().unwrap().to_string_lossy().into_owned();
    let mut blocks = Vec::new();
    let mut fence: Option<String> = None;
    let mut block: Vec<Line> = Vec::new();
    let mut goes_on = false;
    for (at, line) in text.lines().enumerate() {
        let place = format!("{name}:{}", at + 1);
        if let Some(kind) = line.trim_start().strip_prefix("```") {
            blocks.push(std::mem::take(&mut block));
            fence = fence.is_none().then(|| kind.to_owned());
            continue;
        }
        let typed = match fence.as_deref() {
            Some("console") => line.trim_start().strip_prefix("$ "),
            Some("cron") => line.split_once("*  ").map(|(_, command)| command.trim()),
            Some(_) | None => None,
        };
        if let (Some(last), true) = (block.last_mut(), goes_on) {
            last.text += &format!("\n{line}");
        } else if let Some(typed) = typed {
            block.push(Line {
                place,
                text: typed.to_owned(),
                fails: false,
            });
        } else if let Some(last) = block.last_mut() {
            last.fails |= line.starts_with("error: ");
        }
        goes_on = fence.as_deref() == Some("console") && line.ends_with('\\');
    }
    blocks.retain(|block| !block.is_empty());
    blocks
}

/// Whether a line is run here.
fn runs_here(line: &Line) -> bool {
    let text = line.text.trim_start();
    let first = text.split_whitespace().next().unwrap_or_default();
    let ours = first == "tune" || first.ends_with("/bin/tune");
    let left = ELSEWHERE.iter().any(|(begin, _)| text.starts_with(begin));
    ours && !left || SHELL.contains(&first)
}

/// A line with its goal cut down.
fn cut(text: &str) -> String {
    let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    for at in 1..words.len() {
        if words[at - 1] == "--trials"
            && let Ok(goal) = words[at].parse::<u64>()
        {
            words[at] = goal.min(TRIALS).to_string();
        }
    }
    words.join(" ")
}

/// What a page's reader has: a home with `tune` installed, and a directory with what the pages speak of.
struct Reader {
    dir: tempfile::TempDir,
}

const CRITERIA: &str = r#"
[task]
kind = "command"
run = ["sh", "criteria.sh", "{optim.lr}"]
dir = ".."
[objective]
metric = "macro_f1"
direction = "maximize"
[space]
"optim.lr" = { low = 1e-5, high = 1e-1, log = true }
"optim.name" = { choices = ["adam", "sgd"] }
"#;

/// One trial in seven fails.
const CRITERIA_SH: &str = r#"
[ $((TUNE_TRIAL % 7)) = 4 ] && { echo "ValueError: bad batch" >&2; exit 1; }
echo "{\"step\": 1, \"macro_f1\": 0.$((TUNE_TRIAL % 10)), \"accuracy\": 0.5}" >&$TUNE_METRICS_FD
"#;

const MINE: &str = r#"
[task]
kind = "command"
run = ["python", "train.py", "--lr", "{lr}"]
dir = ".."
value = 'val_f1=([0-9.]+)'
[objective]
metric = "val_f1"
direction = "maximize"
[space]
lr = { low = 1e-5, high = 1e-1, log = true }
"#;

const TRAIN_PY: &str = "import sys\nprint('epoch 5: train_loss=0.412 val_f1=0.71')\n";

impl Reader {
    fn new() -> Reader {
        let reader = Reader {
            dir: tempfile::tempdir().unwrap(),
        };
        let (home, here) = (reader.home(), reader.here());
        let bin = home.join(".local/bin");
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::create_dir_all(here.join("configs")).unwrap();
        // A link of another name would be another place.
        if std::fs::hard_link(program(), bin.join("tune")).is_err() {
            std::fs::copy(program(), bin.join("tune")).unwrap();
        }
        let python = Command::new("sh")
            .args(["-c", "command -v python3"])
            .output();
        let python = String::from_utf8(python.unwrap().stdout).unwrap();
        symlink(python.trim(), bin.join("python")).unwrap();
        reader.project(&here);
        reader.project(&home.join(".local/share/tune"));
        let rows: String = (0..40)
            .map(|i| format!("text number {i},{}\n", ["good", "bad"][i % 2]))
            .collect();
        std::fs::write(here.join("reviews.csv"), format!("text,label\n{rows}")).unwrap();
        std::fs::write(here.join("train.py"), TRAIN_PY).unwrap();
        for (name, direction) in [
            ("study.db", "MINIMIZE"),
            ("old.db", "MAXIMIZE"),
            ("optuna.db", "MINIMIZE"),
        ] {
            optuna_study(&here.join(name), direction);
        }
        // Models are fetched once for all tests.
        let cache = home.join(".cache/tune");
        std::fs::create_dir_all(&cache).unwrap();
        symlink(model_cache(), cache.join("models")).unwrap();
        reader
    }

    /// The tasks that the pages speak of.
    fn project(&self, dir: &Path) {
        let configs = dir.join("configs");
        std::fs::create_dir_all(&configs).unwrap();
        let shipped = Path::new(crate::ROOT).join("configs/synthetic.toml");
        std::fs::copy(shipped, configs.join("synthetic.toml")).unwrap();
        for (name, text) in [("criteria", CRITERIA), ("mine", MINE)] {
            std::fs::write(configs.join(format!("{name}.toml")), text).unwrap();
        }
        std::fs::write(dir.join("criteria.sh"), CRITERIA_SH).unwrap();
    }

    fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    fn here(&self) -> PathBuf {
        self.dir.path().join("here")
    }

    /// Runs a script as the reader; gives what it printed.
    fn sh(&self, script: &str, dir: &Path) -> String {
        let path = std::env::var("PATH").unwrap();
        let bin = self.home().join(".local/bin");
        let output = Command::new("sh")
            .args(["-c", script])
            .current_dir(dir)
            .env_clear()
            .env("HOME", self.home())
            .env("PATH", format!("{}:{path}", bin.display()))
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr)
    }

    /// Brings about what a page's reader has done before.
    fn before(&self, page: &str) {
        let here = self.here();
        let edit = |file: &str, from: &str, to: &str| {
            let path = here.join(file);
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(text.contains(from), "{file}");
            std::fs::write(&path, text.replace(from, to)).unwrap();
        };
        match page {
            "changing-a-study.md" => {
                self.sh("tune synthetic --trials 30", &here);
                edit(
                    "configs/synthetic.toml",
                    "high = 1.0, log",
                    "high = 0.1, log",
                );
                let bad = "{\"optim.lr\": 0.02, \"model.width\": 128}\n{\"optim.lr\": 3}\n";
                std::fs::write(here.join("points.jsonl"), bad).unwrap();
            }
            "coming-from-ray.md" | "coming-from-hyperopt.md" => {
                edit("configs/mine.toml", "\"val_f1\"", "\"loss\"");
                edit("configs/mine.toml", "maximize", "minimize");
                let results = self.home().join("ray_results");
                std::fs::create_dir(&results).unwrap();
                let experiment = Path::new(crate::ROOT).join("tests/data/ray-experiment");
                symlink(experiment, results.join("exp")).unwrap();
                let pickle = "tests/data/hyperopt/0.3.0-protocol-4.pkl";
                let pickle = Path::new(crate::ROOT).join(pickle);
                std::fs::copy(pickle, here.join("trials.pkl")).unwrap();
            }
            "coming-from-wandb.md" | "coming-from-nni.md" => {
                let runs = "Name,State,lr,val_f1\na,finished,0.01,0.5\nb,crashed,0.02,\n";
                std::fs::write(here.join("runs.csv"), runs).unwrap();
                std::fs::write(here.join("trials.csv"), "lr,reward\n0.01,0.5\n").unwrap();
            }
            "command.md" => {
                self.sh("tune mine --trials 3", &here);
                edit("train.py", "0.71", "0.72");
            }
            "daily-use.md" => {
                self.sh("tune criteria --trials 20", &here);
            }
            "memory.md" => {
                let task = std::fs::read_to_string(here.join("configs/synthetic.toml")).unwrap();
                std::fs::write(here.join("configs/t.toml"), task).unwrap();
                self.sh("tune t --trials 10", &here);
            }
            "overnight.md" => {
                let dir = self.home().join("sweeps");
                self.project(&dir);
                self.sh("tune -C ~/sweeps criteria --trials 3", &here);
            }
            _ => {}
        }
    }
}

/// A database of Optuna's with one study.
fn optuna_study(path: &Path, direction: &str) {
    let conn = rusqlite::Connection::open(path).unwrap();
    conn.execute_batch(include_str!("../data/optuna-example.sql"))
        .unwrap();
    conn.execute("DELETE FROM studies WHERE study_name = 'mo'", [])
        .unwrap();
    conn.execute("UPDATE study_directions SET direction = ?1", [direction])
        .unwrap();
}

/// Where `make model` puts models.
fn model_cache() -> PathBuf {
    let cache = std::env::var_os("TUNE_CACHE").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache/tune");
    cache.unwrap_or_else(home).join("models")
}

/// Runs a block; what is wrong with its lines.
fn run(reader: &Reader, block: &[Line]) -> Vec<String> {
    let codes = reader.dir.path().join("codes");
    let lines: Vec<&Line> = block.iter().filter(|line| runs_here(line)).collect();
    let mut script = String::new();
    for line in &lines {
        let text = cut(&line.text);
        // The line's own comment ends with it; what it printed before is the next one's to see.
        script += &format!(
            "{text}\n(code=$?; echo $code >> '{}'; exit $code)\n",
            codes.display()
        );
    }
    std::fs::write(&codes, "").unwrap();
    let from_cron = block.iter().any(|line| line.text.starts_with("~/"));
    let dir = if from_cron {
        reader.home()
    } else {
        reader.here()
    };
    let printed = reader.sh(&script, &dir);
    let codes = std::fs::read_to_string(&codes).unwrap();
    let codes: Vec<i32> = codes.lines().map(|code| code.parse().unwrap()).collect();
    assert_eq!(codes.len(), lines.len(), "{script}\n{printed}");
    let wrong = |(line, code): &(&&Line, i32)| (*code != 0) != line.fails;
    let with_codes = lines.iter().zip(codes).filter(wrong);
    with_codes
        .map(|(line, code)| format!("{}: {}\n    exit {code}\n{printed}", line.place, line.text))
        .collect()
}

#[test]
fn every_command_of_the_documentation_does_what_its_page_says() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for page in super::docs::pages() {
        let name = page.file_name().unwrap().to_string_lossy().into_owned();
        if name == ANOTHER_TEST {
            continue;
        }
        let blocks = blocks(&page);
        if !blocks.iter().flatten().any(runs_here) {
            continue;
        }
        let reader = Reader::new();
        reader.before(&name);
        for block in blocks {
            seen += block.iter().filter(|line| runs_here(line)).count();
            wrong.extend(run(&reader, &block));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 40, "found only {seen} commands");
}
