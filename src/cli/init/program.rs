//! What a command line says of a program: its arguments, its parameters, and ranges to begin with, by their names.
//! Pure.

use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;
use task::command::{named_files, own_files, template};

/// A program, as the task file has it.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgramGuess {
    /// The program and its arguments, with placeholders.
    pub run: Vec<String>,
    /// What is searched.
    pub searched: Vec<ParameterGuess>,
    /// What is passed on as it is: name and value.
    pub fixed: Vec<(String, String)>,
    /// Files whose change matters, and that are not seen in `run` itself.
    pub files: Vec<String>,
}

/// A parameter with its range.
#[derive(Debug, Clone, PartialEq)]
pub struct ParameterGuess {
    /// Its name.
    pub name: String,
    /// The fields of its entry in `[space]`, as TOML.
    pub entry: String,
    /// Whether its name says nothing of its range.
    pub unknown: bool,
}

/// A range for names: what they contain, the range's TOML, and a value to begin with.
const RANGES: [(&[&str], &str, &str); 16] = [
    (
        &["weight_decay", "wd", "l2", "l1", "reg"],
        "low = 1e-6, high = 1e-1, log = true",
        "1e-4",
    ),
    (
        &["lr", "learning_rate", "eta"],
        "low = 1e-5, high = 1e-1, log = true",
        "1e-3",
    ),
    (&["dropout", "drop"], "low = 0.0, high = 0.5", "0.1"),
    (
        &["batch_size", "batch", "bs"],
        "choices = [16, 32, 64, 128]",
        "32",
    ),
    (&["momentum", "beta1"], "low = 0.5, high = 0.99", "0.9"),
    (&["beta2"], "low = 0.9, high = 0.9999", "0.999"),
    (
        &["layers", "num_layers", "n_layers", "depth"],
        "low = 1, high = 6, int = true",
        "2",
    ),
    (
        &["hidden", "width", "units", "dim", "channels", "hidden_size"],
        "low = 16, high = 512, int = true, log = true",
        "64",
    ),
    (&["max_depth"], "low = 2, high = 12, int = true", "6"),
    (
        &["n_estimators", "trees"],
        "low = 50, high = 1000, int = true, log = true",
        "200",
    ),
    (&["warmup", "warmup_ratio"], "low = 0.0, high = 0.2", "0.1"),
    (
        &["label_smoothing", "smoothing"],
        "low = 0.0, high = 0.2",
        "0.1",
    ),
    (
        &["clip", "clip_grad", "grad_clip"],
        "low = 0.1, high = 5.0, log = true",
        "1.0",
    ),
    (&["gamma"], "low = 0.5, high = 5.0", "2.0"),
    (
        &["optimizer", "optim", "opt"],
        "choices = [\"adam\", \"sgd\"]",
        "\"adam\"",
    ),
    (
        &["activation", "act"],
        "choices = [\"relu\", \"gelu\", \"tanh\"]",
        "\"relu\"",
    ),
];

/// Names of what is not searched: how long a trial takes, and what makes it a lucky one.
const FIXED: [(&[&str], &str); 3] = [
    (
        &[
            "epochs",
            "epoch",
            "num_epochs",
            "steps",
            "iterations",
            "iters",
        ],
        "5",
    ),
    (&["seed", "random_state"], "0"),
    (
        &[
            "gpu",
            "device",
            "workers",
            "num_workers",
            "threads",
            "port",
            "verbose",
            "log_interval",
            "rank",
            "folds",
        ],
        "0",
    ),
];

/// What a shell does with a line; a program that is started without one gets it as an argument.
const SHELL: [&str; 9] = ["|", "||", "&&", ";", "&", ">", ">>", "<", "2>&1"];

