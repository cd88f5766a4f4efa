//! A parsed configuration sorted into its parts, with the overrides applied.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::overrides::Overrides;
use super::problem::{Problem, Source, hint};
use super::tree::{Item, Node, Table, find, parse_value};
use crate::TaskKind;

/// What an entry of `[space]` may hold.
pub(super) const ENTRY_KEYS: [&str; 10] = [
    "low",
    "high",
    "log",
    "step",
    "int",
    "choices",
    "default",
    "when",
    "high_when",
    "oom",
];

/// Sections that hold no plain keys.
pub(super) const STRUCTURED: [&str; 4] = ["models", "space", "constraints", "points"];

/// What stands before the parameters of `[params]`, the section of those without a dot.
const PARAMS: &str = "params.";

/// The parts of a configuration.
#[derive(Debug, Default)]
pub(super) struct Document {
    pub file: PathBuf,
    /// Every top-level name of the file.
    pub sections: Vec<(String, Source)>,
    /// Plain keys by dotted name; nested tables are flattened.
    pub keys: Table,
    /// The names of those that the file itself has.
    pub written: Vec<String>,
    /// Names that [`Document::declare`] found: what a kind that passes parameters on is given.
    pub declared: Vec<String>,
    /// Entries of `[models]`.
    pub models: Table,
    /// Entries of `[space]`, each a table.
    pub space: Table,
    /// Each a table.
    pub constraints: Vec<Node>,
    /// Each a table.
    pub points: Vec<Node>,
}

impl Document {
    pub fn new(root: Table, file: &Path, problems: &mut Vec<Problem>) -> Document {
        let mut document = Document {
            file: file.to_owned(),
            ..Document::default()
        };
        for (name, node) in root {
            document.sections.push((name.clone(), node.source.clone()));
            document.add_section(&name, node, problems);
        }
        document.refuse_repetitions(problems);
        document.written = document.keys.iter().map(|(key, _)| key.clone()).collect();
        document
    }

    /// Takes up what a task kind says of its configurations: its own defaults of `tune`'s keys, as if
    /// they stood in the file, and that it passes parameters on.
    pub fn prepare_for(&mut self, kind: &TaskKind, problems: &mut Vec<Problem>) {
        for (key, text) in kind.presets {
            if self.key(key).is_none()
                && let Ok(node) = parse_value(text, &self.whole())
            {
                self.keys.push(((*key).to_owned(), node));
            }
        }
        if kind.accepts_any_parameter {
            self.declare(problems);
        }
    }

    /// Notes every parameter that the configuration declares itself: the entries of `[space]`, and
    /// the keys of `[train]` and `[params]`, these without the section's name.
    fn declare(&mut self, problems: &mut Vec<Problem>) {
        let mut names: Vec<String> = self.space.iter().map(|(name, _)| name.clone()).collect();
        self.redirect();
        self.refuse_new_parameters(problems);
        for (key, _) in &mut self.keys {
            if let Some(name) = key.strip_prefix(PARAMS).map(str::to_owned) {
                key.clone_from(&name);
                names.push(name);
            } else if key.starts_with("train.") {
                names.push(key.clone());
            }
        }
        let nameless = self.space.iter().chain(&self.keys);
        let nameless = nameless.filter(|(name, _)| name.is_empty());
        problems.extend(
            nameless.map(|(_, node)| node.problem("\"\"", "a parameter without a name", "a name")),
        );
        names.sort();
        names.dedup();
        self.declared = names;
        self.refuse_repetitions(problems);
    }

