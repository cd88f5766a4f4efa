//! One line, read by the rules.

use std::sync::LazyLock;
use std::sync::OnceLock;

use regex::Regex;
use regex::bytes::{RegexBuilder, RegexSet, RegexSetBuilder};

use super::lines::TextLine;
use super::place::{self, Place};
use super::rules::{RULES, Rule, Strength, What};
use super::xid;
use crate::cuda::{self, Context, Status};
use crate::evidence::CRASH_SIGNALS;
use crate::table::{Scope, Survival};
use crate::{FaultKind, pattern};

/// What a line says.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The line's index.
    pub line: usize,
    pub strength: Strength,
    pub kind: FaultKind,
    /// Where it differs from the kind's.
    pub scope: Option<Scope>,
    /// Where it differs from the kind's.
    pub context: Option<Survival>,
    pub name: Option<String>,
    pub code: Option<u32>,
    pub place: Option<Place>,
    /// One line for people.
    pub detail: String,
}

impl Finding {
    fn new(kind: FaultKind, strength: Strength, detail: impl Into<String>) -> Finding {
        Finding {
            line: 0,
            strength,
            kind,
            scope: None,
            context: None,
            name: None,
            code: None,
            place: None,
            detail: detail.into(),
        }
    }

    /// Whether another one says the same thing.
    pub fn same(&self, other: &Finding) -> bool {
        (self.kind, self.strength, self.code) == (other.kind, other.strength, other.code)
    }
}

/// All patterns at once tell which rules to try: one pass over each line.
#[expect(
    clippy::expect_used,
    reason = "patterns are constants, and tests compile every one"
)]
static SET: LazyLock<RegexSet> = LazyLock::new(|| {
    RegexSetBuilder::new(RULES.iter().map(|r| r.pattern))
        .unicode(false)
        .size_limit(64 << 20)
        .dfa_size_limit(64 << 20)
        .build()
        .expect("constant patterns")
});

/// The patterns one by one, each compiled when its rule first fits: where in the line it fits.
static SINGLE: [OnceLock<regex::bytes::Regex>; RULES.len()] =
    [const { OnceLock::new() }; RULES.len()];

#[expect(
    clippy::expect_used,
    reason = "patterns are constants, and tests compile every one"
)]
fn single(rule: usize) -> &'static regex::bytes::Regex {
    SINGLE[rule].get_or_init(|| {
        RegexBuilder::new(RULES[rule].pattern)
            .unicode(false)
            .build()
            .expect("a constant pattern")
    })
}

fn position(rule: usize, line: &str) -> usize {
    let first = single(rule).find(line.as_bytes());
    first.map_or(0, |m| m.start())
}

/// Words that turn a message into talk about messages, in the same sentence before it.
static TALK: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)\b(?:avoid\w*|prevent\w*|without|in case of|(?:if|when|whenever) (?:you|there|it|we)\b|should you|handles|catch(?:es|ing)?|protects?|tests? for|never|(?:may|might|can|could|would) (?:cause|lead|result|be)|how to|known to|watch(?:es|ing)? for|checks? for|checking for|guards? against|in order to|retry on|look(?:s|ing) for|no)\b[^.:;!?]*$",
    )
});

/// Lines of loggers and libraries that only warn or inform: what merely looks like an error in them
/// is none.
static NOTICE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?x) \b \w* (?i:warning) \b | \b (?: INFO | DEBUG | NOTICE | WARN ) \b
        | ^ (?: \[ [^\]]* \] )? \[? [WI] \d{0,4} \s | \s [WI] \s [\w./-]+ : \d+ \]
        | Unable \s to \s register \s cu\w+ \s factory",
    )
});

/// What stands before a figure that is no loss of this step but a record not yet set.
static RECORD: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)(?:best|min|minimum|lowest|prev|previous|initial)(?:[_ ](?:val|valid|validation|train|eval|dev|test))?[_ ]?$",
    )
});