/// Reads a command line as a shell splits it. Placeholders are parameters; where there are none, options with a number
/// are (`--lr 0.01` becomes `--lr {lr}`), around that number. `is_file` looks from where the program runs.
///
/// # Errors
/// What is wrong, for people.
pub fn program(line: &str, is_file: impl Fn(&str) -> bool) -> Result<ProgramGuess, String> {
    let mut run = shlex::split(line).ok_or("its quotes are not closed")?;
    if run.is_empty() {
        return Err("it is empty".to_owned());
    }
    no_placeholder(line)?;
    let mut words = run.clone();
    let named = template::names(&run).into_iter().map(|name| (name, None));
    let mut given: Vec<(String, Option<String>)> = named.collect();
    let shell = needs_shell(&run);
    if shell {
        let mut line = line.to_owned();
        if given.is_empty() {
            (line, given) = numbers_for_shell(&line);
        }
        run = ["sh".to_owned(), "-c".to_owned(), line].to_vec();
    } else if given.is_empty() && run[0] != "sh" {
        given = replace_numbers(&mut run);
    }
    if let [program, option, line, ..] = run.as_mut_slice()
        && is_shell(program)
        && option == "-c"
    {
        if !shell {
            words = shlex::split(line).unwrap_or_default();
        }
        *line = with_variables(line);
    }
    if given.is_empty() {
        return Err(
            "nothing in it is a parameter; put its name in braces where its value goes: --lr {lr}"
                .to_owned(),
        );
    }
    let own = own_files(&run, &is_file);
    let mut files = named_files(&words, &is_file);
    files.retain(|file| !own.contains(&file.as_str()));
    let mut guess = ProgramGuess {
        run,
        searched: Vec::new(),
        fixed: Vec::new(),
        files,
    };
    for (name, value) in given {
        match FIXED.iter().find(|(names, _)| is_one_of(&name, names)) {
            Some((_, preset)) => {
                let value = literal(&value.unwrap_or_else(|| (*preset).to_owned()));
                guess.fixed.push((name, value));
            }
            None => guess.searched.push(parameter(name, value.as_deref())),
        }
    }
    if guess.searched.is_empty() {
        return Err("nothing in it can be searched: epochs and seeds are not".to_owned());
    }
    Ok(guess)
}

/// Whether a line means something to a shell alone: a pipe, a redirection, a variable before the program.
fn needs_shell(words: &[String]) -> bool {
    let variable = |word: &String| {
        let name = word.split_once('=').map(|(name, _)| name);
        name.is_some_and(|n| !n.is_empty() && n.chars().all(|c| c.is_alphanumeric() || c == '_'))
    };
    variable(&words[0])
        || words
            .iter()
            .any(|w| SHELL.contains(&w.as_str()) || w.ends_with(';'))
}

/// Whether a program is a shell.
pub fn is_shell(program: &str) -> bool {
    ["sh", "bash", "dash", "zsh"].contains(&program)
}

/// A line for a shell with variables in the place of names in braces: a value that was put into the line itself would
/// be read as a part of it, with its spaces and semicolons.
fn with_variables(line: &str) -> String {
    template::replace(line, |name, at| {
        let variable = template::variable(name);
        match quote_at(line, at) {
            None => format!("\"${variable}\""),
            Some('"') => format!("${{{variable}}}"),
            Some(_) => format!("'\"${variable}\"'"),
        }
    })
}

/// The quotes of a shell that a byte of a line stands in.
fn quote_at(line: &str, at: usize) -> Option<char> {
    let mut quote = None;
    let mut escaped = false;
    for c in line[..at].chars() {
        match (c, quote) {
            _ if escaped => escaped = false,
            ('\\', None | Some('"')) => escaped = true,
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            _ => {}
        }
    }
    quote
}

/// What looks like a placeholder to people.
#[expect(clippy::expect_used, reason = "a constant, which tests compile")]
static BRACES: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"[{$]?\{\s*[A-Za-z_][^{}'"$;]*\}"#).expect("a pattern"));

/// An option with a number behind it, in a line for a shell.
#[expect(clippy::expect_used, reason = "a constant, which tests compile")]
static OPTION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(--?([A-Za-z][\w-]*)(?:=|\s+))(-?[0-9.][0-9.eE+-]*)").expect("a pattern")
});

/// Refuses braces that look like a placeholder and are none; in single quotes they may be anything.
fn no_placeholder(line: &str) -> Result<(), String> {
    let wrong = BRACES.find_iter(line).find(|found| {
        let text = found.as_str();
        let ours = text.starts_with("{{") || text.starts_with("${");
        let quoted = quote_at(line, found.start()) == Some('\'');
        !ours && !quoted && template::names(&[text.to_owned()]).is_empty()
    });
    match wrong {
        None => Ok(()),
        Some(found) => Err(format!(
            "{} is no placeholder: that is a name of letters, digits, _, . and - in braces, as in --lr {{lr}}; values and \
             ranges are in the file (braces that mean something else stand in single quotes)",
            found.as_str()
        )),
    }
}

