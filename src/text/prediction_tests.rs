//! How well peaks of memory are predicted, with the floors that this kind of task knows, on a simulated GPU.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use rand::RngExt;

use memory::simulated::{self, SCALE, SimulatedGpu, TOTAL};
use memory::{Estimate, Floor, Observation, Predictor};
use search::space::{Params, Space, Value};
use search::study::rng;

use crate::checkpoint::EncoderConfig;
use crate::floor::{Sizes, bytes};

const MIB: u64 = 1 << 20;

fn observation(config: &Params, peak: u64, censored: bool) -> Observation {
    Observation {
        config: config.clone(),
        peak,
        censored,
    }
}

/// How predictions did, each made before its measurement was learned.
#[derive(Debug, Default)]
struct Judged {
    /// After the first 50: share that used more than the upper bound, in percent.
    above: f64,
    /// Share of those that would have fitted on 80 % of the card that were refused, in percent.
    refused: f64,
    /// The same on a card so small that a tenth does not fit.
    refused_small: f64,
    /// Median and 95 % of upper bound over peak, after the first 50, and of the 25 before.
    sharp: [f64; 2],
    early: f64,
    /// Milliseconds a trial.
    cost: f64,
}

/// The floors of the simulated trainings: those of the recorded ones, to scale.
fn floors() -> Arc<Floor> {
    let text = include_str!("../../tests/memory/peaks.csv");
    let models = text.lines().skip(1).map(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |i: usize| cells[i].parse::<usize>().unwrap();
        let json = serde_json::json!({
            "model_type": "bert", "num_hidden_layers": number(1), "hidden_size": number(2), "num_attention_heads": number(3),
            "intermediate_size": number(4), "vocab_size": number(5),
            "max_position_embeddings": number(6), "hidden_act": "gelu",
        });
        (cells[0].to_owned(), serde_json::from_value(json).unwrap())
    });
    let models: BTreeMap<String, EncoderConfig> = models.collect();
    Arc::new(move |config: &Params| {
        let model = config["model.name"]
            .as_str()?
            .trim_start_matches("microsoft/");
        let model = models.get(model.trim_end_matches("-uncased"))?;
        let size = |key: &str| config[key].as_i64().map(|i| i as u64);
        let sizes = Sizes {
            // They were recorded on a CPU, where passes are small.
            passing: 0,
            batch: 1,
            length: size("train.batch_size")? * size("tok.max_length")? / 8,
            frozen: size("train.freeze_encoder_layers")?,
            dropout: true,
            checkpointing: config["train.grad_checkpointing"].as_bool()?,
        };
        Some((SCALE * bytes(model, sizes) as f64) as u64)
    })
}

fn judge(floor: Option<Arc<Floor>>, trials: u64, seed: u64) -> Judged {
    let (gpu, study) = (SimulatedGpu::new(), simulated::study());
    let configs: Vec<Params> = (0..trials)
        .map(|n| simulated::config(&study, n, seed))
        .collect();
    let peak = |n: u64| gpu.peak(&configs[n as usize], seed << 32 | n);
    let peaks: Vec<u64> = (0..trials).map(peak).collect();
    let mut sorted = peaks.clone();
    sorted.sort_unstable();
    let (cap, small) = ((0.8 * TOTAL as f64) as u64, sorted[sorted.len() * 9 / 10]);
    let mut predictor = Predictor::new(study.space.clone(), floor);
    let (mut sharp, mut early) = (Vec::new(), Vec::new());
    let (mut above, mut refused, mut refused_small) = (0.0, 0.0, 0.0);
    let begun = Instant::now();
    for (n, (config, &peak)) in configs.iter().zip(&peaks).enumerate() {
        if let Some(estimate) = predictor.estimate(config) {
            let ratio = estimate.upper as f64 / peak as f64;
            match n {
                0..25 => {}
                25..50 => early.push(ratio),
                _ => {
                    sharp.push(ratio);
                    above += f64::from(u8::from(ratio < 1.0));
                }
            }
            refused += f64::from(u8::from(peak <= cap && estimate.upper > cap));
            refused_small += f64::from(u8::from(peak <= small && estimate.upper > small));
        }
        predictor.learn(observation(config, peak, false));
    }
    let cost = begun.elapsed().as_secs_f64() * 1e3 / trials as f64;
    sharp.sort_by(f64::total_cmp);
    early.sort_by(f64::total_cmp);
    let share = |count: f64, of: usize| 100.0 * count / of as f64;
    Judged {
        above: share(above, sharp.len()),
        refused: share(refused, peaks.iter().filter(|p| **p <= cap).count()),
        refused_small: share(refused_small, sorted.len() * 9 / 10),
        sharp: [sharp[sharp.len() / 2], sharp[sharp.len() * 19 / 20]],
        early: early[early.len() / 2],
        cost,
    }
}

