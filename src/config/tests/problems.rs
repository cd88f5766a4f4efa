//! What is refused, with which line and which words.

use super::*;
use crate::testing::assigned;

fn lines(text: &str, sets: &[&str]) -> Vec<String> {
    match resolve_with(text, sets) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.0.iter().map(ToString::to_string).collect(),
    }
}

/// One problem on this line that says all of these.
fn refused(text: &str, line: usize, says: &[&str]) {
    let found = lines(text, &[]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with(&format!("t.toml:{line}: ")),
        "{found:?}"
    );
    for part in says {
        assert!(found[0].contains(part), "{part:?} in {found:?}");
    }
}

/// An entry of `[space]`, at line 5.
fn entry(space: &str, says: &[&str]) {
    refused(&with(space), 5, says);
}

#[test]
fn all_problems_of_a_file_come_together_in_the_order_of_the_lines() {
    let text = "[task]\nkind = \"whole\"\n[train]\nepoch = 3\npatience = 1.5\n[spaces]\nx = 1\n\
        [run]\nparallel = 0\n[space]\n\"optim.lr\" = { low = 1, high = 0.1 }\n";
    let found = lines(text, &["run.timeout=soon"]);
    let starts = [
        "t.toml:3: train.epochs: found nothing",
        "t.toml:4: train.epoch: found an unknown key",
        "t.toml:5: train.patience: found 1.5 (float), expected an integer in 0..=10000",
        "t.toml:6: spaces: found an unknown section",
        "t.toml:9: run.parallel: found 0",
        "t.toml:11: optim.lr: found low = 1.0 above high = 0.1, expected low <= high",
        "--set run.timeout=soon: run.timeout: found \"soon\", expected a time such as",
    ];
    assert_eq!(found.len(), starts.len(), "{found:#?}");
    for (found, start) in found.iter().zip(starts) {
        assert!(found.starts_with(start), "{found}");
    }
    assert!(found[1].ends_with("(did you mean train.epochs?)"));
    assert!(found[3].ends_with("(did you mean space?)"));
}

#[test]
fn a_time_without_an_end_is_refused() {
    let text = "[task]\nkind = \"synthetic\"\n";
    for set in [
        "run.timeout=18446744073709551615s",
        "supervisor.deadline=101y",
    ] {
        let found = lines(text, &[set]);
        let long = |problem: &String| problem.ends_with(", and no more than 100 years");
        assert!(found.iter().any(long), "{found:?}");
    }
}

#[test]
fn objectives_in_a_wrong_form_are_one_problem() {
    let input = Input {
        text: "[task]\nkind = \"command\"\nrun = [\"x\"]\n[objective]\nmetrics = 3\n",
        shown: Path::new("t.toml"),
        absolute: Path::new("/p/configs/t.toml"),
        home: None,
    };
    let command = &crate::kinds::command::KIND;
    let found = resolve_text(&input, &Overrides::default(), &[command]).unwrap_err();
    let found: Vec<String> = found.0.iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("t.toml:5: objective.metrics: found 3"),
        "{found:?}"
    );
}

#[test]
fn a_metric_has_a_name() {
    for name in ["", " "] {
        let text = format!(
            "[task]\nkind = \"command\"\nrun = [\"x\"]\n[objective]\nmetric = \"{name}\"\ndirection = \"minimize\"\n\
             [space]\nx = {{ low = 0.0, high = 1.0 }}\n"
        );
        let file = Path::new("t.toml");
        let input = Input {
            text: &text,
            shown: file,
            absolute: Path::new("/p/configs/t.toml"),
            home: None,
        };
        let command = &crate::kinds::command::KIND;
        let found = resolve_text(&input, &Overrides::default(), &[command]).unwrap_err();
        let told = format!("t.toml:5: objective.metric: found {name:?}, expected a metric's name");
        assert_eq!(found.to_string(), told);
    }
}

#[test]
fn syntax_errors_unreadable_files_and_unknown_kinds_are_told() {
    refused("[task]\nkind = = 1\n", 2, &["a TOML error"]);
    let missing = resolve(Path::new("/no/such.toml"), &Overrides::default()).unwrap_err();
    assert!(
        missing
            .to_string()
            .starts_with("/no/such.toml: found No such file")
    );
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.toml");
    std::fs::write(&file, b"\xff\xfe[\0").unwrap();
    let told = resolve(&file, &Overrides::default()).unwrap_err();
    let end = "t.toml: found UTF-16 (by its byte-order mark), expected UTF-8";
    assert!(told.to_string().ends_with(end), "{told}");
    refused(
        "[task]\nkind = \"wole\"\n",
        2,
        &["unknown task kind", "(did you mean whole?)"],
    );
    let nothing = lines("[run]\ntrial = 3\n", &[]);
    assert_eq!(nothing.len(), 2);
    assert!(nothing[0].contains("run.trial: found an unknown key"));
    assert_eq!(
        nothing[1],
        "t.toml: task.kind: found nothing, expected one of whole"
    );
}

