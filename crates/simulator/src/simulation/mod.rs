// SPDX-License-Identifier: GPL-2.0-only
//! One run of one host under one policy: the state, its creation, and the loop over events.
//!
//! What happens is split by who does it: the host scheduling vCPUs (`host`), the guest kernels
//! scheduling threads (`guest`), network and disk (`io`), and what is measured (`observe`, `honoured`).
//! Everything is an index into a vector; after the start nothing is allocated per event.

mod guest;
mod honoured;
mod host;
mod io;
mod observe;
mod others;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use steelyard_policy::{Parameters, Policy, Settings, ffi};

use crate::config::{ConfigError, Costs, Io, Setup};
use crate::engine;
use crate::idleness::Idleness;
use crate::measure::{SchedulingEvents, Trace};
use crate::numbers::{
    DomainNumber, Number, OfDomain, OfPcpu, OfQueue, OfTask, OfThread, OfVcpu, OtherNumber,
    PcpuNumber, QueueNumber, Table, TaskNumber, ThreadNumber, VcpuNumber,
};
use crate::random::Random;
use crate::run_queue::RunQueue;
use crate::timers::Timers;
use crate::topology::{Level, Mask, Topology};
use crate::units::CpuSet;
use crate::waits::WaitRecorder;
use crate::workload::{Backend, Order, Packet, Peer, Program, Workload};

use others::Others;

/// The first of the sets of pCPUs: all.
const EVERYWHERE: u32 = 0;

/// One run of one host under one policy. The same arguments give the same bytes, anywhere.
pub struct Simulation {
    // Constant.
    policy: Parameters,
    /// The engine, as far as this policy needs it.
    calls: &'static engine::Calls,
    label: String,
    seed: u64,
    topology: Topology,
    costs: Costs,
    io: Io,
    account_ns: u64,
    sample_ns: u64,
    /// See [`Simulation::take_single_steps`].
    single_steps: bool,
    /// Waits longer than this are late.
    late_ns: u64,
    /// See [`Host::thread_speed_percent`](crate::config::Host).
    thread_speed_percent: u32,
    /// From an interrupt of a pCPU that sleeps to its choice; 0: none sleeps.
    wake_up_ns: u64,
    /// Whether governors want to know what load is offered.
    wants_offered: bool,
    timer_base: TimerBase,
    /// Sets of pCPUs that vCPUs may use or prefer; the first is [`EVERYWHERE`]. And all their words.
    sets: Vec<Mask>,
    set_words: Vec<u64>,

    // The host.
    now_ns: u64,
    /// When the timer was set that fires now; after all of them u64::MAX.
    fired_set_ns: u64,
    timers: Timers,
    host: engine::Host,
    pcpus: Table<OfPcpu, Pcpu>,
    queues: Table<OfQueue, Queue>,
    domains: Table<OfDomain, Domain>,
    /// Control groups of domains, as domains without vCPUs.
    groups: Box<[engine::Domain]>,
    vcpus: Table<OfVcpu, Vcpu>,
    /// pCPUs with no vCPU that nobody has interrupted yet.
    idle: Mask,
    /// Queues in which a vCPU waits, and pCPUs that run a lesser one: the engine's, see `host.c`.
    waited: Vec<u64>,
    lesser: Vec<u64>,
    /// pCPUs that must choose again, in the order in which they were interrupted.
    interrupted: Vec<PcpuNumber>,
    /// pCPUs that someone came to or left, where threads of a core slow each other down.
    changed: Vec<PcpuNumber>,
    /// Queues that asked for balance.
    unbalanced: VecDeque<QueueNumber>,
    others: Others,
    /// Domains that have begun, in the order in which accounting visits them.
    account_order: Vec<DomainNumber>,
    /// Those that begin later.
    beginnings: Vec<Beginning>,

    // Guests and devices.
    threads: Table<OfThread, Thread>,
    tasks: Table<OfTask, Task>,
    /// Of each thread, if any replays who woke whom; else empty.
    causes: Table<OfThread, guest::Causes>,
    devices: io::Devices,
    orders: Vec<Order>,

    // What is measured.
    idleness: Idleness,
    scheduling_events: SchedulingEvents,
    guest_steps: u64,
    trace: Option<Trace>,
}

