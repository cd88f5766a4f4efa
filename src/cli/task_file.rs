//! `tune config show TASK` and `tune config schema`: what a task file comes to, and what it may hold.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};

use super::args::{Common, ConfigFlags};
use super::run;
use super::{done, print, print_json};
use config::kinds::KINDS;
use config::places::Wanted;
use config::{as_json, as_toml};
use messages::exit::{Exit, Failure};

/// `tune config`
#[derive(Debug, Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// The whole of a task as it was resolved: every value, and where it comes from
    Show(Box<ShowConfigArgs>),
    /// What a task file may hold, as a JSON Schema: editors complete keys by it
    Schema(SchemaArgs),
}

/// `tune config show`
#[derive(Debug, Args)]
struct ShowConfigArgs {
    /// A task: the name of a file in configs/ without .toml, or a path that ends in .toml
    task: String,
    /// What a run would ask.
    #[command(flatten)]
    asked: ConfigFlags,
}

/// `tune config schema`
#[derive(Debug, Args)]
struct SchemaArgs {
    /// Write it to this file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn config(common: &Common, args: &ConfigArgs) -> Result<Exit, Failure> {
    match &args.command {
        ConfigCommand::Show(args) => show(common, args),
        ConfigCommand::Schema(args) => schema(args),
    }
}

fn show(common: &Common, args: &ShowConfigArgs) -> Result<Exit, Failure> {
    let project = run::existing_project(common, Wanted::Task(&args.task))?;
    let (spec, shown) = run::shown(&project, &args.task, args.asked.overrides())?;
    if common.json {
        return print_json(&json!({
            "task": spec.task,
            "study": spec.study,
            "file": spec.file.display().to_string(),
            "values": as_json(&shown),
        }));
    }
    print(&as_toml(&shown))
}

fn schema(args: &SchemaArgs) -> Result<Exit, Failure> {
    let text = schema_text();
    let Some(file) = &args.output else {
        return print(&text);
    };
    files::replace::write(file, text.as_bytes())
        .map_err(|e| Failure::input(format!("{}: {e}", file.display())))?;
    done(report::out(&format!("wrote {}\n", file.display())))
}

/// The schema as a file has it.
pub(super) fn schema_text() -> String {
    format!("{}\n", config::schema(&KINDS))
}

/// What the schema is called where `tune init` writes it, beside the task files.
pub(super) const SCHEMA: &str = "tune.schema.json";

/// Whether this is the text of such a file, of this or of another version.
pub(super) fn is_schema(text: &str) -> bool {
    let json: Option<Json> = serde_json::from_str(text).ok();
    json.is_some_and(|json| json["title"] == config::TITLE)
}
