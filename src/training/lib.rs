//! What every trained kind shares, without libtorch: rows of a file and their division into parts and folds, the order of
//! batches, learning-rate schedules, scores with their trivial answers, tensors in files, and directories
//! of exported models.

pub mod baseline;
pub mod batches;
pub mod division;
pub mod exported;
pub mod leakage;
pub mod nonlinearity;
pub mod numbers;
mod origin;
pub mod rows;
pub mod schedule;
pub mod scores;
pub mod split;
pub mod table;
pub mod tensors;
#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]
pub mod testing;

use std::io;

use sha2::Digest;

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

/// A hash of everything that is written to it.
#[derive(Debug)]
pub struct Hasher<D>(pub D);

impl<D: Digest> io::Write for Hasher<D> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