/// What the engine is told of a domain when it begins.
struct Beginning {
    domain: DomainNumber,
    /// One of [`Simulation::groups`], or null.
    group: *mut engine::Domain,
    settings: Settings,
    /// Where its vCPUs belong at first.
    homes: Vec<PcpuNumber>,
}

/// Where each kind of timer begins.
#[derive(Clone, Copy)]
struct TimerBase {
    tick: u32,
    vcpu: u32,
    domain: u32,
    thread: u32,
    accounting: u32,
    sample: u32,
    flight: u32,
}

// On a large host most time goes into fetching what these describe. So they keep the order in which
// they are written, what events touch first and together, and begin a cache line.

#[repr(C, align(64))]
struct Pcpu {
    engine: engine::Pcpu,
    /// Who runs here: the vCPU that the engine has here, or a task of the host.
    runs: VcpuNumber,
    sleep: Sleep,
    /// Speed at which the guest computes.
    speed_percent: u32,
    /// The vCPU that ran here last, whose data is in the caches.
    last: VcpuNumber,
    /// Up to when the guest's progress was worked out.
    progress_ns: u64,
    /// When to choose again.
    slice_end_ns: u64,
    idle_since_ns: u64,
    idle_ns: u64,
    switches: u64,
    /// vCPUs that were created here.
    placed: u32,
    history: observe::History,
}

/// Whether a pCPU must wake up before it can choose. Without `costs.idle_exit` none ever sleeps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sleep {
    Awake,
    /// It had nobody to run.
    Asleep,
    /// It was waited for, and chooses now.
    WokenUp,
}

#[repr(C, align(64))]
struct Queue {
    engine: engine::Queue,
    waiting: RunQueue<VcpuNumber>,
    /// Every vCPU that belongs here.
    members: Vec<VcpuNumber>,
}

impl Queue {
    /// The engine sees who waits, after a change.
    #[inline(always)]
    fn show_waiting(&mut self) {
        let waiting = self.waiting.waiting();
        self.engine.waiting = waiting.as_ptr();
        self.engine.waiting_count = waiting.len() as u32;
    }

    /// The engine sees who belongs here, after a change.
    fn show_members(&mut self) {
        self.engine.members = self.members.as_ptr();
        self.engine.members_count = self.members.len() as u32;
    }

    fn pcpus(&self) -> Range<PcpuNumber> {
        self.engine.first_pcpu..self.engine.end_pcpu
    }
}

#[repr(C, align(64))]
struct Domain {
    engine: engine::Domain,
    guest: guest::GuestKernel,
    tasks: Range<TaskNumber>,
    name: String,
    weight: u32,
    ungrouped: bool,
    cap_percent: u32,
    interface: io::Interface,
    /// Packets received and late waits so far.
    packets: u64,
    late_waits: u64,
    /// Sums at the last sample.
    sampled: ffi::Sample,
}

impl Domain {
    fn vcpus(&self) -> impl ExactSizeIterator<Item = VcpuNumber> + Clone + use<> {
        Number::range(self.engine.first_vcpu..self.engine.end_vcpu)
    }
}

const _: () = assert!(std::mem::offset_of!(Vcpu, allowed) == engine::VCPU_ALLOWED);
const _: () = assert!(std::mem::offset_of!(Vcpu, preferred) == engine::VCPU_PREFERRED);

#[repr(C, align(64))]
struct Vcpu {
    engine: engine::Vcpu,
    /// Set of pCPUs that it may use.
    allowed: u32,
    /// Set of those that it prefers; the same set: none.
    preferred: u32,
    /// Guest thread that it runs.
    thread: ThreadNumber,
    /// Place among the queue's members.
    member: u32,
    /// Which task of the host it is, if it is no vCPU.
    other: OtherNumber,
    /// Until when it ran last.
    left_ns: u64,
    /// Idleness of the pCPUs that it may use when it was queued.
    idle_mark_ns: u64,
    /// CPU time left before the guest's scheduler looks whether another thread should run.
    guest_left_ns: u64,
    /// CPU time that it still owes to the machinery.
    debt_ns: u64,
    /// How long a thread spins before the next pause-loop exit.
    pause_window_ns: u64,
    /// Work beyond whole ns that its guest has done, in hundredths.
    worked: u32,
    times: observe::Times,
    waits: WaitRecorder,
}

