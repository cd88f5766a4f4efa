//! The configuration files of an exported directory, edited as JSON.

use serde_json::{Map, Value as Json, json};

use super::HeadForm;

/// `config.json` of a checkpoint, as that of its classifier: the classes, transformers' class where it
/// has one, and the type of the weights.
pub fn model_config(
    base: &Map<String, Json>,
    form: &HeadForm,
    labels: &[String],
) -> Map<String, Json> {
    let mut config = base.clone();
    // Where the checkpoint lay is no part of the model.
    config.shift_remove("_name_or_path");
    match form.class {
        Some(class) => config.insert("architectures".into(), json!([class])),
        None => config.shift_remove("architectures"),
    };
    let numbered = || labels.iter().enumerate();
    let id2label: Map<String, Json> = numbered()
        .map(|(id, label)| (id.to_string(), label.as_str().into()))
        .collect();
    let label2id: Map<String, Json> = numbered()
        .map(|(id, label)| (label.clone(), id.into()))
        .collect();
    config.insert("num_labels".into(), labels.len().into());
    config.insert("id2label".into(), id2label.into());
    config.insert("label2id".into(), label2id.into());
    config.insert("problem_type".into(), "single_label_classification".into());
    // Older and newer versions of transformers spell it differently.
    let newer = config.contains_key("dtype");
    let key = if newer { "dtype" } else { "torch_dtype" };
    config.insert(key.into(), "float32".into());
    for (key, value) in &form.settings {
        config.insert((*key).to_owned(), value.clone());
    }
    config
}

/// `tokenizer_config.json` of a checkpoint, with the length that the model was trained on.
pub fn tokenizer_config(base: &Map<String, Json>, max_length: usize) -> Map<String, Json> {
    let mut config = base.clone();
    config.insert("model_max_length".into(), max_length.into());
    config
}

#[cfg(test)]
mod tests {
    use super::super::form;
    use super::*;
    use crate::checkpoint::Architecture;
    use crate::head::{HeadConfig, Nonlinearity, Pooling};

    fn head(pooling: Pooling) -> HeadConfig {
        HeadConfig {
            input: 16,
            classes: 2,
            pooling,
            layers: 2,
            hidden: 16,
            activation: Nonlinearity::Gelu,
            dropout: 0.0,
        }
    }

    #[test]
    fn the_configuration_has_the_classes_and_keeps_what_it_does_not_know() {
        let base = json!({
            "_name_or_path": "/somewhere", "architectures": ["DebertaV2Model"], "dtype": "float16",
            "model_type": "deberta-v2", "transformers_version": "9", "unheard": [1],
        });
        let labels = ["no".to_owned(), "yes".to_owned()];
        let config = |pooling| {
            let form = form(Architecture::DebertaV2, &head(pooling));
            Json::Object(model_config(base.as_object().unwrap(), &form, &labels))
        };
        assert_eq!(
            config(Pooling::Cls),
            json!({
                "architectures": ["DebertaV2ForSequenceClassification"], "dtype": "float32",
                "model_type": "deberta-v2", "transformers_version": "9", "unheard": [1],
                "num_labels": 2, "id2label": {"0": "no", "1": "yes"},
                "label2id": {"no": 0, "yes": 1}, "problem_type": "single_label_classification",
                "pooler_hidden_act": "gelu", "pooler_hidden_size": 16,
            })
        );
        assert_eq!(config(Pooling::Mean).get("architectures"), None);
    }
}
