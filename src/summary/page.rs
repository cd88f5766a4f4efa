//! The page: one HTML file that needs no other, asks nobody for anything, and says so to the browser.

use std::fmt::Write;

use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

use crate::facts::{Facts, Sentence};
use crate::figures::{Figure, Kind, Panel, figure};
use crate::{Material, shown};
use chart::{Chart, Size, Theme, css, escaped};
use report::format::{param, plural, value};
use search::study::FrozenTrial;
use store::StudySummary;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = concat!(include_str!("zoom.js"), include_str!("page.js"));
const LIVE: &str = include_str!("live.js");

/// Pixels of a chart that has the width of the page, of one on a phone, and of a small one.
const WIDE: f64 = 880.0;
const NARROW: f64 = 328.0;
const SMALL: f64 = 300.0;

/// So many trials are in the table, with so many parameters each.
const TRIALS: usize = 25;
const PARAMETERS: usize = 8;

/// What a page does beside showing itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scripts {
    /// It is a file, and asks nobody.
    Alone,
    /// It comes from a server, which tells it when the study has changed.
    Live,
}

/// A page: what people read of it, part by part, and what stands around that.
pub struct Page {
    head: String,
    parts: Vec<Part>,
    scripts: &'static [&'static str],
}

/// A part of a page: its header, or a section.
pub struct Part {
    /// Its name, and the id of its element.
    pub name: &'static str,
    /// Its element.
    pub html: String,
}

/// What a content is known by, as HTTP writes it (an entity tag).
fn tag(content: &str) -> String {
    let digest = Sha256::digest(content.as_bytes());
    format!("\"{}\"", base64(&digest[..12]))
}

impl Part {
    /// Its entity tag.
    pub fn tag(&self) -> String {
        tag(&self.html)
    }
}

impl Page {
    /// The page of a study.
    pub fn new(m: &Material, facts: &Facts, scripts: Scripts) -> Page {
        let figures: Vec<Figure> = Kind::ALL
            .iter()
            .filter_map(|kind| figure(*kind, m, facts, &[]).ok())
            .collect();
        let scripts: &[&str] = match scripts {
            Scripts::Alone => &[SCRIPT],
            Scripts::Live => &[SCRIPT, LIVE],
        };
        let mut parts = Vec::new();
        let mut add = |name, write: &dyn Fn(&mut String)| {
            let mut html = String::new();
            write(&mut html);
            if !html.is_empty() {
                parts.push(Part { name, html });
            }
        };
        add("header", &|out| header(out, m, facts, &figures));
        add("verdict", &|out| verdict(out, facts));
        for figure in &figures {
            add(figure.kind.into(), &|out| section(out, figure));
        }
        add("trials", &|out| best_trials(out, m, facts));
        add("missing", &|out| left_out(out, facts));
        add("provenance", &|out| provenance(out, m));
        let head = head(&facts.study, scripts);
        Page {
            head,
            parts,
            scripts,
        }
    }

    /// The part of this name.
    pub fn part(&self, name: &str) -> Option<&Part> {
        self.parts.iter().find(|part| part.name == name)
    }

    /// The entity tag of the whole page.
    pub fn tag(&self) -> String {
        tag(&self.tags())
    }

    /// The parts' names and tags in order, as JSON.
    pub fn tags(&self) -> String {
        let tags = self.parts.iter().map(|part| json!([part.name, part.tag()]));
        Json::Array(tags.collect()).to_string()
    }

    /// The whole page.
    pub fn html(&self) -> String {
        let mut out = self.head.clone();
        // The live page begins with what it knows, and is told of what is another then.
        let _ = match self.scripts.contains(&LIVE) {
            true => write!(out, "<body data-parts=\"{}\">", escaped(&self.tags())),
            false => write!(out, "<body>"),
        };
        out += "<a class=\"skip\" href=\"#verdict\">To the verdict</a>";
        for part in &self.parts {
            out += &part.html;
            out += if part.name == "header" { "<main>" } else { "" };
        }
        out += "</main>";
        for script in self.scripts {
            let _ = write!(out, "<script>{script}</script>");
        }
        out + "</body></html>\n"
    }
}

