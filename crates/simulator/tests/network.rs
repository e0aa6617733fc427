// SPDX-License-Identifier: GPL-2.0-only
//! The way of packets to a guest, TCP's and lookbusy's behaviour, with answers worked out by hand.

mod common;

use common::*;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use steelyard_simulator::config::{Domain, GuestClock, Host, Io, Setup, Vif};
use steelyard_simulator::measure::TaskMeasure;
use steelyard_simulator::units::Nanoseconds;
use steelyard_simulator::workload::{Busy, Httperf, Lookbusy, Ping};

fn host(vif: Option<Vif>) -> Host {
    Host { costs: no_costs(), io: Io { vif, ..Io::default() }, ..Host::with_pcpus(1) }
}

fn near(found: f64, least: f64, most: f64, what: &str) {
    assert!((least..=most).contains(&found), "{what}: {found}, not {least} to {most}");
}

/// A server on a CPU of its own under such clients, after so long.
fn served(vif: Option<Vif>, threads: u32, httperf: Httperf, length_ns: u64) -> TaskMeasure {
    let domains = vec![Domain::new("server", 1).with_task(threads, httperf)];
    let setup = Setup { host: host(vif), domains };
    let mut run = run(&setup, &policy("credit@xen-4.2"), 1, length_ns);
    run.domains.remove(0).tasks.remove(0)
}

/// A guest that takes a second for each packet, and one each millisecond: of the 64 buffers 1 is emptied, and not given
/// back before 32 are; 45 fill until 18 are left, 32 wait, all others are lost.
#[test]
fn an_interface_holds_what_netback_and_netfront_hold() {
    let ping = Ping { interval: Nanoseconds::from_ms(1), service: Nanoseconds::from_s(1) };
    let domains = vec![Domain::new("guest", 1).with_task(1, ping)];
    let setup = Setup { host: host(Some(Vif::default())), domains };
    let run = run(&setup, &policy("credit@xen-4.2"), 1, 2_500 * MS);
    let task = &run.domains[0].tasks[0];
    let kept = value(task, "sent") - value(task, "lost");
    // One is taken each second, which leaves no room for another: it comes from the buffers.
    assert_eq!((value(task, "answered"), kept), (2.0, 1.0 + 45.0 + 32.0));
}

/// Two busy guests in turns of 30 ms. In the other's turn the one that is pinged holds 78 packets, less those buffers
/// that it has emptied and not given back, 0 to 31 of them: 62.5 in the mean.
#[test]
fn loss_while_a_guest_does_not_run() {
    let lost_percent = |per_s: u64| {
        let ping = Ping { interval: Nanoseconds(S / per_s), service: Nanoseconds(0) };
        let pinged = Domain::new("pinged", 1).with_task(1, ping).with_task(1, Busy::default());
        let other = Domain::new("other", 1).with_task(1, Busy::default());
        let setup = Setup { host: host(Some(Vif::default())), domains: vec![pinged, other] };
        let run = run(&setup, &policy("credit@xen-4.2"), 1, 60 * S);
        let task = &run.domains[0].tasks[0];
        100.0 * value(task, "lost") / value(task, "sent")
    };
    // 45 in 30 ms.
    assert_eq!(lost_percent(1_500), 0.0);
    // 120 of 240 in 60 ms, of which 42 to 73 are lost.
    near(lost_percent(4_000), 100.0 * 42.0 / 240.0, 100.0 * 73.0 / 240.0, "at 4000/s");
    // 300 of 600: 222 to 253.
    near(lost_percent(10_000), 100.0 * 222.0 / 600.0, 100.0 * 253.0 / 600.0, "at 10000/s");
}

/// A guest that answers no SYN: it is sent again after 1, 2, 4, 8 and 16 s more, and given up 32 s after the last; with
/// 3 s at first three times as late.
#[test]
fn syns_are_sent_again_twice_as_late_each_time() {
    let after = |first_s, length_ns| {
        let httperf = Httperf {
            rate_per_s: 1_000,
            duration: Nanoseconds::from_ms(1),
            first_timeout: Nanoseconds::from_s(first_s),
            packet_service: Nanoseconds::from_s(10_000),
            ..Httperf::default()
        };
        let task = served(None, 2, httperf, length_ns);
        (value(&task, "SYNs sent again"), value(&task, "timed out"))
    };
    let seen: Vec<_> = [999, 1_002, 3_002, 7_002, 15_002, 31_002, 62_999, 63_002]
        .map(|ms| after(1, ms * MS))
        .to_vec();
    let answered = [0, 1, 2, 3, 4, 5, 5, 5].map(f64::from);
    let expected: Vec<_> = answered.iter().zip([0.0; 7].into_iter().chain([1.0])).collect();
    assert_eq!(seen, expected.into_iter().map(|(&again, out)| (again, out)).collect::<Vec<_>>());
    assert_eq!(after(3, 2_999 * MS), (0.0, 0.0));
    assert_eq!(after(3, 9_002 * MS), (2.0, 0.0));
}

