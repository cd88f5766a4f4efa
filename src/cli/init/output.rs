//! Where the value stands in what a program printed. Pure.

use std::sync::LazyLock;

use regex::Regex;
use search::study::Direction;
use serde_json::Value as Json;

/// A number with a name before it, also as libraries print their own numbers (`tensor(0.2`, `np.float64(0.2`).
#[expect(clippy::expect_used, reason = "a constant, which tests compile")]
static NAMED: LazyLock<Regex> = LazyLock::new(|| {
    let name = r"([A-Za-z][\w./-]*(?:@[\w@./-]*(?::[0-9.]+)?)?)";
    let library = r"(?:(?:(?:torch\.)?tensor|(?:jnp\.)?[Aa]rray|(?:np|numpy)\.\w+)\(\s*)?";
    let between = format!(r#"((?:["']?\s*[:=]\s*|\s+){library})"#);
    Regex::new(&format!(r"{name}{between}(-?[0-9]+(?:\.[0-9]+)?)")).expect("a pattern")
});

/// So many characters of a line are shown.
const SHOWN: usize = 200;

/// What stands in a number's place and is none.
#[expect(clippy::expect_used, reason = "a constant, which tests compile")]
static NO_NUMBER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?i)([a-z][\w@./-]*)["']?\s*[:=]\s*[+-]?(?:nan|inf|infinity)\b"#)
        .expect("a pattern")
});

/// Metrics of which more is better.
const MORE: [&str; 18] = [
    "accuracy",
    "acc",
    "f1",
    "auc",
    "auroc",
    "map",
    "ndcg",
    "bleu",
    "rouge",
    "r2",
    "precision",
    "recall",
    "iou",
    "dice",
    "score",
    "reward",
    "mcc",
    "kappa",
];

/// Metrics of which less is better.
const LESS: [&str; 13] = [
    "loss",
    "error",
    "err",
    "mae",
    "mse",
    "rmse",
    "nll",
    "perplexity",
    "ppl",
    "wer",
    "cer",
    "logloss",
    "bpb",
];

/// What counts, or was given, and is no value.
const NO_VALUE: [&str; 15] = [
    "epoch",
    "step",
    "iter",
    "iteration",
    "batch",
    "lr",
    "seed",
    "time",
    "elapsed",
    "eta",
    "trial",
    "rank",
    "size",
    "device",
    "cuda",
];

/// Times, of which less is better.
const TIME: [&str; 5] = ["latency", "time", "runtime", "duration", "elapsed"];

/// Units of time, behind what takes it.
const UNITS: [&str; 6] = ["seconds", "secs", "sec", "ms", "us", "ns"];

/// What the value of a trial is.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueGuess {
    /// The metric's name.
    pub metric: String,
    /// By the metric's name; none where that says nothing.
    pub direction: Option<Direction>,
    /// The pattern; `None` where the program reports it, or its last line is it.
    pub pattern: Option<String>,
    /// Where it stood, for people; none where nothing was run.
    pub found: Option<String>,
    /// Other metrics that the program tells, likeliest first.
    pub others: Vec<String>,
}

/// What to change for another metric than the one that was taken; none where there is no other.
pub fn others(guess: &ValueGuess) -> Option<String> {
    let change = match guess.pattern {
        Some(_) => "value and objective.metric",
        None => "objective.metric",
    };
    let others = guess.others.join(", ");
    (!others.is_empty())
        .then(|| format!("the program also prints {others}: change {change} for another"))
}

/// The direction that a value's name suggests, also that of a time.
fn direction_of_value(name: &str) -> Option<Direction> {
    let words = words(name);
    let is = |list: &[&str], word: &String| list.contains(&word.as_str());
    let unit = words.len() > 1 && words.last().is_some_and(|word| is(&UNITS, word));
    // `tokens/sec` and `samples_per_sec` are rates, and of a time of survival more is better.
    let rate = name.contains('/') || words.iter().any(|w| is(&["per", "survival"], w));
    let is_time = !rate && (unit || words.iter().any(|w| is(&TIME, w)));
    direction(name).or_else(|| is_time.then_some(Direction::Minimize))
}

/// The direction that a metric's name suggests.
fn direction(metric: &str) -> Option<Direction> {
    let any = |list: &[&str]| words(metric).iter().any(|w| list.contains(&w.as_str()));
    match (any(&LESS), any(&MORE)) {
        (true, _) => Some(Direction::Minimize),
        (false, true) => Some(Direction::Maximize),
        (false, false) => None,
    }
}

