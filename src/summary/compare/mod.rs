//! Two studies side by side: which is better and how sure that is, how fast each was, what it cost, where they differ.

mod course;
#[cfg(test)]
mod tests;
mod words;

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value as Json;
use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::facts::Facts;
use crate::faults::{self, FaultCost, Hours};
use crate::{Material, facts};
use config::differences;
use course::{Course, Reached};
use messages::any_float;
use report::Best;
use search::space::{Params, Value};
use search::study::noise::Noise;
use search::study::selection::Candidate;
use search::study::{Direction, pareto};
use store::Counts;

/// Two studies side by side.
#[derive(Serialize)]
pub struct Comparison {
    /// Names of the objectives.
    pub metrics: Vec<String>,
    /// Their directions.
    pub directions: Vec<Direction>,
    /// The first study.
    pub a: Side,
    /// The second one.
    pub b: Side,
    /// The one that is better beyond what chance explains; `None` where that cannot be said.
    pub better: Option<Which>,
    /// Why their values cannot stand beside each other; empty where they can.
    pub incomparable: Vec<String>,
    /// How far their best are apart; `None` with several objectives, and where one has no value.
    pub difference: Option<Difference>,
    /// The best of the first so many finished trials of each.
    pub at_equal_trials: Option<AtEqual>,
    /// The best after the first so many hours of training of each.
    pub at_equal_hours: Option<AtEqual>,
    /// With several objectives, the volumes that the fronts dominate, above the worst values of both.
    pub hypervolume: Option<Volumes>,
    /// Where they differ.
    pub differences: Differences,
    /// All of it in words.
    pub verdict: Vec<Sentence>,
}

/// One of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Which {
    /// The first.
    A,
    /// The second.
    B,
}

/// A study beside another one.
#[derive(Serialize)]
pub struct Side {
    /// Its name.
    pub study: String,
    /// How it stands, in words.
    pub state: String,
    /// Trials by state.
    pub counts: Counts,
    /// Trials that count towards a goal.
    pub finished: u64,
    /// Of all, those that were copied from other studies.
    pub copied: u64,
    /// The winner by repeats, else the best trial.
    pub best: Option<Best>,
    /// The mean of the winner's repeats, where there are some.
    #[serde(with = "any_float")]
    pub mean: Option<f64>,
    /// The first trial that was as good as the best of the other study; `None` where none was, or where values cannot stand
    /// beside each other.
    pub reached: Option<Reached>,
    /// Hours of training of the search alone, without repeats and tests.
    #[serde(skip)]
    pub searched: f64,
    /// Where the time went.
    pub hours: Hours,
    /// Faults by kind.
    pub faults: Vec<FaultCost>,
}

/// What a difference rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// The repeats of both winners.
    Repeats,
    /// One training each, beside the noise of seeds that repeats of other points show.
    Noise,
    /// One training each, and nothing is known of the noise.
    Single,
}

/// How far the best of two studies are apart.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Difference {
    /// What it rests on.
    pub basis: Basis,
    /// Of the first study.
    pub a: Compared,
    /// Of the second.
    pub b: Compared,
    /// By how much the second is better, in the metric's units; negative where the first is.
    #[serde(with = "any_float")]
    pub gain: f64,
    /// Lower end of the 95 % interval of that.
    #[serde(with = "any_float")]
    pub low: Option<f64>,
    /// Upper end.
    #[serde(with = "any_float")]
    pub high: Option<f64>,
}

/// What of a study is compared.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Compared {
    /// The trial.
    pub number: u64,
    /// Its value, or the mean of its repeats.
    #[serde(with = "any_float")]
    pub value: f64,
    /// Trainings that it rests on.
    pub trainings: usize,
}

/// The best of two studies after equally much.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AtEqual {
    /// How much.
    pub budget: f64,
    /// The best value of the first study by then.
    #[serde(with = "any_float")]
    pub a: f64,
    /// Of the second one.
    #[serde(with = "any_float")]
    pub b: f64,
}

/// A volume of each study.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Volumes {
    /// Of the first.
    pub a: f64,
    /// Of the second.
    pub b: f64,
}

