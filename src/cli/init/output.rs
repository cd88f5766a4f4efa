//! Where the value stands in what a program printed. Pure.

use std::sync::LazyLock;

use regex::Regex;
use search::study::Direction;
use serde_json::Value as Json;

/// A number with a name before it.
#[expect(clippy::expect_used, reason = "a constant, which tests compile")]
static NAMED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"([A-Za-z][\w@./-]*)(\s*[:=]\s*|\s+)(-?[0-9]+(?:\.[0-9]+)?)").expect("a pattern")
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
const NO_VALUE: [&str; 13] = [
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
];

/// What the value of a trial is.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueGuess {
    /// The metric's name.
    pub metric: String,
    /// By the metric's name.
    pub direction: Direction,
    /// The pattern; `None` where the program reports it, or its last line is it.
    pub pattern: Option<String>,
    /// Where it stood, for people.
    pub found: String,
}

/// The direction that a metric's name suggests: of an unknown one more is better.
pub fn direction(metric: &str) -> Direction {
    match words(metric).iter().any(|w| LESS.contains(&w.as_str())) {
        true => Direction::Minimize,
        false => Direction::Maximize,
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

/// Looks for the value: in the metric lines that the program reported, else in the lines that it printed.
pub fn value(printed: &[String], reported: &[String]) -> Option<ValueGuess> {
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
        let best = numbers
            .filter_map(|(k, _)| Some((if k == "value" { 0 } else { rank(k)? }, k)))
            .min_by_key(|(rank, _)| *rank)?;
        Some(ValueGuess {
            metric: best.1.clone(),
            direction: direction(best.1),
            pattern: None,
            found: format!("{whence}: {}", line.trim()),
        })
    };
    if let Some(guess) = in_objects(reported, "it reports metric lines") {
        return Some(guess);
    }
    let last = printed.iter().rfind(|line| !line.trim().is_empty())?;
    if last.trim().parse::<f64>().is_ok() {
        return Some(ValueGuess {
            metric: "value".to_owned(),
            direction: Direction::Maximize,
            pattern: None,
            found: format!("the last line that it prints: {}", last.trim()),
        });
    }
    if let Some(guess) = in_objects(std::slice::from_ref(last), "the last line that it prints") {
        return Some(guess);
    }
    in_text(printed)
}

/// The last line with the likeliest name before a number.
fn in_text(printed: &[String]) -> Option<ValueGuess> {
    let found = printed.iter().enumerate().flat_map(|(at, line)| {
        NAMED.captures_iter(line).filter_map(move |c| {
            let (name, between) = (c.get(1)?.as_str(), c.get(2)?.as_str());
            // A word before a number is a name only where it is known to be one: `took 3`.
            let known = words(name)
                .iter()
                .any(|w| MORE.contains(&w.as_str()) || LESS.contains(&w.as_str()));
            let named = between.contains([':', '=']) || known;
            let rank = rank(name).filter(|_| named)?;
            Some((rank, std::cmp::Reverse(at), name, between, line))
        })
    });
    let (_, _, name, between, line) = found.min_by_key(|(rank, at, ..)| (*rank, *at))?;
    let between: String = match between.trim() {
        "" => r"\s+".to_owned(),
        sign => format!(r"\s*{}\s*", regex::escape(sign)),
    };
    let metric: String = (name.chars())
        .map(|c| if c.is_alphanumeric() { c } else { '_' })
        .collect();
    Some(ValueGuess {
        direction: direction(name),
        pattern: Some(format!(r"\b{}{between}(-?[0-9.]+)", regex::escape(name))),
        metric,
        found: line.trim().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    fn guess(printed: &str) -> ValueGuess {
        value(&lines(printed), &[]).unwrap()
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
            ("val_f1", Direction::Maximize)
        );
        assert_eq!(captured(printed), 0.71);
        let printed = "Epoch: 3 | Loss: 0.25 | lr: 0.001";
        assert_eq!(guess(printed).direction, Direction::Minimize);
        assert_eq!(captured(printed), 0.25);
        assert_eq!(captured("test accuracy 0.93"), 0.93);
        assert_eq!(captured("best val acc: 91.5%"), 91.5);
    }

    #[test]
    fn metric_lines_and_last_lines_need_no_pattern() {
        let reported = lines("{\"step\": 1, \"loss\": 0.4, \"val_acc\": 0.8}");
        let found = value(&lines("val_f1=0.3"), &reported).unwrap();
        assert_eq!((found.metric.as_str(), found.pattern), ("val_acc", None));
        let found = guess("loading\n0.8312\n\n");
        assert_eq!((found.metric.as_str(), found.pattern), ("value", None));
        let found = guess("{\"rmse\": NaN, \"n\": 3}");
        assert_eq!(
            (found.metric.as_str(), found.direction),
            ("rmse", Direction::Minimize)
        );
    }

    #[test]
    fn output_without_a_value_gives_none() {
        assert_eq!(value(&[], &[]), None);
        assert_eq!(
            value(&lines("epoch 1\nstep: 20 lr=0.1\nsaved to /tmp/3"), &[]),
            None
        );
    }
}
