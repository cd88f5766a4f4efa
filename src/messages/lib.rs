//! What `tune` says to people and scripts: exit codes and the failures that carry one, JSON numbers, JSON as
//! Python writes it, text that cannot drive a terminal, and the time of day. [`table!`] makes an enum with the table of what
//! is said of its variants.

pub mod any_float;
pub mod clock;
pub mod exit;
mod json;
mod printable;
mod python_json;
mod table;
#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]
pub mod testing;

pub use exit::{Exit, Failure};
pub use json::{JSON_VERSION, json_number, number_from_json};
pub use printable::{printable, printable_lines};
pub use python_json::{python_json, to_python_json};
