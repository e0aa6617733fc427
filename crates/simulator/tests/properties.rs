// SPDX-License-Identifier: GPL-2.0-only
//! What holds for every policy on every host: random hosts, domains and workloads.
//!
//! Cases are drawn from a fixed seed, so that a failure repeats; `PROPTEST_CASES` asks for more of
//! them, `PROPTEST_RNG_SEED` for others.

mod common;

use std::sync::Arc;

use common::*;
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestCaseError};
use steelyard_policy::Policy;
use steelyard_simulator::Simulation;
use steelyard_simulator::config::{
    Costs, Domain, GuestLocks, Host, HostTasks, Io, Others, Reservation, Setup, Task,
};
use steelyard_simulator::measure::{Run, TaskMeasure, Trace};
use steelyard_simulator::units::{CpuSet, Nanoseconds};
use steelyard_simulator::workload::{
    Boot, Burst, Busy, Client, Clocked, Direction, Disk, Hackbench, Oltp, Ping, Replay,
    ReplayThread, Spinlock, Stream, SysbenchCpu, Video, Web, Workload,
};

fn config(cases: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    // Without these variables the defaults of the library are 256 cases and a random seed.
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    let seed = match default.rng_seed {
        RngSeed::Random => RngSeed::Fixed(1),
        fixed => fixed,
    };
    ProptestConfig {
        cases: if asked { default.cases } else { cases },
        rng_seed: seed,
        failure_persistence: None,
        ..default
    }
}

const LENGTH: Nanoseconds = Nanoseconds::from_ms(300);
/// Where so many events take less time than that, they are enough.
const EVENTS: u128 = 100_000;

fn length_ns(setup: &Setup) -> u64 {
    let estimated = setup.estimated_events(LENGTH);
    (u128::from(LENGTH.0) * EVENTS / estimated.max(EVENTS)) as u64
}

// ---- Random hosts, domains and workloads ----

fn time(range_us: std::ops::Range<u64>) -> impl Strategy<Value = Nanoseconds> {
    (range_us.start * US..range_us.end * US).prop_map(Nanoseconds)
}

fn hosts() -> impl Strategy<Value = Host> {
    let costs = prop_oneof![
        Just(no_costs()),
        Just(Costs::default()),
        (0..200_000u64, 1..20_000u64).prop_map(|(ns, window_ns)| Costs {
            context_switch: Nanoseconds(ns / 20),
            interrupt: Nanoseconds(ns / 50),
            idle_exit: Nanoseconds(ns / 10),
            vm_exit: Nanoseconds(ns / 40),
            cache_refill: Nanoseconds(ns),
            migration: Nanoseconds(ns / 2),
            cache_migration: Nanoseconds(ns),
            socket_migration: Nanoseconds(ns * 2),
            pause_loop_window: Nanoseconds(window_ns),
            pause_loop_growth: 1 + (ns % 3) as u32,
        }),
    ];
    let io = prop_oneof![
        Just(Io::default()),
        (0..100u64, 10..10_000u64, 1..1000u64).prop_map(|(us, link_mbit_per_s, disk)| Io {
            packet_cost: Nanoseconds::from_us(us / 10),
            request_cost: Nanoseconds::from_us(us),
            link_mbit_per_s,
            wire_latency: Nanoseconds::from_us(us),
            disk_latency: Nanoseconds::from_us(2 * us),
            disk_mbyte_per_s: disk,
            ..Io::default()
        }),
    ];
    (1..=2u32, 1..=4u32, 1..=2u32, prop_oneof![Just(100u32), 1..100u32], costs, io).prop_map(
        |(sockets, cores_per_socket, threads_per_core, thread_speed_percent, costs, io)| Host {
            sockets,
            cores_per_socket,
            // An even number of cores is divided: two into caches or nodes, four into both or caches.
            nodes_per_socket: match (cores_per_socket, threads_per_core) {
                (2, 1) | (4, 2) => 2,
                _ => 1,
            },
            caches_per_node: match (cores_per_socket, threads_per_core) {
                (2, 2) | (4, _) => 2,
                _ => 1,
            },
            threads_per_core,
            thread_speed_percent,
            group: vec![],
            others: None,
            tick: Host::default().tick,
            costs,
            io,
        },
    )
}

/// Never blocks.
fn busy_for_ever() -> impl Strategy<Value = Workload> {
    prop_oneof![
        time(10..40_000).prop_map(|compute| Busy { compute, ..Busy::default() }.into()),
        time(100..5_000).prop_map(|event| SysbenchCpu { events: 0, event }.into()),
    ]
}

fn webs() -> impl Strategy<Value = Web> {
    let clients = prop_oneof![
        (10..5_000u64, prop_oneof![Just(Nanoseconds(0)), time(100..50_000)])
            .prop_map(|(rate_per_s, timeout)| Client::Open { rate_per_s, timeout }),
        (1..32u32, time(0..20_000)).prop_map(|(clients, think)| Client::Closed { clients, think }),
    ];
    let connect = prop::option::of(time(0..100));
    (clients, time(1..2_000), connect, 0..100_000u64, 1..64u32).prop_map(
        |(client, service, connect, page_bytes, backlog)| Web {
            client,
            service,
            connect,
            page_bytes,
            backlog,
        },
    )
}

fn videos() -> impl Strategy<Value = Video> {
    let frame = || time(0..30_000);
    (
        1..=120u32,
        [frame(), frame(), frame()],
        time(0..2_000),
        1..10u32,
        time(1_000..30_000),
        1..5u32,
    )
        .prop_map(
            |(
                frames_per_s,
                [i_frame, p_frame, b_frame],
                show,
                buffer_frames,
                audio_period,
                periods,
            )| {
                Video {
                    frames_per_s,
                    i_frame,
                    p_frame,
                    b_frame,
                    jitter_percent: 50,
                    show,
                    buffer_frames,
                    file_mbit_per_s: 2 * (frames_per_s % 8),
                    audio_period,
                    audio: show,
                    audio_buffer_periods: periods,
                    ..Video::default()
                }
            },
        )
}

