//! Lines over time, and sparklines, in characters.

use ratatui::layout::Rect;

use crate::looks::{Looks, Role};
use crate::pen::{Pen, width};
use report::format::value;

/// A line chart: points from left to right, and a level beside them.
pub(crate) struct Chart<'a> {
    /// Places on the horizontal axis, ascending, and values.
    pub(crate) points: &'a [(f64, f64)],
    /// Whether a value holds until the next point, as the best so far does.
    pub(crate) steps: bool,
    /// A level to compare with, and what it is called.
    pub(crate) level: Option<(f64, &'a str)>,
    /// What stands below the left and the right end.
    pub(crate) ends: (&'a str, &'a str),
}

/// A level that is so many times the height of the line away from it is not in the picture.
const FAR: f64 = 3.0;

/// Values of the first so much of the axis do not stretch the picture: searches and trainings begin far from where they go.
const BEGINNING: f64 = 0.05;

impl Chart<'_> {
    /// The lowest and highest value of the picture; `None` where there is nothing to show.
    fn range(&self) -> Option<(f64, f64)> {
        let (first, last) = (self.points.first()?.0, self.points.last()?.0);
        let begin = first + (last - first) * BEGINNING;
        let finite = self.points.iter().filter(|(_, y)| y.is_finite());
        let mut later: Vec<f64> = finite
            .clone()
            .filter(|(x, _)| *x >= begin)
            .map(|(_, y)| *y)
            .collect();
        if self.steps {
            let held = finite.clone().take_while(|(x, _)| *x < begin).last();
            later.extend(held.map(|(_, y)| *y));
        }
        let low = later.iter().copied().reduce(f64::min)?;
        let high = later.iter().copied().reduce(f64::max)?;
        let (mut low, mut high) = (low, high);
        if let Some((level, _)) = self.level {
            let height = (high - low).max(0.1 * high.abs()).max(1e-12);
            if level.is_finite() && level > low - FAR * height && level < high + FAR * height {
                low = low.min(level);
                high = high.max(level);
            }
        }
        match high > low {
            true => Some((low, high)),
            false => Some((
                low - 0.5 * low.abs().max(1e-9),
                high + 0.5 * high.abs().max(1e-9),
            )),
        }
    }

    /// Draws it: labels to the left, the ends below.
    pub(crate) fn draw(&self, pen: &mut Pen<'_>, area: Rect) {
        let Some((low, high)) = self.range().filter(|_| area.height >= 3) else {
            pen.text(
                area.x,
                area.y,
                area.width,
                "nothing to show yet",
                Role::Faint,
            );
            return;
        };
        let labels = [value(high), value(low)];
        let gutter = labels.iter().map(|l| width(l)).max().unwrap_or(0) + 1;
        if area.width < gutter + 10 {
            return;
        }
        let plot = Rect {
            x: area.x + gutter,
            y: area.y,
            width: area.width - gutter,
            height: area.height - 1,
        };
        pen.right(area.x, plot.y, gutter - 1, &labels[0], Role::Faint);
        let bottom = plot.y + plot.height - 1;
        if bottom > plot.y {
            pen.right(area.x, bottom, gutter - 1, &labels[1], Role::Faint);
        }
        let scale = Scale::new(self, plot, (low, high), pen.looks);
        if let Some((level, what)) = self.level {
            self.draw_level(pen, plot, &scale, level, what, (gutter, [plot.y, bottom]));
        }
        self.draw_line(pen, plot, &scale);
        let half = plot.width / 2;
        pen.text(plot.x, bottom + 1, half, self.ends.0, Role::Faint);
        pen.right(
            plot.x + half,
            bottom + 1,
            plot.width - half,
            self.ends.1,
            Role::Faint,
        );
    }

    fn draw_level(
        &self,
        pen: &mut Pen<'_>,
        plot: Rect,
        scale: &Scale,
        level: f64,
        what: &str,
        (gutter, labelled): (u16, [u16; 2]),
    ) {
        let Some(row) = scale.row(level) else {
            return;
        };
        let y = plot.y + row;
        let rule = pen.looks.sign("╌", "-").repeat(usize::from(plot.width));
        pen.text(plot.x, y, plot.width, &rule, Role::Warning);
        if !labelled.contains(&y) {
            let left = plot.x - gutter;
            pen.right(left, y, gutter - 1, &value(level), Role::Warning);
        }
        let what = format!(" {what} ");
        let columns = width(&what);
        if columns + 4 < plot.width {
            pen.text(
                plot.x + plot.width - columns - 2,
                y,
                columns,
                &what,
                Role::Warning,
            );
        }
    }

    fn draw_line(&self, pen: &mut Pen<'_>, plot: Rect, scale: &Scale) {
        let cells = scale.cells(self);
        for (row, line) in cells.iter().enumerate() {
            for (column, sign) in line.iter().enumerate() {
                let Some(sign) = sign else { continue };
                let at = (plot.x + column as u16, plot.y + row as u16);
                pen.text(at.0, at.1, 1, sign.encode_utf8(&mut [0; 4]), Role::Accent);
            }
        }
    }
}

