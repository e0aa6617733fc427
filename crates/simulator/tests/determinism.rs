// SPDX-License-Identifier: GPL-2.0-only
//! The same scenario, policy and seed give the same bytes: alone, beside others in any number of
//! threads, in one go or in slices, traced or not, and on every machine.

mod common;

use std::hash::Hasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use common::*;
use fnv::FnvHasher;
use steelyard_policy::Policy;
use steelyard_simulator::config::{Domain, Host, Setup};
use steelyard_simulator::measure::Run;
use steelyard_simulator::units::Nanoseconds;
use steelyard_simulator::workload::{
    Boot, Busy, Client, Disk, Ping, Spinlock, Stream, SysbenchCpu, Video, Web,
};

const LENGTH_NS: u64 = S;

/// Something of everything: two sockets with threads, a driver domain, a cap, a pinned domain, and
/// every workload that draws at random or does not.
fn setup() -> Setup {
    let mut host = Host { sockets: 2, cores_per_socket: 2, threads_per_core: 2, ..Host::default() };
    host.io.driver_domain = Some("driver".to_owned());
    let web = Web {
        client: Client::Closed { clients: 20, think: Nanoseconds::from_ms(5) },
        ..Web::default()
    };
    let load = Busy {
        compute: Nanoseconds::from_ms(7),
        sleep: Nanoseconds::from_ms(11),
        jitter_percent: 30,
        backlog: true,
        ..Busy::default()
    };
    let mut domains = vec![
        Domain::new("driver", 1),
        Domain::new("web", 2).with_task(4, web).with_task(1, Ping::default()),
        Domain::new("video", 2).with_task(2, Video::default()).with_task(1, Boot::default()),
        Domain::new("load", 4).with_task(6, load),
        Domain::new("capped", 2).with_task(2, SysbenchCpu::default()),
        Domain::new("pinned", 2).with_task(2, Spinlock::default()),
        Domain::new("stream", 1).with_task(1, Stream::default()).with_task(1, Disk::default()),
        Domain::new("batch", 6).with_task(6, Busy::default()),
    ];
    domains[3].weight = 512;
    domains[4].cap_percent = 50;
    domains[5].pin = vec![[1, 2].into_iter().collect()];
    Setup { host, domains }
}

/// Of the results as JSON. FNV-1a over bytes is the same everywhere.
fn hash(run: &Run) -> u64 {
    let mut hasher = FnvHasher::default();
    hasher.write(&serde_json::to_vec(run).expect("results are plain data"));
    hasher.finish()
}

fn hash_of(policy: &Policy, seed: u64) -> u64 {
    hash(&run(&setup(), policy, seed, LENGTH_NS))
}

#[test]
fn threads_side_by_side_change_nothing() {
    const SEEDS: u64 = 3;
    let jobs: Vec<(Policy, u64)> = all_policies()
        .into_iter()
        .flat_map(|policy| (0..SEEDS).map(move |seed| (policy.clone(), seed)))
        .collect();
    let in_threads = |threads: usize| {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = vec![];
            while let Some((policy, seed)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                done.push((policy.to_string(), *seed, hash_of(policy, *seed)));
            }
            done
        };
        let mut all: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        all.sort();
        all
    };
    let alone = in_threads(1);
    assert_eq!(alone, in_threads(8));
    // Every policy and seed is told apart.
    let mut hashes: Vec<u64> = alone.iter().map(|&(_, _, hash)| hash).collect();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), jobs.len());
}

#[test]
fn slices_measures_and_traces_change_nothing() {
    for policy in all_policies() {
        let expected = hash_of(&policy, 1);
        let mut simulation = simulation(&setup(), &policy, 1);
        simulation.trace(LENGTH_NS / 3, LENGTH_NS / 2);
        let mut until_ns = 0;
        for step in 1u64.. {
            until_ns = LENGTH_NS.min(until_ns + step * 997);
            simulation.run_until(until_ns);
            assert_eq!(simulation.now_ns(), until_ns);
            if step % 100 == 0 {
                simulation.measure();
            }
            if until_ns == LENGTH_NS {
                break;
            }
        }
        assert_eq!(hash(&simulation.measure()), expected, "{policy}");
    }
}

#[test]
fn whoever_watches_changes_nothing_and_may_end_it() {
    for policy in all_policies() {
        let mut watched = simulation(&setup(), &policy, 1);
        let mut looks_ns = vec![];
        let watch = |now_ns| {
            looks_ns.push(now_ns);
            Ok::<(), ()>(())
        };
        watched.run_watched(LENGTH_NS, watch).unwrap();
        assert_eq!(hash(&watched.measure()), hash_of(&policy, 1), "{policy}");
        assert!(looks_ns.len() > 1 && looks_ns.is_sorted() && looks_ns.last() < Some(&LENGTH_NS));
        let mut ended = simulation(&setup(), &policy, 1);
        assert_eq!(ended.run_watched(u64::MAX, |_| Err("enough")), Err("enough"));
        assert_eq!(ended.now_ns(), looks_ns[0]);
    }
}

