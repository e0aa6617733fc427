// SPDX-License-Identifier: GPL-2.0-only
//! What threads of a recording had to do, as it is replayed: for how long each ran and slept, and whose work woke
//! whom. That one's run is known only when it has ended, so what it woke waits for that.
//!
//! A wake is replayed only if it was recorded that its waker ran at that time and the woken one slept: if events were
//! lost, or it came before the recording's first or after its last run, the clock decides. All that are replayed can
//! have happened one after the other, whatever the file says, so that no two threads wait for each other.

use std::collections::{HashMap, VecDeque};

use steelyard_recording::Who;
use steelyard_simulator::measure::Segment;
use steelyard_simulator::workload::{Burst, Cause, RecordedThread, ReplayThread, Wake};

/// What a thread had to do: what lies between its runs and waits is sleep.
#[derive(Default)]
pub(crate) struct Load {
    /// Unlike that of any other of the recording, counted from 0.
    pub number: u32,
    pub replay: ReplayThread,
    burst_ns: u64,
    pub until_ns: Option<u64>,
    pub wakes: u64,
    first_ns: u64,
    /// Since when it runs or waits.
    awake_ns: u64,
}

impl Load {
    pub fn numbered(number: u32) -> Load {
        Load { number, ..Load::default() }
    }

    pub fn add(&mut self, segment: &Segment) {
        self.begin(segment.start_ns);
        if segment.pcpu.is_some() {
            self.replay.first_pcpu = self.replay.first_pcpu.or(segment.pcpu);
            let ran_ns = segment.end_ns.saturating_sub(segment.start_ns);
            self.burst_ns = self.burst_ns.saturating_add(ran_ns);
        }
        self.until_ns = Some(segment.end_ns.max(self.until_ns.unwrap_or(0)));
    }

    /// It runs or waits from then on.
    fn begin(&mut self, start_ns: u64) {
        match self.until_ns {
            None => (self.first_ns, self.awake_ns) = (start_ns, start_ns),
            Some(until_ns) if start_ns > until_ns => {
                self.wakes += 1;
                self.awake_ns = start_ns;
                self.end_burst(start_ns - until_ns);
            }
            Some(_) => {}
        }
        self.until_ns = Some(start_ns.max(self.until_ns.unwrap_or(0)));
    }

    /// It sleeps for so long after what it ran.
    fn end_burst(&mut self, sleep_ns: u64) {
        if self.burst_ns > 0 {
            self.replay.bursts.push(Burst { run_ns: self.burst_ns, sleep_ns });
        } else if let Some(last) = self.replay.bursts.last_mut() {
            last.sleep_ns = last.sleep_ns.saturating_add(sleep_ns);
        } else {
            self.first_ns = self.first_ns.saturating_add(sleep_ns);
        }
        self.burst_ns = 0;
    }

    /// When it ran or waited first.
    pub fn first_ns(&self) -> u64 {
        self.first_ns
    }

    /// Whether it began to run or wait when that one had done so for the last time.
    pub fn comes_after(&self, other: &Load) -> bool {
        self.until_ns.is_some() && other.until_ns.is_some_and(|until_ns| until_ns < self.first_ns)
    }

    /// It goes on with what that one did, who came after it. By so many bursts those of the other are later here.
    pub fn go_on(&mut self, next: Load) -> u32 {
        self.end_burst(next.first_ns.saturating_sub(self.until_ns.unwrap_or(next.first_ns)));
        let later = self.replay.bursts.len() as u32;
        self.replay.bursts.extend(next.replay.bursts);
        self.replay.first_pcpu = self.replay.first_pcpu.or(next.replay.first_pcpu);
        self.burst_ns = next.burst_ns;
        self.until_ns = next.until_ns;
        self.wakes += next.wakes;
        self.awake_ns = next.awake_ns;
        later
    }

    pub fn finish(mut self, start_ns: u64, end_ns: u64) -> ReplayThread {
        let first_wake_ns = match self.until_ns {
            None => end_ns.saturating_sub(start_ns),
            Some(_) => self.first_ns.saturating_sub(start_ns),
        };
        // From its last sleep it goes on to its first, so that a repetition takes as long.
        let sleep_ns = end_ns.saturating_sub(self.until_ns.unwrap_or(end_ns));
        self.end_burst(sleep_ns.saturating_add(first_wake_ns));
        ReplayThread { first_wake_ns, ..self.replay }
    }
}

