// SPDX-License-Identifier: GPL-2.0-only
//! A run queue: waiting vCPUs in the order of the keys that the policy gave them, the lowest first,
//! equal keys first come, first served.
//!
//! A sorted ring buffer: an insertion moves the shorter side, which for the tens of vCPUs that wait
//! in a real queue is cheaper than any tree, and walking it in order is what policies ask for.

use std::collections::VecDeque;

#[derive(Default)]
pub(crate) struct RunQueue {
    waiting: VecDeque<(u64, u32)>,
}

impl RunQueue {
    pub fn insert(&mut self, key: u64, vcpu: u32) {
        // Most newcomers go last.
        match self.waiting.back() {
            Some(&(last, _)) if last > key => {
                let place = self.waiting.partition_point(|&(other, _)| other <= key);
                self.waiting.insert(place, (key, vcpu));
            }
            _ => self.waiting.push_back((key, vcpu)),
        }
    }

    /// The vCPU must be in the queue with this key.
    pub fn remove(&mut self, key: u64, vcpu: u32) {
        // Mostly it is the first.
        if self.first() == Some(vcpu) {
            self.waiting.pop_front();
            return;
        }
        let first = self.waiting.partition_point(|&(other, _)| other < key);
        let offset = self.waiting.range(first..).position(|&(_, other)| other == vcpu);
        debug_assert!(offset.is_some());
        if let Some(offset) = offset {
            self.waiting.remove(first + offset);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub fn first(&self) -> Option<u32> {
        self.waiting.front().map(|&(_, vcpu)| vcpu)
    }

    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.waiting.iter().map(|&(_, vcpu)| vcpu)
    }

    /// Gives every vCPU a new key and sorts; equal keys stay in the order in which they stand.
    pub fn resort(&mut self, mut key: impl FnMut(u32) -> u64) {
        for entry in &mut self.waiting {
            entry.0 = key(entry.1);
        }
        // Insertion sort: stable, without allocation, and linear on what is nearly sorted.
        let waiting = self.waiting.make_contiguous();
        for end in 1..waiting.len() {
            let mut place = end;
            while place > 0 && waiting[place - 1].0 > waiting[place].0 {
                waiting.swap(place - 1, place);
                place -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_are_first_come_first_served() {
        let mut queue = RunQueue::default();
        for (key, vcpu) in [(5, 0), (3, 1), (5, 2), (3, 3), (9, 4)] {
            queue.insert(key, vcpu);
        }
        assert_eq!(queue.iter().collect::<Vec<_>>(), [1, 3, 0, 2, 4]);
        queue.remove(5, 2);
        queue.remove(3, 1);
        assert_eq!(queue.iter().collect::<Vec<_>>(), [3, 0, 4]);
        queue.resort(|vcpu| if vcpu == 4 { 1 } else { 2 });
        assert_eq!(queue.iter().collect::<Vec<_>>(), [4, 3, 0]);
    }
}
