// SPDX-License-Identifier: GPL-2.0-only
//! SEDF: schedules worked out by hand, and what holds for every set of reservations.

mod host;

use host::{Host, MS, STEP_NS};
use proptest::prelude::*;
use steelyard_policy::ffi::*;
use steelyard_policy::{Policy, request, verdict};

fn reservation(period_ms: u64, slice_ms: u64, extra_time: u64) -> Settings {
    Settings {
        period_ns: period_ms * MS,
        reserved_ns: slice_ms * MS,
        extra_time,
        ..Settings::default()
    }
}

/// Who runs from which ms on.
fn in_ms(runs: Vec<(u64, Option<usize>)>) -> Vec<(f64, Option<usize>)> {
    runs.into_iter().map(|(at, who)| ((at * STEP_NS) as f64 / MS as f64, who)).collect()
}

const A: Option<usize> = Some(0);
const B: Option<usize> = Some(1);
const C: Option<usize> = Some(2);

/// A 5 of 25 ms, B 2 of 10 ms, C 5 of 10 ms: 20 + 20 + 50 = 90 %.
fn worked_example(extra_time: u64) -> Host {
    let mut host = Host::new("sedf@xen-4.2");
    for (period_ms, slice_ms) in [(25, 5), (10, 2), (10, 5)] {
        let task = host.add(reservation(period_ms, slice_ms, extra_time), 1);
        host.wake(task);
    }
    host
}

/// All start at 0. B and C share their deadlines; B woke first and goes first.
///
/// ```text
///  0  deadlines A 25, B 10, C 10:  B 0..2, C 2..7, A 7..10 (3 of 5)
/// 10  B 20, C 20, A 25:            B 10..12, C 12..17, A 17..19 (5 of 5), idle 19..20
/// 20  B 30, C 30:                  B 20..22, C 22..27 (A's next period starts at 25: deadline 50)
///                                  A 27..30 (3 of 5)
/// 30  B 40, C 40, A 50:            B 30..32, C 32..37, A 37..39 (5 of 5), idle 39..40
/// 40  B 50, C 50:                  B 40..42, C 42..47, idle 47..50
/// 50  as at 0
/// ```
#[test]
fn the_worked_example_meets_every_deadline() {
    let round = [
        (0.0, B),
        (2.0, C),
        (7.0, A),
        (10.0, B),
        (12.0, C),
        (17.0, A),
        (19.0, None),
        (20.0, B),
        (22.0, C),
        (27.0, A),
        (30.0, B),
        (32.0, C),
        (37.0, A),
        (39.0, None),
        (40.0, B),
        (42.0, C),
        (47.0, None),
    ];
    let expected: Vec<_> = (0..3)
        .flat_map(|again| round.map(|(at, who)| (at + 50.0 * f64::from(again), who)))
        .collect();
    assert_eq!(in_ms(worked_example(0).run_until(150 * MS)), expected);
}

/// The idle 5 of every 50 ms are 10 quanta of 0.5 ms. Spare time goes by utilisation, 20 : 20 : 50,
/// hence in 450 ms, 90 quanta: A 20, B 20, C 50, beside the reservations of 90, 90 and 225 ms.
#[test]
fn spare_time_follows_utilisation() {
    let mut host = worked_example(1);
    let runs = host.run_until(450 * MS);
    assert!(runs.iter().all(|(_, who)| who.is_some()), "work-conserving");
    let ran: Vec<_> = host.tasks.iter().map(|task| task.ran_ns).collect();
    assert_eq!(ran, [100 * MS, 100 * MS, 250 * MS]);
}

/// Weights 1 : 3 of 95 ms per 100 ms: 23.75 and 71.25 ms.
#[test]
fn a_weight_is_its_part_of_the_weight_period() {
    let mut host = Host::new("sedf");
    for weight in [256, 768] {
        host.add(Settings { weight, ..Settings::default() }, 1);
    }
    host.wake(0);
    host.wake(1);
    host.run_until(1_000 * MS);
    // Steps of 0.1 ms overrun a slice of 23.75 ms by up to 0.1 ms, which the next period pays.
    assert!(host.tasks[0].ran_ns.abs_diff(10 * 23_750_000) <= STEP_NS);
    assert!(host.tasks[1].ran_ns.abs_diff(10 * 71_250_000) <= STEP_NS);
}

