//! What a run does on its disk beside its database, on a thread of its own: a checkpoint of gigabytes
//! on a slow disk must not keep the event loop from its workers. Tasks are done one by one, in the
//! order in which they were asked for, and all of them before the run ends.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use super::core::checkpoint_name;
use files::paths::logs_dir;
use files::replace;
use search::study::Job;
use weights::{Leader, Unheard};

/// Something to do on the disk.
#[derive(Debug)]
pub enum DiskTask {
    /// Keep the weights of these trials, the best first, and no others but what another node may have kept.
    KeepWeights(Vec<Leader>, Unheard),
    /// Delete the checkpoint of a trial or repeat, and what else it has left.
    Forget(Job),
    /// A process prints here from now on.
    LogBegins(PathBuf),
    /// Nobody prints here any more.
    LogEnds(PathBuf),
}

/// Where a run's files are, and how much of them there may be.
#[derive(Debug, Clone)]
pub struct RunFiles {
    /// `tune.db.d`.
    pub dir: PathBuf,
    /// The study's name.
    pub study: String,
    /// All kept weights together, in bytes.
    pub max_kept_bytes: u64,
    /// All logs together, in bytes.
    pub max_logs_bytes: u64,
}

/// The thread. Dropping this waits until all that it was asked for is done.
#[derive(Debug)]
pub struct DiskThread {
    tell: Option<Sender<DiskTask>>,
    runner: Option<JoinHandle<()>>,
}

impl DiskThread {
    /// Starts the thread, after it has made room for new logs.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(files: RunFiles) -> io::Result<DiskThread> {
        let (tell, told) = mpsc::channel();
        let runner = Runner::new(files);
        let runner = thread::Builder::new()
            .name("disk".into())
            .spawn(move || runner.run(&told))?;
        Ok(DiskThread {
            tell: Some(tell),
            runner: Some(runner),
        })
    }

    /// Asks for a task; does not wait for it.
    pub fn ask(&self, task: DiskTask) {
        if let Some(tell) = &self.tell {
            // The thread lives until nobody can ask any more.
            let _ = tell.send(task);
        }
    }
}

impl Drop for DiskThread {
    fn drop(&mut self) {
        self.tell = None;
        if let Some(runner) = self.runner.take() {
            let _ = runner.join();
        }
    }
}

struct Runner {
    files: RunFiles,
    /// The sizes of all logs together, but for those in use, as far as this has been told of them.
    logged: u64,
    /// Logs that processes print to.
    used: BTreeSet<PathBuf>,
}

impl Runner {
    fn new(files: RunFiles) -> Runner {
        let used = BTreeSet::new();
        let logs = logs_dir(&files.dir, &files.study);
        Runner {
            logged: prune(&logs, files.max_logs_bytes, &used),
            files,
            used,
        }
    }

    fn run(mut self, told: &Receiver<DiskTask>) {
        while let Ok(task) = told.recv() {
            self.perform(task);
        }
    }

    fn perform(&mut self, task: DiskTask) {
        let RunFiles {
            dir,
            study,
            max_kept_bytes,
            ..
        } = &self.files;
        match task {
            DiskTask::KeepWeights(leaders, unheard) => {
                weights::sync_kept_weights(dir, study, &leaders, *max_kept_bytes, &unheard)
            }
            DiskTask::Forget(job) => forget(&dir.join(checkpoint_name(study, job))),
            DiskTask::LogBegins(log) => {
                self.used.insert(log);
            }
            DiskTask::LogEnds(log) => self.log_ends(&log),
        }
    }

    /// One that nothing was printed to is deleted; where there is too much of the others, the oldest are.
    fn log_ends(&mut self, log: &Path) {
        if !self.used.remove(log) {
            return;
        }
        match std::fs::metadata(log).map(|meta| meta.len()) {
            Ok(0) => {
                let _ = std::fs::remove_file(log);
            }
            Ok(bytes) => self.logged += bytes,
            Err(_) => {}
        }
        let most = self.files.max_logs_bytes;
        if self.logged > most {
            // By a tenth more than has to be: the next look is not at the next log's end.
            let logs = logs_dir(&self.files.dir, &self.files.study);
            self.logged = prune(&logs, most - most / 10, &self.used);
        }
    }
}

