//! Text detection without libtorch: pages with the outlines of their texts, the labels that a network with a DB head
//! (differentiable binarization, arXiv 1911.08947) learns, what is made of its maps, and how good that is.

pub mod description;
pub mod example;
pub mod found;
mod kind;
pub mod labels;
pub mod made_up;
pub mod metric;
mod page;
pub mod picture;
pub mod polygon;
pub mod post;
pub mod read;
pub mod start;
pub mod view;

pub use kind::{PARTS, TextDetection, finds_nothing, load};
pub use page::{Page, Pages, Truth};
pub use polygon::{Point, Polygon};
