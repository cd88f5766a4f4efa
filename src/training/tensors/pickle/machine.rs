//! The machine that a pickle is a program for, without the opcodes that could run anything.

use std::collections::BTreeMap;

use super::{Global, Object, Objects, Pickle, Refused, StorageRef, TensorRef, Value};

/// Most opcodes that are carried out, and most entries that are copied. A dictionary of 10,000 tensors
/// takes some 400,000.
const MAX_STEPS: usize = 2_000_000;

/// Most dimensions of a tensor: PyTorch's own limit.
const MAX_DIMENSIONS: usize = 64;

/// Longest name of a storage, in bytes. They are numbers.
const MAX_KEY: usize = 256;

/// See [`super::read`].
pub(super) fn run(bytes: &[u8]) -> Result<Pickle, Refused> {
    let mut machine = Machine {
        bytes,
        at: 0,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: BTreeMap::new(),
        objects: Objects::default(),
        steps: 0,
    };
    while machine.steps < MAX_STEPS {
        machine.steps += 1;
        if let Some(value) = machine.step()? {
            return Ok(Pickle {
                objects: machine.objects,
                value,
                length: machine.at,
            });
        }
    }
    broken("more instructions than any dictionary of tensors has")
}

fn broken<T>(what: impl Into<String>) -> Result<T, Refused> {
    Err(Refused::Broken(what.into()))
}

struct Machine<'a> {
    bytes: &'a [u8],
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
            b']' | b'l' | b'a' | b'e' => self.lists(opcode)?,
            b'}' | b'd' | b's' | b'u' => self.dicts(opcode)?,
            b')' | b't' | 0x85..=0x87 => self.tuples(opcode)?,
            b'c' | 0x93 | b'i' => self.global(opcode)?,
            b'Q' => self.persistent()?,
            b'R' => self.reduce()?,
            b'b' => self.build()?,
            b'X' | 0x8c | 0x8d | b'T' | b'U' | b'V' | b'S' => self.texts(opcode)?,
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
                Value::Int(integer(self.take(u64::from(length))?)?)
            }
            b'I' | b'L' => match self.line()?.trim_end_matches('L') {
                "00" => Value::Bool(false),
                "01" => Value::Bool(true),
                text => match text.parse() {
                    Ok(number) => Value::Int(number),
                    Err(_) => return broken("an integer that is none"),
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
            b'V' => self.line()?.to_owned(),
            b'S' => self.line()?.trim_matches(['\'', '"']).to_owned(),
            _ => {
                let length = match opcode {
                    0x8c | b'U' => u64::from(self.array::<1>()?[0]),
                    0x8d => u64::from_le_bytes(self.array()?),
                    _ => u64::from(u32::from_le_bytes(self.array()?)),
                };
                match std::str::from_utf8(self.take(length)?) {
                    Ok(text) => text.to_owned(),
                    Err(_) => return broken("a string that is not UTF-8"),
                }
            }
        };
        self.push(Object::Text(text));
        Ok(())
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
            b']' => return self.make(Object::List(Vec::new())),
            b'a' => vec![self.pop()?],
            _ => self.marked()?,
        };
        if opcode == b'l' {
            return self.make(Object::List(new));
        }
        let top = self.top()?;
        let Object::List(all) = self.object(top)? else {
            return broken("something appended to what is no list");
        };
        all.extend(new);
        Ok(())
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
        let Object::Dict(all) = self.object(top)? else {
            return broken("an entry of what is no dictionary");
        };
        all.extend(new);
        Ok(())
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
                (Some(module), Some(name)) => format!("{module}.{name}"),
                _ => return broken("a name that is none"),
            }
        } else {
            let module = self.line()?.to_owned();
            format!("{module}.{}", self.line()?)
        };
        match known(&full).filter(|_| opcode != b'i') {
            Some(global) => self.make(Object::Global(global)),
            None => {
                let shown: String = full.chars().take(100).collect();
                Err(Refused::Global(shown.escape_debug().to_string()))
            }
        }
    }

    /// `("storage", type, key, device, values)` and, in old files, a view of another storage.
    fn persistent(&mut self) -> Result<(), Refused> {
        let id = self.pop()?;
        let objects = &self.objects;
        let found = objects.members(id).and_then(|all| {
            let [kind, dtype, key, _, numel, rest @ ..] = all else {
                return None;
            };
            let Some(Object::Global(Global::Storage(dtype))) = objects.get(*dtype) else {
                return None;
            };
            let skipped = match rest {
                [] | [Value::None] => 0,
                [view] => size(*objects.members(*view)?.get(1)?)?,
                _ => return None,
            };
            (objects.text(*kind)? == "storage").then_some(())?;
            let key = objects.text(*key).filter(|key| key.len() <= MAX_KEY)?;
            Some(StorageRef {
                dtype,
                key: key.to_owned(),
                numel: size(*numel)?,
                skipped,
            })
        });
        match found {
            Some(storage) => self.make(Object::Storage(storage)),
            None => broken("a reference to something that is no storage"),
        }
    }

    /// Calls one of the few names that may be called.
    fn reduce(&mut self) -> Result<(), Refused> {
        let (arguments, callee) = (self.pop()?, self.pop()?);
        let Some(Object::Global(global)) = self.objects.get(callee) else {
            return broken("a call of something that is no function");
        };
        let made = match (global, self.objects.members(arguments)) {
            (Global::OrderedDict, Some([])) => Some(Object::Dict(Vec::new())),
            (Global::OrderedDict, Some([pairs])) => {
                let pairs = self.pairs(*pairs);
                // One list can be copied again and again.
                self.steps += pairs.as_ref().map_or(0, Vec::len);
                pairs.map(Object::Dict)
            }
            (Global::Tensor, Some(arguments)) => self.tensor(arguments).map(Object::Tensor),
            (Global::Parameter, Some([tensor, ..])) => match self.objects.get(*tensor) {
                Some(Object::Tensor(_)) => {
                    self.stack.push(*tensor);
                    return Ok(());
                }
                Some(_) | None => None,
            },
            (Global::OrderedDict | Global::Parameter | Global::Storage(_), Some(_)) | (_, None) => {
                None
            }
        };
        match made {
            Some(object) => self.make(object),
            None => broken(format!("a call that makes no tensor ({global:?})")),
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

    fn tensor(&self, arguments: &[Value]) -> Option<TensorRef> {
        let [storage, offset, shape, strides, ..] = arguments else {
            return None;
        };
        let Some(Object::Storage(storage)) = self.objects.get(*storage) else {
            return None;
        };
        let sizes = |list: Value| -> Option<Vec<u64>> {
            let all = self.objects.members(list)?;
            (all.len() <= MAX_DIMENSIONS).then_some(())?;
            all.iter().map(|v| size(*v)).collect()
        };
        let (shape, strides) = (sizes(*shape)?, sizes(*strides)?);
        (shape.len() == strides.len()).then_some(())?;
        Some(TensorRef {
            storage: storage.clone(),
            offset: size(*offset)?,
            shape,
            strides,
        })
    }

    /// The attributes that `torch.save` gives a dictionary (`_metadata`) are dropped.
    fn build(&mut self) -> Result<(), Refused> {
        self.pop()?;
        let top = self.top()?;
        match self.objects.entries(top) {
            Some(_) => Ok(()),
            None => broken("attributes of what is no dictionary"),
        }
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

    fn line(&mut self) -> Result<&'a str, Refused> {
        let rest: &'a [u8] = &self.bytes[self.at..];
        let Some(length) = rest.iter().position(|b| *b == b'\n') else {
            return broken("cut short");
        };
        self.at += length + 1;
        match std::str::from_utf8(&rest[..length]) {
            Ok(line) => Ok(line.trim_end_matches('\r')),
            Err(_) => broken("a line that is not UTF-8"),
        }
    }
}

/// A size: not negative.
fn size(value: Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(number).ok(),
        Value::None | Value::Bool(_) | Value::Float(_) | Value::Object(_) => None,
    }
}