impl Vcpu {
    /// Since when it has its status.
    fn since_ns(&self) -> u64 {
        self.engine.since_ns - EPOCH_NS
    }

    /// Whether it waits, but is kept off its queue.
    fn is_kept(&self) -> bool {
        self.engine.parked && self.engine.status == engine::Status::Waiting
    }
}

#[repr(C, align(64))]
struct Thread {
    /// CPU time up to its next step.
    left_ns: u64,
    /// Length of the steps that it repeats; 0: its step is a single one.
    repeat_ns: u64,
    /// When the last of them ended, as far as that was worked out.
    ended_ns: u64,
    /// CPU time in its guest, for the guest's own scheduler.
    vruntime_ns: u64,
    /// Since when it could have gone on; u64::MAX while it does.
    ready_ns: u64,
    /// It spins for `lock`; then `left_ns` is the time up to a pause-loop exit.
    spins: bool,
    /// It is the next in line, and spins: nobody takes a paravirtual lock before it.
    next_in_line: bool,
    /// It computes in the guest's kernel.
    kernel: bool,
    /// It is the guest's kernel, which takes interrupts.
    interrupts: bool,
    /// Another thread is to run as soon as it leaves the guest's kernel.
    resched: bool,
    /// For how long it has spun for `lock`, up to its last pause-loop exit.
    spun_ns: u64,
    /// The spin lock of its task that it wants or holds, and for how much CPU time.
    lock: u32,
    hold_ns: u64,
    held: guest::Held,
    /// Since when it has or had it.
    acquired_ns: u64,
    status: guest::ThreadStatus,
    task: TaskNumber,
    /// Number within its task.
    index: u32,
    domain: DomainNumber,
    /// vCPU that it must stay on.
    bound: VcpuNumber,
    /// vCPU that runs it or ran it last.
    vcpu: VcpuNumber,
    received: Option<Packet>,
    request: io::Request,
    random: Random,
}

struct Task {
    domain: DomainNumber,
    name: String,
    program: Box<dyn Program>,
    reads_stat: bool,
    outside: Random,
    inbox: VecDeque<Packet>,
    /// Threads that wait for a packet.
    receivers: VecDeque<ThreadNumber>,
    locks: Vec<guest::SpinLock>,
    semaphores: Vec<guest::Semaphore>,
}

fn start_ns(setup: &Setup, domain: DomainNumber) -> u64 {
    setup.domains[domain.0 as usize].start.0
}

/// What one of each takes, in bytes.
pub(crate) mod sizes {
    pub const PCPU: usize = size_of::<super::Pcpu>();
    pub const QUEUE: usize = size_of::<super::Queue>();
    pub const DOMAIN: usize = size_of::<super::Domain>();
    pub const VCPU: usize = size_of::<super::Vcpu>();
    pub const THREAD: usize = size_of::<super::Thread>();
    pub const TASK: usize = size_of::<super::Task>();
    pub const LOCK: usize = size_of::<super::guest::SpinLock>();
    pub const FLIGHT: usize = size_of::<super::io::Flight>();
    pub const TIMER: usize = crate::timers::TIMER_BYTES;
}

// SAFETY: the pointers in it are into what it owns itself, and are used by calls that borrow all of it.
unsafe impl Send for Simulation {}

