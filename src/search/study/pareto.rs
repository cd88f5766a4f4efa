//! Several objectives: dominance, fronts, ranks, crowding and hypervolume. Pure.
//!
//! A point dominates another where it is nowhere worse and somewhere better. The points that none
//! dominates are the front: a study with several objectives has that in place of a best trial.
//! Losses are values with their sign turned where they are maximised: smaller is better.

use std::cmp::Ordering;

use super::{Direction, FrozenTrial};

/// The values as losses, one an objective.
pub fn losses(directions: &[Direction], values: &[f64]) -> Vec<f64> {
    let all = directions.iter().zip(values);
    all.map(|(direction, value)| direction.loss(*value))
        .collect()
}

/// Whether losses `a` are nowhere worse than `b` and somewhere better. NaN is worse than all.
pub fn dominates(a: &[f64], b: &[f64]) -> bool {
    let better = |(x, y): (&f64, &f64)| Direction::Minimize.better(*x, *y);
    let pairs = || a.iter().zip(b);
    pairs().any(better) && !pairs().any(|(x, y)| better((y, x)))
}

/// The points so far that none dominates, with what belongs to each, in the order of coming. Equal
/// points stand side by side.
#[derive(Debug, Clone, PartialEq)]
pub struct Front<T> {
    directions: Vec<Direction>,
    members: Vec<(Vec<f64>, T)>,
}

impl<T> Front<T> {
    /// A front without points.
    pub fn new(directions: Vec<Direction>) -> Front<T> {
        Front {
            directions,
            members: Vec::new(),
        }
    }

    /// Takes the point in if none dominates it, and those out that it dominates. Whether it is in.
    pub fn offer(&mut self, values: &[f64], item: T) -> bool {
        let new = losses(&self.directions, values);
        if self.members.iter().any(|(old, _)| dominates(old, &new)) {
            return false;
        }
        self.members.retain(|(old, _)| !dominates(&new, old));
        self.members.push((new, item));
        true
    }

    /// What belongs to the points.
    pub fn items(&self) -> impl Iterator<Item = &T> {
        self.members.iter().map(|(_, item)| item)
    }

    /// How many points there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

/// The front of a study's COMPLETE and feasible trials, in the order of the first objective, the
/// best first.
pub fn front<'a>(directions: &[Direction], trials: &'a [FrozenTrial]) -> Vec<&'a FrozenTrial> {
    let mut front = Front::new(directions.to_vec());
    for trial in trials {
        if let Some(values) = trial.result(directions.len()) {
            front.offer(values, trial);
        }
    }
    front
        .members
        .sort_by(|(a, s), (b, t)| compare(a, b).then(s.number.cmp(&t.number)));
    front.members.into_iter().map(|(_, trial)| trial).collect()
}

/// The rank of each point: 0 on the front, 1 on the front of the rest, and so on (efficient
/// non-dominated sorting, Zhang et al., 2015).
pub fn ranks(points: &[Vec<f64>]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by(|&i, &j| compare(&points[i], &points[j]));
    // Nothing is dominated by what comes after it.
    let mut fronts: Vec<Vec<usize>> = Vec::new();
    let mut ranks = vec![0; points.len()];
    for i in order {
        let beaten = |front: &Vec<usize>| {
            let mut latest_first = front.iter().rev();
            latest_first.any(|&j| dominates(&points[j], &points[i]))
        };
        // Who is beaten by a front is beaten by those before it.
        let rank = fronts.partition_point(beaten);
        if rank == fronts.len() {
            fronts.push(Vec::new());
        }
        fronts[rank].push(i);
        ranks[i] = rank;
    }
    ranks
}

/// All points front after front, within a front as [`front`] has them: by the first objective, then by the next ones.
/// The first of them are the same however many are asked for.
pub fn in_order(points: &[Vec<f64>]) -> Vec<usize> {
    let ranks = ranks(points);
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by(|&i, &j| {
        let by_values = || compare(&points[i], &points[j]);
        ranks[i].cmp(&ranks[j]).then_with(by_values)
    });
    order
}

