//! What is told of the likely causes: the evidence for and against each, and what to do.

use serde::Serialize;

use crate::causes::{Cause, Tells};
use crate::change::{Change, Setting, told};
use crate::examine::Examined;
use crate::matrix::Verdict;
use crate::notes::Notes;
use crate::rank::{Ranked, calibrated};
use crate::signs::Sign;
use crate::silent::SilentError;

/// Causes less likely than this are not told, unless nothing else is.
const LEAST: f64 = 0.05;

/// How many causes are told.
const MOST: usize = 5;

/// So much of the error's own words is told with a cause, in characters.
const MESSAGE: usize = 160;

/// A sign or a change speaks for a cause that shows it this many times as often as others.
const SPEAKS: f64 = 2.0;

/// A likely cause.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Hypothesis {
    /// Its name, for scripts.
    pub cause: Cause,
    /// How likely, in 0 to 1.
    pub probability: f64,
    /// What it is, with what was found of it.
    pub what: String,
    /// What speaks for it.
    pub evidence_for: Vec<String>,
    /// What speaks against it.
    pub evidence_against: Vec<String>,
    /// What to do.
    pub remedy: String,
    /// A setting under which it did not fail here, where one was found that this cause explains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workaround: Option<String>,
}

/// The likely causes, the most likely first.
pub fn hypotheses(examined: &Examined) -> Vec<Hypothesis> {
    if examined.matrix.failures.is_empty() {
        return mistakes(examined);
    }
    let ranking = calibrated(&examined.matrix.evidence.ranking());
    let likely = ranking
        .iter()
        .enumerate()
        .filter(|(at, r)| *at == 0 || r.probability >= LEAST);
    likely
        .take(MOST)
        .map(|(at, ranked)| hypothesis(examined, *ranked, at == 0))
        .collect()
}

/// What may be wrong with a program that does not fail: what it computes that is not finite, then mistakes that raise no
/// error, those first that are hardly ever meant so. How often they are what somebody looks for was not measured; the
/// weights are judged.
fn mistakes(examined: &Examined) -> Vec<Hypothesis> {
    const NOTHING: f64 = 1.0;
    const LIKELY: f64 = 4.0;
    const DOUBTFUL: f64 = 0.7;
    let (notes, evidence) = (&examined.matrix.notes, &examined.matrix.evidence);
    let first = evidence.ranking().first().copied();
    let not_finite = first.filter(|_| !evidence.signs.is_empty());
    let not_finite = not_finite.map(|ranked| (LIKELY, hypothesis(examined, ranked, true)));
    let told = |silent: &SilentError| Hypothesis {
        cause: Cause::SilentError,
        probability: 0.0,
        what: format!("{}: {silent}", Cause::SilentError.row().what),
        evidence_for: vec!["seen in a run whose operations were traced".to_owned()],
        evidence_against: Vec::new(),
        remedy: silent.kind.row().remedy.to_owned(),
        workaround: None,
    };
    let of = |doubtful: bool, weight: f64| {
        let silent = notes.silent.iter();
        let silent = silent.filter(move |silent| silent.kind.row().doubtful == doubtful);
        silent.map(move |silent| (weight, told(silent)))
    };
    let silent = of(false, LIKELY).chain(of(true, DOUBTFUL));
    let all: Vec<(f64, Hypothesis)> = not_finite.into_iter().chain(silent).collect();
    let sum: f64 = NOTHING + all.iter().map(|(weight, _)| weight).sum::<f64>();
    let weighed = all.into_iter().map(|(weight, hypothesis)| Hypothesis {
        probability: (weight / sum * 1000.0).round() / 1000.0,
        ..hypothesis
    });
    weighed.take(MOST).collect()
}