impl Simulation {
    /// A host at time 0.
    ///
    /// # Errors
    /// What is wrong and where: see [`Setup::validate`].
    pub fn new(setup: &Setup, policy: &Policy, seed: u64) -> Result<Simulation, ConfigError> {
        setup.validate()?;
        let parameters = policy.parameters().clone();
        let topology = Topology::new(&setup.host);
        let pcpus = topology.pcpus;
        let vcpus = setup.domains.iter().map(|domain| domain.vcpus as usize).sum();
        let all = Mask::of(pcpus, (0..pcpus).map(Number::new));
        let lines = pcpus.div_ceil(topology.level_pcpus[Level::Cache as usize]);
        let others = Others::of(setup, policy, pcpus, lines);
        let mut simulation = Simulation {
            calls: engine::calls(&parameters),
            label: policy.to_string(),
            seed,
            costs: setup.host.costs.clone(),
            io: setup.host.io.clone(),
            account_ns: ffi::sy_account_ns(&parameters),
            sample_ns: ffi::sy_sample_ns(&parameters),
            single_steps: false,
            late_ns: ffi::sy_late_ns(&parameters),
            wants_offered: ffi::sy_wants_offered(&parameters),
            thread_speed_percent: match setup.host.threads_per_core {
                1 => FULL_SPEED,
                _ => setup.host.thread_speed_percent,
            },
            wake_up_ns: match setup.host.costs.idle_exit.0 {
                0 => 0,
                idle_exit_ns => setup.host.costs.interrupt.0.saturating_add(idle_exit_ns),
            },
            timer_base: TimerBase {
                tick: 0,
                vcpu: 0,
                domain: 0,
                thread: 0,
                accounting: 0,
                sample: 0,
                flight: 0,
            },
            sets: vec![all.clone()],
            set_words: vec![],
            // Policies take a time of 0 for "never".
            now_ns: 0,
            fired_set_ns: u64::MAX,
            timers: Timers::new(0),
            host: engine::Host::default(),
            pcpus: Table::with_capacity(pcpus as usize),
            queues: Table::with_capacity(pcpus as usize),
            // They stay where they are, see `engine::Tables`.
            domains: Table::with_capacity(setup.domains.len()),
            groups: setup.host.group.iter().map(|_| engine::Domain::default()).collect(),
            vcpus: Table::with_capacity(vcpus),
            idle: all,
            waited: vec![0; pcpus.div_ceil(64) as usize],
            lesser: vec![0; pcpus.div_ceil(64) as usize],
            interrupted: vec![],
            changed: vec![],
            unbalanced: VecDeque::new(),
            account_order: Vec::with_capacity(setup.domains.len()),
            beginnings: vec![],
            others,
            threads: Table::with_capacity(0),
            tasks: Table::with_capacity(setup.domains.len()),
            causes: Table::with_capacity(0),
            devices: io::Devices::default(),
            orders: vec![],
            idleness: Idleness::new(&[], pcpus),
            scheduling_events: SchedulingEvents::default(),
            guest_steps: 0,
            trace: None,
            policy: parameters,
            topology,
        };
        simulation.create_pcpus();
        simulation.set_tables();
        simulation.begin();
        simulation.begin_groups(&setup.host.group);
        for domain in &setup.domains {
            simulation.create_domain(domain, &setup.host);
        }
        simulation.introduce_peers(setup);
        simulation.show_sets();
        simulation.idleness = Idleness::new(&simulation.sets, pcpus);
        simulation.create_timers(setup);
        let later = |beginning: &mut Beginning| start_ns(setup, beginning.domain) > 0;
        let mut beginnings = std::mem::take(&mut simulation.beginnings);
        simulation.beginnings = beginnings.extract_if(.., later).collect();
        for beginning in beginnings {
            simulation.domain_begin(beginning);
        }
        Ok(simulation)
    }

    fn create_pcpus(&mut self) {
        self.host.pcpus = self.topology.pcpus;
        self.host.level_pcpus = self.topology.level_pcpus;
        for range in self.queue_ranges() {
            self.pcpus.extend(Number::range(range.clone()).map(|_| Pcpu {
                engine: engine::Pcpu::default(),
                placed: 0,
                runs: Number::NONE,
                sleep: if self.wake_up_ns > 0 { Sleep::Asleep } else { Sleep::Awake },
                speed_percent: FULL_SPEED,
                last: Number::NONE,
                progress_ns: 0,
                slice_end_ns: 0,
                idle_since_ns: 0,
                idle_ns: 0,
                switches: 0,
                history: observe::History::default(),
            }));
            let engine = engine::Queue::of(&range);
            self.queues.push(Queue { engine, waiting: RunQueue::default(), members: vec![] });
        }
    }

