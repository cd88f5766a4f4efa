//! Power cuts, at every step of what a test does.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file or directory, by its number in the file system.
type Node = u64;

/// The disk as it is flushed: contents of files, and what names a directory may hold after a power cut; the
/// first of each name's is the flushed one.
#[derive(Clone, Default)]
struct Disk {
    contents: BTreeMap<Node, Vec<u8>>,
    names: BTreeMap<Node, BTreeMap<String, Vec<Option<Node>>>>,
}

struct Watch {
    root: PathBuf,
    disk: Disk,
    directories: BTreeSet<Node>,
    /// Open, so that no number is given anew.
    held: BTreeMap<Node, File>,
    after: Vec<(Disk, BTreeMap<PathBuf, Vec<u8>>)>,
}

thread_local! {
    static WATCH: RefCell<Option<Watch>> = const { RefCell::new(None) };
}

/// Does `work`, which changes what is in `root`, and gives `found` every tree that a kill or a power cut at one
/// of its steps can leave. Only what this thread does is seen.
pub fn cuts(root: &Path, work: impl FnOnce(), mut found: impl FnMut(&Path)) -> usize {
    let mut watch = Watch {
        root: root.to_owned(),
        disk: Disk::default(),
        directories: BTreeSet::new(),
        held: BTreeMap::new(),
        after: Vec::new(),
    };
    watch.look(true);
    watch.keep();
    WATCH.set(Some(watch));
    work();
    let mut watch = WATCH.take().unwrap();
    watch.look(false);
    watch.keep();
    let top = fs::metadata(root).unwrap().ino();
    let mut count = 0;
    for (disk, files) in &watch.after {
        let mut check = |write: &dyn Fn(&Path)| {
            let left = tempfile::tempdir().unwrap();
            write(left.path());
            found(left.path());
            count += 1;
        };
        check(&|to| {
            for (name, content) in files {
                fs::create_dir_all(to.join(name).parent().unwrap()).unwrap();
                fs::write(to.join(name), content).unwrap();
            }
        });
        let choices: Vec<usize> = (disk.names.values())
            .flat_map(|names| names.values().map(Vec::len))
            .collect();
        let all: usize = choices.iter().product();
        assert!(all <= 1 << 12, "{all} trees after one step");
        for mut choice in 0..all {
            let mut names = disk.names.clone();
            let each = names.values_mut().flat_map(BTreeMap::values_mut);
            for (held, count) in each.zip(&choices) {
                *held = vec![held[choice % count]];
                choice /= count;
            }
            check(&|to| watch.lay(top, &names, &disk.contents, to));
        }
    }
    count
}

pub(super) fn note(flushed: Option<&Path>) {
    WATCH.with_borrow_mut(|watch| {
        let Some(watch) = watch else { return };
        watch.look(false);
        if let Some(path) = flushed {
            let node = fs::metadata(path).unwrap().ino();
            match watch.disk.names.get_mut(&node) {
                Some(names) => {
                    for held in names.values_mut() {
                        *held = held.split_off(held.len() - 1);
                    }
                }
                None => {
                    watch.disk.contents.insert(node, fs::read(path).unwrap());
                }
            }
        }
        watch.keep();
    });
}

impl Watch {
    /// Sees what is there now; `flushed`: all of it is on the disk.
    fn look(&mut self, flushed: bool) {
        let mut dirs = vec![self.root.clone()];
        while let Some(dir) = dirs.pop() {
            let node = fs::metadata(&dir).unwrap().ino();
            self.directories.insert(node);
            let mut now = BTreeMap::new();
            for entry in fs::read_dir(&dir).unwrap() {
                let path = entry.unwrap().path();
                let inner = fs::metadata(&path).unwrap().ino();
                let open = || File::open(&path).unwrap();
                self.held.entry(inner).or_insert_with(open);
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                now.insert(name, inner);
                if path.is_dir() {
                    dirs.push(path);
                } else if flushed {
                    let content = fs::read(&path).unwrap();
                    self.disk.contents.insert(inner, content);
                }
            }
            let names = self.disk.names.entry(node).or_default();
            for name in now.keys() {
                let new = || if flushed { Vec::new() } else { vec![None] };
                names.entry(name.clone()).or_insert_with(new);
            }
            for (name, held) in names {
                let there = now.get(name).copied();
                if held.last() != Some(&there) {
                    held.push(there);
                }
            }
        }
    }

    /// Remembers what this step leaves.
    fn keep(&mut self) {
        let mut files = BTreeMap::new();
        let mut dirs = vec![self.root.clone()];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(&dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    dirs.push(path);
                } else {
                    let name = path.strip_prefix(&self.root).unwrap().to_owned();
                    files.insert(name, fs::read(&path).unwrap());
                }
            }
        }
        self.after.push((self.disk.clone(), files));
    }

    fn lay(
        &self,
        dir: Node,
        names: &BTreeMap<Node, BTreeMap<String, Vec<Option<Node>>>>,
        contents: &BTreeMap<Node, Vec<u8>>,
        to: &Path,
    ) {
        let held = names.get(&dir).into_iter().flatten();
        for (name, held) in held {
            let Some(node) = held[0] else { continue };
            let path = to.join(name);
            if self.directories.contains(&node) {
                fs::create_dir(&path).unwrap();
                self.lay(node, names, contents, &path);
            } else {
                // What was never flushed has no content.
                let content = contents.get(&node).cloned().unwrap_or_default();
                fs::write(path, content).unwrap();
            }
        }
    }
}
