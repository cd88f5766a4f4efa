//! Hyperopt's trials, pickled: the `Trials` object, or the list of documents that it holds. Nothing in the pickle is executed.
//!
//! Of each trial its document has the state, the values drawn (`misc.vals`: a list of one for a parameter that was active, an empty
//! one otherwise), and what the objective returned (`result`, with `loss` and `status`). Source: `hyperopt/base.py`, version 0.3.0.
//! Its space is not kept, and of `hp.choice` only the place of what was chosen: [`choose_by_place`].

use std::cell::Cell;
use std::path::Path;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use pickle::{Limits, Object, Objects, Refused, Value as Python};

use super::{Record, State};
use files::bounded;
use search::space::{Domain, Space, Value};
use search::study::FrozenTrial;

/// Longest file that is read, in bytes.
const LONGEST: u64 = 256 << 20;

/// 5,000 trials of 30 parameters take 3,900,000 steps.
const LIMITS: Limits = Limits {
    known: |_| true,
    steps: 12_000_000,
};

/// Most entries of dictionaries that are looked at: one dictionary can be that of every trial, and stand in itself.
const MOST_ENTRIES: usize = 8_000_000;

/// Numbers and times have at most so many bytes.
const MOST_BYTES: usize = 16;

/// So much is kept of an exception's name, and of its text, in characters.
const ERROR: usize = 2000;

/// Whether a file that begins so is a pickle: its protocol, 2 or newer, comes first.
pub(super) fn begins(head: [u8; 2]) -> bool {
    head[0] == 0x80 && (2..=5).contains(&head[1])
}

/// Reads all trials in their order.
pub(super) fn read(file: &Path) -> Result<Vec<Record>, String> {
    let bytes = bounded::read(file, LONGEST).map_err(|e| format!("cannot be read ({e})"))?;
    let pickle = pickle::read(&bytes, LIMITS).map_err(|refused| match refused {
        Refused::Broken(what) => format!("a broken pickle: {what}"),
        Refused::Global(name) => format!("a pickle that asks for {name}"),
    })?;
    let python = Reader::new(&pickle.objects);
    let expected = "expected the Trials object of Hyperopt, or its list of trials, in a pickle";
    let documents = python
        .documents(pickle.value)
        .ok_or_else(|| expected.to_owned())?;
    if documents.is_empty() {
        return Err("it holds no trial".to_owned());
    }
    (0..)
        .zip(documents)
        .map(|(at, document)| {
            let record = python.record(*document);
            record.ok_or_else(|| match python.left.get() {
                0 => {
                    format!("trial {at} and those before it have more than {MOST_ENTRIES} entries")
                }
                _ => format!("trial {at} has no state, misc.vals and result; {expected}"),
            })
        })
        .collect()
}

/// Gives parameters that the space chooses from a list what stands at the place that the trial has instead.
pub fn choose_by_place(trials: &mut [FrozenTrial], space: &Space) {
    for trial in trials {
        for (name, value) in &mut trial.params {
            let domain = space.find(name).map(|(_, parameter)| &parameter.domain);
            let Some(domain @ Domain::Categorical { choices }) = domain else {
                continue;
            };
            let place = match value {
                Value::Int(place) => usize::try_from(*place).ok(),
                Value::Null | Value::Bool(_) | Value::Float(_) | Value::Str(_) => None,
            };
            if let Some(choice) = place.and_then(|place| choices.get(place)) {
                *value = choice.clone();
                trial.distributions.insert(name.clone(), domain.clone());
            }
        }
    }
}

/// What Python's and numpy's objects mean.
struct Reader<'a> {
    objects: &'a Objects,
    /// Entries of dictionaries that may still be looked at.
    left: Cell<usize>,
}

impl<'a> Reader<'a> {
    fn new(objects: &'a Objects) -> Reader<'a> {
        Reader {
            objects,
            left: Cell::new(MOST_ENTRIES),
        }
    }

    /// The entries of a dictionary; `None` as well where there have been too many.
    fn entries(&self, dict: Python) -> Option<&'a [(Python, Python)]> {
        let entries = self.objects.entries(dict)?;
        let left = self.left.get().saturating_sub(entries.len() + 1);
        self.left.set(left);
        (left > 0).then_some(entries)
    }

