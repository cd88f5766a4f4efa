//! Names from outside that become paths: a hub's, an index of shards', a database's. None of them leads out of the
//! directory that it is meant to be in.

use std::borrow::Cow;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// Longest name, in bytes, and longest part of one between two `/`, as file systems have it.
const LONGEST: usize = 1024;
const LONGEST_PART: usize = 255;

/// Longest text, in bytes, that is taken as it is where it becomes a part of a name: what is appended to it needs room.
pub const LONGEST_TEXT: usize = 240;

/// Why a name cannot become a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    /// There is none.
    #[error("an empty name")]
    Empty,
    /// It has so many bytes, or a part of it has.
    #[error("a name of {0} bytes, expected at most {LONGEST}, and {LONGEST_PART} between two '/'")]
    Long(usize),
    /// It holds a character that no file of ours has: one that controls a terminal or turns the direction of writing,
    /// or `\`, which separates elsewhere.
    #[error("a name with the character {0:?}")]
    Odd(char),
    /// It begins at the root, goes upward, or has empty parts.
    #[error("a name that leads out of its directory, or is not written plainly")]
    Outside,
}

/// Whether a name is one of a file below some directory: parts between single `/`, none of them empty, `.` or `..`.
///
/// # Errors
/// It is not; says why.
pub fn check(name: &str) -> Result<(), BadName> {
    if name.is_empty() {
        return Err(BadName::Empty);
    }
    let part = name.split('/').map(str::len).max().unwrap_or(0);
    if name.len() > LONGEST || part > LONGEST_PART {
        return Err(BadName::Long(name.len()));
    }
    let odd = |c: &char| {
        c.is_control()
            || matches!(c, '\\' | '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if let Some(odd) = name.chars().find(odd) {
        return Err(BadName::Odd(odd));
    }
    match name.split('/').any(|part| matches!(part, "" | "." | "..")) {
        true => Err(BadName::Outside),
        false => Ok(()),
    }
}

/// The path of a name below `dir`. For reading: links are followed, as a cache of models consists of them.
///
/// # Errors
/// See [`check`].
pub fn inside(dir: &Path, name: &str) -> Result<PathBuf, BadName> {
    check(name).map(|()| dir.join(name))
}

/// The path of a name below `root`, for writing: no link on the way to it leads out of `root`. The last part may be
/// a link, which is to be replaced and never followed.
///
/// # Errors
/// See [`check`]; a link leads out; a directory cannot be looked at.
pub fn placed(root: &Path, name: &str) -> io::Result<PathBuf> {
    let bad = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
    let path = inside(root, name).map_err(|why| bad(format!("{name:?}: {why}")))?;
    if std::fs::symlink_metadata(root).is_err() {
        return Ok(path);
    }
    // What is there of the way.
    let there = path
        .ancestors()
        .skip(1)
        .find(|dir| std::fs::symlink_metadata(dir).is_ok());
    let there = there.unwrap_or(root);
    let (real, root) = (there.canonicalize()?, root.canonicalize()?);
    match real.starts_with(&root) {
        true => Ok(path),
        false => Err(bad(format!(
            "{} leads to {}, out of {}; expected a directory in it",
            there.display(),
            real.display(),
            root.display()
        ))),
    }
}

/// The first `N` bytes of a text's SHA-256, in hexadecimal.
pub fn checksum<const N: usize>(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let bytes = digest.iter().take(N);
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

/// A text as a part of a file's name: itself, as a rule. What would lead elsewhere, or be no name, is written with
/// `%` and two hexadecimal digits a byte; what is too long ends in its checksum.
pub fn part(text: &str) -> Cow<'_, str> {
    let plain = |c: char| !c.is_control() && c != '/';
    let named = !matches!(text, "" | "." | "..");
    if named && text.len() <= LONGEST_TEXT && text.chars().all(plain) {
        return Cow::Borrowed(text);
    }
    let mut name = String::new();
    for c in text.chars() {
        if plain(c) && named {
            name.push(c);
        } else {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                // Writing to a string cannot fail.
                let _ = write!(name, "%{byte:02x}");
            }
        }
    }
    if name.is_empty() {
        name.push('%');
    }
    if name.len() > LONGEST_TEXT {
        while name.len() > LONGEST_TEXT - 17 {
            name.pop();
        }
        name.push('%');
        name += &checksum::<8>(text);
    }
    Cow::Owned(name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_is_parts_between_slashes_and_nothing_else() {
        let long = "x".repeat(256);
        for (name, why) in [
            ("", BadName::Empty),
            ("/etc/passwd", BadName::Outside),
            ("..", BadName::Outside),
            (".", BadName::Outside),
            ("a/../../b", BadName::Outside),
            ("a/./b", BadName::Outside),
            ("a//b", BadName::Outside),
            ("a/", BadName::Outside),
            ("a\\b", BadName::Odd('\\')),
            ("..\\b", BadName::Odd('\\')),
            ("a\0b", BadName::Odd('\0')),
            ("a\nb", BadName::Odd('\n')),
            ("a\u{9b}31mb", BadName::Odd('\u{9b}')),
            ("a\u{202e}b", BadName::Odd('\u{202e}')),
            (&long, BadName::Long(256)),
        ] {
            assert_eq!(check(name), Err(why), "{name:?}");
        }
        let deep = vec!["x"; 513].join("/");
        assert_eq!(check(&deep), Err(BadName::Long(1025)));
        for name in ["a", "a/b.c", "..a", "a..", ".bashrc", "ü", &long[1..]] {
            assert_eq!(check(name), Ok(()), "{name:?}");
        }
        assert_eq!(inside(Path::new("/r"), "a/b"), Ok("/r/a/b".into()));
    }

    #[test]
    fn no_link_on_the_way_leads_out_and_the_last_part_is_not_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(at("root/real")).unwrap();
        std::fs::create_dir(at("home")).unwrap();
        std::fs::write(at("home/.bashrc"), "mine").unwrap();
        symlink("../home", at("root/out")).unwrap();
        symlink("real", at("root/within")).unwrap();
        symlink("nowhere", at("root/dangling")).unwrap();
        symlink(at("home/.bashrc"), at("root/real/file")).unwrap();
        symlink("root", at("link")).unwrap();
        let placed = |root: &str, name: &str| placed(&at(root), name);
        for name in [
            "out/.bashrc",
            "out/new/deep",
            "out/x",
            "dangling/x",
            "../home/x",
        ] {
            placed("root", name).unwrap_err();
        }
        let told = placed("root", "out/x").unwrap_err().to_string();
        assert!(told.contains("leads to") && told.contains("home"), "{told}");
        for name in ["real/x", "within/x", "new/deep/x", "real/file", "out"] {
            assert_eq!(placed("root", name).unwrap(), at("root").join(name));
        }
        // The directory itself may be reached through a link: that is the user's.
        placed("link", "real/x").unwrap();
        placed("link", "out/x").unwrap_err();
        placed("absent", "a/b").unwrap();
    }

    #[test]
    fn a_text_that_is_no_name_becomes_one_and_others_stay() {
        for text in ["criteria", "criteria@2", "my study ü", "..x", "a\\b"] {
            assert_eq!(part(text), text);
        }
        assert_eq!(part("../x"), "..%2fx");
        assert_eq!(part(".."), "%2e%2e");
        assert_eq!(part(""), "%");
        assert_eq!(part("a\nb"), "a%0ab");
        let long = part(&"ü".repeat(200)).into_owned();
        assert!(long.len() <= 240 && long.starts_with("üü"), "{long}");
        assert_ne!(long, part(&"ü".repeat(201)));
    }

    proptest! {
        #[test]
        fn whatever_a_name_is_it_stays_inside(name in r"(\PC|[./\\\x00-\x1f]){0,40}") {
            let dir = Path::new("/root/of/all");
            if let Ok(path) = inside(dir, &name) {
                let mut parts = path.strip_prefix(dir).unwrap().components();
                prop_assert!(parts.all(|p| matches!(p, std::path::Component::Normal(_))));
                prop_assert_eq!(path.to_str().unwrap(), format!("/root/of/all/{name}"));
            }
            let part = part(&name).into_owned();
            let mut parts = Path::new(&part).components();
            prop_assert!(matches!(parts.next(), Some(std::path::Component::Normal(_))), "{part:?}");
            prop_assert_eq!(parts.next(), None);
            prop_assert!(part.len() <= LONGEST_TEXT && !part.contains(char::is_control), "{part:?}");
        }
    }
}
