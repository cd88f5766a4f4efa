//! Task kind `tabular` without libtorch: rows of a table, and what a model reads of them.

mod description;
mod encoding;
mod rows;

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value as Json};

use config::kinds::tabular::{CATEGORICAL, IGNORE, KIND, PROBLEM};
use config::{Baseline, Prepared, Problem, Problems, StudySpec, TaskKind};
use device::Device;
use memory::Floor;
use search::space::{Params, Value};
use task::{ExportedModel, Preparation, TrainedModel, TrainingRows};
use training::baseline::{baseline, idle_threshold, over_rounds};
use training::division::{self, MadeUp, data_path, rows_differ};
use training::leakage::groups_apart;
use training::nonlinearity::sizes;
use training::rows::{PLAIN_NUMBER, dressed_number};
use training::split::{Part, Split};
use training::{exported, numbers};

pub use description::{Description, ExportedTable, Scale};
pub use encoding::{Column, Encoded, Encoding, Feature};
pub use rows::TableRows;

/// The kind.
pub struct Tabular;

/// Reads the rows and splits them.
///
/// # Errors
/// See [`division::load`].
pub fn load(spec: &StudySpec) -> Result<(TableRows, Split), Problems> {
    let read = |path: &Path| TableRows::read(path, spec);
    division::load(spec, &read, |data: &TableRows| &data.samples, &|_| None)
}

impl Preparation for Tabular {
    fn kind(&self) -> &'static TaskKind {
        &KIND
    }

    fn prepare(&self, spec: &StudySpec) -> Result<Prepared, Problems> {
        let (data, split) = load(spec)?;
        let mut problems = misfits(spec, &data);
        problems.extend(idle_threshold(spec, data.outputs()));
        let sets = split.sets();
        problems.extend(groups_apart(data_path(spec), &data.samples, &sets));
        Problems(problems).or(())?;
        let trivial = |part| trivial(&data, &split, part, &spec.objective.metric);
        let columns = (data.target.as_str(), &split);
        let fingerprint = data.fingerprint();
        let mut prepared = division::prepared(spec, &data.samples, columns, fingerprint, &trivial);
        prepared.warnings.extend(odd_columns(spec, &data));
        let of = |numeric: bool| {
            let names = data.columns.iter().filter(|c| c.is_numeric() == numeric);
            names.map(|c| c.name().to_owned()).collect::<Vec<String>>()
        };
        for (what, names) in [("numeric", of(true)), ("categorical", of(false))] {
            let listed = training::table::listed(&names);
            prepared
                .facts
                .push(("data".into(), format!("{} {what}: {listed}", names.len())));
        }
        Ok(prepared)
    }

    fn unchanged(
        &self,
        spec: &StudySpec,
        identity: &Map<String, Json>,
        _config: &Params,
    ) -> Result<(), Problems> {
        let (data, split) = load(spec)?;
        let differ = rows_differ(spec, identity, (&data.fingerprint(), &split));
        Problems(differ.into_iter().collect()).or(())
    }

    fn training_rows(&self, spec: &StudySpec) -> Result<Option<TrainingRows>, Problems> {
        let (data, split) = load(spec)?;
        Ok(Some(division::training_rows(spec, &data.samples, &split)))
    }

    fn make_up(&self, spec: &mut StudySpec, dir: &Path) -> anyhow::Result<()> {
        for key in [CATEGORICAL, IGNORE] {
            spec.lists.remove(key);
        }
        let target = spec.fixed.get("data.target").and_then(Value::as_str);
        let target = target.unwrap_or_default().to_owned();
        let columns: [MadeUp<'_>; 3] = [
            ("number", &|row: usize| (row * 37 % 101).to_string()),
            ("name", &|row: usize| format!("name {}", row % 7)),
            (&target, &|row: usize| (row % 2).to_string()),
        ];
        division::make_up(spec, dir, &columns)
    }

    fn export(
        &self,
        _spec: &StudySpec,
        model: &TrainedModel<'_>,
        to: (&Path, bool),
        told: &mut dyn FnMut(u64),
    ) -> anyhow::Result<ExportedModel> {
        exported::export::<Description>(model, to, told)
    }

    fn floor(&self, spec: &StudySpec, _device: Device) -> Option<Arc<Floor>> {
        let (data, split) = load(spec).ok()?;
        let rows = split.rounds().into_iter().next()?.train;
        let encoding = Encoding::learn(&data.columns, &rows);
        let (rows, outputs) = (data.samples.count(), data.outputs());
        // Weights, gradients and AdamW's two moments, 4 bytes each, and the rows as they are read.
        Some(Arc::new(move |config: &Params| {
            let size = |key: &str| usize::try_from(config.get(key).and_then(Value::as_i64)?).ok();
            let (layers, hidden) = (size("model.layers")?, size("model.hidden")?);
            let embedding = size("model.embedding")?;
            let sizes = sizes(encoding.inputs(embedding), (layers, hidden), outputs);
            let linear: usize = sizes.iter().map(|(input, out)| (input + 1) * out).sum();
            let tables: usize = encoding.categories().map(|count| count * embedding).sum();
            let cells = rows * (encoding.width() + 2 * encoding.categories().count());
            Some(4 * (4 * (linear + tables) + cells) as u64)
        }))
    }
}

