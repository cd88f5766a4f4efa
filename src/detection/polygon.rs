//! Outlines in a picture, and what is computed of them.
//!
//! Coordinates are in pixels, x to the right and y down. The pixel in column `i` and row `j` is the square from `(i, j)` to
//! `(i + 1, j + 1)`, so that scaling a picture by `s` scales every coordinate by `s`.

use i_overlay::core::fill_rule::FillRule;
use i_overlay::core::overlay_rule::OverlayRule;
use i_overlay::float::single::SingleFloatOverlay;
use i_overlay::mesh::float::outline::offset::OutlineOffset;
use i_overlay::mesh::float::style::{LineJoin, OutlineStyle};

/// A place in a picture: x and y in pixels.
pub type Point = [f64; 2];

/// A closed outline; the last point is joined to the first. Where it crosses itself, what it winds around is inside.
#[derive(Debug, Clone, PartialEq)]
pub struct Polygon(Vec<Point>);

/// Round joins are made of segments no longer than this share of their radius: they are at most 0.3 % of it too flat.
const ROUNDNESS: f64 = 0.15;

impl Polygon {
    /// Of these points, in either direction.
    pub fn new(points: Vec<Point>) -> Polygon {
        Polygon(points)
    }

    /// A rectangle with its sides along the picture's.
    pub fn rectangle([x0, y0]: Point, [x1, y1]: Point) -> Polygon {
        Polygon(vec![[x0, y0], [x1, y0], [x1, y1], [x0, y1]])
    }

    /// Its points, in order.
    pub fn points(&self) -> &[Point] {
        &self.0
    }

    /// With each point moved by `to`.
    pub fn mapped(&self, to: impl Fn(Point) -> Point) -> Polygon {
        Polygon(self.0.iter().map(|point| to(*point)).collect())
    }

    /// In a picture that is so many times as wide and as high.
    pub fn scaled(&self, [x, y]: [f64; 2]) -> Polygon {
        self.mapped(|point| [point[0] * x, point[1] * y])
    }

    /// Its sides, each from one point to the next.
    pub fn sides(&self) -> impl Iterator<Item = [Point; 2]> {
        let next = self.0.iter().cycle().skip(1);
        self.0.iter().zip(next).map(|(from, to)| [*from, *to])
    }

    /// The area, negative where the points go round against the clock on the screen.
    fn signed_area(&self) -> f64 {
        let cross = |[a, b]: [Point; 2]| a[0] * b[1] - b[0] * a[1];
        self.sides().map(cross).sum::<f64>() / 2.0
    }

    /// The area of an outline that does not cross itself, in square pixels.
    pub fn area(&self) -> f64 {
        self.signed_area().abs()
    }

    /// The length of all sides.
    pub fn perimeter(&self) -> f64 {
        self.sides().map(|[a, b]| distance(a, b)).sum()
    }

    /// The smallest and the largest coordinates.
    pub fn bounds(&self) -> [Point; 2] {
        let start = [[f64::INFINITY; 2], [f64::NEG_INFINITY; 2]];
        self.0.iter().fold(start, |[low, high], p| {
            [
                [low[0].min(p[0]), low[1].min(p[1])],
                [high[0].max(p[0]), high[1].max(p[1])],
            ]
        })
    }

    /// The outlines of everything that is at most so far from the inside or, with a negative distance, at least so far from
    /// the outside. Corners become round; there may be several outlines, or none. Holes are left out.
    pub fn offset(&self, by: f64) -> Vec<Polygon> {
        let mut points = self.0.clone();
        // What is outside is on the right of each side.
        if self.signed_area() < 0.0 {
            points.reverse();
        }
        let style = OutlineStyle::new(by).line_join(LineJoin::Round(ROUNDNESS));
        outer(points.outline(&style))
    }

    /// The outlines of what is inside of both.
    pub fn intersection(&self, other: &Polygon) -> Vec<Polygon> {
        outer(
            self.0
                .overlay(&other.0, OverlayRule::Intersect, FillRule::NonZero),
        )
    }

    /// The area that both have in common.
    pub fn common_area(&self, other: &Polygon) -> f64 {
        let [[a, b], [c, d]] = [self.bounds(), other.bounds()];
        let apart = |k: usize| a[k] >= d[k] || c[k] >= b[k];
        if apart(0) || apart(1) {
            return 0.0;
        }
        self.intersection(other).iter().map(Polygon::area).sum()
    }

    /// The distance of a place to the nearest side.
    pub fn distance(&self, place: Point) -> f64 {
        let squared = |[a, b]: [Point; 2]| {
            let along = [b[0] - a[0], b[1] - a[1]];
            let to = [place[0] - a[0], place[1] - a[1]];
            let length = along[0] * along[0] + along[1] * along[1];
            let at = match length > 0.0 {
                true => ((to[0] * along[0] + to[1] * along[1]) / length).clamp(0.0, 1.0),
                false => 0.0,
            };
            let [x, y] = [to[0] - along[0] * at, to[1] - along[1] * at];
            x * x + y * y
        };
        self.sides()
            .map(squared)
            .fold(f64::INFINITY, f64::min)
            .sqrt()
    }

