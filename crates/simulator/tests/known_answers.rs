// SPDX-License-Identifier: GPL-2.0-only
//! Whole runs whose results were worked out by hand or follow from a formula.

mod common;

use common::*;
use steelyard_policy::Policy;
use steelyard_simulator::config::{Costs, Domain, Host, Io, Reservation, Setup};
use steelyard_simulator::measure::Run;
use steelyard_simulator::units::Nanoseconds;
use steelyard_simulator::workload::{Busy, Client, Disk, Ping, Spinlock, Stream, Web, Workload};

fn free_host(pcpus: u32) -> Host {
    Host { costs: no_costs(), ..Host::with_pcpus(pcpus) }
}

fn busy_domain(name: &str, weight: u32) -> Domain {
    Domain { weight, ..Domain::new(name, 1).with_task(1, Busy::default()) }
}

fn alone(host: Host, workload: impl Into<Workload>) -> Setup {
    Setup { host, domains: vec![Domain::new("alone", 1).with_task(1, workload)] }
}

fn share(run: &Run, domain: usize) -> f64 {
    run.domains[domain].share_percent
}

fn assert_near(found: f64, expected: f64, relative: f64, what: &dyn std::fmt::Display) {
    let allowed = relative * expected;
    assert!((found - expected).abs() <= allowed, "{what}: {found} instead of {expected}");
}

/// Who ran from when to when, in ms.
fn timeline(setup: &Setup, policy: &Policy, length_ns: u64) -> Vec<(u32, u64, u64)> {
    let (_, trace) = run_traced(setup, policy, 1, length_ns);
    let runs = trace.segments.iter().filter(|segment| segment.pcpu.is_some());
    let runs = runs.map(|run| {
        assert_eq!((run.start_ns % MS, run.end_ns % MS), (0, 0), "{run:?}");
        (run.domain, run.start_ns / MS, run.end_ns / MS)
    });
    // What goes on after a choice is one run.
    let mut joined: Vec<(u32, u64, u64)> = vec![];
    for run in runs {
        match joined.last_mut() {
            Some(last) if (last.0, last.2) == (run.0, run.1) => last.2 = run.2,
            _ => joined.push(run),
        }
    }
    joined
}

/// Slice and period 5/25, 2/10, 5/10 ms without extra time: at equal deadlines the first comes
/// first, and 10 % stay idle.
#[test]
fn sedf_runs_the_earliest_deadline() {
    let domains = [(25, 5), (10, 2), (10, 5)].iter().zip(["a", "b", "c"]);
    let domains = domains.map(|(&(period_ms, slice_ms), name)| Domain {
        sedf: Some(Reservation {
            period: Nanoseconds::from_ms(period_ms),
            slice: Nanoseconds::from_ms(slice_ms),
            extra_time: false,
        }),
        ..busy_domain(name, 256)
    });
    let setup = Setup { host: free_host(1), domains: domains.collect() };
    let (a, b, c) = (0, 1, 2);
    let round = [
        (b, 0, 2),
        (c, 2, 7),
        (a, 7, 10),
        (b, 10, 12),
        (c, 12, 17),
        (a, 17, 19),
        // idle; the second period of a starts at 25
        (b, 20, 22),
        (c, 22, 27),
        (a, 27, 30),
        (b, 30, 32),
        (c, 32, 37),
        (a, 37, 39),
        // idle
        (b, 40, 42),
        (c, 42, 47),
        // idle
    ];
    let expected: Vec<_> = [0, 50]
        .iter()
        .flat_map(|&t| round.map(|(who, from, to)| (who, from + t, to + t)))
        .collect();
    assert_eq!(timeline(&setup, &policy("sedf"), 100 * MS), expected);
}

/// Weights 1:2 on one pCPU, ticks at 2, 6, 10, ... ms. The latency of 6 ms gives turns of 2 and
/// 4 ms; who has had more than its turn at a tick gives way if the other's virtual runtime is not
/// greater. Virtual ms: a 6 | b 8 | a 10 | b 12 | ...
#[test]
fn cfs_takes_turns_by_weight_at_ticks() {
    let domains = vec![busy_domain("a", 256), busy_domain("b", 512)];
    let setup = Setup { host: free_host(1), domains };
    let (a, b) = (0, 1);
    let expected =
        [(a, 0, 6), (b, 6, 22), (a, 22, 26), (b, 26, 34), (a, 34, 38), (b, 38, 46), (a, 46, 50)];
    assert_eq!(timeline(&setup, &policy("fair@cfs"), 50 * MS), expected);
}

