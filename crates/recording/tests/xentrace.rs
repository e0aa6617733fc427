// SPDX-License-Identifier: GPL-2.0-only
//! What `xentrace` writes becomes runs and waits: known answers by hand, any schedule in any windows,
//! files that were cut off or are none, and a genuine one.

use std::collections::BTreeSet;
use std::io::{Cursor, Read};
use std::num::NonZeroU64;
use std::ops::Range;

use flate2::read::GzDecoder;
use proptest::collection::vec;
use proptest::prelude::*;
use steelyard_recording::{
    Ending, Snapshot, XEN_DECISIONS, Xentrace, XentraceFile, XentraceSurvey, is_xentrace,
};
use steelyard_simulator::measure::Segment;

const GHZ: NonZeroU64 = NonZeroU64::new(1_000_000_000).unwrap();
const RUNNING: u32 = 0;
const RUNNABLE: u32 = 1;
const BLOCKED: u32 = 2;
const OFFLINE: u32 = 3;
const IDLE: u32 = 0x7fff;

/// A record with a time.
fn record(event: u32, tsc: u64, words: &[u32]) -> Vec<u8> {
    let mut bytes = (event | (words.len() as u32) << 28 | 1 << 31).to_le_bytes().to_vec();
    bytes.extend(tsc.to_le_bytes());
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    bytes
}

fn change(tsc: u64, domain: u32, vcpu: u32, from: u32, to: u32) -> Vec<u8> {
    record(0x2_1001 | from << 8 | to << 4, tsc, &[domain << 16 | vcpu])
}

/// Records as they were in the buffer of a pCPU.
fn window(pcpu: u32, records: &[Vec<u8>]) -> Vec<u8> {
    let records = records.concat();
    let head = [0x2001_f003, pcpu, records.len() as u32];
    head.iter().flat_map(|word| word.to_le_bytes()).chain(records).collect()
}

fn segment(domain: u32, vcpu: u32, pcpu: Option<u32>, at: Range<u64>) -> Segment {
    Segment { domain, vcpu, pcpu, start_ns: at.start, end_ns: at.end }
}

fn segments_of(bytes: &[u8]) -> Vec<Segment> {
    let mut xentrace = Xentrace::new(GHZ);
    xentrace.push(bytes).expect("a trace");
    xentrace.end();
    xentrace.ended(u64::MAX)
}

fn snapshots_of(bytes: &[u8], interval_ns: u64) -> Vec<Snapshot> {
    let survey = XentraceSurvey::new(bytes).expect("a trace");
    let tsc_hz = survey.tsc_hz.unwrap_or(GHZ);
    let mut file = XentraceFile::new(bytes, &survey, tsc_hz, "host", interval_ns);
    std::iter::from_fn(|| file.snapshot().expect("memory is readable")).collect()
}

/// On pCPU 0, domain 1 is preempted by domain 2, which woke on pCPU 1.
fn by_hand() -> Vec<u8> {
    [
        window(
            0,
            &[
                change(1_000, IDLE, 0, RUNNING, RUNNABLE),
                change(1_000, 1, 0, RUNNABLE, RUNNING),
                change(4_000, 1, 0, RUNNING, RUNNABLE),
                change(4_001, 2, 3, RUNNABLE, RUNNING),
            ],
        ),
        window(1, &[change(3_500, 2, 3, BLOCKED, RUNNABLE)]),
        window(
            0,
            &[
                change(9_000, 2, 3, RUNNING, BLOCKED),
                change(9_001, 1, 0, RUNNABLE, RUNNING),
                change(9_500, 1, 0, RUNNING, BLOCKED),
                change(9_500, IDLE, 0, RUNNABLE, RUNNING),
            ],
        ),
    ]
    .concat()
}

#[test]
fn runs_and_waits_lie_between_changes() {
    let idle = segment(IDLE, 0, None, 1_000..9_500);
    assert_eq!(
        segments_of(&by_hand()),
        [
            segment(1, 0, Some(0), 1_000..4_000),
            segment(2, 3, None, 3_500..4_001),
            segment(2, 3, Some(0), 4_001..9_000),
            segment(1, 0, None, 4_000..9_001),
            segment(1, 0, Some(0), 9_001..9_500),
            idle,
        ]
    );
}

