//! Which keys matter, and what each of them does by itself: forward selection of groups of columns
//! with a ridge regression, by a penalised likelihood (extended BIC: Chen and Chen, "Extended
//! Bayesian information criteria for model selection with large model spaces", 2008).

use faer::linalg::solvers::Solve;
use faer::{Mat, Side};

use super::columns::Columns;
use search::space::Params;

/// The ridge: the noise's variance over that of a column's effect, roughly.
const RIDGE: f64 = 0.05;
/// Most keys that are chosen.
const MOST: usize = 10;
/// Differences that are never explained, as a deviation: 1 %.
const LEAST: f64 = 0.01;

/// The groups that matter, with the effects of their columns.
#[derive(Debug, Clone)]
pub struct Effects {
    columns: Columns,
    /// Indices of groups, in the order of choice.
    chosen: Vec<usize>,
    /// Effects of the chosen groups' columns, in the same order.
    slopes: Vec<f64>,
    intercept: f64,
}

/// A configuration as the chosen keys show it.
#[derive(Debug, Clone)]
pub struct Place {
    /// The chosen columns.
    pub columns: Vec<f64>,
    /// What each chosen key does by itself: near places have effects alike.
    pub effects: Vec<f64>,
    /// The sum of all effects.
    pub mean: f64,
}

impl Effects {
    /// Of a sample; `targets` belong to its rows.
    pub fn new(columns: Columns, sample: &[(&Params, Option<f64>)], targets: &[f64]) -> Effects {
        let n = targets.len();
        let intercept = targets.iter().sum::<f64>() / n.max(1) as f64;
        let mut starts = vec![0];
        for group in &columns.groups {
            starts.push(starts.last().copied().unwrap_or(0) + group.width());
        }
        let width = starts.last().copied().unwrap_or(0);
        let mut x = Mat::<f64>::zeros(n, width);
        let mut row = Vec::with_capacity(width);
        for (i, (config, floor)) in sample.iter().enumerate() {
            row.clear();
            for group in &columns.groups {
                group.push(config, *floor, &mut row);
            }
            for (j, value) in row.iter().enumerate() {
                x[(i, j)] = *value;
            }
        }
        let y = Mat::from_fn(n, 1, |i, _| targets[i] - intercept);
        let gram = Gram {
            products: x.transpose() * &x,
            by_target: x.transpose() * &y,
            total: (0..n).map(|i| y[(i, 0)] * y[(i, 0)]).sum::<f64>() + n as f64 * LEAST * LEAST,
            rows: n,
            starts,
        };
        let chosen = gram.choose();
        let slopes = gram.solve(&chosen).map_or_else(Vec::new, |s| s.0);
        Effects {
            chosen: if slopes.is_empty() { vec![] } else { chosen },
            columns,
            slopes,
            intercept,
        }
    }

    /// The columns that it chose from.
    pub fn columns(&self) -> &Columns {
        &self.columns
    }

    /// Where a configuration is.
    pub fn place(&self, config: &Params, log_floor: Option<f64>) -> Place {
        let mut columns = Vec::with_capacity(self.slopes.len());
        let mut effects = Vec::with_capacity(self.chosen.len());
        for &group in &self.chosen {
            let from = columns.len();
            self.columns.groups[group].push(config, log_floor, &mut columns);
            let own = columns[from..].iter().zip(&self.slopes[from..]);
            effects.push(own.map(|(x, slope)| x * slope).sum());
        }
        Place {
            mean: self.intercept + effects.iter().sum::<f64>(),
            columns,
            effects,
        }
    }
}

/// Products of the columns among each other and with the targets.
struct Gram {
    products: Mat<f64>,
    by_target: Mat<f64>,
    total: f64,
    rows: usize,
    /// Where each group's columns begin; behind the last one's, their number.
    starts: Vec<usize>,
}

impl Gram {
    fn groups(&self) -> usize {
        self.starts.len() - 1
    }

    fn width(&self, group: usize) -> usize {
        self.starts[group + 1] - self.starts[group]
    }

    /// Adds the group that explains most as long as one explains more than chance would.
    fn choose(&self) -> Vec<usize> {
        let mut chosen: Vec<usize> = Vec::new();
        let mut rest = self.total;
        let n = self.rows as f64;
        while chosen.len() < MOST {
            let used: usize = chosen.iter().map(|g| self.width(*g)).sum();
            let room = |g: &usize| 2 * (used + self.width(*g) + 1) <= self.rows;
            let candidates = (0..self.groups()).filter(|g| !chosen.contains(g) && room(g));
            let scored = candidates.filter_map(|group| {
                let with: Vec<usize> = chosen.iter().copied().chain([group]).collect();
                let left = self.solve(&with)?.1;
                let chance = self.width(group) as f64 * n.ln() + 2.0 * (self.groups() as f64).ln();
                Some((n * (left / rest).ln() + chance, group, left))
            });
            let best = scored.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            match best {
                Some((gain, group, left)) if gain < 0.0 => {
                    chosen.push(group);
                    rest = left;
                }
                Some(_) | None => break,
            }
        }
        chosen
    }

    /// The effects of these groups' columns, and the squares that they leave, penalty included.
    fn solve(&self, groups: &[usize]) -> Option<(Vec<f64>, f64)> {
        let columns: Vec<usize> = groups
            .iter()
            .flat_map(|g| self.starts[*g]..self.starts[g + 1])
            .collect();
        let k = columns.len();
        if k == 0 {
            return None;
        }
        let matrix = Mat::from_fn(k, k, |i, j| {
            let ridge = if i == j { RIDGE } else { 0.0 };
            self.products[(columns[i], columns[j])] + ridge
        });
        let right = Mat::from_fn(k, 1, |i, _| self.by_target[(columns[i], 0)]);
        let slopes = matrix.llt(Side::Lower).ok()?.solve(&right);
        let explained: f64 = (0..k).map(|i| slopes[(i, 0)] * right[(i, 0)]).sum();
        let left = (self.total - explained).max(f64::MIN_POSITIVE);
        Some(((0..k).map(|i| slopes[(i, 0)]).collect(), left))
    }
}
