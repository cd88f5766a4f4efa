//! The history by column, each column with its sorted order. Pure memoisation: after
//! [`Columns::sync`] the content depends on the space and the history alone; what an earlier ask
//! left is kept only where it is bit for bit what would be computed again.

use super::scale::Scale;
use crate::space::Space;
use crate::study::History;

/// One parameter over all trials.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Column {
    pub scale: Scale,
    /// A row's position on the scale; NaN where the parameter is absent or outside its domain.
    pub values: Vec<f64>,
    /// Rows with a value, ascending by value, among equals by row. Numeric scales only.
    pub order: Vec<u32>,
}

/// All parameters over all trials, a row each.
#[derive(Debug, Clone, Default)]
pub(super) struct Columns {
    space: Option<Space>,
    raw: Vec<f64>,
    rows: usize,
    pub columns: Vec<Column>,
}

impl Columns {
    /// Makes the columns those of `space` and `history`.
    pub fn sync(&mut self, space: &Space, history: &History) {
        if self.space.as_ref() != Some(space) {
            *self = Columns {
                space: Some(space.clone()),
                columns: space.parameters.iter().map(|p| column(&p.domain)).collect(),
                ..Columns::default()
            };
        }
        let entries = history.entries();
        let width = self.columns.len();
        let same = |code: &[f64], cached: &[f64]| {
            code.len() == width
                && code
                    .iter()
                    .zip(cached)
                    .all(|(a, b)| a.to_bits() == b.to_bits())
        };
        let kept = (0..entries.len().min(self.rows))
            .take_while(|&r| same(&entries[r].code, &self.raw[r * width..(r + 1) * width]))
            .count();
        if kept == self.rows && kept == entries.len() {
            return;
        }
        self.raw.truncate(kept * width);
        for entry in &entries[kept..] {
            self.raw
                .extend((0..width).map(|j| entry.code.get(j).copied().unwrap_or(f64::NAN)));
        }
        self.rows = entries.len();
        for (j, column) in self.columns.iter_mut().enumerate() {
            column.replace_from(kept, self.raw.iter().skip(j).step_by(width).skip(kept));
        }
    }

    /// Whether the row has a usable value in each of these columns.
    pub fn complete(&self, row: usize, members: &[usize]) -> bool {
        members
            .iter()
            .all(|&j| !self.columns[j].values[row].is_nan())
    }
}

fn column(domain: &crate::space::Domain) -> Column {
    Column {
        scale: Scale::new(domain),
        values: Vec::new(),
        order: Vec::new(),
    }
}

impl Column {
    /// Replaces all rows from `kept` on.
    fn replace_from<'a>(&mut self, kept: usize, internal: impl Iterator<Item = &'a f64>) {
        if kept < self.values.len() {
            self.order.retain(|&r| (r as usize) < kept);
            self.values.truncate(kept);
        }
        let scale = self.scale;
        self.values.extend(internal.map(|&x| scale.position(x)));
        if !matches!(scale, Scale::Numeric(_)) {
            return;
        }
        let values = &self.values;
        let fresh = (kept..values.len())
            .filter(|&r| !values[r].is_nan())
            .map(|r| r as u32);
        self.order.extend(fresh);
        // A stable sort that finds presorted runs: appending a few rows costs a merge.
        self.order
            .sort_by(|&a, &b| values[a as usize].total_cmp(&values[b as usize]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::testing;

    #[test]
    fn columns_kept_from_an_earlier_history_equal_those_made_afresh() {
        let space = testing::conditional_space();
        let long = testing::random_history(&space, 40, 1);
        let other = testing::random_history(&space, 30, 2);
        let mut used = Columns::default();
        for history in [
            &long,
            &other,
            &testing::random_history(&space, 10, 1),
            &long,
        ] {
            used.sync(&space, history);
            let mut fresh = Columns::default();
            fresh.sync(&space, history);
            assert_eq!(
                format!("{:?}", used.columns),
                format!("{:?}", fresh.columns)
            );
        }
        used.sync(&testing::mixed_space(), &long);
        assert_eq!(used.columns.len(), testing::mixed_space().parameters.len());
    }
}
