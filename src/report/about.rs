//! Commands about a study that people are told to give next.

use messages::printable;

/// A study as commands about it name it.
#[derive(Debug, Clone)]
pub struct About {
    /// The study's name.
    pub study: String,
    tune: String,
}

impl About {
    /// A study; `tune` is how commands about it begin where the person is: `tune`, or with the `-C DIR` or
    /// `--storage PATH` without which another database would be found.
    pub fn new(study: &str, tune: &str) -> About {
        About {
            study: study.to_owned(),
            tune: tune.to_owned(),
        }
    }

    /// `tune -C DIR failures STUDY`, as a shell reads it.
    pub fn command(&self, command: &str) -> String {
        format!("{} {command} {}", self.tune, shell_word(&self.study))
    }
}

/// A word as a shell reads it, on one line that drives no terminal.
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", printable(word).replace('\'', r"'\''"))
    }
}

/// A command line as a shell reads it.
pub fn shell_line<W: AsRef<str>>(words: impl IntoIterator<Item = W>) -> String {
    let words = words.into_iter().map(|word| shell_word(word.as_ref()));
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_names_the_study_as_a_shell_reads_it() {
        let about = About::new("it's mine", "tune -C /a");
        assert_eq!(
            about.command("failures"),
            r"tune -C /a failures 'it'\''s mine'"
        );
        assert_eq!(About::new("s", "tune").command("show"), "tune show s");
    }

    #[test]
    fn words_are_quoted_where_a_shell_would_split_or_expand_them() {
        assert_eq!(shell_word("space.lr.high=1e-3"), "space.lr.high=1e-3");
        assert_eq!(shell_word("my study"), "'my study'");
        assert_eq!(shell_word("it's $HOME"), r"'it'\''s $HOME'");
        assert_eq!(shell_word(""), "''");
    }
}
