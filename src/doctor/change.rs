//! The changes under which a command is run again, one at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::Serialize;
use strum::{Display, EnumString};

use crate::inside::{TRACE, VARIABLES, WATCH};
use crate::notes::{Notes, OPERATION_OF_A_TASK};
use crate::options::with_option;
use crate::run::{Environment, Invocation};

messages::table! {
    /// A change that doctor knows.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Display, EnumString)]
    #[serde(rename_all = "snake_case")]
    #[strum(serialize_all = "snake_case")]
    pub enum Change;

    /// What is known of a change.
    #[derive(Debug)]
    pub struct Row {
        /// What it does, for people.
        pub what: &'static str,
        /// How a person makes it last.
        pub setting: &'static str,
        /// How much longer a run takes, as a rule: a factor of at least 1.
        pub slowdown: f64,
        /// The start-up module makes it, and says whether that changed anything.
        pub noted: bool,
        /// Variables that make it, beside what the start-up module does; `None` removes one.
        environment: &'static [(&'static str, Option<&'static str>)],
    }

    /// Each kernel is waited for: an error names the call that made it.
    Blocking("blocking launches", "CUDA_LAUNCH_BLOCKING=1", 1.5, false, &[("CUDA_LAUNCH_BLOCKING", Some("1"))]);
    /// No TF32 in matrix products and convolutions.
    Tf32Off("TF32 off", "NVIDIA_TF32_OVERRIDE=0", 1.5, false, &[("NVIDIA_TF32_OVERRIDE", Some("0"))]);
    CudnnOff("cuDNN off", "torch.backends.cudnn.enabled = False", 1.5, false, &[]);
    /// On the CPU without oneDNN, and of oneDNN, where it is used all the same, the plainest kernels.
    OnednnOff("oneDNN off", "torch.backends.mkldnn.set_flags(False) and ONEDNN_MAX_CPU_ISA=SSE41",
        2.0, false, &[("ONEDNN_MAX_CPU_ISA", Some("SSE41"))]);
    /// 32-bit floats where the program uses 16 bits.
    Fp32("32-bit floats", "32-bit floats: no autocast, no .half()", 1.5, true, &[]);
    Bf16("bfloat16 for float16", "bfloat16 instead of float16", 1.0, true, &[]);
    Deterministic("deterministic algorithms", "torch.use_deterministic_algorithms(True), CUBLAS_WORKSPACE_CONFIG=:4096:8",
        2.0, true, &[("CUBLAS_WORKSPACE_CONFIG", Some(":4096:8"))]);
    /// Each tensor gets memory of its own from the driver, which sees accesses beyond it.
    AllocatorCacheOff("the allocator's cache off", "PYTORCH_NO_CUDA_MEMORY_CACHING=1",
        3.0, false, &[("PYTORCH_NO_CUDA_MEMORY_CACHING", Some("1")), ("PYTORCH_CUDA_ALLOC_CONF", None)]);
    /// The data is loaded by the program itself.
    #[strum(serialize = "workers_0")]
    #[serde(rename = "workers_0")]
    Workers0("loader workers 0", "DataLoader(num_workers=0)", 2.0, true, &[]);
    HalfBatch("half the batch", "half the batch size, with twice the accumulation", 2.0, true, &[]);
    OneRow("one row a batch", "a batch size of 1", 4.0, true, &[]);
    DropLast("no smaller last batch", "DataLoader(drop_last=True)", 1.0, true, &[]);
    Seed("other seeds", "another seed", 1.0, true, &[]);
    /// Random numbers in place of the data.
    Synthetic("synthetic data", "leave out the rows that are named", 1.0, true, &[]);
    /// The operation at which it fails, on the CPU.
    OperationOnCpu("the operation that is named on the CPU", "that operation on the CPU: device.fallback_ops of a task; tensor.cpu() before it in a program",
        3.0, true, &[]);
    Cpu("the CPU", "CUDA_VISIBLE_DEVICES=", 8.0, false, &[("CUDA_VISIBLE_DEVICES", Some(""))]);
    /// Under compute-sanitizer, which sees accesses outside of memory.
    Sanitizer("compute-sanitizer memcheck", "compute-sanitizer COMMAND", 20.0, false, &[]);
    /// Under compute-sanitizer, which sees memory read that nothing has written.
    Initcheck("compute-sanitizer initcheck", "compute-sanitizer --tool initcheck COMMAND", 20.0, false, &[]);
    /// Without threads that other modules start, and without services that log over the network.
    OtherThreads("threads of other modules off", "WANDB_MODE=offline, and no threads of that module",
        1.0, false, &[("WANDB_MODE", Some("disabled")), ("COMET_MODE", Some("disabled")), ("NEPTUNE_MODE", Some("debug")), ("TQDM_DISABLE", Some("1"))]);
    Spawn("children spawned, not forked", "multiprocessing_context='spawn' for loaders, set_start_method('spawn') for processes",
        1.5, true, &[]);
    /// One thread for arithmetic.
    OneThread("one thread", "OMP_NUM_THREADS=1 and torch.set_num_threads(1)",
        2.0, false, &[("OMP_NUM_THREADS", Some("1")), ("MKL_NUM_THREADS", Some("1")), ("OPENBLAS_NUM_THREADS", Some("1"))]);
    /// What imports change of the process's state is taken back.
    ImportEffects("effects of imports taken back", "import that module last, and set back what it changes",
        1.0, true, &[]);
    LibraryPath("no LD_LIBRARY_PATH, LD_PRELOAD", "unset LD_LIBRARY_PATH LD_PRELOAD",
        1.0, false, &[("LD_LIBRARY_PATH", None), ("LD_PRELOAD", None)]);
    /// UTF-8 and a decimal point.
    Locale("locale C.UTF-8", "LC_ALL=C.UTF-8 PYTHONUTF8=1",
        1.0, false, &[("LC_ALL", Some("C.UTF-8")), ("LANG", Some("C.UTF-8")), ("PYTHONUTF8", Some("1")), ("PYTHONIOENCODING", None), ("PYTHONCOERCECLOCALE", None)]);
    Clock("another day and time", "a fixed time instead of the clock's", 1.0, true, &[]);
    HashSeed("hash seed 0", "PYTHONHASHSEED=0", 1.0, false, &[("PYTHONHASHSEED", Some("0"))]);
    /// No variables of the environment but the common ones.
    CleanEnvironment("a clean environment", "env -i with the variables that the program needs",
        1.0, false, &[]);
    Stack("a stack of 512 MiB", "ulimit -s 524288", 1.0, false, &[]);
    /// In a copy of the working directory without what earlier runs seem to have left in it.
    NoLeftovers("no files of earlier runs", "delete what earlier runs have left", 1.0, false, &[]);
}

