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

use std::collections::VecDeque;

use steelyard_policy::{Parameters, Policy, Settings, ffi};

use crate::config::{ConfigError, Costs, Io, Setup};
use crate::idleness::Idleness;
use crate::measure::{Events, Trace};
use crate::random::Random;
use crate::run_queue::RunQueue;
use crate::timers::Timers;
use crate::topology::{Mask, Topology};
use crate::waits::WaitRecorder;
use crate::workload::{Backend, Order, Packet, Program};

/// No index.
const NONE: u32 = u32::MAX;

/// The first of the sets of pCPUs that vCPUs may use: all.
const EVERYWHERE: u32 = 0;

/// One run of one host under one policy. The same arguments give the same bytes, anywhere.
pub struct Simulation {
    // Constant.
    policy: Parameters,
    label: String,
    seed: u64,
    topology: Topology,
    costs: Costs,
    io: Io,
    tick_ns: u64,
    account_ns: u64,
    sample_ns: u64,
    /// Waits longer than this are late.
    late_ns: u64,
    timer_base: TimerBase,
    /// Sets of pCPUs that vCPUs may use; the first is [`EVERYWHERE`].
    allowed: Vec<Mask>,

    // The host.
    now_ns: u64,
    end_ns: u64,
    timers: Timers,
    accounting: ffi::Accounting,
    governor: ffi::Governor,
    pcpus: Vec<Pcpu>,
    queues: Vec<Queue>,
    domains: Vec<Domain>,
    vcpus: Vec<Vcpu>,
    /// pCPUs with no vCPU that nobody has interrupted yet.
    idle: Mask,
    /// Queues in which a vCPU waits.
    nonempty: Mask,
    /// pCPUs that must choose again, in the order in which they were interrupted.
    interrupted: Vec<u32>,
    /// Queues that asked for balance.
    unbalanced: VecDeque<u32>,
    /// Where the search for an idle pCPU in rotation goes on.
    rotor: u32,
    /// Domains in the order in which accounting visits them.
    account_order: Vec<u32>,

    // Guests and devices.
    threads: Vec<Thread>,
    tasks: Vec<Task>,
    devices: io::Devices,
    orders: Vec<Order>,

