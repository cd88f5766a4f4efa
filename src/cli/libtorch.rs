//! The library that has libtorch: where it is, and how it is entered. `tune` itself is linked without, so that whatever
//! needs none starts in milliseconds, and on a machine that has none.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use config::StudySpec;
use device::{Device, DevicePolicy, probe};
use messages::{Exit, Failure};
use protocol::NEEDS_LIBTORCH;
use request::torch_request::{ENTRY, INTERFACE, INTERFACE_OF, TorchRequest};

/// The library's file name.
const NAME: &str = "libtune_torch.so";

/// The libtorch that the training part is built for.
pub(super) const WANTED: &str = "2.11.0";

/// What is wanted, and how one gets it.
const ADVICE: &str = "tune needs libtorch 2.11.0: `make libtorch` fetches it and `make` builds with it; one that is \
                      elsewhere is named by LIBTORCH=/path/to/torch";

/// The same where the program was installed as a Python wheel.
const ADVICE_IN_PYTHON: &str = "tune needs PyTorch 2.11 in the same Python environment: `pip install 'torch==2.11.*'`; \
                                one that is elsewhere is named by LIBTORCH=/path/to/torch";

/// The versions of PyTorch that the library fits.
const PYTORCH: &str = "2.11.";

type Tell = extern "C" fn(*const u8, usize);
type Entry = unsafe extern "C" fn(*const u8, usize, Tell) -> i32;
type Interface = unsafe extern "C" fn() -> u64;

/// Names the library's file, wherever it is.
const VARIABLE: &str = "TUNE_TORCH_LIBRARY";

/// Where the library is looked for: where the environment says; else beside this program, where an installation has it,
/// and where it was built.
fn places() -> Vec<PathBuf> {
    if let Some(named) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        return vec![named.into()];
    }
    let program = std::env::current_exe().unwrap_or_default();
    let beside = program.parent().unwrap_or(Path::new("/"));
    // Empty in a release, which must not look in the working directory.
    let built_in = Some(env!("TUNE_BUILT_IN")).filter(|place| !place.is_empty());
    [beside.to_owned(), beside.join("../lib/tune")]
        .into_iter()
        .chain(built_in.map(PathBuf::from))
        .map(|place| place.join(NAME))
        .collect()
}

/// The library's path.
///
/// # Errors
/// Exit 9: it is in none of its places, or the Python environment of this program has no PyTorch that fits it.
pub fn find() -> Result<PathBuf, Failure> {
    let places = places();
    if let Some(found) = places.iter().find(|place| place.is_file()) {
        check_environment()?;
        return Ok(found.clone());
    }
    let shown: Vec<String> = places.iter().map(|p| p.display().to_string()).collect();
    Err(unusable(&format!(
        "{NAME} is missing; it was looked for as {}",
        shown.join(", ")
    )))
}

fn unusable(why: &str) -> Failure {
    let advice = device::site_packages().map_or(ADVICE, |_| ADVICE_IN_PYTHON);
    Failure::new(
        Exit::Device,
        format!("libtorch cannot be used: {why}\n{advice}"),
    )
}

/// Checks PyTorch in the Python environment that has this program from its wheel, unless `LIBTORCH` names another one.
fn check_environment() -> Result<(), Failure> {
    let named = std::env::var_os("LIBTORCH").is_some_and(|dir| !dir.is_empty());
    let Some(packages) = device::site_packages().filter(|_| !named) else {
        return Ok(());
    };
    let text = std::fs::read_to_string(packages.join("torch/version.py"));
    let found = text.ok().and_then(|text| pytorch_version(&text));
    match found {
        Some(version) if version.starts_with(PYTORCH) => Ok(()),
        Some(version) => Err(unusable(&format!(
            "PyTorch in {} is {version}, expected 2.11",
            packages.display()
        ))),
        None => Err(unusable(&format!("{} has no PyTorch", packages.display()))),
    }
}

/// The version that PyTorch's `version.py` tells.
fn pytorch_version(text: &str) -> Option<String> {
    let told = text
        .lines()
        .find_map(|line| line.strip_prefix("__version__ = "))?;
    Some(told.trim().trim_matches(['\'', '"']).to_owned())
}

/// Whether there is such a library.
pub fn is_there() -> bool {
    find().is_ok()
}

/// The path by which the workers of this process load the library, where they need it on this device: it leads to what
/// is there now, whatever takes its place meanwhile.
///
/// # Errors
/// Exit 9: it is missing, or libtorch cannot be loaded.
pub fn for_workers(spec: &StudySpec, device: Device) -> Result<Option<PathBuf>, Failure> {
    if !spec.needs_libtorch(device) {
        return Ok(None);
    }
    let path = find()?;
    let fallback_ops = &spec.operation.fallback_ops;
    if device == Device::Cpu || !fallback_ops.is_empty() {
        try_out(&path, fallback_ops)?;
    }
    let file = File::open(&path).map_err(|e| unusable(&format!("{}: {e}", path.display())))?;
    let kept = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    // Open as long as this process is there.
    std::mem::forget(file);
    Ok(Some(kept.into()))
}

