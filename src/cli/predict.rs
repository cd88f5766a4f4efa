//! `tune predict DIR FILE`: classes and probabilities of rows.

use std::path::{Path, PathBuf};

use clap::Args;

use super::{Common, init_logging};
use crate::config::{DevicePolicy, Problems};
use crate::exit::{Exit, Failure};
use crate::task::text_classification::checkpoint::Checkpoint;
use crate::task::text_classification::destination;
use crate::task::text_classification::export::{Description, Exported};
use crate::task::text_classification::predict::{Shape, Wanted, written};

/// What reading a file of rows, and answering them, needs.
#[derive(Debug, Args)]
pub struct RowsArgs {
    /// A directory that tune export has written
    pub dir: PathBuf,
    /// Rows: .csv, .jsonl, or .txt (a text a line)
    pub file: PathBuf,
    /// Column of the text [default: as in training]
    #[arg(long, value_name = "COLUMN")]
    pub text: Option<String>,
    /// Column of the second text [default: as in training]
    #[arg(long, value_name = "COLUMN")]
    pub text_pair: Option<String>,
    /// Rows that are computed at a time [default: by their tokens, as in the search]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub batch_size: Option<u32>,
    /// auto, cpu, cuda or cuda:0
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub device: DevicePolicy,
}

/// `tune predict`
#[derive(Debug, Args)]
pub struct PredictArgs {
    /// The model, and the rows
    #[command(flatten)]
    pub rows: RowsArgs,
    /// Where to: .csv or .jsonl [default: standard output, CSV or with --json JSON lines]
    #[arg(short, long, value_name = "OUT")]
    pub out: Option<PathBuf>,
}

impl RowsArgs {
    /// The model's directory, checked.
    pub(super) fn model(&self) -> Result<Exported, Failure> {
        Exported::open(&self.dir).map_err(input)
    }

    /// What is read of each row of the file.
    pub(super) fn wanted(&self, about: &Description) -> Result<Wanted, Failure> {
        let columns = &about.columns;
        if let (Some(column), None) = (&self.text_pair, &columns.text_pair) {
            return Err(Failure::input(format!(
                "--text-pair {column}: {} was trained on single texts; leave it out",
                self.dir.display()
            )));
        }
        let pair = self.text_pair.clone().or(columns.text_pair.clone());
        Ok(Wanted {
            text: self.text.clone().unwrap_or_else(|| columns.text.clone()),
            pair,
            label: None,
            forbidden: Vec::new(),
        })
    }

    /// The first of the devices that are asked for, ready to be used by this process.
    #[cfg(feature = "torch")]
    pub(super) fn device(&self) -> Result<crate::gpu::Device, Failure> {
        use crate::gpu::{self, Device};

        let devices = gpu::probe::resolve(&self.device, true)?;
        let device = devices.first().copied().unwrap_or(Device::Cpu);
        gpu::cuda::load(device).map_err(|e| Failure::new(Exit::Device, format!("{e:#}")))?;
        Ok(device)
    }
}

pub(super) fn input(problems: Problems) -> Failure {
    Failure::input(problems.to_string())
}

/// Whether answers may be written to this file.
pub(super) fn may_write(
    out: &Path,
    read: &[(&str, &Path)],
    model: &Checkpoint,
) -> Result<(), Failure> {
    match destination::refused(out, read, model) {
        Some(why) => Err(Failure::input(format!("--out {}: {why}", out.display()))),
        None => Ok(()),
    }
}

pub(super) fn predict(common: &Common, args: &PredictArgs) -> Result<Exit, Failure> {
    init_logging(common, None)?;
    let exported = args.rows.model()?;
    let shape = match &args.out {
        None if common.json => Shape::Jsonl,
        None => Shape::Csv,
        Some(out) => Shape::of(out).ok_or_else(|| {
            Failure::input(format!(
                "--out {}: expected a name that ends in .csv or .jsonl",
                out.display()
            ))
        })?,
    };
    let rows = &args.rows.file;
    if let Some(out) = &args.out {
        may_write(out, &[("the file of the rows", rows)], &exported.checkpoint)?;
    }
    let mut wanted = args.rows.wanted(&exported.description)?;
    wanted.forbidden = written(&exported.description.labels);
    work(common, args, &exported, wanted, shape)
}

#[cfg(not(feature = "torch"))]
fn work(
    _common: &Common,
    _args: &PredictArgs,
    _exported: &Exported,
    _wanted: Wanted,
    _shape: Shape,
) -> Result<Exit, Failure> {
    Err(super::without_libtorch())
}

#[cfg(feature = "torch")]
fn work(
    common: &Common,
    args: &PredictArgs,
    exported: &Exported,
    wanted: Wanted,
    shape: Shape,
) -> Result<Exit, Failure> {
    use std::io::IsTerminal;

    use crate::report::{self, Gauge};
    use crate::task::text_classification::predict::{Input, Target, write};
    use crate::task::text_classification::train::predict::Predictor;

    let file = Input::new(&args.rows.file, wanted).map_err(input)?;
    // Everything that is wrong with the rows is told before anything is computed or written.
    let survey = file.survey().map_err(input)?;
    let device = args.rows.device()?;
    let batch_size = args.rows.batch_size.map(|n| n as usize);
    let mut predictor = Predictor::open(exported, device, batch_size)
        .map_err(|e| Failure::input(format!("{e:#}")))?;
    // A bar would be drawn among the answers.
    let among = args.out.is_none() && std::io::stdout().is_terminal();
    let gauge = Gauge::things("rows", survey.rows as u64, !common.quiet && !among);
    let target = Target {
        out: args.out.as_deref(),
        shape,
        columns: &survey.columns,
        labels: &exported.description.labels,
    };
    let step = &mut |rows: usize| gauge.advance(rows as u64);
    let print = &mut |text: &str| Ok(report::data(text)?);
    write(&file, &mut predictor, &target, step, print).map_err(failed)?;
    Ok(Exit::Done)
}

/// A failure of the work itself: of the input where it has changed meanwhile, else of `tune`.
#[cfg(feature = "torch")]
pub(super) fn failed(error: anyhow::Error) -> Failure {
    match error.downcast::<Problems>() {
        Ok(problems) => input(problems),
        Err(error) if error.is::<std::io::Error>() => {
            Failure::input(format!("the answers cannot be written: {error:#}"))
        }
        Err(error) => Failure::internal(format!("{error:#}")),
    }
}
