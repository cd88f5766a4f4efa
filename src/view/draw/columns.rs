//! Which columns of a list fit.

use crate::pen::width;

/// Spaces between two columns.
pub(super) const BETWEEN: u16 = 2;

/// The widest that a column gets while others have to be left out.
const WIDEST: u16 = 24;

/// How wide a column is; `None` where nothing stands in it.
pub(super) fn width_of(rows: &[Vec<String>], column: usize, heading: &str) -> Option<u16> {
    let cells = rows.iter().filter_map(|row| row.get(column));
    let widest = cells.map(|cell| width(cell)).max().unwrap_or(0);
    (widest > 0).then(|| widest.max(width(heading)))
}

/// Those of the columns that fit beside each other: those that are kept first, then one after the other. And the room that
/// is left.
pub(super) fn fit(
    widths: &[Option<u16>],
    kept: impl Fn(usize) -> bool,
    room: u16,
) -> (Vec<Option<u16>>, u16) {
    let of = |i: usize| widths[i].map(|width| width.min(WIDEST));
    let all_kept = (0..widths.len()).filter(|i| kept(*i)).filter_map(of);
    let mut left = all_kept.fold(room, |left, width| left.saturating_sub(width + BETWEEN));
    let mut fitting = Vec::new();
    for i in 0..widths.len() {
        let width = of(i).filter(|width| kept(i) || width + BETWEEN <= left);
        left -= width.filter(|_| !kept(i)).map_or(0, |w| w + BETWEEN);
        fitting.push(width);
    }
    (fitting, left)
}
