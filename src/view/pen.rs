//! The only way onto the screen: whatever a text is, it stays in its place and drives no terminal.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::Span;

use crate::looks::{Looks, Role};
use messages::printable;

/// Writes into a buffer.
pub(crate) struct Pen<'a> {
    buffer: &'a mut Buffer,
    pub(crate) looks: Looks,
}

/// The columns that a text takes.
pub(crate) fn width(text: &str) -> u16 {
    let width = match text.is_ascii() {
        true => text.len(),
        false => Span::raw(text).width(),
    };
    u16::try_from(width).unwrap_or(u16::MAX)
}

/// What of an area is below its first lines.
pub(crate) fn below(area: Rect, lines: u16) -> Rect {
    Rect {
        y: area.y + lines,
        height: area.height.saturating_sub(lines),
        ..area
    }
}

/// One of its lines.
pub(crate) fn line_at(area: Rect, y: u16) -> Rect {
    Rect {
        y,
        height: 1,
        ..area
    }
}

/// What of it is to the right, from a column on.
pub(crate) fn behind(area: Rect, x: u16) -> Rect {
    Rect {
        x,
        width: area.right().saturating_sub(x),
        ..area
    }
}

impl Pen<'_> {
    pub(crate) fn new(buffer: &mut Buffer, looks: Looks) -> Pen<'_> {
        Pen { buffer, looks }
    }

    /// A text as it is shown in so many columns: on one line, its end cut off where it is too long, and
    /// of ASCII alone where the terminal shows nothing else.
    pub(crate) fn shown(&self, text: &str, columns: u16) -> String {
        // Of a text of many pages, only its beginning can be seen.
        let most = usize::from(columns) * 4 + 16;
        let text: String = text.chars().take(most).collect();
        let text = printable(&text);
        let text = match self.looks.unicode {
            true => text.into_owned(),
            false => ascii(&text),
        };
        if width(&text) <= columns {
            return text;
        }
        let end = self.looks.sign("…", "~");
        let mut cut = String::new();
        let mut room = columns.saturating_sub(1);
        for c in text.chars() {
            let takes = width(c.encode_utf8(&mut [0; 4]));
            if takes > room {
                break;
            }
            room -= takes;
            cut.push(c);
        }
        if columns > 0 {
            cut.push_str(end);
        }
        cut
    }

    /// Writes a text from `x` on in at most so many columns; gives the column behind it.
    pub(crate) fn text(&mut self, x: u16, y: u16, columns: u16, text: &str, role: Role) -> u16 {
        self.styled(x, y, columns, text, self.looks.style(role))
    }

    pub(crate) fn styled(&mut self, x: u16, y: u16, columns: u16, text: &str, style: Style) -> u16 {
        let area = self.buffer.area;
        if y < area.top() || y >= area.bottom() || x >= area.right() {
            return x;
        }
        let columns = columns.min(area.right() - x);
        let shown = self.shown(text, columns);
        let (x, _) = self
            .buffer
            .set_stringn(x, y, shown, usize::from(columns), style);
        x
    }

    /// The same, its end at the last of these columns.
    pub(crate) fn right(&mut self, x: u16, y: u16, columns: u16, text: &str, role: Role) {
        let shown = self.shown(text, columns);
        let from = x + columns - width(&shown).min(columns);
        self.text(from, y, columns, &shown, role);
    }

    /// The heading of a section over the whole width, with a line behind it.
    pub(crate) fn heading(&mut self, area: Rect, heading: &str, beside: &str, focus: bool) {
        let Rect { x, y, width, .. } = area;
        let end = x + width;
        let role = if focus { Role::Accent } else { Role::Strong };
        let mut at = self.text(x, y, width, heading, role);
        if !beside.is_empty() {
            at = self.text(at + 1, y, end.saturating_sub(at + 1), beside, Role::Faint);
        }
        let rule = self.looks.sign("─", "-").repeat(usize::from(width));
        if at + 1 < end {
            let room = end - at - 1;
            let rule: String = rule.chars().take(usize::from(room)).collect();
            self.text(at + 1, y, room, &rule, Role::Faint);
        }
    }

    /// Marks a row as the one that is chosen.
    pub(crate) fn choose(&mut self, area: Rect) {
        let style = Style::new().add_modifier(Modifier::REVERSED);
        self.buffer.set_style(area, style);
    }

    /// Empties an area, with a space to its left and right.
    pub(crate) fn clear(&mut self, area: Rect) {
        let area = self.buffer.area.intersection(area);
        for y in area.top()..area.bottom() {
            for x in area.left()..area.right() {
                self.buffer[(x, y)].reset();
            }
        }
    }
}

/// A text in ASCII: the signs that `tune` itself uses have their like, others a question mark.
fn ascii(text: &str) -> String {
    let of = |c: char| match c {
        c if c.is_ascii() => c,
        '·' | '–' => '-',
        '…' => '~',
        '×' => 'x',
        '°' => ' ',
        '±' => '~',
        _ => '?',
    };
    text.chars().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(unicode: bool, text: &str, columns: u16) -> String {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 40, 1));
        let looks = Looks {
            unicode,
            colour: true,
        };
        Pen::new(&mut buffer, looks).shown(text, columns)
    }

    #[test]
    fn a_text_is_cut_where_its_columns_end() {
        assert_eq!(shown(true, "abcdef", 6), "abcdef");
        assert_eq!(shown(true, "abcdefg", 6), "abcde…");
        assert_eq!(shown(false, "abcdefg", 6), "abcde~");
        // A wide character that would stand half outside is left out.
        assert_eq!(shown(true, "ab漢字", 4), "ab…");
        assert_eq!(shown(true, "ab漢字", 6), "ab漢字");
        assert_eq!(shown(true, "ab", 0), "");
        assert_eq!(shown(false, "Größe 71 °C · ok", 20), "Gr??e 71  C - ok");
    }

    #[test]
    fn what_drives_a_terminal_or_turns_text_round_is_shown_as_text() {
        let hostile = "a\u{1b}[2J\u{202e}b\nc";
        assert_eq!(shown(true, hostile, 40), r"a\u001b[2J\u202eb c");
        let long = "\u{1b}".repeat(10_000);
        assert_eq!(width(&shown(true, &long, 10)), 10);
    }
}
