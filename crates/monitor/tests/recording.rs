// SPDX-License-Identifier: GPL-2.0-only
//! What was recorded is what is read, as far as the file goes; whatever the bytes, nothing worse
//! than an error comes of it.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::io::{Cursor, Read, Write};
use std::sync::Arc;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use steelyard_monitor::{Interval, SimulationSource};
use steelyard_policy::Policy;
use steelyard_recording::{
    Domain, Ending, Figures, Group, Host, OtherRun, Placement, PolicyState, Recorder, Recording,
    RecordingError, Snapshot, State, Structure, ThreadEvents, Vcpu, Waits, Wake, Who,
};
use steelyard_simulator::Simulation;
use steelyard_simulator::config::{Domain as Simulated, Host as SimulatedHost, Setup};
use steelyard_simulator::measure::Segment;
use steelyard_simulator::workload::Busy;

const MS: u64 = 1_000_000;

/// Two domains on one pCPU, a snapshot every 20 ms.
fn simulated(snapshots: u64) -> Vec<Snapshot> {
    simulated_under("credit2", snapshots)
}

fn simulated_under(policy: &str, snapshots: u64) -> Vec<Snapshot> {
    let setup = Setup {
        host: SimulatedHost::with_pcpus(1),
        domains: vec![
            Simulated { weight: 512, ..Simulated::new("heavy", 2).with_task(2, Busy::default()) },
            Simulated::new("light", 1).with_task(1, Busy::default()),
        ],
    };
    let simulation = Simulation::new(&setup, &Policy::named(policy).unwrap(), 1).unwrap();
    let end_ns = (snapshots - 1) * 20 * MS;
    let mut source = SimulationSource::new(simulation, "small", 20 * MS, end_ns);
    std::iter::from_fn(|| source.sample()).collect()
}

fn recorded(snapshots: &[Snapshot]) -> Vec<u8> {
    let mut recorder = Recorder::new(vec![]);
    for snapshot in snapshots {
        recorder.record(snapshot).unwrap();
    }
    recorder.finish().unwrap()
}

/// Times of single runs and waits are kept as multiples of this.
const UNIT_NS: u64 = 256;

/// What was read is what was recorded: times of single runs and waits within a unit, the rest exactly.
fn same(read: &[Snapshot], recorded: &[Snapshot]) -> bool {
    let near = |one: u64, other: u64| one.abs_diff(other) < UNIT_NS;
    let sorted = |snapshot: &Snapshot| {
        let mut segments = snapshot.segments.clone();
        segments.sort_by_key(|it| (it.domain, it.vcpu, it.end_ns, it.start_ns, it.pcpu));
        let mut others = snapshot.others.clone();
        others.sort_by_key(|run| (run.end_ns, run.start_ns, run.pcpu, run.name.clone()));
        (segments, others)
    };
    let alike = |(read, recorded): (&Snapshot, &Snapshot)| {
        let ((segments, others), (segments_before, others_before)) =
            (sorted(read), sorted(recorded));
        let rest = |snapshot: &Snapshot| Snapshot {
            segments: vec![],
            others: vec![],
            threads: ThreadEvents::default(),
            ..snapshot.clone()
        };
        rest(read) == rest(recorded)
            && segments.len() == segments_before.len()
            && segments.iter().zip(&segments_before).all(|(one, other)| {
                (one.domain, one.vcpu, one.pcpu) == (other.domain, other.vcpu, other.pcpu)
                    && near(one.start_ns, other.start_ns)
                    && near(one.end_ns, other.end_ns)
            })
            && others.len() == others_before.len()
            && others.iter().zip(&others_before).all(|(one, other)| {
                (&one.name, one.pcpu) == (&other.name, other.pcpu)
                    && near(one.start_ns, other.start_ns)
                    && near(one.end_ns, other.end_ns)
            })
            && read.segments.is_sorted_by_key(|segment| segment.end_ns)
            && read.threads.placements == recorded.threads.placements
            && read.threads.wakes.len() == recorded.threads.wakes.len()
            && read.threads.wakes.iter().zip(&recorded.threads.wakes).all(|(one, other)| {
                (one.waker, one.woken) == (other.waker, other.woken)
                    && near(one.time_ns, other.time_ns)
            })
    };
    read.len() == recorded.len() && read.iter().zip(recorded).all(alike)
}

fn read(bytes: &[u8]) -> Result<(Vec<Snapshot>, Ending), RecordingError> {
    let mut recording = Recording::new(Cursor::new(bytes))?;
    let snapshots = (0..recording.len()).map(|number| recording.snapshot(number).unwrap());
    Ok((snapshots.collect(), recording.ending()))
}

