//! What `tune submit` answers.

use std::path::PathBuf;

use serde::Serialize;

use super::{Engine, Job, with_postgres};
use crate::query::Answer;

/// What was submitted, or would be.
#[derive(Debug, Serialize)]
pub(super) struct Submitted {
    study: String,
    engine: &'static str,
    /// The job's number, or its name where the engine knows no other; null: it was not submitted, or its engine says none.
    job: Option<String>,
    /// The script or manifest.
    file: PathBuf,
    /// What submits it.
    command: Vec<String>,
    /// What is in the file, where it was not submitted (`--dry-run`); null otherwise.
    text: Option<String>,
    /// How the study is looked at, where no server is known yet.
    #[serde(skip)]
    look: String,
}

impl Submitted {
    /// Of a job whose engine said `told`; `None`: it was not asked.
    pub(super) fn new(
        job: &Job,
        engine: Engine,
        command: Vec<String>,
        file: PathBuf,
        text: String,
        told: Option<&str>,
    ) -> Submitted {
        let number = |told: &str| {
            let mut numbers = told.split(|c: char| !c.is_ascii_digit());
            numbers.find(|word| !word.is_empty()).map(str::to_owned)
        };
        let look = |dir: &PathBuf| with_postgres::look(dir, &job.dir, &job.study);
        Submitted {
            study: job.study.clone(),
            engine: match engine {
                Engine::Slurm => "slurm",
                Engine::Kubernetes => "kubernetes",
                Engine::Hyperqueue => "hyperqueue",
            },
            job: match engine {
                Engine::Slurm | Engine::Hyperqueue => told.and_then(number),
                Engine::Kubernetes => told.map(|_| job.name()),
            },
            file,
            command,
            text: told.is_none().then_some(text),
            look: job.postgres.as_ref().map_or_else(String::new, look),
        }
    }
}

impl Answer for Submitted {
    fn text(&self) -> String {
        self.look.clone()
    }
}