    // What is measured.
    idleness: Idleness,
    events: Events,
    trace: Option<Trace>,
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
    state: ffi::Pcpu,
    /// The vCPU that runs here.
    current: u32,
    queue: u32,
    /// The vCPU that ran here last, whose data is in the caches.
    last: u32,
    interrupted: bool,
    /// Up to when `current` was charged.
    charged_ns: u64,
    /// Time between ticks, of the tick that comes.
    tick_ns: u64,
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

#[repr(C, align(64))]
struct Queue {
    waiting: RunQueue,
    state: ffi::Queue,
    pcpus: Vec<u32>,
    /// Every vCPU that belongs here.
    members: Vec<u32>,
    /// Balances so far.
    balances: u32,
}

#[repr(C, align(64))]
struct Domain {
    guest: guest::GuestKernel,
    vcpus: std::ops::Range<u32>,
    state: ffi::Domain,
    tasks: std::ops::Range<u32>,
    name: String,
    weight: u32,
    cap_percent: u32,
    /// Packets received and late waits so far.
    packets: u64,
    late_waits: u64,
    /// Sums at the last sample.
    sampled: ffi::Sample,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Blocked,
    Waiting,
    Running,
}

#[repr(C, align(64))]
struct Vcpu {
    state: ffi::Vcpu,
    domain: u32,
    /// Guest thread that it runs.
    thread: u32,
    queue: u32,
    allowed: u32,
    /// A running vCPU: the pCPU whose queue it moves to when it stops.
    move_to: u32,
    /// pCPU on which it ran last, and until when.
    ran_on: u32,
    left_ns: u64,
    status: Status,
    /// Kept off the queue by a cap or reservation.
    parked: bool,
    /// Woken and not yet run.
    woken: bool,
    /// In the queue, with this key.
    queued: bool,
    /// Idleness of the pCPUs that it may use when it was queued.
    idle_mark_ns: u64,
    /// Place among the queue's members.
    member: u32,
    key: u64,
    /// CPU time left before the guest's scheduler looks whether another thread should run.
    guest_left_ns: u64,
    /// CPU time that it still owes to the machinery.
    debt_ns: u64,
    /// Since when it has this status, and since when it is parked.
    since_ns: u64,
    parked_ns: u64,
    times: observe::Times,
    waits: WaitRecorder,
}

#[repr(C, align(64))]
struct Thread {
    /// CPU time up to its next step.
    left_ns: u64,
    /// CPU time in its guest, for the guest's own scheduler.
    vruntime_ns: u64,
    /// Since when it could have gone on; u64::MAX while it does.
    ready_ns: u64,
    /// It spins for `lock`; then `left_ns` is the time up to a pause-loop exit.
    spins: bool,
    /// It computes in the guest's kernel.
    kernel: bool,
    /// Another thread is to run as soon as it leaves the guest's kernel.
    resched: bool,
    /// The spin lock of its task that it wants.
    lock: u32,
    /// Spin locks that it holds.
    held: u32,
    status: guest::ThreadStatus,
    task: u32,
    /// Number within its task.
    index: u32,
    domain: u32,
    /// vCPU that it must stay on.
    bound: u32,
    /// vCPU that runs it or ran it last.
    vcpu: u32,
    received: Option<Packet>,
    random: Random,
}

struct Task {
    domain: u32,
    name: String,
    program: Box<dyn Program>,
    outside: Random,
    inbox: VecDeque<Packet>,
    /// Threads that wait for a packet.
    receivers: VecDeque<u32>,
    locks: Vec<guest::SpinLock>,
    semaphores: Vec<guest::Semaphore>,
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
        let mut simulation = Simulation {
            label: policy.to_string(),
            seed,
            costs: setup.host.costs.clone(),
            io: setup.host.io.clone(),
            tick_ns: ffi::sy_tick_ns(&parameters),
            account_ns: ffi::sy_account_ns(&parameters),
            sample_ns: ffi::sy_sample_ns(&parameters),
            late_ns: ffi::sy_late_ns(&parameters),
            timer_base: TimerBase {
                tick: 0,
                vcpu: 0,
                domain: 0,
                thread: 0,
                accounting: 0,
                sample: 0,
                flight: 0,
            },
            allowed: vec![Mask::of(pcpus, 0..pcpus)],
            // Policies take a time of 0 for "never".
            now_ns: 0,
            end_ns: 0,
            timers: Timers::new(0),
            accounting: ffi::Accounting::default(),
            governor: ffi::Governor::default(),
            pcpus: vec![],
            queues: vec![],
            domains: vec![],
            vcpus: vec![],
            idle: Mask::of(pcpus, 0..pcpus),
            nonempty: Mask::empty(pcpus),
            interrupted: vec![],
            unbalanced: VecDeque::new(),
            rotor: 0,
            account_order: (0..setup.domains.len() as u32).collect(),
            threads: vec![],
            tasks: vec![],
            devices: io::Devices::default(),
            orders: vec![],
            idleness: Idleness::new(&[], pcpus),
            events: Events::default(),
            trace: None,
            policy: parameters,
            topology,
        };
        simulation.create_pcpus();
        for domain in &setup.domains {
            simulation.create_domain(domain, setup.host.io.driver_domain.as_ref());
        }
        simulation.idleness = Idleness::new(&simulation.allowed, pcpus);
        simulation.create_timers(setup);
        Ok(simulation)
    }

    fn create_pcpus(&mut self) {
        let pcpus = self.topology.pcpus;
        ffi::sy_accounting_init(&self.policy, &mut self.accounting, pcpus.into());
        let ranges =
            self.topology.queues(self.policy.scope(), ffi::sy_queue_pcpus_max(&self.policy));
        for range in ranges {
            let mut state = ffi::Queue::of(range.len() as u32);
            ffi::sy_queue_init(&self.policy, &mut state, pcpus.into());
            let queue = self.queues.len() as u32;
            self.pcpus.extend(range.clone().map(|pcpu| Pcpu {
                state: ffi::Pcpu::numbered(pcpu),
                queue,
                placed: 0,
                current: NONE,
                last: NONE,
                charged_ns: 0,
                tick_ns: 0,
                progress_ns: 0,
                slice_end_ns: 0,
                idle_since_ns: 0,
                idle_ns: 0,
                switches: 0,
                interrupted: false,
                history: observe::History::default(),
            }));
            let waiting = RunQueue::default();
            let pcpus = range.collect();
            self.queues.push(Queue { state, waiting, pcpus, members: vec![], balances: 0 });
        }
    }

