//! Resolution against a task kind that declares the whole space of the field notes.

mod documentation;
mod identity;
mod idle;
mod problems;

use std::path::Path;
use std::time::Duration;

use super::*;
use crate::Prepared;
use crate::testing::{field_notes, good, resolve_overrides, resolve_with};
use device::{Device, DevicePolicy};
use search::space::{Domain, Params, Value};
use search::study::Direction;

/// A small configuration; lines 1 to 4.
const HEAD: &str = "task.kind = \"whole\"\n[train]\nepochs = 4\n[space]\n";

fn with(space: &str) -> String {
    format!("{HEAD}{space}")
}

#[test]
fn defaults_are_those_of_the_documentation() {
    let spec = good(HEAD, &[]);
    assert_eq!((spec.task.as_str(), spec.study.as_str()), ("t", "t"));
    assert_eq!((spec.seed, spec.kind.as_str()), (0, "whole"));
    assert_eq!(spec.objective.metric, "loss");
    assert_eq!(spec.objective.direction, Direction::Minimize);
    let run = &spec.operation;
    assert_eq!(
        (run.trials, run.parallel, run.threads),
        (100, Parallel::Unsaid, None)
    );
    assert_eq!((run.timeout, &run.device), (None, &DevicePolicy::Auto));
    assert_eq!((run.gpu_memory, run.gpu_alone), (0.8, 0.95));
    assert_eq!(
        (run.max_log_bytes, run.max_logs_bytes),
        (4 << 20, 512 << 20)
    );
    let seconds = Duration::from_secs;
    let expected = SupervisorPolicy {
        recycle_after: 50,
        deadline: Deadline::Learned {
            floor: seconds(60),
            ceiling: seconds(600),
            factor: 20.0,
        },
        start_deadline: seconds(600),
        grace: seconds(5),
        abandon_after: seconds(30),
        max_deaths: 5,
        death_window: seconds(60),
        backoff: seconds(1),
        max_backoff: seconds(60),
        max_failures: 20,
        max_refused: 200,
        storage_patience: Duration::from_secs(60),
        checkpoint: false,
    };
    assert_eq!(run.supervisor, expected);
    assert_eq!(run.sampler.kind, "auto");
    assert_eq!(run.sampler.options["n_ei_candidates"], Value::Int(24));
    assert_eq!(run.sampler.options["multivariate"], Value::Bool(true));
    assert_eq!(run.pruner.options["n_startup_trials"], Value::Int(8));
    assert_eq!(spec.fixed["data.split.train"], Value::Float(0.8));
    assert!(!spec.fixed.contains_key("model.name"));
    assert_eq!(spec.space.fixed, spec.fixed);
}

#[test]
fn a_wrapped_pruner_is_a_table_or_dotted_keys() {
    let text = format!(
        "{HEAD}[pruner]\nkind = \"patient\"\n[pruner.wrapped]\nkind = \"hyperband\"\nmin_resource = 3\n"
    );
    let pruner = |sets| good(&text, sets).operation.pruner;
    let found = pruner(&["pruner.wrapped.max_resource=100"]);
    assert_eq!(found.kind, "patient");
    assert_eq!(found.options["patience"], Value::Int(4));
    assert_eq!(found.options["wrapped.kind"], "hyperband".into());
    assert_eq!(found.options["wrapped.min_resource"], Value::Int(3));
    assert_eq!(found.options["wrapped.max_resource"], Value::Int(100));
    assert_eq!(found.options["wrapped.reduction_factor"], Value::Int(3));
    // Another kind from outside leaves the file's options aside.
    let found = pruner(&["pruner.wrapped.kind=asha"]);
    assert_eq!(found.options["wrapped.min_resource"], Value::Int(3));
    assert_eq!(pruner(&["pruner.kind=median"]).options.len(), 4);
    let field = "pruner={kind=\"patient\", patience=4, wrapped={kind=\"asha\"}}";
    assert_eq!(
        pruner(&[field]).options["wrapped.min_resource"],
        "auto".into()
    );
}

