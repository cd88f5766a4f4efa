//! A reader of pickles that executes nothing: it knows the opcodes that make plain values, and of
//! Python's names only those of which `torch.save` builds a dictionary of tensors.
//!
//! Objects live in one arena and values are handles into it, so that neither nesting nor sharing,
//! however deep, costs recursion or copies. Opcodes and bytes are limited.

mod machine;

use std::collections::BTreeMap;

/// Longest pickle that is read, in bytes. That of a model with 10,000 tensors has 2 MB.
pub const MAX_PICKLE: u64 = 32 << 20;

/// Why a pickle is not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// It names something that is no part of a tensor: `module.name`.
    Global(String),
    /// It is cut short, damaged, or not what a dictionary of tensors looks like.
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
    /// A number.
    Float(f64),
    /// Everything else, by its place in the arena.
    Object(usize),
}

/// What a handle stands for.
#[derive(Debug, Clone, PartialEq)]
pub enum Object {
    /// A string.
    Text(String),
    /// A tuple.
    Tuple(Vec<Value>),
    /// A list.
    List(Vec<Value>),
    /// A dictionary, ordered or not; later entries win.
    Dict(Vec<(Value, Value)>),
    /// An allowed name.
    Global(Global),
    /// A storage.
    Storage(StorageRef),
    /// A tensor.
    Tensor(TensorRef),
}

/// The names that are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Global {
    /// `collections.OrderedDict`.
    OrderedDict,
    /// `torch._utils._rebuild_tensor` and `_rebuild_tensor_v2`.
    Tensor,
    /// `torch._utils._rebuild_parameter`.
    Parameter,
    /// `torch.FloatStorage` and its like, with safetensors' word for the type.
    Storage(&'static str),
}

/// A storage as the pickle names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageRef {
    /// Type, in safetensors' words.
    pub dtype: &'static str,
    /// Name of the storage in the file.
    pub key: String,
    /// Values in the whole storage.
    pub numel: u64,
    /// Values before the first one that this storage shows of it.
    pub skipped: u64,
}

/// A tensor as the pickle describes it; sizes and strides are in values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorRef {
    /// Where its values are.
    pub storage: StorageRef,
    /// Values of the storage before its first one.
    pub offset: u64,
    /// Shape.
    pub shape: Vec<u64>,
    /// Distance of neighbours in each dimension.
    pub strides: Vec<u64>,
}

/// The objects of one pickle.
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

    /// Every storage that is named.
    pub fn storages(&self) -> impl Iterator<Item = &StorageRef> {
        self.0.iter().filter_map(|object| match object {
            Object::Storage(storage) => Some(storage),
            Object::Text(_)
            | Object::Tuple(_)
            | Object::List(_)
            | Object::Dict(_)
            | Object::Global(_)
            | Object::Tensor(_) => None,
        })
    }

    /// The tensors of a dictionary by name; entries that are none are left out.
    pub fn tensors(&self, value: Value) -> Option<BTreeMap<String, TensorRef>> {
        let mut found = BTreeMap::new();
        for (name, value) in self.entries(value)? {
            if let (Some(name), Some(Object::Tensor(tensor))) = (self.text(*name), self.get(*value))
            {
                found.insert(name.to_owned(), tensor.clone());
            }
        }
        Some(found)
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

/// Reads the pickle that `bytes` begin with.
///
/// # Errors
/// It asks for anything but plain values and tensors, or is damaged.
pub fn read(bytes: &[u8]) -> Result<Pickle, Refused> {
    machine::run(bytes)
}
