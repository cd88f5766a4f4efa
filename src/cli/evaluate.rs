//! `tune evaluate DIR FILE`: scores a model on labelled rows.

use clap::Args;

use super::predict::{RowsArgs, input};
use super::{Common, init_logging};
use crate::exit::{Exit, Failure};
use crate::task::text_classification::export::Exported;
use crate::task::text_classification::predict::{Input, Survey};

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
    init_logging(common, None)?;
    let exported = args.rows.model()?;
    let about = &exported.description;
    let mut wanted = args.rows.wanted(about)?;
    let label = args.label.clone();
    let label = label.unwrap_or_else(|| about.columns.label.clone());
    wanted.label = Some((label, about.labels.clone()));
    let file = Input::new(&args.rows.file, wanted).map_err(input)?;
    let survey = file.survey().map_err(input)?;
    work(common, args, &exported, &file, &survey)
}

#[cfg(not(feature = "torch"))]
fn work(
    _common: &Common,
    _args: &EvaluateArgs,
    _exported: &Exported,
    _file: &Input,
    _survey: &Survey,
) -> Result<Exit, Failure> {
    Err(super::without_libtorch())
}

#[cfg(feature = "torch")]
fn work(
    common: &Common,
    args: &EvaluateArgs,
    exported: &Exported,
    file: &Input,
    survey: &Survey,
) -> Result<Exit, Failure> {
    use crate::report::{Gauge, evaluation_json, evaluation_text};
    use crate::task::text_classification::evaluation::evaluation;
    use crate::task::text_classification::predict::answer;
    use crate::task::text_classification::scores::Answers;
    use crate::task::text_classification::train::predict::Predictor;

    let device = args.rows.device()?;
    let batch_size = args.rows.batch_size.map(|n| n as usize);
    let mut predictor = Predictor::open(exported, device, batch_size)
        .map_err(|e| Failure::input(format!("{e:#}")))?;
    let gauge = Gauge::things("rows", survey.rows as u64, !common.quiet);
    let step = &mut |rows: usize| gauge.advance(rows as u64);
    let mut all: Option<Answers> = None;
    answer(file, &mut predictor, step, &mut |_, answers| {
        match &mut all {
            Some(all) => all.join(answers),
            None => all = Some(answers),
        }
        Ok(())
    })
    .map_err(super::predict::failed)?;
    drop(gauge);
    let all = all.ok_or_else(|| Failure::internal("no row was answered"))?;
    let name = args.rows.file.display().to_string();
    let scores = evaluation(exported, name, &all);
    super::print(&match common.json {
        true => format!("{:#}\n", evaluation_json(&scores)),
        false => evaluation_text(&scores),
    })
}