fn words(name: &str) -> Vec<String> {
    let lower = name.to_ascii_lowercase();
    let parts = lower.split(|c: char| !c.is_ascii_alphanumeric());
    parts.filter(|w| !w.is_empty()).map(str::to_owned).collect()
}

/// How likely a name is that of the value: the smaller the better; `None` for what is none.
fn rank(name: &str) -> Option<usize> {
    let words = words(name);
    let any = |list: &[&str]| words.iter().any(|w| list.contains(&w.as_str()));
    let validation = any(&["val", "valid", "validation", "dev", "eval"]);
    let test = any(&["test"]);
    let known = any(&MORE) || any(&LESS);
    if !known && any(&NO_VALUE) {
        return None;
    }
    let split = if validation {
        0
    } else if test {
        1
    } else {
        2
    };
    let kind = if any(&MORE) {
        0
    } else if any(&LESS) {
        1
    } else {
        6
    };
    Some(kind + 2 * split + if any(&["train", "training"]) { 5 } else { 0 })
}

/// The known metrics among ranked names, without the one that was taken.
fn others_of<'a>(ranked: impl Iterator<Item = (usize, &'a str)>, taken: &str) -> Vec<String> {
    const TOLD: usize = 6;
    let mut known: Vec<(usize, &str)> = ranked
        .filter(|(_, name)| *name != taken && direction(name).is_some())
        .collect();
    known.sort_by_key(|(rank, _)| *rank);
    let mut names: Vec<String> = Vec::new();
    for (_, name) in known {
        if names.len() < TOLD && names.iter().all(|n| n != name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// The last line in which a value is NaN or infinite.
pub fn no_number(printed: &[String]) -> Option<String> {
    let of_metric = |line: &&String| NO_NUMBER.captures_iter(line).any(|c| rank(&c[1]).is_some());
    printed.iter().rfind(of_metric).map(|line| shown(line))
}

/// A line for people: its beginning, where it is long.
pub(super) fn shown(line: &str) -> String {
    chart::shortened(line.trim(), SHOWN)
}

/// Looks for the value: in the metric lines that the program reported, else in the lines that it printed. `None` where
/// nothing looks like one.
///
/// # Errors
/// What looks like the value is none that a trial would take.
pub fn value(printed: &[String], reported: &[String]) -> Result<Option<ValueGuess>, String> {
    let in_objects = |lines: &[String], whence: &str| {
        let mut objects = lines
            .iter()
            .filter_map(|line| match messages::python_json(line) {
                Some(Json::Object(object)) => Some((line, object)),
                Some(_) | None => None,
            });
        let (line, object) = objects.next_back()?;
        let numbers = object
            .iter()
            .filter(|(_, v)| messages::number_from_json(v).is_some());
        let ranked = numbers
            .filter_map(|(k, _)| Some((if k == "value" { 0 } else { rank(k)? }, k.as_str())));
        let ranked: Vec<(usize, &str)> = ranked.collect();
        let (_, best) = *ranked.iter().min_by_key(|(rank, _)| *rank)?;
        Some(ValueGuess {
            metric: best.to_owned(),
            direction: direction_of_value(best),
            pattern: None,
            found: Some(format!("{whence}: {}", shown(line))),
            others: others_of(ranked.into_iter(), best),
        })
    };
    if let Some(guess) = in_objects(reported, "it reports metric lines") {
        return Ok(Some(guess));
    }
    let Some(last) = printed.iter().rfind(|line| !line.trim().is_empty()) else {
        return Ok(None);
    };
    if last.trim().parse::<f64>().is_ok() {
        return Ok(Some(ValueGuess {
            metric: "value".to_owned(),
            direction: None,
            pattern: None,
            found: Some(format!("the last line that it prints: {}", shown(last))),
            others: Vec::new(),
        }));
    }
    if let Some(guess) = in_objects(std::slice::from_ref(last), "the last line that it prints") {
        return Ok(Some(guess));
    }
    in_text(printed)
}

/// A number with its name, in a line.
struct Named<'a> {
    /// The word before it.
    name: &'a str,
    /// What stands between the two.
    between: &'a str,
    /// What it measures: the name, or where that is no metric's an earlier word of the line that is one
    /// (`RMSE on test set: 3.2`).
    metric: &'a str,
    line: &'a str,
    /// What stands behind the number.
    after: &'a str,
}

/// The last line with the likeliest name before a number.
fn in_text(printed: &[String]) -> Result<Option<ValueGuess>, String> {
    let found = printed.iter().enumerate().flat_map(|(at, line)| {
        let of_line = named(line).into_iter();
        of_line.filter_map(move |n| Some((rank(n.metric)?, std::cmp::Reverse(at), n)))
    });
    let all: Vec<_> = found.collect();
    let Some((_, _, found)) = all.iter().min_by_key(|(rank, at, _)| (*rank, *at)) else {
        return Ok(None);
    };
    let others = others_of(
        all.iter().map(|(rank, _, n)| (*rank, n.metric)),
        found.metric,
    );
    let between = match found.between.trim() {
        "" => r"\s+".to_owned(),
        sign => format!(r"\s*{}\s*", regex::escape(sign)),
    };
    let word = |c: char| if c.is_alphanumeric() { c } else { '_' };
    let metric: String = found.metric.chars().map(word).collect();
    let before = format!(r"\b{}{between}", regex::escape(found.name));
    Ok(Some(ValueGuess {
        direction: direction_of_value(found.metric),
        pattern: Some(pattern(&before, found.after, printed, &metric)?),
        found: Some(shown(found.line)),
        others,
        metric,
    }))
}

/// The pattern of a number behind `before` that a trial would take from these lines; `after` follows the number.
fn pattern(before: &str, after: &str, printed: &[String], metric: &str) -> Result<String, String> {
    let unit: String = after.chars().take_while(|c| c.is_alphabetic()).collect();
    let plain = format!("{before}(-?[0-9.]+)");
    // A full stop behind the number; a unit that belongs to it.
    let mut forms = vec![format!(r"{before}(-?[0-9]+(?:\.[0-9]+)?)")];
    if !unit.is_empty() {
        forms.push(format!("{plain}{unit}"));
    }
    let taken = |form: &String| task::command::value_in(Some(form), printed, metric);
    match taken(&plain) {
        Ok(Some(_)) => Ok(plain),
        first => match forms
            .into_iter()
            .find(|form| matches!(taken(form), Ok(Some(_))))
        {
            Some(form) => Ok(form),
            None => Err(first
                .err()
                .unwrap_or_else(|| format!("no line matches '{plain}'"))),
        },
    }
}

/// The numbers of a line that have names. A word before a number is a name only where a sign says so, or it is known
/// to be one: `took 3` names nothing.
fn named(line: &str) -> Vec<Named<'_>> {
    let all = NAMED.captures_iter(line).filter_map(|c| {
        let (name, between, end) = (c.get(1)?, c.get(2)?.as_str(), c.get(3)?.end());
        let signed = between.contains([':', '=']);
        let earlier = line[..name.start()].split_whitespace();
        let known = direction(name.as_str()).is_some();
        let described = earlier
            .rev()
            // A word with a sign names a number of its own.
            .find(|w| !w.contains([':', '=']) && direction(w).is_some())
            .filter(|_| !known && signed);
        (signed || known).then(|| Named {
            name: name.as_str(),
            between,
            metric: described.unwrap_or(name.as_str()),
            line,
            after: &line[end..],
        })
    });
    all.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    fn guess(printed: &str) -> ValueGuess {
        value(&lines(printed), &[]).unwrap().unwrap()
    }

    /// What the pattern captures in the last line that it matches.
    fn captured(printed: &str) -> f64 {
        let pattern = Regex::new(&guess(printed).pattern.unwrap()).unwrap();
        let found = printed
            .lines()
            .filter_map(|l| pattern.captures(l))
            .next_back();
        found.unwrap()[1].parse().unwrap()
    }

    #[test]
    fn the_validation_metric_is_preferred_to_losses_and_counters() {
        let printed = "epoch 1: train_loss=0.9 val_f1=0.61\nepoch 2: train_loss=0.5 val_f1=0.71\ndone in 3.2 s\n";
        let found = guess(printed);
        assert_eq!(
            (found.metric.as_str(), found.direction),
            ("val_f1", Some(Direction::Maximize))
        );
        assert_eq!(captured(printed), 0.71);
        let printed = "Epoch: 3 | Loss: 0.25 | lr: 0.001";
        assert_eq!(guess(printed).direction, Some(Direction::Minimize));
        assert_eq!(captured(printed), 0.25);
        assert_eq!(captured("test accuracy 0.93"), 0.93);
        assert_eq!(captured("best val acc: 91.5%"), 91.5);
    }

    #[test]
    fn forms_of_other_libraries_are_read() {
        let trainer = "{'eval_loss': 0.31, 'eval_accuracy': 0.9, 'epoch': 3.0}";
        assert_eq!(guess(trainer).metric, "eval_accuracy");
        assert_eq!(captured(trainer), 0.9);
        let found = guess("RMSE on test set: 3.2");
        assert_eq!(
            (found.metric.as_str(), found.direction),
            ("RMSE", Some(Direction::Minimize))
        );
        assert_eq!(captured("RMSE on test set: 3.2"), 3.2);
        // The name does not tell which way is better.
        assert_eq!(guess("dev quux: 0.5").direction, None);
    }

    #[test]
    fn numbers_are_read_as_libraries_print_them_and_a_device_is_none() {
        let tensor = "val_loss: tensor(0.2345, device='cuda:0')";
        assert_eq!(guess(tensor).metric, "val_loss");
        assert_eq!(captured(tensor), 0.2345);
        assert_eq!(captured("{'val_f1': np.float64(0.71), 'n': 3}"), 0.71);
        assert_eq!(value(&lines("ready, device=cuda:0"), &[]), Ok(None));
        for rate in ["samples_per_sec", "tokens/sec", "survival_time"] {
            assert_eq!(direction_of_value(rate), None, "{rate}");
        }
        let found = guess("latency_ms: 12.5");
        assert_eq!(found.direction, Some(Direction::Minimize));
        let long = format!("{} val_f1=0.5", "x".repeat(1000));
        assert!(guess(&long).found.unwrap().chars().count() <= 201);
    }

    #[test]
    fn a_range_of_thresholds_is_a_part_of_the_name() {
        assert_eq!(captured("mAP@0.5:0.95 = 0.371\n"), 0.371);
        assert_eq!(captured("mAP@0.5:0.371\n"), 0.371);
        assert_eq!(captured("epoch 3 mAP@0.5: 0.371\n"), 0.371);
    }

    #[test]
    fn metric_lines_and_last_lines_need_no_pattern() {
        let reported = lines("{\"step\": 1, \"loss\": 0.4, \"val_acc\": 0.8}");
        let found = value(&lines("val_f1=0.3"), &reported).unwrap().unwrap();
        assert_eq!((found.metric.as_str(), found.pattern), ("val_acc", None));
        let found = guess("loading\n0.8312\n\n");
        assert_eq!((found.metric.as_str(), found.pattern), ("value", None));
        let found = guess("{\"rmse\": NaN, \"n\": 3}");
        assert_eq!(
            (found.metric.as_str(), found.direction),
            ("rmse", Some(Direction::Minimize))
        );
    }

    #[test]
    fn output_without_a_value_gives_none() {
        assert_eq!(value(&[], &[]), Ok(None));
        assert_eq!(
            value(&lines("epoch 1\nstep: 20 lr=0.1\nsaved to /tmp/3"), &[]),
            Ok(None)
        );
    }

    #[test]
    fn a_pattern_takes_what_a_trial_takes() {
        assert_eq!(captured("loss: 0.3s"), 0.3);
        assert_eq!(captured("Accuracy: 0.91. Done"), 0.91);
        assert_eq!(captured("loss: 1.5e-05"), 1.5);
        for (printed, part) in [
            ("perplexity: 1,234.5", "\",234.5\""),
            ("acc: 91/100", "\"/100\""),
            ("acc: 1.2.3", "expected a number"),
        ] {
            let error = value(&lines(printed), &[]).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn other_metrics_are_told_of_and_counters_are_not() {
        let found = guess("{\"loss\": 0.3, \"acc\": 0.9, \"epoch\": 3, \"n\": 4}");
        assert_eq!(
            (found.metric.as_str(), &found.others),
            ("acc", &vec!["loss".to_owned()])
        );
        assert!(others(&found).unwrap().contains("change objective.metric"));
        let found = guess("acc=0.80, f1=0.5\nacc=0.90, f1=0.87 loss: 0.2 step: 3");
        assert_eq!(found.others, ["f1", "loss"]);
        let told =
            "the program also prints f1, loss: change value and objective.metric for another";
        assert_eq!(others(&found).as_deref(), Some(told));
        assert_eq!(others(&guess("val_f1=0.3 lr=0.1")), None);
    }
}