    /// Tells the engine where everything is.
    fn set_tables(&mut self) {
        let host = &mut self.host;
        host.began_ns = EPOCH_NS;
        host.queues = self.queues.len() as u32;
        host.tables = engine::Tables {
            vcpus: self.vcpus.as_mut_ptr().cast(),
            domains: self.domains.as_mut_ptr().cast(),
            queues: self.queues.as_mut_ptr().cast(),
            pcpus: self.pcpus.as_mut_ptr().cast(),
            vcpu_bytes: size_of::<Vcpu>() as u32,
            domain_bytes: size_of::<Domain>() as u32,
            queue_bytes: size_of::<Queue>() as u32,
            pcpu_bytes: size_of::<Pcpu>() as u32,
            sets: self.set_words.as_ptr(),
            idle: self.idle.words().as_ptr(),
            waited: self.waited.as_mut_ptr(),
            lesser: self.lesser.as_mut_ptr(),
            words: self.idle.words().len() as u32,
            account_count: 0,
            account_order: self.account_order.as_ptr(),
        };
    }

    /// The same of the sets of pCPUs, once all are known.
    fn show_sets(&mut self) {
        self.set_words = self.sets.iter().flat_map(Mask::words).copied().collect();
        self.host.tables.sets = self.set_words.as_ptr();
    }

    fn create_domain(&mut self, config: &crate::config::Domain, host: &crate::config::Host) {
        let domain = self.domains.next();
        let reservation = config.sedf.as_ref();
        let settings = Settings {
            weight: config.weight.into(),
            cap_percent: config.cap_percent.into(),
            cap_burst_ns: config.cap_burst.0,
            slice_ns: config.slice.map_or(0, |slice| slice.0),
            period_ns: reservation.map_or(0, |reservation| reservation.period.0),
            reserved_ns: reservation.map_or(0, |reservation| reservation.slice.0),
            // Who reserves nothing lives on spare time too, as Xen's guests did.
            extra_time: reservation.is_none_or(|reservation| reservation.extra_time).into(),
            // 0 would be "not asked"; 1 ns is less than any credit.
            boost_limit_ns: config.boost.as_ref().map_or(0, |boost| boost.limit.0.max(1)),
            boost_percent: config.boost.as_ref().map_or(0, |boost| boost.ratio_percent.into()),
            load_percent: config.load_percent.into(),
            ungrouped: config.ungrouped.into(),
        };
        let first_vcpu = self.vcpus.next();
        let first_task = self.tasks.next();
        self.domains.push(Domain {
            engine: engine::Domain {
                first_vcpu,
                end_vcpu: Number::new(first_vcpu.0 + config.vcpus),
                ..engine::Domain::default()
            },
            name: config.name.clone(),
            weight: config.weight,
            ungrouped: config.ungrouped,
            cap_percent: config.cap_percent,
            interface: io::Interface::new(self.io.vif.as_ref()),
            packets: 0,
            late_waits: 0,
            sampled: ffi::Sample::default(),
            tasks: first_task..first_task,
            guest: guest::GuestKernel::new(config),
        });
        let create = |index| self.create_vcpu(domain, index, config);
        let homes = (0..config.vcpus).map(create).collect();
        if !self.others.have(config.host_tasks.as_ref()) {
            let group = self.group(&host.group, config.group.as_ref());
            self.beginnings.push(Beginning { domain, group, settings, homes });
        }
        for task in &config.task {
            let name = task.name.clone().unwrap_or_else(|| task.workload.name().to_owned());
            self.create_task(domain, name, task.threads, task.workload.program(task.threads));
        }
        if host.io.driver_domain.as_ref() == Some(&config.name) {
            self.devices.driver = self.tasks.next();
            let backend = Box::new(Backend::new(config.vcpus));
            self.create_task(domain, "backend".to_owned(), config.vcpus, backend);
        }
        self.domains[domain].tasks.end = self.tasks.next();
    }

    /// The number of this set.
    fn set_number(&mut self, mask: Mask) -> u32 {
        let known = self.sets.iter().position(|other| *other == mask);
        let number = known.unwrap_or_else(|| {
            self.sets.push(mask);
            self.sets.len() - 1
        });
        number as u32
    }

    /// The set that is given for this vCPU, for all, or for none.
    fn given_mask(&self, sets: &[CpuSet], index: u32) -> Option<Mask> {
        let set = match sets {
            [one] => Some(one),
            each => each.get(index as usize),
        };
        set.map(|set| Mask::of(self.topology.pcpus, set.iter().map(Number::new)))
    }

