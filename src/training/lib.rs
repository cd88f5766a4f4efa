//! What every trained kind shares, without libtorch: rows of a file and their division into parts and folds, the order of
//! batches, learning-rate schedules, scores with their trivial answers, and directories of exported models.

pub mod baseline;
pub mod batches;
pub mod division;
pub mod exported;
pub mod nonlinearity;
pub mod numbers;
mod origin;
pub mod rows;
pub mod schedule;
pub mod scores;
pub mod split;
pub mod table;
#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]
pub mod testing;

pub use origin::Origin;
pub use split::{Part, Split, split};

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
