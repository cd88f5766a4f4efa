//! Reports each epoch, and ends trials that are worse than the median: `cargo run -p tune-search --example pruning`.

#![expect(clippy::print_stdout, reason = "an example prints")]

use tune_search::pruner::PercentilePruner;
use tune_search::space::{Domain, Parameter, Space};
use tune_search::study::Direction;
use tune_search::{Outcome, Study, TrialError};

const EPOCHS: i64 = 10;

fn main() -> Result<(), TrialError> {
    let space = Space::new([Parameter::new("rate", Domain::log_float(1e-5, 1.0))]);
    let mut study = Study::new(space, vec![Direction::Maximize])
        .with_pruner(Box::new(PercentilePruner::default()));
    let mut pruned = 0;
    for _ in 0..40 {
        let Some((trial, params)) = study.ask() else {
            break;
        };
        let rate = params["rate"].as_f64().unwrap_or(1.0);
        let mut outcome = Outcome::Failed;
        for epoch in 1..=EPOCHS {
            let accuracy = 1.0 / (1.0 + (rate.log10() + 2.0).powi(2)) - 0.5 / epoch as f64;
            outcome = Outcome::Complete(vec![accuracy]);
            if study.report(trial, epoch, accuracy)? {
                outcome = Outcome::Pruned(None);
                pruned += 1;
                break;
            }
        }
        study.tell(trial, outcome)?;
    }
    println!("{pruned} of 40 trials ended early");
    println!("best: {:?}", study.best().map(|best| &best.params));
    Ok(())
}