fn workloads() -> impl Strategy<Value = Workload> {
    let replay_thread = (
        0..20 * MS,
        prop::collection::vec(
            (
                prop_oneof![Just(0), 1..30 * MS, 1..100 * US],
                prop_oneof![Just(0), 1..30 * MS, 1..500 * US],
            ),
            0..8,
        ),
    );
    prop_oneof![
        2 => busy_for_ever(),
        3 => (time(10..40_000), time(0..50_000), 0..=100u32, any::<bool>()).prop_map(
            |(compute, sleep, jitter_percent, backlog)| {
                Busy { compute, sleep, jitter_percent, backlog, ..Busy::default() }.into()
            }
        ),
        1 => (time(1_000..40_000), time(0..40_000), 1..100u64, time(20..1_000)).prop_map(
            |(period, from, percent, step)| {
                Clocked { period, from, run: Nanoseconds(period.0 * percent / 100), step }.into()
            }
        ),
        1 => (0..200u64, time(10..5_000))
            .prop_map(|(events, event)| SysbenchCpu { events, event }.into()),
        2 => webs().prop_map(Workload::from),
        2 => (time(1_000..50_000), time(0..100))
            .prop_map(|(interval, service)| Ping { interval, service }.into()),
        2 => videos().prop_map(Workload::from),
        1 => (1..100u64, 1..100_000u64, time(10..10_000)).prop_map(
            |(steps, read_bytes, compute)| Boot { steps, read_bytes, compute }.into()
        ),
        1 => (any::<bool>(), 64..9000u64, 1..128u32, time(0..10)).prop_map(
            |(sends, packet_bytes, window_packets, packet_service)| {
                let direction = if sends { Direction::Send } else { Direction::Receive };
                Stream { direction, packet_bytes, window_packets, packet_service }.into()
            }
        ),
        1 => (1..4_000_000u64, time(0..500))
            .prop_map(|(block_bytes, block_service)| Disk { block_bytes, block_service }.into()),
        1 => (0..100 * US, 1..20 * US).prop_map(|(compute, hold)| {
            Spinlock { compute: Nanoseconds(compute), hold: Nanoseconds(hold) }.into()
        }),
        1 => (1..6u32, 0..6u32, time(1..300), 0..4u32, time(0..20), 1..4u32, 0..20_000u64).prop_map(
            |(reads, writes, statement, kernel_entries, kernel, kernel_locks, log_bytes)| {
                Oltp {
                    reads,
                    writes,
                    statement,
                    kernel_entries,
                    kernel_entry: kernel,
                    kernel_hold: kernel,
                    kernel_locks,
                    rows: 64,
                    log_bytes,
                }
                .into()
            }
        ),
        1 => (1..5_000u32, time(1..20), time(0..20), 1..3u32, 1..10u32).prop_map(
            |(messages, system_call, hold, locks, socket_messages)| {
                Hackbench { senders: 1, messages, system_call, hold, locks, socket_messages }.into()
            }
        ),
        2 => prop::collection::vec(replay_thread, 1..6).prop_map(|threads| {
            let thread = |(first_wake_ns, bursts): (u64, Vec<(u64, u64)>)| {
                let bursts =
                    bursts.into_iter().map(|(run_ns, sleep_ns)| Burst { run_ns, sleep_ns });
                Arc::new(ReplayThread { first_wake_ns, bursts: bursts.collect(), ..ReplayThread::default() })
            };
            let threads = threads.into_iter().map(thread).collect();
            let recording = "recorded.txt".to_owned();
            Replay { recording, process: 1, jitter_percent: 5, causes: true, threads }.into()
        }),
    ]
}

fn tasks(workloads: impl Strategy<Value = Workload>, vcpus: u32) -> impl Strategy<Value = Task> {
    (workloads, 1..=6u32).prop_map(move |(workload, threads)| {
        let threads = match &workload {
            // Each stays on a vCPU of its own.
            Workload::Replay(replay) => vcpus.min(replay.threads.len() as u32),
            // Picture and sound.
            Workload::Video(_) => threads.min(2),
            // Groups of one sender and one receiver.
            Workload::Hackbench(_) => 2 * threads,
            _ => threads,
        };
        Task { name: None, threads, workload }
    })
}

/// Sets of pCPUs out of so many, by the bits of a number.
fn pins(pcpus: u32, vcpus: u32) -> impl Strategy<Value = Vec<CpuSet>> {
    let set = (1..1u32 << pcpus)
        .prop_map(move |bits| (0..pcpus).filter(|pcpu| bits >> pcpu & 1 != 0).collect::<CpuSet>());
    prop_oneof![
        3 => Just(vec![]),
        1 => prop::collection::vec(set.clone(), 1),
        1 => prop::collection::vec(set, vcpus as usize),
    ]
}

fn host_tasks() -> impl Strategy<Value = HostTasks> {
    let priority = prop_oneof![1 => Just(0), 3 => 100..140u32];
    (priority, prop::bool::weighted(0.3))
        .prop_map(|(priority, kernel)| HostTasks { priority, kernel })
}

