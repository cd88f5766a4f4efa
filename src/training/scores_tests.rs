//! Metrics beside scikit-learn's numbers, and where it has none.

use super::*;

/// `tests/reference/scores.py` has the same cases; ties, a sure mistake, more positives than negatives.
const TWO: ([f32; 22], [usize; 11]) = (
    [
        0.5, -0.5, 2.0, 1.0, -1.0, 1.0, 0.25, 0.25, 3.0, -3.0, -0.5, 0.5, 1.0, 0.0, -2.0, 2.0, 0.0,
        1.0, 40.0, -40.0, 1.0, 3.0,
    ],
    [0, 0, 1, 1, 0, 0, 1, 1, 1, 1, 1],
);
const THREE: ([f32; 39], [usize; 13]) = (
    [
        2.0, 1.0, 0.0, 0.5, 0.5, -1.0, 0.0, 3.0, 1.0, 1.0, 0.0, 2.0, -1.0, -1.0, 2.0, 0.0, 1.0,
        0.0, 1.0, 1.0, 1.0, 0.5, 2.0, 1.5, 2.0, 0.0, 2.0, 0.0, 0.0, 3.0, 4.0, 1.0, 0.0, 1.0, 2.0,
        3.0, 0.0, -1.0, 1.0,
    ],
    [0, 1, 1, 2, 2, 2, 0, 1, 0, 1, 0, 2, 2],
);

fn answers(classes: usize, logits: &[f32], truth: &[usize]) -> Answers {
    let documents: Vec<usize> = (0..truth.len()).collect();
    Answers::new(classes, logits, &documents, truth.to_vec())
}

fn agree(found: &Metrics, expected: &[(&str, f64)]) {
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (name, value) in expected {
        let off = (found[*name] - value).abs();
        assert!(off < 1e-12, "{name}: {} and not {value}", found[*name]);
    }
}

/// The lines of `tests/reference/scores.py` under scikit-learn 1.7.2.
#[test]
fn metrics_of_two_classes_are_those_of_scikit_learn() {
    let answers = answers(2, &TWO.0, &TWO.1);
    agree(
        &answers.metrics(),
        &[
            ("macro_f1", 0.6333333333333333),
            ("f1", 0.6666666666666666),
            ("accuracy", 0.6363636363636364),
            ("balanced_accuracy", 0.6607142857142857),
            ("mcc", 0.3105295017040594),
            ("auroc", 0.7321428571428571),
            ("auprc", 0.848051948051948),
            ("log_loss", 3.6888718765826995),
            ("loss", 7.684903386662959),
        ],
    );
    let report = answers.confusion().by_class();
    let expected = [
        (0.5, 0.75, 0.6, 4),
        (0.8, 0.5714285714285714, 0.6666666666666666, 7),
    ];
    assert_eq!(report.len(), 2);
    for (found, (precision, recall, f1, support)) in report.iter().zip(expected) {
        assert!((found.precision - precision).abs() < 1e-12, "{found:?}");
        assert!((found.recall - recall).abs() < 1e-12, "{found:?}");
        assert!((found.f1 - f1).abs() < 1e-12, "{found:?}");
        assert_eq!(found.support, support);
    }
}

/// The lines of `tests/reference/scores.py` under scikit-learn 1.7.2.
#[test]
fn metrics_of_three_classes_are_those_of_scikit_learn() {
    agree(
        &answers(3, &THREE.0, &THREE.1).metrics(),
        &[
            ("macro_f1", 0.7534391534391535),
            ("f1", 0.7570207570207571),
            ("accuracy", 0.7692307692307693),
            ("balanced_accuracy", 0.7666666666666666),
            ("mcc", 0.6576843477677581),
            ("auroc", 0.8310185185185185),
            ("auprc", 0.7740669515669515),
            ("log_loss", 0.7590559355685605),
            ("loss", 0.7590559355685605),
        ],
    );
}

#[test]
fn perfect_answers_score_the_best_values() {
    let logits = [9.0, -9.0, -9.0, 9.0, 9.0, -9.0];
    let found = answers(2, &logits, &[0, 1, 0]).metrics();
    for name in [
        "macro_f1",
        "f1",
        "accuracy",
        "balanced_accuracy",
        "mcc",
        "auroc",
        "auprc",
    ] {
        assert!((found[name] - 1.0).abs() < 1e-12, "{name}: {}", found[name]);
    }
    assert!(found["loss"] < 1e-7 && found["log_loss"] < 1e-7);
}

