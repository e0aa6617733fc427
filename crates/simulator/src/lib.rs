// SPDX-License-Identifier: GPL-2.0-only
//! A deterministic simulator of a host with more virtual CPUs than CPUs.
//!
//! The host asks the policy core (crate `steelyard-policy`) whom to run, as the Linux kernel or Xen
//! would: the code of a policy is the same everywhere. Around it are simulated
//!
//! - the machine: sockets, cores, threads, what switches, migrations and interrupts cost
//!   ([`config::Host`]);
//! - virtual machines ([`config::Domain`]), in each a small kernel that schedules the threads of
//!   [`workload`]s on its vCPUs, with spin locks and pause-loop exits;
//! - network and disk, through a driver domain that needs CPU time itself ([`config::Io`]), and
//!   clients outside.
//!
//! Time is in ns as integers. The same [`config::Setup`], policy and seed give the same
//! [`measure::Run`], to the byte, on every machine; runs share nothing, so that as many as wanted
//! can run side by side in threads.
//!
//! ```
//! use steelyard_policy::Policy;
//! use steelyard_simulator::Simulation;
//! use steelyard_simulator::config::{Domain, Host, Setup};
//! use steelyard_simulator::workload::Busy;
//!
//! // Two domains compute all the time on one pCPU; one has twice the weight.
//! let setup = Setup {
//!     host: Host::with_pcpus(1),
//!     domains: vec![
//!         Domain { weight: 512, ..Domain::new("heavy", 1).with_task(1, Busy::default()) },
//!         Domain::new("light", 1).with_task(1, Busy::default()),
//!     ],
//! };
//! let mut simulation = Simulation::new(&setup, &Policy::named("credit2")?, 1)?;
//! simulation.run_until(10_000_000_000);
//! let run = simulation.measure();
//! assert!((run.domains[0].share_percent - 66.7).abs() < 1.0);
//! assert!(run.fairness > 0.99);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Simulation::trace`] records who ran and who waited over a window; `examples/embed.rs` is a
//! whole program.

pub mod config;
mod engine;
mod estimate;
mod fairness;
mod idleness;
pub mod limits;
pub mod measure;
mod numbers;
pub mod priority;
mod random;
mod run_queue;
mod simulation;
mod timers;
mod topology;
pub mod units;
mod validate;
mod waits;
pub mod workload;

pub use estimate::domain_bytes;
pub use fairness::{Usable, demand_percent, entitle, jain};
pub use simulation::Simulation;
pub use waits::{WaitRecorder, quantile_ns, wait_bucket_ns};