/// An integer in two's complement, least byte first.
fn integer(bytes: &[u8]) -> Result<i64, Refused> {
    if bytes.len() > 8 {
        return broken("an integer of more than 64 bits");
    }
    let negative = bytes.last().is_some_and(|b| *b >= 0x80);
    let mut all = [if negative { 0xff } else { 0 }; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    Ok(i64::from_le_bytes(all))
}

fn known(name: &str) -> Option<Global> {
    Some(match name {
        "collections.OrderedDict" => Global::OrderedDict,
        "torch._utils._rebuild_tensor" | "torch._utils._rebuild_tensor_v2" => Global::Tensor,
        "torch._utils._rebuild_parameter" => Global::Parameter,
        _ => Global::Storage(
            match name.strip_prefix("torch.")?.strip_suffix("Storage")? {
                "Double" => "F64",
                "Float" => "F32",
                "Half" => "F16",
                "BFloat16" => "BF16",
                "Long" => "I64",
                "Int" => "I32",
                "Short" => "I16",
                "Char" => "I8",
                "Byte" => "U8",
                "Bool" => "BOOL",
                _ => return None,
            },
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(program: &[u8]) -> String {
        match run(program) {
            Ok(_) => "read".to_owned(),
            Err(refused) => format!("{refused:?}"),
        }
    }

    /// An opcode for a string.
    fn text(words: &str) -> Vec<u8> {
        let mut all = vec![b'X'];
        all.extend((words.len() as u32).to_le_bytes());
        all.extend(words.as_bytes());
        all
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
        let mut program = vec![b')'; MAX_STEPS];
        program.push(b'.');
        assert!(told(&program).contains("more instructions"));
        assert_eq!(told(b"]."), "read");
    }

    #[test]
    fn tensors_of_more_dimensions_than_pytorch_has_and_long_names_of_storages_are_refused() {
        let tensor = |key: &str, dimensions: usize| {
            let mut program = b"ctorch._utils\n_rebuild_tensor_v2\n((".to_vec();
            program.extend(text("storage"));
            program.extend(b"ctorch\nFloatStorage\n");
            program.extend(text(key));
            program.extend(text("cpu"));
            program.extend(b"K\x01tQK\x00(");
            program.extend(b"K\x01".repeat(dimensions));
            program.extend(b"t(");
            program.extend(b"K\x01".repeat(dimensions));
            program.extend(b"ttR.");
            told(&program)
        };
        assert_eq!(tensor("0", MAX_DIMENSIONS), "read");
        assert!(tensor("0", MAX_DIMENSIONS + 1).contains("makes no tensor"));
        assert_eq!(tensor(&"9".repeat(MAX_KEY), 1), "read");
        assert!(tensor(&"9".repeat(MAX_KEY + 1), 1).contains("no storage"));
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
}