#[test]
fn operational_keys_are_read_from_the_file_and_from_flags() {
    let text = "[task]\nkind = \"whole\"\n[train]\nepochs = 1\n[study]\nname = \"n\"\nseed = 7\n\
        [run]\ntimeout = \"7h30m\"\ndevice = \"cuda:1\"\n[gpu]\nmemory = \"50%\"\n\
        [supervisor]\ndeadline = \"off\"\n[sampler]\nkind = \"tpe\"\nn_startup_trials = 3\n\
        [objective]\nmetric = \"macro_f1\"\n";
    let spec = good(
        text,
        &[
            "run.trials=5",
            "gpu.memory=70%",
            "logging.max_log=1KiB",
            "study.name=5",
        ],
    );
    assert_eq!((spec.study.as_str(), spec.seed), ("5", 7));
    assert_eq!(spec.objective.direction, Direction::Maximize);
    let run = spec.operation;
    assert_eq!(run.timeout, Some(Duration::from_secs(27_000)));
    assert_eq!(run.device, DevicePolicy::Cuda(vec![1]));
    assert_eq!(
        (run.trials, run.gpu_memory, run.max_log_bytes),
        (5, 0.7, 1024)
    );
    assert_eq!(run.gpu_alone, 0.95);
    let parts = |set: &[&str]| {
        let run = good(HEAD, set).operation;
        (run.gpu_memory, run.gpu_alone)
    };
    assert_eq!(parts(&["gpu.alone=90%"]), (0.8, 0.9));
    assert_eq!(
        parts(&["gpu.memory=97%"]),
        (0.97, 0.97),
        "not less than together"
    );
    assert_eq!(run.supervisor.deadline, Deadline::Off);
    let fixed = good(HEAD, &["supervisor.deadline=90s"]);
    assert_eq!(
        fixed.operation.supervisor.deadline,
        Deadline::Fixed(Duration::from_secs(90))
    );
    assert_eq!(run.sampler.options["n_startup_trials"], Value::Int(3));
}

#[test]
fn a_sampler_chosen_by_a_flag_leaves_the_files_options_alone() {
    let text = format!(
        "[sampler]\nkind = \"tpe\"\nmultivariate = false\n[task]\n{}",
        &HEAD[5..]
    );
    let spec = good(&text, &["sampler.kind=random"]);
    assert_eq!(spec.operation.sampler.kind, "random");
    assert!(spec.operation.sampler.options.is_empty());
}

#[test]
fn the_whole_space_of_the_field_notes_is_expressed() {
    let spec = field_notes();
    assert_eq!(spec.space.parameters.len(), 29);
    let position = |name: &str| spec.space.find(name).unwrap().0;
    assert!(position("sched.name") < position("sched.cosine_cycles"));
    assert!(position("sched.name") < position("sched.poly_power"));
    let values = [
        ("model.name", "roberta-large"),
        ("loss.cls.type", "focal"),
        ("sched.name", "polynomial"),
    ];
    let chosen: Params = values.map(|(k, v)| (k.to_owned(), v.into())).into();
    let point = spec.space.point(&chosen);
    assert!(point.contains_key("loss.cls.gamma") && point.contains_key("sched.poly_power"));
    assert!(!point.contains_key("loss.cls.label_smoothing"));
    assert!(!point.contains_key("sched.cosine_cycles"));
    let (_, length) = spec.space.find("tok.max_length").unwrap();
    let domain = spec.space.active_domain(length, &point);
    assert!(matches!(domain, Some(Domain::Int { high: 384, .. })));
}

#[test]
fn the_shipped_configurations_resolve() {
    let spec = |text: &str| good(text, &["task.kind=whole"]);
    let criteria = spec(include_str!("../../../configs/criteria.toml"));
    assert_eq!(
        criteria.fixed["data.path"],
        "/p/configs/data/reviews.csv".into()
    );
    let minilm = Path::new("/home/me/.cache/tune/models/minilm");
    assert_eq!(criteria.models["minilm"], minilm);
    assert_eq!(
        criteria.points[1]["train.freeze_encoder_layers"],
        Value::Int(3)
    );
    let first = criteria.space.point(&Params::new());
    assert_eq!(first["train.freeze_encoder_layers"], Value::Int(6));
    let synthetic = spec(include_str!("../../../configs/synthetic.toml"));
    assert_eq!(synthetic.fixed["train.epochs"], Value::Int(9));
    assert!(
        !synthetic
            .space
            .point(&Params::new())
            .contains_key("optim.momentum")
    );
}