    /// `--set params.X=...` gives a parameter of the file another value. One that the file does not have
    /// would make another study, by a slip of the pen mostly.
    fn refuse_new_parameters(&self, problems: &mut Vec<Problem>) {
        let searched = self.space.iter().map(|(name, _)| name.as_str());
        let known = (self.written.iter()).filter_map(|key| match key.strip_prefix(PARAMS) {
            Some(name) => Some(name),
            None => Some(key.as_str()).filter(|key| key.starts_with("train.")),
        });
        let known: Vec<&str> = searched.chain(known).collect();
        for (key, node) in &self.keys {
            // `--epochs` and `HPO_EPOCHS` are for whatever task there is.
            let set = matches!(&node.source, Source::Flag(text) if text.starts_with("--set "));
            let name = key.strip_prefix(PARAMS);
            let name = name.or(Some(key.as_str()).filter(|key| set && key.starts_with("train.")));
            let Some(name) = name.filter(|name| !known.contains(name)) else {
                self.check_counted(key, node, problems);
                continue;
            };
            let near = hint(name, known.iter().copied());
            let expected = match known.as_slice() {
                [] => {
                    "a parameter of the file, which has none: add it to [params] there".to_owned()
                }
                known => format!(
                    "one of {}{near}; a new one is added to [params] of the file",
                    known.join(", ")
                ),
            };
            problems.push(node.problem(key, "a parameter that the file does not have", expected));
        }
    }

    /// What `--epochs` and the like give a program that has no such parameter is a number all the same.
    fn check_counted(&self, key: &str, node: &Node, problems: &mut Vec<Problem>) {
        let given = key.starts_with("train.") && !node.source.is_file();
        let counts = |value: &search::space::Value| value.as_i64().is_some_and(|n| n >= 0);
        if given
            && !self.written.iter().any(|written| written == key)
            && !node.scalar().is_some_and(counts)
        {
            problems.push(node.problem(key, node.found(), "a whole number from 0"));
        }
    }

    /// `HPO_EPOCHS` and `--epochs` set `train.epochs`. Where the file calls the parameter `epochs`,
    /// that is what they mean; and `--set x=1` means the `x` of `[params]`.
    fn redirect(&mut self) {
        let declared = |document: &Document, name: &str| {
            let searched = document.space.iter().any(|(n, _)| n == name);
            searched || document.key(&format!("{PARAMS}{name}")).is_some()
        };
        let outside: Vec<(String, Node)> = (self.keys.iter())
            .filter(|(key, node)| key.starts_with("train.") && !node.source.is_file())
            .filter(|(key, _)| !declared(self, key))
            .cloned()
            .collect();
        let of_params = (self.keys.iter())
            .filter(|(key, node)| {
                !node.source.is_file() && self.key(&format!("{PARAMS}{key}")).is_some()
            })
            .cloned()
            .collect::<Vec<_>>();
        for (key, node) in of_params {
            remove(&mut self.keys, &key);
            replace(&mut self.keys, &format!("{PARAMS}{key}"), node);
        }
        for (key, node) in outside {
            let name = key.trim_start_matches("train.");
            if declared(self, name) {
                remove(&mut self.keys, &key);
                replace(&mut self.keys, &format!("{PARAMS}{name}"), node);
            }
        }
    }

    /// The value of a plain key.
    pub fn key(&self, name: &str) -> Option<&Node> {
        find(&self.keys, name)
    }

    /// The source of what is missing altogether.
    pub fn whole(&self) -> Source {
        Source::File(self.file.clone(), None)
    }

    /// Where a key has its value, else the whole file.
    pub fn source_of(&self, key: &str) -> Source {
        let node = self.key(key);
        node.map_or_else(|| self.whole(), |n| n.source.clone())
    }

