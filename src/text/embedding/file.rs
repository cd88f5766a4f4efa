//! The safetensors file, made at its full size and filled in any order.

use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde_json::json;

use files::replace::Replacement;
use messages::exit::Failure;

/// The file on its way, which takes its place when it is whole.
pub struct Output {
    path: PathBuf,
    file: Replacement,
    rows: u64,
    length: u64,
    hidden: u64,
    /// Bytes before the three tensors, and the size.
    mask: u64,
    states: u64,
    pooled: u64,
    /// The file's size in bytes.
    pub size: u64,
}

impl Output {
    /// A file of `rows` rows of `length` tokens and hidden states of this width, all zero.
    ///
    /// # Errors
    /// It cannot be made, or there is no such size.
    pub fn new(
        path: &Path,
        (rows, length, hidden): (usize, usize, usize),
        metadata: &[(&str, String)],
    ) -> Result<Output, Failure> {
        let bad = |e: &dyn std::fmt::Display| Failure::input(format!("{}: {e}", path.display()));
        let (rows, length, hidden) = (rows as u64, length as u64, hidden as u64);
        let bytes = |sizes: &[u64]| sizes.iter().try_fold(1u64, |all, n| all.checked_mul(*n));
        let sizes = [
            bytes(&[rows, length, 8]),
            bytes(&[rows, length, hidden, 4]),
            bytes(&[rows, hidden, 4]),
        ];
        let mut ends = Vec::new();
        let mut end = 0u64;
        for size in sizes {
            let next = size
                .and_then(|size| end.checked_add(size))
                .filter(|n| *n < 1 << 60);
            ends.push((end, next.ok_or_else(|| bad(&"larger than any file"))?));
            end = ends[ends.len() - 1].1;
        }
        let texts: serde_json::Map<String, serde_json::Value> = metadata
            .iter()
            .map(|(k, v)| ((*k).to_owned(), v.clone().into()))
            .collect();
        let entry = |dtype: &str, shape: &[u64], at: usize| json!({"dtype": dtype, "shape": shape, "data_offsets": ends[at]});
        let header = json!({
            "__metadata__": texts,
            "attention_mask": entry("I64", &[rows, length], 0),
            "last_hidden_state": entry("F32", &[rows, length, hidden], 1),
            "pooled": entry("F32", &[rows, hidden], 2),
        });
        let mut header = header.to_string();
        // The values begin at a multiple of 8.
        header.push_str(&" ".repeat(header.len().next_multiple_of(8) - header.len()));
        let start = 8 + header.len() as u64;
        let make = || -> io::Result<Replacement> {
            let file = Replacement::new(path)?;
            file.file().set_len(start + end)?;
            file.file()
                .write_all_at(&(header.len() as u64).to_le_bytes(), 0)?;
            file.file().write_all_at(header.as_bytes(), 8)?;
            Ok(file)
        };
        Ok(Output {
            file: make().map_err(|e| bad(&e))?,
            path: path.to_owned(),
            rows,
            length,
            hidden,
            mask: start + ends[0].0,
            states: start + ends[1].0,
            pooled: start + ends[2].0,
            size: start + end,
        })
    }

    /// Writes one row: the states of its tokens `[tokens, H]`, and its vector `[H]`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn row(&self, row: usize, states: &[f32], pooled: &[f32]) -> Result<(), Failure> {
        let (row, tokens) = (row as u64, states.len() as u64 / self.hidden.max(1));
        debug_assert!(row < self.rows && tokens <= self.length);
        let bytes = |values: &[f32]| -> Vec<u8> {
            values
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect()
        };
        let ones: Vec<u8> = (0..tokens).flat_map(|_| 1i64.to_le_bytes()).collect();
        let file = self.file.file();
        file.write_all_at(&ones, self.mask + row * self.length * 8)
            .and_then(|()| {
                let at = self.states + row * self.length * self.hidden * 4;
                file.write_all_at(&bytes(states), at)
            })
            .and_then(|()| file.write_all_at(&bytes(pooled), self.pooled + row * self.hidden * 4))
            .map_err(|e| self.failed(&e))
    }

    /// Puts the file in its place.
    ///
    /// # Errors
    /// That cannot be done.
    pub fn finish(self) -> Result<(), Failure> {
        let path = self.path;
        (self.file.finish())
            .map(|_| ())
            .map_err(|e| Failure::input(format!("{}: {e}", path.display())))
    }

    fn failed(&self, error: &io::Error) -> Failure {
        Failure::input(format!("{}: {error}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use safetensors::SafeTensors;

    #[test]
    fn rows_in_any_order_make_a_file_that_safetensors_reads() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.safetensors");
        std::fs::write(&path, "old").unwrap();
        let output = Output::new(&path, (2, 3, 2), &[("pooled", "mean".to_owned())]).unwrap();
        output.row(1, &[1.0, 2.0, 3.0, 4.0], &[9.0, 8.0]).unwrap();
        output.row(0, &[5.0, 6.0], &[7.0, 7.5]).unwrap();
        // Until it is whole, the old one stays.
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        let size = output.size;
        output.finish().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len() as u64, size);
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let floats = |name: &str| -> Vec<f32> {
            let view = file.tensor(name).unwrap();
            view.data()
                .as_chunks()
                .0
                .iter()
                .map(|b| f32::from_le_bytes(*b))
                .collect()
        };
        assert_eq!(file.tensor("last_hidden_state").unwrap().shape(), [2, 3, 2]);
        assert_eq!(
            floats("last_hidden_state"),
            [5.0, 6.0, 0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 0.0, 0.0]
        );
        assert_eq!(floats("pooled"), [7.0, 7.5, 9.0, 8.0]);
        let mask: Vec<i64> = (file
            .tensor("attention_mask")
            .unwrap()
            .data()
            .as_chunks()
            .0
            .iter())
        .map(|b| i64::from_le_bytes(*b))
        .collect();
        assert_eq!(mask, [1, 0, 0, 1, 1, 0]);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_device_is_written_into_and_is_not_replaced() {
        use std::os::unix::fs::FileTypeExt;
        let device = Path::new("/dev/null");
        let output = Output::new(device, (1, 1, 1), &[]).unwrap();
        output.row(0, &[1.0], &[2.0]).unwrap();
        output.finish().unwrap();
        let kind = std::fs::symlink_metadata(device).unwrap().file_type();
        assert!(kind.is_char_device());
    }

    #[test]
    fn a_file_given_up_leaves_nothing_and_impossible_places_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.safetensors");
        drop(Output::new(&path, (1, 1, 1), &[]).unwrap());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(Output::new(&path, (usize::MAX, 512, 768), &[]).is_err());
        assert!(Output::new(&dir.path().join("no/out"), (1, 1, 1), &[]).is_err());
        assert!(Output::new(dir.path(), (1, 1, 1), &[]).is_err());
    }
}
