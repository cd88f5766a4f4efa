//! The space by index: points as vectors of coordinates, for samplers that compute with numbers.
//!
//! A coordinate is the place on the unit interval for a number (in the middle of its cell for a
//! grid value), the index for a choice, and NaN while the parameter is inactive.

use std::collections::BTreeSet;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::space::{Condition, Domain, Params, Space};

/// Most values of a range that a branch each can hang on.
const FEW: usize = 8;

/// What a number may lie outside its bounds by, on the unit interval.
const ROUNDING: f64 = 1e-9;

/// Coordinates of a point, one a parameter in the space's order.
pub(super) type Point = Vec<f64>;

/// How a parameter's coordinate moves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Axis {
    /// One value only.
    Fixed,
    /// The index of one of so many choices.
    Choice(usize),
    /// The unit interval.
    Continuous,
    /// The middles of so many cells.
    Grid(usize),
}

impl Axis {
    /// Whether distances along it mean something.
    pub fn numeric(self) -> bool {
        match self {
            Axis::Continuous | Axis::Grid(_) => true,
            Axis::Fixed | Axis::Choice(_) => false,
        }
    }
}

/// What a condition asks of an earlier parameter: one of these internal values.
#[derive(Debug, Clone)]
struct Link {
    parent: usize,
    values: Vec<f64>,
}

#[derive(Debug, Clone)]
struct Dimension {
    axis: Axis,
    domain: Domain,
    /// `None`: never active.
    when: Option<Vec<Link>>,
    /// Conditional upper bounds, as places on the unit interval.
    high_when: Vec<(Vec<Link>, f64)>,
}

/// A space by index.
#[derive(Debug, Clone)]
pub(super) struct Encoding<'a> {
    space: &'a Space,
    dimensions: Vec<Dimension>,
}

