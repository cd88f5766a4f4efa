//! `tune doctor` without arguments: what it says of this machine, and of causes that are planted in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::{Project, valid};
use crate::nvml::Nvml;
use serde_json::{Value as Json, json};

/// A GPU that is in order.
const SOUND: &str = "used 0 100\ntemperature 0 40\necc 0 0\nrows 0 0\ncapability 0 9 0\npersistence 0 1\n\
                     powercap 0 700000 700000\nappclock 0 1980 1980\noffsets 0 0 0\nslowdown 0 87\neccmode 0 1\n\
                     pending 0 0\nremapfailed 0 0\ncomputemode 0 0\nmig 0 0\npcie 0 1 16 5 16\nreplays 0 4\n";

/// What doctor says as JSON: it fits the schema, and the exit code says whether a check failed.
fn checks(mut command: Command) -> Vec<Json> {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let answer: Json =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {errors}"));
    valid("doctor", &answer);
    let checks = answer["machine"].as_array().unwrap().clone();
    let failed = checks.iter().any(|c| c["outcome"] == "failed");
    assert_eq!(
        output.status.code(),
        Some(if failed { 5 } else { 0 }),
        "{checks:#?}"
    );
    checks
}

fn check<'a>(checks: &'a [Json], name: &str) -> &'a Json {
    checks
        .iter()
        .find(|c| c["name"] == name)
        .unwrap_or_else(|| panic!("no check {name}"))
}

/// This check came out so, with these words.
fn found(checks: &[Json], name: &str, outcome: &str, part: &str) {
    let check = check(checks, name);
    assert_eq!(check["outcome"], outcome, "{check:#}");
    assert!(
        check["evidence"].as_str().unwrap().contains(part),
        "{check:#}"
    );
    let mend = matches!(outcome, "failed" | "warning");
    assert_eq!(check["remedy"].is_string(), mend, "{check:#}");
}

/// Doctor in a project, with nothing in the environment that it warns of.
fn doctor(project: &Project, args: &[&str]) -> Command {
    let mut command = project.tune(&[&["doctor"], args].concat());
    for name in [
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "CUDA_LAUNCH_BLOCKING",
        "CUDA_VISIBLE_DEVICES",
    ] {
        command.env_remove(name);
    }
    command
        .env("TUNE_TORCH_LIBRARY", "/nonexistent/libtune_torch.so")
        .env("TUNE_NVML", "/nonexistent/libnvidia-ml.so.1");
    command
}

/// A shared library of this C code.
fn library(path: &Path, code: &str, flags: &[&str]) -> PathBuf {
    let source = path.with_extension("c");
    std::fs::write(&source, code).unwrap();
    let built = Command::new("cc")
        // It stays mapped when the program finds that it is no library of ours.
        .args(["-shared", "-fPIC", "-Wl,-z,nodelete", "-o"])
        .arg(path)
        .arg(&source)
        .args(flags)
        .output()
        .unwrap();
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    path.to_owned()
}

#[test]
fn every_check_says_what_it_saw_and_nothing_is_left_behind() {
    let project = Project::empty();
    let checks = checks(doctor(&project, &["--json"]));
    let rank = |c: &Json| {
        ["failed", "warning", "not_run", "passed"]
            .iter()
            .position(|o| c["outcome"] == *o)
            .unwrap()
    };
    assert!(checks.is_sorted_by_key(rank));
    assert!(
        checks
            .iter()
            .all(|c| !c["evidence"].as_str().unwrap().is_empty()),
        "{checks:#?}"
    );
    found(&checks, "arithmetic", "passed", "bit for bit");
    found(&checks, "variables", "passed", "none of");
    found(&checks, "libraries", "not_run", "libtorch cannot be used");
    let dir = project.path().canonicalize().unwrap();
    assert!(
        check(&checks, "file_system")["evidence"]
            .as_str()
            .unwrap()
            .contains(dir.to_str().unwrap())
    );
    assert_eq!(
        std::fs::read_dir(project.path()).unwrap().count(),
        1,
        "only configs/"
    );
}

