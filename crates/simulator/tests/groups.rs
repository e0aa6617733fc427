// SPDX-License-Identifier: GPL-2.0-only
//! Groups as entities in each queue, as Linux's control groups are: shares worked out by hand from the weights.

mod common;

use common::{MS, S, group, linux_with_groups, no_costs, policy, run, simulation};
use steelyard_policy::Policy;
use steelyard_simulator::config::{Domain, Host, Setup};
use steelyard_simulator::measure::Run;
use steelyard_simulator::units::Nanoseconds;
use steelyard_simulator::workload::Busy;

fn entities() -> Policy {
    let mut policy = policy("fair@eevdf");
    policy.set("groups", "entities").expect("a parameter of fair");
    policy
}

fn host(pcpus: u32, groups: &[(&str, u32, Option<&str>)]) -> Host {
    let group = groups.iter().map(|&(name, weight, around)| group(name, weight, around)).collect();
    Host { costs: no_costs(), group, ..Host::with_pcpus(pcpus) }
}

fn works(name: &str, compute_ms: u64, sleep_ms: u64) -> Domain {
    let busy = Busy {
        compute: Nanoseconds(compute_ms * MS),
        sleep: Nanoseconds(sleep_ms * MS),
        jitter_percent: 0,
        ..Busy::default()
    };
    Domain::new(name, 1).with_task(1, busy)
}

fn busy(name: &str, vcpus: u32, weight: u32, group: Option<&str>) -> Domain {
    let works = Busy { compute: Nanoseconds(10 * MS), sleep: Nanoseconds(0), ..Busy::default() };
    let domain = Domain { weight, group: group.map(str::to_owned), ..Domain::new(name, vcpus) };
    domain.with_task(vcpus, works)
}

fn check(run: &Run, expected: &[f64], within: f64) {
    let shares: Vec<f64> = run.domains.iter().map(|domain| domain.share_percent).collect();
    let near =
        shares.iter().zip(expected).all(|(share, expected)| (share - expected).abs() <= within);
    assert!(near, "{shares:?}, expected {expected:?}");
}

/// A slice of the same weight as a domain has half, which its domains divide 1 : 3. Without the slice it is 1 : 3 : 1.
#[test]
fn a_group_has_its_weight_and_its_domains_divide_that() {
    let domains = vec![
        busy("a", 1, 256, Some("slice")),
        busy("b", 2, 768, Some("slice")),
        busy("c", 2, 256, None),
    ];
    let setup = Setup { host: host(1, &[("slice", 256, None)]), domains };
    check(&run(&setup, &entities(), 1, 20 * S), &[12.5, 37.5, 50.0], 0.2);
    check(&run(&setup, &policy("fair@eevdf"), 1, 20 * S), &[20.0, 60.0, 20.0], 0.5);
}

/// While b sleeps a has all that the slice has: b needs 4 s at a quarter of the pCPU for 1 s of work, and sleeps 4 s.
/// In those a has half, in the others a quarter.
#[test]
fn what_a_domain_leaves_is_for_its_group() {
    let mut domains =
        vec![busy("a", 1, 256, Some("slice")), works("b", 1000, 4000), busy("c", 1, 256, None)];
    domains[1].group = Some("slice".to_owned());
    let setup = Setup { host: host(1, &[("slice", 256, None)]), domains };
    check(&run(&setup, &entities(), 1, 80 * S), &[37.5, 12.5, 50.0], 0.5);
}

/// The inner group has a third of the outer one's half.
#[test]
fn groups_are_in_groups() {
    let groups = [("outer", 1024, None), ("inner", 100, Some("outer"))];
    let domains = vec![
        busy("a", 1, 7, Some("inner")),
        busy("b", 2, 7, Some("inner")),
        busy("c", 1, 200, Some("outer")),
        busy("d", 3, 1024, None),
    ];
    let setup = Setup { host: host(1, &groups), domains };
    let (sixth, third) = (50.0 / 6.0, 100.0 / 3.0);
    check(&run(&setup, &entities(), 1, 30 * S), &[sixth, sixth, third, 50.0], 0.3);
}