/// Loads that others go on with: by the number of each that of the other, and by how many bursts its own are later there.
pub(crate) type GoneOn = HashMap<u32, (u32, u32)>;

/// Who woke whom, found out as runs and waits are told of.
#[derive(Default)]
pub(crate) struct Causes {
    edges: Vec<Edge>,
    threads: HashMap<Who, Known>,
    /// Of all threads.
    marks: usize,
}

/// Somebody's work woke somebody, who had slept since then, if it was seen before.
struct Edge {
    time_ns: u64,
    slept_ns: Option<u64>,
    waker: Option<Waking>,
    woken: Option<Beginning>,
}

/// Who woke: its load, the burst and the CPU time in it; if it was awake since before the other slept, its work since.
#[derive(Clone, Copy)]
struct Waking {
    load: u32,
    burst: u32,
    after_ns: u64,
    awake_work_ns: Option<u64>,
}

/// Who was woken: its load, and the burst that began.
#[derive(Clone, Copy)]
struct Beginning {
    load: u32,
    burst: u32,
}

/// What is known of a thread.
#[derive(Default)]
struct Known {
    /// Whom it woke, in a run that has not ended.
    waking: VecDeque<usize>,
    /// When it was woken last, and by which edge; taken when it is seen to run or wait.
    woken: Option<(u64, Option<usize>)>,
    /// When it ran or waited last.
    until_ns: Option<u64>,
    progress: Progress,
}

/// How much a thread had worked by when.
#[derive(Default)]
struct Progress {
    /// At these times so much; in between in proportion.
    marks: Vec<(u64, u64)>,
    worked_ns: u64,
}

/// If there are as many, half of the older ones go.
const MOST_MARKS: usize = 1024;

impl Progress {
    fn ran(&mut self, start_ns: u64, end_ns: u64) {
        let before_ns = self.worked_ns;
        self.worked_ns = before_ns.saturating_add(end_ns.saturating_sub(start_ns));
        self.marks.extend([(start_ns, before_ns), (end_ns, self.worked_ns)]);
        if self.marks.len() >= MOST_MARKS {
            let mut number = 0;
            self.marks.retain(|_| {
                number += 1;
                number > MOST_MARKS / 2 || number % 2 == 1
            });
        }
    }

    fn at(&self, time_ns: u64) -> u64 {
        let after = self.marks.partition_point(|mark| mark.0 <= time_ns);
        let Some(&(from_ns, worked_ns)) = after.checked_sub(1).map(|last| &self.marks[last]) else {
            return self.marks.first().map_or(0, |first| first.1);
        };
        let Some(&(until_ns, then_ns)) = self.marks.get(after) else { return worked_ns };
        let passed = u128::from(time_ns - from_ns) * u128::from(then_ns.saturating_sub(worked_ns));
        worked_ns + (passed / u128::from(until_ns - from_ns)) as u64
    }
}

impl Causes {
    /// Somebody was woken, by somebody's work or not. They come in order, before what ended since.
    pub fn wake(&mut self, time_ns: u64, waker: Option<Who>, woken: Who) {
        let number = self.edges.len();
        let edge = waker.filter(|&waker| waker != woken).map(|waker| {
            let slept_ns = self.threads.get(&woken).and_then(|woken| woken.until_ns);
            self.edges.push(Edge { time_ns, slept_ns, waker: None, woken: None });
            self.threads.entry(waker).or_default().waking.push_back(number);
            number
        });
        self.threads.entry(woken).or_default().woken = Some((time_ns, edge));
    }

    /// When this thread was woken, if it was since it slept, at the latest when it runs.
    pub fn woken_ns(&self, who: Who, load: &Load, start_ns: u64) -> Option<u64> {
        let (time_ns, _) = self.threads.get(&who)?.woken?;
        (load.until_ns.is_none_or(|until| until <= time_ns) && time_ns <= start_ns)
            .then_some(time_ns)
    }

