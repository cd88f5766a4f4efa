//! On which line a CSV record starts. The reader's own count takes line feeds for lines: it knows no
//! others, and between the two characters of a line end it is one behind. And how long a record is: a
//! quote that nobody closes makes one of the whole file, which must not all be read. And whether it has such a
//! quote: the reader takes the end of the file for one that closes it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, Read};
use std::rc::Rc;

use csv::ByteRecord;

/// Line ends, empty lines between them, of which no record has been asked for yet.
#[derive(Debug, Default)]
struct Ends {
    /// `(byte at which they begin, how many)`.
    runs: VecDeque<(u64, usize)>,
    /// Bytes read.
    read: u64,
    /// The last byte read.
    last: u8,
    /// Line ends before the runs.
    passed: usize,
    /// Where the record begins that is being read.
    begun: u64,
    /// Behind the last byte read.
    within: Within,
}

/// What a byte of CSV stands in, as the reader sees it (RFC 4180, and a quote that is not a cell's first character is
/// a character like any other).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Within {
    /// The next byte begins a cell.
    #[default]
    Nothing,
    /// A cell without quotes.
    Cell,
    /// A cell in quotes.
    Quotes,
    /// Such a cell, behind a quote: the one that closes it, or the first of two that mean one.
    Quote,
}

impl Within {
    /// Behind one byte more.
    fn then(self, byte: u8) -> Within {
        match (self, byte) {
            (Within::Quotes, b'"') => Within::Quote,
            (Within::Quotes, _) | (Within::Nothing | Within::Quote, b'"') => Within::Quotes,
            (_, b',' | b'\r' | b'\n') => Within::Nothing,
            (_, _) => Within::Cell,
        }
    }
}

impl Ends {
    fn note(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.within = self.within.then(*byte);
            let ends = matches!(byte, b'\r' | b'\n');
            let follows = self.read > 0 && matches!(self.last, b'\r' | b'\n');
            let second_half = (self.last, *byte) == (b'\r', b'\n');
            match self.runs.back_mut() {
                Some((_, count)) if ends && follows => *count += usize::from(!second_half),
                Some(_) | None if ends => self.runs.push_back((self.read, 1)),
                Some(_) | None => {}
            }
            self.last = *byte;
            self.read += 1;
        }
    }
}

/// The bytes of a reader, with their line ends noted; an error behind a record that has no end.
pub struct Noted<R> {
    inner: R,
    ends: Rc<RefCell<Ends>>,
    longest: u64,
}

impl<R: Read> Read for Noted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // The reader is ahead of the record by its buffer at most.
        let ends = self.ends.borrow();
        if ends.read - ends.begun > self.longest.saturating_add(buffer.len() as u64) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        drop(ends);
        let count = self.inner.read(buffer)?;
        self.ends.borrow_mut().note(&buffer[..count]);
        Ok(count)
    }
}

/// The lines of the records that a CSV reader makes of the bytes.
pub struct Lines(Rc<RefCell<Ends>>);

/// A reader for a CSV reader, without a byte-order mark, and the lines of its records, which have
/// `longest` bytes at most.
pub fn noted<R: Read>(inner: R, longest: u64) -> (Noted<R>, Lines) {
    let ends = Rc::new(RefCell::new(Ends::default()));
    let lines = Lines(Rc::clone(&ends));
    let noted = Noted {
        inner,
        ends,
        longest,
    };
    (noted, lines)
}

/// What a CSV reader has next.
pub enum Next {
    /// A record, which starts on this line, from 1.
    Record(usize),
    /// The end.
    End,
    /// A record that starts on this line and is longer than any may be.
    TooLong(usize),
    /// The last record, which starts on this line and has a quote that is open at the end of the file.
    Open(usize),
}

impl Lines {
    /// Reads the next record, of a reader of the bytes that belong to these lines.
    ///
    /// # Errors
    /// Those of the reader.
    pub fn next<R: Read>(
        &self,
        reader: &mut csv::Reader<Noted<R>>,
        record: &mut ByteRecord,
    ) -> csv::Result<Next> {
        let begun = reader.position().byte();
        self.0.borrow_mut().begun = begun;
        let longest = reader.get_ref().longest;
        match reader.read_byte_record(record) {
            Ok(true) if reader.position().byte() - begun > longest => {
                Ok(Next::TooLong(self.line(begun)))
            }
            Ok(true) if self.is_open(reader) => Ok(Next::Open(self.line(begun))),
            Ok(true) => Ok(Next::Record(self.line(begun))),
            Ok(false) => Ok(Next::End),
            Err(error) if is_too_long(&error) => Ok(Next::TooLong(self.line(begun))),
            Err(error) => Err(error),
        }
    }

    /// Whether the record that was read, or the header, has a quote that nobody closes. The end of the file has ended
    /// it then: a record that ends otherwise leaves no quote open, unless the reader has read ahead.
    pub fn is_open<R: Read>(&self, reader: &csv::Reader<Noted<R>>) -> bool {
        let ends = self.0.borrow();
        ends.within == Within::Quotes && reader.position().byte() == ends.read
    }

