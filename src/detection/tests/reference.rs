//! Text detection beside other programs: pyclipper and NumPy (labels), text-det-metric (counts). And the pages that are made
//! for it.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value as Json, json};
use training::split::Part;
use tune_detection::labels::{LabelSettings, Plane, labels};
use tune_detection::metric::{Counts, overlap};
use tune_detection::read::{Placement, read};
use tune_detection::{Polygon, Truth, picture};

#[allow(dead_code)]
#[path = "../examples/pages.rs"]
mod pages;

/// The project.
fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What a program prints.
fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// What the reference says of cases.
fn reference(what: &str, cases: &Json, dir: &Path) -> String {
    let packages = [
        "numpy==2.4.1",
        "pyclipper==1.4.0",
        "shapely==2.1.2",
        "text-det-metric==0.0.8",
    ];
    let mut venv = Command::new("sh");
    venv.arg(project().join("tests/venv.sh"));
    venv.args(["detection-1", "pyclipper,text_det_metric"])
        .args(packages);
    let python = printed(&mut venv);
    let file = dir.join("cases.json");
    fs::write(&file, cases.to_string()).unwrap();
    let mut command = Command::new(python.trim());
    command.arg(project().join("src/detection/tests/reference.py"));
    printed(command.args([what.into(), file, dir.join("out")]))
}

fn told(truths: &[Truth]) -> Json {
    let told = |truth: &Truth| json!({"polygon": truth.polygon.points(), "ignored": truth.ignored});
    truths.iter().map(told).collect()
}

fn truth(polygon: Polygon, ignored: bool) -> Truth {
    Truth {
        polygon,
        text: String::new(),
        ignored,
    }
}

/// A text of this size somewhere on a page, tilted.
fn tilted(rng: &mut ChaCha8Rng, [width, height]: [f64; 2], page: f64) -> Polygon {
    let (sin, cos) = rng.random_range(-1.5_f64..1.5).sin_cos();
    let [x, y] = [(); 2].map(|()| rng.random_range(0.0..page));
    let turned = |p: [f64; 2]| [x + p[0] * cos - p[1] * sin, y + p[0] * sin + p[1] * cos];
    Polygon::rectangle([-width / 2.0, -height / 2.0], [width / 2.0, height / 2.0]).mapped(turned)
}

/// Curved texts, and such that a waist falls apart when they are shrunk.
fn odd_ones() -> Vec<Truth> {
    let arc = |k: usize, radius: f64| {
        let (sin, cos) = (3.3 + k as f64 * 0.25).sin_cos();
        [110.0 + radius * cos, 120.0 + radius * sin]
    };
    let curved = (0..12).map(|k| arc(k, 100.0));
    let curved = curved.chain((0..12).rev().map(|k| arc(k, 70.0)));
    let waist = [
        [20, 140],
        [100, 140],
        [110, 150],
        [200, 138],
        [200, 178],
        [110, 160],
        [100, 170],
        [20, 170],
    ];
    vec![
        truth(Polygon::new(curved.collect()), false),
        truth(
            Polygon::new(waist.map(|p| p.map(f64::from)).to_vec()),
            false,
        ),
        truth(Polygon::rectangle([60.0, 190.0], [90.0, 197.9]), false),
        truth(Polygon::rectangle([100.0, 185.0], [160.0, 230.0]), true),
        truth(Polygon::rectangle([190.0, 200.0], [260.0, 220.0]), false),
    ]
}

/// Ten photographs with 82 texts, where they are: they are not ours to keep here.
fn photographs() -> Vec<Case> {
    let sample = project().join("../shared/detection-sample/textdet_test.json");
    if !sample.exists() {
        return Vec::new();
    }
    let found = read(&sample, Placement::default()).unwrap();
    assert_eq!(found.pages.len(), 10);
    let page = |page: tune_detection::Page| ((1280, 720), page.truths);
    // Hardly any of them matters by itself.
    let all = |truth: &Truth| Truth {
        ignored: false,
        ..truth.clone()
    };
    let pages: Vec<_> = found.pages.into_iter().map(page).collect();
    let as_texts = |(size, truths): &(_, Vec<Truth>)| (*size, truths.iter().map(all).collect());
    let every: Vec<_> = pages.iter().map(as_texts).collect();
    [pages, every].concat()
}

