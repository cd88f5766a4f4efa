//! The order of rows in training: shuffled, but with rows of like length together, so that little
//! is spent on padding.

use rand::Rng;

/// Batches between which rows of like length are sought. Of the tokens of our reviews in batches of
/// 16, 5 % are padding; 10 % with half as many, 1 % if all rows were sorted, but then rows of like
/// length always meet each other.
const BATCHES_A_BUCKET: usize = 64;

/// Fisher-Yates. Written out because studies depend on its results: a library's may change.
pub fn shuffle<T>(items: &mut [T], rng: &mut impl Rng) {
    for i in (1..items.len()).rev() {
        let j = (u128::from(rng.next_u64()) * (i as u128 + 1)) >> 64;
        items.swap(i, j as usize);
    }
}

/// One epoch's batches: each of `0..lengths.len()` once; all batches have `size` rows but one. A
/// function of the arguments and the generator's state.
pub fn bucketed(lengths: &[u32], size: usize, rng: &mut impl Rng) -> Vec<Vec<usize>> {
    let size = size.max(1);
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    shuffle(&mut order, rng);
    let mut batches: Vec<Vec<usize>> = order
        .chunks_mut(size * BATCHES_A_BUCKET)
        .flat_map(|bucket| {
            bucket.sort_by_key(|row| lengths[*row]);
            bucket.chunks(size).map(<[usize]>::to_vec)
        })
        .collect();
    shuffle(&mut batches, rng);
    batches
}

/// Fixed batches in the order of length, each of at most `tokens` tokens with its padding (at least
/// one row): for passes whose result must not depend on a trial.
pub fn by_length(lengths: &[u32], tokens: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|row| lengths[*row]);
    let mut batches: Vec<Vec<usize>> = Vec::new();
    for row in order {
        let length = lengths[row].max(1) as usize;
        match batches.last_mut() {
            Some(batch) if (batch.len() + 1) * length <= tokens => batch.push(row),
            Some(_) | None => batches.push(vec![row]),
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use search::study::rng;

    proptest! {
        #[test]
        fn every_row_is_in_one_batch(
            lengths in prop::collection::vec(1u32..200, 1..400), size in 1usize..70, seed in 0u64..9,
        ) {
            let batches = bucketed(&lengths, size, &mut rng(seed, 0, "batches"));
            prop_assert_eq!(batches.len(), lengths.len().div_ceil(size));
            let mut all: Vec<usize> = batches.concat();
            all.sort_unstable();
            prop_assert_eq!(all, (0..lengths.len()).collect::<Vec<_>>());

            let fixed = by_length(&lengths, 256);
            let mut all: Vec<usize> = fixed.concat();
            all.sort_unstable();
            prop_assert_eq!(all, (0..lengths.len()).collect::<Vec<_>>());
            for batch in fixed {
                let longest = batch.iter().map(|r| lengths[*r] as usize).max().unwrap_or(0);
                prop_assert!(batch.len() == 1 || batch.len() * longest <= 256);
            }
        }
    }

    #[test]
    fn the_order_is_a_function_of_the_seed() {
        let lengths: Vec<u32> = (0..100).map(|i| i % 17).collect();
        let of = |seed| bucketed(&lengths, 8, &mut rng(seed, 0, "batches"));
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }
}
