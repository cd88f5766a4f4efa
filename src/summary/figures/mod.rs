//! The charts, each with the sentence that says what to see in it.

mod parameters;
mod running;
mod several;
mod values;

use serde::Serialize;

use crate::{Facts, Material, Scored};
use chart::{Axis, Chart, Layer, Scale, Size, Theme};
use report::format;
use search::space::{Domain, Value};
use search::study::FrozenTrial;

/// Which chart.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Serialize,
    strum::Display,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Kind {
    /// Values in the order of the trials, and the best so far.
    History,
    /// Repeats of the leading trials.
    Repeats,
    /// What each parameter matters.
    Importances,
    /// Values over one parameter.
    Slice,
    /// Values over two parameters.
    Contour,
    /// All parameters beside each other.
    Parallel,
    /// Values step by step.
    Curves,
    /// What ran when.
    Timeline,
    /// Predicted against used memory.
    Memory,
    /// Faults by kind, and by the values of parameters.
    Faults,
    /// Two objectives, and the volume that the front dominates.
    Pareto,
    /// The shares of trials below each value, beside other studies.
    Edf,
}

impl Kind {
    /// All, in the page's order.
    pub const ALL: &[Kind] = <Kind as strum::VariantArray>::VARIANTS;

    /// Its heading.
    pub fn heading(self) -> &'static str {
        match self {
            Kind::History => "History",
            Kind::Repeats => "Repeats",
            Kind::Importances => "What matters",
            Kind::Slice => "Parameter by parameter",
            Kind::Contour => "The two that matter most",
            Kind::Parallel => "All together",
            Kind::Curves => "Learning curves",
            Kind::Timeline => "What ran when",
            Kind::Memory => "Memory",
            Kind::Faults => "Faults",
            Kind::Pareto => "The front",
            Kind::Edf => "Beside other studies",
        }
    }
}

/// Charts with what there is to see.
pub struct Figure {
    /// Which.
    pub kind: Kind,
    /// What to see.
    pub see: String,
    /// One or more.
    pub panels: Vec<Panel>,
}

/// A chart with its place in the page.
pub struct Panel {
    /// The chart.
    pub chart: Chart,
    /// The same for a phone, where it is another one.
    pub narrow: Option<Chart>,
    /// Pixels from top to bottom.
    pub height: f64,
    /// Whether it is small: several stand beside each other.
    pub small: bool,
}

/// A chart with its sentence; the parameters are those asked for, else the most important.
///
/// # Errors
/// Why there is nothing to be seen, as a sentence.
pub fn figure(
    kind: Kind,
    material: &Material,
    facts: &Facts,
    parameters: &[String],
) -> Result<Figure, String> {
    let (see, panels) = match kind {
        Kind::History => values::history(material, facts),
        Kind::Repeats => values::repeats(material, facts),
        Kind::Curves => values::curves(material),
        Kind::Edf => values::edf(material),
        Kind::Importances => parameters::importances(material, facts),
        Kind::Slice => parameters::slices(material, facts, parameters),
        Kind::Contour => parameters::contour(material, facts, parameters),
        Kind::Parallel => parameters::parallel(material, facts, parameters),
        Kind::Timeline => running::timeline(material, facts),
        Kind::Memory => running::memory(material),
        Kind::Faults => running::faults(material, facts),
        Kind::Pareto => several::pareto(material, facts),
    }?;
    Ok(Figure { kind, see, panels })
}

impl Figure {
    /// One of its charts by itself, of this width in pixels.
    pub fn svg(&self, width: f64, theme: Theme) -> Option<String> {
        let panel = self.panels.first()?;
        let height = match panel.small {
            true => width * 0.62,
            false => panel.height.max(width * 0.4).min(width * 1.4),
        };
        Some(panel.chart.svg(Size { width, height }, Some(theme)))
    }
}

type Built = Result<(String, Vec<Panel>), String>;

/// Pixels of a chart that has no rows.
const HEIGHT: f64 = 320.0;

/// Pixels of a row of names.
const ROW: f64 = 26.0;

impl Panel {
    fn new(chart: Chart) -> Panel {
        Panel {
            chart,
            narrow: None,
            height: HEIGHT,
            small: false,
        }
    }

    /// As high as so many rows are, with the axis and the legend.
    fn rows(self, rows: usize) -> Panel {
        Panel {
            height: 74.0 + ROW * rows as f64,
            ..self
        }
    }

    fn small(self) -> Panel {
        Panel {
            small: true,
            height: 230.0,
            ..self
        }
    }
}

/// The chart of a kind; its description says what there is to see.
fn chart(kind: Kind, see: &str, (x, y): (Axis, Axis), layers: Vec<Layer>) -> Chart {
    Chart {
        id: kind.to_string(),
        title: kind.heading().to_owned(),
        description: see.to_owned(),
        x,
        y,
        layers,
    }
}

/// A figure of one chart.
fn one(kind: Kind, see: &str, axes: (Axis, Axis), layers: Vec<Layer>) -> Built {
    let panel = Panel::new(chart(kind, see, axes, layers));
    Ok((see.to_owned(), vec![panel]))
}

