//! `tune predict DIR FILE`: classes and probabilities of rows.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use tempfile::TempDir;

use super::detect::{detect, is_detector};
use super::{Common, libtorch};
use device::{Device, DevicePolicy, probe};
use messages::exit::{Exit, Failure};
use request::destination;
use request::predict::{AnswerFormat, AnyExported, Input, Wanted, written};
use request::torch_request::{ModelAndRows, Predict, TorchRequest};

/// What people call the file that standard input is kept in.
const STDIN: &str = "standard input";

/// What reading a file of rows, and answering them, needs.
#[derive(Debug, Args)]
pub struct RowsArgs {
    /// A directory that tune export has written
    pub dir: PathBuf,
    /// Rows: .csv, .jsonl, or .txt (a text a line); - is standard input. Of a text detector: pictures, or to evaluate pages
    pub file: PathBuf,
    /// What standard input is: csv, jsonl or txt [default: csv]
    #[arg(long, value_name = "KIND", hide_possible_values = true)]
    pub format: Option<InputFormat>,
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

/// What standard input is.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum InputFormat {
    /// With a header line
    Csv,
    /// A JSON object a line
    Jsonl,
    /// A text a line
    Txt,
}

/// The file of the rows, which are read twice: what comes from standard input is kept in a file until
/// this is dropped.
#[derive(Debug)]
pub(super) struct RowsFile {
    pub path: PathBuf,
    kept: Option<TempDir>,
}

impl RowsFile {
    /// What people call it.
    fn name(&self) -> String {
        match self.kept {
            None => self.path.display().to_string(),
            Some(_) => STDIN.to_owned(),
        }
    }

    /// A failure for people: the file that standard input was kept in is gone when they read of it.
    pub(super) fn told(&self, failure: Failure) -> Failure {
        if self.kept.is_none() {
            return failure;
        }
        let kept = self.path.display().to_string();
        let message = failure.message.replace(&kept, STDIN);
        Failure::new(failure.exit, message)
    }
}

/// `tune predict`
#[derive(Debug, Args)]
pub struct PredictArgs {
    /// The model, and the rows
    #[command(flatten)]
    pub rows: RowsArgs,
    /// Where to: .csv or .jsonl, of a text detector a new directory [default: standard output, CSV or with --json JSON lines]
    #[arg(short, long, value_name = "OUT")]
    pub out: Option<PathBuf>,
}

impl RowsArgs {
    /// The model's directory, checked.
    pub(super) fn model(&self) -> Result<AnyExported, Failure> {
        Ok(AnyExported::open(&self.dir)?)
    }

    /// The file of the rows.
    ///
    /// # Errors
    /// Standard input cannot be read or kept; or a format is named beside a file.
    pub(super) fn rows_file(&self) -> Result<RowsFile, Failure> {
        let stdin = self.file == Path::new("-");
        let (path, kept) = match (stdin, self.format) {
            (false, None) => (self.file.clone(), None),
            (false, Some(_)) => {
                let file = self.file.display();
                return Err(Failure::input(format!(
                    "--format is for standard input (-): what {file} is, its name tells; leave it out"
                )));
            }
            (true, format) => {
                let dir = tempfile::tempdir().map_err(|e| not_kept(&e))?;
                let path = dir.path().join(match format {
                    None | Some(InputFormat::Csv) => "stdin.csv",
                    Some(InputFormat::Jsonl) => "stdin.jsonl",
                    Some(InputFormat::Txt) => "stdin.txt",
                });
                let mut file = File::create(&path).map_err(|e| not_kept(&e))?;
                io::copy(&mut io::stdin().lock(), &mut file).map_err(|e| not_kept(&e))?;
                (path, Some(dir))
            }
        };
        Ok(RowsFile { path, kept })
    }

    /// What is read of each row of the file.
    pub(super) fn wanted(&self, model: &AnyExported) -> Result<Wanted, Failure> {
        let mut wanted = Wanted {
            text: None,
            pair: None,
            columns: Vec::new(),
            numbers: BTreeSet::new(),
            label: None,
            forbidden: Vec::new(),
            empty: false,
        };
        match model {
            AnyExported::Table(exported) => {
                let asked = [("--text", &self.text), ("--text-pair", &self.text_pair)];
                if let Some((flag, column)) = asked.iter().find_map(|(f, c)| Some((f, c.as_ref()?)))
                {
                    return Err(Failure::input(format!(
                        "{flag} {column}: {} reads the columns of a table by their names; leave it out",
                        self.dir.display()
                    )));
                }
                wanted.columns = exported.description.columns(false);
                wanted.numbers = exported.description.columns(true).into_iter().collect();
            }
            AnyExported::Text(exported) => {
                let columns = &exported.description.columns;
                if let (Some(column), None) = (&self.text_pair, &columns.text_pair) {
                    return Err(Failure::input(format!(
                        "--text-pair {column}: {} was trained on single texts; leave it out",
                        self.dir.display()
                    )));
                }
                wanted.pair = self.text_pair.clone().or(columns.text_pair.clone());
                let text = self.text.clone().unwrap_or_else(|| columns.text.clone());
                wanted.text = Some(text);
            }
        }
        Ok(wanted)
    }

