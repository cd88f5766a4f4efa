//! Where the memory cgroup of this process is in the file system.
//!
//! `/proc/self/cgroup` names it from the root of its hierarchy, or of the cgroup namespace. Which part
//! of the hierarchy can be seen, and where, stands in `/proc/self/mountinfo`: a container often sees
//! its own group alone, mounted as if it were the root.

use std::path::{Component, Path, PathBuf};

/// The version of the hierarchy that has the controller `memory`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// `memory.limit_in_bytes`.
    One,
    /// `memory.max`.
    Two,
}

/// A memory cgroup as a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnCgroup {
    /// Which names and rules hold.
    pub version: Version,
    /// The cgroup.
    pub dir: PathBuf,
    /// The outermost one that can be seen.
    pub top: PathBuf,
}

impl OwnCgroup {
    /// The one that this process is in; `None` where it cannot be seen.
    pub fn own() -> Option<OwnCgroup> {
        let read = |path| {
            let bytes = std::fs::read(path).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        find(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"))
    }
}

/// The memory cgroup, of `/proc/self/cgroup` and `/proc/self/mountinfo`.
fn find(cgroup: &str, mountinfo: &str) -> Option<OwnCgroup> {
    let (version, path) = membership(cgroup)?;
    let mut mounts = mountinfo.lines().filter_map(mount);
    mounts.find_map(|mount| {
        (mount.version == version).then_some(())?;
        Some(OwnCgroup {
            version,
            dir: within(&mount, Path::new(path))?,
            top: mount.at.clone(),
        })
    })
}

/// Version and path of the line that is about memory: `4:memory:/x`, else `0::/x`.
fn membership(cgroup: &str) -> Option<(Version, &str)> {
    let fields = |line| {
        let mut fields = str::splitn(line, 3, ':');
        Some((fields.next()?, fields.next()?, fields.next()?))
    };
    let lines = || cgroup.lines().filter_map(fields);
    let first = lines().find(|(_, controllers, _)| controllers.split(',').any(|c| c == "memory"));
    let second = || lines().find(|(id, controllers, _)| *id == "0" && controllers.is_empty());
    match first {
        Some((_, _, path)) => Some((Version::One, path)),
        None => second().map(|(_, _, path)| (Version::Two, path)),
    }
}

/// A mounted hierarchy that has, or may have, the controller `memory`.
struct Mount {
    version: Version,
    /// Which cgroup is seen there.
    root: PathBuf,
    at: PathBuf,
}

/// Reads a line of `/proc/self/mountinfo`.
fn mount(line: &str) -> Option<Mount> {
    let (mount, kind) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(3);
    let (root, at) = (unescaped(mount.next()?), unescaped(mount.next()?));
    let mut kind = kind.split(' ');
    let (kind, options) = (kind.next()?, kind.nth(1).unwrap_or_default());
    let version = match kind {
        "cgroup" if options.split(',').any(|o| o == "memory") => Version::One,
        "cgroup2" => Version::Two,
        _ => return None,
    };
    Some(Mount { version, root, at })
}

/// A path of `/proc/self/mountinfo` without the kernel's escapes: `\040` is a space.
pub fn unescaped(path: &str) -> PathBuf {
    let mut text = String::with_capacity(path.len());
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('\\') {
        text.push_str(before);
        let code = after.get(..3).and_then(|c| u8::from_str_radix(c, 8).ok());
        match code {
            Some(code) => {
                text.push(char::from(code));
                rest = &after[3..];
            }
            None => {
                text.push('\\');
                rest = after;
            }
        }
    }
    text.push_str(rest);
    text.into()
}

/// Where a cgroup is seen through a mount; `None` where it is outside of it.
fn within(mount: &Mount, path: &Path) -> Option<PathBuf> {
    // Names outside of a namespace's root begin with `/..`.
    let upwards = |path: &Path| path.components().any(|c| c == Component::ParentDir);
    if upwards(path) || upwards(&mount.root) {
        return None;
    }
    let rest = path.strip_prefix(&mount.root).ok()?;
    // Collected, or an empty rest would leave a slash at the end.
    Some(mount.at.join(rest).components().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(version: Version, dir: &str, top: &str) -> Option<OwnCgroup> {
        let (dir, top) = (dir.into(), top.into());
        Some(OwnCgroup { version, dir, top })
    }

    #[test]
    fn a_users_scope_of_version_2_is_found() {
        let cgroup = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-r1.scope\n";
        let mounts = "\
            24 30 0:22 / /proc rw,nosuid shared:12 - proc proc rw\n\
            35 29 0:30 / /sys/fs/cgroup rw,nosuid,nodev shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n";
        let dir =
            "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/run-r1.scope";
        assert_eq!(
            find(cgroup, mounts),
            place(Version::Two, dir, "/sys/fs/cgroup")
        );
    }

    #[test]
    fn a_container_of_version_2_sees_its_own_as_the_root() {
        let mounts =
            "712 711 0:29 / /sys/fs/cgroup ro,nosuid,nodev - cgroup2 cgroup rw,nsdelegate\n";
        assert_eq!(
            find("0::/\n", mounts),
            place(Version::Two, "/sys/fs/cgroup", "/sys/fs/cgroup")
        );
    }

    #[test]
    fn a_container_of_version_1_sees_its_own_under_another_name() {
        let cgroup = "12:cpu,cpuacct:/docker/4f\n9:memory:/docker/4f\n1:name=systemd:/docker/4f\n";
        let mounts = "\
            700 699 0:32 /docker/4f /sys/fs/cgroup/cpu,cpuacct ro master:15 - cgroup cgroup rw,cpu,cpuacct\n\
            703 699 0:33 /docker/4f /sys/fs/cgroup/memory ro,nosuid master:17 - cgroup cgroup rw,memory\n";
        let top = "/sys/fs/cgroup/memory";
        assert_eq!(find(cgroup, mounts), place(Version::One, top, top));
        let inner = "9:memory:/docker/4f/inner\n";
        assert_eq!(
            find(inner, mounts),
            place(Version::One, "/sys/fs/cgroup/memory/inner", top)
        );
    }

    #[test]
    fn on_a_hybrid_system_memory_is_where_its_controller_is() {
        let cgroup = "9:name=systemd:/\n4:memory:/jobs/7\n1:cpu:/\n0::/\n";
        let mounts = "\
            31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
            32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
            35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
            41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
        let top = "/sys/fs/cgroup/memory";
        assert_eq!(
            find(cgroup, mounts),
            place(Version::One, "/sys/fs/cgroup/memory/jobs/7", top)
        );
        let second = "9:name=systemd:/\n0::/init.scope\n";
        let top = "/sys/fs/cgroup/unified";
        assert_eq!(
            find(second, mounts),
            place(Version::Two, "/sys/fs/cgroup/unified/init.scope", top)
        );
    }

    #[test]
    fn what_cannot_be_seen_is_not_guessed() {
        let mounts = "703 699 0:33 /docker/4f /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        for outside in ["/docker/4fe", "/docker", "/", "/docker/4f/../5a"] {
            let cgroup = format!("9:memory:{outside}\n");
            assert_eq!(find(&cgroup, mounts), None, "{outside}");
        }
        // The group lies above the root of the namespace.
        let mounts = "35 29 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(find("0::/../other\n", mounts), None);
        let mounts = "35 29 0:30 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(find("0::/\n", mounts), None);
        assert_eq!(find("", mounts), None);
        assert_eq!(find("0::/\n", ""), None);
    }

    #[test]
    fn names_may_hold_colons_and_spaces() {
        let mounts = r"35 29 0:30 /my\040jobs /mnt/c\134g rw - cgroup2 cgroup2 rw";
        assert_eq!(
            find("0::/my jobs/a:b\n", mounts),
            place(Version::Two, r"/mnt/c\g/a:b", r"/mnt/c\g")
        );
    }

    #[test]
    fn this_process_is_in_the_group_that_is_found() {
        // Where none is found there is nothing to compare: not every container shows it.
        if let Some(place) = OwnCgroup::own() {
            let procs = std::fs::read_to_string(place.dir.join("cgroup.procs")).unwrap();
            let own = std::process::id().to_string();
            assert!(procs.lines().any(|pid| pid == own), "{place:?}");
        }
    }
}