/// An axis of values of the first objective.
fn values_axis(material: &Material, scale: Scale) -> Axis {
    let better = match material.study.direction() {
        search::study::Direction::Minimize => "lower is better",
        search::study::Direction::Maximize => "higher is better",
    };
    Axis::new(
        format!("{} ({better})", crate::shown(material.metric())),
        scale,
    )
}

/// A scale for values of which the bad ones may lie anywhere: wide enough for all that are not far worse than most.
/// Says how many lie beyond.
fn values_scale(material: &Material, values: &[f64], also: &[f64]) -> (Scale, usize) {
    let direction = material.study.direction();
    let mut losses: Vec<f64> = values.iter().map(|v| direction.loss(*v)).collect();
    losses.sort_by(f64::total_cmp);
    let at = |share: f64| losses.get((share * (losses.len().max(1) - 1) as f64) as usize);
    let (Some(best), Some(most)) = (losses.first(), at(0.9)) else {
        return (Scale::linear(also.iter().copied()), 0);
    };
    let bound = most + 1.5 * (most - best);
    let kept = losses.iter().copied().filter(|x| *x <= bound);
    let beyond = losses.iter().filter(|x| **x > bound).count();
    let also = also
        .iter()
        .map(|v| direction.loss(*v))
        .filter(|x| *x <= bound + (bound - best));
    let shown: Vec<f64> = kept.chain(also).map(|x| direction.loss(x)).collect();
    (Scale::linear(shown), beyond)
}

/// ` 3 lie beyond the edge.`
fn beyond_text(beyond: usize) -> String {
    match beyond {
        0 => String::new(),
        1 => " One far worse value lies beyond the edge.".to_owned(),
        n => format!(" {n} far worse values lie beyond the edge."),
    }
}

/// Where a parameter's values are on an axis.
struct Places {
    scale: Scale,
    /// The names of a scale of names, as parameters' values have them.
    choices: Vec<Value>,
    log: bool,
}

/// So many choices have a place of their own.
const CHOICES: usize = 24;

impl Places {
    /// The axis of a parameter over these trials.
    fn new(name: &str, trials: &[Scored<'_>]) -> Places {
        let with = || trials.iter().filter_map(|s| s.trial.params.get(name));
        let domain = trials.iter().find_map(|s| s.trial.distributions.get(name));
        let log = matches!(
            domain,
            Some(Domain::Float { log: true, .. } | Domain::Int { log: true, .. })
        );
        let numbers = with().map(Value::as_f64);
        let numeric = !matches!(domain, Some(Domain::Categorical { .. }));
        let numbers: Option<Vec<f64>> = numeric.then(|| numbers.collect()).flatten();
        if let Some(numbers) = numbers {
            let scale = if log {
                Scale::log(numbers)
            } else {
                Scale::linear(numbers)
            };
            return Places {
                scale,
                choices: Vec::new(),
                log,
            };
        }
        let mut choices: Vec<Value> = match domain {
            Some(Domain::Categorical { choices }) => choices.clone(),
            Some(Domain::Float { .. } | Domain::Int { .. }) | None => Vec::new(),
        };
        for value in with() {
            if !choices.contains(value) {
                choices.push(value.clone());
            }
        }
        choices.retain(|choice| with().any(|value| value == choice));
        choices.truncate(CHOICES);
        let names = choices.iter().map(|v| crate::shown(&format::param(v)));
        Places {
            scale: Scale::names(names),
            choices,
            log: false,
        }
    }

    /// Where a trial's value is, in the axis's units.
    fn at(&self, name: &str, trial: &FrozenTrial) -> Option<f64> {
        let value = trial.params.get(name)?;
        if self.scale.of_names().is_none() {
            return value.as_f64();
        }
        let place = self.choices.iter().position(|choice| choice == value);
        place.map(|place| place as f64)
    }

    /// The same as a share of the axis, 0 to 1.
    fn share(&self, name: &str, trial: &FrozenTrial) -> Option<f64> {
        self.scale.place(self.at(name, trial)?)
    }

    fn axis(&self, name: &str) -> Axis {
        let log = if self.log { " (log)" } else { "" };
        let name = crate::shown(name);
        Axis::new(format!("{name}{log}"), self.scale.clone())
    }
}

/// About this many, evenly spread.
fn spread<T: Copy>(all: &[T], most: usize) -> Vec<T> {
    let kept = all.len().min(most);
    (0..kept).map(|i| all[i * all.len() / kept]).collect()
}

/// The parameters asked for, else the leading ones.
fn wanted<'a>(facts: &'a Facts, asked: &'a [String], most: usize) -> Vec<&'a str> {
    match asked.is_empty() {
        true => facts.leading_parameters(most),
        false => asked.iter().take(most).map(String::as_str).collect(),
    }
}

/// Fewer complete trials than this make no picture of parameters.
fn enough(scored: &[Scored<'_>]) -> Result<(), String> {
    let few = search::importance::FEWEST;
    match scored.len() >= few {
        true => Ok(()),
        false => Err(format!(
            "Parameters are compared from {few} complete trials on; there are {}.",
            scored.len()
        )),
    }
}
