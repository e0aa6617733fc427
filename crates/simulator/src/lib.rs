// SPDX-License-Identifier: GPL-2.0-only
//! A deterministic simulator of a host with more virtual CPUs than CPUs.

pub mod config;
pub mod measure;
mod simulation;
pub mod units;
mod validate;
pub mod workload;

pub use simulation::Simulation;
