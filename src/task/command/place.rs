//! Where a program runs, and where it is found.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use files::bounded;

/// What the names of scripts end with.
const SCRIPTS: [&str; 9] = [
    ".py", ".sh", ".bash", ".R", ".jl", ".js", ".pl", ".rb", ".lua",
];

/// Whether a word looks like the name of a script.
pub fn is_script(word: &str) -> bool {
    SCRIPTS.iter().any(|ending| word.ends_with(ending)) && !word.contains('{')
}

/// The argument that names the script of an interpreter: the first that is no option, if it looks
/// like a script and holds no placeholder. What stands behind `-c` is a program's text, whatever it ends with.
pub fn script(run: &[String]) -> Option<&str> {
    let mut before = run.iter().skip(1).take_while(|a| !is_followed_by_text(a));
    let first = before.find(|a| !a.starts_with('-'))?;
    is_script(first).then_some(first)
}

/// `-c`, also behind other letters (`sh -ec`, `bash -lc`).
fn is_followed_by_text(argument: &str) -> bool {
    let letters = argument.strip_prefix('-').and_then(|a| a.strip_suffix('c'));
    letters.is_some_and(|a| a.chars().all(|c| c.is_ascii_alphabetic()))
}

/// The files of a program that are its own: the scripts that `run` names, else the program itself where it is named
/// by a relative path. An interpreter is not (`.venv/bin/python -m train`), nor is what stands on the search path;
/// `is_file` looks from where the program runs.
pub fn own_files(run: &[String], is_file: impl Fn(&str) -> bool) -> Vec<&str> {
    let named = run.iter().map(String::as_str).filter(|name| is_file(name));
    let mut scripts: Vec<&str> = named.filter(|name| is_script(name)).collect();
    let interpreted = run
        .get(1)
        .is_some_and(|option| ["-m", "-c"].contains(&option.as_str()));
    if scripts.is_empty() && !interpreted {
        let program = run.first().map(String::as_str);
        let own = |name: &&str| name.contains('/') && !Path::new(name).is_absolute();
        scripts.extend(program.filter(own).filter(|name| is_file(name)));
    }
    scripts.sort_unstable();
    scripts.dedup();
    scripts
}

/// The files that a command line names and that are a program's own, the file of a Python module (`-m pkg.train`)
/// among them. `words` are those of the line, also of one for a shell, which may go to another directory first
/// (`cd sub && python train.py`).
pub fn named_files(words: &[String], is_file: &dyn Fn(&str) -> bool) -> Vec<String> {
    if let Some((dir, rest)) = elsewhere(words) {
        let from = |name: &str| Path::new(dir).join(name).to_string_lossy().into_owned();
        let files = named_files(rest, &|name| is_file(&from(name)));
        return files.iter().map(|name| from(name)).collect();
    }
    let assigned = |word: &&String| word.contains('=') && !word.starts_with('-');
    let words = &words[words.iter().take_while(assigned).count()..];
    let mut files: Vec<String> = own_files(words, is_file)
        .into_iter()
        .map(str::to_owned)
        .collect();
    for pair in words.windows(2) {
        if pair[0] == "-m" {
            let stem = pair[1].replace('.', "/");
            let module = [format!("{stem}.py"), format!("{stem}/__main__.py")];
            files.extend(module.into_iter().find(|name| is_file(name)));
        }
    }
    files
}

/// The directory to which a line for a shell goes first, and what follows there.
fn elsewhere(words: &[String]) -> Option<(&str, &[String])> {
    match words {
        [cd, dir, and, rest @ ..] if cd == "cd" && and == "&&" => Some((dir, rest)),
        [cd, dir, rest @ ..] if cd == "cd" => Some((dir.strip_suffix(';')?, rest)),
        _ => None,
    }
}

