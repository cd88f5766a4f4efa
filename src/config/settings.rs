//! Values of `tune`'s own keys: reading, checking, defaults.

use std::collections::BTreeMap;
use std::time::Duration;

use super::document::Document;
use super::keys::{Algorithm, PRUNERS, SAMPLERS, SETTINGS, Setting, SettingType};
use super::problem::{Problem, hint};
use super::pruners::{WRAPPED, contradiction};
use super::spec::{Deadline, Operation, Parallel, Standby, SupervisorPolicy, TestPolicy};
use super::tree::{Item, Node};
use device::DevicePolicy;
use search::pruner::PrunerSpec;
use search::sampler::SamplerSpec;
use search::space::{Params, Value};

/// A setting's value, checked.
#[derive(Debug, Clone, PartialEq)]
enum Parsed {
    Value(Value),
    Duration(Option<Duration>),
    Size(u64),
    Device(DevicePolicy),
    Texts(Vec<String>),
}

/// Every setting that has a value.
#[derive(Debug)]
pub(super) struct Settings {
    values: BTreeMap<&'static str, Parsed>,
    sampler: (String, Params),
    pruner: (String, Params),
}

impl Settings {
    /// Reads all settings; those with problems have their defaults.
    pub fn read(document: &Document, problems: &mut Vec<Problem>) -> Settings {
        let mut values = BTreeMap::new();
        for setting in &SETTINGS {
            if let Some(value) = read_setting(setting, setting.name, document, problems) {
                values.insert(setting.name, value);
            }
        }
        alone_is_not_less(&values, document, problems);
        let kind = |key: &str| match values.get(key) {
            Some(Parsed::Value(Value::Str(kind))) => kind.clone(),
            Some(_) | None => "auto".to_owned(),
        };
        let (sampler, pruner) = (kind("sampler.kind"), kind("pruner.kind"));
        Settings {
            sampler: algorithm("sampler", sampler, &SAMPLERS, document, problems),
            pruner: algorithm("pruner", pruner, &PRUNERS, document, problems),
            values,
        }
    }

    /// A string.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.values.get(name) {
            Some(Parsed::Value(value)) => value.as_str(),
            Some(_) | None => None,
        }
    }

    /// A list of strings.
    pub fn texts(&self, name: &str) -> Option<&[String]> {
        match self.values.get(name) {
            Some(Parsed::Texts(texts)) => Some(texts),
            Some(_) | None => None,
        }
    }

    /// An integer that is not negative, as the tables see to; 0 where there is none.
    pub fn number(&self, name: &str) -> u64 {
        self.int(name).unwrap_or_default()
    }

    /// How the run is operated.
    pub fn operation(&self) -> Operation {
        Operation {
            trials: self.number("run.trials"),
            repeats: self.number("run.repeats") as u32,
            test: match self.text("run.test") {
                Some("on") => TestPolicy::On,
                Some("off") => TestPolicy::Off,
                Some("again") => TestPolicy::Again,
                Some(_) | None => TestPolicy::Auto,
            },
            parallel: match self.values.get("run.parallel") {
                Some(Parsed::Value(Value::Str(_))) => Parallel::Auto,
                Some(Parsed::Value(value)) => {
                    Parallel::Limit(value.as_i64().unwrap_or(1).max(1) as usize)
                }
                Some(_) | None => Parallel::Unsaid,
            },
            keep_best: self.number("run.keep_best") as usize,
            max_kept_bytes: self.size("run.max_kept"),
            timeout: self.duration("run.timeout"),
            device: match self.values.get("run.device") {
                Some(Parsed::Device(device)) => device.clone(),
                Some(_) | None => DevicePolicy::Auto,
            },
            threads: self.int("run.threads").map(|n| n as usize),
            supervisor: self.supervisor(),
            gpu_memory: self.part("gpu.memory"),
            // A larger share for what runs together holds for one alone, too.
            gpu_alone: self.part("gpu.alone").max(self.part("gpu.memory")),
            host_memory: self.part("host.memory"),
            halve: self.text("gpu.oom") == Some("halve"),
            standby: match self.text("run.standby") {
                Some("on") => Standby::On,
                Some("off") => Standby::Off,
                Some(_) | None => Standby::Auto,
            },
            max_log_bytes: self.size("logging.max_log"),
            max_logs_bytes: self.size("logging.max_logs"),
            sampler: SamplerSpec {
                kind: self.sampler.0.clone(),
                options: self.sampler.1.clone(),
            },
            pruner: PrunerSpec {
                kind: self.pruner.0.clone(),
                options: self.pruner.1.clone(),
            },
            inject: None,
        }
    }

    fn supervisor(&self) -> SupervisorPolicy {
        let duration = |name| self.duration(name).unwrap_or_default();
        SupervisorPolicy {
            recycle_after: self.number("supervisor.recycle_after"),
            deadline: self.deadline(),
            start_deadline: duration("supervisor.start_deadline"),
            grace: duration("supervisor.grace"),
            abandon_after: duration("supervisor.abandon_after"),
            max_deaths: self.number("supervisor.max_deaths") as u32,
            death_window: duration("supervisor.death_window"),
            backoff: duration("supervisor.backoff"),
            max_backoff: duration("supervisor.max_backoff"),
            max_failures: self.number("supervisor.max_failures"),
            max_refused: self.number("supervisor.max_refused"),
            storage_patience: duration("supervisor.storage_patience"),
            checkpoint: self
                .values
                .get("supervisor.checkpoint")
                .is_some_and(|v| *v == Parsed::Value(Value::Bool(true))),
        }
    }

    fn deadline(&self) -> Deadline {
        let duration = |name| self.duration(name).unwrap_or_default();
        match self.values.get("supervisor.deadline") {
            Some(Parsed::Duration(Some(time))) => Deadline::Fixed(*time),
            Some(Parsed::Duration(None)) => Deadline::Off,
            Some(_) | None => Deadline::Learned {
                floor: duration("supervisor.deadline_floor"),
                ceiling: duration("supervisor.deadline_ceiling"),
                factor: match self.values.get("supervisor.deadline_factor") {
                    Some(Parsed::Value(value)) => value.as_f64().unwrap_or(1.0),
                    Some(_) | None => 1.0,
                },
            },
        }
    }

    fn part(&self, name: &str) -> f64 {
        match self.values.get(name) {
            Some(Parsed::Value(value)) => value.as_f64().unwrap_or(1.0),
            Some(_) | None => 1.0,
        }
    }

    fn int(&self, name: &str) -> Option<u64> {
        match self.values.get(name) {
            Some(Parsed::Value(value)) => value.as_i64().and_then(|i| u64::try_from(i).ok()),
            Some(_) | None => None,
        }
    }

    fn duration(&self, name: &str) -> Option<Duration> {
        match self.values.get(name) {
            Some(Parsed::Duration(duration)) => *duration,
            Some(_) | None => None,
        }
    }

    fn size(&self, name: &str) -> u64 {
        match self.values.get(name) {
            Some(Parsed::Size(bytes)) => *bytes,
            Some(_) | None => 0,
        }
    }
}

