//! Text detection by the real program: searched, killed, exported, asked for what is in pictures.

use std::fs;
use std::path::Path;

use crate::common::{Project, results, signal, valid, wait_for};
use crate::doctor_ladder::{evidence, failed, ladder_of, names};
use crate::winner::checked;
use nix::sys::signal::Signal;
use serde_json::Value as Json;

const RUN: [&str; 7] = [
    "pages",
    "--device",
    "cpu",
    "--set",
    "run.threads=1",
    "--trials",
    "2",
];

const TASK: &str = r#"
[task]
kind = "text-detection"

[data]
path = "pages/pages.jsonl"
split.column = "part"

[objective]
metric = "hmean"

[input]
size = 64

[train]
epochs = 25
patience = 0
batch_size = 4

[model]
fpn_width = 16

[post]
threshold = [0.2, 0.4]
box_threshold = [0.3, 0.5]
unclip = [1.0, 1.5]

[space]
"model.width" = { choices = [0.0625, 0.125], default = 0.0625 }
"optim.lr" = { low = 1e-3, high = 2e-2, log = true, default = 1e-2 }
"#;

/// A project with 40 pages of 64 by 64 pixels, each with a bright bar.
fn project() -> Project {
    let project = Project::empty();
    let dir = project.path().join("configs/pages");
    fs::create_dir_all(&dir).unwrap();
    let mut lines = String::new();
    for page in 0..40_u32 {
        let (x, y) = (2 + page * 7 % 15, 4 + page * 11 % 35);
        let (width, height) = (30 + page % 14, 14 + page % 5);
        let inside =
            |column, row| (x..x + width).contains(&column) && (y..y + height).contains(&row);
        let picture = image::RgbImage::from_fn(64, 64, |column, row| {
            image::Rgb(match inside(column, row) {
                true => [220, 210, 230],
                false => [(column * 37 + row * 91 + page) as u8 % 64, 30, 50],
            })
        });
        picture.save(dir.join(format!("{page}.png"))).unwrap();
        let polygon = [
            [x, y],
            [x + width, y],
            [x + width, y + height],
            [x, y + height],
        ];
        let part = if page % 5 < 3 { "train" } else { "validation" };
        let image = format!("{page}.png");
        let line =
            serde_json::json!({"image": image, "texts": [{"polygon": polygon}], "part": part});
        lines += &format!("{line}\n");
    }
    fs::write(dir.join("pages.jsonl"), lines).unwrap();
    project.config("pages", TASK);
    project
}

fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn a_detector_goes_on_after_kills_and_its_export_finds_what_it_was_scored_for() {
    let undisturbed = project();
    undisturbed.expect(0, &RUN);
    let killed = project();
    let mut child = killed.start(&RUN);
    let checkpoint = killed
        .path()
        .join("tune.db.d/checkpoints/pages/trial-000000/checkpoint.json");
    wait_for("a checkpoint of trial 0", || checkpoint.is_file());
    let workers = killed.workers();
    signal(child.id(), Signal::SIGKILL);
    workers.iter().for_each(|pid| signal(*pid, Signal::SIGKILL));
    child.wait().unwrap();
    killed.expect(0, &RUN);
    let trials = killed.trials("pages");
    assert_eq!(results(&trials), results(&undisturbed.trials("pages")));
    let best = json(&killed.expect(0, &["best", "pages", "--json"]).0);
    assert!(best["best"]["value"].as_f64().unwrap() > 0.5, "{best}");
    assert!(
        trials[0]["attrs"]["metric.post.unclip"].is_number(),
        "{}",
        trials[0]
    );

    let at = |name: &str| killed.path().join(name).to_str().unwrap().to_owned();
    let (kept, pictures, out) = (at("kept"), at("configs/pages"), at("found"));
    // The weights that the search has kept; nothing is trained again.
    let (told, notes) = killed.expect(0, &["export", "pages", "-o", &kept]);
    assert!(!told.contains("again") && notes.is_empty(), "{told}{notes}");
    killed.expect(0, &["predict", &kept, &pictures, "-o", &out]);
    let lines = fs::read_to_string(Path::new(&out).join("found.jsonl")).unwrap();
    let mut found = 0;
    for line in lines.lines().map(json) {
        valid("found", &line);
        found += usize::from(!line["texts"].as_array().unwrap().is_empty());
        assert!(
            Path::new(&out)
                .join(line["picture"].as_str().unwrap())
                .is_file()
        );
    }
    assert_eq!(lines.lines().count(), 40);
    assert!(found >= 20, "{lines}");
    // The same of one picture, on standard output.
    let one = killed
        .expect(0, &["predict", &kept, &at("configs/pages/0.png")])
        .0;
    assert_eq!(lines.lines().next(), one.lines().next());

    // On the pages that scored it: what the trial was told, and between which values that lies.
    let all = fs::read_to_string(at("configs/pages/pages.jsonl")).unwrap();
    let validation = all.lines().filter(|line| line.contains("validation"));
    let file = at("configs/pages/validation.jsonl");
    fs::write(&file, validation.collect::<Vec<_>>().join("\n")).unwrap();
    let scores = killed.expect(0, &["evaluate", &kept, &file, "--json"]).0;
    let scores = checked(&scores, "evaluation.schema.json");
    assert_eq!(scores["rows"], 16);
    let winner = &trials[best["best"]["number"].as_u64().unwrap() as usize];
    for name in ["hmean", "precision", "recall"] {
        let told = &winner["attrs"][format!("metric.{name}")];
        let told = told.as_f64().or(winner["value"].as_f64()).unwrap();
        let score = scores["metrics"][name].as_f64().unwrap();
        assert!((score - told).abs() < 1e-9, "{name}: {scores} {winner}");
    }
    let hmean = scores["metrics"]["hmean"].as_f64().unwrap();
    let [low, high] = [0, 1].map(|end| scores["intervals"]["hmean"][end].as_f64().unwrap());
    assert!(low <= hmean && hmean <= high, "{scores}");
    assert!(low < high || hmean == 1.0, "{scores}");
    for (arguments, told) in [
        (
            vec!["predict", &kept, &pictures, "-o", &out],
            "new or empty",
        ),
        (vec!["predict", &kept, &at("nowhere")], "no such file"),
        (
            vec!["predict", &kept, &at("configs/pages/pages.jsonl")],
            "a JPEG, PNG or WebP picture",
        ),
        (
            vec!["evaluate", &kept, &at("configs/pages/0.png")],
            "a directory with pictures",
        ),
        (
            vec!["evaluate", &kept, &pictures, "--label", "text"],
            "--label is for rows",
        ),
    ] {
        let (_, stderr) = killed.expect(2, &arguments);
        assert!(stderr.contains(told), "{arguments:?}: {stderr}");
    }
}

