//! A few of many parts that make the whole fail, found by halving.

/// What was found of the parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Culprits<T> {
    /// It fails with these alone, and with neither half of them.
    These(Vec<T>),
    /// It fails with any part: the parts are not what it fails by.
    Any,
    /// It does not fail with the suspects alone.
    Nothing,
}

/// The smallest part found by halving of which `holds` is true, as it is of all; all where it is true of neither half.
///
/// # Errors
/// Those of `holds`.
pub fn halved<T: Clone, E>(
    mut parts: Vec<T>,
    holds: &mut dyn FnMut(&[T]) -> Result<bool, E>,
) -> Result<Vec<T>, E> {
    while parts.len() > 1 {
        let (first, second) = parts.split_at(parts.len() / 2);
        parts = if holds(first)? {
            first.to_vec()
        } else if holds(second)? {
            second.to_vec()
        } else {
            break;
        };
    }
    Ok(parts)
}

/// Which of the suspects, parts of `all`, make it fail.
///
/// # Errors
/// Those of `fails`.
pub fn culprits<T: Clone + PartialEq, E>(
    suspects: Vec<T>,
    all: &[T],
    fails: &mut dyn FnMut(&[T]) -> Result<bool, E>,
) -> Result<Culprits<T>, E> {
    if !fails(&suspects)? {
        return Ok(Culprits::Nothing);
    }
    let found = halved(suspects, fails)?;
    // As many others: where one part alone is too few to run, one alone would say nothing.
    let others = all.iter().filter(|part| !found.contains(part));
    let others: Vec<T> = others.take(found.len()).cloned().collect();
    match !others.is_empty() && fails(&others)? {
        true => Ok(Culprits::Any),
        false => Ok(Culprits::These(found)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(guilty: &[u32]) -> (Culprits<u32>, usize) {
        let all: Vec<u32> = (0..100).collect();
        let mut runs = 0;
        let mut fails = |parts: &[u32]| {
            runs += 1;
            Ok::<bool, ()>(guilty.iter().all(|g| parts.contains(g)))
        };
        let found = culprits(all.clone(), &all, &mut fails).unwrap();
        (found, runs)
    }

    #[test]
    fn where_one_part_is_too_few_to_run_two_are_compared_with_two() {
        let all: Vec<u32> = (0..100).collect();
        let mut guilty = |parts: &[u32]| Ok::<_, ()>(parts.len() > 1 && parts.contains(&41));
        let Culprits::These(found) = culprits(all.clone(), &all, &mut guilty).unwrap() else {
            panic!("41 is guilty");
        };
        assert!(found.len() == 2 && found.contains(&41), "{found:?}");
        let mut any = |parts: &[u32]| Ok::<_, ()>(parts.len() > 1);
        let found = culprits(all.clone(), &all, &mut any);
        assert_eq!(found, Ok(Culprits::Any));
    }

    #[test]
    fn one_of_a_hundred_takes_two_runs_for_each_halving_at_most() {
        for guilty in [0, 41, 99] {
            let (culprits, runs) = found(&[guilty]);
            assert_eq!(culprits, Culprits::These(vec![guilty]));
            assert!(runs <= 2 + 2 * 7, "{runs}");
        }
    }

    #[test]
    fn what_needs_parts_of_both_halves_stays_together() {
        let Culprits::These(parts) = found(&[10, 90]).0 else {
            panic!("they are found");
        };
        assert!(parts.contains(&10) && parts.contains(&90));
    }

    #[test]
    fn what_fails_with_any_part_fails_by_none() {
        assert_eq!(found(&[]).0, Culprits::Any);
        let never = &mut |_: &[u32]| Ok::<bool, ()>(false);
        assert_eq!(culprits(vec![1], &[1, 2], never), Ok(Culprits::Nothing));
    }

    #[test]
    fn an_end_of_the_runs_is_no_answer() {
        let mut left = 3;
        let mut fails = |_: &[u32]| {
            left -= 1;
            if left == 0 { Err("over") } else { Ok(true) }
        };
        assert_eq!(culprits((0..9).collect(), &[], &mut fails), Err("over"));
    }
}
