//! Which rungs a task has, and what the end of one means.

use super::*;

fn facts() -> TaskFacts {
    TaskFacts {
        learns: true,
        parts: ["head", "layer.1", "layer.0", "embeddings"]
            .map(str::to_owned)
            .to_vec(),
        losses: vec!["ce".to_owned(), "focal".to_owned()],
        computes: true,
        threads: 4,
    }
}

fn end(death: Death, out: &str, err: &str) -> RungEnd {
    RungEnd {
        death,
        late: None,
        out: out.to_owned(),
        err: err.to_owned(),
        took: Duration::from_millis(1234),
    }
}

fn failed(rung: &Rung) -> Step {
    judge(rung, &end(Death::Exited(1), "", "error: x\n"))
}

#[test]
fn each_rung_has_a_name_by_which_it_is_found_again() {
    let all = rungs(&facts());
    assert!(all.len() > 15, "{all:?}");
    for rung in &all {
        assert_eq!(Rung::named(&rung.to_string()).as_ref(), Some(rung));
    }
    let names: std::collections::BTreeSet<String> = all.iter().map(Rung::to_string).collect();
    assert_eq!(names.len(), all.len());
    let one = Rung::Loader { threads: 1 };
    assert_eq!(Rung::named("loader.1").as_ref(), Some(&one));
    assert_eq!(one.title(), "loader, 1 thread");
    for wrong in ["", "loss", "loss.ce", "loss.odd.ce", "loader.x"] {
        assert_eq!(Rung::named(wrong), None, "{wrong}");
    }
}

#[test]
fn a_task_has_the_rungs_of_its_kind() {
    let names =
        |facts: &TaskFacts| -> Vec<String> { rungs(facts).iter().map(Rung::to_string).collect() };
    let program = TaskFacts::default();
    assert_eq!(names(&program), ["environment", "pipeline", "supervision"]);
    let text = names(&facts());
    let place = |name: &str| text.iter().position(|n| n == name).unwrap();
    assert!(place("convolution") < place("memory"));
    assert!(place("data") < place("loss.synthetic.focal"));
    assert!(place("loss.synthetic.focal") < place("loss.real.focal"));
    // From the loss to the rows, the way that gradients take.
    assert!(place("backward.head") < place("backward.layer.1"));
    assert!(place("backward.layer.1") < place("backward.layer.0"));
    assert!(place("backward.layer.0") < place("backward.embeddings"));
    assert!(place("pipeline.synthetic") < place("pipeline"));
}

#[test]
fn what_does_not_need_a_rung_that_failed_is_still_tried() {
    let facts = facts();
    let before = [failed(&Rung::Data)];
    let skipped = |rung: &Rung| rung.skipped(&facts, true, &before);
    assert_eq!(
        skipped(&Rung::Pipeline { real: true }).as_deref(),
        Some("data, row by row failed")
    );
    assert_eq!(skipped(&Rung::Pipeline { real: false }), None);
    assert_eq!(skipped(&Rung::Model), None);
    assert_eq!(skipped(&Rung::Supervision), None);
    let before = [failed(&Rung::Environment)];
    let tried: Vec<String> = (rungs(&facts).iter())
        .filter(|rung| rung.skipped(&facts, true, &before).is_none())
        .map(Rung::to_string)
        .collect();
    assert_eq!(tried, ["data", "loader.0", "loader.4", "supervision"]);
}

#[test]
fn without_a_gpu_its_rungs_are_skipped_by_name() {
    let skipped = |gpu| Rung::Uncached.skipped(&facts(), gpu, &[]);
    assert_eq!(skipped(false).as_deref(), Some("no GPU"));
    assert_eq!(skipped(true), None);
    let step = Step::not_run(&Rung::Uncached, "no GPU");
    assert!(
        step.line()
            .contains("operations without the caching allocator: no GPU"),
        "{}",
        step.line()
    );
}

