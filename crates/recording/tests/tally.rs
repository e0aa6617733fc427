// SPDX-License-Identifier: GPL-2.0-only
//! What segments add up to is what a simulation measures by itself, and what they say.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use steelyard_policy::Policy;
use steelyard_recording::{Domain, Host, OtherRun, State, Structure, Tally, Vcpu};
use steelyard_simulator::Simulation;
use steelyard_simulator::config::{Domain as Simulated, Host as SimulatedHost, Setup};
use steelyard_simulator::measure::{Ran, Segment, WorstWait};
use steelyard_simulator::units::Nanoseconds;
use steelyard_simulator::workload::{Busy, Web};

const MS: u64 = 1_000_000;

/// Domains by id, with their number of vCPUs.
fn structure(domains: &[(u64, u32)]) -> Arc<Structure> {
    let vcpu = |id: u32| Vcpu { id: id.into(), name: format!("vCPU {id}") };
    let domain = |&(id, vcpus): &(u64, u32)| Domain {
        id,
        name: format!("dom{id}"),
        weight: 256,
        ungrouped: false,
        groups_around: None,
        cap_percent: 0,
        vcpus: (0..vcpus).map(vcpu).collect(),
    };
    Arc::new(Structure {
        host: Host {
            name: "host".to_owned(),
            source: "test".to_owned(),
            pcpus: 2,
            began_unix_ns: None,
            unseen: vec![],
        },
        domains: domains.iter().map(domain).collect(),
    })
}

/// At each look, a tally of what a simulation did is what the simulation measured.
fn agrees(policy: &str, pcpus: u32) {
    let sleeper = Busy {
        compute: Nanoseconds(3 * MS),
        sleep: Nanoseconds(5 * MS),
        jitter_percent: 50,
        ..Busy::default()
    };
    let setup = Setup {
        host: SimulatedHost::with_pcpus(pcpus),
        domains: vec![
            Simulated { weight: 512, ..Simulated::new("dom0", 2).with_task(2, Busy::default()) },
            Simulated { cap_percent: 30, ..Simulated::new("dom1", 2).with_task(2, sleeper) },
            Simulated::new("dom2", 3).with_task(3, Web::default()),
        ],
    };
    let structure = structure(&[(0, 2), (1, 2), (2, 3)]);
    let policy = Policy::named(policy).unwrap();
    let mut simulation = Simulation::new(&setup, &policy, 1).unwrap();
    simulation.trace(0, u64::MAX);
    let mut tally = Tally::default();
    tally.set_structure(&structure);
    for look in 1..40 {
        simulation.run_until(look * 17 * MS);
        simulation.drain_segments().for_each(|segment| tally.add(&segment));
        let open: Vec<_> = simulation.open_segments().collect();
        let run = simulation.measure();
        let vcpus = run.domains.iter().flat_map(|domain| &domain.vcpus);
        for (index, (figures, vcpu)) in tally.figures(&open).into_iter().zip(vcpus).enumerate() {
            let at = format!("{policy}, vCPU {index}, look {look}");
            let time = &vcpu.time;
            assert_eq!(figures.gotten_ns, time.gotten_ns, "{at}");
            assert_eq!(figures.waited_ns, Some(time.waited_ns), "{at}");
            assert_eq!(figures.switches, Some(time.switches), "{at}");
            assert_eq!(figures.migrations, Some(time.migrations), "{at}");
            assert_eq!(figures.preemptions, Some(time.preemptions), "{at}");
            let waits = figures.waits.unwrap();
            assert_eq!(waits.histogram, time.waits.histogram, "{at}");
            // The simulation looks at all pCPUs that share a queue, of those who wait for their
            // first run too.
            let same_pcpus = pcpus == 1 && figures.pcpu.is_some();
            let comparable = |mut worst: WorstWait| {
                worst.ran.retain(|_| same_pcpus);
                worst.ran.sort_by_key(|ran| (ran.domain.clone(), ran.vcpu));
                worst
            };
            let worst = waits.worst.map(comparable);
            let measured = time.waits.worst.clone().map(comparable);
            assert_eq!(worst, measured, "{at}");
        }
    }
}