/// Where two studies differ.
#[derive(Default, Serialize)]
pub struct Differences {
    /// Keys of the configuration that values depend on, and sampler and pruner of the last run.
    pub configuration: Vec<Differing<String>>,
    /// What is searched.
    pub space: Vec<Differing<String>>,
    /// Parameters of the best trials, those that matter most first.
    pub parameters: Vec<Differing<Value>>,
}

/// Something that differs.
#[derive(Debug, PartialEq, Serialize)]
pub struct Differing<T> {
    /// Its name.
    pub key: String,
    /// What the first study has; `None`: nothing.
    pub a: Option<T>,
    /// What the second one has.
    pub b: Option<T>,
}

/// A sentence or a few.
#[derive(Debug, PartialEq, Serialize)]
pub struct Sentence {
    /// What it is about.
    pub about: About,
    /// What it says.
    pub text: String,
}

/// What a sentence is about, in the order in which they are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, strum::Display)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// Which is better.
    #[strum(to_string = "Which is better")]
    Better,
    /// What the interval means, or why there is none.
    #[strum(to_string = "What that rests on")]
    Basis,
    /// How fast each was.
    #[strum(to_string = "How fast")]
    Speed,
    /// Faults, and what they cost.
    #[strum(to_string = "Faults and cost")]
    Cost,
}

impl Comparison {
    /// Two studies with the same objectives.
    pub fn new(a: &Material, b: &Material) -> Comparison {
        let facts = [Facts::new(a), Facts::new(b)];
        let courses = [Course::of(a), Course::of(b)];
        let incomparable = incomparable(a, b);
        let at_equal_trials = at_equal_trials(&courses);
        let single = !a.several();
        let difference = (single && incomparable.is_empty())
            .then(|| difference([a, b], &facts, &courses))
            .flatten();
        let differences = Differences::of([a, b], &facts);
        let [of_a, of_b] = facts;
        // As good as a value that says nothing here is nothing.
        let best = match incomparable.is_empty() {
            true => [courses[0].best(), courses[1].best()],
            false => [None, None],
        };
        let mut comparison = Comparison {
            metrics: a.metrics.clone(),
            directions: a.study.directions.clone(),
            a: Side::of(a, of_a, &courses[0], best[1]),
            b: Side::of(b, of_b, &courses[1], best[0]),
            better: difference.and_then(Difference::better),
            at_equal_trials: at_equal_trials.filter(|_| single),
            at_equal_hours: at_equal_hours(&courses).filter(|_| single),
            hypervolume: volumes(a, b).filter(|_| incomparable.is_empty()),
            difference,
            incomparable,
            differences,
            verdict: Vec::new(),
        };
        comparison.verdict = words::verdict(&comparison, [a, b]);
        comparison
    }
}

impl Side {
    /// `other`: the best value of the other study.
    fn of(material: &Material, facts: Facts, course: &Course, other: Option<f64>) -> Side {
        let reached = other.and_then(|other| course.reached(other));
        Side {
            study: facts.study,
            state: facts.state,
            counts: facts.counts,
            finished: facts.finished,
            copied: material.trials.iter().filter(|t| faults::copied(t)).count() as u64,
            best: facts.best,
            mean: material.repeated().map(|(_, estimate)| estimate.mean),
            reached: reached.filter(|_| !material.several()),
            searched: course.hours(),
            hours: facts.hours,
            faults: facts.faults,
        }
    }
}

/// Why values of one study say nothing beside those of the other one: what they are measured on differs.
fn incomparable(a: &Material, b: &Material) -> Vec<String> {
    let differs = |key: &&str| {
        let of = |m: &Material| m.identity.get(*key).cloned();
        matches!((of(a), of(b)), (Some(x), Some(y)) if x != y)
    };
    let of = [
        ("task.kind", "the kinds of their tasks differ"),
        ("data.fingerprint", "their data differ"),
        (
            "data.split.fingerprint",
            "their rows are split otherwise into training and validation",
        ),
    ];
    let differing = of.into_iter().filter(|(key, _)| differs(key));
    differing.map(|(_, why)| why.to_owned()).collect()
}

