//! A page as a network sees it: of the size that it is trained with, and, in training, turned, scaled, cut and coloured at
//! random. Texts are moved with their picture.

use image::{Rgb, RgbImage};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::page::Truth;
use crate::polygon::{Point, Polygon};

/// The colour beside a picture that does not fill its view: ImageNet's mean.
const BESIDE: Rgb<u8> = Rgb([124, 116, 104]);

/// A text of which no more than this share is in view counts as ignored.
const LEAST_SEEN: f64 = 0.4;

/// A picture becomes smaller by at most so many times before its pixels are no longer put together.
const MOST_TOGETHER: u32 = 64;

/// What is left to chance in training. With all at rest, a page is seen as a whole.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AugmentSettings {
    /// Turned by up to so many degrees, either way.
    pub rotate: f64,
    /// How often it is mirrored, left to right: 0 to 1.
    pub flip: f64,
    /// The smallest and the largest size, beside that at which the page is seen as a whole.
    pub scale: [f64; 2],
    /// How often the view is put anywhere, but so that a text is in it: 0 to 1. Else it is in the middle.
    pub crop: f64,
    /// Brightness, contrast and saturation change by up to this share: 0 to 1.
    pub colour: f64,
}

impl Default for AugmentSettings {
    fn default() -> AugmentSettings {
        AugmentSettings {
            rotate: 0.0,
            flip: 0.0,
            scale: [1.0, 1.0],
            crop: 0.0,
            colour: 0.0,
        }
    }
}

/// Which part of a picture is seen, and how.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct View {
    size: (u32, u32),
    /// How many times larger things are.
    scale: f64,
    /// Rows of a matrix by which a place of the picture is turned, mirrored and scaled; then it is moved.
    turn: [Point; 2],
    by: Point,
}

impl View {
    /// A picture of these dimensions as a whole, as large as it fits, in the upper left of `size`.
    pub fn whole(picture: (u32, u32), size: (u32, u32)) -> View {
        let fit = |(a, b): (u32, u32)| f64::from(b) / f64::from(a.max(1));
        let scale = fit((picture.0, size.0)).min(fit((picture.1, size.1)));
        View {
            size,
            scale,
            turn: [[scale, 0.0], [0.0, scale]],
            by: [0.0, 0.0],
        }
    }

    /// So much of the square of a whole picture is of it, in pixels from the upper left: behind that there is nothing.
    pub fn filled(&self, picture: (u32, u32)) -> (usize, usize) {
        let side = |side: u32| (f64::from(side) * self.scale).ceil() as usize;
        (side(picture.0), side(picture.1))
    }

    /// One view of many. Where there are texts that matter and the view is put anywhere, it has one of them in it.
    pub fn random(
        picture: (u32, u32),
        size: (u32, u32),
        truths: &[Truth],
        settings: &AugmentSettings,
        rng: &mut ChaCha8Rng,
    ) -> View {
        let mut between = |low: f64, high: f64| low + (high - low) * rng.random::<f64>();
        let angle = between(-settings.rotate, settings.rotate).to_radians();
        let [low, high] = settings.scale.map(f64::ln);
        let mut view = View::whole(picture, size);
        view.scale *= between(low, high).exp();
        let mirror = match rng.random_bool(settings.flip.clamp(0.0, 1.0)) {
            true => -view.scale,
            false => view.scale,
        };
        let (sin, cos) = angle.sin_cos();
        view.turn = [
            [cos * mirror, -sin * view.scale],
            [sin * mirror, cos * view.scale],
        ];
        let whole = Polygon::rectangle([0.0; 2], [f64::from(picture.0), f64::from(picture.1)]);
        let whole = whole.mapped(|point| view.seen(point)).bounds();
        let anywhere = rng.random_bool(settings.crop.clamp(0.0, 1.0));
        let texts: Vec<&Truth> = truths.iter().filter(|truth| !truth.ignored).collect();
        let text = (anywhere && !texts.is_empty()).then(|| {
            let text = texts[rng.random_range(0..texts.len())];
            text.polygon.mapped(|point| view.seen(point)).bounds()
        });
        for axis in 0..2 {
            let side = f64::from([size.0, size.1][axis]);
            // Where the view begins: it has nothing but the picture in it, or all of the picture.
            let [start, end] = whole.map(|corner| corner[axis]);
            let (mut low, mut high) = (start.min(end - side), start.max(end - side));
            if let Some([from, to]) = text.map(|bounds| bounds.map(|corner| corner[axis])) {
                (low, high) = (low.max(to - side), high.min(from));
                // A text that is larger than the view.
                if low > high {
                    (low, high) = ((low + high) / 2.0, (low + high) / 2.0);
                }
            }
            let at = match anywhere {
                true => low + (high - low) * rng.random::<f64>(),
                false => (low + high) / 2.0,
            };
            view.by[axis] = -at;
        }
        view
    }

