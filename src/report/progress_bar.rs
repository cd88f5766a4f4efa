//! A bar on stderr for one long thing; nothing where stderr is no terminal.

use std::io::IsTerminal;

use indicatif::{ProgressDrawTarget, ProgressStyle};

use messages::printable;

/// A bar that is cleared when it is dropped.
pub struct ProgressBar {
    bar: indicatif::ProgressBar,
}

impl ProgressBar {
    /// Of so many bytes.
    pub fn bytes(what: &str, total: u64, wanted: bool) -> ProgressBar {
        ProgressBar::new(
            what,
            total,
            wanted,
            "{msg} {bar:20} {bytes}/{total_bytes} {bytes_per_sec}",
        )
    }

    /// Of so many things.
    pub fn things(what: &str, total: u64, wanted: bool) -> ProgressBar {
        ProgressBar::new(what, total, wanted, "{msg} {bar:20} {pos}/{len} {per_sec}")
    }

    fn new(what: &str, total: u64, wanted: bool, template: &str) -> ProgressBar {
        let target = match wanted && std::io::stderr().is_terminal() {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let style = ProgressStyle::with_template(template);
        let bar = indicatif::ProgressBar::with_draw_target(Some(total), target)
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
            .with_message(printable(what).into_owned());
        ProgressBar { bar }
    }

    /// So much more is done.
    pub fn advance(&self, by: u64) {
        self.bar.inc(by);
    }
}

impl Drop for ProgressBar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A size for people: `90.9 MB`, in powers of 1,000.
pub fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if value < 999.95 {
            return match unit {
                "B" => format!("{bytes} B"),
                _ => format!("{value:.1} {unit}"),
            };
        }
        value /= 1000.0;
    }
    format!("{value:.1} TB")
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_are_told_in_the_unit_that_fits() {
        let told = [0, 999, 1000, 90_868_376, 999_950_000, 2_000_000_000_000].map(size);
        assert_eq!(
            told,
            ["0 B", "999 B", "1.0 kB", "90.9 MB", "1.0 GB", "2.0 TB"]
        );
    }
}
