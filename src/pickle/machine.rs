//! The machine that a pickle is a program for, without the opcodes that could run anything.

use std::collections::BTreeMap;

use super::{Call, Limits, Object, Objects, Pickle, Refused, Value};

/// The one class whose calls are made, so that all dictionaries are read alike.
const ORDERED_DICT: &str = "collections.OrderedDict";

/// Longest name of a class or a function with its module, in bytes.
const MAX_NAME: usize = 1000;

/// See [`super::read`].
pub(super) fn run(bytes: &[u8], limits: Limits) -> Result<Pickle, Refused> {
    let mut machine = Machine {
        bytes,
        known: limits.known,
        at: 0,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: BTreeMap::new(),
        objects: Objects::default(),
        steps: 0,
    };
    while machine.steps < limits.steps {
        machine.steps += 1;
        if let Some(value) = machine.step()? {
            return Ok(Pickle {
                objects: machine.objects,
                value,
                length: machine.at,
            });
        }
    }
    broken("more instructions than are carried out")
}

fn broken<T>(what: impl Into<String>) -> Result<T, Refused> {
    Err(Refused::Broken(what.into()))
}

/// What a list or a dictionary of a class of its own holds is not kept; nothing else holds anything.
fn unkept(object: &Object, otherwise: &str) -> Result<(), Refused> {
    match matches!(object, Object::Call(_)) {
        true => Ok(()),
        false => broken(otherwise),
    }
}

struct Machine<'a> {
    bytes: &'a [u8],
    known: fn(&str) -> bool,
    at: usize,
    stack: Vec<Value>,
    marks: Vec<usize>,
    memo: BTreeMap<u32, Value>,
    objects: Objects,
    /// Opcodes carried out and entries copied.
    steps: usize,
}

impl<'a> Machine<'a> {
    /// Carries out one opcode; the value at the end.
    fn step(&mut self) -> Result<Option<Value>, Refused> {
        let opcode = self.array::<1>()?[0];
        match opcode {
            b'.' => return self.pop().map(Some),
            b'(' => self.marks.push(self.stack.len()),
            b'0' => drop(self.pop()?),
            b'1' => drop(self.marked()?),
            b'2' => {
                let top = self.top()?;
                self.stack.push(top);
            }
            // Protocol and frame say how the bytes are cut, which is of no matter here.
            0x80 => drop(self.array::<1>()?),
            0x95 => drop(self.array::<8>()?),
            b'p' | b'q' | b'r' | 0x94 | b'g' | b'h' | b'j' => self.memory(opcode)?,
            b']' | b'l' | b'a' | b'e' | 0x8f..=0x91 => self.lists(opcode)?,
            b'}' | b'd' | b's' | b'u' => self.dicts(opcode)?,
            b')' | b't' | 0x85..=0x87 => self.tuples(opcode)?,
            b'c' | 0x93 | b'i' => self.global(opcode)?,
            b'Q' => {
                let id = self.pop()?;
                self.push(Object::Persistent(id));
            }
            b'R' | 0x81 | 0x92 => self.reduce(opcode)?,
            b'b' => self.build()?,
            b'X' | 0x8c | 0x8d | b'T' | b'U' | b'V' | b'S' => self.texts(opcode)?,
            b'B' | b'C' | 0x8e | 0x96 => self.bytes(opcode)?,
            _ => {
                let value = self.number(opcode)?;
                self.stack.push(value);
            }
        }
        Ok(None)
    }

