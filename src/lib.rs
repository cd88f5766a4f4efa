//! `tune`: hyperparameter search for libtorch with a built-in process supervisor.
//!
//! ```text
//!             configs/criteria.toml + command line
//!                           |  resolved once, checked whole            (config, space)
//!                           v
//!   study --ask--> sampler  TrialSpec{number, params, seed}            (study, sampler)      pure
//!     ^                     |  Propose / Proposed, on a thread
//!     |                     v
//!     |   supervisor core: hear(event), go_on() -> actions             (supervisor::core)    pure
//!     |                     |  Spawn / Send / Kill / Write ...
//!     |                     v
//!     |   supervisor driver: processes, sockets, signals, clock        (supervisor::driver)  shell
//!     |                     |  JSON frames over a socketpair           (protocol)
//!     |                     v
//!     |   worker: one process, one CUDA context, many trials           (worker)              shell
//!     |                     |  Task::run(trial, reporter)
//!     |                     v
//!     |   task: data -> model -> epochs -> metric per epoch            (task)                libtorch
//!     |                     |
//!     +-- tell <- store <- evidence -> fault classification            (store, fault)
//!               SQLite         |
//!                              +--> report: terminal, JSON lines       (report)
//! ```
//!
//! Pure modules take the time, the randomness and everything they read as arguments and touch no
//! process, disk or device; all decisions live there. The shells only carry decisions out.

pub mod adopt;
pub mod ask_tell;
pub mod cli;
pub mod clock;
pub mod config;
pub mod digest;
pub mod drill;
pub mod exit;
pub mod fault;
pub mod files;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
pub mod gpu;
pub mod inject;
pub mod kept;
pub mod memory;
pub mod protocol;
pub mod pruner;
pub mod report;
pub mod sampler;
pub mod space;
pub mod store;
pub mod study;
pub mod supervisor;
pub mod task;
pub mod worker;
