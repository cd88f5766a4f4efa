//! Databases that each released version has left (`tests/data/databases`), opened by this one.

use std::fs;
use std::path::Path;

use serde_json::Value as Json;

use crate::common::Project;

#[test]
fn a_study_of_every_released_version_is_read_and_goes_on() {
    let kept = Path::new(crate::ROOT).join("tests/data/databases");
    let task = fs::read_to_string(kept.join("task.toml")).unwrap();
    let mut versions = 0;
    for file in fs::read_dir(&kept).unwrap() {
        let file = file.unwrap().path();
        if file.extension().is_none_or(|e| e != "sql") {
            continue;
        }
        versions += 1;
        let shown = file.display();
        let project = Project::empty();
        project.config("kept", &task);
        let sql = fs::read_to_string(&file).unwrap();
        // A dump has the rows of a table before the tables that they refer to.
        let sql = format!("PRAGMA foreign_keys = OFF; {sql}");
        project.connect().execute_batch(&sql).unwrap();
        // Reading changes nothing: another program of that version may be at work.
        let before = fs::read(project.database()).unwrap();
        let trials = project.trials("kept");
        let count = |state: &str| trials.iter().filter(|t| t["state"] == state).count();
        assert_eq!(trials.len(), 12, "{shown}");
        assert!(count("COMPLETE") > 0 && count("PRUNED") > 0, "{shown}");
        let hit = trials
            .iter()
            .any(|t| t["attempts"].as_array().unwrap().len() > 1);
        assert!(hit, "{shown}: a trial was attempted again");
        let (best, _) = project.expect(0, &["best", "kept", "--json"]);
        let best: Json = serde_json::from_str(&best).unwrap();
        assert!(best["best"]["value"].is_f64(), "{shown}: {best}");
        let (status, _) = project.expect(0, &["status", "kept"]);
        assert!(status.contains("by repeats"), "{shown}: {status}");
        let page = project.path().join("report.html");
        project.expect(0, &["report", "kept", "-o", page.to_str().unwrap()]);
        assert_eq!(fs::read(project.database()).unwrap(), before, "{shown}");
        let (run, _) = project.expect(0, &["kept", "--trials", "16"]);
        assert!(run.contains("16 of 16 trials finished"), "{shown}: {run}");
        assert_eq!(project.trials("kept")[..12], trials[..], "{shown}");
    }
    assert!(versions > 0);
}