/// Names of all own keys, options included.
pub(super) fn names() -> Vec<String> {
    let mut names: Vec<String> = SETTINGS.iter().map(|s| s.name.to_owned()).collect();
    let wrapped = format!("pruner.{WRAPPED}");
    for (section, algorithms) in [
        ("sampler", &SAMPLERS[..]),
        ("pruner", &PRUNERS),
        (&wrapped, &PRUNERS),
    ] {
        let wraps = |a: &&Algorithm| a.options.iter().any(|o| o.name.starts_with(WRAPPED));
        let once = |a: &&Algorithm| section != wrapped || !wraps(a);
        for option in algorithms.iter().filter(once).flat_map(|a| a.options) {
            let name = format!("{section}.{}", option.name);
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

fn read_setting(
    setting: &Setting,
    key: &str,
    document: &Document,
    problems: &mut Vec<Problem>,
) -> Option<Parsed> {
    if let Some(node) = document.key(key) {
        match parse(setting.ty, node) {
            Ok(value) => return Some(value),
            Err(expected) => {
                problems.push(Problem::new(&node.source, key, node.found(), expected));
            }
        }
    }
    if setting.preset.is_empty() {
        return None;
    }
    let preset = super::tree::parse_value(setting.preset, &document.whole()).ok()?;
    parse(setting.ty, &preset).ok()
}

/// Who says what one trial may use of a GPU says no less than what several may together.
fn alone_is_not_less(
    values: &BTreeMap<&'static str, Parsed>,
    document: &Document,
    problems: &mut Vec<Problem>,
) {
    let part = |key: &str| match values.get(key) {
        Some(Parsed::Value(value)) => value.as_f64(),
        Some(_) | None => None,
    };
    if let Some(node) = document.key("gpu.alone")
        && let (Some(alone), Some(together)) = (part("gpu.alone"), part("gpu.memory"))
        && alone < together
    {
        let expected = format!("at least gpu.memory, which is {}%", 100.0 * together);
        problems.push(Problem::new(
            &node.source,
            "gpu.alone",
            node.found(),
            expected,
        ));
    }
}

/// The options of the chosen kind, defaults filled in, those of a wrapped pruner under their prefix.
/// An option of another kind is a problem, unless the kind was chosen on the command line over a
/// file that configures another one.
fn algorithm(
    section: &str,
    kind: String,
    algorithms: &[Algorithm],
    document: &Document,
    problems: &mut Vec<Problem>,
) -> (String, Params) {
    let options = algorithms
        .iter()
        .find(|a| a.name == kind)
        .map_or(&[][..], |a| a.options);
    let mut params = Params::new();
    for option in options {
        let key = format!("{section}.{}", option.name);
        if let Some(Parsed::Value(value)) = read_setting(option, &key, document, problems) {
            params.insert(option.name.to_owned(), value);
        }
    }
    refuse_strangers(section, &kind, options, algorithms, document, problems);
    if let Some(wrong) = contradiction(&kind, &params) {
        let key = format!("{section}.{}", wrong.option);
        let kind_key = format!("{section}.kind");
        let node = document.key(&key).or_else(|| document.key(&kind_key));
        let source = node.map_or_else(|| document.whole(), |n| n.source.clone());
        problems.push(Problem::new(&source, key, wrong.found, wrong.expected));
    }
    let wrapped = params.get(&format!("{WRAPPED}.kind"));
    if let Some(inner) = wrapped.and_then(Value::as_str).map(str::to_owned) {
        let section = format!("{section}.{WRAPPED}");
        let (_, options) = algorithm(&section, inner, algorithms, document, problems);
        let named = |(name, value)| (format!("{WRAPPED}.{name}"), value);
        params.extend(options.into_iter().map(named));
    }
    (kind, params)
}

/// An option of another kind is a problem.
fn refuse_strangers(
    section: &str,
    kind: &str,
    options: &[Setting],
    algorithms: &[Algorithm],
    document: &Document,
    problems: &mut Vec<Problem>,
) {
    let chosen_outside = document
        .key(&format!("{section}.kind"))
        .is_some_and(|n| !n.source.is_file());
    for (key, node) in &document.keys {
        let Some(name) = key.strip_prefix(&format!("{section}.")) else {
            continue;
        };
        let known = |a: &Algorithm| a.options.iter().any(|o| o.name == name);
        // The options of a pruner inside another are looked at on their own.
        let inside =
            (name.strip_prefix(WRAPPED).and_then(|n| n.strip_prefix('.'))).is_some_and(|n| {
                algorithms
                    .iter()
                    .flat_map(|a| a.options)
                    .any(|o| o.name == n)
            });
        let wraps = options.iter().any(|o| o.name.starts_with(WRAPPED));
        if name == "kind"
            || options.iter().any(|o| o.name == name)
            || (inside && wraps)
            || !(inside || algorithms.iter().any(known))
            || (chosen_outside && node.source.is_file())
        {
            continue;
        }
        let found = format!("an option that {section} {kind} does not have");
        let names: Vec<&str> = options.iter().map(|o| o.name).collect();
        let expected = if names.is_empty() {
            "no options".to_owned()
        } else {
            format!("one of {}", names.join(", "))
        };
        problems.push(Problem::new(&node.source, key, found, expected));
    }
}

/// Checks an option of a sampler or pruner; the error says what was expected.
pub(super) fn option_value(ty: SettingType, node: &Node) -> Result<Value, String> {
    match parse(ty, node)? {
        Parsed::Value(value) => Ok(value),
        Parsed::Duration(_) | Parsed::Size(_) | Parsed::Device(_) | Parsed::Texts(_) => {
            Err("an option that is a number, a word, true or false".into())
        }
    }
}

/// Checks a value; the error says what was expected.
fn parse(ty: SettingType, node: &Node) -> Result<Parsed, String> {
    let value = node.scalar();
    let text = match &node.item {
        Item::Scalar(Value::Str(text)) => Some(text.as_str()),
        Item::Scalar(_) => node.raw.as_deref(),
        Item::Array(_) | Item::Table(_) => None,
    };
    match ty {
        SettingType::Int { low, high } => match value {
            Some(Value::Int(i)) if (low..=high).contains(i) => Ok(Parsed::Value(Value::Int(*i))),
            Some(_) | None => Err(format!("an integer in {low}..={high}")),
        },
        SettingType::IntOrAuto { low, high } => match (value, text) {
            (_, Some("auto")) => Ok(Parsed::Value("auto".into())),
            (Some(Value::Int(i)), _) if (low..=high).contains(i) => {
                Ok(Parsed::Value(Value::Int(*i)))
            }
            _ => Err(format!("an integer in {low}..={high}, or auto")),
        },
        SettingType::Float { low, high } => match value.and_then(Value::as_f64) {
            Some(x) if x >= low && x <= high => Ok(Parsed::Value(Value::Float(x))),
            Some(_) | None => Err(format!("a number in {low}..={high}")),
        },
        SettingType::Bool => match value {
            Some(Value::Bool(b)) => Ok(Parsed::Value(Value::Bool(*b))),
            Some(_) | None => Err("true or false".into()),
        },
        SettingType::Text => text
            .map(|t| Parsed::Value(t.into()))
            .ok_or_else(|| "a string".into()),
        SettingType::Texts => texts(node)
            .map(Parsed::Texts)
            .ok_or_else(|| "a list of strings such as [\"macro_f1:max\", \"runtime_s\"]".into()),
        SettingType::Word(words) => match text {
            Some(t) if words.contains(&t) => Ok(Parsed::Value(t.into())),
            Some(_) | None => {
                let near = hint(text.unwrap_or_default(), words.iter().copied());
                Err(format!("one of {}{near}", words.join(", ")))
            }
        },
        SettingType::Deadline => match text {
            Some("auto") => Ok(Parsed::Value(Value::Str("auto".into()))),
            Some("off") => Ok(Parsed::Duration(None)),
            Some(_) | None => text
                .and_then(|t| humantime::parse_duration(t).ok())
                .filter(|d| *d >= SHORTEST)
                .map(|d| Parsed::Duration(Some(d)))
                .ok_or_else(|| {
                    "a time of at least 200ms such as \"10m\", \"auto\" or \"off\"".into()
                }),
        },
        SettingType::Duration { off: true } if text == Some("off") => Ok(Parsed::Duration(None)),
        SettingType::Duration { off } => text
            .and_then(|t| humantime::parse_duration(t).ok())
            .map(|d| Parsed::Duration(Some(d)))
            .ok_or_else(|| {
                let or = if off { ", or \"off\"" } else { "" };
                format!("a time such as \"10m\" or \"7h30m\"{or}")
            }),
        SettingType::Size => match value {
            Some(Value::Int(bytes)) if *bytes > 0 => Ok(Parsed::Size(*bytes as u64)),
            Some(_) | None => text
                .and_then(size)
                .map(Parsed::Size)
                .ok_or_else(|| "a size such as \"64MiB\"".into()),
        },
        SettingType::Fraction => match (value.and_then(Value::as_f64), text.and_then(percent)) {
            (Some(x), _) | (None, Some(x)) if x > 0.0 && x <= 1.0 => {
                Ok(Parsed::Value(Value::Float(x)))
            }
            _ => Err("a part above 0, such as \"80%\" or 0.8, at most \"100%\"".into()),
        },
        SettingType::Device => text
            .and_then(|text| text.parse().ok())
            .map(Parsed::Device)
            .ok_or_else(|| device::DEVICES.into()),
    }
}

/// A list of strings; one alone may stand without brackets.
fn texts(node: &Node) -> Option<Vec<String>> {
    let one = |node: &Node| node.scalar()?.as_str().map(str::to_owned);
    match &node.item {
        Item::Array(items) if !items.is_empty() => items.iter().map(one).collect(),
        Item::Scalar(_) => Some(vec![one(node)?]),
        Item::Array(_) | Item::Table(_) => None,
    }
}

/// Workers give signs of life ten times a second at most.
const SHORTEST: Duration = Duration::from_millis(200);

/// `64MiB`, `4 GB`, `1000`.
fn size(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let factor = match unit.trim() {
        "" | "B" => 1.0,
        "KB" | "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "TB" => 1e12,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        "TiB" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    let bytes = number.parse::<f64>().ok()? * factor;
    (1.0..1e18).contains(&bytes).then_some(bytes as u64)
}

fn percent(text: &str) -> Option<f64> {
    let number = text.strip_suffix('%')?.trim();
    number.parse::<f64>().ok().map(|x| x / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_and_decimal_units() {
        assert_eq!(size("64MiB"), Some(64 << 20));
        assert_eq!(size("1.5 GB"), Some(1_500_000_000));
        assert_eq!(size("1000"), Some(1000));
        assert_eq!(size("0B"), None);
        assert_eq!(size("5 apples"), None);
        assert_eq!(size("MiB"), None);
    }

    #[test]
    fn every_default_is_a_value_of_its_type() {
        let whole = super::super::problem::Source::File("f.toml".into(), None);
        let options = SAMPLERS.iter().chain(&PRUNERS).flat_map(|a| a.options);
        for setting in SETTINGS.iter().chain(options) {
            if !setting.preset.is_empty() {
                let node = super::super::tree::parse_value(setting.preset, &whole).unwrap();
                assert!(parse(setting.ty, &node).is_ok(), "{}", setting.name);
            }
        }
    }
}