#[test]
fn wrong_types_and_values_out_of_bounds_are_refused() {
    for (value, says) in [
        ("train.epochs=0", "an integer in 1..=10000"),
        ("train.epochs=5.0", "found 5.0 (float)"),
        ("train.epochs=x", "found \"x\""),
        ("model.dropout=1.5", "a number in 0.0..=1.0"),
        ("model.dropout=nan", "a number in"),
        ("train.grad_checkpointing=1", "true or false"),
        ("optim.name=adm", "(did you mean adam?)"),
        ("train.epochs=[1]", "found an array"),
        ("study.name=a/b", "without '/'"),
        ("run.device=tpu", "auto, cpu, cuda"),
        ("gpu.memory=120%", "at most \"100%\""),
        ("gpu.alone=70%", "at least gpu.memory, which is 80%"),
        ("logging.max_log=big", "a size"),
        ("sampler.kind=tpes", "(did you mean tpe?)"),
        ("objective.metric=macro_f", "(did you mean macro_f1?)"),
        ("trials=3", "(did you mean run.trials?)"),
        ("train.epochs=[1", "a value of TOML"),
    ] {
        let found = lines(HEAD, &[value]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with(&format!("--set {value}: ")),
            "{found:?}"
        );
        assert!(found[0].contains(says), "{found:?}");
    }
    for url in ["me:secret@db/s", "me@db/s?password=secret"] {
        let set = format!("storage.url=postgresql://{url}");
        let found = lines(HEAD, &[set.as_str()]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("a URL with a password"), "{found:?}");
        assert!(!found[0].contains("secret"), "{found:?}");
    }
    assert!(check_name("").is_err() && check_name(&"x".repeat(201)).is_err());
    // Files have it in their names, of which file systems limit the bytes.
    assert!(check_name(&"ü".repeat(120)).is_ok() && check_name(&"ü".repeat(121)).is_err());
    assert!(check_name("a\nb").is_err() && check_name("criteria@2").is_ok());
    assert!(check_name("-x").is_err() && check_name("x-").is_ok() && check_name(".x").is_ok());
    assert_eq!(
        check_name("..").unwrap_err(),
        "a name that stands for no directory"
    );
    assert_eq!(shown_name("a\n"), "\"a\\n\"");
    assert!(shown_name(&"x".repeat(300)).ends_with("x\"... (300 characters)"));
}

#[test]
fn ranges_that_make_no_sense_are_refused() {
    entry(
        "model.dropout = { low = 0, high = 1, log = true }",
        &["log = true with low = 0.0"],
    );
    entry(
        "optim.lr = { low = 1, high = 2, step = 0 }",
        &["a step above 0"],
    );
    entry(
        "optim.lr = { low = 1, high = 2, step = 3 }",
        &["a step that fits into the range"],
    );
    entry(
        "optim.lr = { low = 1, high = 2, log = true, step = 1 }",
        &["either a step or"],
    );
    entry("optim.lr = { low = 1 }", &["low without high"]);
    entry(
        "optim.lr = { default = 1 }",
        &["neither choices nor a range"],
    );
    entry(
        "optim.lr = { low = 1, high = 2, choices = [1] }",
        &["both choices and a range"],
    );
    entry(
        "optim.lr = { low = 1, high = 2, logs = true }",
        &["unknown logs", "did you mean log?"],
    );
    entry(
        "optim.lr = { low = \"a\", high = 2 }",
        &["low = \"a\"", "a finite number"],
    );
    entry(
        "optim.lr = { low = 1, high = 11 }",
        &["high = 11.0", "in 1e-9..=10.0"],
    );
    entry("optim.lr = 3", &["found 3 (integer)", "a table such as"]);
    entry(
        "tok.max_length = { low = 1.0, high = 3 }",
        &["low = 1.0 (float)", "an integer"],
    );
    entry(
        "tok.max_length = { low = 1, high = 3, int = false }",
        &["the key is an integer"],
    );
    entry(
        "optim.name = { low = 1, high = 3 }",
        &["a range", "one of adam"],
    );
}

