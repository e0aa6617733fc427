// SPDX-License-Identifier: GPL-2.0-only
//! hackbench: groups of senders and receivers; each sender writes a number of small messages to
//! every receiver of its group over sockets, as fast as it can.
//!
//! A write and a read are system calls that take the socket's spin lock for a moment. Whoever finds
//! the socket full or empty sleeps, and is woken by the other side: the guest's scheduler is as busy
//! as its locks. The result is the total time.
//!
//! The real program's defaults are 10 groups of 20 + 20 processes and 100 messages to each receiver;
//! a socket of 2.6.38 holds about 250 messages of 100 bytes. To be calibrated, on one guest alone:
//! `system_call` on the total time with one vCPU, `hold` and `locks` on the fraction of time spent
//! in spin locks with all.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Guest, Step, TaskValue, rate, value};
use crate::limits;
use crate::units::Nanoseconds;

/// Configuration. The number of threads says how many groups there are.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Hackbench {
    /// Senders of a group, and as many receivers.
    #[schemars(range(min = limits::SENDERS.least, max = limits::SENDERS.most))]
    pub senders: u32,
    /// Messages from each sender to each receiver of its group.
    #[schemars(range(min = limits::MESSAGES.least, max = limits::MESSAGES.most))]
    pub messages: u32,
    /// CPU time of a write or read, without the lock.
    pub system_call: Nanoseconds,
    /// CPU time for which it holds the socket's lock.
    pub hold: Nanoseconds,
    /// Spin locks in all: sockets share them.
    #[schemars(range(min = limits::LOCKS.least, max = limits::LOCKS.most))]
    pub locks: u32,
    /// Messages that a socket holds.
    #[schemars(range(min = limits::MESSAGES.least, max = limits::MESSAGES.most))]
    pub socket_messages: u32,
}

impl Default for Hackbench {
    fn default() -> Self {
        Hackbench {
            senders: 20,
            messages: 100,
            system_call: Nanoseconds(1_500),
            hold: Nanoseconds(500),
            locks: 8,
            socket_messages: 250,
        }
    }
}

/// What comes next with a message.
#[derive(Clone, Copy)]
enum State {
    Wait,
    Call,
    Lock,
    Signal,
}

#[derive(Clone, Copy)]
struct Process {
    state: State,
    /// Messages sent or received.
    done: u64,
}

pub(super) struct Program {
    config: Hackbench,
    processes: Vec<Process>,
    received: u64,
    running: u32,
    started_ns: Option<u64>,
    total_ns: Option<u64>,
}

impl Program {
    pub fn new(config: &Hackbench, threads: u32) -> Self {
        Program {
            config: config.clone(),
            processes: vec![Process { state: State::Wait, done: 0 }; threads as usize],
            received: 0,
            running: threads,
            started_ns: None,
            total_ns: None,
        }
    }

    /// The socket of the next message, and whether the thread sends to it.
    fn socket(&self, thread: u32) -> (u32, bool) {
        let senders = self.config.senders;
        let (group, member) = (thread / (2 * senders), thread % (2 * senders));
        let sends = member < senders;
        let receiver = if sends {
            (self.processes[thread as usize].done % u64::from(senders)) as u32
        } else {
            member - senders
        };
        (group * senders + receiver, sends)
    }
}

impl super::Program for Program {
    fn next(&mut self, thread: u32, guest: &mut Guest<'_>) -> Step {
        let started_ns = *self.started_ns.get_or_insert(guest.ready_ns);
        let (socket, sends) = self.socket(thread);
        let (space, message) = (2 * socket, 2 * socket + 1);
        let lock = socket % self.config.locks;
        let process = &mut self.processes[thread as usize];
        let (next, step) = match process.state {
            State::Wait => {
                let messages = u64::from(self.config.messages) * u64::from(self.config.senders);
                if process.done == messages {
                    self.running -= 1;
                    if self.running == 0 {
                        self.total_ns = Some(guest.now_ns - started_ns);
                    }
                    return Step::End;
                }
                (State::Call, Step::Wait(if sends { space } else { message }))
            }
            State::Call => (State::Lock, Step::Kernel(self.config.system_call.0)),
            State::Lock => (State::Signal, Step::Hold { lock, ns: self.config.hold.0 }),
            State::Signal => {
                process.done += 1;
                self.received += u64::from(!sends);
                (State::Wait, Step::Signal(if sends { message } else { space }))
            }
        };
        process.state = next;
        step
    }

    fn locks(&self) -> u32 {
        self.config.locks
    }

    fn semaphores(&self) -> Vec<u32> {
        let sockets = self.processes.len() / 2;
        [self.config.socket_messages, 0].repeat(sockets)
    }

    fn values(&self, elapsed_ns: u64) -> Vec<TaskValue> {
        let total_s = self.total_ns.map(|ns| ns as f64 / 1e9);
        vec![
            rate("messages", "1/s", self.received as f64, elapsed_ns),
            value("total time", "s", Some(false), total_s),
        ]
    }
}
