//! The program as people use it, without libtorch.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm
)]

/// The project.
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

#[path = "../common/mod.rs"]
mod common;
#[path = "../nvml/mod.rs"]
mod nvml;
#[path = "../fuzz/src/readers/mod.rs"]
mod readers;

mod adopt;
mod ask_tell;
mod attack_database;
mod attack_files;
mod attack_hub;
mod attack_kills;
mod attack_places;
mod attack_programs;
mod bisect;
mod cgroup;
mod chaos;
mod children;
mod command;
mod compare;
mod crates;
mod docs;
mod docs_run;
mod doctor_machine;
mod doctor_run;
mod drill;
mod enqueue;
mod errors;
mod explain;
mod export_trials;
mod failing;
mod first_day;
mod fork;
mod leaving;
mod memory;
mod metrics_file;
mod notify;
mod objectives;
mod optuna;
mod output;
mod postgres;
mod probe;
mod python;
mod repeats;
mod report;
mod search_end;
mod simplify;
mod storage;
mod strike;
mod submit;
mod supervision;
mod task_file;
mod track;
mod versions;
mod views;
mod watch;