    /// Where it belongs at first.
    fn create_vcpu(
        &mut self,
        domain: DomainNumber,
        index: u32,
        config: &crate::config::Domain,
    ) -> PcpuNumber {
        let pin = self.given_mask(&config.pin, index);
        let allowed = pin.map_or(EVERYWHERE, |mask| self.set_number(mask));
        let soft = self.given_mask(&config.pin_soft, index);
        let preferred = soft.and_then(|mask| mask.common(&self.sets[allowed as usize]));
        let preferred = preferred.map_or(allowed, |mask| self.set_number(mask));
        let pcpu = self.home(index, config, preferred);
        self.pcpus[pcpu].placed += 1;

        let vcpu = self.vcpus.next();
        self.vcpus.push(Vcpu {
            engine: engine::Vcpu::of(domain, EPOCH_NS),
            allowed,
            preferred,
            thread: Number::NONE,
            member: 0,
            other: Number::NONE,
            left_ns: 0,
            idle_mark_ns: 0,
            guest_left_ns: 0,
            debt_ns: 0,
            pause_window_ns: 0,
            worked: 0,
            times: observe::Times::default(),
            waits: WaitRecorder::default(),
        });
        if let Some(tasks) =
            config.host_tasks.as_ref().filter(|tasks| self.others.have(Some(tasks)))
        {
            self.vcpus[vcpu].other = self.others.add(tasks, pcpu);
        }
        pcpu
    }

    /// Where a vCPU that prefers this set belongs at first: where it was recorded to have run, or else where fewest
    /// belong already; among equals the first.
    fn home(&self, index: u32, config: &crate::config::Domain, preferred: u32) -> PcpuNumber {
        let mask = &self.sets[preferred as usize];
        let usable = || self.pcpus.numbers().filter(|&pcpu| mask.contains(pcpu));
        let recorded = config.task.iter().find_map(|task| task.workload.first_pcpu(index));
        recorded
            .and_then(|recorded| usable().find(|pcpu| pcpu.0 == recorded))
            .or_else(|| usable().min_by_key(|&pcpu| self.pcpus[pcpu].placed))
            .unwrap_or_default()
    }

    fn create_task(
        &mut self,
        domain: DomainNumber,
        name: String,
        threads: u32,
        program: Box<dyn Program>,
    ) {
        let task = self.tasks.next();
        let first_task = self.domains[domain].tasks.start;
        let domain_name = self.domains[domain].name.clone();
        let task_number = (task.0 - first_task.0).to_string();
        let stream = |part: &str| Random::named(self.seed, &[&domain_name, &task_number, part]);
        let engine::Domain { first_vcpu, end_vcpu, .. } = self.domains[domain].engine;
        let vcpu = |index| Number::new(first_vcpu.0 + index % (end_vcpu.0 - first_vcpu.0));
        self.threads.extend((0..threads).map(|index| Thread {
            task,
            index,
            domain,
            bound: program.vcpu(index).map_or(Number::NONE, vcpu),
            // Spread over the vCPUs at first.
            vcpu: vcpu(index),
            status: guest::ThreadStatus::Asleep,
            left_ns: 0,
            repeat_ns: 0,
            ended_ns: 0,
            vruntime_ns: 0,
            ready_ns: 0,
            spins: false,
            next_in_line: false,
            spun_ns: 0,
            kernel: false,
            interrupts: program.interrupts(index),
            resched: false,
            lock: 0,
            hold_ns: 0,
            held: guest::Held::Not,
            acquired_ns: 0,
            received: None,
            request: io::Request::default(),
            random: stream(&index.to_string()),
        }));
        let outside = stream("outside");
        let locks = (0..program.locks()).map(|_| guest::SpinLock::default()).collect();
        let semaphores = program.semaphores().into_iter().map(guest::Semaphore::new).collect();
        self.tasks.push(Task {
            domain,
            name,
            reads_stat: program.reads_stat(),
            program,
            outside,
            inbox: VecDeque::new(),
            receivers: VecDeque::new(),
            locks,
            semaphores,
        });
    }

