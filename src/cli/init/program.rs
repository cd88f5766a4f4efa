//! What a command line says of a program: its arguments, its parameters, and ranges to begin with, by their names.
//! Pure.

use task::command::template;

/// A program, as the task file has it.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgramGuess {
    /// The program and its arguments, with placeholders.
    pub run: Vec<String>,
    /// What is searched.
    pub searched: Vec<ParameterGuess>,
    /// What is passed on as it is: name and value.
    pub fixed: Vec<(String, String)>,
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
const FIXED: [(&[&str], &str); 2] = [
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
];

/// Reads a command line as a shell splits it. Placeholders are parameters; where there are none, options with a number
/// are (`--lr 0.01` becomes `--lr {lr}`), around that number.
///
/// # Errors
/// What is wrong, for people.
pub fn program(line: &str) -> Result<ProgramGuess, String> {
    let mut run = shlex::split(line).ok_or("its quotes are not closed")?;
    if run.is_empty() {
        return Err("it is empty".to_owned());
    }
    let mut given: Vec<(String, Option<String>)> = template::names(&run)
        .into_iter()
        .map(|name| (name, None))
        .collect();
    if given.is_empty() {
        given = replace_numbers(&mut run);
    }
    if given.is_empty() {
        return Err(
            "nothing in it is a parameter; put its name in braces where its value goes: --lr {lr}"
                .to_owned(),
        );
    }
    let mut guess = ProgramGuess {
        run,
        searched: Vec::new(),
        fixed: Vec::new(),
    };
    for (name, value) in given {
        match FIXED.iter().find(|(names, _)| is_one_of(&name, names)) {
            Some((_, preset)) => {
                let value = value.unwrap_or_else(|| (*preset).to_owned());
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
        (Some((_, range, preset)), Some(v)) => {
            let inside = bounds(range).is_some_and(|(low, high)| (low..=high).contains(&v));
            let whole = range.contains("int") && v.fract() != 0.0;
            match inside && !whole {
                true => (
                    format!("{range}, default = {}", value.unwrap_or(preset)),
                    false,
                ),
                false => (around(v, value.unwrap_or(preset)), false),
            }
        }
        (None, Some(v)) => (around(v, value.unwrap_or_default()), true),
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
fn around(v: f64, text: &str) -> String {
    let whole = !text.contains(['.', 'e', 'E']);
    if v == 0.0 {
        return "low = 0.0, high = 1.0, default = 0.0".to_owned();
    }
    if whole && v > 0.0 {
        let low = (v / 4.0).ceil().max(1.0);
        return format!(
            "low = {low}, high = {}, int = true, log = true, default = {text}",
            v * 4.0
        );
    }
    match v > 0.0 {
        true => format!(
            "low = {:e}, high = {:e}, log = true, default = {v:e}",
            v / 10.0,
            v * 10.0
        ),
        false => format!("low = {:e}, high = {:e}, default = {v:e}", v * 2.0, -v),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
                "low = 2.5e-2, high = 2.5e0, log = true, default = 2.5e-1",
            ]
        );
        assert_eq!(guess.fixed, [("seed".to_owned(), "3".to_owned())]);
        let run = "python train.py --lr {lr} --batch-size={batch_size} --seed {seed} --data";
        assert_eq!(guess.run[..8].join(" "), run);
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