    /// Calls `each` with the row and the columns of the pixels whose centres are inside, in a picture of this size.
    pub fn fill(
        &self,
        (width, height): (usize, usize),
        mut each: impl FnMut(usize, std::ops::Range<usize>),
    ) {
        let [[_, top], [_, bottom]] = self.bounds();
        // The number of the first pixel whose centre is not before this.
        let first = |at: f64, most: usize| ((at - 0.5).ceil().max(0.0) as usize).min(most);
        let mut crossings: Vec<(f64, i32)> = Vec::new();
        for row in first(top, height)..first(bottom, height) {
            let y = row as f64 + 0.5;
            crossings.clear();
            for [a, b] in self.sides() {
                if (a[1] <= y) != (b[1] <= y) {
                    let x = a[0] + (y - a[1]) / (b[1] - a[1]) * (b[0] - a[0]);
                    crossings.push((x, if a[1] < b[1] { 1 } else { -1 }));
                }
            }
            crossings.sort_by(|a, b| a.0.total_cmp(&b.0));
            let mut winding = 0;
            for pair in crossings.windows(2) {
                winding += pair[0].1;
                let columns = first(pair[0].0, width)..first(pair[1].0, width);
                if winding != 0 && !columns.is_empty() {
                    each(row, columns);
                }
            }
        }
    }

