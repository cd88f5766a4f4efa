//! `tune explain`: what an error's text means.

use serde_json::{Value as Json, json};

use super::format::facts;
use super::format::printable;
use fault::table::{Process, Survival, Trial};
use fault::{Explanation, Memory, size_text};

/// Texts are broken at this many characters.
const WIDTH: usize = 100;

/// An explanation for people.
pub fn explanation(e: &Explanation) -> String {
    let mut out: Vec<(&str, String)> = Vec::new();
    out.push(("fault", format!("{}: {}", e.fault, e.what)));
    let named = match (&e.name, e.code) {
        (Some(name), Some(code)) => format!(" ({name}, {code})"),
        (Some(name), None) if !e.detail.contains(name.as_str()) => format!(" ({name})"),
        (Some(_), None) | (None, _) => String::new(),
    };
    out.push(("what", format!("{}{named}", printable(&e.detail))));
    if let Some(place) = &e.place {
        out.push(("where", printable(&place.describe())));
        if e.repeated > 1 {
            out.push((
                "",
                format!("{} lines say so; this is the first", e.repeated),
            ));
        }
    }
    if let Some(memory) = &e.memory {
        out.push(("memory", figures(memory)));
    }
    out.push(("context", context(e.context).to_owned()));
    out.push(("process", process(e.process).to_owned()));
    out.push((
        "trial",
        format!("{}; the second time: {}", trial(e.trial), trial(e.second)),
    ));
    out.push(("concerns", e.scope.to_string()));
    out.push(("advice", e.advice.clone()));
    if !e.text.is_empty() {
        out.push(("text", printable(&e.text)));
    }
    for other in &e.also {
        let times = if other.count > 1 {
            format!(" ({} lines)", other.count)
        } else {
            String::new()
        };
        out.push((
            "also",
            format!("{}{times}: {}", other.fault, printable(&other.text)),
        ));
    }
    let broken: Vec<(&str, String)> = out
        .into_iter()
        .flat_map(|(heading, text)| {
            let lines = wrap(&text).into_iter().enumerate();
            lines.map(move |(at, line)| (if at == 0 { heading } else { "" }, line))
        })
        .collect();
    facts(&broken)
}

fn context(context: Survival) -> &'static str {
    match context {
        Survival::Lost => "lost: no later CUDA call of that process can succeed",
        Survival::Alive => "alive: it can be used further",
        Survival::Unknown => "unknown: the text does not tell",
    }
}

fn process(process: Process) -> &'static str {
    match process {
        Process::Restart => "restart: it ends at once, a fresh worker takes its slot",
        Process::Continue => "continue: cleaned up, checked, and it goes on",
        Process::Probe => "probe: the health check decides whether it goes on",
        Process::Drain => "drain: its slot gets no worker until the device is back",
    }
}

fn trial(trial: Trial) -> &'static str {
    match trial {
        Trial::Again => "again (same parameters, nothing held against it)",
        Trial::Suspect => "suspect (again in forensic mode, which tells victim from culprit)",
        Trial::Pruned => "pruned (ends as PRUNED)",
        Trial::Fail => "fail (ends as FAIL)",
    }
}

fn figures(m: &Memory) -> String {
    let figures = [
        ("asked for", m.tried),
        ("device", m.total),
        ("free", m.free),
        ("allocated", m.allocated),
        ("reserved but unused", m.reserved_unallocated),
    ];
    let known: Vec<String> = figures
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name} {}", size_text(value?))))
        .collect();
    known.join(", ")
}

/// Lines of at most [`WIDTH`] characters, broken at spaces.
fn wrap(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut width = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if width > 0 && width + 1 + length > WIDTH {
            lines.push(String::new());
            width = 0;
        }
        if let Some(line) = lines.last_mut() {
            if width > 0 {
                line.push(' ');
                width += 1;
            }
            line.push_str(word);
        }
        width += length;
    }
    lines
}

/// An explanation for programs.
pub fn explanation_json(e: &Explanation) -> Json {
    json!(e)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_broken_at_spaces() {
        let lines = wrap(&"word ".repeat(60));
        assert!(lines.len() > 1 && lines.iter().all(|l| l.len() <= WIDTH));
        assert_eq!(wrap(""), [""]);
    }

    #[test]
    fn no_control_character_of_a_log_reaches_the_terminal() {
        let e = fault::explain("RuntimeError: \u{9b}31m bad\u{1b}[2J\u{7}");
        assert!(
            explanation(&e)
                .chars()
                .all(|c| c == '\n' || !c.is_control())
        );
    }
}