fn hypothesis(examined: &Examined, ranked: Ranked, first: bool) -> Hypothesis {
    let profile = ranked.cause.row();
    let matrix = &examined.matrix;
    let (mut speaks_for, mut against) = (Vec::new(), Vec::new());
    for (sign, shown) in profile.shows {
        let seen = matrix.evidence.signs.contains(sign);
        if seen && *shown >= SPEAKS * sign.row().background {
            speaks_for.push(sign_text(*sign, examined));
        } else if !seen && *shown >= 0.8 {
            against.push(format!("not seen: {}", sign.row().says));
        }
    }
    for (settings, series) in &matrix.series {
        let mut only = settings.iter();
        let runs = format!("{} of {} runs failed", series.runs.failed, series.runs.all);
        let (Some(Setting::Change(change)), None) = (only.next(), only.next()) else {
            // What a variable or an option does is known to no cause: it is told with the first.
            let cleared = matrix.verdict(settings, series) == Verdict::Cleared;
            if first && cleared {
                speaks_for.push(format!("{}: {runs}", told(settings)));
            }
            continue;
        };
        let ends = ranked.cause.ends(*change);
        match matrix.verdict(settings, series) {
            Verdict::Cleared if ends >= 0.2 => {
                speaks_for.push(format!("{}: {runs}", change.row().what))
            }
            Verdict::Cleared => against.push(format!("{}: {runs}", change.row().what)),
            Verdict::Always => speaks_for.push(format!("{}: {runs}", change.row().what)),
            Verdict::Fails if ends >= 0.5 => against.push(format!("{}: {runs}", change.row().what)),
            Verdict::Fails
            | Verdict::Other
            | Verdict::TooRare
            | Verdict::TooSlow
            | Verdict::NotApplied => {}
        }
    }
    let workaround = matrix
        .workarounds()
        .into_iter()
        .find(|setting| explains(ranked.cause, setting));
    Hypothesis {
        cause: ranked.cause,
        probability: (ranked.probability * 1000.0).round() / 1000.0,
        what: what(examined, ranked.cause),
        evidence_for: speaks_for,
        evidence_against: against,
        remedy: silent_error(&matrix.notes, ranked.cause)
            .map_or(profile.remedy, |silent| silent.kind.row().remedy)
            .to_owned(),
        workaround: workaround.map(|setting| setting.setting()),
    }
}

/// The mistake without an error that was noted, for the cause that it is.
fn silent_error(notes: &Notes, cause: Cause) -> Option<&SilentError> {
    let silent = notes.silent_error();
    silent.filter(|_| cause == Cause::SilentError)
}

fn explains(cause: Cause, setting: &Setting) -> bool {
    match setting {
        Setting::Change(change) => cause.explains(*change),
        Setting::WithoutVariable(_) => cause == Cause::Environment,
        Setting::WithoutFile(_) => cause.explains(Change::NoLeftovers),
        Setting::WithoutOption(_) | Setting::Option(..) | Setting::Key(..) => {
            cause == Cause::Options
        }
        Setting::Variable(..) => true,
        Setting::Trace | Setting::Watch => false,
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "only some signs have figures of their own"
)]
/// A sign with its figures, where it has some.
fn sign_text(sign: Sign, examined: &Examined) -> String {
    let notes = &examined.matrix.notes;
    let detail = match sign {
        Sign::HidesStdlib => notes
            .hides_stdlib
            .iter()
            .next()
            .map(|(m, f)| format!("{f} hides {m}")),
        Sign::ImportEffect => notes
            .import_effects
            .iter()
            .next()
            .map(|(module, of, from, to)| format!("{module} changes {of} from {from} to {to}")),
        Sign::OtherThreads => notes.threads.iter().next().map(|m| format!("{m} does")),
        Sign::ForkWithThreads => notes.forked_with_threads.map(|n| format!("{n} threads")),
        Sign::LoaderWorkers => Some(format!("{} each", notes.loader_workers())),
        Sign::NotFiniteModule => notes.not_finite.as_ref().map(|result| {
            let made = result.made.as_ref();
            made.map_or_else(|| result.module.clone(), ToString::to_string)
        }),
        Sign::NotFiniteGradient => {
            let gradient = notes.gradient_not_finite.as_ref();
            gradient.map(|g| g.line.as_ref().unwrap_or(&g.function).clone())
        }
        Sign::SilentError => notes.silent_error().map(ToString::to_string),
        Sign::DanglingLink => {
            let link = examined.matrix.host.dangling_link.as_ref();
            link.map(|link| link.display().to_string())
        }
        Sign::ReadsLeftovers => {
            let files = notes.leftovers.iter().take(MOST).map(|left| &*left.file);
            Some(files.collect::<Vec<&str>>().join(", "))
        }
        Sign::SmallerBatch => notes.batch.as_ref().and_then(|batch| {
            let loader = notes.loader(batch.loader)?;
            Some(format!("{} of {} rows", batch.size()?, loader.batch_size?))
        }),
        Sign::OwnTimer => {
            let rang = notes.rang.as_ref();
            rang.and_then(|rang| rang.timer.clone())
                .or_else(|| notes.timer.clone())
        }
        Sign::Unread => examined.outside.unread.clone(),
        Sign::ProcessorTime => examined.outside.processor_time.clone(),
        Sign::MappedFileCut => examined.outside.cut.clone(),
        Sign::CrossedLocks => examined.outside.crossed_locks.clone(),
        Sign::UntypedCall => examined.outside.untyped_call.clone(),
        Sign::BrokenFileText => notes
            .opened
            .as_ref()
            .map(|file| format!("opened last: {file}")),
        Sign::Hot => examined.heat.map(|heat| heat.to_string()),
        Sign::LongKernel => notes.longest.as_ref().map(ToString::to_string),
        Sign::Half => notes.half.iter().next().cloned(),
        Sign::InImport => notes.raised_in_import.clone(),
        Sign::Flaky => {
            let runs = examined.matrix.base.runs;
            Some(format!("{} of {} runs failed", runs.failed, runs.all))
        }
        _ => None,
    };
    match detail {
        Some(detail) => format!("{} ({detail})", sign.row().says),
        None => sign.row().says.to_owned(),
    }
}

