//! TOML as a tree of values that remember where they came from.

use std::ops::Range;
use std::path::Path;

use super::problem::{Problem, Source};
use search::space::Value;
use toml_edit::TableLike;

/// A value with its origin.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub item: Item,
    pub source: Source,
    /// The value as typed, where it comes from a flag or the environment: a number can then stand
    /// for a string.
    pub raw: Option<String>,
}

/// The kinds of values. A date is a string.
#[derive(Debug, Clone)]
pub(super) enum Item {
    Scalar(Value),
    Array(Vec<Node>),
    Table(Table),
}

/// Entries in the order of the file.
pub(super) type Table = Vec<(String, Node)>;

impl Node {
    pub fn new(item: Item, source: Source) -> Node {
        let raw = None;
        Node { item, source, raw }
    }

    pub fn scalar(&self) -> Option<&Value> {
        match &self.item {
            Item::Scalar(value) => Some(value),
            Item::Array(_) | Item::Table(_) => None,
        }
    }

    pub fn table(&self) -> Option<&Table> {
        match &self.item {
            Item::Table(table) => Some(table),
            Item::Scalar(_) | Item::Array(_) => None,
        }
    }

    pub fn array(&self) -> Option<&[Node]> {
        match &self.item {
            Item::Array(array) => Some(array),
            Item::Scalar(_) | Item::Table(_) => None,
        }
    }

    /// The entry of a table.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.table().and_then(|t| find(t, key))
    }

    /// The value as messages show it.
    pub fn found(&self) -> String {
        match &self.item {
            Item::Scalar(Value::Str(s)) => format!("{s:?}"),
            Item::Scalar(value) => format!("{value} ({})", value.type_name()),
            Item::Array(nodes) if nodes.is_empty() => "an empty array".into(),
            Item::Array(_) => "an array".into(),
            Item::Table(_) => "a table".into(),
        }
    }

    /// The text of a string, or of whatever a flag or the environment gave.
    pub fn text(&self) -> Option<&str> {
        match &self.item {
            Item::Scalar(Value::Str(text)) => Some(text),
            Item::Scalar(_) => self.raw.as_deref(),
            Item::Array(_) | Item::Table(_) => None,
        }
    }

    /// A problem with this value.
    pub fn problem(
        &self,
        key: impl Into<String>,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> Problem {
        Problem::new(&self.source, key, found, expected)
    }

    /// Whether this value or any below it comes from a flag or the environment.
    pub fn overridden(&self) -> bool {
        !self.source.is_file()
            || match &self.item {
                Item::Scalar(_) => false,
                Item::Array(nodes) => nodes.iter().any(Node::overridden),
                Item::Table(table) => table.iter().any(|(_, n)| n.overridden()),
            }
    }
}

pub(super) fn find<'a>(table: &'a [(String, Node)], key: &str) -> Option<&'a Node> {
    table.iter().find(|(k, _)| k == key).map(|(_, node)| node)
}

/// Parses a file's text.
pub(super) fn parse(text: &str, file: &Path) -> Result<Table, Problem> {
    let origin = Origin {
        text,
        file: Some(file),
        source: Source::File(file.to_owned(), None),
    };
    match toml_edit::Document::parse(text) {
        Ok(document) => Ok(origin.table(document.as_table(), &origin.source)),
        Err(error) => {
            let line = error.span().map(|span| origin.line(span));
            let source = Source::File(file.to_owned(), line);
            let found = format!("a TOML error: {}", one_line(error.message()));
            Err(Problem::without_key(source, found, "TOML"))
        }
    }
}

/// Parses an override's value: TOML, or a bare word, which is a string.
pub(super) fn parse_value(text: &str, source: &Source) -> Result<Node, String> {
    let text = text.trim();
    let origin = Origin {
        text,
        file: None,
        source: source.clone(),
    };
    let mut node = match text.parse::<toml_edit::Value>() {
        Ok(value) => origin.value(&value, source),
        Err(error) if text.starts_with(['[', '{', '"', '\'']) => {
            return Err(one_line(error.message()));
        }
        Err(_) => Node::new(Item::Scalar(bare(text)), source.clone()),
    };
    node.raw = Some(text.to_owned());
    Ok(node)
}

/// A word that is no TOML: `.5` and `5.` are numbers to most people, everything else is a string.
fn bare(text: &str) -> Value {
    let numeric = text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
    match text.parse::<f64>() {
        Ok(x) if numeric && x.is_finite() => Value::Float(x),
        Ok(_) | Err(_) => Value::Str(text.to_owned()),
    }
}

fn one_line(message: &str) -> String {
    message.lines().collect::<Vec<_>>().join(", ")
}

/// The text being read; turns spans into lines.
struct Origin<'a> {
    text: &'a str,
    file: Option<&'a Path>,
    source: Source,
}

