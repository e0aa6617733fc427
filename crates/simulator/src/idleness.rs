// SPDX-License-Identifier: GPL-2.0-only
//! For how long some pCPU of a set was idle, for each set of pCPUs that vCPUs may use: what that grew
//! by during a wait is the part of the wait spent beside an idle pCPU. Constant work per change where
//! few sets overlap, and none per vCPU.

use crate::numbers::{Number, OfPcpu, PcpuNumber, Table};
use crate::topology::Mask;

pub(crate) struct Idleness {
    sets: Vec<Set>,
    /// The sets that each pCPU is in.
    of_pcpu: Table<OfPcpu, Vec<u32>>,
}

struct Set {
    /// How many of its pCPUs are idle.
    idle: u32,
    /// Since when some are.
    since_ns: u64,
    /// How long some were, up to then.
    total_ns: u64,
}

impl Idleness {
    /// All pCPUs are idle at time 0.
    pub fn new(sets: &[Mask], pcpus: u32) -> Self {
        let numbers = || (0..pcpus).map(Number::new);
        let of = |pcpu| (0..).zip(sets).filter(move |(_, set)| set.contains(pcpu)).map(|(n, _)| n);
        let size = |set: &Mask| numbers().filter(|&pcpu| set.contains(pcpu)).count() as u32;
        Idleness {
            sets: sets
                .iter()
                .map(|set| Set { idle: size(set), since_ns: 0, total_ns: 0 })
                .collect(),
            of_pcpu: numbers().map(|pcpu| of(pcpu).collect()).collect(),
        }
    }

    /// A pCPU that was busy is idle from now on.
    #[inline]
    pub fn begin(&mut self, pcpu: PcpuNumber, now_ns: u64) {
        for &set in &self.of_pcpu[pcpu] {
            let set = &mut self.sets[set as usize];
            if set.idle == 0 {
                set.since_ns = now_ns;
            }
            set.idle += 1;
        }
    }

    /// A pCPU that was idle is busy from now on.
    #[inline]
    pub fn end(&mut self, pcpu: PcpuNumber, now_ns: u64) {
        for &set in &self.of_pcpu[pcpu] {
            let set = &mut self.sets[set as usize];
            set.idle -= 1;
            if set.idle == 0 {
                set.total_ns += now_ns - set.since_ns;
            }
        }
    }

    /// How long some pCPU of the set was idle, up to now.
    #[inline]
    pub fn of(&self, set: u32, now_ns: u64) -> u64 {
        let set = &self.sets[set as usize];
        set.total_ns + if set.idle > 0 { now_ns - set.since_ns } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// pCPU 0 is busy in 10..40, pCPU 1 in 20..50: both are in 20..40, pCPU 1 alone counts 30 ns.
    #[test]
    fn a_set_is_idle_while_one_of_it_is() {
        const PCPUS: [PcpuNumber; 2] = [Number::new(0), Number::new(1)];
        let mut idleness = Idleness::new(&[Mask::of(2, PCPUS), Mask::of(2, [PCPUS[1]])], 2);
        idleness.end(PCPUS[0], 10);
        idleness.end(PCPUS[1], 20);
        assert_eq!((idleness.of(0, 30), idleness.of(1, 30)), (20, 20));
        idleness.begin(PCPUS[0], 40);
        idleness.begin(PCPUS[1], 50);
        assert_eq!((idleness.of(0, 60), idleness.of(1, 60)), (40, 30));
    }
}
