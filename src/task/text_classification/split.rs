//! The fixed split into train, validation and test: stratified by class, groups kept whole, a
//! function of the rows, the fractions and the split's seed alone.

use rand_chacha::ChaCha8Rng;
use sha2::{Digest, Sha256};

use super::batches::shuffle;
use super::data::Dataset;

/// One of the three parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Trained on.
    Train,
    /// Scores the trials.
    Validation,
    /// Never seen by the search.
    Test,
}

impl Part {
    /// All parts.
    pub const ALL: [Part; 3] = [Part::Train, Part::Validation, Part::Test];

    /// The word in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Part::Train => "train",
            Part::Validation => "validation",
            Part::Test => "test",
        }
    }
}

/// The part of each row.
#[derive(Debug, Clone, PartialEq)]
pub struct Split {
    parts: Vec<Part>,
}

impl Split {
    /// The rows of a part, ascending.
    pub fn rows(&self, part: Part) -> Vec<usize> {
        (0..self.parts.len())
            .filter(|row| self.parts[*row] == part)
            .collect()
    }

    /// SHA-256 over the assignment of rows to parts.
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(b"split 1\0");
        for part in &self.parts {
            hash.update([*part as u8]);
        }
        super::hex(&hash.finalize())
    }
}

/// Splits the rows. `fractions` are those of train, validation and test and sum to 1; a part of
/// fraction 0 stays empty. Every other part gets rows of each class where the groups allow it.
pub fn split(data: &Dataset, fractions: [f64; 3], rng: &mut ChaCha8Rng) -> Split {
    let groups = groups(data);
    let mut order: Vec<usize> = (0..groups.len()).collect();
    shuffle(&mut order, rng);
    let mut balance = Balance::new(data, fractions);
    let mut part_of = vec![0; groups.len()];
    for group in &order {
        let part = balance.neediest(&groups[*group].classes);
        balance.put(&groups[*group].classes, part);
        part_of[*group] = part;
    }
    balance.improve(&groups, &order, &mut part_of);
    let mut parts = vec![Part::Train; data.rows.len()];
    for (group, part) in groups.iter().zip(&part_of) {
        for row in &group.rows {
            parts[*row] = Part::ALL[*part];
        }
    }
    Split { parts }
}

/// Rows that stay together.
struct Group {
    rows: Vec<usize>,
    /// `(class, rows of it)`.
    classes: Vec<(usize, f64)>,
}

/// Groups in the order of their first rows; without a group column each row is its own.
fn groups(data: &Dataset) -> Vec<Group> {
    let mut index = std::collections::HashMap::new();
    let mut groups: Vec<Group> = Vec::new();
    for (row, content) in data.rows.iter().enumerate() {
        let at = match &content.group {
            Some(name) => *index.entry(name.as_str()).or_insert(groups.len()),
            None => groups.len(),
        };
        if at == groups.len() {
            groups.push(Group {
                rows: Vec::new(),
                classes: Vec::new(),
            });
        }
        let group = &mut groups[at];
        group.rows.push(row);
        match group.classes.iter_mut().find(|(c, _)| *c == content.class) {
            Some((_, n)) => *n += 1.0,
            None => group.classes.push((content.class, 1.0)),
        }
    }
    groups
}

/// How far the parts are from what they should hold.
struct Balance {
    /// Rows of a class over all parts.
    total: Vec<f64>,
    /// `[part][class]`: rows wished for.
    wanted: [Vec<f64>; 3],
    /// `[part][class]`: rows held.
    held: [Vec<f64>; 3],
}

/// The price of a class that a part lacks; more than any imbalance of one class costs.
const LACKING: f64 = 1e12;

impl Balance {
    fn new(data: &Dataset, fractions: [f64; 3]) -> Balance {
        let mut total = vec![0.0; data.classes.len()];
        for row in &data.rows {
            total[row.class] += 1.0;
        }
        let wanted = fractions.map(|f| total.iter().map(|t| f * t).collect::<Vec<f64>>());
        let held = fractions.map(|_| vec![0.0; total.len()]);
        Balance {
            total,
            wanted,
            held,
        }
    }

    /// The part that wishes most for these rows: the one where they lower the sum of squared
    /// deviations most.
    fn neediest(&self, classes: &[(usize, f64)]) -> usize {
        let need = |part: usize| -> f64 {
            classes
                .iter()
                .map(|(c, n)| n * (self.wanted[part][*c] - self.held[part][*c]) / self.total[*c])
                .sum()
        };
        // The first of equals.
        (0..3)
            .rev()
            .max_by(|a, b| need(*a).total_cmp(&need(*b)))
            .unwrap_or(0)
    }

    fn put(&mut self, classes: &[(usize, f64)], part: usize) {
        for (class, n) in classes {
            self.held[part][*class] += n;
        }
    }

    fn take(&mut self, classes: &[(usize, f64)], part: usize) {
        for (class, n) in classes {
            self.held[part][*class] -= n;
        }
    }

