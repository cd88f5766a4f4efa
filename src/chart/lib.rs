//! Charts as SVG, from data to text. A [`Chart`] is two axes and layers of marks in the data's own
//! units; [`Chart::svg`] lays it out. It needs no font: widths of texts are estimated. Names come
//! from outside and are escaped here, once, for all charts.

mod scale;
mod svg;
#[cfg(test)]
mod tests;
mod text;
mod theme;

pub use scale::{Scale, Tick};
pub use text::{escaped, shortened};
pub use theme::{Theme, css};

/// What is drawn, in the data's units.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// Unique in a page: letters, digits and dashes. Title and description are found by it.
    pub id: String,
    /// For screen readers, and where the pointer rests.
    pub title: String,
    /// What there is to see, in a sentence or two, for who does not see it.
    pub description: String,
    /// From left to right.
    pub x: Axis,
    /// From bottom to top; categories from top to bottom.
    pub y: Axis,
    /// From back to front.
    pub layers: Vec<Layer>,
}

/// An axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// What is measured, with its unit; may be empty.
    pub label: String,
    /// Its scale.
    pub scale: Scale,
}

impl Axis {
    /// An axis of this scale.
    pub fn new(label: impl Into<String>, scale: Scale) -> Axis {
        Axis {
            label: label.into(),
            scale,
        }
    }
}

/// Marks of one colour.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// Its words in the legend; `None`: it is not in there.
    pub name: Option<String>,
    /// Its colour.
    pub ink: Ink,
    /// What is drawn.
    pub mark: Mark,
}

impl Layer {
    /// A layer with words in the legend; none where they are empty.
    pub fn new(name: impl Into<String>, ink: Ink, mark: Mark) -> Layer {
        let name = Some(name.into()).filter(|name| !name.is_empty());
        Layer { name, ink, mark }
    }
}

/// A role that a colour has; what colour that is, the theme knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    /// What it is about.
    Main,
    /// What it is compared with.
    Second,
    /// A third thing.
    Third,
    /// What went wrong.
    Fault,
    /// What is only to be there.
    Faint,
    /// The colour of text.
    Text,
    /// One of [`LEVELS`] steps from little (0) to much.
    Level(u8),
}

/// Steps of [`Ink::Level`].
pub const LEVELS: u8 = 7;

/// Marks, in the data's units. What lies outside of an axis, or is no number, is left out.
#[derive(Debug, Clone, PartialEq)]
pub enum Mark {
    /// A dot a point, of this radius in pixels. Of several within one pixel, one is drawn.
    Dots(Vec<(f64, f64)>, f64),
    /// Lines through points.
    Lines {
        /// Each from left to right.
        lines: Vec<Vec<(f64, f64)>>,
        /// How they are drawn.
        stroke: Stroke,
    },
    /// A line that keeps its height until the next point; without limits to the right.
    Steps(Vec<(f64, f64)>),
    /// Everything between two heights at each place: x, lower, upper.
    Band(Vec<(f64, f64, f64)>),
    /// Rectangles: left, bottom, right, top. On an axis of categories the i-th one is i - 0.5 to i + 0.5.
    Boxes(Vec<[f64; 4]>),
    /// From one point to another.
    Segments(Vec<[f64; 4]>),
    /// Words beside a point, to its right.
    Words(Vec<(f64, f64, String)>),
}

/// How lines are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stroke {
    /// As one path, in full strength.
    Full,
    /// As one path, thin.
    Thin,
    /// Dashed.
    Dashed,
    /// Thin, and each a path of its own, which a script can take out and put in.
    Apart,
}

/// Pixels; one is a ninety-sixth of an inch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Size {
    /// From left to right.
    pub width: f64,
    /// From top to bottom.
    pub height: f64,
}
