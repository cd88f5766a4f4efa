//! From the map of probabilities that a network gives for a page to the outlines of its texts.
//!
//! Where the map exceeds a threshold, connected pixels are a candidate. Its rectangle or outline is kept if the
//! probability inside is high enough on average, and grown by area x unclip / perimeter, for the network has learned
//! shrunk texts.

mod components;

use std::cell::RefCell;
use std::collections::BTreeMap;

use strum::{EnumString, IntoStaticStr};

use crate::metric::{Counts, Overlap, overlap};
use crate::page::Truth;
use crate::polygon::Polygon;
use components::components;

/// What a text is given as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, EnumString, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Shape {
    /// The smallest rectangle, in any direction: four points.
    Quad,
    /// The outline itself.
    Polygon,
}

impl Shape {
    /// The word in configurations.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The shape of this name.
    pub fn named(name: &str) -> Option<Shape> {
        name.parse().ok()
    }
}

/// How outlines are made of a map.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PostSettings {
    /// A pixel with a larger probability belongs to a text.
    pub threshold: f32,
    /// The mean probability inside that a text has at least.
    pub box_threshold: f32,
    /// By how much texts are grown: 0 leaves them as they are.
    pub unclip: f64,
    /// The shortest side of a text's rectangle before it is grown, at least, in pixels of the map.
    pub min_side: f64,
    /// What they are given as.
    pub shape: Shape,
}

impl Default for PostSettings {
    fn default() -> PostSettings {
        PostSettings {
            threshold: 0.3,
            box_threshold: 0.6,
            unclip: 1.5,
            min_side: 3.0,
            shape: Shape::Quad,
        }
    }
}

/// Probabilities that pixels belong to a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Map {
    width: usize,
    height: usize,
    values: Vec<f32>,
}

impl Map {
    /// Of a picture of this width and height, row by row. What is missing is 0.
    pub fn new((width, height): (usize, usize), mut values: Vec<f32>) -> Map {
        values.resize(width * height, 0.0);
        Map {
            width,
            height,
            values,
        }
    }

    /// The same without what it has right of and below a picture that does not fill it: there is no text.
    #[must_use]
    pub fn within(mut self, (width, height): (usize, usize)) -> Map {
        for (row, values) in self.values.chunks_mut(self.width.max(1)).enumerate() {
            let from = if row < height {
                width.min(values.len())
            } else {
                0
            };
            values[from..].fill(0.0);
        }
        self
    }

    /// Its width and height.
    pub fn size(&self) -> (usize, usize) {
        (self.width, self.height)
    }

    /// The mean inside of an outline; `None` where that contains no pixel's centre.
    fn mean(&self, polygon: &Polygon) -> Option<f32> {
        let (mut sum, mut count) = (0.0, 0);
        polygon.fill((self.width, self.height), |row, columns| {
            let values = &self.values[row * self.width..][columns];
            sum += values.iter().map(|value| f64::from(*value)).sum::<f64>();
            count += values.len();
        });
        (count > 0).then(|| (sum / count as f64) as f32)
    }
}

/// A text that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Detection {
    /// Its outline, in pixels of the map.
    pub polygon: Polygon,
    /// The mean probability inside, before it was grown: 0 to 1.
    pub score: f32,
}

/// Connected pixels above a threshold.
#[derive(Debug, Clone)]
struct Candidate {
    outline: Polygon,
    score: f32,
    shortest_side: f64,
}

impl Candidate {
    fn passes(&self, settings: &PostSettings) -> bool {
        self.score >= settings.box_threshold && self.shortest_side >= settings.min_side
    }

    /// Its outline, grown; `None` where nothing is left.
    fn grown(&self, unclip: f64, shape: Shape) -> Option<Polygon> {
        let perimeter = self.outline.perimeter();
        let by = self.outline.area() * unclip / perimeter;
        match shape {
            Shape::Quad => Some(grown_rectangle(&self.outline, by)),
            Shape::Polygon => {
                let grown = self.outline.offset(by).into_iter();
                grown.max_by(|a, b| a.area().total_cmp(&b.area()))
            }
        }
    }
}

