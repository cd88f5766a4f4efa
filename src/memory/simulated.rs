//! A GPU's memory for tests: what trainings of the field notes' space would use of a card of 23.56
//! GiB.
//!
//! It comes from `tests/memory/peaks.csv`: peaks of real trainings of seven encoders at half their
//! width and an eighth of their batch, recorded by `tests/memory/record.py` on a CPU. Between recorded
//! points lies a plane through the three around; nothing else is known here of how memory
//! comes about. All of it is scaled so that the history of the field notes holds.
//!
//! Assumed, since tune's own training has no such keys: checkpointing leaves 35 % of what grows with
//! batch and length; the classifier's layers cost what [`HEADS`] says; DeBERTa's attention, with
//! its relative positions, makes it 20 % more.

use std::collections::BTreeMap;

use rand::{Rng, RngExt};

use config::StudySpec;
use search::sampler::{Ask, RandomSampler, Sampler};
use search::space::{Params, Value};
use search::study::{Direction, History, rng};

/// Memory of the card, in bytes.
pub const TOTAL: u64 = (23.56 * GIB) as u64;

const GIB: f64 = (1u64 << 30) as f64;
const MIB: f64 = (1u64 << 20) as f64;
/// Bytes of the simulated card per byte recorded.
pub const SCALE: f64 = 3.2;
/// Share of what grows with batch and length that checkpointing leaves.
const CHECKPOINTED: f64 = 0.35;
/// The rows of a step of the simulated trainings for one of the recorded.
const BATCH: f64 = 8.0;
/// MiB of one more layer of the classifier, by its width.
const HEADS: [(f64, f64); 7] = [
    (256.0, 3.0),
    (384.0, 5.0),
    (512.0, 8.0),
    (768.0, 14.0),
    (1024.0, 22.0),
    (1536.0, 44.0),
    (2048.0, 74.0),
];

/// The study of the field notes.
pub fn study() -> StudySpec {
    config::testing::field_notes()
}

/// Everything that the training number `number` reads, drawn at random from the study's space.
pub fn config(study: &StudySpec, number: u64, seed: u64) -> Params {
    let history = History::new(vec![Direction::Maximize]);
    let ask = Ask {
        space: &study.space,
        history: &history,
        number,
        seed,
    };
    study.effective(&RandomSampler.suggest(&ask).unwrap())
}

/// A recorded point: rows a step, tokens a row, MiB above a process that has loaded libraries alone.
type Point = (f64, f64, f64);

/// The longest rows of large models.
const LONGEST_LARGE: f64 = 384.0;

/// Adds the longest rows to what was recorded of a model: they take as much more than the short ones as
/// they do with `twin`, which has the same layers and other tables.
fn grow(points: &mut Vec<Point>, twin: &[Point]) {
    let at = |points: &[Point], batch: f64, length: f64| {
        let found = points.iter().find(|p| p.0 == batch && p.1 == length);
        found.map(|p| p.2)
    };
    for point in twin.iter().filter(|p| p.1 == LONGEST_LARGE) {
        let short = |points: &[Point]| at(points, point.0, 128.0);
        if let (Some(own), Some(of_twin)) = (short(points), short(twin)) {
            points.push((point.0, point.1, own + point.2 - of_twin));
        }
    }
}

/// What was recorded of one model at one number of frozen layers: the corners of a rectangle in
/// the order of (batch, length), and a point within.
struct Sheet {
    corners: [Point; 4],
    middle: Point,
}

/// One model's peaks.
struct Model {
    trained: Sheet,
    /// With six layers frozen.
    frozen: Sheet,
    /// How far one frozen layer goes from one to the other.
    first: f64,
    /// Layers; what a training costs in time grows with them.
    layers: f64,
}

/// The card.
pub struct SimulatedGpu {
    models: BTreeMap<String, Model>,
    /// What a context takes, in bytes; it is part of every peak.
    pub context: u64,
    /// How many times as long a training takes where so many run on the GPU.
    pub slower: fn(usize) -> f64,
}