#[test]
fn choices_and_defaults_must_be_values_of_the_key() {
    entry("optim.name = { choices = [] }", &["an empty array"]);
    entry(
        "optim.name = { choices = [\"adam\", \"adam\"] }",
        &["a second time"],
    );
    entry("optim.lr = { choices = [1, 1.0] }", &["a second time"]);
    entry(
        "optim.name = { choices = [\"adamw\"] }",
        &["(did you mean adam?)"],
    );
}

#[test]
fn defaults_outside_the_domain_are_refused() {
    entry(
        "optim.name = { choices = [\"adam\"], default = \"sgd\" }",
        &["a default within adam"],
    );
    entry(
        "optim.lr = { low = 1, high = 2, default = 3 }",
        &["default = 3", "1.0..2.0"],
    );
    entry(
        "tok.max_length = { low = 64, high = 128, step = 32, default = 65 }",
        &["64..128 step 32"],
    );
    let narrowed = "tok.max_length = { low = 64, high = 512, default = 512, high_when = \
        [{ if = { sched.name = \"cosine\" }, high = 384 }] }\nsched.name = { choices = [\"cosine\"] }\n";
    assert_eq!(lines(&with(narrowed), &[]), [""; 0]);
}

#[test]
fn only_training_keys_that_the_task_reads_can_be_searched() {
    entry(
        "optim.lrr = { low = 1, high = 2 }",
        &[
            "task kind whole does not read",
            "(did you mean optim.lr?)",
            "head.pooling",
        ],
    );
    entry(
        "data.split.seed = { low = 0, high = 9 }",
        &["a searched data key", "in [data]"],
    );
    entry(
        "data.loaders = { low = 0, high = 9 }",
        &["a searched operational key"],
    );
    let both = "[task]\nkind = \"whole\"\n[train]\nepochs = 3\n[space]\ntrain.epochs = { low = 1, high = 4 }\n";
    refused(both, 4, &["train.epochs", "beside an entry in [space]"]);
}

#[test]
fn conditions_name_parents_and_values_that_can_be() {
    let momentum = |when: &str| {
        format!(
            "optim.momentum = {{ low = 0, high = 1, when = {when} }}\noptim.name = {{ choices = [\"adam\", \"sgd\"] }}\n"
        )
    };
    entry(
        &momentum("{ optim.nam = \"sgd\" }"),
        &["(did you mean optim.name?)"],
    );
    entry(&momentum("{ optim.name = \"rmsprop\" }"), &["adam | sgd"]);
    entry(&momentum("{ optim.name = [] }"), &["without values"]);
    entry(&momentum("{ optim.lr = 1 }"), &["a float"]);
    entry(&momentum("3"), &["a condition that is 3"]);
    entry(
        &momentum("{ sched.name = \"cosine\" }"),
        &["never exists: sched.name is fixed at linear"],
    );
    assert_eq!(
        lines(&with(&momentum("{ sched.name = \"linear\" }")), &[]),
        [""; 0]
    );
    let high = |h: &str| format!("tok.max_length = {{ low = 64, high = 512, high_when = {h} }}\n");
    entry(&high("[{ high = 3 }]"), &["without if or high"]);
    entry(
        &high("[{ if = { sched.name = \"cosine\" }, high = 63 }]"),
        &["at least low = 64"],
    );
    entry(&high("3"), &["high_when = 3"]);
}

#[test]
fn cycles_of_conditions_are_refused() {
    let text = with(
        "head.layers = { low = 1, high = 4, when = { model.layers = 1 } }\n\
         model.layers = { low = 1, high = 4, when = { optim.name = \"sgd\" } }\n\
         optim.name = { choices = [\"sgd\"], when = { model.layers = 2 } }\n",
    );
    refused(
        &text,
        6,
        &["a cycle of conditions: model.layers -> optim.name -> model.layers"],
    );
    entry(
        "model.layers = { low = 1, high = 4, when = { model.layers = 1 } }",
        &["a cycle"],
    );
}

#[test]
fn constraints_that_no_point_satisfies_are_refused_by_their_names() {
    let text = |constraints: &str| {
        let wide = "train.batch_size = { choices = [8, 64] }\noptim.lr = { low = 1, high = 2 }\n";
        let each = constraints
            .split('|')
            .map(|c| format!("[[constraints]]\nexpr = \"{c}\"\n"));
        with(&format!("{wide}{}", each.collect::<String>()))
    };
    let tried = "none of 10000 random points satisfies it, and the sampler auto finds none either";
    refused(
        &text("optim.lr <= 2|train.batch_size > 64"),
        10,
        &["constraints[1]: found train.batch_size > 64: ", tried],
    );
    let found = lines(
        &text("train.batch_size > 8|train.batch_size < 64|optim.lr > 0"),
        &[],
    );
    let all = "some points satisfy it, but none of 10000 random ones all constraints, and";
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found.iter().all(|f| f.contains(all)), "{found:?}");
    assert_eq!(
        lines(&text("train.batch_size > 8|optim.lr < 1.01"), &[]),
        [""; 0]
    );
}

