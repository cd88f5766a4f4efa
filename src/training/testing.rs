//! What tests of kinds share: a study by hand, and made rows.

use config::{Objective, Operation, StudySpec};
use search::space::{Params, Space};

use crate::split::Samples;

/// A study of a kind with every key at its default.
pub fn study_of(kind: &config::TaskKind, metric: &str) -> StudySpec {
    let keys = kind.keys.iter();
    let defaults = keys.filter_map(|key| Some((key.name.to_owned(), key.preset.value()?)));
    let fixed: Params = defaults.collect();
    let known = kind.metrics.iter().find(|m| m.name == metric).unwrap();
    StudySpec {
        task: "text".into(),
        kind: kind.name.into(),
        file: "text.toml".into(),
        study: "text".into(),
        objective: Objective {
            metric: metric.into(),
            direction: known.direction,
        },
        further: vec![],
        seed: 0,
        space: Space {
            fixed: fixed.clone(),
            ..Space::default()
        },
        fixed,
        sources: Default::default(),
        lists: std::collections::BTreeMap::new(),
        models: std::collections::BTreeMap::new(),
        points: Vec::new(),
        operation: Operation::sample(1),
    }
}

/// Rows of `(class, group)`, all or none of them with a group.
pub fn rows(of: &[(usize, Option<usize>)]) -> Samples {
    let classes = of.iter().map(|row| row.0).max().unwrap_or(0) + 1;
    let groups = of.iter().filter_map(|row| row.1);
    Samples {
        classes: (0..classes).map(|class| class.to_string()).collect(),
        class: of.iter().map(|row| row.0).collect(),
        groups: groups.map(|group| group.to_string()).collect(),
        ..Samples::default()
    }
}

/// Pickles that are cut short or make no sense.
pub const TORN_PICKLES: [&[u8]; 20] = [
    b"",
    b".",
    b"\x80",
    b"0.",
    b"t.",
    b"(0.",
    b"s.",
    b"h\x00.",
    b"R.",
    b"NNR.",
    b"NQ.",
    b"Nb.",
    b"Na.",
    b"]]Rq\x00.",
    b"X\xff\xff\xff\xffabc.",
    b"\x8b\xff\xff\xff\x7f.",
    b"ccollections\nOrderedDict\nNR.",
    b"(iposix\nsystem\n.",
    b"\x82\x01.",
    b"Pname\n.",
];
