//! Rows to predict, and their answers, as files: read one by one, so that a large file is never in
//! memory as a whole. Reading and writing need no libtorch.

mod input;
mod model;
mod output;

pub use input::{Input, Record, Survey, TextColumns, Wanted};
pub use model::{AnyExported, Known};
pub use output::{AnswerFormat, Prediction, Writer, written};

#[cfg(test)]
mod tests;
