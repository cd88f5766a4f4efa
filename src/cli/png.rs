//! A chart as PNG: its SVG, drawn with the fonts of this machine.

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

use messages::exit::Failure;

/// What every file has in it that was made here: PNG's keyword and its text.
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
    let bytes = pixels.encode_png().map_err(|e| failed(&e))?;
    Ok(signed(bytes))
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

/// With a text chunk that says who made it, behind the header (PNG specification, 11.3.4.3): an earlier file of ours may
/// be replaced.
fn signed(mut png: Vec<u8>) -> Vec<u8> {
    // Signature, and the header's length, name, 13 bytes and check.
    const HEADER: usize = 8 + 4 + 4 + 13 + 4;
    let content = [b"tEXt", MADE_BY.as_bytes()].concat();
    let mut chunk = (MADE_BY.len() as u32).to_be_bytes().to_vec();
    chunk.extend(&content);
    chunk.extend(crc32fast::hash(&content).to_be_bytes());
    png.splice(HEADER..HEADER, chunk);
    png
}
