//! The probe and the runs that it watches, with an NVML that does what a script says.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::common::{Project, wait_for};
use crate::nvml::Nvml;
use serde_json::{Value as Json, json};

/// A process that says a line of JSON at a time.
struct Talker {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Talker {
    fn start(mut command: Command) -> Talker {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Talker { child, lines }
    }

    /// The streaming probe.
    fn probe(nvml: &Nvml) -> Talker {
        Talker::start(nvml.given_to(stream()))
    }

    /// The next line; `None`: it has ended.
    fn next(&mut self) -> Option<Json> {
        let line = self.lines.next()?.unwrap();
        Some(serde_json::from_str(&line).unwrap())
    }

    /// The next line of which this holds.
    fn until(&mut self, what: &str, holds: impl Fn(&Json) -> bool) -> Json {
        loop {
            let line = self.next().unwrap_or_else(|| panic!("ended before {what}"));
            if holds(&line) {
                return line;
            }
        }
    }

    /// All lines that are left, and the exit code.
    fn rest(mut self) -> (Vec<Json>, Option<i32>) {
        let lines = std::iter::from_fn(|| self.next()).collect();
        (lines, self.child.wait().unwrap().code())
    }
}

fn stream() -> Command {
    let mut command = Command::new(crate::common::program());
    command.args(["probe", "--stream"]);
    command
}

#[test]
fn the_stream_has_every_figure_and_each_xid_and_ends_with_its_input() {
    let script = "used 0 1000 2000\nprocess 0 4711 300\nprocess 0 12 40\nutilization 0 97\n\
                  temperature 0 64\npower 0 310500\nclock 0 1980\nthrottle 0 37\necc 0 2\nrows 0 3\n\
                  recovery 0 1\n";
    let nvml = Nvml::new(script);
    let mut probe = Talker::probe(&nvml);
    let mib = 1_u64 << 20;
    let mut expected = json!({
        "index": 0, "memory_total": 8192 * mib, "memory_used": 1001 * mib,
        "processes": {"12": 40 * mib, "4711": 300 * mib}, "utilization": 97, "temperature": 64,
        "power": 310.5, "clock": 1980, "throttle": ["sw_power_cap", "sw_thermal_slowdown"],
        "ecc_uncorrected": 2, "remapped_rows": 3, "recovery_action": "reset",
    });
    assert_eq!(probe.next().unwrap(), json!({ "sampled": [expected] }));
    expected["memory_used"] = (2001 * mib).into();
    let second = probe.until("the second sample", |l| l["sampled"].is_array());
    assert_eq!(second, json!({ "sampled": [expected] }));
    nvml.script(&format!("{script}xid 0 94\nxid 0 119\n"));
    for code in [94, 119] {
        let xid = probe.until("an Xid", |l| l["xid"].is_object());
        assert_eq!(xid, json!({"xid": {"gpu": 0, "code": code}}));
    }
    probe.child.stdin = None;
    assert_eq!(probe.rest().1, Some(0));
}

#[test]
fn what_an_old_driver_or_gpu_lacks_is_left_out() {
    let nvml = Nvml::built(&["-DOLD"], "used 0 500\ntemperature 0 50\n");
    let mut probe = Talker::probe(&nvml);
    let mib = 1_u64 << 20;
    let sample = json!({
        "index": 0, "memory_total": 8192 * mib, "memory_used": 500 * mib, "processes": {},
        "temperature": 50,
    });
    assert_eq!(probe.next().unwrap(), json!({ "sampled": [sample] }));
    probe.child.stdin = None;
    assert_eq!(probe.rest().1, Some(0));
}

#[test]
fn the_last_line_says_what_is_wrong_with_nvml() {
    let cases = [
        (Nvml::new("init 9\n"), "driver is not loaded"),
        (Nvml::new("init 18\n"), "another version than the driver"),
        (Nvml::new("gpus 0\n"), "knows no GPU"),
        (Nvml::new("lost 0\n"), "GPU 0: device fell off the bus"),
        (Nvml::built(&["-DLACKS_INIT"], ""), "nvmlInit_v2"),
    ];
    for (nvml, part) in cases {
        let (lines, code) = Talker::probe(&nvml).rest();
        let reason = lines.last().unwrap()["lost"]["reason"].as_str().unwrap();
        assert!(reason.contains(part), "{reason}");
        assert_eq!(code, Some(1));
    }
    let mut command = stream();
    command.env("TUNE_NVML", "/nonexistent/libnvidia-ml.so.1");
    let (lines, _) = Talker::start(command).rest();
    let reason = lines[0]["lost"]["reason"].as_str().unwrap();
    assert!(reason.contains("library cannot be loaded"), "{reason}");
}

#[test]
fn a_lost_gpu_is_told_beside_the_others_and_gpus_are_counted_as_cuda_does() {
    let nvml = Nvml::new("gpus 3\nused 0 10\nused 1 20\nmute 1\n");
    let mut command = nvml.given_to(stream());
    command.env("CUDA_VISIBLE_DEVICES", "1,GPU-0");
    let mut probe = Talker::start(command);
    let used =
        |line: &Json, gpu: usize| line["sampled"][gpu]["memory_used"].as_u64().unwrap() >> 20;
    let first = probe.next().unwrap();
    assert_eq!(first["sampled"].as_array().unwrap().len(), 2);
    assert_eq!((used(&first, 0), used(&first, 1)), (21, 11));
    nvml.script("gpus 3\nused 0 10\nused 1 20\nlost 0\n");
    let lost = probe.until("the loss", |l| l["sampled"][1]["recovery_action"] == "lost");
    assert_eq!(used(&lost, 0), 21);
    // It is told by its index here, although a lost GPU does not even tell its own.
    nvml.script("gpus 3\nused 0 10\nused 1 20\nlost 0\nxid 0 79\n");
    let xid = probe.until("the Xid", |l| l["xid"].is_object());
    assert_eq!(xid, json!({"xid": {"gpu": 1, "code": 79}}));
    probe.child.stdin = None;
    probe.rest();
}

/// A project whose task `t` waits for the file `go` and then, on GPU 0 only, fails in the trial's
/// first attempt.
fn waiting() -> Project {
    let project = Project::empty();
    let script = "while [ ! -e go ]; do sleep 0.02; done\n\
                  [ \"$TUNE_DEVICE$TUNE_ATTEMPT\" = cuda:00 ] && [ -e fail ] && exit 3\necho 1\n";
    std::fs::write(project.path().join("t.sh"), script).unwrap();
    let config = "[task]\nkind = \"command\"\nrun = [\"sh\", \"t.sh\", \"{x}\"]\n\
                  [objective]\ndirection = \"minimize\"\n[space]\nx = { low = 0.0, high = 1.0 }\n";
    project.config("t", config);
    project
}

fn touch(project: &Project, name: &str) {
    std::fs::write(project.path().join(name), "").unwrap();
}

/// A run of that task, with its events.
fn run(project: &Project, nvml: &Nvml, args: &[&str]) -> Talker {
    let all = [&["t", "--json", "--timeout", "120s"], args].concat();
    Talker::start(nvml.given_to(project.tune(&all)))
}

/// Rows of samples in the database.
fn rows(project: &Project) -> u64 {
    let sql = "SELECT COUNT(*) FROM tune_gpu_samples";
    let rows = project.connect().query_row(sql, [], |r| r.get(0));
    rows.unwrap_or(0)
}

fn warning(part: &'static str) -> impl Fn(&Json) -> bool {
    move |line| {
        let text = line["message"].as_str().unwrap_or_default();
        line["event"] == "warned" && text.contains(part)
    }
}

#[test]
fn samples_of_a_run_are_kept_and_the_status_shows_the_last_while_it_lives() {
    let project = waiting();
    let nvml = Nvml::new("used 0 1023\nutilization 0 90\ntemperature 0 60\nthrottle 0 4\n");
    let file = project.path().join("x.prom");
    let metrics = file.to_str().unwrap();
    let args = [
        "--trials",
        "1",
        "--device",
        "cuda:0",
        "--metrics-file",
        metrics,
    ];
    let run = run(&project, &nvml, &args);
    let status = || project.expect(0, &["status", "--json"]).0;
    let status = || serde_json::from_str::<Json>(&status()).unwrap();
    wait_for("a run", || project.database().exists());
    wait_for("a row", || rows(&project) > 0);
    let gpus = status()["gpus"].take();
    assert_eq!(gpus[0]["memory_peak"], 1_u64 << 30);
    assert_eq!(gpus[0]["throttle"], json!(["sw_power_cap"]));
    let (text, _) = project.expect(0, &["status"]);
    let line = "0: 1.00 GiB of 8.00 GiB in use, 90 % busy, 60 °C, slowed down by sw_power_cap";
    assert!(text.contains(line), "{text}");
    touch(&project, "go");
    assert_eq!(run.rest().1, Some(0));
    assert_eq!(status()["gpus"], json!([]), "nobody samples any more");
    let metrics = std::fs::read_to_string(&file).unwrap();
    for sample in [
        "tune_gpu_memory_used_bytes{study=\"t\",gpu=\"0\"} 1073741824",
        "tune_gpu_utilization_ratio{study=\"t\",gpu=\"0\"} 0.9",
        "tune_gpu_temperature_celsius{study=\"t\",gpu=\"0\"} 60",
    ] {
        assert!(metrics.lines().any(|line| line == sample), "{metrics}");
    }
}

#[test]
fn a_gpu_that_is_lost_during_a_trial_is_drained_and_the_trial_runs_elsewhere() {
    let project = waiting();
    touch(&project, "fail");
    let nvml = Nvml::new("gpus 2\n");
    let args = ["--trials", "2", "--parallel", "2", "--device", "cuda"];
    let mut run = run(&project, &nvml, &args);
    for _ in 0..2 {
        run.until("two trials", |l| l["event"] == "trial_started");
    }
    nvml.script("gpus 2\nxid 0 79\n");
    run.until("the drain", warning("slot 0 on cuda:0 is given up: Xid 79"));
    touch(&project, "go");
    let fault = run.until("the fault", |l| l["event"] == "fault");
    assert_eq!(
        (&fault["fault"], &fault["verdict"]),
        (&json!("device_lost"), &json!("again"))
    );
    assert_eq!(run.rest().1, Some(0));
    let trials = project.trials("t");
    let devices = |t: &Json| t["attrs"]["device"] == "cuda:1";
    assert!(
        trials
            .iter()
            .all(|t| t["state"] == "COMPLETE" && devices(t)),
        "{trials:#?}"
    );
}

#[test]
fn a_run_goes_on_without_an_nvml_that_hangs_and_says_so_once() {
    let project = waiting();
    let nvml = Nvml::new("used 0 100\n");
    let mut run = run(&project, &nvml, &["--trials", "2", "--device", "cuda:0"]);
    run.until("a trial", |l| l["event"] == "trial_started");
    nvml.script("hang\n");
    run.until("the warning", warning("going on without GPU samples"));
    touch(&project, "go");
    let (lines, code) = run.rest();
    assert_eq!(code, Some(0));
    assert!(!lines.iter().any(warning("NVML")), "{lines:?}");
}

#[test]
fn a_run_goes_on_without_nvml_says_so_and_tries_again() {
    let project = waiting();
    let nvml = Nvml::new("init 9\n");
    let mut run = run(&project, &nvml, &["--trials", "1", "--device", "cpu"]);
    let said = warning("NVML cannot be used: the NVIDIA driver is not loaded; going on");
    run.until("the warning", said);
    nvml.script("used 0 100\n");
    wait_for("a row", || rows(&project) > 0);
    touch(&project, "go");
    assert_eq!(run.rest().1, Some(0));
}

#[test]
fn the_probe_ends_with_a_run_that_is_killed() {
    let project = waiting();
    let nvml = Nvml::new("used 0 100\n");
    let mut run = run(&project, &nvml, &["--trials", "1", "--device", "cuda:0"]);
    run.until("a trial", |l| l["event"] == "trial_started");
    wait_for("a probe", || !probes(&nvml).is_empty());
    run.child.kill().unwrap();
    run.child.wait().unwrap();
    wait_for("the probe's end", || probes(&nvml).is_empty());
}

/// Processes that have loaded this NVML.
fn probes(nvml: &Nvml) -> Vec<u32> {
    let library = nvml.library().to_string_lossy().into_owned();
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"));
        maps.is_ok_and(|maps| maps.contains(&library))
    })
    .collect()
}
