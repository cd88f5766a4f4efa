//! The worker's loop, driven through a real socket pair.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, send, socketpair};

use super::*;
use ::memory::Usage;
use config::{Objective, Operation};
use protocol::{Assembler, AttemptEvent, MAX_PACKET, packets};
use search::space::{Params, Space};
use search::study::{Direction, Purpose};
use task::Epoch;

/// Logs to the file only.
struct FileOutput;

impl Output for FileOutput {
    fn begin(&mut self, path: &Path, head: &str) -> io::Result<()> {
        std::fs::write(path, head)
    }

    fn discard(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Supervisor(OwnedFd);

impl Supervisor {
    fn tell(&self, message: &ToWorker) {
        for packet in packets(message).unwrap() {
            send(self.0.as_raw_fd(), &packet, MsgFlags::MSG_NOSIGNAL).unwrap();
        }
    }

    fn hear(&self) -> FromWorker {
        let mut buffer = vec![0; MAX_PACKET];
        let mut assembler = Assembler::default();
        loop {
            let length = recv(self.0.as_raw_fd(), &mut buffer, MsgFlags::empty()).unwrap();
            if let Some(message) = assembler.push(&buffer[..length]).unwrap() {
                return message;
            }
        }
    }

    /// The next message that is no sign of life.
    fn hear_news(&self) -> FromWorker {
        loop {
            let message = self.hear();
            if !matches!(message, FromWorker::Attempt(_, AttemptEvent::Stepped(_))) {
                return message;
            }
        }
    }
}

/// Runs `script` as the supervisor of a worker; gives the worker's exit status.
fn supervise(script: impl FnOnce(&Supervisor)) -> anyhow::Result<i32> {
    let (ours, theirs) = socketpair(
        AddressFamily::Unix,
        SockType::SeqPacket,
        None,
        SockFlag::SOCK_CLOEXEC,
    )?;
    let link = Arc::new(Link::new(theirs)?);
    let inbox = link::read(link.clone(), |_| {})?;
    let worker = std::thread::spawn(move || run(&NO_LIBTORCH, &link, &inbox, &mut FileOutput));
    let supervisor = Supervisor(ours);
    assert!(matches!(
        supervisor.hear(),
        FromWorker::Hello {
            protocol: VERSION,
            ..
        }
    ));
    script(&supervisor);
    drop(supervisor);
    worker.join().unwrap()
}

fn study(kind: &str) -> StudySpec {
    StudySpec {
        task: "t".into(),
        kind: kind.into(),
        file: "t.toml".into(),
        study: "t".into(),
        objective: Objective {
            metric: "loss".into(),
            direction: Direction::Minimize,
        },
        further: vec![],
        seed: 0,
        space: Space::default(),
        fixed: Params::new(),
        sources: Default::default(),
        lists: BTreeMap::new(),
        models: BTreeMap::new(),
        points: vec![],
        operation: Operation::sample(1),
    }
}

fn open(supervisor: &Supervisor, kind: &str) {
    supervisor.tell(&ToWorker::Open {
        spec: Box::new(study(kind)),
        device: Device::Cpu,
        rehearse: None,
    });
}

/// Tells to run trial 4, with two epochs; `without` leaves a key out.
fn run_trial(supervisor: &Supervisor, log: &str, without: Option<&str>) {
    run_trial_with(supervisor, log, without, None);
}

/// The same with a directory for checkpoints.
fn run_trial_with(
    supervisor: &Supervisor,
    log: &str,
    without: Option<&str>,
    checkpoint: Option<&str>,
) {
    let kind = config::kinds::kind("synthetic").unwrap();
    let mut config: Params = kind
        .keys
        .iter()
        .filter_map(|k| Some((k.name.to_owned(), k.preset.value()?)))
        .collect();
    config.insert("train.epochs".into(), 2.into());
    if let Some(key) = without {
        config.remove(key);
    }
    supervisor.tell(&ToWorker::Run {
        trial: Box::new(TrialSpec {
            number: 4,
            purpose: Purpose::Search,
            attempt: 0,
            seed: 9,
            params: Params::new(),
            config,
            halvings: 0,
            rehearse: None,
            rows: None,
        }),
        log: log.into(),
        max_log_bytes: 1 << 20,
        checkpoint: checkpoint.map(str::to_owned),
        keep_best: None,
        grant: None,
    });
}

fn answer_epoch(supervisor: &Supervisor, expected: u32, prune: bool) {
    let FromWorker::Attempt(_, AttemptEvent::EpochFinished(Epoch { epoch, metrics })) =
        supervisor.hear_news()
    else {
        panic!("expected an epoch")
    };
    assert_eq!(epoch, expected);
    assert!(metrics["loss"].is_finite());
    supervisor.tell(&ToWorker::Decided { prune });
}

/// What it measured of its attempt, which it says before anything else about the end.
fn measured(supervisor: &Supervisor) -> Usage {
    let FromWorker::Attempt(_, AttemptEvent::Measured(usage)) = supervisor.hear_news() else {
        panic!("expected what was measured")
    };
    usage
}

fn ended(supervisor: &Supervisor) -> Ended {
    let usage = measured(supervisor);
    assert!(usage.resident.unwrap() >= 1 << 20 && usage.resident_before.is_some());
    assert_eq!(usage.reserved, None, "there is no GPU");
    let FromWorker::Attempt(_, AttemptEvent::Ended(ended)) = supervisor.hear_news() else {
        panic!("expected the end")
    };
    ended
}

#[test]
fn trials_complete_are_pruned_and_fail_in_one_process() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let log = log.to_str().unwrap();
    let status = supervise(|s| {
        open(s, "synthetic");
        assert_eq!(s.hear(), FromWorker::Ready);
        run_trial(s, log, None);
        assert!(matches!(
            s.hear(),
            FromWorker::Attempt(_, AttemptEvent::Stepped(1))
        ));
        answer_epoch(s, 1, false);
        answer_epoch(s, 2, false);
        assert_eq!(ended(s), Ended::Completed);
        run_trial(s, log, Some("optim.lr"));
        assert!(measured(s).resident.is_some());
        let FromWorker::Attempt(_, AttemptEvent::Failed(error)) = s.hear_news() else {
            panic!("expected a failure")
        };
        assert!(error.text.contains("optim.lr"));
        assert_eq!(error.healthy, Some(true));
        run_trial(s, log, None);
        answer_epoch(s, 1, true);
        assert_eq!(ended(s), Ended::Pruned);
        s.tell(&ToWorker::Exit);
    });
    assert_eq!(status.unwrap(), 0);
    assert!(
        std::fs::read_to_string(log)
            .unwrap()
            .starts_with("=== trial 4 attempt 0")
    );
}

#[test]
fn exit_in_the_middle_of_a_trial_is_no_failure_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let status = supervise(|s| {
        open(s, "synthetic");
        assert_eq!(s.hear(), FromWorker::Ready);
        run_trial(s, log.to_str().unwrap(), None);
        assert!(matches!(
            s.hear_news(),
            FromWorker::Attempt(_, AttemptEvent::EpochFinished(_))
        ));
        s.tell(&ToWorker::Exit);
    });
    assert_eq!(status.unwrap(), 0);
}

