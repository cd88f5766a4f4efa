//! Xids: the numbers by which NVIDIA's driver reports errors of a GPU to the kernel's log.

use std::sync::LazyLock;

use regex::Regex;

use crate::pattern;

/// What NVIDIA's catalogue asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The application has lost its context and starts again.
    Restart,
    /// Nothing; others report what matters.
    Ignore,
    /// It follows another error that names the cause.
    Follows,
    /// The GPU needs a reset.
    Reset,
    /// The GPU has left the bus: the machine needs a reboot.
    Machine,
    /// The catalogue has no single answer.
    Unclear,
}

/// Xids with a known meaning.
const ACTIONS: [(Action, &[u32]); 5] = [
    (Action::Restart, &[8, 11, 13, 31, 32, 39, 40, 41, 69, 94]),
    (Action::Ignore, &[43, 63, 92]),
    (Action::Follows, &[45]),
    (
        Action::Reset,
        &[46, 48, 62, 64, 74, 95, 109, 119, 120, 140, 143, 158],
    ),
    (Action::Machine, &[79]),
];

/// What the better known ones are called.
const NAMES: [(u32, &str); 22] = [
    (8, "GPU stopped processing"),
    (11, "invalid or corrupted push buffer stream"),
    (
        13,
        "graphics engine exception: an access out of range, or an illegal instruction",
    ),
    (31, "GPU memory page fault: an illegal address"),
    (32, "invalid or corrupted push buffer stream"),
    (43, "a channel was reset after an error of the program"),
    (45, "channels were cleaned up after an earlier error"),
    (46, "GPU stopped processing"),
    (48, "double-bit ECC error"),
    (62, "internal micro-controller halt"),
    (63, "a memory row was remapped"),
    (64, "a memory row could not be remapped"),
    (69, "graphics engine class error"),
    (74, "NVLink error"),
    (79, "GPU has fallen off the bus"),
    (92, "many corrected ECC errors"),
    (94, "contained ECC error"),
    (95, "uncontained ECC error"),
    (109, "context switch time-out"),
    (119, "GSP firmware time-out"),
    (120, "GSP firmware error"),
    (154, "recovery action changed"),
];

static REPORT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?i)\bxid\b(?:\s*\([^)]*\))?(?:\s+(?:error|code))?[\s:=#]*(\d{1,3})\b")
});

/// The Xid that a line reports.
pub fn reported(line: &str) -> Option<u32> {
    REPORT.captures(line)?.get(1)?.as_str().parse().ok()
}

/// What an Xid asks for. 154 says itself which action it changed to.
pub fn action(xid: u32, line: &str) -> Action {
    if xid == 154 {
        let new = line.rsplit_once(" to ").map_or(line, |(_, new)| new);
        let lower = new.to_ascii_lowercase();
        return if lower.contains("reboot") {
            Action::Machine
        } else if lower.contains("reset") || lower.contains("drain") {
            Action::Reset
        } else if lower.contains("(none)") {
            Action::Ignore
        } else {
            Action::Unclear
        };
    }
    ACTIONS
        .iter()
        .find(|(_, xids)| xids.contains(&xid))
        .map_or(Action::Unclear, |(action, _)| *action)
}

/// The Xid with its name, for people.
pub fn describe(xid: u32) -> String {
    match NAMES.iter().find(|(x, _)| *x == xid) {
        Some((_, name)) => format!("Xid {xid}: {name}"),
        None => format!("Xid {xid}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_line_is_read() {
        let line = "[12345.6] NVRM: Xid (PCI:0000:01:00): 31, pid=4242, name=python, Ch 00000008";
        assert_eq!(reported(line), Some(31));
        assert_eq!(reported("Xid 79 on GPU 0"), Some(79));
        assert_eq!(reported("maxid 79"), None);
    }

    #[test]
    fn the_changed_recovery_action_decides_about_154() {
        let line = "NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)";
        assert_eq!(action(154, line), Action::Reset);
        let line = "NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x2 (Node Reboot Required)";
        assert_eq!(action(154, line), Action::Machine);
        let line =
            "Xid 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)";
        assert_eq!(action(154, line), Action::Ignore);
    }
}
