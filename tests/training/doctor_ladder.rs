//! `tune doctor TASK` by the real program: a healthy task, and tasks and cards with a planted fault.

use std::fs;
use std::path::Path;

use crate::common::card::{Cards, Run};
use crate::common::{Project, tiny, valid};
use serde_json::Value as Json;

/// The ladder of `tiny`, in JSON.
fn ladder(project: &Project, code: i32, more: &[&str]) -> Json {
    ladder_of("tiny", project, code, more)
}

/// The ladder of a task, in JSON.
pub fn ladder_of(task: &str, project: &Project, code: i32, more: &[&str]) -> Json {
    let args = ["doctor", task, "--json", "--device", "cpu"];
    let output = project.run(&[&args[..], more].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    let answer: Json = serde_json::from_slice(&output.stdout).expect(&errors);
    // The machine has checks of its own, which may fail here.
    let machine = answer["machine"].as_array().unwrap();
    let machine = machine.iter().any(|check| check["outcome"] == "failed");
    let expected = if machine { 5 } else { code };
    assert_eq!(output.status.code(), Some(expected), "{answer:#}");
    valid("ladder", &answer["ladder"]);
    answer["ladder"].clone()
}

/// The same on cards of the stand-in, whatever it ends with.
fn on_cards(cards: &Cards, project: &Project) -> Json {
    let args = ["doctor", "tiny", "--json", "--device", "cuda:0"];
    let output = cards.given_to(project.tune(&args)).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let answer: Json = serde_json::from_slice(&output.stdout).expect(&errors);
    answer["ladder"].clone()
}

/// The rungs that failed.
pub fn failed(ladder: &Json) -> Vec<&str> {
    names(ladder, "failed")
}

pub fn names<'a>(ladder: &'a Json, outcome: &str) -> Vec<&'a str> {
    let steps = ladder["steps"].as_array().unwrap().iter();
    let found = steps.filter(|step| step["outcome"] == outcome);
    found.map(|step| step["name"].as_str().unwrap()).collect()
}

pub fn evidence<'a>(ladder: &'a Json, name: &str) -> &'a str {
    let steps = ladder["steps"].as_array().unwrap();
    let step = steps.iter().find(|step| step["name"] == name);
    step.unwrap_or_else(|| panic!("no {name}: {ladder:#}"))["evidence"]
        .as_str()
        .unwrap()
}

