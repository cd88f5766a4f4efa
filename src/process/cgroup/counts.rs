//! What a memory cgroup says: its limit, what is left of it, and how often the kernel has killed in it.

use std::fs;
use std::path::Path;

use super::place::{OwnCgroup, Version};

impl OwnCgroup {
    /// The limits of this cgroup and of those that it is in, from the innermost outwards: bytes in all,
    /// and what is left.
    pub fn limits(&self) -> Vec<(u64, u64)> {
        let [max, current, cached] = match self.version {
            Version::One => [
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
                "total_inactive_file ",
            ],
            Version::Two => ["memory.max", "memory.current", "inactive_file "],
        };
        let seen = self
            .dir
            .ancestors()
            .take_while(|d| d.starts_with(&self.top));
        seen.filter_map(|dir| {
            let read = |file| fs::read_to_string(dir.join(file)).unwrap_or_default();
            limit(
                &read(max),
                &read(current),
                entry(&read("memory.stat"), cached),
            )
        })
        .collect()
    }
}

/// OOM kills so far in the cgroup of this process, of members of it and not of those below it; `None`
/// where there is no such counter.
pub fn own_oom_kills() -> Option<u64> {
    let place = OwnCgroup::own()?;
    match place.version {
        Version::One => oom_kills(Version::One, &place.dir),
        // Kernels before 5.2 count only with what is below.
        Version::Two => counter(&place.dir.join("memory.events.local"))
            .or_else(|| oom_kills(Version::Two, &place.dir)),
    }
}

/// OOM kills so far in a cgroup, with version 2 also in those below it; `None` where there is no such
/// counter.
pub fn oom_kills(version: Version, dir: &Path) -> Option<u64> {
    counter(&dir.join(match version {
        Version::One => "memory.oom_control",
        Version::Two => "memory.events",
    }))
}

/// The line `oom_kill N` of a file.
fn counter(file: &Path) -> Option<u64> {
    entry(&fs::read_to_string(file).ok()?, "oom_kill ")
}

/// A cgroup's limit and what is left of it; `None` where there is none. Files that were read long
/// ago and stay `cached` count as free: the kernel drops them first.
fn limit(max: &str, current: &str, cached: Option<u64>) -> Option<(u64, u64)> {
    let max: u64 = max.trim().parse().ok()?;
    let current: u64 = current.trim().parse().ok()?;
    let used = current.saturating_sub(cached.unwrap_or(0));
    Some((max, max.saturating_sub(used)))
}

/// The number on the line that begins like this.
pub fn entry(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|l| l.strip_prefix(name))?;
    rest.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory with these files.
    fn group(dir: &Path, files: &[(&str, &str)]) {
        fs::create_dir_all(dir).unwrap();
        for (name, text) in files {
            fs::write(dir.join(name), text).unwrap();
        }
    }

    #[test]
    fn limits_count_without_what_is_merely_cached_up_to_the_outermost_group() {
        let root = tempfile::tempdir().unwrap();
        let top = root.path().join("cgroup");
        let dir = top.join("slice/scope");
        let scope = [
            ("memory.max", "1000\n"),
            ("memory.current", "700\n"),
            ("memory.stat", "anon 5\ninactive_file 300\nactive_file 9\n"),
        ];
        group(&dir, &scope);
        let slice = [("memory.max", "max\n"), ("memory.current", "700\n")];
        group(&top.join("slice"), &slice);
        group(&top, &[("memory.max", "2000"), ("memory.current", "2500")]);
        // Not within what is mounted.
        group(root.path(), &[("memory.max", "1"), ("memory.current", "1")]);
        let version = Version::Two;
        let place = OwnCgroup { version, dir, top };
        assert_eq!(place.limits(), [(1000, 600), (2000, 0)]);
    }

    #[test]
    fn limits_of_version_1_have_names_of_their_own() {
        let root = tempfile::tempdir().unwrap();
        let files = [
            ("memory.limit_in_bytes", "1000\n"),
            ("memory.usage_in_bytes", "900\n"),
            (
                "memory.stat",
                "inactive_file 1\ntotal_cache 800\ntotal_inactive_file 300\n",
            ),
        ];
        group(root.path(), &files);
        let place = OwnCgroup {
            version: Version::One,
            dir: root.path().into(),
            top: root.path().into(),
        };
        assert_eq!(place.limits(), [(1000, 400)]);
    }

    #[test]
    fn kills_are_counted_by_a_whole_word() {
        let root = tempfile::tempdir().unwrap();
        let one = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
        let two = "oom 7\noom_kill 2\noom_group_kill 9\n";
        let files = [("memory.oom_control", one), ("memory.events", two)];
        group(root.path(), &files);
        assert_eq!(oom_kills(Version::One, root.path()), Some(3));
        assert_eq!(oom_kills(Version::Two, root.path()), Some(2));
        assert_eq!(entry("oom 3\n", "oom_kill "), None);
    }
}