/// Weights 1:2, the heavier one capped at 25 %: it gets that, the other the rest.
#[test]
fn a_cap_leaves_the_rest_to_the_other() {
    for policy in policies() {
        if ["credit2@xen-4.5", "fair@cfs"].contains(&policy.to_string().as_str()) {
            continue; // They know no caps.
        }
        let mut domains = vec![busy_domain("free", 256), busy_domain("capped", 512)];
        domains[1].cap_percent = 25;
        let run = run(&Setup { host: free_host(1), domains }, &policy, 1, 60 * S);
        assert_near(share(&run, 1), 25.0, 0.01, &policy);
        assert_near(share(&run, 0), 75.0, 0.01, &policy);
    }
}

/// Two ways on the wire, 98 bytes sent each way at 1 Gbit/s, and the guest's 10 us.
#[test]
fn ping_to_an_idle_host_takes_what_its_parts_take() {
    let expected_ns = 2 * 50_000 + 2 * (98 * 8) + 10_000;
    for policy in policies() {
        let run = run(&alone(free_host(2), Ping::default()), &policy, 1, 10 * S);
        let task = &run.domains[0].tasks[0];
        for figure in ["mean", "p50", "p99", "worst"] {
            let found = value(task, &format!("round trip {figure}"));
            assert_near(found, expected_ns as f64 / 1e6, 0.001, &policy);
        }
    }
}

/// Poisson arrivals, constant service, one server (M/D/1): the mean response time is
/// s + rho x s / (2 (1 - rho)), by Pollaczek and Khinchine.
#[test]
fn a_web_server_responds_as_queueing_theory_says() {
    for (rate_per_s, service_us) in [(1_000, 500), (1_600, 500)] {
        let service = Nanoseconds::from_us(service_us);
        let web = Web { client: Client::Open { rate_per_s }, service, ..Web::default() };
        let run = run(&alone(free_host(1), web), &policy("credit2"), 1, 200 * S);
        let service_ms = service_us as f64 / 1e3;
        let rho = rate_per_s as f64 * service_ms / 1e3;
        let wire_ms = (2 * 50_000 + (200 + 4096) * 8) as f64 / 1e6;
        let expected_ms = service_ms + rho * service_ms / (2.0 * (1.0 - rho)) + wire_ms;
        let task = &run.domains[0].tasks[0];
        assert_near(value(task, "response time mean"), expected_ms, 0.03, &rho);
        assert_near(value(task, "requests"), rate_per_s as f64, 0.01, &rho);
        assert_near(share(&run, 0), 100.0 * rho, 0.01, &rho);
    }
}

/// Block after block: latency, transfer, and the guest's own time.
#[test]
fn a_disk_stream_is_as_fast_as_its_parts() {
    let Io { disk_latency, disk_mbyte_per_s, .. } = Io::default();
    let Disk { block_bytes, block_service } = Disk::default();
    let transfer_ns = block_bytes * 1_000 / disk_mbyte_per_s;
    let block_ns = disk_latency.0 + transfer_ns + block_service.0;
    for policy in policies() {
        let run = run(&alone(free_host(1), Disk::default()), &policy, 1, 10 * S);
        let expected = block_bytes as f64 * 1e3 / block_ns as f64;
        assert_near(value(&run.domains[0].tasks[0], "throughput"), expected, 0.001, &policy);
    }
}

/// With a pCPU each, who wants the lock waits for one critical section at most. On one pCPU the
/// holder, or who is about to take the lock, loses the pCPU for as long as the other runs.
#[test]
fn lock_holders_lose_their_pcpu() {
    for policy in policies() {
        let worst_ms = |pcpus| {
            let domain = Domain::new("locks", 2).with_task(2, Spinlock::default());
            let setup = Setup { host: free_host(pcpus), domains: vec![domain] };
            let run = run(&setup, &policy, 1, 10 * S);
            value(&run.domains[0].tasks[0], "acquisition worst")
        };
        let hold_ms = Spinlock::default().hold.0 as f64 / 1e6;
        assert!(worst_ms(2) <= 1.001 * hold_ms, "{policy}");
        assert!(worst_ms(1) >= 20.0 * hold_ms, "{policy}");
    }
}

/// Every packet passes through the driver domain: without CPU time for that one a web server is slow,
/// however much it has itself.
#[test]
fn a_starved_driver_domain_slows_the_network() {
    for policy in policies() {
        if policy.discipline().name == "credit" && policy.vintage() == "xen-3.3" {
            continue; // Who sleeps at ticks is not charged, and so never starved.
        }
        let mean_ms = |weight| {
            let mut host = free_host(1);
            host.io = Io {
                driver_domain: Some("driver".to_owned()),
                packet_cost: Nanoseconds::from_us(200),
                ..Io::default()
            };
            let client = Client::Closed { clients: 20, think: Nanoseconds::from_ms(5) };
            let web = Web { client, ..Web::default() };
            let domains = vec![
                Domain { weight, ..Domain::new("driver", 1) },
                busy_domain("hog", 256),
                Domain { weight: 4096, ..Domain::new("web", 1).with_task(1, web) },
            ];
            let run = run(&Setup { host, domains }, &policy, 1, 10 * S);
            value(&run.domains[2].tasks[0], "response time mean")
        };
        let (fed, starved) = (mean_ms(4096), mean_ms(16));
        assert!(starved > 2.0 * fed, "{policy}: {starved} after {fed} ms");
    }
}

