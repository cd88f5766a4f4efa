//! `tune doctor TASK --differential` by the real program, with planted faults.

use crate::common::card::Cards;
use crate::common::{Project, tiny, valid};
use crate::doctor_ladder::{SPLIT, one_bad_row};
use serde_json::Value as Json;

/// What the runs of `tiny` have shown, on a card where there is one.
fn differential(cards: Option<&Cards>, project: &Project, more: &[&str]) -> Json {
    let device = if cards.is_some() { "cuda:0" } else { "cpu" };
    let args = [
        "doctor",
        "tiny",
        "--differential",
        "--json",
        "--quiet",
        "--budget",
        "4m",
        "--device",
        device,
    ];
    let command = project.tune(&[&args[..], more].concat());
    let mut command = match cards {
        Some(cards) => cards.given_to(command),
        None => command,
    };
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let answer: Json = serde_json::from_slice(&output.stdout).expect(&errors);
    assert_eq!(output.status.code(), Some(5), "{answer:#} {errors}");
    valid("doctor", &answer);
    answer["run"].clone()
}

fn change<'a>(run: &'a Json, name: &str) -> &'a Json {
    let changes = run["changes"].as_array().unwrap();
    let found = changes.iter().find(|change| change["name"] == name);
    found.unwrap_or_else(|| panic!("no {name}: {run:#}"))
}

#[test]
fn a_kernel_that_dies_is_named_with_its_operation_and_the_setting_that_goes_round_it() {
    let cards = Cards::with(
        "memory 600M\ncontext 16M",
        "launch/*GeluBackward*=sticky:715",
    );
    let run = differential(Some(&cards), &tiny::project(60), &[]);
    let first = &run["hypotheses"][0];
    assert_eq!(first["cause"], "gpu_kernel", "{run:#}");
    let operation = run["operation"].as_str().unwrap();
    assert!(operation.starts_with("aten::gelu_backward"), "{run:#}");
    assert_eq!(change(&run, "operation_on_cpu")["verdict"], "cleared");
    let workaround = first["workaround"].as_str().unwrap();
    assert!(workaround.contains("device.fallback_ops"), "{run:#}");
    assert!(
        run["headline"]
            .as_str()
            .unwrap()
            .contains("illegal instruction of the GPU"),
        "{run:#}"
    );
}

#[test]
fn a_kernel_that_dies_with_tf32_alone_is_told_from_others() {
    let cards = Cards::with(
        "memory 600M\ncontext 16M",
        "launch/*gemm*@9+$NVIDIA_TF32_OVERRIDE!0=sticky:715",
    );
    let run = differential(Some(&cards), &tiny::project(60), &[]);
    assert_eq!(run["hypotheses"][0]["cause"], "tf32_kernel", "{run:#}");
    assert_eq!(change(&run, "tf32_off")["verdict"], "cleared");
}

#[test]
fn a_row_that_cannot_be_trained_on_is_found_where_made_up_ones_can() {
    let (project, row) = one_bad_row();
    let run = differential(None, &project, &SPLIT);
    assert_eq!(change(&run, "synthetic")["verdict"], "cleared", "{run:#}");
    assert_eq!(run["rows"], serde_json::json!([row]), "{run:#}");
}