/// With extra_time the 5 ms kept back go by weight too: 25 and 75 ms.
#[test]
fn spare_time_follows_weight() {
    let mut host = Host::new("sedf");
    for weight in [256, 768] {
        host.add(Settings { weight, extra_time: 1, ..Settings::default() }, 1);
    }
    host.wake(0);
    host.wake(1);
    host.run_until(10_000 * MS);
    assert!(host.tasks[0].ran_ns.abs_diff(2_500 * MS) < 10 * MS, "{}", host.tasks[0].ran_ns);
}

/// A cap of 30 % over two vCPUs: 15 ms of each 100 ms per vCPU, whatever else is asked.
#[test]
fn a_cap_limits_slice_and_spare_time_together() {
    let mut host = Host::new("sedf");
    let capped = Settings { cap_percent: 30, extra_time: 1, ..Settings::default() };
    let task = host.add(capped, 2);
    host.wake(task);
    host.wake(task + 1);
    host.run_until(1_000 * MS);
    assert_eq!([host.tasks[0].ran_ns, host.tasks[1].ran_ns], [150 * MS; 2]);
}

/// Of equal weights one has a cap of 100 %, which takes nothing from the other: 50 and 50. A cap of
/// 60 % is below its 95/3 of the weight period and spare time: beside two who sleep it has 60.
#[test]
fn a_cap_reserves_nothing() {
    let mut host = Host::new("sedf");
    let capped = host.add(Settings { cap_percent: 100, extra_time: 1, ..Settings::default() }, 1);
    let other = host.add(Settings { extra_time: 1, ..Settings::default() }, 1);
    host.wake(capped);
    host.wake(other);
    host.run_until(10_000 * MS);
    assert!(
        host.tasks[other].ran_ns.abs_diff(5_000 * MS) < 10 * MS,
        "{}",
        host.tasks[other].ran_ns
    );

    let mut host = Host::new("sedf");
    let capped = host.add(Settings { cap_percent: 60, extra_time: 1, ..Settings::default() }, 1);
    for _ in 0..2 {
        host.add(Settings { extra_time: 1, ..Settings::default() }, 1);
    }
    host.wake(capped);
    host.run_until(10_000 * MS);
    assert!(
        host.tasks[capped].ran_ns.abs_diff(6_000 * MS) < 10 * MS,
        "{}",
        host.tasks[capped].ran_ns
    );
}

/// A has 4 of 10 ms, runs 0..1, blocks, wakes at 3 (short: the period ends at 10).
#[test]
fn a_short_block_loses_the_slice_or_keeps_it() {
    let play = |short_block: &str, extra_time: u64| {
        let mut host = Host::new("sedf").set("short_block", short_block);
        let a = host.add(reservation(10, 4, extra_time), 1);
        let b = host.add(reservation(20, 4, 1), 1);
        host.wake(a);
        host.wake(b);
        let mut runs = host.run_until(MS);
        host.block(a);
        runs.extend(host.run_until(3 * MS));
        host.wake(a);
        runs.extend(host.run_until(12 * MS));
        runs.dedup_by_key(|&mut (_, who)| who);
        in_ms(runs)
    };
    // Kept: at 3 A has 3 ms left and the earlier deadline, 10 against 20. B has used 1..3 of its 4
    // and goes on at 6; from 8 on there is spare time, which B alone may use.
    assert_eq!(play("kept", 0), [(0.0, A), (1.0, B), (3.0, A), (6.0, B), (10.0, A)]);
    // Lost, NWC: B uses its 4 ms to 5; A's claim is worth one quantum, then it waits for its next period
    // at 10 and B has the spare time.
    assert_eq!(play("lost", 0), [(0.0, A), (1.0, B), (5.0, A), (5.5, B), (10.0, A)]);
    // Lost, WC: likewise, and then spare
    // time by utilisation, 40 : 20: scores 1024 / 0.4 = 2560 and 1024 / 0.2 = 5120.
    // Places: A 0, B 0, B waited longer: B 5.5..6 (5120), A 6..7 (5120 after two quanta; equals B,
    // who goes first), B 7..7.5 (10240), A 7.5..8.5 (10240), B 8.5..9, A 9..10, then reserved.
    let expected =
        [(0.0, A), (1.0, B), (5.0, A), (5.5, B), (6.0, A), (7.0, B), (7.5, A), (8.5, B), (9.0, A)];
    assert_eq!(play("lost", 1), expected);
}

