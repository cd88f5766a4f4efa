//! The fixed split into train, validation and test, and into folds: stratified by class, groups kept
//! whole, a function of the rows, the fractions and the split's seed alone.

use std::collections::HashMap;

use rand_chacha::ChaCha8Rng;
use sha2::{Digest, Sha256};
use strum::{EnumString, IntoStaticStr};

use super::batches::shuffle;

/// What a split has to know of rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Samples {
    /// The names of the classes; of rows without classes one name for all of them.
    pub classes: Vec<String>,
    /// The class of each row, an index into [`Samples::classes`].
    pub class: Vec<usize>,
    /// The group of each row, where a column says it; else empty. Rows of a group are in one part.
    pub groups: Vec<String>,
    /// The part of each row, where the data say it; else empty.
    pub parts: Vec<Part>,
    /// Where each row is told of: a line of the file, from 1.
    pub lines: Vec<usize>,
}

impl Samples {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.class.len()
    }

    /// The group of a row, where a column says it.
    pub fn group(&self, row: usize) -> Option<&str> {
        self.groups.get(row).map(String::as_str)
    }
}

/// One of the three parts, with the words for it in configurations and data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "lowercase", ascii_case_insensitive)]
pub enum Part {
    /// Trained on.
    Train,
    /// Scores the trials.
    #[strum(
        to_string = "validation",
        serialize = "valid",
        serialize = "val",
        serialize = "dev"
    )]
    Validation,
    /// Never seen by the search.
    Test,
}

impl Part {
    /// All parts.
    pub const ALL: [Part; 3] = [Part::Train, Part::Validation, Part::Test];

    /// The word in configurations.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The part that a cell of the data names, in any case.
    pub fn of_word(word: &str) -> Option<Part> {
        word.trim().parse().ok()
    }
}

/// The part of each row, and the folds of those that are not for the test.
#[derive(Debug, Clone, PartialEq)]
pub struct Split {
    parts: Vec<Part>,
    /// The rows of each fold, ascending; empty: one model, trained and validated on the parts.
    folds: Vec<Vec<usize>>,
}

/// What one model is trained and validated on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Round {
    /// Rows to train on.
    pub train: Vec<usize>,
    /// Rows that validate.
    pub validation: Vec<usize>,
}

impl Split {
    /// The parts as they are given.
    pub fn given(parts: Vec<Part>) -> Split {
        Split {
            parts,
            folds: Vec::new(),
        }
    }

    /// The rows of a part, ascending.
    pub fn rows(&self, part: Part) -> Vec<usize> {
        (0..self.parts.len())
            .filter(|row| self.parts[*row] == part)
            .collect()
    }

    /// The rows of each fold; empty where there are none.
    pub fn folds(&self) -> &[Vec<usize>] {
        &self.folds
    }

    /// What a trial trains, model by model: one, or one a fold.
    pub fn rounds(&self) -> Vec<Round> {
        if self.folds.is_empty() {
            return vec![Round {
                train: self.rows(Part::Train),
                validation: self.rows(Part::Validation),
            }];
        }
        let rest = |fold: usize| {
            let others = self.folds.iter().enumerate().filter(|(k, _)| *k != fold);
            others.flat_map(|(_, rows)| rows).copied().collect()
        };
        let round = |(fold, rows): (usize, &Vec<usize>)| Round {
            train: rest(fold),
            validation: rows.clone(),
        };
        self.folds.iter().enumerate().map(round).collect()
    }

    /// The sets of rows that must not share a text or a group, by name; no row is in two.
    pub fn sets(&self) -> Vec<(String, Vec<usize>)> {
        let named = |part: Part| (part.name().to_owned(), self.rows(part));
        if self.folds.is_empty() {
            return Part::ALL.map(named).into();
        }
        let folds = self.folds.iter().enumerate();
        let mut sets: Vec<(String, Vec<usize>)> = folds
            .map(|(k, rows)| (format!("fold {}", k + 1), rows.clone()))
            .collect();
        sets.push(named(Part::Test));
        sets
    }

