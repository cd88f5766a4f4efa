//! The outputs of a classification.

use super::Outputs;
use ::training::scores::Answers;
use config::kinds::shared::THRESHOLD;
use search::space::Value;

/// The metrics of answers, at each threshold.
pub fn outputs(answers: Answers) -> Outputs {
    let all = answers.metrics();
    Box::new(move |post| {
        let mut all = all.clone();
        if let Some(threshold) = post.get(THRESHOLD).and_then(Value::as_f64) {
            all.extend(answers.confusion_from(Some(threshold)).metrics());
        }
        all
    })
}
