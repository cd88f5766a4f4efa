//! Minimises a function of two parameters: `cargo run -p tune-search --example minimise`.

#![expect(clippy::print_stdout, reason = "an example prints")]

use tune_search::space::{Domain, Parameter, Space};
use tune_search::study::Direction;
use tune_search::{Outcome, Study, TrialError};

fn main() -> Result<(), TrialError> {
    let space = Space::new([
        Parameter::new("rate", Domain::log_float(1e-5, 1.0)),
        Parameter::new("layers", Domain::int(1, 8)),
        Parameter::new("optimizer", Domain::choices(["adam", "sgd"])),
    ]);
    let mut study = Study::new(space, vec![Direction::Minimize]).with_seed(1);
    for _ in 0..60 {
        let Some((trial, params)) = study.ask() else {
            break;
        };
        let rate = params["rate"].as_f64().unwrap_or(1.0);
        let layers = params["layers"].as_f64().unwrap_or(1.0);
        let slower = f64::from(u8::from(params["optimizer"].as_str() == Some("sgd")));
        let loss = (rate.log10() + 3.0).powi(2) + (layers - 5.0).powi(2) + slower;
        study.tell(trial, Outcome::Complete(vec![loss]))?;
    }
    if let Some(best) = study.best() {
        println!(
            "trial {}: {:?} at {:?}",
            best.number,
            best.value(),
            best.params
        );
    }
    Ok(())
}
