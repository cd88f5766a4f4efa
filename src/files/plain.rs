//! Files in the directory beside a database, opened without following a link anywhere.
//!
//! Others may be able to write where a database lies, and the names below `tune.db.d` can be told
//! in advance. A link that somebody has put in the place of a file or directory of ours must not
//! make us write elsewhere, and a pipe or device must not be waited for. So a path is walked part by
//! part here, from its beginning: none may be a link, and the file must be a plain one that has no
//! second name. Whoever makes such a path resolves its links first ([`real`]).

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, FcntlArg, OFlag, fcntl, openat};
use nix::sys::stat::{Mode, mkdirat};

/// What a file is opened for. All but reading make it where it is not there, with its directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum For {
    /// Reading.
    Reading,
    /// Writing at its end.
    Appending,
    /// Reading and writing, its content as it is.
    Updating,
    /// Reading and writing, from nothing.
    Replacing,
}

/// Opens a file.
///
/// # Errors
/// A part of the path is a link, or the file is a directory, pipe, device or socket, or has a
/// second name and is to be written; or what the system says.
pub fn open(path: &Path, what: For) -> io::Result<File> {
    let (parent, name) = split(path)?;
    let directory = directory(parent, what != For::Reading)?;
    let access = match what {
        For::Reading => OFlag::O_RDONLY,
        For::Appending => OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_CREAT,
        For::Updating | For::Replacing => OFlag::O_RDWR | OFlag::O_CREAT,
    };
    // Opening alone may have consequences, or wait.
    if let Ok(there) = look(&directory, name) {
        must_be_plain(&there.metadata()?, what)?;
    }
    let careful = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let mode = Mode::from_bits_truncate(0o666);
    let file = File::from(openat(&directory, name, access | careful, mode)?);
    must_be_plain(&file.metadata()?, what)?;
    // What is started with this file as its output finds it as any other.
    fcntl(&file, FcntlArg::F_SETFL(access & OFlag::O_APPEND))?;
    if what == For::Replacing {
        file.set_len(0)?;
    }
    Ok(file)
}

/// Writes a whole file, in the place of what it held.
///
/// # Errors
/// See [`open`].
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    open(path, For::Replacing)?.write_all(content)
}

/// Makes a directory, with all above it that are not there.
///
/// # Errors
/// A part of the path is a link or no directory, or what the system says.
pub fn make_dirs(path: &Path) -> io::Result<()> {
    directory(path, true).map(drop)
}

/// Whether a directory is there.
///
/// # Errors
/// A part of the path is a link or no directory, or what the system says.
pub fn is_dir(path: &Path) -> io::Result<bool> {
    match directory(path, false) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The path from the root, without links: as far as it exists, and the rest as it is. A link that
/// leads nowhere stays.
pub fn real(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut rest = PathBuf::new();
    let mut there = path.as_path();
    loop {
        if let Ok(real) = there.canonicalize() {
            return match rest.as_os_str().is_empty() {
                true => real,
                false => real.join(rest),
            };
        }
        let (Some(parent), Some(name)) = (there.parent(), there.file_name()) else {
            return path;
        };
        rest = match rest.as_os_str().is_empty() {
            true => PathBuf::from(name),
            false => Path::new(name).join(rest),
        };
        there = parent;
    }
}

fn must_be_plain(meta: &Metadata, what: For) -> io::Result<()> {
    let refused = |what: String| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    if let Some(found) = super::no_file(meta.file_type()) {
        return refused(format!("{found} stands in its place"));
    }
    if what != For::Reading && meta.nlink() > 1 {
        return refused("it has a second name (a hard link), under which it would change".into());
    }
    Ok(())
}

fn split(path: &Path) -> io::Result<(&Path, &OsStr)> {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => Ok((parent, name)),
        (Some(_) | None, _) => Err(Errno::EISDIR.into()),
    }
}

/// What has this name in the directory, opened for nothing but a look at it.
fn look(directory: &OwnedFd, name: &OsStr) -> nix::Result<File> {
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    openat(directory, name, flags, Mode::empty()).map(File::from)
}

/// A descriptor of a directory that nothing but names can be looked up with.
fn directory(path: &Path, make: bool) -> io::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let start = if path.has_root() { "/" } else { "." };
    let mut at = openat(AT_FDCWD, start, flags, Mode::empty())?;
    let mut walked = PathBuf::from(if path.has_root() { "/" } else { "" });
    for part in path.components() {
        let name = match part {
            Component::RootDir | Component::CurDir | Component::Prefix(_) => continue,
            Component::ParentDir => return Err(Errno::EINVAL.into()),
            Component::Normal(name) => name,
        };
        walked.push(name);
        let mut next = openat(&at, name, flags, Mode::empty());
        if make && next.as_ref().is_err_and(|e| *e == Errno::ENOENT) {
            match mkdirat(&at, name, Mode::from_bits_truncate(0o777)) {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(error) => return Err(error.into()),
            }
            next = openat(&at, name, flags, Mode::empty());
        }
        at = match next {
            Err(Errno::ENOTDIR | Errno::ELOOP) => {
                let kind = look(&at, name).map_err(io::Error::from);
                let kind = kind.and_then(|there| Ok(there.metadata()?.file_type()))?;
                return Err(io::Error::new(
                    io::ErrorKind::NotADirectory,
                    format!(
                        "{} is {}, expected a directory",
                        walked.display(),
                        super::kind(kind)
                    ),
                ));
            }
            other => other?,
        };
    }
    Ok(at)
}

#[cfg(test)]
#[path = "plain_tests.rs"]
mod tests;