#[test]
fn people_get_problems_with_their_mend_and_one_line_of_what_passed() {
    let project = Project::empty();
    let text = |args: &[&str]| {
        let Output { stdout, .. } = doctor(&project, args)
            .env("CUDA_LAUNCH_BLOCKING", "1")
            .output()
            .unwrap();
        String::from_utf8(stdout).unwrap()
    };
    let short = text(&[]);
    let warned = "warning: variables: CUDA_LAUNCH_BLOCKING=1: every kernel is waited for\n    Unset what is named";
    assert!(short.contains(warned), "{short}");
    let passed: Vec<&str> = short
        .lines()
        .filter(|l| l.starts_with("passed: "))
        .collect();
    assert!(
        passed.len() == 1 && passed[0].contains("arithmetic, "),
        "{short}"
    );
    let long = text(&["-v"]);
    assert!(
        long.contains("passed: arithmetic: ") && long.contains("bit for bit"),
        "{long}"
    );
}

#[test]
fn too_few_descriptors_and_harmful_variables_are_found() {
    let project = Project::empty();
    let tune = doctor(&project, &["--json"]);
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "ulimit -n 64; exec \"$0\" \"$@\""])
        .arg(tune.get_program())
        .args(tune.get_args());
    for (name, value) in tune.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
        .env("NSIGHT_CUDA_DEBUGGER", "1")
        .env("OMP_NUM_THREADS", "4096");
    let checks = checks(shell);
    found(&checks, "open_files", "failed", "ulimit -n is 64");
    found(&checks, "variables", "failed", "NSIGHT_CUDA_DEBUGGER=1");
    found(&checks, "threads", "warning", "OMP_NUM_THREADS=4096");
}

#[test]
fn a_small_shared_memory_is_found() {
    let project = Project::empty();
    let mount = "mount -t tmpfs -o size=16m tmpfs /dev/shm";
    let isolated = |then: &str| {
        let mut command = Command::new("unshare");
        command
            .args(["--map-root-user", "--mount", "sh", "-c"])
            .arg(format!("{mount} && {then}"));
        command
    };
    if !isolated("true").output().is_ok_and(|o| o.status.success()) {
        eprintln!("this machine allows no namespaces: the check is tested by facts only");
        return;
    }
    let tune = doctor(&project, &["--json"]);
    let mut command = isolated("exec \"$0\" \"$@\"");
    command
        .arg(tune.get_program())
        .args(tune.get_args())
        .env("TUNE_TORCH_LIBRARY", "none");
    found(
        &checks(command),
        "shared_memory",
        "failed",
        "16 MB free of 16 MB",
    );
}

#[test]
fn a_library_that_is_built_for_another_processor_is_told_from_error_715() {
    let project = Project::empty();
    let code = "#include <signal.h>\n__attribute__((constructor)) static void start(void) { raise(SIGILL); }\n";
    let library = library(&project.path().join("libtune_torch.so"), code, &[]);
    let mut command = doctor(&project, &["--json"]);
    command.env("TUNE_TORCH_LIBRARY", library);
    let checks = checks(command);
    found(&checks, "libraries", "failed", "SIGILL");
    found(&checks, "libraries", "failed", "not the GPU's (error 715)");
}

#[test]
fn a_library_that_shadows_is_found_where_it_is_mapped_and_where_it_only_lies() {
    let project = Project::empty();
    let old = project.path().join("old");
    std::fs::create_dir(&old).unwrap();
    let cudnn = library(
        &old.join("libcudnn.so.8"),
        "int cudnn(void) { return 8; }",
        &["-Wl,-soname,libcudnn.so.8"],
    );
    let needs = "int cudnn(void); int torch(void) { return cudnn(); }";
    let torch = library(
        &project.path().join("libtune_torch.so"),
        needs,
        &[cudnn.to_str().unwrap()],
    );
    let mut command = doctor(&project, &["--json"]);
    command.env("LD_LIBRARY_PATH", &old);
    let lies = checks(command);
    found(&lies, "library_path", "warning", "old/libcudnn.so.8");
    found(&lies, "libraries", "not_run", "missing");
    let mut command = doctor(&project, &["--json"]);
    command
        .env("LD_LIBRARY_PATH", &old)
        .env("TUNE_TORCH_LIBRARY", &torch);
    found(&checks(command), "libraries", "failed", "old/libcudnn.so.8");
    let nvml = Nvml::new(SOUND);
    let mut command = nvml.given_to(doctor(&project, &["--json"]));
    command.env("LD_LIBRARY_PATH", &old);
    found(
        &checks(command),
        "library_path",
        "failed",
        "old/libcudnn.so.8",
    );
}

