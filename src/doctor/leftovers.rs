//! What earlier runs have left in a program's folder, and copies of the folder without it.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::change::{Change, Setting};
use crate::links::is_of_tools;

/// Most files and folders of a copy that are more than links.
const ENTRIES: usize = 20_000;

/// Bytes of all files of a copy that are more than links.
const BYTES: u64 = 256 << 20;

/// A file that the program reads and that is older than the run, in a place that programs write to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Leftover {
    /// The folder or file whose name says so, from the working directory: `.cache`.
    pub root: String,
    /// The file: `.cache/mel.npy`.
    pub file: String,
}

/// What these settings leave out of the working directory.
pub fn left_out(settings: &BTreeSet<Setting>, leftovers: &BTreeSet<Leftover>) -> BTreeSet<PathBuf> {
    let all = settings.contains(&Setting::Change(Change::NoLeftovers));
    let roots = leftovers.iter().map(|left| &left.root).filter(|_| all);
    let named = settings.iter().filter_map(|setting| {
        if let Setting::WithoutFile(name) = setting {
            Some(name)
        } else {
            None
        }
    });
    roots.chain(named).map(PathBuf::from).collect()
}

/// A command's words with paths below one folder led below another.
pub fn moved(words: &[String], from: &Path, to: &Path) -> Vec<String> {
    let below = |word: &String| match Path::new(word).strip_prefix(from) {
        Ok(rest) => to.join(rest).display().to_string(),
        Err(_) => word.clone(),
    };
    words.iter().map(below).collect()
}

/// Makes a copy of a folder without these paths, which are given from it. Files that are large, and folders of tools or of
/// many files, are links to the originals.
///
/// # Errors
/// What the system says.
pub fn copy_without(from: &Path, to: &Path, without: &BTreeSet<PathBuf>) -> io::Result<()> {
    let without = without.iter().map(|path| from.join(path)).collect();
    let mut copy = Copy {
        without,
        entries: ENTRIES,
        bytes: BYTES,
    };
    copy.folder(from, to)
}

struct Copy {
    without: BTreeSet<PathBuf>,
    /// How many entries may still be more than links.
    entries: usize,
    bytes: u64,
}

impl Copy {
    fn folder(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::create_dir(to)?;
        for entry in fs::read_dir(from)? {
            let name = entry?.file_name();
            let (path, copied) = (from.join(&name), to.join(&name));
            if self.without.contains(&path) {
                continue;
            }
            let above = self.without.iter().any(|out| out.starts_with(&path));
            if above && path.is_dir() || self.is_copied(&path) {
                self.folder(&path, &copied)?;
            } else if !self.file(&path, &copied) {
                let target = fs::read_link(&path).map_or(path.clone(), |target| from.join(target));
                symlink(target, copied)?;
            }
        }
        Ok(())
    }

    /// Whether a folder is made anew, and not only linked to.
    fn is_copied(&mut self, folder: &Path) -> bool {
        if folder.is_symlink() || !folder.is_dir() || is_of_tools(folder) {
            return false;
        }
        let Ok(entries) = fs::read_dir(folder) else {
            return false;
        };
        let count = entries.take(self.entries + 1).count();
        let fits = count <= self.entries;
        if fits {
            self.entries -= count;
        }
        fits
    }

    /// Copies a file if it is not too large; says whether it has.
    fn file(&mut self, from: &Path, to: &Path) -> bool {
        let meta = fs::symlink_metadata(from).ok();
        let fits = |meta: &fs::Metadata| meta.is_file() && meta.len() <= self.bytes;
        let Some(meta) = meta.filter(fits) else {
            return false;
        };
        self.bytes -= meta.len();
        // Programs compare times to see what is out of date.
        let dated = |time| fs::File::open(to)?.set_modified(time);
        let copied = fs::copy(from, to).and_then(|_| dated(meta.modified()?));
        copied.is_ok() || {
            // Half of a copy would stand in a link's place.
            let _ = fs::remove_file(to);
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_lacks_what_is_left_out_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        for folder in ["src", ".cache/deep", "venv/lib", "elsewhere"] {
            fs::create_dir_all(from.join(folder)).unwrap();
        }
        for file in [
            "train.py",
            "src/a.py",
            ".cache/deep/x.npy",
            ".cache/y.npy",
            "venv/pyvenv.cfg",
            "elsewhere/z.npy",
        ] {
            fs::write(from.join(file), file).unwrap();
        }
        symlink("elsewhere", from.join("data")).unwrap();
        symlink("nowhere", from.join("gone")).unwrap();
        let without = [".cache/deep/x.npy".into(), "data/z.npy".into()].into();
        copy_without(&from, &to, &without).unwrap();
        assert_eq!(fs::read_to_string(to.join("src/a.py")).unwrap(), "src/a.py");
        assert!(to.join(".cache/y.npy").is_file() && to.join(".cache/deep").is_dir());
        assert!(!to.join(".cache/deep/x.npy").exists() && !to.join("data/z.npy").exists());
        assert!(to.join("elsewhere/z.npy").exists() && to.join("venv").is_symlink());
        assert!(to.join("gone").is_symlink() && !to.join("gone").exists());
        let time = |dir: &Path| dir.join("train.py").metadata().unwrap().modified().unwrap();
        assert_eq!(time(&to), time(&from));
        fs::write(to.join("train.py"), "another").unwrap();
        fs::write(to.join("src/new"), "new").unwrap();
        assert_eq!(
            fs::read_to_string(from.join("train.py")).unwrap(),
            "train.py"
        );
        assert!(!from.join("src/new").exists());
    }

    #[test]
    fn paths_below_the_folder_are_led_to_the_copy() {
        let words = ["python", "/a/b/train.py", "/a/bc", "x"].map(str::to_owned);
        let moved = moved(&words, Path::new("/a/b"), Path::new("/t"));
        assert_eq!(moved, ["python", "/t/train.py", "/a/bc", "x"]);
    }

    #[test]
    fn all_that_earlier_runs_left_is_left_out_or_what_is_named() {
        let leftover = |root: &str, file: &str| Leftover {
            root: root.to_owned(),
            file: file.to_owned(),
        };
        let of = [leftover("cache", "cache/a"), leftover("cache", "cache/b")].into();
        let all = BTreeSet::from([Setting::Change(Change::NoLeftovers)]);
        assert_eq!(left_out(&all, &of), BTreeSet::from(["cache".into()]));
        let one = BTreeSet::from([Setting::WithoutFile("cache/b".to_owned())]);
        assert_eq!(left_out(&one, &of), BTreeSet::from(["cache/b".into()]));
        assert!(left_out(&BTreeSet::from([Setting::Watch]), &of).is_empty());
    }
}
