//! A reader of pickles that executes nothing: it knows the instructions that make plain values, and keeps of everything
//! else what it is called and what it would be made from.
//!
//! Objects live in one arena and values are handles into it, so that neither nesting nor sharing,
//! however deep, costs recursion or copies. The instructions that are carried out are limited.
//!
//! Source: Python's `pickletools`, which describes each instruction.

mod machine;

/// Why a pickle is not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// It names something that must not stand in it: `module.name`.
    Global(String),
    /// It is cut short, damaged, or asks for what is not known.
    Broken(String),
}

/// A value; compound ones lie in [`Objects`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// `None`.
    None,
    /// A truth value.
    Bool(bool),
    /// An integer of at most 64 bits.
    Int(i64),
    /// A number; of a larger integer, the nearest.
    Float(f64),
    /// Everything else, by its place in the arena.
    Object(usize),
}

/// What a handle stands for.
#[derive(Debug, Clone, PartialEq)]
pub enum Object {
    /// A string.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A tuple.
    Tuple(Vec<Value>),
    /// A list, or a set.
    List(Vec<Value>),
    /// A dictionary, ordered or not; later entries win.
    Dict(Vec<(Value, Value)>),
    /// A class or a function: `module.name`.
    Global(String),
    /// What a call of a class or a function would have made.
    Call(Call),
    /// What the program that wrote the pickle keeps beside it, by what it calls that.
    Persistent(Value),
}

/// A call that is not made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Call {
    /// An [`Object::Global`], or the [`Object::Call`] that would have made it.
    pub callee: Value,
    /// The arguments, a tuple.
    pub arguments: Value,
    /// The attributes that the object gets afterwards; `None` without any.
    pub state: Value,
}

/// The objects of one pickle. What an object is made from stands before it.
#[derive(Debug, Default)]
pub struct Objects(Vec<Object>);

impl Objects {
    /// What the handle stands for; nothing for a plain value.
    pub fn get(&self, value: Value) -> Option<&Object> {
        match value {
            Value::Object(at) => self.0.get(at),
            Value::None | Value::Bool(_) | Value::Int(_) | Value::Float(_) => None,
        }
    }

    /// All of them with their handles, in the order of their making.
    pub fn all(&self) -> impl Iterator<Item = (Value, &Object)> {
        let handle = |(at, object)| (Value::Object(at), object);
        self.0.iter().enumerate().map(handle)
    }

    /// A string.
    pub fn text(&self, value: Value) -> Option<&str> {
        let Object::Text(text) = self.get(value)? else {
            return None;
        };
        Some(text)
    }

    /// The members of a list or a tuple.
    pub fn members(&self, value: Value) -> Option<&[Value]> {
        let (Object::Tuple(all) | Object::List(all)) = self.get(value)? else {
            return None;
        };
        Some(all)
    }

    /// The entries of a dictionary.
    pub fn entries(&self, value: Value) -> Option<&[(Value, Value)]> {
        let Object::Dict(all) = self.get(value)? else {
            return None;
        };
        Some(all)
    }

    /// An entry of a dictionary by its name.
    pub fn field(&self, dict: Value, name: &str) -> Option<Value> {
        let mut entries = self.entries(dict)?.iter().rev();
        let found = entries.find(|(key, _)| self.text(*key) == Some(name));
        found.map(|(_, value)| *value)
    }

    /// A call of what has a name: that, the arguments, and the attributes.
    pub fn call(&self, value: Value) -> Option<(&str, &[Value], Value)> {
        let Object::Call(call) = self.get(value)? else {
            return None;
        };
        let Object::Global(name) = self.get(call.callee)? else {
            return None;
        };
        Some((name, self.members(call.arguments)?, call.state))
    }

    fn add(&mut self, object: Object) -> Value {
        self.0.push(object);
        Value::Object(self.0.len() - 1)
    }
}

/// A pickle that was read.
#[derive(Debug)]
pub struct Pickle {
    /// Its objects.
    pub objects: Objects,
    /// The value that it stands for.
    pub value: Value,
    /// Bytes that it takes.
    pub length: usize,
}

/// Which pickles are read.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Whether a name, `module.name`, may stand in it.
    pub known: fn(&str) -> bool,
    /// Most instructions that are carried out, and most entries that are copied. Each takes some 100 bytes at most.
    pub steps: usize,
}

/// Reads the pickle that `bytes` begin with.
///
/// # Errors
/// It goes beyond the limits, or is damaged.
pub fn read(bytes: &[u8], limits: Limits) -> Result<Pickle, Refused> {
    machine::run(bytes, limits)
}
