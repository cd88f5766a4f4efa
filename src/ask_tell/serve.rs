//! Lines in, lines out.

use std::io::{self, BufRead, ErrorKind, Read, Write};

use super::input::STOPPED;
use super::{Reply, Session, refusal};
use messages::exit::{Exit, Failure};

/// What some programs put before a text; it is no part of it.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Longest line that is read, in bytes, its end included; a longer one is refused.
const LONGEST: u64 = 64 << 20;

/// Answers each line until `close`, the end of the input or a signal (see [`super::Input`]), and
/// ends the session. A reader that has gone away ends it, too.
///
/// # Errors
/// The input cannot be read (2), or the output not be written (1).
pub fn serve(
    input: &mut impl BufRead,
    output: &mut impl Write,
    session: &mut Session,
) -> Result<Exit, Failure> {
    let served = exchange(input, output, session, LONGEST);
    let exit = match &served {
        Ok(exit) => *exit,
        Err(failure) => failure.exit,
    };
    if let Err(problem) = session.end(exit) {
        tracing::warn!("the study could not be ended, its next session will do it: {problem}");
    }
    served
}

fn exchange(
    input: &mut impl BufRead,
    output: &mut impl Write,
    session: &mut Session,
    longest: u64,
) -> Result<Exit, Failure> {
    let unreadable = |e: io::Error| Failure::input(format!("stdin cannot be read: {e}"));
    let mut line = Vec::new();
    let mut first = true;
    loop {
        let read = read_line(input, &mut line, longest);
        let begin = std::mem::take(&mut first).then_some(BYTE_ORDER_MARK);
        let reply = match read {
            Err(e) if e.kind() == STOPPED => return Ok(Exit::Stopped),
            Err(e) => return Err(unreadable(e)),
            Ok(RequestLine::End) => return Ok(Exit::Done),
            Ok(RequestLine::Whole) => session.handle(after(&line, begin)),
            Ok(RequestLine::TooLong) => Reply::Line(refusal(&format!(
                "not read: found a line of more than {longest} bytes"
            ))),
        };
        let mut reply = match reply {
            Reply::Line(reply) => reply,
            Reply::Nothing => continue,
            Reply::Closed => return Ok(Exit::Done),
        };
        reply.push('\n');
        let written = output.write_all(reply.as_bytes());
        match written.and_then(|()| output.flush()) {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::BrokenPipe => return Ok(Exit::Done),
            Err(e) => return Err(Failure::internal(format!("stdout cannot be written: {e}"))),
        }
    }
}

/// The line after what it may begin with.
fn after<'a>(line: &'a [u8], begin: Option<&[u8]>) -> &'a [u8] {
    begin.and_then(|b| line.strip_prefix(b)).unwrap_or(line)
}

enum RequestLine {
    End,
    Whole,
    TooLong,
}

/// Reads a line into `line`; what is too long is read to its end and dropped.
fn read_line(
    input: &mut impl BufRead,
    line: &mut Vec<u8>,
    longest: u64,
) -> io::Result<RequestLine> {
    let mut whole = true;
    loop {
        line.clear();
        let length = input.by_ref().take(longest).read_until(b'\n', line)? as u64;
        let ended = line.last() == Some(&b'\n') || length < longest;
        match (ended, whole) {
            (true, true) if length == 0 => return Ok(RequestLine::End),
            (true, true) => return Ok(RequestLine::Whole),
            (true, false) => return Ok(RequestLine::TooLong),
            (false, _) => whole = false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replies(input: &str, longest: u64) -> Vec<String> {
        let mut session = Session::new(Box::new(|_, _| Err("no database".to_owned())));
        let mut output = Vec::new();
        exchange(&mut input.as_bytes(), &mut output, &mut session, longest).unwrap();
        let text = String::from_utf8(output).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_line_that_is_too_long_is_refused_and_the_next_one_is_read() {
        for junk in [
            "xxxxxxxxxxxxxxx",
            "xxxxxxxxxxxxxxxx",
            "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        ] {
            let replies = replies(&format!("{junk}\n{{\"op\":\"ask\"}}\n"), 16);
            assert_eq!(replies.len(), 2, "{junk}");
            assert!(replies[1].contains("before init"), "{replies:?}");
            assert_eq!(
                replies[0].contains("not read"),
                junk.len() > 15,
                "{replies:?}"
            );
        }
        assert_eq!(replies(&"x".repeat(50), 16).len(), 1);
    }

    #[test]
    fn the_last_line_needs_no_end_and_nothing_is_read_after_close() {
        assert_eq!(replies("{\"op\":\"ask\"}", 1 << 10).len(), 1);
        assert_eq!(replies("\n \r\n\t\n", 1 << 10).len(), 0);
        assert_eq!(
            replies("{\"op\":\"close\"}\n{\"op\":\"ask\"}\n", 1 << 10).len(),
            0
        );
    }

    #[test]
    fn a_byte_order_mark_is_skipped_at_the_beginning_and_nowhere_else() {
        let ask = "\u{feff}{\"op\":\"ask\"}\n";
        let replies = replies(&ask.repeat(2), 1 << 10);
        assert!(replies[0].contains("before init"), "{replies:?}");
        assert!(replies[1].contains("not JSON"), "{replies:?}");
    }

    struct Broken(ErrorKind);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_client_that_has_gone_away_is_no_error_and_a_full_disk_is() {
        let serve = |kind| {
            let mut session = Session::new(Box::new(|_, _| Err("no database".to_owned())));
            serve(&mut "x\n".as_bytes(), &mut Broken(kind), &mut session)
        };
        assert!(serve(ErrorKind::BrokenPipe).is_ok());
        assert!(serve(ErrorKind::StorageFull).is_err());
    }
}
