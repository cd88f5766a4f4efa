//! What answers to labelled rows are worth, beside the trivial answer.

use super::baseline::trivial;
use super::export::Exported;
use super::scores::Answers;
use crate::{Evaluation, Score};
use config::Baseline;
use config::kinds::text_classification::METRICS;

/// The scores of answers to the rows of `file`.
pub fn evaluation(exported: &Exported, file: String, answers: &Answers) -> Evaluation {
    let about = &exported.description;
    let confusion = answers.confusion();
    let classes = confusion.by_class();
    let rows: Vec<usize> = classes.iter().map(|c| c.support).collect();
    let values = answers.metrics();
    let metrics = METRICS.iter().filter_map(|metric| {
        let value = *values.get(metric.name)?;
        let found = trivial(&about.train_rows, &rows, metric.name);
        let trivial = found.map(|(value, class)| {
            let what = match class {
                None => "always the shares of the classes in training".to_owned(),
                Some(class) => format!("always {}", about.labels[class]),
            };
            Baseline { value, what }
        });
        Some(Score {
            name: metric.name.to_owned(),
            value,
            trivial,
        })
    });
    Evaluation {
        model: exported.dir().display().to_string(),
        file,
        rows: rows.iter().sum(),
        labels: about.labels.clone(),
        metrics: metrics.collect(),
        classes,
        confusion,
    }
}
