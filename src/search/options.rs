//! Options of a sampler or a pruner, as a configuration has them.

use crate::space::Params;

/// Options by name. What is missing, or of another type, is not given.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options<'a>(pub(crate) &'a Params);

impl Options<'_> {
    /// An integer from 0; any other word, such as `auto`, is none.
    pub(crate) fn given(self, name: &str) -> Option<i64> {
        let value = self.0.get(name)?;
        value.as_i64().filter(|n| *n >= 0)
    }

    pub(crate) fn int(self, name: &str, otherwise: i64) -> i64 {
        self.given(name).unwrap_or(otherwise)
    }

    pub(crate) fn count(self, name: &str, otherwise: usize) -> usize {
        let given = self.given(name).and_then(|n| usize::try_from(n).ok());
        given.unwrap_or(otherwise)
    }

    pub(crate) fn number(self, name: &str) -> Option<f64> {
        self.0.get(name).and_then(|value| value.as_f64())
    }

    pub(crate) fn float(self, name: &str, otherwise: f64) -> f64 {
        self.number(name).unwrap_or(otherwise)
    }

    pub(crate) fn flag(self, name: &str, otherwise: bool) -> bool {
        let given = self.0.get(name).and_then(|value| value.as_bool());
        given.unwrap_or(otherwise)
    }
}
