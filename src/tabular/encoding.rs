//! Columns of a table as numbers: standardised, or the places of categories.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use training::numbers::mean_and_deviation;
use training::rows::{mostly_numbers, number};

/// The cells of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum Column {
    /// Numbers; NaN where there is none.
    Numeric(String, Vec<f64>),
    /// Categories; empty where there is none.
    Categorical(String, Vec<String>),
}

impl Column {
    /// Of these texts: numeric where every cell that is not empty is a finite number, unless it is said to be `categorical`.
    pub fn of(name: &str, cells: Vec<String>, categorical: bool) -> Column {
        let known = |cell: &String| match cell.as_str() {
            "" => Some(f64::NAN),
            text => number(text),
        };
        match cells.iter().map(known).collect::<Option<Vec<f64>>>() {
            Some(numbers) if !categorical => Column::Numeric(name.to_owned(), numbers),
            Some(_) | None => Column::Categorical(name.to_owned(), cells),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Column::Numeric(name, _) | Column::Categorical(name, _) => name,
        }
    }

    /// Two of its categories that are one number, written in two ways, such as `3` and `3.0`.
    pub fn same_number(&self) -> Option<(&str, &str)> {
        let mut known: BTreeMap<u64, &str> = BTreeMap::new();
        self.cells().iter().find_map(|cell| {
            let first = *known.entry(number(cell)?.to_bits()).or_insert(cell);
            (first != cell).then_some((first, cell.as_str()))
        })
    }

    /// Of a column that holds numbers for the most part, however they are written, the row of the first cell that is none to a
    /// model, and so makes it categorical.
    pub fn no_number(&self) -> Option<(usize, &str)> {
        let is_odd = |cell: &str| !cell.is_empty() && number(cell).is_none();
        let filled = self.cells().iter().map(String::as_str);
        let numbers = mostly_numbers(filled.filter(|cell| !cell.is_empty()));
        let mut cells = self.cells().iter().enumerate();
        let (row, cell) = cells.find(|(_, cell)| is_odd(cell))?;
        numbers.then_some((row, cell))
    }

    /// Its categories, row by row; none of numbers.
    fn cells(&self) -> &[String] {
        match self {
            Column::Numeric(..) => &[],
            Column::Categorical(_, cells) => cells,
        }
    }

    /// Whether its cells are numbers.
    pub fn is_numeric(&self) -> bool {
        matches!(self, Column::Numeric(..))
    }
}

/// What is made of a column, as the rows to train on have taught it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "column", rename_all = "snake_case")]
pub enum Feature {
    /// `(x - mean) / deviation`, 0 where there is no number; a second number says that there is none, where that occurred.
    Numeric {
        /// The column.
        name: String,
        /// The mean.
        mean: f64,
        /// The standard deviation; 1 where all are equal.
        deviation: f64,
        /// Whether cells without a number occurred.
        missing: bool,
    },
    /// The place of a category, from 1; 0: another one, or none.
    Categorical {
        /// The column.
        name: String,
        /// The categories.
        values: Vec<String>,
    },
}

impl Feature {
    /// The column.
    pub fn name(&self) -> &str {
        match self {
            Feature::Numeric { name, .. } | Feature::Categorical { name, .. } => name,
        }
    }
}

/// What is made of all columns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Encoding(pub Vec<Feature>);

/// Rows as a model reads them, one behind the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Encoded {
    /// `[n, width]`.
    pub numbers: Vec<f32>,
    /// `[n, categorical columns]`.
    pub categories: Vec<i64>,
}

impl Encoding {
    /// Learns it of these rows.
    pub fn learn(columns: &[Column], rows: &[usize]) -> Encoding {
        let feature = |column: &Column| match column {
            Column::Numeric(name, cells) => {
                let known: Vec<f64> = rows
                    .iter()
                    .map(|r| cells[*r])
                    .filter(|x| !x.is_nan())
                    .collect();
                let (mean, deviation) = mean_and_deviation(&known);
                Feature::Numeric {
                    name: name.clone(),
                    mean,
                    deviation,
                    missing: known.len() < rows.len(),
                }
            }
            Column::Categorical(name, cells) => {
                let mut values: Vec<String> = rows.iter().map(|row| cells[*row].clone()).collect();
                values.retain(|value| !value.is_empty());
                values.sort_unstable();
                values.dedup();
                Feature::Categorical {
                    name: name.clone(),
                    values,
                }
            }
        };
        Encoding(columns.iter().map(feature).collect())
    }

    /// These rows of the columns that it was learned of, in the same order.
    pub fn encode(&self, columns: &[Column], rows: &[usize]) -> Encoded {
        let mut encoded = Encoded {
            numbers: Vec::new(),
            categories: Vec::new(),
        };
        let places: Vec<BTreeMap<&str, i64>> = (self.0.iter())
            .map(|feature| match feature {
                Feature::Categorical { values, .. } => {
                    values.iter().map(String::as_str).zip(1..).collect()
                }
                Feature::Numeric { .. } => BTreeMap::new(),
            })
            .collect();
        for row in rows {
            for ((feature, column), places) in self.0.iter().zip(columns).zip(&places) {
                match (feature, column) {
                    (
                        Feature::Numeric {
                            mean,
                            deviation,
                            missing,
                            ..
                        },
                        Column::Numeric(_, cells),
                    ) => {
                        let x = cells[*row];
                        let absent = x.is_nan();
                        let standard = if absent { 0.0 } else { (x - mean) / deviation };
                        encoded.numbers.push(standard as f32);
                        encoded.numbers.extend(missing.then_some(f32::from(absent)));
                    }
                    (_, Column::Categorical(_, cells)) => {
                        let place = places.get(cells[*row].as_str());
                        encoded.categories.push(place.copied().unwrap_or(0));
                    }
                    (Feature::Categorical { .. }, Column::Numeric(..)) => {
                        encoded.categories.push(0)
                    }
                }
            }
        }
        encoded
    }

    /// Numbers of a row.
    pub fn width(&self) -> usize {
        let width = |feature: &Feature| match feature {
            Feature::Numeric { missing, .. } => 1 + usize::from(*missing),
            Feature::Categorical { .. } => 0,
        };
        self.0.iter().map(width).sum()
    }

    /// How many places there are of each categorical column.
    pub fn categories(&self) -> impl Iterator<Item = usize> {
        self.0.iter().filter_map(|feature| match feature {
            Feature::Numeric { .. } => None,
            Feature::Categorical { values, .. } => Some(values.len() + 1),
        })
    }

    /// What the first layer is given of a row, with an embedding of this size of each categorical column.
    pub fn inputs(&self, embedding: usize) -> usize {
        self.width() + embedding * self.categories().count()
    }
}
