//! Windows of long documents, and folds.

use super::*;

/// A site whose rows have up to three windows of 8 tokens.
fn windowed(stride: i64) -> (TinyProject, [(&'static str, Value); 3]) {
    let mut site = site();
    let path = site.dir.path().join("rows.csv");
    let text = std::fs::read_to_string(&path).unwrap();
    let longer = |(i, line): (usize, &str)| match i % 4 {
        1 => line.replacen(" ", " the phone is the screen was it ", 1) + "\n",
        _ => line.to_owned() + "\n",
    };
    let text: String = text.lines().enumerate().map(longer).collect();
    std::fs::write(&path, text).unwrap();
    site.set("tok.max_length", 8);
    let changed = [
        ("tok.max_length", Value::Int(8)),
        ("tok.doc_stride", stride.into()),
        ("model.dropout", 0.0.into()),
    ];
    (site, changed)
}

#[test]
fn a_stride_lays_long_rows_out_and_metrics_count_documents() {
    let _alone = alone();
    let (site, changed) = windowed(2);
    let mut task = open(&site);
    let (_, cut) = task.kind.rows("tiny", 8, 0, false).unwrap();
    let (_, rows) = task.kind.rows("tiny", 8, 2, false).unwrap();
    assert_eq!((cut.truth.len(), rows.truth.len()), (108, 108));
    assert_eq!(cut.lengths.len(), 108);
    assert!(rows.lengths.len() > 130, "{}", rows.lengths.len());
    assert!(cut.shares(&[0]).unwrap().is_none());
    let train: Vec<usize> = rows.of_documents(&(0..96).collect::<Vec<_>>());
    let shares: Vec<f32> = Vec::try_from(rows.shares(&train).unwrap().unwrap()).unwrap();
    let mut sums = vec![0.0; 96];
    for row in &train {
        sums[rows.documents[*row]] += shares[*row];
    }
    let (least, most) = (
        sums.iter().copied().fold(9.0, f32::min),
        sums.iter().copied().fold(0.0, f32::max),
    );
    assert!(most - least < 1e-4, "every document counts the same");
    let mean = sums.iter().sum::<f32>() / train.len() as f32;
    assert!((mean - 1.0).abs() < 1e-4);

    let mut seen = Vec::new();
    for stride in [0i64, 1, 2, 4] {
        let (_, with) = windowed(stride);
        let fingerprint = weights(&mut task, &site, &with);
        assert!(!seen.contains(&fingerprint), "{stride} changes nothing");
        seen.push(fingerprint);
    }
    let mut recorder = Recorder::default();
    task.run(&trial(&site, 5, &changed), &mut recorder).unwrap();
    // Of 12 documents: the accuracy is a twelfth's multiple.
    let accuracy = recorder.epochs[0]["accuracy"] * 12.0;
    assert!((accuracy - accuracy.round()).abs() < 1e-9);
}

#[test]
fn windows_are_cached_and_batched_like_rows() {
    let _alone = alone();
    let (site, changed) = windowed(2);
    for frozen in [0i64, 1, 2] {
        let changed = [
            &changed[..],
            &[("train.freeze_encoder_layers", frozen.into())],
        ]
        .concat();
        let mut task = open(&site);
        let cold = weights(&mut task, &site, &changed);
        weights(&mut task, &site, &changed[..1]);
        assert_eq!(cold, weights(&mut task, &site, &changed), "{frozen}");
    }
    let mut task = open(&site);
    let losses: Vec<f64> = [0, 2]
        .map(|halvings| {
            let mut recorder = Recorder::default();
            let mut trial = trial(&site, 5, &changed);
            trial.halvings = halvings;
            task.run(&trial, &mut recorder).unwrap();
            recorder.epochs[1]["train_loss"]
        })
        .into();
    assert!((losses[0] - losses[1]).abs() < 1e-4, "{losses:?}");
}

#[test]
fn without_long_rows_a_stride_changes_nothing() {
    let _alone = alone();
    let site = site();
    let mut task = open(&site);
    let base = weights(&mut task, &site, &[]);
    assert_eq!(
        base,
        weights(&mut task, &site, &[("tok.doc_stride", 4.into())])
    );
}

fn folded(folds: i64) -> TinyProject {
    let mut site = site();
    site.set("data.folds", folds);
    site
}

#[test]
fn a_trial_with_folds_reports_each_and_is_worth_their_mean() {
    let _alone = alone();
    let site = folded(3);
    let mut task = open(&site);
    let mut recorder = Recorder::default();
    let ended = task.run(&trial(&site, 5, &[]), &mut recorder).unwrap();
    let Ended::Returned { metrics } = ended else {
        panic!("{ended:?}");
    };
    assert_eq!(recorder.epochs.len(), 3);
    let of = |name: &str| {
        recorder
            .epochs
            .iter()
            .map(|m| m[name])
            .collect::<Vec<f64>>()
    };
    let mean = of("macro_f1").iter().sum::<f64>() / 3.0;
    assert!((metrics["macro_f1"] - mean).abs() < 1e-12);
    let spread: f64 = of("macro_f1").iter().map(|v| (v - mean).powi(2)).sum();
    assert!((metrics["fold_std"] - (spread / 2.0).sqrt()).abs() < 1e-12);
    assert!(of("fold_epoch").iter().all(|e| [1.0, 2.0].contains(e)));
    assert!(metrics.keys().all(|name| !name.starts_with("test.")));
    let mut again = Recorder::default();
    open(&site).run(&trial(&site, 5, &[]), &mut again).unwrap();
    assert_eq!(again.epochs, recorder.epochs);
    // No fold is another one's twin.
    assert_ne!(recorder.epochs[0]["loss"], recorder.epochs[1]["loss"]);
}

#[test]
fn with_folds_pruning_divergence_rehearsal_and_the_test_act_on_folds() {
    let _alone = alone();
    let site = folded(3);
    let mut task = open(&site);
    let mut pruned = Recorder {
        prune_at: Some(2),
        ..Recorder::default()
    };
    let ended = task.run(&trial(&site, 5, &[]), &mut pruned).unwrap();
    assert_eq!((ended, pruned.epochs.len()), (Ended::Pruned, 2));

    let explodes = [
        ("optim.lr", Value::Float(1e38)),
        ("train.clip_grad", 0.0.into()),
        ("sched.warmup_ratio", 0.0.into()),
    ];
    let ended = task.run(&trial(&site, 1, &explodes), &mut Recorder::default());
    match ended.unwrap() {
        Ended::Diverged { at } => assert!(at.starts_with("fold 1, epoch 1, step "), "{at}"),
        other @ (Ended::Completed | Ended::Returned { .. } | Ended::Pruned) => panic!("{other:?}"),
    }

    let mut rehearsed = Recorder::default();
    let mut short = trial(&site, 5, &[]);
    short.rehearse = Some(2);
    assert_eq!(task.run(&short, &mut rehearsed).unwrap(), Ended::Completed);
    assert_eq!((rehearsed.steps, rehearsed.epochs.len()), (2, 0));
    // 72 rows in batches of 16, 2 epochs, 3 folds.
    assert_eq!(rehearsed.planned, Some(5 * 2 * 3));

    let mut tested = Recorder::default();
    let mut test = trial(&site, 5, &[]);
    test.purpose = Purpose::Test;
    let ended = task.run(&test, &mut tested).unwrap();
    let Ended::Returned { metrics } = ended else {
        panic!("{ended:?}");
    };
    let mean = tested
        .epochs
        .iter()
        .map(|m| m["test.macro_f1"])
        .sum::<f64>()
        / 3.0;
    assert!((metrics["test.macro_f1"] - mean).abs() < 1e-12);
}

#[test]
fn an_attempt_goes_on_after_the_last_whole_fold_and_ends_with_the_undisturbed_result() {
    let _alone = alone();
    let site = folded(3);
    let mut whole = Recorder::default();
    let trial = trial(&site, 5, &[]);
    let expected = open(&site).run(&trial, &mut whole).unwrap();
    // After the first of two epochs, and after each fold.
    assert_eq!(whole.kept, 6);
    for folds in 1..=3 {
        let mut rest = Recorder {
            earlier: whole.epochs[..folds].to_vec(),
            ..Recorder::default()
        };
        assert_eq!(open(&site).run(&trial, &mut rest).unwrap(), expected);
        assert_eq!(rest.epochs, whole.epochs[folds..]);
    }
}
