//! Programs that misbehave, through the real binary: each run ends with the exit code of the
//! documentation, takes bounded memory, leaves no process, and prints nothing that drives a terminal.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::OnceLock;

use crate::common::{Project, wait_for};
use nix::fcntl::{FcntlArg, fcntl};
use rand::{Rng, SeedableRng};
use serde_json::Value as Json;

/// What a process of a run may take beyond one of a run without any attack, in KiB: what programs print
/// is 100 MB in places.
const MORE_KIB: i64 = 55 * 1024;

/// What a run came to.
struct Ran {
    project: Project,
    code: i32,
    printed: String,
    trial: Json,
    peak: i64,
}

impl Ran {
    /// Requires that the trial ended so, with this value or with this in its message.
    fn ended(&self, state: &str, part: &str) {
        let (trial, printed) = (&self.trial, &self.printed);
        assert_eq!(trial["state"], state, "{printed}\n{trial:#}");
        // Nothing counts towards the goal of one trial where that failed.
        let code = if state == "FAIL" { 5 } else { 0 };
        assert_eq!(self.code, code, "{printed}");
        let said = format!(
            "{} {} {}",
            trial["value"], trial["attrs"], trial["attempts"]
        );
        assert!(said.contains(part), "{part} in {said}");
    }
}

/// Runs a program to its end. Also what it took of memory at most, in KiB, or one of those that it waited for.
#[allow(clippy::zombie_processes)] // wait4 waits for it.
fn measured(command: &mut Command) -> (Output, i64) {
    let child = command.spawn().unwrap();
    let pid = child.id().cast_signed();
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    std::thread::scope(|scope| {
        scope.spawn(|| child.stdout.unwrap().read_to_end(&mut stdout).unwrap());
        child.stderr.unwrap().read_to_end(&mut stderr).unwrap();
    });
    let mut status = 0;
    // SAFETY: all zeros are valid for a struct of numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to values of the right types that outlive the call; nobody else waits for the child.
    assert_eq!(unsafe { libc::wait4(pid, &mut status, 0, &mut usage) }, pid);
    let output = Output {
        status: ExitStatus::from_raw(status),
        stdout,
        stderr,
    };
    (output, usage.ru_maxrss)
}

/// What a run without any attack takes, in KiB: libtorch alone is 100 MB, where it is there.
fn peak_at_rest() -> i64 {
    static REST: OnceLock<i64> = OnceLock::new();
    *REST.get_or_init(|| run("echo val=1", "value = 'val=([0-9.]+)'").peak)
}

/// Runs one trial of a shell script that means no good.
fn attack(script: &str, more: &str) -> Ran {
    let most = peak_at_rest() + MORE_KIB;
    let ran = run(script, more);
    let peak = ran.peak;
    assert!(peak < most, "{peak} KiB, expected less than {most}");
    ran
}

/// Runs one trial of a shell script in its own directory.
fn run(script: &str, more: &str) -> Ran {
    let project = Project::empty();
    std::fs::create_dir(project.path().join("work")).unwrap();
    std::fs::write(project.path().join("t.sh"), script).unwrap();
    let config = format!(
        "[task]\nkind = \"command\"\nrun = [\"sh\", \"../t.sh\"]\ndir = \"../work\"\n{more}\n\
         [objective]\ndirection = \"minimize\"\n\
         [space]\nx = {{ low = 1, high = 8, int = true }}\n\
         [supervisor]\ngrace = \"200ms\"\nmax_failures = 1\n"
    );
    project.config("t", &config);
    let (output, peak) = measured(&mut project.tune(&["t", "--trials", "1", "--timeout", "120s"]));
    let mut printed = String::from_utf8(output.stdout).unwrap();
    printed += &String::from_utf8(output.stderr).unwrap();
    for command in [&["show", "t", "0"][..], &["status", "t"], &["trials", "t"]] {
        printed += &project.expect(0, command).0;
    }
    harmless(&printed);
    let trial = project.trials("t").remove(0);
    Ran {
        project,
        code: output.status.code().unwrap(),
        printed,
        trial,
        peak,
    }
}

/// Requires that a text drives no terminal.
fn harmless(printed: &str) {
    let bad = printed
        .chars()
        .filter(|c| *c != '\n' && c.is_control() || ('\u{2028}'..='\u{202e}').contains(c));
    assert_eq!(bad.collect::<Vec<_>>(), [], "{printed}");
}

/// Whether a process with this command line lives.
fn lives(line: &[&str]) -> bool {
    let wanted = line.join("\0") + "\0";
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let mut lines = processes.filter_map(|e| std::fs::read(e.path().join("cmdline")).ok());
    lines.any(|line| line == wanted.as_bytes())
}