    /// It ran or waited, which its load does not know yet.
    pub fn add(&mut self, who: Who, load: &mut Load, segment: &Segment) {
        let known = self.threads.entry(who).or_default();
        let slept = load.until_ns.is_none_or(|until_ns| until_ns < segment.start_ns);
        let since_ns = load.until_ns.unwrap_or(0);
        load.begin(segment.start_ns);
        let burst = load.replay.bursts.len() as u32;
        if let Some((time_ns, edge)) = known.woken.take_if(|it| it.0 <= segment.start_ns)
            && let Some(edge) = edge
            && slept
            && since_ns <= time_ns
        {
            self.edges[edge].woken = Some(Beginning { load: load.number, burst });
        }
        if segment.pcpu.is_some() {
            self.marks -= known.progress.marks.len();
            known.progress.ran(segment.start_ns, segment.end_ns);
            self.marks += known.progress.marks.len();
            Self::wakes_of(&mut self.edges, known, load, segment);
        }
        load.add(segment);
        known.until_ns = load.until_ns;
    }

    /// Whom it woke in this run.
    fn wakes_of(edges: &mut [Edge], known: &mut Known, load: &Load, run: &Segment) {
        while let Some(&number) = known.waking.front()
            && edges[number].time_ns <= run.end_ns
        {
            known.waking.pop_front();
            let edge = &mut edges[number];
            let Some(after_ns) = edge.time_ns.checked_sub(run.start_ns) else { continue };
            let was_awake = edge.slept_ns.filter(|&slept_ns| load.awake_ns <= slept_ns);
            let awake_work_ns = was_awake.map(|slept_ns| {
                let worked_ns = known.progress.at(edge.time_ns);
                worked_ns.saturating_sub(known.progress.at(slept_ns))
            });
            edge.waker = Some(Waking {
                load: load.number,
                burst: load.replay.bursts.len() as u32,
                after_ns: load.burst_ns.saturating_add(after_ns),
                awake_work_ns,
            });
        }
    }

    /// Bytes of all.
    pub fn bytes(&self) -> usize {
        let marks = 2 * self.marks * size_of::<(u64, u64)>();
        let waiting = 2 * size_of::<(Who, Known)>();
        // An edge waits in two places at most, and is a wake and a cause at the end.
        let edge = size_of::<Edge>() + size_of::<Wake>() + size_of::<Cause>() + 16;
        self.edges.len() * edge + self.threads.len() * waiting + marks
    }

