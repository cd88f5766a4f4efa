//! From the model to SVG: the layout, and each kind of mark.

use std::collections::BTreeSet;

use super::text::{self, escaped, fitted, put, px};
use super::theme::css;
use super::{Chart, Ink, LEVELS, Layer, Mark, Size, Stroke, Theme};

/// Pixels between lines of text.
const LINE: f64 = 18.0;

/// The most that names beside the vertical axis take, as a share of the width.
const NAMES: f64 = 0.34;

/// Pixels that a number below the horizontal axis needs.
const TICK: f64 = 64.0;

impl Chart {
    /// The chart in this size: for a page that has the [`css`] of [`Theme::Auto`] where `theme` is `None`, else by itself.
    pub fn svg(&self, size: Size, theme: Option<Theme>) -> String {
        let frame = Frame::new(self, size);
        // A file has no script.
        let zoom = theme.is_none().then(|| frame.zoom()).flatten();
        let mut out = self.head(size, theme, &zoom.unwrap_or_default());
        frame.legend(&mut out);
        frame.axes(&mut out);
        out += "<g class=\"marks\">";
        for layer in &self.layers {
            frame.mark(&mut out, layer);
        }
        out + "</g></svg>"
    }

    /// The first element, with more attributes of it in `zoom`.
    fn head(&self, size: Size, theme: Option<Theme>, zoom: &str) -> String {
        let Size { width, height } = size;
        let id = escaped(&self.id);
        let (w, h) = (px(width), px(height));
        // By itself it says how large it is; in a page that is the page's.
        let alone = match theme {
            None => String::new(),
            Some(_) => {
                format!(" xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\"")
            }
        };
        let mut out = format!(
            "<svg class=\"chart\" viewBox=\"0 0 {w} {h}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\"{alone}{zoom}>\
             <title id=\"{id}-t\">{}</title><desc id=\"{id}-d\">{}</desc>",
            escaped(&self.title),
            escaped(&self.description)
        );
        if let Some(theme) = theme {
            out += &format!(
                "<style>{}</style><path class=\"back\" d=\"M0 0H{w}V{h}H0z\"/>",
                css(theme)
            );
        }
        out
    }
}

/// Where everything is.
struct Frame<'a> {
    chart: &'a Chart,
    size: Size,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    legend: Vec<Entry<'a>>,
    /// Rows of words below the horizontal axis.
    rows: usize,
}

/// Words of the legend, and where they are.
struct Entry<'a> {
    layer: &'a Layer,
    name: String,
    x: f64,
    y: f64,
}

/// Pixels of a legend's patch, and between its entries.
const PATCH: f64 = 16.0;