/// Under credit. A vCPU that stays offline may have been unplugged.
#[test]
fn who_is_kept_off_by_a_cap_waits() {
    let bytes = window(
        0,
        &[
            change(1_000, 1, 0, RUNNABLE, RUNNING),
            change(2_000, 1, 0, RUNNING, OFFLINE),
            change(2_000, 2, 0, RUNNABLE, RUNNING),
            change(3_000, 2, 0, RUNNING, OFFLINE),
            change(5_000, 1, 0, OFFLINE, RUNNABLE),
            change(6_000, 1, 0, RUNNABLE, RUNNING),
            change(7_000, 1, 0, RUNNING, OFFLINE),
            change(8_000, 2, 0, OFFLINE, RUNNABLE),
        ],
    );
    let runs =
        [(1, 1_000..2_000), (2, 2_000..3_000)].map(|(domain, at)| segment(domain, 0, Some(0), at));
    let (waits, last) = (segment(1, 0, None, 5_000..6_000), segment(1, 0, Some(0), 6_000..7_000));
    let [first, second] = runs;
    let parks = segment(1, 0, None, 2_000..5_000);
    for (parked, expected) in [
        (BTreeSet::new(), vec![first, second, waits, last]),
        (BTreeSet::from([1]), vec![first, second, parks, waits, last]),
    ] {
        let mut xentrace = Xentrace::new(GHZ);
        xentrace.set_parked(parked);
        xentrace.push(&bytes).expect("a trace");
        xentrace.end();
        assert_eq!(xentrace.ended(u64::MAX), expected);
        let lasting = xentrace.lasting(xentrace.now_ns()).map(|lasts| lasts.domain);
        assert_eq!(lasting.collect::<Vec<u32>>(), [2]);
    }
}

#[test]
fn a_file_becomes_snapshots() {
    let snapshots = snapshots_of(&by_hand(), 5_000);
    let times: Vec<u64> = snapshots.iter().map(|snapshot| snapshot.time_ns).collect();
    assert_eq!(times, [0, 5_000, 8_500]);
    let [_, middle, last] = &snapshots[..] else { panic!("three") };
    let names: Vec<&str> =
        last.structure.domains.iter().map(|domain| domain.name.as_str()).collect();
    assert_eq!(names, ["domain 1", "domain 2"]);
    // At 5000 after the first record domain 2 runs and domain 1 waits.
    let [first, second] = &middle.vcpus[..] else { panic!("two") };
    assert_eq!((first.gotten_ns, first.waited_ns), (3_000, Some(2_000)));
    assert_eq!((second.gotten_ns, second.waited_ns), (1_999, Some(501)));
    assert_eq!(middle.segments.len(), 2);
    let [first, second] = &last.vcpus[..] else { panic!("two") };
    assert_eq!(
        (first.gotten_ns, first.waited_ns, first.preemptions),
        (3_499, Some(5_001), Some(1))
    );
    assert_eq!((second.gotten_ns, second.waited_ns, second.switches), (4_999, Some(501), Some(1)));
    let worst = first.waits.as_ref().unwrap().worst.as_ref().unwrap();
    assert_eq!((worst.start_ns, worst.length_ns), (3_000, 5_001));
    assert_eq!((worst.ran[0].domain.as_str(), worst.ran[0].ran_ns), ("domain 2", 4_999));
}

#[test]
fn the_frequency_is_told_by_runs_of_known_length() {
    let switch = |at: u64, ran_ns: u32| {
        [record(0x2_800e, at, &[1, 0, ran_ns]), record(0x2_800f, at + 99, &[1, 0, 0, 0])]
    };
    // 1 ms each, at 2.5 GHz.
    let mut records: Vec<Vec<u8>> = (1..9).flat_map(|n| switch(n * 2_500_000, 1_000_000)).collect();
    // A run of more than 2^32 ns, of which the lower bits are told.
    records.extend(switch(100_000_000_000, 1_000_000_000));
    let survey = XentraceSurvey::new(&window(0, &records)[..]).unwrap();
    assert_eq!(survey.tsc_hz.map(NonZeroU64::get), Some(2_500_000_000));
    assert_eq!(XentraceSurvey::new(&by_hand()[..]).unwrap().tsc_hz, None);
}