#[test]
fn equal_answers_for_all_tell_nothing() {
    let found = answers(2, &[0.5; 8], &[0, 1, 0, 0]).metrics();
    let close = |name: &str, value: f64| assert!((found[name] - value).abs() < 1e-12, "{name}");
    close("auroc", 0.5);
    close("auprc", 0.25);
    close("mcc", 0.0);
    close("balanced_accuracy", 0.5);
    close("loss", 2f64.ln());
}

#[test]
fn one_class_alone_has_values_and_no_nan() {
    for truth in [[0, 0], [1, 1]] {
        for logits in [[1.0, 0.0, 0.0, 1.0], [3.0, 1.0, 2.0, 1.0]] {
            let found = answers(2, &logits, &truth).metrics();
            assert!(found.values().all(|v| v.is_finite()), "{found:?}");
            assert_eq!((found["auroc"], found["mcc"]), (0.5, 0.0));
        }
    }
    // No positive at all: 0; positives alone: every threshold is right.
    assert_eq!(answers(2, &[1.0, 0.0], &[0]).auprc(), 0.0);
    assert_eq!(answers(2, &[1.0, 0.0], &[1]).auprc(), 1.0);
    // A class that does not occur leaves the means over classes to the others.
    let found = answers(3, &[2.0, 0.0, 0.0, 0.0, 2.0, 0.0], &[0, 1]).metrics();
    assert_eq!((found["auroc"], found["auprc"]), (1.0, 1.0));
}

#[test]
fn no_documents_at_all_have_values_too() {
    let found = answers(2, &[], &[]).metrics();
    assert!(found.values().all(|v| v.is_finite()), "{found:?}");
}

#[test]
fn logits_that_are_not_finite_are_told_by_the_loss() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let found = answers(2, &[1.0, bad, 0.0, 1.0], &[0, 1]).metrics();
        assert!(found["loss"].is_nan() && found.len() == 1, "{bad}");
    }
    // Far apart is not infinite: the one costs what it costs, the other at most 36 a document.
    let sure = answers(2, &[1e30, -1e30], &[1]).metrics();
    assert!((sure["loss"] - 2e30).abs() < 1e24);
    assert!((sure["log_loss"] - 36.04).abs() < 0.01);
}

#[test]
fn a_document_has_the_mean_probability_of_its_windows() {
    let (sure, torn) = ([3.0f32, 0.0], [0.0f32, 0.5]);
    let logits = [sure, torn, torn].concat();
    let answers = Answers::new(2, &logits, &[0, 0, 1], vec![0, 1]);
    let p = |l: [f32; 2]| 1.0 / (1.0 + f64::from(l[1] - l[0]).exp());
    let expected = (p(sure) + p(torn)) / 2.0;
    assert!((answers.probabilities(0)[0] - expected).abs() < 1e-12);
    assert!((answers.probabilities(0).iter().sum::<f64>() - 1.0).abs() < 1e-12);
    assert_eq!((answers.predicted(0), answers.predicted(1)), (0, 1));
    assert_eq!(answers.metrics()["accuracy"], 1.0);
    assert_eq!(answers.confusion().at(0, 0), 1.0);
}

#[test]
fn metrics_agree_with_a_count_by_hand() {
    // Truth 0: 6 right, 2 taken for 1. Truth 1: 1 taken for 0, 1 right.
    let c = Confusion::new(2, vec![6.0, 2.0, 1.0, 1.0]);
    assert!((c.accuracy() - 0.7).abs() < 1e-12);
    let (f0, f1) = (12.0 / 15.0, 2.0 / 5.0);
    assert!((c.macro_f1() - (f0 + f1) / 2.0).abs() < 1e-12);
    assert!((c.f1() - f1).abs() < 1e-12);
    assert!((c.balanced_accuracy() - (0.75 + 0.5) / 2.0).abs() < 1e-12);
}

#[test]
fn the_majority_answer_scores_half_its_f1() {
    let c = Confusion::new(2, vec![1631.0, 0.0, 427.0, 0.0]);
    assert!((c.macro_f1() - 0.442).abs() < 1e-3);
}

#[test]
fn the_same_probabilities_for_all_are_the_entropy_of_the_shares() {
    let answers = Answers::constant(&[0.75, 0.25], vec![0, 0, 0, 1]);
    let entropy = -(0.75 * 0.75f64.ln() + 0.25 * 0.25f64.ln());
    assert!((answers.loss() - entropy).abs() < 1e-12);
    assert_eq!((answers.auroc(), answers.auprc()), (0.5, 0.25));
}