fn at_equal_trials(courses: &[Course; 2]) -> Option<AtEqual> {
    let budget = courses[0].finished().min(courses[1].finished());
    Some(AtEqual {
        budget: budget as f64,
        a: courses[0].best_of_first(budget)?.value,
        b: courses[1].best_of_first(budget)?.value,
    })
}

fn at_equal_hours(courses: &[Course; 2]) -> Option<AtEqual> {
    let budget = courses[0].hours().min(courses[1].hours());
    Some(AtEqual {
        budget,
        a: courses[0].best_within(budget)?,
        b: courses[1].best_within(budget)?,
    })
}

fn difference(
    studies: [&Material; 2],
    facts: &[Facts; 2],
    courses: &[Course; 2],
) -> Option<Difference> {
    let direction = studies[0].study.direction();
    let winners = studies.map(Material::repeated);
    if let [Some((a, _)), Some((b, _))] = winners {
        return Some(by_repeats(a, b, direction));
    }
    let budget = courses[0].finished().min(courses[1].finished());
    let first = |course: &Course| {
        let best = course.best_of_first(budget)?;
        Some(Compared {
            number: best.number,
            value: best.value,
            trainings: 1,
        })
    };
    let (a, b) = (first(&courses[0])?, first(&courses[1])?);
    let noise = pooled(facts[0].noise, facts[1].noise);
    let half = noise.and_then(|(deviation, free)| Some(student(free)? * deviation * 2f64.sqrt()));
    let basis = match half {
        Some(_) => Basis::Noise,
        None => Basis::Single,
    };
    Some(Difference::new(basis, a, b, half, direction))
}

/// The difference of two means with unequal variances (Welch, Biometrika 34, 1947).
fn by_repeats(a: &Candidate, b: &Candidate, direction: Direction) -> Difference {
    let of = |c: &Candidate| {
        let n = c.values.len() as f64;
        let mean = c.values.iter().sum::<f64>() / n;
        let squares = c.values.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
        (mean, squares / (n - 1.0) / n, n)
    };
    let ((mean_a, var_a, n_a), (mean_b, var_b, n_b)) = (of(a), of(b));
    let variance = var_a + var_b;
    let free = variance.powi(2) / (var_a.powi(2) / (n_a - 1.0) + var_b.powi(2) / (n_b - 1.0));
    let half = match variance > 0.0 {
        true => student(free).map(|t| t * variance.sqrt()),
        false => Some(0.0),
    };
    let compared = |c: &Candidate, value| Compared {
        number: c.number,
        value,
        trainings: c.values.len(),
    };
    let (a, b) = (compared(a, mean_a), compared(b, mean_b));
    Difference::new(Basis::Repeats, a, b, half, direction)
}

/// Half of the width of a 95 % interval, in standard errors.
fn student(free: f64) -> Option<f64> {
    let t = StudentsT::new(0.0, 1.0, free).ok()?;
    Some(t.inverse_cdf(0.975))
}

/// The noise of both studies: standard deviation, and the degrees of freedom that it rests on.
fn pooled(a: Option<Noise>, b: Option<Noise>) -> Option<(f64, f64)> {
    let known = [a, b].into_iter().flatten();
    let of = known.map(|noise| (noise.deviation, (noise.trainings - noise.points) as f64));
    let (squares, free) = of.fold((0.0, 0.0), |(squares, free), (deviation, n)| {
        (squares + n * deviation.powi(2), free + n)
    });
    (free > 0.0).then(|| ((squares / free).sqrt(), free))
}

impl Difference {
    fn new(
        basis: Basis,
        a: Compared,
        b: Compared,
        half: Option<f64>,
        direction: Direction,
    ) -> Difference {
        let gain = direction.loss(a.value) - direction.loss(b.value);
        Difference {
            basis,
            a,
            b,
            gain,
            low: half.map(|half| gain - half),
            high: half.map(|half| gain + half),
        }
    }