impl Change {
    /// The tool of compute-sanitizer that it runs the command under.
    pub fn sanitizer(self) -> Option<&'static str> {
        let tools = [
            (Change::Sanitizer, "memcheck"),
            (Change::Initcheck, "initcheck"),
        ];
        tools.into_iter().find(|t| t.0 == self).map(|t| t.1)
    }

    /// Whether there is anything that it would change.
    pub fn applies(self, host: &Host, notes: &Notes) -> bool {
        let torch = notes.torch.is_some();
        let set = |name: &str| host.variables.contains_key(name);
        match self {
            Change::Blocking | Change::AllocatorCacheOff | Change::Cpu | Change::Tf32Off => {
                host.gpu
            }
            Change::CudnnOff => host.gpu && torch && notes.python,
            Change::OnednnOff => torch,
            Change::OperationOnCpu => host.gpu && torch && notes.operation.is_some(),
            Change::Sanitizer | Change::Initcheck => host.gpu && host.sanitizer,
            Change::Deterministic => torch && notes.python && (host.gpu || notes.batch.is_some()),
            Change::Fp32 => !notes.half.is_empty(),
            Change::Bf16 => notes
                .half
                .iter()
                .any(|h| h.contains("float16") && !h.contains("bfloat16")),
            Change::Workers0 => notes.loader_workers() > 0,
            Change::Spawn => notes.loader_workers() > 0 || notes.forked_with_threads.is_some(),
            Change::HalfBatch => notes.batch_size() > 1,
            Change::OneRow => notes.batch_size() > 2,
            Change::DropLast => notes.python && notes.at_smaller_batch(),
            Change::Synthetic => notes.batch.is_some(),
            Change::Seed => notes.python || notes.seeded,
            Change::Clock | Change::HashSeed => notes.python,
            Change::OtherThreads => !notes.threads.is_empty() || set("WANDB_API_KEY"),
            Change::OneThread => torch || !notes.python,
            Change::ImportEffects => !notes.import_effects.is_empty(),
            Change::LibraryPath => set("LD_LIBRARY_PATH") || set("LD_PRELOAD"),
            Change::Locale => host.locale_differs(),
            Change::CleanEnvironment => !host.uncommon().is_empty(),
            Change::Stack => !host.gpu,
            Change::NoLeftovers => !notes.leftovers.is_empty(),
        }
    }
}

