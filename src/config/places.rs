//! Where things are: the project directory, its tasks, its database.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::overrides::{OUTDIR, text_of};
use super::problem::{nearest, nearest_command};
use files::bounded;
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

/// What a project is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted<'a> {
    /// A task, as it was given: a name, or the path of a file.
    Task(&'a str),
    /// Studies that are there.
    Studies,
}

/// Finds the project directory: `flag` (`-C`), else `$HPO_OUTDIR`, else `$TUNE_HOME`. Else, for a task that is
/// given as a path, the nearest directory from its file upward in which `holds` finds what is wanted, or the
/// file's own; otherwise the nearest one from `cwd` (absolute) upward, or `~/.local/share/tune`.
///
/// # Errors
/// None of them is there, and `$HOME` is not set; the path is not UTF-8.
pub fn find_project(
    flag: Option<&Path>,
    environment: impl Fn(&str) -> Option<OsString>,
    cwd: &Path,
    wanted: Wanted,
    holds: impl Fn(&Path, Wanted) -> bool,
) -> Result<Project, Failure> {
    let set =
        |name: &str| -> Result<_, Failure> { Ok(text_of(name, &environment)?.map(PathBuf::from)) };
    let home = environment("HOME").filter(|v| !v.is_empty());
    let home = home.map(PathBuf::from);
    let base = super::values::Base {
        dir: cwd,
        home: home.as_deref(),
    };
    let upward = |from: &Path| {
        from.ancestors()
            .find(|dir| holds(dir, wanted))
            .map(Path::to_owned)
    };
    let named = match flag {
        Some(flag) => Some(flag.to_owned()),
        None => set(OUTDIR)?.or(set("TUNE_HOME")?),
    };
    let beside = match wanted {
        Wanted::Task(task) if is_path(task) => {
            let file = base.expand(task);
            let own = file.parent().unwrap_or(Path::new("/")).to_owned();
            Some(upward(&own).unwrap_or(own))
        }
        Wanted::Task(_) | Wanted::Studies => None,
    };
    let last = || home.as_ref().map(|h| h.join(".local/share/tune"));
    let found = (named.or(beside)).or_else(|| upward(cwd)).or_else(last);
    let dir = found.ok_or_else(|| {
        Failure::input("no project directory: give -C DIR, or set TUNE_HOME or HOME")
    })?;
    let text = dir.to_str().ok_or_else(|| {
        Failure::input(format!(
            "the project directory is {dir:?}, whose path is not UTF-8; expected one that is (-C DIR)"
        ))
    })?;
    Ok(Project {
        dir: base.expand(text),
    })
}

/// Whether a task is given as the path of its file: with a slash, or with `.toml` at its end.
pub fn is_path(task: &str) -> bool {
    task.contains('/') || task.ends_with(".toml")
}

/// Whether this directory is a project: its `configs/` holds a task of ours, which a `configs/` of another program
/// does not, or the very file that is asked for; or, for who looks for studies, it has a database.
pub fn holds(dir: &Path, wanted: Wanted) -> bool {
    let project = Project {
        dir: dir.to_owned(),
    };
    let files = std::fs::read_dir(project.configs()).into_iter().flatten();
    let tasks = files.flatten().any(|file| is_task(&file.path()));
    let asked = match wanted {
        Wanted::Task(name) if !is_path(name) => {
            project.configs().join(format!("{name}.toml")).is_file()
        }
        Wanted::Task(_) => false,
        Wanted::Studies => project.database().is_file(),
    };
    tasks || asked
}

