//! Seeds and generators derived from the study's seed.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use sha2::{Digest, Sha256};

/// A seed for `purpose` (`"trial"`, `"sampler"`, ...) at trial `number`, a function of the
/// arguments alone: the first eight bytes of SHA-256 over them. Masked to 63 bits so that it fits
/// SQLite's and PyTorch's signed integers.
pub fn derive_seed(study_seed: u64, number: u64, purpose: &str) -> u64 {
    let mut hash = Sha256::new();
    hash.update(study_seed.to_le_bytes());
    hash.update(number.to_le_bytes());
    hash.update(purpose.as_bytes());
    let digest = hash.finalize();
    let mut bytes = [0u8; 8];
    bytes.copy_from_slice(&digest[..8]);
    u64::from_le_bytes(bytes) >> 1
}

/// A generator seeded by [`derive_seed`]. ChaCha8 is specified independently of the platform and
/// of the version of `rand`.
pub fn rng(study_seed: u64, number: u64, purpose: &str) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(derive_seed(study_seed, number, purpose))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_differ_by_each_argument_and_never_change() {
        let base = derive_seed(0, 0, "trial");
        assert_ne!(base, derive_seed(1, 0, "trial"));
        assert_ne!(base, derive_seed(0, 1, "trial"));
        assert_ne!(base, derive_seed(0, 0, "sampler"));
        // Studies in the field depend on these values.
        assert_eq!(base, derive_seed(0, 0, "trial"));
        assert!(base <= i64::MAX as u64);
    }
}