    /// A problem with a key, where it has its value.
    pub fn problem(
        &self,
        key: &str,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> Problem {
        Problem::new(&self.source_of(key), key, found, expected)
    }

    /// Where a section begins, else the whole file.
    pub fn source_of_section(&self, section: &str) -> Source {
        let found = self.sections.iter().find(|(name, _)| name == section);
        found.map_or_else(|| self.whole(), |(_, source)| source.clone())
    }

    /// Where everything that was given stands: sections, entries of `[space]` and plain keys, by name.
    pub fn sources(&self) -> BTreeMap<String, Source> {
        let nodes = self.space.iter().chain(&self.keys);
        let nodes = nodes.map(|(name, node)| (name.clone(), node.source.clone()));
        self.sections.iter().cloned().chain(nodes).collect()
    }

    /// Whether a flag or the environment gives a key its value.
    pub fn overridden(&self, key: &str) -> bool {
        self.key(key).is_some_and(|node| !node.source.is_file())
    }

    /// Applies the overrides in their order.
    pub fn apply(&mut self, overrides: &Overrides, problems: &mut Vec<Problem>) {
        for (key, text, source) in &overrides.set {
            let path = match toml_edit::Key::parse(key.trim()) {
                Ok(keys) => keys.iter().map(|k| k.get().to_owned()).collect::<Vec<_>>(),
                Err(_) => Vec::new(),
            };
            if path.is_empty() {
                let expected = "a dotted key such as train.epochs or space.\"optim.lr\".high";
                problems.push(Problem::new(source, key, "no key of TOML", expected));
                continue;
            }
            match parse_value(text, source) {
                Ok(node) => self.apply_one(&path, node, problems),
                Err(error) => problems.push(Problem::new(
                    source,
                    key,
                    format!("{text} ({error})"),
                    "a value of TOML, or a bare word",
                )),
            }
        }
    }

    fn add_section(&mut self, name: &str, node: Node, problems: &mut Vec<Problem>) {
        let source = node.source.clone();
        match (name, node.item) {
            ("space", Item::Table(table)) => collect_space("", table, &mut self.space),
            ("models", Item::Table(table)) => flatten_all("", table, &mut self.models),
            ("constraints", Item::Array(nodes)) => self.constraints = nodes,
            ("points", Item::Array(nodes)) => self.points = nodes,
            ("space" | "models", _) => {
                let expected = format!("a section [{name}]");
                problems.push(Problem::new(&source, name, "something else", expected));
            }
            ("constraints" | "points", _) => {
                let expected = format!("tables headed [[{name}]]");
                problems.push(Problem::new(&source, name, "something else", expected));
            }
            (_, item) => {
                let raw = node.raw;
                flatten(name, Node { item, source, raw }, &mut self.keys);
            }
        }
    }

    fn apply_one(&mut self, path: &[String], node: Node, problems: &mut Vec<Problem>) {
        let Some((section, rest)) = path.split_first() else {
            return;
        };
        match (section.as_str(), rest) {
            ("space", [_, ..]) => self.apply_space(rest, node),
            ("models", [_, ..]) => replace(&mut self.models, &rest.join("."), node),
            ("constraints" | "points", [_, ..]) => {
                let expected = format!("{section}=[...], which replaces all of them");
                problems.push(node.problem(path.join("."), "a part", expected));
            }
            (_, []) => {
                match section.as_str() {
                    "space" => self.space.clear(),
                    "models" => self.models.clear(),
                    "constraints" | "points" => {}
                    other => remove(&mut self.keys, other),
                }
                self.add_section(section, node, problems);
            }
            (_, [_, ..]) => {
                let name = path.join(".");
                remove(&mut self.keys, &name);
                flatten(&name, node, &mut self.keys);
            }
        }
    }

    /// `space."optim.lr".high`, also without the quotes; or a whole entry.
    fn apply_space(&mut self, path: &[String], node: Node) {
        let field = (1..path.len()).find(|&i| ENTRY_KEYS.contains(&path[i].as_str()));
        let name = path[..field.unwrap_or(path.len())].join(".");
        let Some(field) = field else {
            replace(&mut self.space, &name, node);
            return;
        };
        let index = match self.space.iter().position(|(k, _)| *k == name) {
            Some(index) => index,
            None => {
                let entry = Node::new(Item::Table(Table::new()), node.source.clone());
                self.space.push((name, entry));
                self.space.len() - 1
            }
        };
        let Item::Table(table) = &mut self.space[index].1.item else {
            self.space[index].1 = node;
            return;
        };
        // Choices in place of a range, or the other way round: the file's half goes.
        match path[field].as_str() {
            "choices" => {
                table.retain(|(k, _)| {
                    !["low", "high", "log", "step", "int", "high_when"].contains(&k.as_str())
                });
            }
            "low" | "high" => table.retain(|(k, _)| k != "choices"),
            _ => {}
        }
        set(table, &path[field..], node);
    }

    /// Of keys that are both fixed and searched an override wins over the file, and among overrides
    /// the fixed value does. Two in the file are a problem.
    pub fn drop_overruled(&mut self, problems: &mut Vec<Problem>) {
        let searched = self.space.iter().map(|(name, _)| name.clone());
        for name in searched.collect::<Vec<_>>() {
            let (Some(fixed), Some(entry)) = (self.key(&name), find(&self.space, &name)) else {
                continue;
            };
            if !fixed.source.is_file() {
                self.space.retain(|(k, _)| *k != name);
            } else if entry.overridden() {
                self.keys.retain(|(k, _)| *k != name);
            } else {
                let found = format!("{} beside an entry in [space]", fixed.found());
                let expected = "either a fixed value or a searched parameter";
                problems.push(fixed.problem(&name, found, expected));
            }
        }
    }

    fn refuse_repetitions(&self, problems: &mut Vec<Problem>) {
        for table in [&self.keys, &self.space, &self.models] {
            for (index, (name, node)) in table.iter().enumerate() {
                if table[..index].iter().any(|(k, _)| k == name) {
                    problems.push(node.problem(name, "it a second time", "it once"));
                }
            }
        }
    }
}

fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() {
        name.to_owned()
    } else {
        format!("{prefix}.{name}")
    }
}