/// What the line at `at` says, if it says anything.
pub fn read(lines: &[TextLine], at: usize) -> Option<Finding> {
    let line = lines[at].text.as_str();
    let matched = SET.matches(line.as_bytes());
    let mut best: Option<Finding> = None;
    let mut demoted = None;
    for index in matched.iter() {
        let rule = &RULES[index];
        if let What::Demoted(kind) = rule.what {
            demoted = demoted.or(Some(kind));
        } else if let Some(finding) = apply(rule, index, lines, at)
            && best.as_ref().is_none_or(|b| finding.strength > b.strength)
        {
            best = Some(finding);
        }
    }
    let weak = best.as_ref().is_none_or(|b| b.strength < Strength::Signal);
    if let Some(kind) = demoted
        && (weak || kind == FaultKind::Oom)
    {
        best = Some(Finding::new(kind, Strength::Follower, line.trim()));
    }
    // What ends a traceback is the program's own error, whatever its class is called. An interrupt is somebody else's.
    if lines[at].raised
        && best.as_ref().is_none_or(|b| b.strength < Strength::Own)
        && demoted.is_none()
        && !line.contains("KeyboardInterrupt")
    {
        best = Some(Finding::new(
            FaultKind::TaskError,
            Strength::Own,
            line.trim(),
        ));
    }
    // A library that warns goes on without the device.
    if let Some(found) = best
        .as_mut()
        .filter(|f| f.kind == FaultKind::DeviceLost && line.contains("Warning: "))
    {
        found.strength = Strength::Follower;
    }
    // What Python could not raise, in a destructor mostly, has ended nothing.
    if let Some(found) = best
        .as_mut()
        .filter(|f| lines[at].ignored && f.strength < Strength::Sticky)
    {
        found.strength = Strength::Sign;
    }
    let best = best.filter(|f| f.strength > Strength::Sign || !NOTICE.is_match(line));
    best.map(|f| Finding { line: at, ..f })
}

fn apply(rule: &Rule, index: usize, lines: &[TextLine], at: usize) -> Option<Finding> {
    let line = lines[at].text.as_str();
    match rule.what {
        What::Assertion => assertion(place::printed(line)?),
        What::AssertionReport => assertion(place::reported(&lines[at..])?),
        What::Cuda => cuda_error(lines, at),
        What::Status => library_status(line),
        What::Xid => reported_xid(line),
        What::Exit => exit(line),
        What::Signal => signal(line),
        What::Machine(strength) => {
            let mut finding = plain(FaultKind::DeviceLost, strength, index, line)?;
            finding.scope = Some(Scope::Machine);
            Some(finding)
        }
        What::Kind(kind, strength) => plain(kind, strength, index, line),
        What::Demoted(_) => None,
    }
}

/// A line that only talks about an error is none. Exceptions stay: what they name may be anything.
fn plain(kind: FaultKind, strength: Strength, rule: usize, line: &str) -> Option<Finding> {
    let named = matches!(strength, Strength::Own | Strength::Io);
    if !named && is_talk(line, position(rule, line)) {
        return None;
    }
    if kind == FaultKind::Diverged && only_records(rule, line) {
        return None;
    }
    let mut finding = Finding::new(kind, strength, detail(line));
    if kind == FaultKind::HostOom {
        finding.context = Some(survival_of_host_oom(line));
    }
    Some(finding)
}

/// Whether every place where a rule fits tells of a record (`best_loss=inf`), which is infinite before
/// the first epoch.
fn only_records(rule: usize, line: &str) -> bool {
    let record = |m: regex::bytes::Match<'_>| {
        let before = line.get(..m.start()).unwrap_or_default();
        RECORD.is_match(before)
    };
    single(rule).find_iter(line.as_bytes()).all(record)
}

/// An allocation that failed leaves process and context; a kill leaves neither.
fn survival_of_host_oom(line: &str) -> Survival {
    let lower = line.to_ascii_lowercase();
    let killed = ["kill", "oom_reaper", "memory limit", "term_memlimit"];
    if killed.iter().any(|k| lower.contains(k)) {
        Survival::Lost
    } else {
        Survival::Alive
    }
}