#[test]
fn classes_of_a_simulation_are_recorded() {
    let (read, _) = read(&recorded(&simulated_under("credit", 40))).unwrap();
    let told: BTreeSet<_> = read
        .iter()
        .flat_map(|snapshot| &snapshot.vcpus)
        .map(|vcpu| vcpu.policy.as_ref().map(|policy| (policy.class.as_deref(), policy.boosted)))
        .collect();
    // All wake once, at the beginning.
    let expected = [("BOOST", true), ("OVER", false), ("UNDER", false)];
    assert_eq!(told, expected.map(|(class, boosted)| Some((Some(class), boosted))).into());
}

#[test]
fn a_recording_that_is_cut_off_anywhere_holds_all_that_was_written_before() {
    // More than a member.
    let snapshots = simulated(40);
    let mut recorder = Recorder::new(vec![]);
    // Where in the file each snapshot is complete.
    let mut complete_at = vec![];
    let mut bytes = vec![];
    for snapshot in &snapshots {
        recorder.record(snapshot).unwrap();
        bytes = recorder.writer().clone();
        complete_at.push(bytes.len());
    }
    assert_eq!(bytes.len(), *complete_at.last().unwrap());
    let whole = recorder.finish().unwrap();
    assert!(whole.starts_with(&bytes));
    for end in 0..whole.len() {
        let complete = complete_at.iter().filter(|&&at| at <= end).count();
        match read(&whole[..end]) {
            Ok((read, ending)) => {
                // Of what came after the last complete one, a line may be there already.
                assert!(read.len() >= complete, "{end}: {} of {complete}", read.len());
                assert!(same(&read, &snapshots[..read.len()]), "{end}");
                assert_ne!(ending, Ending::Damaged, "{end}");
            }
            Err(RecordingError::Empty) => assert_eq!(complete, 0, "{end}"),
            Err(error) => panic!("{end}: {error}"),
        }
    }
    let (read, ending) = read(&whole).unwrap();
    assert!(same(&read, &snapshots));
    assert_eq!(ending, Ending::Complete);
}

#[test]
fn snapshots_are_found_in_any_order() {
    let snapshots = simulated(100);
    let bytes = recorded(&snapshots);
    let mut recording = Recording::new(Cursor::new(bytes)).unwrap();
    assert_eq!(recording.len(), 100);
    for number in [99, 0, 64, 63, 31, 32, 50] {
        let snapshot = recording.snapshot(number).unwrap();
        assert!(same(&[snapshot], &snapshots[number..=number]), "{number}");
    }
    assert!(recording.snapshot(100).is_none());
}

#[test]
fn what_is_no_recording_is_said_to_be_none() {
    let error = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
    assert!(error(b"").contains("before its first sample"));
    assert!(error(b"no recording, but text of some length").contains("no recording"));
    let other = |line: &[u8]| {
        let mut gzip = GzEncoder::new(vec![], Compression::fast());
        gzip.write_all(line).unwrap();
        error(&gzip.finish().unwrap())
    };
    assert!(other(b"hello\n").contains("no recording"));
    assert!(other(b"{\"format\":\"steelyard-recording\",\"version\":2}\n").contains("version 2"));
}

fn waits() -> impl Strategy<Value = Waits> {
    proptest::collection::btree_map(any::<u64>(), 1..u64::MAX, 0..4)
        .prop_map(|histogram| Waits { histogram: histogram.into_iter().collect(), worst: None })
}

fn figures() -> impl Strategy<Value = Figures> {
    let states = select(vec![State::Running, State::Waiting, State::Runnable, State::Blocked]);
    (
        (option::of(states), option::of(any::<u32>())),
        (any::<u64>(), option::of(any::<u64>()), option::of(any::<u64>())),
        (option::of(any::<u64>()), option::of(any::<u64>()), option::of(waits())),
        option::of((any::<u64>(), option::of(any::<u64>()), any::<i64>(), any::<bool>())),
    )
        .prop_map(|((state, pcpu), (gotten_ns, waited_ns, switches), rest, policy)| Figures {
            state,
            pcpu,
            gotten_ns,
            waited_ns,
            switches,
            migrations: rest.0,
            preemptions: rest.1,
            waits: rest.2,
            policy: policy.map(|(weight, slice_ns, credit, boosted)| PolicyState {
                weight,
                slice_ns,
                credit,
                class: slice_ns.map(|_| "BOOST".to_owned()),
                boosted,
            }),
        })
}

/// Domain, vCPU, pCPU, end, and length or none if it begins where the one before ended.
type Event = (u32, u32, Option<u32>, u64, Option<u64>);

fn events() -> impl Strategy<Value = Vec<Event>> {
    let units = |ns: u64| ns / UNIT_NS * UNIT_NS;
    let lengths = option::of(prop_oneof![0..1000_u64, 0..u64::MAX].prop_map(units));
    let ends = any::<u64>().prop_map(units);
    vec((0..2_u32, 0..2_u32, option::of(0..2_u32), ends, lengths), 0..20)
}

