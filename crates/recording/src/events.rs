// SPDX-License-Identifier: GPL-2.0-only
//! Single runs and waits as a recording keeps them (described in `docs/monitor.md`): numbers, most of
//! them small, because a run as a rule begins where the wait before it ended, and where it was before.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use steelyard_simulator::measure::Segment;

use crate::snapshot::{OtherRun, Structure};

/// What a segment is.
const WAITED: u64 = 0;
const RAN: u64 = 1;
/// On the pCPU that follows, other than where it ran last.
const RAN_ELSEWHERE: u64 = 2;
const KINDS: u64 = 3;

/// Segments, a column for each kind of number: they compress better among their like.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Packed {
    /// vCPU times [`KINDS`], plus what it is.
    codes: Vec<u64>,
    /// End, since the end of the segment before.
    ends: Vec<u64>,
    /// 0: it begins where the vCPU's last one ended; else its length plus 1.
    lengths: Vec<u64>,
    /// Of each that ran elsewhere.
    pcpus: Vec<u32>,
}

impl Packed {
    pub fn is_empty(&self) -> bool {
        self.codes.is_empty()
    }
}

/// What the numbers of a member refer to, for who writes and who reads them.
pub(crate) struct Context {
    structure: Arc<Structure>,
    pcpus: u32,
    /// Number of the first vCPU of each domain.
    first: Vec<u64>,
    /// Of each vCPU: end of its last segment, pCPU of its last run.
    vcpus: Vec<(u64, Option<u32>)>,
    /// End of the last segment, and of the last run of somebody else.
    segment_ns: u64,
    other_ns: u64,
    names: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u64>,
}

impl Context {
    pub fn new(structure: Arc<Structure>) -> Context {
        let mut vcpus = vec![];
        let mut first = vec![];
        for domain in &structure.domains {
            first.push(vcpus.len() as u64);
            vcpus.resize(vcpus.len() + domain.vcpus.len(), (0, None));
        }
        Context {
            pcpus: structure.host.pcpus,
            structure,
            first,
            vcpus,
            segment_ns: 0,
            other_ns: 0,
            names: vec![],
            numbers: HashMap::new(),
        }
    }

    pub fn structure(&self) -> &Arc<Structure> {
        &self.structure
    }

    /// Segments of vCPUs and pCPUs that are there as numbers.
    pub fn pack(&mut self, segments: &[Segment]) -> Packed {
        let mut packed = Packed::default();
        for segment in segments {
            let Some(first) = self.first.get(segment.domain as usize) else { continue };
            if segment.pcpu.is_some_and(|pcpu| pcpu >= self.pcpus) {
                continue;
            }
            let index = first + u64::from(segment.vcpu);
            let Some((last_ns, last_pcpu)) = self.vcpus.get_mut(index as usize) else { continue };
            let kind = match segment.pcpu {
                None => WAITED,
                pcpu if pcpu == *last_pcpu => RAN,
                Some(pcpu) => {
                    packed.pcpus.push(pcpu);
                    *last_pcpu = segment.pcpu;
                    RAN_ELSEWHERE
                }
            };
            let length_ns = segment.end_ns.wrapping_sub(segment.start_ns);
            packed.codes.push(index * KINDS + kind);
            packed.ends.push(segment.end_ns.wrapping_sub(self.segment_ns));
            packed.lengths.push(match segment.start_ns == *last_ns {
                true => 0,
                false => length_ns.saturating_add(1),
            });
            *last_ns = segment.end_ns;
            self.segment_ns = segment.end_ns;
        }
        packed
    }

    /// The segments that these numbers are; none if they are none.
    pub fn unpack(&mut self, packed: &Packed) -> Option<Vec<Segment>> {
        let Packed { codes, ends, lengths, pcpus } = packed;
        if ends.len() != codes.len() || lengths.len() != codes.len() {
            return None;
        }
        let mut pcpus = pcpus.iter().copied();
        let segments = codes.iter().zip(ends).zip(lengths).map(|((code, after_ns), length)| {
            let (index, kind) = (code / KINDS, code % KINDS);
            let (last_ns, last_pcpu) = self.vcpus.get_mut(usize::try_from(index).ok()?)?;
            let end_ns = self.segment_ns.wrapping_add(*after_ns);
            let start_ns = match length.checked_sub(1) {
                None => *last_ns,
                Some(length_ns) => end_ns.wrapping_sub(length_ns),
            };
            if kind == RAN_ELSEWHERE {
                *last_pcpu = Some(pcpus.next().filter(|&pcpu| pcpu < self.pcpus)?);
            }
            *last_ns = end_ns;
            self.segment_ns = end_ns;
            // Domains without vCPUs share the number of the next one's first.
            let domain = self.first.partition_point(|&first| first <= index) - 1;
            Some(Segment {
                domain: domain as u32,
                vcpu: (index - self.first[domain]) as u32,
                pcpu: if kind == WAITED { None } else { Some((*last_pcpu)?) },
                start_ns,
                end_ns,
            })
        });
        segments.collect()
    }

    /// Runs of others on pCPUs that are there as numbers, and names that were not there before.
    pub fn pack_others(&mut self, runs: &[OtherRun]) -> (Vec<Arc<str>>, Vec<u64>) {
        let (mut names, mut numbers) = (vec![], vec![]);
        for run in runs.iter().filter(|run| run.pcpu < self.pcpus) {
            let next = self.numbers.len() as u64;
            let name = *self.numbers.entry(run.name.clone()).or_insert_with(|| {
                names.push(run.name.clone());
                next
            });
            let after_ns = run.end_ns.wrapping_sub(self.other_ns);
            let length_ns = run.end_ns.wrapping_sub(run.start_ns);
            numbers.extend([name, run.pcpu.into(), after_ns, length_ns]);
            self.other_ns = run.end_ns;
        }
        (names, numbers)
    }

    /// The runs that these numbers are; none if they are none.
    pub fn unpack_others(
        &mut self,
        names: Vec<Arc<str>>,
        numbers: &[u64],
    ) -> Option<Vec<OtherRun>> {
        self.names.extend(names);
        let runs = numbers.chunks(4).map(|numbers| {
            let &[name, pcpu, after_ns, length_ns] = numbers else { return None };
            let end_ns = self.other_ns.wrapping_add(after_ns);
            self.other_ns = end_ns;
            Some(OtherRun {
                name: self.names.get(usize::try_from(name).ok()?)?.clone(),
                pcpu: u32::try_from(pcpu).ok().filter(|&pcpu| pcpu < self.pcpus)?,
                start_ns: end_ns.wrapping_sub(length_ns),
                end_ns,
            })
        });
        runs.collect()
    }
}
