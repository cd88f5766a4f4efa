//! Rows to predict, and their answers, as files: read one by one, so that a large file is never in
//! memory as a whole. Reading and writing need no libtorch.

#[cfg(feature = "torch")]
mod answer;
mod input;
mod output;

#[cfg(feature = "torch")]
pub use answer::{Target, answer, write};
pub use input::{Cells, Input, Record, Survey, Wanted};
pub use output::{Shape, Writer, written};

#[cfg(test)]
mod tests;
