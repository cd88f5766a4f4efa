//! Files that were made to do harm, given to the real binary: each ends in one clear error with exit code
//! 2, within seconds and with little memory, which the kernel bounds here. What is only decided (shapes,
//! limits, opcodes) is tested where it is decided.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::common::{Project, tiny};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::stat::Mode;
use rand::{RngExt, SeedableRng};
use serde_json::{Value as Json, json};

/// Memory that a process may write to, in bytes. The largest input below has 100 MB.
const MEMORY: u64 = 1 << 30;

/// Processor time, in seconds: many times what any of these needs, so that a loop ends, too.
const SECONDS: u64 = 120;

/// Bounds what the command may use.
fn bounded(command: &mut Command) -> &mut Command {
    // SAFETY: setrlimit is async-signal-safe and changes only the child.
    unsafe {
        command.pre_exec(|| {
            setrlimit(Resource::RLIMIT_DATA, MEMORY, MEMORY)?;
            setrlimit(Resource::RLIMIT_CPU, SECONDS, SECONDS)?;
            Ok(())
        })
    }
}

/// Runs within the bounds; requires this exit code and an error that says this, in few words.
fn ends(project: &Project, code: i32, args: &[&str], said: &str) {
    let mut child = bounded(&mut project.tune(args)).spawn().unwrap();
    // One pipe is enough: the other holds some lines at most.
    let (mut stderr, mut stdout) = (String::new(), String::new());
    let read = child.stderr.take().unwrap().read_to_string(&mut stderr);
    read.and(child.stdout.take().unwrap().read_to_string(&mut stdout))
        .unwrap();
    let status = child.wait().unwrap();
    assert_eq!(
        status.code(),
        Some(code),
        "tune {args:?}: {status}\n{stderr}"
    );
    assert!(stderr.contains(said), "{said:?} is missing in\n{stderr}");
    assert!(stderr.len() < 20_000, "{} bytes are told", stderr.len());
}

fn refused(project: &Project, said: &str) {
    ends(project, 2, &["check", "tiny"], said);
}

fn model(project: &Project, name: &str) -> std::path::PathBuf {
    project.path().join("model").join(name)
}

/// Changes a JSON file of the model.
fn edit(project: &Project, name: &str, change: impl FnOnce(&mut Json)) {
    let path = model(project, name);
    let mut json = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut json);
    fs::write(path, json.to_string()).unwrap();
}

fn rows(project: &Project, name: &str) -> std::path::PathBuf {
    let config = project.path().join("configs");
    project.config("tiny", &tiny::CONFIG.replace("rows.csv", name));
    config.join(name)
}

#[test]
fn a_configuration_cannot_make_the_lists_of_a_model_long() {
    let project = tiny::project(60);
    ends(&project, 0, &["check", "tiny"], "");
    for layers in [1_000_000_000u64, 1 << 62] {
        edit(&project, "config.json", |c| {
            c["num_hidden_layers"] = layers.into()
        });
        refused(&project, &format!("num_hidden_layers {layers}"));
    }
    edit(&project, "config.json", |c| {
        c["num_hidden_layers"] = 2.into();
        c["vocab_size"] = (1u64 << 62).into();
    });
    refused(&project, "vocab_size");
}

#[test]
fn a_text_of_100_megabytes_is_refused_with_its_row() {
    let project = tiny::project(60);
    for name in ["long.csv", "long.jsonl"] {
        let mut file = File::create(rows(&project, name)).unwrap();
        let (before, after) = match name {
            "long.csv" => ("text,status,post\na,0,1\n", ",1,2\n"),
            _ => (
                "{\"text\":\"a\",\"status\":0,\"post\":1}\n{\"text\":\"",
                "\"}\n",
            ),
        };
        file.write_all(before.as_bytes()).unwrap();
        for _ in 0..100 {
            file.write_all("good phone, bad one ".repeat(50_000).as_bytes())
                .unwrap();
        }
        file.write_all(after.as_bytes()).unwrap();
        refused(&project, "row 2: found more than 4 MiB");
    }
    let open = format!(
        "text,status,post\na,0,1\n\"{}",
        "b,1,2\n".repeat(10_000_000)
    );
    fs::write(rows(&project, "open.csv"), open).unwrap();
    refused(
        &project,
        "open.csv:3: row 2: found more than 4 MiB (an open quote?)",
    );
}

#[test]
fn many_texts_just_below_the_limit_are_made_into_tokens_within_the_bounds() {
    let project = tiny::project(60);
    let mut file = File::create(rows(&project, "large.csv")).unwrap();
    file.write_all(tiny::csv(60).as_bytes()).unwrap();
    let long = "good phone bad one ".repeat(200_000);
    for row in 0..6 {
        writeln!(file, "{row} {long},{},{}", row % 2, row + 900).unwrap();
    }
    ends(&project, 0, &["check", "tiny"], "");
}

#[test]
fn pipes_and_devices_in_the_place_of_files_are_refused_and_not_waited_for() {
    let project = tiny::project(60);
    let pipe = project.path().join("pipe");
    nix::unistd::mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    let config = project.path().join("configs/tiny.toml");
    for (source, said) in [
        (pipe.as_path(), "a pipe"),
        (Path::new("/dev/zero"), "a device"),
    ] {
        for (file, told) in [
            (config.clone(), "which is no file"),
            (project.path().join("configs/rows.csv"), said),
            (model(&project, "config.json"), said),
            (model(&project, "tokenizer.json"), "no tokenizer.json"),
            (model(&project, "model.safetensors"), "no model.safetensors"),
        ] {
            let aside = project.path().join("aside");
            fs::rename(&file, &aside).unwrap();
            symlink(source, &file).unwrap();
            refused(&project, told);
            fs::rename(&aside, &file).unwrap();
        }
        let source = source.to_str().unwrap();
        ends(
            &project,
            2,
            &["adopt", "--task", "tiny", source],
            "this is no file",
        );
        ends(&project, 2, &["enqueue", "tiny", "--file", source], "");
    }
    ends(
        &project,
        2,
        &["explain", "/dev/zero"],
        "a device, expected a regular file or a pipe",
    );
    ends(
        &project,
        2,
        &["explain", pipe.to_str().unwrap()],
        "is empty",
    );
}