/// Everything before the body's content. The policy lets the browser use what is in the page by these very bytes, and
/// ask nobody but the server that a live page comes from.
fn head(study: &str, scripts: &[&str]) -> String {
    let style = css(Theme::Auto) + STYLE;
    let sources: String = scripts
        .iter()
        .map(|script| format!(" '{}'", hash(script)))
        .collect();
    let sources = if sources.is_empty() {
        " 'none'".to_owned()
    } else {
        sources
    };
    let connect = if scripts.contains(&LIVE) {
        " connect-src 'self';"
    } else {
        ""
    };
    let mut out = String::with_capacity(1 << 20);
    // Writing to a string does not fail.
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src '{}'; script-src{sources};{connect} \
         base-uri 'none'; form-action 'none'\">\
         <meta name=\"generator\" content=\"{GENERATOR}\"><meta name=\"color-scheme\" content=\"light dark\">\
         <title>{}: a tune report</title><style>{style}</style></head>",
        hash(&style),
        escaped(&shown(study)),
    );
    out
}

/// A page that names studies, each with the address of its own page.
pub fn index<'a>(studies: impl IntoIterator<Item = (String, &'a StudySummary)>) -> String {
    let mut out = head("studies", &[]);
    out +=
        "<body><main><section aria-labelledby=\"h-studies\"><h1 id=\"h-studies\">Studies</h1><ul>";
    for (address, study) in studies {
        let _ = write!(
            out,
            "<li><a href=\"{}\">{}</a> <span class=\"soft\">{}</span></li>",
            escaped(&address),
            escaped(&shown(&study.name)),
            plural(study.counts.total(), "trial")
        );
    }
    out + "</ul></section></main></body></html>\n"
}

/// By this an earlier page is known, which a new one may replace.
pub const GENERATOR: &str = "tune report";

/// A source as the browser's policy names it.
fn hash(text: &str) -> String {
    format!("sha256-{}", base64(&Sha256::digest(text.as_bytes())))
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let of = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let bits = of(0) << 16 | of(1) << 8 | of(2);
        for i in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * i)) as usize & 63];
            out.push(if i <= chunk.len() {
                char::from(letter)
            } else {
                '='
            });
        }
    }
    out
}

fn header(out: &mut String, m: &Material, facts: &Facts, figures: &[Figure]) {
    let objectives = facts.metrics.iter().zip(&facts.directions);
    let objectives = objectives.map(|(name, direction)| format!("{direction} {}", shown(name)));
    let counts = facts.counts;
    let _ = write!(
        out,
        "<header id=\"header\"><p class=\"kind\">tune report</p><h1>{}</h1><p class=\"soft\">{} · {} · {} complete, {} pruned, {} failed</p><dl class=\"tiles\">",
        escaped(&shown(&facts.study)),
        escaped(&objectives.collect::<Vec<_>>().join(", ")),
        escaped(&m.state),
        counts.complete,
        counts.pruned,
        counts.fail
    );
    for (name, text) in tiles(m, facts) {
        let _ = write!(
            out,
            "<div><dt>{}</dt><dd>{}</dd></div>",
            escaped(&name),
            escaped(&text)
        );
    }
    *out +=
        "</dl><nav aria-label=\"Parts of this page\"><ul><li><a href=\"#verdict\">Verdict</a></li>";
    for figure in figures {
        let _ = write!(
            out,
            "<li><a href=\"#{}\">{}</a></li>",
            figure.kind,
            figure.kind.heading()
        );
    }
    *out += "<li><a href=\"#trials\">Best trials</a></li><li><a href=\"#provenance\">Provenance</a></li></ul></nav></header>";
}

/// The figures that one looks for first.
fn tiles(m: &Material, facts: &Facts) -> Vec<(String, String)> {
    let mut tiles = Vec::new();
    let mean = m.repeated().map(|(_, estimate)| estimate.mean);
    let single = facts.best.as_ref().and_then(|b| b.value);
    if let Some(best) = mean.or(single) {
        tiles.push((format!("best {}", shown(m.metric())), value(best)));
    }
    if let Some(baseline) = &facts.baseline {
        tiles.push(("trivial answer".to_owned(), value(baseline.value)));
    }
    if let Some(test) = facts.test.as_ref().and_then(|t| t.value) {
        tiles.push(("test split".to_owned(), value(test)));
    }
    if let Some(volume) = facts.hypervolume {
        tiles.push(("hypervolume".to_owned(), value(volume)));
    }
    tiles.push(("trials finished".to_owned(), facts.finished.to_string()));
    let hours = crate::verdict::told_hours(facts.hours.trained);
    tiles.push(("training".to_owned(), hours));
    let lost = crate::verdict::told_hours(facts.hours.lost);
    tiles.push(("lost to faults".to_owned(), lost));
    tiles
}

