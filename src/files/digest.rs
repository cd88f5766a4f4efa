//! Checksums of what is written.

use std::io::{self, Write};

use sha2::{Digest, Sha256};

/// A writer that counts and hashes what passes through.
pub struct Hashing<W> {
    inner: W,
    bytes: u64,
    sha256: Sha256,
}

impl<W: Write> Hashing<W> {
    /// Around another writer.
    pub fn new(inner: W) -> Hashing<W> {
        Hashing {
            inner,
            bytes: 0,
            sha256: Sha256::new(),
        }
    }

    /// How many bytes passed, and their SHA-256 in hexadecimal.
    ///
    /// # Errors
    /// The other writer cannot be flushed.
    pub fn finish(mut self) -> io::Result<(u64, String)> {
        self.inner.flush()?;
        let digest = self.sha256.finalize();
        let hex = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok((self.bytes, hex))
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.sha256.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
