//! The names of a study and its forks: `criteria`, `criteria@2`, `criteria@3`.

/// The study and its forks that are among `names`, the latest fork first and the study itself
/// last. `name` may be that of a fork: a name with an `@` whose first part is no study is a name
/// like any other.
pub fn lineage<'a>(name: &str, names: &[&'a str]) -> Vec<&'a str> {
    let root = root(name, names);
    let mut members: Vec<(u64, &str)> = names
        .iter()
        .filter_map(|n| Some((generation(n, root)?, *n)))
        .collect();
    members.sort_unstable_by_key(|m| std::cmp::Reverse(m.0));
    members.into_iter().map(|(_, name)| name).collect()
}

/// The name of the next fork.
pub fn next_fork(name: &str, names: &[&str]) -> String {
    let root = root(name, names);
    let generations = names.iter().filter_map(|n| generation(n, root));
    format!("{root}@{}", generations.max().unwrap_or(1) + 1)
}

fn root<'a>(name: &'a str, names: &[&str]) -> &'a str {
    match split(name) {
        Some((root, _)) if names.contains(&root) => root,
        Some(_) | None => name,
    }
}

/// 1 for the root itself, 2 for its first fork; `None` for a study of another lineage.
fn generation(name: &str, root: &str) -> Option<u64> {
    if name == root {
        return Some(1);
    }
    split(name).filter(|(r, _)| *r == root).map(|(_, k)| k)
}

/// `criteria@2` as `criteria` and 2.
fn split(name: &str) -> Option<(&str, u64)> {
    let (root, digits) = name.rsplit_once('@')?;
    let number: u64 = digits.parse().ok()?;
    // `x@02` and `x@+2` are names of somebody's own.
    (number >= 2 && number.to_string() == digits && !root.is_empty()).then_some((root, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forks_are_counted_by_their_numbers_and_gaps_stay() {
        let names = ["a@10", "a", "b@2", "a@3", "a@x", "a@1", "a@02", "ab@4"];
        assert_eq!(lineage("a", &names), ["a@10", "a@3", "a"]);
        assert_eq!(lineage("a@3", &names), ["a@10", "a@3", "a"]);
        assert_eq!(next_fork("a", &names), "a@11");
        assert_eq!(next_fork("a@3", &names), "a@11");
    }

    #[test]
    fn a_name_with_an_at_whose_first_part_is_no_study_is_a_name_like_any_other() {
        let names = ["exp@2024"];
        assert_eq!(lineage("exp@2024", &names), ["exp@2024"]);
        assert_eq!(next_fork("exp@2024", &names), "exp@2024@2");
        assert_eq!(next_fork("new", &names), "new@2");
    }
}
