// SPDX-License-Identifier: GPL-2.0-only
//! The observer on this very machine, where its user may load BPF programs.
#![cfg(feature = "bpf")]

use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use steelyard_kvm::{Doing, KvmError, Observer, ThreadFigures, Told, now_ns};

/// More of them than CPUs, so that some wait; some sleep now and then.
const THREADS: usize = 6;

/// None, with a word, where BPF programs cannot be loaded.
fn attach() -> Result<Option<Observer>, KvmError> {
    match Observer::attach_telling() {
        Err(error @ (KvmError::NoBtf | KvmError::NoPrivilege)) => {
            eprintln!("skipped: {error}");
            Ok(None)
        }
        other => other.map(Some),
    }
}

fn compute(length: Duration) {
    let end = Instant::now() + length;
    while Instant::now() < end {
        spin_loop();
    }
}

type Numbered = (i32, JoinHandle<()>);

/// Threads that look like vCPUs, and their numbers.
fn vcpus(stop: &Arc<AtomicBool>) -> Result<Vec<Numbered>, Box<dyn Error>> {
    let (tell, told) = mpsc::channel();
    let mut threads = vec![];
    for number in 0..THREADS {
        let (stop, tell) = (stop.clone(), tell.clone());
        let thread = thread::Builder::new().name(format!("CPU {number}/KVM")).spawn(move || {
            let own = fs::read_link("/proc/thread-self").unwrap_or_default();
            let _ = tell.send(own.file_name().map(|tid| tid.to_string_lossy().into_owned()));
            while !stop.load(Ordering::Relaxed) {
                compute(Duration::from_micros(700));
                if number % 2 == 0 {
                    sleep(Duration::from_micros(300));
                }
            }
        })?;
        let tid = told.recv()?.ok_or("no number of a thread")?.parse()?;
        threads.push((tid, thread));
    }
    Ok(threads)
}

/// What a thread ran and waited up to the beginning of what it does.
fn ended(figures: &ThreadFigures, now_ns: u64) -> (u64, u64) {
    let lasts =
        |doing| if figures.doing == doing { now_ns.saturating_sub(figures.since_ns) } else { 0 };
    (figures.gotten_ns - lasts(Doing::Running), figures.waited_ns - lasts(Doing::Waiting))
}

#[test]
fn single_runs_and_waits_add_up_to_the_sums() -> Result<(), Box<dyn Error>> {
    let Some(mut observer) = attach()? else { return Ok(()) };
    let stop = Arc::new(AtomicBool::new(false));
    let threads = vcpus(&stop)?;
    sleep(Duration::from_millis(200));
    observer.find()?;
    let mut told = vec![];
    // Sums first: of what ends meanwhile there are single runs and waits more, none too few.
    let mut look = || {
        let now_ns = now_ns();
        let mut figures = HashMap::new();
        observer.threads(now_ns, &mut figures);
        observer.fetch(&mut told, &mut vec![]);
        (now_ns, figures)
    };
    let (before_ns, before) = look();
    sleep(Duration::from_millis(700));
    let (after_ns, after) = look();
    assert_eq!(observer.lost(), (0, 0));
    stop.store(true, Ordering::Relaxed);
    for (tid, thread) in threads {
        thread.join().map_err(|_| "a thread failed")?;
        let (Some(first), Some(last)) = (before.get(&tid), after.get(&tid)) else {
            return Err(format!("thread {tid} is not watched").into());
        };
        let within = |one: &&Told| {
            one.tid == tid && one.start_ns >= first.since_ns && one.end_ns <= last.since_ns
        };
        let own: Vec<&Told> = told.iter().filter(within).collect();
        assert!(own.windows(2).all(|pair| pair[0].end_ns <= pair[1].start_ns), "{own:?}");
        let sum = |runs| -> u64 {
            let of_kind = own.iter().filter(|one| one.pcpu.is_some() == runs);
            of_kind.map(|one| one.end_ns - one.start_ns).sum()
        };
        let ((ran, waited), (ran_first, waited_first)) =
            (ended(last, after_ns), ended(first, before_ns));
        assert_eq!((sum(true), sum(false)), (ran - ran_first, waited - waited_first));
        assert!(last.gotten_ns > first.gotten_ns);
    }
    // On a pCPU one runs at a time, whoever it is.
    let mut runs: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
    for one in &told {
        if let Some(pcpu) = one.pcpu {
            runs.entry(pcpu).or_default().push((one.start_ns, one.end_ns));
        }
    }
    for runs in runs.values_mut() {
        runs.sort_unstable();
        assert!(runs.windows(2).all(|pair| pair[0].1 <= pair[1].0));
    }
    // While the threads waited somebody else ran: this test's own thread at the least.
    assert!(told.iter().any(|one| one.other.is_some() && one.pcpu.is_some()));
    Ok(())
}