/// Snapshots of a host on which domains come and go.
fn snapshots() -> impl Strategy<Value = Vec<Snapshot>> {
    let snapshot = (0..3_usize, any::<u64>(), any::<u64>(), vec(figures(), 6), events()).prop_map(
        |(domains, time_ns, idle_ns, mut vcpus, events)| {
            vcpus.truncate(domains * 2);
            let vcpu = |id| Vcpu { id, name: format!("CPU {id}/KVM") };
            let domain = |id| Domain {
                id,
                name: format!("\"web\"\n{id}"),
                weight: 256,
                ungrouped: false,
                groups_around: None,
                cap_percent: 0,
                vcpus: (0..2).map(vcpu).collect(),
            };
            let host = Host {
                name: "host".to_owned(),
                source: "test".to_owned(),
                pcpus: 2,
                began_unix_ns: Some(1),
                unseen: vec![],
            };
            let mut last_ns = 0;
            let times = events.iter().map(|&(_, _, _, end_ns, length_ns)| {
                let start_ns =
                    length_ns.map_or(last_ns, |length_ns| end_ns.wrapping_sub(length_ns));
                last_ns = end_ns;
                (start_ns, end_ns)
            });
            let segments = events.iter().zip(times.collect::<Vec<_>>());
            let segments = segments.map(|(&(domain, vcpu, pcpu, ..), (start_ns, end_ns))| {
                Segment { domain, vcpu, pcpu, start_ns, end_ns }
            });
            let segments: Vec<_> =
                segments.filter(|segment| (segment.domain as usize) < domains).collect();
            let others = segments.iter().filter_map(|segment| {
                Some(OtherRun {
                    name: format!("kworker/{}", segment.vcpu).into(),
                    thread: segment.domain,
                    priority: (segment.domain != 1).then_some(100 + segment.vcpu),
                    waited: segment.start_ns % 2 == 1,
                    pcpu: segment.pcpu?,
                    start_ns: segment.start_ns,
                    end_ns: segment.end_ns,
                })
            });
            let others = others.collect();
            let who = |segment: &Segment| match segment.pcpu {
                Some(0) => Who::Other(segment.end_ns as u32),
                _ => Who::Vcpu(segment.domain, segment.vcpu),
            };
            let wake = |pair: &[Segment]| Wake {
                time_ns: pair[0].start_ns,
                waker: (pair[1].pcpu != Some(1)).then(|| who(&pair[1])),
                woken: who(&pair[0]),
            };
            let placement = |segment: &Segment| Placement {
                who: who(segment),
                priority: segment.pcpu.map(|pcpu| 100 + pcpu),
                groups: (0..segment.vcpu).map(|id| Group { id: id.into(), weight: 256 }).collect(),
                pcpus: segment.pcpu.map(|pcpu| [pcpu, 7].into_iter().collect()),
            };
            let threads = ThreadEvents {
                wakes: segments.windows(2).map(wake).collect(),
                placements: segments.iter().map(placement).collect(),
            };
            let domains = (0..domains as u64).map(domain).collect();
            let structure = Arc::new(Structure { host, domains });
            // Any number will do.
            let lost = idle_ns / 2;
            let idle_ns = vec![idle_ns; 2];
            Snapshot { structure, time_ns, idle_ns, vcpus, segments, others, threads, lost }
        },
    );
    vec(snapshot, 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_snapshots_are_read_as_they_were_written(snapshots in snapshots()) {
        let (read, ending) = read(&recorded(&snapshots)).unwrap();
        prop_assert!(same(&read, &snapshots));
        prop_assert_eq!(ending, Ending::Complete);
    }

    #[test]
    fn changed_lines_do_no_harm(changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let packed = recorded(&simulated(3));
        let mut lines = vec![];
        GzDecoder::new(&packed[..]).read_to_end(&mut lines).unwrap();
        for (index, value) in changes {
            let index = index.index(lines.len());
            lines[index] = value;
        }
        let mut packed = GzEncoder::new(vec![], Compression::fast());
        packed.write_all(&lines).unwrap();
        let snapshots = read(&packed.finish().unwrap()).map(|(snapshots, _)| snapshots);
        for pair in snapshots.unwrap_or_default().windows(2) {
            Interval::between(&pair[0], &pair[1]).to_table(80, true);
        }
    }

    #[test]
    fn changed_bytes_do_no_harm(changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let mut bytes = recorded(&simulated(3));
        for (index, value) in changes {
            let index = index.index(bytes.len());
            bytes[index] = value;
        }
        // Whatever it is, it has as many vCPUs as it says, and an end.
        for snapshot in read(&bytes).into_iter().flat_map(|(snapshots, _)| snapshots) {
            let domains = &snapshot.structure.domains;
            let vcpus: usize = domains.iter().map(|domain| domain.vcpus.len()).sum();
            prop_assert_eq!(vcpus, snapshot.vcpus.len());
        }
    }
}
