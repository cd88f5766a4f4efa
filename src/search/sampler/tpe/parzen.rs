//! Parzen estimators: mixtures with one component a trial and one for the prior, each a product of
//! a kernel a parameter.
//!
//! Bandwidths follow Bergstra et al. 2011 (the larger gap to the neighbours, clipped from below by
//! a "magic" share of the range, see Watanabe 2023, arXiv 2304.11127, section 3.3.2); categorical
//! kernels are smoothed indicators. Values and sums agree with Optuna 5's. Among trials with equal
//! values the gaps are given out in order of number (Optuna leaves that order to its sorting).

use super::columns::Column;
use super::normal;
use super::scale::{Range, Scale};
use super::split;

/// A one-dimensional kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kernel {
    /// A normal distribution, truncated to its range.
    Normal { mu: f64, sigma: f64 },
    /// A smoothed choice; `None` is uniform.
    Choice(Option<usize>),
}

/// A mixture over the parameters of a group.
#[derive(Debug, Clone)]
pub(super) struct Parzen {
    /// One weight a trial, and the prior's last.
    weights: Vec<f64>,
    /// The logarithms of the weights with all normalising constants of continuous kernels.
    base: Vec<f64>,
    dimensions: Vec<Dimension>,
}

/// One parameter of a group.
#[derive(Debug, Clone)]
enum Dimension {
    Fixed,
    Continuous {
        range: Range,
        mu: Vec<f64>,
        sigma: Vec<f64>,
        inverse: Vec<f64>,
    },
    /// Few different kernels, shared by the components: `kernel[of[k]]` is component k's.
    Discrete {
        of: Vec<u32>,
        kernels: Vec<Kernel>,
        grid: Grid,
    },
}

#[derive(Debug, Clone, Copy)]
enum Grid {
    Choices(usize),
    Cells(Range),
}

/// Which component each row is; the components' rows ascend.
pub(super) struct Components<'a> {
    pub rows: &'a [usize],
    /// By row; `u32::MAX` where the row is no component.
    pub of_row: &'a [u32],
}

impl Parzen {
    pub fn new(columns: &[&Column], components: &Components) -> Parzen {
        let weights = split::weights(components.rows.len());
        let mut base: Vec<f64> = weights.iter().map(|w| w.ln()).collect();
        let dimensions = columns
            .iter()
            .map(|column| Dimension::new(column, components, &mut base))
            .collect();
        Parzen {
            weights,
            base,
            dimensions,
        }
    }

    /// The component at `unit` of the cumulated weights.
    pub fn component(&self, unit: f64) -> usize {
        let mut sum = 0.0;
        let found = self.weights.iter().position(|w| {
            sum += w;
            unit < sum
        });
        found.unwrap_or(self.weights.len() - 1)
    }

    /// The kernel of a component in a dimension; `None` where the dimension is fixed.
    pub fn kernel(&self, dimension: usize, component: usize) -> Option<Kernel> {
        match &self.dimensions[dimension] {
            Dimension::Fixed => None,
            Dimension::Continuous { mu, sigma, .. } => Some(Kernel::Normal {
                mu: mu[component],
                sigma: sigma[component],
            }),
            Dimension::Discrete { of, kernels, .. } => Some(kernels[of[component] as usize]),
        }
    }

    /// How strongly a categorical kernel of this mixture is smoothed: the mass beside the trial's
    /// own choice that each choice has before normalisation.
    pub fn smoothing(&self) -> f64 {
        1.0 / self.weights.len() as f64
    }