/// A as above: within its slice, blocked, woken without; its claim is used up at 5.5, and then it is parked
/// without extra time and has spare time with it, until the next period.
#[test]
fn the_class_tells_a_slice_from_spare_time() {
    let play = |extra_time: u64| {
        let mut host = Host::new("sedf");
        let a = host.add(reservation(10, 4, extra_time), 1);
        let b = host.add(reservation(20, 4, 1), 1);
        host.wake(a);
        host.wake(b);
        host.run_until(MS);
        let runs = host.class(a);
        host.block(a);
        host.run_until(3 * MS);
        let sleeps = host.class(a);
        host.wake(a);
        let later = [4, 6, 11].map(|at_ms| {
            host.run_until(at_ms * MS);
            host.class(a)
        });
        assert_eq!((runs, sleeps), (Some("RESERVED"), None));
        later
    };
    assert_eq!(play(0), [Some("CLAIM"), Some("PARKED"), Some("RESERVED")]);
    assert_eq!(play(1), [Some("CLAIM"), Some("EXTRA"), Some("RESERVED")]);
}

/// A as above, without extra time. Its claim's turn begins at 5 and ends with a block at 5.25: what is left of it
/// is gone, and A, awake again at 6, waits for its next period.
#[test]
fn a_claim_ends_with_its_turn() {
    let mut host = Host::new("sedf");
    let a = host.add(reservation(10, 4, 0), 1);
    let b = host.add(reservation(20, 4, 1), 1);
    host.wake(a);
    host.wake(b);
    host.run_until(MS);
    host.block(a);
    host.run_until(3 * MS);
    host.wake(a);
    host.run_until(5 * MS + MS / 4);
    assert_eq!(host.class(a), Some("CLAIM"));
    host.block(a);
    host.run_until(6 * MS);
    host.wake(a);
    assert_eq!(host.class(a), Some("PARKED"));
    assert_eq!(in_ms(host.run_until(11 * MS)), [(6.0, B), (10.0, A)]);
}

/// A has 4 of 10 ms and a cap of 40 %, runs 0..3.8 and blocks at once: of its claim there is no more than what it lost.
#[test]
fn a_claim_keeps_to_the_cap() {
    let mut host = Host::new("sedf");
    let a = host.add(Settings { cap_percent: 40, ..reservation(10, 4, 0) }, 1);
    host.wake(a);
    host.run_until(38 * MS / 10);
    host.block(a);
    host.run_until(5 * MS);
    host.wake(a);
    let mut runs = host.run_until(11 * MS);
    runs.dedup_by_key(|&mut (_, who)| who);
    assert_eq!(in_ms(runs), [(5.0, A), (5.2, None), (10.0, A)]);
}

/// A and B have spare time alone left after 5 ms of 1 s each. B always computes; A runs for 0.1 ms and blocks for
/// 0.9 ms. Both turns cost a quantum, so that A, with the same utilisation, gets no more turns than B.
#[test]
fn a_short_turn_in_spare_time_costs_a_quantum() {
    let mut host = Host::new("sedf");
    let a = host.add(reservation(1000, 5, 1), 1);
    let b = host.add(reservation(1000, 5, 1), 1);
    host.wake(a);
    host.wake(b);
    host.run_until(10 * MS);
    // From 10 on turns alternate: A 0.5, B 0.5 and so on. A's are cut short from 20 on.
    host.run_until(20 * MS);
    let before = host.tasks[a].ran_ns;
    let mut turns = 0;
    for step in 200..1000 {
        let runs = host.run_until((step + 1) * STEP_NS);
        if runs.iter().any(|&(_, who)| who == A) {
            turns += 1;
            host.block(a);
            host.wake(a);
        }
    }
    let ran_ns = host.tasks[a].ran_ns - before;
    // 80 ms in rounds of 0.1 and 0.5 ms.
    assert!((130..=137).contains(&turns), "{turns} turns of {ran_ns} ns in all");
}