/// Writes other numbers into a row of the checkpoint's table of words.
fn word_vector(model: &Path, id: usize, value: f32) {
    let path = model.join("model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    let head = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let about: Json = serde_json::from_slice(&bytes[8..8 + head]).unwrap();
    let table = &about["embeddings.word_embeddings.weight"];
    let begin = 8 + head + table["data_offsets"][0].as_u64().unwrap() as usize;
    let width = table["shape"][1].as_u64().unwrap() as usize;
    for at in 0..width {
        let place = begin + 4 * (id * width + at);
        bytes[place..place + 4].copy_from_slice(&value.to_le_bytes());
    }
    fs::write(path, bytes).unwrap();
}

#[test]
fn of_a_healthy_task_no_rung_fails_and_what_needs_a_gpu_is_skipped_by_name() {
    let project = tiny::project(120);
    let ladder = ladder(&project, 0, &[]);
    assert_eq!(failed(&ladder), Vec::<&str>::new(), "{ladder:#}");
    assert_eq!(ladder["first_failed"], Json::Null);
    assert_eq!(
        names(&ladder, "not_run"),
        ["expandable_segments", "uncached", "longest_kernel"]
    );
    assert_eq!(evidence(&ladder, "uncached"), "no GPU");
    let passed = names(&ladder, "passed");
    for rung in [
        "environment",
        "convolution",
        "memory",
        "model",
        "loss.synthetic.ce",
        "loss.real.ce",
        "backward.head",
        "backward.layer.1",
        "backward.embeddings",
        "loader.0",
        "pipeline.synthetic",
        "pipeline",
        "supervision",
    ] {
        assert!(passed.contains(&rung), "{rung}: {ladder:#}");
    }
    assert!(
        evidence(&ladder, "pipeline").contains("macro_f1"),
        "{ladder:#}"
    );
    assert!(!project.database().exists(), "nothing is recorded");
    let logs = project.path().join("tune.db.d");
    assert!(!logs.exists(), "nothing is left behind");
}

#[test]
fn a_label_that_is_missing_is_found_by_its_row_and_what_needs_no_rows_is_tried_all_the_same() {
    let project = tiny::project(60);
    let rows = project.path().join("configs/rows.csv");
    let text = fs::read_to_string(&rows).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let (words, rest) = lines[7].split_once(',').unwrap();
    let (_, post) = rest.split_once(',').unwrap();
    lines[7] = format!("{words},,{post}");
    fs::write(&rows, lines.join("\n")).unwrap();
    let ladder = ladder(&project, 5, &[]);
    assert_eq!(ladder["first_failed"], "data");
    let found = evidence(&ladder, "data");
    assert!(
        found.contains("rows.csv:8") && found.contains("status"),
        "{found}"
    );
    let tried = names(&ladder, "passed");
    for rung in [
        "model",
        "backward.layer.0",
        "pipeline.synthetic",
        "supervision",
    ] {
        assert!(tried.contains(&rung), "{rung}: {ladder:#}");
    }
    assert_eq!(evidence(&ladder, "pipeline"), "data, row by row failed");
}

#[test]
fn a_token_beyond_the_vocabulary_is_found_by_its_row_and_its_place() {
    let project = tiny::project(60);
    let path = project.path().join("model/tokenizer.json");
    let mut tokenizer: Json = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    tokenizer["model"]["vocab"]["strange"] = 20.into();
    fs::write(&path, tokenizer.to_string()).unwrap();
    let rows = project.path().join("configs/rows.csv");
    let text = fs::read_to_string(&rows).unwrap();
    let (head, rest) = text.split_once('\n').unwrap();
    fs::write(&rows, format!("{head}\nstrange {rest}")).unwrap();
    let ladder = ladder(&project, 5, &[]);
    assert_eq!(ladder["first_failed"], "data");
    let found = evidence(&ladder, "data");
    assert!(
        found.contains("row 1") && found.contains("token id 20"),
        "{found}"
    );
}

#[test]
fn weights_that_are_no_numbers_are_found_by_the_model_before_any_training() {
    let project = tiny::project(60);
    word_vector(&project.path().join("model"), 12, f32::NAN);
    let ladder = ladder(&project, 5, &[]);
    assert_eq!(ladder["first_failed"], "model");
    let found = evidence(&ladder, "model");
    assert!(found.contains("word_embeddings"), "{found}");
    assert!(
        names(&ladder, "passed").contains(&"loss.real.ce"),
        "{ladder:#}"
    );
}

/// A task one of whose rows, given by its number from 1, cannot be trained on: the word of id 19 stands in it alone, and
/// its vector overflows a norm.
pub fn one_bad_row() -> (Project, usize) {
    let project = tiny::project(120);
    word_vector(&project.path().join("model"), 19, 3e38);
    let rows = project.path().join("configs/rows.csv");
    let text = fs::read_to_string(&rows).unwrap();
    let part = |group: usize| ["train", "train", "dev", "test"][group % 4];
    let row = 6;
    let lines = text.replace("four", "three");
    let lines = (lines.lines().enumerate()).map(|(i, line)| match i {
        0 => format!("{line},set\n"),
        i if i == row => format!("four {line},{}\n", part((i - 1) / 4)),
        _ => format!("{line},{}\n", part((i - 1) / 4)),
    });
    fs::write(&rows, lines.collect::<String>()).unwrap();
    (project, row)
}

/// What that task is told.
pub const SPLIT: [&str; 4] = [
    "--set",
    "data.duplicates=allow",
    "--set",
    "data.split.column=set",
];

#[test]
fn a_training_that_fails_by_one_row_is_followed_down_to_the_row_and_the_operation() {
    let (project, row) = one_bad_row();
    let ladder = ladder(&project, 5, &SPLIT);
    let culprit = &ladder["culprit"];
    assert_eq!(culprit["rows"], serde_json::json!([row]), "{ladder:#}");
    assert_eq!(culprit["places"][0], format!("rows.csv:{}", row + 1));
    let operation = culprit["operation"].as_str().unwrap();
    assert!(operation.contains("the embeddings, forward"), "{operation}");
    assert_eq!(
        evidence(&ladder, "pipeline").split(':').next(),
        Some("diverged")
    );
    assert!(
        names(&ladder, "passed").contains(&"pipeline.synthetic"),
        "{ladder:#}"
    );
}

#[test]
fn a_program_that_crashes_fails_as_a_whole_and_supervision_does_not() {
    let project = Project::empty();
    project.config(
        "tiny",
        "[task]\nkind = \"command\"\nrun = [\"sh\", \"-c\", \"kill -SEGV $$\", \"{lr}\"]\n[objective]\nmetric = \"loss\"\ndirection = \"minimize\"\n\
         [space]\nlr = { low = 0.1, high = 1.0 }\n",
    );
    let ladder = ladder(&project, 5, &[]);
    assert_eq!(failed(&ladder), ["pipeline"], "{ladder:#}");
    let found = evidence(&ladder, "pipeline");
    assert!(
        found.starts_with("crash: ") && found.contains("SIGSEGV"),
        "{found}"
    );
    assert_eq!(names(&ladder, "passed"), ["environment", "supervision"]);
}

#[test]
fn the_pipeline_alone_ends_with_the_faults_text_and_takes_rows_and_settings() {
    let project = tiny::project(60);
    let args = ["rung", "pipeline", "tiny", "--device", "cpu"];
    let with = |more: &[&'static str]| [&args[..], more].concat();
    project.expect(
        0,
        &with(&["--rows", "1..60", "--set", "train.batch_size=4"]),
    );
    let (_, stderr) = project.expect(5, &with(&["--rows", "61"]));
    assert!(
        stderr.contains("none of these rows is trained on"),
        "{stderr}"
    );
    let (_, stderr) = project.expect(
        5,
        &with(&[
            "--steps",
            "9",
            "--set",
            "optim.lr=1.0",
            "--set",
            "optim.eps=1e-12",
            "--set",
            "model.name=\"none\"",
        ]),
    );
    assert!(stderr.starts_with("error: "), "{stderr}");
}

// --- On cards of the stand-in -------------------------------------------------------------------------

#[test]
fn a_healthy_card_passes_all_rungs_and_its_longest_kernel_is_named() {
    // Launches block in the rung that times them alone.
    let slow = "launch/*GeluBackward*@1$CUDA_LAUNCH_BLOCKING:1=slow:1300";
    let cards = Cards::with("memory 600M\ncontext 16M", slow);
    let project = tiny::project(60);
    let ladder = on_cards(&cards, &project);
    assert_eq!(failed(&ladder), Vec::<&str>::new(), "{ladder:#}");
    assert_eq!(names(&ladder, "not_run"), Vec::<&str>::new());
    assert_eq!(ladder["device"], "cuda:0");
    let longest = evidence(&ladder, "longest_kernel");
    assert!(longest.contains("aten::gelu_backward, 1."), "{ladder:#}");
    assert!(
        evidence(&ladder, "convolution").contains("as on the CPU"),
        "{ladder:#}"
    );
}

#[test]
fn a_kernel_that_dies_only_in_a_convolutions_way_back_is_found_there() {
    let rules = "launch/*col2im*=sticky:715";
    let (cards, project) = (
        Cards::with("memory 600M\ncontext 16M", rules),
        tiny::project(60),
    );
    let ladder = on_cards(&cards, &project);
    assert_eq!(ladder["first_failed"], "convolution");
    let found = evidence(&ladder, "convolution");
    assert!(
        found.contains("backward") && found.contains("illegal instruction"),
        "{found}"
    );
    // What trains here has no convolutions.
    assert!(names(&ladder, "passed").contains(&"pipeline"), "{ladder:#}");
}

#[test]
fn an_address_fault_that_the_caching_allocator_hides_shows_without_it() {
    let rules = "launch/*@5$PYTORCH_NO_CUDA_MEMORY_CACHING:1=sticky:700";
    let (cards, project) = (
        Cards::with("memory 600M\ncontext 16M", rules),
        tiny::project(60),
    );
    let ladder = on_cards(&cards, &project);
    assert_eq!(failed(&ladder), ["uncached"], "{ladder:#}");
    assert!(
        evidence(&ladder, "uncached").contains("illegal memory access"),
        "{ladder:#}"
    );
}

#[test]
fn a_page_that_flips_a_bit_is_found_with_its_address_and_the_bit() {
    let rules = "launch/*CompareEqFunctorIi*@1x1=flip:7";
    let (cards, project) = (
        Cards::with("memory 600M\ncontext 16M", rules),
        tiny::project(60),
    );
    let ladder = on_cards(&cards, &project);
    assert!(cards.fired() > 0, "{}", cards.log());
    assert_eq!(ladder["first_failed"], "memory", "{ladder:#}");
    let found = evidence(&ladder, "memory");
    assert!(
        found.contains("00000 bytes") && found.contains("bit 3"),
        "{found}"
    );
}

#[test]
fn a_driver_that_is_too_old_fails_the_environment_and_what_needs_no_card_is_tried() {
    let (cards, project) = (Cards::new("driver old"), tiny::project(60));
    let ladder = on_cards(&cards, &project);
    assert_eq!(ladder["first_failed"], "environment");
    let found = evidence(&ladder, "environment");
    assert!(found.contains("driver"), "{found}");
    assert_eq!(
        names(&ladder, "passed"),
        ["data", "loader.0", &loader(&ladder), "supervision"]
    );
    // Asked for by a run, it is the same card.
    Run::of(cards.given_to(project.tune(&["rung", "fill", "tiny", "--device", "cuda:0"]))).ends(5);
}

fn loader(ladder: &Json) -> String {
    let steps = ladder["steps"].as_array().unwrap().iter();
    let mut names = steps.filter_map(|step| step["name"].as_str());
    names
        .rfind(|name| name.starts_with("loader."))
        .unwrap()
        .to_owned()
}
