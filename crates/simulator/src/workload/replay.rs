// SPDX-License-Identifier: GPL-2.0-only
//! Replays recorded threads: each runs for as long as it ran, then sleeps for as long as it slept.
//! Waiting is not replayed: that is what the policy under test decides. When the recording ends it
//! starts again.
//!
//! Where it was recorded who woke whom, a sleep ends when the waker's work has come as far as it had when it woke
//! this one, however late or early that is; all other sleeps take the time that they took. Who wakes comes before who
//! is woken in the recording, so that no two can wait for each other.
//!
//! A waker that had been awake since before the other slept may have held a lock that the other wanted: had it been
//! asleep, nobody would have slept, however far its work had come. Then the sleep ends after as much of the waker's
//! work as it took, or at its next wake or sleep, if that comes first.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Guest, Step, TaskValue, Times, rate, value};
use crate::limits;
use crate::numbers::{Number, ThreadNumber};

/// Configuration: thread `n` of the task replays the recorded thread `n` on vCPU `n`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// File of the recording, relative to the scenario.
    pub recording: String,
    /// The recorded process whose threads are replayed.
    #[schemars(range(min = limits::PROCESS.least, max = limits::PROCESS.most))]
    pub process: u32,
    /// Each sleep is longer or shorter by up to so many percent, and by 1 ms at most: the recorded phases are one
    /// case of many.
    #[serde(default)]
    #[schemars(range(min = limits::JITTER_PERCENT.least, max = limits::JITTER_PERCENT.most))]
    pub jitter_percent: u32,
    /// Whether its threads wake and are woken as they were recorded to, where others that are replayed with this
    /// did so or were; else all sleeps are of the clock.
    #[serde(default = "yes")]
    pub causes: bool,
    /// What was recorded, one item per thread; filled in by whoever reads the recording.
    #[serde(skip)]
    pub threads: Vec<Arc<ReplayThread>>,
}

/// One recorded thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayThread {
    /// When it woke first, from the start of the recording.
    pub first_wake_ns: u64,
    /// Where it ran first.
    pub first_pcpu: Option<u32>,
    /// What it did from then on.
    pub bursts: Vec<Burst>,
    /// Whom its work woke, in order.
    pub wakes: Vec<Wake>,
    /// Which of its bursts began because of others' work, in order.
    pub causes: Vec<Cause>,
}

fn yes() -> bool {
    true
}

/// A thread of a recording: number `thread` of this process, as they are replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedThread {
    /// Process.
    pub process: u32,
    /// Thread.
    pub thread: u32,
}

/// A thread's work wakes another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// In which of its bursts.
    pub burst: u32,
    /// After so much CPU time of that.
    pub after_ns: u64,
    /// Whom.
    pub woken: RecordedThread,
}

/// A thread's burst began because of another's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Which burst.
    pub burst: u32,
    /// Whose work.
    pub waker: RecordedThread,
    /// Which of that one's wakes it was.
    pub wake: u32,
    /// If that one had been awake since before the burst before ended: how much it worked since.
    pub awake_work_ns: Option<u64>,
}

/// The most by which a sleep is made longer or shorter.
const MOST_JITTER_NS: u64 = 1_000_000;

/// Runs, then sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// CPU time.
    pub run_ns: u64,
    /// Time between blocking and the next wake-up.
    pub sleep_ns: u64,
}

pub(super) struct Program {
    threads: Vec<Thread>,
    jitter_percent: u32,
    /// Whose wakes are replayed, by their process.
    peers: Arc<[Peer]>,
    bursts: Times,
    worked_ns: u64,
}

/// A process of the same recording that is replayed too.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub process: u32,
    /// Its first thread, and how many.
    pub first: ThreadNumber,
    pub threads: u32,
    /// How many wakes each of them causes in the recording.
    pub wakes: Vec<u32>,
}

struct Thread {
    recorded: Arc<ReplayThread>,
    /// Index of the next burst; none before the first wake-up.
    position: Option<usize>,
    /// How often the recording started again.
    repetition: u64,
    /// The next of its wakes and causes.
    wake: usize,
    cause: usize,
    running: Option<Running>,
}

/// A burst that runs.
struct Running {
    index: usize,
    burst: Burst,
    began_ns: u64,
    /// CPU time of it up to the end of the present step.
    worked_ns: u64,
}

impl Program {
    pub fn new(config: &Replay) -> Self {
        let thread = |recorded: &Arc<ReplayThread>| Thread {
            recorded: recorded.clone(),
            position: None,
            repetition: 0,
            wake: 0,
            cause: 0,
            running: None,
        };
        let threads = config.threads.iter().map(thread).collect();
        let jitter_percent = config.jitter_percent;
        Program { threads, jitter_percent, peers: Arc::new([]), bursts: Times::new(), worked_ns: 0 }
    }

    /// Who that is, and how many wakes it causes; none if it is not replayed, or the wakes of its process are not.
    fn find(&self, thread: RecordedThread) -> Option<(ThreadNumber, u32)> {
        let place = self.peers.binary_search_by_key(&thread.process, |peer| peer.process).ok()?;
        let peer = &self.peers[place];
        let wakes = *peer.wakes.get(thread.thread as usize)?;
        let there = thread.thread < peer.threads;
        there.then(|| (Number::new(peer.first.0 + thread.thread), wakes))
    }

