//! A trained model of a table that answers rows.

use anyhow::Result;

use super::model::{Inputs, Model};
use super::unscaled;
use crate::gpu;
use crate::train::answer::{NoAnswer, Predictor};
use crate::train::module::kept;
use crate::train::tensors;
use ::request::evaluation::Answered;
use ::request::predict::Record;
use ::tabular::{Column, Description, ExportedTable, Feature};
use ::training::exported::WEIGHTS_FILE;
use ::training::rows::number;
use ::training::scores::Answers;
use device::Device;
use search::study::rng;

/// A model on its device.
pub struct TablePredictor {
    model: Model,
    about: Description,
    device: tch::Device,
    batch_size: usize,
}

impl TablePredictor {
    /// Loads the model of a directory. `batch_size`: rows that are computed at a time; `None`: as many as are read.
    ///
    /// # Errors
    /// The weights cannot be read, are misshapen, or not finite.
    pub fn open(
        exported: &ExportedTable,
        device: Device,
        batch_size: Option<usize>,
    ) -> Result<TablePredictor> {
        let (about, device) = (exported.description.clone(), gpu::tch_device(device));
        // Everything that is drawn is overwritten.
        let model = Model::new(&about, 0.0, device, &mut rng(0, 0, "model"))?;
        let named = kept(model.parameters()?, Vec::new())?;
        tensors::load(&named, &exported.dir.join(WEIGHTS_FILE))?;
        let batch_size = batch_size.unwrap_or(usize::MAX);
        Ok(TablePredictor {
            model,
            about,
            device,
            batch_size,
        })
    }

    fn outputs(&self, rows: &[Record]) -> Result<Vec<f32>> {
        let mut columns = Vec::new();
        for (at, feature) in self.about.encoding.0.iter().enumerate() {
            let cells: Vec<String> = rows.iter().map(|row| row.values[at].clone()).collect();
            let name = feature.name().to_owned();
            // What is no number was told before anything is computed.
            let number = |cell: &String| number(cell).unwrap_or(f64::NAN);
            let column = match feature {
                Feature::Numeric { .. } => {
                    Column::Numeric(name, cells.iter().map(number).collect())
                }
                Feature::Categorical { .. } => Column::Categorical(name, cells),
            };
            columns.push(column);
        }
        let all: Vec<usize> = (0..rows.len()).collect();
        let encoded = self.about.encoding.encode(&columns, &all);
        let inputs = Inputs::new(&self.about.encoding, &encoded, rows.len(), self.device)?;
        self.model.outputs(&inputs, &mut || {})
    }

    /// Why a row has no answer: its greatest number, most probably.
    fn no_answer(&self, row: &Record) -> NoAnswer {
        let cells = self.about.encoding.0.iter().zip(&row.values);
        let size = |cell: &str| cell.parse().map_or(0.0, f64::abs);
        let greatest = cells.max_by(|a, b| size(a.1).total_cmp(&size(b.1)));
        let named =
            |(feature, cell): (&Feature, &String)| (feature.name().to_owned(), cell.clone());
        let (column, cell) = greatest.map(named).unwrap_or_default();
        NoAnswer {
            line: row.line,
            column,
            found: format!("{cell}, of which the model makes no finite number"),
            expected: "a value such as those that it was trained on".to_owned(),
        }
    }
}

impl Predictor for TablePredictor {
    fn answer(&mut self, rows: &[Record], step: &mut dyn FnMut(usize)) -> Result<Answered> {
        let mut outputs = Vec::new();
        for part in rows.chunks(self.batch_size) {
            outputs.extend(self.outputs(part)?);
            step(part.len());
        }
        if let Some(at) = outputs.iter().position(|x| !x.is_finite()) {
            return Err(self.no_answer(&rows[at / self.about.outputs()]).into());
        }
        let Some(scale) = self.about.scale else {
            let truth = rows.iter().map(|record| record.class).collect();
            let all: Vec<usize> = (0..rows.len()).collect();
            let answers = Answers::new(self.about.outputs(), &outputs, &all, truth);
            return Ok(Answered::Classes(
                answers.from_threshold(self.about.threshold),
            ));
        };
        Ok(Answered::Numbers {
            predicted: unscaled(&outputs, scale),
            truth: rows.iter().map(|record| record.number).collect(),
            scale,
        })
    }
}