/// Options with a number in a line for a shell, up to its first pipe: what is behind that (`| tail -n 1`) is another
/// program's.
fn numbers_for_shell(line: &str) -> (String, Vec<(String, Option<String>)>) {
    let mut found: Vec<(String, Option<String>)> = Vec::new();
    let mut text = String::new();
    let mut done = 0;
    let pipe = |(at, _): &(usize, &str)| {
        let double = line[..*at].ends_with('|') || line[at + 1..].starts_with('|');
        !double && quote_at(line, *at).is_none()
    };
    let end = line
        .match_indices('|')
        .find(pipe)
        .map_or(line.len(), |(at, _)| at);
    for c in OPTION.captures_iter(&line[..end]) {
        let (Some(whole), Some(before), Some(number)) = (c.get(0), c.get(1), c.get(3)) else {
            continue;
        };
        let name = c[2].replace('-', "_");
        let begins = line[..whole.start()].ends_with(char::is_whitespace);
        let ends = line[whole.end()..]
            .chars()
            .next()
            .is_none_or(|c| c.is_whitespace() || ";|&)".contains(c));
        let finite = number.as_str().parse::<f64>().is_ok_and(f64::is_finite);
        let new = found.iter().all(|(n, _)| *n != name);
        if begins && ends && finite && new && quote_at(line, whole.start()).is_none() {
            text += &line[done..before.end()];
            text += &format!("{{{name}}}");
            done = whole.end();
            found.push((name, Some(number.as_str().to_owned())));
        }
    }
    (text + &line[done..], found)
}

/// What a task of this program is called: its script, else the module behind `-m`, else the program.
pub fn name(run: &[String]) -> String {
    let words: Vec<String> = match run {
        [shell, option, line] if shell == "sh" && option == "-c" => {
            shlex::split(line).unwrap_or_default()
        }
        run => run.to_vec(),
    };
    let stem = |word: &str| {
        let stem = Path::new(word).file_stem();
        stem.unwrap_or_default().to_string_lossy().into_owned()
    };
    let script = words.iter().find(|word| task::command::is_script(word));
    let module = words.iter().skip_while(|word| *word != "-m").nth(1);
    match (script, module) {
        (Some(script), _) => stem(script),
        (None, Some(module)) => module.rsplit('.').next().unwrap_or(module).to_owned(),
        (None, None) => stem(&run[0]),
    }
}

/// A number as TOML has it: `.1` is 0.1, and `007` is 7. Without one, the text in quotes.
fn literal(text: &str) -> String {
    match (text.parse::<i64>(), text.parse::<f64>()) {
        (Ok(whole), _) => whole.to_string(),
        (Err(_), Ok(number)) => format!("{number:?}"),
        (Err(_), Err(_)) => text.to_owned(),
    }
}

/// Options with a number: the number's place gets the option's name.
fn replace_numbers(run: &mut [String]) -> Vec<(String, Option<String>)> {
    let mut found: Vec<(String, Option<String>)> = Vec::new();
    for at in 1..run.len() {
        let option = |text: &str| {
            let name = text.trim_start_matches('-').replace('-', "_");
            let letters = name.starts_with(|c: char| c.is_ascii_alphabetic());
            (text.starts_with('-') && letters).then_some(name)
        };
        let number = |text: &str| text.parse::<f64>().is_ok_and(f64::is_finite);
        let (name, value, new) = match run[at].split_once('=') {
            Some((left, value)) if number(value) => match option(left) {
                Some(name) => (name.clone(), value.to_owned(), format!("{left}={{{name}}}")),
                None => continue,
            },
            Some(_) | None => match option(&run[at - 1]).filter(|_| number(&run[at])) {
                Some(name) if !run[at - 1].contains('=') => {
                    (name.clone(), run[at].clone(), format!("{{{name}}}"))
                }
                Some(_) | None => continue,
            },
        };
        if found.iter().all(|(n, _)| *n != name) {
            run[at] = new;
            found.push((name, Some(value)));
        }
    }
    found
}

/// Whether a name is one of these, or ends in one as a word of its own: `optim.lr`, `encoder_dropout`.
fn is_one_of(name: &str, names: &[&str]) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    names.iter().any(|n| {
        let before = name.strip_suffix(n);
        before.is_some_and(|b| b.is_empty() || b.ends_with(['.', '_']))
    })
}