#[test]
fn a_tally_is_what_a_simulation_measures() {
    for policy in ["credit", "credit2", "fair", "sedf", "credit2+reset-boost", "credit@xen-3.3"] {
        for pcpus in [1, 3] {
            agrees(policy, pcpus);
        }
    }
}

fn run(domain: u32, pcpu: u32, start_ns: u64, end_ns: u64) -> Segment {
    Segment { domain, vcpu: 0, pcpu: Some(pcpu), start_ns, end_ns }
}

fn wait(domain: u32, start_ns: u64, end_ns: u64) -> Segment {
    Segment { domain, vcpu: 0, pcpu: None, start_ns, end_ns }
}

#[test]
fn who_ran_meanwhile() {
    let mut tally = Tally::default();
    tally.set_structure(&structure(&[(7, 1), (8, 1), (9, 1)]));
    tally.add(&run(1, 0, 0, 100));
    tally.add(&run(2, 1, 0, 150));
    let name = "rcu_sched".into();
    tally.add_other(&OtherRun {
        name,
        thread: 0,
        priority: None,
        waited: false,
        pcpu: 0,
        start_ns: 100,
        end_ns: 105,
    });
    tally.add(&run(1, 0, 105, 200));
    tally.add(&wait(0, 50, 200));
    // While the run lasts the wait before it is known already, and told of once.
    let lasting = [run(0, 0, 200, 210)];
    for _ in 0..2 {
        let figures = &tally.figures(&lasting)[0];
        assert_eq!(
            (figures.gotten_ns, figures.waited_ns, figures.switches),
            (10, Some(150), Some(1))
        );
        assert_eq!((figures.state, figures.pcpu), (Some(State::Running), Some(0)));
        let worst = figures.waits.clone().unwrap().worst.unwrap();
        let ran = |domain: &str, ran_ns| Ran { domain: domain.to_owned(), vcpu: 0, ran_ns };
        assert_eq!(worst.ran, [ran("dom8", 145), ran("rcu_sched", 5)]);
        assert_eq!((worst.start_ns, worst.length_ns), (50, 150));
    }
    tally.add(&run(0, 0, 200, 300));
    let figures = &tally.figures(&[])[0];
    assert_eq!((figures.gotten_ns, figures.switches), (100, Some(1)));
    assert_eq!(figures.state, Some(State::Blocked));
}

#[test]
fn domains_come_and_go() {
    let mut tally = Tally::default();
    tally.set_structure(&structure(&[(1, 1), (2, 1)]));
    tally.add(&run(0, 0, 0, 10));
    tally.add(&run(1, 0, 10, 30));
    // Somebody who is not there counts for nobody.
    tally.add(&run(2, 0, 0, 10));
    tally.add(&Segment { vcpu: 5, ..run(0, 0, 0, 10) });
    let gotten =
        |tally: &mut Tally| tally.figures(&[]).iter().map(|f| f.gotten_ns).collect::<Vec<_>>();
    assert_eq!(gotten(&mut tally), [10, 20]);
    tally.set_structure(&structure(&[(3, 1), (2, 2)]));
    assert_eq!(gotten(&mut tally), [0, 20, 0]);
    tally.add(&run(1, 0, 30, 35));
    assert_eq!(gotten(&mut tally), [0, 25, 0]);
    // Who comes back begins anew.
    tally.set_structure(&structure(&[(1, 1)]));
    assert_eq!(gotten(&mut tally), [0]);
}

