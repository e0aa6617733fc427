// SPDX-License-Identifier: GPL-2.0-only
//! Who ran where and when, and who waited for whom, out of single runs and waits.

use std::cmp::Reverse;
use std::sync::Arc;

use steelyard_recording::State;
use steelyard_simulator::measure::Segment;

use crate::interval::{Interval, Timeline};

/// Who ran on a pCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// The domain of this index.
    Domain(usize),
    /// Somebody who is no vCPU.
    Other,
}

/// The domain that ran longest in a part of an interval, whoever else if none did, and whether for
/// half of it.
pub(crate) type Part = Option<(Who, bool)>;

/// A wait that ended, and who ran meanwhile on the pCPU where it ended, longest first.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PastWait {
    pub start_ns: u64,
    pub length_ns: u64,
    pub ran: Vec<(String, u64)>,
}

/// The interval in so many parts, for each pCPU; none where no single runs are seen.
pub(crate) fn strips(interval: &Interval, parts: usize) -> Option<Vec<Vec<Part>>> {
    let timeline = &interval.timeline;
    let (start_ns, length_ns) = (interval.start_ns(), interval.length_ns);
    if timeline.segments.is_empty() || parts == 0 || length_ns == 0 {
        return None;
    }
    let pcpus = interval.pcpus_busy_percent.len();
    let mut ran: Vec<Vec<Vec<(Who, u64)>>> = vec![vec![vec![]; parts]; pcpus];
    // Where a part begins, since the interval began.
    let begin = |part: usize| (u128::from(length_ns) * part as u128 / parts as u128) as u64;
    let mut add = |pcpu: u32, who: Who, from_ns: u64, to_ns: u64| {
        let from_ns = from_ns.saturating_sub(start_ns);
        let to_ns = to_ns.saturating_sub(start_ns).min(length_ns);
        let Some(strip) = ran.get_mut(pcpu as usize) else { return };
        let mut part = (u128::from(from_ns) * parts as u128 / u128::from(length_ns)) as usize;
        while part < parts && begin(part) < to_ns {
            let ns = begin(part + 1).min(to_ns).saturating_sub(begin(part).max(from_ns));
            match strip[part].iter_mut().find(|(known, _)| *known == who) {
                Some((_, sum_ns)) => *sum_ns += ns,
                None => strip[part].push((who, ns)),
            }
            part += 1;
        }
    };
    // Time of each vCPU in runs that ended; the rest of its time is a run that still lasts.
    let mut ended_ns: Vec<Vec<u64>> =
        interval.domains.iter().map(|domain| vec![0; domain.vcpus.len()]).collect();
    for segment in &timeline.segments {
        let Some(pcpu) = segment.pcpu else { continue };
        let domain = segment.domain as usize;
        add(pcpu, Who::Domain(domain), segment.start_ns, segment.end_ns);
        let sum_ns = ended_ns.get_mut(domain).and_then(|sums| sums.get_mut(segment.vcpu as usize));
        if let Some(sum_ns) = sum_ns {
            *sum_ns += segment.end_ns.saturating_sub(segment.start_ns.max(start_ns));
        }
    }
    for other in &timeline.others {
        add(other.pcpu, Who::Other, other.start_ns, other.end_ns);
    }
    for (index, (domain, ended_ns)) in interval.domains.iter().zip(ended_ns).enumerate() {
        for (vcpu, ended_ns) in domain.vcpus.iter().zip(ended_ns) {
            if let (Some(State::Running), Some(pcpu)) = (vcpu.state, vcpu.pcpu) {
                let gotten_ns = (vcpu.rates.gotten_percent / 100.0 * length_ns as f64) as u64;
                let lasting_ns = gotten_ns.saturating_sub(ended_ns);
                let from_ns = interval.time_ns.saturating_sub(lasting_ns);
                add(pcpu, Who::Domain(index), from_ns, interval.time_ns);
            }
        }
    }
    let part = |number: usize, ran: Vec<(Who, u64)>| {
        let ran = ran.into_iter().filter(|(_, ns)| *ns > 0);
        let (who, ns) = ran.max_by_key(|&(who, ns)| (who != Who::Other, ns))?;
        Some((who, ns.saturating_mul(2) >= begin(number + 1) - begin(number)))
    };
    let strip = |strip: Vec<Vec<(Who, u64)>>| {
        strip.into_iter().enumerate().map(|(number, ran)| part(number, ran)).collect()
    };
    Some(ran.into_iter().map(strip).collect())
}

/// The last waits of a vCPU, the newest first. `pcpu` is where it is now.
pub(crate) fn last_waits<'a>(
    timelines: impl Iterator<Item = &'a Arc<Timeline>> + Clone,
    (domain, vcpu): (u64, u64),
    pcpu: Option<u32>,
    count: usize,
) -> Vec<PastWait> {
    // In order of their ends, as each timeline is in itself.
    let all: Vec<(&Timeline, &Segment)> = timelines
        .clone()
        .flat_map(|timeline| timeline.segments.iter().map(move |segment| (&**timeline, segment)))
        .collect();
    let others: Vec<_> = timelines.flat_map(|timeline| &timeline.others).collect();
    let is_it = |timeline: &Timeline, segment: &Segment| {
        let known = timeline.structure.domains.get(segment.domain as usize);
        known.is_some_and(|known| {
            let known_vcpu = known.vcpus.get(segment.vcpu as usize);
            known.id == domain && known_vcpu.is_some_and(|known| known.id == vcpu)
        })
    };
    let (mut waits, mut ran_next_on) = (vec![], pcpu);
    for (_, segment) in all.iter().rev().filter(|(timeline, s)| is_it(timeline, s)) {
        let Segment { start_ns, end_ns, pcpu, .. } = **segment;
        if pcpu.is_some() {
            ran_next_on = pcpu;
            continue;
        }
        // It ran at once.
        if end_ns <= start_ns {
            continue;
        }
        let mut ran: Vec<(String, u64)> = vec![];
        let mut add = |name: String, from_ns: u64, to_ns: u64| {
            let ns = to_ns.min(end_ns).saturating_sub(from_ns.max(start_ns));
            match ran.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum_ns)) => *sum_ns += ns,
                None if ns > 0 => ran.push((name, ns)),
                None => {}
            }
        };
        let upto = all.partition_point(|(_, run)| run.end_ns <= end_ns);
        for (of, run) in all[..upto].iter().rev().take_while(|(_, run)| run.end_ns > start_ns) {
            if run.pcpu.is_some() && run.pcpu == ran_next_on {
                add(of.name(run), run.start_ns, run.end_ns);
            }
        }
        let upto = others.partition_point(|run| run.end_ns <= end_ns);
        for run in others[..upto].iter().rev().take_while(|run| run.end_ns > start_ns) {
            if Some(run.pcpu) == ran_next_on {
                add(run.name.to_string(), run.start_ns, run.end_ns);
            }
        }
        ran.sort_by_key(|(_, ns)| Reverse(*ns));
        waits.push(PastWait { start_ns, length_ns: end_ns - start_ns, ran });
        if waits.len() == count {
            break;
        }
    }
    waits
}

impl Timeline {
    fn name(&self, segment: &Segment) -> String {
        let domain = self.structure.domains.get(segment.domain as usize);
        format!("{}/{}", domain.map_or("?", |domain| &domain.name), segment.vcpu)
    }
}
