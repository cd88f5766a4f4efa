//! Connected pixels of a map, and their outlines.

use std::ops::Range;

use crate::polygon::{Point, Polygon, distance};

/// So many are looked at, the largest: a network that has learned nothing yet makes thousands of specks.
const MOST: usize = 1000;

/// How far an outline may be from the middles of edges, in pixels: as far as the steps of a slanting line.
const TOLERANCE: f64 = 0.75;

/// Pixels that touch each other, also at their corners.
#[derive(Debug, Clone)]
pub(super) struct Component {
    /// Row and columns of each run of pixels, by rows.
    runs: Vec<(usize, Range<usize>)>,
}

impl Component {
    fn size(&self) -> usize {
        self.runs.iter().map(|(_, columns)| columns.len()).sum()
    }

    /// The smallest convex outline around the middles of its pixels' edges. Around their corners, slanting texts would come
    /// out too large, around their centres too small.
    pub fn hull(&self) -> Polygon {
        let mut middles: Vec<Point> = Vec::new();
        for (row, columns) in &self.runs {
            let [top, left, right] = [*row, columns.start, columns.end].map(|at| at as f64);
            middles.extend([[left, top + 0.5], [right, top + 0.5]]);
            for x in [left + 0.5, right - 0.5] {
                middles.extend([[x, top], [x, top + 1.0]]);
            }
        }
        Polygon::hull(&middles)
    }

    /// The outline of its pixels without holes, from the middle of an edge to the middle of the next one, without the steps
    /// that are left of slanting lines.
    pub fn outline(&self) -> Polygon {
        let mut edges = self.edges();
        simplify(&mut edges);
        Polygon::new(edges)
    }

    /// Whether a pixel belongs to it.
    fn has(&self, column: i64, row: i64) -> bool {
        let (Ok(column), Ok(row)) = (usize::try_from(column), usize::try_from(row)) else {
            return false;
        };
        // Ordered by rows, then columns.
        let after = self
            .runs
            .partition_point(|(r, columns)| (*r, columns.start) <= (row, column));
        let run = after.checked_sub(1).map(|at| &self.runs[at]);
        run.is_some_and(|(r, columns)| *r == row && columns.contains(&column))
    }

    /// The middles of the edges between its pixels and what is outside, clockwise on the screen, from the upper edge of its
    /// first pixel.
    fn edges(&self) -> Vec<Point> {
        let Some((row, columns)) = self.runs.first() else {
            return Vec::new();
        };
        let start = (columns.start as i64, *row as i64);
        // To the right, down, to the left, up; the pixels are on the right.
        let steps = [(1, 0), (0, 1), (-1, 0), (0, -1)];
        // The pixel on the left and the one on the right of what lies ahead of a corner.
        let ahead = [
            [(0, -1), (0, 0)],
            [(0, 0), (-1, 0)],
            [(-1, 0), (-1, -1)],
            [(-1, -1), (0, -1)],
        ];
        let (mut at, mut direction) = (start, 0_usize);
        let mut middles = Vec::new();
        loop {
            let (dx, dy) = steps[direction];
            let middle = |at: i64, step: i64| at as f64 + step as f64 / 2.0;
            middles.push([middle(at.0, dx), middle(at.1, dy)]);
            at = (at.0 + dx, at.1 + dy);
            let pixel = |(x, y): (i64, i64)| self.has(at.0 + x, at.1 + y);
            // Pixels that touch at a corner are connected: to the left wherever there is one.
            direction = match ahead[direction].map(pixel) {
                [true, _] => (direction + 3) % 4,
                [false, true] => direction,
                [false, false] => (direction + 1) % 4,
            };
            if at == start && direction == 0 {
                return middles;
            }
        }
    }
}

/// The connected pixels of a picture for which `inside` holds, by their first pixels.
pub(super) fn components(
    (width, height): (usize, usize),
    inside: impl Fn(usize) -> bool,
) -> Vec<Component> {
    let mut runs: Vec<(usize, Range<usize>)> = Vec::new();
    // Of each run the run that stands for its component: an earlier one, or itself.
    let mut parents: Vec<usize> = Vec::new();
    let mut above = 0..0;
    for row in 0..height {
        let first = runs.len();
        let mut column = 0;
        while column < width {
            if !inside(row * width + column) {
                column += 1;
                continue;
            }
            let start = column;
            while column < width && inside(row * width + column) {
                column += 1;
            }
            let run = runs.len();
            parents.push(run);
            for other in above.clone() {
                let touched = &runs[other].1;
                if touched.start > column {
                    break;
                }
                if start <= touched.end {
                    let (a, b) = (root(&mut parents, other), root(&mut parents, run));
                    parents[a.max(b)] = a.min(b);
                }
            }
            // What ends left of here touches no later run.
            while above.start < above.end && runs[above.start].1.end < column {
                above.start += 1;
            }
            runs.push((row, start..column));
        }
        above = first..runs.len();
    }
    let mut found: Vec<Component> = Vec::new();
    let mut place = vec![usize::MAX; runs.len()];
    for (run, pixels) in runs.into_iter().enumerate() {
        let root = root(&mut parents, run);
        if root == run {
            place[run] = found.len();
            found.push(Component { runs: Vec::new() });
        }
        found[place[root]].runs.push(pixels);
    }
    largest(found)
}

fn root(parents: &mut [usize], mut run: usize) -> usize {
    while parents[run] != run {
        parents[run] = parents[parents[run]];
        run = parents[run];
    }
    run
}

/// The largest of them, in their order.
fn largest(found: Vec<Component>) -> Vec<Component> {
    if found.len() <= MOST {
        return found;
    }
    let mut order: Vec<usize> = (0..found.len()).collect();
    order.sort_by_key(|k| std::cmp::Reverse(found[*k].size()));
    let mut kept = vec![false; found.len()];
    order[..MOST].iter().for_each(|k| kept[*k] = true);
    let found = found.into_iter().zip(kept);
    found
        .filter_map(|(component, kept)| kept.then_some(component))
        .collect()
}

/// Leaves out points of a closed outline that are hardly off the line between others (Douglas and Peucker).
fn simplify(points: &mut Vec<Point>) {
    let Some(first) = points.first().copied() else {
        return;
    };
    // Halves, from the first point to the farthest one and back.
    let far = |a: &Point, b: &Point| distance(first, *a).total_cmp(&distance(first, *b));
    let Some((middle, _)) = points.iter().enumerate().max_by(|a, b| far(a.1, b.1)) else {
        return;
    };
    let count = points.len();
    let mut kept = vec![false; count];
    (kept[0], kept[middle]) = (true, true);
    let mut parts = vec![(0, middle), (middle, count)];
    while let Some((from, to)) = parts.pop() {
        let line = Polygon::new(vec![points[from], points[to % count]]);
        let off = (from + 1..to).map(|k| (k, line.distance(points[k])));
        if let Some((k, off)) = off.max_by(|a, b| a.1.total_cmp(&b.1))
            && off > TOLERANCE
        {
            kept[k] = true;
            parts.extend([(from, k), (k, to)]);
        }
    }
    let mut kept = kept.into_iter();
    points.retain(|_| kept.next() == Some(true));
}