#[test]
fn preempted_is_who_waits_from_where_its_run_ended() {
    let mut tally = Tally::default();
    tally.set_structure(&structure(&[(1, 1)]));
    let counts = |tally: &mut Tally, open: &[Segment]| {
        let figures = tally.figures(open).remove(0);
        (figures.switches.unwrap(), figures.migrations.unwrap(), figures.preemptions.unwrap())
    };
    tally.add(&run(0, 0, 0, 10));
    assert_eq!(counts(&mut tally, &[]), (1, 0, 0));
    // Twice told, once counted.
    assert_eq!(counts(&mut tally, &[wait(0, 10, 15)]), (1, 0, 1));
    assert_eq!(counts(&mut tally, &[wait(0, 10, 18)]), (1, 0, 1));
    tally.add(&wait(0, 10, 20));
    tally.add(&run(0, 1, 20, 30));
    assert_eq!(counts(&mut tally, &[]), (2, 1, 1));
    // It slept, and then waited.
    tally.add(&wait(0, 40, 50));
    assert_eq!(counts(&mut tally, &[run(0, 1, 50, 60)]), (3, 1, 1));
    // It went over to another pCPU without a wait.
    tally.add(&run(0, 1, 50, 60));
    tally.add(&run(0, 0, 60, 70));
    assert_eq!(counts(&mut tally, &[]), (4, 2, 2));
}

/// Runs and waits of a vCPU, one after the other: what it does (0: it waits, 1: it runs, 2: it is
/// blocked) and for how long.
fn life() -> impl Strategy<Value = Vec<(u8, u64)>> {
    vec((0..3_u8, 0..1000_u64), 0..50)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn sums_are_those_of_the_segments(lives in vec(life(), 1..4)) {
        let domains: Vec<_> = (0..lives.len() as u64).map(|id| (id, 1)).collect();
        let mut segments = vec![];
        for (domain, life) in (0..).zip(&lives) {
            let mut now_ns = 0;
            for &(kind, length_ns) in life {
                let end_ns = now_ns + length_ns;
                match kind {
                    0 => segments.push(wait(domain, now_ns, end_ns)),
                    1 => segments.push(run(domain, domain % 2, now_ns, end_ns)),
                    _ => {}
                }
                now_ns = end_ns;
            }
        }
        segments.sort_by_key(|segment| segment.end_ns);
        let mut tally = Tally::default();
        tally.set_structure(&structure(&domains));
        for segment in &segments {
            tally.add(segment);
        }
        for (domain, figures) in (0..).zip(tally.figures(&[])) {
            let own = || segments.iter().filter(|segment| segment.domain == domain);
            let runs = own().filter(|segment| segment.pcpu.is_some());
            let waits = own().filter(|segment| segment.pcpu.is_none());
            let length = |segment: &Segment| segment.end_ns - segment.start_ns;
            prop_assert_eq!(figures.gotten_ns, runs.clone().map(length).sum::<u64>());
            prop_assert_eq!(figures.waited_ns, Some(waits.clone().map(length).sum::<u64>()));
            prop_assert_eq!(figures.switches, Some(runs.count() as u64));
            let counted = figures.waits.unwrap();
            let longest = waits.clone().map(length).max().filter(|&ns| ns > 0);
            prop_assert_eq!(counted.worst.map(|worst| worst.length_ns), longest);
            let number: u64 = counted.histogram.iter().map(|&(_, count)| count).sum();
            prop_assert!(number >= waits.count() as u64);
        }
    }

    #[test]
    fn anything_can_be_added(
        segments in vec((0..4_u32, 0..3_u32, prop::option::of(0..3_u32), any::<u64>(), any::<u64>()), 0..100)
    ) {
        let mut tally = Tally::default();
        tally.set_structure(&structure(&[(0, 2), (1, 1)]));
        for (domain, vcpu, pcpu, start_ns, end_ns) in segments {
            let segment = Segment { domain, vcpu, pcpu, start_ns, end_ns };
            tally.figures(&[segment]);
            tally.add(&segment);
        }
    }
}