/// Keys that do not fit what is predicted.
fn misfits(spec: &StudySpec, data: &TableRows) -> Vec<Problem> {
    let problem = |key: &str, found: String, expected: &str| spec.problem(key, found, expected);
    let regression = data.is_regression();
    let of_numbers = |metric: &str| ["rmse", "mae", "r2"].contains(&metric);
    let metrics = spec.objectives().into_iter().map(|o| o.metric.as_str());
    let known = |metric: &&str| KIND.metrics.iter().any(|m| m.name == *metric);
    let wrong = metrics
        .filter(known)
        .find(|metric| of_numbers(metric) != regression);
    let metric = wrong.map(|metric| {
        let (found, expected) = match regression {
            true => ("regression", "rmse, mae or r2"),
            false => (
                "classification",
                "a metric of classes such as macro_f1 or auroc",
            ),
        };
        problem(
            "objective.metric",
            format!("{metric} with {PROBLEM} = {found}"),
            expected,
        )
    });
    let searched = |prefix: &str| {
        let names = spec.space.parameters.iter().map(|p| p.name.as_str());
        names
            .filter(|name| name.starts_with(prefix))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let dead = match (regression, data.columns.iter().all(Column::is_numeric)) {
        (true, false) => searched("loss.cls."),
        (false, true) => searched("model.embedding"),
        (true, true) => [searched("loss.cls."), searched("model.embedding")].concat(),
        (false, false) => Vec::new(),
    };
    let dead = dead.iter().map(|name| {
        let found = "it searched where it changes nothing".to_owned();
        problem(
            name,
            found,
            "loss.cls only with classes, model.embedding only with categorical columns",
        )
    });
    let class = |name: &str| name.strip_prefix("probability.").map(str::to_owned);
    let of_class =
        |name: &str| class(name).is_some_and(|class| data.samples.classes.contains(&class));
    let taken = |name: &str| name == "prediction" || of_class(name);
    let taken = data
        .columns
        .iter()
        .map(Column::name)
        .filter(|name| taken(name));
    let taken = taken.map(|name| {
        let found = format!("a column {name}, as answers have one");
        problem(
            "data.path",
            found,
            "another name, or the column listed in data.ignore and absent from files to predict",
        )
    });
    metric.into_iter().chain(dead).chain(taken).collect()
}

/// What to tell of columns that are categorical though somebody may have meant numbers.
fn odd_columns(spec: &StudySpec, data: &TableRows) -> Vec<String> {
    let meant = spec.lists.get(CATEGORICAL).map_or(&[][..], Vec::as_slice);
    let odd = |column: &Column| {
        let name = column.name();
        if meant.iter().any(|meant| meant == name) {
            return None;
        }
        if let Some((row, cell)) = column.no_number() {
            let line = data.samples.lines.get(row).copied().unwrap_or_default();
            let remedy = match dressed_number(cell) {
                Some(_) => format!("write {PLAIN_NUMBER}"),
                None => "leave such cells empty".to_owned(),
            };
            return Some(format!(
                "the column {name} holds numbers, but for cells such as {cell:?} (line {line}): so it counts as categorical; \
                 {remedy}, or list it in {CATEGORICAL}"
            ));
        }
        let (a, b) = column.same_number()?;
        Some(format!(
            "the column {name} has the categories {a:?} and {b:?}, which are one number: each counts for itself"
        ))
    };
    data.columns.iter().filter_map(odd).collect()
}

/// The trivial answer's score on a part.
fn trivial(data: &TableRows, split: &Split, part: Part, metric: &str) -> Option<Baseline> {
    if !data.is_regression() {
        return baseline(&data.samples, split, part, &data.target, metric);
    }
    let of = |rows: &[usize]| -> Vec<f64> { rows.iter().map(|row| data.numbers[*row]).collect() };
    over_rounds(split, part, &|train, scored| {
        let (value, what) = numbers::trivial(&of(train), &of(scored), metric)?;
        Some((
            value,
            format!(
                "always predicting the {what} of {} in the training rows",
                data.target
            ),
        ))
    })
}

#[cfg(test)]
mod tests;
