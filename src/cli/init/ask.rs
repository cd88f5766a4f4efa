//! The questions of `tune init`, on a terminal.

use std::io::{BufRead, IsTerminal};
use std::path::Path;

use super::{InitArgs, nothing_said, program};
use crate::adopt::source;
use messages::exit::Failure;

/// Asks what to begin with.
///
/// # Errors
/// Nobody is there to answer.
pub(super) fn ask(args: &InitArgs, cwd: &Path) -> Result<InitArgs, Failure> {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(match args.hf {
            Some(_) => Failure::input(
                "--hf names the model; say which rows it learns from with --csv FILE",
            ),
            None => nothing_said(),
        });
    }
    answers(args, cwd, &mut std::io::stdin().lock(), super::super::print)
}

/// What the answers come to. `print` writes to the terminal.
fn answers<T>(
    args: &InitArgs,
    cwd: &Path,
    input: &mut impl BufRead,
    print: impl Fn(&str) -> Result<T, Failure>,
) -> Result<InitArgs, Failure> {
    let mut asked = InitArgs {
        name: args.name.clone(),
        script: None,
        no_run: false,
        limit: args.limit,
        csv: None,
        text: None,
        label: None,
        hf: args.hf.clone(),
        optuna: None,
        study: args.study.clone(),
        force: args.force,
    };
    let mut answer = |question: &str, check: &dyn Fn(&str) -> Result<(), String>| {
        print(question)?;
        loop {
            let mut line = String::new();
            if !matches!(input.read_line(&mut line), Ok(1..)) {
                return Err(Failure::input("no answer: nothing was written"));
            }
            let line = line.trim();
            match check(line) {
                Ok(()) => return Ok(line.to_owned()),
                Err(problem) => {
                    print(&format!("{problem}; once more (Ctrl-C ends): "))?;
                }
            }
        }
    };
    let which = match args.hf {
        Some(_) => "2".to_owned(),
        None => answer(
            "What is to be tuned?\n  1  a program or script of yours\n  2  a text classifier, from CSV or JSON lines\n  \
             3  what an Optuna study was about\n1, 2 or 3: ",
            &|text| match text {
                "1" | "2" | "3" => Ok(()),
                other => Err(format!("{other:?} is none of 1, 2 and 3")),
            },
        )?,
    };
    let file = |text: &str| match cwd.join(text).is_file() {
        true => Ok(()),
        false => Err(format!("there is no file {text:?} in {}", cwd.display())),
    };
    match which.as_str() {
        "1" => {
            let question = "Its command line, with names in braces where values go (python train.py --lr {lr}):\n";
            let command = |text: &str| program::program(text, |_| false).map(drop);
            asked.script = Some(answer(question, &command)?);
        }
        "2" => asked.csv = Some(answer("The file with the rows: ", &file)?.into()),
        _ => {
            let question = "Optuna's database (a file of SQLite): ";
            let database = |text: &str| file(&source(text)?.to_string_lossy());
            let given = answer(question, &database)?;
            asked.optuna = Some(source(&given).map_err(Failure::input)?);
        }
    }
    Ok(asked)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::path::PathBuf;
    use std::time::Duration;

    use super::*;

    /// What comes of lines that are typed, and what was shown.
    fn typed(lines: &str) -> (Result<InitArgs, Failure>, String) {
        let args = InitArgs {
            name: None,
            script: None,
            no_run: false,
            limit: Duration::from_secs(1),
            csv: None,
            text: None,
            label: None,
            hf: None,
            optuna: None,
            study: None,
            force: false,
        };
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("rows.csv"), "").unwrap();
        let shown = RefCell::new(String::new());
        let print = |text: &str| {
            shown.borrow_mut().push_str(text);
            Ok(())
        };
        let asked = answers(&args, dir.path(), &mut lines.as_bytes(), print);
        (asked, shown.into_inner())
    }

    #[test]
    fn a_wrong_answer_is_asked_for_again() {
        let (asked, shown) = typed("x\n\n2\nno.csv\nrows.csv\n");
        assert_eq!(asked.unwrap().csv, Some(PathBuf::from("rows.csv")));
        for part in ["\"x\" is none of", "\"\" is none of", "no file \"no.csv\""] {
            assert!(shown.contains(part), "{shown}");
        }
        let (asked, shown) = typed("1\npython t.py\npython t.py --lr {lr}\n");
        assert_eq!(
            asked.unwrap().script.as_deref(),
            Some("python t.py --lr {lr}")
        );
        assert!(shown.contains("nothing in it is a parameter"), "{shown}");
    }

    #[test]
    fn the_end_of_the_input_is_no_answer() {
        let (asked, _) = typed("1\n");
        assert!(asked.unwrap_err().message.contains("nothing was written"));
    }
}