    /// An entry of a dictionary by its name.
    fn field(&self, dict: Python, name: &str) -> Option<Python> {
        let mut entries = self.entries(dict)?.iter().rev();
        let found = entries.find(|(key, _)| self.objects.text(*key) == Some(name));
        found.map(|(_, value)| *value)
    }

    /// The documents of the trials, of the object or of its list.
    fn documents(&self, value: Python) -> Option<&'a [Python]> {
        let list = match self.objects.call(value) {
            Some((_, _, state)) => self.field(state, "_dynamic_trials")?,
            None => value,
        };
        self.objects.members(list)
    }

    fn record(&self, document: Python) -> Option<Record> {
        let field = |name: &str| self.field(document, name);
        let misc = field("misc")?;
        let result = field("result")?;
        let tid = field("tid").and_then(|tid| self.value(tid))?;
        let mut record = Record {
            name: format!("trial {tid}"),
            start: field("book_time").and_then(|time| self.time(time)),
            end: field("refresh_time").and_then(|time| self.time(time)),
            ..Record::default()
        };
        for (name, drawn) in self.entries(self.field(misc, "vals")?)? {
            let drawn = self.objects.members(*drawn)?.first();
            if let (Some(name), Some(value)) = (self.objects.text(*name), drawn) {
                record.params.insert(name.to_owned(), self.value(*value)?);
            }
        }
        let status = self
            .field(result, "status")
            .and_then(|s| self.objects.text(s));
        record.state = match self.value(field("state")?)?.as_i64()? {
            // JOB_STATE_DONE; an objective that says nothing of a status has returned its loss.
            2 if matches!(status, None | Some("ok")) => State::Ended,
            2..=4 => State::Failed,
            _ => State::Open,
        };
        record.error = self
            .field(misc, "error")
            .and_then(|error| self.error(error));
        self.take_numbers(&mut record, result);
        (self.left.get() > 0).then_some(record)
    }

    /// Every number of what the objective returned, by its name; in dictionaries below it by names with dots.
    fn take_numbers(&self, record: &mut Record, result: Python) {
        let mut left = vec![(String::new(), result)];
        while let Some((above, dict)) = left.pop() {
            for (name, value) in self.entries(dict).unwrap_or_default() {
                let Some(name) = self.objects.text(*name) else {
                    continue;
                };
                let name = format!("{above}{name}");
                match self.value(*value).and_then(|value| value.as_f64()) {
                    Some(x) => drop(record.metrics.insert(name, [(0, x)].into())),
                    None if above.len() < 100 => left.push((format!("{name}."), *value)),
                    None => {}
                }
            }
        }
    }

    /// The name and the text of an exception.
    fn error(&self, error: Python) -> Option<String> {
        let [name, text, ..] = self.objects.members(error)? else {
            return None;
        };
        let start = |part: &Python| -> Option<String> {
            Some(self.objects.text(*part)?.chars().take(ERROR).collect())
        };
        Some(format!("{}: {}", start(name)?, start(text)?))
    }

    /// A number or a truth value, Python's or numpy's.
    fn value(&self, value: Python) -> Option<Value> {
        Some(match value {
            Python::Bool(yes) => Value::Bool(yes),
            Python::Int(number) => Value::Int(number),
            Python::Float(number) => Value::Float(number),
            Python::None => return None,
            Python::Object(_) => return self.scalar(value),
        })
    }

    /// `numpy._core.multiarray.scalar(dtype("f8"), bytes)`; the attributes of the type have its byte order.
    fn scalar(&self, value: Python) -> Option<Value> {
        let (name, [dtype, bytes], _) = self.objects.call(value)? else {
            return None;
        };
        let (_, [word, ..], state) = self.objects.call(*dtype)? else {
            return None;
        };
        if !name.ends_with(".multiarray.scalar") {
            return None;
        }
        let mut bytes = self.bytes(*bytes)?;
        let order = self.objects.members(state).and_then(|state| state.get(1));
        if order.and_then(|order| self.objects.text(*order)) == Some(">") {
            bytes.reverse();
        }
        let bytes = bytes.as_slice();
        Some(match self.objects.text(*word)? {
            "f8" => Value::Float(f64::from_le_bytes(bytes.try_into().ok()?)),
            "f4" => Value::Float(f64::from(f32::from_le_bytes(bytes.try_into().ok()?))),
            "i8" => Value::Int(i64::from_le_bytes(bytes.try_into().ok()?)),
            "i4" => Value::Int(i64::from(i32::from_le_bytes(bytes.try_into().ok()?))),
            "i2" => Value::Int(i64::from(i16::from_le_bytes(bytes.try_into().ok()?))),
            "i1" => Value::Int(i64::from(i8::from_le_bytes(bytes.try_into().ok()?))),
            "u8" => Value::Int(i64::try_from(u64::from_le_bytes(bytes.try_into().ok()?)).ok()?),
            "u4" => Value::Int(i64::from(u32::from_le_bytes(bytes.try_into().ok()?))),
            "u2" => Value::Int(i64::from(u16::from_le_bytes(bytes.try_into().ok()?))),
            "u1" => Value::Int(i64::from(*bytes.first()?)),
            "b1" => Value::Bool(*bytes.first()? != 0),
            _ => return None,
        })
    }

    /// Bytes; before protocol 3 they are a text of Latin-1 that would be encoded.
    fn bytes(&self, value: Python) -> Option<Vec<u8>> {
        if let Object::Bytes(bytes) = self.objects.get(value)? {
            return (bytes.len() <= MOST_BYTES).then(|| bytes.clone());
        }
        let (name, arguments, _) = self.objects.call(value)?;
        let text = self.objects.text(*arguments.first()?)?;
        if name != "_codecs.encode" || text.len() > 2 * MOST_BYTES {
            return None;
        }
        let bytes = text.chars().map(|c| u8::try_from(u32::from(c)).ok());
        bytes.collect()
    }

    /// A `datetime`, which Hyperopt keeps in UTC: year, month, day, hour, minute, second, and microseconds in three bytes.
    fn time(&self, value: Python) -> Option<Timestamp> {
        let (name, arguments, _) = self.objects.call(value)?;
        let bytes = self.bytes(*arguments.first().filter(|_| name == "datetime.datetime")?)?;
        let [y1, y0, month, day, hour, minute, second, u2, u1, u0] =
            bytes.as_slice().try_into().ok()?;
        let microseconds = i32::from_be_bytes([0, u2, u1, u0]);
        let [month, day, hour, minute, second] =
            [month, day, hour, minute, second].map(|n: u8| n as i8);
        let year = i16::from_be_bytes([y1, y0]);
        let nanoseconds = microseconds.checked_mul(1000)?;
        let time = DateTime::new(year, month, day, hour, minute, second, nanoseconds).ok()?;
        Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_data(name: &str) -> Vec<Record> {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/hyperopt");
        read(&data.join(name)).unwrap()
    }

    #[test]
    fn every_protocol_and_version_tells_the_same_trials() {
        let trials = read_data("0.3.0-protocol-4.pkl");
        assert_eq!(trials.len(), 6);
        for name in [
            "0.3.0-protocol-0.pkl",
            "0.3.0-protocol-2.pkl",
            "0.3.0-protocol-5.pkl",
            "0.3.0-list.pkl",
        ] {
            assert_eq!(read_data(name), trials, "{name}");
        }
        // Other numbers are drawn there.
        let older = read_data("0.2.7-protocol-4.pkl");
        assert_eq!(older.len(), 6);
        let names = |record: &Record| record.params.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&older[0]), names(&trials[0]));
    }

    #[test]
    fn what_a_trial_drew_and_returned_is_taken() {
        let trials = read_data("0.3.0-protocol-4.pkl");
        for trial in &trials {
            let sgd = trial.params["opt"] == Value::Int(1);
            assert_eq!(trial.params.contains_key("momentum"), sgd, "{trial:?}");
        }
        assert_eq!(trials[0].name, "trial 0");
        assert_eq!(trials[0].state, State::Ended);
        assert_eq!(trials[0].metrics["more.f1"], [(0, 0.25)].into());
        assert_eq!(trials[0].metrics["acc"], [(0, 0.5)].into());
        assert!(trials[0].end >= trials[0].start && trials[0].start.is_some());
        // Its fourth returned STATUS_FAIL, its sixth raised.
        let states: Vec<State> = trials.iter().map(|trial| trial.state).collect();
        use State::{Ended, Failed};
        assert_eq!(states, [Ended, Ended, Ended, Failed, Ended, Failed]);
        let error = trials[5].error.as_deref().unwrap();
        assert!(error.contains("CUDA error: device-side assert"), "{error}");
    }

    #[test]
    fn scalars_of_numpy_are_read_in_both_byte_orders() {
        let told = |program: &[u8]| {
            let pickle = pickle::read(program, LIMITS).unwrap();
            Reader::new(&pickle.objects).value(pickle.value)
        };
        let scalar = |word: &str, order: &str, bytes: &[u8]| {
            let mut program = b"cnumpy.core.multiarray\nscalar\n(cnumpy\ndtype\n(".to_vec();
            program.extend([0x8c, word.len() as u8]);
            program.extend(word.as_bytes());
            program.extend(b"\x89\x88tR(K\x03\x8c\x01");
            program.extend(order.as_bytes());
            program.extend(b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tbC");
            program.push(bytes.len() as u8);
            program.extend(bytes);
            program.extend(b"tR.");
            told(&program)
        };
        assert_eq!(
            scalar("f8", "<", &0.5f64.to_le_bytes()),
            Some(Value::Float(0.5))
        );
        assert_eq!(
            scalar("f4", ">", &0.5f32.to_be_bytes()),
            Some(Value::Float(0.5))
        );
        assert_eq!(
            scalar("i8", "<", &(-7i64).to_le_bytes()),
            Some(Value::Int(-7))
        );
        assert_eq!(scalar("u1", "|", &[200]), Some(Value::Int(200)));
        assert_eq!(scalar("b1", "|", &[1]), Some(Value::Bool(true)));
        assert_eq!(scalar("f8", "<", &[0; 4]), None);
        assert_eq!(scalar("M8", "<", &[0; 8]), None);
    }

    #[test]
    fn what_holds_no_trials_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("t.pkl");
        for (bytes, expected) in [
            (&b"\x80\x04K\x01."[..], "expected the Trials object"),
            (b"\x80\x04].", "no trial"),
            (b"\x80\x04]}a.", "trial 0 has no state"),
            (b"\x80\x04]", "broken pickle: cut short"),
            (
                b"cos\nsystem\n(\x8c\x05falsetR.",
                "expected the Trials object",
            ),
        ] {
            std::fs::write(&file, bytes).unwrap();
            let error = read(&file).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_dictionary_that_stands_everywhere_is_looked_at_so_often_and_no_more() {
        // Each of thirty dictionaries has the one before it twice.
        let mut program = b"\x80\x04}q\x00".to_vec();
        for at in 0..30 {
            program.extend(b"}(\x8c\x01ah");
            program.push(at);
            program.extend(b"\x8c\x01bh");
            program.push(at);
            program.extend([b'u', b'q', at + 1]);
        }
        // The last is what a trial returned.
        program.extend(b"q\x40](}(\x8c\x03tidK\x00\x8c\x05stateK\x02\x8c\x06resulth\x40\x8c\x04misc}\x8c\x04vals}sue.");
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("t.pkl");
        std::fs::write(&file, program).unwrap();
        let told = read(&file).unwrap_err();
        assert!(told.contains("more than 8000000 entries"), "{told}");
    }

    #[test]
    fn a_place_becomes_what_stands_there() {
        let mut trial = crate::testing::trial(
            0,
            search::study::TrialState::Complete,
            Some(0.5),
            &[("name", Value::Int(1)), ("layers", Value::Int(1))],
        );
        let space = crate::testing::space();
        choose_by_place(std::slice::from_mut(&mut trial), &space);
        let Domain::Categorical { choices } = &space.find("name").unwrap().1.domain else {
            panic!("no choice");
        };
        assert_eq!(trial.params["name"], choices[1]);
        assert_eq!(
            trial.distributions["name"],
            space.find("name").unwrap().1.domain
        );
        assert_eq!(trial.params["layers"], Value::Int(1));
    }
}
