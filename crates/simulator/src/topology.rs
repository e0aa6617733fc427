// SPDX-License-Identifier: GPL-2.0-only
//! pCPUs, the caches they share, and sets of them. pCPUs are numbered socket by socket, core by
//! core, so that what is near is a range.

use std::ops::Range;

use steelyard_policy::Scope;

use crate::config::Host;

/// The shape of the host.
#[derive(Clone, Debug)]
pub(crate) struct Topology {
    pub pcpus: u32,
    threads_per_core: u32,
    pcpus_per_socket: u32,
}

impl Topology {
    pub fn new(host: &Host) -> Self {
        Topology {
            pcpus: host.pcpus(),
            threads_per_core: host.threads_per_core,
            pcpus_per_socket: host.cores_per_socket * host.threads_per_core,
        }
    }

    pub fn core(&self, pcpu: u32) -> Range<u32> {
        let first = pcpu - pcpu % self.threads_per_core;
        first..first + self.threads_per_core
    }

    pub fn socket(&self, pcpu: u32) -> Range<u32> {
        let first = pcpu - pcpu % self.pcpus_per_socket;
        first..first + self.pcpus_per_socket
    }

    pub fn has_threads(&self) -> bool {
        self.threads_per_core > 1
    }

    pub fn same_core(&self, a: u32, b: u32) -> bool {
        a / self.threads_per_core == b / self.threads_per_core
    }

    pub fn same_socket(&self, a: u32, b: u32) -> bool {
        a / self.pcpus_per_socket == b / self.pcpus_per_socket
    }

    /// Which pCPUs share a run queue: consecutive ones, at most `maximum` each.
    pub fn queues(&self, scope: Scope, maximum: u64) -> Vec<Range<u32>> {
        let size = match scope {
            Scope::Pcpu => 1,
            Scope::Core => self.threads_per_core,
            Scope::Socket => self.pcpus_per_socket,
            Scope::All => self.pcpus,
        };
        let part = maximum.clamp(1, u64::from(size)) as usize;
        (0..self.pcpus)
            .step_by(size as usize)
            .flat_map(|first| {
                let end = (first + size).min(self.pcpus);
                (first..end).step_by(part).map(move |from| from..(from + part as u32).min(end))
            })
            .collect()
    }
}

/// A set of pCPUs, or of queues, as bits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Mask(Box<[u64]>);

impl Mask {
    pub fn empty(size: u32) -> Self {
        Mask(vec![0; size.div_ceil(64) as usize].into())
    }

    pub fn of(size: u32, members: impl IntoIterator<Item = u32>) -> Self {
        let mut mask = Mask::empty(size);
        for member in members {
            mask.insert(member);
        }
        mask
    }

    #[inline]
    pub fn insert(&mut self, member: u32) {
        self.0[member as usize / 64] |= 1 << (member % 64);
    }

    #[inline]
    pub fn remove(&mut self, member: u32) {
        self.0[member as usize / 64] &= !(1 << (member % 64));
    }

    #[inline]
    pub fn contains(&self, member: u32) -> bool {
        self.0[member as usize / 64] >> (member % 64) & 1 != 0
    }

    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    /// The first member of both sets at or after `from` and before `end`.
    #[inline]
    pub fn first_common(&self, other: &Mask, range: Range<u32>) -> Option<u32> {
        let mut from = range.start;
        while from < range.end {
            let word = from as usize / 64;
            let bits = (self.0[word] & other.0[word]) >> (from % 64);
            if bits != 0 {
                let found = from + bits.trailing_zeros();
                return (found < range.end).then_some(found);
            }
            from = (word as u32 + 1) * 64;
        }
        None
    }

    /// The first member at or after `from` and before `end`.
    #[inline]
    pub fn first(&self, range: Range<u32>) -> Option<u32> {
        self.first_common(self, range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_cover_every_pcpu_once() {
        let host =
            Host { sockets: 2, cores_per_socket: 10, threads_per_core: 2, ..Host::default() };
        let topology = Topology::new(&host);
        for scope in [Scope::Pcpu, Scope::Core, Scope::Socket, Scope::All] {
            for maximum in [1, 3, 16, 1000] {
                let queues = topology.queues(scope, maximum);
                let all: Vec<_> = queues.iter().cloned().flatten().collect();
                assert_eq!(all, (0..40).collect::<Vec<_>>());
                assert!(queues.iter().all(|queue| queue.len() as u64 <= maximum));
            }
        }
        assert_eq!(topology.queues(Scope::Socket, 16), [0..16, 16..20, 20..36, 36..40]);
        assert_eq!(topology.core(5), 4..6);
        assert_eq!(topology.socket(25), 20..40);
    }

    #[test]
    fn masks_find_what_is_common() {
        let a = Mask::of(200, [3, 64, 130, 199]);
        let b = Mask::of(200, [4, 130, 199]);
        assert_eq!(a.first_common(&b, 0..200), Some(130));
        assert_eq!(a.first_common(&b, 131..200), Some(199));
        assert_eq!(a.first_common(&b, 131..199), None);
        assert_eq!(a.first(4..200), Some(64));
        assert!(Mask::empty(10).is_empty() && !a.is_empty());
    }
}
