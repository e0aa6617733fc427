// SPDX-License-Identifier: GPL-2.0-only
//! A deterministic simulator of a host with more virtual CPUs than CPUs.

pub mod config;
mod fairness;
pub mod measure;
mod random;
mod run_queue;
mod simulation;
mod timers;
mod topology;
pub mod units;
mod validate;
mod waits;
pub mod workload;

pub use fairness::{Usable, entitle, jain};
pub use simulation::Simulation;
pub use waits::WaitRecorder;