#[test]
fn a_point_that_only_the_sampler_finds_is_enough() {
    let sizes: Vec<String> = (1..=2000).map(|n| n.to_string()).collect();
    // One point of eight million, which a grid finds by leaving out all others early.
    let text = with(&format!(
        "train.batch_size = {{ choices = [{}] }}\noptim.lr = {{ low = 1, high = 5, step = 0.001 }}\n\
         [[constraints]]\nexpr = \"train.batch_size == 1234\"\n\
         [[constraints]]\nexpr = \"optim.lr >= 3.1415\"\n\
         [[constraints]]\nexpr = \"optim.lr <= 3.1425\"\n",
        sizes.join(", ")
    ));
    assert_eq!(lines(&text, &["sampler.kind=grid"]), [""; 0]);
    assert!(!lines(&text, &["sampler.kind=random"]).is_empty());
}

#[test]
fn constraints_are_parsed_and_name_numbers() {
    let constraint = |c: &str, line, says: &[&str]| {
        refused(
            &with(&format!(
                "train.batch_size = {{ choices = [8, 64], default = 64 }}\n[[constraints]]\n{c}\n"
            )),
            line,
            says,
        );
    };
    constraint(
        "expr = \"train.batch_size <\"",
        7,
        &["at character 19 the end"],
    );
    constraint(
        "expr = \"train.batch_sizes < 3\"",
        7,
        &["(did you mean train.batch_size?)"],
    );
    constraint("expr = \"optim.name < 3\"", 7, &["no number"]);
    constraint("when = { optim.name = \"sgd\" }", 6, &["no expr"]);
    constraint("expr = 3", 7, &["found 3"]);
    constraint(
        "expr = \"train.batch_size * train.grad_accum <= 32\"",
        7,
        &["violated at the point of the defaults: train.batch_size = 64, train.grad_accum = 1"],
    );
}

#[test]
fn points_name_searched_parameters_and_values_within() {
    let point = |p: &str, line, says: &[&str]| {
        refused(
            &with(&format!(
                "optim.lr = {{ low = 1, high = 2 }}\n[[constraints]]\nexpr = \"optim.lr < 2\"\n[[points]]\n{p}\n"
            )),
            line,
            says,
        );
    };
    point(
        "optim.lr = 3",
        9,
        &["points[0]", "optim.lr = 3", "within 1.0..2.0"],
    );
    point(
        "optim.lrs = 3",
        9,
        &["not searched", "(did you mean optim.lr?)"],
    );
    point("model.dropout = 0.1", 9, &["not searched"]);
    point(
        "optim.lr = 2",
        8,
        &["optim.lr < 2 violated: optim.lr = 2.0"],
    );
}

#[test]
fn options_of_another_sampler_or_pruner_are_refused() {
    let text = "[task]\nkind = \"whole\"\n[train]\nepochs = 3\n[pruner]\nkind = \"none\"\nn_min_trials = 3\n[sampler]\nn_startup_trial = 1\n";
    let found = lines(text, &[]);
    assert_eq!(found.len(), 2);
    assert!(found[0].starts_with(
        "t.toml:7: pruner.n_min_trials: found an option that pruner none does not have"
    ));
    assert!(found[1].ends_with("(did you mean sampler.n_startup_trials?)"));
    let text = "[task]\nkind = \"whole\"\n[train]\nepochs = 3\n[pruner]\nkind = \"median\"\nn_startup = 3\n";
    let found = lines(text, &[]);
    assert!(found[0].ends_with("(did you mean pruner.n_startup_trials?)"));
}

