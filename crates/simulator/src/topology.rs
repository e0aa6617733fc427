// SPDX-License-Identifier: GPL-2.0-only
//! pCPUs, the caches they share, and sets of them. pCPUs are numbered socket by socket, core by
//! core, so that what is near is a range.

use std::ops::Range;

use steelyard_policy::Scope;

use crate::config::Host;
use crate::numbers::{Number, PcpuNumber};

/// The shape of the host.
#[derive(Clone, Debug)]
pub(crate) struct Topology {
    pub pcpus: u32,
    pub threads_per_core: u32,
    pub pcpus_per_socket: u32,
}

impl Topology {
    pub fn new(host: &Host) -> Self {
        Topology {
            pcpus: host.pcpus(),
            threads_per_core: host.threads_per_core,
            pcpus_per_socket: host.cores_per_socket * host.threads_per_core,
        }
    }

    pub fn same_core(&self, a: PcpuNumber, b: PcpuNumber) -> bool {
        a.0 / self.threads_per_core == b.0 / self.threads_per_core
    }

    pub fn same_socket(&self, a: PcpuNumber, b: PcpuNumber) -> bool {
        a.0 / self.pcpus_per_socket == b.0 / self.pcpus_per_socket
    }

    /// Which pCPUs share a run queue: consecutive ones, at most `maximum` each.
    pub fn queues(&self, scope: Scope, maximum: u64) -> Vec<Range<PcpuNumber>> {
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
                (first..end)
                    .step_by(part)
                    .map(move |from| Number::new(from)..Number::new((from + part as u32).min(end)))
            })
            .collect()
    }
}

/// A set of pCPUs, as bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mask(Box<[u64]>);

impl Mask {
    pub fn of(size: u32, members: impl IntoIterator<Item = PcpuNumber>) -> Self {
        let mut mask = Mask(vec![0; size.div_ceil(64) as usize].into());
        for member in members {
            mask.insert(member);
        }
        mask
    }

    #[inline]
    pub fn insert(&mut self, member: PcpuNumber) {
        self.0[member.0 as usize / 64] |= 1 << (member.0 % 64);
    }

    #[inline]
    pub fn remove(&mut self, member: PcpuNumber) {
        self.0[member.0 as usize / 64] &= !(1 << (member.0 % 64));
    }

    #[inline]
    pub fn contains(&self, member: PcpuNumber) -> bool {
        self.0[member.0 as usize / 64] >> (member.0 % 64) & 1 != 0
    }

    /// What is in both, unless that is nothing.
    pub fn common(&self, other: &Mask) -> Option<Mask> {
        let words: Box<[u64]> = self.0.iter().zip(&other.0).map(|(a, b)| a & b).collect();
        words.iter().any(|&word| word != 0).then_some(Mask(words))
    }

    /// Its bits, 64 to a word.
    pub fn words(&self) -> &[u64] {
        &self.0
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
                let all: Vec<_> =
                    queues.iter().cloned().flat_map(Number::range).map(|n| n.0).collect();
                assert_eq!(all, (0..40).collect::<Vec<_>>());
                let sizes = queues.iter().map(|queue| queue.end.0 - queue.start.0);
                assert!(sizes.map(u64::from).all(|size| size <= maximum));
            }
        }
        let bounds = [0..16, 16..20, 20..36, 36..40];
        let bounds = bounds.map(|queue| Number::new(queue.start)..Number::new(queue.end));
        assert_eq!(topology.queues(Scope::Socket, 16), bounds);
    }
}
