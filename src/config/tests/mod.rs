//! Resolution against a task kind that declares the whole space of the field notes.

mod identity;
mod idle;
mod problems;

use std::path::Path;
use std::time::Duration;

use super::*;
use crate::gpu::Device;
use crate::space::{Domain, Params, Value};
use crate::study::Direction;
use crate::task::{Key, KeyType, Metric, Prepared, Preset, Role, Task, TaskKind};

struct Whole;

const fn key(name: &'static str, ty: KeyType, preset: Preset, role: Role) -> Key<'static> {
    Key {
        name,
        ty,
        preset,
        role,
        help: "a key",
        acts: &[],
    }
}
const fn float(name: &'static str, low: f64, high: f64) -> Key<'static> {
    key(
        name,
        KeyType::Float { low, high },
        Preset::Float(low),
        Role::Training,
    )
}
const fn int(name: &'static str, low: i64, high: i64) -> Key<'static> {
    key(
        name,
        KeyType::Int { low, high },
        Preset::Int(low),
        Role::Training,
    )
}
const fn word(name: &'static str, words: &'static [&'static str]) -> Key<'static> {
    key(
        name,
        KeyType::Choice(words),
        Preset::Text(words[0]),
        Role::Training,
    )
}

const KEYS: &[Key<'static>] = &[
    key("data.path", KeyType::Path, Preset::Optional, Role::Data),
    key("data.text", KeyType::Text, Preset::Text("text"), Role::Data),
    key(
        "data.text_pair",
        KeyType::Text,
        Preset::Optional,
        Role::Data,
    ),
    key(
        "data.label",
        KeyType::Text,
        Preset::Text("label"),
        Role::Data,
    ),
    key("data.group", KeyType::Text, Preset::Optional, Role::Data),
    key(
        "data.split.train",
        KeyType::Float {
            low: 0.0,
            high: 1.0,
        },
        Preset::Float(0.8),
        Role::Data,
    ),
    key(
        "data.split.validation",
        KeyType::Float {
            low: 0.0,
            high: 1.0,
        },
        Preset::Float(0.1),
        Role::Data,
    ),
    key(
        "data.split.test",
        KeyType::Float {
            low: 0.0,
            high: 1.0,
        },
        Preset::Float(0.1),
        Role::Data,
    ),
    key(
        "data.split.seed",
        KeyType::Int {
            low: 0,
            high: i64::MAX,
        },
        Preset::Int(0),
        Role::Data,
    ),
    key(
        "data.loaders",
        KeyType::Int { low: 0, high: 64 },
        Preset::Int(0),
        Role::Operational,
    ),
    float("task.step_ms", 0.0, 1e6),
    int("task.steps", 1, 1_000_000),
    float("task.noise", 0.0, 1e6),
    key(
        "train.epochs",
        KeyType::Int {
            low: 1,
            high: 10_000,
        },
        Preset::Required,
        Role::Training,
    ),
    int("train.patience", 0, 10_000),
    float("train.min_delta", 0.0, 1.0),
    int("train.batch_size", 1, 4096),
    int("train.grad_accum", 1, 1024),
    float("train.clip_grad", 0.0, 100.0),
    key(
        "train.grad_checkpointing",
        KeyType::Bool,
        Preset::Bool(false),
        Role::Training,
    ),
    int("train.freeze_encoder_layers", 0, 100),
    int("tok.max_length", 1, 8192),
    float("optim.lr", 1e-9, 10.0),
    float("optim.weight_decay", 0.0, 1.0),
    float("optim.beta1", 0.0, 1.0),
    float("optim.beta2", 0.0, 1.0),
    float("optim.eps", 0.0, 1.0),
    float("optim.momentum", 0.0, 1.0),
    float("optim.layerwise_lr_decay", 0.0, 1.0),
    word("optim.name", &["adam", "sgd", "rmsprop"]),
    word(
        "sched.name",
        &[
            "linear",
            "cosine",
            "cosine_restart",
            "polynomial",
            "one_cycle",
        ],
    ),
    float("sched.warmup_ratio", 0.0, 1.0),
    int("sched.cosine_cycles", 1, 100),
    float("sched.poly_power", 0.0, 10.0),
    key(
        "model.name",
        KeyType::Text,
        Preset::Optional,
        Role::Training,
    ),
    float("model.dropout", 0.0, 1.0),
    float("model.attn_dropout", 0.0, 1.0),
    int("model.layers", 1, 100),
    int("model.width", 1, 65_536),
    word("head.pooling", &["cls", "mean", "max", "attn"]),
    int("head.layers", 1, 16),
    int("head.hidden", 1, 65_536),
    word("head.activation", &["gelu", "relu", "silu"]),
    float("head.dropout", 0.0, 1.0),
    word("loss.cls.type", &["ce", "ce_label_smooth", "focal"]),
    float("loss.cls.label_smoothing", 0.0, 1.0),
    float("loss.cls.gamma", 0.0, 10.0),
    float("loss.cls.alpha", 0.0, 1.0),
    word("loss.cls.balance", &["none", "weighted", "effective_num"]),
];

impl TaskKind for Whole {
    fn name(&self) -> &'static str {
        "whole"
    }
    fn keys(&self) -> &'static [Key<'static>] {
        KEYS
    }
    fn metrics(&self) -> &'static [Metric] {
        const METRICS: [Metric; 2] = [
            Metric {
                name: "loss",
                direction: Direction::Minimize,
                range: None,
            },
            Metric {
                name: "macro_f1",
                direction: Direction::Maximize,
                range: Some((0.0, 1.0)),
            },
        ];
        &METRICS
    }
    fn prepare(&self, _spec: &StudySpec) -> Result<Prepared, Problems> {
        Ok(Prepared::default())
    }
    fn open(&self, _spec: &StudySpec, _device: Device) -> anyhow::Result<Box<dyn Task>> {
        anyhow::bail!("a declaration only")
    }
}

fn resolve_with(text: &str, sets: &[&str]) -> Result<StudySpec, Problems> {
    let mut overrides = Overrides::default();
    for set in sets {
        overrides.push_assignment(set).unwrap();
    }
    resolve_overrides(text, &overrides)
}

fn resolve_overrides(text: &str, overrides: &Overrides) -> Result<StudySpec, Problems> {
    let input = Input {
        text,
        shown: Path::new("t.toml"),
        absolute: Path::new("/p/configs/t.toml"),
        home: Some(Path::new("/home/me")),
    };
    resolve_text(&input, overrides, &[&Whole])
}

fn good(text: &str, sets: &[&str]) -> StudySpec {
    resolve_with(text, sets).unwrap_or_else(|problems| panic!("{problems}"))
}

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

/// The study of the field notes, with its whole space.
pub(crate) fn field_notes() -> StudySpec {
    good(
        include_str!("../../../tests/data/field-notes-space.toml"),
        &[],
    )
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