impl<'a> Frame<'a> {
    fn new(chart: &'a Chart, size: Size) -> Frame<'a> {
        let legend = legend(chart, size);
        let mut top = legend.last().map_or(4.0, |entry| entry.y + 10.0);
        if !chart.y.label.is_empty() {
            top += LINE;
        }
        let many = chart.y.scale.ticks(vertical_ticks(size.height));
        let widest = many.iter().map(|tick| text::width(&tick.text));
        let widest = widest.fold(0.0, f64::max).min(NAMES * size.width);
        let left = widest + 12.0;
        let rows = chart.x.scale.of_names().map_or(1, |names| {
            let room = (size.width - left - 16.0) / names.len().max(1) as f64;
            let fits = names.iter().all(|name| text::width(name) < room - 6.0);
            if fits { 1 } else { 2 }
        });
        let label = if chart.x.label.is_empty() { 0.0 } else { LINE };
        Frame {
            chart,
            size,
            left,
            right: size.width - 14.0,
            top: top + 6.0,
            bottom: size.height - LINE * rows as f64 - label - 2.0,
            legend,
            rows,
        }
    }

    /// What a page's script needs to know to show a part of the chart as a whole: where the frame is, and both scales. `None` where
    /// one of them has names or times.
    fn zoom(&self) -> Option<String> {
        let (x, y) = (
            self.chart.x.scale.attribute()?,
            self.chart.y.scale.attribute()?,
        );
        let frame = [self.left, self.right, self.top, self.bottom]
            .map(px)
            .join(" ");
        Some(format!(
            " data-frame=\"{frame}\" data-x=\"{x}\" data-y=\"{y}\""
        ))
    }

    fn x(&self, share: f64) -> f64 {
        self.left + share * (self.right - self.left)
    }

    fn y(&self, share: f64) -> f64 {
        // Names read from top to bottom.
        let named = self.chart.y.scale.of_names().is_some();
        let share = if named { share } else { 1.0 - share };
        self.top + share * (self.bottom - self.top)
    }

    /// Where a point is; `None` outside.
    fn at(&self, x: f64, y: f64) -> Option<(f64, f64)> {
        let (x, y) = (self.chart.x.scale.place(x)?, self.chart.y.scale.place(y)?);
        Some((self.x(x), self.y(y)))
    }

    /// Where an end of a line or box is, which stops at the frame.
    fn held(&self, x: f64, y: f64) -> Option<(f64, f64)> {
        let (x, y) = (self.chart.x.scale.held(x)?, self.chart.y.scale.held(y)?);
        Some((self.x(x), self.y(y)))
    }

    fn legend(&self, out: &mut String) {
        for entry in &self.legend {
            let ink = ink(entry.layer.ink);
            let (x, y) = (entry.x, entry.y - 4.0);
            let (from, middle, to) = (px(x), px(x + 6.0), px(x + 12.0));
            let height = px(y);
            *out += &match &entry.layer.mark {
                Mark::Dots(_, _) => format!(
                    "<path class=\"dot {ink}\" stroke-width=\"7\" d=\"M{middle} {height}h0\"/>"
                ),
                Mark::Lines { stroke, .. } => {
                    // A script that looks for lines is not to find this one.
                    let class = stroke_class(*stroke).trim_end_matches(" apart");
                    format!("<path class=\"{class} {ink}\" d=\"M{from} {height}H{to}\"/>")
                }
                Mark::Steps(_) | Mark::Segments(_) => {
                    format!("<path class=\"full {ink}\" d=\"M{from} {height}H{to}\"/>")
                }
                Mark::Band(_) | Mark::Boxes(_) => format!(
                    "<path class=\"{} {ink}\" d=\"M{from} {}h12v10h-12z\"/>",
                    area_class(&entry.layer.mark),
                    px(y - 5.0)
                ),
                Mark::Words(_) => String::new(),
            };
            *out += &format!(
                "<text x=\"{}\" y=\"{}\">{}</text>",
                px(x + PATCH),
                px(entry.y),
                escaped(&entry.name)
            );
        }
    }

    fn axes(&self, out: &mut String) {
        *out += "<g class=\"ticks\">";
        self.vertical_axis(out);
        self.horizontal_axis(out);
        *out += "</g>";
        let Size { height, .. } = self.size;
        if !self.chart.y.label.is_empty() {
            let label = fitted(&self.chart.y.label, self.right);
            *out += &format!(
                "<text x=\"2\" y=\"{}\">{}</text>",
                px(self.top - 10.0),
                escaped(&label)
            );
        }
        if !self.chart.x.label.is_empty() {
            let label = fitted(&self.chart.x.label, self.right - 4.0);
            *out += &format!(
                "<text text-anchor=\"end\" x=\"{}\" y=\"{}\">{}</text>",
                px(self.right),
                px(height - 5.0),
                escaped(&label)
            );
        }
    }

    fn vertical_axis(&self, out: &mut String) {
        let named = self.chart.y.scale.of_names().is_some();
        let mut grid = String::new();
        for tick in self.chart.y.scale.ticks(vertical_ticks(self.size.height)) {
            let Some(share) = self.chart.y.scale.place(tick.at) else {
                continue;
            };
            let y = self.y(share);
            if !named {
                grid += &format!("M{} {}H{}", px(self.left), px(y), px(self.right));
            }
            let words = fitted(&tick.text, self.left - 10.0);
            *out += &format!(
                "<text text-anchor=\"end\" x=\"{}\" y=\"{}\">{}</text>",
                px(self.left - 6.0),
                px(y + 4.0),
                titled(&words, &tick.text)
            );
        }
        if !grid.is_empty() {
            *out += &format!("<path class=\"grid\" d=\"{grid}\"/>");
        }
    }

    fn horizontal_axis(&self, out: &mut String) {
        let scale = &self.chart.x.scale;
        let named = scale.of_names().is_some();
        let most = ((self.right - self.left) / TICK) as usize;
        let ticks = scale.ticks(most);
        let room = self.rows as f64 * (self.right - self.left) / ticks.len().max(1) as f64 - 6.0;
        let (mut grid, mut taken) = (String::new(), f64::NEG_INFINITY);
        for (i, tick) in ticks.iter().enumerate() {
            let Some(share) = scale.place(tick.at) else {
                continue;
            };
            let x = self.x(share);
            grid += &format!("M{} {}V{}", px(x), px(self.top), px(self.bottom));
            let words = match named {
                true => fitted(&tick.text, room),
                false => tick.text.clone(),
            };
            let half = text::width(&words) / 2.0;
            // Words stay within the picture, and numbers apart from each other.
            let x = x.min(self.size.width - half - 1.0).max(half + 1.0);
            if !named && x - half < taken + 6.0 {
                continue;
            }
            taken = x + half;
            let row = if self.rows == 2 { i % 2 } else { 0 };
            *out += &format!(
                "<text text-anchor=\"middle\" x=\"{}\" y=\"{}\">{}</text>",
                px(x),
                px(self.bottom + 14.0 + LINE * row as f64),
                titled(&words, &tick.text)
            );
        }
        *out += &format!("<path class=\"grid\" d=\"{grid}\"/>");
    }

    fn mark(&self, out: &mut String, layer: &Layer) {
        let ink = ink(layer.ink);
        match &layer.mark {
            Mark::Dots(points, radius) => {
                let path = self.dots(points);
                let width = px(2.0 * radius);
                let extra = format!(" stroke-width=\"{width}\"");
                element(out, &format!("dot {ink}"), &extra, &path);
            }
            Mark::Lines { lines, stroke } => {
                let paths = lines.iter().map(|line| self.line(line));
                let class = format!("{} {ink}", stroke_class(*stroke));
                match stroke {
                    Stroke::Apart => paths.for_each(|path| element(out, &class, "", &path)),
                    Stroke::Full | Stroke::Thin | Stroke::Dashed => {
                        element(out, &class, "", &paths.collect::<String>());
                    }
                }
            }
            Mark::Steps(points) => element(out, &format!("full {ink}"), "", &self.steps(points)),
            Mark::Band(edges) => {
                let class = format!("{} {ink}", area_class(&layer.mark));
                element(out, &class, "", &self.band(edges));
            }
            Mark::Boxes(boxes) => {
                let class = format!("{} {ink}", area_class(&layer.mark));
                element(out, &class, "", &self.boxes(boxes));
            }
            Mark::Segments(segments) => {
                let path: String = segments
                    .iter()
                    .filter_map(|[x0, y0, x1, y1]| {
                        let (from, to) = (self.held(*x0, *y0)?, self.held(*x1, *y1)?);
                        let to = format!("L{} {}", px(to.0), px(to.1));
                        Some(format!("M{} {}{to}", px(from.0), px(from.1)))
                    })
                    .collect();
                element(out, &format!("segment {ink}"), "", &path);
            }
            Mark::Words(words) => {
                for (x, y, text) in words {
                    let Some((x, y)) = self.held(*x, *y) else {
                        continue;
                    };
                    self.words(out, ink, (x + 6.0, y + 4.0), text);
                }
            }
        }
    }

    /// Words at a place; where there is no room to the right of it, they end at the frame.
    fn words(&self, out: &mut String, ink: &str, (x, y): (f64, f64), text: &str) {
        let short = fitted(text, self.size.width * 0.6);
        let (x, anchor) = match x + text::width(&short) > self.size.width - 2.0 {
            true => (self.size.width - 2.0, " text-anchor=\"end\""),
            false => (x, ""),
        };
        *out += &format!(
            "<text class=\"{ink}\"{anchor} x=\"{}\" y=\"{}\">{}</text>",
            px(x),
            px(y),
            titled(&short, text)
        );
    }

    fn dots(&self, points: &[(f64, f64)]) -> String {
        let mut taken = BTreeSet::new();
        let mut path = String::new();
        for (x, y) in points.iter().filter_map(|(x, y)| self.at(*x, *y)) {
            if taken.insert((x.round() as i64, y.round() as i64)) {
                to(&mut path, 'M', (x, y));
                path.push_str("h0");
            }
        }
        path
    }

    /// A line through points; what lies outside interrupts it.
    fn line(&self, points: &[(f64, f64)]) -> String {
        let (mut path, mut drawing) = (String::new(), false);
        for (x, y) in points {
            let Some(at) = self.at(*x, *y) else {
                drawing = false;
                continue;
            };
            to(&mut path, if drawing { 'L' } else { 'M' }, at);
            drawing = true;
        }
        path
    }

    fn steps(&self, points: &[(f64, f64)]) -> String {
        let mut path = String::new();
        for (x, y) in points.iter().filter_map(|(x, y)| self.held(*x, *y)) {
            if path.is_empty() {
                to(&mut path, 'M', (x, y));
            } else {
                path.push('H');
                put(&mut path, x);
                path.push('V');
                put(&mut path, y);
            }
        }
        if !path.is_empty() {
            path.push('H');
            put(&mut path, self.right);
        }
        path
    }

    fn band(&self, edges: &[(f64, f64, f64)]) -> String {
        let lower = edges.iter().filter_map(|(x, low, _)| self.held(*x, *low));
        let upper = edges
            .iter()
            .rev()
            .filter_map(|(x, _, high)| self.held(*x, *high));
        let mut path = String::new();
        for (i, at) in lower.chain(upper).enumerate() {
            to(&mut path, if i == 0 { 'M' } else { 'L' }, at);
        }
        if !path.is_empty() {
            path.push('z');
        }
        path
    }

    /// Boxes; those narrower than a pixel are that wide, and where they would touch, they are one.
    fn boxes(&self, boxes: &[[f64; 4]]) -> String {
        const LEAST: f64 = 1.0;
        let mut path = String::new();
        let mut open: Option<[f64; 4]> = None;
        let mut draw = |[x0, y0, x1, y1]: [f64; 4]| {
            to(&mut path, 'M', (x0, y0));
            path.push('H');
            put(&mut path, x1.max(x0 + LEAST));
            path.push('V');
            put(&mut path, y1);
            path.push('H');
            put(&mut path, x0);
            path.push('z');
        };
        for [x0, y0, x1, y1] in boxes {
            let (Some(from), Some(to)) = (self.held(*x0, *y0), self.held(*x1, *y1)) else {
                continue;
            };
            let next = [from.0, from.1, to.0, to.1];
            open = match open {
                Some(last) if last[1] == next[1] && (next[0] - last[2]).abs() < LEAST / 2.0 => {
                    Some([last[0], last[1], next[2], last[3]])
                }
                Some(last) => {
                    draw(last);
                    Some(next)
                }
                None => Some(next),
            };
        }
        open.into_iter().for_each(draw);
        path
    }
}

/// The legend's entries from left to right, in as many rows as it takes.
fn legend(chart: &Chart, size: Size) -> Vec<Entry<'_>> {
    let (mut x, mut y) = (2.0, 14.0);
    let mut entries = Vec::new();
    for layer in &chart.layers {
        let Some(name) = &layer.name else { continue };
        let name = fitted(name, size.width - PATCH - 6.0);
        let width = PATCH + text::width(&name);
        if x > 2.0 && x + width > size.width {
            (x, y) = (2.0, y + LINE);
        }
        entries.push(Entry { layer, name, x, y });
        x += width + PATCH;
    }
    entries
}