fn forget(checkpoint: &Path) {
    if let Err(error) = replace::delete_directory(checkpoint) {
        tracing::warn!(?checkpoint, %error, "a checkpoint could not be deleted");
    }
}

/// Deletes the oldest logs of a study until the rest is of at most `most` bytes, but for those that
/// are `used`, which do not count. Gives the size of the rest.
fn prune(dir: &Path, most: u64, used: &BTreeSet<PathBuf>) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut logs: Vec<(std::time::SystemTime, u64, PathBuf)> = entries
        .filter(|entry| !used.contains(&entry.path()))
        .filter_map(|entry| {
            let meta = entry.metadata().ok()?;
            Some((meta.modified().ok()?, meta.len(), entry.path()))
        })
        .collect();
    logs.sort();
    let mut total: u64 = logs.iter().map(|(_, size, _)| size).sum();
    for (_, size, path) in logs {
        if total <= most {
            break;
        }
        if std::fs::remove_file(&path).is_ok() {
            total -= size;
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use search::space::Params;
    use serde_json::Map;
    use std::fs;
    use std::io::Write;
    use weights::Draft;

    fn files(dir: &Path, max_logs_bytes: u64) -> RunFiles {
        RunFiles {
            dir: dir.to_owned(),
            study: "s".into(),
            max_kept_bytes: 1 << 20,
            max_logs_bytes,
        }
    }

    #[test]
    fn errands_are_done_in_their_order_and_before_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let disk = DiskThread::start(files(dir.path(), 1 << 20)).unwrap();
        let checkpoint = |number| dir.path().join(checkpoint_name("s", Job::trial(number)));
        for number in 0..50 {
            let draft = Draft {
                trial: number,
                seed: 7,
                epoch: 1,
                value: 0.5,
                params: &Params::new(),
                about: &Map::new(),
            };
            let parent = checkpoint(number);
            let write = &mut |to: &mut dyn Write| Ok(to.write_all(b"weights")?);
            draft.write(&parent, write).unwrap();
            // Of a trial that was forgotten first, nothing could be kept.
            let leader = Leader {
                number,
                values: vec![0.5],
                epoch: Some(1),
                seed: Some(7),
            };
            disk.ask(DiskTask::KeepWeights(vec![leader], Unheard::default()));
            disk.ask(DiskTask::Forget(Job::trial(number)));
        }
        drop(disk);
        assert!((0..50).all(|number| !checkpoint(number).exists()));
        let kept = weights::kept_directory(dir.path(), "s", 49);
        assert!(weights::read(&kept).unwrap().is_some());
    }

    #[test]
    fn logs_are_pruned_while_a_run_lasts_but_for_those_in_use() {
        let dir = tempfile::tempdir().unwrap();
        let logs = logs_dir(dir.path(), "s");
        fs::create_dir_all(&logs).unwrap();
        let log = |number: u32| logs.join(format!("{number}.log"));
        let mut runner = Runner::new(files(dir.path(), 1000));
        for number in 0..20 {
            runner.perform(DiskTask::LogBegins(log(number)));
            fs::write(log(number), [b'x'; 100]).unwrap();
            let age = std::time::UNIX_EPOCH + std::time::Duration::from_secs(u64::from(number));
            fs::File::open(log(number))
                .unwrap()
                .set_modified(age)
                .unwrap();
            // The first, which is the oldest, is printed to all the time.
            if number > 0 {
                runner.perform(DiskTask::LogEnds(log(number)));
            }
        }
        let left: Vec<u32> = (0..20).filter(|n| log(*n).exists()).collect();
        assert_eq!(left, [0, 11, 12, 13, 14, 15, 16, 17, 18, 19]);
    }

    #[test]
    fn a_log_that_nothing_was_printed_to_is_deleted_at_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let logs = logs_dir(dir.path(), "s");
        fs::create_dir_all(&logs).unwrap();
        let mut runner = Runner::new(files(dir.path(), 1000));
        for name in ["empty.log", "other.log"] {
            fs::write(logs.join(name), "").unwrap();
        }
        runner.perform(DiskTask::LogBegins(logs.join("empty.log")));
        runner.perform(DiskTask::LogEnds(logs.join("empty.log")));
        // Of this one nobody has said that it begins.
        runner.perform(DiskTask::LogEnds(logs.join("other.log")));
        assert!(!logs.join("empty.log").exists() && logs.join("other.log").exists());
    }
}