#[test]
fn a_task_that_cannot_be_opened_is_reported_before_the_process_ends() {
    let status = supervise(|s| {
        open(s, "no such kind");
        let FromWorker::Fatal(error) = s.hear() else {
            panic!("expected its last message")
        };
        assert_eq!(error.phase, Phase::Opening);
        assert!(error.text.contains("no such kind"));
    });
    assert_eq!(status.unwrap(), 1);
}

#[test]
fn a_log_that_cannot_be_written_keeps_nobody_from_training() {
    let status = supervise(|s| {
        open(s, "synthetic");
        assert_eq!(s.hear(), FromWorker::Ready);
        run_trial(s, "/no/such/directory/log", None);
        let news = s.hear_news();
        assert!(
            matches!(
                news,
                FromWorker::Attempt(_, AttemptEvent::EpochFinished(Epoch { epoch: 1, .. }))
            ),
            "{news:?}"
        );
        s.tell(&ToWorker::Exit);
    });
    assert_eq!(status.unwrap(), 0);
}

#[test]
fn a_checkpoint_that_cannot_be_written_is_told_once_and_the_training_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a-file");
    std::fs::write(&file, "").unwrap();
    let log = directory.path().join("log");
    let status = supervise(|s| {
        open(s, "synthetic");
        assert_eq!(s.hear(), FromWorker::Ready);
        let below = file.join("checkpoint");
        run_trial_with(s, log.to_str().unwrap(), None, below.to_str());
        answer_epoch(s, 1, false);
        let FromWorker::Attempt(_, AttemptEvent::Warned(what)) = s.hear_news() else {
            panic!("expected what was not written")
        };
        assert!(
            what.starts_with("its checkpoint could not be kept: "),
            "{what}"
        );
        answer_epoch(s, 2, false);
        assert_eq!(ended(s), Ended::Completed);
        s.tell(&ToWorker::Exit);
    });
    assert_eq!(status.unwrap(), 0);
}

