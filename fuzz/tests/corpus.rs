// SPDX-License-Identifier: GPL-2.0-only
//! Every target takes its corpus, and some thousand more inputs from a fixed seed: half of them any
//! bytes, half of them changed from the corpus. An execution has limits in memory and time.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use std::{fs, panic, process, thread};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore as _, SeedableRng as _};
use rustix::time::{ClockId, clock_gettime};
use steelyard_fuzz::{MOST_BYTES, TARGETS, Target};

/// Executions of each target, beside its corpus.
const EXECUTIONS: u64 = 1_500;
/// CPU time of an execution at most.
const MOST_SECONDS: i64 = 10;
/// One that does not end at all ends the test, however busy the machine is.
const NEVER: Duration = Duration::from_secs(300);

/// What is being taken, and since when; nothing between two of them.
type Now = Mutex<Option<(String, Instant)>>;

fn take(target: &Target, what: &str, input: &[u8], now: &Now) {
    let name = target.name;
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-last"));
    fs::write(&file, input).expect("a file can be written");
    let doing = format!("{name} with {what}, which is in {}", file.display());
    *now.lock().expect("nobody panics with it") = Some((doing, Instant::now()));
    let begin_s = clock_gettime(ClockId::ThreadCPUTime).tv_sec;
    let bytes = panic::catch_unwind(|| target.take(input)).unwrap_or_else(|_| {
        panic!("{name} fails with {what}, which is in {}", file.display());
    });
    *now.lock().expect("nobody panics with it") = None;
    let took_s = clock_gettime(ClockId::ThreadCPUTime).tv_sec - begin_s;
    assert!(bytes <= MOST_BYTES, "{name} holds {bytes} bytes with {what}");
    assert!(took_s <= MOST_SECONDS, "{name} takes {took_s} s with {what}");
}

fn corpus(name: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let mut files: Vec<_> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("a folder can be read").path())
        .collect();
    files.sort();
    let read = |path| (format!("{}", Path::display(path)), fs::read(path).expect("it can be read"));
    files.iter().map(|path| read(path)).collect()
}

/// Any bytes, or some of the corpus with a few changes.
fn input(random: &mut Xoshiro256PlusPlus, corpus: &[(String, Vec<u8>)], longest: usize) -> Vec<u8> {
    let mut below = |end: usize| (random.next_u64() % end.max(1) as u64) as usize;
    if below(2) == 0 || corpus.is_empty() {
        let length = below(longest + 1);
        return (0..length).map(|_| below(256) as u8).collect();
    }
    let mut bytes = corpus[below(corpus.len())].1.clone();
    for _ in 0..=below(4) {
        let at = below(bytes.len() + 1);
        let length = below(16).min(bytes.len() - at);
        match below(4) {
            0 if at < bytes.len() => bytes[at] = below(256) as u8,
            1 => drop(bytes.drain(at..at + length)),
            2 => {
                let part = bytes[at..at + length].to_vec();
                bytes.splice(at..at, part);
            }
            _ => {
                let other = &corpus[below(corpus.len())].1;
                let from = below(other.len() + 1);
                bytes.splice(at.., other[from..].iter().copied());
            }
        }
    }
    bytes.truncate(longest);
    bytes
}

#[test]
fn every_target_takes_any_input() {
    let targets: Mutex<VecDeque<_>> = Mutex::new(TARGETS.iter().collect());
    let next = || targets.lock().expect("nobody panics with it").pop_front();
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let doing: Vec<Now> = (0..workers).map(|_| Mutex::new(None)).collect();
    thread::scope(|scope| {
        let work = |now: &Now| {
            while let Some(target) = next() {
                let corpus = corpus(target.name);
                for (file, input) in &corpus {
                    take(target, file, input, now);
                }
                let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
                for number in 0..EXECUTIONS {
                    let input = input(&mut random, &corpus, target.longest);
                    take(target, &format!("input {number}"), &input, now);
                }
            }
        };
        let workers: Vec<_> = doing.iter().map(|now| scope.spawn(move || work(now))).collect();
        while workers.iter().any(|worker| !worker.is_finished()) {
            thread::sleep(Duration::from_millis(100));
            for now in &doing {
                match &*now.lock().expect("nobody panics with it") {
                    Some((what, since)) if since.elapsed() > NEVER => {
                        eprintln!("no end within {NEVER:?}: {what}");
                        process::abort();
                    }
                    _ => {}
                }
            }
        }
    });
}