/// These values change whenever the simulator, this scenario or a policy changes on purpose: then
/// run `PRINT_HASHES=1 cargo test -p steelyard-simulator --test determinism pinned -- --nocapture`
/// and put what it prints here. Where none of them changed, a new value is a mistake.
const PINNED: &[(&str, u64)] = &[
    ("sedf@xen-4.2", 0x2b3be090eba5b6b8),
    ("credit@xen-3.3", 0xbf4afe0627f1b564),
    ("credit@xen-3.3-fujitsu", 0xec4c270786bd6116),
    ("credit@xen-4.2", 0x2e5a48ef2ba5dd82),
    ("credit@xen-4.5", 0xcea627539662bf8b),
    ("credit@xen-4.20", 0x315262272b6413ed),
    ("credit2@xen-4.5", 0x4793398a795565f9),
    ("credit2@xen-4.20", 0xc42e81064a981500),
    ("fair@poise", 0x3762bca424d35731),
    ("fair@cfs", 0xe72b22e44c427bfd),
    ("fair@eevdf", 0xc03bb2a2180c0c45),
    ("mcredit2", 0x99da9cb4f3c70572),
    ("load-weight", 0x0afe2f79a2932a7a),
    ("boost-credit", 0x28fa8b934f106eb1),
    ("app-slice", 0x8338b6217b118966),
    ("lockvisor", 0x556c8e9833b19ffa),
    ("poise", 0x58253f516a3d6d45),
];

#[test]
fn pinned_results() {
    let found: Vec<(String, u64)> =
        all_policies().iter().map(|policy| (policy.to_string(), hash_of(policy, 1))).collect();
    if std::env::var_os("PRINT_HASHES").is_some() {
        for (policy, hash) in &found {
            println!("    (\"{policy}\", {hash:#018x}),");
        }
    }
    let pinned: Vec<_> = PINNED.iter().map(|&(policy, hash)| (policy.to_owned(), hash)).collect();
    assert_eq!(
        found, pinned,
        "PRINT_HASHES=1 cargo test -p steelyard-simulator --test determinism pinned -- --nocapture prints them anew"
    );
}

/// Each thread and client draws from a stream of its own name: who else is there does not matter.
#[test]
fn another_domain_does_not_change_what_one_draws() {
    let requests = |others: Vec<Domain>| {
        let web = Web {
            client: Client::Open { rate_per_s: 1000, timeout: Nanoseconds(0) },
            ..Web::default()
        };
        let load = Busy { sleep: Nanoseconds::from_ms(3), jitter_percent: 50, ..Busy::default() };
        let mut domains = others;
        domains.push(Domain::new("web", 1).with_task(1, web));
        domains.push(Domain::new("load", 1).with_task(1, load));
        for (pcpu, domain) in domains.iter_mut().enumerate() {
            domain.pin = vec![[pcpu as u32].into_iter().collect()];
        }
        let run = run(&Setup { host: Host::with_pcpus(4), domains }, &policy("credit2"), 1, S);
        let mut measured = run.domains;
        measured.drain(..measured.len() - 2);
        measured.into_iter().map(|domain| domain.tasks).collect::<Vec<_>>()
    };
    let alone = requests(vec![]);
    let noisy = Busy { jitter_percent: 90, sleep: Nanoseconds::from_ms(1), ..Busy::default() };
    // They share neither pCPU nor devices.
    let others = ["first", "second"].map(|name| Domain::new(name, 1).with_task(2, noisy.clone()));
    assert_eq!(alone, requests(others.to_vec()));
}

/// Where all domains start later, at a time to which ticks and accountings fit, the same happens later.
#[test]
fn a_host_that_starts_later_does_the_same_later() {
    const LATER: Nanoseconds = Nanoseconds::from_ms(3_000);
    let nap =
        Busy { compute: Nanoseconds::from_ms(3), sleep: Nanoseconds(5_300_000), ..Busy::default() };
    let mut domains = vec![
        Domain::new("busy", 2).with_task(2, Busy::default()),
        Domain::new("nap", 1).with_task(1, nap),
        Domain::new("heavy", 1).with_task(1, Busy::default()),
    ];
    domains[2].weight = 512;
    let now = Setup { host: Host::with_pcpus(2), domains };
    let mut later = now.clone();
    for domain in &mut later.domains {
        domain.start = LATER;
    }
    for policy in all_policies() {
        let what_happened = |setup: &Setup, length_ns: u64| {
            let run = run(setup, &policy, 1, length_ns);
            let times = run.domains.into_iter().map(|domain| domain.time);
            let what =
                times.map(|time| (time.gotten_ns, time.waited_ns, time.switches, time.migrations));
            what.collect::<Vec<_>>()
        };
        let (now, later) =
            (what_happened(&now, LENGTH_NS), what_happened(&later, LATER.0 + LENGTH_NS));
        assert_eq!(now, later, "{policy}");
    }
}