    /// Tells threads that replay who woke whom which thread is who.
    fn introduce_peers(&mut self, setup: &Setup) {
        let mut recordings: BTreeMap<&str, Vec<(TaskNumber, Peer)>> = BTreeMap::new();
        let (mut task, mut first) = (TaskNumber::new(0), ThreadNumber::new(0));
        for domain in &setup.domains {
            for config in &domain.task {
                if let Workload::Replay(replay) = &config.workload
                    && replay.causes
                {
                    let wakes = replay.threads.iter().map(|thread| thread.wakes.len() as u32);
                    let (process, threads) = (replay.process, config.threads);
                    let peer = Peer { process, first, threads, wakes: wakes.collect() };
                    recordings.entry(&replay.recording).or_default().push((task, peer));
                }
                task = Number::new(task.0 + 1);
                first = Number::new(first.0 + config.threads);
            }
            if setup.host.io.driver_domain.as_ref() == Some(&domain.name) {
                task = Number::new(task.0 + 1);
                first = Number::new(first.0 + domain.vcpus);
            }
        }
        for (_, mut replayed) in recordings {
            replayed.sort_by_key(|(_, peer)| peer.process);
            // Of a process that is replayed more than once nobody knows whom its threads wake.
            let only: Vec<_> = replayed
                .chunk_by(|(_, one), (_, other)| one.process == other.process)
                .filter_map(|same| <&[_; 1]>::try_from(same).ok())
                .flatten()
                .collect();
            let peers: Arc<[Peer]> = only.iter().map(|(_, peer)| peer.clone()).collect();
            for &&(task, _) in &only {
                self.tasks[task].program.meet(&peers);
            }
            if peers.iter().any(|peer| peer.wakes.iter().any(|&wakes| wakes > 0)) {
                let all = self.threads.numbers().map(|_| guest::Causes::default());
                self.causes = Table::with_capacity(self.threads.len());
                self.causes.extend(all);
            }
        }
    }

    fn create_timers(&mut self, setup: &Setup) {
        let pcpus = self.pcpus.len();
        let mut timers = Timers::new(pcpus);
        self.timer_base = TimerBase {
            tick: timers.grow(pcpus),
            vcpu: timers.grow(self.vcpus.len()),
            domain: timers.grow(self.domains.len()),
            thread: timers.grow(self.threads.len()),
            accounting: timers.grow(1),
            sample: timers.grow(1),
            flight: timers.grow(0),
        };
        self.timers = timers;
        if self.account_ns > 0 {
            self.timers.set(self.timer_base.accounting, self.account_ns);
        }
        if self.sample_ns > 0 {
            self.timers.set(self.timer_base.sample, self.sample_ns);
        }
        // What falls on one time comes in this order: a domain begins before its threads start.
        for domain in self.domains.numbers() {
            match start_ns(setup, domain) {
                0 => {}
                start_ns => self.launch(io::Flight::Begin(domain), start_ns),
            }
        }
        for thread in self.threads.numbers() {
            let start_ns = start_ns(setup, self.threads[thread].domain);
            self.timers.set(self.timer_base.thread + thread.0, start_ns);
        }
        for task in self.tasks.numbers() {
            let start_ns = start_ns(setup, self.tasks[task].domain);
            self.launch(io::Flight::Start(task), start_ns);
        }
    }

    /// The time has come for which one of [`Simulation::beginnings`] waits, if there is one.
    fn begin_later(&mut self, domain: DomainNumber) {
        let is_this = |beginning: &Beginning| beginning.domain == domain;
        if let Some(place) = self.beginnings.iter().position(is_this) {
            let beginning = self.beginnings.swap_remove(place);
            self.domain_begin(beginning);
        }
    }

    /// The clock as policies see it: it starts above zero.
    #[inline]
    fn policy_now(&self) -> u64 {
        self.now_ns + EPOCH_NS
    }

    /// Records who runs and who waits from `start_ns` to `end_ns`. Call it before the run.
    pub fn trace(&mut self, start_ns: u64, end_ns: u64) {
        self.trace = Some(Trace { start_ns, end_ns, segments: vec![] });
    }

    /// Guests take each step by itself, also those that they repeat. For tests: the same happens, more slowly.
    #[doc(hidden)]
    pub fn take_single_steps(&mut self) {
        self.single_steps = true;
    }

    /// Runs until this time, from where it stopped.
    #[inline(never)] // What it calls is better inlined into it than it into its caller.
    pub fn run_until(&mut self, end_ns: u64) {
        while let Some(fired) = self.timers.pop(end_ns) {
            self.now_ns = fired.time_ns;
            self.fired_set_ns = fired.set_ns;
            self.fire(fired.timer);
            self.settle();
        }
        self.now_ns = self.now_ns.max(end_ns);
        self.fired_set_ns = u64::MAX;
    }