/// The environment of this process, as far as it is UTF-8.
pub fn variables() -> BTreeMap<String, String> {
    let both = |(name, value): (OsString, OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(both).collect()
}

/// What is known of the machine that a command runs on.
#[derive(Debug, Clone, Default)]
pub struct Host {
    /// There is a GPU that programs see.
    pub gpu: bool,
    /// compute-sanitizer is on the path.
    pub sanitizer: bool,
    /// The environment.
    pub variables: BTreeMap<String, String>,
    /// A link in the working directory, or below it, that leads nowhere.
    pub dangling_link: Option<PathBuf>,
}

impl Host {
    /// Variables that few programs need.
    pub fn uncommon(&self) -> Vec<String> {
        self.variables
            .keys()
            .filter(|name| !is_common(name))
            .cloned()
            .collect()
    }

    /// Whether a variable is set that changes what Python, PyTorch or the allocator does.
    pub fn has_shaping_variable(&self) -> bool {
        const SHAPING: [&str; 7] = [
            "PYTHONOPTIMIZE",
            "PYTHONMALLOC",
            "PYTORCH_",
            "TORCH_",
            "ATEN_",
            "MALLOC_",
            "GLIBC_TUNABLES",
        ];
        let shapes = |name: &String| SHAPING.iter().any(|start| name.starts_with(start));
        self.variables.keys().any(shapes)
    }

    /// Whether the locale is another than C.UTF-8, or Python is told another encoding.
    pub fn locale_differs(&self) -> bool {
        let value = |name: &str| self.variables.get(name).map(String::as_str);
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(value);
        let own = [
            "LC_NUMERIC",
            "PYTHONIOENCODING",
            "PYTHONUTF8",
            "PYTHONCOERCECLOCALE",
        ];
        locale.is_some_and(|l| l != "C.UTF-8") || own.into_iter().any(|name| value(name).is_some())
    }
}

/// Variables that nearly every program needs, or without which it takes much longer, and that hardly ever make one fail.
fn is_common(name: &str) -> bool {
    const COMMON: [&str; 24] = [
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "TERM",
        "TMPDIR",
        "PWD",
        "OLDPWD",
        "SHLVL",
        "_",
        "LANG",
        "LC_ALL",
        "VIRTUAL_ENV",
        "CONDA_PREFIX",
        "PYTHONPATH",
        "PYTHONHOME",
        "LD_LIBRARY_PATH",
        "CUDA_VISIBLE_DEVICES",
        "CUDA_HOME",
        "HOSTNAME",
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
    ];
    COMMON.contains(&name) || name.starts_with("XDG_") || name.starts_with("TUNE_")
}

/// A setting of one's own, or an option of the command.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// One of doctor's changes.
    Change(Change),
    /// A variable of the environment with this value.
    Variable(String, String),
    /// A variable of the environment left out.
    WithoutVariable(String),
    /// An option of the command with another value.
    Option(String, String),
    /// An option of the command left out.
    WithoutOption(String),
    /// A file or folder of the working directory left out, in a copy of it.
    WithoutFile(String),
    /// A key of a task's configuration with another value, by `--set`.
    Key(String, String),
    /// Nothing is changed, but each operation is noted, and what [`Setting::Watch`] does.
    Trace,
    /// Nothing is changed, but the exceptions are noted that the program's own code raises or is given.
    Watch,
}

