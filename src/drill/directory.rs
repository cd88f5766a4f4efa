//! Where a drill happens: a temporary directory, projects in it, and the real binary run there.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value as Json;

use messages::exit::Failure;

/// The synthetic task, as it is shipped.
pub const SYNTHETIC: &str = include_str!("../../configs/synthetic.toml");

/// In the environment of everything that a drill starts: it is inherited by whatever that starts.
const MARK: &str = "TUNE_DRILL_PROJECT";

/// How often something that is waited for is looked at.
const POLL: Duration = Duration::from_millis(5);

/// A temporary directory for projects.
pub struct DrillDirectory {
    dir: tempfile::TempDir,
}

/// A project of the drill.
#[derive(Debug, Clone)]
pub struct Project {
    /// Its directory.
    pub dir: PathBuf,
}

/// A run that has ended.
pub struct Ended {
    /// How; `None`: it had to be killed, because it did not end in time.
    pub status: Option<ExitStatus>,
    /// Its events.
    pub events: Vec<Json>,
    /// The end of its stderr.
    pub stderr: String,
}

impl Ended {
    /// Its exit code; `None` where it has none.
    pub fn code(&self) -> Option<i32> {
        self.status.and_then(|s| s.code())
    }

    /// `exit code 7: error: ...`, for problems.
    pub fn describe(&self) -> String {
        let how = match (self.status, self.code()) {
            (None, _) => "did not end in time".to_owned(),
            (Some(_), Some(code)) => format!("exit code {code}"),
            (Some(status), None) => status.to_string(),
        };
        match self.stderr.trim() {
            "" => how,
            text => format!("{how}: {text}"),
        }
    }
}

impl DrillDirectory {
    /// A new directory.
    ///
    /// # Errors
    /// There can be none.
    pub fn new() -> Result<DrillDirectory, Failure> {
        let dir = tempfile::Builder::new()
            .prefix("tune-drill-")
            .tempdir()
            .map_err(|e| Failure::internal(format!("no temporary directory: {e}")))?;
        Ok(DrillDirectory { dir })
    }

    /// A new project with the synthetic task.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn project(&self, name: &str) -> Result<Project, Failure> {
        let dir = self.dir.path().join(name);
        let configs = dir.join("configs");
        fs::create_dir_all(&configs)
            .and_then(|()| fs::write(configs.join("synthetic.toml"), SYNTHETIC))
            .map_err(|e| Failure::internal(format!("{}: {e}", configs.display())))?;
        Ok(Project { dir })
    }

    /// Ends every process that a run left behind; gives their ids and projects.
    pub fn left(&self) -> Vec<(u32, String)> {
        let found = marked(self.dir.path());
        for (pid, _) in &found {
            end(*pid);
        }
        found
    }

    /// Removes the directory, or gives its path.
    pub fn close(self, keep: bool) -> Option<PathBuf> {
        keep.then(|| self.dir.keep())
    }
}

impl Project {
    /// Its database.
    pub fn database(&self) -> PathBuf {
        self.dir.join("tune.db")
    }

    /// `tune -C DIR ARGS`; dies with the drill.
    pub fn tune(&self, args: &[String]) -> Command {
        let mut command = Command::new("/proc/self/exe");
        command.arg0("tune").arg("-C").arg(&self.dir).args(args);
        self.prepare(&mut command);
        command
    }

    /// Marks a command as this project's, to die with the drill.
    pub fn prepare(&self, command: &mut Command) {
        command
            .env(MARK, &self.dir)
            .env_remove("HPO_OUTDIR")
            .env_remove("TUNE_STORAGE")
            .env_remove("TUNE_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // SAFETY: prctl is async-signal-safe.
        unsafe {
            command.pre_exec(|| Ok(nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?));
        }
    }

    /// Starts a run whose events go to a file of this name.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(&self, args: &[String], name: &str) -> Result<Child, Failure> {
        let mut args = args.to_vec();
        args.push("--json".into());
        let file =
            |end: &str| File::create(self.dir.join(format!("{name}.{end}"))).map_err(cannot_start);
        let (out, err) = (file("jsonl")?, file("err")?);
        spawn(self.tune(&args).stdout(out).stderr(err))
    }