fn is_talk(line: &str, at: usize) -> bool {
    let before = line.get(..at).unwrap_or_default();
    TALK.is_match(before.trim_end_matches(['`', '\'', '"', '(', '[', ' ']))
}

/// The line without what loggers put before it, as far as it can be told.
fn detail(line: &str) -> String {
    super::shorten(line.trim(), 300)
}

fn assertion(place: Place) -> Option<Finding> {
    let error = cuda::ERRORS.iter().find(|e| e.code == 710)?;
    let condition = place.condition.as_deref().unwrap_or("(not printed)");
    let detail = format!("a device-side assertion failed: {condition}");
    Some(Finding {
        name: Some(error.name.to_owned()),
        code: Some(error.code),
        place: Some(place),
        ..Finding::new(FaultKind::CudaSticky, Strength::Assertion, detail)
    })
}

fn cuda_error(lines: &[TextLine], at: usize) -> Option<Finding> {
    let line = lines[at].text.as_str();
    let mut hit = cuda::find_in_line(line)?;
    if is_talk(line, hit.at) {
        return None;
    }
    if hit.error.is_none() && hit.name.is_none() && cuda::status(line).is_some() {
        return None;
    }
    // The enumerator that libtorch prints below wins over its words.
    let below = lines.get(at + 1..(at + 4).min(lines.len()))?;
    let search = below.iter().find(|l| l.text.contains("Search for `cuda"));
    if hit.name.is_none()
        && let Some(named) = search.and_then(|l| cuda::find_in_line(&l.text))
        && (named.error.is_some() || hit.error.is_none())
    {
        hit = named;
    }
    let Some(error) = hit.error else {
        return Some(Finding {
            name: hit.name,
            ..Finding::new(FaultKind::CudaUnclear, Strength::Cuda, detail(line))
        });
    };
    let (kind, strength) = match error.context {
        Context::Lost => (FaultKind::CudaSticky, Strength::Sticky),
        Context::Environment => (FaultKind::DeviceLost, Strength::Resource),
        Context::Alive if error.code == 2 => (FaultKind::Oom, Strength::Resource),
        Context::Alive => (FaultKind::CudaTransient, Strength::Cuda),
    };
    Some(Finding {
        name: Some(error.name.to_owned()),
        code: Some(error.code),
        ..Finding::new(kind, strength, error.text)
    })
}

fn library_status(line: &str) -> Option<Finding> {
    let (at, name, status) = cuda::status(line)?;
    if is_talk(line, at) {
        return None;
    }
    let (kind, strength) = match status {
        Status::OutOfMemory => (FaultKind::Oom, Strength::Resource),
        Status::HostMemory => (FaultKind::HostOom, Strength::Resource),
        Status::Ambiguous => (FaultKind::CudaUnclear, Strength::Cuda),
        Status::Refused => (FaultKind::CudaTransient, Strength::Cuda),
        Status::Follower => (FaultKind::CudaUnclear, Strength::Follower),
    };
    Some(Finding {
        name: Some(name.to_owned()),
        context: (status == Status::HostMemory).then_some(Survival::Alive),
        ..Finding::new(kind, strength, detail(line))
    })
}

fn reported_xid(line: &str) -> Option<Finding> {
    let xid = xid::reported(line)?;
    let detail = xid::describe(xid);
    let gone = Finding::new(FaultKind::DeviceLost, Strength::Gone, detail.as_str());
    match xid::action(xid, line) {
        xid::Action::Restart => Some(Finding::new(
            FaultKind::CudaSticky,
            Strength::Sticky,
            detail,
        )),
        xid::Action::Ignore => None,
        xid::Action::Follows => Some(Finding::new(
            FaultKind::CudaUnclear,
            Strength::Follower,
            detail,
        )),
        xid::Action::Reset => Some(gone),
        xid::Action::Machine => Some(Finding {
            scope: Some(Scope::Machine),
            ..gone
        }),
        xid::Action::Unclear => Some(Finding::new(FaultKind::CudaUnclear, Strength::Cuda, detail)),
    }
}

