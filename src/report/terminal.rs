//! The terminal that people look at: how wide it is, and a block of lines that is drawn again in its place.

use std::io;

use console::Term;
use messages::printable_lines;

/// Characters of a line of the terminal; `None` where standard output is none.
pub fn columns() -> Option<usize> {
    let term = Term::stdout();
    term.is_term().then(|| usize::from(term.size().1))
}

/// A block of lines that is drawn again and again: on a terminal in its place, elsewhere each below the one before.
#[derive(Default)]
pub struct Screen {
    /// Lines of the block on the terminal.
    drawn: usize,
}

impl Screen {
    /// Draws the block anew. On a terminal, what is wider or higher than it is cut.
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
    let lines = text.trim_end().lines().take(rows.max(2) - 1);
    lines.map(cut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_cut_to_the_terminal() {
        let shown = fitted("abcdef\nxy\nlast\n", (3, 5));
        assert_eq!(shown, ["abcd", "xy"]);
        assert_eq!(fitted("é\n", (24, 80)), ["é"]);
        assert_eq!(fitted("ab", (0, 0)), ["a"]);
    }
}