/// The directory that a program of this configuration runs in, where none is given: that of the
/// configuration, or for one in `configs/` the project's, wherever the files named in `run` are.
/// The project's, if they are in neither.
pub fn directory(file: &Path, run: &[String], exists: impl Fn(&Path) -> bool) -> PathBuf {
    let own = file.parent().unwrap_or(Path::new("/"));
    let project = own
        .parent()
        .filter(|_| own.file_name() == Some(OsStr::new("configs")));
    let Some(project) = project else {
        return own.to_owned();
    };
    let relative = |text: &&str| !Path::new(text).is_absolute();
    let program = run.first().map(String::as_str).filter(|p| p.contains('/'));
    let named = script(run).filter(relative).or(program.filter(relative));
    match named {
        Some(name) if !exists(&project.join(name)) && exists(&own.join(name)) => own.to_owned(),
        Some(_) | None => project.to_owned(),
    }
}

/// The program that `name` means in `dir`: a path if it has a slash, else what the search path
/// (`PATH`) holds. Where there is no `python`, `python3` is one.
///
/// # Errors
/// What is wrong, for people.
pub fn program(name: &str, dir: &Path, search: &OsStr) -> Result<PathBuf, String> {
    if name.contains('/') {
        let path = dir.join(name);
        return match std::fs::metadata(&path) {
            Err(error) => Err(format!("{}: {error}", path.display())),
            Ok(meta) if !meta.is_file() => Err(format!("{} is no file", path.display())),
            Ok(meta) if meta.permissions().mode() & 0o111 == 0 => {
                Err(format!("{} is not executable", path.display()))
            }
            Ok(_) => interpreter(&path).map(|()| path),
        };
    }
    let names = if name == "python" {
        &["python", "python3"][..]
    } else {
        &[name]
    };
    names
        .iter()
        .find_map(|name| on_path(name, dir, search))
        .ok_or_else(|| format!("no program {name} on the search path (PATH)"))
}

/// Whether the interpreter that a script names in its first line is there.
fn interpreter(path: &Path) -> Result<(), String> {
    let mut beginning = Vec::new();
    let read = bounded::open(path).and_then(|f| f.take(256).read_to_end(&mut beginning));
    let first = beginning.split(|b| *b == b'\n').next().unwrap_or_default();
    let Some(line) = first.strip_prefix(b"#!").filter(|_| read.is_ok()) else {
        return Ok(());
    };
    let line = String::from_utf8_lossy(line);
    if line.ends_with('\r') {
        return Err(format!(
            "{} has line ends of Windows: its interpreter is not found so",
            path.display()
        ));
    }
    let named = line.split_whitespace().next().unwrap_or_default();
    if Path::new(named).exists() {
        return Ok(());
    }
    Err(format!(
        "{} names an interpreter that is not there: {named}",
        path.display()
    ))
}

