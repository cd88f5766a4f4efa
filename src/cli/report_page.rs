//! `tune report [STUDY] -o FILE` and `tune plot KIND [STUDY] -o FILE`.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use strum::EnumMessage;

use super::args::word;
use super::png::{MADE_BY, png};
use super::report_server::serve;
use super::{Common, print, print_json, status};
use crate::query;
use chart::Theme;
use files::name::part;
use files::{bounded, replace};
use messages::exit::{Exit, Failure};
use store::Store;
use summary::{Facts, Figure, GENERATOR, Kind, Material, Page, Scripts, figure};

/// `tune report`
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Study [default: the one with the latest activity]
    pub study: Option<String>,
    /// Where to: an HTML file; an earlier report is replaced [default: STUDY-report.html; with --json none]
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Another study of this database beside it; repeatable
    #[arg(long, value_name = "STUDY")]
    pub with: Vec<String>,
    /// Show it live in a browser on this machine, instead of writing a file
    #[arg(long, conflicts_with_all = ["out", "with", "json"])]
    pub open: bool,
    /// With --open: the port on 127.0.0.1 [default: a free one]
    #[arg(
        long,
        value_name = "N",
        requires = "open",
        default_value_t = 0,
        hide_default_value = true
    )]
    pub port: u16,
}

/// `tune plot`
#[derive(Debug, Args)]
pub struct PlotArgs {
    /// Which chart
    #[arg(value_parser = word::<Kind>(|_| None))]
    pub kind: Kind,
    /// Study [default: the one with the latest activity]
    pub study: Option<String>,
    /// Where to: an SVG or PNG file; an earlier one is replaced [default: SVG on standard output]
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// A parameter to show: one for slice, two for contour, any number for parallel [default: those that matter most]
    #[arg(long = "param", value_name = "NAME")]
    pub parameters: Vec<String>,
    /// Another study of this database beside it, for edf; repeatable
    #[arg(long, value_name = "STUDY")]
    pub with: Vec<String>,
    /// Width in millimetres: 85 is a column of many journals, 170 their page
    #[arg(long, value_name = "MM", default_value_t = 170.0,
          value_parser = between(40.0, 1000.0, "millimetres"))]
    pub width: f64,
    /// Pixels an inch of a PNG file
    #[arg(long, value_name = "N", default_value_t = 300.0,
          value_parser = between(30.0, 1200.0, "pixels an inch"))]
    pub dpi: f64,
    /// Colours: light, dark, or auto, which follows the reader's system where the program that shows it can
    #[arg(long, default_value = "light", hide_possible_values = true,
          value_parser = word(Theme::get_documentation))]
    pub theme: Theme,
}

/// Reads a number of these.
fn between(
    low: f64,
    high: f64,
    what: &'static str,
) -> impl Fn(&str) -> Result<f64, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.parse::<f64>().ok();
        let number = number.filter(|x| (low..=high).contains(x));
        number.ok_or_else(|| format!("expected {what} from {low} to {high}"))
    }
}

/// CSS has so many pixels to the inch.
const CSS_DPI: f64 = 96.0;

/// What a report answers for scripts.
#[derive(Serialize)]
struct Reported {
    /// The page's file; null where none was asked for.
    page: Option<PathBuf>,
    #[serde(flatten)]
    facts: Facts,
}

/// What a plot answers for scripts.
#[derive(Serialize)]
struct Plotted {
    kind: String,
    /// What to see.
    see: String,
    /// Its file; null where none was asked for.
    file: Option<PathBuf>,
    /// The chart itself, where it has no file.
    svg: Option<String>,
}