#[test]
fn parents_are_sorted_before_their_children_and_nothing_else_moves() {
    let spec = good(
        &with(
            "\"optim.momentum\" = { low = 0, high = 1, when = { optim.name = \"sgd\" } }\n\
             \"optim.lr\" = { low = 1e-5, high = 1 }\n\
             optim.name = { choices = [\"adam\", \"sgd\"] }\n",
        ),
        &[],
    );
    let names: Vec<&str> = spec
        .space
        .parameters
        .iter()
        .map(|p| p.name.as_str())
        .collect();
    assert_eq!(names, ["optim.lr", "optim.name", "optim.momentum"]);
}

#[test]
fn a_high_off_the_grid_moves_down_and_integers_stand_for_floats() {
    let spec = good(
        &with(
            "\"tok.max_length\" = { low = 64, high = 100, step = 32, default = 96 }\n\
             \"optim.lr\" = { low = 1, high = 2, default = 2 }\n\
             \"train.patience\" = { choices = [1, 5] }\n",
        ),
        &[],
    );
    let domain = |name: &str| spec.space.find(name).unwrap().1.domain.clone();
    assert!(matches!(
        domain("tok.max_length"),
        Domain::Int { high: 96, .. }
    ));
    assert!(matches!(domain("optim.lr"), Domain::Float { .. }));
}

#[test]
fn an_override_fixes_a_searched_parameter_with_all_that_follows() {
    let text = with(
        "\"optim.name\" = { choices = [\"adam\", \"sgd\"] }\n\
         \"optim.momentum\" = { low = 0, high = 1, when = { \"optim.name\" = [\"sgd\"] } }\n\
         [[points]]\n\"optim.name\" = \"sgd\"\n\"optim.momentum\" = 0.5\n\
         [[points]]\n\"optim.name\" = \"adam\"\n",
    );
    let spec = good(&text, &["optim.name=sgd"]);
    assert_eq!(spec.fixed["optim.name"], "sgd".into());
    assert!(spec.space.find("optim.name").is_none());
    assert_eq!(spec.points.len(), 1);
    assert_eq!(
        spec.points[0].keys().collect::<Vec<_>>(),
        ["optim.momentum"]
    );
    let spec = good(&text, &["optim.name=adam"]);
    assert!(spec.space.point(&Params::new()).is_empty());
}

#[test]
fn model_choices_from_the_environment_replace_those_of_the_file() {
    let overrides =
        overrides_from_environment(|name| (name == "HPO_MODEL_CHOICES").then(|| "a,b".into()))
            .unwrap();
    let text = with(
        "\"model.name\" = { choices = [\"a\", \"large\"], default = \"large\" }\n\
         \"tok.max_length\" = { low = 64, high = 512, high_when = [{ if = { \"model.name\" = \"large\" }, high = 384 }] }\n",
    );
    let spec = resolve_overrides(&text, &overrides).unwrap();
    let (_, model) = spec.space.find("model.name").unwrap();
    let choices = vec!["a".into(), "b".into()];
    assert_eq!(model.domain, Domain::Categorical { choices });
    assert_eq!(model.default, None);
    let fixed = "task.kind = \"whole\"\n[train]\nepochs = 1\n[model]\nname = \"x\"\n";
    let spec = resolve_overrides(fixed, &overrides).unwrap();
    assert!(spec.space.find("model.name").is_some());
}

#[test]
fn workers_share_the_cores_and_a_replay_has_as_many_threads_as_its_study() {
    let threads = |parallel, threads, devices: &[Device]| {
        let operation = Operation {
            parallel,
            threads,
            ..Operation::sample(1)
        };
        operation.worker_threads(devices, 8)
    };
    let (cpu, gpu) = (Device::Cpu, Device::Cuda(0));
    assert_eq!(threads(Parallel::Unsaid, None, &[cpu]), 8);
    assert_eq!(threads(Parallel::Auto, None, &[cpu]), 1);
    assert_eq!(threads(Parallel::Limit(3), None, &[cpu]), 2);
    assert_eq!(threads(Parallel::Limit(16), None, &[cpu]), 1);
    assert_eq!(threads(Parallel::Unsaid, None, &[gpu]), 1);
    assert_eq!(threads(Parallel::Auto, Some(5), &[gpu, gpu]), 5);
}