    /// The logarithm of the density at each of the points (internal representation; on the
    /// logarithmic scale, densities are those of the logarithm).
    pub fn ln_density(&self, points: &[Vec<f64>]) -> Vec<f64> {
        let mut sums = vec![0.0; self.base.len()];
        let mut tables = Tables::new(self, points);
        points
            .iter()
            .map(|point| {
                sums.copy_from_slice(&self.base);
                for (j, dimension) in self.dimensions.iter().enumerate() {
                    match dimension {
                        Dimension::Fixed => {}
                        Dimension::Continuous {
                            range, mu, inverse, ..
                        } => {
                            let x = range.forth(point[j]);
                            for ((sum, m), i) in sums.iter_mut().zip(mu).zip(inverse) {
                                let z = (x - m) * i;
                                *sum -= 0.5 * z * z;
                            }
                        }
                        Dimension::Discrete { of, kernels, grid } => {
                            let table =
                                tables.masses(j, point[j], kernels, *grid, self.smoothing());
                            for (sum, &kernel) in sums.iter_mut().zip(of) {
                                *sum += table[kernel as usize];
                            }
                        }
                    }
                }
                ln_sum_exp(&sums)
            })
            .collect()
    }
}

/// What one batch of points needs more than once.
struct Tables {
    /// By dimension: the normalising constants of its kernels.
    whole: Vec<Vec<f64>>,
    /// By dimension: the values seen, with each kernel's logarithmic mass there.
    seen: Vec<Vec<(f64, Vec<f64>)>>,
}

impl Tables {
    fn new(parzen: &Parzen, points: &[Vec<f64>]) -> Tables {
        let width = parzen.dimensions.len();
        let whole = parzen.dimensions.iter().map(|d| match d {
            Dimension::Discrete {
                kernels,
                grid: Grid::Cells(range),
                ..
            } => kernels.iter().map(|k| ln_whole(k, range)).collect(),
            Dimension::Discrete { .. } | Dimension::Continuous { .. } | Dimension::Fixed => {
                Vec::new()
            }
        });
        Tables {
            whole: whole.collect(),
            seen: vec![Vec::with_capacity(points.len()); width],
        }
    }

    fn masses(
        &mut self,
        dimension: usize,
        x: f64,
        kernels: &[Kernel],
        grid: Grid,
        smoothing: f64,
    ) -> &[f64] {
        let seen = &mut self.seen[dimension];
        let at = match seen.iter().position(|(v, _)| *v == x) {
            Some(at) => at,
            None => {
                let masses = match grid {
                    Grid::Choices(n) => kernels
                        .iter()
                        .map(|k| choice_mass(k, n, x as usize, smoothing).ln())
                        .collect(),
                    Grid::Cells(range) => {
                        let a = range.forth(x - range.step / 2.0);
                        let b = range.forth(x + range.step / 2.0);
                        let far = far(self.whole.len());
                        cell_masses(kernels, &self.whole[dimension], (a, b), far)
                    }
                };
                seen.push((x, masses));
                seen.len() - 1
            }
        };
        &seen[at].1
    }
}

impl Dimension {
    fn new(column: &Column, components: &Components, base: &mut [f64]) -> Dimension {
        match column.scale {
            Scale::Fixed => Dimension::Fixed,
            Scale::Categorical { choices } => {
                let own = components.rows.iter().map(|&r| column.values[r] as u32);
                Dimension::Discrete {
                    of: own.chain([choices as u32]).collect(),
                    kernels: (0..choices)
                        .map(|c| Kernel::Choice(Some(c)))
                        .chain([Kernel::Choice(None)])
                        .collect(),
                    grid: Grid::Choices(choices),
                }
            }
            Scale::Numeric(range) => {
                let sorted: Vec<(u32, f64)> = column
                    .order
                    .iter()
                    .map(|&r| (components.of_row[r as usize], column.values[r as usize]))
                    .filter(|(k, _)| *k != u32::MAX)
                    .collect();
                let sigmas = bandwidths(&sorted, &range);
                if range.step > 0.0 {
                    discrete(&sorted, &sigmas, range)
                } else {
                    continuous(&sorted, &sigmas, &range, base)
                }
            }
        }
    }
}

