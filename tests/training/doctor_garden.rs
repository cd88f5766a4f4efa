//! Programs that fail for a planted reason, which doctor has to name first: `tests/garden/`.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use crate::common::card::Cards;
use crate::common::{Project, program, valid};
use serde_json::Value as Json;

/// A Python with PyTorch, on a CUDA runtime without a card.
static PYTHON: LazyLock<String> = LazyLock::new(|| {
    let script = format!("{}/tests/standin/python.sh", crate::ROOT);
    let mut command = Command::new("bash");
    let made = command
        .arg(script)
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    format!(
        "{}/bin/python3",
        String::from_utf8(made.stdout).unwrap().trim()
    )
});

/// Where a program uses a GPU.
const CARD: &str = "memory 600M\ncontext 16M";

/// What the head of a program says of itself.
struct Planted {
    file: PathBuf,
    head: Vec<(String, String)>,
}

impl Planted {
    fn read(name: &str) -> Planted {
        // As a person gives it: the frames of what lies below a directory of torch's are not one's own.
        let root = fs::canonicalize(crate::ROOT).unwrap();
        let file = root.join(format!("tests/garden/{name}.py"));
        let text = fs::read_to_string(&file).unwrap();
        let head = text.lines().map_while(|line| line.strip_prefix("# "));
        let pair = |line: &str| {
            let (key, value) = line.split_once(": ").unwrap_or((line, ""));
            (key.to_owned(), value.to_owned())
        };
        let head = head.map(pair).collect();
        Planted { file, head }
    }

    fn get(&self, key: &str) -> Option<&str> {
        let found = self.head.iter().find(|(k, _)| k == key);
        found.map(|(_, value)| value.as_str())
    }

    /// The shell's line that starts doctor in the world that the program is to fail in.
    fn line(&self, scratch: &Path) -> String {
        let mut line = String::new();
        let mount = |at: &Path, size: &str| {
            format!("mount -t tmpfs -o size={size} tmpfs {} && ", at.display())
        };
        let mounts = self
            .get("shared memory")
            .map(|size| mount(Path::new("/dev/shm"), size));
        let disk = scratch.join("disk");
        fs::create_dir_all(&disk).unwrap();
        line += &mounts.unwrap_or_default();
        line += &self
            .get("disk")
            .map(|size| mount(&disk, size))
            .unwrap_or_default();
        if let Some(kib) = self.get("memory") {
            let _ = write!(line, "ulimit -v {kib} && ");
        }
        if let Some(files) = self.get("files") {
            let _ = write!(line, "ulimit -n {files} && ");
        }
        if let Some(blocks) = self.get("file size") {
            let _ = write!(line, "ulimit -f {blocks} && ");
        }
        let variables = self.get("environment").unwrap_or_default();
        let library = self.get("library").map(|name| {
            fs::write(scratch.join(name), "not a library").unwrap();
            format!("LD_LIBRARY_PATH={}", scratch.display())
        });
        let library = library.unwrap_or_default();
        let arguments = self.get("arguments").unwrap_or_default();
        let today = self
            .get("today")
            .map(|_| "$(date +%Y-%m-%d)")
            .unwrap_or_default();
        let _ = write!(
            line,
            "exec env DISK={} {variables} {library} {} doctor --json --quiet --budget 4m --deadline 15s --run {} {} {arguments} {today}",
            disk.display(),
            program().display(),
            *PYTHON,
            self.file.display(),
        );
        line
    }
}

