// SPDX-License-Identifier: GPL-2.0-only
//! How threads of a Linux host were held, recognised by what they got where nobody tells: whether each process was in a
//! control group (or session) of its own, and who may run on one CPU only.
//!
//! At each moment who is runnable is recorded. What each process should get then is worked out as if CPU time were a
//! fluid that flows to all at once, by the weights of its threads, and by one weight for each process; no thread gets
//! more than a CPU. What comes nearer to what they got over the whole recording is taken.

use std::collections::HashMap;

use steelyard_simulator::measure::Segment;

/// More runs and waits than that are not looked at.
const MOST_SEGMENTS: usize = 1 << 20;
/// Groups must be nearer by this, in points of a CPU in the mean over processes that count.
const LEAST_POINTS: f64 = 0.5;
/// Processes that got less than this, in percent of a CPU, do not count.
const LEAST_SHARE_PERCENT: f64 = 3.0;
/// A wait that is shorter may be that for a CPU that wakes up, or for a cache that is warm.
const LONG_WAIT_NS: u64 = 1_000_000;
/// Who waited so much longer on a busy CPU while another was idle, per thousand of the time that was looked at, and at
/// least for half of its long waits, may not go there.
const LEAST_BESIDE_IDLE_PERMILLE: u64 = 10;
/// Real-time threads have all that they ask for.
const BEFORE_ALL: f64 = 1e12;
/// Of a group, where a thread of niceness 0 has 256.
const GROUP_WEIGHT: f64 = 256.0;

/// A thread, as far as it matters here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub process: u32,
    /// 256 being the usual one; none: it is real-time.
    pub weight: Option<u32>,
}

/// What was recognised.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Recognised {
    /// Whether each process is in a group of its own; then also by how many points shares would be off in the mean
    /// without, and with that.
    pub grouped: Option<[f64; 2]>,
    /// Who may run on one CPU only, and which.
    pub pinned: HashMap<u32, u32>,
}

impl Recognised {
    /// What is taken, and how it could be known, a sentence each.
    pub fn told(&self) -> Vec<String> {
        let groups = match self.grouped {
            None => format!("No control groups: each thread competes for itself ({TOLD_BY})."),
            Some([without, with]) => format!(
                "A control group of the usual weight for each process: so shares are off by {with:.1} points from fair \
                 parts, without by {without:.1} ({TOLD_BY})."
            ),
        };
        let pins = match self.pinned.len() {
            0 => "No caps, no pins: nobody waits on one CPU only beside an idle one.".to_owned(),
            threads => {
                format!("No caps; pins: of {threads} threads that waited beside an idle CPU.")
            }
        };
        vec![groups, pins]
    }
}

/// What tells all of it.
const TOLD_BY: &str = "`steelyard describe` on the host tells";

#[derive(Default)]
struct Process {
    /// Of its threads that are runnable.
    runnable: f64,
    weight: f64,
    urgent: f64,
    gotten_ns: f64,
    /// By the weights of threads, by one for each process.
    due_ns: [f64; 2],
}

#[derive(Default)]
struct Thread {
    /// Where it ran: none yet, one CPU, several.
    only: Option<Option<u32>>,
    waited_ns: u64,
    beside_idle_ns: u64,
}

/// Something begins or ends: a run or a wait of a thread.
struct Moment {
    time_ns: u64,
    begins: bool,
    segment: u32,
}

/// By runs and waits of these threads on so many CPUs.
pub(crate) fn recognised<'a>(
    segments: impl Iterator<Item = &'a Segment>,
    held: &HashMap<u32, Held>,
    cpus: usize,
) -> Recognised {
    let segments: Vec<_> = segments.take(MOST_SEGMENTS).collect();
    let mut moments = vec![];
    for (number, segment) in (0..).zip(&segments) {
        if held.contains_key(&segment.vcpu) && segment.start_ns < segment.end_ns {
            let moment = |time_ns, begins| Moment { time_ns, begins, segment: number };
            moments.extend([moment(segment.start_ns, true), moment(segment.end_ns, false)]);
        }
    }
    // Who ends makes room first.
    moments.sort_unstable_by_key(|moment| (moment.time_ns, moment.begins, moment.segment));
    let mut all = Sweep {
        held,
        processes: HashMap::new(),
        threads: HashMap::new(),
        active: vec![],
        runnable: 0,
        busy: vec![0; cpus],
        waiting: vec![],
    };
    let mut now_ns = moments.first().map_or(0, |first| first.time_ns);
    let began_ns = now_ns;
    for moment in moments {
        all.pass(moment.time_ns - now_ns);
        now_ns = moment.time_ns;
        all.change(segments[moment.segment as usize], moment.begins);
    }
    all.finish(now_ns - began_ns)
}

