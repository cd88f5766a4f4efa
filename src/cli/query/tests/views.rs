//! What is seen of studies and trials, and how trials are chosen.

use super::*;

/// A trial is created, and its first attempt begins.
fn begin_trial(store: &mut Store, study: i64, run: i64, number: u64) {
    let created = Write::TrialCreated {
        number,
        last: u64::MAX,
        since: number,
        study_seed: None,
        params: Params::new(),
        distributions: Default::default(),
        user_attrs: Map::new(),
        system_attrs: Map::new(),
    };
    store
        .apply(study, run, &[created, attempt(number, 0)])
        .unwrap();
}

#[test]
fn what_was_struck_is_not_told_among_the_trials_that_are_compared() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = own(&dir.path().join("tune.db"), 0.5);
    let study = store.studies().unwrap().remove(0).study_id;
    let record = store.runs(study).unwrap().remove(0).record;
    let run = store.begin_run(study, &record).unwrap();
    for number in 3..23 {
        begin_trial(&mut store, study, run, number);
        let finished = Write::TrialFinished {
            number,
            state: TrialState::Complete,
            values: vec![number as f64],
            user_attrs: Map::new(),
            system_attrs: Map::new(),
        };
        let end = [ended(number, 0, "completed"), finished];
        store.apply(study, run, &end).unwrap();
    }
    let told = |store: &Store| importance(store, None).unwrap().text();
    let before = told(&store);
    assert!(
        before.starts_with("criteria: 22 complete trials\n"),
        "{before}"
    );
    store
        .strike(study, 7, Some("trained on the test split"))
        .unwrap();
    let after = told(&store);
    assert!(
        after.starts_with("criteria: 21 complete trials\n"),
        "{after}"
    );
}

#[test]
fn the_status_of_a_live_run_says_how_fast_it_is_and_what_each_trial_does() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = own(&dir.path().join("tune.db"), 0.6);
    let study = store.studies().unwrap().remove(0).study_id;
    let mut record = store.runs(study).unwrap().remove(0).record;
    record.pid = 7;
    record.command = ["tune", "criteria", "--trials", "300"]
        .map(str::to_owned)
        .to_vec();
    let run = store.begin_run(study, &record).unwrap();
    begin_trial(&mut store, study, run, 3);
    let reported = Write::Reported {
        number: 3,
        step: 2,
        value: 0.5,
    };
    store.apply(study, run, &[reported]).unwrap();
    let of = || {
        let owner = Some(LockOwner {
            pid: 7,
            host: "h".to_owned(),
            since: "2026-11-21T03:13:30Z".to_owned(),
            stopping: None,
            taking_in: false,
        });
        let context = Context { owner, ..context() };
        status(&store, choose(&store, None).unwrap(), &context).unwrap()
    };
    let text = of().text();
    for part in [
        "state          running since 2026-11-21 03:13:30 UTC, 46 min 30 s (pid 7 on h)\n",
        "command        tune criteria --trials 300\n",
        "trials         2 of 300 finished (2 complete); 1 failed, 1 running\n",
        "running        trial 3: step 2, value 0.5, 45 min 00 s, worker 1 on cuda:0\n",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let json = json!(of());
    assert_eq!(json["state"], "running");
    assert_eq!(json["running"][0]["age_s"], 2700.0);
    assert_eq!(json["holder"]["command"], json!(record.command));
    assert_eq!(
        json["rate_per_hour"],
        Json::Null,
        "nothing has finished yet"
    );
}

