//! The checks of the machine.

use super::super::Common;
use doctor::Check;
use messages::exit::Failure;

/// All of them, those that failed first.
pub(super) fn checks(_common: &Common) -> Result<Vec<Check>, Failure> {
    Ok(Vec::new())
}

/// For people.
pub(super) fn text(checks: &[Check]) -> String {
    let lines = checks.iter().map(|check| {
        let remedy = check.remedy.as_deref().map(|r| format!("\n    {r}"));
        format!(
            "{}: {} ({}){}\n",
            check.name,
            check.outcome,
            check.evidence,
            remedy.unwrap_or_default()
        )
    });
    lines.collect()
}
