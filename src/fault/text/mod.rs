//! What a text says: one error, the traceback around it, or a whole log.
//!
//! Every line is read by the rules on its own. Which line decides:
//!
//! 1. A lost context or a lost GPU explains all that follows: the surest sign decides (the kernel's
//!    word, an assertion's line, a sticky error), the first of its kind.
//! 2. Otherwise, if the text ends with a Python traceback or a panic, what that one says: faults before
//!    it were survived.
//! 3. Otherwise the surest sign, the first of its kind: a signal or an exit status tells how a process
//!    ended, the error before it tells why.

mod lines;
mod memory;
mod place;
mod reader;
mod rules;
mod xid;

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

pub use memory::Memory;
pub use place::Place;
pub use xid::describe as describe_xid;

use super::table::{Scope, Survival};
use super::{FaultKind, Other, advice, cuda, pattern};
use lines::TextLine;
use reader::{Finding, read};
use rules::Strength;

/// What a text says happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis {
    /// The kind of fault.
    pub kind: FaultKind,
    /// Whom it concerns.
    pub scope: Scope,
    /// Whether the context survives.
    pub context: Survival,
    /// The CUDA enumerator or the library's status.
    pub name: Option<String>,
    /// `cudaError_t`, where it is a CUDA error.
    pub code: Option<u32>,
    /// The place of a device-side assertion.
    pub place: Option<Place>,
    /// The figures of a message about memory.
    pub memory: Option<Memory>,
    /// What it is, in one line.
    pub detail: String,
    /// The line that decided, at most 1,000 characters of it.
    pub text: String,
    /// Its index among the lines, from 0.
    pub line: usize,
    /// How many lines say the same.
    pub repeated: usize,
    /// How sure the line is: below an error of the program's own words, it only looks like one.
    pub sure: bool,
    /// What people can do about it.
    pub advice: String,
    /// Other faults that the text tells of.
    pub also: Vec<Other>,
}

/// Says what a text tells; `None` where nothing in it looks like an error.
pub fn diagnose(text: &str) -> Option<Diagnosis> {
    let lines = lines::lines(text);
    let mut findings = findings(&lines);
    // An error of CUDA whose words are not known may go on in the next line.
    let known = findings.iter().any(|f| {
        f.strength > Strength::Cuda
            || f.strength == Strength::Cuda && f.kind != FaultKind::CudaUnclear
    });
    if !known && lines.len() <= MOST_WRAPPED {
        findings.extend(wrapped(&lines));
    }
    let chosen = choose(&findings, &lines)?;
    Some(conclude(&findings[chosen], &findings, &lines))
}

/// Whether a text has an Xid that calls for nothing.
pub fn harmless_xid(text: &str) -> Option<String> {
    let (xid, line) = text.lines().find_map(|l| Some((xid::reported(l)?, l)))?;
    (xid::action(xid, line) == xid::Action::Ignore).then(|| xid::describe(xid))
}

/// Whether an Xid says that the GPU is gone or needs a reset.
pub fn takes_the_gpu(xid: u32) -> bool {
    matches!(
        xid::action(xid, ""),
        xid::Action::Reset | xid::Action::Machine
    )
}

/// Whether an Xid says that an application has lost its context.
pub fn loses_context(xid: u32) -> bool {
    xid::action(xid, "") == xid::Action::Restart
}

/// More lines than this are a log, not a message that a narrow terminal has broken.
const MOST_WRAPPED: usize = 2000;

fn findings(lines: &[TextLine]) -> Vec<Finding> {
    (0..lines.len())
        .filter(|&at| !lines[at].source)
        .filter_map(|at| read(lines, at))
        .collect()
}

/// Messages that were broken between two lines; only what is sure counts here.
fn wrapped(lines: &[TextLine]) -> Vec<Finding> {
    let filled: Vec<usize> = (0..lines.len())
        .filter(|&i| !lines[i].text.trim().is_empty() && !lines[i].source)
        .collect();
    let mut out = Vec::new();
    for pair in filled.windows(2) {
        let joined = [TextLine {
            text: format!(
                "{} {}",
                lines[pair[0]].text.trim_end(),
                lines[pair[1]].text.trim_start()
            ),
            source: false,
            ignored: lines[pair[0]].ignored,
            raised: false,
        }];
        if let Some(finding) = read(&joined, 0).filter(|f| f.strength > Strength::Cuda) {
            out.push(Finding {
                line: pair[0],
                ..finding
            });
        }
    }
    out
}

