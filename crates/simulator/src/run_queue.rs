// SPDX-License-Identifier: GPL-2.0-only
//! A run queue: waiting vCPUs, or threads in a guest, in the order of the keys that the policy gave them, the lowest first,
//! equal keys first come, first served.
//!
//! A sorted slice with room on both sides: an insertion moves the shorter side, which for the tens
//! of vCPUs that wait in a real queue is cheaper than any tree, and walking it in order is what
//! policies ask for.

/// A place in a queue: `struct waiting` of `host.c`, if of a vCPU.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Waiting<T> {
    pub key: u64,
    pub who: T,
}

pub(crate) struct RunQueue<T> {
    /// The waiting ones from `first` on; what is before them is room.
    entries: Vec<Waiting<T>>,
    first: usize,
}

impl<T> Default for RunQueue<T> {
    fn default() -> Self {
        RunQueue { entries: vec![], first: 0 }
    }
}

impl<T: Copy + PartialEq> RunQueue<T> {
    #[inline]
    pub fn waiting(&self) -> &[Waiting<T>] {
        &self.entries[self.first..]
    }

    pub fn insert(&mut self, key: u64, who: T) {
        let length = self.entries.len();
        if length == self.entries.capacity() && self.first >= length / 2 {
            // Rather than growing for ever.
            self.entries.drain(..self.first);
            self.first = 0;
        }
        // Most newcomers go last.
        let waiting = self.waiting();
        match waiting.last() {
            Some(last) if last.key > key => {
                let place = waiting.partition_point(|other| other.key <= key);
                if self.first > 0 && place <= waiting.len() / 2 {
                    let before = self.first..self.first + place;
                    self.first -= 1;
                    self.entries.copy_within(before, self.first);
                    self.entries[self.first + place] = Waiting { key, who };
                } else {
                    self.entries.insert(self.first + place, Waiting { key, who });
                }
            }
            _ => self.entries.push(Waiting { key, who }),
        }
    }

    /// It must be in the queue with this key.
    #[inline(always)]
    pub fn remove(&mut self, key: u64, who: T) {
        // Mostly it is the first.
        if self.first() == Some(who) {
            self.first += 1;
            if self.first == self.entries.len() {
                self.entries.clear();
                self.first = 0;
            }
            return;
        }
        let waiting = self.waiting();
        let place = waiting.partition_point(|other| other.key < key);
        let offset = waiting[place..].iter().position(|other| other.who == who);
        debug_assert!(offset.is_some());
        if let Some(offset) = offset {
            self.entries.remove(self.first + place + offset);
        }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    #[inline]
    pub fn first(&self) -> Option<T> {
        self.waiting().first().map(|first| first.who)
    }

    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        self.waiting().iter().map(|waiting| waiting.who)
    }

    /// Gives each a new key and sorts; equal keys stay in the order in which they stand.
    pub fn resort(&mut self, mut key: impl FnMut(T) -> u64) {
        let waiting = &mut self.entries[self.first..];
        for entry in &mut *waiting {
            entry.key = key(entry.who);
        }
        // Insertion sort: stable, without allocation, and linear on what is nearly sorted.
        for end in 1..waiting.len() {
            let mut place = end;
            while place > 0 && waiting[place - 1].key > waiting[place].key {
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