    /// The line on which the record starts whose first byte this is, from 1, once it was read. Records
    /// must be asked for in their order.
    fn line(&self, byte: u64) -> usize {
        let mut ends = self.0.borrow_mut();
        // A record's place is behind the first character that ends the one before, and empty lines
        // count as the beginning of the record: so a run that begins before it is before its text.
        while let Some((_, count)) = (ends.runs.front()).filter(|(at, _)| *at <= byte) {
            let count = *count;
            ends.passed += count;
            ends.runs.pop_front();
        }
        ends.passed + 1
    }
}

/// Whether the bytes ended because a record, the header for one, is too long.
pub fn is_too_long(error: &csv::Error) -> bool {
    let csv::ErrorKind::Io(error) = error.kind() else {
        return false;
    };
    error.kind() == io::ErrorKind::FileTooLarge
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        let (all, open) = lines_and_open(text);
        assert_eq!(open, None, "{text:?}");
        all
    }

    /// The lines of the records, and that of one that has an open quote.
    fn lines_and_open(text: &str) -> (Vec<usize>, Option<usize>) {
        let (bytes, lines) = noted(text.as_bytes(), 1000);
        let mut reader = reader(bytes);
        let _header = reader.byte_headers().unwrap();
        let mut record = ByteRecord::new();
        let mut all = Vec::new();
        loop {
            match lines.next(&mut reader, &mut record).unwrap() {
                Next::Record(line) => all.push(line),
                Next::Open(line) => return (all, Some(line)),
                Next::End | Next::TooLong(_) => return (all, None),
            }
        }
    }

    fn reader<R: Read>(bytes: R) -> csv::Reader<R> {
        csv::ReaderBuilder::new()
            .flexible(true)
            .buffer_capacity(3)
            .from_reader(bytes)
    }

    #[test]
    fn a_record_that_does_not_end_is_not_read_to_the_end_of_the_file() {
        let header = b"t,s\n\"two\nlines\",1\n".as_slice();
        for (first, then) in [(b"\"a\n", b"a\nb"), (b"aaa", b"aaa")] {
            let (bytes, lines) = noted(header.chain(Endless { first, then }), 20);
            let mut reader = reader(bytes);
            let _header = reader.byte_headers().unwrap();
            let mut record = ByteRecord::new();
            let mut next = || lines.next(&mut reader, &mut record).unwrap();
            assert!(matches!(next(), Next::Record(2)));
            assert!(matches!(next(), Next::TooLong(4)));
            assert!(lines.0.borrow().read < 60);
        }
        // A header likewise.
        let then = b"aaa";
        let (bytes, _lines) = noted(Endless { first: then, then }, 20);
        let mut reader = reader(bytes);
        assert!(is_too_long(&reader.byte_headers().unwrap_err()));
    }

    #[test]
    fn a_quote_that_is_open_at_the_end_of_the_file_is_found() {
        for (text, open) in [
            ("t,s\na,1\nb,\"2", Some(3)),
            ("t,s\na,1\n\nb,\"2\nc,3\n", Some(4)),
            ("t,s\n\"a\nb\",\"1\"\"\n", Some(2)),
            ("t,s\na,\"1\"\nb,\"2\"\"\"\n", None),
            ("t,s\na,\"1\nb\"", None),
            ("t,s\n5\" b,2\"", None),
            ("t,s\na,\"1\"x\"\n", None),
            ("t,s\na,\"\"", None),
        ] {
            assert_eq!(lines_and_open(text).1, open, "{text:?}");
        }
    }

    #[test]
    fn a_record_of_just_the_greatest_length_is_read() {
        for (longest, read) in [(12, true), (11, false)] {
            let (bytes, lines) = noted(&b"t,s\n123456789,1\n"[..], longest);
            let mut reader = csv::ReaderBuilder::new().from_reader(bytes);
            let _header = reader.byte_headers().unwrap();
            let next = lines.next(&mut reader, &mut ByteRecord::new()).unwrap();
            assert_eq!(matches!(next, Next::Record(2)), read, "{longest}");
        }
    }

    /// Three bytes, then three others again and again.
    struct Endless {
        first: &'static [u8; 3],
        then: &'static [u8; 3],
    }

    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.first.as_slice().read(buffer)?;
            self.first = self.then;
            Ok(count)
        }
    }

    #[test]
    fn records_start_on_the_lines_that_an_editor_shows_whatever_ends_them() {
        for end in ["\n", "\r\n", "\r"] {
            for (text, expected) in [
                ("t,s\na,1\n,2\nc,3\n", &[2, 3, 4][..]),
                ("t,s\na,1\n,2\nc,3", &[2, 3, 4]),
                ("\n\nt,s\n\na,1\n\n\nb,2\n", &[5, 8]),
                ("t,s\n\"a\nb\n\nc\",1\nd,2\n\"\n\",3\ne,4\n", &[2, 6, 7, 9]),
                ("t,s\n", &[]),
            ] {
                let text = text.replace('\n', end);
                assert_eq!(lines(&text), expected, "{text:?}");
            }
        }
    }
}
