//! The request that starts a study, checked as a whole.

use serde_json::Value as Json;

use super::fields::Fields;
use super::space;
use config::{check_name, pruner_from_json, sampler_from_json};
use search::pruner::Horizon;
use search::pruner::PrunerSpec;
use search::sampler::SamplerSpec;
use search::space::Space;
use search::study::Direction;

/// The version of the protocol.
const PROTOCOL: u64 = 1;

/// The study's name where only a database is given.
const STUDY: &str = "ask-tell";

const FIELDS: [&str; 11] = [
    "op",
    "protocol",
    "seed",
    "direction",
    "n_evals",
    "max_step",
    "space",
    "sampler",
    "pruner",
    "storage",
    "study",
];

/// What is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestedStudy {
    /// Decides everything random.
    pub seed: u64,
    /// Whether small or large values are good.
    pub direction: Direction,
    /// How many trials are planned, at least 1; a hint.
    pub n_evals: Option<i64>,
    /// The last step that can be reported, at least 1; `None`: none will be.
    pub max_step: Option<i64>,
    /// What is searched.
    pub space: Space,
    /// How points are chosen.
    pub sampler: SamplerSpec,
    /// How trials are ended early.
    pub pruner: PrunerSpec,
    /// Where the study is kept; `None`: in memory.
    pub place: Option<Place>,
}

/// Where a study is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The database, as the client wrote it: a path or `sqlite:///PATH`.
    pub storage: String,
    /// The study's name.
    pub study: String,
}

impl RequestedStudy {
    /// Reads the request; `text` is the line it stands in, `python` whether that was read as Python's
    /// JSON.
    pub(super) fn read(json: &Json, text: &str, python: bool) -> Result<RequestedStudy, String> {
        let fields = Fields::new(json, String::new(), &FIELDS)?.of_python(python);
        let protocol = format!("{PROTOCOL}, the version of the protocol");
        if fields.unsigned("protocol", &protocol)? != PROTOCOL {
            return Err(fields.wrong("protocol", &protocol));
        }
        let algorithm = |name: &str| fields.optional(name).cloned().unwrap_or("auto".into());
        Ok(RequestedStudy {
            seed: fields.unsigned("seed", "an integer from 0, of at most 64 bits")?,
            direction: direction(&fields)?,
            n_evals: fields.positive_or_null("n_evals")?,
            max_step: fields.positive_or_null("max_step")?,
            space: space::read(fields.required("space", space::EXPECTED)?, text, python)?,
            sampler: sampler_from_json("sampler", &algorithm("sampler"))?,
            pruner: pruner_from_json("pruner", &algorithm("pruner"))?,
            place: place(&fields)?,
        })
    }

    /// What a pruner knows of the study beside its trials.
    pub fn horizon(&self) -> Horizon {
        let study = self.place.as_ref().map_or(STUDY, |p| &p.study);
        Horizon {
            max_step: self.max_step.and_then(|n| u64::try_from(n).ok()),
            study: study.to_owned(),
        }
    }
}

fn direction(fields: &Fields) -> Result<Direction, String> {
    let words = "minimize or maximize";
    match fields.text("direction", words)? {
        "minimize" => Ok(Direction::Minimize),
        "maximize" => Ok(Direction::Maximize),
        _ => Err(fields.wrong("direction", words)),
    }
}

fn place(fields: &Fields) -> Result<Option<Place>, String> {
    let study = match fields.optional("study") {
        Some(_) => Some(fields.text("study", "a name")?),
        None => None,
    };
    if fields.optional("storage").is_none() {
        return match study {
            Some(_) => Err(fields.wrong("storage", "a database for the study: a path")),
            None => Ok(None),
        };
    }
    let study = study.unwrap_or(STUDY);
    check_name(study).map_err(|expected| fields.wrong("study", expected))?;
    Ok(Some(Place {
        storage: fields
            .text("storage", "a path or sqlite:///PATH")?
            .to_owned(),
        study: study.to_owned(),
    }))
}
