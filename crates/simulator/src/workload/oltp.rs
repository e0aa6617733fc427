// SPDX-License-Identifier: GPL-2.0-only
//! SysBench OLTP against a database in the same guest: each thread is a connection and its server
//! thread, and asks for one transaction after another.
//!
//! A transaction of SysBench's complex mode has 10 selects by key, 4 over ranges and 4 writes. Each
//! statement computes in user mode (parser, B-tree) and enters the kernel several times (socket,
//! futex, memory); each entry takes one of the kernel's spin locks for a moment. A write takes a row
//! lock first, for which the database sleeps, up to the commit. The commit waits for the disk to
//! have the log. Rows are taken in ascending order, so that nobody waits in a circle.
//!
//! To be calibrated, on the baseline with one guest: `statement` on the transactions per second of
//! one thread, `kernel_entries`, `kernel_hold` and `kernel_locks` on the fraction of time spent in
//! spin locks with one thread per vCPU, `rows` on the database's lock waits. Not modelled: the
//! database's own mutexes, which spin in user mode for a moment and then sleep.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Guest, Step, TaskValue, Times, rate};
use crate::limits;
use crate::random::Random;
use crate::units::Nanoseconds;

/// Configuration.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Oltp {
    /// Statements of a transaction that only read.
    #[schemars(range(min = limits::OLTP_READS.least, max = limits::OLTP_READS.most))]
    pub reads: u32,
    /// Statements of a transaction that lock a row and change it.
    #[schemars(range(min = limits::OLTP_WRITES.least, max = limits::OLTP_WRITES.most))]
    pub writes: u32,
    /// Mean CPU time of a statement in user mode (+- 50 %).
    pub statement: Nanoseconds,
    /// System calls and interrupts of a statement that take a spin lock of the kernel.
    #[schemars(range(min = limits::KERNEL_ENTRIES.least, max = limits::KERNEL_ENTRIES.most))]
    pub kernel_entries: u32,
    /// CPU time of one of them, without the lock.
    pub kernel_entry: Nanoseconds,
    /// CPU time for which it holds the lock.
    pub kernel_hold: Nanoseconds,
    /// The kernel's spin locks, taken at random.
    #[schemars(range(min = limits::LOCKS.least, max = limits::LOCKS.most))]
    pub kernel_locks: u32,
    /// Rows that are written, at random.
    #[schemars(range(min = limits::ROWS.least, max = limits::ROWS.most))]
    pub rows: u32,
    /// What a commit writes to the disk; 0: it waits for nothing.
    #[schemars(range(min = limits::BYTES.least, max = limits::BYTES.most))]
    pub log_bytes: u64,
}

impl Default for Oltp {
    fn default() -> Self {
        Oltp {
            reads: 14,
            writes: 4,
            statement: Nanoseconds::from_us(60),
            kernel_entries: 4,
            kernel_entry: Nanoseconds::from_us(2),
            kernel_hold: Nanoseconds::from_us(2),
            kernel_locks: 4,
            rows: 10_000,
            log_bytes: 4096,
        }
    }
}

/// What comes next in a transaction.
#[derive(Clone, Copy)]
enum State {
    Begin,
    Statement,
    Entry { left: u32 },
    Lock { left: u32 },
    Flush,
    Unlock { done: usize },
}

struct Connection {
    state: State,
    statements: u32,
    started_ns: u64,
    rows: Vec<u32>,
}

pub(super) struct Program {
    config: Oltp,
    connections: Vec<Connection>,
    transactions: Times,
}

impl Program {
    pub fn new(config: &Oltp, threads: u32) -> Self {
        let connection = |_| Connection {
            state: State::Begin,
            statements: 0,
            started_ns: 0,
            rows: Vec::with_capacity(config.writes as usize),
        };
        Program {
            config: config.clone(),
            connections: (0..threads).map(connection).collect(),
            transactions: Times::new(),
        }
    }
}

/// Distinct rows in ascending order.
fn choose_rows(rows: &mut Vec<u32>, config: &Oltp, random: &mut Random) {
    rows.clear();
    while rows.len() < config.writes as usize {
        let row = random.below(config.rows.into()) as u32;
        if let Err(place) = rows.binary_search(&row) {
            rows.insert(place, row);
        }
    }
}

impl super::Program for Program {
    fn next(&mut self, thread: u32, guest: &mut Guest<'_>) -> Step {
        let config = &self.config;
        let connection = &mut self.connections[thread as usize];
        loop {
            let (next, step) = match connection.state {
                State::Begin => {
                    connection.started_ns = guest.now_ns;
                    connection.statements = 0;
                    choose_rows(&mut connection.rows, config, guest.random);
                    (State::Statement, None)
                }
                State::Statement => {
                    let done = connection.statements;
                    if done == config.reads + config.writes {
                        connection.state = State::Flush;
                        continue;
                    }
                    connection.statements += 1;
                    let entry = State::Entry { left: config.kernel_entries };
                    match done.checked_sub(config.reads) {
                        Some(write) => {
                            // The lock first, then the work.
                            let row = connection.rows[write as usize];
                            (entry, Some(Step::Wait(row)))
                        }
                        None => (entry, None),
                    }
                }
                State::Entry { left: 0 } => {
                    let ns = guest.random.jitter(config.statement.0, 50);
                    (State::Statement, Some(Step::Compute(ns)))
                }
                State::Entry { left } => {
                    (State::Lock { left: left - 1 }, Some(Step::Kernel(config.kernel_entry.0)))
                }
                State::Lock { left } => {
                    let lock = guest.random.below(config.kernel_locks.into()) as u32;
                    let ns = config.kernel_hold.0;
                    (State::Entry { left }, Some(Step::Hold { lock, ns }))
                }
                State::Flush => {
                    let unlock = State::Unlock { done: 0 };
                    (unlock, (config.log_bytes > 0).then_some(Step::Disk(config.log_bytes)))
                }
                State::Unlock { done } => match connection.rows.get(done) {
                    Some(&row) => (State::Unlock { done: done + 1 }, Some(Step::Signal(row))),
                    None => {
                        self.transactions.record(guest.now_ns - connection.started_ns);
                        (State::Begin, None)
                    }
                },
            };
            connection.state = next;
            if let Some(step) = step {
                return step;
            }
        }
    }

    fn locks(&self) -> u32 {
        self.config.kernel_locks
    }

    fn semaphores(&self) -> Vec<u32> {
        vec![1; self.config.rows as usize]
    }

    fn values(&self, elapsed_ns: u64) -> Vec<TaskValue> {
        let count = self.transactions.count() as f64;
        let mut values = vec![rate("transactions", "1/s", count, elapsed_ns)];
        values.extend(self.transactions.values("transaction"));
        values
    }
}
