//! An NVML without GPUs, built here from `tests/standin/nvml.c`, which says what a test's script says.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A stub and its script; what it can say is documented in `nvml.c`.
pub struct Nvml {
    dir: tempfile::TempDir,
}

impl Nvml {
    /// A stub that says this.
    pub fn new(script: &str) -> Nvml {
        Nvml::built(&[], script)
    }

    /// The same, built with these flags of the compiler.
    pub fn built(flags: &[&str], script: &str) -> Nvml {
        let nvml = Nvml {
            dir: tempfile::tempdir().unwrap(),
        };
        nvml.script(script);
        let standin = Path::new(crate::ROOT).join("tests/standin");
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .arg(nvml.library())
            .args(["nvml.c", "settings.c", "account.c"].map(|file| standin.join(file)))
            .args(flags)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success(), "{errors}");
        nvml
    }

    /// The library.
    pub fn library(&self) -> PathBuf {
        self.dir.path().join("libnvidia-ml.so.1")
    }

    /// From now on it says this.
    pub fn script(&self, text: &str) {
        // It may be read at any moment, and then whole.
        let (new, path) = (self.dir.path().join("new"), self.dir.path().join("script"));
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, path).unwrap();
    }

    /// The command finds this NVML, and all of its GPUs.
    pub fn given_to(&self, mut command: Command) -> Command {
        command
            .env("TUNE_NVML", self.library())
            .env("TUNE_NVML_SCRIPT", self.dir.path().join("script"))
            .env_remove("CUDA_VISIBLE_DEVICES");
        command
    }
}
