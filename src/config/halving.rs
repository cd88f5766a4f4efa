//! `oom = "halve"`: a batch that does not fit into memory is computed in parts.

use super::document::Document;
use super::problem::Problem;
use super::spec::Operation;
use super::tree::Node;
use crate::BATCH_SIZE;
use crate::TaskKind;
use search::space::Value;

/// The setting that says it for a fixed batch size.
const SETTING: &str = "gpu.oom";

/// Reads it where the batch size is searched, and checks that the task kind can do it.
pub(super) fn read(
    document: &Document,
    kind: &'static TaskKind,
    operation: &mut Operation,
    problems: &mut Vec<Problem>,
) {
    let mut refuse = |node: &Node, key: &str, found: String, expected: &str| {
        problems.push(node.problem(key, found, expected));
    };
    for (name, entry) in &document.space {
        let Some(node) = entry.get("oom") else {
            continue;
        };
        let key = format!("{name}.oom");
        let found = format!("oom = {}", node.found());
        match node.scalar() {
            _ if name != BATCH_SIZE => {
                refuse(node, &key, found, &format!("it with {BATCH_SIZE} only"));
            }
            Some(Value::Str(word)) if word == "halve" => operation.halve = true,
            Some(Value::Str(word)) if word == "alone" => {}
            Some(_) | None => refuse(node, &key, found, "\"halve\" or \"alone\""),
        }
    }
    if operation.halve && !kind.halves_batches {
        let found = format!("halve, which the task kind {} cannot do", kind.name);
        problems.push(document.problem(SETTING, found, "\"alone\""));
    }
}