/// Where values stand in a plot: in dots of 2 by 4 to a character, or of 1 by 1 in ASCII.
struct Scale {
    columns: usize,
    rows: usize,
    per_cell: (usize, usize),
    x: (f64, f64),
    y: (f64, f64),
}

impl Scale {
    fn new(chart: &Chart<'_>, plot: Rect, y: (f64, f64), looks: Looks) -> Scale {
        let first = chart.points.first().map_or(0.0, |p| p.0);
        let last = chart.points.last().map_or(1.0, |p| p.0);
        Scale {
            columns: usize::from(plot.width),
            rows: usize::from(plot.height),
            per_cell: if looks.unicode { (2, 4) } else { (1, 1) },
            x: (first, if last > first { last } else { first + 1.0 }),
            y,
        }
    }

    /// The dot, counted from the top, of a value; at the edge where it is outside.
    fn dot(&self, y: f64) -> usize {
        let dots = self.rows * self.per_cell.1;
        let share = (self.y.1 - y) / (self.y.1 - self.y.0);
        (share.clamp(0.0, 1.0) * (dots - 1) as f64).round() as usize
    }

    /// The row of a level; `None` where it is outside.
    fn row(&self, y: f64) -> Option<u16> {
        let inside = y >= self.y.0 && y <= self.y.1;
        inside.then(|| (self.dot(y) / self.per_cell.1) as u16)
    }

    /// The characters of the line, row by row.
    fn cells(&self, chart: &Chart<'_>) -> Vec<Vec<Option<char>>> {
        let wide = self.columns * self.per_cell.0;
        let mut dots = vec![vec![0_u8; self.columns]; self.rows];
        let mut set = |column: usize, dot: usize| {
            let (row, below) = (dot / self.per_cell.1, dot % self.per_cell.1);
            let (cell, beside) = (column / self.per_cell.0, column % self.per_cell.0);
            dots[row][cell] |= BRAILLE[below][beside];
        };
        let mut before: Option<usize> = None;
        for column in 0..wide {
            let at = self.x.0 + (self.x.1 - self.x.0) * column as f64 / (wide - 1).max(1) as f64;
            let Some(y) = value_at(chart, at) else {
                before = None;
                continue;
            };
            let dot = self.dot(y);
            let from = before.unwrap_or(dot);
            for between in from.min(dot)..=from.max(dot) {
                set(column, between);
            }
            before = Some(dot);
        }
        let ascii = self.per_cell == (1, 1);
        let sign = |bits: u8| match (bits, ascii) {
            (0, _) => None,
            (_, true) => Some('*'),
            (bits, false) => char::from_u32(0x2800 + u32::from(bits)),
        };
        dots.into_iter()
            .map(|row| row.into_iter().map(sign).collect())
            .collect()
    }
}

/// The bits of Unicode's Braille patterns, by row and column of a character.
const BRAILLE: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];

/// The value of the line at a place.
fn value_at(chart: &Chart<'_>, x: f64) -> Option<f64> {
    let next = chart.points.partition_point(|point| point.0 <= x);
    let (x0, y0) = *chart.points.get(next.checked_sub(1)?)?;
    let after = chart.points.get(next).filter(|_| !chart.steps);
    let y = match after {
        Some((x1, y1)) => y0 + (y1 - y0) * (x - x0) / (x1 - x0),
        None => y0,
    };
    y.is_finite().then_some(y)
}