fn domains(pcpus: u32) -> impl Strategy<Value = Domain> {
    let reservation =
        (1..100u64, 1..=100u64, any::<bool>()).prop_map(|(ms, percent, extra_time)| {
            let (period, slice) =
                (Nanoseconds::from_ms(ms), Nanoseconds::from_us(10 * ms * percent));
            Reservation { period, slice, extra_time }
        });
    (1..=6u32).prop_flat_map(move |vcpus| {
        (
            prop_oneof![1..=65_535u32, 64..=1024u32],
            prop_oneof![3 => Just(0), 1 => 1..=100 * pcpus],
            (pins(pcpus, vcpus), pins(pcpus, vcpus)),
            prop::option::weighted(0.2, time(50..30_000)),
            prop::option::weighted(0.3, reservation.clone()),
            prop_oneof![2 => Just(Nanoseconds(0)), 1 => time(0..50_000)],
            prop::collection::vec(tasks(workloads(), vcpus), 0..=2),
            prop_oneof![
                Just(GuestLocks::Unfair),
                Just(GuestLocks::Ticket),
                Just(GuestLocks::Paravirtual)
            ],
            prop::option::weighted(0.2, host_tasks()),
        )
            .prop_map(
                move |(
                    weight,
                    cap_percent,
                    pins,
                    slice,
                    sedf,
                    start,
                    task,
                    guest_locks,
                    host_tasks,
                )| {
                    let (pin, pin_soft) = pins;
                    Domain {
                        weight,
                        cap_percent,
                        pin,
                        pin_soft,
                        slice,
                        sedf,
                        start,
                        task,
                        guest_locks,
                        host_tasks,
                        ..Domain::new("", vcpus)
                    }
                },
            )
    })
}

/// Gives the domains names.
fn named(host: Host, mut domains: Vec<Domain>) -> Setup {
    for (index, domain) in domains.iter_mut().enumerate() {
        domain.name = format!("domain-{index}");
    }
    Setup { host, domains }
}

/// Everything at once.
fn setups() -> impl Strategy<Value = Setup> {
    hosts()
        .prop_flat_map(|host| {
            let domains = prop::collection::vec(domains(host.pcpus()), 1..=4);
            let others =
                prop_oneof![Just(None), Just(Some(Others::Among)), Just(Some(Others::Beside))];
            let in_groups = prop::collection::vec(0..3_usize, 4);
            let driver = (any::<prop::sample::Index>(), any::<bool>());
            (Just(host), others, domains, driver, in_groups).prop_map(
                |(host, others, domains, (driver, has_driver), in_groups)| {
                    let mut setup = named(Host { others, ..host }, domains);
                    setup.host.group =
                        vec![group("slice", 512, None), group("inner", 100, Some("slice"))];
                    for (domain, group) in setup.domains.iter_mut().zip(in_groups) {
                        domain.group = setup.host.group.get(group).map(|it| it.name.clone());
                    }
                    if has_driver {
                        let driver = driver.get(&setup.domains).name.clone();
                        setup.host.io.driver_domain = Some(driver);
                    }
                    setup
                },
            )
        })
        .prop_filter("takes too long", |setup| setup.estimated_events(LENGTH) < 1_000_000)
}

// ---- Time is conserved, and nobody is in two places ----

type Verdict = Result<(), TestCaseError>;

fn check_sums(setup: &Setup, run: &Run) -> Verdict {
    let mut gotten_ns = 0;
    for (domain, config) in run.domains.iter().zip(&setup.domains) {
        prop_assert_eq!(domain.vcpus.len(), config.vcpus as usize);
        for (index, vcpu) in domain.vcpus.iter().enumerate() {
            let time = &vcpu.time;
            let what = format!("{}: vCPU {index} of {}: {time:?}", run.policy, domain.name);
            let sum_ns = time.gotten_ns + time.waited_ns + time.blocked_ns;
            prop_assert_eq!(sum_ns, run.elapsed_ns, "{}", what);
            prop_assert!(time.parked_ns <= time.waited_ns, "{}", what);
            prop_assert!(time.overhead_ns + time.spun_ns <= time.gotten_ns, "{}", what);
            prop_assert!(time.migrations <= time.switches, "{}", what);
            prop_assert!(time.preemptions <= time.switches, "{}", what);
            prop_assert!(time.blocked_ns >= config.start.0.min(run.elapsed_ns), "{}", what);
        }
        let sum = |part: fn(&steelyard_simulator::measure::TimeMeasure) -> u64| {
            domain.vcpus.iter().map(|vcpu| part(&vcpu.time)).sum::<u64>()
        };
        prop_assert_eq!(domain.time.gotten_ns, sum(|time| time.gotten_ns));
        prop_assert_eq!(domain.time.waited_ns, sum(|time| time.waited_ns));
        prop_assert_eq!(domain.time.blocked_ns, sum(|time| time.blocked_ns));
        gotten_ns += domain.time.gotten_ns;
    }
    let idle_ns: u64 = run.pcpus.iter().map(|pcpu| pcpu.idle_ns).sum();
    prop_assert_eq!(gotten_ns + idle_ns, run.elapsed_ns * u64::from(setup.host.pcpus()));
    let switches: u64 = run.pcpus.iter().map(|pcpu| pcpu.switches).sum();
    prop_assert_eq!(switches, run.scheduling_events.switches);
    Ok(())
}

