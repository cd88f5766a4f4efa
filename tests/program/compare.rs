//! `tune compare` and `tune faults`: two studies beside each other, and what went wrong in one.

use serde_json::{Value as Json, json};

use crate::common::{Project, valid};

fn ask(project: &Project, args: &[&str]) -> Json {
    let answer = [args, &["--json"]].concat();
    let answer = serde_json::from_str(&project.expect(0, &answer).0).unwrap();
    valid(args[0], &answer);
    answer
}

fn run(project: &Project, line: &str) {
    project.expect(0, &line.split(' ').collect::<Vec<_>>());
}

#[test]
fn two_studies_are_compared_by_the_repeats_of_their_winners() {
    let project = Project::synthetic();
    let repeats = "--repeats 4 --test=off --parallel 2";
    run(
        &project,
        &format!("synthetic --trials 60 --seed 3 --set task.noise=0.02 {repeats}"),
    );
    // A search of seven trials at random in a smaller space finds nothing as good.
    run(
        &project,
        &format!(
            "synthetic --study few --trials 7 --seed 5 --sampler random --set task.noise=0.02 {repeats}"
        ),
    );
    let answer = ask(&project, &["compare", "synthetic", "few"]);
    assert_eq!(answer["better"], "a", "{answer:#}");
    let difference = &answer["difference"];
    assert_eq!(difference["basis"], "repeats");
    for (side, study) in [("a", "synthetic"), ("b", "few")] {
        let best: Json =
            serde_json::from_str(&project.expect(0, &["best", study, "--json"]).0).unwrap();
        assert_eq!(answer[side]["best"], best["best"]);
        let mean = best["selection"]["winner"]["mean"].as_f64().unwrap();
        assert!((difference[side]["value"].as_f64().unwrap() - mean).abs() < 1e-12);
        assert_eq!(difference[side]["trainings"], 4);
    }
    assert_eq!(answer["b"]["reached"], json!(null));
    let keys: Vec<&Json> = answer["differences"]["configuration"]
        .as_array()
        .unwrap()
        .iter()
        .map(|d| &d["key"])
        .collect();
    assert!(
        keys.contains(&&json!("study.seed")) && keys.contains(&&json!("sampler.kind")),
        "{keys:?}"
    );
    // The other way round it is the same.
    let turned = ask(&project, &["compare", "few", "synthetic"]);
    assert_eq!(turned["better"], "b");
    assert_eq!(
        turned["difference"]["gain"].as_f64(),
        difference["gain"].as_f64().map(|x| -x)
    );
    let (text, _) = project.expect(0, &["compare", "synthetic", "few"]);
    assert!(
        text.starts_with("Which is better\n  synthetic is better by "),
        "{text}"
    );
}

#[test]
fn what_cannot_be_said_is_not_said() {
    let project = Project::synthetic();
    run(&project, "synthetic --trials 12");
    run(
        &project,
        "synthetic --study wide --trials 9 --set space.optim.lr.high=0.5",
    );
    let answer = ask(&project, &["compare", "synthetic", "wide"]);
    assert_eq!(
        (&answer["better"], &answer["difference"]["basis"]),
        (&json!(null), &json!("single"))
    );
    assert_eq!(answer["at_equal_trials"]["budget"], 9.0);
    assert_eq!(answer["differences"]["space"][0]["key"], "optim.lr");
    let (text, _) = project.expect(0, &["compare", "synthetic", "wide"]);
    assert!(
        text.contains("which may be luck") && text.contains("--repeats 5"),
        "{text}"
    );
    // Values of other metrics, one study twice, and none of that name.
    run(
        &project,
        "synthetic --study cost --trials 3 --objective cost:min",
    );
    for (args, why) in [
        (
            ["compare", "synthetic", "cost"],
            "to minimize cost; only values of one kind",
        ),
        (
            ["compare", "synthetic", "synthetic"],
            "expected two studies",
        ),
        (
            ["compare", "synthetic", "nope"],
            "holds no study called \"nope\"",
        ),
    ] {
        let (_, stderr) = project.expect(2, &args);
        assert!(stderr.contains(why), "{stderr}");
    }
    // Fronts have volumes.
    for study in ["first", "second"] {
        let seed = if study == "first" { "1" } else { "2" };
        run(
            &project,
            &format!(
                "synthetic --study {study} --seed {seed} --trials 12 --objective loss:min --objective cost:min"
            ),
        );
    }
    let answer = ask(&project, &["compare", "first", "second"]);
    assert!(answer["hypervolume"]["a"].as_f64().unwrap() > 0.0);
    assert_eq!(
        (&answer["difference"], &answer["at_equal_hours"]),
        (&json!(null), &json!(null))
    );
}

