//! TensorBoard's event files: a directory a trial with its scalars step by step and what the plugin for hyperparameters
//! shows of it, and one above for what all have in common.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use prost::Message;
use search::space::Value;
use search::study::{FrozenTrial, TrialState};

use crate::event::{
    AnyValue, Event, Experiment, HParamInfo, HParams, Kind, Metadata, MetricInfo, MetricName,
    PluginData, SessionEnd, SessionStart, Summary, SummaryValue, Tensor, append,
};
use crate::{NAME, TEXT, Trials, plain, seconds};

/// Writes the event files into an empty directory: `trial-00017/events.out.tfevents.…`.
///
/// # Errors
/// Writing failed.
pub fn tensorboard(study: &Trials<'_>, dir: &Path) -> io::Result<()> {
    let began = study.trials.iter().filter_map(start).reduce(f64::min);
    let began = began.unwrap_or(0.0);
    let common = records(began, vec![(0, experiment(study, began))]);
    fs::write(
        dir.join(file_name(began)),
        [version(began), common].concat(),
    )?;
    let wide = study
        .trials
        .last()
        .map_or(0, |t| t.number)
        .to_string()
        .len();
    for trial in study
        .trials
        .iter()
        .filter(|t| t.state != TrialState::Waiting)
    {
        let home = home(dir, trial.number, wide);
        fs::create_dir_all(&home)?;
        let time = seconds(trial.datetime_complete.as_deref()).or_else(|| start(trial));
        let time = time.unwrap_or(0.0);
        let file = [
            begin(trial, time),
            records(time, curve(study, trial)),
            end(study, trial, time),
        ];
        fs::write(home.join(file_of(trial)), file.concat())?;
    }
    Ok(())
}

/// The directory of a trial; its number has at least so many digits.
pub(crate) fn home(dir: &Path, number: u64, wide: usize) -> PathBuf {
    dir.join(format!("trial-{number:0wide$}"))
}

/// The file of a trial in it.
pub(crate) fn file_of(trial: &FrozenTrial) -> String {
    file_name(start(trial).unwrap_or(0.0))
}

/// The name of a file that begins at this time: TensorBoard reads those of a directory in the order of their names.
fn file_name(time: f64) -> String {
    format!("events.out.tfevents.{:010}.tune", time as u64)
}

/// What a file begins with.
fn version(wall_time: f64) -> Vec<u8> {
    let mut file = Vec::new();
    let version = Event {
        wall_time,
        file_version: Some("brain.Event:2".to_owned()),
        ..Event::default()
    };
    append(&mut file, &version);
    file
}

/// Events at one time: when exactly each step was made is not known.
pub(crate) fn records(wall_time: f64, values: Vec<(i64, SummaryValue)>) -> Vec<u8> {
    let mut file = Vec::new();
    for (step, value) in values {
        let summary = Some(Summary { value: vec![value] });
        append(
            &mut file,
            &Event {
                wall_time,
                step,
                summary,
                file_version: None,
            },
        );
    }
    file
}

fn start(trial: &FrozenTrial) -> Option<f64> {
    seconds(trial.datetime_start.as_deref())
}

/// Which hyperparameters and metrics there are.
fn experiment(study: &Trials<'_>, began: f64) -> SummaryValue {
    let mut kinds: BTreeMap<String, i32> = BTreeMap::new();
    for (name, value) in study.trials.iter().flat_map(|t| &t.params) {
        let kind = match any_value(value).kind {
            Some(Kind::Bool(_)) => 2,
            Some(Kind::Number(_)) => 3,
            Some(Kind::Text(_)) | None => 1,
        };
        let known = kinds.entry(plain(name, NAME)).or_insert(kind);
        // Numbers and texts: all of them can be told as texts alone.
        if *known != kind {
            *known = 1;
        }
    }
    let infos = kinds
        .into_iter()
        .map(|(name, kind)| HParamInfo { name, kind });
    let metrics = study.value_names().into_iter();
    let metrics = metrics.map(|tag| MetricInfo {
        name: Some(MetricName { tag }),
    });
    hparams(
        "_hparams_/experiment",
        &HParams {
            experiment: Some(Experiment {
                time_created_secs: began,
                hparam_infos: infos.collect(),
                metric_infos: metrics.collect(),
            }),
            ..HParams::default()
        },
    )
}

/// What a trial's file begins with: its parameters.
pub(crate) fn begin(trial: &FrozenTrial, wall_time: f64) -> Vec<u8> {
    let params = trial.params.iter();
    let params = params.map(|(name, value)| (plain(name, NAME), any_value(value)));
    let began = hparams(
        "_hparams_/session_start_info",
        &HParams {
            session_start_info: Some(SessionStart {
                hparams: params.collect(),
                start_time_secs: start(trial).unwrap_or(0.0),
            }),
            ..HParams::default()
        },
    );
    [version(wall_time), records(wall_time, vec![(0, began)])].concat()
}

/// The first objective of a trial step by step.
pub(crate) fn curve(study: &Trials<'_>, trial: &FrozenTrial) -> Vec<(i64, SummaryValue)> {
    let steps = trial.intermediate.iter();
    steps
        .map(|(step, value)| (*step, scalar(study.curve_name(), *value)))
        .collect()
}

/// What a trial's file ends with: its values, its other metrics and how it ended.
pub(crate) fn end(study: &Trials<'_>, trial: &FrozenTrial, wall_time: f64) -> Vec<u8> {
    let mut all = Vec::new();
    let scalars = study.scalars(trial).into_iter();
    for (name, steps) in scalars.filter(|(name, _)| name != study.curve_name()) {
        let steps = steps.into_iter();
        all.extend(steps.map(|(step, value)| (step, scalar(&name, value))));
    }
    let status = match trial.state {
        TrialState::Complete | TrialState::Pruned => 1,
        TrialState::Fail => 2,
        TrialState::Running | TrialState::Waiting => 3,
    };
    let ended = seconds(trial.datetime_complete.as_deref()).unwrap_or(0.0);
    let session_end_info = Some(SessionEnd {
        status,
        end_time_secs: ended,
    });
    let end = HParams {
        session_end_info,
        ..HParams::default()
    };
    all.push((0, hparams("_hparams_/session_end_info", &end)));
    records(wall_time, all)
}

fn scalar(tag: &str, value: f64) -> SummaryValue {
    SummaryValue {
        tag: plain(tag, NAME),
        simple_value: Some(value as f32),
        ..SummaryValue::default()
    }
}

fn hparams(tag: &str, data: &HParams) -> SummaryValue {
    let plugin_data = Some(PluginData {
        plugin_name: "hparams".to_owned(),
        content: data.encode_to_vec(),
    });
    SummaryValue {
        tag: tag.to_owned(),
        tensor: Some(Tensor { dtype: 1 }),
        metadata: Some(Metadata { plugin_data }),
        ..SummaryValue::default()
    }
}

fn any_value(value: &Value) -> AnyValue {
    let kind = match value {
        Value::Bool(x) => Kind::Bool(*x),
        Value::Int(x) => Kind::Number(*x as f64),
        Value::Float(x) => Kind::Number(*x),
        Value::Null | Value::Str(_) => Kind::Text(plain(&value.to_string(), TEXT)),
    };
    AnyValue { kind: Some(kind) }
}