#[test]
fn what_was_found_is_told_without_what_is_for_the_ladder_alone() {
    let step = judge(
        &Rung::Environment,
        &end(
            Death::Exited(0),
            "at: load\ndevice: cpu\nlibtorch loads\n",
            "noise",
        ),
    );
    assert_eq!(step.outcome, Outcome::Passed);
    assert_eq!(
        (step.evidence.as_str(), step.seconds),
        ("libtorch loads", 1.234)
    );
}

#[test]
fn a_crash_is_told_with_what_the_rung_was_about_to_do() {
    let step = judge(
        &Rung::Convolution,
        &end(
            Death::Signaled(11),
            "at: convolution, forward\nat: convolution, backward\n",
            "",
        ),
    );
    assert_eq!((step.outcome, step.fault), (Outcome::Failed, Some("crash")));
    assert!(
        step.evidence.starts_with("convolution, backward: "),
        "{}",
        step.evidence
    );
    assert!(step.evidence.contains("SIGSEGV"), "{}", step.evidence);
}

#[test]
fn of_an_error_of_libtorchs_the_stack_is_left_out() {
    let text = "error: convolution: CUDA error: an illegal instruction was encountered\nException raised from x at y.cpp:1\nframe #0: z\n";
    let step = judge(&Rung::Convolution, &end(Death::Exited(5), "", text));
    assert_eq!(
        step.evidence,
        "convolution: CUDA error: an illegal instruction was encountered"
    );
}

#[test]
fn an_error_that_is_known_comes_with_what_to_do() {
    let text = "error: CUDA error: CUDA driver version is insufficient for CUDA runtime version\n";
    let step = judge(&Rung::Environment, &end(Death::Exited(9), "", text));
    assert_eq!(step.outcome, Outcome::Failed);
    assert!(step.evidence.starts_with("CUDA error"), "{}", step.evidence);
    assert!(step.remedy.is_some() && step.fault.is_some(), "{step:?}");
}

#[test]
fn a_trainings_fault_is_known_by_its_word() {
    let text = "error: crash: the program was ended by SIGSEGV\n";
    let step = judge(
        &Rung::Pipeline { real: true },
        &end(Death::Exited(5), "at: a training\n", text),
    );
    assert_eq!(step.fault, Some("crash"));
    assert_eq!(step.evidence, "crash: the program was ended by SIGSEGV");
}

#[test]
fn a_training_that_takes_longer_than_there_is_time_has_not_failed_and_anything_else_hangs() {
    let late = RungEnd {
        late: Some(Duration::from_secs(300)),
        ..end(Death::Signaled(9), "at: matrix product\n", "")
    };
    assert_eq!(
        judge(&Rung::Pipeline { real: true }, &late).outcome,
        Outcome::Passed
    );
    let hung = judge(&Rung::MatrixProduct, &late);
    assert_eq!((hung.outcome, hung.fault), (Outcome::Failed, Some("hang")));
    assert_eq!(hung.evidence, "no end within 300 s: matrix product");
}

#[test]
fn segments_that_cannot_grow_are_no_failure() {
    let step = judge(
        &Rung::ExpandableSegments,
        &end(Death::Exited(9), "", "error: x\n"),
    );
    assert_eq!(step.outcome, Outcome::Warning);
    assert!(step.remedy.is_some());
}

#[test]
fn the_last_line_names_the_first_rung_that_failed() {
    let steps = vec![
        judge(&Rung::Environment, &end(Death::Exited(0), "", "")),
        failed(&Rung::Loader { threads: 0 }),
        failed(&Rung::Pipeline { real: true }),
    ];
    let culprit = Culprit {
        rows: vec![17],
        places: vec!["rows.csv:18".to_owned()],
        of: 96,
        batch: 16,
        operation: Some("layer 0, forward".to_owned()),
        runs: 9,
    };
    let ladder = Ladder::new("mine".into(), Some("cpu".into()), steps, Some(culprit));
    assert_eq!(ladder.first_failed.as_deref(), Some("loader.0"));
    let text = ladder.summary();
    assert!(text.contains("row 17 (rows.csv:18), 1 of the 96"), "{text}");
    assert!(text.contains("where: layer 0, forward"), "{text}");
    assert!(
        text.ends_with("the first rung that failed: loader, 0 threads\n"),
        "{text}"
    );
}