/// Found by fuzzing: what a damaged file says of the idle vCPUs of one pCPU may be more than there is time.
#[test]
fn idle_times_do_not_overflow() {
    let end = u64::MAX - 10;
    let records = [
        change(1000, IDLE, 0, BLOCKED, RUNNING),
        change(1001, IDLE, 1, BLOCKED, RUNNING),
        change(end, IDLE, 0, RUNNING, BLOCKED),
        change(end + 1, IDLE, 1, RUNNING, BLOCKED),
        change(end + 2, 1, 0, BLOCKED, RUNNABLE),
    ];
    let snapshots = snapshots_of(&window(0, &records), u64::MAX / 4);
    assert_eq!(snapshots.last().map(|snapshot| &snapshot.idle_ns[..]), Some(&[u64::MAX][..]));
}

#[test]
fn across_lost_records_nothing_is_said() {
    let lost = record(0x1_f001, 6_000, &[5, 0, 3_000, 0]);
    let bytes = window(
        0,
        &[
            change(1_000, 1, 0, RUNNABLE, RUNNING),
            change(2_000, 2, 0, BLOCKED, RUNNABLE),
            lost,
            // The same states as before: still others may lie between.
            change(7_000, 1, 0, RUNNING, BLOCKED),
            change(7_001, 2, 0, RUNNABLE, RUNNING),
            change(8_000, 2, 0, RUNNING, BLOCKED),
        ],
    );
    let survey = XentraceSurvey::new(&bytes[..]).unwrap();
    assert_eq!(survey.lost, 5);
    assert_eq!(segments_of(&bytes), [segment(2, 0, Some(0), 7_001..8_000)]);
}

#[test]
fn what_is_no_trace_is_refused() {
    for bytes in [&b""[..], b"abc", b"steelyard", &[0; 64]] {
        assert!(XentraceSurvey::new(bytes).is_err(), "{bytes:?}");
        assert!(!is_xentrace(bytes));
    }
    assert!(is_xentrace(&by_hand()));
    let mut damaged = by_hand();
    damaged.extend([0; 16]);
    assert_eq!(XentraceSurvey::new(&damaged[..]).unwrap().ending, Ending::Damaged);
    assert_eq!(snapshots_of(&damaged, 5_000).len(), 3);
}

/// Recorded in the lab's machine with Xen 4.20 (`lab/xen/run`: credit2, 2 pCPUs; domain 1 with two busy
/// vCPUs and weight 512, domain 2 that computes 3 ms and sleeps 7 ms, domain 3, busy, with weight 128) by
/// `xentrace -D -e 0x2f000 -T 3`, of which these are the windows of the first 1.5 s.
#[test]
fn a_genuine_file_adds_up() {
    let compressed = include_bytes!("data/credit2.xentrace.gz");
    let mut bytes = vec![];
    GzDecoder::new(&compressed[..]).read_to_end(&mut bytes).unwrap();
    let survey = XentraceSurvey::new(&bytes[..]).unwrap();
    assert_eq!((survey.ending, survey.lost), (Ending::Complete, 0));
    // The emulated TSC has 1 GHz.
    let tsc_hz = survey.tsc_hz.unwrap().get();
    assert!(tsc_hz.abs_diff(1_000_000_000) < 100_000, "{tsc_hz}");
    let snapshots = snapshots_of(&bytes, 100_000_000);
    let (first, last) = (snapshots.first().unwrap(), snapshots.last().unwrap());
    // Two vCPUs that never block, one that does, one that never does, on 2 pCPUs that are always busy.
    let shape: Vec<(u64, usize)> =
        last.structure.domains.iter().map(|domain| (domain.id, domain.vcpus.len())).collect();
    assert_eq!(shape, [(0, 1), (1, 2), (2, 1), (3, 1)]);
    let length_ns = last.time_ns - first.time_ns;
    let gotten_ns: u64 = last.vcpus.iter().map(|vcpu| vcpu.gotten_ns).sum();
    let idle_ns: u64 = last.idle_ns.iter().sum();
    // What is not told is the beginning, until the first change of each vCPU, and switches.
    let all_ns = 2 * length_ns;
    assert!(gotten_ns + idle_ns <= all_ns);
    assert!(gotten_ns + idle_ns > all_ns - all_ns / 100, "{gotten_ns} + {idle_ns} of {all_ns}");
    for busy in [1, 2, 4] {
        let vcpu = &last.vcpus[busy];
        let known_ns = vcpu.gotten_ns + vcpu.waited_ns.unwrap();
        assert!(known_ns <= length_ns && known_ns > length_ns - length_ns / 100, "{busy}");
    }
    // Each pCPU runs one at a time.
    for pcpu in [0, 1] {
        let all = snapshots.iter().flat_map(|snapshot| &snapshot.segments);
        let mut runs: Vec<&Segment> = all.filter(|run| run.pcpu == Some(pcpu)).collect();
        runs.sort_by_key(|run| run.start_ns);
        assert!(runs.len() > 100);
        assert!(runs.windows(2).all(|pair| pair[0].end_ns <= pair[1].start_ns));
    }
}

