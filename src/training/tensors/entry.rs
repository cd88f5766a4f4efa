//! One tensor of a file: its type and shape, and where its values lie.

use super::FloatType;

/// A run of bytes of a file that tensors show parts of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Storage {
    /// Bytes of the file before it.
    pub start: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// CRC-32 of its bytes, where the file has one.
    pub checksum: Option<u32>,
}

/// A tensor of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Type, in safetensors' words.
    pub dtype: String,
    /// Shape.
    pub shape: Vec<usize>,
    /// Which of the files, by index; 0 in a file by itself.
    pub file: usize,
    /// Where its values are.
    pub storage: Storage,
    /// Values of the storage before its first one.
    pub offset: u64,
    /// Distance of neighbours in each dimension, in values.
    pub strides: Vec<u64>,
}

/// Bytes of a value of a type; nothing for types that are not known.
pub fn width(dtype: &str) -> Option<u64> {
    Some(match dtype {
        "F64" | "I64" | "U64" => 8,
        "F32" | "I32" | "U32" => 4,
        "F16" | "BF16" | "I16" | "U16" => 2,
        "I8" | "U8" | "BOOL" => 1,
        _ => return None,
    })
}

/// The strides of a tensor whose values lie one behind the other.
pub fn contiguous(shape: &[usize]) -> Vec<u64> {
    let mut strides = vec![1u64; shape.len()];
    for at in (1..shape.len()).rev() {
        strides[at - 1] = strides[at].saturating_mul(shape[at] as u64);
    }
    strides
}

impl Entry {
    /// Values.
    pub fn count(&self) -> Option<u64> {
        let sizes = self.shape.iter().map(|d| *d as u64);
        sizes.into_iter().try_fold(1u64, u64::checked_mul)
    }

    /// Bytes of its values, each counted once a place in the shape; nothing for types that are not known.
    pub fn bytes(&self) -> Option<u64> {
        self.count()?.checked_mul(width(&self.dtype)?)
    }

    /// Values of the storage from the tensor's first to its last one.
    fn extent(&self) -> Option<u64> {
        if self.count()? == 0 {
            return Some(0);
        }
        let steps = self.shape.iter().zip(&self.strides);
        let last = steps
            .map(|(size, stride)| (*size as u64 - 1).checked_mul(*stride))
            .try_fold(0u64, |sum, step| sum.checked_add(step?));
        last?.checked_add(1)
    }

    /// Whether its values lie one behind the other.
    pub fn is_contiguous(&self) -> bool {
        let plain = contiguous(&self.shape);
        let mut dimensions = self.shape.iter().zip(self.strides.iter().zip(&plain));
        dimensions.all(|(size, (stride, plain))| *size <= 1 || stride == plain)
    }

    /// What does not fit together, if anything: a tensor lies inside its storage and is no larger.
    pub fn misfit(&self) -> Option<String> {
        // Types that are not known are never read.
        let width = width(&self.dtype)?;
        let values = self.storage.bytes / width;
        let end = self.extent().and_then(|n| n.checked_add(self.offset));
        let fits = end.is_some_and(|end| end <= values)
            && self.count().is_some_and(|count| count <= values);
        (!fits).then(|| {
            format!(
                "{} {:?} from value {} on in a storage of {} bytes",
                self.dtype, self.shape, self.offset, self.storage.bytes
            )
        })
    }

    /// The bytes of the file that hold it: from, and how many.
    pub fn span(&self) -> Option<(u64, u64)> {
        let width = width(&self.dtype)?;
        let from = self
            .offset
            .checked_mul(width)?
            .checked_add(self.storage.start)?;
        Some((from, self.extent()?.checked_mul(width)?))
    }

    /// The values in the order of the shape, of the bytes of its span.
    pub fn gather(&self, span: Vec<u8>) -> Vec<u8> {
        let (Some(width), false) = (width(&self.dtype), self.is_contiguous()) else {
            return span;
        };
        let width = width as usize;
        let count = self.count().unwrap_or(0);
        let mut out = Vec::with_capacity(count as usize * width);
        let mut index = vec![0usize; self.shape.len()];
        let mut at = 0u64;
        for _ in 0..count {
            let from = at as usize * width;
            out.extend_from_slice(&span[from..from + width]);
            for dimension in (0..index.len()).rev() {
                index[dimension] += 1;
                at += self.strides[dimension];
                if index[dimension] < self.shape[dimension] {
                    break;
                }
                at -= self.strides[dimension] * index[dimension] as u64;
                index[dimension] = 0;
            }
        }
        out
    }

    /// The type as one that weights may have.
    pub fn precision(&self) -> Option<FloatType> {
        FloatType::of(&self.dtype)
    }
}