fn on_path(name: &str, dir: &Path, search: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(search)
        // A relative entry means the program's directory there as well as in a shell.
        .map(|entry| dir.join(entry).join(name))
        .find(|path| {
            std::fs::metadata(path)
                .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(arguments: &[&str]) -> Vec<String> {
        arguments.iter().map(|a| (*a).to_owned()).collect()
    }

    fn dir(file: &str, arguments: &[&str], there: &[&str]) -> String {
        let found = directory(Path::new(file), &run(arguments), |path| {
            there.iter().any(|t| path == Path::new(t))
        });
        found.to_string_lossy().into_owned()
    }

    #[test]
    fn a_program_runs_where_its_script_is() {
        let python = ["python", "-u", "train.py", "x.py"];
        let configured = "/p/configs/t.toml";
        assert_eq!(dir(configured, &python, &["/p/train.py"]), "/p");
        assert_eq!(
            dir(configured, &python, &["/p/configs/train.py"]),
            "/p/configs"
        );
        assert_eq!(dir(configured, &python, &[]), "/p");
        assert_eq!(
            dir(configured, &["./t.sh"], &["/p/configs/./t.sh"]),
            "/p/configs"
        );
        assert_eq!(dir(configured, &["sh", "-c", "ls"], &[]), "/p");
        assert_eq!(dir("/q/t.toml", &python, &[]), "/q");
    }

    #[test]
    fn a_script_is_the_first_argument_that_looks_like_one() {
        assert_eq!(
            script(&run(&["python", "-u", "a.py", "b.py"])),
            Some("a.py")
        );
        assert_eq!(script(&run(&["python", "-m", "pkg", "b.py"])), None);
        assert_eq!(script(&run(&["python", "{model}.py"])), None);
        assert_eq!(script(&run(&["./train"])), None);
        for shell in ["-c", "-ec", "-lc"] {
            assert_eq!(script(&run(&["sh", shell, "cd sub && python t.py"])), None);
        }
        assert_eq!(script(&run(&["python", "-u", "-c", "import a.py"])), None);
        assert_eq!(script(&run(&["python", "a.py", "-c", "b"])), Some("a.py"));
    }

    #[test]
    fn a_programs_own_files_are_its_scripts_or_itself() {
        let there = [
            "train.py",
            "lib/net.py",
            "./train",
            "venv/bin/python",
            "x.csv",
        ];
        let of = |arguments: &[&str]| -> Vec<String> {
            let run = run(arguments);
            let found = own_files(&run, |name| there.contains(&name));
            found.into_iter().map(str::to_owned).collect()
        };
        assert_eq!(of(&["python", "train.py", "--lr", "{lr}"]), ["train.py"]);
        assert_eq!(
            of(&["venv/bin/python", "-m", "torch.run", "train.py", "x.csv"]),
            ["train.py"]
        );
        assert_eq!(of(&["./train", "x.csv"]), ["./train"]);
        assert_eq!(of(&["uv", "run", "lib/net.py", "gone.py"]), ["lib/net.py"]);
        assert!(of(&["/usr/bin/env", "true"]).is_empty());
        assert!(of(&["venv/bin/python", "-m", "pkg"]).is_empty());
    }

    #[test]
    fn what_a_line_names_is_found_behind_variables_pipes_and_modules() {
        let there = [
            "train.py",
            "pkg/m.py",
            "pkg/run/__main__.py",
            "./fit",
            "log",
            "sub/t.py",
            "sub/pkg/n.py",
        ];
        let of = |line: &str| -> Vec<String> {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            named_files(&words, &|name| there.contains(&name))
        };
        assert_eq!(of("A=1 python train.py --lr {lr}"), ["train.py"]);
        assert_eq!(of("python train.py | tee log"), ["train.py"]);
        assert_eq!(of("python -u -m pkg.m --lr {lr}"), ["pkg/m.py"]);
        assert_eq!(of("python -m pkg.run"), ["pkg/run/__main__.py"]);
        assert_eq!(of("python -m torch.run train.py"), ["train.py"]);
        assert_eq!(of("A=1 ./fit | tee log"), ["./fit"]);
        assert!(of("python -m pip list").is_empty());
        assert_eq!(of("cd sub && A=1 python t.py --lr {lr}"), ["sub/t.py"]);
        assert_eq!(of("cd sub; python -m pkg.n | tail -n 1"), ["sub/pkg/n.py"]);
        assert_eq!(of("cd sub && cd pkg && python n.py"), ["sub/pkg/n.py"]);
    }

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("python3");
        std::fs::write(&path, "#!/bin/sh\n").unwrap();
        let find = |name: &str| program(name, home.path(), home.path().as_os_str());
        assert!(find("python").unwrap_err().contains("search path"));
        assert!(find("./python3").unwrap_err().contains("not executable"));
        assert!(find("./none").unwrap_err().contains("No such file"));
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, mode).unwrap();
        assert_eq!(find("python").unwrap(), path);
        assert!(find("./python3").is_ok());
        for (line, part) in [
            ("#!/no/such/sh\n", "/no/such/sh"),
            ("#!/bin/sh\r\n", "Windows"),
        ] {
            std::fs::write(&path, line).unwrap();
            let error = find("./python3").unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
