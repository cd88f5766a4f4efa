//! Whether a file is what the hub says it is: its ETag is the SHA-256 of large files and git's name
//! of small ones.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

use sha1::Sha1;
use sha2::{Digest, Sha256};

use training::Hasher;
use training::hex;

/// What a file was compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Checksum {
    /// SHA-256.
    Sha256,
    /// SHA-1 of git's blob.
    GitSha1,
    /// Only the size: the ETag is no checksum.
    SizeAlone,
}

/// What a file's size and ETag can be compared with.
pub fn kind(etag: &str) -> Checksum {
    let hexadecimal = etag.bytes().all(|b| b.is_ascii_hexdigit());
    match etag.len() {
        64 if hexadecimal => Checksum::Sha256,
        40 if hexadecimal => Checksum::GitSha1,
        _ => Checksum::SizeAlone,
    }
}

/// Compares a file with its size in bytes and ETag; whether it is the one.
///
/// # Errors
/// The file cannot be read.
pub fn matches(file: &Path, size: u64, etag: &str) -> io::Result<bool> {
    let mut open = File::open(file)?;
    if open.metadata()?.len() != size {
        return Ok(false);
    }
    let found = match kind(etag) {
        Checksum::Sha256 => digest(&mut open, Sha256::new())?,
        Checksum::GitSha1 => {
            let mut hash = Sha1::new();
            hash.update(format!("blob {size}\0"));
            digest(&mut open, hash)?
        }
        Checksum::SizeAlone => return Ok(true),
    };
    Ok(found == etag.to_ascii_lowercase())
}

fn digest(file: &mut File, hash: impl Digest) -> io::Result<String> {
    let mut hash = Hasher(hash);
    io::copy(&mut BufReader::with_capacity(1 << 20, file), &mut hash)?;
    Ok(hex(&hash.0.finalize()))
}