#[test]
fn who_ends_or_gets_another_name_is_watched_no_longer() -> Result<(), Box<dyn Error>> {
    let Some(mut observer) = attach()? else { return Ok(()) };
    let (stop, rename) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let threads = vcpus(&stop)?;
    let renamed = {
        let (tell, told) = mpsc::channel();
        let (stop, rename) = (stop.clone(), rename.clone());
        let thread = thread::Builder::new().name("CPU 9/TCG".to_owned()).spawn(move || {
            let own = fs::read_link("/proc/thread-self").unwrap_or_default();
            let _ = tell.send(own.file_name().map(|tid| tid.to_string_lossy().into_owned()));
            while !rename.load(Ordering::Relaxed) {
                sleep(Duration::from_millis(1));
            }
            let written = fs::write("/proc/thread-self/comm", "worker");
            while !stop.load(Ordering::Relaxed) {
                sleep(Duration::from_millis(1));
            }
            written
        })?;
        (told.recv()?.ok_or("no number of a thread")?.parse::<i32>()?, thread)
    };
    observer.find()?;
    let watched = |observer: &Observer| {
        let mut figures = HashMap::new();
        observer.threads(now_ns(), &mut figures);
        figures
    };
    let now = watched(&observer);
    assert!(threads.iter().all(|(tid, _)| now.contains_key(tid)) && now.contains_key(&renamed.0));
    rename.store(true, Ordering::Relaxed);
    // Happens soon; never, if it is broken.
    let until_gone = |tids: &[i32]| {
        let end = Instant::now() + Duration::from_secs(20);
        while Instant::now() < end {
            let now = watched(&observer);
            if tids.iter().all(|tid| !now.contains_key(tid)) {
                return true;
            }
            sleep(Duration::from_millis(10));
        }
        false
    };
    assert!(until_gone(&[renamed.0]));
    assert!(threads.iter().all(|(tid, _)| watched(&observer).contains_key(tid)));
    stop.store(true, Ordering::Relaxed);
    renamed.1.join().map_err(|_| "a thread failed")??;
    let tids: Vec<i32> = threads.iter().map(|(tid, _)| *tid).collect();
    for (_, thread) in threads {
        thread.join().map_err(|_| "a thread failed")?;
    }
    assert!(until_gone(&tids));
    Ok(())
}

#[test]
fn sums_of_a_window_are_its_length() -> Result<(), Box<dyn Error>> {
    // As the tests of the scheduler use it: where single runs can be told, sums can.
    if attach()?.is_none() {
        return Ok(());
    }
    let mut observer = Observer::attach()?;
    let stop = Arc::new(AtomicBool::new(false));
    let threads = vcpus(&stop)?;
    sleep(Duration::from_millis(200));
    observer.begin();
    sleep(Duration::from_millis(500));
    let (elapsed_ns, sums) = observer.end();
    stop.store(true, Ordering::Relaxed);
    for (tid, thread) in threads {
        thread.join().map_err(|_| "a thread failed")?;
        let sums = sums.iter().find(|sums| sums.tid == tid).ok_or("a thread is missing")?;
        let all_ns = sums.gotten_ns + sums.waited_ns + sums.blocked_ns;
        // What happens while the end is written down may be counted beyond it.
        assert!(all_ns.abs_diff(elapsed_ns) <= elapsed_ns / 100, "{sums:?} of {elapsed_ns}");
        assert!(sums.worst_wait_ns <= sums.waited_ns);
    }
    Ok(())
}