/// The index of the finding that decides.
fn choose(findings: &[Finding], lines: &[TextLine]) -> Option<usize> {
    let surest = |range: Range<usize>| {
        (0..findings.len())
            .filter(|&i| range.contains(&findings[i].line))
            .reduce(|best, next| {
                if findings[next].strength > findings[best].strength {
                    next
                } else {
                    best
                }
            })
    };
    let all = surest(0..lines.len())?;
    if findings[all].strength >= Strength::Sticky {
        return Some(all);
    }
    let last = last_traceback(lines)
        .or_else(|| last_panic(lines, findings[all].line))
        .and_then(surest);
    last.filter(|&i| findings[i].strength >= Strength::Own)
        .or(Some(all))
}

/// The last Python traceback with those that it is chained to, if the text ends with it: a shell's
/// or a launcher's few lines may follow.
fn last_traceback(lines: &[TextLine]) -> Option<Range<usize>> {
    const AFTER: usize = 8;
    let begins = |l: &TextLine| !l.ignored && l.text.contains("Traceback (most recent call last)");
    let mut start = lines.iter().rposition(begins)?;
    let message = lines[start + 1..]
        .iter()
        .position(|l| !l.source && ends_traceback(&l.text))?;
    let after = &lines[start + 1 + message..];
    let more = after.iter().filter(|l| !l.text.trim().is_empty()).count();
    if more > AFTER {
        return None;
    }
    while let Some(link) = lines[..start]
        .iter()
        .rposition(|l| !l.text.trim().is_empty())
    {
        let text = &lines[link].text;
        let chained = text.contains("During handling of the above exception")
            || text.contains("was the direct cause of the following exception");
        let Some(earlier) = lines[..link].iter().rposition(begins).filter(|_| chained) else {
            break;
        };
        start = earlier;
    }
    Some(start..lines.len())
}

/// The last panic of a Rust program, if the text ends with it and the work had gone on after the fault
/// in line `earlier`: an error that is logged right before a panic is its cause.
fn last_panic(lines: &[TextLine], earlier: usize) -> Option<Range<usize>> {
    const AFTER: usize = 8;
    let start = lines.iter().rposition(|l| l.text.contains("panicked at"))?;
    let frame = |l: &TextLine| {
        let text = l.text.trim();
        text.is_empty() || text.starts_with("at ") || text.starts_with(|c: char| c.is_ascii_digit())
    };
    let after = lines[start + 1..].iter().filter(|l| !frame(l)).count();
    let between = lines.get(earlier + 1..start)?;
    (after <= AFTER && between.iter().any(goes_on)).then_some(start..lines.len())
}

/// Whether a line tells of training that goes on: a step and a figure of it. A progress bar does not:
/// it is drawn once more when the program ends.
fn goes_on(line: &TextLine) -> bool {
    static STEP: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"(?i)\b(?:epoch|step|iter|iteration|batch|trial)\b\W{0,3}\d"));
    static FIGURE: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"(?i)(?:loss|acc|accuracy|f1|score|value|lr)\b\W{0,3}[\d.]"));
    let bar = line.text.contains("%|");
    !bar && STEP.is_match(&line.text) && FIGURE.is_match(&line.text)
}

/// The line after the frames: not indented behind what stands before every line.
fn ends_traceback(text: &str) -> bool {
    let frame = text.contains("File \"") && text.contains("\", line ");
    let indented = text.starts_with(' ') || text.trim().is_empty();
    !frame && !indented
}

