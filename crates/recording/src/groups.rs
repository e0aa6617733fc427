// SPDX-License-Identifier: GPL-2.0-only
//! From the control groups in which threads of a Linux host were to the weights of domains, which stand side by side.
//!
//! A group within a group, or a thread in one, has of its weight what falls to it beside the others there that are
//! runnable just then. That changes as they sleep and wake. One weight for all the time must keep two things: those side
//! by side stand to each other as their weights do, and together they have about what the group around them has. So each
//! has its weight out of the weights that are runnable there in the mean, as long as anybody is. Who sleeps much among
//! others of far less weight has too much that way beside whoever is outside.

use std::collections::{BTreeMap, BTreeSet};

use crate::Group;

/// A thread, and how it is held.
pub struct Member<'a> {
    /// The virtual machine that it is a vCPU of.
    pub domain: Option<usize>,
    /// The innermost first.
    pub groups: &'a [Group],
    /// Its own weight beside others of its group.
    pub weight: f64,
    /// Part of the time in which it ran or waited.
    pub activity: f64,
}

/// What a domain is given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Held {
    /// Weight, 256 being the usual one.
    pub weight: f64,
    /// Whether each of its threads has that for itself.
    pub ungrouped: bool,
}

/// Who never ran counts as if he had for this part of the time.
const LEAST_ACTIVITY: f64 = 1e-6;

/// The groups of a host.
pub struct Groups {
    nodes: BTreeMap<u64, Node>,
    /// What a weight of 1 beside all that is in no group counts as.
    unit: f64,
}

struct Node {
    weight: f64,
    /// Part of the time in which nobody in it was runnable, if they are independent of each other.
    idle: f64,
    children: BTreeSet<u64>,
    /// Weights of threads that are in it and in no group within, each by its activity.
    direct: f64,
    /// Virtual machines of which a vCPU is in it.
    domains: BTreeSet<usize>,
}