/// A change of a vCPU's state at some pCPU, after a while.
fn changes() -> impl Strategy<Value = Vec<(u64, u32, u32, u32)>> {
    vec((1u64..1_000, 0u32..6, 0u32..4, 0u32..3), 0..200)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// However the changes lie in windows, and however the bytes come.
    #[test]
    fn any_schedule_comes_back(
        changes in changes(),
        polls in vec(1u64..20_000, 1..20),
        chunks in vec(1usize..200, 1..50),
    ) {
        let mut now = 10_000;
        let mut states = [(BLOCKED, 0, None); 6];
        let mut records = vec![];
        let mut expected = vec![];
        for (after, vcpu, pcpu, state) in changes {
            let (before, since, place) = states[vcpu as usize];
            if state == before {
                continue;
            }
            now += after;
            records.push((now, pcpu, change(now, vcpu / 2, vcpu % 2, before, state)));
            if before != BLOCKED && place.is_some() {
                let place = place.filter(|_| before == RUNNING);
                expected.push(segment(vcpu / 2, vcpu % 2, place, since..now));
            }
            states[vcpu as usize] = (state, now, Some(pcpu));
        }
        // Rounds over the buffers, each pCPU's a little after the one before.
        let mut bytes = vec![];
        let mut rounds = vec![];
        let mut read_to = [0; 4];
        let mut poll = 10_000;
        for wait in polls.into_iter().chain([u64::MAX / 2]) {
            poll += wait;
            for pcpu in 0..4u32 {
                let from = std::mem::replace(&mut read_to[pcpu as usize], poll + 50 * u64::from(pcpu));
                let new: Vec<Vec<u8>> = records
                    .iter()
                    .filter(|(at, place, _)| {
                        *place == pcpu && (from + 1..=read_to[pcpu as usize]).contains(at)
                    })
                    .map(|(_, _, bytes)| bytes.clone())
                    .collect();
                if !new.is_empty() {
                    bytes.extend(window(pcpu, &new));
                }
            }
            rounds.push(bytes.len());
        }
        let mut live = Xentrace::new(GHZ);
        let mut told = vec![];
        let mut from = 0;
        for to in rounds {
            live.push(&bytes[from..to]).unwrap();
            live.settle();
            told.extend(live.ended(u64::MAX));
            from = to;
        }
        live.end();
        told.extend(live.ended(u64::MAX));
        prop_assert_eq!(&told, &expected);
        let mut xentrace = Xentrace::new(GHZ);
        let mut found = vec![];
        let mut rest = &bytes[..];
        for length in chunks.into_iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (chunk, after) = rest.split_at(length.min(rest.len()));
            rest = after;
            xentrace.push(chunk).unwrap();
            found.extend(xentrace.ended(u64::MAX));
        }
        xentrace.end();
        found.extend(xentrace.ended(u64::MAX));
        prop_assert_eq!(found, expected);
    }

    /// What was cut off begins as the whole does.
    #[test]
    fn a_file_may_end_anywhere(length in 0usize..400) {
        let whole = by_hand();
        let cut = &whole[..length.min(whole.len())];
        match XentraceSurvey::new(cut) {
            Err(_) => prop_assert!(cut.len() < 12),
            Ok(survey) => {
                if survey.ending == Ending::Complete {
                    prop_assert!(is_xentrace(&whole[cut.len()..]) || cut.len() == whole.len());
                }
                let all = segments_of(&whole);
                prop_assert!(segments_of(cut).iter().all(|segment| all.contains(segment)));
                snapshots_of(cut, 1_000);
            }
        }
    }

    /// No bytes upset it, and times never go back.
    #[test]
    fn any_bytes(records in vec(any::<u8>(), 0..400), rest in vec(any::<u8>(), 0..100)) {
        let all = [by_hand(), window(2, &[records]), rest].concat();
        let survey = XentraceSurvey::new(Cursor::new(&all)).unwrap();
        let hz = survey.tsc_hz.unwrap_or(GHZ);
        let mut file = XentraceFile::new(&all[..], &survey, hz, "host", 1_000);
        let mut last_ns = 0;
        while let Some(snapshot) = file.snapshot().unwrap() {
            prop_assert!(snapshot.time_ns >= last_ns);
            last_ns = snapshot.time_ns;
            prop_assert!(snapshot.segments.is_sorted_by_key(|segment| segment.end_ns));
        }
    }
}

