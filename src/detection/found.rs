//! What was found in a picture, for people and programs: drawn into it, and as JSON.

use image::{Rgb, RgbImage};
use serde_json::{Value as Json, json};

use crate::polygon::Polygon;
use crate::post::Detection;

/// Beside the pictures with outlines: a line of JSON a picture.
pub const FOUND_FILE: &str = "found.jsonl";

/// The colour of outlines that were found.
pub const FOUND: Rgb<u8> = Rgb([230, 30, 60]);

/// The colour of outlines of texts that are known.
pub const KNOWN: Rgb<u8> = Rgb([30, 160, 60]);

/// Draws an outline into a picture, with lines of about a 300th of its longer side.
pub fn draw(picture: &mut RgbImage, outline: &Polygon, colour: Rgb<u8>) {
    let (width, height) = picture.dimensions();
    let thickness = (f64::from(width.max(height)) / 300.0).max(1.5);
    for [a, b] in outline.sides() {
        let length = crate::polygon::distance(a, b);
        if length == 0.0 {
            continue;
        }
        // The side as a rectangle that reaches half a line beyond its ends, so that corners are closed.
        let [x, y] = [0, 1].map(|k| (b[k] - a[k]) / length * thickness / 2.0);
        let line = Polygon::new(vec![
            [a[0] - x + y, a[1] - y - x],
            [b[0] + x + y, b[1] + y - x],
            [b[0] + x - y, b[1] + y + x],
            [a[0] - x - y, a[1] - y + x],
        ]);
        line.fill((width as usize, height as usize), |row, columns| {
            columns.for_each(|column| picture.put_pixel(column as u32, row as u32, colour));
        });
    }
}

/// The texts found in a picture as JSON: outlines in pixels of the upright picture, with two digits, and scores with four.
pub fn found_json(picture: &str, (width, height): (u32, u32), found: &[Detection]) -> Json {
    let rounded = |value: f64, digits: f64| (value * digits).round() / digits;
    let point = |[x, y]: &[f64; 2]| json!([rounded(*x, 100.0), rounded(*y, 100.0)]);
    let texts = found.iter().map(|text| {
        let polygon: Json = text.polygon.points().iter().map(point).collect();
        json!({"polygon": polygon, "score": rounded(f64::from(text.score), 1e4)})
    });
    let texts: Json = texts.collect();
    json!({"picture": picture, "width": width, "height": height, "texts": texts})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outline_is_drawn_closed_and_empty() {
        let mut picture = RgbImage::new(100, 60);
        draw(
            &mut picture,
            &Polygon::rectangle([10.0, 10.0], [80.0, 40.0]),
            FOUND,
        );
        let at = |x, y| *picture.get_pixel(x, y) == FOUND;
        assert!(at(10, 10) && at(79, 10) && at(79, 39) && at(10, 39) && at(40, 10) && at(10, 20));
        assert!(!at(40, 20) && !at(5, 10) && !at(40, 5));
        // Beyond the edge and of no length.
        draw(
            &mut picture,
            &Polygon::new(vec![[-50.0, -50.0], [-50.0, -50.0], [500.0, 20.0]]),
            KNOWN,
        );
    }

    #[test]
    fn what_was_found_is_told_in_few_digits() {
        let polygon = Polygon::new(vec![[1.0, 2.123_456], [3.0, 4.0], [5.008, 6.0]]);
        let found = [Detection {
            polygon,
            score: 0.91234,
        }];
        let told = found_json("a.png", (100, 50), &found).to_string();
        let expected = r#"{"picture":"a.png","width":100,"height":50,"texts":[{"polygon":[[1.0,2.12],[3.0,4.0],[5.01,6.0]],"score":0.9123}]}"#;
        assert_eq!(told, expected);
    }
}
