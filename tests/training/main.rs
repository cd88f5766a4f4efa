//! Training with libtorch, by the real program: on the CPU, and on cards of the stand-in for the CUDA runtime.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm
)]

/// The project.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

#[path = "../common/mod.rs"]
mod common;

mod criteria;
mod cuda;
mod cuda_memory;
mod cuda_search;
mod data;
mod detection;
mod doctor_bisect;
mod doctor_differential;
mod doctor_garden;
mod doctor_ladder;
mod resume;
mod standin;
mod tabular;
mod winner;