    /// Up to the burst of this index, before which it slept for so long.
    fn sleep(
        &mut self,
        thread: u32,
        index: usize,
        recorded_ns: u64,
        guest: &mut Guest<'_>,
    ) -> Step {
        self.awaited(thread, index).unwrap_or_else(|| self.sleep_by_clock(recorded_ns, guest))
    }

    /// If that burst is caused by somebody who is replayed.
    fn awaited(&mut self, thread: u32, index: usize) -> Option<Step> {
        let entry = &mut self.threads[thread as usize];
        let repetition = entry.repetition;
        let cause = *entry.recorded.causes.get(entry.cause)?;
        if cause.burst as usize != index {
            return None;
        }
        entry.cause += 1;
        let (waker, each_time) = self.find(cause.waker)?;
        // Its first sleep is longer when it comes again: the rest of the recording precedes it.
        if (index == 0 && repetition > 0) || cause.wake >= each_time {
            return None;
        }
        let before = repetition.saturating_mul(each_time.into());
        let wakes = before.saturating_add(u64::from(cause.wake) + 1);
        Some(Step::Await { waker, wakes, work_ns: cause.awake_work_ns })
    }

    fn sleep_by_clock(&self, recorded_ns: u64, guest: &mut Guest<'_>) -> Step {
        // Only so much of it is drawn, and the rest is what it is.
        let percent = u64::from(self.jitter_percent).max(1);
        let drawn_ns = recorded_ns.min(MOST_JITTER_NS.saturating_mul(100) / percent);
        let moved_ns = guest.random.jitter(drawn_ns, self.jitter_percent);
        Step::Sleep((recorded_ns - drawn_ns).saturating_add(moved_ns).max(1))
    }

    /// What comes next of a burst: a wake that is due, or work up to the next one or the end; none at its end.
    fn go_on(&mut self, thread: u32, running: &mut Running) -> Option<Step> {
        let causes = !self.peers.is_empty();
        let entry = &mut self.threads[thread as usize];
        let mut end_ns = running.burst.run_ns;
        let next = entry.recorded.wakes.get(entry.wake).copied();
        if let Some(wake) = next.filter(|wake| causes && wake.burst as usize == running.index) {
            if wake.after_ns.min(end_ns) <= running.worked_ns {
                entry.wake += 1;
                let woken = self.find(wake.woken).map_or(Number::NONE, |(woken, _)| woken);
                return Some(Step::Cause(woken));
            }
            end_ns = end_ns.min(wake.after_ns);
        }
        let work_ns = end_ns - running.worked_ns;
        running.worked_ns = end_ns;
        (work_ns > 0).then_some(Step::Compute(work_ns))
    }

    /// The burst at this index, unless there is none.
    fn begin(&mut self, thread: u32, index: usize, guest: &Guest<'_>) -> Option<Running> {
        let entry = &mut self.threads[thread as usize];
        let &burst = entry.recorded.bursts.get(index)?;
        entry.position = Some(index + 1);
        Some(Running { index, burst, began_ns: guest.ready_ns, worked_ns: 0 })
    }
}

impl super::Program for Program {
    fn next(&mut self, thread: u32, guest: &mut Guest<'_>) -> Step {
        let entry = &mut self.threads[thread as usize];
        let mut running = match (entry.running.take(), entry.position) {
            (Some(running), _) => running,
            (None, None) => {
                entry.position = Some(0);
                let first_wake_ns = entry.recorded.first_wake_ns;
                return self.sleep(thread, 0, first_wake_ns, guest);
            }
            (None, Some(index)) => match self.begin(thread, index, guest) {
                Some(running) => running,
                None => return Step::End,
            },
        };
        if let Some(step) = self.go_on(thread, &mut running) {
            self.threads[thread as usize].running = Some(running);
            return step;
        }
        self.bursts.record(guest.now_ns - running.began_ns);
        self.worked_ns += running.burst.run_ns;
        let entry = &mut self.threads[thread as usize];
        let mut next = running.index + 1;
        if next == entry.recorded.bursts.len() {
            next = 0;
            entry.repetition += 1;
            (entry.wake, entry.cause) = (0, 0);
        }
        entry.position = Some(next);
        self.sleep(thread, next, running.burst.sleep_ns, guest)
    }

    fn meet(&mut self, peers: &Arc<[Peer]>) {
        self.peers = peers.clone();
    }

    fn vcpu(&self, thread: u32) -> Option<u32> {
        Some(thread)
    }

    fn values(&self, elapsed_ns: u64) -> Vec<TaskValue> {
        let share = 100.0 * self.worked_ns as f64 / elapsed_ns as f64;
        let mut values = vec![
            value("work done", "% of a pCPU", Some(true), (elapsed_ns > 0).then_some(share)),
            rate("bursts", "1/s", self.bursts.count() as f64, elapsed_ns),
        ];
        values.extend(self.bursts.values("burst"));
        values
    }
}