static EXIT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)(?:exit(?:ed)?(?: with)?[ _-]*(?:code|status)|exitcode|return ?code|exit value|terminated with code|\*\*\* \[[^\]]*\] Error)\W{0,12}?(?:of |is |was )?\(?(0xC[0-9a-f]{7}|-?\d{1,10})\b",
    )
});

/// systemd's form: the signal's number and name behind the status.
static UNIT: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"code=(?:killed|dumped), status=(\d{1,2})/"));

fn exit(line: &str) -> Option<Finding> {
    if let Some(unit) = UNIT.captures(line) {
        return by_signal(unit[1].parse().ok()?, line);
    }
    let found = EXIT.captures(line)?;
    let status: i64 = match found[1].get(2..).filter(|_| found[1].starts_with("0x")) {
        Some(hex) => i64::from_str_radix(hex, 16).ok()?,
        None => found[1].parse().ok()?,
    };
    if let Some(kind) = of_windows(status) {
        return Some(Finding::new(kind, Strength::Signal, detail(line)));
    }
    match status {
        0 => None,
        129..=159 => by_signal((status - 128) as i32, line),
        -31..=-1 => by_signal(-status as i32, line),
        _ => Some(Finding::new(
            FaultKind::TaskError,
            Strength::Sign,
            detail(line),
        )),
    }
}

/// Windows ends a process with the exception's number, signed or not; all of them begin with 0xC.
fn of_windows(status: i64) -> Option<FaultKind> {
    const CONTROL_C: u32 = 0xC000_013A;
    const NO_MEMORY: [u32; 2] = [0xC000_0017, 0xC000_012D];
    let status = u32::try_from(status)
        .or_else(|_| i32::try_from(status).map(i32::cast_unsigned))
        .ok()?;
    match status {
        CONTROL_C => Some(FaultKind::Interrupted),
        s if NO_MEMORY.contains(&s) => Some(FaultKind::HostOom),
        0xC000_0000..=0xCFFF_FFFF => Some(FaultKind::Crash),
        _ => None,
    }
}

static NAMED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"\bSIG(?P<name>HUP|INT|QUIT|ILL|TRAP|ABRT|BUS|FPE|KILL|SEGV|TERM|XCPU|XFSZ|SYS)\b|(?i:signal):? *\(?(?P<number>\d{1,2})\b|(?i:signal): (?P<words>Killed|Terminated|Segmentation fault|Aborted|Illegal instruction|Floating point exception)",
    )
});

/// Words of a process that was ended, against those of one that ends others or prepares for it.
static ENDED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)\b(?:died|dead|killed|terminated|exited|received|caught|interrupted|crashed|fatal|aborted|core dumped|got|uncaught|unexpected)\b|Signals\.|\*\*\*|didn't exit successfully|^\W*SIG[A-Z]+\W*$",
    )
});
static ENDING: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)\b(?:send|sends|sending|sent|closing signal|handlers?|handling|ignor\w*|install\w*|register\w*|forward\w*|graceful\w*|raise)\b",
    )
});

fn signal(line: &str) -> Option<Finding> {
    let found = NAMED.captures(line)?;
    if ENDING.is_match(line) || !ENDED.is_match(line) {
        return None;
    }
    let number = match (found.name("name"), found.name("number")) {
        (Some(name), _) => number_of(name.as_str())?,
        (None, Some(number)) => number.as_str().parse().ok()?,
        (None, None) => match found.name("words")?.as_str() {
            "Killed" => 9,
            "Terminated" => 15,
            _ => 11,
        },
    };
    by_signal(number, line)
}

fn number_of(name: &str) -> Option<i32> {
    let signal: nix::sys::signal::Signal = format!("SIG{name}").parse().ok()?;
    Some(signal as i32)
}

fn by_signal(signal: i32, line: &str) -> Option<Finding> {
    let kind = match signal {
        2 => FaultKind::Interrupted,
        s if CRASH_SIGNALS.contains(&s) => FaultKind::Crash,
        1..=31 => FaultKind::Killed,
        _ => return None,
    };
    Some(Finding::new(kind, Strength::Signal, detail(line)))
}