/// Number, name and words of each decision, as Xen has them.
fn decisions() -> Vec<(u32, String, usize)> {
    let list = include_str!("../../../xen/decisions.h");
    let entries = list.lines().filter_map(|line| line.strip_prefix("STEELYARD_DECISION("));
    let parse = |entry: &str| {
        let (number, rest) = entry.split_once(", ")?;
        let (name, rest) = rest.split_once(", \"")?;
        let (words, _) = rest.split_once('"')?;
        Some((number.parse().ok()?, name.to_owned(), words.split(' ').count()))
    };
    entries.map(|entry| parse(entry).expect(entry)).collect()
}

#[test]
fn decisions_are_those_of_the_scheduler_in_xen() {
    let here = (1..).zip(XEN_DECISIONS.map(str::to_owned));
    let there = decisions().into_iter().map(|(number, name, _)| (number, name));
    assert!(here.eq(there));
    let document = include_str!("../../../docs/xen.md");
    for (number, name, words) in decisions() {
        let event = 0x2_2e00 + number;
        let format = format!("{event:#010x}  CPU%(cpu)d  %(tsc)d (+%(reltsc)d)  steelyard:{name} ");
        let line = document.lines().find(|line| line.starts_with(&format)).expect(&format);
        assert_eq!(line.matches("%(").count() - 3, words, "{line}");
    }
}

#[test]
fn decisions_are_counted_and_change_no_run_or_wait() {
    let plain = by_hand();
    let mut more = plain.clone();
    let times = |count: u32, number: u32| (0..count).map(move |_| number);
    let told: Vec<_> = decisions()
        .iter()
        .flat_map(|&(number, _, words)| times(number, number).map(move |number| (number, words)))
        .map(|(number, words)| record(0x2_2e00 + number, 9_600, &vec![7; words]))
        .collect();
    more.extend(window(0, &told));
    // Of credit2's class, and a number that nobody has.
    more.extend(window(0, &[record(0x2_2207, 9_600, &[1]), record(0x2_2fff, 9_600, &[1])]));
    assert_eq!(segments_of(&more), segments_of(&plain));
    let survey = XentraceSurvey::new(&more[..]).unwrap();
    assert_eq!(survey.decisions.map(|count| count as usize), std::array::from_fn(|i| i + 1));
    let said = survey.decided().unwrap();
    assert!(said.starts_with("Decisions of Steelyard in Xen: 1 wake, 2 queue, "), "{said}");
    assert_eq!(XentraceSurvey::new(&plain[..]).unwrap().decided(), None);
}
