//! Renders pages with words, straight, turned and curved, among clutter, and tells where the words are:
//!
//!     pages OUT TEXTS [--pages 600] [--seed 0] [--fonts /usr/share/fonts/truetype/dejavu]
//!
//! TEXTS is a file whose words are used. OUT becomes a directory with `pages.jsonl` and the pictures; a tenth of the pages each are for
//! validation and for the test. The same arguments and fonts make the same bytes.

use std::f64::consts::{FRAC_PI_2, PI};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use image::codecs::jpeg::JpegEncoder;
use image::{Rgb, RgbImage};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Node, Options, Tree, fontdb};
use serde_json::json;
use tune_detection::{Point, Polygon};

/// Where Debian's fonts-dejavu-core has its fonts.
pub const FONTS: &str = "/usr/share/fonts/truetype/dejavu";

/// Sides of pages, in pixels.
const SIDES: [u32; 4] = [320, 384, 448, 512];

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).map(String::as_str)
    };
    let [out, texts, ..] = &arguments[..] else {
        bail!("usage: pages OUT TEXTS [--pages N] [--seed N] [--fonts DIR]");
    };
    let number = |name: &str, preset: u64| {
        option(name)
            .map_or(Ok(preset), str::parse)
            .context(name.to_owned())
    };
    let (pages, seed) = (number("--pages", 600)?, number("--seed", 0)?);
    let fonts = Path::new(option("--fonts").unwrap_or(FONTS));
    make((Path::new(texts), fonts), Path::new(out), (pages, seed))
}

/// Makes so many pages of these texts and fonts.
pub fn make(
    (texts, fonts): (&Path, &Path),
    out: &Path,
    (pages, seed): (u64, u64),
) -> anyhow::Result<()> {
    let writer = Writer::new(texts, fonts)?;
    fs::create_dir_all(out).with_context(|| out.display().to_string())?;
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let part = |thread: u64| -> anyhow::Result<Vec<(u64, String)>> {
        let own = (thread..pages).step_by(threads as usize);
        own.map(|page| Ok((page, writer.write(out, page, seed)?)))
            .collect()
    };
    let mut lines = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || part(thread)))
            .collect();
        let parts = running.into_iter().map(|part| match part.join() {
            Ok(part) => part,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        parts.collect::<anyhow::Result<Vec<_>>>()
    })?
    .concat();
    lines.sort();
    let lines: Vec<String> = lines.into_iter().map(|(_, line)| line + "\n").collect();
    // Last of all: a directory with it is complete.
    fs::write(out.join("pages.jsonl"), lines.concat()).context("pages.jsonl")
}

/// What pages are written with.
struct Writer {
    words: Vec<String>,
    families: Vec<String>,
    options: Options<'static>,
}

/// A word as it is set on a straight line whose left end is at 0, 0: the edges of its ink.
struct Ink {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

/// A word on a page.
struct Word {
    text: String,
    /// The element that draws it.
    svg: String,
    outline: Polygon,
    ignored: bool,
}

impl Writer {
    fn new(texts: &Path, fonts: &Path) -> anyhow::Result<Writer> {
        let texts = fs::read_to_string(texts).with_context(|| texts.display().to_string())?;
        let letters = |word: &str| {
            word.trim_matches(|c: char| !c.is_ascii_alphanumeric())
                .to_owned()
        };
        let mut words: Vec<String> = texts.split([' ', ',', '"', '\n']).map(letters).collect();
        words.retain(|word| {
            (2..=12).contains(&word.len()) && word.chars().all(|c| c.is_ascii_alphanumeric())
        });
        words.sort_unstable();
        words.dedup();
        ensure!(
            words.len() > 100,
            "found {} words, expected a text",
            words.len()
        );
        let mut database = fontdb::Database::new();
        database.load_fonts_dir(fonts);
        let mut families: Vec<String> = (database.faces())
            .filter_map(|face| Some(face.families.first()?.0.clone()))
            .filter(|name| !name.contains("Math"))
            .collect();
        families.sort_unstable();
        families.dedup();
        let found = fonts.display();
        ensure!(
            !families.is_empty(),
            "found no font in {found}, expected those of fonts-dejavu-core (--fonts DIR)"
        );
        Ok(Writer {
            words,
            families,
            options: Options {
                fontdb: Arc::new(database),
                ..Options::default()
            },
        })
    }

