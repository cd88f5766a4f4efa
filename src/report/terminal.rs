//! The terminal that people look at: how wide it is, and a block of lines that is drawn again in its place.

use std::io;

use console::Term;
use messages::printable_lines;

/// Characters of a line of the terminal; `None` where standard output is none.
pub fn columns() -> Option<usize> {
    let term = Term::stdout();
    term.is_term().then(|| usize::from(term.size().1))
}

/// A text for people: on a terminal its lines are broken between words where the terminal's end.
pub fn for_terminal(text: &str) -> String {
    columns().map_or_else(|| text.to_owned(), |columns| wrapped(text, columns))
}

/// The lines of a text, each at most so many characters as far as its words allow it. What goes on stands below the
/// second column where the line has one, as `heading  text` has. A line of more columns is broken between them.
fn wrapped(text: &str, width: usize) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let mut rest: Vec<char> = line.chars().collect();
        let lead = |rest: &[char]| rest.iter().take_while(|c| **c == ' ').count();
        let second = second_column(&rest).filter(|at| *at <= width / 2);
        let indent = second.unwrap_or(lead(&rest) + 2);
        while rest.len() > width {
            let space = |at: &usize| rest[*at] == ' ';
            let gap =
                |at: &usize| space(at) && (space(&(at - 1)) || rest.get(at + 1) == Some(&' '));
            // At least a word of the column that goes on stays on the line.
            let word = lead(&rest).max(second.unwrap_or(0));
            let before = (word + 1..=width).rev().find(gap);
            let before = before.or_else(|| (word + 1..=width).rev().find(space));
            let Some(at) = before.or_else(|| (width..rest.len()).find(space)) else {
                break;
            };
            let begun: String = rest[..at].iter().collect();
            let goes_on = rest[at..].iter().skip_while(|c| **c == ' ').copied();
            rest = std::iter::repeat_n(' ', indent).chain(goes_on).collect();
            out += begun.trim_end();
            out.push('\n');
        }
        out.extend(rest);
        out.push('\n');
    }
    out
}

/// Where the text behind the first gap of a line stands.
fn second_column(line: &[char]) -> Option<usize> {
    let word = line.iter().position(|c| *c != ' ')?;
    let gap = word + line[word..].windows(2).position(|two| two == [' ', ' '])?;
    Some(gap + line[gap..].iter().position(|c| *c != ' ')?)
}

/// A block of lines that is drawn again and again: on a terminal in its place, elsewhere each below the one before.
#[derive(Default)]
pub struct Screen {
    /// Lines of the block on the terminal.
    drawn: usize,
}

impl Screen {
    /// Draws the block anew. On a terminal, wide lines are broken, and what is higher than it is cut.
    ///
    /// # Errors
    /// Standard output cannot be written; a reader that has gone away is [`io::ErrorKind::BrokenPipe`].
    pub fn draw(&mut self, text: &str) -> io::Result<()> {
        let text = printable_lines(text);
        let term = Term::buffered_stdout();
        let block = match term.is_term() {
            true => {
                term.clear_last_lines(self.drawn)?;
                fitted(&text, term.size())
            }
            false => text.trim_end().lines().map(str::to_owned).collect(),
        };
        self.drawn = block.len();
        for line in block {
            term.write_line(&line)?;
        }
        if !term.is_term() {
            term.write_line("")?;
        }
        term.flush()
    }
}

/// The lines of a text that a terminal of so many rows and columns shows without scrolling.
fn fitted(text: &str, (rows, columns): (u16, u16)) -> Vec<String> {
    let (rows, columns) = (usize::from(rows), usize::from(columns));
    let cut = |line: &str| line.chars().take(columns.max(2) - 1).collect();
    let text = wrapped(text.trim_end(), columns.max(2) - 1);
    text.lines().take(rows.max(2) - 1).map(cut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_goes_on_below_its_second_column() {
        let text = "study   t: minimize loss\nstate   running since noon (pid 7)\n\nab cd\n";
        let told = "study   t: minimize\n        loss\nstate   running\n        since noon\n        (pid 7)\n\nab cd\n";
        assert_eq!(wrapped(text, 19), told);
        assert_eq!(wrapped(text, 80), text);
        // A word is never broken: the terminal does that.
        assert_eq!(
            wrapped("a /very/long/path b\n", 6),
            "a\n  /very/long/path\n  b\n"
        );
        assert_eq!(wrapped("/very/long/path\n", 6), "/very/long/path\n");
    }

    #[test]
    fn a_row_of_a_table_is_broken_between_its_columns() {
        let text = "study  objective  last activity\nt      minimize   some time ago\n";
        let told =
            "study  objective\n       last activity\nt      minimize\n       some time ago\n";
        assert_eq!(wrapped(text, 21), told);
    }

    #[test]
    fn a_block_is_cut_to_the_terminal() {
        let shown = fitted("abcdef\nxy\nlast\n", (3, 5));
        assert_eq!(shown, ["abcd", "xy"]);
        assert_eq!(fitted("é\n", (24, 80)), ["é"]);
        assert_eq!(fitted("ab", (0, 0)), ["a"]);
    }
}
