//! The options in a command's words. Pure.

/// The options of a command, as they are written: `--lr`, `-b`, `lr` (of `lr=0.1`); not those of an interpreter, to which
/// the program is a file, a module behind `-m`, or a text behind `-c`.
pub fn options(words: &[String]) -> Vec<String> {
    let file = |w: &String| w.ends_with(".py") || w.ends_with(".sh");
    let program = words.iter().position(file).or_else(|| {
        let interpreter = words.iter().position(|w| is_interpreter(w))?;
        let mut behind = words.iter().skip(interpreter);
        let named = behind.position(|w| w == "-c" || w == "-m")?;
        Some(interpreter + named + 1)
    });
    let from = program.map_or(1, |at| at + 1);
    let mut found: Vec<String> = Vec::new();
    for word in words.iter().skip(from) {
        let name = word.split('=').next().unwrap_or_default();
        let number = name
            .trim_start_matches('-')
            .starts_with(|c: char| c.is_ascii_digit() || c == '.');
        let option = name.len() > 1 && name.starts_with('-') && !number && name != "--";
        if option && !found.iter().any(|f| f == name) {
            found.push(name.to_owned());
        }
    }
    found
}

/// Whether a word is a program that runs the text or the module behind an option.
fn is_interpreter(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or_default();
    name.starts_with("python") || ["bash", "dash", "sh", "torchrun", "zsh"].contains(&name)
}

/// The options of a command, those first whose name the error's words have, then those without a value: they switch something on.
pub fn most_suspect_first(words: &[String], said: &str) -> Vec<String> {
    let plain = |text: &str| text.to_lowercase().replace('-', "_");
    let said = plain(said);
    let named = |name: &str| {
        let bare = plain(name.trim_start_matches('-'));
        bare.len() > 3 && said.contains(&bare)
    };
    let switches = |name: &str| {
        let at = words.iter().position(|word| word == name);
        let next = at.map(|at| words.get(at + 1));
        next.is_some_and(|next| next.is_none_or(|word| word.starts_with("--")))
    };
    let mut names = options(words);
    names.sort_by_key(|name| (!named(name), !switches(name)));
    names
}

/// The command with another value of an option, or without it.
pub fn with_option(words: Vec<String>, name: &str, value: Option<&str>) -> Vec<String> {
    let bare = name.trim_start_matches('-');
    let is = |word: &str| word.trim_start_matches('-') == bare && word.starts_with('-');
    let mut changed = Vec::with_capacity(words.len() + 2);
    let mut found = false;
    let mut rest = words.into_iter().peekable();
    while let Some(word) = rest.next() {
        let pair = word.split_once('=').map(|(head, _)| head.to_owned());
        if let Some(head) = pair.filter(|head| is(head) || head == bare) {
            found = true;
            changed.extend(value.map(|value| format!("{head}={value}")));
        } else if is(&word) {
            found = true;
            let negative = |w: &String| w.starts_with('-') && w[1..].parse::<f64>().is_err();
            let has_value = rest.peek().is_some_and(|next| !negative(next));
            if has_value {
                rest.next();
            }
            if let Some(value) = value {
                changed.push(word);
                changed.push(value.to_owned());
            }
        } else {
            changed.push(word);
        }
    }
    if let Some(value) = value.filter(|_| !found) {
        changed.push(format!("--{bare}"));
        changed.push(value.to_owned());
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn options_are_found_changed_and_left_out() {
        let command =
            words("python -u train.py --lr 0.1 --amp --wd=-1e-3 -b 32 data.csv model.dim=4");
        assert_eq!(options(&command), ["--lr", "--amp", "--wd", "-b"]);
        assert_eq!(
            options(&words("env A=1 python -m train.main --lr 1")),
            ["--lr"]
        );
        assert!(options(&words("bash -c exit")).is_empty());
        assert_eq!(options(&words("./train --lr 1 -m model")), ["--lr", "-m"]);
        let changed =
            |name: &str, value: Option<&str>| with_option(command.clone(), name, value).join(" ");
        assert!(changed("lr", Some("1")).contains("--lr 1 --amp"));
        assert!(!changed("--lr", None).contains("0.1"));
        assert!(changed("--amp", None).contains("0.1 --wd=-1e-3"));
        assert!(changed("wd", Some("0")).contains("--wd=0"));
        assert!(changed("model.dim", Some("8")).ends_with("model.dim=8"));
        assert!(changed("new", Some("8")).ends_with("--new 8"));
    }

    #[test]
    fn options_that_an_error_names_and_switches_are_left_out_first() {
        let command = words("python t.py --lr 0.1 --amp --weight-norm --ema 0.9");
        let said = "this may be because of weight_norm";
        let order = ["--weight-norm", "--amp", "--lr", "--ema"];
        assert_eq!(most_suspect_first(&command, said), order);
        assert_eq!(
            most_suspect_first(&words("python t.py --lr 0.1"), said),
            ["--lr"]
        );
    }
}