    /// SHA-256 over the assignment of rows to parts and folds.
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(b"split 1\0");
        for part in &self.parts {
            hash.update([*part as u8]);
        }
        for fold in &self.folds {
            hash.update(b"fold\0");
            for row in fold {
                hash.update((*row as u64).to_le_bytes());
            }
        }
        super::hex(&hash.finalize())
    }

    /// Cuts the rows that are not for the test into `count` folds; below 2 none. `ties` as in
    /// [`split`].
    pub fn cut(&mut self, data: &Samples, ties: &[usize], count: usize, rng: &mut ChaCha8Rng) {
        if count < 2 {
            return;
        }
        let rows = (0..self.parts.len()).filter(|row| self.parts[*row] != Part::Test);
        let groups = groups(data, ties, rows);
        let shares = vec![1.0 / count as f64; count];
        let mut folds = vec![Vec::new(); count];
        for (group, fold) in groups.iter().zip(assign(&groups, data, &shares, rng)) {
            folds[fold].extend(&group.rows);
        }
        folds.iter_mut().for_each(|rows| rows.sort_unstable());
        self.folds = folds;
    }
}

/// Which rows belong together: rows of one number do. Those of a group, and with `texts` those whose
/// text has the same number there.
pub fn ties(data: &Samples, texts: Option<&[usize]>) -> Vec<usize> {
    // Each row's root; the root of a set is its first row.
    let mut root: Vec<usize> = (0..data.count()).collect();
    fn find(root: &mut [usize], mut row: usize) -> usize {
        while root[row] != row {
            root[row] = root[root[row]];
            row = root[row];
        }
        row
    }
    let mut tie = |first: usize, row: usize| {
        let (a, b) = (find(&mut root, first), find(&mut root, row));
        root[a.max(b)] = a.min(b);
    };
    let (mut groups, mut seen) = (HashMap::new(), HashMap::new());
    for row in 0..data.count() {
        if let Some(group) = data.group(row) {
            tie(*groups.entry(group).or_insert(row), row);
        }
        if let Some(texts) = texts {
            tie(*seen.entry(texts[row]).or_insert(row), row);
        }
    }
    (0..data.count()).map(|row| find(&mut root, row)).collect()
}

/// Splits the rows. Rows with one number in `ties` stay together. `fractions` are those of train,
/// validation and test and sum to 1; a part of fraction 0 stays empty. Every other part gets rows of
/// each class where the groups allow it.
pub fn split(data: &Samples, ties: &[usize], fractions: [f64; 3], rng: &mut ChaCha8Rng) -> Split {
    let groups = groups(data, ties, 0..data.count());
    let mut parts = vec![Part::Train; data.count()];
    for (group, part) in groups.iter().zip(assign(&groups, data, &fractions, rng)) {
        for row in &group.rows {
            parts[*row] = Part::ALL[part];
        }
    }
    Split::given(parts)
}

/// The part of each group.
fn assign(
    groups: &[TiedRows],
    data: &Samples,
    fractions: &[f64],
    rng: &mut ChaCha8Rng,
) -> Vec<usize> {
    let mut order: Vec<usize> = (0..groups.len()).collect();
    shuffle(&mut order, rng);
    let mut balance = PartSizes::new(groups, data.classes.len(), fractions);
    let mut part_of = vec![0; groups.len()];
    for group in &order {
        let part = balance.neediest(&groups[*group].classes);
        balance.put(&groups[*group].classes, part);
        part_of[*group] = part;
    }
    balance.improve(groups, &order, &mut part_of);
    part_of
}

/// Rows that stay together.
struct TiedRows {
    rows: Vec<usize>,
    /// `(class, rows of it)`.
    classes: Vec<(usize, f64)>,
}

/// The groups of these rows, in the order of their first ones.
fn groups(data: &Samples, ties: &[usize], rows: impl Iterator<Item = usize>) -> Vec<TiedRows> {
    let mut index = HashMap::new();
    let mut groups: Vec<TiedRows> = Vec::new();
    for row in rows {
        let class = data.class[row];
        let at = *index.entry(ties[row]).or_insert(groups.len());
        if at == groups.len() {
            groups.push(TiedRows {
                rows: Vec::new(),
                classes: Vec::new(),
            });
        }
        let group = &mut groups[at];
        group.rows.push(row);
        match group.classes.iter_mut().find(|(c, _)| *c == class) {
            Some((_, n)) => *n += 1.0,
            None => group.classes.push((class, 1.0)),
        }
    }
    groups
}

/// How far the parts are from what they should hold.
struct PartSizes {
    /// Rows of a class over all parts.
    total: Vec<f64>,
    /// `[part][class]`: rows wished for.
    wanted: Vec<Vec<f64>>,
    /// `[part][class]`: rows held.
    held: Vec<Vec<f64>>,
}