/// A group's weight is divided between its queues by what it has there: of each of its domains, alone on its pCPU, half.
#[test]
fn the_weight_of_a_group_is_divided_between_queues() {
    let pinned = |mut domain: Domain, pcpu: &str| {
        domain.pin = vec![pcpu.parse().unwrap()];
        domain
    };
    let domains = vec![
        pinned(busy("a", 1, 256, Some("slice")), "0"),
        pinned(busy("b", 1, 256, Some("slice")), "1"),
        pinned(busy("c", 1, 256, None), "0"),
        pinned(busy("d", 1, 256, None), "1"),
    ];
    let setup = Setup { host: host(2, &[("slice", 256, None)]), domains };
    let (third, both) = (100.0 / 3.0, 200.0 / 3.0);
    check(&run(&setup, &entities(), 1, 20 * S), &[third, third, both, both], 0.5);
}

/// A queue has room for 16; who finds none has its part as without.
#[test]
fn more_groups_than_a_queue_has_room_for_share_as_their_weights_say() {
    let domains = (0..20).map(|number| busy(&format!("vm-{number}"), 2, 256, None)).collect();
    let setup = Setup { host: host(1, &[]), domains };
    check(&run(&setup, &entities(), 1, 60 * S), &[5.0; 20], 0.3);
}

/// Three on two pCPUs: half of what the loads differ by is less than one of them, and moves nobody; it is failed balances
/// that do (sd->nr_balance_failed), or one would be alone for ever.
#[test]
fn of_three_on_two_pcpus_none_is_alone_for_ever() {
    let domains = ["a", "b", "c"].map(|name| busy(name, 1, 256, None)).to_vec();
    let setup = Setup { host: host(2, &[]), domains };
    let run = run(&setup, &linux_with_groups(), 1, 60 * S);
    assert!(run.domains.iter().all(|domain| domain.share_percent < 90.0), "{:?}", run.domains);
}

#[test]
fn a_group_that_is_not_there_is_refused() {
    let refused = |groups: &[(&str, u32, Option<&str>)], group: &str| {
        let setup = Setup { host: host(1, groups), domains: vec![busy("a", 1, 256, Some(group))] };
        setup.validate().unwrap_err().to_string()
    };
    let said = refused(&[("slice", 256, None)], "slcie");
    assert!(said.contains("the host has no group `slcie`"), "{said}");
    // An outer one comes before those in it, so that none is in itself.
    let said = refused(&[("inner", 256, Some("outer")), ("outer", 256, None)], "inner");
    assert!(said.contains("there is no group `outer` before this one"), "{said}");
    let said = refused(&[("slice", 256, None), ("slice", 100, None)], "slice");
    assert!(said.contains("needs a name of its own"), "{said}");
    let deep =
        [("1", 256, None), ("2", 256, Some("1")), ("3", 256, Some("2")), ("4", 256, Some("3"))];
    assert!(
        Setup { host: host(1, &deep), domains: vec![busy("a", 1, 256, Some("4"))] }
            .validate()
            .is_ok()
    );
    let five = [&deep[..], &[("5", 256, Some("4"))]].concat();
    assert!(refused(&five, "5").contains("0 to 3"), "{}", refused(&five, "5"));
}

#[test]
fn runs_with_groups_repeat() {
    let domains = vec![
        busy("a", 3, 256, Some("slice")),
        Domain { group: Some("slice".to_owned()), ..works("b", 3, 5) },
        busy("c", 2, 512, None),
        works("d", 1, 1),
    ];
    let setup = Setup { host: host(2, &[("slice", 300, None)]), domains };
    let bytes = || {
        let mut simulation = simulation(&setup, &linux_with_groups(), 7);
        simulation.run_until(2 * S);
        serde_json::to_string(&simulation.measure()).unwrap()
    };
    assert_eq!(bytes(), bytes());
}