    fn create_domain(&mut self, config: &crate::config::Domain, driver_domain: Option<&String>) {
        let domain = self.domains.len() as u32;
        let mut state = ffi::Domain::of(u64::from(domain) + 1);
        let reservation = config.sedf.as_ref();
        let settings = Settings {
            weight: config.weight.into(),
            cap_percent: config.cap_percent.into(),
            slice_ns: config.slice.map_or(0, |slice| slice.0),
            period_ns: reservation.map_or(0, |reservation| reservation.period.0),
            reserved_ns: reservation.map_or(0, |reservation| reservation.slice.0),
            // Who reserves nothing lives on spare time too, as Xen's guests did.
            extra_time: reservation.is_none_or(|reservation| reservation.extra_time).into(),
            // 0 would be "not asked"; 1 ns is less than any credit.
            boost_limit_ns: config.boost.as_ref().map_or(0, |boost| boost.limit.0.max(1)),
            boost_percent: config.boost.as_ref().map_or(0, |boost| boost.ratio_percent.into()),
        };
        let now = self.policy_now();
        ffi::sy_domain_init(&self.policy, &mut state, &settings, config.vcpus.into(), now);
        let first_vcpu = self.vcpus.len() as u32;
        let first_task = self.tasks.len() as u32;
        self.domains.push(Domain {
            state,
            name: config.name.clone(),
            weight: config.weight,
            cap_percent: config.cap_percent,
            packets: 0,
            late_waits: 0,
            sampled: ffi::Sample::default(),
            vcpus: first_vcpu..first_vcpu + config.vcpus,
            tasks: first_task..first_task,
            guest: guest::GuestKernel::new(config.guest_slice.0, config.guest_locks),
        });
        for index in 0..config.vcpus {
            let pin = match config.pin.as_slice() {
                [] => None,
                [one] => Some(one),
                each => each.get(index as usize),
            };
            self.create_vcpu(domain, pin);
        }
        for task in &config.task {
            let name = task.name.clone().unwrap_or_else(|| task.workload.name().to_owned());
            self.create_task(domain, name, task.threads, task.workload.program(task.threads));
        }
        if driver_domain == Some(&config.name) {
            self.devices.driver = self.tasks.len() as u32;
            let backend = Box::new(Backend::new(config.vcpus));
            self.create_task(domain, "backend".to_owned(), config.vcpus, backend);
        }
        self.domains[domain as usize].tasks.end = self.tasks.len() as u32;
    }

    fn create_vcpu(&mut self, domain: u32, pin: Option<&crate::units::CpuSet>) {
        let pcpus = self.topology.pcpus;
        let allowed = match pin {
            None => EVERYWHERE as usize,
            Some(pin) => {
                let mask = Mask::of(pcpus, pin.iter());
                let known = self.allowed.iter().position(|other| *other == mask);
                known.unwrap_or_else(|| {
                    self.allowed.push(mask);
                    self.allowed.len() - 1
                })
            }
        };
        // Where fewest vCPUs belong already, per pCPU; among equals the first.
        let mask = &self.allowed[allowed];
        let pcpu = (0..pcpus)
            .filter(|&pcpu| mask.contains(pcpu))
            .min_by_key(|&pcpu| self.pcpus[pcpu as usize].placed)
            .unwrap_or(0);
        self.pcpus[pcpu as usize].placed += 1;

        let now = self.policy_now();
        let queue = self.pcpus[pcpu as usize].queue;
        let mut state = ffi::Vcpu::on(pcpu);
        state.index = self.vcpus.len() as u32 - self.domains[domain as usize].vcpus.start;
        let domain_state = &mut self.domains[domain as usize].state;
        ffi::sy_vcpu_init(&self.policy, domain_state, &mut state, now);
        let members = &mut self.queues[queue as usize].members;
        let member = members.len() as u32;
        members.push(self.vcpus.len() as u32);
        let requests = ffi::sy_join(
            &self.policy,
            &mut self.queues[queue as usize].state,
            domain_state,
            &mut state,
            now,
        );
        self.vcpus.push(Vcpu {
            state,
            domain,
            queue,
            member,
            status: Status::Blocked,
            parked: false,
            queued: false,
            idle_mark_ns: 0,
            key: 0,
            woken: false,
            move_to: NONE,
            allowed: allowed as u32,
            ran_on: NONE,
            left_ns: 0,
            thread: NONE,
            guest_left_ns: 0,
            debt_ns: 0,
            since_ns: 0,
            parked_ns: 0,
            times: observe::Times::default(),
            waits: WaitRecorder::default(),
        });
        self.queue_requests(queue, requests);
    }

