//! Whether a study's inputs are still those that it was trained on: a trial trained again on others
//! would be another model under the same name.

use serde_json::{Map, Value as Json};

use crate::checkpoint::Checkpoint;
use crate::prepare::load;
use config::{Problems, StudySpec};
use task::TrainedModel;
use training::division::{differs, rows_differ};

/// Compares the checkpoint, the rows and their split with the fingerprints of the study's `identity`.
/// Reads all of their files.
///
/// # Errors
/// What cannot be read, and what differs, with both fingerprints.
pub fn unchanged(
    spec: &StudySpec,
    identity: &Map<String, Json>,
    checkpoint: &Checkpoint,
) -> Result<(), Problems> {
    let mut problems = Vec::new();
    let mut unread = Vec::new();
    let name = &checkpoint.name;
    match checkpoint.fingerprint() {
        Ok(now) => {
            let what = format!("the model {name} has");
            let key = format!("model.{name}");
            problems.extend(differs(identity, (&checkpoint.dir, &key), &what, &now));
        }
        Err(problem) => unread.push(problem),
    }
    match load(spec) {
        Ok((data, split)) => {
            problems.extend(rows_differ(spec, identity, (&data.fingerprint(), &split)));
        }
        Err(found) => unread.extend(found.0),
    }
    problems.extend(unread);
    Problems(problems).or(())
}

/// The frozen parts of a trained model are the checkpoint's: it must still be the one that was trained.
///
/// # Errors
/// It has changed, or cannot be read.
pub fn same_model(checkpoint: &Checkpoint, model: &TrainedModel<'_>) -> anyhow::Result<()> {
    let now = checkpoint.fingerprint().map_err(Problems::from)?;
    let then = model.about.get("model_fingerprint").and_then(Json::as_str);
    anyhow::ensure!(
        then == Some(now.as_str()),
        "{}: the model {} has changed since trial {} was trained (fingerprint {now}, then {}); expected \
         the same files",
        checkpoint.dir.display(),
        checkpoint.name,
        model.trial,
        then.unwrap_or("unknown")
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::prepare::prepare;
    use crate::testing::TinyProject;

    /// The problems of a site that has `identity`, as text; none: it is as it was.
    fn told(site: &TinyProject, identity: &Map<String, Json>) -> String {
        let checkpoint = Checkpoint::open("tiny", &site.tiny()).unwrap();
        match unchanged(&site.spec, identity, &checkpoint) {
            Ok(()) => String::new(),
            Err(problems) => problems.to_string(),
        }
    }

    #[test]
    fn a_changed_model_changed_data_and_another_split_are_told_with_both_fingerprints() {
        let mut site = TinyProject::new();
        let identity = config::identity(&site.spec, &prepare(&site.spec).unwrap());
        assert_eq!(told(&site, &identity), "");
        let then = |key: &str| identity[key].as_str().unwrap().to_owned();
        // The rows stay, their parts do not.
        site.set("data.split.seed", 7);
        let problems = told(&site, &identity);
        for part in ["the split has changed", &then("data.split.fingerprint")] {
            assert!(problems.contains(part), "{part:?} is not in: {problems}");
        }
        site.set("data.split.seed", 0);
        let weights = site.tiny().join("model.safetensors");
        let mut bytes = fs::read(&weights).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        fs::write(&weights, bytes).unwrap();
        let path = site.spec.fixed["data.path"].as_str().unwrap().to_owned();
        let rows = fs::read_to_string(&path).unwrap();
        let mut lines: Vec<&str> = rows.lines().collect();
        let end = lines.len() - 1;
        lines.swap(end, end - 1);
        fs::write(&path, lines.join("\n")).unwrap();
        let problems = told(&site, &identity);
        let (model, data) = (then("model.tiny"), then("data.fingerprint"));
        for part in [
            "the model tiny has changed",
            &model,
            "the data have changed",
            &data,
            &path,
        ] {
            assert!(problems.contains(part), "{part:?} is not in: {problems}");
        }
        assert!(!problems.contains("the split has"), "{problems}");
        fs::remove_file(&path).unwrap();
        assert!(told(&site, &identity).contains(&path));
    }
}