/// By the first objective, then by the next ones; 0 and -0 are one, NaN comes last.
fn compare(a: &[f64], b: &[f64]) -> Ordering {
    let mut each = a
        .iter()
        .zip(b)
        .map(|(x, y)| (x + 0.0).total_cmp(&(y + 0.0)));
    each.find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
}

/// The best `n` of the points, best first: front after front, within a front the least crowded
/// first. Of the last front that fits in part, those that add most to the volume of the others.
pub fn best_first(points: &[Vec<f64>], n: usize) -> Vec<usize> {
    let ranks = ranks(points);
    let mut fronts: Vec<Vec<usize>> = Vec::new();
    for (i, rank) in ranks.into_iter().enumerate() {
        if fronts.len() <= rank {
            fronts.resize(rank + 1, Vec::new());
        }
        fronts[rank].push(i);
    }
    let mut chosen = Vec::new();
    for front in fronts {
        let room = n - chosen.len();
        if room == 0 {
            break;
        }
        let of_front: Vec<Vec<f64>> = front.iter().map(|i| points[*i].clone()).collect();
        let order = match of_front.len() <= room {
            true => least_crowded(&of_front),
            false => spread(&of_front, room),
        };
        chosen.extend(order.into_iter().map(|k| front[k]));
    }
    chosen
}

fn least_crowded(front: &[Vec<f64>]) -> Vec<usize> {
    let distances = crowding(front);
    let mut order: Vec<usize> = (0..front.len()).collect();
    order.sort_by(|&i, &j| distances[j].total_cmp(&distances[i]));
    order
}

/// A subset of `n` points with a large volume, one after the other the point that adds most
/// (hypervolume subset selection, greedily: at least 63 % of the best). Volumes are those between
/// the least and the greatest value of each objective, and a tenth more.
fn spread(front: &[Vec<f64>], n: usize) -> Vec<usize> {
    let scaled = scaled(front);
    let reference = vec![1.1; front.first().map_or(0, Vec::len)];
    // What a point adds only becomes less: most need not be looked at again.
    let mut bounds = vec![f64::INFINITY; front.len()];
    let mut left: Vec<usize> = (0..front.len()).collect();
    let (mut chosen, mut volume, mut taken) = (Vec::new(), 0.0, Vec::new());
    while chosen.len() < n && !left.is_empty() {
        left.sort_by(|&i, &j| bounds[j].total_cmp(&bounds[i]).then(i.cmp(&j)));
        let mut best = (0, f64::NEG_INFINITY);
        for (k, &i) in left.iter().enumerate() {
            if bounds[i] <= best.1 {
                break;
            }
            taken.push(scaled[i].clone());
            bounds[i] = hypervolume(&taken, &reference) - volume;
            taken.pop();
            if bounds[i] > best.1 {
                best = (k, bounds[i]);
            }
        }
        let i = left.remove(best.0);
        volume += best.1;
        taken.push(scaled[i].clone());
        chosen.push(i);
    }
    chosen
}

/// Each objective from 0, the least value, to 1, the greatest.
fn scaled(points: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let objectives = points.first().map_or(0, Vec::len);
    let extent = |m: usize| {
        let finite = || points.iter().map(|p| p[m]).filter(|x| x.is_finite());
        let (low, high) = (finite().reduce(f64::min), finite().reduce(f64::max));
        (low.unwrap_or(0.0), high.unwrap_or(0.0))
    };
    let extents: Vec<(f64, f64)> = (0..objectives).map(extent).collect();
    let part = |(x, (low, high)): (&f64, &(f64, f64))| match high > low {
        true => ((x - low) / (high - low)).clamp(0.0, 2.0),
        false => 0.0,
    };
    let one = |p: &Vec<f64>| p.iter().zip(&extents).map(part).collect();
    points.iter().map(one).collect()
}