impl<'a> Encoding<'a> {
    pub fn new(space: &'a Space) -> Encoding<'a> {
        let dimension = |index: usize| {
            let parameter = &space.parameters[index];
            let domain = parameter.domain.clone().on_grid();
            let bound = |high: f64| {
                let narrowed = domain.with_high(high);
                let most = narrowed.to_internal(&narrowed.from_unit(1.0));
                domain.to_unit(most.unwrap_or(high))
            };
            Dimension {
                axis: axis(&domain),
                when: links(space, &parameter.when),
                high_when: parameter
                    .high_when
                    .iter()
                    .filter_map(|h| Some((links(space, &h.when)?, bound(h.high))))
                    .collect(),
                domain,
            }
        };
        Encoding {
            space,
            dimensions: (0..space.parameters.len()).map(dimension).collect(),
        }
    }

    /// Number of parameters.
    pub fn len(&self) -> usize {
        self.dimensions.len()
    }

    /// How the parameter's coordinate moves.
    pub fn axis(&self, index: usize) -> Axis {
        self.dimensions[index].axis
    }

    /// Choices, and parameters of few values that others depend on, with the coordinates of their
    /// values.
    pub fn conditional_branches(&self) -> Vec<(usize, Vec<f64>)> {
        let links = self.dimensions.iter().flat_map(|d| d.when.iter().flatten());
        let mut forks: BTreeSet<usize> = links.map(|link| link.parent).collect();
        forks.extend((0..self.len()).filter(|&i| matches!(self.axis(i), Axis::Choice(_))));
        let values = |fork: usize| match self.axis(fork) {
            Axis::Choice(n) => Some((0..n).map(|c| c as f64).collect()),
            Axis::Grid(n) if n <= FEW => Some(self.cells(fork)),
            Axis::Grid(_) | Axis::Continuous | Axis::Fixed => None,
        };
        let forks = forks.into_iter();
        forks.filter_map(|p| Some((p, values(p)?))).collect()
    }

    /// The number of parameters that exist only beside some values of this one.
    pub fn dependents(&self, index: usize) -> usize {
        let hangs = |d: &&Dimension| d.when.iter().flatten().any(|link| link.parent == index);
        self.dimensions.iter().filter(hangs).count()
    }

    /// The coordinates of all values of a grid, ascending; the cells of a logarithmic one differ in
    /// width.
    pub fn cells(&self, index: usize) -> Vec<f64> {
        let Axis::Grid(n) = self.axis(index) else {
            return Vec::new();
        };
        let fine = 64 * n;
        let places = (0..fine).map(|i| self.on_grid(index, (i as f64 + 0.5) / fine as f64));
        let mut cells: Vec<f64> = places.collect();
        cells.dedup();
        cells
    }

    /// The coordinates of a stored point (see [`Space::encode`]). Numbers may lie outside the
    /// bounds that hold today; `None` where a parameter that is active today is missing, or where
    /// a value has no place on its scale.
    pub fn point(&self, code: &[f64]) -> Option<Point> {
        let mut point = vec![f64::NAN; self.len()];
        for (index, dimension) in self.dimensions.iter().enumerate() {
            let internal = code.get(index).copied().unwrap_or(f64::NAN);
            if !self.active(index, &point) {
                continue;
            }
            point[index] = match dimension.axis {
                Axis::Fixed => 0.5,
                Axis::Choice(choices) if internal < choices as f64 => internal,
                Axis::Choice(_) => f64::NAN,
                Axis::Continuous | Axis::Grid(_) => dimension.domain.to_unit(internal),
            };
            if !point[index].is_finite() {
                return None;
            }
        }
        Some(point)
    }

    /// Whether all numbers of a stored point lie within the bounds that hold today.
    pub fn within(&self, point: &[f64]) -> bool {
        (0..self.len()).all(|index| {
            let place = point[index];
            let bounded = self.axis(index).numeric() && !place.is_nan();
            !bounded || (place >= -ROUNDING && place <= self.upper(index, point) + ROUNDING)
        })
    }

    /// Whether the parameter is active beside the coordinates of those before it.
    pub fn active(&self, index: usize, point: &[f64]) -> bool {
        let when = self.dimensions[index].when.as_ref();
        when.is_some_and(|links| self.hold(links, point))
    }

    /// The upper bound of a numeric coordinate beside the coordinates of the parents.
    pub fn upper(&self, index: usize, point: &[f64]) -> f64 {
        let bounds = &self.dimensions[index].high_when;
        let holding = bounds.iter().filter(|(links, _)| self.hold(links, point));
        holding.fold(1.0, |least, (_, bound)| least.min(*bound))
    }

    /// Makes a point of the space of any coordinates: what is inactive becomes NaN, what is active
    /// and has no coordinate takes the one that `fill` names (on the unit interval, also for a
    /// choice), and numbers move into their bounds and onto their grids.
    pub fn complete(&self, point: &mut [f64], mut fill: impl FnMut(usize) -> f64) {
        for index in 0..self.len() {
            if !self.active(index, point) {
                point[index] = f64::NAN;
                continue;
            }
            let axis = self.dimensions[index].axis;
            let upper = if axis.numeric() {
                self.upper(index, point)
            } else {
                1.0
            };
            let given = point[index];
            point[index] = match axis {
                Axis::Fixed => 0.5,
                Axis::Choice(n) if given.is_nan() => (fill(index) * n as f64).min(n as f64 - 1.0),
                Axis::Choice(n) => given.min(n as f64 - 1.0),
                Axis::Continuous if given.is_nan() => fill(index) * upper,
                Axis::Continuous => given.clamp(0.0, upper),
                Axis::Grid(n) => {
                    let place = if given.is_nan() {
                        fill(index) * (upper + 0.5 / n as f64).min(1.0)
                    } else {
                        given
                    };
                    self.on_grid(index, place.clamp(0.0, upper))
                }
            };
            if let Axis::Choice(_) = axis {
                point[index] = point[index].max(0.0).floor();
            }
        }
    }

    /// The middle of the cell that a coordinate lies in.
    fn on_grid(&self, index: usize, place: f64) -> f64 {
        let domain = &self.dimensions[index].domain;
        let internal = domain.to_internal(&domain.from_unit(place));
        internal.map_or(place, |x| domain.to_unit(x))
    }

    /// A uniform draw, without regard to declared constraints.
    pub fn draw(&self, rng: &mut ChaCha8Rng) -> Point {
        let mut point = vec![f64::NAN; self.len()];
        self.complete(&mut point, |_| rng.random());
        point
    }

    /// The parameter values of a complete point.
    pub fn params(&self, point: &[f64]) -> Params {
        self.space.build(|index, parameter, domain| {
            let own = &self.dimensions[index];
            let value = match own.axis {
                Axis::Choice(_) => parameter.domain.from_internal(point[index]),
                Axis::Fixed | Axis::Continuous | Axis::Grid(_) => {
                    Some(own.domain.from_unit(point[index]))
                }
            };
            value
                .and_then(|v| domain.clamp(&v))
                .unwrap_or_else(|| domain.middle())
        })
    }

    /// Whether a complete point satisfies the declared constraints.
    pub fn allowed(&self, point: &[f64]) -> bool {
        self.space.constraints.is_empty() || self.space.violated(&self.params(point)).is_none()
    }

    fn hold(&self, links: &[Link], point: &[f64]) -> bool {
        links.iter().all(|link| {
            let parent = &self.dimensions[link.parent];
            let place = point[link.parent];
            let internal = match parent.axis {
                _ if place.is_nan() => return false,
                Axis::Choice(_) => place,
                Axis::Fixed | Axis::Continuous | Axis::Grid(_) => {
                    let value = parent.domain.from_unit(place);
                    parent.domain.to_internal(&value).unwrap_or(f64::NAN)
                }
            };
            link.values.contains(&internal)
        })
    }
}

fn axis(domain: &Domain) -> Axis {
    let cells = |width: f64, step: f64| (width / step).round() as usize + 1;
    match *domain {
        _ if domain.single() => Axis::Fixed,
        Domain::Categorical { ref choices } => Axis::Choice(choices.len()),
        Domain::Float {
            low,
            high,
            step: Some(step),
            ..
        } => Axis::Grid(cells(high - low, step)),
        Domain::Float { .. } => Axis::Continuous,
        Domain::Int {
            low, high, step, ..
        } => Axis::Grid(cells(high as f64 - low as f64, step as f64)),
    }
}

/// Conditions by index; those on fixed keys are decided here. `None` where they can never hold.
fn links(space: &Space, conditions: &[Condition]) -> Option<Vec<Link>> {
    let mut links = Vec::new();
    for condition in conditions {
        match space.find(&condition.parent) {
            Some((parent, parameter)) => {
                let internal = condition.values.iter();
                let values = internal.filter_map(|v| parameter.domain.to_internal(v));
                links.push(Link {
                    parent,
                    values: values.collect(),
                });
            }
            None => {
                let fixed = space.fixed.get(&condition.parent)?;
                if !condition.values.contains(fixed) {
                    return None;
                }
            }
        }
    }
    Some(links)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::{random, testing};
    use crate::study;

    #[test]
    fn points_of_the_space_come_back_from_their_coordinates() {
        for space in [testing::mixed_space(), testing::conditional_space()] {
            let encoding = Encoding::new(&space);
            for number in 0..300 {
                let mut rng = study::rng(1, number, "test");
                let params = random::draw(&space, &mut rng).unwrap();
                let code = space.encode(&params);
                let mut point = encoding.point(&code).unwrap();
                let before = point.clone();
                encoding.complete(&mut point, |_| unreachable!("nothing is missing"));
                for (a, b) in before.iter().zip(&point) {
                    assert!(a.is_nan() && b.is_nan() || (a - b).abs() < 1e-12);
                }
                let back = space.encode(&encoding.params(&point));
                for (a, b) in code.iter().zip(&back) {
                    assert!(a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-9 * a.abs());
                }
            }
        }
    }

    #[test]
    fn draws_are_points_of_the_space_within_conditional_bounds() {
        let mut space = testing::conditional_space();
        space.constraints.clear();
        let encoding = Encoding::new(&space);
        let mut seen = std::collections::BTreeSet::new();
        for number in 0..2000 {
            let point = encoding.draw(&mut study::rng(2, number, "test"));
            let params = encoding.params(&point);
            let mut known = Params::new();
            for p in &space.parameters {
                let domain = space.active_domain(p, &known);
                assert_eq!(domain.is_some(), params.contains_key(&p.name));
                if let Some(domain) = domain {
                    assert!(domain.contains(&params[&p.name]), "{} {params:?}", p.name);
                    known.insert(p.name.clone(), params[&p.name].clone());
                }
            }
            let model = params["model"].as_str().unwrap().to_owned();
            seen.insert((model, params["length"].as_i64().unwrap()));
        }
        let longest = |model: &str| seen.iter().filter(|s| s.0 == model).map(|s| s.1).max();
        assert_eq!(longest("small"), Some(512));
        assert_eq!(longest("large"), Some(384));
    }

    #[test]
    fn a_stored_point_without_a_parameter_of_today_has_no_coordinates() {
        let space = testing::mixed_space();
        let encoding = Encoding::new(&space);
        let params = random::draw(&space, &mut study::rng(1, 1, "test")).unwrap();
        let mut code = space.encode(&params);
        assert!(encoding.point(&code).is_some());
        code[0] = f64::NAN;
        assert!(encoding.point(&code).is_none());
    }

    #[test]
    fn a_fork_on_a_logarithmic_grid_has_a_branch_for_each_value() {
        let few = testing::parameter("few", testing::int(1, 6, true, 1));
        let mut child = testing::parameter("child", testing::float(0.0, 1.0));
        child.when = vec![Condition {
            parent: "few".into(),
            values: vec![1.into(), 6.into()],
        }];
        let many = testing::parameter("many", testing::int(1, 9, true, 1));
        let mut other = testing::parameter("other", testing::float(0.0, 1.0));
        other.when = vec![Condition {
            parent: "many".into(),
            values: vec![1.into()],
        }];
        let space = Space {
            parameters: vec![few, child, many, other],
            ..Space::default()
        };
        let encoding = Encoding::new(&space);
        let forks = encoding.conditional_branches();
        assert_eq!(
            forks.len(),
            1,
            "a range of nine values is no fork: {forks:?}"
        );
        let (fork, places) = &forks[0];
        let mut values = Vec::new();
        for place in places {
            let mut point = vec![f64::NAN; 4];
            point[*fork] = *place;
            encoding.complete(&mut point, |_| 0.5);
            // The search compares coordinates: a branch must be where its trials are.
            assert_eq!(point[*fork], *place);
            let params = encoding.params(&point);
            let stored = encoding.point(&space.encode(&params)).unwrap();
            assert_eq!(stored[*fork], *place);
            let value = params["few"].as_i64().unwrap();
            assert_eq!(params.contains_key("child"), value == 1 || value == 6);
            values.push(value);
        }
        assert_eq!(values, [1, 2, 3, 4, 5, 6]);
        // Cells of a logarithmic range become narrower.
        assert!(places[1] - places[0] > 2.0 * (places[5] - places[4]));
    }
}
