//! GPUs for tests: libtorch's CUDA build on a CUDA runtime that has host memory, true arithmetic and
//! faults on command (`tests/standin`). No test that uses them is about a real GPU's speed or rounding.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value as Json;

use super::Project;

/// Trials on the first card that depend on nothing but their seeds.
pub const STEADY: [&str; 9] = [
    "--device",
    "cuda:0",
    "--sampler",
    "random",
    "--pruner",
    "none",
    "--no-rehearsal",
    "--set",
    "run.threads=1",
];

/// The cards of a machine. All processes that are given them share their memory.
pub struct Cards {
    dir: tempfile::TempDir,
}

impl Cards {
    /// One card of 8 GiB, whose contexts take 256 MiB.
    pub fn one() -> Cards {
        Cards::new("")
    }

    /// Cards with these settings, a line each:
    ///
    /// * `cards N`, at most 8
    /// * `memory SIZE`, `context SIZE`: of a card, and of a process's context on it (`640M`, `8G`)
    /// * `capability 8.0`
    /// * `driver ok | absent | old | busy`
    /// * `lag N`: calls that still succeed after a launch that faults
    /// * `celsius C`, `heats N`: how hot an idle card is, and how many launches make it a degree hotter
    pub fn new(settings: &str) -> Cards {
        let cards = Cards {
            dir: tempfile::tempdir().unwrap(),
        };
        std::fs::write(cards.dir.path().join("settings"), settings).unwrap();
        cards
    }

    /// The same, with fault rules.
    pub fn with(settings: &str, rules: &str) -> Cards {
        let cards = Cards::new(settings);
        cards.rules(rules);
        cards
    }

    /// From now on these rules hold; `tests/standin/rules.c` has their language.
    pub fn rules(&self, rules: &str) {
        // They may be read at any moment, and then whole.
        let (new, path) = (self.dir.path().join("new"), self.dir.path().join("rules"));
        std::fs::write(&new, rules).unwrap();
        std::fs::rename(new, path).unwrap();
    }

    /// What a reset of the machine's cards does: a lost one is there again. No rules are left.
    pub fn reset(&self) {
        self.rules("cudaGetDeviceCount=heal");
        let mut command = self.given_to(Command::new(standin().join("bin/try")));
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        let mut child = child.unwrap();
        child.stdin.take().unwrap().write_all(b"count\n").unwrap();
        assert!(child.wait().unwrap().success());
        self.rules("");
    }

    /// What rules did, and what was asked of the runtime that it does not have: a line each, behind
    /// the process that it happened in.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// How often a rule has done something.
    pub fn fired(&self) -> usize {
        self.log().lines().filter(|l| l.contains(" fault ")).count()
    }

    /// The command finds these cards and no others, and an NVML that knows them.
    pub fn given_to(&self, mut command: Command) -> Command {
        let standin = standin();
        let lib = |name: &str| standin.join(name).display().to_string();
        command
            .env("STANDIN_DIR", self.dir.path())
            .env(
                "LD_LIBRARY_PATH",
                format!("{}:{}", lib("torch/lib"), lib("lib")),
            )
            .env("LIBTORCH", lib("torch"))
            .env("TUNE_NVML", lib("lib/libnvidia-ml.so.1"))
            .env_remove("TUNE_NVML_SCRIPT")
            .env_remove("CUDA_VISIBLE_DEVICES")
            .env_remove("CUDA_LAUNCH_BLOCKING");
        command
    }

    /// `tune -C PROJECT ARGS` to its end.
    pub fn run(&self, project: &Project, args: &[&str]) -> Run {
        Run::of(self.given_to(project.tune(args)))
    }

    /// Starts it in the background.
    pub fn start(&self, project: &Project, args: &[&str]) -> Child {
        self.given_to(project.tune(args)).spawn().unwrap()
    }
}

/// Where the stand-in was built.
pub fn standin() -> PathBuf {
    let cache = std::env::var_os("TUNE_CACHE").map(PathBuf::from);
    let cache =
        cache.unwrap_or_else(|| Path::new(&std::env::var_os("HOME").unwrap()).join(".cache/tune"));
    let standin = cache.join("standin");
    let built = standin.join("stamp");
    assert!(
        built.exists(),
        "{} is not there: `make standin` builds it",
        built.display()
    );
    standin
}

/// A run of `tune ... --json` that has ended.
#[derive(Debug)]
pub struct Run {
    /// Its exit code; `None`: a signal ended it.
    pub code: Option<i32>,
    /// Its events.
    pub events: Vec<Json>,
    /// What else it said.
    pub stderr: String,
}

impl Run {
    /// Runs the command to its end.
    pub fn of(mut command: Command) -> Run {
        let output = command.output().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        let events = stdout
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        Run {
            code: output.status.code(),
            events: events.collect(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Requires this exit code.
    #[track_caller]
    pub fn ends(self, code: i32) -> Run {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// The faults of trials, as `KIND TRIAL.ATTEMPT`, in order.
    pub fn faults(&self) -> Vec<String> {
        let faults = self.events.iter().filter(|e| e["event"] == "fault");
        faults
            .map(|e| {
                format!(
                    "{} {}.{}",
                    e["fault"].as_str().unwrap(),
                    e["number"],
                    e["attempt"]
                )
            })
            .collect()
    }

    /// The texts of the warnings.
    pub fn warnings(&self) -> Vec<&str> {
        let warnings = self.events.iter().filter(|e| e["event"] == "warned");
        warnings.filter_map(|e| e["message"].as_str()).collect()
    }
}