/// Adds a node under its dotted name, tables entry by entry.
fn flatten(name: &str, node: Node, out: &mut Table) {
    match node.item {
        Item::Table(table) => flatten_all(name, table, out),
        Item::Scalar(_) | Item::Array(_) => out.push((name.to_owned(), node)),
    }
}

/// The entries of a table below their dotted names; `None`: it is no table.
pub(super) fn flat_entries(node: &Node) -> Option<Table> {
    let mut entries = Table::new();
    flatten_all("", node.table()?.clone(), &mut entries);
    Some(entries)
}

fn flatten_all(prefix: &str, table: Table, out: &mut Table) {
    for (name, node) in table {
        flatten(&join(prefix, &name), node, out);
    }
}

/// Entries of `[space]`: `"optim.lr" = {...}`, `optim.lr = {...}` and `[space.optim]` alike.
fn collect_space(prefix: &str, table: Table, out: &mut Table) {
    for (key, node) in table {
        let name = join(prefix, &key);
        // Every key of a task has a dot: a name without one is a section.
        let group = node.table().is_some_and(|t| {
            !t.is_empty()
                && !t.iter().any(|(k, _)| ENTRY_KEYS.contains(&k.as_str()))
                && (!name.contains('.') || t.iter().all(|(_, n)| n.table().is_some()))
        });
        match node.item {
            Item::Table(inner) if group => collect_space(&name, inner, out),
            item @ (Item::Table(_) | Item::Array(_) | Item::Scalar(_)) => {
                out.push((name, Node { item, ..node }));
            }
        }
    }
}

/// Removes a key and everything below it.
fn remove(table: &mut Table, name: &str) {
    table.retain(|(k, _)| {
        k.strip_prefix(name)
            .is_none_or(|rest| !rest.is_empty() && !rest.starts_with('.'))
    });
}

fn replace(table: &mut Table, name: &str, node: Node) {
    match table.iter_mut().find(|(k, _)| k == name) {
        Some((_, old)) => *old = node,
        None => table.push((name.to_owned(), node)),
    }
}

fn set(table: &mut Table, path: &[String], node: Node) {
    let Some((first, rest)) = path.split_first() else {
        return;
    };
    if rest.is_empty() {
        replace(table, first, node);
        return;
    }
    let mut inner = match find(table, first).map(|n| n.item.clone()) {
        Some(Item::Table(inner)) => inner,
        Some(Item::Scalar(_) | Item::Array(_)) | None => Table::new(),
    };
    let source = node.source.clone();
    // A condition's parent is one name, whether or not it was quoted.
    set(&mut inner, &[rest.join(".")], node);
    replace(table, first, Node::new(Item::Table(inner), source));
}