#[test]
fn the_probe_gives_every_figure_that_nvml_has() {
    let nvml = Nvml::new(
        &format!("{SOUND}process 0 4711 50\nthrottle 0 8\n")
            .replace("replays 0 4", "replays 0 4 9"),
    );
    let details = |nvml: &Nvml| -> Json {
        let mut command = Command::new(crate::common::program());
        command.args(["probe", "--details"]);
        let output = nvml.given_to(command).output().unwrap();
        assert!(output.status.success());
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let mib = 1_u64 << 20;
    let expected = json!({
        "driver": "580.65.06", "nvml": "13.580.65.06", "cuda": 13000,
        "gpus": [{
            "name": "Stub 0",
            "sample": {
                "index": 0, "memory_total": 8192 * mib, "memory_used": 101 * mib, "processes": {"4711": 50 * mib},
                "temperature": 40, "throttle": ["hw_slowdown"], "ecc_uncorrected": 0, "remapped_rows": 0,
            },
            "capability": [9, 0], "persistence": true, "power_caps": [700.0, 700.0], "application_clocks": [1980, 1980],
            "clock_offsets": [0, 0], "slowdown_at": 87, "ecc": true, "remap_pending": false, "remap_failed": false,
            "compute_mode": "default", "mig": false,
            "pcie": {"generation": 1, "width": 16, "max_generation": 5, "max_width": 16},
            "replays": [4, 9],
        }],
    });
    assert_eq!(details(&nvml), expected);
    let old = details(&Nvml::built(&["-DOLD"], "used 0 500\n"));
    assert_eq!(old["gpus"][0]["sample"]["memory_used"], 500 * mib);
    assert_eq!(old["gpus"][0].as_object().unwrap().len(), 2, "{old:#}");
    let broken = details(&Nvml::new("init 18\n"));
    assert!(
        broken["error"].as_str().unwrap().contains("restarted"),
        "{broken:#}"
    );
}

#[test]
fn what_is_wrong_with_a_gpu_is_found() {
    let project = Project::empty();
    let look = |script: &str| checks(Nvml::new(script).given_to(doctor(&project, &["--json"])));
    let sound = look(SOUND);
    for name in [
        "gpu_memory_errors",
        "recovery_action",
        "gpu_clocks",
        "gpu_heat_and_power",
        "pcie",
        "persistence",
        "compute_mode",
    ] {
        assert_eq!(check(&sound, name)["outcome"], "passed", "{sound:#?}");
    }
    found(&sound, "gpus", "passed", "GPU 0: Stub 0, 8.0 GB");
    let own = std::process::id();
    let changes = [
        ("ecc 0 0", "ecc 0 2".to_owned()),
        ("offsets 0 0 0", "offsets 0 150 0".to_owned()),
        (
            "powercap 0 700000 700000",
            "powercap 0 300000 700000".to_owned(),
        ),
        ("computemode 0 0", "computemode 0 2".to_owned()),
        ("pcie 0 1 16 5 16", "pcie 0 1 4 5 16".to_owned()),
        ("persistence 0 1", "persistence 0 0".to_owned()),
        (
            "used 0 100",
            format!("used 0 6000\nprocess 0 {own} 5000\nrecovery 0 1"),
        ),
    ];
    let script = changes.iter().fold(SOUND.to_owned(), |script, (from, to)| {
        script.replace(from, to)
    });
    let broken = look(&script);
    found(
        &broken,
        "gpu_memory_errors",
        "failed",
        "2 uncorrected errors",
    );
    found(
        &broken,
        "gpu_clocks",
        "failed",
        "overclocked: offsets +150 MHz",
    );
    found(
        &broken,
        "gpu_heat_and_power",
        "warning",
        "power cap 300 W, by default 700 W",
    );
    found(&broken, "compute_mode", "failed", "prohibited");
    found(&broken, "pcie", "warning", "x4 now, at most 5 x16");
    found(&broken, "persistence", "warning", "off");
    found(&broken, "recovery_action", "failed", "reset");
    found(
        &broken,
        "gpu_processes",
        "failed",
        &format!("process {own} (program"),
    );
    found(
        &look("init 18\n"),
        "gpus",
        "failed",
        "another version than the driver",
    );
}