    /// Adds to each thread whom it wakes and who wakes it. `threads` are by the number of their load, with what they
    /// are called in the replay.
    pub fn settle(
        self,
        threads: &mut HashMap<u32, (RecordedThread, ReplayThread)>,
        gone_on: &GoneOn,
    ) {
        let place = |load: u32, burst: u32| {
            let (load, later) = gone_on.get(&load).copied().unwrap_or((load, 0));
            (load, burst.saturating_add(later))
        };
        // How far each is in the order of what happened: its burst, and CPU time in it.
        let mut reached: HashMap<u32, (u32, u64)> = HashMap::new();
        for edge in self.edges {
            let (Some(mut by), Some(mut of)) = (edge.waker, edge.woken) else { continue };
            (by.load, by.burst) = place(by.load, by.burst);
            (of.load, of.burst) = place(of.load, of.burst);
            let (Some((waker, work)), Some((woken, caused))) =
                (threads.get(&by.load), threads.get(&of.load))
            else {
                continue;
            };
            let runs =
                |thread: &ReplayThread, burst: u32| thread.bursts.get(burst as usize).copied();
            let at = (by.burst, by.after_ns);
            let fits = by.load != of.load
                && runs(work, by.burst).is_some_and(|burst| by.after_ns <= burst.run_ns)
                && runs(caused, of.burst).is_some()
                && reached.get(&by.load).is_none_or(|&reached| reached <= at)
                // A burst has one cause.
                && reached.get(&of.load).is_none_or(|&(burst, _)| burst < of.burst);
            if !fits {
                continue;
            }
            let (waker, woken, wake) = (*waker, *woken, work.wakes.len() as u32);
            reached.insert(by.load, at);
            reached.insert(of.load, (of.burst, 0));
            if let Some((_, work)) = threads.get_mut(&by.load) {
                work.wakes.push(Wake { burst: by.burst, after_ns: by.after_ns, woken });
            }
            if let Some((_, caused)) = threads.get_mut(&of.load) {
                let awake_work_ns = by.awake_work_ns;
                caused.causes.push(Cause { burst: of.burst, waker, wake, awake_work_ns });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers by lot (xorshift64; Marsaglia 2003).
    struct Lot(u64);

    impl Lot {
        fn below(&mut self, end: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % end
        }
    }

    const THREADS: u32 = 4;

    fn who(thread: u32) -> Who {
        if thread.is_multiple_of(2) { Who::Vcpu(thread, 0) } else { Who::Other(thread) }
    }

    /// Threads of which anything may be told: that they ran or waited at the same time, were woken while they ran, by
    /// who did not.
    fn anything(seed: u64) -> HashMap<u32, (RecordedThread, ReplayThread)> {
        let mut lot = Lot(seed * 2 + 1);
        let mut causes = Causes::default();
        let mut loads: Vec<_> = (0..THREADS).map(Load::numbered).collect();
        for end_ns in 1..200 {
            for _ in 0..lot.below(3) {
                let (waker, woken) = (lot.below(5) as u32, lot.below(4) as u32);
                let waker = (waker < THREADS).then(|| who(waker));
                causes.wake(end_ns.max(3) - lot.below(3), waker, who(woken));
            }
            let thread = lot.below(THREADS.into()) as u32;
            let start_ns = end_ns.saturating_sub(lot.below(6));
            let pcpu = (lot.below(4) > 0).then_some(0);
            let segment = Segment { domain: 0, vcpu: 0, pcpu, start_ns, end_ns };
            causes.add(who(thread), &mut loads[thread as usize], &segment);
        }
        let replays = loads.into_iter().zip(0..).map(|(load, thread)| {
            (thread, (RecordedThread { process: 1, thread }, load.finish(0, 200)))
        });
        let mut replays = replays.collect();
        causes.settle(&mut replays, &GoneOn::new());
        replays
    }

    #[test]
    fn whatever_is_told_no_two_threads_wait_for_each_other() {
        let mut caused = 0;
        for seed in 0..2000 {
            let threads = anything(seed);
            // How many wakes of each were done, and how many of its causes it has seen.
            let mut done: HashMap<u32, (usize, usize)> = HashMap::new();
            loop {
                let mut goes_on = false;
                for (number, (_, thread)) in &threads {
                    let (wakes, causes) = done.get(number).copied().unwrap_or_default();
                    let (wake, cause) = (thread.wakes.get(wakes), thread.causes.get(causes));
                    let came = |cause: &Cause| {
                        done.get(&cause.waker.thread).is_some_and(|it| it.0 > cause.wake as usize)
                    };
                    // In its own order, a burst's beginning before the wakes in it.
                    let next = match (wake, cause) {
                        (Some(wake), Some(cause)) if wake.burst < cause.burst => (1, 0),
                        (_, Some(cause)) if came(cause) => (0, 1),
                        (Some(_), None) => (1, 0),
                        _ => continue,
                    };
                    done.insert(*number, (wakes + next.0, causes + next.1));
                    goes_on = true;
                }
                if !goes_on {
                    break;
                }
            }
            for (number, (_, thread)) in &threads {
                let all = (thread.wakes.len(), thread.causes.len());
                assert_eq!(done.get(number).copied().unwrap_or_default(), all, "seed {seed}");
                caused += thread.causes.len();
            }
        }
        assert!(caused > 2000, "{caused} causes");
    }

    #[test]
    fn work_since_somebody_slept_is_known_across_turns() {
        let mut causes = Causes::default();
        let mut loads = [Load::numbered(0), Load::numbered(1)];
        let segment =
            |pcpu, start_ns, end_ns| Segment { domain: 0, vcpu: 0, pcpu, start_ns, end_ns };
        // The one sleeps at 20; the other works 10 before that, 30 after it in two turns, and wakes it 5 into a third.
        causes.add(who(1), &mut loads[1], &segment(Some(1), 0, 20));
        for (start_ns, end_ns) in [(10, 30), (40, 60)] {
            causes.add(who(0), &mut loads[0], &segment(Some(0), start_ns, end_ns));
            causes.add(who(0), &mut loads[0], &segment(None, end_ns, end_ns + 10));
        }
        causes.wake(75, Some(who(0)), who(1));
        causes.add(who(0), &mut loads[0], &segment(Some(0), 70, 90));
        causes.add(who(1), &mut loads[1], &segment(Some(1), 80, 95));
        let replays = loads.into_iter().zip(0..).map(|(load, thread)| {
            (thread, (RecordedThread { process: 1, thread }, load.finish(0, 100)))
        });
        let mut replays = replays.collect();
        causes.settle(&mut replays, &GoneOn::new());
        assert_eq!(replays[&1].1.causes[0].awake_work_ns, Some(35));
        assert_eq!(replays[&0].1.first_pcpu, Some(0));
    }

    #[test]
    fn who_comes_after_goes_on_with_what_the_other_did() {
        let mut causes = Causes::default();
        let [mut first, mut waker, mut next] = [0, 1, 2].map(Load::numbered);
        let run =
            |start_ns, end_ns| Segment { domain: 0, vcpu: 0, pcpu: Some(0), start_ns, end_ns };
        causes.add(who(0), &mut first, &run(5, 10));
        causes.wake(15, Some(who(1)), who(2));
        causes.add(who(1), &mut waker, &run(14, 16));
        // Twice awake itself, and woken from outside of all this for the second.
        causes.add(who(2), &mut next, &run(16, 20));
        causes.add(who(2), &mut next, &run(30, 33));
        assert!(next.comes_after(&first) && !next.comes_after(&waker) && !first.comes_after(&next));
        let gone_on = GoneOn::from([(2, (0, first.go_on(next)))]);
        let replays = [(0, first), (1, waker)].map(|(number, load)| {
            (number, (RecordedThread { process: 1, thread: number }, load.finish(0, 100)))
        });
        let mut replays = HashMap::from(replays);
        causes.settle(&mut replays, &gone_on);
        let both = &replays[&0].1;
        let burst = |run_ns, sleep_ns| Burst { run_ns, sleep_ns };
        // From its last sleep it goes on to its first.
        assert_eq!(both.bursts, [burst(5, 6), burst(4, 10), burst(3, 67 + 5)]);
        assert_eq!((both.causes[0].burst, both.causes[0].wake), (1, 0));
        let woken = RecordedThread { process: 1, thread: 0 };
        assert_eq!(replays[&1].1.wakes, [Wake { burst: 0, after_ns: 1, woken }]);
    }

    #[test]
    fn progress_that_is_thinned_is_near_to_what_it_was() {
        let mut progress = Progress::default();
        for turn in 0..10_000 {
            progress.ran(10 * turn, 10 * turn + 5);
        }
        assert!(progress.marks.len() < MOST_MARKS);
        for time_ns in (0..100_000).step_by(77) {
            assert!(progress.at(time_ns).abs_diff(time_ns / 2) <= 5, "{time_ns}");
        }
        assert_eq!((progress.at(99_992), progress.at(99_998)), (49_997, 50_000));
    }

    #[test]
    fn whose_run_or_sleep_is_not_known_the_clock_wakes() {
        let edge = |waker_until_ns, woken_from_ns| {
            let mut causes = Causes::default();
            let mut loads = [Load::numbered(0), Load::numbered(1)];
            let run =
                |start_ns, end_ns| Segment { domain: 0, vcpu: 0, pcpu: Some(0), start_ns, end_ns };
            causes.add(who(1), &mut loads[1], &run(0, 10));
            causes.wake(50, Some(who(0)), who(1));
            causes.add(who(0), &mut loads[0], &run(20, waker_until_ns));
            causes.add(who(1), &mut loads[1], &run(woken_from_ns, 90));
            let replays = loads.into_iter().zip(0..).map(|(load, thread)| {
                (thread, (RecordedThread { process: 1, thread }, load.finish(0, 100)))
            });
            let mut replays = replays.collect();
            causes.settle(&mut replays, &GoneOn::new());
            (replays[&0].1.wakes.clone(), replays[&1].1.causes.clone())
        };
        let (wakes, causes) = edge(60, 70);
        let woken = RecordedThread { process: 1, thread: 1 };
        assert_eq!(wakes, [Wake { burst: 0, after_ns: 30, woken }]);
        assert_eq!((causes[0].burst, causes[0].wake, causes[0].awake_work_ns), (1, 0, None));
        // The waker had stopped before; the other ran before it was woken.
        assert_eq!(edge(40, 70), (vec![], vec![]));
        assert_eq!(edge(60, 45), (vec![], vec![]));
    }
}
