//! What a chart is as SVG: well-formed, escaped, within its scales.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::scale::Kind;
use super::text::{fitted, px, width};
use super::*;

fn texts(scale: &Scale, most: usize) -> Vec<String> {
    scale.ticks(most).into_iter().map(|t| t.text).collect()
}

fn chart(x: Scale, y: Scale, layers: Vec<Layer>) -> Chart {
    Chart {
        id: "c".to_owned(),
        title: "A title".to_owned(),
        description: "What there is to see.".to_owned(),
        x: Axis::new("x", x),
        y: Axis::new("y", y),
        layers,
    }
}

const SIZE: Size = Size {
    width: 640.0,
    height: 320.0,
};

fn unit() -> Scale {
    Scale::between(0.0, 1.0)
}

#[test]
fn a_page_is_told_where_the_frame_is_and_what_the_scales_are_a_file_is_not() {
    let log = || Scale::new(Kind::Log, 0.001, 10.0);
    let of = |x, theme| chart(x, log(), Vec::new()).svg(SIZE, theme);
    let page = of(unit(), None);
    assert!(
        page.contains("data-x=\"linear 0 1\" data-y=\"log 0.001 10\""),
        "{page}"
    );
    assert!(
        page.contains("<g class=\"ticks\">") && page.ends_with("<g class=\"marks\"></g></svg>")
    );
    assert!(!of(unit(), Some(Theme::Light)).contains("data-"));
    let names = Scale::names(["a".to_owned(), "b".to_owned()]);
    assert!(!of(names, None).contains("data-"));
}

#[test]
fn ticks_are_round_numbers_with_the_digits_that_tell_them_apart() {
    let linear = Scale::between;
    assert_eq!(
        texts(&linear(0.0, 1.0), 5),
        ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]
    );
    assert_eq!(texts(&linear(-0.31, 0.24), 4), ["-0.2", "0.0", "0.2"]);
    assert_eq!(
        texts(&linear(0.8712, 0.8791), 4),
        ["0.872", "0.874", "0.876", "0.878"]
    );
    assert_eq!(texts(&linear(0.0, 5e6), 3), ["0", "2e6", "4e6"]);
    let whole = Scale::new(Kind::Whole, 0.0, 3.0);
    assert_eq!(texts(&whole, 9), ["0", "1", "2", "3"]);
    let log = |low, high| Scale::new(Kind::Log, low, high);
    assert_eq!(
        texts(&log(1e-6, 1e-1), 6),
        ["1e-6", "1e-5", "1e-4", "0.001", "0.01", "0.1"]
    );
    assert_eq!(
        texts(&log(1.0, 100.0), 9),
        ["1", "2", "5", "10", "20", "50", "100"]
    );
    assert_eq!(texts(&log(0.2, 0.3), 3), ["0.20", "0.25", "0.30"]);
    let seconds = Scale::seconds;
    assert_eq!(texts(&seconds(100.0), 4), ["0 s", "30 s", "60 s", "90 s"]);
    assert_eq!(texts(&seconds(36_000.0), 4), ["0 h", "3 h", "6 h", "9 h"]);
    assert_eq!(
        texts(&seconds(400_000.0), 5),
        ["0 d", "1 d", "2 d", "3 d", "4 d"]
    );
}

#[test]
fn a_scale_places_its_ends_and_nothing_beyond() {
    let log = Scale::new(Kind::Log, 1e-4, 1.0);
    assert_eq!((log.place(1e-4), log.place(1.0)), (Some(0.0), Some(1.0)));
    assert!((log.place(1e-2).unwrap() - 0.5).abs() < 1e-12);
    assert_eq!(
        (log.place(0.0), log.place(2.0), log.place(f64::NAN)),
        (None, None, None)
    );
    assert_eq!(log.held(5.0), Some(1.0));
    let names = Scale::names(["a".to_owned(), "b".to_owned()]);
    assert_eq!(
        (names.place(-0.5), names.place(0.5)),
        (Some(0.0), Some(0.5))
    );
    // One value, none, and values that are no numbers still make an axis.
    for values in [
        vec![2.0],
        vec![],
        vec![0.0],
        vec![f64::NAN, f64::INFINITY, 3.0],
        vec![1e308, -1e308],
    ] {
        for scale in [Scale::linear(values.clone()), Scale::log(values.clone())] {
            assert!(!scale.ticks(5).is_empty() || scale.is_log(), "{values:?}");
        }
    }
}

#[test]
fn a_share_of_an_axis_goes_back_to_what_is_placed_there() {
    let names = ["a", "b", "c"].map(str::to_owned);
    for scale in [
        Scale::between(-3.0, 5.0),
        Scale::new(Kind::Log, 1e-4, 10.0),
        Scale::names(names),
    ] {
        for share in [0.0, 0.3, 1.0] {
            let again = scale.place(scale.back(share)).unwrap();
            assert!((again - share).abs() < 1e-12, "{scale:?}: {again}");
        }
    }
}

