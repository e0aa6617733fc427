// SPDX-License-Identifier: GPL-2.0-only
//! How threads of a Linux host were held, recognised by what they got where nobody tells: whether each process was in a
//! control group (or session) of its own, and who may run on one CPU only.
//!
//! At each moment who is runnable is recorded. What each process should get then is worked out as if CPU time were a
//! fluid that flows to all at once, by the weights of its threads, and by one weight for each process; no thread gets
//! more than a CPU. What comes nearer to what they got over the whole recording is taken.

use std::collections::{BTreeMap, HashMap};

use steelyard_recording::{Placement, Who};
use steelyard_simulator::measure::Segment;

/// More runs and waits than that are not looked at.
const MOST_SEGMENTS: usize = 1 << 20;
/// Nor further than so many looks at processes and waiting threads reach.
const MOST_WORK: usize = 1 << 26;
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
    /// How this thread was held; groups are its domain's.
    pub fn place(&self, who: Who, tid: u32, priority: Option<u32>) -> Placement {
        let pcpus = self.pinned.get(&tid).map(|&cpu| [cpu].into_iter().collect());
        Placement { who, priority, groups: vec![], pcpus }
    }

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

struct Thread {
    tid: u32,
    /// Its index.
    process: usize,
    weight: Option<u32>,
    /// Where it ran: none yet, one CPU, several.
    only: Option<Option<u32>>,
    waited_ns: u64,
    beside_idle_ns: u64,
}

/// A run or a wait begins or ends.
struct Moment {
    time_ns: u64,
    begins: bool,
    thread: usize,
    pcpu: Option<u32>,
    length_ns: u64,
}

/// By runs and waits of these threads on so many CPUs.
pub(crate) fn recognised<'a>(
    segments: impl Iterator<Item = &'a Segment>,
    held: &BTreeMap<u32, Held>,
    cpus: usize,
) -> Recognised {
    let mut sweep = Sweep::of(held, cpus);
    let threads = sweep.threads.iter().enumerate();
    let index_of: HashMap<u32, usize> = threads.map(|(index, it)| (it.tid, index)).collect();
    let mut moments = vec![];
    for segment in segments.take(MOST_SEGMENTS) {
        let &Segment { pcpu, start_ns, end_ns, .. } = segment;
        if let Some(&thread) = index_of.get(&segment.vcpu)
            && start_ns < end_ns
        {
            let length_ns = end_ns - start_ns;
            let moment = |time_ns, begins| Moment { time_ns, begins, thread, pcpu, length_ns };
            moments.extend([moment(start_ns, true), moment(end_ns, false)]);
        }
    }
    // Who ends makes room first.
    moments.sort_by_key(|moment| (moment.time_ns, moment.begins));
    let began_ns = moments.first().map_or(0, |first| first.time_ns);
    let (mut now_ns, mut work) = (began_ns, 0);
    for moment in &moments {
        sweep.pass(moment.time_ns - now_ns);
        now_ns = moment.time_ns;
        sweep.change(moment);
        work += sweep.active.len() + sweep.waiting.len();
        if work > MOST_WORK {
            break;
        }
    }
    sweep.finish(now_ns - began_ns)
}

struct Sweep {
    processes: Vec<Process>,
    threads: Vec<Thread>,
    /// Processes with somebody runnable, ascending.
    active: Vec<usize>,
    /// How many run on each CPU: 1 or 0, if no events were lost.
    busy: Vec<u32>,
    idle: usize,
    /// Who waits for long, and where it had run.
    waiting: Vec<(usize, Option<u32>)>,
}

impl Sweep {
    fn of(held: &BTreeMap<u32, Held>, cpus: usize) -> Sweep {
        let mut index_of = HashMap::new();
        let mut threads = vec![];
        for (&tid, &Held { process, weight }) in held {
            let next = index_of.len();
            let process = *index_of.entry(process).or_insert(next);
            let (only, waited_ns, beside_idle_ns) = (None, 0, 0);
            threads.push(Thread { tid, process, weight, only, waited_ns, beside_idle_ns });
        }
        let mut processes = vec![];
        processes.resize_with(index_of.len(), Process::default);
        let (active, waiting) = (vec![], vec![]);
        Sweep { processes, threads, active, busy: vec![0; cpus], idle: cpus, waiting }
    }