/// A rectangle with each side moved outwards.
fn grown_rectangle(rectangle: &Polygon, by: f64) -> Polygon {
    let corners = rectangle.points();
    let count = corners.len();
    let grown = (0..count).map(|k| {
        let [before, here, after] =
            [(k + count - 1) % count, k, (k + 1) % count].map(|k| corners[k]);
        // Away from each of the two neighbours.
        let mut moved = here;
        for other in [before, after] {
            let length = crate::polygon::distance(here, other);
            for axis in 0..2 {
                moved[axis] += by * (here[axis] - other[axis]) / length;
            }
        }
        moved
    });
    Polygon::new(grown.collect())
}

/// The candidates of a map, in the order of their first pixels.
fn candidates(map: &Map, threshold: f32, shape: Shape) -> Vec<Candidate> {
    let of = |component: components::Component| {
        let rectangle = component.hull().smallest_rectangle();
        let shortest_side = rectangle.shortest_side();
        let outline = match shape {
            Shape::Quad => rectangle,
            Shape::Polygon => component.outline(),
        };
        let score = map.mean(&outline).unwrap_or(0.0);
        Candidate {
            outline,
            score,
            shortest_side,
        }
    };
    let found = components(map.size(), |at| map.values[at] > threshold);
    found.into_iter().map(of).collect()
}

/// The texts that a map shows, from top to bottom.
pub fn detections(map: &Map, settings: &PostSettings) -> Vec<Detection> {
    let found = candidates(map, settings.threshold, settings.shape).into_iter();
    let found = found.filter(|candidate| candidate.passes(settings));
    found
        .filter_map(|candidate| {
            Some(Detection {
                polygon: candidate.grown(settings.unclip, settings.shape)?,
                score: candidate.score,
            })
        })
        .collect()
}

/// Counts a page's detections with one setting after the other. What settings have in common is computed once:
/// candidates for each threshold, their overlaps with the texts for each unclip ratio.
pub struct PageScorer {
    map: Map,
    truths: Vec<Truth>,
    known: RefCell<BTreeMap<(u32, Shape), Known>>,
}

struct Known {
    candidates: Vec<Candidate>,
    /// Of each candidate what it has to do with the texts, once it is grown, by the unclip ratio's bits.
    overlaps: BTreeMap<u64, Vec<Option<Overlap>>>,
}

impl PageScorer {
    /// Of a map and the texts of its page, in pixels of the map.
    pub fn new(map: Map, truths: Vec<Truth>) -> PageScorer {
        PageScorer {
            map,
            truths,
            known: RefCell::default(),
        }
    }

    /// The counts with these settings: those of [`detections`].
    pub fn counts(&self, settings: &PostSettings) -> Counts {
        let (threshold, shape) = (settings.threshold, settings.shape);
        let mut known = self.known.borrow_mut();
        let known = known
            .entry((threshold.to_bits(), shape))
            .or_insert_with(|| Known {
                candidates: candidates(&self.map, threshold, shape),
                overlaps: BTreeMap::new(),
            });
        let count = known.candidates.len();
        let overlaps = known.overlaps.entry(settings.unclip.to_bits());
        let overlaps = overlaps.or_insert_with(|| vec![None; count]);
        let mut found = Vec::new();
        for (candidate, known) in known.candidates.iter().zip(overlaps) {
            if !candidate.passes(settings) {
                continue;
            }
            if known.is_none() {
                let grown = candidate.grown(settings.unclip, shape);
                *known = grown.map(|grown| overlap(&grown, &self.truths));
            }
            found.extend(known.as_ref());
        }
        Counts::of(&self.truths, found)
    }
}

#[cfg(test)]
mod tests;