    /// Where a place of the picture is in the view.
    fn seen(&self, [x, y]: Point) -> Point {
        let [a, b] = self.turn;
        [
            a[0] * x + a[1] * y + self.by[0],
            b[0] * x + b[1] * y + self.by[1],
        ]
    }

    /// Where a place of the view is in the picture.
    fn back(&self, [x, y]: Point) -> Point {
        let [[a, b], [c, d]] = self.turn;
        let (x, y) = (x - self.by[0], y - self.by[1]);
        let size = a * d - b * c;
        [(d * x - b * y) / size, (a * y - c * x) / size]
    }

    /// An outline of the view, in the picture.
    pub fn outline_back(&self, outline: &Polygon) -> Polygon {
        outline.mapped(|point| self.back(point))
    }

    /// The texts that are in view. Of which little is seen, they count as ignored.
    pub fn truths(&self, truths: &[Truth]) -> Vec<Truth> {
        let view = Polygon::rectangle([0.0; 2], [f64::from(self.size.0), f64::from(self.size.1)]);
        let seen = truths.iter().filter_map(|truth| {
            let mut seen = truth.mapped(|outline| outline.mapped(|point| self.seen(point)));
            let share = seen.polygon.common_area(&view) / seen.polygon.area();
            seen.ignored |= share <= LEAST_SEEN;
            (share > 0.0).then_some(seen)
        });
        seen.collect()
    }

    /// What is seen of the picture. Where it becomes smaller by a whole number of times, its pixels are first put together.
    pub fn picture(&self, picture: &RgbImage) -> RgbImage {
        let times = (1.0 / self.scale + 1e-6)
            .floor()
            .clamp(1.0, f64::from(MOST_TOGETHER)) as u32;
        let (width, height) = picture.dimensions();
        let smaller = (times > 1).then(|| put_together(picture, times));
        let source = smaller.as_ref().unwrap_or(picture);
        let wide = (source.width().min(source.height()) < 2).then(|| at_least_two(source));
        let source = Source {
            ends: [width, height].map(|side| fixed(f64::from(side) / f64::from(times) - 0.5)),
            picture: wide.as_ref().unwrap_or(source),
        };
        // In pixels of what is looked at, from the centre of its first one; along a row, and from row to row.
        let back = |place: Point| self.back(place).map(|at| at / f64::from(times) - 0.5);
        let [first, right, below] = [[0.5, 0.5], [1.5, 0.5], [0.5, 1.5]].map(back);
        let step = [0, 1].map(|k| fixed(right[k] - first[k]));
        let mut seen = RgbImage::new(self.size.0, self.size.1);
        for (y, row) in seen.rows_mut().enumerate() {
            let start = [0, 1].map(|k| fixed(first[k] + y as f64 * (below[k] - first[k])));
            for (x, pixel) in row.enumerate() {
                let place = [0, 1].map(|k| start[k] + x as i64 * step[k]);
                pixel.0 = source.colour(place);
            }
        }
        seen
    }
}

/// A picture with its last row and column again where it has only one: between two pixels there is something.
fn at_least_two(picture: &RgbImage) -> RgbImage {
    let (width, height) = picture.dimensions();
    RgbImage::from_fn(width.max(2), height.max(2), |x, y| {
        *picture.get_pixel(x.min(width - 1), y.min(height - 1))
    })
}

/// Bits behind the point of a place in a picture.
const BITS: u32 = 32;

fn fixed(at: f64) -> i64 {
    (at * f64::from(BITS).exp2()).round() as i64
}

/// A picture whose colours are asked for at places between pixels; whole numbers are their centres.
struct Source<'a> {
    picture: &'a RgbImage,
    /// Where it ends.
    ends: [i64; 2],
}