    /// Writes a picture and gives its line of the file.
    fn write(&self, out: &Path, number: u64, seed: u64) -> anyhow::Result<String> {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(number);
        let [width, height] = [(); 2].map(|()| SIDES[rng.random_range(0..SIDES.len())]);
        let size = [f64::from(width), f64::from(height)];
        let paper = rng.random_range(0.0..1.0);
        let mut words: Vec<Word> = Vec::new();
        let wanted = rng.random_range(3..12);
        for _ in 0..8 * wanted {
            if words.len() == wanted {
                break;
            }
            let word = self.word(size, paper, rng)?;
            // With some room between them, and as a whole on the page.
            let room = word.outline.offset(4.0);
            let near = |other: &Word| {
                room.iter()
                    .any(|room| room.common_area(&other.outline) > 0.0)
            };
            let [low, high] = word.outline.bounds();
            let on_page = (0..2).all(|k| low[k] > 1.0 && high[k] < size[k] - 1.0);
            if on_page && !words.iter().any(near) {
                words.push(word);
            }
        }
        let drawn: String = words.iter().map(|word| word.svg.as_str()).collect();
        let under = clutter(size, paper, rng);
        let svg = format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"><rect width="100%" height="100%" fill="{}"/>{under}{drawn}</svg>"##,
            colour(paper, rng)
        );
        let name = format!("{number:04}.jpg");
        let mut bytes = Vec::new();
        let encoder = JpegEncoder::new_with_quality(&mut bytes, rng.random_range(60..95));
        self.rendered(&svg, (width, height), rng)?
            .write_with_encoder(encoder)?;
        fs::write(out.join(&name), bytes).with_context(|| name.clone())?;
        let told = words.iter().map(|word| {
            let points = word.outline.points().iter();
            let points: Vec<Point> = points
                .map(|p| p.map(|at| (at * 10.0).round() / 10.0))
                .collect();
            json!({"polygon": points, "text": word.text, "ignored": word.ignored})
        });
        let part = match number % 10 {
            8 => "validation",
            9 => "test",
            _ => "train",
        };
        let texts: Vec<_> = told.collect();
        Ok(json!({"image": name, "part": part, "texts": texts}).to_string())
    }

    /// The picture, with a camera's noise.
    fn rendered(
        &self,
        svg: &str,
        (width, height): (u32, u32),
        rng: &mut ChaCha8Rng,
    ) -> anyhow::Result<RgbImage> {
        let tree = Tree::from_str(svg, &self.options)?;
        let mut pixels = Pixmap::new(width, height).context("no memory for a page")?;
        resvg::render(&tree, Transform::identity(), &mut pixels.as_mut());
        let noise = rng.random_range(0.0..12.0);
        let mut picture = RgbImage::new(width, height);
        for (to, from) in picture.pixels_mut().zip(pixels.pixels()) {
            let by = noise * (rng.random::<f32>() + rng.random::<f32>() - 1.0);
            *to =
                Rgb([from.red(), from.green(), from.blue()]
                    .map(|c| (f32::from(c) + by).round() as u8));
        }
        Ok(picture)
    }

    /// A word anywhere on the page: straight, or on an arc.
    fn word(&self, size: [f64; 2], paper: f64, rng: &mut ChaCha8Rng) -> anyhow::Result<Word> {
        let text = self.words[rng.random_range(0..self.words.len())].clone();
        let text = match rng.random_range(0..4) {
            0 => text.to_uppercase(),
            1 => text[..1].to_uppercase() + &text[1..],
            _ => text,
        };
        // Too small to be read: does not matter.
        let ignored = rng.random_bool(0.06);
        let height = match ignored {
            true => rng.random_range(5.0..7.0),
            false => 18.0 * 3.5_f64.powf(rng.random::<f64>()),
        };
        let family = &self.families[rng.random_range(0..self.families.len())];
        let weight = ["normal", "bold"][rng.random_range(0..2)];
        let style =
            format!(r#"font-family="{family}" font-weight="{weight}" font-size="{height:.2}""#);
        let ink = self.ink(&text, &style)?;
        let angle: f64 = match rng.random_range(0..10) {
            0 => rng.random_range(-90.0..90.0),
            1 => 90.0 * [-1.0, 1.0][rng.random_range(0..2)],
            _ => rng.random_range(-20.0..20.0),
        };
        let place = size.map(|side| rng.random_range(0.05..0.95) * side);
        let fill = colour((paper + rng.random_range(0.35..0.65)) % 1.0, rng);
        let curved = rng.random_bool(0.25) && text.len() > 4;
        let (element, outline) = match curved {
            true => on_an_arc(&text, &ink, rng),
            false => straight(&text, &ink),
        };
        let (sin, cos) = angle.to_radians().sin_cos();
        let turned = |[x, y]: Point| [place[0] + x * cos - y * sin, place[1] + x * sin + y * cos];
        let [x, y] = place;
        Ok(Word {
            svg: format!(
                r#"<g transform="translate({x:.2} {y:.2}) rotate({angle:.3})" fill="{fill}" {style}>{element}</g>"#
            ),
            outline: outline.mapped(turned),
            text,
            ignored,
        })
    }

    fn ink(&self, text: &str, style: &str) -> anyhow::Result<Ink> {
        let svg = format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><text {style}>{text}</text></svg>"#
        );
        let tree = Tree::from_str(&svg, &self.options)?;
        let Some(Node::Text(set)) = tree.root().children().first() else {
            bail!("no font has {text}");
        };
        let ink = set.flattened().bounding_box();
        let [left, top, right, bottom] =
            [ink.left(), ink.top(), ink.right(), ink.bottom()].map(f64::from);
        Ok(Ink {
            left,
            top,
            right,
            bottom,
        })
    }
}

