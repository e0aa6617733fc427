// SPDX-License-Identifier: GPL-2.0-only
//! What is near comes first, worked out by hand on a host with every level: two sockets of two nodes of two
//! last-level caches of two cores of two threads. The numbers of a core are 2, of a cache 4, of a node 8, of a socket 16.

mod common;

use common::*;
use steelyard_simulator::config::{Domain, Host, Setup};
use steelyard_simulator::measure::Trace;
use steelyard_simulator::units::{CpuSet, Nanoseconds};
use steelyard_simulator::workload::Busy;

const PCPUS: u32 = 32;

fn host() -> Host {
    Host {
        sockets: 2,
        cores_per_socket: 8,
        nodes_per_socket: 2,
        caches_per_node: 2,
        threads_per_core: 2,
        costs: no_costs(),
        ..Host::default()
    }
}

/// Computes and sleeps by turns, for so many ms each.
fn works(compute_ms: u64, sleep_ms: u64) -> Busy {
    let (compute, sleep) = (Nanoseconds::from_ms(compute_ms), Nanoseconds::from_ms(sleep_ms));
    Busy { compute, sleep, ..Busy::default() }
}

/// One domain that begins on each pCPU: a new vCPU begins where fewest do. Those without work never run.
fn one_each(of: impl Fn(u32) -> Option<Domain>) -> impl Iterator<Item = Domain> {
    (0..PCPUS).map(move |pcpu| of(pcpu).unwrap_or_else(|| Domain::new("idle", 1)))
}

/// With names of their own.
fn setup(domains: impl Iterator<Item = Domain>) -> Setup {
    let named = domains
        .enumerate()
        .map(|(number, domain)| Domain { name: format!("{}-{number}", domain.name), ..domain });
    Setup { host: host(), domains: named.collect() }
}

/// Where the domains of this name run first, in the order in which they do.
fn first_pcpus(setup: &Setup, trace: &Trace, name: &str) -> Vec<u32> {
    let of_name = |domain: usize| setup.domains[domain].name.starts_with(name);
    let mut firsts: Vec<_> = (0..setup.domains.len())
        .filter(|&domain| of_name(domain))
        .filter_map(|domain| {
            let mine = trace.segments.iter().filter(|run| run.domain as usize == domain);
            let first = mine.filter(|run| run.pcpu.is_some()).min_by_key(|run| run.start_ns)?;
            Some((first.start_ns, first.pcpu?))
        })
        .collect();
    firsts.sort_unstable();
    firsts.into_iter().map(|(_, pcpu)| pcpu).collect()
}

/// One after the other wakes that was on pCPU 13, and never stops. The first finds it idle, the others get what is
/// nearest: a whole core of its cache, of its node (8 to 15), of its socket (0 to 15), of the other one; then what is left.
#[test]
fn a_woken_vcpu_goes_to_the_nearest_idle_pcpu() {
    let busy = |number: u32| {
        one_each(move |pcpu| {
            let start = Nanoseconds::from_ms(number.into());
            let domain = Domain { start, ..Domain::new("busy", 1) };
            (pcpu == 13).then(|| domain.with_task(1, works(10, 0)))
        })
    };
    let setup = setup((0..PCPUS).flat_map(busy));
    let whole_cores = [13, 14, 8, 10, 0, 2, 4, 6, 16, 18, 20, 22, 24, 26, 28, 30];
    let threads = [12, 15, 9, 11, 1, 3, 5, 7, 17, 19, 21, 23, 25, 27, 29, 31];
    for name in ["fair@cfs", "fair@eevdf"] {
        let (_, trace) = run_traced(&setup, &policy(name), 1, 40 * MS);
        let expected: Vec<_> = whole_cores.into_iter().chain(threads).collect();
        assert_eq!(first_pcpus(&setup, &trace, "busy"), expected, "{name}");
    }
}

/// Every pCPU runs somebody who may not go elsewhere. At 5 ms pCPU 13 has nobody any more and takes those who wait, for
/// 1 ms each: first of its cache, from the next number on, then of its node, of its socket, of the other.
#[test]
fn an_idle_pcpu_steals_from_the_nearest() {
    let pinned = one_each(|pcpu| {
        let pin = vec![CpuSet::from_iter([pcpu])];
        let work = if pcpu == 13 { works(5, 1000) } else { works(10, 0) };
        Some(Domain { pin, ..Domain::new("stays", 1).with_task(1, work) })
    });
    let waits = |at: &'static [u32]| {
        one_each(move |pcpu| {
            let name = format!("from {pcpu:02}");
            at.contains(&pcpu).then(|| Domain::new(name, 1).with_task(1, works(1, 1000)))
        })
    };
    let setup = setup(pinned.chain(waits(&[1, 6, 9, 11, 12, 15, 17, 30])));
    for name in ["credit@xen-3.3", "credit@xen-4.2", "credit@xen-4.5", "credit@xen-4.20"] {
        let (_, trace) = run_traced(&setup, &policy(name), 1, 14 * MS);
        let mut here: Vec<_> = trace.segments.iter().filter(|run| run.pcpu == Some(13)).collect();
        here.sort_by_key(|run| run.start_ns);
        let names = here.iter().map(|run| setup.domains[run.domain as usize].name.as_str());
        let origins: Vec<_> =
            names.filter_map(|name| name.strip_prefix("from ")?.get(..2)).collect();
        assert_eq!(origins, ["15", "12", "09", "11", "01", "06", "17", "30"], "{name}");
    }
}
