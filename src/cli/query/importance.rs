//! Which parameters matter most in a study, beside its best trial.

use std::collections::BTreeMap;

use super::format::printable;
use messages::exit::Failure;
use search::importance::{FEWEST, shares};
use store::{Store, StudySummary};

/// So many parameters are named to people.
const NAMED: usize = 5;

/// Less than this is not worth a word.
const LEAST: f64 = 0.01;

/// The share of each parameter in what makes a trial one of the best tenth; `None` with several
/// objectives, and where too few trials are complete.
pub(super) fn importances(
    store: &Store,
    study: &StudySummary,
) -> Result<Option<BTreeMap<String, f64>>, Failure> {
    let [direction] = study.directions[..] else {
        return Ok(None);
    };
    if study.counts.complete < FEWEST as u64 {
        return Ok(None);
    }
    let trials = store.overviews(study.study_id, &[])?;
    Ok(Some(shares(&trials, direction)))
}

/// The most important ones, for people: `optim.lr 62 %, model.dropout 21 %`.
pub(super) fn text(importances: &BTreeMap<String, f64>) -> Option<String> {
    let mut ranked: Vec<(&String, f64)> = importances.iter().map(|(n, s)| (n, *s)).collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    let named = ranked.into_iter().filter(|(_, share)| *share >= LEAST);
    let named = named.take(NAMED);
    let named: Vec<String> = named
        .map(|(name, share)| format!("{} {:.0} %", printable(name), 100.0 * share))
        .collect();
    (!named.is_empty()).then(|| named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_five_parameters_that_matter_most_are_named_with_their_shares() {
        let shares = [0.05, 0.4, 0.001, 0.2, 0.25, 0.06, 0.039];
        let named = |(i, share): (usize, &f64)| (format!("p{i}"), *share);
        let all = shares.iter().enumerate().map(named).collect();
        let expected = "p1 40 %, p4 25 %, p3 20 %, p5 6 %, p0 5 %";
        assert_eq!(text(&all).as_deref(), Some(expected));
        assert_eq!(text(&[("a".to_owned(), 0.0)].into()), None);
    }
}