/// Whether a file looks like a task's. A mistake in it must not make its project another one: it is not parsed,
/// and one that may not be read counts.
fn is_task(file: &Path) -> bool {
    if file.extension().is_none_or(|e| e != "toml") {
        return false;
    }
    const BEGINS: [&str; 6] = [
        "[task]",
        "[space]",
        "[space.",
        "task.kind=",
        "task.run=",
        "task=",
    ];
    let begins = |line: &str| {
        // As TOML allows, and as editors of Windows begin a file.
        let other = |c: &char| !c.is_whitespace() && !"\u{feff}\"'".contains(*c);
        let line: String = line.chars().filter(other).collect();
        line == "[task" || BEGINS.iter().any(|begin| line.starts_with(begin))
    };
    match bounded::read(file, bounded::CONFIGURATION) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).lines().any(begins),
        Err(error) => error.kind() == std::io::ErrorKind::PermissionDenied,
    }
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
    let path_like = is_path(task);
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
    if let Some(found) = instead_of_file(&file) {
        return Err(Failure::input(format!(
            "{}: found {found}, expected a task file",
            file.display()
        )));
    }
    let tasks = list_tasks(project, subcommands)?;
    let there = if tasks.is_empty() {
        "there are no tasks; `tune init` makes a first one".to_owned()
    } else {
        format!("there are: {}", tasks.join(", "))
    };
    let beside = (!path_like && Path::new(&format!("{task}.toml")).is_file())
        .then(|| format!("`tune ./{task}.toml`"));
    let command = nearest_command(task, subcommands.iter().copied()).filter(|_| !path_like);
    // A command first: it is meant where a task is no nearer.
    let near = || {
        nearest(
            &stem,
            command.into_iter().chain(tasks.iter().map(String::as_str)),
        )
    };
    let near = || match near() {
        near if near == command => near.map(|near| format!("`tune {near}`")),
        near => near.map(str::to_owned),
    };
    let near = match beside.or_else(near) {
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

/// What there is in the place of a file, if there is anything.
fn instead_of_file(path: &Path) -> Option<String> {
    let kind = std::fs::symlink_metadata(path).ok()?.file_type();
    Some(if path.is_dir() {
        "a directory".to_owned()
    } else if kind.is_symlink() {
        let target = std::fs::read_link(path).unwrap_or_default();
        format!("a link to {}, which is no file", target.display())
    } else {
        "something that is no file".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    fn project_of(
        flag: Option<&str>,
        environment: &[(&str, &str)],
        wanted: Wanted,
        there: &[&str],
    ) -> String {
        let lookup = |name: &str| {
            let found = environment.iter().find(|(k, _)| *k == name);
            found.map(|(_, v)| OsString::from(v))
        };
        let holds = |dir: &Path, asked: Wanted| {
            assert_eq!(asked, wanted);
            there.iter().any(|t| dir == Path::new(t))
        };
        let cwd = Path::new("/lab/a/b");
        find_project(flag.map(Path::new), lookup, cwd, wanted, holds)
            .unwrap()
            .dir
            .to_string_lossy()
            .into_owned()
    }

    #[test]
    fn the_project_directory_is_looked_for_in_the_order_of_the_contract() {
        let all = [("HPO_OUTDIR", "/out"), ("TUNE_HOME", "~/t"), ("HOME", "/h")];
        let here = &["/lab/a"];
        for wanted in [Wanted::Task("criteria"), Wanted::Studies] {
            let of = |flag, environment, there| project_of(flag, environment, wanted, there);
            assert_eq!(of(Some("../c"), &all, here), "/lab/a/c");
            assert_eq!(of(None, &all, here), "/out");
            assert_eq!(of(None, &all[1..], here), "/h/t");
            assert_eq!(of(None, &all[2..], here), "/lab/a");
            assert_eq!(of(None, &all[2..], &[]), "/h/.local/share/tune");
            let none = find_project(None, |_| None, Path::new("/x"), wanted, |_, _| false);
            assert!(none.is_err());
        }
    }

    #[test]
    fn a_task_given_as_a_path_belongs_to_the_project_that_it_lies_in() {
        let home = [("HOME", "/h")];
        let of = |path, there| project_of(None, &home, Wanted::Task(path), there);
        assert_eq!(of("mine.toml", &[]), "/lab/a/b");
        assert_eq!(of("./mine.toml", &["/lab"]), "/lab");
        // What is beside the file, whatever the working directory lies in.
        assert_eq!(of("/data/x/mine.toml", &["/lab"]), "/data/x");
        assert_eq!(of("../../y/configs/m.toml", &["/lab", "/lab/y"]), "/lab/y");
        let named = [("TUNE_HOME", "/t")];
        assert_eq!(
            project_of(None, &named, Wanted::Task("./m.toml"), &["/lab"]),
            "/t"
        );
    }

    #[test]
    fn a_project_holds_a_task_and_studies_are_in_a_database() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path();
        let task = Wanted::Task("x");
        assert!(!holds(at, task));
        std::fs::create_dir(at.join("configs")).unwrap();
        std::fs::write(at.join("configs/model.yaml"), "[task]\n").unwrap();
        std::fs::write(at.join("configs/poetry.toml"), "[tool.task]\nx = 1\n").unwrap();
        assert!(!holds(at, task), "another program's");
        std::fs::write(at.join("tune.db"), "").unwrap();
        assert!(!holds(at, task) && holds(at, Wanted::Studies));
        std::fs::write(at.join("configs/m.toml"), "# mine\n [task]\nkind = \n").unwrap();
        assert!(holds(at, task), "with a mistake in it");
        for text in [
            "\u{feff}[task]\nkind = 1\n",
            "[ task ]\n",
            "task = { kind = \"command\" }\n",
            "\"task\".kind = 1\n",
            "[task\nkind = 1\n",
            "[tsak]\n[space]\n",
        ] {
            std::fs::write(at.join("configs/m.toml"), text).unwrap();
            assert!(holds(at, task), "{text}");
        }
        std::fs::write(at.join("configs/m.toml"), "[tasks]\nbuild = 1\n").unwrap();
        assert!(!holds(at, task), "another program's");
        std::fs::write(at.join("configs/x.toml"), "").unwrap();
        assert!(holds(at, task), "it has the name that is asked for");
    }

    #[test]
    fn a_directory_whose_name_is_no_text_is_refused_and_no_other_one_taken() {
        let broken = || OsString::from_vec(b"/caf\xe9".to_vec());
        let of = |flag: Option<&Path>, variable: &str| {
            let lookup = |name: &str| (name == variable).then(broken);
            find_project(flag, lookup, Path::new("/lab"), Wanted::Studies, |_, _| {
                true
            })
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
        assert!(message("x").ends_with("there are no tasks; `tune init` makes a first one"));
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
        std::fs::create_dir(project.configs().join("dir.toml")).unwrap();
        std::os::unix::fs::symlink("gone.toml", project.configs().join("link.toml")).unwrap();
        assert!(message("dir").ends_with("dir.toml: found a directory, expected a task file"));
        let told = "link.toml: found a link to gone.toml, which is no file, expected a task file";
        assert!(message("link").ends_with(told));
        let found = find_task(&project, "criteria", &["run"]).unwrap();
        assert_eq!(found, project.configs().join("criteria.toml"));
        let path = found.to_string_lossy().into_owned();
        assert_eq!(find_task(&project, &path, &[]).unwrap(), found);
    }
}
