// SPDX-License-Identifier: GPL-2.0-only
//! What is told of threads beside their runs and waits: who woke whom, and how each is held by the host. A recording
//! keeps it as `docs/monitor.md` describes.

use serde::{Deserialize, Serialize};
use steelyard_simulator::units::CpuSet;

use crate::column::Column;
use crate::events::{Context, UNIT_NS, after, between, units};

/// A thread of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Who {
    /// A vCPU, by the domain's index in the structure, and its own in that.
    Vcpu(u32, u32),
    /// Whoever is none, by number.
    Other(u32),
}

/// A thread became runnable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// Since the source began.
    pub time_ns: u64,
    /// Whose work woke it; none: an interrupt, or it is not told.
    pub waker: Option<Who>,
    /// It.
    pub woken: Who,
}

/// How a thread is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Which thread.
    pub who: Who,
    /// Linux' number for how urgent it is: 100 is niceness -20, what is below real-time.
    pub priority: Option<u32>,
    /// Its control group and those around that, the innermost first. None: it competes for itself.
    pub groups: Vec<Group>,
    /// Where it may run; none: anywhere, or it is not told.
    pub pcpus: Option<CpuSet>,
}

/// A control group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Unlike that of any other of the recording.
    pub id: u64,
    /// 256 being the usual one.
    pub weight: u32,
}

/// What was told of threads since the snapshot before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThreadEvents {
    /// In order of their times; of some sources only those by others' work.
    pub wakes: Vec<Wake>,
    /// Of threads of which that was not told before, or is another now.
    pub placements: Vec<Placement>,
}

impl ThreadEvents {
    /// About how much memory they take.
    pub(crate) fn bytes(&self) -> usize {
        let groups: usize = self.placements.iter().map(|it| it.groups.len()).sum();
        size_of_val::<[_]>(&self.wakes)
            + size_of_val::<[_]>(&self.placements)
            + groups * size_of::<Group>()
    }
}

/// A placement in a sample: number of the thread, priority, groups, pCPUs.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PlacementSample(u64, Option<u32>, Vec<Group>, Option<CpuSet>);

impl Context {
    /// Wakes as numbers, three each: time since the one before, who woke plus one, who was woken.
    pub fn pack_wakes(&mut self, wakes: &[Wake]) -> Column {
        let mut column = Column::default();
        for wake in wakes {
            let Some(woken) = self.who(wake.woken) else { continue };
            let waker = wake.waker.and_then(|waker| self.who(waker));
            let time = units(wake.time_ns);
            column.push(between(self.woken_until, time));
            column.push(waker.map_or(0, |waker| waker + 1));
            column.push(woken);
            self.woken_until = time;
        }
        column
    }

    /// The wakes that these numbers are; none if they are none.
    pub fn unpack_wakes(&mut self, column: &Column, most: usize) -> Option<Vec<Wake>> {
        let (mut wakes, mut numbers) = (vec![], column.numbers());
        while let Some(passed) = numbers.next() {
            if wakes.len() >= most {
                return None;
            }
            self.woken_until = after(self.woken_until, passed?);
            let waker = numbers.next()??.checked_sub(1);
            let waker = waker.map(|waker| self.thread(waker));
            let waker = if let Some(told) = waker { Some(told?) } else { None };
            let woken = self.thread(numbers.next()??)?;
            wakes.push(Wake { time_ns: self.woken_until.wrapping_mul(UNIT_NS), waker, woken });
        }
        Some(wakes)
    }

    /// Placements as a sample has them.
    pub fn pack_placements(&self, placements: &[Placement]) -> Vec<PlacementSample> {
        let packed = placements.iter().filter_map(|it| {
            let pcpus = it.pcpus.clone().filter(|pcpus| pcpus.iter().next().is_some());
            Some(PlacementSample(self.who(it.who)?, it.priority, it.groups.clone(), pcpus))
        });
        packed.collect()
    }

    /// Those of a sample; none if there is no such thread.
    pub fn unpack_placements(&self, samples: Vec<PlacementSample>) -> Option<Vec<Placement>> {
        let placement = |PlacementSample(who, priority, groups, pcpus)| {
            Some(Placement { who: self.thread(who)?, priority, groups, pcpus })
        };
        samples.into_iter().map(placement).collect()
    }

    /// vCPUs are counted through all domains, from their number on others have theirs.
    fn who(&self, who: Who) -> Option<u64> {
        match who {
            Who::Vcpu(domain, vcpu) => self.vcpu_number(domain, vcpu),
            Who::Other(thread) => Some(self.vcpus() + u64::from(thread)),
        }
    }

    fn thread(&self, number: u64) -> Option<Who> {
        match number.checked_sub(self.vcpus()) {
            Some(thread) => Some(Who::Other(u32::try_from(thread).ok()?)),
            None => {
                let (domain, vcpu) = self.vcpu_at(number);
                Some(Who::Vcpu(domain, vcpu))
            }
        }
    }
}