/// Three connections at once, a backlog of one, 400 ms each. The second fills the backlog, so that the third's
/// acknowledgement and request are dropped; its round trip was below a millisecond, so it asks again after 200 ms, in
/// vain, and after 400 ms more, when the second is being served: it is served from 800 ms on.
#[test]
fn requests_are_sent_again_after_200_ms_and_twice_as_late_each_time() {
    let httperf = Httperf {
        rate_per_s: 100_000,
        duration: Nanoseconds::from_us(30),
        service: Nanoseconds::from_ms(400),
        packet_service: Nanoseconds::from_us(1),
        client_service: Nanoseconds(0),
        backlog: 1,
        ..Httperf::default()
    };
    let task = served(None, 2, httperf, 10 * S);
    assert_eq!(value(&task, "requests sent again"), 2.0);
    assert_eq!(value(&task, "answered"), 3.0);
    assert_eq!(value(&task, "SYNs sent again"), 0.0);
    // Acknowledgement and request at first, the request again at 200 ms.
    assert_eq!(value(&task, "dropped at accept"), 3.0);
    near(value(&task, "response time worst"), 1_200.0, 1_201.0, "the third");
    near(value(&task, "response time mean"), 800.0, 801.0, "400, 800 and 1200 ms");
}

/// A kernel that acknowledged a request keeps it from being sent again, however long the server takes.
#[test]
fn a_slow_server_is_no_loss() {
    let httperf = Httperf {
        rate_per_s: 10,
        duration: Nanoseconds::from_ms(100),
        service: Nanoseconds::from_s(3),
        ..Httperf::default()
    };
    let task = served(None, 2, httperf, 10 * S);
    assert_eq!((value(&task, "requests sent again"), value(&task, "answered")), (0.0, 1.0));
    // The test lasts 3 s for its one connection.
    near(value(&task, "connection rate"), 0.32, 0.34, "connections/s");
    near(value(&task, "test duration"), 3.0, 3.1, "seconds");
}

/// Fixed times between connections, no loss: each response takes the wire twice, the guest's kernel, the server, and the
/// client's process.
#[test]
fn httperf_measures_connection_and_response() {
    let httperf = Httperf {
        rate_per_s: 200,
        duration: Nanoseconds::from_s(20),
        warm_up: Nanoseconds::from_s(5),
        service: Nanoseconds::from_us(150),
        packet_service: Nanoseconds::from_us(5),
        ..Httperf::default()
    };
    let task = served(Some(Vif::default()), 2, httperf, 60 * S);
    near(value(&task, "connection rate"), 199.9, 200.1, "connections/s");
    assert_eq!((value(&task, "opened"), value(&task, "answered")), (4_000.0, 4_000.0));
    // 100 us of wire, 5 of the kernel, a microsecond of link.
    near(value(&task, "connection time mean"), 0.105, 0.108, "connection time");
    // 100 us of wire, 5 of the kernel, which has done with the acknowledgement before, 150 of the server, 35 for 4.3 KB
    // on the link, and 58 to read it.
    near(value(&task, "response time mean"), 0.346, 0.356, "response time");
    // Both, and 58 us between them.
    near(value(&task, "lifetime mean"), 0.509, 0.522, "lifetime");
}

/// More than the server can do: the client runs out of descriptors, and the rest is what is served.
#[test]
fn beyond_its_capacity_connections_are_opened_as_others_end() {
    let httperf = Httperf {
        rate_per_s: 500,
        service: Nanoseconds::from_ms(4),
        backlog: 1_000_000,
        ..Httperf::default()
    };
    let task = served(None, 2, httperf, 100 * S);
    // 250/s less the kernel's part; 1022 are open at the end.
    let opened = value(&task, "opened") - value(&task, "answered");
    assert_eq!(opened, 1_022.0);
    near(value(&task, "reply rate"), 245.0, 250.0, "replies/s");
    assert!(value(&task, "without descriptor") > 20_000.0);
}

/// The share of the guest's first task, what it worked, and its last burst in ms.
fn lookbusy(domain: Domain, length_ns: u64) -> (f64, f64, f64) {
    let busy = Domain::new("other", 1).with_task(1, Busy::default());
    let domains = if domain.cap_percent > 0 { vec![domain, busy] } else { vec![domain] };
    let setup = Setup { host: host(None), domains };
    let run = run(&setup, &policy("credit@xen-4.2"), 1, length_ns);
    let task = &run.domains[0].tasks[0];
    (run.domains[0].share_percent, value(task, "work done"), value(task, "burst"))
}

#[test]
fn lookbusy_is_as_busy_as_it_shall_be() {
    for percent in [10, 30, 50, 90] {
        let guest = Domain::new("guest", 1).with_task(1, Lookbusy { percent });
        let (share, _, burst) = lookbusy(guest, 60 * S);
        // Whole percents, of ticks of 10 ms.
        near(share, percent as f64 - 2.0, percent as f64 + 2.0, "share");
        near(burst, percent as f64 * 0.9, percent as f64 * 1.1, "burst");
    }
}