fn conclude(finding: &Finding, findings: &[Finding], lines: &[TextLine]) -> Diagnosis {
    let first = findings
        .iter()
        .all(|f| f.line >= finding.line || f.strength < Strength::Own);
    let kind = if in_seeding(finding, first, lines) {
        FaultKind::Poisoned
    } else {
        finding.kind
    };
    let kind = match kind == FaultKind::Oom && of_pinned_memory(finding, lines) {
        true => FaultKind::HostOom,
        false => kind,
    };
    let end = (finding.line + 6).min(lines.len());
    let near: Vec<&str> = lines[finding.line..end]
        .iter()
        .map(|l| l.text.trim())
        .collect();
    let near = near.join(" ");
    let about_memory = matches!(kind, FaultKind::Oom | FaultKind::HostOom);
    let memory = about_memory.then(|| memory::figures(&near)).flatten();
    let row = kind.row();
    let mut diagnosis = Diagnosis {
        kind,
        scope: finding.scope.unwrap_or(row.scope),
        context: match kind == finding.kind || kind != FaultKind::HostOom {
            true => finding.context.unwrap_or(row.context),
            false => Survival::Alive,
        },
        name: finding.name.clone(),
        code: finding.code,
        place: finding.place.clone(),
        memory,
        detail: with_message(&finding.detail, finding.line, lines),
        text: shorten(
            &with_message(lines[finding.line].text.trim(), finding.line, lines),
            1000,
        ),
        line: finding.line,
        repeated: findings.iter().filter(|f| f.same(finding)).count(),
        sure: finding.strength > Strength::Sign,
        advice: String::new(),
        also: others(finding, findings, lines),
    };
    diagnosis.advice = advice::advice(&diagnosis, &near);
    if diagnosis.context != Survival::Lost && was_survived(findings, lines) {
        diagnosis.advice += " In this log the work went on afterwards, without another error.";
    }
    diagnosis
}

/// A line of the text with what a Rust program's panic says, which stands below its place.
fn with_message(text: &str, line: usize, lines: &[TextLine]) -> String {
    let message = lines.get(line + 1).map(|l| l.text.trim());
    match message.filter(|_| text.contains("panicked at ") && text.ends_with(':')) {
        Some(message) => format!("{text} {message}"),
        None => text.to_owned(),
    }
}

/// Whether what could not be had is memory of the host that was to be pinned: CUDA calls that out of
/// memory, too. The message is that of any call; what stands around it tells.
fn of_pinned_memory(finding: &Finding, lines: &[TextLine]) -> bool {
    /// A traceback above it, or a stack below it.
    const AROUND: usize = 40;
    let own = &lines[finding.line].text;
    let near = finding.line.saturating_sub(AROUND)..(finding.line + AROUND).min(lines.len());
    finding.code == Some(2)
        && !own.contains("CUDA out of memory")
        && lines[near].iter().any(|l| cuda::pins_memory(&l.text))
}

/// Whether work goes on after the last of all faults.
fn was_survived(findings: &[Finding], lines: &[TextLine]) -> bool {
    let faults = findings.iter().filter(|f| f.strength > Strength::Sign);
    let last = faults.map(|f| f.line).max();
    last.is_some_and(|at| lines[at + 1..].iter().filter(|l| goes_on(l)).count() >= 2)
}

/// Whether a sticky error was met while generators were seeded: by the frames above it, or by the
/// words that our own workers put before it. `first`: no error stands before it.
fn in_seeding(finding: &Finding, first: bool, lines: &[TextLine]) -> bool {
    const SEEDING: [&str; 5] = [
        "manual_seed",
        "set_rng_state",
        "seed_everything",
        "in set_seed",
        "seeding: ",
    ];
    let seeds = |l: &TextLine| SEEDING.iter().any(|s| l.text.contains(s));
    if finding.kind != FaultKind::CudaSticky || finding.strength != Strength::Sticky {
        return false;
    }
    let above = lines[..finding.line]
        .iter()
        .rposition(|l| l.text.contains("Traceback (most recent call last)"));
    let frames = above.filter(|a| finding.line - a < 100);
    let own = &lines[finding.line];
    // A health check that fails before anything else did: the context was lost earlier.
    let checked = own.text.contains("health check on ") && first;
    checked || seeds(own) || frames.is_some_and(|a| lines[a..finding.line].iter().any(seeds))
}

/// What else the text tells of, of some weight, by kind.
fn others(chosen: &Finding, all: &[Finding], lines: &[TextLine]) -> Vec<Other> {
    let mut out: Vec<Other> = Vec::new();
    for finding in all.iter().filter(|f| f.strength >= Strength::Own) {
        if finding.same(chosen) || finding.kind == chosen.kind {
            continue;
        }
        let fault = finding.kind.word();
        match out.iter_mut().find(|other| other.fault == fault) {
            Some(other) => other.count += 1,
            None => out.push(Other {
                fault,
                text: shorten(lines[finding.line].text.trim(), 200),
                count: 1,
            }),
        }
    }
    out
}

/// At most so many characters.
fn shorten(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
