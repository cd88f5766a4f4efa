//! What a trial's program has reported, kept beside its checkpoints for the next attempt.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::Epoch;
use files::bounded;
use files::replace::Replacement;

/// A file of one JSON object a line, in the trial's directory.
#[derive(Debug)]
pub struct Reported {
    path: PathBuf,
    file: Option<File>,
}

impl Reported {
    /// That of a trial with this directory.
    pub fn new(dir: &Path) -> Reported {
        Reported {
            path: dir.join("reported.jsonl"),
            file: None,
        }
    }

    /// What earlier attempts have reported; a last line that was cut short does not count.
    pub fn earlier(&self) -> Vec<Epoch> {
        let text = bounded::read_to_string(&self.path, bounded::REPORTS).unwrap_or_default();
        text.lines()
            .map_while(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// Adds a step of this attempt, which goes on after those of `before`: the first call forgets all
    /// others.
    ///
    /// # Errors
    /// What the system says.
    pub fn add(&mut self, before: &[Epoch], epoch: &Epoch) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let mut file = Replacement::new(&self.path)?;
                let lines: io::Result<Vec<String>> = before.iter().map(line).collect();
                file.write_all(lines?.concat().as_bytes())?;
                self.file.insert(file.finish()?)
            }
        };
        file.write_all(line(epoch)?.as_bytes())
    }
}

fn line(epoch: &Epoch) -> io::Result<String> {
    Ok(serde_json::to_string(epoch)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metrics;

    fn epoch(epoch: u32) -> Epoch {
        Epoch {
            epoch,
            metrics: Metrics::from([("loss".into(), 0.5), ("odd".into(), f64::INFINITY)]),
        }
    }

    #[test]
    fn an_attempt_goes_on_after_the_steps_that_still_hold() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = Reported::new(dir.path());
        assert!(first.earlier().is_empty());
        for step in 1..=3 {
            first.add(&[], &epoch(step)).unwrap();
        }
        let mut second = Reported::new(dir.path());
        let mut before = second.earlier();
        assert_eq!(before, [epoch(1), epoch(2), epoch(3)]);
        before.truncate(2);
        second.add(&before, &epoch(3)).unwrap();
        second.add(&before, &epoch(4)).unwrap();
        assert_eq!(second.earlier(), [epoch(1), epoch(2), epoch(3), epoch(4)]);
    }

    #[test]
    fn a_line_that_was_cut_short_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let mut reported = Reported::new(dir.path());
        reported.add(&[], &epoch(1)).unwrap();
        let path = dir.path().join("reported.jsonl");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{text}{}", &text[..text.len() / 2])).unwrap();
        assert_eq!(reported.earlier(), [epoch(1)]);
    }
}