fn check_places(setup: &Setup, run: &Run, trace: &Trace) -> Verdict {
    let apart = |times: &mut Times| {
        times.sort_unstable();
        times.windows(2).find(|pair| pair[1].0 < pair[0].1).map(<[_]>::to_vec)
    };
    for pcpu in 0..setup.host.pcpus() {
        let here = trace.segments.iter().filter(|segment| segment.pcpu == Some(pcpu));
        let mut here: Times = here.map(|segment| (segment.start_ns, segment.end_ns)).collect();
        prop_assert_eq!(apart(&mut here), None, "{}: two run on pCPU {}", run.policy, pcpu);
        let busy_ns: u64 = here.iter().map(|(start_ns, end_ns)| end_ns - start_ns).sum();
        prop_assert_eq!(busy_ns + run.pcpus[pcpu as usize].idle_ns, run.elapsed_ns);
    }
    for (index, domain) in run.domains.iter().enumerate() {
        for vcpu in 0..domain.vcpus.len() {
            let mine = trace.segments.iter().filter(|segment| {
                segment.domain as usize == index && segment.vcpu as usize == vcpu
            });
            let mut times: Times =
                mine.clone().map(|segment| (segment.start_ns, segment.end_ns)).collect();
            let name = &domain.name;
            prop_assert_eq!(apart(&mut times), None, "{}: {} {}", run.policy, name, vcpu);
            let (mut ran_ns, mut waited_ns) = (0, 0);
            for segment in mine {
                let length_ns = segment.end_ns - segment.start_ns;
                match segment.pcpu {
                    Some(_) => ran_ns += length_ns,
                    None => waited_ns += length_ns,
                }
                if let Some(pcpu) = segment.pcpu {
                    let allowed = allows(&setup.domains[index], vcpu as u32, pcpu);
                    prop_assert!(allowed, "{}: {} {} on {}", run.policy, name, vcpu, pcpu);
                }
            }
            prop_assert_eq!(ran_ns, domain.vcpus[vcpu].time.gotten_ns);
            prop_assert_eq!(waited_ns, domain.vcpus[vcpu].time.waited_ns);
        }
    }
    Ok(())
}

/// A simulation that hangs takes events without end at one time. What takes events in a scenario is
/// known; the factor is what a preemption or a yield adds to each of them.
fn check_events(setup: &Setup, run: &Run) -> Verdict {
    let estimated = setup.estimated_events(Nanoseconds(run.elapsed_ns));
    let events = u128::from(run.scheduling_events.total() + run.guest_steps);
    prop_assert!(events <= 2 * estimated + 1_000, "{}: {events} of {estimated}", run.policy);
    Ok(())
}

proptest! {
    #![proptest_config(config(1000))]

    #[test]
    fn time_is_conserved_and_nobody_is_in_two_places(setup in setups(), seed in 0..1000u64) {
        for policy in all_policies().into_iter().chain([linux_with_groups()]) {
            let (run, trace) = run_traced(&setup, &policy, seed, length_ns(&setup));
            check_sums(&setup, &run)?;
            check_places(&setup, &run, &trace)?;
            check_events(&setup, &run)?;
        }
    }
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn a_later_part_is_what_is_left(setup in setups(), seed in 0..1000u64, percent in 0..=100u64) {
        let end_ns = length_ns(&setup);
        for policy in all_policies().into_iter().chain([linux_with_groups()]) {
            let mut simulation = Simulation::new(&setup, &policy, seed).unwrap();
            simulation.run_until(end_ns / 100 * percent);
            let earlier = simulation.measure();
            simulation.run_until(end_ns);
            let (all, part) = (simulation.measure(), simulation.measure_since(&earlier));
            prop_assert_eq!(part.elapsed_ns, end_ns - end_ns / 100 * percent);
            for ((domain, all), before) in part.domains.iter().zip(&all.domains).zip(&earlier.domains) {
                let (time, waits) = (&domain.time, &domain.time.waits);
                prop_assert_eq!(waits.count + before.time.waits.count, all.time.waits.count);
                prop_assert!(time.parked_ns <= time.waited_ns, "{:?}", time);
                for vcpu in &domain.vcpus {
                    let time = &vcpu.time;
                    let sum_ns = time.gotten_ns + time.waited_ns + time.blocked_ns;
                    prop_assert_eq!(sum_ns, part.elapsed_ns, "{:?}", time);
                }
                prop_assert!(domain.entitlement_percent.is_finite() && domain.share_percent.is_finite());
            }
        }
    }
}

// ---- Steps that are repeated ----

/// Most tasks repeat equal steps, each of its own length: where threads go in step to the nanosecond, another of them may
/// be the first. Other things that fall on the same nanosecond may as well, on hosts without costs: with
/// `PROPTEST_CASES=300` one host counts a step less at its end.
fn repeating() -> impl Strategy<Value = Task> {
    let workload = prop_oneof![4 => busy_for_ever(), 1 => workloads()];
    tasks(workload, 2).prop_map(|task| match task.workload {
        Workload::Busy(_) | Workload::SysbenchCpu(_) => Task { threads: 1, ..task },
        _ => task,
    })
}

fn repeating_setups() -> impl Strategy<Value = Setup> {
    let domain = (2..=4u32, 64..=1024u32, any::<bool>(), time(0..9_000));
    let domain = domain.prop_flat_map(move |(vcpus, weight, capped, start)| {
        prop::collection::vec(repeating(), 1..=4).prop_map(move |task| {
            let cap_percent = if capped { 60 } else { 0 };
            Domain { weight, cap_percent, start, task, ..Domain::new("", vcpus) }
        })
    });
    (hosts(), prop::collection::vec(domain, 1..=5))
        .prop_map(|(host, domains)| named(host, domains))
        .prop_filter("takes too long", |setup| setup.estimated_events(LENGTH) < 1_000_000)
}

proptest! {
    #![proptest_config(config(100))]

    /// It shows nowhere which steps have a timer of their own, and when those that have none are worked out.
    #[test]
    fn repeated_steps_are_steps(setup in repeating_setups(), seed in 0..1000u64) {
        for policy in all_policies() {
            let length_ns = length_ns(&setup);
            let mut single = simulation(&setup, &policy, seed);
            single.take_single_steps();
            let mut repeated = simulation(&setup, &policy, seed);
            for part in 1..=3 {
                single.run_until(part * length_ns / 3);
                repeated.run_until(part * length_ns / 3);
                prop_assert_eq!(repeated.measure(), single.measure(), "part {}", part);
            }
        }
    }
}

// ---- Workloads account for all that they were asked ----