/// Where nothing takes any time, time passes nevertheless.
#[test]
fn devices_without_delay_do_not_stop_time() {
    let mut host = free_host(1);
    host.io.wire_latency = Nanoseconds(0);
    host.io.disk_latency = Nanoseconds(0);
    host.io.link_mbit_per_s = 10_000_000;
    host.io.disk_mbyte_per_s = 1_000_000;
    let stream = Stream { packet_bytes: 1, packet_service: Nanoseconds(0), ..Stream::default() };
    let disk = Disk { block_bytes: 1, block_service: Nanoseconds(0) };
    let domain = Domain::new("fast", 1).with_task(1, stream).with_task(1, disk);
    let setup = Setup { host, domains: vec![domain] };
    for policy in policies() {
        assert_eq!(run(&setup, &policy, 1, 10 * US).elapsed_ns, 10 * US);
    }
}

// ---- Topology and costs ----

/// Two vCPUs that are always busy end on different cores, where the policy looks for idle cores.
#[test]
fn busy_vcpus_get_a_core_each() {
    for name in [
        "credit@xen-3.3",
        "credit@xen-4.2",
        "credit@xen-4.5",
        "credit@xen-4.20",
        "credit2@xen-4.20",
    ] {
        let host = Host { cores_per_socket: 2, threads_per_core: 2, ..Host::default() };
        let domain = Domain::new("busy", 2).with_task(2, Busy::default());
        let setup = Setup { host, domains: vec![domain] };
        let (_, trace) = run_traced(&setup, &policy(name), 1, S);
        let last_core = |vcpu| {
            let mine = trace.segments.iter().filter(|segment| segment.vcpu == vcpu);
            mine.max_by_key(|segment| segment.end_ns).unwrap().pcpu.unwrap() / 2
        };
        assert_ne!(last_core(0), last_core(1), "{name}");
    }
}

/// Two vCPUs in turn on one pCPU: each start costs a switch and a refill, a wake-up an interrupt,
/// and the very first finds no cache to refill.
#[test]
fn taking_turns_costs_what_the_costs_say() {
    let costs = Costs::default();
    let start_ns = costs.context_switch.0 + costs.cache_refill.0;
    for policy in policies() {
        let domains = vec![busy_domain("a", 256), busy_domain("b", 256)];
        let setup = Setup { host: Host::default(), domains };
        // The end is no moment at which slices end: every start has been paid for.
        let run = run(&setup, &policy, 1, 10 * S + 250 * US);
        for (index, domain) in run.domains.iter().enumerate() {
            let mut expected_ns = domain.time.switches * start_ns + costs.interrupt.0;
            if index == 0 {
                expected_ns -= costs.cache_refill.0;
            }
            assert!(domain.time.switches > 100, "{policy}");
            assert_eq!(domain.time.overhead_ns, expected_ns, "{policy}: {}", domain.name);
        }
    }
}

/// Three vCPUs over two pCPUs: a migration costs nothing within a core, more within a socket, most
/// between sockets.
#[test]
fn migrations_cost_by_distance() {
    let costs = Costs {
        migration: Nanoseconds::from_us(10),
        socket_migration: Nanoseconds::from_us(100),
        ..no_costs()
    };
    for (sockets, cores_per_socket, threads_per_core, cost) in
        [(1, 1, 2, Nanoseconds(0)), (1, 2, 1, costs.migration), (2, 1, 1, costs.socket_migration)]
    {
        let host = Host {
            sockets,
            cores_per_socket,
            threads_per_core,
            costs: costs.clone(),
            ..Host::default()
        };
        let domain = Domain::new("busy", 3).with_task(3, Busy::default());
        let mut policy = policy("credit2");
        policy.set("queue", "all").unwrap();
        let run = run(&Setup { host, domains: vec![domain] }, &policy, 1, 10 * S);
        let time = &run.domains[0].time;
        assert!(time.migrations > 100, "{time:?}");
        // What the last start of each owes may not be paid yet.
        let most_ns = time.migrations * cost.0;
        assert!(
            (most_ns.saturating_sub(3 * cost.0)..=most_ns).contains(&time.overhead_ns),
            "{time:?}"
        );
    }
}
