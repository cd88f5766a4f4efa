//! What the program asks of the library that has libtorch, and what comes back: requests, rows to be answered, answers and
//! their scores, for the exported models of all kinds.

pub mod destination;
pub mod evaluation;
mod evaluation_report;
pub mod predict;
pub mod torch_request;

pub use evaluation_report::{Evaluation, Score, evaluation_json, evaluation_text};