/// Has another process load the library, and look for operations in it: this one shall stay without it. What else a
/// GPU needs has been tried out by the probe.
fn try_out(path: &Path, fallback_ops: &[String]) -> Result<(), Failure> {
    let child = Command::new("/proc/self/exe")
        .args(["probe", "--libtorch"])
        .args(fallback_ops.iter().flat_map(|op| ["--fallback-op", op]))
        .env(NEEDS_LIBTORCH, path)
        .envs(device::search_path())
        .stdin(Stdio::null())
        .output();
    match child {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            let told = text.trim();
            let told = told.strip_prefix("error: ").unwrap_or(told);
            let input = output.status.code() == Some(i32::from(Exit::BadInput.code()));
            Err(match told {
                told if input => Failure::input(told),
                "" => unusable(&format!("loading it ended with {}", output.status)),
                told => Failure::new(Exit::Device, told),
            })
        }
        Err(error) => Err(Failure::internal(format!(
            "the probe cannot be started: {error}"
        ))),
    }
}

/// The devices that a study asks for. One whose trials need no libtorch by themselves trains on the CPU where there is
/// none.
///
/// # Errors
/// See [`probe::resolve`].
pub fn devices(spec: &StudySpec) -> Result<Vec<Device>, Failure> {
    let kind = config::kinds::kind(&spec.kind);
    let in_process = kind.is_none_or(|kind| kind.in_process);
    let without = kind.is_some_and(|kind| kind.in_process && !kind.needs_libtorch);
    if without && spec.operation.device == DevicePolicy::Auto && !is_there() {
        return Ok(vec![Device::Cpu]);
    }
    probe::resolve(&spec.operation.device, in_process)
}

/// Makes libtorch ready for a device in this process, or says why it cannot be.
///
/// # Errors
/// See [`run`].
pub fn load_for(device: Device) -> Result<(), String> {
    let fallback_ops = Vec::new();
    let loaded = run(&TorchRequest::Load {
        device,
        fallback_ops,
    });
    loaded.map(|_| ()).map_err(|failure| failure.message)
}

/// Enters the library, which does what is asked. The environment may name it ([`NEEDS_LIBTORCH`]).
///
/// # Errors
/// Exit 9: the library or libtorch cannot be loaded; and those of the request.
pub fn run(request: &TorchRequest) -> Result<Exit, Failure> {
    let named = std::env::var_os(NEEDS_LIBTORCH).filter(|path| !path.is_empty());
    let path = named.map_or_else(find, |path| Ok(path.into()))?;
    let entry = load(&path)?;
    let json = serde_json::to_vec(request).map_err(|e| Failure::internal(e.to_string()))?;
    // SAFETY: a function of this build, by its name and type; `json` outlives the call.
    let status = unsafe { entry(json.as_ptr(), json.len(), tell) };
    let exit = u8::try_from(status).ok().and_then(Exit::of_code);
    let exit = exit.unwrap_or(Exit::Internal);
    match TOLD.lock().ok().and_then(|mut told| told.take()) {
        Some(message) => Err(Failure::new(exit, message)),
        None => Ok(exit),
    }
}

/// What the library told last.
static TOLD: Mutex<Option<String>> = Mutex::new(None);

extern "C" fn tell(text: *const u8, length: usize) {
    // SAFETY: the library gives a text of this length.
    let bytes = unsafe { std::slice::from_raw_parts(text, length) };
    if let Ok(mut told) = TOLD.lock() {
        *told = Some(String::from_utf8_lossy(bytes).into_owned());
    }
}

/// Loads the library for good, and libtorch with it.
fn load(path: &Path) -> Result<Entry, Failure> {
    if let Some(torch) = device::libtorch() {
        // Found by its name from then on, wherever else there is one.
        let first = torch.join("lib/libtorch_cpu.so");
        if first.is_file() {
            open(first.as_os_str())?;
        }
    }
    let library = open(path.as_os_str())?;
    // SAFETY: functions of these types, if the library is ours.
    let (entry, interface) = unsafe {
        let entry = library.get::<Entry>(ENTRY.to_bytes()).map(|f| *f);
        (
            entry,
            library
                .get::<Interface>(INTERFACE_OF.to_bytes())
                .map(|f| *f),
        )
    };
    let (Ok(entry), Ok(interface)) = (entry, interface) else {
        return Err(unusable(&format!("{} is another library", path.display())));
    };
    // SAFETY: it takes nothing and gives a number.
    if unsafe { interface() } != INTERFACE {
        return Err(unusable(&format!(
            "{} and this program were built from different sources; build both anew",
            path.display()
        )));
    }
    std::mem::forget(library);
    Ok(entry)
}

/// Opens a library by its path, or by its name as the loader finds it.
///
/// # Errors
/// Exit 9: it cannot be loaded.
pub fn open(path: &OsStr) -> Result<Library, Failure> {
    // SAFETY: the constructors of these libraries may run at any time on any thread.
    let opened = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) };
    opened.map_err(|error| {
        let why = std::error::Error::source(&error)
            .map_or_else(|| error.to_string(), ToString::to_string);
        unusable(&why)
    })
}

#[cfg(test)]
mod tests {
    use super::pytorch_version;

    #[test]
    fn the_version_of_pytorch_is_read_from_its_own_file() {
        let text = "__all__ = ['__version__']\n__version__ = '2.11.0+cu130'\ndebug = False\n";
        assert_eq!(pytorch_version(text).as_deref(), Some("2.11.0+cu130"));
        assert_eq!(pytorch_version("version = 1\n"), None);
    }
}
