//! Where answers may be written: never over what the command itself reads, nor under the name of a
//! model's file in a model's directory, where it would be taken for one the next time.

use std::fs;
use std::path::{Path, PathBuf};

use text::checkpoint::WEIGHTS_FILES;
use text::tokenizer::TOKENIZER_FILES;
use training::exported::{DESCRIPTIONS, ORIGIN_FILE};

/// Why `out` must not be written to, however it is spelled and through whichever links; `None`: it may
/// be. `read` are other files that are read, with what they are (`the file of the rows`); `files` are those of a model in `dir`.
pub fn refused(
    out: &Path,
    read: &[(&str, &Path)],
    (dir, files): (&Path, &[PathBuf]),
) -> Option<String> {
    if let Some((what, file)) = read.iter().find(|(_, file)| same_file(out, file)) {
        return Some(format!(
            "that is {what}, {}, which would be lost; expected another file",
            file.display()
        ));
    }
    let is_read = files.iter().any(|file| same_file(out, file));
    let named = || {
        let (parent, name) = place(out)?;
        let inside = fs::canonicalize(dir).ok()? == parent;
        (inside && is_model_file(&name)).then_some(())
    };
    (is_read || named().is_some()).then(|| {
        format!(
            "that is a file of the model in {}, which would be another one; expected another file",
            dir.display()
        )
    })
}

/// Whether two paths lead to one file that is there, however they are spelled and through whichever
/// links.
fn same_file(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let place = |path: &Path| {
        let meta = fs::metadata(path).ok()?;
        Some((meta.dev(), meta.ino()))
    };
    place(a).is_some_and(|a| place(b) == Some(a))
}

/// The directory of a file, which need not be there, and its name.
fn place(file: &Path) -> Option<(PathBuf, String)> {
    let file = std::path::absolute(file).ok()?;
    let dir = fs::canonicalize(file.parent()?).ok()?;
    Some((dir, file.file_name()?.to_str()?.to_owned()))
}

/// Whether a file of this name in a model's directory is taken for a part of the model.
fn is_model_file(name: &str) -> bool {
    let others = ["config.json", "generation_config.json", "README.md"];
    let exact = others.iter().chain(&DESCRIPTIONS).chain(&[ORIGIN_FILE]);
    let mut exact = exact.chain(&TOKENIZER_FILES).chain(&WEIGHTS_FILES);
    let shard = |first: &str, last: &str| name.starts_with(first) && name.ends_with(last);
    exact.any(|file| *file == name)
        || shard("model-", ".safetensors")
        || shard("pytorch_model-", ".bin")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use text::checkpoint::Checkpoint;
    use text::testing::write_tiny_bert;

    /// A model in `model`, beside it rows, in `rows.csv`.
    fn site() -> (tempfile::TempDir, Checkpoint) {
        let dir = tempfile::tempdir().unwrap();
        let model = dir.path().join("model");
        fs::create_dir(&model).unwrap();
        write_tiny_bert(&model, 1);
        fs::write(dir.path().join("rows.csv"), "text\na\n").unwrap();
        let checkpoint = Checkpoint::open("tiny", &model).unwrap();
        (dir, checkpoint)
    }

    #[test]
    fn nothing_that_is_read_is_written_over_under_whichever_name() {
        let (dir, model) = site();
        let at = |name: &str| dir.path().join(name);
        let rows = at("rows.csv");
        symlink(&rows, at("link.csv")).unwrap();
        symlink(at("model"), at("models")).unwrap();
        symlink("models/config.json", at("config.csv")).unwrap();
        fs::hard_link(at("model/model.safetensors"), at("hard.csv")).unwrap();
        let why = |name: &str| {
            refused(
                &at(name),
                &[("the file of the rows", &rows)],
                (&model.dir, &model.files()),
            )
        };
        for name in ["rows.csv", "model/../rows.csv", "link.csv"] {
            let why = why(name).unwrap_or_default();
            assert!(why.starts_with("that is the file of the rows"), "{name}");
            assert!(why.contains("rows.csv, which would be lost"), "{why}");
        }
        for name in [
            "model/config.json",
            "model/tokenizer.json",
            "models/model.safetensors",
            "model/../model/model.safetensors",
            "config.csv",
            "hard.csv",
        ] {
            let why = why(name).unwrap_or_default();
            assert!(why.starts_with("that is a file of the model"), "{name}");
        }
        for name in ["new.csv", "model/new.csv", "model/answers.safetensors"] {
            assert_eq!(why(name), None);
        }
        // A file that is not there is no other one that is not there.
        let other = at("other.csv");
        assert_eq!(
            refused(&other, &[("it", &other)], (&model.dir, &model.files())),
            None
        );
    }

    #[test]
    fn a_name_that_a_model_would_be_read_from_is_refused_in_its_directory_alone() {
        let (dir, model) = site();
        let why = |name: &str| refused(&dir.path().join(name), &[], (&model.dir, &model.files()));
        symlink("model", dir.path().join("link")).unwrap();
        for name in [
            "tune.json",
            "head.json",
            "vocab.txt",
            "pytorch_model.bin",
            "model-00001-of-00002.safetensors",
        ] {
            assert!(why(&format!("model/{name}")).is_some(), "{name}");
            assert!(why(&format!("link/{name}")).is_some(), "{name}");
            assert_eq!(why(name), None);
        }
    }
}
