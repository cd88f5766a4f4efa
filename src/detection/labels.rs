//! What a DB head learns of a page: four maps, made of the outlines of its texts.
//!
//! The inside of each text is shrunk by area (1 - r²) / perimeter, with round corners; the threshold map falls from its
//! largest value on the outline to its smallest at that distance on both sides.

use crate::page::Truth;
use crate::polygon::Polygon;

/// How labels are made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LabelSettings {
    /// r: the nearer to 1, the less is shrunk.
    pub shrink_ratio: f64,
    /// A text whose height or width is smaller, in pixels of the map, counts as ignored.
    pub min_text_size: f64,
    /// The smallest and the largest value of the threshold map.
    pub threshold: [f32; 2],
}

impl Default for LabelSettings {
    fn default() -> LabelSettings {
        LabelSettings {
            shrink_ratio: 0.4,
            min_text_size: 8.0,
            threshold: [0.3, 0.7],
        }
    }
}

/// One of the maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plane {
    /// 1 inside of a shrunk text, else 0.
    Shrunk,
    /// 0 where the shrunk map does not matter: in ignored and too small texts; else 1.
    ShrunkMask,
    /// The threshold: between the two of the settings.
    Threshold,
    /// 1 where the threshold matters: in a text and near it; else 0.
    ThresholdMask,
}

/// The maps of a page.
#[derive(Debug, Clone, PartialEq)]
pub struct Labels {
    /// Columns of each map.
    pub width: usize,
    /// Rows of each map.
    pub height: usize,
    /// The four maps one behind the other in the order of [`Plane`], each row by row: 4 x `height` x `width`.
    pub planes: Vec<f32>,
}

impl Labels {
    /// One of the maps, row by row.
    pub fn plane(&self, plane: Plane) -> &[f32] {
        let size = self.width * self.height;
        &self.planes[plane as usize * size..][..size]
    }
}

/// The labels of a page of this size, in pixels of the map; so are the outlines of the texts.
pub fn labels(
    (width, height): (usize, usize),
    truths: &[Truth],
    settings: &LabelSettings,
) -> Labels {
    let size = width * height;
    let mut planes = vec![0.0; 4 * size];
    let [low, high] = settings.threshold;
    let (of_shrunk, of_threshold) = planes.split_at_mut(2 * size);
    let (shrunk, shrunk_mask) = of_shrunk.split_at_mut(size);
    let (threshold, threshold_mask) = of_threshold.split_at_mut(size);
    shrunk_mask.fill(1.0);
    threshold.fill(low);
    let set = |map: &mut [f32], polygon: &Polygon, value: f32| {
        polygon.fill((width, height), |row, columns| {
            map[row * width..][columns].fill(value);
        });
    };
    for truth in truths {
        let polygon = &truth.polygon;
        let [[left, top], [right, bottom]] = polygon.bounds();
        let too_small = (right - left).min(bottom - top) < settings.min_text_size;
        let by = polygon.label_distance(settings.shrink_ratio);
        let inner = match truth.ignored || too_small {
            true => Vec::new(),
            false => polygon.offset(-by),
        };
        if inner.is_empty() {
            set(shrunk_mask, polygon, 0.0);
            continue;
        }
        inner.iter().for_each(|inner| set(shrunk, inner, 1.0));
        for outer in polygon.offset(by) {
            outer.fill((width, height), |row, columns| {
                for column in columns {
                    let at = row * width + column;
                    let centre = [column as f64 + 0.5, row as f64 + 0.5];
                    let near = (1.0 - polygon.distance(centre) / by).max(0.0) as f32;
                    threshold[at] = threshold[at].max(low + (high - low) * near);
                    threshold_mask[at] = 1.0;
                }
            });
        }
    }
    Labels {
        width,
        height,
        planes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn truth(from: [f64; 2], to: [f64; 2], ignored: bool) -> Truth {
        Truth {
            polygon: Polygon::rectangle(from, to),
            text: String::new(),
            ignored,
        }
    }

    #[test]
    fn a_text_is_shrunk_and_its_outline_is_the_top_of_the_threshold() {
        // Area 800, perimeter 120: 5.6 pixels.
        let found = labels(
            (60, 40),
            &[truth([10.0, 10.0], [50.0, 30.0], false)],
            &LabelSettings::default(),
        );
        let at = |plane: Plane, column: usize, row: usize| found.plane(plane)[row * 60 + column];
        assert_eq!(
            [9, 15, 16, 43, 44].map(|x| at(Plane::Shrunk, x, 20)),
            [0.0, 0.0, 1.0, 1.0, 0.0]
        );
        assert_eq!(
            [3, 4, 5, 54, 55, 56].map(|x| at(Plane::ThresholdMask, x, 20)),
            [0.0, 1.0, 1.0, 1.0, 1.0, 0.0]
        );
        let (outside, inside) = (at(Plane::Threshold, 9, 20), at(Plane::Threshold, 10, 20));
        assert!(
            (outside - (0.7 - 0.4 * 0.5 / 5.6)).abs() < 1e-6 && (outside - inside).abs() < 1e-6
        );
        assert_eq!(
            (at(Plane::Threshold, 30, 20), at(Plane::Threshold, 0, 0)),
            (0.3, 0.3)
        );
        assert!(found.plane(Plane::ShrunkMask).iter().all(|x| *x == 1.0));
        // Its corner is round: nothing of it is farther than the distance.
        assert_eq!(at(Plane::ThresholdMask, 5, 5), 0.0);
    }

    #[test]
    fn ignored_and_small_texts_are_masked() {
        let texts = [
            truth([1.0, 1.0], [30.0, 12.0], true),
            truth([1.0, 20.0], [30.0, 27.9], false),
        ];
        let found = labels((40, 40), &texts, &LabelSettings::default());
        let masked = |row: usize| {
            found.plane(Plane::ShrunkMask)[row * 40..][1..30]
                .iter()
                .all(|x| *x == 0.0)
        };
        assert_eq!(
            [0, 1, 11, 12, 20, 27, 28].map(masked),
            [false, true, true, false, true, true, false]
        );
        assert!(
            found
                .plane(Plane::Shrunk)
                .iter()
                .chain(found.plane(Plane::ThresholdMask))
                .all(|x| *x == 0.0)
        );
    }

    #[test]
    fn where_two_meet_the_larger_threshold_counts() {
        let texts = [
            truth([5.0, 5.0], [45.0, 25.0], false),
            truth([5.0, 27.0], [45.0, 47.0], false),
        ];
        let settings = LabelSettings::default();
        let [one, other, both] =
            [&texts[..1], &texts[1..], &texts].map(|texts| labels((50, 50), texts, &settings));
        let pairs = one
            .plane(Plane::Threshold)
            .iter()
            .zip(other.plane(Plane::Threshold));
        let larger: Vec<f32> = pairs.map(|(a, b)| a.max(*b)).collect();
        assert_eq!(both.plane(Plane::Threshold), larger);
    }

    #[test]
    fn a_page_without_texts_has_labels_too() {
        let found = labels((8, 4), &[], &LabelSettings::default());
        assert_eq!(found.planes.len(), 4 * 32);
        assert!(found.plane(Plane::ShrunkMask).iter().all(|x| *x == 1.0));
    }
}