fn verdict(out: &mut String, facts: &Facts) {
    *out += "<section id=\"verdict\" aria-labelledby=\"h-verdict\"><h2 id=\"h-verdict\">Verdict</h2><dl class=\"verdict\">";
    for Sentence { about, text } in &facts.verdict {
        let _ = write!(out, "<dt>{about}</dt><dd>{}</dd>", escaped(text));
    }
    *out += "</dl></section>";
}

fn section(out: &mut String, figure: &Figure) {
    let (id, heading) = (figure.kind, figure.kind.heading());
    let _ = write!(
        out,
        "<section id=\"{id}\" aria-labelledby=\"h-{id}\"><h2 id=\"h-{id}\">{heading}</h2><p class=\"see\">{}</p>",
        escaped(&figure.see)
    );
    let small = figure.panels.iter().any(|panel| panel.small);
    *out += if small { "<div class=\"small\">" } else { "" };
    for panel in &figure.panels {
        draw(out, panel);
    }
    *out += if small { "</div>" } else { "" };
    if figure.kind == Kind::Parallel {
        *out += "<details id=\"limits\" hidden><summary>Limits, by sliders</summary></details>";
    }
    *out += "</section>";
}

fn draw(out: &mut String, panel: &Panel) {
    if panel.small {
        let size = Size {
            width: SMALL,
            height: panel.height,
        };
        let _ = write!(
            out,
            "<figure><figcaption>{}</figcaption>{}</figure>",
            escaped(&panel.chart.title),
            panel.chart.svg(size, None)
        );
        return;
    }
    let narrow = panel.narrow.as_ref().unwrap_or(&panel.chart);
    let narrow = Chart {
        id: format!("{}-n", panel.chart.id),
        ..narrow.clone()
    };
    let of = |chart: &Chart, width: f64, height: f64| chart.svg(Size { width, height }, None);
    let _ = write!(
        out,
        "<figure class=\"wide\">{}</figure><figure class=\"narrow\">{}</figure>",
        of(&panel.chart, WIDE, panel.height),
        of(
            &narrow,
            NARROW,
            panel.height.min(NARROW).max(panel.height * 0.9)
        )
    );
}

fn best_trials(out: &mut String, m: &Material, facts: &Facts) {
    let direction = m.study.direction();
    let mut best: Vec<&FrozenTrial> = match m.several() {
        true => {
            let of = |number| m.trials.iter().find(|t| t.number == number);
            facts.front.iter().filter_map(|b| of(b.number)).collect()
        }
        false => m.scored().iter().map(|s| s.trial).collect(),
    };
    if !m.several() {
        best.sort_by(|a, b| {
            let of = |t: &FrozenTrial| (t.value().unwrap_or(f64::NAN), t.number);
            direction.order(of(a), of(b))
        });
    }
    let all = best.len();
    best.truncate(TRIALS);
    if best.is_empty() {
        return;
    }
    let leading = facts.leading_parameters(PARAMETERS);
    let all_names = best.iter().flat_map(|t| t.params.keys());
    let names: Vec<&str> = match leading.is_empty() {
        true => {
            let distinct: std::collections::BTreeSet<&String> = all_names.collect();
            let first = distinct.into_iter().take(PARAMETERS);
            first.map(String::as_str).collect()
        }
        false => leading,
    };
    let _ = write!(
        out,
        "<section id=\"trials\" aria-labelledby=\"h-trials\"><h2 id=\"h-trials\">Best trials</h2><p class=\"see\">{} of {}. A click on a heading sorts.</p>\
         <div class=\"scroll\" role=\"region\" aria-label=\"Table of the best trials\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">trial</th>",
        best.len(),
        plural(
            all as u64,
            if m.several() {
                "trial of the front"
            } else {
                "complete trial"
            }
        )
    );
    for name in &m.metrics {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escaped(&shown(name)));
    }
    *out += "<th scope=\"col\">took</th>";
    for name in &names {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escaped(&shown(name)));
    }
    *out += "</tr></thead><tbody>";
    let took = crate::faults::times(m);
    for trial in best {
        let took = took.get(&trial.number).copied();
        row(out, trial, took, &names);
    }
    *out += "</tbody></table></div></section>";
}