proptest! {
    #[test]
    fn ticks_lie_within_their_axis_and_ascend(a in -1e9..1e9f64, extent in 1e-6..1e9f64, most in 2usize..12) {
        for scale in [
            Scale::between(a, a + extent),
            Scale::new(Kind::Log, extent, extent * (1.0 + a.abs()) + extent),
            Scale::seconds(extent),
        ] {
            let ticks = scale.ticks(most);
            prop_assert!(ticks.len() <= 3 * most + 3, "{ticks:?}");
            prop_assert!(ticks.windows(2).all(|w| w[0].at < w[1].at));
            let inside = |t: &Tick| scale.place(t.at).is_some();
            prop_assert!(ticks.iter().all(inside), "{scale:?}: {ticks:?}");
        }
    }

    #[test]
    fn any_text_and_any_number_makes_well_formed_svg(
        texts in proptest::collection::vec(any::<String>(), 5),
        numbers in proptest::collection::vec((any::<f64>(), any::<f64>()), 0..20),
    ) {
        let boxes = numbers.iter().map(|(x, y)| [*x, *y, *y, *x]).collect();
        let layers = vec![
            Layer::new(&texts[0], Ink::Main, Mark::Dots(numbers.clone(), 2.0)),
            Layer::new(&texts[1], Ink::Second, Mark::Steps(numbers.clone())),
            Layer::new("", Ink::Fault, Mark::Boxes(boxes)),
            Layer::new("", Ink::Text, Mark::Words(vec![(0.5, 0.5, texts[2].clone())])),
        ];
        let ys = numbers.iter().map(|n| n.1);
        for x in [Scale::linear(numbers.iter().map(|n| n.0)), Scale::names(texts.clone())] {
            let mut chart = chart(x, Scale::log(ys.clone()), layers.clone());
            chart.title = texts[3].clone();
            chart.description = texts[4].clone();
            let svg = chart.svg(SIZE, Some(Theme::Auto));
            prop_assert!(!svg.contains("NaN") || texts.iter().any(|t| t.contains("NaN")));
            let parsed = roxmltree::Document::parse(&svg);
            prop_assert!(parsed.is_ok(), "{parsed:?}: {svg}");
        }
    }

    #[test]
    fn what_is_fitted_fits(text in "\\PC{0,60}", room in 20.0..300.0f64) {
        let short = fitted(&text, room);
        prop_assert!(width(&short) <= room || short.chars().count() <= 2);
    }
}

#[test]
fn hostile_text_is_text() {
    let hostile = "<script>alert(1)</script>\u{1b}[2J\u{202e}\"'&";
    let layer = Layer::new(hostile, Ink::Main, Mark::Steps(vec![(0.0, 0.0)]));
    let names = Scale::names([hostile.to_owned()]);
    let svg = chart(unit(), names, vec![layer]).svg(SIZE, None);
    assert!(!svg.contains("<script") && !svg.contains('\u{1b}') && !svg.contains('\u{202e}'));
    assert!(svg.contains("&lt;script&gt;"));
}

#[test]
fn a_chart_says_what_it_is_to_who_does_not_see_it() {
    let svg = chart(unit(), unit(), Vec::new()).svg(SIZE, Some(Theme::Light));
    let parsed = roxmltree::Document::parse(&svg).unwrap();
    let root = parsed.root_element();
    assert_eq!(root.attribute("role"), Some("img"));
    let named: Vec<&str> = root
        .attribute("aria-labelledby")
        .unwrap()
        .split(' ')
        .collect();
    let text = |id: &str| {
        let found = parsed.descendants().find(|n| n.attribute("id") == Some(id));
        found.unwrap().text().unwrap().to_owned()
    };
    assert_eq!(
        (text(named[0]), text(named[1])),
        ("A title".into(), "What there is to see.".into())
    );
    // On paper no property is looked up.
    assert!(!svg.contains("var("), "{svg}");
}

#[test]
fn dots_on_one_pixel_are_drawn_once_and_boxes_that_touch_are_one() {
    let points = vec![
        (0.5, 0.5),
        (0.5, 0.500_01),
        (0.9, 0.1),
        (2.0, 0.5),
        (f64::NAN, 0.0),
    ];
    let dots = Layer::new("", Ink::Main, Mark::Dots(points, 2.0));
    let svg = chart(unit(), unit(), vec![dots]).svg(SIZE, None);
    assert_eq!(svg.matches("h0").count(), 2, "{svg}");
    let boxes = vec![
        [0.0, 0.2, 0.1, 0.4],
        [0.1, 0.2, 0.2, 0.4],
        [0.5, 0.2, 0.6, 0.4],
    ];
    let boxes = Layer::new("", Ink::Main, Mark::Boxes(boxes));
    let svg = chart(unit(), unit(), vec![boxes]).svg(SIZE, None);
    assert_eq!(svg.matches('z').count(), 2, "{svg}");
}

#[test]
fn words_are_cut_to_their_room_and_told_whole_to_the_pointer() {
    let long = "a-parameter-with-a-very-long-name-".repeat(300);
    let svg = chart(unit(), Scale::names([long.clone()]), Vec::new()).svg(SIZE, None);
    assert!(svg.len() < 3000 && svg.contains('…'));
    assert!(svg.contains(&format!("<title>{}…</title>", &long[..299])));
}

#[test]
fn pixels_are_told_in_tenths() {
    let cases = [
        (1.0, "1"),
        (1.25, "1.3"),
        (-0.04, "0"),
        (-0.16, "-0.2"),
        (100.04, "100"),
    ];
    for (x, text) in cases {
        assert_eq!(px(x), text);
    }
}
