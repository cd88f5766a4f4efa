//! Lines for readers that are slow, or that never read.

use std::sync::mpsc::{self, Receiver, Sender};

use super::*;

/// A stream that takes a write only once it is told to, as a pipe whose reader does not read.
struct Held {
    go_on: Receiver<()>,
    written: Sender<String>,
}

impl Write for Held {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.go_on.recv().map_err(|_| io::ErrorKind::BrokenPipe)?;
        let _ = self
            .written
            .send(String::from_utf8_lossy(bytes).into_owned());
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn held() -> (Outlet, Sender<()>, Receiver<String>) {
    let ((tell, go_on), (written, read)) = (mpsc::channel(), mpsc::channel());
    let output = Output::to(Box::new(Held { go_on, written }));
    let outlet = Outlet::new(output, None, |n| format!("{n} left out")).unwrap();
    (outlet, tell, read)
}

/// Everything that a queue gives.
fn rest(queue: &mut Queue) -> Vec<Next> {
    std::iter::from_fn(|| queue.take()).collect()
}

fn line(text: &str) -> Next {
    Next::Lines(text.to_owned())
}

#[test]
fn what_is_under_way_is_left_out_first_and_counted() {
    let mut queue = Queue::default();
    let long = "x".repeat(ROUTINE - size("") - size("a"));
    queue.push(long.clone(), Worth::Routine);
    queue.push("a".to_owned(), Worth::Routine);
    queue.push("b".to_owned(), Worth::Routine);
    queue.push("c".to_owned(), Worth::Lasting);
    queue.push("d".to_owned(), Worth::Routine);
    let taken = rest(&mut queue);
    assert_eq!(taken, [Next::LeftOut(2), line(&long), line("a"), line("c")]);
    queue.push("e".to_owned(), Worth::Routine);
    assert_eq!(rest(&mut queue), [line("e")]);
    queue.push(long.clone(), Worth::Lasting);
    queue.push("three\nlines\nat once".to_owned(), Worth::Routine);
    assert_eq!(rest(&mut queue), [Next::LeftOut(3), line(&long)]);
}

#[test]
fn what_waits_is_bounded_whoever_reads_and_the_latest_results_are_kept() {
    let mut queue = Queue::default();
    let of = |n: usize| format!("{n} {}", "x".repeat(1000));
    let pushed = 3 * MOST / 1000;
    for n in 0..pushed {
        queue.push(of(n), Worth::Lasting);
        queue.push(String::new(), Worth::Lasting);
        queue.push(of(n), Worth::Routine);
        assert!(queue.bytes <= MOST);
    }
    assert_eq!(
        queue.bytes,
        queue.lines.iter().map(|l| size(l)).sum::<usize>()
    );
    let kept = queue.lines.len() as u64;
    let taken = rest(&mut queue);
    assert_eq!(taken[0], Next::LeftOut(3 * pushed as u64 - kept));
    assert_eq!(taken[taken.len() - 2], Next::Lines(of(pushed - 1)));
    assert_eq!((queue.bytes, queue.lines.len()), (0, 0));
    // A line that is larger than all that may wait is none that may.
    queue.push("x".repeat(MOST), Worth::Lasting);
    assert_eq!(rest(&mut queue), [Next::LeftOut(1)]);
}

#[test]
fn of_the_states_of_a_bar_only_the_latest_is_drawn() {
    let mut queue = Queue::default();
    let standing = |position| Standing {
        length: 9,
        position,
        message: String::new(),
        over: false,
    };
    for position in 0..9 {
        queue.bar = Some(standing(position));
    }
    queue.push("a".to_owned(), Worth::Lasting);
    assert_eq!(rest(&mut queue), [line("a"), Next::Bar(standing(8))]);
    // Nothing is drawn any more among the lines of the end.
    let over = Standing {
        over: true,
        ..standing(9)
    };
    queue.push("b".to_owned(), Worth::Lasting);
    queue.bar = Some(over.clone());
    assert_eq!(rest(&mut queue), [Next::Bar(over), line("b")]);
}

#[test]
fn a_reader_that_does_not_read_keeps_nobody_waiting_and_is_told_what_it_missed() {
    let (outlet, go_on, read) = held();
    let of = |n: usize| format!("{n:09} {}", "x".repeat(990));
    let pushed = 2 * MOST / 1000;
    // Were the writer waited for, this would never end.
    for n in 0..pushed {
        outlet.lines(&[of(n)], Worth::Lasting);
    }
    assert!(outlet.shared.lock().queue.bytes <= MOST);
    for _ in 0..=pushed {
        go_on.send(()).unwrap();
    }
    drop(outlet);
    let lines: Vec<String> = read.try_iter().collect();
    let left_out = lines
        .iter()
        .find_map(|l| l.trim().strip_suffix(" left out"));
    let left_out: usize = left_out.unwrap().parse().unwrap();
    assert_eq!(lines.len() - 1 + left_out, pushed);
    assert_eq!(lines.last().unwrap().trim_end(), of(pushed - 1));
}

#[test]
fn a_reader_that_has_gone_away_silences_the_outlet_and_ends_nothing() {
    let (outlet, go_on, read) = held();
    drop(go_on);
    outlet.lines(&["a".to_owned()], Worth::Lasting);
    outlet.lines(&["b".to_owned()], Worth::Lasting);
    drop(outlet);
    assert_eq!(read.try_iter().count(), 0);
}

#[test]
fn lines_of_one_event_are_written_at_once_and_no_text_makes_another() {
    let (outlet, go_on, read) = held();
    outlet.lines(
        &["a\nforged".to_owned(), "b\x07".to_owned()],
        Worth::Lasting,
    );
    go_on.send(()).unwrap();
    drop(outlet);
    let written: Vec<String> = read.try_iter().collect();
    assert_eq!(written, ["a forged\nb\\u0007\n"]);
}

#[test]
fn a_log_record_is_one_line() {
    let (outlet, go_on, read) = held();
    let records = Records(outlet);
    (&records)
        .write_all(b"WARN a\x1b[2J\n12:00 ERROR forged\n")
        .unwrap();
    go_on.send(()).unwrap();
    records.flush();
    let lines: Vec<String> = read.try_iter().collect();
    assert_eq!(lines, ["WARN a\\u001b[2J 12:00 ERROR forged\n"]);
}

#[test]
fn lines_that_are_kept_back_come_when_the_terminal_is_free_again() {
    let kept_back = KeptBack::new();
    let (outlet, go_on, read) = held();
    go_on.send(()).unwrap();
    outlet.lines(&["a".to_owned()], Worth::Lasting);
    let patience = std::time::Duration::from_millis(50);
    assert!(read.recv_timeout(patience).is_err());
    drop(kept_back);
    assert_eq!(read.recv().unwrap(), "a\n");
}