#[test]
fn a_part_of_a_number_is_no_value() {
    let pattern = "value = 'val=([0-9.]+)'";
    for (printed, part) in [
        ("val=0,75", "line \\\"val=0,75\\\""),
        ("val=1,234.5", "may go on with \\\",234.5\\\""),
        ("val=0.75s", "may go on with \\\"s\\\""),
        ("val=1.2.3", "expected a number"),
    ] {
        let ran = attack(&format!("echo '{printed}'"), pattern);
        ran.ended("FAIL", part);
        let message = ran.trial["attrs"]["error_msg"].as_str().unwrap();
        assert!(message.contains("task.value = 'val="), "{message}");
    }
    attack("echo 'val=0.75, loss=1'", pattern).ended("COMPLETE", "0.75");
}

#[test]
fn bytes_that_are_no_text_are_not_taken_for_anything_else() {
    let noise = std::env::temp_dir().join(format!("noise-{}", std::process::id()));
    let mut bytes = vec![0; 300_000];
    rand_chacha::ChaCha8Rng::seed_from_u64(7).fill_bytes(&mut bytes);
    std::fs::write(&noise, &bytes).unwrap();
    let print = format!("cat {0}; cat {0} >&2", noise.display());
    attack(&format!("{print}; echo; echo 1"), "").ended("COMPLETE", "1.0 ");
    attack(&print, "").ended("FAIL", "without a value");
    let metrics = format!("cat {} >&$TUNE_METRICS_FD; sleep 100003.5", noise.display());
    attack(&metrics, "").ended("FAIL", "expected a JSON object");
    std::fs::remove_file(noise).unwrap();
}

#[test]
fn control_sequences_of_a_program_stay_in_its_log() {
    let lines = r"printf '\033]0;title\007\033[2J\302\233 31m\342\200\256 last\r\0 line\177\n'";
    for (script, state) in [
        (format!("{lines}; exit 3"), "FAIL"),
        (format!("{lines} >&2; exit 3"), "FAIL"),
        (
            format!("{lines} >&$TUNE_METRICS_FD; sleep 100003.5"),
            "FAIL",
        ),
        (format!("{lines}; kill -SEGV $$"), "PRUNED"),
    ] {
        attack(&script, "").ended(state, "");
    }
    let name =
        r#"printf '{"step": 1, "value": 1, "a\\u001b[2J\\u009b\\u202e": 2}\n' >&$TUNE_METRICS_FD"#;
    attack(name, "").ended("COMPLETE", "metric.a");
}

#[test]
fn a_hundred_megabytes_without_a_line_take_bounded_memory() {
    let flood = "head -c 100000000 /dev/zero | tr '\\0' x";
    attack(&format!("{flood}; echo; echo 1"), "").ended("COMPLETE", "1.0 ");
    attack(&format!("{flood} >&2; exit 3"), "").ended("FAIL", "xxx");
    let long = "without a line's end";
    attack(&format!("{flood} >&$TUNE_METRICS_FD; sleep 100003.5"), "").ended("FAIL", long);
    attack(&format!("{flood} >$TUNE_METRICS_FILE; sleep 100003.5"), "").ended("FAIL", long);
}

#[test]
fn a_metrics_file_that_is_none_fails_the_trial() {
    let file = "\"$TUNE_METRICS_FILE\"";
    for (make, found) in [
        ("ln -sf /dev/zero", "found a device"),
        ("mkfifo", "found a pipe"),
        ("mkdir", "found a directory"),
    ] {
        let script = format!("rm {file}; {make} {file}; sleep 100003.5");
        attack(&script, "").ended("FAIL", found);
        // Also where the program has ended before anybody looked.
        attack(&format!("rm {file}; {make} {file}; echo 1"), "").ended("FAIL", found);
    }
    let hole = format!("truncate -s 1T {file}; sleep 100003.5");
    attack(&hole, "").ended("FAIL", "without a line's end");
    attack(&format!("rm {file}; echo 1"), "").ended("COMPLETE", "1.0 ");
    let link = format!("echo '{{\"value\": 2}}' >real; ln -sf \"$PWD/real\" {file}");
    attack(&link, "").ended("COMPLETE", "2.0 ");
}

#[test]
fn a_program_that_closes_its_output_lives_on() {
    let script = "exec >&- 2>&-; sleep 0.3; echo '{\"value\": 1}' >&$TUNE_METRICS_FD";
    attack(script, "").ended("COMPLETE", "1.0 ");
}

#[test]
fn what_comes_after_the_result_changes_nothing() {
    let script = "echo '{\"value\": 1}' >&$TUNE_METRICS_FD\n\
                  echo '{\"step\": 5, \"value\": 0.5}' >&$TUNE_METRICS_FD\necho 9";
    attack(script, "").ended("COMPLETE", "1.0 ");
}