/// A word on a straight line, its middle at 0, 0: how it is drawn, and its outline.
fn straight(text: &str, ink: &Ink) -> (String, Polygon) {
    let middle = [(ink.left + ink.right) / 2.0, (ink.top + ink.bottom) / 2.0];
    let outline = Polygon::rectangle([ink.left, ink.top], [ink.right, ink.bottom]);
    (
        format!(
            r#"<text x="{:.3}" y="{:.3}">{text}</text>"#,
            -middle[0], -middle[1]
        ),
        outline.mapped(|[x, y]| [x - middle[0], y - middle[1]]),
    )
}

/// The same on an arc, upwards or downwards, that is as long as an eighth to a third of its circle.
fn on_an_arc(text: &str, ink: &Ink, rng: &mut ChaCha8Rng) -> (String, Polygon) {
    let length = ink.right - ink.left;
    let radius = length / rng.random_range(PI / 4.0..PI / 1.5);
    // 1: the word stands on the outside of a circle below it; -1: on the inside of one above it.
    let side = [1.0, -1.0][rng.random_range(0..2)];
    // Places by the angle at the circle's middle, from the word's own, and the height over its line.
    let place = |angle: f64, height: f64| {
        let (sin, cos) = angle.sin_cos();
        let distance = radius + side * height;
        [distance * sin, side * (radius - distance * cos)]
    };
    // The line is longer than the word, which stands in its middle.
    let [from, to] = [-FRAC_PI_2 - 0.5, FRAC_PI_2 + 0.5].map(|angle| place(angle, 0.0));
    let sweep = u8::from(side > 0.0);
    let id = format!("l{}", rng.random::<u32>());
    let element = format!(
        r##"<path id="{id}" fill="none" d="M {:.3} {:.3} A {radius:.3} {radius:.3} 0 1 {sweep} {:.3} {:.3}"/><text text-anchor="middle"><textPath href="#{id}" startOffset="50%">{text}</textPath></text>"##,
        from[0], from[1], to[0], to[1]
    );
    let half = length / 2.0 / radius;
    let steps = 8;
    let angle = |k: i32| half * f64::from(2 * k - steps) / f64::from(steps);
    let upper = (0..=steps).map(|k| place(angle(k), -ink.top));
    let lower = (0..=steps).rev().map(|k| place(angle(k), -ink.bottom));
    (element, Polygon::new(upper.chain(lower).collect()))
}

/// What else is on a page: areas, lines, and rows of strokes that are no letters.
fn clutter([width, height]: [f64; 2], paper: f64, rng: &mut ChaCha8Rng) -> String {
    let mut svg = String::new();
    for _ in 0..rng.random_range(2..14) {
        let tone = (paper + rng.random_range(-0.2..0.2)).clamp(0.0, 1.0);
        let fill = colour(tone, rng);
        let (x, y) = (rng.random_range(0.0..width), rng.random_range(0.0..height));
        let (w, h) = (
            rng.random_range(10.0..width / 2.0),
            rng.random_range(5.0..height / 3.0),
        );
        let angle = rng.random_range(-90.0..90.0);
        let shape = match rng.random_range(0..4) {
            0 => format!(
                r#"<rect x="{x:.1}" y="{y:.1}" width="{w:.1}" height="{h:.1}" fill="{fill}"/>"#
            ),
            1 => format!(
                r#"<ellipse cx="{x:.1}" cy="{y:.1}" rx="{:.1}" ry="{:.1}" fill="{fill}"/>"#,
                w / 2.0,
                h / 2.0
            ),
            2 => {
                let stroke = rng.random_range(1.0..6.0);
                format!(
                    r#"<path d="M {x:.1} {y:.1} q {h:.1} {w:.1} {w:.1} {h:.1}" fill="none" stroke="{fill}" stroke-width="{stroke:.1}"/>"#
                )
            }
            _ => {
                let strokes = (0..rng.random_range(3..12))
                    .map(|k| format!("M {:.1} {y:.1} v {:.1} ", x + f64::from(k) * 9.0, h / 3.0));
                format!(
                    r#"<path d="{}" stroke="{fill}" stroke-width="3"/>"#,
                    strokes.collect::<String>()
                )
            }
        };
        svg += &format!(r#"<g transform="rotate({angle:.1} {x:.1} {y:.1})">{shape}</g>"#);
    }
    svg
}

/// A colour of this brightness, 0 to 1.
fn colour(brightness: f64, rng: &mut ChaCha8Rng) -> String {
    let channel = |rng: &mut ChaCha8Rng| {
        ((brightness * 255.0 + rng.random_range(-30.0..30.0)).clamp(0.0, 255.0)) as u8
    };
    let [r, g, b] = [(); 3].map(|()| channel(rng));
    format!("#{r:02x}{g:02x}{b:02x}")
}
