//! The stand-in for the CUDA runtime: its account, its rules and its arithmetic.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::card::{Cards, standin};

/// A process that makes single calls.
struct Caller {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Caller {
    fn new(cards: &Cards) -> Caller {
        Caller::with(cards, &[])
    }

    fn with(cards: &Cards, environment: &[(&str, &str)]) -> Caller {
        let mut command = cards.given_to(Command::new(standin().join("bin/try")));
        command.envs(environment.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        Caller {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    fn ask(&mut self, call: &str) {
        writeln!(self.input, "{call}").unwrap();
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// What these calls answer.
    fn calls(&mut self, calls: &[&str]) -> Vec<String> {
        let answer = |call: &&str| {
            self.ask(call);
            self.answer()
        };
        calls.iter().map(answer).collect()
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn processes_share_the_memory_of_a_card_and_one_that_dies_gives_its_own_back() {
    let cards = Cards::new("memory 1G\ncontext 100M\ncards 2");
    let (mut a, mut b) = (Caller::new(&cards), Caller::new(&cards));
    assert_eq!(a.calls(&["malloc 300M", "info"]), ["0", "0 624 1024"]);
    assert_eq!(
        b.calls(&["info", "malloc 600M", "malloc 500M"]),
        ["0 524 1024", "2", "0"]
    );
    assert_eq!(
        a.calls(&["info", "free", "info"]),
        ["0 24 1024", "0", "0 324 1024"]
    );
    assert_eq!(
        a.calls(&["card 1", "info"]),
        ["0", "0 924 1024"],
        "the other card"
    );
    b.kill();
    assert_eq!(a.calls(&["card 0", "info"]), ["0", "0 924 1024"]);
}

#[test]
fn a_context_that_does_not_fit_is_no_context() {
    let cards = Cards::new("memory 1G\ncontext 600M");
    let (mut a, mut b) = (Caller::new(&cards), Caller::new(&cards));
    assert_eq!(a.calls(&["wait"]), ["0"]);
    assert_eq!(b.calls(&["wait", "count"]), ["2", "0 1"]);
    a.kill();
    assert_eq!(
        b.calls(&["wait", "peek"]),
        ["0", "2"],
        "the error stays until it is asked for"
    );
}

#[test]
fn a_sticky_error_shows_where_one_waits_or_some_calls_later_and_stays() {
    let cards = Cards::with("lag 3", "launch/k@2=sticky:700");
    let mut waits = Caller::new(&cards);
    let calls = [
        "launch k",
        "wait",
        "launch k",
        "malloc 1M",
        "wait",
        "malloc 1M",
        "peek",
        "peek",
    ];
    assert_eq!(
        waits.calls(&calls),
        ["0", "0", "0", "0", "700", "700", "700", "700"]
    );
    let mut goes_on = Caller::new(&cards);
    let calls = [
        "launch k",
        "launch k",
        "malloc 1M",
        "malloc 1M",
        "malloc 1M",
        "malloc 1M",
    ];
    assert_eq!(goes_on.calls(&calls), ["0", "0", "0", "0", "0", "700"]);
    let mut blocking = Caller::with(&cards, &[("CUDA_LAUNCH_BLOCKING", "1")]);
    assert_eq!(blocking.calls(&["launch k", "launch k"]), ["0", "700"]);
}

#[test]
fn rules_count_in_a_process_over_all_of_them_and_name_one() {
    let cards = Cards::with(
        "",
        "launch/once@2x1=701; launch/on@2+=2; launch/p#2=701; launch/s=status:5",
    );
    let (mut a, mut b) = (Caller::new(&cards), Caller::new(&cards));
    assert_eq!(
        a.calls(&["launch once", "launch once", "launch once"]),
        ["0", "701", "0"]
    );
    assert_eq!(
        b.calls(&["launch once", "launch once"]),
        ["0", "0"],
        "once is once"
    );
    assert_eq!(
        a.calls(&["launch on", "launch on", "launch on", "launch other"]),
        ["0", "2", "2", "0"]
    );
    assert_eq!(
        (a.calls(&["launch p"]), b.calls(&["launch p"])),
        (vec!["0".into()], vec!["701".into()])
    );
    assert_eq!(
        a.calls(&["launch s", "peek"]),
        [format!("{}", (1 << 20) + 5), "0".into()]
    );
    assert_eq!(cards.fired(), 5);
    cards.rules("cudaMalloc=46");
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(
        a.calls(&["malloc 1M", "launch on"]),
        ["46", "0"],
        "read anew"
    );
}

#[test]
fn a_lost_card_is_lost_for_all_until_it_is_healed_and_then_for_those_who_saw_it() {
    let cards = Cards::with("cards 2", "launch/k=lost:79; launch/e=ecc; launch/h=heal");
    let (mut a, mut b) = (Caller::new(&cards), Caller::new(&cards));
    assert_eq!(a.calls(&["wait", "launch k", "wait"]), ["0", "999", "999"]);
    assert_eq!(b.calls(&["wait", "card 1", "wait"]), ["999", "0", "0"]);
    let mut c = Caller::new(&cards);
    assert_eq!(c.calls(&["card 1", "launch e", "wait"]), ["0", "0", "214"]);
    let mut healer = Caller::new(&cards);
    assert_eq!(
        healer.calls(&["count", "card 1", "wait"]),
        ["0 2", "0", "0"],
        "ECC is a process's"
    );
    cards.rules("cudaGetDeviceCount=heal");
    std::thread::sleep(Duration::from_millis(20));
    let mut fresh = Caller::new(&cards);
    assert_eq!(fresh.calls(&["count", "wait"]), ["0 2", "0"]);
    assert_eq!(a.calls(&["wait"]), ["999"], "its context is gone for good");
}

#[test]
fn a_neighbour_takes_memory_and_gives_it_back_and_free_memory_comes_in_pieces() {
    let rules = "launch/take=take:700; launch/give=give:200; launch/pieces=pieces:32";
    let cards = Cards::with("memory 1G\ncontext 0", rules);
    let mut a = Caller::new(&cards);
    assert_eq!(
        a.calls(&["info", "launch take", "info"]),
        ["0 1024 1024", "0", "0 324 1024"]
    );
    assert_eq!(a.calls(&["launch give", "info"]), ["0", "0 524 1024"]);
    assert_eq!(
        a.calls(&["launch pieces", "malloc 64M", "malloc 30M"]),
        ["0", "2", "0"]
    );
    assert_eq!(
        a.calls(&["reserve 64M", "info"]),
        ["0", "0 430 1024"],
        "virtual memory is mapped in pieces"
    );
}

#[test]
fn who_waits_for_a_card_that_never_ends_hangs_and_who_asks_is_told() {
    let cards = Cards::with("", "launch/k=spin; launch/s=slow:300; cudaMalloc=hang");
    let mut a = Caller::new(&cards);
    let start = Instant::now();
    assert_eq!(a.calls(&["launch s"]), ["0"]);
    assert!(start.elapsed() >= Duration::from_millis(300));
    assert_eq!(a.calls(&["launch k", "query"]), ["0", "600"]);
    a.ask("wait");
    std::thread::sleep(Duration::from_millis(200));
    assert!(a.child.try_wait().unwrap().is_none());
    let mut b = Caller::new(&cards);
    b.ask("malloc 1M");
    std::thread::sleep(Duration::from_millis(200));
    assert!(b.child.try_wait().unwrap().is_none());
}

#[test]
fn a_signal_in_a_kernel_ends_the_process() {
    use std::os::unix::process::ExitStatusExt;
    for signal in [6, 7, 9, 11] {
        let cards = Cards::with("", &format!("launch/k=kill:{signal}"));
        let mut a = Caller::new(&cards);
        a.ask("launch k");
        assert_eq!(a.child.wait().unwrap().signal(), Some(signal));
    }
}

#[test]
fn the_driver_may_be_absent_old_or_busy_and_cards_invisible() {
    for (settings, count, wait) in [
        ("driver absent", "35 0", "35"),
        ("driver old", "35 0", "35"),
        ("driver busy", "0 1", "46"),
        ("cards 0", "100 0", "100"),
    ] {
        let cards = Cards::new(settings);
        assert_eq!(
            Caller::new(&cards).calls(&["count", "wait"]),
            [count, wait],
            "{settings}"
        );
    }
    let cards = Cards::new("cards 3\nmemory 1G\ncontext 100M");
    let see = |list: &str| Caller::with(&cards, &[("CUDA_VISIBLE_DEVICES", list)]);
    assert_eq!(
        see("2,0").calls(&["count", "malloc 200M", "info"]),
        ["0 2", "0", "0 724 1024"]
    );
    assert_eq!(see("").calls(&["count"]), ["100 0"]);
    assert_eq!(
        see("1,7,0").calls(&["count"]),
        ["0 1"],
        "the first wrong one hides the rest"
    );
    assert_eq!(see("GPU-7374616e").calls(&["count"]), ["0 1"]);
    let mut second = see("2");
    assert_eq!(second.calls(&["malloc 200M"]), ["0"]);
    let mut all = Caller::new(&cards);
    assert_eq!(
        all.calls(&["card 2", "info", "card 0", "info"]),
        ["0", "0 624 1024", "0", "0 924 1024"]
    );
}

#[test]
fn operators_compute_what_they_compute_on_the_cpu() {
    let cards = Cards::one();
    let mut check = cards.given_to(Command::new(standin().join("bin/check_operators")));
    let output = check.env("OMP_NUM_THREADS", "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}");
}

/// What libtorch throws where the program of the operators does this.
fn thrown(rules: &str, what: &str) -> String {
    let cards = Cards::with("", rules);
    let mut check = cards.given_to(Command::new(standin().join("bin/check_operators")));
    let output = check.arg(what).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

#[test]
fn a_status_of_cudnns_reaches_libtorch() {
    for (rules, status) in [
        (
            "launch/cudnnCreate=status:5000",
            "CUDNN_STATUS_EXECUTION_FAILED",
        ),
        (
            "launch/cudnnCreate=status:4000",
            "CUDNN_STATUS_INTERNAL_ERROR",
        ),
        ("", "CUDNN_STATUS_NOT_INITIALIZED"),
    ] {
        let said = thrown(rules, "cudnn");
        assert!(said.contains(&format!("cuDNN error: {status}")), "{said}");
    }
}

#[test]
fn memory_of_the_host_that_cannot_be_pinned_is_another_error_than_memory_of_the_card() {
    let said = thrown("", "pinned");
    assert!(said.starts_with("CUDA error: out of memory"), "{said}");
    assert!(!said.contains("Tried to allocate"), "{said}");
}
