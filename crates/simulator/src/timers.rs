// SPDX-License-Identifier: GPL-2.0-only
//! The queue of events: a hierarchical timing wheel that is exact to the nanosecond.
//!
//! Each timer is a small index. Cancelling is O(1), setting too but for the few timers of the same
//! moment; a timer on its way to expiry moves down at most once per level. Level `n` has 64 slots of
//! 2^16 x 64^n ns; a timer stands on the level of the highest six-bit digit in which its time
//! differs from now, so that the slots of a level never wrap. The slots of the lowest level are
//! sorted. Timers of the same time fire in the order in which they were set: they always share a
//! slot, and moving a slot down keeps its order. A timer may be set as of a later time: it stands
//! where it would if it were set then.

/// The lowest level tells apart times that differ above these bits; most timers are further away
/// than that, and few share such a moment.
const MOMENT_BITS: u32 = 16;
const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
const LEVELS: usize = (u64::BITS - MOMENT_BITS).div_ceil(BITS) as usize;
/// Nodes before this one are slots: the ends of a ring of the timers that stand there.
const FIRST_TIMER: u32 = (SLOTS * LEVELS) as u32;
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Node {
    /// 0 for a slot: it sorts before every timer.
    time_ns: u64,
    /// When it was set: the order of those of the same time.
    set_ns: u64,
    /// NONE while the timer is not set.
    next: u32,
    previous: u32,
}

impl Node {
    /// Who fires first.
    fn due(&self) -> (u64, u64) {
        (self.time_ns, self.set_ns)
    }
}

/// A timer that fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fired {
    pub timer: u32,
    pub time_ns: u64,
    /// When it was set.
    pub set_ns: u64,
}

/// What a timer takes.
pub(crate) const TIMER_BYTES: usize = size_of::<Node>();

/// All timers of a simulation.
pub(crate) struct Timers {
    now_ns: u64,
    /// Slots of the lowest level, of the next, ..., then timers.
    nodes: Vec<Node>,
    /// One bit per slot that holds a timer.
    occupied: [u64; LEVELS],
    /// One bit per level that has such a slot.
    levels: u32,
}

impl Timers {
    /// So many timers, none set, at time 0.
    pub fn new(count: usize) -> Self {
        let slot = |slot| Node { time_ns: 0, set_ns: 0, next: slot, previous: slot };
        let nodes = (0..FIRST_TIMER).map(slot).collect();
        let mut timers = Timers { now_ns: 0, nodes, occupied: [0; LEVELS], levels: 0 };
        timers.grow(count);
        timers
    }

    /// Adds timers; the index of the first new one.
    pub fn grow(&mut self, count: usize) -> u32 {
        let first = self.nodes.len();
        self.nodes.resize(first + count, Node { next: NONE, previous: NONE, ..self.nodes[0] });
        first as u32 - FIRST_TIMER
    }

    /// Lets the timer fire at this time, not before now, instead of when it was set for.
    #[inline(always)]
    pub fn set(&mut self, timer: u32, time_ns: u64) {
        self.set_as_of(timer, time_ns, self.now_ns);
    }

    /// The same as if it was done at `set_ns`, not before now: timers of the same time that are set before then fire
    /// before it.
    #[inline(always)]
    pub fn set_as_of(&mut self, timer: u32, time_ns: u64, set_ns: u64) {
        let time_ns = time_ns.max(self.now_ns);
        let node = FIRST_TIMER + timer;
        let Node { time_ns: due_ns, set_ns: was_set_ns, next, previous } =
            self.nodes[node as usize];
        if next != NONE {
            if due_ns == time_ns && was_set_ns.max(self.now_ns) == set_ns {
                return;
            }
            self.unlink(next, previous);
        }
        self.link(node, time_ns, set_ns);
    }

    /// Whether the timer is set.
    #[inline]
    pub fn is_set(&self, timer: u32) -> bool {
        self.nodes[(FIRST_TIMER + timer) as usize].next != NONE
    }

    /// Lets it not fire.
    #[inline]
    pub fn cancel(&mut self, timer: u32) {
        let node = &mut self.nodes[(FIRST_TIMER + timer) as usize];
        let Node { next, previous, .. } = *node;
        if next != NONE {
            node.next = NONE;
            self.unlink(next, previous);
        }
    }

