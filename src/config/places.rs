//! Where things are: the project directory, its tasks, its database.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::overrides::{OUTDIR, text_of};
use super::problem::{nearest, nearest_command};
use messages::exit::Failure;

/// What is to be done where somebody looks for a command that resumes.
pub const RESUME: &str = "there is no command for going on with a study: run the same command again (tune TASK --trials N)";

/// A project directory and what stands in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// The directory, absolute.
    pub dir: PathBuf,
}

impl Project {
    /// The directory of the configurations.
    pub fn configs(&self) -> PathBuf {
        self.dir.join("configs")
    }

    /// The database.
    pub fn database(&self) -> PathBuf {
        self.dir.join("tune.db")
    }

    /// Logs, spool, caches, checkpoints.
    pub fn files(&self) -> PathBuf {
        self.dir.join("tune.db.d")
    }
}

/// Finds the project directory: `flag` (`-C`), else `$HPO_OUTDIR`, else `$TUNE_HOME`, else the
/// nearest directory from `cwd` (absolute) upward that holds `configs/`, else `~/.local/share/tune`.
///
/// # Errors
/// None of them is there, and `$HOME` is not set; the path is not UTF-8.
pub fn find_project(
    flag: Option<&Path>,
    environment: impl Fn(&str) -> Option<OsString>,
    cwd: &Path,
    is_dir: impl Fn(&Path) -> bool,
) -> Result<Project, Failure> {
    let set = |name: &str| match text_of(name, &environment) {
        Ok(text) => Ok(text.map(PathBuf::from)),
        Err(problem) => Err(Failure::input(problem.to_string())),
    };
    let home = environment("HOME").filter(|v| !v.is_empty());
    let home = home.map(PathBuf::from);
    let upward = || {
        cwd.ancestors()
            .find(|dir| is_dir(&dir.join("configs")))
            .map(Path::to_owned)
    };
    let last = || home.as_ref().map(|h| h.join(".local/share/tune"));
    let named = match flag {
        Some(flag) => Some(flag.to_owned()),
        None => set(OUTDIR)?.or(set("TUNE_HOME")?),
    };
    let dir = named.or_else(upward).or_else(last).ok_or_else(|| {
        Failure::input("no project directory: give -C DIR, or set TUNE_HOME or HOME")
    })?;
    let base = super::values::Base {
        dir: cwd,
        home: home.as_deref(),
    };
    let text = dir.to_str().ok_or_else(|| {
        Failure::input(format!(
            "the project directory is {dir:?}, whose path is not UTF-8; expected one that is (-C DIR)"
        ))
    })?;
    Ok(Project {
        dir: base.expand(text),
    })
}

/// The names of the project's tasks, sorted; those of subcommands are left out.
///
/// # Errors
/// The directory cannot be read. One that is not there holds no tasks.
pub fn list_tasks(project: &Project, subcommands: &[&str]) -> Result<Vec<String>, Failure> {
    let configs = project.configs();
    let unreadable = |e: std::io::Error| Failure::input(format!("{}: {e}", configs.display()));
    let entries = match std::fs::read_dir(&configs) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(unreadable(e)),
    };
    let mut tasks = Vec::new();
    for entry in entries {
        let path = entry.map_err(unreadable)?.path();
        let name = path.file_stem().map(|s| s.to_string_lossy().into_owned());
        if let (Some("toml"), Some(name)) = (path.extension().and_then(|e| e.to_str()), name)
            && !subcommands.contains(&name.as_str())
        {
            tasks.push(name);
        }
    }
    tasks.sort();
    Ok(tasks)
}

