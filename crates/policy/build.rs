// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the policy core with the flags of a kernel: strict warnings, no type-based aliasing.

fn main() {
    println!("cargo::rerun-if-changed=../../policy");
    cc::Build::new()
        .file("../../policy/core.c")
        .std("c11")
        .flag("-fno-strict-aliasing")
        // Without it position-independent code may not inline one function into another.
        .flag("-fvisibility=hidden")
        // Debug information does without; each call of the core would pay for one.
        .force_frame_pointer(false)
        .flag("-Wstrict-prototypes")
        // Every discipline answers a call with the same arguments, used or not.
        .flag("-Wno-unused-parameter")
        .warnings(true)
        .extra_warnings(true)
        .warnings_into_errors(true)
        .opt_level(3)
        .compile("steelyard_policy");
}
