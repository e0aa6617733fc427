// SPDX-License-Identifier: GPL-2.0-only
//! Whose the threads are that are no vCPUs: those of the usual niceness in the group that is one virtual machine's own,
//! or else in that of its vCPUs alone, are its I/O and emulator threads.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use steelyard_simulator::priority::NICE_USUAL;

use crate::{Domain, Group};

/// Virtual machines by their groups.
#[derive(Default)]
pub struct Owners(HashMap<u64, Option<usize>>);

impl Owners {
    /// A vCPU of this domain, which the caller knows by a number, is held so.
    pub fn add(&mut self, number: usize, domain: &Domain, groups: &[Group]) {
        let Some(group) = domain.own_group(groups).or(groups.first()) else { return };
        match self.0.entry(group.id) {
            Entry::Vacant(new) => drop(new.insert(Some(number))),
            Entry::Occupied(mut known) if *known.get() != Some(number) => drop(known.insert(None)),
            Entry::Occupied(_) => {}
        }
    }

    /// The number of the domain that a thread belongs to which is no vCPU, held so and as urgent as this.
    #[must_use]
    pub fn of(&self, priority: Option<u32>, groups: &[Group]) -> Option<usize> {
        if priority.is_some_and(|priority| priority != NICE_USUAL) {
            return None;
        }
        groups.iter().find_map(|group| self.0.get(&group.id)).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(ids: &[u64]) -> Vec<Group> {
        ids.iter().map(|&id| Group { id, weight: 256 }).collect()
    }

    fn domain(groups_around: Option<u32>) -> Domain {
        let (name, vcpus) = ("web".to_owned(), vec![]);
        Domain { id: 1, name, weight: 256, ungrouped: false, groups_around, cap_percent: 0, vcpus }
    }

    #[test]
    fn threads_beside_vcpus_are_the_machines() {
        let mut owners = Owners::default();
        // libvirt: vcpu0 in the scope in machine.slice, and its emulator in another group of the scope.
        owners.add(7, &domain(Some(1)), &groups(&[3, 2, 1]));
        assert_eq!(owners.of(None, &groups(&[4, 2, 1])), Some(7));
        assert_eq!(owners.of(Some(NICE_USUAL), &groups(&[2, 1])), Some(7));
        // Of another machine, of none, of another niceness.
        assert_eq!(owners.of(None, &groups(&[6, 5, 1])), None);
        assert_eq!(owners.of(None, &[]), None);
        assert_eq!(owners.of(Some(NICE_USUAL - 5), &groups(&[4, 2, 1])), None);
    }

    #[test]
    fn a_group_of_two_machines_is_of_neither() {
        let mut owners = Owners::default();
        owners.add(0, &domain(None), &groups(&[1]));
        owners.add(0, &domain(None), &groups(&[1]));
        assert_eq!(owners.of(None, &groups(&[1])), Some(0));
        owners.add(1, &domain(None), &groups(&[1]));
        owners.add(0, &domain(None), &groups(&[1]));
        assert_eq!(owners.of(None, &groups(&[1])), None);
    }
}
