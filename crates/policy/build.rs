// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the policy core, and learns from it what `src/ffi.rs` must agree with.

fn main() {
    steelyard_core_build::core("../../policy/core.c").compile("steelyard_policy");
    steelyard_core_build::facts("src/facts.c");
}
