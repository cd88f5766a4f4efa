//! Files beside a database with links, pipes and second names in their way.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use super::*;

const WRITING: [For; 3] = [For::Appending, For::Updating, For::Replacing];

fn refusal(path: &Path, what: For) -> String {
    open(path, what).unwrap_err().to_string()
}

#[test]
fn a_file_is_made_with_its_directories_and_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a/b/file");
    assert_eq!(
        open(&path, For::Reading).unwrap_err().kind(),
        io::ErrorKind::NotFound
    );
    assert!(!is_dir(&dir.path().join("a")).unwrap());
    open(&path, For::Appending)
        .unwrap()
        .write_all(b"one")
        .unwrap();
    open(&path, For::Appending)
        .unwrap()
        .write_all(b"two")
        .unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"onetwo");
    open(&path, For::Updating)
        .unwrap()
        .write_all(b"ONE")
        .unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"ONEtwo");
    write(&path, b"1").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"1");
    assert!(is_dir(&dir.path().join("a/b")).unwrap());
}

#[test]
fn a_link_is_not_followed_wherever_it_stands_in_the_path() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::create_dir(dir.join("outside")).unwrap();
    fs::write(dir.join("outside/file"), "content").unwrap();
    fs::create_dir(dir.join("d")).unwrap();
    symlink(dir.join("outside/file"), dir.join("d/file")).unwrap();
    symlink(dir.join("outside"), dir.join("d/logs")).unwrap();
    symlink("file", dir.join("d/dangling")).unwrap();
    symlink("loop", dir.join("d/loop")).unwrap();
    for what in WRITING.into_iter().chain([For::Reading]) {
        for name in ["file", "dangling", "loop"] {
            let said = refusal(&dir.join("d").join(name), what);
            assert!(said.contains("a link"), "{name}: {said}");
        }
        let said = refusal(&dir.join("d/logs/file"), what);
        assert!(said.contains("d/logs is a link"), "{said}");
    }
    assert!(make_dirs(&dir.join("d/logs/s")).is_err());
    assert!(is_dir(&dir.join("d/logs")).is_err());
    assert_eq!(fs::read(dir.join("outside/file")).unwrap(), b"content");
    assert_eq!(fs::read_dir(dir.join("outside")).unwrap().count(), 1);
}

#[test]
fn what_is_no_file_is_refused_without_waiting_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    nix::unistd::mkfifo(&at("pipe"), Mode::S_IRWXU).unwrap();
    let _listener = UnixListener::bind(at("socket")).unwrap();
    fs::create_dir(at("directory")).unwrap();
    for what in WRITING.into_iter().chain([For::Reading]) {
        for name in ["pipe", "socket", "directory"] {
            let said = refusal(&at(name), what);
            assert!(said.contains(&format!("a {name} stands")), "{said}");
        }
        let said = refusal(Path::new("/dev/null"), what);
        assert!(said.contains("a device"), "{said}");
    }
    fs::write(at("plain"), "").unwrap();
    let said = refusal(&at("plain/file"), For::Appending);
    assert!(
        said.contains("plain is a file, expected a directory"),
        "{said}"
    );
}

#[test]
fn a_file_with_a_second_name_is_read_but_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("outside"), "content").unwrap();
    fs::hard_link(at("outside"), at("file")).unwrap();
    for what in WRITING {
        assert!(refusal(&at("file"), what).contains("second name"));
    }
    assert_eq!(fs::read(at("file")).unwrap(), b"content");
}

#[test]
fn a_path_is_made_real_as_far_as_it_exists() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    fs::create_dir(dir.join("d")).unwrap();
    fs::write(dir.join("d/tune.db"), "").unwrap();
    symlink("d", dir.join("to-d")).unwrap();
    symlink("to-d/tune.db", dir.join("tune.db")).unwrap();
    symlink("nowhere", dir.join("dangling")).unwrap();
    let same = dir.join("d/tune.db");
    for name in ["tune.db", "to-d/tune.db", "d/tune.db", "d/../to-d/tune.db"] {
        assert_eq!(real(&dir.join(name)), same, "{name}");
    }
    assert_eq!(real(&dir.join("to-d/x/y.db")), dir.join("d/x/y.db"));
    assert_eq!(real(&dir.join("dangling")), dir.join("dangling"));
    assert!(real(Path::new("tune.db")).is_absolute());
}