/// A range for a parameter: by its name, around its value.
fn parameter(name: String, value: Option<&str>) -> ParameterGuess {
    let by_name = RANGES.iter().find(|(names, ..)| is_one_of(&name, names));
    let (entry, unknown) = match (by_name, value.and_then(|v| v.parse::<f64>().ok())) {
        (Some((_, range, preset)), None) => (format!("{range}, default = {preset}"), false),
        (Some((_, range, _)), Some(v)) => {
            let inside = bounds(range).is_some_and(|(low, high)| (low..=high).contains(&v));
            let int = range.contains("int");
            match inside && (!int || v.fract() == 0.0) {
                true if int => (format!("{range}, default = {v:.0}"), false),
                true => (format!("{range}, default = {v:?}"), false),
                false => (around(value.unwrap_or_default(), v), false),
            }
        }
        (None, Some(v)) => (around(value.unwrap_or_default(), v), true),
        (None, None) => ("low = 0.0, high = 1.0".to_owned(), true),
    };
    ParameterGuess {
        name,
        entry,
        unknown,
    }
}

/// The ends of a range of numbers.
fn bounds(range: &str) -> Option<(f64, f64)> {
    let of = |key: &str| {
        let rest = range.split(key).nth(1)?;
        rest.split(',').next()?.trim().parse().ok()
    };
    Some((of("low = ")?, of("high = ")?))
}

