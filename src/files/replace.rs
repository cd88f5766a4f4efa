//! Replacing files and directories: what is there under a name is whole at every moment, the old or the new, also
//! after a power cut. What is new is written under a name of its own in the same directory, flushed, and renamed; then
//! the directory is flushed, and only then is anything deleted.
//!
//! A link is replaced, not followed. Nothing is put in the place of a directory or a device.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Seek, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, TempDir};

pub use super::disk::{remove as delete, remove_directory as delete_directory};
use super::{directory, disk};

/// A new file on its way to its name, which it takes in [`Replacement::finish`]; dropped before, it leaves nothing.
/// Where the name is that of a character device or a pipe (`/dev/null`, `/dev/stdout`), what was written is copied
/// into it at the end.
#[derive(Debug)]
pub struct Replacement {
    path: PathBuf,
    draft: Draft,
}

#[derive(Debug)]
enum Draft {
    Beside(NamedTempFile),
    Copied { draft: File, out: File },
}

impl Replacement {
    /// A file for this name.
    ///
    /// # Errors
    /// The name is a directory's, a block device's or a socket's; or no file can be made in its directory.
    pub fn new(path: &Path) -> io::Result<Replacement> {
        let path = path.to_owned();
        let draft = match stream(&path)? {
            Some(out) => Draft::Copied {
                draft: tempfile::tempfile()?,
                out,
            },
            None => Draft::Beside(beside(&path)?),
        };
        Ok(Replacement { path, draft })
    }

    /// The file, to be written in any order.
    pub fn file(&self) -> &File {
        match &self.draft {
            Draft::Beside(draft) => draft.as_file(),
            Draft::Copied { draft, .. } => draft,
        }
    }

    /// Gives the file its name, durably.
    ///
    /// # Errors
    /// What the system says; the name is still what it was.
    pub fn finish(self) -> io::Result<File> {
        match self.draft {
            Draft::Beside(draft) => {
                disk::flush(draft.as_file(), draft.path())?;
                // Somebody may have put something there meanwhile.
                refuse_odd(&self.path)?;
                // From here on the name is no longer a temporary one's.
                let (file, temporary) = draft.into_parts();
                disk::rename(&temporary, &self.path)?;
                // It is not there any more: nothing to delete.
                let _ = temporary.keep();
                disk::flush_directory(directory(&self.path))?;
                Ok(file)
            }
            Draft::Copied { mut draft, mut out } => {
                draft.rewind()?;
                io::copy(&mut draft, &mut out)?;
                Ok(out)
            }
        }
    }
}

impl Write for Replacement {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Replaces a file by one with this content.
///
/// # Errors
/// See [`Replacement::new`]; or what the system says. The old file is still there.
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = Replacement::new(path)?;
    file.write_all(content)?;
    file.finish().map(|_| ())
}

/// Gives a whole file another name in the same file system, in the place of the file that has it; flushed before.
///
/// # Errors
/// There is something else, or what the system says: the old file is still there.
pub fn file_by(draft: &Path, path: &Path) -> io::Result<()> {
    disk::flush(&File::open(draft)?, draft)?;
    refuse_odd(path)?;
    disk::rename(draft, path)?;
    disk::flush_directory(directory(path))
}

/// Replaces a file or a link by a link.
///
/// # Errors
/// There is something else, or what the system says. The old one is still there.
pub fn link(target: &Path, path: &Path) -> io::Result<()> {
    refuse_odd(path)?;
    let made = tempfile::Builder::new()
        .prefix(PREFIX)
        .make_in(directory(path), |draft| {
            std::os::unix::fs::symlink(target, draft)
        })?;
    let draft = made.into_temp_path();
    disk::rename(&draft, path)?;
    // It is not there any more: nothing to delete.
    let _ = draft.keep();
    disk::flush_directory(directory(path))
}

/// Gives a whole directory another name; what was there under that name is deleted once the new one is durable.
/// Everything in it is flushed before.
///
/// # Errors
/// There is something else than a directory under the name, or what the system says: one of the two is there.
pub fn directory_by(draft: &Path, path: &Path) -> io::Result<()> {
    flush_all(draft)?;
    let old = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => true,
        Ok(meta) => {
            return Err(refused(
                path,
                super::kind(meta.file_type()),
                "a directory, or nothing",
            ));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(error),
    };
    if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        make_directories(parent)?;
    }
    let mut aside = None;
    if !old {
        disk::rename(draft, path)?;
    } else if disk::exchange(draft, path)? {
        aside = Some(draft.to_owned());
    } else {
        // Some file systems of networks cannot exchange. Both are whole, but a moment passes between the two renames.
        let beside = tempfile::Builder::new()
            .prefix(PREFIX)
            .tempdir_in(directory(path))?
            .keep();
        disk::rename(path, &beside)?;
        if let Err(error) = disk::rename(draft, path) {
            disk::rename(&beside, path)?;
            return Err(error);
        }
        aside = Some(beside);
    }
    disk::flush_directory(directory(path))?;
    if directory(draft) != directory(path) {
        disk::flush_directory(directory(draft))?;
    }
    aside.map_or(Ok(()), |old| disk::remove_directory(&old))
}

