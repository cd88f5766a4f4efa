//! Signs in what the start-up module has noted.

use std::collections::BTreeSet;

use crate::inside::operation_name;
use crate::notes::Notes;
use crate::signs::Sign;

/// The signs of what a run has noted that did not fail, although it has computed with what is not finite.
pub fn of_notes(notes: &Notes) -> BTreeSet<Sign> {
    let mut found = BTreeSet::new();
    if notes.not_finite.is_some() || notes.gradient_not_finite.is_some() {
        let mut see = |sign: Sign, seen: bool| {
            if seen {
                found.insert(sign);
            }
        };
        self::see(notes, true, &mut see);
        see(Sign::NotFiniteText, true);
    }
    // Such mistakes are told beside it.
    found.remove(&Sign::SilentError);
    found
}

/// Says of each sign whether it was noted; `named`: the program names values that are not finite.
pub fn see(notes: &Notes, named: bool, tell: &mut impl FnMut(Sign, bool)) {
    tell(Sign::LoaderWorkers, notes.loader_workers() > 0);
    tell(Sign::ForkWithThreads, notes.forked_with_threads.is_some());
    tell(Sign::HidesStdlib, !notes.hides_stdlib.is_empty());
    tell(Sign::SmallerBatch, notes.at_smaller_batch());
    tell(Sign::ReadsLeftovers, !notes.leftovers.is_empty());
    tell(Sign::NoBatch, notes.batch.is_none() && !notes.stepped);
    tell(Sign::Half, !notes.half.is_empty());
    tell(Sign::OtherThreads, !notes.threads.is_empty());
    tell(Sign::ImportEffect, !notes.import_effects.is_empty());
    tell(Sign::InImport, notes.raised_in_import.is_some());
    tell(Sign::NotFiniteRows, notes.spoiled(named).is_some());
    if let Some(result) = &notes.not_finite {
        // A step with such a gradient makes such weights.
        let of_gradient = notes.gradient_not_finite.is_some();
        let (inputs, weights) = (result.inputs_finite, result.weights_finite);
        tell(Sign::NotFiniteWeights, !weights && !of_gradient);
        tell(
            Sign::NotFiniteModule,
            (inputs || result.made.is_some()) && weights,
        );
    }
    tell(Sign::NotFiniteGradient, notes.gradient_not_finite.is_some());
    tell(Sign::SilentError, notes.silent_error().is_some());
    const CUDNN: &[&str] = &[
        "conv",
        "cudnn",
        "rnn",
        "lstm",
        "gru",
        "batch_norm",
        "ctc_loss",
    ];
    const TF32: &[&str] = &["conv", "mm", "linear", "matmul", "einsum", "lstm", "gru"];
    if let Some(noted) = &notes.operation {
        let name = operation_name(noted);
        tell(
            Sign::Backward,
            noted.contains(" backward ") || name.ends_with("_backward"),
        );
        tell(
            Sign::OperationOfCudnn,
            CUDNN.iter().any(|part| name.contains(part)),
        );
        tell(
            Sign::OperationWithTf32,
            TF32.iter().any(|part| name.contains(part)),
        );
    }
}
