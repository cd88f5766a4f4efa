//! The batches at which runs have failed, by their numbers and rows: what they have in common. Pure.

use std::collections::BTreeSet;

/// Whether a failure comes at different batches, none of whose rows is in all of them: no row makes it fail, nor a last
/// batch that is smaller.
pub fn wanders(failed_at: &[(u64, BTreeSet<u64>)]) -> bool {
    shared(failed_at).is_empty() && comes_at_other_batches(failed_at)
}

/// The rows that every batch has at which it failed, where these are other batches of a pass: one of the rows may make it
/// fail. Empty: none stands out.
pub fn always_there(failed_at: &[(u64, BTreeSet<u64>)]) -> BTreeSet<u64> {
    match comes_at_other_batches(failed_at) {
        true => shared(failed_at),
        false => BTreeSet::new(),
    }
}

fn comes_at_other_batches(failed_at: &[(u64, BTreeSet<u64>)]) -> bool {
    let mut numbers = failed_at.windows(2);
    numbers.any(|pair| pair[0].0 != pair[1].0)
}

fn shared(failed_at: &[(u64, BTreeSet<u64>)]) -> BTreeSet<u64> {
    let batches = failed_at.iter().map(|(_, rows)| rows.clone());
    batches
        .reduce(|shared, rows| &shared & &rows)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_wanders_that_comes_at_other_batches_without_a_common_row() {
        let at = |batch: u64, rows: &[u64]| (batch, rows.iter().copied().collect());
        assert!(wanders(&[at(1, &[4, 9]), at(3, &[2, 8])]));
        assert!(!wanders(&[at(1, &[4, 9]), at(3, &[9, 8])]));
        assert!(!wanders(&[at(5, &[4, 9]), at(5, &[2, 8])]));
        assert!(!wanders(&[at(5, &[4, 9])]) && !wanders(&[]));
    }

    #[test]
    fn a_row_stands_out_that_is_in_each_of_the_batches_at_which_it_failed() {
        let at = |batch: u64, rows: &[u64]| (batch, rows.iter().copied().collect());
        assert_eq!(always_there(&[at(1, &[4, 9]), at(3, &[9, 8])]), [9].into());
        let with_any_row = [at(0, &[4, 9]), at(0, &[9, 8])];
        assert_eq!(always_there(&with_any_row), [].into());
        assert_eq!(always_there(&[at(1, &[4, 9]), at(3, &[2, 8])]), [].into());
        assert_eq!(always_there(&[]), [].into());
    }
}