    fn number(&mut self, opcode: u8) -> Result<Value, Refused> {
        Ok(match opcode {
            b'N' => Value::None,
            0x88 => Value::Bool(true),
            0x89 => Value::Bool(false),
            b'J' => Value::Int(i64::from(i32::from_le_bytes(self.array()?))),
            b'K' => Value::Int(i64::from(self.array::<1>()?[0])),
            b'M' => Value::Int(i64::from(u16::from_le_bytes(self.array()?))),
            b'G' => Value::Float(f64::from_be_bytes(self.array()?)),
            0x8a | 0x8b => {
                let length = match opcode {
                    0x8a => u32::from(self.array::<1>()?[0]),
                    _ => u32::from_le_bytes(self.array()?),
                };
                integer(self.take(u64::from(length))?)
            }
            b'I' | b'L' => match self.line()?.trim_end_matches('L') {
                "00" => Value::Bool(false),
                "01" => Value::Bool(true),
                text => match (text.parse(), text.parse()) {
                    (Ok(number), _) => Value::Int(number),
                    (Err(_), Ok(number)) => Value::Float(number),
                    (Err(_), Err(_)) => return broken("an integer that is none"),
                },
            },
            b'F' => match self.line()?.parse() {
                Ok(number) => Value::Float(number),
                Err(_) => return broken("a number that is none"),
            },
            other => return broken(format!("the instruction 0x{other:02x}")),
        })
    }

    fn texts(&mut self, opcode: u8) -> Result<(), Refused> {
        let text = match opcode {
            b'V' => unescaped(self.raw_line()?),
            b'S' => self.line()?.trim_matches(['\'', '"']).to_owned(),
            _ => match std::str::from_utf8(self.counted(opcode)?) {
                Ok(text) => text.to_owned(),
                Err(_) => return broken("a string that is not UTF-8"),
            },
        };
        self.push(Object::Text(text));
        Ok(())
    }

    fn bytes(&mut self, opcode: u8) -> Result<(), Refused> {
        let bytes = self.counted(opcode)?.to_owned();
        self.push(Object::Bytes(bytes));
        Ok(())
    }

