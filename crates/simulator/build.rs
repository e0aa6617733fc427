// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the engine with the simulated host's mechanism (src/host.c), with the flags of a kernel as the core is.

fn main() {
    println!("cargo::rerun-if-changed=../../policy");
    println!("cargo::rerun-if-changed=src/host.c");
    cc::Build::new()
        .file("src/host.c")
        .include("../../policy")
        .std("c11")
        .flag("-fno-strict-aliasing")
        .flag("-fvisibility=hidden")
        .force_frame_pointer(false)
        .flag("-Wstrict-prototypes")
        .flag("-Wno-unused-parameter")
        .warnings(true)
        .extra_warnings(true)
        .warnings_into_errors(true)
        .opt_level(3)
        .compile("steelyard_simulator");
}