/// An assumption: two at once take 1.3 times as long each, three 1.7 times, each further one 0.4
/// more. Trainings that leave little of the GPU to others go like this.
pub fn crowded(concurrency: usize) -> f64 {
    match concurrency {
        0 | 1 => 1.0,
        2 => 1.3,
        n => 1.7 + 0.4 * (n as f64 - 3.0),
    }
}

/// The other end: trainings that wait for their launches most of the time, and do not feel each other.
pub fn roomy(_concurrency: usize) -> f64 {
    1.0
}

impl SimulatedGpu {
    /// Reads the recorded peaks.
    #[allow(clippy::new_without_default)]
    pub fn new() -> SimulatedGpu {
        let mut reader =
            csv::Reader::from_reader(include_str!("../../tests/memory/peaks.csv").as_bytes());
        let header = reader.headers().unwrap().clone();
        let rows: Vec<BTreeMap<String, String>> = reader
            .records()
            .map(|row| {
                let row = row.unwrap();
                let pairs = header.iter().zip(row.iter());
                pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
            })
            .collect();
        let names = rows.iter().map(|r| &r["model"]).filter(|m| *m != "tiny");
        let names: std::collections::BTreeSet<&String> = names.collect();
        let models = names.into_iter().map(|name| {
            let model = Model::read(name, &rows);
            let full = match name.starts_with("deberta") {
                true => format!("microsoft/{name}"),
                false if name.starts_with("bert") => format!("{name}-uncased"),
                false => name.clone(),
            };
            (full, model)
        });
        SimulatedGpu {
            models: models.collect(),
            context: (0.45 * GIB) as u64,
            slower: crowded,
        }
    }

    /// The peak of a training, its context included, in bytes; `seed` is its noise.
    pub fn peak(&self, config: &Params, seed: u64) -> u64 {
        let number = |key: &str| config[key].as_f64().unwrap();
        let name = config["model.name"].as_str().unwrap();
        let model = &self.models[name];
        let (batch, length) = (number("train.batch_size") / BATCH, number("tok.max_length"));
        let frozen = number("train.freeze_encoder_layers");
        let least = model.at(1.0, 128.0, frozen);
        let mut growing = (model.at(batch, length, frozen) - least).max(0.0);
        if name.contains("deberta") {
            growing *= 1.2;
        }
        if config["train.grad_checkpointing"] == Value::Bool(true) {
            growing *= CHECKPOINTED;
        }
        let wide = number("head.hidden");
        let head = HEADS.iter().find(|h| h.0 == wide).unwrap().1;
        let mib = least + growing + number("head.layers") * head;
        let mut noise = rng(seed, 0, "peak");
        let usual = 1.0 + 0.02 * normal(&mut noise);
        // Now and then a library wants a larger workspace.
        let odd = if noise.random_bool(0.01) { 1.06 } else { 1.0 };
        let bytes = SCALE * MIB * mib * usual * odd;
        // The allocator takes 2 MiB at a time.
        self.context + (bytes / (2.0 * MIB)).ceil() as u64 * (2 << 20)
    }

    /// Bytes that a worker holds beyond its peaks after so many trials in one process: torn memory.
    /// It grows fast at first and stays below the 1.41 GiB of the field notes.
    pub fn fragmentation(&self, trials: u64, worker: u64) -> u64 {
        let slow = 40.0 + 80.0 * rng(worker, 0, "fragmentation").random::<f64>();
        (1.41 * GIB * (1.0 - (-(trials as f64) / slow).exp())) as u64
    }

    /// Bytes that other people's processes use at a moment, in seconds: something new every half
    /// an hour, two thirds of the time nothing, else up to 1.2 GiB.
    pub fn foreign(&self, second: f64, seed: u64) -> u64 {
        let mut rng = rng(seed, (second / 1800.0) as u64, "foreign");
        match rng.random_bool(1.0 / 3.0) {
            true => (1.2 * GIB * rng.random::<f64>()) as u64,
            false => 0,
        }
    }