    fn create_task(&mut self, domain: u32, name: String, threads: u32, program: Box<dyn Program>) {
        let task = self.tasks.len() as u32;
        let first_task = self.domains[domain as usize].tasks.start;
        let domain_name = self.domains[domain as usize].name.clone();
        let task_number = (task - first_task).to_string();
        let stream = |part: &str| Random::named(self.seed, &[&domain_name, &task_number, part]);
        let vcpus = &self.domains[domain as usize].vcpus;
        self.threads.extend((0..threads).map(|index| Thread {
            task,
            index,
            domain,
            bound: program.vcpu(index).map_or(NONE, |vcpu| vcpus.start + vcpu % vcpus.len() as u32),
            // Spread over the vCPUs at first.
            vcpu: vcpus.start + index % vcpus.len() as u32,
            status: guest::ThreadStatus::Asleep,
            left_ns: 0,
            vruntime_ns: 0,
            ready_ns: 0,
            spins: false,
            kernel: false,
            resched: false,
            lock: 0,
            held: 0,
            received: None,
            random: stream(&index.to_string()),
        }));
        let outside = stream("outside");
        let locks = (0..program.locks()).map(|_| guest::SpinLock::default()).collect();
        let semaphores = program.semaphores().into_iter().map(guest::Semaphore::new).collect();
        self.tasks.push(Task {
            domain,
            name,
            program,
            outside,
            inbox: VecDeque::new(),
            receivers: VecDeque::new(),
            locks,
            semaphores,
        });
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
        for (index, thread) in self.threads.iter_mut().enumerate() {
            let start_ns = setup.domains[thread.domain as usize].start.0;
            self.timers.set(self.timer_base.thread + index as u32, start_ns);
        }
        for task in 0..self.tasks.len() as u32 {
            let start_ns = setup.domains[self.tasks[task as usize].domain as usize].start.0;
            self.launch(io::Flight::Start(task), start_ns);
        }
        for vcpu in 0..self.vcpus.len() as u32 {
            self.arm_vcpu_timer(vcpu);
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

    /// Runs until this time, from where it stopped.
    #[inline(never)] // What it calls is better inlined into it than it into its caller.
    pub fn run_until(&mut self, end_ns: u64) {
        self.end_ns = end_ns;
        while let Some((timer, now_ns)) = self.timers.pop(end_ns) {
            self.now_ns = now_ns;
            self.fire(timer);
            self.settle();
        }
        self.now_ns = self.now_ns.max(end_ns);
    }

    /// The time up to which it ran.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn fire(&mut self, timer: u32) {
        let base = self.timer_base;
        if timer < base.tick {
            self.events.timers += 1;
            self.pcpu_event(timer);
        } else if timer < base.vcpu {
            self.tick(timer - base.tick);
        } else if timer == base.accounting {
            self.account();
        } else {
            self.events.timers += 1;
            if timer < base.domain {
                self.vcpu_timer(timer - base.vcpu);
            } else if timer < base.thread {
                self.domain_timer(timer - base.domain);
            } else if timer < base.accounting {
                self.thread_wake(timer - base.thread);
            } else if timer == base.sample {
                self.sample();
            } else {
                self.land(timer - base.flight);
            }
        }
    }

    /// Lets interrupted pCPUs choose, until none is left.
    #[inline(always)]
    fn settle(&mut self) {
        let mut next = 0;
        loop {
            if let Some(&pcpu) = self.interrupted.get(next) {
                next += 1;
                self.pcpus[pcpu as usize].interrupted = false;
                self.schedule(pcpu);
            } else if let Some(queue) = self.unbalanced.pop_front() {
                self.balance(queue);
            } else {
                break;
            }
        }
        self.interrupted.clear();
    }
}

/// What the policies' clock shows at the beginning: they take a time of 0 for "never".
const EPOCH_NS: u64 = 1_000_000_000;
