//! Who holds a study, under all names of its database.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;

fn somebody() -> LockOwner {
    LockOwner {
        pid: 42,
        host: "lab".into(),
        since: "2026-01-02T03:04:05Z".into(),
        stopping: None,
        taking_in: false,
    }
}

/// A database's path in a directory of its own.
fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let storage = dir.path().join("tune.db");
    (dir, storage)
}

fn take(storage: &PathBuf, study: &str, me: &LockOwner) -> Result<StudyLock, Failure> {
    StudyLock::take(&storage.into(), study, me)
}

fn owner_of(storage: &PathBuf, study: &str) -> Option<LockOwner> {
    owner_by_name(&storage.into(), study)
}

fn exit(taken: Result<StudyLock, Failure>) -> Exit {
    taken.unwrap_err().exit
}

#[test]
fn a_study_is_free_at_once_although_a_fork_has_the_files_open_still() {
    let (_dir, storage) = place();
    let study_lock = take(&storage, "s", &somebody()).unwrap();
    // What a fork gets: other descriptors of the same open files.
    let of_a_fork = (
        study_lock.place.file.try_clone().unwrap(),
        study_lock
            .database
            .file
            .as_fd()
            .try_clone_to_owned()
            .unwrap(),
    );
    drop(study_lock);
    assert_eq!(owner_of(&storage, "s"), None);
    take(&storage, "s", &somebody()).unwrap();
    drop(of_a_fork);
}

#[test]
fn who_stops_says_so_and_holds_the_study_still() {
    let (_dir, storage) = place();
    let study_lock = take(&storage, "s", &somebody()).unwrap();
    let stopping = |waits_for| Stopping {
        waits_for,
        until: "2026-01-02T03:14:05Z".into(),
    };
    let mut note = study_lock.note(&somebody()).unwrap();
    note.write(stopping(2)).unwrap();
    let owner = owner_of(&storage, "s").unwrap();
    assert!(owner.is_same(&somebody()));
    assert_eq!(owner.stopping, Some(stopping(2)));
    drop(study_lock);
    assert_eq!(owner_of(&storage, "s"), None);
    // Who comes next does not stop.
    let _lock = take(&storage, "s", &somebody()).unwrap();
    assert_eq!(owner_of(&storage, "s"), Some(somebody()));
}

#[test]
fn who_looks_is_in_nobodys_way() {
    let (_dir, storage) = place();
    let taken = std::sync::atomic::AtomicBool::new(false);
    let done = || taken.load(std::sync::atomic::Ordering::Relaxed);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done() {
                    owner_of(&storage, "s");
                }
            });
        }
        let all = (0..2000).try_for_each(|_| take(&storage, "s", &somebody()).map(drop));
        taken.store(true, std::sync::atomic::Ordering::Relaxed);
        all.unwrap();
    });
}

#[test]
fn a_held_study_says_who_holds_it_and_is_free_again_afterwards() {
    let (_dir, storage) = place();
    let me = somebody();
    assert_eq!(owner_of(&storage, "s"), None);
    let study_lock = take(&storage, "s", &me).unwrap();
    assert_eq!(owner_of(&storage, "s"), Some(me.clone()));
    let failure = take(&storage, "s", &me).unwrap_err();
    assert_eq!(failure.exit, Exit::Held);
    assert!(
        failure
            .message
            .contains("process 42 on lab since 2026-01-02")
    );
    take(&storage, "other", &me).unwrap();
    drop(study_lock);
    assert_eq!(owner_of(&storage, "s"), None);
    take(&storage, "s", &me).unwrap();
}

#[test]
fn a_study_is_held_under_every_name_of_its_database() {
    let (dir, storage) = place();
    let _hold = take(&storage, "s", &somebody()).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let (soft, hard) = (elsewhere.path().join("soft.db"), dir.path().join("hard.db"));
    symlink(&storage, &soft).unwrap();
    fs::hard_link(&storage, &hard).unwrap();
    for name in [soft, hard] {
        assert_eq!(exit(take(&name, "s", &somebody())), Exit::Held);
        assert_eq!(owner_of(&name, "s").unwrap().pid, 42, "{}", name.display());
    }
    assert!(!elsewhere.path().join("soft.db.d").exists());
}

#[test]
fn a_study_is_held_although_its_directory_was_removed_or_its_database_replaced() {
    let (dir, storage) = place();
    let _hold = take(&storage, "s", &somebody()).unwrap();
    fs::remove_dir_all(dir.path().join("tune.db.d/locks")).unwrap();
    let failure = take(&storage, "s", &somebody()).unwrap_err();
    assert_eq!(failure.exit, Exit::Held);
    assert!(
        failure.message.contains("process 42 on this machine"),
        "{failure}"
    );
    assert_eq!(owner_of(&storage, "s"), Some(LockOwner::unknown(42)));

    let (dir, storage) = place();
    let _hold = take(&storage, "s", &somebody()).unwrap();
    let other = dir.path().join("other.db");
    fs::write(&other, "").unwrap();
    fs::rename(&other, &storage).unwrap();
    assert_eq!(exit(take(&storage, "s", &somebody())), Exit::Held);
    assert_eq!(owner_of(&storage, "s"), Some(somebody()));
}

#[test]
fn a_hold_that_was_refused_leaves_nothing_locked() {
    let (dir, storage) = place();
    fs::create_dir_all(dir.path().join("tune.db.d/locks")).unwrap();
    let lock = dir.path().join("tune.db.d/locks/s.lock");
    fs::write(dir.path().join("precious"), "content").unwrap();
    symlink(dir.path().join("precious"), &lock).unwrap();
    let failure = take(&storage, "s", &somebody()).unwrap_err();
    assert_eq!(failure.exit, Exit::Storage);
    assert!(
        failure.message.contains("a link stands in its place"),
        "{failure}"
    );
    assert_eq!(fs::read(dir.path().join("precious")).unwrap(), b"content");
    fs::remove_file(&lock).unwrap();
    take(&storage, "s", &somebody()).unwrap();
}

#[test]
fn every_process_id_fits_between_two_studies() {
    let (a, b) = (range("a", u32::MAX), range("b", 1));
    assert!(a.l_len > 4_194_304 && a.l_len <= (a.l_start - b.l_start).abs());
    for name in ["", "a", "b", "criteria@2"] {
        let range = range(name, u32::MAX);
        assert!(range.l_start.checked_add(range.l_len).is_some(), "{name}");
    }
}

#[test]
fn a_study_that_was_renamed_is_held_under_its_new_name_as_well() {
    let (_dir, storage) = place();
    let mut first = take(&storage, "s", &somebody()).unwrap();
    first.row(3, "s").unwrap();
    let mut renamed = take(&storage, "t", &LockOwner::unknown(43)).unwrap();
    let failure = renamed.row(3, "t").unwrap_err();
    assert_eq!(failure.exit, Exit::Held);
    assert!(failure.message.contains("process 42 "), "{failure}");
    renamed.row(4, "t").unwrap();
    drop(first);
    renamed.row(3, "t").unwrap();
}