/// The cause with the rows, the operation, the variable or the options that were found.
fn what(examined: &Examined, cause: Cause) -> String {
    let profile = cause.row();
    let notes = &examined.matrix.notes;
    let mut text = profile.what.to_owned();
    let tells = |of: Tells| profile.tells.contains(&of);
    if let Some(rows) = examined.told_rows().filter(|_| tells(Tells::Rows)) {
        text = format!("{text}: {rows}");
    }
    for (of, named) in [
        (
            cause == Cause::Options,
            examined.options.join(" together with "),
        ),
        (cause == Cause::Environment, examined.variables.join(", ")),
        (
            cause.explains(Change::NoLeftovers),
            examined.leftovers.join(", "),
        ),
    ] {
        if of && !named.is_empty() {
            text = format!("{text}: {named}");
        }
    }
    let of_operation = tells(Tells::Operation);
    if let Some(operation) = notes.operation.as_ref().filter(|_| of_operation) {
        text = format!("{text}; PyTorch's last operation was {operation}");
    }
    if let Some(kernel) = examined.kernel.as_ref().filter(|_| of_operation) {
        text = format!("{text}; compute-sanitizer names the kernel {kernel}");
    }
    text += &of_operations(notes, cause);
    let failure = examined.matrix.root();
    let line = failure.and_then(|f| f.line.as_ref());
    let message = failure.map_or("", |f| f.message.as_str());
    let message: String = message.chars().take(MESSAGE).collect();
    match line.filter(|_| tells(Tells::Line)) {
        Some(line) if message.is_empty() => format!("{text}: {line}"),
        Some(line) => format!("{text}: {message}, at {line}"),
        None if cause == Cause::OwnCode && !message.is_empty() => format!("{text}: {message}"),
        None => text,
    }
}

/// What was noted of operations and their values, for a cause that it tells something of.
fn of_operations(notes: &Notes, cause: Cause) -> String {
    let of_values = matches!(cause, Cause::Diverged | Cause::HalfOverflow);
    let mut text = String::new();
    if let Some(silent) = silent_error(notes, cause) {
        text = format!(": {silent}");
    } else if let Some(gradient) = &notes.gradient_not_finite
        && (of_values || cause == Cause::BadRow)
    {
        let of = gradient.line.as_ref();
        let of = of.map_or_else(String::new, |line| format!(", of the operation at {line}"));
        let function = &gradient.function;
        text = format!("; {function} makes a gradient that is not finite{of}");
    } else if let Some(result) = notes.not_finite.as_ref().filter(|_| of_values) {
        let module = &result.module;
        text = match (&result.made, result.inputs_finite) {
            (Some(made), false) => format!("; the first is made by {made}"),
            (Some(made), true) => format!("; {module} makes the first, by {made}"),
            (None, true) => format!("; {module} is the first module whose result is not finite"),
            (None, false) => format!("; what is computed before {module} is not finite first"),
        };
    }
    if let Some((optimizer, rate)) = &notes.learning_rate
        && (of_values || cause == Cause::OwnCode)
    {
        text += &format!("; {optimizer} has the learning rate {rate}: look at its schedule");
    }
    text
}