fn row(out: &mut String, trial: &FrozenTrial, took: Option<f64>, names: &[&str]) {
    let _ = write!(out, "<tr><th scope=\"row\">{}</th>", trial.number);
    for x in &trial.values {
        let _ = write!(out, "<td data-v=\"{x}\">{}</td>", value(*x));
    }
    let _ = match took {
        Some(s) => write!(
            out,
            "<td data-v=\"{s}\">{}</td>",
            crate::verdict::told_hours(s / 3600.0)
        ),
        None => write!(out, "<td></td>"),
    };
    for name in names {
        let _ = match trial.params.get(*name) {
            Some(v) => {
                let number = v
                    .as_f64()
                    .map_or_else(String::new, |x| format!(" data-v=\"{x}\""));
                let text = chart::shortened(&shown(&param(v)), 40);
                write!(out, "<td{number}>{}</td>", escaped(&text))
            }
            None => write!(out, "<td></td>"),
        };
    }
    *out += "</tr>";
}

fn left_out(out: &mut String, facts: &Facts) {
    if facts.left_out.is_empty() {
        return;
    }
    *out += "<section id=\"missing\" aria-labelledby=\"h-missing\"><h2 id=\"h-missing\">Not shown</h2><ul class=\"soft\">";
    for left in &facts.left_out {
        let _ = write!(
            out,
            "<li>{}: {}</li>",
            left.figure.heading(),
            escaped(&left.why)
        );
    }
    *out += "</ul></section>";
}

/// So many runs are told.
const RUNS: usize = 50;

fn provenance(out: &mut String, m: &Material) {
    *out += "<section id=\"provenance\" aria-labelledby=\"h-provenance\"><h2 id=\"h-provenance\">Provenance</h2><dl class=\"facts\">";
    let versions: std::collections::BTreeSet<&str> = m
        .runs
        .iter()
        .map(|run| run.record.version.as_str())
        .collect();
    let hosts: std::collections::BTreeSet<&str> =
        m.runs.iter().map(|run| run.record.host.as_str()).collect();
    let join =
        |all: std::collections::BTreeSet<&str>| all.into_iter().collect::<Vec<_>>().join(", ");
    let facts = [
        ("made", m.made.clone()),
        ("database", m.database.clone()),
        ("versions of tune", join(versions)),
        ("machines", join(hosts)),
        ("goes on with", m.command.clone().unwrap_or_default()),
    ];
    for (name, text) in facts.iter().filter(|(_, text)| !text.is_empty()) {
        let _ = write!(
            out,
            "<dt>{name}</dt><dd>{}</dd>",
            escaped(&chart::shortened(text, 400))
        );
    }
    *out += "</dl>";
    if !m.identity.is_empty() {
        *out += "<details><summary>What the values depend on</summary><dl class=\"facts\">";
        for (key, json) in &m.identity {
            let text = match json {
                Json::String(text) => text.clone(),
                Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => {
                    json.to_string()
                }
            };
            let _ = write!(
                out,
                "<dt>{}</dt><dd>{}</dd>",
                escaped(&shown(key)),
                escaped(&chart::shortened(&text, 400))
            );
        }
        *out += "</dl></details>";
    }
    runs(out, m);
    *out += "</section>";
}

fn runs(out: &mut String, m: &Material) {
    if m.runs.is_empty() {
        return;
    }
    let _ = write!(
        out,
        "<details><summary>{}</summary><div class=\"scroll\" role=\"region\" aria-label=\"Runs\" tabindex=\"0\"><table><thead><tr>\
         <th scope=\"col\">began</th><th scope=\"col\">ended</th><th scope=\"col\">exit code</th><th scope=\"col\">command</th></tr></thead><tbody>",
        plural(m.runs.len() as u64, "run")
    );
    let first = m.runs.len().saturating_sub(RUNS);
    for run in &m.runs[first..] {
        let time = |stored: &str| stored.split('.').next().unwrap_or_default().to_owned();
        let command = run.record.command.iter().skip(1).map(String::as_str);
        let command = report::shell_line(std::iter::once("tune").chain(command));
        let _ = write!(
            out,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td class=\"long\">{}</td></tr>",
            escaped(&time(&run.started)),
            escaped(&run.ended.as_deref().map_or_else(String::new, time)),
            run.exit.map_or_else(String::new, |code| code.to_string()),
            escaped(&chart::shortened(&command, 300))
        );
    }
    *out += "</tbody></table></div></details>";
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_is_that_of_the_standard() {
        let cases = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ];
        for (bytes, text) in cases {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
