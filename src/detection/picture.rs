//! Pictures from files: JPEG, PNG and WebP, upright, within limits.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use config::{Problem, Problems};
use files::bounded;
use image::{DynamicImage, ImageDecoder, ImageReader, Limits, Pixel, Rgb, RgbImage, Rgba};
use rayon::prelude::*;

/// Longest file of a picture, in bytes.
pub const MAX_FILE: u64 = 256 << 20;

/// Most pixels of a picture: 300 MB as RGB.
pub const MAX_PIXELS: u64 = 100_000_000;

/// The suffixes of pictures that are looked for in a directory.
pub const SUFFIXES: [&str; 4] = ["jpg", "jpeg", "png", "webp"];

/// What is expected of a picture's file.
pub const EXPECTED: &str = "a JPEG, PNG or WebP picture";

/// Whether a file is a picture, by its suffix.
pub fn is_picture(path: &Path) -> bool {
    let suffix = path
        .extension()
        .map(|suffix| suffix.to_string_lossy().to_lowercase());
    suffix.is_some_and(|suffix| SUFFIXES.contains(&suffix.as_str()))
}

/// The pictures in a directory, in the order of their names; of a file, that one.
///
/// # Errors
/// There are none, or the directory cannot be read; says so for people.
pub fn listed(path: &Path) -> Result<Vec<PathBuf>, String> {
    if !path.is_dir() {
        return match path.exists() {
            true => Ok(vec![path.to_owned()]),
            false => {
                Err("no such file; expected a picture, or a directory with pictures".to_owned())
            }
        };
    }
    let entries = std::fs::read_dir(path).map_err(|error| error.to_string())?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let all: Result<Vec<PathBuf>, _> = paths.collect();
    let mut all = all.map_err(|error| error.to_string())?;
    all.retain(|path| is_picture(path) && path.is_file());
    all.sort();
    match all.is_empty() {
        true => Err(format!(
            "no picture in it; expected names that end in {}",
            SUFFIXES.join(", ")
        )),
        false => Ok(all),
    }
}

/// Reads the bytes of a picture's file.
///
/// # Errors
/// It cannot be read or is too long; says so for people.
pub fn read(path: &Path) -> Result<Vec<u8>, String> {
    bounded::read(path, MAX_FILE).map_err(|error| error.to_string())
}

/// The picture in a file.
///
/// # Errors
/// It cannot be read or decoded.
pub fn open(path: &Path) -> Result<RgbImage, Problems> {
    let wrong = |found| Problem::in_file(path, "picture", found, EXPECTED);
    Ok(decode(&read(path).map_err(wrong)?).map_err(wrong)?)
}

/// Whether all of these can be decoded.
///
/// # Errors
/// Each that cannot.
pub fn must_all_open(paths: &[PathBuf]) -> Result<(), Problems> {
    let wrong = paths.par_iter().filter_map(|path| open(path).err());
    let wrong: Vec<Problem> = wrong.flat_map_iter(|found| found.0).collect();
    Problems(wrong).or(())
}

