//! The colours, for light and dark. Hues are those that people with any kind of colour blindness tell apart; text and
//! lines stand out from the surface by 4.5 to 1 and more, but for what is faint on purpose.

use std::fmt::Write;

/// Where a chart stands.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    strum::EnumMessage,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[strum(serialize_all = "lowercase")]
pub enum Theme {
    /// On white.
    #[default]
    Light,
    /// On black.
    Dark,
    /// As the reader's system has it.
    Auto,
}

/// A colour's class, its colour on white, and on black.
const COLOURS: [(&str, &str, &str); 17] = [
    ("surface", "#ffffff", "#15181c"),
    ("text", "#1b1f24", "#e8eaed"),
    ("soft", "#56606b", "#a9b2bc"),
    ("grid", "#e3e6ea", "#2c323a"),
    ("main", "#1668ac", "#6cb2ee"),
    ("second", "#b35408", "#f0a458"),
    ("third", "#157a56", "#58c79d"),
    ("fault", "#b3203d", "#f4778d"),
    ("faint", "#98a2ad", "#5f6a76"),
    ("level0", "#edf3f9", "#1b2733"),
    ("level1", "#d3e4f3", "#1e364b"),
    ("level2", "#b0cee9", "#234a69"),
    ("level3", "#82b2da", "#2e628b"),
    ("level4", "#5394c8", "#417eb0"),
    ("level5", "#2b74b1", "#659fce"),
    ("level6", "#12558e", "#97c6ea"),
    ("raised", "#f6f7f9", "#1c2026"),
];

/// How marks look, whatever their colour.
const SHAPES: &str = "\
svg.chart{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;font-variant-numeric:tabular-nums}
svg.chart path{fill:none;stroke-linejoin:round}
svg.chart text{fill:COLOUR(soft)}
svg.chart .back{fill:COLOUR(surface);stroke:none}
svg.chart .grid{stroke:COLOUR(grid);stroke-width:1}
svg.chart .full{stroke-width:2}
svg.chart .thin{stroke-width:1;stroke-opacity:.55}
svg.chart .dashed{stroke-width:1.5;stroke-dasharray:5 4}
svg.chart .segment{stroke-width:1.5}
svg.chart .dot{stroke-linecap:round;stroke-opacity:.75}
svg.chart .band{stroke:none;fill-opacity:.16}
svg.chart .box{stroke:none}
svg.chart .box.thin{fill-opacity:.3}
";

/// The style sheet of charts. `Auto`: by custom properties (`--main`), which a page around them can use, too.
pub fn css(theme: Theme) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    if theme == Theme::Auto {
        let block = |dark: bool| {
            let of = |(name, on_white, on_black): &(&str, &str, &str)| {
                format!("--{name}:{};", if dark { on_black } else { on_white })
            };
            COLOURS.iter().map(of).collect::<String>()
        };
        let _ = write!(
            out,
            ":root{{color-scheme:light dark;{}}}\n@media screen and (prefers-color-scheme:dark){{:root{{{}}}}}\n",
            block(false),
            block(true)
        );
    }
    let mut shapes = SHAPES.to_owned();
    for (name, on_white, on_black) in COLOURS {
        let colour = match theme {
            Theme::Light => on_white.to_owned(),
            Theme::Dark => on_black.to_owned(),
            Theme::Auto => format!("var(--{name})"),
        };
        shapes = shapes.replace(&format!("COLOUR({name})"), &colour);
        if !matches!(name, "surface" | "soft" | "grid" | "raised") {
            let _ = writeln!(
                out,
                "svg.chart .{name}{{stroke:{colour}}}svg.chart .{name}.band,svg.chart .{name}.box,svg.chart text.{name}{{fill:{colour};stroke:none}}"
            );
        }
    }
    // Colours first: a shape may take the line away.
    out + &shapes
}