    /// Seconds that a training takes beside others, `concurrency` of them in all on the GPU. Where it is
    /// [`crowded`], the mean over the space is that of the field notes, 226 trials a day at two at
    /// once.
    pub fn duration(&self, config: &Params, concurrency: usize) -> f64 {
        let number = |key: &str| config[key].as_f64().unwrap();
        let model = &self.models[config["model.name"].as_str().unwrap()];
        let backward = 1.0 - 0.5 * number("train.freeze_encoder_layers") / model.layers;
        let again = match config["train.grad_checkpointing"] == Value::Bool(true) {
            true => 1.3,
            false => 1.0,
        };
        let width = if model.layers > 12.0 { 1.8 } else { 1.0 };
        let work =
            model.layers / 12.0 * width * number("tok.max_length") / 320.0 * backward * again;
        SECONDS * work * (self.slower)(concurrency)
    }
}

/// Of a training with twelve layers and 320 tokens, alone.
const SECONDS: f64 = 378.0;

impl Model {
    fn read(name: &str, rows: &[BTreeMap<String, String>]) -> Model {
        let number = |row: &BTreeMap<String, String>, key: &str| row[key].parse::<f64>().unwrap();
        let idle = rows.iter().find(|r| r["model"] == "tiny").unwrap();
        let idle = number(idle, "peak_mib");
        let points = |name: &str, frozen: f64| -> Vec<Point> {
            let own = rows
                .iter()
                .filter(|r| r["model"] == name && number(r, "frozen") == frozen);
            own.map(|r| {
                let peak = number(r, "peak_mib") - idle;
                (number(r, "batch_size"), number(r, "max_length"), peak)
            })
            .collect()
        };
        let of = |frozen: f64| {
            let mut own = points(name, frozen);
            if name.ends_with("large") && own.iter().all(|p| p.1 < LONGEST_LARGE) {
                grow(&mut own, &points("bert-large", frozen));
            }
            own
        };
        let (trained, frozen) = (Sheet::new(&of(0.0)), Sheet::new(&of(6.0)));
        let first = of(1.0)[0].2;
        let row = rows.iter().find(|r| r["model"] == name).unwrap();
        Model {
            first: (trained.middle.2 - first) / (trained.middle.2 - frozen.middle.2),
            layers: number(row, "layers"),
            trained,
            frozen,
        }
    }

    /// MiB of a training, with up to six frozen layers.
    fn at(&self, batch: f64, length: f64, frozen: f64) -> f64 {
        let share = match frozen {
            0.0 => 0.0,
            k => self.first + (1.0 - self.first) * (k - 1.0) / 5.0,
        };
        let (trained, all) = (
            self.trained.at(batch, length),
            self.frozen.at(batch, length),
        );
        trained + share * (all - trained)
    }
}

impl Sheet {
    fn new(points: &[Point]) -> Sheet {
        let longest = points.iter().map(|p| p.1).fold(0.0, f64::max);
        let find = |batch: f64, length: f64| {
            *points
                .iter()
                .find(|p| p.0 == batch && p.1 == length)
                .unwrap()
        };
        let (low, high) = (128.0, longest);
        Sheet {
            corners: [
                find(1.0, low),
                find(1.0, high),
                find(8.0, high),
                find(8.0, low),
            ],
            middle: find(3.0, 256.0),
        }
    }