    /// Takes the next timer that is due by `limit_ns`; time advances to it, or to the limit.
    #[inline]
    pub fn pop(&mut self, limit_ns: u64) -> Option<Fired> {
        loop {
            // As in link(): most that fire are near.
            let level = match self.occupied[0] {
                0 if self.levels == 0 => {
                    self.now_ns = limit_ns;
                    return None;
                }
                0 => self.levels.trailing_zeros() as usize,
                _ => 0,
            };
            let index = self.occupied[level].trailing_zeros() as usize;
            let slot = level * SLOTS + index;
            let Node { next: first, previous: last, .. } = self.nodes[slot];
            if level == 0 || first == last {
                // On the lowest level the slot is sorted; elsewhere one timer needs no sorting.
                let node = &mut self.nodes[first as usize];
                let Node { time_ns, set_ns, next, .. } = *node;
                if time_ns <= limit_ns {
                    node.next = NONE;
                    self.now_ns = time_ns;
                    self.unlink(next, slot as u32);
                    return Some(Fired { timer: first - FIRST_TIMER, time_ns, set_ns });
                }
                if level == 0 {
                    self.now_ns = limit_ns;
                    return None;
                }
            }
            // Time enters this slot: its timers move to the levels below.
            let shift = MOMENT_BITS + BITS * level as u32;
            let above = if shift + BITS < u64::BITS { u64::MAX << (shift + BITS) } else { 0 };
            let start_ns = (self.now_ns & above) | (index as u64) << shift;
            if start_ns > limit_ns {
                self.now_ns = limit_ns;
                return None;
            }
            self.now_ns = start_ns;
            self.unlink(slot as u32, slot as u32);
            let mut node = first;
            while node != slot as u32 {
                let Node { time_ns, set_ns, next, .. } = self.nodes[node as usize];
                self.link(node, time_ns, set_ns);
                node = next;
            }
        }
    }

    #[inline]
    fn link(&mut self, node: u32, time_ns: u64, set_ns: u64) {
        let differs = (time_ns ^ self.now_ns) >> MOMENT_BITS;
        // Most are near: what follows begins sooner if no logarithm is waited for.
        let level = if differs < SLOTS as u64 { 0 } else { differs.ilog2() / BITS };
        let index = (time_ns >> (MOMENT_BITS + BITS * level)) as usize & (SLOTS - 1);
        let slot = level as usize * SLOTS + index;
        self.occupied[level as usize] |= 1 << index;
        self.levels |= 1 << level;
        let mut previous = self.nodes[slot].previous;
        if level == 0 {
            // A slot stands before every timer.
            while self.nodes[previous as usize].due() > (time_ns, set_ns) {
                previous = self.nodes[previous as usize].previous;
            }
        }
        let next = std::mem::replace(&mut self.nodes[previous as usize].next, node);
        self.nodes[next as usize].previous = node;
        self.nodes[node as usize] = Node { time_ns, set_ns, next, previous };
    }

    /// Takes away what stands between two nodes of a slot.
    #[inline]
    fn unlink(&mut self, next: u32, previous: u32) {
        self.nodes[previous as usize].next = next;
        self.nodes[next as usize].previous = previous;
        if next == previous {
            // Only the slot itself is left.
            let (level, index) = (next as usize / SLOTS, next as usize % SLOTS);
            self.occupied[level] &= !(1 << index);
            if self.occupied[level] == 0 {
                self.levels &= !(1 << level);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Operation {
        /// Timer, how far away, as of how much later at most.
        Set(u32, u64, u64),
        Cancel(u32),
        Pop(u64),
    }

    fn operation() -> impl Strategy<Value = Operation> {
        let distance = prop_oneof![0..3u64, 0..100u64, 0..100_000u64, 0..u64::MAX / 4];
        prop_oneof![
            4 => (0..20u32, distance.clone(), 0..3u64)
                .prop_map(|(timer, ns, later_ns)| Operation::Set(timer, ns, later_ns)),
            1 => (0..20u32).prop_map(Operation::Cancel),
            4 => distance.prop_map(Operation::Pop),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// Against a plain ordered map of (time, order of setting).
        #[test]
        fn fires_in_order_of_time_then_of_setting(operations in prop::collection::vec(operation(), 1..200)) {
            let mut timers = Timers::new(20);
            let mut reference = BTreeMap::<(u64, u64, usize), u32>::new();
            let mut now = 0u64;
            for (order, operation) in operations.into_iter().enumerate() {
                match operation {
                    Operation::Set(timer, ns, later_ns) => {
                        let time = now.saturating_add(ns);
                        let set = time.min(now.saturating_add(later_ns));
                        let same = reference.iter().any(|(key, &other)| {
                            other == timer && key.0 == time && key.1.max(now) == set
                        });
                        timers.set_as_of(timer, time, set);
                        if !same {
                            reference.retain(|_, other| *other != timer);
                            reference.insert((time, set, order), timer);
                        }
                    }
                    Operation::Cancel(timer) => {
                        timers.cancel(timer);
                        reference.retain(|_, other| *other != timer);
                        prop_assert!(!timers.is_set(timer));
                    }
                    Operation::Pop(ns) => {
                        let limit = now.saturating_add(ns);
                        let expected = reference.first_key_value().filter(|(key, _)| key.0 <= limit);
                        let expected = expected.map(|(&key, &timer)| (key, timer));
                        let popped = timers.pop(limit);
                        prop_assert_eq!(
                            popped.map(|fired| (fired.timer, fired.time_ns)),
                            expected.map(|(key, timer)| (timer, key.0))
                        );
                        now = expected.map_or(limit, |(key, _)| key.0);
                        if let Some((key, _)) = expected {
                            reference.remove(&key);
                        }
                    }
                }
            }
        }
    }
}