/// Makes a directory and those above it, durably, where they are not there.
///
/// # Errors
/// What the system says.
pub fn make_directories(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    let above = directory(dir);
    if dir.parent().is_some_and(|p| !p.as_os_str().is_empty()) {
        make_directories(above)?;
    }
    match disk::make_directory(dir) {
        // Another process was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
        made => made?,
    }
    disk::flush_directory(above)
}

/// A directory to work in beside `out`, deleted when it is dropped: there it can be renamed to `out`, and where
/// anything is writable, that is. Its name says what it is for and whose it is; what processes that were killed have
/// left there for the same is deleted.
///
/// # Errors
/// It cannot be made.
pub fn workplace(out: &Path, purpose: &str) -> io::Result<TempDir> {
    let out = std::path::absolute(out)?;
    let dir = directory(&out);
    let name = out.file_name().unwrap_or_default().to_string_lossy();
    let prefix = format!(".{name}.{purpose}-");
    make_directories(dir)?;
    for entry in fs::read_dir(dir)?.flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|n| n.strip_prefix(&prefix));
        let owner = owner.and_then(|n| n.split_once('-')?.0.parse::<u32>().ok());
        if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            // Where it cannot be deleted it only takes room.
            let _ = disk::remove_directory(&entry.path());
        }
    }
    tempfile::Builder::new()
        .prefix(&format!("{prefix}{}-", std::process::id()))
        .tempdir_in(dir)
}

/// What temporary names begin with.
const PREFIX: &str = ".tune-";

/// A new file in the directory of `path`, with the permissions that files have.
fn beside(path: &Path) -> io::Result<NamedTempFile> {
    refuse_odd(path)?;
    let dir = directory(path);
    let draft = tempfile::Builder::new()
        .prefix(PREFIX)
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(dir);
    // The name that the draft was to have says nothing to anybody.
    let shown = dir.display();
    draft.map_err(|error| {
        let told = if error.kind() == io::ErrorKind::NotFound {
            format!("there is no directory {shown}")
        } else if error.kind() == io::ErrorKind::PermissionDenied {
            format!("the directory {shown} may not be written to")
        } else {
            return error;
        };
        io::Error::new(error.kind(), told)
    })
}

/// Nothing, a file, or a link can be replaced.
fn refuse_odd(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_file() || meta.is_symlink() => Ok(()),
        Ok(meta) => Err(refused(
            path,
            super::kind(meta.file_type()),
            "a file, or nothing",
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// What is written into, where a name is not one of a file that is replaced: a character device, a pipe, or where one
/// of the system's own links leads (`/dev/stdout`).
fn stream(path: &Path) -> io::Result<Option<File>> {
    let Ok(meta) = fs::symlink_metadata(path) else {
        return Ok(None);
    };
    let meta = match meta.is_symlink() && is_systems(path) {
        true => fs::metadata(path)?,
        false if meta.is_file() || meta.is_symlink() => return Ok(None),
        false => meta,
    };
    let kind = meta.file_type();
    if !(kind.is_file() || kind.is_char_device() || kind.is_fifo()) {
        return Err(refused(
            path,
            super::kind(meta.file_type()),
            "a file, or nothing",
        ));
    }
    // A pipe that nobody reads is an error and no wait; later, a full one is waited for.
    let out = OpenOptions::new()
        .append(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
        .map_err(|error| match error.raw_os_error() {
            Some(libc::ENXIO) if kind.is_fifo() => {
                refused(path, "a pipe that nobody reads", "a reader")
            }
            Some(_) | None => error,
        })?;
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    let flags = OFlag::from_bits_retain(fcntl(&out, FcntlArg::F_GETFL)?);
    fcntl(&out, FcntlArg::F_SETFL(flags - OFlag::O_NONBLOCK))?;
    Ok(Some(out))
}

/// Whether a link is one of the system's own: `/dev/stdout`, `/dev/fd/3`, `/proc/self/fd/3`.
fn is_systems(path: &Path) -> bool {
    let Ok(dir) = directory(path).canonicalize() else {
        return false;
    };
    dir == Path::new("/dev") || dir.starts_with("/proc")
}

fn refused(path: &Path, what: &str, expected: &str) -> io::Error {
    let path = path.display();
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("{path} is {what}; expected {expected}"),
    )
}

/// Flushes every file and directory in a directory, and itself.
fn flush_all(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            flush_all(&entry.path())?;
        } else if kind.is_file() {
            disk::flush(&File::open(entry.path())?, &entry.path())?;
        }
    }
    disk::flush_directory(dir)
}

#[cfg(test)]
mod tests;
