//! Minimisation of a smooth function within a box: L-BFGS on the variables that no bound holds,
//! with projected backtracking (Liu and Nocedal, "On the limited memory BFGS method for large scale
//! optimization", 1989; Bertsekas, "Projected Newton methods", 1982).

use std::collections::VecDeque;

/// Pairs of steps and gradient differences kept.
const MEMORY: usize = 8;

/// Sufficient decrease (Armijo).
const DECREASE: f64 = 1e-4;

/// When to stop.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Most evaluations of the function.
    pub evaluations: usize,
    /// Relative decrease below which a step counts as the last.
    pub tolerance: f64,
}

/// Moves `x` to a minimum of `f` within `bounds`; the value there. `f` writes its gradient and
/// returns its value; a value that is not finite counts as infinitely large.
pub(super) fn minimise(
    x: &mut [f64],
    bounds: &[(f64, f64)],
    limits: Limits,
    mut f: impl FnMut(&[f64], &mut [f64]) -> f64,
) -> f64 {
    let n = x.len();
    project(x, bounds);
    let mut gradient = vec![0.0; n];
    let mut value = f(x, &mut gradient);
    let mut left = limits.evaluations.saturating_sub(1);
    let mut memory: VecDeque<(Vec<f64>, Vec<f64>, f64)> = VecDeque::new();
    let (mut trial, mut trial_gradient) = (x.to_vec(), vec![0.0; n]);
    while left > 0 && value.is_finite() {
        let free = free(x, &gradient, bounds);
        let mut direction = two_loop(&gradient, &free, &memory);
        let mut slope = dot(&direction, &gradient);
        if slope >= 0.0 {
            memory.clear();
            direction = two_loop(&gradient, &free, &memory);
            slope = dot(&direction, &gradient);
        }
        if slope > -1e-12 {
            break;
        }
        // Without curvature the first step is a short one.
        let norm = dot(&direction, &direction).sqrt();
        let mut step = if memory.is_empty() {
            (0.3 / norm).min(1.0)
        } else {
            1.0
        };
        let mut found = None;
        while left > 0 {
            for i in 0..n {
                trial[i] = x[i] + step * direction[i];
            }
            project(&mut trial, bounds);
            let moved: f64 = (0..n).map(|i| gradient[i] * (trial[i] - x[i])).sum();
            let reached = f(&trial, &mut trial_gradient);
            left -= 1;
            if reached.is_finite() && reached <= value + DECREASE * moved.min(0.0) {
                found = Some(reached);
                break;
            }
            step *= 0.3;
            if step < 1e-8 {
                break;
            }
        }
        let Some(reached) = found else { break };
        let s: Vec<f64> = (0..n).map(|i| trial[i] - x[i]).collect();
        let y: Vec<f64> = (0..n).map(|i| trial_gradient[i] - gradient[i]).collect();
        let curvature = dot(&s, &y);
        if curvature > 1e-10 * dot(&y, &y) {
            if memory.len() == MEMORY {
                memory.pop_front();
            }
            memory.push_back((s, y, curvature));
        }
        let decrease = value - reached;
        x.copy_from_slice(&trial);
        gradient.copy_from_slice(&trial_gradient);
        value = reached;
        if decrease <= limits.tolerance * (1.0 + value.abs()) {
            break;
        }
    }
    value
}

/// The variables that can move against their gradient.
fn free(x: &[f64], gradient: &[f64], bounds: &[(f64, f64)]) -> Vec<bool> {
    let held = |i: usize| {
        let (low, high) = bounds[i];
        (x[i] <= low && gradient[i] > 0.0) || (x[i] >= high && gradient[i] < 0.0)
    };
    (0..x.len()).map(|i| !held(i)).collect()
}

/// The quasi-Newton direction among the free variables.
fn two_loop(
    gradient: &[f64],
    free: &[bool],
    memory: &VecDeque<(Vec<f64>, Vec<f64>, f64)>,
) -> Vec<f64> {
    let masked = |v: &[f64]| -> Vec<f64> {
        let keep = |(x, free): (&f64, &bool)| if *free { *x } else { 0.0 };
        v.iter().zip(free).map(keep).collect()
    };
    let mut q = masked(gradient);
    let mut alphas = Vec::with_capacity(memory.len());
    for (s, y, curvature) in memory.iter().rev() {
        let alpha = dot(s, &q) / curvature;
        add(&mut q, -alpha, y);
        alphas.push(alpha);
    }
    if let Some((_, y, curvature)) = memory.back() {
        let scale = curvature / dot(y, y);
        q.iter_mut().for_each(|v| *v *= scale);
    }
    for ((s, y, curvature), alpha) in memory.iter().zip(alphas.iter().rev()) {
        let beta = dot(y, &q) / curvature;
        add(&mut q, alpha - beta, s);
    }
    q.iter_mut().for_each(|v| *v = -*v);
    masked(&q)
}

fn project(x: &mut [f64], bounds: &[(f64, f64)]) {
    for (v, (low, high)) in x.iter_mut().zip(bounds) {
        *v = v.clamp(*low, *high);
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn add(a: &mut [f64], factor: f64, b: &[f64]) {
    for (x, y) in a.iter_mut().zip(b) {
        *x += factor * y;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rosenbrock(x: &[f64], g: &mut [f64]) -> f64 {
        let (a, b) = (x[0], x[1]);
        g[0] = -400.0 * a * (b - a * a) - 2.0 * (1.0 - a);
        g[1] = 200.0 * (b - a * a);
        100.0 * (b - a * a).powi(2) + (1.0 - a).powi(2)
    }

    const LIMITS: Limits = Limits {
        evaluations: 200,
        tolerance: 1e-14,
    };

    #[test]
    fn it_finds_the_bottom_of_a_curved_valley() {
        let mut x = [-1.2, 1.0];
        let value = minimise(&mut x, &[(-2.0, 2.0); 2], LIMITS, rosenbrock);
        assert!(value < 1e-8, "{x:?}");
    }

    #[test]
    fn it_stops_at_the_best_point_of_a_bound() {
        let mut x = [-1.2, 1.0];
        let bounds = [(-2.0, 0.5), (-2.0, 2.0)];
        minimise(&mut x, &bounds, LIMITS, rosenbrock);
        assert!(
            (x[0] - 0.5).abs() < 1e-6 && (x[1] - 0.25).abs() < 1e-4,
            "{x:?}"
        );
    }

    #[test]
    fn it_never_ends_worse_than_it_began_and_keeps_to_its_evaluations() {
        for evaluations in [1, 2, 5, 17] {
            let limits = Limits {
                evaluations,
                ..LIMITS
            };
            let mut x = [1.5, -1.5];
            let start = rosenbrock(&x, &mut [0.0; 2]);
            let mut count = 0;
            let value = minimise(&mut x, &[(-2.0, 2.0); 2], limits, |x, g| {
                count += 1;
                rosenbrock(x, g)
            });
            assert!(value <= start && count <= evaluations);
        }
    }

    #[test]
    fn a_function_without_a_value_moves_nothing() {
        let mut x = [0.5];
        let value = minimise(&mut x, &[(0.0, 1.0)], LIMITS, |_, _| f64::NAN);
        assert!(value.is_nan());
        assert_eq!(x, [0.5]);
    }
}
