//! What a new study was made from.

use serde::Serialize;

use super::format::plural;
use search::study::carry::{Carried, LeftOut};

/// What a new study was made from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fork {
    /// `--fork` or `--from`.
    pub by: String,
    /// The earlier studies, the latest first.
    pub from: Vec<String>,
    /// How the latest one differs from what is asked; empty where nobody recorded what it was.
    pub differences: Vec<String>,
    /// What became of its trials.
    #[serde(flatten)]
    pub carried: Carried,
}

/// So many reasons are told; `--json` has them all.
const REASONS: usize = 5;

impl Fork {
    /// As lines of the study that was made.
    pub(super) fn lines(&self, study: &str) -> Vec<String> {
        let carried = &self.carried;
        let from = self.from.join(", ");
        let mut lines = vec![format!("study {study} made from {from} ({})", self.by)];
        lines.extend(self.differences.iter().map(|d| format!("  {d}")));
        let fit = match (carried.copied, carried.enqueued) {
            (0, 0) => "no trial fits: the search begins anew".to_owned(),
            (0, 1) => {
                "values are not comparable: the best point that fits is tried again".to_owned()
            }
            (0, n) => {
                format!("values are not comparable: the best {n} points that fit are tried again")
            }
            (1, _) => "1 trial that fits is copied with its result".to_owned(),
            (n, _) => format!("{n} trials that fit are copied with their results"),
        };
        lines.push(format!("  {fit}"));
        lines.extend(reasons(&carried.left_out, |n| {
            format!("{} left out", plural(n, "trial"))
        }));
        match carried.waiting {
            0 => {}
            1 => lines.push("  1 point that waited waits here".to_owned()),
            n => lines.push(format!("  {n} points that waited wait here")),
        }
        lines.extend(reasons(&carried.waiting_left_out, |n| match n {
            1 => "1 point that waited does not fit".to_owned(),
            n => format!("{n} points that waited do not fit"),
        }));
        if carried.without_result > 0 {
            let without = plural(carried.without_result, "trial");
            lines.push(format!("  left behind, without a usable result: {without}"));
        }
        lines
    }
}

/// A heading with the sum, and the reasons below it.
fn reasons(left_out: &[LeftOut], heading: impl FnOnce(u64) -> String) -> Vec<String> {
    let total: u64 = left_out.iter().map(|l| l.trials).sum();
    if total == 0 {
        return Vec::new();
    }
    let mut lines = vec![format!("  {}:", heading(total))];
    for left in left_out.iter().take(REASONS) {
        let LeftOut { key, why, trials } = left;
        lines.push(format!("    {trials} for {key}: {why}"));
    }
    if left_out.len() > REASONS {
        let others = left_out.len() - REASONS;
        lines.push(format!("    {}", plural(others as u64, "other reason")));
    }
    lines
}
