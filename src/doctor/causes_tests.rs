//! The figures of the table of causes are probabilities.

use super::*;

#[test]
fn every_figure_is_a_probability() {
    for cause in Cause::ALL {
        let profile = cause.row();
        assert!(profile.weight > 0.0);
        let figures = profile
            .shows
            .iter()
            .map(|s| s.1)
            .chain(profile.ends.iter().map(|e| e.1));
        assert!(figures.into_iter().all(|p| p > 0.0 && p < 1.0), "{cause}");
    }
}

#[test]
fn no_two_causes_are_told_apart_by_nothing() {
    for (at, a) in Cause::ALL.iter().enumerate() {
        for b in &Cause::ALL[at + 1..] {
            let (p, q) = (a.row(), b.row());
            assert!(p.shows != q.shows || p.ends != q.ends, "{a} and {b}");
        }
    }
}