/// What other processes of its guest use it leaves out itself: 20 % of 50.
#[test]
fn lookbusy_makes_room_for_others_of_its_guest() {
    let other = Busy {
        compute: Nanoseconds::from_ms(2),
        sleep: Nanoseconds::from_ms(8),
        ..Busy::default()
    };
    let guest = Domain::new("guest", 1).with_task(1, Lookbusy::default()).with_task(1, other);
    let (share, work, _) = lookbusy(guest, 60 * S);
    near(share, 47.0, 53.0, "share");
    near(work, 28.0, 34.0, "work");
}

/// With a cap of half of what it shall be, 25 % are missing each time: a burst is 5/4 of the one before, and takes four
/// times as long as its CPU time. Those up to one of b take 4 b (1 + 4/5 + ...) = 20 b: after 60 s it is 3 s at most,
/// and 3 s / 5/4 at least, less what the sleeps and the first, shorter ones take.
#[test]
fn lookbusy_under_a_cap_comes_to_sleep_no_more() {
    let guest = Domain { cap_percent: 25, ..Domain::new("guest", 1) };
    let (share, _, burst) = lookbusy(guest.with_task(1, Lookbusy::default()), 60 * S);
    near(share, 24.0, 26.0, "share");
    near(burst, 2_000.0, 4_000.0, "burst");
}

/// A guest computes for ever and beside that 3 ms of every 10; two others are busy as well, so that it has 30 ms of every
/// 90. A burst during which it loses the pCPU takes 60 ms longer, by the clock of the vCPU. By that on the wall its thread
/// pays for them: in the guest's next turn of 30 ms the busy thread runs, which is behind by more, and pays for the 60 ms
/// after it; so the burst ends in the turn after that, 150 ms later, or still later if its thread loses the pCPU again.
#[test]
fn a_guest_charges_stolen_time_by_its_clock() {
    let worst_ms = |guest_clock| {
        let bursts = Busy {
            compute: Nanoseconds::from_ms(3),
            sleep: Nanoseconds::from_ms(7),
            jitter_percent: 20,
            ..Busy::default()
        };
        let guest = Domain { guest_clock, ..Domain::new("guest", 1) };
        let guest = guest.with_task(1, bursts).with_task(1, Busy::default());
        let other = |name: &str| Domain::new(name, 1).with_task(1, Busy::default());
        let setup = Setup { host: host(None), domains: vec![guest, other("a"), other("b")] };
        let run = run(&setup, &policy("credit@xen-4.2"), 1, 60 * S);
        value(&run.domains[0].tasks[0], "burst worst")
    };
    near(worst_ms(GuestClock::Unstolen), 60.0, 130.0, "by the vCPU");
    near(worst_ms(GuestClock::Wall), 150.0, 600.0, "on the wall");
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::with_cases(40) })]

    /// Whatever is lost, given up or refused: a connection that was opened was answered, timed out, or is still open, of
    /// which there are no more than descriptors; and two runs are the same.
    #[test]
    fn connections_are_accounted_for(
        (rate_per_s, timeout_ms, service_us, packet_us) in (1..3_000u64, 0..400u64, 1..5_000u64, 0..200u64),
        (queue_packets, buffers, backlog, threads) in (0..40u32, 2..80u32, 0..130u32, 2..5u32),
        (cap_percent, percent, wall, busy) in (0..=100u32, 1..=100u64, any::<bool>(), any::<bool>()),
    ) {
        let httperf = Httperf {
            rate_per_s,
            warm_up: Nanoseconds::from_ms(0),
            timeout: Nanoseconds::from_ms(timeout_ms),
            first_timeout: Nanoseconds::from_ms(100),
            service: Nanoseconds::from_us(service_us),
            packet_service: Nanoseconds::from_us(packet_us),
            backlog,
            ..Httperf::default()
        };
        let guest_clock = if wall { GuestClock::Wall } else { GuestClock::Unstolen };
        let server = Domain { cap_percent, guest_clock, ..Domain::new("server", 1) };
        let server = server.with_task(threads, httperf).with_task(1, Lookbusy { percent });
        let other = Domain::new("other", 1);
        let other = if busy { other.with_task(1, Busy::default()) } else { other.with_task(1, Lookbusy::default()) };
        let vif = Vif { queue_packets, buffers, reserve: buffers / 3 };
        let setup = Setup { host: host(Some(vif)), domains: vec![server, other] };
        for policy in ["credit@xen-4.2", "app-slice", "credit2", "fair"].map(policy) {
            let first = run(&setup, &policy, 1, S);
            let task = &first.domains[0].tasks[0];
            let done = value(task, "answered") + value(task, "timed out");
            let open = value(task, "opened") - done;
            prop_assert!((0.0..=1_022.0).contains(&open), "{policy}: {task:?}");
            prop_assert_eq!(format!("{first:?}"), format!("{:?}", run(&setup, &policy, 1, S)));
        }
    }
}