/// Whether each pixel of `a` has one of `b` beside it, or there.
fn within_a_pixel(a: &[bool], b: &[bool], width: usize) -> bool {
    (0..a.len()).filter(|at| a[*at]).all(|at| {
        let (x, y) = (at % width, at / width);
        let columns = x.saturating_sub(1)..(x + 2).min(width);
        let mut rows = y.saturating_sub(1)..(y + 2).min(b.len() / width);
        rows.any(|y| b[y * width..][columns.clone()].contains(&true))
    })
}

type Case = ((usize, usize), Vec<Truth>);

/// Compares our maps with those of the reference, pixel by pixel: in which share of those inside they differ.
fn compared(cases: &[Case]) -> f64 {
    let dir = tempfile::tempdir().unwrap();
    let told: Json = (cases.iter())
        .map(|((width, height), truths)| json!({"size": [width, height], "truths": told(truths)}))
        .collect();
    reference("labels", &told, dir.path());
    let bytes = fs::read(dir.path().join("out")).unwrap();
    let four = |four: &[u8]| f32::from_le_bytes(four.try_into().unwrap());
    let mut theirs = bytes.chunks_exact(4).map(four);
    let (mut differing, mut inside) = (0, 0);
    for (k, (size, truths)) in cases.iter().enumerate() {
        let ours = labels(*size, truths, &LabelSettings::default());
        let mut both = |plane: Plane| {
            let theirs: Vec<f32> = theirs.by_ref().take(size.0 * size.1).collect();
            (ours.plane(plane), theirs)
        };
        let (shrunk, shrunk_mask) = (both(Plane::Shrunk), both(Plane::ShrunkMask));
        let (threshold, threshold_mask) = (both(Plane::Threshold), both(Plane::ThresholdMask));
        for (what, outside, (ours, theirs)) in [
            ("shrunk", 0.0, shrunk),
            ("shrunk mask", 1.0, shrunk_mask),
            ("threshold mask", 0.0, threshold_mask.clone()),
        ] {
            let is = |map: &[f32]| -> Vec<bool> { map.iter().map(|x| *x != outside).collect() };
            let (ours, theirs) = (is(ours), is(&theirs));
            assert!(
                within_a_pixel(&ours, &theirs, size.0),
                "case {k}, {what}: more than theirs"
            );
            assert!(
                within_a_pixel(&theirs, &ours, size.0),
                "case {k}, {what}: less than theirs"
            );
            differing += ours.iter().zip(&theirs).filter(|(a, b)| a != b).count();
            inside += theirs.iter().filter(|inside| **inside).count();
        }
        // Where both say that it matters.
        for at in 0..size.0 * size.1 {
            let matters = threshold_mask.0[at] * threshold_mask.1[at] == 1.0;
            assert!(
                !matters || (threshold.0[at] - threshold.1[at]).abs() < 0.01,
                "case {k}, threshold"
            );
        }
    }
    assert!(theirs.next().is_none());
    differing as f64 / f64::from(inside as u32)
}

#[test]
fn labels_are_those_of_pyclipper_and_numpy() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut cases = vec![((256, 240), odd_ones()), ((64, 32), Vec::new())];
    for _ in 0..10 {
        let mut text = || {
            let size = [rng.random_range(6.0..160.0), rng.random_range(4.0..50.0)];
            truth(tilted(&mut rng, size, 320.0), rng.random_bool(0.2))
        };
        cases.push(((320, 320), (0..8).map(|_| text()).collect()));
    }
    cases.extend(photographs());
    let share = compared(&cases);
    assert!(share < 0.002, "{share}");
}