#[cfg(test)]
mod tests {
    use super::*;
    use search::space::Value;

    fn document(text: &str, sets: &[(&str, &str)]) -> (Document, Vec<Problem>) {
        let mut problems = Vec::new();
        let file = Path::new("f.toml");
        let root = super::super::tree::parse(text, file).unwrap();
        let mut document = Document::new(root, file, &mut problems);
        let mut overrides = Overrides::default();
        for (key, value) in sets {
            overrides.push(key, value, Source::Flag(format!("--set {key}={value}")));
        }
        document.apply(&overrides, &mut problems);
        (document, problems)
    }

    fn scalar(document: &Document, key: &str) -> Option<Value> {
        document.key(key).and_then(|n| n.scalar().cloned())
    }

    #[test]
    fn nested_tables_become_dotted_keys() {
        let (d, problems) = document(
            "[data]\nsplit = { train = 0.8, seed = 1 }\n\"split.test\" = 0.1\n[data.more]\nx = 3\n",
            &[],
        );
        assert!(problems.is_empty());
        assert_eq!(scalar(&d, "data.split.train"), Some(Value::Float(0.8)));
        assert_eq!(scalar(&d, "data.split.test"), Some(Value::Float(0.1)));
        assert_eq!(scalar(&d, "data.more.x"), Some(Value::Int(3)));
    }

    #[test]
    fn a_key_given_twice_in_two_spellings_is_a_problem() {
        let (_, problems) = document(
            "[data]\nsplit = { train = 0.8 }\n\"split.train\" = 0.7\n",
            &[],
        );
        assert_eq!(
            problems[0].to_string(),
            "f.toml:3: data.split.train: found it a second time, expected it once"
        );
    }

    #[test]
    fn overrides_replace_keys_and_whole_tables() {
        let (d, _) = document(
            "[data]\nsplit = { train = 0.8, seed = 1 }\n[train]\nepochs = 4\n",
            &[("data.split", "{train = 0.7}"), ("train.epochs", "5")],
        );
        assert_eq!(scalar(&d, "data.split.train"), Some(Value::Float(0.7)));
        assert_eq!(scalar(&d, "data.split.seed"), None);
        assert_eq!(scalar(&d, "train.epochs"), Some(Value::Int(5)));
    }

    #[test]
    fn a_space_entry_is_addressed_with_or_without_quotes_and_by_its_fields() {
        for key in ["space.\"optim.lr\".high", "space.optim.lr.high"] {
            let (d, _) = document(
                "[space]\n\"optim.lr\" = { low = 1, high = 2 }\n",
                &[(key, "3")],
            );
            assert_eq!(d.space.len(), 1);
            let high = d.space[0].1.get("high").unwrap();
            assert_eq!(high.scalar(), Some(&Value::Int(3)));
            assert!(d.space[0].1.get("low").is_some());
            assert!(d.space[0].1.overridden());
        }
    }

    #[test]
    fn choices_from_outside_replace_a_range() {
        let (d, _) = document(
            "[space]\n\"optim.lr\" = { low = 1, high = 2, log = true }\n",
            &[("space.\"optim.lr\".choices", "[1, 2]")],
        );
        let names: Vec<&str> = d.space[0]
            .1
            .table()
            .unwrap()
            .iter()
            .map(|(k, _)| k.as_str())
            .collect();
        assert_eq!(names, ["choices"]);
    }

    #[test]
    fn a_part_of_the_points_cannot_be_addressed() {
        let (_, problems) = document("", &[("points.x", "1"), ("a b", "1")]);
        assert_eq!(problems.len(), 2);
        assert!(problems[0].to_string().contains("points=[...]"));
    }
}