impl Setting {
    /// Its name, for scripts and for people.
    pub fn name(&self) -> String {
        match self {
            Setting::Change(change) => change.to_string(),
            Setting::Variable(name, value) | Setting::Key(name, value) => format!("{name}={value}"),
            Setting::WithoutVariable(name) => format!("no {name}"),
            Setting::Option(name, value) => format!("--{name} {value}"),
            Setting::WithoutOption(name) | Setting::WithoutFile(name) => format!("no {name}"),
            Setting::Trace => TRACE.to_owned(),
            Setting::Watch => WATCH.to_owned(),
        }
    }

    /// What it does, for people.
    pub fn what(&self) -> String {
        match self {
            Setting::Change(change) => change.row().what.to_owned(),
            Setting::WithoutVariable(name) => format!("without the variable {name}"),
            Setting::WithoutOption(name) | Setting::WithoutFile(name) => format!("without {name}"),
            Setting::Variable(..) | Setting::Option(..) | Setting::Key(..) => self.name(),
            Setting::Trace => "operations traced".to_owned(),
            Setting::Watch => "exceptions watched".to_owned(),
        }
    }

    /// Whether its runs are made for what they tell: nobody would keep it.
    pub fn only_tells(&self) -> bool {
        let sanitizer = matches!(self, Setting::Change(change) if change.sanitizer().is_some());
        sanitizer || matches!(self, Setting::Trace | Setting::Watch)
    }

    /// How a person makes it last.
    pub fn setting(&self) -> String {
        match self {
            Setting::Change(change) => change.row().setting.to_owned(),
            Setting::WithoutVariable(name) => format!("unset {name}"),
            Setting::WithoutOption(name) => format!("leave out {name}"),
            Setting::WithoutFile(name) => format!("delete {name}"),
            Setting::Variable(..)
            | Setting::Option(..)
            | Setting::Key(..)
            | Setting::Trace
            | Setting::Watch => self.name(),
        }
    }

    /// How much longer a run takes, as a rule.
    pub fn slowdown(&self) -> f64 {
        if let Setting::Change(change) = self {
            change.row().slowdown
        } else if *self == Setting::Trace {
            20.0
        } else if *self == Setting::Watch {
            3.0
        } else {
            1.0
        }
    }
}

/// What settings do together, for people; of many, how many there are.
pub fn told(settings: &BTreeSet<Setting>) -> String {
    const MOST: usize = 3;
    let mut texts: Vec<String> = settings.iter().map(Setting::what).collect();
    if texts.len() > MOST {
        let more = texts.len() - 1;
        texts.truncate(1);
        texts.push(format!("{more} more"));
    }
    texts.join(" and ")
}

/// The rows that a loader is restricted to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    /// Which loader.
    pub loader: u64,
    /// Which of its rows.
    pub rows: Vec<u64>,
}

/// Where Python looks for modules, with doctor's start-up module first.
fn python_path(module: &Path) -> String {
    let inherited = std::env::var("PYTHONPATH").unwrap_or_default();
    match inherited.is_empty() {
        true => module.display().to_string(),
        false => format!("{}:{inherited}", module.display()),
    }
}