/// The price of a class that a part lacks; more than any imbalance of one class costs.
const LACKING: f64 = 1e12;

impl PartSizes {
    fn new(groups: &[TiedRows], classes: usize, fractions: &[f64]) -> PartSizes {
        let mut total = vec![0.0; classes];
        for (class, n) in groups.iter().flat_map(|group| &group.classes) {
            total[*class] += n;
        }
        let wanted = fractions
            .iter()
            .map(|f| total.iter().map(|t| f * t).collect());
        PartSizes {
            wanted: wanted.collect(),
            held: vec![vec![0.0; classes]; fractions.len()],
            total,
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
        (0..self.held.len())
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
    fn improve(&mut self, groups: &[TiedRows], order: &[usize], part_of: &mut [usize]) {
        for _ in 0..50 {
            let mut moved = false;
            for group in order {
                let classes = &groups[*group].classes;
                for to in 0..self.held.len() {
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
    use crate::testing::rows as dataset;
    use search::study::rng;

    fn split_of(data: &Samples, seed: u64) -> Split {
        split(
            data,
            &ties(data, None),
            [0.8, 0.1, 0.1],
            &mut rng(seed, 0, "split"),
        )
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
                let counts = crate::baseline::counts(&data, &split, part);
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
                assert!(crate::baseline::counts(&data, &split, part)[1] > 0);
            }
        }
    }

    #[test]
    fn a_part_of_fraction_zero_stays_empty() {
        let rows: Vec<_> = (0..100).map(|i| (i % 2, Some(i / 4))).collect();
        let data = dataset(&rows);
        let split = split(
            &data,
            &ties(&data, None),
            [0.9, 0.1, 0.0],
            &mut rng(0, 0, "split"),
        );
        assert!(split.rows(Part::Test).is_empty());
        assert!(split.rows(Part::Validation).len() >= 8);
    }

    proptest! {
        #[test]
        fn each_row_that_is_not_for_the_test_is_in_one_fold_and_no_group_in_two(
            rows in prop::collection::vec((0usize..3, (0usize..20).prop_map(Some)), 1..200),
            seed in 0u64..50, count in 2usize..7,
        ) {
            let data = dataset(&rows);
            let mut split = split_of(&data, seed);
            let plain = split.fingerprint();
            split.cut(&data, &ties(&data, None), count, &mut rng(seed, 0, "folds"));
            prop_assert_eq!(split.folds().len(), count);
            let mut fold_of_group = std::collections::HashMap::new();
            for (k, fold) in split.folds().iter().enumerate() {
                for row in fold {
                    prop_assert_eq!(*fold_of_group.entry(rows[*row].1).or_insert(k), k);
                }
            }
            let test = split.rows(Part::Test);
            for round in split.rounds() {
                let mut all = [round.train, round.validation, test.clone()].concat();
                all.sort_unstable();
                prop_assert_eq!(all, (0..rows.len()).collect::<Vec<_>>());
            }
            prop_assert_ne!(split.fingerprint(), plain);
        }
    }

    #[test]
    fn folds_are_as_large_and_as_mixed_as_one_another() {
        let rows: Vec<_> = (0..300).map(|i| (usize::from(i % 5 == 0), None)).collect();
        let data = dataset(&rows);
        let mut split = split_of(&data, 1);
        split.cut(&data, &ties(&data, None), 5, &mut rng(1, 0, "folds"));
        for fold in split.folds() {
            let counts = crate::baseline::counts_of(&data, fold);
            assert!(fold.len().abs_diff(54) <= 2, "{counts:?}");
            assert!(counts[1].abs_diff(11) <= 1, "{counts:?}");
        }
        let one = split_of(&data, 1);
        let mut same = one.clone();
        same.cut(&data, &ties(&data, None), 1, &mut rng(1, 0, "folds"));
        assert_eq!((one.rounds().len(), &one), (1, &same));
    }

    #[test]
    fn rows_tied_by_group_or_text_or_both_in_a_chain_stay_together() {
        let data = dataset(&[
            (0, Some(1)),
            (0, Some(2)),
            (0, Some(1)),
            (1, Some(3)),
            (1, Some(4)),
        ]);
        assert_eq!(ties(&data, None), [0, 1, 0, 3, 4]);
        // Rows 2 and 1 have one text: so all of the groups 1 and 2 are tied.
        assert_eq!(ties(&data, Some(&[7, 8, 8, 9, 7])), [0, 0, 0, 3, 0]);
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
