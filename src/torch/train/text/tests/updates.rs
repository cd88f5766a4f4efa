//! That an update is the same however it is computed: at once or in parts, from batches that are added
//! up, with layers that are computed again.

use super::*;

/// Without chance, and with an epsilon that keeps directions quiet whose gradient is rounding alone.
fn quiet() -> Vec<(&'static str, Value)> {
    vec![
        ("model.dropout", 0.0.into()),
        ("optim.eps", 1e-3.into()),
        ("train.epochs", 2.into()),
    ]
}

/// The weights after a training.
fn trained(
    task: &mut TextTask,
    site: &TinyProject,
    changed: &[(&str, Value)],
    halvings: u32,
) -> Vec<f32> {
    let mut trial = trial(site, 5, changed);
    trial.halvings = halvings;
    let trained = task.train(&trial, &mut Recorder::default()).unwrap();
    let flat =
        |p: &Parameter| -> Vec<f32> { Vec::try_from(p.tensor.detach().flatten(0, -1)).unwrap() };
    trained.parameters.iter().flat_map(flat).collect()
}

fn furthest(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    let off = a.iter().zip(b).map(|(a, b)| (a - b).abs());
    off.fold(0.0, f32::max)
}

#[test]
fn batches_that_are_added_up_make_the_update_of_one_large_batch() {
    let _alone = alone();
    let site = site();
    let mut task = open(&site);
    let losses: [&[(&str, Value)]; 4] = [
        &[],
        &[("loss.cls.balance", "weighted".into())],
        &[
            ("loss.cls.balance", "effective_num".into()),
            ("loss.cls.type", "focal".into()),
        ],
        &[
            ("loss.cls.type", "ce_label_smooth".into()),
            ("train.clip_grad", 0.01.into()),
        ],
    ];
    for loss in losses {
        // All rows are one update: of one batch, of 14 batches of 7 rows but for the last, and of
        // batches in halves.
        let mut run = |batch: i64, accum: i64, halvings: u32| {
            let size = [
                ("train.batch_size", batch.into()),
                ("train.grad_accum", accum.into()),
            ];
            let changed = [&quiet()[..], loss, &size].concat();
            trained(&mut task, &site, &changed, halvings)
        };
        let whole = run(512, 1, 0);
        for (batch, accum, halvings) in [(7, 14, 0), (7, 14, 2), (512, 1, 3), (50, 4, 1)] {
            let off = furthest(&whole, &run(batch, accum, halvings));
            assert!(off < 2e-6, "{batch} {accum} {halvings} {loss:?}: {off}");
        }
        let off = furthest(&whole, &run(7, 4, 0));
        assert!(off > 1e-5, "several updates go elsewhere: {off}");
    }
}

#[test]
fn layers_that_are_computed_again_give_the_same_gradients_bit_for_bit() {
    let _alone = alone();
    let site = site();
    let mut task = open(&site);
    let settings: [&[(&str, Value)]; 5] = [
        &[],
        &[("train.freeze_encoder_layers", 1.into())],
        &[
            ("train.grad_accum", 3.into()),
            ("train.batch_size", 5.into()),
        ],
        &[("head.pooling", "attn".into()), ("head.layers", 2.into())],
        &[("train.precision", "bf16".into())],
    ];
    for setting in settings {
        let mut run = |again: bool| {
            let key = [("train.grad_checkpointing", again.into())];
            trained(&mut task, &site, &[&quiet()[..], setting, &key].concat(), 0)
        };
        assert_eq!(run(false), run(true), "{setting:?}");
    }
}

#[test]
fn layers_that_are_computed_again_drop_out_what_they_dropped_at_first() {
    let _alone = alone();
    let site = site();
    let mut task = open(&site);
    let changed = [
        ("train.grad_checkpointing", true.into()),
        ("model.dropout", 0.4.into()),
        ("model.attn_dropout", 0.3.into()),
        ("head.dropout", 0.2.into()),
    ];
    let once = trained(&mut task, &site, &changed, 0);
    assert_eq!(once, trained(&mut task, &site, &changed, 0));
}