/// The configuration of a task: `criteria` is `configs/criteria.toml` of the project; what has a
/// slash or ends in `.toml` is a path from the current directory.
///
/// # Errors
/// There is no such task, or it is named like one of `subcommands`.
pub fn find_task(project: &Project, task: &str, subcommands: &[&str]) -> Result<PathBuf, Failure> {
    let path_like = task.contains('/') || task.ends_with(".toml");
    let file = if path_like {
        PathBuf::from(task)
    } else {
        project.configs().join(format!("{task}.toml"))
    };
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    if subcommands.contains(&stem.as_ref()) {
        return Err(Failure::input(format!(
            "{}: a task cannot be called {stem}, which is a command of tune; rename the file",
            file.display()
        )));
    }
    if file.is_file() {
        return Ok(file);
    }
    let tasks = list_tasks(project, subcommands)?;
    let there = if tasks.is_empty() {
        "there are no tasks".to_owned()
    } else {
        format!("there are: {}", tasks.join(", "))
    };
    let beside = (!path_like && Path::new(&format!("{task}.toml")).is_file())
        .then(|| format!("`tune ./{task}.toml`"));
    let task_near = || nearest(&stem, tasks.iter().map(String::as_str)).map(str::to_owned);
    let command_near = || {
        let near = nearest_command(task, subcommands.iter().copied());
        near.filter(|_| !path_like)
            .map(|near| format!("`tune {near}`"))
    };
    let near = match beside.or_else(task_near).or_else(command_near) {
        _ if task == "resume" => format!("; {RESUME}"),
        Some(near) => format!("; did you mean {near}?"),
        None => String::new(),
    };
    let place = if path_like {
        format!("no file {}", file.display())
    } else {
        format!("no task {task:?} in {}", project.configs().display())
    };
    Err(Failure::input(format!("{place}; {there}{near}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    fn project_of(flag: Option<&str>, environment: &[(&str, &str)], configs: &str) -> String {
        let lookup = |name: &str| {
            let found = environment.iter().find(|(k, _)| *k == name);
            found.map(|(_, v)| OsString::from(v))
        };
        find_project(flag.map(Path::new), lookup, Path::new("/lab/a/b"), |dir| {
            dir == Path::new(configs)
        })
        .unwrap()
        .dir
        .to_string_lossy()
        .into_owned()
    }

    #[test]
    fn the_project_directory_is_looked_for_in_the_order_of_the_contract() {
        let all = [("HPO_OUTDIR", "/out"), ("TUNE_HOME", "~/t"), ("HOME", "/h")];
        let here = "/lab/a/configs";
        assert_eq!(project_of(Some("../c"), &all, here), "/lab/a/c");
        assert_eq!(project_of(None, &all, here), "/out");
        assert_eq!(project_of(None, &all[1..], here), "/h/t");
        assert_eq!(project_of(None, &all[2..], here), "/lab/a");
        assert_eq!(project_of(None, &all[2..], "/none"), "/h/.local/share/tune");
        assert!(find_project(None, |_| None, Path::new("/x"), |_| false).is_err());
    }

    #[test]
    fn a_directory_whose_name_is_no_text_is_refused_and_no_other_one_taken() {
        let broken = || OsString::from_vec(b"/caf\xe9".to_vec());
        let of = |flag: Option<&Path>, variable: &str| {
            let lookup = |name: &str| (name == variable).then(broken);
            find_project(flag, lookup, Path::new("/lab"), |_| true)
        };
        for variable in ["HPO_OUTDIR", "TUNE_HOME"] {
            let error = of(None, variable).unwrap_err();
            assert_eq!(error.exit, messages::exit::Exit::BadInput);
            let named = format!("{variable}: found \"/caf\\xE9\", which is not UTF-8");
            assert!(error.message.starts_with(&named), "{error}");
            // Who says -C does not ask the environment.
            assert!(of(Some(Path::new("/c")), variable).is_ok());
        }
        let error = of(Some(Path::new(&broken())), "HOME").unwrap_err();
        assert!(error.message.contains("/caf\\xE9"), "{error}");
        assert!(of(None, "HOME").is_ok());
    }

    #[test]
    fn a_missing_task_lists_those_there_are() {
        let dir = tempfile::tempdir().unwrap();
        let project = Project {
            dir: dir.path().to_owned(),
        };
        let message = |task| find_task(&project, task, &["run"]).unwrap_err().message;
        assert!(message("x").ends_with("there are no tasks"));
        std::fs::create_dir(project.configs()).unwrap();
        for name in ["criteria.toml", "synthetic.toml", "run.toml", "notes.md"] {
            std::fs::write(project.configs().join(name), "").unwrap();
        }
        assert!(
            message("criterias")
                .ends_with("there are: criteria, synthetic; did you mean criteria?")
        );
        assert!(message("runn").ends_with("; did you mean `tune run`?"));
        assert!(message("resume").contains("run the same command again"));
        assert!(message("./no.toml").starts_with("no file ./no.toml; there are: criteria"));
        assert!(message("run").contains("which is a command of tune"));
        let found = find_task(&project, "criteria", &["run"]).unwrap();
        assert_eq!(found, project.configs().join("criteria.toml"));
        let path = found.to_string_lossy().into_owned();
        assert_eq!(find_task(&project, &path, &[]).unwrap(), found);
    }
}