/// Each frame whose time is over was shown or dropped, and one more at most was shown early; so for
/// periods of sound, of which as many may be played early as the device holds.
fn check_video(video: &Video, task: &TaskMeasure, elapsed_ns: u64) -> Verdict {
    let tracks = [
        ("frames shown", "frames dropped", 1_000_000_000 / u64::from(video.frames_per_s), 2, 1),
        (
            "audio played",
            "audio missed",
            video.audio_period.0,
            u64::from(video.audio_buffer_periods),
            u64::from(video.audio_buffer_periods),
        ),
    ];
    for (in_time, missed, period_ns, lag, early) in tracks {
        let decided = value(task, in_time) + value(task, missed);
        let over = (elapsed_ns / period_ns + 1).saturating_sub(lag) as f64;
        let possible = over..=over + early as f64;
        prop_assert!(possible.contains(&decided), "{task:?}: {decided}, not {possible:?}");
    }
    Ok(())
}

/// What was sent was answered, refused, given up, or is under way: with one client per request that
/// are at most all the clients; in an open loop those that wait, that are worked on, or that are on
/// the wire, where at 5000/s a few are at a time.
fn check_web(web: &Web, threads: u32, task: &TaskMeasure) -> Verdict {
    let decided: f64 =
        ["answered", "refused", "timed out"].iter().map(|name| value(task, name)).sum();
    let under_way = value(task, "sent") - decided;
    let most = match web.client {
        Client::Closed { clients, .. } => f64::from(clients),
        Client::Open { .. } => f64::from(web.backlog + threads + 20),
    };
    prop_assert!((0.0..=most).contains(&under_way), "{task:?}: {under_way} of {most}");
    Ok(())
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn frames_and_requests_are_accounted_for(
        (video, web, threads) in (videos(), webs(), 1..=3u32),
        others in prop::collection::vec(domains(1), 0..=2),
        pcpus in 1..=2u32,
        seed in 0..1000u64,
    ) {
        let mut host = Host::with_pcpus(pcpus);
        host.io.link_mbit_per_s = 10_000;
        let mut domains = vec![
            Domain::new("", 2).with_task(2, video.clone()),
            Domain::new("", 1).with_task(threads, web.clone()),
        ];
        domains.extend(others);
        let setup = named(host, domains);
        prop_assume!(setup.estimated_events(LENGTH) < 1_000_000);
        for policy in all_policies() {
            let run = run(&setup, &policy, seed, length_ns(&setup));
            check_video(&video, &run.domains[0].tasks[0], run.elapsed_ns)?;
            check_web(&web, threads, &run.domains[1].tasks[0])?;
        }
    }
}

// ---- No pCPU idle while somebody waits ----

/// For how long at most a vCPU waited that could have used a pCPU which was idle meanwhile: the
/// time, and who and where.
fn longest_unused(setup: &Setup, policy: &Policy, trace: &Trace) -> (u64, String) {
    let mut longest = (0, String::new());
    let stays = setup.domains.iter().all(|domain| domain.host_tasks.is_none());
    let idle: Vec<Times> = (0..setup.host.pcpus()).map(|pcpu| idle_times(trace, pcpu)).collect();
    for (index, domain) in setup.domains.iter().enumerate() {
        let at_once_ns = behind_others_at_once_ns(setup, domain);
        for vcpu in 0..domain.vcpus {
            let mut mine: Vec<_> = trace.segments.iter().collect();
            mine.retain(|segment| segment.domain as usize == index && segment.vcpu == vcpu);
            mine.sort_by_key(|segment| (segment.start_ns, segment.end_ns));
            for (place, segment) in mine.iter().enumerate().filter(|(_, s)| s.pcpu.is_none()) {
                let after = mine[place..].iter().find_map(|segment| segment.pcpu);
                for pcpu in (0..setup.host.pcpus()).filter(|&pcpu| allows(domain, vcpu, pcpu)) {
                    let counts = match policy.discipline().name {
                        // Where the trace does not tell in which queue a vCPU is, only the adversary of policy/tests
                        // knows: one stays on the pCPU where it was put, unless a task of the host takes that, or in
                        // its socket, unless it is moved while it waits or sleeps.
                        "sedf" => stays && after == Some(pcpu),
                        "credit2" => setup.host.sockets == 1,
                        _ => true,
                    };
                    let waited = vec![(segment.start_ns, segment.end_ns)];
                    let common = longest_common(&waited, &idle[pcpu as usize]);
                    let unused_ns = (common.1 - common.0).saturating_sub(at_once_ns);
                    if counts && unused_ns > longest.0 {
                        let text = format!(
                            "{policy}: vCPU {vcpu} of {} waited from {} to {} while pCPU {pcpu} was idle",
                            domain.name, common.0, common.1
                        );
                        longest = (unused_ns, text);
                    }
                }
            }
        }
    }
    longest
}

/// Of kernel threads that wake at the same moment on a pCPU one runs, and each of the others when those before it block
/// or have had their slice: from the kernel's own queue of that pCPU nobody else takes them.
fn behind_others_at_once_ns(setup: &Setup, domain: &Domain) -> u64 {
    // ENGINE_OTHER_SLICE_NS, up to a tick
    let slice_ns = 3 * MS + setup.host.tick.0;
    let is_kernel = |domain: &&Domain| domain.host_tasks.as_ref().is_some_and(|it| it.kernel);
    match is_kernel(&domain) {
        true => {
            setup.domains.iter().filter(is_kernel).map(|it| u64::from(it.vcpus)).sum::<u64>()
                * slice_ns
        }
        false => 0,
    }
}

fn may_spin(workload: &Workload) -> bool {
    matches!(workload, Workload::Spinlock(_) | Workload::Oltp(_) | Workload::Hackbench(_))
}