#[test]
fn counts_are_those_of_text_det_metric() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let mut pages = Vec::new();
    for _ in 0..60 {
        let rng = &mut rng;
        let mut texts = Vec::new();
        for _ in 0..rng.random_range(0..9) {
            let size = [rng.random_range(20.0..90.0), rng.random_range(10.0..25.0)];
            texts.push(truth(tilted(rng, size, 200.0), rng.random_bool(0.3)));
        }
        let mut found = Vec::new();
        // Near the texts, some twice, and anywhere.
        for text in &texts {
            for _ in 0..rng.random_range(0..3) {
                let by = rng.random_range(-6.0..6.0);
                let moved = text.polygon.mapped(|p| [p[0] + by, p[1] + by / 2.0]);
                found.push(moved.scaled([rng.random_range(0.97..1.03), 1.0]));
            }
        }
        found.extend((0..rng.random_range(0..3)).map(|_| tilted(rng, [40.0, 15.0], 200.0)));
        pages.push((texts, found));
    }
    let cases: Json = (pages.iter())
        .map(|(texts, found)| {
            let found: Vec<_> = found.iter().map(Polygon::points).collect();
            json!({"truths": told(texts), "found": found})
        })
        .collect();
    let dir = tempfile::tempdir().unwrap();
    let theirs: Vec<[usize; 3]> =
        serde_json::from_str(&reference("counts", &cases, dir.path())).unwrap();
    let ours = pages.iter().map(|(texts, found)| {
        let overlaps: Vec<_> = found.iter().map(|found| overlap(found, texts)).collect();
        let counts = Counts::of(texts, &overlaps);
        [counts.truths, counts.found, counts.matched]
    });
    let ours: Vec<[usize; 3]> = ours.collect();
    assert_eq!(ours, theirs);
    // Not trivially so.
    let sums = [0, 1, 2].map(|k| ours.iter().map(|counts| counts[k]).sum::<usize>());
    assert!(
        sums[2] > 50 && sums[2] < sums[0] && sums[0] < sums[1],
        "{sums:?}"
    );
}

#[test]
fn made_pages_are_those_of_their_seed_and_are_read() {
    let texts = project().join("configs/data/reviews.csv");
    let dir = tempfile::tempdir().unwrap();
    let made = |seed: u64| {
        let from = (texts.as_path(), Path::new(pages::FONTS));
        pages::make(from, dir.path(), (20, seed)).unwrap();
        let placement = Placement {
            part: Some("part"),
            ..Placement::default()
        };
        let found = read(&dir.path().join("pages.jsonl"), placement).unwrap();
        (found.examine().unwrap(), found)
    };
    assert_ne!(made(1).0, made(0).0);
    let (fingerprint, found) = made(0);
    assert_eq!(made(0).0, fingerprint);
    let parts = [Part::Train, Part::Validation, Part::Test];
    let of = |part: &Part| found.samples.parts.iter().filter(|p| *p == part).count();
    assert_eq!(parts.each_ref().map(of), [16, 2, 2]);
    let truths = || found.pages.iter().flat_map(|page| &page.truths);
    let curved = truths()
        .filter(|truth| truth.polygon.points().len() > 4)
        .count();
    assert!(
        truths().count() > 60 && curved > 5,
        "{curved} of {}",
        truths().count()
    );
    // Where a text is, there is something to see.
    for page in &found.pages {
        let picture = picture::decode(&picture::read(&page.image).unwrap()).unwrap();
        let size = (picture.width() as usize, picture.height() as usize);
        for truth in page.truths.iter().filter(|truth| !truth.ignored) {
            let mut greys = Vec::new();
            truth.polygon.fill(size, |row, columns| {
                let grey = |x: usize| {
                    picture
                        .get_pixel(x as u32, row as u32)
                        .0
                        .map(f64::from)
                        .iter()
                        .sum::<f64>()
                        / 3.0
                };
                greys.extend(columns.map(grey));
            });
            let count = greys.len() as f64;
            let mean = greys.iter().sum::<f64>() / count;
            let spread =
                (greys.iter().map(|grey| (grey - mean).powi(2)).sum::<f64>() / count).sqrt();
            assert!(
                spread > 15.0,
                "{spread}: {} of {}",
                truth.text,
                page.image.display()
            );
        }
    }
}
