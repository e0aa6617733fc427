// SPDX-License-Identifier: GPL-2.0-only
//! What a source yields at one moment. Times and counts are cumulative, from whenever the source
//! began to count: what happened between two moments is their difference. Single runs and waits are those
//! since the snapshot before.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use steelyard_policy::Standing;
use steelyard_simulator::measure::{Segment, WorstWait};

use crate::threads::{Group, ThreadEvents};

/// The host and everybody on it at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Who is there; shared by all snapshots between which nobody came, went or was changed.
    pub structure: Arc<Structure>,
    /// Since the source began.
    pub time_ns: u64,
    /// Idle time of each pCPU.
    pub idle_ns: Vec<u64>,
    /// Of each vCPU, in the order of the domains.
    pub vcpus: Vec<Figures>,
    /// Runs and waits of vCPUs that ended since the snapshot before, in order of their ends; domains
    /// and vCPUs by their index in `structure`, times since the source began.
    pub segments: Vec<Segment>,
    /// Runs of whoever is no vCPU that ended since the snapshot before, in order of their ends; of some sources only
    /// those while which a vCPU waited.
    pub others: Vec<OtherRun>,
    /// Who woke whom, and how threads are held, as far as that is told.
    pub threads: ThreadEvents,
    /// Single runs and waits that are missing, since the source began: there was no room for them.
    pub lost: u64,
}

impl Snapshot {
    /// About how much memory it takes, without what it shares with others.
    pub(crate) fn bytes(&self) -> usize {
        let waits = self.vcpus.iter().filter_map(|figures| figures.waits.as_ref());
        let buckets: usize = waits.map(|waits| size_of_val::<[_]>(&waits.histogram)).sum();
        size_of_val::<[_]>(&self.vcpus)
            + buckets
            + size_of_val::<[_]>(&self.segments)
            + size_of_val::<[_]>(&self.others)
            + self.threads.bytes()
    }
}

/// Somebody who is no vCPU ran: a thread of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherRun {
    /// Name.
    pub name: Arc<str>,
    /// Its number, unlike that of any other at the same time; 0: not told.
    pub thread: u32,
    /// Linux' number for how urgent it is: 100 is niceness -20, what is below real-time; none: not told.
    pub priority: Option<u32>,
    /// It could have run ever since its run before.
    pub waited: bool,
    /// Where.
    pub pcpu: u32,
    /// Beginning, since the source began.
    pub start_ns: u64,
    /// End.
    pub end_ns: u64,
}

/// Who is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Structure {
    /// The host.
    pub host: Host,
    /// Its domains.
    pub domains: Vec<Domain>,
}

/// A host, real or simulated, and what its source can tell of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Name.
    pub name: String,
    /// What tells of it, such as "Linux 6.12".
    pub source: String,
    /// Number of pCPUs.
    pub pcpus: u32,
    /// When the source began, since 1970; none for simulated time.
    pub began_unix_ns: Option<u64>,
    /// What the source cannot see, a sentence each.
    pub unseen: Vec<String>,
}

impl Host {
    /// Why there are no single waits, if the source says that it cannot see them.
    pub fn missing_waits(&self) -> Option<&str> {
        let missing =
            |sentence: &&String| SINGLE_WAITS.iter().any(|what| sentence.starts_with(what));
        self.unseen.iter().find(missing).map(String::as_str)
    }
}

/// How sentences begin that say why single waits are not seen.
const SINGLE_WAITS: [&str; 2] = ["Single waits", "Waits,"];

/// A domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Domain {
    /// Unlike that of any other domain of the host at the same time.
    pub id: u64,
    /// Name.
    pub name: String,
    /// Weight, 256 being the usual one.
    pub weight: u32,
    /// Whether each vCPU has that for itself: no control group holds them together.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ungrouped: bool,
    /// How many control groups are around the one that is its own, by which its weight is set; none: nobody told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups_around: Option<u32>,
    /// Most CPU time, in percent of one pCPU; 0: no limit.
    pub cap_percent: u32,
    /// Its vCPUs.
    pub vcpus: Vec<Vcpu>,
}

impl Domain {
    /// The group that is its own, of those that hold one of its vCPUs (the innermost first), if that was told.
    #[must_use]
    pub fn own_group<'a>(&self, groups: &'a [Group]) -> Option<&'a Group> {
        groups.get(groups.len().checked_sub(self.groups_around? as usize + 1)?)
    }
}

/// A vCPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vcpu {
    /// Unlike that of any other vCPU of the domain.
    pub id: u64,
    /// Name.
    pub name: String,
}

/// What a vCPU does at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It runs.
    Running,
    /// It could run and does not.
    Waiting,
    /// One of the two: the source does not tell them apart.
    Runnable,
    /// It has nothing to do.
    Blocked,
}

impl State {
    /// As written in tables.
    pub fn word(self) -> &'static str {
        match self {
            State::Running => "running",
            State::Waiting => "waiting",
            State::Runnable => "runnable",
            State::Blocked => "blocked",
        }
    }
}

/// What a vCPU got up to a moment. What is none the source cannot see.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// What it does.
    pub state: Option<State>,
    /// Where it runs or ran last.
    pub pcpu: Option<u32>,
    /// Running.
    pub gotten_ns: u64,
    /// Runnable, not running.
    pub waited_ns: Option<u64>,
    /// Times that it started on a pCPU.
    pub switches: Option<u64>,
    /// Starts on another pCPU than before.
    pub migrations: Option<u64>,
    /// Times that it lost a pCPU while it could have gone on.
    pub preemptions: Option<u64>,
    /// Its single waits.
    pub waits: Option<Waits>,
    /// What a policy of this project's says of it, where one schedules.
    pub policy: Option<PolicyState>,
}

/// What a policy says of a vCPU at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyState {
    /// Weight of its domain in effect, which a governor may have changed.
    pub weight: u64,
    /// Slice in effect, if not that of the discipline.
    pub slice_ns: Option<u64>,
    /// What is counted in its favour; unit: the discipline's own.
    pub credit: i64,
    /// The class in which the policy has it, if it tells classes apart.
    pub class: Option<String>,
    /// A governor or a wake put it before its turn.
    pub boosted: bool,
}

impl From<Standing> for PolicyState {
    fn from(Standing { weight, slice_ns, credit, class, boosted }: Standing) -> PolicyState {
        PolicyState { weight, slice_ns, credit, class: class.map(str::to_owned), boosted }
    }
}

/// Single waits, from runnable to running.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Waits {
    /// Upper bound of a bucket in ns and how many waits fell into it; ascending, no bucket is empty.
    pub histogram: Vec<(u64, u64)>,
    /// The longest of all.
    pub worst: Option<WorstWait>,
}