    /// The bytes of a string, behind their number.
    fn counted(&mut self, opcode: u8) -> Result<&'a [u8], Refused> {
        let length = match opcode {
            0x8c | b'U' | b'C' => u64::from(self.array::<1>()?[0]),
            0x8d | 0x8e | 0x96 => u64::from_le_bytes(self.array()?),
            _ => u64::from(u32::from_le_bytes(self.array()?)),
        };
        self.take(length)
    }

    fn memory(&mut self, opcode: u8) -> Result<(), Refused> {
        let index = match opcode {
            b'q' | b'h' => u32::from(self.array::<1>()?[0]),
            b'r' | b'j' => u32::from_le_bytes(self.array()?),
            0x94 => self.memo.len() as u32,
            _ => match self.line()?.parse() {
                Ok(index) => index,
                Err(_) => return broken("a reference that is none"),
            },
        };
        if matches!(opcode, b'g' | b'h' | b'j') {
            match self.memo.get(&index) {
                Some(value) => self.stack.push(*value),
                None => return broken("a reference to nothing"),
            }
        } else {
            let top = self.top()?;
            self.memo.insert(index, top);
        }
        Ok(())
    }

    fn lists(&mut self, opcode: u8) -> Result<(), Refused> {
        let new = match opcode {
            b']' | 0x8f => return self.make(Object::List(Vec::new())),
            b'a' => vec![self.pop()?],
            _ => self.marked()?,
        };
        if matches!(opcode, b'l' | 0x91) {
            return self.make(Object::List(new));
        }
        let top = self.top()?;
        let object = self.object(top)?;
        if let Object::List(all) = object {
            all.extend(new);
            return Ok(());
        }
        unkept(object, "something appended to what is no list")
    }

    fn dicts(&mut self, opcode: u8) -> Result<(), Refused> {
        let flat = match opcode {
            b'}' => return self.make(Object::Dict(Vec::new())),
            b's' => {
                let value = self.pop()?;
                vec![self.pop()?, value]
            }
            _ => self.marked()?,
        };
        if flat.len() % 2 == 1 {
            return broken("a key without a value");
        }
        let new = flat.chunks_exact(2).map(|pair| (pair[0], pair[1]));
        if opcode == b'd' {
            let all = new.collect();
            return self.make(Object::Dict(all));
        }
        let top = self.top()?;
        let object = self.object(top)?;
        if let Object::Dict(all) = object {
            all.extend(new);
            return Ok(());
        }
        unkept(object, "an entry of what is no dictionary")
    }

    fn tuples(&mut self, opcode: u8) -> Result<(), Refused> {
        let count = match opcode {
            b')' => 0,
            b't' => {
                let all = self.marked()?;
                return self.make(Object::Tuple(all));
            }
            _ => usize::from(opcode - 0x84),
        };
        if self.stack.len() < count {
            return broken("a tuple of more than there is");
        }
        let all = self.stack.split_off(self.stack.len() - count);
        self.make(Object::Tuple(all))
    }

    /// A name of Python's: known, or the end.
    fn global(&mut self, opcode: u8) -> Result<(), Refused> {
        let full = if opcode == 0x93 {
            let (name, module) = (self.pop()?, self.pop()?);
            match (self.objects.text(module), self.objects.text(name)) {
                // One text can be named again and again.
                (Some(module), Some(name)) if module.len() + name.len() <= MAX_NAME => {
                    format!("{module}.{name}")
                }
                _ => return broken("a name that is none"),
            }
        } else {
            let module = self.line()?.to_owned();
            format!("{module}.{}", self.line()?)
        };
        // An instruction that also calls it, of Python 2's.
        if opcode == b'i' || !(self.known)(&full) {
            let shown: String = full.chars().take(100).collect();
            return Err(Refused::Global(shown.escape_debug().to_string()));
        }
        self.make(Object::Global(full))
    }

    /// A call, kept as what it is.
    fn reduce(&mut self, opcode: u8) -> Result<(), Refused> {
        if opcode == 0x92 {
            // Arguments by name.
            self.pop()?;
        }
        let (arguments, callee) = (self.pop()?, self.pop()?);
        let called = self.objects.get(callee);
        // What is called may be a class that would have been made first.
        if !matches!(called, Some(Object::Global(_) | Object::Call(_))) {
            return broken("a call of something that is no function");
        }
        let ordered = matches!(called, Some(Object::Global(name)) if name == ORDERED_DICT);
        let Some(given) = self.objects.members(arguments) else {
            return broken("a call without arguments");
        };
        let made = match (ordered, given) {
            (true, []) => Some(Object::Dict(Vec::new())),
            (true, [pairs]) => {
                let pairs = self.pairs(*pairs);
                // One list can be copied again and again.
                self.steps += pairs.as_ref().map_or(0, Vec::len);
                pairs.map(Object::Dict)
            }
            (true, _) => None,
            (false, _) => Some(Object::Call(Call {
                callee,
                arguments,
                state: Value::None,
            })),
        };
        match made {
            Some(object) => self.make(object),
            None => broken("a dictionary of what is no pairs"),
        }
    }

    fn pairs(&self, list: Value) -> Option<Vec<(Value, Value)>> {
        let all = self.objects.members(list)?.iter();
        all.map(|pair| match self.objects.members(*pair)? {
            [key, value] => Some((*key, *value)),
            _ => None,
        })
        .collect()
    }

    /// Attributes. Those of a dictionary (`_metadata` in a file of `torch.save`) are dropped.
    fn build(&mut self) -> Result<(), Refused> {
        let attributes = self.pop()?;
        let top = self.top()?;
        let object = self.object(top)?;
        if let Object::Call(call) = object {
            call.state = attributes;
        } else if !matches!(object, Object::Dict(_)) {
            return broken("attributes of what has none");
        }
        Ok(())
    }

    fn make(&mut self, object: Object) -> Result<(), Refused> {
        self.push(object);
        Ok(())
    }

    fn push(&mut self, object: Object) {
        let value = self.objects.add(object);
        self.stack.push(value);
    }

    fn object(&mut self, value: Value) -> Result<&mut Object, Refused> {
        match value {
            Value::Object(at) => match self.objects.0.get_mut(at) {
                Some(object) => Ok(object),
                None => broken("a reference to nothing"),
            },
            Value::None | Value::Bool(_) | Value::Int(_) | Value::Float(_) => {
                broken("a plain value where a list or a dictionary was expected")
            }
        }
    }

    fn pop(&mut self) -> Result<Value, Refused> {
        // What lies below the last mark is not to be had before the mark is gone.
        let floor = self.marks.last().copied().unwrap_or(0);
        match self.stack.len() > floor {
            true => Ok(self.stack.pop().unwrap_or(Value::None)),
            false => broken("more taken than there is"),
        }
    }

    fn top(&self) -> Result<Value, Refused> {
        match self.stack.last() {
            Some(value) => Ok(*value),
            None => broken("more taken than there is"),
        }
    }

    /// Everything above the last mark.
    fn marked(&mut self) -> Result<Vec<Value>, Refused> {
        match self.marks.pop() {
            Some(mark) if mark <= self.stack.len() => Ok(self.stack.split_off(mark)),
            Some(_) | None => broken("a mark that is not there"),
        }
    }

    fn take(&mut self, count: u64) -> Result<&'a [u8], Refused> {
        let left = (self.bytes.len() - self.at) as u64;
        if count > left {
            return broken("cut short");
        }
        let from = self.at;
        self.at += count as usize;
        Ok(&self.bytes[from..self.at])
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Refused> {
        let mut all = [0; N];
        all.copy_from_slice(self.take(N as u64)?);
        Ok(all)
    }

    fn raw_line(&mut self) -> Result<&'a [u8], Refused> {
        let rest: &'a [u8] = &self.bytes[self.at..];
        let Some(length) = rest.iter().position(|b| *b == b'\n') else {
            return broken("cut short");
        };
        self.at += length + 1;
        Ok(&rest[..length])
    }

    fn line(&mut self) -> Result<&'a str, Refused> {
        match std::str::from_utf8(self.raw_line()?) {
            Ok(line) => Ok(line.trim_end_matches('\r')),
            Err(_) => broken("a line that is not UTF-8"),
        }
    }
}

