//! What programs printed that failed for a known cause (`tests/garden/outputs`): what is asked of doctor, that the true
//! cause comes first in 90 % and among the first three in 98 %, here by the signs alone, before anything was changed.

use std::fs;
use std::time::Duration;

use crate::notes::{Batch, Loader, Notes};
use crate::rank::Evidence;
use crate::run::{Outside, RunReport};
use crate::signature::{RunEnd, Signature};
use crate::signs::{HostFacts, signs};
use crate::statistics::Rate;
use fault::Death;

/// What the first lines of a file say, then the output.
struct Recorded {
    cause: String,
    head: Vec<String>,
    output: String,
}

impl Recorded {
    fn read(text: &str) -> Recorded {
        let lines = text.lines().take_while(|line| line.starts_with("# "));
        let head: Vec<String> = lines.map(|line| line[2..].to_owned()).collect();
        let output: Vec<&str> = text.lines().skip(head.len()).collect();
        Recorded {
            cause: head[0].strip_prefix("cause: ").unwrap().to_owned(),
            head,
            output: output.join("\n"),
        }
    }

    fn says(&self, word: &str) -> bool {
        self.head.iter().any(|line| line == word)
    }

    /// What the program would have noted of itself.
    fn notes(&self) -> Notes {
        let batch = Batch {
            taken: 1,
            loader: 0,
            batch: 0,
            rows: None,
            dataset_rows: Vec::new(),
            tensors: Vec::new(),
        };
        let loader = Loader {
            number: 0,
            workers: 1,
            forks: true,
            batch_size: Some(16),
            rows: Some(128),
        };
        Notes {
            python: true,
            torch: Some("2.11.0".to_owned()),
            batch: self.says("batch").then_some(batch),
            loaders: self.says("workers").then_some(loader).into_iter().collect(),
            ..Notes::default()
        }
    }

    /// The place of its cause, from 0.
    fn place(&self) -> Option<usize> {
        let end = RunEnd {
            death: Death::Exited(1),
            hang: None,
            oom_kills: 0,
            output: self.output.clone(),
        };
        let failure = Signature::of(&end).unwrap();
        let report = RunReport {
            end,
            stop: None,
            time: Duration::from_secs(3),
            ticks: 200,
            printed: 0,
            outside: Outside::default(),
            memory: Vec::new(),
            training_from: None,
        };
        let facts = HostFacts::default();
        let evidence = Evidence {
            signs: signs(&failure, &[report], false, &self.notes(), facts),
            base: Rate { failed: 2, all: 2 },
            ..Evidence::default()
        };
        let mut causes = evidence.ranking().into_iter().map(|r| r.cause.to_string());
        causes.position(|cause| cause == self.cause)
    }
}

#[test]
fn the_signs_of_what_was_printed_rank_the_cause_first() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/garden/outputs");
    let files = fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
    let mut places: Vec<(Option<usize>, String)> = files
        .map(|path| {
            let recorded = Recorded::read(&fs::read_to_string(&path).unwrap());
            (recorded.place(), path.display().to_string())
        })
        .collect();
    places.sort();
    let within = |most: usize| {
        let near = places
            .iter()
            .filter(|(place, _)| place.is_some_and(|p| p < most));
        near.count() as f64 / places.len() as f64
    };
    assert!(places.len() >= 20, "{places:?}");
    assert!(within(1) >= 0.9 && within(3) >= 0.98, "{places:?}");
}
