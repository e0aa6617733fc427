// SPDX-License-Identifier: GPL-2.0-only
//! `xentrace` as a process of ours: what it writes comes through a pipe. It turns tracing off when it
//! ends, and ends when this program does, however that does.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use steelyard_recording::XENTRACE_RUNSTATES;

/// From one round of `xentrace` over its buffers to the next.
const ROUND: Duration = Duration::from_millis(10);
/// What is not fetched waits: up to 16 MiB here, then in Xen's own buffers, which lose what is new.
const CHUNK: usize = 1 << 16;
const CHUNKS: usize = 256;
/// How long its first records are waited for: something always changes, if only here. In a dom0 that is busy it takes
/// seconds to begin, and has been seen to take more than five.
const FIRST_WORDS: Duration = Duration::from_secs(20);
/// How long `xentrace` may take to end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A running `xentrace`.
pub struct Tracer {
    child: Child,
    chunks: Receiver<Chunk>,
    first: Option<Chunk>,
}

/// When it came, and what.
type Chunk = (Instant, Vec<u8>);

impl Tracer {
    /// Starts it; otherwise says why not.
    pub fn start(proc: &Path) -> Result<Tracer, String> {
        // A second one would take the first one's records and choose others for it.
        if let Some(other) = running(proc) {
            return Err(format!("xentrace runs already, as process {other}"));
        }
        let (reader, writer) = rustix::pipe::pipe().map_err(|error| error.to_string())?;
        let mut command = Command::new("xentrace");
        command
            .args(["-D", "-e", &format!("{XENTRACE_RUNSTATES:#x}")])
            .args(["-s", &ROUND.as_millis().to_string()])
            .stdin(Stdio::null())
            .stdout(writer)
            .stderr(Stdio::piped());
        // SAFETY: a system call, and nothing else, between fork and exec.
        unsafe {
            command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::TERM))?));
        }
        let child = command.spawn().map_err(|error| format!("xentrace: {error}"))?;
        // It has the reading end as well: so, when this program is gone, what it writes last does not
        // end it before it has turned tracing off.
        drop(command);
        let (sender, chunks) = sync_channel(CHUNKS);
        thread::spawn(move || read_on(reader, &sender));
        let first = chunks.recv_timeout(FIRST_WORDS);
        let silent = first == Err(RecvTimeoutError::Timeout);
        let tracer = Tracer { child, chunks, first: first.ok() };
        // Without records nobody would seem to wait.
        match silent {
            true => Err(format!("xentrace told nothing within {} s", FIRST_WORDS.as_secs())),
            false => Ok(tracer),
        }
    }

    /// What has come, and when; then whether more can.
    pub fn chunks(&mut self) -> (Vec<Chunk>, bool) {
        let chunks = self.first.take().into_iter().chain(self.chunks.try_iter());
        (chunks.collect(), matches!(self.child.try_wait(), Ok(None)))
    }

    /// Why it ended: what it said last, if it failed by itself.
    pub fn complaint(&mut self) -> String {
        if !matches!(self.child.try_wait(), Ok(Some(status)) if status.code() > Some(0)) {
            return "xentrace was ended".to_owned();
        }
        let mut words = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            // What is no text it has not said.
            let _ = stderr.read_to_string(&mut words);
        }
        words.lines().last().unwrap_or("xentrace failed").to_owned()
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        // If it is gone there is nobody to signal.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let begun = Instant::now();
        while begun.elapsed() < LAST_WORDS {
            // What is read makes room for its last words.
            self.chunks.try_iter().for_each(drop);
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            sleep(Duration::from_millis(1));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_on(reader: OwnedFd, sender: &SyncSender<Chunk>) {
    let mut reader = File::from(reader);
    let mut buffer = vec![0; CHUNK];
    while let Ok(length @ 1..) = reader.read(&mut buffer) {
        if sender.send((Instant::now(), buffer[..length].to_vec())).is_err() {
            return;
        }
    }
}

fn running(proc: &Path) -> Option<u32> {
    let processes = fs::read_dir(proc).ok()?.flatten();
    let mut ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.find(|id: &u32| {
        fs::read_to_string(proc.join(id.to_string()).join("comm"))
            .is_ok_and(|name| name.trim_end() == "xentrace")
    })
}