/// How long the discipline lets that be.
fn longest_allowed_ns(setup: &Setup, policy: &Policy) -> u64 {
    let pcpus = u64::from(setup.host.pcpus());
    let vcpus: u64 = setup.domains.iter().map(|domain| u64::from(domain.vcpus)).sum();
    let pinned = setup.domains.iter().any(|domain| !domain.pin.is_empty());
    let spins =
        setup.domains.iter().flat_map(|domain| &domain.task).any(|task| may_spin(&task.workload));
    // Nobody runs for longer while others wait in its queue.
    let slice_ns = |own_ns: u64| {
        let asked = setup.domains.iter().filter_map(|domain| domain.slice);
        asked.map(|slice| slice.0).max().unwrap_or(0).max(own_ns)
    };
    match policy.discipline().name {
        // Who waits for its pCPU gets it as soon as that has nothing better.
        "sedf" => 0,
        // Whoever becomes idle steals anybody, and a wake looks for somebody idle. Two are missed
        // until those before them in the queue have had their slices: who yielded, in the vintage
        // that does not steal those; and who was preempted while the pCPU that the wake told to look
        // was one that it may not use.
        "credit" => match parameter(policy, "steal_yielded") {
            _ if pinned => slice_ns(parameter(policy, "slice_ns")) * vcpus,
            0 if spins => slice_ns(parameter(policy, "slice_ns")) * vcpus,
            _ => 0,
        },
        // One queue: whoever is idle takes from it. Of two that wake at once the one for which a
        // pCPU was interrupted may lose that to the other; if it may not use the pCPU that was meant
        // for the other, it waits for the end of a slice.
        "credit2" if pinned => slice_ns(parameter(policy, "run_max_ns")) * vcpus,
        "credit2" => 0,
        // Whom a newly idle pCPU leaves alone, being cache-hot or because idle times are short, is
        // pushed by the balance of a busy one at a tick, once per interval, to the same cache or,
        // every eighth time at the latest, to any. It may be hot once more. Balance looks at one idle queue: with
        // pins that may be one of no use, until others have been served.
        _ => {
            let tick_ns = parameter(policy, "tick_ns");
            let interval_ns = (parameter(policy, "balance_interval_ns") * pcpus)
                .min(parameter(policy, "balance_interval_max_ns"))
                .next_multiple_of(tick_ns);
            let host = &setup.host;
            let caches = host.sockets * host.nodes_per_socket * host.caches_per_node;
            let balances = if caches > 1 { 8 } else { 1 };
            (2 * balances * interval_ns + tick_ns) * if pinned { vcpus } else { 1 }
        }
    }
}

/// Nobody is ever parked: no caps, and reservations may use spare time.
fn work_conserving(setup: &mut Setup) {
    for domain in &mut setup.domains {
        domain.cap_percent = 0;
        if let Some(reservation) = &mut domain.sedf {
            reservation.extra_time = true;
        }
    }
}

proptest! {
    #![proptest_config(config(700))]

    #[test]
    fn idle_pcpus_find_work(mut setup in setups(), seed in 0..1000u64, pinned in any::<bool>()) {
        work_conserving(&mut setup);
        // Else who waits for a pCPU to wake up waits beside an idle one.
        setup.host.costs.idle_exit = Nanoseconds(0);
        if !pinned {
            setup.domains.iter_mut().for_each(|domain| domain.pin.clear());
        }
        for policy in policies() {
            let (run, trace) = run_traced(&setup, &policy, seed, length_ns(&setup));
            let (unused_ns, text) = longest_unused(&setup, &policy, &trace);
            prop_assert!(unused_ns <= longest_allowed_ns(&setup, &policy), "{}", text);
            // What the trace shows, the measure tells; it counts other sockets and queues as well, but not
            // who sleeps off a pause loop.
            let told_ns = run.domains.iter().map(|domain| domain.time.worst_beside_idle_ns).max();
            let parked_ns: u64 = run.domains.iter().map(|domain| domain.time.parked_ns).sum();
            prop_assert!(told_ns >= Some(unused_ns.saturating_sub(parked_ns)), "{text}: {told_ns:?}");
            for time in run.domains.iter().map(|domain| &domain.time) {
                prop_assert!(time.beside_idle_ns <= time.waited_ns - time.parked_ns);
            }
        }
    }
}

// ---- Shares ----

/// Domains that never block, with so many vCPUs in all at least, each a thread per vCPU.
fn busy_domains(vcpus: std::ops::RangeInclusive<u32>) -> impl Strategy<Value = Vec<Domain>> {
    let domain = (vcpus, 100..=1000u32, busy_for_ever()).prop_map(|(vcpus, weight, workload)| {
        Domain { weight, ..Domain::new("", vcpus).with_task(vcpus, workload) }
    });
    prop::collection::vec(domain, 2..=5)
}

/// Whether the vCPUs of a domain divide its weight, or each of them has it.
fn weight_is_divided(policy: &Policy) -> bool {
    match policy.discipline().name {
        "credit" => parameter(policy, "weight_per") == 0,
        "fair" => true,
        _ => false,
    }
}

/// The part of the host that each domain should have: by its weight, or by that of all its vCPUs
/// where the discipline gives the domain's weight to each of them.
fn entitlements(setup: &Setup, policy: &Policy) -> Vec<f64> {
    let per_domain = weight_is_divided(policy);
    let weights: Vec<f64> = setup
        .domains
        .iter()
        .map(|domain| f64::from(domain.weight * if per_domain { 1 } else { domain.vcpus }))
        .collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}