/// The command under these settings: what is run. `repeat` counts the runs of one setting, from 0: seeds and clocks
/// differ between them.
pub fn invocation(
    words: &[String],
    settings: &BTreeSet<Setting>,
    module: &Path,
    notes: &Path,
    repeat: u32,
) -> Invocation {
    let mut words = words.to_vec();
    let mut environment = Environment::new();
    let mut only = None;
    let mut changes: Vec<String> = Vec::new();
    for setting in settings {
        match setting {
            Setting::Change(change) => {
                changes.push(change.to_string());
                let own = change.row().environment.iter();
                environment.extend(own.map(|(n, v)| ((*n).to_owned(), v.map(str::to_owned))));
                if let Some(tool) = change.sanitizer() {
                    // What it finds ends nothing by itself.
                    let tool = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "1"];
                    words.splice(0..0, tool.map(str::to_owned));
                }
                if *change == Change::Stack {
                    let shell = ["sh", "-c", "ulimit -s 524288; exec \"$0\" \"$@\""];
                    words.splice(0..0, shell.map(str::to_owned));
                }
                if *change == Change::CleanEnvironment {
                    let names = std::env::vars_os().filter_map(|(n, _)| n.into_string().ok());
                    only = Some(names.filter(|n| is_common(n)).collect());
                }
            }
            Setting::Trace => {
                changes.push(TRACE.to_owned());
                // Else an error of the GPU shows at a later operation.
                environment.insert("CUDA_LAUNCH_BLOCKING".to_owned(), Some("1".to_owned()));
                let file = notes.join(OPERATION_OF_A_TASK).display().to_string();
                environment.insert(fault::TRACE_OPERATIONS.to_owned(), Some(file));
            }
            Setting::Watch => changes.push(WATCH.to_owned()),
            Setting::Variable(name, value) => {
                environment.insert(name.clone(), Some(value.clone()));
            }
            Setting::WithoutVariable(name) => {
                environment.insert(name.clone(), None);
            }
            Setting::Option(name, value) => words = with_option(words, name, Some(value)),
            Setting::WithoutOption(name) => words = with_option(words, name, None),
            // Where it runs is another folder, which the caller makes.
            Setting::WithoutFile(_) => {}
            Setting::Key(name, value) => {
                words.extend(["--set".to_owned(), format!("{name}={value}")]);
            }
        }
    }
    let shift = (repeat + 1).to_string();
    let own = [notes.display().to_string(), changes.join(","), shift];
    environment.extend(VARIABLES.map(str::to_owned).into_iter().zip(own.map(Some)));
    environment.insert("PYTHONPATH".to_owned(), Some(python_path(module)));
    // What was printed before a crash is in the output, and comes before the error, whatever the environment says.
    environment.insert("PYTHONUNBUFFERED".to_owned(), Some("1".to_owned()));
    Invocation {
        words,
        environment,
        only,
        folder: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_with_nothing_to_change_does_not_apply() {
        let (host, notes) = (Host::default(), Notes::default());
        for change in [
            Change::Blocking,
            Change::Workers0,
            Change::Fp32,
            Change::Seed,
            Change::Locale,
        ] {
            assert!(!change.applies(&host, &notes), "{change}");
        }
        let mut host = Host::default();
        host.variables.insert("LC_ALL".into(), "C".into());
        assert!(Change::Locale.applies(&host, &notes));
    }

    #[test]
    fn every_change_is_made_by_variables_or_by_the_start_up_module() {
        let module = crate::notes::MODULE.map(|(_, text)| text).concat();
        for change in Change::ALL {
            let by_module = module.contains(&format!("\"{change}\""));
            let of_words =
                [Change::CleanEnvironment, Change::Stack, Change::NoLeftovers].contains(change);
            let otherwise = change.sanitizer().is_some() || of_words;
            assert!(
                by_module || !change.row().environment.is_empty() || otherwise,
                "{change}"
            );
            assert!(by_module || !change.row().noted, "{change}");
        }
    }
}
