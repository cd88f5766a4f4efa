//! What people and scripts see: the only module that writes to the terminal.

mod json;
pub mod query;

pub use json::{json_number, number_from_json};
