//! Files that others have made are opened and read within bounds: a path that names a pipe does not hang,
//! one that names a device does not read for ever, and nothing is read beyond what its reader can hold.
//!
//! Every open is without waiting (`O_NONBLOCK`), and what was opened is looked at, not the path: nothing
//! can be put in its place in between.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, IsTerminal, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::{FcntlArg, OFlag, fcntl};

/// Longest configuration of a task, in bytes. Each of its values is kept with its place.
pub const CONFIGURATION: u64 = 4 << 20;

/// Longest description of a model or of something kept, in bytes: `config.json` and its like.
pub const DESCRIPTION: u64 = 8 << 20;

/// Longest list of what one trial has reported, in bytes: 100,000 steps of 50 metrics.
pub const REPORTS: u64 = 256 << 20;

/// Opens a regular file for reading.
///
/// # Errors
/// Those of the system; what the path names is no regular file (`InvalidInput`).
pub fn open(path: &Path) -> io::Result<File> {
    let file = without_waiting(path)?;
    let kind = file.metadata()?.file_type();
    match kind.is_file() {
        true => Ok(file),
        false => Err(found(kind, "a regular file")),
    }
}

/// Opens a regular file, a pipe (`<(command)` of a shell is one) or a terminal for reading. A pipe that
/// nobody has opened for writing is at its end; reading another one waits for its writer.
///
/// # Errors
/// Those of the system; what the path names is none of these (`InvalidInput`).
pub fn open_stream(path: &Path) -> io::Result<File> {
    let file = without_waiting(path)?;
    let kind = file.metadata()?.file_type();
    if !kind.is_file() && !kind.is_fifo() && !file.is_terminal() {
        return Err(found(kind, "a regular file or a pipe"));
    }
    // Only the opening must not wait.
    let flags = OFlag::from_bits_retain(fcntl(&file, FcntlArg::F_GETFL)?);
    fcntl(&file, FcntlArg::F_SETFL(flags - OFlag::O_NONBLOCK))?;
    Ok(file)
}

/// Reads a regular file of at most `most` bytes.
///
/// # Errors
/// Those of [`open`]; it is longer (`FileTooLarge`).
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    all(open_of(path, most)?, most)
}

/// Opens a regular file of at most `most` bytes. It may grow behind that while it is read.
///
/// # Errors
/// Those of [`open`]; it is longer (`FileTooLarge`).
pub fn open_of(path: &Path, most: u64) -> io::Result<File> {
    let file = open(path)?;
    match file.metadata()?.len() {
        length if length > most => Err(too_long(length, most)),
        _ => Ok(file),
    }
}

/// Reads a regular file of UTF-8 of at most `most` bytes.
///
/// # Errors
/// Those of [`read`]; it is no UTF-8 (`InvalidData`).
pub fn read_to_string(path: &Path, most: u64) -> io::Result<String> {
    utf8(read(path, most)?)
}

/// Reads from here to the end, which is at most `most` bytes away.
///
/// # Errors
/// Those of the reader; there is more (`FileTooLarge`).
pub fn all(from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(longer(most)),
        false => Ok(bytes),
    }
}

/// The text that bytes are.
///
/// # Errors
/// They are no UTF-8 (`InvalidData`); says which other encoding a byte-order mark announces.
pub fn utf8(bytes: Vec<u8>) -> io::Result<String> {
    let utf16 = matches!(bytes.as_slice(), [0xff, 0xfe, ..] | [0xfe, 0xff, ..]);
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let found = match utf16 {
            true => "UTF-16 (by its byte-order mark), expected UTF-8".to_owned(),
            false => format!("no UTF-8: byte {} is none of a character", at + 1),
        };
        io::Error::new(ErrorKind::InvalidData, found)
    })
}

/// Bytes for people: in MiB where they are many.
pub fn shown(bytes: u64) -> String {
    const MIB: u64 = 1 << 20;
    match bytes {
        0..MIB => format!("{bytes} bytes"),
        _ => format!("{} MiB", bytes.div_ceil(MIB)),
    }
}