/// A as above, without extra time, and C, 1 of 20 ms, wakes at 5.2, within A's turn. A keeps what is left of its claim, and
/// runs no longer than that: it is never served from spare time.
#[test]
fn who_is_interrupted_keeps_its_claim() {
    let mut host = Host::new("sedf");
    let a = host.add(reservation(10, 4, 0), 1);
    let b = host.add(reservation(20, 4, 1), 1);
    let c = host.add(reservation(20, 1, 0), 1);
    host.wake(a);
    host.wake(b);
    host.run_until(MS);
    host.block(a);
    host.run_until(3 * MS);
    host.wake(a);
    let mut runs = host.run_until(52 * MS / 10);
    host.wake(c);
    runs.extend(host.run_until(11 * MS));
    runs.dedup_by_key(|&mut (_, who)| who);
    assert_eq!(in_ms(runs), [(3.0, B), (5.0, A), (5.2, C), (6.2, A), (6.5, B), (10.0, A)]);
}

/// A has 4 of 10 ms, runs 0..1 and sleeps beyond its deadline; the wake at 14 starts a period with a
/// full slice and deadline 24. B, 10 of 20 ms, has deadlines 20 and 40.
#[test]
fn a_long_block_starts_a_period() {
    let mut host = Host::new("sedf");
    let a = host.add(reservation(10, 4, 0), 1);
    let b = host.add(reservation(20, 10, 0), 1);
    host.wake(a);
    host.wake(b);
    host.run_until(MS);
    host.block(a);
    host.run_until(14 * MS);
    host.wake(a);
    // B used its 10 ms from 1 to 11. A 14..18; its next period starts at 24, B's at 20 (deadline 40,
    // after A's 34).
    let runs = in_ms(host.run_until(36 * MS));
    assert_eq!(runs, [(14.0, A), (18.0, None), (20.0, B), (24.0, A), (28.0, B), (34.0, A)]);
}

