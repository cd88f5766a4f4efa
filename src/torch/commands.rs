//! Predicting, evaluating and embedding: what is left of a command once its input has been checked.

use config::Problems;
use detection::description::ExportedDetector;
use detection::finds_nothing;
use detection::metric::{self, Counts};
use detection::picture::must_all_open;
use detection::read::{Placement, read};
use messages::{Exit, Failure};
use report::ProgressBar;
use request::evaluation::{Answered, evaluation};
use request::predict::{AnyExported, Input};
use request::torch_request::{Detect, Embed, Evaluate, EvaluatePages, ModelAndRows, Predict};
use request::{Evaluation, Score, evaluation_json, evaluation_text};
use search::study::rng;
use serde_json::json;
use text::checkpoint::Checkpoint;
use text::embedding::{Embedded, EmbeddingStep};
use training::exported::directory;
use training::scores::Confusion;

use crate::entry::load;
use crate::train::answer::{Predictor, Target, answer, write};
use crate::train::detection::predict::Detector;
use crate::train::tabular::predict::TablePredictor;
use crate::train::text::predict::Predictor as TextPredictor;

/// The model and the file of a request, and a bar for its rows.
type Opened = (AnyExported, Input, Box<dyn Predictor>, ProgressBar);

/// These, opened.
fn open(rows: &ModelAndRows) -> Result<Opened, Failure> {
    let exported = AnyExported::open(&rows.model)?;
    let file = Input::new(&rows.file, rows.wanted.clone())?;
    load(rows.device)?;
    let (device, size) = (rows.device, rows.batch_size);
    let predictor: anyhow::Result<Box<dyn Predictor>> = match &exported {
        AnyExported::Text(exported) => {
            let column = rows.wanted.text.as_deref();
            let predictor = TextPredictor::open(exported, device, size);
            predictor.map(|p| Box::new(p.of_column(column)) as _)
        }
        AnyExported::Table(exported) => {
            TablePredictor::open(exported, device, size).map(|p| Box::new(p) as _)
        }
    };
    let predictor = predictor.map_err(|e| Failure::input(format!("{e:#}")))?;
    let bar = ProgressBar::things("rows", rows.count as u64, rows.bar);
    Ok((exported, file, predictor, bar))
}

/// Answers rows, to a file or to standard output.
pub fn predict(wanted: &Predict) -> Result<Exit, Failure> {
    let (exported, file, mut predictor, bar) = open(&wanted.rows)?;
    let target = Target {
        out: wanted.out.as_deref(),
        shape: wanted.shape,
        columns: &wanted.columns,
        labels: exported.known().labels,
    };
    let step = &mut |rows: usize| bar.advance(rows as u64);
    let print = &mut |text: &str| Ok(report::data(text)?);
    write(&file, predictor.as_mut(), &target, step, print).map_err(failed)?;
    Ok(Exit::Done)
}

/// Finds texts in pictures.
pub fn detect(wanted: &Detect) -> Result<Exit, Failure> {
    let exported = ExportedDetector::open(&wanted.model)?;
    // Nothing is written where one of them cannot be answered.
    must_all_open(&wanted.pictures)?;
    load(wanted.device)?;
    let detector = Detector::open(&exported, wanted.device);
    let detector = detector.map_err(|e| Failure::input(format!("{e:#}")))?;
    let bar = ProgressBar::things("pictures", wanted.pictures.len() as u64, wanted.bar);
    let done = match &wanted.out {
        None => (wanted.pictures.iter())
            .try_for_each(|path| Ok(report::data(&detector.look_at(path, None)?)?)),
        Some(out) => directory(out, false, &mut |partial| {
            detector.look_at_all(&wanted.pictures, partial, &mut || bar.advance(1))
        }),
    };
    done.map_err(failed)?;
    Ok(Exit::Done)
}

/// Scores a model on labelled rows, and prints the scores.
pub fn evaluate(wanted: &Evaluate) -> Result<Exit, Failure> {
    let (exported, file, mut predictor, bar) = open(&wanted.rows)?;
    let step = &mut |rows: usize| bar.advance(rows as u64);
    let mut all: Option<Answered> = None;
    answer(&file, predictor.as_mut(), step, &mut |_, answers| {
        match &mut all {
            Some(all) => all.join(answers),
            None => all = Some(answers),
        }
        Ok(())
    })
    .map_err(failed)?;
    drop(bar);
    let all = all.ok_or_else(|| Failure::internal("no row was answered"))?;
    let scores = evaluation(&exported, wanted.rows.name.clone(), &all);
    print_evaluation(&scores, wanted.json)
}