/// Decodes a picture and turns it as its EXIF data say. What shines through is white.
///
/// # Errors
/// It is no picture that can be read, or has too many pixels; says so for people.
pub fn decode(bytes: &[u8]) -> Result<RgbImage, String> {
    let told = |error: image::ImageError| error.to_string();
    let reader = || ImageReader::new(Cursor::new(bytes)).with_guessed_format();
    let mut reader = reader().map_err(|error| error.to_string())?;
    let mut limits = Limits::no_limits();
    // 16 bits a channel, and room for the decoder.
    limits.max_alloc = Some(MAX_PIXELS * 16);
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(told)?;
    let (width, height) = decoder.dimensions();
    let pixels = u64::from(width) * u64::from(height);
    if pixels > MAX_PIXELS {
        return Err(format!(
            "{width} x {height} pixels, more than {MAX_PIXELS} in all"
        ));
    }
    let orientation = decoder.orientation().map_err(told)?;
    let mut picture = DynamicImage::from_decoder(decoder).map_err(told)?;
    picture.apply_orientation(orientation);
    if !picture.color().has_alpha() {
        return Ok(picture.into_rgb8());
    }
    let transparent = picture.into_rgba8();
    let over_white = |pixel: &Rgba<u8>| {
        let mut below = Rgba([255; 4]);
        below.blend(pixel);
        below.to_rgb()
    };
    let (width, height) = transparent.dimensions();
    let mut opaque = RgbImage::from_pixel(width, height, Rgb([255; 3]));
    for (to, from) in opaque.pixels_mut().zip(transparent.pixels()) {
        *to = over_white(from);
    }
    Ok(opaque)
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::ImageFormat;

    fn encoded(picture: &DynamicImage, format: ImageFormat) -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        picture.write_to(&mut bytes, format).unwrap();
        bytes.into_inner()
    }

    /// Red on the left, blue on the right.
    fn halves() -> DynamicImage {
        let colour = |x: u32| {
            if x < 16 {
                Rgb([200, 0, 0])
            } else {
                Rgb([0, 0, 200])
            }
        };
        RgbImage::from_fn(32, 16, |x, _| colour(x)).into()
    }

    #[test]
    fn the_formats_are_told_by_their_content() {
        for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::WebP] {
            let found = decode(&encoded(&halves(), format)).unwrap();
            assert_eq!(found.dimensions(), (32, 16));
            let [red, blue] = [found.get_pixel(4, 8).0, found.get_pixel(28, 8).0];
            assert!(
                red[0] > 180 && red[2] < 20 && blue[0] < 20 && blue[2] > 180,
                "{format:?}"
            );
        }
    }

    #[test]
    fn a_picture_is_turned_as_its_camera_was() {
        let jpeg = encoded(&halves(), ImageFormat::Jpeg);
        // Behind the start of the picture a segment with one entry: orientation (0x0112), a short, 6 (a quarter to the right).
        let entry = [0x01, 0x12, 0, 3, 0, 0, 0, 1, 0, 6, 0, 0];
        let mut segment = b"\xff\xe1\x00\x22Exif\0\0MM\0*\0\0\0\x08\0\x01".to_vec();
        segment.extend(entry);
        segment.extend([0; 4]);
        let turned = [&jpeg[..2], &segment, &jpeg[2..]].concat();
        let found = decode(&turned).unwrap();
        assert_eq!(found.dimensions(), (16, 32));
        assert!(found.get_pixel(8, 4).0[0] > 180 && found.get_pixel(8, 28).0[2] > 180);
    }

    #[test]
    fn what_is_transparent_is_white() {
        let clear = image::RgbaImage::from_pixel(2, 2, Rgba([0, 0, 0, 0]));
        let found = decode(&encoded(&clear.into(), ImageFormat::Png)).unwrap();
        assert_eq!(found.get_pixel(0, 0).0, [255; 3]);
    }

    #[test]
    fn no_picture_is_an_error_and_so_is_half_of_one() {
        assert!(decode(b"no picture").is_err());
        assert!(decode(b"").is_err());
        let png = encoded(&halves(), ImageFormat::Png);
        assert!(decode(&png[..png.len() / 2]).is_err());
    }

    #[test]
    fn a_bomb_is_refused_by_its_header() {
        let mut png = encoded(&halves(), ImageFormat::Png);
        // Width and height are the first fields of the first chunk, with a checksum behind its 13 bytes.
        png[16..24].copy_from_slice(&[0, 1, 0x86, 0xa0, 0, 1, 0x86, 0xa0]);
        let sum = crc(&png[12..29]);
        png[29..33].copy_from_slice(&sum.to_be_bytes());
        let found = decode(&png).unwrap_err();
        assert_eq!(found, "100000 x 100000 pixels, more than 100000000 in all");
    }

    fn crc(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(u32::MAX, |sum, byte| {
            (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
                (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg())
            })
        })
    }
}
