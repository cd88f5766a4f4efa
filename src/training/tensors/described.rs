//! The tensors that a pickle of `torch.save` describes. Of Python's names, only those of which a dictionary of tensors is built may
//! stand in it.

use std::collections::BTreeMap;

use pickle::{Limits, Object, Objects, Refused, Value};

/// Longest pickle that is read, in bytes. That of a model with 10,000 tensors has 2 MB.
pub const MAX_PICKLE: u64 = 32 << 20;

/// A dictionary of 10,000 tensors takes some 400,000 steps.
const LIMITS: Limits = Limits {
    known,
    steps: 2_000_000,
};

/// Most dimensions of a tensor: PyTorch's own limit.
pub const MAX_DIMENSIONS: usize = 64;

/// Longest name of a storage, in bytes. They are numbers.
pub const MAX_KEY: usize = 256;

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

/// A pickle with what it describes.
#[derive(Debug)]
pub struct Described {
    /// Its objects.
    pub objects: Objects,
    /// The value that it stands for.
    pub value: Value,
    /// Bytes that it takes.
    pub length: usize,
    /// By the places of the objects that name them.
    storages: BTreeMap<usize, StorageRef>,
    tensors: BTreeMap<usize, TensorRef>,
}

/// Reads the pickle that `bytes` begin with.
///
/// # Errors
/// It asks for anything but plain values and tensors, or is damaged.
pub fn read(bytes: &[u8]) -> Result<Described, Refused> {
    let pickle = pickle::read(bytes, LIMITS)?;
    let mut found = Described {
        objects: pickle.objects,
        value: pickle.value,
        length: pickle.length,
        storages: BTreeMap::new(),
        tensors: BTreeMap::new(),
    };
    let broken = |what: &str| Err(Refused::Broken(what.to_owned()));
    for (handle, object) in found.objects.all() {
        let Value::Object(at) = handle else { continue };
        if let Object::Persistent(id) = object {
            let Some(storage) = storage(&found.objects, *id) else {
                return broken("a reference to something that is no storage");
            };
            found.storages.insert(at, storage);
        } else if let Object::Call(_) = object {
            let Some(tensor) = found.made(handle) else {
                return broken("a call that makes no tensor");
            };
            found.tensors.insert(at, tensor);
        }
    }
    Ok(found)
}

impl Described {
    /// Every storage that is named.
    pub fn storages(&self) -> impl Iterator<Item = &StorageRef> {
        self.storages.values()
    }

    /// The tensors of the dictionary by name; entries that are none are left out. `None`: it is no dictionary.
    pub fn tensors(&self) -> Option<BTreeMap<String, TensorRef>> {
        let mut found = BTreeMap::new();
        for (name, value) in self.objects.entries(self.value)? {
            if let (Some(name), Some(tensor)) = (self.objects.text(*name), self.tensor(*value)) {
                found.insert(name.to_owned(), tensor.clone());
            }
        }
        Some(found)
    }

    fn tensor(&self, value: Value) -> Option<&TensorRef> {
        let Value::Object(at) = value else {
            return None;
        };
        self.tensors.get(&at)
    }

    /// What a call makes of the objects before it.
    fn made(&self, call: Value) -> Option<TensorRef> {
        let (name, arguments, _) = self.objects.call(call)?;
        if name == PARAMETER {
            return self.tensor(*arguments.first()?).cloned();
        }
        let [Value::Object(storage), offset, shape, strides, ..] = arguments else {
            return None;
        };
        let sizes = |list: &Value| -> Option<Vec<u64>> {
            let all = self.objects.members(*list)?;
            (all.len() <= MAX_DIMENSIONS).then_some(())?;
            all.iter().map(|v| size(*v)).collect()
        };
        let (shape, strides) = (sizes(shape)?, sizes(strides)?);
        (TENSORS.contains(&name) && shape.len() == strides.len()).then_some(())?;
        Some(TensorRef {
            storage: self.storages.get(storage)?.clone(),
            offset: size(*offset)?,
            shape,
            strides,
        })
    }
}

/// `("storage", type, key, device, values)` and, in old files, a view of another storage.
fn storage(objects: &Objects, id: Value) -> Option<StorageRef> {
    let [kind, class, key, _, numel, rest @ ..] = objects.members(id)? else {
        return None;
    };
    let Object::Global(class) = objects.get(*class)? else {
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
        dtype: dtype(class)?,
        key: key.to_owned(),
        numel: size(*numel)?,
        skipped,
    })
}

/// A size: not negative.
fn size(value: Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(number).ok(),
        Value::None | Value::Bool(_) | Value::Float(_) | Value::Object(_) => None,
    }
}

const TENSORS: [&str; 2] = [
    "torch._utils._rebuild_tensor",
    "torch._utils._rebuild_tensor_v2",
];

const PARAMETER: &str = "torch._utils._rebuild_parameter";

fn known(name: &str) -> bool {
    let made = name == PARAMETER || TENSORS.contains(&name);
    made || name == "collections.OrderedDict" || dtype(name).is_some()
}

/// safetensors' word for what a class of storages holds, such as `torch.FloatStorage`.
fn dtype(class: &str) -> Option<&'static str> {
    Some(
        match class.strip_prefix("torch.")?.strip_suffix("Storage")? {
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
    )
}
