//! `tune evaluate DIR FILE`: scores a model on labelled rows, or on pages whose texts are known.

use clap::Args;

use super::detect::is_detector;
use super::predict::{RowsArgs, RowsFile};
use super::{Common, detect, libtorch};
use messages::exit::{Exit, Failure};
use request::predict::{AnyExported, Input};
use request::torch_request::{Evaluate, TorchRequest};

/// `tune evaluate`
#[derive(Debug, Args)]
pub struct EvaluateArgs {
    /// The model, and the rows
    #[command(flatten)]
    pub rows: RowsArgs,
    /// Column of the class [default: as in training]
    #[arg(long, value_name = "COLUMN")]
    pub label: Option<String>,
}

pub(super) fn evaluate(common: &Common, args: &EvaluateArgs) -> Result<Exit, Failure> {
    if is_detector(&args.rows.dir) {
        return detect::evaluate(common, args);
    }
    let exported = args.rows.model()?;
    let rows = args.rows.rows_file()?;
    let scored = score(common, args, &exported, &rows);
    scored.map_err(|failure| rows.told(failure))
}

/// Has the model answer the rows, and prints the scores.
fn score(
    common: &Common,
    args: &EvaluateArgs,
    exported: &AnyExported,
    rows: &RowsFile,
) -> Result<Exit, Failure> {
    let mut wanted = args.rows.wanted(exported)?;
    let known = exported.known();
    let label = args.label.as_deref().unwrap_or(known.target).to_owned();
    wanted.label = Some((label, known.labels.to_vec()));
    let file = Input::new(&rows.path, wanted.clone())?;
    let survey = file.survey()?;
    libtorch::run(&TorchRequest::Evaluate(Evaluate {
        rows: (args.rows).request(rows, (wanted, survey.rows), !common.quiet)?,
        json: common.json,
    }))
}
