//! One table of all trials, with the columns of `tune trials --csv`: number, state, value, times, `values.0` and so on with
//! several objectives, `params.NAME`, and the attributes as JSON. Numbers are numbers, times are times.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ::parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical};
use ::parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use ::parquet::errors::{ParquetError, Result};
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use ::parquet::schema::types::Type;
use messages::clock;
use search::space::Value;
use search::study::FrozenTrial;
use serde_json::Value as Json;

use crate::Trials;

/// A column: a cell a trial.
enum Column {
    Int(Vec<Option<i64>>),
    Float(Vec<Option<f64>>),
    Bool(Vec<Option<bool>>),
    Text(Vec<Option<String>>),
    /// Microseconds since 1970, in UTC.
    Time(Vec<Option<i64>>),
}

/// The table as a file.
///
/// # Errors
/// What the writer says; none is expected.
pub fn parquet(study: &Trials<'_>) -> Result<Vec<u8>> {
    let columns = columns(study);
    let fields = columns.iter().map(|(name, column)| column.field(name));
    let fields = fields.collect::<Result<_>>()?;
    let schema = Type::group_type_builder("trials")
        .with_fields(fields)
        .build()?;
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
    let properties =
        properties.set_created_by(concat!("tune ", env!("CARGO_PKG_VERSION")).to_owned());
    let mut file = Vec::new();
    let mut writer =
        SerializedFileWriter::new(&mut file, Arc::new(schema), Arc::new(properties.build()))?;
    let mut rows = writer.next_row_group()?;
    for (_, column) in &columns {
        let mut out = rows
            .next_column()?
            .ok_or_else(|| ParquetError::General("a column is missing".to_owned()))?;
        column.write(&mut out)?;
        out.close()?;
    }
    rows.close()?;
    writer.close()?;
    Ok(file)
}

fn columns(study: &Trials<'_>) -> Vec<(String, Column)> {
    let trials = study.trials;
    let each =
        |of: &dyn Fn(&FrozenTrial) -> Option<f64>| Column::Float(trials.iter().map(of).collect());
    let time = |of: fn(&FrozenTrial) -> Option<&String>| {
        let at = |t| Some(clock::stored(of(t)?)?.as_microsecond());
        Column::Time(trials.iter().map(at).collect())
    };
    let numbers = trials.iter().map(|t| i64::try_from(t.number).ok());
    let states = trials.iter().map(|t| Some(t.state.to_string()));
    let mut columns = vec![
        ("number".to_owned(), Column::Int(numbers.collect())),
        ("state".to_owned(), Column::Text(states.collect())),
        ("value".to_owned(), each(&FrozenTrial::only_value)),
        (
            "datetime_start".to_owned(),
            time(|t| t.datetime_start.as_ref()),
        ),
        (
            "datetime_complete".to_owned(),
            time(|t| t.datetime_complete.as_ref()),
        ),
    ];
    if study.metrics.len() > 1 {
        let of = |i: usize| (format!("values.{i}"), each(&|t| t.values.get(i).copied()));
        columns.extend((0..study.metrics.len()).map(of));
    }
    let names: BTreeSet<&String> = trials.iter().flat_map(|t| t.params.keys()).collect();
    for name in names {
        let cells: Vec<Option<&Value>> = trials.iter().map(|t| t.params.get(name)).collect();
        columns.push((format!("params.{name}"), of_values(&cells)));
    }
    let attrs = trials
        .iter()
        .map(|t| Some(Json::Object(t.user_attrs.clone()).to_string()));
    columns.push(("attrs".to_owned(), Column::Text(attrs.collect())));
    distinct(columns)
}

/// The narrowest type that holds all values of a parameter; `null` is a value, and so a text.
fn of_values(cells: &[Option<&Value>]) -> Column {
    let all = |fits: fn(&Value) -> bool| cells.iter().flatten().all(|value| fits(value));
    if all(|v| matches!(v, Value::Bool(_))) {
        return Column::Bool(cells.iter().map(|v| (*v)?.as_bool()).collect());
    }
    if all(|v| matches!(v, Value::Int(_))) {
        return Column::Int(cells.iter().map(|v| (*v)?.as_i64()).collect());
    }
    if all(|v| matches!(v, Value::Int(_) | Value::Float(_))) {
        return Column::Float(cells.iter().map(|v| (*v)?.as_f64()).collect());
    }
    Column::Text(cells.iter().map(|v| Some((*v)?.to_string())).collect())
}

/// No two columns have one name: a program that reads them would take one for the other.
fn distinct(columns: Vec<(String, Column)>) -> Vec<(String, Column)> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let name = |name: String| {
        let times = seen.entry(name.clone()).or_default();
        *times += 1;
        match *times {
            1 => name,
            n => format!("{name}_{n}"),
        }
    };
    let mut name = name;
    columns
        .into_iter()
        .map(|(n, column)| (name(n), column))
        .collect()
}

impl Column {
    fn field(&self, name: &str) -> Result<Arc<Type>> {
        let (physical, logical) = match self {
            Column::Int(_) => (Physical::INT64, None),
            Column::Float(_) => (Physical::DOUBLE, None),
            Column::Bool(_) => (Physical::BOOLEAN, None),
            Column::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Column::Time(_) => (
                Physical::INT64,
                Some(LogicalType::timestamp(true, TimeUnit::MICROS)),
            ),
        };
        let field = Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical);
        Ok(Arc::new(field.build()?))
    }

    fn write(&self, out: &mut SerializedColumnWriter<'_>) -> Result<()> {
        match self {
            Column::Int(cells) | Column::Time(cells) => put::<Int64Type, _>(out, cells, |x| *x),
            Column::Float(cells) => put::<DoubleType, _>(out, cells, |x| *x),
            Column::Bool(cells) => put::<BoolType, _>(out, cells, |x| *x),
            Column::Text(cells) => {
                put::<ByteArrayType, _>(out, cells, |x| ByteArray::from(x.as_str()))
            }
        }
    }
}

/// Writes the values that are there, and for each cell whether it is (its definition level).
fn put<D: DataType, T>(
    out: &mut SerializedColumnWriter<'_>,
    cells: &[Option<T>],
    value: impl Fn(&T) -> D::T,
) -> Result<()> {
    let values: Vec<D::T> = cells.iter().flatten().map(value).collect();
    let there = cells.iter().map(|cell| i16::from(cell.is_some()));
    let there: Vec<i16> = there.collect();
    out.typed::<D>()
        .write_batch(&values, Some(&there), None)
        .map(|_| ())
}
