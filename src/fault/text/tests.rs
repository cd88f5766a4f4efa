//! Which line of a log decides.

use super::*;

fn kind(text: &str) -> Option<FaultKind> {
    diagnose(text).map(|d| d.kind)
}

#[test]
fn every_pattern_compiles_and_finds_something_by_itself() {
    for (at, rule) in rules::RULES.iter().enumerate() {
        let single = regex::bytes::RegexBuilder::new(rule.pattern)
            .unicode(false)
            .build();
        assert!(single.is_ok_and(|r| !r.is_match(b"")), "rule {at}");
    }
    assert_eq!(kind(""), None);
}

#[test]
fn the_first_of_many_assertions_is_kept_and_all_are_counted() {
    let line = |thread: u32| {
        format!("a.cu:7: f: block: [0,0,0], thread: [{thread},0,0] Assertion `i < n` failed.\n")
    };
    let log: String = (5..205).map(line).collect();
    let found = diagnose(&log).unwrap();
    assert_eq!(found.place.unwrap().thread, Some([5, 0, 0]));
    assert_eq!((found.repeated, found.line), (200, 0));
}

#[test]
fn a_seeding_that_fails_after_an_assertion_is_its_follower() {
    let seeding = "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n    torch.manual_seed(1)\nRuntimeError: CUDA error: device-side assert triggered\n";
    assert_eq!(kind(seeding), Some(FaultKind::Poisoned));
    let log =
        format!("a.cu:7: f: block: [0,0,0], thread: [1,0,0] Assertion `i < n` failed.\n{seeding}");
    assert_eq!(kind(&log), Some(FaultKind::CudaSticky));
}

#[test]
fn every_cuda_error_is_found_by_each_of_its_names() {
    use crate::cuda::{Context, ERRORS};
    for error in ERRORS {
        let lost = error.context == Context::Lost;
        let mut texts = vec![
            format!(
                "CUDA error\nSearch for `{}' in https://docs.nvidia.com",
                error.name
            ),
            format!("x.py failed: {}", error.name),
        ];
        if !error.driver.is_empty() {
            texts.push(format!("E failed call to cuX: {}: words", error.driver));
        }
        for text in texts {
            let found = diagnose(&text).unwrap();
            assert_eq!(found.code, Some(error.code), "{text}");
            assert_eq!(found.kind == FaultKind::CudaSticky, lost, "{text}");
        }
        // Two errors share their words (200 and 300): the words alone mean either.
        let found = diagnose(&format!("RuntimeError: CUDA error: {}", error.text)).unwrap();
        let same = ERRORS.iter().find(|e| Some(e.code) == found.code).unwrap();
        assert_eq!(same.text, error.text);
    }
}

#[test]
fn a_fault_after_which_the_work_went_on_is_said_to_be_survived() {
    let advice = |text: &str| diagnose(text).unwrap().advice;
    let oom = "CUDA out of memory. Tried to allocate 2.00 GiB\n";
    let on = format!("{oom}epoch 1 loss 0.5\nepoch 2 loss 0.4\n");
    assert!(advice(&on).contains("went on afterwards"));
    // Bars are drawn once more at the end; a lost context is never survived.
    let bars = format!("{oom}Epoch 1:  3%|# | 1/9 loss 0.5\rStep 2:  3%|# | 1/9 loss 0.5\n");
    assert!(!advice(&bars).contains("went on afterwards"));
    let lost = on.replace("out of memory. Tried", "error: misaligned address");
    assert!(!advice(&lost).contains("went on afterwards"));
}

#[test]
fn a_panic_is_told_with_what_it_says() {
    let log = "epoch 1\nthread 'main' panicked at src/main.rs:4:5:\nindex out of bounds: the len is 3\nnote: x\n";
    let told = diagnose(log).unwrap();
    let expected = "thread 'main' panicked at src/main.rs:4:5: index out of bounds: the len is 3";
    assert_eq!(
        (told.detail.as_str(), told.text.as_str()),
        (expected, expected)
    );
}

#[test]
fn a_panic_is_caused_by_the_error_right_before_it_not_by_one_that_was_survived() {
    let log = |between: &str| {
        format!(
            "CUDA out of memory. Tried to allocate 2 GiB\n{between}thread 'main' panicked at a.rs:1:1:\nfailed\n   0: rust_begin_unwind\n             at /rustc/x.rs:1:1\n"
        )
    };
    assert_eq!(kind(&log("")), Some(FaultKind::Oom));
    assert_eq!(kind(&log("step 7 loss 0.5\n")), Some(FaultKind::TaskError));
}