/// Reservations of 100 % beside one that wakes: nobody is served from spare time that is not there.
#[test]
fn a_running_reservation_is_preempted_by_an_earlier_deadline_only() {
    let mut host = Host::new("sedf");
    let a = host.add(reservation(40, 20, 0), 1);
    let b = host.add(reservation(20, 5, 0), 1);
    let c = host.add(reservation(50, 5, 0), 1);
    host.wake(a);
    host.run_until(4 * MS);
    host.wake(b); // deadline 24 before A's 40
    host.wake(c); // deadline 54 after it
    let runs = in_ms(host.run_until(35 * MS));
    // A resumes at 9 with 16 ms left; B's next period, 24..44, ends after A's deadline.
    assert_eq!(runs, [(4.0, B), (9.0, A), (25.0, B), (30.0, C)]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Earliest deadline first meets every deadline while reservations do not exceed the pCPU: each
    /// busy vCPU has run for exactly k slices after k of its periods, and without extra_time never more.
    #[test]
    fn every_reservation_is_met_exactly(
        wanted in prop::collection::vec((1_u64..40, 1_u64..100, 0_u64..50), 1..8),
    ) {
        let mut host = Host::new("sedf");
        let mut free = 1.0;
        let mut tasks = Vec::new();
        for (period_ms, percent, wake_ms) in wanted {
            let period_ns = period_ms * MS;
            let share = f64::min(percent as f64 / 100.0, free);
            let slice_ns = (period_ns as f64 * share) as u64 / STEP_NS * STEP_NS;
            if slice_ns == 0 {
                continue;
            }
            free -= slice_ns as f64 / period_ns as f64;
            let task = host.add(Settings { period_ns, reserved_ns: slice_ns, ..Settings::default() }, 1);
            tasks.push((wake_ms * MS, task, period_ns, slice_ns));
        }
        tasks.sort_unstable();
        for &(wake_ns, task, ..) in &tasks {
            host.run_until(wake_ns);
            host.wake(task);
        }
        for now_ns in (50..600).map(|ms| ms * MS) {
            host.run_until(now_ns);
            for &(wake_ns, task, period_ns, slice_ns) in &tasks {
                let periods = (now_ns - wake_ns) / period_ns;
                let ran_ns = host.tasks[task].ran_ns;
                prop_assert!(ran_ns <= (periods + 1) * slice_ns);
                prop_assert!(ran_ns >= periods * slice_ns, "{ran_ns} after {periods} of {slice_ns}");
            }
        }
    }

    /// No pCPU is idle while a vCPU with extra_time waits, however it blocks and wakes.
    #[test]
    fn extra_time_is_work_conserving(
        domains in prop::collection::vec((0_u64..30, 0_u64..10, 1_u64..2000), 1..6),
        short_block in prop::sample::select(vec!["lost", "kept"]),
        moves in prop::collection::vec((0_usize..6, prop::bool::ANY), 200),
    ) {
        let mut host = Host::new("sedf").set("short_block", short_block);
        for &(period_ms, slice_ms, weight) in &domains {
            host.add(Settings { weight, ..reservation(period_ms, slice_ms, 1) }, 1);
        }
        for (turn, (task, wake)) in moves.into_iter().enumerate() {
            let task = task % domains.len();
            if wake && host.tasks[task].vcpu.runnable == 0 {
                host.wake(task);
            } else if !wake {
                host.block(task);
            }
            let runs = host.run_until((turn as u64 + 1) * MS);
            if host.tasks.iter().any(|task| task.vcpu.runnable == 1) {
                prop_assert!(runs.iter().all(|(_, who)| who.is_some()));
            }
        }
    }

    /// Any calls in any order, with any times and settings: every answer is in its range, a slice
    /// never exceeds what is reserved, and a vCPU is parked only if it may not use spare time.
    #[test]
    fn random_calls_are_answered(
        settings in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>(), 0_u64..300), 4),
        extra_time in 0_u64..2,
        calls in prop::collection::vec((0_u8..10, 0_usize..4, any::<u64>(), any::<u64>()), 1..400),
    ) {
        let p = Policy::named("sedf").unwrap().parameters().clone();
        let (mut q, mut c) = (Queue::default(), Pcpu::default());
        let mut tasks: Vec<(Domain, Vcpu)> = settings
            .iter()
            .map(|&(weight, period_ns, reserved_ns, cap_percent)| {
                let (mut d, mut v) = (Domain::default(), Vcpu::default());
                let settings = Settings { weight, period_ns, reserved_ns, cap_percent, extra_time, ..Settings::default() };
                sy_domain_init(&p, &mut d, &settings, 1, 1);
                sy_vcpu_init(&p, &mut d, &mut v, 1);
                sy_join(&p, &mut q, &mut d, &mut v, 1);
                (d, v)
            })
            .collect();
        for (call, which, ran_ns, now) in calls {
            let other = tasks[(which + 1) % 4].1.clone();
            let (d, v) = &mut tasks[which];
            v.runnable = (ran_ns % 2) as u32;
            let asked = match call {
                0 => sy_wake(&p, &mut q, d, v, now),
                1 => sy_block(&p, &mut q, d, v, now),
                2 => sy_charge(&p, &mut q, d, v, ran_ns, now),
                3 => sy_vcpu_timer(&p, &mut q, d, v, now),
                4 => sy_leave(&p, &mut q, d, v, now) | sy_join(&p, &mut q, d, v, now),
                5 => sy_start(&p, &mut q, &mut c, d, v, now),
                6 => {
                    prop_assert!(sy_key(&p, &mut q, d, v, now) < 3 << 62);
                    0
                }
                7 => {
                    prop_assert!(sy_lead(&p, &q, &c, v, &other, now).abs() <= 1);
                    0
                }
                8 => {
                    prop_assert!(sy_consider(&p, &q, &c, Some(&other), v, now) <= verdict::STOP);
                    0
                }
                _ => {
                    let slice_ns = sy_slice(&p, &mut q, &c, d, v, Some(&other), now);
                    prop_assert!((1..=10_000 * MS).contains(&slice_ns));
                    0
                }
            };
            if asked & request::PARK != 0 {
                prop_assert!(extra_time == 0 || d.settings.cap_percent != 0);
            }
        }
    }
}