/// The gradients by both ways, with masks: those of the pass that computes nothing again are drawn by
/// the same seeds, block by block.
#[test]
fn a_training_with_masks_learns_as_well_when_layers_are_computed_again() {
    let _alone = alone();
    let site = site();
    let changed = [
        ("train.grad_checkpointing", Value::Bool(true)),
        ("model.dropout", 0.1.into()),
        ("train.epochs", 15.into()),
        ("train.patience", 0.into()),
        ("optim.lr", 5e-3.into()),
    ];
    let mut recorder = Recorder::default();
    open(&site)
        .run(&trial(&site, 1, &changed), &mut recorder)
        .unwrap();
    let last = recorder.epochs.last().unwrap();
    assert!(last["macro_f1"] > 0.9, "{last:?}");
}

#[test]
fn a_frozen_encoder_is_kept_for_each_pooling_by_itself() {
    let _alone = alone();
    let site = site();
    let poolings = ["cls", "mean", "max", "attn"];
    let with = |pooling: &str| {
        [
            ("train.freeze_encoder_layers", Value::Int(2)),
            ("head.pooling", pooling.into()),
            ("model.dropout", 0.0.into()),
            ("optim.eps", 1e-3.into()),
        ]
    };
    let mut warm = open(&site);
    for pooling in poolings {
        trained(&mut warm, &site, &with(pooling), 0);
    }
    for pooling in poolings {
        let cold = trained(&mut open(&site), &site, &with(pooling), 0);
        assert_eq!(
            cold,
            trained(&mut warm, &site, &with(pooling), 0),
            "{pooling}"
        );
        let mut without = open(&site);
        without.kind.limit_cache(0);
        let off = furthest(&cold, &trained(&mut without, &site, &with(pooling), 0));
        assert!(off < 1e-5, "{pooling}: {off}");
    }
}

#[test]
fn sixteen_bits_answer_nearly_as_thirty_two_and_the_cache_keeps_them_apart() {
    let _alone = alone();
    let site = site();
    let mut task = open(&site);
    for frozen in [0i64, 1, 2] {
        let mut run = |precision: &str| {
            let changed = [
                ("train.freeze_encoder_layers", Value::Int(frozen)),
                ("train.precision", precision.into()),
                ("model.dropout", 0.0.into()),
            ];
            let mut recorder = Recorder::default();
            task.run(&trial(&site, 5, &changed), &mut recorder).unwrap();
            recorder.epochs[0]["loss"]
        };
        let (single, half) = (run("fp32"), run("bf16"));
        assert_ne!(single, half);
        assert!((single - half).abs() < 0.05, "{single} {half}");
        assert_eq!(run("fp32"), single);
    }
}

/// Encoders of every architecture, tiny and random, with the words of the tiny model.
#[test]
fn every_architecture_is_trained_and_its_layers_can_be_computed_again() {
    let _alone = alone();
    let mut site = site();
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/reference/encoders");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(kept).unwrap() {
        let from = entry.unwrap().path();
        let name = from.file_name().unwrap().to_str().unwrap().to_owned();
        let dir = site.dir.path().join(&name);
        std::fs::create_dir(&dir).unwrap();
        for file in ["config.json", "model.safetensors"] {
            std::fs::copy(from.join(file), dir.join(file)).unwrap();
        }
        let words = "tokenizer.json";
        std::fs::copy(site.tiny().join(words), dir.join(words)).unwrap();
        site.spec.models.insert(name.clone(), dir);
        names.push(name);
    }
    assert!(names.len() > 8, "{names:?}");
    let mut task = open(&site);
    for name in names {
        for frozen in [0i64, 1] {
            let mut run = |again: bool| {
                let own = [
                    ("model.name", name.as_str().into()),
                    ("train.freeze_encoder_layers", frozen.into()),
                    ("train.grad_checkpointing", again.into()),
                    ("train.epochs", 1.into()),
                ];
                trained(&mut task, &site, &[&quiet()[..], &own].concat(), 0)
            };
            // What all layers of DeBERTa share is added up in another order.
            let off = furthest(&run(false), &run(true));
            assert!(off < 2e-5, "{name}, {frozen} frozen: {off}");
        }
    }
}
