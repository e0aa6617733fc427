// SPDX-License-Identifier: GPL-2.0-only
//! pCPUs, what they share, and sets of them. pCPUs are numbered socket by socket, within it node by
//! node, cache by cache, core by core, so that what is near is a range.

use crate::config::Host;
use crate::numbers::PcpuNumber;

/// How near pCPUs are to each other: `enum engine_level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Level {
    Core,
    Cache,
    Node,
    Socket,
}

pub(crate) const LEVELS: usize = 4;

/// The shape of the host.
#[derive(Clone, Debug)]
pub(crate) struct Topology {
    pub pcpus: u32,
    /// pCPUs of a group of each level.
    pub level_pcpus: [u32; LEVELS],
}

impl Topology {
    pub fn new(host: &Host) -> Self {
        let socket = host.cores_per_socket * host.threads_per_core;
        let node = socket / host.nodes_per_socket;
        let cache = node / host.caches_per_node;
        Topology { pcpus: host.pcpus(), level_pcpus: [host.threads_per_core, cache, node, socket] }
    }

    /// The first level of which one group holds both; none if they are of two sockets.
    pub fn distance(&self, a: PcpuNumber, b: PcpuNumber) -> Option<Level> {
        [Level::Core, Level::Cache, Level::Node, Level::Socket]
            .into_iter()
            .find(|&level| a.0 / self.pcpus_of(level) == b.0 / self.pcpus_of(level))
    }

    fn pcpus_of(&self, level: Level) -> u32 {
        self.level_pcpus[level as usize]
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
    use crate::numbers::Number;

    #[test]
    fn distance_is_the_first_level_that_holds_both() {
        let host = Host { sockets: 2, cores_per_socket: 8, threads_per_core: 2, ..Host::default() };
        let topology = Topology::new(&Host { nodes_per_socket: 2, caches_per_node: 2, ..host });
        let distance = |a, b| topology.distance(Number::new(a), Number::new(b));
        let expected = [(5, 4), (6, 7), (0, 3), (8, 15), (31, 16)].map(|(a, b)| distance(a, b));
        let levels = [Level::Core, Level::Core, Level::Cache, Level::Node, Level::Socket];
        assert_eq!(expected, levels.map(Some));
        assert_eq!(distance(2, 5), Some(Level::Node));
        assert_eq!(distance(15, 16), None);
    }
}
