//! A chart as PNG: its SVG, drawn with the fonts of this machine.

use std::sync::Arc;

use ::png::{ColorType, Encoder, EncodingError};
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

use messages::exit::Failure;

/// What every file has in it that was made here: PNG's keyword and its text.
const SOFTWARE: (&str, &str) = ("Software", "tune plot");

/// The same as it stands in the file.
pub(super) const MADE_BY: &str = "Software\0tune plot";

/// Draws an SVG at so many pixels for each of its own.
///
/// # Errors
/// The machine has no font (2); it is too large to be drawn (2).
pub(super) fn png(svg: &str, zoom: f64) -> Result<Vec<u8>, Failure> {
    let failed = |e: &dyn std::fmt::Display| Failure::internal(format!("the chart as PNG: {e}"));
    let tree = Tree::from_str(svg, &options()?).map_err(|e| failed(&e))?;
    let side = |length: f32| (f64::from(length) * zoom).round().max(1.0) as u32;
    let (width, height) = (side(tree.size().width()), side(tree.size().height()));
    let mut pixels = Pixmap::new(width, height).ok_or_else(|| {
        let size = format!("--width, --dpi: {width} x {height} pixels are too many");
        Failure::input(size)
    })?;
    let zoom = zoom as f32;
    resvg::render(
        &tree,
        Transform::from_scale(zoom, zoom),
        &mut pixels.as_mut(),
    );
    encoded(pixels).map_err(|e| failed(&e))
}

/// With a text that says who made it: an earlier file of ours may be replaced.
fn encoded(pixels: Pixmap) -> Result<Vec<u8>, EncodingError> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, pixels.width(), pixels.height());
    encoder.set_color(ColorType::Rgba);
    encoder.add_text_chunk(SOFTWARE.0.to_owned(), SOFTWARE.1.to_owned())?;
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&pixels.take_demultiplied())?;
    writer.finish()?;
    Ok(bytes)
}

fn options() -> Result<Options<'static>, Failure> {
    let mut fonts = fontdb::Database::new();
    fonts.load_system_fonts();
    let families = || {
        fonts
            .faces()
            .filter_map(|face| Some(face.families.first()?.0.clone()))
    };
    let sans = families().find(|name| name.contains("Sans") && !name.contains("Mono"));
    let family = sans.or_else(|| families().next()).ok_or_else(|| {
        Failure::input(
            "--out: PNG needs a font, and this machine has none. Install one (fonts-dejavu-core), or write .svg",
        )
    })?;
    fonts.set_sans_serif_family(&family);
    Ok(Options {
        font_family: family,
        fontdb: Arc::new(fonts),
        ..Options::default()
    })
}