impl Groups {
    /// Of these threads.
    pub fn of<'a>(members: impl IntoIterator<Item = Member<'a>>) -> Groups {
        let mut groups = Groups { nodes: BTreeMap::new(), unit: 1.0 };
        for Member { domain, groups: chain, weight, activity } in members {
            let activity = counted(activity);
            for (depth, group) in chain.iter().enumerate() {
                let node = groups.nodes.entry(group.id).or_insert_with(|| Node {
                    weight: f64::from(group.weight.max(1)),
                    idle: 1.0,
                    children: BTreeSet::new(),
                    direct: 0.0,
                    domains: BTreeSet::new(),
                });
                node.idle *= 1.0 - activity;
                node.domains.extend(domain);
                match depth.checked_sub(1) {
                    None => node.direct += weight * activity,
                    Some(inner) => _ = node.children.insert(chain[inner].id),
                }
            }
        }
        groups
    }

    /// Whether vCPUs are in this group, or in one within it.
    pub fn has_vcpus(&self, group: &Group) -> bool {
        self.nodes.get(&group.id).is_some_and(|node| !node.domains.is_empty())
    }

    /// The weight of the innermost of these groups beside all that is in none.
    pub fn weight(&self, chain: &[Group]) -> Option<f64> {
        let mut outer: Option<(f64, &Group)> = None;
        for group in chain.iter().rev() {
            let own = f64::from(group.weight.max(1));
            let weight = outer
                .map_or(own * self.unit, |(weight, outer)| weight * own / self.runnable(outer));
            outer = Some((weight, group));
        }
        outer.map(|(weight, _)| weight)
    }

    /// The weight of a thread likewise.
    pub fn of_thread(&self, member: &Member<'_>) -> f64 {
        match (member.groups.first(), self.weight(member.groups)) {
            (Some(group), Some(of_group)) => of_group * member.weight / self.runnable(group),
            _ => member.weight * self.unit,
        }
    }

    /// What a weight of 1 beside all that is in no group counts as: 1, if nobody set another.
    pub fn unit(&self) -> f64 {
        self.unit
    }

    /// Counts all weights so that virtual machines have those that were set for them: `set` has of each what was set and
    /// what it has beside all that is in no group. Where they would need different units the middle one is taken.
    pub fn count_as_set(&mut self, set: impl IntoIterator<Item = (f64, f64)>) {
        let units = set.into_iter().map(|(set, held)| self.unit * set / held);
        let mut units: Vec<f64> = units.filter(|unit| unit.is_finite() && *unit > 0.0).collect();
        units.sort_by(f64::total_cmp);
        if let Some(&middle) = units.get(units.len().saturating_sub(1) / 2) {
            self.unit = middle;
        }
    }

    /// How a virtual machine is held whose vCPUs these are, and the groups around it, the innermost first.
    pub fn of_domain<'a>(&self, domain: usize, vcpus: &[Member<'a>]) -> (Held, &'a [Group]) {
        let flat = |around: &'a [Group]| {
            let sum: f64 = vcpus.iter().map(|vcpu| self.of_thread(vcpu)).sum();
            (Held { weight: sum / vcpus.len().max(1) as f64, ungrouped: true }, around)
        };
        let Some(common) = common(vcpus) else { return flat(&[]) };
        let alone = |node: &Node| node.domains.iter().all(|&other| other == domain);
        if !common.first().and_then(|group| self.nodes.get(&group.id)).is_some_and(alone) {
            return flat(common);
        }
        // Each may have a group of its own within that.
        let mut within = BTreeMap::new();
        let (mut own, mut greatest) = (0.0, 0.0_f64);
        for vcpu in vcpus {
            match vcpu.groups.len().checked_sub(common.len() + 1) {
                None => {
                    own += vcpu.weight * counted(vcpu.activity);
                    greatest = greatest.max(vcpu.weight);
                }
                Some(child) => _ = within.insert(vcpu.groups[child].id, vcpu.groups[child].weight),
            }
        }
        for (id, weight) in within {
            own += self.demand_of(id);
            greatest = greatest.max(weight.into());
        }
        let others = common.first().map_or(0.0, |group| self.demand(group) - own);
        let weight = self.weight(common).unwrap_or(greatest) * part(own.max(greatest), others);
        (Held { weight, ungrouped: false }, &common[1..])
    }

    /// The weights in this group that are runnable in the mean, as long as any is.
    pub fn runnable(&self, group: &Group) -> f64 {
        let idle = self.nodes.get(&group.id).map_or(0.0, |node| node.idle);
        (self.demand(group) / (1.0 - idle)).max(f64::MIN_POSITIVE)
    }

    /// The weights of all in this group, each by its activity.
    fn demand(&self, group: &Group) -> f64 {
        let Some(node) = self.nodes.get(&group.id) else { return 0.0 };
        node.direct + node.children.iter().map(|&child| self.demand_of(child)).sum::<f64>()
    }

    /// A group's part in that of the one around it.
    fn demand_of(&self, id: u64) -> f64 {
        self.nodes.get(&id).map_or(0.0, |node| node.weight * (1.0 - node.idle))
    }
}

fn counted(activity: f64) -> f64 {
    activity.clamp(LEAST_ACTIVITY, 1.0)
}

/// The part of this weight beside that of others.
fn part(own: f64, others: f64) -> f64 {
    own / (own + others.max(0.0)).max(f64::MIN_POSITIVE)
}

