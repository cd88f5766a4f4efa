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

/// Most samples a pixel, in each direction, where a picture becomes smaller.
const MOST_SAMPLES: usize = 8;

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

    /// What is seen of the picture: each pixel is a mean over its place there.
    pub fn picture(&self, picture: &RgbImage) -> RgbImage {
        let samples = (1.0 / self.scale).round().max(1.0) as usize;
        let samples = samples.min(MOST_SAMPLES);
        let step = |of: usize| (of as f64 + 0.5) / samples as f64;
        let origin = self.back([0.0; 2]);
        let along = |corner: Point| {
            let to = self.back(corner);
            [to[0] - origin[0], to[1] - origin[1]]
        };
        let (right, down) = (along([1.0, 0.0]), along([0.0, 1.0]));
        let mut seen = RgbImage::new(self.size.0, self.size.1);
        for (x, y, pixel) in seen.enumerate_pixels_mut() {
            let mut sum = [0.0_f32; 3];
            for k in 0..samples * samples {
                let (x, y) = (
                    f64::from(x) + step(k % samples),
                    f64::from(y) + step(k / samples),
                );
                let place = [
                    origin[0] + x * right[0] + y * down[0],
                    origin[1] + x * right[1] + y * down[1],
                ];
                let colour = interpolated(picture, place);
                (0..3).for_each(|c| sum[c] += colour[c]);
            }
            let count = (samples * samples) as f32;
            pixel.0 = sum.map(|sum| (sum / count).round() as u8);
        }
        seen
    }
}

/// The colour at a place, between the centres of the four nearest pixels.
fn interpolated(picture: &RgbImage, [x, y]: Point) -> [f32; 3] {
    let (width, height) = picture.dimensions();
    let beside = x < 0.0 || y < 0.0 || x >= f64::from(width) || y >= f64::from(height);
    if beside || width == 0 {
        return BESIDE.0.map(f32::from);
    }
    // The picture goes on beyond the centres of its outermost pixels.
    let (x, y) = ((x - 0.5).max(0.0), (y - 0.5).max(0.0));
    let (column, row) = (x as u32, y as u32);
    let (right, below) = ((column + 1).min(width - 1), (row + 1).min(height - 1));
    let (dx, dy) = ((x - f64::from(column)) as f32, (y - f64::from(row)) as f32);
    let at = |x: u32, y: u32| picture.get_pixel(x, y).0;
    let [a, b, c, d] = [
        at(column, row),
        at(right, row),
        at(column, below),
        at(right, below),
    ];
    [0, 1, 2].map(|k| {
        let [a, b, c, d] = [a, b, c, d].map(|colour| f32::from(colour[k]));
        (a + (b - a) * dx) * (1.0 - dy) + (c + (d - c) * dx) * dy
    })
}

/// Changes brightness, contrast and saturation by up to this share.
pub fn coloured(picture: &mut RgbImage, by: f64, rng: &mut ChaCha8Rng) {
    let [brightness, contrast, saturation] =
        [(); 3].map(|()| (1.0 + by * rng.random_range(-1.0..=1.0)) as f32);
    for pixel in picture.pixels_mut() {
        let [r, g, b] = pixel.0.map(f32::from);
        let grey = 0.299 * r + 0.587 * g + 0.114 * b;
        pixel.0 = [r, g, b].map(|colour| {
            let colour = grey + (colour - grey) * saturation;
            (((colour - 127.5) * contrast + 127.5) * brightness).round() as u8
        });
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