fn vertical_ticks(height: f64) -> usize {
    (height / 44.0) as usize
}

/// Words, and all of them where the pointer rests if they were cut.
fn titled(words: &str, all: &str) -> String {
    match words == all {
        true => escaped(words),
        false => {
            let all = super::shortened(all, 300);
            format!("{}<title>{}</title>", escaped(words), escaped(&all))
        }
    }
}

fn element(out: &mut String, class: &str, extra: &str, path: &str) {
    if !path.is_empty() {
        *out += &format!("<path class=\"{class}\"{extra} d=\"{path}\"/>");
    }
}

fn to(path: &mut String, command: char, (x, y): (f64, f64)) {
    path.push(command);
    put(path, x);
    path.push(' ');
    put(path, y);
}

fn stroke_class(stroke: Stroke) -> &'static str {
    match stroke {
        Stroke::Full => "full",
        Stroke::Thin => "thin",
        Stroke::Dashed => "dashed",
        Stroke::Apart => "thin apart",
    }
}

fn area_class(mark: &Mark) -> &'static str {
    match mark {
        Mark::Band(_) => "band",
        Mark::Boxes(_)
        | Mark::Dots(_, _)
        | Mark::Lines { .. }
        | Mark::Steps(_)
        | Mark::Segments(_)
        | Mark::Words(_) => "box",
    }
}

fn ink(ink: Ink) -> &'static str {
    const OF_LEVELS: [&str; LEVELS as usize] = [
        "level0", "level1", "level2", "level3", "level4", "level5", "level6",
    ];
    match ink {
        Ink::Main => "main",
        Ink::Second => "second",
        Ink::Third => "third",
        Ink::Fault => "fault",
        Ink::Faint => "faint",
        Ink::Text => "text",
        Ink::Level(level) => OF_LEVELS[usize::from(level.min(LEVELS - 1))],
    }
}