/// The share of who never blocks is within 1 % of what it is entitled to, or within `slack` of the
/// whole where that is more.
fn check_shares(setup: &Setup, policy: &Policy, slack: f64) -> Verdict {
    let run = run(setup, policy, 1, 60 * S);
    let gotten_ns: u64 = run.domains.iter().map(|domain| domain.time.gotten_ns).sum();
    for (domain, entitled) in run.domains.iter().zip(entitlements(setup, policy)) {
        let share = domain.time.gotten_ns as f64 / gotten_ns as f64;
        let allowed = slack.max(0.01 * entitled);
        let text = format!("{policy}: {} has {share:.4} of {entitled:.4}", domain.name);
        prop_assert!((share - entitled).abs() <= allowed, "{}", text);
    }
    Ok(())
}

proptest! {
    #![proptest_config(config(24))]

    #[test]
    fn busy_domains_share_a_queue_by_weight(
        domains in busy_domains(1..=3),
        costs in prop_oneof![Just(no_costs()), Just(Costs::default())],
    ) {
        let setup = named(Host { costs, ..Host::default() }, domains);
        for policy in policies().iter().filter(|policy| policy.discipline().name != "credit") {
            check_shares(&setup, policy, 0.0)?;
        }
    }

    /// Credit rounds every share of 300 credits up, and takes from who has saved more than that: so
    /// only where nobody earns more than 300 while all the others have a slice. In 3.3, which takes
    /// all of it and charges by whole ticks, only between two; with exact debits too, since slices
    /// that begin in BOOST end between accountings there, and one may follow another.
    #[test]
    fn busy_domains_share_a_queue_by_weight_under_credit(
        domains in busy_domains(1..=1),
        costs in prop_oneof![Just(no_costs()), Just(Costs::default())],
    ) {
        let setup = named(Host { costs, ..Host::default() }, domains);
        for policy in policies().iter().filter(|policy| policy.discipline().name == "credit") {
            let mut setup = setup.clone();
            setup.domains.truncate(if policy.vintage().starts_with("xen-3.3") { 2 } else { 5 });
            while entitlements(&setup, policy).into_iter().fold(0.0, f64::max)
                > 1.0 / (setup.domains.len() - 1) as f64
            {
                setup.domains.pop();
            }
            check_shares(&setup, policy, 0.01)?;
        }
    }

    #[test]
    fn busy_domains_share_several_pcpus_by_weight_under_credit2(
        pcpus in 2..=4u32,
        domains in busy_domains(3..=4),
    ) {
        let setup = named(Host::with_pcpus(pcpus), domains);
        for policy in policies().iter().filter(|policy| policy.discipline().name == "credit2") {
            let entitled = entitlements(&setup, policy);
            let most = entitled.iter().zip(&setup.domains).map(|(entitled, domain)| {
                entitled / f64::from(domain.vcpus) * f64::from(pcpus)
            });
            // Nobody can use more than a pCPU, nor stay on one without ever moving.
            prop_assume!(most.fold(0.0, f64::max) < 0.9);
            // Every migration is compensated with credit: who moves more gets a bit more.
            check_shares(&setup, policy, 0.01)?;
        }
    }
}

// ---- Nobody starves ----

/// How long a vCPU of a domain that is always busy waits at most: a turn of every other vCPU, and of
/// those with more weight as many turns as they have more. Twice that, since debt from before and
/// what others have saved come on top.
fn longest_wait_ns(setup: &Setup, policy: &Policy, domain: &Domain) -> u64 {
    let vcpus: u64 = setup.domains.iter().map(|domain| u64::from(domain.vcpus)).sum();
    let divided = weight_is_divided(policy);
    let weights = setup
        .domains
        .iter()
        .map(|domain| u64::from(domain.weight) * if divided { 1 } else { u64::from(domain.vcpus) });
    let parts = if divided { u64::from(domain.vcpus) } else { 1 };
    let others = (weights.sum::<u64>() * parts).div_ceil(u64::from(domain.weight));
    let turn_ns = match policy.discipline().name {
        // It has its slice in every period: early in one, late in the next.
        "sedf" => return 2 * parameter(policy, "weight_period_ns"),
        "credit" => parameter(policy, "slice_ns"),
        "credit2" => parameter(policy, "run_max_ns"),
        _ => parameter(policy, "tick_ns"),
    };
    2 * (others + vcpus) * turn_ns
}

proptest! {
    #![proptest_config(config(60))]

    #[test]
    fn nobody_starves(
        (host, pins) in hosts().prop_flat_map(|host| {
            let pins = prop::collection::vec(pins(host.pcpus(), 1), 5);
            (Just(host), pins)
        }),
        domains in busy_domains(1..=6),
        weights in prop::collection::vec(prop_oneof![Just(1), 1..=1000u32], 5),
    ) {
        let mut setup = named(host, domains);
        for (domain, (weight, pin)) in setup.domains.iter_mut().zip(weights.into_iter().zip(pins)) {
            domain.weight = weight;
            domain.pin = pin;
        }
        for policy in policies() {
            let (_, trace) = run_traced(&setup, &policy, 1, 10 * S);
            for (index, domain) in setup.domains.iter().enumerate() {
                let bound = longest_wait_ns(&setup, &policy, domain);
                // Where credits are levelled, siblings on other pCPUs spend what a vCPU earns while it
                // waits: there only the domain has a claim to run.
                let levelled = policy.value("level").is_some_and(|choice| choice > 0);
                let together = if levelled { domain.vcpus } else { 1 };
                for first in (0..domain.vcpus).step_by(together as usize) {
                    let ran = (first..first + together)
                        .flat_map(|vcpu| vcpu_times(&trace, index as u32, vcpu, true));
                    let waits = gaps(&trace, ran);
                    let longest = waits.iter().map(|w| w.1 - w.0).max().unwrap_or(0);
                    let name = &domain.name;
                    let text = format!("{policy}: vCPU {first} of {name} waited for {longest} ns");
                    prop_assert!(longest <= bound, "{}", text);
                }
            }
        }
    }
}

// ---- Caps ----