/// The bandwidths of trials sorted by value, in that order: the larger gap to the neighbours (the
/// outermost trials have one neighbour; a single trial has the ends of the range), at least the
/// range by the number of components plus 1 (100 at most), at most the range.
pub(super) fn bandwidths(sorted: &[(u32, f64)], range: &Range) -> Vec<f64> {
    let n = sorted.len();
    let least = range.width() / (n as f64 + 2.0).min(100.0);
    (0..n)
        .map(|i| {
            let mu = sorted[i].1;
            let left = i.checked_sub(1).map(|j| mu - sorted[j].1);
            let right = sorted.get(i + 1).map(|s| s.1 - mu);
            let gap = match (left, right) {
                (Some(a), Some(b)) => a.max(b),
                (Some(gap), None) | (None, Some(gap)) => gap,
                (None, None) => (mu - range.low).max(range.high - mu),
            };
            gap.clamp(least, range.width())
        })
        .collect()
}

fn prior(range: &Range) -> (f64, f64) {
    (0.5 * (range.low + range.high), range.width())
}

fn continuous(sorted: &[(u32, f64)], sigmas: &[f64], range: &Range, base: &mut [f64]) -> Dimension {
    let n = sorted.len();
    let (mu_prior, sigma_prior) = prior(range);
    let (mut mu, mut sigma) = (vec![mu_prior; n + 1], vec![sigma_prior; n + 1]);
    for (&(k, m), &s) in sorted.iter().zip(sigmas) {
        mu[k as usize] = m;
        sigma[k as usize] = s;
    }
    // Most bandwidths are the least one: their logarithm is taken once.
    let (mut last, mut constant) = (f64::NAN, f64::NAN);
    for ((b, &m), &s) in base.iter_mut().zip(&mu).zip(&sigma) {
        if s != last {
            (last, constant) = (s, s.ln() + normal::LN_SQRT_TAU);
        }
        *b -= constant + normal::ln_mass((range.low - m) / s, (range.high - m) / s);
    }
    Dimension::Continuous {
        range: *range,
        inverse: sigma.iter().map(|s| 1.0 / s).collect(),
        mu,
        sigma,
    }
}

fn discrete(sorted: &[(u32, f64)], sigmas: &[f64], range: Range) -> Dimension {
    let (mu, sigma) = prior(&range);
    let mut kernels = vec![Kernel::Normal { mu, sigma }];
    let mut of = vec![0; sorted.len() + 1];
    // Trials with equal values stand together, with three different bandwidths at most.
    let mut run = kernels.len();
    for (i, (&(k, mu), &sigma)) in sorted.iter().zip(sigmas).enumerate() {
        if i == 0 || mu != sorted[i - 1].1 {
            run = kernels.len();
        }
        let kernel = Kernel::Normal { mu, sigma };
        let known = kernels[run..].iter().position(|other| *other == kernel);
        of[k as usize] = match known {
            Some(at) => run + at,
            None => {
                kernels.push(kernel);
                kernels.len() - 1
            }
        } as u32;
    }
    Dimension::Discrete {
        of,
        kernels,
        grid: Grid::Cells(range),
    }
}

/// The mass that a categorical kernel gives to choice `x` of `n`.
pub(super) fn choice_mass(kernel: &Kernel, n: usize, x: usize, smoothing: f64) -> f64 {
    match kernel {
        Kernel::Choice(Some(own)) => {
            let hit = if *own == x { 1.0 } else { 0.0 };
            (smoothing + hit) / (smoothing * n as f64 + 1.0)
        }
        Kernel::Choice(None) | Kernel::Normal { .. } => 1.0 / n as f64,
    }
}

/// How many standard deviations away a cell has to be for a component's mass there to be no part of a
/// mixture of so many parameters. The prior is part of every mixture, and a component's kernel is a
/// hundred times as high as the prior's at most: in each of the other parameters it can make up for
/// no more than that.
fn far(dimensions: usize) -> f64 {
    (2.0 * (dimensions as f64 * 6.0 - NEGLIGIBLE)).sqrt()
}

