//! Which libraries a process that trains really maps, and which others stand in their way.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use device::probe::{self, Silence};

/// Beginnings of the names of libraries that libtorch needs of one version: its own, and CUDA's.
const NEEDED: [&str; 15] = [
    "libtorch",
    "libc10",
    "libcuda.so",
    "libcudart",
    "libcudnn",
    "libcublas",
    "libnvrtc",
    "libcufft",
    "libcusparse",
    "libcusolver",
    "libcurand",
    "libnccl",
    "libnvidia-ml",
    "libgomp",
    "libiomp5",
];

/// What a process says that has loaded libtorch, or has tried to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loaded {
    /// Why libtorch could not be loaded.
    pub why: Option<String>,
    /// Libraries that are mapped, of those that libtorch needs.
    pub files: Vec<PathBuf>,
}

/// Why such a process said nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unloaded {
    /// A signal ended it.
    Signal(i32),
    /// Another reason, for people.
    Other(String),
}

impl Loaded {
    /// What this process has mapped, where loading libtorch failed for this reason or did not.
    pub fn here(why: Option<String>) -> Loaded {
        let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
        Loaded {
            why,
            files: mapped(&maps),
        }
    }

    /// The mapped files whose names begin like this.
    pub fn named(&self, beginning: &str) -> Vec<&Path> {
        let named = |path: &&PathBuf| name(path).starts_with(beginning);
        self.files
            .iter()
            .filter(named)
            .map(PathBuf::as_path)
            .collect()
    }
}

/// Has a child load libtorch and say what it has mapped then.
pub fn look() -> Result<Loaded, Unloaded> {
    probe::ask_for(&["--maps"], probe::LIMIT).map_err(|silence| match &silence {
        Silence::Ended(status) => match status.signal() {
            Some(signal) => Unloaded::Signal(signal),
            None => Unloaded::Other(silence.to_string()),
        },
        Silence::NotStarted(_) | Silence::Hangs(_) | Silence::Lost(_) => {
            Unloaded::Other(silence.to_string())
        }
    })
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|n| n.to_str()).unwrap_or("")
}

fn needed(path: &Path) -> bool {
    NEEDED.iter().any(|n| name(path).starts_with(n))
}

/// The needed libraries of `/proc/self/maps`, each once.
fn mapped(maps: &str) -> Vec<PathBuf> {
    let paths = maps.lines().filter_map(|line| {
        let at = line.find('/')?;
        Some(PathBuf::from(&line[at..])).filter(|p| needed(p))
    });
    let mut found: Vec<PathBuf> = paths.collect();
    found.sort();
    found.dedup();
    found
}

/// The name up to its version: `libcudnn` of `libcudnn.so.9.1.0` and of `libcudnn-1ab2c3d4.so.9`, as wheels have it.
fn stem(path: &Path) -> &str {
    let stem = name(path).split(".so").next().unwrap_or("");
    match stem.rsplit_once('-') {
        Some((before, hash)) if hash.len() == 8 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => {
            before
        }
        Some(_) | None => stem,
    }
}

/// Libraries that are mapped from two files.
pub fn twice(files: &[PathBuf]) -> Vec<Vec<&Path>> {
    let mut by_stem: BTreeMap<&str, Vec<&Path>> = BTreeMap::new();
    for file in files {
        by_stem.entry(stem(file)).or_default().push(file);
    }
    by_stem
        .into_values()
        .filter(|same| same.len() > 1)
        .collect()
}

/// Libraries in the directories of `LD_LIBRARY_PATH`, which are searched before those that libtorch names itself; not
/// those of `LIBTORCH`, nor those that it has itself. The driver's own are no shadows: they are nowhere else.
pub fn shadows(search: &str, libtorch: Option<&Path>) -> Vec<PathBuf> {
    let own = libtorch.map(|dir| dir.join("lib"));
    let own = own.and_then(|dir| dir.canonicalize().ok());
    let dirs = search.split(':').filter(|dir| !dir.is_empty());
    let mut found = Vec::new();
    for dir in dirs {
        let Ok(dir) = Path::new(dir).canonicalize() else {
            continue;
        };
        if own.as_ref() == Some(&dir) {
            continue;
        }
        let entries = fs::read_dir(&dir).into_iter().flatten().flatten();
        let paths = entries.map(|e| e.path());
        found.extend(paths.filter(|p| {
            let file = name(p);
            let driver = file.starts_with("libcuda.so") || file.starts_with("libnvidia-ml");
            let hidden = own.as_ref().is_some_and(|own| own.join(file).exists());
            file.contains(".so") && needed(p) && !driver && !hidden
        }));
    }
    found.sort();
    found.dedup();
    found
}

