//! Signs and colours, by what the terminal can show.

use ratatui::style::{Color, Modifier, Style};

/// What the terminal can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Looks {
    /// Other characters than ASCII.
    pub unicode: bool,
    /// Colours; without them bold, dim and reversed text stand in.
    pub colour: bool,
}

/// The role that a text has on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Plain,
    /// What is looked for first.
    Strong,
    /// Headings, units, lines: what may be overlooked.
    Faint,
    Good,
    Warning,
    Bad,
    /// The line of a chart, a filled bar, a key that can be pressed.
    Accent,
}

impl Looks {
    /// By the environment: `variable` gives a variable's value. Unicode takes a UTF-8 locale and another terminal than
    /// Linux's console; `NO_COLOR` that is not empty, and a terminal without colours, do without them.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Looks {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
        let locale = locale.unwrap_or_default().to_ascii_lowercase();
        let term = set("TERM").unwrap_or_default();
        let utf8 = locale.contains("utf-8") || locale.contains("utf8");
        Looks {
            unicode: utf8 && term != "linux",
            colour: set("NO_COLOR").is_none() && !term.starts_with("vt1") && term != "xterm-mono",
        }
    }

    pub(crate) fn style(self, role: Role) -> Style {
        let style = Style::new();
        match (role, self.colour) {
            (Role::Plain, _) => style,
            (Role::Strong, _) => style.add_modifier(Modifier::BOLD),
            (Role::Faint, true) => style.fg(Color::DarkGray),
            (Role::Faint, false) => style.add_modifier(Modifier::DIM),
            (Role::Good, true) => style.fg(Color::Green),
            (Role::Warning, true) => style.fg(Color::Yellow),
            (Role::Bad, true) => style.fg(Color::Red),
            (Role::Accent, true) => style.fg(Color::Cyan),
            (Role::Warning | Role::Bad, false) => style.add_modifier(Modifier::BOLD),
            (Role::Good | Role::Accent, false) => style,
        }
    }

    /// One of two signs.
    pub(crate) fn sign(self, unicode: &'static str, ascii: &'static str) -> &'static str {
        if self.unicode { unicode } else { ascii }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(set: &[(&str, &str)]) -> (bool, bool) {
        let looks = Looks::of(|name| {
            let found = set.iter().find(|(n, _)| *n == name);
            found.map(|(_, value)| (*value).to_owned())
        });
        (looks.unicode, looks.colour)
    }

    #[test]
    fn the_environment_says_what_can_be_shown() {
        let utf8 = ("LANG", "de_DE.UTF-8");
        assert_eq!(of(&[utf8, ("TERM", "xterm-256color")]), (true, true));
        assert_eq!(of(&[utf8, ("TERM", "linux")]), (false, true));
        assert_eq!(of(&[utf8, ("LC_ALL", "C")]), (false, true));
        assert_eq!(of(&[("LC_ALL", ""), ("LC_CTYPE", "C.utf8")]), (true, true));
        assert_eq!(of(&[]), (false, true));
        assert_eq!(of(&[utf8, ("NO_COLOR", "1")]), (true, false));
        assert_eq!(of(&[utf8, ("NO_COLOR", "")]), (true, true));
    }

    #[test]
    fn without_colours_nothing_has_one() {
        let looks = Looks {
            unicode: true,
            colour: false,
        };
        for role in [
            Role::Plain,
            Role::Strong,
            Role::Faint,
            Role::Good,
            Role::Warning,
            Role::Bad,
            Role::Accent,
        ] {
            let style = looks.style(role);
            assert_eq!((style.fg, style.bg), (None, None), "{role:?}");
        }
    }
}