#[test]
fn a_task_stands_for_its_latest_study() {
    let project = Project::synthetic();
    std::fs::copy(
        project.path().join("configs/synthetic.toml"),
        project.path().join("configs/mine.toml"),
    )
    .unwrap();
    run(&project, "mine --study one --trials 3");
    run(&project, "mine --study two --trials 4");
    run(&project, "synthetic --trials 5");
    let answer = ask(&project, &["compare", "mine", "synthetic"]);
    assert_eq!(
        (&answer["a"]["study"], &answer["a"]["finished"]),
        (&json!("two"), &json!(4))
    );
}

#[test]
fn the_faults_of_a_night_are_counted_placed_and_named() {
    let project = Project::synthetic();
    run(
        &project,
        "synthetic --trials 40 --parallel 2 --seed 3 --inject segv:4,kill:2,error:2,abort:3",
    );
    let answer = ask(&project, &["faults"]);
    let trials = project.trials("synthetic");
    let attempts: Vec<&Json> = trials
        .iter()
        .flat_map(|t| t["attempts"].as_array().unwrap())
        .collect();
    assert_eq!(answer["attempts"], attempts.len());
    let of = |kind: &str| attempts.iter().filter(|a| a["outcome"] == kind).count();
    for kind in answer["kinds"].as_array().unwrap() {
        assert_eq!(
            kind["attempts"],
            of(kind["kind"].as_str().unwrap()),
            "{kind}"
        );
    }
    assert_eq!((of("killed"), of("task_error")), (2, 2));
    // Each is in one period.
    let periods = answer["over_time"]["periods"].as_array().unwrap();
    let placed = periods
        .iter()
        .flat_map(|p| p["kinds"].as_object().unwrap().values());
    let placed: u64 = placed.map(|n| n.as_u64().unwrap()).sum();
    assert_eq!(answer["faulty"], placed);
    // Who failed for good is named first; who was killed from outside is no culprit.
    let culprits = answer["culprits"].as_array().unwrap();
    assert_eq!(culprits[0]["state"], "FAIL");
    assert!(
        culprits.iter().all(|c| c["kinds"].get("killed").is_none()),
        "{culprits:?}"
    );
    let commands: Vec<&str> = answer["next"]
        .as_array()
        .unwrap()
        .iter()
        .map(|n| n["command"].as_str().unwrap())
        .collect();
    assert!(commands[0].ends_with("failures synthetic"), "{commands:?}");
    assert!(commands[1].contains("bisect synthetic "), "{commands:?}");
    let (text, _) = project.expect(0, &["faults"]);
    assert!(
        text.contains("crash ") && !text.contains('#'),
        "bars are for terminals: {text}"
    );
    run(&project, "synthetic --study calm --trials 3");
    let (text, _) = project.expect(0, &["faults", "calm"]);
    assert!(
        text.starts_with("calm: no fault, in 3 attempts and "),
        "{text}"
    );
    assert_eq!(ask(&project, &["faults", "calm"])["over_time"], json!(null));
}

#[test]
fn of_values_that_cannot_stand_beside_each_other_nothing_is_said() {
    let project = Project::synthetic();
    run(&project, "synthetic --trials 3");
    project.config(
        "mine",
        "[task]\nkind = \"command\"\nrun = [\"sh\", \"-c\", \"echo loss={x}\"]\nvalue = 'loss=([0-9.]+)'\n\
         [objective]\nmetric = \"loss\"\ndirection = \"minimize\"\n[space]\nx = { low = 0.1, high = 0.9 }\n",
    );
    run(&project, "mine --trials 2");
    let (text, _) = project.expect(0, &["compare", "synthetic", "mine"]);
    assert!(
        text.contains("Nothing can be said: the kinds of their tasks differ"),
        "{text}"
    );
    assert!(!text.contains("as good as the other"), "{text}");
    assert!(text.contains("lost to faults"), "{text}");
    let answer = ask(&project, &["compare", "synthetic", "mine"]);
    for side in ["a", "b"] {
        assert_eq!(answer[side]["reached"], json!(null));
    }
}
