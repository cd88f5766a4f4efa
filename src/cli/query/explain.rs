//! `tune explain`: what an error's text means.

use super::Answer;
use super::format::{facts, printable};
use fault::table::{Process, Survival, Trial};
use fault::{Explanation, Memory, size_text};

/// Texts are broken at this many characters.
const WIDTH: usize = 100;

impl Answer for Explanation {
    fn text(&self) -> String {
        let mut out = vec![
            ("fault", format!("{}: {}", self.fault, self.what)),
            ("what", format!("{}{}", self.detail, named(self))),
        ];
        if let Some(place) = &self.place {
            out.push(("where", place.describe()));
            if self.repeated > 1 {
                let lines = self.repeated;
                out.push(("", format!("{lines} lines say so; this is the first")));
            }
        }
        out.extend(
            self.memory
                .as_ref()
                .map(|memory| ("memory", figures(memory))),
        );
        let (first, second) = (trial(self.trial), trial(self.second));
        out.extend([
            ("context", context(self.context).to_owned()),
            ("process", process(self.process).to_owned()),
            ("trial", format!("{first}; the second time: {second}")),
            ("concerns", self.scope.to_string()),
            ("advice", self.advice.clone()),
        ]);
        if !self.text.is_empty() {
            out.push(("text", self.text.clone()));
        }
        for other in &self.also {
            let times = match other.count {
                0 | 1 => String::new(),
                n => format!(" ({n} lines)"),
            };
            out.push(("also", format!("{}{times}: {}", other.fault, other.text)));
        }
        let broken = out.into_iter().flat_map(|(heading, text)| {
            let lines = wrap(&printable(&text)).into_iter().enumerate();
            lines.map(move |(at, line)| (if at == 0 { heading } else { "" }, line))
        });
        facts(&broken.collect::<Vec<_>>())
    }
}

/// ` (cudaErrorAssert, 710)`, as far as the detail does not say it.
fn named(e: &Explanation) -> String {
    match (&e.name, e.code) {
        (Some(name), Some(code)) => format!(" ({name}, {code})"),
        (Some(name), None) if !e.detail.contains(name.as_str()) => format!(" ({name})"),
        (Some(_), None) | (None, _) => String::new(),
    }
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
        assert!(e.text().chars().all(|c| c == '\n' || !c.is_control()));
    }
}