/// The most that a domain ran in any window of this length, over its pCPUs.
fn most_in_window_ns(trace: &Trace, domain: usize, window_ns: u64) -> u64 {
    // A window with the most in it begins where a run begins, or ends where one ends.
    let runs: Vec<_> = trace
        .segments
        .iter()
        .filter(|segment| segment.pcpu.is_some() && segment.domain as usize == domain)
        .map(|segment| (segment.start_ns, segment.end_ns))
        .collect();
    let mut starts: Vec<u64> = runs.iter().map(|run| run.0).collect();
    starts.extend(runs.iter().map(|run| run.1.saturating_sub(window_ns)));
    // Time run before a moment: sums over the sorted ends of runs.
    let mut edges: Vec<(u64, i64)> =
        runs.iter().flat_map(|&(start_ns, end_ns)| [(start_ns, 1), (end_ns, -1)]).collect();
    edges.sort_unstable();
    let mut sums = vec![(0, 0, 0)];
    for (time_ns, change) in edges {
        let (last_ns, sum_ns, running) = sums[sums.len() - 1];
        let sum_ns = sum_ns + (time_ns - last_ns) * running as u64;
        sums.push((time_ns, sum_ns, running + change));
    }
    let before = |time_ns: u64| {
        let place = sums.partition_point(|&(other_ns, ..)| other_ns <= time_ns);
        let (last_ns, sum_ns, running) = sums[place - 1];
        sum_ns + (time_ns - last_ns) * running as u64
    };
    starts
        .into_iter()
        .map(|start_ns| before(start_ns + window_ns) - before(start_ns))
        .max()
        .unwrap_or(0)
}

proptest! {
    #![proptest_config(config(100))]

    #[test]
    fn caps_hold_in_every_window(
        pcpus in 1..=4u32,
        mut domains in busy_domains(1..=4),
        caps in prop::collection::vec((1..=400u32, prop_oneof![Just(Nanoseconds(0)), time(1..300_000)]), 5),
        sleeper in tasks(workloads(), 1),
    ) {
        for (domain, (cap_percent, cap_burst)) in domains.iter_mut().zip(caps) {
            domain.cap_percent = cap_percent.min(100 * pcpus).min(100 * domain.vcpus);
            domain.cap_burst = cap_burst;
        }
        let mut setup = named(Host::with_pcpus(pcpus), domains);
        if let Some(domain) = setup.domains.last_mut() {
            domain.task = vec![sleeper];
        }
        prop_assume!(setup.estimated_events(Nanoseconds::from_s(1)) < 1_000_000);
        for policy in policies() {
            let name = policy.discipline().name;
            let period_ns = match name {
                "sedf" => parameter(&policy, "weight_period_ns"),
                "credit" => parameter(&policy, "slice_ns"),
                _ => parameter(&policy, "cap_period_ns"),
            };
            // A flat debit does not see what runs between ticks: such a cap holds on average only.
            if period_ns == 0 || (name == "credit" && parameter(&policy, "debit") == 0) {
                continue;
            }
            let (_, trace) = run_traced(&setup, &policy, 1, S);
            for (index, domain) in setup.domains.iter().enumerate() {
                let budget_ns = period_ns * u64::from(domain.cap_percent) / 100;
                let burst_ns = match (name, domain.cap_burst.0) {
                    ("fair", 0) => budget_ns / 100 * parameter(&policy, "cap_burst_percent"),
                    ("fair" | "credit2", asked_ns) => asked_ns,
                    _ => 0,
                };
                // The rest of a period's budget may be used at the end of it, and the next at once.
                // Credit judges once per accounting: each vCPU may have saved the credits of one, and
                // run through one before it is parked.
                let slack_ns = match name {
                    "credit" => 2 * period_ns * u64::from(domain.vcpus),
                    // A slice is at least 1 ns, even with nothing left; the next period pays for it.
                    _ => budget_ns + burst_ns + u64::from(domain.vcpus),
                };
                for periods in [1, 2, 5, 8, 30] {
                    let most_ns = most_in_window_ns(&trace, index, periods * period_ns);
                    let text = format!(
                        "{policy}: {} of {} ran for {most_ns} ns within {periods} periods",
                        domain.name, domain.cap_percent
                    );
                    prop_assert!(most_ns <= periods * budget_ns + slack_ns, "{}", text);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(config(100))]

    /// The bound at the head of fair.h, for one pCPU and equal weights: the savings of all others, and a turn of each.
    #[test]
    fn nobody_waits_for_longer_than_the_savings_of_the_others(
        loads in prop::collection::vec((time(100..100_000), time(1..200_000), 0..50u32), 2..8),
        hogs in 1..3usize,
        seed in 0..1000u64,
    ) {
        let busy = |compute, sleep, jitter_percent| Busy { compute, sleep, jitter_percent, ..Busy::default() };
        let mut domains: Vec<Domain> = loads
            .into_iter()
            .map(|(compute, sleep, jitter)| Domain::new("", 1).with_task(1, busy(compute, sleep, jitter)))
            .collect();
        domains.extend((0..hogs).map(|_| Domain::new("", 1).with_task(1, Busy::default())));
        let setup = named(Host { costs: no_costs(), ..Host::default() }, domains);
        let policy = policy("fair@poise");
        let [saved_ns, base_slice_ns, growth] =
            ["saved_ns", "base_slice_ns", "slice_growth"].map(|name| parameter(&policy, name));
        let slice_ns = growth * base_slice_ns;
        let run = run(&setup, &policy, seed, 2 * S);
        let others = setup.domains.len() as u64 - 1;
        for domain in &run.domains {
            let worst_ns = domain.time.waits.worst.as_ref().map_or(0, |worst| worst.length_ns);
            prop_assert!(worst_ns <= others * (saved_ns + 2 * slice_ns), "{worst_ns} ns beside {others}");
        }
    }
}