/// Writes the encoder of an exported detector under torchvision's names, the numbers of its first convolution times
/// `factor`.
fn encoder(model: &Path, to: &Path, factor: f32) {
    let bytes = fs::read(model.join("model.safetensors")).unwrap();
    let all = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let mut tensors = Vec::new();
    for (name, view) in all.tensors() {
        let Some(name) = name.strip_prefix("encoder.") else {
            continue;
        };
        let factor = if name == "conv1.weight" { factor } else { 1.0 };
        let numbers = view
            .data()
            .chunks(4)
            .map(|b| f32::from_le_bytes(b.try_into().unwrap()));
        let numbers: Vec<u8> = numbers.flat_map(|x| (x * factor).to_le_bytes()).collect();
        tensors.push((
            name.to_owned(),
            view.dtype(),
            view.shape().to_vec(),
            numbers,
        ));
    }
    let views = tensors.iter().map(|(name, dtype, shape, numbers)| {
        let view = safetensors::tensor::TensorView::new(*dtype, shape.clone(), numbers).unwrap();
        (name, view)
    });
    safetensors::serialize_to_file(views, None, to).unwrap();
}

/// The task with one width, whose encoder begins with the weights of this file beside it.
fn beginning_with(file: &str) -> String {
    let width = TASK
        .lines()
        .find(|line| line.contains("model.width"))
        .unwrap();
    let model = "[model]\nwidth = 0.0625\n";
    let model = format!("{model}weights = \"{file}\"\n");
    TASK.replace(width, "").replace("[model]\n", &model)
}

#[test]
fn each_part_of_a_detector_is_tried_alone_and_weights_that_overflow_are_found_where_they_are() {
    let project = project();
    let healthy = ladder_of("pages", &project, 0, &[]);
    assert_eq!(failed(&healthy), Vec::<&str>::new(), "{healthy:#}");
    let passed = names(&healthy, "passed");
    for rung in [
        "data",
        "model",
        "loss.synthetic.bce",
        "loss.real.bce",
        "loss.real.threshold",
        "loss.synthetic.binary",
        "backward.head",
        "backward.pyramid",
        "backward.layer.4",
        "backward.layer.1",
        "backward.stem",
        "loader.0",
        "pipeline.synthetic",
        "pipeline",
    ] {
        assert!(passed.contains(&rung), "{rung}: {healthy:#}");
    }
    assert!(
        evidence(&healthy, "pipeline").contains("hmean"),
        "{healthy:#}"
    );
    assert!(!project.database().exists(), "nothing is recorded");

    // An encoder that was trained begins another study, and one that overflows is found.
    let once = [&RUN[..], &["--set", "train.epochs=2"]].concat();
    project.expect(0, &once);
    let kept = project.path().join("kept");
    project.expect(0, &["export", "pages", "-o", kept.to_str().unwrap()]);
    let configs = project.path().join("configs");
    encoder(&kept, &configs.join("trained.safetensors"), 1.0);
    let short = [
        "--device",
        "cpu",
        "--trials",
        "1",
        "--set",
        "train.epochs=1",
    ];
    let width = json(&fs::read_to_string(kept.join("detection.json")).unwrap());
    let width = width["network"]["width"].to_string();
    let task =
        |file: &str| beginning_with(file).replace("width = 0.0625", &format!("width = {width}"));
    project.config("begins", &task("trained.safetensors"));
    project.expect(0, &[&["begins"], &short[..]].concat());
    encoder(&kept, &configs.join("odd.safetensors"), f32::MAX);
    project.config("odd", &task("odd.safetensors"));
    let odd = ladder_of("odd", &project, 5, &[]);
    let found = failed(&odd);
    assert_eq!(odd["first_failed"], "model", "{odd:#}");
    for rung in ["backward.stem", "pipeline.synthetic", "pipeline"] {
        assert!(found.contains(&rung), "{rung}: {odd:#}");
    }
    for rung in ["data", "loss.real.bce", "backward.layer.1", "backward.head"] {
        assert!(names(&odd, "passed").contains(&rung), "{rung}: {odd:#}");
    }
    let place = odd["culprit"]["operation"].as_str().unwrap();
    assert!(place.contains("stem, forward"), "{odd:#}");
}