/// Starts doctor around a program and gives what it says of its runs.
fn examined(planted: &Planted) -> Json {
    let project = Project::empty();
    let scratch = tempfile::tempdir().unwrap();
    // Mounts are seen by this program alone.
    let own_mounts = ["unshare", "--mount", "sh", "-c"];
    let mounts = planted
        .get("shared memory")
        .or(planted.get("disk"))
        .is_some();
    let words = if mounts {
        &own_mounts[..]
    } else {
        &own_mounts[2..]
    };
    if let Some(arguments) = planted.get("earlier") {
        let mut run = Command::new(PYTHON.as_str());
        run.arg(&planted.file).args(arguments.split(' '));
        let run = run.current_dir(project.path()).output().unwrap();
        assert!(run.status.success(), "{run:?}");
    }
    let settings = planted.get("settings").unwrap_or_default();
    let settings = [CARD, &settings.replace(", ", "\n")].join("\n");
    let card = planted
        .get("card")
        .map(|rules| Cards::with(&settings, rules));
    let mut command = Command::new(words[0]);
    if let Some(card) = &card {
        command = card.given_to(command);
    }
    let output = command
        .args(&words[1..])
        .arg(planted.line(scratch.path()))
        .current_dir(project.path())
        .env_remove("LD_LIBRARY_PATH")
        .env("OMP_NUM_THREADS", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let answer: Json =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {said}"));
    assert_eq!(output.status.code(), Some(5), "{answer:#} {said}");
    valid("doctor", &answer);
    answer["run"].clone()
}

/// Appends what was found to the file that `TUNE_GARDEN` names, for the reliability table of docs/doctor.md.
fn record(name: &str, cause: &str, run: &Json) {
    let Some(path) = std::env::var_os("TUNE_GARDEN") else {
        return;
    };
    let line = serde_json::json!({
        "program": name, "cause": cause, "runs": run["runs"], "seconds": run["seconds"],
        "hypotheses": run["hypotheses"].as_array().unwrap().iter()
            .map(|h| serde_json::json!([h["cause"], h["probability"]])).collect::<Vec<_>>(),
    });
    let mut file = fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .unwrap();
    writeln!(file, "{line}").unwrap();
}

fn is_named_first(name: &str) {
    let planted = Planted::read(name);
    let run = examined(&planted);
    let cause = planted.get("cause").unwrap();
    record(name, cause, &run);
    let hypotheses = run["hypotheses"].as_array().unwrap();
    let told = || format!("{:#}", Json::Array(hypotheses.clone()));
    assert_eq!(hypotheses[0]["cause"], cause, "{}", told());
    assert!(
        hypotheses[0]["probability"].as_f64().unwrap() > 0.3,
        "{}",
        told()
    );
    if let Some(rows) = planted.get("rows") {
        let rows: Vec<u64> = rows.split(' ').map(|r| r.parse().unwrap()).collect();
        assert_eq!(run["rows"], Json::from(rows), "{}", told());
    }
    if let Some(part) = planted.get("hides") {
        let hidden = run["hidden"]["message"].as_str().unwrap_or_default();
        assert!(hidden.contains(part), "{:#}", run["hidden"]);
    }
    if let Some(part) = planted.get("says") {
        assert!(hypotheses[0].to_string().contains(part), "{}", told());
    }
}

#[test]
fn mistakes_that_raise_no_error_are_noted_with_their_lines_and_what_is_none_is_not() {
    let silent = silent_notes("silent_errors.py");
    let is_of_its_function = |note: &Json| {
        let (_, function) = note["line"].as_str().unwrap().split_once(" in ").unwrap();
        // The line of a wrong gradient, and that of rows that are drawn again, are their own.
        function.starts_with(note["kind"].as_str().unwrap())
            || ["backward", "__getitem__"].contains(&function)
    };
    assert!(silent.iter().all(is_of_its_function), "{silent:#?}");
    assert_eq!(silent.len(), 44, "{silent:#?}");
    assert_eq!(silent_notes("no_mistakes.py"), [] as [Json; 0]);
}

/// The mistakes that the start-up module notes of a program of the garden, which ends well.
fn silent_notes(program: &str) -> Vec<Json> {
    let (notes, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let output = Command::new(PYTHON.as_str())
        .arg(format!("{}/tests/garden/{program}", crate::ROOT))
        .current_dir(folder.path())
        .env("PYTHONPATH", format!("{}/src/doctor/startup", crate::ROOT))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("TUNE_DOCTOR_NOTES", notes.path())
        .env("TUNE_DOCTOR_CHANGE", "trace")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let noted = fs::read_to_string(notes.path().join("notes")).unwrap();
    let notes = noted
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    notes.filter(|n: &Json| n["what"] == "silent").collect()
}

#[test]
fn a_training_that_ends_well_is_looked_through_for_mistakes() {
    let project = Project::empty();
    let program = format!("{}/tests/garden/ends_well.py", crate::ROOT);
    let output = project
        .tune(&[
            "doctor", "--json", "--quiet", "--budget", "40s", "--run", &PYTHON, &program,
        ])
        .current_dir(project.path())
        .env("OMP_NUM_THREADS", "1")
        .output()
        .unwrap();
    let answer: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{answer:#}");
    valid("doctor", &answer);
    let run = &answer["run"];
    assert_eq!(
        (&run["answer"], &run["base"]["failed"]),
        (&"does_not_fail".into(), &0.into())
    );
    let first = &run["hypotheses"][0];
    assert_eq!(first["cause"], "silent_error", "{run:#}");
    let what = first["what"].as_str().unwrap();
    assert!(
        what.contains("the learning rate is 0, at ") && what.contains("ends_well.py:12"),
        "{what}"
    );
}

macro_rules! garden {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                is_named_first(stringify!($name));
            }
        )*

        #[test]
        fn every_program_has_its_test() {
            let tested = [$(stringify!($name)),*];
            let files = fs::read_dir(format!("{}/tests/garden", crate::ROOT)).unwrap();
            for file in files {
                let path = file.unwrap().path();
                let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
                let planted = path.extension().is_some_and(|e| e == "py")
                    && fs::read_to_string(&path).unwrap().starts_with("# cause: ");
                assert!(!planted || tested.contains(&name.as_str()), "{name}");
            }
            assert!(tested.len() >= 25);
        }
    };
}

garden! {
    abort_in_backward bce_nan card_cudnn card_hot card_kernel checkpoints_fill_the_disk clock crossed_locks deadlock descriptors endless_loop exp_overflow expired fork_after_threads full_disk gradients_kept half_a_checkpoint hash_order
    hides_a_module illegal_instruction import_side_effect label_out_of_range leak late_nan left_behind library_path limited_file
    loader_worker_corrupts loader_worker_deadlocks loader_worker_dies lock_taken_twice loss_wrong_shape memory_limit missing_argument missing_file nan_image
    native_stack no_network ocr_detector one_batch_size one_row onednn_kernel own_code port_in_use rare_crash removed_alias schedule_ends silent_broadcast small_shared_memory smaller_last_batch
    stale_cache stream_with_nan text_for_number third_party_thread token_beyond_vocabulary truncated_map two_options unequal_ranks unlucky_crop unlucky_seed value_of_nothing variable warnings_are_errors words_that_hide wrong_locale zero_distance
}