    /// Waits for a run, at most so long; then it is killed.
    pub fn finish(&self, mut child: Child, name: &str, most: Option<Duration>) -> Ended {
        let status = match most {
            None => child.wait().ok(),
            Some(most) => {
                let ended = wait_until(most, || child.try_wait().is_ok_and(|s| s.is_some()));
                if ended.is_none() {
                    let _ = child.kill();
                }
                child.wait().ok().filter(|_| ended.is_some())
            }
        };
        Ended {
            status,
            events: self.events(name),
            stderr: fs::read_to_string(self.dir.join(format!("{name}.err"))).unwrap_or_default(),
        }
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn run(
        &self,
        args: &[String],
        name: &str,
        most: Option<Duration>,
    ) -> Result<Ended, Failure> {
        Ok(self.finish(self.start(args, name)?, name, most))
    }

    /// The events in a file; a line that was cut off is left out.
    pub fn events(&self, name: &str) -> Vec<Json> {
        let text = fs::read_to_string(self.dir.join(format!("{name}.jsonl"))).unwrap_or_default();
        let events = text.lines().map(serde_json::from_str);
        events.filter_map(Result::ok).collect()
    }

    /// `tune trials STUDY --json`.
    ///
    /// # Errors
    /// It cannot be run, or fails.
    pub fn trials(&self, study: &str) -> Result<Vec<Json>, Failure> {
        let args = ["trials", study, "--json"].map(str::to_owned);
        let output = self
            .tune(&args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .output()
            .map_err(|e| Failure::internal(format!("`tune trials` cannot be started: {e}")))?;
        serde_json::from_slice(&output.stdout).map_err(|_| {
            let text = String::from_utf8_lossy(&output.stderr);
            Failure::internal(format!("`tune trials` failed: {}", text.trim()))
        })
    }

    /// Process ids of everything that was started for this project and lives.
    pub fn processes(&self) -> Vec<u32> {
        marked(&self.dir).into_iter().map(|(pid, _)| pid).collect()
    }

    /// Waits until none of its processes lives; gives the time in seconds, or ends what is left.
    pub fn wait_gone(&self, most: Duration) -> Option<f64> {
        let gone = wait_until(most, || self.processes().is_empty());
        if gone.is_none() {
            self.processes().into_iter().for_each(end);
        }
        gone.map(|d| d.as_secs_f64())
    }
}

/// Starts a run.
///
/// # Errors
/// It cannot be started.
pub fn spawn(command: &mut Command) -> Result<Child, Failure> {
    command.spawn().map_err(cannot_start)
}

fn cannot_start(error: io::Error) -> Failure {
    Failure::internal(format!("a run cannot be started: {error}"))
}

/// Waits until `condition` holds, at most so long; gives the time it took.
pub fn wait_until(most: Duration, mut condition: impl FnMut() -> bool) -> Option<Duration> {
    let start = Instant::now();
    loop {
        if condition() {
            return Some(start.elapsed());
        }
        if start.elapsed() >= most {
            return None;
        }
        thread::sleep(POLL);
    }
}

/// SIGKILL.
pub fn end(pid: u32) {
    let _ = kill(Pid::from_raw(pid as i32), Signal::SIGKILL);
}

/// Living processes whose project is `dir` or lies in it.
fn marked(dir: &Path) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    let prefix = format!("{MARK}={}", dir.display());
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|n| n.parse().ok());
        let Some(pid) = pid else { continue };
        // Empty for processes that have ended, unreadable for those of others.
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let of = |part: &[u8]| String::from_utf8_lossy(part).into_owned();
        let mark = environment.split(|b| *b == 0).map(of).find(|v| {
            v.strip_prefix(&prefix)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        if let Some(mark) = mark {
            found.push((pid, mark[MARK.len() + 1..].to_owned()));
        }
    }
    found
}
