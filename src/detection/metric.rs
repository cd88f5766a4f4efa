//! Precision, recall and h-mean of detections by the protocol of ICDAR 2015: a text is found where an outline has more
//! than half of the area of the two together in common with it. Texts are gone through in their order, each takes the
//! first outline that is left. An outline that lies for more than half of its own area in an ignored text counts nowhere,
//! nor does that text.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::page::Truth;
use crate::polygon::Polygon;

/// The share that must be exceeded, of the area of both together or of the outline's own.
const SHARE: f64 = 0.5;

/// What an outline has to do with the texts of its page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlap {
    /// It lies in an ignored text.
    ignored: bool,
    /// The texts that it would be an answer to, ascending.
    truths: Vec<usize>,
}

/// What an outline has to do with these texts.
pub fn overlap(found: &Polygon, truths: &[Truth]) -> Overlap {
    let area = found.area();
    let mut overlap = Overlap {
        ignored: false,
        truths: Vec::new(),
    };
    for (k, truth) in truths.iter().enumerate() {
        let common = found.common_area(&truth.polygon);
        if truth.ignored {
            overlap.ignored |= common > SHARE * area;
        } else if common > SHARE * (area + truth.polygon.area() - common) {
            overlap.truths.push(k);
        }
    }
    overlap
}

/// Counts of a page, or of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Texts that matter.
    pub truths: usize,
    /// Outlines that are not in ignored texts.
    pub found: usize,
    /// Pairs of the two.
    pub matched: usize,
}

impl Counts {
    /// Of a page's texts, and of the overlaps of what was found there.
    pub fn of<'a>(truths: &[Truth], found: impl IntoIterator<Item = &'a Overlap>) -> Counts {
        let found: Vec<&Overlap> = found.into_iter().filter(|found| !found.ignored).collect();
        let mut free = vec![true; found.len()];
        let mut takes = |truth: usize| {
            let taken = (0..found.len()).find(|k| free[*k] && found[*k].truths.contains(&truth));
            if let Some(taken) = taken {
                free[taken] = false;
            }
            taken.is_some()
        };
        Counts {
            truths: truths.iter().filter(|truth| !truth.ignored).count(),
            matched: (0..truths.len()).filter(|truth| takes(*truth)).count(),
            found: found.len(),
        }
    }

    /// The share of the outlines that are answers; 0 without outlines.
    pub fn precision(&self) -> f64 {
        share(self.matched, self.found)
    }

    /// The share of the texts that were found; 0 without texts.
    pub fn recall(&self) -> f64 {
        share(self.matched, self.truths)
    }

    /// The harmonic mean of precision and recall.
    pub fn hmean(&self) -> f64 {
        // 2 p r / (p + r), without a division by 0.
        share(2 * self.matched, self.found + self.truths)
    }

    /// The metrics by their names.
    pub fn metrics(&self) -> [(&'static str, f64); 3] {
        [
            ("hmean", self.hmean()),
            ("precision", self.precision()),
            ("recall", self.recall()),
        ]
    }
}

fn share(part: usize, all: usize) -> f64 {
    match all {
        0 => 0.0,
        all => part as f64 / all as f64,
    }
}

impl std::iter::Sum for Counts {
    fn sum<I: Iterator<Item = Counts>>(pages: I) -> Counts {
        pages.fold(Counts::default(), |all, page| Counts {
            truths: all.truths + page.truths,
            found: all.found + page.found,
            matched: all.matched + page.matched,
        })
    }
}

/// In how many ways pages are drawn for an interval.
const DRAWS: usize = 2000;

/// Where the h-mean lies with 95 % confidence, by drawing as many pages again, with repetition (percentile bootstrap).
/// `None` for fewer than two pages, which say nothing of how pages differ.
pub fn interval(pages: &[Counts], rng: &mut ChaCha8Rng) -> Option<[f64; 2]> {
    if pages.len() < 2 {
        return None;
    }
    let mut draw = || {
        let drawn = (0..pages.len()).map(|_| pages[rng.random_range(0..pages.len())]);
        drawn.sum::<Counts>().hmean()
    };
    let mut values: Vec<f64> = (0..DRAWS).map(|_| draw()).collect();
    values.sort_by(f64::total_cmp);
    let tail = DRAWS / 40;
    Some([values[tail - 1], values[DRAWS - tail]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn counts(truths: &[(f64, bool)], found: &[(f64, f64)]) -> Counts {
        let truth = |(x, ignored): &(f64, bool)| Truth {
            polygon: Polygon::rectangle([*x, 0.0], [x + 10.0, 10.0]),
            text: String::new(),
            ignored: *ignored,
        };
        let truths: Vec<Truth> = truths.iter().map(truth).collect();
        let of = |(from, to): &(f64, f64)| {
            overlap(&Polygon::rectangle([*from, 0.0], [*to, 10.0]), &truths)
        };
        let found: Vec<Overlap> = found.iter().map(of).collect();
        Counts::of(&truths, &found)
    }

    fn expected(truths: usize, found: usize, matched: usize) -> Counts {
        Counts {
            truths,
            found,
            matched,
        }
    }

    #[test]
    fn half_of_both_is_not_enough() {
        assert_eq!(counts(&[(0.0, false)], &[(0.0, 5.0)]), expected(1, 1, 0));
        assert_eq!(counts(&[(0.0, false)], &[(0.0, 5.1)]), expected(1, 1, 1));
    }

    #[test]
    fn each_text_is_found_once() {
        let found = [(0.0, 10.0), (1.0, 10.0), (30.0, 40.0)];
        assert_eq!(
            counts(&[(0.0, false), (50.0, false)], &found),
            expected(2, 3, 1)
        );
        // Two that overlap: the second takes what is left.
        assert_eq!(
            counts(&[(0.0, false), (1.0, false)], &[(0.0, 10.0), (1.0, 11.0)]),
            expected(2, 2, 2)
        );
    }

    #[test]
    fn what_lies_in_an_ignored_text_counts_nowhere() {
        assert_eq!(
            counts(&[(0.0, true)], &[(2.0, 4.0), (5.0, 14.0)]),
            expected(0, 0, 0)
        );
        assert_eq!(counts(&[(0.0, true)], &[(5.0, 16.0)]), expected(0, 1, 0));
    }

    #[test]
    fn shares_without_anything_are_zero() {
        let none = Counts::default();
        assert_eq!([none.precision(), none.recall(), none.hmean()], [0.0; 3]);
        let some = expected(4, 2, 1);
        assert_eq!([some.precision(), some.recall()], [0.5, 0.25]);
        assert!((some.hmean() - 1.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn the_interval_is_narrow_where_pages_are_alike() {
        let rng = || ChaCha8Rng::seed_from_u64(7);
        assert_eq!(interval(&[expected(1, 1, 1)], &mut rng()), None);
        let alike = interval(&[expected(10, 10, 8); 20], &mut rng()).unwrap();
        assert_eq!(alike, [0.8, 0.8]);
        let mixed: Vec<Counts> = (0..20).map(|k| expected(10, 10, k % 2 * 10)).collect();
        let [low, high] = interval(&mixed, &mut rng()).unwrap();
        assert!(low < 0.35 && high > 0.65, "{low} {high}");
        // Of a share of one half and 20 draws, the standard error is 0.11.
        assert!(low > 0.2 && high < 0.8, "{low} {high}");
        assert_eq!(interval(&mixed, &mut rng()), Some([low, high]));
    }
}