/// The architectures that a build of libtorch's CUDA library has code for, as its build options name them: `sm_90`,
/// `compute_120`. Its text for people has them; reading stops there.
pub fn architectures(library: &Path) -> Option<Vec<String>> {
    const CHUNK: usize = 8 << 20;
    const OVERLAP: usize = 4096;
    let option = regex::bytes::Regex::new(r"arch=compute_\w+,code=[\[\]\w,]*").ok()?;
    let code = regex::bytes::Regex::new(r"(sm|compute)_\d+[af]?").ok()?;
    let mut file = File::open(library).ok()?;
    let mut window = Vec::new();
    loop {
        let read = (&mut file)
            .take(CHUNK as u64)
            .read_to_end(&mut window)
            .ok()?;
        if let Some(first) = option.find(&window) {
            // The list may go on behind what was read.
            let start = first.start();
            (&mut file)
                .take(OVERLAP as u64)
                .read_to_end(&mut window)
                .ok()?;
            let rest = &window[start..];
            let end = rest.iter().position(|b| *b == 0).unwrap_or(rest.len());
            let codes = option.find_iter(&rest[..end]).flat_map(|found| {
                let codes = found.as_bytes().splitn(2, |b| *b == b',').nth(1);
                let names = code.find_iter(codes.unwrap_or_default());
                names.map(|n| String::from_utf8_lossy(n.as_bytes()).into_owned())
            });
            return Some(codes.collect());
        }
        if read == 0 {
            return None;
        }
        let kept = window.len().saturating_sub(OVERLAP);
        window.drain(..kept);
    }
}

/// Whether code for these architectures runs on a card of this compute capability: code of the same major version and no
/// later minor one, or of any earlier version where it is PTX (CUDA C++ Programming Guide, "Application Compatibility").
pub fn runs_on(architectures: &[String], (major, minor): (u32, u32)) -> bool {
    let own = major * 10 + minor;
    architectures.iter().any(|architecture| {
        let Some((kind, version)) = architecture.split_once('_') else {
            return false;
        };
        let digits = version.trim_end_matches(['a', 'f']);
        let Ok(number) = digits.parse::<u32>() else {
            return false;
        };
        match (kind, version.len() == digits.len()) {
            ("sm", true) => number / 10 == major && number <= own,
            ("compute", true) => number <= own,
            _ => number == own,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_libraries_are_told_once_and_only_those_that_matter() {
        let maps = "7f0-7f1 r--p 0 fe:00 1   /usr/lib/libc.so.6\n\
                    7f1-7f2 r-xp 0 fe:00 2   /opt/a b/libcudnn.so.9.1.0\n\
                    7f2-7f3 r--p 0 fe:00 2   /opt/a b/libcudnn.so.9.1.0\n\
                    7f3-7f4 rw-p 0 00:00 0   [heap]\n";
        assert_eq!(mapped(maps), [Path::new("/opt/a b/libcudnn.so.9.1.0")]);
    }

    #[test]
    fn one_library_from_two_files_is_seen() {
        let files = [
            "/a/libcudnn.so.9",
            "/b/libcudnn-0123abcd.so.9",
            "/a/libcudnn_ops.so.9",
        ];
        let files = files.map(PathBuf::from);
        let found = twice(&files);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].len(), 2);
    }

    #[test]
    fn what_shadows_is_found_and_the_drivers_own_is_not() {
        let root = tempfile::tempdir().unwrap();
        let (other, torch) = (root.path().join("other"), root.path().join("torch"));
        fs::create_dir_all(&other).unwrap();
        fs::create_dir_all(torch.join("lib")).unwrap();
        for name in [
            "libcudnn.so.8",
            "libcuda.so.1",
            "libx.so",
            "libc10.so",
            "libcudnn.a",
        ] {
            fs::write(other.join(name), "").unwrap();
        }
        fs::write(torch.join("lib/libc10.so"), "").unwrap();
        let search = format!("{}:{}/lib:/nonexistent", other.display(), torch.display());
        let names = |found: Vec<PathBuf>| -> Vec<String> {
            found.iter().map(|p| name(p).to_owned()).collect()
        };
        assert_eq!(names(shadows(&search, Some(&torch))), ["libcudnn.so.8"]);
        let without = shadows(&other.display().to_string(), None);
        assert_eq!(names(without), ["libc10.so", "libcudnn.so.8"]);
    }

    #[test]
    fn architectures_are_read_from_the_library_and_compared_with_the_card() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("libtorch_cuda.so");
        let flags = "-gencode;arch=compute_75,code=sm_75;-gencode;arch=compute_90a,code=[sm_90a,compute_90a];\
                     -gencode;arch=compute_120,code=compute_120\0 arch=compute_1,code=sm_10";
        let mut bytes = vec![7_u8; (8 << 20) - 40];
        bytes.extend_from_slice(flags.as_bytes());
        fs::write(&path, bytes).unwrap();
        let found = architectures(&path).unwrap();
        assert_eq!(found, ["sm_75", "sm_90a", "compute_90a", "compute_120"]);
        let runs = |card| runs_on(&found, card);
        assert!(runs((7, 5)) && runs((9, 0)) && runs((12, 1)));
        assert!(!runs((7, 0)) && !runs((8, 6)) && !runs((10, 0)));
        assert_eq!(architectures(Path::new("/proc/self/status")), None);
    }
}