#[test]
fn a_run_that_finds_nothing_to_do_changes_nothing_of_what_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = own(&dir.path().join("tune.db"), 0.6);
    let of = |store: &Store| {
        let status = status(store, choose(store, None).unwrap(), &context()).unwrap();
        let mut json = json!(status);
        json.as_object_mut().unwrap().remove("runs");
        (
            json,
            status.text(),
            memory(store, None, None).unwrap().text(),
        )
    };
    let before = of(&store);
    let study = store.studies().unwrap().remove(0).study_id;
    let mut record = store.runs(study).unwrap().remove(0).record;
    record.operation = json!({"trials": 2, "parallel": 9});
    let run = store.begin_run(study, &record).unwrap();
    let nothing = [Write::RunEnded { exit: 0 }];
    store.apply(study, run, &nothing).unwrap();
    assert_eq!(of(&store), before);
    // One that was stopped before it came to anything is told of.
    let run = store.begin_run(study, &record).unwrap();
    let stopped = [Write::RunEnded { exit: 4 }];
    store.apply(study, run, &stopped).unwrap();
    assert_eq!(of(&store).0["goal"], 2);
}

#[test]
fn a_trial_that_nobody_runs_is_unfinished() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = own(&dir.path().join("tune.db"), 0.6);
    let study = store.studies().unwrap().remove(0).study_id;
    let record = store.runs(study).unwrap().remove(0).record;
    let run = store.begin_run(study, &record).unwrap();
    begin_trial(&mut store, study, run, 3);
    let shown = |live, running| {
        let selection = Selection {
            live,
            running,
            ..everything()
        };
        trials_table(
            &store,
            &choose(&store, None).unwrap(),
            &selection,
            Width::Of(80),
        )
        .unwrap()
    };
    assert!(
        shown(true, false).contains("3  RUNNING"),
        "{}",
        shown(true, false)
    );
    assert!(shown(true, true).contains("3  RUNNING"));
    assert_eq!(shown(true, true).lines().count(), 2);
    assert!(shown(false, false).contains("3  unfinished"));
    assert!(shown(false, true).starts_with("no trial runs: no process works on the study"));
    let state = vec![TrialState::Running];
    let selection = Selection {
        state,
        ..everything()
    };
    let json = trials_json(&store, &choose(&store, None).unwrap(), &selection).unwrap();
    assert!(json.contains("\"state\":\"RUNNING\""), "{json}");
}

#[test]
fn a_trials_duration_is_what_it_has_taken_by_its_own_account() {
    let (_dir, store) = example();
    let mut trial = store.trials(1).unwrap().remove(0);
    trial.user_attrs = object(json!({"runtime_s": 3.25}));
    assert_eq!(crate::query::trials::runtime(&trial), Some(3.25));
}

#[test]
fn without_a_name_all_studies_are_shown() {
    let (_dir, store) = example();
    let all = store.studies().unwrap().into_iter();
    let all = all.map(|study| status(&store, study, &context()).unwrap());
    let all = Statuses::new(all.collect());
    assert_eq!(
        all.text(),
        "study  state        finished  best                        last activity\n\
         s1     not run yet         7  value -Infinity (trial 10)  2 h 25 min ago\n\
         mo     not run yet         2  front of 2 trials           2 h 26 min ago\n\n\
         tune status STUDY says more about one\n"
    );
    assert_eq!(json!(all)["studies"][1]["study"], "mo");
}

