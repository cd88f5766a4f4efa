//! Replacing files and directories, and power cuts while that is done.

use std::os::unix::fs::{MetadataExt, symlink};

use super::super::power::cuts;
use super::*;

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> = entries
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn after_a_power_cut_at_any_step_a_file_is_the_old_or_the_new() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "old").unwrap();
    let mut seen = Vec::new();
    let cuts = cuts(
        dir.path(),
        || write(&dir.path().join("a"), b"new").unwrap(),
        |left| seen.push(fs::read_to_string(left.join("a")).unwrap()),
    );
    assert!(
        seen.iter().all(|text| text == "old" || text == "new"),
        "{seen:?}"
    );
    assert_eq!(
        (seen.first().unwrap(), seen.last().unwrap()),
        (&"old".into(), &"new".into())
    );
    assert!(cuts > 6, "{cuts}");
    assert_eq!(names(dir.path()), ["a"]);
}

#[test]
fn a_power_cut_shows_what_a_rename_without_a_flush_would_lose() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "old").unwrap();
    let mut seen = Vec::new();
    let careless = || {
        fs::write(dir.path().join("b"), "new").unwrap();
        disk::rename(&dir.path().join("b"), &dir.path().join("a")).unwrap();
    };
    cuts(dir.path(), careless, |left| {
        seen.push(fs::read_to_string(left.join("a")).unwrap());
    });
    assert!(seen.contains(&String::new()), "{seen:?}");
}

/// A directory whose two files say the same, as weights and their description do.
fn directory_of(path: &Path, text: &str) {
    fs::create_dir_all(path.join("sub")).unwrap();
    fs::write(path.join("one"), text).unwrap();
    fs::write(path.join("sub/two"), text).unwrap();
}

fn whole(path: &Path) -> Option<String> {
    let one = fs::read_to_string(path.join("one")).ok()?;
    let two = fs::read_to_string(path.join("sub/two")).ok()?;
    (one == two && !one.is_empty()).then_some(one)
}

#[test]
fn after_a_power_cut_at_any_step_a_directory_is_the_old_or_the_new() {
    let dir = tempfile::tempdir().unwrap();
    let (draft, path) = (dir.path().join("from/draft"), dir.path().join("to/kept"));
    directory_of(&path, "old");
    fs::create_dir(dir.path().join("from")).unwrap();
    let mut seen = Vec::new();
    let work = || {
        directory_of(&draft, "new");
        directory_by(&draft, &path).unwrap();
    };
    cuts(dir.path(), work, |left| {
        seen.push(whole(&left.join("to/kept")).expect("one of the two"));
    });
    assert_eq!(
        (seen.first().unwrap(), seen.last().unwrap()),
        (&"old".into(), &"new".into())
    );
    assert_eq!(whole(&path).as_deref(), Some("new"));
    assert!(names(&dir.path().join("from")).is_empty());
    assert_eq!(names(&dir.path().join("to")), ["kept"]);
}

#[test]
fn a_new_directory_in_new_directories_is_there_once_it_is_said_to_be() {
    let dir = tempfile::tempdir().unwrap();
    let (draft, path) = (dir.path().join("draft"), dir.path().join("a/b/c"));
    let work = || {
        directory_of(&draft, "new");
        directory_by(&draft, &path).unwrap();
    };
    let mut last = None;
    cuts(dir.path(), work, |left| {
        last = Some(whole(&left.join("a/b/c")))
    });
    assert_eq!(last.flatten().as_deref(), Some("new"));
}

#[test]
fn a_file_that_is_given_up_or_fails_leaves_the_old_one_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    fs::write(&path, "old").unwrap();
    let mut given_up = Replacement::new(&path).unwrap();
    given_up.write_all(b"new").unwrap();
    drop(given_up);
    // A directory has taken the name meanwhile.
    let late = Replacement::new(&dir.path().join("b")).unwrap();
    fs::create_dir(dir.path().join("b")).unwrap();
    late.finish().unwrap_err();
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    assert_eq!(names(dir.path()), ["a", "b"]);
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let error = write(&dir.path().join("none/a"), b"new").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    let told = format!(
        "there is no directory {}",
        dir.path().join("none").display()
    );
    assert_eq!(error.to_string(), told);
}

