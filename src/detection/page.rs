//! A page: a picture, and the texts that are known to be in it.

use std::path::PathBuf;

use training::split::Samples;

use crate::polygon::Polygon;

/// A text in a picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Truth {
    /// Its outline, in pixels of the upright picture.
    pub polygon: Polygon,
    /// What it says; empty where nobody wrote it down.
    pub text: String,
    /// Whether it does not matter whether it is found: it cannot be read, or is not of the language that is asked for.
    pub ignored: bool,
}

impl Truth {
    /// The same text in a picture that was changed so.
    pub fn mapped(&self, to: impl Fn(&Polygon) -> Polygon) -> Truth {
        Truth {
            polygon: to(&self.polygon),
            ..self.clone()
        }
    }
}

/// A picture with its texts.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// The picture's file.
    pub image: PathBuf,
    /// The texts in it, in the order of the file that tells them.
    pub truths: Vec<Truth>,
}

/// All pages of a data set. They have no classes: all are of one.
#[derive(Debug, Clone, PartialEq)]
pub struct Pages {
    /// The pages.
    pub pages: Vec<Page>,
    /// Their groups, parts and lines; where a page has no line, its place, from 1.
    pub samples: Samples,
}

impl Pages {
    /// Of no pages yet.
    pub(crate) fn new() -> Pages {
        Pages {
            pages: Vec::new(),
            samples: Samples {
                classes: vec!["page".to_owned()],
                ..Samples::default()
            },
        }
    }
}
