//! The crates, and what each of them says of itself.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// The crates' folders.
fn folders() -> Vec<PathBuf> {
    let entries = fs::read_dir(format!("{}/src", crate::ROOT)).unwrap();
    let folders = entries.map(|entry| entry.unwrap().path());
    folders
        .filter(|path| path.join("Cargo.toml").is_file())
        .collect()
}

fn name(folder: &std::path::Path) -> String {
    folder.file_name().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn each_says_in_its_readme_which_others_it_may_use() {
    let folders = folders();
    let crates: BTreeSet<String> = folders.iter().map(|folder| name(folder)).collect();
    assert!(crates.len() > 10);
    for folder in folders {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let (_, dependencies) = manifest.split_once("\n[dependencies]\n").unwrap();
        let used: BTreeSet<&str> = (dependencies.lines())
            .take_while(|line| !line.starts_with('['))
            .filter(|line| !line.contains("optional"))
            .filter_map(|line| line.split(['.', ' ', '=']).next())
            .filter(|dependency| crates.contains(*dependency))
            .collect();
        let readme = fs::read_to_string(folder.join("README.md")).unwrap();
        let said = readme
            .lines()
            .find_map(|line| line.strip_prefix("* **May use** "));
        let said: BTreeSet<&str> = said.unwrap().split('`').skip(1).step_by(2).collect();
        assert_eq!(said, used, "{}", folder.display());
    }
}
