//! On which line a CSV record starts. The reader's own count takes line feeds for lines: it knows no
//! others, and between the two characters of a line end it is one behind.

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
}

impl Ends {
    fn note(&mut self, bytes: &[u8]) {
        for byte in bytes {
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

/// The bytes of a reader, with their line ends noted.
pub struct Noted<R> {
    inner: R,
    ends: Rc<RefCell<Ends>>,
}

impl<R: Read> Read for Noted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.ends.borrow_mut().note(&buffer[..count]);
        Ok(count)
    }
}

/// The lines of the records that a CSV reader makes of the bytes.
pub struct Lines(Rc<RefCell<Ends>>);

/// A reader for a CSV reader, without a byte-order mark, and the lines of its records.
pub fn noted<R: Read>(inner: R) -> (Noted<R>, Lines) {
    let ends = Rc::new(RefCell::new(Ends::default()));
    let lines = Lines(Rc::clone(&ends));
    (Noted { inner, ends }, lines)
}

impl Lines {
    /// The line on which a record starts, from 1; 0 where the record does not know its place. Records
    /// must be asked for in their order.
    pub fn of(&self, record: &ByteRecord) -> usize {
        let Some(position) = record.position() else {
            return 0;
        };
        let mut ends = self.0.borrow_mut();
        // A record's place is behind the first character that ends the one before, and empty lines
        // count as the beginning of the record: so a run that begins before it is before its text.
        while let Some((_, count)) = (ends.runs.front()).filter(|(at, _)| *at <= position.byte()) {
            let count = *count;
            ends.passed += count;
            ends.runs.pop_front();
        }
        ends.passed + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        let (bytes, lines) = noted(text.as_bytes());
        let mut reader = csv::ReaderBuilder::new()
            .flexible(true)
            .buffer_capacity(3)
            .from_reader(bytes);
        let _header = reader.byte_headers().unwrap();
        let mut record = ByteRecord::new();
        let mut all = Vec::new();
        while reader.read_byte_record(&mut record).unwrap() {
            all.push(lines.of(&record));
        }
        all
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