/// Scores a text detector on pages whose texts are known, and prints the scores.
pub fn evaluate_pages(wanted: &EvaluatePages) -> Result<Exit, Failure> {
    let exported = ExportedDetector::open(&wanted.model)?;
    let pages = read(&wanted.pages, Placement::default())?.pages;
    load(wanted.device)?;
    let detector = Detector::open(&exported, wanted.device);
    let detector = detector.map_err(|e| Failure::input(format!("{e:#}")))?;
    let bar = ProgressBar::things("pages", pages.len() as u64, wanted.bar);
    let counts = pages.iter().map(|page| {
        let counts = detector.score(page);
        bar.advance(1);
        counts
    });
    let counts: Vec<Counts> = counts.collect::<anyhow::Result<_>>().map_err(failed)?;
    drop(bar);
    let all: Counts = counts.iter().copied().sum();
    let interval = metric::interval(&counts, &mut rng(0, 0, "pages"));
    let score = |(name, value): (&str, f64)| Score {
        name: name.to_owned(),
        value,
        trivial: Some(finds_nothing()),
        interval: interval.filter(|_| name == "hmean"),
    };
    let evaluation = Evaluation {
        model: wanted.model.display().to_string(),
        file: wanted.pages.display().to_string(),
        rows: pages.len(),
        things: "pages",
        labels: Vec::new(),
        metrics: all.metrics().map(score).into(),
        classes: Vec::new(),
        confusion: Confusion::new(0, Vec::new()),
    };
    print_evaluation(&evaluation, wanted.json)
}

fn print_evaluation(scores: &Evaluation, json: bool) -> Result<Exit, Failure> {
    print(&match json {
        true => format!("{:#}\n", evaluation_json(scores)),
        false => evaluation_text(scores),
    })
}

/// Writes what an encoder makes of texts, and prints what was written.
pub fn embed(wanted: &Embed) -> Result<Exit, Failure> {
    let checkpoint = Checkpoint::named(&wanted.model, &wanted.models)?;
    let texts = Input::texts(&wanted.file, &wanted.columns)?;
    let rows = texts.rows()?;
    let mut bar = None;
    let done = crate::train::text::embed(&checkpoint, &rows, wanted, &mut |step| match step {
        EmbeddingStep::Began { rows, bytes } => {
            if wanted.loud {
                let (size, device) = (report::size(bytes), wanted.device);
                // A reader that has gone away does not end the work.
                let _ = report::out(&format!("{rows} rows, {size} to write, on {device}\n"));
            }
            bar = Some(ProgressBar::things("rows", rows as u64, wanted.loud));
        }
        EmbeddingStep::Computed(rows) => {
            if let Some(bar) = &bar {
                bar.advance(rows as u64);
            }
        }
    })?;
    drop(bar);
    print(&match wanted.json {
        true => format!("{:#}\n", embedded_json(wanted, &done)),
        false => embedded_text(wanted, &done),
    })
}

fn embedded_json(wanted: &Embed, done: &Embedded) -> serde_json::Value {
    json!({
        "version": messages::JSON_VERSION,
        "file": wanted.out, "model": wanted.model, "device": wanted.device.to_string(),
        "rows": done.rows, "length": done.length, "hidden": done.hidden, "cut": done.cut,
        "pooling": done.pooling.name(), "bytes": done.bytes,
    })
}

fn embedded_text(wanted: &Embed, done: &Embedded) -> String {
    let cut = match done.cut {
        0 => String::new(),
        n => format!(", {n} rows cut at {} tokens", wanted.max_length),
    };
    format!(
        "{}: last_hidden_state [{}, {}, {}], pooled by {}{cut}\n",
        wanted.out.display(),
        done.rows,
        done.length,
        done.hidden,
        done.pooling.name()
    )
}

fn print(text: &str) -> Result<Exit, Failure> {
    report::out(text).map_err(|e| Failure::internal(format!("stdout cannot be written: {e}")))?;
    Ok(Exit::Done)
}

/// A failure of the work itself: of the input where it has changed meanwhile, else of `tune`.
fn failed(error: anyhow::Error) -> Failure {
    match error.downcast::<Problems>() {
        Ok(problems) => problems.into(),
        Err(error) if error.is::<std::io::Error>() => {
            Failure::input(format!("the answers cannot be written: {error:#}"))
        }
        Err(error) => Failure::internal(format!("{error:#}")),
    }
}