    /// The same for whoever may want an end before: several times a second `watch` is told the time up to which it
    /// ran. That changes nothing.
    ///
    /// # Errors
    /// That of `watch`; then it stopped before `end_ns`.
    pub fn run_watched<E>(
        &mut self,
        end_ns: u64,
        mut watch: impl FnMut(u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let part_ns = PART_CPU_NS / self.pcpus.len() as u64;
        loop {
            let part_end_ns = self.now_ns.saturating_add(part_ns.max(1)).min(end_ns);
            self.run_until(part_end_ns);
            if part_end_ns == end_ns {
                return Ok(());
            }
            watch(self.now_ns)?;
        }
    }

    /// The time up to which it ran.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn fire(&mut self, timer: u32) {
        let base = self.timer_base;
        if timer < base.tick {
            self.pcpu_event(Number::new(timer));
        } else if timer < base.vcpu {
            self.tick(Number::new(timer - base.tick));
        } else if timer == base.accounting {
            self.account();
        } else if timer < base.domain {
            self.scheduling_events.policy_timers += 1;
            self.vcpu_timer(Number::new(timer - base.vcpu));
        } else if timer < base.thread {
            self.scheduling_events.policy_timers += 1;
            self.domain_timer(Number::new(timer - base.domain));
        } else if timer < base.accounting {
            self.guest_steps += 1;
            self.thread_wake(Number::new(timer - base.thread));
        } else if timer == base.sample {
            self.scheduling_events.policy_timers += 1;
            self.sample();
        } else {
            self.guest_steps += 1;
            self.land(timer - base.flight);
        }
    }

    /// Lets interrupted pCPUs choose, until none is left.
    #[inline(always)]
    fn settle(&mut self) {
        let mut next = 0;
        loop {
            if let Some(&pcpu) = self.interrupted.get(next) {
                next += 1;
                self.pcpus[pcpu].engine.interrupted = false;
                self.others.answer(pcpu);
                self.schedule(pcpu);
            } else if let Some(queue) = self.unbalanced.pop_front() {
                self.balance(queue);
            } else {
                break;
            }
        }
        self.interrupted.clear();
        if !self.changed.is_empty() {
            self.share_cores();
        }
    }

    /// Threads of a core compute as fast as who is beside them now lets them.
    #[inline(never)] // Most hosts have no such threads.
    fn share_cores(&mut self) {
        let threads = self.topology.level_pcpus[Level::Core as usize];
        while let Some(changed) = self.changed.pop() {
            let first = changed.0 - changed.0 % threads;
            for sibling in Number::range(Number::new(first)..Number::new(first + threads)) {
                let speed_percent = self.speed_percent(sibling);
                if self.pcpus[sibling].speed_percent == speed_percent {
                    continue;
                }
                if self.pcpus[sibling].runs == Number::NONE {
                    self.pcpus[sibling].speed_percent = speed_percent;
                    continue;
                }
                self.progress(sibling);
                self.pcpus[sibling].speed_percent = speed_percent;
                self.arm(sibling);
            }
        }
    }

    /// At which the guest on this pCPU computes now.
    fn speed_percent(&self, pcpu: PcpuNumber) -> u32 {
        let threads = self.topology.level_pcpus[Level::Core as usize];
        let first = pcpu.0 - pcpu.0 % threads;
        let mut others = (first..first + threads).map(Number::new).filter(|&other| other != pcpu);
        match others.any(|other| self.pcpus[other].runs != Number::NONE) {
            true => self.thread_speed_percent,
            false => FULL_SPEED,
        }
    }
}

/// Of a thread that has its core for itself.
const FULL_SPEED: u32 = 100;

/// Time of all pCPUs together between two looks of who watches. Few things happen on a pCPU more often than each
/// microsecond: so it takes well below a second, on a large host and in a debug build too. A count of events would cost
/// 0.6 to 1.1 % of the instructions.
const PART_CPU_NS: u64 = 100_000_000;

/// What the policies' clock shows at the beginning: they take a time of 0 for "never".
const EPOCH_NS: u64 = 1_000_000_000;