fn without_waiting(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(path)
}

fn found(kind: std::fs::FileType, expected: &str) -> io::Error {
    let found = format!("{}, expected {expected}", super::kind(kind));
    io::Error::new(ErrorKind::InvalidInput, found)
}

fn too_long(length: u64, most: u64) -> io::Error {
    let found = format!("{length} bytes, expected at most {most}");
    io::Error::new(ErrorKind::FileTooLarge, found)
}

fn longer(most: u64) -> io::Error {
    let found = format!("more than {most} bytes, expected no more");
    io::Error::new(ErrorKind::FileTooLarge, found)
}

#[cfg(test)]
mod tests {
    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    fn fifo(dir: &Path) -> std::path::PathBuf {
        let path = dir.join("pipe");
        mkfifo(&path, Mode::S_IRWXU).unwrap();
        path
    }

    #[test]
    fn what_is_no_regular_file_is_refused_without_waiting_for_it() {
        let dir = tempfile::tempdir().unwrap();
        for (path, expected) in [
            (fifo(dir.path()), "a pipe"),
            ("/dev/zero".into(), "a device"),
            (dir.path().to_owned(), "a directory"),
        ] {
            let error = open(&path).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{}", path.display());
            let expected = format!("{expected}, expected a regular file");
            assert_eq!(error.to_string(), expected);
            assert!(read(&path, 9).is_err() && read_to_string(&path, 9).is_err());
        }
        let absent = open(&dir.path().join("absent")).unwrap_err();
        assert_eq!(absent.kind(), ErrorKind::NotFound);
    }

    #[test]
    fn a_pipe_that_nobody_writes_to_is_at_its_end_and_a_device_is_no_stream() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = open_stream(&fifo(dir.path())).unwrap();
        assert_eq!(all(pipe, 10).unwrap(), b"");
        let error = open_stream(Path::new("/dev/zero")).unwrap_err();
        assert!(error.to_string().contains("a device"), "{error}");
    }

    #[test]
    fn a_pipe_is_waited_for_once_somebody_writes() {
        let dir = tempfile::tempdir().unwrap();
        let path = fifo(dir.path());
        // Open for reading as well, so that neither side waits for the other.
        let both = File::options().read(true).write(true).open(&path).unwrap();
        let reader = open_stream(&path).unwrap();
        let writer = std::thread::spawn(move || {
            let mut both = both;
            io::Write::write_all(&mut both, &[7; 100_000]).unwrap();
        });
        assert_eq!(all(reader, 100_000).unwrap(), [7; 100_000]);
        writer.join().unwrap();
    }

    #[test]
    fn nothing_is_read_beyond_the_bound() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(read(&path, 5).unwrap(), b"12345");
        assert_eq!(read_to_string(&path, 5).unwrap(), "12345");
        let error = read(&path, 4).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        assert_eq!(error.to_string(), "5 bytes, expected at most 4");
        assert_eq!(all(&b"12345"[..], 5).unwrap(), b"12345");
        // A source without an end.
        let error = all(io::repeat(b'x'), 1000).unwrap_err();
        assert_eq!(error.to_string(), "more than 1000 bytes, expected no more");
    }

    #[test]
    fn text_that_is_no_utf_8_says_what_it_is() {
        assert_eq!(utf8(b"a\0b".to_vec()).unwrap(), "a\0b");
        let of = |bytes: &[u8]| utf8(bytes.to_vec()).unwrap_err().to_string();
        assert!(of(b"ab\xff").contains("byte 3"), "{}", of(b"ab\xff"));
        assert!(of(b"\xff\xfea\0").contains("UTF-16"));
    }

    #[test]
    fn many_bytes_are_shown_in_mebibytes() {
        assert_eq!(shown(100), "100 bytes");
        assert_eq!(shown(4 << 20), "4 MiB");
        assert_eq!(shown((4 << 20) + 1), "5 MiB");
    }
}