impl Source<'_> {
    /// The colour between the centres of the four nearest pixels; the picture goes on beyond those of its outermost ones.
    fn colour(&self, [x, y]: [i64; 2]) -> [u8; 3] {
        let half = 1 << (BITS - 1);
        let (width, height) = (
            self.picture.width() as usize,
            self.picture.height() as usize,
        );
        if x < -half
            || y < -half
            || x >= self.ends[0]
            || y >= self.ends[1]
            || width < 2
            || height < 2
        {
            return BESIDE.0;
        }
        // The pixel before it, and how far it is from there, of 256.
        let between = |at: i64, count: usize| {
            let at = at.max(0);
            let pixel = (at >> BITS) as usize;
            match pixel <= count - 2 {
                true => (pixel, (at >> (BITS - 8)) as u32 & 255),
                false => (count - 2, 256),
            }
        };
        let ((column, dx), (row, dy)) = (between(x, width), between(y, height));
        let colours = self.picture.as_raw();
        let two = |row: usize| &colours[3 * (row * width + column)..][..6];
        let (upper, lower) = (two(row), two(row + 1));
        [0, 1, 2].map(|k| {
            let along = |two: &[u8]| u32::from(two[k]) * (256 - dx) + u32::from(two[k + 3]) * dx;
            ((along(upper) * (256 - dy) + along(lower) * dy + (1 << 15)) >> 16) as u8
        })
    }
}

/// A picture of means over squares of so many pixels a side; at its end, of what is left.
fn put_together(picture: &RgbImage, times: u32) -> RgbImage {
    let (width, height) = picture.dimensions();
    RgbImage::from_fn(width.div_ceil(times), height.div_ceil(times), |x, y| {
        let (columns, rows) = (
            x * times..((x + 1) * times).min(width),
            y * times..((y + 1) * times).min(height),
        );
        let count = (columns.len() * rows.len()) as u32;
        let mut sums = [count / 2; 3];
        for row in rows {
            for column in columns.clone() {
                let pixel = picture.get_pixel(column, row).0;
                (0..3).for_each(|k| sums[k] += u32::from(pixel[k]));
            }
        }
        Rgb(sums.map(|sum| (sum / count) as u8))
    })
}

/// Changes brightness, contrast and saturation by up to this share.
pub fn coloured(picture: &mut RgbImage, by: f64, rng: &mut ChaCha8Rng) {
    let [brightness, contrast, saturation] =
        [(); 3].map(|()| (1.0 + by * rng.random_range(-1.0..=1.0)) as f32);
    // Whole numbers with 12 bits behind the point: what a channel, the grey and the middle count in the result.
    let whole = |share: f32| (share * 4096.0).round() as i32;
    let gain = contrast * brightness;
    let (of_channel, of_grey) = (whole(saturation * gain), whole((1.0 - saturation) * gain));
    let rest = whole(127.5 * (1.0 - contrast) * brightness) + 2048;
    for pixel in picture.pixels_mut() {
        let [r, g, b] = pixel.0.map(i32::from);
        let shared = (306 * r + 601 * g + 117 * b) / 1024 * of_grey + rest;
        pixel.0 =
            [r, g, b].map(|colour| ((colour * of_channel + shared) >> 12).clamp(0, 255) as u8);
    }
}

