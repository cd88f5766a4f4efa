//! Where the files of a project's studies are: beside their database, in the directory of its name with
//! `.d` behind it. A study's name becomes a part of a path by [`part`].

use std::path::{Path, PathBuf};

use crate::name::part;
use crate::{beside, plain};

/// The directory beside a database: `tune.db` has `tune.db.d`. It is the same for every link to the
/// database, and an absolute path without links.
pub fn directory_of(storage: &Path) -> PathBuf {
    beside(&plain::real(storage), ".d")
}

/// Where a study's logs are.
pub fn logs_dir(dir: &Path, study: &str) -> PathBuf {
    dir.join("logs").join(&*part(study))
}

/// The directory of a study's checkpoints, relative to the database's directory.
pub fn checkpoints_dir(study: &str) -> String {
    format!("checkpoints/{}", part(study))
}

/// The directory of a study's kept weights, relative to the database's directory.
pub fn weights_dir(study: &str) -> String {
    format!("kept/{}", part(study))
}

/// The ledger of the faults that were made on purpose in a study.
pub fn ledger_of(dir: &Path, study: &str) -> PathBuf {
    dir.join("injected").join(format!("{}.jsonl", part(study)))
}

/// What a study's batches are kept in that the database could not take.
pub fn spool_of(dir: &Path, study: &str) -> PathBuf {
    dir.join("spool").join(format!("{}.jsonl", part(study)))
}

/// Where entries of a study's spool are kept that could not be taken in.
pub fn rejected_of(dir: &Path, study: &str) -> PathBuf {
    dir.join("spool")
        .join("rejected")
        .join(format!("{}.jsonl", part(study)))
}

/// All files and directories that a study may have, its lock file last. What only one node writes is in `own`, which is `dir`
/// itself where a database has no nodes.
pub fn places_of(dir: &Path, own: &Path, study: &str) -> Vec<PathBuf> {
    vec![
        logs_dir(dir, study),
        dir.join(checkpoints_dir(study)),
        dir.join(weights_dir(study)),
        ledger_of(dir, study),
        spool_of(own, study),
        rejected_of(own, study),
        lock_of(own, study),
    ]
}

/// The lock file of a study.
pub fn lock_of(dir: &Path, study: &str) -> PathBuf {
    dir.join("locks").join(format!("{}.lock", part(study)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_node_alone_writes_lies_in_its_own_directory() {
        let own = Path::new("/d/nodes/a.d");
        let places = places_of(Path::new("/d"), own, "s");
        let is_own: Vec<bool> = places.iter().map(|p| p.starts_with(own)).collect();
        assert_eq!(is_own, [false, false, false, false, true, true, true]);
        assert_eq!(places.last(), Some(&lock_of(own, "s")));
    }
}
