//! What is said of a trained model of a table: `tabular.json` of an exported directory.

use serde::{Deserialize, Serialize};

use super::{Encoding, Feature, TableRows};
use config::kinds::shared::THRESHOLD;
use search::space::{Params, Value};
use task::TrialSpec;
use training::exported::{Described, Describes, TABLE_FILE};
use training::nonlinearity::{Nonlinearity, sizes};
use training::numbers::{mean_and_deviation, median};

/// A directory that `tune export` wrote.
pub type ExportedTable = Described<Description>;

/// Everything that predictions need beside the weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// 1.
    pub format: u32,
    /// The column that is predicted.
    pub target: String,
    /// The classes, in the order of the outputs; none of a number.
    pub labels: Vec<String>,
    /// Rows trained on, a class: what the trivial answer knows.
    pub train_rows: Vec<usize>,
    /// Of a number: what an output of 0 and of 1 more stand for, and the median, in the rows to train on.
    pub scale: Option<Scale>,
    /// What is made of the columns.
    pub encoding: Encoding,
    /// Hidden layers.
    pub layers: usize,
    /// Their width.
    pub hidden: usize,
    /// Behind each.
    pub activation: Nonlinearity,
    /// Numbers that stand for a category.
    pub embedding: usize,
    /// Of two classes, the probability from which on the second is predicted; `None`: where it is the more probable one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
}

/// Where the numbers to train on lie.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Scale {
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation; 1 where all are equal.
    pub deviation: f64,
    /// Their median.
    pub median: f64,
}

impl Scale {
    fn of(mut numbers: Vec<f64>) -> Scale {
        numbers.sort_by(f64::total_cmp);
        let (mean, deviation) = mean_and_deviation(&numbers);
        Scale {
            mean,
            deviation,
            median: median(&numbers),
        }
    }
}

impl Description {
    /// Of a trial that trains on these rows.
    ///
    /// # Errors
    /// A key is absent or of the wrong type.
    pub fn of(trial: &TrialSpec, data: &TableRows, train: &[usize]) -> anyhow::Result<Description> {
        let regression = data.is_regression();
        let numbers = || train.iter().map(|row| data.numbers[*row]).collect();
        Ok(Description {
            format: 1,
            target: data.target.clone(),
            labels: if regression {
                Vec::new()
            } else {
                data.samples.classes.clone()
            },
            train_rows: training::baseline::counts_of(&data.samples, train),
            scale: regression.then(|| Scale::of(numbers())),
            encoding: Encoding::learn(&data.columns, train),
            layers: trial.int("model.layers")?,
            hidden: trial.int("model.hidden")?,
            activation: trial.word("model.activation")?,
            embedding: trial.int("model.embedding")?,
            threshold: None,
        })
    }

    /// Outputs of the model: one a class, or the number.
    pub fn outputs(&self) -> usize {
        self.labels.len().max(1)
    }

    /// Inputs and outputs of each linear layer.
    pub fn sizes(&self) -> Vec<(usize, usize)> {
        let inputs = self.encoding.inputs(self.embedding);
        sizes(inputs, (self.layers, self.hidden), self.outputs())
    }

    /// The columns that the model reads; those of `numbers` alone.
    pub fn columns(&self, numbers: bool) -> Vec<String> {
        let wanted = |feature: &&Feature| !numbers || matches!(feature, Feature::Numeric { .. });
        let features = self.encoding.0.iter().filter(wanted);
        features.map(|feature| feature.name().to_owned()).collect()
    }
}

impl Describes for Description {
    const FILE: &'static str = TABLE_FILE;
    const EXPECTED: &'static str = "the description of a table's model, as `tune export` writes it";

    fn misfit(&self) -> Option<String> {
        let (format, labels, columns) = (self.format, self.labels.len(), self.encoding.0.len());
        let of_number = self.scale.is_some();
        let fits = of_number == (labels == 0) && labels != 1 && columns > 0;
        (format != 1 || !fits)
            .then(|| format!("format {format}, {labels} labels, {columns} columns"))
    }

    fn with(mut self, post: &Params) -> Description {
        self.threshold = post.get(THRESHOLD).and_then(Value::as_f64);
        self
    }

    fn labels(&self) -> Vec<String> {
        self.labels.clone()
    }
}