#[test]
fn what_is_wrong_with_a_wrapped_pruner_is_found_with_everything_else() {
    let head = "[task]\nkind = \"whole\"\n[train]\nepochs = 3\n[pruner]\n";
    let found = |pruner: &str, sets: &[&str]| lines(&format!("{head}{pruner}"), sets);
    let patient = "kind = \"patient\"\npatience = -1\nwrapped = { kind = \"asha\", reduction_factor = 1, min_resources = 3 }\n";
    let all = found(patient, &[]);
    assert_eq!(all.len(), 3, "{all:?}");
    for expected in [
        "t.toml:7: pruner.patience: found -1",
        "t.toml:8: pruner.wrapped.reduction_factor: found 1",
        "t.toml:8: pruner.wrapped.min_resources: found an unknown key",
    ] {
        assert!(all.iter().any(|line| line.starts_with(expected)), "{all:?}");
    }
    let other = "kind = \"patient\"\n[pruner.wrapped]\nkind = \"asha\"\npercentile = 3\n";
    let all = found(other, &[]);
    assert_eq!(all.len(), 1, "{all:?}");
    assert!(all[0].contains("found an option that pruner.wrapped asha does not have"));
    let median = "kind = \"median\"\nwrapped.kind = \"asha\"\n";
    assert!(found(median, &[])[0].contains("an option that pruner median does not have"));
    let twice = "kind = \"patient\"\nwrapped.kind = \"patient\"\n";
    assert!(
        found(twice, &[])[0].contains("pruner.wrapped.kind: found \"patient\", expected one of")
    );
    let threshold = "kind = \"threshold\"\n";
    assert!(found(threshold, &[])[0].contains("pruner.lower: found neither lower nor upper"));
    let crossed = "kind = \"hyperband\"\nmin_resource = 9\nmax_resource = 3\n";
    assert!(found(crossed, &[])[0].starts_with("t.toml:8: pruner.max_resource: found 3, below"));
}

/// A configuration of text classification with this space.
pub(super) fn classification(space: &str) -> String {
    format!(
        "[task]\nkind = \"text-classification\"\n[data]\npath = \"rows.csv\"\n[model]\n\
         name = \"tiny\"\n[space]\n{space}"
    )
}

/// With the task kinds that there are.
pub(super) fn resolve_kinds(text: &str) -> Result<StudySpec, Problems> {
    resolve_kinds_with(text, &Overrides::default())
}

pub(super) fn resolve_kinds_with(text: &str, overrides: &Overrides) -> Result<StudySpec, Problems> {
    let input = Input {
        text,
        shown: Path::new("t.toml"),
        absolute: Path::new("/p/configs/t.toml"),
        home: Some(Path::new("/home/me")),
    };
    resolve_text(&input, overrides, &crate::kinds::KINDS)
}

#[test]
fn a_range_whose_width_is_no_number_is_refused_and_not_left_out() {
    for range in [
        "{ low = -9223372036854775807, high = 9223372036854775807, int = true }",
        "{ low = -1.7e308, high = 1.7e308 }",
    ] {
        let text = "[task]\nkind = \"command\"\nrun = [\"echo\", \"{params.x}\"]\n[objective]\n\
                    metric = \"v\"\ndirection = \"minimize\"\n[space]\n\"params.x\" = ";
        let problems = resolve_kinds(&format!("{text}{range}\n")).unwrap_err();
        let (first, width) = (
            "t.toml:8: params.x: found low = -",
            "expected bounds whose difference",
        );
        let found = problems.0.iter().map(ToString::to_string);
        let found: Vec<String> = found.filter(|p| p.starts_with(first)).collect();
        assert!(found.len() == 1 && found[0].contains(width), "{problems}");
    }
}

#[test]
fn a_parameter_that_the_file_lacks_is_not_made_by_a_flag() {
    let text = "[task]\nkind = \"command\"\nrun = [\"echo\", \"{lr}\"]\n[objective]\n\
                metric = \"v\"\ndirection = \"minimize\"\n[params]\nepochs = 3\n[train]\nbatch = 8\n\
                [space]\nlr = { low = 0.1, high = 1.0 }\n";
    let told = |set: &str| -> String {
        match resolve_kinds_with(text, &assigned(&[set])) {
            Ok(_) => String::new(),
            Err(problems) => problems.to_string(),
        }
    };
    for known in [
        "params.epochs=4",
        "train.epochs=4",
        "train.batch=9",
        "params.lr=0.5",
        "lr=0.5",
    ] {
        assert!(
            !told(known).contains("does not have"),
            "{known}: {}",
            told(known)
        );
    }
    assert_eq!(
        told("epochs=4"),
        told("params.epochs=4"),
        "it is known by its own name, too"
    );
    let slip = told("params.epoch=4");
    assert!(slip.contains(
        "--set params.epoch=4: params.epoch: found a parameter that the file does not have"
    ));
    assert!(
        slip.contains("expected one of lr, epochs, train.batch (did you mean epochs?)"),
        "{slip}"
    );
    assert!(told("train.nosuch=1").contains("found a parameter that the file does not have"));
}