/// `study`: the one that is meant; `tune`: how commands begin.
pub(super) fn report_page(
    common: &Common,
    store: &Store,
    study: &str,
    args: &ReportArgs,
    tune: &str,
) -> Result<Exit, Failure> {
    if args.open {
        return serve(store.place(), study, args.port, tune);
    }
    let material = material(store, study, &args.with, tune)?;
    let facts = Facts::new(&material);
    let usual = || PathBuf::from(format!("{}-report.html", part(study)));
    let out = (args.out.clone()).or_else(|| (!common.json).then(usual));
    if let Some(out) = &out {
        let ours = format!("content=\"{GENERATOR}\"");
        let page = Page::new(&material, &facts, Scripts::Alone).html();
        write(out, page.as_bytes(), ours.as_bytes())?;
    }
    if common.json {
        return print_json(&Reported { page: out, facts });
    }
    let mut text = String::new();
    for sentence in &facts.verdict {
        text += &format!("{}\n  {}\n", sentence.about, sentence.text);
    }
    if let Some(out) = &out {
        text += &format!("page: {}\n", out.display());
    }
    print(&report::for_terminal(&text))
}

/// `study`: the one that is meant; `tune`: how commands begin.
pub(super) fn plot(
    common: &Common,
    store: &Store,
    study: &str,
    args: &PlotArgs,
    tune: &str,
) -> Result<Exit, Failure> {
    let known = |out: &&Path| !ends_in(out, "svg") && !ends_in(out, "png");
    if let Some(out) = args.out.as_deref().filter(known) {
        return Err(Failure::input(format!(
            "--out {}: expected a name that ends in .svg or .png. A browser prints SVG as PDF",
            out.display()
        )));
    }
    let material = material(store, study, &args.with, tune)?;
    let facts = Facts::new(&material);
    let drawn = figure(args.kind, &material, &facts, &args.parameters);
    let drawn = drawn.map_err(|why| Failure::input(format!("plot {}: {why}", args.kind)))?;
    let svg = svg(&drawn, args)?;
    if let Some(out) = &args.out {
        match ends_in(out, "png") {
            true => write(out, &png(&svg, args.dpi / CSS_DPI)?, MADE_BY.as_bytes())?,
            false => write(out, svg.as_bytes(), b"class=\"chart\"")?,
        }
    }
    match (common.json, &args.out) {
        (true, out) => print_json(&Plotted {
            kind: args.kind.to_string(),
            see: drawn.see,
            file: out.clone(),
            svg: out.is_none().then_some(svg),
        }),
        (false, None) => super::print_data(&svg),
        (false, Some(_)) => Ok(Exit::Done),
    }
}

fn svg(figure: &Figure, args: &PlotArgs) -> Result<String, Failure> {
    let pixels = args.width * CSS_DPI / 25.4;
    let drawn = figure.svg(pixels, args.theme);
    drawn
        .map(|svg| svg + "\n")
        .ok_or_else(|| Failure::internal("a figure without a chart"))
}

fn ends_in(path: &Path, extension: &str) -> bool {
    path.extension()
        .is_some_and(|end| end.eq_ignore_ascii_case(extension))
}

pub(super) fn material(
    store: &Store,
    study: &str,
    beside: &[String],
    tune: &str,
) -> Result<Material, Failure> {
    let study = store::choose(store, Some(study))?;
    let context = status::context(store, &study, tune);
    query::material(store, study, beside, &context)
}

/// So many bytes of a file say whether it is ours.
const HEAD: u64 = 64 << 20;

/// Writes a file. One that is there is replaced only if it has `ours` in it: another's is nobody's to delete.
fn write(path: &Path, bytes: &[u8], ours: &[u8]) -> Result<(), Failure> {
    let failed = |e: std::io::Error| Failure::input(format!("--out {}: {e}", path.display()));
    if path.symlink_metadata().is_ok() {
        let there = bounded::read(path, HEAD).map_err(failed)?;
        if !there.is_empty() && !there.windows(ours.len()).any(|part| part == ours) {
            return Err(Failure::input(format!(
                "--out {}: this file is there already, and tune has not made it. Name another one",
                path.display()
            )));
        }
    }
    replace::write(path, bytes).map_err(failed)
}
