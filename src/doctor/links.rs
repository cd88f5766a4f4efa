//! Links in a program's own folder that lead nowhere.

use std::fs;
use std::path::{Path, PathBuf};

/// How deep folders are looked into.
const DEPTH: usize = 5;

/// Most entries that are looked at: a folder of data may have millions.
const ENTRIES: usize = 20_000;

/// Folders of tools, whose links are not the program's: environments, repositories, what builds make.
const NOT_ITS_OWN: [&str; 5] = [
    ".git",
    "node_modules",
    "site-packages",
    "target",
    "__pycache__",
];

/// Whether a folder is one of tools.
pub fn is_of_tools(folder: &Path) -> bool {
    let name = folder.file_name().map(|name| name.to_string_lossy());
    name.is_some_and(|name| NOT_ITS_OWN.contains(&&*name)) || folder.join("pyvenv.cfg").exists()
}

/// The first link, by name, in a folder and those below it whose target is not there, as seen from that folder. Folders that cannot be read are left out.
pub fn dangling_link(folder: &Path) -> Option<PathBuf> {
    let mut left = ENTRIES;
    let link = look(folder, DEPTH, &mut left)?;
    Some(
        link.strip_prefix(folder)
            .map_or(link.clone(), Path::to_owned),
    )
}

fn look(folder: &Path, depth: usize, left: &mut usize) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten().take(*left);
    let mut entries: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    *left -= entries.len();
    entries.sort();
    let name = |path: &PathBuf| {
        path.file_name()
            .map(|name| name.to_string_lossy().into_owned())
    };
    // Emacs locks a file that it edits by a link to nowhere.
    let locks = |path: &PathBuf| name(path).is_some_and(|name| name.starts_with(".#"));
    let leads_nowhere = |path: &&PathBuf| path.is_symlink() && !path.exists() && !locks(path);
    if let Some(link) = entries.iter().find(leads_nowhere) {
        return Some(link.clone());
    }
    let own = |path: &&PathBuf| {
        // What a link leads to may lead back.
        !path.is_symlink() && path.is_dir() && !is_of_tools(path)
    };
    let mut folders = entries.iter().filter(own);
    (depth > 0)
        .then(|| folders.find_map(|path| look(path, depth - 1, left)))
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_link_that_leads_nowhere_is_found_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data/blocks");
        let tools = folder.path().join("venv/lib");
        for path in [&data, &tools] {
            fs::create_dir_all(path).unwrap();
        }
        fs::write(folder.path().join("venv/pyvenv.cfg"), "").unwrap();
        symlink("nowhere", tools.join("python")).unwrap();
        fs::write(data.join("a.npy"), "rows").unwrap();
        symlink("a.npy", data.join("b.npy")).unwrap();
        symlink("..", data.join("up")).unwrap();
        symlink("me@host.1", data.join(".#a.npy")).unwrap();
        assert_eq!(dangling_link(folder.path()), None);
        symlink("../objects/7f", data.join("c.npy")).unwrap();
        let link = PathBuf::from("data/blocks/c.npy");
        assert_eq!(dangling_link(folder.path()), Some(link));
        assert_eq!(dangling_link(&folder.path().join("none")), None);
    }
}