    /// The one that is better beyond what the interval leaves open.
    pub(crate) fn better(self) -> Option<Which> {
        match (self.low?, self.high?) {
            (low, _) if low > 0.0 => Some(Which::B),
            (_, high) if high < 0.0 => Some(Which::A),
            (_, _) => None,
        }
    }
}

fn volumes(a: &Material, b: &Material) -> Option<Volumes> {
    let (of_a, of_b) = (facts::nadir(a)?, facts::nadir(b)?);
    let worst: Vec<f64> = of_a.iter().zip(&of_b).map(|(x, y)| x.max(*y)).collect();
    let volume = |m: &Material| {
        let directions = &m.study.directions;
        let front = pareto::front(directions, &m.trials).into_iter();
        let points = front.map(|t| pareto::losses(directions, &t.values));
        pareto::hypervolume(&points.collect::<Vec<_>>(), &worst)
    };
    a.several().then(|| Volumes {
        a: volume(a),
        b: volume(b),
    })
}

impl Differences {
    fn of(studies: [&Material; 2], facts: &[Facts; 2]) -> Differences {
        let [a, b] = studies.map(|m| &m.identity);
        let searched = |key: &str| {
            key == "constraints"
                || [a, b]
                    .iter()
                    .any(|i| i.contains_key(&format!("space.{key}")))
        };
        // What one of them lacks altogether was not made by a run of ours, and is no difference.
        let found = match a.is_empty() || b.is_empty() {
            true => Vec::new(),
            false => differences(a, b),
        };
        let told = found.into_iter().map(|d| {
            let side = |text: Option<String>| match (&d.content, text) {
                (Some(content), Some(digest)) => {
                    Some(format!("{content} {}", digest.get(..8).unwrap_or(&digest)))
                }
                (_, text) => text,
            };
            let (a, b) = (side(d.was), side(d.asked));
            Differing { key: d.key, a, b }
        });
        let (space, mut configuration): (Vec<_>, Vec<_>) = told.partition(|d| searched(&d.key));
        configuration.extend(operation(studies));
        Differences {
            configuration,
            space,
            parameters: parameters(facts),
        }
    }
}

/// Sampler and pruner of the last runs, where they differ; options of one and the same kind alone.
fn operation(studies: [&Material; 2]) -> Vec<Differing<String>> {
    let mut differing = Vec::new();
    for section in ["sampler", "pruner"] {
        let sides = studies.map(|m| m.runs.last()?.record.operation.get(section));
        let [Some(a), Some(b)] = sides else {
            continue;
        };
        let mut compare = |key: &str, a: Option<&Json>, b: Option<&Json>| {
            let text = |json: &Json| {
                json.as_str()
                    .map_or_else(|| json.to_string(), str::to_owned)
            };
            let (a, b) = (a.map(text), b.map(text));
            let alike = a == b;
            if !alike {
                let key = format!("{section}.{key}");
                differing.push(Differing { key, a, b });
            }
            alike
        };
        if compare("kind", a.get("kind"), b.get("kind")) {
            let [a, b] = [a, b].map(|side| side.get("options").and_then(Json::as_object));
            let keys = a.into_iter().chain(b).flat_map(|options| options.keys());
            for key in keys.collect::<BTreeSet<_>>() {
                compare(key, a.and_then(|o| o.get(key)), b.and_then(|o| o.get(key)));
            }
        }
    }
    differing
}

/// Parameters in which the best trials differ.
fn parameters(facts: &[Facts; 2]) -> Vec<Differing<Value>> {
    let [Some(a), Some(b)] = [&facts[0].best, &facts[1].best] else {
        return Vec::new();
    };
    let (a, b): (&Params, &Params) = (a.trained_with(), b.trained_with());
    let ranked = facts
        .iter()
        .flat_map(|f| f.importance.iter().map(|p| &p.name));
    let mut names: Vec<&String> = Vec::new();
    for name in ranked.chain(a.keys()).chain(b.keys()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let differing = names
        .into_iter()
        .filter(|name| a.get(*name) != b.get(*name));
    let of = |name: &String| Differing {
        key: name.clone(),
        a: a.get(name).cloned(),
        b: b.get(name).cloned(),
    };
    differing.map(of).collect()
}