/// Values as one line of characters of different heights, at most so many.
pub(crate) fn sparkline(values: &[f64], columns: usize, looks: Looks) -> String {
    const UNICODE: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    const ASCII: [char; 8] = ['_', '.', ':', '-', '=', '+', '*', '#'];
    let signs = if looks.unicode { UNICODE } else { ASCII };
    let shown = values.len().min(columns);
    // Of many values each character shows the last one of its part.
    let picked: Vec<f64> = (1..=shown)
        .filter_map(|i| values.get(i * values.len() / shown - 1).copied())
        .collect();
    let finite = || picked.iter().copied().filter(|v| v.is_finite());
    let (Some(low), Some(high)) = (finite().reduce(f64::min), finite().reduce(f64::max)) else {
        return String::new();
    };
    let sign = |v: &f64| match (v.is_finite(), high > low) {
        (false, _) => '!',
        (true, false) => signs[3],
        (true, true) => signs[((v - low) / (high - low) * 7.0).round() as usize],
    };
    picked.iter().map(sign).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::buffer::Buffer;

    const PLAIN: Looks = Looks {
        unicode: false,
        colour: false,
    };
    const FINE: Looks = Looks {
        unicode: true,
        colour: true,
    };

    fn drawn(chart: &Chart<'_>, looks: Looks, (width, height): (u16, u16)) -> Vec<String> {
        let area = Rect::new(0, 0, width, height);
        let mut buffer = Buffer::empty(area);
        chart.draw(&mut Pen::new(&mut buffer, looks), area);
        (0..height)
            .map(|y| {
                let cells = (0..width).map(|x| buffer[(x, y)].symbol());
                cells.collect::<String>().trim_end().to_owned()
            })
            .collect()
    }

    #[test]
    fn the_best_so_far_is_a_staircase_beside_the_trivial_answer() {
        let points = [(0.0, 0.5), (10.0, 0.7), (20.0, 0.8), (30.0, 0.8)];
        let chart = Chart {
            points: &points,
            steps: true,
            level: Some((0.4, "trivial")),
            ends: ("start", "now"),
        };
        assert_eq!(
            drawn(&chart, PLAIN, (34, 6)),
            [
                "0.8                     **********",
                "              ***********",
                "              *",
                "    ***********",
                "0.4 ------------------- trivial --",
                "    start                      now",
            ]
        );
        let fine = drawn(&chart, FINE, (34, 6)).join("\n");
        assert!(
            fine.contains('⠉') && fine.contains("╌╌ trivial ╌╌"),
            "{fine}"
        );
    }

    #[test]
    fn what_is_far_away_does_not_flatten_the_line() {
        let points = [(0.0, 1e9), (1.0, 0.3), (50.0, 0.2), (100.0, 0.1)];
        let chart = |level| Chart {
            points: &points,
            steps: true,
            level,
            ends: ("", ""),
        };
        assert_eq!(chart(Some((7e5, "trivial"))).range(), Some((0.1, 0.3)));
        assert_eq!(chart(Some((0.4, "trivial"))).range(), Some((0.1, 0.4)));
        assert_eq!(chart(None).range(), Some((0.1, 0.3)));
    }

    #[test]
    fn nothing_and_a_single_value_can_be_drawn() {
        let chart = |points| Chart {
            points,
            steps: false,
            level: None,
            ends: ("", ""),
        };
        assert_eq!(drawn(&chart(&[]), PLAIN, (30, 4))[0], "nothing to show yet");
        let one = drawn(&chart(&[(3.0, 0.25)]), PLAIN, (30, 4));
        assert!(one.join("").contains('*'), "{one:?}");
        let nan = [(0.0, f64::NAN), (1.0, f64::INFINITY)];
        assert_eq!(
            drawn(&chart(&nan), PLAIN, (30, 4))[0],
            "nothing to show yet"
        );
    }

    #[test]
    fn a_sparkline_has_a_character_a_value_and_shrinks() {
        assert_eq!(sparkline(&[0.0, 0.5, 1.0], 10, FINE), "▁▅█");
        assert_eq!(sparkline(&[0.0, 0.5, 1.0], 10, PLAIN), "_=#");
        assert_eq!(sparkline(&[1.0, 1.0], 10, PLAIN), "--");
        assert_eq!(sparkline(&[0.0, f64::NAN, 1.0], 9, PLAIN), "_!#");
        let many: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(sparkline(&many, 8, FINE), "▁▂▃▄▅▆▇█");
        assert_eq!(sparkline(&[], 8, FINE), "");
        assert_eq!(sparkline(&[1.0], 0, FINE), "");
    }
}
