//! Text detection by the real program: searched, killed, exported, asked for what is in pictures.

use std::fs;
use std::path::Path;

use crate::common::{Project, results, signal, valid, wait_for};
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
split = { train = 0.6, validation = 0.4, test = 0.0 }

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
        let line =
            serde_json::json!({"image": format!("{page}.png"), "texts": [{"polygon": polygon}]});
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
    killed.expect(0, &["export", "pages", "-o", &kept]);
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
            vec!["evaluate", &kept, &at("configs/pages/pages.jsonl")],
            "reads no rows",
        ),
    ] {
        let (_, stderr) = killed.expect(2, &arguments);
        assert!(stderr.contains(told), "{arguments:?}: {stderr}");
    }
}