#[test]
fn on_the_simulated_gpu_few_trials_need_more_than_their_upper_bound() {
    for floor in [None, Some(floors())] {
        let judged = judge(floor, 600, 100);
        assert!(judged.above <= 3.0 && judged.refused <= 2.0, "{judged:?}");
        assert!(judged.sharp[0] < 1.3, "{judged:?}");
    }
}

/// The median of how far the expected peak is off, as a factor, after so many measurements.
fn error_after(floor: &Option<Arc<Floor>>, measurements: u64, seed: u64) -> f64 {
    let (gpu, study) = (SimulatedGpu::new(), simulated::study());
    let config = |n| simulated::config(&study, n, seed);
    let mut predictor = Predictor::new(study.space.clone(), floor.clone());
    for n in 0..measurements {
        let config = config(n);
        let peak = gpu.peak(&config, seed << 32 | n);
        predictor.learn(observation(&config, peak, false));
    }
    let error = |n| {
        let config = config(n);
        let expected = predictor.estimate(&config).unwrap().expected;
        let peak = gpu.peak(&config, seed << 32 | n);
        (expected as f64 / peak as f64).ln().abs().exp()
    };
    let mut errors: Vec<f64> = (10_000..10_200).map(error).collect();
    errors.sort_by(f64::total_cmp);
    errors[100]
}

#[test]
fn a_floor_makes_up_for_missing_measurements() {
    let (none, some) = (None, Some(floors()));
    let mean = |floor, n| (0..3).map(|s| error_after(floor, n, 300 + s)).sum::<f64>() / 3.0;
    assert!(mean(&some, 5) < 1.25);
    assert!(mean(&some, 5) < mean(&none, 20));
    assert!(mean(&none, 100) < 1.15);
}

/// How often intervals held, each prediction made before its measurement was learned: measured peaks
/// within the interval, and below it.
#[derive(Debug, Default, Clone, Copy)]
struct Covered {
    predicted: u64,
    held: u64,
    below: u64,
}

impl Covered {
    fn judge(&mut self, estimate: Estimate, peak: u64) {
        self.predicted += 1;
        self.held += u64::from(estimate.lower <= peak && peak <= estimate.upper);
        self.below += u64::from(peak < estimate.lower);
    }

    fn add(&mut self, other: Covered) {
        self.predicted += other.predicted;
        self.held += other.held;
        self.below += other.below;
    }

    fn held(&self) -> f64 {
        100.0 * self.held as f64 / self.predicted as f64
    }

    fn below(&self) -> f64 {
        100.0 * self.below as f64 / self.predicted as f64
    }
}

/// Coverage after 5 to 24 measurements, 25 to 99, and from then on; and in all.
fn covered(space: &Space, floor: &Option<Arc<Floor>>, measured: &[(Params, u64)]) -> [Covered; 4] {
    let mut predictor = Predictor::new(space.clone(), floor.clone());
    let mut covered = [Covered::default(); 4];
    for (n, (config, peak)) in measured.iter().enumerate() {
        let stage = match n {
            0..5 => None,
            5..25 => Some(0),
            25..100 => Some(1),
            _ => Some(2),
        };
        if let (Some(stage), Some(estimate)) = (stage, predictor.estimate(config)) {
            covered[stage].judge(estimate, *peak);
            covered[3].judge(estimate, *peak);
        }
        predictor.learn(observation(config, *peak, false));
    }
    covered
}

fn together(studies: impl Iterator<Item = [Covered; 4]>) -> [Covered; 4] {
    studies.fold([Covered::default(); 4], |mut all, one| {
        all.iter_mut().zip(one).for_each(|(a, o)| a.add(o));
        all
    })
}

