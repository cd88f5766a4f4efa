//! What the keys do.

use ratatui::layout::Rect;

use crate::looks::Role;
use crate::pen::{Pen, line_at};

const KEYS: [(&str, &str); 13] = [
    (
        "j k, arrows",
        "down, up; PgUp and PgDn by ten, g and G to the ends",
    ),
    (
        "Enter",
        "all about the trial: parameters, curve, attempts, log",
    ),
    ("Esc", "back; drops the filter"),
    ("n p", "on a trial's page: the next, the previous one"),
    ("/", "filter, as you type. Words must all hold:"),
    ("", "  adam        stands in state, reason or parameters"),
    ("", "  optim.lr<1e-4  state=pruned  duration>600"),
    (
        "s S",
        "sort by the next, the previous column; then the best first",
    ),
    ("r", "the other way round"),
    ("t", "the table alone, or all of the page"),
    (
        "Tab",
        "trials, running trials, faults: which list the keys move in",
    ),
    ("Ctrl-Z", "suspend; fg goes on"),
    ("?", "this page"),
];

/// Draws it over the middle of the page.
pub(super) fn draw(pen: &mut Pen<'_>, page: Rect, of_run: bool) {
    let last = match of_run {
        true => [
            ("q", "leave the view; the run goes on"),
            (
                "Ctrl-C",
                "ask the run to stop; again: put its trials back at once",
            ),
        ],
        false => [
            ("q, Ctrl-C", "quit; the run goes on"),
            ("", "This view only reads: it changes nothing."),
        ],
    };
    let lines: Vec<_> = KEYS.iter().chain(&last).collect();
    let wanted = (76, lines.len() as u16 + 2);
    let (width, height) = (wanted.0.min(page.width), wanted.1.min(page.height));
    let area = Rect {
        x: page.x + (page.width - width) / 2,
        y: page.y + (page.height - height) / 2,
        width,
        height,
    };
    pen.clear(area);
    pen.heading(area, "Keys", "", true);
    for (line, (key, what)) in lines.iter().enumerate().take(usize::from(height) - 1) {
        let y = area.y + 1 + line as u16;
        pen.text(area.x + 1, y, 12, key, Role::Accent);
        pen.text(area.x + 14, y, width.saturating_sub(14), what, Role::Plain);
    }
    if height == wanted.1 {
        let end = line_at(area, area.bottom() - 1);
        pen.heading(end, pen.looks.sign("─", "-"), "any key closes", false);
    }
}