#[test]
fn trials_are_filtered_sorted_and_shown_by_their_keys() {
    let dir = tempfile::tempdir().unwrap();
    let store = own(&dir.path().join("tune.db"), 0.5);
    let ask = |selection: &Selection| {
        let json = trials_json(&store, &choose(&store, None).unwrap(), selection)?;
        let json: Vec<Json> = serde_json::from_str(&json).unwrap();
        Ok::<_, Failure>(
            json.iter()
                .map(|t| t["number"].as_u64().unwrap())
                .collect::<Vec<_>>(),
        )
    };
    let with = |change: fn(&mut Selection)| {
        let mut selection = everything();
        change(&mut selection);
        ask(&selection)
    };
    let none: [u64; 0] = [];
    assert_eq!(with(|s| s.top = Some(1)).unwrap(), [1]);
    assert_eq!(with(|s| s.top = Some(9)).unwrap(), [1, 0]);
    assert_eq!(with(|s| s.state = vec![TrialState::Fail]).unwrap(), [2]);
    assert_eq!(with(|s| s.failed = true).unwrap(), [2]);
    assert_eq!(with(|s| s.reverse = true).unwrap(), [2, 1, 0]);
    assert_eq!(with(|s| s.sort = Some("-value".into())).unwrap(), [1, 0, 2]);
    assert_eq!(
        with(|s| s.conditions = vec!["lr<1e-4".into()]).unwrap(),
        none
    );
    let both = vec!["value>=0.5".into(), "number<1".into()];
    let selection = Selection {
        conditions: both,
        ..everything()
    };
    assert_eq!(ask(&selection).unwrap(), [0]);
    assert_eq!(
        with(|s| s.conditions = vec!["reason=oom".into()]).unwrap(),
        [2]
    );
    assert_eq!(
        with(|s| s.conditions = vec!["metric.loss>5".into()]).unwrap(),
        [0, 1, 2]
    );
    let failure = with(|s| s.conditions = vec!["optim.lf<1".into()]).unwrap_err();
    assert_eq!(failure.exit, Exit::BadInput);
    let near = "no trial has optim.lf (did you mean optim.lr?)";
    assert!(failure.message.starts_with(near), "{failure}");
    let failure = with(|s| s.conditions = vec!["model.name<b".into()]).unwrap_err();
    assert!(failure.message.contains("b is no number"), "{failure}");
    let failure = with(|s| s.conditions = vec!["number<1".into(), "lr=abc".into()]).unwrap_err();
    assert_eq!(failure.exit, Exit::BadInput);
    let range = "optim.lr cannot be abc: it is a number in ";
    assert!(failure.message.contains(range), "{failure}");
    assert_eq!(with(|s| s.conditions = vec!["lr=7".into()]).unwrap(), none);
    let failure = with(|s| s.conditions = vec!["model.name!=nosuch".into()]).unwrap_err();
    let choices = "model.name is never nosuch; its choices are ";
    assert!(failure.message.contains(choices), "{failure}");
    let failure = with(|s| s.conditions = vec!["state=complet".into()]).unwrap_err();
    assert_eq!(failure.exit, Exit::BadInput);
    let states = "state is never complet (did you mean complete?); the states are complete, pruned, fail, running, waiting";
    assert!(failure.message.contains(states), "{failure}");
    assert_eq!(
        with(|s| s.conditions = vec!["state==Fail".into()]).unwrap(),
        [2]
    );
    let columns = ["number", " lr", "seed"].map(str::to_owned).to_vec();
    let selection = Selection {
        columns,
        ..everything()
    };
    assert_eq!(
        trials_csv(&store, &choose(&store, None).unwrap(), &selection).unwrap(),
        "number,lr,seed\n0,0.000123456789,7\n1,0.000123456789,7\n2,0.000123456789,7\n"
    );
    let table = trials_table(
        &store,
        &choose(&store, None).unwrap(),
        &selection,
        Width::Of(1),
    )
    .unwrap();
    assert!(table.starts_with("trial        lr  seed\n"), "{table}");
}

#[test]
fn a_trial_that_violates_a_constraint_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path().join("tune.db")).unwrap();
    let mut trial = FrozenTrial::new(0, TrialState::Complete, [].into());
    trial.values = vec![0.5];
    let constraints = json!([-1.0, 1.0]);
    trial
        .system_attrs
        .insert("constraints".to_owned(), constraints);
    let study = store::NewStudy {
        name: "s",
        directions: &[Direction::Minimize],
        user_attrs: &Map::new(),
        identity: &Map::new(),
    };
    store.create_study(&study, &[trial]).unwrap();
    let study = choose(&store, None).unwrap();
    let shown = trials_table(&store, &study, &everything(), Width::Of(80)).unwrap();
    assert!(shown.contains("against a constraint"), "{shown}");
}
