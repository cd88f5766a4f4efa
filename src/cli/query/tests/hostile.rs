//! A study whose every text is hostile: what it is shown as.

use super::*;
use messages::printable_lines;
use messages::testing::{HOSTILE, harmful_in};

/// A study in which every text is this one; what ended its trials is told in `detail`.
fn study_of(path: &Path, text: &str, detail: &str) -> Store {
    let mut store = Store::open(path).unwrap();
    let attributes = json!({
        "baseline": {"value": 0.9, "what": text}, "metric": text,
        "made_from": {"by": text, "studies": [text], "copied": 1},
        "test": {"number": 0, "metric": text, "value": null, "looks": 1, "error": text},
    });
    let study = store
        .create_study(
            &store::NewStudy {
                name: text,
                directions: &[Direction::Maximize],
                user_attrs: &object(attributes),
                identity: &Map::new(),
            },
            &[],
        )
        .unwrap();
    let record = RunRecord {
        pid: 1,
        host: text.to_owned(),
        version: text.to_owned(),
        command: vec![text.to_owned()],
        operation: json!({"trials": 3}),
    };
    let run = store.begin_run(study, &record).unwrap();
    let attrs = object(json!({ text: text, "fault": text, "error_msg": text, "list": [text] }));
    let choices = vec![Value::from(text), Value::Null];
    let start = [
        Write::TrialCreated {
            number: 0,
            last: u64::MAX,
            since: 0,
            study_seed: None,
            params: [(text.to_owned(), Value::from(text))].into(),
            distributions: [(text.to_owned(), Domain::Categorical { choices })].into(),
            user_attrs: attrs.clone(),
            system_attrs: attrs.clone(),
        },
        Write::AttemptStarted {
            id: Job::trial(0).attempt(0),
            seed: 1234,
            worker: 1,
            pid: 4711,
            device: text.to_owned(),
            log: text.to_owned(),
        },
    ];
    store.apply(study, run, &start).unwrap();
    let end = AttemptEnd {
        outcome: text.to_owned(),
        detail: detail.to_owned(),
        again: false,
    };
    let end = [
        Write::AttemptEnded {
            id: Job::trial(0).attempt(0),
            end,
        },
        Write::TrialFinished {
            number: 0,
            state: TrialState::Complete,
            values: vec![0.5],
            user_attrs: attrs,
            system_attrs: Map::new(),
        },
    ];
    store.apply(study, run, &end).unwrap();
    store
}

fn pretty(answer: &impl Answer) -> String {
    serde_json::to_string_pretty(answer).unwrap() + "\n"
}

/// Everything that is shown of it.
fn shown(text: &str, detail: &str) -> Vec<(&'static str, String)> {
    let dir = tempfile::tempdir().unwrap();
    let store = &study_of(&dir.path().join("tune.db"), text, detail);
    let context = Context {
        owner: Some(LockOwner {
            pid: 7,
            host: text.to_owned(),
            since: text.to_owned(),
            stopping: None,
            taking_in: false,
        }),
        ..context()
    };
    let tasks = vec![TaskLine {
        name: text.to_owned(),
        what: text.to_owned(),
        file: text.into(),
    }];
    let status = Statuses::new(vec![
        status(store, choose(store, None).unwrap(), &context).unwrap(),
    ]);
    let best = best(store, None).unwrap();
    let show = show(store, None, 0).unwrap();
    let list = list(tasks, Some(store)).unwrap();
    vec![
        ("status", status.text()),
        ("best", best.text()),
        (
            "trials",
            trials_table(
                store,
                &choose(store, None).unwrap(),
                &everything(),
                Width::Any,
            )
            .unwrap(),
        ),
        ("show", show.text()),
        ("list", list.text()),
        ("memory", memory(store, None, None).unwrap().text()),
        (
            "failure",
            super::show(store, Some("none"), 0)
                .err()
                .unwrap()
                .to_string(),
        ),
        ("status", pretty(&status)),
        ("best", pretty(&best)),
        ("show", pretty(&show)),
        (
            "trials",
            trials_json(store, &choose(store, None).unwrap(), &everything()).unwrap(),
        ),
        ("list", pretty(&list)),
    ]
}

#[test]
fn no_text_of_a_study_drives_the_terminal_or_makes_a_line_of_its_own() {
    let hostile = shown(HOSTILE, HOSTILE);
    let plain = shown("plain", "a detail of\ntwo lines");
    for ((what, hostile), (_, plain)) in hostile.into_iter().zip(plain) {
        // What prints passes everything through this.
        let hostile = printable_lines(&hostile);
        assert_eq!(harmful_in(&hostile), [], "{what}: {hostile}");
        let counts = [&*hostile, &plain].map(|text| text.lines().count());
        assert_eq!(counts[0], counts[1], "{what}:\n{hostile}\n{plain}");
    }
}