/// The groups that all are in, the innermost first; none if there is none.
fn common<'a>(members: &[Member<'a>]) -> Option<&'a [Group]> {
    let (first, others) = members.split_first()?;
    let mut common = first.groups;
    for other in others {
        let ids = |groups: &'a [Group]| groups.iter().rev().map(|group| group.id);
        let same = ids(common).zip(ids(other.groups)).take_while(|(one, other)| one == other);
        common = &common[common.len() - same.count()..];
    }
    (!common.is_empty()).then_some(common)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Group = Group { id: 1, weight: 512 };
    const B: Group = Group { id: 2, weight: 256 };
    const SLICE: Group = Group { id: 3, weight: 256 };

    fn member(domain: Option<usize>, groups: &[Group], activity: f64) -> Member<'_> {
        Member { domain, groups, weight: 256.0, activity }
    }

    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-9, "{value}, expected {expected}");
    }

    #[test]
    fn groups_side_by_side_have_their_weights() {
        let all = || [member(Some(0), &[A], 1.0), member(Some(0), &[A], 0.5)];
        let groups = Groups::of(all().into_iter().chain([member(None, &[B], 1.0)]));
        assert_eq!(
            groups.of_domain(0, &all()),
            (Held { weight: 512.0, ungrouped: false }, &[][..])
        );
        near(groups.weight(&[B]).unwrap(), 256.0);
        // Who is in none has its own.
        near(groups.of_thread(&member(None, &[], 1.0)), 256.0);
    }

    #[test]
    fn a_group_within_a_group_divides_what_that_has() {
        // 512 and 256 divide the slice's 256 if both never sleep; if the second is idle half the time it counts half,
        // and is still half of the first.
        let first = || [member(Some(0), &[A, SLICE], 1.0)];
        for (activity, weight) in [(1.0, 256.0 * 2.0 / 3.0), (0.5, 256.0 * 0.8), (0.0, 256.0)] {
            let second = || [member(Some(1), &[B, SLICE], activity)];
            let groups = Groups::of(first().into_iter().chain(second()));
            let weights = [groups.of_domain(0, &first()).0, groups.of_domain(1, &second()).0];
            assert!((weights[0].weight - weight).abs() < 1e-3, "{weights:?}");
            near(weights[0].weight, 2.0 * weights[1].weight);
        }
        // As long as either runs it is one of them, if both seldom do.
        let seldom = |domain| {
            [member(Some(domain), if domain == 0 { &[A, SLICE] } else { &[B, SLICE] }, 0.01)]
        };
        let groups = Groups::of(seldom(0).into_iter().chain(seldom(1)));
        // 512 x 0.01 + 256 x 0.01 within 1 - 0.99^2
        near(groups.of_domain(0, &seldom(0)).0.weight, 256.0 * 512.0 / (7.68 / 0.0199));
    }

    #[test]
    fn vcpus_with_groups_of_their_own_are_held_by_the_one_around_them() {
        // Beside them in the machine's group the emulator, which is runnable a tenth of the time.
        let (one, two) = (Group { id: 7, weight: 256 }, Group { id: 8, weight: 256 });
        let emulator = Group { id: 9, weight: 256 };
        let (chain_one, chain_two) = ([one, A], [two, A]);
        let vcpus = || [member(Some(0), &chain_one, 1.0), member(Some(0), &chain_two, 1.0)];
        let chain = [emulator, A];
        let groups = Groups::of(vcpus().into_iter().chain([member(None, &chain, 0.1)]));
        let (held, around) = groups.of_domain(0, &vcpus());
        assert!(!held.ungrouped && around.is_empty());
        near(held.weight, 512.0 * 2.0 / 2.1);
        // The emulator is as much as a vCPU.
        near(groups.weight(&chain).unwrap(), 512.0 / 2.1);
    }

    #[test]
    fn machines_have_what_was_set_if_that_is_the_unit() {
        // 512 and 256 divide the slice's 256, beside 256 in no group.
        let vcpu = |domain, groups: &'static [Group]| [member(Some(domain), groups, 1.0)];
        let (first, second) = (|| vcpu(0, &[A, SLICE]), || vcpu(1, &[B, SLICE]));
        let mut groups = Groups::of(first().into_iter().chain(second()));
        let held = |groups: &Groups| {
            [groups.of_domain(0, &first()).0.weight, groups.of_domain(1, &second()).0.weight]
        };
        let [one, other] = held(&groups);
        groups.count_as_set([(512.0, one), (256.0, other)]);
        let [one, other] = held(&groups);
        near(one, 512.0);
        near(other, 256.0);
        // The slice and who is in no group have three times as much, as before.
        near(groups.weight(&[SLICE]).unwrap(), 768.0);
        near(groups.of_thread(&member(None, &[], 1.0)), 768.0);
        groups.count_as_set([(512.0, 0.0)]);
        near(groups.unit(), 3.0);
    }

    #[test]
    fn machines_of_one_group_are_threads_of_it() {
        let vcpus = |domain| [member(Some(domain), &[A], 1.0), member(Some(domain), &[A], 1.0)];
        let groups = Groups::of(vcpus(0).into_iter().chain(vcpus(1)));
        let (held, around) = groups.of_domain(0, &vcpus(0));
        assert_eq!(around, [A]);
        assert!(held.ungrouped && groups.has_vcpus(&A) && !groups.has_vcpus(&B));
        near(held.weight, 512.0 / 4.0);
        // And in no group each has what it has.
        let flat = [member(Some(0), &[], 1.0)];
        let (held, around) = Groups::of([]).of_domain(0, &flat);
        assert!(around.is_empty());
        assert_eq!(held, Held { weight: 256.0, ungrouped: true });
    }
}