    /// What is asked of the library that computes.
    pub(super) fn request(
        &self,
        file: &RowsFile,
        (wanted, count): (Wanted, usize),
        bar: bool,
    ) -> Result<ModelAndRows, Failure> {
        let devices = probe::resolve(&self.device, true)?;
        Ok(ModelAndRows {
            model: self.dir.clone(),
            file: file.path.clone(),
            name: file.name(),
            wanted,
            count,
            batch_size: self.batch_size.map(|n| n as usize),
            device: devices.first().copied().unwrap_or(Device::Cpu),
            bar,
        })
    }
}

fn not_kept(error: &io::Error) -> Failure {
    let dir = std::env::temp_dir();
    Failure::input(format!(
        "standard input cannot be read and kept in {}: {error}",
        dir.display()
    ))
}

/// Whether answers may be written to this file.
pub(super) fn may_write(
    out: &Path,
    read: &[(&str, &Path)],
    model: (&Path, &[PathBuf]),
) -> Result<(), Failure> {
    match destination::refused(out, read, model) {
        Some(why) => Err(Failure::input(format!("--out {}: {why}", out.display()))),
        None => Ok(()),
    }
}

/// Whether there is the directory that this file is to be in: told before anything is computed.
pub(super) fn has_directory(out: &Path) -> Result<(), Failure> {
    let dir = files::directory(out);
    match dir.is_dir() {
        true => Ok(()),
        false => Err(Failure::input(format!(
            "--out {}: there is no directory {}",
            out.display(),
            dir.display()
        ))),
    }
}

pub(super) fn predict(common: &Common, args: &PredictArgs) -> Result<Exit, Failure> {
    if is_detector(&args.rows.dir) {
        return detect(common, args);
    }
    let exported = args.rows.model()?;
    let shape = match &args.out {
        None if common.json => AnswerFormat::Jsonl,
        None => AnswerFormat::Csv,
        Some(out) => AnswerFormat::of(out).ok_or_else(|| {
            Failure::input(format!(
                "--out {}: expected a name that ends in .csv or .jsonl",
                out.display()
            ))
        })?,
    };
    let rows = args.rows.rows_file()?;
    let answered = answer(common, args, (&exported, &rows), shape);
    answered.map_err(|failure| rows.told(failure))
}

/// Has the model answer the rows.
fn answer(
    common: &Common,
    args: &PredictArgs,
    (exported, rows): (&AnyExported, &RowsFile),
    shape: AnswerFormat,
) -> Result<Exit, Failure> {
    if let Some(out) = &args.out {
        may_write(
            out,
            &[("the file of the rows", &rows.path)],
            (exported.known().dir, &exported.files()),
        )?;
        has_directory(out)?;
    }
    let mut wanted = args.rows.wanted(exported)?;
    wanted.forbidden = written(exported.known().labels);
    let file = Input::new(&rows.path, wanted.clone())?;
    // Everything that is wrong with the rows is told before anything is computed or written.
    let survey = file.survey()?;
    // A bar would be drawn among the answers.
    let among = args.out.is_none() && std::io::stdout().is_terminal();
    libtorch::run(&TorchRequest::Predict(Predict {
        rows: (args.rows).request(rows, (wanted, survey.rows), !common.quiet && !among)?,
        columns: survey.columns,
        out: args.out.clone(),
        shape,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_standard_input_is_told_of_it_and_not_of_a_file_that_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stdin.csv");
        let failure = || Failure::input(format!("{}:3: no text", path.display()));
        let mut rows = RowsFile {
            path: path.clone(),
            kept: None,
        };
        assert_eq!(rows.told(failure()).message, failure().message);
        assert_eq!(rows.name(), path.display().to_string());
        rows.kept = Some(dir);
        assert_eq!(rows.told(failure()).message, "standard input:3: no text");
        assert_eq!(rows.name(), "standard input");
    }
}