    /// Time goes on, and nothing changes meanwhile.
    fn pass(&mut self, passed_ns: u64) {
        if passed_ns == 0 {
            return;
        }
        for &(waiting, home) in &self.waiting {
            let thread = &mut self.threads[waiting];
            thread.waited_ns += passed_ns;
            let is_busy = |cpu: u32| self.busy.get(cpu as usize).is_some_and(|&busy| busy > 0);
            if self.idle > 0 && home.is_some_and(is_busy) {
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
        let way = usize::from(grouped);
        let mut left = self.busy.len() as f64;
        let mut open = self.active.clone();
        loop {
            let sum: f64 = open.iter().map(|&at| weight(&self.processes[at])).sum();
            let (before, all) = (left, open.len());
            open.retain(|&at| {
                let process = &mut self.processes[at];
                let satisfied = before * weight(process) / sum >= process.runnable;
                if satisfied {
                    left -= process.runnable;
                    process.due_ns[way] += passed_ns * process.runnable;
                }
                !satisfied
            });
            if open.len() == all {
                for at in open {
                    let process = &mut self.processes[at];
                    process.due_ns[way] += passed_ns * left * weight(process) / sum;
                }
                return;
            }
        }
    }

    fn change(&mut self, moment: &Moment) {
        let &Moment { begins, thread: index, pcpu, length_ns, .. } = moment;
        let thread = &mut self.threads[index];
        let process = &mut self.processes[thread.process];
        let sign = if begins { 1.0 } else { -1.0 };
        process.runnable += sign;
        match thread.weight {
            Some(weight) => process.weight += sign * f64::from(weight),
            None => process.urgent += sign,
        }
        match (self.active.binary_search(&thread.process), process.runnable > 0.0) {
            (Ok(at), false) => _ = self.active.remove(at),
            (Err(at), true) => self.active.insert(at, thread.process),
            _ => {}
        }
        match (pcpu, begins) {
            (Some(cpu), true) => {
                process.gotten_ns += length_ns as f64;
                thread.only = match thread.only {
                    None => Some(Some(cpu)),
                    Some(only) => Some(only.filter(|&only| only == cpu)),
                };
            }
            (None, true) if length_ns >= LONG_WAIT_NS => {
                self.waiting.push((index, thread.only.flatten()));
            }
            (None, false) => self.waiting.retain(|&(waiting, _)| waiting != index),
            _ => {}
        }
        let Some(busy) = pcpu.and_then(|cpu| self.busy.get_mut(cpu as usize)) else { return };
        match (begins, *busy) {
            (true, 0) => self.idle -= 1,
            (false, 1) => self.idle += 1,
            _ => {}
        }
        *busy = if begins { *busy + 1 } else { *busy - 1 };
    }

    fn finish(self, length_ns: u64) -> Recognised {
        let points = |ns: f64| 100.0 * ns / length_ns.max(1) as f64;
        let counted = self.processes.iter();
        let counted = counted.filter(|it| points(it.gotten_ns) > LEAST_SHARE_PERCENT);
        let counted: Vec<_> = counted.collect();
        let off = [0, 1].map(|way| {
            let off = counted.iter().map(|it| points(it.due_ns[way] - it.gotten_ns).abs());
            off.sum::<f64>() / counted.len().max(1) as f64
        });
        let least_ns = length_ns / 1000 * LEAST_BESIDE_IDLE_PERMILLE;
        let pinned = self.threads.into_iter().filter_map(|thread| {
            let Thread { tid, only, waited_ns, beside_idle_ns, .. } = thread;
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

    fn held(threads: &[(u32, u32)]) -> BTreeMap<u32, Held> {
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
        let mut sweep = Sweep::of(&threads, 2);
        for thread in 0..3 {
            let (time_ns, pcpu, length_ns) = (0, None, 6 * MS);
            sweep.change(&Moment { time_ns, begins: true, thread, pcpu, length_ns });
        }
        sweep.pass(6 * MS);
        let due = |tid: u32| {
            let thread = sweep.threads.iter().find(|thread| thread.tid == tid).unwrap();
            sweep.processes[thread.process].due_ns.map(|ns| ns.round() as u64)
        };
        // By threads 2/3 of a CPU each; by groups one each.
        assert_eq!((due(10), due(20)), ([4 * MS, 6 * MS], [8 * MS, 6 * MS]));
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
