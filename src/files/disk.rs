//! What makes changes durable, a call each. A test can stop after each of them and look at what a power cut would leave:
//! what was not flushed by then may be there or not (`power`).

use std::fs::{self, File};
use std::io;
use std::path::Path;

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

/// Flushes a file's content.
pub(super) fn flush(file: &File, path: &Path) -> io::Result<()> {
    file.sync_all()?;
    note(Some(path));
    Ok(())
}

/// Flushes what names a directory holds. Where that is not for us to do, because we may not read it or its file system
/// knows no such thing, the system does it in its own time.
pub(super) fn flush_directory(dir: &Path) -> io::Result<()> {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    match File::open(dir).and_then(|dir| dir.sync_all()) {
        Err(error) if !matches!(error.kind(), InvalidInput | PermissionDenied | Unsupported) => {
            Err(error)
        }
        Ok(()) | Err(_) => {
            note(Some(dir));
            Ok(())
        }
    }
}

/// Renames; what was there under the new name is gone.
pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    note(None);
    Ok(())
}

/// Exchanges what is there under two names, at once. `false`: the file system cannot.
pub(super) fn exchange(a: &Path, b: &Path) -> io::Result<bool> {
    use nix::errno::Errno;
    match renameat2(AT_FDCWD, a, AT_FDCWD, b, RenameFlags::RENAME_EXCHANGE) {
        Ok(()) => {
            note(None);
            Ok(true)
        }
        Err(Errno::EINVAL | Errno::ENOSYS | Errno::ENOTSUP) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Makes one directory.
pub(super) fn make_directory(dir: &Path) -> io::Result<()> {
    fs::create_dir(dir)?;
    note(None);
    Ok(())
}

/// Deletes a file, if it is there.
///
/// # Errors
/// What the system says.
pub fn remove(path: &Path) -> io::Result<()> {
    gone(fs::remove_file(path))
}

/// Deletes a directory with all that is in it, if it is there. Links in it are deleted, not followed.
///
/// # Errors
/// What the system says.
pub fn remove_directory(dir: &Path) -> io::Result<()> {
    gone(fs::remove_dir_all(dir))
}

fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => {
            note(None);
            Ok(())
        }
    }
}

/// Something was done: a file's content or a directory's names were flushed, or names have changed.
#[cfg(not(any(test, feature = "testing")))]
fn note(_flushed: Option<&Path>) {}

#[cfg(any(test, feature = "testing"))]
use super::power::note;