/// A page with its texts, of this size and changed at random.
pub fn augmented(
    picture: &RgbImage,
    truths: &[Truth],
    size: (u32, u32),
    settings: &AugmentSettings,
    rng: &mut ChaCha8Rng,
) -> (RgbImage, Vec<Truth>) {
    let view = View::random(picture.dimensions(), size, truths, settings, rng);
    let mut seen = view.picture(picture);
    if settings.colour > 0.0 {
        coloured(&mut seen, settings.colour, rng);
    }
    (seen, view.truths(truths))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng;

    const RED: Rgb<u8> = Rgb([250, 10, 10]);
    const GREEN: Rgb<u8> = Rgb([10, 200, 10]);

    fn text(from: Point, to: Point) -> Truth {
        Truth {
            polygon: Polygon::rectangle(from, to),
            text: "text".to_owned(),
            ignored: false,
        }
    }

    /// A green page with red texts.
    fn page(width: u32, height: u32, truths: &[Truth]) -> RgbImage {
        let mut picture = RgbImage::from_pixel(width, height, GREEN);
        for truth in truths {
            truth
                .polygon
                .fill((width as usize, height as usize), |row, columns| {
                    columns.for_each(|column| picture.put_pixel(column as u32, row as u32, RED));
                });
        }
        picture
    }

    const ALL: AugmentSettings = AugmentSettings {
        rotate: 40.0,
        flip: 0.5,
        scale: [0.5, 2.5],
        crop: 1.0,
        colour: 0.0,
    };

    proptest! {
        #[test]
        fn texts_are_moved_with_their_picture_and_one_is_in_view(seed in 0_u64..1000) {
            let rng = &mut ChaCha8Rng::seed_from_u64(seed);
            let truths = [text([20.0, 30.0], [70.0, 50.0]), text([100.0, 40.0], [120.0, 110.0])];
            let picture = page(160, 120, &truths);
            let (seen, moved) = augmented(&picture, &truths, (96, 80), &ALL, rng);
            prop_assert!(moved.iter().any(|truth| !truth.ignored), "{moved:?}");
            let mut inside = vec![false; 96 * 80];
            for truth in &moved {
                truth.polygon.fill((96, 80), |row, columns| inside[row * 96..][columns].fill(true));
            }
            for (x, y, pixel) in seen.enumerate_pixels() {
                let centre = [f64::from(x) + 0.5, f64::from(y) + 0.5];
                let far = moved.iter().all(|truth| truth.polygon.distance(centre) > 2.0);
                if far {
                    let red = pixel.0[0] > 200 && pixel.0[1] < 60;
                    prop_assert_eq!(red, inside[y as usize * 96 + x as usize], "{},{}: {:?}", x, y, pixel);
                }
            }
        }

        #[test]
        fn what_is_found_in_a_view_is_found_in_the_picture(seed in 0_u64..1000, x in 0.0..90.0, y in 0.0..70.0) {
            let rng = &mut ChaCha8Rng::seed_from_u64(seed);
            let view = View::random((160, 120), (96, 80), &[], &ALL, rng);
            let [a, b] = view.seen(view.back([x, y]));
            prop_assert!((a - x).abs() < 1e-9 && (b - y).abs() < 1e-9);
        }
    }

    #[test]
    fn a_whole_page_is_seen_in_the_upper_left_with_nothing_lost() {
        let truths = [text([40.0, 20.0], [80.0, 40.0])];
        let view = View::whole((200, 100), (100, 100));
        let seen = view.picture(&page(200, 100, &truths));
        assert_eq!(
            (
                *seen.get_pixel(30, 15),
                *seen.get_pixel(50, 30),
                *seen.get_pixel(50, 60)
            ),
            (RED, GREEN, BESIDE)
        );
        let moved = view.truths(&truths);
        assert_eq!(moved, [text([20.0, 10.0], [40.0, 20.0])]);
        assert_eq!(view.outline_back(&moved[0].polygon), truths[0].polygon);
    }

    #[test]
    fn a_smaller_picture_is_a_mean_of_the_larger() {
        let stripes = RgbImage::from_fn(120, 120, |x, _| {
            if x % 2 == 0 {
                Rgb([0; 3])
            } else {
                Rgb([200; 3])
            }
        });
        let seen = View::whole((120, 120), (30, 30)).picture(&stripes);
        assert!(
            seen.pixels().all(|pixel| pixel.0[0].abs_diff(100) <= 1),
            "{:?}",
            seen.get_pixel(3, 3)
        );
    }

    #[test]
    fn a_line_of_pixels_is_a_picture_too() {
        for (width, height) in [(1, 1), (1, 9), (300, 10)] {
            let picture = RgbImage::from_pixel(width, height, RED);
            let view = View::whole((width, height), (30, 30));
            let seen = view.picture(&picture);
            assert_eq!(*seen.get_pixel(0, 0), RED, "{width} x {height}");
        }
    }

    #[test]
    fn with_all_at_rest_nothing_changes() {
        let truths = [text([4.0, 4.0], [20.0, 12.0])];
        let picture = page(40, 30, &truths);
        let rng = &mut ChaCha8Rng::seed_from_u64(3);
        let found = augmented(
            &picture,
            &truths,
            (40, 30),
            &AugmentSettings::default(),
            rng,
        );
        assert_eq!(found, (picture, truths.to_vec()));
    }

    #[test]
    fn a_text_of_which_little_is_seen_is_ignored_and_one_of_which_nothing_is_dropped() {
        let truths = [
            text([0.0, 0.0], [10.0, 10.0]),
            text([60.0, 0.0], [200.0, 10.0]),
            text([110.0, 0.0], [120.0, 10.0]),
        ];
        let view = View {
            size: (100, 100),
            ..View::whole((200, 200), (200, 200))
        };
        let seen: Vec<bool> = view
            .truths(&truths)
            .iter()
            .map(|truth| truth.ignored)
            .collect();
        assert_eq!(seen, [false, true]);
    }

    #[test]
    fn the_same_seed_makes_the_same_page() {
        let truths = [text([4.0, 4.0], [20.0, 12.0])];
        let settings = AugmentSettings { colour: 0.5, ..ALL };
        let made = |seed| {
            augmented(
                &page(40, 30, &truths),
                &truths,
                (32, 32),
                &settings,
                &mut ChaCha8Rng::seed_from_u64(seed),
            )
        };
        assert_eq!(made(5), made(5));
        assert_ne!(made(5).0, made(6).0);
    }
}