#[test]
fn an_error_is_explained_from_a_pipe_of_the_shell() {
    let project = Project::empty();
    let said = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB";
    let script = format!("\"$0\" explain <(sleep 0.2; echo '{said}')");
    let mut command = Command::new("bash");
    let output = bounded(command.arg("-c").arg(script).arg(crate::common::program()))
        .current_dir(project.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("memory"));
}

#[test]
fn descriptions_of_tokenisers_that_explode_are_refused() {
    let project = tiny::project(60);
    let whole = fs::read(model(&project, "tokenizer.json")).unwrap();
    let doubling: Vec<Json> = (0..40)
        .map(|_| json!({"type": "Replace", "pattern": {"String": "o"}, "content": "oo"}))
        .collect();
    let unigram = |piece: String| json!({"type": "Unigram", "unk_id": 0, "vocab": [["[UNK]", 0.0], ["a", -1.0], [piece, -2.0]]});
    for (key, value, said) in [
        (
            "normalizer",
            json!({"type": "Sequence", "normalizers": doubling}),
            "times as long",
        ),
        // The library goes down a piece by recursion.
        (
            "model",
            unigram("ab".repeat(1_000_000)),
            "a piece of 2000000 bytes",
        ),
        (
            "model",
            json!({"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": [["a", "c"]]}),
            "tokenizer.json",
        ),
        (
            "pre_tokenizer",
            json!({"type": "Split", "pattern": {"Regex": "(((a{999}){999}){999}){999}"},
                "behavior": "Isolated", "invert": false}),
            "tokenizer.json",
        ),
        (
            "model",
            json!({"type": "WordLevel", "vocab": {"the": 4_000_000_000u32}}),
            "",
        ),
    ] {
        edit(&project, "tokenizer.json", |t| t[key] = value);
        refused(&project, said);
        fs::write(model(&project, "tokenizer.json"), &whole).unwrap();
    }
    // Backtracking without end is ended by the library.
    edit(&project, "tokenizer.json", |t| {
        t["pre_tokenizer"] = json!({"type": "Split", "pattern": {"Regex": r"(?:(\w+\s?)+)\1$"},
            "behavior": "Isolated", "invert": false});
    });
    let output = bounded(&mut project.tune(&["check", "tiny"]))
        .output()
        .unwrap();
    assert!(matches!(output.status.code(), Some(0 | 2)), "{output:?}");
    // Many added tokens are no harm.
    edit(&project, "tokenizer.json", |t| {
        let token = |n| {
            json!({"id": 100 + n, "content": format!("<t{n}>"), "special": true,
                "single_word": false, "lstrip": false, "rstrip": false, "normalized": false})
        };
        t["pre_tokenizer"] = json!({"type": "Whitespace"});
        t["added_tokens"] = (0..100_000).map(token).collect();
    });
    ends(&project, 0, &["check", "tiny"], "");
}

#[test]
fn archives_that_lie_about_their_sizes_are_refused() {
    let project = tiny::project(60);
    fs::remove_file(model(&project, "model.safetensors")).unwrap();
    let reference = Path::new(crate::ROOT).join("tests/reference/weights/zip.bin");
    let whole = fs::read(reference).unwrap();
    let path = model(&project, "pytorch_model.bin");
    fs::write(&path, &whole).unwrap();
    refused(&project, "pytorch_model.bin");
    // The sizes in the central directory, which follow its mark, the CRC and some flags.
    let entries: Vec<usize> = (0..whole.len() - 46)
        .filter(|at| whole[*at..].starts_with(b"PK\x01\x02"))
        .collect();
    assert!(entries.len() > 3);
    for at in entries {
        let mut lying = whole.clone();
        lying[at + 20..at + 28].copy_from_slice(&[0xff, 0xff, 0xff, 0x7f].repeat(2));
        fs::write(&path, &lying).unwrap();
        refused(&project, "pytorch_model.bin");
    }
}

#[test]
fn files_with_damaged_bytes_are_bad_input_or_whole_whatever_was_damaged() {
    let project = tiny::project(60);
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(7);
    // For a long search by hand.
    let times = std::env::var("TUNE_ATTACKS").map_or(1, |n| n.parse().unwrap());
    let files = [
        project.path().join("configs/rows.csv"),
        project.path().join("configs/tiny.toml"),
        model(&project, "config.json"),
        model(&project, "tokenizer.json"),
        model(&project, "model.safetensors"),
    ];
    for file in files {
        let whole = fs::read(&file).unwrap();
        for _ in 0..2 * times {
            let mut damaged = whole.clone();
            // Of weights the header alone can do harm.
            let reach = damaged.len().min(4000);
            for _ in 0..rng.random_range(1..6) {
                damaged[rng.random_range(0..reach)] = rng.random();
            }
            fs::write(&file, &damaged).unwrap();
            let output = bounded(&mut project.tune(&["check", "tiny"]))
                .output()
                .unwrap();
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            let place = file.display();
            assert!(
                matches!(output.status.code(), Some(0 | 2)),
                "{place}: {output:?}"
            );
            assert!(!told.contains("panicked"), "{place}: {told}");
        }
        fs::write(&file, &whole).unwrap();
    }
}