/// The crowding distance of each of these points (Deb et al., 2002): the sum over the objectives of
/// the gap between its neighbours, as a part of the whole range. Infinite at the ends.
pub fn crowding(points: &[Vec<f64>]) -> Vec<f64> {
    let mut distances = vec![0.0; points.len()];
    let objectives = points.first().map_or(0, Vec::len);
    for m in 0..objectives {
        let mut order: Vec<usize> = (0..points.len()).collect();
        order.sort_by(|&i, &j| points[i][m].total_cmp(&points[j][m]));
        let at = |i: usize| points[order[i]][m];
        let last = order.len() - 1;
        let range = at(last) - at(0);
        distances[order[0]] = f64::INFINITY;
        distances[order[last]] = f64::INFINITY;
        for i in 1..last {
            if range > 0.0 && range.is_finite() {
                distances[order[i]] += (at(i + 1) - at(i - 1)) / range;
            }
        }
    }
    distances
}

/// The volume between the points and `reference`, which is worse than all that count: what lies
/// beyond it in any objective adds nothing. Exact, by slices along the last objective; meant for
/// fronts of some hundred points and few objectives.
pub fn hypervolume(points: &[Vec<f64>], reference: &[f64]) -> f64 {
    let inside = |p: &&Vec<f64>| p.iter().zip(reference).all(|(x, r)| x < r);
    let points: Vec<&[f64]> = points.iter().filter(inside).map(Vec::as_slice).collect();
    volume(&points, reference)
}

fn volume(points: &[&[f64]], reference: &[f64]) -> f64 {
    let last = reference.len() - 1;
    let mut sorted: Vec<&[f64]> = points.to_vec();
    sorted.sort_by(|a, b| a[last].total_cmp(&b[last]));
    if last == 0 {
        return sorted.first().map_or(0.0, |best| reference[0] - best[0]);
    }
    if last == 1 {
        return area(&sorted, reference);
    }
    let mut sum = 0.0;
    for (i, point) in sorted.iter().enumerate() {
        let end = sorted.get(i + 1).map_or(reference[last], |next| next[last]);
        if end > point[last] {
            let slice: Vec<&[f64]> = sorted[..=i].iter().map(|p| &p[..last]).collect();
            sum += (end - point[last]) * volume(&slice, &reference[..last]);
        }
    }
    sum
}