    /// What one class costs in one part.
    fn cost_of(&self, part: usize, class: usize) -> f64 {
        let (wanted, held) = (self.wanted[part][class], self.held[part][class]);
        let lacking = if held == 0.0 && wanted > 0.0 {
            LACKING
        } else if held > 0.0 && wanted == 0.0 {
            // A part of fraction 0 stays empty.
            LACKING * held * 10.0
        } else {
            0.0
        };
        (wanted - held).powi(2) / self.total[class] + lacking
    }

    /// What these classes cost in these two parts.
    fn cost(&self, parts: [usize; 2], classes: &[(usize, f64)]) -> f64 {
        parts
            .iter()
            .flat_map(|p| classes.iter().map(|(c, _)| self.cost_of(*p, *c)))
            .sum()
    }

    /// Moves single groups while that lowers the cost: mends what the greedy pass left.
    fn improve(&mut self, groups: &[Group], order: &[usize], part_of: &mut [usize]) {
        for _ in 0..50 {
            let mut moved = false;
            for group in order {
                let classes = &groups[*group].classes;
                for to in 0..3 {
                    let from = part_of[*group];
                    if to == from {
                        continue;
                    }
                    let before = self.cost([from, to], classes);
                    self.take(classes, from);
                    self.put(classes, to);
                    if self.cost([from, to], classes) < before - 1e-9 {
                        part_of[*group] = to;
                        moved = true;
                    } else {
                        self.take(classes, to);
                        self.put(classes, from);
                    }
                }
            }
            if !moved {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::study::rng;
    use crate::task::text_classification::data::Row;

    /// Rows of `(class, group)`.
    fn dataset(rows: &[(usize, Option<usize>)]) -> Dataset {
        let classes = rows.iter().map(|r| r.0).max().unwrap_or(0) + 1;
        Dataset {
            rows: rows
                .iter()
                .enumerate()
                .map(|(i, (class, group))| Row {
                    text: format!("row {i}"),
                    pair: None,
                    class: *class,
                    group: group.map(|g| g.to_string()),
                    line: i + 2,
                })
                .collect(),
            classes: (0..classes).map(|c| c.to_string()).collect(),
        }
    }

    fn split_of(data: &Dataset, seed: u64) -> Split {
        split(data, [0.8, 0.1, 0.1], &mut rng(seed, 0, "split"))
    }

    proptest! {
        #[test]
        fn no_group_is_ever_in_two_parts_and_every_row_in_one(
            rows in prop::collection::vec((0usize..3, (0usize..20).prop_map(Some)), 1..200),
            seed in 0u64..50,
        ) {
            let data = dataset(&rows);
            let split = split_of(&data, seed);
            let mut part_of_group = std::collections::HashMap::new();
            let mut seen = 0;
            for part in Part::ALL {
                for row in split.rows(part) {
                    seen += 1;
                    let group = rows[row].1;
                    prop_assert_eq!(*part_of_group.entry(group).or_insert(part), part);
                }
            }
            prop_assert_eq!(seen, rows.len());
            prop_assert_eq!(split, split_of(&data, seed));
        }

        #[test]
        fn without_groups_each_class_is_within_two_rows_of_its_share(
            a in 10usize..300, b in 10usize..300, seed in 0u64..20,
        ) {
            let rows: Vec<_> = (0..a + b).map(|i| (usize::from(i >= a), None)).collect();
            let data = dataset(&rows);
            let split = split_of(&data, seed);
            for (part, fraction) in Part::ALL.into_iter().zip([0.8, 0.1, 0.1]) {
                let counts = super::super::baseline::counts(&data, &split, part);
                for (count, total) in counts.iter().zip([a, b]) {
                    prop_assert!((*count as f64 - fraction * total as f64).abs() < 2.0);
                }
            }
        }
    }

    #[test]
    fn rare_classes_reach_every_part() {
        let rows: Vec<_> = (0..103).map(|i| (usize::from(i >= 100), None)).collect();
        let data = dataset(&rows);
        for seed in 0..20 {
            let split = split_of(&data, seed);
            for part in Part::ALL {
                assert!(super::super::baseline::counts(&data, &split, part)[1] > 0);
            }
        }
    }

    #[test]
    fn a_part_of_fraction_zero_stays_empty() {
        let rows: Vec<_> = (0..100).map(|i| (i % 2, Some(i / 4))).collect();
        let split = split(&dataset(&rows), [0.9, 0.1, 0.0], &mut rng(0, 0, "split"));
        assert!(split.rows(Part::Test).is_empty());
        assert!(split.rows(Part::Validation).len() >= 8);
    }

    #[test]
    fn another_seed_is_another_split() {
        let rows: Vec<_> = (0..100).map(|i| (i % 2, None)).collect();
        let data = dataset(&rows);
        assert_ne!(
            split_of(&data, 0).fingerprint(),
            split_of(&data, 1).fingerprint()
        );
    }
}