#[test]
fn a_link_is_replaced_and_what_it_leads_to_stays() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("mine"), "mine").unwrap();
    for name in ["a", "b"] {
        symlink("mine", at(name)).unwrap();
    }
    write(&at("a"), b"new").unwrap();
    link(Path::new("elsewhere"), &at("b")).unwrap();
    assert_eq!(fs::read_to_string(at("mine")).unwrap(), "mine");
    assert_eq!(fs::read_to_string(at("a")).unwrap(), "new");
    assert!(!fs::symlink_metadata(at("a")).unwrap().is_symlink());
    assert_eq!(fs::read_link(at("b")).unwrap(), Path::new("elsewhere"));
    // A directory is not replaced through a link either.
    directory_of(&at("draft"), "new");
    directory_of(&at("theirs"), "theirs");
    symlink("theirs", at("c")).unwrap();
    directory_by(&at("draft"), &at("c")).unwrap_err();
    assert_eq!(whole(&at("theirs")).as_deref(), Some("theirs"));
}

#[test]
fn directories_and_sockets_are_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("dir")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    for (name, what) in [("dir", "a directory"), ("socket", "a socket")] {
        for told in [
            write(&at(name), b"new").unwrap_err(),
            link(Path::new("x"), &at(name)).unwrap_err(),
        ] {
            let told = told.to_string();
            assert!(told.contains(what) && told.contains(name), "{told}");
        }
    }
    directory_of(&at("draft"), "new");
    directory_by(&at("draft"), &at("socket")).unwrap_err();
    fs::write(at("file"), "mine").unwrap();
    directory_by(&at("draft"), &at("file")).unwrap_err();
    assert_eq!(fs::read_to_string(at("file")).unwrap(), "mine");
    assert_eq!(names(dir.path()), ["dir", "draft", "file", "socket"]);
}

#[test]
fn a_device_is_written_into_and_stays_a_device() {
    let before = fs::metadata("/dev/null").unwrap();
    write(Path::new("/dev/null"), b"gone").unwrap();
    let after = fs::metadata("/dev/null").unwrap();
    assert!(after.file_type().is_char_device());
    assert_eq!(before.ino(), after.ino());
    // A full device is an error.
    write(Path::new("/dev/full"), b"much").unwrap_err();
}

#[test]
fn a_pipe_is_written_into_where_somebody_reads_and_else_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pipe");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let told = write(&path, b"new").unwrap_err().to_string();
    assert!(told.contains("nobody reads"), "{told}");
    let copy = path.clone();
    let reader = std::thread::spawn(move || fs::read(copy).unwrap());
    // The reader opens it at some time.
    let much = vec![7; 1 << 18];
    while write(&path, &much).is_err() {
        std::thread::yield_now();
    }
    assert_eq!(reader.join().unwrap(), much);
    assert!(fs::symlink_metadata(&path).unwrap().file_type().is_fifo());
    // As a shell names the other end of `>(program)`.
    let (from, to) = nix::unistd::pipe().unwrap();
    let fd = std::os::fd::AsRawFd::as_raw_fd(&to);
    write(Path::new(&format!("/dev/fd/{fd}")), b"new").unwrap();
    drop(to);
    assert_eq!(io::read_to_string(File::from(from)).unwrap(), "new");
}

#[test]
fn a_redirected_standard_output_is_added_to_through_the_systems_link() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, "before ").unwrap();
    let open = OpenOptions::new().append(true).open(&path).unwrap();
    let fd = std::os::fd::AsRawFd::as_raw_fd(&open);
    write(Path::new(&format!("/proc/self/fd/{fd}")), b"new").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "before new");
}

#[test]
fn a_workplace_is_beside_and_what_the_dead_left_there_is_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("new/out");
    let ours = workplace(&out, "export").unwrap();
    // No process has this number.
    let dead = dir.path().join("new/.out.export-4194305-x");
    let others = dir.path().join("new/.out.training-4194305-x");
    fs::create_dir(&dead).unwrap();
    fs::create_dir(&others).unwrap();
    let second = workplace(&out, "export").unwrap();
    assert!(ours.path().exists() && second.path().exists() && others.exists());
    assert!(!dead.exists());
}