/// Trials of a simulated study, drawn at random.
fn simulated_study(trials: u64, seed: u64) -> (Space, Vec<(Params, u64)>) {
    let (gpu, study) = (SimulatedGpu::new(), simulated::study());
    let one = |n| {
        let config = simulated::config(&study, n, seed);
        let peak = gpu.peak(&config, seed << 32 | n);
        (config, peak)
    };
    let measured = (0..trials).map(one).collect();
    (study.space, measured)
}

/// The recorded trainings themselves, in an order drawn at random.
fn recorded(seed: u64) -> Vec<(Params, u64)> {
    let text = include_str!("../../tests/memory/peaks.csv");
    let mut measured: Vec<(Params, u64)> = (text.lines().skip(1))
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            let int = |i: usize| Value::Int(cells[i].parse().unwrap());
            let config = Params::from([
                ("model.name".to_owned(), cells[0].into()),
                ("train.batch_size".to_owned(), int(7)),
                ("tok.max_length".to_owned(), int(8)),
                ("train.freeze_encoder_layers".to_owned(), int(9)),
            ]);
            let peak: f64 = cells[10].parse().unwrap();
            (config, (peak * MIB as f64) as u64)
        })
        .collect();
    let mut order = rng(seed, 0, "order");
    for at in (1..measured.len()).rev() {
        measured.swap(at, order.random_range(0..=at));
    }
    measured
}

/// What a study's trials come to as text.
fn figures(covered: &[Covered; 4]) -> String {
    let one = |c: &Covered| format!("{:.1} ({:.1})", c.held(), c.below());
    covered.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[test]
fn intervals_hold_from_the_fifth_measurement_on() {
    let simulated = |floor: Option<Arc<Floor>>| {
        together((500..503).map(|seed| {
            let (space, measured) = simulated_study(120, seed);
            covered(&space, &floor, &measured)
        }))
    };
    let orders = (500..503).map(|seed| covered(&Space::default(), &None, &recorded(seed)));
    for covered in [simulated(None), simulated(Some(floors())), together(orders)] {
        let all = figures(&covered);
        assert!((93.0..=99.0).contains(&covered[3].held()), "{all}");
        assert!(covered[3].below() <= 3.5, "{all}");
    }
}

/// The figures of docs/reliability.md: seeds that nothing was tuned on.
#[test]
#[ignore = "its figures are for the documentation"]
fn coverage_of_held_out_studies() {
    let all = |name: &str, covered: [Covered; 4]| {
        println!("{name}: {}", figures(&covered));
        for stage in covered.iter().filter(|c| c.predicted > 0) {
            assert!((93.0..=99.0).contains(&stage.held()), "{stage:?}");
        }
    };
    for (name, floor) in [("without floors", None), ("with floors", Some(floors()))] {
        let studies = (600..620).map(|seed| {
            let (space, measured) = simulated_study(400, seed);
            covered(&space, &floor, &measured)
        });
        all(name, together(studies));
    }
    let orders = (600..640).map(|seed| covered(&Space::default(), &None, &recorded(seed)));
    all("recorded peaks", together(orders));
}

/// The figures of docs/reliability.md: seeds that nothing was tuned on.
#[test]
#[ignore = "a minute; its figures are for the documentation"]
fn five_thousand_trials_of_held_out_seeds() {
    for (name, floor) in [("without", None), ("with", Some(floors()))] {
        let error = |n| (0..5).map(|s| error_after(&floor, n, 400 + s)).sum::<f64>() / 5.0;
        println!(
            "{name} floors, off by: {:.3?}",
            [5, 10, 20, 50, 100, 400].map(error)
        );
        for seed in [201, 202, 203] {
            let judged = judge(floor.clone(), 5000, seed);
            println!(
                "{name} floors, seed {seed}: above {:.2} %, refused {:.2} % (small card {:.1} %), upper \
                 over peak {:.3?}, of 25..50 {:.2}, {:.2} ms",
                judged.above,
                judged.refused,
                judged.refused_small,
                judged.sharp,
                judged.early,
                judged.cost,
            );
            assert!(judged.above <= 2.5 && judged.refused <= 2.0, "{judged:?}");
        }
    }
}