    /// The smallest convex outline around points.
    pub fn hull(points: &[Point]) -> Polygon {
        let mut sorted = points.to_vec();
        sorted.sort_by(|a, b| a[0].total_cmp(&b[0]).then(a[1].total_cmp(&b[1])));
        sorted.dedup();
        let turn = |a: Point, b: Point, c: Point| {
            (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
        };
        let half = |points: &mut dyn Iterator<Item = &Point>| {
            let mut chain: Vec<Point> = Vec::new();
            for point in points {
                while let [.., a, b] = chain[..]
                    && turn(a, b, *point) <= 0.0
                {
                    chain.pop();
                }
                chain.push(*point);
            }
            chain.pop();
            chain
        };
        let mut hull = half(&mut sorted.iter());
        hull.extend(half(&mut sorted.iter().rev()));
        match hull.is_empty() {
            true => Polygon(sorted),
            false => Polygon(hull),
        }
    }

    /// The smallest rectangle around it, in any direction. Its first point is the one that is nearest to the upper left.
    pub fn smallest_rectangle(&self) -> Polygon {
        let hull = Polygon::hull(&self.0);
        // A side of the smallest rectangle lies on a side of the hull.
        let along = |[a, b]: [Point; 2]| {
            let length = distance(a, b);
            let u = match length > 0.0 {
                true => [(b[0] - a[0]) / length, (b[1] - a[1]) / length],
                false => [1.0, 0.0],
            };
            let turned = hull.mapped(|p| [p[0] * u[0] + p[1] * u[1], p[1] * u[0] - p[0] * u[1]]);
            let [low, high] = turned.bounds();
            let area = (high[0] - low[0]) * (high[1] - low[1]);
            let back = |p: Point| [p[0] * u[0] - p[1] * u[1], p[0] * u[1] + p[1] * u[0]];
            (area, Polygon::rectangle(low, high).mapped(back))
        };
        let smallest = hull.sides().map(along).min_by(|a, b| a.0.total_cmp(&b.0));
        let Some((_, Polygon(mut corners))) = smallest else {
            return hull;
        };
        let sum = |p: &Point| p[0] + p[1];
        let first =
            (0..corners.len()).min_by(|a, b| sum(&corners[*a]).total_cmp(&sum(&corners[*b])));
        corners.rotate_left(first.unwrap_or(0));
        Polygon(corners)
    }

    /// The length of its shortest side; 0 without any.
    pub fn shortest_side(&self) -> f64 {
        let shortest = self
            .sides()
            .map(|[a, b]| distance(a, b))
            .min_by(f64::total_cmp);
        shortest.unwrap_or(0.0)
    }

    /// How far from it the outline of a DB head's label is, inside, and that of its threshold map, inside and outside:
    /// area (1 - ratio²) / perimeter.
    pub fn label_distance(&self, ratio: f64) -> f64 {
        match self.perimeter() {
            0.0 => 0.0,
            perimeter => self.area() * (1.0 - ratio * ratio) / perimeter,
        }
    }
}

/// The first outline of each shape: the others are its holes.
fn outer(shapes: Vec<Vec<Vec<Point>>>) -> Vec<Polygon> {
    let shapes = shapes.into_iter();
    shapes
        .filter_map(|contours| contours.into_iter().next().map(Polygon))
        .collect()
}

/// How far two places are from each other.
pub fn distance(a: Point, b: Point) -> f64 {
    (a[0] - b[0]).hypot(a[1] - b[1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A tilted rectangle, given by its centre, half its sides and its angle.
    fn tilted([x, y]: Point, [a, b]: [f64; 2], angle: f64) -> Polygon {
        let (sin, cos) = angle.sin_cos();
        let turn = |p: Point| [x + p[0] * cos - p[1] * sin, y + p[0] * sin + p[1] * cos];
        Polygon::rectangle([-a, -b], [a, b]).mapped(turn)
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6 * (1.0 + a.abs().max(b.abs()))
    }

    #[test]
    fn rectangles_are_measured() {
        let rectangle = Polygon::rectangle([1.0, 2.0], [5.0, 4.0]);
        assert_eq!((rectangle.area(), rectangle.perimeter()), (8.0, 12.0));
        assert_eq!(rectangle.bounds(), [[1.0, 2.0], [5.0, 4.0]]);
        assert_eq!(rectangle.distance([3.0, 2.5]), 0.5);
        assert_eq!(rectangle.distance([8.0, 8.0]), 5.0);
        assert_eq!(rectangle.label_distance(0.5), 0.5);
    }

    #[test]
    fn growing_rounds_corners_and_shrinking_keeps_them() {
        for points in [
            [[0.0, 0.0], [10.0, 0.0], [10.0, 6.0], [0.0, 6.0]],
            [[0.0, 0.0], [0.0, 6.0], [10.0, 6.0], [10.0, 0.0]],
        ] {
            let rectangle = Polygon::new(points.to_vec());
            let [grown] = &rectangle.offset(2.0)[..] else {
                panic!()
            };
            let right = 60.0 + 2.0 * 32.0 + std::f64::consts::PI * 4.0;
            assert!((grown.area() - right).abs() < 0.05, "{}", grown.area());
            let [shrunk] = &rectangle.offset(-2.0)[..] else {
                panic!()
            };
            assert!(near(shrunk.area(), 12.0));
            assert!(rectangle.offset(-3.5).is_empty());
        }
    }

    #[test]
    fn a_waist_is_cut_by_shrinking() {
        let hourglass = [
            [0.0, 0.0],
            [9.0, 0.0],
            [5.0, 5.0],
            [9.0, 10.0],
            [0.0, 10.0],
            [4.0, 5.0],
        ];
        assert_eq!(Polygon::new(hourglass.to_vec()).offset(-1.0).len(), 2);
    }

    #[test]
    fn pixels_are_filled_whose_centres_are_inside() {
        let filled = |polygon: &Polygon| {
            let mut pixels = Vec::new();
            polygon.fill((4, 3), |row, columns| {
                pixels.extend(columns.map(|c| (row, c)))
            });
            pixels
        };
        assert_eq!(
            filled(&Polygon::rectangle([1.0, 1.0], [3.0, 2.0])),
            [(1, 1), (1, 2)]
        );
        assert_eq!(
            filled(&Polygon::rectangle([0.6, -9.0], [9.0, 0.9])),
            [(0, 1), (0, 2), (0, 3)]
        );
        assert!(filled(&Polygon::rectangle([0.6, 0.6], [1.4, 1.4])).is_empty());
        // A bow tie: both halves are inside.
        let crossed = Polygon::new(vec![[0.0, 0.0], [4.0, 3.0], [4.0, 0.0], [0.0, 3.0]]);
        assert_eq!(
            filled(&crossed),
            [
                (0, 0),
                (0, 3),
                (1, 0),
                (1, 1),
                (1, 2),
                (1, 3),
                (2, 0),
                (2, 3)
            ]
        );
    }

    proptest! {
        #[test]
        fn the_smallest_rectangle_of_one_is_itself(
            x in 0.0..100.0, y in 0.0..100.0, a in 2.0..40.0, b in 1.0..20.0, angle in -3.0..3.0,
        ) {
            let own = tilted([x, y], [a, b], angle);
            let found = own.smallest_rectangle();
            prop_assert!(near(found.area(), own.area()) && near(found.common_area(&own), own.area()));
            prop_assert!((found.shortest_side() - 2.0 * f64::min(a, b)).abs() < 1e-6);
        }

        #[test]
        fn what_two_have_in_common_is_counted_in_pixels(
            x in 20.0..40.0, y in 20.0..40.0, a in 5.0..20.0, b in 5.0..20.0, angle in -3.0..3.0,
        ) {
            let (one, other) = (tilted([x, y], [a, b], angle), Polygon::rectangle([10.0, 15.0], [50.0, 40.0]));
            let mut pixels = 0;
            // Each pixel in 8 by 8 parts.
            let [one_fine, other_fine] = [&one, &other].map(|polygon| polygon.scaled([8.0, 8.0]));
            let mut inside = vec![false; 640 * 640];
            one_fine.fill((640, 640), |row, columns| inside[row * 640..][columns].fill(true));
            other_fine.fill((640, 640), |row, columns| pixels += inside[row * 640..][columns].iter().filter(|x| **x).count());
            let counted = pixels as f64 / 64.0;
            prop_assert!((one.common_area(&other) - counted).abs() < 0.02 * counted + 1.0);
        }
    }
}
