//! What `startup/` is to a Python program, for a training of our own: which changes doctor wants in it, and what it
//! notes of itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;

use serde_json::{Value as Json, json};

use crate::change::Change;
use crate::notes::{BATCH, NOTES};

/// Variables of a run of doctor's: the directory of its notes; what is changed, with commas; a number that differs from
/// run to run; `LOADER:ROW,ROW`; the operation of [`Change::OperationOnCpu`].
pub const VARIABLES: [&str; 5] = [
    "TUNE_DOCTOR_NOTES",
    "TUNE_DOCTOR_CHANGE",
    "TUNE_DOCTOR_SHIFT",
    "TUNE_DOCTOR_ROWS",
    "TUNE_DOCTOR_OPERATION",
];

/// Longer lists of rows are no variable of an environment.
const MOST_ROWS: usize = 16_384;

/// What doctor wants of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inside {
    notes: PathBuf,
    changes: BTreeSet<String>,
    /// Differs from run to run, from 1.
    pub shift: u64,
    /// Train on these rows alone, from 1.
    pub rows: Option<Vec<u64>>,
    /// The operation that a failing run was at, as PyTorch or libtorch calls it.
    pub operation: Option<String>,
}

impl Inside {
    /// `None`: this is no run of doctor's.
    pub fn of(variables: &BTreeMap<String, String>) -> Option<Inside> {
        let [notes, change, shift, rows, operation] = VARIABLES.map(|name| variables.get(name));
        let listed = |text: &String| {
            let (_, rows) = text.split_once(':')?;
            rows.split(',').map(|row| row.parse().ok()).collect()
        };
        Some(Inside {
            notes: notes?.into(),
            changes: change?.split(',').map(str::to_owned).collect(),
            shift: shift.and_then(|n| n.parse().ok()).unwrap_or(0),
            rows: rows.and_then(listed),
            operation: operation.cloned(),
        })
    }

    /// Whether a change is wanted, which then has been made.
    pub fn makes(&self, change: Change) -> bool {
        let wanted = self.changes.contains(&change.to_string());
        if wanted {
            self.note(&json!({"what": "changed", "change": change.to_string()}));
        }
        wanted
    }

    /// Notes what is trained: on these rows, from 1, in batches of this size, in 16 bits, with random numbers.
    pub fn training(&self, rows: &[u64], batch_size: u64, half: bool) {
        self.note(&json!({"what": "seed"}));
        if half {
            self.note(&json!({"what": "half", "how": "train.precision", "dtype": "bfloat16"}));
        }
        let count = rows.len();
        self.note(
            &json!({"what": "loader", "number": 0, "workers": 0, "batch_size": batch_size, "rows": count}),
        );
        if count <= MOST_ROWS {
            let batch = json!({"taken": 0, "loader": 0, "batch": 0, "rows": rows, "tensors": []});
            self.write(BATCH, &batch);
        }
    }

    /// Notes that libtorch computes.
    pub fn torch(&self) {
        self.note(&json!({"what": "torch", "version": ""}));
    }

    fn note(&self, note: &Json) {
        self.write(NOTES, note);
    }

    fn write(&self, file: &str, note: &Json) {
        let path = self.notes.join(file);
        let file = OpenOptions::new().create(true).append(true).open(path);
        // A full disk is what may be looked for.
        let _ = file.and_then(|mut file| writeln!(file, "{note}"));
    }
}

/// What stands among the changes where operations are to be noted.
pub const TRACE: &str = "trace";

/// What stands among the changes where exceptions are to be noted.
pub const WATCH: &str = "watch";

/// An operation's name as libtorch has it, of a note: `aten.mm.default forward [...]` or `aten::mm` gives `aten::mm`.
pub fn operation_name(noted: &str) -> String {
    let word = noted.split_whitespace().next().unwrap_or_default();
    let word = word.strip_suffix(".default").unwrap_or(word);
    match word.contains("::") {
        true => word.to_owned(),
        false => word.replacen('.', "::", 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notes;

    fn inside(dir: &std::path::Path, more: [&str; 4]) -> Inside {
        let values = [dir.to_str().unwrap(), more[0], more[1], more[2], more[3]];
        let pairs = VARIABLES.into_iter().zip(values);
        let variables = pairs.filter(|(_, value)| !value.is_empty());
        let variables = variables.map(|(n, v)| (n.to_owned(), v.to_owned()));
        Inside::of(&variables.collect()).unwrap()
    }

    #[test]
    fn what_a_training_notes_is_read_as_what_a_program_notes() {
        let dir = tempfile::tempdir().unwrap();
        let inside = inside(dir.path(), ["half_batch,seed", "2", "0:3,7", ""]);
        assert_eq!((inside.shift, inside.rows.clone()), (2, Some(vec![3, 7])));
        assert!(inside.makes(Change::HalfBatch) && !inside.makes(Change::OneRow));
        inside.training(&[3, 7], 16, true);
        let notes = notes::read(dir.path());
        assert_eq!((notes.batch_size(), notes.pass()), (16, 1));
        assert!(notes.seeded && !notes.python && notes.changed.contains("half_batch"));
        assert_eq!(notes.batch.unwrap().rows, Some(vec![3, 7]));
        assert_eq!(notes.half.len(), 1);
    }

    #[test]
    fn a_process_that_doctor_has_not_started_is_left_alone() {
        assert_eq!(Inside::of(&BTreeMap::new()), None);
    }

    #[test]
    fn operations_have_one_name() {
        for (noted, name) in [
            (
                "aten.convolution_backward.default backward [[1]]",
                "aten::convolution_backward",
            ),
            ("aten.add.Tensor forward []", "aten::add.Tensor"),
            ("aten::mm", "aten::mm"),
        ] {
            assert_eq!(operation_name(noted), name);
        }
    }
}