    /// On the plane through the three points around.
    fn at(&self, batch: f64, length: f64) -> f64 {
        for i in 0..4 {
            let (a, b, c) = (self.corners[i], self.corners[(i + 1) % 4], self.middle);
            let area = |p: (f64, f64), q: (f64, f64), r: (f64, f64)| {
                (q.0 - p.0) * (r.1 - p.1) - (r.0 - p.0) * (q.1 - p.1)
            };
            let flat = |p: Point| (p.0, p.1);
            let (p, whole) = ((batch, length), area(flat(a), flat(b), flat(c)));
            let by_a = area(p, flat(b), flat(c)) / whole;
            let by_b = area(flat(a), p, flat(c)) / whole;
            let by_c = 1.0 - by_a - by_b;
            if by_a.min(by_b).min(by_c) >= -1e-9 {
                return by_a * a.2 + by_b * b.2 + by_c * c.2;
            }
        }
        unreachable!("batch {batch}, length {length} lie outside what was recorded");
    }
}

fn normal(rng: &mut impl Rng) -> f64 {
    let (a, b): (f64, f64) = (rng.random(), rng.random());
    (-2.0 * (1.0 - a).ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

#[test]
fn the_history_of_the_field_notes_holds() {
    let (gpu, study) = (SimulatedGpu::new(), study());
    // What two and three at a time fill the card to, at most.
    let (mut two, mut three): (f64, f64) = (0.0, 0.0);
    for seed in 0..8 {
        let configs: Vec<Params> = (0..452).map(|n| config(&study, n, seed)).collect();
        let peak = |(n, config): (usize, &Params)| gpu.peak(config, seed << 32 | n as u64);
        let peaks: Vec<u64> = configs.iter().enumerate().map(peak).collect();
        let large = peaks.iter().filter(|p| **p as f64 > 6.0 * GIB).count();
        assert!((20..226).contains(&large), "{large} of 452 above 6 GiB");
        // The most that so many at a time hold together, with what is torn before workers are replaced
        // and what others usually take, as a share of the card.
        let most = |parallel: usize| {
            let together = peaks.windows(parallel).map(|w| w.iter().sum::<u64>());
            let torn: u64 = (0..parallel as u64).map(|w| gpu.fragmentation(50, w)).sum();
            let others = (0.6 * GIB) as u64;
            (together.max().unwrap() + torn + others) as f64 / TOTAL as f64
        };
        assert!(most(4) > 1.0, "{}", most(4));
        assert!((0.7..1.0).contains(&most(2)), "{}", most(2));
        two = two.max(most(2));
        three = three.max(most(3));
        let seconds = configs.iter().map(|c| gpu.duration(c, 2)).sum::<f64>() / 452.0;
        let a_day = 2.0 * 86_400.0 / seconds;
        assert!((200.0..250.0).contains(&a_day), "{a_day} trials a day");
    }
    assert!(two > 0.9 && three > 1.0, "{two} {three}");
}

#[test]
fn peaks_rise_with_batch_and_length_and_fall_with_freezing() {
    let (gpu, study) = (SimulatedGpu::new(), study());
    let mean = |key: &str, value: Value| {
        let peak = |n: u64| {
            let mut config = config(&study, n, 1);
            config.insert("model.name".into(), "bert-large-uncased".into());
            config.insert("tok.max_length".into(), Value::Int(256));
            config.insert(key.into(), value.clone());
            gpu.peak(&config, n) as f64
        };
        (0..100).map(peak).sum::<f64>() / 100.0
    };
    let int = |key: &str, value: i64| mean(key, Value::Int(value));
    assert!(int("train.batch_size", 64) > 1.2 * int("train.batch_size", 8));
    assert!(int("tok.max_length", 384) > 1.05 * int("tok.max_length", 128));
    let frozen = |k| int("train.freeze_encoder_layers", k);
    assert!(frozen(0) > frozen(1) && frozen(1) > frozen(6));
    let again = |on| mean("train.grad_checkpointing", Value::Bool(on));
    assert!(again(false) > again(true));
    let (early, late) = (gpu.fragmentation(1, 0), gpu.fragmentation(200, 0));
    assert!(early < late && (late as f64) < 1.42 * GIB);
    assert!((0..50).any(|t| gpu.foreign(f64::from(t) * 1800.0, 1) > 0));
}