impl Origin<'_> {
    fn table(&self, table: &dyn TableLike, outer: &Source) -> Table {
        let entries = table.iter().filter_map(|(k, _)| table.get_key_value(k));
        let read = entries.map(|(key, item)| {
            let source = self.source(key.span().or_else(|| item.span()), outer);
            let mut node = self.item(item, &source);
            // A key is where people look, even where its value begins on a later line.
            node.source = source;
            (key.get().to_owned(), node)
        });
        read.collect()
    }

    fn item(&self, item: &toml_edit::Item, outer: &Source) -> Node {
        match item {
            toml_edit::Item::Value(value) => self.value(value, outer),
            toml_edit::Item::Table(table) => {
                let item = Item::Table(self.table(table, outer));
                Node::new(item, self.source(table.span(), outer))
            }
            toml_edit::Item::ArrayOfTables(tables) => {
                let elements = tables.iter().map(|t| self.element(t, outer));
                Node::new(Item::Array(elements.collect()), outer.clone())
            }
            toml_edit::Item::None => Node::new(Item::Table(Table::new()), outer.clone()),
        }
    }

    fn element(&self, table: &toml_edit::Table, outer: &Source) -> Node {
        let source = self.source(table.span(), outer);
        let item = Item::Table(self.table(table, &source));
        Node::new(item, source)
    }

    fn value(&self, value: &toml_edit::Value, outer: &Source) -> Node {
        let source = self.source(value.span(), outer);
        let item = match value {
            toml_edit::Value::String(s) => Item::Scalar(Value::Str(s.value().clone())),
            toml_edit::Value::Integer(i) => Item::Scalar(Value::Int(*i.value())),
            toml_edit::Value::Float(x) => Item::Scalar(Value::Float(*x.value())),
            toml_edit::Value::Boolean(b) => Item::Scalar(Value::Bool(*b.value())),
            toml_edit::Value::Datetime(d) => Item::Scalar(Value::Str(d.value().to_string())),
            toml_edit::Value::Array(array) => {
                Item::Array(array.iter().map(|v| self.value(v, &source)).collect())
            }
            toml_edit::Value::InlineTable(table) => Item::Table(self.table(table, &source)),
        };
        Node::new(item, source)
    }

    fn source(&self, span: Option<Range<usize>>, outer: &Source) -> Source {
        match (self.file, span) {
            (Some(file), Some(span)) => Source::File(file.to_owned(), Some(self.line(span))),
            (Some(_), None) | (None, _) => outer.clone(),
        }
    }

    fn line(&self, span: Range<usize>) -> usize {
        let before = self.text.as_bytes().iter().take(span.start);
        1 + before.filter(|b| **b == b'\n').count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_knows_its_line() {
        let text = "[a]\nb = 1\n\n[[points]]\n\"x.y\" = 2\n[[points]]\nz = [\n 1,\n 2 ]\n";
        let root = parse(text, Path::new("f.toml")).unwrap();
        let line = |n: &Node| match &n.source {
            Source::File(_, line) => *line,
            Source::Flag(_) | Source::Environment(_) => panic!("{n:?}"),
        };
        assert_eq!(line(find(&root, "a").unwrap()), Some(1));
        assert_eq!(line(find(&root, "a").unwrap().get("b").unwrap()), Some(2));
        let points = find(&root, "points").unwrap().array().unwrap();
        assert_eq!(line(&points[0]), Some(4));
        assert_eq!(line(points[0].get("x.y").unwrap()), Some(5));
        assert_eq!(line(&points[1]), Some(6));
        let z = points[1].get("z").unwrap();
        assert_eq!(line(z), Some(7));
        assert_eq!(line(&z.array().unwrap()[1]), Some(9));
    }

    #[test]
    fn a_syntax_error_names_its_line() {
        let problem = parse("a = 1\nb = = 2\n", Path::new("f.toml")).unwrap_err();
        assert_eq!(problem.source, Source::File("f.toml".into(), Some(2)));
        assert!(!problem.to_string().contains('\n'));
    }

    #[test]
    fn an_override_is_toml_or_a_bare_word() {
        let source = Source::Flag("--set".into());
        let value = |text: &str| parse_value(text, &source).map(|n| n.scalar().cloned());
        assert_eq!(value("5"), Ok(Some(Value::Int(5))));
        assert_eq!(value("5e-6"), Ok(Some(Value::Float(5e-6))));
        assert_eq!(value(".5"), Ok(Some(Value::Float(0.5))));
        assert_eq!(value("true"), Ok(Some(Value::Bool(true))));
        assert_eq!(value("minilm"), Ok(Some("minilm".into())));
        assert_eq!(value("10m"), Ok(Some("10m".into())));
        assert_eq!(value("\"5\""), Ok(Some("5".into())));
        assert!(value("[1, 2").is_err());
    }
}
