//! What is found in maps that are drawn for it.

use super::*;
use crate::metric::overlap;
use proptest::prelude::*;

/// A map that is `value` inside of these outlines, else 0.
fn drawn(size: (usize, usize), texts: &[(Polygon, f32)]) -> Map {
    let mut values = vec![0.0; size.0 * size.1];
    for (polygon, value) in texts {
        polygon.fill(size, |row, columns| {
            values[row * size.0..][columns].fill(*value)
        });
    }
    Map::new(size, values)
}

fn tilted([x, y]: [f64; 2], [a, b]: [f64; 2], angle: f64) -> Polygon {
    let (sin, cos) = angle.sin_cos();
    Polygon::rectangle([-a, -b], [a, b])
        .mapped(|p| [x + p[0] * cos - p[1] * sin, y + p[0] * sin + p[1] * cos])
}

fn iou(a: &Polygon, b: &Polygon) -> f64 {
    let common = a.common_area(b);
    common / (a.area() + b.area() - common)
}

fn mask(rows: &[&str]) -> ((usize, usize), Vec<bool>) {
    let values = rows.iter().flat_map(|row| row.bytes().map(|b| b == b'#'));
    ((rows[0].len(), rows.len()), values.collect())
}

#[test]
fn pixels_that_touch_at_corners_are_one_text() {
    let (size, inside) = mask(&[
        "#..#.", //
        ".#.#.", //
        "...#.", //
        "##..#", //
        "#..#.", //
    ]);
    let found = components::components(size, |at| inside[at]);
    let outlines: Vec<_> = found.iter().map(|c| c.hull().bounds()).collect();
    let expected = [[0, 0, 2, 2], [3, 0, 5, 5], [0, 3, 2, 5]].map(|b| b.map(f64::from));
    assert_eq!(outlines, expected.map(|[a, b, c, d]| [[a, b], [c, d]]));
}

#[test]
fn an_arm_that_comes_late_joins_two_texts() {
    let (size, inside) = mask(&[
        "#.#.#", //
        "#.#.#", //
        "#.###", //
        "###..", //
    ]);
    assert_eq!(components::components(size, |at| inside[at]).len(), 1);
}

#[test]
fn an_outline_goes_round_its_pixels_once() {
    let (size, inside) = mask(&[
        "..####....", //
        "..####....", //
        "..#..#....", //
        "..####....", //
        "......###.", //
        "......###.", //
        "......###.", //
    ]);
    // Each of them 8 by 8 pixels.
    let large = (size.0 * 8, size.1 * 8);
    let inside = |at: usize| inside[at / large.0 / 8 * size.0 + at % large.0 / 8];
    let [one] = &components::components(large, inside)[..] else {
        panic!()
    };
    // 14 squares and a hole of 2 in the upper part, 9 in the lower one.
    let area = one.outline().area() / 64.0;
    assert!((area - (16.0 + 9.0)).abs() < 0.7, "{area}");
}

#[test]
fn nothing_is_found_beside_a_picture_that_does_not_fill_its_square() {
    let texts = [
        (tilted([20.0, 20.0], [12.0, 6.0], 0.0), 1.0),
        (tilted([60.0, 20.0], [12.0, 6.0], 0.0), 1.0),
    ];
    let settings = PostSettings::default();
    let map = || drawn((80, 80), &texts);
    assert_eq!(detections(&map(), &settings).len(), 2);
    let found = detections(&map().within((44, 80)), &settings);
    assert_eq!(found.len(), 1);
    assert!(
        found[0]
            .polygon
            .points()
            .iter()
            .all(|point| point[0] < 44.0)
    );
    assert!(detections(&map().within((80, 10)), &settings).is_empty());
}

#[test]
fn a_slanting_edge_loses_its_steps() {
    let map = drawn((80, 80), &[(tilted([40.0, 40.0], [30.0, 6.0], 0.5), 1.0)]);
    let settings = PostSettings {
        unclip: 0.0,
        shape: Shape::Polygon,
        ..PostSettings::default()
    };
    let [found] = &detections(&map, &settings)[..] else {
        panic!()
    };
    assert!(found.polygon.points().len() < 12, "{:?}", found.polygon);
}