/// Of two objectives; `sorted` by the second.
fn area(sorted: &[&[f64]], reference: &[f64]) -> f64 {
    let (mut sum, mut edge) = (0.0, reference[0]);
    for point in sorted {
        if point[0] < edge {
            sum += (edge - point[0]) * (reference[1] - point[1]);
            edge = point[0];
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn points(list: &[&[f64]]) -> Vec<Vec<f64>> {
        list.iter().map(|p| p.to_vec()).collect()
    }

    #[test]
    fn a_point_dominates_if_it_is_nowhere_worse_and_somewhere_better() {
        assert!(dominates(&[1.0, 2.0], &[1.0, 3.0]));
        assert!(!dominates(&[1.0, 2.0], &[1.0, 2.0]));
        assert!(!dominates(&[0.0, 3.0], &[1.0, 2.0]));
        assert!(dominates(&[0.0, 0.0], &[f64::INFINITY, f64::NAN]));
        assert!(!dominates(&[0.0, f64::NAN], &[1.0, 2.0]));
    }

    #[test]
    fn a_front_follows_the_directions_and_keeps_equals() {
        let mut front = Front::new(vec![Direction::Maximize, Direction::Minimize]);
        assert!(front.is_empty());
        assert!(front.offer(&[0.5, 10.0], 'a'));
        assert!(front.offer(&[0.7, 20.0], 'b'));
        assert!(!front.offer(&[0.4, 10.0], 'c'), "worse than a");
        assert!(front.offer(&[0.7, 20.0], 'd'), "the same as b");
        assert!(front.offer(&[0.7, 9.0], 'e'), "better than all");
        assert_eq!(front.items().collect::<String>(), "e");
    }

    #[test]
    fn ranks_peel_front_after_front() {
        let all = points(&[
            &[1.0, 4.0],
            &[2.0, 5.0],
            &[4.0, 1.0],
            &[3.0, 6.0],
            &[1.0, 4.0],
        ]);
        assert_eq!(ranks(&all), [0, 1, 0, 2, 0]);
        assert_eq!(in_order(&all), [0, 4, 2, 1, 3]);
        assert!(ranks(&[]).is_empty());
    }

    #[test]
    fn the_best_are_whole_fronts_and_of_the_last_one_those_far_apart() {
        let all = points(&[
            &[0.0, 1.0],
            &[0.01, 0.99],
            &[0.5, 0.5],
            &[1.0, 0.0],
            &[0.99, 0.01],
            &[2.0, 2.0],
        ]);
        let mut three = best_first(&all, 3);
        assert_eq!(three[0], 2, "the middle has the largest volume");
        three.sort_unstable();
        assert!(
            [0, 1].contains(&three[0]) && [3, 4].contains(&three[2]),
            "{three:?}"
        );
        let six = best_first(&all, 9);
        assert_eq!((six.len(), six[5]), (6, 5));
        assert_eq!(
            best_first(&points(&[&[f64::INFINITY], &[1.0], &[2.0]]), 2),
            [1, 2]
        );
        assert!(best_first(&[], 3).is_empty());
    }

    #[test]
    fn the_lonely_have_more_room() {
        let all = points(&[&[0.0, 10.0], &[1.0, 8.0], &[2.0, 7.0], &[10.0, 0.0]]);
        let distances = crowding(&all);
        assert_eq!(distances[0], f64::INFINITY);
        assert_eq!(distances[3], f64::INFINITY);
        assert!((distances[1] - 0.5).abs() < 1e-12, "{distances:?}");
        assert!((distances[2] - 1.7).abs() < 1e-12, "{distances:?}");
        assert_eq!(crowding(&points(&[&[1.0, 1.0]])), [f64::INFINITY]);
    }

    #[test]
    fn volumes_of_known_fronts() {
        let two = points(&[&[1.0, 3.0], &[2.0, 1.0], &[5.0, 0.0]]);
        assert_eq!(hypervolume(&two, &[4.0, 4.0]), 3.0 + 4.0);
        let three = points(&[&[0.0, 1.0, 1.0], &[1.0, 0.0, 1.0], &[1.0, 1.0, 0.0]]);
        // Three slabs of 2 * 1 * 1 that share the cube from 1 to 2.
        assert_eq!(hypervolume(&three, &[2.0, 2.0, 2.0]), 4.0);
        assert_eq!(hypervolume(&[], &[1.0, 1.0]), 0.0);
    }

    proptest! {
        #[test]
        fn the_volume_is_the_share_of_cells_that_are_dominated(
            raw in proptest::collection::vec(proptest::collection::vec(0u8..6, 3), 0..12),
        ) {
            let points: Vec<Vec<f64>> =
                raw.iter().map(|p| p.iter().map(|x| f64::from(*x)).collect()).collect();
            let mut cells = 0;
            for x in 0..5u8 {
                for y in 0..5u8 {
                    for z in 0..5u8 {
                        let covered = |p: &&Vec<u8>| p[0] <= x && p[1] <= y && p[2] <= z;
                        cells += u32::from(raw.iter().any(|p| covered(&p)));
                    }
                }
            }
            prop_assert_eq!(hypervolume(&points, &[5.0; 3]), f64::from(cells));
        }

        #[test]
        fn the_front_is_what_has_rank_0(
            raw in proptest::collection::vec(proptest::collection::vec(0u8..4, 2), 0..20),
        ) {
            let points: Vec<Vec<f64>> =
                raw.iter().map(|p| p.iter().map(|x| f64::from(*x)).collect()).collect();
            let mut front = Front::new(vec![Direction::Minimize; 2]);
            for (i, point) in points.iter().enumerate() {
                front.offer(point, i);
            }
            let ranks = ranks(&points);
            let first: Vec<usize> = (0..points.len()).filter(|i| ranks[*i] == 0).collect();
            prop_assert_eq!(front.items().copied().collect::<Vec<_>>(), first);
        }
    }
}