/// Fails each time with the next text.
struct Failing(Vec<&'static str>);

impl Task for Failing {
    fn run(&mut self, _: &TrialSpec, _: &mut dyn task::Reporter) -> anyhow::Result<Ended> {
        anyhow::bail!(self.0.remove(0))
    }
}

fn meter() -> Meter {
    match Meter::open(&NO_LIBTORCH, Device::Cpu, true, &[]).unwrap() {
        Opened::Open(meter) => meter,
        Opened::NotExpandable(error) => panic!("{error}"),
    }
}

/// What a worker with such a task does attempt by attempt: its exit status, if it leaves.
fn outcomes(texts: &[&'static str]) -> Vec<Option<i32>> {
    let (_ours, theirs) = socketpair(
        AddressFamily::Unix,
        SockType::SeqPacket,
        None,
        SockFlag::SOCK_CLOEXEC,
    )
    .unwrap();
    let link = Link::new(theirs).unwrap();
    let (_sender, inbox) = std::sync::mpsc::channel();
    let directory = tempfile::tempdir().unwrap();
    let mut worker = Worker {
        libtorch: &NO_LIBTORCH,
        in_process: true,
        meter: meter(),
        link: &link,
        inbox: &inbox,
        output: &mut FileOutput,
        shown: Device::Cpu,
        device: Device::Cpu,
        task: ManuallyDrop::new(Box::new(Failing(texts.to_vec()))),
        inject: None,
        objective: study("synthetic").objective,
        cuda_errors: 0,
    };
    let trial = TrialSpec {
        number: 0,
        purpose: Purpose::Search,
        attempt: 0,
        seed: 0,
        params: Params::new(),
        config: Params::new(),
        halvings: 0,
        rehearse: None,
        rows: None,
    };
    let files = || AttemptFiles {
        log: directory.path().join("log"),
        max_log_bytes: 1 << 20,
        checkpoints: None,
        candidates: None,
        grant: None,
    };
    texts
        .iter()
        .map(|_| worker.attempt(&trial, files()).unwrap())
        .collect()
}

#[test]
fn the_third_cuda_error_in_a_row_ends_the_process() {
    let transient = "CUDA error: invalid argument";
    assert_eq!(outcomes(&[transient; 3]), [None, None, Some(70)]);
    let oom = "CUDA out of memory. Tried to allocate 16.00 MiB";
    assert_eq!(outcomes(&[oom; 4]), [None; 4]);
}

#[test]
fn a_sticky_error_ends_the_process_at_once() {
    let sticky = "CUDA error: an illegal memory access was encountered";
    assert_eq!(outcomes(&[sticky]), [Some(70)]);
    assert_eq!(outcomes(&["shape mismatch"]), [None]);
}
