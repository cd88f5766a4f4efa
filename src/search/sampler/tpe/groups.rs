//! Which parameters are fitted together.

use crate::space::{Condition, Parameter, Space};

/// Parameters that are active together: those with the same conditions. Indices ascend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ParameterGroup {
    pub members: Vec<usize>,
}

/// The groups of a space, parents before children. Not `multivariate`: each parameter by itself.
///
/// Parents stand before their children in a space, so that all parents of a group stand before its
/// first member, and the groups they belong to begin even earlier.
pub(super) fn groups(space: &Space, multivariate: bool) -> Vec<ParameterGroup> {
    let mut groups: Vec<ParameterGroup> = Vec::new();
    for (index, parameter) in space.parameters.iter().enumerate() {
        let together = groups
            .iter_mut()
            .find(|g| multivariate && same_activity(&space.parameters[g.members[0]], parameter));
        match together {
            Some(group) => group.members.push(index),
            None => groups.push(ParameterGroup {
                members: vec![index],
            }),
        }
    }
    groups
}

fn same_activity(a: &Parameter, b: &Parameter) -> bool {
    let within = |a: &[Condition], b: &[Condition]| a.iter().all(|c| b.iter().any(|d| same(c, d)));
    within(&a.when, &b.when) && within(&b.when, &a.when)
}

/// Equal up to the order of the values.
fn same(a: &Condition, b: &Condition) -> bool {
    a.parent == b.parent
        && a.values.iter().all(|v| b.values.contains(v))
        && b.values.iter().all(|v| a.values.contains(v))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::testing;

    #[test]
    fn parameters_with_the_same_conditions_form_a_group() {
        let mut space = testing::conditional_space();
        let names = |groups: Vec<ParameterGroup>, space: &Space| -> Vec<Vec<String>> {
            let name = |&i: &usize| space.parameters[i].name.clone();
            let group = |g: &ParameterGroup| g.members.iter().map(name).collect();
            groups.iter().map(group).collect()
        };
        let found = names(groups(&space, true), &space);
        assert_eq!(
            found,
            [
                vec!["model", "length", "lr"],
                vec!["depth", "booster"],
                vec!["rate", "drop"],
            ]
        );
        for p in &mut space.parameters {
            for c in &mut p.when {
                c.values.reverse();
            }
        }
        assert_eq!(names(groups(&space, true), &space), found);
        assert_eq!(groups(&space, false).len(), space.parameters.len());
    }
}
