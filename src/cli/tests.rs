//! Command lines, read.

use super::*;
use config::Source;
use std::path::Path;
use store::Place;
use text::embedding::EmbeddingPooling;

fn read(line: &str) -> Result<Invocation, clap::Error> {
    parse(line.split_whitespace().map(OsString::from))
}

fn run_args(line: &str) -> RunArgs {
    match read(line) {
        Ok(Invocation::Run(args)) => *args,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn the_clap_structs_are_consistent() {
    RunArgs::command().debug_assert();
    commands::CommandArgs::command().debug_assert();
}

#[test]
fn flags_stand_before_or_after_the_task() {
    let args = run_args("tune criteria --trials 5000 --parallel 2");
    assert_eq!(args.task, "criteria");
    let args = run_args("tune -C dir --trials 3 -v criteria -v");
    assert_eq!((args.task.as_str(), args.common.verbose), ("criteria", 2));
    assert_eq!(args.common.dir.as_deref(), Some(Path::new("dir")));
}

#[test]
fn a_flags_value_is_never_taken_for_a_command() {
    assert_eq!(run_args("tune --study list criteria").task, "criteria");
    assert_eq!(run_args("tune -vC list criteria").task, "criteria");
    assert_eq!(run_args("tune --study=list criteria").task, "criteria");
}

#[test]
fn a_first_word_that_is_a_command_is_one() {
    for line in ["tune -C dir list --json", "tune list -C dir", "tune status"] {
        assert!(matches!(read(line), Ok(Invocation::Command(..))), "{line}");
    }
    let Ok(Invocation::Command(common, Command::Read(ReadCommand::Show(show)))) =
        read("tune show criteria 7 --json")
    else {
        panic!("not show");
    };
    assert_eq!((show.study.as_str(), show.number), ("criteria", 7));
    assert!(common.json);
}

#[test]
fn reserved_words_are_no_tasks_but_files_may_be_named_so() {
    for word in RESERVED.iter() {
        assert!(
            !matches!(read(&format!("tune {word}")), Ok(Invocation::Run(_))),
            "{word}"
        );
    }
    assert_eq!(run_args("tune ./list.toml").task, "./list.toml");
}

#[test]
fn flags_become_overrides_and_win_over_set() {
    let args = run_args("tune t --trials x --set run.trials=5 --deadline off --seed -1");
    let flag = |s: &str| Source::Flag(s.to_owned());
    let expected = [
        ("run.trials", "5", flag("--set run.trials=5")),
        ("run.trials", "x", flag("--trials x")),
        ("study.seed", "-1", flag("--seed -1")),
        ("supervisor.deadline", "off", flag("--deadline off")),
    ];
    let expected = expected.map(|(k, v, s)| (k.to_owned(), v.to_owned(), s));
    assert_eq!(args.asked.overrides().set, expected);
}

#[test]
fn storage_is_a_path_or_a_url() {
    let path = |s: &str| run_args(&format!("tune t --storage {s}")).common.storage;
    for text in ["a/b.db", "sqlite:///b.db", "postgresql://me@host/db"] {
        assert_eq!(path(text).as_deref(), Some(text));
    }
}

#[test]
fn usage_errors_exit_2_and_help_exits_0() {
    let exit = |line: &str| read(line).err().map(|e| e.exit_code());
    assert_eq!(exit("tune"), Some(2));
    assert_eq!(exit("tune t --no-such-flag"), Some(2));
    assert_eq!(exit("tune t --set novalue"), Some(2));
    for line in [
        "tune --help",
        "tune help",
        "tune help trials",
        "tune --version",
    ] {
        assert_eq!(exit(line), Some(0), "{line}");
    }
}

#[test]
fn a_mistyped_command_is_told_the_nearest_one() {
    let told = |line: &str| read(line).err().unwrap().to_string();
    assert!(told("tune statsu js").contains("Did you mean `tune status`?"));
    assert!(told("tune resume js").contains("run the same command again"));
    assert!(told("tune status --wach").contains("'--watch'"));
    // What is wrong is an option, not the task's name.
    assert!(told("tune statsu --trails 3").contains("'--trials'"));
    assert!(told("tune criteria more").contains("unexpected argument 'more'"));
}

#[test]
fn the_examples_of_every_command_are_commands() {
    for command in commands::CommandArgs::command().get_subcommands() {
        let text = command.get_after_help().map(ToString::to_string);
        let examples: Vec<String> = (text.iter().flat_map(|t| t.lines()))
            .filter(|line| line.starts_with("  tune "))
            .map(|line| line.split(['>', '#']).next().unwrap_or(line).to_owned())
            .collect();
        let name = command.get_name();
        assert!(
            command.is_hide_set() || name == "ask-tell" || !examples.is_empty(),
            "{name}"
        );
        for example in examples {
            // What comes behind `<` is the shell's, but for a condition in quotes.
            let line = example.split(" < ").next().unwrap();
            let words = shlex::split(line).unwrap();
            assert!(
                parse(words.into_iter().map(Into::into)).is_ok(),
                "{example}"
            );
        }
    }
}

#[test]
fn the_help_of_a_run_shows_the_commands_and_an_example() {
    let help = read("tune --help").err().map(|e| e.to_string()).unwrap();
    assert!(help.contains("tune criteria --trials 5000 --parallel 2"));
    for command in commands::CommandArgs::command().get_subcommands() {
        let line = format!("  tune {} ", command.get_name());
        assert_eq!(help.contains(&line), !command.is_hide_set(), "{line}");
    }
}

#[test]
fn a_database_is_a_file() {
    for (text, path) in [
        ("a.db", "a.db"),
        ("sqlite:///a.db", "a.db"),
        ("sqlite:////a", "/a"),
    ] {
        let found = Place::named(text, Path::new("tune.db"), "").unwrap();
        assert!(found.file().ends_with(path), "{found}");
    }
    for text in [
        "",
        ":memory:",
        "sqlite:///:memory:",
        "file:a.db?mode=memory",
        "mysql://h/d",
    ] {
        assert!(
            Place::named(text, Path::new("tune.db"), "").is_err(),
            "{text}"
        );
    }
}

#[test]
fn fetch_and_embed_are_read_with_their_options() {
    let of = |line: &str| match parse(line.split(' ').map(OsString::from)).unwrap() {
        Invocation::Command(_, query) => query,
        Invocation::Run(run) => panic!("{run:?}"),
    };
    let Command::Fetch(args) = of("tune fetch org/name --revision v1 --to /m") else {
        panic!("fetch was not meant");
    };
    assert_eq!(
        (args.model.as_str(), args.revision.as_str()),
        ("org/name", "v1")
    );
    assert_eq!(args.to, Some("/m".into()));
    let line = "tune embed minilm rows.csv -o out.safetensors --text t --pooling cls --device cpu";
    let Command::Embed(args) = of(line) else {
        panic!("embed was not meant");
    };
    assert_eq!(args.out, Path::new("out.safetensors"));
    assert_eq!((args.batch_size, args.max_length), (32, None));
    assert!(matches!(args.pooling, Some(EmbeddingPooling::Cls)));
    assert!(
        parse(
            "tune embed m x.txt -o y --batch-size 0"
                .split(' ')
                .map(OsString::from)
        )
        .is_err()
    );
}

#[test]
fn a_word_too_many_a_number_that_is_none_and_unknown_help_are_told_plainly() {
    for (line, part) in [
        (
            "tune slow extra",
            "If slow is a task: options follow it, and no word such as extra",
        ),
        ("tune staus mine", "Did you mean `tune status`?"),
        ("tune help statsu", "Did you mean `tune help status`?"),
        ("tune trials --top -1", "expected a whole number"),
        ("tune logs mine --tail x", "expected a whole number"),
        ("tune show mine 1.5", "expected a whole number"),
        ("tune bisect mine x", "expected a whole number"),
    ] {
        let error = read(line).err().map(|e| e.to_string()).unwrap();
        assert!(error.contains(part), "{line}: {error}");
    }
}

#[test]
fn the_help_of_every_command_has_examples_and_its_groups_in_one_order() {
    let order = [
        "Goal and study:",
        "Training:",
        "Search:",
        "Time:",
        "Changed study:",
        "Every command:",
        "Examples:",
    ];
    let commands = commands::CommandArgs::command();
    let shown = commands.get_subcommands().filter(|c| !c.is_hide_set());
    for name in shown.map(clap::Command::get_name) {
        let help = read(&format!("tune {name} --help"))
            .err()
            .map(|e| e.to_string())
            .unwrap();
        let groups = order
            .iter()
            .filter_map(|group| help.find(&format!("\n{group}\n")));
        assert!(groups.is_sorted(), "{help}");
        assert!(help.contains("\nExamples:\n"), "{help}");
        // One option whose help is long would make that of all others long, too.
        assert!(!help.contains("see a summary"), "{help}");
    }
}