struct Sweep<'a> {
    held: &'a HashMap<u32, Held>,
    processes: HashMap<u32, Process>,
    threads: HashMap<u32, Thread>,
    /// Processes with somebody runnable, ascending.
    active: Vec<u32>,
    runnable: usize,
    /// How many run on each CPU: 1 or 0, if no events were lost.
    busy: Vec<u32>,
    /// Who waits for long, and where it had run.
    waiting: Vec<(u32, Option<u32>)>,
}

impl Sweep<'_> {
    /// Time goes on, and nothing changes meanwhile.
    fn pass(&mut self, passed_ns: u64) {
        if passed_ns == 0 || self.runnable == 0 {
            return;
        }
        let idle = self.busy.contains(&0);
        for (tid, home) in &self.waiting {
            let thread = self.threads.entry(*tid).or_default();
            thread.waited_ns += passed_ns;
            let is_busy = |cpu: u32| self.busy.get(cpu as usize).is_some_and(|&busy| busy > 0);
            if idle && home.is_some_and(is_busy) {
                thread.beside_idle_ns += passed_ns;
            }
        }
        for grouped in [false, true] {
            self.flow(passed_ns as f64, grouped);
        }
    }

    /// The CPUs' time flows to all by their weights; nobody gets more than he has threads.
    fn flow(&mut self, passed_ns: f64, grouped: bool) {
        let weight = |process: &Process| match (process.urgent > 0.0, grouped) {
            (true, _) => BEFORE_ALL,
            (false, true) => GROUP_WEIGHT,
            (false, false) => process.weight,
        };
        let mut left = self.busy.len() as f64;
        let mut open = self.active.clone();
        let given = |process: &mut Process, cpus: f64| {
            process.due_ns[usize::from(grouped)] += passed_ns * cpus;
        };
        loop {
            let sum: f64 = open.iter().map(|pid| weight(&self.processes[pid])).sum();
            let of = |process: &Process| left * weight(process) / sum;
            let full = |pid: &u32| {
                let process = &self.processes[pid];
                of(process) >= process.runnable
            };
            let (satisfied, rest): (Vec<_>, Vec<_>) = open.iter().copied().partition(full);
            if satisfied.is_empty() {
                let parts: Vec<_> = rest.iter().map(|pid| of(&self.processes[pid])).collect();
                for (pid, cpus) in rest.iter().zip(parts) {
                    self.processes.entry(*pid).and_modify(|process| given(process, cpus));
                }
                return;
            }
            for pid in &satisfied {
                self.processes.entry(*pid).and_modify(|process| {
                    left -= process.runnable;
                    given(process, process.runnable);
                });
            }
            open = rest;
        }
    }

    fn change(&mut self, segment: &Segment, begins: bool) {
        let (tid, length_ns) = (segment.vcpu, segment.end_ns - segment.start_ns);
        let Some(&Held { process: pid, weight }) = self.held.get(&tid) else { return };
        let process = self.processes.entry(pid).or_default();
        let sign = if begins { 1.0 } else { -1.0 };
        process.runnable += sign;
        match weight {
            Some(weight) => process.weight += sign * f64::from(weight),
            None => process.urgent += sign,
        }
        match (self.active.binary_search(&pid), process.runnable > 0.0) {
            (Ok(at), false) => _ = self.active.remove(at),
            (Err(at), true) => self.active.insert(at, pid),
            _ => {}
        }
        self.runnable = if begins { self.runnable + 1 } else { self.runnable - 1 };
        let thread = self.threads.entry(tid).or_default();
        match (segment.pcpu, begins) {
            (Some(cpu), true) => {
                process.gotten_ns += length_ns as f64;
                thread.only = match thread.only {
                    None => Some(Some(cpu)),
                    Some(only) => Some(only.filter(|&only| only == cpu)),
                };
            }
            (None, true) if length_ns >= LONG_WAIT_NS => {
                self.waiting.push((tid, thread.only.flatten()));
            }
            (None, false) => self.waiting.retain(|&(waiting, _)| waiting != tid),
            _ => {}
        }
        if let Some(busy) = segment.pcpu.and_then(|cpu| self.busy.get_mut(cpu as usize)) {
            *busy = if begins { *busy + 1 } else { *busy - 1 };
        }
    }

    fn finish(self, length_ns: u64) -> Recognised {
        let points = |ns: f64| 100.0 * ns / length_ns.max(1) as f64;
        let counted = self.processes.values();
        let counted = counted.filter(|it| points(it.gotten_ns) > LEAST_SHARE_PERCENT);
        let counted: Vec<_> = counted.collect();
        let off = [0, 1].map(|way| {
            let off = counted.iter().map(|it| points(it.due_ns[way] - it.gotten_ns).abs());
            off.sum::<f64>() / counted.len().max(1) as f64
        });
        let least_ns = length_ns / 1000 * LEAST_BESIDE_IDLE_PERMILLE;
        let pinned = self.threads.into_iter().filter_map(|(tid, thread)| {
            let Thread { only, waited_ns, beside_idle_ns } = thread;
            (beside_idle_ns > least_ns && beside_idle_ns >= waited_ns / 2)
                .then_some((tid, only.flatten()?))
        });
        let grouped = (off[0] - off[1] >= LEAST_POINTS).then_some(off);
        Recognised { grouped, pinned: pinned.collect() }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn held(threads: &[(u32, u32)]) -> HashMap<u32, Held> {
        let all = threads.iter().map(|&(tid, process)| (tid, Held { process, weight: Some(256) }));
        all.collect()
    }

    /// One CPU, threads that never sleep: each runs for its turn in ms, again and again.
    fn turns(turns: &[(u32, u64)]) -> Vec<Segment> {
        let (mut now_ns, mut segments) = (0, vec![]);
        let mut since_ns: HashMap<u32, u64> = HashMap::new();
        for _ in 0..100 {
            for &(tid, ms) in turns {
                let start_ns = *since_ns.get(&tid).unwrap_or(&0);
                let wait = Segment { vcpu: tid, pcpu: None, start_ns, end_ns: now_ns, domain: 0 };
                let (pcpu, end_ns) = (Some(0), now_ns + ms * MS);
                segments.push(wait);
                segments.push(Segment { pcpu, start_ns: now_ns, end_ns, ..wait });
                now_ns = end_ns;
                since_ns.insert(tid, now_ns);
            }
        }
        segments
    }

    /// Two threads of process 1 beside one of 2: a third of the CPU each, or half for each process.
    #[test]
    fn groups_are_seen_by_who_got_what() {
        let threads = held(&[(10, 1), (11, 1), (20, 2)]);
        let alike = recognised(turns(&[(10, 4), (11, 4), (20, 4)]).iter(), &threads, 1);
        assert_eq!(alike, Recognised::default());
        let grouped = recognised(turns(&[(10, 2), (11, 2), (20, 4)]).iter(), &threads, 1);
        let [without, with] = grouped.grouped.unwrap();
        // A sixth of a CPU for each of the two.
        assert!((without - 100.0 / 6.0).abs() < 0.5, "{without}");
        assert!(with < 0.5, "{with}");
        // Of a niceness each would do; and where nobody waits nothing is seen.
        let alone = recognised(turns(&[(10, 4)]).iter(), &threads, 1);
        assert_eq!(alone, Recognised::default());
    }

    /// No thread gets more than a CPU: of two, one alone has one, and two others the other, whatever the weights.
    #[test]
    fn nobody_gets_more_than_his_threads() {
        let threads = held(&[(10, 1), (20, 2), (21, 2)]);
        let mut sweep = Sweep {
            held: &threads,
            processes: HashMap::new(),
            threads: HashMap::new(),
            active: vec![],
            runnable: 0,
            busy: vec![0; 2],
            waiting: vec![],
        };
        for tid in [10, 20, 21] {
            let segment = Segment { domain: 0, vcpu: tid, pcpu: None, start_ns: 0, end_ns: 6 * MS };
            sweep.change(&segment, true);
        }
        sweep.pass(6 * MS);
        let due = |pid: u32| sweep.processes[&pid].due_ns.map(|ns| ns.round() as u64);
        // By threads 2/3 of a CPU each; by groups one each.
        assert_eq!((due(1), due(2)), ([4 * MS, 6 * MS], [8 * MS, 6 * MS]));
    }

    /// Both threads wait for CPU 0 while CPU 1 is idle; a third once for a moment.
    #[test]
    fn who_waits_beside_an_idle_cpu_is_pinned() {
        let threads = held(&[(10, 1), (11, 1), (20, 2)]);
        let mut segments = turns(&[(10, 4), (11, 4)]);
        assert_eq!(recognised(segments.iter(), &threads, 1).pinned, HashMap::new());
        assert_eq!(recognised(segments.iter(), &threads, 2).pinned, [(10, 0), (11, 0)].into());
        // One that was seen elsewhere may go there.
        let last = segments.last().unwrap().end_ns;
        let run = Segment { domain: 0, vcpu: 11, pcpu: Some(1), start_ns: last, end_ns: last + MS };
        segments.push(run);
        assert_eq!(recognised(segments.iter(), &threads, 2).pinned, [(10, 0)].into());
    }
}