#[test]
fn whoever_holds_the_pipe_ends_with_the_program() {
    let script = "setsid sleep 100003.25 &\n(setsid setsid sleep 100003.25 &)\n\
                  yes noise >&2 &\nsleep 0.2; echo 1; exit 0";
    attack(script, "").ended("COMPLETE", "1.0 ");
    assert!(!lives(&["sleep", "100003.25"]));
}

#[test]
fn a_program_that_ignores_sigterm_is_killed() {
    let script =
        "trap '' TERM; echo nonsense >&$TUNE_METRICS_FD; while :; do sleep 100003.75; done";
    attack(script, "").ended("FAIL", "expected a JSON object");
    assert!(!lives(&["sleep", "100003.75"]));
}

#[test]
fn a_program_that_changes_its_surroundings_changes_its_own() {
    let script = "umask 777; ulimit -n 8; cd /; rm -rf \"$OLDPWD\"; echo 1";
    let ran = attack(script, "");
    ran.ended("COMPLETE", "1.0 ");
    // There is nothing to run in any more, which says so.
    let (out, _) = ran.project.expect(2, &["t", "--trials", "2"]);
    harmless(&out);
}

#[test]
fn a_program_that_kills_its_worker_is_given_up() {
    for script in ["kill -KILL $PPID", "kill -s KILL -- -$PPID", "kill -KILL 0"] {
        let ran = attack(&format!("{script}; exit 3"), "");
        ran.ended("PRUNED", "killed");
    }
}

#[test]
fn a_program_that_stops_itself_goes_on_once() {
    attack("kill -STOP $$; echo 1", "").ended("COMPLETE", "1.0 ");
    let twice = attack("kill -STOP $$; kill -STOP $$; echo 1", "");
    assert!(twice.trial["attempts"].as_array().unwrap().len() > 1);
}

#[test]
fn odd_values_and_steps_are_told_from_numbers() {
    let say = |lines: &str| format!("printf '{lines}' >&$TUNE_METRICS_FD; sleep 0.2");
    let line = |step: &str, value: &str| format!(r#"{{"step": {step}, "value": {value}}}\n"#);
    let of =
        |lines: &[(&str, &str)]| say(&lines.iter().map(|(s, v)| line(s, v)).collect::<String>());
    attack(&of(&[("5", "3"), ("3", "1"), ("5", "2"), ("7", "4")]), "").ended("COMPLETE", "3.0 ");
    attack(&of(&[("1", "2"), ("2", "NaN")]), "").ended("PRUNED", "diverged");
    attack(&of(&[("1", "-Infinity")]), "").ended("PRUNED", "diverged");
    attack(&of(&[("1", "1e999")]), "").ended("PRUNED", "diverged");
    for bad in [
        ("1", "0,75"),
        ("-1", "2"),
        ("1e10", "2"),
        ("0.5", "2"),
        ("[1]", "2"),
    ] {
        attack(&of(&[bad]), "").ended("FAIL", "expected");
    }
    attack("echo 1e999", "").ended("PRUNED", "diverged");
}

#[test]
fn a_hundred_thousand_metric_lines_are_read() {
    let lines = |count: u32, what: &str| {
        format!(
            "awk 'BEGIN {{ for (i = 1; i <= {count}; i++) printf \"{{\\\"step\\\": %d, \\\"{what}\\\": 1}}\\n\", i }}'"
        )
    };
    let last = "echo '{\"value\": 1}' >&$TUNE_METRICS_FD";
    let script = format!(
        "{} >&$TUNE_METRICS_FD; {} >>$TUNE_METRICS_FILE; {last}",
        lines(100_000, "a"),
        lines(100_000, "b")
    );
    attack(&script, "").ended("COMPLETE", "1.0 ");
    let script = format!("{} >&$TUNE_METRICS_FD", lines(20_000, "value"));
    let ran = attack(&script, "");
    ran.ended("COMPLETE", "1.0 ");
    assert_eq!(ran.trial["intermediate"].as_object().unwrap().len(), 20_000);
}

#[test]
fn a_run_whose_output_nobody_reads_goes_on_to_its_end() {
    let project = Project::synthetic();
    let args = [
        "synthetic",
        "--json",
        "--trials",
        "40",
        "--sampler",
        "random",
    ];
    let mut child = project.tune(&args).stderr(Stdio::null()).spawn().unwrap();
    // The pipe is held, so that writing to it is no error.
    let pipe = child.stdout.take().unwrap();
    fcntl(&pipe, FcntlArg::F_SETPIPE_SZ(4096)).unwrap();
    wait_for("the end of the run", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    drop(pipe);
    let ended = project.trials("synthetic");
    let ended = ended
        .iter()
        .filter(|t| t["state"] == "COMPLETE" || t["state"] == "PRUNED");
    assert!(ended.count() >= 40);
}