/// A tenth to ten times a number; of a whole number a quarter to four times it.
fn around(text: &str, v: f64) -> String {
    if let Ok(whole) = text.parse::<i64>() {
        let (low, high) = match whole {
            0 => (0, 4),
            1.. => ((whole / 4).max(1), whole.saturating_mul(4)),
            ..0 => (whole.saturating_mul(4), whole.saturating_neg()),
        };
        let log = if low > 0 { ", log = true" } else { "" };
        return format!("low = {low}, high = {high}, int = true{log}, default = {whole}");
    }
    if v > 0.0 {
        return format!(
            "low = {:?}, high = {:?}, log = true, default = {v:?}",
            v / 10.0,
            v * 10.0
        );
    }
    match v == 0.0 {
        true => "low = 0.0, high = 1.0, default = 0.0".to_owned(),
        false => format!("low = {:?}, high = {:?}, default = {v:?}", v * 2.0, -v),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(line: &str) -> Result<ProgramGuess, String> {
        super::program(line, |name| name == "train.py")
    }

    fn names(guess: &ProgramGuess) -> Vec<&str> {
        guess.searched.iter().map(|p| p.name.as_str()).collect()
    }

    #[test]
    fn placeholders_are_parameters_with_ranges_by_their_names() {
        let guess = program(
            "python train.py --lr {lr} --encoder-dropout={encoder_dropout} --epochs {epochs} --odd {odd}",
        )
        .unwrap();
        assert_eq!(names(&guess), ["lr", "encoder_dropout", "odd"]);
        assert!(guess.searched[0].entry.contains("low = 1e-5"));
        assert!(guess.searched[1].entry.contains("high = 0.5"));
        assert!(guess.searched[2].unknown && !guess.searched[0].unknown);
        assert_eq!(guess.fixed, [("epochs".to_owned(), "5".to_owned())]);
        assert_eq!(guess.run[3], "{lr}");
    }

    #[test]
    fn numbers_of_options_become_parameters_around_them() {
        let line =
            "python train.py --lr 0.01 --batch-size=48 --seed 3 --data 'a b.csv' --alpha 0.25 -v";
        let guess = program(line).unwrap();
        assert_eq!(names(&guess), ["lr", "batch_size", "alpha"]);
        let entries: Vec<&str> = guess.searched.iter().map(|p| p.entry.as_str()).collect();
        assert_eq!(
            entries,
            [
                "low = 1e-5, high = 1e-1, log = true, default = 0.01",
                "low = 12, high = 192, int = true, log = true, default = 48",
                "low = 0.025, high = 2.5, log = true, default = 0.25",
            ]
        );
        assert_eq!(guess.fixed, [("seed".to_owned(), "3".to_owned())]);
        let run = "python train.py --lr {lr} --batch-size={batch_size} --seed {seed} --data";
        assert_eq!(guess.run[..8].join(" "), run);
    }

    #[test]
    fn numbers_that_toml_writes_otherwise_are_written_as_it_does() {
        let line = "python t.py --lr=.1 --off -3 --zero 0 --seed 007 --num-workers 4 --dropout 0";
        let guess = program(line).unwrap();
        let entries: Vec<&str> = guess.searched.iter().map(|p| p.entry.as_str()).collect();
        assert_eq!(
            entries,
            [
                "low = 1e-5, high = 1e-1, log = true, default = 0.1",
                "low = -12, high = 3, int = true, default = -3",
                "low = 0, high = 4, int = true, default = 0",
                "low = 0.0, high = 0.5, default = 0.0",
            ]
        );
        let fixed = [("seed", "7"), ("num_workers", "4")];
        assert_eq!(
            guess.fixed,
            fixed.map(|(n, v)| (n.to_owned(), v.to_owned()))
        );
    }

    #[test]
    fn what_only_a_shell_understands_is_left_to_one() {
        let line = "CUDA=0 python train.py --lr {lr} | tee log";
        let guess = program(line).unwrap();
        let variable = "CUDA=0 python train.py --lr \"$TUNE_PARAM_LR\" | tee log";
        assert_eq!(guess.run, ["sh", "-c", variable]);
        assert_eq!(guess.files, ["train.py"]);
        assert_eq!(
            (names(&guess), name(&guess.run).as_str()),
            (vec!["lr"], "train")
        );
        let module = program("python -m pkg.train --lr {lr}").unwrap();
        assert_eq!(name(&module.run), "train");
        assert_eq!(name(&program("./fit --lr {lr}").unwrap().run), "fit");
    }

    #[test]
    fn a_line_for_a_shell_gets_its_values_in_variables_whatever_quotes_stand_there() {
        let of = |line: &str| program(line).unwrap().run[2].clone();
        assert_eq!(
            of("python t.py \"--opt={opt}\" --x '{x}' ${HOME} | tail"),
            "python t.py \"--opt=${TUNE_PARAM_OPT}\" --x ''\"$TUNE_PARAM_X\"'' ${HOME} | tail"
        );
        let guess = program("bash -c 'python train.py --lr {lr}' x").unwrap();
        assert_eq!(guess.run[2], "python train.py --lr \"$TUNE_PARAM_LR\"");
        assert_eq!(guess.files, ["train.py"]);
    }

    #[test]
    fn numbers_of_options_in_a_line_for_a_shell_are_those_before_its_pipe() {
        let line = "A=1 python t.py --lr 0.01 --seed=3 --note '--b 2' --q 4 2>&1 | tail -n 1";
        let guess = program(line).unwrap();
        assert_eq!(names(&guess), ["lr", "q"]);
        assert_eq!(guess.fixed, [("seed".to_owned(), "3".to_owned())]);
        assert_eq!(
            guess.run[2],
            "A=1 python t.py --lr \"$TUNE_PARAM_LR\" --seed=\"$TUNE_PARAM_SEED\" --note '--b 2' --q \"$TUNE_PARAM_Q\" \
             2>&1 | tail -n 1"
        );
        assert!(program("python t.py | head -n 5").is_err());
        assert!(program("cd sub && python t.py --lr 0.1 || exit 1").is_ok());
    }

    #[test]
    fn braces_that_are_no_placeholder_are_refused_where_they_look_like_one() {
        for line in [
            "p --lr {lr=0.01}",
            "p {lr} --x {y z}",
            "p --lr={lr:0.1} | tail",
        ] {
            let error = program(line).unwrap_err();
            assert!(error.contains("is no placeholder"), "{line}: {error}");
        }
        for line in [
            "p --lr {lr} | awk '{print $1}'",
            "p --lr {lr} ${A:-b} {{x y}} '{a b}'",
            "p --lr {lr} --json {\"a\":1}",
        ] {
            assert!(program(line).is_ok(), "{line}");
        }
    }

    #[test]
    fn a_line_without_anything_to_search_is_refused() {
        assert!(program("python train.py").unwrap_err().contains("{lr}"));
        assert!(
            program("python train.py --seed 3")
                .unwrap_err()
                .contains("seeds")
        );
        assert!(program("echo 'x").unwrap_err().contains("quotes"));
        assert!(program("  ").is_err());
    }
}
