// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the engine with the simulated host's mechanism, and learns from it what `src/engine.rs` must agree with.

fn main() {
    steelyard_core_build::core("src/host.c").compile("steelyard_simulator");
    steelyard_core_build::facts("src/facts.c");
}