#[test]
fn what_is_small_or_faint_is_no_text() {
    let map = drawn(
        (60, 40),
        &[
            (Polygon::rectangle([2.0, 2.0], [30.0, 12.0]), 0.9),
            (Polygon::rectangle([2.0, 20.0], [30.0, 22.0]), 0.9),
            (Polygon::rectangle([2.0, 30.0], [30.0, 38.0]), 0.5),
        ],
    );
    let all = PostSettings {
        min_side: 0.0,
        box_threshold: 0.0,
        ..PostSettings::default()
    };
    let rows = |settings: &PostSettings| detections(&map, settings).len();
    assert_eq!(rows(&all), 3);
    assert_eq!(
        rows(&PostSettings {
            min_side: 3.0,
            ..all
        }),
        2
    );
    assert_eq!(
        rows(&PostSettings {
            box_threshold: 0.6,
            ..all
        }),
        2
    );
    assert_eq!(
        rows(&PostSettings {
            threshold: 0.5,
            ..all
        }),
        2
    );
    assert_eq!(rows(&PostSettings::default()), 1);
    assert!((detections(&map, &PostSettings::default())[0].score - 0.9).abs() < 1e-6);
}

#[test]
fn specks_without_number_are_looked_at_up_to_a_limit() {
    let specks: Vec<f32> = (0..200 * 200)
        .map(|at| f32::from(at % 2 == 0 && at / 200 % 2 == 0))
        .collect();
    let all = PostSettings {
        min_side: 0.0,
        box_threshold: 0.0,
        ..PostSettings::default()
    };
    assert_eq!(detections(&Map::new((200, 200), specks), &all).len(), 1000);
}

#[test]
fn an_empty_map_has_no_text() {
    assert!(detections(&Map::new((0, 0), Vec::new()), &PostSettings::default()).is_empty());
    assert!(detections(&Map::new((9, 9), Vec::new()), &PostSettings::default()).is_empty());
}

proptest! {
    /// What is shrunk for the labels comes back, grown by the ratio that belongs to it.
    #[test]
    fn a_shrunk_text_is_found_where_it_was(x in 60.0..100.0, y in 60.0..100.0, a in 30.0..50.0, b in 12.0..20.0, angle in -1.5..1.5) {
        let text = tilted([x, y], [a, b], angle);
        let shrunk = text.offset(-text.label_distance(0.4));
        let map = drawn((160, 160), &[(shrunk[0].clone(), 0.95)]);
        for shape in [Shape::Quad, Shape::Polygon] {
            // Of a long text, the shrunk one's area over its perimeter is smaller than the text's.
            let unclip = text.label_distance(0.4) * shrunk[0].perimeter() / shrunk[0].area();
            let found = detections(&map, &PostSettings { shape, unclip, ..PostSettings::default() });
            prop_assert_eq!(found.len(), 1);
            prop_assert!(iou(&found[0].polygon, &text) > 0.85, "{} {:?}", iou(&found[0].polygon, &text), shape);
        }
    }

    /// Sharing what settings have in common changes no count.
    #[test]
    fn counts_with_many_settings_are_those_of_each(values in proptest::collection::vec(0.0_f32..1.0, 24 * 24)) {
        // Smooth, so that there are texts of several sizes.
        let at = |x: usize, y: usize| values[y.min(23) * 24 + x.min(23)];
        let smooth = |k: usize| (0..9).map(|d| at(k % 24 + d % 3, k / 24 + d / 3)).sum::<f32>() / 9.0;
        let map = Map::new((24, 24), (0..24 * 24).map(smooth).collect());
        let truth = |[x, y]: [f64; 2], ignored| Truth {
            polygon: Polygon::rectangle([x, y], [x + 9.0, y + 7.0]),
            text: String::new(),
            ignored,
        };
        let truths = vec![truth([1.0, 2.0], false), truth([12.0, 2.0], true), truth([6.0, 12.0], false)];
        let scorer = PageScorer::new(map.clone(), truths.clone());
        for shape in [Shape::Quad, Shape::Polygon] {
            for (threshold, box_threshold) in [(0.45, 0.5), (0.5, 0.5), (0.5, 0.55)] {
                for (unclip, min_side) in [(0.5, 1.0), (0.5, 3.0), (1.5, 1.0)] {
                    let settings = PostSettings { threshold, box_threshold, unclip, min_side, shape };
                    let found = detections(&map, &settings);
                    let overlaps: Vec<_> = found.iter().map(|d| overlap(&d.polygon, &truths)).collect();
                    prop_assert_eq!(scorer.counts(&settings), Counts::of(&truths, &overlaps));
                }
            }
        }
    }
}