/// A string of protocol 0, which is Latin-1 with `\uXXXX` and `\UXXXXXXXX` for all else.
fn unescaped(line: &[u8]) -> String {
    let mut text = String::new();
    let mut at = 0;
    while let Some(byte) = line.get(at) {
        let digits = match line.get(at..at + 2) {
            Some(b"\\u") => 4,
            Some(b"\\U") => 8,
            _ => 0,
        };
        let escaped = (digits > 0)
            .then(|| line.get(at + 2..at + 2 + digits))
            .flatten()
            .and_then(|hex| u32::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok())
            .and_then(char::from_u32);
        text.push(escaped.unwrap_or(char::from(*byte)));
        at += if escaped.is_some() { 2 + digits } else { 1 };
    }
    text
}

/// An integer in two's complement, least byte first.
fn integer(bytes: &[u8]) -> Value {
    let negative = bytes.last().is_some_and(|b| *b >= 0x80);
    if bytes.len() > 8 {
        let digits = bytes.iter().rev();
        let size = digits.fold(0.0, |sum, byte| sum * 256.0 + f64::from(*byte));
        let wrapped = if negative {
            256f64.powi(bytes.len() as i32)
        } else {
            0.0
        };
        return Value::Float(size - wrapped);
    }
    let mut all = [if negative { 0xff } else { 0 }; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    Value::Int(i64::from_le_bytes(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        known: |name| name != "os.system",
        steps: 2_000_000,
    };

    fn told(program: &[u8]) -> String {
        match run(program, LIMITS) {
            Ok(_) => "read".to_owned(),
            Err(refused) => format!("{refused:?}"),
        }
    }

    #[test]
    fn a_list_that_is_copied_again_and_again_ends_by_the_limit_of_steps() {
        // One list of 100,000 pairs; then a dictionary of it, as often as the bytes allow.
        let mut program = b"]q\x00(NN\x86".to_vec();
        program.extend(vec![b'2'; 100_000]);
        program.extend(b"eccollections\nOrderedDict\nq\x01");
        program.extend(b"h\x01h\x00\x85R".repeat(100_000));
        program.push(b'.');
        assert!(
            told(&program).contains("more instructions"),
            "{}",
            told(&program)
        );
    }

    #[test]
    fn instructions_without_end_are_not_all_carried_out() {
        let mut program = vec![b')'; LIMITS.steps];
        program.push(b'.');
        assert!(told(&program).contains("more instructions"));
        assert_eq!(told(b"]."), "read");
    }

    #[test]
    fn a_long_text_is_no_name() {
        let named = |length: usize| {
            let texts = format!("V{}\nVb\n", "a".repeat(length));
            told(&[texts.as_bytes(), b"\x93."].concat())
        };
        assert_eq!(named(MAX_NAME - 1), "read");
        assert!(named(MAX_NAME).contains("a name that is none"));
    }

    #[test]
    fn lengths_that_are_only_announced_allocate_nothing() {
        for program in [
            &b"\x8b\xff\xff\xff\x7f."[..],
            b"X\xff\xff\xff\xff.",
            b"\x8d\xff\xff\xff\xff\xff\xff\xff\x7f.",
            b"T\xff\xff\xff\x7f.",
        ] {
            assert!(told(program).contains("cut short"), "{}", told(program));
        }
    }

    #[test]
    fn what_is_called_is_named_and_kept_and_never_made() {
        let refused = run(b"cos\nsystem\n.", LIMITS).unwrap_err();
        assert_eq!(refused, Refused::Global("os.system".to_owned()));
        // A class of Python 2's is made by the instruction that names it.
        let refused = run(b"(ia\nB\n.", LIMITS).unwrap_err();
        assert_eq!(refused, Refused::Global("a.B".to_owned()));
        for call in [&b"R"[..], b"\x81", b"}\x92"] {
            let program = [b"ca\nB\n(K\x07t", call, b"}\x8c\x01xK\x02sb."].concat();
            let pickle = run(&program, LIMITS).unwrap();
            let (name, arguments, state) = pickle.objects.call(pickle.value).unwrap();
            assert_eq!((name, arguments), ("a.B", &[Value::Int(7)][..]));
            let x = pickle.objects.field(state, "x");
            assert_eq!(x, Some(Value::Int(2)), "{call:?}");
        }
        // An object of a class that a call would have made has no name.
        let pickle = run(b"ca\nmade\n)R)\x81.", LIMITS).unwrap();
        assert!(matches!(
            pickle.objects.get(pickle.value),
            Some(Object::Call(_))
        ));
        assert_eq!(pickle.objects.call(pickle.value), None);
    }

    #[test]
    fn all_protocols_have_their_own_words_for_plain_values() {
        let one = |program: &[u8]| run(program, LIMITS).unwrap();
        for (program, expected) in [
            (&b"I7\n."[..], Value::Int(7)),
            (b"L7L\n.", Value::Int(7)),
            (b"F0.5\n.", Value::Float(0.5)),
            (b"I01\n.", Value::Bool(true)),
            (b"\x8a\x01\xff.", Value::Int(-1)),
            (
                b"\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01.",
                Value::Float(2f64.powi(64)),
            ),
            (
                b"\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\xff.",
                Value::Float(-(2f64.powi(64))),
            ),
            (b"I18446744073709551616\n.", Value::Float(2f64.powi(64))),
        ] {
            assert_eq!(one(program).value, expected, "{program:?}");
        }
        for (program, expected) in [
            (&b"Va\xe9\\u000ab\\U0001f600\\ux.\n."[..], "aé\nb😀\\ux."),
            (b"\x8c\x02\xc3\xa9.", "é"),
            (b"S'old'\n.", "old"),
        ] {
            let pickle = one(program);
            assert_eq!(pickle.objects.text(pickle.value), Some(expected));
        }
        for program in [&b"C\x02\x00\xff."[..], b"B\x02\0\0\0\x00\xff."] {
            let pickle = one(program);
            let bytes = pickle.objects.get(pickle.value);
            assert_eq!(bytes, Some(&Object::Bytes(vec![0, 0xff])));
        }
        for program in [
            &b"\x8f(K\x01K\x02\x90."[..],
            b"(K\x01K\x02\x91.",
            b"(K\x01K\x02l.",
        ] {
            let pickle = one(program);
            let members = pickle.objects.members(pickle.value).unwrap();
            assert_eq!(members, [Value::Int(1), Value::Int(2)]);
        }
    }
}