/// The logarithmic mass of the cell `a..b` for each kernel, less that of the whole range. Of kernels
/// that are `far` away a bound is taken: exp(-z^2 / 2) is more than the whole tail beyond z.
fn cell_masses(kernels: &[Kernel], whole: &[f64], (a, b): (f64, f64), far: f64) -> Vec<f64> {
    let ln_cell = (b - a).ln();
    // Most bandwidths are the least one: their logarithm is taken once.
    let (mut last, mut ln_width) = (f64::NAN, f64::NAN);
    let mass = |(kernel, whole): (&Kernel, &f64)| match kernel {
        Kernel::Normal { mu, sigma } => {
            let apart = (a - mu).max(mu - b);
            if apart > far * sigma {
                let z = apart / sigma;
                return -0.5 * z * z - whole;
            }
            if *sigma != last {
                (last, ln_width) = (*sigma, ln_cell - sigma.ln());
            }
            let (from, to) = ((a - mu) / sigma, (b - mu) / sigma);
            normal::ln_mass_of_width(from, to, || ln_width) - whole
        }
        Kernel::Choice(_) => -whole,
    };
    kernels.iter().zip(whole).map(mass).collect()
}

fn ln_interval(kernel: &Kernel, a: f64, b: f64) -> f64 {
    match kernel {
        Kernel::Normal { mu, sigma } => normal::ln_mass((a - mu) / sigma, (b - mu) / sigma),
        Kernel::Choice(_) => 0.0,
    }
}

fn ln_whole(kernel: &Kernel, range: &Range) -> f64 {
    ln_interval(kernel, range.low, range.high)
}

/// Terms this far below the largest are less than an ulp of the sum, by the thousand.
const NEGLIGIBLE: f64 = -45.0;

fn ln_sum_exp(terms: &[f64]) -> f64 {
    // Four lanes side by side, so that the compiler can vectorise.
    let (chunks, rest) = terms.as_chunks::<4>();
    let larger = |a: f64, b: f64| if b > a { b } else { a };
    let mut lanes = [f64::NEG_INFINITY; 4];
    for chunk in chunks {
        for (lane, term) in lanes.iter_mut().zip(chunk) {
            *lane = larger(*lane, *term);
        }
    }
    let most = lanes
        .iter()
        .chain(rest)
        .fold(f64::NEG_INFINITY, |a, &b| larger(a, b));
    if most == f64::NEG_INFINITY {
        return most;
    }
    let exp = |term: f64| normal::exp_of_negative((term - most).max(NEGLIGIBLE));
    let mut sums = [0.0; 4];
    for chunk in chunks {
        // With many parameters, nearly all components are far from any one point.
        if chunk.iter().any(|term| term - most > NEGLIGIBLE) {
            for (sum, term) in sums.iter_mut().zip(chunk) {
                *sum += exp(*term);
            }
        }
    }
    let rest: f64 = rest.iter().map(|term| exp(*term)).sum();
    most + (sums.iter().sum::<f64>() + rest).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_far_away_is_bounded_by_less_than_what_counts() {
        let kernels: Vec<Kernel> = (0..100)
            .map(|k| Kernel::Normal {
                mu: f64::from(k) / 100.0,
                sigma: 0.01,
            })
            .collect();
        let whole = vec![0.0; kernels.len()];
        let cell = (0.295, 0.305);
        let exact = cell_masses(&kernels, &whole, cell, f64::INFINITY);
        let found = cell_masses(&kernels, &whole, cell, far(3));
        let mut bounded = 0;
        for (found, exact) in found.iter().zip(&exact) {
            if found != exact {
                bounded += 1;
                assert!(*found > *exact && *found < NEGLIGIBLE - 3.0 * 6.0);
            }
        }
        assert!(bounded > 50, "{bounded}");
    }
}
